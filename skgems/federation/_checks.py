# SPDX-License-Identifier: BSD-3-Clause
"""What a node told, checked field by field before anything is made of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from ..moments import LARGEST, LARGEST_SQUARE, SMALLEST
from ..networks import ACTIVATIONS
from ._fields import MOST_ROWS, ROUNDING, Fields, can_be_told, check_definite
from ._message import Message
from ._moments_checks import check_late_moments, check_moments
from ._space_checks import check_late_space, check_space

__all__ = ["check_answers", "check_part", "check_reply", "check_summary"]

_MOST_NAME = 1000


def check_summary(content: Mapping) -> None:
    """Raise ValueError, which names the field, unless this is what a node may tell.

    Parameters
    ----------
    content : mapping
        Of the reply to :func:`~skgems.local.summarize`.
    """
    whole = Fields(content, "summary")
    whole.only("name", "method", "settings", "describe", "counts", "answers")
    if not 0 < len(whole.text("name")) <= _MOST_NAME:
        raise whole.wrong("name", f"is empty, or longer than {_MOST_NAME}")
    whole.text("method")
    whole.table("settings")
    check_part("describe", content.get("describe"))
    check_part("counts", content.get("counts"), content["describe"])
    for answer in check_answers(content):
        check_part(answer["task"], answer["told"], content["describe"], answer["asked"])


def check_answers(content: Mapping) -> list[Mapping]:
    """Raise ValueError unless it can be seen what was asked, and what was told.

    What was told itself is checked by :func:`check_part`.

    Parameters
    ----------
    content : mapping
        As of :func:`check_summary`.

    Returns
    -------
    answers : list of mapping
    """
    answers = Fields(content, "summary").table("answers")
    for number in answers.content:
        answer = answers.table(number)
        answer.only("task", "asked", "told")
        answer.text("task", among=_CHECKS)
        answer.table("asked")
        answer.table("told")
    return list(answers.content.values())


def check_part(
    task: str,
    told,
    described: Mapping | None = None,
    asked: Mapping | None = None,
) -> None:
    """Raise ValueError, which names the field, unless this is a reply to a task.

    Parameters
    ----------
    task : {"describe", "counts", "moments", "size", "space"}
    told : mapping
    described : mapping, default=None
        What the node replied to "describe", and was checked; not for "describe".
    asked : mapping, default=None
        What it was asked, which says what must be told.
    """
    if task == "describe":
        _check_describe(Fields(told, task))
    elif task == "counts":
        _check_counts(Fields(told, task), described)
    else:
        _CHECKS[task](Fields(told, task), described, asked or {})


def check_reply(request: Message, reply: Message) -> None:
    """Raise ValueError, which names the field, unless a reply fits its request.

    Parameters
    ----------
    request : Message
        Of a task that a plan asks for after the first message.
    reply : Message
        Of a node.
    """
    if reply.task != request.task or request.task not in _REPLIES:
        raise ValueError(f"task is {reply.task!r:.40}, not {request.task!r}.")
    _REPLIES[request.task](Fields(reply.content, reply.task), request.content)


def _check_evaluated(told: Fields, asked: Mapping) -> None:
    models = asked["W"].shape[:-2]
    shapes = {
        "squares": models,
        "right": models,
        "losses": (*models, len(asked["factors"])),
        "squared_gains": models,
    }
    optional = ("squared_gains", "held_out", "gradient")
    told.only("count", *shapes, *optional)
    count = told.number("count", low=0.0, high=MOST_ROWS)
    for name, shape in shapes.items():
        if name in told.content or name not in optional:
            if shape:
                told.array(name, shape, low=0.0, high=LARGEST_SQUARE)
            else:
                told.number(name, low=0.0)
    if asked.get("of") == "learning":
        told.get("squared_gains")
    if np.max(told.get("right"), initial=0.0) > count * (1.0 + ROUNDING):
        raise told.wrong("right", f"are more than the {count:g} rows")
    if asked.get("gradient"):
        told.array("gradient", asked["W"].shape, high=LARGEST_SQUARE)
    elif "gradient" in told.content:
        raise told.wrong("gradient", "was not asked for")
    if "held_out" in told.content:
        _check_evaluated(told.table("held_out"), {**asked, "gradient": False})


def _check_scored(told: Fields, asked: Mapping) -> None:
    told.only("score", "n_rows")
    score = told.get("score")
    if told.count("n_rows"):
        told.number("score", low=0.0)
    elif not (isinstance(score, np.ndarray) and score.ndim == 0 and score != score):
        raise told.wrong("score", "is there without rows")


def _check_trained(told: Fields, asked: Mapping) -> None:
    told.only("parameters", "loss")
    told.number("loss", low=0.0)
    _check_alike(told, "parameters", asked["parameters"])


def _check_retrained(told: Fields, asked: Mapping) -> None:
    told.only("coefs", "intercepts", "loss")
    if "loss" in told.content:
        told.number("loss", low=0.0)
    for name in ("coefs", "intercepts"):
        _check_alike(told, name, asked[name])


def _check_alike(told: Fields, name: str, expected: list) -> None:
    values = told.get(name)
    if not isinstance(values, list) or len(values) != len(expected):
        raise told.wrong(name, f"are not {len(expected)} arrays")
    for i, (value, own) in enumerate(zip(values, expected, strict=True)):
        kinds = "f" if own.dtype.kind == "f" else "iub"
        told.checked(f"{name}[{i}]", value, own.shape, kinds, least_bytes=2)


def _check_neurons(told: Fields, asked: Mapping) -> None:
    told.only("centers", "precision", "radii", "sizes")
    n_params, n_neurons = asked["weights"].shape
    told.array("centers", (n_params, n_neurons), least_bytes=4)
    told.array("radii", (n_neurons,), low=0.0, least_bytes=4)
    told.array("sizes", (n_neurons,), low=0.0, least_bytes=4)
    precision, limits = told.get("precision"), {"high": LARGEST_SQUARE}
    if isinstance(precision, np.ndarray) and precision.ndim == 1:
        told.array("precision", (n_params,), low=0.0, least_bytes=4, **limits)
        return
    matrix = told.array("precision", (n_params, n_params), least_bytes=4, **limits)
    if not np.allclose(matrix, matrix.T, rtol=1e-9, atol=0.0):
        raise told.wrong("precision", "is not symmetric")
    check_definite(told, "precision", matrix)


def _check_late_size(told: Fields, asked: Mapping) -> None:
    _check_size(told, {}, asked)


def _check_describe(told: Fields) -> None:
    told.only("network", "rows")
    _check_network(told.table("network"))
    _check_rows(told.table("rows"))


def _check_network(own: Fields) -> None:
    own.only(
        *("coefs", "intercepts", "activation", "output", "labels", "seen"),
        *("n_features", "feature_names", "center", "scale"),
    )
    coefs, intercepts = own.arrays("coefs", 2), own.arrays("intercepts", 1)
    activation = own.get("activation")
    if not isinstance(activation, list) or not all(
        isinstance(name, str) and name in ACTIVATIONS for name in activation
    ):
        raise own.wrong("activation", f"has names that are none of {ACTIVATIONS}")
    if not len(coefs) == len(intercepts) == len(activation) + 1:
        raise own.wrong("coefs", "are not one for each layer")
    for i, (W, b) in enumerate(zip(coefs, intercepts, strict=True)):
        if not W.size:
            raise own.wrong(f"coefs[{i}]", f"has the shape {W.shape}")
        if W.shape[1] != len(b) or (i and len(W) != coefs[i - 1].shape[1]):
            raise own.wrong(f"coefs[{i}]", "does not fit the layers beside it")
        if W.dtype not in (np.float32, np.float64) or b.dtype != W.dtype:
            raise own.wrong(f"coefs[{i}]", f"has the dtype {W.dtype}")
    own.text("output", among=("softmax", "logistic", "identity"))
    labels = own.get("labels")
    if isinstance(labels, list) and own.content.get("seen") is not None:
        # Outputs of a net may be in any order, each label once.
        try:
            labels = sorted(labels)
        except TypeError as exc:
            raise own.wrong("labels", "cannot be put in order") from exc
    Fields({"labels": labels}, own.where).labels("labels")
    if len(labels) != coefs[-1].shape[1]:
        raise own.wrong("labels", f"are {len(labels)}, not one for each output")
    if not own.array("seen", (len(labels),), "b").any():
        raise own.wrong("seen", "is true of no class")
    n_features = own.get("n_features")
    if type(n_features) is not int or n_features != len(coefs[0]):
        raise own.wrong("n_features", "is not that of the first layer")
    names = own.get("feature_names")
    if names is not None and not (
        isinstance(names, list)
        and len(names) == n_features
        and all(isinstance(name, str) and can_be_told(name) for name in names)
    ):
        raise own.wrong("feature_names", "is not one text for each feature")
    if "center" in own.content or "scale" in own.content:
        # NaN where nothing is known of a feature.
        own.array("center", (n_features,), missing=True)
        scale = own.array("scale", (n_features,), missing=True)
        known = scale[~np.isnan(scale)]
        if np.isinf(own.get("center")).any():
            raise own.wrong("center", "has values that are not finite")
        if not ((known >= SMALLEST) & np.isfinite(known)).all():
            raise own.wrong(
                "scale", f"has values that are below {SMALLEST:g} or not finite"
            )


def _check_rows(rows: Fields) -> None:
    rows.only("labels", "judging", "moments", "training")
    labels = rows.labels("labels")
    for role in ("judging", "moments", "training"):
        counts = rows.array(role, (len(labels),), "i", low=0)
        if counts.sum(dtype=np.float64) > MOST_ROWS:
            raise rows.wrong(role, f"are more than {MOST_ROWS} rows")
        if not counts.any():
            raise rows.wrong(role, "are no rows at all")


def _check_counts(told: Fields, described: Mapping) -> None:
    told.only("labels", "counts")
    labels = told.labels("labels")
    told.array("counts", (len(labels),), "i", low=0)
    rows = described["rows"]
    own = dict(zip(rows["labels"], rows["training"].tolist(), strict=True))
    if any(
        own.get(label) != count
        for label, count in zip(labels, told.get("counts").tolist(), strict=True)
    ):
        raise told.wrong("counts", "are not those of describe.rows")


def _check_size(told: Fields, described: Mapping, asked: Mapping) -> None:
    told.only("size")
    told.number("size", low=SMALLEST, high=LARGEST)


_CHECKS: Mapping[str, Callable] = {
    "moments": check_moments,
    "size": _check_size,
    "space": check_space,
}
_REPLIES: Mapping[str, Callable] = {
    "evaluate": _check_evaluated,
    "moments": check_late_moments,
    "neurons": _check_neurons,
    "retrain": _check_retrained,
    "score": _check_scored,
    "size": _check_late_size,
    "space": check_late_space,
    "train": _check_trained,
}
