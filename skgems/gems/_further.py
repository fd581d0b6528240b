"""Further messages: the sum of all nodes' losses is descended, by their replies.

The sum is ``f(W) = sum_k v_k L_k(W) + penalty(W)``, L_k the log-loss of the rows of
node k, summed, and v_k how often they count. A message asks the nodes for L_k and its
gradient at a few models; the best of these is kept, so that f never rises, and the next
step goes along a quasi-Newton direction. Nodes that are not asked, or fail, are
estimated by their moments: with E_k(W) the loss that their moments make expected,

    L_k(W)  is about  E_k(W) + c_k + <S_k, W>

where c_k and S_k make value and gradient those of the node's last reply, at the model
that the reply was about.
"""

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from typing import ClassVar, NamedTuple, Self

import numpy as np
from sklearn.utils import check_random_state

from ..asking import MENDS_TAILS, TOL
from ..base import Page, Paragraph, Part, ResultMixin, Table, warn_user
from ..compat import Interval, StrOptions, say
from ..messages import Message
from ..moments import ROUNDING_OF_SUMS, SURE, Descent, Likelihood, NodeLoss
from ..tasks import EvaluateReply, JudgedSums
from ._problem import LinearModels, LinearNode, absorb_constants, gradient_at_constants

# Lengths of the step that each message tries: 1 is that of the quasi-Newton direction.
_LENGTHS = (0.25, 0.5, 1.0, 2.0)
# The same under a rule of disclosure, where nodes tell few gradients: penbased over two
# nodes of other classes gains 0.7 points by it in five messages.
_LENGTHS_UNDER_RULE = (1.0,)
# What a step moves logits by, at most, in root mean squares of theirs. Where the loss
# is flat, as of a model that is too sure, a direction may be endless.
_FARTHEST = 10.0
# Candidates that differ in how much of what Gaussians miss is corrected.
SHARES = {"share 0": 0.0, "share 1/2": 0.5, "share 1": 1.0}
CANDIDATES = (*SHARES, "lda", "consensus", "average")
OF_MODELS = {"consensus", "average"}  # are made of the nodes' own models


class Rounds(Part):
    """Messages that the likeliest linear model is made of: how many, and about what.

    ``n_rounds=5`` stands for ``Rounds(5)``.

    Parameters
    ----------
    n : int, default=1
        Largest number of messages, that of the moments included. More messages bring
        the aggregate closer to ``LogisticRegression`` on all rows.
    tol : float or "auto", default="auto"
        The messages end when the gradient promises to lower the loss by less than this,
        in nats a row. Raise it to stop earlier. "auto" is 1e-6 for up to five messages.
        For more it is 1e-9, since these are asked for to have the model of all rows.
    candidates : str or sequence of str, default=()
        Other models that message 2 tries. The best of them is taken if its loss is
        lower by more than two standard errors of paired rows. Give some of them if
        nodes can hold out rows to judge by.

        - "share 0", "share 1/2", "share 1": the likeliest model, if this share is
          corrected of what moments miss of the nodes' gradients.
        - "lda": linear discriminant analysis, from the moments.
        - "consensus": the model that moves all nodes' models least.
        - "average": the mean of the nodes' models.
    participation : float in (0, 1], default=1.0
        Share of the nodes that each further message asks, drawn at random. Moments and
        last replies stand for the others. Lower it if there are many nodes.

    Examples
    --------
    >>> from skgems import GEMSLogisticAggregator
    >>> from skgems.gems import Rounds
    >>> agg = GEMSLogisticAggregator(n_rounds=Rounds(5, tol=1e-4))
    >>> agg.set_params(n_rounds__candidates="lda").n_rounds
    Rounds(candidates='lda', n=5, tol=0.0001)
    """

    short_forms: ClassVar = [Interval(Integral, 1, None, closed="left")]
    _parameter_constraints: dict = {
        "n": short_forms,
        "tol": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "candidates": [StrOptions(set(CANDIDATES)), "array-like"],
        "participation": [Interval(Real, 0, 1, closed="right")],
    }

    def __init__(self, n=1, *, tol="auto", candidates=(), participation=1.0):
        self.n = n
        self.tol = tol
        self.candidates = candidates
        self.participation = participation

    def _with_objects(self) -> Self:
        """Return these rounds with a tolerance and a tuple of candidates, each once."""
        tol = self.tol
        if tol == "auto":
            # Whoever asks for more messages than mend heavy tails wants the model of
            # all rows. On wine and breast cancer probabilities differ by 5e-5 from the
            # pooled model's after eleven messages, and with TOL by 2e-3 after eight.
            tol = TOL if self.n <= MENDS_TAILS else ROUNDING_OF_SUMS
        names = self.candidates
        names = (names,) if isinstance(names, str) else tuple(names)
        unknown = [name for name in names if name not in CANDIDATES]
        if unknown:
            raise ValueError(
                f"candidates must be among {list(CANDIDATES)}, got {unknown}."
            )
        if names and self.n == 1:
            raise ValueError(
                "nodes judge candidates in message 2. Set n of Rounds to at least 2, "
                "or leave candidates empty."
            )
        return self.set_params(tol=tol, candidates=tuple(dict.fromkeys(names)))


