"""The signature of ``fit``, which has ``sample_weight`` where rows can have weights.

scikit-learn reads the signature to decide whether an estimator takes weights.
"""

from collections.abc import Callable
from functools import wraps
from inspect import Signature, signature
from types import MethodType

from sklearn.base import BaseEstimator


def _signature_without_weights(fit: Callable) -> Signature:
    """Return the signature of a function without its parameter `sample_weight`."""
    parameters = signature(fit).parameters
    return Signature(
        [p for name, p in parameters.items() if name != "sample_weight"],
        return_annotation=signature(fit).return_annotation,
    )


class WeightsIf:
    """A ``fit`` that shows `sample_weight` if the estimator is made of sums.

    Otherwise it still takes the argument, to say why it cannot be used.
    """

    def __init__(
        self, fit: Callable, takes_weights: Callable[[BaseEstimator], bool]
    ) -> None:
        @wraps(fit)
        def fit_without_weights(*args: object, **kwargs: object) -> object:
            return fit(*args, **kwargs)

        fit_without_weights.__signature__ = _signature_without_weights(fit)  # type: ignore[attr-defined]
        self.fit = fit
        self.fit_without_weights = fit_without_weights
        self.takes_weights = takes_weights
        self.__doc__ = fit.__doc__

    def __get__(self, estimator: BaseEstimator | None, owner: type) -> Callable:
        """Return the function of the class, or the method of an estimator."""
        if estimator is None:
            return self.fit
        if self.takes_weights(estimator):
            return MethodType(self.fit, estimator)
        return MethodType(self.fit_without_weights, estimator)


def weights_if(takes_weights: Callable[[BaseEstimator], bool]) -> Callable:
    """Decorate ``fit``: it shows `sample_weight` where the condition is true."""
    return lambda fit: WeightsIf(fit, takes_weights)
