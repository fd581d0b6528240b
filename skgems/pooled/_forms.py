"""What one linear classifier the nodes have in common, and its fit on all their rows.

A node tells the *form* of its classifier: a kind with parameters, or the reason why it
is no function of sums. Where all nodes tell the same, that is the form of the pooled
model, and :meth:`PooledForm.fit` makes it of moments.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from ..base import MOST_LISTED
from ..local import weights_of
from ..moments import ROUNDING_OF_SUMS, ClassMoments
from ._linear import (
    LinearSolution,
    solve_centroids,
    solve_lda,
    solve_ridge_classifier,
)
from ._rounding import Rounding


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


def common_form(forms: Mapping[str, Mapping]) -> PooledForm:
    """The one pooled form of nodes' forms, ``{kind, parameters}`` or ``{reason}``."""
    if not forms:
        raise ValueError("There are no nodes.")
    reasons = {name: form["reason"] for name, form in forms.items() if "reason" in form}
    if reasons:
        return PooledForm(kind=None, reason=_join(_group_nodes(reasons), "{} at {}"))
    difference = _first_difference(forms)
    if difference:
        return PooledForm(kind=None, reason=difference)
    form = next(iter(forms.values()))
    parameters = {key: value for key, value in form.items() if key != "kind"}
    return PooledForm(kind=form["kind"], parameters=parameters)


def _first_difference(forms: Mapping[str, Mapping]) -> str:
    """Describe the first difference of nodes' forms, with the nodes; "" if none."""
    for key in ["kind", *next(iter(forms.values()))]:
        groups = _group_nodes({node: form.get(key) for node, form in forms.items()})
        if len(groups) > 1:
            subject = "the kind of classifier" if key == "kind" else key
            return f"{subject} is {_join(groups, '{!r} at {}')}"
    return ""


def _join(groups: list[tuple[object, str]], template: str) -> str:
    """``"1 at node 'a' and 2 at node 'b'."``."""
    return " and ".join(template.format(value, nodes) for value, nodes in groups) + "."


def _group_nodes(value_by_node: Mapping) -> list[tuple[object, str]]:
    """Return each different value once, with the nodes that have it, in words."""
    nodes_in_words: list[tuple[object, str]] = []
    # A list is searched: values such as pairs of label and prior cannot be hashed.
    distinct: list[object] = []
    for value in value_by_node.values():
        if value in distinct:
            continue
        distinct.append(value)
        nodes = [repr(node) for node, other in value_by_node.items() if other == value]
        nodes_in_words.append((value, _in_words(nodes)))
    return nodes_in_words


def _in_words(nodes: list[str]) -> str:
    """``"nodes 'a', 'b', 'c' and 2 others"``."""
    noun = "nodes" if len(nodes) > 1 else "node"
    named = ", ".join(nodes[:MOST_LISTED])
    n_others = len(nodes) - MOST_LISTED
    if n_others <= 0:
        return f"{noun} {named}"
    return f"{noun} {named} and {n_others} other{'s' if n_others > 1 else ''}"


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
