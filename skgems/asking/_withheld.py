"""What nodes of one process would not tell of their rows if they were apart.

In one process nothing leaves, and no rule of disclosure holds. Numbers of rows alone
say a part of what the default rule would withhold: classes of few rows, and products of
columns that are too many for the rows. The rest depends on the leverages of single
rows, which nobody computes in such a fit.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from ..base import MOST_LISTED, BaseAggregator
from ..disclosure import Disclosure, has_room_for_products
from ..local import class_sizes
from ..messages import request_in, task_named
from ..moments import moments_kind
from ..parties import Federation, Node, shown_labels


def row_numbers(federation: Federation) -> dict[str, dict]:
    """Return numbers of rows and columns of each node that is in this process.

    They are kept for the report. There are none where a rule held in the fit.
    """
    if federation.disclosure is not None or federation.joined is not None:
        return {}
    n_columns = federation.features.n_features_in
    front = federation.front
    return {
        node.name: {
            **_numbers_by_class(federation, node),
            "n_columns": n_columns,
            # Documents have no columns before the front.
            "n_raw_columns": (front and front.columns.n) or n_columns,
        }
        for node in federation.nodes
        if node.record is None and len(node.moment_rows)
    }


def _numbers_by_class(federation: Federation, node: Node) -> dict[str, list]:
    """Return the labels of a node, and how many rows and groups of rows have each."""
    codes = federation.y[node.moment_rows]
    n_classes = len(federation.classes)
    n_rows = np.bincount(codes, minlength=n_classes)
    n_units = n_rows
    if federation.groups is not None:
        n_units = class_sizes(codes, federation.groups[node.moment_rows], n_classes)
    present = np.flatnonzero(n_rows)
    return {
        "labels": federation.classes[present].tolist(),
        "n_rows": n_rows[present].tolist(),
        "n_units": n_units[present].tolist(),
    }


def withheld_in_words(aggregator: BaseAggregator) -> str:
    """Return what nodes would not tell if they were apart; "" if counts say nothing."""
    rule = Disclosure()
    sentences = [
        f"node {name!r} {'; '.join(clauses)}"
        for name, numbers in getattr(aggregator, "_row_numbers", {}).items()
        if (clauses := list(_clauses(aggregator, numbers, rule)))
    ]
    if not sentences:
        return ""
    n_others = len(sentences) - MOST_LISTED
    others = f"; and {n_others} more nodes" if n_others > 0 else ""
    return (
        "If the nodes were apart, these would tell less under the default rule of "
        f"disclosure: {'; '.join(sentences[:MOST_LISTED])}{others}. This follows "
        "from numbers of rows. Single rows may make nodes tell less still: a fit with "
        "disclosure=Disclosure() shows the model that comes out."
    )


def _clauses(
    aggregator: BaseAggregator, numbers: Mapping, rule: Disclosure
) -> Iterator[str]:
    """Yield what a node would do otherwise, as ends of a sentence about it."""
    n_rows = np.array(numbers["n_rows"])
    n_units = np.array(numbers["n_units"])
    is_large = n_units >= rule.min_rows
    labels = np.array(numbers["labels"], dtype=object)
    if not is_large.any():
        yield f"would send nothing, as no class has {rule.min_rows} rows"
        return
    if not is_large.all():
        yield (
            f"would leave out the classes {shown_labels(labels[~is_large])}, of fewer "
            f"than {rule.min_rows} rows"
        )
    kind = _kind_of_products(aggregator, numbers)
    if kind not in ("class", "shared", "roots"):
        return
    is_left = is_large.copy()
    for c in np.flatnonzero(is_large):
        is_left[c] = not _has_room(numbers, rule, n_rows[[c]], n_units[[c]])
    if not is_left.any():
        return
    n_columns = numbers["n_columns"]
    if not _has_room(numbers, rule, n_rows[is_left], n_units[is_left]):
        yield (
            f"has too few rows of the classes {shown_labels(labels[is_left])} to tell "
            f"products of {n_columns} columns, and would tell those of fewer at most"
        )
    elif kind != "shared":
        yield (
            "would tell at most one covariance of the classes "
            f"{shown_labels(labels[is_left])} together, which have few rows for "
            f"{n_columns} columns"
        )


def _has_room(
    numbers: Mapping, rule: Disclosure, n_rows: np.ndarray, n_units: np.ndarray
) -> bool:
    """Report whether classes together have rows enough for products of all columns."""
    return has_room_for_products(
        rule,
        n_rows=int(n_rows.sum()),
        n_units=int(n_units.sum()),
        n_columns=numbers["n_columns"],
        n_groups=len(n_rows),
        n_others=len(n_rows) * numbers["n_columns"],
        n_unknowns=numbers["n_raw_columns"],
    )


def _kind_of_products(aggregator: BaseAggregator, numbers: Mapping) -> str:
    """Return which products nodes are asked for; "" if they are asked for none."""
    for request in aggregator._method().terms.first_requests():
        kind_of_moments = task_named(request.task).kind_of_moments
        if kind_of_moments is not None:
            return moments_kind(
                kind_of_moments(request_in(request)),
                n_features=numbers["n_columns"],
                n_classes=len(numbers["labels"]),
            )
    return ""
