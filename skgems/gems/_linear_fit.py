"""A fit of GEMSLogisticAggregator: all of it but scikit-learn's protocol."""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from ..base import (
    MOST_LISTED,
    BaseAggregator,
    Takes,
    linear_attributes,
    validated_public_rows,
    warn_user,
)
from ..federation import (
    Federation,
    KeptReplies,
    PublicRows,
    Run,
    Summary,
    raise_without_classifier,
    trust_table,
    warn_of_contradictions,
    warn_of_many_rows,
    warn_of_neglected_columns,
    warn_of_tails,
    warn_of_trust,
)
from ..moments import check_most_liars, fit_inverse_temperature
from ..networks import linear_logits
from ..progress import say
from ..spaces import EmptyIntersectionError, EmptyIntersectionWarning
from ..tuning import FineTuned
from ._further import OF_MODELS, Rounds, with_objectives
from ._likelihood import LikelihoodStage, node_losses, warn_of_same_rows
from ._node_scores import node_scores
from ._parameters import Moments, Spaces
from ._problem import LinearNode, LinearProblem
from ._public_rows import Rows, tuned_by_public_rows
from ._stage import LinearMerge, LinearStage
from ._terms import LinearTerms


@dataclass(frozen=True, eq=False, kw_only=True)
class LinearFit:
    """The parameters of a fit of linear models, checked, and what they decide.

    See GEMSLogisticAggregator for what each parameter means.
    """

    epsilon: ArrayLike  # "auto", a number, or (n_nodes,)
    intersection: str
    C: float | str
    class_weight: dict | str | None
    rounds: Rounds
    spaces: Spaces  # whose parts are objects
    moments: Moments
    fit_intercept: bool | str
    node_weight: ArrayLike  # a word, or (n_nodes,)
    fine_tuning: str
    robust: int
    random_state: object

    @classmethod
    def from_aggregator(cls, aggregator: BaseAggregator) -> Self:
        """Read the parameters of an aggregator of linear models."""
        return cls(
            epsilon=aggregator.epsilon,
            intersection=aggregator.intersection,
            C=aggregator.C,
            class_weight=aggregator.class_weight,
            rounds=Rounds.from_value(aggregator.n_rounds),
            spaces=Spaces.from_value(aggregator.spaces),
            moments=Moments.from_value(aggregator.moments),
            fit_intercept=aggregator.fit_intercept,
            node_weight=aggregator.node_weight,
            fine_tuning=aggregator.fine_tuning,
            robust=aggregator.robust,
            random_state=aggregator.random_state,
        )

    @property
    def needs_spaces(self) -> bool:
        """Report whether nodes are asked for good-enough spaces, in any message."""
        return self.intersection != "likelihood" or not isinstance(self.epsilon, str)

    @property
    def chooses_C_of_units(self) -> bool:
        """Report whether the penalty on a network's last layer is to be chosen."""
        return isinstance(self.C, str) and not self.needs_spaces

    @property
    def takes(self) -> Takes:
        needs_models = self.needs_spaces or OF_MODELS & {*self.rounds.candidates}
        return Takes(rows_alone=not needs_models)

    @property
    def terms(self) -> LinearTerms:
        """Return what nodes and server agree on, without a front."""
        return LinearTerms(
            spaces=self.spaces,
            moments=self.moments,
            class_weight=self.class_weight,
            random_state=self.random_state,
            n_rounds=self.rounds.n,
            sends_space=self.needs_spaces and self.rounds.n == 1,
            asks_for_spaces_later=(
                self.needs_spaces or "consensus" in self.rounds.candidates
            ),
            tries_factors=self.intersection != "likelihood",
        )

    def check_takes_weights(self) -> None:
        """Raise ValueError where the aggregate is made of more than sums over rows."""
        if self.needs_spaces:
            raise ValueError(
                "sample_weight counts in sums over rows, which good-enough spaces are "
                f"not made of, and epsilon={self.epsilon!r} with "
                f"intersection={self.intersection!r} needs spaces. Set epsilon='auto' "
                "and intersection='likelihood', or leave sample_weight out."
            )

    def check(self, federation: Federation) -> None:
        """Raise, or warn, where nodes are not such as the spaces need."""
        geometry = self.spaces.geometry
        if federation.rows_are_shared and geometry.needs_moments:
            warn_user(
                "nodes is not given and nodes share classes, so they share rows: "
                f"spaces of geometry {geometry.wire_name!r} cannot tell their "
                "rows apart and come close to the mean. Give fit the node of each row: "
                "fit(X, y, nodes=nodes)."
            )
        federation.warn_of_lacking_features()
        if self.needs_spaces:
            self.check_has_spaces(federation)
        public_weights = federation.weights_of(federation.public_rows)
        if public_weights is not None and np.any(public_weights != 1.0):
            raise ValueError(
                "sample_weight has other weights than 1 for public rows, which "
                "fine-tune the aggregate one by one. Give public rows the weight 1, or "
                "0 to leave them out."
            )

    def check_has_spaces(self, federation: Federation) -> None:
        """Raise for nodes that have no classifier, or sent no space."""
        for node in federation.nodes:
            if not node.network.has_classifier:
                raise_without_classifier(LinearTerms.method, node.name)
        without_space = [
            node.name
            for node in federation.nodes
            if isinstance(node.record, Summary)
            and "space" not in {request.task for request in node.record.requests}
        ]
        if without_space and federation.joined is None:
            raise ValueError(
                f"The summaries of nodes {without_space[:MOST_LISTED]} have no "
                f"good-enough spaces, but epsilon={self.epsilon!r} and "
                f"intersection={self.intersection!r} need them. Summarize again there "
                "with space=True, or with disclosure=None: spaces tell how far single "
                "rows are."
            )

    def check_can_be_robust(self, n_nodes: int) -> None:
        """Raise ValueError where more than class sums would have to be trusted."""
        if not self.robust:
            return
        check_most_liars(self.robust, n_nodes)
        if self.needs_spaces:
            raise ValueError(
                f"robust={self.robust} judges nodes by their class sums, and the "
                f"models that epsilon={self.epsilon!r} with "
                f"intersection={self.intersection!r} needs cannot be checked. Set "
                "epsilon='auto' and intersection='likelihood', or robust=0."
            )
        if self.rounds.n > 1:
            raise ValueError(
                f"robust={self.robust} judges nodes by their class sums, and the "
                f"gradients that n_rounds={self.rounds.n} asks for cannot be checked. "
                "Set n_rounds=1, or robust=0."
            )

    def asks_again(self, federation: Federation) -> str:
        """Say why a later fit would have to ask nodes again; "" if it would not."""
        if self.needs_spaces:
            self.check_has_spaces(federation)
        if self.intersection != "likelihood":
            return f"intersection={self.intersection!r} asks nodes about the aggregate"
        if self.rounds.n > 1:
            return f"n_rounds={self.rounds.n} asks nodes about the aggregate"
        return ""

    def problem(self, federation: Federation, classes: np.ndarray) -> LinearProblem:
        """The linear models of the nodes; TypeError for networks with hidden layers."""
        for node in federation.nodes:
            if not node.network.is_linear:
                raise TypeError(
                    f"node {node.name!r} is a network with "
                    f"{node.network.n_hidden_layers} hidden layers; "
                    "GEMSLogisticAggregator merges linear models only. Use "
                    "GEMSMLPAggregator for networks."
                )
        return LinearProblem.from_federation(federation, classes)

    def attributes(
        self,
        federation: Federation,
        run: Run,
        *,
        public: PublicRows,
        kept: KeptReplies | None,
    ) -> dict:
        """Ask the nodes, merge and score their models; return the attributes.

        ``public`` are public rows; ``kept`` has what nodes replied before.
        """
        problem = self.problem(federation, federation.classes)
        stage = self.stage(problem, kept, federation)
        merge = run(stage.plan(problem))
        is_of_sums = merge.form is not None and merge.form.is_exact
        if merge.form is not None and len(problem.classes) > 1 and not is_of_sums:
            warn_of_tails(
                merge.kurtosis_of_nodes,
                members=run.members,
                n_messages=self.rounds.n,
            )
        _, attributes = self.outcome(
            stage=stage,
            merge=merge,
            problem=problem,
            run=run,
            public=(public.X, np.searchsorted(problem.classes, public.y)),
            public_groups=federation.public_groups,
        )
        if merge.neglected and not is_of_sums:
            warn_of_neglected_columns(merge.neglected, federation.labels_of_features)
        if merge.likelihood is not None and not federation.rows_are_shared:
            warn_of_same_rows(merge.likelihood, merge.names_among(federation.names))
        warn_of_trust(federation.names, merge.trust, federation.classes)
        self.warn_of_many_rows(federation)
        return {
            **attributes,
            "history_": with_objectives(run.history, merge.refinement),
        }

    def outcome(
        self,
        *,
        stage: LinearStage,
        merge: LinearMerge,
        problem: LinearProblem,
        run: Run,
        public: tuple | None = None,
        public_groups: np.ndarray | None = None,
    ) -> tuple[np.ndarray, dict]:
        """Tune by public rows, and score: calibrated weights, and attributes.

        ``public`` are public rows and the indices of their classes, ``public_groups``
        the group of each.
        """
        _report_intersection(stage, merge, problem=problem)
        W = merge.W
        factor = merge.factor
        fine_tuning = None
        if public is not None and len(public[1]):
            X, y = public
            W, fine_tuning = self.tuned(
                factor * W, merge, X=X, y=y, groups=public_groups
            )
            factor = 1.0
        requests = stage.score_requests(factor * W, merge, problem)
        reports = [reply for _, reply in run.ask(requests)]
        losses = None
        if merge.likelihood is not None:
            judged_W = merge.W_of_one_message if fine_tuning is None else factor * W
            losses = node_losses(merge, judged_W, names=problem.names)
        warn_of_contradictions(problem.names, merge.contradictions)
        form = merge.form_of_kept_nodes(problem.names)
        refinement = merge.refinement
        attributes = {
            **linear_attributes(W),
            "_factor": factor,
            "_merge": merge,
            "geometry_": stage.space_parameters.geometry,
            "spaces_": merge.spaces,
            "intersection_": merge.intersection,
            "likelihood_": merge.likelihood,
            "C_": merge.C,
            "exact_": form is not None and form.is_exact and fine_tuning is None,
            "pooled_form_": form,
            "candidates_": None if refinement is None else refinement.candidates,
            "fine_tuning_": fine_tuning,
            "node_scores_": node_scores(reports, merge, problem=problem, losses=losses),
            "trust_": trust_table(problem.names, merge.trust),
            "_largest_shares": [node.largest_share for node in problem.nodes],
            # Which classes rows have at each node, for a later request.
            "_row_columns": {
                node.name: np.unique(node.row_columns) for node in problem.nodes
            },
            # A fit over a channel does not ask for scores: `ask_scores` can, later.
            "_score_requests": None if run.reports else requests,
        }
        return factor * W, attributes

    def tuned(
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
        W, fine_tuned = self.tuned(start, aggregator._merge, X=X, y=y, groups=groups)
        return {
            **linear_attributes(W),
            "fine_tuning_": fine_tuned,
            "_factor": 1.0,
            "exact_": False,
            "_score_requests": None,
        }

    def stage(
        self,
        problem: LinearProblem,
        kept: KeptReplies | None = None,
        federation: Federation | None = None,
    ) -> LinearStage:
        """Return the stage that merges the models; ``kept`` has an earlier fit's seed.

        Where no node has rows, and there is a federation, the factor on logits is
        fitted to its spare rows, or to moments.
        """
        self.check_can_be_robust(len(problem.nodes))
        seed = self.terms.seed() if kept is None else kept.seed
        moments_settings = self.terms.moments_settings()
        if self.intersection == "likelihood":
            return self._likelihood_stage(
                problem,
                moments_settings=moments_settings,
                seed=seed,
                weighs_nodes=True,
            )
        if self.rounds.n > 1:
            raise ValueError(
                f"n_rounds={self.rounds.n} works with intersection='likelihood' only: "
                "good-enough spaces take one message. Got "
                f"intersection={self.intersection!r}."
            )
        calibrate = None
        is_one_summary = False
        if federation is not None:
            # Whatever nodes weigh in the intersection, all rows calibrate alike.
            reader = self._likelihood_stage(
                problem,
                moments_settings=moments_settings,
                seed=seed,
                weighs_nodes=False,
            )
            calibrate = partial(_calibration_plan, federation, reader)
            is_summary = federation.nodes[0].record is not None
            is_one_summary = len(problem.nodes) == 1 and is_summary
        return LinearStage(
            space_parameters=self.spaces,
            space_settings=self.terms.space_settings(seed),
            epsilons=self._epsilons(len(problem.nodes)),
            intersection=self.intersection,
            node_weight=self._node_weights(problem.nodes),
            calibrate=calibrate,
            is_one_summary=is_one_summary,
        )

    def _likelihood_stage(
        self,
        problem: LinearProblem,
        *,
        moments_settings: Mapping,
        seed: int | None,
        weighs_nodes: bool,
    ) -> LikelihoodStage:
        return LikelihoodStage(
            rounds=self.rounds,
            seed=seed,
            C=self.C,
            fit_intercept=self.fit_intercept,
            moments_settings=moments_settings,
            space_parameters=self.spaces,
            space_settings=self.terms.space_settings(seed),
            epsilons=self._epsilons(len(problem.nodes)),
            intersection=self.intersection,
            node_weight=self._node_weights(problem.nodes) if weighs_nodes else None,
            most_liars=self.robust,
        )

    def _epsilons(self, n_nodes: int) -> list:
        """Epsilon of each node, or "auto"."""
        if isinstance(self.epsilon, str):
            return ["auto"] * n_nodes
        epsilons = _as_numbers(self.epsilon, name="epsilon")
        if epsilons.shape not in ((), (n_nodes,)):
            raise ValueError(
                f"epsilon has shape {epsilons.shape}, but there are {n_nodes} nodes; "
                "give one number, or one per node."
            )
        criterion = self.spaces.criterion
        if not np.all((epsilons >= 0) & (epsilons <= criterion.largest)):
            raise ValueError(
                f"epsilon must be between 0 and {criterion.largest:g} with "
                f"criterion={criterion.name!r} of spaces, got {self.epsilon!r}."
            )
        return np.broadcast_to(epsilons, n_nodes).tolist()

    @property
    def _resolved_node_weight(self) -> str | None:
        """The word that `node_weight` stands for; None where it has numbers."""
        if not isinstance(self.node_weight, str):
            return None
        if self.node_weight == "auto":
            return "n_samples" if self.intersection == "likelihood" else "equal"
        return self.node_weight

    def _node_weights(self, nodes: Sequence[LinearNode]) -> np.ndarray | None:
        """Weights of nodes, of mean 1, (n_nodes,); None: as the method has them.

        That is by rows in the likelihood, and equal weights in spaces.
        """
        word = self._resolved_node_weight
        if word is None:
            weights = self.node_weight
        elif word == ("n_samples" if self.intersection == "likelihood" else "equal"):
            return None
        else:
            weights = [1 if word == "equal" else node.n_rows for node in nodes]
        weights = _as_numbers(weights, name="node_weight")
        is_usable = np.isfinite(weights) & (weights > 0)
        if weights.shape != (len(nodes),) or not is_usable.all():
            raise ValueError(
                "node_weight must hold one finite positive number per node "
                f"({len(nodes)}), got {self.node_weight!r}."
            )
        return weights / weights.mean()

    def warn_of_many_rows(self, federation: Federation) -> None:
        """Warn of a node with nearly all rows, where nodes weigh by their rows."""
        if federation.rows_are_shared or self.robust:  # which bounds the rows of each
            return
        if self._resolved_node_weight == "n_samples":
            warn_of_many_rows(federation.names, federation.rows_in_moments)


def _report_intersection(
    stage: LinearStage, merge: LinearMerge, *, problem: LinearProblem
) -> None:
    """Log that a model in all spaces was found, or say why there is none."""
    intersection = merge.intersection
    if intersection is None:
        return
    if intersection.found:
        _report_found(stage, merge, problem=problem)
        return
    on_empty = stage.space_parameters.on_empty
    if on_empty == "ignore":
        return
    explanation = stage.explain_empty(merge, problem.names)
    if on_empty == "raise":
        raise EmptyIntersectionError(explanation)
    warn_user(
        f"{explanation} The aggregate is the model that misses the spaces by least.",
        EmptyIntersectionWarning,
    )


def _report_found(
    stage: LinearStage, merge: LinearMerge, *, problem: LinearProblem
) -> None:
    """Log that a model was found, where nodes have seen different classes."""
    if all(node.known_classes.all() for node in problem.nodes):
        return
    if merge.profiles[0].outputs is None:
        say("a model in all spaces was found")
        return
    say(
        "a model in all spaces was found; the geometry "
        f"{stage.space_parameters.geometry.wire_name!r} says nothing about unseen "
        "classes, so this means little if nodes have different classes"
    )


def _calibration_plan(
    federation: Federation,
    reader: LikelihoodStage,
    W: np.ndarray,
    problem: LinearProblem,
) -> Generator:
    """Plan of a factor on logits where no node has rows to judge them by.

    Spare rows of summaries' nodes calibrate; without any, moments do.
    """
    X, y = federation.labeled(federation.spare_rows)
    if len(y):
        logits = linear_logits(X, W).astype(np.float64)
        return fit_inverse_temperature(logits, np.searchsorted(problem.classes, y))
    likelihood, _ = yield from reader.likelihood_plan(problem)
    return likelihood.inverse_temperature(likelihood.from_rows(W))


def _as_numbers(parameter: ArrayLike, *, name: str) -> np.ndarray:
    """A parameter as float64; ``name`` is for the error."""
    try:
        return np.asarray(parameter, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"{name} must hold a number, or one per node, got {parameter!r}."
        ) from None
