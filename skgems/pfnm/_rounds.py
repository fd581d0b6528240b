"""What is matched at first, after steps of a stream, and in rounds of training."""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..base import BaseAggregator
from ..federation import Federation, Node, TooFewNodesError, ask_to_retrain
from ..gems import activation_of
from ..local import local_model
from ..matching import NetworkMatch, merged_layers, widen_classes
from ..networks import Coordinates, Layers, Network
from ..progress import say


def activations_of(nodes: Sequence[Node]) -> tuple[str, ...]:
    """Activations of the hidden layers, or an error; none if all are constant."""
    for node in nodes:
        if node.network.is_linear and not node.network.is_constant:
            what = "PFNMAggregator matches hidden units"
            more = "Use GEMSLogisticAggregator, or give networks"
            raise TypeError(f"node {node.name!r} is a linear model; {what}. {more}.")
    return activation_of(nodes)


def as_layers(
    networks: Sequence[Network], classes, *, depth: int, start, centre: bool, dtype
) -> list[Network]:
    """Networks of one dtype with outputs of ``classes`` and ``depth`` hidden layers."""
    # A softmax says nothing of what is common to classes: outgoing weights, or their
    # change since ``start`` (n_in + 1, n_classes), are centred over the classes seen.
    found = [own.with_empty_layers(depth).aligned(classes) for own in networks]
    for k, own in enumerate(found if centre else ()):
        last, known = own.last, own.seen
        # Of a constant model there is nothing to compare with the start.
        alike = start is not None and len(last) == len(start)
        moved = last - start if alike else last
        last[:, known] -= moved[:, known].mean(axis=1, keepdims=True)
        found[k] = own.with_last(last)
    dtype = dtype or np.result_type(*(W.dtype for own in found for W in own.coefs))
    return [own.astype(dtype) for own in found]


