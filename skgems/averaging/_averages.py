"""Averages of models of nodes, once or in rounds of training."""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from numbers import Real

import numpy as np

from ..base import BaseAggregator, warn_user
from ..federation import Federation, Node, Run, Shares, TooFewNodesError
from ..local import LocalModel, Picklable, fit_local, indices_of, local_model
from ..messages import Message
from ..networks import Coordinates, Network, to_logistic_regression, to_mlp_classifier
from ..progress import say
from ..tuning import (
    Weight,
    align_hidden_units,
    learning_rates,
    mean_parameters,
    relative_change,
    started_apart,
)
from ._large_models import ModelSizes

_MAX_NAMES = 5


def average(
    nodes: list[Node],
    classes: np.ndarray,
    shares: Shares,
    sizes: ModelSizes,
    *,
    align: bool = False,
) -> LocalModel | Network:
    """The average by class over the nodes that know it; ``sizes`` notes the models."""
    nodes, shares = not_constant(nodes, shares)
    problem = why_not_alike(nodes)
    odd = next((node for node in nodes if not node.local.is_chain), None)
    if problem is None and not align:
        model = average_nets(nodes, classes, shares, sizes)
    elif odd is None:
        model = average_networks(nodes, classes, shares, sizes, align=align)
    else:
        what = "align='permutation' matches the units of chains of dense layers"
        raise problem or ValueError(f"{what}; the module of node {odd.name!r} is none.")
    if not align:
        warn_of_apart(nodes, classes)
    return model


def not_constant(nodes: list[Node], shares: Shares) -> tuple[list[Node], Shares]:
    """Those whose model is not constant; all, if there is none."""
    chosen = [k for k, node in enumerate(nodes) if not node.local.is_constant]
    chosen = chosen or list(range(len(nodes)))
    return [nodes[k] for k in chosen], shares.of(chosen)


def parameter_weights(
    parameters: Sequence, axes: Mapping[int, int], columns, classes, shares: Shares
) -> list[list]:
    """A weight for each array of each node; ``axes`` are of outputs, by its index."""
    own = indices_of(columns, classes)
    of_output = np.where(own >= 0, shares.outputs[:, own], shares.shared[:, None])
    # One output for two classes is of the nodes that know both.
    of_pair = shares.outputs.min(axis=1, keepdims=True)
    if len(classes) != 2 or not of_pair.any():
        of_pair = shares.shared[:, None]
    weights = []
    for i, array in enumerate(parameters):
        if array.dtype.kind != "f":  # a counter, which is one node's
            weights.append(shares.sizes)
        elif i not in axes:
            weights.append(shares.shared)
        else:
            full = array.shape[axes[i]] == len(columns)
            shape = np.ones(array.ndim, dtype=int)
            shape[axes[i]] = -1
            some = of_output if full else of_pair
            # One number, where it is the same for all, is faster.
            alike = not np.ptp(some, axis=1).any()
            weights.append(some[:, 0] if alike else [a.reshape(shape) for a in some])
    return [list(of_node) for of_node in zip(*weights, strict=True)]


def average_networks(
    nodes: list[Node],
    classes: np.ndarray,
    shares: Shares,
    sizes: ModelSizes,
    *,
    align: bool,
) -> Network:
    first = with_outputs(nodes[0].local.network(copy=False), classes)
    depth = len(first.coefs)
    arrays, axes = [*first.coefs, *first.intercepts], {depth - 1: 1, 2 * depth - 1: 0}
    weights = parameter_weights(arrays, axes, classes, classes, shares)

    def arrive():
        for node in nodes:
            network = node.local.network(copy=False)
            _check_alike(network, node.name, first, nodes[0].name)
            sizes.note(node.name, _without_constants(network))
            yield with_outputs(network, classes)

    def arrays_of(networks):
        for network, weight in zip(networks, weights, strict=True):
            arrays = _without_constants(network)
            del network
            yield arrays, weight
            del arrays  # before the next one comes

    mean = mean_parameters(arrays_of(_in_one_order(arrive()) if align else arrive()))
    if not all(np.isfinite(array).all() for array in mean):
        for node in nodes:  # whose fault it is
            node.local.network()
    coefs, intercepts = mean[:depth], mean[depth:]
    return replace(first, coefs=coefs, intercepts=intercepts, coordinates=None)


