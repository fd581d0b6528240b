# SPDX-License-Identifier: BSD-3-Clause
"""Honest summaries, replies and requests of every kind, and mutations of them tried."""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass, field, replace

import numpy as np
from sklearn.discriminant_analysis import (
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
)
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDClassifier
from sklearn.neighbors import NearestCentroid
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, SplineTransformer, StandardScaler

from helpers.broken import Pair, with_value_at
from helpers.mutations import mutate_at_random
from helpers.outcomes import check_refusal, limit_time, outcome_of
from skgems import (
    GEMSLogisticAggregator,
    GEMSMLPAggregator,
    ModelAveragingAggregator,
    PFNMAggregator,
    PooledAggregator,
    PooledTransformer,
)
from skgems.averaging import Downpour
from skgems.channels import answer as answer_file
from skgems.choice import Candidate, choose_over
from skgems.federation import (
    Message,
    Nodes,
    RowsExposedWarning,
    Summary,
    answer,
    first_request,
    member_of,
    reply_to,
)
from skgems.gems import Rounds
from skgems.local import clear_cache
from skgems.messages import pairs_in
from skgems.spaces import Sampled

# Made of sums of each sort.
POOLED = ["QuadraticDiscriminantAnalysis", "GaussianNB", "ComplementNB", "BernoulliNB"]
POOLED += ["CategoricalNB"]


@dataclass(frozen=True, eq=False)
class Kind:
    """A kind of summary: of a hostile node, and of an honest one beside it."""

    name: str
    aggregator: object
    summary: Summary
    honest: Summary
    rows: np.ndarray = field(repr=False)

    def fit(self, summary):
        given = [summary, self.honest]
        return copy.copy(self.aggregator).set_params(estimators=given).fit()


def data(n=60, d=5, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 4
    X = rng.normal(size=(n, d)) + 1.6 * np.eye(4, d)[y]
    return X, y


def kinds() -> list[Kind]:
    """Honest summaries of every kind."""
    X, y = data()
    few = {"construction": Sampled(16), "random_state": 0}
    log_loss = {"criterion": "log_loss", "construction": "certified"}
    gems, everything = GEMSLogisticAggregator, {"classes": [0, 1, 2, 3]}
    net = MLPClassifier((4,), max_iter=20, random_state=0)
    scaled = make_pipeline(StandardScaler(), net)
    logistic = LogisticRegression(C=0.5)
    shrunk = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1)
    bounded = {"epsilon": 0.4, "on_empty": "ignore"}
    wanted = [
        ("class, gram", gems(moments="class", **few), logistic, {}),
        (
            "shared, ellipsoid, log-loss",
            gems(moments="shared", geometry="ellipsoid", **few | log_loss),
            logistic,
            {**everything, "space": True},
        ),
        (
            "diagonal, ball",
            gems(moments="diagonal", geometry="ball", **bounded, **few),
            logistic,
            {"space": True},
        ),
        (
            "gram, log-loss, deepest",
            gems(
                intersection="deepest",
                epsilon=2.0,
                on_empty="ignore",
                **few | log_loss,
            ),
            logistic,
            everything,
        ),
        ("gram, hinge", gems(intersection="hinge", **bounded, **few), logistic, {}),
        ("gram, within", gems(**bounded, **few), logistic, {}),
        (
            *("float16", gems(moments="shared", **few)),
            *(logistic, {"dtype": "float16"}),
        ),
        ("rank", gems(**few), logistic, {"dtype": "float32", "rank": 1}),
        ("clusters", gems(n_components=3, min_cluster_size=3, **few), logistic, {}),
        ("balanced", gems(**few), LogisticRegression(class_weight="balanced"), {}),
        ("wide", gems(**few), logistic, {}),
        ("weighed", gems(class_weight={1: 2.0}, **few), logistic, {}),
        ("ridge", gems(**few), RidgeClassifier(class_weight={1: 2.0}), {}),
        ("sgd", gems(**few), SGDClassifier(loss="log_loss", random_state=0), {}),
        ("lda", gems(**few), LinearDiscriminantAnalysis(), {}),
        ("lda, shrunk", gems(**few), shrunk, {}),
        ("centroid", gems(**few), NearestCentroid(shrink_threshold=0.1), {}),
        ("constant", gems(**few), DummyClassifier(), {}),
        ("no classifier", gems(**few), None, {}),
        *((kind, PooledAggregator(pooled=kind), None, {}) for kind in POOLED),
        ("pfnm", PFNMAggregator(random_state=0, max_iter=5), net, {}),
        ("pfnm, scaled", PFNMAggregator(random_state=0, max_iter=5), scaled, {}),
        ("averaging", ModelAveragingAggregator(weights="class_counts"), logistic, {}),
        ("averaging, nets", ModelAveragingAggregator(align="permutation"), net, {}),
    ]
    found, narrow = [], X
    for k, (name, aggregator, estimator, how) in enumerate(wanted):
        own, X = [y != 3, y != 0], narrow
        if name == "wide":
            more = np.random.default_rng(1).standard_normal((len(y), 205))
            X = np.hstack([narrow, more])
        if name == "constant":
            own[0] = y == 1
        if name in POOLED:
            X = np.digitize(narrow, [-1.0, 0.5, 1.5]).astype(float)
        sent = []
        for i, rows in enumerate(own):
            member = copy.deepcopy(estimator) if name != "constant" or not i else None
            member = member or LogisticRegression()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # nets do not converge, and need not
                member.fit(X[rows], y[rows])
            member = None if estimator is None else member
            held_out = None if k % 3 else np.arange(rows.sum()) % 4 == 0
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RowsExposedWarning)
                summary = aggregator.summarize(
                    *(member, X[rows], y[rows]),
                    name=("lyon", "paris")[i],
                    held_out=held_out,
                    min_rows=1,
                    **how,
                )
            sent.append(summary)
        found.append(Kind(name, aggregator, *sent, X))
    return found


