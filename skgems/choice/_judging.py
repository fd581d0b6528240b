"""Candidates made of one half of every node's rows and judged by the other."""

from collections.abc import Mapping
from dataclasses import dataclass
from operator import itemgetter
from time import perf_counter

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import make_pipeline

from ..base import PUBLIC_NAME, BaseAggregator, silenced, warn_user
from ..compat import safe_indexing
from ..federation import halves_of
from ..local import fit_local, indices_of, keeps_learning, net_seed, to_logits
from ..moments import INDEX_OF_FACTOR_ONE, LOGIT_FACTORS, told_losses
from ..networks import unwrap
from ..pooled import PooledTransformer
from ..progress import say, tracked
from ..tasks import losses_of
from ._choice import Choice, line_of, smallest_of_the_best

# With fewer rows than these, an accuracy of 0.9 has a standard error above 2 points,
# which is more than most candidates differ by.
_FEW_ROWS = 200


@dataclass(frozen=True, eq=False)
class Candidate:
    """An unfitted aggregator, and the transformers that stand before it."""

    name: str
    aggregator: BaseAggregator
    steps: tuple[BaseEstimator, ...] = ()
    of_members: bool = False  # whether it needs the fitted estimators

    @property
    def is_tempered(self) -> bool:
        """Whether its logits can be multiplied by a factor after the fit."""
        return getattr(self.aggregator, "_can_temper", False)

    @property
    def whole(self) -> BaseAggregator:
        """A clone of the aggregator that has the transformers as its front."""
        aggregator = clone(self.aggregator)
        if not self.steps:
            return aggregator
        front = self.steps[0] if len(self.steps) == 1 else make_pipeline(*self.steps)
        return aggregator.set_params(front=clone(front))


@dataclass(frozen=True, kw_only=True, eq=False)
class _Judgement:
    """What the rows of one half say of a candidate made of the other half."""

    is_right: np.ndarray  # (n_held_out,) of bool
    losses: np.ndarray  # (n_factors,), summed over these rows
    n_bytes: int  # that nodes sent for it


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
        members: list[tuple[str, BaseEstimator]] | None,
    ) -> None:
        self.y = y
        self.nodes = nodes
        self.held_out = held_out
        self.rows = np.flatnonzero(held_out)
        self.members = members
        self._rows_and_bytes: dict[tuple, tuple] = {(): (X, 0)}

    def judge(self, candidate: Candidate) -> _Judgement:
        """Fit a candidate to the other half, and score it on this one."""
        with silenced():
            X, n_bytes_of_steps = self._behind(candidate.steps)
            aggregator = clone(candidate.aggregator)
            if candidate.of_members:
                aggregator.set_params(estimators=self.members)
            aggregator.fit(X, self.y, nodes=self.nodes, held_out=self.held_out)
            proba = aggregator.predict_proba(safe_indexing(X, self.rows))
        codes = indices_of(self.y[self.rows], aggregator.classes_)
        return _Judgement(
            is_right=proba.argmax(axis=1) == codes,
            losses=losses_of(to_logits(proba), codes),
            n_bytes=n_bytes_of_steps + _n_bytes_received(aggregator),
        )

    def forget(self, steps: tuple, later: list[Candidate]) -> None:
        """Let go of the rows behind some steps that no later candidate begins with."""
        if not any(candidate.steps[: len(steps)] == steps for candidate in later):
            self._rows_and_bytes.pop(steps, None)

    def _behind(self, steps: tuple) -> tuple:
        """All rows behind some steps, and the bytes that nodes sent for these."""
        if steps not in self._rows_and_bytes:
            X, n_bytes = self._behind(steps[:-1])
            has_sums = hasattr(steps[-1], "as_front")
            front = steps[-1] if has_sums else PooledTransformer(steps[-1])
            front = clone(front).fit(X, nodes=self.nodes, held_out=self.held_out)
            n_bytes += _n_bytes_received(front)
            self._rows_and_bytes[steps] = (front.transform(X), n_bytes)
        return self._rows_and_bytes[steps]


def _n_bytes_received(fitted: BaseEstimator) -> int:
    return sum(message["bytes_received"] for message in fitted.history_)


def choose(
    tried: list[Candidate],
    X,
    y: np.ndarray,
    owners: Mapping[str, np.ndarray],
    *,
    members: list[tuple[str, BaseEstimator]] | None = None,
) -> Choice:
    """Judge candidates by the rows of nodes; later candidates are larger models.

    ``owners`` has the indices of each node's rows, by the node's name.
    """
    nodes = np.full(len(y), PUBLIC_NAME, dtype=object)
    for name, rows in owners.items():
        nodes[rows] = name
    half_of_row = halves_of(owners, y)  # -1 where a row neither learns nor judges
    n_rows = int(np.sum(half_of_row >= 0))
    table = [new_entry(candidate) for candidate in tried]
    is_right = np.zeros((len(tried), len(y)))
    losses = np.zeros((len(tried), len(LOGIT_FACTORS)))
    for half in (0, 1):
        held_out = half_of_row == half
        refitted = None
        if members is not None:
            # Members know their own rows by heart, so they would look too good on
            # these: clones learn from the other half, as candidates do.
            refitted = _refitted(members, X, y, owners, learning=~held_out)
        judges = _HeldOutHalf(X, y, nodes, held_out=held_out, members=refitted)
        description = f"candidates, half {half + 1} of 2"
        for k, candidate in tracked(enumerate(tried), description, len(tried)):
            judgement = _timed_judgement(judges, candidate, table[k])
            judges.forget(candidate.steps, tried[k + 1 :])
            if judgement is not None:
                is_right[k, judges.rows] = judgement.is_right
                losses[k] += judgement.losses
            if half == 1:
                if judgement is not None:
                    table[k]["accuracy"] = is_right[k].sum() / n_rows
                    table[k] |= loss_and_factor(candidate, losses[k] / n_rows)
                say(line_of(table[k]))
    able = np.flatnonzero([not entry["error"] for entry in table])
    n_both_right = is_right[able] @ is_right[able].T
    return choice_among(table, able, n_both_right=n_both_right, n_rows=n_rows)


