"""A fit of EnsembleAggregator: all of it but scikit-learn's protocol."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from ..base import BaseAggregator
from ..choice import Candidate, Choice, choose
from ..parties import Federation
from ._kept_thresholds import common_threshold
from ._stack_fit import StackFit, owned_rows
from ._votes import ensemble_weights

# Names of the candidates of combine="auto".
_VOTE = "vote"
_BY_CLASSES = "vote by classes"
_STACK = "stack"


@dataclass(frozen=True, eq=False, kw_only=True)
class EnsembleFit:
    """The parameters of an ensemble, and whether it votes or is a stack.

    See EnsembleAggregator for what each parameter means.
    """

    combine: str
    voting: str
    node_weight: ArrayLike  # a word, or (n_nodes,)
    stack: StackFit | None  # None: it only votes
    n_jobs: int | None
    random_state: object

    @classmethod
    def from_aggregator(cls, aggregator: BaseAggregator) -> Self:
        """Read the parameters of an EnsembleAggregator."""
        return cls(
            combine=aggregator.combine,
            voting=aggregator.voting,
            node_weight=aggregator.node_weight,
            stack=(
                None
                if aggregator.combine == "vote"
                else StackFit.from_aggregator(aggregator)
            ),
            n_jobs=aggregator.n_jobs,
            random_state=aggregator.random_state,
        )

    def attributes(
        self, federation: Federation, ensemble_class: type[BaseAggregator]
    ) -> dict[str, object]:
        """Find the weights of a vote, or fit a stack; return the attributes.

        ``ensemble_class`` is that of the ensembles which combine="auto" tries.
        """
        if self.combine == "auto":
            choice = self._choose(federation, ensemble_class)
            chosen_fit = self._candidate_fits()[choice.name]
            attributes = chosen_fit.attributes(federation, ensemble_class)
            return {**attributes, "choice_": choice}
        if self.combine == "stack":
            return self.stack.attributes(federation)
        weights, history = ensemble_weights(federation, self.node_weight, self.n_jobs)
        threshold = None  # in a hard vote each classifier has its own
        if self.voting == "soft":
            threshold = common_threshold(federation, weights)
        return {
            **federation.attributes(),
            "weights_": weights,
            "history_": history,
            "threshold_": threshold,
            "_tie_seed": check_random_state(self.random_state).randint(2**31 - 1),
        }

    def _candidate_fits(self) -> dict[str, Self]:
        """Return the fits that combine="auto" tries, by name; larger ones later."""
        return {
            _VOTE: replace(self, combine="vote"),
            _BY_CLASSES: replace(self, combine="vote", node_weight="class_counts"),
            _STACK: replace(self, combine="stack", node_weight="equal"),
        }

    def _choose(
        self, federation: Federation, ensemble_class: type[BaseAggregator]
    ) -> Choice:
        """Choose the vote or stack that is right about most rows."""
        members = list(zip(federation.names, federation.estimators, strict=True))
        candidates = []
        for name, fit in self._candidate_fits().items():
            ensemble = ensemble_class(
                members,
                combine=fit.combine,
                node_weight=fit.node_weight,
                voting=fit.voting,
                random_state=fit.random_state,
            )
            candidates.append(Candidate(name, ensemble, of_members=True))
        X, y, owners, groups = owned_rows(federation)
        rows_of_names = {
            name: np.flatnonzero(owners == name) for name in federation.names
        }
        return choose(
            candidates,
            X,
            y,
            rows_of_names,
            groups=groups,
            members=members,
        )
