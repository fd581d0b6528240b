"""What nodes reply to "moments": taken in one after the other, and summed."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from ..compat import say
from ..local import (
    LEFT_OUT,
    WITHHELD,
    OtherShare,
    cached_call,
    digest,
    indices_of,
)
from ..moments import (
    ROUNDING_OF_SUMS,
    ClassMoments,
    Likelihood,
    NodeLoss,
    PooledForm,
    Span,
    merge_moments,
    moments_kind,
    move_to_origin,
    ratio,
    weights_of,
)
from ..parties import shown_labels
from ..tasks import MomentsReply
from ._penalties import NodePenalty, Penalty
from ._problem import LinearModels, LinearNode


@dataclass(frozen=True, eq=False, kw_only=True)
class NodeSums:
    """What a node replied but for its scatters, its classes as those of all."""

    name: str
    loss: NodeLoss
    model_digest: bytes  # equal for nodes with the same model
    labels: list  # of its model
    form: Mapping | None  # what its classifier is in sums; None: it cannot say
    class_weight: str | list | None  # of its classifier
    penalty: NodePenalty | None  # None: it has no classifier that could say
    scaled: bool  # whether its classifier scales features
    kurtosis: int | None  # of rows far outside of their class; None: it has none
    # (n_features,): the mean over other nodes that stands for a feature which its steps
    # drop by name; NaN for other features. None: it drops none that others use.
    constants: np.ndarray | None = None
    # (n_features,), bool: features that vary in its rows, and that its model gives no
    # weight, though it does not drop them by name. None: the model does not say.
    neglected: np.ndarray | None = None
    # A class of which its model expects more rows; None: none, or it does not say.
    other_share: OtherShare | None = None
    moments: ClassMoments | None = None  # of its rows, without products


class RepliesReader:
    """Reads the replies to "moments", so that one at a time has to be in memory.

    `read` returns the moments of one node, for the sum of all, and keeps what else the
    node replied in `node_sums`, which is small.
    """

    def __init__(
        self,
        problem: LinearModels,
        *,
        kind: str,
        keeps_scatter: bool,
        node_weight: np.ndarray | None,
        row_factors: np.ndarray | None = None,
    ) -> None:
        """Prepare to read replies of all nodes of a problem.

        Parameters
        ----------
        kind : {"auto", "class", "shared", "diagonal"}
            The kind of moments that nodes were asked for.
        keeps_scatter : bool
            Whether `node_sums` have second moments, too: for spaces around a model.
        node_weight : ndarray of shape (n_nodes,) or None
            The weight of each node, whatever its number of rows. None: rows count.
        row_factors : ndarray of shape (n_nodes,) or None
            The part of its rows that each node counts with. None: all of them count.
        """
        self._problem = problem
        self._kind = kind
        self._keeps_scatter = keeps_scatter
        self._node_weight = node_weight
        self._row_factors = row_factors
        self.node_sums: list[NodeSums] = []

    def read_all(
        self, replies: Iterable[tuple[str, MomentsReply]]
    ) -> Iterator[ClassMoments]:
        """Yield the moments of each node, as its reply arrives, in their order.

        Where a node drops features that others use, all replies are read first, since
        the means of the others stand for these features.
        """
        lacking_by_node = [self._lacking(node) for node in self._problem.nodes]
        read = (
            (reply, read_moments(node, reply, classes=self._classes))
            for node, (_, reply) in zip(self._problem.nodes, replies, strict=True)
        )
        means = _MeansOfFeatures()
        if any(lacking is not None for lacking in lacking_by_node):
            read = list(read)
            for (_, moments), lacking in zip(read, lacking_by_node, strict=True):
                means.add(moments, lacking)
        for k, (reply, moments) in enumerate(read):
            constants = None
            if lacking_by_node[k] is not None:
                constants = np.where(lacking_by_node[k], means.means, np.nan)
            yield self._read(k, reply, moments=moments, constants=constants)

    @property
    def _classes(self) -> np.ndarray:
        return self._problem.classes

    def _lacking(self, node: LinearNode) -> np.ndarray | None:
        """Return the features that a node drops by name and others use; None: none."""
        if self._problem.hidden.weights or node.dropped is None:
            return None
        lacking = node.dropped
        if self._problem.unused is not None:
            lacking = lacking & ~self._problem.unused
        return lacking if lacking.any() else None

    def _read(
        self,
        k: int,
        reply: MomentsReply,
        *,
        moments: ClassMoments,
        constants: np.ndarray | None,
    ) -> ClassMoments:
        """Return the moments of node k, in which ``constants`` stand for features."""
        node = self._problem.nodes[k]
        # Nodes without a classifier sum features, too, that no classifier uses.
        for zeros_or_constants in (self._problem.zeros, constants):
            if zeros_or_constants is not None:
                reply, moments = _with_constants(reply, moments, zeros_or_constants)
        other_share = _other_share(node, reply, moments=moments, classes=self._classes)
        moments_of_rows = moments.drop_products()
        if self._row_factors is not None and self._row_factors[k] < 1.0:
            moments = moments.weighted(self._row_factors[k])
        node_sums = _read_node_sums(
            node,
            reply,
            moments=moments,
            classes=self._classes,
            keeps_scatter=self._keeps_scatter,
        )
        self.node_sums.append(
            replace(
                node_sums,
                constants=constants,
                neglected=self._neglected(node, moments),
                other_share=other_share,
                moments=moments_of_rows,
            )
        )
        if self._problem.hidden.weights and self._sums_matrices(moments.n_features):
            # Over merged layers a node with few rows tells variances of units alone,
            # which cannot be added to matrices.
            moments = moments.with_zero_covariances()
        n_read = len(self.node_sums)
        say(
            f"node {n_read} of {len(self._problem.nodes)} ({node.name}): "
            f"{moments.n_rows:g} rows in {len(moments.counts)} parts"
        )
        if self._node_weight is not None:
            # Divided by the rows of all nodes later, which are not known yet.
            moments = moments.weighted(self._node_weight[k] / moments.n_rows)
        return moments

    def _neglected(self, node: LinearNode, moments: ClassMoments) -> np.ndarray | None:
        """Return the features that vary but have no weight in a node's own model.

        A model without steps does not tell them from features that were constant in the
        rows that it was fitted to.
        """
        is_over_layers = bool(self._problem.hidden.weights)
        if is_over_layers or node.scale is None or node.known_classes.sum() < 2:
            return None
        variances = moments.variances()
        sizes = np.abs(node.known_W[:-1]).max(axis=1)
        sizes = sizes * np.sqrt(np.maximum(variances, 0.0))
        # Folded steps leave rounding errors of some 1e-13 of the largest weight times a
        # deviation where SelectKBest has dropped a feature.
        neglected = (sizes <= ROUNDING_OF_SUMS * sizes.max()) & (variances > 0)
        if neglected.all():  # a constant model
            return None
        # A feature with a center and no scale was constant for a scaler.
        neglected &= np.isfinite(node.scale) | ~np.isfinite(node.center)
        if node.dropped is not None:
            neglected &= ~node.dropped
        return neglected if neglected.any() else None

    def _sums_matrices(self, n_features: int) -> bool:
        """Report whether nodes with many rows are asked for covariances."""
        n_classes = len(self._problem.classes)
        return moments_kind(self._kind, n_features, n_classes) != "diagonal"


class _MeansOfFeatures:
    """Means of features over the rows of all nodes that use them."""

    def __init__(self) -> None:
        self._n_rows: np.ndarray | float = 0.0  # (n_features,)
        self._sums: np.ndarray | float = 0.0

    def add(self, moments: ClassMoments, lacking: np.ndarray | None) -> None:
        """Add the rows of a node, but for the features that it lacks."""
        is_there = 1.0 if lacking is None else ~lacking
        n_rows = moments.n_rows * is_there
        self._n_rows = self._n_rows + n_rows
        self._sums = self._sums + n_rows * (moments.origin + moments.mean())

    @property
    def means(self) -> np.ndarray:
        return ratio(self._sums, self._n_rows, 0.0)


def _with_constants(
    reply: MomentsReply, moments: ClassMoments, constants: np.ndarray
) -> tuple[MomentsReply, ClassMoments]:
    """Return a reply, and its moments, of rows in which some features are constants.

    ``constants`` is (n_features,), NaN for other features. Gradients are of rows less
    the origin, which these features do not leave.
    """
    is_constant = np.isfinite(constants)
    corrections = {}
    for name in ("gradient", "gradients", "slope", "slopes"):
        correction = getattr(reply, name)
        if correction is not None:
            corrections[name] = correction.copy()
            corrections[name][..., np.flatnonzero(is_constant), :] = 0.0
    moments = moments.with_constants(is_constant, constants)
    return replace(reply, **corrections), moments


def read_moments(
    node: LinearNode, reply: MomentsReply, *, classes: np.ndarray
) -> ClassMoments:
    """Return the moments in a reply, their classes as columns of all."""
    labels = reply.labels
    columns = indices_of(labels, classes)
    moments = reply.moments
    unknown_labels = [
        labels[column] for column in np.unique(moments.columns) if columns[column] < 0
    ]
    if unknown_labels:
        raise ValueError(
            f"node {node.name!r} has rows of the classes "
            f"{shown_labels(unknown_labels)}, which no node's classifier has seen; "
            f"these have seen {shown_labels(classes.tolist())}. Leave such rows out, "
            "or add a node whose classifier has seen these classes."
        )
    return moments.renamed(columns)


def _read_node_sums(
    node: LinearNode,
    reply: MomentsReply,
    *,
    moments: ClassMoments,
    classes: np.ndarray,
    keeps_scatter: bool,
) -> NodeSums:
    columns = indices_of(reply.labels, classes)
    n_classes = len(classes)
    if keeps_scatter:
        moments_of_loss = moments.with_matrices(n_classes)
    else:
        moments_of_loss = moments.drop_scatter()
    W = gradient = None
    if reply.factor is not None:
        W = reply.factor * node.known_W.astype(np.float64)
        W = move_to_origin(W, moments.origin)
        gradient = _gradient_in(reply, columns=columns, n_classes=n_classes)
    # The form of a model of one class says nothing: all kinds are the same constant.
    says_form = node.known_classes.sum() > 1 or "kind" in reply.form
    # Sums that are not of all rows make no model exact, whoever has sent them.
    is_of_other_rows = reply.form.get("reason") in (LEFT_OUT, WITHHELD)
    is_told = is_of_other_rows or (says_form and node.has_model)
    return NodeSums(
        name=node.name,
        loss=NodeLoss(
            moments=moments_of_loss,
            columns=node.known_columns,
            W=W,
            gradient=gradient,
            slope=_slope_in(reply, columns=columns, n_classes=n_classes),
        ),
        model_digest=_digest_of_model(node),
        labels=classes[node.known_classes].tolist() if node.has_model else [],
        form=reply.form if is_told else None,
        class_weight=reply.class_weight,
        penalty=_penalty_in(reply, node=node, moments=moments),
        scaled=reply.scaled,
        kurtosis=reply.kurtosis,
    )


def _gradient_in(
    reply: MomentsReply, *, columns: np.ndarray, n_classes: int
) -> np.ndarray:
    """The gradient of the rows at the node's model; by class, if it was sent so.

    Nodes send it for the rows of each class where weights of classes depend on what
    other nodes have.
    """
    if reply.gradient is None:
        return _by_all_classes(reply.gradients, columns=columns, n_classes=n_classes)
    return reply.gradient


def _slope_in(
    reply: MomentsReply, *, columns: np.ndarray, n_classes: int
) -> np.ndarray | None:
    """The summed corrections of the nodes of a region; None for a single node.

    The shape is (n_features + 1, n_classes), or there is one such matrix a class.
    """
    sent = reply.slopes if reply.slope is None else reply.slope
    if sent is None:
        return None
    slope = np.zeros((*sent.shape[:-1], n_classes))
    slope[..., columns] = sent
    if sent.ndim == 2:
        return slope
    return _by_all_classes(slope, columns=columns, n_classes=n_classes)


def _digest_of_model(node: LinearNode) -> bytes:
    digest = hashlib.sha256(node.known_classes.tobytes())
    digest.update(np.ascontiguousarray(node.W).data)
    return digest.digest()


def _penalty_in(
    reply: MomentsReply, *, node: LinearNode, moments: ClassMoments
) -> NodePenalty | None:
    if reply.penalty is None:
        return None
    center = node.center
    if center is None and not reply.scaled:
        # Without steps before the classifier the row of zeros stays where it is.
        center = np.zeros(moments.n_features)
    return NodePenalty.from_content(
        reply.penalty, name=node.name, n_rows=moments.n_rows, center=center
    )


def heavy_nodes(node_sums: Sequence[NodeSums]) -> dict[str, int]:
    """Return the kurtosis of the nodes whose rows lie far outside of their class."""
    return {node.name: node.kurtosis for node in node_sums if node.kurtosis is not None}


def merge_unless_all_have_roots(
    moments: Iterator[ClassMoments], n_classes: int
) -> tuple[ClassMoments | None, list[ClassMoments]]:
    """The sum of all moments and no others; or None and the moments of each node.

    Nodes with fewer rows than features send roots, of which scatter matrices are
    products. Where all do, these are returned as they are: in the few coordinates of
    the span of all their rows matrices are small.
    """
    with_roots: list[ClassMoments] = []
    for of_node in moments:
        if of_node.roots is None:
            return merge_as_matrices(
                chain(with_roots, [of_node], moments), n_classes
            ), []
        with_roots.append(of_node)
    return None, with_roots


def merge_as_matrices(moments: Iterable[ClassMoments], n_classes: int) -> ClassMoments:
    """The sum of moments, as matrices of second moments where they have roots."""
    return merge_moments(of_node.with_matrices(n_classes) for of_node in moments)


@dataclass(frozen=True, eq=False, kw_only=True)
class Sums:
    """What all nodes replied to "moments", summed."""

    losses: list[NodeLoss]  # by class where weights of classes are not known to nodes
    merged: ClassMoments
    classes: np.ndarray
    form: PooledForm  # what classifiers are in sums
    scaled: bool  # nodes scale features: weights are penalized whatever the units
    agreed_class_weight: str | list | None  # as messages have it; None: 1 of each
    span: Span | None  # whose coordinates features are in; None: those of the rows
    penalty: Penalty  # in those coordinates
    kurtosis_of_nodes: dict[str, int]  # those whose rows lie far outside of their class
    # By name of the node, see NodeSums.constants; other nodes are not in it.
    constants: Mapping[str, np.ndarray]
    # By name of the node, see NodeSums.neglected; other nodes are not in it.
    neglected: Mapping[str, np.ndarray]
    moments_of_nodes: list[ClassMoments]  # of features as they are, without products

    @cached_property
    def class_weight(self) -> np.ndarray | None:
        """Return the weight of a row of each class, (n_classes,); None: 1.

        "balanced" is n / (C n_c) of n rows in all, n_c of class c, and C classes that
        have rows, as in scikit-learn.
        """
        if self.agreed_class_weight is None:
            return None
        if self.agreed_class_weight == "balanced":
            counts = self.merged.class_counts(len(self.classes))
            return ratio(counts.sum() / np.count_nonzero(counts), counts, 1.0)
        return weights_of(self.agreed_class_weight, self.classes)

    @property
    def n_features(self) -> int:
        return self.merged.n_features if self.span is None else len(self.span.center)

    def class_weighted_losses(self) -> list[NodeLoss]:
        return [loss.sum_classes(self.class_weight) for loss in self.losses]

    def likelihood(self, losses: Sequence[NodeLoss], digest: str) -> Likelihood:
        """The likelihood of these losses, which is cached by their digest."""
        return cached_call(
            _likelihood, sums=Hashed(content=(self, losses), digest=digest)
        )

    def digest(self, losses: Sequence[NodeLoss]) -> str:
        """A hash of all that the likelihood of these losses follows from."""
        return digest(
            self.merged,
            # Scatters are summed in the former.
            [replace(loss, moments=loss.moments.drop_scatter()) for loss in losses],
            len(self.classes),
            self.class_weight,
            self.scaled,
            self.penalty.C,
            self.penalty.zero_row,
            self.span,
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class Hashed:
    """An argument that caches know by a digest: they hash its pickle."""

    content: Any
    digest: str

    def __reduce__(self) -> tuple:
        return str, (self.digest,)


def _likelihood(sums: Hashed) -> Likelihood:
    """The likelihood of sums, with the slope of nodes' gradients.

    Covariances that are found at its first evaluation stay with it.
    """
    of_sums, losses = sums.content
    uncorrected = Likelihood.uncorrected(
        losses,
        n_classes=len(of_sums.classes),
        C=of_sums.penalty.C,
        scaled=of_sums.scaled,
        merged=of_sums.merged,
        class_weight=of_sums.class_weight,
        span=of_sums.span,
        zero_row=of_sums.penalty.zero_row,
    )
    return uncorrected.with_share(losses, None)


def _other_share(
    node: LinearNode,
    reply: MomentsReply,
    *,
    moments: ClassMoments,
    classes: np.ndarray,
) -> OtherShare | None:
    """Return the share that a node's model expects to be another, if it is far off.

    The derivative of the log-loss by an intercept is the sum over rows of the class's
    probability, less the number of its rows. It is 0 for models that were fitted to
    these rows. None also where the model weighs classes, or predicts no probabilities.
    """
    has_gradient = reply.factor is not None and reply.class_weight is None
    if not has_gradient or not node.is_softmax or node.known_classes.sum() < 2:
        return None
    columns = indices_of(reply.labels, classes)
    gradient = _gradient_in(reply, columns=columns, n_classes=len(classes))
    if gradient.ndim > 2:  # one for the rows of each class
        gradient = gradient.sum(axis=0)
    counts = moments.class_counts(len(classes))[node.known_columns]
    return OtherShare.from_excess(
        gradient[-1] / counts.sum(),
        counts=counts,
        labels=classes[node.known_columns].tolist(),
    )


def _by_all_classes(
    by_class: np.ndarray, *, columns: np.ndarray, n_classes: int
) -> np.ndarray:
    """Arrays by a node's classes as arrays by all classes, zero where it has none."""
    by_all = np.zeros((n_classes, *by_class.shape[1:]))
    by_all[columns[columns >= 0]] = by_class[columns >= 0]
    return by_all
