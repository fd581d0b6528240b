# SPDX-License-Identifier: BSD-3-Clause
"""Parameters of parts by their own names, for tests that set many."""

from __future__ import annotations

from sklearn.base import clone

from skgems.gems import Rounds
from skgems.spaces import CONSTRUCTIONS, Construction, Sampled

# Parameters of `Rounds`, and of constructions of spaces.
_OF_ROUNDS = ("tol", "candidates", "participation")
_OF_SPACES = ("n_directions", "max_radius")


def in_parts(parameters):
    """Parameters of an aggregator, where those of its parts are set in the parts."""
    of_rounds = {k: v for k, v in parameters.items() if k in _OF_ROUNDS}
    of_spaces = {k: v for k, v in parameters.items() if k in _OF_SPACES}
    of_aggregator = {
        k: v for k, v in parameters.items() if k not in _OF_ROUNDS + _OF_SPACES
    }
    if of_rounds:
        n_rounds = of_aggregator.get("n_rounds", 1)
        of_aggregator["n_rounds"] = Rounds(n_rounds, **of_rounds)
    if of_spaces:
        construction = of_aggregator.get("construction", Sampled())
        if not isinstance(construction, Construction):  # it is the name of one
            construction = clone(CONSTRUCTIONS[construction])
        # Of those that do not draw directions there is no number.
        names = construction.get_params()
        construction.set_params(**{k: v for k, v in of_spaces.items() if k in names})
        of_aggregator["construction"] = construction
    return of_aggregator
