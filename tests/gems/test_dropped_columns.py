# SPDX-License-Identifier: BSD-3-Clause
"""Columns that pipelines of nodes drop by name do not come back in the aggregate."""

from __future__ import annotations

import copy
from functools import cache

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.compose import make_column_transformer
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import LogisticRegression, Perceptron
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgems import GEMSLogisticAggregator, GEMSMLPAggregator, PFNMAggregator
from skgems.asking import Message, Nodes
from skgems.guard import reply_to

NAMES = ["lyon", "oslo", "paris"]
RNG = np.random.default_rng(3)
N_ROWS = 180
NODES = np.array(NAMES)[np.arange(N_ROWS) % 3]
AGE = RNG.normal(60.0, 10.0, N_ROWS)
LAB = RNG.normal(5.0, 1.0, N_ROWS)
Y = np.where((AGE - 60) / 10 + LAB + RNG.normal(0, 1, N_ROWS) > 5, "ill", "well")
# Known only later, and at prediction time to nobody: it would give the label away.
LATE = np.where(Y == "ill", 20.0, 400.0) + RNG.normal(0, 1, N_ROWS)
X = np.column_stack([AGE, LATE, LAB])
USED = [0, 2]
LATE_IS_UNKNOWN = X * [1, 0, 1]


def pipeline(columns, classifier=None):
    return make_pipeline(
        make_column_transformer((StandardScaler(), list(columns))),
        LogisticRegression() if classifier is None else classifier,
    )


def members(columns_of_nodes=(USED, USED, USED), *, X=X, classifier=None):
    return [
        (name, pipeline(columns, classifier).fit(X[NODES == name], Y[NODES == name]))
        for name, columns in zip(NAMES, columns_of_nodes, strict=True)
    ]


def aggregator(estimators=None, **options):
    return GEMSLogisticAggregator(estimators, random_state=0, **options)


def summaries_of(estimators, X=X, disclosure="auto", **options):
    agg = aggregator(**options)
    return [
        agg.summarize(
            fitted, X[NODES == name], Y[NODES == name], name=name, disclosure=disclosure
        )
        for name, fitted in estimators
    ]


@cache
def plain_fit():
    return aggregator(members()).fit(X, Y, nodes=NODES)


# ---- all nodes drop the same columns ---------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"n_rounds": 3},
        {"epsilon": 0.6},
        {"intersection": "consensus"},
    ],
)
def test_what_all_nodes_drop_has_no_weight(options):
    agg = aggregator(members(), **options).fit(X, Y, nodes=NODES)
    np.testing.assert_array_equal(agg.coef_[:, 1], 0.0)
    assert agg.features_used_ == USED
    without = [
        (name, make_pipeline(StandardScaler(), LogisticRegression())) for name in NAMES
    ]
    for name, fitted in without:
        fitted.fit(X[NODES == name][:, USED], Y[NODES == name])
    reference = aggregator(without, **options).fit(X[:, USED], Y, nodes=NODES)
    np.testing.assert_allclose(
        agg.predict_proba(LATE_IS_UNKNOWN),
        reference.predict_proba(X[:, USED]),
        atol=1e-3,
    )


def test_frames_and_sparse_rows_are_as_arrays():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["age", "late", "lab"])
    named = [
        (name, pipeline(["age", "lab"]).fit(frame[NODES == name], Y[NODES == name]))
        for name in NAMES
    ]
    agg = aggregator(named).fit(frame, Y, nodes=NODES)
    np.testing.assert_allclose(agg.coef_, plain_fit().coef_, atol=1e-6)
    assert agg.features_used_ == ["age", "lab"]
    sparse = [
        (
            name,
            make_pipeline(
                make_column_transformer((StandardScaler(with_mean=False), USED)),
                LogisticRegression(),
            ).fit(csr_matrix(X[NODES == name]), Y[NODES == name]),
        )
        for name in NAMES
    ]
    agg = aggregator(sparse).fit(csr_matrix(X), Y, nodes=NODES)
    np.testing.assert_array_equal(agg.coef_[:, 1], 0.0)


