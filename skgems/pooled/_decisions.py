"""Decisions of a pooled classifier, and the factor that makes them less sure."""

from collections.abc import Callable
from dataclasses import replace
from functools import wraps

import numpy as np
from scipy.sparse import issparse
from sklearn.discriminant_analysis import (
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
)
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..base import BaseAggregator, warn_user


def _delegated(name: str) -> Callable | property:
    """A method of the aggregate that is the classifier's own, if that has it."""

    def classifier_has_it(aggregator: BaseAggregator) -> bool:
        # Before fit the classifier that is to be made says what there will be.
        fitted = getattr(aggregator, "_fitted", None)
        classifier = fitted or aggregator._method().classifier
        return hasattr(classifier, name)

    @wraps(getattr(BaseAggregator, name))
    def method(self, X) -> np.ndarray:
        check_is_fitted(self)
        X = _used_features(self, self._validate(X, reset=False))
        if issparse(X) and not get_tags(self._fitted).input_tags.sparse:
            X = X.toarray()
        return getattr(self._fitted, name)(X)

    # Every classifier predicts.
    return method if name == "predict" else available_if(classifier_has_it)(method)


def _used_features(aggregator: BaseAggregator, X: np.ndarray) -> np.ndarray:
    """Return rows without the features that nodes drop by name."""
    used = getattr(aggregator, "_used", None)
    return X if used is None else X[:, used]


class PooledDecisionsMixin:
    """Mixin of PooledAggregator: decisions, which are those of its classifier."""

    predict = _delegated("predict")
    predict_proba = _delegated("predict_proba")
    decision_function = _delegated("decision_function")

    def _logits(self, X: np.ndarray) -> np.ndarray:
        X = _used_features(self, X)
        if not hasattr(self._fitted, "decision_function"):  # trees
            smallest = np.finfo(np.float64).tiny
            return np.log(np.maximum(self._fitted.predict_proba(X), smallest))
        scores = self._fitted.decision_function(X)
        return scores if scores.ndim > 1 else np.stack([0 * scores, scores], axis=1)

    @property
    def _can_temper(self) -> bool:
        return isinstance(
            self._method().classifier,
            LinearDiscriminantAnalysis | QuadraticDiscriminantAnalysis,
        )

    def _temper(self, factor: float) -> None:
        """Multiply decision values of a discriminant analysis, which is too sure."""
        if isinstance(self._fitted, QuadraticDiscriminantAnalysis):
            is_tempered = _temper_quadratic(self._fitted, factor)
        else:
            self._fitted.coef_ = self._fitted.coef_ * factor
            self._fitted.intercept_ = self._fitted.intercept_ * factor
            is_tempered = True
        if is_tempered:
            self.pooled_form_ = replace(
                self.pooled_form_,
                reason=f"its decision values are multiplied by {factor}",
            )
            self.exact_ = False


def _temper_quadratic(classifier: QuadraticDiscriminantAnalysis, factor: float) -> bool:
    """Multiply its decision values in place; False, and a warning, where it cannot be.

    These are ``log(prior) - (x - m)' inv(V) (x - m) / 2 - log |V| / 2``. Variances V
    over the factor f multiply the distance, but change log |V| by d log f alone, which
    all classes share. So the prior takes what the determinant lacks:
    ``f log(prior) + (1 - f) log |V| / 2``.
    """
    log_determinants = np.array(
        [np.log(scaling).sum() for scaling in classifier.scalings_]
    )
    log_priors = factor * np.log(classifier.priors_)
    log_priors = log_priors + 0.5 * (1.0 - factor) * log_determinants
    if np.ptp(log_priors) > np.log(np.finfo(np.float64).max):
        warn_user(
            "The spreads of the classes differ so much that the probabilities could "
            "not be calibrated. They are those of discriminant analysis, which are too "
            "confident."
        )
        return False
    classifier.priors_ = np.exp(log_priors - log_priors.max())
    classifier.scalings_ = [scaling / factor for scaling in classifier.scalings_]
    return True
