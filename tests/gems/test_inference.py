# SPDX-License-Identifier: BSD-3-Clause
"""Odds ratios with standard errors, against a pooled regression by Newton's method."""

from __future__ import annotations

import copy
import pickle
import warnings

import numpy as np
import pytest
from helpers.odds import pooled_regression, with_intercept
from scipy.sparse import csr_matrix
from scipy.special import expit
from scipy.stats import norm
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skgems import Disclosure, GEMSLogisticAggregator, GEMSMLPAggregator
from skgems.asking import Message, Nodes
from skgems.datasets import load_penguins
from skgems.guard import Agreement, reply_to

SITES = np.array(["bonn", "lyon", "nice", "oslo"])
# One Newton step leaves about the square of the distance, and errors follow from the
# information at its end: see benchmarks/bench_inference.py.
NEAR = 0.02
NEAR_ERRORS = 0.005


def four_sites(n_rows=800, seed=0, n_classes=2):
    """Four unlike sites: a normal, a binary and a skewed column."""
    rng = np.random.default_rng(seed)
    sites = np.arange(n_rows) % 4
    X = np.column_stack(
        [
            rng.normal(0.3 * sites, 1.0),
            rng.random(n_rows) < 0.3,
            rng.lognormal(0.0, 0.4, n_rows),
        ]
    )
    slopes = rng.normal(size=(3, n_classes - 1)) / 2 + np.array([[0.5], [-0.5], [0.3]])
    logits = np.column_stack([np.zeros(n_rows), X @ slopes - 0.3])
    codes = np.argmax(logits + rng.gumbel(size=logits.shape), axis=1)
    return X, codes, SITES[sites]


def fitted(X, y, sites, **parameters):
    parameters = {"C": np.inf, "random_state": 0} | parameters
    members = [(str(name), None) for name in np.unique(sites)]
    return GEMSLogisticAggregator(members, **parameters).fit(X, y, nodes=sites)


def assert_near(table, theta, covariance, *, near=NEAR, near_errors=NEAR_ERRORS):
    errors = np.sqrt(np.diag(covariance))
    assert np.abs((table.params - theta) / errors).max() < near
    np.testing.assert_allclose(table.bse, errors, rtol=near_errors)


@pytest.mark.filterwarnings("ignore::skgems.asking.HeavyTailsWarning")
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_message_makes_the_table_of_the_pooled_regression(n_classes):
    X, codes, sites = four_sites(n_classes=n_classes)
    labels = np.array(["well", "ill", "dead"])
    y = labels[codes]
    table = fitted(X, y, sites).inference(X, y, sites, reference="well")
    # Classes are in the order of their labels, and contrasts in that of the pooled fit.
    order = [labels.tolist().index(label) for label in dict.fromkeys(table.classes)]
    theta, covariance, _ = pooled_regression(with_intercept(X), codes)
    places = np.concatenate([np.arange(4) + 4 * (k - 1) for k in order])
    assert_near(table, theta[places], covariance[np.ix_(places, places)])
    assert table.names == ["x0", "x1", "x2", "intercept"] * (n_classes - 1)
    assert not table.is_approximate


@pytest.mark.filterwarnings("ignore::skgems.asking.HeavyTailsWarning")
def test_words_are_those_of_statsmodels():
    X, codes, sites = four_sites()
    table = fitted(X, codes, sites).inference(X, codes, sites, level=0.9)
    np.testing.assert_allclose(table.zvalues, table.params / table.bse)
    np.testing.assert_allclose(table.pvalues, 2 * norm.sf(np.abs(table.zvalues)))
    half = norm.ppf(0.95) * table.bse
    np.testing.assert_allclose(
        table.conf_int(), np.stack([table.params - half, table.params + half], axis=1)
    )
    assert table.conf_int(0.5)[0, 0] > table.conf_int()[0, 0]
    np.testing.assert_allclose(table.odds_ratios, np.exp(table.params))


