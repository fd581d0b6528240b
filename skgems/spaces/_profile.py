"""All the good-enough spaces around one model: geometry, criterion, construction."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_array, check_scalar

from ..moments import row_moments
from ._diagonal import output_columns
from ._geometry import as_geometry
from ._intersection import NoSpaceError
from ._parts import Criterion, as_construction, as_criterion
from ._radii import AccuracyProfile, LossProfile
from ._space import METRICS, GoodEnoughSpace, Metric

# Rounding alone leaves the space; its inverse square is a number yet.
_SMALLEST_RADIUS = 1e-25


@dataclass(frozen=True, eq=False)
class SpaceProfile:
    """The good-enough spaces around one model, for every epsilon at once."""

    center: np.ndarray = field(repr=False)
    scale: float
    metric: Metric = field(repr=False)
    outputs: np.ndarray | None = field(repr=False)
    radii: AccuracyProfile | LossProfile
    criterion: Criterion
    construction: str

    def as_arrays(self) -> dict:
        """All but criterion and construction, as a node's reply has it."""
        arrays = {"center": self.center, "scale": np.array(self.scale)}
        if self.outputs is not None:
            arrays["outputs"] = self.outputs
        arrays["family"] = self.metric.family
        for part, owner in (("metric", self.metric), ("radii", self.radii.thinned())):
            for own in fields(owner):
                if (value := getattr(owner, own.name)) is not None:
                    arrays[f"{part}_{own.name}"] = np.asarray(value)
        return arrays

    @classmethod
    def from_arrays(
        cls, arrays: Mapping, criterion: Criterion, construction: str
    ) -> "SpaceProfile":
        def made(part, kind):
            found = {own.name: arrays.get(f"{part}_{own.name}") for own in fields(kind)}
            given = {k: v for k, v in found.items() if v is not None}
            return kind(**{k: v if v.ndim else v.item() for k, v in given.items()})

        metric = made("metric", METRICS[arrays["family"]])
        kind = LossProfile if "radii_knots" in arrays else AccuracyProfile
        own = arrays["center"], float(arrays["scale"]), metric, arrays.get("outputs")
        return cls(*own, made("radii", kind), criterion, construction)

    @property
    def last_is_free(self) -> bool:
        if self.outputs is None or self.outputs[-1]:
            return False
        free = self.metric.free_mask()
        return free is not None and bool(free[:, -1].all())

    def of_outputs(self, places: np.ndarray) -> "SpaceProfile":
        said = places >= 0
        center, outputs = np.where(said, self.center[:, places], 0.0), None
        if self.outputs is None and said.all():
            # What all logits have in common says nothing: it stays what it was.
            center += (self.center.mean(axis=1) - center.mean(axis=1))[:, None]
        else:
            compared = True if self.outputs is None else self.outputs[places]
            outputs = said & compared
        metric = self.metric.of_outputs(places)
        return replace(self, center=center, metric=metric, outputs=outputs)

    @property
    def score(self) -> float:
        return float(self.radii.score)

    def space(self, epsilon, max_radius: float) -> GoodEnoughSpace:
        if isinstance(epsilon, str):
            epsilon = self.criterion.auto_epsilon(self.radii.score)
        radius = self.radii.radius(epsilon, max_radius)
        if not radius > _SMALLEST_RADIUS:
            side = "below" if self.criterion.greater_is_better else "above"
            raise NoSpaceError(
                f"there is no good-enough space: the model's own {self.criterion.name} "
                f"is {self.score:.4g} on its {self.radii.n_rows} rows, epsilon is "
                f"{epsilon:.4g}. Choose an epsilon {side} the model's own by some room."
            )
        # A copy: factors that are computed later are not to stay with the profile.
        metric, epsilon = replace(self.metric), float(epsilon)
        kind = self.criterion.name, self.construction, self.outputs, self.radii.score
        return GoodEnoughSpace(self.center, metric, radius, epsilon, *kind)


