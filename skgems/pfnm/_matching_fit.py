"""The method of PFNMAggregator: all of a fit but scikit-learn's protocol.

Networks are matched, at once or in rounds; then the last layer is made anew or its
logits are calibrated, and public rows tune the whole.
"""

from copy import deepcopy
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from ..asking import FineTunedNetwork, Run, ask_counts, warn_of_many_rows
from ..base import SEEDS_BELOW, layer_attributes, warn_user
from ..compat import say
from ..gems import GEMSLogisticAggregator, LastLayer, calibration_plan, tuned_network
from ..local import indices_of
from ..networks import Coordinates, Layers, LayersBelow, Network, union_of_classes
from ..parties import Federation
from ._earlier_steps import EarlierSteps
from ._matcher import Matcher
from ._network import NetworkMatch
from ._rounds import MatchingRounds, check_rounds
from ._stream import Stream, activations_of, common_coordinates
from ._terms import MatchingTerms

# Share that atoms explain, at least, of the nodes' units beyond chance. The automatic
# mass keeps 5/8. Networks of 50 and 100 units at ten nodes of MNIST, of which less was
# left by `max_units` or `sigma`, were 1 to 51 points less accurate than the vote that
# is weighted by classes.
_LEAST_EXPLAINED = 0.5


# Rows at all nodes for each merged unit, at least, of which "auto" makes a last layer.
# Of 210 and 430 units on MNIST it is 1 to 3 points less accurate than matched weights
# at one row a unit, less than a point at two, and 2 to 5 points more accurate at six.
_ROWS_A_UNIT = 2


class PoorMatchWarning(UserWarning):
    """The matched units have little in common with the units of the nodes.

    The merged network may then be much less accurate than a vote of the nodes. Give
    ``fit`` the rows of the nodes, at least two for each merged unit, and leave
    ``last_layer="auto"``. Or let more units stay: remove ``max_units``, and leave
    ``sigma`` and ``gamma0`` at "auto".
    """


