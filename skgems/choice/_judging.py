"""Candidates in this process: made of one half of the rows, and judged by the other.

`choose` does here what `choose_over` does over a channel. The halves (`halves_of`), the
losses under several factors (`losses_of`), the table and the rule by which a candidate
is taken (`Trials`) are the same. How the models of halves are made and judged is not,
and cannot be without loss:

- Candidates of members, as a stack of trees, are made of classifiers of any kind. No
  message holds these, so that no request has members judge them. Whether one candidate
  is better than another shows on the rows that both label right, so that candidates of
  rows have to be judged beside them, row by row, and not by the counts of a reply.
- Here each half has a front of its own, fitted without the rows that judge, as the
  front of a fit is without the rows that come later. Over a channel this would take
  each message about fronts twice; there one front is of all rows, without their labels.
- Here any score can be made of what was predicted of a row (``_scoring.py``).
- Here a candidate that is far behind after one half is not made of this half. Over a
  channel nodes make the sums of both halves for all candidates in one message.
- Nodes round counts and losses, so that they tell no single row. Here nothing is told.
"""

from collections.abc import Callable, Mapping

import numpy as np
from sklearn.base import clone
from sklearn.kernel_approximation import RBFSampler
from sklearn.metrics import get_scorer
from sklearn.utils.validation import has_fit_parameter

from ..base import PUBLIC_NAME, BaseAggregator, NodePairs, warn_user
from ..compat import safe_indexing, tracked
from ..disclosure import Disclosure
from ..local import fit_local, indices_of, keeps_learning, net_seed, to_logits
from ..moments import LOGIT_FACTORS
from ..networks import unwrap
from ..parties import halves_of
from ..pooled import PooledTransformer
from ..steps import RandomFeatures
from ..tasks import losses_of, losses_of_rows
from ._choice import FEW_ROWS, Candidate, Choice, Trials, n_bytes_received
from ._scoring import (
    ACCURACY,
    LOG_LOSS,
    ROC_AUC,
    ClassShares,
    Comparison,
    Predicted,
    by_counts,
    by_groups,
    by_row_losses,
    by_rows,
    name_of,
    paired_errors,
    resolved,
    row_areas,
    score_and_replicates,
)

# Steps behind which each row has hundreds of features. These are drawn at random, so
# that a millionth of their size says nothing; as float32 they and their sums take half
# of the time, and accuracies and log-losses have the same digits that a table shows.
_MANY_FEATURES = (RandomFeatures, RBFSampler)
# Numbers of float32 have seven digits, of which four are left for differences.
_MOST_DEVIATIONS = 1000
# A candidate that is behind the best by more than so many standard errors on the first
# half is not fitted to it, to be judged by the second. Of fewer rows errors say little.
_ERRORS_BEHIND = 3.0