@dataclass(frozen=True, kw_only=True, repr=False)
class Candidates(ResultMixin):
    """The models that message 2 tried beside the likeliest, and how good they were.

    Each list has one entry per model.

    Attributes
    ----------
    names : list of str
        Names of the models. The likeliest model comes first, as "likelihood".
    losses : list of float
        Mean log-loss over all rows that judge, in nats.
    gains : list of float
        By how much the loss is lower than that of the likeliest model, in nats.
    standard_errors : list of float
        Standard error of each gain, over paired rows, in nats.
    chosen : str
        Name of the model that was taken. It is the best of those that gain more than
        two standard errors, and the likeliest model if there is none.
    optimistic : bool
        Whether the models are made of the same rows that judged them, at any node. Then
        the losses are too low.

    Examples
    --------
    Discriminant analysis has the lowest loss on the rows that are held out:

    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skgems import GEMSLogisticAggregator
    >>> from skgems.gems import Rounds
    >>> X, y = load_iris(return_X_y=True)
    >>> nodes, held_out = np.arange(150) % 2, np.arange(150) % 3 == 0
    >>> clfs = [
    ...     LogisticRegression().fit(X[nodes == k], y[nodes == k]) for k in range(2)
    ... ]
    >>> rounds = Rounds(2, candidates=["lda", "average"])
    >>> agg = GEMSLogisticAggregator(clfs, n_rounds=rounds, random_state=0)
    >>> candidates = agg.fit(X, y, nodes=nodes, held_out=held_out).candidates_
    >>> candidates.names, candidates.chosen, candidates.optimistic
    (['likelihood', 'lda', 'average'], 'lda', False)
    >>> np.round(candidates.losses, 2).tolist()
    [0.14, 0.03, 0.05]
    """

    names: list
    losses: list
    gains: list
    standard_errors: list
    chosen: str
    optimistic: bool

    def _page(self) -> Page:
        columns = {
            "model": self.names,
            "log-loss (nats)": self.losses,
            "gain (nats)": self.gains,
            "standard error": self.standard_errors,
        }
        judges = "Rows that did not make the models judged them."
        if self.optimistic:
            judges = (
                "Some rows judged models that were made of them, so losses are too low."
            )
        return Page(
            title=f"Chosen: {self.chosen}",
            parts=[Table.from_columns(columns), Paragraph(text=judges)],
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class Refinement:
    """The model after further messages, and what they showed."""

    W: np.ndarray  # the model, on rows less the origin of the moments
    likelihood: Likelihood  # as steep at the model as the nodes' losses are
    messages: list[dict]  # for each "objective" and "accuracy" of the model kept
    candidates: Candidates | None = None


def with_objectives(
    history: Sequence[Mapping],
    refinement: Refinement | None,
    messages: slice = slice(None),
) -> list[dict]:
    """A history with "objective" and "accuracy", of further messages not None.

    ``messages`` are those of the history among which further messages are looked for.
    """
    unknown = dict.fromkeys(("objective", "accuracy"))
    refined = iter(refinement.messages if refinement is not None else [])
    extended = [{**message, **unknown} for message in history]
    for message in extended[messages]:
        if message["task"] == "evaluate":
            message |= next(refined, unknown)
    return extended


def refinement_plan(
    state: "SumOfLosses",
    *,
    candidates: Mapping[str, np.ndarray],
    rounds: Rounds,
    seed: int | None,
) -> Generator:
    """Plan whose result is a Refinement: descend the sum of losses, which never rises.

    ``candidates`` are models on rows less the origin; the first is the one to begin at
    unless another one is better.
    """
    rng = check_random_state(seed)
    asks_everyone = rounds.participation == 1.0
    names = list(candidates)
    models = list(candidates.values())
    comparison = yield from _compare_plan(state, models, rounds=rounds, rng=rng)
    report = None
    chosen = 0
    if len(names) > 1:
        report = comparison.report(names)
        chosen = names.index(report.chosen)
        say(f"candidate {report.chosen!r} of {len(names)}")
    W = models[chosen]
    comparison.keep(chosen)
    value, gradient = state.total(W)
    messages = [comparison.message(chosen, value)]
    is_blind = asks_everyone and comparison.withholds_all
    if is_blind and rounds.n > 2:
        _warn_of_withheld_gradients(rounds.n)
    # Nodes that are not asked are estimated by their moments alone, which full steps
    # would trust too much.
    damping = min(rounds.participation, 2.0 * rounds.participation**2)
    reach = damping
    descent = Descent(state.likelihood)
    while len(messages) < rounds.n - 1 and not is_blind:
        direction = _bounded_direction(descent, W, gradient)
        # Half of the decrease that the slope alone would give: a quadratic's.
        promise = -np.vdot(gradient, direction) / 2.0 / state.likelihood.n_rows
        if promise < rounds.tol:
            break
        lengths = _LENGTHS if not comparison.has_rule else _LENGTHS_UNDER_RULE
        models = [W + reach * length * direction for length in lengths]
        shortest = 0
        if not asks_everyone:  # others may be asked than those who judged W
            models.insert(0, W)
            shortest = 1
        comparison = yield from _compare_plan(
            state, models, current=W, rounds=rounds, rng=rng
        )
        is_blind = asks_everyone and comparison.withholds_all
        best = comparison.best(replying_nodes_may_lose=not asks_everyone)
        # The best model shows how curved the sum is; without one, the shortest step.
        probed = shortest if best is None else best
        descent = descent.add_step(models[probed] - W, comparison.change(probed))
        if best is not None:
            W = models[best]
            reach = damping
            comparison.keep(best)
        else:
            # The longest of the next message is half of the shortest of this one.
            reach *= _LENGTHS[0] / _LENGTHS[-1] / 2.0
            if not asks_everyone:
                comparison.keep(0)  # W, about which others have replied now
        value, gradient = state.total(W)
        messages.append(comparison.message(best, value))
        objective = messages[-1]["objective"]
        say(f"message {len(messages) + 1}: {objective:.5f} nats a row")
    return Refinement(
        W=W,
        likelihood=state.likelihood.with_gradient(W, gradient),
        messages=messages,
        candidates=report,
    )


def _warn_of_withheld_gradients(n_rounds: int) -> None:
    """Warn of further messages that can add nothing."""
    warn_user(
        f"Messages end after the second, though n_rounds={n_rounds}: no node tells the "
        "gradient of the model on its rows, since under its rule of disclosure too "
        "few rows would be most of it. The model is that of one message. Leave "
        "n_rounds at 1, or pass disclosure=None if single rows may be known."
    )


def _compare_plan(
    state: "SumOfLosses",
    models: Sequence[np.ndarray],
    *,
    rounds: Rounds,
    rng: np.random.RandomState,
    current: np.ndarray | None = None,
) -> Generator:
    """Plan whose result is a Comparison of models by the nodes that are drawn."""
    replies = yield state.requests(models, participation=rounds.participation, rng=rng)
    return state.compare(models, replies, current=current)


def _bounded_direction(
    descent: Descent, W: np.ndarray, gradient: np.ndarray
) -> np.ndarray:
    """The step from W by the descent, shortened where it moves logits too far."""
    direction = descent.direction(W, gradient)
    excess = descent.likelihood.logit_size(direction)
    excess /= _FARTHEST * max(descent.likelihood.logit_size(W), 1.0)
    return direction / max(excess, 1.0)


class _LastReply(NamedTuple):
    """What a node has last replied about the model that was kept then."""

    W: np.ndarray
    loss: float
    gradient: np.ndarray


class _Value(NamedTuple):
    """A sum of losses at a model, and its gradient."""

    loss: float
    gradient: np.ndarray


class _Correction(NamedTuple):
    """What makes the expected loss of a node that of its last reply, c_k and S_k."""

    constant: float
    slope: np.ndarray


class _Sums(NamedTuple):
    """Sums of losses at a model, each with the penalty."""

    of_replying: float  # of the nodes that have replied about the model
    of_all: float  # others are estimated by their moments
    gradient: np.ndarray  # of `of_all`


@dataclass(eq=False, kw_only=True)
class SumOfLosses:
    """The sum of all nodes' losses, as far as they have replied."""

    likelihood: Likelihood
    node_losses: Sequence[NodeLoss]
    weights: np.ndarray  # (n_nodes,), how often the rows of each count
    problem: LinearModels
    # By name of the node: what stands for features that it alone drops by name.
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)
    # The next three by index of the node.
    last_replies: dict[int, _LastReply] = field(default_factory=dict)
    left_out: set[int] = field(default_factory=set)  # nodes that failed
    corrections: dict[int, _Correction] = field(default_factory=dict)
    asked_nodes: list[int] = field(default_factory=list)  # by the last requests
    accuracy: float = np.nan  # of the model that is kept, by those who judged it

    def requests(
        self,
        models: Sequence[np.ndarray],
        *,
        participation: float,
        rng: np.random.RandomState,
    ) -> dict[str, Message]:
        """Ask a share of the nodes, drawn at random, about models."""
        names = self.problem.names
        # Drawn by name: the order of nodes must not matter.
        available = sorted(
            set(range(len(names))) - self.left_out, key=names.__getitem__
        )
        n_asked = max(1, round(participation * len(available)))
        self.asked_nodes = sorted(
            available[i] for i in rng.permutation(len(available))[:n_asked]
        )
        columns = np.flatnonzero(self.likelihood.seen)
        nodes = [self.problem.nodes[k] for k in self.asked_nodes]
        W = np.stack([self.likelihood.to_rows(model)[:, columns] for model in models])
        return replace(self.problem, nodes=nodes).requests(
            "evaluate",
            [
                {
                    "W": absorb_constants(W, self.constants.get(node.name)),
                    **self._content(node, columns),
                }
                for node in nodes
            ],
            factors=np.ones(1),
            gradient=True,
            of="learning",
        )

    def _content(self, node: LinearNode, columns: np.ndarray) -> dict:
        """A node's part of a request about models of the classes in ``columns``."""
        node_columns = np.intersect1d(node.row_columns, columns)
        class_weight = self.likelihood.loss.class_weight
        return {
            "labels": self.problem.labels_content(node_columns)["labels"],
            "columns": np.searchsorted(columns, node_columns),
            "class_weights": (
                None if class_weight is None else class_weight[node_columns]
            ),
        }

    def compare(
        self,
        models: Sequence[np.ndarray],
        replies: Iterable[tuple[str, EvaluateReply]],
        *,
        current: np.ndarray | None = None,
    ) -> "Comparison":
        """Collect the replies on models; `current` is the model kept so far."""
        index = {self.problem.nodes[k].name: k for k in self.asked_nodes}
        comparison = Comparison(state=self, models=models, current=current)
        for name, reply in replies:
            comparison.add(index[name], reply)
        self.left_out |= set(self.asked_nodes) - set(comparison.losses)
        return comparison

    def total(self, W: np.ndarray) -> tuple[float, np.ndarray]:
        """The sum at a model and its gradient, by all who have last replied about W."""
        exact = {
            k: _Value(loss=reply.loss, gradient=reply.gradient)
            for k, reply in self.last_replies.items()
            if reply.W is W
        }
        sums = self.sums(W, exact)
        return sums.of_all, sums.gradient

    def sums(self, W: np.ndarray, replies: Mapping[int, _Value]) -> _Sums:
        """Sums at a model, of replies about it by index of the node."""
        of_replying, gradient = self.likelihood.penalty(W)
        of_replying += sum(reply.loss for reply in replies.values())
        others = set(range(len(self.problem.nodes))) - set(replies)
        of_others = self.estimated(W, others)
        gradient = (
            gradient
            + of_others.gradient
            + sum(reply.gradient for reply in replies.values())
        )
        return _Sums(
            of_replying=of_replying,
            of_all=of_replying + of_others.loss,
            gradient=gradient,
        )

    def estimated(self, W: np.ndarray, nodes: set[int]) -> _Value:
        """Loss and gradient of nodes by their moments, as in the last reply."""
        if not nodes:
            return _Value(loss=0.0, gradient=np.zeros_like(W))
        value, gradient = self.likelihood.expected(W, sorted(nodes))
        for k in nodes:
            if k not in self.corrections:
                self.corrections[k] = self._correction(k)
            constant, slope = self.corrections[k]
            value = value + constant + np.vdot(slope, W)
            gradient = gradient + slope
        return _Value(loss=value, gradient=gradient)

    def _correction(self, k: int) -> _Correction:
        """Return what a node's moments miss of its last reply, or of its own model."""
        if k not in self.last_replies:
            slope = self.likelihood.slope_of_own_model(k, self.node_losses[k])
            return _Correction(constant=0.0, slope=slope)
        reply = self.last_replies[k]
        expected, expected_gradient = self.likelihood.expected(reply.W, [k])
        slope = reply.gradient - expected_gradient
        constant = reply.loss - expected - np.vdot(slope, reply.W)
        return _Correction(constant=constant, slope=slope)


