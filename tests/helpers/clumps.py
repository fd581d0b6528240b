# SPDX-License-Identifier: BSD-3-Clause
"""Rows of classes and in clumps, and what a node replies about their moments."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
from sklearn.dummy import DummyClassifier

from skgems.local import Member, moments
from skgems.tasks import MomentsReply

LABELS = ["a", "b", "c"]
# What a request for moments says where each class is one cluster.
ONE_CLUSTER_A_CLASS = {"kind": "class", "n_components": 1, "min_cluster_size": 1}


def labelled_rows(n=60, d=4, seed=0, mean=0.0):
    """Rows of three classes whose means differ, and their labels."""
    rng = np.random.RandomState(seed)
    y = np.append([0, 1, 2], rng.randint(3, size=n - 3))
    X = rng.normal(size=(n, d)) + 2.0 * rng.normal(size=(3, d))[y] + mean
    return X, np.array(LABELS)[y]


def make_member(X=None, y=None, estimator=None, **roles):
    """A node that fits a classifier to its rows, by default one that ignores them."""
    if X is None:
        X, y = labelled_rows()
    classifier = DummyClassifier() if estimator is None else estimator
    return Member.from_estimator("lyon", classifier.fit(X, y), X, y, **roles)


def member_with_model(member, W, labels):
    """A member whose own model has the weights W, and a column for each label."""

    class MemberWithModel(Member):
        def own_linear(self):
            return W, labels

    attributes = {field.name: getattr(member, field.name) for field in fields(member)}
    return MemberWithModel(**attributes)


def moments_reply(member, *, model=None, **settings):
    """The content of a reply about moments: one cluster a class if nothing is said.

    ``model``, weights and their labels, stands in for the member's own model.
    """
    settings = ONE_CLUSTER_A_CLASS | settings
    if model is not None:
        member = member_with_model(member, *model)
        settings |= {"model": "own"}
    return MomentsReply(**moments(member, **settings)).as_content()


def rows_in_clumps(n=40, d=2, n_clumps=4, seed=0, apart=50.0):
    """Rows of one class in clumps that lie far apart, and the clump of each row."""
    rng = np.random.RandomState(seed)
    clump_of_row = np.repeat(np.arange(n_clumps), n // n_clumps)
    centers = apart * np.column_stack(
        [np.cos(clump_of_row), np.sin(clump_of_row * 1.7)]
    )
    return rng.normal(size=(len(clump_of_row), d)) + centers, clump_of_row
