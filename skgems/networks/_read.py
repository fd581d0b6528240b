"""Find the classifier inside its wrappers and read it; describe outputs of a net."""

import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import issparse
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    is_classifier,
    is_regressor,
)
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import (
    FixedThresholdClassifier,
    TunedThresholdClassifierCV,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ._affine import fold_steps
from ._inputs import takes_documents
from ._module_state import ModuleState
from ._nets import labels_of, module_of
from ._network import TOLERANCE, Network, with_first
from ._sklearn import READERS, read_linear, read_one_vs_rest, unwrap

if TYPE_CHECKING:
    from torch import nn


def output_labels(
    net: object, *, name: str = "estimator"
) -> tuple[np.ndarray, np.ndarray]:
    """Labels of a skorch net's outputs, 0 and 1 for a single one, and which it saw."""
    n_outputs = count_outputs(net, name=name)
    if n_outputs == 1:
        return np.arange(2), np.ones(2, dtype=bool)
    return labels_of(net, n_outputs=n_outputs, name=name)


def output_link(net: object, *, name: str = "estimator") -> str:
    """Name the last function of the module, which logits enter, for `to_module`."""
    from ._torch import read_module

    return read_module(module_of(net), name=name).link or "identity"


def net_probabilities(
    net: object, outputs: np.ndarray, *, name: str = "estimator"
) -> np.ndarray:
    """Return probabilities (n_rows, n_classes) of what the module of a net returned."""
    from ._probabilities import as_probabilities

    return as_probabilities(net, outputs, name=name)


def sets_probabilities(net: object) -> bool:
    """Report whether the user says what makes probabilities of a net's outputs."""
    from . import _probabilities

    return _probabilities.sets_probabilities(net)


def keeps_nonlinearity(net: object) -> bool:
    """Report whether layers can have the predict_nonlinearity of a net in them."""
    from ._probabilities import line_of_nonlinearity

    if not callable(getattr(net, "predict_nonlinearity", None)):
        return True
    return line_of_nonlinearity(net, count_outputs(net)) is not None


def count_outputs(net: object, *, name: str = "estimator") -> int:
    """Return how many outputs the module of a skorch net has for each row.

    The module is run on made-up rows. Where none fit, its trace says it, or `classes`
    of the net; else that is a ValueError.
    """
    from ._outputs import n_outputs_by_running

    module = module_of(net)
    n_outputs = n_outputs_by_running(module)
    if n_outputs is not None:
        return n_outputs
    layer = _traced_layer(module)
    if layer is not None:
        return len(next(layer.parameters()))
    classes = getattr(net, "classes", None)
    if classes is not None and len(classes):
        return len(classes)
    raise ValueError(
        f"Node {name!r}: the number of outputs of {type(module).__name__} is unknown, "
        "as the module cannot be traced and takes none of the rows that were made up "
        "for its layers. Set the label of each output: net.set_params(classes=[...])."
    )


def output_parameters(net: object, *, name: str = "estimator") -> "list[nn.Parameter]":
    """Return the parameters of a net that have one row for each output.

    They are found by running the module on made-up rows. Where none fit, its trace
    says it; else that is a ValueError.
    """
    from ._outputs import parameters_of_outputs

    module = module_of(net)
    parameters = parameters_of_outputs(module)
    if parameters is not None:
        return parameters
    layer = _traced_layer(module)
    if layer is None:
        raise ValueError(
            f"Node {name!r}: it cannot be found out which weights of "
            f"{type(module).__name__} belong to which class, as the module cannot be "
            "traced and takes none of the rows that were made up for its layers. Fit "
            "the nets of all nodes on the same classes, or use EnsembleAggregator."
        )
    n_outputs = len(next(layer.parameters()))
    return [p for p in layer.parameters() if len(p) == n_outputs]


def why_forwards_differ(
    net: object, other: object, X: "np.ndarray | Mapping | None" = None
) -> str | None:
    """Say in words how two nets of the same weights differ; None where they do not.

    Both run with the weights of the first, on made-up rows; where none fit it, on X
    if that is given, and else nothing is said.
    """
    import torch

    from ._runs import forward_difference, hook_of

    modules = module_of(net), module_of(other)
    rows = None
    if isinstance(X, Mapping) and not issparse(X):  # some sparse matrices are dicts
        rows = {input_name: torch.as_tensor(array) for input_name, array in X.items()}
    elif X is not None:
        rows = (torch.as_tensor(X),)
    deviation = forward_difference(*modules, rows)
    if deviation is None or deviation <= TOLERANCE:
        return None
    hooks = [hook_of(module) for module in modules]
    if hooks[0] != hooks[1]:
        return hooks[1] or f"there is no hook, but at the first {hooks[0]}"
    return (
        "forward has another activation, attribute, branch or dtype: outputs differ by "
        f"{deviation:.2g} of their size"
    )


def outputs_of_made_up_rows(module: "nn.Module") -> np.ndarray | None:
    """Return outputs of a module for the rows that all make up; None if none fit."""
    from ._runs import made_up_rows, run

    rows = made_up_rows(module)
    return None if rows is None else run(module, rows).numpy()


def check_state_fits(module: "nn.Module", state: ModuleState, *, name: str) -> None:
    """Raise ValueError, which names the node, unless numbers are of such a module."""
    tensors = module.state_dict()
    shapes = {path: tuple(tensor.shape) for path, tensor in tensors.items()}
    shapes_at_node = {
        path: array.shape for path, array in zip(state.names, state.arrays, strict=True)
    }
    if shapes_at_node != shapes:
        only_there = dict(sorted(shapes_at_node.items() - shapes.items()))
        only_here = dict(sorted(shapes.items() - shapes_at_node.items()))
        raise ValueError(
            f"Node {name!r}: its summary has parameters of other names or shapes than "
            f"the module of the net in estimators: {only_there!s:.300} and "
            f"{only_here!s:.300}. Give the net of the module that the node has."
        )
    for path, array in zip(state.names, state.arrays, strict=True):
        if tensors[path].is_floating_point() != (array.dtype.kind == "f"):
            raise ValueError(
                f"Node {name!r}: {path} in its summary has the dtype {array.dtype}, "
                "but that of the net in estimators has another kind. Give the net of "
                "the module that the node has."
            )


def check_outputs_fit(module: "nn.Module", state: ModuleState, *, name: str) -> None:
    """Raise ValueError, which names the node, unless outputs are those of the node."""
    import torch

    from ._runs import difference

    outputs = outputs_of_made_up_rows(module)
    if (outputs is None) != (state.outputs is None):
        deviation = float("inf")
    elif outputs is None:
        return
    else:
        deviation = difference(torch.tensor(state.outputs), torch.tensor(outputs))
    if deviation > TOLERANCE:
        raise ValueError(
            f"Node {name!r}: with the numbers of its summary, the module of the net in "
            "estimators gives other outputs than at the node (they differ by "
            f"{deviation:.2g} of their size). Its forward has another activation, "
            "attribute, branch, dtype or hook. Give the net of the node's module."
        )


def last_layer(module: "nn.Module") -> "nn.Module | None":
    """Return the layer that every output has come through; None if there is none.

    It is found by running the module; where no made-up rows fit, by its trace, or it
    is the Linear that is defined last.
    """
    from torch import nn

    from ._outputs import last_linear

    layer = last_linear(module) or _traced_layer(module)
    if layer is not None:
        return layer
    linear = [part for part in module.modules() if isinstance(part, nn.Linear)]
    return linear[-1] if linear else None


def _traced_layer(module: "nn.Module") -> "nn.Module | None":
    """The last layer with parameters, if all outputs come through it and it is dense.

    The trace is followed from the outputs back, as long as there is one way.
    """
    from torch import nn

    from ._trace import first_output, trace

    try:
        root, graph = trace(module, "estimator")
    except TypeError:
        return None
    operation = first_output(graph)
    while getattr(operation, "op", "").startswith("call_"):
        if operation.op == "call_module":
            layer = root.get_submodule(operation.target)
            if next(layer.parameters(), None) is not None:
                kinds = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Bilinear)
                return layer if isinstance(layer, kinds) else None
        inputs = operation.all_input_nodes
        operation = inputs[0] if len(inputs) == 1 else None
    return None


