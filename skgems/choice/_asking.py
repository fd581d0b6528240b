"""Candidates over a channel: nodes tell sums of two halves, and judge by the other.

A forest is no function of sums that one message can tell. Its trees grow between the
message about sums and the one that judges, for both halves at once.
"""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from uuid import uuid4

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PowerTransformer

from ..asking import RowsAlone, Run, as_channel, front_plan
from ..base import BaseAggregator, noted_warnings
from ..disclosure import Disclosure, disclosure_of_both
from ..messages import Agreement, Message, Terms
from ..networks import final_step
from ..parties import Summary
from ..pooled import PooledTransformer, forests_of_halves, quadratic_content
from ..steps import TAKES_DENSE_ROWS, Front
from ..tasks import HALF_NAMES, JudgeReply, most_judging, most_loss
from ._choice import CLASS_SHARES, Candidate, Choice, Trials
from ._scoring import (
    ACCURACY,
    LOG_LOSS,
    ClassShares,
    Comparison,
    by_counts,
    compare_mean_losses,
    resolved,
)

# Share of the rows at nodes that send no sums for a candidate, at most, for it to be
# made without them. Of fewer rows fewer columns may be told.
_MOST_LACKING = 0.2


def choose_over(
    channel,
    candidates: Callable[[int], list[Candidate]],
    *,
    shares: Candidate | None = None,
    drop_identifiers: bool = False,
    scoring: str = ACCURACY,
    disclosure: Disclosure | str | None = "auto",
) -> tuple[BaseAggregator, Choice, list]:
    """The best of ``candidates(n_rows)``, not fitted; the choice; the history.

    ``shares`` predicts the class shares, and is taken where every candidate is worse;
    its messages are those of a candidate. ``drop_identifiers``: whether fronts are
    given no columns that identify rows.

    Nodes get one message for each step of fronts that looks at rows, one about sums of
    halves, one for each level of trees, and one to judge. The model itself is left to
    its fit over the same channel. Where a node answers under a rule of disclosure, it
    is fitted to the sums of both halves: those of all rows would be told beside them.
    """
    # Which candidates there are depends on how many rows nodes have, which only their
    # sums tell; names and transformers do not.
    tried = candidates(0)
    fronts = _Fronts(tried, drop_identifiers=drop_identifiers)
    of_sparse_rows = [candidate for candidate in tried if candidate.takes_sparse_rows]
    fronts_of_sparse = _Fronts(of_sparse_rows, drop_identifiers=drop_identifiers)
    channel = as_channel(channel)
    if channel.agreement is None:
        channel.agreement = _agreement(
            tried,
            [some for some in (fronts, fronts_of_sparse) if some.steps],
            disclosure=disclosure_of_both(disclosure, channel.disclosure),
        )
    run = Run(channel)
    with noted_warnings() as warning_texts:
        if not _can_fit(fronts, run=run, may_be_sparse=len(of_sparse_rows) > 0):
            tried = of_sparse_rows
            fronts = fronts_of_sparse
            run(fronts.plan())
    halves = run(_halves_plan(tried, fronts))
    by_name = {candidate.name: candidate for candidate in candidates(halves.n_rows)}
    trials = Trials(
        [replace(by_name[before.name], steps=before.steps) for before in tried]
    )
    models = _models_of_halves(trials, halves, fronts, run=run)
    judgments = run(_judging_plan(list(models.values()), halves))
    choice = _choice_by(
        judgments,
        trials,
        judged=list(models),
        scoring=resolved(scoring, halves.class_sizes().sum(axis=0)),
        shares=ClassShares.from_counts(halves.class_sizes()),
        can_take_shares=shares is not None,
    )
    best, k = _chosen(choice, trials, shares=shares)
    choice = replace(
        choice,
        doubts=(*choice.doubts, *_doubts_about_lacking(halves, k), *warning_texts),
    )
    rows_alone = RowsAlone(channel, names=run.nodes.names)
    aggregator = _unfitted(best, k, halves=halves, fronts=fronts, rows_alone=rows_alone)
    return aggregator, choice, run.history


