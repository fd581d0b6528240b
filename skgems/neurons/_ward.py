# SPDX-License-Identifier: BSD-3-Clause
"""Ward's tree of points that have masses."""

from __future__ import annotations

import numpy as np


def ward_tree(costs: np.ndarray, masses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Join points to groups, cheapest first, by Ward's update with masses.

    What it costs to join a group with one made of i and j is, of Lance and Williams,
    ``((a_i + a_k) c_ik + (a_j + a_k) c_jk - a_k c_ij) / (a_i + a_j + a_k)``: exact
    where costs are ``a_i a_j / (a_i + a_j)`` times squared distances. It never falls
    below the cheapest of the three, so chains of nearest neighbours find the tree.

    Parameters
    ----------
    costs : ndarray of shape (n_points, n_points)
        Of joining each pair; symmetric, and overwritten.
    masses : ndarray of shape (n_points,)
        Above 0.

    Returns
    -------
    children : ndarray of shape (n_points - 1, 2), int
        Row t joins two nodes of the tree into node ``n_points + t``.
    heights : ndarray of shape (n_points - 1,)
        What that costs, ascending.
    """
    n_points = len(masses)
    np.fill_diagonal(costs, np.inf)
    masses = masses.astype(np.float64)
    node = np.arange(n_points)  # of the tree, that stands in each place
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
