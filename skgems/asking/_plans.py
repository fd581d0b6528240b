"""Plans that several methods have in common: row counts, a temperature, training."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ..local import indices_of
from ..messages import Message
from ..moments import TemperatureSearch
from ..networks import Coordinates, Layers
from ..parties import Federation
from ._warnings import warn_of_many_rows


@dataclass(frozen=True, kw_only=True)
class Shares:
    """How much each node counts in a mean over nodes."""

    shared: np.ndarray  # (n_nodes,), for what belongs to no class
    outputs: np.ndarray  # (n_nodes, n_classes), zero for classes a node does not know
    sizes: np.ndarray  # (n_nodes,), rows; the same as shared if not counted

    @property
    def differ_by_class(self) -> bool:
        """Report whether a node counts otherwise for a class than for the rest."""
        return bool(np.any(self.outputs != self.shared[:, None]))

    def repeat_over_outputs(self) -> "Shares":
        """Return shares in which a node has its share of each output, known or not."""
        outputs = np.broadcast_to(self.shared[:, None], self.outputs.shape)
        return replace(self, outputs=outputs)

    def select(self, nodes: list[int]) -> "Shares":
        """Return the shares of some nodes, by their indices."""
        return Shares(
            shared=self.shared[nodes],
            outputs=self.outputs[nodes],
            sizes=self.sizes[nodes],
        )


def ask_counts(classes: np.ndarray) -> Generator:
    """Plan of the rows of each class that nodes train on, (n_nodes, n_classes)."""
    replies = yield Message.of("counts")
    counts = []
    for _, reply in replies:
        columns = indices_of(reply.labels, classes)
        is_class = columns >= 0  # a node may have rows of labels that no model knows
        counts.append(
            np.bincount(
                columns[is_class],
                weights=reply.counts[is_class],
                minlength=len(classes),
            )
        )
    return np.stack(counts)


def ask_shares(
    federation: Federation, node_weight: str | Sequence[float], *, sized: bool = False
) -> Generator:
    """Plan whose result are Shares; ``sized``: rows are counted if there are any."""
    if isinstance(node_weight, str) and node_weight != "equal":
        if not federation.can_reply:
            raise ValueError(
                f"node_weight={node_weight!r} needs the number of rows of each node. "
                "Pass rows, fit(X, y, nodes=nodes), or summaries, or set node_weight "
                "to one number per node."
            )
        counts = yield from ask_counts(federation.classes)
        return _shares_by_rows(
            federation, counts, by_class=node_weight == "class_counts"
        )
    shares = shares_without_rows(federation, node_weight)
    if sized and federation.can_reply:
        counts = yield from ask_counts(federation.classes)
        shares = replace(shares, sizes=counts.sum(axis=1))
    return shares


def shares_without_rows(
    federation: Federation, node_weight: str | Sequence[float]
) -> Shares:
    """Equal shares of nodes, or those that were given, if they are usable."""
    shared = np.ones(len(federation.nodes))
    if not isinstance(node_weight, str):
        shared = _given_shares(len(federation.nodes), node_weight)
    outputs = shared[:, None] * federation.seen
    return Shares(shared=shared, outputs=outputs, sizes=shared)


def _given_shares(n_nodes: int, node_weight: Sequence[float]) -> np.ndarray:
    """Return the shares that a user gave, (n_nodes,); ValueError if they are wrong."""
    try:
        shared = np.asarray(node_weight, dtype=np.float64)
    except (TypeError, ValueError):  # whatever they are, they are no numbers
        shared = np.zeros(0)
    if shared.shape != (n_nodes,) or not np.all((shared > 0) & (shared < np.inf)):
        raise ValueError(
            f"node_weight must hold one positive number per node ({n_nodes}), got "
            f"{node_weight!r}."
        )
    return shared


def _shares_by_rows(
    federation: Federation, counts: np.ndarray, *, by_class: bool
) -> Shares:
    """Shares by ``counts`` (n_nodes, n_classes), in all or class by class."""
    n_rows = counts.sum(axis=1)
    if not federation.rows_are_shared:
        warn_of_many_rows(federation.names, n_rows)
    knows_class = federation.seen
    if by_class:
        # A class that no row shows is as if each who knows it had one.
        has_rows = (counts * knows_class).any(axis=0)
        outputs = np.where(has_rows, counts, 1.0) * knows_class
    else:
        outputs = n_rows[:, None] * knows_class
    return Shares(shared=n_rows, outputs=outputs, sizes=n_rows)


class _Losses(NamedTuple):
    """What all nodes together say of logits under several factors."""

    n_rows: float
    root_mean_square: float  # of the logits, centered over classes
    mean_losses: np.ndarray  # (n_factors,), in nats a row


def ask_inverse_temperature(request: Callable[[np.ndarray], Any]) -> Generator:
    """Plan for the likeliest factor on logits; None where there are no rows.

    It is `factor_by_grids` of the room moments, whose losses nodes tell.

    Parameters
    ----------
    request : callable
        Makes the request, "evaluate", or one for each node, of an array of factors.
    """
    start = yield from _ask_losses(request, np.empty(0))
    if start.n_rows == 0:
        return None
    if start.root_mean_square == 0:  # all logits are 0, whatever the factor
        return 1.0
    search = TemperatureSearch(size=start.root_mean_square, n_rows=start.n_rows)
    while not search.done:
        evaluated = yield from _ask_losses(request, search.factors)
        search = search.narrow(evaluated.mean_losses)
    return search.best


def _ask_losses(request: Callable[[np.ndarray], Any], factors: np.ndarray) -> Generator:
    replies = [reply for _, reply in (yield request(factors))]
    n_rows = sum(reply.count for reply in replies)
    squares = sum(reply.squares for reply in replies)
    losses = sum(reply.losses for reply in replies)
    if not n_rows:
        return _Losses(n_rows=0, root_mean_square=0.0, mean_losses=losses)
    return _Losses(
        n_rows=n_rows,
        root_mean_square=np.sqrt(squares / n_rows),
        mean_losses=losses / n_rows,
    )


def request_to_retrain(
    layers: Layers,
    *,
    epochs: int,
    seed: int | None,
    coordinates: Coordinates | None = None,
    **more: Any,
) -> Message:
    """A request to train layers on, in these coordinates; ``more`` are its fields."""
    coordinate_fields = {} if coordinates is None else vars(coordinates.filled())
    return Message.of(
        "retrain",
        epochs=epochs,
        seed=seed,
        **more,
        coefs=layers.coefs,
        intercepts=layers.intercepts,
        activation=layers.activation,
        **coordinate_fields,
    )
