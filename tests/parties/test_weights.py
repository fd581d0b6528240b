# SPDX-License-Identifier: BSD-3-Clause
"""Weights of rows: a row of weight w counts as w rows, and one of weight 0 as none."""

from __future__ import annotations

import warnings
from inspect import signature

import numpy as np
import pytest
import sklearn
from helpers.disclosures import rule_of
from helpers.tasks import ask
from numpy.random import RandomState
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import skgems
from skgems import GEMSLogisticAggregator, PooledAggregator
from skgems.asking import Message, Nodes
from skgems.gems import Moments
from skgems.guard import RowsChangedError, inspect, reply_to
from skgems.local import Member
from skgems.parties import Summary

N_ROWS = 240
NAMES = np.array(["lyon", "paris", "rome"])
# One cluster a class, so that nothing is drawn.
PLAIN = Moments(n_components=1)


def made_rows(seed=0):
    """Rows of three classes, their nodes, and weights from 0 to 4."""
    rng = RandomState(seed)
    y = rng.randint(0, 3, N_ROWS)
    X = rng.standard_normal((N_ROWS, 4)) + np.eye(4)[y]
    return X, y, NAMES[rng.randint(0, 3, N_ROWS)], rng.randint(0, 5, N_ROWS)


X, Y, NODES, WEIGHTS = made_rows()
REPEATED = np.repeat(np.arange(N_ROWS), WEIGHTS)
PRESENT = WEIGHTS > 0


def fitted_members():
    """A classifier of each node, fitted with the weights."""
    members = []
    for name in NAMES:
        rows = name == NODES
        classifier = LogisticRegression(tol=1e-8, max_iter=1000)
        classifier.fit(X[rows], Y[rows], sample_weight=WEIGHTS[rows])
        members.append((name, classifier))
    return members


MEMBERS = fitted_members()


def linear(estimators=None, **parameters):
    return GEMSLogisticAggregator(
        estimators, **{"random_state": 0, "moments": PLAIN} | parameters
    )


def assert_same(aggregate, other, rows=X, atol=1e-9):
    np.testing.assert_allclose(
        aggregate.predict_proba(rows), other.predict_proba(rows), atol=atol
    )


def summaries(aggregator, members=MEMBERS):
    """A summary of each node, whose rows have the weights, and no rule lowers them."""
    return [
        aggregator.summarize(
            classifier,
            X[name == NODES],
            Y[name == NODES],
            sample_weight=WEIGHTS[name == NODES],
            name=name,
            disclosure=None,
        )
        for name, classifier in members
    ]


def sums_in(summary):
    """The moments that a node has sent."""
    requests = {request.task: request for request in summary.requests}
    return summary.get(requests["moments"]).content["moments"]


# ---- equal to repeated rows ------------------------------------------------------


