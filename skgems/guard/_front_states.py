"""Fitted fronts that a server sends, and what of them a node takes.

Between a node's rows and the sums that it tells stands a front. If a tree of steps is
agreed, the server may still choose what they are fitted to: a center and a scale that
put one row apart from all others, before features that are not linear. So a node takes
a fitted step only if it has told its part of the statistic that the step is fitted to,
and if its own rows do not contradict it. It takes one fitted front of each tree in an
exchange, and if the fitted front was agreed, it is that one.
"""

from collections.abc import Collection, Iterable, Mapping

import numpy as np

from ..local import digest, opened_front
from ..messages import Message, NotAgreedError, contents_of, task_named, unfitted_front
from ..steps import Columns, Front


def fitted_fronts(request: Message) -> dict[str, str]:
    """Digests of the fitted fronts in a request, by digests of their trees."""
    if task_named(request.task).fits_front:
        return {}
    return {
        digest(unfitted_front(content)): opened_front(content).digest
        for content in _fronts_in(request)
    }


def statistics_told(request: Message, reply: Message) -> list[str]:
    """Return hashes of the statistics of steps that a reply has of a node's rows."""
    if not task_named(request.task).fits_front:
        return []
    statistics = opened_front(request.content["front"]).statistics
    return sorted(statistics[path] for path in reply.content["parts"])


def check_fronts_are_due(
    request: Message,
    *,
    settings: Mapping,
    fronts_before: Mapping[str, str],
    told: Collection[str],
    may_be_made_up: bool,
) -> None:
    """Raise NotAgreedError for a fitted front that another was sent or agreed for.

    It is raised for a step as well that is fitted to a statistic which the node has not
    told.

    Parameters
    ----------
    settings : mapping
        Those of the agreement, whose "front" has the digest of the fitted front if one
        was agreed.
    fronts_before : mapping of str to str
        Digests of the fitted fronts in earlier requests, by those of their trees.
    told : collection of str
        Hashes of the statistics of these rows that the node has told.
    may_be_made_up : bool
        Whether a person has accepted a fitted front, and that single rows may be known:
        it may then be of any rows.
    """
    digest_agreed = (settings.get("front") or {}).get("fitted")
    for tree, fitted in fitted_fronts(request).items():
        if digest_agreed is not None and fitted != digest_agreed:
            raise NotAgreedError(
                "the fitted front of this request is not the one that was agreed: its "
                "steps are fitted to other statistics. Ask the server for the "
                "agreement that belongs to it."
            )
        if fronts_before.get(tree, fitted) != fitted:
            raise NotAgreedError(
                "the front of this request is not fitted as in an earlier request of "
                "this exchange. Statistics of the same rows behind two fitted fronts "
                "would reveal more than was agreed. If the front was fitted again, the "
                "server has to start a new exchange."
            )
    if may_be_made_up:
        return
    for content in _fronts_in(request):
        untold = opened_front(content).untold(told)
        if untold:
            raise NotAgreedError(
                "the front of this request was fitted without the rows of this node, "
                f"which told no statistics for {untold[0]} and therefore cannot check "
                "it. The server has to give its aggregator the unfitted transformers, "
                "so that all nodes are asked; a front that comes fitted is accepted "
                "where the node's ledger has its part in it, of the same rows."
            )


def unchecked_fronts(request: Message, checked: Iterable[str]) -> list[Front]:
    """Fronts in a request that are fitted to something; without those checked before.

    ``checked`` has the digests of these.
    """
    fronts = [opened_front(content) for content in _fronts_in(request)]
    digests = set(checked)
    return [front for front in fronts if front.states and front.digest not in digests]


def check_leaves_out(
    front: Front, columns: Columns, dropped: np.ndarray | None, *, name: str
) -> None:
    """Raise NotAgreedError for a front with columns that a node said it does not use.

    Parameters
    ----------
    columns : Columns
        Those of the node's rows.
    dropped : ndarray of bool of shape (n_columns,), or None
        Which of them its classifier drops by name; None: it drops none.
    """
    if dropped is None or not front.drop_identifiers or front.columns is None:
        return
    kept = [front.columns.labels[place] for place in front.columns.kept_places]
    dropped_labels = [columns.labels[place] for place in np.flatnonzero(dropped)]
    taken = [label for label in dropped_labels if label in kept]
    if taken:
        raise NotAgreedError(
            f"the front takes the columns {taken[:5]}, but the classifier of node "
            f"{name!r} drops them, and the node said so. Do not answer before the "
            "server has explained it."
        )


def _fronts_in(request: Message) -> list[Mapping]:
    """The contents of all fronts in a request, of those within it too."""
    fronts = [content.get("front") for content in contents_of(request)]
    return [front for front in fronts if front is not None]
