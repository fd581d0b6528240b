# SPDX-License-Identifier: BSD-3-Clause
"""How much each neuron matters to what its network says."""

from __future__ import annotations

import numpy as np

from ._spaces import NeuronSpaces


def neuron_importances(
    spaces: NeuronSpaces, outgoing: np.ndarray, *, homogeneous: bool
) -> np.ndarray:
    """How far a node's outputs move, squared, as a neuron moves by a unit of itself.

    A unit is the activation's size if ``homogeneous``, else the pre-activation's.
    Before softmax give ``outgoing`` (n_neurons, n_outputs) less the mean over outputs.
    """
    squares = np.einsum("ij,ij->i", outgoing, outgoing, dtype=np.float64)
    return squares * spaces.sizes**2 if homogeneous else squares
