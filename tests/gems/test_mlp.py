# SPDX-License-Identifier: BSD-3-Clause
"""GEMSMLPAggregator: what holds for networks beyond the common checks."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from helpers.estimators import ON_FEW_UNITS, federated
from helpers.fitted import call_once
from helpers.labels import assert_same_labels
from helpers.parts import with_hidden_layers
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgems import GEMSLogisticAggregator, GEMSMLPAggregator
from skgems.gems import Moments, Spaces
from skgems.networks import read_network
from skgems.spaces import Sampled

# Last layers of few clusters and directions, which are quick.
QUICK = GEMSLogisticAggregator(moments=Moments(n_components=2))
LENIENT = GEMSLogisticAggregator(
    intersection="consensus",
    spaces=Spaces(construction=Sampled(20), on_empty="ignore"),
)
LOSS_ON_FEW_UNITS = {
    **ON_FEW_UNITS,
    "last_layer": clone(ON_FEW_UNITS["last_layer"]).set_params(
        spaces__construction=Sampled(20)
    ),
}


def network(hidden=(12,), seed=0, **parameters):
    settings = {"solver": "lbfgs", "alpha": 0.1, "max_iter": 3000, **parameters}
    return MLPClassifier(hidden, random_state=seed, **settings)


@call_once
def fitted(dataset, hidden=(12,), **parameters):
    return [
        network(hidden, seed=k, **parameters).fit(X, y)
        for k, (X, y) in enumerate(dataset.local_rows)
    ]


def aggregate(dataset, locals_, **parameters):
    parameters = {"random_state": 0, "last_layer": QUICK, **parameters}
    parameters = with_hidden_layers(parameters)
    agg = GEMSMLPAggregator(locals_, **parameters)
    return agg.fit(dataset.X, dataset.y, nodes=dataset.nodes)


def permuted(clf, layer, order):
    """The same network with the units of one hidden layer in another order."""
    other = pickle.loads(pickle.dumps(clf))
    other.coefs_[layer] = other.coefs_[layer][:, order]
    other.intercepts_[layer] = other.intercepts_[layer][order]
    other.coefs_[layer + 1] = other.coefs_[layer + 1][order]
    return other


# ---- what comes out -----------------------------------------------------------


@pytest.mark.parametrize(
    "activation",
    [
        *["relu", "tanh"],
        *(pytest.param(a, marks=pytest.mark.slow) for a in ("logistic", "identity")),
    ],
)
def test_one_network_knows_what_all_nodes_know(activation):
    dataset = federated("disjoint")
    locals_ = fitted(dataset, activation=activation)
    agg = aggregate(dataset, locals_)
    alone = max(clf.score(dataset.X_test, dataset.y_test) for clf in locals_)
    assert agg.score(dataset.X_test, dataset.y_test) > alone + 0.4
    assert agg.activation_ == (activation,)


@pytest.mark.parametrize(
    ("geometry", "depth"),
    [
        pytest.param("gram", 3, marks=pytest.mark.slow),
        *[("ellipsoid", 2), ("gram", 1), ("ball", 1)],
    ],
)
def test_the_report_of_layers_accounts_for_every_neuron(geometry, depth):
    dataset = federated("homogeneous")
    widths = [(6, 5, 4)[:depth], (8, 7, 6)[:depth], (5, 4, 5)[:depth]]
    locals_ = [
        network(width, seed=k).fit(X, y)
        for k, (width, (X, y)) in enumerate(
            zip(widths, dataset.local_rows, strict=True)
        )
    ]
    agg = aggregate(
        dataset,
        locals_,
        geometry_hidden=geometry,
        n_directions_hidden=30,
        epsilon_hidden=0.5,
        max_units=12,
        local_epochs=1,
        last_layer=clone(LENIENT).set_params(spaces__geometry=geometry),
    )
    assert len(agg.layer_report_) == depth
    for layer, report in enumerate(agg.layer_report_):
        assert report["n_units"] == agg.coefs_[layer].shape[1] <= 12
        assert_each_neuron_is_reported_once(
            report, n_neurons=[width[layer] for width in widths]
        )


def assert_each_neuron_is_reported_once(report, n_neurons):
    """Neurons of each node, of which there are so many, are in one unit or dropped."""
    assert report["n_in"] == sum(n_neurons)
    counts = [report[name] for name in ("kept", "merged", "forced", "dropped")]
    assert sum(counts) == report["n_in"]
    in_units = [neuron for unit in report["members"] for neuron in unit]
    expected = {(str(k), i) for k, n in enumerate(n_neurons) for i in range(n)}
    assert len(in_units) + len(report["dropped_neurons"]) == len(expected)
    assert {*in_units, *report["dropped_neurons"]} == expected
    assert [len(radii) for radii in report["radii"]] == n_neurons


@pytest.mark.parametrize("depth", [1, 2])
def test_equal_networks_give_their_function_back(depth):
    dataset = federated("homogeneous")
    local = network((7, 6)[:depth], activation="tanh").fit(dataset.X, dataset.y)
    agg = aggregate(dataset, [local] * 3, epsilon_hidden=1e-4, local_epochs=0)
    for report, width in zip(agg.layer_report_, (7, 6), strict=False):
        assert report["n_units"] == width and report["merged"] == 3 * width
    assert_same_labels(agg, local, dataset.X_test)
    logits = read_network(local).decision_function(dataset.X_test)
    logits -= logits.mean(axis=1, keepdims=True)
    ours = agg.decision_function(dataset.X_test)
    for class_ in range(3):
        assert np.corrcoef(ours[:, class_], logits[:, class_])[0, 1] > 0.99


@pytest.mark.filterwarnings("ignore:The good-enough spaces do not intersect")
@pytest.mark.parametrize(("epsilon_hidden", "n_clusters"), [(0.1, None), (0.6, 6)])
def test_order_of_hidden_units_does_not_matter(epsilon_hidden, n_clusters):
    dataset = federated("homogeneous")
    locals_ = fitted(dataset, hidden=(10, 8))
    rng = np.random.default_rng(0)
    shuffled = [permuted(clf, 0, rng.permutation(10)) for clf in locals_]
    shuffled = [permuted(clf, 1, rng.permutation(8)) for clf in shuffled]
    options = {
        "epsilon_hidden": epsilon_hidden,
        "n_clusters": n_clusters,
        "local_epochs": 2,
    }
    one, other = (
        aggregate(dataset, estimators, **options) for estimators in (locals_, shuffled)
    )
    np.testing.assert_allclose(
        one.predict_proba(dataset.X_test),
        other.predict_proba(dataset.X_test),
        atol=1e-5,
    )
    counts = [
        [(r["n_units"], r["merged"], r["dropped"]) for r in agg.layer_report_]
        for agg in (one, other)
    ]
    assert counts[0] == counts[1]


def test_larger_epsilon_merges_more_and_max_units_bounds():
    dataset = federated("homogeneous")
    locals_ = fitted(dataset)
    options = {"local_epochs": 0, "last_layer": LENIENT}
    units = [
        aggregate(dataset, locals_, epsilon_hidden=epsilon, **options).layer_report_[0][
            "n_units"
        ]
        for epsilon in (1e-3, 0.3, 1.0)
    ]
    assert units[0] > units[1] > units[2]
    few = aggregate(dataset, locals_, epsilon_hidden=1e-3, max_units=4, **options)
    assert few.coefs_[0].shape[1] <= 4
    many = aggregate(dataset, locals_, epsilon_hidden=1e-3, max_units=36)
    assert many.coefs_[0].shape[1] <= 36
    assert many.score(dataset.X_test, dataset.y_test) > 0.8


def test_epsilon_may_differ_by_layer():
    dataset = federated("homogeneous")
    locals_ = fitted(dataset, hidden=(8, 8))
    agg = aggregate(dataset, locals_, epsilon_hidden=[1e-4, 1.0])
    first, second = agg.layer_report_
    assert first["merged"] == 0 < second["merged"]
    with pytest.raises(ValueError, match="one per hidden layer .2., each positive"):
        aggregate(dataset, locals_, epsilon_hidden=[0.1, 0.1, 0.1])


def test_dead_neurons_are_dropped_and_named():
    dataset = federated("homogeneous")
    locals_ = fitted(dataset)
    locals_[1].intercepts_[0][[2, 5]] = -1e4
    locals_[1].coefs_[1][[2, 5]] = 0
    report = aggregate(dataset, locals_).layer_report_[0]
    assert {("1", 2), ("1", 5)} <= set(report["dropped_neurons"])
    assert all(("1", 2) not in unit for unit in report["members"])


def test_retraining_starts_at_the_nodes_own_weights_and_lowers_their_loss():
    dataset = federated("overlapping")
    locals_ = fitted(dataset, hidden=(6,))
    losses = []
    for epochs in (0, 20):
        agg = aggregate(dataset, locals_, local_epochs=epochs, **LOSS_ON_FEW_UNITS)
        losses.append(np.mean(agg.node_scores_["local"]))
    assert losses[1] < losses[0]
    # Nothing merged and nothing retrained: the nodes are what they were.
    agg = aggregate(
        dataset,
        locals_,
        epsilon_hidden=1e-6,
        max_units=None,
        local_epochs=0,
        last_layer=LENIENT,
    )
    np.testing.assert_allclose(
        agg.node_scores_["local"], scores_alone(dataset, locals_)
    )


def test_without_spaces_nodes_score_their_own_networks():
    # Nothing is retrained over the last merged layer: its moments are all that is
    # asked for, and what the nodes had alone stands beside the aggregate.
    dataset = federated("overlapping")
    locals_ = fitted(dataset, hidden=(6, 5))
    agg = aggregate(dataset, locals_, max_units=4)
    assert agg.spaces_ is None and agg.intersection_ is None
    np.testing.assert_allclose(
        agg.node_scores_["local"], scores_alone(dataset, locals_)
    )
    tasks = [entry["task"] for entry in agg.history_]
    assert tasks == ["neurons", "retrain", "neurons", "moments", "evaluate", "score"]


def test_layers_have_at_most_twice_the_units_of_the_widest_by_default():
    dataset = federated("homogeneous")
    widths = [(3, 7), (5, 2), (4, 4)]
    locals_ = [
        network(width, seed=k, activation="tanh").fit(X, y)
        for k, (width, (X, y)) in enumerate(
            zip(widths, dataset.local_rows, strict=True)
        )
    ]
    aggregates = [
        aggregate(
            dataset,
            locals_,
            epsilon_hidden=1e-6,
            max_units=most,
            local_epochs=0,
            last_layer=LENIENT,
        )
        for most in ("auto", None)
    ]
    sizes = [[len(bias) for bias in agg.intercepts_[:2]] for agg in aggregates]
    assert sizes == [[10, 13], [12, 13]]
    with pytest.raises(ValueError, match="max_units"):
        aggregate(dataset, locals_, max_units="many")


def scores_alone(dataset, locals_):
    rows = [dataset.nodes == k for k in range(3)]
    return [
        clf.score(dataset.X[r], dataset.y[r])
        for clf, r in zip(locals_, rows, strict=True)
    ]


# ---- exports, fine-tuning -----------------------------------------------------


@pytest.mark.parametrize("kind", ["disjoint", "binary"])
def test_exports_predict_the_same(kind):
    torch = pytest.importorskip("torch")
    dataset = federated(kind, strings=True)
    agg = aggregate(dataset, fitted(dataset, hidden=(9, 7)))
    proba = agg.predict_proba(dataset.X_test)
    estimator = agg.to_estimator()
    assert type(estimator) is MLPClassifier
    np.testing.assert_allclose(
        estimator.predict_proba(dataset.X_test), proba, atol=1e-6
    )
    assert_same_labels(estimator, agg, dataset.X_test)
    with torch.no_grad():
        logits = agg.to_module()(torch.tensor(dataset.X_test))
        module = torch.softmax(logits, dim=-1).numpy()
    np.testing.assert_allclose(module, proba, atol=1e-6)


@pytest.mark.parametrize(
    ("layers", "kind"), [("last", "binary"), ("all", "disjoint"), ("all", "binary")]
)
def test_fine_tuning_learns_from_public_rows(layers, kind):
    dataset = federated(kind)
    agg = aggregate(dataset, fitted(dataset), max_units=8)
    hidden = agg.coefs_[0].copy()
    X, y = dataset.X_test[::2], dataset.y_test[::2]

    def loss():
        proba = agg.predict_proba(X)
        return -np.mean(np.log(proba[np.arange(len(y)), y] + 1e-12))

    before = loss()
    assert agg.fine_tune(X, y, layers=layers) is agg
    assert loss() <= before
    trained = layers == "all" and np.isfinite(agg.fine_tuning_.strengths[1])
    assert np.array_equal(agg.coefs_[0], hidden) != trained
    np.testing.assert_allclose(
        agg.to_estimator().predict_proba(X), agg.predict_proba(X), atol=1e-6
    )
    with pytest.raises(ValueError, match='layers must be "last" or "all"'):
        agg.fine_tune(X, y, layers="first")


def test_public_rows_in_fit_tune_the_result():
    dataset = federated("disjoint")
    locals_ = fitted(dataset)
    nodes = np.where(np.arange(len(dataset.y)) % 3 == 0, -1, dataset.nodes)
    options = {"random_state": 0}
    inside = GEMSMLPAggregator(locals_, **options).fit(
        dataset.X, dataset.y, nodes=nodes
    )
    of_nodes = nodes >= 0
    after = GEMSMLPAggregator(locals_, **options)
    after.fit(dataset.X[of_nodes], dataset.y[of_nodes], nodes=nodes[of_nodes])
    assert after.fine_tuning_ is None and inside.fine_tuning_ is not None
    after.fine_tune(dataset.X[~of_nodes], dataset.y[~of_nodes])
    assert inside.score(dataset.X_test, dataset.y_test) > 0.8
    assert after.score(dataset.X_test, dataset.y_test) > 0.8


# ---- what goes in -------------------------------------------------------------


def test_widths_may_differ_depths_and_activations_not():
    dataset = federated("disjoint")
    (X0, y0), (X1, y1), (X2, y2) = dataset.local_rows
    first = network((30,)).fit(X0, y0)
    last = network((7,)).fit(X2, y2)
    agg = aggregate(dataset, [first, network((15,)).fit(X1, y1), last])
    assert agg.score(dataset.X_test, dataset.y_test) > 0.75
    with pytest.raises(ValueError, match="node '1' has 2 hidden layers and node '0'"):
        aggregate(dataset, [first, network((5, 5)).fit(X1, y1), last])
    with pytest.raises(ValueError, match=r"node '1' has the activations \['tanh'\]"):
        other = network((5,), activation="tanh").fit(X1, y1)
        aggregate(dataset, [first, other, last])
    with pytest.raises(ValueError, match="node '1' has 0 hidden layers"):
        aggregate(dataset, [first, LogisticRegression().fit(X1, y1), last])


def test_linear_members_are_networks_without_hidden_layers():
    dataset = federated("disjoint")
    locals_ = [LogisticRegression().fit(X, y) for X, y in dataset.local_rows]
    agg = aggregate(dataset, locals_)
    assert agg.layer_report_ == [] and len(agg.coefs_) == 1
    assert agg.score(dataset.X_test, dataset.y_test) > 0.7


def test_scalers_of_nodes_are_folded_into_the_first_layer():
    dataset = federated("homogeneous")
    locals_ = [
        make_pipeline(StandardScaler(), network(seed=k)).fit(X, y)
        for k, (X, y) in enumerate(dataset.local_rows)
    ]
    agg = aggregate(dataset, locals_)
    assert agg.score(dataset.X_test, dataset.y_test) > 0.8


def test_nodes_of_one_class_have_no_neurons():
    dataset = federated("single")
    agg = GEMSMLPAggregator([network()] * 3, random_state=0)
    agg.fit(dataset.X, dataset.y, nodes=dataset.nodes)
    report = agg.layer_report_[0]
    assert report["n_in"] == 12
    assert {name for unit in report["members"] for name, _ in unit} == {"2"}


def test_shared_rows_are_warned_of():
    dataset = federated("overlapping")
    agg = GEMSMLPAggregator(fitted(dataset), random_state=0)
    with pytest.warns(UserWarning, match="retrained on pooled rows") as caught:
        agg.fit(dataset.X, dataset.y)
    assert len(caught) == 1
    assert agg.score(dataset.X_test, dataset.y_test) > 0.7


def test_rows_are_needed():
    dataset = federated("disjoint")
    with pytest.raises(
        ValueError, match="without rows, but the fit needs the distance"
    ):
        GEMSMLPAggregator(fitted(dataset)).fit()
    with pytest.raises(ValueError, match="node '2' has no rows"):
        keep = dataset.nodes != 2
        GEMSMLPAggregator(fitted(dataset)).fit(
            dataset.X[keep], dataset.y[keep], nodes=dataset.nodes[keep]
        )


@pytest.mark.parametrize("solver", ["adam", "sgd", "lbfgs"])
def test_members_keep_their_trainer_and_their_weights(solver):
    dataset = federated("homogeneous")
    locals_ = [clf.set_params(solver=solver) for clf in fitted(dataset, hidden=(6,))]
    before = pickle.dumps(locals_)
    # Where spaces are built, the last layer is retrained, too.
    agg = aggregate(dataset, locals_, local_epochs=1, last_layer=LENIENT)
    assert "retrain" in [entry["task"] for entry in agg.history_]
    assert pickle.dumps(locals_) == before
    assert agg.estimators_[0] is locals_[0]


def test_search_over_epsilon_and_clusters():
    dataset = federated("homogeneous")
    agg = GEMSMLPAggregator(
        fitted(dataset, hidden=(6,)),
        random_state=0,
        local_epochs=1,
        last_layer=LENIENT,
    )
    grid = [{"hidden_layers__epsilon": [1.0]}, {"hidden_layers__n_clusters": [5]}]
    search = GridSearchCV(agg, grid, cv=2, error_score="raise")
    search.fit(dataset.X, dataset.y, nodes=dataset.nodes)
    assert search.best_estimator_.estimators[0] is agg.estimators[0]
    assert search.best_score_ > 0.6
    copy = clone(search.best_estimator_)
    assert not hasattr(copy, "coefs_")


def test_same_seed_same_network_and_jobs_do_not_matter():
    dataset = federated("homogeneous")
    locals_ = fitted(dataset)
    first, threads = (aggregate(dataset, locals_, n_jobs=n) for n in (None, 2))
    for a, b in zip(first.coefs_, threads.coefs_, strict=True):
        np.testing.assert_array_equal(a, b)
