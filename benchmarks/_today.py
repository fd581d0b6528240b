# SPDX-License-Identifier: BSD-3-Clause
"""Methods of other papers that need one message, of rows as columns of numbers.

Each is written from its paper's formulas. What nodes send and what the server makes of
it are functions of their own, so that a test can hold them against something known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.special import softmax
from scipy.stats import norm

Messages = list[tuple[np.ndarray, np.ndarray]]
# Of one layer: weights with the bias as their last row.
Weights = list[np.ndarray]


class Head:
    """The class of the largest score."""

    def __init__(self, scores: Callable, classes: np.ndarray):
        self.scores, self.classes_ = scores, classes

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Labels."""
        return self.classes_[np.argmax(self.scores(X), axis=1)]


class ProbableHead(Head):
    """Scores that are logits."""

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Their softmax."""
        return softmax(self.scores(X), axis=1)


def one_hot(y: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """A column a class."""
    return (np.asarray(y)[:, None] == classes).astype(float)


def with_one(X: np.ndarray) -> np.ndarray:
    """A column of ones behind the others."""
    return np.column_stack([X, np.ones(len(X))])


# AFL ---------------------------------------------------------------------------------


def afl_message(X: np.ndarray, Y: np.ndarray, gamma: float) -> tuple:
    """AFL (He et al., CVPR 2025), what a client sends.

    The ridge solution W of its rows onto one-hot labels, and R, the inverse of
    ``C = X'X + gamma``.
    """
    R = np.linalg.inv(X.T @ X + gamma * np.eye(X.shape[1]))
    return R @ X.T @ Y, R


def absolute_law(W, R, C, other_W, other_R, other_C) -> np.ndarray:
    """AFL's absolute aggregation law: the solution of the rows of both.

    Each is weighted by ``1 - R C' (1 - S C')``, where C' is the other's matrix and S
    the inverse of the sum of both.
    """
    S, one = np.linalg.inv(C + other_C), np.eye(len(C))
    return (one - R @ other_C @ (one - S @ other_C)) @ W + (
        one - other_R @ C @ (one - S @ C)
    ) @ other_W


def afl(messages: Messages, gamma: float, keep: float = 0.0) -> tuple:
    """AFL's server: the law over clients, then without their regularisation.

    Every client added gamma to the matrix; all but ``keep`` is taken out again. The
    paper keeps none. Returns the weights, and C as it was before.
    """
    (W, R), *others = messages
    C = np.linalg.inv(R)
    for other_W, other_R in others:
        other_C = np.linalg.inv(other_R)
        W = absolute_law(W, R, C, other_W, other_R, other_C)
        C = C + other_C
        R = np.linalg.inv(C)
    rest = C - (len(messages) * gamma - keep) * np.eye(len(C))
    # The paper inverts this; where columns depend on others there is no inverse.
    return np.linalg.pinv(rest, rcond=1e-9, hermitian=True) @ (C @ W), C


def ridge_of_sums(gram: np.ndarray, moment: np.ndarray, gamma: float) -> np.ndarray:
    """What AFL's law leads to, in one step from the sums."""
    return np.linalg.solve(gram + gamma * np.eye(len(gram)), moment)


# Sums by class: FedCGS, GH-OFL -------------------------------------------------------


