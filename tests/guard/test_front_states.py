# SPDX-License-Identifier: BSD-3-Clause
"""A node takes one fitted front in an exchange, and none that its rows contradict."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PowerTransformer, RobustScaler, StandardScaler

from skgems import GEMSLogisticAggregator, PooledAggregator, PooledTransformer, combine
from skgems.asking import Message, Nodes
from skgems.guard import Agreement, NotAgreedError, RowsAskedAgainWarning, reply_to
from skgems.messages import sealed
from skgems.steps import RandomFeatures

X, Y = load_breast_cancer(return_X_y=True)
X = X[:220, :5]
Y = np.where(Y[:220] == 1, "benign", "malignant")
NAMES = ["lyon", "paris"]
FRONT = make_pipeline(StandardScaler(), RandomFeatures(30, kind="relu", random_state=0))


class Sites:
    """Two nodes with ledgers, whose requests may be changed on the way.

    ``options`` are further arguments of `reply_to`.
    """

    estimator = None  # of each node

    def __init__(self, change=lambda message: message, **options):
        self.states = {name: {} for name in NAMES}
        self.requests: list[Message] = []
        self.change = change
        self.options = options

    def ask(self, requests):
        replies = {}
        for name, message in requests.items():
            self.requests.append(message)
            rows = np.arange(len(X)) % 2 == NAMES.index(name)
            replies[name] = Message.from_bytes(
                reply_to(
                    self.change(message).to_bytes(),
                    self.estimator,
                    X[rows],
                    Y[rows],
                    name=name,
                    state=self.states[name],
                    **self.options,
                )
            )
        return replies


def fitted(aggregator, sites, **terms):
    """The aggregator fitted on the sites' replies, and the agreement with them."""
    agreement = Agreement.of(aggregator, **terms)
    channel = Nodes(sites.ask, NAMES, agreement=agreement)
    return aggregator.set_params(estimators=channel).fit(), agreement


def with_states(message, change):
    """The request with each state of its front changed by a function."""
    front = message.content["front"]
    states = {path: change(dict(state)) for path, state in front["states"].items()}
    return message.with_fields(front={**front, "states": states})


def planted(state):
    """The state with a center in the tails of columns, and tiny variances about it.

    Behind such a scaler only the few rows that lie beyond the center have large values.
    """
    deviations = np.sqrt(state["squares"] / state["counts"])
    means = state["means"] + 2.2 * deviations
    return state | {"means": means, "squares": state["squares"] * 1e-6}


def test_a_made_up_front_is_refused_and_the_node_is_named():
    def change(message):
        return with_states(message, planted) if message.task == "join" else message

    sites = Sites(change)
    aggregator = PooledAggregator(pooled=RidgeClassifier(), front=FRONT)
    with pytest.raises(
        ValueError, match="rows of node 'lyon' .* StandardScaler: .* vari"
    ):
        fitted(aggregator, sites)


def test_a_front_may_not_be_made_up_before_the_node_was_asked():
    aggregator = PooledAggregator(pooled=RidgeClassifier(), front=FRONT)
    sites = Sites()
    _, agreement = fitted(aggregator, sites)
    first = sites.requests[0]
    joined = sites.requests[-1]
    states = joined.content["front"]["states"]
    first_with_states = first.with_fields(
        front={**first.content["front"], "states": states}
    )
    for message in (joined, first_with_states):
        with pytest.raises(NotAgreedError, match="without the rows of this node"):
            reply_to(sealed(message, agreement), None, X, Y, name="lyon", state={})


def reordered(tree):
    """The tree with the fields of all its tables in the opposite order."""
    if isinstance(tree, dict):
        return {name: reordered(tree[name]) for name in reversed(list(tree))}
    return [reordered(part) for part in tree] if isinstance(tree, list) else tree


def scaled(state):
    """The state with variances that are larger by less than any bound would see."""
    return state | {"squares": 1.001 * state["squares"]}


