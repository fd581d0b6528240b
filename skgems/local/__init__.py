# SPDX-License-Identifier: BSD-3-Clause
"""All that a node does with its own classifier and its own rows."""

from ._below import Below
from ._cache import forget, recall, remembered
from ._closed_forms import CLOSED_FORMS, closed_form, has_steps
from ._counting import counts
from ._descriptions import Description, describe, places, to_logits
from ._digest import digest
from ._doubts import class_weight_of, heavy_tails
from ._errors import at_node
from ._fitting import Parcel, fit_local, in_parcel, net_seed
from ._member import Member, TooFewRowsError
from ._model import LocalModel
from ._moments import cluster_classes, moments
from ._resolve import local_model
from ._retraining import retrain_layers
from ._space import node_space
from ._summarizing import join
from ._table import ANSWERS
from ._tasks import (
    describe_node,
    evaluate,
    neurons,
    retrain,
    score,
    size,
    space,
    train,
)

__all__ = [
    "CLOSED_FORMS",
    "ANSWERS",
    "Below",
    "Description",
    "LocalModel",
    "Member",
    "Parcel",
    "TooFewRowsError",
    "at_node",
    "class_weight_of",
    "closed_form",
    "cluster_classes",
    "counts",
    "describe",
    "describe_node",
    "digest",
    "evaluate",
    "fit_local",
    "forget",
    "has_steps",
    "heavy_tails",
    "in_parcel",
    "join",
    "local_model",
    "net_seed",
    "moments",
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
    "to_logits",
    "train",
]
