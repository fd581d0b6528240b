"""How large a front is on rows, of its tree alone: before any step is made or run.

A request may ask for a front that would fill a node's memory or keep it busy for days.
So the columns that enter each step are counted, from the rows to the end, and with them
what the step holds and computes; the limits of a node are compared with these numbers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, Pipeline

from ..compat import get_column_indices
from ._columns import Columns, ColumnsError
from ._columns_of import with_columns_listed
from ._front import Front
from ._kind import EXTREMES
from ._kinds import KINDS
from ._statistics import N_BINS
from ._trees import Step, is_dropped, is_passthrough

# Parameters that say how much a step computes.
SIZES = ("n_components", "n_bins", "n_knots", "n_quantiles", "degree")
# Share of numbers other than 0 from which a ColumnTransformer makes dense rows; a
# request that has a smaller one may ask for dense rows where all would be sparse.
_DENSE_FROM = ColumnTransformer([]).sparse_threshold


@dataclass(frozen=True, kw_only=True)
class _Table:
    """Columns that come out of a step, and numbers that are kept of them a row."""

    n_columns: int
    n_stored: int  # fewer than columns where rows are sparse


@dataclass(kw_only=True)
class FrontSize:
    """What the steps of a front make of rows, and hold, as far as they are fitted.

    A step that waits for what nodes tell is run by nobody yet, nor is what comes after
    it: these count once their states are in a request.
    """

    step_size: int = 0  # the largest of its parameters that say how much is computed
    n_columns: int = 0  # that come out of all steps together
    n_columns_out: int | None = None  # that come out at the end; None: it waits
    n_weights: int = 0  # numbers that each row is multiplied with, and nodes draw
    n_power_columns: int = 0  # of which sums after each of a grid of powers are told
    n_numbers_a_row: int = 0  # in memory at once, for each row
    n_numbers: int = 0  # in memory, however many rows there are
    # Name of the class of each step, for errors.
    kinds: list[str] = field(default_factory=list)

    def numbers_on(self, n_rows: int) -> int:
        """Return how many numbers are in memory at once for so many rows."""
        return self.n_numbers + self.n_numbers_a_row * n_rows


def front_size(front: Front, columns: Columns) -> FrontSize:
    """The size of a front on rows of some columns.

    Parameters
    ----------
    front : Front
        As it came in a request, checked by its kinds.
    columns : Columns
        Those of all nodes if the front has them, else those of the node.
    """
    entering = columns.kept
    try:
        transformer = with_columns_listed(front.transformer, entering)
    except ColumnsError:  # for which no step will be run
        transformer = front.transformer
    visitor = _SizeVisitor(front.states)
    table = visitor.visit(
        transformer,
        _Table(n_columns=entering.n, n_stored=entering.n),
        path="0",
        columns=entering,
    )
    visitor.size.n_columns_out = None if table is None else table.n_columns
    return visitor.size


class _SizeVisitor:
    """Takes the sizes of tables through the steps of a front, and adds up all sizes."""

    def __init__(self, states: Mapping[str, Mapping]) -> None:
        self.states = states  # by path of the steps that have one
        self.size = FrontSize()

    def visit(
        self, step: Step, table: _Table, *, path: str, columns: Columns | None
    ) -> _Table | None:
        """Add a step's output to the size and return it; None where a step waits.

        ``columns`` are those that enter, None where another step was before.
        """
        if is_passthrough(step):
            return table
        if isinstance(step, Pipeline):
            return self._visit_pipeline(step, table, path=path, columns=columns)
        if isinstance(step, ColumnTransformer | FeatureUnion):
            return self._visit_branches(step, table, path=path, columns=columns)
        return self._visit_leaf(step, table, path=path)

    def _visit_pipeline(
        self, pipeline: Pipeline, table: _Table, *, path: str, columns: Columns | None
    ) -> _Table | None:
        for k, (_, step) in enumerate(pipeline.steps):
            entering = columns if k == 0 else None
            table = self.visit(step, table, path=f"{path}/{k}", columns=entering)
            if table is None:
                return None
        return table

    def _visit_branches(
        self,
        transformer: ColumnTransformer | FeatureUnion,
        table: _Table,
        *,
        path: str,
        columns: Columns | None,
    ) -> _Table | None:
        tables: list[_Table | None] = []
        branches = _steps_and_widths(transformer, table=table, columns=columns)
        for k, (step, n_columns) in enumerate(branches):
            if is_dropped(step) or not n_columns:  # as in `Branch`
                continue
            n_stored = min(n_columns, table.n_stored)
            entering = _Table(n_columns=n_columns, n_stored=n_stored)
            # A branch is itself a copy of the columns that it takes.
            if isinstance(transformer, ColumnTransformer):
                self.size.n_numbers_a_row += n_stored
            tables.append(self.visit(step, entering, path=f"{path}/{k}", columns=None))
        if any(branch_table is None for branch_table in tables):
            return None
        n_columns = sum(branch_table.n_columns for branch_table in tables)
        n_stored = sum(branch_table.n_stored for branch_table in tables)
        if getattr(transformer, "sparse_threshold", _DENSE_FROM) < _DENSE_FROM:
            n_stored = n_columns
        # All of them once more, side by side.
        self.size.n_numbers_a_row += n_stored
        return _Table(n_columns=n_columns, n_stored=n_stored)

    def _visit_leaf(
        self, step: BaseEstimator, table: _Table, *, path: str
    ) -> _Table | None:
        size = self.size
        kind = KINDS[type(step)]
        size.kinds.append(type(step).__name__)
        step_sizes = [_largest(getattr(step, name, None)) for name in SIZES]
        size.step_size = max([size.step_size, *step_sizes])
        statistic = kind.statistic_for(step)
        state = self.states.get(path)
        # Extremes may be known from bounds that are agreed.
        if statistic not in (None, EXTREMES) and state is None:
            self._add_statistic(statistic, table.n_columns)
            return None
        n_columns_out = kind.n_columns_out(step, table.n_columns, state or {})
        n_stored = n_columns_out
        if kind.is_sparse(step):
            # A number and its place for each column that enters.
            n_stored = min(n_columns_out, 2 * table.n_columns)
        size.n_weights += kind.n_weights(step, table.n_columns)
        size.n_numbers += kind.n_numbers(step, table.n_columns)
        size.n_numbers_a_row += kind.n_working_numbers(step, table.n_columns)
        size.n_numbers_a_row += n_stored
        size.n_columns += n_columns_out
        return _Table(n_columns=n_columns_out, n_stored=n_stored)

    def _add_statistic(self, statistic: str, n_columns: int) -> None:
        """Add what a node holds while it sums columns for a step that waits."""
        if statistic == "scatter":
            # The matrix, places of one of its halves, and that half.
            self.size.n_numbers += 3 * n_columns**2
            self.size.n_numbers_a_row += n_columns
        elif statistic == "histogram":
            # Counts up to each edge, and the same rounded to whole groups of rows.
            self.size.n_numbers += 2 * N_BINS * n_columns
        elif statistic in ("powers", "box_powers"):
            self.size.n_power_columns += n_columns


def _steps_and_widths(
    transformer: ColumnTransformer | FeatureUnion,
    *,
    table: _Table,
    columns: Columns | None,
) -> list[tuple[Step, int]]:
    """Transformer and number of columns of each branch, the rest of columns last."""
    if isinstance(transformer, FeatureUnion):
        return [(step, table.n_columns) for _, step in transformer.transformer_list]
    branches = []
    taken_places: set = set()
    for _, step, chosen in transformer.transformers:
        places = _places_of(chosen, table=table, columns=columns)
        taken_places |= set(places)
        branches.append((step, len(places)))
    n_other_columns = max(table.n_columns - len(taken_places), 0)
    if n_other_columns:
        branches.append((transformer.remainder, n_other_columns))
    return branches


def _places_of(
    chosen: Any, *, table: _Table, columns: Columns | None
) -> Sequence[int | str]:
    """Places of the columns of a branch; all, where these are not known yet."""
    if columns is None:
        # A list of places, or of names, as `check_tree` allows.
        return chosen if hasattr(chosen, "__len__") else range(table.n_columns)
    try:
        return get_column_indices(columns.example(), chosen)
    except (ValueError, TypeError):  # columns that the rows lack
        return range(table.n_columns)


def _largest(parameter: Any) -> int:
    """The largest of the sizes that a parameter says; shares and words are none."""
    if parameter is None or isinstance(parameter, str | float):
        return 0
    return int(np.max(parameter))
