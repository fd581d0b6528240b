"""The linear model that is likeliest for sums with noise."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from ..asking import NOISE, NoisyMethod
from ..base import BaseAggregator
from ..moments import ClassMoments, Likelihood, NodeLoss, PooledForm
from ..networks import linear_attributes
from ._parameters import Moments

# With more columns the discriminant analysis is as good and many times as fast: 784
# take a second.
_MOST_COLUMNS = 300
# A step that gains less is the last, in nats a row: noise is larger.
_TOLERANCE = 1e-6


@dataclass(frozen=True, eq=False, kw_only=True)
class NoisyLinearMethod(NoisyMethod):
    """The model of GEMSLogisticAggregator, made of sums with noise."""

    C: float | str
    moments: Moments

    @property
    def by_class(self) -> bool:
        return self.moments.kind == "class"

    @classmethod
    def from_aggregator(cls, aggregator: BaseAggregator) -> Self:
        method = super().from_aggregator(aggregator)
        if method.C == "auto":
            raise ValueError(
                f"C={method.C!r} does not go with privacy: a strength that is chosen "
                "by noisy sums follows the noise. Set it to a number, or 'members'."
            )
        return method

    def model_of(self, moments: ClassMoments, classes: np.ndarray) -> dict[str, object]:
        C = 1.0 if isinstance(self.C, str) else float(self.C)
        likelihood = None
        if moments.n_features > _MOST_COLUMNS:
            form = PooledForm(kind="lda", parameters={"solver": "lsqr"})
            W, _ = form.fit(moments, classes)
        else:
            n_classes = len(classes)
            node = NodeLoss(moments=moments, columns=np.arange(n_classes))
            likelihood = Likelihood.uncorrected([node], n_classes, C=C)
            likelihood, W = likelihood.bounded(tol=_TOLERANCE)
            W = likelihood.to_rows(W)
        return {
            **linear_attributes(W),
            "pooled_form_": PooledForm(kind=None, reason=NOISE),
            "likelihood_": likelihood,
            "C_": None if likelihood is None else C,
            "_factor": 1.0,
            "candidates_": None,
            "fine_tuning_": None,
            "spaces_": None,
            "intersection_": None,
        }
