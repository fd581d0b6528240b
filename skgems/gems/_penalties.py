"""Penalty and intercept of the likeliest model: those of the nodes' classifiers.

A classifier that minimizes ``C * sum(losses) + |w|^2 / 2`` is penalized on the rows of
all nodes as on its own, so a C is taken over as it is. From ``mean(losses) + alpha *
|w|^2 / 2`` alpha is taken over, and C is ``1 / (alpha * n_rows)`` for the rows of all
nodes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from sklearn.linear_model import LogisticRegression

from ..asking import InterceptWarning, PenaltyWarning
from ..base import MOST_LISTED, warn_user
from ..moments import ROUNDING_OF_SUMS, SMALLEST, ClassMoments, Span, cross_validated_C

# Where no node says how strongly it is penalized: that of LogisticRegression().
DEFAULT_C = LogisticRegression().C
# A log-loss with so many times the C shrinks weights as much as another loss. Second
# derivatives at weights of 0 are 1/4 of the log-loss, 2 of squared hinges and 1 of half
# the squares. A hinge has none. Labels of pooled models of six sets agree best with
# about these (a half or twice of them agrees less, or hardly better).
_TIMES_C = {"log_loss": 1.0, "hinge": 4.0, "squared_hinge": 8.0, "squares": 4.0}
# Largest C that is taken over from other losses, or from training by steps. Without any
# penalty these still end at finite weights; a log-loss of separable rows does not.
_LARGEST_C = 1e3
# Ratio up to which strengths of different losses are alike: one loss is put in the
# place of another, and no model of all rows is that of all of them.
_ALIKE = 100.0


@dataclass(frozen=True, kw_only=True, eq=False)
class NodePenalty:
    """How a node's classifier was penalized, as the node says."""

    name: str
    n_rows: float
    loss: str
    C: float | None
    alpha: float | None  # 0: no penalty
    fit_intercept: bool | None  # None: it does not say
    # (n_features,), the row that its steps before the classifier take to zero.
    center: np.ndarray | None

    @classmethod
    def from_content(
        cls, content: Mapping, *, name: str, n_rows: float, center: np.ndarray | None
    ) -> "NodePenalty":
        """Read the penalty that a node replied."""
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
        """Return the C of an equally penalized LogisticRegression on ``n_rows``."""
        if self.C is None and self.alpha is None:
            return None
        if self.loss == "log_loss" and not self.alpha:
            return np.inf if self.C is None else float(self.C)
        C = self.C
        if C is None:
            C = 1.0 / max(self.alpha * n_rows, SMALLEST)
        return min(_TIMES_C[self.loss] * C, _LARGEST_C)

    def as_content(self) -> dict:
        """Loss and strength as messages have them, where the strength is known."""
        if self.alpha is None:
            return {"loss": self.loss, "C": self.C}
        return {"loss": self.loss, "alpha": self.alpha}

    def in_words(self, n_rows: float) -> str:
        """Describe its strength as users know it, and as a C of the log-loss."""
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
    """How the likeliest model is penalized, and whether it has an intercept."""

    C: float
    # (n_features,), the row at which all logits are 0; NaN: that of the mean of all
    # rows. None: there is an intercept.
    zero_row: np.ndarray | None = None
    # What a region of these nodes says in its turn; None where no node says anything.
    content: Mapping | None = None
    is_chosen_by_sums: bool = False  # C stands until all sums are known

    def in_span(self, span: Span) -> "Penalty":
        """Return this penalty for rows in the coordinates of a span."""
        if self.zero_row is None:
            return self
        return replace(self, zero_row=span.coordinates_of_row(self.zero_row))


def agreed_penalty(
    nodes: Sequence[NodePenalty],
    *,
    C: float | str,
    fit_intercept: bool | str,
    n_rows: float,
    n_features: int,
    warns: bool,
) -> Penalty:
    """Return the penalty that is given, or that of nodes which say one, on all rows.

    With ``C="auto"`` its C is a stand-in: `chosen_by_sums` puts the chosen one in.
    """
    takes_intercept = fit_intercept == "members"
    agreed_C, content = _agreed_strength(nodes, n_rows, warns=warns and C == "members")
    agreed_intercept = _agreed_intercept(nodes, warns=warns and takes_intercept)
    if agreed_intercept is not None:
        content["fit_intercept"] = agreed_intercept
    if takes_intercept:
        has_intercept = agreed_intercept is not False
    else:
        has_intercept = bool(fit_intercept)
    return Penalty(
        C=agreed_C if isinstance(C, str) else float(C),
        zero_row=None if has_intercept else _zero_row(nodes, n_features),
        content=content if nodes else None,
        is_chosen_by_sums=C == "auto",
    )


