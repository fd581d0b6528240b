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
    GEMSMLPAggregator,
    ModelAveragingAggregator,
    PFNMAggregator,
)
from skgems.averaging import StartedApartWarning

torch = pytest.importorskip("torch")
pytest.importorskip("skorch")

from helpers.nets import (  # noqa: E402
    Convolutional,
    Dense,
    binary_net,
    digits,
    fitted,
    net,
    state,
)
from torch import nn  # noqa: E402

NAMES = np.array(["one", "two", "three"])  # not in the order of the columns

MODULES = {
    "dense": {"module": Dense},
    "normalised": {"module": Dense, "module__normalise": True},
    "convolutional": {"module": Convolutional},
}
every_module = pytest.mark.parametrize("module", MODULES)


def rounds(estimators, **options):
    given = {"n_rounds": 3, "local_epochs": 2, "learning_rate": 0.2, "random_state": 0}
    return ModelAveragingAggregator(estimators, **{**given, **options})


# ---- at once ------------------------------------------------------------------


@every_module
def test_nets_are_averaged_parameter_by_parameter(module):
    X, y, nodes, X_test, _ = digits()
    nets = fitted(net(**MODULES[module]), X, y, nodes)
    aggregate = ModelAveragingAggregator(nets, weights=[1.0, 2.0, 5.0]).fit()
    states = [state(model) for model in nets]
    for name, array in state(aggregate.net_).items():
        given = [own[name] for own in states]
        if array.dtype.kind == "f":
            expected = np.average(given, axis=0, weights=[1.0, 2.0, 5.0])
            np.testing.assert_allclose(array, expected, rtol=1e-5, atol=1e-6)
        else:  # a counter is that of the node that counts most
            assert array == given[2]
    reference = aggregate.net_.predict_proba(X_test)
    np.testing.assert_allclose(
        aggregate.predict_proba(X_test), reference, rtol=1e-4, atol=1e-6
    )