@pytest.mark.filterwarnings("ignore::skgems.asking.HeavyTailsWarning")
def test_without_nodes_it_is_approximate_and_has_no_p_values():
    X, codes, sites = four_sites()
    agg = fitted(X, codes, sites)
    table = agg.inference()
    theta, covariance, _ = pooled_regression(with_intercept(X), codes)
    assert_near(table, theta, covariance, near=1.0, near_errors=0.1)
    assert table.is_approximate
    assert np.isnan(table.pvalues).all()
    assert "Approximate: no node was asked" in table.notes[0]
    assert any("'x2' are skewed" in note or "'x2'" in note for note in table.notes)
    # The aggregate keeps what it needs, and nothing of single nodes.
    unpickled = pickle.loads(pickle.dumps(agg))
    assert unpickled.likelihood_ is None
    np.testing.assert_allclose(unpickled.inference().bse, table.bse)
    with pytest.raises(ValueError, match="gone since the aggregate was unpickled"):
        unpickled.inference(site_intercepts=True)


@pytest.mark.filterwarnings("ignore::skgems.asking.HeavyTailsWarning")
def test_units_of_columns_do_not_matter():
    X, codes, sites = four_sites()
    units = np.array([1e-3, 10.0, 1e4])
    table = fitted(X, codes, sites).inference(X, codes, sites)
    other = fitted(X * units + 5 * units, codes, sites).inference(
        X * units + 5 * units, codes, sites
    )
    np.testing.assert_allclose(other.params[:3] * units, table.params[:3], rtol=1e-3)
    np.testing.assert_allclose(other.zvalues[:3], table.zvalues[:3], rtol=1e-3)


@pytest.mark.filterwarnings("ignore::skgems.asking.HeavyTailsWarning")
def test_contrasts_against_other_classes_add_up():
    X, codes, sites = four_sites(n_classes=3)
    agg = fitted(X, codes, sites)
    tables = [agg.inference(X, codes, sites, reference=k) for k in range(3)]
    of_0, of_1, of_2 = (table.params.reshape(2, -1) for table in tables)
    np.testing.assert_allclose(of_1[0], -of_0[0], atol=1e-10)  # 0 against 1
    np.testing.assert_allclose(of_0[1] - of_0[0], of_1[1], atol=1e-10)  # 2 against 1
    np.testing.assert_allclose(of_2[1], of_0[0] - of_0[1], atol=1e-10)  # 1 against 2
    np.testing.assert_allclose(tables[1].bse[:4], tables[0].bse[:4])


@pytest.mark.filterwarnings("ignore::skgems.asking.HeavyTailsWarning")
def test_weights_and_groups_have_robust_errors():
    X, codes, sites = four_sites()
    rng = np.random.default_rng(0)
    weights = rng.uniform(0.3, 2.0, len(X))
    agg = fitted(X, codes, sites)
    weighted = GEMSLogisticAggregator(
        [(str(name), None) for name in SITES], C=np.inf, random_state=0
    ).fit(X, codes, nodes=sites, sample_weight=weights)
    table = weighted.inference(X, codes, sites, sample_weight=weights)
    theta, _, robust = pooled_regression(with_intercept(X), codes, weights=weights)
    assert table.cov_type == "robust"
    assert_near(table, theta, robust, near_errors=0.04)
    # Eight rows of a patient, all alike: errors are larger by the root of eight.
    groups = np.repeat(np.arange(100), 8)
    X, codes = np.repeat(X[:100], 8, axis=0), np.repeat(codes[:100], 8)
    sites = np.repeat(sites[:100], 8)
    agg = fitted(X, codes, sites)
    table = agg.inference(X, codes, sites, groups=groups)
    theta, _, robust = pooled_regression(with_intercept(X), codes, units=groups)
    assert table.cov_type == "robust"
    assert_near(table, theta, robust, near_errors=0.06)
    assert any("groups" in note for note in table.notes)


@pytest.mark.filterwarnings("ignore::skgems.asking.HeavyTailsWarning")
def test_sites_may_have_intercepts_of_their_own():
    X, codes, sites = four_sites()
    rng = np.random.default_rng(3)
    levels = np.array([-1.0, 0.0, 0.5, 1.0])[np.searchsorted(SITES, sites)]
    codes = (rng.random(len(X)) < expit(X[:, 0] - X[:, 1] + levels)).astype(int)
    table = fitted(X, codes, sites).inference(X, codes, sites, site_intercepts=True)
    A = np.column_stack([X, sites[:, None] == SITES])
    theta, covariance, _ = pooled_regression(A, codes)
    assert_near(table, theta, covariance)
    assert table.names[3:] == [f"intercept of {name}" for name in SITES]


