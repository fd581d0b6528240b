# SPDX-License-Identifier: BSD-3-Clause
"""Rays: how the logits on a node's rows change along random unit directions."""

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from sklearn.utils import check_random_state, gen_batches

from ..moments import float_type, ratio, row_blocks, working_bytes
from ._metric import Metric

# A chunk no larger than this stays near the processor, whatever memory is granted.
_CHUNK_BYTES = 2**24
# Nodes of one seed see the same numbers: up to so many bytes they are drawn once.
_SHARED_BYTES = 2**25


class Rays:
    """Directions uniform on a metric's unit surface, and the logits along them.

    Drawn one after the other, in float32 for X of any type: neither that, the number of
    rows nor the working memory changes them. Outputs in ``columns`` are compared.
    """

    def __init__(
        self,
        X,
        metric: Metric,
        columns,
        n_outputs: int,
        n_directions: int,
        random_state,
    ) -> None:
        self.X, self.metric, self.columns = X, metric, columns
        self.n_directions = n_directions
        seed = check_random_state(random_state).randint(np.iinfo(np.int32).max)
        n_params, n_columns = X.shape[1] + 1, len(columns)
        self._moved, free = None, metric.free_mask()
        if free is not None:
            moved = ~np.broadcast_to(free, (n_params, n_outputs))[:, columns].T
            self._moved = None if moved.all() else moved
        n_drawn = n_params * n_columns if self._moved is None else self._moved.sum()
        n_rest = metric.n_constrained(n_outputs) - n_drawn
        self._shape = n_columns, n_params
        self._generator = np.random.Generator(np.random.SFC64(seed))
        # Squared length of the part that changes no logit compared.
        self._rest = _rest(self._generator, n_rest, n_directions)
        self._shared = None
        most = min(_SHARED_BYTES, working_bytes() // 4)
        if 4 * n_directions * n_params * n_columns <= most:
            self._shared = _shared(seed, n_rest, n_directions, self._shape)
        size = float_type(X).itemsize
        self._direction_bytes = n_params * n_columns * (4 + 2 * size)
        self._row_bytes = n_columns * 3 * size + 2 * size

    def chunks(self) -> Iterator[tuple[slice, np.ndarray, Iterator]]:
        """Yield (directions, scale, parts); parts yield (rows, unscaled changes)."""
        n_rows = self.X.shape[0]
        one = self._direction_bytes + n_rows * self._row_bytes
        limit = working_bytes()
        size = max(1, min(min(limit, _CHUNK_BYTES) // one, self.n_directions))
        row_slices, map_all = [slice(0, n_rows)], None
        if one <= limit:
            map_all = self.metric.ray_map(self.X, self.columns)
        else:
            left = max(limit - self._direction_bytes, 0)
            row_slices = row_blocks(self.X, self._row_bytes, left)
        for batch in gen_batches(self.n_directions, size):
            n_batch = batch.stop - batch.start
            if self._shared is not None:
                directions = self._shared[batch]
            else:
                directions = _normals(self._generator, n_batch, self._shape)
            if self._moved is not None:
                directions = directions * self._moved
            flat = directions.reshape(n_batch, -1)
            squared = np.einsum("ij,ij->i", flat, flat) + self._rest[batch]
            # All parameters compared may be free: then nothing changes along the ray.
            scale = ratio(1.0, np.sqrt(squared))
            yield batch, scale, self._on_rows(directions, row_slices, map_all)

    def _on_rows(self, directions, row_slices, map_all):
        for rows in row_slices:
            ray_map = map_all or self.metric.ray_map(self.X[rows], self.columns)
            yield rows, ray_map(directions)


def _rest(generator, n_rest: int, n_directions: int) -> np.ndarray:
    if n_rest <= 0:
        return np.zeros(n_directions)
    return generator.chisquare(n_rest, n_directions)


def _normals(generator, n_directions: int, shape: tuple) -> np.ndarray:
    return generator.standard_normal((n_directions, *shape), dtype=np.float32)


@lru_cache(maxsize=1)
def _shared(seed: int, n_rest: int, n_directions: int, shape: tuple) -> np.ndarray:
    """What is drawn in chunks, at once; for all nodes of one size."""
    generator = np.random.Generator(np.random.SFC64(seed))
    _rest(generator, n_rest, n_directions)
    directions = _normals(generator, n_directions, shape)
    directions.setflags(write=False)
    return directions
