"""The method of GEMSMLPAggregator: all of a fit but scikit-learn's protocol."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy.sparse import sparray, spmatrix
from sklearn.base import clone
from sklearn.utils import check_random_state

from ..asking import (
    FineTunedNetwork,
    Run,
    fine_tune_network,
    train_plainly,
    warn_of_other_shares,
)
from ..base import tuned_attributes, warn_user
from ..local import other_share
from ..networks import Coordinates, Layers, LayersBelow, zero_dropped
from ..parties import Federation
from ._common_units import number_of_common_units
from ._last_layer import LastLayer, MergedLast, NetworksMethod, last_spaces
from ._layers import HiddenStage, MergedHidden, activation_of
from ._logistic import GEMSLogisticAggregator
from ._parameters import HiddenLayers
from ._terms import MergedLayersTerms
from ._training_rounds import train_rounds

Rows = np.ndarray | sparray | spmatrix  # (n_rows, n_features)


@dataclass(frozen=True, eq=False, kw_only=True)
class LayersMethod(NetworksMethod):
    """The parameters of a fit of networks, checked; see GEMSMLPAggregator for each."""

    recalls: ClassVar[bool] = True
    aggregator: ClassVar[str] = "GEMSMLPAggregator"

    hidden_layers: HiddenLayers  # whose parts are objects
    n_rounds: int
    local_epochs: int
    n_common_units: int | str

    @property
    def terms(self) -> MergedLayersTerms:
        """Return what nodes and server agree on, without a front."""
        return MergedLayersTerms(
            last_layer=self.settled_last_layer()._method().terms,
            n_rounds=self.n_rounds,
            n_common_units=self.n_common_units,
        )

    @cached_property
    def seed(self) -> int:
        """Return the seed of all that is drawn, which is the same at all nodes."""
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def attributes(self, federation: Federation, run: Run) -> dict[str, object]:
        """Merge hidden layers and the last, tune them; return the attributes."""
        if federation.rows_are_shared:
            warn_user(
                "nodes is not given and nodes share classes, so they share rows: "
                "layers are retrained on pooled rows, and spaces='gram' of the last "
                "layer cannot tell them apart. Give fit the node of each row, fit(X, "
                "y, nodes=nodes)."
            )
        federation.warn_of_lacking_features()
        last = LastLayer.from_method(self, federation, run, seed=self.seed)
        activation = activation_of(federation.nodes)
        coordinates = Coordinates.common(
            [node.network.coordinates for node in federation.nodes]
        )
        _warn_of_resampled(last)
        merged_hidden, last = self._merge_hidden(last, activation, coordinates)
        merged = self._merge_last(merged_hidden, last, coordinates)
        layers = merged.layers.with_last(last.publish(merged))
        last_layer = last.aggregator
        fine_tuned = None
        if federation.has_public_rows:
            rows = federation.public_rows
            fine_tuned = tuned_network(
                zero_dropped(federation.X[rows], federation.unused),
                federation.y[rows],
                groups=federation.public_groups,
                layers=layers,
                last_layer=last_layer,
                coordinates=coordinates,
                hidden=last_layer.fine_tuning != "plain",  # as in the papers
                random_state=self.random_state,
            )
        return {
            **tuned_attributes(layers, last_layer=last_layer, tuned=fine_tuned),
            "spaces_": last_layer.spaces_,
            "intersection_": last_layer.intersection_,
            "node_scores_": last_layer.node_scores_,
            "history_": last_layer.history_,
            "_coordinates": coordinates,
            "activation_": activation,
            "hidden_geometry_": self.hidden_layers.geometry,
            "layer_report_": merged_hidden.report,
        }

    def _merge_hidden(
        self,
        last: LastLayer,
        activation: tuple[str, ...],
        coordinates: Coordinates | None,
    ) -> tuple[MergedHidden, LastLayer]:
        """Merge the hidden layers; the last layer gets the nodes' own over these."""
        federation = last.federation
        stage = HiddenStage(
            parameters=self.hidden_layers,
            local_epochs=self.local_epochs,
            n_common_units=number_of_common_units(
                self.n_common_units,
                hidden_layers=self.hidden_layers,
                activation=activation,
                retrains_last=last.method.needs_models,
                federation=federation,
            ),
            activation=activation,
            n_rows={node.name: node.n_in_moments for node in federation.nodes},
            coordinates=coordinates,
            retrain_last=last.method.needs_models,
            seed=self.seed,
        )
        networks = {
            node.name: node.network.with_empty_layers(len(activation))
            for node in federation.nodes
        }
        merged_hidden = last.run(stage.plan(networks))
        _drop_unused(merged_hidden.hidden, federation.unused)
        if stage.retrain_last:
            last = last.with_models(
                {
                    name: network.aligned(federation.classes).last
                    for name, network in merged_hidden.networks.items()
                }
            )
        return merged_hidden, last

    def _merge_last(
        self,
        merged_hidden: MergedHidden,
        last: LastLayer,
        coordinates: Coordinates | None,
    ) -> MergedLast:
        """Merge the last layer over merged ones, after rounds of training if any."""
        has_hidden_layers = bool(merged_hidden.hidden.activation)
        trains = self.n_rounds > 1 and has_hidden_layers
        if not trains or len(last.federation.classes) < 2:
            return last.fit_over(merged_hidden.hidden)
        # Over the layers as they are merged, and once more when they are trained.
        return train_rounds(
            last.fit_over(merged_hidden.hidden),
            last,
            n_rounds=self.n_rounds,
            epochs=self.local_epochs,
            coordinates=coordinates,
            seed=self.seed,
        )


