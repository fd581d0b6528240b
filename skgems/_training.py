# SPDX-License-Identifier: BSD-3-Clause
"""Go on training a fitted classifier from given parameters, by its own trainer."""

from __future__ import annotations

import copy
import sys
import warnings
from collections.abc import Sequence

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

TRAINABLE = (
    "MLPClassifier (solver 'adam' or 'sgd'), SGDClassifier, LogisticRegression "
    "(any solver but 'liblinear') and skorch NeuralNetClassifier or "
    "NeuralNetBinaryClassifier of any torch module, bare, in a FrozenEstimator or as "
    "the best estimator of a fitted search"
)

# Rows that initialise() shows a model; what it learns of them is below rounding.
_NO_RATE = np.finfo(np.float64).tiny


def unwrap(estimator):
    """The classifier inside FrozenEstimator and fitted searches."""
    while True:
        if isinstance(estimator, FrozenEstimator):
            estimator = estimator.estimator
        elif hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        else:
            return estimator


def is_skorch(estimator) -> bool:
    """Whether it is a skorch classifier, found out without importing skorch."""
    skorch = sys.modules.get("skorch")
    return skorch is not None and isinstance(
        estimator, (skorch.NeuralNetClassifier, skorch.NeuralNetBinaryClassifier)
    )


def check_trainable(estimator, *, name: str = "estimator") -> None:
    """Raise TypeError, naming what can, if training cannot go on.

    Parameters
    ----------
    estimator : classifier
        Fitted or not.
    name : str, default="estimator"
        Name of the node, for the message.
    """
    _trainer(estimator, name)


def get_parameters(estimator) -> list[np.ndarray]:
    """Copies of all that a fitted classifier learned.

    Parameters
    ----------
    estimator : fitted classifier
        Of a kind that can go on training, see :func:`train`.

    Returns
    -------
    parameters : list of ndarray
        ``coefs_`` then ``intercepts_`` of MLPClassifier, ``coef_`` and
        ``intercept_`` of linear classifiers, the ``state_dict`` of a torch module
        (parameters and buffers) in its order.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skgems._training import get_parameters
    >>> clf = LogisticRegression().fit([[0.0], [1.0]], [0, 1])
    >>> [array.shape for array in get_parameters(clf)]
    [(1, 1), (1,)]
    """
    return _trainer(estimator).get(unwrap(estimator))


def with_parameters(estimator, parameters: Sequence[np.ndarray]):
    """A fitted copy of a classifier that carries other parameters.

    Parameters
    ----------
    estimator : fitted classifier
        Not altered.
    parameters : sequence of ndarray
        As :func:`get_parameters` gives them, of the same shapes.

    Returns
    -------
    copy : fitted classifier
        The bare classifier, out of FrozenEstimator and searches, without the state
        of its optimizer.

    Raises
    ------
    ValueError
        If the number of arrays or a shape does not fit.
    """
    trainer = _trainer(estimator)
    fresh = trainer.copy(unwrap(estimator))
    shapes = [np.shape(array) for array in trainer.get(fresh)]
    given = [np.shape(array) for array in parameters]
    if shapes != given:
        raise ValueError(
            f"{type(fresh).__name__} has parameters of shapes {shapes}, got {given}."
        )
    trainer.set(fresh, parameters)
    return fresh


