# SPDX-License-Identifier: BSD-3-Clause
"""Published programs, in the benchmarks, get what our nodes have, and nothing else."""

from __future__ import annotations

import importlib
import json
import runpy
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

from skgems import EnsembleAggregator
from skgems.networks import Layers, to_mlp_classifier

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
# A program in the place of OT-fusion: units are matched by their weights alone, which
# finds a permutation of the same network. It has files and names of the original.
STAND_IN = {
    "cifar/train.py": "",
    "parameters.py": """
import argparse
def get_parser():
    parser = argparse.ArgumentParser()
    parser.add_argument("--geom-ensemble-type", default="wts")
    parser.add_argument("--ensemble-step", type=float, default=0.5)
    parser.add_argument("--act-num-samples", type=int, default=3)
    parser.add_argument("--activation-mode", default="raw")
    return parser
""",
    "compute_activations.py": """
import torch
def compute_activations_across_models_v1(options, models, loader, n, mode):
    rows = torch.cat([row for row, _ in loader][:n])
    return [model.fc1(rows) for model in models]
""",
    "wasserstein_ensemble.py": """
import torch
def align(options, networks, found):
    assert options.ensemble_step == 0
    order = torch.cdist(found[1], found[0]).argmin(dim=1)
    W, V = networks[0].parameters()
    return [W[order], V[:, order]]
def get_wassersteinized_layers_modularized(options, networks):
    return align(options, networks, [network.fc1.weight for network in networks])
def get_acts_wassersteinized_layers_modularized(options, networks, activations):
    return align(options, networks, [of_rows.T for of_rows in activations])
""",
}


@pytest.fixture
def programs(monkeypatch):
    if not (BENCHMARKS / "_programs.py").exists():
        pytest.skip("the benchmarks are not here")
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("_programs")


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X / 16, y


@pytest.fixture(scope="module")
def network():
    """A network of six units for digits, of random weights."""
    rng = np.random.default_rng(0)
    return to_mlp_classifier(
        Layers(
            [rng.normal(size=(64, 6)), rng.normal(size=(6, 10))],
            [rng.normal(size=6), rng.normal(size=10)],
            "relu",
        ),
        np.arange(10),
    )


@pytest.fixture
def otfusion(tmp_path):
    """A folder with the stand-in."""
    folder = tmp_path / "otfusion"
    for name, text in STAND_IN.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(folder)


def permuted(network, seed):
    """The same function, with hidden units in another order."""
    order = np.random.default_rng(seed).permutation(6)
    W, V = network.coefs_
    b, c = network.intercepts_
    return to_mlp_classifier(
        Layers([W[:, order], V[order]], [b[order], c], "relu"), network.classes_
    )


# Networks ----------------------------------------------------------------------------


def test_biases_become_a_column_and_a_unit(programs, digits, network):
    X, _ = digits
    W, V = programs.without_biases(network)
    logits = np.maximum(np.column_stack([X, np.ones(len(X))]) @ W.T, 0) @ V.T
    expected = network.predict_proba(X)
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    np.testing.assert_allclose(odds / odds.sum(axis=1, keepdims=True), expected)
    back = programs.with_biases([W, V], network.classes_)
    np.testing.assert_allclose(back.predict_proba(X), expected)


@pytest.mark.parametrize("kind", ["wts", "acts"])
def test_otfusion_gets_networks_and_rows(programs, digits, network, otfusion, kind):
    pytest.importorskip("torch")
    X, _ = digits
    networks = [permuted(network, 0), network, permuted(network, 1)]
    merged, seconds = programs.merge_by_otfusion(
        networks,
        X[:50],
        reference=1,
        folder=otfusion,
        flags=f"--geom-ensemble-type {kind} --act-num-samples 40",
    )
    # The mean of aligned copies of a network is the network, in single precision.
    np.testing.assert_allclose(
        merged.coefs_[0][:, :6], network.coefs_[0], rtol=1e-5, atol=1e-6
    )
    np.testing.assert_allclose(
        merged.predict_proba(X), network.predict_proba(X), rtol=1e-3, atol=1e-5
    )
    assert seconds >= 0


def test_a_program_that_fails_says_why(programs, network, otfusion):
    pytest.importorskip("torch")
    with pytest.raises(RuntimeError, match="OT-fusion failed: .*unrecognized"):
        programs.merge_by_otfusion(
            [network, network],
            np.zeros((2, 64)),
            reference=0,
            folder=otfusion,
            flags="--no-such-flag",
        )


# Trees -------------------------------------------------------------------------------


def forests_of_two_clients(X, y):
    """Rows of classes 0 to 2 and of 6 to 9, and a forest of each."""
    rows = [(X[y < 3], y[y < 3]), (X[y > 5], y[y > 5])]
    return rows, [
        RandomForestClassifier(3, random_state=0).fit(*of_one) for of_one in rows
    ]


