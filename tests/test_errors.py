# SPDX-License-Identifier: BSD-3-Clause
"""Errors name the node, say what is wrong and what to do, and what they say works."""

from __future__ import annotations

import re
import traceback
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_wine
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.exceptions import FitFailedWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import BernoulliNB, GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from skgems import (
    EnsembleAggregator,
    GEMSLogisticAggregator,
    GEMSMLPAggregator,
    ModelAveragingAggregator,
    PFNMAggregator,
    PooledAggregator,
    combine,
)
from skgems.federation import Nodes, reply_to
from skgems.spaces import NoSpaceError

X, CODES = load_wine(return_X_y=True)
X = (X - X.mean(axis=0)) / X.std(axis=0)
Y = np.array(["ill", "unclear", "well"])[CODES]
NODES = np.array(["lyon", "rome"])[np.arange(len(X)) % 2]
READING = [
    GEMSLogisticAggregator,
    GEMSMLPAggregator,
    ModelAveragingAggregator,
    PFNMAggregator,
]


def fitted(classifier, rows=X, labels=Y):
    return [
        (name, clone(classifier).fit(rows[NODES == name], labels[NODES == name]))
        for name in ("lyon", "rome")
    ]


# ---- classifiers without weights -----------------------------------------------------

WITHOUT_WEIGHTS = {
    "GaussianNB": (GaussianNB(), "PooledAggregator(pooled=GaussianNB())"),
    "behind a scaler": (
        make_pipeline(StandardScaler(), GaussianNB()),
        "PooledAggregator(pooled=GaussianNB())",
    ),
    "BernoulliNB": (BernoulliNB(), "PooledAggregator(pooled=BernoulliNB())"),
    "QuadraticDiscriminantAnalysis": (
        QuadraticDiscriminantAnalysis(reg_param=0.1),
        "PooledAggregator(pooled=QuadraticDiscriminantAnalysis())",
    ),
    "CalibratedClassifierCV": (
        CalibratedClassifierCV(LogisticRegression(), cv=3),
        "give the classifier that is calibrated",
    ),
    "DecisionTreeClassifier": (DecisionTreeClassifier(), ""),
}


@pytest.mark.parametrize("kind", READING)
@pytest.mark.parametrize("name", WITHOUT_WEIGHTS)
def test_who_has_no_weights_is_told_who_takes_it(name, kind):
    classifier, advice = WITHOUT_WEIGHTS[name]
    members = fitted(classifier)
    own = classifier[-1] if name == "behind a scaler" else classifier
    message = f"Node 'lyon': {type(own).__name__} cannot be read.*EnsembleAggregator"
    with pytest.raises(TypeError, match=message + f".*{re.escape(advice)}"):
        kind(members).fit(X, Y, nodes=NODES)
    with pytest.raises(TypeError, match=message + f".*{re.escape(advice)}"):
        kind(classifier).fit(X, Y, nodes=NODES)
    if not advice:
        with pytest.raises(TypeError, match=message) as raised:
            kind(members).fit(X, Y, nodes=NODES)
        assert "PooledAggregator" not in str(raised.value)


def test_a_node_that_has_no_weights_to_send_is_told_so():
    members = dict(fitted(GaussianNB()))
    own = NODES == "lyon"
    with pytest.raises(TypeError, match="Node 'lyon': GaussianNB.*pooled=GaussianNB"):
        GEMSLogisticAggregator().summarize(members["lyon"], X[own], Y[own], name="lyon")
    assert PooledAggregator(pooled=GaussianNB()).summarize(
        members["lyon"], X[own], Y[own], name="lyon"
    )


