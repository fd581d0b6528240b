r"""Match networks layer after layer, and again after training; the merged network.

A hidden unit is a row of its incoming weights, its bias and its outgoing weights.
Weights have places only where the units at their other end are matched already: from
the bottom incoming weights stand at the atoms of the layer below, and from the top
outgoing ones at those of the layer above. So layers are matched one after the other,
each as :func:`match_layer` does it. Outputs are classes, which need no match.

An outgoing weight counts by a *share*, of its class or of the atom that it leads to:
:math:`s_{jc}` says which part of what is known of class c node j has. The merged weight
is the mean of nodes' weights by these shares. Incoming weights are means by what each
unit adds to the outputs. In the paper's model none of this is so: all numbers of all
units are equally sure, and the merged network is the mean of the posterior.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from sklearn.utils import check_random_state

from ..networks import Layers
from ._layer import (
    DEEP_SIGMA0,
    Atoms,
    History,
    LayerMatch,
    auto_sigma,
    beyond_chance,
    match_at_auto_gamma0,
    match_layer,
    scaled,
)
from ._sums import Units

# What a unit counts at least, as a share of the unit that adds most to the outputs.
LEAST_OUTPUT = 1e-3


@dataclass(frozen=True, kw_only=True, eq=False)
class NetworkMatch:
    layers: list[LayerMatch] = field(repr=False)  # from the bottom, hidden ones
    sigma: list[float]
    sigma0: list[float]
    gamma0: list[float]
    # (n_targets,) each: sums of shares of what outgoing weights lead to, in all steps.
    shares: list[np.ndarray] = field(repr=False)
    class_share: np.ndarray = field(repr=False)  # (n_classes,): the same of classes
    bias: np.ndarray = field(repr=False)  # (n_classes,): sum of shares times biases
    n_networks: int  # with hidden units, over all steps of a stream
    n_nodes: int  # networks without hidden units too, over all steps
    activation: tuple[str, ...]
    # For each hidden layer, the share of the units that atoms explain beyond chance.
    explained: tuple[float, ...] = ()
    model: str = "weighted"  # or "paper"


@dataclass(frozen=True, kw_only=True, eq=False)
class _Links:
    """What the weights of a layer's units are connected to at their other end.

    A unit's row has the weights of what is below, of which there are ``n_below``, its
    bias, and the weights of what is above.
    """

    # For each node the places of its units below, or of the features. None: these are
    # not matched yet, and n_below is 0.
    below: Sequence[np.ndarray] | None
    n_below: int
    # The same of units above, or of classes. None: these are not matched yet.
    above: Sequence[np.ndarray] | None
    share: np.ndarray  # (n_nodes, n_above)

    @property
    def n_shared(self) -> int:
        """Numbers of a row that have one precision: all but outgoing weights."""
        return self.n_below + 1

    @property
    def n_above(self) -> int:
        return self.share.shape[1]

    def rows(self, network: Layers, *, layer: int, node: int) -> np.ndarray:
        """Return one row per unit; zeros stand for weights of atoms a node lacks."""
        n_units = len(network.intercepts[layer])
        V = np.zeros(
            (n_units, self.n_shared + self.n_above), dtype=network.coefs[0].dtype
        )
        if self.below is not None:
            V[:, self.below[node]] = network.coefs[layer].T
        V[:, self.n_below] = network.intercepts[layer]
        if self.above is not None:
            V[:, self.n_shared + self.above[node]] = network.coefs[layer + 1]
        return V


@dataclass(frozen=True, kw_only=True)
class _LayerSettings:
    """How a layer is matched; "auto" is found of its units."""

    sigma: float | str
    sigma0: float | str
    gamma0: float | str
    max_units: int | None
    max_iter: int
    tol: float
    new_atom_cost: str
    model: str
    is_deep: bool  # whether there are several hidden layers

    def deviations(self, groups: Sequence[np.ndarray]) -> tuple[float, float]:
        """Return sigma and sigma0 of a layer with such units."""
        sigma = auto_sigma(groups) if self.sigma == "auto" else self.sigma
        if self.sigma0 != "auto":
            return sigma, self.sigma0
        return sigma, DEEP_SIGMA0 * sigma if self.is_deep else sigma


@dataclass(frozen=True, kw_only=True, eq=False)
class _Earlier:
    """What earlier steps of a stream left."""

    match: NetworkMatch
    counts: Sequence[np.ndarray]  # for each layer, as of History
    n_steps: int

    def excess(self, layer: int, *, links: _Links, n_atoms: int) -> np.ndarray | None:
        """Return what merged incoming weights had beside the posterior's sums."""
        earlier_excess = self.match.layers[layer].excess
        if earlier_excess is None:
            return None
        n_earlier, n_shared = earlier_excess.shape
        excess = np.zeros((n_atoms, links.n_shared), dtype=earlier_excess.dtype)
        excess[:n_earlier, : n_shared - 1] = earlier_excess[:, :-1]
        excess[:n_earlier, -1] = earlier_excess[:, -1]  # of the bias
        return excess

    def history(self, layer: int, *, links: _Links, sigma0: float) -> History:
        atoms = widened(
            self.match.layers[layer].atoms,
            n_shared=links.n_shared,
            n_targets=links.n_above,
            sigma0=sigma0,
        )
        return History(atoms=atoms, counts=self.counts[layer], n_steps=self.n_steps)


