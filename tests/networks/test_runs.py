# SPDX-License-Identifier: BSD-3-Clause
"""Readings and digests are checked by running the module on made-up rows."""

from __future__ import annotations

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("skorch")

from helpers.nets import make_net  # noqa: E402
from scipy.special import softmax  # noqa: E402
from torch import nn  # noqa: E402

from skgems import (  # noqa: E402
    GEMSLogisticAggregator,
    ModelAveragingAggregator,
    PFNMAggregator,
)
from skgems.networks import read_network  # noqa: E402
from skgems.steps import Backbone  # noqa: E402

F = nn.functional

D = 6  # features
C = 3  # classes
X = np.random.RandomState(0).standard_normal((60, D)).astype(np.float32)
Y = np.random.RandomState(1).randint(C, size=60)


class Net(nn.Module):
    """Two layers, with a function between them, and attributes that a forward uses."""

    def __init__(self, function=torch.relu, scale=1.0, flag=False):
        super().__init__()
        self.first = nn.Linear(D, 8)
        self.last = nn.Linear(8, C)
        self.function = function
        self.scale = scale
        self.flag = flag

    def forward(self, x):
        x = self.function(self.first(x * self.scale))
        if self.flag:
            x = x.flip(1)
        return self.last(x)


def initialized(module, **parameters):
    """A net with the same first weights each time."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = make_net(module, classes=range(C), **parameters)
        if not isinstance(module, nn.Module):
            return net.initialize()
        for parameter in module.parameters():
            nn.init.normal_(parameter)
        return net.initialize()


def triple(module, inputs, output):
    return 3 * output


def shift_input(module, inputs):
    return (inputs[0] + 1,)


def with_hook(net, register="register_forward_hook", hook=triple):
    getattr(net.module_.first, register)(hook)
    return net


def with_replaced_forward(net):
    first = net.module_.first
    first.forward = lambda x: F.linear(x, first.weight)
    return net


class Autocast(Net):
    """Computes with fewer digits than its weights have."""

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return super().forward(x)


def random_dropout(x):
    return F.dropout(torch.relu(x), 0.5, training=True)


READ_OTHERWISE = {
    "hook": (lambda: with_hook(initialized(Net)), "'first'.* has a forward hook"),
    "hook of input": (
        lambda: with_hook(initialized(Net), "register_forward_pre_hook", shift_input),
        "'first'.* has a forward hook",
    ),
    "replaced": (
        lambda: with_replaced_forward(initialized(Net)),
        "forward of Linear .*'first'.* was replaced",
    ),
    "random": (lambda: initialized(Net(random_dropout)), "outputs are random"),
    "dtype": (lambda: initialized(Autocast), "in a dtype of fewer digits"),
}


@pytest.mark.parametrize("kind", READ_OTHERWISE)
def test_a_module_that_runs_otherwise_than_it_is_read_is_refused(kind):
    build, words = READ_OTHERWISE[kind]
    net = build()
    random_state = torch.random.get_rng_state()
    with pytest.raises(TypeError, match=f"Node 'ward': .*differ from these.*{words}"):
        read_network(net, name="ward")
    assert torch.equal(random_state, torch.random.get_rng_state())


def test_a_net_with_a_hook_is_averaged_as_it_runs():
    nets = [with_hook(initialized(Net)) for _ in range(2)]
    average = ModelAveragingAggregator(nets).fit()
    assert average.network_ is None
    np.testing.assert_allclose(
        average.predict_proba(X), nets[0].predict_proba(X), atol=1e-6
    )
    with pytest.raises(TypeError, match="Node '0': .*has a forward hook"):
        PFNMAggregator(nets, random_state=0).fit()


@pytest.mark.parametrize(
    "norm", [nn.utils.weight_norm, nn.utils.spectral_norm], ids=lambda f: f.__name__
)
@pytest.mark.filterwarnings("ignore:.*weight_norm. is deprecated:FutureWarning")
def test_weights_that_a_hook_computes_are_read_as_the_next_forward_has_them(norm):
    def build(seed):
        torch.manual_seed(seed)
        layers = norm(nn.Linear(D, 8)), nn.ReLU(), norm(nn.Linear(8, C))
        return make_net(nn.Sequential(*layers), classes=range(C)).initialize()

    with torch.random.fork_rng():
        net = build(seed=0)
        loaded = build(seed=1)
    net.predict(X)
    # The attribute `weight` of its layers is still that of the first weights.
    loaded.module_.load_state_dict(net.module_.state_dict())
    network = read_network(loaded)
    np.testing.assert_allclose(
        softmax(network.decision_function(X), axis=1),
        net.predict_proba(X),
        atol=1e-4,
    )


@pytest.mark.filterwarnings("ignore:.*weight_norm. is deprecated:FutureWarning")
def test_nets_with_hooks_that_compute_weights_are_averaged_right_after_a_fit():
    # The attribute `weight` then knows what it was computed from, which no copy does.
    with torch.random.fork_rng():
        torch.manual_seed(0)
        last = nn.utils.weight_norm(nn.Linear(8, C))
        net = make_net(nn.Sequential(nn.Linear(D, 8), nn.GELU(), last)).fit(X, Y)
    average = ModelAveragingAggregator([net, net]).fit()
    np.testing.assert_allclose(
        average.predict_proba(X), net.predict_proba(X), atol=1e-6
    )


# Two nets with the same weights, the second of which computes something else.
OTHER_FORWARDS = {
    "activation": (lambda: initialized(Net(F.gelu)), lambda: initialized(Net(F.silu))),
    "attribute": (
        lambda: initialized(Net(F.gelu)),
        lambda: initialized(Net(F.gelu, scale=2.0)),
    ),
    "branch": (
        lambda: initialized(Net(F.gelu)),
        lambda: initialized(Net(F.gelu, flag=True)),
    ),
    "hook": (
        lambda: initialized(Net(F.gelu)),
        lambda: with_hook(initialized(Net(F.gelu))),
    ),
    "replaced": (
        lambda: initialized(Net(F.gelu)),
        lambda: with_replaced_forward(initialized(Net(F.gelu))),
    ),
}
every_other_forward = pytest.mark.parametrize("kind", OTHER_FORWARDS)


@every_other_forward
@pytest.mark.parametrize("n_rounds", [0, 1])
def test_nets_with_equal_weights_and_other_forwards_are_not_averaged(kind, n_rounds):
    builds = zip("ab", OTHER_FORWARDS[kind], strict=True)
    members = [(name, build()) for name, build in builds]
    agg = ModelAveragingAggregator(members, n_rounds=n_rounds, random_state=0)
    words = "hook" if kind == "hook" else "outputs differ by|was replaced"
    with pytest.raises(
        ValueError, match=f"'a' and 'b' give different outputs.*'b', .*({words})"
    ):
        agg.fit(X, Y, nodes=np.resize(["a", "b"], len(Y)))


def test_nets_of_one_forward_are_averaged_whatever_it_is():
    for build, _ in OTHER_FORWARDS.values():
        net = build()
        average = ModelAveragingAggregator([net, copy.deepcopy(net)]).fit()
        np.testing.assert_allclose(
            average.predict_proba(X), net.predict_proba(X), atol=1e-6
        )


def test_activations_of_chains_that_are_averaged_must_be_equal():
    nets = [initialized(Net(function)) for function in (torch.relu, torch.tanh)]
    with pytest.raises(ValueError, match="different activations"):
        ModelAveragingAggregator(nets).fit()


@every_other_forward
def test_layers_with_equal_weights_and_other_forwards_have_other_digests(kind):
    first, other = (build() for build in OTHER_FORWARDS[kind])
    digests = [Backbone(net).digest_.split("-") for net in (first, other)]
    assert digests[0][:2] == digests[1][:2]
    assert digests[0][2] != digests[1][2]
    assert Backbone(copy.deepcopy(first)).digest_ == "-".join(digests[0])
    members = [("a", first), ("b", other)]
    agg = GEMSLogisticAggregator(members, front=Backbone(first), random_state=0)
    with pytest.raises(ValueError, match="Node 'b': .*the weights of the front's"):
        agg.fit(X, Y, nodes=np.resize(["a", "b"], len(Y)))


def test_a_last_layer_with_a_hook_is_no_head():
    net = initialized(Net(F.gelu))
    net.module_.last.register_forward_hook(triple)
    with pytest.raises(ValueError, match="last Linear layer of Net gives other outp"):
        Backbone(net).fit(X)
