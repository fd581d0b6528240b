"""Match the hidden units of networks by a Beta-Bernoulli process (PFNM).

Weights of hidden units go in, group by group, and atoms come out, with the atom that
each unit was matched to. `match_layer` is for one layer, `match_networks` for whole
networks. This room knows arrays and nothing of nodes or estimators.

>>> import numpy as np
>>> from skgems.matching import match_layer
>>> units = np.array([[5.0, 0.0], [0.0, 5.0]])
>>> match = match_layer(
...     [units, units[::-1]],  # the same units in another order
...     [np.array([1.0]), np.array([1.0])],
...     n_shared=2,
...     prior_precision=0.01,
...     gamma0=1.0,
...     random_state=0,
... )
>>> lyon, paris = match.assignments
>>> bool(np.all(lyon == paris[::-1])), len(match.atoms)
(True, 2)
"""

from ._layer import NO_EVIDENCE, Atoms, History, LayerMatch, match_layer
from ._network import (
    NetworkMatch,
    match_again,
    match_networks,
    merged_layers,
    widen_classes,
)
