"""Which nodes to leave out, by the class sums that nodes send: at most f liars.

Each node tells counts n_c, means m_c and the scatter S of its rows within their
classes. Four things are asked of these sums, and of no model or gradient:

- cap: while nodes are judged, none counts more than the median number of rows; at last
  none counts more than twice the (f+1)-th largest number, which an honest node has.
- spread: with v_j the variance of feature j within classes at the node, u_j the median
  of these over nodes, and e_j a tenth of the median total variance, the 90 % quantile
  over features of log((v_j + e_j) / (u_j + e_j)) is at most max(log 10, 3 medians over
  nodes); and so is, without e_j, the size of the median over features.
- far: rows are at most max(3, 5 medians over nodes) deviations away from the classes'
  medians.
- shown: the slope of class means on those of the other nodes, plus one standard error,
  is at least 1/2, or plus three at least 1 (see `NodeMeans`). Means of a single class
  say nothing of the kind; there it is the slope of its mean, less the mean over the
  classes of the others. Nobody is judged by it if the median slope is below 1/2.

The node that is farthest beyond a bound goes, and all others are judged anew, until
none is beyond any, or f nodes are gone. Spread is judged first, as the others are
measured in deviations.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from ._class_moments import ClassMoments
from ._node_means import NodeMeans
from ._part_sums import products
from ._rows import ratio

# Bound of spread, a log ratio of variances. Honest nodes of other instruments differ by
# a factor of four (gains of exp(0.3 z) over ten nodes).
_MOST_SPREAD = np.log(10.0)
# The same, as a factor on the median over nodes. Where features have heavy tails, as
# counts of words, all nodes differ by factors of three and some by more than ten.
_TIMES_MEDIAN_SPREAD = 3.0
# Share of features that are within the bound of spread: a few may have other units.
_SPREAD_QUANTILE = 0.9
# Share of a feature's total variance that is added to variances within classes. A class
# that a feature nearly determines has next to none within, of which a hundredfold is
# nothing either.
_FLOOR_OF_VARIANCE = 0.1
# Bound of far, in deviations: honest sites lie less far apart.
_FAR = 3.0
# The same, as a factor on the median over nodes: where all are far apart, none is odd.
_TIMES_MEDIAN = 5.0
# Bound of shown, a slope: 1 is the others' rule, and 0 that of random labels.
_LEAST_SHOWN = 0.5
# Standard errors that it is below 1, too. Where classes hardly differ, as by log odds
# of 0.2 a deviation, 18 of 40 federations of ten honest nodes lose one with 2, and 1
# with 3.
_ERRORS_BELOW_ALL = 3.0
# How often the (f+1)-th largest number of rows a node may count.
_TIMES_LARGEST = 2.0
# A mean over fewer rows than these stands for no class of others, and is not compared
# with it where a node has one class alone.
_LEAST_ROWS_OF_MEAN = 5


@dataclass(frozen=True, eq=False, kw_only=True)
class NodeClaim:
    """The class sums of one node, or of its rows' weights."""

    columns: np.ndarray  # (n_own,), ascending: the classes that it has rows of
    counts: np.ndarray  # (n_own,)
    means: np.ndarray  # (n_own, n_features)
    # About the means, of all classes together, (n_features, n_features), or squares
    # (n_features,). None: it sends only counts and means.
    scatter: np.ndarray | None = None
    # (n_roots, n_features), rows whose products sum to a matrix, of which `scatter` has
    # the diagonal.
    roots: np.ndarray | None = None
    n_in_scatter: float = 0.0  # rows, or their weight
    n_classes_in_scatter: int = 0
    rows_by_weight: float = 1.0  # what its counts are to be multiplied by to be of rows
    # (n_features,), bool: features that it tells nothing of; None: it tells of all.
    lacking: np.ndarray | None = None

    @classmethod
    def from_moments(
        cls,
        moments: ClassMoments,
        *,
        origin: np.ndarray,  # (n_features,), which means are told from
        lacking: np.ndarray | None = None,
    ) -> Self:
        """Return the claim in the moments of a node, whose clusters are joined."""
        columns = moments.columns
        first, counts, means, deviations = moments.merged_means(columns)
        # What lies between the clusters of a class joins its scatter.
        shares = moments.shares_of_parts().sum(axis=0)
        between = products(
            deviations, moments.counts * shares, is_diagonal=moments.is_diagonal
        )
        return cls(
            columns=columns[first],
            counts=counts,
            means=means + (moments.origin - origin),
            scatter=moments.scatter.sum(axis=0) + between,
            roots=moments.roots,
            n_in_scatter=float(moments.group_counts.sum()),
            n_classes_in_scatter=len(np.unique(columns[shares > 0])),
            lacking=lacking,
        )

    def of_rows(self, rows_by_class: np.ndarray | None) -> Self:
        """Return a claim that knows how many rows of each class it is of, (n_classes,).

        Its counts are their weight. None: they are rows.
        """
        if rows_by_class is None:
            return self
        n_rows = rows_by_class[self.columns].sum()
        return replace(self, rows_by_weight=n_rows / self.n_rows if n_rows else 1.0)

    @property
    def n_rows(self) -> float:
        """Number of rows, or their weight."""
        return float(self.counts.sum())

    @property
    def has_variances(self) -> bool:
        """Report whether it tells how far rows are from the means of their classes."""
        n_rows = self.n_in_scatter * self.rows_by_weight
        return self.scatter is not None and n_rows > self.n_classes_in_scatter

    @property
    def squares(self) -> np.ndarray:
        """Squared deviations within classes, (n_features,)."""
        return self.scatter if self.scatter.ndim == 1 else self.scatter.diagonal()

    def variances(self) -> np.ndarray:
        """Return unbiased variances within classes, (n_features,); NaN: not told."""
        n_rows = self.n_in_scatter * self.rows_by_weight
        degrees_of_freedom = n_rows - self.n_classes_in_scatter
        return self._nan_where_lacking(
            self.rows_by_weight * self.squares / degrees_of_freedom
        )

    def total_variances(self) -> np.ndarray:
        """Return the variances of all rows, (n_features,); NaN: not told."""
        shares = self.counts / self.n_rows
        deviations = self.means - shares @ self.means
        return self._nan_where_lacking(
            self.squares / self.n_in_scatter + shares @ deviations**2
        )

    def _nan_where_lacking(self, values: np.ndarray) -> np.ndarray:
        return (
            values if self.lacking is None else np.where(self.lacking, np.nan, values)
        )


