# SPDX-License-Identifier: BSD-3-Clause
"""Modules of torch in many forms: chains of layers that can be read, and others."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
nn = torch.nn
F = torch.nn.functional

D = 6  # features
C = 3  # classes

# ---- chains of linear layers and activations ------------------------------------


class Listed(nn.Module):
    """ModuleList, functional activations, view of the input."""

    def __init__(self, sizes=(D, 5, 4, C)):
        super().__init__()
        pairs = zip(sizes[:-1], sizes[1:], strict=True)
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairs)

    def forward(self, x):
        x = x.view(x.size(0), -1)
        for layer in self.layers[:-1]:
            x = F.relu(layer(x))
        return self.layers[-1](x)


class Methods(nn.Module):
    """Tensor methods, a keyword with a default, two outputs."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(D, 5, bias=False)
        self.last = nn.Linear(5, C)

    def forward(self, x, double=False):
        x = x.float().reshape(x.shape[0], -1).contiguous()
        hidden = self.first(x).tanh()
        if double:
            hidden = hidden * 2
        return self.last(hidden), hidden


class Nested(nn.Module):
    """Modules in modules, dropout of both kinds, noise while training only."""

    def __init__(self):
        super().__init__()
        block = nn.Sequential(nn.Linear(D, 5), nn.Sigmoid(), nn.Dropout(0.5))
        self.body = nn.Sequential(nn.Flatten(), block, nn.Identity())
        self.last = nn.Linear(5, C)

    def forward(self, x):
        x = self.body(x)
        if self.training:
            x = x + 0.01 * torch.randn_like(x)
        x = F.dropout(x, 0.3, training=self.training)
        return F.softmax(self.last(x), dim=-1)


class Bare(nn.Module):
    """Parameters without Linear modules, constant factors, two ways to multiply."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.linspace(-1, 1, D))
        self.weight = nn.Parameter(torch.randn(5, D))
        self.bias = nn.Parameter(torch.randn(5))
        self.last = nn.Parameter(torch.randn(5, C))

    def forward(self, x):
        if x.dim() > 2 or x.ndim != 2:
            x = x.flatten(1)
        n_rows, n_columns = x.shape
        x = (x.view(n_rows, n_columns) - self.mean) / 3
        x = torch.relu(F.linear(x, self.weight, bias=self.bias))
        return 2.0 * (x @ self.last * torch.tensor(0.5)) - self.last[0]


class Normed(nn.Module):
    """BatchNorm before a Linear, after one, and after an activation."""

    def __init__(self, affine=True):
        super().__init__()
        norm = {"affine": affine}
        self.parts = nn.Sequential(
            nn.BatchNorm1d(D, **norm),
            nn.Linear(D, 5),
            nn.BatchNorm1d(5, **norm),
            nn.ReLU(),
            nn.BatchNorm1d(5, **norm),
            nn.Linear(5, 4, bias=False),
            nn.Tanh(),
            nn.Linear(4, C),
            nn.BatchNorm1d(C, **norm),
        )

    def forward(self, x):
        return self.parts(x)


class Product(nn.Module):
    """Linear layers in a row."""

    def __init__(self):
        super().__init__()
        self.parts = nn.Sequential(
            nn.Linear(D, 9),
            nn.Linear(9, 5),
            nn.ReLU(),
            nn.Linear(5, 9),
            nn.Linear(9, C),
        )

    def forward(self, x):
        return F.log_softmax(self.parts(x), dim=1)


def sequential(*middle):
    """Two linear layers, and what stands between them."""
    return nn.Sequential(nn.Linear(D, 4), *middle, nn.Linear(4, C))


def weight_normed():
    """Weights are computed from other parameters before each forward."""
    norm = torch.nn.utils.parametrizations.weight_norm
    return nn.Sequential(norm(nn.Linear(D, 4)), nn.ReLU(), nn.Linear(4, C))


def shared():
    """The same layer twice."""
    square = nn.Linear(D, D)
    return nn.Sequential(square, nn.ReLU(), square, nn.ReLU(), nn.Linear(D, C))


# Functions that make a module, and the number of its hidden layers.
CHAINS = {
    "sequential": (lambda: sequential(nn.ReLU()), 1),
    "linear": (lambda: nn.Linear(D, C), 0),
    "listed": (Listed, 2),
    "methods": (Methods, 1),
    "nested": (Nested, 1),
    "bare": (Bare, 1),
    "normed": (Normed, 2),
    "normed plain": (lambda: Normed(affine=False), 2),
    "product": (Product, 1),
    "weight norm": (weight_normed, 1),
    "shared": (shared, 2),
    "sigmoids": (lambda: nn.Sequential(sequential(nn.Tanh()), nn.Sigmoid()), 1),
}


# ---- modules that are no such chains --------------------------------------------


class Residual(nn.Module):
    """Two branches that are added."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(D, D)
        self.last = nn.Linear(D, C)

    def forward(self, x):
        return self.last(x + F.relu(self.inner(x)))


class Branching(nn.Module):
    """What it does depends on the rows."""

    def __init__(self):
        super().__init__()
        self.last = nn.Linear(D, C)

    def forward(self, x):
        return self.last(x) if x.sum() > 0 else self.last(-x)


class Absolute(nn.Module):
    """Absolute values, which are no activation that is known."""

    def forward(self, x):
        return x.abs() + torch.linspace(0, 1, C)


class Called(nn.Module):
    """Two linear layers, and a function between them."""

    def __init__(self, function, last=None):
        super().__init__()
        self.first = nn.Linear(D, 4)
        self.last = last or nn.Linear(4, C)
        self.function = function

    def forward(self, x):
        return self.last(self.function(self.first(x)))
