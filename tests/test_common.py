# SPDX-License-Identifier: BSD-3-Clause
"""What every public aggregator promises, whatever its method."""

from __future__ import annotations

import inspect
import os
import pickle
from unittest import SkipTest

import joblib
import numpy as np
import pytest
from helpers.estimators import LABELS, LISTED, federated, fitted
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import StackingClassifier, VotingClassifier
from sklearn.exceptions import NotFittedError, UnsetMetadataPassedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    ParameterGrid,
    StratifiedKFold,
    cross_val_score,
)
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils import estimator_html_repr
from sklearn.utils.estimator_checks import estimator_checks_generator
from sklearn.utils.validation import check_is_fitted

import skgems
from skgems import (
    DistillationAggregator,
    EnsembleAggregator,
    GEMSMLPAggregator,
)
from skgems.base import BaseAggregator
from skgems.messages import TASKS
from skgems.networks import read_network

CV = StratifiedKFold(2, shuffle=True, random_state=0)

every_estimator = pytest.mark.parametrize("listed", LISTED, ids=repr)
every_kind = pytest.mark.parametrize(
    "kind", ["disjoint", "overlapping", "binary", "single"]
)


def fit(listed, data, estimators=None, **parameters):
    """The aggregate of fitted local estimators on the judging rows."""
    if estimators is None and not parameters:
        aggregate = listed.make(data.fitted(listed.local))
        return fitted(aggregate, data.X, data.y, nodes=data.nodes)
    if estimators is None:
        estimators = data.fitted(listed.local)
    aggregate = listed.make(estimators, **parameters)
    return aggregate.fit(data.X, data.y, nodes=data.nodes)


def simulated(listed, data):
    """The aggregate of three local estimators that are trained on their rows."""
    aggregate = listed.make([listed.local] * 3)
    return fitted(aggregate, data.X, data.y, nodes=data.nodes)


def assert_same_model(one, other, X, *, rtol=1e-9, atol=1e-9):
    np.testing.assert_array_equal(one.classes_, other.classes_)
    np.testing.assert_array_equal(one.predict(X), other.predict(X))
    np.testing.assert_allclose(
        one.predict_proba(X), other.predict_proba(X), rtol=rtol, atol=atol
    )


def scores_of(classifier, X):
    """Its decision function, read off its weights where it offers none."""
    if hasattr(classifier, "decision_function"):
        return classifier.decision_function(X)
    logits = read_network(classifier).decision_function(np.asarray(X))
    return logits[:, 1] - logits[:, 0] if logits.shape[1] == 2 else logits


def zero_weights(classifier):
    """Set the weights of a classifier to 0 where they are."""
    arrays = [vars(classifier).get(name) for name in ("coef_", "intercept_")]
    arrays = [array for array in arrays if array is not None]
    for name in ("coefs_", "intercepts_"):
        arrays += getattr(classifier, name, [])
    for array in arrays:
        array[:] = 0


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


# ---- invariances --------------------------------------------------------------


def rounding_of(kind):
    """How far rounding moves probabilities, relative to them.

    Where nodes have one class no model says how the classes lie to each other, so that
    the likelihood is flat, and its maximum is moved farther.
    """
    return 1e-4 if kind == "single" else 1e-6


@every_estimator
@every_kind
def test_order_of_nodes_does_not_matter(listed, kind):
    data = federated(kind)
    if kind == "single":
        locals_ = simulated(listed, data).estimators_
    else:
        locals_ = data.fitted(listed.local)
    order = [2, 0, 1]
    reordered = listed.make(
        [(data.names[k], locals_[k]) for k in order],
    ).fit(data.X, data.y, nodes=np.array(data.names)[data.nodes])
    straight = listed.make(list(zip(data.names, locals_, strict=True)))
    straight.fit(data.X, data.y, nodes=data.nodes)
    assert reordered.node_names_ == [data.names[k] for k in order]
    rtol = rounding_of(kind)
    assert_same_model(straight, reordered, data.X_test, rtol=rtol, atol=listed.atol)


@every_estimator
@every_kind
def test_order_of_rows_does_not_matter(listed, kind):
    if kind == "single" and not listed.recovers:
        pytest.skip("nodes of one label make ties, which no model can be fitted to")
    data = federated(kind)
    if kind == "single":
        locals_ = simulated(listed, data).estimators_
    else:
        locals_ = data.fitted(listed.local)
    order = np.random.RandomState(1).permutation(len(data.y))
    shuffled = listed.make(locals_)
    shuffled.fit(data.X[order], data.y[order], nodes=data.nodes[order])
    straight = fit(listed, data, locals_)
    rtol = rounding_of(kind)
    assert_same_model(straight, shuffled, data.X_test, rtol=rtol, atol=listed.atol)


@every_estimator
@every_kind
def test_renaming_labels_in_their_order_renames_predictions(listed, kind):
    data, named = federated(kind), federated(kind, strings=True)
    make = simulated if kind == "single" else fit
    numbers, strings = (make(listed, own) for own in (data, named))
    np.testing.assert_array_equal(LABELS[numbers.classes_], strings.classes_)
    np.testing.assert_array_equal(
        LABELS[numbers.predict(data.X_test)], strings.predict(data.X_test)
    )
    np.testing.assert_allclose(
        numbers.predict_proba(data.X_test), strings.predict_proba(data.X_test)
    )


