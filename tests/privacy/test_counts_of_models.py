# SPDX-License-Identifier: BSD-3-Clause
"""No row is found by how many rows the models of a server label right."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.attacks_by_counts import Thresholds, models_above, row_of_counts

from skgems import Disclosure, GEMSLogisticAggregator
from skgems.asking import Message
from skgems.guard import Agreement, reply_to
from skgems.messages import sealed

N_FEATURES = 3
# Messages of an exchange of 25 rounds, with seven models each.
N_MESSAGES = 24
N_MODELS = 7


def normal_rows() -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(1).standard_normal((200, N_FEATURES))
    return X, np.array(["ill", "well"])[np.arange(200) % 2]


def claim_of_counts(X: np.ndarray, y: np.ndarray, rule: Disclosure | None):
    """The claim of a server that asks a node with a ledger how good its models are."""
    agreement = Agreement.of(GEMSLogisticAggregator(n_rounds=25), disclosure=rule)
    state: dict = {}

    def count(direction, thresholds):
        request = Message.of(
            "evaluate",
            W=models_above(direction, thresholds),
            labels=["ill"],
            columns=np.array([1]),
            factors=np.ones(0),
        )
        reply = reply_to(
            sealed(request, agreement),
            None,
            X,
            y,
            name="lyon",
            state=state,
            agreement=agreement,
            disclosure=rule,
        )
        return reply.content["right"]

    thresholds = Thresholds(count, n_a_message=N_MODELS, most=N_MESSAGES)
    return row_of_counts(thresholds, N_FEATURES)


@pytest.mark.parametrize("rule, is_found", [(None, True), (Disclosure(), False)])
def test_counts_of_rows_that_models_label_right_do_not_tell_a_row(rule, is_found):
    X, y = normal_rows()
    claim = claim_of_counts(X, y, rule)
    errors = np.abs(X - claim).max(axis=1)
    assert (errors.min() < 1e-3) == is_found
