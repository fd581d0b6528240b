"""The kinds of transformers that a front may have, each a `Kind`, and their table."""

import numbers
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.linalg import eigh
from scipy.special import ndtri
from sklearn import preprocessing as prep
from sklearn.base import BaseEstimator, clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import (
    PolynomialCountSketch,
    RBFSampler,
    SkewedChi2Sampler,
)

from ..compat import safe_indexing
from ._backbone import Backbone
from ._columns import Columns
from ._contradictions import (
    NodeRows,
    axes_differ,
    columns_differ,
    extremes_differ,
    powers_differ,
    quantiles_differ,
)
from ._features import RandomFeatures
from ._kind import Kind, NotPooledError, StateField, check_fields
from ._powers import LikeliestPowers
from ._statistics import N_BINS, categories_told, identifiers_told

_EPS = np.finfo(np.float64).eps
# A gap between variances, relative to the largest, below which axes are anybody's.
_GAP = 1e-9


# What nodes tell of columns, as it is summed.
_SUMS_OF_COLUMNS = {
    "n_rows": StateField(says="The number of rows.", shape=()),
    "counts": StateField(says="The number of known values of each column."),
    "means": StateField(says="The mean of each column."),
    "squares": StateField(says="The sum of squares about the mean of each column."),
}
# Quantiles that are read off counts on a grid.
_QUANTILES = {
    "rows": StateField(
        says="Quantiles of each column, the smallest first.", shape=("rank", "column")
    ),
    "width": StateField(says="The width of a bin of each column."),
}
_EXTREMES = {
    "low": StateField(says="The smallest value of each column."),
    "high": StateField(says="The largest value of each column."),
}


class _Seeded(Kind):
    """A step that draws from its seed, which is all that it is fitted to."""

    def check(self, step: BaseEstimator) -> None:
        if not isinstance(step.random_state, numbers.Integral):
            raise NotPooledError(
                f"{type(step).__name__} draws from random_state={step.random_state!r}: "
                "give it a number, so that all nodes draw the same."
            )

    def n_columns_out(self, step: BaseEstimator, n_columns: int, state: Mapping) -> int:
        return step.n_components

    def n_weights(self, step: BaseEstimator, n_columns: int) -> int:
        return n_columns * step.n_components


class _RandomFeatures(_Seeded):
    def n_columns_out(self, step: BaseEstimator, n_columns: int, state: Mapping) -> int:
        return step.n_components + n_columns * step.passthrough


class _PolynomialCountSketch(_Seeded):
    def n_working_numbers(self, step: BaseEstimator, n_columns: int) -> int:
        # A sketch for each factor of the products, and its Fourier transform, whose
        # numbers are complex.
        return 3 * step.degree * step.n_components


class _RBF(_Seeded):
    fields = _SUMS_OF_COLUMNS

    def statistic_for(self, step: BaseEstimator) -> str | None:
        return "columns" if step.gamma == "scale" else None

    def fit(self, step: BaseEstimator, example: Any, state: Mapping) -> BaseEstimator:
        if not state:
            return super().fit(step, example, state)
        counts, means = state["counts"], state["means"]
        mean = counts @ means / counts.sum()
        squares = state["squares"].sum() + counts @ (means - mean) ** 2
        size = np.sqrt(squares / counts.sum())
        # The same variance of all numbers, which is all that it looks at.
        rows = np.full((2, len(means)), size) * [[1.0], [-1.0]]
        return clone(step).fit(_alike(example, rows))

    def contradiction(
        self, fitted: BaseEstimator, state: Mapping, rows: NodeRows
    ) -> str:
        return columns_differ(state, rows)


