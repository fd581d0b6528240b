"""What moments say of nodes: how well a model fits each, and which have equal rows.

A node with the shares p_c of its classes loses, without any features, the entropy

    - sum_c p_c log p_c

a row, in nats. It disagrees with a model that loses it more than half of what lies
between that and the loss of its own model, and notably more, whatever shares of classes
the model is given instead of its own.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ._class_moments import ClassMoments
from ._clusters import CLUSTER_ROWS
from ._gaussian import GaussianLoss, expectation
from ._rows import ROUNDING_OF_SUMS, TINY, ULPS

# What a node must lose by the model in all, since few rows fit their own model by
# chance; and a row: rules are not linear, and nodes of other features lose as much
# (14 nats and 0.18 a row are the most that was seen of honest nodes).
_LEAST_NATS = 20.0  # in all
_LEAST_NATS_A_ROW = 0.2  # nats a row
# Steps in which class shares are brought to those of a node, a bound on time: the loss
# falls with each (generalized iterative scaling; Darroch, Ratcliff 1972).
_SHARE_STEPS = 20


@dataclass(frozen=True, eq=False, kw_only=True)
class NodeFits:
    """What a model loses on each node's rows, in nats a row; nan of no rows."""

    losses: np.ndarray  # (n_nodes,)
    among_own: np.ndarray  # where it disagrees: the least with any shares of its own
    without: np.ndarray  # of the shares of its own classes alone
    disagrees: np.ndarray  # (n_nodes,), a mask


def node_fits(
    loss: GaussianLoss,
    *,
    starts: np.ndarray,
    W: np.ndarray,
    seen: np.ndarray,
    own_losses: np.ndarray,
    n_rows: np.ndarray,
) -> NodeFits:
    """Judge a model by what it loses on the rows of each node.

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
    own_losses : ndarray of shape (n_nodes,)
        What each node loses by its own model, in nats a row; nan without one.
    n_rows : ndarray of shape (n_nodes,)
        Rows that each node has at most, as it may be said to weigh more.
    """
    points = _AtPoints(loss, W, seen)
    n_nodes = len(n_rows)
    losses = np.full(n_nodes, np.nan)
    among_own = np.full(n_nodes, np.nan)
    without = np.full(n_nodes, np.nan)
    most_losses = np.full(n_nodes, np.nan)
    for k, parts in enumerate(_spans(starts)):
        counts = points.counts[parts]
        total = counts.sum()
        if not total > 0:
            continue
        losses[k] = counts @ points.losses[parts] / total
        shares = np.bincount(points.columns[parts], weights=counts) / total
        shares = shares[shares > 0]
        without[k] = -shares @ np.log(shares)
        # Half of what its own model knows, where that is known to be anything.
        most = (without[k] + np.fmin(own_losses[k], without[k])) / 2.0
        n_effective = max(min(n_rows[k], total), 1.0)
        most_losses[k] = most + max(_LEAST_NATS / n_effective, _LEAST_NATS_A_ROW)
    # Fewer outputs and other shares only lower the loss. Of nan this is false.
    suspects = np.flatnonzero(losses > most_losses)
    if len(suspects):
        among_own[suspects] = points.losses_with_own_shares(
            suspects, starts=starts, enough=most_losses[suspects]
        )
    return NodeFits(
        losses=losses,
        among_own=among_own,
        without=without,
        disagrees=among_own > most_losses,
    )


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


class _AtPoints:
    """Logits at the means of parts, and how they move at points about these."""

    def __init__(self, loss: GaussianLoss, W: np.ndarray, seen: np.ndarray) -> None:
        moments = loss.moments
        outputs = np.flatnonzero(seen)
        # Indices among the outputs, (n_parts,).
        self.columns = np.searchsorted(outputs, moments.columns)
        self.counts = loss.weights
        self.logits = moments.means @ W[:-1, outputs] + W[-1, outputs]
        self.moves, self.covariance_of = loss.moves(W, seen)
        # (n_parts,), of each part, of a row
        self.losses = expectation(
            self.logits,
            np.ones(len(self.columns)),
            columns=self.columns,
            moves=self.moves,
            covariance_of=self.covariance_of,
        ).losses

    def losses_with_own_shares(
        self, nodes: np.ndarray, *, starts: np.ndarray, enough: np.ndarray
    ) -> np.ndarray:
        """Least losses of nodes among their classes of any shares, or what is enough.

        Intercepts of a node's classes are raised by ``log(n_c / predicted n_c)`` until
        they are predicted as often as they come, which is where the loss is least. All
        nodes take a step at once, since each of them has few parts.

        Parameters
        ----------
        nodes : ndarray of int of shape (n_nodes,)
        starts : ndarray
            The first part of each of all nodes, and the number of parts.
        enough : ndarray of shape (n_nodes,)
            A node is let be once its loss is as low as this.

        Returns
        -------
        least : ndarray of shape (n_nodes,)
        """
        parts = np.concatenate([np.arange(starts[k], starts[k + 1]) for k in nodes])
        node_of = np.repeat(np.arange(len(nodes)), np.diff(starts)[nodes])
        # Rows that weigh nothing are predicted as often as they come: never.
        has_weight = self.counts[parts] > 0
        parts = parts[has_weight]
        node_of = node_of[has_weight]
        n_outputs = self.logits.shape[1]
        is_own = np.zeros((len(nodes), n_outputs), dtype=bool)
        is_own[node_of, self.columns[parts]] = True
        class_counts = np.zeros(is_own.shape)
        np.add.at(class_counts, (node_of, self.columns[parts]), self.counts[parts])
        intercepts = np.where(is_own, 0.0, -np.inf)
        least = np.full(len(nodes), np.inf)
        for _ in range(_SHARE_STEPS):
            counts = self.counts[parts]
            covariances, covariance_of = np.unique(
                self.covariance_of[parts], return_inverse=True
            )
            expected = expectation(
                self.logits[parts] + intercepts[node_of],
                counts,
                columns=self.columns[parts],
                moves=self.moves[covariances],
                covariance_of=covariance_of,
            )
            total_losses = np.bincount(
                node_of, weights=expected.losses, minlength=len(nodes)
            )
            is_open = np.isin(np.arange(len(nodes)), node_of)
            least[is_open] = np.minimum(least, total_losses / class_counts.sum(axis=1))[
                is_open
            ]
            predicted = class_counts.copy()
            np.add.at(predicted, node_of, expected.residuals)
            ratios = class_counts[is_own] / np.maximum(predicted[is_own], TINY)
            intercepts[is_own] += np.log(ratios)
            is_left = (least > enough)[node_of]
            if not is_left.any():
                break
            parts = parts[is_left]
            node_of = node_of[is_left]
        return least
