# SPDX-License-Identifier: BSD-3-Clause
"""Golden cases of what travels: files, folders, channels, regions, chunks, ledgers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from golden.data import NAMES, digits, iris, linear, linears, mlps
from golden.nodes import (
    Wire,
    in_chunks,
    message_record,
    rows_of,
    summaries_of,
    summary_record,
    temporary_folder,
)
from helpers.accepting import nodes_that_accept_everything
from helpers.parts import in_parts
from sklearn.linear_model import RidgeClassifier, SGDClassifier
from sklearn.naive_bayes import MultinomialNB

from skgems import (
    Exchange,
    GEMSLogisticAggregator,
    GEMSMLPAggregator,
    ModelAveragingAggregator,
    PFNMAggregator,
    PooledAggregator,
    answer,
)
from skgems.asking import Message, RowsAlone
from skgems.averaging import Downpour, Schedule
from skgems.gems import HiddenLayers, Rounds
from skgems.guard import (
    Agreement,
    NotAgreedError,
    RowsAskedAgainError,
    RowsChangedError,
    read_entries,
    reply_to,
)
from skgems.messages import TASKS
from skgems.parties import Summary

OVERLAPPING, BINARY = digits("overlapping"), digits("binary")
HOMOGENEOUS, ONE_CLASS = digits("homogeneous"), digits("one class")
STRINGS, IRIS = digits("overlapping", strings=True), iris()
RIDGE, SGD = RidgeClassifier(alpha=0.5), SGDClassifier(max_iter=1, random_state=0)


def linear_of(**parameters):
    """The linear aggregator; parameters of its parts go by their own names."""
    return GEMSLogisticAggregator(random_state=0, **in_parts(parameters))


# ---- a channel of bytes -------------------------------------------------------


def over_a_wire(aggregate, rows=OVERLAPPING, members=None, **reply_options):
    """Fit by messages alone, then ask how good it is."""
    wire = Wire(rows, members and members(rows), **reply_options)
    aggregate.set_params(estimators=wire.channel(), random_state=0).fit()
    if hasattr(aggregate, "ask_scores"):
        aggregate.ask_scores()
    return aggregate, rows.X_test, wire.record()


def without_a_node(rows=OVERLAPPING):
    """One node never answers: it is left out."""
    wire = Wire(rows, linears(rows), down=["east"])
    aggregate = linear_of(n_rounds=2).set_params(estimators=wire.channel()).fit()
    return aggregate, rows.X_test, wire.record()


def rows_alone(rows=OVERLAPPING):
    """Nodes with classifiers answer as if they had none."""
    wire = Wire(rows, linears(rows))
    aggregate = linear_of(estimators=RowsAlone(wire.channel())).fit()
    return aggregate, rows.X_test, wire.record()


def fits_of_one_channel(rows=OVERLAPPING):
    """The second fit, with other parameters of the server, asks no node again."""
    wire = Wire(rows, linears(rows), radii=True)
    channel = wire.channel(agreement=agreement_of(linear_of(epsilon=0.5)))
    linear_of(estimators=channel, epsilon=0.5).fit()
    aggregate = linear_of(estimators=channel, epsilon=0.8, on_empty="ignore")
    aggregate.fit()
    return aggregate, rows.X_test, wire.record()


def rows_alone_beside_a_classifier(rows=OVERLAPPING):
    members = [linears(rows)[0], None, None]
    aggregate = linear_of(estimators=members)
    return aggregate.fit(rows.X, rows.y, nodes=rows.nodes), rows.X_test


# ---- ledgers and agreements ---------------------------------------------------


def agreement_of(aggregate, **parameters):
    """An agreement whose exchange has a fixed number, not one drawn at random."""
    terms = {"nodes": NAMES, "disclosure": None, **parameters}
    return replace(Agreement.of(aggregate, **terms), exchange="0" * 32)


def agreed_terms():
    """What each kind of aggregator asks all parties to accept."""
    aggregates = {
        "linear": linear_of(n_rounds=4),
        "linear epsilon": linear_of(epsilon=0.9),
        "networks": GEMSMLPAggregator(n_rounds=2, random_state=0),
        "matching": PFNMAggregator(n_rounds=2, random_state=0),
        "averaging": ModelAveragingAggregator(n_rounds=3, random_state=0),
        "pooled": PooledAggregator(pooled=MultinomialNB()),
    }
    agreed = {name: agreement_of(agg) for name, agg in aggregates.items()}
    return {
        name: {
            "json": agreement.to_json(),
            # Words may change; what they are about may not.
            "says": list(agreement.says),
            "is_read_back": Agreement.from_json(agreement.to_json()) == agreement,
        }
        for name, agreement in agreed.items()
    }


def refused(error, ask) -> bool:
    try:
        ask()
    except error:
        return True
    return False


def with_a_ledger(rows=OVERLAPPING):
    """A node counts, keeps its replies, and refuses what is not agreed."""
    aggregate = linear_of(n_rounds=2)
    agreement = agreement_of(aggregate)
    member = linears(rows)[0]
    X, y = rows_of(rows, 0)
    join, evaluate = _requests_of(aggregate, rows)
    other_terms = linear_of(n_components=1, n_rounds=2)
    other_join = _requests_of(other_terms, rows)[0]
    with temporary_folder() as folder:

        def ask(request, X=X, agreement=agreement):
            return reply_to(
                request.with_envelope(exchange=agreement.exchange),
                member,
                X,
                y,
                name="north",
                agreement=agreement,
                state=folder,
                disclosure=None,
            )

        other = replace(agreement_of(other_terms), exchange="1" * 32)
        joined = ask(join)
        refuses_other_rows = refused(RowsChangedError, lambda: ask(evaluate, X=2 * X))
        replies = [joined, ask(evaluate)]
        return {
            "replies": [message_record(reply) for reply in replies],
            "same_reply_again": ask(evaluate).digest == replies[1].digest,
            "refuses_what_is_not_agreed": refused(
                NotAgreedError, lambda: ask(Message.of("counts"))
            ),
            "refuses_more_than_agreed": refused(
                NotAgreedError,
                lambda: ask(evaluate.with_fields(W=-evaluate.content["W"])),
            ),
            "refuses_other_rows": refuses_other_rows,
            "refuses_other_terms": refused(
                RowsAskedAgainError,
                lambda: ask(other_join, agreement=other),
            ),
            "entries": [
                {key: entry.get(key) for key in ("event", "task", "node")}
                for entry in read_entries(folder)
            ],
        }


def _requests_of(aggregate, rows):
    """The requests that a fit of an aggregator makes to the first node."""
    wire = Wire(rows, linears(rows))
    aggregate.set_params(estimators=wire.channel()).fit()
    return [
        Message.from_bytes(content)
        for name, content in wire.kept.items()
        if name.endswith("north request")
    ]


def over_a_wire_with_ledgers(rows=OVERLAPPING):
    """Each node has a ledger; the entries name what was asked."""
    with temporary_folder() as folder:
        wire = Wire(rows, linears(rows), ledgers=folder)
        aggregate = linear_of(n_rounds=3, estimators=wire.channel()).fit()
        entries = {
            name: [
                {key: entry.get(key) for key in ("event", "task", "node")}
                for entry in read_entries(folder / name)
            ]
            for name in wire.names
        }
    return aggregate, rows.X_test, {"ledgers": entries, **wire.record()}


def evaluated(rows=OVERLAPPING):
    """What nodes tell of the finished model, exactly."""
    wire = Wire(rows, linears(rows))
    aggregate = linear_of(estimators=wire.channel()).fit()
    columns = aggregate.evaluate().columns
    return aggregate, rows.X_test, {"columns": columns, **wire.record()}


# ---- folders ------------------------------------------------------------------


def by_folder(aggregate, rows=OVERLAPPING, members=None, leave_out=(), **options):
    """An exchange of files; the server is started anew for each step."""
    members = dict(zip(NAMES, members(rows) if members else [None] * 3, strict=True))
    with temporary_folder() as folder:
        place = folder / "work"
        exchange = Exchange(place, aggregate, nodes=NAMES, disclosure=None)
        exchange.step()
        while (fitted := exchange.step(leave_out=leave_out)) is None:
            for name, request in exchange.waiting_for.items():
                with nodes_that_accept_everything():
                    answer(
                        request,
                        members[name],
                        *rows_of(rows, NAMES.index(name)),
                        name=name,
                        disclosure=None,
                        **options,
                    )
            exchange = Exchange(place)
        files = sorted(
            path.relative_to(place).as_posix()
            for path in place.rglob("*")
            if path.is_file() and path.suffix != ".lock"
        )
        messages = {
            path: message_record(Message.from_bytes((place / path).read_bytes()))
            for path in files
            if path.endswith(".safetensors")
        }
        contents = {
            path.replace("/", " "): (place / path).read_bytes() for path in messages
        }
    fields = {"files": files, "messages": messages, "kept": contents}
    return fitted, rows.X_test, fields


# ---- files --------------------------------------------------------------------


def by_files(aggregate, rows=OVERLAPPING, members=None, **options):
    sent = summaries_of(aggregate, rows, members and members(rows), **options)
    aggregate.set_params(estimators=sent).fit()
    return aggregate, rows.X_test, summary_record(sent)


def by_paths(rows=OVERLAPPING):
    """Of files that stay on disk, one beside a fitted classifier."""
    aggregate = linear_of()
    sent = summaries_of(aggregate, rows, linears(rows))
    with temporary_folder() as folder:
        paths = [folder / f"{name}.safetensors" for name in NAMES]
        for summary, path in zip(sent, paths, strict=True):
            summary.save(path)
        aggregate.set_params(estimators=paths).fit()
        is_same = Summary.load(paths[0]).message.digest == sent[0].message.digest
        model = aggregate.coef_, aggregate.intercept_
    return {"is_read_back": is_same, "coef_": model[0], "intercept_": model[1]}


def of_exact_sums(rows=OVERLAPPING):
    """Sums of digits over 16 are exact, so that a file of them has the same bits."""
    sent = summaries_of(PooledAggregator(pooled=MultinomialNB()), rows)
    return {"digests": [summary.message.digest for summary in sent]}


def bytes_of_a_message():
    """The form of a message: its bytes and its digest."""
    message = Message.of(
        "moments",
        kind="class",
        numbers=[0, True, 1e-300, 0.1, None],
        nested={"x": [1, {"y": "ä"}]},
        arrays=[np.arange(6.0).reshape(2, 3), np.arange(3)],
        single=np.array([1 / 3], dtype=np.float32),
    )
    addressed = message.with_envelope(node="north", exchange="0" * 32)
    return {
        "digest": message.digest,
        "bytes": message.to_bytes(),
        "bytes of addressed": addressed.to_bytes(),
        "version": message.version,
    }


def table_of_tasks():
    """Fields of every request and reply, as the checks of both sides read them."""
    return {
        name: {
            "most": task.most,
            "request": sorted(task.request.fields),
            "reply": sorted(task.reply.fields),
        }
        for name, task in TASKS.items()
    }


# ---- regions and chunks -------------------------------------------------------


def by_region(aggregate, rows=OVERLAPPING, members=linears, **options):
    """Two nodes by the summary of their region, the third by its own."""
    north, east, south = summaries_of(aggregate, rows, members(rows), **options)
    region = aggregate.merge_summaries([north, east], name="region")
    aggregate.set_params(estimators=[region, south]).fit()
    return aggregate, rows.X_test, summary_record([region])


def by_region_of_regions(rows=OVERLAPPING):
    aggregate = linear_of()
    north, east, south = summaries_of(aggregate, rows, linears(rows))
    region = aggregate.merge_summaries([north, east], name="region")
    country = aggregate.merge_summaries([region, south], name="country")
    aggregate.set_params(estimators=[country]).fit()
    return aggregate, rows.X_test, summary_record([country])


def by_chunks(aggregate, rows=OVERLAPPING, members=linears, **options):
    members = members(rows) if members else [None] * 3
    sent = [
        aggregate.summarize(
            member,
            name=NAMES[k],
            chunks=in_chunks(*rows_of(rows, k)),
            disclosure=None,
            **options,
        )
        for k, member in enumerate(members)
    ]
    aggregate.set_params(estimators=sent).fit()
    return aggregate, rows.X_test, summary_record(sent)


# ---- nodes that come and go ---------------------------------------------------


def comes(aggregate, rows=OVERLAPPING, members=linears):
    """The third node comes later, with its rows."""
    *first, last = list(zip(NAMES, members(rows), strict=True))
    is_first = rows.nodes < 2
    aggregate.set_params(estimators=first)
    aggregate.fit(rows.X[is_first], rows.y[is_first], nodes=rows.named_nodes[is_first])
    X, y = rows_of(rows, 2)
    return aggregate.update([last], X, y), rows.X_test


def comes_by_file(aggregate, rows=OVERLAPPING, members=linears):
    *first, last = summaries_of(aggregate, rows, members(rows))
    aggregate.set_params(estimators=first).fit()
    return aggregate.update([last]), rows.X_test


def goes(aggregate, rows=OVERLAPPING, members=linears):
    named = list(zip(NAMES, members(rows), strict=True))
    aggregate.set_params(estimators=named)
    aggregate.fit(rows.X, rows.y, nodes=rows.named_nodes)
    return aggregate.forget("east"), rows.X_test


def goes_by_file(aggregate, rows=OVERLAPPING, members=linears):
    aggregate.set_params(estimators=summaries_of(aggregate, rows, members(rows))).fit()
    return aggregate.forget("north"), rows.X_test


def comes_again(rows=OVERLAPPING):
    """A node that is known comes with another classifier."""
    aggregate, X_test = comes(linear_of(keep_replies=True))
    X, y = rows_of(rows, 0)
    return aggregate.update([("north", linear(X, y, None, 7))], X, y), X_test


def ridges(rows):
    return linears(rows, RIDGE)


def sgds(rows):
    return linears(rows, SGD)


def wide(rows):
    return mlps(rows, (12,))


# ---- the table ----------------------------------------------------------------

KEPT = {"keep_replies": True}

CASES = {
    "message bytes": lambda: bytes_of_a_message(),
    "message table": lambda: table_of_tasks(),
    "message of exact sums": lambda: of_exact_sums(),
    # A channel.
    "wire linear": lambda: over_a_wire(linear_of(), members=linears),
    "wire linear rows alone": lambda: over_a_wire(linear_of()),
    "wire linear string labels": lambda: over_a_wire(linear_of(), STRINGS, linears),
    "wire linear one class": lambda: over_a_wire(linear_of(), ONE_CLASS, linears),
    "wire linear ridges": lambda: over_a_wire(linear_of(), members=ridges),
    "wire linear shared": lambda: over_a_wire(
        linear_of(moments="shared"), members=linears
    ),
    "wire linear epsilon": lambda: over_a_wire(
        linear_of(epsilon=0.5), members=linears, radii=True
    ),
    "wire linear log_loss": lambda: over_a_wire(
        linear_of(epsilon=3.0, criterion="log_loss"), BINARY, linears, radii=True
    ),
    "wire linear consensus": lambda: over_a_wire(
        linear_of(intersection="consensus", on_empty="ignore"),
        members=linears,
        radii=True,
    ),
    "wire linear four messages": lambda: over_a_wire(
        linear_of(n_rounds=4), members=linears
    ),
    "wire linear candidates": lambda: over_a_wire(
        linear_of(n_rounds=Rounds(3, candidates=["lda", "average"])), members=linears
    ),
    "wire networks": lambda: over_a_wire(
        GEMSMLPAggregator(
            hidden_layers=HiddenLayers(max_units=10),
            local_epochs=1,
        ),
        HOMOGENEOUS,
        mlps,
    ),
    "wire networks rounds": lambda: over_a_wire(
        GEMSMLPAggregator(
            hidden_layers=HiddenLayers(max_units=8),
            local_epochs=1,
            n_rounds=2,
        ),
        HOMOGENEOUS,
        mlps,
    ),
    "wire matching": lambda: over_a_wire(PFNMAggregator(), members=wide),
    "wire matching rounds": lambda: over_a_wire(
        PFNMAggregator(n_rounds=2, local_epochs=1), HOMOGENEOUS, wide
    ),
    "wire averaging": lambda: over_a_wire(
        ModelAveragingAggregator(node_weight="class_counts"), members=linears
    ),
    "wire averaging rounds": lambda: over_a_wire(
        ModelAveragingAggregator(n_rounds=2, local_epochs=1), HOMOGENEOUS, sgds
    ),
    "wire averaging downpour": lambda: over_a_wire(
        ModelAveragingAggregator(
            n_rounds=2,
            local_epochs=1,
            schedule=Schedule("constant", epochs="fixed"),
            server=Downpour(),
        ),
        HOMOGENEOUS,
        sgds,
    ),
    "wire without a node": lambda: without_a_node(),
    "wire of rows alone": lambda: rows_alone(),
    "wire asked once": lambda: fits_of_one_channel(),
    "rows alone beside a classifier": lambda: rows_alone_beside_a_classifier(),
    # Agreements and ledgers.
    "agreements": lambda: agreed_terms(),
    "ledger": lambda: with_a_ledger(),
    "ledgers of all nodes": lambda: over_a_wire_with_ledgers(),
    # Folders.
    "folder linear": lambda: by_folder(linear_of(), members=linears),
    "folder linear three messages": lambda: by_folder(
        linear_of(n_rounds=3), members=linears
    ),
    "folder pooled": lambda: by_folder(PooledAggregator(pooled=MultinomialNB())),
    "folder networks": lambda: by_folder(
        GEMSMLPAggregator(
            hidden_layers=HiddenLayers(max_units=10), local_epochs=0, random_state=0
        ),
        HOMOGENEOUS,
        mlps,
    ),
    "folder averaging": lambda: by_folder(
        ModelAveragingAggregator(n_rounds=2, local_epochs=1, random_state=0),
        HOMOGENEOUS,
        sgds,
    ),
    "folder without a node": lambda: by_folder(
        linear_of(), members=linears, leave_out=["east"]
    ),
    "evaluation by nodes": lambda: evaluated(),
    # Files.
    "files linear": lambda: by_files(linear_of(), members=linears),
    "files linear space": lambda: by_files(
        linear_of(epsilon=0.5), members=linears, space=True
    ),
    "files linear classes": lambda: by_files(
        linear_of(criterion="log_loss", epsilon=3.0),
        BINARY,
        linears,
        classes=[0, 1],
    ),
    "files linear diagonal": lambda: by_files(
        linear_of(moments="diagonal"), members=linears
    ),
    "files ridges": lambda: by_files(linear_of(), members=ridges),
    "files rows alone": lambda: by_files(linear_of()),
    "files matching": lambda: by_files(PFNMAggregator(random_state=0), members=wide),
    "files averaging": lambda: by_files(
        ModelAveragingAggregator(node_weight="n_samples", random_state=0),
        members=linears,
    ),
    "paths": lambda: by_paths(),
    # Regions and chunks.
    "region linear": lambda: by_region(linear_of()),
    "region linear shared": lambda: by_region(linear_of(moments="shared")),
    "region linear diagonal": lambda: by_region(linear_of(moments="diagonal")),
    "region ridges": lambda: by_region(linear_of(), members=ridges),
    "region one class": lambda: by_region(linear_of(), ONE_CLASS),
    "region of regions": lambda: by_region_of_regions(),
    "chunks linear": lambda: by_chunks(linear_of()),
    "chunks linear one component": lambda: by_chunks(linear_of(n_components=1)),
    "chunks linear shared": lambda: by_chunks(linear_of(moments="shared")),
    "chunks linear diagonal": lambda: by_chunks(linear_of(moments="diagonal")),
    "chunks rows alone": lambda: by_chunks(linear_of(), members=None),
    "chunks ridges": lambda: by_chunks(linear_of(), members=ridges),
    "chunks matching": lambda: by_chunks(PFNMAggregator(random_state=0), members=wide),
    "chunks averaging": lambda: by_chunks(
        ModelAveragingAggregator(node_weight="n_samples", random_state=0)
    ),
    # Nodes that come and go.
    "update linear": lambda: comes(linear_of(**KEPT)),
    "update linear ridges": lambda: comes(linear_of(**KEPT), members=ridges),
    "update linear by file": lambda: comes_by_file(linear_of(**KEPT)),
    "update linear epsilon": lambda: comes(linear_of(epsilon=0.5, **KEPT)),
    "update a node that is known": lambda: comes_again(),
    "forget linear": lambda: goes(linear_of(**KEPT)),
    "forget linear ridges": lambda: goes(linear_of(**KEPT), members=ridges),
    "forget linear by file": lambda: goes_by_file(linear_of(**KEPT)),
    "forget linear epsilon": lambda: goes(linear_of(epsilon=0.5, **KEPT)),
    "forget a class": lambda: goes_by_file(linear_of(**KEPT), ONE_CLASS),
}