def test_counters_are_those_of_the_node_with_most_rows():
    X, y, _, _, _ = digits()
    nodes = np.digitize(np.arange(len(y)), [60, 300])
    nets = fitted(net(Convolutional), X, y, nodes)
    counts = [int(state(model)["norm.num_batches_tracked"]) for model in nets]
    assert counts[1] == max(counts) and counts[1] > counts[0]
    aggregate = ModelAveragingAggregator(nets).fit(X, y, nodes=nodes)
    assert state(aggregate.net_)["norm.num_batches_tracked"] == counts[1]
    trained = rounds(nets, n_rounds=1).fit(X, y, nodes=nodes)
    further = 2 * -(-240 // 32)
    assert state(trained.net_)["norm.num_batches_tracked"] == counts[1] + further


@every_module
def test_equal_nets_average_to_themselves(module):
    X, y, _, X_test, _ = digits()
    model = fitted(net(**MODULES[module]), X, y, np.zeros(len(y), dtype=int))[0]
    aggregate = ModelAveragingAggregator([model] * 4, weights=[0.1, 0.2, 3, 4]).fit()
    for name, array in state(aggregate.net_).items():
        np.testing.assert_allclose(array, state(model)[name], rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(
        aggregate.predict_proba(X_test), model.predict_proba(X_test), atol=1e-5
    )


@pytest.mark.parametrize("module", ["dense", "convolutional"])
def test_outputs_are_averaged_over_the_nodes_that_know_the_class(module):
    X, y, _, _, _ = digits()
    holdings = [y <= 1, y >= 1]
    nets = []
    with torch.random.fork_rng():
        for rows in holdings:
            torch.manual_seed(0)
            nets.append(net(**MODULES[module]).fit(X[rows], y[rows]))
    aggregate = ModelAveragingAggregator(nets).fit()
    for name in ("output.weight", "output.bias"):
        one, other = (state(model)[name] for model in nets)
        expected = np.stack([one[0], (one[1] + other[1]) / 2, other[2]])
        np.testing.assert_allclose(state(aggregate.net_)[name], expected, rtol=1e-5)


def test_images_are_taken_as_they_are():
    X, y, nodes, X_test, y_test = digits()
    X, X_test = (rows.reshape(-1, 1, 8, 8) for rows in (X, X_test))
    nets = fitted(net(Convolutional, module__flat=False), X, y, nodes)
    aggregate = ModelAveragingAggregator(nets).fit()
    assert aggregate.predict_proba(X_test).shape == (len(X_test), 3)
    trained = rounds(nets).fit(X, y, nodes=nodes)
    assert trained.score(X_test, y_test) > 0.9
    hard = EnsembleAggregator(nets, voting="hard", random_state=0).fit()
    assert hard.score(X_test, y_test) > 0.9
    with pytest.raises(ValueError, match="dim 4.*LogisticRegression"):
        ModelAveragingAggregator(LogisticRegression()).fit(X, y, nodes=nodes)


def test_binary_nets():
    X, y, nodes, X_test, y_test = digits(2)
    nets = fitted(binary_net(), X, y.astype(np.float32), nodes)
    aggregate = ModelAveragingAggregator(nets, weights="n_samples")
    aggregate.fit(X, y, nodes=nodes)
    sizes = np.bincount(nodes)
    for name, array in state(aggregate.net_).items():
        given = [state(model)[name] for model in nets]
        np.testing.assert_allclose(
            array, np.average(given, axis=0, weights=sizes), rtol=1e-4, atol=1e-6
        )
    np.testing.assert_allclose(
        aggregate.predict_proba(X_test), aggregate.net_.predict_proba(X_test), atol=1e-5
    )
    for estimators in (nets, binary_net()):
        trained = rounds(estimators).fit(X, y, nodes=nodes)
        assert trained.score(X_test, y_test) > 0.95
        assert trained.decision_function(X_test).ndim == 1
    with pytest.raises(ValueError, match="knows the labels 0 and 1 only.*'one'"):
        rounds(binary_net()).fit(X, NAMES[y], nodes=nodes)


def test_chains_of_dense_layers_become_plain_classifiers():
    X, y, nodes, X_test, _ = digits()
    for estimators, n_rounds in (
        (fitted(net(), X, y, nodes), 0),
        (fitted(net(module__normalise=True), X, y, nodes), 1),
    ):
        aggregate = rounds(estimators, n_rounds=n_rounds).fit(X, y, nodes=nodes)
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


def test_other_modules_stay_what_they_are():
    X, y, nodes, X_test, _ = digits()
    nets = fitted(net(Convolutional), X, y, nodes)
    aggregate = ModelAveragingAggregator(nets).fit()
    assert aggregate.network_ is None and not hasattr(aggregate, "coefs_")
    expected = aggregate.predict_proba(X_test)
    plain, module = aggregate.to_estimator(), aggregate.to_module()
    assert type(plain) is type(nets[0]) and isinstance(module, Convolutional)
    np.testing.assert_allclose(plain.predict_proba(X_test), expected, atol=1e-6)
    with torch.no_grad():
        logits = module(torch.as_tensor(X_test))
        np.testing.assert_allclose(logits.softmax(1).numpy(), expected, atol=1e-5)
        # They are copies.
        for copy in (plain.module_, module):
            for parameter in copy.parameters():
                parameter.zero_()
    np.testing.assert_array_equal(aggregate.predict_proba(X_test), expected)


def test_permuted_units_come_together():
    X, y, _, X_test, _ = digits()
    model = fitted(net(), X, y, np.zeros(len(y), dtype=int))[0]
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


def test_nets_and_plain_networks_of_equal_shape():
    X, y, nodes, X_test, _ = digits()
    model = fitted(net(), X, y, nodes)[0]
    same = ModelAveragingAggregator([model]).fit().to_estimator()
    both = ModelAveragingAggregator([same, model]).fit()
    assert both.net_ is None
    np.testing.assert_allclose(
        both.predict_proba(X_test), model.predict_proba(X_test), atol=1e-5
    )
    # In rounds parameters of one library mean nothing to the other.
    with pytest.raises(TypeError, match="'0' and '1' have MLPClassifier and NeuralNet"):
        rounds([same, model]).fit(X, y, nodes=nodes % 2)


def test_modules_that_cannot_be_averaged():
    X, y, nodes, _, _ = digits(n_nodes=2)
    one, other = fitted(net(Convolutional), X, y, nodes)
    dense, wide = fitted(net(), X, y, nodes)[0], fitted(net(), X, y, nodes)[0]
    wide = net(module__width=9).fit(X, y)
    four = net(Convolutional, module__n_outputs=4).fit(X, y)
    named = net(Convolutional, classes=[2, 1, 0]).fit(X, y)
    plain = LogisticRegression().fit(X, y)
    for others, error, message in (
        ([one, four], ValueError, r"'a' and 'b'.*'output.bias': \(3,\)"),
        ([one, dense], ValueError, "'a' and 'b' have parameters of different names"),
        ([dense, wide], ValueError, "'a' and 'b' have different shapes.*PFNMAggr"),
        ([one, named], ValueError, "outputs of nodes 'a' and 'b' stand for different"),
        ([plain, other], TypeError, r"Nodes \['b'\] have torch modules, node 'a' has"),
    ):
        given = list(zip("ab", others, strict=True))
        with pytest.raises(error, match=message):
            ModelAveragingAggregator(given).fit()
    with pytest.raises(ValueError, match="align='permutation'.*node '0' is none"):
        ModelAveragingAggregator([one, other], align="permutation").fit()
    with pytest.raises(ValueError, match="with rounds of skorch nets"):
        rounds([one, other], align="permutation").fit(X, y, nodes=nodes)
    with pytest.raises(ValueError, match="Only equal modules.*PFNMAggregator"):
        rounds([dense, wide]).fit(X, y, nodes=nodes)


# ---- rounds -------------------------------------------------------------------


@every_module
@pytest.mark.parametrize("known", ["columns", "names"])
def test_rounds_of_fitted_nets(module, known):
    X, y, nodes, X_test, y_test = digits()
    options = MODULES[module]
    if known == "names":
        options = {**options, "classes": NAMES.tolist()}
    nets = fitted(net(max_epochs=1, lr=0.02, **options), X, y, nodes)
    before = [state(model) for model in nets]
    labels = NAMES if known == "names" else np.arange(3)
    aggregate = rounds(nets, local_epochs=5).fit(X, labels[y], nodes=nodes)
    np.testing.assert_array_equal(aggregate.classes_, np.unique(labels))
    assert aggregate.score(X_test, labels[y_test]) > 0.9
    # Where there are counters, the node with most rows has to be found first.
    trained = [entry for entry in aggregate.history_ if entry["task"] == "train"]
    counted = {array.dtype.kind for array in before[0].values()} != {"f"}
    assert len(aggregate.history_) - len(trained) == counted
    losses = [np.mean(list(entry["loss"].values())) for entry in trained]
    assert losses[-1] < losses[0]
    size = sum(array.nbytes for array in before[0].values())
    assert 3 * size < trained[0]["bytes_received"] < 3 * size + 200
    for model, kept in zip(nets, before, strict=True):
        for name, array in state(model).items():
            np.testing.assert_array_equal(array, kept[name].copy())


@pytest.mark.parametrize("n_rounds", [0, 2])
@pytest.mark.parametrize("labels", [NAMES, np.array([3, 5, 7]), np.array([0, 2, 1])])
def test_simulation_with_labels_of_any_kind(n_rounds, labels):
    X, y, nodes, X_test, y_test = digits()
    unfitted = net(Convolutional, max_epochs=6)
    aggregate = rounds(unfitted, n_rounds=n_rounds, local_epochs=3)
    # Rows of double precision, as most are.
    aggregate.fit(X.astype(np.float64), labels[y], nodes=nodes)
    np.testing.assert_array_equal(aggregate.classes_, np.unique(labels))
    assert aggregate.score(X_test, labels[y_test]) > 0.9
    assert not hasattr(unfitted, "module_") and unfitted.classes is None


def test_labels_that_outputs_cannot_stand_for():
    X, y, nodes, _, _ = digits()
    for unfitted, message in (
        (net(module__n_outputs=5), "5 outputs, which cannot stand for the 3 labels"),
        (net(classes=["one", "two", "ten"]), r"do not hold the labels \['three'\]"),
    ):
        for n_rounds in (0, 1):
            with pytest.raises(ValueError, match=message):
                rounds(unfitted, n_rounds=n_rounds).fit(X, NAMES[y], nodes=nodes)


def test_outputs_without_rows_are_no_classes():
    X, y, nodes, X_test, _ = digits()
    for n_rounds in (0, 1):
        aggregate = rounds(net(module__n_outputs=10), n_rounds=n_rounds)
        aggregate.fit(X, y, nodes=nodes)
        np.testing.assert_array_equal(aggregate.classes_, [0, 1, 2])
        proba = aggregate.predict_proba(X_test)
        assert proba.shape == (len(X_test), 3)
        np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-5)


def test_nodes_of_one_class_learn_the_others_in_rounds():
    X, y, _, X_test, y_test = digits()
    nodes = np.where(y == 2, 1, np.where(np.arange(len(y)) % 2, 0, 2))
    simulated = ModelAveragingAggregator(net(Convolutional), random_state=0)
    simulated.fit(X, y, nodes=nodes)  # node 1 has a constant model
    np.testing.assert_array_equal(simulated.classes_, [0, 1, 2])
    aggregate = rounds(simulated.estimators_, n_rounds=15, local_epochs=1)
    aggregate.fit(X, y, nodes=nodes)
    assert aggregate.score(X_test, y_test) > 0.9


@pytest.mark.parametrize("common", [True, False])
@pytest.mark.parametrize("n_rounds", [0, 1])
def test_same_seed_same_result(common, n_rounds):
    X, y, nodes, X_test, _ = digits()

    def proba(seed):
        aggregate = rounds(
            net(Convolutional),
            n_rounds=n_rounds,
            common_init=common,
            random_state=seed,
        )
        return aggregate.fit(X, y, nodes=nodes).predict_proba(X_test)

    one = proba(0)
    torch.manual_seed(5)  # the generator of all is of no importance
    np.testing.assert_array_equal(one, proba(0))
    assert not np.array_equal(one, proba(1))


@pytest.mark.filterwarnings("ignore:.*worker stopped while some jobs:UserWarning")
@pytest.mark.slow
def test_workers_train_as_this_process_does():
    class Scripted(Convolutional):
        """What a script or a notebook defines: no worker can import it."""

    X, y, nodes, X_test, _ = digits(n_nodes=2)

    def proba(n_jobs):
        simulated = ModelAveragingAggregator(
            net(Scripted), n_jobs=n_jobs, random_state=0
        )
        simulated.fit(X, y, nodes=nodes)
        trained = rounds(simulated.estimators_, n_rounds=1, n_jobs=n_jobs)
        trained.fit(X, y, nodes=nodes)
        assert all(isinstance(n.module_, Scripted) for n in simulated.estimators_)
        return np.stack([a.predict_proba(X_test) for a in (simulated, trained)])

    # Sums of several threads are rounded otherwise.
    np.testing.assert_allclose(proba(2), proba(None), atol=1e-4)


class Unreliable(type(net())):
    """Fails to train where a pixel says so, or goes astray."""

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
    assert [entry["left_out"] for entry in aggregate.history_] == [["east"]] * 3
    assert set(aggregate.history_[0]["loss"]) == {"north", "south"}
    assert aggregate.score(X_test, y_test) > 0.8
    X[:, 0] = mark
    with pytest.raises(RuntimeError, match=f"Every node failed.*'north'.*{message}"):
        rounds(named).fit(X, y, nodes=nodes)


def test_without_a_rate_nets_have_their_own():
    X, y, nodes, _, _ = digits()
    changes = {}
    for lr in (1e-6, 0.2):
        nets = fitted(net(lr=lr, max_epochs=1), X, y, nodes)
        aggregate = rounds(nets, n_rounds=1, learning_rate=None)
        (entry,) = aggregate.fit(X, y, nodes=nodes).history_
        assert entry["learning_rates"] is None
        changes[lr] = entry["change"]
    assert changes[1e-6] < 1e-3 < changes[0.2]


def test_lazy_layers_and_modules_that_cannot_be_traced():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.hidden = nn.LazyLinear(12)
            self.output = nn.LazyLinear(3)

        def forward(self, X):
            if X.sum() > 1e9:  # depends on values
                return X[:, :3]
            return self.output(torch.relu(self.hidden(X)))

    X, y, nodes, X_test, y_test = digits()
    aggregate = rounds(net(Odd)).fit(X, NAMES[y], nodes=nodes)
    assert aggregate.network_ is None
    assert aggregate.score(X_test, NAMES[y_test]) > 0.9


# ---- scikit-learn's protocols, and the other yardsticks -----------------------


def test_clone_pickle_search_and_pipeline():
    X, y, nodes, X_test, y_test = digits()
    nets = fitted(net(Convolutional), X, y, nodes)
    search = GridSearchCV(
        rounds(nets), {"n_rounds": [0, 1], "decay": [0.25, 1.0]}, cv=2
    )
    search.fit(X, y, nodes=nodes)
    best = search.best_estimator_
    assert all(a is b for a, b in zip(best.estimators_, nets, strict=True))
    for copy in (pickle.loads(pickle.dumps(best)), clone(best).fit(X, y, nodes=nodes)):
        np.testing.assert_allclose(
            copy.predict_proba(X_test), best.predict_proba(X_test), atol=1e-5
        )
    pipe = make_pipeline(StandardScaler(), rounds(net(Convolutional)))
    pipe.fit(X, y, modelaveragingaggregator__nodes=nodes)
    assert pipe.score(X_test, y_test) > 0.9


def test_ensembles_and_students_of_nets():
    X, y, nodes, X_test, y_test = digits()
    double = X.astype(np.float64)
    piped = make_pipeline(StandardScaler(), net())
    for local in (net(Convolutional), piped):
        labels = NAMES if local is not piped else np.arange(3)
        ensemble = EnsembleAggregator(local, random_state=0)
        ensemble.fit(double, labels[y], nodes=nodes)
        assert ensemble.score(X_test.astype(np.float64), labels[y_test]) > 0.9
        again = clone(ensemble).fit(double, labels[y], nodes=nodes)
        np.testing.assert_array_equal(
            ensemble.predict_proba(X_test), again.predict_proba(X_test)
        )
    members = [
        LogisticRegression().fit(X[nodes == k], NAMES[y[nodes == k]]) for k in (0, 1)
    ]
    students = [
        DistillationAggregator(members, student=net(), random_state=seed).fit(double)
        for seed in (0, 0, 1)
    ]
    assert students[0].score(X_test, NAMES[y_test]) > 0.8
    one, same, other = (student.predict_proba(X_test) for student in students)
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)
    with torch.no_grad():
        logits = students[0].to_module()(torch.as_tensor(X_test))
    np.testing.assert_allclose(logits.softmax(1).numpy(), one, atol=1e-5)