@every_estimator
@pytest.mark.parametrize("kind", ["disjoint", "overlapping", "binary"])
def test_renaming_labels_in_another_order_renames_predictions(listed, kind):
    if not listed.convex:
        pytest.skip("local estimators find another model for another order")
    data = federated(kind)
    other = np.array([40, 10, 50, 0, 20, 30])[: data.y.max() + 1]
    renamed = listed.make(
        [
            clone(listed.local).fit(X_local, other[y_local])
            for X_local, y_local in data.local_rows
        ]
    )
    renamed.fit(data.X, other[data.y], nodes=data.nodes)
    straight = fit(listed, data)
    proba = renamed.predict_proba(data.X_test)
    proba = proba[:, np.searchsorted(renamed.classes_, other)]
    # Local solvers meet their tolerance elsewhere, directions are drawn anew, and
    # expectations are taken over points whose axes are those of the classes' order.
    expected = straight.predict_proba(data.X_test)
    np.testing.assert_allclose(proba, expected, atol=0.08, rtol=0)
    assert np.abs(proba - expected).mean() < 2e-3


# Nodes know some of the classes, so those of the first are narrower than the last's.
OF_DTYPES = {
    "objects": np.array(["ant", "bee", "cat", "dog", "elk", "gazelle"], dtype=object),
    "texts of other widths": np.array(["a", "b", "cat", "dog", "elks", "gazelle"]),
    "small integers": np.array([1, 2, 3, 5, 8, 13], dtype=np.int32),
    "floats": np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0]),
    "truth values": np.array([False, True]),
}


@every_estimator
@pytest.mark.parametrize("labels", OF_DTYPES)
def test_classes_and_predictions_have_the_dtype_of_the_labels(listed, labels):
    words = OF_DTYPES[labels]
    data = federated("binary" if len(words) == 2 else "overlapping")
    y = words[data.y]
    members = [clone(listed.local).fit(A, words[b]) for A, b in data.local_rows]
    aggregate = listed.make(members).fit(data.X, y, nodes=data.nodes)
    found = aggregate.classes_, aggregate.predict(data.X_test)
    assert [own.dtype for own in found] == [words.dtype] * 2
    np.testing.assert_array_equal(found[0], np.unique(y))
    assert aggregate.score(data.X_test, words[data.y_test]) > 0.3
    if listed.exported is not None and listed.kind is not DistillationAggregator:
        exported = listed.exported(aggregate)  # a student is as it trained itself
        assert exported.predict(data.X_test).dtype == words.dtype
        np.testing.assert_array_equal(exported.predict(data.X_test), found[1])
    if not hasattr(aggregate, "summarize") or listed.kind is GEMSMLPAggregator:
        return
    # A file tells texts, integers, floats or truth values, not how wide they are.
    sent = [
        aggregate.summarize(own, A, words[b], name=name, min_rows=1)
        for own, (A, b), name in zip(members, data.local_rows, data.names, strict=True)
    ]
    told = listed.make(sent).fit()
    np.testing.assert_array_equal(told.classes_, words)
    assert told.classes_.dtype == np.array(words.tolist()).dtype


@pytest.mark.parametrize("listed", LISTED[:1] + LISTED[3:4], ids=repr)
def test_ensembles_that_number_classes_are_told_apart_from_wrong_rows(listed):
    data = federated("overlapping", strings=True)
    aggregate = fit(listed, data)
    parts = [("all", aggregate), ("own", LogisticRegression(C=0.1))]
    with pytest.raises(ValueError, match=r"StackingClassifier\(cv='prefit'\)"):
        VotingClassifier(parts).fit(data.X, data.y)
    parts[1] = "own", clone(parts[1][1]).fit(data.X, data.y)
    stack = StackingClassifier(parts, cv="prefit").fit(data.X, data.y)
    assert stack.score(data.X_test, data.y_test) > 0.9
    # The other way round: those within a fitted one know numbers.
    voting = VotingClassifier(parts[1:]).fit(data.X, data.y)
    with pytest.raises(ValueError, match="in the estimators_ of a VotingClassifier"):
        listed.make(voting.estimators_).fit(data.X, data.y)
    assert EnsembleAggregator([voting]).fit(data.X, data.y).score(data.X, data.y) > 0.9
    with pytest.raises(ValueError, match=r"was fitted on them\.$"):
        listed.make([voting] if listed.keeps_locals else [parts[1]]).fit(
            data.X, np.char.add(data.y, "s")
        )


@every_estimator
@pytest.mark.parametrize(
    "convert",
    [
        np.asfortranarray,
        lambda X: np.repeat(X, 2, axis=0)[::2],
        sparse.csr_matrix,
        sparse.csc_array,
        sparse.coo_matrix,
        lambda X: X.tolist(),
    ],
    ids=["fortran", "strided", "csr", "csc", "coo", "list"],
)
def test_layout_of_rows_does_not_matter(listed, convert):
    data = federated("overlapping")
    locals_ = data.fitted(listed.local)
    straight = fit(listed, data, locals_)
    other = listed.make(locals_).fit(convert(data.X), data.y, nodes=data.nodes)
    for X in (data.X_test, convert(data.X_test)):
        assert_same_model(straight, other, data.X_test, rtol=1e-6, atol=listed.atol)
        np.testing.assert_array_equal(other.predict(X), straight.predict(data.X_test))


@pytest.mark.filterwarnings("ignore:Rounding errors prevent the line search")
@pytest.mark.filterwarnings("ignore:Line Search failed")
@pytest.mark.filterwarnings("ignore:The line search algorithm")
@pytest.mark.filterwarnings("ignore:newton-cg failed to converge")
@every_estimator
@every_kind
def test_float32_is_close_to_float64(listed, kind):
    data = federated(kind)
    if kind == "single":
        both = [
            listed.make([listed.local] * 3).fit(X, data.y, nodes=data.nodes)
            for X in (data.X, data.X.astype(np.float32))
        ]
    else:
        locals_ = data.fitted(listed.local)
        both = [
            listed.make(locals_).fit(X, data.y, nodes=data.nodes)
            for X in (data.X, data.X.astype(np.float32))
        ]
    double, single = (aggregate.predict_proba(data.X_test) for aggregate in both)
    np.testing.assert_allclose(single, double, atol=2e-3)


