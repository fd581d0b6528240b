"""What a node's rows tell under the rule of disclosure.

Values of few rows become the commonest one of their class and column, and each row gets
one weight, with which all sums of an exchange are made.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from ..disclosure import (
    KeptPasses,
    Span,
    Told,
    clamped,
    gradient_holds,
    numbered,
    told_of,
    weights_of_tables,
)
from ..disclosure import Rows as RowsToTell
from ..moments import ToldSums, float_type
from ..networks import Network
from ._classifiers import Rows
from ._closed_forms import closed_form
from ._disclosed_tables import seed_of
from ._lookup import local_model
from ._member import Member
from ._model import LocalModel
from ._model_sums import JudgingRows
from ._own_residuals import has_linear_model, own_residuals
from ._room_for_means import check_room_for_means, with_room_for_squares
from ._told_before import n_told_before, n_told_by_class

# Where the memo of a member has the residuals of models whose gradients were told.
RESIDUALS = "residuals"
# Where it has the last sums of each class, by which weights of rows were found.
_PASSES = "passes"


def ruled(member: Member) -> Member:
    """Return a member whose rows pass the rule: other values, and lighter rows.

    The weights follow from the rows, their labels and the node's own linear model, so
    that they are the same in each message. Rows that are held out are judged by and
    never summed, so that they stay as they are.
    """
    rule = member.disclosure
    if rule is None or member.is_ruled or not _is_table(member):
        return member
    learning = np.arange(len(member.y))[member.learning]
    X, y = member.rows("learning")
    codes = np.unique(y, return_inverse=True)[1]
    start = member.counted_weights("learning")
    rows = _rows_to_tell(member, X, codes, weights=start)
    is_replaced = rows.X is not X
    rows = replace(rows, is_changed=is_replaced or member.left_out is not None)
    residuals = np.zeros((2, len(y), 0))
    has_model = has_linear_model(member)
    if has_model:
        residuals = own_residuals(member, rows.X, y, start)
    told = told_of(
        replace(rows, residuals=residuals[0], known=residuals[1]),
        rule,
        kind="class",
        n_unknowns=member.n_raw_columns or X.shape[1],
        seed=partial(seed_of, X, codes),
        may_lower=True,
        # Models that are functions of sums are asked for no gradients.
        leaves_room=has_model and "kind" not in closed_form(member.model.estimator),
        passes=member.memo.setdefault(_PASSES, KeptPasses()),
    )
    weights = member.weights
    is_lowered = bool((told.weights != start).any())
    if is_lowered:
        weights = np.ones(len(member.y)) if weights is None else weights.copy()
        weights[learning] = told.weights
    return replace(
        member,
        model=without_left_out_classes(member, member.y),
        X=_with_rows(member.X, learning, rows.X, were=X),
        weights=weights,
        weights_are_given=member.weights is not None,
        is_ruled=True,
        is_changed=member.is_changed or is_replaced or is_lowered,
    )


def without_left_out_classes(member: Member, labels: ArrayLike) -> LocalModel:
    """Return the model, or one without a classifier that is a function of sums.

    The weights of such a classifier tell the sums of all rows that it was fitted to.
    Less those that are told, they tell the sums of a class that is left out.
    """
    if member.left_out is None or "kind" not in closed_form(member.model.estimator):
        return member.model
    names = member.model.network.feature_names_in
    return local_model(Network.from_rows(labels, member.X, names), name=member.name)


def _is_table(member: Member) -> bool:
    """Report whether a member has all its rows, and they are a table of numbers."""
    X = member.X
    is_of_numbers = getattr(X, "ndim", 0) == 2 and X.dtype.kind in "biuf"
    return is_of_numbers and member.has_all_rows


def _with_rows(X: Rows, indices: np.ndarray, rows: Rows, *, were: Rows) -> Rows:
    """Return X with some rows replaced; X itself if they are what they were."""
    if rows is were:
        return X
    if len(indices) == X.shape[0]:
        return rows
    if sparse.issparse(X):
        order = np.argsort(
            np.concatenate([indices, np.setdiff1d(np.arange(X.shape[0]), indices)])
        )
        others = np.delete(np.arange(X.shape[0]), indices)
        return sparse.vstack([rows, X[others]], "csr")[order]
    X = X.copy()
    X[indices] = rows
    return X


@dataclass(frozen=True, eq=False, kw_only=True)
class AskedGradient:
    """How rows are summed in the gradient of a node's own model."""

    is_by_class: bool  # whether there is one for the rows of each class
    # (n_rows,), how often rows count beside their weights; None: once.
    class_weights: np.ndarray | None

    def summed(self, residuals: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """Return the columns that weigh rows, of residuals (n_rows, n_outputs)."""
        if self.class_weights is not None:
            return residuals * self.class_weights[:, None]
        if not self.is_by_class:
            return residuals
        is_of_class = codes[:, None] == np.unique(codes)
        columns = is_of_class[:, :, None] * residuals[:, None, :]
        return columns.reshape(len(codes), -1)


@dataclass(frozen=True, eq=False, kw_only=True)
class TellableRows:
    """Rows as a node sums them under the rule, and what of the sums it tells."""

    X: Rows
    told: Told | None  # None: there is no rule
    parts: np.ndarray | None  # (n_rows,), clusters that are told of
    withholds: bool = False  # whether the rule changes a sum
    is_shared: bool = False  # whether all classes share one scatter
    # Whether the same rows are summed behind other fronts, too.
    is_beside_others: bool = False

    @property
    def has_own(self) -> np.ndarray | None:
        """Classes with a scatter of their own, (n_classes,); None: by their sizes."""
        if self.told is None or not self.is_shared:
            return None if self.told is None else self.told.has_own
        return np.zeros_like(self.told.has_own)

    @property
    def sums(self) -> ToldSums | None:
        """Return how the products of the rows are told; None: there is no rule."""
        if self.told is None:
            return None
        block = None if self.told.is_in_block.all() else self.told.is_in_block
        return ToldSums(block=block, has_classes_beside=self.is_beside_others)

    @property
    def withholds_columns(self) -> bool:
        """Report whether of some columns means alone are told."""
        if self.told is None:
            return False
        return bool(self.told.is_mean_only.any() or self.told.is_own_mean_only.any())

    @property
    def has_gradient(self) -> bool:
        """Report whether the gradient of the node's own model is told."""
        return self.told is None or self.told.has_gradient


def tellable_rows(
    member: Member,
    X: Rows,
    codes: np.ndarray,
    *,
    kind: str,
    parts: np.ndarray | None,
    gradient: AskedGradient | None,
) -> TellableRows:
    """Return the rows of a member that learn, as they may be summed.

    Parameters
    ----------
    member : Member
    X : {ndarray, sparse matrix} of shape (n_rows, n_columns)
        Rows as they are summed, such as behind hidden layers.
    codes : ndarray of shape (n_rows,)
        The class of each row.
    kind : {"class", "shared", "diagonal"}
        What is asked for, as in `moments_kind`.
    parts : ndarray of shape (n_rows,), or None
        The cluster of each row.
    gradient : AskedGradient or None
        That of the node's own model; None: it is not asked for.
    """
    rule = member.disclosure
    if rule is None:
        return TellableRows(X=X, told=None, parts=parts)
    check_room_for_means(
        member,
        n_rows=X.shape[0],
        n_columns=X.shape[1],
        n_classes=len(np.unique(codes)),
    )
    weights = member.counted_weights("learning")
    parts = _parts_to_tell(member, parts)
    rows = replace(_rows_to_tell(member, X, codes, weights=weights), parts=parts)
    if gradient is not None:
        _, y = member.rows("learning")
        told_residuals, known = own_residuals(member, rows.X, y, weights)
        told_residuals = gradient.summed(told_residuals, codes)
        before = member.memo.get(RESIDUALS, np.zeros((len(y), 0)))
        if len(before) == len(y):
            told_residuals = np.hstack([before, told_residuals])
        rows = replace(rows, residuals=told_residuals, known=known)
    is_by_class = kind == "class" and member.may_tell_classes
    n_unknowns = member.n_raw_columns or X.shape[1]
    n_before = n_told_by_class(member, codes)
    told = told_of(
        rows,
        rule,
        kind=_kind_to_tell(member, kind, is_by_class=is_by_class),
        n_unknowns=n_unknowns,
        seed=partial(seed_of, X, codes),
        may_lower=False,
        n_told_before=n_before,
        passes=member.memo.setdefault(_PASSES, KeptPasses()),
    )
    told = with_room_for_squares(
        told, codes, rule, n_unknowns=n_unknowns, n_before=n_before
    )
    if gradient is not None and told.has_gradient:
        member.memo[RESIDUALS] = rows.residuals
    if parts is not None:  # numbers that no cluster has stand for whole classes
        told = _without_light_clusters(told, codes, parts, min_rows=rule.min_rows)
        has_clusters = told.has_clusters[codes] & (is_by_class or kind == "diagonal")
        parts = np.where(has_clusters, parts, parts.max() + 1 + codes)
    are_replaced = member.is_changed or rows.X is not X
    return TellableRows(
        X=_without_columns(rows.X, codes, weights=weights, told=told, cell=rule.cell),
        told=told,
        parts=parts,
        withholds=are_replaced or _tells_less(told, is_by_class=kind != "shared"),
        is_shared=kind != "diagonal" and not is_by_class,
        is_beside_others=member.is_beside_others,
    )


def _without_light_clusters(
    told: Told, codes: np.ndarray, parts: np.ndarray, *, min_rows: int
) -> Told:
    """Return what is told without clusters of classes where one weighs too little.

    Rows that weigh less than 1 count for less: a cluster of ``min_rows`` rows then
    counts for fewer, which no server would take.
    """
    totals = np.bincount(parts, told.weights)
    is_light = np.zeros(len(told.has_clusters), dtype=bool)
    is_light[codes[totals[parts] < min_rows]] = True
    return replace(told, has_clusters=told.has_clusters & ~is_light)


def _parts_to_tell(member: Member, parts: np.ndarray | None) -> np.ndarray | None:
    """Return the clusters of rows; None beside others, as further columns."""
    return None if member.is_beside_others else parts


def _kind_to_tell(member: Member, kind: str, *, is_by_class: bool) -> str:
    """Return what `told_of` is asked for.

    Of a table that is told beside others, what all classes share was found to hold.
    """
    if kind == "diagonal":
        return kind
    return "shared" if member.is_beside_others and not is_by_class else "class"


def _tells_less(told: Told, *, is_by_class: bool) -> bool:
    """Report whether less is told than was asked for, by class or of all together."""
    are_constant = bool(told.is_own_mean_only.any())
    are_shared = is_by_class and not told.has_own.all()
    return not told.has_gradient or are_shared or are_constant


def tellable_gradients(
    member: Member,
    rows: JudgingRows,
    residuals: Sequence[np.ndarray],
    *,
    sizes: Sequence[int] | None = None,
) -> np.ndarray:
    """Report of each gradient whether it may be told beside what was told before.

    Products of the same rows may be told in any message, and so are the gradients that
    were told before: the memo of the member has their residuals.

    Parameters
    ----------
    member : Member
    rows : JudgingRows
        Rows that learn, or some of them.
    residuals : sequence of ndarray of shape (n_rows, n_outputs)
        Those of each model, or other columns that are summed with those of the rows.
    sizes : sequence of int, default=None
        How many numbers each of the sums is. None: they are gradients.

    Returns
    -------
    is_told : ndarray of bool of shape (n_models,)
    """
    rule = member.disclosure
    is_told = np.ones(len(residuals), dtype=bool)
    if rule is None:
        return is_told
    n_rows, n_inputs = rows.Z.shape
    together = member.memo.get(RESIDUALS, np.zeros((n_rows, 0)))
    if len(together) != n_rows:  # of rows of other classes, which is not known to hold
        return ~is_told
    rows_to_tell = RowsToTell.without_residuals(
        X=rows.Z,
        codes=np.unique(rows.columns, return_inverse=True)[1],
        units=numbered(rows.units),
        weights=rows.row_weights,
    )
    n_unknowns = member.n_raw_columns or rows.X.shape[1]
    told = told_of(
        rows_to_tell,
        rule,
        kind="class",
        n_unknowns=n_unknowns,
        seed=partial(seed_of, rows.Z, rows.columns),
        may_lower=False,
    )
    n_left = rule.unknowns * n_rows * n_unknowns - n_told_before(member)
    for k, of_model in enumerate(residuals):
        n_numbers = (n_inputs + 1) * (of_model.shape[1] - 1)
        if sizes is not None:
            n_numbers = sizes[k]
        wider = np.hstack([together, of_model * rows.class_weights[:, None]])
        is_told[k] = n_numbers <= n_left and gradient_holds(
            replace(rows_to_tell, residuals=wider), told, rule
        )
        if is_told[k]:
            n_left -= n_numbers
            together = wider
    member.memo[RESIDUALS] = together
    return is_told


@dataclass(frozen=True, eq=False, kw_only=True)
class HeldTables:
    """Which tables of the same rows may be summed beside each other, and how."""

    names: list[str]
    # Those whose columns each class may have products of by itself.
    by_class: set[str]
    # (n_rows,), with which all are summed; None: they are those of the member.
    weights: np.ndarray | None
    n_columns: int  # different ones, of all tables together


def tables_that_hold(
    member: Member,
    tables: Mapping[str, Rows],
    *,
    by_class: Collection[str],
    n_told_before: float,
) -> HeldTables:
    """Return which tables of the same rows may be summed, and with which weights.

    Parameters
    ----------
    member : Member
        Its rows learn, all of them, and have passed the rule.
    tables : mapping of str to {ndarray, sparse matrix} of shape (n_rows, n_columns)
        What comes out of each of several fronts. A table that would tell too much
        beside those before it is left out, but never the first. One whose columns are
        all in others tells nothing more.
    by_class : collection of str
        Names of tables of which products are asked by class. Columns of the first table
        are told by class if at least half as many others hold beside them.
    n_told_before : float
        How many numbers earlier messages have told of the rows.
    """
    if member.disclosure is None:
        return HeldTables(
            names=list(tables), by_class=set(by_class), weights=None, n_columns=0
        )
    asks_by_class = next(iter(tables)) in by_class
    if asks_by_class:
        own = _held_in_order(
            member, tables, is_first_own=True, n_told_before=n_told_before
        )
        if len(own.names) == len(tables):
            return own
    shared = _held_in_order(
        member, tables, is_first_own=False, n_told_before=n_told_before
    )
    if not asks_by_class or shared.weights is None:
        return shared
    n_of_first = _n_different(next(iter(tables.values())))
    if 2 * (own.n_columns - n_of_first) < shared.n_columns - n_of_first:
        return shared
    return own


def _n_different(X: Rows) -> int:
    """Return how many columns are no combinations of others."""
    X = X.toarray() if sparse.issparse(X) else X
    return len(Span.of_constants(len(X)).with_columns(X)[1])


def _held_in_order(
    member: Member,
    tables: Mapping[str, Rows],
    *,
    is_first_own: bool,
    n_told_before: float,
) -> HeldTables:
    """Return the tables that hold: all, or each beside those before it that do."""
    nothing = _Gathered.of_nothing(
        member, is_first_own=is_first_own, n_told_before=n_told_before
    )
    of_all = nothing
    for name, X in tables.items():
        of_all = of_all.with_table(name, X)
    weighted = of_all.weighted()
    if weighted is not None:
        return weighted.held
    gathered = nothing
    for name, X in tables.items():
        gathered = gathered.with_table(name, X).weighted() or gathered
    return gathered.held


@dataclass(frozen=True, eq=False, kw_only=True)
class _Gathered:
    """The different columns of several tables of a member's rows."""

    member: Member
    codes: np.ndarray  # (n_rows,), the class of each row
    is_first_own: bool  # whether each class tells columns of the first by itself
    n_told_before: float
    span: Span
    columns: np.ndarray  # (n_rows, n_columns)
    names: tuple[str, ...] = ()
    by_class: frozenset[str] = frozenset()
    n_of_first: int = 0  # how many of the columns are those of the first table
    weights: np.ndarray | None = None
    is_weighted: bool = True  # whether the weights are those of all columns

    @classmethod
    def of_nothing(
        cls, member: Member, *, is_first_own: bool, n_told_before: float
    ) -> "_Gathered":
        """Return the columns of no table."""
        n_rows = len(member.y)
        return cls(
            member=member,
            codes=np.unique(member.y, return_inverse=True)[1],
            is_first_own=is_first_own,
            n_told_before=n_told_before,
            span=Span.of_constants(n_rows),
            columns=np.zeros((n_rows, 0)),
        )

    def _rows(self, X: Rows) -> RowsToTell:
        weights = self.member.counted_weights("learning")
        return _rows_to_tell(self.member, X, self.codes, weights=weights)

    def with_table(self, name: str, X: Rows) -> "_Gathered":
        """Return the columns of one table more."""
        X = self._rows(X.toarray() if sparse.issparse(X) else X).X
        span, new = self.span.with_columns(X)
        columns = np.hstack([self.columns, X[:, new]])
        n_of_first = self.n_of_first if self.names else len(new)
        is_of_first = self.is_first_own and columns.shape[1] == n_of_first
        return replace(
            self,
            span=span,
            columns=columns,
            names=(*self.names, name),
            by_class=self.by_class | ({name} if is_of_first else set()),
            n_of_first=n_of_first,
            is_weighted=self.is_weighted and (not self.names or not len(new)),
        )

    def weighted(self) -> "_Gathered | None":
        """Return the columns with weights with which all are told; None: too much."""
        if self.is_weighted:
            return self
        weights = weights_of_tables(
            replace(self._rows(self.columns), X=self.columns),
            self.member.disclosure,
            n_own=self.n_of_first if self.is_first_own else 0,
            n_unknowns=self.member.n_raw_columns or self.n_of_first,
            n_told_before=self.n_told_before,
            seed=partial(seed_of, self.columns, self.codes),
        )
        if weights is None:
            return None
        return replace(self, weights=weights, is_weighted=True)

    @property
    def held(self) -> HeldTables:
        """The tables, and what they are told with."""
        # Without weights of its own the first tells by class what it does alone.
        return HeldTables(
            names=list(self.names),
            by_class=set(self.names if self.weights is None else self.by_class),
            weights=self.weights,
            n_columns=self.columns.shape[1],
        )


def without_rare_values(member: Member, outputs: Rows, role: str) -> Rows:
    """Return what layers make of the rows of a role, with values of few replaced."""
    if member.disclosure is None:
        return outputs
    _, y = member.rows(role)
    codes = np.unique(y, return_inverse=True)[1]
    units = np.unique(member.units(role), return_inverse=True)[1]
    return clamped(outputs, codes, units, cell=member.disclosure.cell)


def _rows_to_tell(
    member: Member, X: Rows, codes: np.ndarray, *, weights: np.ndarray
) -> RowsToTell:
    """Return rows with the values of few rows replaced, and without residuals."""
    units = numbered(member.units("learning"))
    return RowsToTell.without_residuals(
        X=clamped(X, codes, units, cell=member.disclosure.cell),
        codes=codes,
        units=units,
        weights=weights,
    )


def _without_columns(
    X: Rows, codes: np.ndarray, *, weights: np.ndarray, told: Told, cell: int
) -> Rows:
    """Return rows in which columns of which only means are told are constant.

    That is so for the rows of all classes without a scatter of their own together, and
    for those of each class that tells squares alone. Of values further out than those
    of so many rows as make a cell the mean knows no more than that.
    """
    left = np.flatnonzero(~told.has_own[codes])
    places = [(left, j) for j in np.flatnonzero(told.is_mean_only).tolist()]
    for c, j in np.argwhere(told.is_own_mean_only).tolist():
        places.append((np.flatnonzero(codes == c), j))
    if not places:
        return X
    X = X.astype(float_type(X))
    X = X.tolil() if sparse.issparse(X) else X
    for rows, j in places:
        values = X[rows, j]
        if sparse.issparse(X):
            values = values.toarray().ravel()
        in_order = np.sort(values)
        values = np.clip(values, in_order[cell - 1], in_order[-cell])
        X[rows, j] = weights[rows] @ values / weights[rows].sum()
    return X.tocsr() if sparse.issparse(X) else X
