"""Candidates made of one half of every node's rows and judged by the other."""

from collections.abc import Mapping
from dataclasses import dataclass
from operator import itemgetter
from time import perf_counter

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from ..base import PUBLIC_NAME, BaseAggregator, silenced, warn_user
from ..compat import safe_indexing
from ..federation import AS_IT_IS, FACTORS, halves_of, losses_of
from ..local import fit_local, indices_of, keeps_learning, net_seed, to_logits
from ..networks import unwrap
from ..pooled import PooledTransformer
from ..progress import say, tracked
from ._choice import Choice, line_of, smallest_of_the_best

_FEW_ROWS = 200


@dataclass(frozen=True, eq=False)
class Candidate:
    """An aggregator that is not fitted, by name; transformers that are before it."""

    name: str
    aggregator: BaseAggregator
    steps: tuple = ()
    of_members: bool = False  # whether it needs the fitted estimators

    @property
    def is_tempered(self) -> bool:
        return getattr(self.aggregator, "_can_temper", False)

    @property
    def whole(self) -> BaseAggregator:
        own = clone(self.aggregator)
        if not self.steps:
            return own
        front = self.steps[0] if len(self.steps) == 1 else make_pipeline(*self.steps)
        return own.set_params(front=clone(front))


def choose(
    tried: list[Candidate],
    X,
    y,
    owners: Mapping[str, np.ndarray],
    *,
    members=None,
) -> Choice:
    """Judge candidates by the rows of nodes; later ones are larger."""
    # Members know their own rows by heart: clones are fitted to half of the rows too.
    nodes = np.full(len(y), PUBLIC_NAME, dtype=object)
    for name, rows in owners.items():
        nodes[rows] = name
    halves = halves_of(owners, y)
    n_rows = int(np.sum(halves >= 0))
    table = [entry_of(own) for own in tried]
    hits = np.zeros((len(tried), len(y)))
    losses = np.zeros((len(tried), len(FACTORS)))
    for half in (0, 1):
        rows, own_members = np.flatnonzero(halves == half), None
        if members is not None:
            own_members = _refitted(members, X, y, owners, halves != half)
        prepared = _Prepared(X, nodes, halves == half)
        shown, what = enumerate(tried), f"candidates, half {half + 1} of 2"
        for k, candidate in tracked(shown, what, len(tried)):
            entry, start = table[k], perf_counter()
            if not entry["error"]:
                try:
                    given = candidate, own_members, y, rows, prepared, entry
                    hits[k, rows], lost = _judged(*given)
                    losses[k] += lost
                except (ValueError, TypeError) as failure:
                    entry["error"] = str(failure)
            entry["seconds"] += perf_counter() - start
            prepared.forget(candidate.steps, tried[k + 1 :])
            if half and not entry["error"]:
                entry["accuracy"] = hits[k].sum() / n_rows
                entry |= loss_and_factor(candidate, losses[k] / n_rows)
            if half:
                say(line_of(entry))
    able = np.flatnonzero([not entry["error"] for entry in table])
    return chosen(table, able, hits[able] @ hits[able].T, n_rows)


def chosen(table: list[dict], able, both, n_rows: int) -> Choice:
    """The choice among those that could be made, whose right rows ``both`` counts."""
    failures = _failures(table)
    if not len(able):
        reasons = [f"{names}: {reason}" for reason, names in failures.items()]
        raise ValueError(f"No candidate can be made. {' '.join(reasons)}")
    made, doubts = [table[k] for k in able], []
    losses = [entry["log_loss"] for entry in made]
    place, errors = smallest_of_the_best(both, n_rows, losses)
    for entry, error in zip(made, errors, strict=True):
        entry["standard_error"] = float(error)
    own = made[place]
    if n_rows < _FEW_ROWS:
        doubts.append(f"only {n_rows} rows judged")
    surest = min(made, key=itemgetter("log_loss"))
    if own["log_loss"] > 2 * surest["log_loss"]:
        worse = f"its probabilities are worse than those of {surest['name']!r}"
        two = f"{own['log_loss']:.2f} to {surest['log_loss']:.2f}"
        doubts.append(f"{worse}: log-loss {two}")
    for reason, names in failures.items():
        doubts.append(f"these candidates could not be made: {names}. {reason}")
    return Choice(own["name"], tuple(table), n_rows, tuple(doubts))


