"""Rounds of training and matching, and the units that a node trains."""

from collections.abc import Callable, Generator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

import numpy as np

from ..asking import TooFewNodesError, request_to_retrain
from ..base import SEEDS_BELOW
from ..compat import say
from ..local import local_model
from ..messages import Message
from ..networks import Layers, Network
from ..parties import Federation
from ._layer import NO_EVIDENCE
from ._network import NetworkMatch, merged_layers
from ._stream import Stream

# Share of its estimator's learning rate at which a node trains on. Nodes have converged
# before: their own rate would undo what was merged.
RATE = 0.1


# ---- units that a node gets ----------------------------------------------------------


def with_all_units(
    network: Network, *, match: NetworkMatch, classes: np.ndarray
) -> Network:
    """Return the merged network with a node's outputs; unknown ones are a bias."""
    merged = merged_layers(match)
    outputs, columns = _common_classes(network, classes)
    last = np.zeros((len(merged.last), len(network.classes)), dtype=merged.last.dtype)
    last[-1] = network.intercepts[-1]
    last[:, outputs] = merged.last[:, columns]
    return network.with_layers(merged.with_last(last))


def with_own_units(
    network: Network, *, match: NetworkMatch, node: int, classes: np.ndarray
) -> Network:
    """Return the node's network with what was matched to each weight, if anything."""
    coefs = [coef.copy() for coef in network.coefs]
    intercepts = [intercept.copy() for intercept in network.intercepts]
    outputs, columns = _common_classes(network, classes)
    for i, layer in enumerate(match.layers):
        n_shared = layer.atoms.n_shared
        prior_precision = match.sigma0[i] ** -2.0
        units = layer.assignments[node]
        mean = layer.merged_atoms.subtract_prior(prior_precision)[units]
        intercepts[i] = mean[:, n_shared - 1].copy()
        if i == 0:
            coefs[0] = np.ascontiguousarray(mean[:, : n_shared - 1].T)
        elif n_shared > 1:
            layer_below = match.layers[i - 1]
            units_below = layer_below.assignments[node]
            factor = _undiluting(layer.uses[:, units], layer_below.uses[:, units_below])
            coefs[i] = (mean[:, units_below] * factor).T.copy()
        if n_shared == layer.atoms.linear.shape[1]:
            continue  # no outgoing weights were matched
        if i == len(match.layers) - 1:
            places_above = columns
            outputs_above = outputs
        else:
            layer_above = match.layers[i + 1]
            places_above = layer_above.assignments[node]
            outputs_above = slice(None)
            mean[:, n_shared + places_above] *= _undiluting(
                layer.uses[:, units], layer_above.uses[:, places_above]
            )
        # Precisions stand behind that of the shared numbers.
        precision = layer.atoms.precision[units][:, 1 + places_above]
        W = coefs[i + 1]
        W[:, outputs_above] = np.where(
            precision > (1 + NO_EVIDENCE) * prior_precision,
            mean[:, n_shared + places_above],
            W[:, outputs_above],
        )
    bias = merged_layers(match).intercepts[-1]
    is_known = match.class_share[columns] > 0
    intercepts[-1][outputs[is_known]] = bias[columns[is_known]]
    return replace(network, coefs=coefs, intercepts=intercepts)


def _undiluting(uses: np.ndarray, uses_of_others: np.ndarray) -> np.ndarray:
    """Return the factor on means of weights between units of a node, (n, n_others).

    A mean is over all nodes that have a unit, also those without the one at the other
    end, whose weights are 0. So it is divided by the share of nodes that have both.
    ``uses`` say which nodes have which of the units, (n_nodes, n).
    """
    uses = uses.astype(float)
    return uses.sum(axis=0)[:, None] / (uses.T @ uses_of_others)


