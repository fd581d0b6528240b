# SPDX-License-Identifier: BSD-3-Clause
"""The content of a summary, its bytes, and summaries as estimators."""

from __future__ import annotations

import os
import pickle

import numpy as np
import pytest
from helpers.summaries import NAMES, classifiers, rows, summaries
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from skgems import GEMSLogisticAggregator
from skgems.asking import Message
from skgems.gems import Spaces
from skgems.networks import linear_logits
from skgems.parties import Summary
from skgems.spaces import Gram

# ---- content and bytes -------------------------------------------------------------


@pytest.mark.parametrize("kind", [str, int, float, bool])
def test_labels_come_back_with_the_same_type(kind, tmp_path):
    X, y, _ = rows()
    labels = y if kind is str else np.array([kind(is_a) for is_a in y == "a"])
    agg = GEMSLogisticAggregator(random_state=0)
    clf = LogisticRegression().fit(X, labels)
    agg.summarize(clf, X, labels, name="lyon").save(tmp_path / "lyon")
    fitted = agg.set_params(estimators=[tmp_path / "lyon"]).fit()
    assert fitted.classes_.dtype == labels.dtype
    assert set(fitted.predict(X).tolist()) <= set(labels.tolist())


def summary_of_table(name, table):
    """The summary of a node whose features have the names of the table's columns."""
    _, y, nodes = rows()
    in_node = nodes == name
    clf = LogisticRegression().fit(table[in_node], y[in_node])
    agg = GEMSLogisticAggregator(random_state=0)
    return agg.summarize(clf, table[in_node], y[in_node], name=name)


def test_names_of_features_are_sent_and_compared():
    pandas = pytest.importorskip("pandas")
    X, _, _ = rows()
    table = pandas.DataFrame(X, columns=[f"f{i}" for i in range(X.shape[1])])
    node_summaries = [summary_of_table(name, table) for name in NAMES]
    agg = GEMSLogisticAggregator(node_summaries, random_state=0).fit()
    assert agg.feature_names_in_.tolist() == list(table.columns)
    renamed = table.rename(columns={"f0": "f1", "f1": "f0"})
    of_renamed = summary_of_table("rome", renamed)
    with pytest.raises(ValueError, match="node 'rome' was fitted on features"):
        agg.set_params(estimators=[node_summaries[0], of_renamed]).fit()


def test_a_file_has_no_row_and_nothing_that_is_pickled(tmp_path):
    X, _, nodes = rows()
    agg = GEMSLogisticAggregator(random_state=0)
    summary = summaries(agg, classifiers())[0]
    summary.save(tmp_path / "lyon")
    content = (tmp_path / "lyon").read_bytes()
    for row in X[nodes == "lyon"]:
        assert row.tobytes() not in content
    assert b"pickle" not in content and b"sklearn" not in content


def test_a_saved_file_is_replaced_and_leaves_no_other_files(tmp_path):
    agg = GEMSLogisticAggregator(random_state=0)
    of_lyon, of_paris, _ = summaries(agg, classifiers())
    path = tmp_path / "node.safetensors"
    of_lyon.save(path)
    of_paris.save(path)
    assert Summary.load(path).name == "paris"
    assert os.listdir(tmp_path) == ["node.safetensors"]
    with pytest.raises(OSError):
        of_lyon.save(tmp_path / "nowhere" / "node.safetensors")


def test_equal_arrays_are_sent_once():
    agg = GEMSLogisticAggregator(random_state=0)
    message = summaries(agg, classifiers(), space=True)[0].message
    spaces = [name for name in message.arrays if name.endswith("metric_scatter")]
    assert len(spaces) == 2
    first, second = (message.arrays[name] for name in spaces)
    assert np.array_equal(first, second)
    header = int.from_bytes(message.to_bytes()[:8], "little")
    assert len(message.to_bytes()) - header < message.n_bytes - first.nbytes
    from_bytes = Message.from_bytes(message.to_bytes())
    for name, array in message.arrays.items():
        assert np.array_equal(from_bytes.arrays[name], array, equal_nan=True)
        assert from_bytes.arrays[name].dtype == array.dtype


def test_a_summary_shows_its_node_rows_classes_and_requests():
    summary = summaries(GEMSLogisticAggregator(random_state=0), classifiers())[0]
    _, y, nodes = rows()
    n_rows = int(np.sum(nodes == "lyon"))
    assert repr(summary) == (
        f"Summary('lyon' for GEMSLogisticAggregator: {n_rows} rows, classes "
        "['a', 'b', 'c', 'd', 'e'])"
    )
    assert [request.task for request in summary.requests] == [
        "describe",
        "counts",
        "moments",
    ]
    assert summary.row_counts["labels"] == sorted(set(y[nodes == "lyon"].tolist()))


def test_the_network_of_a_summary_has_the_logits_of_its_last_layer():
    summary = summaries(GEMSLogisticAggregator(random_state=0), classifiers())[0]
    X, _, _ = rows()
    np.testing.assert_array_equal(
        linear_logits(X, summary.network.last), summary.network.decision_function(X)
    )


def test_the_aggregator_is_not_changed_by_summarize():
    agg = GEMSLogisticAggregator(spaces=Spaces(Gram(ridge=0.1)), random_state=0)
    attributes = dict(vars(agg))
    summaries(agg, classifiers())
    assert vars(agg) == attributes


# ---- as scikit-learn handles estimators ------------------------------------------


@pytest.fixture
def paths(tmp_path):
    """Paths of the files of all nodes' summaries."""
    for summary in summaries(GEMSLogisticAggregator(random_state=0), classifiers()):
        summary.save(tmp_path / summary.name)
    return [str(tmp_path / name) for name in NAMES]


def test_parallel_jobs_on_files_have_the_same_bits(paths):
    serial = GEMSLogisticAggregator(paths, random_state=0).fit()
    parallel = GEMSLogisticAggregator(paths, random_state=0, n_jobs=2).fit()
    assert np.array_equal(parallel.coef_, serial.coef_)


def test_summaries_and_aggregates_of_files_can_be_pickled(paths):
    X, _, _ = rows()
    agg = GEMSLogisticAggregator(paths, random_state=0).fit()
    unpickled = pickle.loads(pickle.dumps(agg))
    assert np.array_equal(unpickled.predict_proba(X), agg.predict_proba(X))
    summary = Summary.load(paths[0])
    assert pickle.loads(pickle.dumps(summary)).name == "lyon"


def test_paths_of_files_are_parameters_that_are_cloned(paths):
    named = GEMSLogisticAggregator([("lyon", paths[0]), ("rome", paths[2])])
    assert named.get_params()["rome"] == paths[2]
    assert clone(named).estimators == named.estimators


def test_diagrams_show_files_summaries_and_classifiers(paths):
    fitted = GEMSLogisticAggregator(paths, random_state=0).fit()
    named = GEMSLogisticAggregator([("lyon", paths[0]), ("rome", paths[2])])
    classifier = classifiers()[0][1]
    mixed = GEMSLogisticAggregator([classifier, paths[1], Summary.load(paths[2])])
    for aggregator in (fitted, named, mixed):
        assert "rome" in aggregator._repr_html_()
