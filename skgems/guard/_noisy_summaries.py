"""Summaries with noise, which a node makes by itself or through its ledger."""

import os
from collections.abc import Mapping, MutableMapping
from dataclasses import replace
from functools import partial

from ..base import BaseAggregator
from ..messages import Agreement, Limits, sealed
from ..parties import Summary, check_node, noisy_summary
from ..private import PrivateRows
from ._given_rows import check_chunks_stand_alone, raise_without_rows
from ._replying import reply_to


def summary_with_noise(
    aggregator: BaseAggregator, rows: Mapping[str, object], *, name: str
) -> Summary:
    """Return the summary of a node, of which one vector depends on its rows."""
    check_node(aggregator, None, name)
    if rows["sample_weight"] is not None:
        aggregator._method().check_takes_weights()
    if rows["chunks"] is None:
        if rows["X"] is None or rows["y"] is None:
            raise_without_rows(name)
        parts = partial(list, [(rows["X"], rows["y"], rows["held_out"])])
    else:
        check_chunks_stand_alone(rows, name=name)
        parts = rows["chunks"]
    private_rows = PrivateRows(name=name, parts=parts, groups=rows["groups"])
    return noisy_summary(private_rows, aggregator, table=rows["X"])


def summary_in_ledger(
    aggregator: BaseAggregator,
    rows: Mapping[str, object],
    *,
    name: str,
    state: str | os.PathLike | MutableMapping | None,
    limits: Limits | None,
) -> Summary:
    """Return a summary with noise, counted and kept as if a server had asked for it."""
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
        raise_without_rows(name)
    agreement = Agreement.of(aggregator, nodes=[name])
    # As a server asks, whose request gets the same reply.
    terms = aggregator._agreed_terms
    request = terms.first_message().with_fields(rows_alone=True)
    if terms.front is not None:
        request = request.with_fields(front=terms.front.as_content())
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