def _chosen(
    choice: Choice, trials: Trials, *, shares: Candidate | None
) -> tuple[Candidate | None, int]:
    """Return the candidate that was chosen, and the number of that with its sums."""
    if choice.name == CLASS_SHARES:
        return shares, 0
    k = next(k for k, c in enumerate(trials.candidates) if c.name == choice.name)
    return trials.candidates[k], k


def _unfitted(
    best: Candidate,
    k: int,
    *,
    halves: "_SumsOfHalves",
    fronts: "_Fronts",
    rows_alone: RowsAlone,
) -> BaseAggregator:
    """Return the aggregator of a candidate, whose sums are those of number k."""
    # Nodes that missed the front cannot check it, and would refuse.
    aggregator = clone(best.aggregator).set_params(estimators=rows_alone)
    if best.steps:
        aggregator.set_params(front=PooledTransformer.from_front(fronts.of(best.steps)))
    if halves.has_rule and not _grows_trees(best):
        # All rows are both halves. More about them than the sums of these is not asked.
        settings = aggregator._agreed_terms.settings_at_nodes
        summaries = [
            _with_fields(summary, settings=settings)
            for summary in halves.merged(k, best.aggregator)
        ]
        aggregator.set_params(estimators=summaries)
    return aggregator


def _can_fit(fronts: "_Fronts", *, run: Run, may_be_sparse: bool) -> bool:
    """Fit fronts; return False where nodes have sparse rows, which these center."""
    try:
        run(fronts.plan())
    except ValueError as error:
        if not may_be_sparse or TAKES_DENSE_ROWS not in str(error):
            raise
        return False
    return True


def _doubts_about_lacking(halves: "_SumsOfHalves", k: int) -> list[str]:
    """Name the nodes without whose rows the candidate taken is made."""
    lacking = halves.lacking(k)
    if not lacking:
        return []
    reason = halves.refusals.get(k, {}).get(lacking[0], "it gave no reason")
    return [
        f"The model is made without the rows of the nodes {lacking[:10]}, which judged "
        f"it: {reason}."
    ]


class _Fronts:
    """What candidates have before them, fitted at once where they begin alike."""

    def __init__(self, tried: list[Candidate], *, drop_identifiers: bool) -> None:
        self.steps = list(dict.fromkeys(c.steps for c in tried if c.steps))
        self.starts = list(dict.fromkeys(map(_up_to_last_that_asks, self.steps)))
        self.drop_identifiers = drop_identifiers
        self.whole = Front.from_pipelines(
            [make_pipeline(*start) for start in self.starts],
            drop_identifiers=drop_identifiers,
            unasked=(PowerTransformer,),  # which rows judge, candidate by candidate
        )

    def plan(self) -> Generator:
        """Plan of the messages that fit the steps which look at rows."""
        if self.steps:
            fitted = yield from front_plan(self.whole)
            self.whole = fitted.front

    @property
    def agreed(self) -> list[dict]:
        """Return the fronts that nodes accept: that of all, and of each candidate."""
        alone = [
            Front(make_pipeline(*steps), drop_identifiers=self.drop_identifiers)
            for steps in self.steps
        ]
        return [front.agreed for front in (self.whole, *alone)]

    def of(self, steps: tuple) -> Front:
        """The fitted front of one candidate's steps."""
        start = self.starts.index(_up_to_last_that_asks(steps))
        return self.whole.branch(start, make_pipeline(*steps))

    def with_front(self, steps: tuple) -> dict:
        """The field of a request or a model that holds the fitted front, if any."""
        return {"front": self.of(steps).as_content()} if steps else {}


def _up_to_last_that_asks(steps: tuple) -> tuple[BaseEstimator, ...]:
    """The first steps, as far as one asks nodes for sums of rows; at least one step."""
    that_ask = [k for k, step in enumerate(steps) if Front(step).asks_nodes]
    return steps[: max(that_ask, default=0) + 1]


def _terms_of(candidate: Candidate) -> Terms:
    """The terms of a candidate's method; what fronts there are is agreed by itself."""
    return replace(candidate.aggregator._agreed_terms, front=None)


def _grows_trees(candidate: Candidate) -> bool:
    """Report whether halves of the rows have trees, which grow in several messages."""
    return _terms_of(candidate).grows_forests