# Modules and names of classes: neither skorch nor torch is imported to know them.
_SKORCH = {
    ("skorch.classifier", "NeuralNetClassifier"),
    ("skorch.classifier", "NeuralNetBinaryClassifier"),
}
_TORCH_MODULE = ("torch.nn.modules.module", "Module")

ACCEPTED = (
    "linear classifiers (fitted with classes_, coef_ and intercept_), "
    "OneVsRestClassifier of linear ones, MLPClassifier, DummyClassifier, skorch "
    "NeuralNetClassifier and NeuralNetBinaryClassifier, and any of these as the last "
    "step of a Pipeline of affine steps, in a FrozenEstimator or as the best estimator "
    "of a fitted search"
)


def is_constant(estimator: object) -> bool:
    """Report whether it is the constant model of a node whose rows show one class."""
    classifier = unwrap(estimator)
    if isinstance(classifier, OneVsRestClassifier):
        return len(getattr(classifier, "classes_", ())) == 1
    return isinstance(classifier, DummyClassifier)


def is_skorch(estimator: object) -> bool:
    """Report whether it is a skorch classifier; imports neither skorch nor torch."""
    classes = type(estimator).__mro__
    return any((base.__module__, base.__name__) in _SKORCH for base in classes)


def read_network(
    estimator: object, *, name: str = "estimator", copy: bool = True
) -> Network:
    """Read a classifier into arrays; without ``copy`` its own: do not change them."""
    if isinstance(estimator, Network):
        return estimator
    _check_kind(estimator, name)
    inner = unwrap(estimator)
    if inner is not estimator:
        return read_network(inner, name=name, copy=copy)
    if isinstance(estimator, Pipeline):
        return _read_pipeline(estimator, name)
    if not is_fitted(estimator, name=name):
        raise NotFittedError(
            f"Node {name!r}: this {type(estimator).__name__} is not fitted. Fit it on "
            "the node's rows."
        )
    if is_skorch(estimator):
        from ._torch import read_skorch

        return read_skorch(estimator, name=name)
    if isinstance(estimator, OneVsRestClassifier):
        return read_one_vs_rest(estimator, name=name, read=read_network)
    read = _reader(estimator)
    if read is None:
        raise _cannot_be_read(estimator, name)
    return read(estimator, name=name, copy=copy)


