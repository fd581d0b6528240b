"""The likeliest linear model for the sums that nodes send; nodes that do not fit.

With x a row, y its class, w its weight and ``p(y | x; W)`` the softmax of its logits,
the aggregate minimizes over all rows of all nodes

    sum_i -w_i log p(y_i | x_i; W)  +  |W[:-1]|^2 / (2 C)

where intercepts have no penalty, and of two classes the one weight w, for columns -w/2
and w/2, has |w|^2 / (2 C), as in LogisticRegression. The moments of the rows say what
this sum would be if rows were Gaussian, and the nodes' gradients at their own models
correct its slope where they are not (`skgems.moments.Likelihood`). With epsilon given
W has to lie in all spaces, too.
"""

from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..asking import ROUGH_TOL, TOL, common_form
from ..compat import say
from ..local import as_class_weight, cached_call
from ..messages import Message
from ..moments import (
    ClassMoments,
    Contradictions,
    Likelihood,
    NodeLoss,
    PooledForm,
    Span,
    claims_of_moments,
    contradicting_nodes,
)
from ..spaces import GoodEnoughSpace, intersect, likeliest
from ..tasks import MomentsReply
from ._bounded_search import BoundedSearch
from ._class_weights import agree_on_class_weight
from ._fit_warnings import warn_of_classes, warn_of_kinds, warn_of_shares_of_classes
from ._further import SHARES, SumOfLosses, refinement_plan
from ._penalties import Penalty, agreed_penalty, chosen_by_sums
from ._stage import LinearMerge, LinearStage, NodeSpaces, remove_common_logit
from ._sums import (
    Hashed,
    NodeSums,
    RepliesReader,
    Sums,
    heavy_nodes,
    merge_as_matrices,
    merge_unless_all_have_roots,
)
from ._trusted import TrustedReplies

# With up to so many classes a search takes seconds at most. Of more its steps beyond
# ROUGH_TOL change the log-loss on other rows by less than a hundredth.
_MANY_CLASSES = 32


@dataclass(frozen=True, eq=False, kw_only=True)
class _WeightedSums:
    """Sums of all nodes in which the rows of each count by the node's weight."""

    sums: Sums
    losses: list[NodeLoss]  # with weights of classes and of nodes
    weights: np.ndarray  # (n_nodes,), how often the rows of each node count
    likelihood: Likelihood  # of all these losses
    digest: str  # of all that the likelihood follows from


