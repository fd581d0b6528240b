# SPDX-License-Identifier: BSD-3-Clause
"""What an aggregate that is one network can be turned into."""

from __future__ import annotations

from sklearn.neural_network import MLPClassifier
from sklearn.utils.validation import check_is_fitted

from ..networks import to_mlp_classifier, to_module
from ..networks._classes import expand_binary


class NetworkAggregateMixin:
    """Exports of an aggregator with ``coefs_``, ``intercepts_`` and ``activation_``."""

    def to_estimator(self) -> MLPClassifier:
        """The aggregate as a plain fitted ``MLPClassifier``.

        Returns
        -------
        estimator : MLPClassifier
            Predicts the same labels and probabilities; knows nothing of this
            library.
        """
        check_is_fitted(self)
        return to_mlp_classifier(
            self.coefs_,
            self.intercepts_,
            self.activation_,
            self.classes_,
            feature_names_in=getattr(self, "feature_names_in_", None),
        )

    def to_module(self):
        """The aggregate as a torch module.

        Returns
        -------
        module : torch.nn.Sequential
            Linear layers and activations, from rows to one logit per class; its
            softmax is ``predict_proba``.

        Raises
        ------
        ImportError
            If torch is not installed.
        """
        check_is_fitted(self)
        coefs, intercepts = list(self.coefs_), list(self.intercepts_)
        if len(self.classes_) == 2:
            # One logit z stands for two, -z / 2 and z / 2.
            coefs[-1], intercepts[-1] = expand_binary(coefs[-1], intercepts[-1], 2)
        return to_module(coefs, intercepts, self.activation_)
