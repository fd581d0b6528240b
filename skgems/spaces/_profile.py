"""All the good-enough spaces around one model: geometry, criterion, construction.

For each epsilon the space of a node is ``{W : d(W) <= R(epsilon)}``. Its center and its
metric, which the geometry makes of the model and the rows, do not depend on epsilon;
the criterion and the construction make the radius R of it. So a node sends one profile,
and the server chooses epsilon.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from numbers import Real
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_array, check_scalar

from ..moments import SMALLEST, row_moments
from ._geometry import Geometry, as_geometry
from ._metric import Metric, select_outputs
from ._outputs import Rows, output_columns
from ._parts import Construction, Criterion, as_construction, as_criterion
from ._radii import AccuracyProfile, LossProfile
from ._space import METRICS, GoodEnoughSpace, NoSpaceError, RandomSource

Part = TypeVar("Part")


@dataclass(frozen=True, eq=False, kw_only=True)
class SpaceProfile:
    """The good-enough spaces around one model, for every epsilon at once."""

    center: np.ndarray = field(repr=False)  # (n_features + 1, n_outputs)
    # Probabilities are the softmax of so many times the centre's logits.
    scale: float
    metric: Metric = field(repr=False)
    # Outputs that are compared, (n_outputs,) of bool; None: all.
    outputs: np.ndarray | None = field(repr=False)
    radii: AccuracyProfile | LossProfile
    criterion: Criterion
    construction: str  # the name of one: "sampled", "certified"

    def as_arrays(self) -> dict[str, np.ndarray | str]:
        """Return all but criterion and construction, as a node's reply has it."""
        arrays: dict[str, np.ndarray | str] = {
            "center": self.center,
            "scale": np.array(self.scale),
        }
        if self.outputs is not None:
            arrays["outputs"] = self.outputs
        arrays["family"] = self.metric.family
        arrays |= _arrays_of(self.metric, prefix="metric")
        arrays |= _arrays_of(self.radii.thinned(), prefix="radii")
        return arrays

    @classmethod
    def from_arrays(
        cls, arrays: Mapping, criterion: Criterion, construction: str
    ) -> "SpaceProfile":
        """Return the profile of a node's reply, see :meth:`as_arrays`."""
        radii_class = LossProfile if "radii_knots" in arrays else AccuracyProfile
        return cls(
            center=arrays["center"],
            scale=float(arrays["scale"]),
            metric=_from_arrays(METRICS[arrays["family"]], arrays, prefix="metric"),
            outputs=arrays.get("outputs"),
            radii=_from_arrays(radii_class, arrays, prefix="radii"),
            criterion=criterion,
            construction=construction,
        )

    @property
    def last_is_free(self) -> bool:
        """Report whether the last output is not compared and costs nothing."""
        if self.outputs is None or self.outputs[-1]:
            return False
        free = self.metric.free
        return free is not None and bool(free[:, -1].all())

    def select_outputs(self, places: np.ndarray) -> "SpaceProfile":
        """Return the profile for other outputs: for each, its place in this one, or -1.

        A place may be there several times, as that of the one output that stands for
        all classes which the node never saw. At -1 the node says nothing.
        """
        is_scored = places >= 0
        center = np.where(is_scored, self.center[:, places], 0.0)
        if self.outputs is None and is_scored.all():
            outputs = None
            # What all logits have in common says nothing: it stays what it was.
            center += (self.center.mean(axis=1) - center.mean(axis=1))[:, None]
        else:
            is_compared = True if self.outputs is None else self.outputs[places]
            outputs = is_scored & is_compared
        return replace(
            self,
            center=center,
            metric=select_outputs(self.metric, places),
            outputs=outputs,
        )

    @property
    def score(self) -> float:
        """Return what the model itself scores on its rows."""
        return float(self.radii.score)

    def space(self, epsilon: float | str, max_radius: float) -> GoodEnoughSpace:
        """Return the space of one epsilon; a word leaves epsilon to the criterion."""
        if isinstance(epsilon, str):
            epsilon = self.criterion.auto_epsilon(self.radii.score)
        radius = self.radii.radius(epsilon, max_radius)
        if not radius > SMALLEST:  # it is left by rounding alone
            raise NoSpaceError(
                f"there is no good-enough space: the model's own {self.criterion.name} "
                f"is {self.score:.4g} on its {self.radii.n_rows} rows, epsilon is "
                f"{epsilon:.4g}. Choose an epsilon "
                f"{'below' if self.criterion.greater_is_better else 'above'} the score "
                "that the model itself reaches, with some margin."
            )
        return GoodEnoughSpace(
            center=self.center,
            # A copy: factors that are computed later are not to stay with the profile.
            metric=replace(self.metric),
            radius=radius,
            epsilon=float(epsilon),
            criterion=self.criterion.name,
            construction=self.construction,
            outputs=self.outputs,
            score=self.radii.score,
        )


