"""The linear stage of GEMS on arrays: spaces of all nodes, and a point in them."""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..federation import Node, inverse_temperature
from ..local import indices_of
from ..messages import Message
from ..moments import Likelihood
from ..networks import HiddenLayers, Network
from ..pooled import PooledForm
from ..spaces import (
    Construction,
    Criterion,
    Geometry,
    GoodEnoughSpace,
    Intersection,
    NoSpaceError,
    SpaceProfile,
    intersect,
)
from ._further import Further

# scale_logits="auto": the ratio of logit sizes from which trainers, not data, differ.
AUTO_SCALE_RATIO = 3.0
# How far a factor may take a model, in squared radii: the rest is for rounding, which
# differs between processors and orders of memory.
_INSIDE = 1.0 - 1e-9


@dataclass(frozen=True, eq=False)
class LinearNode:
    """A node's linear model, as the server knows it."""

    name: str
    W: np.ndarray  # (n_features + 1, n_classes), the intercepts in the last row
    known: np.ndarray  # (n_classes,), bool: classes that the node has seen
    n_rows: int  # that judge models
    row_columns: np.ndarray  # classes of its rows, as indices of all
    hidden: HiddenLayers | None = None  # that its model is over; None: those of all
    has_model: bool = True

    @property
    def own_columns(self) -> np.ndarray:
        return np.flatnonzero(self.known)

    def labels(self, columns: np.ndarray, classes: np.ndarray) -> dict:
        """Some of its classes in messages, and their columns in models of all."""
        return {"labels": classes[columns].tolist(), "columns": columns}


def linear_node(node: Node, network: Network, classes: np.ndarray) -> LinearNode:
    """A node with a linear model: its own, or its last layer over merged ones."""
    aligned = network.aligned(classes)
    columns = indices_of(node.row_counts["labels"], classes)
    return LinearNode(
        node.name,
        aligned.last,
        aligned.seen,
        node.n_judging,
        columns[columns >= 0],
        HiddenLayers.of(aligned) if aligned.n_hidden_layers else None,
        network.has_classifier,
    )


@dataclass(frozen=True, eq=False)
class LinearMerge:
    """One linear model made of those of the nodes."""

    W: np.ndarray  # the point found, its logits calibrated but for `factor`
    # None, as the next two, where no spaces were built.
    profiles: list[SpaceProfile] | None = None
    spaces: list[GoodEnoughSpace] | None = None
    intersection: Intersection | None = None
    scales: np.ndarray | None = None  # factors (n_nodes,) on the spaces in replies
    likelihood: Likelihood | None = None  # that the point maximises, if one
    form: PooledForm | None = None  # what that point is as a function of sums
    factor: float = 1.0
    further: Further | None = None
    judged: np.ndarray | None = None  # by which nodes of another rule are found

    @property
    def is_estimated(self) -> bool:
        """Whether rows are known by sums that do not say all that the model needs."""
        if self.likelihood is None or self.likelihood.loss.n_classes == 1:
            return False
        return not self.form.is_exact


