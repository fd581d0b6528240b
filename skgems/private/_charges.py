"""What noise in messages spends, and what is said of it to people."""

from collections.abc import Iterable

from ..base import BaseAggregator
from ..messages import TASKS, Message, request_in, requests_in
from ._accounting import Charge
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