@every_estimator
def test_integer_rows_are_read_as_numbers(listed):
    data = federated()
    locals_ = data.fitted(listed.local)
    X = np.round(data.X).astype(int)
    assert_same_model(
        listed.make(locals_).fit(X, data.y),
        listed.make(locals_).fit(X.astype(float), data.y),
        data.X_test,
    )


# ---- data frames --------------------------------------------------------------


@every_estimator
def test_data_frames_bring_feature_names(listed):
    pandas = pytest.importorskip("pandas")
    data = federated("overlapping")
    columns = [f"x{j}" for j in range(data.X.shape[1])]
    frame = pandas.DataFrame(data.X, columns=columns)
    test = pandas.DataFrame(data.X_test, columns=columns)
    locals_ = [
        clone(listed.local).fit(pandas.DataFrame(X, columns=columns), y)
        for X, y in data.local_rows
    ]
    nodes = pandas.Series(data.nodes, index=frame.index[::-1])
    aggregate = listed.make(locals_)
    aggregate.fit(frame, pandas.Series(data.y, name="label"), nodes=nodes)
    np.testing.assert_array_equal(aggregate.feature_names_in_, columns)
    expected = fit(listed, data).predict_proba(data.X_test)
    np.testing.assert_allclose(aggregate.predict_proba(test), expected)
    with pytest.raises(ValueError, match="feature names should match"):
        aggregate.predict(test.rename(columns={"x1": "height"}))
    with pytest.raises(ValueError, match="feature names should match"):
        aggregate.predict(test[columns[::-1]])


@every_estimator
def test_feature_names_of_nodes_must_agree(listed):
    pandas = pytest.importorskip("pandas")
    data = federated("overlapping")
    columns = np.array([f"x{j}" for j in range(data.X.shape[1])])
    (X_a, y_a), *others = data.local_rows
    swapped = clone(listed.local).fit(
        pandas.DataFrame(X_a, columns=columns[[1, 0, 2, 3, 4, 5]]), y_a
    )
    locals_ = [swapped] + [
        clone(listed.local).fit(pandas.DataFrame(X, columns=columns), y)
        for X, y in others
    ]
    named = list(zip(data.names, locals_, strict=True))
    frame = pandas.DataFrame(data.X, columns=columns)
    with pytest.raises(ValueError, match=r"'north' was fitted on features \['x1', 'x0"):
        listed.make(named).fit(frame, data.y, nodes=data.nodes)
    # Rows without names cannot settle it: the nodes must agree by themselves.
    with pytest.raises(ValueError, match="'east' was fitted on features"):
        listed.make(named).fit(data.X, data.y, nodes=data.nodes)


@every_estimator
def test_names_on_one_side_only_are_no_conflict(listed):
    pandas = pytest.importorskip("pandas")
    data = federated("overlapping")
    columns = [f"x{j}" for j in range(data.X.shape[1])]
    frame = pandas.DataFrame(data.X, columns=columns)
    plain = data.fitted(listed.local)
    named = [
        clone(listed.local).fit(pandas.DataFrame(X, columns=columns), y)
        for X, y in data.local_rows
    ]
    assert_same_model(
        listed.make(named).fit(data.X, data.y, nodes=data.nodes),
        fit(listed, data, plain),
        data.X_test,
    )
    on_frame = listed.make(plain).fit(frame, data.y, nodes=data.nodes)
    np.testing.assert_array_equal(on_frame.feature_names_in_, columns)


# ---- local estimators are never altered ---------------------------------------


def _fingerprint(estimators):
    return [joblib.hash(estimator) for estimator in estimators]


@every_estimator
@pytest.mark.parametrize(
    "kind",
    [
        "disjoint",
        "binary",
        *(pytest.param(k, marks=pytest.mark.slow) for k in ("overlapping", "single")),
    ],
)
def test_no_step_alters_a_local_estimator(listed, kind):
    data = federated(kind)
    if kind == "single":
        locals_ = simulated(listed, data).estimators_
    else:
        locals_ = data.fitted(listed.local)
    before = _fingerprint(locals_)
    given = list(locals_)
    aggregate = fit(listed, data, given)
    aggregate.predict_proba(data.X_test)
    aggregate.score(data.X_test, data.y_test)
    if hasattr(aggregate, "fine_tune"):
        aggregate.fine_tune(data.X_test, data.y_test)
    nodes = np.where(np.arange(len(data.y)) % 5 == 0, -1, data.nodes)
    aggregate.fit(data.X, data.y, nodes=nodes)
    one = {key: values[:1] for key, values in listed.grid.items()}
    GridSearchCV(aggregate, one, cv=CV).fit(data.X, data.y, nodes=data.nodes)
    assert _fingerprint(locals_) == before
    assert all(a is b for a, b in zip(aggregate.estimators, locals_, strict=True))
    assert aggregate.estimators is given


@every_estimator
def test_weights_of_the_aggregate_are_its_own(listed):
    if listed.keeps_locals:
        pytest.skip("it has no weights")
    data = federated("overlapping")
    local = data.fitted(listed.local)[0]
    rows = (data.nodes == 0) & np.isin(data.y, local.classes_)
    aggregate = listed.make([local]).fit(data.X[rows], data.y[rows])
    before = aggregate.predict_proba(data.X_test)
    zero_weights(local)
    np.testing.assert_array_equal(aggregate.predict_proba(data.X_test), before)


@every_estimator
def test_unfitted_estimators_stay_unfitted(listed):
    data = federated()
    given = [clone(listed.local), clone(listed.local)]
    listed.make(given).fit(data.X, data.y)
    for estimator in given:
        with pytest.raises(NotFittedError):
            check_is_fitted(estimator)