@pytest.mark.parametrize("n_rounds", [0, 1])
@pytest.mark.parametrize("what", ["conv.weight", "norm.running_var"])
def test_what_is_not_finite_names_node_and_parameter(what, n_rounds):
    X, y, nodes, _, _ = digits()
    nets = fitted(net(Convolutional), X, y, nodes)
    with torch.no_grad():
        nets[1].module_.state_dict()[what].view(-1)[0] = np.nan
    members = list(zip(["north", "east", "south"], nets, strict=True))
    match = f"Node 'east': {what} of the module has 1 values that are not finite"
    with pytest.raises(ValueError, match=match):
        ModelAveragingAggregator(members, n_rounds=n_rounds).fit(X, y, nodes=nodes)
    with pytest.raises(ValueError, match=match):
        EnsembleAggregator(members).fit()
    with pytest.raises(ValueError, match=match):
        DistillationAggregator(members).fit(X)


def test_a_mask_of_infinities_is_no_fault():
    class Masked(Convolutional):
        def __init__(self):
            super().__init__()
            self.register_buffer("mask", torch.tensor([0.0, -float("inf")]))

    X, y, nodes, X_test, _ = digits()
    nets = fitted(net(Masked), X, y, nodes)
    average = ModelAveragingAggregator(nets).fit()
    assert average.to_module().mask.tolist() == [0.0, -float("inf")]
    EnsembleAggregator(nets).fit().predict(X_test)