def _failures(table: list[dict]) -> dict[str, list[str]]:
    """Names of candidates that could not be made, by the reason, as a sentence."""
    failures: dict[str, list[str]] = {}
    for entry in table:
        if entry["error"]:
            reason = entry["error"].rstrip(".")
            reason = f"{reason[:1].upper()}{reason[1:]}."
            failures.setdefault(reason, []).append(entry["name"])
    return failures


def entry_of(candidate: Candidate) -> dict:
    own = {"name": candidate.name, "looks_at_members": candidate.of_members}
    own |= dict.fromkeys(("accuracy", "log_loss", "factor", "standard_error"))
    return own | {"bytes": 0, "seconds": 0.0, "error": ""}


def _refitted(members, X, y, owners, kept: np.ndarray) -> list:
    found = []
    for name, member in members:
        rows, own = owners[name][kept[owners[name]]], clone(unwrap(member))
        if keeps_learning(own):
            warn_user(
                f"The module of node {name!r} is an object, which keeps what it learnt "
                "when it is cloned: rows that judge it are rows that it knows. Give "
                "NeuralNetClassifier the module's class."
            )
        given = safe_indexing(X, rows), y[rows], np.unique(y[rows])
        seed = net_seed(own, np.random.RandomState(0))
        found.append((name, fit_local(own, *given, seed)))
    return found


class _Prepared:
    """Rows after transformers, which are fitted once for all that begin alike."""

    def __init__(self, X, nodes, held_out: np.ndarray) -> None:
        self.known = {(): (X, 0)}
        self.fit = {"nodes": nodes, "held_out": held_out}

    def after(self, steps: tuple) -> tuple:
        """All rows after some steps, and the bytes that nodes sent for these."""
        if steps not in self.known:
            X, n_bytes = self.after(steps[:-1])
            pooled = hasattr(steps[-1], "as_front")
            front = steps[-1] if pooled else PooledTransformer(steps[-1])
            front = clone(front).fit(X, **self.fit)
            n_bytes += sum(message["bytes_received"] for message in front.history_)
            self.known[steps] = front.transform(X), n_bytes
        return self.known[steps]

    def forget(self, steps: tuple, later: list[Candidate]) -> None:
        if not any(own.steps[: len(steps)] == steps for own in later):
            self.known.pop(steps, None)


def loss_and_factor(candidate: Candidate, losses: np.ndarray) -> dict:
    """The mean log-loss of a candidate, and the factor on its logits that it has."""
    # Nodes do not tell losses under factors that make a model too steep.
    losses = np.where(np.isnan(losses), np.inf, losses)
    best = int(np.argmin(losses)) if candidate.is_tempered else AS_IT_IS
    return {"log_loss": float(losses[best]), "factor": float(FACTORS[best])}


def _judged(candidate, members, y, rows, prepared, entry) -> tuple:
    with silenced():
        X, n_bytes = prepared.after(candidate.steps)
        aggregator = clone(candidate.aggregator)
        if candidate.of_members:
            aggregator.set_params(estimators=members)
        aggregator.fit(X, y, **prepared.fit)
        proba = aggregator.predict_proba(safe_indexing(X, rows))
    sent = (message["bytes_received"] for message in aggregator.history_)
    entry["bytes"] += n_bytes + sum(sent)
    codes = indices_of(y[rows], aggregator.classes_)
    return proba.argmax(axis=1) == codes, losses_of(to_logits(proba), codes)
