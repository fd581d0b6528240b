"""Read and write fitted classifiers of scikit-learn; write torch modules.

What wraps a classifier is taken off first: frozen estimators, searches and pipelines.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.dummy import DummyClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neighbors import NearestCentroid
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import LabelBinarizer

from ._network import Layers, Network, as_weights, expand_binary

if TYPE_CHECKING:
    from torch import nn


def unwrap(estimator: object) -> object:
    """Without frozen estimators and fitted searches around it."""
    if isinstance(estimator, FrozenEstimator):
        return unwrap(estimator.estimator)
    inner = getattr(estimator, "best_estimator_", None)
    return estimator if inner is None else unwrap(inner)


def final_step(estimator: object) -> object:
    """Return the classifier in any wrappers, at the end of any pipelines."""
    inner = unwrap(estimator)
    return final_step(inner.steps[-1][1]) if isinstance(inner, Pipeline) else inner


def label_array(estimator: object, *, name: str) -> np.ndarray:
    """A copy of ``classes_``; ValueError for several outputs (multilabel) per row."""
    y_type = getattr(getattr(estimator, "_label_binarizer", None), "y_type_", "")
    if (
        isinstance(estimator.classes_, (list, tuple))
        or "multi" in y_type.replace("multiclass", "")
        or getattr(estimator, "multilabel_", False)
    ):
        raise ValueError(
            f"Node {name!r}: {type(estimator).__name__} was fitted on several outputs "
            "per row (multilabel or multioutput). Fit one classifier per output."
        )
    return np.array(estimator.classes_)


def network_of(
    estimator: object,
    *,
    coefs: Sequence[np.ndarray],
    intercepts: Sequence[np.ndarray],
    output: str,
    classes: np.ndarray,
    seen: np.ndarray | None = None,
    activation: str | Sequence[str] = (),
) -> Network:
    """A network with the number and the names of the features of an estimator."""
    return Network(
        coefs=coefs,
        intercepts=intercepts,
        activation=activation,
        output=output,
        classes=classes,
        seen=np.ones(len(classes), dtype=bool) if seen is None else seen,
        n_features_in=len(coefs[0]),
        feature_names_in=getattr(estimator, "feature_names_in_", None),
    )


def read_linear(estimator: BaseEstimator, *, name: str, copy: bool = True) -> Network:
    """Read ``coef_`` and ``intercept_``; ValueError if there is no row per class."""
    classes = label_array(estimator, name=name)
    kind = type(estimator).__name__
    # With three classes, one-vs-one has as many rows as one-vs-rest.
    if hasattr(estimator, "decision_function_shape") and len(classes) > 2:
        raise ValueError(
            f"Node {name!r}: {kind} with {len(classes)} classes has no weights per "
            "class, only one-vs-one. Use LinearSVC or SGDClassifier(loss='hinge')."
        )
    if isinstance(estimator, LinearDiscriminantAnalysis):
        coef, intercept = _remove_rounding(estimator, name)
    else:
        coef = estimator.coef_
        intercept = estimator.intercept_
    coef = np.atleast_2d(as_weights(coef, name=name, array_name="coef_", copy=copy)).T
    if copy:
        coef = np.ascontiguousarray(coef)
    intercept = as_weights(intercept, name=name, array_name="intercept_")
    intercept = np.broadcast_to(intercept.ravel(), coef.shape[1:]).astype(coef.dtype)
    if coef.shape[1] == 1 and len(classes) <= 2:
        if _is_softmax_of_both_signs(estimator):
            coef = 2 * coef
            intercept = 2 * intercept
        coef, intercept = expand_binary(coef, intercept, n_classes=len(classes))
    if coef.shape[1] != len(classes):
        raise ValueError(
            f"Node {name!r}: coef_ of {kind} has {coef.shape[1]} rows for "
            f"{len(classes)} classes. It must have one row per class; fit this model "
            "again."
        )
    return network_of(
        estimator,
        coefs=(coef,),
        intercepts=(intercept,),
        output=_link(estimator, len(classes)),
        classes=classes,
    )


def _is_softmax_of_both_signs(estimator: BaseEstimator) -> bool:
    """Report whether it is a softmax over (-d, d), whose logits are 2 d apart.

    That is LogisticRegression(multi_class="multinomial") of scikit-learn < 1.8.
    """
    multi_class = getattr(estimator, "multi_class", None)
    return multi_class == "multinomial" and isinstance(estimator, LogisticRegression)


def read_centroids(
    estimator: NearestCentroid, *, name: str, copy: bool = True
) -> Network:
    """Fitted NearestCentroid: logits are log prior less half the squared distance."""
    if estimator.metric != "euclidean":
        raise TypeError(
            f"Node {name!r}: NearestCentroid with metric={estimator.metric!r} is not "
            "linear. Use metric='euclidean'."
        )
    classes = label_array(estimator, name=name)
    centers = as_weights(estimator.centroids_, name=name, array_name="centroids_")
    priors = np.asarray(estimator.class_prior_, dtype=np.float64)
    if np.isclose(priors, 1.0 / len(classes)).all():
        # predict then takes the nearest center, in the features as they are.
        scale = np.ones(centers.shape[1])
        log_priors = np.zeros(len(classes))
    else:
        deviations = np.asarray(estimator.within_class_std_dev_)
        scale = np.where(deviations != 0, deviations, 1.0)
        log_priors = np.log(priors)
    # About their mean: what all have in common says nothing. As moves from the first,
    # since rounding would tell classes apart that shrinking has made equal.
    mean = centers[0] + (centers - centers[0]).mean(axis=0)
    scores = (centers - mean) / scale
    coef = (scores / scale).T
    intercept = log_priors - 0.5 * np.sum(scores**2, axis=1) - mean @ coef
    return network_of(
        estimator,
        coefs=(coef.astype(centers.dtype),),
        intercepts=(intercept.astype(centers.dtype),),
        output=_link(estimator, len(classes)),
        classes=classes,
    )


# Class means of a constant feature differ by some units in the last place.
_ULPS = 64


def _remove_rounding(
    estimator: LinearDiscriminantAnalysis, name: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return weights, and 0 where rounding made huge ones of constant features."""
    scalings = getattr(estimator, "scalings_", None)
    if estimator.solver != "svd" or scalings is None:
        return estimator.coef_, estimator.intercept_
    means = estimator.means_
    centered_means = means - estimator.xbar_
    eps = np.finfo(scalings.dtype).eps
    size = np.abs(means).max(axis=0)
    # By how much the last place of a feature moves a row, in deviations of a class.
    # In float64: scalings of float32 rows in very large units are too large to square.
    moves = eps * size * np.linalg.norm(scalings.astype(np.float64), axis=1)
    constant = np.ptp(means, axis=0) <= _ULPS * eps * size
    # Rows say nothing along a feature that is the same in all classes.
    uninformative = constant & (moves > np.sqrt(eps))
    # A hundredth of a deviation can change a label.
    broken = ~uninformative & (moves > 1e-2)
    cleaned = np.where(uninformative[:, None], 0, scalings)
    scores = centered_means @ cleaned
    from_rounding = np.abs(centered_means @ scalings - scores).max()
    # Features that differ between classes by constants, or rounding outweighs the rest.
    if broken.any() or from_rounding > np.abs(scores).max():
        features = np.flatnonzero(broken if broken.any() else uninformative)
        raise ValueError(
            f"Node {name!r}: scalings_ of LinearDiscriminantAnalysis is made of "
            f"rounding at the features {features[:5].tolist()}, which do not vary "
            "within classes. Fit without them, or with solver='lsqr', shrinkage='auto'."
        )
    if not uninformative.any():
        return estimator.coef_, estimator.intercept_
    coef = scores @ cleaned.T
    intercept = np.log(estimator.priors_) - 0.5 * np.sum(scores**2, axis=1)
    intercept = (intercept - coef @ estimator.xbar_).astype(coef.dtype, copy=False)
    if len(estimator.classes_) == 2:
        return np.diff(coef, axis=0), np.diff(intercept)
    return coef, intercept


