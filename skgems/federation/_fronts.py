"""Fit a front of what nodes tell of their columns, and take rows through it."""

from collections import Counter
from collections.abc import Generator, Mapping
from dataclasses import replace

import numpy as np

from ..base import warn_user
from ..compat import safe_indexing
from ..local import stacked
from ..messages import Message
from ..steps import (
    IDENTIFIES,
    Advanced,
    Columns,
    Front,
    NotPooledError,
    agreed_roles,
)
from ._channel import InProcess
from ._nodes import node_codes, node_names_of
from ._rows import column_member
from ._run import Run
from ._warnings import warn_of_encoded_identifiers, warn_of_identifiers


def front_plan(front: Front) -> Generator:
    """Plan whose result is an Advanced, fitted; one message for each step of rows."""
    while True:
        request = Message.of("front", front=front.as_content())
        replies = {name: reply.content for name, reply in (yield request)}
        if front.columns is None:
            front, others = _with_columns(front, replies)
            if others:
                request = Message.of("front", front=front.as_content())
                again = yield dict.fromkeys(others, request)
                replies |= {name: reply.content for name, reply in again}
        parts: dict[str, dict] = {}  # of each step what each node told, by its name
        for node, reply in replies.items():
            for path, part in reply["parts"].items():
                parts.setdefault(path, {})[node] = part
        advanced = front.advanced(parts)
        for kind, labels in advanced.identifiers.values():
            warn_of_encoded_identifiers(kind, labels)
        if advanced.fitted is not None:
            _warn_of_inexact(advanced)
            return advanced
        _check_answerable(front, advanced)
        front = advanced.front


def _warn_of_inexact(fitted: Advanced) -> None:
    """Warn of steps that are not those of all rows."""
    for kind, error in fitted.errors.values():
        if error == np.inf:
            warn_user(
                f"{kind} keeps some of several axes of equal variance, which rounding "
                "chooses: scikit-learn's fit on all rows may have others. Keep more "
                "or fewer components."
            )
    if fitted.empty:
        warn_user(
            f"The front leaves out the columns {fitted.empty[:10]}: none of their "
            "values has min_rows rows at a node, so that nodes tell none of them. A "
            "column that identifies rows, as the number of a patient does, says "
            "nothing of other rows: leave it out of all tables. Otherwise agree on "
            "categories=[...], or have nodes set a smaller min_rows."
        )


def _check_answerable(front: Front, advanced: Advanced) -> None:
    """Raise if no message will fit what is left of a front."""
    for waits in advanced.pending.values():
        if not waits.can_tell(front.bounds == "tell"):
            raise NotPooledError(
                f"{type(waits.step).__name__} looks at the smallest and the "
                "largest value of each column, which are values of rows, or at "
                "counts on a grid between bounds that all agree on: give bounds, "
                "{column: (low, high)}; or bounds='tell' has nodes tell the "
                "values, where these will do."
            )
    if len(advanced.front.states) == len(front.states):
        kinds = [type(waits.step).__name__ for waits in advanced.pending.values()]
        raise ValueError(f"no node told what {kinds} are fitted to.")


def _with_columns(front: Front, told: Mapping[str, Mapping]) -> tuple[Front, list[str]]:
    """The front with the columns of all nodes, and the nodes to be asked again."""
    nodes = {
        name: Columns.from_content(reply["columns"]) for name, reply in told.items()
    }
    columns, others = _common(told, nodes)
    if front.drop_identifiers:
        columns, differing = _without_identifiers(columns, told)
        others = [node for node in told if node in {*others, *differing}]
    front = replace(front, columns=columns)
    front.check_texts(nodes)
    if front.chooses_columns:
        _warn_of_unused_columns(columns, nodes)
        _warn_of_texts_at_few_nodes(columns, nodes)
    return front, others


def _warn_of_unused_columns(columns: Columns, nodes: Mapping[str, Columns]) -> None:
    owners: dict[str, list[str]] = {}
    for node, of_node in nodes.items():
        for column in set(of_node.names or ()) - set(columns.names or ()):
            owners.setdefault(column, []).append(node)
    for column, names in sorted(owners.items()):
        warn_user(
            f"The column {column!r} of the nodes {names[:5]} is not used, since other "
            "nodes lack it."
        )