def test_errors_by_site_need_forty_nodes():
    rng = np.random.default_rng(0)
    n_sites = 40
    sites = np.repeat(np.arange(n_sites), 30).astype(str)
    levels = np.repeat(rng.normal(size=n_sites), 30)
    X = np.column_stack([levels + rng.normal(size=1200), rng.normal(size=1200)])
    codes = (rng.random(1200) < expit(X[:, 0] + 2 * levels)).astype(int)
    table = fitted(X, codes, sites).inference(X, codes, sites, cov_type="site")
    theta, _, by_site = pooled_regression(with_intercept(X), codes, units=sites)
    assert_near(table, theta, by_site * n_sites / (n_sites - 1), near_errors=0.05)
    with pytest.raises(ValueError, match="of all nodes, and none was asked"):
        fitted(X, codes, sites).inference(cov_type="site")
    few = fitted(X[:120], codes[:120], sites[:120])
    with pytest.raises(ValueError, match="needs 40 nodes, but there are 4"):
        few.inference(X[:120], codes[:120], sites[:120], cov_type="site")


def test_columns_are_in_units_of_rows_before_the_front():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    n_rows = 900
    frame = pd.DataFrame(
        {
            "age": rng.normal(60.0, 10.0, n_rows),
            "ward": np.array(["a", "b", "c"])[rng.integers(3, size=n_rows)],
        }
    )
    logits = (frame["age"] - 60) / 10 + (frame["ward"] == "b") - 0.4
    y = np.where(rng.random(n_rows) < expit(logits), "ill", "well")
    sites = SITES[np.arange(n_rows) % 4]
    front = ColumnTransformer(
        [("numbers", StandardScaler(), ["age"]), ("words", OneHotEncoder(), ["ward"])]
    )
    agg = fitted(frame, y, sites, front=front)
    table = agg.inference(frame, y, sites, reference="well")
    A = np.column_stack(
        [frame["age"], frame["ward"] == "b", frame["ward"] == "c", np.ones(n_rows)]
    ).astype(float)
    theta, covariance, _ = pooled_regression(A, (y == "ill").astype(int))
    assert any("'ward_c', so that it is the reference" in n for n in table.notes)
    assert table.names == ["age", "ward_b", "ward_c", "intercept"]
    assert_near(table, theta, covariance)
    assert any("'ward_a' follows from 'ward_b', 'ward_c'" in n for n in table.notes)
    assert agg.inference().names == table.names


def test_a_penalty_has_no_p_values():
    X, codes, sites = four_sites()
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    agg = fitted(X, codes, sites, C=0.05)
    table = agg.inference(X, codes, sites)
    pooled = LogisticRegression(C=0.05, tol=1e-10, max_iter=1000).fit(X, codes)
    distance = np.abs(table.params - np.append(pooled.coef_[0], pooled.intercept_))
    assert (distance < NEAR * table.bse).all()
    assert np.isnan(table.pvalues).all()
    assert any("C=0.05 draws coefficients towards 0" in note for note in table.notes)


@pytest.mark.filterwarnings("ignore::skgems.asking.HeavyTailsWarning")
def test_under_the_rule_moments_stand_in_for_what_is_not_told():
    X, codes, sites = four_sites()
    rule = Disclosure()
    few = np.arange(len(X)) < 160
    theta, covariance, _ = pooled_regression(with_intercept(X), codes)
    agg = fitted(X, codes, sites, disclosure=rule)
    table = agg.inference(X, codes, sites)
    assert_near(table, theta, covariance, near=0.5, near_errors=0.1)
    agg = fitted(X[few], codes[few], sites[few], disclosure=rule)
    table = agg.inference(X[few], codes[few], sites[few], cov_type="robust")
    text = " ".join(table.notes)
    assert "no robust errors" in text
    assert "told a gradient, but no information" in text or "told no gradient" in text
    assert np.isfinite(table.bse).all()


def test_separation_is_named_with_column_and_node():
    X, codes, sites = four_sites()
    X[:, 1] = 0.0
    X[:5, 1] = 1.0  # of the nodes 0 to 3, and all of them are ill
    codes[:5] = 1
    table = fitted(X[:, :2], codes, sites).inference(X[:, :2], codes, sites)
    (note,) = [note for note in table.notes if "separate classes" in note]
    assert "'x1'" in note
    assert "'bonn'" in note