@dataclass(frozen=True, eq=False, kw_only=True)
class LikelihoodStage(LinearStage):
    """How linear models are merged by likelihood; see GEMSLogisticAggregator."""

    # (n_nodes,), the part of its rows that each counts with; None: all of them.
    row_factors: np.ndarray | None = None
    # Whether nodes' gradients correct what moments miss, which nobody can check.
    corrects: bool = True

    def plan(self) -> Generator:
        """Plan whose result is a LinearMerge."""
        if self.method.robust:
            return (yield from self._trusted_plan())
        sums = yield from self._sums_plan(keeps_scatter=self.method.has_epsilon)
        return (yield from self._merge_plan(sums))

    def _trusted_plan(self) -> Generator:
        """Plan of the LinearMerge of the nodes that do not seem to lie."""
        replies = yield self._moments_requests()
        trusted = TrustedReplies.from_replies(
            replies, self, most_liars=self.method.robust
        )
        is_kept = trusted.trust.is_kept
        stage = replace(
            trusted.stage,
            row_factors=trusted.row_factors,
            corrects=False,
            epsilons=np.array(self.epsilons, dtype=object)[is_kept].tolist(),
            node_weight=None if self.node_weight is None else self.node_weight[is_kept],
        )
        sums = stage._read_sums(trusted.replies, keeps_scatter=False, spans=True)
        merge = yield from stage._merge_plan(sums)
        return replace(merge, trust=trusted.trust)

    def _merge_plan(self, sums: Sums) -> Generator:
        """Plan whose result is the LinearMerge of sums of these nodes."""
        weighted = self._weighted(sums)
        likelihood = weighted.likelihood
        is_average = self._averages_models(likelihood.seen)
        warn_of_classes(self, likelihood.seen, is_average=is_average)
        form = self._form_unless_bounded(sums.form, likelihood)
        W = np.zeros((sums.n_features + 1, len(self.classes)))
        has_classes = len(self.classes) > 1
        if has_classes and form.kind is not None:
            try:
                W, form = form.fit(likelihood.loss.moments.by_class(), self.classes)
            except ValueError as error:  # the pooled model cannot be made of these sums
                form = replace(form, kind=None, reason=str(error))
            if form.kind is not None and sums.span is not None:
                W = sums.span.to_rows(W)
        node_spaces: NodeSpaces | None = None
        if is_average:
            W = self._average_model()
            merge = LinearMerge(W=W, likelihood=likelihood, W_of_one_message=W)
        elif has_classes and form.kind is None:
            merge, node_spaces = yield from self._search_plan(weighted)
        else:
            merge = _merge_of_sums(W, form=form, likelihood=likelihood)
        say(f"likelihood of {merge.likelihood.n_rows:g} rows")
        if self.method.has_epsilon:
            if node_spaces is None:
                node_spaces = yield from self._scaled_spaces_plan()
            merge = self._bounded(merge, losses=weighted.losses, of_nodes=node_spaces)
        return replace(
            merge,
            form=form,
            W=remove_common_logit(merge.W),
            constants=sums.constants,
            neglected=sums.neglected,
            kurtosis_of_nodes=sums.kurtosis_of_nodes,
            contradictions=self._contradictions(sums),
        )

    def _contradictions(self, sums: Sums) -> Contradictions | None:
        """Compare the class means of nodes, unless those that may lie are left out."""
        if not self.corrects:
            return None
        # In coordinates of a span it is of others than features.
        merged = sums.merged if sums.span is None else None
        return cached_call(
            _contradictions,
            moments_of_nodes=sums.moments_of_nodes,
            rows_by_class=[node.rows_by_class for node in self.nodes],
            lacking=[self.lacking(node) for node in self.nodes],
            merged=merged,
        )

    def _weighted(self, sums: Sums) -> _WeightedSums:
        losses = sums.class_weighted_losses()
        weights = np.ones(len(losses))
        if self.node_weight is not None:
            n_rows = np.array([loss.moments.n_rows for loss in losses])
            # The rows of node k count v_k / sum(v) of all rows, v the nodes' weights.
            weights = self.node_weight / self.node_weight.sum() * n_rows.sum() / n_rows
            losses = [
                loss.weighted(weight)
                for loss, weight in zip(losses, weights, strict=True)
            ]
        digest = sums.digest(losses)
        return _WeightedSums(
            sums=sums,
            losses=losses,
            weights=weights,
            likelihood=sums.likelihood(losses, digest),
            digest=digest,
        )

    def _form_unless_bounded(
        self, form: PooledForm, likelihood: Likelihood
    ) -> PooledForm:
        """The function of sums that the aggregate may be, or the reason why none."""
        if self.method.has_epsilon:
            reason = form.reason or "epsilon bounds the model."
            return replace(form, kind=None, reason=reason)
        if form.kind is not None and not likelihood.seen.all():
            return replace(form, kind=None, reason="some classes have no rows.")
        return form

    def _search_plan(self, weighted: _WeightedSums) -> Generator:
        """Plan of the likeliest model, and of the nodes' spaces if it asked for them.

        The result is (LinearMerge, NodeSpaces or None).
        """
        sums = weighted.sums
        rounds = self.method.n_rounds
        warn_of_kinds(self, sums, weighted.likelihood)
        likelihood, W = self._searched(weighted)
        # What further messages find is far from Gaussian where rows are few, so nodes
        # of another rule are found by the model of one message.
        W_of_one_message = likelihood.to_rows(W)
        node_spaces = None
        refinement = None
        if rounds.n > 1:
            if "consensus" in rounds.candidates:
                node_spaces = yield from self._scaled_spaces_plan()
            refinement = yield from refinement_plan(
                SumOfLosses(
                    likelihood=likelihood,
                    node_losses=weighted.losses,
                    weights=weighted.weights,
                    problem=self,
                    constants=sums.constants,
                ),
                candidates=self._candidates(
                    W,
                    likelihood=likelihood,
                    weighted=weighted,
                    spaces=None if node_spaces is None else node_spaces.spaces,
                ),
                rounds=rounds,
                seed=self.method.seed,
            )
            W = refinement.W
            likelihood = refinement.likelihood
        W = likelihood.to_rows(likelihood.never_unseen(W))
        # What all logits have in common changes no probability.
        W -= W.mean(axis=1, keepdims=True)
        merge = LinearMerge(
            W=W,
            likelihood=likelihood,
            refinement=refinement,
            W_of_one_message=W_of_one_message,
        )
        return merge, node_spaces

    def _searched(self, weighted: _WeightedSums) -> tuple[Likelihood, np.ndarray]:
        """The likelihood as far as it is corrected, and its minimum, which is cached.

        Fits that differ in epsilon alone, as in a grid search, have the same.
        """
        hashed = Hashed(content=weighted.likelihood, digest=weighted.digest)
        # The gain of the last step towards the likeliest model, in nats a row.
        tol = ROUGH_TOL if len(self.classes) > _MANY_CLASSES else TOL
        slope, W = cached_call(_search, likelihood=hashed, tol=tol)
        return replace(weighted.likelihood, slope=slope), W

    def likelihood_plan(self) -> Generator:
        """Plan whose result is (Likelihood, Sums), of features as they are."""
        sums = yield from self._sums_plan(keeps_scatter=False, spans=False)
        losses = sums.class_weighted_losses()
        return sums.likelihood(losses, sums.digest(losses)), sums

    def _candidates(
        self,
        likeliest_W: np.ndarray,
        *,
        likelihood: Likelihood,
        weighted: _WeightedSums,
        spaces: Sequence[GoodEnoughSpace] | None,
    ) -> dict[str, np.ndarray]:
        """Models by name, on rows less the origin; the likeliest first.

        ``spaces`` are needed for "consensus" alone.
        """
        candidates = {"likelihood": likeliest_W}
        for name in self.method.n_rounds.candidates:
            if name in SHARES:
                with_share = likelihood.with_share(weighted.losses, SHARES[name])
                candidates[name] = with_share.descended(likeliest_W)
                continue
            if name == "lda":
                W = likelihood.discriminant_analysis()
            elif name == "consensus":
                W = likelihood.from_rows(intersect(spaces, method="consensus").point)
            else:
                W = likelihood.from_rows(self._average_model())
            W = likelihood.with_zero_row(W)
            # They are as sure as their own method makes them: as sure as is likeliest.
            candidates[name] = likelihood.inverse_temperature(W) * W
        # What all outputs have in common is no part of a step.
        seen = likelihood.seen
        return {
            name: W * seen - np.outer(W[:, seen].mean(axis=1), seen)
            for name, W in candidates.items()
        }

    def _average_model(self) -> np.ndarray:
        """Return the nodes' mean model, each class over the nodes that know it."""
        n_knowing = np.sum([node.known_classes for node in self.nodes], axis=0)
        total = sum(node.W * node.known_classes for node in self.nodes)
        return total / np.maximum(n_knowing, 1)

    def _sums_plan(self, *, keeps_scatter: bool, spans: bool = True) -> Generator:
        """Plan whose result is Sums: what nodes replied to "moments", summed.

        With ``spans`` they are in fewer coordinates, where all nodes have fewer rows
        than features; with ``keeps_scatter`` losses keep second moments of each node.
        """
        replies = yield self._moments_requests()
        return self._read_sums(replies, keeps_scatter=keeps_scatter, spans=spans)

    def _moments_requests(self) -> dict[str, Message]:
        """Return the requests for moments, by the name of the node."""
        # What is left of a network over merged layers is nobody's own model.
        model = None if self.hidden.weights else "own"
        return self.requests(
            "moments",
            [{"model": model}] * len(self.nodes),
            **self.method.terms.moments_settings(),
        )

    def _read_sums(
        self,
        replies: Iterable[tuple[str, MomentsReply]],
        *,
        keeps_scatter: bool,
        spans: bool,
    ) -> Sums:
        """Sum what the nodes replied to "moments"."""
        reader = RepliesReader(
            self,
            kind=self.method.moments.kind,
            keeps_scatter=keeps_scatter,
            node_weight=self.node_weight,
            row_factors=self.row_factors,
        )
        merged, with_roots = merge_unless_all_have_roots(
            reader.read_all(replies), len(self.classes)
        )
        return self._sums(
            node_sums=reader.node_sums,
            merged=merged,
            with_roots=with_roots,
            spans=spans and not keeps_scatter,
        )

    def _sums(
        self,
        *,
        node_sums: Sequence[NodeSums],
        merged: ClassMoments | None,
        with_roots: list[ClassMoments],
        spans: bool,
    ) -> Sums:
        """Sums of what was read; ``merged`` is None if all are ``with_roots``."""
        classes = self.classes
        has_layers = bool(self.hidden.weights)
        form, class_weight = self._form(node_sums)
        penalty = self._penalty(node_sums, warns=form.kind is None)
        losses = _with_rows_of_equal_models(node_sums)
        if not self.corrects:
            losses = _drop_gradients(losses)
        scaled = has_layers or any(node.scaled for node in node_sums)
        span = None
        if spans:
            span = _span_of(
                with_roots, form=form, scaled=scaled, zero_row=penalty.zero_row
            )
        if span is not None:
            scaled = False  # units are those of its coordinates
            with_roots = [span.moments(moments, len(classes)) for moments in with_roots]
            losses = [
                loss.in_span(span, moments)
                for loss, moments in zip(losses, with_roots, strict=True)
            ]
            penalty = penalty.in_span(span)
        if merged is None:
            merged = merge_as_matrices(with_roots, len(classes))
        if self.node_weight is not None:
            # Moments of node k were divided by its rows and multiplied by its weight.
            n_rows = sum(loss.moments.n_rows for loss in losses)
            merged = merged.weighted(n_rows / self.node_weight.sum())
        penalty = chosen_by_sums(penalty, merged, len(classes), scaled=scaled)
        return Sums(
            losses=losses,
            merged=merged,
            classes=classes,
            form=form,
            scaled=scaled,
            agreed_class_weight=class_weight,
            span=span,
            penalty=penalty,
            constants=_by_name(node_sums, "constants"),
            neglected=_by_name(node_sums, "neglected"),
            kurtosis_of_nodes=heavy_nodes(node_sums),
            moments_of_nodes=[node.moments for node in node_sums],
        )

    def _penalty(self, node_sums: Sequence[NodeSums], *, warns: bool) -> Penalty:
        moments = [node.loss.moments for node in node_sums]
        C = self.method.C
        penalties = [node.penalty for node in node_sums if node.penalty is not None]
        if self.hidden.weights:
            # A network's penalty is of all its layers, no guide to that of the last.
            C = "auto" if C == "members" else C
            penalties = []
        return agreed_penalty(
            penalties,
            C=C,
            fit_intercept=self.method.fit_intercept,
            n_rows=sum(of_node.n_rows for of_node in moments),
            n_features=moments[0].n_features,
            # Others than the likeliest model have no penalty.
            warns=warns and self.method.intersection == "likelihood",
        )

    def _form(
        self, node_sums: Sequence[NodeSums]
    ) -> tuple[PooledForm, str | list | None]:
        """Return the function of sums that the aggregate is, and weights of classes."""
        form = _form_of_classifiers(node_sums, has_layers=bool(self.hidden.weights))
        class_weight = as_class_weight(self.method.class_weight)
        if class_weight == "members":
            agreed = agree_on_class_weight(
                node_sums, self.classes, warns=form.kind is None
            )
            if form.kind is None and agreed is None:
                warn_of_shares_of_classes(_by_name(node_sums, "other_share"))
            return form, agreed
        if form.kind == "ridge":
            parameters = {**form.parameters, "class_weight": class_weight}
            return replace(form, parameters=parameters), class_weight
        if class_weight is not None:
            # Other functions of sums know no weights of classes.
            reason = f"class_weight={class_weight!r} is given."
            return PooledForm(kind=None, reason=reason), class_weight
        return form, None

    def _averages_models(self, seen: np.ndarray) -> bool:
        """Report whether the nodes' models know classes, and sums are of one alone.

        ``seen`` says of each class whether the sums have rows of it, (n_classes,).
        """
        if seen.sum() > 1 or self.method.has_epsilon or not self.corrects:
            return False
        are_known = np.sum([node.known_classes for node in self.nodes], axis=0)
        return bool((are_known > 0).all()) and len(seen) > 1

    def spaces_around_plan(self, W: np.ndarray) -> Generator:
        """Plan of the spaces of all nodes on the scale of a fitted aggregate W."""
        sums = yield from self._sums_plan(keeps_scatter=True)
        node_spaces = yield from self._scaled_spaces_plan()
        scales = self._scales_of(W, sums.losses)
        return _scaled_spaces(node_spaces.spaces, scales)

    def _scaled_spaces_plan(self) -> Generator:
        return self.spaces_plan(self.method.spaces.scale_logits is not False)

    def _bounded(
        self, merge: LinearMerge, *, losses: Sequence[NodeLoss], of_nodes: NodeSpaces
    ) -> LinearMerge:
        """The likeliest model in all spaces, beginning at that of the merge."""
        likelihood = merge.likelihood
        start = merge.factor * merge.W
        scales = self._scales_of(start, losses)
        spaces = _scaled_spaces(of_nodes.spaces, scales)
        search = BoundedSearch(likelihood=likelihood, spaces=spaces)
        intersection = likeliest(
            spaces, minimize=search.minimize, start=start, n_rows=likelihood.n_rows
        )
        return replace(
            merge,
            W=intersection.point,
            intersection=intersection,
            profiles=of_nodes.profiles,
            spaces=spaces,
            scales=scales,
        )

    def _scales_of(self, W: np.ndarray, losses: Sequence[NodeLoss]) -> np.ndarray:
        """Factors on the nodes' spaces, (n_nodes,): sizes of W's logits on their rows.

        Nodes send spaces of logits of unit size.
        """
        if self.method.spaces.scale_logits is False:
            return np.ones(len(losses))
        sizes = [loss.moments.logit_size(W) for loss in losses]
        # A constant model has no size.
        return np.array([size if size > 0 else 1.0 for size in sizes])


