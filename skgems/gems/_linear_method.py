"""A fit of GEMSLogisticAggregator: all of it but scikit-learn's protocol."""

from collections.abc import Generator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from ..asking import (
    FineTuned,
    Run,
    check_merges_all,
    trust_table,
    warn_of_contradictions,
    warn_of_many_rows,
)
from ..base import BaseAggregator, validated_public_rows, warn_user
from ..compat import say
from ..local import Member
from ..moments import fit_inverse_temperature
from ..networks import linear_attributes, linear_logits
from ..parties import Federation, Summary
from ..spaces import EmptyIntersectionError, EmptyIntersectionWarning
from ..tasks import JoinReply
from ._fit_warnings import warn_of_fit, warn_of_summary
from ._further import with_objectives
from ._inference_fit import CountsOfFit
from ._likelihood import LikelihoodStage, node_losses
from ._linear_parameters import LinearParameters
from ._node_scores import node_scores
from ._problem import check_are_linear
from ._public_rows import Rows, tuned_by_public_rows
from ._regions import merged_summary
from ._stage import LinearMerge, LinearStage


@dataclass(frozen=True, eq=False, kw_only=True)
class LinearMethod(LinearParameters):
    """The method of GEMSLogisticAggregator: its parameters, and a fit by them."""

    def attributes(self, federation: Federation, run: Run) -> dict[str, object]:
        """Ask the nodes, merge and score their models; return the attributes."""
        check_are_linear(federation)
        stage = self.stage(federation, federation.classes)
        merge = run(stage.plan())
        _, attributes = self.outcome(merge, stage=stage, run=run, has_public_rows=True)
        warn_of_fit(merge, stage, run.members)
        self.warn_of_many_rows(federation)
        return {
            **attributes,
            "history_": with_objectives(run.history, merge.refinement),
        }

    def stage(self, federation: Federation, classes: np.ndarray) -> LinearStage:
        """Return the models of the nodes, which are merged as the parameters say."""
        self.check_can_be_robust(len(federation.nodes))
        if self.intersection == "likelihood":
            return LikelihoodStage.from_federation(self, federation, classes)
        if self.n_rounds.n > 1:
            raise ValueError(
                f"n_rounds={self.n_rounds.n} works with intersection='likelihood' "
                "only: good-enough spaces take one message. Got "
                f"intersection={self.intersection!r}."
            )
        return SpacesStage.from_federation(self, federation, classes)

    def outcome(
        self,
        merge: LinearMerge,
        *,
        stage: LinearStage,
        run: Run,
        has_public_rows: bool = False,
    ) -> tuple[np.ndarray, dict]:
        """Score a merged model; return its calibrated weights, and the attributes.

        If it ``has_public_rows``, those of the federation, it is tuned by them first.
        """
        _report_intersection(stage, merge)
        W = merge.W
        factor = merge.factor
        fine_tuning = None
        public = stage.federation.public
        if has_public_rows and len(public.y):
            W, fine_tuning = self._tuned(
                factor * W,
                merge,
                X=public.X,
                y=np.searchsorted(stage.classes, public.y),
                groups=stage.federation.public_groups,
            )
            factor = 1.0
        requests = stage.score_requests(factor * W, merge)
        reports = [reply for _, reply in run.ask(requests)]
        losses = None
        if merge.likelihood is not None:
            judged_W = merge.W_of_one_message if fine_tuning is None else factor * W
            losses = node_losses(merge, judged_W, names=stage.names)
        warn_of_contradictions(stage.names, merge.contradictions)
        form = merge.form_of_kept_nodes(stage.names)
        refinement = merge.refinement
        attributes = {
            **linear_attributes(W),
            "_factor": factor,
            "_merge": merge,
            "geometry_": self.spaces.geometry,
            "spaces_": merge.spaces,
            "intersection_": merge.intersection,
            "likelihood_": merge.likelihood,
            "C_": merge.C,
            "exact_": form is not None and form.is_exact and fine_tuning is None,
            "pooled_form_": form,
            "candidates_": None if refinement is None else refinement.candidates,
            "fine_tuning_": fine_tuning,
            "node_scores_": node_scores(reports, merge, problem=stage, losses=losses),
            "trust_": trust_table(stage.names, merge.trust),
            # For inference, which has to be given the same rows.
            "_counts_of_fit": {
                node.name: CountsOfFit.from_node(node)
                for node in stage.federation.nodes
            },
            "_largest_shares": [node.largest_share for node in stage.nodes],
            # Which classes rows have at each node, for a later request.
            "_row_columns": {
                node.name: np.unique(node.row_columns) for node in stage.nodes
            },
            # A fit over a channel does not ask for scores: `ask_scores` can, later.
            "_score_requests": None if run.reports else requests,
        }
        return factor * W, attributes

    def _tuned(
        self,
        W: np.ndarray,
        merge: LinearMerge,
        *,
        X: Rows,
        y: np.ndarray,
        groups: np.ndarray | None,
    ) -> tuple[np.ndarray, FineTuned | None]:
        """Weights after fine-tuning on public rows, and how they were tuned."""
        return tuned_by_public_rows(
            W,
            merge,
            X=X,
            y=y,
            groups=groups,
            fine_tuning=self.fine_tuning,
            random_state=self.random_state,
        )

    def tuned_attributes(
        self,
        aggregator: BaseAggregator,
        X: Rows,
        y: ArrayLike,
        *,
        groups: ArrayLike | None,
    ) -> dict:
        """Fine-tune a fitted aggregator on public rows; return its attributes."""
        if self.fine_tuning != "plain":
            aggregator._check_has_sums()
        X, y, groups = validated_public_rows(aggregator, X, y, groups)
        start = aggregator._factor * aggregator._weights()
        W, fine_tuned = self._tuned(start, aggregator._merge, X=X, y=y, groups=groups)
        return {
            **linear_attributes(W),
            "fine_tuning_": fine_tuned,
            "_factor": 1.0,
            "exact_": False,
            "_score_requests": None,
        }

    def warn_of_many_rows(self, federation: Federation) -> None:
        """Warn of a node with nearly all rows, where nodes weigh by their rows."""
        if federation.rows_are_shared or self.robust:  # which bounds the rows of each
            return
        if self.weighs_by_rows:
            warn_of_many_rows(federation.names, federation.rows_in_moments)

    # ---- summaries -------------------------------------------------------------------

    def merged_summary(
        self, aggregator: BaseEstimator, summaries: list, name: str
    ) -> Summary:
        self.check_one_message()
        if self.intersection != "likelihood" or not isinstance(self.node_weight, str):
            raise ValueError(
                "Summaries are merged by intersection='likelihood' and without weights "
                f"of nodes; got intersection={self.intersection!r}, "
                f"node_weight={self.node_weight!r}."
            )
        check_merges_all(self.robust)
        return merged_summary(aggregator, summaries, name)

    def warn_of_summary(self, member: Member, reply: JoinReply) -> None:
        warn_of_summary(self, member, reply)