def test_separation_by_a_column_of_all_rows_is_an_error():
    X, codes, sites = four_sites()
    X[:, 1] = 40.0 * codes
    agg = fitted(X[:, :2], codes, sites)
    for rows in ((), (X[:, :2], codes, sites)):
        with pytest.raises(ValueError, match="set C to a number, so that a penalty"):
            agg.inference(*rows)


@pytest.mark.filterwarnings("ignore::skgems.asking.HeavyTailsWarning")
def test_of_equal_columns_one_is_left_out_and_no_reference():
    X, codes, sites = four_sites()
    X = np.column_stack([X[:, :2], 2.0 * X[:, 0]])
    table = fitted(X, codes, sites).inference(X, codes, sites)
    theta, covariance, _ = pooled_regression(with_intercept(X[:, 1:]), codes)
    assert_near(table, theta, covariance)
    (note,) = [note for note in table.notes if "follows from" in note]
    assert note.startswith("Column 'x0' follows from 'x2', and has no coefficient")


def test_levels_of_sites_with_one_class_are_said_to_mean_nothing():
    X, codes, sites = four_sites()
    X, is_left = X[:, :2], sites != "bonn"
    codes = np.where(is_left, codes, 1)
    agg = fitted(X, codes, sites)
    table = agg.inference(X, codes, sites, site_intercepts=True)
    levels = (sites[is_left, None] == SITES[1:]).astype(float)
    theta, covariance, _ = pooled_regression(
        np.column_stack([X[is_left], levels]), codes[is_left]
    )
    errors = np.sqrt(np.diag(covariance))
    assert (np.abs(table.params[:2] - theta[:2]) < 0.05 * errors[:2]).all()
    assert any("'bonn' have no rows of some class" in note for note in table.notes)


def test_a_site_of_one_class_takes_part():
    X, codes, sites = four_sites()
    X = X[:, :2]
    codes = np.where(sites == "bonn", 1, codes)
    table = fitted(X, codes, sites).inference(X, codes, sites)
    theta, covariance, _ = pooled_regression(with_intercept(X), codes)
    assert_near(table, theta, covariance, near=0.05)
    bonn = table.nodes.index("bonn")
    assert np.isnan(table.heterogeneity.estimates[bonn]).all()


def test_heterogeneity_between_sites():
    rng = np.random.default_rng(0)
    n_rows = 4000
    X = rng.normal(size=(n_rows, 2))
    sites = SITES[np.arange(n_rows) % 4]
    slopes = np.array([1.6, 0.2, 1.0, 0.6])[np.arange(n_rows) % 4]
    codes = (rng.random(n_rows) < expit(slopes * X[:, 0] + X[:, 1] / 2)).astype(int)
    table = fitted(X, codes, sites).inference(X, codes, sites)
    h = table.heterogeneity
    assert h.I2[0] > 0.85
    assert h.pvalues[0] < 1e-6
    assert h.I2[1] < 0.75
    assert np.isnan(h.estimates[:, 2]).all()  # intercepts are not compared
    # Signs and order are those of the sites' own regressions.
    order = np.argsort(h.estimates[:, 0])
    assert table.nodes[order[0]] == "lyon"
    assert table.nodes[order[-1]] == "bonn"
    (doubt,) = [note for note in table.notes if note.startswith("Doubt")]
    assert "'x0'" in doubt
    assert "'x1'" not in doubt


def test_what_is_no_logistic_regression_is_refused():
    X, codes, sites = four_sites()
    X = X[:, :2]
    agg = fitted(X, codes, sites)
    with pytest.raises(ValueError, match="reference='ill' is no class"):
        agg.inference(reference="ill")
    clfs = [RidgeClassifier().fit(X[sites == s], codes[sites == s]) for s in SITES]
    ridge = GEMSLogisticAggregator(clfs).fit(
        X, codes, nodes=np.searchsorted(SITES, sites)
    )
    with pytest.raises(ValueError, match="is a function of sums"):
        ridge.inference()
    without = fitted(X, codes, sites, fit_intercept=False)
    with pytest.raises(ValueError, match="Set fit_intercept=True"):
        without.inference()
    equal = fitted(X, codes, sites, node_weight="equal")
    with pytest.raises(ValueError, match="node_weight='equal'"):
        equal.inference()


