# SPDX-License-Identifier: BSD-3-Clause
"""Moments that a node told, checked before anything is made of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from ..local import moments_kind
from ..moments import LARGEST, LARGEST_FLOAT32, LARGEST_SQUARE, SMALLEST, ClassMoments
from ._fields import LABELS, MOST_ROWS, ROUNDING, Fields, check_definite, or_none

# Of moments that are told with few digits.
_FEW_DIGITS = 5e-2
# Numbers of matrices that are made of fewer numbers.
_MOST_NUMBERS = 2**29


def check_moments(told: Fields, described: Mapping, asked: Mapping) -> None:
    told.only("labels", "moments", "form", "scaled", "factor", "gradient", "slope")
    told.flag("scaled")
    _check_form(told.table("form"))
    labels = told.labels("labels")
    rows, network = described["rows"], described["network"]
    sums = _sums_of(told)
    n_features = network["n_features"]
    exact = check_sums(sums, n_features, len(labels))
    moments = ClassMoments.from_arrays(sums.content)
    counts = moments.class_counts(len(labels))
    own = dict(zip(rows["labels"], rows["moments"].tolist(), strict=True))
    known = np.array([own.get(label, 0) for label in labels])
    # A class that a node has too few rows of is not told of; of several nodes not all
    # need have too few.
    alike = np.abs(counts - known) <= ROUNDING * known
    if "slope" in told.content:
        alike = counts <= known * (1.0 + ROUNDING)
    if not np.all((counts == 0) | alike):
        raise sums.wrong("counts", "are not those of describe.rows")
    # Of a few rows of small classes not even the scatter is told.
    n_told, slack = moments.group_counts.sum(), ROUNDING * known.sum()
    if not counts.sum() - slack <= n_told <= known.sum() + slack:
        raise sums.wrong("group_counts", "are not those of describe.rows")
    _check_kind(sums, moments, len(labels), asked)
    _check_scatter(sums, moments)
    if counts.sum() == known.sum():
        _check_origin(sums, moments, exact)
    n_rows = moments.n_rows
    squares = _squares(moments) + moments.counts @ moments.means**2
    slack = ROUNDING if exact else _FEW_DIGITS
    limit = (1.0 + slack) * np.sqrt(n_rows * np.append(squares, n_rows))
    if "slope" in told.content:
        # A gradient less another.
        shape = n_features + 1, len(labels)
        slope = told.array("slope", shape, high=LARGEST_SQUARE)
        if np.any(np.abs(slope) > 2.0 * limit[:, None]):
            raise told.wrong("slope", "is larger than these moments allow")
    if "gradient" in told.content:
        n_own = int(network["seen"].sum())
        told.number("factor", low=0.0, high=LARGEST)
        shape = n_features + 1, n_own
        gradient = told.array("gradient", shape, high=LARGEST_SQUARE)
        if np.any(np.abs(gradient) > limit[:, None]):
            raise told.wrong("gradient", "is larger than these moments allow")
        # What a row adds to one output it takes from others.
        if np.any(np.abs(gradient.sum(axis=1)) > limit * slack):
            raise told.wrong("gradient", "does not sum to 0 over the outputs")
    elif "factor" in told.content:
        raise told.wrong("gradient", "is missing")


def check_late_moments(told: Fields, asked: Mapping) -> None:
    """Moments of what comes out of merged layers, of rows that were counted before."""
    below = asked.get("below")
    n_features = asked["W"].shape[0] - 1 if asked.get("W") is not None else None
    if below is not None:
        n_features = below["weights"][-1].shape[1]
    told.only("labels", "moments", "form", "scaled", "factor", "gradient")
    told.flag("scaled")
    _check_form(told.table("form"))
    sums, labels = _sums_of(told), told.labels("labels")
    if n_features is None:
        n_features = len(sums.array("origin", (None,)))
    check_sums(sums, n_features, len(labels))
    moments = ClassMoments.from_arrays(sums.content)
    _check_kind(sums, moments, len(labels), asked)
    _check_scatter(sums, moments)
    if "gradient" in told.content:
        told.number("factor", low=0.0, high=LARGEST)
        if asked.get("W") is None:
            raise told.wrong("gradient", "was not asked for")
        told.array("gradient", asked["W"].shape, high=LARGEST_SQUARE)
    elif "factor" in told.content:
        raise told.wrong("gradient", "is missing")


def _sums_of(told: Fields) -> Fields:
    sums = told.table("moments")
    # Known by the task, whose other fields have other names.
    sums.where = told.where
    return sums


def check_sums(sums: Fields, n_features: int, n_labels: int) -> bool:
    """Shapes and values of moments, and whether they are told with all digits."""
    fields = ("origin", "columns", "counts", "means", "groups", "group_counts")
    shapes = ("scatter", "triangles", "unit", "deviations", "correlations", "factors")
    sums.only(*fields, *shapes, "squares", "spreads")
    sums.array("origin", (n_features,))
    counts = sums.array("counts", (None,), high=MOST_ROWS)
    n_parts = len(counts)
    if not n_parts or counts.min() < 1.0 - ROUNDING:
        raise sums.wrong("counts", "are not all of a row at least")
    columns = sums.array("columns", (n_parts,), "i", low=0)
    if columns.max() >= n_labels or (np.diff(columns.astype(np.int64)) < 0).any():
        raise sums.wrong("columns", "are no classes, or not in their order")
    few_digits = "deviations" in sums.content
    least = 2 if few_digits else 8
    # In units of the deviations, where these are told.
    sums.array("means", (n_parts, n_features), least_bytes=least)
    groups = sums.array("groups", (None,), "i", low=-1)
    sums.array("group_counts", groups.shape, low=0.0, high=MOST_ROWS)
    if (
        not len(groups)
        or groups.max() >= n_labels
        or len(set(groups.tolist())) < len(groups)
    ):
        raise sums.wrong("groups", "are no classes, or one stands there twice")
    if not set(columns.tolist()) <= set(groups.tolist()) and -1 not in groups:
        raise sums.wrong("groups", "are without a class that has a mean")
    by_class = len(np.unique(columns)), n_features
    name, high = "squares", LARGEST_SQUARE
    if few_digits:
        name, high = "spreads", LARGEST_FLOAT32
    if name in sums.content:
        sums.array(name, by_class, low=0.0, high=high, least_bytes=least)
    elif {"squares", "spreads"} & set(sums.content):
        raise sums.wrong(name, "is missing")
    pairs = n_features * (n_features - 1) // 2
    if not few_digits:
        if "triangles" in sums.content:
            shape = len(groups), pairs + n_features
            sums.array("triangles", shape, high=LARGEST_SQUARE)
        else:
            shape = len(groups), n_features
            sums.array("scatter", shape, low=0.0, high=LARGEST_SQUARE)
        return True
    sums.array("unit", (n_features,), low=SMALLEST, least_bytes=4)
    deviations = len(groups), n_features
    sums.array("deviations", deviations, low=0.0, high=LARGEST_FLOAT32, least_bytes=2)
    if "correlations" in sums.content or "factors" in sums.content:
        if len(groups) * n_features**2 > _MOST_NUMBERS:
            raise sums.wrong(
                "deviations",
                f"are of {len(groups)} matrices of {n_features} features, which take "
                "more memory than is given to them",
            )
    # Of a correlation, whose diagonal is 1.
    narrow = {"high": 1.0 + _FEW_DIGITS, "least_bytes": 2}
    if "correlations" in sums.content:
        sums.array("correlations", (len(groups), pairs), **narrow)
    elif "factors" in sums.content:
        sums.array("factors", (*deviations, None), **narrow)
    return False


def _check_kind(
    sums: Fields, moments: ClassMoments, n_labels: int, asked: Mapping
) -> None:
    """Moments are of the kind that was asked for."""
    kinds = "auto", "class", "shared", "diagonal"
    if asked.get("kind") not in kinds:
        return
    kind = moments_kind(asked["kind"], moments.n_features, n_labels)
    if moments.is_diagonal != (kind == "diagonal"):
        name = "scatter" if moments.is_diagonal else "triangles"
        raise sums.wrong(name, f"is there, but {kind!r} was asked for")
    if kind == "shared" and moments.groups.tolist() != [-1]:
        raise sums.wrong("groups", "are of classes, but 'shared' was asked for")
    if kind == "shared" and moments.squares is None:
        raise sums.wrong("squares", "is missing, but 'shared' was asked for")


def _squares(moments: ClassMoments) -> np.ndarray:
    """Sum of squares of each feature within parts."""
    total = moments.scatter.sum(axis=0)
    return total if moments.is_diagonal else total.diagonal()


def _check_scatter(sums: Fields, moments: ClassMoments) -> None:
    if moments.squares is not None:
        if moments.is_diagonal:
            raise sums.wrong("squares", "are there, though scatter has them")
        total = _squares(moments) * (1.0 + _FEW_DIGITS)
        if np.any(moments.squares.sum(axis=0) > total):
            raise sums.wrong("squares", "are more than those of all classes")
    if moments.is_diagonal:
        return
    for group, scatter in zip(moments.groups.tolist(), moments.scatter, strict=True):
        check_definite(sums, f"triangles of group {group}", scatter)


def _check_origin(sums: Fields, moments: ClassMoments, exact: bool) -> None:
    """The origin is among the rows: no further from their mean than these allow."""
    mean = moments.mean()
    if not moments.origin.any():
        return  # as of sparse rows
    squares = _squares(moments) + moments.counts @ (moments.means - mean) ** 2
    slack = ROUNDING if exact else _FEW_DIGITS
    noise = 1e-12 * moments.n_rows * np.square(moments.origin)
    if np.any(np.square(mean) > squares * (1.0 + slack) + noise):
        raise sums.wrong("means", "are further from the origin than counts allow")


def _check_form(form: Fields) -> None:
    if "reason" in form.content:
        form.only("reason")
        form.text("reason")
        return
    kind = form.text("kind", among=_FORMS)
    given = set(_FORMS[kind])
    if kind == "lda":
        given -= {"shrinkage"} if form.get("solver") == "svd" else {"tol"}
    form.only("kind", *given)
    for name in sorted(given):
        _FORMS[kind][name](form, name)


def _number_of(low: float, high: float = LARGEST) -> Callable:
    return lambda form, name: form.number(name, low=low, high=high)


def _pairs_or(*words: str) -> Callable:
    """A weight for each label, or one of some words."""

    def check(form, name):
        value = form.get(name)
        if isinstance(value, str):
            form.text(name, among=words)
        elif not isinstance(value, list) or not all(
            isinstance(pair, list)
            and len(pair) == 2
            and type(pair[0]) in LABELS
            and type(pair[1]) in (int, float)
            and 0 <= pair[1] <= LARGEST
            for pair in value
        ):
            raise form.wrong(name, "is no list of labels and weights")

    return check


_FORMS: Mapping[str, Mapping[str, Callable]] = {
    "ridge": {
        "alpha": _number_of(0.0),
        "fit_intercept": Fields.flag,
        "class_weight": or_none(_pairs_or("balanced")),
    },
    "lda": {
        "solver": lambda form, name: form.text(name, among=("svd", "lsqr")),
        "shrinkage": or_none(_number_of(0.0, 1.0)),
        "priors": or_none(_pairs_or()),
        "tol": _number_of(0.0),
    },
    "nearest_centroid": {
        "shrink_threshold": or_none(_number_of(0.0)),
        "priors": _pairs_or("uniform", "empirical"),
    },
}
