"""A node's own classifier as one object, and layers that are trained on its rows."""

from collections.abc import Sequence
from copy import deepcopy
from functools import cached_property

import numpy as np
from scipy.special import expit, softmax
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state

from ..compat import num_samples, safe_indexing
from ..networks import (
    Layers,
    Network,
    check_finite,
    final_step,
    is_constant,
    label_array,
    read_network,
    unwrap,
)
from ..spaces import SpaceProfile, on_one_scale, profile_space
from ._classifiers import (
    Description,
    as_it_was_fitted,
    at_node,
    check_outputs,
    class_scores,
    indices_of,
)

TRAINABLE = (
    "MLPClassifier (solver 'adam' or 'sgd'), SGDClassifier, LogisticRegression "
    "(any solver but 'liblinear') and skorch NeuralNetClassifier or "
    "NeuralNetBinaryClassifier of any torch module, bare, in a FrozenEstimator or as "
    "the best estimator of a fitted search"
)

# Where scikit-learn's classifiers, or a Network, keep what they learned.
_LEARNED = (
    *("coef_", "intercept_", "coefs_", "intercepts_", "dual_coef_", "coefs"),
    *("intercepts", "means_", "theta_", "var_", "class_prior_", "centroids_"),
)


class LocalModel:
    """A classifier, never altered; kinds that can train on set ``layout``."""

    # How its parameters are laid out. None: it cannot go on training.
    layout: str | None = None

    def __init__(self, estimator, name: str = "estimator") -> None:
        self.estimator = estimator
        self.name = name
        self.own = final_step(estimator)  # inside all wrappers and pipelines
        self._no_prediction = f"{type(self.own).__name__} cannot predict the rows"

    @cached_property
    def description(self) -> Description | Network:
        """What classes it has; TypeError if it has no ``classes_``."""
        estimator, seen = self.estimator, None
        if isinstance(estimator, Network):
            return estimator
        if not hasattr(estimator, "classes_"):
            what = f"{type(estimator).__name__} has no classes_; give a fitted one."
            raise TypeError(f"Node {self.name!r}: {what}")
        if is_constant(self.own) and hasattr(self.own, "class_prior_"):
            seen = np.asarray(self.own.class_prior_) > 0
        return Description.of(estimator, label_array(estimator, name=self.name), seen)

    @property
    def is_constant(self) -> bool:
        own = self.estimator
        return own.is_constant if isinstance(own, Network) else is_constant(own)

    advice_on_labels = ""  # what to do where its classes are numbers of outputs
    has_module = False  # whether its parameters are those of a torch module
    is_chain = True  # whether it can be read as a chain of dense layers

    def network(self, *, copy: bool = True) -> Network:
        return read_network(self.estimator, name=self.name, copy=copy)

    def check_finite(self, where: str = "") -> None:
        """Raise ValueError, naming node and attribute, for what is not finite."""
        for attribute in _LEARNED:
            values, what = getattr(self.own, attribute, None), where + attribute
            several = isinstance(values, (list, tuple))
            for i, part in enumerate(values if several else [values]):
                if part is not None:
                    each = f"{what}[{i}]" if several else what
                    check_finite(part, name=self.name, array_name=each)
        members = getattr(self.own, "estimators_", None)
        for i, member in enumerate(members if isinstance(members, list) else ()):
            LocalModel(member, self.name).check_finite(f"{where}estimators_[{i}].")

    def probabilities(self, X, classes) -> np.ndarray:
        """Checked probabilities of sorted classes; 0 where it has no output."""
        with at_node(self.name, self._no_prediction):
            own = self._probabilities(X)
            _check_one_a_row(own, X)
            check_outputs(own, "probabilities")
        target = indices_of(self.description.classes, classes)
        proba = np.zeros((own.shape[0], len(classes)))
        proba[:, target[target >= 0]] = own[:, target >= 0]
        return proba

    def votes(self, X, classes) -> np.ndarray:
        """Predictions, else the most probable class, as indices of sorted classes."""
        with at_node(self.name, self._no_prediction):
            predicted = self._predictions(X)
            _check_one_a_row(predicted, X)
        votes = indices_of(predicted, classes)
        others = votes < 0
        if others.any():
            some = safe_indexing(X, np.flatnonzero(others))
            votes[others] = np.argmax(self.probabilities(some, classes), axis=1)
        return votes

    def _probabilities(self, X) -> np.ndarray:
        """(n_samples, n_own_classes); else the softmax of scores; else of votes."""
        estimator = self.estimator
        if isinstance(estimator, Network):
            return softmax(estimator.decision_function(X), axis=1)
        with as_it_was_fitted(estimator, X) as X:
            if hasattr(estimator, "predict_proba"):
                proba = np.asarray(estimator.predict_proba(X))
                if proba.shape[1:] == (len(estimator.classes_),):
                    return proba
            scores = class_scores(estimator, X)
            if scores is None:
                predicted = np.asarray(estimator.predict(X)).reshape(-1, 1)
                return (predicted == estimator.classes_).astype(float)
        check_outputs(scores, "scores")
        if scores.ndim == 1:
            positive = expit(scores)
            return np.stack([1 - positive, positive], axis=1)
        return softmax(scores, axis=1)

    def _predictions(self, X) -> np.ndarray:
        own = self.estimator
        if isinstance(own, Network):
            return own.classes[np.argmax(own.decision_function(X), axis=1)]
        with as_it_was_fitted(own, X) as X:
            return np.asarray(own.predict(X)).ravel()

    def check_trainable(self) -> None:
        reason, hint = self._obstacle(), ""
        if reason is None:
            return
        if isinstance(unwrap(self.estimator), Pipeline):
            hint = (
                " Put what comes before the classifier before the aggregator instead: "
            )
            hint += "make_pipeline(StandardScaler(), aggregator)."
        raise TypeError(
            f"Node {self.name!r}: {reason} cannot go on training from given "
            f"parameters. What can: {TRAINABLE}.{hint} EnsembleAggregator lets "
            "classifiers of any kind vote."
        )

    def _obstacle(self) -> str | None:
        bare = unwrap(self.estimator)
        trains = self.layout is not None and bare is self.own
        return None if trains else type(bare).__name__

    def parameters(self) -> list[np.ndarray]:
        """Copies of all weights, then biases; of a net what its ``state_dict`` has."""
        self.check_trainable()
        return self._read()

    def with_parameters(self, parameters: Sequence[np.ndarray]) -> "LocalModel":
        """A fitted copy, without wrappers and optimizer state, of other parameters."""
        self.check_trainable()
        fresh = type(self)(self._copy(), self.name)
        shapes = [np.shape(array) for array in fresh._read()]
        given = [np.shape(array) for array in parameters]
        if shapes != given:
            kind = type(fresh.own).__name__
            raise ValueError(f"{kind} has parameters of shapes {shapes}, got {given}.")
        fresh._write(parameters)
        return fresh

    def train(
        self, X, y, *, epochs, learning_rate=None, parameters=None, random_state=None
    ) -> "LocalModel":
        """Train a copy from ``parameters`` or its own; one rate, or one an epoch."""
        rng, rates = check_random_state(random_state), learning_rate
        parameters = self.parameters() if parameters is None else parameters
        fresh = self.with_parameters(parameters)
        if rates is not None:
            rates = np.broadcast_to(np.asarray(rates, dtype=np.float64), epochs)
        if epochs:
            fresh._train(X, y, epochs, rates, rng)
        return fresh

    def start(self, X, y, *, classes, random_state=None):
        """A fitted copy at the start of training, random or 0, for rows as these."""
        self.check_trainable()
        own, rng = deepcopy(self.own), check_random_state(random_state)
        return self._start(own, X[:1], y[:1], classes, rng)

    def widened(self, classes: np.ndarray) -> "LocalModel":
        """A fitted copy with outputs for all classes, new ones 0; nets keep theirs."""
        self.check_trainable()
        fresh, classes = self._copy(), np.asarray(classes)
        if not np.array_equal(getattr(fresh, "classes_", None), classes):
            fresh = self._widen(fresh, classes)
        return type(self)(fresh, self.name)

    def class_axes(self) -> dict[int, int]:
        """Axis of the outputs in parameters that have one, by index in `parameters`."""
        self.check_trainable()
        return self._class_axes()

    def targets(self, classes: np.ndarray) -> np.ndarray:
        """What its trainer takes for each class: the label, or the output's number."""
        return classes

    def parameters_of(self, network: Network) -> list[np.ndarray]:
        """`parameters` of a Network that has a column for each of its classes."""
        raise NotImplementedError

    learning_rate: float  # of what trains by gradients

    @property
    def trainer(self):
        """All that training what `carrying` gives depends on, to be pickled."""
        return self.estimator

    def carrying(self, layers: Layers) -> "LocalModel":
        """Its own trainer, or an MLPClassifier's, around other layers."""
        raise NotImplementedError

    def layers(self) -> Layers:
        return self.network().above(0)