def test_classes_named_by_text_that_rows_write_otherwise():
    X, codes, sites = four_sites()
    X = X[:, :2]
    y = np.array(["no", "yes"])[codes]
    agg = fitted(X, y, sites)
    with pytest.raises(ValueError, match="maybe"):
        agg.inference(X, np.where(y == "no", "maybe", y), sites)


def channel_to(X, y, sites, folder, **options):
    """Nodes that keep a ledger, behind a function."""

    def ask(requests):
        for name, request in requests.items():
            is_here = sites == name
            reply = reply_to(
                request.to_bytes(),
                None,
                X[is_here],
                y[is_here],
                name=name,
                state=folder / name,
                **options,
            )
            yield name, Message.from_bytes(reply)

    return Nodes(ask, SITES.tolist(), **options)


def test_nodes_are_asked_over_a_channel(tmp_path):
    X, codes, sites = four_sites()
    X = X[:, :2]
    channel = channel_to(X, codes, sites, tmp_path, disclosure=None)
    agg = GEMSLogisticAggregator(channel, C=np.inf, random_state=0).fit()
    table = agg.inference()
    expected = fitted(X, codes, sites).inference(X, codes, sites)
    np.testing.assert_allclose(table.params, expected.params, rtol=1e-6)
    np.testing.assert_allclose(table.bse, expected.bse, rtol=1e-6)
    assert [entry["task"] for entry in agg.history_] == ["join", "inference"]
    assert channel.agreement.tasks["inference"] == 1


def test_an_agreement_that_does_not_name_it_keeps_nodes_from_being_asked(tmp_path):
    X, codes, sites = four_sites()
    channel = channel_to(X[:, :2], codes, sites, tmp_path, disclosure=None)
    agg = GEMSLogisticAggregator(channel, random_state=0).fit()
    table = agg.inference()
    assert table.is_approximate
    assert "does not name the task 'inference'" in table.notes[0]
    assert [entry["task"] for entry in agg.history_] == ["join"]


def test_a_column_that_one_site_lacks_is_an_error():
    pd = pytest.importorskip("pandas")
    X, codes, sites = four_sites()
    frame = pd.DataFrame(X[:, :2], columns=["age", "ward"])
    members = []
    for name in SITES:
        used = ["age"] if name == "nice" else ["age", "ward"]
        pipeline = make_pipeline(
            ColumnTransformer([("scaled", StandardScaler(), used)]),
            LogisticRegression(C=np.inf),
        )
        is_here = sites == name
        members.append((name, pipeline.fit(frame[is_here], codes[is_here])))
    agg = GEMSLogisticAggregator(members, C=np.inf, random_state=0)
    with pytest.warns(UserWarning, match="ward"):
        agg.fit(frame, codes, nodes=sites)
    for rows in ((), (frame, codes, sites)):
        with pytest.raises(ValueError, match="'nice'.*lack columns"):
            agg.inference(*rows)


def test_a_column_that_is_constant_at_one_site_takes_part():
    X, codes, sites = four_sites()
    X = X[:, :2]
    X[sites == "nice", 1] = 0.0
    table = fitted(X, codes, sites).inference(X, codes, sites)
    theta, covariance, _ = pooled_regression(with_intercept(X), codes)
    assert_near(table, theta, covariance)
    nice = table.nodes.index("nice")
    assert np.isnan(table.heterogeneity.estimates[nice]).tolist() == [False, True, True]


@pytest.mark.filterwarnings("ignore::skgems.parties.ClassesLeftOutWarning")
def test_classes_that_the_rule_leaves_out_are_said():
    X, codes, sites = four_sites()
    X = X[:, :2]
    codes[np.flatnonzero(sites == "oslo")[5:]] = 0
    agg = fitted(X, codes, sites, disclosure=Disclosure())
    table = agg.inference(X, codes, sites)
    (note,) = [note for note in table.notes if "no rows of some classes" in note]
    assert note.startswith("Nodes 'oslo' told")


def test_sparse_rows_make_the_same_table():
    X, codes, sites = four_sites()
    X = X[:, :2]
    table = fitted(X, codes, sites).inference(X, codes, sites)
    sparse = fitted(csr_matrix(X), codes, sites).inference(csr_matrix(X), codes, sites)
    np.testing.assert_allclose(sparse.params, table.params, atol=1e-6)
    np.testing.assert_allclose(sparse.bse, table.bse, rtol=1e-6)