@dataclass(frozen=True, kw_only=True, eq=False)
class MatchingMethod(Matcher):
    """The parameters of a PFNMAggregator, checked, and what they decide.

    See PFNMAggregator for what each parameter means.
    """

    aggregator: ClassVar[str] = "PFNMAggregator"

    n_rounds: int
    local_epochs: int
    round_units: str
    # Rows of each class at each node, (n_nodes, n_classes), as they are given to fit
    # and update. None: a fit asks the nodes, if they have rows.
    n_class_samples: ArrayLike | None = None

    @property
    def terms(self) -> MatchingTerms:
        """Return what nodes and server agree on, without a front."""
        last_layer = None
        if self.last_layer is not None:
            last_layer = self.settled_last_layer()._method().terms
        return MatchingTerms(last_layer=last_layer, n_rounds=self.n_rounds)

    def check_one_message(self) -> None:
        if self.n_rounds > 1:
            raise ValueError(
                f"n_rounds={self.n_rounds} asks nodes more than once, but a summary "
                "holds the reply to a single message. Set n_rounds=1, or use "
                "skgems.Exchange."
            )
        # With "auto" the matched weights are kept where nodes are summaries.
        if isinstance(self.last_layer, GEMSLogisticAggregator):
            raise ValueError(
                "last_layer asks nodes once more after units are matched, but a "
                "summary holds the reply to a single message. Set last_layer=None, or "
                "use skgems.Exchange."
            )

    # ---- a first fit -----------------------------------------------------------------

    def attributes(self, federation: Federation, run: Run) -> dict[str, object]:
        """Return the attributes of a fit, as the server sees it: match, ask, tune."""
        depth = len(activations_of(federation.nodes))
        counts = _given_counts(self.n_class_samples, seen=federation.seen)
        if self.n_rounds > 1:
            check_rounds(federation)
        if self.n_class_samples is None and federation.can_reply:
            counts = run(ask_counts(federation.classes)) * federation.seen
        rng = check_random_state(self.random_state)
        stream = self._first_step(
            federation, depth=depth, counts=counts, run=run, rng=rng
        )
        layers = stream.layers(federation.features.n_features_in)
        layers = stream.to_features(layers)
        history = run.history
        last_layer = None
        if self._makes_last_layer(federation, stream.match):
            layers, last_layer = self._with_last_layer(
                layers, federation=federation, run=run, rng=rng
            )
            history = last_layer.history_
        else:
            # A last layer made of moments warns by itself.
            if counts is not None and self.n_class_samples is None:
                _warn_of_many_rows(federation, counts)
            _warn_of_poor_match(stream.match)
            if federation.can_reply:
                layers = _calibrated(layers, federation=federation, run=run)
        fine_tuning = self._tuned_on_public_rows(
            layers,
            last_layer=last_layer,
            federation=federation,
            coordinates=stream.coordinates,
        )
        if fine_tuning is not None:
            layers = fine_tuning.layers
        attributes = {
            **_attributes_of(stream, layers=layers),
            "fine_tuning_": fine_tuning,
            "last_layer_": last_layer,
            "history_": history,
        }
        if self.matching.dtype is not None:
            attributes["_dtype"] = np.dtype(self.matching.dtype)
        return attributes

    def _makes_last_layer(self, federation: Federation, match: NetworkMatch) -> bool:
        """Report whether the last layer is made of moments of the matched units."""
        if self.last_layer is None or len(federation.classes) < 2:
            return False
        if self.last_layer != "auto":
            return True
        # One network alone is to come back as it is.
        if not match.layers or len(federation.nodes) == 1:
            return False
        if not federation.can_be_asked or not _have_rows_of_all_classes(federation):
            return False
        n_units = len(match.layers[-1].atoms)
        return federation.rows_in_moments.sum() >= _ROWS_A_UNIT * n_units

    def _first_step(
        self,
        federation: Federation,
        *,
        depth: int,
        counts: np.ndarray | None,
        run: Run,
        rng: np.random.RandomState,
    ) -> Stream:
        """Return a stream of one step, which may be of several rounds."""
        networks = [node.network for node in federation.nodes]
        stream = Stream.empty(
            depth=depth,
            n_classes=len(federation.classes),
            coordinates=common_coordinates(networks, are_trained=self.n_rounds > 1),
        )
        networks = stream.in_coordinates(networks)
        batch = self.batch(networks, federation.classes, counts=counts, stream=stream)
        match = self.match(batch, stream=stream, names=(), rng=rng)
        if self.n_rounds > 1 and depth:
            rounds = self._rounds(
                federation.classes, counts=counts, stream=stream, rng=rng
            )
            network_by_name = dict(zip(federation.names, networks, strict=True))
            match = run(rounds.plan(network_by_name, match))
        return stream.extended(
            match, names=federation.names, class_rows=batch.shares.class_rows
        )

    def _rounds(
        self,
        classes: np.ndarray,
        *,
        counts: np.ndarray | None,
        stream: Stream,
        rng: np.random.RandomState,
    ) -> MatchingRounds:
        def rematch(
            networks: list[Network], nodes: list[int], start: NetworkMatch | None
        ) -> NetworkMatch:
            batch = self.batch(
                networks,
                classes,
                counts=None if counts is None else counts[nodes],
                stream=stream,
                start=start,
            )
            if start is None:
                return self.match(batch, stream=stream, names=(), rng=rng)
            return self.match_trained(batch, start=start, rng=rng)

        return MatchingRounds(
            n_rounds=self.n_rounds,
            local_epochs=self.local_epochs,
            only_own_units=self.round_units == "own",
            classes=classes,
            stream=stream,
            rematch=rematch,
            rng=rng,
        )

    def _with_last_layer(
        self,
        layers: Layers,
        *,
        federation: Federation,
        run: Run,
        rng: np.random.RandomState,
    ) -> tuple[Layers, GEMSLogisticAggregator]:
        """Return layers with a last one that is merged over the matched units."""
        last_layer = LastLayer.from_method(
            self, federation, run, seed=rng.randint(SEEDS_BELOW)
        )
        if last_layer.method.needs_models:
            # All nodes have the same units now, and the same model over them.
            weights = dict.fromkeys(federation.names, layers.last)
            last_layer = last_layer.with_models(weights)
        merged = last_layer.fit_over(LayersBelow.from_layers(layers))
        W = last_layer.publish(merged)
        return merged.layers.with_last(W), last_layer.aggregator

    # ---- public rows -----------------------------------------------------------------

    def _tuned_on_public_rows(
        self,
        layers: Layers,
        *,
        last_layer: GEMSLogisticAggregator | None,
        federation: Federation,
        coordinates: Coordinates | None,
    ) -> FineTunedNetwork | None:
        if not federation.has_public_rows:
            return None
        rows = federation.public_rows
        return tuned_network(
            federation.X[rows],
            federation.y[rows],
            groups=federation.public_groups,
            layers=layers,
            last_layer=last_layer,
            coordinates=coordinates,
            # As GEMSMLPAggregator has it, and as in the papers.
            hidden=last_layer is None or last_layer.fine_tuning != "plain",
            random_state=self.random_state,
        )

    # ---- a further step of the stream ------------------------------------------------

    def attributes_after(
        self, earlier_steps: EarlierSteps, federation: Federation
    ) -> dict[str, object]:
        """Return the attributes after a batch is matched to earlier networks."""
        networks = [node.network for node in federation.nodes]
        classes = union_of_classes([earlier_steps.description, *networks])
        stream = earlier_steps.stream_for(networks, classes)
        seen = np.stack([network.aligned(classes).seen for network in networks])
        batch = self.batch(
            stream.in_coordinates(networks),
            classes,
            counts=_given_counts(self.n_class_samples, seen=seen),
            stream=stream,
        )
        match = self.match(
            batch,
            stream=stream,
            names=federation.names,
            rng=check_random_state(self.random_state),
        )
        stream = stream.extended(
            match, names=federation.names, class_rows=batch.shares.class_rows
        )
        _warn_of_poor_match(stream.match)
        n_features = earlier_steps.description.n_features_in
        layers = stream.to_features(stream.layers(n_features))
        attributes = {
            **_attributes_of(stream, layers=layers),
            "fine_tuning_": None,
            "last_layer_": None,
            "classes_": classes,
            "estimators_": federation.estimators,
            **earlier_steps.feature_attributes(),
        }
        if self.matching.dtype is None:
            attributes["_dtype"] = earlier_steps.dtype_with(networks)
        return attributes


