# SPDX-License-Identifier: BSD-3-Clause
"""Centre, metric and radius profile of one linear node, from plain arrays."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import softmax

from ..networks._logits import fill_unseen, linear_logits, on_one_scale
from ..spaces import (
    accuracy_profile,
    ball_metric,
    ellipsoid_metric,
    gram_metric,
    loss_profile,
)


@dataclass(frozen=True)
class NodeModel:
    """What one node contributes that does not depend on epsilon."""

    center: np.ndarray
    scale: float
    metric: object
    outputs: np.ndarray | None
    profile: object


def model_node(
    W,
    known,
    X,
    y,
    *,
    geometry,
    construction,
    criterion,
    scale_logits,
    unseen_margin,
    unseen_weight,
    ridge,
    fisher_floor,
    fisher_damping,
    n_directions,
    seed,
) -> NodeModel:
    """Centre, metric and radius profile of one node, from plain arrays."""
    center, scale = W.astype(np.float64), 1.0
    if scale_logits:
        center, scale = on_one_scale(center, known, X)
    if geometry == "gram":
        outputs = None
        if not known.all():
            center = fill_unseen(center, known, unseen_margin)
        metric = gram_metric(
            X, ridge=ridge, output_weights=np.where(known, 1.0, unseen_weight)
        )
    else:
        outputs = known
        center[:, ~known] = 0.0
        if geometry == "ball":
            metric = ball_metric(W.shape[0], known)
        else:
            probabilities = np.zeros((X.shape[0], W.shape[1]))
            probabilities[:, known] = softmax(
                scale * linear_logits(X, center[:, known]), axis=1
            )
            metric = ellipsoid_metric(
                X,
                probabilities,
                floor=fisher_floor,
                damping=fisher_damping,
                outputs=known,
            )
    # Rows of classes the node does not know shape the metric, but judge no model.
    judging = known[y]
    if not judging.all():
        X, y = X[judging], y[judging]
    shared = {
        "outputs": outputs,
        "construction": construction,
        "n_directions": n_directions,
        "random_state": seed,
    }
    if criterion == "accuracy":
        profile = accuracy_profile(X, y, center, metric, **shared)
    else:
        profile = loss_profile(X, y, center, metric, logit_scale=scale, **shared)
    # A copy leaves behind the factors that only the profile needed.
    return NodeModel(center, scale, replace(metric), outputs, profile)
