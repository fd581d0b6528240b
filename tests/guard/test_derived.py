# SPDX-License-Identifier: BSD-3-Clause
"""A node answers only the requests that follow from the agreed settings."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import BernoulliNB, GaussianNB
from sklearn.preprocessing import StandardScaler

from skgems import (
    GEMSLogisticAggregator,
    GEMSMLPAggregator,
    ModelAveragingAggregator,
    PFNMAggregator,
    PooledAggregator,
)
from skgems.asking import Message
from skgems.gems import Spaces
from skgems.guard import Agreement, NotAgreedError, reply_to
from skgems.guard._derived import check_is_derived
from skgems.messages import (
    TASKS,
    TERMS,
    Array,
    Number,
    Request,
    Task,
    Terms,
    key_of,
    sealed,
)
from skgems.spaces import Accuracy, Ball, Sampled
from skgems.tasks import DisclosedReply


@pytest.fixture(scope="module")
def node():
    """A node's classifier and rows, of five features and two classes."""
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)[:200, :5]
    y = np.where(y[:200] == 1, "benign", "malignant")
    return LogisticRegression().fit(X, y), X, y


def ask(node, request, agreement):
    """The reply of a node that has a new state, to a request under an agreement."""
    clf, X, y = node
    return reply_to(sealed(request, agreement), clf, X, y, name="lyon", state={})


def join_of(aggregator):
    """The first request of an aggregator."""
    return aggregator._agreed_terms.first_message()


HIDDEN_LAYER = {"weights": [np.eye(6, 5)], "activation": ["relu"]}
# Fields of a first request that are not those of the agreed settings.
CHANGED_FIELDS = {
    "kind": {"kind": "shared"},
    "more clusters": {"n_components": 10**5},
    "smaller clusters": {"min_cluster_size": 2},
    "without the model": {"model": None},
    "class weights": {"class_weight": [["malignant", 1000.0]]},
    "another type": {"n_components": 16.0},
}


@pytest.mark.parametrize("has_agreement", [True, False])
@pytest.mark.parametrize("name", CHANGED_FIELDS)
def test_a_first_request_of_other_content_is_refused(node, name, has_agreement):
    aggregator = GEMSLogisticAggregator(random_state=0)
    honest = join_of(aggregator)
    agreement = Agreement.of(aggregator)
    fields = dict(honest.content["requests"]["0"]["asked"]) | CHANGED_FIELDS[name]
    content = honest.content
    content["requests"] = {"0": {"task": "moments", "asked": fields}}
    changed = Message.of("join", **content)
    with pytest.raises(ValueError, match="does not ask|n_components is"):
        if has_agreement:
            ask(node, changed, agreement)
        else:
            clf, X, y = node
            reply_to(changed, clf, X, y, name="lyon")
    assert ask(node, honest, agreement).content["name"] == "lyon"


def test_layers_that_a_server_makes_up_are_refused_in_a_first_message(node):
    aggregator = GEMSLogisticAggregator(random_state=0)
    content = join_of(aggregator).content
    fields = content["requests"]["0"]["asked"] | {"hidden": HIDDEN_LAYER, "model": None}
    content["requests"] = {"0": {"task": "moments", "asked": fields}}
    with pytest.raises(ValueError, match="hidden layers of the server's"):
        ask(node, Message.of("join", **content), Agreement.of(aggregator))


@pytest.mark.parametrize("n_requests", [0, 2, 400])
def test_more_or_fewer_first_requests_than_the_method_makes_are_refused(
    node, n_requests
):
    aggregator = GEMSLogisticAggregator(random_state=0)
    content = join_of(aggregator).content
    request = content["requests"]["0"]
    content["requests"] = {str(k): request for k in range(n_requests)}
    with pytest.raises(
        NotAgreedError, match=f"contains {n_requests} requests, .* makes 1"
    ):
        ask(node, Message.of("join", **content), Agreement.of(aggregator))


def test_thresholds_of_sums_that_are_not_agreed_are_refused(node):
    aggregator = PooledAggregator(pooled=BernoulliNB(binarize=0.5))
    agreement = Agreement.of(aggregator)
    content = join_of(aggregator).content
    content["requests"] = {
        str(k): {"task": "class_sums", "asked": {"of": "above", "threshold": threshold}}
        for k, threshold in enumerate(np.linspace(-3.0, 3.0, 5))
    }
    with pytest.raises(NotAgreedError, match="threshold=0.5, now threshold=-3.0"):
        ask(node, Message.of("join", **content), agreement)


def halves_agreed_on():
    """An agreement on halves for one method, and the content of its first request."""
    aggregator = GEMSLogisticAggregator(random_state=0)
    content = join_of(aggregator).content
    method = {
        "method": content["method"],
        "settings": content["settings"],
        "further_settings": aggregator._method().terms.further_settings,
    }
    agreement = Agreement(
        exchange="a" * 32,
        method="combine",
        settings={"methods": [method], "fronts": []},
        tasks={"halves": 1, "moments": 1},
    )
    return agreement, content


