# SPDX-License-Identifier: BSD-3-Clause
"""What does not matter to any public aggregator: orders, names, types, layouts."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.estimators import LABELS, LISTED, federated
from helpers.every_estimator import (
    SLOW_TO_FIT,
    assert_same_model,
    every_estimator,
    every_estimator_on,
    every_reading,
    fit,
    fit_simulated,
    slow_where,
)
from helpers.labels import are_decided, assert_same_labels
from scipy import sparse
from sklearn.base import clone
from sklearn.ensemble import StackingClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression

from skgems import (
    DistillationAggregator,
    EnsembleAggregator,
    GEMSLogisticAggregator,
    GEMSMLPAggregator,
    ModelAveragingAggregator,
    PFNMAggregator,
)

# ---- invariances --------------------------------------------------------------


def rounding_of(kind):
    """How far rounding moves probabilities, relative to them.

    Where nodes have one class no model says how the classes lie to each other, so that
    the likelihood is flat, and its maximum is moved farther.
    """
    return 1e-4 if kind == "single" else 1e-6


# Nodes that share some classes go the way of those that share none; those of
# test_contract.py are of the former kind.
@every_estimator_on("disjoint", "binary", "single")
def test_order_of_nodes_does_not_matter(listed, kind):
    dataset = federated(kind)
    if kind == "single":
        locals_ = fit_simulated(listed, dataset).estimators_
    else:
        locals_ = dataset.fitted(listed.local)
    order = [2, 0, 1]
    reordered = listed.make([(dataset.names[k], locals_[k]) for k in order])
    reordered.fit(dataset.X, dataset.y, nodes=np.array(dataset.names)[dataset.nodes])
    straight = listed.make(list(zip(dataset.names, locals_, strict=True)))
    straight.fit(dataset.X, dataset.y, nodes=dataset.nodes)
    assert reordered.node_names_ == [dataset.names[k] for k in order]
    rtol = rounding_of(kind)
    assert_same_model(straight, reordered, dataset.X_test, rtol=rtol, atol=listed.atol)


@every_estimator_on("overlapping", "binary", "single")
def test_order_of_rows_does_not_matter(listed, kind):
    if kind == "single" and not listed.recovers:
        pytest.skip("nodes of one label make ties, which no model can be fitted to")
    dataset = federated(kind)
    if kind == "single":
        locals_ = fit_simulated(listed, dataset).estimators_
    else:
        locals_ = dataset.fitted(listed.local)
    order = np.random.RandomState(1).permutation(len(dataset.y))
    shuffled = listed.make(locals_)
    shuffled.fit(dataset.X[order], dataset.y[order], nodes=dataset.nodes[order])
    straight = fit(listed, dataset, locals_)
    rtol = rounding_of(kind)
    assert_same_model(straight, shuffled, dataset.X_test, rtol=rtol, atol=listed.atol)


@every_estimator_on("overlapping", "disjoint", "binary", "single")
def test_renaming_labels_in_their_order_renames_predictions(listed, kind):
    dataset = federated(kind)
    make = fit_simulated if kind == "single" else fit
    of_numbers = make(listed, dataset)
    of_strings = make(listed, federated(kind, strings=True))
    np.testing.assert_array_equal(LABELS[of_numbers.classes_], of_strings.classes_)
    rows = are_decided(of_numbers, dataset.X_test)
    np.testing.assert_array_equal(
        LABELS[of_numbers.predict(dataset.X_test)][rows],
        of_strings.predict(dataset.X_test)[rows],
    )
    np.testing.assert_allclose(
        of_numbers.predict_proba(dataset.X_test),
        of_strings.predict_proba(dataset.X_test),
    )


@every_estimator
@pytest.mark.parametrize("kind", ["overlapping", "binary"])
def test_renaming_labels_in_another_order_renames_predictions(listed, kind):
    if not listed.convex:
        pytest.skip("local estimators find another model for another order")
    dataset = federated(kind)
    new_labels = np.array([40, 10, 50, 0, 20, 30])[: dataset.y.max() + 1]
    renamed = listed.make(
        [
            clone(listed.local).fit(X_local, new_labels[y_local])
            for X_local, y_local in dataset.local_rows
        ]
    )
    renamed.fit(dataset.X, new_labels[dataset.y], nodes=dataset.nodes)
    straight = fit(listed, dataset)
    proba = renamed.predict_proba(dataset.X_test)
    proba = proba[:, np.searchsorted(renamed.classes_, new_labels)]
    # Local solvers meet their tolerance elsewhere, directions are drawn anew, and
    # expectations are taken over points whose axes are those of the classes' order.
    expected = straight.predict_proba(dataset.X_test)
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


# Every aggregator keeps dtypes whose width counts, and two outputs in place of three;
# what makes linear models of the labels, and networks, all others, too.
FEW_DTYPES = ["texts of other widths", "truth values"]
KEPT_DTYPES = [
    pytest.param(listed, dtype, id=f"{listed!r}-{dtype}")
    for listed in LISTED
    for dtype in LABELS_BY_DTYPE
    if dtype in FEW_DTYPES or listed.kind in (ModelAveragingAggregator, PFNMAggregator)
]


@pytest.mark.parametrize(("listed", "dtype"), KEPT_DTYPES)
def test_classes_and_predictions_have_the_dtype_of_the_labels(listed, dtype):
    labels = LABELS_BY_DTYPE[dtype]
    dataset = federated("binary" if len(labels) == 2 else "overlapping")
    y = labels[dataset.y]
    members = [
        clone(listed.local).fit(X_local, labels[y_local])
        for X_local, y_local in dataset.local_rows
    ]
    aggregate = listed.make(members).fit(dataset.X, y, nodes=dataset.nodes)
    predictions = aggregate.predict(dataset.X_test)
    assert aggregate.classes_.dtype == labels.dtype
    assert predictions.dtype == labels.dtype
    np.testing.assert_array_equal(aggregate.classes_, np.unique(y))
    # Far better than chance, for all methods: labels have not been mixed up.
    assert aggregate.score(dataset.X_test, labels[dataset.y_test]) > 0.3
    # A student that is exported is as it was trained, with dtypes of its own.
    if listed.exported is not None and listed.kind is not DistillationAggregator:
        exported = listed.exported(aggregate)
        assert exported.predict(dataset.X_test).dtype == labels.dtype
        assert_same_labels(aggregate, exported, dataset.X_test)


@pytest.mark.parametrize(("listed", "dtype"), KEPT_DTYPES)
def test_classes_of_summaries_have_the_kind_of_the_labels(listed, dtype):
    if not hasattr(listed.kind, "summarize") or listed.kind is GEMSMLPAggregator:
        pytest.skip("it has no summaries, or asks for more than they hold")
    labels = LABELS_BY_DTYPE[dtype]
    dataset = federated("binary" if len(labels) == 2 else "overlapping")
    aggregator = listed.make()
    summaries = [
        aggregator.summarize(
            clone(listed.local).fit(X_local, labels[y_local]),
            X_local,
            labels[y_local],
            name=name,
            disclosure=None,
        )
        for name, (X_local, y_local) in zip(
            dataset.names, dataset.local_rows, strict=True
        )
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


def local_model(dataset):
    """A model that is none of the nodes', fitted to all their rows."""
    return clone(LogisticRegression(C=0.1)).fit(dataset.X, dataset.y)