class _StandardScaler(Kind):
    by_column = True
    fields = _SUMS_OF_COLUMNS

    def statistic_for(self, step: BaseEstimator) -> str | None:
        return "columns" if step.with_mean or step.with_std else None

    def fit(self, step: BaseEstimator, example: Any, state: Mapping) -> BaseEstimator:
        fitted = super().fit(step, example, state)
        if not state:
            return fitted
        counts, n = state["counts"], np.maximum(state["counts"], 1.0)
        n_seen = counts.astype(np.int64)
        fitted.n_samples_seen_ = n_seen[0] if np.ptp(counts) == 0 else n_seen
        fitted.mean_ = np.where(counts > 0, state["means"], np.nan)
        if step.with_std:
            variances = np.where(counts > 0, state["squares"] / n, np.nan)
            # 1 for what is constant but for rounding, as scikit-learn has it.
            rounding = n * _EPS * variances + (n * fitted.mean_ * _EPS) ** 2
            fitted.scale_ = np.where(variances <= rounding, 1.0, np.sqrt(variances))
            fitted.var_ = variances
        return fitted

    def contradiction(
        self, fitted: BaseEstimator, state: Mapping, rows: NodeRows
    ) -> str:
        return columns_differ(state, rows)


class _OfGrid(Kind):
    """A step of quantiles, which counts on a grid give to within one bin."""

    by_column = True
    statistic = "histogram"
    fields = _QUANTILES

    def contradiction(
        self, fitted: BaseEstimator, state: Mapping, rows: NodeRows
    ) -> str:
        return quantiles_differ(state["rows"], rows)


class _SimpleImputer(Kind):
    by_column = True
    fields = {
        "values": StateField(
            says="The value that each column is filled with, None without any.",
            form="list",
        ),
        "missing": StateField(
            says="Whether values of each column are missing.", form="list"
        ),
    }

    def check(self, step: BaseEstimator) -> None:
        if step.strategy not in ("mean", "median", "most_frequent", "constant"):
            raise NotPooledError(
                f"SimpleImputer(strategy={step.strategy!r}) is no function of sums; "
                "mean, constant and most_frequent are, and median of a grid."
            )

    def statistic_for(self, step: BaseEstimator) -> str | None:
        if step.strategy == "constant":
            return "columns" if step.add_indicator else None
        statistics = {"mean": "columns", "most_frequent": "categories"}
        return statistics.get(step.strategy, "histogram")

    def fields_for(self, step: BaseEstimator) -> Mapping[str, StateField]:
        if step.strategy != "median":
            return super().fields_for(step)
        return {**self.fields, "width": _QUANTILES["width"]}

    def takes_texts(self, step: BaseEstimator) -> bool:
        return step.strategy in ("most_frequent", "constant")

    def n_columns_out(self, step: BaseEstimator, n_columns: int, state: Mapping) -> int:
        return n_columns * (2 if step.add_indicator else 1)

    def state(self, step: BaseEstimator, pooled: Mapping) -> dict:
        if step.strategy == "most_frequent":
            columns = categories_told(pooled)
            # The smallest of those that are equally frequent.
            values = [
                c["labels"][np.argmax(c["counts"])] if c["labels"] else None
                for c in columns
            ]
            missing = [c["none"] + c["nan"] > 0 for c in columns]
            return {"values": values, "missing": missing}
        grid = {}
        if step.strategy == "median":
            counts, grid = pooled["cumulative"][:, -1], _on_grid(pooled, [0.5])
            values = grid.pop("rows")[0]
        else:
            counts, values = pooled["counts"], pooled["means"]
        missing = counts < pooled["n_rows"]
        return {
            "values": np.where(counts > 0, values, None).tolist(),
            "missing": missing.tolist(),
            **grid,
        }

    def fit(self, step: BaseEstimator, example: Any, state: Mapping) -> BaseEstimator:
        if not state:
            return super().fit(step, example, state)
        blank = step.missing_values
        # One row whose statistics are those of all, one that has what was missing.
        values = [blank if value is None else value for value in state["values"]]
        if step.strategy == "constant":
            values = np.asarray(example)[0].tolist()
        pairs = zip(values, state["missing"], strict=True)
        lacks = [blank if lack else value for value, lack in pairs]
        return clone(step).fit(_alike(example, [values, lacks]))

    def contradiction(
        self, fitted: BaseEstimator, state: Mapping, rows: NodeRows
    ) -> str:
        if "width" not in state:  # means, or what is most frequent
            return ""
        return quantiles_differ([state["values"]], rows)