def claims_of_moments(
    moments: Sequence[ClassMoments],
    rows_by_class: Sequence[np.ndarray | None] | None = None,
    *,
    lacking: Sequence[np.ndarray | None] | None = None,
) -> list[NodeClaim]:
    """Return the claims in the moments of all nodes, with means from one origin.

    Parameters
    ----------
    moments : list of ClassMoments
    rows_by_class : list of ndarray of shape (n_classes,), or None
        How many rows the moments of each node are of, whatever these weigh. None: all
        rows count once.
    lacking : list of ndarray of shape (n_features,), or None
        Masks of the features that each node tells nothing of. None: none.
    """
    n_nodes = len(moments)
    rows_by_class = [None] * n_nodes if rows_by_class is None else rows_by_class
    lacking = [None] * n_nodes if lacking is None else lacking
    # That of no single node, as it may be anywhere: means are told from it.
    origin = np.median([of_node.origin for of_node in moments], axis=0)
    return [
        NodeClaim.from_moments(of_node, origin=origin, lacking=is_lacking).of_rows(rows)
        for of_node, rows, is_lacking in zip(
            moments, rows_by_class, lacking, strict=True
        )
    ]


@dataclass(frozen=True, eq=False, kw_only=True)
class Trust:
    """What was found of each node; NaN is what could not be judged."""

    n_rows: np.ndarray  # (n_nodes,), rows that it claims, or their weight
    n_counted: np.ndarray  # (n_nodes,), of these; 0 where it is left out
    spread: np.ndarray  # (n_nodes,), factor of variances: 1 is that of the median node
    far: np.ndarray  # (n_nodes,), deviations from the other nodes
    shown: np.ndarray  # (n_nodes,), part of the others' differences between classes
    left_out_by: list[str]  # the number by which each node is left out; "": it is kept
    unchecked_classes: np.ndarray  # columns of classes that too few nodes tell

    @property
    def is_kept(self) -> np.ndarray:
        """Mask of the nodes that are kept, (n_nodes,)."""
        return np.array([reason == "" for reason in self.left_out_by])

    def kept_names(self, names: Sequence[str]) -> list[str]:
        """Return those of the names of all nodes whose nodes are kept."""
        pairs = zip(names, self.left_out_by, strict=True)
        return [name for name, reason in pairs if reason == ""]

    @property
    def factors(self) -> np.ndarray:
        """The part of its rows that each node counts with, (n_nodes,)."""
        return self.n_counted / self.n_rows


