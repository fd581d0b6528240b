"""Linear classifiers that are functions of sums, made of the moments of all rows.

The *form* of such a classifier is its kind with parameters. :meth:`PooledForm.fit`
makes the classifier of moments, and says how exact it is.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from ._class_moments import ClassMoments
from ._class_weights import weights_of
from ._promises import Rounding
from ._rows import ROUNDING_OF_SUMS
from ._solutions import (
    LinearSolution,
    solve_centroids,
    solve_lda,
    solve_ridge_classifier,
)


@dataclass(frozen=True, kw_only=True)
class PooledForm:
    """The classifier of sums, or a reason: none, or rounding above 1e-8 of values."""

    kind: str | None  # "ridge", "lda", "nearest_centroid"; None: no function of sums
    parameters: Mapping = field(default_factory=dict)  # classes by their labels
    reason: str = ""

    @property
    def is_exact(self) -> bool:
        """Report whether labels are those of a fit on all rows, decisions to 1e-8."""
        return self.kind is not None and not self.reason

    @property
    def scatter(self) -> str:
        """Name the scatter that its moments need: "class", "shared" or "diagonal"."""
        if self.kind == "nearest_centroid":
            return "diagonal"
        if self.parameters.get("class_weight") is not None:
            return "class"
        has_priors = self.parameters.get("priors") is not None
        # The solver "svd" takes the covariance of rows as they are, whatever priors.
        if has_priors and self.parameters.get("solver") != "svd":
            return "class"
        return "shared"

    def fit(
        self, moments: ClassMoments, classes: ArrayLike
    ) -> "tuple[np.ndarray, PooledForm]":
        """Weights (n_features + 1, n_classes), and the form with its reason.

        Decision values are ``X @ W[:-1] + W[-1]``. A class may have several parts.
        """
        solution = self.solve(moments, classes)
        return solution.W, self.judged(moments, solution.W, solution.rounding)

    def judged(
        self, moments: ClassMoments, W: np.ndarray, rounding: Rounding
    ) -> "PooledForm":
        """The form with the reason that rounding gives, unless it has one."""
        size = moments.logit_size(W) if np.isfinite(W).all() else 0.0
        return replace(self, reason=self.reason or rounding.reason(size))

    def solve(self, moments: ClassMoments, classes: ArrayLike) -> LinearSolution:
        if self.kind is None:
            raise ValueError(f"The model is not a function of sums: {self.reason}")
        labels = np.asarray(classes).tolist()
        parameters = self._parameters_of(labels)
        needs_scatter = self.kind != "nearest_centroid"
        counts = _counts(moments, len(labels), needs_scatter=needs_scatter)
        if len(labels) == 1:
            return LinearSolution(
                W=np.zeros((moments.n_features + 1, 1)),
                rounding=Rounding(error=0.0),
                attributes={},
            )
        return _SOLVERS[self.kind](moments, counts, **parameters)

    def _parameters_of(self, labels: list) -> dict[str, object]:
        """The parameters with arrays by class in place of pairs of label and value."""
        parameters = dict(self.parameters)
        weights = parameters.get("class_weight")
        if isinstance(weights, list | dict):
            parameters["class_weight"] = weights_of(weights, labels)
        if isinstance(parameters.get("priors"), list):
            prior_by_label = dict(parameters["priors"])
            if set(prior_by_label) != set(labels):
                raise ValueError(
                    f"priors are those of the classes {list(prior_by_label)}, but the "
                    f"rows are of the classes {labels}. Give one prior for each class."
                )
            parameters["priors"] = np.array([prior_by_label[label] for label in labels])
        return parameters


_SOLVERS: Mapping[str, Callable[..., LinearSolution]] = {
    "ridge": solve_ridge_classifier,
    "lda": solve_lda,
    "nearest_centroid": solve_centroids,
}


def _counts(
    moments: ClassMoments, n_classes: int, *, needs_scatter: bool
) -> np.ndarray:
    """Rows of each class; ValueError if one has none, or some rows are in no mean."""
    if needs_scatter and moments.is_diagonal:
        raise ValueError(
            "It needs scatter matrices, and the nodes sent variances of single "
            "features (moments='diagonal'). Set moments='auto'."
        )
    counts = moments.class_counts(n_classes)
    if len(counts) > n_classes:
        raise ValueError(
            f"The moments are of {len(counts)} classes, but {n_classes} classes are "
            "given. Give all classes of the rows."
        )
    empty = np.flatnonzero(counts <= 0)
    if len(empty):
        raise ValueError(
            f"The moments hold no rows of the classes {empty.tolist()}, counted from "
            "0. Leave out classes of which no node has rows."
        )
    total = counts.sum()
    if abs(moments.group_counts.sum() - total) > ROUNDING_OF_SUMS * total:
        raise ValueError(
            "Some rows are in a scatter matrix but in no mean, because their class has "
            "fewer than min_rows rows at a node. So no classifier of all rows can be "
            "made. Have nodes summarize with a Disclosure of a smaller min_rows."
        )
    return counts
