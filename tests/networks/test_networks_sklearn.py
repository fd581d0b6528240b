# SPDX-License-Identifier: BSD-3-Clause
"""Reading scikit-learn classifiers: logits, classes, wrappers, errors."""

from __future__ import annotations

import contextlib
import pickle
import warnings

import joblib
import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit, log_softmax
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import KMeans
from sklearn.datasets import make_classification
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import (
    LinearRegression,
    LogisticRegression,
    LogisticRegressionCV,
    Perceptron,
    RidgeClassifier,
    RidgeClassifierCV,
    SGDClassifier,
)
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.multiclass import (
    OneVsOneClassifier,
    OneVsRestClassifier,
    _ConstantPredictor,
)
from sklearn.neighbors import NearestCentroid
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC, OneClassSVM

from skgems.networks import Network, is_fitted, read_network

LABELS = np.array(["cat", "dog", "eel", "fox"])


def data(n_classes, seed=0):
    X, y = make_classification(
        n_samples=120,
        n_features=7,
        n_informative=5,
        n_classes=n_classes,
        class_sep=0.5,
        random_state=seed,
    )
    return X, LABELS[y]


def fitted(estimator, *args):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return estimator.fit(*args)


def differences(scores):
    """Scores up to a constant per row; binary ones as the two columns' difference."""
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
    X, y = data(n_classes)
    estimator = fitted(LINEAR[kind], X, y)
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
    if output == "softmax":
        return np.exp(log_softmax(logits, axis=1))
    if logits.shape[1] == 2:
        second = expit(logits[:, 1] - logits[:, 0])
        return np.column_stack([1 - second, second])
    probabilities = expit(logits)
    return probabilities / probabilities.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize(
    ("estimator", "outputs"),
    [
        (LogisticRegression(), ("logistic", "softmax")),
        (SGDClassifier(loss="log_loss", random_state=0), ("logistic", "logistic")),
        (LinearDiscriminantAnalysis(), ("logistic", "softmax")),
        (MLPClassifier((5,), max_iter=20, random_state=0), ("logistic", "softmax")),
        (DummyClassifier(), ("softmax", "softmax")),
    ],
    ids=lambda value: type(value).__name__,
)
def test_link_gives_the_probabilities(estimator, outputs, n_classes):
    X, y = data(n_classes)
    fitted(estimator, X, y)
    network = read_network(estimator)
    assert network.output == outputs[n_classes == 4]
    np.testing.assert_allclose(
        link(network.decision_function(X), network.output),
        estimator.predict_proba(X),
        rtol=1e-6,
        atol=1e-9,
    )


def test_liblinear_is_one_vs_rest_or_binary():
    X, y = data(2)
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
    X, y = data(2)
    estimator = fitted(LogisticRegression(multi_class="multinomial"), X, y)
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
    X, y = data(4)
    assert read_network(fitted(estimator, X, y)).output == "identity"


@pytest.mark.parametrize("priors", ["uniform", "empirical"])
@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_centroids_that_shrank_to_one_point_tell_no_class_apart(n_classes, priors):
    X, y = data(n_classes)
    clf = NearestCentroid(shrink_threshold=100.0, priors=priors).fit(X, y)
    assert (clf.centroids_ == clf.centroids_[0]).all()
    coef = read_network(clf).coefs[0]
    assert np.ptp(coef, axis=1).max() == 0.0
    # And those of which one feature did not.
    clf.centroids_[:, 1] += np.arange(n_classes)
    coef = read_network(clf).coefs[0]
    assert (np.ptp(coef, axis=1) > 0).tolist() == [
        feature == 1 for feature in range(X.shape[1])
    ]


def test_binary_is_split_in_two_halves():
    X, y = data(2)
    estimator = LogisticRegression().fit(X, y)
    network = read_network(estimator)
    weight = estimator.coef_[0] / 2
    np.testing.assert_array_equal(network.coefs[0], np.column_stack([-weight, weight]))
    bias = estimator.intercept_[0] / 2
    np.testing.assert_array_equal(network.intercepts[0], [-bias, bias])


