# SPDX-License-Identifier: BSD-3-Clause
"""What GEMSLogisticAggregator refuses, and the messages that say why."""

from __future__ import annotations

import re

import numpy as np
import pytest
from helpers.estimators import federated
from helpers.logistic import (
    CONSTRUCTIONS,
    GEOMETRIES,
    LOCAL,
    aggregate_of,
    consensus_of,
    fit,
    nodes_with_public_rows,
)
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    PolynomialFeatures,
    QuantileTransformer,
    StandardScaler,
)
from sklearn.svm import SVC

from skgems.spaces import Gram


def test_fitted_and_unfitted_mixed():
    dataset = federated()
    named = dataset.named(LOCAL)
    named[1] = ("east", clone(LOCAL))
    with pytest.raises(ValueError, match="mixes fitted and unfitted") as error:
        aggregate_of(named).fit(dataset.X, dataset.y)
    assert "['north', 'south'] are fitted, nodes ['east'] are not" in str(error.value)


def test_feature_counts_that_differ_between_nodes():
    dataset = federated("overlapping")
    X, y = dataset.local_rows[1]
    named = dataset.named(LOCAL)
    named[1] = ("east", clone(LOCAL).fit(X[:, :4], y))
    with pytest.raises(ValueError, match="different numbers of features") as error:
        aggregate_of(named).fit(dataset.X, dataset.y)
    assert "{'north': 6, 'east': 4, 'south': 6}" in str(error.value)


def test_feature_counts_that_differ_from_the_rows():
    dataset = federated()
    message = "X has 5 features, but the local estimators were fitted on 6 features"
    with pytest.raises(ValueError, match=message):
        aggregate_of(dataset.fitted(LOCAL)).fit(dataset.X[:, :5], dataset.y)


def test_node_without_rows_by_nodes():
    dataset = federated("overlapping")
    rows = dataset.nodes != 2
    with pytest.raises(ValueError, match="node 'south' has no rows: nodes never"):
        aggregate_of(dataset.named(LOCAL)).fit(
            dataset.X[rows], dataset.y[rows], nodes=dataset.nodes[rows]
        )


def test_node_without_rows_by_labels():
    dataset = federated("disjoint")
    rows = dataset.y < 4
    with pytest.raises(ValueError, match="node 'south' has no rows: y holds") as error:
        aggregate_of(dataset.named(LOCAL)).fit(dataset.X[rows], dataset.y[rows])
    assert "[4, 5]" in str(error.value)


def test_simulated_node_without_rows():
    dataset = federated("disjoint")
    nodes = np.where(dataset.nodes == 1, 3, dataset.nodes)
    with pytest.raises(ValueError, match="node '1' has no rows"):
        aggregate_of(None).fit(dataset.X, dataset.y, nodes=nodes)
    message = r"4 unfitted classifiers, one per node, but only n_samples=3 rows"
    with pytest.raises(ValueError, match=message):
        aggregate_of([LOCAL] * 4).fit(dataset.X[:3], dataset.y[:3])


def test_all_rows_public():
    dataset = federated()
    everything = np.full(len(dataset.y), -1)
    with pytest.raises(ValueError, match="node 'north' has no rows"):
        aggregate_of(dataset.named(LOCAL)).fit(dataset.X, dataset.y, nodes=everything)
    with pytest.raises(ValueError, match="marks every row as public"):
        aggregate_of(None).fit(dataset.X, dataset.y, nodes=everything)


def test_node_that_owns_no_row_it_knows():
    dataset = federated("disjoint")
    nodes = np.array([1, 0, 2])[dataset.nodes]
    with pytest.raises(ValueError, match="Node 'north': its classifier has seen none"):
        aggregate_of(dataset.named(LOCAL)).fit(dataset.X, dataset.y, nodes=nodes)


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("construction", CONSTRUCTIONS)
def test_node_that_does_not_reach_epsilon(geometry, construction):
    dataset = federated("disjoint")
    named = dataset.named(LOCAL)
    named[1] = ("east", clone(LOCAL).set_params(C=1e-9).fit(*dataset.local_rows[1]))
    named[1][1].coef_ = -named[1][1].coef_
    score = named[1][1].score(
        dataset.X[dataset.nodes == 1], dataset.y[dataset.nodes == 1]
    )
    assert score < 0.7
    aggregate = aggregate_of(
        named, epsilon=0.7, geometry=geometry, construction=construction
    ).set_params(spaces__on_empty="raise")
    with pytest.raises(
        ValueError, match="node 'east': there is no good-enough"
    ) as error:
        aggregate.fit(dataset.X, dataset.y)
    assert f"accuracy is {score:.4g} on its" in str(error.value)
    assert "epsilon is 0.7" in str(error.value)
    aggregate.set_params(spaces__criterion="log_loss", epsilon=1e-6)
    with pytest.raises(ValueError, match=r"own log_loss is \d.*1e-06"):
        aggregate.fit(dataset.X, dataset.y)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_rows_that_are_not_finite(value):
    dataset = federated()
    X = dataset.X.copy()
    X[3, 2] = value
    with pytest.raises(ValueError, match="Input X contains (NaN|infinity)"):
        aggregate_of(dataset.fitted(LOCAL)).fit(X, dataset.y)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("attribute", ["coef_", "intercept_"])
