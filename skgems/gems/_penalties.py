"""Penalty and intercept of the likeliest model: those of the nodes' classifiers.

A classifier that minimises ``C * sum(losses) + |w|^2 / 2`` is penalised on the rows of
all nodes as on its own, so a C is taken over as it is. From ``mean(losses) + alpha *
|w|^2 / 2`` alpha is taken over, and C is ``1 / (alpha * n_rows)`` for the rows of all
nodes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..base import warn_user
from ..federation import InterceptWarning, PenaltyWarning
from ..moments import SMALLEST, Span

# Where no node says how strongly it is penalised: that of LogisticRegression().
DEFAULT_C = 1.0
# A log-loss with so many times the C shrinks weights as much as another loss. Second
# derivatives at weights of 0 are 1/4 of the log-loss, 2 of squared hinges and 1 of half
# the squares. A hinge has none. Labels of pooled models of six sets agree best with
# about these (a half or twice of them agrees less, or hardly better).
_TIMES = {"log_loss": 1.0, "hinge": 4.0, "squared_hinge": 8.0, "squares": 4.0}
# Largest C that is taken over from other losses, or from training by steps. Without any
# penalty these still end at finite weights; a log-loss of separable rows does not.
_LARGEST_C = 1e3
# Strengths of different losses are alike that are no further apart: one loss is put in
# the place of another, and no model of all rows is that of all of them.
_ALIKE = 100.0
# Strengths of one loss that differ by rounding alone.
_EQUAL = 1.0 + 1e-9
# Values, and nodes of each, that a warning names.
_MOST_VALUES, _MOST_NODES = 5, 3


@dataclass(frozen=True, kw_only=True, eq=False)
class NodePenalty:
    """How a node's classifier was penalised, as the node says."""

    name: str
    n_rows: float
    loss: str
    C: float | None
    alpha: float | None  # 0: no penalty
    fit_intercept: bool | None  # None: it does not say
    # (n_features,), the row that its steps before the classifier take to zero.
    center: np.ndarray | None

    @classmethod
    def of(
        cls, content: Mapping, *, name: str, n_rows: float, center: np.ndarray | None
    ) -> "NodePenalty":
        return cls(
            name=name,
            n_rows=n_rows,
            loss=content["loss"],
            C=content.get("C"),
            alpha=content.get("alpha"),
            fit_intercept=content.get("fit_intercept"),
            center=center,
        )

    def as_C(self, n_rows: float) -> float | None:
        """C of a LogisticRegression on so many rows that is penalised as much."""
        if self.C is None and self.alpha is None:
            return None
        if self.loss == "log_loss" and not self.alpha:
            return np.inf if self.C is None else float(self.C)
        C = self.C
        if C is None:
            C = 1.0 / max(self.alpha * n_rows, SMALLEST)
        return min(_TIMES[self.loss] * C, _LARGEST_C)

    def in_words(self, n_rows: float) -> str:
        """Its strength as users know it, and as a C of the log-loss."""
        C = self.as_C(n_rows)
        if self.loss == "log_loss" and not self.alpha:
            return f"C={C:.4g}"
        if self.alpha is not None:
            strength = f"alpha={self.alpha:.4g}"
        elif self.loss == "squares":
            strength = f"alpha={1.0 / self.C:.4g}"
        else:
            strength = f"C={self.C:.4g}"
        return f"C={C:.4g} ({self.loss.replace('_', ' ')} with {strength})"


@dataclass(frozen=True, kw_only=True, eq=False)
class Penalty:
    """How the likeliest model is penalised, and whether it has an intercept."""

    C: float
    # (n_features,), the row at which all logits are 0; NaN: that of the mean of all
    # rows. None: there is an intercept.
    zero_row: np.ndarray | None = None
    # What a region of these nodes says in its turn; None where no node says anything.
    content: Mapping | None = None

    def in_span(self, span: Span) -> "Penalty":
        """The same where rows are in the coordinates of a span."""
        if self.zero_row is None:
            return self
        return replace(self, zero_row=span.of_row(self.zero_row))


def agreed_penalty(
    nodes: Sequence[NodePenalty],
    *,
    C: float | str,
    fit_intercept: bool | str,
    n_rows: float,
    n_features: int,
    warns: bool,
) -> Penalty:
    """The penalty that is given, or that of nodes which say one, on rows of all."""
    by_members, of_members = C == "members", fit_intercept == "members"
    agreed_C, content = _agreed_strength(nodes, n_rows, warns=warns and by_members)
    agreed_intercept = _agreed_intercept(nodes, warns=warns and of_members)
    if agreed_intercept is not None:
        content["fit_intercept"] = agreed_intercept
    if of_members:
        fit_intercept = agreed_intercept is not False
    return Penalty(
        C=agreed_C if by_members else float(C),
        zero_row=None if fit_intercept else _zero_row(nodes, n_features),
        content=content if nodes else None,
    )


