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
- Nodes round counts and losses, so that they tell no single row. Here nothing is told.
"""

from collections.abc import Mapping

import numpy as np
from sklearn.base import BaseEstimator, clone

from ..base import PUBLIC_NAME, warn_user
from ..compat import safe_indexing
from ..federation import halves_of
from ..local import fit_local, indices_of, keeps_learning, net_seed, to_logits
from ..moments import LOGIT_FACTORS
from ..networks import unwrap
from ..pooled import PooledTransformer
from ..progress import tracked
from ..tasks import losses_of
from ._choice import Candidate, Choice, Trials, n_bytes_received


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

    def judge(self, candidate: Candidate) -> tuple[np.ndarray, np.ndarray, int]:
        """Fit a candidate to the other half: which rows of this one it labels right.

        The others are its losses under each factor, summed over these rows, and the
        bytes that nodes sent for it.
        """
        X, n_bytes_of_steps = self._behind(candidate.steps)
        aggregator = clone(candidate.aggregator)
        if candidate.of_members:
            aggregator.set_params(estimators=self.members)
        aggregator.fit(X, self.y, nodes=self.nodes, held_out=self.held_out)
        proba = aggregator.predict_proba(safe_indexing(X, self.rows))
        codes = indices_of(self.y[self.rows], aggregator.classes_)
        return (
            proba.argmax(axis=1) == codes,
            losses_of(to_logits(proba), codes),
            n_bytes_of_steps + n_bytes_received(aggregator),
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
            n_bytes += n_bytes_received(front)
            self._rows_and_bytes[steps] = (front.transform(X), n_bytes)
        return self._rows_and_bytes[steps]


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
    n_judging = {
        name: int(np.sum(half_of_row[rows] >= 0)) for name, rows in owners.items()
    }
    trials = Trials(tried)
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
            if k in trials.able:
                with trials.making(k) as entry:
                    is_right[k, held_out], losses_of_half, n_bytes = judges.judge(
                        candidate
                    )
                    losses[k] += losses_of_half
                    entry["bytes"] += n_bytes
            judges.forget(candidate.steps, tried[k + 1 :])
            if half == 1 and k in trials.able:
                trials.enter(
                    k,
                    n_right=is_right[k].sum(),
                    losses=losses[k],
                    n_rows=sum(n_judging.values()),
                )
    is_right = is_right[trials.able]
    return trials.choice(n_both_right=is_right @ is_right.T, n_judging=n_judging)


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
