# SPDX-License-Identifier: BSD-3-Clause
"""A node makes the requests itself from the agreed settings, and answers no others."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
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
from skgems.federation import (
    Agreement,
    Message,
    NotAgreedError,
    first_request,
    reply_to,
)
from skgems.federation._derived import check_is_derived
from skgems.messages import key_of, sealed
from skgems.spaces import Accuracy, Ball, Sampled


@pytest.fixture(scope="module")
def node():
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)[:200, :5]
    y = np.where(y[:200] == 1, "benign", "malignant")
    return LogisticRegression().fit(X, y), X, y


def ask(node, request, agreement, state=None):
    state = {} if state is None else state
    return reply_to(sealed(request, agreement), *node, name="lyon", state=state)


def joined(aggregator):
    return first_request(aggregator, aggregator._first_requests())


LAYER = {"weights": [np.eye(6, 5)], "activation": ["relu"]}
CHANGED = {
    "kind": {"kind": "shared"},
    "more clusters": {"n_components": 10**5},
    "smaller clusters": {"min_cluster_size": 1},
    "no model": {"model": None},
    "class weights": {"class_weight": [["malignant", 1000.0]]},
    "a dtype": {"n_components": 16.0},
}


@pytest.mark.parametrize("has_agreement", [True, False])
@pytest.mark.parametrize("name", CHANGED)
def test_a_first_request_of_other_content_is_refused(node, name, has_agreement):
    aggregator = GEMSLogisticAggregator(min_cluster_size=50, random_state=0)
    honest = joined(aggregator)
    agreement = Agreement.of(aggregator)
    changed_fields = dict(honest.content["requests"]["0"]["asked"]) | CHANGED[name]
    content = {
        **honest.content,
        "requests": {"0": {"task": "moments", "asked": changed_fields}},
    }
    with pytest.raises(ValueError, match="does not ask|n_components is"):
        if has_agreement:
            ask(node, Message.of("join", **content), agreement)
        else:
            reply_to(Message.of("join", **content), *node, name="lyon")
    assert ask(node, honest, agreement).content["name"] == "lyon"


def test_layers_that_a_server_makes_up_are_refused_in_a_first_message(node):
    aggregator = GEMSLogisticAggregator(random_state=0)
    content = joined(aggregator).content
    fields_with_layers = content["requests"]["0"]["asked"] | {
        "hidden": LAYER,
        "model": None,
    }
    content["requests"] = {"0": {"task": "moments", "asked": fields_with_layers}}
    with pytest.raises(ValueError, match="hidden layers of the server's"):
        ask(node, Message.of("join", **content), Agreement.of(aggregator))


@pytest.mark.parametrize("n_requests", [0, 2, 400])
def test_as_many_first_requests_are_answered_as_the_method_makes(node, n_requests):
    aggregator = GEMSLogisticAggregator(random_state=0)
    content = joined(aggregator).content
    one = content["requests"]["0"]
    content["requests"] = {str(k): one for k in range(n_requests)}
    with pytest.raises(
        NotAgreedError, match=f"makes {n_requests} requests, .* makes 1"
    ):
        ask(node, Message.of("join", **content), Agreement.of(aggregator))


def test_thresholds_of_sums_are_those_agreed(node):
    aggregator = PooledAggregator(pooled=BernoulliNB(binarize=0.5))
    agreement = Agreement.of(aggregator)
    content = joined(aggregator).content
    thresholds = [{"of": "above", "threshold": t} for t in np.linspace(-3.0, 3.0, 5)]
    content["requests"] = {
        str(k): {"task": "class_sums", "asked": fields}
        for k, fields in enumerate(thresholds)
    }
    with pytest.raises(NotAgreedError, match="threshold=0.5, now threshold=-3.0"):
        ask(node, Message.of("join", **content), agreement)


def test_the_halves_of_rows_are_asked_what_was_agreed(node):
    aggregator = GEMSLogisticAggregator(random_state=0)
    content = joined(aggregator).content
    method = {
        "method": content["method"],
        "settings": content["settings"],
        "further_settings": aggregator._further_settings(),
    }
    agreement = Agreement(
        exchange="a" * 32,
        method="combine",
        settings={"methods": [method], "fronts": []},
        tasks={"halves": 1, "moments": 1},
    )
    honest = Message.of("halves", asked={"0": content})
    check_is_derived(honest, agreement)
    changed = content["requests"]["0"]["asked"] | {"n_components": 99}
    hostile = {**content, "requests": {"0": {"task": "moments", "asked": changed}}}
    with pytest.raises(NotAgreedError, match="n_components=16, now n_components=99"):
        check_is_derived(Message.of("halves", asked={"0": hostile}), agreement)
    other = {**content, "settings": content["settings"] | {"moments": "class"}}
    with pytest.raises(NotAgreedError, match="is not agreed"):
        check_is_derived(Message.of("halves", asked={"0": other}), agreement)
    # Of several methods first messages are all that is asked.
    alone = Message.of("moments", **content["requests"]["0"]["asked"])
    with pytest.raises(NotAgreedError, match="does not ask for it"):
        check_is_derived(alone, agreement)


AGGREGATORS = {
    "linear": GEMSLogisticAggregator(),
    "linear, seeded": GEMSLogisticAggregator(random_state=3, moments="diagonal"),
    "class weights": GEMSLogisticAggregator(class_weight={"benign": 2, "malignant": 1}),
    "spaces": GEMSLogisticAggregator(epsilon=0.5, random_state=0),
    "other spaces": GEMSLogisticAggregator(
        epsilon=0.7,
        geometry=Ball(),
        criterion=Accuracy(),
        construction=Sampled(n_directions=20),
        scale_logits=False,
        random_state=1,
    ),
    "spaces by log-loss": GEMSLogisticAggregator(criterion="log_loss", epsilon=1.0),
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
    """Whatever the server's aggregator asks first, the node makes to the byte."""
    aggregator = AGGREGATORS[name]
    agreement = Agreement.from_json(Agreement.of(aggregator).to_json())
    node_aggregator = type(aggregator)._of_settings(
        aggregator._settings_at_nodes(), agreement.further_settings
    )
    for requests in ("_first_requests", "_later_requests"):
        expected = [key_of(request) for request in getattr(aggregator, requests)()]
        if aggregator.random_state is None:
            continue  # seeds of later requests for spaces are drawn anew
        assert [
            key_of(request) for request in getattr(node_aggregator, requests)()
        ] == expected
    check_is_derived(joined(aggregator), agreement)