@linear_and_ensemble
def test_a_vote_around_an_aggregate_is_told_to_be_a_prefit_stack(listed):
    """scikit-learn's VotingClassifier fits its members to numbers for labels."""
    dataset = federated("overlapping", strings=True)
    aggregate = fit(listed, dataset)
    vote = VotingClassifier([("all", aggregate), ("own", LogisticRegression(C=0.1))])
    with pytest.raises(ValueError, match=r"StackingClassifier\(cv='prefit'\)"):
        vote.fit(dataset.X, dataset.y)
    parts = [("all", aggregate), ("own", local_model(dataset))]
    stack = StackingClassifier(parts, cv="prefit").fit(dataset.X, dataset.y)
    assert stack.score(dataset.X_test, dataset.y_test) > 0.9


@linear_and_ensemble
def test_members_out_of_a_fitted_vote_are_refused_by_where_they_are_from(listed):
    """They know numbers where the rows have texts; the vote itself is a member."""
    dataset = federated("overlapping", strings=True)
    vote = VotingClassifier([("own", LogisticRegression(C=0.1))]).fit(
        dataset.X, dataset.y
    )
    with pytest.raises(ValueError, match="in the estimators_ of a VotingClassifier"):
        listed.make(vote.estimators_).fit(dataset.X, dataset.y)
    aggregate = EnsembleAggregator([vote]).fit(dataset.X, dataset.y)
    assert aggregate.score(dataset.X, dataset.y) > 0.9