def _agreed_strength(
    nodes: Sequence[NodePenalty], n_rows: float, *, warns: bool
) -> tuple[float, dict]:
    """C of the likeliest model, and loss and strength as a node would say them."""
    strengths = {node.name: node.as_C(n_rows) for node in nodes}
    speaking = [node for node in nodes if strengths[node.name] is not None]
    if not speaking:
        return DEFAULT_C, {"loss": "other"}
    values = np.array([strengths[node.name] for node in speaking])
    C = _median(values, np.array([node.n_rows for node in speaking]))
    is_one_loss = len({(node.loss, node.alpha is None) for node in speaking}) == 1
    apart = _EQUAL if is_one_loss else _ALIKE
    first = speaking[0]
    if not values.max() <= apart * values.min():
        if warns:
            _warn_of_strengths(speaking, C, n_rows)
    elif is_one_loss:
        name = "C" if first.alpha is None else "alpha"
        return C, {"loss": first.loss, name: getattr(first, name)}
    return C, {"loss": "log_loss", "C": C}


def _median(values: np.ndarray, weights: np.ndarray) -> float:
    """Weighted median; between two values that halve the weights their mean in logs."""
    values, places = np.unique(values, return_inverse=True)
    shares = np.cumsum(np.bincount(places, weights=weights)) / weights.sum()
    # Rounding of shares must not choose between two values.
    low = values[np.argmax(shares > 0.5 - 1e-9)]
    high = values[np.argmax(shares > 0.5 + 1e-9)]
    return float(low if low == high else np.sqrt(low) * np.sqrt(high))


def _warn_of_strengths(nodes: Sequence[NodePenalty], C: float, n_rows: float) -> None:
    by_words: dict[str, list[str]] = {}
    for node in sorted(nodes, key=lambda node: node.as_C(n_rows)):
        by_words.setdefault(node.in_words(n_rows), []).append(node.name)
    warn_user(
        "Classifiers are penalised with different strengths: "
        f"{_listed(by_words)}. The aggregate takes C={C:.4g}, the median over all "
        "rows. Have all nodes fit with one strength, or set C of the aggregator.",
        PenaltyWarning,
    )


def _agreed_intercept(nodes: Sequence[NodePenalty], *, warns: bool) -> bool | None:
    """Whether there is an intercept; None where no node says."""
    by_choice: dict[bool, list[str]] = {}
    for node in nodes:
        if node.fit_intercept is not None:
            by_choice.setdefault(node.fit_intercept, []).append(node.name)
    if len(by_choice) > 1 and warns:
        by_words = {f"fit_intercept={own}": by_choice[own] for own in (False, True)}
        warn_user(
            f"Some classifiers have no intercept: {_listed(by_words)}. The aggregate "
            "has one. Have all nodes fit alike, or set fit_intercept of the "
            "aggregator to True or False.",
            InterceptWarning,
        )
    return True in by_choice if by_choice else None


def _zero_row(nodes: Sequence[NodePenalty], n_features: int) -> np.ndarray:
    """The mean of the rows that nodes' steps take to zero: of all rows, if they scale.

    NaN, which is the mean of all rows, in features that all steps leave out, and where
    steps are not fitted at nodes with one class.
    """
    if not nodes:
        return np.zeros(n_features)
    known = [node for node in nodes if node.center is not None]
    if not known:
        return np.full(n_features, np.nan)
    centers = np.ma.masked_invalid([node.center for node in known])
    n_rows = [node.n_rows for node in known]
    return np.ma.filled(np.ma.average(centers, axis=0, weights=n_rows), np.nan)


def _listed(by_words: Mapping[str, Sequence[str]]) -> str:
    """Words, each with the nodes that it is said of."""
    found = []
    for words, names in list(by_words.items())[:_MOST_VALUES]:
        shown = ", ".join(map(repr, names[:_MOST_NODES]))
        n_more = len(names) - _MOST_NODES
        others = f" and {n_more} other{'s' * (n_more > 1)}" if n_more > 0 else ""
        found.append(f"{words} at node{'s' * (len(names) > 1)} {shown}{others}")
    n_more = len(by_words) - _MOST_VALUES
    if n_more > 0:
        found.append(f"and {n_more} other strengths")
    return "; ".join(found)