@dataclass(frozen=True, kw_only=True, eq=False)
class _MatchedLayer:
    """A match, its sums of shares, and what was taken for its settings."""

    match: LayerMatch
    share: np.ndarray  # (n_above,), over the nodes of all steps
    sigma: float
    sigma0: float
    gamma0: float
    explained: float  # beyond chance


def match_networks(
    networks: Sequence[Layers],  # hidden layers of width 0 where a node has no units
    class_share: np.ndarray,  # (n_nodes, n_classes)
    *,
    # For each hidden layer; "auto" sigma and gamma0 are those of earlier steps, if any.
    sigma: Sequence[float | str],  # deviation of weights from their atom's
    sigma0: Sequence[float | str],  # of atoms from zero; "auto" goes by sigma
    gamma0: Sequence[float | str],  # mass of the beta process
    max_units: Sequence[int | None],
    layer_order: str = "bottom_up",  # or "top_down"
    previous: NetworkMatch | None = None,  # of as many classes
    # (n_classes,): what shares of the earlier steps are to add up to; NaN: as they are.
    previous_share: np.ndarray | None = None,
    counts: Sequence[np.ndarray] | None = None,  # earlier uses, (n_nodes, n_atoms)
    n_steps: int = 0,
    max_iter: int = 100,
    tol: float = 0.0,
    new_atom_cost: str = "exchangeable",
    model: str = "weighted",  # or "paper": see Matching
    random_state: int | np.random.RandomState | None = None,
) -> NetworkMatch:
    """Match hidden units of equally deep networks (PFNM 2018, 3.2 and Algorithm 1)."""
    from_bottom = layer_order == "bottom_up"
    if model == "paper":
        # Each node counts once for a class, however many rows it has, in every step.
        class_share = (class_share > 0).astype(class_share.dtype)
        previous_share = None
    votes = _votes(class_share, previous=previous, previous_share=previous_share)
    earlier = None
    if previous is not None:
        if previous_share is not None:
            # Votes count only where rows are matched by outgoing weights alone.
            by_votes = not from_bottom and len(sigma) > 1
            previous = _reweighted(
                previous, share=previous_share, votes=votes if by_votes else 1.0
            )
        sigma = _replace_auto(sigma, previous.sigma)
        gamma0 = _replace_auto(gamma0, previous.gamma0)
        earlier = _Earlier(match=previous, counts=counts, n_steps=n_steps)
    settings = [
        _LayerSettings(
            sigma=sigma[layer],
            sigma0=sigma0[layer],
            gamma0=gamma0[layer],
            max_units=max_units[layer],
            max_iter=max_iter,
            tol=tol,
            new_atom_cost=new_atom_cost,
            model=model,
            is_deep=len(sigma) > 1,
        )
        for layer in range(len(sigma))
    ]
    matched = _match_layers(
        networks,
        class_share,
        settings=settings,
        votes=votes,
        from_bottom=from_bottom,
        earlier=earlier,
        rng=check_random_state(random_state),
    )
    match = _network_match(networks, class_share, matched=matched, model=model)
    return match if previous is None else _with_earlier_sums(match, previous)


