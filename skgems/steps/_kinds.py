"""The kinds of transformers that a front may have, each a `Kind`, and their table.

Most steps are fitted by their own ``fit``, to a few rows that are made up so that it
finds what it would find in the rows of all nodes: two rows of the same extremes, say.
That leaves scikit-learn to set all attributes. Where no such rows are, or they would
cost digits, attributes are set afterwards.
"""

import numbers
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

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
from ._bins import Bins
from ._columns import Columns, Table
from ._contradictions import (
    NodeRows,
    axes_differ,
    categories_differ,
    columns_differ,
    gaps_differ,
    outer_quantiles_differ,
    powers_differ,
    quantiles_differ,
)
from ._features import RandomFeatures
from ._kind import EXTREMES, Kind, NotPooledError, StateField, check_fields
from ._powers import POWERS, LikeliestPowers
from ._statistics import N_BINS, categories_told, identifiers_told

if TYPE_CHECKING:  # pandas is an extra
    import pandas

_EPS = np.finfo(np.float64).eps

# Fields of states that several kinds have. What nodes tell of columns, as it is summed:
_SUMS_OF_COLUMNS = {
    "n_rows": StateField(says="The number of rows.", shape=()),
    "counts": StateField(says="The number of known values of each column."),
    "means": StateField(says="The mean of each column."),
    "squares": StateField(says="The sum of squares about the mean of each column."),
}
# Quantiles that are read off counts on a grid:
_QUANTILES = {
    "rows": StateField(
        says="Quantiles of each column, the smallest first.", shape=("rank", "column")
    ),
    "width": StateField(says="The width of a bin of each column."),
}
# The bounds of the values:
_EXTREMES = {
    "low": StateField(says="The smallest value of each column."),
    "high": StateField(says="The largest value of each column."),
}


class _Seeded(Kind):
    """A step that draws from its seed, which is all that it is fitted to."""

    def check(self, step: BaseEstimator) -> None:
        if not isinstance(step.random_state, numbers.Integral):
            raise NotPooledError(
                f"{type(step).__name__} draws from random_state={step.random_state!r}. "
                "Set it to a number, so that all nodes draw the same numbers."
            )

    def n_columns_out(self, step: BaseEstimator, n_columns: int, state: Mapping) -> int:
        return step.n_components

    def n_weights(self, step: BaseEstimator, n_columns: int) -> int:
        return n_columns * step.n_components


class _RandomFeatures(_Seeded):
    """RandomFeatures, which may hand the columns on beside its own."""

    def n_columns_out(self, step: BaseEstimator, n_columns: int, state: Mapping) -> int:
        return step.n_components + n_columns * step.passthrough


class _PolynomialCountSketch(_Seeded):
    """PolynomialCountSketch, which takes more room on the way than in the end."""

    def n_working_numbers(self, step: BaseEstimator, n_columns: int) -> int:
        # A sketch for each factor of the products, and its Fourier transform, whose
        # numbers are complex.
        return 3 * step.degree * step.n_components


class _RBFSampler(_Seeded):
    """RBFSampler, which with gamma="scale" looks at the variance of all numbers."""

    fields = _SUMS_OF_COLUMNS

    def statistic_for(self, step: BaseEstimator) -> str | None:
        return "columns" if step.gamma == "scale" else None

    def fit(self, step: BaseEstimator, example: Table, state: Mapping) -> BaseEstimator:
        if not state:
            return super().fit(step, example, state)
        counts = state["counts"]
        means = state["means"]
        mean = counts @ means / counts.sum()
        squares = state["squares"].sum() + counts @ (means - mean) ** 2
        deviation = np.sqrt(squares / counts.sum())
        # The same variance of all numbers, which is all that it looks at.
        rows = np.full((2, len(means)), deviation) * [[1.0], [-1.0]]
        return clone(step).fit(_in_form_of(example, rows))

    def contradiction(
        self, fitted: BaseEstimator, state: Mapping, rows: NodeRows
    ) -> str:
        return columns_differ(state, rows)


