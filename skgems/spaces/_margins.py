"""What a model scores on a node's rows, and how that changes along random rays.

The margin of row i against output c is ``z_iy - z_ic``, with the logits z of the
node's model and the row's label y; the row is right where no margin is negative. Along
a ray of unit length in the metric's units, ``W = C + r D`` with ``<D, P D> = 1``, it is
linear in r:

    (z_iy - z_ic) - r (x_i' D_c - x_i' D_y),

with x_i extended by 1. So a row's changes along a ray are computed once for all r.
"""

from collections.abc import Callable, Iterator
from copy import copy
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state, gen_batches

from ..moments import (
    MOST_BLOCK_BYTES,
    MOST_NUMBERS,
    float_type,
    ratio,
    row_blocks,
    working_bytes,
)
from ._metric import Metric, n_constrained, ray_map, row_norms
from ._outputs import Rows, output_columns
from ._space import RandomSource

# Rows that rays are followed on, and that a number about a node's model is computed of,
# such as a mean of its probabilities or the factor on its logits: a share of so many is
# known to about 1 %.
MOST_ROWS = 5000

# (directions, scale, parts); each part is (rows, changes of logits).
Chunk = tuple[slice, np.ndarray, Iterator[tuple[slice, np.ndarray]]]


class Rays:
    """Directions uniform on a metric's unit surface, the same for any X and memory.

    A direction is drawn from the normal distribution in all parameters that are not
    free, and divided by its length. Only the `columns` of outputs that are compared are
    drawn one by one; of the others the squared length is enough, which is drawn from a
    chi-squared distribution.
    """

    def __init__(
        self,
        X: Rows,
        *,
        metric: Metric,
        columns: np.ndarray,
        n_outputs: int,
        n_directions: int,
        random_state: RandomSource,
    ) -> None:
        self.X = X
        self.metric = metric
        self.columns = columns
        self.n_directions = n_directions
        seed = check_random_state(random_state).randint(np.iinfo(np.int32).max)
        n_params = X.shape[1] + 1
        n_columns = len(columns)
        self._shape = (n_columns, n_params)
        self._constrained = _constrained_mask(metric, columns, n_outputs=n_outputs)
        n_drawn = n_params * n_columns
        if self._constrained is not None:
            n_drawn = self._constrained.sum()
        n_other_params = n_constrained(metric, n_outputs) - n_drawn
        self._generator = np.random.Generator(np.random.SFC64(seed))
        # Squared length of the part that changes no logit compared.
        self._other_squares = _squares_of_normals(
            self._generator, n_params=n_other_params, n_directions=n_directions
        )
        self._shared = None
        # Nodes of one seed see the same numbers, of float32: a few are drawn once.
        n_numbers = n_directions * n_params * n_columns
        if n_numbers <= MOST_NUMBERS and 4 * n_numbers <= working_bytes() // 4:
            self._shared = _shared(
                seed,
                n_other_params=n_other_params,
                n_directions=n_directions,
                shape=self._shape,
            )
        itemsize = float_type(X).itemsize
        # A direction in float32, and twice in the type of X: whitened, and its product.
        self._direction_bytes = n_params * n_columns * (4 + 2 * itemsize)
        # For a row and a direction: the changes and what is computed of them, three
        # numbers a column at most, and two rates.
        self._row_bytes = n_columns * 3 * itemsize + 2 * itemsize

    def chunks(self) -> Iterator[Chunk]:
        """Yield (directions, scale, parts); parts yield (rows, unscaled changes).

        The changes (n_directions, n_columns, n_rows) of a part are those along rays of
        unit length once they are multiplied by the scale (n_directions,).
        """
        chunk_bytes = self._direction_bytes + self.X.shape[0] * self._row_bytes
        limit = working_bytes()
        size = max(
            1, min(min(limit, MOST_BLOCK_BYTES) // chunk_bytes, self.n_directions)
        )
        row_slices = row_blocks(
            self.X,
            bytes_per_row=self._row_bytes,
            limit=max(limit - self._direction_bytes, 0),
        )
        # The map of all rows serves all chunks; those of blocks are made anew for each.
        map_of_all = None
        if len(row_slices) == 1:
            map_of_all = ray_map(self.metric, self.X, self.columns)
        for batch in gen_batches(self.n_directions, size):
            directions = self._directions(batch)
            flat = directions.reshape(len(directions), -1)
            squares = np.einsum("ij,ij->i", flat, flat) + self._other_squares[batch]
            # All parameters compared may be free: then nothing changes along the ray.
            scale = ratio(1.0, np.sqrt(squares))
            yield (
                batch,
                scale,
                self._changes_on_rows(directions, row_slices, map_of_all),
            )

    def _directions(self, batch: slice) -> np.ndarray:
        """Return directions (n_directions, n_columns, n_params), 0 where free."""
        if self._shared is not None:
            directions = self._shared[batch]
        else:
            directions = _normals(
                self._generator, batch.stop - batch.start, self._shape
            )
        if self._constrained is None:
            return directions
        return directions * self._constrained

    def _changes_on_rows(
        self,
        directions: np.ndarray,
        row_slices: list[slice],
        map_of_all: Callable[[np.ndarray], np.ndarray] | None,
    ) -> Iterator[tuple[slice, np.ndarray]]:
        for rows in row_slices:
            changes = map_of_all or ray_map(self.metric, self.X[rows], self.columns)
            yield rows, changes(directions)


def _constrained_mask(
    metric: Metric, columns: np.ndarray, *, n_outputs: int
) -> np.ndarray | None:
    """Return the mask (n_columns, n_params) of constrained parameters, or None."""
    if metric.free is None:
        return None
    free = np.broadcast_to(metric.free, (metric.shape[0], n_outputs))
    constrained = ~free[:, columns].T
    return None if constrained.all() else constrained


def _squares_of_normals(
    generator: np.random.Generator, *, n_params: int, n_directions: int
) -> np.ndarray:
    """Return squared lengths (n_directions,) of normal directions."""
    if n_params > 0:
        return generator.chisquare(n_params, n_directions)
    return np.zeros(n_directions)


def _normals(
    generator: np.random.Generator, n_directions: int, shape: tuple[int, int]
) -> np.ndarray:
    return generator.standard_normal((n_directions, *shape), dtype=np.float32)


@lru_cache(maxsize=1)
def _shared(
    seed: int, *, n_other_params: int, n_directions: int, shape: tuple[int, int]
) -> np.ndarray:
    """Return all chunks of a drawing in one array, which nodes of one size share."""
    generator = np.random.Generator(np.random.SFC64(seed))
    # Drawn first by `Rays` too: the normals must be the numbers that come after.
    _squares_of_normals(generator, n_params=n_other_params, n_directions=n_directions)
    directions = _normals(generator, n_directions, shape)
    directions.setflags(write=False)
    return directions


class Margins:
    """The centre's margins on the rows, split into right and wrong ones."""

    def __init__(
        self,
        X: Rows,
        y: np.ndarray,
        center: np.ndarray,
        metric: Metric,
        *,
        outputs: ArrayLike | None = None,
        construction: str = "sampled",
        norms: bool = False,
    ) -> None:
        metric_shape = (metric.shape[0], metric.shape[1] or center.shape[1])
        if metric_shape != center.shape:
            raise ValueError(
                f"The metric is for models of shape {metric_shape}, but center has the "
                f"shape {center.shape}. Both are (n_features + 1, n_outputs)."
            )
        self.n_rows = len(y)
        self.n_outputs = center.shape[1]
        self.columns = output_columns(outputs, self.n_outputs)  # that are compared
        positions = np.full(self.n_outputs, -1)
        positions[self.columns] = np.arange(len(self.columns))
        self.certified = construction == "certified"
        if self.certified:
            # A certificate holds in the digits that it was computed in.
            X = X.astype(np.float64, copy=False)
        self.X = X
        self.metric = metric
        # (n_rows,): whether the row's label is compared.
        self.known = positions[y] >= 0
        # The place of each row's label among the columns; of an unknown one, 0.
        self.label = np.where(self.known, positions[y], 0)
        # Squared norms of the metric, (n_columns or 1, n_rows), or None.
        self.norms = None
        if norms or self.certified:
            squares = row_norms(metric, X, outputs, squared=True)
            self.norms = squares.T.astype(np.float64, order="C", copy=False)
        self.weights = center[:, self.columns]  # (n_params, n_columns)
        # By columns: what follows runs along the rows.
        logits = X @ self.weights[:-1].astype(float_type(X), copy=False)
        logits = logits.T.astype(np.float64, order="C")
        logits += self.weights[-1][:, None]
        # The label's logit less each compared output's, (n_columns, n_rows).
        self.margins = logits[self.label, np.arange(self.n_rows)] - logits
        # numpy's argmax: of equal logits the first wins.
        first_of_largest = (self.margins == 0).argmax(axis=0)
        label_wins = (self.margins.min(axis=0) >= 0) & (first_of_largest == self.label)
        self.right = self.known & label_wins  # (n_rows,)

    def thinned(self, rows: np.ndarray, order_by: np.ndarray) -> "Margins":
        """Return margins of at most `MOST_ROWS` rows, evenly placed in an order.

        `rows` are indices, and `order_by` has a number for each of them.
        """
        if len(rows) > MOST_ROWS:
            ranks = ((np.arange(MOST_ROWS) + 0.5) * len(rows) / MOST_ROWS).astype(int)
            rows = np.sort(rows[np.argsort(order_by, kind="stable")[ranks]])
        thinned = copy(self)
        thinned.n_rows = len(rows)
        thinned.X = self.X[rows]
        thinned.label = self.label[rows]
        thinned.known = self.known[rows]
        thinned.right = self.right[rows]
        thinned.margins = self.margins[:, rows]
        thinned.norms = None if self.norms is None else self.norms[:, rows]
        return thinned

    def rays(self, n_directions: int, random_state: RandomSource) -> Rays:
        return Rays(
            self.X,
            metric=self.metric,
            columns=self.columns,
            n_outputs=self.n_outputs,
            n_directions=n_directions,
            random_state=random_state,
        )

    def against_label(self, changes: np.ndarray, rows: slice) -> np.ndarray:
        """Turn changes of logits, in place, into changes against the label's logit.

        `changes` has the shape (n_directions, n_columns, n_rows).
        """
        changes -= changes[:, self.label[rows], np.arange(changes.shape[2])][:, None]
        return changes