def _merge_of_sums(
    W: np.ndarray, *, form: PooledForm, likelihood: Likelihood
) -> LinearMerge:
    """The merge of a model that is a function of sums, or of a single class."""
    factor = 1.0
    if form.kind in ("ridge", "nearest_centroid"):
        # Their decision values are no logits.
        factor = likelihood.inverse_temperature(likelihood.from_rows(W))
    return LinearMerge(
        W=W, likelihood=likelihood, factor=factor, W_of_one_message=factor * W
    )


def _search(likelihood: Hashed, tol: float) -> tuple[np.ndarray, np.ndarray]:
    """The slope of corrections and the minimum, see `Likelihood.bounded`."""
    bounded, W = likelihood.content.bounded(tol=tol)
    return bounded.slope, W


def _contradictions(
    moments_of_nodes: list[ClassMoments],
    rows_by_class: list[np.ndarray],
    lacking: list[np.ndarray | None],
    merged: ClassMoments | None,
) -> Contradictions:
    """Compare the class means of nodes; see `contradicting_nodes`."""
    claims = claims_of_moments(moments_of_nodes, rows_by_class, lacking=lacking)
    covariance = None if merged is None else merged.covariance_within_parts()
    return contradicting_nodes(claims, covariance=covariance)


def _span_of(
    with_roots: Sequence[ClassMoments],
    *,
    form: PooledForm,
    scaled: bool,
    zero_row: np.ndarray | None,
) -> Span | None:
    """The span of all nodes' rows, in which sums are small; None if none is smaller.

    The likeliest model and ridge lie in it: their penalties leave no weight outside.
    Other functions of sums do not, and ridge knows neither scales nor a row of zeros.
    """
    if not with_roots or form.kind not in (None, "ridge"):
        return None
    if form.kind is None:
        return Span.from_moments(with_roots, scaled=scaled, zero_row=zero_row)
    return Span.from_moments(with_roots, scaled=False)


