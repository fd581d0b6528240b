# SPDX-License-Identifier: BSD-3-Clause
"""Opening wrappers around classifiers, and classifiers that cannot be read."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.classifiers import fit_quietly, rows_of_classes
from scipy.special import expit
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import KMeans
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import (
    LinearRegression,
    LogisticRegression,
    RidgeClassifier,
    SGDClassifier,
)
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import (
    OneVsOneClassifier,
    OneVsRestClassifier,
    _ConstantPredictor,
)
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC, OneClassSVM

from skgems.networks import Network, is_fitted, read_network


def test_names_of_features_are_those_of_a_data_frame():
    pd = pytest.importorskip("pandas")
    X, y = rows_of_classes(3)
    frame = pd.DataFrame(X, columns=list("abcdefg"))
    for estimator in (LogisticRegression(), MLPClassifier((3,), max_iter=2)):
        network = read_network(fit_quietly(estimator, frame, y))
        assert network.feature_names_in.tolist() == list("abcdefg")
        assert network.n_features_in == 7
        np.testing.assert_allclose(
            network.decision_function(frame), network.decision_function(X)
        )
        assert read_network(fit_quietly(estimator, X, y)).feature_names_in is None


def test_a_network_is_returned_as_it_is():
    X, y = rows_of_classes(3)
    network = read_network(LogisticRegression().fit(X, y))
    assert isinstance(network, Network)
    assert read_network(network) is network
    assert is_fitted(network)
    with pytest.raises(AttributeError):
        network.output = "identity"


class Lookalike:
    """A linear classifier that is none of scikit-learn's, but has its attributes."""

    def fit(self, X, y):
        classifier = LogisticRegression().fit(X, y)
        self.classes_ = classifier.classes_
        self.coef_ = classifier.coef_
        self.intercept_ = classifier.intercept_
        return self

    def predict(self, X):
        return self.classes_[(X @ self.coef_.T + self.intercept_).argmax(axis=1)]


def test_a_class_with_the_attributes_of_a_linear_classifier_is_read():
    X, y = rows_of_classes(3)
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
def test_classifiers_that_are_not_fitted_are_errors(estimator):
    assert is_fitted(estimator) is False
    with pytest.raises(NotFittedError, match="Node 'ward': this .* is not fitted"):
        read_network(estimator, name="ward")


def test_fitted_classifiers_are_seen_to_be_fitted_also_where_none_can_be_read():
    X, y = rows_of_classes(2)
    for estimator in (
        RandomForestClassifier(2),
        CalibratedClassifierCV(LogisticRegression(), cv=2),
        GridSearchCV(LogisticRegression(), {"C": [1]}, cv=2, refit=False),
        make_pipeline(StandardScaler(), LogisticRegression()),
    ):
        assert is_fitted(estimator.fit(X, y)) is True


