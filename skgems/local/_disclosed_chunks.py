"""What a node whose rows come in chunks tells under the rule of disclosure.

Few rows are taken into memory, and pass the rule as any rows. Of many there are sums in
a pass, by which the cheap test of all leverages is enough as a rule. Where it is not, a
further pass has each leverage, and keeps the rows whose leverages are not small. Their
weights are lowered, and another pass computes all leverages with these weights.

Chunks answer one message, and no row of them is one of a group: neither is room left
for gradients of later messages, nor do rows of one unit add up, as with `ruled`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from ..disclosure import (
    ALONE,
    BELOW,
    CONCERNED,
    LEAST_FACTOR,
    Disclosure,
    GroupLeverages,
    GroupSums,
    KeptRows,
    has_room_for_products,
    lowered_squares,
)
from ..moments import (
    SHARED,
    ClassMoments,
    block_bytes,
    bytes_of_copies,
    class_moments,
    inverse_deviations,
    merge_moments,
    moments_kind,
    ratio,
    row_blocks,
    weighted_mean,
)
from ._cache import seed_from_digest
from ._chunk_rule import ChunkRule
from ._chunks import ChunkedMember, stacked
from ._classifiers import Rows, indices_of
from ._disclosed import ruled, without_left_out_classes
from ._member import Member
from ._own_residuals import Residuals, has_linear_model
from ._room_for_means import check_room_for_means, has_room_for_squares


def ruled_chunks(member: ChunkedMember) -> Member:
    """Return a member whose rows pass the rule, in memory if they are few."""
    rule = member.disclosure
    if rule is None or member.is_ruled:
        return member
    n_rows = sum(sum(counts) for counts in member.tally.values())
    # The rule needs a few copies of rows, and chunks are there to save memory.
    if 8 * n_rows * member.n_features <= bytes_of_copies():
        return ruled(member.with_all_rows())
    if not member.drawn:  # nothing is summed
        return member
    return _Ruler(member).ruled()


@dataclass(eq=False, kw_only=True)
class _FirstSums:
    """Sums of all rows by squared weights, and what no row of a class exceeds."""

    units: np.ndarray  # (n_columns,), of the columns and the residuals
    points: np.ndarray  # (n_classes, n_columns), amid the rows of each class
    moments: ClassMoments | None = None
    low: np.ndarray  # (n_classes, n_features)
    high: np.ndarray  # (n_classes, n_features)
    largest_square: np.ndarray  # (n_classes,), squared weights
    total_weights: np.ndarray  # (n_classes,), 0 where rows have none
    # (n_classes,), of rows less the point of their class, in these units: without the
    # residuals, and with them.
    lengths: np.ndarray
    joint_lengths: np.ndarray

    variances: ClassMoments | None = None  # of the columns, by class

    def merge(self, sums: ClassMoments, variances: ClassMoments | None) -> None:
        """Add the sums of a chunk."""
        self.moments = _merged(self.moments, sums)
        if variances is not None:
            self.variances = _merged(self.variances, variances)

    @property
    def squares(self) -> np.ndarray:
        """Squares about the means of classes, (n_classes, n_features)."""
        return self.variances.scatter

    def column_leverages(self, squares: np.ndarray) -> np.ndarray:
        """Return what no leverage exceeds in sums of these squares, as they are."""
        means = self.variances.origin + self.variances.means
        largest = np.maximum(np.abs(self.high - means), np.abs(self.low - means))
        has_spread = self.high > self.low
        shares = ratio(largest**2, squares) + 1.0 / self.variances.counts[:, None]
        return np.where(has_spread, self.largest_square[:, None] * shares, 0.0)

    def mean_of(self, classes: np.ndarray) -> np.ndarray:
        """Return the mean of the rows of some classes, (n_features,); 0 of none."""
        if not classes.any():
            return np.zeros(self.low.shape[1])
        means = self.variances.means[classes]
        weights = self.variances.counts[classes]
        return self.variances.origin + weighted_mean(means, weights)

    def add(self, Z: Rows, codes: np.ndarray, squares: np.ndarray) -> None:
        """Add what no row exceeds; ``squares`` are squared weights."""
        n_features = self.low.shape[1]
        np.maximum.at(self.largest_square, codes, squares)
        for c in np.unique(codes).tolist():
            of_class = np.flatnonzero(codes == c)
            for block in row_blocks(of_class[:, None], 8 * Z.shape[1], block_bytes()):
                rows = Z[of_class[block]]
                rows = rows.toarray() if sparse.issparse(rows) else rows
                X = rows[:, :n_features]
                np.minimum(self.low[c], X.min(axis=0), out=self.low[c])
                np.maximum(self.high[c], X.max(axis=0), out=self.high[c])
                scaled = np.square((rows - self.points[c]) * self.units)
                lengths = scaled[:, :n_features].sum(axis=1)
                joint = lengths + scaled[:, n_features:].sum(axis=1)
                self.lengths[c] = max(self.lengths[c], np.sqrt(lengths.max()))
                self.joint_lengths[c] = max(self.joint_lengths[c], np.sqrt(joint.max()))

    def bound_of(self, sums: GroupSums, *, is_joint: bool) -> float:
        """Return what no leverage of a row of some classes exceeds."""
        n_columns = sums.means.shape[1]
        units = self.units[:n_columns]
        least = sums.least_eigenvalue(units)
        if least == 0 or sums.small is not None:
            return np.inf
        shifts = (self.points[:, :n_columns] - sums.means) * units
        lengths = self.joint_lengths if is_joint else self.lengths
        lengths = lengths + np.sqrt(np.square(shifts).sum(axis=1))
        classes = np.flatnonzero(sums.totals > 0)
        bounds = 1.0 / sums.totals[classes] + lengths[classes] ** 2 / least
        return float((self.largest_square[classes] * bounds).max())


class _Ruler:
    """The passes that find what is told of the rows of a member."""

    def __init__(self, member: ChunkedMember) -> None:
        self.rule: Disclosure = member.disclosure
        labels, counts_by_role = member.row_counts()
        sizes = counts_by_role["moments"]
        self.sizes = sizes[sizes > 0]
        self.labels = [label for label, n in zip(labels, sizes, strict=True) if n]
        self.n_features = member.n_features
        check_room_for_means(
            member,
            n_rows=int(self.sizes.sum()),
            n_columns=self.n_features,
            n_classes=len(self.labels),
        )
        self.told = ChunkRule(
            labels=self.labels,
            cells={
                label: cells
                for label, cells in member.rare_cells.items()
                if label in self.labels
            },
        )
        self.drawn = {
            label: self.told.with_cells(rows, np.full(rows.shape[0], label))
            for label, rows in member.drawn.items()
        }
        self.member = replace(
            member,
            drawn=self.drawn,
            X=self.told.with_cells(member.X, member.y),
            rule=self.told,
            is_ruled=True,
        )
        if self.told.cells or member.left_out is not None:
            # A sum of other rows or values may be known, such as from a classifier: all
            # rows weigh a little less, unevenly.
            self.told = replace(self.told, seed=self._seed())
        self.told = replace(self.told, noise_seed=self._seed())
        self.member = replace(
            self.member,
            rule=self.told,
            model=without_left_out_classes(self.member, self.labels),
        )
        self.kind = moments_kind(
            "auto", n_features=self.n_features, n_classes=len(self.labels)
        )
        # (n_classes,), whether a class may have a scatter of its own.
        self.has_own = np.zeros(len(self.labels), dtype=bool)
        if self.kind == "class":
            self.has_own[:] = [self._may_tell(n, n_classes=1) for n in self.sizes]
        self.residuals = None
        if self.has_own.all() and has_linear_model(self.member) and len(self.member.y):
            self.residuals = Residuals.from_member(
                self.member, self.member.X, self.member.y, self.member.weights
            )

    def _may_tell(self, n_rows: float, *, n_classes: int) -> bool:
        """Report whether so many rows are enough for products of all columns."""
        return has_room_for_products(
            self.rule,
            n_rows=n_rows,
            n_units=n_rows,
            n_columns=self.n_features,
            n_groups=n_classes,
            n_others=n_classes * self.n_features,
            n_unknowns=self.member.n_raw_columns or self.n_features,
        )

    def _may_tell_squares(self, n_rows: float, *, n_classes: int) -> bool:
        """Report whether so many rows are enough for squares of all columns."""
        return has_room_for_squares(
            self.rule,
            n_rows=n_rows,
            n_classes=n_classes,
            n_columns=self.n_features,
            n_unknowns=self.member.n_raw_columns or self.n_features,
        )

    def _most_numbers(self) -> np.ndarray:
        """Return how many numbers may be told of each class, (n_classes,)."""
        n_unknowns = self.member.n_raw_columns or self.n_features
        return self.rule.unknowns * self.sizes * n_unknowns

    def _n_left(self, *, has_gradient: bool) -> float:
        """Return how many numbers may be told beside means, products and a gradient.

        Products are those of all classes by themselves, and gradients, too, may be
        asked for by class. There is none of classes that share products.
        """
        n_features = self.n_features
        n_classes = len(self.labels)
        n_numbers = n_classes * n_features * (n_features + 3) / 2
        if has_gradient and self.residuals is not None:
            n_outputs = len(self.residuals.known_classes) - 1
            n_numbers += n_classes * n_outputs * (n_features + 1)
        return self._most_numbers().sum() - n_numbers

    def ruled(self) -> ChunkedMember:
        """Return the member with what is told of its rows."""
        first = self._first_sums()
        self._check_weights(first)
        groups = self._groups_of(first.moments)
        bound = self.rule.leverage
        examined = self._undecided(groups, first)
        has_gradient = self._gradient_is_decided(groups, first)
        told = replace(self.told, sums=self._without_residuals(first.moments))
        failed: list[_Group] = []
        if examined or (self.residuals is not None and not has_gradient):
            leverages = self._examine(groups, examined)
            if leverages.largest >= BELOW * bound:
                told, failed = self._lowered(told, examined, leverages)
                has_gradient = False
            else:
                failed, largest_joint = self._failing_in_small(examined, leverages)
                has_gradient = not failed and largest_joint < bound
                small = [
                    group.is_in for group in examined if leverages.has_small(group)
                ]
                if small:
                    told = replace(told, is_divided=~np.any(small, axis=0))
        has_gradient &= self._n_left(has_gradient=True) >= 0
        if has_gradient:
            told = replace(told, sums=first.moments)
        return self._finished(
            told, first, groups=groups, failed=failed, has_gradient=has_gradient
        )

    def _undecided(self, groups: list["_Group"], first: _FirstSums) -> list["_Group"]:
        """Return groups of which sums do not show that leverages are small."""
        # Squared weights that are drawn may be so much lower in all other rows.
        bound = LEAST_FACTOR**2 * self.rule.leverage
        return [
            group
            for group in groups
            if group.column_sums.has_doubtful_directions
            or first.bound_of(group.column_sums, is_joint=False) >= bound
        ]

    def _gradient_is_decided(self, groups: list["_Group"], first: _FirstSums) -> bool:
        """Report whether sums show that leverages are small beside a gradient."""
        return self.residuals is not None and all(
            not group.sums.has_doubtful_directions
            and first.bound_of(group.sums, is_joint=True) < self.rule.leverage
            for group in groups
        )

    def _check_weights(self, first: _FirstSums) -> None:
        """Raise ValueError where one row has so much weight that a mean tells of it."""
        shares = first.largest_square / first.variances.counts
        if shares.max() >= self.rule.leverage:
            label = self.labels[int(np.argmax(shares))]
            raise ValueError(
                f"Node {self.member.name!r}: one row has most of the weight of class "
                f"{label!r}, so that its mean would tell that row. Give rows weights "
                "that differ less, or all rows at once in place of chunks."
            )

    def _codes(self, y: np.ndarray) -> np.ndarray:
        return indices_of(y, self.labels)

    def _with_residuals(
        self, X: Rows, y: np.ndarray, weights: np.ndarray | None
    ) -> Rows:
        if self.residuals is None:
            return X
        return self.residuals.beside(X, y, weights)

    def _without_residuals(self, moments: ClassMoments) -> ClassMoments:
        if moments.n_features == self.n_features:
            return moments
        return moments.select_features(np.arange(self.n_features))

    def _sums_of_chunk(
        self, X: Rows, codes: np.ndarray, squares: np.ndarray
    ) -> ClassMoments:
        has_own = None if self.kind == "diagonal" else self.has_own
        return class_moments(X, codes, kind=self.kind, weights=squares, has_own=has_own)

    def _first_sums(self) -> _FirstSums:
        """Return sums of all rows, by a pass over them."""
        n_classes = len(self.labels)
        drawn = [self.drawn[label] for label in self.labels]
        drawn_weights = self.member.drawn_weights
        sample = [
            self._with_residuals(
                rows, np.full(rows.shape[0], label), drawn_weights.get(label)
            )
            for label, rows in zip(self.labels, drawn, strict=True)
        ]
        codes = np.repeat(np.arange(n_classes), [rows.shape[0] for rows in sample])
        first = _FirstSums(
            units=inverse_deviations(stacked(sample), codes),
            points=np.array([np.ravel(rows.mean(axis=0)) for rows in sample]),
            low=np.full((n_classes, self.n_features), np.inf),
            high=np.full((n_classes, self.n_features), -np.inf),
            largest_square=np.zeros(n_classes),
            total_weights=np.zeros(n_classes),
            lengths=np.zeros(n_classes),
            joint_lengths=np.zeros(n_classes),
        )
        for X, y, weights in self.member.learning_rows():
            codes = self._codes(y)
            squares = np.ones(len(y)) if weights is None else weights**2
            Z = self._with_residuals(X, y, weights)
            sums = self._sums_of_chunk(Z, codes, squares)
            first.merge(
                sums,
                # Else they are the diagonals of these sums.
                None
                if self.has_own.all()
                else class_moments(X, codes, kind="diagonal", weights=squares),
            )
            first.add(Z, codes, squares)
            if weights is not None:
                of_chunk = np.bincount(codes, weights, minlength=n_classes)
                first.total_weights += of_chunk
            del X, y, weights, Z, sums  # before the next chunk is in memory
        if first.variances is None:
            moments = self._without_residuals(first.moments)
            first.variances = replace(moments, scatter=moments.diagonals())
        return first

    def _groups_of(self, moments: ClassMoments) -> list["_Group"]:
        """Return the classes that tell products together, with their sums."""
        if moments.is_diagonal:
            return []
        n_classes = len(self.labels)
        totals = np.zeros(n_classes)
        totals[moments.columns] = moments.counts
        means = np.zeros((n_classes, moments.n_features))
        means[moments.columns] = moments.origin + moments.means
        groups = []
        for name, _, scatter in moments.by_group():
            is_in = ~self.has_own if name == SHARED else np.arange(n_classes) == name
            n_rows = self.sizes[is_in].sum()
            if name == SHARED and not self._may_tell(n_rows, n_classes=is_in.sum()):
                continue
            sums = GroupSums(
                totals=np.where(is_in, totals, 0.0), means=means, scatter=scatter
            )
            groups.append(
                _Group(
                    name=int(name),
                    is_in=is_in,
                    sums=sums,
                    column_sums=sums.of_columns(self.n_features),
                )
            )
        return groups

    def _examine(
        self, groups: list["_Group"], examined: list["_Group"]
    ) -> "_Leverages":
        """Return all leverages that are not small, by a pass over the rows."""
        leverages = _Leverages(
            joint_groups=groups if self.residuals is not None else [],
            groups=[replace(group, sums=group.column_sums) for group in examined],
            least=CONCERNED * LEAST_FACTOR**2 * self.rule.leverage,
        )
        rng = np.random.default_rng(self._seed())
        for X, y, weights in self.member.learning_rows():
            codes = self._codes(y)
            weights = np.ones(len(y)) if weights is None else weights
            factors = rng.uniform(LEAST_FACTOR, 1.0, len(y))
            if self.told.seed is not None:  # these are in the weights
                factors = np.ones(len(y))
            drawn_weights = factors * weights
            is_alone = leverages.add(
                X,
                self._with_residuals(X, y, weights),
                codes,
                weights**2,
                drawn_weights**2,
            )
            if examined:
                total_weights = np.bincount(
                    codes, drawn_weights, minlength=len(self.labels)
                )
                drawn_weights[is_alone] = 0.0
                leverages.merge(
                    self._sums_of_chunk(X, codes, drawn_weights**2), total_weights
                )
            del X, y, weights  # before the next chunk is in memory
        return leverages

    def _failing_in_small(
        self, examined: list["_Group"], leverages: "_Leverages"
    ) -> tuple[list["_Group"], float]:
        """Return examined groups in which a row has most of a small direction.

        Returns the largest leverage beside the residuals, too. It takes a pass where
        there are such directions, as where columns are nearly equal.
        """
        with_small = leverages.with_small_directions()
        if with_small is None:
            return [], leverages.largest_joint
        groups, joint_groups = with_small
        checked = _Leverages(groups=groups, joint_groups=joint_groups, least=np.inf)
        for X, y, weights in self.member.learning_rows():
            squares = np.ones(len(y)) if weights is None else weights**2
            Z = self._with_residuals(X, y, weights)
            checked.add(X, Z, self._codes(y), squares, squares)
            del X, y, weights, Z  # before the next chunk is in memory
        is_high = checked.largest_by_group >= BELOW * self.rule.leverage
        failing = [examined[k] for k in np.flatnonzero(is_high).tolist()]
        return failing, checked.largest_joint

    def _seed(self) -> int:
        """Return a seed that follows from the rows, so that nobody else knows it."""
        return seed_from_digest(self.member.checksums, list(self.member.drawn.values()))

    def _lowered(
        self, told: ChunkRule, examined: list["_Group"], leverages: "_Leverages"
    ) -> tuple[ChunkRule, list["_Group"]]:
        """Return lower weights, by which no leverage is large, and what has none."""
        failed = []
        lowered_groups = []
        by_name = {group.name: group for group in self._groups_of(leverages.moments)}
        for group in examined:
            # Without some rows others may be alone in a direction that no sum shows.
            if leverages.has_small(group):
                failed.append(group)
                continue
            places, rows, is_alone = leverages.kept_of(group)
            told_squares = lowered_squares(
                by_name[group.name].sums,
                replace(rows, squares=np.where(is_alone, 0.0, rows.squares)),
                rule=self.rule,
                total_weight=leverages.total_weights[group.is_in].sum(),
            )
            if told_squares is None:
                failed.append(group)
                continue
            factors, sums = told_squares
            lowered_groups.append(
                _LoweredGroup(
                    group=replace(group, sums=sums),
                    places=places,
                    codes=rows.codes,
                    weights=np.sqrt(rows.squares),
                    factors=np.sqrt(factors),
                )
            )
        if not lowered_groups:
            return told, failed
        told = self._with_lowered(told, lowered_groups, leverages)
        is_divided = ~np.any([group.is_in for group in examined], axis=0)
        told = replace(told, sums=leverages.moments, is_divided=is_divided)
        failing = self._failing(told, [lowered.group for lowered in lowered_groups])
        holding = [
            lowered for lowered in lowered_groups if lowered.group not in failing
        ]
        # Variances are checked by all rows of groups that do not hold.
        return self._with_lowered(told, holding, leverages), failed + failing

    def _with_lowered(
        self, told: ChunkRule, groups: list["_LoweredGroup"], leverages: "_Leverages"
    ) -> ChunkRule:
        """Return what is told with the lower weights of some groups."""
        total_weights = leverages.total_weights.copy()
        lowered: dict[int, float] = {}
        for group in groups:
            lost = group.weights * (1.0 - group.factors)
            np.subtract.at(total_weights, group.codes, lost)
            is_lowered = group.factors < 1.0
            places = group.places[is_lowered].tolist()
            lowered |= dict(
                zip(places, group.factors[is_lowered].tolist(), strict=True)
            )
        return replace(
            told,
            seed=self._seed(),
            lowered=lowered,
            total_weights=dict(zip(self.labels, total_weights.tolist(), strict=True)),
        )

    def _failing(self, told: ChunkRule, groups: list["_Group"]) -> list["_Group"]:
        """Return groups with a large leverage under these weights, by a pass."""
        checked = _Leverages(joint_groups=[], groups=groups, least=np.inf)
        for X, y, weights in replace(self.member, rule=told).learning_rows():
            checked.add(X, X, self._codes(y), weights**2, weights**2)
            del X, y, weights  # before the next chunk is in memory
        is_high = checked.largest_by_group >= self.rule.leverage
        return [groups[k] for k in np.flatnonzero(is_high).tolist()]

    def _finished(
        self,
        told: ChunkRule,
        first: _FirstSums,
        *,
        groups: list["_Group"],
        failed: list["_Group"],
        has_gradient: bool,
    ) -> ChunkedMember:
        """Return the member with variances, too, where products are not told."""
        has_own = self.has_own.copy()
        for group in failed:
            has_own &= ~group.is_in
        has_shared = any(group.name == SHARED for group in groups)
        by_columns = first.column_leverages(first.squares)
        limit = self.rule.leverage
        if told.seed is not None:
            limit *= LEAST_FACTOR**2
        of_classes = by_columns.max(axis=1) < limit
        of_classes &= [self._may_tell_squares(n, n_classes=1) for n in self.sizes]
        has_own_variances = has_own | of_classes
        is_withheld = np.zeros(self.n_features, dtype=bool)
        for is_in in (~has_own, ~has_own_variances):
            together = np.tile(first.squares[is_in].sum(axis=0), (len(is_in), 1))
            of_columns = first.column_leverages(together)[is_in]
            largest = of_columns.max(axis=0, initial=0.0)
            is_withheld |= largest >= limit
            n_rows = self.sizes[is_in].sum()
            if is_in.any() and not self._may_tell_squares(
                n_rows, n_classes=is_in.sum()
            ):
                is_withheld[:] = True
        told = replace(
            told,
            low=first.low,
            high=first.high,
            has_own=has_own,
            has_own_variances=has_own_variances,
            tells_products=not failed and (bool(has_own.all()) or has_shared),
            is_withheld=is_withheld,
            means=first.mean_of(has_own & has_own_variances),
            residuals=self.residuals if has_gradient else None,
            most_numbers=self._most_numbers(),
            n_left=max(self._n_left(has_gradient=has_gradient), 0.0),
        )
        if told.seed is not None and not told.total_weights:
            total_weights = first.total_weights.tolist()
            told = replace(
                told, total_weights=dict(zip(self.labels, total_weights, strict=True))
            )
        return replace(
            self.member,
            rule=told,
            total_weights=told.total_weights or self.member.total_weights,
            is_changed=told.is_changed,
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class _Group:
    """Classes that tell products together."""

    name: int  # the class, or SHARED
    is_in: np.ndarray  # (n_classes,), bool
    sums: GroupSums  # of the columns and the residuals
    column_sums: GroupSums  # of the columns alone


@dataclass(frozen=True, eq=False, kw_only=True)
class _LoweredGroup:
    """A group, by sums with lower weights, and these."""

    group: _Group
    places: np.ndarray  # (n_rows,), of the rows that were kept
    codes: np.ndarray  # (n_rows,)
    weights: np.ndarray  # (n_rows,)
    factors: np.ndarray  # (n_rows,), on the weights


class _Leverages:
    """Leverages of rows that are added: the largest, and rows that are not small.

    Parameters
    ----------
    groups, joint_groups : list of _Group
        What leverages are in, without the residuals and with them.
    least : float
        Rows of a leverage that is at least so large are kept.
    """

    def __init__(
        self, *, groups: list[_Group], joint_groups: list[_Group], least: float
    ) -> None:
        self.groups = groups
        self.joint_groups = joint_groups
        self.least = least
        self._by_group = [GroupLeverages(group.sums) for group in groups]
        self._joint = [GroupLeverages(group.sums) for group in joint_groups]
        self.largest_by_group = np.zeros(len(groups))
        # Infinite where it is not computed.
        self.largest_joint = 0.0 if joint_groups else np.inf
        # By drawn weights.
        self.moments: ClassMoments | None = None
        self.total_weights: np.ndarray | float = 0.0
        self._places: list[np.ndarray] = []
        self._rows: list[np.ndarray] = []
        self._codes: list[np.ndarray] = []
        self._squares: list[np.ndarray] = []
        self._is_alone: list[np.ndarray] = []
        self._n_before = 0

    @property
    def largest(self) -> float:
        """The largest leverage without residuals."""
        return float(self.largest_by_group.max(initial=0.0))

    def merge(self, sums: ClassMoments, total_weights: np.ndarray) -> None:
        """Add sums of a chunk by drawn weights."""
        self.total_weights = self.total_weights + total_weights
        self.moments = _merged(self.moments, sums)

    def add(
        self,
        X: Rows,
        Z: Rows,
        codes: np.ndarray,
        squares: np.ndarray,
        drawn_squares: np.ndarray,
    ) -> np.ndarray:
        """Add the rows of a chunk, without the residuals and with them.

        Returns a mask of rows that alone have some direction, (n_rows,): sums without
        them cannot be made of sums with them, whose digits are theirs.
        """
        is_alone = np.zeros(len(codes), dtype=bool)
        for k, group in enumerate(self.groups):
            for rows, h in _in_blocks(X, codes, squares, group, self._by_group[k]):
                largest = max(self.largest_by_group[k], h.max())
                self.largest_by_group[k] = largest
                is_alone[rows[h > ALONE]] = True
                kept = rows[h >= self.least]
                if not len(kept):
                    continue
                values = X[kept]
                values = values.toarray() if sparse.issparse(values) else values
                self._rows.append(values.astype(np.float64))
                self._codes.append(codes[kept])
                self._squares.append(drawn_squares[kept])
                self._is_alone.append(is_alone[kept])
                self._places.append(self._n_before + kept)
        for group, joint in zip(self.joint_groups, self._joint, strict=True):
            for _, h in _in_blocks(Z, codes, squares, group, joint):
                self.largest_joint = max(self.largest_joint, float(h.max()))
        self._n_before += len(codes)
        return is_alone

    def has_small(self, group: _Group) -> bool:
        """Report whether a group has small directions that are not rounding."""
        places = [k for k, other in enumerate(self.groups) if other.name == group.name]
        return self._by_group[places[0]].sums_with_small() is not None

    def with_small_directions(
        self,
    ) -> tuple[list[_Group], list[_Group]] | None:
        """Return the groups and joint groups with small directions; None: none has."""
        all_small = [
            leverages.sums_with_small() for leverages in self._by_group + self._joint
        ]
        if all(small is None for small in all_small):
            return None
        with_small = [
            group if small is None else replace(group, sums=small)
            for group, small in zip(
                self.groups + self.joint_groups, all_small, strict=True
            )
        ]
        return with_small[: len(self.groups)], with_small[len(self.groups) :]

    def kept_of(self, group: _Group) -> tuple[np.ndarray, KeptRows, np.ndarray]:
        """Return places of a group's rows that were kept, these, and a mask.

        The mask says which of them alone have some direction.
        """
        codes = np.concatenate(self._codes)
        rows = np.flatnonzero(group.is_in[codes])
        kept = KeptRows(
            X=np.concatenate(self._rows)[rows],
            codes=codes[rows],
            squares=np.concatenate(self._squares)[rows],
        )
        places = np.concatenate(self._places)[rows]
        return places, kept, np.concatenate(self._is_alone)[rows]


def _in_blocks(
    X: Rows,
    codes: np.ndarray,
    squares: np.ndarray,
    group: _Group,
    leverages: GroupLeverages,
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield indices of rows of a group, and the leverages of these."""
    for rows in _blocks_of_group(X, codes, group):
        yield rows, leverages.add(X[rows], codes[rows], squares[rows])


def _blocks_of_group(X: Rows, codes: np.ndarray, group: _Group) -> Iterator[np.ndarray]:
    """Yield indices of some rows of a group at a time."""
    of_group = np.flatnonzero(group.is_in[codes])
    for block in row_blocks(of_group[:, None], 8 * X.shape[1], block_bytes()):
        if len(of_group[block]):
            yield of_group[block]


def _merged(sums: ClassMoments | None, others: ClassMoments) -> ClassMoments:
    """Return sums of chunks and of one more, one part a class."""
    return others if sums is None else merge_moments([sums, others]).by_class()
