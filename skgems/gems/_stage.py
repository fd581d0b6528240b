# SPDX-License-Identifier: BSD-3-Clause
"""The linear stage of GEMS on arrays: spaces of all nodes, and a point in them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from sklearn.utils.parallel import Parallel, delayed

from ..federation import Node
from ..local import node_space, recall
from ..networks import Network, linear_logits
from ..spaces import (
    Criterion,
    Geometry,
    GoodEnoughSpace,
    Intersection,
    SpaceProfile,
    intersect,
    on_one_scale,
)
from ..tuning import fit_inverse_temperature

# scale_logits="auto": the ratio of logit sizes from which trainers, not data, differ.
AUTO_SCALE_RATIO = 3.0


@dataclass(frozen=True, eq=False)
class LinearNode:
    """A node's linear model, and which rows are its own.

    Attributes
    ----------
    name : str
    W : ndarray of shape (n_features + 1, n_classes)
        Weights, the intercepts in the last row.
    known : ndarray of shape (n_classes,), dtype bool
        Classes that the node has seen.
    judging_rows : ndarray of int
        Rows that judge models.
    moment_rows : ndarray of int
        Rows that make moments and Fisher information.
    """

    name: str
    W: np.ndarray
    known: np.ndarray
    judging_rows: np.ndarray
    moment_rows: np.ndarray

    def known_rows(self, y: np.ndarray) -> np.ndarray:
        """Of the rows that judge, those of classes that the node knows."""
        return self.judging_rows[self.known[y[self.judging_rows]]]


def linear_node(node: Node, network: Network, classes: np.ndarray) -> LinearNode:
    """A node whose model is linear, its weights in the order of the classes.

    Parameters
    ----------
    node : Node
        Says which rows are its own.
    network : Network
        The node's, or what is left of it over what comes out of the hidden layers.
    classes : ndarray of shape (n_classes,)

    Returns
    -------
    node : LinearNode
    """
    aligned = network.aligned(classes)
    return LinearNode(
        node.name, aligned.last, aligned.seen, node.judging_rows, node.moment_rows
    )


@dataclass(frozen=True, eq=False)
class LinearMerge:
    """One linear model made of those of the nodes.

    Attributes
    ----------
    W : ndarray of shape (n_features + 1, n_classes)
        The point of the intersection, its logits calibrated.
    profiles : list of SpaceProfile
    spaces : list of GoodEnoughSpace
    intersection : Intersection
    """

    W: np.ndarray
    profiles: list[SpaceProfile]
    spaces: list[GoodEnoughSpace]
    intersection: Intersection


@dataclass(frozen=True, eq=False)
class LinearStage:
    """How linear models are merged; see GEMSLogisticAggregator for what is not here.

    Attributes
    ----------
    geometry : Geometry
    criterion : Criterion
    construction : {"sampled", "certified"}
    epsilons : list of float or "auto"
        One per node.
    intersection : {"consensus", "deepest", "hinge"}
    node_weight : ndarray of shape (n_nodes,) or None
    scale_logits : bool or "auto"
    n_directions : int
    max_radius : float
    memory : None, str or object with the joblib.Memory interface
    n_jobs : int or None
    seed : int or None
        Of the directions, the same for all nodes: their order must not matter.
    log : callable
        Takes messages of progress.
    """

    geometry: Geometry
    criterion: Criterion
    construction: str
    epsilons: list
    intersection: str
    node_weight: np.ndarray | None
    scale_logits: bool | str
    n_directions: int
    max_radius: float
    memory: object
    n_jobs: int | None
    seed: int | None
    log: Callable[[str], None]

    def merge(self, nodes: list[LinearNode], X, y: np.ndarray) -> LinearMerge:
        """Merge the nodes' models.

        Parameters
        ----------
        nodes : list of LinearNode
        X : {ndarray, CSR matrix} of shape (n_samples, n_features)
            Rows of all nodes.
        y : ndarray of shape (n_samples,), int
            Their labels, as indices of the classes.

        Returns
        -------
        merge : LinearMerge

        Raises
        ------
        ValueError
            If a node has no row of a class that it knows, or no good-enough space;
            the message names it.
        """
        scale_logits = self._decide_scaling(nodes, X)
        jobs = (delayed(self._profile)(node, X, y, scale_logits) for node in nodes)
        parallel = Parallel(n_jobs=self.n_jobs, prefer="threads", return_as="generator")
        profiles = []
        for node, profile in zip(nodes, parallel(jobs), strict=True):
            profiles.append(profile)
            self.log(
                f"node {len(profiles)} of {len(nodes)} ({node.name}): "
                f"{len(node.judging_rows)} rows, {self.criterion.name} "
                f"{profile.score:.3f}"
            )
        spaces = []
        for node, profile, epsilon in zip(nodes, profiles, self.epsilons, strict=True):
            with _named(node):
                spaces.append(profile.space(epsilon, self.max_radius))
        found = intersect(
            spaces, method=self.intersection, node_weight=self.node_weight
        )
        W = found.point
        if len(nodes) > 1:
            # In the order of the rows, whichever order the nodes have.
            rows = np.unique(np.concatenate([node.judging_rows for node in nodes]))
            factor = fit_inverse_temperature(linear_logits(X[rows], W), y[rows])
            if found.found and not self.criterion.ignores_scale and not scale_logits:
                # The spaces promise a loss of these very logits.
                factor = _kept_inside(spaces, W, factor)
            W = W * factor
        if W.shape[1] == 2:
            # What two classes have in common says nothing, and is not published.
            W = (W[:, 1:] - W[:, :1]) * [-0.5, 0.5]
        return LinearMerge(W, profiles, spaces, found)

    def words_of_empty(self, merge: LinearMerge, names: list[str]) -> str:
        """Why nothing was found, in three lines: how far, who, and what would do."""
        found = merge.intersection
        far = np.sqrt(found.max_distance)
        if found.empty:
            start = "The good-enough spaces do not intersect: every model is at least "
            start += f"{np.sqrt(found.lower_bound):.4g} radii from one of them"
        else:
            start = "It cannot be decided whether the good-enough spaces intersect: "
            least = np.sqrt(found.lower_bound)
            start += "they all but touch" if far < 1.01 else "rounding is too coarse"
            start += f", every model is at least {least:.4g} radii from one of them"
        start += f", this one at most {far:.4g}."
        pairs, weights = found.conflicts, found.weights
        if pairs:
            i, j = max(pairs, key=lambda pair: weights[list(pair)].prod())
            who = f"Nodes {names[i]!r} and {names[j]!r} conflict most"
            who += f" ({len(pairs)} pairs do not meet)." if len(pairs) > 1 else "."
        else:
            i, j = np.argsort(-weights, kind="stable")[:2]
            who = f"Nodes {names[i]!r} and {names[j]!r} stand most in the way."
            if found.empty:
                who = f"Any two nodes agree, but not all of them together. {who}"
        enough = self.epsilon_that_does(merge)
        if enough is None:
            what = "No epsilon would do: leave a node out."
        else:
            what = f"epsilon={enough:g} would do for all, or leave a node out."
        return "\n".join([start, who, what])

    def epsilon_that_does(self, merge: LinearMerge) -> float | None:
        """An epsilon at which the point that was found is in all spaces."""
        point = merge.intersection.point
        levels = [
            profile.radii.level(space.distance(point))
            for profile, space in zip(merge.profiles, merge.spaces, strict=True)
        ]
        # To the safe side of four digits.
        if self.criterion.greater_is_better:
            enough = np.floor(min(levels) * 1e4 * (1 + 1e-12)) / 1e4
        else:
            size = 10.0 ** (3 - np.floor(np.log10(max(levels))))
            enough = np.ceil(max(levels) * size * (1 - 1e-12)) / size
        return float(enough) if enough > 0 and np.isfinite(enough) else None

    def score(self, W: np.ndarray, nodes: list[LinearNode], X, y) -> list[float]:
        """Score of one model on the rows on which each node's own is judged."""
        scores = []
        for node in nodes:
            rows = node.known_rows(y)
            scores.append(self.criterion.score(linear_logits(X[rows], W), y[rows]))
        return scores

    def scores_on_own_scale(self, merge: LinearMerge, nodes, X, y) -> list[float]:
        """Score of the point with each node's own factor on the logits.

        That is what epsilon is a level of: spaces are in units of each node's logits,
        before one factor for all makes probabilities of them.
        """
        scores, point = [], merge.intersection.point
        for node, profile in zip(nodes, merge.profiles, strict=True):
            rows = node.known_rows(y)
            logits = profile.scale * linear_logits(X[rows], point)
            if profile.outputs is not None:
                # Of classes that it never saw such a space says nothing.
                logits = np.where(profile.outputs, logits, -np.inf)
            scores.append(self.criterion.score(logits, y[rows]))
        return scores

    def _profile(self, node: LinearNode, X, y, scale_logits) -> SpaceProfile:
        same = node.moment_rows is node.judging_rows
        with _named(node):
            return recall(
                node_space,
                self.memory,
                W=node.W,
                known=node.known,
                X=X[node.judging_rows],
                y=y[node.judging_rows],
                rows=None if same else X[node.moment_rows],
                geometry=self.geometry,
                criterion=self.criterion,
                construction=self.construction,
                scale_logits=scale_logits,
                n_directions=self.n_directions,
                seed=self.seed,
            )

    def _decide_scaling(self, nodes: list[LinearNode], X) -> bool:
        if len(nodes) == 1:
            return False
        if self.scale_logits != "auto":
            return self.scale_logits
        if self.geometry.in_logits:
            return True
        scales = [
            on_one_scale(node.W, node.known, X[node.moment_rows])[1]
            for node in nodes
            # A constant model has no scale to compare.
            if np.ptp(node.W[:, node.known], axis=1).any()
        ]
        return bool(scales) and max(scales) > AUTO_SCALE_RATIO * min(scales)


def _kept_inside(spaces, W: np.ndarray, factor: float) -> float:
    """The factor on a model in all spaces that is next to another and stays in them."""
    # The distances are parabolas in the factor.
    low, at_one, high = (
        np.array([space.normalized_squared_distance(f * W) for space in spaces])
        for f in (0.0, 1.0, 2.0)
    )
    square = (low - 2 * at_one + high) / 2
    slope = at_one - low - square
    root = np.sqrt(np.maximum(slope**2 - 4 * square * (low - 1.0), 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        ends = (-slope - root) / (2 * square), (-slope + root) / (2 * square)
    least = np.where(square > 0, ends[0], 0.0).max()
    most = np.where(square > 0, ends[1], np.inf).min()
    return float(np.clip(factor, min(least, 1.0), max(most, 1.0)))


@contextmanager
def _named(node: LinearNode):
    """Put the name of a node before the message of a ValueError."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"node {node.name!r}: {error}") from error
