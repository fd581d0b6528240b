# SPDX-License-Identifier: BSD-3-Clause
"""Honest summaries, replies and requests of every kind, and what mutations lead to."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDClassifier
from sklearn.neighbors import NearestCentroid
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, SplineTransformer, StandardScaler

from helpers.broken import Pair, with_value_at
from helpers.choices import choice_pairs
from helpers.disclosures import pairs_under_a_rule, rule_of
from helpers.forests import DRAWN, TREES, reply_behind_front, trees_behind_powers
from helpers.judged import pairs_of_metrics
from helpers.mutations import mutate_at_random
from helpers.noise import pair_with_noise
from helpers.odds import pair_of_inference
from helpers.outcomes import check_refusal, limit_time, outcome_of
from helpers.parts import in_parts
from helpers.surveys import pairs_of_surveys
from skgems import (
    GEMSLogisticAggregator,
    GEMSMLPAggregator,
    ModelAveragingAggregator,
    PFNMAggregator,
    PooledAggregator,
    PooledTransformer,
)
from skgems.asking import Message, Nodes
from skgems.averaging import Downpour
from skgems.gems import Rounds, Spaces
from skgems.guard import answer as answer_file
from skgems.local import clear_cache
from skgems.messages import pairs_in
from skgems.parties import Summary, member_of
from skgems.parties import reply_as_message as answer
from skgems.pfnm import Matching
from skgems.spaces import Sampled
from skgems.steps import ColumnsError

# Pooled classifiers whose summaries have sums of different kinds.
POOLED = [
    "QuadraticDiscriminantAnalysis",
    "GaussianNB",
    "ComplementNB",
    "BernoulliNB",
    "CategoricalNB",
]


@dataclass(frozen=True, kw_only=True, eq=False)
class Kind:
    """A kind of summary: of a hostile node, and of an honest one beside it."""

    name: str
    aggregator: object
    summary: Summary
    honest: Summary
    rows: np.ndarray = field(repr=False)

    def fit(self, summary):
        """The aggregate of a summary, perhaps a mutated one, and of the honest one."""
        summaries = [summary, self.honest]
        return copy.copy(self.aggregator).set_params(estimators=summaries).fit()


def data(n=60, d=5, seed=0):
    """Rows of four classes, each with a mean of its own."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 4
    X = rng.normal(size=(n, d)) + 1.6 * np.eye(4, d)[y]
    return X, y