def test_repaired_trees_vote_for_the_classes_that_they_saw(programs, digits):
    X, y = digits
    rows, forests = forests_of_two_clients(X, y)
    trees = [tree for forest in forests for tree in forest.estimators_]
    # The fault: trees of digits 6 to 9 say that these are 0 to 3.
    assert trees[-1].classes_.tolist() == [0, 1, 2, 3]
    pooled = SimpleNamespace(classes_=np.unique(y), estimators_=trees)
    P = np.zeros((len(X), 10))
    for tree in programs.repair_forest(pooled, rows).estimators_:
        P[:, tree.classes_] += tree.predict_proba(X) / len(trees)
    vote = EnsembleAggregator(forests).fit()
    np.testing.assert_allclose(P[:, vote.classes_], vote.predict_proba(X), atol=1e-12)


def test_flwr_trees_gets_the_rows_of_our_nodes(programs, digits, monkeypatch):
    class Forest:
        def __init__(self, n_clients, random_state):
            self.n_clients = n_clients

        def fit(self, X, y):
            self.dealt = sys.modules[Forest.__module__].simulate_clients(
                X, y, n_clients=self.n_clients
            )
            self.n_rows = len(y)
            self.strategy_ = SimpleNamespace(bytes_sent_per_round=[30, 50])

    package = ModuleType("flwr_trees")
    package.Forest = Forest
    Forest.__module__ = "flwr_trees"
    package.simulate_clients = None
    monkeypatch.setitem(sys.modules, "flwr_trees", package)
    rows, _ = forests_of_two_clients(*digits)
    forest, n_bytes = programs.fit_flwr_trees("Forest", rows, 0)
    assert forest.dealt is rows
    assert forest.n_rows == sum(len(y) for _, y in rows)
    assert n_bytes == 40
    assert package.simulate_clients is None  # as it was


# Programs that are not there ---------------------------------------------------------


def test_a_missing_program_is_left_out_with_a_line(
    programs, monkeypatch, tmp_path, otfusion
):
    needed = {"a": programs.REBASIN, "b": programs.OTFUSION, "c": programs.FLWR_TREES}
    lines = []
    monkeypatch.setattr(programs, "find_spec", lambda name: None)
    kept = programs.without_missing(["a", "b", "c", "d"], needed, say=lines.append)
    assert kept == ["d"]
    assert [line.rsplit(" ", 1)[-1] for line in lines] == [
        "POT",
        "flwr-trees",
        "rebasin",
    ]
    monkeypatch.setattr(programs, "find_spec", lambda name: name)
    for folder in (None, str(tmp_path)):
        assert "--otfusion" in programs.why_left_out(programs.OTFUSION, folder)
    assert programs.why_left_out(programs.OTFUSION, otfusion) is None
    assert programs.without_missing(["c", "d"], needed) == ["c", "d"]


# The scripts -------------------------------------------------------------------------


SCRIPTS = {
    "today_networks.py": (
        ["--nodes", "2", "--epochs", "1", "--methods", "PFNM"],
        {"network of all rows", "averaging", "soft vote", "PFNM"},
    ),
    "today_trees.py": (
        ["--partitions", "homog-5", "--methods", "our forest"],
        {"forest of all rows", "vote of forests", "our forest"},
    ),
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_keeps_its_records(programs, tmp_path, monkeypatch, capsys, script):
    pytest.importorskip("torch")
    arguments, methods = SCRIPTS[script]
    records = tmp_path / "records.jsonl"
    command = [str(BENCHMARKS / script), "--data-sets", "digits", "--seeds", "1"]
    command += ["--max-rows", "300", "--records", str(records), *arguments]
    monkeypatch.setattr(sys, "argv", command)
    runpy.run_path(command[0], run_name="__main__")
    lines = [json.loads(line) for line in records.read_text().splitlines()]
    assert {line["method"] for line in lines} == methods
    assert all(0 < line["accuracy"] <= 1 for line in lines)
    table = capsys.readouterr().out
    assert all(f"\n{method} " in table for method in methods)
    # What is in the file is not run again.
    runpy.run_path(command[0], run_name="__main__")
    assert len(records.read_text().splitlines()) == len(lines)
    assert capsys.readouterr().out == table


def test_a_table_says_where_ours_is_below(programs, capsys):
    side_by_side = importlib.import_module("_side_by_side")
    accuracies = {
        ("ours", ("wine",)): 0.9,
        ("ours", ("iris",)): 0.9,
        ("vote", ("wine",)): 0.925,
        ("vote", ("iris",)): 0.9,
    }
    side_by_side.print_defeats(accuracies, ["ours"], ["vote"])
    assert capsys.readouterr().out == "ours is 2.5 below vote: wine\n"