@dataclass(frozen=True, eq=False)
class LinearStage:
    """How linear models are merged; see GEMSLogisticAggregator for what is not here."""

    geometry: Geometry
    criterion: Criterion
    construction: Construction
    epsilons: list  # one per node, or "auto"
    intersection: str
    node_weight: np.ndarray | None  # (n_nodes,)
    scale_logits: bool | str
    seed: int | None  # of directions, the same for all nodes: order must not matter
    log: Callable[[str], None]
    min_cluster_size: int  # of a class, at least, in what replies are made of
    # Plan calibrate(W, nodes, classes) of the factor on logits where no node has rows.
    calibrate: Callable[..., Generator] | None
    one_summary: bool  # the only node is a summary, its space on one scale

    # Whether the nodes' own models are needed, over the layers below.
    merges_models: ClassVar[bool] = True

    def plan(
        self, nodes: list[LinearNode], classes: np.ndarray, hidden: HiddenLayers
    ) -> Generator:
        """Plan whose result is a LinearMerge: what the server does."""
        scale_logits = yield from self._decide_scaling(nodes, hidden)
        profiles, spaces = yield from self.spaces_plan(
            nodes, classes, hidden, scale_logits
        )
        weight = self.node_weight
        found = intersect(spaces, method=self.intersection, node_weight=weight)
        W = found.point
        if self.one_summary:
            W = profiles[0].scale * W
        if len(nodes) > 1:
            columns = {node.name: node.row_columns for node in nodes}
            factor = yield from calibration_plan(W, columns, classes, hidden)
            if factor is None:
                factor = yield from self.calibrate(W, nodes, classes)
            if found.found and not self.criterion.ignores_scale and not scale_logits:
                # The spaces promise a loss of these very logits.
                factor = _kept_inside(spaces, W, factor)
            W = W * factor
        if W.shape[1] == 2:
            # What two classes have in common says nothing, and is not published.
            W = (W[:, 1:] - W[:, :1]) * [-0.5, 0.5]
        return LinearMerge(W, profiles, spaces, found)

    def spaces_plan(
        self,
        nodes: list[LinearNode],
        classes: np.ndarray,
        hidden: HiddenLayers,
        scale_logits: bool,
    ) -> Generator:
        """Plan whose result is (profiles, spaces), of logits of unit size if scaled."""
        replies = yield {
            node.name: Message.of(
                "space",
                **_model_of(node, hidden),
                n_others=self._n_others(node),
                geometry=self.geometry.as_settings(),
                criterion=self.criterion.as_settings(),
                construction=self.construction.wire_name,
                scale_logits=scale_logits,
                n_directions=self.construction.n_directions,
                seed=self.seed,
                hidden=hidden.as_content(),
                min_cluster_size=self.min_cluster_size,
            )
            for node in nodes
        }
        profiles = []
        for node, (_, reply) in zip(nodes, replies, strict=True):
            own = SpaceProfile.from_arrays(
                reply.content, self.criterion, self.construction.wire_name
            )
            profiles.append(_of_all_classes(own, node.known))
            self.log(
                f"node {len(profiles)} of {len(nodes)} ({node.name}): "
                f"{node.n_rows} rows, {self.criterion.name} {profiles[-1].score:.3f}"
            )
        spaces = []
        for node, profile, epsilon in zip(nodes, profiles, self.epsilons, strict=True):
            try:
                spaces.append(profile.space(epsilon, self.construction.max_radius))
            except ValueError as error:
                kind = NoSpaceError if isinstance(error, NoSpaceError) else ValueError
                raise kind(f"node {node.name!r}: {error}") from error
        return profiles, spaces

    def spaces_around_plan(
        self, W: np.ndarray, nodes: list[LinearNode], classes: np.ndarray
    ) -> Generator:
        """Have the nodes build their spaces, on the scale that these are met on."""
        scaling = yield from self._decide_scaling(nodes, HiddenLayers())
        return (yield from self.spaces_plan(nodes, classes, HiddenLayers(), scaling))[1]

    def words_of_empty(self, merge: LinearMerge, names: list[str]) -> str:
        """Why nothing was found, in three lines: how far, who, and what would do."""
        found = merge.intersection
        far = np.sqrt(found.max_distance)
        if found.empty:
            start = "The good-enough spaces do not intersect: "
        else:
            start = "It cannot be decided whether the good-enough spaces intersect: "
            why = "they all but touch" if far < 1.01 else "rounding is too coarse"
            start += f"{why}, "
        start += (
            f"every model is at least {np.sqrt(found.lower_bound):.4g} radii from one "
            f"of them, this one at most {far:.4g}."
        )
        pair = found.worst_conflict
        i, j = pair or np.argsort(-found.weights, kind="stable")[:2]
        how = "conflict most" if pair else "stand most in the way"
        who = f"Nodes {names[i]!r} and {names[j]!r} {how}."
        if found.empty and not pair:
            some = "" if found.all_pairs_are_tried else " of those in question"
            who = f"Any two nodes{some} agree, but not all together. {who}"
        enough = self.epsilon_that_does(merge)
        what = "No epsilon would do:"
        if enough is not None:
            what = f"epsilon={enough:g} would do for all, or"
        return f"{start}\n{who}\n{what} leave a node out."

    def epsilon_that_does(self, merge: LinearMerge) -> float | None:
        """An epsilon at which the point that was found is in all spaces."""
        point, scales = merge.intersection.point, merge.scales
        scales = np.ones(len(merge.spaces)) if scales is None else scales
        levels = [
            profile.radii.level(space.distance(point) / scale)
            for profile, space, scale in zip(
                merge.profiles, merge.spaces, scales, strict=True
            )
        ]
        # To the safe side of four digits.
        if self.criterion.greater_is_better:
            enough = np.floor(min(levels) * 1e4 * (1 + 1e-12)) / 1e4
        else:
            size = 10.0 ** (3 - np.floor(np.log10(max(levels))))
            enough = np.ceil(max(levels) * size * (1 - 1e-12)) / size
        return float(enough) if enough > 0 and np.isfinite(enough) else None

    def score_requests(
        self,
        W: np.ndarray,
        merge: LinearMerge,
        nodes: list[LinearNode],
        classes: np.ndarray,
        hidden: HiddenLayers,
    ) -> dict[str, Message]:
        """What nodes are asked for the report: how good W is, and a model beside it."""
        # On rows of classes that a node knows; see `_compared` for what is beside.
        # Without spaces nodes have not said how good their own models are.
        known = merge.profiles or [None] * len(nodes)
        return {
            node.name: Message.of(
                "score",
                W=W,
                **node.labels(node.own_columns, classes),
                criterion=self.criterion.as_settings(),
                hidden=hidden.as_content(),
                beside={
                    **self._compared(node, profile, k, merge),
                    "hidden": (node.hidden or hidden).as_content(),
                },
            )
            for k, (node, profile) in enumerate(zip(nodes, known, strict=True))
        }

    def _compared(self, node, profile, k: int, merge: LinearMerge) -> dict:
        """The point on a node's own scale; the node's own model, if it has no space."""
        if profile is None:
            return {"W": node.W[:, node.known], "columns": np.arange(node.known.sum())}
        # Of classes that it never saw a space may say nothing.
        compared = np.arange(len(node.known))
        if profile.outputs is not None:
            compared = np.flatnonzero(profile.outputs)
        point = merge.intersection.point
        if merge.scales is not None:
            point = point / merge.scales[k]
        W = profile.scale * point[:, compared]
        return {"W": W, "columns": np.searchsorted(compared, node.own_columns)}

    def _n_others(self, node: LinearNode) -> int:
        """What a node has to know of the number of classes that others have seen."""
        n_others = int((~node.known).sum())
        return n_others if self.criterion.counts_classes else min(n_others, 1)

    def _decide_scaling(
        self, nodes: list[LinearNode], hidden: HiddenLayers
    ) -> Generator:
        if len(nodes) == 1:
            return self.one_summary and self.geometry.in_logits
        if self.scale_logits != "auto":
            return self.scale_logits
        if self.geometry.in_logits:
            return True
        replies = yield {
            node.name: Message.of(
                "size", **_model_of(node, hidden), hidden=hidden.as_content()
            )
            for node in nodes
            # A constant model has no scale to compare.
            if np.ptp(node.W[:, node.known], axis=1).any()
        }
        sizes = [reply.content["size"] for _, reply in replies]
        return bool(sizes) and max(sizes) > AUTO_SCALE_RATIO * min(sizes)