def _reader(estimator: object) -> Callable[..., Network] | None:
    for kind, read in READERS.items():
        if isinstance(estimator, kind):
            return read
    linear_attributes = ("classes_", "coef_", "intercept_")
    is_linear = all(hasattr(estimator, attribute) for attribute in linear_attributes)
    return read_linear if is_linear else None


def _cannot_be_read(estimator: object, name: str) -> TypeError:
    kind = type(estimator).__name__
    if getattr(estimator, "refit", None) is False:
        return TypeError(
            f"Node {name!r}: this {kind} was fitted with refit=False and so has no "
            "best_estimator_. Fit it with refit=True."
        )
    return TypeError(
        f"Node {name!r}: {kind} cannot be read, as it has no weights of a linear model "
        "or of a network. EnsembleAggregator lets classifiers of any kind vote"
        f"{_alternative_to_a_vote(estimator)}. Accepted here are {ACCEPTED}."
    )


# Classifiers that have no weights, and that PooledAggregator fits from sums of rows.
SUMMED = (
    "BernoulliNB",
    "CategoricalNB",
    "ComplementNB",
    "GaussianNB",
    "MultinomialNB",
    "QuadraticDiscriminantAnalysis",
)


def _alternative_to_a_vote(estimator: object) -> str:
    """Return what else can be done with a classifier that has no weights."""
    kind = type(estimator).__name__
    if kind in SUMMED:
        return (
            f"; PooledAggregator(pooled={kind}()) fits the {kind} of all rows from "
            "sums that nodes send"
        )
    if isinstance(estimator, FixedThresholdClassifier | TunedThresholdClassifierCV):
        return (
            " and keeps their decision thresholds; or give the classifier inside: the "
            "aggregate then predicts the most probable class, without a threshold"
        )
    if hasattr(estimator, "calibrated_classifiers_"):
        return (
            "; or give the classifier inside: the aggregate calibrates itself on the "
            "rows of the nodes"
        )
    return ""


def is_fitted(estimator: object, *, name: str = "estimator") -> bool:
    """Report whether a classifier, in any wrappers, is fitted; else TypeError."""
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


