"""What stands side by side in a front: branches, their columns, and what comes out.

A ColumnTransformer gives each of its branches some of the columns, a FeatureUnion gives
each all of them; behind both, what came out of the branches stands side by side. The
branches are fitted one by one, and the whole is put together of them afterwards.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import FeatureUnion

from ..compat import get_column_indices, safe_indexing
from ._columns import ColumnsError, Table, names_alike
from ._trees import Step, is_dropped


@dataclass(frozen=True, eq=False, kw_only=True)
class Branch:
    """One of the transformers that stand side by side."""

    name: str
    transformer: Step
    places: Sequence[int] | None  # of the columns that it takes; None: all

    @property
    def is_dropped(self) -> bool:
        """Report whether there is no output; no step is fitted to no columns."""
        takes_columns = self.places is None or len(self.places) > 0
        return is_dropped(self.transformer) or not takes_columns

    def columns_of(self, table: Table) -> Table:
        """The columns of a table that the branch takes."""
        if self.places is None:
            return table
        return safe_indexing(table, self.places, axis=1)


def branches_of(
    transformer: ColumnTransformer | FeatureUnion, table: Table
) -> list[Branch]:
    """Branches for the columns of a table, those of the remainder last."""
    if isinstance(transformer, FeatureUnion):
        return [
            Branch(name=name, transformer=step, places=None)
            for name, step in transformer.transformer_list
        ]
    branches = []
    taken_places: set[int] = set()
    for name, step, columns in transformer.transformers:
        if hasattr(table, "columns"):
            labels = [columns] if isinstance(columns, str) else columns
            names = [label for label in labels if isinstance(label, str)]
            check_has_columns(table, names)
        places = get_column_indices(table, columns)
        taken_places |= set(places)
        branches.append(Branch(name=name, transformer=step, places=places))
    other_places = sorted(set(range(table.shape[1])) - taken_places)
    if other_places:
        branches.append(
            Branch(
                name="remainder",
                transformer=transformer.remainder,
                places=other_places,
            )
        )
    return branches


def check_has_columns(table: Table, names: Iterable[str]) -> None:
    """Raise ColumnsError if a table lacks columns of these names."""
    present = set(table.columns)
    missing = [name for name in names if name not in present]
    if missing:
        alike = names_alike(missing, present)
        raise ColumnsError(f"X lacks the columns {missing[:10]}.{alike}")


def side_by_side(tables: Sequence[Table], *, is_sparse: bool | None) -> Table:
    """The columns of several tables; ``is_sparse`` None: sparse if one of them is."""
    if is_sparse is not False and any(map(sparse.issparse, tables)):
        return sparse.hstack(tables).tocsr()
    arrays = [
        table.toarray() if sparse.issparse(table) else np.asarray(table)
        for table in tables
    ]
    return np.hstack(arrays) if len(arrays) > 1 else arrays[0]


class _Stand(TransformerMixin, BaseEstimator):
    """Stands for a fitted transformer while a ColumnTransformer is put together."""

    def __init__(self, rows_out: Table = None) -> None:
        self.rows_out = rows_out

    def fit(self, X, y=None) -> "_Stand":
        return self

    def transform(self, X) -> Table:
        return self.rows_out

    def __sklearn_is_fitted__(self) -> bool:
        return True


def assembled_union(
    union: FeatureUnion, *, fitted: Mapping[str, Step], example: Table
) -> FeatureUnion:
    """A fitted FeatureUnion of fitted branches, by name; ``example`` is a row."""
    frozen = [
        (name, step if isinstance(step, str) else FrozenEstimator(fitted[name]))
        for name, step in union.transformer_list
    ]
    assembled = FeatureUnion(frozen).fit(example)
    assembled.transformer_list = [
        (name, getattr(step, "estimator", step))
        for name, step in assembled.transformer_list
    ]
    return assembled


def assembled_columns(
    transformer: ColumnTransformer,
    *,
    fitted: Mapping[str, Step],
    rows_out: Mapping[str, Table],
    example: Table,
) -> ColumnTransformer:
    """A fitted ColumnTransformer of fitted branches, by name.

    Its own `fit` would fit clones of the branches. So a fitted stand-in takes the place
    of each branch, and returns ``rows_out``: what came out of the branch for the row of
    the example. Then the branch itself takes its place again.
    """

    def stand_for(name: str, step: Step) -> str | _Stand:
        # A branch that takes no columns stays as it is, which fits nothing.
        is_fixed = isinstance(step, str) or name not in rows_out
        return step if is_fixed else _Stand(rows_out[name])

    params = transformer.get_params(deep=False)
    # Branches that are dropped for want of columns had their places until now.
    branches = [
        (name, step, columns)
        for name, step, columns in transformer.transformers
        if not (is_dropped(step) and isinstance(columns, list) and not columns)
    ]
    params["transformers"] = [
        (name, stand_for(name, step), columns) for name, step, columns in branches
    ]
    if "remainder" in fitted:
        params["remainder"] = stand_for("remainder", transformer.remainder)
    assembled = type(transformer)(**params).fit(example)
    assembled.transformers_ = [
        (name, fitted[name] if isinstance(step, _Stand) else step, columns)
        for name, step, columns in assembled.transformers_
    ]
    return assembled.set_params(remainder=transformer.remainder, transformers=branches)
