"""PFNM: one network of matched hidden units.

`PFNMAggregator` takes fitted networks, with hidden layers of any widths, and makes one
network whose units are atoms: each stands for units of several nodes. `Matching` has
the parameters of the search. ``_layer.py`` and ``_network.py`` match units by a
Beta-Bernoulli process and know arrays only. ``_matching_fit.py`` has a fit from the
first message to the last, ``_matcher.py`` one step of it, and ``_earlier_steps.py``
what ``update`` goes on from.

>>> import numpy as np
>>> from sklearn.neural_network import MLPClassifier
>>> from skgems.pfnm import PFNMAggregator
>>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]] * 5), np.array([0, 0, 1, 1] * 5)
>>> net = MLPClassifier((4,), solver="lbfgs", max_iter=5000, random_state=0).fit(X, y)
>>> matched = PFNMAggregator([("lyon", net), ("paris", net)]).fit()
>>> matched.n_units_[0] < 4 + 4  # it is the same net twice
True
"""

from ._layer import NO_EVIDENCE, Atoms, History, LayerMatch, match_layer
from ._matching_fit import PoorMatchWarning
from ._network import (
    NetworkMatch,
    match_again,
    match_networks,
    merged_layers,
    widen_classes,
)
from ._parameters import Matching
from ._pfnm import PFNMAggregator

__all__ = ["Matching", "PoorMatchWarning"]