@pytest.mark.parametrize("name", WITHOUT_WEIGHTS)
def test_what_is_advised_of_classifiers_without_weights_works(name):
    classifier, advice = WITHOUT_WEIGHTS[name]
    members = fitted(classifier)
    vote = EnsembleAggregator(members).fit(X, Y, nodes=NODES)
    assert vote.score(X, Y) > 0.7
    if "Pooled" in advice:
        kind = type(classifier[-1] if name == "behind a scaler" else classifier)
        pooled = kind(reg_param=0.1) if "Quadratic" in name else kind()
        aggregate = PooledAggregator(members, pooled=pooled).fit(X, Y, nodes=NODES)
        whole = clone(pooled).fit(X, Y)
        np.testing.assert_array_equal(aggregate.predict(X), whole.predict(X))
    if "calibrated" in advice:
        inner = fitted(classifier.estimator)
        aggregate = GEMSLogisticAggregator(inner, random_state=0)
        assert aggregate.fit(X, Y, nodes=NODES).score(X, Y) > 0.9


def test_boosting_of_another_library():
    lightgbm = pytest.importorskip("lightgbm")
    members = fitted(lightgbm.LGBMClassifier(n_estimators=2, verbose=-1))
    message = "Node 'lyon': LGBMClassifier cannot be read.*EnsembleAggregator"
    for kind in READING:
        with pytest.raises(TypeError, match=message):
            kind(members).fit(X, Y, nodes=NODES)
    with pytest.raises(ValueError, match="LGBMClassifier is not.*EnsembleAggregator"):
        PooledAggregator(members).fit(X, Y, nodes=NODES)
    assert EnsembleAggregator(members).fit().predict(X).shape == Y.shape


def test_rounds_say_who_takes_what_cannot_train():
    message = "Node 'lyon': GaussianNB cannot go on training.*EnsembleAggregator"
    with pytest.raises(TypeError, match=message):
        ModelAveragingAggregator(fitted(GaussianNB()), n_rounds=2).fit(
            X, Y, nodes=NODES
        )


def test_what_is_summed_behind_steps_is_told_of_the_front():
    members = fitted(make_pipeline(StandardScaler(), GaussianNB()))
    with pytest.raises(ValueError, match="'lyon'.*front=, and pooled=GaussianNB"):
        PooledAggregator(members).fit(X, Y, nodes=NODES)
    aggregate = PooledAggregator(members, pooled=GaussianNB(), front=StandardScaler())
    whole = make_pipeline(StandardScaler(), GaussianNB()).fit(X, Y)
    np.testing.assert_allclose(
        aggregate.fit(X, Y, nodes=NODES).predict_proba(X), whole.predict_proba(X)
    )


# ---- tables with texts ---------------------------------------------------------------


def table():
    pandas = pytest.importorskip("pandas")
    colours = np.array(["red", "green", "blue"])[np.arange(len(X)) % 3]
    return pandas.DataFrame({"alcohol": X[:, 0], "hue": X[:, 10], "colour": colours})


def encoder():
    return make_column_transformer(
        (StandardScaler(), ["alcohol", "hue"]),
        (OneHotEncoder(handle_unknown="ignore"), ["colour"]),
    )


TO_DO = "front=, a ColumnTransformer.*not fitted.*combine.*EnsembleAggregator"


@pytest.mark.parametrize("kind", READING)
def test_fitted_pipelines_of_a_table_are_told_of_front_and_combine(kind):
    frame = table()
    members = fitted(make_pipeline(encoder(), LogisticRegression()), frame)
    message = rf"X has columns of text, \['colour'\].*{TO_DO}"
    with pytest.raises(ValueError, match=message) as raised:
        kind(members).fit(frame, Y, nodes=NODES)
    assert "red" not in str(raised.value)
    assert raised.value.__cause__ is None and raised.value.__suppress_context__
    message = "Node 'lyon': step 'columntransformer'.*as front=.*combine.*Ensemble"
    with pytest.raises(ValueError, match=message):
        kind(members).fit()


def test_a_node_with_a_table_is_told_of_front_and_combine():
    frame, own = table(), NODES == "lyon"
    members = dict(fitted(make_pipeline(encoder(), LogisticRegression()), frame))
    message = rf"Node 'lyon': X has columns of text, \['colour'\].*{TO_DO}"
    with pytest.raises(ValueError, match=message) as raised:
        GEMSLogisticAggregator().summarize(
            members["lyon"], frame[own], Y[own], name="lyon"
        )
    assert "red" not in str(raised.value)


