# SPDX-License-Identifier: BSD-3-Clause
"""Every field of every reply, and the rule that it passes before it leaves a node.

A new field is a new way out. Whoever adds one says here which rule it passes; a field
that is not listed fails.
"""

from __future__ import annotations

import pytest

import skgems  # noqa: F401 puts what nodes can be asked into a table
from skgems.messages import TASKS

# What a field tells of rows:
# "nothing": settings, labels, shapes, what the node's owner or the server chose.
# "model": what the node's own classifier is.
# "counts": numbers of rows or of their weights, of classes of min_rows or more.
# "sums": sums of rows with the weights of the rule, with leverages below its bound.
# "score": how many rows a model predicts correctly, in steps of min_rows, or its loss;
# how many have scores within bins, how well scores tell classes apart, in steps.
# "tails": a power of two that says how far out rows are.
# "noise": sums to which noise was added, in place of a rule.
# "within": replies that are checked by themselves.
# "consent": more than the rule lets be told, by consent.
RULES = {
    "boost": {
        "gradients": "consent",
        "hessians": "consent",
        "n_rows": "counts",
    },
    "class_sums": {
        "labels": "nothing",
        "n_rows": "counts",
        "counts": "counts",
        "sums": "sums",
        "sizes": "nothing",
        "left_out": "nothing",
    },
    "counts": {"labels": "nothing", "counts": "counts"},
    "describe": {"network": "model", "rows": "counts"},
    "evaluate": {
        "count": "counts",
        "squares": "score",
        "right": "score",
        "losses": "score",
        "squared_gains": "score",
        "gradient": "sums",
        "effective_rows": "score",
        "held_out": "score",
    },
    "front": {"columns": "nothing", "again": "nothing", "parts": "sums"},
    "grow": {"counts": "consent"},
    "grow_halves": {"first": "consent", "second": "consent"},
    "halves": {"joins": "within", "refused": "nothing"},
    "inference": {
        "count": "counts",
        "n_rows": "counts",
        "is_weighted": "nothing",
        "has_groups": "nothing",
        "gradient": "sums",
        "information": "sums",
        "middle": "sums",
    },
    "join": {
        "name": "nothing",
        "method": "nothing",
        "settings": "nothing",
        "describe": "within",
        "counts": "within",
        "answers": "within",
    },
    "judge": {"n_rows": "counts", "right": "score", "losses": "score"},
    "leaf_counts": {"labels": "nothing", "counts": "counts"},
    "metrics": {
        "labels": "nothing",
        "n_rows": "counts",
        "auc": "score",
        "true_positives": "score",
        "false_positives": "score",
        "slope": "score",
        "intercept": "score",
        "positives": "score",
        "negatives": "score",
        "own": "score",
    },
    "moments": {
        "labels": "nothing",
        "n_rows": "counts",
        "moments": "sums",
        "form": "nothing",
        "scaled": "nothing",
        "factor": "score",
        "effective_rows": "score",
        "kurtosis": "tails",
        "class_weight": "nothing",
        "penalty": "nothing",
        "gradient": "sums",
        "gradients": "sums",
        "slope": "sums",
        "slopes": "sums",
    },
    "neurons": {
        "centers": "consent",
        "precision": "consent",
        "radii": "consent",
        "sizes": "consent",
        "n_rows": "counts",
    },
    "noisy_sums": {"vector": "noise"},
    "retrain": {"coefs": "consent", "intercepts": "consent", "loss": "consent"},
    "score": {"score": "score", "n_rows": "counts", "beside": "score"},
    "size": {"size": "score"},
    "space": {
        "center": "model",
        "scale": "score",
        "outputs": "nothing",
        "family": "nothing",
        "metric_scatter": "consent",
        "metric_mean": "consent",
        "metric_size": "consent",
        "metric_output_weights": "consent",
        "metric_precision": "consent",
        "radii_n_rows": "counts",
        "radii_score": "score",
        "radii_radii": "consent",
        "radii_may_lose": "consent",
        "radii_knots": "consent",
        "radii_losses": "consent",
        "radii_slope": "consent",
        "radii_gradient": "consent",
        "radii_curvature": "consent",
    },
    "survey": {
        "n_rows": "counts",
        "names": "nothing",
        "columns": "counts",
        "classes": "counts",
    },
    "train": {"parameters": "consent", "loss": "consent"},
}
# Comes with every reply, and says under which rule it was made.
OF_EVERY_REPLY = {"min_rows": "nothing", "rule": "nothing"}
# Tasks whose replies may hold what each of these allows.
ALLOWED = {
    "counts": {"nothing", "counts", "score"},
    "model": {"nothing", "counts", "model"},
    "sums": {"nothing", "counts", "score", "tails", "sums", "within"},
    "noise": {"noise"},
    "consent": {"nothing", "counts", "score", "model", "consent"},
}


def test_every_task_is_listed():
    assert set(RULES) == set(TASKS)


@pytest.mark.parametrize("name", sorted(RULES))
def test_every_field_of_a_reply_passes_a_rule_that_its_task_names(name):
    has_noise = TASKS[name].discloses == "noise"  # which is in place of the rule
    rules = RULES[name] if has_noise else RULES[name] | OF_EVERY_REPLY
    assert set(TASKS[name].reply.fields) == set(rules)
    assert set(rules.values()) <= ALLOWED[TASKS[name].discloses]


def test_more_than_the_rule_lets_be_told_needs_a_person_or_asked_for_spaces():
    by_consent = {name for name, task in TASKS.items() if task.discloses == "consent"}
    not_by_person = {n for n in by_consent if TASKS[n].accepted_by != "person"}
    # A node is asked for radii by name, and a summary has spaces only with space=True.
    assert not_by_person == {"space"}
