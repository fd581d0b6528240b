# SPDX-License-Identifier: BSD-3-Clause
"""Fits in which some nodes may lie: who is left out, and what the fit says of it."""

from __future__ import annotations

import warnings
from copy import deepcopy
from functools import cache

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler

from skgems import (
    Disclosure,
    GEMSLogisticAggregator,
    GEMSMLPAggregator,
    PooledAggregator,
    PooledTransformer,
)
from skgems.asking import ManyRowsWarning, Message, Nodes, NodesDisagreeWarning
from skgems.guard import reply_to
from skgems.parties import Summary

NAMES = [f"node {k}" for k in range(6)]
LIAR = "node 4"
COLUMNS = ["node", "rows", "counted", "spread", "far", "shown", "left_out_by"]


@cache
def digit_rows():
    """Four digits of few features, their labels with one lie, and names of nodes."""
    X, y = load_digits(n_class=4, return_X_y=True)
    X = X[:, 10::4] / 16.0
    nodes = np.array(NAMES)[np.arange(len(y)) % len(NAMES)]
    told = np.where(nodes == LIAR, (y + 1) % 4, y)
    for array in (X, y, nodes, told):
        array.flags.writeable = False
    return X, y, nodes, told


def local_models(X, y, nodes):
    """A fitted classifier of each node, by its name."""
    return [
        (name, LogisticRegression().fit(X[nodes == name], y[nodes == name]))
        for name in np.unique(nodes).tolist()
    ]


def linear(members=None, robust=1, **parameters):
    """A linear aggregator under which at most one node may lie."""
    return GEMSLogisticAggregator(members, robust=robust, random_state=0, **parameters)


def pooled(classifier="LinearDiscriminantAnalysis", robust=1, **parameters):
    """A pooled aggregator under which at most one node may lie."""
    return PooledAggregator(pooled=classifier, robust=robust, **parameters)