def test_what_is_advised_of_tables_works():
    frame = table()
    pipelines = fitted(make_pipeline(encoder(), LogisticRegression()), frame)
    for members in (LogisticRegression(), [(name, None) for name in ("lyon", "rome")]):
        aggregate = GEMSLogisticAggregator(members, front=encoder(), random_state=0)
        assert aggregate.fit(frame, Y, nodes=NODES).score(frame, Y) > 0.7
    combined = combine(pipelines, frame, Y, nodes=NODES, budget="small", random_state=0)
    assert combined.score(frame, Y) > 0.7
    assert EnsembleAggregator(pipelines).fit().score(frame, Y) > 0.7


def test_a_text_in_a_column_of_numbers_is_told_by_its_column():
    frame = table().drop(columns="colour").astype(object)
    frame.iloc[3, 1] = "unknown"
    members = fitted(LogisticRegression(), X[:, :2])
    message = r"X has texts among the numbers of the columns \['hue'\]. Write numbers"
    with pytest.raises(ValueError, match=message) as raised:
        GEMSLogisticAggregator(members).fit(frame, Y, nodes=NODES)
    assert "unknown" not in str(raised.value)
    assert "unknown" in str(raised.value.__cause__)  # which is not sent to others


# ---- nets whose labels are numbers ---------------------------------------------------


def coded_nets():
    """Nets that two sites fitted to labels coded at home: 0 and 1 are others each."""
    nets = pytest.importorskip("helpers.nets")
    rows, codes, nodes, _, _ = nets.digits()
    names = np.array(["ant", "bee", "cat"])
    sites, members, kept = ["lyon", "rome"], [], np.zeros(len(codes), dtype=bool)
    for k, site in enumerate(sites):
        own = np.isin(codes, [k, k + 1]) & (np.arange(len(codes)) % 2 == k)
        kept |= own
        net = nets.net(module__n_outputs=2)
        net.fit(rows[own].astype(np.float32), codes[own] - k)
        members.append((site, net))
    owners = np.array(sites)[np.arange(len(codes)) % 2]
    return members, rows[kept], names[codes[kept]], owners[kept], names


def test_nets_with_labels_coded_at_each_site_are_told_of_classes():
    members, rows, y, owners, names = coded_nets()
    message = r"Node 'lyon': its skorch net numbers.*net.set_params\(classes=\[...\]\)"
    for kind in (EnsembleAggregator, GEMSMLPAggregator):
        with pytest.raises(ValueError, match=message) as raised:
            kind(members).fit(rows, y)
        assert "VotingClassifier" not in str(raised.value)
    at_its_node = r"Node 'lyon': its classifier has seen none.*Its skorch net numbers"
    with pytest.raises(ValueError, match=at_its_node):
        EnsembleAggregator(members).fit(rows, y, nodes=owners)
    # What it says works.
    for k, (_, net) in enumerate(members):
        net.set_params(classes=names[[k, k + 1]])
    aggregate = EnsembleAggregator(members).fit(rows, y, nodes=owners)
    assert aggregate.classes_.tolist() == names.tolist()
    assert aggregate.score(rows, y) > 0.4


def test_a_net_of_one_output_is_told_of_its_labels():
    nets = pytest.importorskip("helpers.nets")
    rows, codes, _, _, _ = nets.digits()
    rows, codes = rows[codes < 2].astype(np.float32), codes[codes < 2]
    net = nets.binary_net().fit(rows, codes.astype(np.float32))
    with pytest.raises(ValueError, match="Node 'lyon': NeuralNetBinary.*0 and 1 alone"):
        EnsembleAggregator([("lyon", net)]).fit(rows, np.array(["a", "b"])[codes])
    assert EnsembleAggregator([("lyon", net)]).fit(rows, codes).predict(rows[:1]) < 2


