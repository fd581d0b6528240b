"""Parameters of the aggregators that are objects: `Spaces`, `Moments`, `HiddenLayers`.

Each holds what belongs together, and a word is short for the object: ``spaces="ball"``
stands for ``Spaces(geometry="ball")``. What travels has flat names, of which
`with_objects_of_settings` makes the objects.
"""

from collections.abc import Mapping
from numbers import Integral, Real
from typing import ClassVar, Self

from ..base import Part
from ..compat import Interval, StrOptions
from ..spaces import (
    CONSTRUCTIONS,
    GEOMETRIES,
    HIDDEN_GEOMETRIES,
    Construction,
    Criterion,
    Geometry,
    as_construction,
    as_criterion,
    as_geometry,
)

_FROM_1 = Interval(Integral, 1, None, closed="left")
# Classes of parts that settings hold by name and parameters.
_PARTS = {"geometry": Geometry, "criterion": Criterion, "construction": Construction}
# Where settings are in parameters: in which one, and by which name there.
_PLACES = {
    "geometry": ("spaces", "geometry"),
    "construction": ("spaces", "construction"),
    "criterion": ("spaces", "criterion"),
    "scale_logits": ("spaces", "scale_logits"),
    "moments": ("moments", "kind"),
    "n_components": ("moments", "n_components"),
}


class _PartWithGeometry(Part):
    """A part that holds a geometry, by a word or as an object."""

    # What the words for a geometry stand for in this place.
    geometries: ClassVar[Mapping[str, Geometry]] = GEOMETRIES

    @classmethod
    def check_is_no_part_of_it(cls, value: object, *, parameter: str) -> None:
        if isinstance(value, Geometry):
            raise TypeError(
                f"{parameter}={value!r} is a geometry, which is only a part of the "
                f"{parameter}. Write {parameter}={cls.__name__}(geometry={value!r}), "
                f"with {cls.__name__} of skgems.gems."
            )

    def _long_form(self, name: str, value: object) -> object | None:
        if name == "geometry" and isinstance(value, str) and value in self.geometries:
            return as_geometry(value, self.geometries)
        return None

    def _with_objects(self) -> Self:
        # Without `set_params`, which would first find all parameters within them.
        self.geometry = as_geometry(self.geometry, self.geometries)
        return self


class Spaces(_PartWithGeometry):
    """Good-enough spaces of linear models: their shape, and what is good enough.

    ``spaces="ball"`` stands for ``Spaces("ball")``.

    Parameters
    ----------
    geometry : Geometry or {"gram", "ellipsoid", "ball"}, default="gram"
        Shape of the spaces. Its parameters can be searched as
        ``spaces__geometry__ridge``. Choose "ellipsoid" if a matrix of n_features^2
        numbers is too large, or tells too much of the rows.

        - "gram": from the second moments of a node's rows (`Gram`).
        - "ellipsoid": from the diagonal Fisher information of its model (`Ellipsoid`).
        - "ball": round (`Ball`).
    construction : Construction or {"sampled", "certified"}, default="sampled"
        How the size of a space is found. With "sampled" models of the space reached
        epsilon in a sample of directions (GEMS 2019, Algorithm 2). With "certified" it
        is proved that all models in the space reach it. Such spaces are small. Choose
        "certified" if the promise must hold for each model in the space.
    criterion : Criterion or {"accuracy", "log_loss"}, default="accuracy"
        What is good enough: an accuracy of at least epsilon, or a mean log-loss of at
        most epsilon. Choose "log_loss" if probabilities matter and not just labels.
    scale_logits : "auto" or bool, default="auto"
        Whether the logits of each node are brought to one scale: they are centered over
        the classes and divided by their root mean square on the node's rows. Without
        this, the node whose model is regularized least would decide. "auto" does so
        with ``geometry="gram"`` and with ``intersection="likelihood"``, and otherwise
        if the sizes of the nodes' logits differ by more than a factor of three.
    on_empty : {"warn", "raise", "ignore"}, default="warn"
        What to do if the spaces do not intersect, or if a node's own model does not
        reach epsilon. Such a node then has the space of the best epsilon that it can
        reach. Choose "raise" if the model that misses them least is of no use.

    Examples
    --------
    >>> from skgems import GEMSLogisticAggregator
    >>> from skgems.gems import Spaces
    >>> agg = GEMSLogisticAggregator(epsilon=0.8, spaces=Spaces(on_empty="raise"))
    >>> agg.set_params(spaces__geometry__ridge=0.5).spaces
    Spaces(geometry=Gram(ridge=0.5), on_empty='raise')
    """

    short_forms: ClassVar = [StrOptions(set(GEOMETRIES))]
    _parameter_constraints: dict = {
        "geometry": [*short_forms, Geometry],
        "construction": [StrOptions(set(CONSTRUCTIONS)), Construction],
        "criterion": [StrOptions({"accuracy", "log_loss"}), Criterion],
        "scale_logits": [StrOptions({"auto"}), "boolean"],
        "on_empty": [StrOptions({"warn", "raise", "ignore"})],
    }

    def __init__(
        self,
        geometry="gram",
        *,
        construction="sampled",
        criterion="accuracy",
        scale_logits="auto",
        on_empty="warn",
    ):
        self.geometry = geometry
        self.construction = construction
        self.criterion = criterion
        self.scale_logits = scale_logits
        self.on_empty = on_empty

    def _long_form(self, name: str, value: object) -> object | None:
        if name == "construction" and isinstance(value, str) and value in CONSTRUCTIONS:
            return as_construction(value)
        return super()._long_form(name, value)

    def _with_objects(self) -> Self:
        self.construction = as_construction(self.construction)
        self.criterion = as_criterion(self.criterion)
        return super()._with_objects()


