"""The search for the likeliest model while spaces push it back."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ..moments import Likelihood
from ..spaces import GoodEnoughSpace, diagonal, mean_matrix

# Takes a model and returns a value and its gradient.
Loss = Callable[[np.ndarray], tuple[float, np.ndarray]]


@dataclass(frozen=True, eq=False, kw_only=True)
class _SearchedModel:
    """A model on rows less the origin, with its loss in nats and the gradient."""

    W: np.ndarray
    on_rows: np.ndarray  # the same model on rows as they are
    value: float
    gradient: np.ndarray

    @classmethod
    def evaluate(cls, likelihood: Likelihood, W: np.ndarray) -> "_SearchedModel":
        """Return a model with its value and gradient, and as it is on rows."""
        value, gradient = likelihood.value_and_gradient(W)
        return cls(W=W, on_rows=likelihood.to_rows(W), value=value, gradient=gradient)


class BoundedSearch:
    """The search for the likeliest model that is pushed back into spaces.

    Each minimization is of a coarser likelihood, with the gradient of the likelihood
    itself where it starts. In spaces these stay similar, and what is left of their
    difference goes with one minimization after the other. Where they are not, and the
    loss rises, the likelihood itself is minimized from then on.
    """

    def __init__(
        self, likelihood: Likelihood, spaces: Sequence[GoodEnoughSpace]
    ) -> None:
        self._likelihood = likelihood
        self._spaces = spaces
        self._is_coarser_similar = True
        self._last: _SearchedModel | None = None

    def minimize(
        self, start: np.ndarray, extra: Loss, forces: Sequence[float]
    ) -> np.ndarray:
        """Minimize the likelihood's loss and ``extra(W)``, of models on rows.

        ``extra`` returns a value and its gradient. ``forces`` say how strongly each
        space pushes: its second derivatives precondition the search.
        """
        likelihood = self._likelihood
        origin = likelihood.loss.moments.origin

        def extra_on_centred_rows(W: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = extra(likelihood.to_rows(W))
            # Intercepts on rows less the origin o are b + o @ w.
            gradient[:-1] -= np.outer(origin, gradient[-1])
            return value, gradient

        curvature = self._curvature(forces)
        if self._is_coarser_similar:
            before = self._model_at(start)
            coarser = likelihood.coarser.with_gradient(before.W, before.gradient)
            W = coarser.minimize(before.W, extra_on_centred_rows, curvature=curvature)
            found = self._last = _SearchedModel.evaluate(likelihood, W)
            lowered = found.value + extra_on_centred_rows(found.W)[0]
            if lowered <= before.value + extra_on_centred_rows(before.W)[0]:
                return found.on_rows
            self._is_coarser_similar = False
        W = likelihood.from_rows(start)
        W = likelihood.minimize(W, extra_on_centred_rows, curvature=curvature)
        return likelihood.to_rows(W)

    def _model_at(self, start: np.ndarray) -> "_SearchedModel":
        """A model on rows, with its loss: that of the last search, mostly."""
        if self._last is not None and start is self._last.on_rows:
            return self._last
        return _SearchedModel.evaluate(
            self._likelihood, self._likelihood.from_rows(start)
        )

    def _curvature(self, forces: Sequence[float]) -> np.ndarray | float:
        """Approximate the second derivatives of the terms that push into spaces."""
        moments = self._likelihood.loss.moments
        second_derivatives = diagonal if moments.is_diagonal else mean_matrix
        return sum(
            2.0 * force * second_derivatives(space.metric, moments.origin)
            for space, force in zip(self._spaces, forces, strict=True)
            if force > 0
        )
