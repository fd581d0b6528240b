# SPDX-License-Identifier: BSD-3-Clause
"""Fits that many tests begin with are made once, and copied for each of them."""

from __future__ import annotations

import pickle
from functools import wraps

import joblib


def call_once(fit):
    """Call a function once for equal arguments; each caller gets a copy.

    Where arguments or results cannot be pickled, as local classes, every caller's call
    is made.
    """
    pickles = {}  # of results, by the hash of the arguments

    @wraps(fit)
    def copy_of_fit(*args, **kwargs):
        try:
            key = joblib.hash((args, kwargs))
            if key not in pickles:
                pickles[key] = pickle.dumps(fit(*args, **kwargs))
        except (AttributeError, pickle.PicklingError):
            return fit(*args, **kwargs)
        return pickle.loads(pickles[key])

    return copy_of_fit
