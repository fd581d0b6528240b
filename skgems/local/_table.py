# SPDX-License-Identifier: BSD-3-Clause
"""All that a node can be asked for, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ._counting import counts
from ._moments import moments
from ._summarizing import summarize
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


TASKS: Mapping[str, Task] = {
    "describe": Task(describe_node),
    "summarize": Task(summarize),
    "train": Task(train, prefer="processes", needs_all=False),
    "retrain": Task(
        retrain, prefer="processes", needs_all=False, recalled_by="classifier"
    ),
    "moments": Task(moments, recalled_by="classifier"),
    "neurons": Task(neurons, recalled_by="rows"),
    "size": Task(size),
    "space": Task(space, recalled_by="rows"),
    "evaluate": Task(evaluate, needs_all=False),
    "counts": Task(counts),
    "score": Task(score),
}
