"""Which of several models is taken, by rows that did not make them.

A `Candidate` is a model made of all learning rows, with two of half of these each;
`choose` scores the halves on the rows that they did not learn from, and names the best,
or a surer one that is as good. `choose_over` asks nodes for the same over a channel.

>>> import numpy as np
>>> from skgems.choice import Candidate, choose
>>> from skgems.pooled import PooledAggregator
>>> rng = np.random.default_rng(0)
>>> X, y = rng.normal(size=(80, 2)), np.repeat([0, 1], 40)
>>> owners = {"lyon": np.arange(0, 80, 2), "paris": np.arange(1, 80, 2)}
>>> methods = ["NearestCentroid", "GaussianNB"]
>>> tried = [Candidate(name, PooledAggregator(pooled=name)) for name in methods]
>>> choice = choose(tried, X, y, owners)
>>> choice.n_rows, choice.name in methods, [row["name"] for row in choice.table]
(80, True, ['NearestCentroid', 'GaussianNB'])
"""

from ._asking import choose_over
from ._choice import CLASS_SHARES, Candidate, Choice, n_bytes_received
from ._judging import choose, fit_rows
from ._scoring import check_scoring, surest_of_the_best

__all__ = ["Choice"]
