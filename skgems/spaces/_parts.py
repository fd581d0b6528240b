"""Parts that messages name: what is good enough, and how the radius is found.

A criterion scores logits z of rows with labels y,

    accuracy = mean_i [argmax_c z_ic = y_i],
    log-loss = mean_i (log sum_c exp(z_ic) - z_iy),

and a construction finds the largest radius within which the score is good enough, along
random rays or for all models. Both, and geometries, are objects that a node makes anew
from the name and the parameters that a request holds.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import ClassVar

import numpy as np
from sklearn.base import BaseEstimator, clone

from ..base import NamesOnceMixin
from ..compat import Interval
from ..moments import mean_log_loss
from ._metric import Metric
from ._outputs import Rows
from ._radii import AccuracyProfile, LossProfile, accuracy_profile, loss_profile


def resolve(
    part: "Registered | str",
    short_forms: "Mapping[str, Registered]",
    base: "type[Registered]",
) -> "Registered":
    """Return the object that a word stands for; an object of the base as it is."""
    if isinstance(part, base):
        return part
    if isinstance(part, str) and part in short_forms:
        return short_forms[part]
    error_class = ValueError if isinstance(part, str) else TypeError
    raise error_class(
        f"{base.__name__.lower()} must be one of {list(short_forms)} or an object of a "
        f"subclass of {base.__name__}, got {part!r}."
    )


class Registered:
    """Mixin of base classes whose subclasses are registered by a word.

    Messages name objects of such classes by this word, and a node makes the object anew
    from the word and the parameters. The word is given as ``name=`` in the class
    statement, or else it is the name of the class in snake case. An object stores
    nothing but its parameters, whose types must be ones that JSON has.
    """

    registry: ClassVar[dict[str, type]]
    wire_name: ClassVar[str]
    # How often a name came to mean another class, as in a notebook, of other results.
    redefinitions: ClassVar[int] = 0

    def __init_subclass__(cls, name: str | None = None, **kwargs) -> None:
        super().__init_subclass__(**kwargs)
        if Registered in cls.__bases__:
            cls.registry = {}
            return
        word = name or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", cls.__name__).lower()
        if word in cls.registry:
            namesake = cls.registry[word]
            # Names of the library's own classes mean these, whoever defines another.
            if namesake.__module__.partition(".")[0] == __name__.partition(".")[0]:
                raise ValueError(
                    f"{word!r} is the name of skgems' own class {namesake.__name__}, "
                    f"so class {cls.__name__} cannot have it. Define it with another "
                    "name='...'."
                )
            Registered.redefinitions += 1
        cls.wire_name = word
        cls.registry[word] = cls

    def as_settings(self) -> dict:
        """Return the name and the parameters of the object, as a message has them.

        Returns
        -------
        settings : dict
            The registered word under "name", and the parameters by their names.

        Raises
        ------
        ValueError
            If the class has been defined anew since the object was made.

        Examples
        --------
        >>> from skgems.spaces import Accuracy
        >>> Accuracy().as_settings()
        {'name': 'accuracy'}
        """
        if self.registry[self.wire_name] is not type(self):
            raise ValueError(
                f"The class of {self.wire_name!r} was defined again after this object "
                "was made. Make a new object of the class."
            )
        return {"name": self.wire_name, **vars(self)}

    @classmethod
    def from_settings(cls, settings: Mapping) -> "Registered":
        """Make the object that :meth:`as_settings` describes.

        Parameters
        ----------
        settings : mapping
            The registered word under "name", and the parameters by their names.

        Returns
        -------
        part : object of a subclass
            The object.

        Raises
        ------
        ValueError
            If no class is registered by that name here.

        Examples
        --------
        >>> from skgems.spaces import Geometry, Gram
        >>> Geometry.from_settings(Gram(ridge=0.1).as_settings())
        Gram(ridge=0.1)
        """
        params = dict(settings)
        name = params.pop("name")
        if name not in cls.registry:
            raise ValueError(
                f"{name!r} is not known here, only {sorted(cls.registry)}. Import the "
                "module that defines it."
            )
        return cls.registry[name](**params)


_MAX_RADIUS_CONSTRAINT = {"max_radius": [Interval(Real, 0, None, closed="neither")]}


class Construction(NamesOnceMixin, Registered, BaseEstimator):
    """Base class of the ways to find a space's radius: `Sampled` and `Certified`."""

    # Rays that a request asks for, which has a number also where none are followed.
    n_directions = 1
    _parameter_constraints: dict = _MAX_RADIUS_CONSTRAINT

    def settings_for_nodes(self) -> dict:
        """Return the settings that nodes need.

        They are all settings but the largest radius, which the server applies.
        """
        settings = self.as_settings()
        return {name: value for name, value in settings.items() if name != "max_radius"}


