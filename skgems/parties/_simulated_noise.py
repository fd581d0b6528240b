"""What nodes of one process would send with noise: a simulation, and summaries."""

import copy
import hashlib
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from ..base import BaseAggregator, is_channel, is_named, named_members
from ..compat import num_samples, safe_indexing
from ..datasets import PUBLIC
from ..messages import TASKS
from ..private import PrivateRows
from ._nodes import RowsLike, node_codes, node_names_of
from ._noisy import in_one_part, public_member
from ._summary import Summary, is_path

# Name of the only node, where rows come without their nodes.
_ONLY_NODE = "0"


def noisy_summary(
    rows: PrivateRows,
    aggregator: BaseAggregator,
    *,
    table: RowsLike,
) -> Summary:
    """Return the summary of a node that tells of its rows with noise.

    Of the ``table`` that has the rows only the names of columns are taken.
    """
    terms = aggregator._agreed_terms
    member = public_member(rows, terms.privacy, table=table, front=terms.front)
    request = terms.first_message()
    reply = TASKS[request.task].replied(member, request.content)
    return Summary(reply.as_message(request.task))


def with_noisy_summaries(
    aggregator: BaseAggregator,
    X: RowsLike,
    y: ArrayLike | None,
    nodes: ArrayLike | None,
    held_out: ArrayLike | None,
    *,
    groups: ArrayLike | None,
) -> BaseAggregator:
    """Return a copy whose estimators are what each node would send of its rows.

    The noise is that of `random_state`: it is a simulation, in which nothing leaves.
    """
    if y is None:
        raise ValueError("fit has X but no y. Pass the labels of the rows, too.")
    names, owners = _nodes_of_rows(aggregator, X, nodes)
    generators = _generators(aggregator.random_state, len(names))
    columns = {"y": y, "held_out": held_out, "groups": groups}
    summaries = []
    for k, name in enumerate(names):
        places = np.flatnonzero(owners == k)
        own_rows = safe_indexing(X, places)
        own = {
            key: None if values is None else safe_indexing(values, places)
            for key, values in columns.items()
        }
        table = (own_rows, own["y"], own["held_out"])
        rows = PrivateRows(
            name=name,
            parts=partial(in_one_part, table),
            groups=own["groups"],
            rng_for=generators[k],
        )
        summaries.append(noisy_summary(rows, aggregator, table=X))
    reader = copy.copy(aggregator)
    reader.estimators = summaries
    return reader


def _nodes_of_rows(
    aggregator: BaseAggregator, X: RowsLike, nodes: ArrayLike | None
) -> tuple[list[str], np.ndarray]:
    """Return the names of the nodes, and the place of each row's node, (n_rows,)."""
    estimators = aggregator.estimators
    if is_channel(estimators) or _has_summaries(estimators):
        raise ValueError(
            "fit has rows, which could only score the nodes that are summaries or "
            "behind a channel. With privacy nothing is scored by node: call fit() "
            "without rows."
        )
    n_rows = num_samples(X)
    is_list = isinstance(estimators, list | tuple) and len(estimators) > 0
    listed = named_members(estimators)[0] if is_list else []
    if nodes is None:
        if len(listed) > 1:
            raise ValueError(
                f"With privacy each row is of one node, but there are {len(listed)} "
                "estimators and nodes is not given. Give fit the node of each row: "
                "fit(X, y, nodes=nodes)."
            )
        return listed or [_ONLY_NODE], np.zeros(n_rows, dtype=np.intp)
    names = listed or node_names_of(nodes, n_rows)
    owners = node_codes(nodes, names, n_rows)
    if (owners == PUBLIC).any():
        raise ValueError(
            f"nodes marks {(owners == PUBLIC).sum()} rows as public, which tune a "
            "model by its sums. With privacy there are none but those with noise: give "
            "these rows a node, or leave them out."
        )
    return names, owners


def _has_summaries(estimators: object) -> bool:
    """Report whether some members are summaries or their files."""
    members = estimators if isinstance(estimators, list | tuple) else [estimators]
    members = [member[1] if is_named([member]) else member for member in members]
    return any(isinstance(member, Summary) or is_path(member) for member in members)


def _generators(
    random_state: object, n_nodes: int
) -> list[Callable[[np.ndarray], np.random.Generator]]:
    """Return what makes the source of noise of each node, by its vector.

    Other rows have other noise, as the folds of a search: their errors average out.
    """
    if random_state is None:
        return [_unseeded_generator] * n_nodes
    seed = check_random_state(random_state).randint(2**31)
    return [partial(_generator_of, seed, k) for k in range(n_nodes)]


def _generator_of(seed: int, k: int, vector: np.ndarray) -> np.random.Generator:
    digest = hashlib.sha256(vector.tobytes()).digest()
    return np.random.default_rng([seed, k, int.from_bytes(digest[:8], "big")])


def _unseeded_generator(vector: np.ndarray) -> np.random.Generator:
    # For simulations alone. A node that tells of its rows draws by OpenDP.
    return np.random.default_rng()
