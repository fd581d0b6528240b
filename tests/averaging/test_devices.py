# SPDX-License-Identifier: BSD-3-Clause
"""Nodes train a net on its own device, and send their numbers from the processor."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from skgems import ModelAveragingAggregator
from skgems.asking import InProcess, Message, run
from skgems.averaging import StartedApartWarning
from skgems.local import Member

torch = pytest.importorskip("torch")
pytest.importorskip("skorch")

from helpers.nets import Dense, digits, make_net  # noqa: E402
from torch import nn  # noqa: E402

RATE = 0.5
NEEDS_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
every_device = pytest.mark.parametrize(
    "device", ["cpu", pytest.param("cuda", marks=NEEDS_GPU)]
)


class Double(Dense):
    """The same in float64, which notes on which device rows pass through it."""

    seen_devices: set = set()  # noqa: RUF012

    def __init__(self, **parameters):
        super().__init__(**parameters)
        self.double()

    def forward(self, X):
        if isinstance(X, torch.Tensor):  # not where it is read by tracing it
            self.seen_devices.add(X.device.type)
        return super().forward(X)


def node(device):
    """A node with a net that is not trained yet, and its rows."""
    X, y, _, _, _ = digits()
    X = X.astype(np.float64)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        # All rows are one batch, so that an epoch is a step.
        net = make_net(Double, device=device, batch_size=-1).initialize()
    net.classes = [0, 1, 2]
    return Member.from_estimator("lyon", net, X, y), net, X, y


def one_step(module, X, y):
    """The parameters after a step of gradient descent, in plain torch."""
    loss = nn.CrossEntropyLoss()(module(torch.tensor(X)), torch.tensor(y))
    gradients = torch.autograd.grad(loss, list(module.parameters()))
    return [
        (parameter - RATE * gradient).detach().numpy()
        for parameter, gradient in zip(module.parameters(), gradients, strict=True)
    ]


def reply_of(member, parameters):
    """What the node sends after one epoch from some parameters."""

    def plan():
        replies = yield Message.of(
            "train",
            parameters=parameters,
            classes=[0, 1, 2],
            epochs=1,
            rates=np.array([RATE]),
            seed=0,
        )
        (_, reply), *_ = replies
        return reply

    return run(plan(), InProcess([member]))


@every_device
def test_a_step_is_taken_on_the_device_of_the_net_and_sent_from_the_processor(device):
    member, net, X, y = node(device)
    start = [p.detach().cpu().numpy() for p in net.module_.parameters()]
    on_processor = Double()
    on_processor.load_state_dict(net.module_.state_dict())
    expected = one_step(on_processor, X, y)
    Double.seen_devices.clear()
    reply = reply_of(member, start)
    assert Double.seen_devices == {device}
    for array, parameter in zip(reply.parameters, expected, strict=True):
        assert type(array) is np.ndarray and array.dtype == np.float64
        np.testing.assert_allclose(array, parameter, rtol=1e-5, atol=1e-8)
    # What left the node is the same in bytes.
    sent = Message.of("train", **reply.as_content())
    assert Message.from_bytes(sent.to_bytes()).digest == sent.digest
    # The node's own net stays where it is, and as it was.
    assert next(net.module_.parameters()).device.type == device
    for array, parameter in zip(start, net.module_.parameters(), strict=True):
        np.testing.assert_array_equal(array, parameter.detach().cpu().numpy())


@every_device
def test_rounds_end_with_a_net_on_the_device_of_the_first(device):
    _, net, X, y = node(device)
    aggregate = ModelAveragingAggregator(
        [net, net], n_rounds=2, learning_rate=RATE, random_state=0
    ).fit(X, y, nodes=np.arange(len(y)) % 2)
    trained = aggregate.net_.module_.parameters()
    assert {parameter.device.type for parameter in trained} == {device}
    assert aggregate.score(X, y) > 0.5


def test_nets_of_bfloat16_are_averaged():
    # numpy has no such numbers, but all of them are numbers of float32.
    nets = []
    for seed in range(2):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            net = make_net(Dense).initialize()
        net.classes = [0, 1, 2]
        net.module_.to(torch.bfloat16)
        nets.append(net)
    with warnings.catch_warnings():
        # They start apart, as they are two.
        warnings.simplefilter("ignore", StartedApartWarning)
        average = ModelAveragingAggregator(nets).fit()
    weights = [net.module_.state_dict() for net in nets]
    for name, averaged in average.to_module().state_dict().items():
        mean = (weights[0][name].float() + weights[1][name].float()) / 2
        torch.testing.assert_close(averaged, mean.to(torch.bfloat16))