@linear_and_ensemble
def test_rows_with_labels_that_no_member_knows_are_not_taken_for_a_vote(listed):
    dataset = federated("overlapping", strings=True)
    if listed.keeps_locals:
        vote = VotingClassifier([("own", LogisticRegression(C=0.1))])
        members = [vote.fit(dataset.X, dataset.y)]
    else:
        members = [("own", local_model(dataset))]
    with pytest.raises(ValueError, match=r"was fitted on them\.$"):
        listed.make(members).fit(dataset.X, np.char.add(dataset.y, "s"))


LAYOUTS = {
    "fortran": np.asfortranarray,
    "strided": lambda X: np.repeat(X, 2, axis=0)[::2],
    "csr": sparse.csr_matrix,
    "csc": sparse.csc_array,
    "coo": sparse.coo_matrix,
    "list": lambda X: X.tolist(),
}
# Every aggregator has rows that cannot be sliced, and rows that lie otherwise. All
# others are made one of these before it sees them: one aggregator has them.
LAYOUTS_OF_ROWS = [
    pytest.param(
        listed,
        layout,
        id=f"{listed!r}-{layout}",
        marks=slow_where(layout == "fortran" and listed.kind in SLOW_TO_FIT),
    )
    for listed in LISTED
    for layout in LAYOUTS
    if layout in ("coo", "fortran") or listed.kind is EnsembleAggregator
]


@pytest.mark.parametrize(("listed", "layout"), LAYOUTS_OF_ROWS)
def test_layout_of_rows_does_not_matter(listed, layout):
    convert = LAYOUTS[layout]
    dataset = federated("overlapping")
    locals_ = dataset.fitted(listed.local)
    straight = fit(listed, dataset, locals_)
    converted = listed.make(locals_)
    converted.fit(convert(dataset.X), dataset.y, nodes=dataset.nodes)
    assert_same_model(straight, converted, dataset.X_test, rtol=1e-6, atol=listed.atol)
    X = dataset.X_test
    assert_same_labels(straight, converted, X, X_of_second=convert(X))


@pytest.mark.filterwarnings("ignore:Rounding errors prevent the line search")
@pytest.mark.filterwarnings("ignore:Line Search failed")
@pytest.mark.filterwarnings("ignore:The line search algorithm")
@pytest.mark.filterwarnings("ignore:newton-cg failed to converge")
@every_estimator_on("overlapping", "binary", "single")
def test_float32_is_close_to_float64(listed, kind):
    dataset = federated(kind)
    if kind == "single":  # which are simulated
        estimators = [listed.local] * 3
    else:
        estimators = dataset.fitted(listed.local)
    double = listed.make(estimators).fit(dataset.X, dataset.y, nodes=dataset.nodes)
    single = listed.make(estimators)
    single.fit(dataset.X.astype(np.float32), dataset.y, nodes=dataset.nodes)
    np.testing.assert_allclose(
        single.predict_proba(dataset.X_test),
        double.predict_proba(dataset.X_test),
        atol=2e-3,
    )


