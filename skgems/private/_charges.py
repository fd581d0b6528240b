"""What noise in messages spends, and what is said of it to people."""

from collections.abc import Iterable

from ..base import BaseAggregator
from ..messages import TASKS, Agreement, Message, request_in, requests_in
from ._accounting import Charge
from ._rows import charge_of
from ._terms import NoisyTerms
from ._words import noise_in_words


def charges_of(request: Message) -> list[Charge]:
    """Return what the noise of a reply spends; empty if it has no noise."""
    requests = requests_in(request)
    if requests:
        return [charge for inner in requests for charge in charges_of(inner)]
    charge_of_request = TASKS[request.task].charge
    if charge_of_request is None:
        return []
    charge = charge_of_request(request_in(request))
    return [] if charge is None else [charge]


def noise_of(requests: Iterable[Message]) -> str:
    """Say what the noise of replies to requests promises; empty if there is none."""
    charges = [charge for request in requests for charge in charges_of(request)]
    return " ".join(map(noise_in_words, charges))


def noise_told(aggregator: BaseAggregator) -> str:
    """Say what the noise promises that nodes put on what they tell of their rows."""
    if aggregator.privacy is None:
        return ""
    return noise_of(aggregator._agreed_terms.first_requests())


def agreement_in_words(agreed: Agreement) -> dict[str, str]:
    """Return a sentence for each part of an agreement, those on noise included."""
    sentences = agreed.says
    if agreed.method != NoisyTerms.method:
        return sentences
    try:
        terms = NoisyTerms.from_settings(agreed.settings, agreed.further_settings)
    except (KeyError, TypeError, ValueError, AttributeError):
        return sentences  # settings of strangers, which no node answers
    charge = charge_of(terms.privacy)
    if charge is not None:
        sentences["noise"] = noise_in_words(charge)
    return sentences | {
        "tasks.join": (
            "The server may ask once for one vector of sums of rows, with noise."
        ),
        "disclosure": (
            "No rule of disclosure is applied, since the noise takes its place."
        ),
    }
