"""A node's classifier of any kind: fitted, pickled, and what it says of rows."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from sklearn.exceptions import NotFittedError

from ..compat import ovr_decision_function
from ..networks import final_step, is_skorch

# What else is raised becomes a RuntimeError, the first of these that fits itself.
_KEPT = (NotFittedError, ValueError, TypeError)


def keeps_learning(estimator) -> bool:
    """Whether its clones know what it learnt: a net around an object, not a class."""
    last = final_step(estimator)
    return is_skorch(last) and not isinstance(last.module, type)


class Picklable:
    """A classifier that joblib may pickle where skorch cannot: local classes."""

    def __init__(self, estimator):
        self.estimator = estimator

    def __reduce__(self):
        if is_skorch(self.estimator):
            return _unpickled, (type(self.estimator), vars(self.estimator))
        return Picklable, (self.estimator,)


def _unpickled(kind, state):
    estimator = object.__new__(kind)
    vars(estimator).update(state)
    return Picklable(estimator)


@contextmanager
def at_node(name: str, what: str) -> Iterator[None]:
    """Name the node, and ``what`` cannot be done, in errors raised within a block."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as exc:
        message = str(exc)
        if message.startswith(f"Node {name!r}"):
            raise
        kind = next((kind for kind in _KEPT if isinstance(exc, kind)), RuntimeError)
        raise kind(f"Node {name!r}: {what} ({type(exc).__name__}): {message}") from exc


@dataclass(frozen=True)
class Description:
    classes: np.ndarray  # (n_outputs,), the label of each output column
    seen: np.ndarray  # (n_outputs,), bool: which of these it was fitted on
    n_features_in: int | None  # None where it does not say
    feature_names_in: np.ndarray | None  # (n_features_in,)

    @classmethod
    def of(cls, estimator, classes, seen=None) -> "Description":
        names = "n_features_in_", "feature_names_in_"
        seen = np.ones(len(classes), dtype=bool) if seen is None else seen
        return cls(classes, seen, *(getattr(estimator, own, None) for own in names))


def check_outputs(values: np.ndarray, what: str) -> None:
    finite = np.isfinite(values).reshape(len(values), -1).all(axis=1)
    if not finite.all():
        rows = f"{np.sum(~finite)} of {len(finite)} rows"
        wrong = f"its {what} are not finite (NaN or infinity) for {rows}"
        raise ValueError(f"{wrong}; fit this model again.")


def class_scores(estimator, X) -> np.ndarray | None:
    """Scores of rows, one for each class (one column for two); None where others."""
    if not hasattr(estimator, "decision_function"):
        return None
    scores, n_classes = estimator.decision_function(X), len(estimator.classes_)
    scores = np.asarray(scores)
    if n_classes == 2 and scores.size == len(scores):
        return scores.ravel()
    n_pairs = n_classes * (n_classes - 1) // 2
    if scores.shape[1:] == (n_pairs,) and n_classes > 2 and _scores_pairs(estimator):
        # As scikit-learn itself does for decision_function_shape="ovr".
        return ovr_decision_function(scores < 0, -scores, n_classes)
    return scores if scores.shape[1:] == (n_classes,) else None


def _scores_pairs(estimator) -> bool:
    """Whether a support vector machine inside scores pairs of classes."""
    estimator = final_step(estimator)
    shape = getattr(estimator, "decision_function_shape", None)
    inner = getattr(estimator, "estimator_", None)
    if shape is not None or inner is None:
        return shape == "ovo"
    return _scores_pairs(inner)


def to_logits(proba: np.ndarray) -> np.ndarray:
    logits = np.log(np.maximum(proba, np.finfo(proba.dtype).tiny))
    return logits - logits.mean(axis=1, keepdims=True)


@contextmanager
def as_it_was_fitted(estimator, X):
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


def indices_of(labels, classes) -> np.ndarray:
    """Index of each label among the classes, -1 where it is none of them."""
    place = {label: c for c, label in enumerate(np.asarray(classes).tolist())}
    found, index = np.unique(np.asarray(labels), return_inverse=True)
    own = np.array([place.get(label, -1) for label in found.tolist()], dtype=int)
    return own[index.ravel()]
