# SPDX-License-Identifier: BSD-3-Clause
"""GEMSMLPAggregator around torch modules, in skorch's nets."""

from __future__ import annotations

import copy
import pickle
from functools import cache

import numpy as np
import pytest
from helpers.estimators import LABELS, ON_FEW_UNITS, federated, fit_once
from helpers.parts import with_hidden_layers
from sklearn.base import clone
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgems import (
    GEMSLogisticAggregator,
    GEMSMLPAggregator,
    ModelAveragingAggregator,
    PFNMAggregator,
)
from skgems.gems import HiddenLayers, Moments, Spaces
from skgems.local import class_weight_of
from skgems.networks import read_network, to_module
from skgems.spaces import Sampled

torch = pytest.importorskip("torch")
skorch = pytest.importorskip("skorch")
nn = torch.nn
F = nn.functional

DEVICES = [
    "cpu",
    pytest.param(
        "cuda",
        marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"),
    ),
]

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


def net_of(module, classes=None, kind=None, **parameters):
    """An initialized skorch net around a module, which it takes as it is."""
    settings = {
        "criterion": nn.CrossEntropyLoss,
        "optimizer": torch.optim.Adam,
        "lr": 1e-2,
        "batch_size": 32,
        "train_split": None,
        "verbose": 0,
        **parameters,
    }
    if classes is not None:
        settings["classes"] = list(classes)
    return (kind or skorch.NeuralNetClassifier)(module, **settings).initialize()


def trained(module, X, y, classes=None, epochs=30, **parameters):
    """A net fitted to labels that are columns of its module's outputs."""
    torch.manual_seed(0)
    net = net_of(copy.deepcopy(module), classes, **parameters)
    net.max_epochs = epochs
    return net.partial_fit(X.astype(np.float32), y)


def networks(dataset, hidden=(12,), activation="relu"):
    """Scikit-learn's networks of the nodes, one width or a width each."""
    widths = hidden if isinstance(hidden, list) else [hidden] * len(dataset.local_rows)
    kind = MLPClassifier(activation=activation, solver="lbfgs", alpha=0.1, max_iter=500)
    return [
        fit_once(kind.set_params(hidden_layer_sizes=width, random_state=k), X, y)
        for k, (width, (X, y)) in enumerate(
            zip(widths, dataset.local_rows, strict=True)
        )
    ]


def torch_version(clf, wrap=None, **parameters):
    """A skorch net with the weights of an MLPClassifier."""
    network = read_network(clf)
    chain = to_module(network).double()
    parameters = {"classes": network.classes, **parameters}
    return net_of(chain if wrap is None else wrap(chain), **parameters)


def aggregate(dataset, nets, **parameters):
    settings = {"random_state": 0, "local_epochs": 0, "last_layer": QUICK, **parameters}
    settings = with_hidden_layers(settings)
    return GEMSMLPAggregator(nets, **settings).fit(
        dataset.X, dataset.y, nodes=dataset.nodes
    )


def assert_same(one, other, dataset, atol=1e-6):
    np.testing.assert_array_equal(one.classes_, other.classes_)
    np.testing.assert_allclose(
        one.predict_proba(dataset.X_test),
        other.predict_proba(dataset.X_test),
        atol=atol,
    )


def state(net):
    """All that training might alter."""
    tensors = [value.clone() for value in net.module_.state_dict().values()]
    modes = [module.training for module in net.module_.modules()]
    steps = len(net.optimizer_.state), len(net.history)
    parameters = [id(p) for p in net.module_.parameters()]
    return tensors, modes, steps, parameters


def assert_unaltered(net, before):
    tensors, *rest = state(net)
    assert all(torch.equal(a, b) for a, b in zip(tensors, before[0], strict=True))
    assert rest == list(before[1:])


# ---- modules, however they are written ------------------------------------------


class WithDropout(nn.Module):
    """Dropout after every hidden layer, as the paper's networks have."""

    def __init__(self, chain):
        super().__init__()
        layers = [[m, nn.Dropout(0.5)] if i % 2 else [m] for i, m in enumerate(chain)]
        self.chain = nn.Sequential(*sum(layers, []))

    def forward(self, X):
        return self.chain(X)