def trusted_nodes(
    claims: Sequence[NodeClaim],
    most_liars: int,
    *,
    covariance: np.ndarray | None = None,
) -> Trust:
    """Leave out at most so many nodes whose class sums contradict the others.

    Parameters
    ----------
    claims : list of NodeClaim
        What each node tells.
    most_liars : int
        How many nodes may lie, f. It is a ValueError unless more than 2 f are here.
    covariance : ndarray of shape (n_features,) or (n_features, n_features) or None
        Of rows within classes, but for a factor, where nodes tell none.
    """
    n_nodes = len(claims)
    check_most_liars(most_liars, n_nodes)
    numbers = {name: np.full(n_nodes, np.nan) for name in ("spread", "far", "shown")}
    left_out_by = [""] * n_nodes
    # One more round than nodes may go, so that numbers are those beside the last.
    for _ in range(most_liars + 1):
        kept = np.flatnonzero([reason == "" for reason in left_out_by])
        verdict = _judged([claims[k] for k in kept], covariance)
        for name, values in verdict.numbers.items():
            numbers[name][kept] = values
        if verdict.worst is None or n_nodes - len(kept) == most_liars:
            break
        left_out_by[kept[verdict.worst]] = verdict.reason
    is_kept = np.array([reason == "" for reason in left_out_by])
    n_rows = np.array([claim.n_rows for claim in claims])
    return Trust(
        n_rows=n_rows,
        n_counted=np.where(is_kept, _capped_rows(n_rows, most_liars), 0.0),
        **numbers,
        left_out_by=left_out_by,
        unchecked_classes=_classes_of_few(claims, n_nodes=2 * most_liars),
    )


def _capped_rows(n_rows: np.ndarray, most_liars: int) -> np.ndarray:
    """Return how many rows of each node count at last, (n_nodes,)."""
    if not most_liars:
        return n_rows
    largest_first = np.sort(n_rows)[::-1]
    return np.minimum(n_rows, _TIMES_LARGEST * largest_first[int(most_liars)])


def _classes_of_few(claims: Sequence[NodeClaim], *, n_nodes: int) -> np.ndarray:
    """Return columns of the classes that at most so many nodes tell."""
    columns = np.concatenate([claim.columns[claim.counts > 0] for claim in claims])
    told_columns, n_telling = np.unique(columns, return_counts=True)
    return told_columns[n_telling <= n_nodes]


@dataclass(frozen=True, eq=False, kw_only=True)
class Contradictions:
    """Which nodes contradict the others so clearly that somebody has to look."""

    shown: np.ndarray  # (n_nodes,), see Trust
    far: np.ndarray  # (n_nodes,)
    # By index of the node, "shown" or "far"; the worst first.
    reasons: Mapping[int, str] = field(default_factory=dict)


