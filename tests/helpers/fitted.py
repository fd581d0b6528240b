# SPDX-License-Identifier: BSD-3-Clause
"""What many tests begin with is fitted once, and is new to each of them."""

from __future__ import annotations

import pickle
from functools import wraps

import joblib


def once(fit):
    """Keep what a function returns for equal arguments; its callers get copies.

    Arguments or results that have no pickle, such as local classes, are not kept.
    """
    kept = {}

    @wraps(fit)
    def copy(*args, **kwargs):
        try:
            key = joblib.hash((args, kwargs))
            if key not in kept:
                kept[key] = pickle.dumps(fit(*args, **kwargs))
        except (AttributeError, pickle.PicklingError):
            return fit(*args, **kwargs)
        return pickle.loads(kept[key])

    return copy
