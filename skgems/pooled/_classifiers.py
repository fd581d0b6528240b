"""Which classifiers are functions of sums: what nodes are asked, and what is made."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, eigh, svd
from sklearn.base import ClassifierMixin, clone
from sklearn.covariance import shrunk_covariance
from sklearn.discriminant_analysis import (
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
)
from sklearn.linear_model import RidgeClassifier
from sklearn.naive_bayes import (
    BernoulliNB,
    CategoricalNB,
    ComplementNB,
    GaussianNB,
    MultinomialNB,
)
from sklearn.neighbors import NearestCentroid
from sklearn.preprocessing import LabelBinarizer

from ..local import closed_form
from ..messages import Message
from ..moments import (
    PROMISE,
    ClassMoments,
    ClassSums,
    PooledForm,
    Root,
    Rounding,
    SumPrecision,
    quadratic_rounding,
    weighted_sums,
)

_EPS = np.finfo(np.float64).eps


@dataclass(frozen=True, kw_only=True)
class Kind:
    """How a classifier is made of sums."""

    # Sets the fitted attributes of a clone, (classifier, sums, classes); returns why
    # scikit-learn's own fit may differ, or "".
    make: Callable[..., str]
    # Scatter of the moments, "class" or "diagonal"; "": what the linear form needs.
    scatter: str = ""
    sums_of: str = ""  # what is summed by class, in place of moments
    settings: tuple[str, ...] = ()  # parameters that decide what nodes send

    def request(
        self, classifier: ClassifierMixin, classes: np.ndarray | None = None
    ) -> Message:
        """Return the request to all nodes; ``classes`` are those of all, if known."""
        threshold = getattr(classifier, "binarize", None)
        if threshold is not None:
            return Message.of("class_sums", of="above", threshold=float(threshold))
        if self.sums_of:
            return Message.of("class_sums", of=self.sums_of, threshold=None)
        scatter = self.scatter or _linear_form(classifier, classes).scatter
        return Message.of("moments", kind=scatter, n_components=1, min_cluster_size=1)


def check_scatters(
    classifier: ClassifierMixin,
    classes: np.ndarray,
    sharing_nodes: Mapping[int, Sequence[str]],
) -> None:
    """Raise ValueError if a classifier needs scatters that nodes do not tell.

    Parameters
    ----------
    classifier : classifier
    classes : ndarray of shape (n_classes,)
    sharing_nodes : mapping of int to sequence of str
        By the place of a class the nodes that tell its scatter with that of others.
    """
    kind = KINDS[type(classifier)]
    if not sharing_nodes or kind.sums_of:
        return
    needs_own = kind.scatter or _linear_form(classifier, classes).scatter == "class"
    if needs_own:
        c, names = min(sharing_nodes.items())
        raise ValueError(
            f"{classifier!r} needs a scatter of each class by itself. "
            f"Node {names[0]!r} tells none of class {classes[c].item()!r}, since under "
            "its rule of disclosure it would tell too much of so few rows. Nodes that "
            f"tell none of this class: {list(names)}. Leave these nodes out; or pool a "
            "classifier that takes one scatter of all classes, such as "
            "LinearDiscriminantAnalysis without priors."
        )


def tells_one_scatter(classifier: ClassifierMixin, classes: np.ndarray) -> bool:
    """Report whether a linear classifier is made of one scatter of all classes."""
    return _linear_form(classifier, classes).scatter == "shared"


def fit_to_sums(
    classifier: ClassifierMixin, sums: ClassMoments | ClassSums, classes: np.ndarray
) -> tuple[ClassifierMixin, str]:
    """The classifier as if fitted on all rows, and why it may differ, or nothing."""
    fitted = clone(classifier)
    fitted._validate_params()
    kind = KINDS[type(fitted)]
    # Naive Bayes takes rows of one class, in scikit-learn too.
    takes_one_class = kind.sums_of or kind.make is _make_gaussian
    if len(classes) < 2 and not takes_one_class:
        raise ValueError(
            "The number of classes has to be greater than one; got "
            f"{len(classes)} class, {classes.tolist()}."
        )
    return fitted, kind.make(fitted, sums, classes)


def _set_fitted(classifier: ClassifierMixin, attributes: Mapping[str, object]) -> None:
    """Set fitted attributes, but those that are properties in some versions."""
    for name, value in attributes.items():
        if not isinstance(getattr(type(classifier), name, None), property):
            setattr(classifier, name, value)


# ---- linear classifiers --------------------------------------------------------------


def _linear_form(classifier: ClassifierMixin, classes: np.ndarray | None) -> PooledForm:
    priors = getattr(classifier, "priors", None)
    if classes is None and isinstance(priors, list | tuple | np.ndarray):
        # Which classes these are does not matter to what is asked.
        classes = np.arange(len(priors))
    form = dict(closed_form(classifier, classes))
    if "reason" in form:
        raise ValueError(
            f"{classifier!r} cannot be made of sums: {form['reason']}. Set that "
            "parameter to another value."
        )
    return PooledForm(kind=form.pop("kind"), parameters=form)


def _make_linear(
    classifier: ClassifierMixin, moments: ClassMoments, classes: np.ndarray
) -> str:
    form = _linear_form(classifier, classes)
    solution = form.solve(moments, classes)
    attributes = {
        "classes_": classes,
        **solution.attributes,
        "n_features_in_": moments.n_features,
    }
    if form.kind == "ridge":
        attributes |= _ridge_attributes(classifier, classes, coef=attributes["coef_"])
    elif form.kind == "lda":
        counts = moments.class_counts(len(classes))
        attributes |= _lda_attributes(
            classifier, moments, counts=counts, attributes=attributes
        )
    elif not moments.variances().any():
        raise ValueError(
            "All features have zero variance, so no distance to a centroid can be "
            "measured in deviations. Give features that vary."
        )
    _set_fitted(classifier, attributes)
    rounding = solution.published_rounding or solution.rounding
    return form.judged(moments, solution.W, rounding).reason


def _ridge_attributes(
    classifier: RidgeClassifier, classes: np.ndarray, *, coef: np.ndarray
) -> dict[str, object]:
    if len(classes) == 2:
        # Of two classes coef_ has one row, or is flat in some versions.
        shape = RidgeClassifier().fit([[0.0], [1.0]], [0, 1]).coef_.shape
        coef = coef.reshape(*shape[:-1], -1)
    binarizer = LabelBinarizer(pos_label=1, neg_label=-1).fit(classes)
    solver = "cholesky" if classifier.solver == "auto" else classifier.solver
    return {
        "coef_": coef,
        "_label_binarizer": binarizer,
        "n_iter_": None,
        "solver_": solver,
    }


def _lda_attributes(
    classifier: LinearDiscriminantAnalysis,
    moments: ClassMoments,
    *,
    counts: np.ndarray,
    attributes: Mapping[str, object],
) -> dict[str, object]:
    """Return attributes of its solver and of ``transform``, beside the linear form."""
    if counts.sum() <= len(counts):
        raise ValueError(
            f"There must be more samples than classes; there are {len(counts)} classes "
            f"and {counts.sum():g} samples. Give more rows; or larger weights, if they "
            "have sample_weight."
        )
    n_components = _n_components(classifier, moments, n_classes=len(counts))
    further: dict[str, object] = {
        "_max_components": n_components,
        "_n_features_out": n_components,
    }
    ratios = attributes.get("explained_variance_ratio_")
    if classifier.solver == "eigen":
        eigenvalues, eigenvectors = _eigen_between_classes(
            moments,
            within=attributes["covariance_"],
            shrinkage=classifier.shrinkage or 0.0,
        )
        # Eigenvalues ascend, and the largest is to be first.
        further["scalings_"] = eigenvectors[:, ::-1]
        ratios = eigenvalues[::-1] / eigenvalues.sum()
    elif classifier.solver == "svd" and classifier.store_covariance:
        further["covariance_"] = _stored_covariance(
            classifier, moments, counts=counts, priors=attributes["priors_"]
        )
    if ratios is not None:
        further["explained_variance_ratio_"] = ratios[:n_components]
    return further


def _n_components(
    classifier: LinearDiscriminantAnalysis, moments: ClassMoments, *, n_classes: int
) -> int:
    most = min(n_classes - 1, moments.n_features)
    n_components = classifier.n_components
    if n_components is not None and n_components > most:
        raise ValueError(
            f"n_components cannot be {n_components}, above {most}, the lesser of the "
            "number of classes less one and the number of features. Set it to at most "
            "that."
        )
    return n_components or most


def _eigen_between_classes(
    moments: ClassMoments, *, within: np.ndarray, shrinkage: float
) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues and vectors of ``(total - within) v = value within v``."""
    total = shrunk_covariance(moments.total().covariance, shrinkage)
    return eigh(total - within, within)


