"""PFNM: one network of matched hidden units.

`PFNMAggregator` takes fitted networks, with hidden layers of any widths, and makes one
network whose units are atoms: each stands for units of several nodes. The mathematics
is in the room `matching`; here are the estimator, its parameters of the search,
`Matching`, and its rounds. ``_matching_fit.py`` has a fit from the first message to the
last, ``_matcher.py`` one step of it, and ``_earlier_steps.py`` what ``update`` goes on
from.

>>> import numpy as np
>>> from sklearn.neural_network import MLPClassifier
>>> from skgems.pfnm import PFNMAggregator
>>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]] * 5), np.array([0, 0, 1, 1] * 5)
>>> net = MLPClassifier((4,), solver="lbfgs", max_iter=5000, random_state=0).fit(X, y)
>>> matched = PFNMAggregator([("lyon", net), ("paris", net)]).fit()
>>> matched.n_units_[0] < 4 + 4  # it is the same net twice
True
"""

from ._matching_fit import PoorMatchWarning
from ._parameters import Matching
from ._pfnm import PFNMAggregator

__all__ = ["Matching", "PoorMatchWarning"]
