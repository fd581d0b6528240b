# SPDX-License-Identifier: BSD-3-Clause
"""Parameters of parts by their own names, for tests that set many."""

from __future__ import annotations

from sklearn.base import clone

from skgems.gems import Rounds
from skgems.spaces import CONSTRUCTIONS, Construction, Sampled

_OF_ROUNDS = ("tol", "candidates", "participation")
_OF_SPACES = ("n_directions", "max_radius")


def in_parts(parameters):
    """Parameters of an aggregator, where those of its parts are in these."""
    found = dict(parameters)
    rounds = {name: found.pop(name) for name in _OF_ROUNDS if name in found}
    if rounds:
        found["n_rounds"] = Rounds(found.get("n_rounds", 1), **rounds)
    spaces = {name: found.pop(name) for name in _OF_SPACES if name in found}
    if spaces:
        part = found.get("construction", Sampled())
        part = part if isinstance(part, Construction) else clone(CONSTRUCTIONS[part])
        known = part.get_params()
        part.set_params(**{k: v for k, v in spaces.items() if k in known})
        found["construction"] = part
    return found
