"""Kinds of transformers: what each needs told, and how it is fitted of that alone."""

import numbers
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from scipy.linalg import eigh
from scipy.special import ndtri
from sklearn import preprocessing as prep
from sklearn.base import clone
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
from ._features import RandomFeatures
from ._powers import LikeliestPowers
from ._statistics import N_BINS, categories_told, identifiers_told

_EPS = np.finfo(np.float64).eps
# A gap between variances, relative to the largest, below which axes are anybody's.
_GAP = 1e-9


class NotPooledError(ValueError):
    """A transformer is no function of sums or of a seed."""


class Kind:
    """How a kind of transformer is fitted: this one needs to know the columns alone."""

    # Whether each column comes out by itself, so that bounds of it are still bounds.
    by_column = False
    statistic: str | None = None  # of its rows, that it is a function of

    def check(self, own) -> None:
        """Raise NotPooledError for parameters under which it is no such function."""

    def asks(self, own) -> str | None:
        """The statistic under these parameters."""
        return self.statistic

    def takes_texts(self, own) -> bool:
        """Whether columns of texts may enter."""
        return False

    def check_pooled(self, own, pooled: Mapping, columns: Sequence) -> None:
        """ValueError that names columns if the step cannot be fitted to a statistic."""

    def empty(self, own, state: Mapping) -> list[int]:
        """Places of columns that the fitted step leaves out: nodes told nothing."""
        return []

    def state(self, own, pooled: Mapping) -> dict:
        """What `fit` takes, of the statistic of all rows."""
        return dict(pooled)

    def identifiers(self, replies: Iterable[Mapping], labels: list) -> list:
        """Those labels of columns that identify rows, and should not be encoded."""
        return []

    def fit(self, own, example, state):
        """The fitted transformer; ``example`` is a row of what it will be given."""
        return clone(own).fit(example)

    def error(self, own, state) -> float:
        """How far a fitted parameter may be off, in units of the column."""
        # The width of a bin, or how far the likeliest power may be.
        return float(np.max(state.get("width", 0.0), initial=0.0))

    # What follows is asked before a step is made, of its parameters alone.

    def n_columns_out(self, own, n_columns: int, state: Mapping) -> int:
        """Columns that come out of the fitted step where ``n_columns`` enter."""
        return n_columns

    def n_weights(self, own, n_columns: int) -> int:
        """Numbers that are drawn, and that each row is multiplied with."""
        return 0

    def n_numbers(self, own, n_columns: int) -> int:
        """Numbers that the step holds, however many rows there are."""
        return self.n_weights(own, n_columns)

    def n_working_numbers(self, own, n_columns: int) -> int:
        """Numbers beside what comes out, for each row that is transformed."""
        return 0

    def is_sparse(self, own) -> bool:
        """Whether what comes out is sparse: a number a row for each column."""
        return False


class _Seeded(Kind):
    def check(self, own):
        seed = own.random_state
        if not isinstance(seed, numbers.Integral):
            draws = f"{type(own).__name__} draws from random_state={seed!r}"
            what = "give it a number, so that all nodes draw the same"
            raise NotPooledError(f"{draws}: {what}.")

    def n_columns_out(self, own, n_columns, state):
        return own.n_components

    def n_weights(self, own, n_columns):
        return n_columns * own.n_components


class _RandomFeatures(_Seeded):
    def n_columns_out(self, own, n_columns, state):
        return own.n_components + n_columns * own.passthrough


class _PolynomialCountSketch(_Seeded):
    def n_working_numbers(self, own, n_columns):
        # A sketch for each factor of the products, and its Fourier transform, whose
        # numbers are complex.
        return 3 * own.degree * own.n_components


