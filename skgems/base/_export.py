"""What aggregates that are one network can be turned into."""

from collections.abc import Callable
from copy import copy
from typing import TYPE_CHECKING, Protocol, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.utils.validation import check_is_fitted

from ..compat import fit_context, shown
from ..networks import (
    Layers,
    as_two_logits,
    linear_attributes,
    linear_logits,
    to_logistic_regression,
    to_mlp_classifier,
    to_module,
)
from ._validation import Rows, validated_public_rows

if TYPE_CHECKING:  # torch is an extra
    import torch


class _Tuned(Protocol):
    """What fine-tuning returns: rooms above this one decide the rest of it."""

    layers: Layers


def layer_attributes(layers: Layers) -> dict[str, list[np.ndarray]]:
    """The weights as an MLPClassifier publishes them: of two classes one output."""
    layers = layers.contracted()
    return {"coefs_": list(layers.coefs), "intercepts_": list(layers.intercepts)}


def tuning_step(method: Callable) -> Callable:
    """A method that tunes a fitted aggregate: validated first, with progress shown."""
    return fit_context(prefer_skip_nested_validation=False)(shown(method))


class LinearExportMixin:
    """Mixin of an aggregator that is one linear classifier, with ``coef_``.

    ``_dtype`` is that of the nodes' classifiers, in which it is handed out.
    """

    def to_estimator(self) -> LogisticRegression:
        """Return the aggregate as a plain fitted ``LogisticRegression``.

        Returns
        -------
        estimator : LogisticRegression
            Predicts the same labels and probabilities, in the dtype of the nodes'
            models. Its ``C`` is ``C_``, if the aggregate has such a penalty. With a
            `front`, it is a pipeline of the fitted front and this classifier.
        """
        check_is_fitted(self)
        classifier = to_logistic_regression(
            (self._factor * self.coef_).astype(self._dtype),
            (self._factor * self.intercept_).astype(self._dtype),
            self.classes_,
        )
        if getattr(self, "C_", None) is not None:
            classifier.set_params(C=self.C_)
        return self._exported(classifier)

    def _weights(self) -> np.ndarray:
        """Return one column per class, the intercepts in the last row."""
        W = np.vstack([self.coef_.T, self.intercept_])
        return as_two_logits(W) if len(self.classes_) == 2 else W

    def _logits(self, X: Rows) -> np.ndarray:
        return linear_logits(X, self._weights())


class NetworkExportMixin:
    """Exports of an aggregator that is one network.

    ``_layers`` is the network, with one output per class; ``_dtype`` is that of the
    nodes' networks, in which it is handed out.
    """

    def to_estimator(self) -> MLPClassifier:
        """Return the aggregate as a plain fitted ``MLPClassifier``.

        Returns
        -------
        estimator : MLPClassifier
            Predicts the same labels and probabilities, in the dtype of the nodes'
            models. With a `front`, it is a pipeline of the fitted front and this
            classifier.

        Raises
        ------
        ValueError
            If hidden layers have different activations, or if there is only one class.
        """
        check_is_fitted(self)
        layers = self._layers.astype(self._dtype)
        return self._exported(to_mlp_classifier(layers, self.classes_))

    def to_module(self) -> "torch.nn.Sequential":
        """Return the aggregate as a torch module.

        Returns
        -------
        module : torch.nn.Sequential
            Linear layers and activations, from rows to one logit per class. The softmax
            of the logits is ``predict_proba``. The dtype is float32 if the models of
            all nodes have it, and float64 otherwise.

        Raises
        ------
        ValueError
            If the aggregate has a `front`, which a torch module cannot contain.
        """
        check_is_fitted(self)
        self._check_no_front()
        return to_module(self._layers.astype(self._dtype))

    def _logits(self, X: Rows) -> np.ndarray:
        hidden = self._layers.astype(X.dtype).hidden(X)
        return linear_logits(hidden, self._layers.last)


class TunedNetworkMixin(NetworkExportMixin):
    """Fine-tuning of an aggregator that is one network, by its ``_tuned``."""

    @tuning_step
    def fine_tune(
        self,
        X,
        y,
        *,
        layers: str = "all",
        groups=None,
    ) -> Self:
        """Fine-tune the fitted aggregate on public rows.

        The last layer is tuned first, then the whole network. If a GEMSMLPAggregator
        has made the last layer of moments, the public rows are one more node of its
        likelihood, with a cross-validated weight. Otherwise, and for the whole network,
        a penalty holds the weights near their current values. Cross-validation on the
        public rows chooses how strong it is, and nothing changes where tuning is not
        sure to help.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Public rows.
        y : array-like of shape (n_samples,)
            Labels of the public rows, which must all be in ``classes_``.
        layers : {"all", "last"}, default="all"
            Whether the whole network is tuned after the last layer. Choose "last" to
            keep the hidden layers as they are.
        groups : array-like of shape (n_samples,), default=None
            Group of each row, for example the patient. Rows of one group are in the
            same fold of the cross-validation. None means that each row stands alone.

        Returns
        -------
        self : object
            The aggregate with new weights. All else stays as `fit` left it.

        Notes
        -----
        A GEMSMLPAggregator with ``last_layer.fine_tuning="plain"`` is trained by
        5 epochs of Adam instead, without a penalty.
        """
        check_is_fitted(self)
        if layers not in ("last", "all"):
            raise ValueError(f'layers must be "last" or "all", got {layers!r}.')
        X, y, groups = validated_public_rows(self, X, y, groups)
        last_layer = copy(self.last_layer_)  # self stays whole if tuning fails
        tuned = self._tuned(
            X,
            y,
            groups=groups,
            layers=self._layers,
            last_layer=last_layer,
            coordinates=self._coordinates,
            hidden=layers == "all",
        )
        vars(self).update(
            tuned_attributes(self._layers, last_layer=last_layer, tuned=tuned)
        )
        vars(self).pop("evaluation_", None)  # it was of the model before
        return self


def tuned_attributes(
    layers: Layers,
    *,
    last_layer: BaseEstimator | None,
    tuned: _Tuned | None,
) -> dict:
    """Return the attributes of an aggregate's layers, or of its fine-tuned ones.

    ``last_layer``, the aggregator that merged the last layer, gets the tuned weights.
    """
    if tuned is not None:
        layers = tuned.layers
        if last_layer is not None:
            # Tuned logits are calibrated: the factor of the fit is not applied twice.
            vars(last_layer).update(linear_attributes(layers.last), _factor=1.0)
    return {
        **layer_attributes(layers),
        "_layers": layers,
        "last_layer_": last_layer,
        "fine_tuning_": tuned,
    }
