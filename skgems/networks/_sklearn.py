"""Read and write fitted classifiers of scikit-learn; write torch modules."""

from collections.abc import Callable

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.neighbors import NearestCentroid
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import LabelBinarizer

from ._network import ACTIVATIONS, Layers, Network, as_weights, expand_binary


def label_array(estimator, *, name: str) -> np.ndarray:
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
    estimator, coefs, intercepts, output, classes, *, seen=None, activation=()
) -> Network:
    seen = np.ones(len(classes), dtype=bool) if seen is None else seen
    features = len(coefs[0]), getattr(estimator, "feature_names_in_", None)
    return Network(coefs, intercepts, activation, output, classes, seen, *features)


def read_linear(estimator, *, name: str, copy: bool = True) -> Network:
    """Read ``coef_`` and ``intercept_``; ValueError if there is no row per class."""
    classes = label_array(estimator, name=name)
    kind = type(estimator).__name__
    # With three classes, one-vs-one has as many rows as one-vs-rest.
    if hasattr(estimator, "decision_function_shape") and len(classes) > 2:
        raise ValueError(
            f"Node {name!r}: {kind} with {len(classes)} classes has no weights per "
            "class, only one-vs-one. Use LinearSVC or SGDClassifier(loss='hinge')."
        )
    coef, intercept = estimator.coef_, estimator.intercept_
    if isinstance(estimator, LinearDiscriminantAnalysis):
        coef, intercept = _without_rounding(estimator, name)
    coef = np.atleast_2d(as_weights(coef, name=name, what="coef_", copy=copy)).T
    if copy:
        coef = np.ascontiguousarray(coef)
    intercept = as_weights(intercept, name=name, what="intercept_")
    intercept = np.broadcast_to(intercept.ravel(), coef.shape[1:]).astype(coef.dtype)
    if coef.shape[1] == 1 and len(classes) <= 2:
        # In scikit-learn < 1.8 softmax over (-d, d): the logits are 2 d apart.
        joint = getattr(estimator, "multi_class", None) == "multinomial"
        if joint and isinstance(estimator, LogisticRegression):
            coef, intercept = 2 * coef, 2 * intercept
        coef, intercept = expand_binary(coef, intercept, len(classes))
    if coef.shape[1] != len(classes):
        rows = f"{coef.shape[1]} rows for {len(classes)} classes"
        raise ValueError(f"Node {name!r}: coef_ of {kind} has {rows}; give one each.")
    link = _link(estimator, len(classes))
    return network_of(estimator, (coef,), (intercept,), link, classes)


def read_centroids(estimator, *, name: str, copy: bool = True) -> Network:
    """Fitted NearestCentroid: logits are log prior less half the squared distance."""
    if estimator.metric != "euclidean":
        own = f"NearestCentroid with metric={estimator.metric!r}"
        raise TypeError(f"Node {name!r}: {own} is not linear; use metric='euclidean'.")
    classes = label_array(estimator, name=name)
    centers = as_weights(estimator.centroids_, name=name, what="centroids_")
    priors = np.asarray(estimator.class_prior_, dtype=np.float64)
    scale, level = np.ones(centers.shape[1]), np.zeros(len(classes))
    if not np.isclose(priors, 1.0 / len(classes)).all():
        deviations = np.asarray(estimator.within_class_std_dev_)
        scale = np.where(deviations != 0, deviations, 1.0)
        level = np.log(priors)
    # About their mean: what all have in common says nothing. As moves from the first,
    # since rounding would tell classes apart that shrinking has made equal.
    mean = centers[0] + (centers - centers[0]).mean(axis=0)
    scores = (centers - mean) / scale
    coef = (scores / scale).T
    intercept = level - 0.5 * np.sum(scores**2, axis=1) - mean @ coef
    coef, intercept = coef.astype(centers.dtype), intercept.astype(centers.dtype)
    link = _link(estimator, len(classes))
    return network_of(estimator, (coef,), (intercept,), link, classes)


# Class means of a constant feature differ by some units in the last place.
_ULPS = 64


