# SPDX-License-Identifier: BSD-3-Clause
"""The order in which neurons would be merged, cheapest first: Ward's trees."""

import numpy as np

from ._pool import NeuronPool


def ward_tree(costs: np.ndarray, masses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Join points to groups, cheapest first, by Ward's update with masses.

    Row t of the first result joins two nodes into node ``n_points + t``, at the t-th
    height of the second, ascending. ``costs`` of pairs are symmetric, and overwritten.
    """
    n_points = len(masses)
    np.fill_diagonal(costs, np.inf)
    masses = masses.astype(np.float64)
    node = np.arange(n_points)  # of the tree, that stands at each index
    active = np.ones(n_points, dtype=bool)
    children = np.empty((n_points - 1, 2), dtype=np.intp)
    heights = np.empty(n_points - 1)
    chain: list[int] = []
    for t in range(n_points - 1):
        if not chain:
            chain.append(int(active.argmax()))
        while True:
            i = chain[-1]
            j = int(costs[i].argmin())
            if len(chain) > 1 and costs[i, chain[-2]] <= costs[i, j]:
                break
            chain.append(j)
        j = chain[-2]
        del chain[-2:]
        cost, a, b = costs[i, j], masses[i], masses[j]
        children[t] = node[i], node[j]
        below = [heights[c - n_points] for c in children[t] if c >= n_points]
        # Rounding must not put a node below its children.
        heights[t] = max(cost, *below) if below else cost
        # By Lance and Williams, exact where costs are a b / (a + b) times squared
        # distances. It never falls below the cheapest of the three costs, so chains of
        # nearest neighbours find the tree.
        joined = (a + masses) * costs[i]
        joined += (b + masses) * costs[j]
        joined -= masses * cost
        joined /= a + b + masses
        joined[j] = np.inf
        costs[i] = costs[:, i] = joined
        costs[j] = costs[:, j] = np.inf
        masses[i] = a + b
        active[j] = False
        node[i] = n_points + t
    order = np.argsort(heights, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(n_points - 1)
    inner = children >= n_points
    children[inner] = n_points + place[children[inner] - n_points]
    return children[order], heights[order]


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