def _warn_of_resampled(last: LastLayer) -> None:
    """Warn of networks that expect other shares of classes, where nodes are here."""
    if last.aggregator.class_weight != "members":
        return
    shares = {
        member.name: other_share(member.model, *member.rows("learning"))
        for member in last.run.members
    }
    warn_of_other_shares(
        {name: share for name, share in shares.items() if share is not None},
        "Set class_weight of last_layer to 'balanced' if all classes should weigh the "
        "same, or to None if rows should.",
    )


def _drop_unused(hidden: LayersBelow, unused: np.ndarray | None) -> None:
    """Set weights of features that all nodes drop to 0: rounding may have made some."""
    if unused is not None and hidden.weights:
        hidden.weights[0][:-1][unused] = 0.0


def tuned_network(
    X: Rows,
    y: np.ndarray,
    *,
    groups: np.ndarray | None,
    layers: Layers,
    last_layer: GEMSLogisticAggregator | None,
    coordinates: Coordinates | None,
    hidden: bool,
    random_state: object,
) -> FineTunedNetwork:
    """Layers after fine-tuning on public rows; hidden ones, too, if ``hidden``.

    The fitted aggregator of the last layer, if there is one, says how, and what moments
    say of that layer. If hidden layers change, these are moments of other units: it
    loses them. Rows of one of the ``groups``, (n_rows,), are in the same fold.
    """
    rng = check_random_state(random_state)
    if last_layer is not None and last_layer.fine_tuning == "plain":
        fine_tuned = _plainly_tuned(X, y, layers, hidden=hidden, rng=rng)
    else:
        if last_layer is not None:
            last_layer._check_has_sums()
        fine_tuned = fine_tune_network(
            X,
            y,
            layers,
            hidden=hidden,
            coordinates=coordinates,
            groups=groups,
            likelihood=None if last_layer is None else last_layer.likelihood_,
            random_state=rng,
        )
    if last_layer is not None and not _have_equal_units(fine_tuned.layers, layers):
        last_layer.likelihood_ = None
    return fine_tuned


def _plainly_tuned(
    X: Rows,
    y: np.ndarray,
    layers: Layers,
    *,
    hidden: bool,
    rng: np.random.RandomState,
) -> FineTunedNetwork:
    """Tune all layers, or the last one alone, by some epochs of Adam."""
    if hidden:
        return train_plainly(X, y, layers, random_state=rng)
    fine_tuned = train_plainly(
        layers.hidden(X), y, Layers.from_weights([layers.last]), random_state=rng
    )
    return replace(fine_tuned, layers=layers.with_last(fine_tuned.layers.last))


def _have_equal_units(layers: Layers, other: Layers) -> bool:
    """Report whether two networks have equal hidden layers."""
    pairs = zip(layers.weights[:-1], other.weights[:-1], strict=True)
    return all(np.array_equal(W, other_W) for W, other_W in pairs)


def long_last_layer(
    last_layer: GEMSLogisticAggregator | None,
) -> GEMSLogisticAggregator:
    """A copy, whose word for a geometry means what it means in this place."""
    last_layer = clone(last_layer or GEMSLogisticAggregator())
    return last_layer.set_params(spaces=last_spaces(last_layer.spaces))