def test_weights_that_are_not_finite(attribute, value):
    dataset = federated()
    named = dataset.named(LOCAL)
    getattr(named[1][1], attribute).flat[0] = value
    with pytest.raises(ValueError, match=f"'east': {attribute} has 1 values that are"):
        aggregate_of(named).fit(dataset.X, dataset.y)


def test_unknown_names_of_nodes():
    dataset = federated()
    names = np.array(dataset.names)[dataset.nodes]
    names[:3] = "west"
    with pytest.raises(ValueError, match=r"nodes holds \['west'\]") as error:
        aggregate_of(dataset.named(LOCAL)).fit(dataset.X, dataset.y, nodes=names)
    assert "['north', 'east', 'south'], or their indices 0 to 2" in str(error.value)
    for bad in (3, -2, 0.5):
        nodes = dataset.nodes.astype(float)
        nodes[0] = bad
        with pytest.raises(ValueError, match=re.escape(f"nodes holds [{float(bad)}]")):
            aggregate_of(dataset.named(LOCAL)).fit(dataset.X, dataset.y, nodes=nodes)


def test_names_and_minus_one_in_one_array():
    dataset = federated()
    mixed = np.array([*dataset.names, -1])[np.where(dataset.y == 0, -1, dataset.nodes)]
    assert mixed.dtype.kind == "U"
    for estimators in (dataset.named(LOCAL), None):
        with pytest.raises(ValueError, match="with names, write"):
            aggregate_of(estimators).fit(dataset.X, dataset.y, nodes=mixed)


def test_nodes_of_the_wrong_length_or_shape():
    dataset = federated()
    aggregate = aggregate_of(dataset.fitted(LOCAL))
    n_rows = len(dataset.y)
    with pytest.raises(ValueError, match=f"length 3, but X has {n_rows} rows"):
        aggregate.fit(dataset.X, dataset.y, nodes=[0, 1, 2])
    for nodes in (0, "north", np.zeros((n_rows, 2)), [[0, 1]] * n_rows):
        with pytest.raises(ValueError, match="one index or name per row"):
            aggregate.fit(dataset.X, dataset.y, nodes=nodes)
    with pytest.raises(ValueError, match=r"nodes holds \[None\], which is not a node"):
        aggregate.fit(dataset.X, dataset.y, nodes=[None] * n_rows)


@pytest.mark.parametrize(
    "step", [PolynomialFeatures(2), QuantileTransformer(n_quantiles=20)]
)
def test_pipeline_that_is_not_affine(step):
    dataset = federated("overlapping")
    named = dataset.named(LOCAL)
    kind = type(step).__name__
    pipe = make_pipeline(StandardScaler(), clone(step), RidgeClassifier())
    named[1] = ("east", pipe.fit(*dataset.local_rows[1]))
    message = f"'east': step '{kind.lower()}' \\({kind}\\) .* is not affine"
    with pytest.raises(ValueError, match=message):
        aggregate_of(named).fit(dataset.X, dataset.y, nodes=dataset.nodes)


def test_regressor_in_the_list():
    dataset = federated("overlapping")
    named = dataset.named(LOCAL)
    named[2] = ("south", LinearRegression().fit(dataset.X, dataset.y))
    with pytest.raises(TypeError, match="'south': LinearRegression is a regressor"):
        aggregate_of(named).fit(dataset.X, dataset.y)
    named[2] = ("south", make_pipeline(LinearRegression()).fit(dataset.X, dataset.y))
    with pytest.raises(TypeError, match="'south': LinearRegression is a regressor"):
        aggregate_of(named).fit(dataset.X, dataset.y)


