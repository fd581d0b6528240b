"""What nodes and server agree on where trees are grown from histograms."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.ensemble import HistGradientBoostingClassifier

from ..messages import Message, Terms, request_in
from ..steps import front_of_content, front_size
from ..trees import N_MORE_LEVELS, Forest, n_outputs
from ._boosting import boosting_rules, check_can_boost
from ._forests import (
    KINDS_OF_TREES,
    check_can_grow,
    draws_all_splits,
    number_of_features,
    number_of_trees,
)

if TYPE_CHECKING:  # what grows at the server, where these requests are made
    from ..trees import BoostedGrowth, Growth

# Classifiers that are made of trees, by name.
TREES: dict[str, type] = {
    kind.__name__: kind for kind in (*KINDS_OF_TREES, HistGradientBoostingClassifier)
}


@dataclass(frozen=True, kw_only=True)
class TreesTerms(Terms):
    """One message for each level of the trees."""

    # The name is that of the terms of sums, which find these by the classifier.
    method: ClassVar[str] = "PooledAggregator"
    takes_files: ClassVar[bool] = False
    allows_missing: ClassVar[bool] = True
    asks_behind_front: ClassVar[bool] = True
    # Parameters that decide what nodes are asked.
    agreed_names: ClassVar[tuple[str, ...]] = ()

    classifier: ClassifierMixin  # which is grown, not fitted

    @property
    def settings(self) -> dict:
        values = {
            name: getattr(self.classifier, name)
            for name in self.agreed_names
            if hasattr(self.classifier, name)
        }
        # As JSON has them: numbers may be numpy's.
        params = {
            name: value.item() if isinstance(value, np.generic) else value
            for name, value in values.items()
        }
        part = type(self.classifier).__name__
        return {"pooled": {"part": part, "params": params}}

    @classmethod
    def from_settings(
        cls, settings: Mapping, further_settings: Mapping
    ) -> "ForestTerms | RandomTreesTerms | BoostingTerms":
        """The terms of the classifier that the settings have; ValueError for others."""
        pooled = settings["pooled"]
        classifier_type = TREES[pooled["part"]]
        params = pooled["params"]
        terms_type = _terms_type(classifier_type, params)
        if not params.keys() <= set(terms_type.agreed_names):
            raise ValueError(
                f"The settings of {classifier_type.__name__} have the parameters "
                f"{list(params)}, but of these only {list(terms_type.agreed_names)} "
                "decide what nodes are asked. Agree on settings without the others."
            )
        if terms_type is BoostingTerms:
            classifier = classifier_type(
                max_leaf_nodes=None, early_stopping=False, **params
            )
            check_can_boost(classifier)
            return BoostingTerms(classifier=classifier)
        classifier = classifier_type(**params)
        check_can_grow(classifier)
        if terms_type is RandomTreesTerms and classifier.random_state is None:
            raise ValueError(
                "Trees that a seed draws need a random_state in the settings. Agree "
                "on one."
            )
        return terms_type(classifier=classifier)

    def _check_trees(self, content: Mapping, *, n_trees: int) -> None:
        """Raise ValueError for more, or deeper, trees than agreed."""
        if content["n_trees"] != n_trees:
            raise ValueError(
                f"the request is about {content['n_trees']} trees, agreed are "
                f"{n_trees}."
            )
        forest = Forest.from_content(content)
        # Only leaves that may be split are asked about.
        split = forest.split(content["leaves"], feature=0, bin=0, missing_left=False)
        depth = split.depth()
        if depth > self.classifier.max_depth:
            raise ValueError(
                f"the request is about trees of {depth} levels, agreed is "
                f"max_depth={self.classifier.max_depth}."
            )


@dataclass(frozen=True, kw_only=True)
class ForestTerms(TreesTerms):
    """One message for each level, and a few more for leaves that are left over.

    Where several methods are tried, trees of halves of the rows take as many.
    """

    bounded_tasks: ClassVar[tuple[str, ...]] = ("grow", "grow_halves")
    grows_forests: ClassVar[bool] = True
    agreed_names: ClassVar[tuple[str, ...]] = (
        "n_estimators",
        "max_depth",
        "max_features",
        "bootstrap",
    )

    @property
    def bootstrap(self) -> bool:
        """Report whether each tree draws rows with replacement."""
        return bool(getattr(self.classifier, "bootstrap", False))

    def most_requests(self, n_hidden_layers: int) -> dict[str, int]:
        return {"grow": self.classifier.max_depth + N_MORE_LEVELS}

    def request(self, growth: "Growth", classes: np.ndarray) -> Message:
        """The request for the histograms that trees want to grow on."""
        return Message.of(
            "grow",
            classes=classes.tolist(),
            leaves=growth.asked.leaves,
            features=growth.asked.features,
            bootstrap=self.bootstrap,
            **growth.forest.as_content(),
        )

    def check_request(self, request: Message) -> None:
        if request.task not in self.bounded_tasks:
            raise ValueError(f"forests do not ask for {request.task!r}.")
        contents = [request.content]
        if request.task == "grow_halves":
            halves = request_in(request).by_half
            contents = [asked.as_content() for asked in halves.values()]
        for content in contents:
            self._check_trees(content, n_trees=number_of_trees(self.classifier))
            self._check_asked(content, front=request.content.get("front"))

    def _check_asked(self, content: Mapping, *, front: Mapping | None) -> None:
        """Raise ValueError for another bootstrap, or more features, than agreed."""
        if content["bootstrap"] != self.bootstrap:
            raise ValueError(
                f"the request has bootstrap={content['bootstrap']}, agreed is "
                f"bootstrap={self.bootstrap}."
            )
        n_asked = content["features"].shape[1]
        max_features = self.classifier.max_features
        n_features = _number_of_features(content, front)
        most = number_of_features(max_features, n_features)
        if n_asked > most:
            raise ValueError(
                f"the request asks about {n_asked} features at each leaf, agreed is "
                f"max_features={max_features!r}, which is {most} of {n_features} "
                "features."
            )


@dataclass(frozen=True, kw_only=True)
class RandomTreesTerms(TreesTerms):
    """One message, about the leaves of trees that the agreed seed draws.

    The random_state of the classifier is a number.
    """

    takes_files: ClassVar[bool] = True
    agreed_names: ClassVar[tuple[str, ...]] = (
        *ForestTerms.agreed_names,
        "random_state",
    )

    def request(self, classes: np.ndarray | None = None) -> Message:
        """Return the request to all nodes, for which classes do not matter."""
        return Message.of(
            "leaf_counts",
            n_trees=number_of_trees(self.classifier),
            max_depth=self.classifier.max_depth,
            random_state=self.classifier.random_state,
        )

    def first_requests(self, member: object = None, **options: object) -> list[Message]:
        return [self.request()]

    def most_requests(self, n_hidden_layers: int) -> dict[str, int]:
        return {}

    def check_request(self, request: Message) -> None:
        raise ValueError(
            f"trees that a seed draws do not ask for {request.task!r}: the first "
            "message has all that they need."
        )


@dataclass(frozen=True, kw_only=True)
class BoostingTerms(TreesTerms):
    """One message for the counts of classes, and one for each level of each tree."""

    bounded_tasks: ClassVar[tuple[str, ...]] = ("boost",)
    agreed_names: ClassVar[tuple[str, ...]] = ("max_iter", "max_depth")

    def most_requests(self, n_hidden_layers: int) -> dict[str, int]:
        return {"counts": 1, "boost": boosting_rules(self.classifier).most_messages}

    def request(self, growth: "BoostedGrowth", classes: np.ndarray) -> Message:
        """The request for the sums that trees want to grow on."""
        return Message.of(
            "boost",
            classes=classes.tolist(),
            n_features=growth.n_features,
            n_finished=growth.n_finished,
            values=growth.values,
            baseline=growth.baseline,
            leaves=growth.asked.leaves,
            **growth.forest.as_content(),
        )

    def check_request(self, request: Message) -> None:
        if request.task != "boost":
            raise ValueError(f"boosting does not ask for {request.task!r}.")
        outputs = n_outputs(len(request.content["classes"]))
        self._check_trees(request.content, n_trees=self.classifier.max_iter * outputs)


def _number_of_features(content: Mapping, front: Mapping | None) -> int:
    """Return the number of features of the rows of a request, or a smaller one.

    They are those that come out of the front. A request without a front says only which
    features it asks about; the node has at least these.
    """
    if front is None:
        return int(content["features"].max(initial=0)) + 1
    fitted_front = front_of_content(front)
    n_features = None
    columns = fitted_front.columns
    if columns is not None and columns.n is not None:
        n_features = front_size(fitted_front, columns).n_columns_out
    if n_features is None:
        raise ValueError("the front of the request is not fitted, or of documents.")
    return n_features


def _terms_type(classifier_type: type, params: Mapping) -> type[TreesTerms]:
    """Return the type of terms for a classifier that has these parameters."""
    if classifier_type is HistGradientBoostingClassifier:
        return BoostingTerms
    if draws_all_splits(classifier_type, params):
        return RandomTreesTerms
    return ForestTerms
