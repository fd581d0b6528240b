# SPDX-License-Identifier: BSD-3-Clause
"""Rows that follow from the difference between two sums of nearly the same rows.

Where a sum counts a row fully and another one counts it for less, or not at all, the
difference is a sum of (1 - w) z over such rows. The other sum need not be one that was
sent as such: what a classifier was fitted to are sums, too. With z = (x, 1):

- logistic regression: the sum of (p - t) z over rows is -coef / C, for the
  coefficients, and 0 for the intercept, with probabilities p and targets t;
- ridge: the sum of (t - x coef - b) z is alpha coef, and 0;
- a scaler: the center times n is the sum of x.

A claim is proven where the difference is that of one row: then it has rank one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from helpers.attacked_exchanges import GroupSums, Told, sums_in_message
from skgems.asking import Message
from skgems.moments import ClassMoments

# Relative size of what is rounding in a difference of sums.
_ROUNDING = 1e-8


# Two matrices of products -------------------------------------------------------------


def rows_of_difference(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the rows by which two sums of the products of (1, x) differ.

    A row may be in one of them alone, count for less in one, or have been replaced by
    another one; with more such rows nothing is claimed.

    Parameters
    ----------
    first, second : ndarray of shape (n_features + 1, n_features + 1)
    """
    n_features = len(first) - 1
    known = np.isfinite(first) & np.isfinite(second)
    if not known.all():
        return np.zeros((0, n_features))
    sizes = np.sqrt(np.maximum(np.diag(first), np.diag(second)))
    sizes = np.where(sizes > 0, sizes, 1.0)
    difference = (second - first) / np.outer(sizes, sizes)
    eigenvalues, vectors = np.linalg.eigh(difference)
    is_there = np.abs(eigenvalues) > _ROUNDING
    if is_there.sum() == 1:
        one = vectors[:, np.argmax(np.abs(eigenvalues))] * sizes
        return _as_rows(one[None])
    if is_there.sum() == 2 and eigenvalues[0] < -_ROUNDING < eigenvalues[-1]:
        gained = np.sqrt(eigenvalues[-1]) * vectors[:, -1] * sizes
        lost = np.sqrt(-eigenvalues[0]) * vectors[:, 0] * sizes
        return _replaced_rows(gained, lost)
    return np.zeros((0, n_features))


def _replaced_rows(gained: np.ndarray, lost: np.ndarray) -> np.ndarray:
    """Return the rows y, x of y y' - x x', given g g' - l l' that is the same matrix.

    The pairs with this matrix are (g cosh t + l sinh t, g sinh t + l cosh t); both rows
    have a 1 in front, so g and l are equal there, but for the sign.
    """
    if not np.isclose(abs(gained[0]), abs(lost[0]), rtol=1e-4) or gained[0] == 0:
        return np.zeros((0, len(gained) - 1))
    gained = gained / np.sign(gained[0])
    lost = lost / np.sign(lost[0])
    t = -np.log(gained[0])
    return _as_rows(
        np.stack(
            [
                gained * np.cosh(t) + lost * np.sinh(t),
                gained * np.sinh(t) + lost * np.cosh(t),
            ]
        )
    )


def _as_rows(multiples: np.ndarray) -> np.ndarray:
    """Return x of multiples of (1, x), as far as they are such."""
    is_row = multiples[:, 0] != 0
    return multiples[is_row, 1:] / multiples[is_row, :1]


def rows_of_group_differences(
    first: Sequence[GroupSums], second: Sequence[GroupSums]
) -> np.ndarray:
    """Return rows by which the sums of each class differ between two messages."""
    by_label = {group.label: group for group in first}
    claims = [
        rows_of_difference(by_label[group.label].with_one, group.with_one)
        for group in second
        if group.label in by_label
    ]
    return _joined(claims, [*first, *second])


def are_in_rest(
    X: np.ndarray, shared: Sequence[GroupSums], own: Sequence[GroupSums]
) -> np.ndarray:
    """Report for rows whether they are in the range of shared sums less those of some.

    The shared sums are of all classes, and the others of some of these. Columns that
    are not told are left aside, (n_rows,).
    """
    product = sum(group.with_one for group in shared)
    product = product - sum(group.with_one for group in own)
    size = np.diag(product)
    told = np.isfinite(product).mean(axis=0) > 0.5
    told &= size > 1e-6 * np.nanmax(size)
    product = product[np.ix_(told, told)]
    scale = np.sqrt(size[told])
    eigenvalues, vectors = np.linalg.eigh(product / np.outer(scale, scale))
    outside = vectors[:, eigenvalues < _ROUNDING * eigenvalues[-1]]
    if not outside.shape[1]:
        return np.zeros(len(X), dtype=bool)
    Z = np.column_stack([np.ones(len(X)), X])[:, told] / scale
    distances = np.linalg.norm(Z @ outside, axis=1) / np.linalg.norm(Z, axis=1)
    return distances < _ROUNDING