class _RBF(_Seeded):
    def asks(self, own):
        return "columns" if own.gamma == "scale" else None

    def fit(self, own, example, state):
        if not state:
            return super().fit(own, example, state)
        counts, means = state["counts"], state["means"]
        mean = counts @ means / counts.sum()
        squares = state["squares"].sum() + counts @ (means - mean) ** 2
        size = np.sqrt(squares / counts.sum())
        # The same variance of all numbers, which is all that it looks at.
        rows = np.full((2, len(means)), size) * [[1.0], [-1.0]]
        return clone(own).fit(_alike(example, rows))


class _StandardScaler(Kind):
    by_column = True

    def asks(self, own):
        return "columns" if own.with_mean or own.with_std else None

    def fit(self, own, example, state):
        fitted = super().fit(own, example, state)
        if not state:
            return fitted
        counts, n = state["counts"], np.maximum(state["counts"], 1.0)
        n_seen = counts.astype(np.int64)
        fitted.n_samples_seen_ = n_seen[0] if np.ptp(counts) == 0 else n_seen
        fitted.mean_ = np.where(counts > 0, state["means"], np.nan)
        if own.with_std:
            variances = np.where(counts > 0, state["squares"] / n, np.nan)
            # 1 for what is constant but for rounding, as scikit-learn has it.
            rounding = n * _EPS * variances + (n * fitted.mean_ * _EPS) ** 2
            fitted.scale_ = np.where(variances <= rounding, 1.0, np.sqrt(variances))
            fitted.var_ = variances
        return fitted


class _OfGrid(Kind):
    """What counts on a grid say of quantiles: off by no more than a bin."""

    by_column, statistic = True, "histogram"


class _SimpleImputer(_OfGrid):
    def check(self, own):
        if own.strategy not in ("mean", "median", "most_frequent", "constant"):
            raise NotPooledError(
                f"SimpleImputer(strategy={own.strategy!r}) is no function of sums; "
                "mean, constant and most_frequent are, and median of a grid."
            )

    def asks(self, own):
        kinds = {"mean": "columns", "most_frequent": "categories"}
        kinds["constant"] = "columns" if own.add_indicator else None
        return kinds.get(own.strategy, "histogram")

    def takes_texts(self, own):
        return own.strategy in ("most_frequent", "constant")

    def n_columns_out(self, own, n_columns, state):
        return n_columns * (2 if own.add_indicator else 1)

    def state(self, own, pooled):
        if own.strategy == "most_frequent":
            columns = categories_told(pooled)
            # The smallest of those that are equally frequent.
            values = [
                c["labels"][np.argmax(c["counts"])] if c["labels"] else None
                for c in columns
            ]
            missing = [c["none"] + c["nan"] > 0 for c in columns]
            return {"values": values, "missing": missing}
        grid = {}
        if own.strategy == "median":
            counts, grid = pooled["cumulative"][:, -1], _on_grid(pooled, [0.5])
            values = grid.pop("rows")[0]
        else:
            counts, values = pooled["counts"], pooled["means"]
        known = np.where(counts > 0, values, None).tolist()
        missing = counts < pooled["n_rows"]
        return {"values": known, "missing": missing.tolist(), **grid}

    def fit(self, own, example, state):
        if not state:
            return super().fit(own, example, state)
        blank = own.missing_values
        # One row whose statistics are those of all, one that has what was missing.
        values = [blank if value is None else value for value in state["values"]]
        if own.strategy == "constant":
            values = np.asarray(example)[0].tolist()
        pairs = zip(values, state["missing"], strict=True)
        lacks = [blank if lack else value for value, lack in pairs]
        return clone(own).fit(_alike(example, [values, lacks]))


