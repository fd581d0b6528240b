"""What moments say of nodes: how well a model fits each, and which have equal rows."""

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ._class_moments import ClassMoments
from ._gaussian import GaussianLoss, expectation

# What a node must lose by the model in all, since few rows fit their own model by
# chance, and a row: rules are not linear, and nodes of other features lose as much
# (14 nats and 0.18 a row are the most that was seen).
_LEAST_NATS, _LEAST_A_ROW = 20.0, 0.2
# Steps in which class shares are brought to those of a node.
_STEPS = 20
# Fewer rows may be equal by chance. Means are equal in deviations of features, and
# where these are far from 0 to so many units in the last place.
_FEWEST_ROWS, _EQUAL, _ULPS = 10, 1e-7, 16
_TINY = 1e-150


@dataclass(frozen=True, eq=False)
class NodeFits:
    """What a model loses on each node's rows, in nats a row; nan of no rows."""

    losses: np.ndarray
    among_own: np.ndarray  # where it disagrees: the least with any shares of its own
    without: np.ndarray  # of the shares of its own classes alone
    disagrees: np.ndarray


def node_fits(loss: GaussianLoss, starts, W, seen, own_losses, n_rows) -> NodeFits:
    """Judge a model on rows less the origin; ``starts`` are the nodes' first parts."""
    points = _AtPoints(loss, W, seen)
    counts, by_part = loss.weights, points.losses
    losses, among_own, without = np.full((3, len(n_rows)), np.nan)
    disagrees = np.zeros(len(n_rows), dtype=bool)
    for k, (start, stop) in enumerate(zip(starts[:-1], starts[1:], strict=True)):
        own = counts[start:stop]
        total = own.sum()
        if not total > 0:
            continue
        losses[k] = own @ by_part[start:stop] / total
        shares = np.bincount(points.columns[start:stop], weights=own) / total
        shares = shares[shares > 0]
        without[k] = -shares @ np.log(shares)
        # Half of what its own model knows, where that is known to be anything.
        most = (without[k] + np.fmin(own_losses[k], without[k])) / 2.0
        most += max(_LEAST_NATS / max(min(n_rows[k], total), 1.0), _LEAST_A_ROW)
        # Fewer outputs and other shares only lower the loss.
        if losses[k] > most:
            among_own[k] = points.with_own_shares(start, stop, most)
            disagrees[k] = among_own[k] > most
    return NodeFits(losses, among_own, without, disagrees)


def equal_nodes(moments: ClassMoments, starts) -> list[tuple[int, int]]:
    """Pairs of nodes, by their first parts, of equal counts and nearly equal means."""
    least = _EQUAL * np.sqrt(np.maximum(moments.variances(), 0.0))
    least += _ULPS * np.finfo(np.float64).eps * np.abs(moments.origin)
    size, alike = np.einsum("ij,ij->i", moments.means, moments.means), defaultdict(list)
    for k, (start, stop) in enumerate(zip(starts[:-1], starts[1:], strict=True)):
        own = slice(start, stop)
        columns, counts = moments.columns[own], moments.counts[own]
        if counts.sum() >= _FEWEST_ROWS:
            key = columns.tobytes(), counts.tobytes()
            alike[key].append((counts @ size[own], k, moments.means[own]))
    pairs = []
    for nodes in alike.values():
        # Equal ones are next to each other in any order that they say themselves.
        nodes.sort(key=lambda node: node[:2])
        for (_, k, means), (_, other, others) in pairwise(nodes):
            if (np.abs(means - others) <= least).all():
                pairs.append((min(k, other), max(k, other)))
    return sorted(pairs)


class _AtPoints:
    """Logits at the means of parts, and how they move at points about these."""

    def __init__(self, loss: GaussianLoss, W: np.ndarray, seen: np.ndarray) -> None:
        moments, outputs = loss.moments, np.flatnonzero(seen)
        self.columns = np.searchsorted(outputs, moments.columns)
        self.counts = loss.weights
        self.logits = moments.means @ W[:-1, outputs] + W[-1, outputs]
        self.moves, self.covariance_of = loss.moves(W, seen)
        own = np.ones(len(self.columns)), self.columns, self.moves, self.covariance_of
        self.losses = expectation(self.logits, *own)[0]  # of each part, of a row

    def with_own_shares(self, start: int, stop: int, enough: float) -> float:
        """Loss of a node among its classes of own shares, or what is ``enough``."""
        span, counts = slice(start, stop), self.counts[start:stop]
        own, columns = np.unique(self.columns[span], return_inverse=True)
        used, place = np.unique(self.covariance_of[span], return_inverse=True)
        logits, moves = self.logits[span][:, own], self.moves[used][:, own]
        of_classes, best = np.bincount(columns, weights=counts), np.inf
        for _ in range(_STEPS):
            losses, residuals, _ = expectation(logits, counts, columns, moves, place)
            best = min(best, losses.sum() / counts.sum())
            if best <= enough:
                break
            predicted = of_classes + residuals.sum(axis=0)
            logits = logits + np.log(of_classes / np.maximum(predicted, _TINY))
        return best
