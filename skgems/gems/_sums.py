"""What nodes reply to "moments": taken in one after the other, and summed."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np

from ..base import warn_user
from ..federation import ClassWeightWarning, shown_labels
from ..local import indices_of, weights_of
from ..moments import (
    ClassMoments,
    Likelihood,
    NodeLoss,
    Span,
    about_origin,
    merge_moments,
    ratio,
)
from ..pooled import PooledForm
from ._penalties import NodePenalty, Penalty
from ._stage import LinearNode

_MOST_NAMED = 5
# Ratio of the largest to the smallest class from which on weights of classes matter: on
# eight sets the recall of the smallest class without them is lower by up to 0.35 at a
# ratio of 2, 0.5 at 3, and 0.6 at 5. Everyday sets without rare classes have ratios up
# to 2 (penguins 2.1).
_IMBALANCED = 3.0


@dataclass(frozen=True, eq=False)
class NodeSums:
    """What a node replied but for its scatters, its classes as those of all."""

    name: str
    loss: NodeLoss
    model: bytes  # what makes the node's model another than others
    labels: list  # of its model
    form: Mapping | None  # what its classifier is in sums
    class_weight: str | list | None  # of its classifier
    penalty: NodePenalty | None  # None: it has no classifier that could say
    scaled: bool  # whether its classifier scales features
    is_rounded: bool  # whether it sent fewer digits

    @classmethod
    def of(cls, node: LinearNode, content, classes, keep_scatter: bool) -> tuple:
        """And its moments, whose scatters the losses keep if they are to."""
        labels, sent = content["labels"], content["moments"]
        columns = indices_of(labels, classes)
        moments = ClassMoments.from_arrays(sent)
        some = np.unique(moments.columns)
        unknown = [labels[i] for i in some if columns[i] < 0]
        if unknown:
            raise ValueError(
                f"node {node.name!r} has rows of the classes {shown_labels(unknown)}, "
                "which no node's classifier has seen; these have seen "
                f"{shown_labels(classes.tolist())}. Leave such rows out, or add a node "
                "whose classifier has seen these classes."
            )
        moments = moments.renamed(columns)
        W = gradient = None
        if "factor" in content:
            W = content["factor"] * node.own_W.astype(np.float64)
            W, gradient = about_origin(W, moments.origin), content.get("gradient")
            if gradient is None:
                gradient = _placed(content["gradients"], columns, len(classes))
        kept = moments.without_scatter()
        if keep_scatter:
            kept = moments.with_matrices(len(classes))
        model = hashlib.sha256(node.known.tobytes())
        model.update(np.ascontiguousarray(node.W).data)
        # A model of one class has no parameters that could differ.
        differs = node.known.sum() > 1 or "kind" in content["form"]
        roots = sent.get("roots")
        # The summed corrections of a region.
        slope = own = content.get("slope", content.get("slopes"))
        if own is not None:
            slope = np.zeros((*own.shape[:-1], len(classes)))
            slope[..., columns] = own
            if own.ndim > 2:
                slope = _placed(slope, columns, len(classes))
        found = cls(
            node.name,
            NodeLoss(kept, node.own_columns, W, gradient, slope),
            model.digest(),
            classes[node.known].tolist() if node.has_model else [],
            content["form"] if differs and node.has_model else None,
            content.get("class_weight"),
            _penalty_in(content, node, moments),
            content["scaled"],
            "deviations" in sent or (roots is not None and roots.itemsize < 8),
        )
        return found, moments


def _penalty_in(content, node: LinearNode, moments: ClassMoments) -> NodePenalty | None:
    if "penalty" not in content:
        return None
    center = node.center
    if center is None and not content["scaled"]:
        center = np.zeros(moments.n_features)
    return NodePenalty.of(
        content["penalty"], name=node.name, n_rows=moments.n_rows, center=center
    )


def merged_or_held(moments: Iterator[ClassMoments], n_classes: int) -> tuple:
    """Moments of all nodes merged; or, where all have roots, each of them."""
    held: list[ClassMoments] = []
    for own in moments:
        if own.roots is None:
            every = chain(held, [own], moments)
            return merge_moments(each.with_matrices(n_classes) for each in every), []
        held.append(own)
    return None, held


@dataclass(frozen=True, eq=False)
class Sums:
    losses: list[NodeLoss]  # by class where weights of classes are not known to nodes
    merged: ClassMoments
    classes: np.ndarray
    form: PooledForm  # what classifiers are in sums
    scaled: bool  # nodes scale features: weights are penalised whatever the units
    agreed: str | list | None  # what rows count by class, as messages have it
    span: Span | None  # whose coordinates features are in
    penalty: Penalty  # in those coordinates

    @cached_property
    def class_weight(self) -> np.ndarray | None:
        """What rows of each class count, (n_classes,); None: 1."""
        if self.agreed == "balanced":
            counts = self.merged.class_counts(len(self.classes))
            return ratio(counts.sum() / np.count_nonzero(counts), counts, 1.0)
        return None if self.agreed is None else weights_of(self.agreed, self.classes)

    @property
    def n_features(self) -> int:
        return self.merged.n_features if self.span is None else len(self.span.center)

    def weighed(self) -> list[NodeLoss]:
        """Losses in which classes have their weights."""
        return [node.of_classes(self.class_weight) for node in self.losses]

    def likelihood(self, losses: list[NodeLoss]) -> Likelihood:
        return Likelihood.of(
            losses,
            len(self.classes),
            C=self.penalty.C,
            scaled=self.scaled,
            merged=self.merged,
            class_weight=self.class_weight,
            span=self.span,
            zero_row=self.penalty.zero_row,
        )


def agreed_weights(
    known: Sequence[NodeSums], classes: np.ndarray, *, warns: bool
) -> str | list | None:
    """Class weights that members agree on; None, with a warning, where they do not."""
    # A constant model of one class cannot tell.
    members = [own for own in known if own.penalty is not None]
    if not members:
        if warns:
            _warn_of_unknown_weights(known, classes)
        return None
    listed = [own for own in members if not isinstance(own.class_weight, str)]
    words, by_label = len(listed) < len(members), {}
    for own in listed:
        weights = weights_of(own.class_weight or (), own.labels)
        for label, weight in zip(own.labels, weights, strict=True):
            by_label.setdefault(label, set()).add(float(weight))
    if words and not listed:
        return "balanced"
    if not words and all(len(own) == 1 and 0 not in own for own in by_label.values()):
        found = sorted([label, *weights] for label, weights in by_label.items())
        return found if any(weight != 1.0 for _, weight in found) else None
    if warns:
        found = [f"{own.class_weight!r} at node {own.name!r}" for own in members]
        warn_user(
            f"Classifiers weigh classes in different ways, or by 0: {named(found)}. "
            "The aggregate counts rows alike, and may rarely predict rare ones. Have "
            "all nodes fit with one class_weight, or give it to the aggregator.",
            ClassWeightWarning,
        )
    return None


def _warn_of_unknown_weights(known: Sequence[NodeSums], classes: np.ndarray) -> None:
    """Warn where no classifier can say whether rare classes are to count for more."""
    # Who has given rows alone has not thought of weights; who has fitted has.
    if not any(node.labels for node in known):
        return
    counts = sum(node.loss.moments.class_counts(len(classes)) for node in known)
    seen = np.flatnonzero(counts)
    least, most = seen[np.argmin(counts[seen])], np.argmax(counts)
    if counts[most] < _IMBALANCED * counts[least]:
        return
    labels = classes.tolist()
    warn_user(
        "No node has a classifier of two classes, so none can say whether rows are to "
        "be weighed by class, and the aggregate counts them alike. Class "
        f"{labels[most]!r} has {counts[most]:g} rows and class {labels[least]!r} "
        f"{counts[least]:g}: rare classes may hardly ever be predicted. Set "
        "class_weight='balanced', or class_weight=None if rows are to count alike.",
        ClassWeightWarning,
    )


def _placed(by_class: np.ndarray, columns: np.ndarray, n_classes: int) -> np.ndarray:
    found = np.zeros((n_classes, *by_class.shape[1:]))
    found[columns[columns >= 0]] = by_class[columns >= 0]
    return found


def named(found: list[str]) -> str:
    more = len(found) - _MOST_NAMED
    return "; ".join(found[:_MOST_NAMED]) + (f"; and {more} more" if more > 0 else "")