class _Encoder(Kind):
    """OneHotEncoder and OrdinalEncoder, whose states have these fields by column.

    The state itself has a table for each column, by its place as a text.
    """

    fields = {
        "labels": StateField(says="The categories.", shape=("category",), form="list"),
        "none": StateField(says="Whether None is a category.", form="truth value"),
        "nan": StateField(says="Whether NaN is a category.", form="truth value"),
    }
    # Where a step groups what is rare.
    _rare_field = StateField(
        says="Places of the categories that are rare.", shape=("rare",), form="list"
    )

    def fields_for(self, step: BaseEstimator) -> Mapping[str, StateField]:
        if self.statistic_for(step) is None or not _groups_rare(step):
            return super().fields_for(step)
        return {**self.fields, "rare": self._rare_field}

    def check_state(self, step: BaseEstimator, state: Mapping) -> None:
        fields = self.fields_for(step)
        if not fields:
            check_fields(type(step).__name__, fields, state)
            return
        places = {str(j) for j in range(len(state))}
        for place, column in state.items():
            if place not in places or not isinstance(column, Mapping):
                raise ValueError(
                    f"the state of {type(step).__name__} has the field {place!r:.40}; "
                    "its fields are tables of all columns, '0', '1' and so on"
                )
            check_fields(f"{type(step).__name__} for column {place}", fields, column)

    def check(self, step: BaseEstimator) -> None:
        if _groups_rare(step) and not isinstance(step.categories, str):
            raise NotPooledError(
                f"{type(step).__name__} cannot have both categories=[...] and "
                "min_frequency or max_categories: leave out one of them."
            )

    def statistic_for(self, step: BaseEstimator) -> str | None:
        return "categories" if isinstance(step.categories, str) else None

    def identifiers(self, replies: Iterable[Mapping], labels: list) -> list:
        return identifiers_told(replies, labels)

    def n_columns_out(self, step: BaseEstimator, n_columns: int, state: Mapping) -> int:
        if isinstance(step, prep.OrdinalEncoder):
            return n_columns
        if not state:
            return sum(map(len, step.categories))
        return sum(
            len(column["labels"]) + bool(column["none"]) + bool(column["nan"])
            for column in state.values()
        )

    def is_sparse(self, step: BaseEstimator) -> bool:
        return getattr(step, "sparse_output", False)

    def takes_texts(self, step: BaseEstimator) -> bool:
        return True

    def check_pooled(
        self, step: BaseEstimator, pooled: Mapping, columns: Sequence
    ) -> None:
        counts = {
            column: int(c["withheld"])
            for column, c in zip(columns, categories_told(pooled), strict=True)
            if c["withheld"]
        }
        if counts and step.handle_unknown == "error":
            raise ValueError(
                f"the columns {list(counts)[:5]} have {sum(counts.values())} values of "
                "categories of which their node has fewer than min_rows rows. Nodes "
                f"do not tell these, and {type(step).__name__} would raise for them: "
                "set handle_unknown, in a OneHotEncoder to 'ignore', or agree on "
                "categories=[...]."
            )

    def empty_columns(self, step: BaseEstimator, state: Mapping) -> list[int]:
        return [
            int(j)
            for j, c in state.items()
            if not (c["labels"] or c["none"] or c["nan"])
        ]

    def state(self, step: BaseEstimator, pooled: Mapping) -> dict:
        state, columns = {}, categories_told(pooled)
        for j, c in enumerate(columns):
            missing = {name: bool(c[name]) for name in ("none", "nan")}
            kept = state[str(j)] = {"labels": c["labels"], **missing}
            if _groups_rare(step):
                kept["rare"] = _rare(step, c, pooled["n_rows"])
        return state

    def fit(self, step: BaseEstimator, example: Any, state: Mapping) -> BaseEstimator:
        empty = self.empty_columns(step, state)
        if empty:
            return self._fit_to_others(step, example, state, empty)
        columns, fitted = [state[str(j)] for j in range(len(state))], clone(step)
        listed = [list(labels) for labels in (() if state else step.categories)]
        for c in columns:
            listed.append([*c["labels"], *[None] * c["none"], *[np.nan] * c["nan"]])
        if state and _groups_rare(step):  # one row of what is rare, and two of all else
            fitted.set_params(min_frequency=2, max_categories=None)
            for labels, c in zip(listed, columns, strict=True):
                few = set(c.get("rare", ()))
                labels += [label for k, label in enumerate(labels) if k not in few]
        n = max(map(len, listed))
        rows = [labels + labels[-1:] * (n - len(labels)) for labels in listed]
        rows = list(zip(*rows, strict=True))
        fitted.fit(_alike(example, rows, natural=True))
        return fitted.set_params(**step.get_params())

    def _fit_to_others(
        self, step: BaseEstimator, example: Any, state: Mapping, empty: list[int]
    ) -> BaseEstimator:
        """The encoder of the columns that have a category, as a ColumnTransformer."""
        kept = [j for j in range(len(state)) if j not in empty]
        encoder = step
        if kept:
            part = safe_indexing(example, kept, axis=1)
            encoder = self.fit(
                step, part, {str(k): state[str(j)] for k, j in enumerate(kept)}
            )
            example = example.copy()
            first = [[labels[0] for labels in encoder.categories_]]
            if hasattr(example, "columns"):
                example = example.astype(object)
                example.iloc[:1, kept] = first
            else:
                example[:1, kept] = first
        # Places, since nodes hand over arrays where no column holds texts.
        others = ColumnTransformer(
            [("categories", FrozenEstimator(encoder), kept)],
            verbose_feature_names_out=False,
        ).fit(example)
        if kept:
            others.transformers_ = [
                (name, encoder if name == "categories" else branch, columns)
                for name, branch, columns in others.transformers_
            ]
        return others.set_params(transformers=[("categories", clone(step), kept)])