def _stored_covariance(
    classifier: LinearDiscriminantAnalysis,
    moments: ClassMoments,
    *,
    counts: np.ndarray,
    priors: np.ndarray,
) -> np.ndarray:
    """Covariance within classes, weighted by priors where these are set."""
    if classifier.priors is None:
        return weighted_sums(moments, counts).scatter / counts.sum()
    return weighted_sums(moments, counts, priors / counts).scatter


# ---- Gaussian naive Bayes and quadratic discriminant analysis ------------------------


def _make_gaussian(
    classifier: GaussianNB, moments: ClassMoments, classes: np.ndarray
) -> str:
    counts = moments.class_counts(len(classes))
    means = moments.origin + moments.means
    largest_variance = moments.variances().max()
    smoothing = classifier.var_smoothing * largest_variance
    variances = moments.scatter / counts[:, None] + smoothing
    constant = np.argwhere(variances == 0)  # pairs of class and feature
    if len(constant):
        label = classes[constant[0, 0]].item()
        feature = constant[0, 1]
        raise ValueError(
            f"GaussianNB cannot be made of these sums: feature {feature} does not vary "
            f"in class {label!r}, and var_smoothing={classifier.var_smoothing:g} times "
            f"the largest variance of a feature, {largest_variance:g}, adds nothing to "
            "its variance. A feature whose deviations are too small to be squared "
            "counts as one that does not vary. Give it in smaller units, or set a "
            "larger var_smoothing."
        )
    classifier.fit(means, classes)  # which checks priors, and sets what rows do not
    if classifier.priors is None:
        classifier.class_prior_ = counts / counts.sum()
    _set_fitted(
        classifier,
        {
            "classes_": classes,
            "theta_": means,
            "var_": variances,
            "epsilon_": smoothing,
            "class_count_": counts,
        },
    )
    return _largest_rounding(counts, means, covariances=variances).reason(1.0)


