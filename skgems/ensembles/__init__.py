"""Several models: votes, stacks, one distilled from them, and the best of them.

Fitted classifiers of any library go in. `EnsembleAggregator` keeps them all and
averages their probabilities, or stacks them; `DistillationAggregator` trains one model
on what they say of public rows; `merge_forests` makes one forest of several. `combine`
makes a candidate by each method that suits the nodes, lets halves of their rows judge
them, and fits the best; ``_candidates.py`` lists them.

>>> import numpy as np
>>> from sklearn.tree import DecisionTreeClassifier
>>> from skgems.ensembles import EnsembleAggregator
>>> X, y = np.array([[0.0], [1.0], [2.0]]), np.array([0, 1, 1])
>>> trees = [DecisionTreeClassifier(random_state=k).fit(X, y) for k in range(2)]
>>> EnsembleAggregator(trees).fit().predict(X)
array([0, 1, 1])
"""

from ._combine import combine
from ._distillation import DistillationAggregator
from ._ensemble import EnsembleAggregator
from ._forests import merge_forests