# ---- summaries -------------------------------------------------------------


def outcome_of_summary(kind: Kind, whole: bytes) -> str:
    """What comes of the bytes of a summary: "refused on load" or "in fit"."""
    where = "on load"

    def attempt():
        nonlocal where
        summary = Summary(Message.from_bytes(whole))
        where = "in fit"
        return kind.fit(summary)

    found = outcome_of(attempt, kind.rows)
    return found if found == "accepted" else f"{found} {where}"


# ---- replies that come later -----------------------------------------------


@dataclass(frozen=True, eq=False)
class MethodOfRounds:
    """A method that asks more than once, and its nodes."""

    name: str
    aggregator: object
    members: list
    rows: np.ndarray = field(repr=False)

    def fit(self, change=None, hear=None):
        """By bytes; later replies of the first node are changed on the way."""
        members = {member.name: member for member in self.members}

        def reply(name, request):
            kind = f"{request.task} {sorted(request.content)}"
            _requests.setdefault(kind, (request, name))
            told = answer(request, members[name])
            if hear is not None:
                hear(name, request, told)
            whole = told.to_bytes()
            changes = name == self.members[0].name and request.task != "join"
            if change is not None and changes:
                whole = change(told, whole)
            try:
                return Message.from_bytes(whole)
            except ValueError as failure:
                return failure

        def ask(requests):
            return {name: reply(name, request) for name, request in requests.items()}

        channel = Nodes(ask, list(members), min_rows=1)
        channel.reports = True
        return copy.copy(self.aggregator).set_params(estimators=channel).fit()