def _check_one_a_row(outputs: np.ndarray, X) -> None:
    n_rows = num_samples(X)
    if len(outputs) != n_rows:
        raise ValueError(
            f"it says something of {len(outputs)} rows where {n_rows} are given. Was "
            "it fitted to rows of another form, such as texts that are now a table?"
        )


def retrain_layers(model, layers: Layers, Z, y, *, epochs: int, **options) -> Layers:
    """Train layers from their input ``Z`` by the trainer of `model`; keeps dtype."""
    if not epochs or not len(y) or layers.n_outputs < 2:
        return layers
    with at_node(model.name, f"{type(model.own).__name__} cannot train on its rows"):
        trained = model.carrying(layers).train(Z, y, epochs=epochs, **options)
    return trained.layers().astype(layers.coefs[0].dtype)


def node_space(
    W, X, y, *, scale_logits: bool, n_others=0, rows=None, seed=None, **settings
) -> SpaceProfile:
    """Spaces of a node but for epsilon; ``y``: own classes, -1 for others."""
    n_own = W.shape[1]
    center, scale = np.pad(W.astype(np.float64), [(0, 0), (0, n_others)]), 1.0
    known = np.arange(n_own + n_others) < n_own
    if scale_logits:
        center, scale = on_one_scale(center, known, X if rows is None else rows)
    how = {"scale": scale, "rows": rows, "random_state": seed}
    profile = profile_space(X, y, center, known, **settings, **how)
    if not n_others:
        return profile
    return profile.of_outputs(np.arange(n_own + (not profile.last_is_free)))