def _arrays_of(part: Metric | AccuracyProfile | LossProfile, *, prefix: str) -> dict:
    """Return fields of a dataclass that are not None, by ``prefix_field``."""
    arrays = {
        f"{prefix}_{part_field.name}": getattr(part, part_field.name)
        for part_field in fields(part)
    }
    return {
        name: np.asarray(value) for name, value in arrays.items() if value is not None
    }


def _from_arrays(part_class: type[Part], arrays: Mapping, *, prefix: str) -> Part:
    """Return an object of a dataclass, whose fields `_arrays_of` has stored."""
    arguments = {}
    for part_field in fields(part_class):
        array = arrays.get(f"{prefix}_{part_field.name}")
        if array is not None:
            arguments[part_field.name] = array if array.ndim else array.item()
    return part_class(**arguments)


def profile_space(
    X: Rows,
    y: np.ndarray,
    center: np.ndarray,
    known: np.ndarray,
    *,
    geometry: Geometry,
    criterion: Criterion,
    construction: str,
    scale: float = 1.0,
    rows: Rows | None = None,
    n_directions: int = 500,
    random_state: RandomSource = None,
) -> SpaceProfile:
    """Return all spaces of a model that knows some classes, a mask (n_classes,).

    The geometry sees all `rows` (None: X). Of the rows X those judge whose label y is
    known; -1 is the label of no class.
    """
    if rows is None:
        rows = X
    center, outputs = geometry.place(center, known)
    metric = geometry.metric(
        row_moments(rows) if geometry.needs_moments else None,
        center,
        known,
        scale,
        rows=rows if geometry.needs_rows else None,
    )
    if construction == "certified":
        _check_is_certifiable(geometry, metric, outputs)
    is_judging = (y >= 0) & known[y]
    if not is_judging.any():
        raise ValueError(
            "there is no row of a class that the model knows, so it cannot be judged. "
            "Give rows of the classes that it was trained on."
        )
    if not is_judging.all():
        X = X[is_judging]
        y = y[is_judging]
    radii = criterion.profile(
        X,
        y,
        center,
        metric,
        scale=scale,
        outputs=outputs,
        construction=construction,
        n_directions=n_directions,
        random_state=random_state,
    )
    return SpaceProfile(
        center=center,
        scale=scale,
        # A copy leaves behind the factors that only the profile needed.
        metric=replace(metric),
        outputs=outputs,
        radii=radii,
        criterion=criterion,
        construction=construction,
    )


def _check_is_certifiable(
    geometry: Geometry, metric: Metric, outputs: np.ndarray | None
) -> None:
    """Raise if an output that is compared is free: then no radius is safe.

    Free weights of gram metrics are those of features that do not vary, which bound
    their changes by themselves.
    """
    free = metric.free
    if free is None or metric.family == "gram":
        return
    compared = slice(None) if outputs is None else outputs
    if free[:, compared].any():
        raise ValueError(
            f"construction='certified' does not go with geometry={geometry!r}: it "
            "leaves outputs free that are compared. Set construction='sampled', or "
            "take another geometry."
        )