def _warn_of_texts_at_few_nodes(columns: Columns, nodes: Mapping[str, Columns]) -> None:
    """Warn where most nodes have numbers, or nothing, in a column of texts."""
    for column, is_text in zip(columns.names or (), columns.text, strict=False):
        names = [node for node, own in nodes.items() if own.has_text([column])]
        if is_text and 2 * len(names) <= len(nodes):
            warn_user(
                f"The column {column!r} holds texts at the nodes {names[:5]} alone, "
                "and is encoded. Nodes where it holds numbers will refuse: let all "
                "nodes write it alike."
            )


def _common(
    told: Mapping[str, Mapping], nodes: Mapping[str, Columns]
) -> tuple[Columns, list[str]]:
    """The columns of all nodes, and the nodes that have others, or in another order."""
    counts = Counter((c.names, c.n) for c in nodes.values())
    # The same whatever the order of the nodes.
    names, n = min(counts, key=lambda key: (-counts[key], repr(key)))
    text = np.zeros(n, dtype=bool)
    for node, columns in nodes.items():
        order = range(n)
        if names is not None and columns.names is not None:
            missing = sorted(set(names) - set(columns.names))
            if missing:
                raise ValueError(f"Node {node!r} lacks the columns {missing[:10]}.")
            order = [columns.names.index(name) for name in names]
        elif columns.n != n:
            raise ValueError(
                f"Node {node!r} has {columns.n} columns, others have {n}: nodes must "
                "describe their rows by the same columns."
            )
        text |= np.array(columns.text)[list(order)]
    dtypes = {columns.dtype for columns in nodes.values()}
    dtype = "float32" if dtypes == {"float32"} else "float64"
    common = Columns(n, names, tuple(text.tolist()), dtype)
    others = [
        node
        for node, columns in nodes.items()
        if (columns.names or names, columns.text) != (names, common.text)
        or "again" in told[node]
    ]
    return common, others


def _without_identifiers(
    columns: Columns, told: Mapping[str, Mapping]
) -> tuple[Columns, list[str]]:
    """The columns without those that identify rows, and nodes that found others to."""
    roles = {node: _roles_of(columns, reply["columns"]) for node, reply in told.items()}
    agreed = agreed_roles(list(roles.values()))
    if all(role == IDENTIFIES for role in agreed):
        raise ValueError(
            f"All columns, {columns.labels[:5]}, identify rows, as the number of a "
            "patient does, so that none is left to learn from."
        )
    warn_of_identifiers(columns.labels, agreed)
    without = columns.without_identifiers(agreed)
    others = [
        node
        for node, own_roles in roles.items()
        if columns.without_identifiers(own_roles) != without
    ]
    return without, others


def _roles_of(columns: Columns, content: Mapping) -> list[str]:
    """What a node said of these columns, which may stand in another order there."""
    theirs = Columns.from_content(content)
    if columns.names is None or theirs.names is None:
        return list(content["roles"])
    by_name = dict(zip(theirs.names, content["roles"], strict=True))
    return [by_name[name] for name in columns.names]


def owners_of(nodes, X) -> dict[str, np.ndarray]:
    """Rows of each node by its name; of one node where nobody said whose they are."""
    if nodes is None:
        return {"all": np.arange(X.shape[0])}
    names = node_names_of(nodes, X.shape[0])
    codes = node_codes(nodes, names, X.shape[0])
    return {name: np.flatnonzero(codes == k) for k, name in enumerate(names)}


def fit_front(front: Front, X, nodes=None, mask=None, n_jobs=None) -> tuple:
    """An Advanced of rows that are here, and the history of the messages."""
    members, X = [], Columns.of(X).of_rows(X)  # once for all nodes
    for name, rows in owners_of(nodes, X).items():
        own = None if mask is None else mask[rows]
        if len(rows) and not (own is not None and own.all()):
            members.append(column_member(name, safe_indexing(X, rows), own))
    run = Run(InProcess(members, n_jobs=n_jobs))
    return run(front_plan(front)), run.history


def through_front(front: Front, X, nodes=None):
    """Rows after a front, those of each node by themselves, as nodes do it."""
    groups = list(owners_of(nodes, X).values())
    rest = np.setdiff1d(np.arange(X.shape[0]), np.concatenate(groups))
    groups = [rows for rows in [*groups, rest] if len(rows)]
    if len(groups) == 1:
        return front.transform(X)
    parts = [front.transform(safe_indexing(X, rows)) for rows in groups]
    back = np.argsort(np.concatenate(groups))
    return stacked(parts)[back]
