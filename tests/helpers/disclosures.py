# SPDX-License-Identifier: BSD-3-Clause
"""Rules of disclosure that differ in the smallest number of rows alone."""

from dataclasses import replace

from skgems import Disclosure
from skgems.asking import Message


def rule_of(min_rows: int) -> Disclosure | None:
    """Return a rule with this bound on rows; None, no rule at all, for one row."""
    if min_rows == 1:
        return None
    return Disclosure(rows=min(3, min_rows), min_rows=min_rows)


def pairs_under_a_rule(pairs: list) -> list:
    """Return a pair of each task whose reply names a rule, where none of them does.

    A pair has a request and a reply.
    """
    tasks_with_rule = {
        pair.request.task for pair in pairs if "rule" in pair.reply.content
    }
    rule = {"rows": 2, "cell": 1, "unknowns": 1.0}
    pairs_by_task = {}
    for pair in pairs:
        content = pair.reply.content
        if pair.request.task not in tasks_with_rule:
            content["min_rows"] = max(2, int(content["min_rows"]))
            reply = Message.of(pair.request.task, **{**content, "rule": rule})
            pairs_by_task[pair.request.task] = replace(pair, reply=reply)
    return list(pairs_by_task.values())
