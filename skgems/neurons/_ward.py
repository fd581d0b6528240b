# SPDX-License-Identifier: BSD-3-Clause
"""Ward's tree of points that have masses."""

from __future__ import annotations

import numpy as np


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