def train(
    estimator,
    X,
    y,
    *,
    epochs: int,
    learning_rate: float | Sequence[float] | None = None,
    parameters: Sequence[np.ndarray] | None = None,
    random_state=None,
):
    """Train a copy of a fitted classifier some epochs more, by its own trainer.

    MLPClassifier and SGDClassifier go on by ``partial_fit``, LogisticRegression by
    a warm start (an epoch is one iteration of its solver; there is no rate), skorch
    nets by theirs, callbacks included. Optimizers start afresh.

    Parameters
    ----------
    estimator : fitted classifier
        Not altered. What cannot go on training is a TypeError that names what can.
    X : {ndarray, CSR matrix} of shape (n_samples, n_features)
        Rows.
    y : ndarray of shape (n_samples,)
        Labels as the classifier's own ``fit`` takes them, all of its classes.
    epochs : int
        Passes over the rows.
    learning_rate : float or sequence of float of length epochs, default=None
        Rate, or one for each epoch; None leaves it to the classifier.
    parameters : sequence of ndarray, default=None
        Where to start, as :func:`get_parameters` gives them; None starts where the
        classifier is.
    random_state : int, RandomState instance or None, default=None
        Source of the order of rows, and of a torch module's own randomness.

    Returns
    -------
    copy : fitted classifier
        The bare classifier, out of FrozenEstimator and searches.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import SGDClassifier
    >>> from skgems._training import train
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = SGDClassifier(loss="log_loss", random_state=0).fit(X, y)
    >>> further = train(clf, X, y, epochs=5, learning_rate=1e-3, random_state=0)
    >>> further is clf
    False
    """
    trainer = _trainer(estimator)
    rng = check_random_state(random_state)
    if parameters is None:
        parameters = get_parameters(estimator)
    fresh = with_parameters(estimator, parameters)
    rates = None
    if learning_rate is not None:
        rates = np.broadcast_to(np.asarray(learning_rate, dtype=np.float64), epochs)
    if epochs:
        trainer.train(fresh, X, y, epochs, rates, rng)
    return fresh


def initialise(estimator, X, y, *, classes, random_state=None):
    """A copy of an unfitted classifier at the start of its training.

    Parameters
    ----------
    estimator : unfitted classifier
        Not altered.
    X : {ndarray, CSR matrix} of shape (n_samples, n_features)
        Rows, for their number of features and dtype.
    y : ndarray of shape (n_samples,)
        Labels.
    classes : ndarray of shape (n_classes,)
        Labels that the model is to have outputs for.
    random_state : int, RandomState instance or None, default=None
        Source of the first weights.

    Returns
    -------
    copy : fitted classifier
        Random weights where its training starts at random, else zeros.
    """
    rng = check_random_state(random_state)
    return _trainer(estimator).start(
        copy.deepcopy(estimator), X[:1], y[:1], classes, rng
    )


def widen(estimator, classes: np.ndarray):
    """A fitted copy of a classifier with an output for each of ``classes``.

    Parameters
    ----------
    estimator : fitted classifier
        Not altered. The outputs of a torch module are what they are: such a net
        comes back as a copy.
    classes : ndarray of shape (n_classes,)
        Sorted labels, at least those of the classifier.

    Returns
    -------
    copy : fitted classifier
        With ``classes_`` equal to ``classes``; new outputs have zero weights.
    """
    trainer = _trainer(estimator)
    return trainer.widen(trainer.copy(unwrap(estimator)), np.asarray(classes))


def class_axes(estimator) -> dict[int, int]:
    """Which of a classifier's parameters have one entry per output, along which axis.

    Parameters
    ----------
    estimator : fitted classifier

    Returns
    -------
    axes : dict
        From the index in :func:`get_parameters` to the axis of the outputs. With
        one output for two classes the axis has length 1.
    """
    return _trainer(estimator).class_axes(unwrap(estimator))


def parameters_of(network, estimator) -> list[np.ndarray]:
    """Parameters of a Network in the layout of an estimator of scikit-learn.

    Parameters
    ----------
    network : Network
        One output column per class.
    estimator : fitted MLPClassifier or linear classifier
        With the same classes.

    Returns
    -------
    parameters : list of ndarray
        For :func:`with_parameters`.
    """
    coefs, intercepts = list(network.coefs), list(network.intercepts)
    if len(network.classes) == 2:
        coefs[-1], intercepts[-1] = np.diff(coefs[-1]), np.diff(intercepts[-1])
    if isinstance(unwrap(estimator), MLPClassifier):
        return coefs + intercepts
    return [np.ascontiguousarray(coefs[0].T), intercepts[0]]


# ---- trainers, one for each kind --------------------------------------------


