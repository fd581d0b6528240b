"""What a classifier says of its training: its loss, its penalty, its intercept.

A penalty is a dict for JSON. With a strength "C" the classifier has minimized

    C * sum(losses) + |w|^2 / 2,

with a strength "alpha"

    mean(losses) + alpha * |w|^2 / 2.

No penalty is sent as an alpha of 0, since JSON has no infinite C. Where the strength is
not known neither "C" nor "alpha" is sent.
"""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import ArrayLike
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import (
    LogisticRegression,
    LogisticRegressionCV,
    RidgeClassifier,
    RidgeClassifierCV,
    SGDClassifier,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC, LinearSVC

from ..moments import LARGEST, SMALLEST
from ..networks import Network, final_step, is_skorch

# Attribute of the constant model of a node with one class: the unfitted classifier in
# whose place it is, which still says how it would have been trained. `fit_local` does
# not set it for a skorch net, so that such a node has no penalty.
IN_PLACE_OF = "in_place_of_"

# Losses of SGDClassifier, as messages have them. Squares are halves of squares, as its
# are, of targets -1 and 1.
_SGD_LOSSES = {
    "log_loss": "log_loss",
    "hinge": "hinge",
    "squared_hinge": "squared_hinge",
    "modified_huber": "squared_hinge",  # but for rows that are far wrong
    "squared_error": "squares",
}
# Criteria of skorch nets that are a log-loss.
_LOG_LOSSES = ("CrossEntropyLoss", "NLLLoss", "BCELoss", "BCEWithLogitsLoss")


def speaking_classifier(estimator: object) -> object:
    """The classifier whose parameters say how a node's model is trained.

    It is the one inside all wrappers, or the unfitted one that a constant model of a
    node with one class stands for.
    """
    classifier = final_step(estimator)
    unfitted = getattr(classifier, IN_PLACE_OF, None)
    return classifier if unfitted is None else final_step(unfitted)


def penalty_of(estimator: object) -> dict | None:
    """Loss, penalty and intercept that a classifier was fitted with, for a message.

    None where there is no classifier, or a constant one, which has no penalty.
    """
    classifier = speaking_classifier(estimator)
    if isinstance(classifier, Network | DummyClassifier):
        return None
    if isinstance(classifier, OneVsRestClassifier):
        return _penalty_of_parts(classifier)
    penalty = _loss_and_strength(classifier)
    fit_intercept = getattr(classifier, "fit_intercept", None)
    if isinstance(fit_intercept, bool | np.bool_):
        penalty["fit_intercept"] = bool(fit_intercept)
    return penalty


def _loss_and_strength(classifier: object) -> dict:
    """Loss and penalty of one classifier, by its kind."""
    if is_skorch(classifier):
        return _penalty_of_net(classifier)
    for kind, read_penalty in _READERS.items():
        if isinstance(classifier, kind):
            return read_penalty(classifier)
    return {"loss": "other"}


def _penalty_of_parts(classifier: OneVsRestClassifier) -> dict | None:
    """The penalty that the classifiers of single classes have in common.

    Strengths differ where each part has searched for its own; they are averaged in
    logarithms then.
    """
    parts = getattr(classifier, "estimators_", [])
    # For a class that all rows have, or none, there is a constant and no classifier.
    penalties = [penalty_of(part) for part in parts if hasattr(part, "classes_")]
    penalties = [penalty for penalty in penalties if penalty is not None]
    if not penalties:
        return penalty_of(classifier.estimator)
    penalty = dict(penalties[0])
    for name in ("C", "alpha"):
        strengths = [part[name] for part in penalties if name in part]
        if len(strengths) == len(penalties):
            penalty[name] = _clipped_strength(_geometric_mean(strengths))
        else:
            penalty.pop(name, None)
    return penalty


def _clipped_strength(strength: float) -> float:
    """Return a strength that messages may have: zero, or between two bounds."""
    return 0.0 if strength == 0 else float(np.clip(strength, SMALLEST, LARGEST))


def _geometric_mean(strengths: ArrayLike) -> float:
    strengths = np.asarray(strengths, dtype=float)
    # Equal to the last digit, which logarithms would round.
    if strengths.min() == strengths.max():
        return float(strengths.flat[0])
    with np.errstate(divide="ignore"):
        return float(np.exp(np.mean(np.log(strengths))))


def _inverse(strength: float) -> float:
    return np.inf if strength == 0 else 1.0 / strength


def _by_C(loss: str, C: float) -> dict:
    """A penalty with the strength C, which may be infinite."""
    if C == np.inf:
        return {"loss": loss, "alpha": 0.0}
    return {"loss": loss, "C": _clipped_strength(C)}


def _penalty_of_logistic(classifier: LogisticRegression) -> dict:
    if getattr(classifier, "penalty", "l2") is None:  # newer versions have C=inf
        return _by_C("log_loss", np.inf)
    return _by_C("log_loss", classifier.C)


def _penalty_of_searched_logistic(classifier: LogisticRegressionCV) -> dict:
    if not hasattr(classifier, "C_"):
        return {"loss": "log_loss"}
    return _by_C("log_loss", _geometric_mean(classifier.C_))


def _penalty_of_ridge(classifier: RidgeClassifier) -> dict:
    strengths = [_inverse(alpha) for alpha in np.ravel(classifier.alpha)]
    return _by_C("squares", _geometric_mean(strengths))


def _penalty_of_searched_ridge(classifier: RidgeClassifierCV) -> dict:
    if not hasattr(classifier, "alpha_"):
        return {"loss": "squares"}
    strengths = [_inverse(alpha) for alpha in np.ravel(classifier.alpha_)]
    return _by_C("squares", _geometric_mean(strengths))


def _penalty_of_svc(classifier: LinearSVC) -> dict:
    return _by_C(classifier.loss, classifier.C)


def _penalty_of_kernel_svc(classifier: SVC) -> dict:
    return _by_C("hinge", classifier.C)


def _penalty_of_sgd(classifier: SGDClassifier) -> dict:
    if classifier.loss not in _SGD_LOSSES:
        return {"loss": "other"}
    loss = _SGD_LOSSES[classifier.loss]
    # Without a penalty it is held back by ending early.
    if classifier.penalty is None:
        return {"loss": loss}
    return {"loss": loss, "alpha": _clipped_strength(classifier.alpha)}


def _penalty_of_mlp(classifier: MLPClassifier) -> dict:
    """Return the penalty of a network without hidden layers; of others "other"."""
    if len(getattr(classifier, "coefs_", ())) != 1:
        return {"loss": "other"}
    # Other solvers end long before the penalty holds them back.
    if classifier.solver != "lbfgs":
        return {"loss": "log_loss"}
    return _by_C("log_loss", _inverse(classifier.alpha))


def _penalty_of_net(net: object) -> dict:
    """Return the penalty of a skorch net of one Linear layer, by its weight decay."""
    criterion = getattr(net, "criterion_", None)
    # torch.compile wraps a module, and keeps it as this attribute.
    criterion = getattr(criterion, "_orig_mod", criterion)
    optimizer = getattr(net, "optimizer_", None)
    if type(criterion).__name__ not in _LOG_LOSSES or optimizer is None:
        return {"loss": "other"}
    groups = _groups_of_weights(optimizer)
    if len(groups) != 1:  # more weights than those of one layer, or none
        return {"loss": "other"}
    decay = _penalizing_decay(optimizer, groups[0])
    # Without decay a net is held back by ending early.
    if decay == 0 or criterion.reduction != "mean":
        return {"loss": "log_loss"}
    return {"loss": "log_loss", "alpha": _clipped_strength(decay)}


def _groups_of_weights(optimizer: object) -> list[Mapping]:
    """The group of settings of each parameter that is a matrix, and so no bias."""
    return [
        group
        for group in optimizer.param_groups
        for parameter in group["params"]
        if parameter.ndim > 1
    ]


def _penalizing_decay(optimizer: object, group: Mapping) -> float:
    """The weight decay that is a penalty of the loss, or 0.

    AdamW shrinks weights by itself, beside the gradient of the loss.
    """
    is_decoupled = group.get("decoupled_weight_decay", False)
    if is_decoupled or type(optimizer).__name__ == "AdamW":
        return 0.0
    return float(group.get("weight_decay", 0.0))


# The first that fits counts, so a kind stands before those that it is derived from.
_READERS: Mapping[type, Callable[..., dict]] = {
    LogisticRegressionCV: _penalty_of_searched_logistic,
    LogisticRegression: _penalty_of_logistic,
    RidgeClassifierCV: _penalty_of_searched_ridge,
    RidgeClassifier: _penalty_of_ridge,
    LinearSVC: _penalty_of_svc,
    SVC: _penalty_of_kernel_svc,
    SGDClassifier: _penalty_of_sgd,
    MLPClassifier: _penalty_of_mlp,
}
