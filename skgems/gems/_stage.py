# SPDX-License-Identifier: BSD-3-Clause
"""The linear stage of GEMS on arrays: spaces of all nodes, and a point in them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from sklearn.utils.parallel import Parallel, delayed

from ..local import node_space, recall
from ..networks import linear_logits
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
            W = W * fit_inverse_temperature(linear_logits(X[rows], W), y[rows])
        if W.shape[1] == 2:
            # What two classes have in common says nothing, and is not published.
            W = (W[:, 1:] - W[:, :1]) * [-0.5, 0.5]
        return LinearMerge(W, profiles, spaces, found)

    def score(self, W: np.ndarray, nodes: list[LinearNode], X, y) -> list[float]:
        """Score of one model on the rows on which each node's own is judged."""
        scores = []
        for node in nodes:
            rows = node.known_rows(y)
            scores.append(self.criterion.score(linear_logits(X[rows], W), y[rows]))
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


@contextmanager
def _named(node: LinearNode):
    """Put the name of a node before the message of a ValueError."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"node {node.name!r}: {error}") from error