def _trainer(estimator, name="estimator"):
    bare = unwrap(estimator)
    kind = type(bare).__name__
    if isinstance(bare, MLPClassifier):
        if bare.solver in ("adam", "sgd"):
            return _MLP
        kind += f"(solver={bare.solver!r})"
    elif isinstance(bare, SGDClassifier):
        return _SGD
    elif isinstance(bare, LogisticRegression):
        if bare.solver != "liblinear":
            return _Logistic
        kind += f"(solver={bare.solver!r})"
    elif is_skorch(bare):
        return _Skorch
    hint = ""
    if isinstance(bare, Pipeline):
        hint = (
            " Put what comes before the classifier before the aggregator instead: "
            "make_pipeline(StandardScaler(), aggregator)."
        )
    raise TypeError(
        f"Node {name!r}: {kind} cannot go on training from given parameters. What can: "
        f"{TRAINABLE}.{hint}"
    )


class _Lent:
    """Parameters of an estimator that differ while a block runs."""

    def __init__(self, estimator, **params):
        self.estimator, self.params = estimator, params

    def __enter__(self):
        self.own = {key: getattr(self.estimator, key) for key in self.params}
        self.estimator.__dict__.update(self.params)
        # Rows come as arrays, without the names that the user's had.
        self.names = self.estimator.__dict__.pop("feature_names_in_", None)

    def __exit__(self, *_):
        self.estimator.__dict__.update(self.own)
        if self.names is not None:
            self.estimator.feature_names_in_ = self.names


class _MLP:
    @staticmethod
    def copy(estimator):
        check_is_fitted(estimator)
        fresh = copy.copy(estimator)
        for name in ("_optimizer", "_best_coefs", "_best_intercepts"):
            vars(fresh).pop(name, None)
        # Attributes that training writes, as they are before the first epoch.
        fresh.coefs_ = [array.copy() for array in estimator.coefs_]
        fresh.intercepts_ = [array.copy() for array in estimator.intercepts_]
        fresh.loss_curve_ = []
        fresh.best_loss_ = np.inf
        fresh.validation_scores_ = fresh.best_validation_score_ = None
        fresh._no_improvement_count = 0
        return fresh

    @staticmethod
    def get(estimator):
        return [array.copy() for array in (*estimator.coefs_, *estimator.intercepts_)]

    @staticmethod
    def set(estimator, parameters):
        arrays = [np.array(array, order="C") for array in parameters]
        depth = len(estimator.coefs_)
        estimator.coefs_, estimator.intercepts_ = arrays[:depth], arrays[depth:]

    @staticmethod
    def train(estimator, X, y, epochs, rates, rng):
        # partial_fit knows no early stopping, and would start each epoch at the seed.
        own = {"random_state": rng, "early_stopping": False}
        if rates is not None:
            own["learning_rate_init"] = rates[0]
        if estimator.batch_size != "auto":
            own["batch_size"] = min(estimator.batch_size, X.shape[0])
        X = X.astype(estimator.coefs_[0].dtype, copy=False)
        with _Lent(estimator, **own):
            for epoch in range(epochs):
                if epoch and rates is not None:
                    optimizer = estimator._optimizer
                    optimizer.learning_rate = rates[epoch]
                    optimizer.learning_rate_init = rates[epoch]
                estimator.partial_fit(X, y)

    @staticmethod
    def start(estimator, X, y, classes, rng):
        own = {"learning_rate_init": _NO_RATE, "early_stopping": False, "batch_size": 1}
        with _Lent(estimator, random_state=rng, **own):
            estimator.partial_fit(X, y, classes=classes)
        return _MLP.copy(estimator)

    @staticmethod
    def widen(estimator, classes):
        from .networks import align_outputs, read_network, to_mlp_classifier

        if np.array_equal(estimator.classes_, classes):
            return estimator
        network = read_network(estimator)
        coef, intercept, _, _ = align_outputs(network, classes)
        wide = to_mlp_classifier(
            (*network.coefs[:-1], coef),
            (*network.intercepts[:-1], intercept),
            estimator.activation,
            classes,
            feature_names_in=network.feature_names_in,
        )
        return wide.set_params(**estimator.get_params())

    @staticmethod
    def class_axes(estimator):
        depth = len(estimator.coefs_)
        return {depth - 1: 1, 2 * depth - 1: 0}


