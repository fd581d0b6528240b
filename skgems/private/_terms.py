"""What nodes and server agree on where sums have noise: one message, of one vector."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

from ..messages import Message, Terms, requests_in
from ._privacy import Privacy
from ._rows import charge_of
from ._words import noise_in_words

# The task of the vector, see skgems.tasks.
TASK = "noisy_sums"


@dataclass(frozen=True, kw_only=True)
class NoisyTerms(Terms, method="NoisySums"):
    """One message, whose reply is the same whatever is made of it.

    So a file may be fitted by every aggregator that takes noise, and is charged once.
    """

    # Counts of rows that a finished model is judged by would have no noise.
    makes_model: ClassVar[bool] = False

    privacy: Privacy
    by_class: bool = False  # whether products of columns are told of each class

    @property
    def settings(self) -> dict:
        return {
            "privacy": self.privacy.as_settings(),
            "moments": "class" if self.by_class else "shared",
        }

    @classmethod
    def from_settings(cls, settings: Mapping, further_settings: Mapping) -> Self:
        if settings.keys() - {"front"} != {"privacy", "moments"}:
            raise ValueError(f"{sorted(settings)} are not settings of {cls.method}.")
        moments = settings["moments"]
        if moments not in ("shared", "class"):
            raise ValueError(f"moments={moments!r:.40} of {cls.method} is no kind.")
        privacy = Privacy.from_settings(settings["privacy"])
        if privacy.epsilon is None:
            raise ValueError("epsilon=None of Privacy puts no noise on sums. Set one.")
        return cls(privacy=privacy, by_class=moments == "class")

    @classmethod
    def sentences_on(cls, settings: Mapping) -> dict[str, str]:
        try:
            charge = charge_of(cls.from_settings(settings, {}).privacy)
        except (KeyError, TypeError, ValueError, AttributeError):
            return {}  # which no node answers
        return {
            "tasks.join": (
                "The server may ask once for one vector of sums of rows, with noise."
            ),
            "disclosure": (
                "No rule of disclosure is applied, since the noise takes its place."
            ),
            "noise": noise_in_words(charge),
        }

    @property
    def settings_at_nodes(self) -> dict:
        """Settings that nodes agree to, with the columns that enter the front.

        These are public, where no node tells of its own.
        """
        if self.front is None:
            return self.settings
        front = {**self.front.as_content(), "fitted": self.front.digest}
        return {**self.settings, "front": front}

    def request(self) -> Message:
        """Return the only request."""
        return Message.of(
            TASK, privacy=self.privacy.as_settings(), by_class=self.by_class
        )

    def first_requests(self, member: object = None, **options: object) -> list[Message]:
        return [self.request()]

    def most_requests(self, n_hidden_layers: int) -> dict[str, int]:
        return {}


def privacy_asked(request: Message) -> Privacy | None:
    """Return the privacy under which a request asks for sums; None: it does not.

    A request for anything beside them has none: a node derives from its settings that
    no honest server makes it.
    """
    parts = requests_in(request) or [request]
    if [part.task for part in parts] != [TASK]:
        return None
    return Privacy.from_settings(parts[0].content["privacy"])
