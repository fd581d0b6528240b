"""What a classifier says of its training: its loss, its penalty, its intercept.

With a strength "C" it has minimised ``C * sum(losses) + |w|^2 / 2``, with "alpha"
``mean(losses) + alpha * |w|^2 / 2``. An alpha of 0 is no penalty: JSON has no infinite
C. Neither is said where the strength is not known.
"""

from collections.abc import Callable

import numpy as np
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
# whose place it is, which still says how it would have been trained.
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


def speaking_classifier(estimator):
    """The classifier whose parameters say how a node's model is trained.

    It is the one inside all wrappers, or the unfitted one that a constant model of a
    node with one class stands for.
    """
    classifier = final_step(estimator)
    unfitted = getattr(classifier, IN_PLACE_OF, None)
    return classifier if unfitted is None else final_step(unfitted)


def penalty_of(estimator) -> dict | None:
    """Loss, penalty and intercept that a classifier was fitted with, for a message.

    None where there is no classifier, or a constant one, which has no penalty.
    """
    classifier = speaking_classifier(estimator)
    if isinstance(classifier, Network | DummyClassifier):
        return None
    if isinstance(classifier, OneVsRestClassifier):
        return _penalty_of_parts(classifier)
    penalty = {"loss": "other"}
    if is_skorch(classifier):
        penalty = _penalty_of_net(classifier)
    for kind, read in _READERS.items():
        if isinstance(classifier, kind):
            penalty = read(classifier)
            break
    fit_intercept = getattr(classifier, "fit_intercept", None)
    if isinstance(fit_intercept, bool | np.bool_):
        penalty["fit_intercept"] = bool(fit_intercept)
    return penalty


def _penalty_of_parts(classifier: OneVsRestClassifier) -> dict | None:
    """That of the classifiers of single classes; strengths are averaged in logarithms.

    They differ where each part has searched for its own.
    """
    parts = getattr(classifier, "estimators_", [])
    # Of a class that all rows have, or none, there is no classifier.
    penalties = [penalty_of(part) for part in parts if hasattr(part, "classes_")]
    penalties = [penalty for penalty in penalties if penalty is not None]
    if not penalties:
        return penalty_of(classifier.estimator)
    penalty = dict(penalties[0])
    for name in ("C", "alpha"):
        strengths = [other[name] for other in penalties if name in other]
        if len(strengths) == len(penalties):
            penalty[name] = _within_bounds(_geometric_mean(strengths))
        else:
            penalty.pop(name, None)
    return penalty


def _within_bounds(strength: float) -> float:
    """A strength as messages may have it: zero, or a number of some size."""
    return 0.0 if strength == 0 else float(np.clip(strength, SMALLEST, LARGEST))


def _geometric_mean(strengths) -> float:
    strengths = np.asarray(strengths, dtype=float)
    if strengths.min() == strengths.max():  # to the last digit
        return float(strengths.flat[0])
    with np.errstate(divide="ignore"):
        return float(np.exp(np.mean(np.log(strengths))))


def _inverse(strength) -> float:
    return np.inf if strength == 0 else 1.0 / strength


def _by_C(loss: str, C: float) -> dict:
    if C == np.inf:
        return {"loss": loss, "alpha": 0.0}
    return {"loss": loss, "C": _within_bounds(C)}


def _penalty_of_logistic(classifier: LogisticRegression) -> dict:
    if getattr(classifier, "penalty", "l2") is None:  # newer versions have C=inf
        return _by_C("log_loss", np.inf)
    return _by_C("log_loss", classifier.C)


def _penalty_of_searched_logistic(classifier: LogisticRegressionCV) -> dict:
    if not hasattr(classifier, "C_"):
        return {"loss": "log_loss"}
    return _by_C("log_loss", _geometric_mean(classifier.C_))


def _penalty_of_ridge(classifier: RidgeClassifier) -> dict:
    each = [_inverse(alpha) for alpha in np.ravel(classifier.alpha)]
    return _by_C("squares", _geometric_mean(each))


def _penalty_of_searched_ridge(classifier: RidgeClassifierCV) -> dict:
    if not hasattr(classifier, "alpha_"):
        return {"loss": "squares"}
    each = [_inverse(alpha) for alpha in np.ravel(classifier.alpha_)]
    return _by_C("squares", _geometric_mean(each))


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
    return {"loss": loss, "alpha": _within_bounds(classifier.alpha)}


def _penalty_of_mlp(classifier: MLPClassifier) -> dict:
    """That of a network without hidden layers; of others it is not of one layer."""
    if len(getattr(classifier, "coefs_", ())) != 1:
        return {"loss": "other"}
    # Other solvers end long before the penalty holds them back.
    if classifier.solver != "lbfgs":
        return {"loss": "log_loss"}
    return _by_C("log_loss", _inverse(classifier.alpha))


def _penalty_of_net(net) -> dict:
    """That of a skorch net of one Linear layer, by the optimizer's weight decay."""
    criterion = getattr(net, "criterion_", None)
    criterion = getattr(criterion, "_orig_mod", criterion)  # of torch.compile
    optimizer = getattr(net, "optimizer_", None)
    if type(criterion).__name__ not in _LOG_LOSSES or optimizer is None:
        return {"loss": "other"}
    groups = [
        group
        for group in optimizer.param_groups
        for parameter in group["params"]
        if parameter.ndim > 1
    ]
    if len(groups) != 1:
        return {"loss": "other"}
    decay = float(groups[0].get("weight_decay", 0.0))
    # AdamW shrinks weights by itself, which is no penalty of the loss.
    is_apart = groups[0].get("decoupled_weight_decay", False)
    is_apart = is_apart or type(optimizer).__name__ == "AdamW"
    # Without decay a net is held back by ending early.
    if decay == 0 or is_apart or criterion.reduction != "mean":
        return {"loss": "log_loss"}
    return {"loss": "log_loss", "alpha": _within_bounds(decay)}


# The first that fits counts, so a kind stands before those that it is derived from.
_READERS: dict[type, Callable[..., dict]] = {
    LogisticRegressionCV: _penalty_of_searched_logistic,
    LogisticRegression: _penalty_of_logistic,
    RidgeClassifierCV: _penalty_of_searched_ridge,
    RidgeClassifier: _penalty_of_ridge,
    LinearSVC: _penalty_of_svc,
    SVC: _penalty_of_kernel_svc,
    SGDClassifier: _penalty_of_sgd,
    MLPClassifier: _penalty_of_mlp,
}