def _without_constants(network: Network) -> list[np.ndarray]:
    """Its arrays, without weights of features that do not vary at the node."""
    coordinates = network.coordinates
    if coordinates is not None:
        network = coordinates.give_back(coordinates.take_in(network))
    return [*network.coefs, *network.intercepts]


def _in_one_order(networks: Iterable[Network]) -> Iterator[Network]:
    """Hidden units in the order of the network of most weight on its outputs."""
    networks = list(networks)
    # Sums over hidden units are rounded: their last digits depend on the units' order.
    sizes = [float(f"{np.linalg.norm(own.coefs[-1]):.9g}") for own in networks]
    common = Coordinates.common([own.coordinates for own in networks])
    if common is not None:
        networks = [common.take_in(own) for own in networks]
    reference = networks[int(np.argmax(sizes))]
    for own in networks:
        aligned = align_hidden_units(own, reference)
        yield aligned if common is None else common.give_back(aligned)


def with_outputs(network: Network, classes: np.ndarray) -> Network:
    """A network with one output for each of ``classes``, zero where it had none."""
    if not np.array_equal(network.classes, classes):
        network = network.aligned(classes)
    return replace(network, seen=np.ones(len(classes), dtype=bool))


def _check_alike(network: Network, name, first: Network, first_name):
    widths, wanted = ((own.n_features_in, *own.widths) for own in (network, first))
    differ = f"The networks of nodes {first_name!r} and {name!r} have different"
    if widths != wanted:
        raise ValueError(
            f"{differ} shapes: {wanted} and {widths} inputs and hidden units. Only "
            "equal shapes can be averaged; PFNMAggregator and GEMSMLPAggregator merge "
            "different widths."
        )
    if network.activation != first.activation:
        both = f"{first.activation} and {network.activation}"
        what = f"activations: {both}; their average would mean nothing"
        raise ValueError(f"{differ} {what}.")


def average_nets(
    nodes: list[Node], classes: np.ndarray, shares: Shares, sizes: ModelSizes
) -> LocalModel:
    """Average of alike nets, buffers included: a copy of the first of largest dtype."""
    first = max((node.local for node in nodes), key=lambda own: own.dtype.itemsize)
    known = first.class_axes(), first.description.classes, classes, shares
    weights = parameter_weights(first.parameters(), *known)

    def arrive():
        for node, weight in zip(nodes, weights, strict=True):
            parameters = node.local.parameters()
            sizes.note(node.name, parameters)
            yield parameters, weight
            del parameters  # before the next one comes

    mean = mean_parameters(arrive())
    if not all(np.isfinite(array).all() for array in mean):
        for node in nodes:  # whose fault it is
            node.local.check_finite()
    return first.with_parameters(mean)


def has_counters(nodes: list[Node]) -> bool:
    """Whether modules have buffers of integers, which are those of one node."""
    net = next((node.local for node in nodes if node.local.has_module), None)
    return net is not None and any(a.dtype.kind != "f" for a in net.parameters())


def why_not_alike(nodes: list[Node]) -> Exception | None:
    nets = [node for node in nodes if node.local.has_module]
    others = [node for node in nodes if not node.local.has_module]
    if others:
        names, other = [node.name for node in nets], others[0]
        return TypeError(
            f"Nodes {names} have torch modules, node {other.name!r} has "
            f"{type(other.local.estimator).__name__}. A module that is no chain of "
            "dense layers, or trains in rounds, is averaged with its own kind only."
        )
    first, *rest = nets
    shapes, columns = first.local.module_shapes(), first.local.description.classes
    for node in rest:
        own = node.local.module_shapes()
        if own != shapes:
            here, there = shapes.items() - own.items(), own.items() - shapes.items()
            return ValueError(
                f"The modules of nodes {first.name!r} and {node.name!r} have "
                f"parameters of different names or shapes: {dict(sorted(here))} and "
                f"{dict(sorted(there))}. Only equal modules can be averaged; "
                "PFNMAggregator and GEMSMLPAggregator merge layers of other widths."
            )
        labels = node.local.description.classes
        if not np.array_equal(labels, columns):
            which = f"The outputs of nodes {first.name!r} and {node.name!r} stand for"
            what = f"different labels: {columns.tolist()} and {labels.tolist()}"
            return ValueError(f"{which} {what}. Give all nets the same classes.")
    return None


