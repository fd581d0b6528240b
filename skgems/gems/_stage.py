"""The linear stage of GEMS on arrays: spaces of all nodes, and a point in them.

A linear model is a matrix W of shape (n_features + 1, n_classes), with the intercepts
in the last row; the logits of a row x are ``x @ W[:-1] + W[-1]``. Around the model W_k
of node k lie the models that are still good enough on its rows: its space, those with
``d_k(W, W_k) <= R_k``. The stage asks the nodes for their spaces, finds a point W in
all of them, and asks for the factor f > 0 under which the labels of all rows are
likeliest by the logits ``f * (x @ W[:-1] + W[-1])``.
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from ..asking import ask_inverse_temperature, reason_of_trust
from ..base import warn_user
from ..compat import say
from ..messages import Message
from ..moments import (
    ROUNDING_OF_SUMS,
    Contradictions,
    Likelihood,
    PooledForm,
    Trust,
)
from ..networks import LayersBelow, as_two_logits
from ..parties import Federation
from ..spaces import (
    EmptyIntersectionWarning,
    GoodEnoughSpace,
    Intersection,
    NoSpaceError,
    SpaceProfile,
    factor_kept_inside,
    intersect,
)
from ._further import Refinement
from ._linear_parameters import LinearParameters
from ._problem import LinearModels, LinearNode, absorb_constants, linear_nodes

# With scale_logits="auto": ratio of the sizes of two nodes' logits (root mean squares)
# above which it is their trainers that differ, as one penalizes less, and not the rows.
AUTO_SCALE_RATIO = 3.0


@dataclass(frozen=True, eq=False, kw_only=True)
class NodeSpaces:
    """Good-enough spaces of all nodes, of their epsilons, and of every epsilon."""

    profiles: list[SpaceProfile]  # over all classes
    spaces: list[GoodEnoughSpace]


@dataclass(frozen=True, eq=False, kw_only=True)
class LinearMerge:
    """The merged linear model, and how it was found."""

    W: np.ndarray  # the point found; times `factor` its logits are calibrated
    # None, as the next two, where no spaces were built.
    profiles: list[SpaceProfile] | None = None
    spaces: list[GoodEnoughSpace] | None = None
    intersection: Intersection | None = None
    scales: np.ndarray | None = None  # (n_nodes,), factors on the spaces in replies
    likelihood: Likelihood | None = None  # that the point maximizes, if one
    form: PooledForm | None = None  # what the point is as a function of sums
    factor: float = 1.0
    refinement: Refinement | None = None  # by further messages, if there were any
    # The likeliest model of one message, by which nodes of another rule are found.
    W_of_one_message: np.ndarray | None = None
    # Of the nodes some of whose rows lie far outside of their class.
    kurtosis_of_nodes: Mapping[str, int] = field(default_factory=dict)
    is_consensus: bool = False  # whether the point is the one that moves all least
    # By name of the node: what stands for features that it alone drops by name.
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)
    # By name of the node: features that vary there and have no weight in its model.
    neglected: Mapping[str, np.ndarray] = field(default_factory=dict)
    # What was found of the nodes, if some may lie; what the likelihood is of is then
    # the kept nodes. None: all are trusted.
    trust: Trust | None = None
    # Of nodes that are all trusted, whose class means contradict those of the others.
    contradictions: Contradictions | None = None

    def names_among(self, names: Sequence[str]) -> Sequence[str]:
        """Return the names of nodes that the likelihood is of."""
        return names if self.trust is None else self.trust.kept_names(names)

    def form_of_kept_nodes(self, names: Sequence[str]) -> PooledForm | None:
        """Return the form, which is not exact if rows of some nodes do not count."""
        if self.form is None or self.trust is None:
            return self.form
        reason = self.form.reason or reason_of_trust(names, self.trust)
        return replace(self.form, reason=reason)

    @property
    def is_exact(self) -> bool:
        """Report whether the point is the pooled model itself, a function of sums."""
        return self.form is not None and self.form.is_exact

    @property
    def C(self) -> float | None:
        """Inverse strength of the penalty on the point; None where it has none."""
        is_of_sums = self.form is not None and self.form.kind is not None
        if self.likelihood is None or is_of_sums:
            return None
        return self.likelihood.C


@dataclass(frozen=True, eq=False, kw_only=True)
class LinearStage(LinearModels):
    """Linear models of all nodes, and how a method merges them, by their spaces."""

    method: LinearParameters
    epsilons: list  # one per node, or "auto"
    node_weight: np.ndarray | None  # (n_nodes,); None: as the method weighs nodes
    federation: Federation

    @classmethod
    def from_federation(
        cls, method: LinearParameters, federation: Federation, classes: np.ndarray
    ) -> Self:
        """Return the models of nodes, with columns for ``classes``."""
        nodes = linear_nodes(federation, classes)
        return cls(
            method=method,
            nodes=nodes,
            classes=classes,
            unused=federation.unused,
            epsilons=method.epsilons(len(nodes)),
            node_weight=method.weights(nodes),
            federation=federation,
        )

    def plan(self) -> Generator:
        """Plan whose result is a LinearMerge."""
        scale_logits = yield from self._decide_scaling()
        node_spaces = yield from self.spaces_plan(scale_logits)
        spaces = node_spaces.spaces
        intersection = intersect(
            spaces, method=self.method.intersection, node_weight=self.node_weight
        )
        W = intersection.point
        if self._is_one_summary:
            # The space is one of logits of unit size: back to those of the node.
            W = node_spaces.profiles[0].scale * W
        if len(self.nodes) > 1:
            factor = yield from calibration_plan(
                W,
                at={node.name: node.row_columns for node in self.nodes},
                classes=self.classes,
                hidden=self.hidden,
            )
            if factor is None:
                factor = yield from self.factor_without_rows_plan(W)
            ignores_scale = self.method.spaces.criterion.ignores_scale
            promises_losses = not ignores_scale and not scale_logits
            if intersection.found and promises_losses:
                # The spaces promise a loss of these very logits.
                factor = factor_kept_inside(spaces, W=W, factor=factor)
            W = W * factor
        return LinearMerge(
            W=remove_common_logit(W),
            profiles=node_spaces.profiles,
            spaces=spaces,
            intersection=intersection,
            scales=np.ones(len(spaces)),
            is_consensus=self.method.intersection == "consensus",
        )

    @property
    def _is_one_summary(self) -> bool:
        """Report whether the only node is a summary, whose space has one scale."""
        is_over_layers = bool(self.hidden.weights)
        is_summary = self.federation.nodes[0].record is not None
        return len(self.nodes) == 1 and is_summary and not is_over_layers

    def factor_without_rows_plan(self, W: np.ndarray) -> Generator:
        """Plan of the factor on logits where no node has rows to judge them by."""
        raise NotImplementedError

    def spaces_plan(self, scale_logits: bool) -> Generator:
        """Plan whose result is NodeSpaces, of logits of unit size if these are scaled.

        A node is told how many classes it has not seen, and not which. Where the
        criterion does not count classes it is told whether there are any.
        """
        criterion = self.method.spaces.criterion
        replies = yield self.requests(
            "space",
            [self._space_content(node) for node in self.nodes],
            **self.method.terms.space_settings(self.method.seed),
            scale_logits=scale_logits,
        )
        profiles: list[SpaceProfile] = []
        for node, (_, reply) in zip(self.nodes, replies, strict=True):
            profile = SpaceProfile.from_arrays(
                reply.as_content(),
                criterion=criterion,
                construction=self.method.spaces.construction.wire_name,
            )
            profiles.append(with_all_classes(profile, node.known_classes))
            say(
                f"node {len(profiles)} of {len(self.nodes)} ({node.name}): "
                f"{node.n_rows} rows, {criterion.name} {profiles[-1].score:.3f}"
            )
        return NodeSpaces(profiles=profiles, spaces=self._spaces_of(profiles))

    def _space_content(self, node: LinearNode) -> dict:
        n_others = int((~node.known_classes).sum())
        if not self.method.spaces.criterion.counts_classes:
            n_others = min(n_others, 1)
        return {**self.model_content(node), "n_others": n_others}

    def _spaces_of(self, profiles: Sequence[SpaceProfile]) -> list[GoodEnoughSpace]:
        """The spaces of the nodes' epsilons; errors name the node."""
        max_radius = self.method.spaces.construction.max_radius
        spaces = []
        for name, profile, epsilon in zip(
            self.names, profiles, self.epsilons, strict=True
        ):
            try:
                spaces.append(profile.space(epsilon, max_radius))
            except NoSpaceError as error:
                spaces.append(self._nearest_space(profile, name=name, error=error))
            except ValueError as error:
                raise ValueError(f"node {name!r}: {error}") from None
        return spaces

    def _nearest_space(
        self, profile: SpaceProfile, *, name: str, error: NoSpaceError
    ) -> GoodEnoughSpace:
        """Return the space of the epsilon that a node's models can reach, and warn.

        NoSpaceError where they reach none, or where a model that misses is of no use.
        """
        spaces = self.method.spaces
        epsilon = profile.radii.best_epsilon()
        if epsilon is None or spaces.on_empty == "raise":
            raise NoSpaceError(f"node {name!r}: {error}") from None
        if spaces.on_empty == "warn":
            warn_user(
                f"node {name!r}: {error} Its space here is that of epsilon="
                f"{epsilon:.4g}, so the aggregate can miss epsilon at this node.",
                EmptyIntersectionWarning,
            )
        return profile.space(epsilon, spaces.construction.max_radius)

    def spaces_around_plan(self, W: np.ndarray) -> Generator:
        """Plan of the spaces of all nodes on the scale of a fitted aggregate W."""
        scale_logits = yield from self._decide_scaling()
        node_spaces = yield from self.spaces_plan(scale_logits)
        return node_spaces.spaces

    def explain_empty(self, merge: LinearMerge) -> str:
        """Explain an empty intersection in three lines: how far, who, a remedy."""
        return "\n".join(
            (
                _distance_line(merge.intersection),
                _conflict_line(merge.intersection, self.names),
                self._advice_line(merge),
            )
        )

    def _advice_line(self, merge: LinearMerge) -> str:
        epsilon = self.sufficient_epsilon(merge)
        if epsilon is None:
            return "They do not intersect with any epsilon. Leave a node out."
        return (
            f"With epsilon={epsilon:g} for all nodes they would intersect. Set it, or "
            "leave a node out."
        )

    def sufficient_epsilon(self, merge: LinearMerge) -> float | None:
        """An epsilon that all nodes reach at the point found; None if there is none."""
        levels = [
            profile.radii.level(space.distance(merge.intersection.point) / scale)
            for profile, space, scale in zip(
                merge.profiles, merge.spaces, merge.scales, strict=True
            )
        ]
        # Four digits, rounded to the side on which all nodes still reach the level.
        if self.method.spaces.criterion.greater_is_better:
            epsilon = np.floor(min(levels) * 1e4 * (1 + ROUNDING_OF_SUMS)) / 1e4
        else:
            unit = 10.0 ** (3 - np.floor(np.log10(max(levels))))
            epsilon = np.ceil(max(levels) * unit * (1 - ROUNDING_OF_SUMS)) / unit
        return float(epsilon) if epsilon > 0 and np.isfinite(epsilon) else None

    def score_requests(self, W: np.ndarray, merge: LinearMerge) -> dict[str, Message]:
        """Make requests for the report: how good W is, and a model beside it.

        Where spaces were built that is the point of the intersection on the node's own
        scale, which epsilon bounds; else it is the node's own model.
        """
        by_node = []
        for k, node in enumerate(self.nodes):
            if merge.profiles:
                model_content = _point_content(merge, k, node=node)
            else:
                model_content = {
                    "W": node.known_W,
                    "columns": np.arange(node.known_classes.sum()),
                }
            hidden = (node.hidden or self.hidden).as_content()
            # On rows of classes that the node knows.
            content = self.labels_content(node.known_columns)
            content["beside"] = {**model_content, "hidden": hidden}
            content["W"] = absorb_constants(W, merge.constants.get(node.name))
            by_node.append(content)
        criterion = self.method.spaces.criterion.as_settings()
        return self.requests("score", by_node, criterion=criterion)

    def _decide_scaling(self) -> Generator:
        """Plan whose result is whether logits of all nodes are brought to unit size."""
        spaces = self.method.spaces
        if len(self.nodes) == 1:
            return self._is_one_summary and spaces.geometry.in_logits
        if spaces.scale_logits != "auto":
            return spaces.scale_logits
        if spaces.geometry.in_logits:
            return True
        # A constant model has no scale to compare.
        nodes = [node for node in self.nodes if np.ptp(node.known_W, axis=1).any()]
        replies = yield replace(self, nodes=nodes).requests(
            "size", [self.model_content(node) for node in nodes]
        )
        sizes = [reply.size for _, reply in replies]
        return bool(sizes) and max(sizes) > AUTO_SCALE_RATIO * min(sizes)