def _link(estimator: BaseEstimator, n_classes: int) -> str:
    """Return what predict_proba does with the logits, see `Network.output`."""
    scores_only = (
        not hasattr(estimator, "predict_proba")
        or getattr(estimator, "loss", None) == "modified_huber"
        # Platt scaling of SVC is not the sigmoid of its scores.
        or hasattr(estimator, "decision_function_shape")
    )
    if scores_only:
        return "identity"
    one_vs_rest = isinstance(estimator, SGDClassifier)
    if isinstance(estimator, LogisticRegression):
        multi_class = getattr(estimator, "multi_class", None)
        one_vs_rest = estimator.solver == "liblinear" or multi_class == "ovr"
    return "logistic" if n_classes <= 2 or one_vs_rest else "softmax"


def read_dummy(estimator: DummyClassifier, *, name: str, copy: bool = True) -> Network:
    """Read a constant model; classes of prior zero do not count as seen."""
    classes = label_array(estimator, name=name)
    n_features_in = getattr(estimator, "n_features_in_", None)
    if n_features_in is None:
        raise ValueError(
            f"Node {name!r}: DummyClassifier does not know its number of features. Fit "
            "it on a 2-dimensional array."
        )
    prior = as_weights(estimator.class_prior_, name=name, array_name="class_prior_")
    seen = prior > 0
    if estimator.strategy == "uniform":
        prior = np.full(len(classes), 1 / len(classes))
    intercept = np.log(np.maximum(prior, np.finfo(prior.dtype).eps))
    if estimator.strategy == "constant":
        # All that is known about the constant class is that it is predicted: its logit
        # is to be the largest, by 1 or more.
        constant = classes == np.ravel(estimator.constant)[0]
        if not constant.all():
            ahead = intercept[~constant].max() + 1.0
            intercept[constant] = np.maximum(intercept[constant], ahead)
    return network_of(
        estimator,
        coefs=(np.zeros((n_features_in, len(classes))),),
        intercepts=(intercept,),
        output="softmax",
        classes=classes,
        seen=seen,
    )


