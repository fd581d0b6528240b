"""Averages of parameters, in one shot or in rounds of co-learning.

Networks of one architecture go in, and one network of their mean parameters comes out:
`ModelAveragingAggregator` is the estimator. `CoLearning` is its plan in rounds, after
each of which nodes train on from the mean, at the rates of a `Schedule`; `Downpour` is
another, in which nodes push what a few batches change. ``_averaging_fit.py`` has a fit
from the first message to the last.

>>> import numpy as np
>>> from sklearn.linear_model import LogisticRegression
>>> from skgems.averaging import ModelAveragingAggregator
>>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 0, 1, 1])
>>> lyon, paris = LogisticRegression().fit(X, y), LogisticRegression(C=9.0).fit(X, y)
>>> average = ModelAveragingAggregator([lyon, paris], random_state=0).fit()
>>> np.allclose(average.to_estimator().coef_, (lyon.coef_ + paris.coef_) / 2)
True
"""

from ._averages import StartedApartWarning
from ._averaging import ModelAveragingAggregator
from ._co_learning import CoLearning
from ._downpour import Downpour
from ._schedule import Schedule

__all__ = ["Downpour", "Schedule", "StartedApartWarning"]
