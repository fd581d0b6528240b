"""Labels of rows: none may be missing, and they become indices of classes."""

from collections import Counter

import numpy as np

from ..datasets import PUBLIC, PUBLIC_NAME, missing_labels

# Nodes that an error lists, before it says how many others there are.
_MOST_LISTED = 5


def check_no_label_missing(y, nodes=None) -> None:
    """Raise ValueError if rows have no label; it counts them for each node."""
    missing = missing_labels(y)
    if not missing.any():
        return
    raise ValueError(
        "y has no label (it is None, NaN or NA) for "
        f"{_counts_in_words(missing, nodes)}. Leave these rows out, or give them their "
        "labels: keep = pandas.notna(y), then X[keep], y[keep] and nodes[keep]."
    )


def _counts_in_words(missing: np.ndarray, nodes) -> str:
    """How many rows a mask (n_rows,) marks, at each node where it is known."""
    owners = None if nodes is None else np.asarray(nodes, dtype=object).ravel()
    if owners is None or len(owners) != len(missing):
        return f"{missing.sum()} of {len(missing)} rows"
    sizes = Counter(owners.tolist())
    counts = [
        f"{n_missing} of the {sizes[node]} rows of {_node_in_words(node)}"
        for node, n_missing in Counter(owners[missing].tolist()).items()
    ]
    if len(counts) > _MOST_LISTED:
        counts[_MOST_LISTED:] = [f"rows of {len(counts) - _MOST_LISTED} other nodes"]
    return ", ".join(counts)


def _node_in_words(node) -> str:
    is_public = node == PUBLIC_NAME if isinstance(node, str) else node == PUBLIC
    return "the public sample" if is_public else f"node {node!r}"


def encode_labels(
    y: np.ndarray, classes: np.ndarray, *, about_nets: str = ""
) -> np.ndarray:
    """Indices of labels in the sorted ``classes``; ValueError names unknown ones.

    ``about_nets`` says what to do with nets whose classes are numbers of outputs.
    """
    unknown = np.setdiff1d(y, classes)
    if len(unknown):
        advice = about_nets or _about_numbered(np.unique(y), classes)
        raise ValueError(
            f"y holds labels that no node knows: {unknown[:10].tolist()}. The nodes "
            f"know the classes {classes.tolist()}; leave these rows out, or add a "
            f"node that was fitted on them.{advice}"
        )
    return np.searchsorted(classes, y)


def _about_numbered(labels: np.ndarray, classes: np.ndarray) -> str:
    """What puts numbers from 0 in place of labels, if these look like such."""
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
