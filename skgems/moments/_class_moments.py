"""Counts, means and scatter of rows by class: sums that add up over nodes.

Rows belong to parts: a part is a class, or a cluster of the rows of one class. Of the
rows x of a part p there are, less an origin o that all parts share,

    n_p = sum w,    m_p = sum w (x - o) / n_p,

with w = 1 unless rows have weights; and of a group of parts the scatter about their
means, either as a matrix, as its diagonal or as few rows R whose products it is:

    S = sum_p sum w (x - o - m_p)(x - o - m_p)^T = R^T R.

Moments of several nodes are merged by adding up scatters of the same class, while parts
stand side by side. Where parts p, q are made one, what lies between them joins the
scatter: with the common mean m, ``n_p (m_p - m)(m_p - m)^T`` of each.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from ..disclosure import indicator
from ._codes import code_units, noise_of_rows, with_noise
from ._pairs import SHARED, Pairs
from ._part_sums import median_of_rows, products, sum_parts
from ._rows import (
    CACHE_BYTES,
    MOST_NUMBERS,
    ULPS,
    Moments,
    Rows,
    check_sizes,
    clear_constants,
    directions,
    float_type,
    rounding,
    rounding_of_values,
)

# Divisor of sums of parts without weight, which are 0.
_TINY = np.finfo(np.float64).tiny


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
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
    # (n_classes, n_features), of classes with a part, where some have no scatter that
    # is theirs alone.
    squares: np.ndarray | None = None
    # (n_parts, n_features), of each part, where classes are divided into clusters.
    part_squares: np.ndarray | None = None
    # (n_roots, n_features), rows whose products sum to the matrices of which `scatter`
    # has the diagonals; and the index of the group of each.
    roots: np.ndarray | None = None
    root_groups: np.ndarray | None = None
    # (n_features,), bool: those of which the scatter of several classes together has
    # products, 0 for the others. None: of all.
    block: np.ndarray | None = None

    @property
    def n_features(self) -> int:
        return len(self.origin)

    @property
    def is_diagonal(self) -> bool:
        """Report whether `scatter` has squares alone, as it has beside roots, too."""
        return self.scatter.ndim == 2

    @property
    def n_rows(self) -> float:
        """Number of rows, or their weight."""
        return float(self.counts.sum())

    def as_told(self) -> "ClassMoments":
        """Return the moments as a message carries them, without making it.

        These have the scatter of roots, and matrices that are symmetric to the bit.
        """
        if self.roots is None and (self.is_diagonal or self._are_matrices_symmetric()):
            return self
        return ClassMoments.from_content(self.as_content())

    def _are_matrices_symmetric(self) -> bool:
        matrices = self.scatter
        is_in_order = matrices.flags.c_contiguous and matrices.dtype == np.float64
        return is_in_order and np.array_equal(matrices, matrices.swapaxes(1, 2))

    def as_content(self) -> dict:
        """Return the arrays of a message, by name; matrices as upper "triangles"."""
        arrays = {
            name: array for name, array in vars(self).items() if array is not None
        }
        if self.roots is not None:
            del arrays["scatter"]  # the sum of the squares of the roots
        elif not self.is_diagonal:
            arrays["triangles"] = _triangles(arrays.pop("scatter"))
        return arrays

    @classmethod
    def from_content(cls, content: Mapping[str, np.ndarray]) -> "ClassMoments":
        """Return the moments that `as_content` made these arrays of."""
        fields = dict(content)
        if "roots" in fields:
            one_hot = indicator(fields["root_groups"], len(fields["groups"]))
            fields["scatter"] = one_hot @ fields["roots"] ** 2
        if "triangles" in fields:
            fields["scatter"] = _matrices_of_triangles(
                fields.pop("triangles"), n_features=len(fields["origin"])
            )
        return cls(**fields)

    def renamed(self, columns: np.ndarray) -> "ClassMoments":
        """Return moments with other numbers for classes: ``columns[c]`` for class c."""
        squares = self.squares
        if squares is not None:
            squares = squares[np.argsort(columns[np.unique(self.columns)])]
        return replace(
            self,
            columns=columns[self.columns],
            groups=np.where(self.groups < 0, SHARED, columns[self.groups]),
            squares=squares,
        )

    def with_origin(self, origin: np.ndarray) -> "ClassMoments":
        """Return the moments with means less another origin."""
        return replace(self, origin=origin, means=self.means + (self.origin - origin))

    def weighted(self, factor: float) -> "ClassMoments":
        """Return the moments of ``factor`` times the rows."""

        def times_factor(sums: np.ndarray | None) -> np.ndarray | None:
            return None if sums is None else factor * sums

        return replace(
            self,
            counts=factor * self.counts,
            group_counts=factor * self.group_counts,
            scatter=factor * self.scatter,
            squares=times_factor(self.squares),
            part_squares=times_factor(self.part_squares),
            # Their squares are the sums.
            roots=None if self.roots is None else np.sqrt(factor) * self.roots,
        )

    def with_matrices(self, n_classes: int) -> "ClassMoments":
        """Return moments with the matrices of roots that "auto" has, or with none."""
        if self.roots is None:
            return self
        rootless = replace(self, roots=None, root_groups=None)
        kind = moments_kind("auto", self.n_features, n_classes)
        if kind == "diagonal":
            return rootless
        if kind == "class":
            roots_by_group = [
                self.roots[self.root_groups == g] for g in range(len(self.groups))
            ]
            scatter = np.stack([roots.T @ roots for roots in roots_by_group])
            return replace(rootless, scatter=scatter)
        squares_by_group = dict(zip(self.groups.tolist(), self.scatter, strict=True))
        classes = np.unique(self.columns).tolist()
        return replace(
            rootless,
            groups=np.array([SHARED]),
            group_counts=self.group_counts.sum(keepdims=True),
            scatter=(self.roots.T @ self.roots)[None],
            squares=np.stack([squares_by_group[c] for c in classes]),
        )

    def with_zero_covariances(self) -> "ClassMoments":
        """Variances as matrices, so that they can be merged with those of others."""
        if not self.is_diagonal or self.roots is not None:
            return self
        n_features = self.n_features
        scatter = np.zeros((len(self.groups), n_features, n_features))
        scatter[:, np.arange(n_features), np.arange(n_features)] = self.scatter
        return replace(self, scatter=scatter)

    def with_constants(
        self, is_constant: np.ndarray, values: np.ndarray
    ) -> "ClassMoments":
        """Return moments in which some features have one value in all rows.

        Parameters
        ----------
        is_constant : ndarray of bool of shape (n_features,)
        values : ndarray of shape (n_features,)
        """

        def zeroed(sums: np.ndarray | None) -> np.ndarray | None:
            return None if sums is None else np.where(is_constant, 0.0, sums)

        scatter = zeroed(self.scatter)
        if not self.is_diagonal:
            scatter = np.where(is_constant[:, None], 0.0, scatter)
        return replace(
            self,
            origin=np.where(is_constant, values, self.origin),
            means=zeroed(self.means),
            scatter=scatter,
            squares=zeroed(self.squares),
            part_squares=zeroed(self.part_squares),
            roots=zeroed(self.roots),
        )

    def select_features(self, index: np.ndarray) -> "ClassMoments":
        """Return the moments of some features alone, by an index or a mask."""

        def some(sums: np.ndarray | None) -> np.ndarray | None:
            return None if sums is None else sums[..., index]

        scatter = some(self.scatter)
        if not self.is_diagonal:
            scatter = scatter[:, index]
        return replace(
            self,
            origin=some(self.origin),
            means=some(self.means),
            scatter=scatter,
            squares=some(self.squares),
            part_squares=some(self.part_squares),
            roots=some(self.roots),
            block=some(self.block),
        )

    def keep_products_of(self, block: np.ndarray) -> "ClassMoments":
        """Return moments whose shared scatter has products of some columns alone."""
        scatter = self.scatter.copy()
        shared = scatter[self.groups == SHARED]
        is_told = block[:, None] & block | np.eye(len(block), dtype=bool)
        scatter[self.groups == SHARED] = np.where(is_told, shared, 0.0)
        return replace(self, scatter=scatter, block=block)

    def some_parts(self, index: np.ndarray) -> "ClassMoments":
        """Return the moments of some parts, by an index or a mask; scatters stay."""
        part_squares = self.part_squares
        return replace(
            self,
            columns=self.columns[index],
            counts=self.counts[index],
            means=self.means[index],
            part_squares=None if part_squares is None else part_squares[index],
        )

    def squares_of_parts(self) -> np.ndarray | None:
        """Squared deviations within each part, (n_parts, n_features), if known.

        A class that is a single part has those of its scatter. None where classes have
        several parts and only sums over these are known.
        """
        if self.part_squares is not None:
            return self.part_squares
        if len(np.unique(self.columns)) < len(self.columns):
            return None
        squares_by_group = dict(
            zip(self.groups.tolist(), self.diagonals(), strict=True)
        )
        if not squares_by_group.keys() >= set(self.columns.tolist()):
            return None
        return np.stack([squares_by_group[c] for c in self.columns.tolist()])

    def drop_scatter(self) -> "ClassMoments":
        """Return counts and means alone, held of each node once scatters are summed."""
        return replace(
            self,
            groups=self.groups[:0],
            group_counts=np.zeros(0),
            scatter=np.zeros((0, *self.scatter.shape[1:])),
            squares=None,
            part_squares=None,
            roots=None,
            root_groups=None,
            block=None,
        )

    def drop_products(self) -> "ClassMoments":
        """Return moments with squares alone, held of each node; roots stay."""
        # A copy, since what it is a view of would stay in memory.
        return replace(self, scatter=self.diagonals().copy(), block=None)

    def mean(self) -> np.ndarray:
        """Mean of all rows less the origin, (n_features,)."""
        return weighted_mean(self.means, self.counts)

    def class_counts(self, n_classes: int) -> np.ndarray:
        """Rows of each class, or their weight, (n_classes,)."""
        return np.bincount(self.columns, weights=self.counts, minlength=n_classes)

    def by_class(self) -> "ClassMoments":
        """Return one part a class; differences between its parts join its scatter."""
        return self.merged_parts(self.columns)

    def logit_size(self, W: np.ndarray) -> float:
        """Root mean square of a linear model's logits on rows, less their mean.

        With the weights v of an output, its level b, and the covariance Sigma within
        parts it is, in the mean over outputs,

            sum_p n_p (m_p v + b)^2 / sum_p n_p + v^T Sigma v.
        """
        W = W - W.mean(axis=1, keepdims=True)
        V = W[:-1]
        levels = W[-1] + self.origin @ V
        squares = self.counts @ (self.means @ V + levels) ** 2 / self.counts.sum()
        within = self.covariance_within_parts()
        within_V = within[:, None] * V if self.is_diagonal else within @ V
        squares = squares + np.maximum(np.einsum("ij,ij->j", V, within_V), 0.0)
        return float(np.sqrt(np.mean(squares)))

    def merged_parts(self, labels: np.ndarray) -> "ClassMoments":
        """Parts of one label made one; what is between joins their class's scatter."""
        first, counts, means, deviations_of_parts = self.merged_means(labels)
        if len(first) == len(labels):
            return self
        scatter = self.scatter.copy()
        for g, share in enumerate(self.shares_of_parts()):
            parts = np.flatnonzero(share)
            weights = self.counts[parts] * share[parts]
            scatter[g] += products(
                deviations_of_parts[parts], weights, is_diagonal=self.is_diagonal
            )
        squares = self.squares
        if squares is not None:
            _, class_of_part = np.unique(self.columns, return_inverse=True)
            weighted_one_hot = indicator(class_of_part, len(squares), self.counts)
            squares = squares + weighted_one_hot @ deviations_of_parts**2
        part_squares = self.part_squares
        if part_squares is not None:
            _, label_of_part = np.unique(labels, return_inverse=True)
            about_merged = part_squares + self.counts[:, None] * deviations_of_parts**2
            part_squares = indicator(label_of_part, len(first)) @ about_merged
        return replace(
            self,
            columns=self.columns[first],
            counts=counts,
            means=means,
            scatter=scatter,
            squares=squares,
            part_squares=part_squares,
        )

    def merged_means(
        self, labels: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Means of parts of one label, (n_parts,) numbers, taken together.

        Returns
        -------
        first : ndarray of shape (n_labels,)
            The first part of each label; labels are in ascending order.
        counts : ndarray of shape (n_labels,)
        means : ndarray of shape (n_labels, n_features)
        deviations : ndarray of shape (n_parts, n_features)
            Means of the parts less those of their labels.
        """
        _, first, label_of_part = np.unique(
            labels, return_index=True, return_inverse=True
        )
        one_hot = indicator(label_of_part, len(first))
        counts = one_hot @ self.counts
        # As moves from one of them: the mean of equal means is exactly what they are.
        base = self.means[first]
        moves = one_hot @ (self.counts[:, None] * (self.means - base[label_of_part]))
        means = base + moves / np.maximum(counts, _TINY)[:, None]
        return first, counts, means, deviations(self.means, means[label_of_part])

    def shares_of_parts(self) -> np.ndarray:
        """Share of the rows of each part that each scatter has, (n_groups, n_parts).

        A class may have a scatter from nodes that sent it by class, while its rows at
        other nodes are in the shared one: they count there.
        """
        class_sizes = np.bincount(self.columns, weights=self.counts)
        shares = np.zeros((len(self.groups), len(self.columns)))
        for g, group in enumerate(self.groups):
            if group != SHARED:
                share = min(1.0, self.group_counts[g] / class_sizes[group])
                shares[g, self.columns == group] = share
        shares[self.groups == SHARED] = 1.0 - shares.sum(axis=0)
        return shares

    def class_squares(self) -> dict[int, np.ndarray]:
        """Squared deviations from means of parts, by class, where they are known."""
        if self.squares is not None:
            classes = np.unique(self.columns).tolist()
            return dict(zip(classes, self.squares, strict=True))
        squares_by_group = zip(self.groups.tolist(), self.diagonals(), strict=True)
        return {
            group: squares for group, squares in squares_by_group if group != SHARED
        }

    def covariance_within_parts(self) -> np.ndarray:
        """Return the covariance of rows about means of their parts, or variances."""
        return self.scatter.sum(axis=0) / self.group_counts.sum()

    def total(self) -> Moments:
        """Mean and covariance of all rows; ValueError if scatters are diagonal."""
        if self.is_diagonal:
            raise ValueError(
                "These moments have variances alone, of which no covariance of all "
                'rows can be made. Make moments of kind "class" or "shared".'
            )
        n_rows = self.counts.sum()
        mean = self.mean()
        covariance = self.covariance_within_parts()
        covariance += products(
            deviations(self.means, mean), self.counts / n_rows, is_diagonal=False
        )
        return Moments(n_rows=n_rows, mean=self.origin + mean, covariance=covariance)

    def variances(self) -> np.ndarray:
        """Variances of the features over all rows, (n_features,)."""
        within = self.diagonals().sum(axis=0) / self.group_counts.sum()
        mean_deviations = deviations(self.means, self.mean())
        return within + self.counts @ mean_deviations**2 / self.counts.sum()

    def diagonals(self) -> np.ndarray:
        """Squared deviations of each scatter, (n_groups, n_features)."""
        return self.scatter if self.is_diagonal else np.einsum("gii->gi", self.scatter)

    def by_group(self) -> Iterator[tuple[int, float, np.ndarray]]:
        """Class (or SHARED), count and scatter of each group."""
        groups = self.groups.tolist()
        return zip(groups, self.group_counts, self.scatter, strict=True)

    def drop_rounding(
        self,
        rounding: Callable[[np.ndarray], np.ndarray] = rounding_of_values,
        constant_value: np.ndarray | float | None = None,
    ) -> "ClassMoments":
        """Return moments in which features that only rounding varies are constant.

        The scatter of ``self`` changes in place, as matrices may be large: this is for
        sums that were just made and that nobody else has.

        Parameters
        ----------
        rounding : callable
            Takes means as rows have them, (n_means, n_features), and returns the
            deviations that rounding leaves of such, (n_features,).
        constant_value : ndarray of shape (n_features,), or float
            What means of constant features are set to, less the origin. None: the
            mean of the largest part.
        """
        part_means = self.origin + self.means
        for group, count, scatter in self.by_group():
            if group == SHARED:
                group_means = part_means
            else:
                group_means = part_means[self.columns == group]
            clear_constants(scatter, count * np.square(rounding(group_means)))
        is_constant = self.variances() <= np.square(rounding(part_means))
        squares = self.squares
        if squares is not None:
            varies = self.diagonals().any(axis=0) & ~is_constant
            squares = np.where(varies, squares, 0.0)
        means = self.means
        if is_constant.any():
            # Squares are at most inf where a feature is to be cleared, and never -1.
            least = np.where(is_constant, np.inf, -1.0)
            for scatter in self.scatter:
                clear_constants(scatter, least)
            if constant_value is None:
                constant_value = means[np.argmax(self.counts)]
            means = np.where(is_constant, constant_value, means)
        part_squares = self.part_squares
        if part_squares is not None:
            part_squares = np.where(is_constant, 0.0, part_squares)
        return replace(self, means=means, squares=squares, part_squares=part_squares)


def _triangles(scatter: np.ndarray) -> np.ndarray:
    """Upper triangles of matrices, (n_groups, n_features (n_features + 1) / 2).

    Row by row: an index of each number would be larger than the matrices.
    """
    rows = [scatter[:, i, i:] for i in range(scatter.shape[1])]
    return np.concatenate(rows, axis=1)


def _matrices_of_triangles(triangles: np.ndarray, *, n_features: int) -> np.ndarray:
    """The symmetric matrices of `_triangles`, (n_groups, n_features, n_features)."""
    matrices = np.empty((len(triangles), n_features, n_features))
    start = 0
    for i in range(n_features):
        stop = start + n_features - i
        row = triangles[:, start:stop]
        matrices[:, i, i:] = row
        matrices[:, i:, i] = row
        start = stop
    return matrices


def moments_kind(
    kind: str, n_features: int, n_classes: int, n_rows: float = np.inf
) -> str:
    """Replace "auto" by the first kind of at most 8 million numbers in matrices."""
    if kind != "auto":
        return kind
    # Matrices that stay in a cache are cheap however few the rows are.
    is_cheap = 8 * n_features**2 <= CACHE_BYTES
    if not is_cheap and n_rows < n_features and n_rows * n_features <= MOST_NUMBERS:
        return "roots"
    if n_classes * n_features**2 / 2 <= MOST_NUMBERS:
        return "class"
    return "shared" if n_features**2 / 2 <= MOST_NUMBERS else "diagonal"


@dataclass(frozen=True, eq=False, kw_only=True)
class ToldSums:
    """How products are told under a rule of disclosure."""

    block: np.ndarray | None  # of the shared scatter, see `ClassMoments`
    # Whether classes may tell products by themselves beside what they share: noise of
    # these products then is the sum of that of all classes.
    has_classes_beside: bool = False


@np.errstate(over="ignore", invalid="ignore")  # what is too large is an error
def class_moments(
    X: Rows,
    y: np.ndarray,
    *,
    kind: str = "class",  # "shared", with squares by class; "diagonal"; "roots"
    parts: np.ndarray | None = None,  # (n_rows,), clusters, each of one class
    min_cluster_size: int = 1,  # a class with a smaller part is not divided
    weights: np.ndarray | None = None,  # (n_rows,)
    # (n_labels,), bool: classes with a scatter of their own; the others share one.
    has_own: np.ndarray | None = None,
    told: ToldSums | None = None,  # None: single rows may be known
) -> ClassMoments:
    """Counts, means and scatter of rows by class, in float64 and one pass.

    Labels are whole numbers from 0. Classes of fewer than `min_cluster_size` rows have
    no part in what is returned. If their rows together are enough, they share a
    scatter; otherwise they are in none.
    """
    if X.shape[0] == 0:
        raise ValueError(
            "X has no rows, so there is nothing to sum. Pass at least one."
        )
    classes, codes, class_sizes = np.unique(y, return_inverse=True, return_counts=True)
    is_large = large_classes(class_sizes, min_cluster_size)
    is_divided = parts is not None and kind != "roots"
    if parts is None:
        part_of_row = codes
        class_of_part = np.arange(len(classes))
    else:
        part_of_row, class_of_part = _sorted_parts(
            parts, codes, min_cluster_size=min_cluster_size
        )
    groups = _scatter_groups(
        classes,
        class_sizes,
        is_large=is_large,
        is_shared=kind == "shared",
        min_cluster_size=min_cluster_size,
    )
    if has_own is not None and kind != "shared":
        groups = _told_groups(classes, has_own[classes])
    group_of_part = groups.of_class[class_of_part]
    sums = sum_parts(
        X,
        part_of_row,
        group_of_part=group_of_part,
        n_groups=len(groups.names),
        weights=weights,
        is_diagonal=kind in ("diagonal", "roots"),
        with_squares=kind == "shared" or is_divided,
    )
    # Of classes that share a scatter nothing more is told under a rule.
    tells_more = told is None or SHARED not in groups.names
    squares = None
    if kind == "shared" and tells_more:
        squares = indicator(class_of_part, len(classes)) @ sums.squares
    if told is None or sparse.issparse(X):  # that of sparse rows is 0
        large_rows = np.flatnonzero(is_large[codes])
        origin = median_of_rows(X, large_rows)
    else:
        origin = weighted_mean(sums.shifts + sums.means, sums.counts)
    moments = ClassMoments(
        origin=origin,
        columns=classes[class_of_part],
        counts=sums.counts,
        means=sums.shifts - origin + sums.means,
        groups=groups.names,
        group_counts=np.bincount(group_of_part, sums.counts, len(groups.names)),
        scatter=sums.scatter,
        squares=squares,
        part_squares=sums.squares if is_divided and tells_more else None,
    )
    centers = sums.shifts + sums.means  # (n_parts, n_features), as rows have them
    check_sizes(
        np.abs(centers).max(axis=0), moments.diagonals().max(axis=0), float_type(X)
    )
    moments = moments.drop_rounding(
        lambda means: rounding(np.abs(means).max(axis=0, initial=0.0), X),
        _values_of_constants(X, tells_rows=told is None),
    )
    moments = _select_large_classes(
        moments,
        n_groups=groups.n_sent,
        is_large_part=is_large[class_of_part],
        is_large_class=is_large,
    )
    if told is not None and not moments.is_diagonal:
        moments = _told_products(
            moments, told, X, codes, group_of_row=group_of_part[part_of_row]
        )
    if kind != "roots":
        return moments
    return _with_roots(
        moments,
        X,
        group_of_row=group_of_part[part_of_row],
        centers=centers[part_of_row],
        weights=weights,
    )


def _told_products(
    moments: ClassMoments,
    told: ToldSums,
    X: Rows,
    codes: np.ndarray,
    *,
    group_of_row: np.ndarray,
) -> ClassMoments:
    """Return moments whose products of codes have noise, and those of a block alone."""
    scatter = moments.scatter.copy()
    for g in range(len(scatter)):
        rows = np.flatnonzero(group_of_row == g)
        units = code_units(X, rows)
        if np.count_nonzero(units) < 2:
            continue
        groups = [rows]
        if told.has_classes_beside:
            groups = [rows[codes[rows] == c] for c in np.unique(codes[rows])]
        scatter[g] = with_noise(scatter[g], units, noise_of_rows(X, units, groups))
    moments = replace(moments, scatter=scatter)
    if told.block is None or SHARED not in moments.groups:
        return moments
    return moments.keep_products_of(told.block)


def _values_of_constants(X: Rows, *, tells_rows: bool) -> np.ndarray | float | None:
    """Return what the means of constant features are less the origin.

    A constant is sent as rows have it. None: as the largest part has it, where no value
    of a single row may be told.
    """
    if not tells_rows:
        return None
    return X.max(axis=0).toarray() if sparse.issparse(X) else 0.0


def large_classes(sizes: np.ndarray, min_cluster_size: int) -> np.ndarray:
    """Mask of the classes that have so many rows; ValueError if none has."""
    is_large = sizes >= max(min_cluster_size, 1)
    if not is_large.any():
        raise ValueError(
            f"no class has min_cluster_size={min_cluster_size} rows, so nothing may be "
            "sent. Ask for a smaller one, or give the node more rows."
        )
    return is_large


def _sorted_parts(
    clusters: np.ndarray, codes: np.ndarray, *, min_cluster_size: int
) -> tuple[np.ndarray, np.ndarray]:
    """Part of each row, (n_rows,), and class of each part, (n_parts,), which ascends.

    Clusters of a class are made one part if one of them has too few rows.
    """
    _, cluster_of_row, cluster_sizes = np.unique(
        clusters, return_inverse=True, return_counts=True
    )
    is_small = cluster_sizes[cluster_of_row] < min_cluster_size
    is_joined = np.isin(codes, codes[is_small])
    # Numbers that no cluster has stand for whole classes.
    labels = np.where(is_joined, cluster_of_row.max() + 1 + codes, cluster_of_row)
    _, first_rows, label_of_row = np.unique(
        labels, return_index=True, return_inverse=True
    )
    order = np.argsort(codes[first_rows], kind="stable")
    part_of_label = np.argsort(order)
    return part_of_label[label_of_row], codes[first_rows][order]


@dataclass(frozen=True, eq=False, kw_only=True)
class _ScatterGroups:
    """Classes whose products are summed to one scatter."""

    of_class: np.ndarray  # (n_classes,), index of the group of each class
    names: np.ndarray  # (n_groups,), the class, or SHARED, which is last
    n_sent: int  # groups that may be known outside, the first ones


def _scatter_groups(
    classes: np.ndarray,
    class_sizes: np.ndarray,
    *,
    is_large: np.ndarray,
    is_shared: bool,
    min_cluster_size: int,
) -> _ScatterGroups:
    """Group classes for scatters: one group; or one a large class, and the small."""
    if is_shared:
        of_class = np.zeros(len(classes), dtype=np.intp)
        return _ScatterGroups(of_class=of_class, names=np.array([SHARED]), n_sent=1)
    n_large = int(is_large.sum())
    of_class = np.where(is_large, np.cumsum(is_large) - 1, n_large)
    names = classes[is_large].astype(np.intp)
    if is_large.all():
        return _ScatterGroups(of_class=of_class, names=names, n_sent=n_large)
    # The scatter of a few rows of small classes would say what these are.
    is_sent = class_sizes[~is_large].sum() >= min_cluster_size
    return _ScatterGroups(
        of_class=of_class,
        names=np.append(names, SHARED),
        n_sent=n_large + int(is_sent),
    )


def _told_groups(classes: np.ndarray, has_own: np.ndarray) -> _ScatterGroups:
    """Return one group for each class that has its own, and one for the others."""
    n_own = int(has_own.sum())
    names = classes[has_own].astype(np.intp)
    if n_own < len(classes):
        names = np.append(names, SHARED)
    of_class = np.where(has_own, np.cumsum(has_own) - 1, n_own)
    return _ScatterGroups(of_class=of_class, names=names, n_sent=len(names))


def _select_large_classes(
    moments: ClassMoments,
    *,
    n_groups: int,
    is_large_part: np.ndarray,
    is_large_class: np.ndarray,
) -> ClassMoments:
    """Return moments of the first groups, and parts and squares of large classes."""
    squares = moments.squares
    return replace(
        moments.some_parts(is_large_part),
        groups=moments.groups[:n_groups],
        group_counts=moments.group_counts[:n_groups],
        scatter=moments.scatter[:n_groups],
        squares=None if squares is None else squares[is_large_class],
    )


def _with_roots(
    moments: ClassMoments,
    X: Rows,
    *,
    group_of_row: np.ndarray,
    centers: np.ndarray,
    weights: np.ndarray | None,
) -> ClassMoments:
    """Moments of squares with the roots of their matrices; centers are of each row."""
    n_groups = len(moments.groups)
    roots_by_group = [
        _roots(X, np.flatnonzero(group_of_row == g), centers=centers, weights=weights)
        for g in range(n_groups)
    ]
    sizes = [len(roots) for roots in roots_by_group]
    root_groups = np.repeat(np.arange(n_groups), sizes)
    # Features that `drop_rounding` found constant have no roots either.
    roots = np.concatenate(roots_by_group) * (moments.scatter > 0)[root_groups]
    return replace(moments, roots=roots, root_groups=root_groups)


def _roots(
    X: Rows, rows: np.ndarray, *, centers: np.ndarray, weights: np.ndarray | None
) -> np.ndarray:
    """Fewest rows whose products sum to those of some rows less their centers.

    With the block B of these rows and the eigenvectors U of ``B B^T`` that have an
    eigenvalue, they are ``U^T B``, as ``(U^T B)^T (U^T B) = B^T B``.
    """
    block = X[rows].toarray() if sparse.issparse(X) else X[rows]
    block = block.astype(np.float64) - centers[rows]
    if weights is not None:
        block *= np.sqrt(weights[rows])[:, None]
    _, vectors = directions(block @ block.T)
    return vectors.T @ block


def merge_moments(moments: Iterable[ClassMoments]) -> ClassMoments:
    """The moments of all rows of several; parts are kept, scatters summed by class."""
    merger: _Merger | None = None
    for node_moments in moments:
        if merger is None:
            merger = _Merger(node_moments)
        merger.add(node_moments)
    if merger is None:
        raise ValueError(
            "There are no moments to merge. Pass those of at least one node."
        )
    return merger.merged().drop_rounding()


class _Merger:
    """Adds up moments that come one after the other.

    It holds no matrices but the sums: those of a node may be dropped once they are
    added, as where replies of many nodes are read one by one.
    """

    def __init__(self, first: ClassMoments) -> None:
        self._n_features = first.n_features
        self._is_diagonal = first.is_diagonal
        self._origin = first.origin
        # Of each node, in their order.
        self._columns: list[np.ndarray] = []
        self._counts: list[np.ndarray] = []
        self._means: list[np.ndarray] = []
        self._part_squares: list[np.ndarray | None] = []
        # By group.
        self._scatter: dict[int, np.ndarray] = {}
        self._group_counts: dict[int, float] = {}
        # By class.
        self._class_squares: dict[int, Any] = {}
        self._has_class_squares = False
        self._lacks_class_squares = False
        self._has_clusters = False
        # Of nodes that tell products of some columns alone, and of the others.
        self._pairs = Pairs(self._n_features)

    def add(self, moments: ClassMoments) -> None:
        """Add moments to the sums; ValueError if they cannot be merged."""
        if moments.n_features != self._n_features:
            raise ValueError(
                f"Moments of {moments.n_features} features cannot be merged with "
                f"moments of {self._n_features}. Sum rows of the same features at all "
                "nodes."
            )
        if moments.is_diagonal != self._is_diagonal:
            raise ValueError(
                "Moments that have variances alone cannot be merged with those that "
                "have covariances. Make all of the same kind, or give the former zero "
                "covariances with with_zero_covariances()."
            )
        self._columns.append(moments.columns)
        self._counts.append(moments.counts)
        self._means.append(moments.with_origin(self._origin).means)
        self._part_squares.append(moments.squares_of_parts())
        self._has_clusters |= moments.part_squares is not None
        self._has_class_squares |= moments.squares is not None
        self._lacks_class_squares |= (
            moments.squares is None and SHARED in moments.groups
        )
        for group, count, scatter in moments.by_group():
            if group == SHARED and moments.block is not None:
                self._pairs.add(scatter.diagonal(), count, moments.block)
            if group in self._scatter:
                self._scatter[group] += scatter
            else:
                self._scatter[group] = scatter.copy()
            self._group_counts[group] = self._group_counts.get(group, 0.0) + count
        for c, squares in moments.class_squares().items():
            # The sum is a copy: the matrix that squares are a view of is not held.
            self._class_squares[c] = self._class_squares.get(c, 0.0) + squares

    def merged(self) -> ClassMoments:
        """The sums so far, once: matrices are moved out of here."""
        # Those of classes first, in ascending order.
        groups = sorted(self._scatter, key=lambda group: (group == SHARED, group))
        if self._pairs.has_blocks:
            self._scatter[SHARED] = self._pairs.completed(
                self._scatter, self._group_counts
            )
        return ClassMoments(
            origin=self._origin,
            columns=np.concatenate(self._columns),
            counts=np.concatenate(self._counts),
            means=np.concatenate(self._means),
            groups=np.array(groups, dtype=np.intp),
            group_counts=np.array([self._group_counts[group] for group in groups]),
            scatter=np.stack([self._scatter.pop(group) for group in groups]),
            squares=self._merged_squares(),
            part_squares=self._merged_part_squares(),
        )

    def _merged_squares(self) -> np.ndarray | None:
        """Squares of classes, (n_classes, n_features), if a node sent them."""
        if not self._has_class_squares or self._lacks_class_squares:
            return None
        return np.stack([self._class_squares[c] for c in sorted(self._class_squares)])

    def _merged_part_squares(self) -> np.ndarray | None:
        """Squares of parts, (n_parts, n_features), if they are known of all nodes.

        None where no node has clusters: those of classes are in the scatter.
        """
        known_squares = [
            squares for squares in self._part_squares if squares is not None
        ]
        if not self._has_clusters or len(known_squares) < len(self._part_squares):
            return None
        return np.concatenate(known_squares)


def weighted_mean(means: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Weighted mean of means, (n_features,); exactly theirs where these are equal."""
    base = means[np.argmax(weights)]
    return base + weights @ (means - base) / weights.sum()


def deviations(means: np.ndarray, center: np.ndarray) -> np.ndarray:
    """Means less a center, 0 where that is rounding: constants are to stay constant."""
    differences = means - center
    noise = ULPS * np.finfo(np.float64).eps * np.abs(means).max(axis=0, initial=0.0)
    differences[np.abs(differences) <= noise] = 0.0
    return differences
