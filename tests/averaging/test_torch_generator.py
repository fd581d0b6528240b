# SPDX-License-Identifier: BSD-3-Clause
"""Torch's global generator of random numbers is left as it was by every fit."""

from __future__ import annotations

import pytest

from skgems import (
    DistillationAggregator,
    EnsembleAggregator,
    GEMSMLPAggregator,
    ModelAveragingAggregator,
    PFNMAggregator,
)

torch = pytest.importorskip("torch")
pytest.importorskip("skorch")

from helpers.nets import Convolutional, digits, fit_nets, make_net  # noqa: E402
from torch import nn  # noqa: E402


def rounds(estimators):
    return ModelAveragingAggregator(
        estimators, n_rounds=2, local_epochs=1, learning_rate=0.2, random_state=0
    )


def few_digits():
    X, y, nodes, _, _ = digits()
    return X[:150], y[:150], nodes[:150]


class Dropping(nn.Sequential):
    """A network with dropout; a broken one raises in training."""

    def __init__(self, n_outputs=3, broken=False):
        super().__init__(
            nn.Linear(64, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, n_outputs)
        )
        self.broken = broken

    def forward(self, X):
        if self.broken and self.training:
            raise RuntimeError("out of order")
        return super().forward(X)


# Functions of the nets of the nodes, and of X, y and nodes.
FITS = {
    "average": lambda nets, rows: ModelAveragingAggregator(nets).fit(),
    "rounds": lambda nets, rows: rounds(nets).fit(*rows),
    "simulation": lambda nets, rows: ModelAveragingAggregator(make_net(Dropping)).fit(
        *rows
    ),
    "simulated rounds": lambda nets, rows: rounds(make_net(Dropping)).fit(*rows),
    "convolutional": lambda nets, rows: (
        rounds(make_net(Convolutional)).fit(*rows).predict_proba(rows[0])
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


@pytest.mark.parametrize("fit", FITS)
def test_the_generator_of_torch_is_left_as_it_was(fit):
    X, y, nodes = few_digits()
    nets = fit_nets(make_net(Dropping, max_epochs=1), X, y, nodes)
    before = torch.random.get_rng_state()
    FITS[fit](nets, (X, y, nodes))
    assert torch.equal(torch.random.get_rng_state(), before)


def test_the_generator_of_torch_is_left_where_a_node_fails():
    X, y, nodes = few_digits()
    nets = fit_nets(make_net(Dropping, max_epochs=1), X, y, nodes)
    nets[1].module_.broken = True
    before = torch.random.get_rng_state()
    with pytest.warns(UserWarning, match="out of order"):
        rounds(nets).fit(X, y, nodes)
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_generator_of_torch_is_left_where_all_nodes_fail():
    X, y, nodes = few_digits()
    nets = fit_nets(make_net(Dropping, max_epochs=1), X, y, nodes)
    for model in nets:
        model.module_.broken = True
    before = torch.random.get_rng_state()
    with pytest.raises(RuntimeError):
        rounds(nets).fit(X, y, nodes)
    with pytest.raises(RuntimeError):
        PFNMAggregator(nets, n_rounds=2).fit(X, y, nodes)
    assert torch.equal(torch.random.get_rng_state(), before)