class Loop(nn.Module):
    """A ModuleList, and a function in a loop."""

    def __init__(self, chain, function=F.relu):
        super().__init__()
        self.function = function
        self.layers = nn.ModuleList(m for m in chain if isinstance(m, nn.Linear))
        self.dropout = nn.Dropout(0.1)  # one module after all layers

    def forward(self, X):
        for layer in self.layers[:-1]:
            X = self.dropout(self.function(layer(X)))
            X = F.dropout(X, training=self.training)
        return self.layers[-1](X)


class SoftmaxInside(nn.Module):
    def __init__(self, chain):
        super().__init__()
        self.chain = chain

    def forward(self, X):
        return torch.softmax(self.chain(X), dim=-1)


class Residual(nn.Module):
    """A connection that goes past the hidden layers."""

    def __init__(self, chain):
        super().__init__()
        self.chain = chain
        self.past = nn.Linear(chain[0].in_features, chain[-1].out_features)

    def forward(self, X):
        return self.chain(X) + self.past(X)


MERGED = {"epsilon_hidden": 0.3, "max_units": 10, "last_layer": LENIENT}


@cache
def aggregate_of_sklearn(hidden):
    """The aggregate of scikit-learn's networks, which no test may alter."""
    dataset = federated("homogeneous")
    return aggregate(dataset, networks(dataset, hidden), **MERGED)


@pytest.mark.parametrize(
    ("wrap", "parameters", "hidden"),
    [
        (None, {}, (8,)),
        (WithDropout, {}, (8,)),
        (Loop, {}, (7, 6, 5)),
        (SoftmaxInside, {"criterion": nn.NLLLoss}, (8,)),
    ],
)
def test_sklearn_and_torch_nets_of_the_same_weights_agree(wrap, parameters, hidden):
    dataset = federated("homogeneous")
    nets = [torch_version(clf, wrap, **parameters) for clf in networks(dataset, hidden)]
    one = aggregate_of_sklearn(hidden)
    other = aggregate(dataset, nets, **MERGED)
    assert_same(one, other, dataset)
    for a, b in zip(one.coefs_, other.coefs_, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6 * np.abs(a).max())
    assert one.score(dataset.X_test, dataset.y_test) > 0.7


@pytest.mark.parametrize(
    "activation", ["tanh", pytest.param("logistic", marks=pytest.mark.slow)]
)
def test_other_activations(activation):
    dataset = federated("homogeneous")
    locals_ = networks(dataset, hidden=(6,), activation=activation)
    function = {"tanh": torch.tanh, "logistic": torch.sigmoid}[activation]
    nets = [torch_version(clf, lambda chain: Loop(chain, function)) for clf in locals_]
    agg = aggregate(dataset, nets)
    assert agg.activation_ == (activation,)
    assert_same(aggregate(dataset, locals_), agg, dataset)


def test_widths_may_differ():
    dataset = federated("homogeneous")
    locals_ = networks(dataset, hidden=[(6,), (9,), (12,)])
    nets = [torch_version(locals_[0]), locals_[1], torch_version(locals_[2], Loop)]
    agg = aggregate(dataset, nets, epsilon_hidden=0.2)
    (report,) = agg.layer_report_
    assert report["n_in"] == 27
    assert [len(radii) for radii in report["radii"]] == [6, 9, 12]
    assert_same(aggregate(dataset, locals_, epsilon_hidden=0.2), agg, dataset)


def test_a_residual_connection_is_an_error_that_names_the_node():
    dataset = federated("overlapping")
    nets = [torch_version(clf) for clf in networks(dataset)]
    nets[1] = torch_version(networks(dataset)[1], Residual)
    named = list(zip(["north", "east", "south"], nets, strict=True))
    agg = GEMSMLPAggregator(named)
    with pytest.raises(TypeError, match=r"'east'.*residual connection"):
        agg.fit(
            dataset.X,
            dataset.y,
            nodes=np.array(["north", "east", "south"])[dataset.nodes],
        )