def contradicting_nodes(
    claims: Sequence[NodeClaim], *, covariance: np.ndarray | None = None
) -> Contradictions:
    """Find nodes whose class means contradict those of the others.

    The bounds are such that no honest node is beyond (see `Agreement`): a warning that
    names one is not read again. The worst node is found first, and all others are
    judged anew without it. ``covariance`` is as for `trusted_nodes`, and where nodes
    tell squares alone also says how features vary together.
    """
    n_nodes = len(claims)
    shown = np.full(n_nodes, np.nan)
    far = np.full(n_nodes, np.nan)
    reasons: dict[int, str] = {}
    while 2 * len(reasons) < n_nodes:
        kept = [k for k in range(n_nodes) if k not in reasons]
        nodes = _node_means([claims[k] for k in kept], covariance)
        if nodes is None:
            break
        agreement = nodes.judged()
        # Beside fewer nodes some can no longer be compared.
        shown[kept] = np.where(np.isnan(agreement.shown), shown[kept], agreement.shown)
        is_known = ~np.isnan(agreement.distances)
        far[kept] = np.where(is_known, agreement.distances, far[kept])
        worst, reason = agreement.worst()
        if not reason:
            odd = agreement.odd_one_of_three()
            if odd is None or not nodes.without_node(odd).judged().have_one_rule():
                break
            worst, reason = odd, "shown"
        reasons[kept[worst]] = reason
    return Contradictions(shown=shown, far=far, reasons=reasons)