def _by_name(node_sums: Sequence[NodeSums], attribute: str) -> dict[str, Any]:
    """An attribute of what nodes replied, by name of the nodes that have one."""
    by_name = {node.name: getattr(node, attribute) for node in node_sums}
    return {name: value for name, value in by_name.items() if value is not None}


def _with_rows_of_equal_models(node_sums: Sequence[NodeSums]) -> list[NodeLoss]:
    """The losses, which know how many rows all nodes with the same model have.

    How a model's rows are dealt over nodes is not to matter.
    """
    n_rows = Counter()
    for node in node_sums:
        n_rows[node.model_digest] += node.loss.moments.n_rows
    return [replace(node.loss, n_alike=n_rows[node.model_digest]) for node in node_sums]


def _drop_gradients(losses: Sequence[NodeLoss]) -> list[NodeLoss]:
    """Return losses of moments alone."""
    return [replace(loss, gradient=None, slope=None) for loss in losses]


def _form_of_classifiers(
    node_sums: Sequence[NodeSums], *, has_layers: bool
) -> PooledForm:
    """Return the function of sums that the nodes' classifiers are, if they are one."""
    if has_layers:
        return PooledForm(kind=None, reason="networks are not functions of sums.")
    forms = {node.name: node.form for node in node_sums if node.form is not None}
    if not forms:
        return PooledForm(kind=None, reason="no node has a model of two classes.")
    return common_form(forms)


def _scaled_spaces(
    spaces: Sequence[GoodEnoughSpace], scales: np.ndarray
) -> list[GoodEnoughSpace]:
    """Spaces of logits of unit size as spaces of logits of these sizes."""
    return [
        replace(space, center=scale * space.center, radius=scale * space.radius)
        for space, scale in zip(spaces, scales, strict=True)
    ]


def node_losses(
    merge: LinearMerge, W: np.ndarray, *, names: Sequence[str]
) -> list[float]:
    """Losses of a model on each node's moments, in nats a row; NaN where left out."""
    likelihood = merge.likelihood
    losses_of_kept = likelihood.node_losses(likelihood.from_rows(W))
    if merge.trust is None:
        return losses_of_kept.tolist()
    losses = np.full(len(names), np.nan)
    losses[merge.trust.is_kept] = losses_of_kept
    return losses.tolist()
