"""Find the classifier inside its wrappers and read it; what outputs of a net are."""

import numbers
from dataclasses import replace

import numpy as np
from sklearn.base import BaseEstimator, is_classifier, is_regressor
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ._affine import fold_steps
from ._inputs import takes_documents
from ._nets import labels_of, module_of
from ._network import Network, with_first
from ._sklearn import READERS, read_linear, read_one_vs_rest
from ._wrappers import unwrap


def output_labels(net, *, name: str = "estimator") -> tuple[np.ndarray, np.ndarray]:
    """Labels of a skorch net's outputs, 0 and 1 for a single one, and which it saw."""
    n_outputs = count_outputs(net)
    if n_outputs == 1:
        return np.arange(2), np.ones(2, dtype=bool)
    return labels_of(net, n_outputs, name)


def output_link(net, *, name: str = "estimator") -> str:
    """What a chain's outputs go through at its very end, as `to_module` takes it."""
    from ._torch import read_module

    return read_module(module_of(net), name=name).link or "identity"


def count_outputs(net) -> int:
    last = output_parameters(net)
    return last[0].shape[0] if last else 1


def output_parameters(net) -> list:
    layer = _traced_layer(module_of(net))
    if layer is None:
        found = [p for p in module_of(net).parameters() if p.ndim][:-3:-1]
    else:
        found = list(layer.parameters())
    return [p for p in found if p.shape[0] == found[0].shape[0]]


def last_layer(module):
    """The layer that every output has come through; else the Linear defined last."""
    from torch import nn

    layer = _traced_layer(module)
    if layer is not None:
        return layer
    linear = [part for part in module.modules() if isinstance(part, nn.Linear)]
    return linear[-1] if linear else None


def _traced_layer(module):
    from torch import nn

    from ._trace import first_output, trace

    try:
        root, graph = trace(module, "estimator")
    except TypeError:
        return None
    value = first_output(graph)
    while getattr(value, "op", "").startswith("call_"):
        if value.op == "call_module":
            layer = root.get_submodule(value.target)
            if next(layer.parameters(), None) is not None:
                kinds = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Bilinear)
                return layer if isinstance(layer, kinds) else None
        inputs = value.all_input_nodes
        value = inputs[0] if len(inputs) == 1 else None
    return None


# Where a class is defined, and its name: nothing is imported to know it.
_NETS = ("NeuralNetClassifier", "NeuralNetBinaryClassifier")
_SKORCH = {("skorch.classifier", name) for name in _NETS}
_TORCH_MODULE = ("torch.nn.modules.module", "Module")

ACCEPTED = (
    "linear classifiers (fitted with classes_, coef_ and intercept_), "
    "OneVsRestClassifier of linear ones, MLPClassifier, DummyClassifier, skorch "
    "NeuralNetClassifier and NeuralNetBinaryClassifier, and any of these as the last "
    "step of a Pipeline of affine steps, in a FrozenEstimator or as the best estimator "
    "of a fitted search"
)


def is_constant(estimator) -> bool:
    """Whether it is the constant model of a node whose rows show one class."""
    own = unwrap(estimator)
    if isinstance(own, OneVsRestClassifier):
        return len(getattr(own, "classes_", ())) == 1
    return isinstance(own, DummyClassifier)


def is_skorch(estimator) -> bool:
    """Whether it is a skorch classifier; imports neither skorch nor torch."""
    return not _SKORCH.isdisjoint(_class_paths(estimator))


def _class_paths(estimator):
    return [(base.__module__, base.__name__) for base in type(estimator).__mro__]


def read_network(estimator, *, name: str = "estimator", copy: bool = True) -> Network:
    """Read a classifier into arrays; without ``copy`` its own: do not change them."""
    if isinstance(estimator, Network):
        return estimator
    _check_kind(estimator, name)
    inner = unwrap(estimator)
    if inner is not estimator:
        return read_network(inner, name=name, copy=copy)
    if isinstance(estimator, Pipeline):
        return _read_pipeline(estimator, name)
    kind = type(estimator).__name__
    if not is_fitted(estimator, name=name):
        unfitted = f"this {kind} is not fitted. Fit it on the node's rows."
        raise NotFittedError(f"Node {name!r}: {unfitted}")
    if is_skorch(estimator):
        from ._torch import read_skorch

        return read_skorch(estimator, name=name)
    if isinstance(estimator, OneVsRestClassifier):
        return read_one_vs_rest(estimator, name=name, read=read_network)
    read = next((READERS[own] for own in READERS if isinstance(estimator, own)), None)
    if all(hasattr(estimator, own) for own in ("classes_", "coef_", "intercept_")):
        read = read or read_linear
    if read is not None:
        return read(estimator, name=name, copy=copy)
    if getattr(estimator, "refit", None) is False:
        raise TypeError(
            f"Node {name!r}: this {kind} was fitted with refit=False and so has no "
            "best_estimator_. Fit it with refit=True."
        )
    raise TypeError(
        f"Node {name!r}: {kind} cannot be read, as it has no weights of a linear model "
        "or of a network. EnsembleAggregator lets classifiers of any kind vote"
        f"{_in_place_of(estimator)}. Accepted here are {ACCEPTED}."
    )


