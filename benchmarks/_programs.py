# SPDX-License-Identifier: BSD-3-Clause
"""Published programs beside which `today_networks.py` and `today_trees.py` run ours.

Nothing of them is copied here: each is installed, or lies in a folder that the user
names. What they take is made of our nodes' networks and rows, and what they return
becomes a classifier again. `why_left_out` says what is missing.
"""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from unittest.mock import patch

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.neural_network import MLPClassifier

from skgems.networks import Layers, to_mlp_classifier

REBASIN = "rebasin"
OTFUSION = "OT-fusion"
FLWR_TREES = "flwr-trees"
DRIVER = Path(__file__).parent / "_otfusion.py"
# Features and labels of each node.
RowsOfNodes = list[tuple[np.ndarray, np.ndarray]]


def why_left_out(program: str, otfusion: str | None = None) -> str | None:
    """What to install or to name for a program to run; None where it is there."""
    if program == OTFUSION:
        if find_spec("ot") is None:
            return f"{program} is left out: pip install POT"
        # Its cifar.zip has modules that the others import.
        if otfusion is None or not (Path(otfusion) / "cifar" / "train.py").exists():
            return (
                f"{program} is left out: give --otfusion FOLDER, a copy of "
                "github.com/sidak/otfusion in which cifar.zip is unpacked"
            )
        return None
    if find_spec(program.replace("-", "_")) is None:
        return f"{program} is left out: pip install {program}"
    return None


# Networks of one hidden layer --------------------------------------------------------


def n_bytes_of_network(network: MLPClassifier) -> int:
    """Bytes of the weights and biases in single precision."""
    return 4 * sum(array.size for array in [*network.coefs_, *network.intercepts_])


def merge_by_rebasin(networks: Sequence[MLPClassifier], seed: int) -> MLPClassifier:
    """MergeMany of the package rebasin: the mean of networks that permutations align.

    It takes any number of networks of one size, and all count the same.
    """
    import torch
    from rebasin import MergeMany
    from torch import nn

    def module_of(network: MLPClassifier) -> nn.Sequential:
        module = nn.Sequential(
            nn.Linear(*network.coefs_[0].shape),
            nn.ReLU(),
            nn.Linear(*network.coefs_[1].shape),
        )
        with torch.no_grad():
            for i, layer in enumerate((module[0], module[2])):
                layer.weight.copy_(torch.as_tensor(network.coefs_[i].T))
                layer.bias.copy_(torch.as_tensor(network.intercepts_[i]))
        return module

    # The order in which networks are aligned is drawn.
    torch.manual_seed(seed)
    # The rows only trace the module's graph.
    rows = torch.zeros(2, networks[0].coefs_[0].shape[0])
    modules = [module_of(network) for network in networks]
    merged = MergeMany(modules, module_of(networks[0]), rows).run()
    layers = [merged[0], merged[2]]
    return to_mlp_classifier(
        Layers(
            [layer.weight.detach().numpy().T for layer in layers],
            [layer.bias.detach().numpy() for layer in layers],
            "relu",
        ),
        networks[0].classes_,
    )


def without_biases(network: MLPClassifier) -> list[np.ndarray]:
    """The same function of rows with a last column of ones, as matrices alone.

    OT-fusion's networks have no biases. Those of the hidden layer become weights of the
    last column. One more unit, which is 1 on all rows, has the biases of the last layer
    as its weights. Returns shapes (n_units + 1, n_features + 1) and
    (n_classes, n_units + 1), as torch has them.
    """
    W, V = network.coefs_
    b, c = network.intercepts_
    constant = np.zeros(len(W) + 1)
    constant[-1] = 1.0
    return [
        np.vstack([np.column_stack([W.T, b]), constant]),
        np.column_stack([V.T, c]),
    ]


def with_biases(matrices: Sequence[np.ndarray], classes: np.ndarray) -> MLPClassifier:
    """The network of rows without a last column that `without_biases` stands for."""
    W, V = matrices
    return to_mlp_classifier(
        Layers([W[:, :-1].T, V.T], [W[:, -1], np.zeros(len(V))], "relu"), classes
    )