class _Encoder(Kind):
    """OneHotEncoder and OrdinalEncoder."""

    def check(self, own):
        if _groups_rare(own) and not isinstance(own.categories, str):
            raise NotPooledError(
                f"{type(own).__name__} cannot have both categories=[...] and "
                "min_frequency or max_categories: leave out one of them."
            )

    def asks(self, own):
        return "categories" if isinstance(own.categories, str) else None

    def identifiers(self, replies, labels):
        return identifiers_told(replies, labels)

    def n_columns_out(self, own, n_columns, state):
        if isinstance(own, prep.OrdinalEncoder):
            return n_columns
        if not state:
            return sum(map(len, own.categories))
        return sum(
            len(column["labels"]) + bool(column["none"]) + bool(column["nan"])
            for column in state.values()
        )

    def is_sparse(self, own):
        return getattr(own, "sparse_output", False)

    def takes_texts(self, own):
        return True

    def check_pooled(self, own, pooled, columns):
        counts = {
            column: int(c["withheld"])
            for column, c in zip(columns, categories_told(pooled), strict=True)
            if c["withheld"]
        }
        if counts and own.handle_unknown == "error":
            raise ValueError(
                f"the columns {list(counts)[:5]} have {sum(counts.values())} values of "
                "categories of which their node has fewer than min_rows rows. Nodes "
                f"do not tell these, and {type(own).__name__} would raise for them: "
                "set handle_unknown, in a OneHotEncoder to 'ignore', or agree on "
                "categories=[...]."
            )

    def empty(self, own, state):
        return [
            int(j)
            for j, c in state.items()
            if not (c["labels"] or c["none"] or c["nan"])
        ]

    def state(self, own, pooled):
        state, columns = {}, categories_told(pooled)
        for j, c in enumerate(columns):
            missing = {name: bool(c[name]) for name in ("none", "nan")}
            kept = state[str(j)] = {"labels": c["labels"], **missing}
            if _groups_rare(own):
                kept["rare"] = _rare(own, c, pooled["n_rows"])
        return state

    def fit(self, own, example, state):
        empty = self.empty(own, state)
        if empty:
            return self._fit_to_others(own, example, state, empty)
        known, fitted = [state[str(j)] for j in range(len(state))], clone(own)
        listed = [list(labels) for labels in (() if state else own.categories)]
        for c in known:
            listed.append([*c["labels"], *[None] * c["none"], *[np.nan] * c["nan"]])
        if state and _groups_rare(own):  # one row of what is rare, and two of all else
            fitted.set_params(min_frequency=2, max_categories=None)
            for labels, c in zip(listed, known, strict=True):
                few = set(c.get("rare", ()))
                labels += [label for k, label in enumerate(labels) if k not in few]
        n = max(map(len, listed))
        rows = [labels + labels[-1:] * (n - len(labels)) for labels in listed]
        rows = list(zip(*rows, strict=True))
        fitted.fit(_alike(example, rows, natural=True))
        return fitted.set_params(**own.get_params())

    def _fit_to_others(self, own, example, state, empty: list[int]):
        """The encoder of the columns that have a category, as a ColumnTransformer."""
        kept = [j for j in range(len(state)) if j not in empty]
        encoder = own
        if kept:
            part = safe_indexing(example, kept, axis=1)
            encoder = self.fit(
                own, part, {str(k): state[str(j)] for k, j in enumerate(kept)}
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
                (name, encoder if name == "categories" else step, columns)
                for name, step, columns in others.transformers_
            ]
        return others.set_params(transformers=[("categories", clone(own), kept)])


