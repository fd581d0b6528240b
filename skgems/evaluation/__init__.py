"""How good a model is, and how sure: metrics and standard errors, from sums of nodes.

`Evaluation` has a `SiteMetrics` for each node and one for all. Each of these has a
`ClassMetrics` for each class that is judged, whose `ScoreBins` draw curves. Nodes tell
`ToldOfClass`, from which they are made. `Inference` is a table of odds ratios: of
`score_sums` of rows at a model, `newton_step` makes better coefficients with standard
errors. Parameters are contrasts ``w_k - w_0`` of the weights of each class against the
first: class by class, those of the columns and then the intercept.

>>> import numpy as np
>>> from skgems.evaluation import class_metrics, told_of_class
>>> scores = np.array([-2.0, -1.0, 0.5, 1.0, 2.0])  # log-odds
>>> is_ill = np.array([False, False, True, False, True])
>>> told = told_of_class(scores, is_ill, scores > 0)
>>> metrics = class_metrics(told, "ill")
>>> round(metrics.auc, 2), metrics.sensitivity, round(metrics.specificity, 2)
(0.83, 1.0, 0.67)
"""

from ._bins import EDGES, N_BINS, ScoreBins
from ._dependence import Dependence, dependence_of
from ._doubts import doubts_about_accuracies, doubts_about_gains
from ._heterogeneity import Heterogeneity, heterogeneity_of
from ._inference import Inference
from ._judging import (
    MOST_SLOPE,
    Steps,
    ToldOfClass,
    judged_classes,
    told_of_class,
    told_of_model,
)
from ._metrics import ClassMetrics, Evaluation, SiteMetrics
from ._newton import (
    NewtonStep,
    NodeSums,
    SingularError,
    assembled,
    inverse_of,
    newton_step,
    robust_covariance,
    site_covariance,
)
from ._score_sums import (
    ScoreSums,
    columns_that_are_told,
    matrix_of_triangle,
    score_sums,
    triangle_of,
)
from ._sites import ToldOfNode, evaluation_of
from ._totals import class_metrics, total_of_class

__all__ = [
    "ClassMetrics",
    "Evaluation",
    "Heterogeneity",
    "Inference",
    "ScoreBins",
    "SiteMetrics",
]
