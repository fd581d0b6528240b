"""What columns behind a fitted front are in units of the columns before it.

A column that is ``(x - offset) / scale`` of one column x has the coefficient times its
scale: that of one unit of x.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

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
    behind = _behind(front, columns)
    if behind is None or len(behind) != len(names_out):
        return [RawColumn(name=name, is_raw=False) for name in names_out]
    return behind


def _behind(
    step: BaseEstimator | str, columns: list[RawColumn]
) -> list[RawColumn] | None:
    """Return the columns behind a step; None where their number is not known here."""
    if step == "passthrough" or step is None:
        return columns
    if isinstance(step, FunctionTransformer) and step.func is None:
        return columns  # what a ColumnTransformer makes of "passthrough"
    if isinstance(step, Pipeline):
        behind: list[RawColumn] | None = columns
        for _, inner in step.steps:
            behind = None if behind is None else _behind(inner, behind)
        return behind
    if isinstance(step, ColumnTransformer):
        return _behind_branches(step, columns)
    if isinstance(step, OneHotEncoder):
        return _categories(step, columns)
    if isinstance(step, SimpleImputer):
        return columns if step.indicator_ is None else _named(step, columns)
    scaling = _scaling_of(step, len(columns))
    if scaling is None:
        return _named(step, columns)
    return [
        column.scaled(offset=float(offset), scale=float(scale))
        for column, offset, scale in zip(columns, *scaling, strict=True)
    ]


def _scaling_of(
    step: BaseEstimator, n_columns: int
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return what a scaler takes away and divides by; None if it is no scaler."""
    ones = np.ones(n_columns)
    if isinstance(step, StandardScaler):
        center = step.mean_ if step.with_mean else None
        scale = step.scale_
    elif isinstance(step, RobustScaler):
        center, scale = step.center_, step.scale_
    elif isinstance(step, MaxAbsScaler):
        center, scale = None, step.scale_
    elif isinstance(step, MinMaxScaler):  # x * scale_ + min_
        return -step.min_ / step.scale_, 1.0 / step.scale_
    else:
        return None
    return (
        0.0 * ones if center is None else np.asarray(center),
        ones if scale is None else np.asarray(scale),
    )


def _behind_branches(
    step: ColumnTransformer, columns: list[RawColumn]
) -> list[RawColumn] | None:
    """Return the columns of all branches, in their order."""
    of_name = {column.name: column for column in columns}
    behind: list[RawColumn] = []
    for _, branch, chosen in step.transformers_:
        if isinstance(branch, str) and branch == "drop":
            continue
        some = _chosen(columns, of_name, chosen)
        of_branch = None if some is None else _behind(branch, some)
        if of_branch is None:
            return None
        behind += of_branch
    return behind


def _chosen(
    columns: list[RawColumn], of_name: dict[str, RawColumn], chosen: object
) -> list[RawColumn] | None:
    """Return the columns of a branch, by names, places, a mask or a slice."""
    if isinstance(chosen, slice):
        return columns[chosen]
    chosen = [chosen] if isinstance(chosen, str | int) else list(chosen)
    if chosen and isinstance(chosen[0], bool | np.bool_):
        return [column for column, is_in in zip(columns, chosen, strict=True) if is_in]
    if all(isinstance(name, str) for name in chosen):
        return (
            [of_name[name] for name in chosen]
            if of_name.keys() >= set(chosen)
            else None
        )
    return [columns[place] for place in chosen]


def _categories(step: OneHotEncoder, columns: list[RawColumn]) -> list[RawColumn]:
    """Return the columns of categories, named as scikit-learn names them."""
    names = step.get_feature_names_out([column.name for column in columns])
    return [RawColumn(name=name) for name in names]


def _named(step: BaseEstimator, columns: list[RawColumn]) -> list[RawColumn] | None:
    """Return the columns of any other step, in its own units; None without names."""
    try:
        names: Iterable = step.get_feature_names_out(
            [column.name for column in columns]
        )
    except (AttributeError, TypeError, ValueError):
        return None
    return [RawColumn(name=str(name), is_raw=False) for name in names]
