# SPDX-License-Identifier: BSD-3-Clause
"""Errors name the node, say what is wrong and what to do, and what they say works."""

from __future__ import annotations

import re
import traceback
import warnings

import numpy as np
import pytest
from helpers.labels import assert_same_labels
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_wine
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.exceptions import FitFailedWarning
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import BernoulliNB, GaussianNB
from sklearn.pipeline import Pipeline, make_pipeline
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
from skgems.asking import Nodes
from skgems.gems import Spaces
from skgems.guard import reply_to
from skgems.spaces import EmptyIntersectionWarning, NoSpaceError

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
    """The two nodes, each with a clone that is fitted to its rows."""
    return [
        (name, clone(classifier).fit(rows[NODES == name], labels[NODES == name]))
        for name in ("lyon", "rome")
    ]


def whole_traceback(error):
    return "".join(traceback.format_exception(error))


def n_tracebacks(text):
    return text.count("Traceback (most recent call last)")


# ---- classifiers without weights -----------------------------------------------------

# Classifiers whose weights cannot be read, and what their error advises beside
# EnsembleAggregator, which takes any classifier.
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
        "give the classifier inside",
    ),
    "DecisionTreeClassifier": (DecisionTreeClassifier(), ""),
}


@pytest.mark.parametrize("kind", READING)
@pytest.mark.parametrize("name", WITHOUT_WEIGHTS)
def test_the_error_about_missing_weights_names_aggregators_that_need_none(name, kind):
    classifier, advice = WITHOUT_WEIGHTS[name]
    last_step = classifier[-1] if isinstance(classifier, Pipeline) else classifier
    message = (
        f"Node 'lyon': {type(last_step).__name__} cannot be read"
        f".*EnsembleAggregator.*{re.escape(advice)}"
    )
    for estimators in (fitted(classifier), classifier):
        with pytest.raises(TypeError, match=message) as raised:
            kind(estimators).fit(X, Y, nodes=NODES)
        assert ("PooledAggregator" in str(raised.value)) == ("Pooled" in advice)


def test_a_node_that_has_no_weights_to_send_gets_an_error_that_says_what_to_do():
    classifier = dict(fitted(GaussianNB()))["lyon"]
    X_lyon = X[NODES == "lyon"]
    Y_lyon = Y[NODES == "lyon"]
    with pytest.raises(TypeError, match="Node 'lyon': GaussianNB.*pooled=GaussianNB"):
        GEMSLogisticAggregator().summarize(classifier, X_lyon, Y_lyon, name="lyon")
    # What the error advises works.
    pooled = PooledAggregator(pooled=GaussianNB())
    assert pooled.summarize(classifier, X_lyon, Y_lyon, name="lyon")


@pytest.mark.parametrize("name", WITHOUT_WEIGHTS)
def test_classifiers_without_weights_can_vote(name):
    classifier, _ = WITHOUT_WEIGHTS[name]
    vote = EnsembleAggregator(fitted(classifier)).fit(X, Y, nodes=NODES)
    assert vote.score(X, Y) > 0.7


@pytest.mark.parametrize(
    ("name", "pooled"),
    [
        ("GaussianNB", GaussianNB()),
        ("behind a scaler", GaussianNB()),
        ("BernoulliNB", BernoulliNB()),
        (
            "QuadraticDiscriminantAnalysis",
            QuadraticDiscriminantAnalysis(reg_param=0.1),
        ),
    ],
)
def test_classifiers_without_weights_can_be_pooled_as_the_error_advises(name, pooled):
    classifier, _ = WITHOUT_WEIGHTS[name]
    members = fitted(classifier)
    aggregate = PooledAggregator(members, pooled=pooled).fit(X, Y, nodes=NODES)
    of_all_rows = clone(pooled).fit(X, Y)
    assert_same_labels(aggregate, of_all_rows, X)


def test_the_classifier_within_a_calibrated_one_can_be_read_as_the_error_advises():
    calibrated, _ = WITHOUT_WEIGHTS["CalibratedClassifierCV"]
    members = fitted(calibrated.estimator)
    aggregate = GEMSLogisticAggregator(members, random_state=0)
    assert aggregate.fit(X, Y, nodes=NODES).score(X, Y) > 0.9


