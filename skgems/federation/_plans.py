"""Plans that several methods have in common: row counts, a temperature, training."""

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace

import numpy as np

from ..local import indices_of
from ..messages import Message
from ..networks import Coordinates, Layers
from ..tuning import N_GRIDS, TemperatureSearch
from ._federation import Federation
from ._warnings import warn_of_many_rows

# Messages that the search for a factor takes, at most.
MOST_GRIDS = 1 + N_GRIDS


@dataclass(frozen=True)
class Shares:
    shared: np.ndarray  # (n_nodes,), for what belongs to no class
    outputs: np.ndarray  # (n_nodes, n_classes), zero for classes a node does not know
    sizes: np.ndarray  # (n_nodes,), rows; the same as shared if not counted

    def for_all_outputs(self) -> "Shares":
        outputs = np.broadcast_to(self.shared[:, None], self.outputs.shape)
        return replace(self, outputs=outputs)

    def of(self, nodes: list[int]) -> "Shares":
        return Shares(self.shared[nodes], self.outputs[nodes], self.sizes[nodes])


def ask_counts(classes: np.ndarray) -> Generator:
    """Plan of the rows of each class that nodes train on, (n_nodes, n_classes)."""
    replies = yield Message.of("counts")
    counts = []
    for _, reply in replies:
        columns = indices_of(reply.content["labels"], classes)
        known, own = columns >= 0, reply.content["counts"]
        counts.append(np.bincount(columns[known], own[known], len(classes)))
    return np.stack(counts)


def ask_shares(federation: Federation, weights, *, sized: bool = False) -> Generator:
    """Plan whose result are Shares; ``sized``: rows are counted if there are any."""
    nodes, known, counts = federation.nodes, federation.seen, None
    counted = isinstance(weights, str) and weights != "equal"
    if not isinstance(weights, str):
        shared, n = np.asarray(weights, dtype=np.float64), len(nodes)
        if shared.shape != (n,) or not np.all((shared > 0) & (shared < np.inf)):
            each = f"one positive number per node ({n})"
            raise ValueError(f"weights must hold {each}, got {weights!r}.")
    elif not counted:
        shared = np.ones(len(nodes))
    elif not federation.can_reply:
        raise ValueError(
            f"weights={weights!r} counts rows: give fit the rows, fit(X, y, "
            "nodes=nodes), or summaries, or give one number per node."
        )
    if counted or (sized and federation.can_reply):
        counts = yield from ask_counts(federation.classes)
    if counted:
        shared = counts.sum(axis=1)
        if not federation.rows_are_shared:
            warn_of_many_rows(federation.names, shared)
    outputs = shared[:, None] * known
    if counted and weights == "class_counts":
        # A class that no row shows is as if each who knows it had one.
        outputs = np.where((counts * known).any(axis=0), counts, 1.0) * known
    return Shares(shared, outputs, shared if counts is None else counts.sum(axis=1))


def inverse_temperature(request: Callable) -> Generator:
    """Plan for the likeliest factor on logits; ``request``: of factors, "evaluate"."""

    def ask(factors):
        contents = [reply.content for _, reply in (yield request(factors))]
        names = "count", "squares", "losses"
        count, squares, losses = (sum(own[name] for own in contents) for name in names)
        if not count:
            return 0.0, losses, 0
        return np.sqrt(squares / count), losses / count, count

    size, _, count = yield from ask(np.empty(0))
    if count == 0:
        return None
    if size == 0:
        return 1.0
    search = TemperatureSearch(size, count)
    while not search.done:
        _, losses, _ = yield from ask(search.factors)
        search = search.after(losses)
    return search.best


def ask_to_retrain(
    layers: Layers,
    *,
    epochs: int,
    seed: int | None,
    coordinates: Coordinates | None = None,
    **more,
) -> Message:
    more |= {"coefs": layers.coefs, "intercepts": layers.intercepts}
    more["activation"] = layers.activation
    if coordinates is not None:
        more |= vars(coordinates.filled())
    return Message.of("retrain", epochs=epochs, seed=seed, **more)
