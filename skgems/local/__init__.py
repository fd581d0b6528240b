# SPDX-License-Identifier: BSD-3-Clause
"""All that a node does with its own classifier and its own rows."""

from ._below import Below
from ._cache import cached, cached_call, clear_cache
from ._closed_forms import CLOSED_FORMS, closed_form, has_steps
from ._counting import counts
from ._descriptions import Description, describe, indices_of, to_logits
from ._digest import digest
from ._doubts import class_weight_of, heavy_tails
from ._errors import at_node
from ._fitting import Picklable, fit_local, net_seed
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
    "ANSWERS",
    "CLOSED_FORMS",
    "Below",
    "Description",
    "LocalModel",
    "Member",
    "Picklable",
    "TooFewRowsError",
    "at_node",
    "cached",
    "cached_call",
    "class_weight_of",
    "clear_cache",
    "closed_form",
    "cluster_classes",
    "counts",
    "describe",
    "describe_node",
    "digest",
    "evaluate",
    "fit_local",
    "has_steps",
    "heavy_tails",
    "indices_of",
    "join",
    "local_model",
    "moments",
    "net_seed",
    "neurons",
    "node_space",
    "retrain",
    "retrain_layers",
    "score",
    "size",
    "space",
    "to_logits",
    "train",
]