def test_boosting_of_another_library_can_vote_and_the_errors_of_others_say_so():
    lightgbm = pytest.importorskip("lightgbm")
    members = fitted(lightgbm.LGBMClassifier(n_estimators=2, verbose=-1))
    message = "Node 'lyon': LGBMClassifier cannot be read.*EnsembleAggregator"
    for kind in READING:
        with pytest.raises(TypeError, match=message):
            kind(members).fit(X, Y, nodes=NODES)
    with pytest.raises(ValueError, match="LGBMClassifier is not.*EnsembleAggregator"):
        PooledAggregator(members).fit(X, Y, nodes=NODES)
    assert EnsembleAggregator(members).fit().predict(X).shape == Y.shape


def test_rounds_of_a_classifier_that_cannot_train_are_an_error_that_says_who_takes_it():
    aggregator = ModelAveragingAggregator(fitted(GaussianNB()), n_rounds=2)
    message = "Node 'lyon': GaussianNB cannot continue training.*EnsembleAggregator"
    with pytest.raises(TypeError, match=message):
        aggregator.fit(X, Y, nodes=NODES)


def test_the_error_about_pooled_pipelines_advises_a_front_which_works():
    members = fitted(make_pipeline(StandardScaler(), GaussianNB()))
    with pytest.raises(ValueError, match="'lyon'.*front=, and pooled=GaussianNB"):
        PooledAggregator(members).fit(X, Y, nodes=NODES)
    aggregate = PooledAggregator(members, pooled=GaussianNB(), front=StandardScaler())
    aggregate.fit(X, Y, nodes=NODES)
    of_all_rows = make_pipeline(StandardScaler(), GaussianNB()).fit(X, Y)
    np.testing.assert_allclose(aggregate.predict_proba(X), of_all_rows.predict_proba(X))


# ---- tables with texts ---------------------------------------------------------------


def table():
    """The rows as a data frame with a column of text."""
    pandas = pytest.importorskip("pandas")
    colors = np.array(["red", "green", "blue"])[np.arange(len(X)) % 3]
    return pandas.DataFrame({"alcohol": X[:, 0], "hue": X[:, 10], "color": colors})


def encoder():
    """A transformer that makes numbers of the table."""
    return make_column_transformer(
        (StandardScaler(), ["alcohol", "hue"]),
        (OneHotEncoder(handle_unknown="ignore"), ["color"]),
    )


# What errors about columns of text advise.
ADVICE_ABOUT_TEXT = (
    "front=, a ColumnTransformer.*not fitted.*combine.*EnsembleAggregator"
)


@pytest.mark.parametrize("kind", READING)
def test_the_error_about_fitted_pipelines_of_a_table_advises_front_and_combine(kind):
    frame = table()
    members = fitted(make_pipeline(encoder(), LogisticRegression()), frame)
    message = rf"X has columns of text, \['color'\].*{ADVICE_ABOUT_TEXT}"
    with pytest.raises(ValueError, match=message) as raised:
        kind(members).fit(frame, Y, nodes=NODES)
    assert "red" not in str(raised.value)
    assert raised.value.__cause__ is None and raised.value.__suppress_context__
    message = "Node 'lyon': step 'columntransformer'.*as front=.*combine.*Ensemble"
    with pytest.raises(ValueError, match=message):
        kind(members).fit()


def test_the_error_about_a_table_at_a_node_advises_front_and_combine():
    frame = table()
    at_lyon = NODES == "lyon"
    members = dict(fitted(make_pipeline(encoder(), LogisticRegression()), frame))
    message = rf"Node 'lyon': X has columns of text, \['color'\].*{ADVICE_ABOUT_TEXT}"
    with pytest.raises(ValueError, match=message) as raised:
        GEMSLogisticAggregator().summarize(
            members["lyon"], frame[at_lyon], Y[at_lyon], name="lyon"
        )
    assert "red" not in str(raised.value)


def test_what_errors_about_tables_advise_works():
    frame = table()
    pipelines = fitted(make_pipeline(encoder(), LogisticRegression()), frame)
    for members in (LogisticRegression(), [(name, None) for name in ("lyon", "rome")]):
        aggregate = GEMSLogisticAggregator(members, front=encoder(), random_state=0)
        assert aggregate.fit(frame, Y, nodes=NODES).score(frame, Y) > 0.7
    combined = combine(pipelines, frame, Y, nodes=NODES, budget="small", random_state=0)
    assert combined.score(frame, Y) > 0.7
    assert EnsembleAggregator(pipelines).fit().score(frame, Y) > 0.7


