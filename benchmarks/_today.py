# SPDX-License-Identifier: BSD-3-Clause
"""Methods of other papers that need one message, of rows as columns of numbers.

Each is written from its paper's formulas. What nodes send and what the server makes of
it are functions of their own, so that a test can hold them against something known.
`today.py` runs them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.special import softmax
from scipy.stats import norm

# A network, from the input up: of each layer weights with the bias as their last row,
# shape (n_inputs + 1, n_outputs), with relu between layers.
Weights = list[np.ndarray]


class Head:
    """A classifier that predicts the class of the largest score."""

    def __init__(self, scores: Callable[[np.ndarray], np.ndarray], classes: np.ndarray):
        self.scores = scores  # of rows, shape (n_rows, n_classes)
        self.classes_ = classes

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Labels."""
        return self.classes_[np.argmax(self.scores(X), axis=1)]


class ProbableHead(Head):
    """A head whose scores are logits."""

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

# What a client sends: W, shape (n_features, n_classes), and R, a square matrix.
AFLMessage = tuple[np.ndarray, np.ndarray]


def afl_message(X: np.ndarray, Y: np.ndarray, gamma: float) -> AFLMessage:
    """AFL (He et al., CVPR 2025), what a client sends.

    The ridge solution W of its rows onto one-hot labels, and R, the inverse of
    ``C = X'X + gamma``.
    """
    R = np.linalg.inv(X.T @ X + gamma * np.eye(X.shape[1]))
    return R @ X.T @ Y, R


def merge_two_by_afl(
    one: AFLMessage, other: AFLMessage, C: np.ndarray, other_C: np.ndarray
) -> np.ndarray:
    """AFL's absolute aggregation law: the solution of the rows of both.

    Each is weighted by ``1 - R C' (1 - S C')``, where C' is the other's matrix and S
    the inverse of the sum of both.
    """
    W, R = one
    other_W, other_R = other
    S = np.linalg.inv(C + other_C)
    identity = np.eye(len(C))
    weight = identity - R @ other_C @ (identity - S @ other_C)
    other_weight = identity - other_R @ C @ (identity - S @ C)
    return weight @ W + other_weight @ other_W