def test_halves_of_rows_may_be_asked_the_first_request_that_is_agreed():
    agreement, content = halves_agreed_on()
    check_is_derived(Message.of("halves", asked={"0": content}), agreement)


def test_halves_of_rows_are_not_asked_with_other_fields():
    agreement, content = halves_agreed_on()
    fields = content["requests"]["0"]["asked"] | {"n_components": 99}
    changed = {**content, "requests": {"0": {"task": "moments", "asked": fields}}}
    with pytest.raises(NotAgreedError, match="n_components=16, now n_components=99"):
        check_is_derived(Message.of("halves", asked={"0": changed}), agreement)


def test_halves_of_rows_are_not_asked_with_other_settings():
    agreement, content = halves_agreed_on()
    settings = content["settings"] | {"moments": "class"}
    changed = {**content, "settings": settings}
    with pytest.raises(NotAgreedError, match="is not agreed"):
        check_is_derived(Message.of("halves", asked={"0": changed}), agreement)


def test_an_agreement_on_several_methods_allows_only_their_first_requests():
    agreement, content = halves_agreed_on()
    moments_alone = Message.of("moments", **content["requests"]["0"]["asked"])
    with pytest.raises(NotAgreedError, match="does not ask this"):
        check_is_derived(moments_alone, agreement)


AGGREGATORS = {
    "linear": GEMSLogisticAggregator(),
    "linear, seeded": GEMSLogisticAggregator(random_state=3, moments="diagonal"),
    "class weights": GEMSLogisticAggregator(class_weight={"benign": 2, "malignant": 1}),
    "spaces": GEMSLogisticAggregator(epsilon=0.5, random_state=0),
    "other spaces": GEMSLogisticAggregator(
        epsilon=0.7,
        spaces=Spaces(
            Ball(),
            construction=Sampled(n_directions=20),
            criterion=Accuracy(),
            scale_logits=False,
        ),
        random_state=1,
    ),
    "spaces by log-loss": GEMSLogisticAggregator(
        spaces=Spaces(criterion="log_loss"), epsilon=1.0
    ),
    "rounds": GEMSLogisticAggregator(n_rounds=3, epsilon=0.5, random_state=0),
    "pooled": PooledAggregator(),
    "pooled of variances": PooledAggregator(pooled=GaussianNB()),
    "pooled of sums above": PooledAggregator(pooled=BernoulliNB(binarize=0.5)),
    "networks": GEMSMLPAggregator(random_state=0),
    "networks in rounds": GEMSMLPAggregator(n_rounds=2, epsilon=0.5),
    "matched": PFNMAggregator(),
    "matched, last layer": PFNMAggregator(last_layer=GEMSLogisticAggregator()),
    "averages": ModelAveragingAggregator(n_rounds=2),
}


@pytest.mark.parametrize("name", AGGREGATORS)
def test_requests_made_of_agreed_settings_are_those_of_the_aggregator(name):
    aggregator = AGGREGATORS[name]
    agreement = Agreement.from_json(Agreement.of(aggregator).to_json())
    terms = aggregator._agreed_terms
    terms_at_node = TERMS[terms.method].from_settings(
        terms.settings_at_nodes, agreement.further_settings
    )
    if aggregator.random_state is not None:  # else seeds of spaces are drawn anew
        first_requests = terms.first_requests()
        assert keys_of(terms_at_node.first_requests()) == keys_of(first_requests)
        later_requests = terms.later_requests()
        assert keys_of(terms_at_node.later_requests()) == keys_of(later_requests)
    check_is_derived(join_of(aggregator), agreement)


def keys_of(requests):
    """Keys that are equal where the contents of requests are."""
    return [key_of(request) for request in requests]


def test_a_later_request_of_the_method_may_be_about_any_layers():
    aggregator = GEMSMLPAggregator(n_rounds=2, random_state=0)
    agreement = Agreement.of(aggregator)
    of_last, clusters = aggregator._method().terms.later_requests()
    check_is_derived(clusters, agreement)
    check_is_derived(
        Message.of("moments", **of_last.content, hidden=HIDDEN_LAYER), agreement
    )


@pytest.mark.parametrize(("field", "value"), [("kind", "class"), ("n_components", 999)])
def test_a_later_request_with_other_fields_is_refused(field, value):
    aggregator = GEMSMLPAggregator(n_rounds=2, random_state=0)
    agreement = Agreement.of(aggregator)
    of_last, _ = aggregator._method().terms.later_requests()
    fields = of_last.content | {field: value, "hidden": HIDDEN_LAYER}
    with pytest.raises(NotAgreedError, match=f"now {field}={value!r}"):
        check_is_derived(Message.of("moments", **fields), agreement)


def test_a_later_request_of_another_task_is_refused():
    agreement = Agreement.of(GEMSMLPAggregator(n_rounds=2, random_state=0))
    sums = Message.of("class_sums", of="above", threshold=0.0)
    with pytest.raises(NotAgreedError, match="does not ask this: class_sums"):
        check_is_derived(sums, agreement)


