# SPDX-License-Identifier: BSD-3-Clause
"""The temperature of a model, asked of the nodes."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping

import numpy as np

from ..messages import Message
from ..tuning import TemperatureSearch

__all__ = ["inverse_temperature"]


def inverse_temperature(
    request: Callable[[np.ndarray], Message | Mapping[str, Message]],
) -> Generator:
    """Plan that finds the factor on logits under which nodes' labels are likeliest.

    ``request``: from an array of factors to a message of "evaluate". Replies are
    summed. The result is None if no node has a row. See `TemperatureSearch`.
    """

    def ask(factors):
        replies = yield request(factors)
        contents = [reply.content for _, reply in replies]
        count, squares, losses = (
            sum(content[name] for content in contents)
            for name in ("count", "squares", "losses")
        )
        if not count:
            return 0.0, losses, 0
        return np.sqrt(squares / count), losses / count, count

    size, _, count = yield from ask(np.empty(0))
    if count == 0:
        return None
    if size == 0:
        return 1.0
    search = TemperatureSearch(size, count)
    while not search.done:
        _, losses, _ = yield from ask(search.factors)
        search = search.after(losses)
    return search.best
