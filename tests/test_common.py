# SPDX-License-Identifier: BSD-3-Clause
"""What every public aggregator promises, whatever its method: what it learns."""

from __future__ import annotations

import inspect
import os
from unittest import SkipTest

import numpy as np
import pytest
from helpers.estimators import LISTED, federated
from helpers.every_estimator import (
    SLOW_TO_FIT,
    assert_same_model,
    every_estimator,
    every_kind,
    every_reading,
    fit,
    fit_simulated,
    scores_of,
)
from helpers.labels import are_decided, assert_same_labels
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import estimator_checks_generator
from sklearn.utils.validation import check_is_fitted

import skgems
from skgems import (
    DistillationAggregator,
    GEMSMLPAggregator,
    PFNMAggregator,
    PooledAggregator,
)
from skgems.base import BaseAggregator

# ---- the list itself, and scikit-learn's own checks ---------------------------


def test_every_public_aggregator_is_listed():
    public = {getattr(skgems, name) for name in skgems.__all__}
    aggregators = {
        kind
        for kind in public
        if isinstance(kind, type) and issubclass(kind, BaseAggregator)
    }
    assert aggregators == {listed.kind for listed in LISTED}


# Aggregators that train networks or a student where nothing else is said.
TRAINED_LONG = (GEMSMLPAggregator, PFNMAggregator, DistillationAggregator)
# Rows of every sparse format; and those of float64 beside those of float32.
REPEATED_ELSEWHERE = ("check_estimator_sparse_array", "check_classifiers_train")
# How rows and labels are read, which all do by the same code.
CHECKS_OF_READING = (
    "check_array_api_input",
    "check_classifier_data_not_an_array",
    "check_dtype_object",
    "check_estimator_sparse_tag",
    "check_estimators_dtypes",
    "check_estimators_nan_inf",
    "check_f_contiguous_array_estimator",
    "check_fit_score_takes_y",
    "check_n_features_in",
    "check_n_features_in_after_fitting",
    "check_pipeline_consistency",
    "check_positive_only_tag_during_fit",
    "check_readonly_memmap_input",
    "check_supervised_y_2d",
)


def sklearn_checks():
    """A parameter of pytest for each check of each aggregator, all that there are."""
    for listed in LISTED:
        local = listed.simulated or listed.local
        for name, estimator in (
            ("default", listed.kind()),
            ("unfitted", listed.make([clone(local), clone(local)])),
        ):
            # What check_estimator runs, with nothing marked as expected to fail.
            for instance, check in estimator_checks_generator(estimator):
                options = "-".join(str(v) for v in check.keywords.values())
                check_name = check.func.__name__
                is_repetition = (
                    # Sparse matrices go the same way as sparse arrays.
                    check_name == "check_estimator_sparse_matrix"
                    # Rows that cannot be written are those of float32, too.
                    or (check_name == "check_classifiers_train" and options == "True")
                    # By defaults that train long: the layouts and numbers of
                    # test_common_invariances.py are for these aggregators, too.
                    or (
                        f"{check_name}{options}" in REPEATED_ELSEWHERE
                        and listed.kind in TRAINED_LONG
                    )
                    or (check_name in CHECKS_OF_READING and listed.kind in SLOW_TO_FIT)
                )
                slow = name == "unfitted" or is_repetition
                yield pytest.param(
                    instance,
                    check,
                    id=f"{listed!r}-{name}-{check_name}{options}",
                    marks=[pytest.mark.slow] if slow else [],
                )