def check_most_liars(most_liars: int, n_nodes: int) -> None:
    """Raise ValueError unless honest nodes are the majority."""
    if n_nodes <= 2 * most_liars:
        raise ValueError(
            f"robust={most_liars} needs more than {2 * most_liars} nodes, so that the "
            f"honest ones are the majority, but there are {n_nodes}. Add nodes, or set "
            f"robust to at most {(n_nodes - 1) // 2}."
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class _Verdict:
    """The numbers of nodes that are judged together, and who is farthest beyond."""

    numbers: dict[str, np.ndarray]  # (n_nodes,) each
    worst: int | None = None  # None: nobody is beyond a bound
    reason: str = ""  # the number by which it is the worst


def _judged(claims: Sequence[NodeClaim], covariance: np.ndarray | None) -> _Verdict:
    """Judge nodes beside each other: spread first, then far and shown."""
    log_ratios = _log_ratios_of_spread(claims)
    most_spread = _MOST_SPREAD
    if not np.isnan(log_ratios).all():
        usual = np.nanmedian(log_ratios)
        most_spread = max(_MOST_SPREAD, _TIMES_MEDIAN_SPREAD * usual)
    numbers = {"spread": np.exp(log_ratios)}
    excess = {"spread": log_ratios / most_spread}
    if not (excess["spread"] > 1.0).any():
        compared = _compared_means(claims, covariance)
        numbers |= compared.numbers
        excess |= compared.excess
    worst_of = {}
    for name, ratios in excess.items():
        if (ratios > 1.0).any():
            worst_of[name] = int(np.nanargmax(ratios))
    if not worst_of:
        return _Verdict(numbers=numbers)
    reason = max(worst_of, key=lambda name: excess[name][worst_of[name]])
    return _Verdict(numbers=numbers, worst=worst_of[reason], reason=reason)


def _log_ratios_of_spread(claims: Sequence[NodeClaim]) -> np.ndarray:
    """Return how much more or less rows of each node vary, (n_nodes,), as a log ratio.

    NaN of nodes that do not tell. Features that do not vary at most nodes say nothing.
    """
    log_ratios = np.full(len(claims), np.nan)
    telling = np.flatnonzero([claim.has_variances for claim in claims])
    if len(telling) < 3:  # of two nobody can say which is the odd one
        return log_ratios
    variances = np.stack([claims[k].variances() for k in telling])
    totals = np.stack([claims[k].total_variances() for k in telling])
    is_told = ~np.isnan(totals).all(axis=0)
    usual_totals = np.nanmedian(totals[:, is_told], axis=0)
    varying = usual_totals > 0
    if not varying.any():
        return log_ratios
    variances = variances[:, is_told][:, varying]
    usual = np.nanmedian(variances, axis=0)
    floor = _FLOOR_OF_VARIANCE * usual_totals[varying]
    above = np.log((variances + floor) / (usual + floor))
    # Features that a node lacks are as those of the median node.
    above = np.where(np.isnan(above), 0.0, above)
    log_ratios[telling] = np.quantile(above, _SPREAD_QUANTILE, axis=1)
    for k, of_node in zip(telling, variances, strict=True):
        is_known = (of_node > 0) & (usual > 0)  # False of NaN
        if is_known.any():
            middle = np.median(np.log(of_node[is_known] / usual[is_known]))
            log_ratios[k] = max(log_ratios[k], abs(middle))
    return log_ratios


@dataclass(frozen=True, eq=False, kw_only=True)
class _Comparison:
    """What class means say of nodes, and by how much each is beyond a bound."""

    numbers: dict[str, np.ndarray]  # (n_nodes,) each
    excess: dict[str, np.ndarray]  # (n_nodes,) each, above 1 beyond the bound


def _compared_means(
    claims: Sequence[NodeClaim], covariance: np.ndarray | None
) -> _Comparison:
    """Compare the class means of nodes, none of which counts more than the median."""
    nodes = _node_means(claims, covariance)
    if nodes is None:
        unknown = np.full(len(claims), np.nan)
        return _Comparison(
            numbers={"far": unknown, "shown": unknown},
            excess={"far": unknown, "shown": unknown},
        )
    agreement = nodes.judged()
    shown = agreement.shown.copy()
    errors = agreement.errors.copy()
    for k in np.flatnonzero(np.isnan(shown)):
        shown[k], errors[k] = _slope_from_grand_mean(nodes, int(k))
    far = agreement.distances
    most_far = _FAR
    if not np.isnan(far).all():
        most_far = max(_FAR, _TIMES_MEDIAN * np.nanmedian(far))
    return _Comparison(
        numbers={"far": far, "shown": shown},
        excess={
            "far": far / most_far,
            "shown": _excess_of_shown(shown, errors),
        },
    )


def _excess_of_shown(shown: np.ndarray, errors: np.ndarray) -> np.ndarray:
    """Return by how much slopes are below their bounds, (n_nodes,), above 1 beyond.

    Where classes hardly differ, slopes of honest nodes are anything, and those of the
    others show nothing either: nobody is judged by them then.
    """
    if np.isnan(shown).all() or np.nanmedian(shown) < _LEAST_SHOWN:
        return np.full(len(shown), np.nan)
    largest = np.minimum(_LEAST_SHOWN - errors, 1.0 - _ERRORS_BELOW_ALL * errors)
    return 1.0 + largest - shown


def _node_means(
    claims: Sequence[NodeClaim], covariance: np.ndarray | None
) -> NodeMeans | None:
    """Return the class means of nodes in deviations; None where these are not known."""
    n_rows = np.array([claim.n_rows * claim.rows_by_weight for claim in claims])
    caps = np.minimum(1.0, np.median(n_rows) / n_rows)
    spread = _CappedSpread.from_claims(claims, caps, covariance=covariance)
    if spread is None and covariance is None:
        return None
    counts = [
        cap * claim.rows_by_weight * claim.counts
        for cap, claim in zip(caps, claims, strict=True)
    ]
    has_spread = spread is not None
    if spread is None:
        spread = _CappedSpread(covariance=covariance)
    nodes = NodeMeans(
        columns=np.concatenate([claim.columns for claim in claims]),
        counts=np.concatenate(counts),
        means=np.vstack([claim.means for claim in claims]),
        starts=np.cumsum([0, *(len(claim.columns) for claim in claims)]),
        covariance=spread.covariance,
        roots=spread.roots,
        is_told=_told_features(claims),
    )
    return nodes.standardized() if has_spread else nodes.in_spread_of_nodes()


def _told_features(claims: Sequence[NodeClaim]) -> np.ndarray | None:
    """Return which features each node tells of, (n_nodes, n_features); None: all."""
    if all(claim.lacking is None for claim in claims):
        return None
    return np.stack(
        [
            np.ones(claim.means.shape[1], dtype=bool)
            if claim.lacking is None
            else ~claim.lacking
            for claim in claims
        ]
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class _CappedSpread:
    """How far rows are from the means of their classes, if nodes count by caps."""

    # (n_features, n_features), or variances (n_features,).
    covariance: np.ndarray
    roots: np.ndarray | None = None  # (n_roots, n_features), see NodeMeans

    @classmethod
    def from_claims(
        cls,
        claims: Sequence[NodeClaim],
        caps: np.ndarray,  # (n_nodes,), parts of their rows
        *,
        covariance: np.ndarray | None,  # of all rows, if it is known
    ) -> "_CappedSpread | None":
        """Return what the nodes that tell it tell together; None: none does."""
        telling = [k for k, claim in enumerate(claims) if claim.has_variances]
        if not telling:
            return None
        told = [claims[k] for k in telling]
        weights = caps[telling] * [claim.rows_by_weight for claim in told]
        shares = weights / (weights @ [claim.n_in_scatter for claim in told])
        return cls._of_shares(told, shares, covariance=covariance)

    @classmethod
    def _of_shares(
        cls,
        told: Sequence[NodeClaim],
        shares: np.ndarray,  # (n_told,), of each in the mean
        *,
        covariance: np.ndarray | None,
    ) -> "_CappedSpread":
        """Return the mean of spreads: products where all tell them, else variances."""
        if all(claim.scatter.ndim == 2 for claim in told):
            return cls(covariance=_weighted_sum(shares, [c.scatter for c in told]))
        variances = _weighted_sum(shares, [claim.squares for claim in told])
        if all(claim.roots is not None for claim in told):
            return cls(covariance=variances, roots=_stacked_roots(shares, told))
        return cls(covariance=_with_correlations(variances, covariance))


def _with_correlations(
    variances: np.ndarray, covariance: np.ndarray | None
) -> np.ndarray:
    """Return a covariance with these variances and the correlations of all rows.

    Variances alone where no products are known.
    """
    if covariance is None or covariance.ndim == 1:
        return variances
    factors = np.sqrt(ratio(variances, covariance.diagonal()))
    return covariance * np.outer(factors, factors)


def _weighted_sum(weights: np.ndarray, arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Return the sum of arrays, each times its weight, without a copy of all."""
    return sum(weight * array for weight, array in zip(weights, arrays, strict=True))


def _stacked_roots(shares: np.ndarray, claims: Sequence[NodeClaim]) -> np.ndarray:
    """Return rows whose products are the covariance, (n_roots, n_features)."""
    return np.vstack(
        [
            np.sqrt(share) * claim.roots
            for share, claim in zip(shares, claims, strict=True)
        ]
    )


def _slope_from_grand_mean(nodes: NodeMeans, k: int) -> tuple[float, float]:
    """Return the slope of a node's class means on those of others, and its error.

    Both are less the mean over the classes of the others, as the node may have a single
    class, so that what all its rows have in common is in the slope too. NaN where
    fewer than three others tell the class, or none tells another class.
    """
    node_of_part = np.repeat(np.arange(nodes.n_nodes), np.diff(nodes.starts))
    is_sure = nodes.counts >= _LEAST_ROWS_OF_MEAN
    reference = _class_medians(nodes, is_sure & (node_of_part != k))
    own_parts = [
        part
        for part in np.flatnonzero(is_sure & (node_of_part == k)).tolist()
        if nodes.columns[part] in reference
    ]
    if not own_parts or len(reference) < 2:
        return np.nan, np.nan
    grand_mean = np.mean(list(reference.values()), axis=0)
    expected = np.stack(
        [reference[nodes.columns[part]] - grand_mean for part in own_parts]
    )
    if nodes.is_told is not None:
        expected = expected * nodes.is_told[k]
    differences = nodes.means[own_parts] - grand_mean
    squares = np.vdot(expected, expected)
    if not squares > 0:
        return np.nan, np.nan
    variances = nodes.variances_along(expected)
    error = np.sqrt(np.sum(variances / nodes.counts[own_parts])) / squares
    return float(np.vdot(expected, differences) / squares), float(error)


def _class_medians(nodes: NodeMeans, is_used: np.ndarray) -> dict[int, np.ndarray]:
    """Return the median over used parts of each class that three or more are of."""
    medians = {}
    for column in np.unique(nodes.columns[is_used]).tolist():
        parts = is_used & (nodes.columns == column)
        if parts.sum() > 2:
            medians[column] = np.median(nodes.means[parts], axis=0)
    return medians
