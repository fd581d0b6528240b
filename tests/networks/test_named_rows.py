# SPDX-License-Identifier: BSD-3-Clause
"""Nets get rows in the form that their module takes: ids, half precision, dicts."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("skorch")

from helpers.nets import make_net  # noqa: E402
from torch import nn  # noqa: E402

from skgems import (  # noqa: E402
    DistillationAggregator,
    EnsembleAggregator,
    GEMSMLPAggregator,
    ModelAveragingAggregator,
)
from skgems.steps import Backbone  # noqa: E402

F = nn.functional

C = 3  # classes
RNG = np.random.RandomState(0)
NUMBERS = RNG.standard_normal((90, 6)).astype(np.float32)
IDS = RNG.randint(11, size=(90, 5))
Y = RNG.randint(C, size=90)
NODES = np.arange(90) % 2


class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.EmbeddingBag(11, 8)
        self.output = nn.Linear(8, C)

    def forward(self, x):
        return self.output(torch.tanh(self.embedding(x)))


class TwoInputs(nn.Module):
    """Numbers and ids enter by name."""

    def __init__(self):
        super().__init__()
        self.numbers = nn.Linear(6, 8)
        self.tokens = Tokens()
        self.output = nn.Linear(8 + C, C)

    def forward(self, numbers, ids):
        parts = [F.gelu(self.numbers(numbers)), self.tokens(ids)]
        return self.output(torch.cat(parts, dim=1))


class Half(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, C))
        self.half()


# A module, rows as skorch takes them, and rows as aggregators are given them.
KINDS = {
    "ids": (Tokens, IDS, IDS),
    "ids as floats": (Tokens, IDS, IDS.astype(float)),
    "half": (Half, NUMBERS.astype(np.float16), NUMBERS),
    "dict": (TwoInputs, {"numbers": NUMBERS, "ids": IDS}, None),
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def fitted(kind):
    """Two nets that started alike, rows for skorch, and rows for aggregators."""
    module, own_rows, rows = KINDS[kind]
    nets = []
    with torch.random.fork_rng():
        for k in range(2):
            torch.manual_seed(0)
            half = NODES == k
            if isinstance(own_rows, dict):
                rows_of_node = {name: array[half] for name, array in own_rows.items()}
            else:
                rows_of_node = own_rows[half]
            nets.append(make_net(module).fit(rows_of_node, Y[half]))
    return nets, own_rows, own_rows if rows is None else rows


@every_kind
def test_votes_and_averages_are_those_of_skorch(kind):
    nets, own_rows, rows = fitted(kind)
    vote = EnsembleAggregator(nets).fit()
    mean = np.mean([net.predict_proba(own_rows) for net in nets], axis=0)
    np.testing.assert_allclose(vote.predict_proba(rows), mean, atol=2e-3)
    hard_vote = EnsembleAggregator(nets[:1], voting="hard").fit()
    np.testing.assert_array_equal(hard_vote.predict(rows), nets[0].predict(own_rows))
    average = ModelAveragingAggregator(nets).fit()
    np.testing.assert_allclose(
        average.predict_proba(rows), average.net_.predict_proba(own_rows), atol=2e-3
    )


@every_kind
def test_nets_are_trained_in_rounds_on_such_rows(kind):
    nets, _, rows = fitted(kind)
    agg = ModelAveragingAggregator(
        nets, n_rounds=2, local_epochs=1, learning_rate=0.05, random_state=0
    )
    agg.fit(rows, Y, nodes=NODES)
    assert np.isfinite(list(agg.history_[-1]["loss"].values())).all()
    np.testing.assert_allclose(agg.predict_proba(rows).sum(axis=1), 1, atol=1e-5)
    assert agg.predict(rows).shape == Y.shape


@every_kind
def test_stacks_take_such_rows(kind):
    nets, _, rows = fitted(kind)
    stack = EnsembleAggregator(nets, combine="stack", random_state=0)
    assert stack.fit(rows, Y, nodes=NODES).predict(rows).shape == Y.shape


@pytest.mark.parametrize("kind", ["ids", "half"])
def test_students_and_backbones_take_such_rows(kind):
    nets, own_rows, rows = fitted(kind)
    student = DistillationAggregator(nets, random_state=0).fit(rows)
    assert student.predict(rows).shape == Y.shape
    features = Backbone(nets[0]).fit_transform(rows)
    assert features.shape == (len(Y), 8)


def test_a_dict_of_inputs_is_checked():
    nets, rows, _ = fitted("dict")
    average = ModelAveragingAggregator(nets).fit()
    with pytest.raises(ValueError, match="different numbers of rows, .*'ids': 3"):
        average.predict({**rows, "ids": IDS[:3]})
    with pytest.raises(ValueError, match="its array 'numbers' has values that are no"):
        average.predict({**rows, "numbers": NUMBERS * np.nan})
    with pytest.raises(TypeError, match="dict of arrays, which GEMSMLPAggregator cann"):
        GEMSMLPAggregator(nets).fit(rows, Y, nodes=NODES)


@pytest.mark.skipif(torch.cuda.is_available(), reason="has a GPU")
def test_nets_of_a_machine_with_a_gpu_are_used_without_one():
    nets, _, rows = fitted("half")
    for net in nets:
        net.module_.float()
    expected = [
        EnsembleAggregator(nets).fit().predict_proba(rows),
        ModelAveragingAggregator(nets).fit().predict_proba(rows),
    ]
    for net in nets:
        vars(net)["device"] = "cuda"
    aggregates = [EnsembleAggregator(nets).fit(), ModelAveragingAggregator(nets).fit()]
    for aggregate, proba in zip(aggregates, expected, strict=True):
        np.testing.assert_array_equal(aggregate.predict_proba(rows), proba)
    assert {net.device for net in nets} == {"cuda"}