class _HeldOutHalf:
    """Rows of one half, which judge candidates that are made of the other half.

    Rows behind transformers are kept, so that candidates which begin with the same
    transformers share their fits.
    """

    def __init__(
        self,
        X,  # all rows, of any form
        y: np.ndarray,  # (n_rows,)
        nodes: np.ndarray,  # (n_rows,), names of the rows' nodes
        *,
        held_out: np.ndarray,  # (n_rows,) of bool
        n_rows: int,  # of both halves
        groups: np.ndarray | None = None,  # (n_rows,)
        members: NodePairs | None,
    ) -> None:
        self.y = y
        self.nodes = nodes
        self.held_out = held_out
        self.rows = np.flatnonzero(held_out)
        self.n_rows = n_rows
        self.groups = groups
        self.members = members
        self._rows_and_bytes: dict[tuple, tuple] = {(): (X, 0)}

    def judge(self, candidate: Candidate) -> tuple[Predicted, int]:
        """Fit a candidate to the other half: what it predicts of the rows of this one.

        The other is how many bytes nodes sent for it.
        """
        # Of all candidates it is the same.
        disclosure = candidate.aggregator.disclosure
        X, n_bytes_of_steps = self._behind(candidate.steps, disclosure=disclosure)
        if candidate.rows_per_column:  # rows may be documents, which have no columns
            candidate.check_has_rows(n_rows=self.n_rows, n_columns=X.shape[1])
        aggregator = clone(candidate.aggregator)
        if candidate.of_members:
            aggregator.set_params(estimators=self.members)
        fit_rows(
            aggregator,
            X,
            self.y,
            nodes=self.nodes,
            held_out=self.held_out,
            groups=self.groups,
        )
        X_judging = safe_indexing(X, self.rows)
        if candidate.is_tempered:
            # The factor is one on these, and probabilities of 0 and 1 hide them.
            logits = _two_or_more_columns(aggregator.decision_function(X_judging))
        else:
            logits = to_logits(aggregator.predict_proba(X_judging))
        return (
            Predicted(aggregator.classes_, logits),
            n_bytes_of_steps + n_bytes_received(aggregator),
        )

    def forget(self, steps: tuple, later: list[Candidate]) -> None:
        """Let go of the rows behind some steps that no later candidate begins with."""
        if not any(candidate.steps[: len(steps)] == steps for candidate in later):
            self._rows_and_bytes.pop(steps, None)

    def _behind(self, steps: tuple, *, disclosure: Disclosure | str | None) -> tuple:
        """All rows behind some steps, and the bytes that nodes sent for these."""
        if steps not in self._rows_and_bytes:
            X, n_bytes = self._behind(steps[:-1], disclosure=disclosure)
            if isinstance(steps[-1], _MANY_FEATURES) and _has_float32_digits(X):
                X = X.astype(np.float32)
            has_sums = hasattr(steps[-1], "as_front")
            front = steps[-1] if has_sums else PooledTransformer(steps[-1])
            front = clone(front)
            if "disclosure" in front.get_params(deep=False):
                front.set_params(disclosure=disclosure)
            front.fit(X, nodes=self.nodes, held_out=self.held_out)
            n_bytes += n_bytes_received(front)
            self._rows_and_bytes[steps] = (front.transform(X), n_bytes)
        return self._rows_and_bytes[steps]


def fit_rows(
    aggregator: BaseAggregator,
    X,
    y: np.ndarray,
    *,
    nodes: np.ndarray,
    held_out: np.ndarray | None = None,
    groups: np.ndarray | None = None,
) -> None:
    """Fit an aggregator to rows in this process, with groups if its fit has any use."""
    if groups is not None and has_fit_parameter(aggregator, "groups"):
        aggregator.fit(X, y, nodes=nodes, held_out=held_out, groups=groups)
    else:
        aggregator.fit(X, y, nodes=nodes, held_out=held_out)


def _has_float32_digits(X) -> bool:
    """Report whether float32 tells the differences of rows in all columns."""
    if not isinstance(X, np.ndarray) or X.dtype != np.float64:
        return False
    largest = np.abs(X).max(axis=0, initial=0.0)
    return bool((largest <= _MOST_DEVIATIONS * X.std(axis=0)).all())


def choose(
    tried: list[Candidate],
    X,
    y: np.ndarray,
    owners: Mapping[str, np.ndarray],
    *,
    groups: np.ndarray | None = None,
    members: NodePairs | None = None,
    scoring: str | Callable = ACCURACY,
    can_take_shares: bool = False,
) -> Choice:
    """Judge candidates by the rows of nodes; later candidates are larger models.

    ``owners`` has the indices of each node's rows, by the node's name. Rows of one of
    the ``groups``, numbers (n_rows,), are in the same half. Where all
    candidates have a larger log-loss than the class shares, these are taken if
    ``can_take_shares``: then the name of the choice is `CLASS_SHARES`.
    """
    nodes = _names_of_owners(owners, n_rows=len(y))
    # -1 where a row neither learns nor judges.
    half_of_row = halves_of(owners, y, groups)
    n_judging = {
        name: int(np.sum(half_of_row[rows] >= 0)) for name, rows in owners.items()
    }
    _, class_sizes = np.unique(y[half_of_row >= 0], return_counts=True)
    trials = Trials(tried)
    scores = _Scores(
        resolved(scoring, class_sizes),
        X,
        y,
        groups=groups,
        half_of_row=half_of_row,
        n_tried=len(tried),
    )
    for half in (0, 1):
        held_out = half_of_row == half
        refitted = None
        if members is not None:
            # Members know their own rows by heart, so they would look too good on
            # these: clones learn from the other half, as candidates do.
            with trials.making_of_members():
                refitted = _refitted(members, X, y, owners, learning=~held_out)
        judges = _HeldOutHalf(
            X,
            y,
            nodes,
            held_out=held_out,
            n_rows=sum(n_judging.values()),
            groups=groups,
            members=refitted,
        )
        description = f"candidates, half {half + 1} of 2"
        for k, candidate in tracked(enumerate(tried), description, len(tried)):
            if k in trials.able:
                with trials.making(k) as entry:
                    predicted, n_bytes = judges.judge(candidate)
                    scores.add(k, half, predicted)
                    entry["bytes"] += n_bytes
            judges.forget(candidate.steps, tried[k + 1 :])
            if half == 1 and k in trials.able:
                trials.enter(
                    k,
                    n_right=scores.is_right[k].sum(),
                    losses=scores.losses[k],
                    n_rows=sum(n_judging.values()),
                )
                with trials.making(k) as entry:
                    scores.finish(k, factor=entry["factor"])
        if half == 0:
            for k in scores.far_behind(trials.able):
                trials.leave_behind(
                    k,
                    n_right=scores.is_right[k].sum(),
                    losses=scores.losses[k],
                    n_rows=int(np.sum(half_of_row == 0)),
                )
    trials.check_able()
    return _choice_by(
        scores,
        trials,
        n_judging=n_judging,
        shares=ClassShares.from_counts(_counts_of_halves(y, half_of_row)),
        can_take_shares=can_take_shares,
    )