def _without_rounding(estimator: LinearDiscriminantAnalysis, name: str):
    """Weights less the huge ones that rounding made of features constant in classes."""
    coef, intercept = estimator.coef_, estimator.intercept_
    scalings = getattr(estimator, "scalings_", None)
    if estimator.solver != "svd" or scalings is None:
        return coef, intercept
    means, centre = estimator.means_, estimator.xbar_
    eps = np.finfo(scalings.dtype).eps
    size = np.abs(means).max(axis=0)
    # By how much the last place of a feature moves a row, in deviations of a class.
    # In float64: scalings of float32 rows in very large units are too large to square.
    moves = eps * size * np.linalg.norm(scalings.astype(np.float64), axis=1)
    constant = np.ptp(means, axis=0) <= _ULPS * eps * size
    odd = constant & (moves > np.sqrt(eps))
    broken = ~odd & (moves > 1e-2)
    # Rows say nothing along such a feature.
    without = np.where(odd[:, None], 0, scalings)
    scores = (means - centre) @ without
    made_up = np.abs((means - centre) @ scalings - scores).max()
    # Features that differ between classes by constants, or rounding outweighs the rest.
    if broken.any() or made_up > np.abs(scores).max():
        features = np.flatnonzero(broken if broken.any() else odd)
        raise ValueError(
            f"Node {name!r}: scalings_ of LinearDiscriminantAnalysis is made of "
            f"rounding at the features {features[:5].tolist()}, which do not vary "
            "within classes. Fit without them, or with solver='lsqr', shrinkage='auto'."
        )
    if not odd.any():
        return coef, intercept
    coef = scores @ without.T
    intercept = np.log(estimator.priors_) - 0.5 * np.sum(scores**2, axis=1)
    intercept = (intercept - coef @ centre).astype(coef.dtype, copy=False)
    if len(estimator.classes_) == 2:
        return np.diff(coef, axis=0), np.diff(intercept)
    return coef, intercept


def _link(estimator, n_classes):
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
        unknown = "DummyClassifier does not know its number of features"
        raise ValueError(f"Node {name!r}: {unknown}; fit it on a 2-dimensional array.")
    prior = as_weights(estimator.class_prior_, name=name, what="class_prior_")
    seen = prior > 0
    if estimator.strategy == "uniform":
        prior = np.full(len(classes), 1 / len(classes))
    intercept = np.log(np.maximum(prior, np.finfo(prior.dtype).eps))
    if estimator.strategy == "constant":
        # Of the constant class only one thing is known: it is ahead.
        constant = classes == np.ravel(estimator.constant)[0]
        if not constant.all():
            ahead = intercept[~constant].max() + 1.0
            intercept[constant] = np.maximum(intercept[constant], ahead)
    coef = np.zeros((n_features_in, len(classes)))
    return network_of(estimator, (coef,), (intercept,), "softmax", classes, seen=seen)


def read_one_vs_rest(estimator, *, name: str, read: Callable[..., Network]) -> Network:
    """Read linear classifiers by ``read``; a class that no row showed is not seen."""
    classes = label_array(estimator, name=name)
    parts, links, found = estimator.estimators_, set(), {}
    seen = np.ones(len(parts), dtype=bool)
    for c, part in enumerate(parts):
        if hasattr(part, "y_") and not hasattr(part, "classes_"):
            seen[c] = part.y_[0] == 1  # by all rows, or none; it scores them 1, or 0
            continue
        network = _read_part(part, c, name, read)
        found[c] = np.diff(network.aligned([0, 1]).last)
        links.add(network.output)
    some = [*found.values()] or [np.zeros((parts[0].n_features_in_ + 1, 1))]
    last = np.zeros((len(some[0]), len(parts)), np.result_type(*some))
    last[-1] = seen
    last[:, list(found)] = np.hstack(some) if found else 0
    coef, intercept = last[:-1], last[-1]
    if len(parts) == 1:
        coef, intercept = expand_binary(coef, intercept, len(classes))
        seen = None
    coefs = (np.ascontiguousarray(coef),)
    link = "identity" if "identity" in links else "logistic"
    return network_of(estimator, coefs, (intercept,), link, classes, seen=seen)


def _read_part(part, i, name, read) -> Network:
    try:
        network = read(part, name=name)
        if network.is_linear:
            return network
    except ValueError as exc:
        reason = str(exc).removeprefix(f"Node {name!r}: ")
        where = f"Node {name!r}: estimators_[{i}] of OneVsRestClassifier"
        raise ValueError(f"{where}: {reason}") from None
    except TypeError:  # which would say the same of the part alone
        pass
    raise TypeError(
        f"Node {name!r}: OneVsRestClassifier of {type(part).__name__} cannot be read, "
        "only of linear classifiers, which have coef_ and intercept_. "
        "EnsembleAggregator and DistillationAggregator take any classifier."
    )


def read_mlp(estimator: MLPClassifier, *, name: str, copy: bool = True) -> Network:
    classes = label_array(estimator, name=name)
    coefs, intercepts = (
        [
            as_weights(array, name=name, what=f"{what}[{i}]", copy=copy)
            for i, array in enumerate(getattr(estimator, what))
        ]
        for what in ("coefs_", "intercepts_")
    )
    if coefs[-1].shape[1] == 1:
        last = coefs[-1], intercepts[-1]
        coefs[-1], intercepts[-1] = expand_binary(*last, len(classes))
    own = coefs, intercepts, estimator.out_activation_, classes
    return network_of(estimator, *own, activation=estimator.activation)