class _PCA(Kind):
    statistic = "scatter"
    fields = {
        "n_rows": StateField(says="The number of rows.", shape=()),
        "mean": StateField(says="The mean of each column."),
        "values": StateField(says="The variances along all axes, the largest first."),
        "axes": StateField(
            says="Those axes that are kept, of length 1.", shape=("axis", "column")
        ),
    }

    def check(self, step: BaseEstimator) -> None:
        if step.svd_solver not in ("auto", "full", "covariance_eigh"):
            raise NotPooledError(
                f"PCA(svd_solver={step.svd_solver!r}) is no function of sums: set "
                "svd_solver='covariance_eigh'."
            )
        if step.n_components == "mle":
            raise NotPooledError("PCA cannot choose by 'mle': give n_components.")

    def n_columns_out(self, step: BaseEstimator, n_columns: int, state: Mapping) -> int:
        return len(state["axes"])

    def state(self, step: BaseEstimator, pooled: Mapping) -> dict:
        n, mean, d = pooled["n_rows"], pooled["mean"], len(pooled["mean"])
        scatter = np.zeros((d, d))
        scatter[np.triu_indices(d)] = pooled["triangle"]
        values, vectors = eigh(scatter / max(n - 1.0, 1.0), lower=False)
        values, axes = np.maximum(values[::-1], 0.0), vectors[:, ::-1].T
        kept = min(n, d) if step.n_components is None else step.n_components
        if isinstance(step.n_components, float):
            share = np.cumsum(values) / values.sum()
            kept = np.searchsorted(share, step.n_components, side="right") + 1
        kept, most = int(kept), min(n, d)
        if kept > most:
            raise ValueError(
                f"PCA(n_components={kept}) of {n:.0f} rows of {d} columns has at most "
                f"{most:.0f}."
            )
        # The largest number of each axis is positive.
        largest = axes[np.arange(d), np.argmax(np.abs(axes), axis=1)]
        axes = axes * np.where(largest < 0, -1.0, 1.0)[:, None]
        return {"n_rows": n, "mean": mean, "values": values, "axes": axes[:kept]}

    def fit(self, step: BaseEstimator, example: Any, state: Mapping) -> BaseEstimator:
        fitted = clone(step).set_params(n_components=None, svd_solver="full")
        fitted.fit(_alike(example, np.eye(2, len(state["mean"]))))
        fitted.set_params(**step.get_params())
        values, n, kept = state["values"], state["n_rows"], len(state["axes"])
        fitted.n_samples_, fitted.n_components_ = int(n), kept
        # Of few digits where rows are.
        dtype = fitted.components_.dtype
        fitted.mean_ = state["mean"].astype(dtype)
        fitted.components_ = state["axes"].astype(dtype)
        fitted.explained_variance_ = values[:kept]
        fitted.explained_variance_ratio_ = values[:kept] / max(values.sum(), _EPS)
        fitted.singular_values_ = np.sqrt(values[:kept] * (n - 1.0))
        rest = values[kept : int(min(n, len(values)))]
        fitted.noise_variance_ = float(rest.mean()) if len(rest) else 0.0
        fitted._fit_svd_solver = "covariance_eigh"
        return fitted

    def error(self, step: BaseEstimator, state: Mapping) -> float:
        values, kept = state["values"], len(state["axes"])
        if kept == len(values):
            return 0.0
        gap = values[kept - 1] - values[kept]
        return np.inf if gap <= _GAP * values[0] else 0.0

    def contradiction(
        self, fitted: BaseEstimator, state: Mapping, rows: NodeRows
    ) -> str:
        return axes_differ(state, rows)