def test_a_node_of_rows_alone_brings_no_weight_back():
    estimators = [*members()[:2], ("paris", None)]
    for n_rounds in (1, 3):
        agg = aggregator(estimators, n_rounds=n_rounds).fit(X, Y, nodes=NODES)
        np.testing.assert_array_equal(agg.coef_[:, 1], 0.0)
        assert agg.features_used_ == USED


def test_public_rows_bring_no_weight_back():
    owners = np.where(np.arange(N_ROWS) % 5 == 0, "public", NODES)
    agg = aggregator(members()).fit(X, Y, nodes=owners)
    np.testing.assert_array_equal(agg.coef_[:, 1], 0.0)
    agg = aggregator(members()).fit(X, Y, nodes=NODES).fine_tune(X, Y)
    np.testing.assert_array_equal(agg.coef_[:, 1], 0.0)


# ---- nothing leaves ----------------------------------------------------------------


def shuffled_late():
    rows = X.copy()
    rows[:, 1] = np.random.default_rng(7).permutation(LATE) * 3.0
    return rows


def in_chunks(X, name):
    rows = np.flatnonzero(NODES == name)
    return lambda: iter([(X[part], Y[part]) for part in np.array_split(rows, 2)])


def test_no_byte_that_leaves_depends_on_a_dropped_column():
    estimators = members()
    before, after = (
        [summary.message.to_bytes() for summary in summaries_of(estimators, rows)]
        for rows in (X, shuffled_late())
    )
    assert before == after
    name, fitted = estimators[0]
    in_two_chunks = [
        aggregator()
        .summarize(fitted, name=name, chunks=in_chunks(rows, name))
        .message.to_bytes()
        for rows in (X, shuffled_late())
    ]
    assert in_two_chunks[0] == in_two_chunks[1]


def test_no_reply_over_a_channel_depends_on_a_dropped_column():
    def replies_of(rows):
        replies = []
        ledgers = {name: {} for name in NAMES}

        def ask(requests):
            answers = {}
            for name, request in requests.items():
                of_node = NODES == name
                fitted = dict(members())[name]
                reply = reply_to(
                    request.to_bytes(),
                    fitted,
                    rows[of_node],
                    Y[of_node],
                    name=name,
                    state=ledgers[name],
                )
                replies.append(reply)
                answers[name] = Message.from_bytes(reply)
            return answers

        aggregator(Nodes(ask, NAMES), n_rounds=3).fit()
        # Envelopes name the exchange.
        return [Message.from_bytes(reply).content for reply in replies]

    for before, after in zip(replies_of(X), replies_of(shuffled_late()), strict=True):
        np.testing.assert_equal(before, after)


def test_a_summary_says_what_it_is_about():
    (summary, *_), *_ = [summaries_of(members())]
    assert summary.columns == USED
    assert "nothing about the columns [1]" in repr(summary)
    assert "nothing about" not in repr(summaries_of(members(([0, 1, 2],) * 3))[0])


def test_a_model_that_uses_what_it_says_to_drop_is_refused():
    summary = summaries_of(members())[0]
    content = copy.deepcopy(dict(summary.message.content))
    network = content["describe"]["network"]
    network["coefs"] = [network["coefs"][0] + 1.0]
    with pytest.raises(ValueError, match="dropped has features that the model uses"):
        type(summary)(Message.of("join", **content))


# ---- nodes differ ------------------------------------------------------------------

LACKING = ([0, 2], [0, 2], [0])