class _PCA(Kind):
    statistic = "scatter"

    def check(self, own):
        if own.svd_solver not in ("auto", "full", "covariance_eigh"):
            what = f"PCA(svd_solver={own.svd_solver!r}) is no function of sums"
            raise NotPooledError(f"{what}: set svd_solver='covariance_eigh'.")
        if own.n_components == "mle":
            raise NotPooledError("PCA cannot choose by 'mle': give n_components.")

    def n_columns_out(self, own, n_columns, state):
        return len(state["axes"])

    def state(self, own, pooled):
        n, mean, d = pooled["n_rows"], pooled["mean"], len(pooled["mean"])
        scatter = np.zeros((d, d))
        scatter[np.triu_indices(d)] = pooled["triangle"]
        values, vectors = eigh(scatter / max(n - 1.0, 1.0), lower=False)
        values, axes = np.maximum(values[::-1], 0.0), vectors[:, ::-1].T
        kept = min(n, d) if own.n_components is None else own.n_components
        if isinstance(own.n_components, float):
            share = np.cumsum(values) / values.sum()
            kept = np.searchsorted(share, own.n_components, side="right") + 1
        kept, most = int(kept), min(n, d)
        if kept > most:
            rows = f"{n:.0f} rows of {d} columns has at most {most:.0f}"
            raise ValueError(f"PCA(n_components={kept}) of {rows}.")
        # The largest number of each axis is positive.
        largest = axes[np.arange(d), np.argmax(np.abs(axes), axis=1)]
        axes = axes * np.where(largest < 0, -1.0, 1.0)[:, None]
        return {"n_rows": n, "mean": mean, "values": values, "axes": axes[:kept]}

    def fit(self, own, example, state):
        fitted = clone(own).set_params(n_components=None, svd_solver="full")
        fitted.fit(_alike(example, np.eye(2, len(state["mean"]))))
        fitted.set_params(**own.get_params())
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

    def error(self, own, state):
        values, kept = state["values"], len(state["axes"])
        if kept == len(values):
            return 0.0
        gap = values[kept - 1] - values[kept]
        return np.inf if gap <= _GAP * values[0] else 0.0


class _Scaler(Kind):
    """What looks at the smallest and the largest value of each column."""

    by_column, statistic = True, "extremes"

    def fit(self, own, example, state):
        rows = state["rows"] if "rows" in state else [state["low"], state["high"]]
        return clone(own).fit(_alike(example, rows))


class _Edges(_Scaler):
    """KBinsDiscretizer and SplineTransformer, of bounds or of a grid."""

    by_column = False

    def __init__(self, word: str) -> None:
        self.word = word

    def check(self, own):
        given = getattr(own, self.word)
        if given not in ("uniform", "quantile"):
            what = f"{type(own).__name__}({self.word}={given!r})"
            words = "'uniform' and 'quantile' are"
            raise NotPooledError(f"{what} is no function of bounds or counts: {words}.")

    def asks(self, own):
        return "extremes" if getattr(own, self.word) == "uniform" else "histogram"

    def n_columns_out(self, own, n_columns, state):
        if self.word == "knots":
            return n_columns * _n_splines(own)
        if own.encode == "ordinal":
            return n_columns
        return int(np.sum(np.broadcast_to(own.n_bins, n_columns)))

    def n_numbers(self, own, n_columns):
        # A unit matrix of the splines of a column.
        return _n_splines(own) ** 2 if self.word == "knots" else 0

    def n_working_numbers(self, own, n_columns):
        return _n_splines(own) if self.word == "knots" else n_columns

    def is_sparse(self, own):
        return self.word == "strategy" and own.encode == "onehot"

    def state(self, own, pooled):
        if self.asks(own) == "extremes":
            return dict(pooled)
        n = own.n_knots if self.word == "knots" else np.max(own.n_bins) + 1
        return _on_grid(pooled, np.linspace(0.0, 1.0, int(n)))


class _Quantiles(_OfGrid):
    def state(self, own, pooled):
        counts = pooled["cumulative"][:, -1]
        n = int(min(own.n_quantiles, max(counts.max(), 1)))
        return _on_grid(pooled, np.linspace(0, 1, n))

    def fit(self, own, example, state):
        rows = state["rows"]
        fitted = clone(own).set_params(n_quantiles=len(rows), subsample=None)
        fitted.fit(_alike(example, rows))
        return fitted.set_params(**own.get_params())