def _match_layers(
    networks: Sequence[Layers],
    class_share: np.ndarray,
    *,
    settings: Sequence[_LayerSettings],
    votes: np.ndarray,
    from_bottom: bool,
    earlier: _Earlier | None,
    rng: np.random.RandomState,
) -> list[_MatchedLayer]:
    """Match one layer after the other; from the bottom, whichever came first."""
    n_hidden = len(settings)
    matched: list[_MatchedLayer | None] = [None] * n_hidden
    for layer in range(n_hidden) if from_bottom else range(n_hidden)[::-1]:
        links = _links(
            layer,
            matched=matched,
            n_features=len(networks[0].coefs[0]),
            class_share=class_share,
            has_units=np.array([_has_units(network) for network in networks]),
            from_bottom=from_bottom,
        )
        is_last = layer == n_hidden - 1
        if is_last and links.below is None and settings[layer].model == "weighted":
            links = replace(links, share=links.share * votes)
        matched[layer] = _match_linked(
            networks,
            links,
            layer=layer,
            settings=settings[layer],
            class_share=class_share,
            earlier=earlier,
            rng=rng,
        )
    return matched


def _network_match(
    networks: Sequence[Layers],
    class_share: np.ndarray,
    *,
    matched: Sequence[_MatchedLayer],
    model: str,
) -> NetworkMatch:
    """The match of this step, with what needs no match: outputs and their biases."""
    return NetworkMatch(
        layers=[layer.match for layer in matched],
        sigma=[layer.sigma for layer in matched],
        sigma0=[layer.sigma0 for layer in matched],
        gamma0=[layer.gamma0 for layer in matched],
        shares=[layer.share for layer in matched],
        class_share=class_share.sum(axis=0),
        bias=_summed_biases(networks, class_share),
        n_networks=sum(_has_units(network) for network in networks),
        n_nodes=len(networks),
        activation=_activation(networks),
        explained=tuple(layer.explained for layer in matched),
        model=model,
    )


def _votes(
    class_share: np.ndarray,
    *,
    previous: NetworkMatch | None,
    previous_share: np.ndarray | None,
) -> np.ndarray:
    """The number that the nodes' shares in a class are multiplied by, (n_classes,).

    Shares sum to 1 over the nodes. Times the number of nodes each node counts once: if
    all together counted once, what their outgoing weights say would be weak beside the
    prior of assignments.
    """
    n_nodes, n_classes = class_share.shape
    votes = np.full(n_classes, n_nodes, dtype=np.float64)
    if previous is not None and previous_share is not None:
        # Where shares are those of all steps, the nodes of earlier steps count as well.
        votes[~np.isnan(previous_share)] += previous.n_nodes
    return votes


def _replace_auto(parameters: Sequence, replacements: Sequence) -> list:
    return [
        replacement if parameter == "auto" else parameter
        for parameter, replacement in zip(parameters, replacements, strict=True)
    ]


