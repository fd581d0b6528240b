# SPDX-License-Identifier: BSD-3-Clause
"""What a summary tells, in which bytes, and what of it exposes rows."""

from __future__ import annotations

import os
import pickle
import warnings
from contextlib import nullcontext

import numpy as np
import pytest
from helpers.summaries import NAMES, classifiers, rows, summaries
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, RidgeClassifier

from skgems import GEMSLogisticAggregator
from skgems.federation import Message, RowsExposedWarning, Summary
from skgems.networks import linear_logits
from skgems.spaces import Gram

pytestmark = pytest.mark.filterwarnings("ignore::skgems.federation.RowsExposedWarning")


# ---- what is told, and as which bytes ---------------------------------------------


@pytest.mark.parametrize("kind", [str, int, float, bool])
def test_labels_come_back_as_what_they_were(kind, tmp_path):
    X, y, _ = rows()
    labels = np.array([kind(v) for v in (y == "a")]) if kind is not str else y
    agg = GEMSLogisticAggregator(random_state=0)
    clf = LogisticRegression().fit(X, labels)
    agg.summarize(clf, X, labels, name="lyon").save(tmp_path / "lyon")
    fitted = agg.set_params(estimators=[tmp_path / "lyon"]).fit()
    assert fitted.classes_.dtype == labels.dtype
    assert set(fitted.predict(X).tolist()) <= set(labels.tolist())


def test_names_of_features_are_told_and_compared(tmp_path):
    pandas = pytest.importorskip("pandas")
    X, y, nodes = rows()
    frame = pandas.DataFrame(X, columns=[f"f{i}" for i in range(X.shape[1])])
    agg = GEMSLogisticAggregator(random_state=0)
    sent = []
    for name in NAMES:
        rows_of_node = frame[nodes == name]
        clf = LogisticRegression().fit(rows_of_node, y[nodes == name])
        sent.append(agg.summarize(clf, rows_of_node, y[nodes == name], name=name))
    fitted = agg.set_params(estimators=sent).fit()
    assert fitted.feature_names_in_.tolist() == list(frame.columns)
    other = frame.rename(columns={"f0": "f1", "f1": "f0"})[nodes == "rome"]
    clf = LogisticRegression().fit(other, y[nodes == "rome"])
    odd = agg.summarize(clf, other, y[nodes == "rome"], name="rome")
    with pytest.raises(ValueError, match="node 'rome' was fitted on features"):
        agg.set_params(estimators=[sent[0], odd]).fit()


def test_no_row_is_in_a_file(tmp_path):
    X, y, nodes = rows()
    agg = GEMSLogisticAggregator(random_state=0)
    (summary, *_) = summaries(agg, classifiers())
    summary.save(tmp_path / "lyon")
    content = (tmp_path / "lyon").read_bytes()
    for row in X[nodes == "lyon"]:
        assert row.tobytes() not in content
    assert b"pickle" not in content and b"sklearn" not in content


def test_a_file_is_written_at_once_and_replaced(tmp_path):
    agg = GEMSLogisticAggregator(random_state=0)
    one, other, _ = summaries(agg, classifiers())
    path = tmp_path / "told.safetensors"
    one.save(path)
    other.save(path)
    assert Summary.load(path).name == "paris"
    assert os.listdir(tmp_path) == ["told.safetensors"]
    with pytest.raises(OSError):
        one.save(tmp_path / "nowhere" / "told.safetensors")


def test_equal_arrays_are_told_once():
    agg = GEMSLogisticAggregator(random_state=0)
    message = summaries(agg, classifiers(), space=True)[0].message
    spaces = [name for name in message.arrays if name.endswith("metric_scatter")]
    assert len(spaces) == 2
    one, other = (message.arrays[name] for name in spaces)
    assert np.array_equal(one, other)
    header = int.from_bytes(message.to_bytes()[:8], "little")
    assert len(message.to_bytes()) - header < message.n_bytes - one.nbytes
    again = Message.from_bytes(message.to_bytes())
    for name, array in message.arrays.items():
        assert np.array_equal(again.arrays[name], array, equal_nan=True)
        assert again.arrays[name].dtype == array.dtype


@pytest.mark.parametrize(
    "options, most, close",
    [
        ({"dtype": "float32"}, 0.65, 1e-5),
        ({"dtype": "float16"}, 0.4, 0.02),
        ({"rank": 8, "dtype": "float32"}, 0.5, 0.2),
    ],
)
def test_fewer_bytes_cost_little(options, most, close):
    X, y, nodes = rows()
    agg = GEMSLogisticAggregator(moments="class", random_state=0)
    exact = summaries(agg, classifiers(), space=False)
    rounded = summaries(agg, classifiers(), space=False, **options)
    assert len(rounded[0].message.to_bytes()) < most * len(exact[0].message.to_bytes())
    reference = clone(agg).set_params(estimators=exact).fit().predict_proba(X)
    probabilities = clone(agg).set_params(estimators=rounded).fit().predict_proba(X)
    assert np.abs(probabilities - reference).mean() < close