@pytest.mark.filterwarnings("ignore:nodes is not given and nodes share:UserWarning")
@pytest.mark.filterwarnings("ignore::skgems.asking.SameRowsWarning")
def test_nodes_that_share_rows_have_errors_of_the_model():
    X, codes, _ = four_sites()
    X = X[:, :2]
    clfs = [LogisticRegression(C=np.inf).fit(X[k::2], codes[k::2]) for k in range(2)]
    agg = GEMSLogisticAggregator(clfs, C=np.inf, random_state=0).fit(X, codes)
    table = agg.inference(X, codes)
    theta, covariance, _ = pooled_regression(with_intercept(X), codes)
    assert_near(table, theta, covariance)
    assert any(note.startswith("Nodes share rows") for note in table.notes)


def test_agreements_name_it_where_there_is_no_penalty():
    plain = GEMSLogisticAggregator(C=np.inf, random_state=0)
    assert Agreement.of(plain).tasks["inference"] == 1
    assert "inference" not in Agreement.of(plain.set_params(C=10.0)).tasks
    of_layers = GEMSMLPAggregator(
        last_layer=GEMSLogisticAggregator(C=np.inf), random_state=0
    )
    assert "inference" not in Agreement.of(of_layers).tasks


@pytest.mark.filterwarnings("ignore::skgems.asking.NodesDisagreeWarning")
def test_what_each_node_adds_is_told_by_models_without_it():
    X, codes, sites = four_sites(2000)
    X, test = X[:, :2], np.arange(2000) >= 1200
    codes = np.where(sites == "oslo", 1 - codes, codes)  # labels are swapped there
    members = [(str(name), None) for name in SITES]
    agg = GEMSLogisticAggregator(members, keep_replies=True, random_state=0)
    agg.fit(X[~test], codes[~test], nodes=sites[~test])
    coef = agg.coef_.copy()
    judges = test & (sites != "oslo")
    table = agg.leave_one_node_out(X[judges], codes[judges])
    assert table["node"] == SITES.tolist()
    assert np.argmin(table["log_loss"]) == 3
    assert table["log_loss"][3] < 0
    np.testing.assert_array_equal(agg.coef_, coef)
    assert agg.node_names_ == SITES.tolist()
    without = copy.deepcopy(agg).forget("bonn").predict_proba(X[judges])
    loss = log_loss(codes[judges], without)
    loss -= log_loss(codes[judges], agg.predict_proba(X[judges]))
    assert table["log_loss"][0] == pytest.approx(loss)
    with pytest.raises(ValueError, match="No replies were kept"):
        fitted(X, codes, sites).leave_one_node_out(X, codes)


def test_a_class_that_is_lost_with_a_node_has_no_contribution():
    X, codes, sites = four_sites(n_classes=3)
    codes = np.where((codes == 2) & (sites != "nice"), 0, codes)
    members = [(str(name), None) for name in SITES]
    agg = GEMSLogisticAggregator(members, keep_replies=True, random_state=0)
    agg.fit(X[:, :2], codes, nodes=sites)
    table = agg.leave_one_node_out(X[:, :2], codes)
    assert np.isnan(table["auc"]).tolist() == [False, False, True, False]


# ---- which rows, and which nodes -----------------------------------------------------


@pytest.mark.filterwarnings("ignore::skgems.asking.NodesDisagreeWarning")
@pytest.mark.parametrize("site_intercepts", [False, True])
def test_a_node_that_the_fit_left_out_has_no_part_in_the_table(site_intercepts):
    X, codes, sites = four_sites()
    X, is_kept = X[:, :2], sites != "lyon"
    told = np.where(is_kept[:, None], X, -5.0 * X)
    agg = fitted(told, codes, sites, robust=1)
    assert agg.trust_["node"][agg.trust_["counted"].index(0.0)] == "lyon"
    table = agg.inference(told, codes, sites, site_intercepts=site_intercepts)
    A = with_intercept(X[is_kept])
    if site_intercepts:
        levels = sites[is_kept, None] == np.array(["bonn", "nice", "oslo"])
        A = np.column_stack([X[is_kept], levels.astype(float)])
    theta, covariance, _ = pooled_regression(A, codes[is_kept])
    assert_near(table, theta, covariance)
    assert table.nodes == ["bonn", "nice", "oslo"]
    assert table.notes[0].startswith("Nodes 'lyon' are left out, as in the fit")
    assert agg.inference().n_rows == is_kept.sum()


