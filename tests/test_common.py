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
    assert_same_model,
    every_estimator,
    every_kind,
    fit,
    scores_of,
    simulated,
)
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import estimator_checks_generator
from sklearn.utils.validation import check_is_fitted

import skgems
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


def sklearn_checks():
    for listed in LISTED:
        own = listed.simulated or listed.local
        for name, estimator in (
            ("default", listed.kind()),
            ("unfitted", listed.kind([clone(own), clone(own)])),
        ):
            # What check_estimator runs, with nothing marked as expected to fail.
            for instance, check in estimator_checks_generator(estimator):
                options = "-".join(str(v) for v in check.keywords.values())
                called = check.func.__name__
                # Sparse arrays go the same way as matrices.
                slow = name == "unfitted" or called == "check_estimator_sparse_matrix"
                yield pytest.param(
                    instance,
                    check,
                    id=f"{listed!r}-{name}-{called}{options}",
                    marks=[pytest.mark.slow] if slow else [],
                )


@pytest.mark.parametrize(("estimator", "check"), list(sklearn_checks()))
# Rows at random make good-enough spaces that need not meet, and some checks give no
# seed: whether each network gets to its end is up to chance.
@pytest.mark.filterwarnings("ignore::skgems.spaces.EmptyIntersectionWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_scikit_learns_checks(estimator, check):
    assert os.environ["SCIPY_ARRAY_API"] == "1"
    try:
        check(estimator)
    except SkipTest as reason:
        if "pandas is not installed" in str(reason):
            pytest.importorskip("pandas")
        pytest.fail(f"a check skipped itself: {reason}")


@every_estimator
def test_only_estimators_may_be_given_by_position(listed):
    first, *others = inspect.signature(listed.kind).parameters.values()
    assert first.name == "estimators" and first.default is None
    assert first.kind is first.POSITIONAL_OR_KEYWORD
    assert others
    for parameter in others:
        assert parameter.kind is parameter.KEYWORD_ONLY, parameter.name
        assert parameter.default is not parameter.empty, parameter.name


@every_estimator
def test_every_parameter_is_validated(listed):
    parameters = set(listed.kind().get_params(deep=False))
    assert parameters == set(listed.kind._parameter_constraints)
    data = federated()
    for name, allowed in listed.kind._parameter_constraints.items():
        if allowed == "no_validation":
            continue
        aggregate = listed.make(data.fitted(listed.local)).set_params(**{name: object})
        with pytest.raises(ValueError, match=f"The '{name}' parameter of"):
            aggregate.fit(data.X, data.y)


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
@pytest.mark.parametrize("strings", [False, True], ids=["integers", "strings"])
def test_one_model_knows_what_all_nodes_know(listed, kind, strings):
    data = federated(kind, strings=strings)
    locals_ = data.fitted(listed.local) if kind != "single" else None
    aggregate = (
        fit(listed, data, locals_)
        if locals_
        # Nodes of one label: trained in simulation, where they are constant.
        else simulated(listed, data)
    )
    np.testing.assert_array_equal(aggregate.classes_, np.unique(data.y))
    proba = aggregate.predict_proba(data.X_test)
    assert proba.shape == (len(data.X_test), len(aggregate.classes_))
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    np.testing.assert_array_equal(
        aggregate.classes_[proba.argmax(axis=1)], aggregate.predict(data.X_test)
    )
    # Better than any node alone, or as good where each knows everything.
    best_alone = max(
        np.mean(data.y_test == local.predict(data.X_test))
        for local in aggregate.estimators_
    )
    score = aggregate.score(data.X_test, data.y_test)
    if listed.unites or kind == "binary":
        assert score > (best_alone + 0.2 if kind != "binary" else best_alone - 0.05)


@every_estimator
def test_without_nodes_rows_go_by_their_labels(listed):
    data = federated("disjoint")
    locals_ = data.fitted(listed.local)
    by_label = listed.make(locals_).fit(data.X, data.y)
    assert_same_model(by_label, fit(listed, data, locals_), data.X_test)


@every_estimator
def test_fitted_attributes(listed):
    data = federated()
    locals_ = data.fitted(listed.local)
    aggregate = listed.make(list(zip(data.names, locals_, strict=True)))
    with pytest.raises(NotFittedError):
        check_is_fitted(aggregate)
    assert aggregate.fit(data.X, data.y) is aggregate
    check_is_fitted(aggregate)
    assert aggregate.n_features_in_ == data.X.shape[1]
    assert not hasattr(aggregate, "feature_names_in_")
    assert aggregate.node_names_ == data.names
    assert all(a is b for a, b in zip(aggregate.estimators_, locals_, strict=True))


@every_estimator
def test_fit_forgets_an_earlier_fit(listed):
    pandas = pytest.importorskip("pandas")
    first, second = federated("disjoint", n_features=4), federated("binary")
    locals_ = second.fitted(listed.local)
    aggregate = listed.make([clone(listed.local)] * 3)
    aggregate.fit(pandas.DataFrame(first.X, columns=list("abcd")), first.y)
    aggregate.set_params(estimators=locals_)
    aggregate.fit(second.X, second.y, nodes=second.nodes)
    assert not hasattr(aggregate, "feature_names_in_")
    assert aggregate.n_features_in_ == second.X.shape[1]
    assert_same_model(aggregate, fit(listed, second, locals_), second.X_test)


@every_estimator
@pytest.mark.parametrize("kind", ["overlapping", "binary"])
def test_one_node_returns_that_model(listed, kind):
    if not listed.recovers:
        pytest.skip("it fits another model to the local ones")
    data = federated(kind)
    rows = data.nodes == 1
    local = data.fitted(listed.local)[1]
    rows &= np.isin(data.y, local.classes_)
    aggregate = listed.make([local], **listed.recovering)
    aggregate.fit(data.X[rows], data.y[rows])
    assert_same_model(aggregate, local, data.X_test, rtol=1e-6)
    np.testing.assert_allclose(
        aggregate.decision_function(data.X_test), scores_of(local, data.X_test)
    )


@every_estimator
# The same model three times has the same rows three times.
@pytest.mark.filterwarnings("ignore:nodes is not given and nodes share classes")
@pytest.mark.parametrize("kind", ["homogeneous", "binary"])
def test_equal_models_give_that_model_back(listed, kind):
    if not listed.recovers:
        pytest.skip("it fits another model to the local ones")
    data = federated(kind)
    local = clone(listed.local).fit(data.X, data.y)
    aggregate = listed.make([local] * 3, **listed.recovering).fit(data.X, data.y)
    np.testing.assert_array_equal(
        aggregate.predict(data.X_test), local.predict(data.X_test)
    )
    # Up to the common scale of the logits, which is fitted on the rows.
    ours = np.ravel(aggregate.decision_function(data.X_test))
    theirs = scores_of(local, data.X_test)
    if theirs.ndim == 2:
        theirs = theirs - theirs.mean(axis=1, keepdims=True)
    theirs = np.ravel(theirs)
    factor = (ours @ theirs) / (theirs @ theirs)
    assert factor > 0
    np.testing.assert_allclose(ours, factor * theirs, atol=1e-6 * np.abs(ours).max())
