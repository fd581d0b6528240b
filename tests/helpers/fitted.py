# SPDX-License-Identifier: BSD-3-Clause
"""Fits that many tests begin with are made once, and copied for each of them."""

from __future__ import annotations

import pickle
from copy import deepcopy
from functools import wraps

import joblib


def call_once(fit):
    """Call a function once for equal arguments; each caller gets a deep copy.

    A pickle of an aggregate would lack what nodes sent. Where arguments cannot be
    pickled, as local classes, every caller's call is made.
    """
    results = {}  # by the hash of the arguments

    @wraps(fit)
    def copy_of_fit(*args, **kwargs):
        try:
            key = joblib.hash((args, kwargs))
        except (AttributeError, pickle.PicklingError):
            return fit(*args, **kwargs)
        if key not in results:
            results[key] = fit(*args, **kwargs)
        return deepcopy(results[key])

    return copy_of_fit