class SpacesStage(LinearStage):
    """Linear models of all nodes that are merged by their good-enough spaces alone."""

    def factor_without_rows_plan(self, W: np.ndarray) -> Generator:
        """Plan of the factor on logits where no node has rows to judge them by.

        Spare rows of summaries' nodes calibrate; without any, moments do.
        """
        X, y = self.federation.labeled(self.federation.spare_rows)
        if len(y):
            logits = linear_logits(X, W).astype(np.float64)
            return fit_inverse_temperature(logits, np.searchsorted(self.classes, y))
        reader = LikelihoodStage.from_federation(
            self.method, self.federation, self.classes
        )
        # Whatever nodes weigh in the intersection, all rows calibrate alike.
        likelihood, _ = yield from replace(reader, node_weight=None).likelihood_plan()
        return likelihood.inverse_temperature(likelihood.from_rows(W))


def _report_intersection(stage: LinearStage, merge: LinearMerge) -> None:
    """Log that a model in all spaces was found, or say why there is none."""
    intersection = merge.intersection
    if intersection is None:
        return
    if intersection.found:
        _report_found(stage, merge)
        return
    on_empty = stage.method.spaces.on_empty
    if on_empty == "ignore":
        return
    explanation = stage.explain_empty(merge)
    if on_empty == "raise":
        raise EmptyIntersectionError(explanation)
    warn_user(
        f"{explanation} The aggregate is the model that misses the spaces by least.",
        EmptyIntersectionWarning,
    )


def _report_found(stage: LinearStage, merge: LinearMerge) -> None:
    """Log that a model was found, where nodes have seen different classes."""
    if all(node.known_classes.all() for node in stage.nodes):
        return
    if merge.profiles[0].outputs is None:
        say("a model in all spaces was found")
        return
    say(
        "a model in all spaces was found; the geometry "
        f"{stage.method.spaces.geometry.wire_name!r} says nothing about unseen "
        "classes, so this means little if nodes have different classes"
    )
