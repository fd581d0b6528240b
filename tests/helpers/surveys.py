# SPDX-License-Identifier: BSD-3-Clause
"""Honest surveys of tables whose labels are categories, or numbers."""

from __future__ import annotations

import numpy as np

from helpers.broken import Pair
from helpers.disclosures import rule_of
from skgems import survey
from skgems.asking import Message


def pairs_of_surveys() -> list[Pair]:
    """Requests for surveys and replies to them."""
    table = np.column_stack([np.arange(240.0) % 7, np.sin(np.arange(240))])
    categories = np.repeat(["ill", "well"], 120)
    measurements = np.cos(np.arange(240))
    return [
        Pair(
            request=Message.of("survey"),
            reply=survey(table, labels, name="lyon", disclosure=rule_of(5)),
        )
        for labels in (categories, measurements)
    ]
