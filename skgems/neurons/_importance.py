# SPDX-License-Identifier: BSD-3-Clause
"""How much each neuron matters to what its network says."""

from __future__ import annotations

import numpy as np

from ._spaces import NeuronSpaces


def neuron_importances(
    spaces: NeuronSpaces, outgoing: np.ndarray, *, homogeneous: bool
) -> np.ndarray:
    """How far a node's outputs move, squared, as a neuron moves by a unit of itself.

    Parameters
    ----------
    spaces : NeuronSpaces
        Of the node.
    outgoing : ndarray of shape (n_neurons, n_outputs)
        Outgoing weights. Where the next layer is the last, their mean over the outputs
        counts for nothing, as softmax ignores it: give them without.
    homogeneous : bool
        Whether neurons are compared at unit size. The unit of a neuron is then its
        activation's size, else that of its pre-activation.

    Returns
    -------
    importances : ndarray of shape (n_neurons,)
        At least 0.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.neurons import NeuronSpaces, neuron_importances
    >>> spaces = NeuronSpaces(np.eye(2), np.ones(2), np.ones(2), np.array([1.0, 3.0]))
    >>> outgoing = np.array([[1.0, -1.0], [1.0, 0.0]])
    >>> neuron_importances(spaces, outgoing, homogeneous=True)
    array([2., 9.])
    """
    squares = np.einsum("ij,ij->i", outgoing, outgoing, dtype=np.float64)
    return squares * spaces.sizes**2 if homogeneous else squares