@pytest.mark.parametrize(
    ("member", "message"),
    [
        (LogisticRegression, "LogisticRegression is a class, not an instance"),
        (7, "int 7 is not a classifier"),
        (StandardScaler(), "StandardScaler is not a classifier"),
    ],
    ids=str,
)
def test_member_that_is_no_classifier(member, message):
    dataset = federated()
    named = dataset.named(LOCAL)
    named[1] = ("east", member)
    with pytest.raises(TypeError, match=f"'east': {message}"):
        aggregate_of(named).fit(dataset.X, dataset.y)
    # It is fit that complains, not clone or the constructor.
    clone(aggregate_of(named))


def test_models_that_are_not_linear():
    dataset = federated("overlapping")
    for model, message in (
        (SVC(), "'east': SVC cannot be read"),
        (SVC(kernel="linear"), "one-vs-one"),
        (
            MLPClassifier((3,), max_iter=1, random_state=0),
            "'east' is a network with 1 hidden layers",
        ),
    ):
        named = dataset.named(LOCAL)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("warnings.warn", lambda *args, **kwargs: None)
            named[1] = ("east", model.fit(*dataset.local_rows[1]))
        with pytest.raises((TypeError, ValueError), match=message):
            aggregate_of(named).fit(dataset.X, dataset.y, nodes=dataset.nodes)


@pytest.mark.parametrize("nodes", [True, False])
def test_label_that_no_node_knows(nodes):
    dataset = federated("disjoint", strings=True)
    y = dataset.y.copy()
    y[:2] = "yak"
    nodes = dataset.nodes if nodes else None
    with pytest.raises(ValueError, match=r"no node knows: \['yak'\]") as error:
        aggregate_of(dataset.fitted(LOCAL)).fit(dataset.X, y, nodes=nodes)
    assert "know the classes ['ant', 'bee', 'cat', 'dog', 'elk', 'fox']" in str(
        error.value
    )


def test_a_public_row_with_a_label_that_no_node_knows_is_an_error():
    dataset = federated("disjoint")
    nodes = nodes_with_public_rows(dataset, 10)
    y = dataset.y.copy()
    y[np.flatnonzero(nodes < 0)[0]] = 9
    with pytest.raises(ValueError, match=r"labels that no node knows: \[9\]"):
        aggregate_of(dataset.fitted(LOCAL)).fit(dataset.X, y, nodes=nodes)


def test_labels_of_another_type():
    dataset = federated("disjoint")
    with pytest.raises(ValueError, match=r"no node knows: \['0', '1'"):
        aggregate_of(dataset.fitted(LOCAL)).fit(dataset.X, dataset.y.astype(str))
    strings = federated("disjoint", strings=True)
    locals_ = [*dataset.fitted(LOCAL)[:2], strings.fitted(LOCAL)[2]]
    with pytest.raises(ValueError, match="cannot be sorted together: node '0' has"):
        aggregate_of(locals_).fit(dataset.X, dataset.y)


def test_nodes_that_share_rows_under_gram():
    dataset = federated("overlapping")
    locals_ = dataset.fitted(LOCAL)
    with pytest.warns(UserWarning, match="cannot tell their rows apart") as caught:
        aggregate_of(locals_).fit(dataset.X, dataset.y)
    assert len(caught) == 1
    assert "nodes=nodes" in str(caught[0].message)
    assert caught[0].filename == __file__
    # No reason to warn: given nodes, no shared classes, other geometries, one node.
    aggregate_of(locals_).fit(dataset.X, dataset.y, nodes=dataset.nodes)
    disjoint = federated("disjoint")
    aggregate_of(disjoint.fitted(LOCAL)).fit(disjoint.X, disjoint.y)
    aggregate_of(locals_, geometry="ball").fit(dataset.X, dataset.y)
    aggregate_of(locals_, geometry="ellipsoid").fit(dataset.X, dataset.y)
    rows = dataset.y < 3
    aggregate_of(locals_[:1]).fit(dataset.X[rows], dataset.y[rows])