def test_binary_linear_svc_kernel():
    X, y = data(2)
    estimator = SVC(kernel="linear").fit(X, y)
    network = read_network(estimator)
    np.testing.assert_allclose(
        differences(network.decision_function(X))[:, 0], estimator.decision_function(X)
    )


@pytest.mark.parametrize("n_classes", [3, 4])
def test_one_vs_one_is_refused(n_classes):
    X, y = data(n_classes)
    with pytest.raises(ValueError, match="Node 'a': SVC with . classes .*one-vs-one"):
        read_network(SVC(kernel="linear").fit(X, y), name="a")


def test_sparse_coef_and_sparse_rows():
    X, y = data(4)
    X[X < 0.5] = 0
    estimator = fitted(SGDClassifier(penalty="l1", alpha=0.01, random_state=0), X, y)
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
    X, y = data(4)
    network = read_network(fitted(MLPClassifier((6,), max_iter=5), X, y))
    rows = sparse.csr_matrix(np.where(X > 0.5, X, 0))
    assert network.hidden(rows, 0) is rows
    np.testing.assert_allclose(
        network.decision_function(rows), network.decision_function(rows.toarray())
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_dtype_is_kept(dtype, n_classes):
    X, y = data(n_classes)
    X = X.astype(dtype)
    for estimator in (
        LogisticRegression(),
        LogisticRegression(fit_intercept=False),
        MLPClassifier((4,), max_iter=5),
    ):
        network = read_network(fitted(estimator, X, y))
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
def test_mlp(activation, hidden, n_classes):
    X, y = data(n_classes)
    estimator = MLPClassifier(hidden, activation=activation, max_iter=20)
    estimator.set_params(random_state=0)
    fitted(estimator, X, y)
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
    X, y = data(4)
    network = read_network(fitted(MLPClassifier((6, 5), max_iter=5), X, y))
    Z = np.maximum(X @ network.coefs[0] + network.intercepts[0], 0)
    np.testing.assert_allclose(network.hidden(X, 1), Z)
    Z = np.maximum(Z @ network.coefs[1] + network.intercepts[1], 0)
    np.testing.assert_allclose(network.hidden(X, 2), Z)
    np.testing.assert_array_equal(network.hidden(X), network.hidden(X, 2))
    np.testing.assert_array_equal(network.hidden(X, 0), X)
    with pytest.raises(ValueError, match=r"shape \(120, 3\).* 7 features"):
        network.decision_function(X[:, :3])


def test_feature_names():
    pd = pytest.importorskip("pandas")
    X, y = data(3)
    frame = pd.DataFrame(X, columns=list("abcdefg"))
    for estimator in (LogisticRegression(), MLPClassifier((3,), max_iter=2)):
        network = read_network(fitted(estimator, frame, y))
        assert network.feature_names_in.tolist() == list("abcdefg")
        assert network.n_features_in == 7
        np.testing.assert_allclose(
            network.decision_function(frame), network.decision_function(X)
        )
        assert read_network(fitted(estimator, X, y)).feature_names_in is None


@pytest.mark.parametrize("strategy", ["prior", "most_frequent", "stratified"])
def test_dummy_has_the_priors(strategy):
    X, y = data(3)
    estimator = DummyClassifier(strategy=strategy).fit(X, y)
    network = read_network(estimator)
    np.testing.assert_array_equal(network.coefs[0], np.zeros((7, 3)))
    np.testing.assert_allclose(network.intercepts[0], np.log(estimator.class_prior_))
    assert network.seen.all()


def test_dummy_constant_is_ahead_and_uniform_is_level():
    X, y = data(3)
    for label in LABELS[:3]:
        dummy = DummyClassifier(strategy="constant", constant=label).fit(X, y)
        logits = read_network(dummy).decision_function(X[:2])
        assert np.all(LABELS[logits.argmax(axis=1)] == label)
        second, first = np.sort(logits[0])[-2:]
        assert first > second
    dummy = DummyClassifier(strategy="uniform").fit(X, y)
    assert np.ptp(read_network(dummy).intercepts[0]) == 0


def test_dummy_without_number_of_features():
    X, y = data(3)
    dummy = DummyClassifier().fit(X, y)
    del dummy.n_features_in_
    with pytest.raises(ValueError, match="Node 'ward': DummyClassifier does not know"):
        read_network(dummy, name="ward")


def test_dummy_class_of_weight_zero_is_not_seen():
    X, y = data(3)
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
def test_one_class(estimator):
    X, y = data(2)
    network = read_network(fitted(estimator, X[y == "cat"], y[y == "cat"]))
    assert network.classes.tolist() == ["cat"]
    assert network.coefs[-1].shape[1] == 1
    assert np.ptp(network.decision_function(X)) == 0


def test_wrappers_are_opened():
    X, y = data(3)
    bare = LogisticRegression(C=0.1).fit(X, y)
    expected = read_network(bare).coefs[0]
    grid = GridSearchCV(LogisticRegression(), {"C": [0.1]}, cv=2).fit(X, y)
    wrapped = [
        FrozenEstimator(bare),
        FrozenEstimator(FrozenEstimator(bare)),
        grid,
        FrozenEstimator(grid),
        RandomizedSearchCV(LogisticRegression(), {"C": [0.1]}, n_iter=1, cv=2).fit(
            X, y
        ),
        Pipeline([("clf", FrozenEstimator(bare))]),
        Pipeline([("none", "passthrough"), ("inner", Pipeline([("clf", bare)]))]),
        GridSearchCV(
            Pipeline([("clf", LogisticRegression())]), {"clf__C": [0.1]}, cv=2
        ).fit(X, y),
    ]
    for estimator in wrapped:
        assert is_fitted(estimator)
        np.testing.assert_allclose(read_network(estimator).coefs[0], expected)


def test_a_network_is_returned_as_it_is():
    X, y = data(3)
    network = read_network(LogisticRegression().fit(X, y))
    assert isinstance(network, Network)
    assert read_network(network) is network
    assert is_fitted(network)
    with pytest.raises(AttributeError):
        network.output = "identity"


class Lookalike:
    """Behaves like a linear classifier without being scikit-learn's."""

    def fit(self, X, y):
        inner = LogisticRegression().fit(X, y)
        self.classes_ = inner.classes_
        self.coef_, self.intercept_ = inner.coef_, inner.intercept_
        return self

    def predict(self, X):
        return self.classes_[(X @ self.coef_.T + self.intercept_).argmax(axis=1)]


def test_lookalike_is_read():
    X, y = data(3)
    assert not is_fitted(Lookalike())
    estimator = Lookalike().fit(X, y)
    assert is_fitted(estimator)
    np.testing.assert_array_equal(read_network(estimator).coefs[0], estimator.coef_.T)


@pytest.mark.parametrize(
    "estimator",
    [
        LogisticRegression(),
        MLPClassifier(),
        DummyClassifier(),
        RandomForestClassifier(),
        CalibratedClassifierCV(),
        FrozenEstimator(LogisticRegression()),
        GridSearchCV(LogisticRegression(), {"C": [1]}),
        make_pipeline(StandardScaler(), LogisticRegression()),
        make_pipeline(StandardScaler(), FrozenEstimator(SGDClassifier())),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_unfitted(estimator):
    assert is_fitted(estimator) is False
    with pytest.raises(NotFittedError, match="Node 'ward': this .* is not fitted"):
        read_network(estimator, name="ward")


def test_fitted_of_every_kind_is_fitted():
    X, y = data(2)
    for estimator in (
        RandomForestClassifier(2),
        CalibratedClassifierCV(LogisticRegression(), cv=2),
        GridSearchCV(LogisticRegression(), {"C": [1]}, cv=2, refit=False),
        make_pipeline(StandardScaler(), LogisticRegression()),
    ):
        assert is_fitted(estimator.fit(X, y)) is True


@pytest.mark.parametrize(
    ("thing", "message"),
    [
        (3, "int 3 is not a classifier"),
        ("logistic", "str 'logistic' is not a classifier"),
        (None, "NoneType is not a classifier"),
        (np.zeros(3), "ndarray is not a classifier"),
        (LogisticRegression, "LogisticRegression is a class, not an instance"),
        (StandardScaler(), "StandardScaler is not a classifier"),
        (KMeans(), "KMeans is not a classifier"),
        (OneClassSVM(), "OneClassSVM is not a classifier"),
        (LinearRegression(), "LinearRegression is a regressor"),
        (MLPRegressor(), "MLPRegressor is a regressor"),
        (make_pipeline(StandardScaler(), LinearRegression()), "is a regressor"),
        (GridSearchCV(LinearRegression(), {}), "GridSearchCV is a regressor"),
        (FrozenEstimator(LinearRegression()), "LinearRegression is a regressor"),
        (make_pipeline(StandardScaler(), "passthrough"), "is not a classifier"),
        (Pipeline([]), "no steps"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else None,
)
def test_what_is_no_classifier_is_a_type_error(thing, message):
    for function in (is_fitted, read_network):
        with pytest.raises(TypeError, match=f"Node 'ward': .*{message}"):
            function(thing, name="ward")


@pytest.mark.parametrize(
    "estimator",
    [
        RandomForestClassifier(2),
        CalibratedClassifierCV(LogisticRegression(), cv=2),
        OneVsOneClassifier(LogisticRegression()),
        SVC(),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_other_classifiers_are_refused_with_the_accepted_ones(estimator):
    X, y = data(2)
    kind = type(estimator).__name__
    with pytest.raises(TypeError, match=f"Node 'ward': {kind} cannot.*MLPClassifier"):
        read_network(estimator.fit(X, y), name="ward")


def test_search_without_refit():
    X, y = data(2)
    search = GridSearchCV(LogisticRegression(), {"C": [1]}, cv=2, refit=False)
    with pytest.raises(TypeError, match="Node 'ward'.*refit=True"):
        read_network(search.fit(X, y), name="ward")


@pytest.mark.parametrize(
    "estimator",
    [RidgeClassifier(), MLPClassifier((3,), max_iter=2), DummyClassifier()],
    ids=lambda estimator: type(estimator).__name__,
)
def test_multilabel_is_refused(estimator):
    X, _ = data(2)
    with pytest.raises(ValueError, match="Node 'ward'.*multilabel"):
        read_network(fitted(estimator, X, (X[:, :2] > 0).astype(int)), name="ward")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_not_finite(value):
    X, y = data(3)
    linear = LogisticRegression().fit(X, y)
    linear.coef_[1, 2] = value
    with pytest.raises(ValueError, match="Node 'ward': coef_ has 1 values"):
        read_network(linear, name="ward")
    linear = LogisticRegression().fit(X, y)
    linear.intercept_[0] = value
    with pytest.raises(ValueError, match="Node 'ward': intercept_ has 1 values"):
        read_network(linear, name="ward")
    mlp = fitted(MLPClassifier((3, 3), max_iter=2), X, y)
    mlp.coefs_[1][0, 0] = value
    with pytest.raises(ValueError, match=r"Node 'ward': coefs_\[1\] has 1 values"):
        read_network(mlp, name="ward")


def test_coef_that_does_not_fit_the_classes():
    X, y = data(4)
    linear = LogisticRegression().fit(X, y)
    linear.coef_ = linear.coef_[:3]
    linear.intercept_ = linear.intercept_[:3]
    with pytest.raises(ValueError, match="Node 'ward': coef_ .* 3 rows for 4 classes"):
        read_network(linear, name="ward")


# ---- discriminants of constant features ---------------------------------------


CONSTANTS = np.array([0.1, -3.7, 1 / 3, 1e5 / 7])


def with_constants(n_classes, dtype, apart=0.0):
    """Rows whose last features are constant, but no numbers that are kept exactly."""
    X, y = data(n_classes)
    X, y = X[:113], y[:113]  # classes of odd sizes
    X = X + apart * (y[:, None] == LABELS[np.arange(7) % 4])
    constants = np.broadcast_to(CONSTANTS, (len(X), 4))
    return np.hstack([X, constants]).astype(dtype), y


def made_of_rounding(X, y, ulps):
    """As fitting may leave it: constant features over a deviation that is rounding.

    What rounding is differs between machines, so it is put in by hand. The means of
    classes are so many last places apart there.
    """
    model = LinearDiscriminantAnalysis().fit(X[:, :-4], y)
    rng, eps = np.random.RandomState(0), np.finfo(X.dtype).eps
    shape = len(model.means_), 4
    means = X[0, -4:] * (1 + ulps * eps * rng.choice([-1, 0, 1], shape))
    model.means_ = np.hstack([model.means_, means.astype(X.dtype)])
    model.xbar_ = model.priors_ @ model.means_
    signs = rng.choice([-1.0, 1.0], (4, model.scalings_.shape[1]))
    large = signs / (eps * np.abs(X[0, -4:, None]))
    model.scalings_ = np.vstack([model.scalings_, large]).astype(X.dtype)
    scores = (model.means_ - model.xbar_) @ model.scalings_
    coef = scores @ model.scalings_.T
    intercept = np.log(model.priors_) - 0.5 * np.sum(scores**2, axis=1)
    intercept -= coef @ model.xbar_
    if len(coef) == 2:
        coef, intercept = np.diff(coef, axis=0), np.diff(intercept)
    model.coef_, model.intercept_ = coef.astype(X.dtype), intercept.astype(X.dtype)
    model.n_features_in_ += 4
    return model


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_weights_of_constant_features_made_of_rounding_are_left_out(n_classes, dtype):
    X, y = with_constants(n_classes, dtype, apart=10.0)
    plain = LinearDiscriminantAnalysis().fit(X[:, :-4], y)
    model = made_of_rounding(X, y, ulps=0.5)
    before = joblib.hash(model)
    assert np.abs(model.coef_).max() > 1e-3 / np.finfo(dtype).eps
    for copy in (True, False):
        network = read_network(model, copy=copy)
        assert network.coefs[0].dtype == dtype
        assert np.abs(network.coefs[0]).max() < 100
        assert np.abs(network.coefs[0][-4:]).max() < 0.01
        labels = network.classes[network.decision_function(X).argmax(axis=1)]
        assert np.mean(labels == plain.predict(X[:, :-4])) > 0.95
    assert joblib.hash(model) == before
    # What this machine makes of it is read alike, or is an error.
    with contextlib.suppress(ValueError):
        network = read_network(LinearDiscriminantAnalysis().fit(X, y))
        assert np.abs(network.coefs[0]).max() < 100
        labels = network.classes[network.decision_function(X).argmax(axis=1)]
        assert np.mean(labels == plain.predict(X[:, :-4])) > 0.95


def test_discriminants_that_rounding_does_not_touch_are_as_they_are():
    X, y = data(3)
    X[:, 0] += 1e6  # far from zero, but it varies
    X = np.hstack([X, np.ones((len(X), 1))])  # constant, exactly
    model = LinearDiscriminantAnalysis().fit(X, y)
    np.testing.assert_array_equal(read_network(model).coefs[0], model.coef_.T)


def test_discriminants_that_rounding_outweighs_are_an_error():
    X, y = with_constants(4, np.float64)
    model = made_of_rounding(X, y, ulps=3)
    with pytest.raises(ValueError, match=r"Node 'ward': scalings_ .* \[7.*shrinkage"):
        read_network(model, name="ward")


def test_features_constant_within_classes_are_an_error():
    X, y = data(3)
    values = {"cat": 0.1, "dog": 0.3, "eel": 0.7}
    X = np.hstack([X, [[values[label]] for label in y]])
    model = LinearDiscriminantAnalysis().fit(X, y)
    with pytest.raises(ValueError, match=r"Node 'ward': scalings_ .* \[7\].*shrinkage"):
        read_network(model, name="ward")


# ---- one model for each class -------------------------------------------------

ONE_VS_REST = [
    LogisticRegression(),
    SGDClassifier(loss="log_loss", random_state=0),
    LinearSVC(random_state=0),
    SVC(kernel="linear"),
    LinearDiscriminantAnalysis(),
    make_pipeline(StandardScaler(), LogisticRegression()),
    GridSearchCV(RidgeClassifier(), {"alpha": [1.0]}, cv=2),
]


@pytest.mark.parametrize("n_classes", [2, 3, 4])
@pytest.mark.parametrize("estimator", ONE_VS_REST, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("wrap", [FrozenEstimator, Pipeline])
def test_one_vs_rest_of_linear_classifiers(estimator, n_classes, wrap):
    X, y = data(n_classes)
    model = OneVsRestClassifier(estimator).fit(X, y)
    if wrap is Pipeline:
        scale = StandardScaler().fit(X)
        model = Pipeline([("scale", scale), ("model", model)])
        model[-1].fit(scale.transform(X), y)
    else:
        model = wrap(model)
    network = read_network(model)
    assert network.classes.tolist() == np.unique(y).tolist()
    scores = network.decision_function(X)
    if n_classes == 2:
        np.testing.assert_allclose(np.diff(scores)[:, 0], model.decision_function(X))
    else:
        np.testing.assert_allclose(scores, model.decision_function(X))
    labels = network.classes[scores.argmax(axis=1)]
    np.testing.assert_array_equal(labels, model.predict(X))
    has_proba = hasattr(model, "predict_proba")
    assert network.output == ("logistic" if has_proba else "identity")
    if has_proba:
        said = expit(scores if n_classes > 2 else np.diff(scores) * [-1, 1])
        said /= said.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(said, model.predict_proba(X), atol=1e-12)


def test_one_vs_rest_of_one_class():
    X, y = data(2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = OneVsRestClassifier(LogisticRegression()).fit(X, np.repeat("cat", 120))
    network = read_network(model)
    assert network.classes.tolist() == ["cat"] and network.seen.all()
    assert network.is_constant and network.n_features_in == 7


def test_one_vs_rest_with_a_class_that_no_row_showed():
    X, y = data(3)
    model = OneVsRestClassifier(LogisticRegression()).fit(X, y)
    # As fitting would have left it.
    model.estimators_[1] = _ConstantPredictor().fit(X, np.array([0]))
    network = read_network(model)
    assert network.seen.tolist() == [True, False, True]
    scores = network.decision_function(X)
    np.testing.assert_allclose(scores, model.decision_function(X))


def test_one_vs_rest_of_others_is_refused():
    X, y = data(3)
    for estimator, kind in (
        (RandomForestClassifier(2), "RandomForestClassifier"),
        (MLPClassifier((3,), max_iter=2), "MLPClassifier"),
        (SVC(), "SVC"),
    ):
        model = fitted(OneVsRestClassifier(estimator), X, y)
        match = f"Node 'ward': OneVsRestClassifier of {kind}.* linear"
        with pytest.raises(TypeError, match=match):
            read_network(model, name="ward")
    several = fitted(
        OneVsRestClassifier(LogisticRegression()), X, (X[:, :2] > 0).astype(int)
    )
    with pytest.raises(ValueError, match="Node 'ward'.*multilabel"):
        read_network(several, name="ward")
    with pytest.raises(NotFittedError):
        read_network(OneVsRestClassifier(LogisticRegression()), name="ward")
    spoilt = OneVsRestClassifier(LogisticRegression()).fit(X, y)
    spoilt.estimators_[2].coef_[0, 0] = np.nan
    with pytest.raises(ValueError, match=r"Node 'ward'.*estimators_\[2\].*not finite"):
        read_network(spoilt, name="ward")
