"""Fold the affine steps of a pipeline into the layer that follows them.

Steps that are affine together make ``T(x) = x M + t`` of a row x, with ``t = T(0)``.
The layer ``T(x) W + b`` after them is ``x (M W) + (t W + b)`` of the rows before them.
Row i of M is ``T(e_i) - t``, with the unit vector ``e_i`` of feature i.
"""

import numbers
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property

import numpy as np
from scipy.sparse import csr_matrix, eye_array, issparse, vstack
from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state, gen_batches
from sklearn.utils.extmath import row_norms, safe_sparse_dot

from ._network import FOLD_TOLERANCE, Coordinates

# Labels and fitted transformers.
Steps = Sequence[tuple[str, BaseEstimator]]
Rows = np.ndarray | csr_matrix
# Makes of rows what the first step takes: an array, a sparse matrix or a DataFrame.
Container = Callable[[Rows], object]

# Lines on which a step is checked. A kink must lie on one of them to be seen, so there
# are several for each kind of point (normal, near stored numbers, zero, spikes).
N_PAIRS = 40
# From this width on, rows are probed sparse where the steps take them so.
WIDE = 4096
# Relative and absolute (to the largest value of a column) tolerance.
TOLERANCES = {np.dtype(np.float64): (1e-6, 1e-13), np.dtype(np.float32): (1e-3, 1e-7)}
# Points on the lines, which are not rounded as these are powers of two.
RATES = (0.5, 2.0)
# Larger numbers mark what is missing, and their squares are not finite.
LARGEST_STORED = 1e30
# Probes lie near numbers that steps store; if there are more, these many are drawn.
MAX_STORED_NUMBERS = 512


