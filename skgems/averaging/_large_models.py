"""Name the nodes whose parameters decide an average alone."""

from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ..asking import NodesDisagreeWarning, array_sizes, times_larger
from ..base import warn_user
from ..messages import Reply, listed


class ModelSizes:
    """Sizes of the models of one fit: those that are averaged together are compared."""

    def __init__(self) -> None:
        self._together: dict[str, np.ndarray] = {}  # sizes by node, not yet compared
        self._times: dict[str, float] = {}  # the most by which each was ever larger

    def note(self, name: str, parameters: Sequence[np.ndarray]) -> None:
        """Note the sizes of the arrays of a node's model."""
        self._together[name] = array_sizes(parameters)

    def compare(self) -> None:
        """Compare the models that were noted since this was last done."""
        if not self._together:
            return
        times = times_larger(np.stack(list(self._together.values())))
        for name, times_of_node in zip(self._together, times.tolist(), strict=True):
            if times_of_node > self._times.get(name, 0.0):
                self._times[name] = times_of_node
        self._together = {}

    def noting_replies(
        self, plan: Generator[Any, Any, Any]
    ) -> Generator[Any, Any, Any]:
        """Run a plan unchanged, noting the sizes of the replies in each round."""
        try:
            request = next(plan)
            while True:
                replies = yield request
                request = plan.send(self._noted(replies))
                self.compare()
        except StopIteration as stop:
            self.compare()
            return stop.value

    def _noted(
        self, replies: Iterable[tuple[str, Reply]]
    ) -> Iterator[tuple[str, Reply]]:
        for name, reply in replies:
            self.note(name, reply.parameters)
            yield name, reply
            del reply  # before the next one comes

    def warn(self) -> None:
        """Warn of all nodes whose models were far larger than those of the others."""
        self.compare()
        if not self._times:
            return
        largest = sorted(self._times, key=lambda name: (-self._times[name], name))
        names = [f"{name!r} ({self._times[name]:.3g} times)" for name in largest]
        warn_user(
            "The models of these nodes have parameters far larger than those of the "
            f"median node: {listed(names)}. The average is nearly theirs alone. Check "
            "that these nodes use the same units of features, the same kind of model "
            "and the same training (penalty, learning rate, number of steps) as the "
            "others. If nothing explains the difference, leave the nodes out.",
            NodesDisagreeWarning,
        )
