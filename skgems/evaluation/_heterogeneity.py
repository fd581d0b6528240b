"""Estimates by node, and how much these differ beyond chance.

A node's own estimate is one Newton step from the common model by its sums alone. With
estimates b_k of variances v_k and ``w_k = 1 / v_k``, Cochran's Q and I2 are

    Q = sum of w_k (b_k - m)^2,  m = sum of w_k b_k / sum of w_k,
    I2 = max(0, 1 - (K - 1) / Q).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import chi2

from ..base import Page, ResultMixin, Table
from ._newton import NodeSums

# Eigenvalues of the scaled information of a node below this decide nothing.
_LEAST_EIGENVALUE = 1e-8
# Share of a parameter in directions which a node does not decide, which is rounding.
_UNDECIDED = 1e-6


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Heterogeneity(ResultMixin):
    """Estimates by node, (n_nodes, n_params), and statistics of each parameter."""

    estimates: np.ndarray  # NaN where a node's sums allow none
    errors: np.ndarray  # standard errors
    Q: np.ndarray  # (n_params,), NaN with fewer than two estimates
    df: np.ndarray  # (n_params,), degrees of freedom of Q
    pvalues: np.ndarray  # (n_params,), of Q
    I2: np.ndarray  # (n_params,), share of the variation that is not chance

    def _page(self) -> Page:
        statistics = Table.from_columns(
            {
                "coefficient": range(len(self.Q)),
                "nodes with estimates": np.isfinite(self.errors).sum(axis=0).tolist(),
                "Q": self.Q.tolist(),
                "df": self.df.tolist(),
                "p value": self.pvalues.tolist(),
                "I2": self.I2.tolist(),
            }
        )
        return Page(title="Differences between nodes", parts=[statistics])


def heterogeneity_of(
    nodes: Sequence[NodeSums | None],
    places: Sequence[np.ndarray],
    *,
    start: np.ndarray,
    to_table: np.ndarray,
    is_common: np.ndarray,
) -> Heterogeneity:
    """Compare the nodes' own estimates of parameters that all share.

    Parameters
    ----------
    nodes : sequence of NodeSums or None
        None stands for a node whose sums allow no estimate.
    places : sequence of ndarray of int of shape (m,)
        Where each parameter of a node is among all parameters; -1: it is left out.
    start : ndarray of shape (n_params,)
        The model at which the sums were made.
    to_table : ndarray of shape (n_params, n_params)
        Takes parameters to those that are compared.
    is_common : ndarray of bool of shape (n_params,)
        Which of the latter are compared; the others are NaN.
    """
    estimates = np.full((len(nodes), len(start)), np.nan)
    errors = np.full((len(nodes), len(start)), np.nan)
    for i, (node, of_node) in enumerate(zip(nodes, places, strict=True)):
        if node is None:
            continue
        estimated = np.flatnonzero(of_node >= 0)
        where = of_node[estimated]
        own_step = _OwnStep.from_sums(
            node.gradient[estimated],
            node.information[np.ix_(estimated, estimated)],
        )
        estimates[i] = to_table @ start + to_table[:, where] @ own_step.change
        errors[i] = own_step.errors(to_table[:, where])
    errors[:, ~is_common] = np.nan
    estimates[np.isnan(errors)] = np.nan
    weights = np.nan_to_num(errors**-2.0)
    n_estimates = np.isfinite(errors).sum(axis=0)
    totals = np.where(n_estimates > 0, weights.sum(axis=0), 1.0)
    means = (weights * np.nan_to_num(estimates)).sum(axis=0) / totals
    Q = (weights * np.nan_to_num(estimates - means) ** 2).sum(axis=0)
    Q[n_estimates < 2] = np.nan
    df = np.maximum(n_estimates - 1, 0)
    with np.errstate(divide="ignore"):
        I2 = np.maximum(0.0, 1.0 - df / Q)
    return Heterogeneity(
        estimates=estimates,
        errors=errors,
        Q=Q,
        df=df,
        pvalues=chi2.sf(Q, np.maximum(df, 1)),
        I2=I2,
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class _OwnStep:
    """A Newton step by the sums of one node, in directions that these decide."""

    change: np.ndarray  # (m,)
    inverse: np.ndarray  # (m, m), of the information in these directions
    undecided: np.ndarray  # (m, n), the other directions, of scaled parameters
    scale: np.ndarray  # (m,), of parameters

    @classmethod
    def from_sums(cls, gradient: np.ndarray, information: np.ndarray) -> "_OwnStep":
        diagonal = np.diag(information)
        scale = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
        values, vectors = np.linalg.eigh(information / np.outer(scale, scale))
        is_decided = values > _LEAST_EIGENVALUE
        decided = vectors[:, is_decided] / scale[:, None]
        inverse = (decided / values[is_decided]) @ decided.T
        return cls(
            change=inverse @ gradient,
            inverse=inverse,
            undecided=vectors[:, ~is_decided],
            scale=scale,
        )

    def errors(self, combinations: np.ndarray) -> np.ndarray:
        """Return standard errors of combinations of parameters, NaN if undecided."""
        variances = np.einsum("ij,jk,ik->i", combinations, self.inverse, combinations)
        scaled = combinations / self.scale
        lost = np.linalg.norm(scaled @ self.undecided, axis=1)
        is_decided = lost <= _UNDECIDED * np.linalg.norm(scaled, axis=1)
        is_decided &= variances > 0
        return np.where(is_decided, np.sqrt(np.maximum(variances, 0.0)), np.nan)