def chosen_by_sums(
    penalty: Penalty, merged: ClassMoments, n_classes: int, *, scaled: bool
) -> Penalty:
    """Return a penalty of ``C="auto"`` with the C that the sums choose; others as is.

    Variances alone say too little: the stand-in stays.
    """
    if not penalty.is_chosen_by_sums or merged.is_diagonal:
        return penalty
    return replace(penalty, C=cross_validated_C(merged, n_classes, scaled=scaled))


def _agreed_strength(
    nodes: Sequence[NodePenalty], n_rows: float, *, warns: bool
) -> tuple[float, dict]:
    """Return the likeliest model's C, and loss and strength as a node says them."""
    telling = [node for node in nodes if node.as_C(n_rows) is not None]
    if not telling:
        return DEFAULT_C, {"loss": "other"}
    C = _median_C(telling, n_rows)
    is_one_loss = len({(node.loss, node.alpha is None) for node in telling}) == 1
    most_apart = 1.0 + ROUNDING_OF_SUMS if is_one_loss else _ALIKE
    if not _are_within(most_apart, telling, n_rows=n_rows):
        if warns:
            _warn_of_strengths(telling, C, n_rows)
    elif is_one_loss:
        return C, telling[0].as_content()
    return C, {"loss": "log_loss", "C": C}


def _are_within(ratio: float, nodes: Sequence[NodePenalty], *, n_rows: float) -> bool:
    """Report whether the largest strength is at most ``ratio`` times the smallest."""
    strengths = np.array([node.as_C(n_rows) for node in nodes])
    return bool(strengths.max() <= ratio * strengths.min())


def _median_C(nodes: Sequence[NodePenalty], n_rows: float) -> float:
    """The median over all rows; between two C that halve these their mean in logs."""
    strengths = np.array([node.as_C(n_rows) for node in nodes])
    weights = np.array([node.n_rows for node in nodes])
    distinct, places = np.unique(strengths, return_inverse=True)
    shares = np.cumsum(np.bincount(places, weights=weights)) / weights.sum()
    # Rounding of shares must not choose between two strengths.
    low = distinct[np.argmax(shares > 0.5 - ROUNDING_OF_SUMS)]
    high = distinct[np.argmax(shares > 0.5 + ROUNDING_OF_SUMS)]
    return float(low if low == high else np.sqrt(low) * np.sqrt(high))


def _warn_of_strengths(nodes: Sequence[NodePenalty], C: float, n_rows: float) -> None:
    by_words: dict[str, list[str]] = {}
    for node in sorted(nodes, key=lambda node: node.as_C(n_rows)):
        by_words.setdefault(node.in_words(n_rows), []).append(node.name)
    warn_user(
        f"Classifiers are penalized with different strengths: {_listed(by_words)}. The "
        f"aggregate uses C={C:.4g}, the median over all rows. Have all nodes fit with "
        "one strength, or set C of the aggregator.",
        PenaltyWarning,
    )


def _agreed_intercept(nodes: Sequence[NodePenalty], *, warns: bool) -> bool | None:
    """Report whether models have an intercept; None where no node says."""
    by_choice: dict[bool, list[str]] = {}
    for node in nodes:
        if node.fit_intercept is not None:
            by_choice.setdefault(node.fit_intercept, []).append(node.name)
    if len(by_choice) > 1 and warns:
        by_words = {
            "fit_intercept=False": by_choice[False],
            "fit_intercept=True": by_choice[True],
        }
        warn_user(
            f"Some classifiers have no intercept: {_listed(by_words)}. The aggregate "
            "has one. Have all nodes fit with or all without an intercept, or set "
            "fit_intercept of the aggregator to True or False.",
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
    telling = [node for node in nodes if node.center is not None]
    if not telling:
        return np.full(n_features, np.nan)
    centers = np.ma.masked_invalid([node.center for node in telling])
    n_rows = [node.n_rows for node in telling]
    return np.ma.filled(np.ma.average(centers, axis=0, weights=n_rows), np.nan)


def _listed(by_words: Mapping[str, Sequence[str]]) -> str:
    """Words, each with the nodes that it is said of."""
    phrases = [
        f"{words} at {_listed_nodes(names)}"
        for words, names in list(by_words.items())[:MOST_LISTED]
    ]
    n_more = len(by_words) - MOST_LISTED
    if n_more > 0:
        phrases.append(f"and {n_more} other strengths")
    return "; ".join(phrases)


def _listed_nodes(names: Sequence[str]) -> str:
    """The first few names of nodes, and how many others there are."""
    nodes = "nodes" if len(names) > 1 else "node"
    first_names = ", ".join(map(repr, names[:MOST_LISTED]))
    n_others = len(names) - MOST_LISTED
    if n_others <= 0:
        return f"{nodes} {first_names}"
    others = "others" if n_others > 1 else "other"
    return f"{nodes} {first_names} and {n_others} {others}"
