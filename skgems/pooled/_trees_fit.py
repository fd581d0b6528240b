"""Methods of PooledAggregator where the classifier is made of trees."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.utils import check_random_state

from ..local import Member, indices_of
from ..messages import Message
from ..parties import Federation
from ..tasks import BoostReply, GrowReply
from ..trees import (
    TYPES_OF_COUNTS,
    BoostedGrowth,
    Growth,
    unpacked_cells,
)
from ._boosting import boosting_rules, check_can_boost
from ._fitted_trees import fitted_boosting, fitted_forest
from ._forests import (
    agreed_seed,
    check_can_grow,
    is_totally_random,
    number_of_trees,
    rules_of,
)
from ._random_trees_fit import RandomTreesMethod
from ._trees_method import TreesMethod, replies_of_all, weights_of_classes
from ._trees_terms import BoostingTerms, ForestTerms


@dataclass(frozen=True, eq=False, kw_only=True)
class ForestMethod(TreesMethod):
    """Trees that are grown side by side, from counts of rows by class."""

    type_of_zeros: ClassVar[type] = TYPES_OF_COUNTS[0]

    @property
    def terms(self) -> ForestTerms:
        """Return what nodes and server agree on, without a front."""
        return ForestTerms(classifier=self.classifier)

    def plan(self, federation: Federation, public_rows: Member | None) -> Generator:
        growth = self.growth(federation.features.n_features_in, federation.classes)
        yield from self._grown(growth, federation.classes, public_rows)
        return fitted_forest(self.classifier, growth, federation.classes)

    def growth(self, n_features: int, classes: np.ndarray) -> Growth:
        """Trees that have not grown yet."""
        seed = self.classifier.random_state
        rng = check_random_state(self.random_state if seed is None else seed)
        return Growth(
            rules_of(self.classifier, n_features),
            n_trees=number_of_trees(self.classifier),
            n_features=n_features,
            n_classes=len(classes),
            class_weights=weights_of_classes(self.classifier, classes),
            random_state=rng.randint(2**31 - 1),
        )

    def added(self, reply: GrowReply, total: np.ndarray) -> np.ndarray:
        return unpacked_cells(reply.counts, total.size).added_to(total)


@dataclass(frozen=True, eq=False, kw_only=True)
class BoostingMethod(TreesMethod):
    """Trees that are grown one after the other, from sums of gradients."""

    @property
    def terms(self) -> BoostingTerms:
        """Return what nodes and server agree on, without a front."""
        return BoostingTerms(classifier=self.classifier)

    def plan(self, federation: Federation, public_rows: Member | None) -> Generator:
        if len(federation.classes) < 2:
            (label,) = federation.classes.tolist()
            raise ValueError(
                f"All rows have the class {label!r}: there is nothing to boost. Give "
                "rows of another class."
            )
        replies = yield from replies_of_all(Message.of("counts"), public_rows)
        class_counts = np.zeros(len(federation.classes), dtype=np.int64)
        for reply in replies:
            columns = indices_of(np.asarray(reply.labels), federation.classes)
            class_counts[columns] += reply.counts
        growth = BoostedGrowth(
            boosting_rules(self.classifier),
            n_features=federation.features.n_features_in,
            class_counts=class_counts,
        )
        yield from self._grown(growth, federation.classes, public_rows)
        return fitted_boosting(self.classifier, growth, federation.classes)

    def added(self, reply: BoostReply, total: np.ndarray) -> np.ndarray:
        total += reply.sums(total.shape)
        return total


def trees_method(classifier: ClassifierMixin, random_state: object) -> TreesMethod:
    """Return the method of a classifier; ValueError for meaningless parameters."""
    if isinstance(classifier, HistGradientBoostingClassifier):
        check_can_boost(classifier)
        return BoostingMethod(classifier=classifier, random_state=random_state)
    check_can_grow(classifier)
    if is_totally_random(classifier):
        agreed_seed(classifier, random_state)  # which raises for a generator
        return RandomTreesMethod(classifier=classifier, random_state=random_state)
    return ForestMethod(classifier=classifier, random_state=random_state)