class Sums(NamedTuple):
    """Of a node's rows: counts, sums and squares by class, products by class."""

    counts: np.ndarray
    sums: np.ndarray
    products: np.ndarray

    @classmethod
    def of(cls, X, y, classes) -> Sums:
        """What a node adds up."""
        own = [X[y == c] for c in classes]
        return cls(
            np.array([float(len(Z)) for Z in own]),
            np.array([Z.sum(axis=0) for Z in own]),
            np.array([Z.T @ Z for Z in own]),
        )

    @classmethod
    def total(cls, all_: Sequence[Sums]) -> Sums:
        """Of all nodes."""
        return cls(*(np.sum(parts, axis=0) for parts in zip(*all_, strict=True)))

    @property
    def means(self) -> np.ndarray:
        """By class."""
        return self.sums / np.maximum(self.counts, 1)[:, None]

    @property
    def priors(self) -> np.ndarray:
        """Shares of the classes."""
        return self.counts / self.counts.sum()

    def scatters(self) -> np.ndarray:
        """Products about the class's mean, by class."""
        means = self.means
        return self.products - np.einsum("c,ci,cj->cij", self.counts, means, means)

    def within(self, ddof: int = 0) -> np.ndarray:
        """One covariance for all classes, about their means."""
        return self.scatters().sum(axis=0) / (self.counts.sum() - ddof)

    def about_all(self) -> np.ndarray:
        """Covariance of all rows about their mean."""
        n, total = self.counts.sum(), self.sums.sum(axis=0)
        return (self.products.sum(axis=0) - np.outer(total, total) / n) / (n - 1)

    def covariances(self) -> np.ndarray:
        """By class; of a single row that of all classes."""
        freedom = np.maximum(self.counts - 1, 1)[:, None, None]
        few = (self.counts < 2)[:, None, None]
        return np.where(few, self.within(), self.scatters() / freedom)

    def variances(self) -> np.ndarray:
        """By class and column, at least 1e-6."""
        squares = np.diagonal(self.scatters(), axis1=1, axis2=2)
        return np.maximum(squares / np.maximum(self.counts, 1)[:, None], 1e-6)


def log_priors(priors: np.ndarray) -> np.ndarray:
    """Of a class without rows very small."""
    return np.log(np.maximum(priors, 1e-12))


def linear_discriminant(means, covariance, priors) -> tuple:
    """Weights and intercept of Gaussians that share a covariance."""
    W = np.linalg.lstsq(covariance, means.T, rcond=None)[0]
    return W, -0.5 * np.einsum("cd,dc->c", means, W) + log_priors(priors)


def fedcgs(sums: Sums, classes: np.ndarray, about: str = "class") -> ProbableHead:
    """FedCGS (Guan et al., AAAI 2025): Gaussians of global means and one covariance.

    ``about="class"`` takes the covariance about the means of classes, as LDA does;
    "all" about the mean of all rows, as the authors' program does.
    """
    covariance = sums.within() if about == "class" else sums.about_all()
    W, b = linear_discriminant(sums.means, covariance, sums.priors)
    return ProbableHead(lambda X: X @ W + b, classes)


# GH-OFL ------------------------------------------------------------------------------

SHRINK, ENERGY, MOST_DIRECTIONS, SPREAD = 0.05, 0.99, 128, 0.75
SCALE, RANK, TEMPERATURE, TEACHER, DISTILLED = 20.0, 128, 4.0, 0.5, 0.85


def shrunk(covariance: np.ndarray, share: float = SHRINK) -> np.ndarray:
    """A share of it replaced by its mean variance in all directions."""
    d = covariance.shape[-1]
    size = np.trace(covariance, axis1=-2, axis2=-1)[..., None, None] / d
    return (1 - share) * covariance + (share * size + 1e-6) * np.eye(d)


def gaussian_scores(X, means, covariances, priors) -> np.ndarray:
    """Log densities plus log priors, up to one constant."""
    found = np.empty((len(X), len(means)))
    for c, (mean, covariance) in enumerate(zip(means, covariances, strict=True)):
        L = np.linalg.cholesky(covariance)
        Z = np.linalg.solve(L, (X - mean).T)
        found[:, c] = -0.5 * (Z**2).sum(axis=0) - np.log(np.diag(L)).sum()
    return found + log_priors(priors)


def gh_closed(sums: Sums, classes: np.ndarray, kind: str) -> ProbableHead:
    """GH-OFL's heads in closed form (Turazza et al., ICLR 2026).

    "diagonal": naive Bayes of variances by class; "shared": LDA; "class": QDA. The
    two with matrices are shrunk by 0.05.
    """
    means, priors = sums.means, sums.priors
    if kind == "shared":
        W, b = linear_discriminant(means, shrunk(sums.within(len(means))), priors)
        return ProbableHead(lambda X: X @ W + b, classes)
    if kind == "diagonal":
        covariances = np.array([np.diag(v) for v in sums.variances()])
    else:
        covariances = shrunk(sums.covariances())
    return ProbableHead(
        lambda X: gaussian_scores(X, means, covariances, priors), classes
    )