class _Scaler(Kind):
    """A step of the smallest and the largest value of each column."""

    by_column = True
    statistic = "extremes"
    fields = _EXTREMES

    def fit(self, step: BaseEstimator, example: Any, state: Mapping) -> BaseEstimator:
        return clone(step).fit(_alike(example, [state["low"], state["high"]]))

    def contradiction(
        self, fitted: BaseEstimator, state: Mapping, rows: NodeRows
    ) -> str:
        return extremes_differ(state, rows)


class _Edges(_Scaler):
    """KBinsDiscretizer and SplineTransformer, of bounds or of a grid."""

    by_column = False

    def __init__(self, word: str) -> None:
        # The parameter that says which of both: "strategy" or "knots".
        self.word = word

    def fields_for(self, step: BaseEstimator) -> Mapping[str, StateField]:
        return _EXTREMES if self.statistic_for(step) == "extremes" else _QUANTILES

    def fit(self, step: BaseEstimator, example: Any, state: Mapping) -> BaseEstimator:
        if self.statistic_for(step) == "extremes":
            return super().fit(step, example, state)
        return clone(step).fit(_alike(example, state["rows"]))

    def contradiction(
        self, fitted: BaseEstimator, state: Mapping, rows: NodeRows
    ) -> str:
        if self.statistic_for(fitted) == "extremes":
            return super().contradiction(fitted, state, rows)
        return quantiles_differ(state["rows"], rows)

    def check(self, step: BaseEstimator) -> None:
        value = getattr(step, self.word)
        if value not in ("uniform", "quantile"):
            raise NotPooledError(
                f"{type(step).__name__}({self.word}={value!r}) is no function of "
                "bounds or counts: 'uniform' and 'quantile' are."
            )

    def statistic_for(self, step: BaseEstimator) -> str | None:
        return "extremes" if getattr(step, self.word) == "uniform" else "histogram"

    def n_columns_out(self, step: BaseEstimator, n_columns: int, state: Mapping) -> int:
        if self.word == "knots":
            return n_columns * _n_splines(step)
        if step.encode == "ordinal":
            return n_columns
        return int(np.sum(np.broadcast_to(step.n_bins, n_columns)))

    def n_numbers(self, step: BaseEstimator, n_columns: int) -> int:
        # A unit matrix of the splines of a column.
        return _n_splines(step) ** 2 if self.word == "knots" else 0

    def n_working_numbers(self, step: BaseEstimator, n_columns: int) -> int:
        return _n_splines(step) if self.word == "knots" else n_columns

    def is_sparse(self, step: BaseEstimator) -> bool:
        return self.word == "strategy" and step.encode == "onehot"

    def state(self, step: BaseEstimator, pooled: Mapping) -> dict:
        if self.statistic_for(step) == "extremes":
            return dict(pooled)
        n = step.n_knots if self.word == "knots" else np.max(step.n_bins) + 1
        return _on_grid(pooled, np.linspace(0.0, 1.0, int(n)))


