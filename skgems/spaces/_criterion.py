# SPDX-License-Identifier: BSD-3-Clause
"""Criteria: what it means that a model is good enough on a node's rows."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..moments import mean_log_loss
from ._accuracy import AccuracyProfile, accuracy_profile
from ._loss import LossProfile, loss_profile
from ._metric import Metric
from ._registered import Registered, resolve


@dataclass(frozen=True)
class Criterion(Registered, ABC):
    """Base of what models are judged by.

    Attributes
    ----------
    name : str
        What it is called in parameters and messages.
    greater_is_better : bool
        Whether a model must reach epsilon, or stay below it.
    largest : float
        Largest epsilon that means anything; the smallest is 0.
    ignores_scale : bool
        Whether a factor on all logits changes no score.
    counts_classes : bool
        Whether each class changes scores by being there. If not, one may stand for all
        that no row is of.

    See Also
    --------
    Accuracy, LogLoss : The criteria there are.
    """

    name: ClassVar[str]
    greater_is_better: ClassVar[bool]
    largest: ClassVar[float]
    ignores_scale: ClassVar[bool] = False
    counts_classes: ClassVar[bool] = True

    @abstractmethod
    def score(self, logits: np.ndarray, y: np.ndarray) -> float:
        """Score of a model.

        Parameters
        ----------
        logits : ndarray of shape (n_samples, n_classes)
        y : ndarray of shape (n_samples,), int
            Column of each row's label.

        Returns
        -------
        score : float
        """

    @abstractmethod
    def auto_epsilon(self, score: float) -> float:
        """Epsilon where the user leaves it open, from what the node's model scores."""

    @abstractmethod
    def profile(
        self, X, y, center, metric: Metric, *, scale: float, **options
    ) -> AccuracyProfile | LossProfile:
        """Radius of the space for every epsilon.

        Parameters
        ----------
        X : {ndarray, csr_matrix} of shape (n_rows, n_features)
            Rows of the node, float32 or float64; products are done in their type.
        y : ndarray of int of shape (n_rows,)
            Output column of each row's label.
        center : ndarray of shape (n_features + 1, n_outputs)
            Parameters of the node's model, the intercepts in the last row.
        metric : DiagonalMetric or GramMetric
            Measures the distance.
        scale : float
            The model's probabilities are the softmax of ``scale`` times its logits.
        **options
            ``outputs`` (mask of those compared), ``construction``, ``n_directions`` and
            ``random_state``, as of `build_space`.
        """


@dataclass(frozen=True)
class Accuracy(Criterion):
    """Share of the rows that are right: at least epsilon.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.spaces import Accuracy
    >>> Accuracy().score(np.array([[0.0, 1.0], [0.0, 1.0]]), np.array([1, 0]))
    0.5
    """

    name = "accuracy"
    greater_is_better = True
    largest = 1.0
    ignores_scale = True
    counts_classes = False

    def score(self, logits, y):
        """Share of rows whose largest logit is their label's."""
        return float(np.mean(np.argmax(logits, axis=1) == y))

    def auto_epsilon(self, score):
        """Half of the accuracy."""
        return 0.5 * score

    def profile(self, X, y, center, metric, *, scale, **options):
        """See `accuracy_profile`; a scale of the logits changes no label."""
        return accuracy_profile(X, y, center, metric, **options)


@dataclass(frozen=True)
class LogLoss(Criterion):
    """Mean negative log-probability of the labels, in nats: at most epsilon.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.spaces import LogLoss
    >>> round(LogLoss().score(np.zeros((1, 2)), np.array([1])), 3)
    0.693
    """

    name = "log_loss"
    greater_is_better = False
    largest = np.inf

    def score(self, logits, y):
        """See `skgems.moments.mean_log_loss`."""
        return mean_log_loss(logits, y)

    def auto_epsilon(self, score):
        """Twice the log-loss."""
        return 2.0 * score

    def profile(self, X, y, center, metric, *, scale, **options):
        """See `loss_profile`."""
        return loss_profile(X, y, center, metric, logit_scale=scale, **options)


CRITERIA = {criterion.name: criterion for criterion in (Accuracy(), LogLoss())}


def as_criterion(criterion) -> Criterion:
    """The criterion of a word or object; a ValueError or TypeError for others."""
    return resolve(criterion, CRITERIA, Criterion)