@pytest.mark.parametrize(
    ("estimator", "message"),
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
def test_what_is_no_classifier_is_a_type_error(estimator, message):
    for function in (is_fitted, read_network):
        with pytest.raises(TypeError, match=f"Node 'ward': .*{message}"):
            function(estimator, name="ward")


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
def test_the_error_about_other_classifiers_names_those_that_are_accepted(estimator):
    X, y = rows_of_classes(2)
    kind = type(estimator).__name__
    with pytest.raises(TypeError, match=f"Node 'ward': {kind} cannot.*MLPClassifier"):
        read_network(estimator.fit(X, y), name="ward")


@pytest.mark.parametrize(
    "estimator",
    [RidgeClassifier(), MLPClassifier((3,), max_iter=2), DummyClassifier()],
    ids=lambda estimator: type(estimator).__name__,
)
def test_multilabel_is_refused(estimator):
    X, _ = rows_of_classes(2)
    with pytest.raises(ValueError, match="Node 'ward'.*multilabel"):
        read_network(fit_quietly(estimator, X, (X[:, :2] > 0).astype(int)), name="ward")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_not_finite_are_named(value):
    X, y = rows_of_classes(3)
    linear = LogisticRegression().fit(X, y)
    linear.coef_[1, 2] = value
    with pytest.raises(ValueError, match="Node 'ward': coef_ has 1 values"):
        read_network(linear, name="ward")
    linear = LogisticRegression().fit(X, y)
    linear.intercept_[0] = value
    with pytest.raises(ValueError, match="Node 'ward': intercept_ has 1 values"):
        read_network(linear, name="ward")
    mlp = fit_quietly(MLPClassifier((3, 3), max_iter=2), X, y)
    mlp.coefs_[1][0, 0] = value
    with pytest.raises(ValueError, match=r"Node 'ward': coefs_\[1\] has 1 values"):
        read_network(mlp, name="ward")


def test_a_coef_that_does_not_fit_the_classes_is_an_error():
    X, y = rows_of_classes(4)
    linear = LogisticRegression().fit(X, y)
    linear.coef_ = linear.coef_[:3]
    linear.intercept_ = linear.intercept_[:3]
    with pytest.raises(ValueError, match="Node 'ward': coef_ .* 3 rows for 4 classes"):
        read_network(linear, name="ward")


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


@pytest.mark.parametrize(
    ("n_classes", "is_behind_scaler"), [(2, False), (3, True), (4, False)]
)
@pytest.mark.parametrize("estimator", ONE_VS_REST, ids=lambda e: type(e).__name__)
def test_one_vs_rest_of_linear_classifiers_is_read(
    estimator, n_classes, is_behind_scaler
):
    X, y = rows_of_classes(n_classes)
    one_vs_rest = OneVsRestClassifier(estimator)
    if is_behind_scaler:
        model = make_pipeline(StandardScaler(), one_vs_rest).fit(X, y)
    else:
        model = FrozenEstimator(one_vs_rest.fit(X, y))
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
        # Of two classes there is one score, the difference of the columns.
        probabilities = expit(scores if n_classes > 2 else np.diff(scores) * [-1, 1])
        probabilities /= probabilities.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(probabilities, model.predict_proba(X), atol=1e-12)


def test_one_vs_rest_of_one_class_is_constant():
    X, _ = rows_of_classes(2)
    model = OneVsRestClassifier(LogisticRegression())
    network = read_network(fit_quietly(model, X, np.repeat("cat", 120)))
    assert network.classes.tolist() == ["cat"] and network.seen.all()
    assert network.is_constant and network.n_features_in == 7


def test_one_vs_rest_has_not_seen_a_class_whose_model_is_constant():
    X, y = rows_of_classes(3)
    model = OneVsRestClassifier(LogisticRegression()).fit(X, y)
    # As fitting leaves it where a class has no row.
    model.estimators_[1] = _ConstantPredictor().fit(X, np.array([0]))
    network = read_network(model)
    assert network.seen.tolist() == [True, False, True]
    scores = network.decision_function(X)
    np.testing.assert_allclose(scores, model.decision_function(X))


@pytest.mark.parametrize(
    "estimator",
    [RandomForestClassifier(2), MLPClassifier((3,), max_iter=2), SVC()],
    ids=lambda estimator: type(estimator).__name__,
)
def test_one_vs_rest_of_classifiers_that_are_not_linear_is_refused(estimator):
    X, y = rows_of_classes(3)
    model = fit_quietly(OneVsRestClassifier(estimator), X, y)
    kind = type(estimator).__name__
    message = f"Node 'ward': OneVsRestClassifier of {kind}.* linear"
    with pytest.raises(TypeError, match=message):
        read_network(model, name="ward")


def test_one_vs_rest_of_several_labels_a_row_is_refused():
    X, _ = rows_of_classes(3)
    labels = (X[:, :2] > 0).astype(int)
    model = fit_quietly(OneVsRestClassifier(LogisticRegression()), X, labels)
    with pytest.raises(ValueError, match="Node 'ward'.*multilabel"):
        read_network(model, name="ward")


def test_one_vs_rest_that_is_not_fitted_is_an_error():
    with pytest.raises(NotFittedError):
        read_network(OneVsRestClassifier(LogisticRegression()), name="ward")


def test_one_vs_rest_with_weights_that_are_not_finite_names_the_estimator():
    X, y = rows_of_classes(3)
    model = OneVsRestClassifier(LogisticRegression()).fit(X, y)
    model.estimators_[2].coef_[0, 0] = np.nan
    with pytest.raises(ValueError, match=r"Node 'ward'.*estimators_\[2\].*not finite"):
        read_network(model, name="ward")
