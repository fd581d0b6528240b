"""Counts, means and scatter of rows by class: sums that add up over nodes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse
from sklearn.utils.extmath import safe_sparse_dot

from ._compact import compacted, expanded
from ._rows import (
    Moments,
    block_bytes,
    check_sizes,
    clear_constants,
    directions,
    float_type,
    indicator,
    rounding,
    rounding_of_values,
)

# The group of rows whose scatter is not by class.
SHARED = -1
# Rows whose median is the origin: enough for one of them to be far off.
_ORIGIN_ROWS = 25
# Of so few any one will do.
_FEW_ROWS = 8
# Means that differ by less than so many units in the last place are equal.
_ULPS = 16
_TINY = np.finfo(np.float64).tiny


@dataclass(frozen=True, eq=False, repr=False)
class ClassMoments:
    """Sums by part (a class or its cluster), less an origin; they add up."""

    origin: np.ndarray  # (n_features,), a point among the rows
    columns: np.ndarray  # (n_parts,), the class of each part
    counts: np.ndarray  # (n_parts,), rows of each part, or their weight
    means: np.ndarray  # (n_parts, n_features), less the origin
    groups: np.ndarray  # (n_groups,), class of a scatter, or -1
    group_counts: np.ndarray  # (n_groups,), rows or weight
    # (n_groups, n_features, n_features); (n_groups, n_features) where only squares.
    scatter: np.ndarray
    # (n_classes, n_features), of classes with a part, where some have no own scatter.
    squares: np.ndarray | None = None
    part_squares: np.ndarray | None = None  # of each part, where classes are divided
    # (n_roots, n_features), rows whose products sum to the matrices of which `scatter`
    # has the diagonals; and the index of the group of each.
    roots: np.ndarray | None = None
    root_groups: np.ndarray | None = None

    @property
    def n_features(self) -> int:
        return len(self.origin)

    @property
    def is_diagonal(self) -> bool:
        return self.scatter.ndim == 2

    @property
    def n_rows(self) -> float:
        return float(self.counts.sum())

    def as_arrays(self, *, dtype: str = "float64", rank: int | None = None) -> dict:
        """Arrays of a message, by name; matrices as upper "triangles", row by row."""
        arrays = {name: own for name, own in vars(self).items() if own is not None}
        if self.roots is not None:
            del arrays["scatter"]  # which roots have
            if dtype != "float64":
                arrays["roots"] = self.roots.astype(np.float32)
            return arrays
        if dtype != "float64" or rank is not None:
            return compacted(arrays, dtype, rank)
        if not self.is_diagonal:
            # Row by row: an index of each entry would be larger than the matrices.
            scatter = arrays.pop("scatter")
            rows = [scatter[:, i, i:] for i in range(self.n_features)]
            arrays["triangles"] = np.concatenate(rows, axis=1)
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> "ClassMoments":
        arrays = dict(arrays)
        if "roots" in arrays:
            groups, roots = arrays["root_groups"], arrays["roots"].astype(np.float64)
            one_hot = indicator(groups, len(arrays["groups"]))
            return cls(**arrays | {"roots": roots, "scatter": one_hot @ roots**2})
        if "deviations" in arrays:
            arrays = expanded(arrays)
        if "triangles" in arrays:
            n_features = len(arrays["origin"])
            triangles = arrays.pop("triangles")
            scatter = np.empty((len(triangles), n_features, n_features))
            stop = 0
            for i in range(n_features):
                start, stop = stop, stop + n_features - i
                scatter[:, i, i:] = scatter[:, i:, i] = triangles[:, start:stop]
            arrays["scatter"] = scatter
        return cls(**arrays)

    def renamed(self, columns: np.ndarray) -> "ClassMoments":
        """The same with other numbers for the classes: ``columns[c]`` for class c."""
        groups = np.where(self.groups < 0, SHARED, columns[self.groups])
        own, squares = columns[self.columns], self.squares
        if squares is not None:
            squares = squares[np.argsort(columns[np.unique(self.columns)])]
        return replace(self, columns=own, groups=groups, squares=squares)

    def about(self, origin: np.ndarray) -> "ClassMoments":
        return replace(self, origin=origin, means=self.means + (self.origin - origin))

    def weighted(self, factor: float) -> "ClassMoments":
        """The same as if there were so many times the rows."""
        names = ("counts", "group_counts", "scatter", "squares", "part_squares")
        factors = dict.fromkeys(names, factor) | {"roots": np.sqrt(factor)}
        given = {name: own for name, own in vars(self).items() if own is not None}
        sums = {name: factors[name] * given[name] for name in factors if name in given}
        return replace(self, **sums)

    def with_matrices(self, n_classes: int) -> "ClassMoments":
        """The same with the matrices that roots are of: as "auto" has them, or none."""
        if self.roots is None:
            return self
        plain = replace(self, roots=None, root_groups=None)
        kind = moments_kind("auto", self.n_features, n_classes)
        if kind == "diagonal":
            return plain
        if kind == "class":
            own = [self.roots[self.root_groups == g] for g in range(len(self.groups))]
            return replace(plain, scatter=np.stack([rows.T @ rows for rows in own]))
        of_classes = dict(zip(self.groups.tolist(), self.scatter, strict=True))
        squares = [of_classes[c] for c in np.unique(self.columns).tolist()]
        found = {"groups": np.array([SHARED]), "squares": np.stack(squares)}
        found["group_counts"] = self.group_counts.sum(keepdims=True)
        return replace(plain, scatter=(self.roots.T @ self.roots)[None], **found)

    def with_zero_covariances(self) -> "ClassMoments":
        """Variances as matrices, so that they can be merged with those of others."""
        if not self.is_diagonal or self.roots is not None:
            return self
        n_features = self.n_features
        scatter = np.zeros((len(self.groups), n_features, n_features))
        scatter[:, np.arange(n_features), np.arange(n_features)] = self.scatter
        return replace(self, scatter=scatter)

    def some_parts(self, index: np.ndarray) -> "ClassMoments":
        names = ("columns", "counts", "means", "part_squares")
        parts = {name: getattr(self, name) for name in names}
        parts = {name: own[index] for name, own in parts.items() if own is not None}
        return replace(self, **parts)

    def squares_of_parts(self) -> np.ndarray | None:
        """Those of each part; None where classes have several and only sums are known.

        Of a class that is a single part they are those of its scatter.
        """
        if self.part_squares is not None:
            return self.part_squares
        if len(np.unique(self.columns)) < len(self.columns):
            return None
        by_group = dict(zip(self.groups.tolist(), self.diagonals(), strict=True))
        if not by_group.keys() >= set(self.columns.tolist()):
            return None
        return np.stack([by_group[c] for c in self.columns.tolist()])

    def without_scatter(self) -> "ClassMoments":
        """Counts and means alone: what is kept of many nodes once they are summed."""
        none = dict.fromkeys(("squares", "part_squares", "roots", "root_groups"))
        empty = {"groups": self.groups[:0], "group_counts": np.zeros(0)}
        scatter = np.zeros((0, *self.scatter.shape[1:]))
        return replace(self, scatter=scatter, **empty, **none)

    def mean(self) -> np.ndarray:
        return weighted_mean(self.means, self.counts)

    def class_counts(self, n_classes: int) -> np.ndarray:
        return np.bincount(self.columns, weights=self.counts, minlength=n_classes)

    def by_class(self) -> "ClassMoments":
        """One part a class: what lies between parts of one joins its scatter."""
        return self.merged_parts(self.columns)

    def logit_size(self, W: np.ndarray) -> float:
        """Root mean square of a linear model's logits on rows, less their mean."""
        W = W - W.mean(axis=1, keepdims=True)
        V = W[:-1]
        level = W[-1] + self.origin @ V
        squares = self.counts @ (self.means @ V + level) ** 2 / self.counts.sum()
        within = self.within()
        moved = within[:, None] * V if self.is_diagonal else within @ V
        squares = squares + np.maximum(np.einsum("ij,ij->j", V, moved), 0.0)
        return float(np.sqrt(np.mean(squares)))

    def merged_parts(self, labels: np.ndarray) -> "ClassMoments":
        """Parts of one label made one; what is between joins their class's scatter."""
        first, counts, means, away = self.merged_means(labels)
        if len(first) == len(labels):
            return self
        found = {"columns": self.columns[first], "counts": counts, "means": means}
        found["scatter"] = scatter = self.scatter.copy()
        for g, share in enumerate(self.shares_of_parts()):
            own = np.flatnonzero(share)
            weight = self.counts[own] * share[own]
            scatter[g] += products(away[own], weight, self.is_diagonal)
        if self.squares is not None:
            _, place = np.unique(self.columns, return_inverse=True)
            one_hot = indicator(place, len(self.squares), self.counts)
            found["squares"] = self.squares + one_hot @ away**2
        if self.part_squares is not None:
            _, place = np.unique(labels, return_inverse=True)
            added = self.part_squares + self.counts[:, None] * away**2
            found["part_squares"] = indicator(place, len(first)) @ added
        return replace(self, **found)

    def merged_means(self, labels: np.ndarray):
        """By label: first parts, counts and means; and how far parts are from these."""
        _, first, place = np.unique(labels, return_index=True, return_inverse=True)
        one_hot = indicator(place, len(first))
        counts = one_hot @ self.counts
        # As moves from one of them: the mean of equal means is exactly what they are.
        base = self.means[first]
        moves = one_hot @ (self.counts[:, None] * (self.means - base[place]))
        means = base + moves / np.maximum(counts, _TINY)[:, None]
        return first, counts, means, deviations(self.means, means[place])

    def shares_of_parts(self) -> np.ndarray:
        """How much of each part's rows each scatter is of, (n_groups, n_parts)."""
        sizes = np.bincount(self.columns, weights=self.counts)
        shares = np.zeros((len(self.groups), len(self.columns)))
        for g, group in enumerate(self.groups):
            if group != SHARED:
                own = self.columns == group
                shares[g, own] = min(1.0, self.group_counts[g] / sizes[group])
        shares[self.groups == SHARED] = 1.0 - shares.sum(axis=0)
        return shares

    def class_squares(self) -> dict[int, np.ndarray]:
        """Squared deviations from means of parts, by class, where they are known."""
        if self.squares is not None:
            classes = np.unique(self.columns).tolist()
            return dict(zip(classes, self.squares, strict=True))
        groups = zip(self.groups.tolist(), self.diagonals(), strict=True)
        return {group: own for group, own in groups if group != SHARED}

    def within(self) -> np.ndarray:
        return self.scatter.sum(axis=0) / self.group_counts.sum()

    def total(self) -> Moments:
        """Mean and covariance of all rows; ValueError if scatters are diagonal."""
        if self.is_diagonal:
            raise ValueError("A covariance cannot be made of diagonal moments.")
        n_rows, mean = self.counts.sum(), self.mean()
        away = deviations(self.means, mean)
        covariance = self.within()
        covariance += products(away, self.counts / n_rows, diagonal=False)
        return Moments(n_rows, self.origin + mean, covariance)

    def variances(self) -> np.ndarray:
        squares = self.diagonals().sum(axis=0) / self.group_counts.sum()
        away = deviations(self.means, self.mean())
        return squares + self.counts @ away**2 / self.counts.sum()

    def diagonals(self) -> np.ndarray:
        return self.scatter if self.is_diagonal else np.einsum("gii->gi", self.scatter)

    def by_group(self) -> Iterable[tuple[int, float, np.ndarray]]:
        groups = self.groups.tolist()
        return zip(groups, self.group_counts, self.scatter, strict=True)

    def without_rounding(
        self, rounding=rounding_of_values, value=None
    ) -> "ClassMoments":
        """The same without deviations up to ``rounding`` of values; ``value``: then."""
        values = self.origin + self.means
        for group, count, scatter in self.by_group():  # which change in place
            own = values if group == SHARED else values[self.columns == group]
            clear_constants(scatter, count * np.square(rounding(own)))
        found, constant = {}, self.variances() <= np.square(rounding(values))
        if self.squares is not None:
            varies = self.diagonals().any(axis=0) & ~constant
            found["squares"] = np.where(varies, self.squares, 0.0)
        if constant.any():
            for scatter in self.scatter:
                clear_constants(scatter, np.where(constant, np.inf, -1.0))
            value = self.means[np.argmax(self.counts)] if value is None else value
            found["means"] = np.where(constant, value, self.means)
        if self.part_squares is not None:
            found["part_squares"] = np.where(constant, 0.0, self.part_squares)
        return replace(self, **found)


