# SPDX-License-Identifier: BSD-3-Clause
"""Summaries of modules that are no chain of layers, and the net they are put in."""

from __future__ import annotations

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("skorch")

from helpers.nets import Convolutional, make_net  # noqa: E402
from sklearn.datasets import load_digits  # noqa: E402
from sklearn.linear_model import LogisticRegression  # noqa: E402
from skorch import NeuralNetBinaryClassifier  # noqa: E402
from torch import nn  # noqa: E402

from skgems import GEMSLogisticAggregator, ModelAveragingAggregator  # noqa: E402
from skgems.asking import Message  # noqa: E402
from skgems.parties import Summary  # noqa: E402

X, Y = load_digits(n_class=3, return_X_y=True)
X = (X / 16).astype(np.float32)
NAMES = ["bonn", "lyon", "pisa"]
NODES = np.array(NAMES)[np.arange(len(Y)) % 3]


class Gelu(nn.Module):
    """Dense layers with an activation that no chain of layers has."""

    activation = staticmethod(nn.functional.gelu)

    def __init__(self, width=8, n_outputs=3):
        super().__init__()
        self.hidden = nn.Linear(64, width)
        self.norm = nn.BatchNorm1d(width)
        self.output = nn.Linear(width, n_outputs)

    def forward(self, X):
        return self.output(self.activation(self.norm(self.hidden(X))))


class Silu(Gelu):
    activation = staticmethod(nn.functional.silu)


class Binary(Gelu):
    def forward(self, X):
        return super().forward(X).squeeze(-1)


def fitted(net, name, n_classes=3):
    rows = (name == NODES) & (n_classes > Y)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        is_binary = isinstance(net, NeuralNetBinaryClassifier)
        return net.fit(X[rows], Y[rows].astype(np.float32 if is_binary else np.int64))


def summary_of(net, name, agg=None, n_classes=3):
    rows = (name == NODES) & (n_classes > Y)
    agg = agg or ModelAveragingAggregator()
    return agg.summarize(net, X[rows], Y[rows], name=name)


@pytest.fixture(scope="module")
def nets():
    return {name: fitted(make_net(Gelu, max_epochs=1), name) for name in NAMES}


@pytest.fixture(scope="module")
def summaries(nets):
    return [summary_of(net, name) for name, net in nets.items()]


@pytest.mark.parametrize("node_weight", ["equal", "n_samples", "class_counts"])
def test_summaries_of_modules_are_averaged_as_the_nets_are(
    nets, summaries, node_weight, tmp_path
):
    paths = []
    for summary in summaries:
        paths.append(tmp_path / f"{summary.name}.safetensors")
        summary.save(paths[-1])
    expected = ModelAveragingAggregator(list(nets.items()), node_weight=node_weight)
    expected.fit(X, Y, nodes=NODES)
    template = make_net(Gelu)
    for members in ([template, *summaries], [*paths, template]):
        agg = ModelAveragingAggregator(members, node_weight=node_weight).fit()
        assert agg.node_names_ == NAMES
        np.testing.assert_array_equal(agg.predict_proba(X), expected.predict_proba(X))
        state = agg.to_estimator().module_.state_dict()
        for path, tensor in expected.net_.module_.state_dict().items():
            assert torch.equal(state[path], tensor), path
    assert not hasattr(template, "module_")


def test_a_fitted_net_beside_summaries_is_a_node_and_their_module(nets, summaries):
    expected = ModelAveragingAggregator(list(nets.items())).fit()
    agg = ModelAveragingAggregator([("bonn", nets["bonn"]), *summaries[1:]]).fit()
    assert agg.node_names_ == NAMES
    np.testing.assert_array_equal(agg.predict_proba(X), expected.predict_proba(X))


@pytest.mark.parametrize("kind", ["images", "binary", "half", "labels", "fewer"])
def test_modules_of_any_kind_come_back(kind):
    n_classes = 2 if kind in ("binary", "fewer") else 3
    net = {
        "images": make_net(Convolutional),
        "binary": NeuralNetBinaryClassifier(
            Binary, module__n_outputs=1, max_epochs=3, train_split=None, verbose=0
        ),
        "half": make_net(Gelu, max_epochs=1),
        "labels": make_net(Gelu, classes=["nil", "one", "two"]),
        "fewer": make_net(Gelu),
    }[kind]
    template = copy.deepcopy(net)
    net = fitted(net, "lyon", n_classes)
    y = Y.astype(object)
    if kind == "half":
        net.module_.half()
    if kind == "labels":
        y = np.array(["nil", "one", "two"])[Y]
    rows = (NODES == "lyon") & (n_classes > Y)
    summary = ModelAveragingAggregator().summarize(
        net, X[rows], y[rows] if kind == "labels" else Y[rows], name="lyon"
    )
    seen = summary.network.classes[summary.network.seen]
    np.testing.assert_array_equal(seen, np.unique(y[rows]))
    agg = ModelAveragingAggregator([template, summary]).fit()
    expected = ModelAveragingAggregator([("lyon", net)]).fit()
    np.testing.assert_array_equal(agg.classes_, expected.classes_)
    np.testing.assert_allclose(
        agg.predict_proba(X), expected.predict_proba(X), atol=1e-3
    )


