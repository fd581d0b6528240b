"""The likeliest linear model for the sums that nodes send; nodes that do not fit."""

from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..base import warn_user
from ..federation import NodesDisagreeWarning, SameRowsWarning, warn_of_variances
from ..moments import ClassMoments, Likelihood, Span, merge_moments, moments_kind
from ..pooled import PooledForm, common_form
from ..progress import say
from ..spaces import intersect, likeliest
from ._further import OF_MODELS, SHARES, NodesSum, Rounds, further_plan
from ._penalties import Penalty, agreed_penalty
from ._stage import Asked, LinearMerge, LinearStage, of_two
from ._sums import NodeSums, Sums, agreed_weights, merged_or_held, named

# Nats a row that a step gains at least; over units of networks the optimum is flat.
_TOL, _TOL_OF_UNITS = 1e-7, 1e-10


@dataclass(frozen=True, eq=False, kw_only=True)
class LikelihoodStage(LinearStage):
    """How linear models are merged by likelihood; see GEMSLogisticAggregator."""

    asked_moments: Mapping  # what nodes are asked of their rows
    C: float | str  # "members": theirs, as fit_intercept
    fit_intercept: bool | str
    rounds: Rounds
    seed: int | None

    @property
    def merges_models(self) -> bool:
        return self.is_bounded or bool(OF_MODELS & {*self.rounds.candidates})

    @property
    def is_bounded(self) -> bool:
        return any(epsilon != "auto" for epsilon in self.epsilons)

    def plan(self, asked: Asked) -> Generator:
        sums = yield from self._sums_plan(asked, keep_scatter=self.is_bounded)
        losses, classes = sums.weighed(), asked.classes
        weights = np.ones(len(losses))  # how often the rows of each node count
        if self.node_weight is not None:
            n_rows = np.array([node.moments.n_rows for node in losses])
            weights = self.node_weight / self.node_weight.sum() * n_rows.sum() / n_rows
            losses = [n.weighted(w) for n, w in zip(losses, weights, strict=True)]
        likelihood = sums.likelihood(losses)
        self._warn_of_classes(classes, likelihood.seen)
        form, spaces = sums.form, None
        if self.is_bounded:
            reason = form.reason or "epsilon bounds the model."
            form = replace(form, kind=None, reason=reason)
        elif form.kind is not None and not likelihood.seen.all():
            form = replace(form, kind=None, reason="some classes have no rows.")
        W = np.zeros((sums.n_features + 1, len(classes)))
        if len(classes) > 1 and form.kind is not None:
            try:
                W, form = form.fit(likelihood.loss.moments.by_class(), classes)
            except ValueError as error:  # these moments do not make it
                form = replace(form, kind=None, reason=str(error))
            if form.kind is not None and sums.span is not None:
                W = sums.span.to_rows(W)
        if len(classes) > 1 and form.kind is None:
            found = self._searched(sums, likelihood, losses, weights, asked)
            merge, spaces = yield from found
        else:
            factor = 1.0
            if form.kind in ("ridge", "nearest_centroid"):
                # Their decision values are no logits.
                factor = likelihood.inverse_temperature(likelihood.from_rows(W))
            known = {"likelihood": likelihood, "factor": factor}
            merge = LinearMerge(W, **known, judged=factor * W)
        say(f"likelihood of {merge.likelihood.n_rows:g} rows")
        if self.is_bounded:
            if spaces is None:
                spaces = yield from self._scaled_spaces(asked)
            merge = self._within(merge, losses, *spaces)
        return replace(merge, form=form, W=of_two(merge.W))

    def _searched(self, sums, likelihood, losses, weights, asked) -> Generator:
        """Plan of the likeliest model, and of the nodes' spaces if it asks for them."""
        if self.asked_moments["kind"] == "auto" and sums.merged.is_diagonal:
            warn_of_variances(sums.merged.n_features)
        tol = _TOL_OF_UNITS if asked.hidden.weights else _TOL
        likelihood, found = likelihood.bounded(tol=tol)
        # What further messages find is far from Gaussian where rows are few.
        judged, spaces, further = likelihood.to_rows(found), None, None
        if self.rounds.n > 1:
            if "consensus" in self.rounds.candidates:
                spaces = yield from self._scaled_spaces(asked)
            candidates = self._candidates(found, likelihood, losses, asked, spaces)
            given = NodesSum(likelihood, losses, weights, asked), candidates
            further = yield from further_plan(*given, self.rounds, self.seed)
            found, likelihood = further.W, further.likelihood
        W = likelihood.to_rows(likelihood.never_unseen(found))
        W -= W.mean(axis=1, keepdims=True)
        merge = LinearMerge(W, likelihood=likelihood, further=further, judged=judged)
        return merge, spaces

    def likelihood_plan(self, asked: Asked) -> Generator:
        sums = yield from self._sums_plan(asked, keep_scatter=False, spans=False)
        return sums.likelihood(sums.weighed()), sums

    def _candidates(self, found, likelihood, losses, asked, spaces) -> dict:
        """Models by name, on rows less the origin; the likeliest first."""
        candidates = {"likelihood": found}
        for name in self.rounds.candidates:
            if name in SHARES:
                other = likelihood.with_share(losses, SHARES[name])
                candidates[name] = other.descended(found)
                continue
            if name == "lda":
                W = likelihood.discriminant_analysis()
            elif name == "consensus":
                W = likelihood.from_rows(intersect(spaces[1], method=name).point)
            else:
                seen = np.sum([node.known for node in asked.nodes], axis=0)
                total = sum(node.W * node.known for node in asked.nodes)
                W = likelihood.from_rows(total / np.maximum(seen, 1))
            W = likelihood.with_zero_row(W)
            candidates[name] = likelihood.inverse_temperature(W) * W
        # What all outputs have in common is no part of a step.
        seen, named = likelihood.seen, candidates.items()
        return {k: W * seen - np.outer(W[:, seen].mean(axis=1), seen) for k, W in named}

    def _sums_plan(self, asked: Asked, *, keep_scatter: bool, spans=True) -> Generator:
        """What nodes replied, summed; by ``spans`` in fewer coordinates, if need be."""
        nodes, classes, known = asked.nodes, asked.classes, []
        has_layers = len(asked.hidden.weights) > 0
        replies = yield asked.messages(
            "moments",
            # What is left of a network over merged layers is nobody's own model.
            lambda node: {"model": None if has_layers else "own"},
            **self.asked_moments,
            **({"share": asked.share} if has_layers else {}),
        )

        def arriving():
            for k, (node, (_, reply)) in enumerate(zip(nodes, replies, strict=True)):
                own, moments = NodeSums.of(node, reply.content, classes, keep_scatter)
                if has_layers and self._merges_matrices(moments, len(classes)):
                    # A node with few rows tells variances of units alone.
                    moments = moments.with_zero_covariances()
                say(
                    f"node {k + 1} of {len(nodes)} ({node.name}): "
                    f"{moments.n_rows:g} rows in {len(moments.counts)} parts"
                )
                known.append(own)
                if self.node_weight is not None:
                    # By rows of all, which are not known yet.
                    moments = moments.weighted(self.node_weight[k] / moments.n_rows)
                yield moments

        merged, held = merged_or_held(arriving(), len(classes))
        form, agreed = self._form(known, classes, has_layers)
        # How a model's rows are dealt over nodes is not to matter.
        alike = Counter()
        for own in known:
            alike[own.model] += own.loss.moments.n_rows
        losses = [replace(own.loss, n_alike=alike[own.model]) for own in known]
        scaled, span = has_layers or any(own.scaled for own in known), None
        penalty = self._penalty(known, has_layers, warns=form.kind is None)
        if held and spans and not keep_scatter and form.kind in (None, "ridge"):
            zero_row = penalty.zero_row if form.kind is None else None
            span = Span.of(held, scaled=scaled and form.kind is None, zero_row=zero_row)
        if span is not None:
            scaled = False  # units are those of its coordinates
            held = [span.moments(own, len(classes)) for own in held]
            pairs = zip(losses, held, strict=True)
            losses = [node.in_span(span, moments) for node, moments in pairs]
            penalty = penalty.in_span(span)
        if merged is None:
            merged = merge_moments(own.with_matrices(len(classes)) for own in held)
        if self.node_weight is not None:
            n_rows = sum(node.moments.n_rows for node in losses)
            merged = merged.weighted(n_rows / self.node_weight.sum())
        return Sums(losses, merged, classes, form, scaled, agreed, span, penalty)

    def _merges_matrices(self, moments: ClassMoments, n_classes: int) -> bool:
        """Whether nodes with many rows are asked for covariances of units."""
        kind = self.asked_moments["kind"]
        return moments_kind(kind, moments.n_features, n_classes) != "diagonal"

    def _penalty(
        self, known: Sequence[NodeSums], has_layers: bool, *, warns: bool
    ) -> Penalty:
        moments = [node.loss.moments for node in known]
        saying = [node.penalty for node in known if node.penalty is not None]
        return agreed_penalty(
            # A network's penalty is of all its layers, no guide to that of the last.
            [] if has_layers else saying,
            C=self.C,
            fit_intercept=self.fit_intercept,
            n_rows=sum(own.n_rows for own in moments),
            n_features=moments[0].n_features,
            # Others than the likeliest model have no penalty.
            warns=warns and self.intersection == "likelihood",
        )

    def _form(self, known: Sequence[NodeSums], classes: np.ndarray, has_layers: bool):
        rounded = [own.name for own in known if own.is_rounded]
        forms = {own.name: own.form for own in known if own.form is not None}
        why = "no node has a model of two classes."
        if has_layers:
            forms, why = {}, "networks are not functions of sums."
        form = common_form(forms) if forms else PooledForm(None, reason=why)
        if rounded and form.kind is not None:
            reason = f"node {rounded[0]!r} sends its moments with fewer digits."
            form = replace(form, reason=reason)
        given = self.asked_moments["class_weight"]
        if given == "members":
            return form, agreed_weights(known, classes, warns=form.kind is None)
        if form.kind == "ridge":
            form = replace(form, parameters={**form.parameters, "class_weight": given})
        elif given is not None:
            form = PooledForm(None, reason=f"class_weight={given!r} is given.")
        return form, given

    def _warn_of_classes(self, classes: np.ndarray, seen: np.ndarray) -> None:
        given, known = self.asked_moments["class_weight"], classes.tolist()
        pairs = given if isinstance(given, list) else []
        unknown = [label for label, _ in pairs if label not in known]
        if unknown:
            warn_user(
                f"class_weight names the classes {unknown}, which no node has seen, so "
                f"that it says nothing of them. Nodes have seen {known}."
            )
        if not seen.all():
            warn_user(
                f"Nothing is known of the classes {classes[~seen].tolist()}: no node "
                "has as many rows of them as its min_rows or min_cluster_size asks: "
                "they are never predicted. Give fit rows of them, or smaller bounds."
            )

    def spaces_around_plan(self, W: np.ndarray, asked: Asked) -> Generator:
        sums = yield from self._sums_plan(asked, keep_scatter=True)
        _, spaces = yield from self._scaled_spaces(asked)
        return self._on_scale_of(W, sums.losses, spaces)[0]

    def _scaled_spaces(self, asked: Asked) -> Generator:
        return self.spaces_plan(asked, self.scale_logits is not False)

    def _within(self, merge, losses, profiles, spaces) -> LinearMerge:
        likelihood, start = merge.likelihood, merge.factor * merge.W
        spaces, scales = self._on_scale_of(start, losses, spaces)
        moments = likelihood.loss.moments
        origin, diagonal = moments.origin, moments.is_diagonal

        def minimize(start, extra, forces):
            def shifted(W):
                value, gradient = extra(likelihood.to_rows(W))
                gradient[:-1] -= np.outer(origin, gradient[-1])
                return value, gradient

            curvature = sum(
                2.0 * force * space.metric.curvature(origin, diagonal=diagonal)
                for space, force in zip(spaces, forces, strict=True)
                if force > 0
            )
            start = likelihood.from_rows(start)
            found = likelihood.minimize(start, shifted, curvature=curvature)
            return likelihood.to_rows(found)

        found = likeliest(spaces, minimize, start, likelihood.n_rows)
        met = {"profiles": profiles, "spaces": spaces, "scales": scales}
        return replace(merge, W=found.point, intersection=found, **met)

    def _on_scale_of(self, W: np.ndarray, losses, spaces) -> tuple[list, np.ndarray]:
        """Spaces in units of a model's logits on each node's rows, and the factors."""
        scales = np.ones(len(losses))
        if self.scale_logits is not False:
            sizes = [node.moments.logit_size(W) for node in losses]
            scales = np.array([size if size > 0 else 1.0 for size in sizes])
        scaled = [
            replace(space, center=scale * space.center, radius=scale * space.radius)
            for space, scale in zip(spaces, scales, strict=True)
        ]
        return scaled, scales


