"""Shares of classes that a node's model expects among its rows, beside those found.

A model that was fitted to rows as they are expects the shares that they have: for the
log-loss with an intercept, exactly. One that was fitted behind SMOTE, or to weighted
rows, expects others, and no attribute of it says so.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from ..compat import safe_indexing
from ..spaces import MOST_ROWS
from ._classifiers import Rows, indices_of
from ._model import LocalModel
from ._moments import class_weight_of, spread

# Difference between the share of a class and the mean probability that a model gives
# it, from which on the model is said to expect another share, beside 1 / sqrt(n) for
# chance in n rows. Resampling 5 % of positives to half makes it 0.3.
_OTHER_SHARE = 0.1
# Expected shares up to so many times an equal share: classes that were balanced by hand
# are expected a little less often than that, as rare rows are predicted with doubt.
_MOST_TIMES_EQUAL = 1.25


@dataclass(frozen=True, eq=False, kw_only=True)
class OtherShare:
    """The class of which a model expects more rows than a node has."""

    label: object
    expected: float  # the mean of the model's probabilities
    found: float  # share of the rows

    @classmethod
    def from_excess(
        cls, excess: np.ndarray, *, counts: np.ndarray, labels: list
    ) -> Self | None:
        """Return the share that is furthest off; None where all are near.

        ``excess`` are mean probabilities less shares, (n_classes,), and ``counts`` the
        numbers of rows.
        """
        n_rows = counts.sum()
        largest = int(np.argmax(excess))
        if not excess[largest] >= _OTHER_SHARE + 1.0 / np.sqrt(n_rows):
            return None
        found = float(counts[largest] / n_rows)
        expected = found + float(excess[largest])
        # Whatever brings classes nearer to equal shares does not bring one far beyond;
        # a network that has hardly been trained does.
        if expected > _MOST_TIMES_EQUAL / len(labels):
            return None
        return cls(label=labels[largest], expected=expected, found=found)

    @property
    def in_words(self) -> str:
        return (
            f"{self.label!r} in {self.expected:.2f} of rows, found in {self.found:.2f}"
        )


def other_share(model: LocalModel, X: Rows, y: np.ndarray) -> OtherShare | None:
    """Return a share that a model expects to be another among a node's rows.

    None also where the model weighs classes, predicts no probabilities, or knows a
    single class of these rows.
    """
    estimator = model.estimator
    says_probabilities = hasattr(estimator, "predict_proba")
    if not says_probabilities or class_weight_of(estimator) is not None:
        return None
    description = model.description
    classes = np.unique(description.classes[description.seen])
    codes = indices_of(y, classes)
    rows = np.flatnonzero(codes >= 0)
    if len(classes) < 2 or not len(rows):
        return None
    rows = rows[spread(codes[rows], MOST_ROWS)]
    counts = np.bincount(codes[rows], minlength=len(classes))
    mean = model.probabilities(safe_indexing(X, rows), classes).mean(axis=0)
    return OtherShare.from_excess(
        mean - counts / len(rows), counts=counts, labels=classes.tolist()
    )
