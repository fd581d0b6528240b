# SPDX-License-Identifier: BSD-3-Clause
"""How many models a node judges, how steep ones, and of how many rows gradients are."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.agreements import Node, agreement_on_rounds, judging_content, request_under
from helpers.disclosures import rule_of
from helpers.tasks import ask
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from skgems import Disclosure, GEMSLogisticAggregator
from skgems.asking import Message, Nodes
from skgems.guard import reply_to
from skgems.local import Member

pytestmark = [
    pytest.mark.usefixtures("accepting_nodes"),
    pytest.mark.filterwarnings(
        "ignore::skgems.parties.ClassesLeftOutWarning",
        "ignore::sklearn.exceptions.ConvergenceWarning",
    ),
]


# ---- rows by many models: the attack of 4,001 steps --------------------------------


def steps(thresholds, direction, scale):
    """Linear models that say 1 strictly above a threshold along a direction."""
    W = np.zeros((len(thresholds), len(direction) + 1, 2))
    W[:, :-1, 1] = scale * direction
    W[:, -1, 1] = -scale * thresholds
    return W


def rows_found(gradients, rows):
    """How many rows differences of gradients show to 1e-6."""
    sums = gradients[:, :, 1]
    differences = sums[:-1] - sums[1:]
    one = np.abs(differences[:, -1] - 1.0) < 1e-6
    return sum(np.abs(rows - f).max(axis=1).min() < 1e-6 for f in differences[one, :-1])


@pytest.fixture(scope="module")
def direction(node):
    v = np.random.default_rng(0).standard_normal(node[1].shape[1])
    return v / np.linalg.norm(v)


def test_so_many_models_are_not_judged(node, direction):
    W = steps(np.linspace(-8, 8, 4001), direction, 1e5)
    content = judging_content(W, ["malignant"], [0], gradient=True)
    with pytest.raises(ValueError, match="evaluate.W are 4001 models, more than 7"):
        reply_to(Message.of("evaluate", **content), *node, name="lyon")


@pytest.mark.parametrize("scale", [1e5, 1e2, 3.0])
def test_a_few_at_a_time_show_no_row(node, direction, scale):
    """Neither by steepness nor by patience, in as many messages as may be agreed."""
    clf, X, y = node
    rows = X[y == "malignant"]
    server = agreement_on_rounds(n_rounds=26)
    at_node = Node(node, server)
    # Between the rows that lie farthest out, where one row at a time would come in.
    places = np.sort(rows @ direction)[-30:]
    thresholds = (places[1:] + places[:-1]) / 2
    gradients = []
    unbounded_gradients = []
    for few_thresholds in np.array_split(thresholds, 5):
        W = steps(few_thresholds, direction, scale)
        content = judging_content(W, ["malignant"], [0], gradient=True)
        reply = at_node(request_under(server, "evaluate", **content)).content
        gradients.append(reply["gradient"])
        member = Member.from_estimator("lyon", clf, X, y)
        slopes = W[:, :-1, 1] @ X.T
        assert np.isnan(reply["losses"]).all() == (np.sqrt(np.mean(slopes**2)) > 150)
        unbounded_gradients.append(_unbounded(member, **content))
    assert rows_found(np.concatenate(gradients), rows) == 0
    if scale == 1e5:  # what they would say otherwise
        assert rows_found(np.concatenate(unbounded_gradients), rows) > 15


def _unbounded(member, *, W, **content):
    """Gradients without a bound on how steep models are."""
    X = member.X[member.y == "malignant"]
    y = np.zeros(104, dtype=int)
    gradients = []
    for model in W:
        logits = X @ model[:-1] + model[-1]
        proba = np.exp(logits - logits.max(axis=1, keepdims=True))
        residuals = proba / proba.sum(axis=1, keepdims=True) - np.eye(2)[y]
        gradients.append(np.vstack([X.T @ residuals, residuals.sum(axis=0)]))
    return np.array(gradients)


def test_counts_of_rows_that_are_right_are_rounded(node, direction):
    clf, X, y = node
    places = np.sort(X @ direction)[::9]
    # Under which every row counts once.
    rule = Disclosure(rows=2, cell=1, unknowns=1.0, min_rows=20)
    server = agreement_on_rounds(n_rounds=26, disclosure=rule)
    counts = []
    at_node = Node(node, server, disclosure=rule)
    for few_places in np.array_split(places, 4):
        content = judging_content(
            steps(few_places, direction, 1.0), ["malignant", "benign"], [0, 1]
        )
        counts.extend(
            at_node(request_under(server, "evaluate", **content)).content["right"]
        )
    exact = ask("evaluate", Member.from_estimator("a", clf, X, y), **content)["right"]
    assert (np.array(counts) % 20 == 0).all() and (exact % 20 != 0).any()
    assert np.abs(np.array(counts[-len(exact) :]) - exact).max() <= 10


# ---- gradients of few rows ---------------------------------------------------------


def test_effective_rows_are_those_of_gradients_and_of_their_differences(node):
    clf, X, y = node
    W = np.vstack([clf.coef_.T, clf.intercept_])
    W = np.hstack([-W / 2, W / 2])
    models = np.stack([0.5 * W, 0.6 * W, 2.0 * W])
    content = judging_content(models, ["benign", "malignant"], [0, 1], gradient=True)
    member = Member.from_estimator("lyon", clf, X, y, disclosure=rule_of(2))
    evaluated = ask("evaluate", member, **content)
    codes = (y == "malignant").astype(int)
    residuals_of_models = []
    for model in models:
        logits = X @ model[:-1] + model[-1]
        proba = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        residuals_of_models.append(proba - np.eye(2)[codes])

    def effective(residuals):
        sizes = np.abs(residuals).sum(axis=1)
        return sizes.sum() ** 2 / (sizes**2).sum()

    expected = [
        min(effective(w), *(effective(w - v) for v in residuals_of_models[:j]), np.inf)
        for j, w in enumerate(residuals_of_models)
    ]
    np.testing.assert_allclose(evaluated["effective_rows"], expected, rtol=1e-9)
    assert not np.isnan(evaluated["gradient"]).any()
    least = int(np.ceil(min(expected)))
    bound = Disclosure(rows=2, cell=1, unknowns=1.0, min_rows=least)
    bounded = ask(
        "evaluate",
        Member.from_estimator("lyon", clf, X, y, disclosure=bound),
        **content,
    )
    withheld = np.isnan(bounded["gradient"]).any(axis=(1, 2))
    np.testing.assert_array_equal(withheld, np.array(expected) < least)
    assert withheld.any() and not np.isnan(bounded["losses"]).any()
    assert "effective_rows" not in ask(
        "evaluate", Member.from_estimator("a", clf, X, y), **content
    )


def fitted_over_channel(clfs, X, y, nodes, aggregator, **options):
    """Over a channel, each node with its own options."""

    def ask(requests):
        return {
            name: reply_to(
                request,
                clfs[int(name)],
                X[nodes == int(name)],
                y[nodes == int(name)],
                **{"name": name, **options},
            )
            for name, request in requests.items()
        }

    is_open = options.get("disclosure", "auto") is None
    channel = Nodes(
        ask,
        [str(k) for k in range(len(clfs))],
        disclosure=None if is_open else "auto",
    )
    return clone(aggregator).set_params(estimators=channel).fit()


@pytest.fixture(scope="module")
def digits():
    """The digits 0 to 4, each with 50 rows or more at every node that has it."""
    X, y = load_digits(n_class=5, return_X_y=True)
    nodes = np.arange(len(y)) % 3
    nodes[np.isin(y, [0, 1])] = 0
    return X[:, 8:40:2] / 16, y, nodes


# They end where no node tells a gradient, and say so.
ENDS = pytest.mark.filterwarnings("ignore:Messages end after the second")


@ENDS
@pytest.mark.parametrize("C", [1.0, 1e4])
def test_moments_stand_in_for_what_is_not_sent(digits, C):
    X, y, nodes = digits
    clfs = [
        LogisticRegression(C=C, max_iter=300).fit(X[nodes == k], y[nodes == k])
        for k in range(3)
    ]
    agg = GEMSLogisticAggregator(n_rounds=4, C=C, random_state=0)
    first = fitted_over_channel(clfs, X, y, nodes, agg.set_params(n_rounds=1))
    agg.set_params(n_rounds=4)
    # Nothing but losses is sent, then nearly all.
    losses_alone = fitted_over_channel(clfs, X, y, nodes, agg, disclosure=rule_of(50))
    nearly_all = fitted_over_channel(clfs, X, y, nodes, agg, disclosure=None)
    losses = [
        entry["objective"]
        for entry in losses_alone.history_
        if "evaluate" in entry["task"]
    ]
    assert losses == sorted(losses, reverse=True)
    assert losses_alone.score(X, y) > first.score(X, y) - 0.03
    # Losses that are told are without what single rows have more than others.
    loss_of_both = [
        log_loss(y, fitted.predict_proba(X)) for fitted in (nearly_all, losses_alone)
    ]
    assert loss_of_both[0] <= loss_of_both[1] + 1e-3
    direct = clone(agg).set_params(estimators=[(str(k), c) for k, c in enumerate(clfs)])
    direct.fit(X, y, nodes=nodes)
    np.testing.assert_array_equal(nearly_all.coef_, direct.coef_)


@ENDS
def test_models_that_are_too_steep_are_not_taken(digits):
    """All steps of a message may be too steep; the next ones are shorter."""
    X, y, nodes = digits
    clfs = [
        LogisticRegression(C=1e-6).fit(X[nodes == k], y[nodes == k]) for k in range(3)
    ]
    # The models of nodes say nothing, so that every other is steep beside them.
    agg = GEMSLogisticAggregator(n_rounds=5, C=1e10, random_state=0)
    fitted = fitted_over_channel(clfs, X, y, nodes, agg)
    assert fitted.score(X, y) > 0.9
    assert np.isfinite([e["objective"] for e in fitted.history_[1:]]).all()
    member = Member.from_estimator("a", clfs[0], X[nodes == 0], y[nodes == 0])
    W = np.random.RandomState(0).standard_normal((3, 17, 5))
    W -= W.mean(axis=2, keepdims=True)
    logits = X[nodes == 0] @ W[0, :-1] + W[0, -1]
    W /= np.sqrt(np.mean(logits**2))
    W *= np.array([19.0, 1.0, 21.0])[:, None, None]
    content = judging_content(W[[0, 0, 2]], list(range(5)), np.arange(5), gradient=True)
    content["W"][1] = 0.0
    content["factors"] = np.array([1.0, 2.0])
    content["W"][2] = W[0] * 21.0 / 19.0
    evaluated = ask("evaluate", member, of="learning", **content)
    steep = [[False, True], [False, False], [True, True]]
    np.testing.assert_array_equal(np.isnan(evaluated["losses"]), steep)
    for name in ("gradient", "squared_gains"):
        nan = np.isnan(evaluated[name]).reshape(3, -1).any(axis=1)
        np.testing.assert_array_equal(nan, [False, False, True])