@every_estimator
def test_set_params_does_not_write_into_fitted_estimators(listed):
    data = federated()
    named = data.named(listed.local)
    before = _fingerprint(estimator for _, estimator in named)
    name, value = next(iter(listed.local.get_params(deep=False).items()))
    bare = [estimator for _, estimator in named]
    for estimators, key in [
        (named, f"north__{name}"),
        (named, f"estimators__{name}"),
        (bare, f"estimators__{name}"),
        (bare[0], f"estimators__{name}"),
        (FrozenEstimator(bare[0]), f"estimators__estimator__{name}"),
        ([FrozenEstimator(bare[0])], f"estimators__estimator__{name}"),
    ]:
        aggregate = listed.make(estimators)
        with pytest.raises(ValueError, match=f"Cannot set '{key}'.* is fitted"):
            aggregate.set_params(**{key: value})
    # All or nothing: the good half of a bad call is not done either.
    aggregate = listed.make(named)
    n_jobs = aggregate.n_jobs
    with pytest.raises(ValueError, match="Cannot set"):
        aggregate.set_params(n_jobs=7, **{f"east__{name}": value})
    assert aggregate.n_jobs == n_jobs
    assert _fingerprint(estimator for _, estimator in named) == before


@every_estimator
def test_search_does_not_write_into_fitted_estimators(listed):
    data = federated()
    locals_ = data.fitted(listed.local)
    grid = {f"estimators__{key}": value for key, value in listed.local_grid.items()}
    search = GridSearchCV(listed.make(locals_), grid, cv=CV)
    with pytest.raises(ValueError, match="is fitted, and a fitted local estimator is"):
        search.fit(data.X, data.y)


@every_estimator
def test_set_params_reaches_unfitted_estimators(listed):
    key, (value, _) = next(iter(listed.local_grid.items()))
    one, other = clone(listed.local), clone(listed.local)
    aggregate = listed.make([("a", one), ("b", other)])
    assert aggregate.set_params(**{f"a__{key}": value}) is aggregate
    assert one.get_params()[key] == value != other.get_params()[key]
    aggregate.set_params(**{f"estimators__{key}": value})
    assert other.get_params()[key] == value
    replaced = clone(listed.local)
    aggregate.set_params(b=replaced)
    assert aggregate.estimators[1] == ("b", replaced)
    assert aggregate.get_params()["b"] is replaced
    assert aggregate.get_params()[f"a__{key}"] == value
    single = listed.make(clone(listed.local))
    single.set_params(**{f"estimators__{key}": value})
    assert single.estimators.get_params()[key] == value
    with pytest.raises(ValueError, match="estimators is None"):
        listed.make(None).set_params(**{f"estimators__{key}": value})
    with pytest.raises(ValueError, match="Invalid parameter 'nonsense'"):
        aggregate.set_params(nonsense=1)
    with pytest.raises(ValueError, match="Invalid parameter 'c'"):
        aggregate.set_params(c__C=1)


# ---- clone, copies and pickles ------------------------------------------------


def _bare(member):
    return member[1] if isinstance(member, tuple) else member


@every_estimator
@pytest.mark.parametrize("wrapped", ["bare", "named", "frozen", "tuple", "one"])
def test_clone_carries_fitted_estimators_over(listed, wrapped):
    data = federated()
    locals_ = data.fitted(listed.local)
    estimators = {
        "bare": locals_,
        "named": list(zip(data.names, locals_, strict=True)),
        "frozen": [FrozenEstimator(local) for local in locals_],
        "tuple": tuple(locals_),
        "one": locals_[0],
    }[wrapped]
    aggregate = listed.make(estimators)
    copy = clone(clone(aggregate))
    assert copy is not aggregate
    if wrapped == "one":
        assert copy.estimators is locals_[0]
        return
    assert type(copy.estimators) is type(estimators)
    assert copy.estimators is not estimators
    for mine, theirs in zip(copy.estimators, estimators, strict=True):
        assert _bare(mine) is _bare(theirs)
    # Clones inside other estimators, too.
    inside = clone(make_pipeline(StandardScaler(), aggregate))[-1].estimators
    assert all(_bare(a) is _bare(b) for a, b in zip(inside, estimators, strict=True))


@every_estimator
def test_clone_clones_all_else(listed):
    key, (value, _) = next(iter(listed.local_grid.items()))
    named = [("a", clone(listed.local)), ("b", clone(listed.local))]
    for estimators in (named, [member for _, member in named], clone(listed.local)):
        aggregate = listed.make(estimators)
        copy = clone(aggregate)
        copy.set_params(**{f"estimators__{key}": value})
        members = estimators if isinstance(estimators, list) else [estimators]
        assert all(_bare(member).get_params()[key] != value for member in members)
        assert copy.get_params(deep=False).keys() == aggregate.get_params(False).keys()
    data = federated()
    fitted = fit(listed, data)
    with pytest.raises(NotFittedError):
        check_is_fitted(clone(fitted))


@every_estimator
def test_clone_keeps_metadata_requests_and_output_configuration(listed):
    with config_context(enable_metadata_routing=True):
        aggregate = listed.make(federated().fitted(listed.local))
        aggregate.set_fit_request(nodes="hospital")
        aggregate._sklearn_output_config = {"transform": "pandas"}
        copy = clone(aggregate)
        aggregate.set_fit_request(nodes=False)
        aggregate._sklearn_output_config["transform"] = "default"
        assert copy.get_metadata_routing().fit.requests["nodes"] == "hospital"
        assert copy._sklearn_output_config == {"transform": "pandas"}


@every_estimator
def test_pickle_and_joblib_round_trip(listed, tmp_path):
    data = federated("overlapping", strings=True)
    aggregate = fit(listed, data)
    joblib.dump(aggregate, tmp_path / "aggregate.joblib")
    for copy in (
        pickle.loads(pickle.dumps(aggregate)),
        joblib.load(tmp_path / "aggregate.joblib"),
    ):
        assert_same_model(aggregate, copy, data.X_test, rtol=0, atol=0)
    again = clone(copy).fit(data.X, data.y, nodes=data.nodes)
    assert_same_model(aggregate, again, data.X_test)
    unfitted = pickle.loads(pickle.dumps(clone(aggregate)))
    unfitted.fit(data.X, data.y, nodes=data.nodes)
    assert_same_model(aggregate, unfitted, data.X_test)


