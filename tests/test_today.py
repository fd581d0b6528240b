# SPDX-License-Identifier: BSD-3-Clause
"""Methods of other papers, in the benchmarks, are what their formulas say."""

from __future__ import annotations

import importlib.util
import json
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.labels import assert_same_labels
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


def rows_of_nodes(X, y, *, n_nodes):
    """Rows and labels of each node, dealt by label.

    No node has all classes, and no two have equally many rows.
    """
    order = np.argsort(y, kind="stable")
    parts = np.split(order, np.cumsum(np.arange(1, n_nodes)) * 20)
    return [(X[rows], y[rows]) for rows in parts]


def afl_messages(today, X, y, *, classes, gamma, n_nodes):
    """What each node sends in AFL, whose rows are dealt by label."""
    return [
        today.afl_message(X_node, today.one_hot(y_node, classes), gamma)
        for X_node, y_node in rows_of_nodes(X, y, n_nodes=n_nodes)
    ]


# AFL ---------------------------------------------------------------------------------


@pytest.mark.parametrize("n_nodes", [1, 2, 4])
@pytest.mark.parametrize("gamma", [0.5, 10.0])
def test_afl_is_the_pooled_solution(today, wine, n_nodes, gamma):
    X, y, classes = wine
    X = today.with_one(X)
    Y = today.one_hot(y, classes)
    messages = afl_messages(today, X, y, classes=classes, gamma=gamma, n_nodes=n_nodes)
    unpenalised, C = today.merge_by_afl(messages, gamma)
    penalized, _ = today.merge_by_afl(messages, gamma, keep=2.0)
    ridge = Ridge(alpha=2.0, fit_intercept=False, solver="cholesky").fit(X, Y)
    np.testing.assert_allclose(unpenalised, np.linalg.lstsq(X, Y)[0], atol=1e-8)
    np.testing.assert_allclose(penalized, ridge.coef_.T, atol=1e-8)
    np.testing.assert_allclose(
        today.ridge_of_sums(X.T @ X, X.T @ Y, 2.0), penalized, atol=1e-8
    )
    # C is the sum of the nodes' Gram matrices, each of which has gamma added.
    np.testing.assert_allclose(C, X.T @ X + n_nodes * gamma * np.eye(14), atol=1e-8)


def test_afl_without_an_inverse_is_the_shortest_solution(today, wine):
    X, y, classes = wine
    X = np.column_stack([X, X[:, 0], np.zeros(len(X))])
    Y = today.one_hot(y, classes)
    messages = afl_messages(today, X, y, classes=classes, gamma=1.0, n_nodes=3)
    W, _ = today.merge_by_afl(messages, 1.0)
    np.testing.assert_allclose(W, np.linalg.lstsq(X, Y)[0], atol=1e-8)


# Sums by class -----------------------------------------------------------------------


def total_sums(today, X, y, *, classes):
    """The sums by class that four nodes send, added up."""
    sums_of_nodes = [
        today.Sums.of_rows(X_node, y_node, classes)
        for X_node, y_node in rows_of_nodes(X, y, n_nodes=4)
    ]
    return today.Sums.total(sums_of_nodes)


