"""One call that makes several models of the nodes, and takes the best.

Fitted classifiers and their rows go in, or a channel to nodes; each method that suits
them makes a candidate, halves of the nodes' rows judge them, and the best comes out,
fitted. `combine` is all that is called; `_candidates.py` says which methods are tried.

>>> import numpy as np
>>> from sklearn.linear_model import LogisticRegression
>>> from skgems.candidates import combine
>>> rng = np.random.default_rng(0)
>>> X, nodes = rng.normal(size=(300, 2)), np.arange(300) % 2
>>> y = np.where(X[:, 0] > 0, "ill", "well")
>>> clfs = [LogisticRegression().fit(X[nodes == k], y[nodes == k]) for k in range(2)]
>>> combine(clfs, X, y, nodes=nodes, random_state=0).predict([[9.0, 0.0], [-9.0, 0.0]])
array(['ill', 'well'], dtype='<U4')
"""

from ._combine import combine
