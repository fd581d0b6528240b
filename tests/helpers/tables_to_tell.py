# SPDX-License-Identifier: BSD-3-Clause
"""Tables of all kinds that rules of disclosure meet, and leverages by definition."""

from __future__ import annotations

import numpy as np

KINDS = ["normal", "heavy", "codes", "duplicates", "constant", "collinear", "counts"]


def table_of(kind: str, n_rows: int, n_columns: int, rng) -> np.ndarray:
    """Return numbers of a kind, (n_rows, n_columns)."""
    X = rng.normal(size=(n_rows, n_columns))
    if kind == "heavy":  # a few values are far from all others
        X = rng.standard_t(1.0, size=X.shape)
    elif kind == "codes":  # indicators of a few values, which sum to 1
        shares = rng.dirichlet(np.full(n_columns, 0.5))
        X = np.eye(n_columns)[rng.choice(n_columns, n_rows, p=shares)]
    elif kind == "duplicates":
        X = X[rng.integers(0, max(n_rows // 3, 1), n_rows)]
    elif kind == "constant":
        X[:, : n_columns // 2 + 1] = 3.0
    elif kind == "collinear":
        X[:, -1] = X[:, 0] - 2.0 * X[:, n_columns // 2]
    elif kind == "counts":
        X = rng.poisson(0.3, size=X.shape).astype(float)
    return X


def leverages_by_definition(
    X: np.ndarray, groups: np.ndarray, weights: np.ndarray, units: np.ndarray
) -> np.ndarray:
    """Return the leverages of units from singular vectors of the weighted rows.

    The columns are X and the indicators of groups. Columns are centered and scaled
    first, so that columns of all units count as different from 0 alike.
    """
    Z = np.hstack([groups[:, None] == np.unique(groups), X]).astype(float)
    W = weights[:, None]
    indicators = W * Z[:, : len(np.unique(groups))]
    rest = W * X
    Q, sizes, _ = np.linalg.svd(indicators, full_matrices=False)
    Q = Q[:, sizes > 1e-9]
    size = np.linalg.norm(rest, axis=0)
    rest = rest - Q @ (Q.T @ rest)
    spread = np.linalg.norm(rest, axis=0)
    rest = rest[:, spread > 1e-9 * size] / spread[spread > 1e-9 * size]
    U, sizes, _ = np.linalg.svd(rest, full_matrices=False)
    U = U[:, sizes > 1e-5]
    h = np.einsum("ij,ij->i", Q, Q) + np.einsum("ij,ij->i", U, U)
    return np.bincount(np.unique(units, return_inverse=True)[1], h)