def fold_steps(
    steps: Steps,
    coef: np.ndarray,
    intercept: np.ndarray,
    *,
    name: str,
    n_features_in: int,
    feature_names_in: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray, Coordinates]:
    """The layer ``M W``, ``t W + b`` of steps T before a layer, and its Coordinates."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        to_container = _container(
            steps, n_features=n_features_in, feature_names=feature_names_in
        )
        points = _Points(steps, n_features_in, sparse=to_container is csr_matrix)
        are_scalers = all(_is_plain_scaler(step) for _, step in steps)
        if not are_scalers:
            _check_steps(steps, points=points, to_container=to_container, name=name)
        leading = _LeadingSteps(steps, points=points, to_container=to_container)
        weights = coef.astype(np.float64)
        folded, bias = _folded_layer(
            leading, weights=weights, intercept=intercept, to_container=to_container
        )
        if not are_scalers:
            rows = points.draw(N_PAIRS)
            outputs = _transformed(steps, to_container(rows))
            expected = safe_sparse_dot(outputs, weights, dense_output=True) + intercept
            _check_fold(
                rows=rows,
                expected=expected,
                folded=folded,
                bias=bias,
                steps=steps,
                name=name,
            )
        coordinates = _coordinates(leading, to_container)
    return folded.astype(coef.dtype), bias.astype(coef.dtype), coordinates


def _is_plain_scaler(step: BaseEstimator) -> bool:
    """Report whether a step is a fitted StandardScaler, affine whatever the rows.

    One whose numbers may overflow is checked as other steps are.
    """
    if type(step) is not StandardScaler:  # a subclass may do more
        return False
    means = getattr(step, "mean_", None)
    scales = getattr(step, "scale_", None)
    if means is None or scales is None or not (step.with_mean and step.with_std):
        return False
    is_small = np.all(np.abs(means) < LARGEST_STORED)
    return bool(is_small and np.all(scales > 1.0 / LARGEST_STORED))


def _folded_layer(
    leading: "_LeadingSteps",
    *,
    weights: np.ndarray,
    intercept: np.ndarray,
    to_container: Container,
) -> tuple[np.ndarray, np.ndarray]:
    """``M W`` and ``t W + b``; `leading` records what each step makes of each spike."""
    points = leading.points
    n_features = points.n_features
    n_outputs = weights.shape[1]
    zero = leading.zeros[-1]
    offset = safe_sparse_dot(zero, weights, dense_output=True)
    # By blocks of rows of I, so that M is never held. Numbers held per row of a block:
    # the row, its values, the layer's outputs.
    n_numbers_per_row = (2 if points.sparse else n_features) + n_outputs
    n_numbers_per_row += zero.nnz + 1 if issparse(zero) else zero.shape[1]
    # A sixteenth of the working memory (in MiB), as steps hold copies of a block beside
    # it; 8 bytes a number.
    block_rows = get_config()["working_memory"] * 2**20 / 16 // (8 * n_numbers_per_row)
    folded = np.empty((n_features, n_outputs))
    for block in gen_batches(n_features, int(max(1, block_rows))):
        # Spikes are long because T(0) is subtracted: with a large offset, T(I) - T(0)
        # would lose the digits that the offset takes.
        step_output = to_container(points.spikes(block))
        for depth, (_, step) in enumerate(leading.steps):
            step_input = step_output
            step_output = _stepped(step, step_input)
            leading.record(
                depth,
                inputs=_matrix(step_input),
                outputs=_matrix(step_output),
                block=block,
            )
        outputs = safe_sparse_dot(_matrix(step_output), weights, dense_output=True)
        folded[block] = (outputs - offset) / points.length
    return folded, offset[0] + intercept


def _check_fold(
    *,
    rows: Rows,
    expected: np.ndarray,
    folded: np.ndarray,
    bias: np.ndarray,
    steps: Steps,
    name: str,
) -> None:
    """Raise unless the folded layer gives rows the outputs of the steps and the layer.

    Each step may be affine up to its tolerance, and all of them together may not.
    """
    error = np.abs(safe_sparse_dot(rows, folded, dense_output=True) + bias - expected)
    scale = safe_sparse_dot(abs(rows), np.abs(folded), dense_output=True) + np.abs(bias)
    if not np.all(error <= FOLD_TOLERANCE * scale):
        raise ValueError(
            f"Node {name!r}: the steps {', '.join(repr(label) for label, _ in steps)} "
            "of the pipeline are not affine together, so they cannot be folded into "
            "the first layer. Use only affine steps (StandardScaler, PCA, SelectKBest, "
            "...) in the pipelines of nodes."
        )


def _coordinates(leading: "_LeadingSteps", to_container: Container) -> Coordinates:
    coordinates = leading.coordinates()
    # The center is what all steps take to zero, where that is known.
    center = _row_taken_to_zero(leading.steps, leading.zeros[-1], to_container)
    if center is None:
        return coordinates
    center = np.where(np.isfinite(coordinates.center), center, np.nan)
    return Coordinates(center=center, scale=coordinates.scale)


def _transformed(steps: Iterable[tuple[str, BaseEstimator]], rows: object) -> Rows:
    for _, step in steps:
        rows = _stepped(step, rows)
    return _matrix(rows)


def _stepped(step: BaseEstimator, rows: object) -> object:
    """Return what a step makes of rows, without checks of them where it is a scaler."""
    is_scaled = _is_plain_scaler(step) and isinstance(rows, np.ndarray)
    # Anything else is refused, or rounded, as the scaler does it.
    if is_scaled and rows.dtype == np.float64 and rows.shape[1:] == step.mean_.shape:
        return (rows - step.mean_) / step.scale_
    return step.transform(rows)


def _row_taken_to_zero(
    steps: Steps, zero: Rows, to_container: Container
) -> np.ndarray | None:
    """The row that all steps take to zero, by their inverses; None if these fail."""
    if not (zero.nnz if issparse(zero) else zero.any()):
        return None
    row = np.zeros(zero.shape)
    try:
        for _, step in reversed(steps):
            if _is_plain_scaler(step) and row.shape[1:] == step.mean_.shape:
                row = row * step.scale_ + step.mean_
            else:
                row = step.inverse_transform(row)
        row = np.asarray(_matrix(row)).reshape(1, -1)
        remainder = abs(_transformed(steps, to_container(row))).max()
    except Exception:  # a step without an inverse, or one of other shapes
        return None
    # Within a thousandth of where the origin is taken.
    return row[0] if remainder <= 1e-3 * abs(zero).max() else None


class _LeadingSteps:
    """Center and scale of each feature after the steps that mix it with no other."""

    def __init__(
        self, steps: Steps, *, points: "_Points", to_container: Container
    ) -> None:
        self.steps = steps
        self.points = points
        n_features = points.n_features
        self.zeros: list[Rows] = []  # T(0) of the first 1, 2, ... steps: (1, n_outputs)
        output = to_container(np.zeros((1, n_features)))
        for _, step in steps:
            output = _stepped(step, output)
            self.zeros.append(_matrix(output))
        # (n_steps, n_features) each, of the rows m_i of M after each step: their
        # squared length, and m_i t.
        self.squares = np.zeros((len(steps), n_features))
        self.products = np.zeros((len(steps), n_features))
        # Where a feature enters only columns that a scaler found constant.
        self.constant = np.zeros((len(steps), n_features), dtype=bool)
        # For each column after each step the number of features that enter it.
        self.n_features_of = [
            np.zeros(zero.shape[1], dtype=np.intp) for zero in self.zeros
        ]
        self.mixes = np.zeros(len(steps), dtype=bool)

    def record(self, depth: int, *, inputs: Rows, outputs: Rows, block: slice) -> None:
        """Take in what a step makes of what those before it made of spikes."""
        if self.mixes[: depth + 1].any():
            return
        zero = self.zeros[depth]
        dense_zero = zero.toarray() if issparse(zero) else zero
        length = self.points.length
        if issparse(outputs):
            if dense_zero.any():
                self.mixes[depth] = True  # as good as: no sparse step centers
                return
            moves = outputs
        else:
            moves = outputs - dense_zero
            self.products[depth, block] = moves @ dense_zero[0] / length
        self.squares[depth, block] = row_norms(moves, squared=True) / length**2
        self._record_constant(depth, inputs, block)
        self.n_features_of[depth] += np.ravel((moves != 0).sum(axis=0)).astype(np.intp)
        self.mixes[depth] = np.any(self.n_features_of[depth] > 1)

    def _record_constant(self, depth: int, inputs: Rows, block: slice) -> None:
        is_constant = _constant_inputs(self.steps[depth][1])
        if is_constant is None or is_constant.shape != inputs.shape[1:]:
            return
        zero = self.zeros[depth - 1] if depth else np.zeros((1, 1))
        reached = inputs != (0 if issparse(inputs) or issparse(zero) else zero)
        n_reached = np.ravel(reached.sum(axis=1))
        n_constant = np.ravel(reached @ is_constant.astype(np.intp))
        self.constant[depth, block] = (n_reached > 0) & (n_constant == n_reached)

    def coordinates(self) -> Coordinates:
        """Return the coordinates before the first step that mixes features.

        A center or scale that the steps do not give is NaN. A feature whose row of M is
        m is centered at ``-(m t) / |m|^2``, in units of ``1 / |m|``. It lacks a scale
        where m is zero, and where a scaler found it constant and so divides by 1.
        """
        n_features = self.points.n_features
        depth = int(np.argmax(self.mixes)) if self.mixes.any() else len(self.mixes)
        if not depth:
            return Coordinates(center=np.zeros(n_features), scale=np.ones(n_features))
        squares = self.squares[depth - 1]
        squares = np.where(squares > 0, squares, np.nan)
        constant = self.constant[:depth].any(axis=0)
        scale = np.where(constant, np.nan, 1.0 / np.sqrt(squares))
        center = -self.products[depth - 1] / squares
        return Coordinates(center=center, scale=scale)


def _constant_inputs(step: BaseEstimator) -> np.ndarray | None:
    """Return which inputs a scaler found constant; None for steps of other kinds."""
    scale = getattr(step, "scale_", None)
    if scale is None:
        return None
    if getattr(step, "var_", None) is not None:
        return ~np.isclose(scale, np.sqrt(step.var_), rtol=1e-6, atol=0.0)
    size = getattr(step, "data_range_", getattr(step, "max_abs_", None))
    # As scikit-learn decides what is zero.
    return None if size is None else size < 10 * np.finfo(size.dtype).eps


def _container(
    steps: Steps, *, n_features: int, feature_names: np.ndarray | None
) -> Container:
    """Return how rows are handed to the first step: dense, sparse or as a DataFrame."""
    if feature_names is not None:
        try:
            from pandas import DataFrame
        except ImportError:
            return np.asarray
        return lambda rows: DataFrame(
            rows.toarray() if issparse(rows) else rows, columns=feature_names
        )
    containers: list[Container] = [np.asarray, csr_matrix]
    if n_features > WIDE:
        containers.reverse()
    for to_container in containers:
        try:
            _transformed(steps, to_container(np.zeros((1, n_features))))
        except Exception:
            continue
        return to_container
    return np.asarray  # the check of the steps will say which one raises


class _Points:
    """Rows to probe steps at: on many scales, and near numbers that the steps store."""

    def __init__(self, steps: Steps, n_features: int, *, sparse: bool) -> None:
        self.n_features = n_features
        self.sparse = sparse
        stored = [number for _, step in steps for number in _stored_numbers(step)]
        stored = np.unique(np.array(stored, dtype=np.float64))
        stored = stored[np.isfinite(stored) & (np.abs(stored) < LARGEST_STORED)]
        largest = np.abs(stored).max(initial=1.0)
        # A spike is longer than any number that a step stores, so that T(0), which is
        # made of these and is subtracted, takes few digits of it. A power of two, by
        # which numbers are multiplied and divided without rounding.
        self.length = float(2.0 ** max(20, np.ceil(np.log2(largest)) + 1))
        if stored.size > MAX_STORED_NUMBERS:
            stored = self._random_state.choice(
                stored, MAX_STORED_NUMBERS, replace=False
            )
        # Small whole numbers are codes of categories.
        self._levels = np.concatenate([stored, np.arange(-4.0, 13.0)])

    @cached_property
    def _random_state(self) -> np.random.RandomState:
        return check_random_state(0)

    def draw(self, n_rows: int) -> Rows:
        """Draw rows: half are normal on many scales, half are near stored numbers."""
        rng = self._random_state
        # At most 512 entries a row, so that rows of many columns stay sparse.
        width = min(self.n_features, 512) if self.sparse else self.n_features
        rows = rng.standard_normal((n_rows, width))
        half = n_rows // 2
        rows[:half] *= 10.0 ** rng.uniform(-3, 6, size=(half, 1))
        near = rng.choice(self._levels, size=(n_rows - half, width))
        near += rng.choice(self._levels, size=near.shape) * rng.choice(2, near.shape)
        rows[half:] = near
        if not self.sparse:
            return rows
        # Drawn twice, a column gets the sum.
        column_indices = rng.randint(self.n_features, size=rows.shape)
        row_indices = np.repeat(np.arange(n_rows), width)
        entries = (rows.ravel(), (row_indices, column_indices.ravel()))
        return csr_matrix(entries, (n_rows, self.n_features))

    def spikes(self, block: slice) -> Rows:
        """Return rows of the unit matrix times `length`."""
        n_rows = block.stop - block.start
        unit = eye_array(n_rows, self.n_features, k=block.start, format="csr")
        spikes = unit * self.length
        return csr_matrix(spikes) if self.sparse else spikes.toarray()


def _stored_numbers(value: object, depth: int = 5) -> Iterator[float]:
    """Return numbers that a fitted step stores, many of them thinned out.

    The depth bounds the work, as estimators may refer to each other.
    """
    if depth == 0 or isinstance(value, (str, bytes, bool)):
        return
    if isinstance(value, numbers.Real):
        yield float(value)
    elif isinstance(value, np.ndarray) and value.dtype.kind in "iuf":
        distinct = np.unique(value)
        chosen = np.linspace(0, distinct.size - 1, min(distinct.size, 64)).astype(int)
        yield from distinct[chosen].astype(np.float64)
    else:
        for part in _parts_of(value):
            yield from _stored_numbers(part, depth - 1)


def _parts_of(value: object) -> list:
    """List the parts of a container or an estimator; at most 1000 of a sequence."""
    if issparse(value):
        return [value.data]
    if isinstance(value, dict):
        return [list(value.values())]
    if isinstance(value, BaseEstimator):
        return [list(vars(value).values())]
    is_objects = isinstance(value, np.ndarray) and value.dtype == object
    if is_objects or isinstance(value, (list, tuple)):
        return list(value)[:1000]
    return []


def _check_steps(
    steps: Steps, *, points: _Points, to_container: Container, name: str
) -> None:
    """Raise unless ``T(a u + (1 - a) v) = a T(u) + (1 - a) T(v)`` after each step."""
    dtype = np.dtype(np.float64)
    rows = to_container(_rows_on_lines(points))
    for label, step in steps:
        try:
            rows = step.transform(rows)
            outputs = _matrix(rows)
        except NotFittedError:
            raise NotFittedError(
                f"Node {name!r}: step {label!r} ({type(step).__name__}) of the "
                "pipeline is not fitted. Fit the whole pipeline on the node's rows."
            ) from None
        except Exception as exc:
            raise _not_affine_error(
                f"it raises {type(exc).__name__} on real numbers",
                step=step,
                label=label,
                name=name,
            ) from exc
        if outputs.dtype == np.float32:
            dtype = outputs.dtype
        reason = _why_not_affine(outputs, TOLERANCES[dtype])
        if reason is not None:
            raise _not_affine_error(reason, step=step, label=label, name=name)


def _rows_on_lines(points: _Points) -> Rows:
    """Return rows u, rows v, and for each a of RATES the rows ``a u + (1 - a) v``."""
    u = points.draw(N_PAIRS)
    v = points.draw(N_PAIRS)
    # Some lines start at zero, some at a probe, the two kinds of point that the
    # fold rests on.
    quarter = N_PAIRS // 4
    probes = points.spikes(slice(0, min(quarter, points.n_features)))
    v = _stack([_stack([probes, 0 * v[:quarter]])[: 2 * quarter], v])[:N_PAIRS]
    return _stack([u, v, *(a * u + (1 - a) * v for a in RATES)])


def _not_affine_error(
    reason: str, *, step: BaseEstimator, label: str, name: str
) -> ValueError:
    kind = type(step).__name__
    return ValueError(
        f"Node {name!r}: step {label!r} ({kind}) of the pipeline is not affine "
        f"({reason}), so it cannot be folded into the first layer. Use only affine "
        "steps (StandardScaler, PCA, SelectKBest, ...) in the pipelines of nodes. Put "
        "this step, with the steps before it, in front of the aggregator, the same for "
        "all nodes: as front=, with unfitted local classifiers, or in "
        f"make_pipeline({kind}(...), aggregator), with local classifiers fitted on its "
        "output. combine(estimators, X, y, nodes=nodes) makes such a front by itself, "
        "and EnsembleAggregator lets fitted pipelines vote as they are."
    )


def _why_not_affine(outputs: Rows, tolerance: tuple[float, float]) -> str | None:
    """Return what is wrong with the outputs of a step at `_rows_on_lines`, or None."""
    n_rows = N_PAIRS * (2 + len(RATES))
    if outputs.ndim != 2 or outputs.shape[0] != n_rows:
        return f"it turns {n_rows} rows into an array of shape {outputs.shape}"
    stored = outputs.data if issparse(outputs) else outputs
    if not np.isfinite(stored).all():
        return "it gives values that are not finite"
    relative, absolute = tolerance
    floor = absolute * _column_max(abs(outputs))
    u = outputs[:N_PAIRS]
    v = outputs[N_PAIRS : 2 * N_PAIRS]
    for i, a in enumerate(RATES):
        start = (2 + i) * N_PAIRS
        between = outputs[start : start + N_PAIRS]
        error = abs(between - a * u - (1 - a) * v)
        scale = abs(between) + abs(a) * abs(u) + abs(1 - a) * abs(v)
        if np.any(_column_max(error - relative * scale) > floor):
            return (
                "its outputs between two rows are not between its outputs for these "
                "rows"
            )
    return None


def _column_max(matrix: Rows) -> np.ndarray:
    if not matrix.shape[1]:
        return np.zeros(0)
    largest = matrix.max(axis=0)
    return largest.toarray().ravel() if issparse(largest) else np.asarray(largest)


def _matrix(rows: object) -> Rows:
    """Outputs of a step as floats: an array, or a csr_matrix where they are sparse."""
    matrix = csr_matrix(rows) if issparse(rows) else np.asarray(rows)
    return matrix if matrix.dtype.kind == "f" else matrix.astype(np.float64)


def _stack(blocks: list[Rows]) -> Rows:
    return vstack(blocks, format="csr") if issparse(blocks[0]) else np.vstack(blocks)