@pytest.mark.parametrize("form", [np.asarray, csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("has_nodes", [True, False])
@pytest.mark.parametrize("parameters", [{}, {"n_rounds": 3}], ids=str)
def test_linear_models_are_those_of_repeated_rows(form, has_nodes, parameters):
    nodes = {"nodes": NODES} if has_nodes else {}
    of_repeated = {"nodes": NODES[REPEATED]} if has_nodes else {}
    with warnings.catch_warnings():
        # Of spaces, which are not needed here.
        warnings.filterwarnings("ignore", "nodes is not given")
        weighted = linear(MEMBERS, **parameters).fit(
            form(X), Y, sample_weight=WEIGHTS, **nodes
        )
        repeated = linear(MEMBERS, **parameters).fit(
            form(X[REPEATED]), Y[REPEATED], **of_repeated
        )
    assert_same(weighted, repeated, atol=1e-7)


@pytest.mark.parametrize(
    "parameters", [{"class_weight": "balanced"}, {"C": 0.1}], ids=str
)
def test_nodes_of_rows_alone_are_those_of_repeated_rows(parameters):
    rows_alone = [(name, None) for name in NAMES]
    weighted = linear(rows_alone, **parameters).fit(
        X, Y, nodes=NODES, sample_weight=WEIGHTS
    )
    repeated = linear(rows_alone, **parameters).fit(
        X[REPEATED], Y[REPEATED], nodes=NODES[REPEATED]
    )
    assert_same(weighted, repeated, atol=1e-7)


@pytest.mark.parametrize(
    "pooled",
    [
        RidgeClassifier(class_weight="balanced"),
        "LinearDiscriminantAnalysis",
        "NearestCentroid",
        "QuadraticDiscriminantAnalysis",
        "GaussianNB",
        "MultinomialNB",
        "BernoulliNB",
        "CategoricalNB",
    ],
    ids=str,
)
def test_pooled_classifiers_are_those_of_repeated_rows(pooled):
    # Amounts, and with CategoricalNB numbers of categories.
    rows = np.clip(np.round(X + 4), 0, 8) if "NB" in str(pooled) else X
    nodes = np.where(np.arange(N_ROWS) % 9 == 0, "public", NODES)
    weighted = PooledAggregator(pooled=pooled).fit(
        rows, Y, nodes=nodes, sample_weight=WEIGHTS
    )
    repeated = PooledAggregator(pooled=pooled).fit(
        rows[REPEATED], Y[REPEATED], nodes=nodes[REPEATED]
    )
    assert weighted.exact_
    for method in ("decision_function", "predict_proba"):
        if hasattr(weighted, method):
            np.testing.assert_allclose(
                getattr(weighted, method)(rows[PRESENT]),
                getattr(repeated, method)(rows[PRESENT]),
                rtol=1e-7,
                atol=1e-9,
            )


def test_a_pooled_classifier_is_scikit_learns_with_the_same_weights():
    weights = WEIGHTS + 0.25
    pooled = PooledAggregator(pooled=RidgeClassifier())
    pooled.fit(X, Y, nodes=NODES, sample_weight=weights)
    whole = RidgeClassifier().fit(X, Y, sample_weight=weights)
    np.testing.assert_allclose(
        pooled.decision_function(X), whole.decision_function(X), atol=1e-8
    )


@pytest.mark.parametrize("aggregator", [linear(moments="auto"), PooledAggregator()])
def test_a_row_of_weight_zero_is_an_absent_row(aggregator):
    # With clusters, too: what is drawn is drawn among the rows that are there.
    members = [(name, None) for name in NAMES]
    aggregator = clone(aggregator).set_params(estimators=members)
    odd_rows = np.where(PRESENT[:, None], X, 1e9)
    labels = np.where(PRESENT, Y, 7)  # a class that nobody else has
    with_them = clone(aggregator).fit(
        odd_rows, labels, nodes=NODES, sample_weight=PRESENT.astype(float)
    )
    without_them = clone(aggregator).fit(
        X[PRESENT],
        Y[PRESENT],
        nodes=NODES[PRESENT],
        sample_weight=np.ones(sum(PRESENT)),
    )
    np.testing.assert_array_equal(with_them.classes_, without_them.classes_)
    np.testing.assert_array_equal(
        with_them.decision_function(X), without_them.decision_function(X)
    )


def test_weights_move_the_means_of_clusters():
    rng = RandomState(0)
    rows = rng.standard_normal((80, 2)) + 6 * (np.arange(80) % 2)[:, None]
    weights = np.where(rows[:, 0] > 3, 5.0, 1.0)
    summary = linear(moments=Moments(n_components=2)).summarize(
        None, rows, np.repeat(["a", "b"], 40), sample_weight=weights, name="lyon"
    )
    sums = sums_in(summary)
    # Each class has its two clusters, of which one weighs five times as much.
    np.testing.assert_array_equal(np.sort(sums["counts"]), [20, 20, 100, 100])
    means = sums["origin"] + sums["means"]
    for c, label_rows in enumerate((rows[:40], rows[40:])):
        of_class = means[sums["columns"] == c]
        for is_high in (False, True):
            mean = label_rows[(label_rows[:, 0] > 3) == is_high].mean(axis=0)
            assert np.abs(of_class - mean).sum(axis=1).min() < 1e-9


def test_simulated_classifiers_are_trained_with_the_weights():
    unfitted = make_pipeline(StandardScaler(), LogisticRegression())
    aggregate = linear(unfitted, validation_fraction=0.0)
    aggregate.fit(X, Y, nodes=NODES, sample_weight=WEIGHTS)
    rows = (NODES == aggregate.node_names_[0]) & PRESENT
    alone = clone(unfitted)
    alone.fit(X[rows], Y[rows], logisticregression__sample_weight=WEIGHTS[rows])
    np.testing.assert_allclose(aggregate.estimators_[0][-1].coef_, alone[-1].coef_)


# ---- away from this process ------------------------------------------------------


@pytest.mark.parametrize("moments", ["auto", PLAIN], ids=["clusters", "classes"])
def test_files_channels_and_rows_give_the_same(tmp_path, moments):
    here = linear(MEMBERS, moments=moments)
    here.fit(X, Y, nodes=NODES, sample_weight=WEIGHTS)
    sent = summaries(linear(moments=moments))
    paths = [tmp_path / f"{summary.name}.safetensors" for summary in sent]
    for summary, path in zip(sent, paths, strict=True):
        summary.save(path)
    of_files = linear(paths, moments=moments).fit()
    np.testing.assert_array_equal(of_files.coef_, here.coef_)

    def node(name, request):
        rows = name == NODES
        return reply_to(
            request,
            dict(MEMBERS)[name],
            X[rows],
            Y[rows],
            name=name,
            sample_weight=WEIGHTS[rows],
            disclosure=None,
        )

    def ask(requests):
        return {name: node(name, request) for name, request in requests.items()}

    channel = Nodes(ask, NAMES.tolist(), disclosure=None)
    np.testing.assert_array_equal(
        linear(channel, moments=moments).fit().coef_, here.coef_
    )


@pytest.mark.parametrize("pooled", [None, "GaussianNB", "MultinomialNB"])
@pytest.mark.parametrize("n_chunks", [1, 3])
def test_chunks_have_the_weights_of_their_rows(pooled, n_chunks):
    rows = np.abs(X)
    aggregator = linear() if pooled is None else PooledAggregator(pooled=pooled)
    sent = []
    for name in NAMES:
        parts = np.array_split(np.flatnonzero(name == NODES), n_chunks)

        def chunks(parts=parts):
            return ((rows[part], Y[part], None, WEIGHTS[part]) for part in parts)

        summary = aggregator.summarize(None, chunks=chunks, name=name, disclosure=None)
        sent.append(summary)
    of_chunks = clone(aggregator).set_params(estimators=sent).fit()
    members = [(name, None) for name in NAMES]
    of_rows = clone(aggregator).set_params(estimators=members)
    of_rows.fit(rows, Y, nodes=NODES, sample_weight=WEIGHTS)
    assert_same(of_chunks, of_rows, rows)


def test_either_all_chunks_have_weights_or_none():
    def chunks():
        yield X[:100], Y[:100], None, np.ones(100)
        yield X[100:], Y[100:]

    with pytest.raises(ValueError, match=r"'lyon', chunk 1: .* all chunks weights"):
        linear().summarize(None, chunks=chunks, name="lyon")


def test_a_region_tells_the_weights_of_its_nodes():
    sent = summaries(linear())
    region = linear().merge_summaries(sent, name="region")
    weights = np.bincount(Y, WEIGHTS)
    np.testing.assert_allclose(region.row_counts["weights"], weights)
    np.testing.assert_array_equal(region.row_counts["moments"], np.bincount(Y[PRESENT]))
    assert_same(linear([region]).fit(), linear(sent).fit(), atol=1e-8)


def test_nodes_are_added_and_forgotten_with_their_weights():
    first = NODES != "rome"
    aggregate = linear(MEMBERS[:2], keep_replies=True)
    aggregate.fit(X[first], Y[first], nodes=NODES[first], sample_weight=WEIGHTS[first])
    rome = ~first
    aggregate.update(MEMBERS[2:], X[rome], Y[rome], sample_weight=WEIGHTS[rome])
    whole = linear(MEMBERS).fit(X, Y, nodes=NODES, sample_weight=WEIGHTS)
    np.testing.assert_array_equal(aggregate.coef_, whole.coef_)
    aggregate.forget("rome")
    without = linear(MEMBERS[:2])
    without.fit(X[first], Y[first], nodes=NODES[first], sample_weight=WEIGHTS[first])
    np.testing.assert_array_equal(aggregate.coef_, without.coef_)


def test_bounds_count_rows_and_not_weights():
    is_rare = np.flatnonzero(Y == 0)[9:]
    kept = np.delete(np.arange(N_ROWS), is_rare)
    heavy = np.where(Y == 0, 1e4, 1e-3)
    with pytest.warns(skgems.parties.ClassesLeftOutWarning, match=r"0: 9"):
        summary = linear().summarize(
            None, X[kept], Y[kept], sample_weight=heavy[kept], name="lyon"
        )
    assert summary.row_counts["labels"] == [1, 2]
    # Of clusters, too: a few heavy rows are not one.
    summary = linear(moments=Moments(n_components=8)).summarize(
        None, X, Y, sample_weight=np.where(X[:, 0] > 1, 1e4, 1.0), name="lyon"
    )
    sums = sums_in(summary)
    n_parts = np.bincount(sums["columns"])
    assert (n_parts <= np.bincount(Y) // summary.disclosure.min_rows).all()


def test_rows_that_are_right_are_rounded_to_the_heaviest_rows():
    # A weight must not tell whether one row is right.
    weights = np.where(np.arange(N_ROWS) == 0, 3.0, 0.5)
    member = Member.from_estimator(
        "lyon", MEMBERS[0][1], X, Y, weights=weights, disclosure=rule_of(4)
    )
    sums = ask(
        "evaluate",
        member,
        W=np.vstack([MEMBERS[0][1].coef_.T, MEMBERS[0][1].intercept_]),
        labels=[0, 1, 2],
        columns=np.arange(3),
        factors=np.ones(1),
    )
    assert sums["right"] % (4 * 3.0) == 0
    assert 0 < sums["right"] < sums["count"] == weights.sum()


def test_an_exchange_is_about_rows_of_the_same_weights():
    state = {}

    def reply(request, weights):
        return reply_to(
            request, None, X, Y, name="lyon", sample_weight=weights, state=state
        )

    weights = iter([WEIGHTS + 1, WEIGHTS + 2])  # the same rows are there
    channel = Nodes(
        lambda requests: {"lyon": reply(requests["lyon"], next(weights))}, ["lyon"]
    )
    with pytest.raises(RowsChangedError, match="'lyon'"):
        linear(channel, n_rounds=2).fit()


def test_inspect_tells_rows_beside_weights(tmp_path):
    summary = summaries(linear())[0]
    summary.save(tmp_path / "lyon.safetensors")
    told = str(inspect(tmp_path / "lyon.safetensors"))
    n_rows = np.bincount(Y[(NODES == "lyon") & PRESENT])
    assert f"0: {n_rows[0]}, 1: {n_rows[1]}, 2: {n_rows[2]}" in told
    inspected = inspect(tmp_path / "lyon.safetensors", verbose=True)
    assert "of the weights of the rows" in " ".join(str(inspected).split())


# ---- scikit-learn's protocol -----------------------------------------------------


def test_cross_validation_slices_the_weights():
    kept = np.arange(N_ROWS) % 3 != 0
    cv = [(np.flatnonzero(kept), np.flatnonzero(~kept))]
    params = {"nodes": NODES, "sample_weight": WEIGHTS}
    results = cross_validate(
        linear(MEMBERS), X, Y, cv=cv, params=params, return_estimator=True
    )
    alone = linear(MEMBERS).fit(
        X[kept], Y[kept], nodes=NODES[kept], sample_weight=WEIGHTS[kept]
    )
    np.testing.assert_array_equal(results["estimator"][0].coef_, alone.coef_)


def test_weights_are_routed_as_metadata():
    with sklearn.config_context(enable_metadata_routing=True):
        aggregator = linear(MEMBERS).set_fit_request(nodes=True, sample_weight=True)
        pipeline = make_pipeline("passthrough", aggregator)
        pipeline.fit(X, Y, nodes=NODES, sample_weight=WEIGHTS)
    alone = linear(MEMBERS).fit(X, Y, nodes=NODES, sample_weight=WEIGHTS)
    np.testing.assert_array_equal(pipeline[-1].coef_, alone.coef_)


def test_other_weights_are_not_found_in_the_cache():
    # None is zero, so that the rows are the same.
    weights = WEIGHTS + 1.0
    first = linear(MEMBERS).fit(X, Y, nodes=NODES, sample_weight=weights)
    plain = linear(MEMBERS).fit(X, Y, nodes=NODES)
    again = linear(MEMBERS).fit(X, Y, nodes=NODES, sample_weight=weights)
    assert np.abs(first.coef_ - plain.coef_).max() > 1e-3
    np.testing.assert_array_equal(first.coef_, again.coef_)


def test_only_methods_of_sums_take_weights():
    takes_weights = {
        name
        for name in skgems.__all__
        if name.endswith("Aggregator")
        and "sample_weight" in signature(getattr(skgems, name).fit).parameters
    }
    assert takes_weights == {"GEMSLogisticAggregator", "PooledAggregator"}


# ---- errors and warnings ---------------------------------------------------------


def weights_with(value):
    weights = np.ones(N_ROWS)
    weights[np.flatnonzero(NODES == "paris")[0]] = value
    return weights


@pytest.mark.parametrize(
    "weights, words",
    [
        (weights_with(-1.0), "Node 'paris': sample_weight is -1 for row"),
        (weights_with(np.nan), "Node 'paris': sample_weight is nan for row"),
        (weights_with(np.inf), "Node 'paris': sample_weight is inf for row"),
        (np.where(NODES == "rome", 0, 1), "Node 'rome': .* zero for all of its rows"),
        (np.zeros(N_ROWS), "sample_weight is zero for all rows"),
        (np.ones(3), r"the shape \(3,\), but X has 240 rows"),
        (np.ones((N_ROWS, 2)), r"the shape \(240, 2\)"),
        (["much"] * N_ROWS, "a number for each row"),
    ],
)
def test_wrong_weights_are_errors(weights, words):
    for aggregator in (linear(MEMBERS), PooledAggregator()):
        with pytest.raises(ValueError, match=words):
            aggregator.fit(X, Y, nodes=NODES, sample_weight=weights)


@pytest.mark.parametrize("wrong", [-1.0, np.nan, 1e20])
def test_a_node_that_summarizes_is_named(wrong):
    with pytest.raises(ValueError, match="Node 'oslo': sample_weight is"):
        linear().summarize(
            None, X, Y, sample_weight=np.full(N_ROWS, wrong), name="oslo"
        )
    with pytest.raises(ValueError, match=r"Node 'oslo': .*\(3,\)"):
        linear().summarize(None, X, Y, sample_weight=np.ones(3), name="oslo")


@pytest.mark.parametrize(
    "aggregator, words",
    [
        (linear(MEMBERS, epsilon=0.5), "spaces are not made of|good-enough spaces"),
        (linear(MEMBERS, intersection="consensus"), "good-enough spaces"),
        (PooledAggregator(pooled=DecisionTreeClassifier(max_depth=3)), "histograms"),
    ],
)
def test_what_is_not_made_of_sums_says_so(aggregator, words):
    with pytest.raises(ValueError, match=words):
        aggregator.fit(X, Y, nodes=NODES, sample_weight=WEIGHTS)


def test_classifiers_without_weights_are_named_in_simulations():
    with pytest.raises(TypeError, match=r"Node 'lyon': .*takes no sample_weight"):
        linear(LinearDiscriminantAnalysis()).fit(
            X, Y, nodes=NODES, sample_weight=WEIGHTS
        )


def test_public_rows_of_a_likelihood_have_no_weights():
    nodes = np.where(np.arange(N_ROWS) % 4 == 0, "public", NODES)
    with pytest.raises(ValueError, match="public rows"):
        linear(MEMBERS).fit(X, Y, nodes=nodes, sample_weight=WEIGHTS)


def test_tasks_that_are_no_sums_are_refused():
    request = Message.of("halves", methods=[], labels=[0, 1, 2])
    with pytest.raises(ValueError):
        reply_to(request, None, X, Y, name="lyon", sample_weight=WEIGHTS)
    space = linear(epsilon=0.5)
    with pytest.raises(ValueError, match="Node 'lyon': its rows have weights, .*space"):
        space.summarize(
            MEMBERS[0][1], X, Y, sample_weight=WEIGHTS, name="lyon", disclosure=None
        )


def test_weights_that_do_not_fit_the_counts_are_refused():
    summary = summaries(linear())[0]
    content = summary.message.content
    content["describe"]["rows"]["weights"] = 2 * content["describe"]["rows"]["weights"]
    with pytest.raises(ValueError, match="counts are not those of describe.rows"):
        Summary(Message.of("join", **content))


def test_large_weights_make_no_node_contradict_the_others():
    # As they are, a few rows that weigh a million would be sure of their mean.
    rng = RandomState(2)
    rows = rng.standard_normal((3206, 5))
    labels = rng.randint(0, 2, 3206)
    rows[:, 0] += 0.5 * labels
    nodes = np.r_[np.arange(3200) % 4, np.full(6, 4)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PooledAggregator(pooled="GaussianNB").fit(
            rows, labels, nodes=nodes, sample_weight=np.full(3206, 1e6)
        )
