"""The average, as a net, as plain arrays, or as both."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from sklearn.base import BaseEstimator

from ..base import BaseAggregator, layer_attributes
from ..local import LocalModel, local_model, to_logits
from ..networks import (
    Network,
    linear_attributes,
    to_logistic_regression,
    to_mlp_classifier,
    to_module,
)
from ._averages import with_outputs

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, eq=False, kw_only=True)
class AveragedModel:
    """The average of nodes' models, and what it can be turned into."""

    net: BaseEstimator | None  # a skorch net, where all nodes had equal modules
    network: Network | None  # None: it is no chain of dense layers
    classes: np.ndarray

    @classmethod
    def from_aggregator(cls, aggregator: BaseAggregator) -> Self:
        """Return what a fitted ModelAveragingAggregator has."""
        return cls(
            net=aggregator.net_,
            network=aggregator.network_,
            classes=aggregator.classes_,
        )

    @classmethod
    def from_average(cls, model: LocalModel | Network, classes: np.ndarray) -> Self:
        """Return what was averaged, with one output for each of ``classes``."""
        net = None
        if isinstance(model, LocalModel):
            if model.has_module:
                net = model.classifier
            if not model.is_chain:
                return cls(net=net, network=None, classes=classes)
            model = model.network
        return cls(net=net, network=with_outputs(model, classes), classes=classes)

    def attributes(self) -> dict[str, object]:
        """Return the attributes of the model: net, network and their arrays."""
        if self.network is None:
            arrays = {}
        elif self.network.is_linear:
            arrays = linear_attributes(self.network.last)
        else:
            arrays = layer_attributes(self.network)
        return {"net_": self.net, "network_": self.network, **arrays}

    def logits(self, X: np.ndarray) -> np.ndarray:
        """Return logits of rows, (n_rows, n_classes)."""
        if self.network is not None:
            return self.network.decision_function(X)
        net = local_model(self.net, name="average")
        return to_logits(net.probabilities(X, self.classes))

    def as_classifier(self) -> BaseEstimator:
        """Return the scikit-learn classifier that has the weights of the network."""
        network = self.network.astype(self.network.dtype)
        return as_classifier(network, self.classes)

    def as_module(self) -> "torch.nn.Module":
        """A torch module: that of the net, if there is one, in evaluation mode."""
        if self.net is not None:
            return self.copy_of_net().module_.eval()
        return to_module(self.network.astype(self.network.dtype))

    def copy_of_net(self) -> BaseEstimator:
        net = local_model(self.net)
        return net.with_parameters(net.parameters()).classifier


def as_classifier(network: Network, classes: np.ndarray) -> BaseEstimator:
    """Return the scikit-learn classifier that has the weights of a network."""
    if network.is_linear:
        return to_logistic_regression(
            network.coefs[0].T, network.intercepts[0], classes
        )
    return to_mlp_classifier(network, classes)
