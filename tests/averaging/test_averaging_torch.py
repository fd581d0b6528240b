# SPDX-License-Identifier: BSD-3-Clause
"""Averages and rounds of skorch nets of any torch module."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgems import (
    DistillationAggregator,
    EnsembleAggregator,
    ModelAveragingAggregator,
)
from skgems.averaging import StartedApartWarning

torch = pytest.importorskip("torch")
pytest.importorskip("skorch")

from helpers.nets import (  # noqa: E402
    Convolutional,
    Dense,
    digits,
    fit_nets,
    make_binary_net,
    make_net,
    state_of_module,
)
from torch import nn  # noqa: E402

NAMES = np.array(["one", "two", "three"])  # not in the order of the columns

MODULES = {
    "dense": {"module": Dense},
    "normalized": {"module": Dense, "module__normalize": True},
    "convolutional": {"module": Convolutional},
}
every_module = pytest.mark.parametrize("module", MODULES)


def rounds(estimators, *, n_rounds=3, local_epochs=2, **params):
    """An aggregator that averages in rounds, at a rate that suits these nets."""
    agg = ModelAveragingAggregator(
        estimators,
        n_rounds=n_rounds,
        local_epochs=local_epochs,
        learning_rate=0.2,
        random_state=0,
    )
    return agg.set_params(**params)


# ---- at once ------------------------------------------------------------------


@every_module
def test_nets_are_averaged_parameter_by_parameter(module):
    X, y, nodes, X_test, _ = digits()
    nets = fit_nets(make_net(**MODULES[module]), X, y, nodes)
    aggregate = ModelAveragingAggregator(nets, node_weight=[1.0, 2.0, 5.0]).fit()
    states = [state_of_module(model) for model in nets]
    for name, array in state_of_module(aggregate.net_).items():
        arrays_of_nodes = [state_of_node[name] for state_of_node in states]
        if array.dtype.kind == "f":
            expected = np.average(arrays_of_nodes, axis=0, weights=[1.0, 2.0, 5.0])
            np.testing.assert_allclose(array, expected, rtol=1e-5, atol=1e-6)
        else:  # a counter is that of the node of the largest weight
            assert array == arrays_of_nodes[2]
    np.testing.assert_allclose(
        aggregate.predict_proba(X_test),
        aggregate.net_.predict_proba(X_test),
        rtol=1e-4,
        atol=1e-6,
    )


def test_counters_are_those_of_the_node_with_most_rows():
    X, y, _, _, _ = digits()
    nodes = np.digitize(np.arange(len(y)), [60, 300])
    nets = fit_nets(make_net(Convolutional), X, y, nodes)
    counts = [int(state_of_module(model)["norm.num_batches_tracked"]) for model in nets]
    assert counts[1] == max(counts) > counts[0]
    aggregate = ModelAveragingAggregator(nets).fit(X, y, nodes=nodes)
    assert state_of_module(aggregate.net_)["norm.num_batches_tracked"] == counts[1]
    trained = rounds(nets, n_rounds=1).fit(X, y, nodes=nodes)
    # Two epochs of its 240 rows, in batches of 32.
    n_batches = 2 * -(-240 // 32)
    assert (
        state_of_module(trained.net_)["norm.num_batches_tracked"]
        == counts[1] + n_batches
    )


@every_module
def test_equal_nets_average_to_themselves(module):
    X, y, _, X_test, _ = digits()
    model = fit_nets(make_net(**MODULES[module]), X, y, np.zeros(len(y), dtype=int))[0]
    aggregate = ModelAveragingAggregator(
        [model] * 4, node_weight=[0.1, 0.2, 3, 4]
    ).fit()
    for name, array in state_of_module(aggregate.net_).items():
        np.testing.assert_allclose(
            array, state_of_module(model)[name], rtol=1e-6, atol=1e-7
        )
    np.testing.assert_allclose(
        aggregate.predict_proba(X_test), model.predict_proba(X_test), atol=1e-5
    )


@pytest.mark.parametrize("module", ["dense", "convolutional"])
def test_outputs_are_averaged_over_the_nodes_that_know_the_class(module):
    X, y, _, _, _ = digits()
    nets = []
    with torch.random.fork_rng():
        for rows in (y <= 1, y >= 1):  # the second class is at both nodes
            torch.manual_seed(0)
            nets.append(make_net(**MODULES[module]).fit(X[rows], y[rows]))
    aggregate = ModelAveragingAggregator(nets).fit()
    for name in ("output.weight", "output.bias"):
        first, second = (state_of_module(model)[name] for model in nets)
        expected = np.stack([first[0], (first[1] + second[1]) / 2, second[2]])
        np.testing.assert_allclose(
            state_of_module(aggregate.net_)[name], expected, rtol=1e-5
        )


def test_images_stay_arrays_of_four_dimensions():
    X, y, nodes, X_test, y_test = digits()
    X = X.reshape(-1, 1, 8, 8)
    X_test = X_test.reshape(-1, 1, 8, 8)
    nets = fit_nets(make_net(Convolutional, module__flat=False), X, y, nodes)
    aggregate = ModelAveragingAggregator(nets).fit()
    assert aggregate.predict_proba(X_test).shape == (len(X_test), 3)
    trained = rounds(nets).fit(X, y, nodes=nodes)
    assert trained.score(X_test, y_test) > 0.9
    ensemble = EnsembleAggregator(nets, voting="hard", random_state=0).fit()
    assert ensemble.score(X_test, y_test) > 0.9


def test_images_are_refused_where_estimators_take_none():
    X, y, nodes, _, _ = digits()
    X = X.reshape(-1, 1, 8, 8)
    with pytest.raises(ValueError, match="dim 4.*LogisticRegression"):
        ModelAveragingAggregator(LogisticRegression()).fit(X, y, nodes=nodes)


def test_binary_nets_are_averaged_by_their_rows():
    X, y, nodes, X_test, _ = digits(2)
    nets = fit_nets(make_binary_net(), X, y.astype(np.float32), nodes)
    aggregate = ModelAveragingAggregator(nets, node_weight="n_samples")
    aggregate.fit(X, y, nodes=nodes)
    n_rows = np.bincount(nodes)
    for name, array in state_of_module(aggregate.net_).items():
        expected = np.average(
            [state_of_module(model)[name] for model in nets], axis=0, weights=n_rows
        )
        np.testing.assert_allclose(array, expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(
        aggregate.predict_proba(X_test), aggregate.net_.predict_proba(X_test), atol=1e-5
    )


@pytest.mark.parametrize("are_fitted", [True, False])
def test_binary_nets_are_trained_in_rounds(are_fitted):
    X, y, nodes, X_test, y_test = digits(2)
    estimators = make_binary_net()
    if are_fitted:
        estimators = fit_nets(make_binary_net(), X, y.astype(np.float32), nodes)
    trained = rounds(estimators).fit(X, y, nodes=nodes)
    assert trained.score(X_test, y_test) > 0.95
    assert trained.decision_function(X_test).ndim == 1


def test_binary_nets_know_the_labels_0_and_1_only():
    X, y, nodes, _, _ = digits(2)
    with pytest.raises(ValueError, match="knows the labels 0 and 1 only.*'one'"):
        rounds(make_binary_net()).fit(X, NAMES[y], nodes=nodes)


@pytest.mark.parametrize(("normalize", "n_rounds"), [(False, 0), (True, 1)])
def test_chains_of_dense_layers_become_plain_classifiers(normalize, n_rounds):
    X, y, nodes, X_test, _ = digits()
    nets = fit_nets(make_net(module__normalize=normalize), X, y, nodes)
    aggregate = rounds(nets, n_rounds=n_rounds).fit(X, y, nodes=nodes)
    expected = aggregate.predict_proba(X_test)
    plain = aggregate.to_estimator()
    assert isinstance(plain, MLPClassifier)
    assert [coef.shape for coef in aggregate.coefs_] == [(64, 8), (8, 3)]
    np.testing.assert_allclose(plain.predict_proba(X_test), expected, atol=1e-5)
    module = aggregate.to_module()
    assert isinstance(module, Dense)
    with torch.no_grad():
        logits = module(torch.as_tensor(X_test))
    np.testing.assert_allclose(logits.softmax(1).numpy(), expected, atol=1e-5)


def test_other_modules_become_copies_of_their_kind():
    X, y, nodes, X_test, _ = digits()
    nets = fit_nets(make_net(Convolutional), X, y, nodes)
    aggregate = ModelAveragingAggregator(nets).fit()
    assert aggregate.network_ is None
    assert not hasattr(aggregate, "coefs_")
    expected = aggregate.predict_proba(X_test)
    exported_net = aggregate.to_estimator()
    module = aggregate.to_module()
    assert type(exported_net) is type(nets[0])
    assert isinstance(module, Convolutional)
    np.testing.assert_allclose(exported_net.predict_proba(X_test), expected, atol=1e-6)
    with torch.no_grad():
        logits = module(torch.as_tensor(X_test))
        np.testing.assert_allclose(logits.softmax(1).numpy(), expected, atol=1e-5)
        # What is done to them leaves the aggregate as it is.
        for exported_module in (exported_net.module_, module):
            for parameter in exported_module.parameters():
                parameter.zero_()
    np.testing.assert_array_equal(aggregate.predict_proba(X_test), expected)


def test_permuted_units_are_aligned_where_this_is_asked_for():
    X, y, _, X_test, _ = digits()
    model = fit_nets(make_net(), X, y, np.zeros(len(y), dtype=int))[0]
    shuffled = pickle.loads(pickle.dumps(model))
    order = torch.as_tensor([3, 0, 7, 1, 2, 6, 5, 4])
    with torch.no_grad():
        for layer, axis in (("hidden", 0), ("output", 1)):
            weight = getattr(shuffled.module_, layer).weight
            weight.copy_(weight.clone().index_select(axis, order))
        bias = shuffled.module_.hidden.bias
        bias.copy_(bias.clone()[order])
    aligned = ModelAveragingAggregator([model, shuffled], align="permutation").fit()
    np.testing.assert_allclose(
        aligned.predict_proba(X_test), model.predict_proba(X_test), atol=1e-5
    )
    with pytest.warns(StartedApartWarning):
        plain = ModelAveragingAggregator([model, shuffled]).fit()
    difference = plain.predict_proba(X_test) - model.predict_proba(X_test)
    assert np.abs(difference).max() > 0.05


def test_a_net_and_a_plain_network_of_equal_shape_are_averaged():
    X, y, nodes, X_test, _ = digits()
    model = fit_nets(make_net(), X, y, nodes)[0]
    plain = ModelAveragingAggregator([model]).fit().to_estimator()
    aggregate = ModelAveragingAggregator([plain, model]).fit()
    assert aggregate.net_ is None
    np.testing.assert_allclose(
        aggregate.predict_proba(X_test), model.predict_proba(X_test), atol=1e-5
    )


def test_a_net_and_a_plain_network_are_not_trained_in_rounds():
    """Parameters of one library mean nothing to the other."""
    X, y, nodes, _, _ = digits()
    model = fit_nets(make_net(), X, y, nodes)[0]
    plain = ModelAveragingAggregator([model]).fit().to_estimator()
    with pytest.raises(TypeError, match="'0' and '1' have MLPClassifier and NeuralNet"):
        rounds([plain, model]).fit(X, y, nodes=nodes % 2)


# The classifiers of two nodes that cannot be averaged, and the error.
NOT_AVERAGED = {
    "numbers of outputs": (
        make_net(Convolutional),
        make_net(Convolutional, module__n_outputs=4),
        ValueError,
        r"'a' and 'b'.*'output.bias': \(3,\)",
    ),
    "kinds of modules": (
        make_net(Convolutional),
        make_net(),
        ValueError,
        "'a' and 'b' have parameters of different names",
    ),
    "widths": (
        make_net(),
        make_net(module__width=9),
        ValueError,
        "'a' and 'b' have different shapes.*PFNMAggr",
    ),
    "orders of classes": (
        make_net(Convolutional),
        make_net(Convolutional, classes=[2, 1, 0]),
        ValueError,
        "outputs of nodes 'a' and 'b' stand for different",
    ),
    "libraries": (
        LogisticRegression(),
        make_net(Convolutional),
        TypeError,
        r"Nodes \['b'\] have torch modules, node 'a' has",
    ),
}


@pytest.mark.parametrize("difference", NOT_AVERAGED)
def test_classifiers_that_differ_too_much_are_not_averaged(difference):
    first, second, kind_of_error, message = NOT_AVERAGED[difference]
    X, y, _, _, _ = digits(n_nodes=2)
    estimators = [("a", clone(first).fit(X, y)), ("b", clone(second).fit(X, y))]
    with pytest.raises(kind_of_error, match=message):
        ModelAveragingAggregator(estimators).fit()


def test_modules_that_are_no_chains_of_layers_are_not_aligned():
    X, y, nodes, _, _ = digits(n_nodes=2)
    nets = fit_nets(make_net(Convolutional), X, y, nodes)
    with pytest.raises(
        ValueError, match="align='permutation'.*node '0' is not such a chain"
    ):
        ModelAveragingAggregator(nets, align="permutation").fit()
    with pytest.raises(ValueError, match="when skorch nets are trained in rounds"):
        rounds(nets, align="permutation").fit(X, y, nodes=nodes)


def test_only_equal_modules_are_trained_in_rounds():
    X, y, nodes, _, _ = digits(n_nodes=2)
    nets = [make_net().fit(X, y), make_net(module__width=9).fit(X, y)]
    with pytest.raises(ValueError, match="Only equal modules.*PFNMAggregator"):
        rounds(nets).fit(X, y, nodes=nodes)


# ---- rounds -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("module", "labels"),
    [
        ("dense", np.arange(3)),
        pytest.param("normalized", np.arange(3), marks=pytest.mark.slow),
        ("convolutional", NAMES),
    ],
)
def test_rounds_train_fitted_nets_further_and_leave_them_as_they_are(module, labels):
    X, y, nodes, X_test, y_test = digits()
    classes = None if labels is not NAMES else NAMES.tolist()
    unfitted = make_net(max_epochs=1, lr=0.02, classes=classes, **MODULES[module])
    nets = fit_nets(unfitted, X, y, nodes)
    states = [state_of_module(model) for model in nets]
    aggregate = rounds(nets, local_epochs=5).fit(X, labels[y], nodes=nodes)
    np.testing.assert_array_equal(aggregate.classes_, np.unique(labels))
    assert aggregate.score(X_test, labels[y_test]) > 0.9
    # Where there are counters, the node with most rows has to be found first.
    rounds_of_training = [
        message for message in aggregate.history_ if message["task"] == "train"
    ]
    has_counters = {array.dtype.kind for array in states[0].values()} != {"f"}
    n_other_messages = len(aggregate.history_) - len(rounds_of_training)
    assert n_other_messages == has_counters
    losses = [np.mean(list(message["loss"].values())) for message in rounds_of_training]
    assert losses[-1] < losses[0]
    # Each of three nodes sends all parameters, and little else.
    n_bytes = sum(array.nbytes for array in states[0].values())
    n_received = rounds_of_training[0]["bytes_received"]
    assert 3 * n_bytes < n_received < 3 * n_bytes + 200
    for model, state_before in zip(nets, states, strict=True):
        for name, array in state_of_module(model).items():
            np.testing.assert_array_equal(array, state_before[name].copy())


@pytest.mark.parametrize(
    ("n_rounds", "labels"),
    [
        pytest.param(0, np.array([3, 5, 7]), marks=pytest.mark.slow),
        (0, np.array([0, 2, 1])),
        (2, NAMES),
        pytest.param(2, np.array([0, 2, 1]), marks=pytest.mark.slow),
    ],
)
def test_simulation_with_labels_of_any_kind(n_rounds, labels):
    X, y, nodes, X_test, y_test = digits()
    unfitted = make_net(Convolutional, max_epochs=6)
    aggregate = rounds(unfitted, n_rounds=n_rounds, local_epochs=3)
    # Rows of double precision, as most are.
    aggregate.fit(X.astype(np.float64), labels[y], nodes=nodes)
    np.testing.assert_array_equal(aggregate.classes_, np.unique(labels))
    assert aggregate.score(X_test, labels[y_test]) > 0.9
    assert not hasattr(unfitted, "module_")
    assert unfitted.classes is None


@pytest.mark.parametrize("n_rounds", [0, 1])
@pytest.mark.parametrize(
    ("unfitted", "message"),
    [
        (
            make_net(module__n_outputs=5),
            "5 outputs, which cannot stand for the 3 labels",
        ),
        (
            make_net(classes=["one", "two", "ten"]),
            r"do not hold the labels \['three'\]",
        ),
    ],
)
def test_labels_that_outputs_cannot_stand_for_are_an_error(unfitted, message, n_rounds):
    X, y, nodes, _, _ = digits()
    with pytest.raises(ValueError, match=message):
        rounds(unfitted, n_rounds=n_rounds).fit(X, NAMES[y], nodes=nodes)


@pytest.mark.parametrize("n_rounds", [0, 1])
def test_outputs_without_rows_are_no_classes(n_rounds):
    X, y, nodes, X_test, _ = digits()
    aggregate = rounds(make_net(module__n_outputs=10), n_rounds=n_rounds)
    aggregate.fit(X, y, nodes=nodes)
    np.testing.assert_array_equal(aggregate.classes_, [0, 1, 2])
    proba = aggregate.predict_proba(X_test)
    assert proba.shape == (len(X_test), 3)
    np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-5)


def test_nodes_of_one_class_learn_the_others_in_rounds():
    X, y, _, X_test, y_test = digits()
    nodes = np.where(y == 2, 1, np.where(np.arange(len(y)) % 2, 0, 2))
    simulated = ModelAveragingAggregator(make_net(Convolutional), random_state=0)
    simulated.fit(X, y, nodes=nodes)  # node 1 has a constant model
    np.testing.assert_array_equal(simulated.classes_, [0, 1, 2])
    aggregate = rounds(simulated.estimators_, n_rounds=15, local_epochs=1)
    aggregate.fit(X, y, nodes=nodes)
    assert aggregate.score(X_test, y_test) > 0.9


@pytest.mark.parametrize(
    ("common", "n_rounds"),
    [
        (True, 0),
        (False, 1),
        pytest.param(True, 1, marks=pytest.mark.slow),
        pytest.param(False, 0, marks=pytest.mark.slow),
    ],
)
def test_equal_seeds_give_equal_models(common, n_rounds):
    X, y, nodes, X_test, _ = digits()
    X, y, nodes = X[:150], y[:150], nodes[:150]

    def predict_with(seed):
        aggregate = rounds(
            make_net(Convolutional, max_epochs=1),
            n_rounds=n_rounds,
            local_epochs=1,
            common_init=common,
            random_state=seed,
        )
        return aggregate.fit(X, y, nodes=nodes).predict_proba(X_test)

    proba = predict_with(seed=0)
    torch.manual_seed(5)  # torch's global generator has no effect
    np.testing.assert_array_equal(proba, predict_with(seed=0))
    assert not np.array_equal(proba, predict_with(seed=1))


@pytest.mark.filterwarnings("ignore:.*worker stopped while some jobs:UserWarning")
@pytest.mark.slow
def test_workers_train_as_this_process_does():
    class Scripted(Convolutional):
        """What a script or a notebook defines: no worker can import it."""

    X, y, nodes, X_test, _ = digits(n_nodes=2)

    def predict_with(n_jobs):
        simulated = ModelAveragingAggregator(
            make_net(Scripted), n_jobs=n_jobs, random_state=0
        )
        simulated.fit(X, y, nodes=nodes)
        trained = rounds(simulated.estimators_, n_rounds=1, n_jobs=n_jobs)
        trained.fit(X, y, nodes=nodes)
        for local_net in simulated.estimators_:
            assert isinstance(local_net.module_, Scripted)
        return np.stack(
            [simulated.predict_proba(X_test), trained.predict_proba(X_test)]
        )

    # Sums of several threads are rounded differently.
    np.testing.assert_allclose(predict_with(2), predict_with(None), atol=1e-4)


class Unreliable(type(make_net())):
    """A net that fails to train where a pixel is 99, and diverges where it is -99."""

    def partial_fit(self, X, y=None, **params):
        if np.any(X[:, 0] == 99):
            raise OSError("out of memory")
        super().partial_fit(X, y, **params)
        if np.any(X[:, 0] == -99):
            with torch.no_grad():
                self.module_.output.bias[0] = torch.nan
        return self


@pytest.mark.parametrize(
    ("mark", "message"),
    [(99, "out of memory"), (-99, "diverged.*smaller learning_rat")],
)
def test_a_node_that_fails_is_left_out(mark, message):
    X, y, nodes, X_test, y_test = digits()
    X[np.flatnonzero(nodes == 1)[0], 0] = mark
    local = Unreliable(
        Dense,
        criterion=nn.CrossEntropyLoss,
        batch_size=32,
        train_split=None,
        verbose=0,
    )
    named = [(name, clone(local)) for name in ("north", "east", "south")]
    with pytest.warns(UserWarning, match=f"'east' failed twice.*{message}"):
        aggregate = rounds(named).fit(X, y, nodes=nodes)
    left_out = [message["left_out"] for message in aggregate.history_]
    assert left_out == [["east"]] * 3
    assert set(aggregate.history_[0]["loss"]) == {"north", "south"}
    assert aggregate.score(X_test, y_test) > 0.8
    X[:, 0] = mark
    with pytest.raises(RuntimeError, match=f"Every node failed.*'north'.*{message}"):
        rounds(named).fit(X, y, nodes=nodes)


def test_without_a_learning_rate_nets_use_their_own():
    X, y, nodes, _, _ = digits()
    changes = {}
    for lr in (1e-6, 0.2):
        nets = fit_nets(make_net(lr=lr, max_epochs=1), X, y, nodes)
        aggregate = rounds(nets, n_rounds=1, learning_rate=None)
        (message,) = aggregate.fit(X, y, nodes=nodes).history_
        assert message["learning_rates"] is None
        changes[lr] = message["change"]
    assert changes[1e-6] < 1e-3 < changes[0.2]


def test_modules_with_lazy_layers_that_cannot_be_traced_are_averaged():
    class Branching(nn.Module):
        def __init__(self):
            super().__init__()
            self.hidden = nn.LazyLinear(12)
            self.output = nn.LazyLinear(3)

        def forward(self, X):
            if X.sum() > 1e9:  # depends on values
                return X[:, :3]
            return self.output(torch.relu(self.hidden(X)))

    X, y, nodes, X_test, y_test = digits()
    aggregate = rounds(make_net(Branching)).fit(X, NAMES[y], nodes=nodes)
    assert aggregate.network_ is None
    assert aggregate.score(X_test, NAMES[y_test]) > 0.9


# ---- scikit-learn's protocols, and the other yardsticks -----------------------


def test_a_search_over_nets_keeps_the_fitted_nets():
    X, y, nodes, X_test, _ = digits()
    nets = fit_nets(make_net(), X, y, nodes)
    search = GridSearchCV(
        rounds(nets), {"n_rounds": [0, 1], "schedule__decay": [0.25]}, cv=2
    )
    best = search.fit(X, y, nodes=nodes).best_estimator_
    for estimator, fitted_net in zip(best.estimators_, nets, strict=True):
        assert estimator is fitted_net
    unpickled = pickle.loads(pickle.dumps(best))
    refitted = clone(best).fit(X, y, nodes=nodes)
    for copy in (unpickled, refitted):
        np.testing.assert_allclose(
            copy.predict_proba(X_test), best.predict_proba(X_test), atol=1e-5
        )


def test_nets_are_trained_in_rounds_in_a_pipeline():
    X, y, nodes, X_test, y_test = digits()
    pipeline = make_pipeline(StandardScaler(), rounds(make_net(Convolutional)))
    pipeline.fit(X, y, modelaveragingaggregator__nodes=nodes)
    assert pipeline.score(X_test, y_test) > 0.9


@pytest.mark.parametrize(
    ("local", "labels"),
    [
        (make_net(Convolutional), NAMES),
        (make_pipeline(StandardScaler(), make_net()), np.arange(3)),
    ],
    ids=["net", "pipeline"],
)
def test_ensembles_of_nets_are_trained_in_simulation(local, labels):
    X, y, nodes, X_test, y_test = digits()
    double = X.astype(np.float64)
    ensemble = EnsembleAggregator(local, random_state=0)
    ensemble.fit(double, labels[y], nodes=nodes)
    assert ensemble.score(X_test.astype(np.float64), labels[y_test]) > 0.9
    refitted = clone(ensemble).fit(double, labels[y], nodes=nodes)
    np.testing.assert_array_equal(
        ensemble.predict_proba(X_test), refitted.predict_proba(X_test)
    )


def test_a_student_may_be_a_net_whose_weights_the_seed_decides():
    X, y, nodes, X_test, y_test = digits()
    members = [
        LogisticRegression().fit(X[nodes == k], NAMES[y[nodes == k]]) for k in (0, 1)
    ]

    def fit_student(seed):
        agg = DistillationAggregator(members, student=make_net(), random_state=seed)
        return agg.fit(X.astype(np.float64))

    student = fit_student(seed=0)
    assert student.score(X_test, NAMES[y_test]) > 0.8
    proba = student.predict_proba(X_test)
    np.testing.assert_array_equal(proba, fit_student(seed=0).predict_proba(X_test))
    assert not np.array_equal(proba, fit_student(seed=1).predict_proba(X_test))
    with torch.no_grad():
        logits = student.to_module()(torch.as_tensor(X_test))
    np.testing.assert_allclose(logits.softmax(1).numpy(), proba, atol=1e-5)


@pytest.mark.parametrize("n_rounds", [0, 1])
@pytest.mark.parametrize("parameter", ["conv.weight", "norm.running_var"])
def test_the_error_of_values_that_are_not_finite_names_node_and_parameter(
    parameter, n_rounds
):
    X, y, nodes, _, _ = digits()
    nets = fit_nets(make_net(Convolutional), X, y, nodes)
    with torch.no_grad():
        nets[1].module_.state_dict()[parameter].view(-1)[0] = np.nan
    members = list(zip(["north", "east", "south"], nets, strict=True))
    match = f"Node 'east': {parameter} of the module has 1 values that are not finite"
    with pytest.raises(ValueError, match=match):
        ModelAveragingAggregator(members, n_rounds=n_rounds).fit(X, y, nodes=nodes)
    with pytest.raises(ValueError, match=match):
        EnsembleAggregator(members).fit()
    with pytest.raises(ValueError, match=match):
        DistillationAggregator(members).fit(X)


def test_a_mask_of_infinities_is_no_error():
    class Masked(Convolutional):
        def __init__(self):
            super().__init__()
            self.register_buffer("mask", torch.tensor([0.0, -float("inf")]))

    X, y, nodes, X_test, _ = digits()
    nets = fit_nets(make_net(Masked), X, y, nodes)
    average = ModelAveragingAggregator(nets).fit()
    assert average.to_module().mask.tolist() == [0.0, -float("inf")]
    EnsembleAggregator(nets).fit().predict(X_test)


# ---- nets that started apart -------------------------------------------------------

# Wider than the other nets, where layers are dense.
WIDE_MODULES = {
    "dense": {"module": Dense, "module__width": 24},
    "normalized": {
        "module": Dense,
        "module__normalize": True,
        "module__width": 24,
    },
    "convolutional": {"module": Convolutional},
}


def warnings_of_average(nets):
    """The kinds of warnings that the average of some nets draws."""
    with warnings.catch_warnings(record=True) as records:
        warnings.simplefilter("always")
        ModelAveragingAggregator(nets).fit()
    return [record.category for record in records]


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        ("dense", [StartedApartWarning]),
        ("normalized", [StartedApartWarning]),
        # Neither alignment nor PFNM is for modules that are no chains of dense layers.
        ("convolutional", []),
    ],
)
def test_nets_of_dense_layers_that_started_apart_draw_a_warning(module, expected):
    X, y, nodes, _, _ = digits()
    nets = []
    with torch.random.fork_rng():
        for k in range(2):
            torch.manual_seed(k)
            unfitted = make_net(**WIDE_MODULES[module])
            nets.append(unfitted.fit(X[nodes == k], y[nodes == k]))
    assert warnings_of_average(nets) == expected


@every_module
def test_nets_that_started_from_equal_weights_draw_no_warning(module):
    X, y, nodes, _, _ = digits()
    nets = fit_nets(make_net(**WIDE_MODULES[module]), X, y, nodes)
    assert warnings_of_average(nets) == []
