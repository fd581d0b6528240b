"""What nodes and server agree on where models are merged by moments and by spaces."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from ..local import Member, as_class_weight
from ..messages import Message, Terms
from ..moments import MOST_GRIDS
from ._parameters import Moments, Spaces, with_objects_of_settings

# Settings without which requests cannot be made.
_NEEDED_SETTINGS = ("geometry", "criterion", "construction", "class_weight")
_CLASS_WEIGHTS = ("members", "balanced", None)


@dataclass(frozen=True, kw_only=True)
class LinearTerms(Terms, method="GEMSLogisticAggregator"):
    """What nodes with linear models are asked: moments of their rows, and spaces."""

    spaces: Spaces  # whose geometry, criterion and construction are objects
    moments: Moments
    class_weight: dict | str | None
    random_state: object
    n_rounds: int = 1
    sends_space: bool = False  # whether the first message asks for spaces
    asks_for_spaces_later: bool = False
    tries_factors: bool = False  # whether a grid of factors on the logits is tried
    # Whether standard errors may be asked for: models without a penalty have them.
    asks_for_inference: bool = False

    @property
    def settings(self) -> dict:
        seed = self.random_state
        if seed is not None and not isinstance(seed, Integral):
            raise ValueError(
                "random_state must be a number or None where nodes summarize, so that "
                f"all draw the same; got {seed!r}."
            )
        moments_settings = self.moments_settings()
        return {
            **self._geometry_and_criterion(),
            "construction": self.spaces.construction.settings_for_nodes(),
            "scale_logits": self.spaces.scale_logits,
            # The penalty, of which these say nothing, is always asked for.
            "moments": moments_settings["kind"],
            "random_state": None if seed is None else int(seed),
            "n_components": moments_settings["n_components"],
            "min_cluster_size": moments_settings["min_cluster_size"],
            "class_weight": moments_settings["class_weight"],
        }

    @property
    def further_settings(self) -> dict:
        return {
            "space": self.sends_space,
            "later_space": self.asks_for_spaces_later,
        }

    @classmethod
    def from_settings(cls, settings: Mapping, further_settings: Mapping) -> Self:
        for name in _NEEDED_SETTINGS:
            if name not in settings:
                raise KeyError(name)
        parameters = with_objects_of_settings(settings)
        parameters.pop("front", None)
        spaces = Spaces.from_value(parameters.pop("spaces"))
        moments = Moments.from_value(parameters.pop("moments", "auto"))
        class_weight = parameters.pop("class_weight")
        if not isinstance(class_weight, dict) and class_weight not in _CLASS_WEIGHTS:
            raise ValueError(f"class_weight={class_weight!r} is no weight of classes.")
        random_state = parameters.pop("random_state", None)
        if random_state is not None and not isinstance(random_state, Integral):
            raise ValueError(
                f"The seed must be a number or None, got {random_state!r}."
            )
        if parameters:
            raise ValueError(f"{sorted(parameters)} are not settings of {cls.method}.")
        sends_space = further_settings.get("space", False)
        return cls(
            spaces=spaces,
            moments=moments,
            class_weight=class_weight,
            random_state=random_state,
            sends_space=sends_space,
            asks_for_spaces_later=(
                sends_space or further_settings.get("later_space", False)
            ),
        )

    def first_requests(
        self,
        member: Member | None = None,
        *,
        classes: ArrayLike | None = None,
        space: str | bool = "auto",
    ) -> list[Message]:
        """Return the first requests to a node, or to all nodes without ``member``.

        ``classes`` are those of all nodes, if they are known; ``space`` says whether
        spaces are asked for, by default where they are needed.
        """
        requests = [self.moments_request()]
        if not (self.sends_space if space == "auto" else space):
            return requests
        numbers_of_others = self._numbers_of_others(member, classes)
        if not numbers_of_others:
            return requests
        seed = self.seed()
        scale_logits = self.spaces.scale_logits
        scalings = [bool(scale_logits)]
        if scale_logits == "auto" and not self.spaces.geometry.in_logits:
            # The sizes of all nodes' logits decide, so that both are sent.
            scalings = [True, False]
            requests.append(Message.of("size", model="own"))
        for is_scaled in scalings:
            for n_others in numbers_of_others:
                requests.append(
                    Message.of(
                        "space",
                        model="own",
                        **self.space_settings(seed),
                        n_others=n_others,
                        scale_logits=is_scaled,
                    )
                )
        return requests

    def _numbers_of_others(
        self, member: Member | None, classes: ArrayLike | None
    ) -> list[int]:
        """Numbers of classes that a node may not have seen, for each of which it tells.

        They are none where a further message can say how many there are.
        """
        criterion = self.spaces.criterion
        if classes is not None and member is not None:
            known_classes = member.own_linear()[1]
            n_others = len(set(np.asarray(classes).tolist()) - set(known_classes))
            return [n_others if criterion.counts_classes else min(n_others, 1)]
        if not criterion.counts_classes:
            return [0, 1]  # whether there are any is all that is asked
        if member is None:
            return []
        raise ValueError(
            f"criterion={criterion.name!r} of spaces needs the classes of all nodes. "
            "Pass them to summarize, classes=[...]."
        )

    def later_requests(self) -> list[Message]:
        """Return the requests for spaces that have to wait for other nodes' sizes."""
        if not self.asks_for_spaces_later:
            return []
        return [
            Message.of("size", model="own"),
            Message.of("space", model="own", **self.space_settings(self.seed())),
        ]

    def most_requests(self, n_hidden_layers: int) -> dict[str, int]:
        most_requests = {"evaluate": self.n_rounds - 1, "score": 1}
        if self.asks_for_inference:
            most_requests["inference"] = 1
        if self.asks_for_spaces_later:
            most_requests["size"] = 1
            most_requests["space"] = 1
        if self.tries_factors:
            most_requests["evaluate"] += MOST_GRIDS
        return most_requests

    def moments_request(self) -> Message:
        return Message.of("moments", model="own", **self.moments_settings())

    def moments_settings(self) -> dict:
        """Return the settings of requests for moments, equal for all nodes."""
        pairs = self.class_weight.items() if isinstance(self.class_weight, dict) else ()
        unusable = {
            label: weight
            for label, weight in pairs
            if not (isinstance(weight, Real) and 0 < weight < np.inf)
        }
        if unusable:
            raise ValueError(
                f"class_weight must hold finite numbers above 0, got {unusable!r}. To "
                "leave a class out, leave its rows out."
            )
        return {
            "kind": self.moments.kind,
            "n_components": int(self.moments.n_components),
            # The rule of disclosure bounds clusters; messages have had this field.
            "min_cluster_size": 1,
            "class_weight": as_class_weight(self.class_weight),
            # Whatever C is at the server, so that it can be changed without asking.
            "penalty": True,
        }

    def space_settings(self, seed: int | None) -> dict:
        """Return the settings of requests for spaces, equal for all nodes."""
        construction = self.spaces.construction
        return {
            **self._geometry_and_criterion(),
            "construction": construction.wire_name,
            "n_directions": int(construction.n_directions),
            "seed": seed,
            "min_cluster_size": 1,
        }

    def _geometry_and_criterion(self) -> dict:
        return {
            "geometry": self.spaces.geometry.as_settings(),
            "criterion": self.spaces.criterion.as_settings(),
        }

    def seed(self) -> int | None:
        """Return the seed of all nodes, in any order of them; None: any will do."""
        if self.random_state is None:
            return None
        return check_random_state(self.random_state).randint(2**31 - 1)

    def as_last_layer(self) -> dict:
        """Return the settings of requests about a last layer over merged ones."""
        return {
            "settings": self.settings,
            "further_settings": self.further_settings,
            "n_rounds": self.n_rounds,
        }

    @classmethod
    def from_last_layer(cls, content: Mapping) -> Self:
        """Inverse of `as_last_layer`, but for the number of rounds."""
        return cls.from_settings(content["settings"], content["further_settings"])