class StartedApartWarning(UserWarning):
    """Networks are averaged whose hidden units have nothing to do with each other."""


def warn_of_apart(nodes: Sequence[Node], classes: np.ndarray) -> None:
    """Warn of networks whose units are not like the first one's at the same place."""
    chains = [node for node in nodes if node.local.is_chain]
    networks = (
        with_outputs(node.local.network(copy=False), classes) for node in chains
    )
    first = next(networks, None)
    pairs = zip(chains[1:], networks, strict=True)
    apart = [node.name for node, network in pairs if started_apart(network, first)]
    if not apart:
        return
    names = ", ".join(map(repr, apart[:_MAX_NAMES]))
    n_others = len(apart) - _MAX_NAMES
    more = f" and {n_others} more" if n_others > 0 else ""
    warn_user(
        f"Hidden units of node {chains[0].name!r} are like those of {names}{more} by "
        "chance only,\nas of networks that started from different weights, or trained "
        "until nothing is left of a common start:\ntheir average is of little use. Set "
        "align='permutation', or use PFNMAggregator.",
        StartedApartWarning,
    )


@dataclass(frozen=True)
class CoLearning:
    """Rounds of local training and averages: Xu et al. 2018, Eq. 2-4, Algorithm 1."""

    n_rounds: int
    local_epochs: int = 5  # of the first round
    learning_rate: float | None = 0.01  # None: nodes choose their own
    decay: float = 0.25  # see learning_rates, as of the schedule
    schedule: str = "cyclical"
    epochs: str = "increasing"  # or "fixed"
    epsilon: float = 0.01  # relative change of the model up to which epochs double

    def plan(self, start: list, weights: Mapping, classes: list, rng) -> Generator:
        """Plan whose result is the last shared model, and a dict for each round."""
        parameters, rounds, length, done = start, [], self.local_epochs, 0
        for number in range(self.n_rounds):
            rates, planned = None, self.n_rounds * self.local_epochs
            if self.learning_rate is not None:
                how = {"decay": self.decay, "schedule": self.schedule}
                how |= {"epochs_before": done, "epochs_planned": planned}
                rates = learning_rates(self.learning_rate, length, **how)
            asked = {"parameters": parameters, "classes": classes, "epochs": length}
            seed = rng.randint(2**31 - 1)
            replies = yield Message.of("train", **asked, rates=rates, seed=seed)
            trained, losses = mean_of(replies, weights, parameters)
            change = relative_change(trained, parameters)
            rates = None if rates is None else rates.tolist()
            rounds.append({"epochs": length, "learning_rates": rates, "change": change})
            parameters, done = trained, done + length
            what = f"{length} epochs, mean loss {np.mean(losses):.4g}"
            what += f", change {change:.3g}"
            say(f"round {number + 1} of {self.n_rounds}: {what}")
            if self.epochs == "increasing" and change <= self.epsilon:
                length *= 2  # Eq. 4: the shared model has settled
        return parameters, rounds


def mean_of(replies, weights: Mapping, before: list, pushed=None) -> tuple:
    """Mean of models, or of ``before`` after changes of what was ``pushed``; losses."""
    losses: list[float] = []
    came: list[Weight] = []

    def arriving():
        for name, reply in replies:
            model = reply.content["parameters"]
            losses.append(reply.content["loss"])
            del reply
            came.append(weights[name])
            if pushed is not None:
                models = zip(model, pushed[name], before, strict=True)
                model = [new - old + now for new, old, now in models]
            yield model, weights[name]
            del model  # before the next one comes

    try:
        mean = mean_parameters(arriving())
    except TooFewNodesError as error:
        error.parameters = before
        raise
    kept = len(came) < len(weights)
    return _kept_where_none(mean, before, came) if kept else mean, losses


