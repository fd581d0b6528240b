"""What a model scores on a node's rows, and how that changes along random rays."""

from collections.abc import Iterator
from copy import copy
from functools import lru_cache

import numpy as np
from sklearn.utils import check_random_state, gen_batches

from ..moments import float_type, ratio, row_blocks, working_bytes
from ._diagonal import output_columns
from ._space import Metric

# A chunk no larger than this stays near the processor, whatever memory is granted.
_CHUNK_BYTES = 2**24
# Nodes of one seed see the same numbers: up to so many bytes they are drawn once.
_SHARED_BYTES = 2**25


class Rays:
    """Directions uniform on a metric's unit surface, the same for any X and memory."""

    def __init__(self, X, metric: Metric, columns, n_outputs, n_directions, seed):
        self.X, self.metric, self.columns = X, metric, columns
        self.n_directions = n_directions
        seed = check_random_state(seed).randint(np.iinfo(np.int32).max)
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
        most = min(_SHARED_BYTES, working_bytes() // 4)
        few = 4 * n_directions * n_params * n_columns <= most
        own = seed, n_rest, n_directions, self._shape
        self._shared = _shared(*own) if few else None
        size = float_type(X).itemsize
        self._direction_bytes = n_params * n_columns * (4 + 2 * size)
        self._row_bytes = n_columns * 3 * size + 2 * size

    def chunks(self) -> Iterator[tuple[slice, np.ndarray, Iterator]]:
        """Yield (directions, scale, parts); parts yield (rows, unscaled changes)."""
        one = self._direction_bytes + self.X.shape[0] * self._row_bytes
        limit = working_bytes()
        size = max(1, min(min(limit, _CHUNK_BYTES) // one, self.n_directions))
        left = max(limit - self._direction_bytes, 0)
        row_slices, map_all = row_blocks(self.X, self._row_bytes, left), None
        if len(row_slices) == 1:
            map_all = self.metric.ray_map(self.X, self.columns)
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


def _rest(generator, n_rest: int, n: int) -> np.ndarray:
    return generator.chisquare(n_rest, n) if n_rest > 0 else np.zeros(n)


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


# Rows that rays are followed on, at most: a share of them is known to about 1 %.
MOST_ROWS = 5000


class Margins:
    """The centre's margins on the rows, split into right and wrong ones."""

    def __init__(
        self, X, y, center, metric, *, outputs=None, construction="sampled", norms=False
    ):
        own = metric.n_params, metric.n_outputs or center.shape[1]
        if own != center.shape:
            raise ValueError(f"The metric is for {own}, the center has {center.shape}.")
        self.n_rows, self.n_outputs = n_rows, n_outputs = len(y), center.shape[1]
        self.columns = output_columns(outputs, n_outputs)
        positions = np.full(n_outputs, -1)
        positions[self.columns] = np.arange(len(self.columns))
        self.certified = construction == "certified"
        if self.certified:
            # A certificate holds in the digits that it was computed in.
            X, norms = X.astype(np.float64, copy=False), True
        self.X, self.metric = X, metric
        self.known = positions[y] >= 0
        # The place of each row's label among the columns; of an unknown one, 0.
        self.label = np.where(self.known, positions[y], 0)
        # Squared norms of the metric, (n_columns or 1, n_rows), or None.
        self.norms = None
        if norms:
            squared = metric.row_norms(X, outputs, squared=True)
            self.norms = squared.T.astype(np.float64, order="C", copy=False)
        # By columns: what follows runs along the rows.
        self.weights = weights = center[:, self.columns]
        logits = X @ weights[:-1].astype(float_type(X), copy=False)
        logits = logits.T.astype(np.float64, order="C")
        logits += weights[-1][:, None]
        # The label's logit less each compared output's, (n_columns, n_rows).
        self.margins = logits[self.label, np.arange(n_rows)] - logits
        # numpy's argmax: of equal logits the first wins.
        first = (self.margins == 0).argmax(axis=0)
        right = (self.margins.min(axis=0) >= 0) & (first == self.label)
        self.right = self.known & right

    def thinned(self, rows: np.ndarray, values: np.ndarray) -> "Margins":
        """The same of `MOST_ROWS` rows at most, evenly placed by their values."""
        if len(rows) > MOST_ROWS:
            places = ((np.arange(MOST_ROWS) + 0.5) * len(rows) / MOST_ROWS).astype(int)
            rows = np.sort(rows[np.argsort(values, kind="stable")[places]])
        fewer = copy(self)
        fewer.n_rows = len(rows)
        for name in ("X", "label", "known", "right"):
            setattr(fewer, name, getattr(self, name)[rows])
        fewer.margins = self.margins[:, rows]
        fewer.norms = None if self.norms is None else self.norms[:, rows]
        return fewer

    def rays(self, n_directions: int, random_state) -> Rays:
        own = self.X, self.metric, self.columns, self.n_outputs
        return Rays(*own, n_directions, random_state)

    def against_label(self, changes: np.ndarray, rows: slice) -> np.ndarray:
        """Turn changes of logits, in place, into changes against the label's logit."""
        changes -= changes[:, self.label[rows], np.arange(changes.shape[2])][:, None]
        return changes
