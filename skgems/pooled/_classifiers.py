"""Which classifiers are functions of sums: what nodes are asked, and what is made."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, eigh, svd
from sklearn.base import clone
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
from ..moments import ClassMoments, ClassSums
from ._forms import PooledForm, Root, weighted_sums
from ._rounding import PROMISE, Rounding, Sums, quadratic_rounding

_EPS = np.finfo(np.float64).eps


@dataclass(frozen=True, kw_only=True)
class Kind:
    """How a classifier is made of sums."""

    make: Callable[..., str]  # fits a clone; says why scikit-learn's may differ, or ""
    scatter: str = ""  # "class" or "diagonal"; "" of the linear ones: as they need
    of: str = ""  # what is summed, in place of moments
    told: tuple = ()  # parameters on which it depends what nodes send

    def request(self, classifier, classes=None) -> Message:
        threshold = getattr(classifier, "binarize", None)
        if threshold is not None:
            return Message.of("class_sums", of="above", threshold=float(threshold))
        if self.of:
            return Message.of("class_sums", of=self.of, threshold=None)
        kind = self.scatter or _form(classifier, classes).scatter
        return Message.of("moments", kind=kind, n_components=1, min_cluster_size=1)


def pooled_fit(classifier, sums, classes: np.ndarray) -> tuple:
    """The classifier as if fitted on all rows, and why it may differ, or nothing."""
    fitted = clone(classifier)
    fitted._validate_params()
    kind = KINDS[type(fitted)]
    if not kind.of and kind.make is not _gaussian and len(classes) < 2:
        got = f"got {len(classes)} class, {classes.tolist()}"
        raise ValueError(f"The number of classes has to be greater than one; {got}.")
    return fitted, kind.make(fitted, sums, classes)


def _set(classifier, classes, **attributes) -> None:
    """Fitted attributes, but those that are properties in some versions."""
    for name, value in {"classes_": classes, **attributes}.items():
        if not isinstance(getattr(type(classifier), name, None), property):
            setattr(classifier, name, value)


def _form(classifier, classes) -> PooledForm:
    priors = getattr(classifier, "priors", None)
    if classes is None and isinstance(priors, list | tuple | np.ndarray):
        classes = np.arange(len(priors))  # whatever they are
    form = dict(closed_form(classifier, classes))
    if "reason" in form:
        raise ValueError(f"{classifier!r} cannot be made of sums: {form['reason']}.")
    return PooledForm(form.pop("kind"), form)


def _linear(classifier, moments: ClassMoments, classes) -> str:
    form = _form(classifier, classes)
    solved = form.solve(moments, classes)
    counts = moments.class_counts(len(classes))
    own = {**solved.attributes, "n_features_in_": moments.n_features}
    if form.kind == "ridge":
        binarizer = LabelBinarizer(pos_label=1, neg_label=-1).fit(classes)
        solver = "cholesky" if classifier.solver == "auto" else classifier.solver
        own |= {"_label_binarizer": binarizer, "n_iter_": None, "solver_": solver}
        if len(classes) == 2:  # of one row in some versions
            shape = RidgeClassifier().fit([[0.0], [1.0]], [0, 1]).coef_.shape
            own["coef_"] = own["coef_"].reshape(*shape[:-1], -1)
    elif form.kind == "lda":
        own |= _lda_attributes(classifier, moments, counts, own)
    elif not moments.variances().any():
        raise ValueError("All features have zero variance. Division by zero.")
    _set(classifier, classes, **own)
    return form.judged(moments, solved.W, solved.plain or solved.rounding).reason


def _lda_attributes(classifier, moments, counts, own) -> dict:
    most = min(len(counts) - 1, moments.n_features)
    n_components = classifier.n_components
    if counts.sum() <= len(counts):
        raise ValueError("There must be more samples than classes.")
    if n_components is not None and n_components > most:
        raise ValueError(f"n_components cannot be {n_components}, above {most}.")
    n_components = n_components or most
    found = {"_max_components": n_components, "_n_features_out": n_components}
    ratio = own.get("explained_variance_ratio_")
    if classifier.solver == "eigen":
        within, shrinkage = own["covariance_"], classifier.shrinkage or 0.0
        total = shrunk_covariance(moments.total().covariance, shrinkage)
        values, vectors = eigh(total - within, within)
        found["scalings_"], ratio = vectors[:, ::-1], values[::-1] / values.sum()
    elif classifier.solver == "svd" and classifier.store_covariance:
        weights = None if classifier.priors is None else own["priors_"] / counts
        covariance = weighted_sums(moments, counts, weights)[1]
        found["covariance_"] = covariance / (counts.sum() if weights is None else 1.0)
    if ratio is not None:
        found["explained_variance_ratio_"] = ratio[:n_components]
    return found


def _gaussian(classifier, moments: ClassMoments, classes) -> str:
    counts = moments.class_counts(len(classes))
    means = moments.origin + moments.means
    noise = classifier.var_smoothing * moments.variances().max()
    variances = moments.scatter / counts[:, None] + noise
    without = np.argwhere(variances == 0)
    if len(without):
        label, feature = classes[without[0, 0]].item(), without[0, 1]
        raise ValueError(
            f"GaussianNB cannot be made of these sums: feature {feature} does not vary "
            f"in class {label!r}, and var_smoothing={classifier.var_smoothing:g} times "
            f"the largest variance of a feature, {moments.variances().max():g}, adds "
            "nothing to its variance. A feature that deviates too little to be squared "
            "counts as one that does not vary: give it in smaller units, or set a "
            "larger var_smoothing."
        )
    classifier.fit(means, classes)  # which checks priors
    if classifier.priors is None:
        classifier.class_prior_ = counts / counts.sum()
    own = {"theta_": means, "var_": variances, "epsilon_": noise}
    _set(classifier, classes, **own, class_count_=counts)
    return _worst(counts, means, variances)


def _worst(counts, means, covariances) -> str:
    """Reason that rounding gives, of the class where it moves values most."""
    found = []
    for count, mean, own in zip(counts, means, covariances, strict=True):
        squares = own if own.ndim == 1 else own.diagonal()
        found.append(Rounding(np.inf, np.inf))
        if (squares > 0).all():
            sums = Sums(count, np.abs(mean), np.sqrt(squares))
            found[-1] = quadratic_rounding(own, sums)
    return max(found, key=lambda own: own.error).reason(1.0)


def _quadratic(classifier, moments: ClassMoments, classes) -> str:
    given = classifier.get_params()
    shrinkage = given.get("shrinkage")
    if given.get("covariance_estimator") is not None or isinstance(shrinkage, str):
        raise ValueError(f"{classifier!r} cannot be made of sums: its covariances.")
    n_classes, d = len(classes), moments.n_features
    counts = moments.class_counts(n_classes)
    if (counts <= 1).any():
        one = f"only 1 sample in class {classes[counts <= 1][0]}"
        raise ValueError(f"y has {one}, covariance is ill defined.")
    lost, scalings, rotations, covariances = _lost(classifier), [], [], []
    by_class = dict(zip(moments.groups.tolist(), moments.scatter, strict=True))
    for c in range(n_classes):
        rows = Root.of(by_class[c]).rows() / np.sqrt(counts[c] - lost)
        if given.get("solver") == "eigen":
            shrunk = shrunk_covariance(rows.T @ rows, shrinkage or 0.0)
            scaling, rotation = (own[..., ::-1] for own in eigh(shrunk))
        else:
            sizes, right = svd(np.vstack([rows, np.zeros((d, d))]))[1:]
            reg = classifier.reg_param
            scaling, rotation = (1.0 - reg) * sizes**2 + reg, right.T
            if counts[c] < d:  # scikit-learn has no more directions than rows
                scaling = np.zeros(d)
        if (scaling <= classifier.tol).any():
            raise LinAlgError(
                f"The covariance matrix of class {classes[c]} is not full rank: it has "
                f"{counts[c]:g} rows and {d} features. Give it more rows, or a larger "
                "reg_param, or shrinkage."
            )
        scalings.append(scaling)
        rotations.append(rotation)
        covariances.append(rotation * scaling @ rotation.T)
    priors, means = classifier.priors, moments.origin + moments.means
    priors = counts / counts.sum() if priors is None else np.array(priors)
    if len(priors) != n_classes:
        raise ValueError(f"priors are {len(priors)}, but classes {classes.tolist()}.")
    own = {"means_": means, "scalings_": scalings, "rotations_": rotations}
    if classifier.store_covariance:
        own["covariance_"] = covariances
    _set(classifier, classes, **own, priors_=priors, n_features_in_=d)
    return _worst(counts, means, covariances)


def _lost(classifier) -> float:
    """Rows that this scikit-learn divides scatters by fewer than a class has."""
    probe = clone(classifier).set_params(priors=None, reg_param=0.0, tol=0.0)
    if hasattr(probe, "shrinkage"):
        probe.set_params(shrinkage=None)
    scaling = probe.fit([[0.0], [2.0], [0.0], [2.0]], [0, 0, 1, 1]).scalings_[0][0]
    return round(2.0 - 2.0 / scaling)


def _counting(classifier, sums: ClassSums, classes) -> str:
    """By scikit-learn's own fit, on two rows a class that have the same sums."""
    X = np.vstack([sums.sums, np.zeros_like(sums.sums)])
    weights = np.append(np.ones(len(classes)), sums.counts - 1.0)
    given = {k: v for k, v in classifier.get_params().items() if k == "binarize"}
    classifier.set_params(**dict.fromkeys(given))  # it is done
    classifier.fit(X, np.tile(classes, 2), sample_weight=weights)
    classifier.set_params(**given)
    if not isinstance(classifier, ComplementNB) or np.all(sums.sums % 1 == 0):
        return ""
    alpha = np.broadcast_to(classifier.alpha, sums.sums.shape[1])
    total = sums.sums.sum(axis=0) + alpha
    others = np.maximum(total - sums.sums, np.finfo(float).tiny)
    error = np.max(_EPS * np.sqrt(sums.counts.sum()) * total / others)
    text = f"rounding of what other classes have is {error:.0e} of it."
    return "" if error <= PROMISE else text