# Classifiers that have no weights, and that PooledAggregator makes of sums of rows.
SUMMED = (
    "BernoulliNB",
    "CategoricalNB",
    "ComplementNB",
    "GaussianNB",
    "MultinomialNB",
    "QuadraticDiscriminantAnalysis",
)


def _in_place_of(estimator) -> str:
    """What else to do with a classifier that has no weights, after a vote."""
    kind = type(estimator).__name__
    if kind in SUMMED:
        return (
            f"; PooledAggregator(pooled={kind}()) makes the {kind} of all rows, of "
            "sums that nodes send"
        )
    if hasattr(estimator, "calibrated_classifiers_"):
        return (
            "; or give the classifier that is calibrated, since the aggregate is "
            "calibrated on the rows of the nodes by itself"
        )
    return ""


def is_fitted(estimator, *, name: str = "estimator") -> bool:
    """Whether a classifier, in any wrappers, is fitted; TypeError for anything else."""
    if isinstance(estimator, Network):
        return True
    _check_kind(estimator, name)
    if isinstance(estimator, FrozenEstimator):
        return is_fitted(estimator.estimator, name=name)
    if isinstance(estimator, Pipeline):
        return is_fitted(estimator.steps[-1][1], name=name)
    if is_skorch(estimator):  # check_is_fitted cannot see it before 1.3
        return bool(getattr(estimator, "initialized_", False))
    try:
        check_is_fitted(estimator)
        return True
    except NotFittedError:
        return False
    except Exception:  # no scikit-learn estimator, only one that behaves like it
        return hasattr(estimator, "classes_")


def _check_kind(estimator, name):
    """Raise TypeError for what is no classifier, fitted or not."""
    if isinstance(estimator, type):
        own = f"{estimator.__name__} is a class, not an instance"
        raise TypeError(f"Node {name!r}: {own}; give a fitted {estimator.__name__}().")
    kind = type(estimator).__name__
    if _TORCH_MODULE in _class_paths(estimator):
        raise TypeError(
            f"Node {name!r}: {kind} is a bare torch module, which does not know its "
            "classes. Wrap it in skorch: NeuralNetClassifier(module, ...), and if it "
            "is trained already, call its initialize()."
        )
    if isinstance(estimator, Pipeline) and not estimator.steps:
        raise TypeError(f"Node {name!r}: the Pipeline has no steps.")
    if isinstance(estimator, (FrozenEstimator, Pipeline)) or is_skorch(estimator):
        return
    if _has_role(is_regressor, estimator):
        raise TypeError(f"Node {name!r}: {kind} is a regressor; give a classifier.")
    if hasattr(estimator, "classes_") or _has_role(is_classifier, estimator):
        return
    behaves = hasattr(estimator, "fit") and hasattr(estimator, "predict")
    if isinstance(estimator, BaseEstimator) or not behaves:
        if isinstance(estimator, (str, numbers.Number)):
            kind = f"{kind} {estimator!r}"
        not_one = f"{kind} is not a classifier. Accepted are {ACCEPTED}."
        raise TypeError(f"Node {name!r}: {not_one}")


def _has_role(role, estimator):
    try:
        return role(estimator)
    except Exception:  # an object without scikit-learn's tags
        return False


def _read_pipeline(pipeline, name):
    network = read_network(pipeline.steps[-1][1], name=name)
    steps = _transformers(pipeline.steps[:-1])
    if not steps:
        return network
    if takes_documents(pipeline):
        raise ValueError(
            f"Node {name!r}: the pipeline begins with {type(steps[0][1]).__name__}, "
            "which takes documents, so that its weights are not those of columns of "
            "numbers. A vectorizer that learns nothing from rows, HashingVectorizer or "
            "FeatureHasher, is given as front= where it is the same at all nodes; the "
            "fitted pipelines may stay as they are. EnsembleAggregator lets pipelines "
            "vote that begin with any vectorizer."
        )
    # A transformer of the user's own may not count its features: let the next one that
    # does, or the classifier, say it.
    known = (getattr(step, "n_features_in_", None) for _, step in steps)
    n_features_in = next((n for n in known if n is not None), network.n_features_in)
    features = {"n_features_in": n_features_in}
    features["feature_names_in"] = getattr(steps[0][1], "feature_names_in_", None)
    first = network.coefs[0], network.intercepts[0]
    coef, intercept, coordinates = fold_steps(steps, *first, name=name, **features)
    network = with_first(network, coef, intercept)
    return replace(network, coordinates=coordinates, **features)


def _transformers(steps, prefix=""):
    found = []
    for label, step in steps:
        while isinstance(step, FrozenEstimator):
            step = step.estimator
        if isinstance(step, Pipeline) and hasattr(step, "transform"):
            found += _transformers(step.steps, f"{prefix}{label}__")
        elif hasattr(step, "transform"):  # no "passthrough", no sampler
            found.append((prefix + label, step))
    return found