def _largest_rounding(
    counts: np.ndarray, means: np.ndarray, *, covariances: np.ndarray | list[np.ndarray]
) -> Rounding:
    """Rounding of the class where it moves decision values most.

    ``covariances`` has for each class a matrix, or variances (n_features,).
    """
    roundings = []
    for count, mean, covariance in zip(counts, means, covariances, strict=True):
        variances = covariance if covariance.ndim == 1 else covariance.diagonal()
        if (variances > 0).all():
            precision = SumPrecision(
                n_rows=count, means=np.abs(mean), deviations=np.sqrt(variances)
            )
            roundings.append(quadratic_rounding(covariance, precision=precision))
        else:
            roundings.append(Rounding(error=np.inf, condition=np.inf))
    return max(roundings, key=lambda rounding: rounding.error)


def _make_quadratic(
    classifier: QuadraticDiscriminantAnalysis,
    moments: ClassMoments,
    classes: np.ndarray,
) -> str:
    _check_quadratic_parameters(classifier)
    n_classes = len(classes)
    counts = moments.class_counts(n_classes)
    if (counts <= 1).any():
        raise ValueError(
            f"y has only 1 sample in class {classes[counts <= 1][0]}, covariance is "
            "ill defined. Give more rows of the class, or larger weights if they have "
            "sample_weight; or leave it out."
        )
    n_lost = _n_lost(classifier)
    scatter_by_class = dict(zip(moments.groups.tolist(), moments.scatter, strict=True))
    scalings = []
    rotations = []
    covariances = []
    for c in range(n_classes):
        rows = Root.from_scatter(scatter_by_class[c]).rows() / np.sqrt(
            counts[c] - n_lost
        )
        scaling, rotation = _axes(classifier, rows, n_rows=counts[c])
        if (scaling <= classifier.tol).any():
            raise LinAlgError(
                f"The covariance matrix of class {classes[c]} is not full rank: it has "
                f"{counts[c]:g} rows and {moments.n_features} features. Give it as "
                "many rows as features and a reg_param above 0, or use solver='eigen' "
                "with shrinkage."
            )
        scalings.append(scaling)
        rotations.append(rotation)
        covariances.append(rotation * scaling @ rotation.T)
    priors = _quadratic_priors(classifier, counts, classes=classes)
    means = moments.origin + moments.means
    attributes = {
        "classes_": classes,
        "means_": means,
        "scalings_": scalings,
        "rotations_": rotations,
        "priors_": priors,
        "n_features_in_": moments.n_features,
    }
    if classifier.store_covariance:
        attributes["covariance_"] = covariances
    _set_fitted(classifier, attributes)
    return _largest_rounding(counts, means, covariances=covariances).reason(1.0)


