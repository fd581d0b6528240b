# SPDX-License-Identifier: BSD-3-Clause
"""Margins: what a node's own model scores on its rows, label against the others."""

from __future__ import annotations

import numpy as np
from sklearn.utils.extmath import safe_sparse_dot

from ._blocks import cache_blocks, float_type, output_columns
from ._metric import Metric
from ._rays import Rays

__all__ = ["Margins", "check_construction"]


class Margins:
    """The centre's logits on the rows, split into right and wrong ones."""

    def __init__(self, X, y, center, metric: Metric, outputs, *, norms: bool) -> None:
        center = np.asarray(center)
        n_rows, n_features = X.shape
        if n_rows == 0:
            raise ValueError("X has no rows.")
        if center.ndim != 2 or center.shape[0] != n_features + 1:
            raise ValueError(
                f"center must have shape ({n_features + 1}, n_outputs) for "
                f"{n_features} features, got {center.shape}."
            )
        if metric.n_params != center.shape[0] or (
            metric.n_outputs not in (None, center.shape[1])
        ):
            raise ValueError(
                f"The metric is for {metric.n_params} parameters and "
                f"{metric.n_outputs or 'any'} outputs, the center has {center.shape}."
            )
        y = np.asarray(y)
        if y.shape != (n_rows,) or y.dtype.kind not in "iu":
            raise ValueError(
                f"y must hold {n_rows} integers, the columns of the rows' labels; got "
                f"an array of {y.dtype} of shape {y.shape}."
            )
        if y.min() < 0 or y.max() >= center.shape[1]:
            raise ValueError(f"y must be between 0 and {center.shape[1] - 1}.")
        self.columns = output_columns(outputs, center.shape[1])
        positions = np.full(center.shape[1], -1)
        positions[self.columns] = np.arange(len(self.columns))
        self.X, self.metric, self.outputs = X, metric, outputs
        self.n_rows, self.n_outputs = n_rows, center.shape[1]
        self.known = positions[y] >= 0
        # The place of each row's label among the columns; of an unknown one, 0.
        self.label = np.where(self.known, positions[y], 0)
        self.logits, self.norms = self._sweep(center[:, self.columns], norms)
        self.right = self.known & (self.logits.argmax(axis=1) == self.label)
        index = np.arange(n_rows)
        self.margins = self.logits[index, self.label][:, None] - self.logits

    def _sweep(self, weights: np.ndarray, norms: bool) -> tuple:
        """Logits of the rows, and their squared norms, in one go over the rows."""
        typed = weights[:-1].astype(float_type(self.X), copy=False)
        logits = np.empty((self.n_rows, len(self.columns)))
        if not norms:
            logits[:] = safe_sparse_dot(self.X, typed, dense_output=True)
            logits += weights[-1]
            return logits, None
        if self.metric.family == "gram":
            squared = self.metric.row_norms(self.X, self.outputs, squared=True)
            return self._sweep(weights, False)[0], squared
        squared = np.empty_like(logits)
        norm_map = self.metric.norm_map(self.columns, typed.dtype)
        for rows in cache_blocks(self.X):
            block = self.X[rows]
            logits[rows] = block @ typed
            squared[rows] = norm_map(block)
        logits += weights[-1]
        return logits, squared

    def check_certifiable(self) -> None:
        """Raise if some output compared could move without limit."""
        mask = self.metric.free_mask()
        if mask is None:
            return
        free = self.columns[mask[:, self.columns].any(axis=0)]
        if len(free):
            raise ValueError(
                "construction='certified' cannot bound outputs whose parameters are "
                f"free: leave {free.tolist()} out of `outputs`."
            )

    def rays(self, n_directions: int, random_state) -> Rays:
        """Rays from the centre over these rows."""
        if n_directions < 1:
            raise ValueError(f"n_directions must be at least 1, got {n_directions}.")
        return Rays(
            self.X,
            self.metric,
            self.columns,
            self.n_outputs,
            n_directions,
            random_state,
        )

    def against_label(self, changes: np.ndarray, rows: slice) -> np.ndarray:
        """Turn changes of logits, in place, into changes against the label's logit."""
        own = changes[:, self.label[rows], np.arange(changes.shape[2])]
        changes -= own[:, None, :]
        return changes


def check_construction(construction: str) -> None:
    """Raise if there is no such construction."""
    if construction not in ("sampled", "certified"):
        raise ValueError(
            f"construction must be 'sampled' or 'certified', got {construction!r}."
        )
