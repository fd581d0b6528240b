"""What a fitted PFNMAggregator knows of its stream, for a batch or a node to go on."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from sklearn.neural_network import MLPClassifier
from sklearn.utils import check_random_state

from ..base import SEEDS_BELOW, BaseAggregator, is_named
from ..local import Description
from ..networks import Network, to_mlp_classifier
from ..parties import Federation, check_feature_names
from ._rounds import drawn_units
from ._stream import Stream, activations_of, common_coordinates


@dataclass(frozen=True, kw_only=True, eq=False)
class EarlierSteps:
    """The stream of a fitted aggregator, with the classes and features of its rows."""

    stream: Stream
    description: Description  # features and classes, as those of a classifier
    activation: tuple[str, ...]  # of each hidden layer; none of constant models alone
    dtype: np.dtype  # of the networks of all steps

    @classmethod
    def from_aggregator(cls, aggregator: BaseAggregator) -> Self:
        """Return what a fitted PFNMAggregator knows."""
        return cls(
            stream=aggregator._stream,
            description=Description.from_classifier(aggregator, aggregator.classes_),
            activation=aggregator.activation_,
            dtype=aggregator._dtype,
        )

    # ---- the next batch --------------------------------------------------------------

    def check_names(self, estimators: object) -> None:
        """Raise ValueError where the networks of the next batch have no names."""
        if not is_named(estimators):
            raise ValueError(
                "update got networks without names, but a stream knows a node by its "
                'name. Name them, update([("name", network), ...]), new nodes by new '
                f"names. Nodes so far are {list(self.stream.names)}; a fit without "
                "names calls its nodes '0', '1' and so on, in the order of its list."
            )

    def check(self, federation: Federation) -> None:
        """Raise ValueError for networks that are not such as those of earlier steps.

        TypeError where a model has no hidden layers.
        """
        n_features = federation.features.n_features_in
        if n_features != self.description.n_features_in:
            raise ValueError(
                f"The networks take {n_features} features, but those of earlier steps "
                f"took {self.description.n_features_in}. Give networks of the same "
                "features."
            )
        networks = [node.network for node in federation.nodes]
        check_feature_names(
            ["of earlier steps", *federation.names],
            [self.description, *networks],
            reference=None,
        )
        activation = activations_of(federation.nodes)
        # Constant models have none, and fit any.
        if activation and activation != self.activation:
            raise ValueError(
                "The hidden layers of earlier steps had activations "
                f"{self.activation}, but those of these networks have {activation}. "
                "Give networks with the activations of earlier steps."
            )

    def stream_for(self, networks: Sequence[Network], classes: np.ndarray) -> Stream:
        """Return the stream so far, with a new batch's classes and coordinates."""
        stream = self.stream
        if len(classes) > len(self.description.classes):
            places = np.searchsorted(classes, self.description.classes)
            stream = stream.with_classes(places, len(classes))
        is_as_it_was = stream.match.n_nodes == 1 and stream.match.model == "weighted"
        if is_as_it_was and not np.isnan(stream.class_rows).any():
            stream = stream.centered()
        has_units = not all(network.is_constant for network in networks)
        if stream.coordinates is not None and has_units:
            # Nothing so far has a weight of a feature that nobody knew.
            coordinates = stream.coordinates.filled(common_coordinates(networks))
            stream = replace(stream, coordinates=coordinates)
        return stream

    def dtype_with(self, networks: Sequence[Network]) -> np.dtype:
        """Return the type of numbers of these networks and of all before them."""
        # Constant models have no weights that a type could cost digits.
        dtypes = [network.dtype for network in networks if not network.is_constant]
        return np.result_type(self.dtype, *dtypes)

    def feature_attributes(self) -> dict[str, object]:
        """Return what the aggregator publishes of its features, which stay."""
        attributes: dict[str, object] = {
            "n_features_in_": self.description.n_features_in
        }
        if self.description.feature_names_in is not None:
            attributes["feature_names_in_"] = self.description.feature_names_in
        return attributes

    # ---- a node's start --------------------------------------------------------------

    def node_init(
        self,
        node: int | str,
        *,
        n_units: int | Sequence[int] | None,
        n_fresh: int | None,
        random_state: object,
    ) -> MLPClassifier:
        """Return weights for a node to start its next step from."""
        name = self._name_of(node)
        if n_fresh is not None and n_fresh < 0:
            raise ValueError(
                f"n_fresh must not be negative; got {n_fresh}. Give a number of units, "
                "or None for a tenth of them."
            )
        rng = check_random_state(random_state)
        layers = self.stream.layers(self.description.n_features_in)
        if n_units is not None or n_fresh:
            layers = drawn_units(
                layers,
                uses=self.stream.uses_by(name),
                widths=self._widths_to_draw(n_units, n_fresh),
                n_fresh=n_fresh,
                rng=rng,
            )
        estimator = to_mlp_classifier(
            self.stream.to_features(layers),
            self.description.classes,
            feature_names_in=self.description.feature_names_in,
        )
        return estimator.set_params(random_state=rng.randint(SEEDS_BELOW))

    def _name_of(self, node: int | str) -> str:
        names = list(self.stream.names)
        if node not in names and node not in range(len(names)):
            raise ValueError(
                f"{node!r} is not a node. Give one of the names {names}, or the index "
                "of one."
            )
        return node if isinstance(node, str) else names[node]

    def _widths_to_draw(
        self, n_units: int | Sequence[int] | None, n_fresh: int | None
    ) -> list[int]:
        """Return units of each hidden layer, with fresh ones."""
        n_merged = [len(layer.atoms) for layer in self.stream.match.layers]
        if n_units is None:
            return [n + n_fresh for n in n_merged]
        depth = len(n_merged)
        widths = [n_units] * depth if np.isscalar(n_units) else list(n_units)
        if len(widths) != depth or min(widths) < max(1, n_fresh or 0):
            raise ValueError(
                f"n_units must be one number, or one per hidden layer ({depth}), of at "
                f"least 1 and at least n_fresh; got {n_units!r}."
            )
        return widths
