"""Forests of the two halves of all nodes' rows, which grow in the same messages.

Each half has a forest of its own, and is later labeled by that of the other half.
"""

from collections.abc import Generator, Iterable, Mapping, Sequence

import numpy as np

from ..messages import Message
from ..tasks import HALF_NAMES, GrowHalvesReply, GrowReply
from ..trees import Growth
from ._fitted_trees import shares_of_classes
from ._pooled import PooledAggregator
from ._trees_fit import ForestMethod
from ._trees_method import HistogramSum


def forests_of_halves(
    aggregator: PooledAggregator,
    *,
    n_features: int,
    classes: np.ndarray,
    names: Sequence[str],
    front: Mapping,
) -> Generator:
    """Plan of the forests of both halves, as nodes judge them, by name of the half.

    Parameters
    ----------
    aggregator : PooledAggregator
        Its `pooled` is a forest or a tree.
    n_features : int
        Columns behind the front.
    classes : ndarray of shape (n_classes,)
        Sorted.
    names : sequence of str
        The nodes that are asked, each of which has to reply.
    front : mapping
        The fitted front, as a message has it.
    """
    fit = aggregator._method()
    growths = {half: fit.growth(n_features, classes) for half in HALF_NAMES}
    while open_growths := {h: g for h, g in growths.items() if g.is_open}:
        request = _request(fit, open_growths, classes=classes, front=front)
        replies = yield dict.fromkeys(names, request)
        _take(fit, open_growths, replies, names=names)
    return {half: _content(growth, classes) for half, growth in growths.items()}


def _take(
    fit: ForestMethod,
    growths: Mapping[str, Growth],
    replies: Iterable[tuple[str, GrowHalvesReply]],
    *,
    names: Sequence[str],
) -> None:
    """Have the trees of halves grow by what the nodes of these names replied."""
    sums = {half: HistogramSum(fit, growth) for half, growth in growths.items()}
    missing = set(names)
    for name, reply in replies:
        missing.discard(name)
        for half, histograms in sums.items():
            counts = getattr(reply, half)
            histograms.add(GrowReply(counts=counts, min_rows=reply.min_rows))
    if missing:
        raise ValueError(
            f"Nodes {sorted(missing)[:5]} sent no counts for this candidate, so its "
            "trees cannot grow."
        )
    for half, growth in growths.items():
        growth.take(sums[half].total)


def _request(
    fit: ForestMethod,
    growths: Mapping[str, Growth],
    *,
    classes: np.ndarray,
    front: Mapping,
) -> Message:
    """The request for the histograms that the trees of some halves want to grow on."""
    contents = {
        half: fit.terms.request(growth, classes).content
        for half, growth in growths.items()
    }
    return Message.of("grow_halves", front=front, **contents)


def _content(growth: Growth, classes: np.ndarray) -> dict[str, object]:
    """A forest that has grown, as the model that nodes judge."""
    return {
        "labels": classes.tolist(),
        **growth.forest.as_content(),
        "values": shares_of_classes(growth.counts * growth.class_weights_in_use),
    }