def fitted(estimator, X, y):
    """A fitted copy of a classifier; networks do not converge, and need not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return copy.deepcopy(estimator).fit(X, y)


def quick_gems(**settings) -> GEMSLogisticAggregator:
    """An aggregator with few random directions, unless the settings say otherwise.

    Settings of spaces and moments are by their own names.
    """
    quick = {"construction": Sampled(16), "random_state": 0}
    return GEMSLogisticAggregator(**in_parts({**quick, **settings}))


@dataclass(frozen=True, kw_only=True)
class KindPlan:
    """What summaries of a kind are made with."""

    name: str
    aggregator: object
    estimator: object  # an unfitted classifier, None where rows are enough
    options: dict = field(default_factory=dict)  # of ``summarize``


def _plans_of_spaces() -> list[KindPlan]:
    """Kinds with spaces and intersections of all sorts."""
    logistic = LogisticRegression(C=0.5)
    everything = [0, 1, 2, 3]
    return [
        KindPlan(
            name="class, gram",
            aggregator=quick_gems(moments="class"),
            estimator=logistic,
        ),
        KindPlan(name="weighted", aggregator=quick_gems(), estimator=logistic),
        KindPlan(
            name="shared, ellipsoid, log-loss",
            aggregator=quick_gems(
                moments="shared",
                geometry="ellipsoid",
                criterion="log_loss",
                construction="certified",
            ),
            estimator=logistic,
            options={"classes": everything, "space": True},
        ),
        KindPlan(
            name="diagonal, ball",
            aggregator=quick_gems(
                moments="diagonal", geometry="ball", epsilon=0.4, on_empty="ignore"
            ),
            estimator=logistic,
            options={"space": True},
        ),
        KindPlan(
            name="gram, log-loss, deepest",
            aggregator=quick_gems(
                intersection="deepest",
                epsilon=2.0,
                on_empty="ignore",
                criterion="log_loss",
                construction="certified",
            ),
            estimator=logistic,
            options={"classes": everything},
        ),
        KindPlan(
            name="gram, hinge",
            aggregator=quick_gems(intersection="hinge", epsilon=0.4, on_empty="ignore"),
            estimator=logistic,
        ),
        KindPlan(
            name="gram, within",
            aggregator=quick_gems(epsilon=0.4, on_empty="ignore"),
            estimator=logistic,
        ),
    ]


def _plans_of_moments() -> list[KindPlan]:
    """Kinds whose moments are shared by classes, clustered, weighted or wide."""
    logistic = LogisticRegression(C=0.5)
    return [
        KindPlan(
            name="shared",
            aggregator=quick_gems(moments="shared"),
            estimator=logistic,
        ),
        KindPlan(
            name="clusters",
            aggregator=quick_gems(n_components=3),
            estimator=logistic,
        ),
        KindPlan(
            name="balanced",
            aggregator=quick_gems(),
            estimator=LogisticRegression(class_weight="balanced"),
        ),
        KindPlan(name="wide", aggregator=quick_gems(), estimator=logistic),
        KindPlan(name="block", aggregator=quick_gems(), estimator=logistic),
        KindPlan(
            name="weighed",
            aggregator=quick_gems(class_weight={1: 2.0}),
            estimator=logistic,
        ),
    ]


def _plans_of_classifiers() -> list[KindPlan]:
    """A kind for each linear classifier that nodes may have, and for none."""
    shrunk = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1)
    classifiers = {
        "ridge": RidgeClassifier(class_weight={1: 2.0}),
        "sgd": SGDClassifier(loss="log_loss", random_state=0),
        "lda": LinearDiscriminantAnalysis(),
        "lda, shrunk": shrunk,
        "centroid": NearestCentroid(shrink_threshold=0.1),
        "constant": DummyClassifier(),
        "no classifier": None,
    }
    return [
        KindPlan(name=name, aggregator=quick_gems(), estimator=estimator)
        for name, estimator in classifiers.items()
    ]


def _plans_of_other_methods() -> list[KindPlan]:
    """Kinds of the other aggregators."""
    logistic = LogisticRegression(C=0.5)
    net = MLPClassifier((4,), max_iter=20, random_state=0)
    pooled = [
        KindPlan(name=name, aggregator=PooledAggregator(pooled=name), estimator=None)
        for name in POOLED
    ]
    drawn = trees_behind_powers(DRAWN, data()[0])
    return [
        *pooled,
        KindPlan(name="drawn trees", aggregator=drawn, estimator=None),
        KindPlan(
            name="pfnm",
            aggregator=PFNMAggregator(random_state=0, matching=Matching(max_iter=5)),
            estimator=net,
        ),
        KindPlan(
            name="pfnm, scaled",
            aggregator=PFNMAggregator(random_state=0, matching=Matching(max_iter=5)),
            estimator=make_pipeline(StandardScaler(), net),
        ),
        KindPlan(
            name="averaging",
            aggregator=ModelAveragingAggregator(node_weight="class_counts"),
            estimator=logistic,
        ),
        KindPlan(
            name="averaging, nets",
            aggregator=ModelAveragingAggregator(align="permutation"),
            estimator=net,
        ),
    ]


def kinds() -> list[Kind]:
    """Honest summaries of every kind."""
    plans = [
        *_plans_of_spaces(),
        *_plans_of_moments(),
        *_plans_of_classifiers(),
        *_plans_of_other_methods(),
    ]
    # The nodes of every third kind hold rows out.
    return [_kind_of(plan, holds_out=i % 3 == 0) for i, plan in enumerate(plans)]


def _kind_of(plan: KindPlan, *, holds_out: bool) -> Kind:
    """Both nodes' summaries; the first has no rows of class 3, the second of class 0.

    A constant classifier is that of the first node alone, which then has one class.
    """
    X, y = data()
    X = _rows_of_kind(plan.name, X)
    is_constant = plan.name == "constant"
    summary = _summary_of(
        plan,
        X,
        y,
        rows=y == 1 if is_constant else y != 3,
        name="lyon",
        holds_out=holds_out,
    )
    honest = _summary_of(
        replace(plan, estimator=LogisticRegression()) if is_constant else plan,
        X,
        y,
        rows=y != 0,
        name="paris",
        holds_out=holds_out,
    )
    return Kind(
        name=plan.name,
        aggregator=plan.aggregator,
        summary=summary,
        honest=honest,
        rows=X,
    )


def _rows_of_kind(name: str, X: np.ndarray) -> np.ndarray:
    """The rows with further columns, or as counts, where a kind needs such."""
    if name == "wide":
        # With over 200 columns, and fewer rows, nodes send roots of their moments.
        further_columns = np.random.default_rng(1).standard_normal((len(X), 260))
        return np.hstack([X, further_columns])
    if name == "block":
        # Under a rule, too few rows to tell products of all columns.
        further_columns = np.random.default_rng(1).standard_normal((len(X), 30))
        return np.hstack([X, further_columns])
    if name in POOLED:
        return np.digitize(X, [-1.0, 0.5, 1.5]).astype(float)
    return X


def _summary_of(
    plan: KindPlan, X, y, *, rows: np.ndarray, name: str, holds_out: bool
) -> Summary:
    """The summary of a node that has some of the rows."""
    member = None
    if plan.estimator is not None:
        member = fitted(plan.estimator, X[rows], y[rows])
    sample_weight = None
    if plan.name in ("weighted", "BernoulliNB"):
        sample_weight = 0.5 + np.arange(rows.sum()) % 3
    return plan.aggregator.summarize(
        member,
        X[rows],
        y[rows],
        name=name,
        held_out=np.arange(rows.sum()) % 4 == 0 if holds_out else None,
        sample_weight=sample_weight,
        # Counts in trees are multiples of min_rows.
        disclosure=(rule_of(3) if plan.name in ("drawn trees", "block") else None),
        **plan.options,
    )


# ---- summaries -------------------------------------------------------------


def outcome_of_summary(kind: Kind, content: bytes) -> str:
    """The outcome of loading a summary and fitting to it.

    It is "accepted", or "refused" with "on load" or "in fit" after it.
    """
    stage = "on load"

    def load_and_fit():
        nonlocal stage
        summary = Summary(Message.from_bytes(content))
        stage = "in fit"
        return kind.fit(summary)

    outcome = outcome_of(load_and_fit, kind.rows)
    return outcome if outcome == "accepted" else f"{outcome} {stage}"


# ---- replies that come later -----------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class MethodOfRounds:
    """A method that asks more than once, and its nodes."""

    name: str
    aggregator: object
    members: list
    rows: np.ndarray = field(repr=False)
    # What a member replies to a request.
    reply: Callable[[Message, object], Message] = answer

    def fit(self, change=None, hear=None):
        """Fit by bytes; later replies of the first node are changed on the way.

        ``change`` is called with such a reply and its bytes, and returns other bytes.
        ``hear`` is called with the node's name, each request and the reply to it.
        """
        members = {member.name: member for member in self.members}
        first_name = self.members[0].name

        def reply_over_bytes(name, request):
            kind = f"{request.task} {sorted(request.content)}"
            _requests.setdefault(kind, (request, name))
            reply = self.reply(request, members[name])
            if hear is not None:
                hear(name, request, reply)
            content = reply.to_bytes()
            is_changed = name == first_name and request.task != "join"
            if change is not None and is_changed:
                content = change(reply, content)
            try:
                return Message.from_bytes(content)
            except ValueError as failure:
                return failure

        def ask(requests):
            return {
                name: reply_over_bytes(name, request)
                for name, request in requests.items()
            }

        channel = Nodes(ask, list(members), disclosure=None)
        channel.reports = True
        return copy.copy(self.aggregator).set_params(estimators=channel).fit()


def methods_of_rounds() -> list[MethodOfRounds]:
    """One of each method that asks more than once."""
    X, _ = data()
    net = MLPClassifier((4,), max_iter=20, random_state=0)
    aggregators_and_estimators = [
        (
            quick_gems(n_rounds=Rounds(2, tol=0.0), class_weight={1: 2.0}),
            LogisticRegression(C=0.5),
        ),
        (
            GEMSMLPAggregator(
                last_layer=GEMSLogisticAggregator(
                    spaces=Spaces("ellipsoid", on_empty="ignore"),
                    intersection="consensus",
                ),
                random_state=0,
            ),
            net,
        ),
        (
            GEMSMLPAggregator(n_rounds=2, local_epochs=1, random_state=0),
            MLPClassifier((4, 3), max_iter=20, random_state=0),
        ),
        (ModelAveragingAggregator(n_rounds=2, local_epochs=1, random_state=0), net),
        (
            ModelAveragingAggregator(n_rounds=2, server=Downpour(10), random_state=0),
            net,
        ),
        (
            PFNMAggregator(
                n_rounds=2,
                local_epochs=1,
                matching=Matching(max_iter=5),
                random_state=0,
            ),
            make_pipeline(StandardScaler(), net),
        ),
    ]
    methods = [
        MethodOfRounds(
            name=f"{type(aggregator).__name__} {i}",
            aggregator=aggregator,
            members=_members_of(aggregator, estimator, is_cautious=i == 0),
            rows=X,
        )
        for i, (aggregator, estimator) in enumerate(aggregators_and_estimators)
    ]
    return [*methods, *map(_method_of_trees, TREES)]


def _method_of_trees(kind: str) -> MethodOfRounds:
    """Trees, whose nodes have rows alone and put a fitted front before them."""
    X, _ = data()
    aggregator = trees_behind_powers(TREES[kind], X)
    return MethodOfRounds(
        name=kind,
        aggregator=aggregator,
        members=_members_of(aggregator, None, is_cautious=True),
        rows=X,
        reply=reply_behind_front,
    )


def _members_of(aggregator, estimator, *, is_cautious: bool) -> list:
    """Two nodes; cautious ones hold rows out, and tell less about classes of few rows.

    The first node has no rows of class 3, the second none of class 0.
    """
    X, y = data()
    members = []
    for name, rows in (("lyon", y != 3), ("paris", y != 0)):
        member = member_of(
            aggregator,
            None if estimator is None else fitted(estimator, X[rows], y[rows]),
            X[rows],
            y[rows],
            name=name,
            held_out=np.arange(rows.sum()) % 4 == 0 if is_cautious else None,
        )
        members.append(
            replace(member, disclosure=rule_of(2)) if is_cautious else member
        )
    return members


def outcome_of_mutated_reply(talk: MethodOfRounds, rng) -> tuple[str, str]:
    """A mutation of one of the later replies of a node, and its outcome."""
    index = int(rng.integers(_number_of_replies(talk)))
    n_before = 0
    mutation = "none"

    def mutate_one(reply, content):
        nonlocal n_before, mutation
        is_mutated = n_before == index
        n_before += 1
        if is_mutated:
            mutation, content = mutate_at_random(reply, reply, rng)
        return content

    outcome = outcome_of(lambda: talk.fit(mutate_one), talk.rows)
    return mutation, outcome


# How many replies of the first node a fit may change, by the name of the method.
_n_replies: dict[str, int] = {}


def _number_of_replies(talk: MethodOfRounds) -> int:
    if talk.name not in _n_replies:
        _n_replies[talk.name] = 0

        def count(reply, content):
            _n_replies[talk.name] += 1
            return content

        outcome_of(lambda: talk.fit(count), talk.rows)
    return _n_replies[talk.name]


# ---- honest pairs of requests and replies ----------------------------------


def honest_pairs() -> list[Pair]:
    """Requests and replies of fits of every kind."""
    pairs = _pairs_of_summaries()
    content_with_names = with_value_at(
        pairs[0].reply.content, ("network", "feature_names"), list("abcde")
    )
    content_with_drops = with_value_at(
        content_with_names, ("network", "dropped"), np.zeros(5, dtype=bool)
    )
    described = Message.of("describe", **content_with_drops)
    pairs.append(Pair(request=pairs[0].request, reply=described))
    labels = described.content["network"]["labels"]
    module = {
        "output": "module",
        "labels": labels,
        "seen": described.content["network"]["seen"],
        "names": ["last.weight", "last.bias", "n_batches"],
        "arrays": [np.ones((len(labels), 5)), np.zeros(len(labels)), np.array(3)],
        "outputs": np.ones((2, len(labels))),
    }
    with_module = {**described.content, "network": module}
    pairs.append(
        Pair(request=pairs[0].request, reply=Message.of("describe", **with_module))
    )
    for step, drops in ((StandardScaler(), True), (OneHotEncoder(), False)):
        pairs.append(_pair_of_front(PooledTransformer(step, drop_identifiers=drops)))
    pairs += choice_pairs(*data(120)) + pairs_of_surveys()
    for talk in methods_of_rounds():
        pairs += _pairs_of_rounds(talk)
    of_moments = next(pair for pair in pairs if pair.request.task == "moments")
    with_tails = Message.of("moments", **of_moments.reply.content, kurtosis=16)
    pairs.append(Pair(request=of_moments.request, reply=with_tails))
    pairs += [pair_of_inference(), *pairs_of_metrics(*data(120))]
    return [*pairs, *pairs_under_a_rule(pairs), pair_with_noise()]


def _pairs_of_summaries() -> list[Pair]:
    """The pairs in summaries of each kind, and in some that regions have merged."""
    all_kinds = kinds()
    summaries = [kind.summary for kind in all_kinds]
    for kind in all_kinds:
        if kind.name in ("class, gram", "balanced"):
            summaries.append(
                kind.aggregator.merge_summaries(
                    [kind.summary, kind.honest], name="region"
                )
            )
    return [
        Pair(
            request=request, reply=reply, described=summary.message.content["describe"]
        )
        for summary in summaries
        for request, reply in pairs_in(summary.message.content)
    ]


def _pair_of_front(front: PooledTransformer) -> Pair:
    """A front's request, and a reply to it with names of columns."""
    X, _ = data()
    reply = front.summarize(X.round(), name="lyon", disclosure=None)
    names = [f"x{j}" for j in range(len(reply.content["columns"]["text"]))]
    named = with_value_at(reply.content, ("columns", "names"), names)
    return Pair(
        request=Message.of("front", front=front.as_front().as_content()),
        reply=Message.of("front", **named, again=False),
    )