# ---- searches, pipelines, routing ---------------------------------------------


@every_estimator
def test_search_and_cross_validation_work_unchanged(listed):
    data = federated("disjoint")
    locals_ = data.fitted(listed.local)
    aggregate = listed.make(locals_)
    search = GridSearchCV(aggregate, listed.grid, cv=CV, error_score="raise")
    search.fit(data.X, data.y)
    assert search.score(data.X_test, data.y_test) > (0.6 if listed.unites else 0.1)
    best = search.best_estimator_
    assert all(a is b for a, b in zip(best.estimators_, locals_, strict=True))
    scores = cross_val_score(aggregate, data.X, data.y, cv=CV, error_score="raise")
    assert scores.min() > (0.6 if listed.unites else 0.1)
    with pytest.raises(NotFittedError):
        check_is_fitted(aggregate)


@every_estimator
def test_nodes_are_sliced_like_sample_weight(listed):
    data = federated("overlapping")
    aggregate = listed.make(data.named(listed.local))
    by_hand = []
    for candidate in ParameterGrid(listed.grid):
        fold_scores = []
        for train, test in CV.split(data.X, data.y):
            fold = clone(aggregate).set_params(**candidate)
            fold.fit(data.X[train], data.y[train], nodes=data.nodes[train])
            fold_scores.append(fold.score(data.X[test], data.y[test]))
        by_hand.append(np.mean(fold_scores))
    # Arrays of numbers and lists of names, each with all candidates or with one.
    names = np.array(data.names)[data.nodes].tolist()
    one = {key: values[:1] for key, values in listed.grid.items()}
    for nodes, grid in ((data.nodes, listed.grid), (names, one)):
        search = GridSearchCV(aggregate, grid, cv=CV, error_score="raise", refit=False)
        search.fit(data.X, data.y, nodes=nodes)
        assert search.cv_results_["params"] == list(ParameterGrid(grid))
        scores = search.cv_results_["mean_test_score"]
        np.testing.assert_allclose(scores, by_hand[: len(scores)])


@every_estimator
def test_folds_stratified_by_node_and_label_as_the_message_says(listed):
    data = federated("disjoint")
    # The rows of one node in one block: an unstratified fold leaves it out.
    order = np.argsort(data.nodes, kind="stable")
    X, y, nodes = data.X[order], data.y[order], data.nodes[order]
    aggregate = listed.make(data.named(listed.local))
    with pytest.raises(ValueError, match="stratify the folds by node and label"):
        cross_val_score(
            aggregate,
            X,
            y,
            cv=KFold(3),
            params={"nodes": nodes},
            error_score="raise",
        )
    folds = StratifiedKFold().split(
        X, [f"{n}:{c}" for n, c in zip(nodes, y, strict=True)]
    )
    scores = cross_val_score(
        aggregate, X, y, cv=folds, params={"nodes": nodes}, error_score="raise"
    )
    assert scores.min() > (0.6 if listed.unites else 0.1)


@every_estimator
@pytest.mark.filterwarnings("ignore:.*worker stopped while some jobs:UserWarning")
def test_results_do_not_depend_on_n_jobs(listed):
    data = federated("overlapping")
    locals_ = data.fitted(listed.local)
    one = fit(listed, data, locals_)
    two = fit(listed, data, locals_, n_jobs=2)
    assert_same_model(one, two, data.X_test, rtol=0, atol=0)
    trained = [
        listed.make([clone(listed.local)] * 3, n_jobs=n_jobs).fit(data.X, data.y)
        for n_jobs in (None, 2)
    ]
    assert_same_model(*trained, data.X_test, rtol=0, atol=0)


@every_estimator
def test_search_over_parameters_of_unfitted_estimators(listed):
    data = federated("disjoint")
    key, values = next(iter(listed.local_grid.items()))
    for given in (clone(listed.local), [clone(listed.local)] * 3):
        aggregate = listed.make(given)
        search = GridSearchCV(
            aggregate, {f"estimators__{key}": values}, cv=CV, error_score="raise"
        )
        search.fit(data.X, data.y, nodes=data.nodes)
        assert search.score(data.X_test, data.y_test) > (0.6 if listed.unites else 0.1)
        best = search.best_params_[f"estimators__{key}"]
        for local in search.best_estimator_.estimators_:
            assert local.get_params()[key] == best
        members = given if isinstance(given, list) else [given]
        for member in members:
            assert member.get_params()[key] == listed.local.get_params()[key]
            with pytest.raises(NotFittedError):
                check_is_fitted(member)


@every_estimator
def test_pipeline_around(listed):
    data = federated("overlapping")
    scaler = StandardScaler().fit(data.X)
    locals_ = [
        clone(listed.local).fit(scaler.transform(X), y) for X, y in data.local_rows
    ]
    pipe = Pipeline([("scale", StandardScaler()), ("agg", listed.make(locals_))])
    pipe.fit(data.X, data.y, agg__nodes=data.nodes)
    alone = listed.make(locals_)
    alone.fit(scaler.transform(data.X), data.y, nodes=data.nodes)
    np.testing.assert_allclose(
        pipe.predict_proba(data.X_test),
        alone.predict_proba(scaler.transform(data.X_test)),
    )
    grid = {f"agg__{key}": values for key, values in listed.grid.items()}
    search = GridSearchCV(pipe, grid, cv=CV, error_score="raise")
    search.fit(data.X, data.y, agg__nodes=data.nodes)
    assert search.score(data.X_test, data.y_test) > (0.6 if listed.unites else 0.1)