# The same net three times has the same rows three times.
@pytest.mark.filterwarnings("ignore:nodes is not given and nodes share classes")
def test_batch_normalisation_is_folded_in():
    dataset = federated("homogeneous")
    module = nn.Sequential(
        nn.BatchNorm1d(6), nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(),
        nn.Linear(16, 10), nn.BatchNorm1d(10), nn.ReLU(), nn.Linear(10, 3),
    )  # fmt: skip
    X, y = (np.concatenate(parts) for parts in zip(*dataset.local_rows, strict=True))
    net = trained(module, X, y)
    net.module_.train()
    before = state(net)
    # Nodes that are alike give their function back, up to the scale of the logits.
    agg = GEMSMLPAggregator(
        [net] * 3,
        hidden_layers=HiddenLayers(epsilon=1e-4),
        local_epochs=0,
        last_layer=GEMSLogisticAggregator(intersection="consensus"),
        random_state=0,
    ).fit(dataset.X, dataset.y)
    assert_unaltered(net, before)
    assert [report["n_in"] for report in agg.layer_report_] == [48, 30]
    assert all(report["n_units"] <= report["n_in"] / 3 for report in agg.layer_report_)
    theirs = net.forward(dataset.X_test.astype(np.float32)).numpy().astype(float)
    theirs -= theirs.mean(axis=1, keepdims=True)
    ours = agg.decision_function(dataset.X_test)
    factor = np.sum(ours * theirs) / np.sum(theirs**2)
    assert factor > 0
    np.testing.assert_allclose(ours, factor * theirs, atol=1e-3 * np.abs(ours).max())


# ---- retraining -----------------------------------------------------------------


# The loop has dropout of both kinds.
@pytest.mark.parametrize(
    "wrap", [pytest.param(WithDropout, marks=pytest.mark.slow), Loop]
)
def test_retraining_helps_and_alters_no_net(wrap):
    dataset = federated("overlapping")
    nets = [torch_version(clf, wrap) for clf in networks(dataset, (6, 6))]
    before = [state(net) for net in nets]
    losses = []
    for epochs in (0, 4):
        agg = aggregate(dataset, nets, local_epochs=epochs, **LOSS_ON_FEW_UNITS)
        losses.append(np.mean(agg.node_scores_["local"]))
    assert losses[1] < 0.9 * losses[0]
    for net, as_it_was in zip(nets, before, strict=True):
        assert_unaltered(net, as_it_was)


class Watch(skorch.callbacks.Callback):
    """Notes what training starts from and where its tensors are."""

    notes: list = []

    def on_train_begin(self, net, X=None, y=None, **kwargs):
        weights = [p.detach().cpu().clone() for p in net.module_.parameters()]
        Watch.notes.append(("start", weights))

    def on_grad_computed(self, net, named_parameters, **kwargs):
        tensors = [t for _, p in named_parameters for t in (p, p.grad)]
        Watch.notes.append(("device", {tensor.device.type for tensor in tensors}))


def assert_upper_layers_are_those_of_the_node(start, local_parameters):
    """Retraining starts where the node's network is, with more inputs of no weight."""
    weight, bias, *last_layer = start
    local_weight, local_bias, *local_last_layer = local_parameters
    assert weight.shape[0] == 5 and weight.shape[1] > 7
    inputs = weight[:, weight.abs().sum(dim=0) > 0]
    assert 5 <= inputs.shape[1] <= 7  # units of the other nodes have no weight
    assert torch.cdist(inputs.T, local_weight.T).min(dim=1).values.max() < 1e-7
    np.testing.assert_allclose(bias, local_bias, atol=1e-7)
    assert len(last_layer) == 2
    for parameter, expected in zip(last_layer, local_last_layer, strict=True):
        np.testing.assert_allclose(parameter, expected, atol=1e-7)


