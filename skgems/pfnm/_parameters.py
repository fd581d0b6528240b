"""How units are matched: a parameter of PFNMAggregator that is an object."""

from numbers import Integral, Real

from sklearn.base import BaseEstimator, clone

from ..compat import Interval, StrOptions


class Matching(BaseEstimator):
    """Details of the search that matches hidden units: its length, costs and order.

    Parameters
    ----------
    max_iter : int, default=100
        Most sweeps over all nodes after the first pass, per layer.
    tol : float, default=1e-3
        Stop when a sweep gains less than this share of the objective; 0: nothing.
    new_atom_cost : {"exchangeable", "paper"}, default="exchangeable"
        Whether a node's new atoms cost the same each, so that no sweep lowers the
        objective, or more and more. The first starts from the better of both.
    class_precision : {"counts", "equal"}, default="counts"
        Whether a node's share of what is known of a class goes by its rows of that
        class, where ``fit`` knows them, or is the same for each node that has seen it.
    layer_order : {"bottom_up", "top_down"}, default="bottom_up"
        Whether the first or, as in the paper, the last hidden layer is matched first.
        What goes into units says more; from the top there are fewer of them.
    dtype : {"float64", "float32"} or None, default=None
        Type of the numbers to match with. None keeps the networks' own.

    Examples
    --------
    >>> from skgems import PFNMAggregator
    >>> from skgems.pfnm import Matching
    >>> agg = PFNMAggregator(matching=Matching(layer_order="top_down"))
    >>> agg.set_params(matching__tol=1e-4).matching
    Matching(layer_order='top_down', tol=0.0001)
    """

    _parameter_constraints = {
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "new_atom_cost": [StrOptions({"exchangeable", "paper"})],
        "class_precision": [StrOptions({"counts", "equal"})],
        "layer_order": [StrOptions({"bottom_up", "top_down"})],
        "dtype": [None, StrOptions({"float32", "float64"})],
    }

    def __init__(
        self,
        *,
        max_iter=100,
        tol=1e-3,
        new_atom_cost="exchangeable",
        class_precision="counts",
        layer_order="bottom_up",
        dtype=None,
    ):
        self.max_iter = max_iter
        self.tol = tol
        self.new_atom_cost = new_atom_cost
        self.class_precision = class_precision
        self.layer_order = layer_order
        self.dtype = dtype


def as_matching(matching: Matching | None) -> Matching:
    """Validated Matching of the parameter ``matching``; None is the default one."""
    settled = Matching() if matching is None else clone(matching)
    settled._validate_params()
    return settled
