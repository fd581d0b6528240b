# SPDX-License-Identifier: BSD-3-Clause
"""All that a node does with its own classifier and its own rows."""

from ._cache import forget, recall, remembered
from ._counting import counts
from ._descriptions import Description, describe, places, to_logits
from ._digest import digest
from ._errors import at_node
from ._fitting import Parcel, fit_local, in_parcel, net_seed
from ._member import Member
from ._model import LocalModel
from ._resolve import local_model
from ._retraining import retrain_layers
from ._space import node_space
from ._tasks import (
    TASKS,
    Task,
    evaluate,
    neurons,
    retrain,
    score,
    size,
    space,
    through,
    train,
)

__all__ = [
    "TASKS",
    "Description",
    "LocalModel",
    "Member",
    "Parcel",
    "Task",
    "at_node",
    "counts",
    "describe",
    "digest",
    "evaluate",
    "fit_local",
    "forget",
    "in_parcel",
    "local_model",
    "net_seed",
    "neurons",
    "node_space",
    "places",
    "recall",
    "remembered",
    "retrain",
    "retrain_layers",
    "score",
    "size",
    "space",
    "through",
    "to_logits",
    "train",
]
