# SPDX-License-Identifier: BSD-3-Clause
"""Summaries of regions."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression, RidgeClassifier

from skgems import GEMSLogisticAggregator
from skgems.gems import Moments
from skgems.moments import ClassMoments, merge_moments
from skgems.parties import Summary

N_NODES, CLASSES = 6, ["a", "b", "c", "d"]
# One cluster a class, which is quick.
ONE_CLUSTER = Moments(n_components=1)


def rows(n_rows=360, seed=0):
    rng = np.random.default_rng(seed)
    codes = rng.integers(4, size=n_rows)
    centers = 2.0 * np.random.default_rng(9).standard_normal((4, 5))
    X = centers[codes] + rng.standard_normal((n_rows, 5)) @ np.diag([1, 2, 1, 3, 1])
    nodes = np.arange(n_rows) % N_NODES
    nodes[codes == 0] = 0  # of one node alone
    return X, np.array(CLASSES)[codes], nodes


def summaries(model, agg, **options):
    X, y, nodes = rows()
    return [
        agg.summarize(
            clone(model).fit(X[nodes == k], y[nodes == k]),
            *(X[nodes == k], y[nodes == k]),
            name=f"node {k}",
            disclosure=None,
            **options,
        )
        for k in range(N_NODES)
    ]


def moments_of(summary):
    (answer,) = (
        record
        for record in summary.message.content["answers"].values()
        if record["task"] == "moments"
    )
    return ClassMoments.from_content(answer["reply"]["moments"])


@pytest.mark.parametrize("moments", ["class", "shared", "diagonal"])
def test_a_region_tells_the_sums_of_its_nodes(moments):
    agg = GEMSLogisticAggregator(
        moments=Moments(moments, n_components=2), random_state=0
    )
    sent = summaries(LogisticRegression(), agg)
    region = agg.merge_summaries(sent, name="region")
    of_region = moments_of(region).by_class()
    renamed = []
    for summary in sent:
        columns = np.searchsorted(CLASSES, summary.row_counts["labels"])
        renamed.append(moments_of(summary).renamed(columns))
    of_nodes = merge_moments(renamed).by_class().with_origin(of_region.origin)
    order = np.argsort(of_nodes.columns)
    np.testing.assert_array_equal(of_region.columns, of_nodes.columns[order])
    np.testing.assert_allclose(of_region.counts, of_nodes.counts[order])
    np.testing.assert_allclose(of_region.means, of_nodes.means[order], atol=1e-12)
    np.testing.assert_allclose(
        of_region.scatter, of_nodes.scatter, rtol=1e-9, atol=1e-9
    )
    X, y, nodes = rows()
    assert region.name == "region" and region.n_rows == len(y)
    assert region.row_counts["labels"] == CLASSES
    tasks = [request.task for request in region.requests]
    assert tasks == ["describe", "counts", "moments"]
    # Its model is one of all classes, which says something by itself.
    logits = region.network.decision_function(X)
    assert np.mean(region.network.classes[logits.argmax(axis=1)] == y) > 0.8


@pytest.mark.parametrize(
    "model", [RidgeClassifier(alpha=0.3), LinearDiscriminantAnalysis(solver="lsqr")]
)
def test_models_of_sums_are_those_of_all_nodes_however_merged(model):
    agg = GEMSLogisticAggregator(moments=ONE_CLUSTER, random_state=0)
    sent = summaries(model, agg)
    flat = clone(agg).set_params(estimators=sent).fit()
    one = agg.merge_summaries(sent[:2], name="one")
    two = agg.merge_summaries([*sent[2:5]], name="two")
    of_both = agg.merge_summaries([one, two], name="both")
    X, y, _ = rows()
    for members in ([one, two, sent[5]], [of_both, sent[5]]):
        merged = clone(agg).set_params(estimators=members).fit()
        assert merged.exact_ and flat.exact_
        np.testing.assert_allclose(merged.coef_, flat.coef_, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(merged.intercept_, flat.intercept_, rtol=1e-8)
    pooled = clone(model).fit(X, y)
    np.testing.assert_allclose(flat.predict(X) == y, pooled.predict(X) == y)


def test_corrections_of_gradients_are_summed():
    agg = GEMSLogisticAggregator(random_state=0)
    sent = summaries(LogisticRegression(C=0.01), agg)
    X, y, _ = rows(2000, seed=1)
    flat = clone(agg).set_params(estimators=sent).fit()
    regions = [
        agg.merge_summaries(sent[:3], name="one"),
        agg.merge_summaries(sent[3:], name="two"),
    ]
    merged = clone(agg).set_params(estimators=regions).fit()
    moves = np.abs(merged.predict_proba(X) - flat.predict_proba(X))
    assert 0 < moves.mean() < 0.02
    scores = [agg.score(X, y) for agg in (merged, flat)]
    assert scores[0] > scores[1] - 0.01
    # One region of all nodes has corrected against the same moments.
    alone = agg.merge_summaries(sent, name="all")
    same = clone(agg).set_params(estimators=[alone]).fit()
    np.testing.assert_allclose(same.predict_proba(X), flat.predict_proba(X), atol=1e-3)
    # Without what they say of gradients it would be another model.
    slope = alone.message.content["answers"]["0"]["reply"]["slope"]
    assert np.abs(slope).max() > 1.0


def test_a_region_is_a_file_as_any_other(tmp_path):
    agg = GEMSLogisticAggregator(moments=ONE_CLUSTER, random_state=0)
    sent = summaries(LogisticRegression(), agg)
    region = agg.merge_summaries(sent, name="region")
    region.save(tmp_path / "region")
    again = Summary.load(tmp_path / "region")
    one, other = (
        clone(agg).set_params(estimators=[estimator]).fit().coef_
        for estimator in (region, tmp_path / "region")
    )
    assert again.name == "region"
    assert np.array_equal(one, other)


def test_what_cannot_be_merged():
    agg = GEMSLogisticAggregator(moments=ONE_CLUSTER, random_state=0)
    sent = summaries(LogisticRegression(), agg)
    with pytest.raises(ValueError, match="intersection='likelihood'"):
        clone(agg).set_params(intersection="consensus").merge_summaries(sent, name="x")
    with pytest.raises(ValueError, match="node_weight="):
        clone(agg).set_params(node_weight=[1.0] * 6).merge_summaries(sent, name="x")
    with pytest.raises(ValueError, match="n_rounds=2 asks nodes more than once"):
        clone(agg).set_params(n_rounds=2).merge_summaries(sent, name="x")
    with pytest.raises(ValueError, match="'node 0' was summarized with moments"):
        clone(agg).set_params(moments="shared").merge_summaries(sent, name="x")
    region = agg.merge_summaries(sent, name="region")
    with pytest.raises(ValueError, match=r"\['region'\] have no good-enough"):
        clone(agg).set_params(estimators=[region], epsilon=0.5).fit()