# kind="auto": different numbers that a node's scatter matrices may have, 64 MB.
_MOST_NUMBERS = 8e6
# Of fewer features matrices are small, whatever the rows.
_FEWEST_FEATURES = 200


def moments_kind(kind: str, n_features: int, n_classes: int, n_rows=np.inf) -> str:
    """What "auto" is: the first kind whose matrices have at most 8 million numbers."""
    if kind != "auto":
        return kind
    few = _FEWEST_FEATURES < n_features and n_rows < n_features
    if few and n_rows * n_features <= _MOST_NUMBERS:
        return "roots"
    if n_classes * n_features**2 / 2 <= _MOST_NUMBERS:
        return "class"
    return "shared" if n_features**2 / 2 <= _MOST_NUMBERS else "diagonal"


@np.errstate(over="ignore", invalid="ignore")  # what is too large is an error
def class_moments(
    X,
    y: np.ndarray,
    *,
    kind: str = "class",  # "shared", with squares by class; "diagonal"; "roots"
    parts: np.ndarray | None = None,  # (n_rows,), clusters, each of one class
    min_cluster_size: int = 1,  # a class with a smaller part is not divided
    weights: np.ndarray | None = None,  # (n_rows,)
) -> ClassMoments:
    """Counts, means and scatter of rows by class, in float64 and one pass."""
    if X.shape[0] == 0:
        raise ValueError("X has no rows.")
    classes, codes, sizes = np.unique(y, return_inverse=True, return_counts=True)
    large = large_classes(sizes, min_cluster_size)
    divided = parts is not None and kind != "roots"
    if parts is None:
        parts = codes
    else:  # those of a class that has too small a one are made one
        _, places, rows = np.unique(parts, return_inverse=True, return_counts=True)
        joined = np.isin(codes, codes[rows[places] < min_cluster_size])
        parts = np.where(joined, places.max() + 1 + codes, places)
    _, first, places = np.unique(parts, return_index=True, return_inverse=True)
    order = np.argsort(codes[first], kind="stable")
    places, columns = np.argsort(order)[places], codes[first][order]
    group_of, groups = np.zeros(len(classes), dtype=np.intp), np.array([SHARED])
    if kind != "shared":  # small classes, if there are any, share the last group
        group_of = np.where(large, np.cumsum(large) - 1, large.sum())
        groups = np.append(classes[large], [] if large.all() else groups)
    # The scatter of a few rows of small classes would say what these are.
    n_sent = len(groups)
    if kind != "shared" and not large.all():
        n_sent -= sizes[~large].sum() < min_cluster_size
    group_of_part, shifts = group_of[columns], _shifts(X, places, len(columns))
    n_features, diagonal = X.shape[1], kind in ("diagonal", "roots")
    scatter = np.zeros((len(groups), *[n_features] * (1 if diagonal else 2)))
    squares = np.zeros_like(shifts) if kind == "shared" or divided else None
    sums = _add_sums(X, places, shifts, group_of_part, weights, scatter, squares)
    counts = np.bincount(places, weights=weights).astype(np.float64)
    means = sums / np.maximum(counts, _TINY)[:, None]
    for g in range(len(groups)):
        own = group_of_part == g
        scatter[g] -= products(means[own], counts[own], diagonal)
    part_squares = None
    if squares is not None:
        squares = np.maximum(squares - counts[:, None] * means**2, 0.0)
        part_squares = squares if divided else None
        one_hot = indicator(columns, len(classes))
        squares = one_hot @ squares if kind == "shared" else None
    origin = median_of_rows(X, np.flatnonzero(large[codes]), min_cluster_size > 1)
    parts = origin, classes[columns], counts, shifts - origin + means
    of_groups = groups.astype(np.intp), np.bincount(group_of_part, counts, len(groups))
    moments = ClassMoments(*parts, *of_groups, scatter, squares, part_squares)
    centres, most = shifts + means, moments.diagonals().max(axis=0)
    check_sizes(np.abs(centres).max(axis=0), most, float_type(X))
    moments = moments.without_rounding(
        lambda values: rounding(np.abs(values).max(axis=0, initial=0.0), X),
        # A constant is sent as rows have it.
        X.max(axis=0).toarray() if sparse.issparse(X) else 0.0,
    )
    names = ("groups", "group_counts", "scatter")
    sent = {name: getattr(moments, name)[:n_sent] for name in names}
    squares = None if squares is None else moments.squares[large]
    moments = replace(moments.some_parts(large[columns]), **sent, squares=squares)
    if kind != "roots":
        return moments
    of_group = group_of_part[places]
    rows = [np.flatnonzero(of_group == g) for g in range(n_sent)]
    found = [_roots(X, own, centres[places], weights) for own in rows]
    root_groups = np.repeat(np.arange(n_sent), [len(own) for own in found])
    # Constants but for rounding are none.
    roots = np.concatenate(found) * (moments.scatter > 0)[root_groups]
    return replace(moments, roots=roots, root_groups=root_groups)