@pytest.mark.filterwarnings("ignore::skgems.asking.ManyRowsWarning")
def test_a_node_with_far_more_rows_than_others_has_a_part_of_them_in_the_table():
    X, codes, sites = four_sites(4000)
    X = X[:, :2]
    is_used = (sites == "oslo") | (np.arange(4000) % 10 == 0)
    X, codes, sites = X[is_used], codes[is_used], sites[is_used]
    agg = fitted(X, codes, sites, robust=1)
    ((n_rows, n_counted),) = {
        rows
        for rows in zip(agg.trust_["rows"], agg.trust_["counted"], strict=True)
        if rows[0] != rows[1]
    }
    table = agg.inference(X, codes, sites)
    weights = np.where(sites == "oslo", n_counted / n_rows, 1.0)
    theta, covariance, _ = pooled_regression(with_intercept(X), codes, weights=weights)
    assert_near(table, theta, covariance)
    assert table.n_rows == pytest.approx(weights.sum())
    assert table.notes[0].startswith("Nodes 'oslo' count with a part of their rows")


def test_rows_are_those_of_the_fit():
    X, codes, sites = four_sites()
    X, weights = X[:, :2], np.linspace(0.5, 2.0, len(X))
    agg = fitted(X, codes, sites)
    with pytest.raises(ValueError, match="'bonn' was fitted to 200 rows, but .* 100"):
        agg.inference(X[:400], codes[:400], sites[:400])
    with pytest.raises(ValueError, match=r"node 'bonn' weighed 200 in fit, and 249\.4"):
        agg.inference(X, codes, sites, sample_weight=weights)
    with pytest.raises(ValueError, match="groups are those of rows X, which are not"):
        agg.inference(groups=np.arange(len(X)))
    with pytest.raises(ValueError, match="sample_weight is that of rows X, which are"):
        agg.inference(sample_weight=weights)
    members = [(str(name), None) for name in SITES]
    weighted = GEMSLogisticAggregator(members, C=np.inf, random_state=0)
    weighted.fit(X, codes, nodes=sites, sample_weight=weights)
    with pytest.raises(ValueError, match="Give the sample_weight of fit to inference"):
        weighted.inference(X, codes, sites)


def test_rows_of_nodes_that_sent_files_are_refused(tmp_path):
    X, codes, sites = four_sites()
    channel = channel_to(X[:, :2], codes, sites, tmp_path, disclosure=None)
    agg = GEMSLogisticAggregator(channel, C=np.inf, random_state=0).fit()
    with pytest.raises(ValueError, match="inference takes no rows of them"):
        agg.inference(X[:, :2], codes, sites)


def test_weights_of_the_fit_leave_no_errors_where_nobody_is_asked():
    X, codes, sites = four_sites()
    members = [(str(name), None) for name in SITES]
    agg = GEMSLogisticAggregator(members, C=np.inf, random_state=0)
    agg.fit(X[:, :2], codes, nodes=sites, sample_weight=np.full(len(X), 100.0))
    for fit in (agg, pickle.loads(pickle.dumps(agg))):
        table = fit.inference()
        assert np.isnan(table.bse).all()
        assert any(note.startswith("Rows have weights") for note in table.notes)


def test_a_class_to_compare_with_is_one_label():
    X, codes, sites = four_sites()
    agg = fitted(X[:, :2], codes, sites)
    with pytest.raises(ValueError, match="is no class; these are"):
        agg.inference(reference=np.array([0, 1]))


def test_a_long_step_is_noted_and_further_messages_before_it_make_it_short():
    """Penguins by sex: their sizes nearly separate the classes."""
    birds, _, islands = load_penguins(as_frame=True)
    is_known = birds.notna().all(axis=1).to_numpy()
    X = birds.loc[is_known].select_dtypes("number")
    y, islands = birds.loc[is_known, "sex"], np.asarray(islands)[is_known]
    agg = GEMSLogisticAggregator(
        [(island, None) for island in np.unique(islands)], C=np.inf, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nodes with heavy tails
        tables = [
            agg.set_params(n_rounds=n_rounds)
            .fit(X, y, nodes=islands)
            .inference(X, y, islands)
            for n_rounds in (1, 3)
        ]
    notes = ["moved the coefficient" in str(table) for table in tables]
    assert notes == [True, False]