def fisher_subspace(means, within, priors, energy: float = ENERGY) -> np.ndarray:
    """GH-OFL's directions: those of the means, where the shrunk covariance is white.

    Eigenvectors of ``S^-1/2 B S^-1/2``, as many as hold so much of the sum of its
    eigenvalues, brought back by ``S^-1/2``. B is the covariance of the means.
    """
    values, vectors = np.linalg.eigh(shrunk(within))
    whiten = (vectors / np.sqrt(values)) @ vectors.T
    apart = (means - priors @ means) * np.sqrt(priors)[:, None] @ whiten
    _, size, directions = np.linalg.svd(apart, full_matrices=False)
    held = np.cumsum(size**2) / np.sum(size**2)
    n = min(max(np.searchsorted(held, energy) + 1, 2), MOST_DIRECTIONS, len(size))
    return whiten @ directions[:n].T


class Drawn(NamedTuple):
    """Rows drawn from Gaussians in the Fisher subspace, and the Gaussians."""

    Z: np.ndarray
    c: np.ndarray
    directions: np.ndarray
    means: np.ndarray
    within: np.ndarray
    covariances: np.ndarray


def draw(sums: Sums, kind: str, n_draws: int, seed: int) -> Drawn:
    """GH-OFL's rows: as many of each class, deviations 0.75 of what was told.

    "shared": one covariance for all classes; "class": their own; "diagonal": one
    covariance of which nodes tell the variances only.
    """
    rng = np.random.default_rng(seed)
    within, covariances = sums.within(len(sums.counts)), sums.covariances()
    if kind == "diagonal":
        within = np.diag(np.diag(within))
        covariances = np.array([np.diag(v) for v in sums.variances()])
    V = fisher_subspace(sums.means, within, sums.priors)
    means, own = sums.means @ V, V.T @ shrunk(within) @ V
    each = V.T @ shrunk(covariances) @ V
    Z = []
    for c, mean in enumerate(means):
        L = np.linalg.cholesky(each[c] if kind == "class" else own)
        Z.append(mean + SPREAD * rng.standard_normal((n_draws, len(mean))) @ L.T)
    c = np.repeat(np.arange(len(means)), n_draws)
    return Drawn(np.vstack(Z), c, V, means, own, each)


def _standard(scores):
    """Of each row mean 0 and deviation 1."""
    spread = scores.std(1, keepdims=True)
    return (scores - scores.mean(1, keepdims=True)) / np.maximum(spread, 1e-6)


def _fit(parameters, loss, n: int, epochs: int, seed: int, batch: int = 1024) -> None:
    """AdamW over batches, at the papers' rate 1e-3 and decay 5e-4."""
    import torch

    rng = np.random.default_rng(seed)
    for parameter in parameters:
        parameter.requires_grad_()
    optimizer = torch.optim.AdamW(parameters, lr=1e-3, weight_decay=5e-4)
    for _ in range(epochs):
        for rows in torch.from_numpy(rng.permutation(n)).split(batch):
            optimizer.zero_grad()
            loss(rows).backward()
            optimizer.step()


def fisher_mix(drawn: Drawn, classes, seed: int, epochs: int = 60) -> ProbableHead:
    """GH-OFL's FisherMix: 20 times the cosine of a row with a vector of each class.

    Softmax regression of these on drawn rows; no margin, as in the authors' settings.
    """
    import torch
    from torch.nn.functional import cross_entropy, normalize

    rng = np.random.default_rng(seed)
    shape = len(classes), drawn.Z.shape[1]
    W = torch.tensor(0.01 * rng.standard_normal(shape), dtype=torch.float32)
    Z = normalize(torch.tensor(drawn.Z, dtype=torch.float32))
    c = torch.tensor(drawn.c)

    def loss(rows):
        return cross_entropy(SCALE * Z[rows] @ normalize(W).T, c[rows])

    _fit([W], loss, len(c), epochs, seed)
    vectors = W.detach().numpy().astype(float)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)

    def scores(X):
        own = X @ drawn.directions
        size = np.maximum(np.linalg.norm(own, axis=1, keepdims=True), 1e-12)
        return SCALE * own / size @ vectors.T

    return ProbableHead(scores, classes)


