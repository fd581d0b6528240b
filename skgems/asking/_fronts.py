"""Fit a front of what nodes tell of their columns, and take rows through it.

A front is a tree of transformers that all agree on. Nodes first tell their columns, of
which the common ones are settled, and then, in a message for each step that depends on
the output of another, the statistics that the step is fitted to.
"""

from collections import Counter
from collections.abc import Generator, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from ..base import BaseAggregator, warn_user
from ..compat import safe_indexing
from ..disclosure import Disclosure, disclosure_within
from ..messages import Message, Reply
from ..networks import dropped_in_table, is_fitted
from ..parties import (
    Members,
    RowsLike,
    WeightedRows,
    as_groups,
    as_mask,
    fitted_without_learning,
    labels_of_rows,
    owners_of,
    raise_front_not_fitted,
    ruled_column_member,
    warn_of_columns_of_some,
    warn_of_written_numbers,
)
from ..steps import (
    LEFT_OUT,
    NOT_USED,
    Advanced,
    Columns,
    Front,
    NotPooledError,
    agreed_roles,
    front_of_content,
    names_alike,
)
from ._channel import InProcess
from ._run import Run
from ._warnings import warn_of_encoded_identifiers, warn_of_identifiers


def front_plan(front: Front) -> Generator:
    """Plan whose result is an Advanced, fitted; one message for each step of rows."""
    while True:
        request = Message.of("front", front=front.as_content())
        replies = dict((yield request))
        if front.columns is None:
            front, nodes_with_others = _with_columns(front, replies)
            if nodes_with_others:
                # What they told is of other columns than all nodes use.
                request = Message.of("front", front=front.as_content())
                replies |= dict((yield dict.fromkeys(nodes_with_others, request)))
        advanced = front.advanced(_parts_by_step(replies))
        for kind, labels in advanced.identifiers.values():
            warn_of_encoded_identifiers(kind, labels)
        if advanced.fitted is not None:
            _warn_of_inexact(advanced)
            return advanced
        _check_answerable(front, advanced)
        front = advanced.front


def _parts_by_step(replies: Mapping[str, Reply]) -> dict[str, dict]:
    """Return what each node told of each step, by path of the step, then node."""
    parts_by_step: dict[str, dict] = {}
    for node, reply in replies.items():
        for path, part in reply.parts.items():
            parts_by_step.setdefault(path, {})[node] = part
    return parts_by_step


def _warn_of_inexact(advanced: Advanced) -> None:
    """Warn of steps that are not those of all rows."""
    for step_type, doubt in advanced.doubts:
        if step_type not in advanced.front.unasked:
            warn_user(doubt)
    if advanced.empty:
        warn_user(
            f"The front leaves out the columns {advanced.empty[:10]}: no value occurs "
            "in min_rows rows of any node, so nodes send none of the values. If a "
            "column identifies rows, as the number of a patient does, leave it out of "
            "all tables. Otherwise agree on categories=[...], or have nodes answer "
            "with a Disclosure of a smaller min_rows."
        )


def _check_answerable(front: Front, advanced: Advanced) -> None:
    """Raise if no message will fit what is left of a front."""
    for pending in advanced.pending.values():
        if not pending.can_tell:
            raise NotPooledError(
                f"{type(pending.step).__name__} needs bounds of the columns that enter "
                "it, which all nodes agree on: nodes do not send their smallest and "
                "largest values, which are values of single rows. Set bounds={column: "
                "(low, high)}. Bounds follow a column through scalers and imputers "
                "only, so this step has to stand before steps that mix columns."
            )
    if len(advanced.front.states) == len(front.states):
        kinds = [type(pending.step).__name__ for pending in advanced.pending.values()]
        raise ValueError(
            f"No node sent the statistics that {kinds} are fitted to. Ask nodes that "
            "have rows, or pass a fitted PooledTransformer as front."
        )


def _with_columns(
    front: Front, replies: Mapping[str, Reply]
) -> tuple[Front, list[str]]:
    """Return the front with the columns of all nodes, and the nodes to be asked again.

    ``replies`` are the first ones, by name of the node.
    """
    columns_of_nodes = {
        name: Columns.from_content(reply.columns) for name, reply in replies.items()
    }
    columns = _common_columns(columns_of_nodes)
    to_ask_again = {
        node
        for node, columns_of_node in columns_of_nodes.items()
        if _differ(columns_of_node, columns) or replies[node].again is not None
    }
    if front.drop_identifiers:
        columns, dissenting = _drop_identifiers(columns, replies)
        to_ask_again |= dissenting
    front = replace(front, columns=columns)
    front.check_texts(columns_of_nodes)
    if front.chooses_columns:
        _warn_of_unused_columns(columns, columns_of_nodes)
        _warn_of_texts_at_few_nodes(columns, columns_of_nodes)
    return front, [node for node in replies if node in to_ask_again]


