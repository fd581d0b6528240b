"""What nodes and server agree on where all is a function of sums."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NoReturn, Self

import numpy as np
from sklearn.base import ClassifierMixin

from ..messages import Message, Terms
from ._classifiers import CLASSIFIERS, KINDS, Kind
from ._trees_terms import TREES, TreesTerms


@dataclass(frozen=True, kw_only=True)
class PooledTerms(Terms, method="PooledAggregator"):
    """One message, about the sums that a classifier is a function of."""

    classifier: ClassifierMixin  # what is made of the sums, not fitted

    @property
    def _kind(self) -> Kind:
        return KINDS[type(self.classifier)]

    def request(self, classes: np.ndarray | None = None) -> Message:
        """Return the request to all nodes; ``classes`` are those of all, if known."""
        return self._kind.request(self.classifier, classes)

    @property
    def settings(self) -> dict:
        params = {
            name: as_list(getattr(self.classifier, name))
            for name in self._kind.settings
        }
        part = type(self.classifier).__name__
        return {"pooled": {"part": part, "params": params}}

    @classmethod
    def from_settings(
        cls, settings: Mapping, further_settings: Mapping
    ) -> "Self | TreesTerms":
        if settings["pooled"]["part"] in TREES:
            return TreesTerms.from_settings(settings, further_settings)
        classifier_type = CLASSIFIERS[settings["pooled"]["part"]]
        params = settings["pooled"]["params"]
        agreed_names = KINDS[classifier_type].settings
        if not params.keys() <= set(agreed_names):
            raise ValueError(
                f"The settings of {classifier_type.__name__} have the parameters "
                f"{list(params)}, but only {list(agreed_names)} decide what nodes "
                "send. Agree on settings without the others."
            )
        return cls(classifier=classifier_type(**params))

    def first_requests(self, member: object = None, **options: object) -> list[Message]:
        return [self.request()]

    def most_requests(self, n_hidden_layers: int) -> dict[str, int]:
        return {}


@dataclass(frozen=True, kw_only=True)
class FrontTerms(Terms):
    """Messages about a front alone: how many depends on its steps."""

    method: ClassVar[str] = "PooledTransformer"
    makes_model: ClassVar[bool] = False

    @classmethod
    def from_settings(cls, settings: Mapping, further_settings: Mapping) -> NoReturn:
        raise ValueError("PooledTransformer asks nodes about its front only.")

    def most_requests(self, n_hidden_layers: int) -> dict[str, int]:
        return {}


@dataclass(frozen=True, kw_only=True)
class DescriptionTerms(Terms, method="describe"):
    """One message, whose request has no settings."""

    makes_model: ClassVar[bool] = False

    def most_requests(self, n_hidden_layers: int) -> dict[str, int]:
        return {"survey": 1, "join": 0}


def as_list(value: object) -> object:
    """A tuple or an array as a list, which can be compared and sent; others as is."""
    if isinstance(value, tuple | np.ndarray):
        return np.asarray(value).tolist()
    return value