@every_estimator
def test_pipeline_inside(listed):
    if not listed.recovers:
        pytest.skip("what it fits knows how rows are scaled")
    data = federated("overlapping")
    # Every node scales its rows its own way.
    local = make_pipeline(StandardScaler(), clone(listed.local))
    aggregate = fit(listed, data, data.fitted(local))
    assert aggregate.score(data.X_test, data.y_test) > (0.6 if listed.unites else 0.1)
    one = listed.make([data.fitted(local)[0]], **listed.recovering)
    rows = (data.nodes == 0) & (data.y <= 2)
    one.fit(data.X[rows], data.y[rows])
    np.testing.assert_allclose(
        one.predict_proba(data.X_test),
        data.fitted(local)[0].predict_proba(data.X_test),
        atol=1e-8,
    )
    # In simulation, with its parameters searched.
    key, values = next(iter(listed.local_grid.items()))
    step = type(listed.local).__name__.lower()
    search = GridSearchCV(
        listed.make(local), {f"estimators__{step}__{key}": values}, cv=CV
    )
    search.fit(data.X, data.y, nodes=data.nodes)
    assert search.score(data.X_test, data.y_test) > (0.6 if listed.unites else 0.1)


@every_estimator
def test_nodes_are_routed_where_requested(listed):
    data = federated("overlapping")
    aggregate = listed.make(data.named(listed.local))
    with config_context(enable_metadata_routing=True):
        with pytest.raises(UnsetMetadataPassedError, match="nodes"):
            GridSearchCV(aggregate, listed.grid, cv=CV).fit(
                data.X, data.y, nodes=data.nodes
            )
        requesting = clone(aggregate).set_fit_request(nodes=True)
        pipe = make_pipeline(
            StandardScaler(with_std=False, with_mean=False), clone(requesting)
        )
        pipe.fit(data.X, data.y, nodes=data.nodes)
        assert_same_model(pipe, fit(listed, data), data.X_test)
        scores = cross_val_score(
            clone(aggregate).set_fit_request(nodes="hospital"),
            data.X,
            data.y,
            cv=CV,
            params={"hospital": data.nodes},
            error_score="raise",
        )
        assert scores.min() > (0.6 if listed.unites else 0.1)


@every_estimator
def test_simulated_nodes_see_their_own_rows_only(listed, monkeypatch):
    data = federated("disjoint")
    fitted_on, own_fit = [], type(listed.local).fit

    def fit_and_record(self, X, y, *args, **kwargs):
        fitted_on.append((X, y))
        return own_fit(self, X, y, *args, **kwargs)

    monkeypatch.setattr(type(listed.local), "fit", fit_and_record)
    aggregate = listed.make(clone(listed.local))
    held_out = 0.0
    if "validation_fraction" in aggregate.get_params():
        held_out = 0.25
        aggregate.set_params(validation_fraction=held_out)
    nodes = np.where(np.arange(len(data.y)) % 4 == 0, -1, data.nodes)
    aggregate.fit(data.X, data.y, nodes=nodes)
    assert aggregate.node_names_ == ["0", "1", "2"]
    # A student, if there is one, comes after the nodes.
    fitted_on = fitted_on[:3]
    assert len(fitted_on) == 3
    position = {row.tobytes(): i for i, row in enumerate(data.X)}
    for k, (X, y) in enumerate(fitted_on):
        rows = [position[row.tobytes()] for row in X]
        assert set(nodes[rows]) == {k}
        np.testing.assert_array_equal(y, data.y[rows])
        owned = np.sum(nodes == k)
        # A quarter of each class is held out, rounded down.
        assert 0 <= len(rows) - (1 - held_out) * owned <= 2


@every_estimator
def test_a_fit_that_fails_changes_nothing(listed, monkeypatch):
    data, other = federated("overlapping"), federated("overlapping", strings=True)
    fresh = listed.make(data.fitted(listed.local))
    fitted = fit(listed, data)
    before = fitted.predict_proba(data.X_test)

    def fail(aggregate, *rows, error, **parameters):
        state = dict(vars(aggregate))
        with pytest.raises(error):
            aggregate.fit(*rows, **parameters)
        assert dict(vars(aggregate)) == state

    for aggregate in (fresh, fitted):
        fail(aggregate, np.full_like(data.X, np.nan), data.y, error=ValueError)
        nobody = np.where(data.nodes == 2, 1, data.nodes)
        fail(aggregate, data.X, data.y, nobody, error=ValueError)
        fail(aggregate, data.X[:, :3], data.y, data.nodes, error=ValueError)

    # At the very last, of rows with other labels: the old classes must not go.
    def fall_over(self, **attributes):
        raise RuntimeError

    monkeypatch.setattr(BaseAggregator, "_publish", fall_over)
    for aggregate in (fresh, fitted):
        fail(aggregate, data.X, data.y, data.nodes, error=RuntimeError)
    fitted.set_params(estimators=other.fitted(listed.local))
    fail(fitted, other.X, other.y, other.nodes, error=RuntimeError)
    with pytest.raises(NotFittedError):
        fresh.predict(data.X_test)
    np.testing.assert_array_equal(fitted.predict_proba(data.X_test), before)
    assert set(fitted.predict(data.X_test)) <= set(data.y)


# ---- rows that only score -------------------------------------------------------


def held_out_rows(data):
    """A third of the rows of every node and class."""
    mask = np.zeros(len(data.y), dtype=bool)
    for node in np.unique(data.nodes):
        for label in np.unique(data.y):
            mask[np.flatnonzero((data.nodes == node) & (data.y == label))[::3]] = True
    return mask


@every_estimator
def test_holding_out_nothing_is_holding_out_nothing(listed):
    data = federated("overlapping")
    locals_ = data.fitted(listed.local)
    nothing = np.zeros(len(data.y), dtype=bool)
    for mask in (nothing, nothing.astype(int).tolist()):
        aggregate = listed.make(locals_)
        aggregate.fit(data.X, data.y, nodes=data.nodes, held_out=mask)
        assert_same_model(aggregate, fit(listed, data, locals_), data.X_test)


