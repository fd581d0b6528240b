"""The linear stage of GEMS on arrays: spaces of all nodes, and a point in them."""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from ..federation import Federation, inverse_temperature
from ..local import indices_of
from ..messages import Message
from ..moments import Likelihood
from ..networks import HiddenLayers
from ..pooled import PooledForm
from ..progress import say
from ..spaces import (
    Construction,
    Criterion,
    Geometry,
    GoodEnoughSpace,
    Intersection,
    NoSpaceError,
    SpaceProfile,
    factor_kept_inside,
    intersect,
)
from ._further import Further

# scale_logits="auto": the ratio of logit sizes from which trainers, not data, differ.
AUTO_SCALE_RATIO = 3.0


@dataclass(frozen=True, eq=False)
class LinearNode:
    name: str
    W: np.ndarray  # (n_features + 1, n_classes), the intercepts in the last row
    known: np.ndarray  # (n_classes,), bool: classes that the node has seen
    n_rows: int  # that judge models
    row_columns: np.ndarray  # classes of its rows, as indices of all
    hidden: HiddenLayers | None = None  # that its model is over; None: those of all
    has_model: bool = True
    # (n_features,), the row that its steps take to zero; None: it has no steps, or they
    # do not show it.
    center: np.ndarray | None = None

    @property
    def own_columns(self) -> np.ndarray:
        return np.flatnonzero(self.known)

    @property
    def own_W(self) -> np.ndarray:
        return self.W[:, self.known]


@dataclass(frozen=True, eq=False)
class Asked:
    nodes: list[LinearNode]
    classes: np.ndarray
    hidden: HiddenLayers = field(default_factory=HiddenLayers)
    # Of the numbers that nodes may tell about hidden layers, the part for one message.
    share: float = 1.0

    @classmethod
    def of(cls, federation: Federation, classes: np.ndarray) -> "Asked":
        # Nodes of one class may have models without any layers.
        depth = max(node.network.n_hidden_layers for node in federation.nodes)
        nodes = []
        for node in federation.nodes:
            aligned = node.network.with_empty_layers(depth).aligned(classes)
            columns = indices_of(node.row_counts["labels"], classes)
            hidden = HiddenLayers.of(aligned) if depth else None
            coordinates = node.network.coordinates
            nodes.append(
                LinearNode(
                    name=node.name,
                    W=aligned.last,
                    known=aligned.seen,
                    n_rows=node.n_judging,
                    row_columns=columns[columns >= 0],
                    hidden=hidden,
                    has_model=node.network.has_classifier,
                    center=None if coordinates is None else coordinates.center,
                )
            )
        return cls(nodes, classes)

    @property
    def names(self) -> list[str]:
        return [node.name for node in self.nodes]

    def messages(self, task: str, own: Callable[[LinearNode], dict], **common) -> dict:
        common["hidden"] = self.hidden.as_content()
        return {n.name: Message.of(task, **common, **own(n)) for n in self.nodes}

    def labels(self, columns: np.ndarray) -> dict:
        return {"labels": self.classes[columns].tolist(), "columns": columns}

    def labels_of_rows(self, node: LinearNode) -> dict:
        return self.labels(np.unique(node.row_columns))

    def model_of(self, node: LinearNode) -> dict:
        return {"W": node.own_W} if self.hidden.weights else {"model": "own"}


@dataclass(frozen=True, eq=False)
class LinearMerge:
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
    def C(self) -> float | None:
        """Inverse strength of the penalty on the point; None where it has none."""
        is_of_sums = self.form is not None and self.form.kind is not None
        if self.likelihood is None or is_of_sums:
            return None
        return self.likelihood.C


