"""What a node answers: the requests that it makes itself from the agreed settings.

A server chooses what it asks, and with the right questions any rule about single
numbers can be kept while the replies together give the rows away: a hidden layer whose
units are on for one row each, four hundred seeds of clusters, two thousand thresholds.
So a node does not judge such requests. It makes those that an honest server with the
agreed settings would send, and answers what is equal to one of them.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ..messages import (
    COMMON,
    TASKS,
    TERMS,
    Agreement,
    Message,
    NotAgreedError,
    Request,
    Terms,
    first_requests_in,
    key_of,
    models_in,
    request_in,
)
from ..parties import difference_in_words, settings_of_strangers, terms_of


def check_is_derived(request: Message, agreed: Agreement | None) -> None:
    """Raise NotAgreedError unless agreed settings give rise to a request.

    Parameters
    ----------
    request : Message
        Checked by the table of tasks, but not trusted.
    agreed : Agreement or None
        None where nothing is agreed: then the settings within a first message are
        what its requests are made from, and others are not looked at.
    """
    firsts = first_requests_in(request)
    for first in firsts:
        _check_first(first, agreed)
    if agreed is None:
        return
    _check_layers(request, agreed)
    _check_judged_forests(request, agreed)
    bound = TASKS[request.task].bound
    if bound == "terms":
        _check_by_terms(request, agreed)
    elif bound == "derived" and not firsts:
        _check_later(request, agreed)


def _check_first(first: Request, agreed: Agreement | None) -> None:
    """Raise NotAgreedError unless a first message is what its settings give rise to."""
    method = first.method
    settings = first.settings
    if agreed is None:
        # Whether spaces are asked for is in no field of the message itself.
        alternatives = [{"space": False}, {"space": True}]
    else:
        alternatives = [agreed.further_settings_of(method, settings)]
    requests = first.parts
    for further_settings in alternatives:
        derived = _requests_of(
            method, settings=settings, further_settings=further_settings
        ).first
        if list(map(key_of, requests)) == list(map(key_of, derived)):
            return
    # The errors speak of the last alternative: with spaces a method asks for more.
    derived_keys = set(map(key_of, derived))
    differing = [request for request in requests if key_of(request) not in derived_keys]
    if not differing:
        raise NotAgreedError(
            f"the first message contains {len(requests)} requests, but {method} with "
            f"the agreed settings makes {len(derived)}. The node answers only what it "
            "would ask itself with these settings."
        )
    raise NotAgreedError(
        f"the first message asks what {method} with the agreed settings does not ask: "
        f"{difference_in_words(differing[0], derived):.300}. The node answers only "
        "what it would ask itself with these settings."
    )


def brings_layers(request: Message) -> bool:
    """Report whether a model of a request, or one beside it, has hidden layers."""
    compared = request.content.get("beside") or {}
    contents = (request.content, compared)
    return any(content.get("hidden") is not None for content in contents)


def _check_layers(request: Message, agreed: Agreement) -> None:
    """Refuse hidden layers under a method that merges none.

    Behind layers that a server made up even a gradient or a score, of a model that is
    not steep at all, can be of one row.
    """
    if not brings_layers(request):
        return
    terms = TERMS.get(agreed.method)
    if terms is None or not terms.merges_layers:
        raise NotAgreedError(
            f"the request ({request.task!r}) brings hidden layers, but {agreed.method} "
            "with the agreed settings merges none. The node answers only what it would "
            "ask itself with these settings."
        )
    last_layer = agreed.further_settings.get("last_layer") or {}
    if request.content.get("gradient") and last_layer.get("n_rounds", 1) == 1:
        raise NotAgreedError(
            f"the request ({request.task!r}) asks for gradients behind hidden layers, "
            f"which {agreed.method} needs only if its last layer is made in further "
            "rounds. Further rounds are not agreed."
        )


def _check_later(request: Message, agreed: Agreement) -> None:
    """Compare a request by itself with those of the method, but for what others say."""
    if "methods" in agreed.settings:  # where several are tried, none asks any more
        derived = []
    else:
        requests = _requests_of(
            agreed.method,
            settings=agreed.settings,
            further_settings=agreed.further_settings,
        )
        derived = [*requests.first, *requests.later]
    plain = _drop_filled_in(request)
    if plain.digest not in {_drop_filled_in(other).digest for other in derived}:
        raise NotAgreedError(
            f"{agreed.method} with the agreed settings does not ask this: "
            f"{difference_in_words(plain, derived):.300}. The node answers only what "
            "it would ask itself with these settings."
        )


def _check_by_terms(request: Message, agreed: Agreement) -> None:
    """Raise NotAgreedError for a request that the terms of no agreed method accept."""
    reason = f"no agreed method asks for {request.task!r}."
    for terms in _agreed_terms(agreed):
        if request.task not in terms.bounded_tasks:
            continue
        # Where several methods are tried, some have no front, and an agreement does not
        # ask for one.
        if terms.asks_behind_front and request.content.get("front") is None:
            reason = (
                f"the request ({request.task!r}) has no front, but {terms.method} asks "
                "about rows behind one only. The server has to send the agreed front "
                "with it."
            )
            continue
        try:
            terms.check_request(request)
            return
        except ValueError as error:
            reason = str(error)
    raise NotAgreedError(f"{reason:.300}")


def _agreed_terms(agreed: Agreement) -> Iterator[Terms]:
    """Yield the terms of the agreed method, or of several."""
    methods = agreed.methods
    if "methods" not in agreed.settings:
        methods = [
            {
                "method": agreed.method,
                "settings": agreed.settings,
                "further_settings": agreed.further_settings,
            }
        ]
    for method in methods:
        yield terms_of(
            str(method.get("method")),
            settings=method.get("settings", {}),
            further_settings=method.get("further_settings", {}),
        )


def _check_judged_forests(request: Message, agreed: Agreement) -> None:
    """Refuse more forests than are grown under the agreement.

    Forests can be made up that single out rows. Whoever agrees to grow trees lets a
    server ask for that anyway, but nobody else does.
    """
    forests = [model.has_forests for model in models_in(request).values()]
    if TASKS[request.task].is_of_finished_model:
        forests.append(request_in(request).model.is_forest)
    n_forests = sum(forests)
    if not n_forests:
        return
    n_agreed = sum(terms.grows_forests for terms in _agreed_terms(agreed))
    if n_forests > n_agreed:
        raise NotAgreedError(
            f"the request asks to judge {n_forests} forests, but {n_agreed} of the "
            "agreed methods grow trees."
        )


class _Requests(NamedTuple):
    """What a method asks every node for, whatever others reply."""

    first: list[Message]  # within the first message
    later: list[Message]


def _requests_of(
    method: str, *, settings: Mapping, further_settings: Mapping
) -> _Requests:
    """Requests of a method by settings from outside, which may be of any form."""
    terms = terms_of(method, settings=settings, further_settings=further_settings)
    with settings_of_strangers(method):
        return _Requests(first=terms.first_requests(), later=terms.later_requests())


def _drop_filled_in(request: Message) -> Message:
    """Return a request less fields that the server fills in or that are not given.

    A front is compared by itself, before. A node that leaves its classifier aside tells
    no more than one that does not.
    """
    not_compared = (*TASKS[request.task].filled_in, *COMMON)
    return Message.of(
        request.task,
        **{
            name: value
            for name, value in request.content.items()
            if name not in not_compared and value is not None
        },
    )
