# SPDX-License-Identifier: BSD-3-Clause
"""GEMSLogisticAggregator: what it reads, how it weighs nodes, what it predicts."""

from __future__ import annotations

import joblib
import numpy as np
import pytest
from helpers.estimators import federated
from helpers.logistic import (
    LOCAL,
    aggregate_of,
    consensus_of,
    fit,
    fit_consensus,
    weights_of,
)
from sklearn.base import clone
from sklearn.datasets import load_digits
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
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV, train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import LinearSVC

from skgems.asking import read_federation

# ---- kinds of local estimators ------------------------------------------------


KINDS = {
    "logistic": LogisticRegression(),
    "liblinear": LogisticRegression(solver="liblinear", C=0.1),
    "logistic cv": LogisticRegressionCV(Cs=3, cv=2),
    "sgd hinge": SGDClassifier(random_state=0),
    "sgd logistic": SGDClassifier(loss="log_loss", random_state=0),
    "ridge": RidgeClassifier(),
    "ridge cv": RidgeClassifierCV(),
    "linear svc": LinearSVC(),
    "perceptron": Perceptron(random_state=0),
    "lda": LinearDiscriminantAnalysis(),
    "mlp without hidden layers": MLPClassifier(
        (), max_iter=50, learning_rate_init=0.1, random_state=0
    ),
    "pipeline": make_pipeline(StandardScaler(), MinMaxScaler(), LogisticRegression()),
    "search": GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2),
    "search over a pipeline": RandomizedSearchCV(
        make_pipeline(StandardScaler(), RidgeClassifier()),
        {"ridgeclassifier__alpha": [0.1, 1.0]},
        n_iter=2,
        cv=2,
        random_state=0,
    ),
    "pipeline around a search": make_pipeline(
        StandardScaler(), GridSearchCV(LinearSVC(), {"C": [0.1, 1.0]}, cv=2)
    ),
}

# What is read of these, others have, too.
SLOW = ["logistic cv", "ridge cv", "perceptron", "search over a pipeline"]


def centered(scores):
    if scores.ndim == 1:
        return scores
    return scores - scores.mean(axis=1, keepdims=True)


@pytest.mark.parametrize(
    ("kind", "holding"),
    [
        # All but liblinear, which is for two classes only.
        *[(kind, "overlapping") for kind in KINDS if kind not in ("liblinear", *SLOW)],
        *(pytest.param(kind, "overlapping", marks=pytest.mark.slow) for kind in SLOW),
        *[(kind, "binary") for kind in ("liblinear", "linear svc", "lda", "search")],
        *[("mlp without hidden layers", "binary"), ("pipeline", "binary")],
    ],
)
# Of the local estimators' own fits: new defaults to come, steps that were too few.
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_linear_classifier_of_any_kind_is_a_node(kind, holding):
    dataset = federated(holding)
    locals_ = dataset.fitted(LOCAL)
    locals_[1] = clone(KINDS[kind]).fit(*dataset.local_rows[1])
    aggregate = aggregate_of(locals_).fit(dataset.X, dataset.y, nodes=dataset.nodes)
    assert aggregate.score(dataset.X_test, dataset.y_test) > 0.85
    is_known = np.isin(dataset.y, locals_[1].classes_) & (dataset.nodes == 1)
    alone = consensus_of([FrozenEstimator(locals_[1])])
    alone.fit(dataset.X[is_known], dataset.y[is_known])
    np.testing.assert_allclose(
        centered(alone.decision_function(dataset.X_test)),
        centered(locals_[1].decision_function(dataset.X_test))
        if hasattr(locals_[1], "decision_function")
        else centered(_mlp_scores(locals_[1], dataset.X_test)),
        atol=1e-8,
    )


def _mlp_scores(mlp, X):
    scores = X @ mlp.coefs_[0] + mlp.intercepts_[0]
    return scores[:, 0] if scores.shape[1] == 1 else scores