def _timed_judgement(
    judges: _HeldOutHalf, candidate: Candidate, entry: dict
) -> _Judgement | None:
    """A judgement, whose cost the entry gets; None for a candidate that fails."""
    if entry["error"]:
        return None
    start = perf_counter()
    judgement = None
    try:
        judgement = judges.judge(candidate)
        entry["bytes"] += judgement.n_bytes
    except (ValueError, TypeError) as failure:
        entry["error"] = str(failure)
    entry["seconds"] += perf_counter() - start
    return judgement


def choice_among(
    table: list[dict],
    able: np.ndarray,
    *,
    n_both_right: np.ndarray,
    n_rows: int,
) -> Choice:
    """The choice among the candidates that could be made.

    Parameters
    ----------
    table : list of dict
        An entry for each candidate, as in `Choice.table`; standard errors are added.
    able : ndarray of int of shape (n_able,)
        Indices of the candidates that could be made.
    n_both_right : ndarray of shape (n_able, n_able)
        How many rows two of these both label right; how many one does, in the diagonal.
    n_rows : int
        How many rows judged.
    """
    failures = _failures(table)
    if not len(able):
        reasons = [f"{names}: {reason}" for reason, names in failures.items()]
        raise ValueError(f"No candidate can be made. {' '.join(reasons)}")
    able_entries = [table[k] for k in able]
    log_losses = [entry["log_loss"] for entry in able_entries]
    place, errors = smallest_of_the_best(n_both_right, n_rows, log_losses)
    for entry, error in zip(able_entries, errors, strict=True):
        entry["standard_error"] = float(error)
    best = able_entries[place]
    doubts = []
    if n_rows < _FEW_ROWS:
        doubts.append(f"only {n_rows} rows judged")
    surest = min(able_entries, key=itemgetter("log_loss"))
    if best["log_loss"] > 2 * surest["log_loss"]:
        doubts.append(
            f"its probabilities are worse than those of {surest['name']!r}: "
            f"log-loss {best['log_loss']:.2f} to {surest['log_loss']:.2f}"
        )
    for reason, names in failures.items():
        doubts.append(f"these candidates could not be made: {names}. {reason}")
    return Choice(
        name=best["name"], table=tuple(table), n_rows=n_rows, doubts=tuple(doubts)
    )


def _failures(table: list[dict]) -> dict[str, list[str]]:
    """Names of candidates that could not be made, by the reason, as a sentence."""
    failures: dict[str, list[str]] = {}
    for entry in table:
        if entry["error"]:
            reason = entry["error"].rstrip(".")
            reason = f"{reason[:1].upper()}{reason[1:]}."
            failures.setdefault(reason, []).append(entry["name"])
    return failures


def new_entry(candidate: Candidate) -> dict:
    """A candidate's entry in the table of a choice, before it is judged."""
    return {
        "name": candidate.name,
        "looks_at_members": candidate.of_members,
        "accuracy": None,
        "log_loss": None,
        "factor": None,
        "standard_error": None,
        "bytes": 0,
        "seconds": 0.0,
        "error": "",
    }


def _refitted(
    members: list[tuple[str, BaseEstimator]],
    X,
    y: np.ndarray,
    owners: Mapping[str, np.ndarray],
    *,
    learning: np.ndarray,
) -> list[tuple[str, BaseEstimator]]:
    """Clones of the members, each fitted to the rows of its node that are learning."""
    refitted = []
    for name, member in members:
        rows = owners[name][learning[owners[name]]]
        classifier = clone(unwrap(member))
        if keeps_learning(classifier):
            warn_user(
                f"The module of node {name!r} is an object, which keeps what it learnt "
                "when it is cloned: rows that judge it are rows that it knows. Give "
                "NeuralNetClassifier the module's class."
            )
        seed = net_seed(classifier, np.random.RandomState(0))
        classes = np.unique(y[rows])
        classifier = fit_local(
            classifier, safe_indexing(X, rows), y[rows], classes=classes, seed=seed
        )
        refitted.append((name, classifier))
    return refitted


def loss_and_factor(candidate: Candidate, losses: np.ndarray) -> dict[str, float]:
    """The mean log-loss of a candidate, and the factor on its logits that it has.

    ``losses`` are the mean log-losses under each of `LOGIT_FACTORS`.
    """
    # Nodes do not tell losses under factors that make a model too steep.
    losses = told_losses(losses)
    best = int(np.argmin(losses)) if candidate.is_tempered else INDEX_OF_FACTOR_ONE
    return {"log_loss": float(losses[best]), "factor": float(LOGIT_FACTORS[best])}
