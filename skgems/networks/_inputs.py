"""What rows a classifier or a step takes: documents, or rows with missing values."""

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.utils import get_tags

from ._sklearn import unwrap


def takes_documents(estimator: object) -> bool:
    """Report whether the first step is a vectorizer of one text or dict a row."""
    first = unwrap(estimator)
    if isinstance(first, Pipeline):
        return bool(first.steps) and takes_documents(first.steps[0][1])
    if isinstance(first, FeatureUnion):
        return any(takes_documents(step) for _, step in first.transformer_list)
    if not hasattr(first, "__sklearn_tags__"):
        return False
    accepted = get_tags(first).input_tags
    return (accepted.string or accepted.dict) and not accepted.two_d_array


def takes_missing_values(estimator: object) -> bool:
    """Report whether its rows may have missing values (NaN).

    In a pipeline all steps must accept them, up to one that fills them. A step beside
    others may fill only some columns; then the next step raises if it finds NaN.
    """
    first = unwrap(estimator)
    if first is None or isinstance(first, str):  # "passthrough" or "drop"
        return True
    if isinstance(first, ColumnTransformer | FeatureUnion):
        return all(map(takes_missing_values, _steps_beside(first)))
    if not isinstance(first, Pipeline):
        return hasattr(first, "__sklearn_tags__") and (
            get_tags(first).input_tags.allow_nan
        )
    for _, step in first.steps:
        if not takes_missing_values(step):
            return False
        if _fills_missing_values(step):
            return True
    return True


def _fills_missing_values(step: object) -> bool:
    inner = unwrap(step)
    if isinstance(inner, Pipeline):
        return any(_fills_missing_values(later) for _, later in inner.steps)
    if isinstance(inner, ColumnTransformer | FeatureUnion):
        return any(map(_fills_missing_values, _steps_beside(inner)))
    return type(inner).__name__.endswith("Imputer")


def _steps_beside(parallel: ColumnTransformer | FeatureUnion) -> list:
    if isinstance(parallel, FeatureUnion):
        return [step for _, step in parallel.transformer_list]
    return [*(step for _, step, _ in parallel.transformers), parallel.remainder]


def chooses_columns(estimator: BaseEstimator) -> bool:
    """Report whether an estimator has a ColumnTransformer that needs a table.

    It does if it takes columns by their names, or by a function of the table.
    """
    parts = [estimator, *estimator.get_params(deep=True).values()]
    return any(
        _needs_table(columns)
        for part in parts
        if isinstance(part, ColumnTransformer)
        for _, _, columns in part.transformers
    )


def _needs_table(columns: object) -> bool:
    """Report whether columns are chosen by name, in any of scikit-learn's ways."""
    if callable(columns) or isinstance(columns, str):
        return True
    if isinstance(columns, slice):
        return isinstance(columns.start, str) or isinstance(columns.stop, str)
    return any(isinstance(column, str) for column in np.ravel(columns).tolist())
