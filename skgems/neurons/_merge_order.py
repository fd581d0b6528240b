# SPDX-License-Identifier: BSD-3-Clause
"""The order in which neurons would be merged, cheapest first."""

from __future__ import annotations

import numpy as np

from ._pool import NeuronPool
from ._ward import ward_tree


class MergeOrder:
    """The order in which neurons would be merged, cheapest first: a tree.

    Row t joins the nodes ``children[t]`` into node ``n_leaves + t``. After
    `n_comparable` rows, which join within groups, come joins of whole groups.
    """

    def __init__(self, pool: NeuronPool, groups: list[np.ndarray]) -> None:
        self.n_leaves = len(pool.node)
        parts, heights, roots, n_rows = [], [], [], 0
        for members in groups:
            children, height = ward_tree(pool.pair_costs(members), pool.masses[members])
            # Joins are numbered group after group until they are sorted.
            names = np.append(members, self.n_leaves + n_rows + np.arange(len(height)))
            n_rows += len(height)
            parts.append(names[children])
            heights.append(height)
            roots.append(names[-1])
        heights = np.concatenate(heights)
        rows = np.argsort(heights, kind="stable")
        names = np.arange(self.n_leaves + n_rows)
        names[self.n_leaves + rows] = self.n_leaves + np.arange(n_rows)
        joins = names[np.concatenate(parts)[rows]]
        self.heights = heights[rows]  # what comparable joins cost, ascending
        self.n_comparable = n_rows
        children, _ = ward_tree(*_costs_of_groups(pool, groups))
        above = self.n_leaves + n_rows + np.arange(len(children))
        self.children = np.concatenate(
            [joins, np.append(names[roots], above)[children]]
        )


def _costs_of_groups(pool: NeuronPool, groups) -> tuple[np.ndarray, np.ndarray]:
    """What it would cost to join whole groups, by their means, and their masses."""
    masses = np.array([pool.masses[g].sum() for g in groups])
    means = [pool.coordinates[:, g] @ pool.masses[g] for g in groups]
    means = (
        np.stack(means, axis=1)
        / masses
        * np.sqrt(pool.basis.diagonals.mean(0))[:, None]
    )
    products = means.T @ means
    squares = products.diagonal()
    costs = squares[:, None] + squares - 2.0 * products
    costs *= masses[:, None] * masses / (masses[:, None] + masses)
    return np.maximum(costs, 0.0), masses