class Sampled(Construction):
    """Find the radius along random rays (GEMS 2019, Algorithm 2).

    All models on the rays are good enough up to the radius. In between there may be
    models that are not.

    Parameters
    ----------
    n_directions : int, default=500
        Number of rays per node. More rays take longer, and make the radius smaller and
        more reliable.
    max_radius : float, default=1e4
        Largest radius, in units of the metric. It is the radius if no change of the
        model loses a row.

    Examples
    --------
    >>> from skgems.gems import Spaces
    >>> from skgems.spaces import Sampled
    >>> spaces = Spaces(construction=Sampled(n_directions=100))
    >>> spaces.set_params(construction__n_directions=200).construction
    Sampled(n_directions=200)
    """

    _parameter_constraints = _MAX_RADIUS_CONSTRAINT | {
        "n_directions": [Interval(Integral, 1, None, closed="left")]
    }

    def __init__(self, n_directions: int = 500, *, max_radius: float = 1e4):
        self.n_directions = n_directions
        self.max_radius = max_radius


class Certified(Construction):
    """Find a radius within which provably all models are good enough.

    Such spaces are small. If nodes know different classes, they hardly ever intersect.

    Parameters
    ----------
    max_radius : float, default=1e4
        Largest radius, in units of the metric. It is the radius if no change of the
        model loses a row.

    Examples
    --------
    A certified space is smaller than a sampled one:

    >>> import numpy as np
    >>> from skgems.spaces import Certified, Sampled, build_space
    >>> X, y = np.array([[-3.0], [-1.0], [1.0], [3.0]]), np.array([0, 0, 1, 1])
    >>> center = np.array([[-1.0, 1.0], [0.0, 0.0]])
    >>> for construction in (Certified(), Sampled(), Certified(max_radius=1.0)):
    ...     space = build_space(
    ...         X, y, center, epsilon=0.9, construction=construction, random_state=0
    ...     )
    ...     print(construction, round(space.radius, 2))
    Certified() 1.31
    Sampled() 1.35
    Certified(max_radius=1.0) 1.0
    """

    def __init__(self, *, max_radius: float = 1e4):
        self.max_radius = max_radius


CONSTRUCTIONS = {"sampled": Sampled(), "certified": Certified()}


def as_construction(construction: Construction | str) -> Construction:
    """Return a checked copy of a construction, or of that which a word stands for."""
    checked = clone(resolve(construction, CONSTRUCTIONS, Construction))
    checked._validate_params()
    return checked


