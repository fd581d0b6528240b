# SPDX-License-Identifier: BSD-3-Clause
"""What a fitted classifier says of its loss, its penalty and its intercept."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
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
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from skgems.local import class_weight_of, fit_local, penalty_of
from skgems.moments import LARGEST, SMALLEST
from skgems.networks import Network

pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning", "ignore::FutureWarning"
)


def rows(n_classes=3):
    rng = np.random.default_rng(0)
    y = np.arange(90) % n_classes
    return rng.normal(size=(n_classes, 4))[y] + rng.normal(size=(90, 4)), y


def penalty_after_fit(classifier, n_classes=3):
    return penalty_of(clone(classifier).fit(*rows(n_classes)))


def logistic(**strength):
    return {"loss": "log_loss", **strength, "fit_intercept": True}


@pytest.mark.parametrize(
    ("classifier", "penalty"),
    [
        (LogisticRegression(C=3), logistic(C=3.0)),
        (LogisticRegression(C=np.inf), logistic(alpha=0.0)),
        (LogisticRegression(C=0.3, l1_ratio=1, solver="saga"), logistic(C=0.3)),
        (LogisticRegressionCV(Cs=[0.3]), logistic(C=0.3)),
        (RidgeClassifier(alpha=4), {"loss": "squares", "C": 0.25}),
        (RidgeClassifier(alpha=[2, 4, 8]), {"loss": "squares", "C": 0.25}),
        (RidgeClassifier(alpha=0), {"loss": "squares", "alpha": 0.0}),
        (RidgeClassifierCV(alphas=[2.0]), {"loss": "squares", "C": 0.5}),
        (LinearSVC(C=0.2), {"loss": "squared_hinge", "C": 0.2}),
        (LinearSVC(C=0.2, loss="hinge"), {"loss": "hinge", "C": 0.2}),
        (SGDClassifier(loss="log_loss", alpha=0.1), logistic(alpha=0.1)),
        (SGDClassifier(alpha=0.1), {"loss": "hinge", "alpha": 0.1}),
        (
            SGDClassifier(loss="modified_huber"),
            {"loss": "squared_hinge", "alpha": 1e-4},
        ),
        (SGDClassifier(loss="squared_error"), {"loss": "squares", "alpha": 1e-4}),
        # Without a penalty it is its steps that hold it back.
        (SGDClassifier(loss="log_loss", penalty=None), logistic()),
        (SGDClassifier(loss="perceptron"), {"loss": "other"}),
        (Perceptron(penalty="l2"), {"loss": "other"}),
    ],
    ids=str,
)
def test_the_penalty_of_a_kind_of_classifier(classifier, penalty):
    penalty = {"fit_intercept": True, **penalty}
    assert penalty_after_fit(classifier) == pytest.approx(penalty, abs=0.0)


def test_older_versions_say_by_a_penalty_of_none_that_there_is_none():
    classifier = LogisticRegression(C=3).fit(*rows())
    classifier.penalty = None
    assert penalty_of(classifier) == logistic(alpha=0.0)


@pytest.mark.parametrize(
    ("classifier", "penalty"),
    [
        (LinearDiscriminantAnalysis(), {"loss": "other"}),
        (MLPClassifier((), solver="lbfgs", alpha=4), {"loss": "log_loss", "C": 0.25}),
        (MLPClassifier((), max_iter=3), {"loss": "log_loss"}),
        (MLPClassifier((3,), max_iter=3), {"loss": "other"}),
    ],
    ids=str,
)
def test_some_have_no_choice_of_an_intercept(classifier, penalty):
    assert penalty_after_fit(classifier) == penalty


def test_a_kernel_machine_of_two_classes_has_a_hinge():
    penalty = penalty_after_fit(SVC(kernel="linear", C=2), n_classes=2)
    assert penalty == {"loss": "hinge", "C": 2.0}


@pytest.mark.parametrize(
    "wrapped",
    [
        make_pipeline(StandardScaler(), LogisticRegression(C=7)),
        GridSearchCV(LogisticRegression(), {"C": [7.0]}),
        GridSearchCV(
            make_pipeline(StandardScaler(), LogisticRegression()),
            {"logisticregression__C": [7.0]},
        ),
        OneVsRestClassifier(LogisticRegression(C=7)),
        OneVsRestClassifier(make_pipeline(StandardScaler(), LogisticRegression(C=7))),
        FrozenEstimator(LogisticRegression(C=7).fit(*rows())),
    ],
    ids=lambda wrapped: type(wrapped).__name__,
)
def test_the_penalty_inside_wrappers(wrapped):
    assert penalty_of(wrapped.fit(*rows())) == logistic(C=7.0)


def test_strengths_of_parts_are_averaged_in_logarithms():
    parts = OneVsRestClassifier(LogisticRegression()).fit(*rows())
    for part, C in zip(parts.estimators_, (0.1, 1.0, 100.0), strict=True):
        part.C = C
    assert penalty_of(parts)["C"] == pytest.approx(10 ** (1 / 3))
    parts.estimators_[0].C = np.inf
    assert penalty_of(parts) == logistic()


@pytest.mark.filterwarnings("ignore:Label not 0.0 is present")
def test_the_unfitted_part_has_the_penalty_where_there_is_one_class():
    X, _ = rows()
    alone = OneVsRestClassifier(LogisticRegression(C=7)).fit(X, np.zeros(len(X)))
    assert penalty_of(alone) == logistic(C=7.0)


def test_without_a_classifier_there_is_no_penalty():
    X, y = rows()
    assert penalty_of(Network.from_rows(y, X)) is None
    assert penalty_of(DummyClassifier().fit(X, y)) is None


@pytest.mark.parametrize(
    ("C", "sent"), [(1e-300, SMALLEST), (1e300, LARGEST), (1e-3, 1e-3)]
)
def test_strengths_are_within_the_bounds_of_messages(C, sent):
    assert penalty_of(LogisticRegression(C=C)) == logistic(C=sent)


def test_a_penalty_says_that_no_intercept_is_fitted():
    penalty = penalty_after_fit(LogisticRegression(fit_intercept=False))
    assert penalty == {"loss": "log_loss", "C": 1.0, "fit_intercept": False}


@pytest.mark.parametrize(
    "unfitted",
    [
        LogisticRegression(C=7, class_weight="balanced"),
        make_pipeline(
            StandardScaler(), LogisticRegression(C=7, class_weight="balanced")
        ),
    ],
    ids=["alone", "pipeline"],
)
def test_a_constant_model_speaks_for_the_classifier_in_whose_place_it_is(unfitted):
    X, _ = rows()
    constant = fit_local(
        clone(unfitted), X, np.zeros(len(X)), classes=np.arange(2), seed=0
    )
    assert isinstance(constant, DummyClassifier)
    assert penalty_of(constant) == logistic(C=7.0)
    assert class_weight_of(constant) == "balanced"


# ---- skorch nets ---------------------------------------------------------------


def fitted_net(n_hidden=0, **settings):
    torch = pytest.importorskip("torch")
    skorch = pytest.importorskip("skorch")
    X, y = rows()
    hidden = []
    if n_hidden:
        hidden = [torch.nn.Linear(4, n_hidden), torch.nn.ReLU()]
    module = torch.nn.Sequential(*hidden, torch.nn.Linear(n_hidden or 4, 3))
    if isinstance(settings.get("optimizer"), str):
        settings["optimizer"] = getattr(torch.optim, settings["optimizer"])
    net = skorch.NeuralNetClassifier(
        module,
        criterion=torch.nn.CrossEntropyLoss,
        max_epochs=1,
        train_split=None,
        verbose=0,
        **settings,
    )
    return net.fit(X.astype(np.float32), y)


@pytest.mark.parametrize(
    ("settings", "penalty"),
    [
        ({"optimizer__weight_decay": 0.1}, {"loss": "log_loss", "alpha": 0.1}),
        (
            {"optimizer": "Adam", "optimizer__weight_decay": 0.02},
            {"loss": "log_loss", "alpha": 0.02},
        ),
        # Without decay it is its steps that hold it back, and AdamW has no penalty.
        ({}, {"loss": "log_loss"}),
        ({"optimizer": "AdamW"}, {"loss": "log_loss"}),
        (
            {"optimizer__weight_decay": 0.1, "criterion__reduction": "sum"},
            {"loss": "log_loss"},
        ),
        ({"optimizer__weight_decay": 0.1, "n_hidden": 2}, {"loss": "other"}),
    ],
    ids=str,
)
def test_weight_decay_of_a_net(settings, penalty):
    assert penalty_of(fitted_net(**settings)) == penalty