def _choice_by(
    scores: "_Scores",
    trials: Trials,
    *,
    n_judging: Mapping[str, int],
    shares: ClassShares,
    can_take_shares: bool,
) -> Choice:
    """The choice when all candidates are entered."""
    # Whoever names another score, such as the area under the ROC curve, may not need
    # probabilities.
    if scores.scoring in (ACCURACY, LOG_LOSS):
        trials.leave_out_below(shares, may_be_all=can_take_shares)
        if not trials.able:
            return trials.choice_of_shares(
                shares, scoring=scores.scoring, n_judging=n_judging
            )
    comparison = scores.compare(trials.able, trials.log_losses())
    return trials.choice(comparison, n_judging=n_judging, shares=shares)


def _names_of_owners(owners: Mapping[str, np.ndarray], *, n_rows: int) -> np.ndarray:
    """The name of each row's node, or that of public rows: (n_rows,)."""
    nodes = np.full(n_rows, PUBLIC_NAME, dtype=object)
    for name, rows in owners.items():
        nodes[rows] = name
    return nodes


def _counts_of_halves(y: np.ndarray, half_of_row: np.ndarray) -> np.ndarray:
    """Count the rows of each class in either half: (2, n_classes)."""
    labels, codes = np.unique(y, return_inverse=True)
    return np.stack(
        [
            np.bincount(codes[half_of_row == half], minlength=len(labels))
            for half in (0, 1)
        ]
    )