@every_estimator
def test_simulated_nodes_are_not_trained_on_rows_held_out(listed):
    data = federated("disjoint")
    mask = held_out_rows(data)
    local = clone(listed.local)
    aggregate = listed.make(clone(local))
    aggregate.fit(data.X, data.y, nodes=data.nodes, held_out=mask)
    for k, member in enumerate(aggregate.estimators_):
        rows = (data.nodes == k) & ~mask
        fresh = clone(local).set_params(random_state=member.random_state)
        expected = fresh.fit(data.X[rows], data.y[rows])
        np.testing.assert_allclose(
            scores_of(member, data.X_test), scores_of(expected, data.X_test), atol=1e-7
        )


@every_estimator
def test_held_out_rows_are_sliced_and_routed(listed):
    data = federated("overlapping")
    mask = held_out_rows(data)
    aggregate = listed.make(data.named(listed.local))
    given = {"nodes": data.nodes, "held_out": mask}
    grid, options = {"random_state": [0]}, {"cv": CV, "error_score": "raise"}
    search = GridSearchCV(aggregate, grid, refit=False, **options)
    search.fit(data.X, data.y, **given)
    with config_context(enable_metadata_routing=True):
        requesting = clone(aggregate).set_fit_request(nodes=True, held_out=True)
        routed = GridSearchCV(requesting, grid, refit=False, **options)
        routed.fit(data.X, data.y, **given)
    by_hand = []
    for train, test in CV.split(data.X, data.y):
        own = {key: value[train] for key, value in given.items()}
        fold = clone(aggregate).fit(data.X[train], data.y[train], **own)
        by_hand.append(fold.score(data.X[test], data.y[test]))
    for found in (search, routed):
        scores = found.cv_results_["mean_test_score"]
        np.testing.assert_allclose(scores, np.mean(by_hand))


@every_estimator
@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (lambda data: held_out_rows(data)[:-1], "inconsistent numbers of samples"),
        (lambda data: data.nodes, "held_out must be a mask"),
        (lambda data: data.nodes == 1, "node 'east' has only rows that are held out"),
    ],
)
def test_masks_that_cannot_be(listed, mask, message):
    data = federated("overlapping")
    aggregate = listed.make(data.named(listed.local))
    with pytest.raises(ValueError, match=message):
        aggregate.fit(data.X, data.y, nodes=data.nodes, held_out=mask(data))


# ---- randomness, reports, export ----------------------------------------------


@every_estimator
def test_same_seed_same_result(listed):
    data = federated("overlapping")
    locals_ = data.fitted(listed.local)
    state = np.random.get_state()[1].copy()
    for given in (locals_, [clone(listed.local)] * 3):
        # A number on the fitted, a generator on those that are trained; both twice.
        seed = (lambda: 3) if given is locals_ else (lambda: np.random.RandomState(3))
        first, second = (
            fit(listed, data, given, random_state=seed()) for _ in range(2)
        )
        assert_same_model(first, second, data.X_test, rtol=0, atol=0)
    np.testing.assert_array_equal(state, np.random.get_state()[1])


@every_estimator
def test_html_shows_the_nodes(listed):
    data = federated()
    named = data.named(listed.local)
    for aggregate in (listed.make(named), listed.make(named).fit(data.X, data.y)):
        html = estimator_html_repr(aggregate)
        for name in data.names:
            assert f"node {name}" in html
    for estimators in (None, clone(listed.local), data.fitted(listed.local)):
        html = estimator_html_repr(listed.make(estimators))
        assert "node 0" in html
    assert type(aggregate).__name__ in repr(aggregate)


@every_estimator
def test_diagrams_and_texts_of_many_nodes_stay_short(listed):
    data = federated("overlapping")
    locals_ = data.fitted(listed.local)
    many = listed.make([(f"n{k:02}", locals_[k % 3]) for k in range(30)])
    html = estimator_html_repr(many)
    assert "node n04" in html and "node n05" not in html
    assert "and 25 more" in html and "30 nodes in all" in html
    aggregate = fit(listed, data, data.named(listed.local))
    for name, value in vars(aggregate).items():
        # Scalars and results; arrays, estimators and tables have texts of their own.
        if type(value).__module__.startswith("skgems"):
            assert len(repr(value)) < 2000, name
        elif isinstance(value, list) and len(value):
            for item in value:
                if type(item).__module__.startswith("skgems"):
                    assert len(repr(item)) < 1000, name


@every_estimator
def test_verbose_tells_of_progress(listed, capsys):
    data = federated()
    fit(listed, data, verbose=0)
    assert capsys.readouterr() == ("", "")
    fit(listed, data, data.named(listed.local), verbose=1)
    told = capsys.readouterr()
    assert "north" in told.err and told.out == ""


@every_estimator
@pytest.mark.parametrize("kind", ["disjoint", "overlapping", "binary"])
def test_to_estimator_predicts_the_same(listed, kind):
    if listed.exported is None:
        pytest.skip("has no single model to export")
    pandas = pytest.importorskip("pandas")
    data = federated(kind, strings=True)
    columns = [f"x{j}" for j in range(data.X.shape[1])]
    frame = pandas.DataFrame(data.X, columns=columns)
    aggregate = listed.make(data.fitted(listed.local))
    with pytest.raises(NotFittedError):
        listed.exported(aggregate)
    aggregate.fit(frame, data.y, nodes=data.nodes)
    plain = listed.exported(aggregate)
    assert not type(plain).__module__.startswith("skgems")
    np.testing.assert_array_equal(plain.feature_names_in_, columns)
    test = pandas.DataFrame(data.X_test, columns=columns)
    assert_same_model(aggregate, plain, test)
    np.testing.assert_allclose(
        aggregate.decision_function(test), scores_of(plain, test)
    )
    assert "skgems" not in str(pickle.dumps(plain))
    # What is exported is a copy.
    zero_weights(plain)
    assert aggregate.score(test, data.y_test) > (0.6 if listed.unites else 0.1)