@dataclass(frozen=True)
class Criterion(Registered, ABC):
    """Base class of the scores that models are judged by: `Accuracy` and `LogLoss`.

    Attributes
    ----------
    name : str
        Name of the criterion in parameters and messages.
    greater_is_better : bool
        Whether a good model scores at least epsilon. If False it scores at most
        epsilon.
    largest : float
        Largest epsilon that makes sense. The smallest is 0.
    ignores_scale : bool
        Whether the score stays the same if all logits are multiplied by a factor.
    counts_classes : bool
        Whether the score depends on classes that no row belongs to. If False, one such
        class stands for all of them.
    """

    name: ClassVar[str]
    greater_is_better: ClassVar[bool]
    largest: ClassVar[float]
    ignores_scale: ClassVar[bool] = False
    counts_classes: ClassVar[bool] = True

    @abstractmethod
    def score(self, logits: np.ndarray, y: np.ndarray) -> float:
        """Return the score of a model.

        Parameters
        ----------
        logits : ndarray of shape (n_samples, n_classes)
            Logits of the model on the rows.
        y : ndarray of shape (n_samples,), int
            Column of the label of each row.

        Returns
        -------
        score : float
            The score on all rows.
        """

    @abstractmethod
    def auto_epsilon(self, score: float) -> float:
        """Return the epsilon of "auto", given the score of the node's model."""

    @abstractmethod
    def profile(
        self,
        X: Rows,
        y: np.ndarray,
        center: np.ndarray,
        metric: Metric,
        *,
        scale: float,
        **options,
    ) -> AccuracyProfile | LossProfile:
        """Return the radius of the space for every epsilon.

        Parameters
        ----------
        X : {ndarray, csr_matrix} of shape (n_rows, n_features)
            Rows of the node, float32 or float64. Products are computed in their type.
        y : ndarray of int of shape (n_rows,)
            Output column of the label of each row.
        center : ndarray of shape (n_features + 1, n_outputs)
            Weights of the node's model, with the intercepts in the last row.
        metric : Metric
            The metric in which the radius is measured.
        scale : float
            Probabilities are the softmax of ``scale`` times the logits of the model.
        **options
            ``outputs`` (a mask of the outputs that are compared), ``construction``,
            ``n_directions`` and ``random_state``, as for `build_space`.

        Returns
        -------
        profile : AccuracyProfile or LossProfile
            The radii of all epsilons.
        """


@dataclass(frozen=True)
class Accuracy(Criterion):
    """Share of the rows whose label is right, which must be at least epsilon.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.spaces import Accuracy
    >>> Accuracy().score(np.array([[0.0, 1.0], [0.0, 1.0]]), np.array([1, 0]))
    0.5
    """

    name = "accuracy"
    largest = 1.0
    greater_is_better = True
    ignores_scale = True
    counts_classes = False

    def score(self, logits: np.ndarray, y: np.ndarray) -> float:
        """Return the share of rows whose largest logit is that of their label."""
        return float(np.mean(np.argmax(logits, axis=1) == y))

    def auto_epsilon(self, score: float) -> float:
        """Return half of the accuracy of the node's model."""
        return 0.5 * score

    def profile(
        self,
        X: Rows,
        y: np.ndarray,
        center: np.ndarray,
        metric: Metric,
        *,
        scale: float,
        **options,
    ) -> AccuracyProfile:
        """Return the radii as `accuracy_profile` does.

        The scale of the logits is not used, since it changes no label.
        """
        return accuracy_profile(X, y, center, metric, **options)


@dataclass(frozen=True)
class LogLoss(Criterion):
    """Mean log-loss of the rows in nats, which must be at most epsilon.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.spaces import LogLoss
    >>> round(LogLoss().score(np.zeros((1, 2)), np.array([1])), 3)
    0.693
    """

    name = "log_loss"
    largest = np.inf
    greater_is_better = False

    def score(self, logits: np.ndarray, y: np.ndarray) -> float:
        """Return the mean log-loss, see `skgems.moments.mean_log_loss`."""
        return mean_log_loss(logits, y)

    def auto_epsilon(self, score: float) -> float:
        """Return twice the log-loss of the node's model."""
        return 2.0 * score

    def profile(
        self,
        X: Rows,
        y: np.ndarray,
        center: np.ndarray,
        metric: Metric,
        *,
        scale: float,
        **options,
    ) -> LossProfile:
        """Return the radii as `loss_profile` does."""
        return loss_profile(X, y, center, metric, logit_scale=scale, **options)


CRITERIA = {criterion.name: criterion for criterion in (Accuracy(), LogLoss())}


def as_criterion(criterion: Criterion | str) -> Criterion:
    """Return a criterion, or that which a word stands for."""
    return resolve(criterion, CRITERIA, Criterion)