def _distance_line(intersection: Intersection) -> str:
    """Say whether the spaces are proved not to intersect, and how far they are apart.

    Distances are in radii of the spaces: the largest of any node.
    """
    least = np.sqrt(intersection.lower_bound)
    farthest = np.sqrt(intersection.max_distance)
    if intersection.empty:
        return (
            "The good-enough spaces do not intersect: every model is at least "
            f"{least:.4g} times the allowed distance away from some node's model. The "
            f"model that was found is at most {farthest:.4g} times the allowed "
            "distance away from each of them."
        )
    return (
        "It cannot be decided whether the good-enough spaces intersect, since they "
        f"almost touch or rounding is too coarse: every model is at least {least:.4g} "
        "times the allowed distance away from some node's model. The model that was "
        f"found is at most {farthest:.4g} times the allowed distance away from each of "
        "them."
    )


def _conflict_line(intersection: Intersection, names: Sequence[str]) -> str:
    """The two nodes that conflict, or those that weigh most in the proof."""
    pair = intersection.worst_conflict
    if pair is not None:
        i, j = pair
        return f"Nodes {names[i]!r} and {names[j]!r} conflict most."
    i, j = np.argsort(-intersection.weights, kind="stable")[:2]
    if not intersection.empty:
        return f"Nodes {names[i]!r} and {names[j]!r} are the main obstacle."
    if intersection.all_pairs_are_tried:
        return (
            f"Any two nodes agree, but not all together. Nodes {names[i]!r} and "
            f"{names[j]!r} are the main obstacle."
        )
    return (
        "Any two of the nodes in question agree, but not all together. Nodes "
        f"{names[i]!r} and {names[j]!r} are the main obstacle."
    )