# The reader of each kind, of a fitted classifier with ``name`` and ``copy``; what is of
# none of them and has ``coef_`` is linear.
READERS: dict[type, Callable[..., Network]] = {
    MLPClassifier: read_mlp,
    DummyClassifier: read_dummy,
    NearestCentroid: read_centroids,
}


def to_logistic_regression(
    coef: np.ndarray, intercept: np.ndarray, classes, *, feature_names_in=None
) -> LogisticRegression:
    """Fitted LogisticRegression; of two classes ``coef`` may be their difference."""
    classes, n_rows = _checked_classes(classes, "LogisticRegression")
    coef, intercept = np.array(coef, order="C"), np.array(intercept)
    if coef.ndim == 2 and len(classes) == 2 and coef.shape[0] == 2:
        coef, intercept = coef[1:] - coef[:1], intercept[1:] - intercept[:1]
    if coef.ndim != 2 or len(coef) != n_rows or intercept.shape != (n_rows,):
        raise ValueError(
            f"{len(classes)} classes need coef of shape ({n_rows}, n_features) and "
            f"intercept of shape {(n_rows,)}, got {coef.shape} and {intercept.shape}."
        )
    estimator = LogisticRegression()
    estimator.classes_ = classes
    estimator.coef_, estimator.intercept_ = coef, intercept
    estimator.n_iter_ = np.zeros(1, dtype=np.int32)
    _set_features(estimator, coef.shape[1], feature_names_in)
    return estimator


def to_mlp_classifier(
    layers: Layers, classes: np.ndarray, *, feature_names_in: np.ndarray | None = None
) -> MLPClassifier:
    """Fitted MLPClassifier of copied layers, with which ``partial_fit`` goes on."""
    classes, n_outputs = _checked_classes(classes, "MLPClassifier")
    names = layers.activation
    if len(set(names)) > 1:
        one = "one activation for all hidden layers"
        raise ValueError(f"MLPClassifier has {one}, got {names}; use to_module.")
    if len(classes) == 2:
        layers = layers.contracted()
    if layers.n_outputs != n_outputs:
        needed = f"{len(classes)} classes need a last layer of {n_outputs} columns"
        raise ValueError(f"{needed}, got {layers.n_outputs}.")
    activation = names[0] if names else "identity"
    estimator = MLPClassifier(layers.widths, activation=activation)
    estimator.coefs_ = [np.array(coef, order="C") for coef in layers.coefs]
    estimator.intercepts_ = [np.array(intercept) for intercept in layers.intercepts]
    estimator.classes_ = classes
    estimator._label_binarizer = LabelBinarizer().fit(classes)
    estimator._label_binarizer.classes_ = classes  # objects stay such
    estimator.n_layers_, estimator.n_outputs_ = len(layers.coefs) + 1, n_outputs
    estimator.out_activation_ = "logistic" if n_outputs == 1 else "softmax"
    # What training would have left, so that partial_fit can go on.
    estimator.n_iter_ = estimator.t_ = estimator._no_improvement_count = 0
    estimator.loss_ = estimator.best_loss_ = np.inf
    estimator.loss_curve_ = []
    estimator.validation_scores_ = estimator.best_validation_score_ = None
    _set_features(estimator, len(layers.coefs[0]), feature_names_in)
    return estimator


def to_module(layers: Layers, *, output: str = "identity"):
    """Sequential torch module of layers, of their dtype; ``output`` follows them."""
    try:
        import torch
    except ImportError as exc:
        raise ImportError("to_module needs torch: pip install skgems[torch]") from exc
    nn = torch.nn
    kinds = nn.Identity, nn.ReLU, nn.Tanh, nn.Sigmoid
    hidden = dict(zip(ACTIVATIONS, kinds, strict=True))
    links = {"identity": [], "logistic": [nn.Sigmoid()], "softmax": [nn.Softmax(-1)]}
    links |= {"log_softmax": [nn.LogSoftmax(-1)], "log_logistic": [nn.LogSigmoid()]}
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


def _checked_classes(classes, kind) -> tuple[np.ndarray, int]:
    """As an array, and how many outputs they have: one for two."""
    classes = np.array(classes)
    if len(classes) < 2:
        raise ValueError(
            f"{kind} needs at least two classes, got {classes.tolist()}; a model of "
            "one class is a DummyClassifier."
        )
    return classes, 1 if len(classes) == 2 else len(classes)


def _set_features(estimator, n_features_in, feature_names_in):
    estimator.n_features_in_ = n_features_in
    if feature_names_in is not None:
        estimator.feature_names_in_ = np.asarray(feature_names_in, dtype=object)
