"""How good a model is at each site: metrics and curves, made of counts of scores.

`Evaluation` has a `SiteMetrics` for each node and one for all. Each of these has a
`ClassMetrics` for each class that is judged, whose `ScoreBins` draw curves.

>>> import numpy as np
>>> from skgems.evaluation import ClassMetrics
>>> metrics = ClassMetrics(
...     label="ill",
...     n_positive=40,
...     n_negative=60,
...     auc=0.9,
...     true_positives=36,
...     false_positives=6,
... )
>>> round(metrics.sensitivity, 2), round(metrics.specificity, 2)
(0.9, 0.9)
"""

from ._bins import EDGES, ScoreBins
from ._metrics import ClassMetrics, Evaluation, SiteMetrics

__all__ = ["ClassMetrics", "Evaluation", "ScoreBins", "SiteMetrics"]