def _links(
    layer: int,
    *,
    matched: Sequence[
        _MatchedLayer | None
    ],  # those before it, in the order of matching
    n_features: int,
    class_share: np.ndarray,
    has_units: np.ndarray,  # (n_nodes,)
    from_bottom: bool,
) -> _Links:
    """Links of a layer to what is matched before it; not to what is matched after."""
    n_nodes, n_classes = class_share.shape
    below: Sequence[np.ndarray] | None = None
    n_below = 0
    if layer == 0:
        below = [np.arange(n_features)] * n_nodes
        n_below = n_features
    elif from_bottom:
        below = matched[layer - 1].match.assignments
        n_below = len(matched[layer - 1].match.atoms)
    above: Sequence[np.ndarray] | None = None
    share = np.zeros((n_nodes, 0))
    if layer == len(matched) - 1:
        above = [np.arange(n_classes)] * n_nodes
        share = class_share
    elif not from_bottom:
        layer_above = matched[layer + 1].match
        above = layer_above.assignments
        # Weights to atoms that a node lacks are zero, and as sure as any.
        share = np.tile(has_units[:, None] * 1.0, (1, len(layer_above.atoms)))
    return _Links(below=below, n_below=n_below, above=above, share=share)


def _match_linked(
    networks: Sequence[Layers],
    links: _Links,
    *,
    layer: int,
    settings: _LayerSettings,
    class_share: np.ndarray,
    earlier: _Earlier | None,
    rng: np.random.RandomState,
) -> _MatchedLayer:
    groups = [
        links.rows(network, layer=layer, node=node)
        for node, network in enumerate(networks)
    ]
    sigma, sigma0 = settings.deviations(groups)
    share = links.share.sum(axis=0)
    history = None
    if earlier is not None:
        history = earlier.history(layer, links=links, sigma0=sigma0)
        earlier_share = earlier.match.shares[layer]
        share[: len(earlier_share)] += earlier_share
    precisions = np.hstack([np.ones((len(networks), 1)), links.share]) * sigma**-2.0
    match_with = partial(
        match_layer,
        Units.from_groups(groups, links.n_shared),
        precisions.astype(groups[0].dtype),
        n_shared=links.n_shared,
        prior_precision=sigma0**-2.0,
        max_iter=settings.max_iter,
        tol=settings.tol,
        max_units=settings.max_units,
        new_atom_cost=settings.new_atom_cost,
        history=history,
        random_state=rng,
    )
    n_sharing = nodes_per_class(class_share)
    if settings.gamma0 == "auto":
        gamma0, match = match_at_auto_gamma0(
            match_with,
            groups,
            sigma=sigma,
            n_sharing=n_sharing,
            max_units=settings.max_units,
            is_deep=settings.is_deep,
        )
    else:
        gamma0 = settings.gamma0
        match = match_with(gamma0=gamma0)
    # After training from a merged network, what counts is how far each unit moved.
    if earlier is not None:
        n_atoms = len(match.atoms)
        excess = earlier.excess(layer, links=links, n_atoms=n_atoms)
        match = replace(match, excess=excess)
    elif settings.model == "weighted" and links.n_below and links.n_above:
        match = _with_weighted_means(match, groups, links=links, sigma=sigma)
    return _MatchedLayer(
        match=match,
        share=share,
        sigma=sigma,
        sigma0=sigma0,
        gamma0=gamma0,
        explained=beyond_chance(
            min(match.explained, match.explained_outgoing), n_sharing
        ),
    )


def nodes_per_class(class_share: np.ndarray) -> float:
    """Return how many nodes share a class, mean over classes; one counts by its share.

    Equal shares of n nodes come to n, and the share of one node that has all to 1.
    """
    total = class_share.sum(axis=0)
    is_known = total > 0
    if not is_known.any():
        return 1.0
    squared = np.sum(class_share[:, is_known] ** 2, axis=0)
    return float(np.mean(total[is_known] ** 2 / squared))