@pytest.mark.parametrize("device", DEVICES)
def test_retraining_starts_from_the_weights_of_the_node_and_stays_on_the_device(device):
    dataset = federated("overlapping")
    nets = [
        torch_version(clf, device=device, callbacks=[Watch()])
        for clf in networks(dataset, (7, 5))
    ]
    Watch.notes.clear()
    # Nothing is merged: the upper layers are the node's own, on more inputs.
    aggregate(
        dataset,
        nets,
        local_epochs=1,
        epsilon_hidden=1e-6,
        max_units=None,
        last_layer=LENIENT,
    )
    starts = [note for kind, note in Watch.notes if kind == "start"]
    assert len(starts) == 6  # three nodes, two hidden layers
    for net, start in zip(nets, starts[:3], strict=True):
        local_parameters = [p.detach().cpu() for p in net.module_.parameters()]
        assert_upper_layers_are_those_of_the_node(start, local_parameters[2:])
    devices = [note for kind, note in Watch.notes if kind == "device"]
    assert devices and all(note == {device} for note in devices)
    for net in nets:
        assert {p.device.type for p in net.module_.parameters()} == {device}


def test_callbacks_that_save_do_not_touch_the_files_of_the_node(tmp_path):
    dataset = federated("homogeneous")
    folder = str(tmp_path)
    saving = [
        skorch.callbacks.Checkpoint(dirname=folder, monitor=None),
        skorch.callbacks.TrainEndCheckpoint(dirname=folder),
        skorch.callbacks.LoadInitState(skorch.callbacks.Checkpoint(dirname=folder)),
    ]
    nets = [torch_version(clf, callbacks=saving) for clf in networks(dataset)]
    nets[0].save_params(f_params=tmp_path / "params.pt")
    files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    agg = aggregate(dataset, nets, local_epochs=2)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == files
    assert agg.score(dataset.X_test, dataset.y_test) > 0.7


def test_a_split_of_its_own_is_no_obstacle():
    """The net holds out rows to watch its loss, as skorch does unless told."""
    dataset = federated("homogeneous")
    split = skorch.dataset.ValidSplit(3)
    stop = skorch.callbacks.EarlyStopping(patience=2)
    nets = [
        torch_version(clf, train_split=split, callbacks=[("stop", stop)])
        for clf in networks(dataset)
    ]
    agg = aggregate(dataset, nets, local_epochs=3)
    assert agg.score(dataset.X_test, dataset.y_test) > 0.7


@pytest.mark.parametrize(
    ("criterion", "wrap"),
    [(nn.NLLLoss, SoftmaxInside), (nn.CrossEntropyLoss, SoftmaxInside)],
)
def test_nets_with_softmax_inside_retrain(criterion, wrap):
    dataset = federated("overlapping")
    nets = [
        torch_version(c, wrap, criterion=criterion) for c in networks(dataset, (6,))
    ]
    losses = [
        np.mean(
            aggregate(dataset, nets, local_epochs=n, **LOSS_ON_FEW_UNITS).node_scores_[
                "local"
            ]
        )
        for n in (0, 4)
    ]
    assert losses[1] < losses[0]


@pytest.mark.slow
def test_determinism_and_threads():
    dataset = federated("overlapping")
    nets = [torch_version(clf, WithDropout) for clf in networks(dataset)]
    first, second, threads = (
        aggregate(dataset, nets, local_epochs=2, n_jobs=n) for n in (None, None, 3)
    )
    for other in (second, threads):
        for a, b in zip(first.coefs_, other.coefs_, strict=True):
            np.testing.assert_array_equal(a, b)


# ---- labels, kinds of nets and what comes out ------------------------------------


def test_string_labels():
    dataset = federated("homogeneous", strings=True)
    numbers = federated("homogeneous")
    locals_ = networks(numbers)
    nets = [torch_version(clf, classes=LABELS[clf.classes_]) for clf in locals_]
    agg = aggregate(dataset, nets, local_epochs=2, last_layer=LENIENT)
    same = aggregate(
        numbers,
        [torch_version(clf) for clf in locals_],
        local_epochs=2,
        last_layer=LENIENT,
    )
    np.testing.assert_array_equal(agg.classes_, LABELS[:3])
    np.testing.assert_array_equal(
        agg.predict(dataset.X_test), LABELS[same.predict(dataset.X_test)]
    )


def test_nodes_that_lack_classes_have_outputs_for_them():
    """Nets have a column for each class, and saw the labels of their rows."""
    dataset = federated("disjoint")
    module = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 6))
    nets = [trained(module, X, y, epochs=20) for X, y in dataset.local_rows]
    X_test = dataset.X_test.astype(np.float32)
    alone = max(np.mean(net.predict(X_test) == dataset.y_test) for net in nets)
    agg = aggregate(dataset, nets, local_epochs=3)
    np.testing.assert_array_equal(agg.classes_, np.arange(6))
    assert agg.score(dataset.X_test, dataset.y_test) > alone + 0.4


