"""A summary with noise that a node's ledger counts and keeps, as if it were asked."""

import os
from collections.abc import Mapping, MutableMapping
from dataclasses import replace

from ..base import BaseAggregator
from ..messages import Agreement, Limits, sealed
from ..parties import Summary
from ._replying import reply_to


def summary_in_ledger(
    aggregator: BaseAggregator,
    rows: Mapping[str, object],
    *,
    name: str,
    state: str | os.PathLike | MutableMapping | None,
    limits: Limits | None,
) -> Summary:
    """Return the summary of a node with noise, which the same rows get again.

    ``rows`` are those of `SummarizingMixin._summarize`.
    """
    aggregator._validate_params()
    aggregator._method().check_one_message()
    if state is None:
        raise ValueError(
            f"Node {name!r}: limits are about what a ledger counts. Pass state too."
        )
    if aggregator.privacy is None:
        raise ValueError(
            f"Node {name!r}: state is the ledger that counts noise, and this "
            "aggregator has none. Leave state out, set privacy, or have a server "
            "ask and answer with reply_to, which keeps all replies."
        )
    if rows["chunks"] is not None or rows["sample_weight"] is not None:
        raise ValueError(
            f"Node {name!r}: with state, the ledger has to know all rows again. "
            "Pass X and y in place of chunks, and no sample_weight."
        )
    if rows["X"] is None or rows["y"] is None:
        raise ValueError(f"Node {name!r}: pass X and y, the rows that are summed.")
    agreement = Agreement.of(aggregator, nodes=[name])
    # As a server asks, whose request gets the same reply.
    request = aggregator._agreed_terms.first_message().with_fields(rows_alone=True)
    reply = reply_to(
        sealed(request, agreement),
        None,
        rows["X"],
        rows["y"],
        name=name,
        held_out=rows["held_out"],
        groups=rows["groups"],
        agreement=agreement,
        state=state,
        limits=limits,
    )
    return Summary(replace(reply, envelope={}))
