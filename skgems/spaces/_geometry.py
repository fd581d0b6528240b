"""Geometries: which shape a node's good-enough space has.

With the mean m and the covariance S of a node's rows x, and the probabilities p of its
model, the squared length of a change D = (w_j, b_j) of the outputs j is

    Gram:       sum_j B_j (w_j' (S + ridge diag(S)) w_j + (b_j + m' w_j)^2),
    Ellipsoid:  sum_ij D_ij^2 / axis_ij^2,    axis_ij falls as F_ij rises,
                F_ij = mean_n x_ni^2 p_nj (1 - p_nj)    (GEMS 2019, Eq. 4 and 5),
    Ball:       sum_ij D_ij^2,

with i over features and the intercept. A geometry also says where a space is in classes
that the node never saw: `Gram` scores them below the others with a small weight B_j,
the others leave them free.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from numbers import Real

import numpy as np
from scipy.special import softmax
from sklearn.base import BaseEstimator, clone

from ..base import NamesOnceMixin
from ..compat import Interval
from ..moments import Moments, mean_squares
from ..networks import linear_logits
from ._diagonal import DiagonalMetric
from ._gram import GramMetric
from ._metric import Metric
from ._outputs import Rows, fill_unseen
from ._parts import Registered, resolve
from ._space import ball_metric, ellipsoid_metric, fisher_precision, ridged

# How much lower the logits of unseen classes are at a node that knows a single class,
# in units of the root mean square logit. Margins are measured from the mean known
# logit: of several classes the right one stands above it, a single one is the mean.
_ONE_CLASS_LEAD = 0.5


class Geometry(NamesOnceMixin, Registered, BaseEstimator, ABC):
    """Base class of the shapes of good-enough spaces: `Gram`, `Ellipsoid` and `Ball`.

    Derive from it to define a shape of your own. A subclass lists its parameters in
    ``__init__``, as estimators do, and implements :meth:`metric`. For hidden layers it
    also implements :meth:`neuron_metric`. The class attributes below say what these
    methods need. A geometry stores no results, so one object serves all nodes.

    Attributes
    ----------
    needs_moments : bool
        Whether both methods are given the mean and covariance of the node's rows. If
        False they are given None.
    needs_rows : bool
        Whether both methods are given the rows themselves. If False they are given
        None.
    needs_slopes : bool
        Whether :meth:`neuron_metric` is given the slopes of the activations. If False
        it is given None.
    in_logits : bool
        Whether distances are those of logits. Then the logits of all nodes have to be
        on one scale.
    """

    needs_moments = False
    needs_rows = False
    needs_slopes = False
    in_logits = False
    _parameter_constraints: dict = {}

    @abstractmethod
    def metric(
        self,
        moments: Moments | None,
        center: np.ndarray,
        known: np.ndarray,
        scale: float,
        rows: Rows | None = None,
    ) -> Metric:
        """Return the metric of one node's space.

        Parameters
        ----------
        moments : Moments or None
            Mean and covariance of the node's rows.
        center : ndarray of shape (n_features + 1, n_classes)
            The node's model as returned by :meth:`place`, with the intercepts in the
            last row.
        known : ndarray of shape (n_classes,), dtype bool
            True for classes that the node has seen.
        scale : float
            Probabilities are the softmax of ``scale`` times the logits of the center.
        rows : {ndarray, CSR matrix} of shape (n_rows, n_features) or None
            The node's rows.

        Returns
        -------
        metric : Metric
            The metric that measures how far a model is from the center.
        """

    def place(
        self, center: np.ndarray, known: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Say where a space is in classes that the node never saw.

        Here such classes have zeros in the center, and are not compared.

        Parameters
        ----------
        center : ndarray of shape (n_features + 1, n_classes)
            The node's model. Columns of unknown classes are ignored. It is not changed.
        known : ndarray of shape (n_classes,), dtype bool
            True for classes that the node has seen.

        Returns
        -------
        center : ndarray of shape (n_features + 1, n_classes)
            The center of the space.
        outputs : ndarray of shape (n_classes,), dtype bool, or None
            True for outputs in which models are compared on the node's rows. None
            stands for all outputs.
        """
        return np.where(known, center, 0.0), known

    def neuron_metric(
        self,
        moments: Moments | None,
        centers: np.ndarray,
        slopes: np.ndarray | None,
        rows: Rows | None = None,
    ) -> Metric:
        """Return the metric of the spaces of a layer's neurons, one for all of them.

        Parameters
        ----------
        moments : Moments or None
            Mean and covariance of the inputs of the layer, on the node's rows.
        centers : ndarray of shape (n_inputs + 1, n_neurons)
            Weights of the neurons, with the biases in the last row.
        slopes : ndarray of shape (n_rows,) or None
            Squared derivative of the activation, averaged over the neurons.
        rows : {ndarray, CSR matrix} of shape (n_rows, n_inputs) or None
            Inputs of the layer.

        Returns
        -------
        metric : Metric
            A metric for one output, or for any number of outputs. Only weights of
            inputs that are constant on the rows may be free.

        Raises
        ------
        TypeError
            If the geometry is for last layers only.
        """
        raise TypeError(
            f"{type(self).__name__} has no neuron_metric, so it cannot shape the "
            "spaces of hidden units. Use another geometry for hidden_layers, or "
            "define the method in the class."
        )