@dataclass(frozen=True, kw_only=True)
class MergedLayersTerms(Terms, method="GEMSMLPAggregator"):
    """What nodes with networks are asked: neurons, trained layers, the last layer."""

    merges_layers = True
    takes_files = False

    last_layer: LinearTerms | None = None  # None: it is not known what it asks
    n_rounds: int = 1
    n_common_units: int | str = 0  # beside the merged units of hidden layers

    @property
    def further_settings(self) -> dict:
        return {
            "last_layer": self.last_layer.as_last_layer(),
            "n_rounds": self.n_rounds,
            "n_common_units": self.n_common_units,
        }

    @classmethod
    def from_settings(cls, settings: Mapping, further_settings: Mapping) -> Self:
        if "last_layer" not in further_settings:
            return cls()
        n_rounds = further_settings["n_rounds"]
        if not isinstance(n_rounds, Integral) or n_rounds < 1:
            raise ValueError(f"n_rounds must be a number of at least 1: {n_rounds!r}.")
        # Agreements of servers that have no common units do not name them.
        n_common_units = further_settings.get("n_common_units", 0)
        is_number = isinstance(n_common_units, Integral) and n_common_units >= 0
        if n_common_units != "auto" and not is_number:
            raise ValueError(
                "n_common_units must be 'auto' or a number of at least 0: "
                f"{n_common_units!r}."
            )
        return cls(
            last_layer=LinearTerms.from_last_layer(further_settings["last_layer"]),
            n_rounds=n_rounds,
            n_common_units=n_common_units,
        )

    def later_requests(self) -> list[Message]:
        if self.last_layer is None:
            return []
        requests = [
            self.last_layer.moments_request(),
            *self.last_layer.later_requests(),
        ]
        if self.n_rounds > 1:
            requests.append(clusters_request())
        return requests

    def most_requests(self, n_hidden_layers: int) -> dict[str, int]:
        trains = self.n_rounds > 1
        most_requests = Counter(self.last_layer.most_requests(0))
        most_requests.update(
            neurons=n_hidden_layers,
            # For the last layer, for clusters of rows, and for the last layer again.
            moments=3 if trains else 1,
            retrain=n_hidden_layers - 1 + self.n_rounds - 1,
            # For the loss after training, and for the factor on logits.
            evaluate=int(trains) + 1,
        )
        return dict(most_requests)


def clusters_request() -> Message:
    """Ask for clusters of rows, of which other nodes draw rows to train on."""
    return Message.of(
        "moments",
        kind="diagonal",
        n_components=Moments().n_components,
        min_cluster_size=1,
    )
