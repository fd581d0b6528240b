"""What nodes and server agree on where hidden units are matched."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from ..gems import LinearTerms
from ..messages import Message, Terms
from ..moments import MOST_GRIDS


@dataclass(frozen=True, kw_only=True)
class MatchingTerms(Terms, method="PFNMAggregator"):
    """Nodes send networks, train merged ones, and calibrate or make the last layer."""

    merges_layers = True

    last_layer: LinearTerms | None = None
    n_rounds: int = 1

    @property
    def further_settings(self) -> dict:
        if self.last_layer is None:
            return {}
        return {"last_layer": self.last_layer.as_last_layer()}

    @classmethod
    def from_settings(cls, settings: Mapping, further_settings: Mapping) -> Self:
        if "last_layer" not in further_settings:
            return cls()
        last_layer = LinearTerms.from_last_layer(further_settings["last_layer"])
        return cls(last_layer=last_layer)

    def later_requests(self) -> list[Message]:
        if self.last_layer is None:
            return []
        return [self.last_layer.moments_request(), *self.last_layer.later_requests()]

    def most_requests(self, n_hidden_layers: int) -> dict[str, int]:
        most_requests = {"retrain": self.n_rounds - 1, "evaluate": MOST_GRIDS}
        if self.last_layer is not None:
            most_requests |= {"moments": 1, **self.last_layer.most_requests(0)}
            most_requests["evaluate"] += 1  # for the factor on its logits
        return most_requests
