# SPDX-License-Identifier: BSD-3-Clause
"""What a server asks, checked field by field before a node does anything of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from ..moments import LARGEST_SQUARE
from ..networks import ACTIVATIONS
from ._fields import LABELS, Fields, or_none
from ._message import Message
from ._moments_checks import check_sums

__all__ = ["check_request"]

# So much work that nobody asks for it, but to keep a node busy.
_MOST_DIRECTIONS, _MOST_EPOCHS, _MOST_PARTS = 10**6, 10**6, 10**6
_MOST_CLASSES = 10**7


def check_request(request: Message) -> None:
    """Raise ValueError, which names the field, unless a node can be asked this.

    Parameters
    ----------
    request : Message
        From anybody. Whether it goes with the node's classifier and rows is not
        looked at here.
    """
    fields = _REQUESTS.get(request.task)
    if fields is None:
        raise ValueError(f"task is {request.task!r:.40}, none of {sorted(_REQUESTS)}.")
    asked = Fields(request.content, request.task)
    asked.only(*fields)
    for name, check in fields.items():
        if name in asked.content or name not in _OPTIONAL:
            check(asked, name)


def _array(*dimensions: int, kinds: str = "f") -> Callable:
    def check(asked, name):
        value = asked.get(name)
        n = value.ndim if isinstance(value, np.ndarray) else dimensions[0]
        shape = (None,) * (n if n in dimensions else dimensions[0])
        asked.array(name, shape, kinds, high=LARGEST_SQUARE, least_bytes=2)
        if name in ("W", "weights") and not value.size:
            raise asked.wrong(name, f"has the shape {value.shape}")

    return check


def _count(most: int, least: int = 0) -> Callable:
    def check(asked, name):
        if type(asked.get(name)) is not int:
            raise asked.wrong(name, "is no whole number")
        asked.number(name, low=least, high=most)

    return check


def _number(asked, name) -> None:
    asked.number(name, low=0.0)


def _flag_or_auto(asked, name) -> None:
    if asked.get(name) != "auto":
        asked.flag(name)


def _among(*words: str) -> Callable:
    return lambda asked, name: asked.text(name, among=words)


def _labels(asked, name) -> None:
    values = asked.get(name)
    if not isinstance(values, list) or not all(type(v) in LABELS for v in values):
        raise asked.wrong(name, "is no list of labels")
    if values:  # of rows there may be none
        Fields({name: sorted(values, key=repr)}, asked.where).kinds_of_labels(name)


def _arrays(asked, name) -> None:
    values = asked.get(name)
    if not isinstance(values, list) or not all(
        isinstance(value, np.ndarray) for value in values
    ):
        raise asked.wrong(name, "is no list of arrays")
    for i, value in enumerate(values):
        own = Fields({f"{name}[{i}]": value}, asked.where)
        own.array(f"{name}[{i}]", (None,) * value.ndim, "fiub", least_bytes=2)


def _activations(asked, name) -> None:
    values = asked.get(name)
    values = values if isinstance(values, list) else [values]
    if not all(isinstance(value, str) and value in ACTIVATIONS for value in values):
        raise asked.wrong(name, f"has names that are none of {ACTIVATIONS}")


def _told_by_name(asked, name) -> None:
    told = asked.table(name)
    told.text("name")
    for field in set(told.content) - {"name"}:
        if not isinstance(told.get(field), int | float | str | bool | None):
            raise told.wrong(str(field)[:80], "is neither a number nor a text")


def _below(asked, name) -> None:
    if asked.get(name) is None:
        return
    below = asked.table(name)
    below.only("weights", "activation")
    layers = below.arrays("weights", 2)
    _activations(below, "activation")
    if len(below.get("activation")) != len(layers) or not layers:
        raise below.wrong("activation", "is not one for each layer")


def _columns(asked, name) -> None:
    _columns_of(asked, name, asked.get("W").shape[-1])


def _outputs(asked, name) -> None:
    _columns_of(asked, name, _widths(asked)[1])


def _rows_of_others(asked, name) -> None:
    n_features, n_outputs = _widths(asked)
    sums = asked.table(name)
    check_sums(sums, n_features, n_outputs)
    if not {"triangles", "correlations", "factors"}.isdisjoint(sums.content):
        raise asked.wrong(name, "tells more than variances of single features")


def _widths(asked) -> tuple[int, int]:
    """Inputs and outputs of a network."""
    coefs = asked.get("coefs")
    if not coefs or any(coef.ndim != 2 for coef in coefs):
        raise asked.wrong("coefs", "are not the weights of layers")
    return coefs[0].shape[0], coefs[-1].shape[1]


def _columns_of(asked, name, n_outputs: int) -> None:
    columns = asked.array(name, (None,), "iu", low=0)
    if len(columns) != len(asked.get("labels")):
        raise asked.wrong(name, "is not one for each label")
    if (columns >= n_outputs).any():
        raise asked.wrong(name, f"are more than the {n_outputs} outputs")


def _tasks(asked, name) -> None:
    values = asked.get(name)
    known = "moments", "size", "space"
    if values is not None and not (
        isinstance(values, list) and all(value in known for value in values)
    ):
        raise asked.wrong(name, f"is no list of {known}")


_OPTIONAL = (
    *("W", "below", "gradient", "of", "rate_factor", "center", "scale", "labels"),
    *("columns", "others"),
)
_SEED = or_none(_count(2**32 - 1))
_SPACES = {
    "geometry": _told_by_name,
    "construction": _among("sampled", "certified"),
    "n_directions": _count(_MOST_DIRECTIONS, 1),
    "below": _below,
}
_REQUESTS: Mapping[str, Mapping[str, Callable]] = {
    "join": {"method": Fields.text, "settings": Fields.table, "tasks": _tasks},
    "describe": {},
    "counts": {},
    "moments": {
        "kind": _among("auto", "class", "shared", "diagonal"),
        "n_components": _count(_MOST_PARTS, 1),
        "min_rows": _count(2**53),
        "seed": _SEED,
        "W": or_none(_array(2)),
        "labels": or_none(_labels),
        "below": _below,
    },
    "size": {"W": _array(2), "below": _below},
    "space": {
        "W": _array(2),
        "labels": _labels,
        "n_others": _count(_MOST_CLASSES),
        "min_rows": _count(2**53),
        "criterion": _told_by_name,
        "scale_logits": _flag_or_auto,
        "seed": _SEED,
        **_SPACES,
    },
    "neurons": {
        "weights": _array(2),
        "activation": _activations,
        "epsilon": _number,
        "max_radius": _number,
        "random_state": _SEED,
        **_SPACES,
    },
    "evaluate": {
        "W": _array(2, 3),
        "labels": _labels,
        "columns": _columns,
        "factors": _array(1, kinds="fiu"),
        "gradient": Fields.flag,
        "of": _among("judging", "learning"),
        "below": _below,
    },
    "score": {
        "W": _array(2),
        "labels": _labels,
        "columns": _columns,
        "criterion": _told_by_name,
        "below": _below,
    },
    "train": {
        "parameters": _arrays,
        "classes": _labels,
        "epochs": _count(_MOST_EPOCHS, 0),
        "rates": or_none(_array(1)),
        "seed": _SEED,
    },
    "retrain": {
        "coefs": _arrays,
        "intercepts": _arrays,
        "activation": _activations,
        "labels": _labels,
        "epochs": _count(_MOST_EPOCHS, 0),
        "seed": _SEED,
        "columns": _outputs,
        "others": or_none(_rows_of_others),
        "rate_factor": or_none(_number),
        "center": or_none(_array(1)),
        "scale": or_none(_array(1)),
        "below": _below,
    },
}
