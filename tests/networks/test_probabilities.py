# SPDX-License-Identifier: BSD-3-Clause
"""All aggregators read the probabilities of a net alike, whatever its loss is."""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("skorch")

from helpers.nets import make_net  # noqa: E402
from scipy.special import expit, softmax  # noqa: E402
from skorch import NeuralNetBinaryClassifier  # noqa: E402
from torch import nn  # noqa: E402

from skgems import (  # noqa: E402
    DistillationAggregator,
    EnsembleAggregator,
    ModelAveragingAggregator,
    PFNMAggregator,
)

D = 6  # features
C = 3  # classes
X = np.random.RandomState(0).standard_normal((60, D)).astype(np.float32)
Y = np.random.RandomState(1).randint(C, size=60)


class Focal(nn.Module):
    """The focal loss of logits, which skorch does not know."""

    def forward(self, output, target):
        losses = nn.functional.cross_entropy(output, target, reduction="none")
        return ((1 - torch.exp(-losses)) ** 2 * losses).mean()


class OwnLoss(nn.Module):
    """The negative log-likelihood of log-probabilities."""

    def forward(self, output, target):
        return nn.functional.nll_loss(output, target)


LOSSES = {
    "cross-entropy": nn.CrossEntropyLoss,
    "focal": Focal,
    "own": OwnLoss,
    "margin": nn.MultiMarginLoss,
}
ENDS = {
    "logits": nn.Identity,
    "softmax": lambda: nn.Softmax(-1),
    "log-softmax": lambda: nn.LogSoftmax(-1),
}
every_pair = [(loss, end) for loss in LOSSES for end in ENDS]


