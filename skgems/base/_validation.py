"""Rows as an aggregator takes them: scikit-learn validates, or words refuse them.

No label may be missing, and labels become indices of classes.

An ``aggregator`` is a BaseAggregator here, which imports this module.
"""

import copy
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from numbers import Number
from typing import TYPE_CHECKING, NoReturn

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse, sparray, spmatrix
from sklearn.base import BaseEstimator
from sklearn.utils.validation import (
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from ..datasets import PUBLIC, PUBLIC_NAME, as_groups, missing_labels
from ..networks import NamedRows, zero_dropped
from ..steps import (
    NUMBERS,
    Columns,
    ColumnsError,
    are_documents,
    as_rows,
    check_no_times,
)
from ._warnings import MOST_LISTED

if TYPE_CHECKING:  # pandas is an extra
    import pandas

# Stands behind scikit-learn's own advice, which knows of no nodes.
_ADVICE_ON_GAPS = (
    "In a federation all nodes have to fill gaps in the same way. Pass front= an "
    "imputer that all nodes share, such as make_pipeline(SimpleImputer(), "
    "StandardScaler()); or call combine(estimators, X, y, nodes=nodes), which makes "
    "such a front by itself."
)

Rows = np.ndarray | sparray | spmatrix  # (n_rows, n_features), or more dimensions


@dataclass(frozen=True, eq=False, kw_only=True)
class Features:
    """What is known of the features of rows, as scikit-learn's attributes say it."""

    n_features_in: int | None  # None where nobody says
    feature_names_in: np.ndarray | None = None  # (n_features_in,)
    named_by_nodes: bool = False  # rows of fit had no names: these are the nodes'

    def with_names_of_nodes(
        self, names_of_nodes: Iterable[np.ndarray | None]
    ) -> "Features":
        """Return features with names, if rows had none: the first that a node knows."""
        names = next((names for names in names_of_nodes if names is not None), None)
        if self.feature_names_in is not None or names is None:
            return self
        return replace(self, feature_names_in=names, named_by_nodes=True)

    def attributes(self) -> dict[str, object]:
        """Return attributes of a fitted aggregator; unknown ones are missing."""
        attributes: dict[str, object] = {"_named_by_nodes": self.named_by_nodes}
        if self.n_features_in is not None:
            attributes["n_features_in_"] = self.n_features_in
        if self.feature_names_in is not None:
            attributes["feature_names_in_"] = self.feature_names_in
        return attributes


def as_numbers(
    aggregator: BaseEstimator, X, y="no_validation", *, reset: bool
) -> Rows | tuple[Rows, np.ndarray]:
    """Rows, and labels where they are given, as scikit-learn validates them.

    "no_validation" is scikit-learn's own word for rows that come without labels;
    None is refused, as labels that someone forgot.
    """
    if isinstance(X, Mapping) and not issparse(X):  # some sparse matrices are dicts
        return _as_named_rows(aggregator, X, y, reset=reset)
    if not (isinstance(X, np.ndarray) and X.dtype.kind in NUMBERS):
        _check_has_columns_without_times(X)
    try:
        with warnings.catch_warnings():
            if not reset and getattr(aggregator, "_named_by_nodes", False):
                # The rows of fit had no names either.
                warnings.filterwarnings(
                    "ignore", message="X does not have valid feature names"
                )
            return validate_data(
                aggregator,
                X,
                y,
                reset=reset,
                accept_sparse="csr",
                dtype=[np.float64, np.float32],
                allow_nd=aggregator._allows.more_dimensions,
                ensure_all_finite=aggregator._finite_values,
            )
    except ValueError as error:
        if "could not convert string to float" in str(error):
            _raise_of_texts(X, error)
        if reset and "contains NaN" in str(error) and hasattr(aggregator, "front"):
            error.args = (f"{error}\n{_ADVICE_ON_GAPS}",)
        raise


def _check_has_columns_without_times(X) -> None:
    """Raise ColumnsError for documents, and for columns of dates or time spans."""
    if are_documents(X):
        raise ColumnsError(
            "X holds documents, one text or dict a row, which have to become numbers "
            "first. A vectorizer that learns nothing from rows is the same at all "
            "nodes: pass front=HashingVectorizer(n_features=4096), or "
            "front=FeatureHasher(n_features=4096) of dicts; fitted pipelines that "
            "begin with an equal one may stay as they are. EnsembleAggregator lets "
            "pipelines vote that begin with any vectorizer."
        )
    check_no_times(X)


def _as_named_rows(
    aggregator: BaseEstimator, X: Mapping, y: object, *, reset: bool
) -> NamedRows | tuple[NamedRows, np.ndarray]:
    """Rows of a dict of arrays, and labels if there are any."""
    if not aggregator._allows.named_inputs or getattr(aggregator, "front", None):
        raise TypeError(
            f"X is a dict of arrays, which {type(aggregator).__name__} cannot take to "
            "rows of numbers. EnsembleAggregator and ModelAveragingAggregator, without "
            "a front, give a dict of inputs to nets of skorch."
        )
    rows = NamedRows.from_mapping(X)
    if reset:
        vars(aggregator).pop("n_features_in_", None)
        vars(aggregator).pop("feature_names_in_", None)
    if isinstance(y, str) and y == "no_validation":
        return rows
    y = column_or_1d(y)
    check_consistent_length(rows, y)
    return rows, y


def validated_for_fit(
    aggregator: BaseEstimator, X, y
) -> tuple[tuple[Rows, np.ndarray], Features]:
    """Validated rows and labels, and their features; the aggregator is not changed."""
    shell = copy.copy(aggregator)
    X, y = shell._validate_with_labels(X, y)
    X, features = _rows_and_features(shell, X)
    return (X, y), features


def validated_rows_for_fit(aggregator: BaseEstimator, X) -> tuple[Rows, Features]:
    """Validate rows without labels; return them and their features."""
    shell = copy.copy(aggregator)
    return _rows_and_features(shell, shell._validate(X))


def _rows_and_features(shell: BaseEstimator, X: Rows) -> tuple[Rows, Features]:
    """Return validated rows, and the features that validation left on a copy.

    Arrays get one layout: sums are rounded by it, and it says nothing of the rows.
    """
    features = Features(
        n_features_in=getattr(shell, "n_features_in_", None),
        feature_names_in=getattr(shell, "feature_names_in_", None),
    )
    return np.ascontiguousarray(X) if isinstance(X, np.ndarray) else X, features


def validated_public_rows(
    aggregator: BaseEstimator, X, y, groups=None
) -> tuple[Rows, np.ndarray, np.ndarray | None]:
    """Rows for a fitted aggregator, the indices of their classes, and their groups."""
    check_is_fitted(aggregator)
    X, y = aggregator._validate_with_labels(X, y, reset=False)
    # Of features that no node uses public rows teach nothing either.
    X = zero_dropped(X, getattr(aggregator, "_unused", None))
    return X, encode_labels(y, aggregator.classes_), as_groups(groups, X)


def _raise_of_texts(X, error: ValueError) -> NoReturn:
    """Raise for rows with texts, whose conversion to numbers failed with an error.

    That one has the text of a cell in it. It stays the cause where someone has to find
    this cell, and is suppressed where the names of columns say all.
    """
    table = as_rows(X)
    mixed_columns = _columns_that_mix(table)
    if mixed_columns:
        raise ColumnsError(
            "X has texts among the numbers of the columns "
            f"{mixed_columns[:MOST_LISTED]}. Write numbers in these cells, or "
            "leave their rows out."
        ) from error
    raise ColumnsError(
        f"X has columns of text, {_text_columns(table)[:MOST_LISTED]}, which "
        "have to become numbers first. Give the encoder as front=, a ColumnTransformer "
        "that all nodes share, with members that are not fitted; or call "
        "combine(estimators, X, y, nodes=nodes), which makes a front by itself. "
        "EnsembleAggregator lets fitted pipelines vote as they are."
    ) from None


def _text_columns(table: "np.ndarray | pandas.DataFrame") -> list:
    """The names, or the places, of columns that hold texts."""
    columns = Columns.from_table(table)
    names = columns.names or range(columns.n)
    return [name for name, is_text in zip(names, columns.text, strict=True) if is_text]


def _columns_that_mix(table: "np.ndarray | pandas.DataFrame") -> list:
    """The names, or the places, of columns that hold texts and numbers."""
    names = list(Columns.from_table(table).names or range(table.shape[1]))
    mixed = []
    for name in _text_columns(table):
        place = names.index(name)
        cells = table.iloc[:, place] if hasattr(table, "iloc") else table[:, place]
        # NaN, which differs from itself, is a missing text and no number.
        if any(isinstance(cell, Number) and cell == cell for cell in cells):
            mixed.append(name)
    return mixed


# ---- labels --------------------------------------------------------------------------


def check_no_label_missing(y: ArrayLike, nodes: ArrayLike | None = None) -> None:
    """Raise ValueError if rows have no label; it counts them for each node."""
    missing = missing_labels(y)
    if not missing.any():
        return
    raise ValueError(
        "y has no label (it is None, NaN or NA) for "
        f"{_counts_in_words(missing, nodes)}. Leave these rows out, or give them their "
        "labels: keep = pandas.notna(y), then X[keep], y[keep] and nodes[keep]."
    )


def _counts_in_words(missing: np.ndarray, nodes: ArrayLike | None) -> str:
    """Say how many rows a mask (n_rows,) marks, at each node where it is known."""
    owners = None if nodes is None else np.asarray(nodes, dtype=object).ravel()
    if owners is None or len(owners) != len(missing):
        return f"{missing.sum()} of {len(missing)} rows"
    n_rows_of = Counter(owners.tolist())
    n_missing_of = Counter(owners[missing].tolist())
    counts = [
        f"{n_missing} of the {n_rows_of[node]} rows of {_node_in_words(node)}"
        for node, n_missing in n_missing_of.items()
    ]
    n_not_listed = len(counts) - MOST_LISTED
    if n_not_listed > 0:
        counts = [*counts[:MOST_LISTED], f"rows of {n_not_listed} other nodes"]
    return ", ".join(counts)


def _node_in_words(node: object) -> str:
    """The node of a row as ``nodes`` has it: a name, or a number."""
    is_public = node == PUBLIC_NAME if isinstance(node, str) else node == PUBLIC
    return "the public sample" if is_public else f"node {node!r}"


def encode_labels(
    y: np.ndarray, classes: np.ndarray, *, advice_on_nets: str = ""
) -> np.ndarray:
    """Indices of labels in the sorted ``classes``; ValueError names unknown ones.

    ``advice_on_nets`` ends that error where a node has a net whose classes are the
    numbers of its outputs; it begins with a space.
    """
    if {y.dtype.kind, classes.dtype.kind} == {"i", "u"} and y.min(initial=0) >= 0:
        # Compared as they are, both would become floats of fewer digits.
        y = y.astype(np.uint64)
        classes = classes.astype(np.uint64)
    unknown = np.setdiff1d(y, classes)
    if len(unknown):
        advice = advice_on_nets or _advice_on_numbers(np.unique(y), classes)
        raise ValueError(
            f"y holds labels that no node knows: {unknown[:10].tolist()}. The nodes "
            f"know the classes {classes.tolist()}; leave these rows out, or add a "
            f"node that was fitted on them.{advice}"
        )
    return np.searchsorted(classes, y)


def _advice_on_numbers(labels: np.ndarray, classes: np.ndarray) -> str:
    """Say what to do if one side's labels are numbers from 0; "" if neither's are.

    ``labels`` are those of the rows and ``classes`` those of the nodes, both sorted.
    """
    if np.array_equal(labels, np.arange(len(labels))):
        return (
            " The labels in y are numbers from 0, as LabelEncoder gives them: give "
            "the labels that the nodes have. VotingClassifier and StackingClassifier "
            "number classes from 0 where they fit their members anew: give a fitted "
            "aggregator to StackingClassifier(cv='prefit')."
        )
    if np.array_equal(classes, np.arange(len(classes))):
        return (
            " The classes of the nodes are numbers from 0, as LabelEncoder gives "
            "them: give y numbered in the same way at all nodes. Classes are numbered "
            "from 0 in the estimators_ of a VotingClassifier, too: give "
            "EnsembleAggregator the whole VotingClassifier."
        )
    return ""