@pytest.mark.parametrize("is_reordered", [False, True])
def test_an_exchange_has_one_fitted_front(is_reordered):
    def change(message):
        if message.task != "evaluate":
            return message
        message = with_states(message, scaled)
        front = message.content["front"]
        if is_reordered:
            front = front | {"tree": reordered(front["tree"])}
        return message.with_fields(front=front)

    def ask(requests):
        return {
            name: reply_to(
                change(message),
                LogisticRegression(),
                X,
                Y,
                name=name,
                state=sites.states[name],
            )
            for name, message in requests.items()
        }

    sites = Sites()
    aggregator = GEMSLogisticAggregator(front=FRONT, n_rounds=3, random_state=0)
    channel = Nodes(ask, NAMES, agreement=Agreement.of(aggregator))
    with pytest.raises(ValueError, match="as in an earlier request of this exchange"):
        aggregator.set_params(estimators=channel).fit()


def test_a_number_of_the_tree_has_to_have_the_type_that_was_agreed():
    front = make_pipeline(PCA(2), StandardScaler())
    agreement = Agreement.of(PooledAggregator(pooled=RidgeClassifier(), front=front))
    message = Message.of("front", front=agreement.settings["front"])
    agreement.check_asked(message, {})
    tree = message.content["front"]["tree"]
    tree["steps"][0][1]["params"]["n_components"] = 2.0
    other = message.with_fields(front={**message.content["front"], "tree": tree})
    with pytest.raises(NotAgreedError, match="is not agreed"):
        agreement.check_asked(other, {})


def test_a_request_about_rows_before_the_agreed_front_is_refused():
    """Else a server gets sums of them that nobody has agreed to."""

    def change(message):
        return message.with_fields(front=None) if message.task == task else message

    for task in ("join", "evaluate"):
        sites = Sites(change)
        aggregator = GEMSLogisticAggregator(
            front=StandardScaler(), n_rounds=3, random_state=0
        )
        with pytest.raises(ValueError, match=f"'{task}'. is about rows before the agr"):
            fitted(aggregator, sites)


FITTED = {
    "sums": StandardScaler(),
    "axes": make_pipeline(StandardScaler(), PCA(2)),
    "powers": PowerTransformer(),
    "quantiles": RobustScaler(),
    "medians": make_pipeline(SimpleImputer(strategy="median"), StandardScaler()),
}


def front_fitted_by(sites, transformer):
    """The front that was fitted to what the sites told, with these in their ledgers."""
    front = PooledTransformer(transformer, bounds=(-10.0, 1e4))
    channel = Nodes(sites.ask, NAMES, agreement=Agreement.of(front))
    front.set_params(summaries=channel).fit()
    return PooledTransformer.from_front(front.as_front())


@pytest.mark.parametrize("name", FITTED)
def test_a_front_that_comes_fitted_is_refused_unless_the_node_told_its_part(name):
    front = PooledTransformer(FITTED[name], bounds=(-10.0, 1e4)).fit(X)
    aggregator = PooledAggregator(pooled=RidgeClassifier(), front=front)
    agreement = Agreement.of(aggregator)
    for options in ({}, {"agreement": agreement}):  # whoever accepted it
        sites = Sites(**options)
        channel = Nodes(sites.ask, NAMES, agreement=agreement)
        with pytest.raises(ValueError, match="told no statistics for .* cannot check"):
            aggregator.set_params(estimators=channel).fit()


@pytest.mark.parametrize("name", FITTED)
def test_a_fitted_front_that_was_agreed_is_that_one(name):
    sites = Sites()
    front = front_fitted_by(sites, FITTED[name])
    other = PooledTransformer(FITTED[name], bounds=(-10.0, 1e4)).fit(X + 1.0)
    aggregator = PooledAggregator(pooled=RidgeClassifier(), front=front)
    agreement = Agreement.of(aggregator)
    sites.options = {"agreement": agreement, "again": True}
    channel = Nodes(sites.ask, NAMES, agreement=agreement)
    with pytest.warns(RowsAskedAgainWarning):
        model = aggregator.set_params(estimators=channel).fit()
    # No node fits this front in the exchange: it is part of the agreement.
    assert model.history_[0]["task"] == "join"
    joined = sites.requests[-1].with_fields(front=other.as_front().as_content())
    with pytest.raises(NotAgreedError, match="not the one that was agreed"):
        reply_to(sealed(joined, agreement), None, X, Y, name="lyon", state={})


