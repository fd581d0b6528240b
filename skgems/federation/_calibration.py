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
    """Find the factor on a model's logits under which nodes' labels are likeliest.

    Each message is summed over the nodes that answer it.

    Parameters
    ----------
    request : callable
        From an array of factors to the request of a task
        :func:`~skgems.local.evaluate`.

    Returns
    -------
    plan : generator
        Its result is the factor; None where no node has a row.

    See Also
    --------
    skgems.tuning.TemperatureSearch : Which factors are asked for.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.dummy import DummyClassifier
    >>> from skgems.federation import InProcess, Message, inverse_temperature, run
    >>> from skgems.local import Member
    >>> X, y = np.array([[-1.0], [1.0], [1.0], [1.0]]), np.array([0, 0, 1, 1])
    >>> channel = InProcess([Member.of("a", DummyClassifier().fit(X, y), X, y)])
    >>> def request(factors):
    ...     W = np.array([[0.0, 9.0], [0.0, 0.0]])
    ...     return Message.of(
    ...         "evaluate", W=W, labels=[0, 1], columns=np.arange(2), factors=factors
    ...     )
    >>> factor = run(inverse_temperature(request), channel)
    >>> float((1 / (1 + np.exp(-9 * factor))).round(2))  # three of four are right
    0.74
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
