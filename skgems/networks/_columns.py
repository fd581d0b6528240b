"""Which columns a fitted pipeline drops by name: no model behind it can use them.

Columns that a statistic dropped, as SelectKBest does, are not among them: the rows of
another node might have kept these.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_matrix, issparse
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)

from ._sklearn import unwrap

# Steps whose output has one column for each input column, made of this one alone.
_BY_COLUMN = (
    MaxAbsScaler,
    MinMaxScaler,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)

# Attributes of fitted classifiers that are made of others, which may be pipelines.
_INNER_CLASSIFIERS = ("calibrated_classifiers_", "estimators_", "estimator_")


def dropped_columns(estimator: object) -> np.ndarray | None:
    """Return which columns a fitted classifier drops by name, (n_features,), bool.

    None where it drops none. Names stand for places too, where columns have no names.
    """
    classifier = unwrap(estimator)
    n_columns = getattr(classifier, "n_features_in_", None)
    may_drop = isinstance(classifier, Pipeline) or any(
        hasattr(classifier, attribute) for attribute in _INNER_CLASSIFIERS
    )
    if n_columns is None or not may_drop:
        return None
    dropped = _dropped_by_classifier(estimator, n_columns)
    return dropped if dropped.any() else None


def dropped_in_table(estimator: object, X: object) -> np.ndarray | None:
    """Return which columns of a table a classifier drops by name; None: none.

    The table may have its columns in another order than the classifier was fitted on.
    """
    dropped = dropped_columns(estimator)
    if dropped is None or X.shape[1:] != dropped.shape:
        return None
    names = getattr(unwrap(estimator), "feature_names_in_", None)
    if names is None or not hasattr(X, "columns"):
        return dropped
    return np.isin(np.asarray(X.columns, dtype=object), names[dropped])


def columns_dropped_by(transformer: object, n_columns: int) -> np.ndarray:
    """Return which of its columns a fitted transformer drops by name, bool."""
    dropped = np.zeros(n_columns, dtype=bool)
    dropped |= _dropped_by(transformer, n_columns)
    return dropped


def zero_dropped(X: ArrayLike | csr_matrix, dropped: np.ndarray | None) -> ArrayLike:
    """Return a copy of rows in which the values of dropped columns are 0.

    Rows of more than two dimensions, and documents, have no columns.
    """
    if dropped is None or X.shape[1:] != dropped.shape:
        return X
    if issparse(X):
        X = csr_matrix(X, copy=True)
        X.data[dropped[X.indices]] = 0
        X.eliminate_zeros()
        return X
    X = X.copy()
    X[:, dropped] = 0
    return X


def _dropped_by_classifier(estimator: object, n_columns: int) -> np.ndarray:
    classifier = unwrap(estimator)
    if getattr(classifier, "n_features_in_", n_columns) != n_columns:
        return np.zeros(n_columns, dtype=bool)
    if isinstance(classifier, Pipeline):
        *transformers, last = [step for _, step in classifier.steps]
        dropped, are_by_column = _dropped_by_steps(transformers, n_columns)
        if are_by_column:
            dropped |= _dropped_by_classifier(last, n_columns)
        return dropped
    return _dropped_by_all(
        _dropped_by_classifier(inner, n_columns)
        for inner in _inner_classifiers(classifier)
    )


def _inner_classifiers(classifier: object) -> list:
    """Return the fitted classifiers that see all of the columns; none if unknown."""
    if hasattr(classifier, "estimators_features_") or getattr(
        classifier, "passthrough", False
    ):
        return []  # each sees some of the columns; or a stack sees them itself
    calibrated = getattr(classifier, "calibrated_classifiers_", None)
    if calibrated is not None:
        return [part.estimator for part in calibrated]
    inner = getattr(classifier, "estimators_", None)
    if inner is None:  # as of TunedThresholdClassifierCV
        inner = getattr(classifier, "estimator_", None)
        return [] if inner is None else [inner]
    if not isinstance(inner, list):
        return []
    # OneVsRestClassifier has constants of its own for classes that all rows have.
    return [part for part in inner if hasattr(part, "classes_")]


def _dropped_by_all(masks: Iterable[np.ndarray]) -> np.ndarray:
    """Return what all of them drop; nothing where there are none."""
    masks = list(masks)
    return np.logical_and.reduce(masks) if masks else np.zeros((), dtype=bool)


def _dropped_by_steps(steps: list, n_columns: int) -> tuple[np.ndarray, bool]:
    """Return what is dropped, and whether all steps have an output for each column."""
    dropped = np.zeros(n_columns, dtype=bool)
    for step in steps:
        dropped |= _dropped_by(step, n_columns)
        if not (step in (None, "passthrough") or isinstance(step, _BY_COLUMN)):
            return dropped, False
    return dropped, True


def _dropped_by(step: object, n_columns: int) -> np.ndarray:
    """Return which of its input columns a fitted transformer drops by name."""
    while isinstance(step, FrozenEstimator):
        step = step.estimator
    if isinstance(step, Pipeline):
        dropped, _ = _dropped_by_steps([part for _, part in step.steps], n_columns)
        return dropped
    if isinstance(step, FeatureUnion):
        return _dropped_by_all(
            _dropped_by(part, n_columns)
            for _, part in step.transformer_list
            if part != "drop"
        )
    if isinstance(step, ColumnTransformer):
        return _dropped_by_branches(step, n_columns)
    return np.zeros(n_columns, dtype=bool)


def _dropped_by_branches(step: ColumnTransformer, n_columns: int) -> np.ndarray:
    """Return which columns no branch of a ColumnTransformer uses."""
    names = getattr(step, "feature_names_in_", None)
    dropped = np.ones(n_columns, dtype=bool)
    is_listed = np.zeros(n_columns, dtype=bool)
    for name, part, columns in step.transformers_:
        if name == "remainder":  # which comes last
            places = np.flatnonzero(~is_listed)
        else:
            places = _places(columns, names, n_columns=n_columns)
        is_listed[places] = True
        if not (isinstance(part, str) and part == "drop"):
            dropped[places] &= _dropped_by(part, len(places))
    return dropped


def _places(columns: object, names: np.ndarray | None, *, n_columns: int) -> np.ndarray:
    """Return the places of the columns that a ColumnTransformer gives a transformer.

    ``columns`` are names, places, a mask, a slice of any of them, or one of them.
    """
    if isinstance(columns, slice):
        return _places_in_slice(columns, names, n_columns=n_columns)
    labels = np.atleast_1d(np.asarray(columns))
    if labels.dtype.kind == "b":
        return np.flatnonzero(labels)
    if labels.dtype.kind in "iu" or not len(labels):
        return labels.astype(int) % n_columns
    place_of = {name: j for j, name in enumerate(names.tolist())}
    return np.array([place_of[name] for name in labels.tolist()], dtype=int)


def _places_in_slice(
    columns: slice, names: np.ndarray | None, *, n_columns: int
) -> np.ndarray:
    """Return the places of a slice, which includes its stop if that is a name."""
    if not (isinstance(columns.start, str) or isinstance(columns.stop, str)):
        return np.arange(n_columns)[columns]
    known_names = names.tolist()
    start = 0 if columns.start is None else known_names.index(columns.start)
    stop = n_columns if columns.stop is None else known_names.index(columns.stop) + 1
    return np.arange(n_columns)[start : stop : columns.step]