class Comparison:
    """What nodes replied about several models, beside the one that is kept so far."""

    def __init__(
        self,
        *,
        state: SumOfLosses,
        models: Sequence[np.ndarray],
        current: np.ndarray | None,
    ) -> None:
        self.state = state
        self.models = models
        self.current = current  # None: no model is kept yet
        # By index of the node: (n_models,), and (n_models, *W.shape).
        self.losses: dict[int, np.ndarray] = {}
        self.gradients: dict[int, np.ndarray] = {}
        # What each node said of the rows that judge: sums of losses and right labels.
        self.judgments: list[JudgedSums] = []
        self.is_optimistic = False  # models are made of rows that judge them
        self.has_rule = False  # whether a node keeps to a rule of disclosure
        # Whether nodes tell how good models are, and no node in which direction to go.
        self.withholds_all = True
        # Models whose logits are too large for a node to say anything.
        self.is_steep = np.zeros(len(models), dtype=bool)

    def add(self, k: int, reply: EvaluateReply) -> None:
        """Take in the reply of node k."""
        likelihood = self.state.likelihood
        gradients = np.zeros((len(self.models), *self.models[0].shape))
        sent = reply.gradient
        constants = self.state.constants.get(self.state.problem.names[k])
        for zeros_or_constants in (self.state.problem.zeros, constants):
            sent = gradient_at_constants(sent, zeros_or_constants)
        gradients[:, :, likelihood.seen] = [
            likelihood.gradient_from_rows(gradient) for gradient in sent
        ]
        losses = self.state.weights[k] * reply.losses[:, 0]
        gradients *= self.state.weights[k]
        self.is_steep |= np.isnan(losses)
        lacks_gradient = np.isnan(gradients).any(axis=(1, 2))
        # Of models that are too steep there is no loss either.
        self.withholds_all &= bool((lacks_gradient & ~np.isnan(losses)).all())
        for j in np.flatnonzero(lacks_gradient):
            # Moments stand in for what is not sent.
            estimate = self.state.estimated(self.models[j], {k})
            gradients[j] = estimate.gradient
            if np.isnan(losses[j]):
                losses[j] = estimate.loss
        self.losses[k] = losses
        self.gradients[k] = gradients
        self.has_rule |= reply.rule is not None
        self.judgments.append(reply.judged)
        self.is_optimistic |= reply.held_out is None

    def keep(self, chosen: int) -> None:
        """Have the nodes' last replies be those about one of the models."""
        for k in self.losses:
            reply = self._reply(k, chosen)
            self.state.last_replies[k] = _LastReply(
                W=self.models[chosen], loss=reply.loss, gradient=reply.gradient
            )
            self.state.corrections.pop(k, None)

    def best(self, *, replying_nodes_may_lose: bool) -> int | None:
        """The model of the lowest sum over all nodes, if it is lower than the present.

        Unless ``replying_nodes_may_lose``, the sum over the nodes that reply must not
        rise either: those that do not answer any more are only estimated.
        """
        sums = [self._sums_at_model(j) for j in range(len(self.models))]
        of_all = np.array([at_model.of_all for at_model in sums])
        at_current = self._sums_at_current()
        is_lower = np.isfinite(of_all) & (of_all < at_current.of_all) & ~self.is_steep
        if not replying_nodes_may_lose:
            of_replying = np.array([at_model.of_replying for at_model in sums])
            is_lower &= of_replying <= at_current.of_replying
        if not is_lower.any():
            return None
        return int(np.argmin(np.where(is_lower, of_all, np.inf)))

    def _sums_at_model(self, j: int) -> _Sums:
        replies = {k: self._reply(k, j) for k in self.losses}
        return self.state.sums(self.models[j], replies)

    def _sums_at_current(self) -> _Sums:
        replies = {k: self._reply_about_current(k) for k in self.losses}
        return self.state.sums(self.current, replies)

    def _reply(self, k: int, j: int) -> _Value:
        return _Value(loss=self.losses[k][j], gradient=self.gradients[k][j])

    def _reply_about_current(self, k: int) -> _Value:
        last_reply = self.state.last_replies.get(k)
        if last_reply is not None and last_reply.W is self.current:
            return _Value(loss=last_reply.loss, gradient=last_reply.gradient)
        return self._reply(k, 0)  # it was put to the nodes again, before the others

    def change(self, j: int) -> np.ndarray:
        """The change of the sum's gradient from the current model to another."""
        return self._sums_at_model(j).gradient - self._sums_at_current().gradient

    def message(self, kept_model: int | None, value: float) -> dict:
        """The message in the history; ``kept_model`` is None if no model of it is."""
        if kept_model is not None:
            n_right = self._judged("right")[kept_model]
            self.state.accuracy = float(n_right / self._judged("count"))
        objective = float(value / self.state.likelihood.n_rows)
        return {"objective": objective, "accuracy": self.state.accuracy}

    def report(self, names: Sequence[str]) -> Candidates:
        """Compare the candidates of these names, and choose one.

        Let l_i and m_i be the losses of row i by the likeliest model and by a
        candidate. The gain is the mean of l_i - m_i. Its standard error is the root of
        the variance of l_i - m_i over the number of rows.
        """
        n_rows = self._judged("count")
        losses = self._judged("losses")[:, 0] / n_rows
        squared_gains = self._judged("squared_gains") / n_rows
        gains = losses[0] - losses
        variances = np.maximum(squared_gains - gains**2, 0.0)
        standard_errors = np.sqrt(variances / n_rows)  # NaN: too steep
        is_sure = gains > SURE * standard_errors
        chosen = 0
        if is_sure.any():
            chosen = int(np.argmin(np.where(is_sure, losses, np.inf)))
        return Candidates(
            names=list(names),
            losses=losses.tolist(),
            gains=gains.tolist(),
            standard_errors=standard_errors.tolist(),
            chosen=names[chosen],
            optimistic=self.is_optimistic,
        )

    def _judged(self, name: str) -> np.ndarray | float:
        """A sum over the rows of all nodes that judge."""
        return sum(getattr(judgment, name) for judgment in self.judgments)