def _check_quadratic_parameters(classifier: QuadraticDiscriminantAnalysis) -> None:
    params = classifier.get_params()  # some are not there in older versions
    if params.get("covariance_estimator") is not None:
        raise ValueError(
            f"{classifier!r} cannot be made of sums: covariance_estimator needs the "
            "rows. Set it to None."
        )
    if isinstance(params.get("shrinkage"), str):
        raise ValueError(
            f"{classifier!r} cannot be made of sums: its shrinkage is chosen from the "
            "rows. Set shrinkage to a number, or to None."
        )


def _quadratic_priors(
    classifier: QuadraticDiscriminantAnalysis,
    counts: np.ndarray,
    *,
    classes: np.ndarray,
) -> np.ndarray:
    if classifier.priors is None:
        return counts / counts.sum()
    priors = np.array(classifier.priors)
    if len(priors) != len(classes):
        raise ValueError(
            f"There are {len(priors)} priors, but the classes are {classes.tolist()}. "
            "Give one prior for each class."
        )
    return priors


def _axes(
    classifier: QuadraticDiscriminantAnalysis, rows: np.ndarray, *, n_rows: float
) -> tuple[np.ndarray, np.ndarray]:
    """Variances of a class along its axes, descending, and the axes as columns.

    ``rows`` have the covariance of the class as their products.
    """
    params = classifier.get_params()
    if params.get("solver") == "eigen":
        shrinkage = params.get("shrinkage") or 0.0
        eigenvalues, eigenvectors = eigh(shrunk_covariance(rows.T @ rows, shrinkage))
        return eigenvalues[..., ::-1], eigenvectors[..., ::-1]
    n_features = rows.shape[1]
    # Rows of zeros, so that there are as many axes as features.
    padded = np.vstack([rows, np.zeros((n_features, n_features))])
    _, sizes, right = svd(padded)
    if n_rows < n_features:
        # scikit-learn has no more directions than rows, and refuses these.
        return np.zeros(n_features), right.T
    regularization = classifier.reg_param
    return (1.0 - regularization) * sizes**2 + regularization, right.T


def _n_lost(classifier: QuadraticDiscriminantAnalysis) -> float:
    """Return how many rows less than a class has scikit-learn divides its scatter by.

    Of two rows, 0 and 2, the scatter is 2 and the variance v = 2 / (2 - lost): 1 where
    none is lost, 2 where one is.
    """
    probe = clone(classifier).set_params(priors=None, reg_param=0.0, tol=0.0)
    if hasattr(probe, "shrinkage"):
        probe.set_params(shrinkage=None)
    variance = probe.fit([[0.0], [2.0], [0.0], [2.0]], [0, 0, 1, 1]).scalings_[0][0]
    return round(2.0 - 2.0 / variance)


