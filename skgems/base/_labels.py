"""Labels of rows: none may be missing, and they become indices of classes."""

from collections import Counter

import numpy as np
from numpy.typing import ArrayLike

from ..datasets import PUBLIC, PUBLIC_NAME, missing_labels
from ._warnings import MOST_LISTED


def check_no_label_missing(y: ArrayLike, nodes: ArrayLike | None = None) -> None:
    """Raise ValueError if rows have no label; it counts them for each node."""
    missing = missing_labels(y)
    if not missing.any():
        return
    raise ValueError(
        "y has no label (it is None, NaN or NA) for "
        f"{_counts_in_words(missing, nodes)}. Leave these rows out, or give them their "
        "labels: keep = pandas.notna(y), then X[keep], y[keep] and nodes[keep]."
    )


def _counts_in_words(missing: np.ndarray, nodes: ArrayLike | None) -> str:
    """Say how many rows a mask (n_rows,) marks, at each node where it is known."""
    owners = None if nodes is None else np.asarray(nodes, dtype=object).ravel()
    if owners is None or len(owners) != len(missing):
        return f"{missing.sum()} of {len(missing)} rows"
    n_rows_of = Counter(owners.tolist())
    n_missing_of = Counter(owners[missing].tolist())
    counts = [
        f"{n_missing} of the {n_rows_of[node]} rows of {_node_in_words(node)}"
        for node, n_missing in n_missing_of.items()
    ]
    n_not_listed = len(counts) - MOST_LISTED
    if n_not_listed > 0:
        counts = [*counts[:MOST_LISTED], f"rows of {n_not_listed} other nodes"]
    return ", ".join(counts)


def _node_in_words(node: object) -> str:
    """The node of a row as ``nodes`` has it: a name, or a number."""
    is_public = node == PUBLIC_NAME if isinstance(node, str) else node == PUBLIC
    return "the public sample" if is_public else f"node {node!r}"


def encode_labels(
    y: np.ndarray, classes: np.ndarray, *, advice_on_nets: str = ""
) -> np.ndarray:
    """Indices of labels in the sorted ``classes``; ValueError names unknown ones.

    ``advice_on_nets`` ends that error where a node has a net whose classes are the
    numbers of its outputs; it begins with a space.
    """
    if {y.dtype.kind, classes.dtype.kind} == {"i", "u"} and y.min(initial=0) >= 0:
        # Compared as they are, both would become floats of fewer digits.
        y = y.astype(np.uint64)
        classes = classes.astype(np.uint64)
    unknown = np.setdiff1d(y, classes)
    if len(unknown):
        advice = advice_on_nets or _advice_on_numbers(np.unique(y), classes)
        raise ValueError(
            f"y holds labels that no node knows: {unknown[:10].tolist()}. The nodes "
            f"know the classes {classes.tolist()}; leave these rows out, or add a "
            f"node that was fitted on them.{advice}"
        )
    return np.searchsorted(classes, y)


def _advice_on_numbers(labels: np.ndarray, classes: np.ndarray) -> str:
    """Say what to do if one side's labels are numbers from 0; "" if neither's are.

    ``labels`` are those of the rows and ``classes`` those of the nodes, both sorted.
    """
    if np.array_equal(labels, np.arange(len(labels))):
        return (
            " The labels in y are numbers from 0, as LabelEncoder gives them: give "
            "the labels that the nodes have. VotingClassifier and StackingClassifier "
            "number classes from 0 where they fit their members anew: give a fitted "
            "aggregator to StackingClassifier(cv='prefit')."
        )
    if np.array_equal(classes, np.arange(len(classes))):
        return (
            " The classes of the nodes are numbers from 0, as LabelEncoder gives "
            "them: give y numbered in the same way at all nodes. Classes are numbered "
            "from 0 in the estimators_ of a VotingClassifier, too: give "
            "EnsembleAggregator the whole VotingClassifier."
        )
    return ""