def built(end=nn.Identity, *, middle=nn.GELU, criterion=Focal, n_outputs=C, **options):
    """An initialized net with the same weights each time, and its logits of X."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layers = nn.Linear(D, 8), middle(), nn.Linear(8, n_outputs)
        for layer in layers[::2]:
            nn.init.normal_(layer.weight)
        module = nn.Sequential(*layers, end())
        net = make_net(
            module, criterion=criterion, classes=range(n_outputs), **options
        ).initialize()
    with torch.no_grad():
        logits = nn.Sequential(*layers)(torch.as_tensor(X)).double().numpy()
    return net, logits


@pytest.mark.parametrize(("loss", "end"), every_pair)
def test_probabilities_are_those_of_the_logits(loss, end):
    net, logits = built(ENDS[end], criterion=LOSSES[loss])
    expected = softmax(logits, axis=1)
    vote = EnsembleAggregator([net]).fit()
    average = ModelAveragingAggregator([net, net]).fit()
    for aggregate in (vote, average):
        np.testing.assert_allclose(
            aggregate.predict_proba(X), expected, atol=1e-5, rtol=1e-4
        )
        # What a row is read as does not depend on the rows beside it.
        np.testing.assert_allclose(
            aggregate.predict_proba(X[:1]), expected[:1], atol=1e-5, rtol=1e-4
        )


@pytest.mark.parametrize("end", ENDS)
def test_rounds_and_students_take_the_same_probabilities(end):
    net, logits = built(ENDS[end])
    expected = softmax(logits, axis=1)
    agg = ModelAveragingAggregator(
        [net, net], n_rounds=1, local_epochs=1, learning_rate=1e-9, random_state=0
    )
    agg.fit(X, Y, nodes=np.arange(len(Y)) % 2)
    losses = agg.history_[-1]["loss"]
    loss = -np.log(expected[np.arange(len(Y)), Y])
    assert losses["0"] == pytest.approx(loss[::2].mean(), rel=1e-3)
    teacher = DistillationAggregator([net], random_state=0)
    assert teacher.fit(X).score(X, expected.argmax(axis=1)) > 0.7


def test_sigmoids_are_divided_by_their_sum():
    net, logits = built(nn.Sigmoid)
    expected = expit(logits) / expit(logits).sum(axis=1, keepdims=True)
    proba = EnsembleAggregator([net]).fit().predict_proba(X)
    np.testing.assert_allclose(proba, expected, atol=1e-6)


class Squared(nn.Sigmoid):
    def forward(self, x):
        return super().forward(x) ** 2


def test_outputs_that_cannot_be_told_are_an_error_that_says_what_to_do():
    net, logits = built(Squared)
    with pytest.raises(
        ValueError, match="Node 'a': .*Focal, does not tell.*predict_nonlinearity"
    ):
        EnsembleAggregator([("a", net)]).fit().predict(X)
    net.set_params(predict_nonlinearity=partial(torch.softmax, dim=-1))
    proba = EnsembleAggregator([net]).fit().predict_proba(X)
    np.testing.assert_allclose(proba, softmax(expit(logits) ** 2, axis=1), atol=1e-6)
    net.set_params(predict_nonlinearity=torch.tanh)
    with pytest.raises(ValueError, match="Node '0': .*has its own predict_nonlinear"):
        EnsembleAggregator([net]).fit().predict(X)


def binary(end=nn.Identity, **options):
    net, logits = built(end, n_outputs=1)
    net = NeuralNetBinaryClassifier(net.module_, verbose=0, **options).initialize()
    return net, logits[:, 0]


@pytest.mark.parametrize(
    ("end", "criterion"),
    [
        (nn.Identity, nn.BCEWithLogitsLoss),
        (nn.Sigmoid, nn.BCELoss),
        # skorch itself cannot predict these.
        (nn.Identity, nn.SoftMarginLoss),
        (nn.Sigmoid, nn.MSELoss),
    ],
)
def test_probabilities_of_one_output(end, criterion):
    net, logits = binary(end, criterion=criterion)
    for voting in ("soft", "hard"):
        vote = EnsembleAggregator([net], voting=voting).fit()
        np.testing.assert_array_equal(vote.predict(X), logits > 0)
    proba = EnsembleAggregator([net]).fit().predict_proba(X)[:, 1]
    np.testing.assert_allclose(proba, expit(logits), atol=1e-6)


# ---- settings of the wrapper ---------------------------------------------------------


def tempered(logits):
    return torch.softmax(logits / 4, dim=-1)


@pytest.mark.parametrize("middle", [nn.ReLU, nn.GELU])
def test_a_temperature_is_kept(middle):
    net, logits = built(
        middle=middle, criterion=nn.CrossEntropyLoss, predict_nonlinearity=tempered
    )
    expected = softmax(logits / 4, axis=1)
    aggregates = [EnsembleAggregator([net]), ModelAveragingAggregator([net, net])]
    if middle is nn.ReLU:  # its layers can be merged
        aggregates.append(PFNMAggregator([net], random_state=0))
    for aggregate in aggregates:
        proba = aggregate.fit().predict_proba(X)
        np.testing.assert_allclose(proba, expected, atol=1e-5)


def shifted_sigmoid(logits):
    positive = torch.sigmoid(2 * logits + 1).reshape(-1)
    return torch.stack([1 - positive, positive], dim=1)


def test_a_factor_and_an_offset_of_one_output_are_kept():
    net, logits = binary(predict_nonlinearity=shifted_sigmoid)
    for aggregate in (EnsembleAggregator([net]), ModelAveragingAggregator([net, net])):
        proba = aggregate.fit().predict_proba(X)[:, 1]
        np.testing.assert_allclose(proba, expit(2 * logits + 1), atol=1e-5)


def flattened(logits):
    return 0.5 * torch.softmax(logits, dim=-1) + 0.5 / C


def warnings_of(aggregate):
    with warnings.catch_warnings(record=True) as records:
        warnings.simplefilter("always")
        aggregate.fit()
    return [str(record.message) for record in records]


def test_settings_that_are_not_kept_are_said():
    net, _ = built(middle=nn.ReLU, predict_nonlinearity=flattened)
    (message,) = warnings_of(ModelAveragingAggregator([("a", net)]))
    assert message.startswith("Node 'a': predict_nonlinearity of its net is not kept")
    assert warnings_of(EnsembleAggregator([net])) == []
    strict, logits = binary(threshold=0.9)
    for aggregate in (ModelAveragingAggregator([strict]), EnsembleAggregator([strict])):
        (message,) = warnings_of(aggregate)
        assert message.startswith("Node '0': threshold=0.9 of its net is not kept")
    hard_vote = EnsembleAggregator([strict], voting="hard")
    assert warnings_of(hard_vote) == []
    np.testing.assert_array_equal(hard_vote.predict(X), expit(logits) > 0.9)
