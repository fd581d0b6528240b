"""Taking a node's rows through the steps of a front, as far as these are fitted.

Four visitors do so: one tells what the next steps need, one compares states with the
rows, one joins bins that hold few rows, and one checks at the server, on an example of
a row, that no texts enter a step of numbers. Errors here may reach a server, so that
none has a value of a row.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, Pipeline

from ..compat import safe_indexing
from ._bins import Cells, JoinedBins
from ._branches import branches_of, side_by_side
from ._columns import (
    INFINITE,
    NUMBERS,
    OTHER_REMEDY,
    REMEDIES,
    Columns,
    ColumnsError,
    Table,
    labels_by_kind,
    labels_of,
    labels_of_infinite,
    polars_to_pandas,
    with_nan,
)
from ._contradictions import NodeRows
from ._fitting import Pending
from ._kinds import KINDS
from ._statistics import STATISTICS, TOLD_UNDER_RULE
from ._trees import Step, is_passthrough

# Words by which a server knows why a node with sparse rows refuses a step.
TAKES_DENSE_ROWS = "takes dense rows only"


class RowsVisitor:
    """Takes a table through the steps of a front.

    A *leaf* is a step that holds no others, as a scaler does not. A subclass says in
    `visit_leaf` what comes out of one.

    Parameters
    ----------
    is_sparse : mapping
        By path of what stands side by side, whether sparse rows come out of it, as was
        found when it was fitted. What is not in it is sparse where a branch is.
    """

    def __init__(self, is_sparse: Mapping[str, bool | None]) -> None:
        self.is_sparse = is_sparse

    def visit_leaf(
        self, step: BaseEstimator, table: Table, *, path: str
    ) -> Table | None:
        """Return what comes out of a leaf, None if unknown."""
        raise NotImplementedError

    def visit(self, step: Step, table: Table, *, path: str = "0") -> Table | None:
        """Return what comes out of a step and all within it, None if unknown."""
        if is_passthrough(step):
            return table
        if isinstance(step, Pipeline):
            return self._visit_pipeline(step, table, path=path)
        if isinstance(step, ColumnTransformer | FeatureUnion):
            return self._visit_branches(step, table, path=path)
        return self.visit_leaf(step, table, path=path)

    def _visit_pipeline(
        self, pipeline: Pipeline, table: Table, *, path: str
    ) -> Table | None:
        for k, (_, step) in enumerate(pipeline.steps):
            table = self.visit(step, table, path=f"{path}/{k}")
            if table is None:
                return None
        return table

    def _visit_branches(
        self, transformer: ColumnTransformer | FeatureUnion, table: Table, *, path: str
    ) -> Table | None:
        tables = []
        for k, branch in enumerate(branches_of(transformer, table)):
            if branch.is_dropped:
                continue
            entering = branch.columns_of(table)
            # All of them, though one may be unknown: each has something to be told.
            tables.append(self.visit(branch.transformer, entering, path=f"{path}/{k}"))
        if any(branch_table is None for branch_table in tables):
            return None
        if not tables:  # all branches are dropped
            return safe_indexing(table, [], axis=1)
        return side_by_side(tables, is_sparse=self.is_sparse.get(path))


class TellingVisitor(RowsVisitor):
    """Tells what pending steps need of a node's rows.

    Parameters
    ----------
    leaves, pending : mapping
        By path, the steps that are fitted, and those that wait.
    tables : dict
        By path, what came out of fitted steps for these rows before; filled further.
    min_rows : int
        Nothing is told of columns and categories that have fewer rows.
    weights : ndarray of shape (n_rows,), or None
        How much each row counts in sums. None: once.
    check_products : callable or None
        ``check_products(table)`` raises an error for a table of which products of
        columns may not be told.
    """

    def __init__(
        self,
        *,
        leaves: Mapping[str, BaseEstimator],
        pending: Mapping[str, Pending],
        is_sparse: Mapping[str, bool | None],
        tables: dict[str, Table],
        min_rows: int,
        weights: np.ndarray | None,
        check_products: Callable[[Table], None] | None,
    ) -> None:
        super().__init__(is_sparse)
        self.check_products = check_products
        self.is_refused = False  # whether products may not be told
        self.weights = weights
        self.leaves = leaves
        self.pending = pending
        self.tables = tables
        self.min_rows = min_rows
        self.parts: dict[str, dict] = {}  # what is told, by path

    def visit_leaf(
        self, step: BaseEstimator, table: Table, *, path: str
    ) -> Table | None:
        if path in self.leaves:
            if path not in self.tables:
                self.tables[path] = transformed(
                    self.leaves[path], step=step, table=table
                )
            return self.tables[path]
        pending = self.pending.get(path)
        if pending is not None and pending.can_tell:
            self.parts[path] = self._told_of(step, table=table, pending=pending)
        return None

    def _told_of(self, step: BaseEstimator, *, table: Table, pending: Pending) -> dict:
        """The statistic that a step waits for, of a table that enters it."""
        name = pending.statistic
        if name != "categories":
            # Texts such as "45", and dates, would be taken for numbers.
            check_numbers(step, table)
        if name == "scatter" and self.check_products is not None:
            self.is_refused = True
            self.check_products(table)
            self.is_refused = False
        if self.min_rows > 1:  # there is a rule
            name = TOLD_UNDER_RULE.get(name, name)
        tell = STATISTICS[name].tell
        with no_values_in_errors(step, table):
            if name == "histogram":
                low, high = pending.bounds
                statistic = tell(
                    table, self.min_rows, low=low, high=high, weights=self.weights
                )
            else:
                statistic = tell(table, self.min_rows, weights=self.weights)
        return {"statistic": name, **statistic}


class ContradictionVisitor(RowsVisitor):
    """Finds the first step whose state cannot be of a node's rows among others.

    Parameters
    ----------
    leaves, states, bounds : mapping
        By path, the steps that are fitted, what to, and agreed bounds of their columns.
    min_rows, weights
        The same as when the node told.
    """

    def __init__(
        self,
        *,
        leaves: Mapping[str, BaseEstimator],
        states: Mapping[str, Mapping],
        bounds: Mapping[str, np.ndarray],
        is_sparse: Mapping[str, bool | None],
        min_rows: int,
        weights: np.ndarray | None,
    ) -> None:
        super().__init__(is_sparse)
        self.weights = weights
        self.leaves = leaves
        self.states = states
        self.bounds = bounds
        self.min_rows = min_rows
        self.contradictions: list[str] = []

    def visit_leaf(
        self, step: BaseEstimator, table: Table, *, path: str
    ) -> Table | None:
        if path not in self.leaves:
            return None
        fitted = self.leaves[path]
        state = self.states.get(path)
        if state:  # without one it is fitted to nothing that the server said
            rows = NodeRows(
                table=table,
                bounds=self.bounds[path],
                min_rows=self.min_rows,
                weights=self.weights,
            )
            contradiction = KINDS[type(step)].contradiction(fitted, state, rows)
            if contradiction:
                self.contradictions.append(f"{type(step).__name__}: {contradiction}")
                return None
        return transformed(fitted, step=step, table=table)


class JoiningVisitor(RowsVisitor):
    """Takes rows through fitted steps, where bins of few rows have joined a neighbor.

    It stops where a step lays edges and it is not known yet which bins join: the rows
    that enter there are counted.

    Parameters
    ----------
    leaves : mapping
        By path, the steps, all of which are fitted.
    joined : JoinedBins
        Which bins join which; counts are added to it.
    cells : Cells
        Which of the rows are summed together.
    """

    def __init__(
        self,
        *,
        leaves: Mapping[str, BaseEstimator],
        is_sparse: Mapping[str, bool | None],
        joined: JoinedBins,
        cells: Cells,
    ) -> None:
        super().__init__(is_sparse)
        self.leaves = leaves
        self.joined = joined
        self.cells = cells

    def visit_leaf(
        self, step: BaseEstimator, table: Table, *, path: str
    ) -> Table | None:
        fitted = self.leaves[path]
        kind = KINDS[type(step)]
        if kind.lays_edges:
            bins = kind.bins(fitted)
            with no_values_in_errors(step, table):
                if not self.joined.is_settled(path):
                    self.joined.add(path, bins, table, self.cells)
                    return None
                table = self.joined.table(path, bins, table, self.cells)
        return transformed(fitted, step=step, table=table)


class TextsVisitor(RowsVisitor):
    """Finds columns of texts that would enter steps of numbers.

    It takes an example of a row through the steps, none of which needs to be fitted.
    """

    def __init__(self) -> None:
        super().__init__(is_sparse={})
        # By kind of step, names of columns of texts that would enter it, in order: a
        # dict without values, since each is listed once.
        self.refused: dict[str, dict] = {}

    def visit_leaf(
        self, step: BaseEstimator, table: Table, *, path: str
    ) -> Table | None:
        places = np.flatnonzero(Columns.from_table(table).text)
        if not len(places):
            return None
        kind = KINDS[type(step)]
        if not kind.takes_texts(step):
            labels = labels_of(table)
            refused = self.refused.setdefault(type(step).__name__, {})
            refused.update(dict.fromkeys(labels[j] for j in places))
        # An imputer hands texts on; what comes out of others is numbers.
        return table if kind.by_column else None


def transformed(fitted: BaseEstimator, *, step: Step, table: Table) -> Table:
    """Return the output of a fitted step for a node's table; errors tell no value."""
    # Arrays are quicker, and the same where all columns are numbers.
    if hasattr(table, "columns") and not hasattr(fitted, "feature_names_in_"):
        table = with_nan(table.to_numpy())
    with no_values_in_errors(step, table):
        return polars_to_pandas(fitted.transform(table))


