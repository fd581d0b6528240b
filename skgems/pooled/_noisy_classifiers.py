"""Classifiers of PooledAggregator that are made of sums with noise."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import RidgeClassifier

from ..asking import NOISE, NoisyMethod, check_goes_with_noise
from ..base import BaseAggregator
from ..moments import ClassMoments, PooledForm
from ._chosen_classifier import classifier_named
from ._classifiers import fit_to_sums, tells_one_scatter

_CLASSIFIERS = (LinearDiscriminantAnalysis, RidgeClassifier)


@dataclass(frozen=True, eq=False, kw_only=True)
class NoisyPooledMethod(NoisyMethod):
    """The classifier of PooledAggregator, made of sums with noise."""

    classifier: ClassifierMixin  # not fitted

    @classmethod
    def from_aggregator(cls, aggregator: BaseAggregator) -> Self:
        """Read the parameters; classifiers of nodes are set aside."""
        privacy = aggregator._parameter("privacy")
        pooled = aggregator.pooled
        if isinstance(pooled, str):
            pooled = classifier_named(pooled)
        elif pooled is None:
            pooled = LinearDiscriminantAnalysis()
        check_is_made_of_noisy_sums(pooled, privacy.sorted_classes())
        check_goes_with_noise(aggregator, privacy)
        return cls(privacy=privacy, classifier=pooled)

    def model_of(self, moments: ClassMoments, classes: np.ndarray) -> dict[str, object]:
        fitted, _ = fit_to_sums(self.classifier, moments, classes)
        form = PooledForm(
            kind=type(fitted).__name__, parameters=fitted.get_params(), reason=NOISE
        )
        return {"pooled_form_": form, "_fitted": fitted, "_used": None}


def check_is_made_of_noisy_sums(
    classifier: ClassifierMixin, classes: np.ndarray
) -> None:
    """Raise ValueError for a classifier that needs other sums than have noise."""
    if type(classifier) not in _CLASSIFIERS:
        raise ValueError(
            f"pooled={classifier!r} needs other sums than nodes tell with noise. With "
            "privacy, set pooled= to LinearDiscriminantAnalysis() or RidgeClassifier()."
        )
    if not tells_one_scatter(classifier, classes):
        raise ValueError(
            f"pooled={classifier!r} weighs classes, for which it needs a matrix of "
            "each. With privacy nodes tell one of all classes: leave its priors and "
            "class_weight at None."
        )