@every_estimator
def test_columns_of_text_get_an_error_that_says_what_to_do(listed):
    pandas = pytest.importorskip("pandas")
    data = federated("binary")
    frame = pandas.DataFrame(data.X, columns=list("abcdef"))
    frame["colour"] = np.array(["red", "blue"])[data.y]
    encode = make_column_transformer(
        (StandardScaler(), list("abcdef")), (OneHotEncoder(), ["colour"])
    )
    locals_ = [
        make_pipeline(encode, clone(listed.local)).fit(frame, data.y) for _ in range(2)
    ]
    nodes = np.arange(len(data.y)) % 2
    for estimators in (locals_, clone(listed.local)):
        if listed.kind is EnsembleAggregator and estimators is locals_:
            # Its members see tables as they are.
            agg = listed.make(estimators).fit(frame, data.y, nodes=nodes)
            assert agg.score(frame, data.y) == 1.0
            continue
        message = r"columns of text, \['colour'\].*front=.*combine.*EnsembleAggregator"
        if listed.kind in (EnsembleAggregator, DistillationAggregator):
            # Of members, or of a student, that take no texts.
            message = "could not convert string to float"
        with pytest.raises(ValueError, match=message):
            listed.make(estimators).fit(frame, data.y, nodes=nodes)


@every_estimator
def test_names_that_only_nodes_know_are_kept(listed):
    pandas = pytest.importorskip("pandas")
    data = federated("overlapping")
    columns = [f"x{j}" for j in range(data.X.shape[1])]
    named = [
        clone(listed.local).fit(pandas.DataFrame(X, columns=columns), y)
        for X, y in data.local_rows
    ]
    aggregate = fit(listed, data, named)
    np.testing.assert_array_equal(aggregate.feature_names_in_, columns)
    test = pandas.DataFrame(data.X_test, columns=columns)
    # Rows without names are as good as those of fit: no warning.
    expected = aggregate.predict_proba(data.X_test)
    np.testing.assert_array_equal(aggregate.predict_proba(test), expected)
    with pytest.raises(ValueError, match="feature names should match"):
        aggregate.predict(test[columns[::-1]])
    with pytest.raises(ValueError, match="feature names should match"):
        aggregate.predict(test.rename(columns={"x1": "height"}))
    again = pickle.loads(pickle.dumps(aggregate))
    np.testing.assert_array_equal(again.predict_proba(data.X_test), expected)
    # What an earlier fit was told is forgotten.
    frame = pandas.DataFrame(data.X, columns=columns)
    aggregate.fit(frame, data.y, nodes=data.nodes)
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        aggregate.predict(data.X_test)


def test_names_that_only_nodes_know_are_kept_without_labels():
    pandas = pytest.importorskip("pandas")
    X, columns = federated("binary").X, list("abcdef")
    y = federated("binary").y
    members = [LogisticRegression().fit(pandas.DataFrame(X, columns=columns), y)]
    student = skgems.DistillationAggregator(members, student=LogisticRegression())
    student.fit(X).predict(X)
    with pytest.raises(ValueError, match="feature names should match"):
        student.predict(pandas.DataFrame(X, columns=columns[::-1]))


# ---- what nodes were asked -------------------------------------------------------

FORM = ["task", "bytes_sent", "bytes_received", "seconds", "left_out", "loss"]


@pytest.mark.parametrize("weights", [None, "equal", "class_counts"])
@every_estimator
def test_history_is_a_table_with_a_row_for_each_message(listed, weights):
    data = federated("overlapping")
    if weights is None:
        rounds = listed.kind is skgems.ModelAveragingAggregator
        options = {"n_rounds": 2} if rounds else {}
    elif "weights" in listed.make().get_params():
        options = {"weights": weights}
    else:
        pytest.skip("has no such weights")
    aggregate = fit(listed, data, **options)
    names = set(aggregate.node_names_)
    for entry in aggregate.history_:
        assert list(entry)[: len(FORM)] == FORM
        # As the columns of a table have to be.
        assert list(entry) == list(aggregate.history_[0])
        assert entry["task"] in TASKS
        assert entry["bytes_sent"] > 0 and entry["bytes_received"] > 0
        assert entry["seconds"] > 0 and entry["left_out"] == []
        assert set(entry["loss"]) == (names if entry["task"] == "train" else set())
    tasks = [entry["task"] for entry in aggregate.history_]
    if weights is not None:
        assert tasks == (["counts"] if weights == "class_counts" else [])
    elif listed.kind in (skgems.EnsembleAggregator, skgems.DistillationAggregator):
        assert tasks == []
    else:
        assert len(tasks) > (listed.kind is not skgems.PooledAggregator)


def test_history_of_rounds_that_count_rows_first():
    data = federated("overlapping")
    (listed,) = (own for own in LISTED if own.kind is skgems.ModelAveragingAggregator)
    history = fit(listed, data, n_rounds=2, weights="n_samples").history_
    assert [entry["task"] for entry in history] == ["counts", "train", "train"]
    assert [entry["epochs"] for entry in history] == [None, 5, 5]
    assert all(list(entry) == list(history[0]) for entry in history)


def test_history_makes_a_frame():
    pandas = pytest.importorskip("pandas")
    (listed,) = (own for own in LISTED if own.kind is skgems.GEMSLogisticAggregator)
    history = fit(listed, federated("overlapping")).history_
    frame = pandas.DataFrame(history)
    assert frame["bytes_sent"].sum() == sum(own["bytes_sent"] for own in history)
    assert list(frame.columns) == [*FORM, "min_rows", "objective", "accuracy"]
