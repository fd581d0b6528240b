"""Classifiers and transformers that are functions of sums: what all rows would give.

Where a model is a function of sums over rows, nodes send sums and the server makes the
very model of all rows: `PooledAggregator` for classifiers, `PooledTransformer` for
transformers before them.
Trees and forests grow from histograms, which are sums too, with one message a level.
`describe` says what the columns of nodes hold, before any model.

>>> import numpy as np
>>> from sklearn.naive_bayes import GaussianNB
>>> from skgems.pooled import PooledAggregator
>>> X, y = np.array([[0.0], [1.0], [4.0], [6.0]]), np.array([0, 0, 1, 1])
>>> pooled = PooledAggregator(pooled=GaussianNB()).fit(X, y, nodes=[0, 1, 0, 1])
>>> np.allclose(pooled.to_estimator().theta_, GaussianNB().fit(X, y).theta_)
True
"""

from ._classifiers import CLASSIFIERS, shrunk_lda
from ._description import Description, describe, survey
from ._pooled import PooledAggregator
from ._sent_models import quadratic_content
from ._table_one import TableOne
from ._transformer import PooledTransformer
from ._trees_halves import forests_of_halves
from ._trees_terms import TREES

__all__ = ["Description", "TableOne"]
