"""Displays of fitted aggregators; they need matplotlib, imported when one is drawn.

The displays work like those of scikit-learn: ``from_estimator`` takes a fitted
aggregator, computes the values and draws them; ``plot`` draws them again. Begin with
`NodeReportDisplay`, `RocBySiteDisplay` and `CalibrationBySiteDisplay`, which say how
good a model is at each site.

>>> import numpy as np
>>> from sklearn.linear_model import LogisticRegression
>>> from skgems import GEMSLogisticAggregator
>>> from skgems.plotting import NodeReportDisplay
>>> rng = np.random.default_rng(0)
>>> X, nodes = rng.normal(size=(300, 2)), np.arange(300) % 2
>>> y = np.where(X[:, 0] > 0, "ill", "well")
>>> clfs = [LogisticRegression().fit(X[nodes == k], y[nodes == k]) for k in range(2)]
>>> aggregate = GEMSLogisticAggregator(clfs).fit(X, y, nodes=nodes)
>>> NodeReportDisplay.from_estimator(aggregate).ax_.get_xlabel()
'accuracy'
"""

from ._curves import (
    EpsilonDisplay,
    FineTuningDisplay,
    GapDisplay,
    RoundsDisplay,
    SizeAccuracyDisplay,
)
from ._fits import NodeReportDisplay, SpacesDisplay
from ._forest import ForestDisplay
from ._matching import MatchingDisplay
from ._sites import CalibrationBySiteDisplay, CoefficientsDisplay, RocBySiteDisplay

__all__ = [
    "CalibrationBySiteDisplay",
    "CoefficientsDisplay",
    "EpsilonDisplay",
    "FineTuningDisplay",
    "ForestDisplay",
    "GapDisplay",
    "MatchingDisplay",
    "NodeReportDisplay",
    "RocBySiteDisplay",
    "RoundsDisplay",
    "SizeAccuracyDisplay",
    "SpacesDisplay",
]
