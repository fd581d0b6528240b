# SPDX-License-Identifier: BSD-3-Clause
"""A request for sums with noise, and its reply."""

from __future__ import annotations

import numpy as np

from helpers.broken import Pair
from skgems import Privacy
from skgems.asking import Message
from skgems.private import layout_of


def pair_with_noise() -> Pair:
    """A request for sums with noise, to which no rule of disclosure applies."""
    privacy = Privacy(classes=["ill", "well"], low=[0, 0], high=[1, 1], epsilon=1.0)
    n_numbers = layout_of(privacy, by_class=True).n_numbers
    return Pair(
        request=Message.of("noisy_sums", privacy=privacy.as_settings(), by_class=True),
        reply=Message.of("noisy_sums", vector=np.arange(n_numbers)),
    )
