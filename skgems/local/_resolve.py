# SPDX-License-Identifier: BSD-3-Clause
"""Look up of which kind a node's classifier is, once."""

from __future__ import annotations

from ..networks import final_step, is_skorch
from ._model import LocalModel
from ._sklearn import KINDS


def local_model(estimator, *, name: str = "estimator") -> LocalModel:
    """A classifier as the object through which all else reads, asks and trains it.

    Parameters
    ----------
    estimator : classifier
        Of any kind, also in a pipeline, a FrozenEstimator or a fitted search. Never
        altered.
    name : str, default="estimator"
        Name of the node, for messages.

    Returns
    -------
    model : LocalModel

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import SGDClassifier
    >>> from skgems.local import local_model
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = SGDClassifier(loss="log_loss", random_state=0).fit(X, y)
    >>> model = local_model(clf)
    >>> further = model.train(X, y, epochs=5, learning_rate=1e-3, random_state=0)
    >>> further.own is clf, [array.shape for array in further.parameters()]
    (False, [(3, 4), (3,)])
    """
    own = final_step(estimator)
    if is_skorch(own):
        # Imports torch, which a skorch net has brought.
        from ._skorch import SkorchModel

        return SkorchModel(estimator, name)
    for kind, model in KINDS.items():
        if isinstance(own, kind):
            return model(estimator, name)
    return LocalModel(estimator, name)