def proto_hyper(
    drawn: Drawn, priors, classes, kind: str, seed: int, epochs: int = 60
) -> ProbableHead:
    """GH-OFL's Proto-Hyper: standardised LDA scores plus a product of low rank.

    Learned from drawn rows: 0.85 of the divergence from a teacher at temperature 4,
    0.15 of the cross entropy. The teacher is LDA, with "class" half QDA.
    """
    import torch
    from torch.nn.functional import cross_entropy, log_softmax
    from torch.nn.functional import softmax as torch_softmax

    rng = np.random.default_rng(seed)
    d, n_classes = drawn.Z.shape[1], len(classes)
    discriminant = linear_discriminant(drawn.means, drawn.within, priors)

    def base(Z):
        return Z @ discriminant[0] + discriminant[1]

    teacher = base(drawn.Z)
    if kind == "class":
        own = gaussian_scores(drawn.Z, drawn.means, drawn.covariances, priors)
        teacher = TEACHER * own + (1 - TEACHER) * teacher

    def tensor(a):
        return torch.tensor(a, dtype=torch.float32)

    rank = min(RANK, d)
    down = tensor(rng.uniform(-1, 1, (d, rank)) / np.sqrt(d))
    up = tensor(rng.uniform(-1, 1, (rank, n_classes)) / np.sqrt(rank))
    shift = torch.zeros(n_classes)
    Z, c, known = (
        tensor(drawn.Z),
        torch.tensor(drawn.c),
        tensor(_standard(base(drawn.Z))),
    )
    goal = torch_softmax(tensor(_standard(teacher)) / TEMPERATURE, dim=1)

    def loss(rows):
        logits = known[rows] + Z[rows] @ down @ up + shift
        cooled = log_softmax(logits / TEMPERATURE, dim=1)
        apart = (goal[rows] * (goal[rows].log() - cooled)).sum(1).mean()
        distilled = DISTILLED * TEMPERATURE**2 * apart
        return distilled + (1 - DISTILLED) * cross_entropy(logits, c[rows])

    _fit([down, up, shift], loss, len(c), epochs, seed)
    W = (down @ up).detach().numpy().astype(float)
    b = shift.detach().numpy().astype(float)

    def scores(X):
        own = X @ drawn.directions
        return _standard(base(own)) + own @ W + b

    return ProbableHead(scores, classes)


# SAFLe-like --------------------------------------------------------------------------


