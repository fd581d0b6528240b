"""A fit of PooledAggregator where the classifier is a tree or a forest."""

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PowerTransformer
from sklearn.utils import check_random_state, compute_class_weight

from ..base import Allows, Takes
from ..federation import Federation, Run, answer, warn_of_many_rows
from ..local import Member
from ..networks import final_step
from ..steps import DocumentFront, Front
from ..trees import N_BINS, Growth, unpacked_counts
from ._forest_terms import ForestTerms
from ._forests import fitted_forest, number_of_trees, rules_of
from ._forms import PooledForm


@dataclass(frozen=True, eq=False, kw_only=True)
class ForestFit:
    """The trees that the parameters of a PooledAggregator stand for, and their fit."""

    takes: ClassVar[Takes] = Takes(networks=False, learnt=False, rows_alone=True)
    # The PowerTransformer takes no sparse rows.
    allows: ClassVar[Allows] = Allows(missing_values=True, sparse=False)
    asks_again: ClassVar[str] = "trees ask all nodes again for each of their levels"

    classifier: ClassifierMixin  # what is grown, not fitted
    random_state: object

    @property
    def terms(self) -> ForestTerms:
        """What nodes and server agree on, without a front."""
        return ForestTerms(classifier=self.classifier)

    def front_with_bins(self, front: "Front | DocumentFront | None") -> Front:
        """The front, with a PowerTransformer at its end, for which the bins are made.

        A fitted front has to have it.
        """
        if front is None:
            return Front.of(PowerTransformer())
        if isinstance(front, DocumentFront):
            raise ValueError(
                "Documents have thousands of columns that are nearly always zero, "
                "which trees of histograms do not split well. Set pooled= to a linear "
                "or naive Bayes classifier."
            )
        if _ends_with_powers(front.transformer):
            return front
        if front.columns is not None:
            raise ValueError(
                "The front is fitted, but does not end with a PowerTransformer, which "
                "the bins of trees are made for. Fit a front that ends with it: "
                "PooledTransformer(make_pipeline(front, PowerTransformer()))."
            )
        return replace(
            front, transformer=make_pipeline(front.transformer, PowerTransformer())
        )

    def plan(self, federation: Federation, public_rows: Member | None) -> Generator:
        """Plan of the grown trees; ``public_rows`` are those at the server."""
        n_features = federation.features.n_features_in
        n_classes = len(federation.classes)
        seed = self.classifier.random_state
        rng = check_random_state(self.random_state if seed is None else seed)
        growth = Growth(
            rules_of(self.classifier, n_features),
            n_trees=number_of_trees(self.classifier),
            n_features=n_features,
            n_classes=n_classes,
            class_weights=self._class_weights(federation.classes),
            random_state=rng.randint(2**31 - 1),
        )
        while growth.is_open:
            request = self.terms.request(
                growth.forest, growth.asked, federation.classes
            )
            replies = yield request
            shape = growth.asked.shape(n_classes)
            total = np.zeros(shape, dtype=np.int64)
            for _, reply in replies:
                total += unpacked_counts(reply.content["counts"], shape)
                # Where cells are withheld, histograms of siblings do not add up.
                if reply.content["min_rows"] > 1:
                    growth.subtracts = False
            if public_rows is not None:
                content = answer(request, public_rows).content
                total += unpacked_counts(content["counts"], shape)
            growth.take(total)
        return growth

    def attributes(
        self, federation: Federation, run: Run, *, public: tuple
    ) -> dict[str, object]:
        """What the fit finds: ask for histograms, level by level, and make the trees.

        ``public`` are public rows and their labels.
        """
        if federation.rows_are_shared:
            raise ValueError(
                "Several nodes use the same rows, since nodes=None, and trees would "
                "count each of them several times. Set nodes= to the owner of each row."
            )
        X, y = public
        public_rows = Member.of("public", None, X, y) if len(y) else None
        growth = run(self.plan(federation, public_rows))
        warn_of_many_rows(federation.names, federation.rows_in_moments)
        form = PooledForm(
            kind=type(self.classifier).__name__,
            parameters=self.classifier.get_params(),
            reason=f"trees are grown over {N_BINS} bins of each feature",
        )
        return {
            "exact_": False,
            "pooled_form_": form,
            "history_": run.history,
            "_fitted": fitted_forest(self.classifier, growth, federation.classes),
        }

    def _class_weights(self, classes: np.ndarray) -> "np.ndarray | str | None":
        weights = self.classifier.class_weight
        if weights is None or isinstance(weights, str):
            return weights
        return compute_class_weight(weights, classes=classes, y=classes)


def _ends_with_powers(transformer: object) -> bool:
    """Whether the last step is a PowerTransformer that standardizes."""
    last_step = final_step(transformer)
    return isinstance(last_step, PowerTransformer) and last_step.standardize
