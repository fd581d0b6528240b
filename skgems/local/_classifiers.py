"""A node's classifier of any kind: fitted, pickled, and what it says of rows."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_matrix
from sklearn.exceptions import NotFittedError

from ..compat import ovr_decision_function
from ..networks import as_labels, dropped_columns, final_step, is_skorch

Rows = np.ndarray | csr_matrix  # (n_rows, n_features), or images in an array

# An error within `naming_node` becomes one of the first of these types that fits; any
# other becomes a RuntimeError, since its own type may need other arguments than a text.
_TYPES_OF_ERRORS = (NotFittedError, ValueError, TypeError)


def keeps_learning(estimator: object) -> bool:
    """Report whether clones of a classifier keep what it has learned.

    So it is for a skorch net that was given a module, and not a class of modules.
    """
    classifier = final_step(estimator)
    return is_skorch(classifier) and not isinstance(classifier.module, type)


@contextmanager
def naming_node(name: str, failure: str) -> Iterator[None]:
    """Name the node, and what cannot be done there, in errors raised within a block."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:
        message = str(error)
        if message.startswith(f"Node {name!r}"):
            raise
        error_types = (kind for kind in _TYPES_OF_ERRORS if isinstance(error, kind))
        error_type = next(error_types, RuntimeError)
        raise error_type(
            f"Node {name!r}: {failure} ({type(error).__name__}): {message}"
        ) from error


@dataclass(frozen=True, kw_only=True, eq=False)
class Description:
    """The classes of a classifier and the features it was fitted on."""

    classes: np.ndarray  # (n_outputs,), the label of each output column
    seen: np.ndarray  # (n_outputs,), bool: which of these it was fitted on
    n_features_in: int | None  # None where it does not say
    feature_names_in: np.ndarray | None  # (n_features_in,)
    # (n_features_in,), bool: features that it drops by name; None: none.
    dropped: np.ndarray | None = None

    @classmethod
    def from_classifier(
        cls, estimator: object, classes: np.ndarray, seen: np.ndarray | None = None
    ) -> "Description":
        """Describe a classifier of known classes; ``seen=None``: all of them."""
        return cls(
            classes=classes,
            seen=np.ones(len(classes), dtype=bool) if seen is None else seen,
            n_features_in=getattr(estimator, "n_features_in_", None),
            feature_names_in=getattr(estimator, "feature_names_in_", None),
            dropped=dropped_columns(estimator),
        )


def check_outputs(outputs: np.ndarray, kind: str) -> None:
    """Raise ValueError for outputs that are not finite; ``kind`` says what they are."""
    is_finite = np.isfinite(outputs).reshape(len(outputs), -1).all(axis=1)
    if not is_finite.all():
        raise ValueError(
            f"its {kind} are not finite (NaN or infinity) for {np.sum(~is_finite)} of "
            f"{len(is_finite)} rows. Fit this model again."
        )


def class_scores(estimator: object, X: Rows) -> np.ndarray | None:
    """Decision values of rows by class; None where a classifier has none.

    Returns
    -------
    scores : ndarray of shape (n_rows, n_classes), or (n_rows,), or None
        One column for two classes, as in scikit-learn. None also where the columns of
        its ``decision_function`` are neither classes nor pairs of them.
    """
    if not hasattr(estimator, "decision_function"):
        return None
    scores = np.asarray(estimator.decision_function(X))
    n_classes = len(estimator.classes_)
    if n_classes == 2 and scores.size == len(scores):
        return scores.ravel()
    n_pairs = n_classes * (n_classes - 1) // 2
    if scores.shape[1:] == (n_pairs,) and n_classes > 2 and _scores_pairs(estimator):
        # As scikit-learn itself does for decision_function_shape="ovr".
        return ovr_decision_function(scores < 0, -scores, n_classes)
    return scores if scores.shape[1:] == (n_classes,) else None


def _scores_pairs(estimator: object) -> bool:
    """Report whether a support vector machine inside scores pairs of classes."""
    classifier = final_step(estimator)
    shape = getattr(classifier, "decision_function_shape", None)
    inner = getattr(classifier, "estimator_", None)
    if shape is not None or inner is None:
        return shape == "ovo"
    return _scores_pairs(inner)


def to_logits(proba: np.ndarray) -> np.ndarray:
    """Logarithms of probabilities (n_rows, n_classes), less their mean in each row."""
    logits = np.log(np.maximum(proba, np.finfo(proba.dtype).tiny))
    return logits - logits.mean(axis=1, keepdims=True)


@contextmanager
def as_it_was_fitted(estimator: object, X: Rows) -> Iterator:
    """Rows with the names of columns that a classifier was fitted on, if any."""
    names = getattr(estimator, "feature_names_in_", None)
    # Steps may choose columns by name. Whoever fitted on names has imported pandas.
    pandas = sys.modules.get("pandas")
    if names is not None and pandas is not None and isinstance(X, np.ndarray):
        X = pandas.DataFrame(X, columns=names, copy=False)
    with warnings.catch_warnings():
        # Names were compared when X was validated.
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        yield X


def indices_of(labels: ArrayLike, classes: ArrayLike) -> np.ndarray:
    """Index of each label among the classes, -1 where it is none of them."""
    index_of_class = {c: k for k, c in enumerate(as_labels(classes).tolist())}
    if isinstance(labels, list) and set(map(type, labels)) <= {str, int}:
        return np.array([index_of_class.get(label, -1) for label in labels], dtype=int)
    distinct, codes = np.unique(as_labels(labels), return_inverse=True)
    # Looked up once for each label that occurs, not for each row.
    indices = [index_of_class.get(label, -1) for label in distinct.tolist()]
    return np.array(indices, dtype=int)[codes.ravel()]