def _pairs_of_rounds(talk: MethodOfRounds) -> list[Pair]:
    """The pairs of a fit that asks more than once, with nodes' first descriptions."""
    pairs = []
    descriptions = {}

    def hear(name, request, reply):
        if request.task == "join":
            descriptions[name] = reply.content["describe"]
        pairs.append(Pair(request=request, reply=reply, described=descriptions[name]))

    talk.fit(hear=hear)
    return pairs


# ---- requests, which nodes read --------------------------------------------


# A request of each task and set of fields, and the name of a node that it went to, as
# fits have asked since this was cleared.
_requests: dict[str, tuple[Message, str]] = {}


def requests(
    talks: list[MethodOfRounds],
) -> list[tuple[Message, object]]:
    """Requests of every task, each with a node that was asked."""
    members = {}
    _requests.clear()
    for talk in talks:
        before = set(_requests)
        outcome_of(lambda talk=talk: talk.fit(None), talk.rows)
        for kind in set(_requests) - before:
            _, name = _requests[kind]
            members[kind] = next(m for m in talk.members if m.name == name)
    member = talks[0].members[0]
    choices = {pair.request.task: pair.request for pair in choice_pairs(*data(120))}
    without_rounds = [
        *_join_and_front_requests(member.X),
        choices["halves"],
        choices["judge"],
    ]
    return [
        *((request, member) for request in without_rounds),
        *((_requests[kind][0], members[kind]) for kind in sorted(members)),
    ]