def _one_vs_rest_layer(
    columns: dict[int, np.ndarray], *, seen: np.ndarray
) -> np.ndarray:
    """Weights (n_features + 1, n_classes); classes without a column score `seen`."""
    arrays = list(columns.values())
    last = np.zeros((len(arrays[0]), len(seen)), np.result_type(*arrays))
    last[-1] = seen
    last[:, list(columns)] = np.hstack(arrays)
    return last


def _constant_layer(seen: np.ndarray, *, n_features: int) -> np.ndarray:
    last = np.zeros((n_features + 1, len(seen)))
    last[-1] = seen
    return last


def read_one_vs_rest(
    estimator: OneVsRestClassifier, *, name: str, read: Callable[..., Network]
) -> Network:
    """Read linear classifiers by ``read``; a class that no row showed is not seen."""
    classes = label_array(estimator, name=name)
    parts = estimator.estimators_
    seen = np.ones(len(parts), dtype=bool)
    links = set()
    columns = {}  # by class, each (n_features + 1, 1)
    for c, part in enumerate(parts):
        # scikit-learn's private classifier of one label
        if hasattr(part, "y_") and not hasattr(part, "classes_"):
            seen[c] = part.y_[0] == 1  # by all rows, or none; it scores them 1, or 0
            continue
        network = _read_part(part, position=c, name=name, read=read)
        columns[c] = np.diff(network.aligned([0, 1]).last)
        links.add(network.output)
    last = (
        _one_vs_rest_layer(columns, seen=seen)
        if columns
        else _constant_layer(seen, n_features=parts[0].n_features_in_)
    )
    coef = last[:-1]
    intercept = last[-1]
    if len(parts) == 1:
        coef, intercept = expand_binary(coef, intercept, n_classes=len(classes))
        seen = None
    return network_of(
        estimator,
        coefs=(np.ascontiguousarray(coef),),
        intercepts=(intercept,),
        output="identity" if "identity" in links else "logistic",
        classes=classes,
        seen=seen,
    )


