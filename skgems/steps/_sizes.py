"""How large a front is on rows, of its tree alone: before any step is made or run."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, Pipeline

from ..compat import get_column_indices
from ._columns import Columns, ColumnsError
from ._columns_of import with_columns_listed
from ._front import Front
from ._kinds import KINDS
from ._statistics import N_BINS

# Parameters that say how much a step computes.
SIZES = ("n_components", "n_bins", "n_knots", "n_quantiles", "degree")
# Share of numbers other than 0 from which a ColumnTransformer makes dense rows; a
# request that has a smaller one may ask for dense rows where all would be sparse.
_DENSE_FROM = 0.3


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
    n_power_columns: int = 0
    n_numbers_a_row: int = 0  # in memory at once, for each row
    n_numbers: int = 0  # in memory, however many rows there are
    # Name of the class of each step, for errors.
    kinds: list[str] = field(default_factory=list)

    def numbers_on(self, n_rows: int) -> int:
        return self.n_numbers + self.n_numbers_a_row * n_rows

    def _add(self, table: _Table) -> _Table:
        self.n_columns += table.n_columns
        self.n_numbers_a_row += table.n_stored
        return table


def front_size(front: Front, columns: Columns) -> FrontSize:
    """The size of a front on rows of some columns.

    Parameters
    ----------
    front : Front
        As it came in a request, checked by its kinds.
    columns : Columns
        Those of all nodes if the front has them, else those of the node.
    """
    size, kept = FrontSize(), columns.kept
    try:
        steps = with_columns_listed(front.transformer, kept)
    except ColumnsError:  # for which no step will be run
        steps = front.transformer
    table = _Table(n_columns=kept.n, n_stored=kept.n)
    after = _size_of(size, front, steps, table, "0", kept)
    size.n_columns_out = None if after is None else after.n_columns
    return size


def _size_of(
    size: FrontSize,
    front: Front,
    step,
    table: _Table,
    path: str,
    columns: Columns | None,
) -> _Table | None:
    """What comes out of a step, added to the size; None where a step waits.

    ``columns`` are those that enter, None where another step was before.
    """
    if step is None or (isinstance(step, str) and step == "passthrough"):
        return table
    if isinstance(step, Pipeline):
        for k, (_, part) in enumerate(step.steps):
            before = columns if k == 0 else None
            after = _size_of(size, front, part, table, f"{path}/{k}", before)
            if after is None:
                return None
            table = after
        return table
    if isinstance(step, ColumnTransformer | FeatureUnion):
        return _size_of_branches(size, front, step, table, path, columns)
    return _size_of_step(size, front, step, table, path)


def _size_of_branches(
    size: FrontSize,
    front: Front,
    step: ColumnTransformer | FeatureUnion,
    table: _Table,
    path: str,
    columns: Columns | None,
) -> _Table | None:
    tables: list[_Table | None] = []
    for k, (part, n_columns) in enumerate(_branches_of(step, table, columns)):
        if isinstance(part, str) and part == "drop":
            continue
        n_stored = min(n_columns, table.n_stored)
        entering = _Table(n_columns=n_columns, n_stored=n_stored)
        # A branch is itself a copy of the columns that it takes.
        if isinstance(step, ColumnTransformer):
            size.n_numbers_a_row += n_stored
        tables.append(_size_of(size, front, part, entering, f"{path}/{k}", None))
    if any(part is None for part in tables):
        return None
    n_columns = sum(part.n_columns for part in tables)
    n_stored = sum(part.n_stored for part in tables)
    if getattr(step, "sparse_threshold", _DENSE_FROM) < _DENSE_FROM:
        n_stored = n_columns
    # All of them once more, side by side.
    size.n_numbers_a_row += n_stored
    return _Table(n_columns=n_columns, n_stored=n_stored)


def _branches_of(
    step: ColumnTransformer | FeatureUnion, table: _Table, columns: Columns | None
) -> list[tuple]:
    """Transformer and number of columns of each branch, the rest of columns last."""
    if isinstance(step, FeatureUnion):
        return [(part, table.n_columns) for _, part in step.transformer_list]
    branches, used = [], set()
    for _, part, chosen in step.transformers:
        places = _places_of(chosen, table, columns)
        used |= set(places)
        branches.append((part, len(places)))
    n_left = max(table.n_columns - len(used), 0)
    if n_left:
        branches.append((step.remainder, n_left))
    return branches


def _places_of(chosen, table: _Table, columns: Columns | None) -> Sequence[int]:
    """Places of the columns of a branch; all, where these are not known yet."""
    if columns is None:
        # A list of places, or of names, as `check_tree` allows.
        return chosen if hasattr(chosen, "__len__") else range(table.n_columns)
    try:
        return get_column_indices(columns.example(), chosen)
    except (ValueError, TypeError):  # columns that the rows lack
        return range(table.n_columns)


def _size_of_step(
    size: FrontSize, front: Front, step, table: _Table, path: str
) -> _Table | None:
    kind, n_columns = KINDS[type(step)], table.n_columns
    size.kinds.append(type(step).__name__)
    sizes = [_largest(getattr(step, name, None)) for name in SIZES]
    size.step_size = max([size.step_size, *sizes])
    statistic, state = kind.statistic_for(step), front.states.get(path)
    # Extremes may be known from bounds that are agreed.
    if statistic not in (None, "extremes") and state is None:
        _add_statistic(size, statistic, n_columns)
        return None
    n_out = kind.n_columns_out(step, n_columns, state or {})
    size.n_weights += kind.n_weights(step, n_columns)
    size.n_numbers += kind.n_numbers(step, n_columns)
    size.n_numbers_a_row += kind.n_working_numbers(step, n_columns)
    n_stored = n_out
    if kind.is_sparse(step):
        # A number and its place for each column that enters.
        n_stored = min(n_out, 2 * n_columns)
    return size._add(_Table(n_columns=n_out, n_stored=n_stored))


def _largest(value) -> int:
    """The largest of the sizes that a parameter says; shares and words are none."""
    if value is None or isinstance(value, str | float):
        return 0
    return int(np.max(value))


def _add_statistic(size: FrontSize, statistic: str, n_columns: int) -> None:
    """What a node holds while it sums columns for a step that waits."""
    if statistic == "scatter":
        # The matrix, places of one of its halves, and that half.
        size.n_numbers += 3 * n_columns**2
        size.n_numbers_a_row += n_columns
    elif statistic == "histogram":
        size.n_numbers += 2 * N_BINS * n_columns
    elif statistic in ("powers", "box_powers"):
        size.n_power_columns += n_columns
