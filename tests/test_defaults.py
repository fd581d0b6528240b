# SPDX-License-Identifier: BSD-3-Clause
"""Every aggregator with its defaults, on every way that rows can come."""

from __future__ import annotations

import warnings
from functools import cache

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

import skgems
from skgems import (
    DistillationAggregator,
    EnsembleAggregator,
    GEMSLogisticAggregator,
    GEMSMLPAggregator,
    ModelAveragingAggregator,
    PFNMAggregator,
    PooledAggregator,
)
from skgems._cli import main

NAMES = ["lyon", "paris"]
LINEAR = LogisticRegression()
NET = MLPClassifier((8,), solver="lbfgs", alpha=0.1, max_iter=300, random_state=0)

# The classifier that nodes of each have; None: they have rows alone.
OF_ROWS = [
    (GEMSLogisticAggregator, LINEAR),
    (GEMSLogisticAggregator, None),
    (PooledAggregator, None),
    (GEMSMLPAggregator, NET),
    (ModelAveragingAggregator, LINEAR),
    (PFNMAggregator, NET),
    (EnsembleAggregator, LINEAR),
    (DistillationAggregator, LINEAR),
]
# Those that need one message, for which a file is enough.
OF_FILES = [
    case
    for case in OF_ROWS
    if hasattr(case[0], "summarize") and case[0] is not GEMSMLPAggregator
]
# Those that a folder or the shell may lead, by their words there.
WORDS = {
    GEMSLogisticAggregator: "linear",
    PooledAggregator: "pooled",
    GEMSMLPAggregator: "networks",
    ModelAveragingAggregator: "averaging",
    PFNMAggregator: "matching",
}
OF_EXCHANGES = [
    case
    for case in OF_ROWS
    if case[0] not in (EnsembleAggregator, DistillationAggregator)
]


@pytest.fixture(autouse=True)
def defaults_draw_the_same():
    """Seed numpy, as defaults have no seed; warnings of few rows do not matter here."""
    np.random.seed(0)  # noqa: NPY002
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@cache
def rows():
    X, y = load_wine(return_X_y=True)
    X = StandardScaler().fit_transform(X)[:, :5]
    return X, np.array(["low", "mid", "top"])[y], np.array(NAMES)[np.arange(len(y)) % 2]


@cache
def members(has_net):
    X, y, nodes = rows()
    unfitted = NET if has_net else LINEAR
    return {
        name: clone(unfitted).fit(X[nodes == name], y[nodes == name]) for name in NAMES
    }


def member(local, name):
    return None if local is None else members(local is NET)[name]


def assert_good(aggregate):
    """Any of these models is right far more often than a constant, 0.4."""
    X, y, _ = rows()
    assert aggregate.score(X, y) > 0.6


def named(case):
    return f"{case[0].__name__}, {type(case[1]).__name__}"


@pytest.mark.parametrize("case", OF_ROWS, ids=named)
def test_rows(case):
    kind, local = case
    X, y, nodes = rows()
    pairs = [(name, member(local, name)) for name in NAMES]
    assert_good(kind(pairs).fit(X, y, nodes=nodes))


@pytest.mark.parametrize("kind", sorted({case[0] for case in OF_ROWS}, key=str))
def test_rows_without_any_estimators(kind):
    X, y, nodes = rows()
    aggregate = kind().fit(X, y, nodes=nodes)
    assert aggregate.node_names_ == NAMES
    assert_good(aggregate)


def summaries(case):
    kind, local = case
    X, y, nodes = rows()
    return [
        kind().summarize(
            member(local, name), X[nodes == name], y[nodes == name], name=name
        )
        for name in NAMES
    ]


@pytest.mark.parametrize("case", OF_FILES, ids=named)
def test_summaries_and_their_paths(case, tmp_path):
    sent = summaries(case)
    paths = []
    for summary in sent:
        paths.append(str(tmp_path / f"{summary.name}.safetensors"))
        summary.save(paths[-1])
    of_summaries = case[0]().set_params(estimators=sent).fit()
    assert_good(of_summaries)
    of_paths = case[0](paths).fit()
    X, _, _ = rows()
    np.testing.assert_array_equal(of_summaries.predict(X), of_paths.predict(X))


@pytest.mark.parametrize("case", OF_EXCHANGES, ids=named)
def test_exchanges(case, tmp_path):
    kind, local = case
    X, y, nodes = rows()
    exchange = skgems.Exchange(tmp_path, kind(), nodes=NAMES)
    for _ in range(40):  # more steps than any method takes
        fitted = exchange.step()
        if fitted is not None:
            break
        for name, request in exchange.waiting_for.items():
            of_node = nodes == name
            skgems.answer(
                request,
                member(local, name),
                X[of_node],
                y[of_node],
                name=name,
                agreement=tmp_path / "agreement.json",
                state=tmp_path / f"ledger-{name}",
            )
    assert_good(fitted)


@pytest.mark.parametrize("case", OF_EXCHANGES, ids=named)
def test_the_shell(case, tmp_path, monkeypatch, capsys):
    kind, local = case
    monkeypatch.chdir(tmp_path)
    X, y, nodes = rows()
    columns = [f"x{j}" for j in range(X.shape[1])]
    for name in NAMES:
        lines = [",".join([*columns, "grade"])]
        for row, label in zip(X[nodes == name], y[nodes == name], strict=True):
            lines.append(",".join([*map(repr, row.tolist()), label]))
        (tmp_path / f"{name}.csv").write_text("\n".join(lines), encoding="utf-8")
        joblib.dump(member(local, name), f"{name}.joblib")
    assert main(["start", "study", "--method", WORDS[kind], "--nodes", *NAMES]) == 0
    for _ in range(40):
        status = main(["combine", "study", "--out", "model.joblib"])
        if status == 0:
            break
        assert status == 3
        for path in sorted((tmp_path / "study" / "requests").glob("*.safetensors")):
            name = path.stem[4:]
            if (tmp_path / "study" / "replies" / path.name).exists():
                continue
            options = [] if local is None else ["--model", f"{name}.joblib"]
            options += ["--rows", f"{name}.csv", "--label", "grade", "--name", name]
            options += ["--agreement", "study/agreement.json"]
            options += ["--state", f"ledger-{name}"]
            assert main(["answer", str(path), *options, "--yes"]) == 0
    model = joblib.load("model.joblib")
    assert model.score(X, y) > 0.6
