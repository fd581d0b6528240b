"""What moments say of nodes: how well a model fits each, and which have equal rows."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from ._class_moments import ClassMoments
from ._clusters import CLUSTER_ROWS
from ._gaussian import GaussianLoss, expectation
from ._rows import ROUNDING_OF_SUMS, ULPS


def node_losses(
    loss: GaussianLoss, *, starts: np.ndarray, W: np.ndarray, seen: np.ndarray
) -> np.ndarray:
    """Return what a model loses on the rows of each node, in nats a row; nan of none.

    Parameters
    ----------
    loss : GaussianLoss
        Of the moments of all nodes, one after the other.
    starts : ndarray of shape (n_nodes + 1,)
        The first part of each node there, and the number of parts.
    W : ndarray of shape (n_features + 1, n_classes)
        On rows less the origin of the moments.
    seen : ndarray of shape (n_classes,)
        Mask of the classes with rows.
    """
    moments = loss.moments
    outputs = np.flatnonzero(seen)
    columns = np.searchsorted(outputs, moments.columns)
    moves, covariance_of = loss.moves(W, seen)
    losses_of_parts = expectation(
        moments.means @ W[:-1, outputs] + W[-1, outputs],
        np.ones(len(columns)),
        columns=columns,
        moves=moves,
        covariance_of=covariance_of,
    ).losses
    losses = np.full(len(starts) - 1, np.nan)
    for k, parts in enumerate(_spans(starts)):
        total = loss.weights[parts].sum()
        if total > 0:
            losses[k] = loss.weights[parts] @ losses_of_parts[parts] / total
    return losses


def equal_nodes(moments: ClassMoments, starts: np.ndarray) -> list[tuple[int, int]]:
    """Pairs of nodes, by their first parts, of equal counts and nearly equal means."""
    tolerances = ROUNDING_OF_SUMS * np.sqrt(np.maximum(moments.variances(), 0.0))
    tolerances += ULPS * np.finfo(np.float64).eps * np.abs(moments.origin)
    mean_squares = np.einsum("ij,ij->i", moments.means, moments.means)
    candidates = defaultdict(list)  # nodes with the same classes and counts
    for k, parts in enumerate(_spans(starts)):
        columns = moments.columns[parts]
        counts = moments.counts[parts]
        if counts.sum() >= CLUSTER_ROWS:
            key = (columns.tobytes(), counts.tobytes())
            size = counts @ mean_squares[parts]
            candidates[key].append((size, k, moments.means[parts]))
    pairs = []
    for nodes in candidates.values():
        # Equal ones are next to each other if sorted by anything that is equal of them,
        # so that not every two nodes have to be compared.
        nodes.sort(key=lambda node: node[:2])
        for (_, k, means), (_, next_k, next_means) in pairwise(nodes):
            if (np.abs(means - next_means) <= tolerances).all():
                pairs.append((min(k, next_k), max(k, next_k)))
    return sorted(pairs)


def _spans(starts: np.ndarray) -> Iterator[slice]:
    """The parts of each node."""
    for start, stop in pairwise(starts):
        yield slice(start, stop)