def profile_space(
    X, y, center, known, *, geometry, criterion, scale=1.0, rows=None, **how
) -> SpaceProfile:
    """All of a model's spaces; rows X judge if ``known`` has their ``y`` (-1: none)."""
    rows = X if rows is None else rows
    center, outputs = geometry.place(center, known)
    moments = row_moments(rows) if geometry.needs_moments else None
    given = rows if geometry.needs_rows else None
    metric = geometry.metric(moments, center, known, scale, rows=given)
    free, construction = metric.free_mask(), how["construction"]
    if construction == "certified" and free is not None and metric.family != "gram":
        if free[:, slice(None) if outputs is None else outputs].any():
            raise ValueError(
                f"construction='certified' does not go with geometry={geometry!r}: it "
                "leaves outputs free that are compared. Set construction='sampled', or "
                "take another geometry."
            )
    judging = (y >= 0) & known[y]
    if not judging.any():
        raise ValueError("there is no row of a class that the model knows to judge by.")
    if not judging.all():
        X, y = X[judging], y[judging]
    own = {"scale": scale, "outputs": outputs}
    radii = criterion.profile(X, y, center, metric, **own, **how)
    # A copy leaves behind the factors that only the profile needed.
    made = center, scale, replace(metric), outputs, radii
    return SpaceProfile(*made, criterion, construction)


def build_space(
    X,
    y: ArrayLike,
    center: ArrayLike,
    *,
    epsilon: float,
    geometry="gram",
    construction="sampled",
    criterion="accuracy",
    outputs: ArrayLike | None = None,
    logit_scale: float = 1.0,
    random_state=None,
) -> GoodEnoughSpace:
    """Build the good-enough space of one linear classifier (GEMS 2019, Eq. 1).

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_rows, n_features)
        Rows of the node.
    y : array-like of int of shape (n_rows,)
        Output column of each row's label.
    center : array-like of shape (n_features + 1, n_outputs)
        Parameters of the model, the intercepts in the last row.
    epsilon : float
        For "accuracy", in (0, 1]: accuracy the models must reach. For "log_loss",
        above 0: mean log-loss they must not exceed.
    geometry : Geometry or {"gram", "ellipsoid", "ball"}, default="gram"
        See `Gram`, `Ellipsoid` and `Ball`.
    construction : Construction or {"sampled", "certified"}, default="sampled"
        Whether models inside reach `epsilon` along random rays, or provably all do.
    criterion : Criterion or {"accuracy", "log_loss"}, default="accuracy"
        What is good enough.
    outputs : array-like of bool of shape (n_outputs,), default=None
        Classes that the model knows; rows of others judge no model. None: all. `Gram`
        scores the others below those known, in other geometries they are free.
    logit_scale : float, default=1.0
        Probabilities are the softmax of ``logit_scale * logits``.
    random_state : int, RandomState instance or None, default=None
        Source of the rays.

    Returns
    -------
    space : GoodEnoughSpace

    Raises
    ------
    ValueError
        For arguments out of range, and where the radius is 0: the model itself does
        not reach `epsilon`, or by no margin.

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
    geometry, criterion = as_geometry(geometry), as_criterion(criterion)
    construction = as_construction(construction)
    for name, value in {"logit_scale": logit_scale, "epsilon": epsilon}.items():
        check_scalar(value, name, Real)
        if not 0 < value < np.inf:
            raise ValueError(f"{name} must be finite and above 0, got {value}.")
    if epsilon > criterion.largest:
        raise ValueError(f"epsilon == {epsilon}, must be <= {criterion.largest}.")
    n_features, n_outputs = X.shape[1], center.shape[1]
    outputs = np.asarray(np.ones(n_outputs, bool) if outputs is None else outputs)
    output_columns(outputs, n_outputs)
    if center.shape[0] != n_features + 1:
        shape = f"({n_features + 1}, n_outputs)"
        raise ValueError(f"center must have shape {shape}, got {center.shape}.")
    if y.shape != X.shape[:1] or y.dtype.kind not in "iu":
        raise ValueError(
            f"y must hold {X.shape[0]} integers, the columns of the rows' labels; "
            f"it has dtype {y.dtype} and shape {y.shape}."
        )
    if y.min() < 0 or y.max() >= n_outputs:
        raise ValueError(f"y must be between 0 and {n_outputs - 1}.")
    profile = profile_space(
        *(X, y, center, outputs),
        geometry=geometry,
        criterion=criterion,
        construction=construction.wire_name,
        n_directions=construction.n_directions,
        scale=logit_scale,
        random_state=random_state,
    )
    return profile.space(epsilon, construction.max_radius)
