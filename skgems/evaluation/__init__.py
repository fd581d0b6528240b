"""How good a model is at each site: metrics and curves, made of counts of scores.

`Evaluation` has a `SiteMetrics` for each node and one for all. Each of these has a
`ClassMetrics` for each class that is judged, whose `ScoreBins` draw curves. Nodes tell
`ToldOfClass`, from which they are made.

>>> import numpy as np
>>> from skgems.evaluation import told_of_class
>>> scores = np.array([-2.0, -1.0, 0.5, 1.0, 2.0])  # log-odds
>>> is_ill = np.array([False, False, True, False, True])
>>> metrics = told_of_class(scores, is_ill, scores > 0).metrics("ill")
>>> round(metrics.auc, 2), metrics.sensitivity, round(metrics.specificity, 2)
(0.83, 1.0, 0.67)
"""

from ._bins import EDGES, N_BINS, ScoreBins
from ._doubts import doubts_about_accuracies, doubts_about_gains
from ._judging import (
    MOST_SLOPE,
    Steps,
    ToldOfClass,
    judged_classes,
    told_of_class,
    told_of_model,
    total_of_class,
)
from ._metrics import ClassMetrics, Evaluation, SiteMetrics
from ._sites import ToldOfNode, evaluation_of

__all__ = ["ClassMetrics", "Evaluation", "ScoreBins", "SiteMetrics"]
