# SPDX-License-Identifier: BSD-3-Clause
"""All that a node does with its own classifier and its own rows."""

from ._cache import cached, cached_call, clear_cache, digest, recall, remember
from ._chunks import ChunkedMember, moments_of_chunks
from ._closed_forms import (
    CLOSED_FORMS,
    as_class_weight,
    closed_form,
    has_steps,
    weights_of,
)
from ._descriptions import Description, describe, indices_of, to_logits
from ._fitting import Picklable, at_node, fit_local, net_seed
from ._member import Member, TooFewRowsError
from ._model import LocalModel, node_space, retrain_layers
from ._moments import SAMPLE_ROWS, cluster_classes, moments
from ._own_model import class_weight_of, heavy_tails
from ._sklearn import local_model
from ._tasks import (
    ANSWERS,
    counts,
    describe_node,
    evaluate,
    join,
    neurons,
    retrain,
    score,
    size,
    space,
    train,
)

__all__ = [
    "Member",
]