def _agreement(
    tried: list[Candidate], fronts: list[_Fronts], *, disclosure: object
) -> Agreement:
    """Make the agreement for the time that a candidate is chosen and fitted."""
    methods = [
        {
            "method": terms.method,
            "settings": terms.settings,
            "further_settings": terms.further_settings,
        }
        for terms in map(_terms_of, tried)
    ]
    # Candidates ask for halves and judgments; join and score are of the model taken.
    tasks = {"halves": 1, "judge": 1, "join": 1, "score": 1, "metrics": 1}
    if disclosure is not None:  # the model taken is made of the halves
        tasks = {"halves": 1, "judge": 1, "metrics": 1}
    if fronts:
        tasks["front"] = sum(some.whole.most_messages for some in fronts)
    n_levels = [
        _terms_of(candidate).most_requests(0)["grow"]
        for candidate in tried
        if _grows_trees(candidate)
    ]
    if n_levels:  # of all forests for the choice, and of the one that may be taken
        tasks |= {"grow_halves": sum(n_levels), "grow": max(n_levels)}
    return Agreement(
        exchange=uuid4().hex,
        method="combine",
        settings={
            "methods": methods,
            "fronts": list(chain.from_iterable(some.agreed for some in fronts)),
        },
        tasks=tasks,
        disclosure=disclosure,
    )


@dataclass(kw_only=True)
class _SumsOfHalves:
    """The summaries that nodes sent of either half of their rows."""

    # For each candidate, for either half, one summary a node.
    by_candidate: list[tuple[list[Summary], list[Summary]]]
    # Why nodes sent none: by the candidate's index, then by the node's name.
    refusals: dict[int, dict[str, str]] = field(default_factory=dict)

    def _first_halves(self) -> list[Summary]:
        return [s for first, _ in self.by_candidate for s in first]

    @property
    def names(self) -> set[str]:
        """Names of the nodes that sent sums for any candidate."""
        return {summary.name for summary in self._first_halves()}

    @property
    def n_rows(self) -> int:
        """Estimate how many rows all nodes have: twice those of the first halves."""
        n_rows_by_name = {s.name: s.n_rows for s in self._first_halves()}
        return 2 * sum(n_rows_by_name.values())

    def class_sizes(self) -> np.ndarray:
        """Return how many rows of each class either half has: (2, n_classes).

        That is for one candidate at most. Classes that are too small to be told
        (min_rows) are not among these.
        """
        most_sizes = np.zeros((2, 0), dtype=int)
        for pair in self.by_candidate:
            sizes: dict = {}
            for half, summaries in enumerate(pair):
                for counts in (summary.row_counts for summary in summaries):
                    for label, n in zip(
                        counts["labels"], counts["moments"], strict=True
                    ):
                        sizes.setdefault(label, np.zeros(2, dtype=int))[half] += int(n)
            if sizes and sum(sizes.values()).sum() > most_sizes.sum():
                most_sizes = np.stack(list(sizes.values()), axis=1)
        return most_sizes

    def n_columns(self, k: int) -> int:
        """Return how many columns one candidate has, behind its front."""
        first_half, _ = self.by_candidate[k]
        return max(s.network.n_features_in for s in first_half)

    def n_bytes(self, k: int) -> int:
        """Bytes that nodes sent for one candidate."""
        return sum(summary.n_bytes for half in self.by_candidate[k] for summary in half)

    def most_rows_of(self, name: str) -> int:
        """Most rows of a node that its two summaries for one candidate are made of."""
        n_rows = [
            sum(s.n_rows for half in pair for s in half if s.name == name)
            for pair in self.by_candidate
        ]
        return max(n_rows, default=0)

    def lacking(self, k: int) -> list[str]:
        """Return the names of nodes that sent no sums for one candidate, sorted."""
        first_half, _ = self.by_candidate[k]
        return sorted(self.names - {summary.name for summary in first_half})

    def check_enough_sent(self, k: int) -> None:
        """Raise ValueError, with the reason of a node, where many rows are lacking.

        Nodes judge with all their rows what is made without them.
        """
        lacking = self.lacking(k)
        n_rows = {name: self.most_rows_of(name) for name in self.names}
        n_lacking = sum(n_rows[name] for name in lacking)
        if (
            n_lacking <= _MOST_LACKING * sum(n_rows.values())
            and self.by_candidate[k][0]
        ):
            return
        reason = self.refusals.get(k, {}).get(lacking[0], "it gave no reason")
        raise ValueError(
            f"Node {lacking[0]!r} sent no statistics for this candidate: {reason}. "
            f"Nodes that sent none: {lacking[:5]}."
        )

    def merged(self, k: int, aggregator: BaseAggregator) -> list[Summary]:
        """Return the summaries of both halves of every node, by names that say so."""
        return [
            _with_fields(summary, name=f"{summary.name}, {half} half")
            for summaries, half in zip(self.by_candidate[k], HALF_NAMES, strict=True)
            for summary in summaries
        ]

    @property
    def has_rule(self) -> bool:
        """Report whether a node answered under a rule of disclosure."""
        return any("rule" in s.message.content for s in self._first_halves())