class Moments(Part):
    """Sums of a node's rows by class, which the likeliest model is made of.

    ``moments="shared"`` stands for ``Moments("shared")``.

    Parameters
    ----------
    kind : {"auto", "class", "shared", "diagonal"}, default="auto"
        Which second moments nodes send. With C classes and d features:

        ============  ======================================  =====================
        kind          second moments                          numbers that are sent
        ============  ======================================  =====================
        "class"       a matrix for each class                 C d^2 / 2
        "shared"      a matrix for all classes, and           d^2 / 2 + C d
                      variances for each class
        "diagonal"    variances for each class                C d
        ============  ======================================  =====================

        "auto" is the first of them that has at most 8 million numbers at the node. A
        node with fewer rows than features may then send factors of the matrices
        instead, which are smaller (:ref:`wide_data`). Choose "shared" or "diagonal" if
        nodes should send less.
    n_components : int, default=16
        Largest number of clusters whose means stand for a class. Each cluster has 10
        rows or more. Take a smaller number if less should be sent about parts of a
        class.

    Examples
    --------
    >>> from skgems import GEMSLogisticAggregator
    >>> from skgems.gems import Moments
    >>> agg = GEMSLogisticAggregator(moments=Moments("shared"))
    >>> agg.set_params(moments__n_components=4).moments
    Moments(kind='shared', n_components=4)
    """

    short_forms: ClassVar = [StrOptions({"auto", "class", "shared", "diagonal"})]
    _parameter_constraints: dict = {
        "kind": short_forms,
        "n_components": [_FROM_1],
    }

    def __init__(self, kind="auto", *, n_components=16):
        self.kind = kind
        self.n_components = n_components


class HiddenLayers(_PartWithGeometry):
    """How hidden layers of networks are merged: spaces of neurons, and number of units.

    ``hidden_layers="ball"`` stands for ``HiddenLayers("ball")``.

    Parameters
    ----------
    geometry : Geometry or {"gram", "ellipsoid", "ball"}, default="gram"
        Shape of the neurons' spaces. Here "gram" stands for ``Gram(ridge=0.3)``. Its
        parameters can be searched as ``hidden_layers__geometry__ridge``. Choose
        "ellipsoid" if layers are so wide that matrices of second moments are too large.
    epsilon : float or array-like of shape (n_hidden_layers,), default=0.05
        How far the activation of a neuron may move on the node's rows. It is the root
        mean square of the change, relative to the root mean square of the activation.
        Raise it to merge more neurons at a common point.
    n_directions : int, default=100
        Number of random rays along which the size of a space is found, see
        :class:`~skgems.spaces.Sampled`. More rays take longer, and make the spaces
        smaller and more reliable.
    n_clusters : int, default=None
        Number of k-means clusters within which neurons are compared. With None all
        neurons are compared. Set it if there are very many neurons.
    max_units : "auto", int or None, default="auto"
        Largest number of units of a layer. If there are more, neurons are merged even
        if their spaces do not meet, beginning with those that cost least. "auto" is
        twice the width of the widest local layer. None sets no limit. Set a number to
        get a small network.

    Notes
    -----
    The epsilon of GEMS 2019, Eq. 3, is this one times the root mean square of the
    activation, divided by the square root of the number of rows.

    Examples
    --------
    >>> from skgems import GEMSMLPAggregator
    >>> from skgems.gems import HiddenLayers
    >>> agg = GEMSMLPAggregator(hidden_layers=HiddenLayers(epsilon=0.1))
    >>> agg.set_params(hidden_layers__max_units=50).hidden_layers
    HiddenLayers(epsilon=0.1, max_units=50)
    """

    geometries = HIDDEN_GEOMETRIES
    short_forms: ClassVar = [StrOptions(set(HIDDEN_GEOMETRIES))]
    _parameter_constraints: dict = {
        "geometry": [*short_forms, Geometry],
        "epsilon": [Interval(Real, 0, None, closed="neither"), "array-like"],
        "n_directions": [_FROM_1],
        "n_clusters": [None, _FROM_1],
        "max_units": [None, StrOptions({"auto"}), _FROM_1],
    }

    def __init__(
        self,
        geometry="gram",
        *,
        epsilon=0.05,
        n_directions=100,
        n_clusters=None,
        max_units="auto",
    ):
        self.geometry = geometry
        self.epsilon = epsilon
        self.n_directions = n_directions
        self.n_clusters = n_clusters
        self.max_units = max_units


def with_objects_of_settings(settings: Mapping) -> dict:
    """Return the parameters for the flat settings of a summary or an agreement.

    Spaces and moments are objects in parameters; what travels holds what is in them by
    flat names, as "geometry" and "n_components". Settings that are not there, since
    another method wrote them, have their defaults.
    """
    # Of messages, but of no parameter any more: the rule of disclosure has it.
    not_parameters = {*_PLACES, "min_cluster_size"}
    parameters = {
        name: value for name, value in settings.items() if name not in not_parameters
    }
    objects = {"spaces": Spaces(), "moments": Moments()}
    for name, (parameter, name_there) in _PLACES.items():
        if name in settings:
            value = settings[name]
            if isinstance(value, Mapping):
                value = _PARTS[name].from_settings(value)
            setattr(objects[parameter], name_there, value)
            parameters[parameter] = objects[parameter]
    if isinstance(parameters.get("class_weight"), list):
        parameters["class_weight"] = dict(parameters["class_weight"])
    return parameters