@pytest.mark.parametrize("load", [load_wine, load_digits])
def test_fedcgs_is_lda_of_all_rows(today, load):
    X, y = load(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    classes = np.unique(y)
    if load is load_digits:
        X = X[:, X.std(axis=0) > 0]
    head = today.fedcgs(total_sums(today, X, y, classes=classes), classes)
    lda = LinearDiscriminantAnalysis(solver="lsqr").fit(X, y)
    np.testing.assert_allclose(head.predict_proba(X), lda.predict_proba(X), atol=1e-8)
    assert_same_labels(head, lda, X)


def test_fedcgs_about_all_takes_the_covariance_of_all_rows(today, wine):
    X, y, classes = wine
    sums = total_sums(today, X, y, classes=classes)
    np.testing.assert_allclose(sums.about_all(), np.cov(X.T), atol=1e-10)


def test_means_of_single_rows_have_the_covariance_of_rows(today, wine):
    X, y, classes = wine
    single_rows = [
        today.Sums.of_rows(X[k : k + 1], y[k : k + 1], classes) for k in range(len(y))
    ]
    estimates = today.covariances_of_means(single_rows, gamma=0.0)
    for label, estimate in zip(classes, estimates, strict=True):
        np.testing.assert_allclose(estimate, np.cov(X[y == label].T), atol=1e-12)
    head = today.fedcof(single_rows, classes)
    assert np.mean(head.predict(X) == y) > 0.9


def test_a_class_of_one_node_has_no_covariance_in_fedcof(today, wine):
    X, y, classes = wine
    by_class = [today.Sums.of_rows(X[y == c], y[y == c], classes) for c in classes]
    estimates = today.covariances_of_means(by_class, gamma=2.0)
    np.testing.assert_allclose(
        estimates, np.tile(2 * np.eye(X.shape[1]), (3, 1, 1)), atol=1e-12
    )


def test_closed_heads_of_gh_are_those_of_their_gaussians(today, wine, monkeypatch):
    X, y, classes = wine
    sums = total_sums(today, X, y, classes=classes)
    diagonal = today.gh_closed(sums, classes, kind="diagonal")
    naive_bayes = GaussianNB(var_smoothing=0).fit(X, y)
    np.testing.assert_allclose(
        diagonal.predict_proba(X), naive_bayes.predict_proba(X), atol=1e-8
    )
    # Quadratic discriminants are compared without the shrinkage of the paper.
    monkeypatch.setattr(today, "shrunk", lambda covariance, share=0.0: covariance)
    quadratic = today.gh_closed(sums, classes, kind="class")
    log_joint = []  # log p(x, c) up to one constant
    for c in classes:
        Z = X[y == c]
        gaussian = multivariate_normal(Z.mean(axis=0), np.cov(Z.T))
        log_joint.append(gaussian.logpdf(X) + np.log(len(Z)))
    expected = softmax(np.transpose(log_joint), axis=1)
    np.testing.assert_allclose(quadratic.predict_proba(X), expected, atol=1e-8)


def test_the_fisher_subspace_holds_all_that_lda_uses(today, wine):
    X, y, classes = wine
    sums = total_sums(today, X, y, classes=classes)
    within = sums.within(3)
    V = today.fisher_subspace(sums.means, within, sums.priors, energy=1.0)
    S = today.shrunk(within)
    np.testing.assert_allclose(V.T @ S @ V, np.eye(V.shape[1]), atol=1e-8)
    W, b = today.linear_discriminant(sums.means, S, sums.priors)
    W_subspace, b_subspace = today.linear_discriminant(
        sums.means @ V, V.T @ S @ V, sums.priors
    )
    scores = X @ W + b
    scores_in_subspace = X @ V @ W_subspace + b_subspace
    # Scores may differ by a constant per row, so the first column is subtracted.
    np.testing.assert_allclose(
        scores - scores[:, :1],
        scores_in_subspace - scores_in_subspace[:, :1],
        atol=1e-8,
    )


@pytest.mark.parametrize("kind", ["shared", "class", "diagonal"])
def test_drawn_rows_have_the_moments_that_nodes_sent(today, wine, kind):
    X, y, classes = wine
    sums = total_sums(today, X, y, classes=classes)
    gaussian_rows = today.draw_rows(sums, kind=kind, n_draws=20_000, seed=0)
    for c in classes:
        Z = gaussian_rows.Z[gaussian_rows.class_numbers == c]
        covariance = (
            gaussian_rows.covariances[c] if kind == "class" else gaussian_rows.within
        )
        # GH-OFL draws rows with 0.75 of the deviations that nodes sent. The bounds are
        # several standard errors of 20,000 rows.
        np.testing.assert_allclose(Z.mean(axis=0), gaussian_rows.means[c], atol=0.05)
        np.testing.assert_allclose(np.cov(Z.T), 0.75**2 * covariance, atol=0.1)


def test_heads_of_drawn_rows_know_the_classes(today, wine):
    pytest.importorskip("torch")
    X, y, classes = wine
    sums = total_sums(today, X, y, classes=classes)
    gaussian_rows = today.draw_rows(sums, kind="class", n_draws=300, seed=0)
    fisher_mix = today.fisher_mix(gaussian_rows, classes, seed=0, epochs=20)
    proto_hyper = today.proto_hyper(
        gaussian_rows, classes, priors=sums.priors, kind="class", seed=0, epochs=20
    )
    for head in (fisher_mix, proto_hyper):
        assert np.mean(head.predict(X) == y) > 0.9
        np.testing.assert_allclose(head.predict_proba(X).sum(axis=1), 1)
    # Scores are cosines, times 20.
    assert fisher_mix.scores(X).max() <= 20 + 1e-9


# SAFLe-like --------------------------------------------------------------------------


def test_buckets_have_a_one_in_every_group(today, wine):
    X, *_ = wine
    front = today.Buckets(X.shape[1], n_bits=60, group=3, seed=1)
    Z = front.transform(X)
    assert Z.shape == (len(X), front.n_columns_out)
    assert set(np.unique(Z)) == {0.0, 1.0}
    assert (Z.reshape(len(X), -1, 8).sum(axis=2) == 1).all()
    # A row far below all thresholds has the first pattern in every group.
    Z_low = front.transform(np.full((1, X.shape[1]), -9.0))
    assert (Z_low.reshape(-1, 8)[:, 0] == 1).all()


def test_sums_of_buckets_are_what_the_law_of_afl_gives(today, wine):
    X, y, classes = wine
    front = today.Buckets(X.shape[1], n_bits=26, group=2)
    Z = front.transform(X)
    Y = today.one_hot(y, classes)
    # A row's buckets are its own, so nodes may as well be dealt rows of Z.
    messages = afl_messages(today, Z, y, classes=classes, gamma=1.0, n_nodes=3)
    W, _ = today.merge_by_afl(messages, 1.0, keep=1.0)
    W_of_sums = today.ridge_of_sums(Z.T @ Z, Z.T @ Y, 1.0)
    np.testing.assert_allclose(Z @ W, Z @ W_of_sums, atol=1e-8)


# FedFisher ---------------------------------------------------------------------------


def least_squares_nodes(rng, sizes):
    """Rows and targets of each node, and the least squares weights of each.

    Rows have four features and a column of ones, targets two outputs.
    """
    rows = [rng.standard_normal((n, 4)) @ rng.standard_normal((4, 4)) for n in sizes]
    rows = [np.column_stack([X, np.ones(len(X))]) for X in rows]
    targets = [rng.standard_normal((n, 2)) for n in sizes]
    pairs = list(zip(rows, targets, strict=True))
    return pairs, [[np.linalg.lstsq(X, Y)[0]] for X, Y in pairs]


def pooled_least_squares(pairs):
    """The least squares weights of the rows of all nodes together."""
    X = np.vstack([X_node for X_node, _ in pairs])
    Y = np.vstack([Y_node for _, Y_node in pairs])
    return np.linalg.lstsq(X, Y)[0]


def flattened(weights):
    """All weights of a network in one vector."""
    return np.concatenate([V.ravel() for V in weights])


def test_fedfisher_with_the_fisher_information_is_pooled_least_squares(today):
    sizes = [20, 30, 50]
    pairs, members = least_squares_nodes(np.random.default_rng(0), sizes)
    # Under noise of unit variance the information of a row x is x x'.
    factors = [[(X.T @ X / len(X), np.eye(2))] for X, _ in pairs]
    (W,) = today.fedfisher_kfac(members, factors, sizes)
    np.testing.assert_allclose(W, pooled_least_squares(pairs), atol=1e-8)


def test_the_diagonal_is_exact_where_columns_are_orthogonal(today):
    rng = np.random.default_rng(1)
    sizes = [20, 30]
    pairs = []
    for n in sizes:
        X = np.linalg.qr(rng.standard_normal((n, 3)))[0] * rng.uniform(1, 5, 3)
        pairs.append((X, rng.standard_normal((n, 2))))
    members = [[np.linalg.lstsq(X, Y)[0]] for X, Y in pairs]
    diagonals = [[np.tile((X**2).mean(axis=0)[:, None], 2)] for X, _ in pairs]
    (W,) = today.fedfisher_diagonal(members, diagonals, sizes)
    np.testing.assert_allclose(W, pooled_least_squares(pairs), atol=1e-8)


def slopes_by_differences(today, weights, x, *, c, step=1e-6):
    """Slopes of -log p(c) at one row, by central differences; one vector a layer."""

    def loss():
        logits = today.layer_inputs_and_logits(weights, x)[-1]
        return -np.log(softmax(logits, axis=1)[0, c])

    slopes = []
    for V in weights:
        slopes_of_layer = np.empty_like(V)
        for place in np.ndindex(V.shape):
            weight = V[place]
            V[place] = weight + step
            loss_above = loss()
            V[place] = weight - step
            loss_below = loss()
            V[place] = weight
            slopes_of_layer[place] = (loss_above - loss_below) / (2 * step)
        slopes.append(slopes_of_layer.ravel())
    return slopes


def test_kfac_of_one_row_is_the_fisher_information(today):
    rng = np.random.default_rng(2)
    weights = [rng.standard_normal((4, 3)), rng.standard_normal((4, 3))]
    x = rng.standard_normal((1, 3))
    probabilities = softmax(today.layer_inputs_and_logits(weights, x)[-1], axis=1)[0]
    # The expectation, over classes, of the products of slopes.
    information = [np.zeros((12, 12)), np.zeros((12, 12))]
    for c, probability in enumerate(probabilities):
        slopes = slopes_by_differences(today, weights, x, c=c)
        for F, g in zip(information, slopes, strict=True):
            F += probability * np.outer(g, g)
    factors = today.kfac(weights, x)
    diagonals = today.fisher_diagonal(weights, x)
    for F, (A, G), diagonal in zip(information, factors, diagonals, strict=True):
        # Differences of losses are right to some 1e-7.
        np.testing.assert_allclose(np.kron(A, G), F, atol=1e-6)
        np.testing.assert_allclose(diagonal.ravel(), np.diag(F), atol=1e-6)


def test_fedfisher_with_kfac_is_the_least_of_its_sum(today):
    rng = np.random.default_rng(3)
    shapes = [(4, 3), (4, 2)]
    counts = [10, 25]
    damping = 0.5
    members = [[rng.standard_normal(shape) for shape in shapes] for _ in counts]
    rows = [rng.standard_normal((n, 3)) for n in counts]
    factors = [today.kfac(m, X) for m, X in zip(members, rows, strict=True)]
    weights = today.fedfisher_kfac(members, factors, counts, damping=damping)
    # The minimum of damping |v - start|^2 + sum_k n_k (v - v_k)' F_k (v - v_k).
    H = damping * np.eye(20)
    g = damping * flattened(today.mean_weights(members, counts))
    for n, factors_of_node, member in zip(counts, factors, members, strict=True):
        F = n * block_diag(*(np.kron(A, G) for A, G in factors_of_node))
        H = H + F
        g = g + F @ flattened(member)
    np.testing.assert_allclose(flattened(weights), np.linalg.solve(H, g), atol=1e-7)


# DENSE-like --------------------------------------------------------------------------


def test_linear_members_teach_their_mean(today):
    """The mean of linear logits is the mean model: it stays as it began."""
    pytest.importorskip("torch")
    rng = np.random.default_rng(4)
    members = [[rng.standard_normal((4, 3))] for _ in range(3)]
    counts = [10, 20, 30]
    (student,), rows = today.dense_like(members, counts, seed=0, n_rounds=2, n_steps=5)
    (mean,) = today.mean_weights(members, counts)
    np.testing.assert_allclose(student, mean, atol=1e-4)
    assert rows.shape == (512, 3)


def test_the_student_of_networks_comes_nearer_to_them(today):
    pytest.importorskip("torch")
    rng = np.random.default_rng(5)
    start = [rng.standard_normal((6, 8)), rng.standard_normal((9, 3))]
    members = [
        [V + 0.7 * rng.standard_normal(V.shape) for V in start] for _ in range(3)
    ]
    student, rows = today.dense_like(members, [1, 1, 1], seed=0, n_rounds=10)
    X = rng.standard_normal((500, 5))
    mean_logits = np.mean(
        [today.layer_inputs_and_logits(member, X)[-1] for member in members], axis=0
    )

    def gap(weights):
        """Mean squared difference of logits, up to a constant per row."""
        differences = today.layer_inputs_and_logits(weights, X)[-1] - mean_logits
        return np.mean((differences - differences.mean(1, keepdims=True)) ** 2)

    assert gap(student) < gap(today.mean_weights(members, [1, 1, 1]))
    # Rows that the generator makes are about as large as standard normal ones.
    assert np.abs(rows.mean(axis=0)).max() < 1
    assert 0.3 < rows.std() < 2


# The program -------------------------------------------------------------------------


def test_the_program_keeps_its_records(tmp_path, monkeypatch, capsys):
    program = BENCHMARKS / "today.py"
    if not program.exists():
        pytest.skip("the benchmarks are not here")
    records = tmp_path / "records.jsonl"
    command = [str(program), "--data-sets", "wine"]
    command += ["--seeds", "1", "--features", "raw", "--partitions", "disjoint-2"]
    command += ["--methods", "AFL", "FedCGS", "averaging", "--records", str(records)]
    monkeypatch.setattr(sys, "argv", command)
    monkeypatch.syspath_prepend(BENCHMARKS)
    runpy.run_path(str(program), run_name="__main__")
    assert "raw: 1 cells" in capsys.readouterr().out
    lines = [json.loads(line) for line in records.read_text().splitlines()]
    methods = {line["method"] for line in lines}
    assert methods == {"pooled", "ours", "AFL", "FedCGS", "averaging"}
    assert all(line["accuracy"] > 0.5 for line in lines)
