# SPDX-License-Identifier: BSD-3-Clause
"""Look up of which kind a node's classifier is, once."""

from __future__ import annotations

from ..networks import final_step, is_skorch
from ._model import LocalModel
from ._sklearn import KINDS


def local_model(estimator, *, name: str = "estimator") -> LocalModel:
    """The LocalModel of a classifier of any kind, which is never altered.

    Pipelines, FrozenEstimator and fitted searches are looked into.
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
