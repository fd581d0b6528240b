# SPDX-License-Identifier: BSD-3-Clause
"""Reading scikit-learn classifiers: logits, classes, dtypes, hidden layers."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from helpers.classifiers import LABELS, fit_quietly, rows_of_classes
from scipy import sparse
from scipy.special import expit, log_softmax
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.dummy import DummyClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import (
    LogisticRegression,
    LogisticRegressionCV,
    Perceptron,
    RidgeClassifier,
    RidgeClassifierCV,
    SGDClassifier,
)
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.neighbors import NearestCentroid
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC, LinearSVC

from skgems.networks import is_fitted, linear_logits, read_network


def differences(scores):
    """Scores up to a constant in each row; of two classes, their difference."""
    if scores.ndim == 1:
        return scores[:, None]
    if scores.shape[1] == 2:
        return scores[:, 1:] - scores[:, :1]
    return scores - scores.mean(axis=1, keepdims=True)


LINEAR = {
    "logistic": LogisticRegression(),
    "no intercept": LogisticRegression(fit_intercept=False),
    "logistic cv": LogisticRegressionCV(Cs=2, cv=2),
    "sgd hinge": SGDClassifier(random_state=0),
    "sgd log": SGDClassifier(loss="log_loss", random_state=0),
    "sgd huber": SGDClassifier(loss="modified_huber", random_state=0),
    "sgd average": SGDClassifier(average=True, random_state=0),
    "ridge": RidgeClassifier(),
    "ridge no intercept": RidgeClassifier(fit_intercept=False),
    "ridge cv": RidgeClassifierCV(),
    "svc": LinearSVC(random_state=0),
    "crammer singer": LinearSVC(multi_class="crammer_singer", random_state=0),
    "perceptron": Perceptron(random_state=0),
    "lda": LinearDiscriminantAnalysis(),
}


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("kind", LINEAR)
def test_linear_logits_are_the_decision_function(kind, n_classes):
    X, y = rows_of_classes(n_classes)
    estimator = fit_quietly(LINEAR[kind], X, y)
    before = pickle.dumps(estimator)
    network = read_network(estimator)
    assert pickle.dumps(estimator) == before
    assert network.is_linear
    assert network.coefs[0].shape == (7, n_classes)
    assert network.intercepts[0].shape == (n_classes,)
    assert network.classes.tolist() == LABELS[:n_classes].tolist()
    assert network.seen.all()
    logits = network.decision_function(X)
    expected = estimator.decision_function(X)
    np.testing.assert_allclose(
        differences(logits), differences(expected), rtol=1e-9, atol=1e-9
    )
    assert np.all(network.classes[logits.argmax(axis=1)] == estimator.predict(X))


def link(logits, output):
    """Probabilities of logits, by the link that a network says it has."""
    if output == "softmax":
        return np.exp(log_softmax(logits, axis=1))
    if logits.shape[1] == 2:
        second = expit(logits[:, 1] - logits[:, 0])
        return np.column_stack([1 - second, second])
    probabilities = expit(logits)
    return probabilities / probabilities.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize(
    # The links of two classes, and of four.
    ("estimator", "links"),
    [
        (LogisticRegression(), ("logistic", "softmax")),
        (SGDClassifier(loss="log_loss", random_state=0), ("logistic", "logistic")),
        (LinearDiscriminantAnalysis(), ("logistic", "softmax")),
        (MLPClassifier((5,), max_iter=20, random_state=0), ("logistic", "softmax")),
        (DummyClassifier(), ("softmax", "softmax")),
    ],
    ids=lambda value: type(value).__name__,
)
def test_link_gives_the_probabilities(estimator, links, n_classes):
    X, y = rows_of_classes(n_classes)
    fit_quietly(estimator, X, y)
    network = read_network(estimator)
    of_two, of_four = links
    assert network.output == (of_two if n_classes == 2 else of_four)
    np.testing.assert_allclose(
        link(network.decision_function(X), network.output),
        estimator.predict_proba(X),
        rtol=1e-6,
        atol=1e-9,
    )


def test_liblinear_of_two_classes_has_a_logistic_link():
    X, y = rows_of_classes(2)
    estimator = LogisticRegression(solver="liblinear").fit(X, y)
    network = read_network(estimator)
    assert network.output == "logistic"
    np.testing.assert_allclose(
        differences(network.decision_function(X))[:, 0], estimator.decision_function(X)
    )


@pytest.mark.skipif(
    "multi_class" not in LogisticRegression().get_params(),
    reason="scikit-learn 1.8 dropped multi_class",
)
def test_binary_multinomial_has_twice_the_margin():
    X, y = rows_of_classes(2)
    estimator = fit_quietly(LogisticRegression(multi_class="multinomial"), X, y)
    network = read_network(estimator)
    np.testing.assert_allclose(
        link(network.decision_function(X), network.output), estimator.predict_proba(X)
    )


@pytest.mark.parametrize(
    "estimator",
    [RidgeClassifier(), LinearSVC(random_state=0), Perceptron(), SGDClassifier()],
    ids=lambda estimator: type(estimator).__name__,
)
def test_scores_without_probabilities_have_the_identity_link(estimator):
    X, y = rows_of_classes(4)
    assert read_network(fit_quietly(estimator, X, y)).output == "identity"


@pytest.mark.parametrize("priors", ["uniform", "empirical"])
@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_centroids_that_shrank_to_one_point_tell_no_class_apart(n_classes, priors):
    X, y = rows_of_classes(n_classes)
    clf = NearestCentroid(shrink_threshold=100.0, priors=priors).fit(X, y)
    assert (clf.centroids_ == clf.centroids_[0]).all()
    coef = read_network(clf).coefs[0]
    assert np.ptp(coef, axis=1).max() == 0.0
    # Where they differ in one feature, this alone has weights.
    clf.centroids_[:, 1] += np.arange(n_classes)
    coef = read_network(clf).coefs[0]
    assert np.flatnonzero(np.ptp(coef, axis=1)).tolist() == [1]


def test_weights_of_two_classes_are_split_into_two_halves():
    X, y = rows_of_classes(2)
    estimator = LogisticRegression().fit(X, y)
    network = read_network(estimator)
    weight = estimator.coef_[0] / 2
    np.testing.assert_array_equal(network.coefs[0], np.column_stack([-weight, weight]))
    bias = estimator.intercept_[0] / 2
    np.testing.assert_array_equal(network.intercepts[0], [-bias, bias])


def test_a_support_vector_machine_of_two_classes_with_a_linear_kernel_is_read():
    X, y = rows_of_classes(2)
    estimator = SVC(kernel="linear").fit(X, y)
    network = read_network(estimator)
    np.testing.assert_allclose(
        differences(network.decision_function(X))[:, 0], estimator.decision_function(X)
    )


@pytest.mark.parametrize("n_classes", [3, 4])
def test_a_support_vector_machine_of_several_classes_is_refused(n_classes):
    X, y = rows_of_classes(n_classes)
    with pytest.raises(ValueError, match="Node 'a': SVC with . classes .*one-vs-one"):
        read_network(SVC(kernel="linear").fit(X, y), name="a")


def test_sparse_weights_are_read_and_sparse_rows_are_taken():
    X, y = rows_of_classes(4)
    X[X < 0.5] = 0
    estimator = fit_quietly(
        SGDClassifier(penalty="l1", alpha=0.01, random_state=0), X, y
    )
    dense = read_network(estimator)
    estimator.sparsify()
    network = read_network(estimator)
    assert sparse.issparse(estimator.coef_)
    np.testing.assert_array_equal(network.coefs[0], dense.coefs[0])
    for rows in (sparse.csr_matrix(X), sparse.csc_array(X)):
        logits = network.decision_function(rows)
        assert isinstance(logits, np.ndarray)
        np.testing.assert_allclose(logits, dense.decision_function(X))


def test_sparse_rows_through_hidden_layers_stay_sparse_at_the_input():
    X, y = rows_of_classes(4)
    network = read_network(fit_quietly(MLPClassifier((6,), max_iter=5), X, y))
    rows = sparse.csr_matrix(np.where(X > 0.5, X, 0))
    assert network.hidden(rows, 0) is rows
    np.testing.assert_allclose(
        network.decision_function(rows), network.decision_function(rows.toarray())
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_dtype_is_kept(dtype, n_classes):
    X, y = rows_of_classes(n_classes)
    X = X.astype(dtype)
    for estimator in (
        LogisticRegression(),
        LogisticRegression(fit_intercept=False),
        MLPClassifier((4,), max_iter=5),
    ):
        network = read_network(fit_quietly(estimator, X, y))
        if isinstance(estimator, LogisticRegression):
            # scikit-learn 1.6 fits it in float64 whatever X is.
            expected = estimator.coef_.dtype
        else:
            expected = np.dtype(dtype)
        arrays = (*network.coefs, *network.intercepts)
        assert {array.dtype for array in arrays} == {expected}
        logits = network.decision_function(X.astype(expected))
        assert logits.dtype == expected
        assert all(coef.flags.c_contiguous for coef in network.coefs)


@pytest.mark.parametrize("activation", ["relu", "tanh", "logistic", "identity"])
@pytest.mark.parametrize("hidden", [(), (6,), (6, 5, 4)])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_networks_are_read_as_copies(activation, hidden, n_classes):
    X, y = rows_of_classes(n_classes)
    estimator = MLPClassifier(
        hidden, activation=activation, max_iter=20, random_state=0
    )
    fit_quietly(estimator, X, y)
    before = pickle.dumps(estimator)
    network = read_network(estimator)
    logits = network.decision_function(X)
    assert network.activation == (activation,) * len(hidden)
    assert network.n_hidden_layers == len(hidden)
    assert network.is_linear == (not hidden)
    np.testing.assert_allclose(
        differences(logits),
        differences(np.log(estimator.predict_proba(X))),
        rtol=1e-6,
        atol=1e-9,
    )
    assert pickle.dumps(estimator) == before
    network.coefs[0][:] = 0  # a copy
    assert pickle.dumps(estimator) == before


def test_hidden_gives_what_enters_each_layer():
    X, y = rows_of_classes(4)
    network = read_network(fit_quietly(MLPClassifier((6, 5), max_iter=5), X, y))
    Z = np.maximum(X @ network.coefs[0] + network.intercepts[0], 0)
    np.testing.assert_allclose(network.hidden(X, 1), Z)
    Z = np.maximum(Z @ network.coefs[1] + network.intercepts[1], 0)
    np.testing.assert_allclose(network.hidden(X, 2), Z)
    np.testing.assert_array_equal(network.hidden(X), network.hidden(X, 2))
    np.testing.assert_array_equal(network.hidden(X, 0), X)
    with pytest.raises(ValueError, match=r"shape \(120, 3\).* 7 features"):
        network.decision_function(X[:, :3])


@pytest.mark.parametrize("strategy", ["prior", "most_frequent", "stratified"])
def test_logits_of_a_dummy_are_its_log_priors(strategy):
    X, y = rows_of_classes(3)
    estimator = DummyClassifier(strategy=strategy).fit(X, y)
    network = read_network(estimator)
    np.testing.assert_array_equal(network.coefs[0], np.zeros((7, 3)))
    np.testing.assert_allclose(network.intercepts[0], np.log(estimator.class_prior_))
    assert network.seen.all()


@pytest.mark.parametrize("label", LABELS[:3])
def test_a_dummy_of_a_constant_has_the_largest_logit_there(label):
    X, y = rows_of_classes(3)
    dummy = DummyClassifier(strategy="constant", constant=label).fit(X, y)
    logits = read_network(dummy).decision_function(X[:2])
    assert np.all(LABELS[logits.argmax(axis=1)] == label)
    second_largest, largest = np.sort(logits[0])[-2:]
    assert largest > second_largest


def test_a_uniform_dummy_has_equal_logits():
    X, y = rows_of_classes(3)
    dummy = DummyClassifier(strategy="uniform").fit(X, y)
    assert np.ptp(read_network(dummy).intercepts[0]) == 0


def test_a_dummy_that_does_not_know_the_number_of_features_is_an_error():
    X, y = rows_of_classes(3)
    dummy = DummyClassifier().fit(X, y)
    del dummy.n_features_in_
    with pytest.raises(ValueError, match="Node 'ward': DummyClassifier does not know"):
        read_network(dummy, name="ward")


def test_a_dummy_has_not_seen_a_class_of_weight_zero():
    X, y = rows_of_classes(3)
    dummy = DummyClassifier().fit(X, y, sample_weight=np.where(y == "dog", 0.0, 1.0))
    network = read_network(dummy)
    assert network.seen.tolist() == [True, False, True]
    assert np.isfinite(network.intercepts[0]).all()
    assert network.intercepts[0].argmin() == 1


@pytest.mark.parametrize(
    "estimator",
    [
        DummyClassifier(),
        DummyClassifier(strategy="constant", constant="cat"),
        MLPClassifier((3,), max_iter=2),
        RidgeClassifier(),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_classifiers_of_one_class_are_constant(estimator):
    X, y = rows_of_classes(2)
    network = read_network(fit_quietly(estimator, X[y == "cat"], y[y == "cat"]))
    assert network.classes.tolist() == ["cat"]
    assert network.coefs[-1].shape[1] == 1
    assert np.ptp(network.decision_function(X)) == 0


def test_centroids_of_unequal_priors_are_measured_in_deviations():
    """Features of other scales count alike, and priors move the boundary."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], [20, 60, 120])
    X = rng.normal(size=(200, 3)) + np.eye(3)[y]
    X *= [1.0, 100.0, 0.01]
    clf = NearestCentroid(priors="empirical").fit(X, y)
    network = read_network(clf)
    logits = linear_logits(X, network.last)
    distances = ((X[:, None] - clf.centroids_) / clf.within_class_std_dev_) ** 2
    expected = np.log(clf.class_prior_) - 0.5 * distances.sum(axis=2)
    # All outputs of a row may have something in common.
    np.testing.assert_allclose(
        logits - logits[:, :1], expected - expected[:, :1], rtol=1e-6, atol=1e-9
    )