def _point_content(merge: LinearMerge, k: int, *, node: LinearNode) -> dict:
    """The point of the intersection on the scale of node k, over the classes compared.

    ``columns`` are those of the classes that the node has seen.
    """
    profile = merge.profiles[k]
    if profile.outputs is None:
        compared = np.arange(len(node.known_classes))
    else:  # a space says nothing of other outputs
        compared = np.flatnonzero(profile.outputs)
    point = merge.intersection.point / merge.scales[k]
    return {
        "W": profile.scale * point[:, compared],
        "columns": np.searchsorted(compared, node.known_columns),
    }


def remove_common_logit(W: np.ndarray) -> np.ndarray:
    """Return a model of two classes less the part that both logits share.

    Models of more classes stay as they are.
    """
    return as_two_logits(W[:, 1:] - W[:, :1]) if W.shape[1] == 2 else W


def with_all_classes(profile: SpaceProfile, known_classes: np.ndarray) -> SpaceProfile:
    """A profile over the known classes of a node, as one over all classes.

    A node that was told of unseen classes has one output more, the last, which stands
    for each class that it has not seen.
    """
    n_known = int(known_classes.sum())
    has_output_of_others = profile.center.shape[1] > n_known
    places = np.full(len(known_classes), n_known if has_output_of_others else -1)
    places[known_classes] = np.arange(n_known)
    return profile.select_outputs(places)


def calibration_plan(
    W: np.ndarray,
    at: Mapping[str, np.ndarray],
    classes: np.ndarray,
    hidden: LayersBelow,
) -> Generator:
    """Plan of the factor on logits under which the labels of nodes' rows are likeliest.

    ``at`` has for each node's name the columns of the classes of its rows. The result
    is None where no node has rows, and 1 where all logits are 0.
    """
    if W.shape[1] < 2:
        return 1.0

    def requests(factors: np.ndarray) -> dict[str, Message]:
        return {
            name: Message.of(
                "evaluate",
                labels=classes[columns].tolist(),
                columns=columns,
                W=W,
                factors=factors,
                hidden=hidden.as_content(),
            )
            for name, columns in at.items()
        }

    return (yield from ask_inverse_temperature(requests))