# ---- naive Bayes of counts -----------------------------------------------------------


def _make_counting(
    classifier: MultinomialNB | ComplementNB | BernoulliNB,
    sums: ClassSums,
    classes: np.ndarray,
) -> str:
    """Fit by scikit-learn to two rows a class that have the same sums.

    One is the sum, with weight 1; the other is zero, with the weight of the rest.
    """
    X = np.vstack([sums.sums, np.zeros_like(sums.sums)])
    weights = np.append(np.ones(len(classes)), sums.counts - 1.0)
    has_threshold = hasattr(classifier, "binarize")
    if has_threshold:
        # Nodes have applied the threshold: sums above it are not to become 1.
        threshold = classifier.binarize
        classifier.set_params(binarize=None)
    classifier.fit(X, np.tile(classes, 2), sample_weight=weights)
    if has_threshold:
        classifier.set_params(binarize=threshold)
    # Whole numbers add up without rounding.
    if not isinstance(classifier, ComplementNB) or np.all(sums.sums % 1 == 0):
        return ""
    return _complement_reason(classifier, sums)


def _complement_reason(classifier: ComplementNB, sums: ClassSums) -> str:
    """Say why ComplementNB may differ: it takes totals less a class's own counts."""
    alpha = np.broadcast_to(classifier.alpha, sums.sums.shape[1])
    total = sums.sums.sum(axis=0) + alpha
    others = np.maximum(total - sums.sums, np.finfo(float).tiny)
    error = np.max(_EPS * np.sqrt(sums.counts.sum()) * total / others)
    if error <= PROMISE:
        return ""
    return (
        f"rounding of the totals over the other classes is {error:.0e} of these totals."
    )


def _make_categorical(
    classifier: CategoricalNB, sums: ClassSums, classes: np.ndarray
) -> str:
    """Fit by scikit-learn to the highest categories, then set all counts."""
    X = np.tile(sums.sizes - 1, (len(classes), 1))
    classifier.fit(X, classes, sample_weight=sums.counts)
    counts_by_feature = np.split(sums.sums, np.cumsum(sums.sizes)[:-1], axis=1)
    classifier.category_count_ = [
        # min_categories may ask for more than there are.
        np.pad(counts, [(0, 0), (0, n_categories - counts.shape[1])])
        for counts, n_categories in zip(
            counts_by_feature, classifier.n_categories_, strict=True
        )
    ]
    classifier._update_feature_log_prob(classifier._check_alpha())
    return ""


KINDS: Mapping[type, Kind] = {
    RidgeClassifier: Kind(make=_make_linear, settings=("class_weight",)),
    LinearDiscriminantAnalysis: Kind(make=_make_linear, settings=("solver", "priors")),
    NearestCentroid: Kind(make=_make_linear),
    QuadraticDiscriminantAnalysis: Kind(make=_make_quadratic, scatter="class"),
    GaussianNB: Kind(make=_make_gaussian, scatter="diagonal"),
    MultinomialNB: Kind(make=_make_counting, sums_of="values"),
    ComplementNB: Kind(make=_make_counting, sums_of="values"),
    BernoulliNB: Kind(make=_make_counting, sums_of="values", settings=("binarize",)),
    CategoricalNB: Kind(make=_make_categorical, sums_of="categories"),
}
CLASSIFIERS = {kind.__name__: kind for kind in KINDS}
# Rows from which the smaller shrinkage is taken.
_MANY_ROWS = 2000


def shrunk_lda(n_rows: int) -> LinearDiscriminantAnalysis:
    """Make an LDA of many features, shrunk more if rows are about as many."""
    shrinkage = 1e-2 if n_rows < _MANY_ROWS else 1e-3
    return LinearDiscriminantAnalysis(solver="lsqr", shrinkage=shrinkage)
