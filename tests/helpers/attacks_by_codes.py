# SPDX-License-Identifier: BSD-3-Clause
"""Combinations of codes that some row must have, by integer programs.

A table of columns that are 0 or 1 has few possible rows x. How often each is there,
c_x, is a whole number, or a weight where rows count for less, and

    sum_x c_x z z' = P,    z = (1, x),    c_x >= 0,

with the sums P that are told. A combination is *proven* if no such c has c_x = 0.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, OptimizeResult, milp

from helpers.attacked_exchanges import GroupSums

# Combinations beyond which nothing is tried, since programs would take too long.
_MOST_CANDIDATES = 20000
# Relative rounding of sums and of leverages.
_ROUNDING = 1e-7
# How often a combination has to be there at least in all solutions to be proven.
_SURELY = 1e-4
# Seconds of one program.
_TIME_LIMIT = 0.5
# The status of `milp` that says that there is no solution.
_INFEASIBLE = 2


def proven_combinations(
    group: GroupSums,
    *,
    slack: float = 0.0,
    leverage: float = 1.0,
    with_integers: bool = False,
) -> np.ndarray:
    """Return combinations of codes that some row must have, (n_claims, n_features).

    Parameters
    ----------
    group : GroupSums
        Its features are columns of 0 and 1. Sums that are not numbers are unknown.
    slack : float, default=0.0
        How far each told sum of a pair of columns may be from the truth.
    leverage : float, default=1.0
        What the rule that the reader knows allows a row.
    with_integers : bool, default=False
        Whether it also counts as proof that no whole numbers c_x have these sums,
        though weights have. It takes long.
    """
    product = group.with_one
    candidates = _possible_rows(product, slack=slack, leverage=leverage)
    if candidates is None or not len(candidates):
        return np.zeros((0, len(product) - 1))
    program = _Program.of(candidates, product, slack=slack)
    proven = [
        k
        for k in program.in_some_solution()
        if program.is_in_all_solutions(k, with_integers=with_integers)
    ]
    return candidates[proven][:, 1:]


def n_rare(X: np.ndarray, combinations: np.ndarray, fewer_than: int = 3) -> int:
    """Count combinations that one or two rows have."""
    times = Counter(map(tuple, X.tolist()))
    return sum(0 < times[tuple(c)] < fewer_than for c in combinations.tolist())


def n_wrong(X: np.ndarray, combinations: np.ndarray) -> int:
    """Count combinations that no row has."""
    rows = set(map(tuple, X.tolist()))
    return sum(tuple(c) not in rows for c in combinations.tolist())


def _possible_rows(
    product: np.ndarray, *, slack: float, leverage: float
) -> np.ndarray | None:
    """Return (1, x) of all x that the sums of pairs allow; None if they are too many.

    Two columns may both be 1 only if that was told of some row; likewise for a 1 and a
    0, and two 0. The row is in the range of the sums, with a leverage that is allowed.
    """
    n_rows = product[0, 0]
    sums = product[0]
    n_columns = len(product)
    # Rows with 1 and 1, 1 and 0, 0 and 1, 0 and 0 in two columns.
    both = product
    first = sums[:, None] - product
    second = sums[None] - product
    neither = n_rows - sums[:, None] - sums[None] + product
    least = slack + _ROUNDING * n_rows
    allowed = {
        (1, 1): ~(both <= least),
        (1, 0): ~(first <= least),
        (0, 1): ~(second <= least),
        (0, 0): ~(neither <= least),
    }
    rows = np.ones((1, 1), dtype=np.int8)
    for column in range(1, n_columns):
        extended = []
        for value in (0, 1):
            fits = np.ones(len(rows), dtype=bool)
            for earlier in range(column):
                for earlier_value in (0, 1):
                    if not allowed[(value, earlier_value)][column, earlier]:
                        fits &= rows[:, earlier] != earlier_value
            kept = rows[fits]
            extended.append(np.column_stack([kept, np.full(len(kept), value, np.int8)]))
        rows = np.concatenate(extended)
        if len(rows) > _MOST_CANDIDATES:
            return None
    rows = rows.astype(float)
    if slack or not np.isfinite(product).all():
        return rows
    eigenvalues, vectors = np.linalg.eigh(product)
    in_range = eigenvalues > 1e-10 * eigenvalues[-1]
    outside = np.abs(rows @ vectors[:, ~in_range]).max(axis=1, initial=0.0)
    along = rows @ vectors[:, in_range] / np.sqrt(eigenvalues[in_range])
    leverages = np.square(along).sum(axis=1)
    return rows[(outside < 1e-5) & (leverages <= leverage + 1e-6)]


class _Program:
    """The equations for how often each possible row is there."""

    def __init__(self, A: sparse.csr_array, low, high, *, is_whole: bool) -> None:
        self.constraint = LinearConstraint(A, low, high)
        self.n_candidates = A.shape[1]
        self.is_whole = is_whole

    @classmethod
    def of(
        cls, candidates: np.ndarray, product: np.ndarray, *, slack: float
    ) -> _Program:
        first, second = np.triu_indices(len(product))
        told = np.isfinite(product[first, second])
        first, second = first[told], second[told]
        A = (candidates[:, first] * candidates[:, second]).T
        sums = product[first, second]
        is_whole = slack == 0 and bool(np.abs(sums - np.rint(sums)).max() < 1e-4)
        if is_whole:
            sums = np.rint(sums)
        # Noise is on pairs of columns alone.
        slacks = np.where((first > 0) & (first != second), slack, 0.0)
        slacks = slacks + (0.0 if is_whole else _ROUNDING * product[0, 0])
        return cls(sparse.csr_array(A), sums - slacks, sums + slacks, is_whole=is_whole)

    def in_some_solution(self) -> np.ndarray:
        """Return the candidates that are there in one solution, if there is any."""
        solution = self._found(np.ones(self.n_candidates), is_whole=False).x
        return np.flatnonzero([] if solution is None else solution > _SURELY)

    def is_in_all_solutions(self, candidate: int, *, with_integers: bool) -> bool:
        costs = np.zeros(self.n_candidates)
        costs[candidate] = 1.0
        relaxed = self._found(costs, is_whole=False)
        if relaxed.status == 0 and relaxed.fun > _SURELY:
            return True
        if not (with_integers and self.is_whole):
            return False
        nothing = np.zeros(self.n_candidates)
        without = self._found(nothing, is_whole=True, without=candidate)
        return without.status == _INFEASIBLE

    def _found(
        self, costs: np.ndarray, *, is_whole: bool, without: int | None = None
    ) -> OptimizeResult:
        most = np.full(self.n_candidates, np.inf)
        if without is not None:
            most[without] = 0.0
        return milp(
            costs,
            constraints=self.constraint,
            integrality=np.full(self.n_candidates, is_whole),
            bounds=Bounds(0.0, most),
            options={"time_limit": _TIME_LIMIT},
        )