def fit_with_warnings(aggregator, *args, **rows):
    """The fitted aggregator, and its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        aggregator.fit(*args, **rows)
    return aggregator, caught


def fitted_quietly(aggregator, *args, **rows):
    """The fitted aggregator, whatever it warns of."""
    return fit_with_warnings(aggregator, *args, **rows)[0]


def weights_of(aggregator):
    """What the aggregate is, as one array."""
    model = aggregator.to_estimator()
    return np.column_stack([model.coef_, model.intercept_])


METHODS = {
    "linear": linear,
    "LDA": pooled,
    "naive Bayes": lambda **parameters: pooled("MultinomialNB", **parameters),
}


# ---- what a fit does -----------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_a_liar_is_left_out_named_and_changes_nothing(method):
    X, y, nodes, told = digit_rows()
    robust, caught = fit_with_warnings(METHODS[method](), X, told, nodes=nodes)
    (warning,) = [w for w in caught if w.category is NodesDisagreeWarning]
    assert f"'{LIAR}' (shown: -" in str(warning.message)
    assert "node 1" not in str(warning.message)
    trust = robust.trust_
    assert list(trust) == COLUMNS and trust["node"] == NAMES
    assert trust["left_out_by"] == ["", "", "", "", "shown", ""]
    assert trust["counted"][4] == 0 < trust["rows"][4] == (nodes == LIAR).sum()
    assert trust["counted"][:4] == trust["rows"][:4]
    honest = nodes != LIAR
    without = fitted_quietly(METHODS[method](robust=0), X[honest], y[honest])
    assert robust.score(X, y) > without.score(X, y) - 0.02
    trusting = fitted_quietly(METHODS[method](robust=0), X, told, nodes=nodes)
    assert trusting.trust_ is None
    assert trusting.score(X, y) < robust.score(X, y)


def test_the_pooled_classifier_is_that_of_the_kept_nodes():
    X, y, nodes, told = digit_rows()
    aggregator = fitted_quietly(pooled(), X, told, nodes=nodes)
    honest = nodes != LIAR
    whole = LinearDiscriminantAnalysis().fit(X[honest], y[honest])
    np.testing.assert_allclose(
        aggregator.decision_function(X), whole.decision_function(X), atol=1e-8
    )
    assert not aggregator.exact_
    assert aggregator.pooled_form_.reason == f"node '{LIAR}' is left out (robust)."


def test_all_nodes_are_kept_where_none_lies():
    X, y, nodes, _ = digit_rows()
    for method in METHODS.values():
        aggregator = method().fit(X, y, nodes=nodes)  # without a warning
        assert aggregator.trust_["left_out_by"] == [""] * len(NAMES)
    assert pooled().fit(X, y, nodes=nodes).exact_


def test_models_of_nodes_change_nothing_as_nobody_can_check_them():
    X, y, nodes, _ = digit_rows()
    members = local_models(X, y, nodes)
    weights = weights_of(linear(members).fit(X, y, nodes=nodes))
    _, model = members[2]
    model.coef_ = -10.0 * model.coef_
    model.intercept_ = -10.0 * model.intercept_
    false_weights = weights_of(fitted_quietly(linear(members), X, y, nodes=nodes))
    np.testing.assert_array_equal(false_weights, weights)


@pytest.mark.parametrize("method", METHODS)
def test_a_node_with_far_more_rows_than_others_counts_a_part_of_them(method):
    X, y, nodes, _ = digit_rows()
    repeats = np.where(nodes == "node 2", 50, 1)
    aggregator, caught = fit_with_warnings(
        METHODS[method](),
        np.repeat(X, repeats, axis=0),
        np.repeat(y, repeats),
        nodes=np.repeat(nodes, repeats),
    )
    (warning,) = [w for w in caught if w.category is ManyRowsWarning]
    n_rows = int((nodes == "node 2").sum())
    largest = max(int((nodes == name).sum()) for name in NAMES if name != "node 2")
    assert f"'node 2' ({2 * largest} of {50 * n_rows})" in str(warning.message)
    trust = aggregator.trust_
    assert trust["counted"][2] == 2 * largest and trust["rows"][2] == 50 * n_rows
    # As if each of its rows weighed so much.
    weights = np.where(nodes == "node 2", 2 * largest / n_rows, 1.0)
    weighted = METHODS[method](robust=0).fit(X, y, nodes=nodes, sample_weight=weights)
    if method != "linear":  # whose corrections a fit with robust leaves out
        np.testing.assert_allclose(
            aggregator.predict_proba(X), weighted.predict_proba(X), atol=1e-8
        )


def test_classes_of_too_few_nodes_are_named_and_used():
    X, y, nodes, _ = digit_rows()
    is_there = (y != 3) | np.isin(nodes, NAMES[:2])
    rows = {"X": X[is_there], "y": y[is_there], "nodes": nodes[is_there]}
    aggregator, caught = fit_with_warnings(pooled(), **rows)
    (warning,) = caught
    assert "the classes 3 cannot be checked" in str(warning.message)
    assert 3 in aggregator.predict(X[y == 3])
    assert any("cannot be checked" in doubt for doubt in aggregator.report().doubts)


def test_public_rows_are_the_servers_and_are_kept():
    X, y, nodes, told = digit_rows()
    with_public = np.where(nodes == "node 0", "public", nodes)
    aggregator = fitted_quietly(pooled(), X, told, nodes=with_public)
    assert aggregator.trust_["node"] == NAMES[1:]
    honest = nodes != LIAR
    whole = LinearDiscriminantAnalysis().fit(X[honest], y[honest])
    np.testing.assert_allclose(
        aggregator.decision_function(X), whole.decision_function(X), atol=1e-8
    )


@pytest.mark.parametrize("method", ["linear", "LDA"])
def test_a_front_that_liars_had_a_part_in_is_named(method):
    X, y, nodes, _ = digit_rows()
    told = np.where(nodes[:, None] == LIAR, 1e4 * X, X)
    fit = METHODS[method](front=StandardScaler())
    aggregator, caught = fit_with_warnings(fit, told, y, nodes=nodes)
    assert aggregator.trust_["left_out_by"][4] == "spread"
    (text,) = [
        str(w.message) for w in caught if "The front was fitted" in str(w.message)
    ]
    assert f"sums of the nodes '{LIAR}' are in it" in text
    # Not where the front was fitted elsewhere.
    front = PooledTransformer(StandardScaler()).fit(X, nodes=nodes)
    _, caught = fit_with_warnings(METHODS[method](front=front), told, y, nodes=nodes)
    assert not any("The front was" in str(w.message) for w in caught)


def test_the_report_has_the_table():
    X, _, nodes, told = digit_rows()
    aggregator = fitted_quietly(linear(), X, told, nodes=nodes)
    report = aggregator.report()
    assert report.nodes["left_out_by"] == [None, None, None, None, "shown", None]
    assert report.nodes["counted"][4] == 0
    assert "left out by" in str(report) and "left out by" in report.to_markdown()
    # The aggregate is scored there, but its loss is of sums that it is not made of.
    assert report.nodes["log_loss"][4] is None


# ---- files, channels and rules -------------------------------------------------------


def summaries_by(aggregator, members, X, y, nodes, **options):
    """What each node sends as a file."""
    return [
        aggregator.summarize(
            model, X[nodes == name], y[nodes == name], name=name, **options
        )
        for name, model in members
    ]


@pytest.mark.parametrize("method", ["linear", "LDA"])
def test_files_give_the_same_aggregate_to_the_bit(method):
    X, _, nodes, told = digit_rows()
    members = local_models(X, told, nodes)
    if method == "LDA":
        members = [(name, None) for name, _ in members]
    make = METHODS[method]
    here = make() if method == "LDA" else make(members=members)
    here = fitted_quietly(here, X, told, nodes=nodes)
    # Nodes need not know how many the server thinks may lie.
    files = summaries_by(make(robust=0), members, X, told, nodes, disclosure=None)
    there = fitted_quietly(make().set_params(estimators=files))
    np.testing.assert_array_equal(weights_of(there), weights_of(here))
    assert there.trust_ == here.trust_


@pytest.mark.parametrize("method", ["linear", "LDA"])
def test_a_channel_gives_the_same_aggregate_to_the_bit(method):
    X, _, nodes, told = digit_rows()
    members = dict(local_models(X, told, nodes))

    def ask(requests):
        for name, request in requests.items():
            model = members[name] if method == "linear" else None
            rows = nodes == name
            yield name, reply_to(request, model, X[rows], told[rows], name=name)

    make = METHODS[method]
    channel = Nodes(ask, NAMES)
    there = fitted_quietly(make().set_params(estimators=channel))
    here = make(disclosure=Disclosure())
    if method == "linear":
        here.set_params(estimators=list(members.items()))
    here = fitted_quietly(here, X, told, nodes=nodes)
    np.testing.assert_array_equal(weights_of(there), weights_of(here))
    assert there.trust_ == here.trust_


@pytest.mark.parametrize("method", METHODS)
def test_a_liar_is_found_in_what_the_rule_of_disclosure_lets_out(method):
    X, y, nodes, told = digit_rows()
    aggregator = METHODS[method](disclosure=Disclosure())
    aggregator = fitted_quietly(aggregator, X, told, nodes=nodes)
    assert aggregator.trust_["left_out_by"] == ["", "", "", "", "shown", ""]
    assert aggregator.score(X, y) > 0.85


@pytest.mark.parametrize("method", METHODS)
def test_weights_of_rows_are_claimed_and_counted(method):
    X, _, nodes, told = digit_rows()
    weights = np.random.default_rng(0).integers(1, 4, len(told)) / 2.0
    aggregator = fitted_quietly(
        METHODS[method](), X, told, nodes=nodes, sample_weight=weights
    )
    trust = aggregator.trust_
    assert trust["left_out_by"] == ["", "", "", "", "shown", ""]
    by_node = [weights[nodes == name].sum() for name in NAMES]
    np.testing.assert_allclose(trust["rows"], by_node)


@pytest.mark.parametrize("field", ["counts", "triangles"])
def test_sums_that_no_rows_have_are_refused_before_nodes_are_judged(field):
    X, _, nodes, told = digit_rows()
    members = [(name, None) for name in NAMES]
    file, *_ = summaries_by(pooled(), members, X, told, nodes, disclosure=None)
    content = deepcopy(file.message.content)
    moments = content["answers"]["0"]["reply"]["moments"]
    moments[field] = -moments[field]
    with pytest.raises(ValueError, match=rf"moments\.{field}"):
        Summary(Message.of(file.message.task, **content))


def test_nodes_are_judged_again_after_update_and_forget():
    X, y, nodes, told = digit_rows()
    honest = nodes != LIAR
    aggregator = pooled(keep_replies=True).fit(
        X[honest], y[honest], nodes=nodes[honest]
    )
    (file,) = summaries_by(pooled(), [(LIAR, None)], X, told, nodes, disclosure=None)
    with pytest.warns(NodesDisagreeWarning, match=LIAR):
        aggregator.update([file])
    assert aggregator.trust_["left_out_by"][-1] == "shown"
    aggregator.forget(LIAR)
    assert aggregator.trust_["node"] == [name for name in NAMES if name != LIAR]


def test_a_search_tries_numbers_of_liars():
    X, y, nodes, _ = digit_rows()
    search = GridSearchCV(
        linear([(name, None) for name in NAMES]), {"robust": [0, 1]}, cv=2
    )
    search.fit(X, y, nodes=nodes)
    assert search.best_params_["robust"] in (0, 1)
    assert clone(linear()).robust == 1


# ---- what cannot be ------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_liars_may_not_be_the_majority(method):
    X, y, nodes, _ = digit_rows()
    with pytest.raises(
        ValueError, match=r"robust=3 needs more than 6 nodes.*there are 6"
    ):
        METHODS[method](robust=3).fit(X, y, nodes=nodes)
    two = np.isin(nodes, NAMES[:2])
    with pytest.raises(ValueError, match="there are 2. Add nodes, .* to at most 0"):
        METHODS[method]().fit(X[two], y[two], nodes=nodes[two])


@pytest.mark.parametrize("value", [-1, 0.5, "one", True])
def test_robust_is_a_number_of_nodes(value):
    X, y, nodes, _ = digit_rows()
    for method in (linear, pooled):
        if value is True:  # which is the number 1
            method(robust=value).fit(X, y, nodes=nodes)
            continue
        with pytest.raises(ValueError, match="'robust' parameter"):
            method(robust=value).fit(X, y, nodes=nodes)


@pytest.mark.parametrize(
    "parameters",
    [{"epsilon": 0.5}, {"intersection": "consensus"}, {"n_rounds": 2}],
    ids=lambda parameters: next(iter(parameters)),
)
def test_models_and_gradients_cannot_be_checked(parameters):
    X, y, nodes, _ = digit_rows()
    members = local_models(X, y, nodes)
    (name,) = parameters
    with pytest.raises(ValueError, match=f"robust=1 .*{name}"):
        linear(members, **parameters).fit(X, y, nodes=nodes)


def test_regions_and_hidden_layers_and_trees_cannot_be_checked():
    X, y, nodes, _ = digit_rows()
    members = [(name, None) for name in NAMES]
    files = summaries_by(pooled(), members, X, y, nodes, disclosure=None)
    with pytest.raises(ValueError, match="robust=1 judges nodes one by one"):
        pooled().merge_summaries(files, name="north")
    files = summaries_by(linear(), members, X, y, nodes, disclosure=None)
    with pytest.raises(ValueError, match="robust=1 judges nodes one by one"):
        linear().merge_summaries(files, name="north")
    with pytest.raises(ValueError, match="last_layer has robust=1"):
        GEMSMLPAggregator(local_models(X, y, nodes), last_layer=linear()).fit(
            X, y, nodes=nodes
        )
