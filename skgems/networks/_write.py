# SPDX-License-Identifier: BSD-3-Clause
"""Write plain arrays as fitted scikit-learn classifiers or torch modules."""

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import LabelBinarizer

from ._layers import Layers


def to_logistic_regression(
    coef: np.ndarray,
    intercept: np.ndarray,
    classes: np.ndarray,
    *,
    feature_names_in: np.ndarray | None = None,
) -> LogisticRegression:
    """Fitted LogisticRegression whose probabilities are the softmax of given logits.

    ``coef`` is (n_classes, n_features), or of two classes the difference of the rows.
    ValueError if shapes and classes do not agree, or there is only one class.
    """
    classes = np.asarray(classes)
    _check_classes(classes, "LogisticRegression")
    coef, intercept = np.array(coef, order="C"), np.array(intercept)
    if coef.ndim == 2 and len(classes) == 2 and coef.shape[0] == 2:
        coef, intercept = coef[1:] - coef[:1], intercept[1:] - intercept[:1]
    n_rows = 1 if len(classes) == 2 else len(classes)
    if coef.ndim != 2 or len(coef) != n_rows or intercept.shape != (n_rows,):
        raise ValueError(
            f"{len(classes)} classes need coef of shape ({n_rows}, n_features) and "
            f"intercept of shape {(n_rows,)}, got {coef.shape} and {intercept.shape}."
        )
    estimator = LogisticRegression()
    estimator.classes_ = classes.copy()
    estimator.coef_ = coef
    estimator.intercept_ = intercept
    estimator.n_iter_ = np.zeros(1, dtype=np.int32)
    _set_features(estimator, coef.shape[1], feature_names_in)
    return estimator


def to_mlp_classifier(
    layers: Layers, classes: np.ndarray, *, feature_names_in: np.ndarray | None = None
) -> MLPClassifier:
    """Fitted MLPClassifier of given layers, which are copied; ``partial_fit`` goes on.

    Two classes have one output, the difference of two. ValueError if hidden activations
    differ, outputs and classes do not agree, or there is only one class.
    """
    classes = np.asarray(classes)
    _check_classes(classes, "MLPClassifier")
    names = layers.activation
    if len(set(names)) > 1:
        raise ValueError(
            f"MLPClassifier has one activation for all hidden layers, got {names}; "
            "use to_module instead."
        )
    if len(classes) == 2:
        layers = layers.contracted()
    n_outputs = 1 if len(classes) == 2 else len(classes)
    if layers.n_outputs != n_outputs:
        raise ValueError(
            f"{len(classes)} classes need a last layer of {n_outputs} columns, got "
            f"{layers.n_outputs}."
        )
    estimator = MLPClassifier(
        hidden_layer_sizes=layers.widths, activation=names[0] if names else "identity"
    )
    estimator.coefs_ = [np.array(coef, order="C") for coef in layers.coefs]
    estimator.intercepts_ = [np.array(intercept) for intercept in layers.intercepts]
    estimator.classes_ = classes.copy()
    estimator._label_binarizer = LabelBinarizer().fit(classes)
    estimator._label_binarizer.classes_ = estimator.classes_  # objects stay such
    estimator.n_layers_ = len(layers.coefs) + 1
    estimator.n_outputs_ = n_outputs
    estimator.out_activation_ = "logistic" if n_outputs == 1 else "softmax"
    # What training would have left, so that partial_fit can go on.
    estimator.n_iter_ = 0
    estimator.t_ = 0
    estimator.loss_ = estimator.best_loss_ = np.inf
    estimator.loss_curve_ = []
    estimator.validation_scores_ = estimator.best_validation_score_ = None
    estimator._no_improvement_count = 0
    _set_features(estimator, len(layers.coefs[0]), feature_names_in)
    return estimator


def to_module(layers: Layers, *, output: str = "identity"):
    """Sequential torch module of given layers, in the dtype of the arrays.

    ``output`` follows the last layer: "identity", which gives logits, "softmax",
    "logistic", "log_softmax" or "log_logistic". ImportError without torch.
    """
    try:
        import torch
    except ImportError as exc:
        raise ImportError("to_module needs torch: pip install skgems[torch]") from exc
    nn = torch.nn
    hidden = {
        "identity": nn.Identity,
        "relu": nn.ReLU,
        "tanh": nn.Tanh,
        "logistic": nn.Sigmoid,
    }
    links = {
        "identity": [],
        "softmax": [nn.Softmax(dim=-1)],
        "logistic": [nn.Sigmoid()],
        "log_softmax": [nn.LogSoftmax(dim=-1)],
        "log_logistic": [nn.LogSigmoid()],
    }
    if output not in links:
        raise ValueError(f"output must be one of {list(links)}, got {output!r}.")
    parts, pairs = [], zip(layers.coefs, layers.intercepts, strict=True)
    for i, (coef, intercept) in enumerate(pairs):
        weight = torch.tensor(np.ascontiguousarray(coef.T))
        linear = nn.utils.skip_init(nn.Linear, *coef.shape, dtype=weight.dtype)
        linear.weight.data = weight
        linear.bias.data = torch.tensor(np.asarray(intercept), dtype=weight.dtype)
        parts.append(linear)
        if i < layers.n_hidden_layers:
            parts.append(hidden[layers.activation[i]]())
    return nn.Sequential(*parts, *links[output])


def _check_classes(classes, kind):
    if len(classes) < 2:
        raise ValueError(
            f"{kind} needs at least two classes, got {classes.tolist()}; a model of "
            "one class is a DummyClassifier."
        )


def _set_features(estimator, n_features_in, feature_names_in):
    estimator.n_features_in_ = n_features_in
    if feature_names_in is not None:
        estimator.feature_names_in_ = np.asarray(feature_names_in, dtype=object)