@pytest.mark.parametrize("sigmoid", [False, True])
def test_nets_of_one_output_are_merged_with_and_without_a_sigmoid(sigmoid):
    dataset = federated("binary")
    module = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
    criterion = nn.BCEWithLogitsLoss
    if sigmoid:
        module = nn.Sequential(module, nn.Sigmoid())
        criterion = nn.BCELoss
    nets = []
    for X, y in dataset.local_rows:
        torch.manual_seed(0)
        net = net_of(
            copy.deepcopy(module),
            kind=skorch.NeuralNetBinaryClassifier,
            criterion=criterion,
            max_epochs=20,
        )
        nets.append(net.partial_fit(X.astype(np.float32), y.astype(np.float32)))
    before = [state(net) for net in nets]
    agg = aggregate(dataset, nets, local_epochs=2, last_layer=LENIENT)
    assert agg.score(dataset.X_test, dataset.y_test) > 0.95
    assert agg.coefs_[-1].shape[1] == 1
    for net, as_it_was in zip(nets, before, strict=True):
        assert_unaltered(net, as_it_was)


def test_nets_in_pipelines():
    dataset = federated("homogeneous")
    locals_ = networks(dataset)
    pipes = []
    for clf, (X, _) in zip(locals_, dataset.local_rows, strict=True):
        scaler = StandardScaler().fit(X)
        pipe = make_pipeline(scaler, torch_version(clf))
        inner = copy.deepcopy(clf)
        pipes.append((pipe, make_pipeline(scaler, inner)))
    one, other = (aggregate(dataset, [p[i] for p in pipes]) for i in range(2))
    assert_same(one, other, dataset)
    retrained = aggregate(dataset, [p[0] for p in pipes], local_epochs=2)
    assert np.isfinite(retrained.decision_function(dataset.X_test)).all()


def test_the_aggregate_is_pickled_and_leaves_torch():
    dataset = federated("homogeneous")
    nets = [torch_version(clf) for clf in networks(dataset, (6, 6))]
    agg = aggregate(dataset, nets, local_epochs=1)
    again = pickle.loads(pickle.dumps(agg))
    np.testing.assert_array_equal(
        agg.predict_proba(dataset.X_test), again.predict_proba(dataset.X_test)
    )
    plain = agg.to_estimator()
    np.testing.assert_allclose(
        plain.predict_proba(dataset.X_test),
        agg.predict_proba(dataset.X_test),
        atol=1e-6,
    )
    with torch.no_grad():
        logits = agg.to_module()(torch.tensor(dataset.X_test))
    np.testing.assert_allclose(
        torch.softmax(logits, dim=-1), agg.predict_proba(dataset.X_test), atol=1e-6
    )


def test_untrained_nets_are_trained_on_the_rows_of_their_nodes():
    dataset = federated("overlapping")
    module = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 6))
    net = skorch.NeuralNetClassifier(
        module, criterion=nn.CrossEntropyLoss, optimizer=torch.optim.Adam, lr=0.01,
        max_epochs=30, batch_size=32, train_split=None, verbose=0,
    )  # fmt: skip
    agg = GEMSMLPAggregator([net] * 3, random_state=0, local_epochs=1)
    agg.fit(dataset.X.astype(np.float32), dataset.y, nodes=dataset.nodes)
    assert agg.score(dataset.X_test, dataset.y_test) > 0.7
    assert not hasattr(net, "module_")


# ---- a softmax in the module, under a loss that applies another -------------------


class BatchNormed(nn.Module):
    """Normalizes what a chain takes, so that layers cannot be put into the module."""

    def __init__(self, chain):
        super().__init__()
        self.chain = chain
        self.norm = nn.BatchNorm1d(chain[0].in_features, dtype=torch.double)

    def forward(self, X):
        return torch.softmax(self.chain(self.norm(X)), dim=1)


