# SPDX-License-Identifier: BSD-3-Clause
"""Gaussian beliefs about atoms, and what a neuron adds to them."""

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True, eq=False)
class Atoms:
    """Gaussian beliefs about numbers of each atom; the first have one precision."""

    linear: np.ndarray = field(repr=False)  # (n_atoms, n_numbers): precision times mean
    # (n_atoms, 1 + n_numbers - n_shared): of the shared numbers, then of each other.
    precision: np.ndarray = field(repr=False)
    n_shared: int

    @property
    def mean(self) -> np.ndarray:
        """Mean, and mode, of each atom, shape (n_atoms, n_numbers)."""
        return self._divided(self.precision)

    def without_prior(self, prior_precision: float) -> np.ndarray:
        """What the neurons alone say of each atom; zero where they say nothing."""
        own = self.precision - self.precision.dtype.type(prior_precision)
        nothing = own <= 1e-6 * prior_precision
        return self._divided(np.where(nothing, np.inf, own))

    def _divided(self, precision) -> np.ndarray:
        result = self.linear / precision[:, :1]
        result[:, self.n_shared :] = self.linear[:, self.n_shared :] / precision[:, 1:]
        return result

    def __len__(self) -> int:
        return len(self.linear)


def scaled(V: np.ndarray, precision: np.ndarray, n_shared: int) -> np.ndarray:
    """Neurons times the precision of each of their numbers, of all or of each."""
    result = V * precision[..., :1]
    result[:, n_shared:] = V[:, n_shared:] * precision[..., 1:]
    return result


def squares(V: np.ndarray, n_shared: int) -> np.ndarray:
    """Sum of squares of the shared numbers, then the square of each other one."""
    result = np.empty((len(V), 1 + V.shape[1] - n_shared), dtype=V.dtype)
    shared = V[:, :n_shared]
    np.einsum("ld,ld->l", shared, shared, out=result[:, 0])
    np.square(V[:, n_shared:], out=result[:, 1:])
    return result


def evidence(linear: np.ndarray, precision: np.ndarray, n_shared: int) -> np.ndarray:
    r"""Squared norm :math:`\sum_d a_d^2 / q_d` of each atom's belief."""
    return np.sum(squares(linear, n_shared) / precision, axis=1)


def evidence_gains(
    V: np.ndarray,  # v, neurons of one node
    precision: np.ndarray,  # p, one row as in Atoms
    linear: np.ndarray,  # a, of the atoms without this node
    atom_precision: np.ndarray,  # q
    n_shared: int,
    linear_squares: np.ndarray,  # squares(linear, n_shared)
) -> np.ndarray:
    r"""How much each neuron adds to each atom's evidence, (n_neurons, n_atoms).

    :math:`\sum_d (a_d + p_d v_d)^2 / (q_d + p_d) - a_d^2 / q_d`, twice the gain in
    log-posterior, expanded to two matrix products and a number per atom.
    """
    inverse = 1.0 / (atom_precision + precision)
    # The largest product needs no copy of the atoms: its factor is one per atom.
    gains = V[:, :n_shared] @ linear[:, :n_shared].T
    gains *= 2.0 * precision[0] * inverse[:, 0]
    left = np.hstack(
        [squares(V, n_shared) * precision**2, V[:, n_shared:] * (2.0 * precision[1:])]
    )
    right = np.hstack([inverse, linear[:, n_shared:] * inverse[:, 1:]])
    gains += left @ right.T
    change = inverse - 1.0 / atom_precision
    gains += np.sum(linear_squares * change, axis=1)
    return gains


def first_evidence(
    V: np.ndarray, precision: np.ndarray, prior_precision: float, n_shared: int
) -> np.ndarray:
    """The same for an atom of its own: zero mean, ``prior_precision``."""
    factor = precision**2 / (prior_precision + precision)
    return squares(V, n_shared) @ factor