class Gram(Geometry):
    """Measure a change of a model by how much it moves the logits on the node's rows.

    The metric is made of the mean and covariance of the rows, which are about
    n_features^2 / 2 numbers, with a ridge. Directions that the rows of a node never
    show cost little there, and are left to other nodes. Classes that the node never saw
    are scored below those it knows, with little weight.

    Parameters
    ----------
    ridge : float, default=0.2
        Added to the variance of each feature, relative to it. Raise it if nodes have
        few rows.
    unseen_margin : float, default=1.5
        How far below its mean logit a node scores a class that it never saw, in units
        of the root mean square logit on its rows. At a node of a single class it is
        half a unit more, since the mean logit is then that of the right class. With
        ``scale_logits=False`` it is the distance below 0, for logits as they are.
    unseen_weight : float, default=0.2
        Weight of the logits of classes that a node never saw. Those of known classes
        have the weight 1. Lower it if many nodes lack the same class.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.moments import row_moments
    >>> from skgems.spaces import Gram
    >>> moments = row_moments(np.array([[1.0], [3.0]]))
    >>> known = np.array([True, True, False])
    >>> Gram(ridge=0.1).metric(moments, np.zeros((2, 3)), known, 1.0).gram
    array([[5.1, 2. ],
           [2. , 1. ]])
    """

    needs_moments = True
    in_logits = True
    _parameter_constraints: dict = {
        "ridge": [Interval(Real, 0, None, closed="left")],
        "unseen_margin": [Interval(Real, 0, None, closed="left")],
        "unseen_weight": [Interval(Real, 0, None, closed="neither")],
    }

    def __init__(
        self,
        *,
        ridge: float = 0.2,
        unseen_margin: float = 1.5,
        unseen_weight: float = 0.2,
    ):
        self.ridge = ridge
        self.unseen_margin = unseen_margin
        self.unseen_weight = unseen_weight

    def place(
        self, center: np.ndarray, known: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Score classes that the node never saw below the others.

        See :meth:`Geometry.place` for the parameters.
        """
        if not known.all():
            lead = _ONE_CLASS_LEAD if known.sum() == 1 else 0.0
            center = fill_unseen(center, known, margin=self.unseen_margin + lead)
        return center, None

    def metric(
        self,
        moments: Moments | None,
        center: np.ndarray,
        known: np.ndarray,
        scale: float,
        rows: Rows | None = None,
    ) -> GramMetric:
        """Return the metric of the moments of the rows.

        See :meth:`Geometry.metric` for the parameters.
        """
        output_weights = np.where(known, 1.0, self.unseen_weight)
        return ridged(moments, self.ridge, output_weights=output_weights)

    def neuron_metric(
        self,
        moments: Moments | None,
        centers: np.ndarray,
        slopes: np.ndarray | None,
        rows: Rows | None = None,
    ) -> GramMetric:
        """Return the metric of the moments of the layer's inputs.

        See :meth:`Geometry.neuron_metric` for the parameters.
        """
        return ridged(moments, self.ridge)


class Ellipsoid(Geometry):
    """Ellipsoid along the axes, from the diagonal Fisher information.

    It takes as many numbers as the model has weights. In hidden layers the rows are
    weighted by the squared slopes of the activations. The ellipsoid says nothing of
    classes that a node never saw.

    Parameters
    ----------
    floor : float, default=0.1
        Length of the shortest axis relative to the longest, the c of GEMS 2019, Eq. 5.
        Raise it for a rounder space.
    damping : float, default=1.0
        Added to the Fisher information, relative to its mean. Raise it if most features
        are 0 in most rows, since their information is then close to 0.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.spaces import Ellipsoid
    >>> rows, slopes = np.array([[3.0], [1.0]]), np.ones(2)
    >>> geometry = Ellipsoid(floor=0.5)
    >>> geometry.neuron_metric(None, np.zeros((2, 1)), slopes, rows).precision
    array([[4.],
           [1.]])
    """

    needs_rows = True
    needs_slopes = True
    _parameter_constraints: dict = {
        "floor": [Interval(Real, 0, 1, closed="right")],
        "damping": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(self, *, floor: float = 0.1, damping: float = 1.0):
        self.floor = floor
        self.damping = damping

    def metric(
        self,
        moments: Moments | None,
        center: np.ndarray,
        known: np.ndarray,
        scale: float,
        rows: Rows | None = None,
    ) -> DiagonalMetric:
        """Return the metric of the model's own probabilities on the rows.

        See :meth:`Geometry.metric` for the parameters.
        """
        probabilities = np.zeros((rows.shape[0], len(known)))
        logits = scale * linear_logits(rows, center[:, known])
        probabilities[:, known] = softmax(logits, axis=1)
        return ellipsoid_metric(
            rows,
            probabilities,
            floor=self.floor,
            damping=self.damping,
            outputs=known,
        )

    def neuron_metric(
        self,
        moments: Moments | None,
        centers: np.ndarray,
        slopes: np.ndarray | None,
        rows: Rows | None = None,
    ) -> DiagonalMetric:
        """Return the metric of the inputs and of the slopes of the activations.

        See :meth:`Geometry.neuron_metric` for the parameters.
        """
        # The squared slopes take the place of the variance p (1 - p) of labels.
        fisher = mean_squares(rows, slopes[:, None])
        return DiagonalMetric(
            fisher_precision(fisher, floor=self.floor, damping=self.damping)
        )


class Ball(Geometry):
    """Ball: a change of any weight counts alike.

    Weights of classes that a node never saw do not count at all.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.spaces import Ball
    >>> Ball().metric(None, np.zeros((1, 2)), np.array([True, False]), 1.0).precision
    array([[1., 0.]])
    """

    def metric(
        self,
        moments: Moments | None,
        center: np.ndarray,
        known: np.ndarray,
        scale: float,
        rows: Rows | None = None,
    ) -> DiagonalMetric:
        """Return the metric in which all weights of known classes are equal.

        See :meth:`Geometry.metric` for the parameters.
        """
        return ball_metric(len(center), known)

    def neuron_metric(
        self,
        moments: Moments | None,
        centers: np.ndarray,
        slopes: np.ndarray | None,
        rows: Rows | None = None,
    ) -> DiagonalMetric:
        """Return the metric in which all weights are equal.

        See :meth:`Geometry.neuron_metric` for the parameters.
        """
        return ball_metric(len(centers), np.array([True]))


# What the words stand for in linear models.
GEOMETRIES = {"gram": Gram(), "ellipsoid": Ellipsoid(), "ball": Ball()}


def as_geometry(
    geometry: Geometry | str, short_forms: Mapping[str, Geometry] = GEOMETRIES
) -> Geometry:
    """Return a checked copy of a geometry, or of that which a word stands for."""
    checked = clone(resolve(geometry, short_forms, Geometry))
    checked._validate_params()
    return checked
