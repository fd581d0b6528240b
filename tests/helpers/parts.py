# SPDX-License-Identifier: BSD-3-Clause
"""Parameters of parts by their own names, for tests that set many."""

from __future__ import annotations

from sklearn.base import clone

from skgems.gems import HiddenLayers, Moments, Rounds, Spaces
from skgems.spaces import CONSTRUCTIONS, Construction, Sampled

# Parameters of `Rounds`, of constructions of spaces, of `Spaces` and of `Moments`.
_OF_ROUNDS = ("tol", "candidates", "participation")
_OF_CONSTRUCTIONS = ("n_directions", "max_radius")
_OF_SPACES = ("geometry", "construction", "criterion", "scale_logits", "on_empty")
_OF_MOMENTS = ("n_components",)
# Parameters of `HiddenLayers`, by names that tell them from those of last layers.
_OF_HIDDEN_LAYERS = {
    "geometry_hidden": "geometry",
    "epsilon_hidden": "epsilon",
    "n_directions_hidden": "n_directions",
    "n_clusters": "n_clusters",
    "max_units": "max_units",
}


def in_parts(parameters):
    """Parameters of an aggregator, where those of its parts are set in the parts."""
    of_rounds = _selected(parameters, _OF_ROUNDS)
    of_construction = _selected(parameters, _OF_CONSTRUCTIONS)
    of_spaces = _selected(parameters, _OF_SPACES)
    of_moments = _selected(parameters, _OF_MOMENTS)
    of_parts = {*of_rounds, *of_construction, *of_spaces, *of_moments}
    of_aggregator = {
        name: value for name, value in parameters.items() if name not in of_parts
    }
    if of_rounds:
        n_rounds = of_aggregator.get("n_rounds", 1)
        of_aggregator["n_rounds"] = Rounds(n_rounds, **of_rounds)
    if of_construction:
        construction = of_spaces.get("construction", Sampled())
        if not isinstance(construction, Construction):  # it is the name of one
            construction = clone(CONSTRUCTIONS[construction])
        # A construction that draws no directions has no number of them to set.
        construction.set_params(**_selected(of_construction, construction.get_params()))
        of_spaces["construction"] = construction
    if of_spaces:
        of_aggregator["spaces"] = Spaces(**of_spaces)
    if of_moments:
        kind = of_aggregator.get("moments", "auto")
        of_aggregator["moments"] = Moments(kind, **of_moments)
    return of_aggregator


def with_hidden_layers(parameters):
    """Parameters of an aggregator of networks, those of hidden layers in the object."""
    of_aggregator = {
        name: value
        for name, value in parameters.items()
        if name not in _OF_HIDDEN_LAYERS
    }
    of_hidden_layers = {
        _OF_HIDDEN_LAYERS[name]: value
        for name, value in parameters.items()
        if name in _OF_HIDDEN_LAYERS
    }
    if of_hidden_layers:
        of_aggregator["hidden_layers"] = HiddenLayers(**of_hidden_layers)
    return of_aggregator


def _selected(parameters, names):
    """Those of some parameters that have one of the names."""
    return {name: value for name, value in parameters.items() if name in names}
