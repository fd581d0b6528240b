"""Who has to accept a request at a node before it is answered.

What a linear or pooled method asks once may be answered by anybody. What may be asked
many times is answered where a ledger counts. Where an answer means to trust the server,
as where it brings layers of its own or has a network trained, a person must have
accepted the agreement.
"""

from ..messages import (
    ACCEPTED_BY,
    TASKS,
    Message,
    NotAgreedError,
    requests_in,
)
from ._derived import brings_layers
from ._front_states import unchecked_fronts


def check_accepted(request: Message, *, has_ledger: bool, by_person: bool) -> None:
    """Raise NotAgreedError for a request that needs a ledger, or a person, to accept.

    Parameters
    ----------
    has_ledger : bool
        Whether answers are counted.
    by_person : bool
        Whether a person at the node has accepted the agreement of the exchange.
    """
    if by_person:
        return
    needed = max(map(_who_accepts, _parts_of(request)), key=ACCEPTED_BY.index)
    asks = TASKS[request.task].asks
    if needed == "person":
        raise NotAgreedError(
            f"this request ({request.task!r}) asks for {asks}. Whoever answers it "
            "trusts the server, which can make it so that the reply gives rows away. "
            "It is answered only under an agreement that a person at the node has read "
            "and accepted: pass its file as agreement, and a folder for the ledger as "
            "state (--agreement and --state)."
        )
    if needed == "ledger" and not has_ledger:
        raise NotAgreedError(
            f"this request ({request.task!r}) asks for {asks}. It may be asked again "
            "and again, or behind transformers that the server has fitted, so it is "
            "answered only where answers are counted: pass a folder for the node's "
            "ledger as state (--state)."
        )


def _parts_of(request: Message) -> list[Message]:
    """Return a request, and the requests within it."""
    return [request, *requests_in(request)]


def _who_accepts(request: Message) -> str:
    """Return who has to accept one request: "anybody", "ledger" or "person"."""
    if brings_layers(request):
        return "person"
    accepted_by = TASKS[request.task].accepted_by
    if accepted_by == "anybody" and _has_fitted_front(request):
        return "ledger"
    return accepted_by


def _has_fitted_front(request: Message) -> bool:
    """Report whether a request has a front that is fitted to something."""
    if TASKS[request.task].fits_front:
        return False
    return bool(unchecked_fronts(request, checked=()))