def test_a_later_request_is_one_of_the_method_whatever_layers_it_is_about():
    aggregator = GEMSMLPAggregator(n_rounds=2, random_state=0)
    agreement = Agreement.of(aggregator)
    of_last, clusters = aggregator._later_requests()
    check_is_derived(clusters, agreement)
    check_is_derived(Message.of("moments", **of_last.content, hidden=LAYER), agreement)
    for name, value in {"kind": "class", "n_components": 999}.items():
        changed = Message.of(
            "moments", **of_last.content | {name: value, "hidden": LAYER}
        )
        with pytest.raises(NotAgreedError, match=f"now {name}={value!r}"):
            check_is_derived(changed, agreement)
    sums = Message.of("class_sums", of="above", threshold=0.0)
    with pytest.raises(NotAgreedError, match="does not ask for it: class_sums"):
        check_is_derived(sums, agreement)


@pytest.mark.parametrize(
    "changed",
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
def test_settings_that_no_aggregator_has_are_refused(changed):
    aggregator = GEMSLogisticAggregator(random_state=0)
    content = joined(aggregator).content
    content["settings"] = content["settings"] | changed
    with pytest.raises(NotAgreedError, match="settings of GEMSLogis.* cannot be read"):
        check_is_derived(Message.of("join", **content), None)


def test_a_method_that_the_node_does_not_know_is_refused():
    content = joined(GEMSLogisticAggregator(random_state=0)).content
    content["method"] = "BaseAggregator"
    with pytest.raises(NotAgreedError, match="'BaseAggregator' is not known at this"):
        check_is_derived(Message.of("join", **content), None)
