# SPDX-License-Identifier: BSD-3-Clause
"""The good-enough spaces of a node's own linear model, but for the level."""

from __future__ import annotations

import numpy as np

from ..spaces import Criterion, Geometry, SpaceProfile, on_one_scale, profile_space


def node_space(
    W: np.ndarray,
    X,
    y: np.ndarray,
    *,
    n_others: int = 0,
    geometry: Geometry,
    criterion: Criterion,
    construction: str,
    scale_logits: bool,
    n_directions: int,
    rows=None,
    seed: int | None = None,
) -> SpaceProfile:
    """Build all of a node's good-enough spaces that does not depend on epsilon.

    Parameters
    ----------
    W : ndarray of shape (n_features + 1, n_own_classes)
        The node's model of the classes that it has seen, the intercepts in the last
        row.
    X : {ndarray, CSR matrix} of shape (n_rows, n_features)
        Rows that judge models.
    y : ndarray of shape (n_rows,), int
        Their labels, as indices of these classes; -1 for any other.
    n_others : int, default=0
        How many classes more there are for the criterion: where it does not count
        them, one at most.
    geometry : Geometry
    criterion : Criterion
    construction : {"sampled", "certified"}
    scale_logits : bool
        Whether to bring the node's logits to unit size on its rows.
    n_directions : int
        Rays of the sampled construction.
    rows : {ndarray, CSR matrix} of shape (n_other_rows, n_features), default=None
        Rows that make moments. None: those that judge.
    seed : int, default=None
        Of the rays.

    Returns
    -------
    profile : SpaceProfile
        Of outputs for the node's own classes and, if there are others of which it says
        something, one more that stands for each of them.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.local import node_space
    >>> from skgems.spaces import Accuracy, Gram
    >>> X, y = np.array([[-3.0], [-1.0], [1.0], [3.0]]), np.array([0, 0, 1, 1])
    >>> profile = node_space(
    ...     np.array([[-9.0, 9.0], [0.0, 0.0]]), X, y, n_others=1,
    ...     geometry=Gram(), criterion=Accuracy(), construction="certified",
    ...     scale_logits=True, n_directions=1,
    ... )
    >>> round(profile.scale, 2), profile.score, profile.center.shape
    (20.12, 1.0, (2, 3))
    """
    n_own = W.shape[1]
    center, scale = np.pad(W.astype(np.float64), [(0, 0), (0, n_others)]), 1.0
    known = np.arange(n_own + n_others) < n_own
    if scale_logits:
        center, scale = on_one_scale(center, known, X if rows is None else rows)
    profile = profile_space(
        X,
        y,
        center,
        known,
        geometry=geometry,
        criterion=criterion,
        construction=construction,
        n_directions=n_directions,
        scale=scale,
        rows=rows,
        random_state=seed,
    )
    if not n_others:
        return profile
    return profile.of_outputs(np.arange(n_own + (not profile.last_is_free)))