def merge_moments(moments: Iterable[ClassMoments]) -> ClassMoments:
    """The moments of all rows of several; parts are kept, scatters summed by class."""
    merged, parts, of_parts, sums, totals = None, [], [], {}, {}
    squares, by_class, are_divided = {}, False, False
    for own in moments:
        if merged is None:
            merged = own
        n, others = own.n_features, merged.n_features
        if n != others:
            raise ValueError(f"{n} features cannot be merged with moments of {others}.")
        if own.is_diagonal != merged.is_diagonal:
            raise ValueError("Diagonal moments cannot be merged with whole ones.")
        parts.append((own.columns, own.counts, own.about(merged.origin).means))
        are_divided |= own.part_squares is not None
        of_parts.append(own.squares_of_parts())
        for group, count, scatter in own.by_group():
            if group in sums:
                sums[group] += scatter
            else:
                sums[group] = scatter.copy()
            totals[group] = totals.get(group, 0.0) + count
        by_class = by_class or own.squares is not None
        for c, of_class in own.class_squares().items():
            # A copy: what it is a view of is not to be held.
            squares[c] = squares.get(c, 0.0) + of_class
    if merged is None:
        raise ValueError("There are no moments to merge.")
    groups = sorted(sums, key=lambda group: (group == SHARED, group))
    columns, counts, means = (np.concatenate(own) for own in zip(*parts, strict=True))
    kept = np.array(groups, dtype=np.intp), np.array([totals[own] for own in groups])
    scatter = np.stack([sums.pop(group) for group in groups])
    squares = np.stack([squares[c] for c in sorted(squares)]) if by_class else None
    part_squares = None
    if are_divided and all(own is not None for own in of_parts):
        part_squares = np.concatenate(of_parts)
    found = merged.origin, columns, counts, means, *kept, scatter, squares, part_squares
    return ClassMoments(*found).without_rounding()