# ---- torch's own generator ----------------------------------------------------


class Dropping(nn.Sequential):
    """With dropout, and perhaps an error at its first rows in training."""

    def __init__(self, n_outputs=3, broken=False):
        hidden = [nn.Linear(64, 8), nn.ReLU(), nn.Dropout(0.5)]
        super().__init__(*hidden, nn.Linear(8, n_outputs))
        self.broken = broken

    def forward(self, X):
        if self.broken and self.training:
            raise RuntimeError("out of order")
        return super().forward(X)


GENERATORS = {
    "average": lambda nets, rows: ModelAveragingAggregator(nets).fit(),
    "rounds": lambda nets, rows: rounds(nets).fit(*rows),
    "simulation": lambda nets, rows: ModelAveragingAggregator(net(Dropping)).fit(*rows),
    "simulated rounds": lambda nets, rows: rounds(net(Dropping)).fit(*rows),
    "convolutional": lambda nets, rows: (
        rounds(net(Convolutional)).fit(*rows).predict_proba(rows[0])
    ),
    "ensemble": lambda nets, rows: EnsembleAggregator(nets).fit(*rows).predict(rows[0]),
    "distillation": lambda nets, rows: DistillationAggregator(nets).fit(*rows),
    "pfnm": lambda nets, rows: PFNMAggregator(nets, n_rounds=2).fit(*rows),
    "pfnm stream": lambda nets, rows: (
        PFNMAggregator(nets).fit().update([("0", nets[1])]).to_module()
    ),
    "gems": lambda nets, rows: (
        GEMSMLPAggregator(nets, random_state=0).fit(*rows).to_module()
    ),
}