def build_space(
    X: ArrayLike,
    y: ArrayLike,
    center: ArrayLike,
    *,
    epsilon: float,
    geometry: Geometry | str = "gram",
    construction: Construction | str = "sampled",
    criterion: Criterion | str = "accuracy",
    outputs: ArrayLike | None = None,
    logit_scale: float = 1.0,
    random_state: RandomSource = None,
) -> GoodEnoughSpace:
    """Build the good-enough space of one linear classifier (GEMS 2019, Eq. 1).

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_rows, n_features)
        Rows of the node.
    y : array-like of int of shape (n_rows,)
        Output column of the label of each row.
    center : array-like of shape (n_features + 1, n_outputs)
        Weights of the classifier, with the intercepts in the last row.
    epsilon : float
        The level that is good enough. For "accuracy" it is the least accuracy, above 0
        and at most 1. For "log_loss" it is the largest mean log-loss, above 0.
    geometry : Geometry or {"gram", "ellipsoid", "ball"}, default="gram"
        Shape of the space, see `Gram`, `Ellipsoid` and `Ball`.
    construction : Construction or {"sampled", "certified"}, default="sampled"
        How the radius is found. With "sampled" models reach `epsilon` along random
        rays, and with "certified" provably all models in the space do.
    criterion : Criterion or {"accuracy", "log_loss"}, default="accuracy"
        What is good enough, see `Accuracy` and `LogLoss`.
    outputs : array-like of bool of shape (n_outputs,), default=None
        True for classes that the classifier knows. Rows of other classes judge no
        model. `Gram` scores the other classes below the known ones; in other geometries
        they are free. None stands for all classes.
    logit_scale : float, default=1.0
        Probabilities are the softmax of ``logit_scale * logits``.
    random_state : int, RandomState instance or None, default=None
        Source of the rays. Give an int for the same space in each call.

    Returns
    -------
    space : GoodEnoughSpace
        The space around the classifier.

    Raises
    ------
    ValueError
        If an argument is out of range, or if the radius is 0. This is so if the
        classifier itself does not reach `epsilon`, or just reaches it.

    See Also
    --------
    skgems.spaces.intersect : Find one model in several spaces.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.spaces import Gram, build_space
    >>> X, y = np.array([[-3.0], [-1.0], [1.0], [3.0]]), np.array([0, 0, 1, 1])
    >>> center = np.array([[-1.0, 1.0], [0.0, 0.0]])
    >>> space = build_space(
    ...     X, y, center, epsilon=0.9, construction="certified",
    ...     geometry=Gram(ridge=0.3),
    ... )
    >>> space.score, round(space.radius, 2)
    (1.0, 1.32)
    """
    X = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32])
    center = check_array(center, dtype=np.float64, input_name="center")
    y = np.asarray(y)
    geometry = as_geometry(geometry)
    criterion = as_criterion(criterion)
    construction = as_construction(construction)
    for name, value in {"logit_scale": logit_scale, "epsilon": epsilon}.items():
        check_scalar(value, name, Real)
        if not 0 < value < np.inf:
            raise ValueError(f"{name} must be finite and above 0, got {value}.")
    if epsilon > criterion.largest:
        raise ValueError(
            f"epsilon == {epsilon}, must be <= {criterion.largest} for the criterion "
            f"{criterion.name!r}."
        )
    n_outputs = center.shape[1]
    known_classes = np.asarray(np.ones(n_outputs, bool) if outputs is None else outputs)
    output_columns(known_classes, n_outputs)  # checks them
    _check_labels_and_center(y, center, n_rows=X.shape[0], n_features=X.shape[1])
    profile = profile_space(
        X,
        y,
        center,
        known_classes,
        geometry=geometry,
        criterion=criterion,
        construction=construction.wire_name,
        n_directions=construction.n_directions,
        scale=logit_scale,
        random_state=random_state,
    )
    return profile.space(epsilon, construction.max_radius)


def _check_labels_and_center(
    y: np.ndarray, center: np.ndarray, *, n_rows: int, n_features: int
) -> None:
    if center.shape[0] != n_features + 1:
        raise ValueError(
            f"center must have shape ({n_features + 1}, n_outputs), with the "
            f"intercepts in the last row, got {center.shape}."
        )
    if y.shape != (n_rows,) or y.dtype.kind not in "iu":
        raise ValueError(
            f"y must hold {n_rows} integers, the columns of the rows' labels; "
            f"it has dtype {y.dtype} and shape {y.shape}."
        )
    if y.min() < 0 or y.max() >= center.shape[1]:
        raise ValueError(
            f"y must be between 0 and {center.shape[1] - 1}, the columns of the "
            f"center, got labels from {y.min()} to {y.max()}."
        )