def _joined(claims: list[np.ndarray], groups: Sequence[GroupSums]) -> np.ndarray:
    n_features = groups[0].with_one.shape[0] - 1 if groups else 0
    return np.concatenate([np.zeros((0, n_features)), *claims])


# Clusters of two messages -------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class ClusterSums:
    """Sums of the rows, and of their squares, of clusters of a class."""

    counts: np.ndarray  # (n_clusters,)
    sums: np.ndarray  # (n_clusters, n_features)
    squares: np.ndarray | None  # (n_clusters, n_features)

    @classmethod
    def of_moments(cls, moments: ClassMoments, column: int) -> ClusterSums:
        in_class = moments.columns == column
        counts = moments.counts[in_class]
        means = (moments.means + moments.origin)[in_class]
        squares = moments.squares_of_parts()
        if squares is not None:
            squares = squares[in_class] + counts[:, None] * means**2
        return cls(counts=counts, sums=counts[:, None] * means, squares=squares)


def rows_of_clusters(first: ClusterSums, second: ClusterSums) -> np.ndarray:
    """Return rows that one cluster of the first message has and one of the second not.

    The difference of the squares proves that the difference is one row.
    """
    if first.squares is None or second.squares is None:
        return np.zeros((0, first.sums.shape[1]))
    rows = []
    for i, count in enumerate(first.counts):
        for j in np.flatnonzero(np.abs(np.abs(second.counts - count) - 1.0) < 1e-6):
            sign = np.sign(second.counts[j] - count)
            row = sign * (second.sums[j] - first.sums[i])
            squares = sign * (second.squares[j] - first.squares[i])
            size = np.abs(first.squares[i]) + np.abs(second.squares[j])
            if np.all(np.abs(squares - row**2) <= _ROUNDING * size):
                rows.append(row)
    return np.array(rows).reshape(-1, first.sums.shape[1])


# A message and the classifier that was sent -------------------------------------------


def row_of_gap(gap: np.ndarray) -> np.ndarray:
    """Return the row x of a sum of multiples of (x, 1) that is of one row.

    Parameters
    ----------
    gap : ndarray of shape (n_features + 1, n_outputs)
        The difference of two gradients. With several outputs its rank tells whether it
        is of one row; with one output that stays open.
    """
    n_features = len(gap) - 1
    if not np.isfinite(gap).all():  # a gradient that is withheld
        return np.zeros((0, n_features))
    left, sizes, _ = np.linalg.svd(gap, full_matrices=False)
    is_one = len(sizes) == 1 or sizes[1] <= 1e-5 * sizes[0]
    if sizes[0] == 0 or not is_one or left[-1, 0] == 0:
        return np.zeros((0, n_features))
    return (left[:-1, 0] / left[-1, 0])[None]


def gap_of_logistic(gradient: np.ndarray, coefs: np.ndarray, *, C: float) -> np.ndarray:
    """Return the gradient of all rows of a fitted model less that of a message.

    Parameters
    ----------
    gradient : ndarray of shape (n_features + 1, n_outputs)
        The sum of (p - t) (x, 1), as sent.
    coefs : ndarray of shape (n_features, n_outputs)
        Of the fitted model, which has an intercept without penalty.
    C : float
    """
    stationary = np.vstack([-coefs / C, np.zeros((1, coefs.shape[1]))])
    return stationary - gradient


def gap_of_ridge(
    group_of_target: Sequence[tuple[GroupSums, np.ndarray]],
    coefs: np.ndarray,
    intercepts: np.ndarray,
    *,
    alpha: float,
) -> np.ndarray:
    """Return the residual equations of a fitted ridge less those of sums by class.

    Parameters
    ----------
    group_of_target : sequence of (GroupSums, ndarray of shape (n_outputs,))
        The sums of each class, and its targets.
    coefs : ndarray of shape (n_features, n_outputs)
    intercepts : ndarray of shape (n_outputs,)
    alpha : float
    """
    weights = np.vstack([coefs, intercepts])
    told = np.zeros_like(weights)
    for group, targets in group_of_target:
        product = np.roll(group.with_one, -1, axis=(0, 1))  # (x, 1)
        told += np.outer(product[-1], targets) - product @ weights
    stationary = np.vstack([alpha * coefs, np.zeros((1, len(intercepts)))])
    return stationary - told


