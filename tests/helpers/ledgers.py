# SPDX-License-Identifier: BSD-3-Clause
"""A node with a ledger, and requests of exchanges that it agreed to."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from skgems import GEMSLogisticAggregator
from skgems.asking import Message
from skgems.guard import Agreement, read_entries, reply_to
from skgems.messages import sealed

RNG = np.random.RandomState(0)
X = RNG.standard_normal((60, 3))
Y = np.where(X[:, 0] > 0, "ill", "well")
CLF = LogisticRegression().fit(X, Y)
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")


def begin_exchange(tasks=None, **settings):
    """The agreement of a new exchange, and its first request."""
    agg = GEMSLogisticAggregator(n_rounds=3, random_state=0).set_params(**settings)
    agreement = Agreement.of(agg)
    if tasks is not None:
        agreement = replace(agreement, tasks=tasks)
    return agreement, sealed(agg._agreed_terms.first_message(), agreement)


def judging_request(agreement, size=1.0, **fields):
    """A request to judge a model; with another size it is another request."""
    W = size * np.vstack([CLF.coef_.T, CLF.intercept_])
    content = {
        "W": np.hstack([-W / 2, W / 2]),
        "labels": ["ill", "well"],
        "columns": np.array([0, 1]),
        "factors": np.ones(1),
    }
    return sealed(Message.of("evaluate", **content | fields), agreement)


def request_without_content(agreement, task):
    """A request without content."""
    return sealed(Message.of(task), agreement)


def answer(request, state, *, clf=CLF, rows=X, y=Y, **options):
    """The reply of a node whose ledger is in ``state``, a dict or a folder."""
    return reply_to(request, clf, rows, y, name="lyon", state=state, **options)


def log_of(state):
    """Entries of the node's ledger."""
    return read_entries(state)


def events_of_log(state):
    """What happened, as the node's log calls it, entry by entry."""
    return [entry["event"] for entry in log_of(state)]


class KilledError(BaseException):
    """Stands for the end of a process, in that no handler of errors catches it."""


# Six rows of each class: a node says nothing of them where sums are of ten at least.
FEW = np.r_[np.flatnonzero(Y == "ill")[:6], np.flatnonzero(Y == "well")[:6]]
FEW_ROWS = {"rows": X[FEW], "y": Y[FEW]}


# ---- a ledger of the version before --------------------------------------------------


def as_earlier_version(state):
    """Turn a ledger into what the version before would have written.

    It had replies and digests of rows in files, and a digest in each entry of all
    entries up to it.
    """
    if isinstance(state, dict):
        with closing(sqlite3.connect(":memory:")) as database:
            database.deserialize(state["ledger.sqlite"])
            contents = _earlier_contents(database)
        state.clear()
        state |= contents
        return
    with closing(sqlite3.connect(state / "ledger.sqlite")) as database:
        contents = _earlier_contents(database)
        database.executescript(
            "DROP TABLE contents; PRAGMA user_version = 2;"
            "CREATE TABLE entries (number INTEGER PRIMARY KEY, line TEXT NOT NULL);"
            "CREATE TRIGGER entries_are_not_removed BEFORE DELETE ON entries "
            "BEGIN SELECT RAISE(ABORT, 'entries of a ledger are only ever added'); END;"
        )
        lines = contents["log.jsonl"].decode().splitlines()
        database.executemany(
            "INSERT INTO entries (line) VALUES (?)", [(line,) for line in lines]
        )
        database.commit()
    for name, content in contents.items():
        (state / name).write_bytes(content)
    head = {
        "entries": len(lines),
        "chain": json.loads(lines[-1])["chain"],
        "changed": os.stat(state / "ledger.sqlite").st_ctime_ns,
    }
    (state / "ledger.head").write_text(json.dumps(head))


def _earlier_contents(database):
    """The files of the version before by name, without its database and its head."""
    contents = dict(database.execute("SELECT name, content FROM contents"))
    del contents["entry"]
    # It counted no numbers, and kept no residuals.
    contents = {
        name: content
        for name, content in contents.items()
        if not name.endswith("-residuals.npy")
    }
    chain = ""
    log = ""
    key = hashlib.sha256(contents["ledger.key"]).hexdigest()
    for (line,) in database.execute(
        "SELECT content FROM contents WHERE name = 'entry' ORDER BY number"
    ):
        entry = json.loads(line)
        for name in ("has_residuals", "told"):
            entry.pop(name, None)
        if entry["event"] == "opened":
            entry["row_key"] = key
        text = chain + json.dumps(entry, sort_keys=True)
        chain = hashlib.sha256(text.encode()).hexdigest()
        log += json.dumps({**entry, "chain": chain}) + "\n"
    return contents | {"log.jsonl": log.encode()}