def _check_kind(estimator: object, name: str) -> None:
    """Raise TypeError for what is no classifier, fitted or not."""
    if isinstance(estimator, ClassifierMixin) and hasattr(estimator, "classes_"):
        return  # as fitted classifiers of scikit-learn are
    kind = type(estimator).__name__
    if isinstance(estimator, type):
        raise TypeError(
            f"Node {name!r}: {estimator.__name__} is a class, not an instance. Give a "
            f"fitted {estimator.__name__}()."
        )
    classes = type(estimator).__mro__
    if _TORCH_MODULE in [(base.__module__, base.__name__) for base in classes]:
        raise TypeError(
            f"Node {name!r}: {kind} is a bare torch module, which does not know its "
            "classes. Wrap it in skorch: NeuralNetClassifier(module, ...). If it is "
            "trained already, give that classes=[...], and call its initialize()."
        )
    if isinstance(estimator, Pipeline) and not estimator.steps:
        raise TypeError(
            f"Node {name!r}: the Pipeline has no steps. Give one that ends with a "
            "fitted classifier."
        )
    # The estimators in these are checked when they are read.
    if isinstance(estimator, (FrozenEstimator, Pipeline)) or is_skorch(estimator):
        return
    if _has_role(is_regressor, estimator):
        raise TypeError(
            f"Node {name!r}: {kind} is a regressor. Give a fitted classifier."
        )
    if isinstance(estimator, (str, numbers.Number)):
        raise TypeError(
            f"Node {name!r}: {kind} {estimator!r} is not a classifier. Accepted are "
            f"{ACCEPTED}."
        )
    if not _seems_a_classifier(estimator):
        raise TypeError(
            f"Node {name!r}: {kind} is not a classifier. Accepted are {ACCEPTED}."
        )


def _seems_a_classifier(estimator: object) -> bool:
    if hasattr(estimator, "classes_") or _has_role(is_classifier, estimator):
        return True
    if isinstance(estimator, BaseEstimator):
        return False
    # An estimator of another library may not say what it is before it is fitted.
    return hasattr(estimator, "fit") and hasattr(estimator, "predict")


def _has_role(role: Callable[[object], bool], estimator: object) -> bool:
    try:
        return role(estimator)
    except Exception:  # an object without scikit-learn's tags
        return False


def _read_pipeline(pipeline: Pipeline, name: str) -> Network:
    network = read_network(pipeline.steps[-1][1], name=name)
    steps = _transformers(pipeline.steps[:-1])
    if not steps:
        return network
    if takes_documents(pipeline):
        raise ValueError(
            f"Node {name!r}: the pipeline begins with {type(steps[0][1]).__name__}, "
            "which takes documents, so its weights do not belong to columns of "
            "numbers. A vectorizer that learns nothing from rows, HashingVectorizer or "
            "FeatureHasher, can be given as front= if it is the same at all nodes; the "
            "fitted pipelines may stay as they are. EnsembleAggregator lets pipelines "
            "that begin with any vectorizer vote."
        )
    # A transformer of the user's own may not count its features: let the next one that
    # does, or the classifier, say it.
    counts = (getattr(step, "n_features_in_", None) for _, step in steps)
    n_features_in = next((n for n in counts if n is not None), network.n_features_in)
    feature_names_in = getattr(steps[0][1], "feature_names_in_", None)
    coef, intercept, coordinates = fold_steps(
        steps,
        network.coefs[0],
        network.intercepts[0],
        name=name,
        n_features_in=n_features_in,
        feature_names_in=feature_names_in,
    )
    return replace(
        with_first(network, coef=coef, bias=intercept),
        coordinates=coordinates,
        n_features_in=n_features_in,
        feature_names_in=feature_names_in,
    )


def _transformers(
    steps: Sequence[tuple[str, object]], prefix: str = ""
) -> list[tuple[str, BaseEstimator]]:
    """Labels and transformers of steps, those of pipelines within them one by one."""
    transformers = []
    for label, step in steps:
        while isinstance(step, FrozenEstimator):
            step = step.estimator
        if isinstance(step, Pipeline) and hasattr(step, "transform"):
            transformers += _transformers(step.steps, f"{prefix}{label}__")
        elif hasattr(step, "transform"):  # no "passthrough", no sampler
            transformers.append((prefix + label, step))
    return transformers
