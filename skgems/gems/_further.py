"""Further messages: the sum of all nodes' losses is descended, by their replies."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_random_state

from ..compat import Interval, StrOptions
from ..moments import Descent, Likelihood, NodeLoss
from ..progress import say

# Lengths of the step that each message tries; where none is lower, next ones shrink so.
_LENGTHS, _SHORTER = (0.25, 0.5, 1.0, 2.0), 0.0625
# What a step moves logits by, at most, in root mean squares of theirs.
_FARTHEST = 10.0
# Candidates that differ in how much of what Gaussians miss is corrected.
SHARES = {"share 0": 0.0, "share 1/2": 0.5, "share 1": 1.0}
CANDIDATES = (*SHARES, "lda", "consensus", "average")
OF_MODELS = {"consensus", "average"}  # are made of the nodes' own models
# A candidate is taken that is better by more standard errors of paired rows.
_SURE = 2.0


class Rounds(BaseEstimator):
    """Messages that the likeliest linear model is made of: how many, and about what.

    Parameters
    ----------
    n : int, default=1
        Messages, that of moments included; ``n_rounds=5`` stands for ``Rounds(5)``.
    tol : float, default=1e-6
        Messages end where the gradient promises to lower the loss by less nats a row.
    candidates : str or sequence of str, default=()
        Models tried in message 2, too, and taken if better by two standard errors of
        paired rows: of "share 0", "share 1/2", "share 1" (how much of what moments miss
        of the nodes' gradients is corrected), "lda", "consensus" and "average".
    participation : float in (0, 1], default=1.0
        Share of nodes that further messages ask, at random; others' last replies stand.

    Examples
    --------
    >>> from skgems import GEMSLogisticAggregator
    >>> from skgems.gems import Rounds
    >>> agg = GEMSLogisticAggregator(n_rounds=Rounds(5, tol=1e-4))
    >>> agg.set_params(n_rounds__candidates="lda").n_rounds
    Rounds(candidates='lda', n=5, tol=0.0001)
    """

    _parameter_constraints = {
        "n": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "candidates": [StrOptions(set(CANDIDATES)), "array-like"],
        "participation": [Interval(Real, 0, 1, closed="right")],
    }

    def __init__(self, n=1, *, tol=1e-6, candidates=(), participation=1.0):
        self.n = n
        self.tol = tol
        self.candidates = candidates
        self.participation = participation


def as_rounds(rounds) -> Rounds:
    rounds = Rounds(rounds) if isinstance(rounds, Integral) else clone(rounds)
    rounds._validate_params()
    names = rounds.candidates
    names = (names,) if isinstance(names, str) else tuple(names)
    unknown = [name for name in names if name not in CANDIDATES]
    if unknown:
        raise ValueError(f"candidates must be of {list(CANDIDATES)}, got {unknown}.")
    if names and rounds.n == 1:
        what = "set n of Rounds to 2 at least, or leave candidates empty"
        raise ValueError(f"candidates are put to the nodes in message 2: {what}.")
    return rounds.set_params(candidates=tuple(dict.fromkeys(names)))


@dataclass(frozen=True)
class Candidates:
    """Models that were put to the nodes beside the likeliest, and how they did.

    Attributes
    ----------
    names : list of str
        The likeliest first.
    losses, gains, standard_errors : list of float
        Log-loss in the mean over all rows that judge, in nats; how much lower it is
        than that of the likeliest, and the standard error of that, over paired rows.
    chosen : str
        Of those that gain more than two standard errors the best; else the likeliest.
    optimistic : bool
        Whether models are made of the rows that judged.
    """

    names: list
    losses: list
    gains: list
    standard_errors: list
    chosen: str
    optimistic: bool


@dataclass(frozen=True, eq=False)
class Further:
    W: np.ndarray  # the model, on rows less the origin of the moments
    likelihood: Likelihood  # as steep at the model as the nodes' losses are
    messages: list  # for each "objective" and "accuracy" of the model kept after it
    candidates: Candidates | None = None


def with_further(history: list, further, messages: slice = slice(None)) -> list[dict]:
    """A history with "objective" and "accuracy", of further messages not None."""
    found = iter(further.messages if further is not None else [])
    none = dict.fromkeys(("objective", "accuracy"))
    told = [entry | none for entry in history]
    for entry in told[messages]:
        if entry["task"] == "evaluate":
            entry |= next(found, none)
    return told


def further_plan(state: "NodesSum", candidates, rounds, seed) -> Generator:
    """Plan whose result is Further: descend the sum of losses, which never rises."""
    likelihood = state.likelihood
    share, rng = rounds.participation, check_random_state(seed)
    everyone = share == 1.0
    names, models = list(candidates), list(candidates.values())
    replies = yield state.requests(models, share, rng)
    found = state.compared(models, replies)
    report, first = None, 0
    if len(names) > 1:
        report = found.candidates(names)
        first = names.index(report.chosen)
        say(f"candidate {report.chosen!r} of {len(names)}")
    W = models[first]
    found.keep(first)
    value, gradient = state.total(W)
    messages = [found.message(first, value)]
    # Of nodes that are not asked moments alone tell: full steps would go by these.
    damping = min(share, 2.0 * share**2)
    descent, reach = Descent(likelihood), damping
    while len(messages) < rounds.n - 1:
        direction = descent.direction(W, gradient)
        # Where the loss is flat, as of a model that is too sure, it may be endless.
        far = likelihood.logit_size(direction)
        far /= _FARTHEST * max(likelihood.logit_size(W), 1.0)
        direction = direction / max(far, 1.0)
        promise = -np.vdot(gradient, direction) / 2.0 / likelihood.n_rows
        if promise < rounds.tol:
            break
        models = [W + reach * length * direction for length in _LENGTHS]
        if not everyone:  # others may be asked than those who judged it
            models.insert(0, W)
        replies = yield state.requests(models, share, rng)
        found = state.compared(models, replies, W)
        best = found.best(others_may_lose=not everyone)
        seen = len(models) - len(_LENGTHS) if best is None else best
        descent = descent.after(models[seen] - W, found.change(seen))
        if best is not None:
            W, reach = models[best], damping
        else:
            reach *= _SHORTER
        if best is not None or not everyone:
            found.keep(best or 0)
        value, gradient = state.total(W)
        messages.append(found.message(best, value))
        now = messages[-1]["objective"]
        say(f"message {len(messages) + 1}: {now:.5f} nats a row")
    return Further(W, likelihood.with_gradient(W, gradient), messages, report)


@dataclass(eq=False)
class NodesSum:
    """The sum of all nodes' losses, as far as they have replied."""

    likelihood: Likelihood
    node_losses: Sequence[NodeLoss]
    weights: np.ndarray  # (n_nodes,), how often the rows of each count
    among: Any  # the nodes, as Asked
    # Model, loss and gradient of each node's last reply; nodes that failed.
    last: dict[int, tuple] = field(default_factory=dict)
    left_out: set[int] = field(default_factory=set)
    terms: dict[int, tuple] = field(default_factory=dict)
    asked: list[int] = field(default_factory=list)
    accuracy: float = np.nan  # of the model that is kept, by those who judged it

    def requests(self, models: list[np.ndarray], share: float, rng) -> dict:
        names, among = self.among.names, self.among
        # Drawn by name: the order of nodes must not matter.
        left = sorted(set(range(len(names))) - self.left_out, key=names.__getitem__)
        n_asked = max(1, round(share * len(left)))
        self.asked = sorted(left[i] for i in rng.permutation(len(left))[:n_asked])
        columns = np.flatnonzero(self.likelihood.seen)
        W = np.stack([self.likelihood.to_rows(own)[:, columns] for own in models])
        weights = self.likelihood.loss.class_weight

        def own(node):
            seen = np.intersect1d(node.row_columns, columns)
            counts = None if weights is None else weights[seen]
            own = {"columns": np.searchsorted(columns, seen), "class_weights": counts}
            return among.labels(seen) | own

        some = replace(among, nodes=[among.nodes[k] for k in self.asked])
        common = {"W": W, "factors": np.ones(1), "gradient": True, "of": "learning"}
        return some.messages("evaluate", own, **common)

    def compared(self, models, replies, at: np.ndarray | None = None) -> "_Compared":
        """What came back of some models; `at` is the one that is kept so far."""
        index = {self.among.nodes[k].name: k for k in self.asked}
        found = _Compared(self, models, at)
        for name, reply in replies:
            k, content = index[name], reply.content
            gradients = np.zeros((len(models), *models[0].shape))
            on_rows = map(self.likelihood.gradient_from_rows, content["gradient"])
            gradients[:, :, self.likelihood.seen] = list(on_rows)
            losses = self.weights[k] * content["losses"][:, 0]
            gradients *= self.weights[k]
            found.steep |= np.isnan(losses)
            for j in np.flatnonzero(np.isnan(gradients).any(axis=(1, 2))):
                # Moments stand in for what is not sent.
                expected, gradients[j] = self.estimated(models[j], {k})
                losses[j] = expected if np.isnan(losses[j]) else losses[j]
            found.losses[k], found.gradients[k] = losses, gradients
            found.judged.append(content.get("held_out", content))
            found.optimistic |= "held_out" not in content
        self.left_out |= set(self.asked) - set(found.losses)
        return found

    def total(self, W: np.ndarray) -> tuple[float, np.ndarray]:
        exact = {k: last for k, (model, *last) in self.last.items() if model is W}
        return self.sums(W, exact)[1:]

    def sums(self, W: np.ndarray, replies: dict) -> tuple[float, float, np.ndarray]:
        """Losses, with the penalty, of those who replied and of all; gradient."""
        own, gradient = self.likelihood.penalty(W)
        own += sum(loss for loss, _ in replies.values())
        others = set(range(len(self.among.nodes))) - set(replies)
        more, slope = self.estimated(W, others)
        gradient = gradient + slope + sum(there for _, there in replies.values())
        return own, own + more, gradient

    def estimated(self, W: np.ndarray, nodes: set[int]) -> tuple[float, np.ndarray]:
        """Loss and gradient of nodes by their moments, as in the last reply."""
        if not nodes:
            return 0.0, np.zeros_like(W)
        value, gradient = self.likelihood.expected(W, sorted(nodes))
        for k in nodes:
            if k not in self.terms and k in self.last:
                model, loss, there = self.last[k]
                expected, slope = self.likelihood.expected(model, [k])
                slope = there - slope
                self.terms[k] = loss - expected - np.vdot(slope, model), slope
            elif k not in self.terms:
                slope, _ = self.likelihood.at_own_model(k, self.node_losses[k])
                self.terms[k] = 0.0, slope
            constant, slope = self.terms[k]
            value, gradient = value + constant + np.vdot(slope, W), gradient + slope
        return value, gradient


class _Compared:
    def __init__(self, state: NodesSum, models: list, at: np.ndarray | None) -> None:
        self.state, self.models, self.at = state, models, at
        self.losses, self.gradients = {}, {}  # arrays by index of the node
        self.judged, self.optimistic = [], False
        # Models whose logits are too large for a node to say anything.
        self.steep = np.zeros(len(models), dtype=bool)

    def _judged(self, name: str):
        return sum(content[name] for content in self.judged)

    def keep(self, chosen: int) -> None:
        for k in self.losses:
            self.state.last[k] = self.models[chosen], *self._reply(k, chosen)
            self.state.terms.pop(k, None)

    def best(self, *, others_may_lose: bool) -> int | None:
        """The model of the lowest sum that is lower than the one kept so far."""
        found = [self._sums(W, j)[:2] for j, W in enumerate(self.models)]
        own, sums = np.array(found).T
        own_at, at, _ = self._sums(self.at, None)
        lower = np.isfinite(sums) & (sums < at) & ~self.steep
        if not others_may_lose:  # than those who do not answer any more
            lower &= own <= own_at
        if not lower.any():
            return None
        return int(np.argmin(np.where(lower, sums, np.inf)))

    def _sums(self, W: np.ndarray, j: int | None) -> tuple[float, float, np.ndarray]:
        return self.state.sums(W, {k: self._reply(k, j) for k in self.losses})

    def _reply(self, k: int, j: int | None) -> tuple[float, np.ndarray]:
        if j is not None:
            return self.losses[k][j], self.gradients[k][j]
        model, *last = self.state.last.get(k, (None,))
        if model is self.at:
            return tuple(last)
        return self.losses[k][0], self.gradients[k][0]  # it was put to them again

    def change(self, j: int) -> np.ndarray:
        """Of the gradient of the sum, from the model kept so far to another."""
        return self._sums(self.models[j], j)[2] - self._sums(self.at, None)[2]

    def message(self, kept: int | None, value: float) -> dict:
        """The message in the history; ``kept`` is None if no model of it is."""
        if kept is not None:
            right = self._judged("right")[kept]
            self.state.accuracy = float(right / self._judged("count"))
        objective = float(value / self.state.likelihood.n_rows)
        return {"objective": objective, "accuracy": self.state.accuracy}

    def candidates(self, names: list[str]) -> Candidates:
        count = self._judged("count")
        losses = self._judged("losses")[:, 0] / count
        squares = self._judged("squared_gains") / count
        gains = losses[0] - losses
        errors = np.sqrt(np.maximum(squares - gains**2, 0.0) / count)  # NaN: too steep
        sure = gains > _SURE * errors
        chosen = int(np.argmin(np.where(sure, losses, np.inf))) if sure.any() else 0
        found = [own.tolist() for own in (losses, gains, errors)]
        return Candidates(names, *found, names[chosen], self.optimistic)