def _with_weighted_means(
    match: LayerMatch, groups: Sequence[np.ndarray], *, links: _Links, sigma: float
) -> LayerMatch:
    """Return the match with weighted means of units as incoming weights to merge.

    A unit counts by the norm of its outgoing weights times its node's shares: what it
    adds to the outputs. One that adds next to nothing would only blur the others. The
    weights in an atom sum to the number of its units, so that the prior draws their
    mean to zero as it draws that of the posterior, which stays as it is.
    """
    n_shared = links.n_shared
    outputs = [
        np.linalg.norm(V[:, n_shared:] * share, axis=1)
        for V, share in zip(groups, links.share, strict=True)
    ]
    largest = max(np.max(output, initial=0.0) for output in outputs)
    if largest == 0:
        return match
    # Where all units of an atom add nothing, they count alike.
    outputs = [output + LEAST_OUTPUT * largest for output in outputs]
    total = np.zeros(len(match.atoms))
    for atoms, output in zip(match.assignments, outputs, strict=True):
        total[atoms] += output
    factor = match.popularity / _where_positive(total, otherwise=1.0)
    excess = np.zeros_like(match.atoms.linear[:, :n_shared])
    for V, atoms, output in zip(groups, match.assignments, outputs, strict=True):
        excess_precision = (output * factor[atoms] - 1) * sigma**-2.0
        excess[atoms] += excess_precision[:, None] * V[:, :n_shared]
    return replace(match, excess=excess)


def _summed_biases(networks: Sequence[Layers], class_share: np.ndarray) -> np.ndarray:
    biases = [network.intercepts[-1] for network in networks]
    return np.sum(
        [share * bias for share, bias in zip(class_share, biases, strict=True)], axis=0
    )


def _has_units(network: Layers) -> bool:
    return len(network.intercepts[0]) > 0


def _activation(networks: Sequence[Layers]) -> tuple[str, ...]:
    """Return the activation of a network with units: constant models have none."""
    with_units = [network for network in networks if _has_units(network)]
    return (with_units or networks)[0].activation


def _with_earlier_sums(match: NetworkMatch, previous: NetworkMatch) -> NetworkMatch:
    return replace(
        match,
        class_share=match.class_share + previous.class_share,
        bias=match.bias + previous.bias,
        n_networks=match.n_networks + previous.n_networks,
        n_nodes=match.n_nodes + previous.n_nodes,
        activation=previous.activation,
    )


def _reweighted(
    match: NetworkMatch, *, share: np.ndarray, votes: np.ndarray | float
) -> NetworkMatch:
    """Return a match whose shares of each class add up to ``share``; NaN: as now.

    Shares of outgoing weights add up to ``share`` times ``votes``.
    """
    class_factor = _factor(match.class_share, share)
    layers = list(match.layers)
    shares = list(match.shares)
    if layers:
        factor = _factor(shares[-1], share * votes)
        shares[-1] = shares[-1] * factor
        atoms = layers[-1].atoms
        prior_precision = match.sigma0[-1] ** -2.0
        linear = atoms.linear.copy()
        precision = atoms.precision.copy()
        linear[:, atoms.n_shared :] *= factor
        # The prior is not of rows: what rows said is reweighted alone.
        precision[:, 1:] = (
            prior_precision + (precision[:, 1:] - prior_precision) * factor
        )
        atoms = replace(atoms, linear=linear, precision=precision)
        layers[-1] = replace(layers[-1], atoms=atoms)
    return replace(
        match,
        layers=layers,
        shares=shares,
        class_share=match.class_share * class_factor,
        bias=match.bias * class_factor,
    )


def _factor(sums: np.ndarray, new_sums: np.ndarray) -> np.ndarray:
    """Return the factor from sums to new ones; 1 where either is missing."""
    ratio = new_sums / _where_positive(sums, otherwise=1.0)
    return np.where(np.isnan(new_sums) | (sums <= 0), 1.0, ratio)


