"""Candidates over a channel: nodes tell sums of two halves, and judge by the other."""

from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from time import perf_counter
from uuid import uuid4

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from ..base import BaseAggregator, noted_warnings, silenced
from ..federation import (
    HALVES,
    Agreement,
    Message,
    RowsAlone,
    Run,
    Summary,
    as_channel,
    first_request,
    front_plan,
    most_judging,
    most_loss,
    nodes_of_many_rows,
)
from ..networks import final_step
from ..pooled import PooledTransformer
from ..steps import Front
from ._choice import Choice
from ._judging import Candidate, chosen, entry_of, loss_and_factor


def choose_over(
    channel,
    candidates: Callable[[int], list[Candidate]],
    *,
    drop_identifiers: bool = False,
) -> tuple[BaseAggregator, Choice, list]:
    """The best of ``candidates(n_rows)``, not fitted; the choice; the history.

    ``drop_identifiers``: whether their fronts are given no columns that identify rows.
    """
    # One message for each step of fronts that looks at rows, one of half-sums, one that
    # judges; that of the model itself is left to its fit, over the same channel.
    tried = candidates(0)
    fronts = _Fronts(tried, drop_identifiers=drop_identifiers)
    channel = as_channel(channel)
    if channel.agreement is None:
        channel.agreement = _agreement(tried, fronts, min_rows=channel.min_rows)
    run = Run(channel, agreement=channel.agreement)
    with noted_warnings() as doubts:
        run(fronts.plan())
    sums, refusals = run(_ask_halves(tried, fronts))
    n_rows = {s.name: s.n_rows for own in sums for s in own[0]}
    later, table, models = candidates(2 * sum(n_rows.values())), [], {}
    pairs = zip(tried, later, strict=True)
    tried = [replace(new, steps=own.steps) for own, new in pairs]
    for k, (candidate, pair) in enumerate(zip(tried, sums, strict=True)):
        entry, start = entry_of(candidate), perf_counter()
        entry["bytes"] = sum(own.n_bytes for half in pair for own in half)
        table.append(entry)
        try:
            _check_all_sent(set(n_rows), pair[0], refusals.get(str(k), {}))
            with silenced():
                models[k] = fronts.with_front(tried[k].steps) | {
                    half: _form(candidate.aggregator, own)
                    for half, own in zip(HALVES, pair, strict=True)
                }
        except (ValueError, TypeError) as failure:
            entry["error"] = str(failure)
        entry["seconds"] = perf_counter() - start
    replies = run(_ask_to_judge(list(models.values())))
    n_classes = len({label for pair in models.values() for label in _labels(pair)})
    for name, reply in replies.items():
        _check_judgement(name, reply, n_told=_n_told(name, sums), n_classes=n_classes)
    judged = sum(reply["n_rows"] for reply in replies.values())
    right = sum(reply["right"] for reply in replies.values())
    losses = sum(reply["losses"] for reply in replies.values())
    if models and not judged:
        raise ValueError("No node has rows enough (min_rows) to judge any candidate.")
    for place, k in enumerate(models):
        table[k]["accuracy"] = right[place, place] / judged
        table[k] |= loss_and_factor(tried[k], losses[place] / judged)
    choice = chosen(table, np.array(list(models)), right, judged)
    doubts = [*choice.doubts, *doubts, *_doubts_about_rows(replies)]
    choice = replace(choice, doubts=tuple(doubts))
    taken = next(own for own in tried if own.name == choice.name)
    # Nodes that missed the front cannot check it, and would refuse.
    rows_alone = RowsAlone(channel, names=run.names)
    aggregator = clone(taken.aggregator).set_params(estimators=rows_alone)
    if taken.steps:
        aggregator.set_params(front=PooledTransformer.of(fronts.of(taken.steps)))
    return aggregator, choice, run.history


def _check_all_sent(
    names: set[str], summaries: list[Summary], reasons: Mapping[str, str]
) -> None:
    """Raise ValueError with the reason of a node whose sums a candidate lacks."""
    lacking = sorted(names - {summary.name for summary in summaries})
    if not lacking:
        return
    reason = reasons.get(lacking[0], "it gave no reason")
    raise ValueError(
        f"Node {lacking[0]!r} sent no sums for it: {reason}. Without sums are the "
        f"nodes {lacking[:5]}."
    )


class _Fronts:
    """What candidates have before them, fitted at once where they begin alike."""

    def __init__(self, tried: list[Candidate], *, drop_identifiers: bool) -> None:
        self.steps = list(dict.fromkeys(own.steps for own in tried if own.steps))
        self.starts = list(dict.fromkeys(map(_looking, self.steps)))
        self.drop_identifiers = drop_identifiers
        self.whole = Front.beside(
            [make_pipeline(*own) for own in self.starts],
            drop_identifiers=drop_identifiers,
        )

    def plan(self) -> Generator:
        if self.steps:
            self.whole = (yield from front_plan(self.whole)).front

    @property
    def agreed(self) -> list[dict]:
        """What nodes accept: the front of all, and that of each candidate."""
        alone = [
            Front(make_pipeline(*steps), drop_identifiers=self.drop_identifiers)
            for steps in self.steps
        ]
        return [front.agreed for front in (self.whole, *alone)]

    def of(self, steps: tuple) -> Front:
        start = self.starts.index(_looking(steps))
        return self.whole.branch(start, make_pipeline(*steps))

    def with_front(self, steps: tuple) -> dict:
        return {"front": self.of(steps).as_content()} if steps else {}