@dataclass(frozen=True, eq=False, kw_only=True)
class LinearStage:
    """How linear models are merged; see GEMSLogisticAggregator for what is not here."""

    geometry: Geometry
    criterion: Criterion
    construction: Construction
    asked_space: Mapping  # what nodes are asked of spaces, whichever these are
    epsilons: list  # one per node, or "auto"
    intersection: str
    node_weight: np.ndarray | None  # (n_nodes,)
    scale_logits: bool | str
    # Plan calibrate(W, asked) of the factor on logits where no node has rows.
    calibrate: Callable[..., Generator] | None = None
    one_summary: bool = False  # the only node is a summary, its space on one scale

    # Whether the nodes' own models are needed, over the layers below.
    merges_models: ClassVar[bool] = True

    def plan(self, asked: Asked) -> Generator:
        scale_logits = yield from self._decide_scaling(asked)
        profiles, spaces = yield from self.spaces_plan(asked, scale_logits)
        weight = self.node_weight
        found = intersect(spaces, method=self.intersection, node_weight=weight)
        W = found.point
        if self.one_summary:
            W = profiles[0].scale * W
        if len(asked.nodes) > 1:
            columns = {node.name: node.row_columns for node in asked.nodes}
            known = columns, asked.classes, asked.hidden
            factor = yield from calibration_plan(W, *known)
            if factor is None:
                factor = yield from self.calibrate(W, asked)
            if found.found and not self.criterion.ignores_scale and not scale_logits:
                # The spaces promise a loss of these very logits.
                factor = factor_kept_inside(spaces, W, factor)
            W = W * factor
        ones = np.ones(len(spaces))
        return LinearMerge(of_two(W), profiles, spaces, found, ones)

    def spaces_plan(self, asked: Asked, scale_logits: bool) -> Generator:
        """Plan whose result is (profiles, spaces), of logits of unit size if scaled."""

        def own(node):
            n_others = int((~node.known).sum())
            if not self.criterion.counts_classes:
                n_others = min(n_others, 1)
            return asked.model_of(node) | {"n_others": n_others}

        common = {**self.asked_space, "scale_logits": scale_logits}
        replies = yield asked.messages("space", own, **common)
        profiles, spaces, how = [], [], (self.criterion, self.construction.wire_name)
        for node, (_, reply) in zip(asked.nodes, replies, strict=True):
            profile = SpaceProfile.from_arrays(reply.content, *how)
            profiles.append(_of_all_classes(profile, node.known))
            say(
                f"node {len(profiles)} of {len(asked.nodes)} ({node.name}): "
                f"{node.n_rows} rows, {self.criterion.name} {profiles[-1].score:.3f}"
            )
        found = zip(asked.names, profiles, self.epsilons, strict=True)
        for name, profile, epsilon in found:
            try:
                spaces.append(profile.space(epsilon, self.construction.max_radius))
            except ValueError as error:
                kind = NoSpaceError if isinstance(error, NoSpaceError) else ValueError
                raise kind(f"node {name!r}: {error}") from None
        return profiles, spaces

    def spaces_around_plan(self, W: np.ndarray, asked: Asked) -> Generator:
        scaling = yield from self._decide_scaling(asked)
        return (yield from self.spaces_plan(asked, scaling))[1]

    def words_of_empty(self, merge: LinearMerge, names: list[str]) -> str:
        """Why nothing was found, in three lines: how far, who, and what would do."""
        found = merge.intersection
        far, least = np.sqrt(found.max_distance), np.sqrt(found.lower_bound)
        start = "The good-enough spaces do not intersect: "
        if not found.empty:
            why = "they all but touch" if far < 1.01 else "rounding is too coarse"
            start = "It cannot be decided whether the good-enough spaces intersect: "
            start += f"{why}, "
        start += f"every model is at least {least:.4g} radii from one of them, "
        start += f"this one at most {far:.4g}."
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
        point = merge.intersection.point
        found = zip(merge.profiles, merge.spaces, merge.scales, strict=True)
        levels = [own.radii.level(s.distance(point) / scale) for own, s, scale in found]
        # To the safe side of four digits.
        if self.criterion.greater_is_better:
            enough = np.floor(min(levels) * 1e4 * (1 + 1e-12)) / 1e4
        else:
            size = 10.0 ** (3 - np.floor(np.log10(max(levels))))
            enough = np.ceil(max(levels) * size * (1 - 1e-12)) / size
        return float(enough) if enough > 0 and np.isfinite(enough) else None

    def score_requests(self, W: np.ndarray, merge: LinearMerge, asked: Asked) -> dict:
        """What nodes are asked for the report: how good W is, and a model beside it."""
        places = {name: k for k, name in enumerate(asked.names)}

        def own(node):
            # The node's own model, if it has not said how good that is.
            columns, model = np.arange(node.known.sum()), node.own_W
            if merge.profiles:  # else the point on its own scale
                k = places[node.name]
                profile, compared = merge.profiles[k], np.arange(len(node.known))
                if profile.outputs is not None:  # of others a space says nothing
                    compared = np.flatnonzero(profile.outputs)
                point = merge.intersection.point / merge.scales[k]
                model = profile.scale * point[:, compared]
                columns = np.searchsorted(compared, node.own_columns)
            hidden = (node.hidden or asked.hidden).as_content()
            beside = {"W": model, "columns": columns, "hidden": hidden}
            # On rows of classes that a node knows.
            return asked.labels(node.own_columns) | {"beside": beside}

        criterion = self.criterion.as_settings()
        return asked.messages("score", own, W=W, criterion=criterion)

    def _decide_scaling(self, asked: Asked) -> Generator:
        if len(asked.nodes) == 1:
            return self.one_summary and self.geometry.in_logits
        if self.scale_logits != "auto":
            return self.scale_logits
        if self.geometry.in_logits:
            return True
        # A constant model has no scale to compare.
        some = [node for node in asked.nodes if np.ptp(node.own_W, axis=1).any()]
        replies = yield replace(asked, nodes=some).messages("size", asked.model_of)
        sizes = [reply.content["size"] for _, reply in replies]
        return bool(sizes) and max(sizes) > AUTO_SCALE_RATIO * min(sizes)


def of_two(W: np.ndarray) -> np.ndarray:
    """A model without what two classes have in common, which says nothing."""
    return (W[:, 1:] - W[:, :1]) * [-0.5, 0.5] if W.shape[1] == 2 else W


def _of_all_classes(profile: SpaceProfile, known: np.ndarray) -> SpaceProfile:
    """A profile of all classes; a last output beside its own is that of each other."""
    n_own = int(known.sum())
    places = np.full(len(known), n_own if profile.center.shape[1] > n_own else -1)
    places[known] = np.arange(n_own)
    return profile.of_outputs(places)


def calibration_plan(W: np.ndarray, at: Mapping, classes, hidden) -> Generator:
    """The likeliest factor on logits, by each node's rows of columns `at`; or None."""
    if W.shape[1] < 2:
        return 1.0

    def request(factors):
        common = {"W": W, "factors": factors, "hidden": hidden.as_content()}
        rows = {k: {"labels": classes[v].tolist(), "columns": v} for k, v in at.items()}
        return {k: Message.of("evaluate", **rows[k], **common) for k in at}

    return (yield from inverse_temperature(request))