def test_a_later_request_for_the_leaves_of_other_trees_is_refused():
    """Were it part of an agreement, the node would answer about the agreed trees."""
    trees = ExtraTreesClassifier(2, max_depth=3, max_features=1, random_state=0)
    agreement = Agreement.of(PooledAggregator(pooled=trees))
    fields = {"n_trees": 2, "max_depth": 3, "random_state": 0}
    check_is_derived(Message.of("leaf_counts", **fields), agreement)
    for change in ({"n_trees": 3}, {"max_depth": 4}, {"random_state": 1}):
        with pytest.raises(NotAgreedError, match="does not ask this: leaf_counts"):
            check_is_derived(Message.of("leaf_counts", **fields | change), agreement)


@pytest.mark.parametrize(
    "changed_settings",
    [
        {"geometry": {"name": "unknown"}},
        {"geometry": 3},
        {"n_components": "many"},
        {"moments": ["class"]},
        {"class_weight": [["a", -1.0]]},
        {"more": 1},
        {"random_state": "x"},
    ],
)
def test_settings_that_no_aggregator_has_are_refused(changed_settings):
    aggregator = GEMSLogisticAggregator(random_state=0)
    content = join_of(aggregator).content
    content["settings"] = content["settings"] | changed_settings
    with pytest.raises(NotAgreedError, match="settings of GEMSLogis.* cannot be read"):
        check_is_derived(Message.of("join", **content), None)


def test_a_method_that_the_node_does_not_know_is_refused():
    content = join_of(GEMSLogisticAggregator(random_state=0)).content
    content["method"] = "BaseAggregator"
    with pytest.raises(NotAgreedError, match="'BaseAggregator' is not known at this"):
        check_is_derived(Message.of("join", **content), None)


class RowsAboveRequest(Request):
    threshold: Annotated[float, Number(low=-1e9, high=1e9)]


class RowsAboveReply(DisclosedReply):
    n: Annotated[np.ndarray, Array("d", low=0.0, high=1e9)]


def rows_above(member, request):
    """The number of rows above a threshold, by feature."""
    X, _ = member.rows("learning")
    return RowsAboveReply(n=(X > request.threshold).sum(axis=0).astype(float))


def task_of_rows_above(*, discloses="counts", **bound):
    """A task of somebody's own, whose request has a number that the server chooses."""
    return Task(
        name="rows_above",
        asks="the number of rows above a threshold",
        request=RowsAboveRequest,
        reply=RowsAboveReply,
        answer=rows_above,
        discloses=discloses,
        most=3,
        without="needed",
        **bound,
    )


@dataclass(frozen=True, kw_only=True)
class ThresholdTerms(Terms):
    """Terms that allow to ask three times, about one agreed threshold."""

    threshold: float = 0.0

    @property
    def settings(self):
        return {"threshold": self.threshold}

    @classmethod
    def from_settings(cls, settings, further_settings):
        return cls(threshold=settings["threshold"])

    def later_requests(self):
        return [Message.of("rows_above", threshold=self.threshold)]

    def most_requests(self, n_hidden_layers):
        return {"rows_above": 3}


def thresholds_answered(node, monkeypatch, *, bound, terms_type=ThresholdTerms):
    """Which of three thresholds a node answers about, where 0 is agreed."""
    monkeypatch.setitem(TASKS, "rows_above", task_of_rows_above(bound=bound))
    monkeypatch.setitem(TERMS, "Threshold", terms_type)
    monkeypatch.setattr(terms_type, "method", "Threshold")
    clf, X, y = node
    terms = terms_type()
    agreement = Agreement.of_terms(terms)
    at_node = {"name": "lyon", "agreement": agreement, "state": {}}
    reply_to(sealed(terms.first_message(), agreement), clf, X, y, **at_node)
    answered = []
    for threshold in (0.0, 1.234, -7.0):
        request = Message.of("rows_above", threshold=threshold)
        with suppress(NotAgreedError):
            reply_to(sealed(request, agreement), clf, X, y, **at_node)
            answered.append(threshold)
    return answered


def test_a_derived_request_of_somebodys_task_is_held_to_the_agreed_settings(
    node, monkeypatch
):
    assert thresholds_answered(node, monkeypatch, bound="derived") == [0.0]


def test_terms_that_do_not_bound_a_task_let_nobody_ask_for_it(node, monkeypatch):
    class Forgetful(ThresholdTerms):
        bounded_tasks = ("rows_above",)

    class Bounding(Forgetful):
        def check_request(self, request):
            if request.content["threshold"] > self.threshold:
                raise ValueError("it is above the agreed threshold.")

    answered = partial(thresholds_answered, node, monkeypatch, bound="terms")
    assert answered() == []
    assert answered(terms_type=Forgetful) == []
    assert answered(terms_type=Bounding) == [0.0, -7.0]


def test_a_task_says_what_bounds_its_requests():
    with pytest.raises(TypeError, match="bound"):
        task_of_rows_above()
    with pytest.raises(ValueError, match="bound of the task 'rows_above' is 'nothing'"):
        task_of_rows_above(bound="nothing")
    with pytest.raises(ValueError, match="discloses of the task 'rows_above' is 'all'"):
        task_of_rows_above(bound="fields", discloses="all")
