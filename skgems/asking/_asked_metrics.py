"""How good a fitted aggregate is at nodes behind a channel, which are asked for it."""

from dataclasses import replace

import numpy as np

from ..base import BaseAggregator, is_channel
from ..evaluation import (
    Evaluation,
    ToldOfClass,
    ToldOfNode,
    evaluation_of,
    judged_classes,
)
from ..messages import Message, Reply
from ..networks import LayersBelow, final_step, read_network
from ._asked_nodes import Context
from ._run import Run


def asked_over_channel(
    aggregator: BaseAggregator, *, threshold: float | None, has_own: bool
) -> tuple[Evaluation, list[dict]]:
    """Ask the nodes behind a channel; also return the history of the message.

    ``has_own`` says whether the nodes' own models take the rows that judge.
    """
    channel = aggregator.estimators
    if not is_channel(channel):
        raise ValueError(
            "There are no rows to judge the aggregate by. Pass X, y and nodes, or fit "
            "over a channel, whose nodes can be asked."
        )
    agreement = channel.agreement
    if agreement is not None and not agreement.tasks.get("metrics"):
        raise ValueError(
            "The agreement with the nodes does not name the task 'metrics', so no node "
            "would answer. Make a new agreement, or pass rows (X, y and nodes)."
        )
    content = aggregator._model_for_nodes()
    if threshold is not None:
        content["threshold"] = float(threshold)
    front = getattr(aggregator, "_front", None)
    run = Run(
        channel,
        context=replace(
            Context.from_channel(channel),
            front=None if front is None else front.as_content(),
        ),
    )
    replies = dict(run.ask(Message.of("metrics", **content)))
    if not replies:
        raise ValueError(
            "No node has said how good the aggregate is. The warnings before say why."
        )
    evaluation = evaluation_of(
        [_told_in(name, reply, has_own=has_own) for name, reply in replies.items()],
        classes=aggregator.classes_.tolist(),
        threshold=threshold,
    )
    return evaluation, run.history


def _told_in(name: str, reply: Reply, *, has_own: bool) -> ToldOfNode:
    """Return what a reply tells of the aggregate, and of the node's own model."""
    n_rows = np.asarray(reply.n_rows, dtype=float)
    judged = judged_classes(len(n_rows))
    told = []
    own = []
    for place, k in enumerate(judged):
        counts = {
            "n_positive": float(n_rows[k]),
            "n_negative": float(n_rows.sum() - n_rows[k]),
        }
        told.append(
            ToldOfClass(
                **counts,
                auc=float(reply.auc[place]),
                true_positives=float(reply.true_positives[place]),
                false_positives=float(reply.false_positives[place]),
                slope=float(reply.slope[place]),
                intercept=float(reply.intercept[place]),
                positives=reply.positives[place].astype(float),
                negatives=reply.negatives[place].astype(float),
            )
        )
        if has_own and reply.own is not None:
            numbers = {name: float(reply.own[name][place]) for name in reply.own}
            own.append(ToldOfClass(**counts, **numbers))
    return ToldOfNode(
        name=name,
        n_rows=n_rows.tolist(),
        classes=told,
        own=own or None,
        min_rows=reply.min_rows,
    )


def content_of_layers(aggregator: BaseAggregator) -> dict:
    """Return the fields of a request that hold a model of layers.

    TypeError if it has none, such as a vote of any classifiers.
    """
    classifier = final_step(aggregator.to_estimator())
    try:
        network = read_network(classifier, name="the aggregate")
    except TypeError:
        raise TypeError(
            f"{type(aggregator).__name__} has a {type(classifier).__name__}, which no "
            "message can hold, so that nodes cannot judge it. Pass rows to judge it by "
            "(X, y and nodes)."
        ) from None
    layers = network.aligned(aggregator.classes_)
    return {
        "model": {"labels": aggregator.classes_.tolist(), "W": layers.last},
        "hidden": LayersBelow.from_layers(layers).as_content(),
    }