def test_a_model_of_fewer_digits_is_not_called_exact():
    X, y, nodes = rows()
    ridges = {n: RidgeClassifier().fit(X[nodes == n], y[nodes == n]) for n in NAMES}
    agg = GEMSLogisticAggregator(random_state=0)
    for dtype in ("float64", "float32"):
        sent = [
            agg.summarize(ridges[n], X[nodes == n], y[nodes == n], name=n, dtype=dtype)
            for n in NAMES
        ]
        fitted = clone(agg).set_params(estimators=sent).fit()
        assert fitted.pooled_form_.kind == "ridge"
        assert fitted.exact_ == (dtype == "float64")
    assert "fewer digits" in fitted.pooled_form_.reason


def test_a_summary_shows_who_and_what():
    (summary, *_) = summaries(GEMSLogisticAggregator(random_state=0), classifiers())
    n_rows = int(np.sum(rows()[2] == "lyon"))
    assert repr(summary) == (
        f"Summary('lyon' for GEMSLogisticAggregator: {n_rows} rows, classes "
        "['a', 'b', 'c', 'd', 'e'])"
    )
    assert [request.task for request in summary.requests] == [
        "describe",
        "counts",
        "moments",
    ]
    _, y, nodes = rows()
    assert summary.row_counts["labels"] == sorted(set(y[nodes == "lyon"].tolist()))
    np.testing.assert_array_equal(
        linear_logits(rows()[0], summary.network.last),
        summary.network.decision_function(rows()[0]),
    )


def test_the_aggregator_is_not_changed_by_summarize():
    agg = GEMSLogisticAggregator(geometry=Gram(ridge=0.1), random_state=0)
    before = dict(vars(agg))
    summaries(agg, classifiers())
    assert vars(agg) == before


# ---- what exposes rows ------------------------------------------------------------


@pytest.mark.filterwarnings("default::skgems.federation.RowsExposedWarning")
@pytest.mark.parametrize(
    "settings, options, exposed",
    [
        ({"moments": "class"}, {}, True),
        ({"moments": "class"}, {"dtype": "float16", "rank": 3}, True),
        ({"moments": "class", "min_cluster_size": 29}, {}, False),
        ({"moments": "shared"}, {}, False),
        ({"moments": "diagonal"}, {}, False),
    ],
)
def test_covariances_of_few_rows_are_warned_of(settings, options, exposed):
    X, y, nodes = rows()
    agg = GEMSLogisticAggregator(random_state=0, **settings)
    name, clf = classifiers()[1]
    is_of_node = nodes == name
    is_of_node[np.flatnonzero(is_of_node & (y == "b"))[14:]] = False
    counts = {c: np.sum(is_of_node & (y == c)) for c in "bcde"}
    spread = {c: np.sum(np.ptp(X[is_of_node & (y == c)], axis=0) > 0) for c in "bcde"}
    exposed_classes = [c for c in "bcde" if counts[c] <= spread[c]]
    assert 0 < len(exposed_classes) < 4
    if not exposed:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RowsExposedWarning)
            agg.summarize(clf, X[is_of_node], y[is_of_node], name=name, **options)
        return
    with pytest.warns(RowsExposedWarning, match="'paris' sends covariances") as caught:
        agg.summarize(clf, X[is_of_node], y[is_of_node], name=name, **options)
    (warning,) = (w for w in caught if w.category is RowsExposedWarning)
    for label in "bcde":
        is_named = f"'{label}': {counts[label]}" in str(warning.message)
        assert is_named == (label in exposed_classes)
    assert warning.filename == __file__


@pytest.mark.filterwarnings("error::skgems.federation.RowsExposedWarning")
@pytest.mark.parametrize("options", [{}, {"dtype": "float16"}, {"rank": 2}])
@pytest.mark.parametrize("n_rows", [11, 12, 13])
def test_rows_are_few_up_to_as_many_as_features(n_rows, options):
    rng = np.random.default_rng(0)
    X = np.c_[rng.standard_normal((n_rows + 40, 12)), np.ones(n_rows + 40)]
    y = np.repeat([0, 1], [n_rows, 40])
    clf = LogisticRegression().fit(X, y)
    agg = GEMSLogisticAggregator(moments="class", min_cluster_size=5, random_state=0)
    expected = nullcontext()
    if n_rows <= 12:  # one of the features is constant
        expected = pytest.warns(RowsExposedWarning, match=rf"\{{0: {n_rows}\}} rows")
    with expected:
        agg.summarize(clf, X, y, name="lyon", **options)


# ---- as scikit-learn handles estimators ------------------------------------------


def test_copies_pickles_jobs_and_diagrams(tmp_path):
    X, _, _ = rows()
    agg = GEMSLogisticAggregator(random_state=0)
    sent = summaries(agg, classifiers())
    for summary in sent:
        summary.save(tmp_path / summary.name)
    paths = [str(tmp_path / name) for name in NAMES]
    fitted = clone(agg).set_params(estimators=paths).fit()
    parallel = clone(agg).set_params(estimators=paths, n_jobs=2).fit()
    assert np.array_equal(parallel.coef_, fitted.coef_)
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.predict_proba(X), fitted.predict_proba(X))
    assert pickle.loads(pickle.dumps(sent[0])).name == "lyon"
    named = GEMSLogisticAggregator([("lyon", paths[0]), ("rome", paths[2])])
    assert named.get_params()["rome"] == paths[2]
    assert clone(named).estimators == named.estimators
    mixed = GEMSLogisticAggregator([classifiers()[0][1], paths[1], sent[2]])
    for aggregator in (fitted, named, mixed):
        assert "rome" in aggregator._repr_html_()