def merge_by_afl(
    messages: Sequence[AFLMessage], gamma: float, *, keep: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """AFL's server: the law over clients, then without their regularization.

    Every client added gamma to the matrix; all but ``keep`` is taken out again. The
    paper keeps none. Returns the weights, and C as it was before.
    """
    (W, R), *others = messages
    C = np.linalg.inv(R)
    for other_W, other_R in others:
        other_C = np.linalg.inv(other_R)
        W = merge_two_by_afl((W, R), (other_W, other_R), C, other_C)
        C = C + other_C
        R = np.linalg.inv(C)
    without_gamma = C - (len(messages) * gamma - keep) * np.eye(len(C))
    # The paper inverts this; where columns depend on others there is no inverse.
    inverse = np.linalg.pinv(without_gamma, rcond=1e-9, hermitian=True)
    return inverse @ (C @ W), C


def ridge_of_sums(gram: np.ndarray, moment: np.ndarray, gamma: float) -> np.ndarray:
    """What AFL's law leads to, in one step from the sums X'X and X'Y."""
    return np.linalg.solve(gram + gamma * np.eye(len(gram)), moment)


# Sums by class: FedCGS, GH-OFL -------------------------------------------------------


@dataclass(kw_only=True)
class Sums:
    """What a node adds up over its rows, by class."""

    counts: np.ndarray  # (n_classes,)
    sums: np.ndarray  # (n_classes, n_features)
    products: np.ndarray  # of a row with itself, (n_classes, n_features, n_features)

    @classmethod
    def of_rows(cls, X: np.ndarray, y: np.ndarray, classes: np.ndarray) -> Sums:
        """The sums of one node."""
        by_class = [X[y == c] for c in classes]
        return cls(
            counts=np.array([float(len(Z)) for Z in by_class]),
            sums=np.array([Z.sum(axis=0) for Z in by_class]),
            products=np.array([Z.T @ Z for Z in by_class]),
        )

    @classmethod
    def total(cls, of_nodes: Sequence[Sums]) -> Sums:
        """The sums of all nodes together."""
        return cls(
            counts=np.sum([node.counts for node in of_nodes], axis=0),
            sums=np.sum([node.sums for node in of_nodes], axis=0),
            products=np.sum([node.products for node in of_nodes], axis=0),
        )

    @property
    def means(self) -> np.ndarray:
        """The mean of each class."""
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
        n = self.counts.sum()
        total = self.sums.sum(axis=0)
        return (self.products.sum(axis=0) - np.outer(total, total) / n) / (n - 1)

    def covariances(self) -> np.ndarray:
        """By class; for a class of a single row that of all classes."""
        degrees_of_freedom = np.maximum(self.counts - 1, 1)[:, None, None]
        has_too_few = (self.counts < 2)[:, None, None]
        return np.where(
            has_too_few, self.within(), self.scatters() / degrees_of_freedom
        )

    def variances(self) -> np.ndarray:
        """By class and column, at least 1e-6."""
        squares = np.diagonal(self.scatters(), axis1=1, axis2=2)
        return np.maximum(squares / np.maximum(self.counts, 1)[:, None], 1e-6)


def log_priors(priors: np.ndarray) -> np.ndarray:
    """Logarithms; very small for a class without rows."""
    return np.log(np.maximum(priors, 1e-12))


def linear_discriminant(
    means: np.ndarray, covariance: np.ndarray, priors: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
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

# All these are settings of the authors' program.
# Share of a covariance replaced by its mean variance, so that there is an inverse.
SHRINKAGE = 0.05
# Directions of the Fisher subspace: those that hold this share of the eigenvalues' sum,
# and at most so many.
ENERGY = 0.99
MAX_DIRECTIONS = 128
# Deviation of drawn rows, as a share of that of the nodes' rows.
SPREAD = 0.75
# FisherMix: what the cosine is multiplied by, so that softmax can tell classes apart.
COSINE_SCALE = 20.0
# Settings of Proto-Hyper.
MAX_RANK = 128  # of the product that is learned
TEMPERATURE = 4.0  # at which the teacher is followed
QDA_SHARE = 0.5  # of the teacher
TEACHER_SHARE = 0.85  # of the loss


def covariances_of_means(of_nodes: Sequence[Sums], gamma: float = 1.0) -> np.ndarray:
    """FedCOF's estimate of each class's covariance, from the means at the nodes.

    A mean of n rows varies by 1/n of what rows vary, so n times the squared distances
    of means, over the nodes less one, estimate the covariance (Goswami et al.,
    "Covariances for Free", NeurIPS 2025, Proposition 2). ``gamma`` is added to the
    diagonal. A class of a single node has no more than that.
    """
    counts = np.array([node.counts for node in of_nodes])
    means = np.array([node.means for node in of_nodes])
    differences = means - Sums.total(of_nodes).means
    scatters = np.einsum("kc,kci,kcj->cij", counts, differences, differences)
    n_nodes = np.count_nonzero(counts, axis=0)
    estimates = scatters / np.maximum(n_nodes - 1, 1)[:, None, None]
    return estimates + gamma * np.eye(means.shape[2])


def fedcof(of_nodes: Sequence[Sums], classes: np.ndarray, gamma: float = 1.0) -> Head:
    """FedCOF: ridge regression of the Gram matrix that means of nodes say."""
    total = Sums.total(of_nodes)
    mean = total.sums.sum(axis=0) / total.counts.sum()
    degrees_of_freedom = np.maximum(total.counts - 1, 0)
    gram = np.einsum(
        "c,cij->ij", degrees_of_freedom, covariances_of_means(of_nodes, gamma)
    )
    gram = gram + total.counts.sum() * np.outer(mean, mean)
    W = np.linalg.pinv(gram, hermitian=True) @ total.sums.T
    # The authors' program gives all classes weights of one length.
    W = W / np.maximum(np.linalg.norm(W, axis=0), 1e-12)
    return Head(lambda X: X @ W, classes)


def shrunk(covariance: np.ndarray, share: float = SHRINKAGE) -> np.ndarray:
    """A share of it replaced by its mean variance in all directions."""
    d = covariance.shape[-1]
    mean_variance = np.trace(covariance, axis1=-2, axis2=-1)[..., None, None] / d
    return (1 - share) * covariance + (share * mean_variance + 1e-6) * np.eye(d)


def gaussian_scores(
    X: np.ndarray, means: np.ndarray, covariances: np.ndarray, priors: np.ndarray
) -> np.ndarray:
    """Log densities plus log priors, up to one constant."""
    log_densities = np.empty((len(X), len(means)))
    for c, (mean, covariance) in enumerate(zip(means, covariances, strict=True)):
        L = np.linalg.cholesky(covariance)
        Z = np.linalg.solve(L, (X - mean).T)
        log_densities[:, c] = -0.5 * (Z**2).sum(axis=0) - np.log(np.diag(L)).sum()
    return log_densities + log_priors(priors)


def gh_closed(sums: Sums, classes: np.ndarray, kind: str) -> ProbableHead:
    """GH-OFL's heads in closed form (Turazza et al., ICLR 2026).

    "diagonal": naive Bayes of variances by class; "shared": LDA; "class": QDA. The
    two with matrices are shrunk by 0.05.
    """
    means = sums.means
    priors = sums.priors
    if kind == "shared":
        W, b = linear_discriminant(means, shrunk(sums.within(len(means))), priors)
        return ProbableHead(lambda X: X @ W + b, classes)
    if kind == "diagonal":
        covariances = np.array([np.diag(variances) for variances in sums.variances()])
    else:
        covariances = shrunk(sums.covariances())
    return ProbableHead(
        lambda X: gaussian_scores(X, means, covariances, priors), classes
    )


def fisher_subspace(
    means: np.ndarray, within: np.ndarray, priors: np.ndarray, energy: float = ENERGY
) -> np.ndarray:
    """GH-OFL's directions: those of the means, where the shrunk covariance is white.

    Eigenvectors of ``S^-1/2 B S^-1/2``, as many as hold so much of the sum of its
    eigenvalues, brought back by ``S^-1/2``. B is the covariance of the means. Returns
    an array of shape (n_features, n_directions).
    """
    variances, vectors = np.linalg.eigh(shrunk(within))
    whiten = (vectors / np.sqrt(variances)) @ vectors.T
    white_means = (means - priors @ means) * np.sqrt(priors)[:, None] @ whiten
    # Squares of the singular values are the eigenvalues.
    _, singular, directions = np.linalg.svd(white_means, full_matrices=False)
    cumulated = np.cumsum(singular**2) / np.sum(singular**2)
    n_wanted = max(np.searchsorted(cumulated, energy) + 1, 2)
    n_directions = min(n_wanted, MAX_DIRECTIONS, len(singular))
    return whiten @ directions[:n_directions].T


@dataclass(kw_only=True)
class DrawnRows:
    """Rows drawn from Gaussians in the Fisher subspace, and the Gaussians."""

    Z: np.ndarray  # (n_drawn, n_directions)
    class_numbers: np.ndarray  # (n_drawn,)
    directions: np.ndarray  # (n_features, n_directions)
    means: np.ndarray  # (n_classes, n_directions)
    within: np.ndarray  # (n_directions, n_directions)
    covariances: np.ndarray  # (n_classes, n_directions, n_directions)


def draw_rows(sums: Sums, kind: str, *, n_draws: int, seed: int) -> DrawnRows:
    """GH-OFL's rows: as many of each class, deviations 0.75 of what was told.

    "shared": one covariance for all classes; "class": one of each class; "diagonal":
    one covariance of which nodes tell the variances only.
    """
    rng = np.random.default_rng(seed)
    within = sums.within(len(sums.counts))
    covariances = sums.covariances()
    if kind == "diagonal":
        within = np.diag(np.diag(within))
        covariances = np.array([np.diag(variances) for variances in sums.variances()])
    V = fisher_subspace(sums.means, within, sums.priors)
    means = sums.means @ V
    within = V.T @ shrunk(within) @ V
    covariances = V.T @ shrunk(covariances) @ V
    Z = []
    for c, mean in enumerate(means):
        L = np.linalg.cholesky(covariances[c] if kind == "class" else within)
        Z.append(mean + SPREAD * rng.standard_normal((n_draws, len(mean))) @ L.T)
    return DrawnRows(
        Z=np.vstack(Z),
        class_numbers=np.repeat(np.arange(len(means)), n_draws),
        directions=V,
        means=means,
        within=within,
        covariances=covariances,
    )


def _standardise(scores: np.ndarray) -> np.ndarray:
    """Each row to mean 0 and deviation 1."""
    spread = scores.std(1, keepdims=True)
    return (scores - scores.mean(1, keepdims=True)) / np.maximum(spread, 1e-6)


def _minimise(
    parameters: list, loss: Callable, *, n_rows: int, epochs: int, seed: int
) -> None:
    """AdamW over batches of 1,024, at the papers' rate 1e-3 and decay 5e-4."""
    import torch

    rng = np.random.default_rng(seed)
    for parameter in parameters:
        parameter.requires_grad_()
    optimizer = torch.optim.AdamW(parameters, lr=1e-3, weight_decay=5e-4)
    for _ in range(epochs):
        for rows in torch.from_numpy(rng.permutation(n_rows)).split(1024):
            optimizer.zero_grad()
            loss(rows).backward()
            optimizer.step()


def _tensor(array: np.ndarray):
    import torch

    return torch.tensor(np.asarray(array), dtype=torch.float32)


def fisher_mix(
    drawn: DrawnRows, classes: np.ndarray, *, seed: int, epochs: int = 60
) -> ProbableHead:
    """GH-OFL's FisherMix: 20 times the cosine of a row with a vector of each class.

    Softmax regression of these on drawn rows; no margin, as in the authors' settings.
    """
    import torch
    from torch.nn.functional import cross_entropy, normalize

    rng = np.random.default_rng(seed)
    shape = (len(classes), drawn.Z.shape[1])
    W = _tensor(0.01 * rng.standard_normal(shape))
    Z = normalize(_tensor(drawn.Z))
    class_numbers = torch.tensor(drawn.class_numbers)

    def loss(rows):
        scaled_cosines = COSINE_SCALE * Z[rows] @ normalize(W).T
        return cross_entropy(scaled_cosines, class_numbers[rows])

    _minimise([W], loss, n_rows=len(class_numbers), epochs=epochs, seed=seed)
    vectors = W.detach().numpy().astype(float)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)

    def scores(X: np.ndarray) -> np.ndarray:
        projected = X @ drawn.directions
        norms = np.maximum(np.linalg.norm(projected, axis=1, keepdims=True), 1e-12)
        return COSINE_SCALE * projected / norms @ vectors.T

    return ProbableHead(scores, classes)


def proto_hyper(
    drawn: DrawnRows,
    classes: np.ndarray,
    *,
    priors: np.ndarray,
    kind: str,
    seed: int,
    epochs: int = 60,
) -> ProbableHead:
    """GH-OFL's Proto-Hyper: standardized LDA scores plus a product of low rank.

    Learned from drawn rows: 0.85 of the divergence from a teacher at temperature 4,
    0.15 of the cross entropy. The teacher is LDA, with "class" half QDA.
    """
    import torch
    from torch.nn.functional import cross_entropy, log_softmax
    from torch.nn.functional import softmax as torch_softmax

    rng = np.random.default_rng(seed)
    d = drawn.Z.shape[1]
    n_classes = len(classes)
    lda_weights, lda_intercept = linear_discriminant(drawn.means, drawn.within, priors)

    def lda_scores(Z: np.ndarray) -> np.ndarray:
        return Z @ lda_weights + lda_intercept

    teacher = lda_scores(drawn.Z)
    if kind == "class":
        qda_scores = gaussian_scores(drawn.Z, drawn.means, drawn.covariances, priors)
        teacher = QDA_SHARE * qda_scores + (1 - QDA_SHARE) * teacher
    rank = min(MAX_RANK, d)
    down = _tensor(rng.uniform(-1, 1, (d, rank)) / np.sqrt(d))
    up = _tensor(rng.uniform(-1, 1, (rank, n_classes)) / np.sqrt(rank))
    shift = torch.zeros(n_classes)
    Z = _tensor(drawn.Z)
    class_numbers = torch.tensor(drawn.class_numbers)
    base = _tensor(_standardise(lda_scores(drawn.Z)))
    target = torch_softmax(_tensor(_standardise(teacher)) / TEMPERATURE, dim=1)

    def loss(rows):
        logits = base[rows] + Z[rows] @ down @ up + shift
        log_p = log_softmax(logits / TEMPERATURE, dim=1)
        divergence = (target[rows] * (target[rows].log() - log_p)).sum(1).mean()
        # Gradients at a temperature T are smaller by its square.
        of_teacher = TEACHER_SHARE * TEMPERATURE**2 * divergence
        of_labels = cross_entropy(logits, class_numbers[rows])
        return of_teacher + (1 - TEACHER_SHARE) * of_labels

    _minimise(
        [down, up, shift], loss, n_rows=len(class_numbers), epochs=epochs, seed=seed
    )
    W = (down @ up).detach().numpy().astype(float)
    b = shift.detach().numpy().astype(float)

    def scores(X: np.ndarray) -> np.ndarray:
        projected = X @ drawn.directions
        return _standardise(lda_scores(projected)) + projected @ W + b

    return ProbableHead(scores, classes)


# SAFLe-like --------------------------------------------------------------------------


class Buckets:
    """SAFLe-like columns (Bacellar et al., CVPR 2026): groups of bits, one hot.

    Bits of a column say which thresholds it is above. They are shuffled into groups,
    and each pattern of a group has a column: a head of these adds up embeddings.
    """

    def __init__(
        self, n_columns: int, *, n_bits: int = 768, group: int = 3, seed: int = 0
    ):
        n_thresholds = int(np.clip(n_bits // n_columns, 1, 8))
        # Of standardized columns: between as many rows each, were they normal.
        self.thresholds = norm.ppf(np.arange(1, n_thresholds + 1) / (n_thresholds + 1))
        self.group = group
        rng = np.random.default_rng(seed)
        n_column_bits = n_columns * n_thresholds
        # Few bits are used several times, each time in other groups.
        n_repeats = max(1, n_bits // n_column_bits)
        orders = [rng.permutation(n_column_bits) for _ in range(n_repeats)]
        # The last group is filled up with bits drawn at random.
        n_missing = -n_repeats * n_column_bits % group
        orders.append(rng.integers(n_column_bits, size=n_missing))
        self.order = np.concatenate(orders)
        self.n_columns_out = len(self.order) // group * 2**group

    def transform(self, X: np.ndarray) -> np.ndarray:
        """A one in every group."""
        bits = (X[:, :, None] > self.thresholds).reshape(len(X), -1)[:, self.order]
        powers = 2 ** np.arange(self.group)
        # The number of each group's pattern, shape (n_rows, n_groups).
        patterns = bits.reshape(len(X), -1, self.group) @ powers
        columns = np.zeros((*patterns.shape, 2**self.group))
        np.put_along_axis(columns, patterns[:, :, None], 1.0, axis=2)
        return columns.reshape(len(X), -1)


# FedFisher ---------------------------------------------------------------------------

# K-FAC of a network, by layer: A of shape (n_inputs + 1, n_inputs + 1) of its inputs,
# G of shape (n_outputs, n_outputs) of the slopes at its outputs.
Factors = list[tuple[np.ndarray, np.ndarray]]


def layer_inputs_and_logits(weights: Weights, X: np.ndarray) -> list[np.ndarray]:
    """What goes into each layer, with its one, and behind these the logits."""
    inputs = [with_one(X)]
    for V in weights[:-1]:
        inputs.append(with_one(np.maximum(inputs[-1] @ V, 0)))
    return [*inputs, inputs[-1] @ weights[-1]]


def _inputs_and_slopes(
    weights: Weights, X: np.ndarray
) -> Iterator[tuple[list[np.ndarray], list[np.ndarray]]]:
    """For each label the layers' inputs, and slopes of -log p times the root of p."""
    *inputs, logits = layer_inputs_and_logits(weights, X)
    p = softmax(logits, axis=1)
    for c in range(p.shape[1]):
        slope = p - (np.arange(p.shape[1]) == c)
        slopes = [np.sqrt(p[:, [c]]) * slope]
        for V, layer_input in zip(weights[:0:-1], inputs[:0:-1], strict=True):
            is_active = layer_input[:, :-1] > 0
            slopes.insert(0, slopes[0] @ V[:-1].T * is_active)
        yield inputs, slopes


def kfac(weights: Weights, X: np.ndarray) -> Factors:
    """K-FAC (Martens and Grosse 2015) of the Fisher information, by layer.

    Means over rows of products of inputs, and of slopes, labels drawn from the model.
    """
    of_inputs = [0.0] * len(weights)
    of_slopes = [0.0] * len(weights)
    for inputs, slopes in _inputs_and_slopes(weights, X):
        for layer, (a, g) in enumerate(zip(inputs, slopes, strict=True)):
            of_inputs[layer] = a.T @ a / len(X)
            of_slopes[layer] = of_slopes[layer] + g.T @ g / len(X)
    return list(zip(of_inputs, of_slopes, strict=True))


def fisher_diagonal(weights: Weights, X: np.ndarray) -> Weights:
    """The diagonal of the Fisher information, by layer."""
    diagonals = [np.zeros_like(V) for V in weights]
    for inputs, slopes in _inputs_and_slopes(weights, X):
        for diagonal, a, g in zip(diagonals, inputs, slopes, strict=True):
            diagonal += (a**2).T @ g**2 / len(X)
    return diagonals


def mean_weights(members: list[Weights], counts: Sequence[int]) -> Weights:
    """The mean of networks, weighted by rows."""
    shares = np.asarray(counts) / np.sum(counts)
    return [
        np.tensordot(shares, np.array(layer), axes=1)
        for layer in zip(*members, strict=True)
    ]


def _conjugate_gradients(
    times_matrix: Callable[[np.ndarray], np.ndarray],
    target: np.ndarray,
    *,
    n_steps: int,
) -> np.ndarray:
    """Solve ``A D = target``; A is positive definite and known by its products."""
    solution = np.zeros_like(target)
    residual = target
    direction = target
    squared = np.sum(residual**2)
    squared_at_start = squared
    for _ in range(n_steps):
        if squared <= 1e-24 * squared_at_start or squared == 0:
            break
        product = times_matrix(direction)
        step = squared / np.sum(direction * product)
        solution = solution + step * direction
        residual = residual - step * product
        squared_before = squared
        squared = np.sum(residual**2)
        direction = residual + squared / squared_before * direction
    return solution


def fedfisher_kfac(
    members: list[Weights],
    factors: list[Factors],
    counts: Sequence[int],
    *,
    damping: float = 0.0,
    n_steps: int = 300,
) -> Weights:
    """FedFisher (Jhunjhunwala et al., AISTATS 2024), with K-FAC.

    The least of ``sum_k n_k (w - w_k)' F_k (w - w_k)``, found by conjugate gradients
    from the mean, to which ``damping`` times its distance holds it. With K-FAC the
    product ``F_k w`` of a layer is ``A_k W G_k``.
    """
    weights = []
    for layer, mean in enumerate(mean_weights(members, counts)):
        layer_factors = [of_member[layer] for of_member in factors]

        def times_information(D: np.ndarray, layer_factors=layer_factors):
            products = (
                n * A @ D @ G for n, (A, G) in zip(counts, layer_factors, strict=True)
            )
            return sum(products) + damping * D

        target = sum(
            n * A @ (member[layer] - mean) @ G
            for n, (A, G), member in zip(counts, layer_factors, members, strict=True)
        )
        change = _conjugate_gradients(times_information, target, n_steps=n_steps)
        weights.append(mean + change)
    return weights


def fedfisher_diagonal(
    members: list[Weights],
    diagonals: list[Weights],
    counts: Sequence[int],
    damping: float = 0.0,
) -> Weights:
    """FedFisher with the diagonal alone, whose least value has a closed form."""
    weights = []
    for layer, mean in enumerate(mean_weights(members, counts)):
        information_matrices = [
            n * of_member[layer] for n, of_member in zip(counts, diagonals, strict=True)
        ]
        pull = sum(
            information * (member[layer] - mean)
            for information, member in zip(information_matrices, members, strict=True)
        )
        total = sum(information_matrices) + damping
        # Where no node's rows tell a weight from another it stays the mean.
        weights.append(mean + pull / np.where(total > 0, total, np.inf))
    return weights


# DENSE-like --------------------------------------------------------------------------


def _forward(weights: list, Z):
    """Logits of one network, or of all members at once (a leading axis of weights)."""
    import torch

    for V in weights[:-1]:
        Z = torch.relu(Z @ V[..., :-1, :] + V[..., -1:, :])
    return Z @ weights[-1][..., :-1, :] + weights[-1][..., -1:, :]


def _divergence(student_logits, teacher_logits, temperature: float):
    """Of the student from the teacher, a row each, times the temperature's square."""
    from torch.nn.functional import log_softmax
    from torch.nn.functional import softmax as torch_softmax

    p = torch_softmax(teacher_logits / temperature, dim=1)
    teacher_log_p = log_softmax(teacher_logits / temperature, dim=1)
    student_log_p = log_softmax(student_logits / temperature, dim=1)
    return temperature**2 * (p * (teacher_log_p - student_log_p)).sum(1)


def _made_rows(
    teacher: Callable,
    student: list,
    rng: np.random.Generator,
    *,
    n_classes: int,
    n_steps: int,
    batch: int,
    n_noise: int,
):
    """A batch of rows from a new generator, those of the step of least loss.

    The generator has one hidden layer of 64; it and its noise are trained so that the
    teacher calls the rows as asked and the student does not.
    """
    import torch
    from torch.nn.functional import cross_entropy, leaky_relu

    n_columns = len(student[0]) - 1
    generator = [
        _tensor(rng.standard_normal((n_in + 1, n_out)) / np.sqrt(n_in))
        for n_in, n_out in pairwise([n_noise, 64, n_columns])
    ]
    first, last = generator
    noise = _tensor(rng.standard_normal((batch, n_noise)))
    target_classes = torch.tensor(rng.integers(n_classes, size=batch))
    parameters = [*generator, noise]
    for parameter in parameters:
        parameter.requires_grad_()
    optimizer = torch.optim.Adam(parameters, lr=1e-2, betas=(0.5, 0.999))
    least_loss = np.inf
    best_rows = None
    for _ in range(n_steps):
        hidden = leaky_relu(noise @ first[:-1] + first[-1], 0.2)
        X = hidden @ last[:-1] + last[-1]
        teacher_logits = teacher(X)
        student_logits = _forward(student, X)
        do_differ = (teacher_logits.argmax(1) != student_logits.argmax(1)).float()
        # In place of the statistics of batch norm: columns are standardized.
        spread = X.mean(0).norm() + (X.var(0) - 1).norm()
        loss = cross_entropy(teacher_logits, target_classes)
        loss = loss + spread / np.sqrt(n_columns)
        divergence = _divergence(student_logits, teacher_logits, 1.0)
        loss = loss - 0.5 * (divergence * do_differ).mean()
        if loss.item() < least_loss:
            least_loss = loss.item()
            best_rows = X.detach().clone()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return best_rows


def dense_like(
    members: list[Weights],
    counts: Sequence[int],
    seed: int,
    *,
    n_rounds: int = 20,
    n_steps: int = 30,
    batch: int = 256,
    n_noise: int = 32,
) -> tuple[Weights, np.ndarray]:
    """DENSE-like (Zhang et al., NeurIPS 2022): a student of the members on made rows.

    A generator, begun anew in each round, makes rows that the members' mean logits call
    as asked and the student does not; the student learns from all of them. Returns the
    student's weights and the rows.
    """
    import torch

    rng = np.random.default_rng(seed)
    stacked_members = [_tensor(np.array(layer)) for layer in zip(*members, strict=True)]
    shares = _tensor(np.asarray(counts) / np.sum(counts))

    def teacher(Z):
        return torch.tensordot(shares, _forward(stacked_members, Z), dims=1)

    student = [_tensor(V).requires_grad_() for V in mean_weights(members, counts)]
    optimizer = torch.optim.SGD(student, lr=0.01, momentum=0.9)
    batches = []
    for _ in range(n_rounds):
        rows = _made_rows(
            teacher,
            student,
            rng,
            n_classes=members[0][-1].shape[1],
            n_steps=n_steps,
            batch=batch,
            n_noise=n_noise,
        )
        batches.append(rows)
        pool = torch.cat(batches)
        for chosen in torch.from_numpy(rng.permutation(len(pool))).split(batch):
            with torch.no_grad():
                teacher_logits = teacher(pool[chosen])
            optimizer.zero_grad()
            student_logits = _forward(student, pool[chosen])
            _divergence(student_logits, teacher_logits, 20.0).mean().backward()
            torch.nn.utils.clip_grad_norm_(student, 5.0)
            optimizer.step()
    return [V.detach().numpy().astype(float) for V in student], pool.numpy()
