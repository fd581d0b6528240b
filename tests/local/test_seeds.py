# SPDX-License-Identifier: BSD-3-Clause
"""No server chooses the seed of what a node draws among its rows."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.clumps import (
    ONE_CLUSTER_A_CLASS,
    labelled_rows,
    make_member,
    moments_reply,
)

from skgems.asking import Message
from skgems.local import seed_of_rows
from skgems.messages import check_request


def test_the_same_rows_have_the_same_clusters_whatever_numpy_drew_before():
    X, y = labelled_rows(n=300)
    replies = []
    for state in range(2):
        np.random.seed(state)
        replies.append(moments_reply(make_member(X, y), n_components=8)["moments"])
    np.testing.assert_array_equal(replies[0]["means"], replies[1]["means"])


def test_no_server_can_have_clusters_drawn_anew():
    request = Message.of(
        "moments", **ONE_CLUSTER_A_CLASS | {"n_components": 8}, model=None
    )
    check_request(request)
    with pytest.raises(ValueError, match="seed is an unknown field"):
        check_request(Message.of("moments", **request.content, seed=1))


def test_the_seed_of_rows_is_that_of_their_class_sizes_in_any_order():
    seed = seed_of_rows([30, 5, 12])
    assert seed == seed_of_rows([5, 12, 30, 0]) and 0 <= seed < 2**32
    assert seed != seed_of_rows([30, 5, 13])