def _with_fields(summary: Summary, **fields: object) -> Summary:
    """Return a summary with other fields, such as its name."""
    return Summary(Message.of("join", **{**summary.message.content, **fields}))


def _choice_by(
    judgments: Mapping[str, JudgeReply],
    trials: Trials,
    *,
    judged: list[int],
    scoring: str,
    shares: ClassShares,
    can_take_shares: bool,
) -> Choice:
    """The choice by what each node judged of the candidates with these indices."""
    n_judging = {name: judgment.n_rows for name, judgment in judgments.items()}
    n_rows = sum(n_judging.values())
    if judged and not n_rows:
        raise ValueError(
            "No node has enough rows (min_rows of its disclosure) to judge a candidate."
        )
    n_both_right = sum(judgment.right for judgment in judgments.values())
    losses = sum(judgment.losses for judgment in judgments.values())
    for place, k in enumerate(judged):
        trials.enter(
            k, n_right=n_both_right[place, place], losses=losses[place], n_rows=n_rows
        )
    trials.check_able()
    trials.leave_out_below(shares, may_be_all=can_take_shares)
    if not trials.able:
        return trials.choice_of_shares(shares, scoring=scoring, n_judging=n_judging)
    places = [judged.index(k) for k in trials.able]
    comparison = _comparison(
        scoring,
        n_both_right=n_both_right[np.ix_(places, places)],
        n_rows=n_rows,
        log_losses=trials.log_losses(),
    )
    return trials.choice(comparison, n_judging=n_judging, shares=shares)


def _comparison(
    scoring: str,
    *,
    n_both_right: np.ndarray,  # (n_able, n_able)
    n_rows: int,
    log_losses: list[float],
) -> Comparison:
    """The comparison by what nodes tell: counts of right rows, or sums of losses."""
    # Losses of models that are too steep are not told; accuracies always are.
    if scoring == LOG_LOSS and np.isfinite(log_losses).any():
        return compare_mean_losses(log_losses)
    return by_counts(n_both_right, n_rows, log_losses)


def _halves_plan(tried: list[Candidate], fronts: _Fronts) -> Generator:
    """Plan of the summaries of either half, for each candidate."""
    requests = {}
    for k, candidate in enumerate(tried):
        request = _terms_of(candidate).first_message()
        requests[str(k)] = request.content | fronts.with_front(candidate.steps)
    sums = _SumsOfHalves(by_candidate=[([], []) for _ in tried])
    replies = yield Message.of("halves", asked=requests)
    for name, reply in replies:
        for number, reason in reply.refused.items():
            sums.refusals.setdefault(int(number), {})[name] = reason
        for number, joins in reply.joins.items():
            pair = sums.by_candidate[int(number)]
            for summaries, joined in zip(pair, joins.by_half.values(), strict=True):
                summaries.append(Summary(joined.as_message("join")))
    return sums


