# SPDX-License-Identifier: BSD-3-Clause
"""The pooled logistic regression by Newton's method, and a message about one."""

from __future__ import annotations

import numpy as np
from scipy.special import softmax
from sklearn.dummy import DummyClassifier

from helpers.broken import Pair
from skgems.asking import Message
from skgems.local import Member
from skgems.messages import TASKS


def pooled_regression(A, codes, *, weights=None, units=None, n_steps=40):
    """Contrasts against class 0, their covariance, and the robust covariance.

    ``A`` has a column for each coefficient, the intercept among them. A class has its
    coefficients one after the other. ``units`` are what robust errors take for
    independent, each row if they are not given.
    """
    n_rows, n_columns = A.shape
    weights = np.ones(n_rows) if weights is None else weights
    n_outputs = int(codes.max())
    theta = np.zeros(n_outputs * n_columns)
    for _ in range(n_steps):
        logits = A @ theta.reshape(n_outputs, n_columns).T
        P = softmax(np.column_stack([np.zeros(n_rows), logits]), axis=1)[:, 1:]
        residuals = (codes[:, None] == np.arange(1, n_outputs + 1)) - P
        scores = weights[:, None] * np.hstack([r[:, None] * A for r in residuals.T])
        V = weights[:, None, None] * (
            P[:, :, None] * np.eye(n_outputs) - P[:, :, None] * P[:, None, :]
        )
        H = np.einsum("nkl,ni,nj->kilj", V, A, A).reshape(len(theta), len(theta))
        theta = theta + np.linalg.solve(H, scores.sum(axis=0))
    inverse = np.linalg.inv(H)
    if units is not None:
        _, numbers = np.unique(units, return_inverse=True)
        scores = np.stack([np.bincount(numbers, column) for column in scores.T], axis=1)
    return theta, inverse, inverse @ scores.T @ scores @ inverse


def with_intercept(X):
    """The columns of rows, and a column of ones."""
    return np.column_stack([X, np.ones(len(X))])


def pair_of_inference() -> Pair:
    """A request for sums of standard errors, with weights of classes, and its reply."""
    X = np.random.default_rng(0).normal(size=(60, 5))
    y = np.arange(60) % 4
    node = Member.from_estimator("lyon", DummyClassifier().fit(X, y), X, y)
    content = {
        "W": np.full((6, 4), 0.1) * np.arange(4),
        "labels": list(range(4)),
        "columns": np.arange(4),
        "class_weights": np.ones(4),
    }
    reply = TASKS["inference"].answered(node, content)
    return Pair(
        request=Message.of("inference", **content),
        reply=Message.of("inference", **reply, min_rows=1),
    )