def test_a_report_scores_the_nets_of_summaries(nets, summaries):
    agg = ModelAveragingAggregator([make_net(Gelu), *summaries]).fit()
    expected = ModelAveragingAggregator(list(nets.items())).fit()
    nodes = agg.report(X, Y, nodes=NODES).nodes
    expected_nodes = expected.report(X, Y, nodes=NODES).nodes
    for column in ("node", "local_accuracy", "aggregate_accuracy"):
        assert nodes[column] == expected_nodes[column]


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ((), "'bonn' has the numbers of a module, but .* has 0 unfitted nets"),
        ((make_net(Gelu), make_net(Gelu)), "estimators has 2 unfitted nets"),
        ((make_net(Silu),), "Node 'bonn': .* gives other outputs than at the node"),
        ((make_net(Gelu, module__width=9),), "Node 'bonn': .* names or shapes"),
        ((make_net(Gelu, module__n_outputs=4),), "Node 'bonn': .* names or shapes"),
    ],
)
def test_a_net_of_another_module_is_refused(summaries, template, words):
    with pytest.raises(ValueError, match=words):
        ModelAveragingAggregator([*template, *summaries]).fit()


def test_methods_that_merge_layers_still_refuse_modules(nets, summaries):
    with pytest.raises(TypeError, match="Node 'lyon': operation 'gelu'"):
        summary_of(nets["lyon"], "lyon", GEMSLogisticAggregator())
    first, *_ = summaries
    content = dict(first.message.content, method="GEMSLogisticAggregator")
    with pytest.raises(ValueError, match="with "):
        GEMSLogisticAggregator(
            [make_net(Gelu), Summary(Message.of("join", **content))]
        ).fit()


def test_numbers_that_are_not_finite_are_refused_at_the_node(nets):
    net = copy.deepcopy(nets["lyon"])
    with torch.no_grad():
        net.module_.output.bias[0] = torch.nan
    with pytest.raises(ValueError, match="Node 'lyon': output.bias of the module"):
        summary_of(net, "lyon")


def _without(name):
    return lambda network: network.pop(name)


def _with(**fields):
    return lambda network: network.update(fields)


def _first_array(change):
    def wrong(network):
        network["arrays"] = [change(network["arrays"][0]), *network["arrays"][1:]]

    return wrong


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_without("names"), "network.names is missing"),
        (_without("arrays"), "network.arrays is missing"),
        (_with(names=["a", "a"]), "network.names are not a name of its own"),
        (_with(names=["a"]), "network.arrays are not one for each name"),
        (_with(names=[]), "network.names are not a name"),
        (_with(names=[1, 2]), "network.names are not a name"),
        (_with(coefs=[np.ones((2, 2))]), "network.coefs is not there where output"),
        (_with(n_features=3), "network.n_features is not there"),
        (_with(feature_names=["a"]), "network.feature_names is not there"),
        (_with(output="softmax"), "network.(activation|arrays)"),
        (_first_array(lambda array: array * np.nan), "arrays.0. has .* not finite"),
        (_with(arrays=["a", "b"]), "network.arrays.0. is not an array"),
        (_first_array(lambda array: array[None, None, None]), "of 5 dimensions; 4 are"),
        (_with(outputs=np.full((2, 2), np.inf)), "outputs has .* not finite"),
        (_with(seen=np.zeros(3, dtype=bool)), "seen is true of no class"),
        (_with(code="import os"), "network.code is an unknown field"),
    ],
)
def test_what_arrives_is_checked(summaries, change, words):
    content = copy.deepcopy(dict(summaries[0].message.content))
    network = dict(content["describe"]["network"])
    change(network)
    content["describe"] = dict(content["describe"], network=network)
    with pytest.raises(ValueError, match=words):
        Summary(Message.of("join", **content))


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (lambda array: array * np.inf, "gives other outputs"),
        (lambda array: array[:-1], "names or shapes"),
        (lambda array: np.ones(array.shape, dtype=np.int64), "has the dtype int64"),
    ],
)
def test_numbers_that_are_not_those_of_the_module_are_refused(summaries, array, words):
    content = copy.deepcopy(dict(summaries[0].message.content))
    _first_array(array)(content["describe"]["network"])
    summary = Summary(Message.of("join", **content))
    with pytest.raises(ValueError, match=f"Node 'bonn': .*{words}"):
        ModelAveragingAggregator([make_net(Gelu), summary]).fit()


def test_a_classifier_without_a_module_is_no_template(summaries):
    with pytest.raises(ValueError, match="has 0 unfitted nets"):
        ModelAveragingAggregator([LogisticRegression(), *summaries]).fit()