@every_reading
def test_integer_rows_are_read_as_numbers(listed):
    dataset = federated()
    locals_ = dataset.fitted(listed.local)
    X = np.round(dataset.X).astype(int)
    assert_same_model(
        listed.make(locals_).fit(X, dataset.y),
        listed.make(locals_).fit(X.astype(float), dataset.y),
        dataset.X_test,
    )


# ---- data frames --------------------------------------------------------------


@every_reading
def test_data_frames_bring_feature_names(listed):
    pandas = pytest.importorskip("pandas")
    dataset = federated("overlapping")
    columns = [f"x{j}" for j in range(dataset.X.shape[1])]
    frame = pandas.DataFrame(dataset.X, columns=columns)
    test = pandas.DataFrame(dataset.X_test, columns=columns)
    locals_ = [
        clone(listed.local).fit(pandas.DataFrame(X, columns=columns), y)
        for X, y in dataset.local_rows
    ]
    nodes = pandas.Series(dataset.nodes, index=frame.index[::-1])
    aggregate = listed.make(locals_)
    aggregate.fit(frame, pandas.Series(dataset.y, name="label"), nodes=nodes)
    np.testing.assert_array_equal(aggregate.feature_names_in_, columns)
    expected = fit(listed, dataset).predict_proba(dataset.X_test)
    np.testing.assert_allclose(aggregate.predict_proba(test), expected)
    with pytest.raises(ValueError, match="feature names should match"):
        aggregate.predict(test.rename(columns={"x1": "height"}))
    with pytest.raises(ValueError, match="feature names should match"):
        aggregate.predict(test[columns[::-1]])


@every_reading
def test_feature_names_of_nodes_must_agree(listed):
    pandas = pytest.importorskip("pandas")
    dataset = federated("overlapping")
    columns = np.array([f"x{j}" for j in range(dataset.X.shape[1])])
    # The first node has two columns the other way round.
    columns_of_nodes = [columns[[1, 0, 2, 3, 4, 5]], columns, columns]
    named = [
        (name, clone(listed.local).fit(pandas.DataFrame(X, columns=node_columns), y))
        for name, (X, y), node_columns in zip(
            dataset.names, dataset.local_rows, columns_of_nodes, strict=True
        )
    ]
    frame = pandas.DataFrame(dataset.X, columns=columns)
    with pytest.raises(ValueError, match=r"'north' was fitted on features \['x1', 'x0"):
        listed.make(named).fit(frame, dataset.y, nodes=dataset.nodes)
    # Rows without names cannot settle it: the nodes must agree by themselves.
    with pytest.raises(ValueError, match="'east' was fitted on features"):
        listed.make(named).fit(dataset.X, dataset.y, nodes=dataset.nodes)


@every_reading
def test_names_on_one_side_only_are_no_conflict(listed):
    pandas = pytest.importorskip("pandas")
    dataset = federated("overlapping")
    columns = [f"x{j}" for j in range(dataset.X.shape[1])]
    frame = pandas.DataFrame(dataset.X, columns=columns)
    plain = dataset.fitted(listed.local)
    named = [
        clone(listed.local).fit(pandas.DataFrame(X, columns=columns), y)
        for X, y in dataset.local_rows
    ]
    assert_same_model(
        listed.make(named).fit(dataset.X, dataset.y, nodes=dataset.nodes),
        fit(listed, dataset, plain),
        dataset.X_test,
    )
    on_frame = listed.make(plain).fit(frame, dataset.y, nodes=dataset.nodes)
    np.testing.assert_array_equal(on_frame.feature_names_in_, columns)