def row_of_scaler(
    center: np.ndarray, scale: np.ndarray, *, n_rows: float, groups: Sequence[GroupSums]
) -> np.ndarray:
    """Return the row by which a scaler's sums of all rows differ from sums told.

    With m = sum (1 - w) over rows that count for less, sums s of x and q of the squares
    belong to one row if s^2 = m q in all columns.
    """
    products = sum(group.with_one for group in groups)
    total = products[0, 0]
    left = n_rows - total
    sums = n_rows * center - products[0, 1:]
    squares = n_rows * (scale**2 + center**2) - np.diag(products)[1:]
    size = np.abs(np.diag(products)[1:])
    is_varying = scale > 0
    is_one = np.abs(sums**2 - left * squares) <= 1e-6 * left * size
    if left <= 1e-6 or not is_one[is_varying].all():
        return np.zeros((0, len(center)))
    return (sums / left)[None]


def rows_of_gradients(gradients: np.ndarray, origin: np.ndarray) -> np.ndarray:
    """Return guesses that one row alone is in the gradient of each class.

    Parameters
    ----------
    gradients : ndarray of shape (n_classes, n_features + 1, n_outputs)
        Sums of (p - t) (x - origin, 1).
    origin : ndarray of shape (n_features,)
    """
    guesses = [row_of_gap(gradient) + origin for gradient in gradients]
    return np.concatenate([np.zeros((0, len(origin))), *guesses])


# Linear discriminant analysis ---------------------------------------------------------


def rows_of_lda(
    coefs: np.ndarray,
    groups: Sequence[GroupSums],
    *,
    class_of_row: int,
    n_rows: float,
) -> np.ndarray:
    """Return two guesses of the row that counts for less in its class than in a model.

    The covariance S within classes, times coefficients, are means: ``S (b_k - b_l) =
    m_k - m_l``. Let one row x of class k weigh w in the sums of a message and 1 in
    those of the model. Then S and m_k differ by multiples of d d' and d, d = x - m_k.
    So the direction of d is known, and its size is a root of a quadratic equation.

    Parameters
    ----------
    coefs : ndarray of shape (n_features, n_classes)
    groups : sequence of GroupSums
        The sums of each class.
    class_of_row : int
    n_rows : float
        Rows of all classes, counted fully.
    """
    counts = np.array([group.n_rows for group in groups])
    means = np.stack([group.sums / group.n_rows for group in groups])
    left = n_rows - counts.sum()
    if left <= 1e-6:
        return np.zeros((0, means.shape[1]))
    other = 0 if class_of_row else 1
    size = counts[class_of_row]
    slope = coefs[:, class_of_row] - coefs[:, other]
    missing = scatter_within(groups) @ slope / n_rows
    missing -= means[class_of_row] - means[other]
    # With t = d' slope: missing = share d (1 - size t / n_rows).
    share = left / (size + left)
    roots = np.roots([-share * size / n_rows, share, -float(missing @ slope)])
    factors = share * (1.0 - size * roots[np.isreal(roots)].real / n_rows)
    return means[class_of_row] + missing / factors[np.abs(factors) > 1e-12, None]


def row_of_lone_class(
    coefs: np.ndarray, groups: Sequence[GroupSums], *, class_of_row: int, n_rows: float
) -> np.ndarray:
    """Return the one row of a class that no sum is of, out of a linear discriminant.

    The row is the mean of its class, which has no scatter.

    Parameters
    ----------
    coefs : ndarray of shape (n_features, n_classes)
    groups : sequence of GroupSums
        The sums of each class but that one, in order.
    class_of_row : int
    n_rows : float
        Rows of all classes.
    """
    others = [k for k in range(coefs.shape[1]) if k != class_of_row]
    slope = coefs[:, class_of_row] - coefs[:, others[0]]
    mean = groups[0].sums / groups[0].n_rows
    return (mean + scatter_within(groups) @ slope / n_rows)[None]


def scatter_within(groups: Sequence[GroupSums]) -> np.ndarray:
    """Return the scatter about the means of all groups, (n_features, n_features)."""
    scatters = [
        group.with_one[1:, 1:] - np.outer(group.sums, group.sums) / group.n_rows
        for group in groups
    ]
    return np.sum(scatters, axis=0)


# One message alone --------------------------------------------------------------------