def widened(atoms: Atoms, *, n_shared: int, n_targets: int, sigma0: float) -> Atoms:
    """Return beliefs of atoms where the layer before or after has new atoms.

    The last of the shared numbers is the bias: it moves to the new end of these.
    """
    n_old_shared = atoms.n_shared
    n_old_targets = atoms.linear.shape[1] - n_old_shared
    linear = np.zeros((len(atoms), n_shared + n_targets), dtype=atoms.linear.dtype)
    linear[:, : n_old_shared - 1] = atoms.linear[:, : n_old_shared - 1]
    linear[:, n_shared - 1 : n_shared + n_old_targets] = atoms.linear[
        :, n_old_shared - 1 :
    ]
    padding = ((0, 0), (0, n_targets - n_old_targets))
    precision = np.pad(atoms.precision, padding, constant_values=sigma0**-2.0)
    return Atoms(linear=linear, precision=precision, n_shared=n_shared)


def widen_classes(
    match: NetworkMatch, *, places: np.ndarray, n_classes: int
) -> NetworkMatch:
    """Return the match for more classes; old ones have the indices ``places``."""
    spread = partial(_spread, places=places, n_classes=n_classes)
    layers = list(match.layers)
    shares = list(match.shares)
    if layers:
        atoms = layers[-1].atoms
        n_shared = atoms.n_shared
        outgoing = spread(atoms.linear[:, n_shared:])
        outgoing_precision = spread(
            atoms.precision[:, 1:], fill_value=match.sigma0[-1] ** -2.0
        )
        atoms = Atoms(
            linear=np.hstack([atoms.linear[:, :n_shared], outgoing]),
            precision=np.hstack([atoms.precision[:, :1], outgoing_precision]),
            n_shared=n_shared,
        )
        layers[-1] = replace(layers[-1], atoms=atoms)
        shares[-1] = spread(shares[-1])
    return replace(
        match,
        layers=layers,
        shares=shares,
        class_share=spread(match.class_share),
        bias=spread(match.bias),
    )


def _spread(
    columns: np.ndarray,  # (..., n_old_classes)
    *,
    places: np.ndarray,
    n_classes: int,
    fill_value: float = 0.0,
) -> np.ndarray:
    wide = np.full((*columns.shape[:-1], n_classes), fill_value, dtype=columns.dtype)
    wide[..., places] = columns
    return wide


def merged_layers(match: NetworkMatch) -> Layers:
    """Return the mode of the posterior (PFNM 2018, Eq. 5) as a network.

    But for the paper's model, incoming weights of a first match are weighted means,
    and each layer is rescaled for the prior.
    """
    # Weights between two hidden layers are of the one that was matched last.
    coefs: list[np.ndarray | None] = [None] * (len(match.layers) + 1)
    intercepts = []
    for i, layer in enumerate(match.layers):
        n_shared = layer.atoms.n_shared
        mean = layer.merged_atoms.mean
        incoming_factor, outgoing_factors = scale_factors(match, i)
        incoming = mean[:, :n_shared] * incoming_factor
        outgoing = mean[:, n_shared:] * outgoing_factors
        if n_shared > 1:
            coefs[i] = np.ascontiguousarray(incoming[:, :-1].T)
        intercepts.append(incoming[:, -1].copy())
        if outgoing.shape[1]:
            coefs[i + 1] = np.ascontiguousarray(outgoing, dtype=mean.dtype)
    last_bias = match.bias / _where_positive(match.class_share, otherwise=1.0)
    intercepts.append(last_bias.astype(coefs[-1].dtype))
    return Layers(coefs=coefs, intercepts=intercepts, activation=match.activation)


def scale_factors(match: NetworkMatch, layer: int) -> tuple[float, np.ndarray]:
    """Return factors on incoming (one) and outgoing weights that undo the prior's pull.

    Of n units the mean is drawn to zero by the factor ``n / sigma^2`` over
    ``n / sigma^2 + 1 / sigma0^2``, whose inverse is ``1 + sigma^2 / sigma0^2 / n``. The
    paper leaves the pull.
    """
    if match.model == "paper":
        return 1.0, np.ones(len(match.shares[layer]))
    ratio = (match.sigma[layer] / match.sigma0[layer]) ** 2
    shares = _where_positive(match.shares[layer], otherwise=np.inf)
    return 1 + ratio / max(match.n_networks, 1), 1 + ratio / shares