class _Linear:
    @staticmethod
    def copy(estimator):
        check_is_fitted(estimator)
        fresh = copy.copy(estimator)
        fresh.coef_, fresh.intercept_ = _Linear.get(estimator)
        for name in ("_standard_coef", "_standard_intercept"):
            vars(fresh).pop(name, None)
        return fresh

    @staticmethod
    def get(estimator):
        coef = np.array(estimator.coef_, order="C")
        # Without an intercept scikit-learn may keep a single number.
        intercept = np.array(np.broadcast_to(estimator.intercept_, coef.shape[0]))
        return [coef, intercept.astype(coef.dtype, copy=False)]

    @staticmethod
    def set(estimator, parameters):
        estimator.coef_, estimator.intercept_ = (
            np.array(array, order="C") for array in parameters
        )

    @staticmethod
    def widen(estimator, classes):
        from .networks import align_outputs, read_network

        if np.array_equal(estimator.classes_, classes):
            return estimator
        coef, intercept, _, _ = align_outputs(read_network(estimator), classes)
        if len(classes) == 2:
            coef, intercept = coef[:, 1:] - coef[:, :1], intercept[1:] - intercept[:1]
        estimator.classes_ = classes.copy()
        estimator.coef_ = np.ascontiguousarray(coef.T)
        estimator.intercept_ = intercept
        return estimator

    @staticmethod
    def class_axes(estimator):
        return {0: 0, 1: 0}


class _SGD(_Linear):
    @staticmethod
    def train(estimator, X, y, epochs, rates, rng):
        # A running average would average over models before the new parameters too.
        own = {"random_state": rng, "average": False}
        if rates is not None:
            own |= {"learning_rate": "constant", "eta0": rates[0]}
        X = X.astype(estimator.coef_.dtype, copy=False)
        with _Lent(estimator, **own):
            for epoch in range(epochs):
                if rates is not None:
                    estimator.eta0 = rates[epoch]
                estimator.partial_fit(X, y)

    @staticmethod
    def start(estimator, X, y, classes, rng):
        with _Lent(estimator, random_state=rng, average=False):
            estimator.partial_fit(X, y, classes=classes)
        estimator.t_ = 1.0
        for array in (estimator.coef_, estimator.intercept_):
            array[:] = 0.0
        return estimator


class _Logistic(_Linear):
    @staticmethod
    def train(estimator, X, y, epochs, rates, rng):
        classes, (coef, intercept) = estimator.classes_, _Linear.get(estimator)
        own = np.isin(classes, y)
        if own.sum() < 2:  # nothing to tell apart
            return
        if len(classes) == 2:
            own[:] = True
            start, bias = coef, intercept
        elif own.sum() == 2:
            # Of two classes scikit-learn fits the difference.
            start, bias = np.diff(coef[own], axis=0), np.diff(intercept[own])
        else:
            start, bias = coef[own], intercept[own]
        estimator.coef_, estimator.intercept_ = start.copy(), bias.copy()
        lent = _Lent(estimator, random_state=rng, warm_start=True, max_iter=epochs)
        with lent, warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            estimator.fit(X, y)
        estimator.classes_ = classes
        if estimator.coef_.shape == coef.shape:
            return
        # Classes that the rows do not show keep what was said of them.
        moved, moved_bias = estimator.coef_ - start, estimator.intercept_ - bias
        if own.sum() == 2:
            sides = np.array([-0.5, 0.5])
            moved, moved_bias = sides[:, None] * moved, sides * moved_bias
        coef[own] += moved
        intercept[own] += moved_bias
        estimator.coef_, estimator.intercept_ = coef, intercept

    @staticmethod
    def start(estimator, X, y, classes, rng):
        n_outputs = 1 if len(classes) == 2 else len(classes)
        estimator.classes_ = np.array(classes)
        estimator.coef_ = np.zeros((n_outputs, X.shape[1]), dtype=X.dtype)
        estimator.intercept_ = np.zeros(n_outputs, dtype=X.dtype)
        estimator.n_features_in_ = X.shape[1]
        estimator.n_iter_ = np.zeros(1, dtype=np.int32)
        return estimator


class _Skorch:
    """Forwards to the part that imports torch, which a skorch net has brought."""

    def __getattr__(self, name):
        from . import _training_skorch

        return getattr(_training_skorch, name)


_Skorch = _Skorch()