def _kept_where_none(trained, before, came: list[Weight]) -> list[np.ndarray]:
    """Parameters as before where none of those who came has a weight."""
    if all(isinstance(weight, Real) for weight in came):
        return trained
    totals = [sum(of_array) for of_array in zip(*came, strict=True)]
    return [
        np.where(np.asarray(total) > 0, new, old)
        for total, new, old in zip(totals, trained, before, strict=True)
    ]


def start_local(estimator, X, y, classes: np.ndarray, seed: int | None):
    if len(classes) == 1:  # nothing to train
        return fit_local(estimator, X, y, classes, seed)
    seed = estimator.random_state if seed is None else seed
    return local_model(estimator).start(X, y, classes=classes, random_state=seed)


def co_learn(
    federation: Federation,
    shares: Shares,
    run: Run,
    outer: BaseAggregator,
    rng,
    sizes: ModelSizes,
) -> tuple[LocalModel, list[dict]]:
    """Train in rounds from the average: the first node's model, and the history."""
    classes = federation.classes
    speaking, spoken = not_constant(federation.nodes, shares)
    speaking = [_with_layout(node) for node in speaking]
    first = speaking[0]
    for node in speaking:
        node.local.check_trainable()
        if node.local.layout != first.local.layout:
            kinds = [type(own.local.own).__name__ for own in (first, node)]
            raise TypeError(
                "In rounds parameters are handed from node to node, but nodes "
                f"{first.name!r} and {node.name!r} have {' and '.join(kinds)}, whose "
                "parameters differ. Give all nodes classifiers of one kind."
            )
    if first.local.has_module:
        if outer.align:
            raise ValueError("align must be None with rounds of skorch nets.")
        if problem := why_not_alike(speaking):
            raise problem
        template = average_nets(speaking, classes, spoken, sizes)
        start = template.parameters()
    else:
        template = first.local.widened(classes)
        network = average_networks(speaking, classes, spoken, sizes, align=outer.align)
        start = template.parameters_of(network)
    # From here on every node has all outputs, and trains them.
    by_class = isinstance(outer.weights, str) and outer.weights == "class_counts"
    shares = shares if by_class else shares.for_all_outputs()
    columns = template.description.classes
    weights = parameter_weights(start, template.class_axes(), columns, classes, shares)
    constant = {node.name for node in federation.nodes if node.local.is_constant}
    if run.members:
        trainer = Picklable(first.local.estimator)
        run.channel.members = [
            # It trains as another does.
            replace(member, picklable=trainer) if member.name in constant else member
            for member in run.members
        ]
    by_name = dict(zip(federation.names, weights, strict=True))
    known = {own.name: getattr(outer, own.name) for own in fields(CoLearning)}
    rounds = CoLearning(**known).plan
    if outer.server is not None:
        outer.server._validate_params()
        how = {"n_rounds": outer.n_rounds, "rate": outer.learning_rate}
        rounds = partial(outer.server.plan, **how)
    sizes.compare()  # those that rounds start from
    plan = sizes.noting(rounds(start, by_name, classes.tolist(), rng))
    parameters, found = run(plan)
    return template.with_parameters(parameters), _in_rounds(run.history, found)


def _with_layout(node: Node) -> Node:
    """A node that is not here, as the classifier that its layers are one of."""
    if node.record is None:
        return node
    network = node.local.network()
    alike = as_classifier(network, network.classes)
    return replace(node, local=local_model(alike, name=node.name))


def as_classifier(network: Network, classes: np.ndarray):
    if not network.is_linear:
        return to_mlp_classifier(network, classes)
    weights = network.coefs[0].T, network.intercepts[0]
    return to_logistic_regression(*weights, classes)


def _in_rounds(history: list[dict], rounds: list[dict]) -> list[dict]:
    """A run's history, with what there is to say of rounds beside their messages."""
    found = iter(rounds)
    none = dict.fromkeys(("epochs", "learning_rates", "change"))
    return [own | (next(found) if own["task"] == "train" else none) for own in history]
