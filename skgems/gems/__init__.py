"""GEMS: one model in the intersection of the nodes' good-enough spaces.

`GEMSLogisticAggregator` merges linear models in one message, by moments or in
good-enough spaces; `GEMSMLPAggregator` merges networks layer by layer. Both take fitted
classifiers, and rows or summaries. `LastLayer` is what PFNM takes from here, too.

>>> import numpy as np
>>> from sklearn.linear_model import LogisticRegression
>>> from skgems.gems import GEMSLogisticAggregator
>>> rng = np.random.default_rng(0)
>>> X, nodes = rng.normal(size=(300, 2)), np.arange(300) % 2
>>> y = np.where(X[:, 0] > 0, "ill", "well")
>>> clfs = [LogisticRegression().fit(X[nodes == k], y[nodes == k]) for k in range(2)]
>>> aggregate = GEMSLogisticAggregator(clfs).fit(X, y, nodes=nodes)
>>> aggregate.predict([[9.0, 0.0], [-9.0, 0.0]])
array(['ill', 'well'], dtype='<U4')
"""

from ._further import Candidates, Rounds
from ._last_layer import LastLayer, MergedLast, NetworksMethod
from ._layers import activation_of
from ._layers_fit import long_last_layer, tuned_network
from ._logistic import GEMSLogisticAggregator
from ._mlp import GEMSMLPAggregator
from ._parameters import (
    HiddenLayers,
    Moments,
    Spaces,
    with_objects_of_settings,
)
from ._stage import calibration_plan
from ._terms import LinearTerms

__all__ = ["Candidates", "HiddenLayers", "Moments", "Rounds", "Spaces"]