@pytest.mark.parametrize("way", GENERATORS)
def test_the_generator_of_torch_is_left_as_it_was(way):
    X, y, nodes, _, _ = digits()
    nets = fitted(net(Dropping, max_epochs=1), X, y, nodes)
    before = torch.random.get_rng_state()
    GENERATORS[way](nets, (X, y, nodes))
    assert torch.equal(torch.random.get_rng_state(), before)


def test_the_generator_of_torch_is_left_where_nodes_fail():
    X, y, nodes, _, _ = digits()
    nets = fitted(net(Dropping, max_epochs=1), X, y, nodes)
    nets[1].module_.broken = True
    before = torch.random.get_rng_state()
    with pytest.warns(UserWarning, match="out of order"):
        rounds(nets).fit(X, y, nodes)
    assert torch.equal(torch.random.get_rng_state(), before)
    for model in nets:
        model.module_.broken = True
    with pytest.raises(RuntimeError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rounds(nets).fit(X, y, nodes)
    with pytest.raises(RuntimeError):
        PFNMAggregator(nets, n_rounds=2).fit(X, y, nodes)
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize("module", ["dense", "normalised", "convolutional"])
def test_nets_of_dense_layers_that_started_apart_draw_a_warning(module):
    X, y, nodes, _, _ = digits()
    given = dict(MODULES[module])
    if module != "convolutional":
        given["module__width"] = 24
    ModelAveragingAggregator(fitted(net(**given), X, y, nodes)).fit()
    apart = []
    with torch.random.fork_rng():
        for k in range(2):
            torch.manual_seed(k)
            apart.append(net(**given).fit(X[nodes == k], y[nodes == k]))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ModelAveragingAggregator(apart).fit()
    kinds = [warning.category for warning in caught]
    # Neither alignment nor PFNM is for modules that are no chains of dense layers.
    assert kinds == ([] if module == "convolutional" else [StartedApartWarning])
