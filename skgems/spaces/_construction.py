# SPDX-License-Identifier: BSD-3-Clause
"""Constructions: how the radius of a space is found, along rays or certified."""

from numbers import Integral, Real

from sklearn.base import BaseEstimator, clone
from sklearn.utils._param_validation import Interval

from ._registered import Registered, resolve

_RADIUS = {"max_radius": [Interval(Real, 0, None, closed="neither")]}


class Construction(Registered, BaseEstimator):
    """Base of how the radius of a good-enough space is found.

    See Also
    --------
    Sampled, Certified : The constructions there are.
    """

    # Rays that a request asks for.
    n_directions = 1
    _parameter_constraints: dict = _RADIUS

    def for_nodes(self) -> dict:
        """Its settings that are decided at the nodes: these know no largest radius."""
        settings = self.as_settings()
        del settings["max_radius"]
        return settings


class Sampled(Construction):
    """Models inside are good enough along random rays.

    Parameters
    ----------
    n_directions : int, default=500
        Rays drawn per node: more take longer, and make the radius smaller and surer.
    max_radius : float, default=1e4
        Largest radius, in units of the metric, where no change loses a row.

    References
    ----------
    Guha et al., "Model Aggregation via Good-Enough Model Spaces", 2019, Algorithm 2.

    Examples
    --------
    >>> from skgems import GEMSLogisticAggregator
    >>> from skgems.spaces import Sampled
    >>> agg = GEMSLogisticAggregator(construction=Sampled(n_directions=100))
    >>> agg.set_params(construction__n_directions=200).construction
    Sampled(n_directions=200)
    """

    _parameter_constraints = {
        **_RADIUS,
        "n_directions": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(self, n_directions=500, *, max_radius=1e4):
        self.n_directions = n_directions
        self.max_radius = max_radius


class Certified(Construction):
    """Models inside are good enough, all of them, provably.

    Parameters
    ----------
    max_radius : float, default=1e4
        Largest radius, in units of the metric, where no change loses a row.

    Examples
    --------
    >>> from skgems.spaces import Certified
    >>> Certified(max_radius=10.0).max_radius
    10.0
    """

    def __init__(self, *, max_radius=1e4):
        self.max_radius = max_radius


CONSTRUCTIONS = {"sampled": Sampled(), "certified": Certified()}


def as_construction(construction) -> Construction:
    """A clone of the construction of a word or object, its parameters checked."""
    fresh = clone(resolve(construction, CONSTRUCTIONS, Construction))
    fresh._validate_params()
    return fresh
