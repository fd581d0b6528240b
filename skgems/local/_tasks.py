# SPDX-License-Identifier: BSD-3-Clause
"""What a node can be asked for; each task is a function of a member and arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from scipy.sparse import issparse

from ..networks import Coordinates, Layers, activate, linear_logits
from ..neurons import build_neuron_spaces
from ..spaces import Geometry
from ._descriptions import places
from ._member import Member
from ._retraining import retrain_layers


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
    recalled : bool
        Whether a channel may keep replies and give them again to the same request.
    """

    function: Callable[..., Mapping]
    prefer: str = "threads"
    needs_all: bool = True
    recalled: bool = False


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
    "retrain": Task(retrain, prefer="processes", needs_all=False, recalled=True),
    "neurons": Task(neurons, recalled=True),
}
