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
    of_rounds = _selected(parameters, _OF_ROUNDS)
    of_spaces = _selected(parameters, _OF_SPACES)
    of_aggregator = {
        name: value
        for name, value in parameters.items()
        if name not in of_rounds and name not in of_spaces
    }
    if of_rounds:
        n_rounds = of_aggregator.get("n_rounds", 1)
        of_aggregator["n_rounds"] = Rounds(n_rounds, **of_rounds)
    if of_spaces:
        construction = of_aggregator.get("construction", Sampled())
        if not isinstance(construction, Construction):  # it is the name of one
            construction = clone(CONSTRUCTIONS[construction])
        # A construction that draws no directions has no number of them to set.
        of_construction = _selected(of_spaces, construction.get_params())
        construction.set_params(**of_construction)
        of_aggregator["construction"] = construction
    return of_aggregator


def _selected(parameters, names):
    """Those of some parameters that have one of the names."""
    return {name: value for name, value in parameters.items() if name in names}
