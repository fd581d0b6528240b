"""One call that makes several models of the nodes, and takes the best.

Rows go in, with fitted classifiers if there are any, or a channel to nodes. Each method
that suits them makes a candidate, halves of the nodes' rows judge them, and the best
comes out, fitted. `combine` is all that is called; ``_candidates.py`` lists them.

>>> import numpy as np
>>> from skgems.candidates import combine
>>> rng = np.random.default_rng(0)
>>> X, nodes = rng.normal(size=(120, 2)), np.arange(120) % 2
>>> y = np.where(X[:, 0] > 0, "ill", "well")
>>> model = combine(X=X, y=y, nodes=nodes, random_state=0)
>>> model.predict([[1.0, 0.0], [-1.0, 0.0]])
array(['ill', 'well'], dtype='<U4')
"""

from ._combine import combine
