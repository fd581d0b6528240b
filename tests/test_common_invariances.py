# SPDX-License-Identifier: BSD-3-Clause
"""What does not matter to any public aggregator: orders, names, types, layouts."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.estimators import LABELS, LISTED, federated
from helpers.every_estimator import (
    assert_same_model,
    every_estimator,
    every_kind,
    fit,
    simulated,
)
from scipy import sparse
from sklearn.base import clone
from sklearn.ensemble import StackingClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression

from skgems import (
    DistillationAggregator,
    EnsembleAggregator,
    GEMSLogisticAggregator,
    GEMSMLPAggregator,
)

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
    reordered = listed.make([(data.names[k], locals_[k]) for k in order])
    reordered.fit(data.X, data.y, nodes=np.array(data.names)[data.nodes])
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
    data = federated(kind)
    make = simulated if kind == "single" else fit
    of_numbers = make(listed, data)
    of_strings = make(listed, federated(kind, strings=True))
    np.testing.assert_array_equal(LABELS[of_numbers.classes_], of_strings.classes_)
    np.testing.assert_array_equal(
        LABELS[of_numbers.predict(data.X_test)], of_strings.predict(data.X_test)
    )
    np.testing.assert_allclose(
        of_numbers.predict_proba(data.X_test), of_strings.predict_proba(data.X_test)
    )


@every_estimator
@pytest.mark.parametrize("kind", ["disjoint", "overlapping", "binary"])
def test_renaming_labels_in_another_order_renames_predictions(listed, kind):
    if not listed.convex:
        pytest.skip("local estimators find another model for another order")
    data = federated(kind)
    new_labels = np.array([40, 10, 50, 0, 20, 30])[: data.y.max() + 1]
    renamed = listed.make(
        [
            clone(listed.local).fit(X_local, new_labels[y_local])
            for X_local, y_local in data.local_rows
        ]
    )
    renamed.fit(data.X, new_labels[data.y], nodes=data.nodes)
    straight = fit(listed, data)
    proba = renamed.predict_proba(data.X_test)
    proba = proba[:, np.searchsorted(renamed.classes_, new_labels)]
    # Local solvers meet their tolerance elsewhere, directions are drawn anew, and
    # expectations are taken over points whose axes are those of the classes' order.
    expected = straight.predict_proba(data.X_test)
    np.testing.assert_allclose(proba, expected, atol=0.08, rtol=0)
    assert np.abs(proba - expected).mean() < 2e-3


# The labels that stand for 0, 1, ..., of several dtypes. Texts are wider and wider, so
# that those of the first node's classes have a narrower dtype than the last node's.
LABELS_BY_DTYPE = {
    "objects": np.array(["ant", "bee", "cat", "dog", "elk", "gazelle"], dtype=object),
    "texts of other widths": np.array(["a", "b", "cat", "dog", "elks", "gazelle"]),
    "small integers": np.array([1, 2, 3, 5, 8, 13], dtype=np.int32),
    "floats": np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0]),
    "truth values": np.array([False, True]),
}


@every_estimator
@pytest.mark.parametrize("dtype", LABELS_BY_DTYPE)
def test_classes_and_predictions_have_the_dtype_of_the_labels(listed, dtype):
    labels = LABELS_BY_DTYPE[dtype]
    data = federated("binary" if len(labels) == 2 else "overlapping")
    y = labels[data.y]
    members = [
        clone(listed.local).fit(X_local, labels[y_local])
        for X_local, y_local in data.local_rows
    ]
    aggregate = listed.make(members).fit(data.X, y, nodes=data.nodes)
    predictions = aggregate.predict(data.X_test)
    assert aggregate.classes_.dtype == labels.dtype
    assert predictions.dtype == labels.dtype
    np.testing.assert_array_equal(aggregate.classes_, np.unique(y))
    # Far better than chance, for all methods: labels have not been mixed up.
    assert aggregate.score(data.X_test, labels[data.y_test]) > 0.3
    # A student that is exported is as it was trained, with dtypes of its own.
    if listed.exported is not None and listed.kind is not DistillationAggregator:
        exported = listed.exported(aggregate)
        assert exported.predict(data.X_test).dtype == labels.dtype
        np.testing.assert_array_equal(exported.predict(data.X_test), predictions)


@every_estimator
@pytest.mark.parametrize("dtype", LABELS_BY_DTYPE)
def test_classes_of_summaries_have_the_kind_of_the_labels(listed, dtype):
    if not hasattr(listed.kind, "summarize") or listed.kind is GEMSMLPAggregator:
        pytest.skip("it has no summaries, or asks for more than they hold")
    labels = LABELS_BY_DTYPE[dtype]
    data = federated("binary" if len(labels) == 2 else "overlapping")
    aggregator = listed.make()
    summaries = [
        aggregator.summarize(
            clone(listed.local).fit(X_local, labels[y_local]),
            X_local,
            labels[y_local],
            name=name,
            min_rows=1,
        )
        for name, (X_local, y_local) in zip(data.names, data.local_rows, strict=True)
    ]
    aggregate = listed.make(summaries).fit()
    np.testing.assert_array_equal(aggregate.classes_, labels)
    # A file says whether labels are texts, integers, floats or truth values, but not
    # how wide they are: the dtype is that of a list of them.
    assert aggregate.classes_.dtype == np.array(labels.tolist()).dtype


linear_and_ensemble = pytest.mark.parametrize(
    "listed",
    [
        listed
        for listed in LISTED
        if listed.kind in (GEMSLogisticAggregator, EnsembleAggregator)
    ],
    ids=repr,
)


def local_model(data):
    """A model that is none of the nodes', fitted to all their rows."""
    return clone(LogisticRegression(C=0.1)).fit(data.X, data.y)


