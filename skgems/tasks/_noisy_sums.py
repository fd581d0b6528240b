"""The task "noisy_sums": one vector of sums with noise, and nothing else of rows."""

from collections.abc import Mapping
from typing import Annotated

import numpy as np

from ..local import Member, NodeShape
from ..messages import Array, Flag, Json, Place, Reply, Request, Task
from ..private import Charge, Privacy, VectorLayout, charge_of, layout_of

# Sums of 2^26 rows, with noise: those of a thousand nodes still fit into int64.
_LARGEST = 2**56


def _layout_of(request: "NoisySumsRequest") -> VectorLayout:
    privacy = Privacy.from_settings(request.privacy)
    return layout_of(privacy, by_class=request.by_class)


class NoisySumsRequest(Request):
    """All that is public, and how large the noise is."""

    privacy: Annotated[Mapping, Json()]
    by_class: Annotated[bool, Flag(default=False)]

    def check(self, place: Place) -> None:
        place = place.at("privacy")
        try:
            privacy = Privacy.from_settings(self.privacy)
        except (ValueError, TypeError, KeyError) as error:
            raise place.wrong(f"cannot be read: {error!s:.200}") from None
        if privacy.epsilon is None:
            raise place.wrong(
                "has no epsilon, so the sums would have no noise. Only helpers of "
                "sealed sums may add these up, and there are none"
            )


class NoisySumsReply(Reply):
    """One vector of whole numbers, over all agreed classes."""

    vector: Annotated[
        np.ndarray,
        Array(
            "v",
            kinds="i",
            low=-_LARGEST,
            says="Counts and sums of rows by class and the products of columns, with "
            "noise: whatever anybody does with them, the odds that one person is among "
            "the rows change by a factor of exp(epsilon) at most, but for a chance of "
            "delta.",
        ),
    ]

    def check(self, request: NoisySumsRequest, place: Place) -> None:
        layout = _layout_of(request)
        if len(self.vector) != layout.n_numbers:
            raise place.at("vector").wrong(
                f"has {len(self.vector)} numbers, but {layout.n_numbers} are agreed"
            )
        if (self.vector > _LARGEST).any():
            raise place.at("vector").wrong(f"has values above {_LARGEST}")


def _cost(rows: NodeShape, request: NoisySumsRequest) -> None:
    layout = _layout_of(request)
    words = "the request 'noisy_sums'"
    rows.check("classes", layout.n_classes, words)
    rows.check("moment_numbers", layout.n_numbers, words)


def noisy_sums(member: Member, request: NoisySumsRequest) -> NoisySumsReply:
    """Reply with the vector of the rows, and with noise that is drawn here."""
    privacy = Privacy.from_settings(request.privacy)
    return NoisySumsReply(
        vector=member.private_rows.noisy_vector(privacy, by_class=request.by_class)
    )


def _charge(request: NoisySumsRequest) -> Charge | None:
    """Return what a reply spends; None: it has no noise to spend."""
    return charge_of(Privacy.from_settings(request.privacy))


NOISY_SUMS = Task(
    name="noisy_sums",
    bound="derived",
    discloses="noise",
    most=1,
    without="nothing",
    # Noise that is drawn again and again averages out.
    accepted_by="ledger",
    asks="one vector of sums of rows, with noise",
    reveals="No more than epsilon and delta say, whatever else is known.",
    alone=True,
    is_in_summaries=True,
    takes_chunks=True,
    charge=_charge,
    cost=_cost,
    reads="rows",
    request=NoisySumsRequest,
    reply=NoisySumsReply,
    answer=noisy_sums,
)
