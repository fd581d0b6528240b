# SPDX-License-Identifier: BSD-3-Clause
"""The function that answers each task of the table in `messages`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ._counting import counts
from ._moments import moments
from ._summarizing import join
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

# ``function(member, **content)`` returns what is replied.
ANSWERS: Mapping[str, Callable[..., Mapping]] = {
    "describe": describe_node,
    "counts": counts,
    "moments": moments,
    "size": size,
    "space": space,
    "neurons": neurons,
    "evaluate": evaluate,
    "score": score,
    "train": train,
    "retrain": retrain,
    "join": join,
}
