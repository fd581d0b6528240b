# SPDX-License-Identifier: BSD-3-Clause
"""How good an aggregate is at each node, by rows here and by nodes elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.judged import judging_nodes
from sklearn.datasets import load_breast_cancer
from sklearn.discriminant_analysis import (
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
)
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import StandardScaler

from skgems import (
    Disclosure,
    EnsembleAggregator,
    GEMSLogisticAggregator,
    ModelAveragingAggregator,
    PooledAggregator,
)
from skgems.asking import NodesDisagreeWarning
from skgems.guard import Agreement

METRICS = ("auc", "sensitivity", "specificity", "ppv", "npv", "accuracy")
CALIBRATION = ("calibration_slope", "calibration_intercept")


def hospitals(n_columns=4):
    """Rows of three hospitals, the class 1 being the positive one."""
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X[:, :n_columns])
    nodes = np.array(["lyon", "nice", "paris"])[np.arange(len(y)) % 3]
    return X, 1 - y, nodes


def local_models(X, y, nodes):
    return {
        name: LogisticRegression().fit(X[nodes == name], y[nodes == name])
        for name in np.unique(nodes).tolist()
    }


def name_of(aggregator):
    return type(getattr(aggregator, "pooled", aggregator)).__name__


def numbers_of(site):
    return {name: getattr(site, name) for name in (*METRICS, *CALIBRATION)}


# Rows in this process -----------------------------------------------------------------


def test_rows_here_judge_the_aggregate_and_the_models_of_nodes():
    X, y, nodes = hospitals()
    models = local_models(X, y, nodes)
    agg = GEMSLogisticAggregator(list(models.items())).fit(X, y, nodes)
    evaluation = agg.evaluate(X, y, nodes)
    proba = agg.predict_proba(X)[:, 1]
    for name, site in evaluation.sites.items():
        rows = nodes == name
        assert site.auc == pytest.approx(roc_auc_score(y[rows], proba[rows]))
        assert site.accuracy == pytest.approx(agg.score(X[rows], y[rows]))
        own = models[name].predict_proba(X[rows])[:, 1]
        assert site.local.auc == pytest.approx(roc_auc_score(y[rows], own))
        assert site.support == {0: np.sum(rows & (y == 0)), 1: np.sum(rows & (y == 1))}
    assert evaluation.total.auc == pytest.approx(roc_auc_score(y, proba))
    assert evaluation.total.accuracy == pytest.approx(agg.score(X, y))
    assert evaluation.total.local is None
    # Nothing is kept, since the rows may be any.
    assert not hasattr(agg, "evaluation_")


def test_rows_of_nobody_judge_the_models_of_all_nodes():
    X, y, nodes = hospitals()
    models = local_models(X, y, nodes)
    agg = GEMSLogisticAggregator(list(models.items())).fit(X, y, nodes)
    evaluation = agg.evaluate(X, y)
    assert {site.auc for site in evaluation.sites.values()} == {evaluation.total.auc}
    assert evaluation.total.n_rows == len(y)


def test_votes_are_judged_by_rows_here():
    X, y, nodes = hospitals()
    models = local_models(X, y, nodes)
    votes = EnsembleAggregator(list(models.items())).fit(X, y, nodes)
    evaluation = votes.evaluate(X, y, nodes)
    proba = votes.predict_proba(X)[:, 1]
    assert evaluation.total.auc == pytest.approx(roc_auc_score(y, proba))


def test_classifiers_without_probabilities_are_judged_by_their_scores():
    X, y, nodes = hospitals()
    agg = PooledAggregator(pooled="RidgeClassifier").fit(X, y, nodes)
    total = agg.evaluate(X, y, nodes).total
    assert total.auc == pytest.approx(roc_auc_score(y, agg.decision_function(X)))


def test_models_of_nodes_are_judged_by_rows_before_the_bins_of_trees():
    X, y, nodes = hospitals()
    X = 100.0 * X + 5.0
    models = local_models(X, y, nodes)
    forest = RandomForestClassifier(3, max_depth=3, random_state=0)
    agg = PooledAggregator(list(models.items()), pooled=forest).fit(X, y, nodes)
    evaluation = agg.evaluate(X, y, nodes)
    report = agg.report(X, y, nodes)
    for k, (name, model) in enumerate(models.items()):
        rows = nodes == name
        expected = model.score(X[rows], y[rows])
        assert evaluation.sites[name].local.accuracy == pytest.approx(expected)
        assert report.nodes["local_accuracy"][k] == pytest.approx(expected)


def test_a_threshold_moves_rows_from_one_side_to_the_other():
    X, y, nodes = hospitals()
    agg = GEMSLogisticAggregator([(name, None) for name in np.unique(nodes).tolist()])
    agg.fit(X, y, nodes)
    careful = agg.evaluate(X, y, nodes, threshold=0.1).total
    usual = agg.evaluate(X, y, nodes).total
    is_taken = agg.predict_proba(X)[:, 1] >= 0.1
    assert careful.sensitivity == np.mean(is_taken[y == 1]) > usual.sensitivity
    assert careful.specificity == 1.0 - np.mean(is_taken[y == 0])
    assert careful.auc == usual.auc


def test_under_a_rule_rows_here_are_told_as_nodes_would_tell_them():
    X, y, nodes = hospitals()
    names = np.unique(nodes).tolist()
    rule = Disclosure(min_rows=20)
    agg = GEMSLogisticAggregator([(name, None) for name in names], disclosure=rule)
    evaluation = agg.fit(X, y, nodes).evaluate(X, y, nodes)
    assert evaluation.min_rows == dict.fromkeys(names, 20)
    for site in evaluation.sites.values():
        (metrics,) = site.by_class.values()
        assert metrics.true_positives % rule.rows == 0
        *lower, highest = metrics.bins.positives[metrics.bins.positives > 0]
        assert not (np.array(lower) % 20).any()
        assert sum(lower) + highest == site.support[1]
    few = nodes == names[0]
    few[np.flatnonzero(few & (y == 1))[19:]] = False
    site = agg.evaluate(X[few], y[few], nodes[few]).sites[names[0]]
    assert site.support[1] == 0 and np.isnan(site.auc)


@pytest.mark.parametrize(
    ("labels", "options", "match"),
    [
        (2, {"threshold": 0.5}, "threshold=0.5 is for two classes, but there are 3"),
        (0, {}, "The aggregate knows the class 0 only"),
    ],
)
def test_what_cannot_be_judged_is_an_error(labels, options, match):
    X, y, nodes = hospitals()
    y = np.minimum(np.arange(len(y)) % 3, labels)
    agg = GEMSLogisticAggregator([("lyon", None), ("nice", None), ("paris", None)])
    agg.fit(X, y, nodes)
    with pytest.raises(ValueError, match=match):
        agg.evaluate(X, y, nodes, **options)


@pytest.mark.parametrize("method", ["evaluate", "report"])
def test_each_row_that_judges_has_one_label(method):
    X, y, nodes = hospitals()
    agg = GEMSLogisticAggregator([("lyon", None), ("nice", None), ("paris", None)])
    judge = getattr(agg.fit(X, y, nodes), method)
    with pytest.raises(ValueError, match="y is None. Pass the label of each row"):
        judge(X, nodes=nodes)
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[569, 9"):
        judge(X, y[:9], nodes)
    column = judge(X, y.reshape(-1, 1), nodes)
    assert str(column) == str(judge(X, y, nodes))


def test_rows_of_classes_that_the_aggregate_does_not_know_are_a_doubt():
    X, y, nodes = hospitals()
    agg = GEMSLogisticAggregator([("lyon", None), ("nice", None), ("paris", None)])
    agg.fit(X, y, nodes)
    unknown = np.where(np.arange(len(y)) < 30, 7, y)
    evaluation = agg.evaluate(X, unknown, nodes)
    assert evaluation.unknown_labels == (7,) and evaluation.total.n_rows == len(y) - 30
    sentence = "The aggregate knows no class with these labels: 7."
    assert sentence in str(evaluation)
    assert sentence in str(agg.report(X, unknown, nodes)).replace("\n    ", " ")
    assert sentence not in str(agg.evaluate(X, y, nodes))
    # Rows of no node judge nothing.
    of_nobody = np.where(unknown == 7, "public", nodes)
    assert agg.evaluate(X, unknown, of_nobody).unknown_labels == ()


def test_nodes_that_tell_nothing_have_no_empty_tables():
    X, y, nodes = hospitals()
    agg = GEMSLogisticAggregator(
        [("lyon", None), ("nice", None), ("paris", None)],
        disclosure=Disclosure(min_rows=20),
    )
    few = agg.fit(X, y, nodes).evaluate(X[:30], y[:30], nodes[:30])
    assert few.total.n_rows == 0
    assert len(few.parts) == 2 and "AUC" not in str(few)


def test_without_rows_and_nodes_there_is_nobody_to_judge():
    X, y, nodes = hospitals()
    agg = GEMSLogisticAggregator([("lyon", None), ("nice", None), ("paris", None)])
    agg.fit(X, y, nodes)
    with pytest.raises(ValueError, match="There are no rows to judge the aggregate by"):
        agg.evaluate()
    with pytest.raises(ValueError, match="None of the labels in y is a class"):
        agg.evaluate(X, np.full(len(y), 7), nodes)


# Nodes behind a channel ---------------------------------------------------------------


@pytest.mark.parametrize(
    "aggregator",
    [
        GEMSLogisticAggregator(),
        ModelAveragingAggregator(),
        PooledAggregator(pooled="RidgeClassifier"),
        PooledAggregator(pooled=LinearDiscriminantAnalysis()),
        PooledAggregator(pooled=QuadraticDiscriminantAnalysis(reg_param=0.1)),
        PooledAggregator(pooled=GaussianNB()),
        PooledAggregator(pooled=RandomForestClassifier(3, max_depth=3, random_state=0)),
    ],
    ids=name_of,
)
def test_nodes_tell_what_their_rows_say(aggregator):
    X, y, nodes = hospitals()
    models = local_models(X, y, nodes)
    channel = judging_nodes(X, y, nodes, classifiers=models, disclosure=None)
    agg = aggregator.set_params(estimators=channel).fit()
    told = agg.evaluate()
    here = agg.evaluate(X, y, nodes)
    for name, site in told.sites.items():
        expected = numbers_of(here.sites[name])
        assert numbers_of(site) == pytest.approx(expected, abs=1e-6)
        if name_of(aggregator) == "RandomForestClassifier":
            # Trees take bins, which the nodes' own models were not fitted to.
            assert site.local is None
            continue
        own = models[name].predict_proba(X[nodes == name])[:, 1]
        expected = roc_auc_score(y[nodes == name], own)
        assert site.local.auc == pytest.approx(expected, abs=1e-6)
    assert told.total.auc == pytest.approx(here.total.auc, abs=0.005)
    assert agg.evaluation_ is told
    assert agg.history_[-1]["task"] == "metrics"


def test_nodes_judge_behind_a_front():
    X, y, nodes = hospitals()
    channel = judging_nodes(X, y, nodes, disclosure=None)
    agg = GEMSLogisticAggregator(channel, front=StandardScaler()).fit()
    told = agg.evaluate(threshold=0.3)
    here = agg.evaluate(X, y, nodes, threshold=0.3)
    for name, site in told.sites.items():
        expected = numbers_of(here.sites[name])
        assert numbers_of(site) == pytest.approx(expected, abs=1e-6)
        assert site.local is None


def test_under_a_rule_nodes_tell_areas_within_a_step():
    X, y, nodes = hospitals()
    agg = GEMSLogisticAggregator(judging_nodes(X, y, nodes)).fit()
    told = agg.evaluate()
    proba = agg.predict_proba(X)[:, 1]
    for name, site in told.sites.items():
        expected = roc_auc_score(y[nodes == name], proba[nodes == name])
        assert site.auc == pytest.approx(expected, abs=1 / 200)
        assert told.min_rows[name] == 10


def test_nodes_answer_once():
    X, y, nodes = hospitals()
    channel = judging_nodes(X, y, nodes)
    channel.agreement = Agreement.of(GEMSLogisticAggregator(), fits=3)
    agg = GEMSLogisticAggregator(channel).fit()
    first = agg.evaluate()
    # The same question gets the same answer.
    assert agg.evaluate().sites["lyon"].auc == first.sites["lyon"].auc
    with pytest.raises(ValueError, match="may be asked 1 times by the agreement"):
        agg.evaluate(threshold=0.25)


def test_what_nodes_cannot_judge_is_an_error():
    X, y, nodes = hospitals()
    classifier = HistGradientBoostingClassifier(
        max_iter=2, max_depth=2, max_leaf_nodes=None, early_stopping=False
    )
    channel = judging_nodes(X, y, nodes, disclosure=None)
    agg = PooledAggregator(channel, pooled=classifier).fit()
    with pytest.raises(TypeError, match="HistGradientBoosting.*no message can hold"):
        agg.evaluate()


def test_an_agreement_that_does_not_name_the_task_is_an_error():
    X, y, nodes = hospitals()
    channel = judging_nodes(X, y, nodes)
    agreement = Agreement.of(GEMSLogisticAggregator())
    without = {name: n for name, n in agreement.tasks.items() if name != "metrics"}
    object.__setattr__(agreement, "tasks", without)
    channel.agreement = agreement
    agg = GEMSLogisticAggregator(channel).fit()
    with pytest.raises(ValueError, match="does not name the task 'metrics'"):
        agg.evaluate()


# The report ---------------------------------------------------------------------------


def test_a_report_has_what_nodes_told_and_doubts_it():
    X, y, nodes = hospitals()
    models = local_models(X, y, nodes)
    # The labels of one hospital are the wrong way round, so the aggregate fails there.
    y_told = np.where(nodes == "paris", 1 - y, y)
    channel = judging_nodes(X, y_told, nodes, classifiers=models)
    agg = PooledAggregator(channel, pooled=LinearDiscriminantAnalysis())
    with pytest.warns(NodesDisagreeWarning):
        agg.fit()
    assert agg.report().evaluation is None
    told = agg.evaluate()
    report = agg.report()
    assert report.evaluation is told
    assert report.nodes["aggregate_accuracy"] == told.columns["accuracy"][:-1]
    (doubt,) = (doubt for doubt in report.doubts if "no better than chance" in doubt)
    assert "'paris' (0." in doubt and "'lyon'" not in doubt
    assert len(set(report.doubts)) == len(report.doubts)
    for shown in (str(report), report._repr_html_(), report.to_markdown()):
        assert "sensitivity" in shown and f"{told.sites['paris'].auc:.3f}" in shown


def test_a_report_of_rows_has_their_evaluation():
    X, y, nodes = hospitals()
    models = local_models(X, y, nodes)
    agg = GEMSLogisticAggregator(list(models.items())).fit(X, y, nodes)
    report = agg.report(X, y, nodes)
    assert report.evaluation.total.auc == agg.evaluate(X, y, nodes).total.auc
    assert agg.report().evaluation is None


def test_what_nodes_told_is_forgotten_once_the_model_is_another():
    X, y, nodes = hospitals()
    agg = GEMSLogisticAggregator(judging_nodes(X, y, nodes)).fit()
    agg.evaluate()
    agg.fine_tune(X[:60], y[:60])
    assert agg.report().evaluation is None
