"""What a node's rows tell under the rule of disclosure.

Values of few rows become the commonest one of their class and column, and each row gets
one weight, with which all sums of an exchange are made.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from ..disclosure import Rows as RowsToTell
from ..disclosure import Told, clamped, gradient_holds, numbered, told_of
from ..moments import ToldSums, float_type
from ..networks import Network
from ._classifiers import Rows
from ._closed_forms import closed_form
from ._disclosed_tables import seed_of
from ._lookup import local_model
from ._member import Member
from ._model import LocalModel
from ._own_residuals import has_linear_model, own_residuals

# Where the memo of a member has the residuals of models whose gradients were told.
RESIDUALS = "residuals"


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
    if has_linear_model(member):
        residuals = own_residuals(member, rows.X, y, start)
    told = told_of(
        replace(rows, residuals=residuals[0], known=residuals[1]),
        rule,
        kind="class",
        n_unknowns=member.n_raw_columns or X.shape[1],
        seed=partial(seed_of, X, codes),
        may_lower=True,
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
    return local_model(Network.of_rows(labels, member.X, names), name=member.name)


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
class TellableRows:
    """Rows as a node sums them under the rule, and what of the sums it tells."""

    X: Rows
    told: Told | None  # None: there is no rule
    parts: np.ndarray | None  # (n_rows,), clusters that are told of
    withholds: bool = False  # whether the rule changes a sum
    is_shared: bool = False  # whether all classes share one scatter
    seed: Callable[[], int] | None = None  # returns one that follows from the rows

    @property
    def has_own(self) -> np.ndarray | None:
        """Classes with a scatter of their own, (n_classes,); None: by their sizes."""
        if self.told is None or not self.is_shared:
            return None if self.told is None else self.told.has_own
        return np.zeros_like(self.told.has_own)

    @property
    def sums(self) -> ToldSums | None:
        """How the products of the rows are told; None: there is no rule."""
        if self.told is None:
            return None
        block = None if self.told.is_in_block.all() else self.told.is_in_block
        return ToldSums(block=block, seed=self.seed)

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
    has_gradient: bool,
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
    has_gradient : bool
        Whether the gradient of the node's own model is asked for.
    """
    rule = member.disclosure
    if rule is None:
        return TellableRows(X=X, told=None, parts=parts)
    weights = member.counted_weights("learning")
    rows = replace(_rows_to_tell(member, X, codes, weights=weights), parts=parts)
    if has_gradient:
        _, y = member.rows("learning")
        told_residuals, known = own_residuals(member, rows.X, y, weights)
        rows = replace(rows, residuals=told_residuals, known=known)
    told = told_of(
        rows,
        rule,
        kind="diagonal" if kind == "diagonal" else "class",
        n_unknowns=member.n_raw_columns or X.shape[1],
        seed=partial(seed_of, X, codes),
        may_lower=False,
    )
    is_by_class = kind == "class" and member.may_tell_classes
    if parts is not None:  # numbers that no cluster has stand for whole classes
        has_clusters = told.has_clusters[codes] & (is_by_class or kind == "diagonal")
        parts = np.where(has_clusters, parts, parts.max() + 1 + codes)
    are_replaced = member.is_changed or rows.X is not X
    return TellableRows(
        X=_without_columns(rows.X, codes, weights=weights, told=told, cell=rule.cell),
        told=told,
        parts=parts,
        withholds=are_replaced or _tells_less(told, is_by_class=kind != "shared"),
        is_shared=kind != "diagonal" and not is_by_class,
        seed=partial(seed_of, X, codes),
    )


def _tells_less(told: Told, *, is_by_class: bool) -> bool:
    """Report whether less is told than was asked for, by class or of all together."""
    are_constant = bool(told.is_own_mean_only.any())
    are_shared = is_by_class and not told.has_own.all()
    return not told.has_gradient or are_shared or are_constant


def may_tell_gradient(
    member: Member,
    Z: Rows,
    codes: np.ndarray,
    *,
    weights: np.ndarray,
    residuals: np.ndarray,
) -> bool:
    """Report whether the gradient of a model may be told beside what was told before.

    Products of the same rows may be told in any message, and so are the gradients that
    were told before: the memo of the member has their residuals.

    Parameters
    ----------
    member : Member
    Z : {ndarray, sparse matrix} of shape (n_rows, n_inputs)
        Rows as they enter the model.
    codes : ndarray of shape (n_rows,)
        The class of each row.
    weights : ndarray of shape (n_rows,)
    residuals : ndarray of shape (n_rows, n_outputs)
    """
    rule = member.disclosure
    if rule is None:
        return True
    n_rows = Z.shape[0]
    rows = RowsToTell.without_residuals(
        X=Z,
        codes=np.unique(codes, return_inverse=True)[1],
        units=np.arange(n_rows),
        weights=weights,
    )
    told = told_of(
        rows,
        rule,
        kind="class",
        n_unknowns=member.n_raw_columns or Z.shape[1],
        seed=partial(seed_of, Z, codes),
        may_lower=False,
    )
    before = member.memo.get(RESIDUALS, np.zeros((n_rows, 0)))
    if len(before) != n_rows:  # of rows of other classes, which is not known to hold
        return False
    together = np.hstack([before, residuals])
    if not gradient_holds(replace(rows, residuals=together), told, rule):
        return False
    member.memo[RESIDUALS] = together
    return True


def tables_that_hold(
    member: Member, tables: Mapping[str, Rows]
) -> tuple[list[str], bool]:
    """Return which tables of the same rows may be summed, and whether by class.

    Parameters
    ----------
    member : Member
        Its rows learn, all of them, and have passed the rule.
    tables : mapping of str to {ndarray, sparse matrix} of shape (n_rows, n_columns)
        What comes out of each of several fronts. A table that would tell too much
        beside those before it is left out, but never the first.
    """
    rule = member.disclosure
    if rule is None:
        return list(tables), True
    codes = np.unique(member.y, return_inverse=True)[1]
    weights = np.ones(len(codes)) if member.weights is None else member.weights
    held: list[str] = []
    beside = np.zeros((len(codes), 0))
    may_tell_classes = True
    for name, X in tables.items():
        X = X.toarray() if sparse.issparse(X) else X
        rows = _rows_to_tell(member, X, codes, weights=weights)
        together = np.hstack([beside, rows.X])
        if held:
            if _has_rank_of(beside, together):  # nothing new is told of these columns
                held.append(name)
                continue
            told = told_of(
                replace(rows, X=together),
                rule,
                kind="class",
                n_unknowns=member.n_raw_columns or X.shape[1],
                seed=partial(seed_of, X, codes),
                may_lower=False,
            )
            if not told.is_in_block.all():
                continue
            may_tell_classes = False
        held.append(name)
        beside = together
    return held, may_tell_classes


def _has_rank_of(X: np.ndarray, wider: np.ndarray) -> bool:
    """Report whether further columns are combinations of the first and a constant."""
    return np.linalg.matrix_rank(X - X.mean(axis=0)) == np.linalg.matrix_rank(
        wider - wider.mean(axis=0)
    )


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