def node_losses(likelihood: Likelihood, W: np.ndarray, asked: Asked) -> list[float]:
    """Of a model on each node's moments; warns of nodes of another rule."""
    n_rows = np.array([node.n_rows for node in asked.nodes])
    centred = likelihood.from_rows(W)
    fits = likelihood.node_fits(centred, n_rows)
    losses = fits.losses.tolist()
    if fits.disagrees.any():
        # A strong penalty leaves logits small at all nodes, which is no other rule; the
        # nodes' own models, beside which it is judged, have such a factor too.
        factor = max(1.0, likelihood.inverse_temperature(centred))
        fits = likelihood.node_fits(factor * centred, n_rows)
    if fits.disagrees.any():
        own = np.fmin(likelihood.own_losses, fits.without)
        found = [
            f"{asked.names[k]!r} ({fits.among_own[k]:.2f}, {own[k]:.2f}, "
            f"{fits.without[k]:.2f})"
            for k in np.flatnonzero(fits.disagrees)
        ]
        warn_user(
            "The aggregate fits the rows of some nodes badly, as if they had another "
            "rule: nats a row of the aggregate, of their own models and of class "
            f"shares alone are {named(found)}. See whether labels are coded there as "
            "elsewhere, and features in the same order and units; or leave these nodes "
            "out. Where classes are far from linear rows of another place look so too.",
            NodesDisagreeWarning,
        )
    return losses


def warn_of_same_rows(likelihood: Likelihood, names: Sequence[str]) -> None:
    pairs = likelihood.equal_nodes()
    if pairs:
        words = named([f"{names[i]!r} and {names[j]!r}" for i, j in pairs])
        what = "The same rows count twice: leave one of them out"
        warn_user(f"Nodes sent equal moments: {words}. {what}.", SameRowsWarning)