@contextmanager
def no_values_in_errors(step: Step, table: Table | None = None) -> Iterator[None]:
    """Keep values of rows out of errors that a server may see; the cause has them.

    Where columns of a table are not such as the step takes, these are named.
    """
    try:
        yield
    except ColumnsError:
        raise
    except (ValueError, TypeError) as error:
        # What encoders say of unknown categories has nothing to do with numbers.
        if table is not None and not hasattr(step, "handle_unknown"):
            check_numbers(step, table, cause=error)
        # A scaler that centers raises ValueError for sparse rows.
        is_refused = isinstance(error, TypeError) and ".toarray()" in str(error)
        if is_refused or sparse.issparse(table):
            raise ColumnsError(
                f"{type(step).__name__} {TAKES_DENSE_ROWS}, and these are sparse. "
                "Give X.toarray(), or a front that does not center columns, such as "
                "StandardScaler(with_mean=False)."
            ) from error
        raise ColumnsError(
            f"{type(step).__name__} cannot transform the values of some rows "
            f"({type(error).__name__})."
        ) from error


def check_numbers(step: Step, table: Table, *, cause: Exception | None = None) -> None:
    """Raise ColumnsError for columns of a table that hold no numbers, by their names.

    After a failure, its cause, columns of infinite numbers are looked for, too.
    """
    by_kind = labels_by_kind(table)
    if cause is not None:
        by_kind[INFINITE] = labels_of_infinite(table)
    for kind, labels in by_kind.items():
        if kind != NUMBERS and labels:
            raise ColumnsError(
                f"{type(step).__name__} takes numbers, but the columns {labels[:5]} "
                f"hold {kind}. {REMEDIES.get(kind, OTHER_REMEDY)}"
            ) from cause
