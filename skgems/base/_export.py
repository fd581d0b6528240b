"""What aggregates that are one network can be turned into."""

from sklearn.neural_network import MLPClassifier
from sklearn.utils.validation import check_is_fitted

from ..networks import Layers, to_mlp_classifier, to_module


def layer_attributes(layers: Layers) -> dict:
    """``coefs_`` and ``intercepts_`` of an MLPClassifier: two classes, one output."""
    layers = layers.contracted()
    return {"coefs_": list(layers.coefs), "intercepts_": list(layers.intercepts)}


def linear_attributes(W) -> dict:
    """``coef_`` and ``intercept_`` of weights; one row for two classes."""
    if W.shape[1] == 2:
        W = W[:, 1:] - W[:, :1]
    return {"coef_": W[:-1].T.copy(), "intercept_": W[-1].copy()}


class NetworkExportMixin:
    """Exports of an aggregator that is one network.

    ``_layers`` is the network, with one output per class; ``_dtype`` is that of the
    nodes' networks, in which it is handed out.
    """

    def to_estimator(self) -> MLPClassifier:
        """The aggregate as a plain fitted ``MLPClassifier``.

        Returns
        -------
        estimator : MLPClassifier
            Predicts the same labels and probabilities, in the nodes' dtype.

        Raises
        ------
        ValueError
            If hidden layers have different activations, or there is only one class.
        """
        check_is_fitted(self)
        layers = self._layers.astype(self._dtype)
        return self._exported(to_mlp_classifier(layers, self.classes_))

    def to_module(self):
        """The aggregate as a torch module.

        Returns
        -------
        module : torch.nn.Sequential
            Linear layers and activations, from rows to one logit per class, whose
            softmax is ``predict_proba``; float32 if all nodes have that, else float64.
        """
        check_is_fitted(self)
        return to_module(self._layers.astype(self._dtype))