def _join_and_front_requests(X: np.ndarray) -> list[Message]:
    """Requests to join, and for fronts, among them fitted and dropping ones."""
    aggregator = GEMSLogisticAggregator(
        epsilon=0.5, spaces=Spaces(construction=Sampled(16)), random_state=0
    )
    join = aggregator._agreed_terms.first_message()
    scaled_categories = make_pipeline(StandardScaler(), OneHotEncoder())
    fitted_front = PooledTransformer(StandardScaler()).fit(X).as_front()
    is_left_out = (True, *[False] * (X.shape[1] - 1))
    dropping_front = replace(
        fitted_front,
        columns=replace(fitted_front.columns, left_out=is_left_out),
        states={},
        drop_identifiers=True,
    )
    return [
        join,
        _front_request(SplineTransformer()),
        _front_request(scaled_categories),
        join.with_fields(front=fitted_front.as_content()),
        Message.of("front", front=dropping_front.as_content()),
    ]


def _front_request(transformer) -> Message:
    """A request for an unfitted front, whose first column has bounds."""
    front = PooledTransformer(transformer, bounds={0: (-9.0, 9.0)}).as_front()
    return Message.of("front", front=front.as_content())


def outcome_of_mutated_request(
    request: Message, member, folder, rng
) -> tuple[str, str]:
    """A mutation of a request, and its outcome at a node."""
    mutation, content = mutate_at_random(request, request, rng, side="request")
    path = folder / "request.safetensors"
    path.write_bytes(content)
    clear_cache()
    with limit_time(), warnings.catch_warnings():
        # A model with extreme outputs may warn: it harms only the server that sent it.
        warnings.simplefilter("ignore")
        try:
            answer_file(
                path,
                member.model.estimator,
                member.X,
                member.y,
                name=member.name,
                to=folder / "reply.safetensors",
                disclosure=None,
            )
        except ColumnsError:  # names columns that do not fit a front, and no file
            return mutation, "refused"
        except Exception as failure:
            check_refusal(failure, names=lambda text: path.name in text)
            return mutation, "refused"
    return mutation, "accepted"
