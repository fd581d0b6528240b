# SPDX-License-Identifier: BSD-3-Clause
"""Read scikit-learn's multilayer perceptrons."""

from __future__ import annotations

import numpy as np
from sklearn.neural_network import MLPClassifier

from ._layers import expand_binary
from ._linear import label_array
from ._network import Network, as_weights


def read_mlp(estimator: MLPClassifier, *, name: str, copy: bool = True) -> Network:
    """Read a fitted MLPClassifier of any depth; ValueError if it is multilabel.

    Without ``copy`` the weights may be the classifier's own, and are not checked.
    """
    classes = label_array(estimator, name=name)
    coefs = [
        as_weights(coef, name=name, what=f"coefs_[{i}]", copy=copy)
        for i, coef in enumerate(estimator.coefs_)
    ]
    intercepts = [
        as_weights(intercept, name=name, what=f"intercepts_[{i}]", copy=copy)
        for i, intercept in enumerate(estimator.intercepts_)
    ]
    if coefs[-1].shape[1] == 1:
        coefs[-1], intercepts[-1] = expand_binary(
            coefs[-1], intercepts[-1], len(classes)
        )
    return Network(
        coefs=tuple(coefs),
        intercepts=tuple(intercepts),
        activation=(estimator.activation,) * (len(coefs) - 1),
        output=estimator.out_activation_,
        classes=classes,
        seen=np.ones(len(classes), dtype=bool),
        n_features_in=coefs[0].shape[0],
        feature_names_in=getattr(estimator, "feature_names_in_", None),
    )