def _models_of_halves(
    trials: Trials, halves: _SumsOfHalves, fronts: _Fronts, *, run: Run
) -> dict[int, dict]:
    """The models of the candidates that could be made, by index.

    A model is what nodes judge: the contents of the models of both halves, by the name
    of the half, and the fitted front.
    """
    models: dict[int, dict] = {}
    for k, candidate in enumerate(trials.candidates):
        with trials.making(k) as entry:
            entry["bytes"] = halves.n_bytes(k)
            halves.check_enough_sent(k)
            candidate.check_has_rows(
                n_rows=halves.n_rows, n_columns=halves.n_columns(k)
            )
            model = fronts.with_front(candidate.steps)
            if _grows_trees(candidate):
                n_before = len(run.history)
                model |= run(_forests_plan(candidate, halves.by_candidate[k], fronts))
                entry["bytes"] += sum(
                    message["bytes_received"] for message in run.history[n_before:]
                )
            else:
                model |= {
                    half: _content_of_fit(candidate.aggregator, summaries)
                    for half, summaries in zip(
                        HALF_NAMES, halves.by_candidate[k], strict=True
                    )
                }
            models[k] = model
    return models


def _forests_plan(
    candidate: Candidate, pair: tuple[list[Summary], list[Summary]], fronts: _Fronts
) -> Generator:
    """Plan of the forests of both halves; the nodes are those that sent summaries."""
    summaries = [summary for half in pair for summary in half]
    labels = {label for s in summaries for label in s.row_counts["labels"]}
    if len(set(map(type, labels))) > 1:
        raise ValueError("The labels of some nodes are texts, and of others numbers.")
    first_half, _ = pair
    return forests_of_halves(
        candidate.aggregator,
        n_features=first_half[0].network.n_features_in,
        classes=np.array(sorted(labels)),
        names=[summary.name for summary in first_half],
        front=fronts.of(candidate.steps).as_content(),
    )


def _content_of_fit(aggregator: BaseAggregator, summaries: list[Summary]) -> dict:
    """The model of some summaries as nodes judge it: linear, or quadratic."""
    fitted = clone(aggregator).set_params(estimators=summaries).fit()
    classifier = final_step(fitted.to_estimator())
    labels = classifier.classes_.tolist()
    if hasattr(classifier, "rotations_"):
        return {"labels": labels, **quadratic_content(classifier)}
    W = np.vstack([classifier.coef_.T, classifier.intercept_])
    if W.shape[1] == 1:  # scikit-learn has one column for two classes
        W = np.hstack([0.0 * W, W])
    return {"labels": labels, "W": W}


def _judging_plan(models: list[dict], halves: _SumsOfHalves) -> Generator:
    """Plan of what each node judges, by its name: rows, how many are right, losses."""
    if not models:
        return {}
    numbered = {str(k): model for k, model in enumerate(models)}
    replies = yield Message.of("judge", models=numbered)
    judgments = dict(replies)
    n_classes = len({label for model in models for label in _labels(model)})
    for name, judgment in judgments.items():
        _check_judgement(
            name, judgment, n_told=halves.most_rows_of(name), n_classes=n_classes
        )
    return judgments


def _labels(model: Mapping) -> list:
    """Labels of the classes that the models of two halves know."""
    return [label for half in HALF_NAMES for label in model[half]["labels"]]


def _check_judgement(
    name: str, judgment: JudgeReply, *, n_told: int, n_classes: int
) -> None:
    """Raise ValueError for more rows, or larger losses, than the node's rows allow."""
    n_rows = judgment.n_rows
    min_rows = judgment.min_rows
    most = most_judging(n_told, min_rows, n_classes)
    if n_rows > most:
        raise ValueError(
            f"Node {name!r} judged the candidates on {n_rows} rows, but its statistics "
            f"before were made from {n_told} rows. With min_rows={min_rows} it can "
            f"judge on {most} rows at most. Its judgment is not used, since it would "
            "outweigh those of the other nodes. Check what this node runs, or leave it "
            "out."
        )
    losses = judgment.losses
    largest = np.max(losses, initial=0.0, where=~np.isnan(losses))
    if largest > most_loss(n_rows, min_rows):
        raise ValueError(
            f"Node {name!r} sent a log-loss of {largest:g} for {n_rows} rows, which "
            f"can be {most_loss(n_rows, min_rows):g} at most. Its judgment is not "
            "used. Check what this node runs, or leave it out."
        )
