"""How units are matched: a parameter of PFNMAggregator that is an object."""

from numbers import Integral, Real
from typing import ClassVar

from ..base import Part
from ..compat import Interval, StrOptions


class Matching(Part):
    """Details of the search that matches hidden units: length, costs and order.

    It is the parameter `matching` of :class:`~skgems.PFNMAggregator`.

    Parameters
    ----------
    max_iter : int, default=100
        Largest number of sweeps over all nodes after the first pass, per hidden layer.
    tol : float, default=1e-3
        The search of a layer stops when a sweep improves the objective by less than
        this share of it. With 0 it stops when a sweep improves nothing. Decrease it for
        a longer search.
    new_atom_cost : {"exchangeable", "ordered", "paper"}, default="exchangeable"
        What the new atoms of a node cost. With "exchangeable" each of them costs the
        same, so no sweep makes the objective worse. The search then starts from the
        better of two first passes, one for each of the first two words. With "ordered"
        the i-th new atom of a node costs 2 log(i) more, as in the paper. With "paper"
        the costs are those of the paper's Equation 9 to the letter. It also counts the
        log-odds of an atom that other nodes use once, where the posterior has them
        twice, so that popular atoms attract units less.
    model : {"weighted", "paper"}, default="weighted"
        How sure the numbers of units are, and what the merged network takes of their
        posterior. With "weighted" the outgoing weights of a node count by its shares of
        classes, less what they have in common. The merged network has incoming weights
        that are means by what each unit adds to the outputs, and nothing is drawn to
        zero. This is more accurate. With "paper" all numbers of all units are equally
        sure, and the merged network is the mean of ``posterior_``, as in the paper.
    layer_order : {"bottom_up", "top_down"}, default="bottom_up"
        Whether the first or the last hidden layer is matched first. The paper begins
        with the last. Incoming weights say more about a unit than outgoing weights,
        and a match from the top has fewer of them.
    dtype : {"float64", "float32"} or None, default=None
        Type of the numbers in the search. None keeps the type of the networks. Choose
        "float32" to save memory.

    Examples
    --------
    >>> from skgems import PFNMAggregator
    >>> from skgems.pfnm import Matching
    >>> agg = PFNMAggregator(matching=Matching(layer_order="top_down"))
    >>> agg.set_params(matching__tol=1e-4).matching
    Matching(layer_order='top_down', tol=0.0001)
    """

    short_forms: ClassVar = [None]
    _parameter_constraints: dict = {
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "new_atom_cost": [StrOptions({"exchangeable", "ordered", "paper"})],
        "model": [StrOptions({"weighted", "paper"})],
        "layer_order": [StrOptions({"bottom_up", "top_down"})],
        "dtype": [None, StrOptions({"float32", "float64"})],
    }

    def __init__(
        self,
        *,
        max_iter=100,
        tol=1e-3,
        new_atom_cost="exchangeable",
        model="weighted",
        layer_order="bottom_up",
        dtype=None,
    ):
        self.max_iter = max_iter
        self.tol = tol
        self.new_atom_cost = new_atom_cost
        self.model = model
        self.layer_order = layer_order
        self.dtype = dtype