def _roots(X, rows, centres, weights) -> np.ndarray:
    """Fewest rows whose products sum to those of some rows less their centres."""
    block = X[rows].toarray() if sparse.issparse(X) else X[rows]
    block = block.astype(np.float64) - centres[rows]
    if weights is not None:
        block *= np.sqrt(weights[rows])[:, None]
    return directions(block @ block.T)[1].T @ block


def large_classes(sizes: np.ndarray, min_cluster_size: int) -> np.ndarray:
    """Which classes have so many rows; ValueError if none has."""
    large = sizes >= max(min_cluster_size, 1)
    if not large.any():
        raise ValueError(f"no class has min_cluster_size={min_cluster_size} rows.")
    return large


def median_of_rows(X, rows, whole: bool = False) -> np.ndarray:
    """Of some of the rows; a feature that is constant has exactly its value."""
    if sparse.issparse(X):
        return np.zeros(X.shape[1])
    chosen = np.linspace(0, len(rows) - 1, min(_ORIGIN_ROWS, len(rows)))
    if len(rows) <= _FEW_ROWS and not whole:
        return X[rows[0]].astype(np.float64)
    # Rounded as the rows are, so that differences of theirs are exact.
    median = np.median(X[rows[chosen.astype(np.intp)]], axis=0)
    return median.astype(X.dtype).astype(np.float64)