def test_labels_coded_at_each_site_for_other_classifiers():
    members = fitted(LogisticRegression(), labels=CODES)
    with pytest.raises(ValueError, match="numbers from 0, as LabelEncoder.*the same w"):
        GEMSLogisticAggregator(members).fit(X, Y)
    members = fitted(LogisticRegression())
    with pytest.raises(ValueError, match="y are numbers from 0.*labels that the nodes"):
        GEMSLogisticAggregator(members).fit(X, CODES)


# ---- tracebacks ----------------------------------------------------------------------


def whole_traceback(error):
    return "".join(traceback.format_exception(error))


# Two columns, of which no linear model is right about all rows.
NARROW = X[:, [2, 7]]


def test_a_search_over_epsilon_prints_one_short_traceback_a_fit():
    members = fitted(LogisticRegression(), NARROW)
    search = GridSearchCV(
        GEMSLogisticAggregator(members, random_state=0), {"epsilon": [0.2, 1.0]}, cv=3
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        search.fit(NARROW, Y, nodes=NODES)
    assert search.best_params_ == {"epsilon": 0.2}
    (failed,) = [own for own in caught if own.category is FitFailedWarning]
    text = str(failed.message)
    n_failed = text.count("NoSpaceError: node ")
    assert n_failed == 3
    assert text.count("Traceback (most recent call last)") == n_failed
    assert "direct cause" not in text and "During handling" not in text
    # Of this package the outermost calls alone; there were eleven, and the cause's.
    calls = [line for line in text.splitlines() if line.startswith("  File ")]
    assert len([call for call in calls if "sklearn" not in call]) <= 2 * n_failed
    assert len(text.splitlines()) < 25 * n_failed


def test_a_level_that_is_too_high_names_node_and_level_in_one_line():
    members = fitted(LogisticRegression(), NARROW)
    aggregate = GEMSLogisticAggregator(members, epsilon=1.0, random_state=0)
    message = "node 'lyon'.*epsilon is 1.*Choose"
    with pytest.raises(NoSpaceError, match=message) as raised:
        aggregate.fit(NARROW, Y, nodes=NODES)
    assert "\n" not in str(raised.value)
    assert raised.value.__cause__ is None and raised.value.__suppress_context__


class Broken(LogisticRegression):
    """Raises where it is asked."""

    def predict_proba(self, X):
        raise ValueError("broken at home")


def test_the_traceback_of_a_classifier_leads_to_its_own_code():
    vote = EnsembleAggregator([("oslo", Broken().fit(X, Y))]).fit()
    with pytest.raises(ValueError, match="Node 'oslo'.*broken at home") as raised:
        vote.predict(X)
    assert "in predict_proba" in whole_traceback(raised.value)


def test_what_a_node_raises_is_raised_once_with_the_place():
    def ask(requests):
        replies = {}
        for name, request in requests.items():
            try:
                replies[name] = reply_to(request, None, X * np.nan, Y, name=name)
            except ValueError as failure:
                replies[name] = failure
        return replies

    with pytest.raises(ValueError, match="node 'oslo': Input X contains NaN") as raised:
        GEMSLogisticAggregator(Nodes(ask, ["oslo"])).fit()
    text = whole_traceback(raised.value)
    assert text.count("Traceback (most recent call last)") == 1
    assert "in check_array" in text


def test_a_part_that_cannot_be_read_is_told_once():
    nested = OneVsRestClassifier(DecisionTreeClassifier()).fit(X, Y)
    with pytest.raises(TypeError, match="OneVsRestClassifier of Decision") as raised:
        GEMSLogisticAggregator([("oslo", nested)]).fit(X, Y)
    assert whole_traceback(raised.value).count("Traceback (most recent call last)") == 1


def test_a_file_that_is_wrong_is_named_in_one_traceback(tmp_path):
    path = tmp_path / "lyon.safetensors"
    path.write_bytes(b"no file of skgems")
    with pytest.raises(ValueError, match="lyon.safetensors: ") as raised:
        GEMSLogisticAggregator([path]).fit()
    text = whole_traceback(raised.value)
    assert text.count("Traceback (most recent call last)") == 1
    assert "in check_start" in text  # the place where it was found