# ---- wrappers ------------------------------------------------------------------------


def test_the_classifier_within_wrappers_is_read():
    X, y = rows_of_classes(3)
    bare = LogisticRegression(C=0.1).fit(X, y)
    expected = read_network(bare).coefs[0]
    grid = GridSearchCV(LogisticRegression(), {"C": [0.1]}, cv=2).fit(X, y)
    randomized = RandomizedSearchCV(
        LogisticRegression(), {"C": [0.1]}, n_iter=1, cv=2
    ).fit(X, y)
    grid_of_pipelines = GridSearchCV(
        Pipeline([("clf", LogisticRegression())]), {"clf__C": [0.1]}, cv=2
    ).fit(X, y)
    wrapped = [
        FrozenEstimator(bare),
        FrozenEstimator(FrozenEstimator(bare)),
        grid,
        FrozenEstimator(grid),
        randomized,
        Pipeline([("clf", FrozenEstimator(bare))]),
        Pipeline([("none", "passthrough"), ("inner", Pipeline([("clf", bare)]))]),
        grid_of_pipelines,
    ]
    for estimator in wrapped:
        assert is_fitted(estimator)
        np.testing.assert_allclose(read_network(estimator).coefs[0], expected)


def test_the_error_about_a_search_without_refit_says_to_refit():
    X, y = rows_of_classes(2)
    search = GridSearchCV(LogisticRegression(), {"C": [1]}, cv=2, refit=False)
    with pytest.raises(TypeError, match="Node 'ward'.*refit=True"):
        read_network(search.fit(X, y), name="ward")