class _RobustScaler(_OfGrid):
    def state(self, own, pooled):
        low, high = own.quantile_range
        return _on_grid(pooled, [low / 100, 0.5, high / 100])

    def fit(self, own, example, state):
        fitted = super().fit(own, example, state)
        low, middle, high = state["rows"]
        if own.with_centering:
            fitted.center_ = middle
        if own.with_scaling:
            # What the range of a step of one, of a unit normal, is to be divided by.
            at = np.array(own.quantile_range) / 100
            unit = np.subtract(*ndtri(at)[::-1]) if own.unit_variance else 1.0
            size = (high - low) / unit
            fitted.scale_ = np.where(size < 10 * _EPS, 1.0, size)
        return fitted


class _PowerTransformer(Kind):
    by_column = True

    def asks(self, own):
        return "powers" if own.method == "yeo-johnson" else "box_powers"

    def state(self, own, pooled):
        likeliest = LikeliestPowers.of_sums(
            counts=pooled["counts"],
            means=pooled["means"],
            squares=pooled["squares"],
            slopes=pooled["slopes"],
            box=own.method == "box-cox",
            precision=pooled["precision"],
        )
        return {
            "powers": likeliest.powers,
            "counts": pooled["counts"],
            "means": likeliest.means,
            "squares": likeliest.squares,
            "width": likeliest.errors,
        }

    def fit(self, own, example, state):
        d = len(state["powers"])
        rows = np.linspace(1.0, 2.0, 5)[:, None] * np.ones(d)
        fitted = clone(own).fit(_alike(example, rows))
        fitted.lambdas_ = state["powers"]
        if own.standardize:
            scaler = _StandardScaler().fit(prep.StandardScaler(), rows, state)
            fitted._scaler = scaler.set_params(copy=False)
        return fitted


def _on_grid(pooled: Mapping, at) -> dict:
    """Quantiles of columns, "rows" of counts on a grid; "width" of its bins."""
    at, found = np.asarray(at), []
    columns = (pooled[name] for name in ("cumulative", "low", "high"))
    for cumulative, low, high in zip(*columns, strict=True):
        edges = np.linspace(low, high, N_BINS + 1)
        n = max(cumulative[-1], 1.0)
        # The bin that so many rows end in, and how much of it.
        rank = np.clip(at * n, 0.5, n)
        bins = np.clip(np.searchsorted(cumulative, rank), 1, N_BINS)
        below, upto = cumulative[bins - 1], cumulative[bins]
        part = np.clip((rank - below) / np.maximum(upto - below, 1.0), 0.0, 1.0)
        found.append(edges[bins - 1] + part * (edges[bins] - edges[bins - 1]))
    width = (np.asarray(pooled["high"]) - pooled["low"]) / N_BINS
    return {"rows": np.stack(found, axis=1), "width": width}


def _n_splines(own: prep.SplineTransformer) -> int:
    """Splines of a column, of one or two fewer where ends are joined or left out."""
    return own.n_knots + own.degree


def _groups_rare(own) -> bool:
    return own.min_frequency is not None or own.max_categories is not None


def _rare(own, told: Mapping, n_rows: float) -> list[int]:
    counts = list(told["counts"])
    if isinstance(own, prep.OneHotEncoder):  # to which what is missing is a category
        counts += [told[name] for name in ("none", "nan") if told[name]]
    least, most = own.min_frequency or 0, own.max_categories
    rare = np.array(counts) < (least * n_rows if isinstance(least, float) else least)
    if most is not None and most <= np.sum(~rare):
        rare[np.argsort(counts, kind="stable")[: len(counts) - most + 1]] = True
    if len(rare) and rare.all():
        what = "set a lower min_frequency, or more max_categories"
        raise ValueError(f"all categories of a column are infrequent: {what}.")
    return np.flatnonzero(rare).tolist()


def _alike(example, rows, *, natural=False):
    """Rows as a table of the form of an example; ``natural``: whole numbers, too."""
    rows = np.array(list(map(list, rows)), dtype=object)
    if hasattr(example, "columns"):
        text, columns = Columns.of(example).text, {}
        for name, own, values in zip(example.columns, text, rows.T, strict=True):
            dtype = object if own else None if natural else example[name].dtype
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