def merge_by_otfusion(
    networks: Sequence[MLPClassifier],
    X: np.ndarray,
    *,
    reference: int,
    folder: str,
    flags: str,
) -> tuple[MLPClassifier, float]:
    """OT-fusion of networks, and the processor seconds that it took.

    Its program merges two networks. Of more, as the paper's Algorithm 1 has it, each is
    aligned with one of them, the ``reference``, and the mean is taken. The rows X are
    read where ``flags`` ask for activations.
    """
    arrays = {"X": np.column_stack([X, np.ones(len(X))]).astype(np.float32)}
    for k, network in enumerate(networks):
        W, V = without_biases(network)
        arrays |= {f"W{k}": W.astype(np.float32), f"V{k}": V.astype(np.float32)}
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / "networks.npz"
        target = Path(scratch) / "merged.npz"
        np.savez(source, **arrays)
        command = {
            "source": str(source),
            "target": str(target),
            "flags": flags,
            "reference": reference,
            "n_networks": len(networks),
        }
        # Its modules have names such as "utils" and read files of their folder.
        run = subprocess.run(
            [sys.executable, str(DRIVER), json.dumps(command)],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if run.returncode:
            last_line = run.stderr.strip().rsplit("\n", 1)[-1]
            raise RuntimeError(f"OT-fusion failed: {last_line}")
        with np.load(target) as merged:
            network = with_biases([merged["W"], merged["V"]], networks[0].classes_)
            return network, float(merged["seconds"])


# Trees -------------------------------------------------------------------------------


def fit_flwr_trees(
    name: str, rows: RowsOfNodes, seed: int, **settings: object
) -> tuple[ClassifierMixin, float]:
    """A fitted estimator of flwr-trees, and the mean bytes from a node.

    Its ``fit`` deals rows to clients by `simulate_clients`. In place of what that
    returns it is given the rows of our nodes; all else is as published.
    """
    import flwr_trees

    estimator_class = getattr(flwr_trees, name)
    module = sys.modules[estimator_class.__module__]
    estimator = estimator_class(n_clients=len(rows), random_state=seed, **settings)
    X = np.concatenate([X for X, _ in rows])
    y = np.concatenate([y for _, y in rows])
    with dealt_as(module, rows):
        estimator.fit(X, y)
    return estimator, n_bytes_of_trees(estimator) / len(rows)


def dealt_as(module: ModuleType, rows: RowsOfNodes) -> patch:
    """A context in which a module of flwr-trees has these rows at its clients."""
    return patch.object(module, "simulate_clients", lambda *_, **__: rows)


def n_bytes_of_trees(estimator: ClassifierMixin) -> int:
    """What all clients sent: as its strategy counts it, or the pickled models."""
    if hasattr(estimator, "strategy_"):
        return sum(estimator.strategy_.bytes_sent_per_round)
    return sum(len(pickle.dumps(model)) for model in estimator.estimators_)


def number_by_all_classes(
    trees: Sequence[ClassifierMixin], classes_of_client: Sequence[np.ndarray]
) -> list[ClassifierMixin]:
    """Trees whose `classes_` are numbers among all classes, not among their client's.

    The trees of a scikit-learn forest number the classes from 0 that the forest was
    fitted to. ``trees`` are those of all clients, one client after the other, and
    equally many of each.
    """
    n_trees = len(trees) // len(classes_of_client)
    numbered = []
    for i, tree in enumerate(trees):
        local_numbers = tree.classes_.astype(int)
        tree.classes_ = classes_of_client[i // n_trees][local_numbers]
        numbered.append(tree)
    return numbered


def repair_forest(forest: ClassifierMixin, rows: RowsOfNodes) -> ClassifierMixin:
    """A forest of flwr-trees whose trees vote for the classes that they saw."""
    classes_of_client = [
        np.searchsorted(forest.classes_, np.unique(labels)) for _, labels in rows
    ]
    forest.estimators_ = number_by_all_classes(
        list(forest.estimators_), classes_of_client
    )
    return forest


# Methods that need them --------------------------------------------------------------


def without_missing(
    methods: Sequence[str],
    program_of: dict[str, str],
    otfusion: str | None = None,
    say: Callable[[str], None] = print,
) -> list[str]:
    """The methods whose programs are there; a line for each program that is not."""
    needed = {program_of[method] for method in methods if method in program_of}
    reasons = {program: why_left_out(program, otfusion) for program in sorted(needed)}
    for reason in reasons.values():
        if reason is not None:
            say(reason)
    return [
        method
        for method in methods
        if method not in program_of or reasons[program_of[method]] is None
    ]
