# SPDX-License-Identifier: BSD-3-Clause
"""What a node can be asked for; each task is a function of a member and arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from scipy.sparse import issparse

from ..moments import log_losses
from ..networks import Coordinates, Layers, activate, linear_logits
from ..neurons import build_neuron_spaces
from ..spaces import Criterion, Geometry, on_one_scale
from ._counting import counts
from ._descriptions import places
from ._member import Member
from ._retraining import retrain_layers
from ._space import node_space


@dataclass(frozen=True)
class Task:
    """Something that a node can be asked for.

    Attributes
    ----------
    function : callable
        ``function(member, **content)`` returns a dict of what is replied.
    prefer : {"threads", "processes"}
        What several of them run in best, within one machine.
    needs_all : bool
        Whether the plan cannot go on without the reply of every node.
    recalled_by : {"rows", "classifier"} or None
        Whether a channel may keep replies and give them again to the same request: as
        long as the rows are the same, or the classifier too. None: not.
    """

    function: Callable[..., Mapping]
    prefer: str = "threads"
    needs_all: bool = True
    recalled_by: str | None = None


def train(member: Member, *, parameters, classes, epochs, rates, seed) -> dict:
    """Train the node's classifier from shared parameters, on the node's rows.

    Parameters
    ----------
    member : Member
    parameters : list of ndarray
        Where to start, as :meth:`LocalModel.parameters` gives them.
    classes : list
        Labels that the classifier is to have outputs for.
    epochs : int
        Passes over the rows.
    rates : ndarray of shape (epochs,) or None
        Learning rate of each; None leaves it to the classifier.
    seed : int
        Of the order of the rows.

    Returns
    -------
    reply : dict
        The "parameters" after training, and their mean log-"loss" on the rows.

    Raises
    ------
    FloatingPointError
        If training diverges.
    """
    X, y = member.rows("training")
    labels = np.asarray(classes)
    codes = places(y, classes)
    wide = member.model.widened(labels)
    trained = wide.train(
        X,
        wide.targets(labels)[codes],
        parameters=parameters,
        epochs=epochs,
        learning_rate=rates,
        random_state=seed,
    )
    parameters = trained.parameters()
    _check_finite(parameters)
    proba = trained.probabilities(X, labels)
    true = proba[np.arange(len(codes)), codes]
    loss = -np.mean(np.log(np.maximum(true, np.finfo(np.float64).tiny)))
    return {"parameters": parameters, "loss": float(loss)}


def neurons(
    member: Member,
    *,
    weights,
    activation,
    geometry,
    below=(),
    below_activation=(),
    **options,
) -> dict:
    """Build the good-enough spaces of a layer's neurons, on the node's rows.

    Parameters
    ----------
    member : Member
    weights : ndarray of shape (n_inputs + 1, n_neurons)
        Incoming weights, the biases in the last row.
    activation : str
    geometry : dict
        As :meth:`~skgems.spaces.Geometry.as_settings` tells it.
    below : list of ndarray of shape (n_in + 1, n_units), default=()
        Weights of the layers below, which the node's rows go through first.
    below_activation : list of str, default=()
    **options
        Of :func:`~skgems.neurons.build_neuron_spaces`.

    Returns
    -------
    reply : dict
        What :class:`~skgems.neurons.NeuronSpaces` is made of.
    """
    X, _ = member.rows("learning")
    spaces = build_neuron_spaces(
        through(X, below, below_activation),
        weights,
        activation,
        geometry=Geometry.from_settings(geometry),
        **options,
    )
    return vars(spaces)


def size(member: Member, *, W, known, below=(), below_activation=()) -> dict:
    """How large the logits of a linear model are on the node's rows.

    Parameters
    ----------
    member : Member
    W : ndarray of shape (n_features + 1, n_classes)
        The model, the intercepts in the last row.
    known : ndarray of shape (n_classes,), dtype bool
        Classes that it knows.
    below, below_activation
        See :func:`neurons`.

    Returns
    -------
    reply : dict
        Their root mean square, centred over classes, as "size".
    """
    X, _ = member.rows("moments")
    return {"size": on_one_scale(W, known, through(X, below, below_activation))[1]}


def space(
    member: Member,
    *,
    W,
    known,
    labels,
    geometry,
    criterion,
    below=(),
    below_activation=(),
    **options,
) -> dict:
    """Build the good-enough spaces of the node's linear model, but for the level.

    Parameters
    ----------
    member : Member
    W : ndarray of shape (n_features + 1, n_classes)
        The model, the intercepts in the last row.
    known : ndarray of shape (n_classes,), dtype bool
        Classes that the node has seen.
    labels : list
        Of the classes.
    geometry, criterion : dict
        As their ``as_settings`` tell them.
    below, below_activation
        See :func:`neurons`.
    **options
        Of :func:`node_space`.

    Returns
    -------
    reply : dict
        As :meth:`~skgems.spaces.SpaceProfile.as_arrays` tells them.
    """
    X, y = member.rows("judging")
    rows = None
    if not member.moments_judge:
        rows = through(member.rows("moments")[0], below, below_activation)
    return node_space(
        W,
        known,
        through(X, below, below_activation),
        places(y, labels),
        rows=rows,
        geometry=Geometry.from_settings(geometry),
        criterion=Criterion.from_settings(criterion),
        **options,
    ).as_arrays()


def evaluate(
    member: Member, *, W, labels, factors, below=(), below_activation=()
) -> dict:
    """Sum the log-loss of a linear model on the node's rows, at factors on its logits.

    Parameters
    ----------
    member : Member
    W : ndarray of shape (n_features + 1, n_classes)
        The model, the intercepts in the last row.
    labels : list
        Of the classes.
    factors : ndarray of shape (n_factors,)
    below, below_activation
        See :func:`neurons`.

    Returns
    -------
    reply : dict
        Sums over the rows that judge: their weights as "count", the "squares" of their
        logits centred over classes, in the mean over these, and the "losses" at each of
        the factors.
    """
    X, y = member.rows("judging")
    codes = places(y, labels)
    weights = np.ones(len(y))
    if member.weights is not None:
        weights = member.weights[member.judging]
    logits = linear_logits(through(X, below, below_activation), W).astype(np.float64)
    logits -= logits.mean(axis=1, keepdims=True)
    losses = [weights @ log_losses(factor * logits, codes)[0] for factor in factors]
    return {
        "count": float(weights.sum()),
        "squares": float(weights @ np.mean(logits**2, axis=1)),
        "losses": np.array(losses),
    }


def score(
    member: Member,
    *,
    W,
    known,
    labels,
    criterion,
    factor=1.0,
    compared=None,
    below=(),
    below_activation=(),
) -> dict:
    """Score a linear model on the node's rows of classes that it knows.

    Parameters
    ----------
    member : Member
    W : ndarray of shape (n_features + 1, n_classes)
        The model, the intercepts in the last row.
    known : ndarray of shape (n_classes,), dtype bool
        Classes that the node has seen.
    labels : list
        Of the classes.
    criterion : dict
        As :meth:`~skgems.spaces.Criterion.as_settings` tells it.
    factor : float, default=1.0
        On the logits.
    compared : ndarray of shape (n_classes,), dtype bool, default=None
        Classes that are compared; None: all.
    below, below_activation
        See :func:`neurons`.

    Returns
    -------
    reply : dict
        The "score", and how many rows it is of, "n_rows".
    """
    X, y = member.rows("judging")
    codes = places(y, labels)
    rows = np.flatnonzero(known[codes])
    Z = through(X[rows], below, below_activation)
    logits = factor * linear_logits(Z, W)
    if compared is not None:
        logits = np.where(compared, logits, -np.inf)
    found = Criterion.from_settings(criterion).score(logits, codes[rows])
    return {"score": np.array(found), "n_rows": len(rows)}


def through(X, weights, activation):
    """What comes out of layers on rows.

    Parameters
    ----------
    X : {ndarray, CSR matrix} of shape (n_samples, n_features)
    weights : sequence of ndarray of shape (n_in + 1, n_units)
        Of each layer, the biases in the last row.
    activation : sequence of str

    Returns
    -------
    Z : {ndarray, CSR matrix} of shape (n_samples, n_units)
        X, if there is no layer.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.local import through
    >>> through(np.array([[2.0]]), [np.array([[1.0, -1.0], [0.0, 1.0]])], ["relu"])
    array([[2., 0.]])
    """
    for W, name in zip(weights, activation, strict=True):
        X = activate(linear_logits(X, W), name)
    return X


def retrain(
    member: Member,
    *,
    coefs,
    intercepts,
    activation,
    labels,
    epochs,
    seed,
    rate_factor=None,
    center=None,
    scale=None,
    below=(),
    below_activation=(),
) -> dict:
    """Train a network that the server sends by the node's own trainer, on its rows.

    A row of a class that the network has no output for teaches it nothing.

    Parameters
    ----------
    member : Member
    coefs, intercepts : list of ndarray
        Where to start: layer i has the shapes (n_in, n_out) and (n_out,).
    activation : list of str
        Of the hidden layers.
    labels : list
        Of the outputs.
    epochs : int
        Passes over the rows.
    seed : int
        Of the order of the rows.
    rate_factor : float, default=None
        Learning rate, in units of what the node's own training starts at; None leaves
        it to the classifier.
    center, scale : ndarray of shape (n_features,), default=None
        Coordinates of the features that the network is over; None: as they are.
    below : list of ndarray of shape (n_in + 1, n_units), default=()
        Weights of layers below the network, which are not trained.
    below_activation : list of str, default=()

    Returns
    -------
    reply : dict
        The "coefs" and "intercepts" after training.

    Raises
    ------
    FloatingPointError
        If training diverges.
    """
    X, y = member.rows("training")
    columns = places(y, labels)
    known = columns >= 0
    X, columns = (X, columns) if known.all() else (X[known], columns[known])
    layers, left_out = Layers(coefs, intercepts, tuple(activation)), None
    if center is not None:
        coordinates = Coordinates(center, scale)
        X = coordinates.rows(X)
        if issparse(X):  # what is not done to the rows is done to the weights
            left_out = coordinates.left_out()
            layers = left_out.give_back(layers)
    X = through(X, below, below_activation)
    model = member.model
    rate = None if rate_factor is None else rate_factor * model.learning_rate
    layers = retrain_layers(
        model,
        layers,
        X,
        columns,
        epochs=epochs,
        learning_rate=rate,
        random_state=seed,
    )
    _check_finite([*layers.coefs, *layers.intercepts])
    if left_out is not None:
        layers = left_out.take_in(layers)
    return {"coefs": list(layers.coefs), "intercepts": list(layers.intercepts)}


def _check_finite(parameters) -> None:
    if not all(np.isfinite(array).all() for array in parameters):
        raise FloatingPointError(
            "training diverged, its parameters are not finite; try a smaller "
            "learning_rate."
        )


TASKS: Mapping[str, Task] = {
    "train": Task(train, prefer="processes", needs_all=False),
    "retrain": Task(
        retrain, prefer="processes", needs_all=False, recalled_by="classifier"
    ),
    "neurons": Task(neurons, recalled_by="rows"),
    "size": Task(size),
    "space": Task(space, recalled_by="rows"),
    "evaluate": Task(evaluate, needs_all=False),
    "counts": Task(counts),
    "score": Task(score),
}