def _read_part(
    part: BaseEstimator, *, position: int, name: str, read: Callable[..., Network]
) -> Network:
    try:
        network = read(part, name=name)
        if network.is_linear:
            return network
    except ValueError as exc:
        raise ValueError(
            f"Node {name!r}: estimators_[{position}] of OneVsRestClassifier: "
            f"{str(exc).removeprefix(f'Node {name!r}: ')}"
        ) from None
    except TypeError:  # which would say the same of the part alone
        pass
    raise TypeError(
        f"Node {name!r}: OneVsRestClassifier of {type(part).__name__} cannot be read, "
        "only of linear classifiers, which have coef_ and intercept_. "
        "EnsembleAggregator and DistillationAggregator take any classifier."
    )


def read_mlp(estimator: MLPClassifier, *, name: str, copy: bool = True) -> Network:
    classes = label_array(estimator, name=name)
    coefs = [
        as_weights(coef, name=name, array_name=f"coefs_[{i}]", copy=copy)
        for i, coef in enumerate(estimator.coefs_)
    ]
    intercepts = [
        as_weights(intercept, name=name, array_name=f"intercepts_[{i}]", copy=copy)
        for i, intercept in enumerate(estimator.intercepts_)
    ]
    if coefs[-1].shape[1] == 1:
        coefs[-1], intercepts[-1] = expand_binary(
            coefs[-1], intercepts[-1], n_classes=len(classes)
        )
    return network_of(
        estimator,
        coefs=coefs,
        intercepts=intercepts,
        output=estimator.out_activation_,
        classes=classes,
        activation=estimator.activation,
    )


# Each takes a fitted classifier, ``name`` and ``copy``. A classifier of another type is
# read as a linear one if it has ``coef_``.
READERS: dict[type, Callable[..., Network]] = {
    MLPClassifier: read_mlp,
    DummyClassifier: read_dummy,
    NearestCentroid: read_centroids,
}


def linear_attributes(W: np.ndarray) -> dict[str, np.ndarray]:
    """The weights as a LogisticRegression publishes them.

    ``W`` is (n_features + 1, n_classes), intercepts last. Of two classes ``coef_`` has
    one row, w_1 - w_0: the logit of the second against the first.
    """
    if W.shape[1] == 2:
        W = W[:, 1:] - W[:, :1]
    return {"coef_": W[:-1].T.copy(), "intercept_": W[-1].copy()}


def to_logistic_regression(
    coef: np.ndarray,
    intercept: np.ndarray,
    classes: ArrayLike,
    *,
    feature_names_in: ArrayLike | None = None,
) -> LogisticRegression:
    """Fitted LogisticRegression; for two classes ``coef`` may be their difference."""
    classes, n_rows = _checked_classes(classes, "LogisticRegression")
    coef = np.array(coef, order="C")
    intercept = np.array(intercept)
    if coef.ndim == 2 and len(classes) == 2 and coef.shape[0] == 2:
        coef = coef[1:] - coef[:1]
        intercept = intercept[1:] - intercept[:1]
    if coef.ndim != 2 or len(coef) != n_rows or intercept.shape != (n_rows,):
        raise ValueError(
            f"{len(classes)} classes need coef of shape ({n_rows}, n_features) and "
            f"intercept of shape {(n_rows,)}, got {coef.shape} and {intercept.shape}."
        )
    estimator = LogisticRegression()
    estimator.classes_ = classes
    estimator.coef_ = coef
    estimator.intercept_ = intercept
    estimator.n_iter_ = np.zeros(1, dtype=np.int32)
    _set_features(
        estimator, n_features_in=coef.shape[1], feature_names_in=feature_names_in
    )
    return estimator


