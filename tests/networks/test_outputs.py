# SPDX-License-Identifier: BSD-3-Clause
"""Outputs of a net, and the weights that are theirs, are found by running it."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("skorch")

from helpers.nets import make_net  # noqa: E402
from torch import nn  # noqa: E402

from skgems import EnsembleAggregator, ModelAveragingAggregator  # noqa: E402
from skgems.networks import output_parameters  # noqa: E402
from skgems.steps import Backbone  # noqa: E402

F = nn.functional

D = 6  # features
C = 4  # classes, and units of the hidden layers, so that shapes do not tell them apart
X = np.random.RandomState(0).standard_normal((40, D)).astype(np.float32)


class Head(nn.Module):
    """Its last layer is defined first."""

    def __init__(self, end=None):
        super().__init__()
        self.head = nn.Linear(C, C)
        self.body = nn.Linear(D, C)
        self.end = end or nn.Identity()

    def forward(self, x):
        return self.end(self.head(F.gelu(self.body(x))))


class Untraced(Head):
    """What it does depends on the rows."""

    def forward(self, x):
        if float(x.detach().abs().max()) > 1e9:
            x = x / 2
        return super().forward(x)


class WideAndDeep(nn.Module):
    """Two branches, both of which end with outputs."""

    def __init__(self):
        super().__init__()
        self.wide = nn.Linear(D, C)
        self.deep = nn.Linear(8, C)
        self.body = nn.Linear(D, 8)

    def forward(self, x):
        return self.wide(x) + self.deep(torch.relu(self.body(x)))


class Recurrent(nn.Module):
    """A recurrent layer over three steps of two numbers."""

    def __init__(self):
        super().__init__()
        self.output = nn.Linear(C, C)
        self.lstm = nn.LSTM(2, C, batch_first=True)

    def forward(self, x):
        return self.output(self.lstm(x.view(-1, 3, 2))[0][:, -1])


class Attention(nn.Module):
    """A transformer over tokens, the first of which is the result."""

    def __init__(self):
        super().__init__()
        self.output = nn.Linear(8, C)
        self.embedding = nn.Embedding(17, 8)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

    def forward(self, x):
        return self.output(self.layer(self.embedding(x))[:, 0])


class Tied(nn.Module):
    """An output layer whose weights are those of the embedding."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(C, 8)
        self.output = nn.Linear(8, C)
        self.output.weight = self.embedding.weight

    def forward(self, x):
        return self.output(torch.tanh(self.embedding(x).mean(1)))


def normalized():
    return nn.Sequential(nn.Linear(D, C), nn.ReLU(), nn.Linear(C, C), nn.BatchNorm1d(C))


def convolution():
    parts = nn.Unflatten(1, (1, D)), nn.Conv1d(1, C, 3), nn.Tanh(), nn.Conv1d(C, C, 1)
    return nn.Sequential(*parts, nn.AdaptiveAvgPool1d(1), nn.Flatten())


HEAD = {"head.weight", "head.bias"}
OUTPUTS = {
    "defined first": (Head, HEAD),
    "softmax": (lambda: Head(nn.Softmax(-1)), HEAD),
    "log-softmax": (lambda: Head(nn.LogSoftmax(-1)), HEAD),
    "untraced": (Untraced, HEAD),
    "untraced softmax": (lambda: Untraced(nn.Softmax(-1)), HEAD),
    "wide and deep": (
        WideAndDeep,
        {"wide.weight", "wide.bias", "deep.weight", "deep.bias"},
    ),
    "recurrent": (Recurrent, {"output.weight", "output.bias"}),
    "attention": (Attention, {"output.weight", "output.bias"}),
    # A row of the embedding moves all outputs.
    "tied": (Tied, {"output.bias"}),
    "normalized": (normalized, {"2.weight", "2.bias", "3.weight", "3.bias"}),
    "convolution": (convolution, {"3.weight", "3.bias"}),
}


def initialized(build):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return make_net(build(), classes=range(C)).initialize()


@pytest.mark.parametrize("kind", OUTPUTS)
def test_the_weights_of_outputs_are_those_that_move_one_output_alone(kind):
    build, expected = OUTPUTS[kind]
    net = initialized(build)
    found = {id(parameter) for parameter in output_parameters(net)}
    names = {n for n, p in net.module_.named_parameters() if id(p) in found}
    assert names == expected


@pytest.mark.parametrize("end", [None, nn.Softmax(-1)])
def test_two_outputs_are_not_taken_for_two_units(end):
    class Pair(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(2, 2)
            self.body = nn.Linear(D, 2)
            self.end = end or nn.Identity()

        def forward(self, x):
            return self.end(self.head(F.gelu(self.body(x))))

    net = initialized(Pair)
    found = {id(parameter) for parameter in output_parameters(net)}
    assert found == {id(parameter) for parameter in net.module_.head.parameters()}


@pytest.mark.parametrize("kind", ["defined first", "untraced", "wide and deep"])
def test_rows_of_unseen_classes_are_not_averaged(kind):
    build, names = OUTPUTS[kind]
    nets = [initialized(build) for _ in range(2)]
    seen = [[0, 1], [2, 3]]
    with torch.no_grad():
        for k, net in enumerate(nets):
            net.classes_inferred_ = np.array(seen[k])
            for parameter in net.module_.parameters():
                parameter.fill_(k)
    module = ModelAveragingAggregator(nets).fit().to_module()
    for name, parameter in module.named_parameters():
        by_class = (
            parameter.detach().flatten(1).mean(1)
            if parameter.ndim > 1
            else (parameter.detach())
        )
        expected = [0, 0, 1, 1] if name in names else [0.5] * len(by_class)
        assert by_class.tolist() == expected


class Picky(nn.Module):
    """Takes rows of a form that nothing suggests, and cannot be traced."""

    def __init__(self):
        super().__init__()
        self.body = nn.Linear(3, 8)
        self.head = nn.Linear(8, C)

    def forward(self, x):
        if x.shape[1:] != (D, 7):
            raise ValueError("takes 6 steps in 7 places")
        return self.head(torch.relu(self.body(x[:, 0, :3])))


def test_weights_of_outputs_that_cannot_be_found_are_an_error():
    nets = [initialized(Picky) for _ in range(2)]
    rows = np.zeros((5, D, 7), dtype=np.float32)
    assert EnsembleAggregator(nets).fit().predict(rows).shape == (5,)
    assert ModelAveragingAggregator(nets).fit().predict(rows).shape == (5,)
    nets[1].classes_inferred_ = np.array([0, 1])
    with pytest.raises(ValueError, match="Node '0': .* which weights of Picky belong"):
        ModelAveragingAggregator(nets).fit()
    nets[0].set_params(classes=None)
    nets[0].classes_inferred_ = np.arange(C)
    with pytest.raises(ValueError, match="Node '0': the number of outputs of Picky is"):
        EnsembleAggregator(nets).fit()


def test_a_backbone_finds_the_last_layer_wherever_it_is_defined():
    for kind in ("defined first", "untraced", "untraced softmax"):
        net = initialized(OUTPUTS[kind][0])
        features = Backbone(net).fit_transform(X)
        with torch.no_grad():
            expected = F.gelu(net.module_.body(torch.as_tensor(X))).numpy()
        np.testing.assert_allclose(features, expected, atol=1e-6)