def row_of_origin(moments: ClassMoments) -> np.ndarray:
    """Return the point that means are counted from, which may be a row."""
    return moments.origin[None]


def rows_of_dominated_sums(group: GroupSums) -> np.ndarray:
    """Return guesses that one row alone is far out in a column.

    The sum of such a column is that row's value, but for what is small beside it. What
    the row has in other columns is guessed to be what all have.
    """
    means = group.sums / group.n_rows
    squares = np.diag(group.with_one)[1:]
    is_one = group.sums**2 > 0.9 * squares
    rows = np.tile(np.where(is_one, 0.0, means), (int(is_one.sum()), 1))
    for row, j in zip(rows, np.flatnonzero(is_one), strict=True):
        row[j] = group.sums[j]
    return rows


# A summary ----------------------------------------------------------------------------


def rows_of_classifier(
    message: Message, *, kind: str, alpha: float | None = None
) -> np.ndarray:
    """Return guesses of rows that a summary's classifier and its sums give together.

    The classifier was fitted to all rows, each counted once. Not all may be in the
    sums, or not fully: of a class that is too small, or since the rule lowers weights.

    Parameters
    ----------
    message : Message
        Of a summary of one node.
    kind : {"centroids", "lda", "ridge", "scaler"}
        What is known of the classifier, and which of its equations are used.
    alpha : float, default=None
        The penalty of a ridge.
    """
    network = message.content["describe"]["network"]
    labels = list(network["labels"])
    coefs = np.asarray(network["coefs"][0])
    groups = [group for group in sums_in_message(message.content) if group.label]
    n_features = len(coefs)
    if not groups or not all(np.isfinite(g.product).all() for g in groups):
        return np.zeros((0, n_features))
    told = [group.label for group in groups]
    missing = [k for k, label in enumerate(labels) if label not in told]
    n_told = sum(group.n_rows for group in groups)
    # Whole numbers of rows that the model may have been fitted to.
    n_fitted = int(np.ceil(n_told - 1e-6)) + np.arange(3)
    if kind == "centroids":
        # Coefficients are centroids, less one point.
        of_first = coefs[:, labels.index(told[0])]
        claims = [groups[0].sums / groups[0].n_rows + (coefs.T - of_first)]
    elif kind == "scaler":
        claims = [
            row_of_scaler(
                network["center"], network["scale"], n_rows=n_rows, groups=groups
            )
            for n_rows in n_fitted
            if "center" in network
        ]
    elif kind == "ridge":
        targets = 2.0 * np.eye(len(labels)) - 1.0
        gap = gap_of_ridge(
            [(group, targets[labels.index(group.label)]) for group in groups],
            coefs,
            np.asarray(network["intercepts"][0]),
            alpha=alpha,
        )
        claims = [row_of_gap(gap)]
    else:
        claims = [
            row_of_lone_class(coefs, groups, class_of_row=k, n_rows=n_told + 1)
            for k in missing
        ]
        claims += [
            rows_of_lda(coefs, groups, class_of_row=k, n_rows=n_rows)
            for k in range(len(labels))
            for n_rows in n_fitted
            if not missing
        ]
    return np.concatenate([np.zeros((0, n_features)), *claims])


def rows_of_scaling_front(told: Sequence[Told]) -> np.ndarray:
    """Return the row by which what a scaler was fitted to differs from later sums.

    The columns' sums that a node tells first are of all its rows, whatever their class.
    """
    by_task = {exchanged.request.task: exchanged for exchanged in told}
    (part,) = by_task["front"].reply.content["parts"].values()
    (state,) = by_task["join"].request.content["front"]["states"].values()
    center = np.asarray(state["means"])
    scale = np.sqrt(np.asarray(state["squares"]) / state["n_rows"])
    groups = [
        unscaled_group(group, center, scale)
        for group in sums_in_message(by_task["join"].reply.content)
    ]
    if not all(np.isfinite(group.product).all() for group in groups):
        return np.zeros((0, len(center)))
    means = np.asarray(part["means"])
    deviations = np.sqrt(np.asarray(part["squares"]) / part["n_rows"])
    return row_of_scaler(means, deviations, n_rows=part["n_rows"], groups=groups)


def unscaled_group(
    group: GroupSums, center: np.ndarray, scale: np.ndarray
) -> GroupSums:
    """Return the sums of rows x of those of (x - center) / scale."""
    to_rows = np.diag(np.append(1.0, scale))
    to_rows[0, 1:] = center
    return GroupSums(
        label=group.label, product=to_rows.T @ group.with_one @ to_rows, n_parts=1
    )
