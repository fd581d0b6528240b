"""A fit of DistillationAggregator: all of it but scikit-learn's protocol."""

import warnings
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier
from sklearn.utils import check_random_state

from ..asking import read_federation
from ..base import (
    BaseAggregator,
    as_own_warnings,
    named_members,
    seeded_clone,
    split_by_state,
    validated_rows_for_fit,
)
from ..compat import safe_indexing, say
from ..local import local_model, net_seed
from ..parties import Federation, as_mask, check_feature_names
from ._given_rows import Rows, rows_as_given
from ._kept_thresholds import common_threshold
from ._students import fit_to_probabilities
from ._votes import Vote, ensemble_weights

# Two classes of a row tie if their probabilities differ by less. Rounding differs by
# processor: a student of nodes of one class each had exact ties in 73 of 200 rows.
_TIE = 1e-9


@dataclass(frozen=True, eq=False, kw_only=True)
class DistillationRows:
    """The nodes, and the rows about which their ensemble is asked."""

    federation: Federation
    teaching: Rows  # that the student is fitted to
    scoring: Rows | None  # that are held out; None if there are none

    @classmethod
    def read(
        cls,
        aggregator: BaseAggregator,
        X: Rows,
        *,
        y: ArrayLike | None,
        nodes: ArrayLike | None,
        held_out: ArrayLike | None,
        groups: ArrayLike | None,
    ) -> Self:
        """Read what ``fit`` of the aggregator is given; fits members in simulation."""
        without_labels = y is None and nodes is None
        if without_labels and _has_fitted_members(aggregator):
            federation, X = _read_rows_without_labels(aggregator, X)
        else:
            federation = read_federation(
                aggregator,
                X,
                y,
                nodes,
                held_out,
                groups=groups,
            )
            X = federation.X
        is_teaching = np.full(X.shape[0], not federation.has_public_rows)
        is_teaching[federation.public_rows] = True
        scoring = None
        if held_out is not None:
            mask = as_mask(held_out, X)
            if mask.any():
                scoring = safe_indexing(X, np.flatnonzero(mask))
                is_teaching &= ~mask
        if not is_teaching.any():
            raise ValueError(
                "held_out marks all rows that the student could be fitted to. Hold out "
                "fewer rows."
            )
        if not is_teaching.all():
            X = safe_indexing(X, np.flatnonzero(is_teaching))
        return cls(federation=federation, teaching=X, scoring=scoring)


@dataclass(frozen=True, eq=False, kw_only=True)
class DistillationFit:
    """The parameters of a distillation, with the seeds that are drawn for it.

    See DistillationAggregator for what each parameter means.
    """

    student: BaseEstimator  # not fitted
    is_default_student: bool
    student_seed: int | None  # of a torch module
    voting: str
    node_weight: ArrayLike  # a word, or (n_nodes,)
    tie_seed: int
    n_jobs: int | None

    @classmethod
    def from_aggregator(cls, aggregator: BaseAggregator) -> Self:
        """Draw all seeds, which is done before rows are read.

        Members of a simulation are fitted as rows are read, and their seeds come from
        the same source.
        """
        rng = check_random_state(aggregator.random_state)
        tie_seed = rng.randint(2**31 - 1)
        is_default_student = aggregator.student is None
        student = MLPClassifier() if is_default_student else aggregator.student
        student = seeded_clone(student, rng)
        return cls(
            student=student,
            is_default_student=is_default_student,
            student_seed=net_seed(student, rng),
            voting=aggregator.voting,
            node_weight=aggregator.node_weight,
            tie_seed=tie_seed,
            n_jobs=aggregator.n_jobs,
        )

    def attributes(self, rows: DistillationRows) -> dict[str, object]:
        """Fit the student and compare it with the nodes; return the attributes."""
        federation = rows.federation
        self._check_student_takes(rows.teaching)
        weights, history = ensemble_weights(federation, self.node_weight, self.n_jobs)
        vote = Vote(
            models=[node.model for node in federation.nodes],
            classes=federation.classes,
            weights=weights,
            voting=self.voting,
            tie_seed=self.tie_seed,
        )
        proba = vote.probabilities(rows.teaching)
        threshold = None  # in a hard vote each classifier has its own
        if self.voting == "soft":
            threshold = common_threshold(federation, weights)
        student = self._fitted_student(rows.teaching, proba, federation.classes)
        if rows.scoring is None:
            judged_rows = rows.teaching
        else:
            judged_rows = rows.scoring
            proba = vote.probabilities(judged_rows)
        model = local_model(student, name="student")
        student_proba = model.probabilities(judged_rows, federation.classes)
        is_same = (_are_most_probable(student_proba) & _are_most_probable(proba)).any(
            axis=1
        )
        agreement = float(np.mean(is_same))
        say(f"the student agrees on {agreement:.3f} of {judged_rows.shape[0]} rows")
        return {
            **federation.attributes(),
            "weights_": weights,
            "history_": history,
            "threshold_": threshold,
            "student_": student,
            "agreement_": agreement,
        }

    def _check_student_takes(self, X: Rows) -> None:
        if self.is_default_student and rows_as_given(X) is not None:
            raise ValueError(
                "X holds texts, which student=None, an MLPClassifier, does not take: "
                "pass a student that does, such as make_pipeline(HashingVectorizer(), "
                "LogisticRegression()) of documents."
            )

    def _fitted_student(
        self, X: Rows, proba: np.ndarray, classes: np.ndarray
    ) -> BaseEstimator:
        """The student of rows and their probabilities (n_rows, n_classes)."""
        with as_own_warnings():
            if self.is_default_student:
                # The default's 200 epochs are few for few rows, but enough.
                warnings.simplefilter("ignore", ConvergenceWarning)
            return fit_to_probabilities(
                self.student, X, proba, classes=classes, seed=self.student_seed
            )


def _are_most_probable(proba: np.ndarray) -> np.ndarray:
    """Report which classes are the most probable ones of a row, several if they tie.

    The shape is that of ``proba``, (n_rows, n_classes).
    """
    return proba >= proba.max(axis=1, keepdims=True) - _TIE


def _has_fitted_members(aggregator: BaseAggregator) -> bool:
    if aggregator.estimators is None:
        return False
    names, members = named_members(aggregator.estimators, aggregator._get_param_names())
    return bool(split_by_state(names, members))


def _read_rows_without_labels(
    aggregator: BaseAggregator, X: Rows
) -> tuple[Federation, Rows]:
    """The nodes of fitted members, and rows of which nothing but X is given."""
    federation = read_federation(aggregator)
    X, features = validated_rows_for_fit(aggregator, X)
    n_features = federation.features.n_features_in
    if n_features not in (None, features.n_features_in):
        raise ValueError(
            f"X has {features.n_features_in or 'no'} features, but the local "
            f"estimators were fitted on {n_features} features."
        )
    networks = [node.network for node in federation.nodes]
    check_feature_names(federation.names, networks, features.feature_names_in)
    features = features.with_names_of_nodes(
        network.feature_names_in for network in networks
    )
    return replace(federation, features=features), X