def test_the_error_about_a_text_among_numbers_names_the_column_and_not_the_text():
    frame = table().drop(columns="color").astype(object)
    frame.iloc[3, 1] = "unknown"
    members = fitted(LogisticRegression(), X[:, :2])
    message = r"X has texts among the numbers of the columns \['hue'\]. Write numbers"
    with pytest.raises(ValueError, match=message) as raised:
        GEMSLogisticAggregator(members).fit(frame, Y, nodes=NODES)
    assert "unknown" not in str(raised.value)
    # The cause says it, at the place of the rows; it is not sent to others.
    assert "unknown" in str(raised.value.__cause__)


# ---- nets whose labels are numbers ---------------------------------------------------


ANIMALS = np.array(["ant", "bee", "cat"])


def animals_of_two_sites():
    """Rows of nets, labels and sites: lyon has ants and bees, rome bees and cats."""
    nets = pytest.importorskip("helpers.nets")
    rows, codes, *_ = nets.digits()
    k = np.arange(len(codes)) % 2
    is_at_its_site = (codes == k) | (codes == k + 1)
    sites = np.array(["lyon", "rome"])[k]
    return rows[is_at_its_site], ANIMALS[codes[is_at_its_site]], sites[is_at_its_site]


def nets_of_coded_labels():
    """A net of each site, which codes its two labels as 0 and 1 before it is fitted."""
    nets = pytest.importorskip("helpers.nets")
    rows, y, sites = animals_of_two_sites()
    members = []
    for site in ("lyon", "rome"):
        codes = np.unique(y[sites == site], return_inverse=True)[1]
        net = nets.make_net(module__n_outputs=2)
        members.append((site, net.fit(rows[sites == site], codes)))
    return members


def test_the_error_about_nets_with_labels_coded_at_each_site_advises_classes():
    rows, y, sites = animals_of_two_sites()
    members = nets_of_coded_labels()
    message = r"Node 'lyon': its skorch net numbers.*net.set_params\(classes=\[...\]\)"
    for kind in (EnsembleAggregator, GEMSMLPAggregator):
        with pytest.raises(ValueError, match=message) as raised:
            kind(members).fit(rows, y)
        assert "VotingClassifier" not in str(raised.value)
    at_its_node = r"Node 'lyon': its classifier has seen none.*Its skorch net numbers"
    with pytest.raises(ValueError, match=at_its_node):
        EnsembleAggregator(members).fit(rows, y, nodes=sites)


def test_nets_with_labels_coded_at_each_site_work_with_classes():
    rows, y, sites = animals_of_two_sites()
    members = nets_of_coded_labels()
    for k, (_, net) in enumerate(members):
        net.set_params(classes=ANIMALS[[k, k + 1]])
    aggregate = EnsembleAggregator(members).fit(rows, y, nodes=sites)
    assert aggregate.classes_.tolist() == ANIMALS.tolist()
    assert aggregate.score(rows, y) > 0.4  # nets hardly trained; chance is a third


def test_the_error_about_a_net_of_one_output_says_which_labels_it_takes():
    nets = pytest.importorskip("helpers.nets")
    rows, codes, *_ = nets.digits()
    rows = rows[codes < 2]
    codes = codes[codes < 2]
    net = nets.make_binary_net().fit(rows, codes.astype(np.float32))
    with pytest.raises(ValueError, match="Node 'lyon': NeuralNetBinary.*0 and 1 only"):
        EnsembleAggregator([("lyon", net)]).fit(rows, np.array(["a", "b"])[codes])
    assert EnsembleAggregator([("lyon", net)]).fit(rows, codes).predict(rows[:1]) < 2


def test_the_error_about_labels_coded_at_nodes_or_at_the_server_says_so():
    members = fitted(LogisticRegression(), labels=CODES)
    with pytest.raises(ValueError, match="numbers from 0, as LabelEncoder.*the same w"):
        GEMSLogisticAggregator(members).fit(X, Y)
    members = fitted(LogisticRegression())
    with pytest.raises(ValueError, match="y are numbers from 0.*labels that the nodes"):
        GEMSLogisticAggregator(members).fit(X, CODES)


# ---- tracebacks ----------------------------------------------------------------------


# Two columns, of which no linear model is right about all rows, so that no space is
# good enough for epsilon=1.
NARROW = X[:, [2, 7]]


STRICT = Spaces(on_empty="raise")


