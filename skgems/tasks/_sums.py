"""Sums over rows in messages: counts, means and products of features, by class.

The letters of shapes: n means (parts), g matrices (groups), d features, s classes, r
directions, l labels.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ..messages import (
    ABSENT,
    MOST_ROWS,
    ROUNDING,
    Array,
    Place,
    counting,
    listed,
    rows_in_words,
    rows_of_groups,
)
from ..moments import LARGEST, SMALLEST
from ._shared import (
    come_together,
    has_weights,
    optional_array,
    sums,
    whole_numbers,
)

# ---- what fields say in figures ----------------------------------------------------


def _origin_in_words(content: Mapping, reply: Mapping) -> str:
    return "" if content["origin"].any() else "Here all its numbers are 0."


def _means_in_words(content: Mapping, reply: Mapping) -> str:
    counts = content["counts"]
    columns = content["columns"]
    labels = reply.get("labels")
    n_classes = len(np.unique(columns))
    part = "cluster, of class" if len(counts) > n_classes else "class,"
    if "n_rows" in reply:  # of clusters only the weights are told
        counts = reply["n_rows"][columns]
        part = "class,"
    least = int(np.argmin(counts))
    label = columns[least] if labels is None else repr(labels[columns[least]])
    words = (
        f"{len(content['origin'])} features, {counting(len(counts), 'mean')} in "
        f"{counting(n_classes, 'class', 'classes')}. The smallest {part} {label}, has "
        f"{rows_in_words(counts[least])}."
    )
    n_of_one_row = int(np.sum(counts <= 1))
    if n_of_one_row:
        means = counting(n_of_one_row, "mean is that", "means are those")
        words += f" {means} of a single row: the row itself is sent."
    without_mean = [
        repr(label) for i, label in enumerate(labels or ()) if i not in columns
    ]
    if without_mean:
        words += f" Classes with too few rows have no mean: {listed(without_mean)}."
    return words


def _scatter_in_words(content: Mapping, reply: Mapping) -> str:
    groups = content["groups"]
    sizes = rows_of_groups({**reply, "moments": content})
    labels = reply.get("labels") or range(int(groups.max()) + 1)
    names = [
        "all classes with too few rows" if k < 0 else repr(labels[k]) for k in groups
    ]
    least = int(np.argmin(sizes))
    n_of_one_class = int((groups >= 0).sum())
    if not n_of_one_class:
        return f"Over all classes together: {rows_in_words(sizes.sum())}."
    words = (
        f"One matrix for each of {counting(n_of_one_class, 'class', 'classes')}. The "
        f"fewest rows are those of {names[least]}: {rows_in_words(sizes[least])}."
    )
    if n_of_one_class < len(groups):
        words += " One more matrix is for all classes with too few rows together."
    return words


def _block_in_words(content: Mapping, reply: Mapping) -> str:
    return f"Here these are {int(content['block'].sum())} of {len(content['block'])}."


# ---- rules -------------------------------------------------------------------------


def sums_fit(content: Mapping, place: Place) -> None:
    """Raise ValueError unless sums are of classes that there are, in one form."""
    _check_classes_of_sums(content, place)
    if "squares" in content:
        shape = content["squares"].shape
        is_wrong = shape[0] != len(np.unique(content["columns"]))
        place.deny(is_wrong, "squares", f"has the shape {shape}")
    come_together(content, "root_groups", "roots", place)
    if "roots" in content:
        _check_roots(content, place)
    if "block" in content:
        _check_block(content, place.at("block"))
    forms = {"triangles", "scatter", "roots"} & set(content)
    if len(forms) != 1:
        raise place.at("triangles").wrong("is missing, or there is more beside it")


def _check_classes_of_sums(content: Mapping, place: Place) -> None:
    n_labels = place.lengths.get("l", MOST_ROWS)
    counts = content["counts"]
    columns = content["columns"]
    groups = content["groups"]
    least = SMALLEST if has_weights(place) else 1.0 - ROUNDING
    if not len(counts) or counts.min() < least:
        raise place.at("counts").wrong("are not all of a row at least")
    if columns.max() >= n_labels or (np.diff(columns.astype(np.int64)) < 0).any():
        raise place.at("columns").wrong("are no classes, or not in their order")
    n_groups = len(np.unique(groups))
    if not n_groups or groups.max() >= n_labels or n_groups < len(groups):
        raise place.at("groups").wrong("are no classes, or one stands there twice")
    if not set(columns.tolist()) <= set(groups.tolist()) and -1 not in groups:
        raise place.at("groups").wrong("are without a class that has a mean")


def _check_block(content: Mapping, place: Place) -> None:
    """Only a shared matrix has a block, outside of which it is 0."""
    is_shared = content["groups"] == -1
    place.deny(not is_shared.any() or "triangles" not in content, "has no matrix")
    block = content["block"]
    rows, columns = np.triu_indices(len(block))
    is_told = (block[rows] & block[columns]) | (rows == columns)
    products = content["triangles"][is_shared]
    place.deny(bool(products[:, ~is_told].any()), "lacks features with products")


def _check_roots(content: Mapping, place: Place) -> None:
    """Each is of a matrix; they are not more than the rows, nor of one class twice."""
    groups = content["root_groups"]
    place_of_groups = place.at("root_groups")
    n_matrices = len(content["groups"])
    place_of_groups.deny(len(groups) and groups.max() >= n_matrices, "are of no matrix")
    n_roots = np.bincount(groups, minlength=n_matrices)
    are_too_many = np.any(n_roots > content["group_counts"] * (1.0 + ROUNDING))
    if are_too_many and not has_weights(place):
        raise place_of_groups.wrong("are more than the rows")
    if "squares" in content:
        raise place.at("squares").wrong("are there, though roots have them")


def sums_of_others_fit(content: Mapping, place: Place) -> None:
    """Sums of the rows of other nodes, whose lengths are not those of the message."""
    sums_fit(content, replace(place, lengths={}))


# ---- fields ------------------------------------------------------------------------

_VARIANCES = "Variances of the features about these means, for each class."
_OF_PARTS = (
    "Variances of the features about each mean: how far the rows of a cluster are from "
    "it. For two rows, these and the mean reveal the rows, except for signs."
)
_SCATTER = (
    "Sums of products of the features' deviations from these means: variances and "
    "covariances. Together with the means they reveal one or two rows exactly. Where "
    "there are fewer rows than features, single rows can be recognized in them."
)

_LESS = "Rows of large leverage count for less than one under the rule of disclosure."


def _number_of_rows(shape: str, sentence: str) -> Array:
    return Array(shape, low=0.0, high=float(MOST_ROWS), says=sentence)


FIELDS_OF_SUMS = {
    "origin": Array(
        "d",
        says="The point from which means are measured: for each feature the median of "
        "at most 25 rows. It is a value that a row has, or near one; under the rule it "
        "is a mean over all rows.",
        detail=_origin_in_words,
    ),
    "columns": whole_numbers("n", says="Class of each mean."),
    "counts": _number_of_rows("n", f"Number of rows of each mean. {_LESS}"),
    "means": Array(
        "n d",
        says="Means of the features by class, or by clusters of a class. A mean of a "
        "single row is that row; the fewer rows, the nearer the mean is to each.",
        detail=_means_in_words,
    ),
    "groups": Array("g", kinds="i", low=-1, says="Class of each matrix."),
    "group_counts": _number_of_rows("g", f"Number of rows of each matrix. {_LESS}"),
    "triangles": sums(
        "g d(d+1)/2", default=ABSENT, says=_SCATTER, detail=_scatter_in_words
    ),
    "scatter": optional_array(
        "g d",
        high=LARGEST**2,
        says="Sums of the squared deviations of the features from these means: "
        "variances. They do not say how features vary together.",
        detail=_scatter_in_words,
    ),
    "squares": sums("s d", says=_VARIANCES, low=0.0, default=ABSENT),
    "part_squares": sums("n d", says=_OF_PARTS, low=0.0, default=ABSENT),
    "roots": Array(
        "r d",
        default=ABSENT,
        says="Directions whose products sum to the variances and covariances, as many "
        "as there are rows, where there are fewer rows than features. They span the "
        "rows: single rows can be recognized, and rows of whole numbers recovered.",
        detail=_scatter_in_words,
    ),
    "block": Array(
        "d",
        kinds="b",
        default=ABSENT,
        says="Which features the matrix of several classes together has products of: "
        "they are drawn at the node, where all would say too much of its rows. Of the "
        "others it has variances alone.",
        detail=_block_in_words,
    ),
    "root_groups": whole_numbers("r", says="Matrix of each direction.", default=ABSENT),
}
