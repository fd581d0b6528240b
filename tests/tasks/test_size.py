# SPDX-License-Identifier: BSD-3-Clause
"""The size of the logits of a model."""

from __future__ import annotations

import numpy as np
from helpers.tasks import (
    ask,
    make_member,
    make_model,
)

from skgems.spaces import normalize_logits


def test_size_is_that_of_centred_logits_on_rows_of_moments():
    node = make_member(moments=np.arange(10, 20))
    is_known = np.array([True, False, True])
    reply = ask("size", node, W=make_model()[:, is_known])
    assert reply["size"] == normalize_logits(make_model(), is_known, node.X[10:20])[1]
    assert reply["size"] != normalize_logits(make_model(), is_known, node.X)[1]