class _Scores:
    """What rows say of each candidate, as far as the score that decides needs it."""

    def __init__(
        self,
        scoring: str | Callable,
        X,  # all rows, of any form
        y: np.ndarray,  # (n_rows,)
        *,
        groups: np.ndarray | None,  # (n_rows,)
        half_of_row: np.ndarray,  # (n_rows,), -1 where a row does not judge
        n_tried: int,
    ) -> None:
        self.scoring = scoring
        self.scorer = None
        if scoring not in (ACCURACY, LOG_LOSS, ROC_AUC):
            self.scorer = get_scorer(scoring)
        self.X = X
        self.y = y
        self.groups = groups
        self.half_of_row = half_of_row
        self.is_right = np.zeros((n_tried, len(y)))
        self.losses = np.zeros((n_tried, len(LOGIT_FACTORS)))  # summed over rows
        # By candidate: scores of each row, or of all rows and without groups of them.
        self._scores: dict[int, np.ndarray] = {}
        # By candidate and half, until both are there and the factor is known.
        self._predicted: dict[tuple[int, int], Predicted] = {}

    def add(self, k: int, half: int, predicted: Predicted) -> None:
        """Take what a candidate, made of the other half, predicts of this one."""
        if np.isnan(predicted.logits).any():
            raise ValueError("its decision values for some rows are not numbers (NaN)")
        rows = np.flatnonzero(self.half_of_row == half)
        codes = indices_of(self.y[rows], predicted.classes_)
        self.is_right[k, rows] = predicted.logits.argmax(axis=1) == codes
        self.losses[k] += losses_of(predicted.logits, codes)
        if self.scoring != ACCURACY:
            self._predicted[k, half] = predicted

    def finish(self, k: int, *, factor: float) -> None:
        """Score a candidate of which both halves are there, by tempered logits."""
        if self.scoring == ACCURACY:
            return
        of_halves = []
        shares = []
        for half in (0, 1):
            rows = np.flatnonzero(self.half_of_row == half)
            predicted = self._predicted.pop((k, half))
            tempered = Predicted(predicted.classes_, factor * predicted.logits)
            of_halves.append(self._scores_of_half(tempered, rows))
            shares.append(len(rows))
        if self.scorer is None:
            self._scores[k] = np.concatenate(of_halves)
        else:
            self._scores[k] = np.average(of_halves, axis=0, weights=shares)

    def _scores_of_half(self, predicted: Predicted, rows: np.ndarray) -> np.ndarray:
        y = self.y[rows]
        if self.scorer is not None:
            X = safe_indexing(self.X, rows)
            groups = None if self.groups is None else self.groups[rows]
            return score_and_replicates(self.scorer, predicted, X, y, groups=groups)
        codes = indices_of(y, predicted.classes_)
        if self.scoring == LOG_LOSS:
            return losses_of_rows(predicted.logits, codes)
        return row_areas(predicted.logits, codes, y)

    def far_behind(self, able: list[int]) -> list[int]:
        """Candidates that are hardly taken any more, once the first half has judged.

        They are behind the best by so many standard errors of the difference. To be
        taken they would have to be before it on the second half, by more than 1.5: if
        both are equally good, that comes in less than one case of ten thousand.
        """
        rows = np.flatnonzero(self.half_of_row == 0)
        groups = None if self.groups is None else self.groups[rows]
        n_independent = len(rows) if groups is None else len(np.unique(groups))
        if not able or self.scoring != ACCURACY:
            return []
        if n_independent < FEW_ROWS:
            return []
        is_right = self.is_right[able][:, rows]
        best = is_right.sum(axis=1).argmax()
        differences = is_right[best] - is_right
        errors = paired_errors(is_right, best, groups=groups)
        is_behind = differences.mean(axis=1) > _ERRORS_BEHIND * errors
        return [k for k, behind in zip(able, is_behind, strict=True) if behind]

    def compare(self, able: list[int], log_losses: list[float]) -> Comparison:
        """The comparison of the candidates that could be made."""
        # Scores of rows of the first half come before those of the second.
        rows = [np.flatnonzero(self.half_of_row == half) for half in (0, 1)]
        groups = None if self.groups is None else self.groups[np.concatenate(rows)]
        if self.scoring == ACCURACY:
            is_right = self.is_right[able][:, np.concatenate(rows)]
            if groups is None:
                counts = is_right @ is_right.T
                return by_counts(counts, is_right.shape[1], log_losses)
            return by_rows(is_right, log_losses, scoring=ACCURACY, groups=groups)
        scores = np.array([self._scores[k] for k in able])
        if self.scorer is not None:
            return by_groups(scores, log_losses, scoring=name_of(self.scoring))
        if self.scoring == LOG_LOSS:
            return by_row_losses(scores, groups=groups)
        return by_rows(scores, log_losses, scoring=self.scoring, groups=groups)


def _two_or_more_columns(scores: np.ndarray) -> np.ndarray:
    """Logits with one column a class, of which the mean in each row is 0."""
    if scores.ndim == 1:
        return np.stack([-0.5 * scores, 0.5 * scores], axis=1)
    return scores - scores.mean(axis=1, keepdims=True)


def _refitted(
    members: NodePairs,
    X,
    y: np.ndarray,
    owners: Mapping[str, np.ndarray],
    *,
    learning: np.ndarray,
) -> NodePairs:
    """Clones of the members, each fitted to the rows of its node that are learning."""
    refitted = NodePairs()
    for name, member in members:
        rows = owners[name][learning[owners[name]]]
        classifier = clone(unwrap(member))
        if keeps_learning(classifier):
            warn_user(
                f"The module of node {name!r} is an object, which keeps its trained "
                "weights when the net is cloned. The candidate is then judged on rows "
                "that it was trained on. Pass the class of the module to "
                "NeuralNetClassifier instead."
            )
        seed = net_seed(classifier, np.random.RandomState(0))
        classes = np.unique(y[rows])
        classifier = fit_local(
            classifier, safe_indexing(X, rows), y[rows], classes=classes, seed=seed
        )
        refitted.append((name, classifier))
    return refitted