def _common_classes(
    network: Network, classes: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return outputs of a network for some of ``classes``, and their places there."""
    outputs = np.flatnonzero(np.isin(network.classes, classes))
    return outputs, np.searchsorted(classes, network.classes[outputs])


def drawn_units(
    layers: Layers,
    *,
    uses: Sequence[np.ndarray],  # (n_units,) for each hidden layer, by the node
    widths: Sequence[int],
    n_fresh: int | None,  # of each layer; None: a tenth of its width
    rng: np.random.RandomState,
) -> Layers:
    """Return layers of units drawn by how often they were used, and of fresh ones.

    One that was used n times has the chance of n + 1.
    """
    coefs = list(layers.coefs)
    intercepts = list(layers.intercepts)
    for layer, (counts, width) in enumerate(zip(uses, widths, strict=True)):
        n_new = max(1, width // 10) if n_fresh is None else min(n_fresh, width)
        n_drawn = min(width - n_new, len(counts))
        chances = 1.0 + counts
        old_units = rng.choice(
            len(counts), n_drawn, replace=False, p=chances / chances.sum()
        )
        fresh_units = np.full(width - n_drawn, -1)
        units = np.append(old_units, fresh_units).astype(np.intp)
        coefs[layer] = _rows_or_fresh(coefs[layer].T, units, rng).T
        intercepts[layer] = np.where(units < 0, 0, intercepts[layer][units])
        coefs[layer + 1] = _rows_or_fresh(coefs[layer + 1], units, rng)
    return replace(layers, coefs=coefs, intercepts=intercepts)


def _rows_or_fresh(
    W: np.ndarray, units: np.ndarray, rng: np.random.RandomState
) -> np.ndarray:
    """Return the rows of units; where the index is negative, small random ones.

    Their deviation is that of Glorot's initialization, root 2 over both widths.
    """
    rows = W[units]
    fresh = np.flatnonzero(units < 0)
    deviation = np.sqrt(2.0 / sum(rows.shape))
    rows[fresh] = deviation * rng.standard_normal((len(fresh), W.shape[1]))
    return rows


# ---- rounds --------------------------------------------------------------------------


def check_rounds(federation: Federation) -> None:
    """Raise an error unless all nodes can train on, and have rows for that."""
    if not federation.can_reply:
        raise ValueError("n_rounds > 1 trains on the nodes' rows. Pass X and y to fit.")
    for node in federation.nodes:
        if not node.network.is_constant and node.record is None:
            # Not its pipeline, whose steps are folded into the first layer.
            local_model(node.model.classifier, name=node.name).check_trainable()


@dataclass(frozen=True, kw_only=True, eq=False)
class MatchingRounds:
    """Rounds after the first match: nodes train the merged network, and it is matched.

    In each round a node gets all merged units, or with ``only_own_units`` those that
    its own became part of. One that fails is not matched, unless it has seen a class
    that no node that answered has: then it is, with the network that it was to train.
    """

    n_rounds: int
    local_epochs: int
    only_own_units: bool
    classes: np.ndarray
    stream: Stream  # whose coordinates of the features nodes train in
    # Of networks, indices of their nodes, and the match that all started from, or None
    # where each started from its own units.
    rematch: Callable[[list[Network], list[int], NetworkMatch | None], NetworkMatch]
    rng: np.random.RandomState

    def plan(self, networks: Mapping[str, Network], match: NetworkMatch) -> Generator:
        """Plan of the last match, of networks by the name of their node.

        A TooFewNodesError has the ``parameters`` that were merged before.
        """
        names = list(networks)
        absent: AbstractSet[str] = set()
        for number in range(1, self.n_rounds):
            starts = self._starts(networks, match=match, absent=absent)
            requests = self._requests(starts)
            trained = yield from self._train(starts, requests=requests, match=match)
            networks = starts | trained
            absent = _dispensable(networks, requests=requests, trained=trained)
            say(f"round {number + 1} of {self.n_rounds}: trained, matching")
            present = [k for k, name in enumerate(names) if name not in absent]
            match = self.rematch(
                [networks[names[k]] for k in present],
                present,
                None if self.only_own_units else match,
            )
            match = _with_absent_nodes(match, present=present, n_nodes=len(names))
        return match

    def _starts(
        self,
        networks: Mapping[str, Network],
        *,
        match: NetworkMatch,
        absent: AbstractSet[str],
    ) -> dict[str, Network]:
        """Return what each node is to train."""
        starts = {}
        for node, (name, network) in enumerate(networks.items()):
            if network.is_linear:
                starts[name] = network  # it has no units
            elif not self.only_own_units:
                starts[name] = with_all_units(
                    network, match=match, classes=self.classes
                )
            elif name in absent:
                # It has no units in the match that its own could be replaced by.
                starts[name] = network
            else:
                starts[name] = with_own_units(
                    network, match=match, node=node, classes=self.classes
                )
        return starts

    def _requests(self, starts: Mapping[str, Network]) -> dict[str, Message]:
        seed = self.rng.randint(SEEDS_BELOW)
        return {
            name: request_to_retrain(
                start,
                epochs=self.local_epochs,
                seed=seed,
                coordinates=self.stream.coordinates,
                labels=start.classes.tolist(),
                rate_factor=RATE,
            )
            for name, start in starts.items()
            if not start.is_linear
        }

    def _train(
        self,
        starts: Mapping[str, Network],
        *,
        requests: Mapping[str, Message],
        match: NetworkMatch,
    ) -> Generator:
        """Plan of the trained networks, by the names of nodes that replied."""
        trained: dict[str, Network] = {}
        if not requests:
            return trained
        replies = yield requests
        try:
            for name, reply in replies:
                start = starts[name]
                layers = Layers(
                    coefs=reply.coefs,
                    intercepts=reply.intercepts,
                    activation=start.activation,
                )
                trained[name] = start.with_layers(layers)
        except TooFewNodesError as error:
            merged = self.stream.to_features(merged_layers(match))
            error.parameters = [*merged.coefs, *merged.intercepts]
            raise
        return trained


def _dispensable(
    networks: Mapping[str, Network],
    *,
    requests: Mapping[str, Message],
    trained: Mapping[str, Network],
) -> set[str]:
    """Return nodes that did not answer, and whose classes the others all know.

    Two that did not answer, and share a class that no other knows, both stay.
    """
    seen_classes = {
        name: set(network.classes[network.seen].tolist())
        for name, network in networks.items()
    }
    known_classes = set().union(*(seen_classes[name] for name in trained))
    return {
        name
        for name in requests
        if name not in trained and seen_classes[name] <= known_classes
    }


def _with_absent_nodes(
    match: NetworkMatch, *, present: Sequence[int], n_nodes: int
) -> NetworkMatch:
    """Return the match of the nodes ``present`` as one of all nodes."""
    no_units = np.empty(0, dtype=np.intp)
    layers = []
    for layer in match.layers:
        assignment_by_node = dict(zip(present, layer.assignments, strict=True))
        assignments = [assignment_by_node.get(k, no_units) for k in range(n_nodes)]
        layers.append(replace(layer, assignments=assignments))
    return replace(match, layers=layers)