class _Quantiles(_OfGrid):
    def state(self, step: BaseEstimator, pooled: Mapping) -> dict:
        counts = pooled["cumulative"][:, -1]
        n = int(min(step.n_quantiles, max(counts.max(), 1)))
        return _on_grid(pooled, np.linspace(0, 1, n))

    def fit(self, step: BaseEstimator, example: Any, state: Mapping) -> BaseEstimator:
        rows = state["rows"]
        fitted = clone(step).set_params(n_quantiles=len(rows), subsample=None)
        fitted.fit(_alike(example, rows))
        return fitted.set_params(**step.get_params())


class _RobustScaler(_OfGrid):
    def state(self, step: BaseEstimator, pooled: Mapping) -> dict:
        low, high = step.quantile_range
        return _on_grid(pooled, [low / 100, 0.5, high / 100])

    def fit(self, step: BaseEstimator, example: Any, state: Mapping) -> BaseEstimator:
        fitted = super().fit(step, example, state)
        low, middle, high = state["rows"]
        if step.with_centering:
            fitted.center_ = middle
        if step.with_scaling:
            # What the range of a step of one, of a unit normal, is to be divided by.
            at = np.array(step.quantile_range) / 100
            unit = np.subtract(*ndtri(at)[::-1]) if step.unit_variance else 1.0
            size = (high - low) / unit
            fitted.scale_ = np.where(size < 10 * _EPS, 1.0, size)
        return fitted


class _PowerTransformer(Kind):
    by_column = True
    fields = {
        "powers": StateField(says="The likeliest power of each column."),
        **{name: _SUMS_OF_COLUMNS[name] for name in ("counts", "means", "squares")},
        "width": StateField(says="How far the power of each column may be off."),
    }

    def statistic_for(self, step: BaseEstimator) -> str | None:
        return "powers" if step.method == "yeo-johnson" else "box_powers"

    def state(self, step: BaseEstimator, pooled: Mapping) -> dict:
        likeliest = LikeliestPowers.of_sums(
            counts=pooled["counts"],
            means=pooled["means"],
            squares=pooled["squares"],
            slopes=pooled["slopes"],
            box=step.method == "box-cox",
            precision=pooled["precision"],
        )
        return {
            "powers": likeliest.powers,
            "counts": pooled["counts"],
            "means": likeliest.means,
            "squares": likeliest.squares,
            "width": likeliest.errors,
        }

    def fit(self, step: BaseEstimator, example: Any, state: Mapping) -> BaseEstimator:
        d = len(state["powers"])
        rows = np.linspace(1.0, 2.0, 5)[:, None] * np.ones(d)
        fitted = clone(step).fit(_alike(example, rows))
        fitted.lambdas_ = state["powers"]
        if step.standardize:
            scaler = _StandardScaler().fit(prep.StandardScaler(), rows, state)
            fitted._scaler = scaler.set_params(copy=False)
        return fitted

    def contradiction(
        self, fitted: BaseEstimator, state: Mapping, rows: NodeRows
    ) -> str:
        return powers_differ(fitted, state, rows)


