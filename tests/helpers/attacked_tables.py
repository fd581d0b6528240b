# SPDX-License-Identifier: BSD-3-Clause
"""Small tables whose rows attacks look for, and how claimed rows are judged.

A row is *found* if a claim has all of its columns to 1e-3 deviations. A claim that is
no row is *false*: an attack that also claims rows that are not there proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.feature_extraction.text import HashingVectorizer

from skgems.datasets import load_penguins

# A column is found if the claim is as near as this, in deviations of the column.
NEAR = 1e-3


@dataclass(frozen=True, kw_only=True, eq=False)
class Table:
    """The rows of a node, and their labels."""

    name: str
    X: np.ndarray  # (n_rows, n_features)
    y: np.ndarray  # (n_rows,)

    @property
    def n_rows(self) -> int:
        return len(self.X)

    @property
    def n_features(self) -> int:
        return self.X.shape[1]

    def scaled(self) -> Table:
        """Return the table with columns of mean 0 and deviation 1."""
        deviations = self.X.std(axis=0)
        X = (self.X - self.X.mean(axis=0)) / np.where(deviations > 0, deviations, 1.0)
        return Table(name=self.name, X=X, y=self.y)

    def some_columns(self, columns: slice | np.ndarray) -> Table:
        return Table(name=self.name, X=self.X[:, columns], y=self.y)

    def some_rows(self, rows: slice | np.ndarray) -> Table:
        return Table(name=self.name, X=self.X[rows], y=self.y[rows])

    def first_of_each_class(self, n_rows: int) -> Table:
        """Return the table of the first rows of each class."""
        of_classes = [np.flatnonzero(self.y == c)[:n_rows] for c in np.unique(self.y)]
        return self.some_rows(np.sort(np.concatenate(of_classes)))


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """How many rows an attack found, and how many of its claims are false."""

    n_found: int
    n_false: int


def judge_claims(X: np.ndarray, claims: np.ndarray) -> Verdict:
    """Count the rows of X that are claimed in all columns, and claims that are no row.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
    claims : ndarray of shape (n_claims, n_features)
    """
    deviations = X.std(axis=0)
    unit = np.where(deviations > 0, deviations, 1.0)
    found = np.zeros(len(X), dtype=bool)
    n_false = 0
    for claim in claims:
        is_claimed = (np.abs(X - claim) <= NEAR * unit).all(axis=1)
        found |= is_claimed
        n_false += not is_claimed.any()
    return Verdict(n_found=int(found.sum()), n_false=n_false)


# Tables -------------------------------------------------------------------------------


def _iris() -> tuple[np.ndarray, np.ndarray]:
    return load_iris(return_X_y=True)


def _wine() -> tuple[np.ndarray, np.ndarray]:
    return load_wine(return_X_y=True)


def _breast_cancer() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_breast_cancer(return_X_y=True)
    return X[:200], y[:200]


def _digits() -> tuple[np.ndarray, np.ndarray]:
    """Four digits in 64 columns, with more than 64 rows each."""
    X, y = load_digits(n_class=4, return_X_y=True)
    return X[:320], y[:320]


def _penguins() -> tuple[np.ndarray, np.ndarray]:
    X, y, _ = load_penguins()
    return X, y


def _documents() -> tuple[np.ndarray, np.ndarray]:
    """Documents of 4 to 11 words, of which some are rare, hashed to 64 columns."""
    rng = np.random.default_rng(0)
    words = np.array([f"word{k}" for k in range(200)])
    frequencies = 1.0 / np.arange(1, 201) ** 1.6
    frequencies /= frequencies.sum()
    texts = [
        " ".join(rng.choice(words, size=rng.integers(4, 12), p=frequencies))
        for _ in range(240)
    ]
    X = HashingVectorizer(n_features=64).transform(texts).toarray()
    return X, rng.integers(0, 2, 240)


def _clinics() -> tuple[np.ndarray, np.ndarray]:
    """Patients of a clinic by codes: sex, age band, ward, and six rare findings."""
    rng = np.random.default_rng(0)
    n_rows = 240
    y = rng.integers(0, 2, n_rows)
    bands = np.eye(5)[rng.choice(5, n_rows, p=[0.1, 0.2, 0.3, 0.3, 0.1])]
    wards = np.eye(4)[rng.choice(4, n_rows, p=[0.5, 0.3, 0.17, 0.03])]
    rates = np.array([0.3, 0.15, 0.1, 0.05, 0.03, 0.01])
    findings = rng.random((n_rows, 6)) < rates * (1.0 + y[:, None])
    sex = rng.integers(0, 2, n_rows)
    return np.column_stack([sex, bands, wards, findings]).astype(float), y


_MAKERS: dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {
    "iris": _iris,
    "wine": _wine,
    "breast cancer": _breast_cancer,
    "digits": _digits,
    "penguins": _penguins,
    "documents": _documents,
    "clinics": _clinics,
}
TABLES = tuple(_MAKERS)


@cache
def attacked_table(name: str) -> Table:
    """Return a table by its name in TABLES; labels are texts."""
    X, y = _MAKERS[name]()
    X = np.array(X, dtype=float)
    X.flags.writeable = False
    return Table(name=name, X=X, y=np.array([f"c{label}" for label in y]))


def table_of_outliers() -> Table:
    """Return patients of whom each who is ill is far out in a measure of their own."""
    measures = np.random.default_rng(0).standard_normal((40, 20))
    measures[:20] += 1e6 * np.eye(20)
    return Table(name="outliers", X=measures, y=np.repeat(["ill", "well"], 20))