@linear_and_ensemble
def test_a_vote_around_an_aggregate_is_told_to_be_a_prefit_stack(listed):
    """scikit-learn's VotingClassifier fits its members to numbers for labels."""
    data = federated("overlapping", strings=True)
    aggregate = fit(listed, data)
    vote = VotingClassifier([("all", aggregate), ("own", LogisticRegression(C=0.1))])
    with pytest.raises(ValueError, match=r"StackingClassifier\(cv='prefit'\)"):
        vote.fit(data.X, data.y)
    parts = [("all", aggregate), ("own", local_model(data))]
    stack = StackingClassifier(parts, cv="prefit").fit(data.X, data.y)
    assert stack.score(data.X_test, data.y_test) > 0.9


@linear_and_ensemble
def test_members_out_of_a_fitted_vote_are_refused_by_where_they_are_from(listed):
    """They know numbers where the rows have texts; the vote itself is a member."""
    data = federated("overlapping", strings=True)
    vote = VotingClassifier([("own", LogisticRegression(C=0.1))]).fit(data.X, data.y)
    with pytest.raises(ValueError, match="in the estimators_ of a VotingClassifier"):
        listed.make(vote.estimators_).fit(data.X, data.y)
    aggregate = EnsembleAggregator([vote]).fit(data.X, data.y)
    assert aggregate.score(data.X, data.y) > 0.9


@linear_and_ensemble
def test_rows_with_labels_that_no_member_knows_are_not_taken_for_a_vote(listed):
    data = federated("overlapping", strings=True)
    if listed.keeps_locals:
        vote = VotingClassifier([("own", LogisticRegression(C=0.1))])
        members = [vote.fit(data.X, data.y)]
    else:
        members = [("own", local_model(data))]
    with pytest.raises(ValueError, match=r"was fitted on them\.$"):
        listed.make(members).fit(data.X, np.char.add(data.y, "s"))


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
    converted = listed.make(locals_)
    converted.fit(convert(data.X), data.y, nodes=data.nodes)
    assert_same_model(straight, converted, data.X_test, rtol=1e-6, atol=listed.atol)
    np.testing.assert_array_equal(
        converted.predict(convert(data.X_test)), straight.predict(data.X_test)
    )


@pytest.mark.filterwarnings("ignore:Rounding errors prevent the line search")
@pytest.mark.filterwarnings("ignore:Line Search failed")
@pytest.mark.filterwarnings("ignore:The line search algorithm")
@pytest.mark.filterwarnings("ignore:newton-cg failed to converge")
@every_estimator
@every_kind
def test_float32_is_close_to_float64(listed, kind):
    data = federated(kind)
    if kind == "single":  # which are simulated
        estimators = [listed.local] * 3
    else:
        estimators = data.fitted(listed.local)
    double = listed.make(estimators).fit(data.X, data.y, nodes=data.nodes)
    single = listed.make(estimators)
    single.fit(data.X.astype(np.float32), data.y, nodes=data.nodes)
    np.testing.assert_allclose(
        single.predict_proba(data.X_test),
        double.predict_proba(data.X_test),
        atol=2e-3,
    )


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
    # The first node has two columns the other way round.
    columns_of_nodes = [columns[[1, 0, 2, 3, 4, 5]], columns, columns]
    named = [
        (name, clone(listed.local).fit(pandas.DataFrame(X, columns=node_columns), y))
        for name, (X, y), node_columns in zip(
            data.names, data.local_rows, columns_of_nodes, strict=True
        )
    ]
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