def _shifts(X, places, n_parts) -> np.ndarray:
    """Points amid the parts, which may lie far apart: one for all would cost digits."""
    order = np.argsort(places, kind="stable")
    ends = np.cumsum(np.bincount(places, minlength=n_parts))
    return np.stack([median_of_rows(X, rows) for rows in np.split(order, ends[:-1])])


def _add_sums(X, places, shifts, group_of, weights, totals, of_parts) -> np.ndarray:
    """Sums of parts about shifts, and products added to ``totals``, ``of_parts``."""
    sums, diagonal = np.zeros_like(shifts), totals.ndim == 2
    typed = shifts.astype(float_type(X), copy=False)
    # Rows of one part after those of another, so that each product is of one group.
    order = np.argsort(places, kind="stable")
    ordered = places[order]
    changes = np.flatnonzero(np.diff(group_of[ordered])) + 1
    for start, stop in _blocks(X, changes, len(order)):
        chosen, own = order[start:stop], ordered[start:stop]
        g = group_of[own[0]]
        weight = None if weights is None else weights[chosen]
        block = X[chosen]
        ends = np.flatnonzero(np.diff(own, append=-1)) + 1
        parts = own[ends - 1]
        if sparse.issparse(block):
            block = block.astype(np.float64, copy=False)
            one_hot = indicator(np.searchsorted(parts, own), len(parts), weight)
            sums[parts] += safe_sparse_dot(one_hot, block, dense_output=True)
            weighted = block if weight is None else sparse.diags(weight) @ block
            if diagonal:
                totals[g] += np.asarray(block.multiply(weighted).sum(axis=0)).ravel()
            else:
                totals[g] += safe_sparse_dot(block.T, weighted, dense_output=True)
            if of_parts is not None:
                of_parts[parts] += (one_hot @ block.power(2)).toarray()
            continue
        ones = np.ones(len(own)) if weight is None else weight
        ones = ones.astype(block.dtype)
        for part, begin, end in zip(parts, [0, *ends[:-1]], ends, strict=True):
            block[begin:end] -= typed[part]
            sums[part] += ones[begin:end] @ block[begin:end]
        if weight is not None:
            block *= np.sqrt(weight).astype(block.dtype)[:, None]
        if diagonal:
            totals[g] += np.einsum("ij,ij->j", block, block, dtype=np.float64)
        else:
            totals[g] += block.T @ block
        if of_parts is not None:
            for part, begin, end in zip(parts, [0, *ends[:-1]], ends, strict=True):
                of_part = block[begin:end]
                of_parts[part] += np.einsum("ij,ij->j", of_part, of_part, dtype=float)
    return sums


def _blocks(X, changes, n_rows: int):
    """Where blocks of rows start and end, within memory and a core's cache."""
    size = n_rows
    if not sparse.issparse(X):
        size = max(1, block_bytes() // (max(X.shape[1], 1) * float_type(X).itemsize))
    for start, stop in zip([0, *changes], [*changes, n_rows], strict=True):
        for i in range(start, stop, size):
            yield i, min(i + size, stop)


def products(rows: np.ndarray, weights: np.ndarray, diagonal: bool) -> np.ndarray:
    if diagonal:
        return weights @ rows**2
    rooted = np.sqrt(weights)[:, None] * rows
    return rooted.T @ rooted


def weighted_mean(means: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Of means; exactly theirs where these are equal."""
    base = means[np.argmax(weights)]
    return base + weights @ (means - base) / weights.sum()


def deviations(means: np.ndarray, center: np.ndarray) -> np.ndarray:
    """Means less a center, 0 where that is rounding: constants are to stay constant."""
    away = means - center
    noise = _ULPS * np.finfo(np.float64).eps * np.abs(means).max(axis=0, initial=0.0)
    away[np.abs(away) <= noise] = 0.0
    return away