def _on_grid(pooled: Mapping, at: Sequence[float] | np.ndarray) -> dict:
    """Quantiles of columns, "rows" of counts on a grid; "width" of its bins."""
    at, quantiles = np.asarray(at), []
    columns = (pooled[name] for name in ("cumulative", "low", "high"))
    for cumulative, low, high in zip(*columns, strict=True):
        edges = np.linspace(low, high, N_BINS + 1)
        n = max(cumulative[-1], 1.0)
        # The bin that so many rows end in, and how much of it.
        rank = np.clip(at * n, 0.5, n)
        bins = np.clip(np.searchsorted(cumulative, rank), 1, N_BINS)
        below, upto = cumulative[bins - 1], cumulative[bins]
        part = np.clip((rank - below) / np.maximum(upto - below, 1.0), 0.0, 1.0)
        quantiles.append(edges[bins - 1] + part * (edges[bins] - edges[bins - 1]))
    width = (np.asarray(pooled["high"]) - pooled["low"]) / N_BINS
    return {"rows": np.stack(quantiles, axis=1), "width": width}


def _n_splines(step: prep.SplineTransformer) -> int:
    """Splines of a column, of one or two fewer where ends are joined or left out."""
    return step.n_knots + step.degree


def _groups_rare(step: BaseEstimator) -> bool:
    return step.min_frequency is not None or step.max_categories is not None


def _rare(step: BaseEstimator, told: Mapping, n_rows: float) -> list[int]:
    counts = list(told["counts"])
    if isinstance(step, prep.OneHotEncoder):  # to which what is missing is a category
        counts += [told[name] for name in ("none", "nan") if told[name]]
    least, most = step.min_frequency or 0, step.max_categories
    rare = np.array(counts) < (least * n_rows if isinstance(least, float) else least)
    if most is not None and most <= np.sum(~rare):
        rare[np.argsort(counts, kind="stable")[: len(counts) - most + 1]] = True
    if len(rare) and rare.all():
        raise ValueError(
            "all categories of a column are infrequent: set a lower min_frequency, or "
            "more max_categories."
        )
    return np.flatnonzero(rare).tolist()


def _alike(example: Any, rows: Iterable, *, natural: bool = False) -> Any:
    """Rows as a table of the form of an example; ``natural``: whole numbers, too."""
    rows = np.array(list(map(list, rows)), dtype=object)
    if hasattr(example, "columns"):
        text, columns = Columns.of(example).text, {}
        for name, is_text, values in zip(example.columns, text, rows.T, strict=True):
            dtype = object if is_text else None if natural else example[name].dtype
            columns[name] = type(example[name])(values.tolist(), dtype=dtype)
        return type(example)(columns)
    if example.dtype == object:
        return rows
    return np.array(rows.tolist()) if natural else rows.astype(example.dtype)


KINDS: Mapping[type, Kind] = {
    prep.StandardScaler: _StandardScaler(),
    prep.MinMaxScaler: _Scaler(),
    prep.MaxAbsScaler: _Scaler(),
    prep.RobustScaler: _RobustScaler(),
    prep.QuantileTransformer: _Quantiles(),
    prep.PowerTransformer: _PowerTransformer(),
    prep.KBinsDiscretizer: _Edges("strategy"),
    prep.SplineTransformer: _Edges("knots"),
    prep.OneHotEncoder: _Encoder(),
    prep.OrdinalEncoder: _Encoder(),
    prep.Normalizer: Kind(),
    SimpleImputer: _SimpleImputer(),
    PCA: _PCA(),
    RBFSampler: _RBF(),
    PolynomialCountSketch: _PolynomialCountSketch(),
    SkewedChi2Sampler: _Seeded(),
    RandomFeatures: _RandomFeatures(),
    Backbone: Kind(),
}