def to_mlp_classifier(
    layers: Layers, classes: np.ndarray, *, feature_names_in: np.ndarray | None = None
) -> MLPClassifier:
    """Fitted MLPClassifier of copied layers, with which ``partial_fit`` goes on."""
    classes, n_outputs = _checked_classes(classes, "MLPClassifier")
    names = layers.activation
    if len(set(names)) > 1:
        raise ValueError(
            f"MLPClassifier has one activation for all hidden layers, got {names}. Use "
            "to_module instead."
        )
    if len(classes) == 2:
        layers = layers.contracted()
    if layers.n_outputs != n_outputs:
        raise ValueError(
            f"{len(classes)} classes need a last layer of {n_outputs} columns, got "
            f"{layers.n_outputs}."
        )
    activation = names[0] if names else "identity"
    estimator = MLPClassifier(layers.widths, activation=activation)
    estimator.coefs_ = [np.array(coef, order="C") for coef in layers.coefs]
    estimator.intercepts_ = [np.array(intercept) for intercept in layers.intercepts]
    estimator.classes_ = classes
    estimator._label_binarizer = LabelBinarizer().fit(classes)
    estimator._label_binarizer.classes_ = classes  # labels of dtype object keep it
    estimator.n_layers_ = len(layers.coefs) + 1
    estimator.n_outputs_ = n_outputs
    estimator.out_activation_ = "logistic" if n_outputs == 1 else "softmax"
    # What training would have left, so that partial_fit can go on.
    estimator.n_iter_ = estimator.t_ = estimator._no_improvement_count = 0
    estimator.loss_ = estimator.best_loss_ = np.inf
    estimator.loss_curve_ = []
    estimator.validation_scores_ = estimator.best_validation_score_ = None
    _set_features(
        estimator,
        n_features_in=len(layers.coefs[0]),
        feature_names_in=feature_names_in,
    )
    return estimator


def to_module(layers: Layers, *, output: str = "identity") -> "nn.Sequential":
    """Sequential torch module of layers, of their dtype; ``output`` follows them."""
    try:
        import torch
    except ImportError as exc:
        raise ImportError("to_module needs torch: pip install skgems[torch]") from exc
    hidden = {
        "identity": torch.nn.Identity,
        "relu": torch.nn.ReLU,
        "tanh": torch.nn.Tanh,
        "logistic": torch.nn.Sigmoid,
    }
    links = {
        "identity": [],
        "logistic": [torch.nn.Sigmoid()],
        "softmax": [torch.nn.Softmax(-1)],
        "log_softmax": [torch.nn.LogSoftmax(-1)],
        "log_logistic": [torch.nn.LogSigmoid()],
    }
    if output not in links:
        raise ValueError(f"output must be one of {list(links)}, got {output!r}.")
    modules = []
    layer_arrays = zip(layers.coefs, layers.intercepts, strict=True)
    for i, (coef, intercept) in enumerate(layer_arrays):
        weight = torch.tensor(np.ascontiguousarray(coef.T))
        n_inputs, n_units = coef.shape
        # Initial weights would be drawn from torch's global generator.
        linear = torch.nn.utils.skip_init(
            torch.nn.Linear, n_inputs, n_units, dtype=weight.dtype
        )
        linear.weight.data = weight
        linear.bias.data = torch.tensor(np.asarray(intercept), dtype=weight.dtype)
        modules.append(linear)
        if i < layers.n_hidden_layers:
            modules.append(hidden[layers.activation[i]]())
    return torch.nn.Sequential(*modules, *links[output])


def _checked_classes(classes: ArrayLike, kind: str) -> tuple[np.ndarray, int]:
    """Return classes as an array, and how many outputs they have: one for two."""
    classes = np.array(classes)
    if len(classes) < 2:
        raise ValueError(
            f"{kind} needs at least two classes, got {classes.tolist()}. Use "
            "DummyClassifier for a model of one class."
        )
    return classes, 1 if len(classes) == 2 else len(classes)


def _set_features(
    estimator: BaseEstimator,
    *,
    n_features_in: int,
    feature_names_in: ArrayLike | None,
) -> None:
    estimator.n_features_in_ = n_features_in
    if feature_names_in is not None:
        estimator.feature_names_in_ = np.asarray(feature_names_in, dtype=object)