def methods_of_rounds() -> list[MethodOfRounds]:
    """One of each method that asks more than once."""
    X, y = data()
    net = MLPClassifier((4,), max_iter=20, random_state=0)
    deep = MLPClassifier((4, 3), max_iter=20, random_state=0)
    scaled = make_pipeline(StandardScaler(), net)
    few = {"construction": Sampled(16), "random_state": 0}
    wanted = [
        (
            GEMSLogisticAggregator(
                n_rounds=Rounds(3, tol=0.0), class_weight={1: 2.0}, **few
            ),
            LogisticRegression(C=0.5),
        ),
        (
            GEMSMLPAggregator(
                last_layer=GEMSLogisticAggregator(
                    geometry="ellipsoid", intersection="consensus", on_empty="ignore"
                ),
                random_state=0,
            ),
            net,
        ),
        (GEMSMLPAggregator(n_rounds=2, retrain_epochs=1, random_state=0), deep),
        (ModelAveragingAggregator(n_rounds=2, local_epochs=1, random_state=0), net),
        (
            ModelAveragingAggregator(n_rounds=2, server=Downpour(10), random_state=0),
            net,
        ),
        (PFNMAggregator(n_rounds=2, n_epochs=1, max_iter=5, random_state=0), scaled),
    ]
    found = []
    for aggregator, estimator in wanted:
        members = []
        for name, rows in (("lyon", y != 3), ("paris", y != 0)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                own = copy.deepcopy(estimator).fit(X[rows], y[rows])
            held_out = np.arange(rows.sum()) % 4 == 0 if not found else None
            given = own, X[rows], y[rows]
            member = member_of(aggregator, *given, name=name, held_out=held_out)
            if not found:  # as a node that says of few rows no more than it must
                member = replace(member, min_rows=2)
            members.append(member)
        name = f"{type(aggregator).__name__} {len(found)}"
        found.append(MethodOfRounds(name, aggregator, members, X))
    return found


def outcome_of_mutated_reply(talk: MethodOfRounds, rng) -> tuple[str, str]:
    """A mutation of one of the replies of a node, and what comes of it."""
    if talk.name not in _n_replies:
        _n_replies[talk.name] = 0

        def count(told, whole):
            _n_replies[talk.name] += 1
            return whole

        outcome_of(lambda: talk.fit(count), talk.rows)
    left, what = int(rng.integers(_n_replies[talk.name])), "none"

    def change(told, whole):
        nonlocal left, what
        left -= 1
        if left != -1:
            return whole
        what, changed = mutate_at_random(told, told, rng)
        return changed

    found = outcome_of(lambda: talk.fit(change), talk.rows)
    return what, found


_n_replies: dict[str, int] = {}


def honest_pairs() -> list[Pair]:
    """What fits of every kind have said to their nodes, and heard."""
    found, several = [], kinds()
    told = [kind.summary for kind in several]
    for kind in several:
        if kind.name in ("class, gram", "balanced"):
            both = [kind.summary, kind.honest]
            told.append(kind.aggregator.merge_summaries(both, name="region"))
    for summary in told:
        content = summary.message.content
        found += [
            Pair(request=request, reply=reply, described=content["describe"])
            for request, reply in pairs_in(content)
        ]
    named = ("network", "feature_names"), list("abcde")
    described = Message.of("describe", **with_value_at(found[0].reply.content, *named))
    found.append(Pair(request=found[0].request, reply=described))
    for own, drop in ((StandardScaler(), True), (OneHotEncoder(), False)):
        front = PooledTransformer(own, drop_identifiers=drop)
        reply = front.summarize(data()[0].round(), name="lyon", min_rows=1)
        names = [f"x{j}" for j in range(len(reply.content["columns"]["text"]))]
        content = with_value_at(reply.content, ("columns", "names"), names) | {
            "again": False
        }
        request = Message.of("front", front=front.as_front().as_content())
        found.append(Pair(request=request, reply=Message.of("front", **content)))
    found += choice_pairs()
    for talk in methods_of_rounds():
        described = {}

        def hear(name, request, reply, described=described):
            if request.task == "join":
                described[name] = reply.content["describe"]
            found.append(Pair(request=request, reply=reply, described=described[name]))

        talk.fit(hear=hear)
    return found


def choice_pairs() -> list[Pair]:
    """What nodes hear and say where one of several models is chosen by their halves."""
    found, (X, y) = [], data(120)

    def ask(requests):
        told = {}
        for k, (name, request) in enumerate(requests.items()):
            own = np.arange(len(y)) % 2 == k
            told[name] = reply_to(request, None, X[own], y[own], name=name, min_rows=2)
            found.append(Pair(request=request, reply=told[name]))
        return told

    quadratic = PooledAggregator(pooled=QuadraticDiscriminantAnalysis(reg_param=0.1))
    tried = [
        Candidate("linear", GEMSLogisticAggregator([("all", None)], random_state=0)),
        Candidate("quadratic", quadratic, (StandardScaler(),)),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RowsExposedWarning)
        nodes = Nodes(ask, ["lyon", "paris"], min_rows=2)
        choose_over(nodes, lambda n_rows: tried)
    return found


# ---- requests, which nodes read --------------------------------------------


# One of each task and its fields, and a node that it went to, as fits have asked it.
_requests: dict[str, tuple[Message, str]] = {}


def requests(
    talks: list[MethodOfRounds],
) -> list[tuple[Message, object, np.ndarray, object]]:
    """Requests of every task, each with a node's classifier and its rows."""
    members = {}
    _requests.clear()
    for talk in talks:
        before = set(_requests)
        outcome_of(lambda talk=talk: talk.fit(None), talk.rows)
        for task in set(_requests) - before:
            name = _requests[task][1]
            members[task] = next(m for m in talk.members if m.name == name)
    agg = GEMSLogisticAggregator(epsilon=0.5, construction=Sampled(16), random_state=0)
    joined = first_request(agg, agg._first_requests())
    member = talks[0].members[0]
    found = [(joined, member)]
    for own in (SplineTransformer(), make_pipeline(StandardScaler(), OneHotEncoder())):
        front = PooledTransformer(own, bounds={0: (-9.0, 9.0)}).as_front()
        found.append((Message.of("front", front=front.as_content()), member))
    fitted = PooledTransformer(StandardScaler()).fit(member.X).as_front()
    found.append((joined.with_fields(front=fitted.as_content()), member))
    left_out = replace(
        fitted.columns, left_out=(True, *[False] * (member.X.shape[1] - 1))
    )
    dropping = replace(fitted, columns=left_out, states={}, drop_identifiers=True)
    found.append((Message.of("front", front=dropping.as_content()), member))
    own = {pair.request.task: (pair.request, member) for pair in choice_pairs()}
    found += [own["halves"], own["judge"]]
    return found + [(_requests[task][0], members[task]) for task in sorted(members)]


def outcome_of_mutated_request(
    request: Message, member, folder, rng
) -> tuple[str, str]:
    """A mutation of a request, and what comes of it at a node."""
    what, whole = mutate_at_random(request, request, rng, side="request")
    path = folder / "request.safetensors"
    path.write_bytes(whole)
    clear_cache()
    with limit_time(), warnings.catch_warnings():
        # What a model says that is out of all bounds harms who sent it.
        warnings.simplefilter("ignore")
        try:
            answer_file(
                path,
                member.picklable.estimator,
                member.X,
                member.y,
                name=member.name,
                to=folder / "reply.safetensors",
                min_rows=1,
            )
        except Exception as failure:
            check_refusal(failure, names=lambda text: path.name in text)
            return what, "refused"
    return what, "accepted"