class _StandardScaler(Kind):
    """StandardScaler, of counts, means and squares."""

    by_column = True
    fields = _SUMS_OF_COLUMNS

    def statistic_for(self, step: BaseEstimator) -> str | None:
        return "columns" if step.with_mean or step.with_std else None

    def fit(self, step: BaseEstimator, example: Table, state: Mapping) -> BaseEstimator:
        fitted = super().fit(step, example, state)
        if not state:
            return fitted
        counts = state["counts"]
        divisors = np.maximum(counts, 1.0)
        n_seen = counts.astype(np.int64)
        fitted.n_samples_seen_ = n_seen[0] if np.ptp(counts) == 0 else n_seen
        fitted.mean_ = np.where(counts > 0, state["means"], np.nan)
        if step.with_std:
            variances = np.where(counts > 0, state["squares"] / divisors, np.nan)
            # 1 for what is constant but for rounding, as scikit-learn has it.
            rounding = (
                divisors * _EPS * variances + (divisors * fitted.mean_ * _EPS) ** 2
            )
            fitted.scale_ = np.where(variances <= rounding, 1.0, np.sqrt(variances))
            fitted.var_ = variances
        return fitted

    def contradiction(
        self, fitted: BaseEstimator, state: Mapping, rows: NodeRows
    ) -> str:
        return columns_differ(state, rows)


class _GridStep(Kind):
    """A step of quantiles, which counts on a grid give to within one bin."""

    by_column = True
    statistic = "histogram"
    fields = _QUANTILES

    def contradiction(
        self, fitted: BaseEstimator, state: Mapping, rows: NodeRows
    ) -> str:
        return quantiles_differ(state["rows"], rows)


class _SimpleImputer(Kind):
    """SimpleImputer, of means, of how often values occur, or of counts on a grid."""

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
                f"SimpleImputer(strategy={step.strategy!r}) is not a function of sums. "
                "The strategies mean, constant and most_frequent are, and median with "
                "bounds."
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
            return {
                "values": [_most_frequent(column) for column in columns],
                "missing": [column["none"] + column["nan"] > 0 for column in columns],
            }
        if step.strategy == "median":
            counts = pooled["cumulative"][:, -1]
            medians = _quantiles_on_grid(pooled, [0.5])
            return {
                "values": np.where(counts > 0, medians["rows"][0], None).tolist(),
                "missing": (counts < pooled["n_rows"]).tolist(),
                "width": medians["width"],
            }
        counts = pooled["counts"]
        return {
            "values": np.where(counts > 0, pooled["means"], None).tolist(),
            "missing": (counts < pooled["n_rows"]).tolist(),
        }

    def fit(self, step: BaseEstimator, example: Table, state: Mapping) -> BaseEstimator:
        if not state:
            return super().fit(step, example, state)
        gap = step.missing_values
        # One row whose statistics are those of all, one with gaps where there were any.
        if step.strategy == "constant":
            whole_row = np.asarray(example)[0].tolist()
        else:
            whole_row = [gap if value is None else value for value in state["values"]]
        row_with_gaps = [
            gap if is_missing else value
            for value, is_missing in zip(whole_row, state["missing"], strict=True)
        ]
        return clone(step).fit(_in_form_of(example, [whole_row, row_with_gaps]))

    def contradiction(
        self, fitted: BaseEstimator, state: Mapping, rows: NodeRows
    ) -> str:
        difference = gaps_differ(state["missing"], rows)
        if difference or "width" not in state:  # means, or what is most frequent
            return difference
        return quantiles_differ([state["values"]], rows)