def _warn_of_unused_columns(
    columns: Columns, columns_of_nodes: Mapping[str, Columns]
) -> None:
    """Warn of columns that some nodes have, and that are not among those of all."""
    owners: dict[str, list[str]] = {}  # of each such column, the nodes
    for node, columns_of_node in columns_of_nodes.items():
        for column in set(columns_of_node.names or ()) - set(columns.names or ()):
            owners.setdefault(column, []).append(node)
    for column, names in sorted(owners.items()):
        warn_user(
            f"The column {column!r} of the nodes {names[:5]} is not used, because "
            "other nodes do not have it."
        )


def _warn_of_texts_at_few_nodes(
    columns: Columns, columns_of_nodes: Mapping[str, Columns]
) -> None:
    """Warn where most nodes have numbers, or nothing, in a column of texts."""
    for column, is_text in zip(columns.names or (), columns.text, strict=False):
        names = [
            node
            for node, columns_of_node in columns_of_nodes.items()
            if columns_of_node.has_text([column])
        ]
        if is_text and 2 * len(names) <= len(columns_of_nodes):
            warn_user(
                f"The column {column!r} holds texts only at the nodes {names[:5]}, and "
                "is encoded. Nodes where it holds numbers will refuse, unless these "
                "are a few whole numbers, which are taken for codes. Have all nodes "
                "write the column in the same way."
            )


def _common_columns(columns_of_nodes: Mapping[str, Columns]) -> Columns:
    """The columns that all nodes have, in the order that most of them have.

    A column holds texts where it does at any node. ValueError where a node lacks one.
    """
    counts = Counter(
        (columns.names, columns.n) for columns in columns_of_nodes.values()
    )
    # Among orders that are equally frequent the first by its text, so that the order of
    # the nodes does not matter.
    names, n_columns = min(counts, key=lambda order: (-counts[order], repr(order)))
    is_text = np.zeros(n_columns, dtype=bool)
    for node, columns in columns_of_nodes.items():
        places = _places_of(columns, names, n_columns=n_columns, node=node)
        is_text |= np.array(columns.text)[places]
    dtypes = {columns.dtype for columns in columns_of_nodes.values()}
    return Columns(
        n=n_columns,
        names=names,
        text=tuple(is_text.tolist()),
        dtype="float32" if dtypes == {"float32"} else "float64",
    )


def _places_of(
    columns: Columns, names: tuple[str, ...] | None, *, n_columns: int, node: str
) -> list[int]:
    """Return a node's places of the common columns; ValueError if it lacks one."""
    if names is not None and columns.names is not None:
        missing = sorted(set(names) - set(columns.names))
        if missing:
            raise ValueError(
                f"Node {node!r} lacks the columns {missing[:10]}. Add them to the "
                "node's rows, or leave them out at all nodes."
                f"{names_alike(missing, columns.names)}"
            )
        return [columns.names.index(name) for name in names]
    if columns.n != n_columns:
        raise ValueError(
            f"Node {node!r} has {columns.n} columns, others have {n_columns}: nodes "
            "must describe their rows by the same columns."
        )
    return list(range(n_columns))


def _differ(columns: Columns, common: Columns) -> bool:
    """Report whether a node's columns are others, or in another order.

    What such a node told is not of the columns that the front is fitted on. Arrays have
    no names, and are taken to have the columns in the order of the others.
    """
    has_other_names = bool(columns.names) and columns.names != common.names
    return has_other_names or columns.text != common.text


