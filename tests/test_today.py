# SPDX-License-Identifier: BSD-3-Clause
"""Methods of other papers, in the benchmarks, are what their formulas say."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.linalg import block_diag
from scipy.special import softmax
from scipy.stats import multivariate_normal
from sklearn.datasets import load_digits, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import StandardScaler

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture(scope="module")
def today():
    path = BENCHMARKS / "_today.py"
    if not path.exists():
        pytest.skip("the benchmarks are not here")
    spec = importlib.util.spec_from_file_location("_today_under_test", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    return StandardScaler().fit_transform(X), y, np.arange(3)


def dealt(X, y, n_nodes):
    """By label, so that no node has all classes, and none as many rows."""
    order = np.argsort(y, kind="stable")
    parts = np.split(order, np.cumsum(np.arange(1, n_nodes)) * 20)
    return [(X[rows], y[rows]) for rows in parts]


# AFL ---------------------------------------------------------------------------------


@pytest.mark.parametrize("n_nodes", [1, 2, 4])
@pytest.mark.parametrize("gamma", [0.5, 10.0])
def test_afl_is_the_pooled_solution(today, wine, n_nodes, gamma):
    X, y, classes = wine
    X, Y = today.with_one(X), today.one_hot(y, classes)
    messages = [
        today.afl_message(Z, today.one_hot(own, classes), gamma)
        for Z, own in dealt(X, y, n_nodes)
    ]
    free, C = today.merge_by_afl(messages, gamma)
    kept, _ = today.merge_by_afl(messages, gamma, keep=2.0)
    ridge = Ridge(alpha=2.0, fit_intercept=False, solver="cholesky").fit(X, Y)
    np.testing.assert_allclose(free, np.linalg.lstsq(X, Y)[0], atol=1e-8)
    np.testing.assert_allclose(kept, ridge.coef_.T, atol=1e-8)
    np.testing.assert_allclose(
        today.ridge_of_sums(X.T @ X, X.T @ Y, 2.0), kept, atol=1e-8
    )
    # What it adds up on its way is the sum of Gram matrices.
    np.testing.assert_allclose(C, X.T @ X + n_nodes * gamma * np.eye(14), atol=1e-8)


def test_afl_without_an_inverse_is_the_shortest_solution(today, wine):
    X, y, classes = wine
    X = np.column_stack([X, X[:, 0], np.zeros(len(X))])
    Y = today.one_hot(y, classes)
    messages = [
        today.afl_message(Z, today.one_hot(own, classes), 1.0)
        for Z, own in dealt(X, y, 3)
    ]
    W, _ = today.merge_by_afl(messages, 1.0)
    np.testing.assert_allclose(W, np.linalg.lstsq(X, Y)[0], atol=1e-8)


# Sums by class -----------------------------------------------------------------------


def sums_of(today, X, y, classes):
    parts = [today.Sums.of_rows(Z, own, classes) for Z, own in dealt(X, y, 4)]
    return today.Sums.total(parts)


@pytest.mark.parametrize("load", [load_wine, load_digits])
def test_fedcgs_is_lda_of_all_rows(today, load):
    X, y = load(return_X_y=True)
    X, classes = StandardScaler().fit_transform(X), np.unique(y)
    if load is load_digits:
        X = X[:, X.std(axis=0) > 0]
    head = today.fedcgs(sums_of(today, X, y, classes), classes)
    lda = LinearDiscriminantAnalysis(solver="lsqr").fit(X, y)
    np.testing.assert_allclose(head.predict_proba(X), lda.predict_proba(X), atol=1e-8)
    assert (head.predict(X) == lda.predict(X)).all()


def test_fedcgs_about_all_takes_the_covariance_of_all_rows(today, wine):
    X, y, classes = wine
    sums = sums_of(today, X, y, classes)
    np.testing.assert_allclose(sums.about_all(), np.cov(X.T), atol=1e-10)


def test_closed_heads_of_gh_are_those_of_their_gaussians(today, wine, monkeypatch):
    X, y, classes = wine
    sums = sums_of(today, X, y, classes)
    naive = today.gh_closed(sums, classes, "diagonal").predict_proba(X)
    own = GaussianNB(var_smoothing=0).fit(X, y).predict_proba(X)
    np.testing.assert_allclose(naive, own, atol=1e-8)
    # Without shrinkage.
    monkeypatch.setattr(today, "shrunk", lambda covariance, share=0.0: covariance)
    qda = today.gh_closed(sums, classes, "class").predict_proba(X)
    parts = [X[y == c] for c in classes]
    own = [multivariate_normal(Z.mean(axis=0), np.cov(Z.T)) for Z in parts]
    logs = [d.logpdf(X) + np.log(len(Z)) for d, Z in zip(own, parts, strict=True)]
    np.testing.assert_allclose(qda, softmax(np.transpose(logs), axis=1), atol=1e-8)


def test_the_fisher_subspace_holds_all_that_lda_uses(today, wine):
    X, y, classes = wine
    sums = sums_of(today, X, y, classes)
    within = sums.within(3)
    V = today.fisher_subspace(sums.means, within, sums.priors, energy=1.0)
    S = today.shrunk(within)
    np.testing.assert_allclose(V.T @ S @ V, np.eye(V.shape[1]), atol=1e-8)
    W, b = today.linear_discriminant(sums.means, S, sums.priors)
    inside, c = today.linear_discriminant(sums.means @ V, V.T @ S @ V, sums.priors)
    whole, part = X @ W + b, X @ V @ inside + c
    apart = whole - whole[:, :1] - part + part[:, :1]
    np.testing.assert_allclose(apart, 0, atol=1e-8)


@pytest.mark.parametrize("kind", ["shared", "class", "diagonal"])
def test_drawn_rows_have_the_moments_that_were_told(today, wine, kind):
    X, y, classes = wine
    drawn = today.draw_rows(sums_of(today, X, y, classes), kind, n_draws=20_000, seed=0)
    for c in classes:
        Z = drawn.Z[drawn.class_numbers == c]
        own = drawn.covariances[c] if kind == "class" else drawn.within
        np.testing.assert_allclose(Z.mean(axis=0), drawn.means[c], atol=0.05)
        np.testing.assert_allclose(np.cov(Z.T), 0.75**2 * own, atol=0.1)


def test_heads_of_drawn_rows_know_the_classes(today, wine):
    pytest.importorskip("torch")
    X, y, classes = wine
    sums = sums_of(today, X, y, classes)
    drawn = today.draw_rows(sums, "class", n_draws=300, seed=0)
    mix = today.fisher_mix(drawn, classes, seed=0, epochs=20)
    hyper = today.proto_hyper(
        drawn, classes, priors=sums.priors, kind="class", seed=0, epochs=20
    )
    for head in (mix, hyper):
        assert np.mean(head.predict(X) == y) > 0.9
        np.testing.assert_allclose(head.predict_proba(X).sum(axis=1), 1)
    assert mix.scores(X).max() <= 20 + 1e-9


# SAFLe-like --------------------------------------------------------------------------


def test_buckets_have_a_one_in_every_group(today, wine):
    X, *_ = wine
    front = today.Buckets(X.shape[1], n_bits=60, group=3, seed=1)
    Z = front.transform(X)
    assert Z.shape == (len(X), front.n_columns_out)
    assert set(np.unique(Z)) == {0.0, 1.0}
    assert (Z.reshape(len(X), -1, 8).sum(axis=2) == 1).all()
    # A row far below all thresholds has the first pattern everywhere.
    low = front.transform(np.full((1, X.shape[1]), -9.0))
    assert (low.reshape(-1, 8)[:, 0] == 1).all()


def test_sums_of_buckets_are_what_the_law_of_afl_gives(today, wine):
    X, y, classes = wine
    front = today.Buckets(X.shape[1], n_bits=26, group=2)
    Z, Y = front.transform(X), today.one_hot(y, classes)
    messages = [
        today.afl_message(front.transform(own), today.one_hot(c, classes), 1.0)
        for own, c in dealt(X, y, 3)
    ]
    W, _ = today.merge_by_afl(messages, 1.0, keep=1.0)
    sums = today.ridge_of_sums(Z.T @ Z, Z.T @ Y, 1.0)
    np.testing.assert_allclose(Z @ W, Z @ sums, atol=1e-8)


# FedFisher ---------------------------------------------------------------------------


def linear_gaussian(rng, sizes, d=4, n_outputs=2):
    """Rows of nodes, and the least squares of each."""
    rows = [rng.standard_normal((n, d)) @ rng.standard_normal((d, d)) for n in sizes]
    rows = [np.column_stack([X, np.ones(len(X))]) for X in rows]
    targets = [rng.standard_normal((n, n_outputs)) for n in sizes]
    pairs = list(zip(rows, targets, strict=True))
    return pairs, [[np.linalg.lstsq(X, Y)[0]] for X, Y in pairs]


def test_fedfisher_with_the_fisher_information_is_pooled_least_squares(today):
    sizes = [20, 30, 50]
    pairs, members = linear_gaussian(np.random.default_rng(0), sizes)
    # Of unit noise the information of a row is its product with itself.
    factors = [[(X.T @ X / len(X), np.eye(2))] for X, _ in pairs]
    (found,) = today.fedfisher_kfac(members, factors, sizes)
    X, Y = (np.vstack(part) for part in zip(*pairs, strict=True))
    np.testing.assert_allclose(found, np.linalg.lstsq(X, Y)[0], atol=1e-8)


def test_the_diagonal_is_exact_where_columns_are_orthogonal(today):
    rng = np.random.default_rng(1)
    sizes, pairs, members = [20, 30], [], []
    for n in sizes:
        X = np.linalg.qr(rng.standard_normal((n, 3)))[0] * rng.uniform(1, 5, 3)
        Y = rng.standard_normal((n, 2))
        pairs.append((X, Y))
        members.append([np.linalg.lstsq(X, Y)[0]])
    own = [[np.tile((X**2).mean(axis=0)[:, None], 2)] for X, _ in pairs]
    (found,) = today.fedfisher_diagonal(members, own, sizes)
    X, Y = (np.vstack(part) for part in zip(*pairs, strict=True))
    np.testing.assert_allclose(found, np.linalg.lstsq(X, Y)[0], atol=1e-8)


def slopes_by_differences(today, weights, x, c, step=1e-6):
    """Slopes of -log p(c) at one row."""
    found = []
    for V in weights:
        own = np.empty_like(V)
        for place in np.ndindex(V.shape):
            values = []
            for sign in (1, -1):
                V[place] += sign * step
                logits = today.layer_inputs_and_logits(weights, x)[-1]
                values.append(-np.log(softmax(logits, axis=1)[0, c]))
                V[place] -= sign * step
            own[place] = (values[0] - values[1]) / (2 * step)
        found.append(own.ravel())
    return found


def test_kfac_of_one_row_is_the_fisher_information(today):
    rng = np.random.default_rng(2)
    weights = [rng.standard_normal((4, 3)), rng.standard_normal((4, 3))]
    x = rng.standard_normal((1, 3))
    p = softmax(today.layer_inputs_and_logits(weights, x)[-1], axis=1)[0]
    exact = [0.0, 0.0]
    for c, share in enumerate(p):
        slopes = slopes_by_differences(today, weights, x, c)
        exact = [F + share * np.outer(g, g) for F, g in zip(exact, slopes, strict=True)]
    parts = today.kfac(weights, x)
    for F, (A, G), own in zip(
        exact, parts, today.fisher_diagonal(weights, x), strict=True
    ):
        np.testing.assert_allclose(np.kron(A, G), F, atol=1e-6)
        np.testing.assert_allclose(own.ravel(), np.diag(F), atol=1e-6)


def test_fedfisher_with_kfac_is_the_least_of_its_sum(today):
    rng = np.random.default_rng(3)
    shapes, counts, damping = [(4, 3), (4, 2)], [10, 25], 0.5
    members = [[rng.standard_normal(s) for s in shapes] for _ in counts]
    rows = [rng.standard_normal((n, 3)) for n in counts]
    factors = [today.kfac(m, X) for m, X in zip(members, rows, strict=True)]
    found = today.fedfisher_kfac(members, factors, counts, damping=damping)
    start = today.mean_weights(members, counts)
    H, g = damping * np.eye(20), damping * np.concatenate([V.ravel() for V in start])
    for n, own, member in zip(counts, factors, members, strict=True):
        F = n * block_diag(*(np.kron(A, G) for A, G in own))
        H, g = H + F, g + F @ np.concatenate([V.ravel() for V in member])
    flat = np.concatenate([V.ravel() for V in found])
    np.testing.assert_allclose(flat, np.linalg.solve(H, g), atol=1e-7)


# DENSE-like --------------------------------------------------------------------------


def test_linear_members_teach_their_mean(today):
    """The mean of linear logits is the mean model: it stays as it began."""
    pytest.importorskip("torch")
    rng = np.random.default_rng(4)
    members = [[rng.standard_normal((4, 3))] for _ in range(3)]
    counts = [10, 20, 30]
    (found,), rows = today.dense_like(members, counts, 0, n_rounds=2, n_steps=5)
    (mean,) = today.mean_weights(members, counts)
    np.testing.assert_allclose(found, mean, atol=1e-4)
    assert rows.shape == (512, 3)


def test_the_student_of_networks_comes_nearer_to_them(today):
    pytest.importorskip("torch")
    rng = np.random.default_rng(5)
    start = [rng.standard_normal((6, 8)), rng.standard_normal((9, 3))]
    members = [
        [V + 0.7 * rng.standard_normal(V.shape) for V in start] for _ in range(3)
    ]
    found, rows = today.dense_like(members, [1, 1, 1], 0, n_rounds=10)
    X = rng.standard_normal((500, 5))
    goal = np.mean(
        [today.layer_inputs_and_logits(own, X)[-1] for own in members], axis=0
    )

    def gap(weights):
        own = today.layer_inputs_and_logits(weights, X)[-1]
        return np.mean((own - goal - (own - goal).mean(1, keepdims=True)) ** 2)

    assert gap(found) < gap(today.mean_weights(members, [1, 1, 1]))
    assert np.abs(rows.mean(axis=0)).max() < 1 and 0.3 < rows.std() < 2


# The program -------------------------------------------------------------------------


def test_the_program_keeps_its_records(tmp_path):
    if not (BENCHMARKS / "today.py").exists():
        pytest.skip("the benchmarks are not here")
    records = tmp_path / "records.jsonl"
    command = [sys.executable, str(BENCHMARKS / "today.py"), "--data-sets", "wine"]
    command += ["--seeds", "1", "--features", "raw", "--partitions", "disjoint-2"]
    command += ["--methods", "AFL", "FedCGS", "averaging", "--records", str(records)]
    paths = [str(BENCHMARKS.parent), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    shown = {"capture_output": True, "text": True, "env": environment}
    run = subprocess.run(command, **shown)
    assert run.returncode == 0, run.stderr
    assert "raw: 1 cells" in run.stdout
    kept = [json.loads(line) for line in records.read_text().splitlines()]
    assert {own["method"] for own in kept} == {
        *("pooled", "ours", "AFL", "FedCGS", "averaging")
    }
    assert all(own["accuracy"] > 0.5 for own in kept)
