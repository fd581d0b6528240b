"""What columns behind a fitted front are in units of the columns before it.

A column that is ``(x - offset) / scale`` of one column x has the coefficient times its
scale: that of one unit of x.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import singledispatch

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    RobustScaler,
    StandardScaler,
)


@dataclass(frozen=True, kw_only=True)
class RawColumn:
    """A column that a model takes, ``(x - offset) / scale`` of the column x before."""

    name: str
    scale: float = 1.0
    offset: float = 0.0
    is_raw: bool = True  # whether x is a column or a category of the nodes' rows

    def scaled(self, *, offset: float, scale: float) -> "RawColumn":
        """Return the column less an offset, divided by a scale."""
        return replace(
            self, offset=self.offset + self.scale * offset, scale=self.scale * scale
        )


def raw_columns(
    front: BaseEstimator | None, names_in: Sequence[str], names_out: Sequence[str]
) -> list[RawColumn]:
    """Return what each column that a model takes is of the rows.

    Parameters
    ----------
    front : fitted transformer or None
        None: the model takes the rows as they are.
    names_in, names_out : sequence of str
        Names of the columns before the front, and behind it.
    """
    columns = [RawColumn(name=name) for name in names_in]
    if front is None:
        return columns
    behind = _columns_behind(front, columns)
    if behind is None or len(behind) != len(names_out):
        return [RawColumn(name=name, is_raw=False) for name in names_out]
    return behind


@singledispatch
def _columns_behind(
    step: BaseEstimator | str | None, columns: list[RawColumn]
) -> list[RawColumn] | None:
    """Return the columns behind a step; None where their number is not known here."""
    return _named(step, columns)


@_columns_behind.register(str)
@_columns_behind.register(type(None))
def _(step: str | None, columns: list[RawColumn]) -> list[RawColumn]:
    return columns  # "passthrough"


@_columns_behind.register
def _(step: FunctionTransformer, columns: list[RawColumn]) -> list[RawColumn] | None:
    # A ColumnTransformer makes one without a function of "passthrough".
    return columns if step.func is None else _named(step, columns)


@_columns_behind.register
def _(step: Pipeline, columns: list[RawColumn]) -> list[RawColumn] | None:
    behind: list[RawColumn] | None = columns
    for _, inner in step.steps:
        behind = None if behind is None else _columns_behind(inner, behind)
    return behind


@_columns_behind.register
def _(step: ColumnTransformer, columns: list[RawColumn]) -> list[RawColumn] | None:
    behind: list[RawColumn] = []
    for _, branch, chosen in step.transformers_:
        if isinstance(branch, str) and branch == "drop":
            continue
        some = _chosen(columns, chosen)
        of_branch = None if some is None else _columns_behind(branch, some)
        if of_branch is None:
            return None
        behind += of_branch
    return behind


@_columns_behind.register
def _(step: OneHotEncoder, columns: list[RawColumn]) -> list[RawColumn]:
    names = step.get_feature_names_out([column.name for column in columns])
    return [RawColumn(name=name) for name in names]


@_columns_behind.register
def _(step: SimpleImputer, columns: list[RawColumn]) -> list[RawColumn] | None:
    return columns if step.indicator_ is None else _named(step, columns)


@_columns_behind.register
def _(step: StandardScaler, columns: list[RawColumn]) -> list[RawColumn]:
    return _scaled(columns, step.mean_ if step.with_mean else None, step.scale_)


@_columns_behind.register
def _(step: RobustScaler, columns: list[RawColumn]) -> list[RawColumn]:
    return _scaled(columns, step.center_, step.scale_)


@_columns_behind.register
def _(step: MaxAbsScaler, columns: list[RawColumn]) -> list[RawColumn]:
    return _scaled(columns, None, step.scale_)


@_columns_behind.register
def _(step: MinMaxScaler, columns: list[RawColumn]) -> list[RawColumn]:
    # It computes x * scale_ + min_.
    return _scaled(columns, -step.min_ / step.scale_, 1.0 / step.scale_)


def _scaled(
    columns: list[RawColumn], center: np.ndarray | None, scale: np.ndarray | None
) -> list[RawColumn]:
    """Return columns less a center, over a scale; None: nothing, and 1."""
    center = np.zeros(len(columns)) if center is None else center
    scale = np.ones(len(columns)) if scale is None else scale
    return [
        column.scaled(offset=float(offset), scale=float(of_column))
        for column, offset, of_column in zip(columns, center, scale, strict=True)
    ]


def _chosen(columns: list[RawColumn], chosen: object) -> list[RawColumn] | None:
    """Return the columns of a branch, by names, places, a mask or a slice."""
    if isinstance(chosen, slice):
        return columns[chosen]
    chosen = [chosen] if isinstance(chosen, str | int) else list(chosen)
    if all(isinstance(name, str) for name in chosen):
        by_name = {column.name: column for column in columns}
        are_known = by_name.keys() >= set(chosen)
        return [by_name[name] for name in chosen] if are_known else None
    places = np.arange(len(columns))[np.asarray(chosen)]  # of numbers, or of a mask
    return [columns[place] for place in places]


def _named(step: BaseEstimator, columns: list[RawColumn]) -> list[RawColumn] | None:
    """Return the columns of any other step, in its own units; None without names."""
    try:
        names: Iterable = step.get_feature_names_out(
            [column.name for column in columns]
        )
    except (AttributeError, TypeError, ValueError):
        return None
    return [RawColumn(name=str(name), is_raw=False) for name in names]
