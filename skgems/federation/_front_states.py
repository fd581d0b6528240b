"""Fitted fronts that a server sends: those agreed, or such as a node's rows allow.

Between a node's rows and the sums that it tells stands a front. Of an agreed tree of
steps the server may still choose what they are fitted to: a center and a scale that put
one row apart from all others, before features that are not linear. So a node takes one
fitted front of each tree in an exchange. If the fitted front was agreed it is that one;
if not, the node was asked for its part of it, and its own rows do not contradict it.
"""

import json
from collections.abc import Iterable, Mapping

from ..local import digest, opened_front
from ..messages import Message, NotAgreedError, joins_in


def fitted_fronts(request: Message) -> dict[str, str]:
    """Digests of the fitted fronts in a request, by digests of their trees."""
    if request.task == "front":  # which is about steps that are not fitted yet
        return {}
    return {
        _tree_of(content): opened_front(content).digest
        for content in _fronts_in(request)
    }


def check_fronts_are_due(
    request: Message,
    *,
    settings: Mapping,
    fronts_before: Mapping[str, str],
    was_asked: bool,
) -> None:
    """Raise NotAgreedError for a fitted front that another was sent or agreed for.

    Parameters
    ----------
    settings : mapping
        Of the agreement.
    fronts_before : mapping of str to str
        Digests of the fitted fronts in earlier requests, by those of their trees.
    was_asked : bool
        Whether the node told its part of what the fronts are fitted to.
    """
    digest_agreed = (settings.get("front") or {}).get("fitted")
    for tree, fitted in fitted_fronts(request).items():
        if digest_agreed is not None and fitted != digest_agreed:
            raise NotAgreedError(
                "the fitted front of this request is not the one that was agreed: its "
                "steps are fitted to something else. Ask the server for the agreement "
                "that belongs to it."
            )
        if fronts_before.get(tree, fitted) != fitted:
            raise NotAgreedError(
                "the front of this request is fitted to something else than in an "
                "earlier request of this exchange. Behind two fitted fronts the same "
                "rows would say more than was agreed. If the front was fitted again, "
                "the server has to begin a new exchange."
            )
    if digest_agreed is not None or was_asked:
        return
    for content in _fronts_in(request):
        if opened_front(content).states:
            raise NotAgreedError(
                "the front of this request was fitted without the rows of this node, "
                "which therefore cannot check it. The server asks all nodes for what "
                "the front is fitted to; or it fits the front before, and the "
                "agreement is made of an aggregator with the fitted front."
            )


def check_states(
    request: Message, X, *, name: str, min_rows: int, already_checked: Iterable[str]
) -> None:
    """Raise ValueError for a front that cannot be fitted to a node's rows and others.

    Parameters
    ----------
    X : {array-like, DataFrame, sparse matrix}
        The rows of which the node tells: not those that it holds out.
    min_rows : int
        Of columns with fewer known values it tells nothing.
    already_checked : iterable of str
        Digests of fitted fronts that need not be looked at again.
    """
    for content in _fronts_in(request):
        front = opened_front(content)
        if not front.states or front.digest in already_checked:
            continue
        text = front.contradiction(X, min_rows=min_rows)
        if text:
            raise NotAgreedError(
                "The server says that the front is fitted to the rows of node "
                f"{name!r} and others, but that cannot be. {text}. Do not answer "
                "before the server has explained it. If the rows of the node have "
                "changed since the front was fitted, a new exchange is needed."
            )


def _fronts_in(request: Message) -> list[Mapping]:
    models = list(request.content.get("models", {}).values())
    contents = models or joins_in(request) or [request.content]
    fronts = [content.get("front") for content in contents]
    return [front for front in fronts if front is not None]


def _tree_of(front: Mapping) -> str:
    """A digest of the front without what it is fitted to."""
    names = ("tree", "bounds", "drop_identifiers")
    # As a text, so that the order of names within it does not make it another.
    tree = json.dumps({name: front.get(name) for name in names}, sort_keys=True)
    return digest(tree)