@pytest.mark.parametrize(
    ("criterion", "epsilon", "message"),
    [
        (
            "accuracy",
            1.5,
            "between 0 and 1 with criterion='accuracy' of spaces, got 1.5",
        ),
        ("accuracy", -0.1, "'epsilon' parameter"),
        ("accuracy", [0.5, 0.5, 1.1], r"between 0 and 1 .* got \[0.5, 0.5, 1.1\]"),
        ("accuracy", [0.5, np.nan, 0.5], "between 0 and 1"),
        ("accuracy", [0.5, 0.5], r"shape \(2,\), but there are 3 nodes"),
        ("accuracy", [[0.5, 0.5, 0.5]], r"shape \(1, 3\), but there are 3 nodes"),
        ("accuracy", ["auto", 0.5, 0.5], "must hold a number, or one per node"),
        ("accuracy", "half", "'epsilon' parameter"),
        ("accuracy", np.nan, "'epsilon' parameter"),
        ("log_loss", [1.0, -1.0, 1.0], "between 0 and inf with criterion='log_loss'"),
    ],
)
def test_epsilon_out_of_range(criterion, epsilon, message):
    dataset = federated()
    with pytest.raises(ValueError, match=message):
        fit(dataset, criterion=criterion, epsilon=epsilon)


@pytest.mark.parametrize(
    "node_weight",
    [[1, 1], [1, 1, 0], [1, 1, -1], [1, np.nan, 1], [1, np.inf, 1], [[1, 1, 1]]],
    ids=str,
)
def test_weights_of_nodes_out_of_range(node_weight):
    with pytest.raises(ValueError, match=r"one finite positive number per node \(3\)"):
        fit(federated(), node_weight=node_weight)


def test_empty_list():
    dataset = federated()
    for empty in ([], ()):
        with pytest.raises(ValueError, match="estimators is an empty list"):
            aggregate_of(empty).fit(dataset.X, dataset.y)


def test_estimators_that_are_no_list():
    dataset = federated()
    locals_ = dataset.fitted(LOCAL)
    for wrong in (
        dict(dataset.named(LOCAL)),
        set(locals_),
        (local for local in locals_),
        np.array(locals_, dtype=object),
    ):
        kind = type(wrong).__name__
        with pytest.raises(TypeError, match=f"must be a list .* got {kind}; make a"):
            aggregate_of(wrong).fit(dataset.X, dataset.y)


def test_names_of_nodes_that_cannot_be():
    dataset = federated()
    one, two, three = dataset.fitted(LOCAL)
    for name in ("public", "a__b", "epsilon", "estimators"):
        with pytest.raises(ValueError, match=f"'{name}' cannot be the name of a node"):
            aggregate_of([(name, one), ("b", two), ("c", three)]).fit(
                dataset.X, dataset.y
            )
    with pytest.raises(ValueError, match=r"two nodes of the same name: \['a'\]"):
        aggregate_of([("a", one), ("a", two), ("c", three)]).fit(dataset.X, dataset.y)
    with pytest.raises(TypeError, match="name all of them or none"):
        aggregate_of([("a", one), two, three]).fit(dataset.X, dataset.y)


def test_frozen_estimator_that_is_not_fitted():
    dataset = federated("binary")
    with pytest.raises(NotFittedError, match="This LogisticRegression instance is not"):
        aggregate_of([FrozenEstimator(LogisticRegression())]).fit(dataset.X, dataset.y)


def test_gram_matrix_that_cannot_be_inverted_names_the_node():
    dataset = federated("disjoint")
    few_rows = np.concatenate(
        [np.flatnonzero(dataset.nodes == k)[:4] for k in range(3)]
    )
    aggregate = consensus_of(dataset.named(LOCAL), geometry=Gram(ridge=0.0))
    with pytest.raises(ValueError, match="node 'north'.*larger ridge"):
        aggregate.fit(
            dataset.X[few_rows], dataset.y[few_rows], nodes=dataset.nodes[few_rows]
        )


class Stranger(ClassifierMixin, BaseEstimator):
    """A linear classifier of the user's own."""

    def fit(self, X, y):
        logistic = LogisticRegression().fit(X, y)
        self.classes_ = logistic.classes_
        self.coef_ = logistic.coef_
        self.intercept_ = logistic.intercept_
        self.n_features_in_ = logistic.n_features_in_
        return self

    def predict(self, X):
        raise AssertionError("only weights are read")


def test_any_classifier_with_weights_is_read():
    dataset = federated("disjoint")
    aggregate = aggregate_of(dataset.fitted(Stranger())).fit(dataset.X, dataset.y)
    assert aggregate.score(dataset.X_test, dataset.y_test) > 0.85