def _given_counts(
    n_class_samples: ArrayLike | None, *, seen: np.ndarray
) -> np.ndarray | None:
    """Return the checked rows of each class at each node, (n_nodes, n_classes).

    ``seen``, of the same shape, is whether the node's network has seen a class.
    """
    if n_class_samples is None:
        return None
    counts = np.asarray(n_class_samples, dtype=np.float64)
    if counts.shape != seen.shape or not np.all((counts >= 0) & (counts < np.inf)):
        raise ValueError(
            "n_class_samples must hold one count, finite and not negative, for "
            f"each of {seen.shape[0]} nodes and {seen.shape[1]} classes; got an "
            f"array of shape {counts.shape}."
        )
    return np.where(seen, counts, 0.0)


def _have_rows_of_all_classes(federation: Federation) -> bool:
    """Report whether each class has rows in the moments of some node."""
    has_rows = np.zeros(len(federation.classes), dtype=bool)
    for node in federation.nodes:
        columns = indices_of(node.row_counts["labels"], federation.classes)
        has_rows[columns[np.asarray(node.row_counts["moments"]) > 0]] = True
    return bool(has_rows.all())


def _warn_of_many_rows(federation: Federation, counts: np.ndarray) -> None:
    """Warn of a node with nearly all rows, by (n_nodes, n_classes) that nodes sent."""
    if not federation.rows_are_shared:
        warn_of_many_rows(federation.names, counts.sum(axis=1))


def _warn_of_poor_match(match: NetworkMatch) -> None:
    """Warn where the last layer of a match is a mean of units that differ a lot."""
    for number, (share, layer) in enumerate(
        zip(match.explained, match.layers, strict=True), start=1
    ):
        if share < _LEAST_EXPLAINED:
            warn_user(
                f"The {len(layer.atoms)} matched units of hidden layer {number} "
                f"explain {max(share, 0.0):.0%} of the nodes' units beyond chance. The "
                "merged network may be much less accurate than a vote of the nodes. "
                "Pass their rows to fit, at least two for each matched unit, and leave "
                'last_layer="auto"; or let more units stay: remove max_units, and '
                'leave sigma and gamma0 at "auto".',
                PoorMatchWarning,
            )


def _calibrated(layers: Layers, *, federation: Federation, run: Run) -> Layers:
    """Return layers whose logits have the factor that is likeliest at the nodes."""
    # One network alone is to come back as it is.
    if len(federation.nodes) == 1 or len(federation.classes) == 1:
        return layers
    factor = run(
        calibration_plan(
            layers.last,
            at={node.name: federation.columns_of(node) for node in federation.nodes},
            classes=federation.classes,
            hidden=LayersBelow.from_layers(layers),
        )
    )
    return layers if factor is None else layers.scaled(factor)


def _attributes_of(stream: Stream, *, layers: Layers) -> dict[str, object]:
    """Return the attributes of what is known after a step of a stream."""
    match = stream.match
    n_units = tuple(len(layer.atoms) for layer in match.layers)
    # Copies: the stream goes on from its own.
    assignments = deepcopy([layer.assignments for layer in match.layers])
    n_before = [sum(map(len, by_node)) for by_node in assignments]
    say(f"{n_units} units in the hidden layers, {n_before} before matching")
    return {
        "node_names_": list(stream.names),
        "activation_": layers.activation,
        "n_units_": n_units,
        "assignments_": assignments,
        "popularity_": [uses.copy() for uses in stream.popularity],
        "posterior_": [deepcopy(layer.atoms) for layer in match.layers],
        "sigma_": list(match.sigma),
        "sigma0_": list(match.sigma0),
        "gamma0_": list(match.gamma0),
        "objective_": [layer.objective for layer in match.layers],
        "n_iter_": max([1, *(layer.n_iter for layer in match.layers)]),
        "n_steps_": stream.n_steps,
        "input_coordinates_": stream.coordinates,
        "_coordinates": stream.coordinates,
        "_stream": stream,
        "_layers": layers,
        **layer_attributes(layers),
    }