class _Encoder(Kind):
    """OneHotEncoder and OrdinalEncoder.

    The state has for each column, by its place as a text, a dict of these fields.
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
            check_fields(type(step).__name__, expected=fields, state=state)
            return
        places = {str(j) for j in range(len(state))}
        for place, column in state.items():
            if place not in places or not isinstance(column, Mapping):
                raise ValueError(
                    f"the state of {type(step).__name__} has the field {place!r:.40}; "
                    "its fields are tables of all columns, '0', '1' and so on"
                )
            check_fields(
                f"{type(step).__name__} for column {place}",
                expected=fields,
                state=column,
            )

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
        n_withheld = {
            label: int(column["withheld"])
            for label, column in zip(columns, categories_told(pooled), strict=True)
            if column["withheld"]
        }
        if n_withheld and step.handle_unknown == "error":
            raise ValueError(
                f"the columns {list(n_withheld)[:5]} have "
                f"{sum(n_withheld.values())} values of "
                "categories of which their node has fewer than min_rows rows. Nodes "
                f"do not tell these, and {type(step).__name__} would raise for them: "
                "set handle_unknown, in a OneHotEncoder to 'ignore', or agree on "
                "categories=[...]."
            )

    def empty_columns(self, step: BaseEstimator, state: Mapping) -> list[int]:
        return [
            int(place)
            for place, column in state.items()
            if not (column["labels"] or column["none"] or column["nan"])
        ]

    def state(self, step: BaseEstimator, pooled: Mapping) -> dict:
        state = {}
        for j, column in enumerate(categories_told(pooled)):
            state[str(j)] = {
                "labels": column["labels"],
                "none": bool(column["none"]),
                "nan": bool(column["nan"]),
            }
            if _groups_rare(step):
                rare = _places_of_rare(step, column, n_rows=pooled["n_rows"])
                state[str(j)]["rare"] = rare
        return state

    def fit(self, step: BaseEstimator, example: Table, state: Mapping) -> BaseEstimator:
        empty = self.empty_columns(step, state)
        if empty:
            return self._fit_to_others(step, example, state, empty=empty)
        fitted = clone(step)
        if state:
            columns = [state[str(j)] for j in range(len(state))]
            categories = [_categories_of(column) for column in columns]
            if _groups_rare(step):
                # Each category is in one row, and in two unless it is rare: those in
                # fewer than two are then the ones that the encoder finds rare.
                fitted.set_params(min_frequency=2, max_categories=None)
                categories = [
                    labels + _remaining_labels(labels, column["rare"])
                    for labels, column in zip(categories, columns, strict=True)
                ]
        else:
            categories = [list(labels) for labels in step.categories]
        rows = _rows_of_categories(categories)
        fitted.fit(_in_form_of(example, rows, keeps_whole_numbers=True))
        return fitted.set_params(**step.get_params())

    def contradiction(
        self, fitted: BaseEstimator, state: Mapping, rows: NodeRows
    ) -> str:
        return categories_differ(state, rows)

    def _fit_to_others(
        self, step: BaseEstimator, example: Table, state: Mapping, *, empty: list[int]
    ) -> BaseEstimator:
        """The encoder of the columns that have a category, as a ColumnTransformer."""
        places = [j for j in range(len(state)) if j not in empty]
        # What is asked for; `transformers_` has what was fitted.
        unfitted_branches = [("categories", clone(step), places)]
        if not places:
            transformer = _encoder_of_columns(FrozenEstimator(step), places).fit(
                example
            )
            return transformer.set_params(transformers=unfitted_branches)
        encoder = self.fit(
            step,
            safe_indexing(example, places, axis=1),
            {str(k): state[str(j)] for k, j in enumerate(places)},
        )
        # An encoder refuses values that are none of its categories.
        first_categories = [[labels[0] for labels in encoder.categories_]]
        if hasattr(example, "columns"):
            example = example.astype(object)
            example.iloc[:1, places] = first_categories
        else:
            example = example.copy()
            example[:1, places] = first_categories
        transformer = _encoder_of_columns(FrozenEstimator(encoder), places).fit(example)
        transformer.transformers_ = [
            (name, encoder if name == "categories" else branch, columns)
            for name, branch, columns in transformer.transformers_
        ]
        return transformer.set_params(transformers=unfitted_branches)


class _PCA(Kind):
    """PCA, of the scatter: its axes are eigenvectors of the covariance."""

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
                f"PCA(svd_solver={step.svd_solver!r}) is not a function of sums. Set "
                "svd_solver='covariance_eigh'."
            )
        if step.n_components == "mle":
            raise NotPooledError(
                "PCA(n_components='mle') is not a function of sums. Set n_components "
                "to a number."
            )

    def n_columns_out(self, step: BaseEstimator, n_columns: int, state: Mapping) -> int:
        return len(state["axes"])

    def state(self, step: BaseEstimator, pooled: Mapping) -> dict:
        n_rows = pooled["n_rows"]
        d = len(pooled["mean"])
        scatter = np.zeros((d, d))
        scatter[np.triu_indices(d)] = pooled["triangle"]
        # In rising order; the other triangle is not looked at.
        variances, vectors = eigh(scatter / max(n_rows - 1.0, 1.0), lower=False)
        variances = np.maximum(variances[::-1], 0.0)
        axes = vectors[:, ::-1].T
        n_axes = _n_axes(step.n_components, variances, n_rows=n_rows)
        # The largest number of each axis is positive, as scikit-learn has it.
        largest = axes[np.arange(d), np.argmax(np.abs(axes), axis=1)]
        axes = axes * np.where(largest < 0, -1.0, 1.0)[:, None]
        return {
            "n_rows": n_rows,
            "mean": pooled["mean"],
            "values": variances,
            "axes": axes[:n_axes],
        }

    def fit(self, step: BaseEstimator, example: Table, state: Mapping) -> BaseEstimator:
        # Any rows, for the names of columns and the dtype.
        fitted = clone(step).set_params(n_components=None, svd_solver="full")
        fitted.fit(_in_form_of(example, np.eye(2, len(state["mean"]))))
        fitted.set_params(**step.get_params())
        n_rows = state["n_rows"]
        n_axes = len(state["axes"])
        variances = state["values"]
        fitted.n_samples_ = int(n_rows)
        fitted.n_components_ = n_axes
        dtype = fitted.components_.dtype  # float32 where rows are
        fitted.mean_ = state["mean"].astype(dtype)
        fitted.components_ = state["axes"].astype(dtype)
        fitted.explained_variance_ = variances[:n_axes]
        fitted.explained_variance_ratio_ = variances[:n_axes] / max(
            variances.sum(), _EPS
        )
        fitted.singular_values_ = np.sqrt(variances[:n_axes] * (n_rows - 1.0))
        # Variances along axes that are not kept; there are no more axes than rows.
        other_variances = variances[n_axes : int(min(n_rows, len(variances)))]
        fitted.noise_variance_ = (
            float(other_variances.mean()) if len(other_variances) else 0.0
        )
        fitted._fit_svd_solver = "covariance_eigh"
        return fitted

    def error(self, step: BaseEstimator, state: Mapping) -> float:
        variances = state["values"]
        n_axes = len(state["axes"])
        if n_axes == len(variances):
            return 0.0
        # If the last axis that is kept and the first that is not have equal variances,
        # any direction between the two could be kept.
        gap = variances[n_axes - 1] - variances[n_axes]
        # Half of all digits are enough for errors of sums.
        return np.inf if gap <= np.sqrt(_EPS) * variances[0] else 0.0

    def doubt(self, step: BaseEstimator, state: Mapping, labels: list) -> str:
        if self.error(step, state) < np.inf:
            return ""
        return (
            "PCA keeps some, but not all, of several axes that have equal variance. "
            "Rounding decides which axes these are, so scikit-learn's fit on all rows "
            "may keep others. Keep more or fewer components."
        )

    def contradiction(
        self, fitted: BaseEstimator, state: Mapping, rows: NodeRows
    ) -> str:
        return axes_differ(state, rows)


class _ExtremesStep(Kind):
    """A step of the smallest and the largest value of each column."""

    by_column = True
    statistic = EXTREMES
    fields = _EXTREMES

    def fit(self, step: BaseEstimator, example: Table, state: Mapping) -> BaseEstimator:
        return clone(step).fit(_in_form_of(example, [state["low"], state["high"]]))


class _EdgesStep(_ExtremesStep):
    """A step that lays edges into columns: evenly between extremes, or at quantiles."""

    by_column = False
    lays_edges = True
    _spacing_parameter: str  # that says which of both

    def _n_edges(self, step: BaseEstimator) -> int:
        """Return how many edges a column has at most."""
        raise NotImplementedError

    def fields_for(self, step: BaseEstimator) -> Mapping[str, StateField]:
        return _EXTREMES if self.statistic_for(step) == EXTREMES else _QUANTILES

    def fit(self, step: BaseEstimator, example: Table, state: Mapping) -> BaseEstimator:
        if self.statistic_for(step) == EXTREMES:
            return super().fit(step, example, state)
        return clone(step).fit(_in_form_of(example, state["rows"]))

    def contradiction(
        self, fitted: BaseEstimator, state: Mapping, rows: NodeRows
    ) -> str:
        if self.statistic_for(fitted) == EXTREMES:
            return ""
        return outer_quantiles_differ(state["rows"], rows)

    def check(self, step: BaseEstimator) -> None:
        spacing = getattr(step, self._spacing_parameter)
        if spacing not in ("uniform", "quantile"):
            raise NotPooledError(
                f"{type(step).__name__}({self._spacing_parameter}={spacing!r}) is not "
                "a function of bounds or counts. 'uniform' and 'quantile' are."
            )

    def statistic_for(self, step: BaseEstimator) -> str | None:
        is_even = getattr(step, self._spacing_parameter) == "uniform"
        return EXTREMES if is_even else "histogram"

    def state(self, step: BaseEstimator, pooled: Mapping) -> dict:
        if self.statistic_for(step) == EXTREMES:
            return dict(pooled)
        ranks = np.linspace(0.0, 1.0, self._n_edges(step))
        return _quantiles_on_grid(pooled, ranks)


class _KBinsDiscretizer(_EdgesStep):
    """KBinsDiscretizer, whose edges are those of its bins."""

    _spacing_parameter = "strategy"

    def _n_edges(self, step: BaseEstimator) -> int:
        return int(np.max(step.n_bins)) + 1

    def bins(self, fitted: BaseEstimator) -> Bins:
        return Bins(edges=list(fitted.bin_edges_))

    def n_columns_out(self, step: BaseEstimator, n_columns: int, state: Mapping) -> int:
        if step.encode == "ordinal":
            return n_columns
        return int(np.sum(np.broadcast_to(step.n_bins, n_columns)))

    def n_working_numbers(self, step: BaseEstimator, n_columns: int) -> int:
        return n_columns

    def is_sparse(self, step: BaseEstimator) -> bool:
        return step.encode == "onehot"


class _SplineTransformer(_EdgesStep):
    """SplineTransformer, whose edges are its knots."""

    _spacing_parameter = "knots"

    def _n_edges(self, step: BaseEstimator) -> int:
        return int(step.n_knots)

    def bins(self, fitted: BaseEstimator) -> Bins:
        # Knots of a spline beyond the first and the last one are scikit-learn's.
        degree = fitted.degree
        edges = [
            spline.t[degree : len(spline.t) - degree] for spline in fitted.bsplines_
        ]
        return Bins(edges=edges, is_periodic=fitted.extrapolation == "periodic")

    def n_columns_out(self, step: BaseEstimator, n_columns: int, state: Mapping) -> int:
        return n_columns * self._n_splines(step)

    def n_numbers(self, step: BaseEstimator, n_columns: int) -> int:
        # A unit matrix of the splines of a column.
        return self._n_splines(step) ** 2

    def n_working_numbers(self, step: BaseEstimator, n_columns: int) -> int:
        return self._n_splines(step)

    def _n_splines(self, step: prep.SplineTransformer) -> int:
        """Splines of a column at most: fewer where ends are joined or left out."""
        return step.n_knots + step.degree


class _QuantileTransformer(_GridStep):
    """QuantileTransformer, whose quantiles are the rows that it is fitted to."""

    def state(self, step: BaseEstimator, pooled: Mapping) -> dict:
        counts = pooled["cumulative"][:, -1]
        n_quantiles = int(min(step.n_quantiles, max(counts.max(), 1)))
        return _quantiles_on_grid(pooled, np.linspace(0, 1, n_quantiles))

    def contradiction(
        self, fitted: BaseEstimator, state: Mapping, rows: NodeRows
    ) -> str:
        return outer_quantiles_differ(state["rows"], rows)

    def fit(self, step: BaseEstimator, example: Table, state: Mapping) -> BaseEstimator:
        rows = state["rows"]
        fitted = clone(step).set_params(n_quantiles=len(rows), subsample=None)
        fitted.fit(_in_form_of(example, rows))
        return fitted.set_params(**step.get_params())


class _RobustScaler(_GridStep):
    """RobustScaler, of the medians and two more quantiles of columns."""

    def state(self, step: BaseEstimator, pooled: Mapping) -> dict:
        low, high = step.quantile_range
        return _quantiles_on_grid(pooled, [low / 100, 0.5, high / 100])

    def fit(self, step: BaseEstimator, example: Table, state: Mapping) -> BaseEstimator:
        fitted = super().fit(step, example, state)
        low, median, high = state["rows"]
        if step.with_centering:
            fitted.center_ = median
        if step.with_scaling:
            ranges = high - low
            if step.unit_variance:
                # The range of a normal distribution of variance 1.
                low_rank, high_rank = np.array(step.quantile_range) / 100
                ranges = ranges / (ndtri(high_rank) - ndtri(low_rank))
            # 1 for what is constant, as scikit-learn has it.
            fitted.scale_ = np.where(ranges < 10 * _EPS, 1.0, ranges)
        return fitted


class _PowerTransformer(Kind):
    """PowerTransformer, of sums of columns after each power of a grid."""

    by_column = True
    fields = {
        "powers": StateField(says="The likeliest power of each column."),
        **{name: _SUMS_OF_COLUMNS[name] for name in ("counts", "means", "squares")},
        "width": StateField(
            says="How far the power of each column may be off; infinite if the "
            "likeliest power is beyond those at which nodes tell sums."
        ),
    }

    def statistic_for(self, step: BaseEstimator) -> str | None:
        return "powers" if step.method == "yeo-johnson" else "box_powers"

    def state(self, step: BaseEstimator, pooled: Mapping) -> dict:
        likeliest = LikeliestPowers.from_sums(
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

    def fit(self, step: BaseEstimator, example: Table, state: Mapping) -> BaseEstimator:
        # Any rows, for the names of columns. scikit-learn seeks no power of this method
        # for constant columns; that search took most of the time of a small fit.
        rows = np.ones((5, len(state["powers"])))
        fitted = clone(step).set_params(method="yeo-johnson")
        fitted = fitted.fit(_in_form_of(example, rows)).set_params(method=step.method)
        fitted.lambdas_ = state["powers"]
        if step.standardize:
            scaler = _StandardScaler().fit(prep.StandardScaler(), rows, state)
            fitted._scaler = scaler.set_params(copy=False)
        return fitted

    def doubt(self, step: BaseEstimator, state: Mapping, labels: list) -> str:
        columns = [labels[j] for j in np.flatnonzero(np.isinf(state["width"]))]
        if not columns:
            return ""
        return (
            "PowerTransformer finds no likeliest power for the columns "
            f"{columns[:10]}: nodes send sums after powers from {POWERS[0]:g} to "
            f"{POWERS[-1]:g}, and the likelihood still rises at the last of these that "
            "leaves digits. scikit-learn's fit on all rows would make these columns "
            "more symmetric. "
            "Put a StandardScaler before a PowerTransformer of the method "
            "'yeo-johnson', or have all nodes take the logarithms of these columns."
        )

    def contradiction(
        self, fitted: BaseEstimator, state: Mapping, rows: NodeRows
    ) -> str:
        return powers_differ(fitted, state, rows)


def _quantiles_on_grid(pooled: Mapping, ranks: Sequence[float] | np.ndarray) -> dict:
    """Quantiles of columns, as "rows" (n_ranks, n_columns), and "width" of the bins.

    Counts on a grid say in which bin a quantile is; within it, rows are taken to lie
    evenly.
    """
    ranks = np.asarray(ranks)
    quantiles = []
    columns = zip(pooled["cumulative"], pooled["low"], pooled["high"], strict=True)
    for cumulative, low, high in columns:
        edges = np.linspace(low, high, N_BINS + 1)
        n_values = max(cumulative[-1], 1.0)
        # The bin that so many rows end in, and how much of it.
        n_below = np.clip(ranks * n_values, 0.5, n_values)
        bins = np.clip(np.searchsorted(cumulative, n_below), 1, N_BINS)
        n_before = cumulative[bins - 1]
        n_in_bin = np.maximum(cumulative[bins] - n_before, 1.0)
        share = np.clip((n_below - n_before) / n_in_bin, 0.0, 1.0)
        quantiles.append(edges[bins - 1] + share * (edges[bins] - edges[bins - 1]))
    width = (np.asarray(pooled["high"]) - pooled["low"]) / N_BINS
    return {"rows": np.stack(quantiles, axis=1), "width": width}


def _n_axes(n_components: float | None, variances: np.ndarray, *, n_rows: float) -> int:
    """Return how many axes a PCA keeps; ``variances`` (d,), the largest first."""
    most = min(n_rows, len(variances))
    if n_components is None:
        return int(most)
    if isinstance(n_components, float):
        # As many as have more than this share of the variance together.
        shares = np.cumsum(variances) / variances.sum()
        n_components = np.searchsorted(shares, n_components, side="right") + 1
    n_axes = int(n_components)
    if n_axes > most:
        raise ValueError(
            f"PCA(n_components={n_axes}) of {n_rows:.0f} rows of {len(variances)} "
            f"columns has at most {most:.0f}."
        )
    return n_axes


def _most_frequent(column: Mapping) -> object:
    """The commonest category of a column, the smallest of several; None without any."""
    if not column["labels"]:
        return None
    return column["labels"][np.argmax(column["counts"])]


def _encoder_of_columns(step: BaseEstimator, places: list[int]) -> ColumnTransformer:
    """Make an encoder of some columns, which leaves out the others."""
    # Places, since nodes hand over arrays where no column holds texts.
    return ColumnTransformer(
        [("categories", step, places)], verbose_feature_names_out=False
    )


def _categories_of(column: Mapping) -> list:
    """The categories of a column, in the order that encoders have."""
    categories = list(column["labels"])
    if column["none"]:
        categories.append(None)
    if column["nan"]:
        categories.append(np.nan)
    return categories


def _remaining_labels(labels: list, places: Iterable[int]) -> list:
    """Return the labels of all columns but those at some places."""
    left_out = set(places)
    return [label for k, label in enumerate(labels) if k not in left_out]


def _rows_of_categories(categories: Sequence[list]) -> list[tuple]:
    """Rows in which the columns have all their categories, the last one repeated."""
    n_rows = max(map(len, categories))
    columns = [labels + labels[-1:] * (n_rows - len(labels)) for labels in categories]
    return list(zip(*columns, strict=True))


def _groups_rare(step: BaseEstimator) -> bool:
    """Report whether an encoder makes one category of all rare ones."""
    return step.min_frequency is not None or step.max_categories is not None


def _places_of_rare(
    step: BaseEstimator, column: Mapping, *, n_rows: float
) -> list[int]:
    """Places of the rare categories of a column, as scikit-learn chooses them."""
    counts = list(column["counts"])
    if isinstance(step, prep.OneHotEncoder):  # to which what is missing is a category
        counts += [column[name] for name in ("none", "nan") if column[name]]
    fewest_rows = step.min_frequency or 0
    if isinstance(fewest_rows, float):  # it is a share of the rows
        fewest_rows *= n_rows
    is_rare = np.array(counts) < fewest_rows
    most = step.max_categories
    if most is not None and most <= np.sum(~is_rare):
        # One of as many as there may be is that of all rare ones.
        rarest_first = np.argsort(counts, kind="stable")
        is_rare[rarest_first[: len(counts) - most + 1]] = True
    if len(is_rare) and is_rare.all():
        raise ValueError(
            "all categories of a column are infrequent: set a lower min_frequency, or "
            "more max_categories."
        )
    return np.flatnonzero(is_rare).tolist()


def _in_form_of(
    example: Table, rows: Iterable[Iterable], *, keeps_whole_numbers: bool = False
) -> Table:
    """Rows as a table of the names and dtypes of an example.

    ``keeps_whole_numbers``: these do not become floats, so that an encoder has the
    labels that nodes told.
    """
    values = np.array([list(row) for row in rows], dtype=object)
    if hasattr(example, "columns"):
        return _frame_in_form_of(
            example, values, keeps_whole_numbers=keeps_whole_numbers
        )
    if example.dtype == object:
        return values
    if keeps_whole_numbers:
        return np.array(values.tolist())
    return values.astype(example.dtype)


def _frame_in_form_of(
    example: "pandas.DataFrame", values: np.ndarray, *, keeps_whole_numbers: bool
) -> "pandas.DataFrame":
    columns = {}
    are_texts = Columns.from_table(example).text
    for name, is_text, column in zip(example.columns, are_texts, values.T, strict=True):
        if is_text:
            dtype = object
        elif keeps_whole_numbers:
            dtype = None  # as pandas finds it
        else:
            dtype = example[name].dtype
        series = type(example[name])
        columns[name] = series(column.tolist(), dtype=dtype)
    return type(example)(columns)


# A transformer that is not listed cannot be in a front.
KINDS: Mapping[type, Kind] = {
    prep.StandardScaler: _StandardScaler(),
    prep.MinMaxScaler: _ExtremesStep(),
    prep.MaxAbsScaler: _ExtremesStep(),
    prep.RobustScaler: _RobustScaler(),
    prep.QuantileTransformer: _QuantileTransformer(),
    prep.PowerTransformer: _PowerTransformer(),
    prep.KBinsDiscretizer: _KBinsDiscretizer(),
    prep.SplineTransformer: _SplineTransformer(),
    prep.OneHotEncoder: _Encoder(),
    prep.OrdinalEncoder: _Encoder(),
    prep.Normalizer: Kind(),
    SimpleImputer: _SimpleImputer(),
    PCA: _PCA(),
    RBFSampler: _RBFSampler(),
    PolynomialCountSketch: _PolynomialCountSketch(),
    SkewedChi2Sampler: _Seeded(),
    RandomFeatures: _RandomFeatures(),
    Backbone: Kind(),
}
