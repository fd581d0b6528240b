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
    agg, told = GEMSLogisticAggregator(random_state=0), []
    for name in NAMES:
        own = frame[nodes == name]
        clf = LogisticRegression().fit(own, y[nodes == name])
        told.append(agg.summarize(clf, own, y[nodes == name], name=name))
    fitted = agg.set_params(estimators=told).fit()
    assert fitted.feature_names_in_.tolist() == list(frame.columns)
    other = frame.rename(columns={"f0": "f1", "f1": "f0"})[nodes == "rome"]
    clf = LogisticRegression().fit(other, y[nodes == "rome"])
    odd = agg.summarize(clf, other, y[nodes == "rome"], name="rome")
    with pytest.raises(ValueError, match="node 'rome' was fitted on features"):
        agg.set_params(estimators=[told[0], odd]).fit()


def test_no_row_is_in_a_file(tmp_path):
    X, y, nodes = rows()
    agg = GEMSLogisticAggregator(random_state=0)
    (told, *_) = summaries(agg, classifiers())
    told.save(tmp_path / "lyon")
    data = (tmp_path / "lyon").read_bytes()
    for row in X[nodes == "lyon"]:
        assert row.tobytes() not in data
    assert b"pickle" not in data and b"sklearn" not in data


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
    told = summaries(agg, classifiers(), space=True)[0].message
    spaces = [name for name in told.arrays if name.endswith("metric_scatter")]
    assert len(spaces) == 2
    one, other = (told.arrays[name] for name in spaces)
    assert np.array_equal(one, other)
    header = int.from_bytes(told.to_bytes()[:8], "little")
    assert len(told.to_bytes()) - header < told.n_bytes - one.nbytes
    again = Message.from_bytes(told.to_bytes())
    for name, array in told.arrays.items():
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
    whole = summaries(agg, classifiers(), space=False)
    few = summaries(agg, classifiers(), space=False, **options)
    assert len(few[0].message.to_bytes()) < most * len(whole[0].message.to_bytes())
    reference = clone(agg).set_params(estimators=whole).fit().predict_proba(X)
    found = clone(agg).set_params(estimators=few).fit().predict_proba(X)
    assert np.abs(found - reference).mean() < close


def test_a_model_of_fewer_digits_is_not_called_exact():
    X, y, nodes = rows()
    ridges = {n: RidgeClassifier().fit(X[nodes == n], y[nodes == n]) for n in NAMES}
    agg = GEMSLogisticAggregator(random_state=0)
    for dtype in ("float64", "float32"):
        told = [
            agg.summarize(ridges[n], X[nodes == n], y[nodes == n], name=n, dtype=dtype)
            for n in NAMES
        ]
        found = clone(agg).set_params(estimators=told).fit()
        assert found.pooled_form_.kind == "ridge"
        assert found.exact_ == (dtype == "float64")
    assert "fewer digits" in found.pooled_form_.reason


def test_a_summary_shows_who_and_what():
    (told, *_) = summaries(GEMSLogisticAggregator(random_state=0), classifiers())
    n_rows = int(np.sum(rows()[2] == "lyon"))
    assert repr(told) == (
        f"Summary('lyon' for GEMSLogisticAggregator: {n_rows} rows, classes "
        "['a', 'b', 'c', 'd', 'e'])"
    )
    assert [own.task for own in told.requests] == ["describe", "counts", "moments"]
    _, y, nodes = rows()
    assert told.row_counts["labels"] == sorted(set(y[nodes == "lyon"].tolist()))
    np.testing.assert_array_equal(
        linear_logits(rows()[0], told.network.last),
        told.network.decision_function(rows()[0]),
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
    own = nodes == name
    own[np.flatnonzero(own & (y == "b"))[14:]] = False
    counts = {c: np.sum(own & (y == c)) for c in "bcde"}
    spread = {c: np.sum(np.ptp(X[own & (y == c)], axis=0) > 0) for c in "bcde"}
    few = [c for c in "bcde" if counts[c] <= spread[c]]
    assert 0 < len(few) < 4
    if not exposed:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RowsExposedWarning)
            agg.summarize(clf, X[own], y[own], name=name, **options)
        return
    with pytest.warns(RowsExposedWarning, match="'paris' sends covariances") as caught:
        agg.summarize(clf, X[own], y[own], name=name, **options)
    (warning,) = (w for w in caught if w.category is RowsExposedWarning)
    for label in "bcde":
        told = f"'{label}': {counts[label]}" in str(warning.message)
        assert told == (label in few)
    assert warning.filename == __file__


@pytest.mark.filterwarnings("error::skgems.federation.RowsExposedWarning")
@pytest.mark.parametrize("told", [{}, {"dtype": "float16"}, {"rank": 2}])
@pytest.mark.parametrize("n_rows", [11, 12, 13])
def test_rows_are_few_up_to_as_many_as_features(n_rows, told):
    rng = np.random.default_rng(0)
    X = np.c_[rng.standard_normal((n_rows + 40, 12)), np.ones(n_rows + 40)]
    y = np.repeat([0, 1], [n_rows, 40])
    clf = LogisticRegression().fit(X, y)
    agg = GEMSLogisticAggregator(moments="class", min_cluster_size=5, random_state=0)
    expected = nullcontext()
    if n_rows <= 12:  # one of the features is constant
        expected = pytest.warns(RowsExposedWarning, match=rf"\{{0: {n_rows}\}} rows")
    with expected:
        agg.summarize(clf, X, y, name="lyon", **told)


# ---- as scikit-learn handles estimators ------------------------------------------


def test_copies_pickles_jobs_and_diagrams(tmp_path):
    X, _, _ = rows()
    agg = GEMSLogisticAggregator(random_state=0)
    told = summaries(agg, classifiers())
    for summary in told:
        summary.save(tmp_path / summary.name)
    paths = [str(tmp_path / name) for name in NAMES]
    fitted = clone(agg).set_params(estimators=paths).fit()
    parallel = clone(agg).set_params(estimators=paths, n_jobs=2).fit()
    assert np.array_equal(parallel.coef_, fitted.coef_)
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.predict_proba(X), fitted.predict_proba(X))
    assert pickle.loads(pickle.dumps(told[0])).name == "lyon"
    named = GEMSLogisticAggregator([("lyon", paths[0]), ("rome", paths[2])])
    assert named.get_params()["rome"] == paths[2]
    assert clone(named).estimators == named.estimators
    mixed = GEMSLogisticAggregator([classifiers()[0][1], paths[1], told[2]])
    for shown in (fitted, named, mixed):
        assert "rome" in shown._repr_html_()
