# SPDX-License-Identifier: BSD-3-Clause
"""Retrain the upper layers of a node's network by the node's own trainer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sklearn.neural_network import MLPClassifier

from ..networks import to_mlp_classifier
from ..networks._classes import expand_binary
from ..networks._kinds import final_step, is_skorch
from ._training import get_parameters, train

# How the node trains, as far as MLPClassifier says it.
_SETTINGS = (
    "solver",
    "alpha",
    "batch_size",
    "learning_rate",
    "learning_rate_init",
    "power_t",
    "shuffle",
    "momentum",
    "nesterovs_momentum",
    "beta_1",
    "beta_2",
    "epsilon",
)

Layers = tuple[Sequence[np.ndarray], Sequence[np.ndarray]]


def retrain_upper(
    estimator,
    coefs: Sequence[np.ndarray],
    intercepts: Sequence[np.ndarray],
    activation: Sequence[str],
    Z: np.ndarray,
    y: np.ndarray,
    *,
    epochs: int,
    random_state=None,
) -> Layers:
    """Train the upper layers of a network on what enters them.

    Parameters
    ----------
    estimator : fitted classifier
        The node's own, not altered: a skorch net lends its loss, optimizer, batch
        size, callbacks and device, MLPClassifier its solver ("lbfgs", which cannot
        train by epochs, is replaced by "adam") and rates. What has no trainer is
        trained as ``MLPClassifier()`` would be.
    coefs, intercepts : sequence of ndarray
        Upper layers to start from, one output column per class at the end.
    activation : sequence of str
        Activations of the hidden ones among them.
    Z : {ndarray, CSR matrix} of shape (n_samples, n_inputs)
        What enters the first of the layers.
    y : ndarray of shape (n_samples,), int
        Output column of each row's label.
    epochs : int
        Passes over the rows.
    random_state : int, RandomState instance or None, default=None
        Source of the order of rows.

    Returns
    -------
    coefs, intercepts : list of ndarray
        Of the same shapes.
    """
    coefs, intercepts = list(coefs), list(intercepts)
    n_outputs = coefs[-1].shape[1]
    if not epochs or not len(y) or n_outputs < 2:
        return coefs, intercepts
    own = final_step(estimator)
    if is_skorch(own):
        from ._retraining_skorch import upper_net

        start = upper_net(own, coefs, intercepts, activation)
        fresh = train(start, Z, y, epochs=epochs, random_state=random_state)
        arrays = [array.astype(np.float64) for array in get_parameters(fresh)]
        new_coefs, new_intercepts = [a.T for a in arrays[::2]], arrays[1::2]
    else:
        start = to_mlp_classifier(coefs, intercepts, activation, np.arange(n_outputs))
        if isinstance(own, MLPClassifier):
            start.set_params(**{name: getattr(own, name) for name in _SETTINGS})
            if own.solver == "lbfgs":
                start.set_params(solver="adam")
        fresh = train(start, Z, y, epochs=epochs, random_state=random_state)
        new_coefs, new_intercepts = list(fresh.coefs_), list(fresh.intercepts_)
    if new_coefs[-1].shape[1] == 1:
        # One output for two classes: the difference of their logits.
        new_coefs[-1], new_intercepts[-1] = expand_binary(
            new_coefs[-1], new_intercepts[-1], n_outputs
        )
    return new_coefs, new_intercepts