def _looking(steps: tuple) -> tuple:
    looks = [k for k, step in enumerate(steps) if Front(step).asks]
    return steps[: max(looks, default=0) + 1]


def _agreement(tried: list[Candidate], fronts: _Fronts, *, min_rows: int) -> Agreement:
    methods = [
        {
            "method": type(own).__name__,
            "settings": own._settings_at_nodes(),
            "further_settings": own._further_settings(),
        }
        for own in (candidate.aggregator for candidate in tried)
    ]
    # The last two are of the model that is taken.
    tasks = dict.fromkeys(("halves", "judge", "join", "score"), 1)
    if fronts.steps:
        tasks["front"] = fronts.whole.most_messages
    return Agreement(
        exchange=uuid4().hex,
        method="combine",
        settings={"methods": methods, "fronts": fronts.agreed},
        tasks=tasks,
        min_rows=min_rows,
    )


def _ask_halves(tried, fronts) -> Generator:
    """Plan for the summaries of either half of each candidate, and of nodes' reasons.

    The reasons why nodes sent none are by number of the candidate and name of the node.
    """
    asked = {}
    for k, own in enumerate(tried):
        request = first_request(own.aggregator, own.aggregator._first_requests())
        asked[str(k)] = request.content | fronts.with_front(own.steps)
    found = [([], []) for _ in tried]
    refusals: dict[str, dict[str, str]] = {}
    replies = yield Message.of("halves", asked=asked)
    for node, reply in replies:
        for number, reason in reply.content["refused"].items():
            refusals.setdefault(number, {})[node] = reason
        for number, pair in reply.content["joins"].items():
            for summaries, name in zip(found[int(number)], HALVES, strict=True):
                summaries.append(Summary(Message.of("join", **pair[name])))
    return found, refusals


def _ask_to_judge(models: list[dict]) -> Generator:
    """Plan of what each node judges, by its name: rows, how many are right, losses."""
    if not models:
        return {}
    numbered = {str(k): own for k, own in enumerate(models)}
    replies = yield Message.of("judge", models=numbered)
    return {name: reply.content for name, reply in replies}


def _labels(pair: Mapping) -> list:
    """Labels of the classes that the models of two halves know."""
    return [label for half in HALVES for label in pair[half]["labels"]]


def _n_told(name: str, sums: list) -> int:
    """Most rows of a node that the two summaries for a candidate are made of."""
    by_candidate = [
        sum(s.n_rows for half in pair for s in half if s.name == name) for pair in sums
    ]
    return max(by_candidate, default=0)


def _check_judgement(name: str, reply: Mapping, *, n_told: int, n_classes: int) -> None:
    """Raise ValueError for more rows, or larger losses, than the node's rows allow."""
    n_rows, min_rows = reply["n_rows"], reply["min_rows"]
    most = most_judging(n_told, min_rows, n_classes)
    if n_rows > most:
        raise ValueError(
            f"Node {name!r} has judged the candidates by {n_rows} rows, but the sums "
            f"that it sent before are of {n_told} rows: by min_rows={min_rows} it can "
            f"have {most} at most. Its judgement is not used, as it would outweigh "
            "those of other nodes: see what this node runs, or leave it out."
        )
    largest = np.max(reply["losses"], initial=0.0, where=~np.isnan(reply["losses"]))
    if largest > most_loss(n_rows, min_rows):
        raise ValueError(
            f"Node {name!r} tells a log-loss of {largest:g} for {n_rows} rows, which "
            f"can have {most_loss(n_rows, min_rows):g} at most. Its judgement is not "
            "used: see what this node runs, or leave it out."
        )


def _doubts_about_rows(replies: Mapping[str, Mapping]) -> list[str]:
    """Nodes that decide alone which candidate is taken."""
    names = list(replies)
    n_rows = np.array([replies[name]["n_rows"] for name in names], dtype=np.float64)
    return [
        f"node {names[k]!r} has {n_rows[k]:.0f} of the {n_rows.sum():.0f} rows that "
        "judged, so that it decides nearly alone which candidate is taken"
        for k in nodes_of_many_rows(n_rows)
    ]


def _form(aggregator: BaseAggregator, summaries: list[Summary]) -> dict:
    fitted = clone(aggregator).set_params(estimators=summaries).fit()
    own = final_step(fitted.to_estimator())
    found = {"labels": own.classes_.tolist()}
    if hasattr(own, "rotations_"):
        pairs = list(zip(own.rotations_, own.scalings_, strict=True))
        sizes = np.array([np.sum(np.log(scaling)) for _, scaling in pairs])
        factors = np.stack([rotation / np.sqrt(scaling) for rotation, scaling in pairs])
        found |= {"means": np.asarray(own.means_), "factors": factors}
        return found | {"offsets": np.log(own.priors_) - 0.5 * sizes}
    W = np.vstack([own.coef_.T, own.intercept_])
    return found | {"W": np.hstack([0.0 * W, W]) if W.shape[1] == 1 else W}
