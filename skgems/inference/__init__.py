"""Standard errors of logistic regressions, from sums that nodes send.

Nodes make `score_sums` of their rows at a model, of which `newton_step` makes better
coefficients with standard errors, and `Inference` a table. Parameters are contrasts
``w_k - w_0`` of the weights of each class against the first: class by class, those of
the columns and then the intercept.

>>> import numpy as np
>>> from skgems.inference import NodeSums, newton_step, score_sums
>>> Z = np.array([[0.0], [0.0], [1.0], [1.0]])
>>> columns = np.array([0, 1, 1, 1])
>>> sums = score_sums(Z, columns, np.zeros((2, 2)))
>>> node = NodeSums(gradient=sums.gradient, information=sums.information)
>>> step = newton_step([node], [np.arange(2)], start=np.zeros(2))
>>> step.params[:1].round(2).tolist()
[2.0]
"""

from ._dependence import Dependence, dependence_of
from ._heterogeneity import Heterogeneity, heterogeneity_of
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
from ._sums import (
    ScoreSums,
    columns_that_are_told,
    matrix_of_triangle,
    score_sums,
    triangle_of,
)
from ._table import Inference

__all__ = ["Heterogeneity", "Inference"]