def _where_positive(share: np.ndarray, *, otherwise: float) -> np.ndarray:
    return np.where(share > 0, share, otherwise)


def match_again(
    networks: Sequence[Layers],  # without changes common to all classes, as for softmax
    class_share: np.ndarray,
    *,
    merged: NetworkMatch,
    **settings: object,  # of match_networks
) -> NetworkMatch:
    r"""Match networks whose training started from the network of an earlier match.

    The prior of an atom is centered at its merged unit, not at zero: :math:`\theta_i =
    \mu_i + \sum_{jl \to i} s_j (v_{jl} - \mu_i) / (s_0 + \sum_{jl \to i} s_j)`.
    """
    # What networks said before is not counted again: it came from the same rows.
    prior = _prior_at_merged(merged)
    n_nodes = len(networks)
    match = match_networks(
        networks,
        class_share,
        sigma=merged.sigma,
        sigma0=merged.sigma0,
        previous=prior,
        # Each node has used each atom once: training started from all.
        counts=[np.ones((n_nodes, len(layer.atoms)), int) for layer in merged.layers],
        n_steps=1,
        **settings,
    )
    layers = [
        _with_factors_on_changes(match, i, start=prior.layers[i].atoms)
        for i in range(len(match.layers))
    ]
    return replace(match, layers=layers)


def _with_factors_on_changes(
    match: NetworkMatch, layer: int, *, start: Atoms
) -> LayerMatch:
    """Means such that the factors of merged_layers act on changes since start only.

    For a factor f and a start s the mean m becomes m - s (1 - 1 / f): f times that is
    s + f (m - s).
    """
    layer_match = match.layers[layer]
    atoms = layer_match.atoms
    sigma0 = match.sigma0[layer]
    n_shared = atoms.n_shared
    wide = widened(
        start,
        n_shared=n_shared,
        n_targets=atoms.linear.shape[1] - n_shared,
        sigma0=sigma0,
    ).linear
    start_mean = wide / wide.dtype.type(sigma0**-2.0)
    # New atoms start at zero.
    start_mean = np.pad(start_mean, ((0, len(atoms) - len(start_mean)), (0, 0)))
    incoming_factor, outgoing_factors = scale_factors(match, layer)
    start_mean[:, :n_shared] *= 1 - 1 / incoming_factor
    start_mean[:, n_shared:] *= 1 - 1 / outgoing_factors
    linear = scaled(atoms.mean - start_mean, atoms.precision, n_shared=n_shared)
    return replace(layer_match, atoms=replace(atoms, linear=linear))


def _prior_at_merged(merged: NetworkMatch) -> NetworkMatch:
    """Return atoms at the merged units, as uncertain as any; nothing else is known."""
    start = merged_layers(merged)
    layers = []
    for i, layer in enumerate(merged.layers):
        atoms = layer.atoms
        columns = [start.intercepts[i][:, None]]
        # As the rows of this layer were: with weights of what was matched before it.
        if atoms.n_shared > 1:
            columns.insert(0, start.coefs[i].T)
        if atoms.linear.shape[1] > atoms.n_shared:
            columns.append(start.coefs[i + 1])
        dtype = atoms.linear.dtype
        prior_precision = dtype.type(merged.sigma0[i] ** -2.0)
        mean = np.hstack(columns).astype(dtype, copy=False)
        atoms = Atoms(
            linear=mean * prior_precision,
            precision=np.full_like(atoms.precision, prior_precision),
            n_shared=atoms.n_shared,
        )
        layers.append(replace(layer, atoms=atoms, excess=None))
    return replace(
        merged,
        layers=layers,
        shares=[np.zeros_like(share) for share in merged.shares],
        class_share=np.zeros_like(merged.class_share),
        bias=np.zeros_like(merged.bias),
        n_networks=0,
        n_nodes=0,
    )