@pytest.mark.parametrize(("estimator", "check"), list(sklearn_checks()))
# Rows at random make good-enough spaces that need not meet, and some checks give no
# seed: whether each network gets to its end is up to chance.
@pytest.mark.filterwarnings("ignore::skgems.spaces.EmptyIntersectionWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_all_checks_of_scikit_learn_pass(estimator, check):
    assert os.environ["SCIPY_ARRAY_API"] == "1"
    try:
        check(estimator)
    except SkipTest as reason:
        if "pandas is not installed" in str(reason):
            pytest.importorskip("pandas")
        pytest.fail(f"a check skipped itself: {reason}")


@every_estimator
def test_only_estimators_may_be_given_by_position(listed):
    first, *further = inspect.signature(listed.kind).parameters.values()
    assert first.name == "estimators" and first.default is None
    assert first.kind is first.POSITIONAL_OR_KEYWORD
    assert further
    for parameter in further:
        assert parameter.kind is parameter.KEYWORD_ONLY, parameter.name
        assert parameter.default is not parameter.empty, parameter.name


@every_estimator
def test_every_parameter_is_validated(listed):
    parameters = set(listed.kind().get_params(deep=False))
    assert parameters == set(listed.kind._parameter_constraints)
    dataset = federated()
    for name, allowed in listed.kind._parameter_constraints.items():
        if allowed == "no_validation":
            continue
        aggregate = listed.make(dataset.fitted(listed.local)).set_params(
            **{name: object}
        )
        with pytest.raises(ValueError, match=f"The '{name}' parameter of"):
            aggregate.fit(dataset.X, dataset.y)


@every_estimator
def test_every_parameter_and_attribute_is_documented(listed):
    fitted = fit(listed, federated())
    text = inspect.getdoc(listed.kind)  # Python 3.13 takes indentation away
    for name in fitted.get_params(deep=False):
        assert f"\n{name} : " in text, name
    for name in vars(fitted):
        if name.endswith("_") and not name.startswith("_"):
            assert f"\n{name} : " in text, name


# ---- learning from the nodes --------------------------------------------------


@every_estimator
@every_kind
def test_one_model_knows_what_all_nodes_know(listed, kind):
    # Texts for labels make the same model: test_common_invariances.py.
    dataset = federated(kind)
    if kind == "single":
        # A node of one label cannot fit its classifier: simulation makes it constant.
        aggregate = fit_simulated(listed, dataset)
    else:
        aggregate = fit(listed, dataset, dataset.fitted(listed.local))
    np.testing.assert_array_equal(aggregate.classes_, np.unique(dataset.y))
    proba = aggregate.predict_proba(dataset.X_test)
    assert proba.shape == (len(dataset.X_test), len(aggregate.classes_))
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    rows = are_decided(aggregate, dataset.X_test)
    np.testing.assert_array_equal(
        aggregate.classes_[proba.argmax(axis=1)][rows],
        aggregate.predict(dataset.X_test)[rows],
    )
    best_of_one_node = max(
        np.mean(dataset.y_test == local.predict(dataset.X_test))
        for local in aggregate.estimators_
    )
    score = aggregate.score(dataset.X_test, dataset.y_test)
    if kind == "binary":  # each node knows both classes, and is good by itself
        assert score > best_of_one_node - 0.05
    elif listed.unites:
        assert score > best_of_one_node + 0.2


@every_estimator
def test_labels_are_those_of_the_largest_probability_to_the_last_bit(listed):
    aggregate = fit(listed, federated("overlapping"))
    if listed.kind is PooledAggregator:
        pytest.skip("it predicts as its classifier, which is one of scikit-learn's")
    n_classes = len(aggregate.classes_)
    # Logits that differ by so little that their probabilities are equal.
    logits = np.full((2, n_classes), -1.0)
    logits[0, -2:] = 1e-18, 2e-18
    logits[1, :2] = 2e-18, 1e-18
    aggregate._logits = lambda X: logits
    X = federated("overlapping").X_test[:2]
    proba = aggregate.predict_proba(X)
    assert proba[0, -2] == proba[0, -1] and proba[1, 0] == proba[1, 1]
    first_of_largest = [aggregate.classes_[-2], aggregate.classes_[0]]
    assert aggregate.predict(X).tolist() == first_of_largest


@every_reading
def test_without_nodes_rows_go_by_their_labels(listed):
    dataset = federated("disjoint")
    locals_ = dataset.fitted(listed.local)
    by_label = listed.make(locals_).fit(dataset.X, dataset.y)
    assert_same_model(by_label, fit(listed, dataset, locals_), dataset.X_test)


@every_estimator
def test_fit_sets_the_attributes_that_all_aggregators_have(listed):
    dataset = federated()
    locals_ = dataset.fitted(listed.local)
    aggregate = listed.make(list(zip(dataset.names, locals_, strict=True)))
    with pytest.raises(NotFittedError):
        check_is_fitted(aggregate)
    assert aggregate.fit(dataset.X, dataset.y) is aggregate
    check_is_fitted(aggregate)
    assert aggregate.n_features_in_ == dataset.X.shape[1]
    assert not hasattr(aggregate, "feature_names_in_")
    assert aggregate.node_names_ == dataset.names
    for member, local in zip(aggregate.estimators_, locals_, strict=True):
        assert member is local


@every_reading
def test_fit_forgets_an_earlier_fit(listed):
    pandas = pytest.importorskip("pandas")
    earlier = federated("disjoint", n_features=4)
    dataset = federated("binary")
    locals_ = dataset.fitted(listed.local)
    aggregate = listed.make([clone(listed.local)] * 3)
    aggregate.fit(pandas.DataFrame(earlier.X, columns=list("abcd")), earlier.y)
    aggregate.set_params(estimators=locals_)
    aggregate.fit(dataset.X, dataset.y, nodes=dataset.nodes)
    assert not hasattr(aggregate, "feature_names_in_")
    assert aggregate.n_features_in_ == dataset.X.shape[1]
    assert_same_model(aggregate, fit(listed, dataset, locals_), dataset.X_test)


@every_estimator
@pytest.mark.parametrize("kind", ["overlapping", "binary"])
def test_the_aggregate_of_one_node_is_its_model(listed, kind):
    if not listed.recovers:
        pytest.skip("it fits another model to the local ones")
    dataset = federated(kind)
    local = dataset.fitted(listed.local)[1]
    rows = (dataset.nodes == 1) & np.isin(dataset.y, local.classes_)
    aggregate = listed.make([local], **listed.recovering)
    aggregate.fit(dataset.X[rows], dataset.y[rows])
    assert_same_model(aggregate, local, dataset.X_test, rtol=1e-6)
    np.testing.assert_allclose(
        aggregate.decision_function(dataset.X_test), scores_of(local, dataset.X_test)
    )


@every_estimator
# The same model three times has the same rows three times.
@pytest.mark.filterwarnings("ignore:nodes is not given and nodes share classes")
@pytest.mark.parametrize("kind", ["homogeneous", "binary"])
def test_equal_models_give_that_model_back(listed, kind):
    if not listed.recovers:
        pytest.skip("it fits another model to the local ones")
    dataset = federated(kind)
    local = clone(listed.local).fit(dataset.X, dataset.y)
    aggregate = listed.make([local] * 3, **listed.recovering).fit(dataset.X, dataset.y)
    assert_same_labels(aggregate, local, dataset.X_test)
    # Up to the common scale of the logits, which is fitted on the rows.
    scores = aggregate.decision_function(dataset.X_test)
    local_scores = scores_of(local, dataset.X_test)
    if local_scores.ndim == 2:  # what is common to a row's classes means nothing
        scores = scores - scores.mean(axis=1, keepdims=True)
        local_scores = local_scores - local_scores.mean(axis=1, keepdims=True)
    scores = np.ravel(scores)
    local_scores = np.ravel(local_scores)
    scale = (scores @ local_scores) / (local_scores @ local_scores)
    assert scale > 0
    np.testing.assert_allclose(
        scores, scale * local_scores, atol=1e-6 * np.abs(scores).max()
    )