def _model_of(node: LinearNode, hidden: HiddenLayers) -> dict:
    """The node's own model; over merged layers the one that it has there."""
    if hidden.weights:
        return {"W": node.W[:, node.known]}
    return {"model": "own"}


def _of_all_classes(profile: SpaceProfile, known: np.ndarray) -> SpaceProfile:
    """A profile of all classes; a last output beside its own is that of each other."""
    n_own = int(known.sum())
    places = np.full(len(known), n_own if profile.center.shape[1] > n_own else -1)
    places[known] = np.arange(n_own)
    return profile.of_outputs(places)


def calibration_plan(
    W: np.ndarray,
    columns: Mapping[str, np.ndarray],
    classes: np.ndarray,
    hidden: HiddenLayers,
) -> Generator:
    """The factor on logits under which labels of the nodes' rows are likeliest.

    ``columns`` are by name the classes of these rows, as indices; None: no rows.
    """
    if W.shape[1] < 2:
        return 1.0

    def request(factors):
        return {
            name: Message.of(
                "evaluate",
                W=W,
                labels=classes[own].tolist(),
                columns=own,
                factors=factors,
                hidden=hidden.as_content(),
            )
            for name, own in columns.items()
        }

    return (yield from inverse_temperature(request))


def _kept_inside(spaces, W: np.ndarray, factor: float) -> float:
    """The factor on a model in all spaces that is next to another and stays in them."""
    # The distances are parabolas in the factor.
    low, at_one, high = (
        np.array([space.normalized_squared_distance(f * W) for space in spaces])
        for f in (0.0, 1.0, 2.0)
    )
    square = (low - 2 * at_one + high) / 2
    slope = at_one - low - square
    root = np.sqrt(np.maximum(slope**2 - 4 * square * (low - _INSIDE), 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        ends = (-slope - root) / (2 * square), (-slope + root) / (2 * square)
    least = np.where(square > 0, ends[0], 0.0).max()
    most = np.where(square > 0, ends[1], np.inf).min()
    return float(np.clip(factor, min(least, 1.0), max(most, 1.0)))
