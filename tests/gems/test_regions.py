# SPDX-License-Identifier: BSD-3-Clause
"""Summaries of regions, and of more nodes than are taken in at once."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression, RidgeClassifier

from skgems import GEMSLogisticAggregator
from skgems.federation import Summary
from skgems.gems import Moments, Spaces, _regions
from skgems.moments import ClassMoments, merge_moments

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
    return ClassMoments.from_arrays(answer["reply"]["moments"])


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
    of_nodes = merge_moments(renamed).by_class().about(of_region.origin)
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


# ---- more than are taken in at once ------------------------------------------------


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    """Files of summaries, which no test may alter."""
    folder = tmp_path_factory.mktemp("summaries")
    agg = GEMSLogisticAggregator(moments=ONE_CLUSTER, random_state=0)
    for summary in summaries(LogisticRegression(), agg, space=True):
        summary.save(folder / summary.name)
    return sorted(folder.iterdir())


def grouped(paths, **settings):
    return GEMSLogisticAggregator(
        list(paths), moments=ONE_CLUSTER, random_state=0, **settings
    )


def test_groups_of_many_files_become_one_node_each(paths, tmp_path, monkeypatch):
    flat = grouped(paths).fit()
    assert flat.node_names_ == [path.name for path in paths]
    monkeypatch.setattr(_regions, "GROUP", 4)
    many = grouped(paths).fit()
    assert many.node_names_ == ["group 0", "group 1"]
    sizes = [summary.n_rows for summary in many.estimators_]
    assert sum(sizes) == len(rows()[1]) and min(sizes) > 0
    X, y, _ = rows(2000, seed=1)
    # Which files are in a group depends on the last bits of the models in them.
    differences = np.abs(many.predict_proba(X) - flat.predict_proba(X))
    assert differences.mean() < 0.02 and differences.max() < 0.2
    # Neither order nor names of the files say who is in which group.
    turned = grouped(paths[::-1]).fit()
    assert np.array_equal(turned.coef_, many.coef_)
    for path, other in zip(paths, paths[1:] + paths[:1], strict=True):
        summary = Summary.load(path)
        settings = {**summary.message.settings, "name": f"now {other.name}"}
        message = type(summary.message)("join", settings, summary.message.arrays)
        (tmp_path / path.name).write_bytes(message.to_bytes())
    renamed = sorted(tmp_path.iterdir())
    assert np.array_equal(grouped(renamed).fit().coef_, many.coef_)


def test_groups_are_of_so_many_bytes_at_most(paths, monkeypatch):
    monkeypatch.setattr(_regions, "GROUP", 5)
    monkeypatch.setattr(_regions, "_GROUP_BYTES", 2 * paths[0].stat().st_size)
    assert len(grouped(paths).fit().node_names_) >= 3
    monkeypatch.setattr(_regions, "_GROUP_BYTES", 1)
    assert len(grouped(paths).fit().node_names_) == N_NODES


@pytest.mark.parametrize(
    "settings",
    [
        {"epsilon": 0.5, "spaces": Spaces(on_empty="ignore")},
        {"intersection": "consensus", "spaces": Spaces(on_empty="ignore")},
        {"node_weight": [1.0] * N_NODES},
        {"node_weight": "equal"},
        {"keep_replies": True},
    ],
)
def test_each_node_stays_where_something_is_asked_of_it(paths, settings, monkeypatch):
    expected = grouped(paths, **settings).fit()
    monkeypatch.setattr(_regions, "GROUP", 4)
    agg = grouped(paths, **settings).fit()
    assert agg.node_names_ == expected.node_names_ == [p.name for p in paths]
    assert np.array_equal(agg.coef_, expected.coef_)


def test_rows_beside_many_files(paths, monkeypatch):
    X, y, nodes = rows()
    monkeypatch.setattr(_regions, "GROUP", 4)
    assert len(grouped(paths).fit(X, y).node_names_) == 2
    named = np.array([f"node {k}" for k in nodes])
    agg = grouped(paths).fit(X, y, nodes=named)
    assert len(agg.node_names_) == N_NODES
    assert np.isfinite(agg.node_scores_["aggregate"]).all()


def test_two_of_many_files_with_one_name(paths, monkeypatch):
    monkeypatch.setattr(_regions, "GROUP", 4)
    with pytest.raises(ValueError, match=r"two nodes of the same name: \['node 0'\]"):
        grouped([*paths, paths[0]]).fit()


@pytest.mark.parametrize("content", [b"no summary", b"\x02" * 300])
def test_one_of_many_files_that_is_no_summary_is_named(
    paths, content, tmp_path, monkeypatch
):
    monkeypatch.setattr(_regions, "GROUP", 4)
    (tmp_path / "odd").write_bytes(content)
    with pytest.raises(ValueError, match="odd: it"):
        grouped([*paths, tmp_path / "odd"]).fit()


def test_one_of_many_files_with_other_numbers_than_it_may_have_is_named(
    paths, tmp_path, monkeypatch
):
    monkeypatch.setattr(_regions, "GROUP", 4)
    message = Summary.load(paths[0]).message
    arrays = dict(message.arrays)
    (name,) = (name for name in arrays if name.endswith("moments.means"))
    arrays[name] = np.full_like(arrays[name], np.nan)
    settings = {**message.settings, "name": "odd"}
    odd = type(message)("join", settings, arrays)
    (tmp_path / "odd").write_bytes(odd.to_bytes())
    with pytest.raises(ValueError, match="odd: .*means has .* not finite"):
        grouped([*paths, tmp_path / "odd"]).fit()