def test_a_front_that_comes_fitted_to_other_rows_is_refused():
    """The ledger has the part of a node in it, but of other rows."""
    sites = Sites()
    front = front_fitted_by(sites, StandardScaler())
    aggregator = PooledAggregator(pooled=RidgeClassifier(), front=front)
    agreement = Agreement.of(aggregator)
    request = sealed(Message.of("join", **first_message(aggregator, front)), agreement)
    node = {"name": "lyon", "state": sites.states["lyon"], "agreement": agreement}
    with pytest.raises(NotAgreedError, match="told no statistics for StandardScaler"):
        reply_to(request, None, X[::-3], Y[::-3], again=True, **node)


def first_message(aggregator, front):
    """The content of the first message of an aggregator behind a fitted front."""
    message = aggregator._agreed_terms.first_message()
    return message.content | {"front": front.as_front().as_content()}


def test_one_organization_may_agree_on_a_front_of_any_rows():
    front = PooledTransformer(StandardScaler()).fit(X[:20] - 5.0)
    aggregator = PooledAggregator(pooled=RidgeClassifier(), front=front)
    agreement = Agreement.of(aggregator, disclosure=None)
    sites = Sites(agreement=agreement, disclosure=None)
    channel = Nodes(sites.ask, NAMES, agreement=agreement)
    model = aggregator.set_params(estimators=channel).fit()
    assert model.score(X, Y) > 0.8
    with pytest.raises(ValueError, match="told no statistics for StandardScaler"):
        Sites(disclosure=None).ask(
            {"lyon": sites.requests[0]}
        )  # nobody has accepted it


def test_a_step_is_not_fitted_before_the_node_was_asked_behind_the_same_steps():
    """Else quantiles could be told behind one scaler, and used behind another."""

    def change(message):
        if message.task != "join":
            return message
        front = message.content["front"]
        states = {**front["states"], "0/0": scaled(dict(front["states"]["0/0"]))}
        return message.with_fields(front={**front, "states": states})

    transformer = make_pipeline(StandardScaler(), PCA(2))
    aggregator = PooledAggregator(pooled=RidgeClassifier(), front=transformer)
    with pytest.raises(ValueError, match="told no statistics for PCA"):
        fitted(aggregator, Sites(change))


def test_a_column_that_the_node_does_not_use_is_not_taken():
    def change(message):
        if message.task != "join":
            return message
        front = message.content["front"]
        columns = {k: v for k, v in front["columns"].items() if k != "left_out"}
        ((path, state),) = front["states"].items()
        of_all = {
            name: np.insert(state[name], 1, 1e3)
            for name in ("counts", "means", "squares")
        }
        states = {path: {**state, **of_all}}
        return message.with_fields(
            front={**front, "columns": columns, "states": states}
        )

    front = PooledTransformer(StandardScaler(), drop_identifiers=True)
    use_others = make_column_transformer((StandardScaler(), [0, 2, 3, 4]))
    for changed, refuses in ((lambda message: message, False), (change, True)):
        sites = Sites(changed)
        sites.estimator = make_pipeline(use_others, LogisticRegression()).fit(X, Y)
        aggregator = PooledAggregator(pooled=RidgeClassifier(), front=front)
        if refuses:
            with pytest.raises(ValueError, match="takes the columns .1., but .* drops"):
                fitted(aggregator, sites)
        else:
            model, _ = fitted(aggregator, sites)
            assert model.score(X, Y) > 0.8


@pytest.mark.parametrize("method", ["pooled", "combine"])
def test_a_node_that_misses_the_front_takes_no_further_part(method):
    sites = Sites()
    requests_by_task = []

    def ask(requests):
        (task,) = {message.task for message in requests.values()}
        requests_by_task.append((task, sorted(requests)))
        if task != "front":
            return sites.ask(requests)
        to_others = {
            name: request for name, request in requests.items() if name != "lyon"
        }
        return sites.ask(to_others) | {"lyon": TimeoutError("no reply came")}

    channel = Nodes(ask, NAMES)
    with pytest.warns(
        UserWarning, match="'lyon' failed twice .* left out from then on"
    ):
        if method == "pooled":
            PooledAggregator(channel, pooled=RidgeClassifier(), front=FRONT).fit()
        else:
            combine(channel, budget="small", random_state=0)
    names_asked_later = [names for task, names in requests_by_task if task != "front"]
    assert names_asked_later
    assert all(names == ["paris"] for names in names_asked_later)
