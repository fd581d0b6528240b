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


class Geometry(Registered, BaseEstimator, ABC):
    """Base of the shapes of good-enough spaces: `Gram`, `Ellipsoid` and `Ball`.

    A subclass lists its parameters in ``__init__``, as estimators do, says what it
    needs by the class attributes below, and implements :meth:`metric`, for hidden
    layers :meth:`neuron_metric`. It keeps nothing: one object serves all nodes.

    Attributes
    ----------
    needs_moments : bool
        Whether both methods are given mean and covariance of the node's rows, or None.
    needs_rows : bool
        Whether they are given the rows themselves, or None.
    needs_slopes : bool
        Whether :meth:`neuron_metric` is given the activations' slopes; else None.
    in_logits : bool
        Whether distances are those of logits, so that nodes need theirs on one scale.
    bounds_logits : bool
        Whether no change of a neuron is shorter than the root mean square change of its
        pre-activation. If not, certified radii are divided by the largest ratio.
    """

    needs_moments = False
    needs_rows = False
    needs_slopes = False
    in_logits = False
    bounds_logits = False
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
        """The metric of one node's space.

        Parameters
        ----------
        moments : Moments or None
            Of the node's rows.
        center : ndarray of shape (n_features + 1, n_classes)
            The node's model as :meth:`place` left it, the intercepts in the last row.
        known : ndarray of shape (n_classes,), dtype bool
            Classes the node has seen.
        scale : float
            Probabilities are the softmax of ``scale`` times the centre's logits.
        rows : {ndarray, CSR matrix} of shape (n_rows, n_features) or None
            The rows.

        Returns
        -------
        metric : Metric
        """

    def place(
        self, center: np.ndarray, known: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Say where a space is in classes never seen; here zero, and not compared.

        Parameters
        ----------
        center : ndarray of shape (n_features + 1, n_classes)
            Columns of unknown classes are ignored. Not written to.
        known : ndarray of shape (n_classes,), dtype bool

        Returns
        -------
        center : ndarray of shape (n_features + 1, n_classes)
        outputs : ndarray of shape (n_classes,), dtype bool, or None
            Outputs that models are compared in on the node's rows. None: all.
        """
        return np.where(known, center, 0.0), known

    def neuron_metric(
        self,
        moments: Moments | None,
        centers: np.ndarray,
        slopes: np.ndarray | None,
        rows: Rows | None = None,
    ) -> Metric:
        """The metric of the spaces of a layer's neurons, the same for all of them.

        Parameters
        ----------
        moments : Moments or None
            Of what enters the layer on the node's rows.
        centers : ndarray of shape (n_inputs + 1, n_neurons)
            The neurons' weights, the biases in the last row.
        slopes : ndarray of shape (n_rows,) or None
            Mean over the neurons of their activation's squared derivative.
        rows : {ndarray, CSR matrix} of shape (n_rows, n_inputs) or None
            What enters the layer.

        Returns
        -------
        metric : Metric
            For any number of outputs, or for one. Only weights of inputs that are
            constant on the rows may be free.

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
    """By how much a change moves the node's logits on its rows.

    Mean and covariance of the rows, about n_features^2 / 2 numbers, with a ridge.
    Classes that the node never saw are scored below those it knows, with little weight.

    Parameters
    ----------
    ridge : float, default=0.2
        What is added to each feature's variance, relative to it.
    unseen_margin : float, default=1.5
        How far below its mean logit a node scores a class it never saw, in units of
        the root mean square logit on its rows (with ``scale_logits=False``, below 0, of
        logits as they are). Half a unit more at a node of one class, whose mean logit
        is that of the right class.
    unseen_weight : float, default=0.2
        Weight of logits of classes a node never saw, against 1 for those it knows.

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
    bounds_logits = True
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
        """Score classes never seen below the others; see :meth:`Geometry.place`."""
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
        """Of the moments, see :meth:`Geometry.metric`."""
        output_weights = np.where(known, 1.0, self.unseen_weight)
        return ridged(moments, self.ridge, output_weights=output_weights)

    def neuron_metric(
        self,
        moments: Moments | None,
        centers: np.ndarray,
        slopes: np.ndarray | None,
        rows: Rows | None = None,
    ) -> GramMetric:
        """Of the moments, see :meth:`Geometry.neuron_metric`."""
        return ridged(moments, self.ridge)


class Ellipsoid(Geometry):
    """An ellipsoid along the axes, from the diagonal Fisher information.

    In hidden layers the squared slopes of the activations weigh the rows. It says
    nothing of classes that a node never saw.

    Parameters
    ----------
    floor : float, default=0.1
        Shortest axis relative to the longest, the c of GEMS 2019, Eq. 5.
    damping : float, default=1.0
        Added to the Fisher information, relative to its mean.

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
        """Of the model's own probabilities, see :meth:`Geometry.metric`."""
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
        """Of the activations' slopes, see :meth:`Geometry.neuron_metric`."""
        # The squared slopes take the place of the variance p (1 - p) of labels.
        fisher = mean_squares(rows, slopes[:, None])
        return DiagonalMetric(
            fisher_precision(fisher, floor=self.floor, damping=self.damping)
        )


class Ball(Geometry):
    """A ball: every weight counts alike, those of classes never seen not at all.

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
        """Equal for all weights, see :meth:`Geometry.metric`."""
        return ball_metric(len(center), known)

    def neuron_metric(
        self,
        moments: Moments | None,
        centers: np.ndarray,
        slopes: np.ndarray | None,
        rows: Rows | None = None,
    ) -> DiagonalMetric:
        """Equal for all weights, see :meth:`Geometry.neuron_metric`."""
        return ball_metric(len(centers), np.array([True]))


# What the words stand for in linear models.
GEOMETRIES = {"gram": Gram(), "ellipsoid": Ellipsoid(), "ball": Ball()}


def as_geometry(
    geometry: Geometry | str, short_forms: Mapping[str, Geometry] = GEOMETRIES
) -> Geometry:
    """A checked copy of a geometry, or of that which a word stands for."""
    checked = clone(resolve(geometry, short_forms, Geometry))
    checked._validate_params()
    return checked