def test_five_kinds_on_digits_become_one_good_model():
    X, y = load_digits(return_X_y=True)
    X = X / 16
    X_local, X_rest, y_local, y_rest = train_test_split(
        X, y, train_size=0.5, stratify=y, random_state=0
    )
    X_val, X_test, y_val, y_test = train_test_split(
        X_rest, y_rest, train_size=0.5, stratify=y_rest, random_state=0
    )
    kinds = [
        LogisticRegression(C=100, max_iter=1000),
        LogisticRegression(C=1e-3),
        LinearSVC(),
        RidgeClassifier(),
        make_pipeline(StandardScaler(), LinearDiscriminantAnalysis()),
    ]
    locals_ = [
        kind.fit(X_local[y_local // 2 == k], y_local[y_local // 2 == k])
        for k, kind in enumerate(kinds)
    ]
    aggregate = aggregate_of(locals_).fit(X_val, y_val)
    assert aggregate.score(X_test, y_test) > 0.85


@pytest.mark.parametrize(
    ("geometry", "construction", "criterion", "intersection"),
    [
        ("gram", "sampled", "accuracy", "likelihood"),
        ("gram", "certified", "accuracy", "consensus"),
        ("gram", "sampled", "log_loss", "consensus"),
        ("ellipsoid", "certified", "log_loss", "consensus"),
        ("ball", "sampled", "accuracy", "consensus"),
    ],
)
def test_constant_nodes(geometry, construction, criterion, intersection):
    dataset = federated("disjoint")
    locals_ = dataset.fitted(LOCAL)
    constant = DummyClassifier(strategy="constant", constant=6)
    X_more = dataset.X[:40] + 20.0
    locals_.append(constant.fit(X_more, np.full(40, 6)))
    aggregate = aggregate_of(
        locals_,
        geometry=geometry,
        construction=construction,
        criterion=criterion,
        intersection=intersection,
        on_empty="ignore",
    )
    aggregate.fit(
        np.vstack([dataset.X, X_more]),
        np.append(dataset.y, np.full(40, 6)),
        nodes=np.append(dataset.nodes, np.full(40, 3)),
    )
    np.testing.assert_array_equal(aggregate.classes_, np.arange(7))
    assert np.isfinite(weights_of(aggregate)).all()
    if geometry == "gram" and criterion == "accuracy":
        # It alone knows rows that lie elsewhere.
        assert np.mean(aggregate.predict(dataset.X_test + 20.0) == 6) > 0.9


def test_nodes_that_are_all_constant():
    X = np.repeat(np.eye(3), 20, axis=0)
    X += 0.1 * np.random.RandomState(0).standard_normal(X.shape)
    y = np.repeat(["a", "b", "c"], 20)
    locals_ = [DummyClassifier().fit(X[y == c], y[y == c]) for c in "abc"]
    assert aggregate_of(locals_).fit(X, y).score(X, y) == 1.0


def test_an_aggregate_is_a_node():
    dataset = federated("disjoint")
    locals_ = dataset.fitted(LOCAL)
    region = dataset.nodes < 2
    first = aggregate_of(locals_[:2]).fit(
        dataset.X[region], dataset.y[region], nodes=dataset.nodes[region]
    )
    second = aggregate_of([first, locals_[2]])
    second.fit(dataset.X, dataset.y, nodes=(dataset.nodes == 2).astype(int))
    assert second.score(dataset.X_test, dataset.y_test) > 0.8
    assert clone(second).estimators[0] is first


@pytest.fixture
def skorch_net():
    torch = pytest.importorskip("torch")
    skorch = pytest.importorskip("skorch")

    def make(X, y, n_outputs, **parameters):
        torch.manual_seed(0)
        net = skorch.NeuralNetClassifier(
            torch.nn.Linear,
            module__in_features=X.shape[1],
            module__out_features=n_outputs,
            criterion=torch.nn.CrossEntropyLoss,
            max_epochs=20,
            lr=0.1,
            train_split=None,
            verbose=0,
            **parameters,
        )
        return net.fit(X.astype(np.float32), y.astype(np.int64))

    return make


def test_skorch_nets_of_one_linear_layer(skorch_net):
    dataset = federated("disjoint")
    # Six outputs, of which each net has seen two.
    nets = [skorch_net(X, y, 6) for X, y in dataset.local_rows]
    before = [joblib.hash(net.module_.state_dict()) for net in nets]
    aggregate = aggregate_of(nets).fit(dataset.X, dataset.y)
    np.testing.assert_array_equal(aggregate.classes_, np.arange(6))
    assert aggregate.score(dataset.X_test, dataset.y_test) > 0.85
    copy = clone(aggregate)
    assert all(a is b for a, b in zip(copy.estimators, nets, strict=True))
    assert [joblib.hash(net.module_.state_dict()) for net in nets] == before
    # float32 rows, as the nets had.
    again = copy.fit(dataset.X.astype(np.float32), dataset.y)
    np.testing.assert_allclose(again.coef_, aggregate.coef_, atol=1e-3)


def test_skorch_and_scikit_learn_nodes_mix(skorch_net):
    dataset = federated("disjoint")
    locals_ = dataset.fitted(LOCAL)
    locals_[0] = skorch_net(*dataset.local_rows[0], 2)
    aggregate = aggregate_of(locals_).fit(dataset.X, dataset.y)
    assert aggregate.score(dataset.X_test, dataset.y_test) > 0.85


def test_skorch_net_with_hidden_layers_is_refused(skorch_net):
    torch = pytest.importorskip("torch")
    dataset = federated("binary")
    net = skorch_net(*dataset.local_rows[0], 2)
    net.module_ = torch.nn.Sequential(
        torch.nn.Linear(6, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2)
    )
    with pytest.raises(TypeError, match="'0' is a network with 1 hidden layers"):
        aggregate_of([net]).fit(dataset.X, dataset.y)


# ---- weights of nodes ---------------------------------------------------------


def test_heavier_nodes_are_moved_less():
    dataset = federated("disjoint")
    distances = [
        fit_consensus(dataset, epsilon=0.0, node_weight=[weight, 1, 1]).node_scores_[
            "distance"
        ][0]
        for weight in (0.01, 1, 100)
    ]
    assert distances[0] > distances[1] > distances[2]
    equal, tens = (
        fit_consensus(dataset),
        fit_consensus(dataset, node_weight=[10, 10, 10]),
    )
    np.testing.assert_allclose(weights_of(tens), weights_of(equal))


def test_nodes_weighed_by_their_rows():
    dataset = federated("overlapping")
    kept_rows = np.flatnonzero(
        (dataset.nodes != 1) | (np.arange(len(dataset.y)) % 3 == 0)
    )
    X, y, nodes = dataset.X[kept_rows], dataset.y[kept_rows], dataset.nodes[kept_rows]
    locals_ = dataset.fitted(LOCAL)
    by_rows = consensus_of(locals_, node_weight="n_samples").fit(X, y, nodes=nodes)
    by_counts = consensus_of(locals_, node_weight=np.bincount(nodes))
    by_counts.fit(X, y, nodes=nodes)
    equal = consensus_of(locals_).fit(X, y, nodes=nodes)
    np.testing.assert_array_equal(weights_of(by_rows), weights_of(by_counts))
    assert not np.allclose(weights_of(by_rows), weights_of(equal), rtol=1e-3)


# ---- probabilities ------------------------------------------------------------


@pytest.mark.parametrize(
    ("intersection", "geometry", "kind"),
    [
        *[("likelihood", "gram", "disjoint"), ("likelihood", "gram", "binary")],
        *[("consensus", "gram", "overlapping"), ("consensus", "ball", "disjoint")],
        ("consensus", "ellipsoid", "binary"),
    ],
)
def test_confidence_is_close_to_accuracy(intersection, geometry, kind):
    dataset = federated(kind)
    aggregate = fit(dataset, intersection=intersection, geometry=geometry)
    confidence = aggregate.predict_proba(dataset.X_test).max(axis=1).mean()
    accuracy = aggregate.score(dataset.X_test, dataset.y_test)
    assert abs(confidence - accuracy) < (0.1 if geometry == "gram" else 0.15)


@pytest.mark.parametrize("intersection", ["likelihood", "consensus"])
def test_confidence_on_digits(intersection):
    X, y = load_digits(return_X_y=True)
    X = X / 16
    part = np.random.RandomState(0).permutation(len(y)) % 3
    train, val, test = (part == k for k in range(3))
    locals_ = [
        LogisticRegression().fit(X[train & (y // 2 == k)], y[train & (y // 2 == k)])
        for k in range(5)
    ]
    aggregate = aggregate_of(locals_, intersection=intersection).fit(X[val], y[val])
    confidence = aggregate.predict_proba(X[test]).max(axis=1).mean()
    accuracy = aggregate.score(X[test], y[test])
    assert accuracy > 0.88
    assert abs(confidence - accuracy) < 0.1


# ---- the rows of nodes --------------------------------------------------------


def test_nodes_may_be_written_in_many_ways():
    pandas = pytest.importorskip("pandas")
    dataset = federated("overlapping")
    named = dataset.named(LOCAL)
    index = np.where(np.arange(len(dataset.y)) % 6 == 0, -1, dataset.nodes)
    names = np.array([*dataset.names, "public"])[index]
    forms = [
        index,
        index.astype(np.int8),
        index.astype(float),
        index.tolist(),
        index[:, None],
        names,
        names.astype(object),
        names.tolist(),
        tuple(names),
        [dataset.names[k] if k >= 0 else -1 for k in index],
        [dataset.names[k] if k >= 0 else -1.0 for k in index],
        [k if k != 1 else "east" for k in index],
        np.array([dataset.names[k] if k >= 0 else -1 for k in index], dtype=object),
        pandas.Series(index),
        pandas.Series(names),
        pandas.Series(names, dtype="category"),
        pandas.Series(names, dtype="string"),
        pandas.Series(index, index=np.arange(len(index))[::-1]),
    ]
    aggregator = aggregate_of(named)
    for nodes in forms:
        federation = read_federation(aggregator, dataset.X, dataset.y, nodes)
        assert [node.name for node in federation.nodes] == dataset.names
        for k, node in enumerate(federation.nodes):
            expected = np.flatnonzero(index == k)
            for rows in (node.judging_rows, node.moment_rows, node.training_rows):
                np.testing.assert_array_equal(rows, expected)
        np.testing.assert_array_equal(federation.public_rows, np.flatnonzero(index < 0))


def test_nodes_without_names_are_called_by_their_index():
    dataset = federated("overlapping")
    locals_ = dataset.fitted(LOCAL)
    by_index = aggregate_of(locals_).fit(dataset.X, dataset.y, nodes=dataset.nodes)
    assert by_index.node_names_ == ["0", "1", "2"]
    by_name = aggregate_of(locals_)
    by_name.fit(dataset.X, dataset.y, nodes=dataset.nodes.astype(str))
    np.testing.assert_array_equal(weights_of(by_name), weights_of(by_index))


def test_names_of_nodes_name_the_simulated_ones():
    dataset = federated("disjoint")
    names = np.array(dataset.names)[dataset.nodes]
    aggregate = aggregate_of(None).fit(dataset.X, dataset.y, nodes=names)
    assert aggregate.node_names_ == sorted(dataset.names)
    assert [list(local.classes_) for local in aggregate.estimators_] == [
        [2, 3],
        [0, 1],
        [4, 5],
    ]
    assert aggregate.score(dataset.X_test, dataset.y_test) > 0.85


def test_simulation_without_nodes_deals_every_class_to_every_node():
    dataset = federated("homogeneous")
    aggregate = aggregate_of([LOCAL] * 4).fit(dataset.X, dataset.y)
    assert len(aggregate.estimators_) == 4
    for local in aggregate.estimators_:
        np.testing.assert_array_equal(local.classes_, [0, 1, 2])
    one = consensus_of(LOCAL, validation_fraction=0.0).fit(dataset.X, dataset.y)
    expected = clone(LOCAL).fit(dataset.X, dataset.y)
    np.testing.assert_allclose(one.coef_, expected.coef_)


def test_simulated_nodes_are_judged_on_rows_held_out():
    dataset = federated("disjoint")
    owned = np.bincount(dataset.nodes)
    for fraction in (0.25, 0.5):
        aggregate = aggregate_of(None, validation_fraction=fraction)
        aggregate.fit(dataset.X, dataset.y, nodes=dataset.nodes)
        judging = np.array(aggregate.node_scores_["n_rows"])
        # Of each of two classes, rounded down.
        assert np.all(np.abs(judging - fraction * owned) <= 2)
    # Nothing held out: the same rows serve for both.
    aggregate = aggregate_of(None, validation_fraction=0.0)
    aggregate.fit(dataset.X, dataset.y, nodes=dataset.nodes)
    assert aggregate.node_scores_["n_rows"] == owned.tolist()


def test_simulated_node_of_one_class_is_constant():
    dataset = federated("single")
    aggregate = aggregate_of([LOCAL] * 3).fit(dataset.X, dataset.y, nodes=dataset.nodes)
    assert isinstance(aggregate.estimators_[0], DummyClassifier)
    assert isinstance(aggregate.estimators_[2], LogisticRegression)
    assert aggregate.score(dataset.X_test, dataset.y_test) > 0.85


def test_rows_of_classes_that_their_node_does_not_know():
    """A node may own rows it cannot judge: they are not counted against it."""
    dataset = federated("disjoint")
    nodes = dataset.nodes.copy()
    nodes[np.flatnonzero(nodes == 1)[::4]] = 0
    aggregate = aggregate_of(dataset.named(LOCAL)).fit(
        dataset.X, dataset.y, nodes=nodes
    )
    assert aggregate.score(dataset.X_test, dataset.y_test) > 0.8
