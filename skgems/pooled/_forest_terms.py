"""What nodes and server agree on where trees are grown from histograms."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from sklearn.base import ClassifierMixin

from ..messages import Message, Terms
from ..trees import N_MORE_LEVELS, Asked, Forest
from ._forests import KINDS_OF_TREES, check_can_grow, number_of_trees

# Parameters that decide what nodes are asked.
_AGREED_NAMES = ("n_estimators", "max_depth", "max_features", "bootstrap")
TREES = {kind.__name__: kind for kind in KINDS_OF_TREES}


@dataclass(frozen=True, kw_only=True)
class ForestTerms(Terms):
    """One message for each level of the trees, and a few more for leaves left over."""

    # The name is that of the terms of sums, which find these by the classifier.
    method: ClassVar[str] = "PooledAggregator"
    takes_files: ClassVar[bool] = False
    allows_missing: ClassVar[bool] = True

    classifier: ClassifierMixin  # which is grown, not fitted

    @property
    def bootstrap(self) -> bool:
        """Whether each tree draws rows with replacement."""
        return bool(getattr(self.classifier, "bootstrap", False))

    @property
    def settings(self) -> dict:
        params = {
            name: _plain(getattr(self.classifier, name))
            for name in _AGREED_NAMES
            if hasattr(self.classifier, name)
        }
        part = type(self.classifier).__name__
        return {"pooled": {"part": part, "params": params}}

    @classmethod
    def from_settings(cls, settings: Mapping, further_settings: Mapping) -> Self:
        classifier_type = TREES[settings["pooled"]["part"]]
        params = settings["pooled"]["params"]
        if not params.keys() <= set(_AGREED_NAMES):
            raise ValueError(
                f"The settings of {classifier_type.__name__} have the parameters "
                f"{list(params)}, but of these only {list(_AGREED_NAMES)} decide what "
                "nodes are asked. Agree on settings without the others."
            )
        classifier = classifier_type(**params)
        check_can_grow(classifier)
        return cls(classifier=classifier)

    def most_requests(self, n_hidden_layers: int) -> dict[str, int]:
        return {"grow": self.classifier.max_depth + N_MORE_LEVELS}

    def request(self, forest: Forest, asked: Asked, classes: np.ndarray) -> Message:
        """The request for the histograms of some leaves."""
        return Message.of(
            "grow",
            classes=classes.tolist(),
            n_trees=forest.n_trees,
            feature=forest.feature,
            bin=forest.bin,
            missing_left=forest.missing_left,
            left=forest.left,
            leaves=asked.leaves,
            features=asked.features,
            bootstrap=self.bootstrap,
        )

    def check_request(self, request: Message) -> None:
        content = request.content
        n_trees = number_of_trees(self.classifier)
        forest = Forest(
            **{
                name: content[name]
                for name in ("n_trees", "feature", "bin", "missing_left", "left")
            }
        )
        if content["n_trees"] != n_trees:
            raise ValueError(
                f"the request is about {content['n_trees']} trees, not {n_trees}."
            )
        # Only leaves that may be split are asked about.
        grown = forest.split(content["leaves"], feature=0, bin=0, missing_left=False)
        depth = grown.depth()
        if depth > self.classifier.max_depth:
            raise ValueError(
                f"the request is about trees of {depth} levels, agreed is "
                f"max_depth={self.classifier.max_depth}."
            )
        if content["bootstrap"] != self.bootstrap:
            raise ValueError(
                f"the request has bootstrap={content['bootstrap']}, agreed is "
                f"bootstrap={self.bootstrap}."
            )


def _plain(value: object) -> object:
    """A number of numpy as one of Python, as JSON takes it; others as they are."""
    return value.item() if isinstance(value, np.generic) else value