class Buckets:
    """SAFLe-like columns (Bacellar et al., CVPR 2026): groups of bits, one hot.

    Bits of a column say which thresholds it is above. They are shuffled into groups,
    and each pattern of a group has a column: a head of these adds up embeddings.
    """

    def __init__(self, n_columns: int, *, n_bits: int = 768, group: int = 3, seed=0):
        levels = int(np.clip(n_bits // n_columns, 1, 8))
        # Of standardised columns: between as many rows each, were they normal.
        self.thresholds = norm.ppf(np.arange(1, levels + 1) / (levels + 1))
        self.group, rng = group, np.random.default_rng(seed)
        n_own = n_columns * levels
        turns = max(1, n_bits // n_own)
        short = -turns * n_own % group
        order = [rng.permutation(n_own) for _ in range(turns)]
        self.order = np.concatenate([*order, rng.integers(n_own, size=short)])
        self.n_columns_out = len(self.order) // group * 2**group

    def transform(self, X: np.ndarray) -> np.ndarray:
        """A one in every group."""
        bits = (X[:, :, None] > self.thresholds).reshape(len(X), -1)[:, self.order]
        places = 2 ** np.arange(self.group)
        code = bits.reshape(len(X), -1, self.group) @ places
        found = np.zeros((*code.shape, 2**self.group))
        np.put_along_axis(found, code[:, :, None], 1.0, axis=2)
        return found.reshape(len(X), -1)


# FedFisher ---------------------------------------------------------------------------


def outputs(weights: Weights, X: np.ndarray) -> list[np.ndarray]:
    """What goes into each layer, with its one, and the logits."""
    inputs = [with_one(X)]
    for V in weights[:-1]:
        inputs.append(with_one(np.maximum(inputs[-1] @ V, 0)))
    return [*inputs, inputs[-1] @ weights[-1]]


def _slopes(weights: Weights, X: np.ndarray):
    """For each label, slopes of -log p at each layer, times the root of p."""
    *inputs, logits = outputs(weights, X)
    p = softmax(logits, axis=1)
    for c in range(p.shape[1]):
        slope = p - (np.arange(p.shape[1]) == c)
        own = [np.sqrt(p[:, [c]]) * slope]
        for V, passed in zip(weights[:0:-1], inputs[:0:-1], strict=True):
            own.insert(0, own[0] @ V[:-1].T * (passed[:, :-1] > 0))
        yield inputs, own


def kfac(weights: Weights, X: np.ndarray) -> list[tuple]:
    """K-FAC (Martens and Grosse 2015) of the Fisher information, by layer.

    Means over rows of products of inputs, and of slopes, labels drawn from the model.
    """
    found = [[0.0, 0.0] for _ in weights]
    for inputs, slopes in _slopes(weights, X):
        for own, a, g in zip(found, inputs, slopes, strict=True):
            own[0] = a.T @ a / len(X)
            own[1] = own[1] + g.T @ g / len(X)
    return [tuple(own) for own in found]


def diagonal(weights: Weights, X: np.ndarray) -> Weights:
    """The diagonal of the Fisher information, by layer."""
    found = [np.zeros_like(V) for V in weights]
    for inputs, slopes in _slopes(weights, X):
        for own, a, g in zip(found, inputs, slopes, strict=True):
            own += (a**2).T @ g**2 / len(X)
    return found


def mean_weights(members: list[Weights], counts: np.ndarray) -> Weights:
    """Weighted by rows."""
    shares = np.asarray(counts) / np.sum(counts)
    return [
        np.tensordot(shares, np.array(own), axes=1)
        for own in zip(*members, strict=True)
    ]


def fedfisher_kfac(members, factors, counts, damping=0.0, n_steps=300) -> Weights:
    """FedFisher (Jhunjhunwala et al., AISTATS 2024), with K-FAC.

    The least of ``sum_k n_k (w - w_k)' F_k (w - w_k)``, found by conjugate gradients
    from the mean, to which ``damping`` times its distance holds it.
    """
    found = []
    for layer, start in enumerate(mean_weights(members, counts)):
        own = [f[layer] for f in factors]

        def times(D, own=own):
            parts = (n * A @ D @ G for n, (A, G) in zip(counts, own, strict=True))
            return sum(parts) + damping * D

        rest = sum(
            n * A @ (member[layer] - start) @ G
            for n, (A, G), member in zip(counts, own, members, strict=True)
        )
        D, way, size = np.zeros_like(start), rest, np.sum(rest**2)
        first = size
        for _ in range(n_steps):
            if size <= 1e-24 * first or size == 0:
                break
            turned = times(way)
            step = size / np.sum(way * turned)
            D, rest = D + step * way, rest - step * turned
            size, last = np.sum(rest**2), size
            way = rest + size / last * way
        found.append(start + D)
    return found


def fedfisher_diagonal(members, diagonals, counts, damping=0.0) -> Weights:
    """FedFisher with the diagonal alone, whose least value has a closed form."""
    found = []
    for layer, start in enumerate(mean_weights(members, counts)):
        own = [n * F[layer] for n, F in zip(counts, diagonals, strict=True)]
        moves = sum(
            F * (member[layer] - start) for F, member in zip(own, members, strict=True)
        )
        # Where no node's rows tell a weight from another it stays the mean.
        total = sum(own) + damping
        found.append(start + moves / np.where(total > 0, total, np.inf))
    return found


# DENSE-like --------------------------------------------------------------------------


def dense_like(
    members: list[Weights],
    counts: np.ndarray,
    seed: int,
    *,
    n_rounds: int = 20,
    n_steps: int = 30,
    batch: int = 256,
    noise: int = 32,
) -> tuple[Weights, np.ndarray]:
    """DENSE-like (Zhang et al., NeurIPS 2022): a student of the members on made rows.

    A generator, begun anew in each round, makes rows that the members' mean logits call
    as asked and the student does not; the student learns from all of them. Returns the
    student's weights and the rows.
    """
    import torch
    from torch.nn.functional import cross_entropy, leaky_relu, log_softmax
    from torch.nn.functional import softmax as torch_softmax

    rng = np.random.default_rng(seed)

    def tensor(a):
        return torch.tensor(np.asarray(a), dtype=torch.float32)

    def forward(weights, Z):
        # Of one network, or of all members at once.
        for V in weights[:-1]:
            Z = torch.relu(Z @ V[..., :-1, :] + V[..., -1:, :])
        return Z @ weights[-1][..., :-1, :] + weights[-1][..., -1:, :]

    fixed = [tensor(np.array(own)) for own in zip(*members, strict=True)]
    shares = tensor(np.asarray(counts) / np.sum(counts))
    n_columns, n_classes = len(members[0][0]) - 1, members[0][-1].shape[1]

    def teacher(Z):
        return torch.tensordot(shares, forward(fixed, Z), dims=1)

    def apart(student, goal, heat):
        p = torch_softmax(goal / heat, dim=1)
        gap = log_softmax(goal / heat, dim=1) - log_softmax(student / heat, dim=1)
        return heat**2 * (p * gap).sum(1)

    student = [tensor(V).requires_grad_() for V in mean_weights(members, counts)]
    learn, made = torch.optim.SGD(student, lr=0.01, momentum=0.9), []
    for _ in range(n_rounds):
        sizes = [noise, 64, n_columns]
        generator = [
            tensor(rng.standard_normal((n + 1, m)) / np.sqrt(n))
            for n, m in pairwise(sizes)
        ]
        Z = tensor(rng.standard_normal((batch, noise)))
        asked = torch.tensor(rng.integers(n_classes, size=batch))
        moved = [*generator, Z]
        for parameter in moved:
            parameter.requires_grad_()
        optimizer = torch.optim.Adam(moved, lr=1e-2, betas=(0.5, 0.999))
        best, rows = np.inf, None
        for _ in range(n_steps):
            first, last = generator
            hidden = leaky_relu(Z @ first[:-1] + first[-1], 0.2)
            X = hidden @ last[:-1] + last[-1]
            goal, own = teacher(X), forward(student, X)
            differ = (goal.argmax(1) != own.argmax(1)).float()
            # In place of the statistics of batch norm: columns are standardised.
            spread = X.mean(0).norm() + (X.var(0) - 1).norm()
            loss = cross_entropy(goal, asked) + spread / np.sqrt(n_columns)
            loss = loss - 0.5 * (apart(own, goal, 1.0) * differ).mean()
            if loss.item() < best:
                best, rows = loss.item(), X.detach().clone()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        made.append(rows)
        pool = torch.cat(made)
        for own in torch.from_numpy(rng.permutation(len(pool))).split(batch):
            with torch.no_grad():
                goal = teacher(pool[own])
            learn.zero_grad()
            apart(forward(student, pool[own]), goal, 20.0).mean().backward()
            torch.nn.utils.clip_grad_norm_(student, 5.0)
            learn.step()
    return [V.detach().numpy().astype(float) for V in student], pool.numpy()
