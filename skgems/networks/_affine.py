"""Fold the affine steps of a pipeline into the layer that follows them."""

import numbers
import warnings
from collections.abc import Iterator

import numpy as np
from scipy.sparse import csr_matrix, eye_array, issparse, vstack
from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state, gen_batches
from sklearn.utils.extmath import row_norms, safe_sparse_dot

from ._network import Coordinates

N_PAIRS = 40
# From this width on, rows are probed sparse where the steps take them so.
WIDE = 4096
# Relative and absolute (to the largest value of a column) tolerance.
TOLERANCES = {np.dtype(np.float64): (1e-6, 1e-13), np.dtype(np.float32): (1e-3, 1e-7)}


def fold_steps(steps, coef, intercept, *, name, n_features_in, feature_names_in=None):
    """One layer ``(T(I) - t) W``, ``t W + b`` of steps T, t = T(0); its Coordinates."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        wrap = _container(steps, n_features_in, feature_names_in)
        points = _Points(steps, n_features_in, sparse=wrap is csr_matrix)
        _check_steps(steps, points, wrap, name)
        return _fold(steps, points, wrap, coef, intercept, name)


def _fold(steps, points, wrap, coef, intercept, name):
    weights, n_features = coef.astype(np.float64), points.n_features
    leading = _Leading(steps, wrap, points)
    zero = leading.zeros[-1]
    offset = safe_sparse_dot(zero, weights, dense_output=True)
    # By blocks of rows of I, so that M is never held. Numbers held per row of a block:
    # the row, its values, the layer's outputs.
    held = (2 if points.sparse else n_features) + weights.shape[1]
    held += zero.nnz + 1 if issparse(zero) else zero.shape[1]
    block_rows = get_config()["working_memory"] * 2**20 / 16 // (8 * held)
    folded = np.empty((n_features, weights.shape[1]))
    for block in gen_batches(n_features, int(max(1, block_rows))):
        # Spikes are long because T(0) is subtracted: with a large offset, T(I) - T(0)
        # would lose the digits that the offset takes.
        spikes = points.spikes(block)
        out = wrap(spikes)
        for depth, (_, step) in enumerate(steps):
            inputs, out = out, step.transform(out)
            leading.see(depth, step, _matrix(inputs), _matrix(out), block)
        outputs = safe_sparse_dot(_matrix(out), weights, dense_output=True)
        folded[block] = (outputs - offset) / points.length
    bias = offset[0] + intercept

    rows = points.draw(N_PAIRS)
    outputs = _transformed(steps, wrap(rows))
    expected = safe_sparse_dot(outputs, weights, dense_output=True) + intercept
    error = np.abs(safe_sparse_dot(rows, folded, dense_output=True) + bias - expected)
    scale = safe_sparse_dot(abs(rows), np.abs(folded), dense_output=True) + np.abs(bias)
    if not np.all(error <= 1e-3 * scale):
        labels = ", ".join(repr(label) for label, _ in steps)
        raise ValueError(
            f"Node {name!r}: the steps {labels} of the pipeline are not affine "
            "together, so they cannot be folded into the first layer."
        )
    coordinates = leading.coordinates()
    # The centre is what all steps take to zero, where that is known.
    found = _taken_to_zero(steps, zero, wrap)
    if found is not None:
        found = np.where(np.isfinite(coordinates.center), found, np.nan)
        coordinates = Coordinates(found, coordinates.scale)
    return folded.astype(coef.dtype), bias.astype(coef.dtype), coordinates


def _transformed(steps, rows):
    for _, step in steps:
        rows = step.transform(rows)
    return _matrix(rows)


def _taken_to_zero(steps, zero, wrap):
    """The row that all steps take to zero, by their inverses; None if these fail."""
    if not (zero.nnz if issparse(zero) else zero.any()):
        return None
    row = np.zeros(zero.shape)
    try:
        for _, step in reversed(steps):
            row = step.inverse_transform(row)
        row = np.asarray(_matrix(row)).reshape(1, -1)
        left = abs(_transformed(steps, wrap(row))).max()
    except Exception:  # a step without an inverse, or one of other shapes
        return None
    # Within a thousandth of where the origin is taken.
    return row[0] if left <= 1e-3 * abs(zero).max() else None


class _Leading:
    """Centre and scale of each feature after the steps that mix it with no other."""

    def __init__(self, steps, wrap, points):
        self.length, n_features = points.length, points.n_features
        self.zeros, out = [], wrap(np.zeros((1, n_features)))
        for _, step in steps:
            out = step.transform(out)
            self.zeros.append(_matrix(out))
        shape = len(steps), n_features
        self.squares, self.products = np.zeros(shape), np.zeros(shape)
        self.users = [np.zeros(zero.shape[1], dtype=np.intp) for zero in self.zeros]
        self.mixes = np.zeros(len(steps), dtype=bool)
        self.constant = np.zeros(shape, dtype=bool)

    def see(self, depth, step, inputs, values, block):
        """Take in what a step makes of what those before it made of spikes."""
        if self.mixes[: depth + 1].any():
            return
        zero = self.zeros[depth]
        base = zero.toarray() if issparse(zero) else zero
        if issparse(values):
            if base.any():
                self.mixes[depth] = True  # as good as: no sparse step centres
                return
            moved = values
        else:
            moved = values - base
            self.products[depth, block] = moved @ base[0] / self.length
        self.squares[depth, block] = row_norms(moved, squared=True) / self.length**2
        constant = _found_constant(step)
        if constant is not None and constant.shape == inputs.shape[1:]:
            before = self.zeros[depth - 1] if depth else np.zeros((1, 1))
            reached = inputs != (0 if issparse(inputs) or issparse(before) else before)
            n_reached = np.ravel(reached.sum(axis=1))
            n_constant = np.ravel(reached @ constant.astype(np.intp))
            self.constant[depth, block] = (n_reached > 0) & (n_constant == n_reached)
        self.users[depth] += np.ravel((moved != 0).sum(axis=0)).astype(np.intp)
        self.mixes[depth] = np.any(self.users[depth] > 1)

    def coordinates(self) -> Coordinates:
        """Of the steps before the first that mixes; NaN of what they leave out."""
        depth = int(np.argmax(self.mixes)) if self.mixes.any() else len(self.mixes)
        n_features = self.squares.shape[1]
        if not depth:
            return Coordinates(np.zeros(n_features), np.ones(n_features))
        squares, products = self.squares[depth - 1], self.products[depth - 1]
        squares = np.where(squares > 0, squares, np.nan)
        constant = self.constant[:depth].any(axis=0)
        scale = np.where(constant, np.nan, 1.0 / np.sqrt(squares))
        return Coordinates(-products / squares, scale)


def _found_constant(step):
    """Which inputs a scaler found constant, and divides by 1; None for other steps."""
    scale = getattr(step, "scale_", None)
    if scale is None:
        return None
    if getattr(step, "var_", None) is not None:
        return ~np.isclose(scale, np.sqrt(step.var_), rtol=1e-6, atol=0.0)
    size = getattr(step, "data_range_", getattr(step, "max_abs_", None))
    # As scikit-learn decides what is zero.
    return None if size is None else size < 10 * np.finfo(size.dtype).eps


def _container(steps, n_features, feature_names):
    """How rows are handed to the first step: dense, sparse or as a DataFrame."""
    if feature_names is not None:
        try:
            from pandas import DataFrame
        except ImportError:
            return np.asarray
        return lambda rows: DataFrame(
            rows.toarray() if issparse(rows) else rows, columns=feature_names
        )
    kinds = [np.asarray, csr_matrix]
    if n_features > WIDE:
        kinds.reverse()
    for wrap in kinds:
        try:
            _transformed(steps, wrap(np.zeros((1, n_features))))
        except Exception:
            continue
        return wrap
    return np.asarray  # the check of the steps will say which one raises


class _Points:
    """Rows to probe steps at: on many scales, and about numbers that the steps keep."""

    def __init__(self, steps, n_features, *, sparse):
        self.n_features, self.sparse = n_features, sparse
        self._random_state = check_random_state(0)
        kept = [value for _, step in steps for value in _numbers(step)]
        kept = np.unique(np.array(kept, dtype=np.float64))
        kept = kept[np.isfinite(kept) & (np.abs(kept) < 1e30)]
        largest = np.abs(kept).max(initial=1.0)
        self.length = float(2.0 ** max(20, np.ceil(np.log2(largest)) + 1))
        if kept.size > 512:
            kept = self._random_state.choice(kept, 512, replace=False)
        self._kept = np.concatenate([kept, np.arange(-4.0, 13.0)])

    def draw(self, n_rows):
        rng = self._random_state
        width = min(self.n_features, 512) if self.sparse else self.n_features
        values = rng.standard_normal((n_rows, width))
        half = n_rows // 2
        values[:half] *= 10.0 ** rng.uniform(-3, 6, size=(half, 1))
        near = rng.choice(self._kept, size=(n_rows - half, width))
        near += rng.choice(self._kept, size=near.shape) * rng.choice(2, near.shape)
        values[half:] = near
        if not self.sparse:
            return values
        # Drawn twice, a column gets the sum.
        columns = rng.randint(self.n_features, size=values.shape)
        rows = np.repeat(np.arange(n_rows), width)
        entries = values.ravel(), (rows, columns.ravel())
        return csr_matrix(entries, (n_rows, self.n_features))

    def spikes(self, block):
        shape = block.stop - block.start, self.n_features
        spikes = eye_array(*shape, k=block.start, format="csr") * self.length
        return csr_matrix(spikes) if self.sparse else spikes.toarray()


def _numbers(value, depth=5) -> Iterator[float]:
    """Numbers that a fitted step keeps, many of them thinned out."""
    if depth == 0 or isinstance(value, (str, bytes, bool)):
        return
    if isinstance(value, numbers.Real):
        yield float(value)
    elif issparse(value):
        yield from _numbers(value.data, depth - 1)
    elif isinstance(value, np.ndarray) and value.dtype.kind in "iuf":
        flat = np.unique(value)
        chosen = np.linspace(0, flat.size - 1, min(flat.size, 64)).astype(int)
        yield from flat[chosen].astype(np.float64)
    elif isinstance(value, (list, tuple)) or (
        isinstance(value, np.ndarray) and value.dtype == object
    ):
        for item in list(value)[:1000]:
            yield from _numbers(item, depth - 1)
    elif isinstance(value, dict):
        yield from _numbers(list(value.values()), depth - 1)
    elif isinstance(value, BaseEstimator):
        yield from _numbers(vars(value), depth)


def _check_steps(steps, points, wrap, name):
    """Raise unless ``T(a u + (1 - a) v) = a T(u) + (1 - a) T(v)`` after each step."""
    u, v = points.draw(N_PAIRS), points.draw(N_PAIRS)
    # Some lines start at zero, some at a probe, the two kinds of point that the
    # fold rests on.
    quarter = N_PAIRS // 4
    probes = points.spikes(slice(0, min(quarter, points.n_features)))
    v = _stack([_stack([probes, 0 * v[:quarter]])[: 2 * quarter], v])[:N_PAIRS]
    # Powers of two, so that the points on the lines are not rounded.
    rates = (0.5, 2.0)
    rows = _stack([u, v, *(a * u + (1 - a) * v for a in rates)])

    dtype, out = np.dtype(np.float64), wrap(rows)
    for label, step in steps:
        cause, kind = None, type(step).__name__
        where = f"Node {name!r}: step {label!r} ({kind})"
        try:
            out = step.transform(out)
            values = _matrix(out)
        except NotFittedError:
            raise NotFittedError(f"{where} of the pipeline is not fitted.") from None
        except Exception as exc:
            cause, problem = exc, f"it raises {type(exc).__name__} on real numbers"
        else:
            if values.dtype == np.float32:
                dtype = values.dtype
            problem = _bend(values, rates, TOLERANCES[dtype])
        if problem:
            raise ValueError(
                f"{where} of the pipeline is not affine ({problem}), so it cannot be "
                "folded into the first layer. Keep to affine steps (StandardScaler, "
                "PCA, SelectKBest, ...) in the pipelines of nodes, and put this one, "
                "with what is before it, in front of the aggregator, the same for all: "
                "as front=, with members that are not fitted, or in "
                f"make_pipeline({kind}(...), aggregator), with local classifiers "
                "fitted on what it gives. combine(estimators, X, y, nodes=nodes) makes "
                "a front by itself, and EnsembleAggregator lets fitted pipelines vote "
                "as they are."
            ) from cause


def _bend(values, rates, tolerance):
    """What is wrong with the values of a step at the check points, or None."""
    n_rows = N_PAIRS * (2 + len(rates))
    if values.ndim != 2 or values.shape[0] != n_rows:
        return f"it turns {n_rows} rows into an array of shape {values.shape}"
    stored = values.data if issparse(values) else values
    if not np.isfinite(stored).all():
        return "it gives values that are not finite"
    relative, absolute = tolerance
    floor = absolute * _column_max(abs(values))
    u, v = values[:N_PAIRS], values[N_PAIRS : 2 * N_PAIRS]
    for i, a in enumerate(rates):
        start = (2 + i) * N_PAIRS
        between = values[start : start + N_PAIRS]
        error = abs(between - a * u - (1 - a) * v)
        scale = abs(between) + abs(a) * abs(u) + abs(1 - a) * abs(v)
        if np.any(_column_max(error - relative * scale) > floor):
            return "its values between two rows are not between its values at them"
    return None


def _column_max(values):
    if not values.shape[1]:
        return np.zeros(0)
    largest = values.max(axis=0)
    return largest.toarray().ravel() if issparse(largest) else np.asarray(largest)


def _matrix(values):
    values = csr_matrix(values) if issparse(values) else np.asarray(values)
    return values if values.dtype.kind == "f" else values.astype(np.float64)


def _stack(blocks):
    return vstack(blocks, format="csr") if issparse(blocks[0]) else np.vstack(blocks)
