"""Votes of classifiers whose classes differ, and the weights that they have in them.

In a soft vote the probability of class c is

    sum_k w_kc p_k(c | x)  /  sum over c of the same,

for nodes k with weights w_kc, which are 0 for classes that a node does not know. In a
hard vote p_k is 1 for the class that the member of node k predicts, 0 for all others.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.sparse import csr_matrix, issparse

from ..asking import ask_shares, run_over, shares_without_rows
from ..base import BaseAggregator
from ..local import LocalModel, local_model
from ..parties import Federation
from ._given_rows import row_digests, rows_as_given

# Part of one vote: enough to break ties, too little to count.
_TIE = 1e-6
# Digits of shares of votes that are kept, so that sums which should tie do.
_DIGITS = 9
# The finalizer of splitmix64 (Steele et al. 2014): shifts and factors modulo 2^64.
_FINALIZER = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1))


def ensemble_weights(
    federation: Federation,
    node_weight: str | Sequence[float],
    n_jobs: int | None = None,
) -> tuple[np.ndarray, list[dict]]:
    """Weights (n_nodes, n_classes) by the parameter ``node_weight``; the history.

    Of "class_counts" each column sums to 1.
    """
    for node in federation.nodes:
        node.model.check_finite()
    if not isinstance(node_weight, str) or node_weight == "equal":
        shares = shares_without_rows(federation, node_weight)
        return shares.outputs, federation.front_history
    run = run_over(federation, n_jobs=n_jobs)
    weights = run(ask_shares(federation, node_weight)).outputs
    if node_weight == "class_counts":
        weights = weights / weights.sum(axis=0)
    return weights, run.history


@dataclass(frozen=True, eq=False, kw_only=True)
class Vote:
    """A vote of models whose classes may differ."""

    models: list[LocalModel]
    classes: np.ndarray  # of all nodes, (n_classes,)
    weights: np.ndarray  # (n_nodes, n_classes)
    voting: str
    tie_seed: int  # breaks ties of hard votes

    @classmethod
    def from_aggregator(cls, aggregator: BaseAggregator) -> Self:
        """Return the vote of a fitted EnsembleAggregator that is no stack."""
        models = [
            local_model(member, name=name)
            for member, name in zip(
                aggregator.estimators_, aggregator.node_names_, strict=True
            )
        ]
        return cls(
            models=models,
            classes=aggregator.classes_,
            weights=aggregator.weights_,
            voting=aggregator.voting,
            tie_seed=aggregator._tie_seed,
        )

    def probabilities(self, X) -> np.ndarray:
        """Class probabilities (n_rows, n_classes)."""
        if self.voting == "soft":
            return _soft_vote(self.models, X, self.classes, weights=self.weights)
        return _hard_vote(
            self.models,
            X,
            self.classes,
            weights=self.weights,
            tie_seed=self.tie_seed,
        )


def _soft_vote(
    models: list[LocalModel], X, classes: np.ndarray, *, weights: np.ndarray
) -> np.ndarray:
    totals = sum(
        weight * model.probabilities(X, classes)
        for model, weight in zip(models, weights, strict=True)
    )
    sums = totals.sum(axis=1, keepdims=True)
    nobody_knows = ~(sums > 0)
    return np.where(
        nobody_knows, 1 / len(classes), totals / np.where(nobody_knows, 1.0, sums)
    )


def _hard_vote(
    models: list[LocalModel],
    X,
    classes: np.ndarray,
    *,
    weights: np.ndarray,
    tie_seed: int,
) -> np.ndarray:
    noise = row_noise(X, len(classes), tie_seed)
    votes = np.zeros(noise.shape)
    rows = np.arange(len(noise))
    for model, weight in zip(models, weights, strict=True):
        columns = model.votes(X, classes)
        votes[rows, columns] += weight[columns]
    # Rounding, so that sums of unequal weights that should tie do.
    sums = np.maximum(votes.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    shares = np.round(votes / sums, _DIGITS) + _TIE * noise
    return shares / shares.sum(axis=1, keepdims=True)


def row_noise(X, n_columns: int, seed: int) -> np.ndarray:
    """Uniform numbers that depend on a row's values and the seed, on nothing else.

    A row's bits are hashed multilinearly modulo 2^64, then scrambled by the finalizer
    of splitmix64. The shape is (n_rows, n_columns).
    """
    rng = np.random.default_rng(seed)
    if hasattr(X, "columns"):
        hashed = sys.modules["pandas"].util.hash_pandas_object(X, index=False)
        X = np.asarray(hashed, dtype=np.uint64)[:, None]
    elif rows_as_given(X) is not None:
        X = row_digests(X)
    elif not issparse(X):
        X = np.reshape(X, (len(X), -1))
    factors = rng.integers(2**64, size=(X.shape[1], 1), dtype=np.uint64)
    offsets = rng.integers(2**64, size=n_columns, dtype=np.uint64)
    if issparse(X):
        bits = csr_matrix((_bits(X.data), X.indices, X.indptr), shape=X.shape)
    else:
        bits = _bits(np.ascontiguousarray(X))
    mixed = np.asarray(bits @ factors).reshape(-1, 1) + offsets
    for shift, factor in _FINALIZER:
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    # The upper 53 bits are the digits of a float64 in [0, 1).
    return (mixed >> np.uint64(11)) * 2.0**-53


def _bits(values: np.ndarray) -> np.ndarray:
    if values.dtype == np.uint64:
        return values
    # Adding zero turns -0.0, which is no stored entry of a sparse row, into 0.0.
    return (values.astype(np.float64) + 0.0).view(np.uint64)
