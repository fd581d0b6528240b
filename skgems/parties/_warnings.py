"""Warnings of the rows and the classifiers of a node."""

from collections.abc import Mapping, Sequence

import numpy as np

from ..base import MOST_LISTED, warn_user
from ..steps import IDENTIFIES, IN_ORDER, labels_of_written_numbers


class IdentifierWarning(UserWarning):
    """A column identifies rows, like the number of a patient.

    It says nothing about a new row, and a node must not send its values. See
    :ref:`identifiers` for how such columns are found, and for what to do.
    """


class ClassesLeftOutWarning(UserWarning):
    """A node leaves classes with fewer than ``min_rows`` rows out of all that it sends.

    What its classifier knows about these classes is sent nevertheless.
    """


def sentences_on_identifiers(labels: Sequence, roles: Sequence[str]) -> list[str]:
    """Describe columns that may identify rows, by the role that nodes give each."""
    labels_by_role: dict[str, list] = {}
    for label, role in zip(labels, roles, strict=True):
        labels_by_role.setdefault(role, []).append(label)
    sentences = []
    if IDENTIFIES in labels_by_role:
        sentences.append(
            f"The columns {labels_by_role[IDENTIFIES][:MOST_LISTED]} are left out: "
            "they identify rows, as the number of a patient does, since nearly every "
            "row has a value of its own there. If they describe rows, pass a front "
            "that uses them."
        )
    if IN_ORDER in labels_by_role:
        sentences.append(
            f"The columns {labels_by_role[IN_ORDER][:MOST_LISTED]} hold whole numbers "
            "that rise, or fall, from each row to the next. If they number the rows, "
            "as the number of a patient does, leave them out."
        )
    return sentences


def warn_of_written_numbers(X: object) -> None:
    """Warn of columns of texts in a table of rows, if all these texts are numbers."""
    if hasattr(X, "to_pandas"):
        X = X.to_pandas()
    if not hasattr(X, "columns") and not isinstance(X, np.ndarray):
        return
    labels = labels_of_written_numbers(X)
    if labels:
        warn_user(
            f"The columns {labels[:MOST_LISTED]} hold texts that are all numbers, and "
            "are taken as texts: for an encoder each is a category of its own. If they "
            "are measures, convert them at all nodes, as in X[column] = "
            "pandas.to_numeric(X[column]). If they are codes, nothing has to be done."
        )


def warn_of_columns_of_some(
    dropped_by_node: Mapping[str, np.ndarray], labels: Sequence
) -> None:
    """Warn of columns that are left out because some nodes, not all, drop them.

    ``dropped_by_node`` says of each column whether the node's classifier drops it by
    name, (n_columns,), bool.
    """
    masks = np.array(list(dropped_by_node.values()), dtype=bool)
    is_of_some = masks.any(axis=0) & ~masks.all(axis=0)
    if is_of_some.any():
        warn_user(
            "The classifiers of some nodes drop columns by name. These nodes send "
            "nothing about them, so the columns are left out: "
            f"{columns_by_node(dropped_by_node, labels, is_told=is_of_some)}. To use "
            "them, have these nodes fit classifiers that use them, or pass a front, on "
            "which all nodes agree."
        )


def warn_of_lacking_columns(
    dropped_by_node: Mapping[str, np.ndarray], labels: Sequence
) -> None:
    """Warn of columns that some nodes drop by name, and that the aggregate uses."""
    masks = np.array(list(dropped_by_node.values()), dtype=bool)
    is_dropped = masks.any(axis=0)
    if is_dropped.any():
        warn_user(
            "The classifiers of some nodes drop columns by name that others use: "
            f"{columns_by_node(dropped_by_node, labels, is_told=is_dropped)}. These "
            "nodes send nothing about the columns. In a linear aggregate their rows "
            "count as if they had the mean of the other nodes there, and in a network "
            "as if they had 0. Have all nodes fit on the same columns."
        )


def columns_by_node(
    dropped_by_node: Mapping[str, np.ndarray], labels: Sequence, *, is_told: np.ndarray
) -> str:
    """Return the nodes and the columns that each drops, in words."""
    nodes = []
    for name, dropped in dropped_by_node.items():
        columns = [labels[j] for j in np.flatnonzero(dropped & is_told)]
        if columns:
            more = f" and {len(columns) - MOST_LISTED} more" * (
                len(columns) > MOST_LISTED
            )
            nodes.append(f"node {name!r} {columns[:MOST_LISTED]}{more}")
    if len(nodes) > MOST_LISTED:
        nodes[MOST_LISTED:] = [f"and {len(nodes) - MOST_LISTED} more nodes"]
    return "; ".join(nodes)


def warn_of_repeated_identifiers(labels: Sequence, *, at: str = "") -> None:
    """Warn of columns with these names that seem to say which rows belong together.

    ``at`` is the node whose rows these are, if only one is meant.
    """
    if labels:
        warn_user(
            f"{at}The columns {list(labels)[:MOST_LISTED]} seem to say which rows "
            "belong together, as the number of a patient with several visits does. "
            "Then models are judged by patients whom they know, and look too good. "
            "Pass such a column as groups= (--group), and leave it out of X. Columns "
            "that describe rows may stay as they are.",
            IdentifierWarning,
        )
