# SPDX-License-Identifier: BSD-3-Clause
"""Guesses whether a given row took part, by a likelihood ratio.

Of n rows the sums T of k numbers f(x) are known: of the columns and of their products,
so that ``k = d (d + 3) / 2``. With numbers that have mean 0 and covariance 1 among all
people, T is nearly normal of covariance n. A row z that took part moves its mean by
f(z), so that the logarithm of the likelihood ratio is

    f(z)'T / n - |f(z)|^2 / (2 n).

Guessing by its sign is right for a share of rows in, and out, that exceed together 1 by
the *advantage*; with many numbers that is ``2 Phi(sqrt(k / n) / 2) - 1``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skgems.disclosure import guess_advantage

# Share of the largest variance below which a number is a function of others.
_DEPENDENT = 1e-9


def expected_advantage(n_rows: float, n_features: int) -> float:
    """Return the advantage of guesses about rows whose means and products are told."""
    return guess_advantage(n_features * (n_features + 3) / 2, n_rows)


@dataclass(frozen=True, eq=False)
class Population:
    """What is known of the columns and their products among all people."""

    mean: np.ndarray  # (n_numbers,)
    whitening: np.ndarray  # (n_numbers, n_independent)

    @classmethod
    def of(cls, X: np.ndarray) -> Population:
        """Return the population that rows are a sample of."""
        numbers = columns_and_products(X)
        mean = numbers.mean(axis=0)
        eigenvalues, vectors = np.linalg.eigh(np.cov(numbers.T))
        kept = eigenvalues > _DEPENDENT * eigenvalues[-1]
        return cls(mean, vectors[:, kept] / np.sqrt(eigenvalues[kept]))

    @classmethod
    def normal(cls, n_features: int) -> Population:
        """Return the population of independent columns of mean 0 and variance 1."""
        first, second = np.triu_indices(n_features)
        is_square = first == second
        deviations = np.concatenate(
            [np.ones(n_features), np.where(is_square, np.sqrt(2.0), 1.0)]
        )
        mean = np.concatenate([np.zeros(n_features), is_square.astype(float)])
        return cls(mean, np.diag(1.0 / deviations))

    def whitened(self, numbers: np.ndarray) -> np.ndarray:
        return (numbers - self.mean) @ self.whitening


def columns_and_products(X: np.ndarray) -> np.ndarray:
    """Return the columns and the products of all pairs, (n_rows, d (d + 3) / 2)."""
    first, second = np.triu_indices(X.shape[1])
    return np.hstack([X, X[:, first] * X[:, second]])


def log_ratios(
    with_one: np.ndarray, candidates: np.ndarray, population: Population
) -> np.ndarray:
    """Return the logarithms of the likelihood ratio of each candidate, (n_candidates,).

    Parameters
    ----------
    with_one : ndarray of shape (n_features + 1, n_features + 1)
        The sums of the products of (1, x) over rows, or of their weights times these.
    candidates : ndarray of shape (n_candidates, n_features)
    population : Population
    """
    n_rows = with_one[0, 0]
    first, second = np.triu_indices(len(with_one) - 1)
    sums = np.concatenate([with_one[0, 1:], with_one[1:, 1:][first, second]])
    deviation = population.whitened(sums / n_rows)
    numbers = population.whitened(columns_and_products(candidates))
    return numbers @ deviation - np.square(numbers).sum(axis=1) / (2.0 * n_rows)


def measured_advantage(of_rows: np.ndarray, of_others: np.ndarray) -> float:
    """Return how much better than chance the sign of ratios tells rows from others."""
    return float(np.mean(of_rows > 0) + np.mean(of_others <= 0) - 1.0)