def _categorical(classifier, sums: ClassSums, classes) -> str:
    """As :func:`_counting`; of the highest categories, and then of all counts."""
    X = np.tile(sums.sizes - 1, (len(classes), 1))
    classifier.fit(X, classes, sample_weight=sums.counts)
    by_feature = np.split(sums.sums, np.cumsum(sums.sizes)[:-1], axis=1)
    pairs = zip(by_feature, classifier.n_categories_, strict=True)
    counts = [np.pad(own, [(0, 0), (0, n - own.shape[1])]) for own, n in pairs]
    classifier.category_count_ = counts
    classifier._update_feature_log_prob(classifier._check_alpha())
    return ""


KINDS: Mapping[type, Kind] = {
    RidgeClassifier: Kind(make=_linear, told=("class_weight",)),
    LinearDiscriminantAnalysis: Kind(make=_linear, told=("solver", "priors")),
    NearestCentroid: Kind(make=_linear),
    QuadraticDiscriminantAnalysis: Kind(make=_quadratic, scatter="class"),
    GaussianNB: Kind(make=_gaussian, scatter="diagonal"),
    MultinomialNB: Kind(make=_counting, of="values"),
    ComplementNB: Kind(make=_counting, of="values"),
    BernoulliNB: Kind(make=_counting, of="values", told=("binarize",)),
    CategoricalNB: Kind(make=_categorical, of="categories"),
}
CLASSIFIERS = {kind.__name__: kind for kind in KINDS}


def shrunk_lda(n_rows: int) -> LinearDiscriminantAnalysis:
    """One over many features: a small penalty overfits where rows are about as many."""
    shrinkage = 1e-2 if n_rows < 2000 else 1e-3
    return LinearDiscriminantAnalysis(solver="lsqr", shrinkage=shrinkage)