def test_columns_that_some_nodes_drop_are_named_and_do_not_leave_these():
    estimators = members(LACKING)
    with pytest.warns(UserWarning, match=r"others use: node 'paris' \[2\]\. These"):
        agg = aggregator(estimators).fit(X, Y, nodes=NODES)
    assert agg.features_used_ == USED
    np.testing.assert_array_equal(agg.coef_[:, 1], 0.0)
    assert abs(agg.coef_[0, 2]) > 0.1
    rows = X.copy()
    rows[NODES == "paris", 2] *= -100.0
    with pytest.warns(UserWarning, match="drop columns by name"):
        other = aggregator(estimators).fit(rows, Y, nodes=NODES)
    np.testing.assert_array_equal(agg.coef_, other.coef_)
    with pytest.warns(UserWarning, match="drop columns by name"):
        of_files = aggregator(summaries_of(estimators, disclosure=None)).fit()
    np.testing.assert_array_equal(agg.coef_, of_files.coef_)


@pytest.mark.parametrize(("n_rounds", "name"), [(1, "lyon"), (1, "paris"), (4, "oslo")])
def test_rows_count_as_if_they_had_the_mean_of_the_others(n_rounds, name):
    table = X[:, USED]
    lacks = name == NODES
    filled = table.copy()
    filled[lacks, 1] = table[~lacks, 1].mean()
    columns_of_nodes = [[0] if node == name else [0, 1] for node in NAMES]
    estimators = members(columns_of_nodes, X=table)
    agg = aggregator(estimators, n_rounds=n_rounds)
    with pytest.warns(UserWarning, match="drop columns by name"):
        agg.fit(table, Y, nodes=NODES)
    constant = pipeline([0, 1]).fit(filled[lacks], Y[lacks])
    with_constant = [
        (node, constant if node == name else fitted) for node, fitted in estimators
    ]
    reference = aggregator(with_constant, n_rounds=n_rounds)
    reference.fit(filled, Y, nodes=NODES)
    np.testing.assert_allclose(agg.coef_, reference.coef_, rtol=1e-3)
    scores = zip(
        agg.node_scores_["aggregate"], reference.node_scores_["aggregate"], strict=True
    )
    assert all(abs(score - expected) < 0.02 for score, expected in scores)


def test_choices_by_a_statistic_are_named():
    estimators = [
        (
            name,
            make_pipeline(SelectKBest(k=1), StandardScaler(), LogisticRegression()).fit(
                X[NODES == name], Y[NODES == name]
            ),
        )
        for name in NAMES
    ]
    with pytest.warns(
        UserWarning, match=r"no weight to columns .*node 'lyon' \[0, 2\]"
    ):
        agg = aggregator(estimators).fit(X, Y, nodes=NODES)
    assert agg.features_used_ == [0, 1, 2]


def test_weights_of_zero_by_a_penalty_are_named():
    estimators = [
        (name, make_pipeline(StandardScaler(), Perceptron(penalty="l1", alpha=0.1)))
        for name in NAMES
    ]
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(N_ROWS, 3))
    for name, fitted in estimators:
        fitted.fit(rows[NODES == name], rows[NODES == name, 0] > 0)
    assert any((fitted[-1].coef_ == 0).any() for _, fitted in estimators)
    agg = aggregator(estimators, C=1.0, fit_intercept=True)
    with pytest.warns(UserWarning, match="no weight to columns that vary"):
        agg.fit(rows, rows[:, 0] > 0, nodes=NODES)


# ---- networks ----------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
@pytest.mark.parametrize(
    "make",
    [
        lambda estimators: GEMSMLPAggregator(estimators, random_state=0),
        lambda estimators: PFNMAggregator(estimators, random_state=0),
    ],
)
def test_networks_have_no_weights_there(make):
    network = MLPClassifier(4, max_iter=30, random_state=0)
    agg = make(members(classifier=network)).fit(X, Y, nodes=NODES)
    np.testing.assert_array_equal(agg.coefs_[0][1], 0.0)
    assert np.abs(agg.coefs_[0][USED]).max() > 0.01
    np.testing.assert_array_equal(
        agg.predict_proba(LATE_IS_UNKNOWN), agg.predict_proba(X * [1, 1, 1] * [1, 0, 1])
    )
