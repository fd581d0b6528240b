"""What a node says of the classifier that it has fitted: fields, words and rules."""

from collections.abc import Mapping

from ..messages import ABSENT, Flag, Number, Place, Table, Text, Weights
from ..moments import LARGEST, SMALLEST

# Parameters of the classifiers that are functions of sums.
PARAMETERS_OF_FORMS = {
    "ridge": ("alpha", "fit_intercept", "class_weight"),
    "lda": ("solver", "shrinkage", "priors", "tol"),
    "nearest_centroid": ("shrink_threshold", "priors"),
}


def _form_in_words(form: Mapping, reply: Mapping) -> str:
    return f"Its kind is {form['kind']!r}." if "kind" in form else ""


def _penalty_in_words(penalty: Mapping, reply: Mapping) -> str:
    words = [f"loss {penalty['loss']!r}"]
    words += [f"{name}={penalty[name]:g}" for name in ("C", "alpha") if name in penalty]
    if "fit_intercept" in penalty:
        words.append(f"fit_intercept={penalty['fit_intercept']}")
    return f"Here: {', '.join(words)}."


def form_is_known(form: Mapping, place: Place) -> None:
    """A form has all parameters of its kind and no others, or a reason why not."""
    if "reason" in form:
        place.deny(len(form) > 1, max(form), "is not allowed beside the reason")
        return
    kind = form.get("kind")
    place.deny(kind is None, "kind", "is missing")
    parameters = {"kind", *PARAMETERS_OF_FORMS[kind]}
    if kind == "lda":
        parameters -= {"shrinkage"} if form.get("solver") == "svd" else {"tol"}
    for name in sorted(set(form) ^ parameters):
        raise place.at(name).wrong(f"is missing, or no parameter of {kind!r}")
    if kind == "lda" and isinstance(form["priors"], str):
        raise place.at("priors").wrong("is not a list of labels and weights")


def penalty_is_one(penalty: Mapping, place: Place) -> None:
    """A penalty has one strength at most; of a loss that is not named it has none."""
    strengths = {"C", "alpha"} & set(penalty)
    if len(strengths) > 1:
        raise place.at("alpha").wrong("is there, though C is")
    if strengths and penalty["loss"] == "other":
        raise place.at(min(strengths)).wrong("is not allowed where the loss is 'other'")


_PARAMETER = Number(high=LARGEST, default=ABSENT)


FORM = Table(
    {
        "reason": Text(default=ABSENT),
        "kind": Text(tuple(PARAMETERS_OF_FORMS), default=ABSENT),
        "alpha": _PARAMETER,
        "fit_intercept": Flag(default=ABSENT),
        "class_weight": Weights(("balanced",), default=None),
        "solver": Text(("svd", "lsqr"), default=ABSENT),
        "shrinkage": Number(high=1.0, default=None),
        "priors": Weights(("uniform", "empirical"), default=None),
        "tol": _PARAMETER,
        "shrink_threshold": Number(high=LARGEST, default=None),
    },
    form_is_known,
    says="Kind and parameters of the classifier. They reveal nothing about rows.",
    detail=_form_in_words,
)


PENALTY = Table(
    {
        "loss": Text(("log_loss", "hinge", "squared_hinge", "squares", "other")),
        "C": Number(low=SMALLEST, high=LARGEST, default=ABSENT),
        "alpha": Number(high=LARGEST, default=ABSENT),
        "fit_intercept": Flag(default=ABSENT),
    },
    penalty_is_one,
    default=ABSENT,
    when=lambda request: request.penalty,
    says="Loss and penalty that the classifier was fitted with. They reveal nothing "
    "about rows.",
    detail=_penalty_in_words,
)