@pytest.mark.parametrize(
    ("wrap", "hidden"), [(SoftmaxInside, (6, 6)), (BatchNormed, (12,))]
)
def test_nets_with_a_softmax_under_cross_entropy_predict_as_they_do(wrap, hidden):
    dataset = federated("homogeneous")
    net = torch_version(networks(dataset, hidden)[0], wrap)
    labels = net.classes_[net.predict_proba(dataset.X_test.copy()).argmax(axis=1)]
    with torch.no_grad():
        proba = net.module_.eval()(torch.tensor(dataset.X_test)).numpy()
    np.testing.assert_array_equal(
        labels, net.classes_[proba.argmax(axis=1)]
    )  # skorch's second softmax changes probabilities only
    assert net.predict_proba(dataset.X_test.copy()).max() < 0.6 < proba.max()
    for agg in (
        PFNMAggregator([net]).fit(),
        PFNMAggregator([net] * 3, random_state=0).fit(),
        ModelAveragingAggregator([net, net]).fit(),
        ModelAveragingAggregator([net, net], align="permutation").fit(),
    ):
        np.testing.assert_array_equal(agg.predict(dataset.X_test), labels)
        np.testing.assert_allclose(agg.predict_proba(dataset.X_test), proba, atol=1e-6)
        plain = agg.to_estimator()
        np.testing.assert_allclose(
            plain.predict_proba(dataset.X_test), proba, atol=1e-6
        )
    nets = [torch_version(clf, wrap) for clf in networks(dataset, hidden)]
    agg = aggregate(dataset, nets, last_layer=LENIENT)
    plain = aggregate(dataset, networks(dataset, hidden), last_layer=LENIENT)
    assert_same(plain, agg, dataset, atol=1e-4)
    assert agg.score(dataset.X_test, dataset.y_test) > 0.7
    owned = np.isin(dataset.y, net.classes_) & (dataset.nodes == 0)
    single = GEMSMLPAggregator([net], random_state=0).fit(
        dataset.X[owned], dataset.y[owned]
    )
    local_labels = net.classes_[net.predict_proba(dataset.X[owned]).argmax(axis=1)]
    assert np.mean(single.predict(dataset.X[owned]) == local_labels) > 0.95


def test_rounds_and_retraining_keep_the_softmax_that_the_loss_sees():
    dataset = federated("overlapping")
    nets = [
        torch_version(
            clf, BatchNormed, lr=10.0, optimizer=torch.optim.SGD, batch_size=-1
        )
        for clf in networks(dataset)
    ]
    for net in nets:
        net.module_.eval()
    agg = PFNMAggregator(nets[:1], n_rounds=2, local_epochs=3, random_state=0)
    agg.fit(dataset.X[dataset.nodes == 0], dataset.y[dataset.nodes == 0])
    # As its own trainer does, from the weights that it reads.
    network = read_network(nets[0])
    chain = torch_version(
        nets[0], SoftmaxInside, lr=1.0, optimizer=torch.optim.SGD, batch_size=-1
    )
    columns = np.searchsorted(network.classes, dataset.y[dataset.nodes == 0])
    chain.max_epochs = 3
    chain.partial_fit(dataset.X[dataset.nodes == 0], columns)
    with torch.no_grad():
        expected = chain.module_.eval()(torch.tensor(dataset.X_test)).numpy()
    np.testing.assert_allclose(agg.predict_proba(dataset.X_test), expected, atol=1e-6)


def test_class_weights_of_a_loss_are_known():
    weights = torch.tensor([1.0, 2.0, 3.0])
    weighted = net_of(nn.Linear(4, 3), range(3), criterion__weight=weights)
    assert class_weight_of(weighted) == [[0, 0.5], [1, 1.0], [2, 1.5]]
    equal_weights = net_of(nn.Linear(4, 3), range(3), criterion__weight=torch.ones(3))
    assert class_weight_of(equal_weights) is None
    assert class_weight_of(net_of(nn.Linear(4, 3), range(3))) is None
    dataset = federated("homogeneous")
    X, y = dataset.local_rows[0]
    fitted = trained(nn.Linear(6, 3), X, y, epochs=1, criterion__weight=weights)
    assert class_weight_of(fitted) == [[0, 0.5], [1, 1.0], [2, 1.5]]
