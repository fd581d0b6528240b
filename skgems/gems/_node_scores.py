"""How good the aggregate is for each node: the table ``node_scores_``."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..asking import Context, Run
from ..base import BaseAggregator, Columns, is_channel
from ..parties import Summary
from ..tasks import ScoreReply
from ._further import with_objectives
from ._problem import LinearModels
from ._stage import LinearMerge


def node_scores(
    reports: Sequence[ScoreReply],
    merge: LinearMerge,
    *,
    problem: LinearModels,
    losses: list[float] | None,
) -> dict[str, list]:
    """The columns of the table ``node_scores_``; NaN where nothing is known."""
    unknown = [np.nan] * len(reports)
    compared = _compared_scores(reports, [node.has_model for node in problem.nodes])
    scores = {
        "node": problem.names,
        "n_rows": [report.n_rows for report in reports],
        "epsilon": unknown,
        "local": compared,
        "aggregate": [float(report.score) for report in reports],
        "loss": unknown if losses is None else losses,
        "on_own_scale": unknown,
        "radius": unknown,
        "distance": unknown,
    }
    if merge.spaces:
        point = merge.intersection.point
        scores["epsilon"] = [space.epsilon for space in merge.spaces]
        scores["local"] = [profile.score for profile in merge.profiles]
        scores["on_own_scale"] = compared
        scores["radius"] = [space.radius for space in merge.spaces]
        scores["distance"] = [float(space.distance(point)) for space in merge.spaces]
    return scores


def _compared_scores(
    reports: Sequence[ScoreReply], has_model: Sequence[bool]
) -> list[float]:
    """Scores of the models that were sent beside the aggregate; NaN without a model."""
    return [
        float(report.beside) if node_has_model else np.nan
        for report, node_has_model in zip(reports, has_model, strict=True)
    ]


def ask_scores(aggregator: BaseAggregator, channel: object) -> dict[str, list]:
    """Ask all nodes for their lines in ``node_scores_``, and set these."""
    requests = aggregator._score_requests
    if requests is None or not is_channel(channel):
        raise ValueError(
            "Nodes are asked for scores only after a fit over a channel, and "
            "before fine-tuning. A fit on rows has the scores in node_scores_."
        )
    front = None if aggregator._front is None else aggregator._front.as_content()
    run = Run(channel, context=replace(Context.from_channel(channel), front=front))
    run.reports = True
    reports = [reply for _, reply in run.ask(requests)]
    has_model = [
        not isinstance(estimator, Summary) or estimator.network.has_classifier
        for estimator in aggregator.estimators_
    ]
    # The model beside the aggregate is the node's own, or the one that epsilon
    # bounds.
    compared = "local" if aggregator.spaces_ is None else "on_own_scale"
    aggregator.node_scores_ = Columns(
        aggregator.node_scores_
        | {
            "n_rows": [report.n_rows for report in reports],
            "aggregate": [float(report.score) for report in reports],
            compared: _compared_scores(reports, has_model),
        }
    )
    aggregator.history_ = aggregator.history_ + with_objectives(run.history, None)
    return aggregator.node_scores_
