# SPDX-License-Identifier: BSD-3-Clause
"""Go on training a fitted classifier from given parameters, by its own trainer."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state

from ..networks._classes import contract_binary
from ..networks._kinds import is_skorch, unwrap
from ._trainers import LogisticTrainer, MLPTrainer, SGDTrainer

TRAINABLE = (
    "MLPClassifier (solver 'adam' or 'sgd'), SGDClassifier, LogisticRegression "
    "(any solver but 'liblinear') and skorch NeuralNetClassifier or "
    "NeuralNetBinaryClassifier of any torch module, bare, in a FrozenEstimator or as "
    "the best estimator of a fitted search"
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


def layout(estimator) -> str:
    """Name of the way its parameters are laid out; of others they mean other things."""
    return _trainer(estimator).layout


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
    >>> from skgems.local._training import get_parameters
    >>> clf = LogisticRegression().fit([[0.0], [1.0]], [0, 1])
    >>> [array.shape for array in get_parameters(clf)]
    [(1, 1), (1,)]
    """
    return _trainer(estimator).read(unwrap(estimator))


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
    shapes = [np.shape(array) for array in trainer.read(fresh)]
    given = [np.shape(array) for array in parameters]
    if shapes != given:
        raise ValueError(
            f"{type(fresh).__name__} has parameters of shapes {shapes}, got {given}."
        )
    trainer.write(fresh, parameters)
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
    >>> from skgems.local._training import train
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
        coefs[-1], intercepts[-1] = contract_binary(coefs[-1], intercepts[-1])
    if isinstance(unwrap(estimator), MLPClassifier):
        return coefs + intercepts
    return [np.ascontiguousarray(coefs[0].T), intercepts[0]]


# ---- the trainer of each kind -------------------------------------------------


def _trainer(estimator, name="estimator"):
    bare = unwrap(estimator)
    kind = type(bare).__name__
    if isinstance(bare, MLPClassifier):
        if bare.solver in ("adam", "sgd"):
            return MLPTrainer
        kind += f"(solver={bare.solver!r})"
    elif isinstance(bare, SGDClassifier):
        return SGDTrainer
    elif isinstance(bare, LogisticRegression) and hasattr(bare, "warm_start"):
        if bare.solver != "liblinear":
            return LogisticTrainer
        kind += f"(solver={bare.solver!r})"
    elif is_skorch(bare):
        # Imports torch, which a skorch net has brought.
        from . import _training_skorch

        return _training_skorch
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