def class_shares(
    counts: np.ndarray | None, seen: np.ndarray, earlier: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Shares of nodes and of earlier steps, rows so far; NaN: a step did not count."""
    known = seen.any(axis=0)
    own = np.zeros(seen.shape) if counts is None else counts
    rows = earlier + np.where(known & (counts is None), np.nan, own.sum(axis=0))
    by_rows = rows > 0  # not where NaN
    weights = np.where(by_rows | (own.sum(axis=0) > 0), own, seen)
    total = np.where(by_rows, rows, weights.sum(axis=0))
    shares = weights / np.where(total > 0, total, 1.0)
    earlier_share = np.full(len(rows), np.nan)
    np.divide(earlier, rows, out=earlier_share, where=by_rows)
    return shares, earlier_share, rows


@dataclass(frozen=True, eq=False)
class Stream:
    names: tuple[str, ...]  # nodes that have taken part
    # For each hidden layer how often nodes have used units, (n_nodes, n_units).
    popularity: tuple[np.ndarray, ...]
    n_steps: int  # batches of networks taken in
    class_rows: np.ndarray  # rows of each class so far; NaN where not counted
    coordinates: Coordinates | None = None  # that units are compared in; None: features
    match: NetworkMatch | None = None  # of the last step, with all before it

    def taken_in(self, networks: Sequence[Network]) -> list[Network]:
        own = self.coordinates
        return list(networks) if own is None else list(map(own.take_in, networks))

    def given_back(self, layers: Layers) -> Layers:
        own = self.coordinates
        return layers if own is None else own.give_back(layers)

    def used(self, name: str) -> list[np.ndarray]:
        if name in self.names:
            return [own[self.names.index(name)] for own in self.popularity]
        return [np.zeros(own.shape[1], dtype=np.int64) for own in self.popularity]

    def widened(self, places: np.ndarray, n_classes: int) -> "Stream":
        rows = np.zeros(n_classes)
        rows[places] = self.class_rows
        match = widen_classes(self.match, places, n_classes)
        return replace(self, class_rows=rows, match=match)

    def centred(self) -> "Stream":
        # Alone it comes back as it is, number by number. Beside others, of other rows
        # for each class, what a softmax says nothing of would say something.
        match = self.match
        known = match.class_share > 0
        bias, layers = match.bias.copy(), list(match.layers)
        bias[known] -= bias[known].mean()
        if layers:
            atoms = layers[-1].atoms
            linear = atoms.linear.copy()
            outgoing = linear[:, atoms.n_shared :]
            outgoing[:, known] -= outgoing[:, known].mean(axis=1, keepdims=True)
            atoms = replace(atoms, linear=linear)
            layers[-1] = replace(layers[-1], atoms=atoms)
        return replace(self, match=replace(match, bias=bias, layers=layers))

    def then(self, match: NetworkMatch, names: Sequence[str], class_rows) -> "Stream":
        every = tuple(dict.fromkeys((*self.names, *names)))
        nodes = [every.index(name) for name in names]
        popularity = []
        for before, layer in zip(self.popularity, match.layers, strict=True):
            used = np.zeros((len(every), len(layer.atoms)), dtype=np.int64)
            used[: len(before), : before.shape[1]] = before
            used[nodes] += layer.uses
            popularity.append(used)
        done = {"names": every, "n_steps": self.n_steps + 1, "class_rows": class_rows}
        return replace(self, **done, popularity=tuple(popularity), match=match)


def all_units(match: NetworkMatch, node: int, network: Network, classes) -> Network:
    """The merged network with a node's outputs; what no node knows is its bias."""
    merged, (outputs, columns) = merged_layers(match), _common(network, classes)
    last = np.zeros((len(merged.last), len(network.classes)), dtype=merged.last.dtype)
    last[-1] = network.intercepts[-1]
    last[:, outputs] = merged.last[:, columns]
    return network.with_layers(merged.with_last(last))


def own_units(match: NetworkMatch, node: int, network: Network, classes) -> Network:
    """The node's network with what was matched to each weight, if any node says it."""
    coefs = [coef.copy() for coef in network.coefs]
    intercepts = [intercept.copy() for intercept in network.intercepts]
    outputs, columns = _common(network, classes)
    for i, layer in enumerate(match.layers):
        prior, n_shared = match.sigma0[i] ** -2.0, layer.atoms.n_shared
        units = layer.assignments[node]
        mean = layer.atoms.without_prior(prior)[units]
        intercepts[i] = mean[:, n_shared - 1].copy()
        if i == 0:
            coefs[0] = np.ascontiguousarray(mean[:, : n_shared - 1].T)
        elif n_shared > 1:
            other = match.layers[i - 1]
            below = other.assignments[node]
            # How many nodes have a unit, over those that have the one below as well.
            used = layer.uses[:, units].astype(float)
            users = used.sum(axis=0)[:, None] / (used.T @ other.uses[:, below])
            coefs[i] = (mean[:, below] * users).T.copy()
        if n_shared == layer.atoms.linear.shape[1]:
            continue
        last = i == len(match.layers) - 1
        above = columns if last else match.layers[i + 1].assignments[node]
        own = outputs if last else slice(None)
        known = layer.atoms.precision[units][:, 1 + above] > (1 + 1e-6) * prior
        W = coefs[i + 1]
        W[:, own] = np.where(known, mean[:, n_shared + above], W[:, own])
    bias, known = merged_layers(match).intercepts[-1], match.class_share[columns] > 0
    intercepts[-1][outputs[known]] = bias[columns[known]]
    return replace(network, coefs=coefs, intercepts=intercepts)


def _common(network: Network, classes: np.ndarray):
    outputs = np.flatnonzero(np.isin(network.classes, classes))
    return outputs, np.searchsorted(classes, network.classes[outputs])


def drawn_units(
    layers: Layers, used: list, widths: list[int], n_fresh: int | None, rng
) -> Layers:
    coefs, intercepts = list(layers.coefs), list(layers.intercepts)
    for layer, (counts, width) in enumerate(zip(used, widths, strict=True)):
        fresh = max(1, width // 10) if n_fresh is None else min(n_fresh, width)
        known = min(width - fresh, len(counts))
        chance = 1.0 + counts
        drawn = rng.choice(len(counts), known, False, chance / chance.sum())
        units = np.append(drawn, np.full(width - known, -1)).astype(np.intp)
        coefs[layer] = _with_fresh(coefs[layer].T, units, rng).T
        intercepts[layer] = np.where(units < 0, 0, intercepts[layer][units])
        coefs[layer + 1] = _with_fresh(coefs[layer + 1], units, rng)
    return replace(layers, coefs=coefs, intercepts=intercepts)


def _with_fresh(rows: np.ndarray, chosen: np.ndarray, rng) -> np.ndarray:
    """The chosen rows; where the index is negative, small random ones."""
    result = rows[chosen]
    fresh = np.flatnonzero(chosen < 0)
    size = np.sqrt(2.0 / sum(result.shape))
    result[fresh] = size * rng.standard_normal((len(fresh), rows.shape[1]))
    return result


# Nodes have converged before: their own rate would undo what was merged.
RATE = 0.1


def check_rounds(federation: Federation) -> None:
    if not federation.can_reply:
        raise ValueError("n_rounds > 1 trains on the nodes' rows: give fit X and y.")
    for node in federation.nodes:
        if not node.network.is_constant and node.record is None:
            # Not its pipeline, whose steps are folded into the first layer.
            local_model(node.local.own, name=node.name).check_trainable()


def match_in_rounds(
    networks: Mapping[str, Network],
    match: NetworkMatch,
    # Of networks, and indices of their nodes; `again`: a match whose units all have.
    rematch: Callable[..., NetworkMatch],
    classes: np.ndarray,
    rng: np.random.RandomState,
    outer: BaseAggregator,  # a PFNMAggregator, whose parameters count
    coordinates: Coordinates | None,  # of the features, in which nodes train
) -> Generator:
    """Plan of the last match; TooFewNodesError has the ``parameters`` merged before."""
    names, absent, own_only = list(networks), set(), outer.round_units == "own"
    part = own_units if own_only else all_units
    for number in range(1, outer.n_rounds):
        networks = {
            name: network
            # One without units in the match has none to replace its own by.
            if network.is_linear or (name in absent and own_only)
            else part(match, k, network, classes)
            for k, (name, network) in enumerate(networks.items())
        }
        how = {"epochs": outer.n_epochs, "coordinates": coordinates}
        how |= {"rate_factor": RATE, "seed": rng.randint(2**31 - 1)}
        requests = {
            name: ask_to_retrain(start, labels=start.classes.tolist(), **how)
            for name, start in networks.items()
            if not start.is_linear
        }
        trained: dict[str, Network] = {}
        replies = (yield requests) if requests else ()
        try:
            for name, reply in replies:
                weights = reply.content["coefs"], reply.content["intercepts"]
                start = networks[name]
                trained[name] = start.with_layers(Layers(*weights, start.activation))
        except TooFewNodesError as error:
            merged = merged_layers(match)
            if coordinates is not None:
                merged = coordinates.give_back(merged)
            error.parameters = [*merged.coefs, *merged.intercepts]
            raise
        networks = networks | trained
        # Those that did not answer, and whose classes are all known by others.
        seen = {k: set(own.classes[own.seen].tolist()) for k, own in networks.items()}
        known = set().union(*(seen[name] for name in trained))
        absent = {n for n in requests if n not in trained and seen[n] <= known}
        say(f"round {number + 1} of {outer.n_rounds}: trained, matching")
        present = [k for k, name in enumerate(names) if name not in absent]
        given = [networks[names[k]] for k in present]
        match = rematch(given, present, again=None if own_only else match)
        layers, none = [], np.empty(0, dtype=np.intp)  # of those that are absent
        for layer in match.layers:
            found = dict(zip(present, layer.assignments, strict=True))
            assignments = [found.get(k, none) for k in range(len(names))]
            layers.append(replace(layer, assignments=assignments))
        match = replace(match, layers=layers)
    return match