def _drop_identifiers(
    columns: Columns, replies: Mapping[str, Reply]
) -> tuple[Columns, set[str]]:
    """Return columns that do not identify rows, and nodes that say otherwise.

    What these nodes told is of the columns that they would leave in.
    """
    roles_of_nodes = {
        node: _roles_of(columns, reply.columns) for node, reply in replies.items()
    }
    agreed = agreed_roles(list(roles_of_nodes.values()))
    if all(role in LEFT_OUT for role in agreed):
        raise ValueError(
            f"All columns, {columns.labels[:5]}, identify rows, as the number of a "
            "patient does, or are dropped by a node's classifier, so no column is left "
            "to learn from."
        )
    warn_of_identifiers(columns.labels, agreed)
    warn_of_columns_of_some(
        {
            node: np.array([role == NOT_USED for role in roles])
            for node, roles in roles_of_nodes.items()
        },
        columns.labels,
    )
    without_identifiers = columns.leave_out_identifiers(agreed)
    dissenting = {
        node
        for node, roles in roles_of_nodes.items()
        if columns.leave_out_identifiers(roles) != without_identifiers
    }
    return without_identifiers, dissenting


def _roles_of(columns: Columns, content: Mapping) -> list[str]:
    """Return the roles that a node gave to these columns, in their order."""
    columns_of_node = Columns.from_content(content)
    if columns.names is None or columns_of_node.names is None:
        return list(content["roles"])
    role_of = dict(zip(columns_of_node.names, content["roles"], strict=True))
    return [role_of[name] for name in columns.names]


def fit_front(
    front: Front,
    X: RowsLike,
    nodes: ArrayLike | None = None,
    *,
    y: ArrayLike | None = None,
    held_out: np.ndarray | None = None,
    groups: np.ndarray | None = None,
    disclosure: Disclosure | None = None,
    n_jobs: int | None = None,
) -> tuple[Advanced, list[dict]]:
    """An Advanced of rows that are here, and the history of the messages.

    ``held_out`` marks rows that only score, shape (n_samples,); fronts are not fitted
    to them, and a node that has no others takes no part.
    """
    warn_of_written_numbers(X)
    X = Columns.from_table(X).arranged(X)  # once for all nodes
    y = labels_of_rows(X, y)
    members = []
    for name, rows in owners_of(nodes, X).items():
        held_out_of_node = None if held_out is None else held_out[rows]
        only_scores = held_out_of_node is not None and held_out_of_node.all()
        if len(rows) and not only_scores:
            X_of_node = safe_indexing(X, rows)
            members.append(
                ruled_column_member(
                    name,
                    X_of_node,
                    None if y is None else y[rows],
                    held_out=held_out_of_node,
                    groups=None if groups is None else groups[rows],
                    disclosure=disclosure,
                )
            )
    run = Run(InProcess(members, n_jobs=n_jobs))
    return run(front_plan(front)), run.history


def fitted_front(
    aggregator: BaseAggregator,
    front: Front,
    user_rows: WeightedRows,
    *,
    joined: Run | None,
    members: Members,
) -> tuple[Front, list[dict]]:
    """Return the front that is agreed on, as it is fitted, and its messages.

    It is that which was fitted over the channel, or is fitted to the rows of the nodes
    here, if it is not fitted.
    """
    if joined is not None:
        return front_of_content(joined.context.front), []
    if front.columns is not None:
        return front, []
    X = user_rows.X
    if X is None:
        fitted = fitted_without_learning(front)
        if fitted is None:
            raise_front_not_fitted(front)
        return fitted, []
    mask = as_mask(user_rows.held_out, X)
    if aggregator.front is None:  # it is one that trees need, and nobody has agreed on
        front = replace(front, columns=_columns_of_all(members, X))
    advanced, history = fit_front(
        front,
        X,
        user_rows.nodes,
        y=user_rows.y,
        held_out=mask,
        groups=as_groups(user_rows.groups, X),
        disclosure=disclosure_within(aggregator.disclosure),
        n_jobs=aggregator.n_jobs,
    )
    return advanced.front, history


def _columns_of_all(members: Members, X: RowsLike) -> Columns | None:
    """Return the columns without those that members drop by name; None: they drop none.

    It warns of columns that only some of them drop.
    """
    columns = Columns.from_table(X)
    dropped_by_node = {}
    for name, classifier in zip(members.names, members.classifiers, strict=True):
        dropped = None
        if classifier is not None and is_fitted(classifier, name=name):
            dropped = dropped_in_table(classifier, X)
        if dropped is None:
            dropped = np.zeros(columns.n, dtype=bool)
        dropped_by_node[name] = dropped
    left_out = np.logical_or.reduce(list(dropped_by_node.values()))
    if not left_out.any():
        return None
    warn_of_columns_of_some(dropped_by_node, columns.labels)
    return replace(columns, left_out=tuple(left_out.tolist()))