def test_a_search_over_epsilon_prints_one_short_traceback_a_fit():
    members = fitted(LogisticRegression(), NARROW)
    search = GridSearchCV(
        GEMSLogisticAggregator(members, spaces=STRICT, random_state=0),
        {"epsilon": [0.2, 1.0]},
        cv=3,
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        search.fit(NARROW, Y, nodes=NODES)
    assert search.best_params_ == {"epsilon": 0.2}
    (text,) = [
        str(warning.message)
        for warning in caught
        if warning.category is FitFailedWarning
    ]
    n_failed = text.count("NoSpaceError: node ")
    assert n_failed == 3  # epsilon=1 in each of three folds
    assert n_tracebacks(text) == n_failed
    assert "direct cause" not in text and "During handling" not in text
    # Calls within this package would fill a page: only the outermost two are printed.
    calls = [line for line in text.splitlines() if line.startswith("  File ")]
    calls_of_ours = [call for call in calls if "sklearn" not in call]
    assert len(calls_of_ours) <= 2 * n_failed
    assert len(text.splitlines()) < 25 * n_failed


def test_a_level_that_is_too_high_names_node_and_level_in_one_line():
    members = fitted(LogisticRegression(), NARROW)
    aggregate = GEMSLogisticAggregator(
        members, epsilon=1.0, spaces=STRICT, random_state=0
    )
    message = "node 'lyon'.*epsilon is 1.*Choose"
    with pytest.raises(NoSpaceError, match=message) as raised:
        aggregate.fit(NARROW, Y, nodes=NODES)
    assert "\n" not in str(raised.value)
    assert raised.value.__cause__ is None and raised.value.__suppress_context__


def test_a_node_below_epsilon_leaves_a_candidate_of_a_search_its_score():
    members = fitted(LogisticRegression(), NARROW)
    aggregate = GEMSLogisticAggregator(members, random_state=0)
    search = GridSearchCV(aggregate, {"epsilon": [0.2, 1.0]}, cv=3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        search.fit(NARROW, Y, nodes=NODES)
        best = aggregate.set_params(epsilon=1.0).fit(NARROW, Y, nodes=NODES)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    texts = [
        str(warning.message)
        for warning in caught
        if warning.category is EmptyIntersectionWarning
    ]
    pattern = "node 'lyon'.*epsilon is 1[.].*can miss epsilon at this node"
    assert any(re.match(pattern, text) for text in texts)
    # Each node has the space of the highest accuracy that models around its own reach.
    for space in best.spaces_:
        assert 0.5 < space.epsilon <= space.score < 1.0
        assert space.radius > 0


class Broken(LogisticRegression):
    """A classifier that is fitted, but raises where it is to predict."""

    def predict_proba(self, X):
        raise ValueError("broken at home")


def test_the_traceback_of_a_classifier_leads_to_its_own_code():
    vote = EnsembleAggregator([("oslo", Broken().fit(X, Y))]).fit()
    with pytest.raises(ValueError, match="Node 'oslo'.*broken at home") as raised:
        vote.predict(X)
    assert "in predict_proba" in whole_traceback(raised.value)


def test_what_a_node_raises_is_raised_once_with_the_place_in_its_code():
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
    assert n_tracebacks(text) == 1
    assert "in check_array" in text


def test_a_classifier_within_another_that_cannot_be_read_is_one_traceback():
    nested = OneVsRestClassifier(DecisionTreeClassifier()).fit(X, Y)
    with pytest.raises(TypeError, match="OneVsRestClassifier of Decision") as raised:
        GEMSLogisticAggregator([("oslo", nested)]).fit(X, Y)
    assert n_tracebacks(whole_traceback(raised.value)) == 1


def test_a_file_that_is_wrong_is_named_in_one_traceback(tmp_path):
    path = tmp_path / "lyon.safetensors"
    path.write_bytes(b"no file of skgems")
    with pytest.raises(ValueError, match="lyon.safetensors: ") as raised:
        GEMSLogisticAggregator([path]).fit()
    text = whole_traceback(raised.value)
    assert n_tracebacks(text) == 1
    assert "in check_start" in text  # the place where it was found


def test_rows_with_gaps_are_told_of_a_front_beside_what_scikit_learn_advises():
    X = np.array([[0.0, np.nan], [1.0, 2.0], [2.0, 0.0], [3.0, 1.0]])
    y = [0, 1, 0, 1]
    with pytest.raises(ValueError, match="Input X contains NaN") as raised:
        GEMSLogisticAggregator(LogisticRegression()).fit(X, y)
    assert "Pass front= an imputer" in str(raised.value)
    filled = GEMSLogisticAggregator(LogisticRegression(), front=SimpleImputer())
    filled.fit(X, y)
    # Rows to predict are not those of a fit, for which a front could be set.
    plain = GEMSLogisticAggregator(LogisticRegression()).fit(X[1:], y[1:])
    with pytest.raises(ValueError, match="Input X contains NaN") as raised:
        plain.predict(X)
    assert "front=" not in str(raised.value)
