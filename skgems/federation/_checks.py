# SPDX-License-Identifier: BSD-3-Clause
"""What a node told, checked field by field before anything is made of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from numbers import Real

import numpy as np

from ..local import moments_kind
from ..moments import ClassMoments
from ..networks import ACTIVATIONS, Network
from ._message import Message

__all__ = ["check_answers", "check_part", "check_reply", "check_summary"]

# Of a matrix that is scaled to ones on its diagonal: what rounding may leave, and
# what rounding of float32 rows may for each feature.
_DEFINITE, _DEFINITE_A_FEATURE = 1e-6, np.finfo(np.float32).eps
_ROUNDING = 1e-6
# Of moments that are told with few digits.
_FEW_DIGITS = 5e-2
LABELS = (str, int, float, bool)
# Of a weight, a feature or a distance, and of a sum of squares: far beyond what anybody
# has, and so that no product that is made of them on the way overflows.
_LARGEST, LARGEST_SQUARE = 1e25, 1e50
_LARGEST_FLOAT32 = 1e15
_SMALLEST, _SMALLEST_SQUARE = 1e-25, 1e-50
_MOST_ROWS = 2**53
# Numbers of matrices that are made of fewer numbers, and characters of labels that are
# made as long as the longest.
_MOST_NUMBERS, _MOST_CHARACTERS = 2**29, 2**26
_MOST_NAME = 1000


class Fields:
    """A table that was told, whose fields are asked for by what they must be."""

    def __init__(self, content: Mapping, where: str) -> None:
        if not isinstance(content, Mapping):
            raise ValueError(f"{where} is no table of fields.")
        self.content, self.where = content, where

    def wrong(self, name: str, what: str) -> ValueError:
        return ValueError(f"{self.where}.{name} {what}.")

    def only(self, *names: str) -> None:
        """Raise ValueError unless there are no other fields."""
        more = sorted(set(self.content) - set(names))
        if more:
            raise self.wrong(str(more[0])[:80], "is no field of it")

    def get(self, name: str):
        if name not in self.content:
            raise self.wrong(name, "is missing")
        return self.content[name]

    def table(self, name: str) -> Fields:
        return Fields(self.get(name), f"{self.where}.{name}")

    def text(self, name: str, among=None) -> str:
        value = self.get(name)
        if not isinstance(value, str):
            raise self.wrong(name, "is no text")
        self._check_text(name, value)
        if among is not None and value not in among:
            raise self.wrong(name, f"is {value[:40]!r}, none of {sorted(among)}")
        return value

    def flag(self, name: str) -> bool:
        value = self.get(name)
        if not isinstance(value, bool):
            raise self.wrong(name, "is neither true nor false")
        return value

    def number(self, name: str, *, low=-np.inf, high=np.inf, unbounded=False) -> float:
        """A finite number; an array of no dimension counts as one."""
        value = self.get(name)
        if isinstance(value, np.ndarray) and value.ndim == 0:
            value = value.item()
        if isinstance(value, bool) or not isinstance(value, Real):
            raise self.wrong(name, "is no number")
        if unbounded and value == np.inf:
            return value
        # Whole numbers of JSON may have thousands of digits.
        low, high = max(low, -LARGEST_SQUARE), min(high, LARGEST_SQUARE)
        if not low <= value <= high:
            raise self.wrong(
                name, f"is {value!s:.20}, not between {low:g} and {high:g}"
            )
        return value

    def _check_text(self, name: str, value: str) -> None:
        if not _can_be_told(value):
            raise self.wrong(name, "has characters that cannot be told")
        if value.endswith("\0"):  # which arrays drop
            raise self.wrong(name, "ends in a character of no width")

    def count(self, name: str, low: int = 0) -> int:
        value = self.number(name, low=low, high=2**53)
        if value != int(value):
            raise self.wrong(name, f"is {value}, no whole number")
        return int(value)

    def array(self, name: str, shape: tuple, kinds: str = "f", **limits) -> np.ndarray:
        """An array of a shape, in which None stands for any length."""
        return self._checked(name, self.get(name), shape, kinds, **limits)

    def _checked(
        self,
        name,
        value,
        shape,
        kinds,
        *,
        low=None,
        high=_LARGEST,
        unbounded=False,
        missing=False,
        least_bytes=8,
    ):
        if not isinstance(value, np.ndarray):
            raise self.wrong(name, "is no array")
        # Integers have four bytes on machines of 32 bits.
        n_bytes = {"f": least_bytes, "i": 4}.get(value.dtype.kind, 0)
        if value.dtype.kind not in kinds or value.dtype.itemsize < n_bytes:
            raise self.wrong(name, f"has the dtype {value.dtype}")
        fits = len(shape) == value.ndim and all(
            want in (None, have) for want, have in zip(shape, value.shape, strict=True)
        )
        if not fits:
            wanted = tuple("any" if n is None else n for n in shape)
            raise self.wrong(name, f"has the shape {value.shape}, not {wanted}")
        if value.dtype.kind == "f" and not missing:
            odd = np.isnan(value) if unbounded else ~np.isfinite(value)
            if odd.any():
                raise self.wrong(name, f"has {odd.sum()} values that are not finite")
        if value.dtype.kind == "f":
            if value.dtype == np.float32:
                high = min(high, _LARGEST_FLOAT32)
            large = np.abs(value) > np.float64(high)
            if unbounded or missing:
                large &= np.isfinite(value)
            if large.any():
                raise self.wrong(name, f"has {large.sum()} values above {high:g}")
        if low is not None and value.size and value.min() < low:
            raise self.wrong(name, f"has values below {low}")
        return value

    def arrays(self, name: str, n_dimensions: int, kinds: str = "f") -> list:
        """A list of arrays, of float32 or float64."""
        values = self.get(name)
        if not isinstance(values, list):
            raise self.wrong(name, "is no list of arrays")
        shape = (None,) * n_dimensions
        return [
            self._checked(f"{name}[{i}]", value, shape, kinds, least_bytes=4)
            for i, value in enumerate(values)
        ]

    def kinds_of_labels(self, name: str) -> None:
        """Raise ValueError unless labels are of one kind, and arrays can hold them."""
        values = self.get(name)
        kinds = {type(value) for value in values}
        if len(kinds) != 1 or not kinds <= set(LABELS):
            raise self.wrong(name, "has labels that are not all texts, or all numbers")
        if kinds == {int} and any(not -(2**63) <= v < 2**63 for v in values):
            raise self.wrong(name, "has numbers of more than 64 bits")
        if kinds == {float} and not all(map(isfinite, values)):
            raise self.wrong(name, "has numbers that are not finite")
        if kinds == {str}:
            for value in values:
                self._check_text(name, value)
            if len(values) * max(map(len, values)) > _MOST_CHARACTERS:
                raise self.wrong(name, "has texts that are too long")

    def labels(self, name: str) -> list:
        """Labels of classes, of one kind, each once and in their order."""
        values = self.get(name)
        if not isinstance(values, list) or not values:
            raise self.wrong(name, "is no list of labels")
        self.kinds_of_labels(name)
        if any(one >= other for one, other in zip(values, values[1:], strict=False)):
            raise self.wrong(name, "is not in order, or has a label twice")
        return values


def _can_be_told(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:  # half a character
        return False
    return True


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
    count = told.number("count", low=0.0, high=_MOST_ROWS)
    for name, shape in shapes.items():
        if name in told.content or name not in optional:
            if shape:
                told.array(name, shape, low=0.0, high=LARGEST_SQUARE)
            else:
                told.number(name, low=0.0)
    if asked.get("of") == "learning":
        told.get("squared_gains")
    if np.max(told.get("right"), initial=0.0) > count * (1.0 + _ROUNDING):
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
        told._checked(f"{name}[{i}]", value, own.shape, kinds, least_bytes=2)


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
    _check_definite(told, "precision", matrix)


def _check_late_space(told: Fields, asked: Mapping) -> None:
    n_params, n_own = asked["W"].shape
    _check_space_of(told, n_params, n_own, asked)
    _check_radii_of(told, _MOST_ROWS)
    _check_center(told, asked["W"])


def _check_late_moments(told: Fields, asked: Mapping) -> None:
    """Moments of what comes out of merged layers, of rows that were counted before."""
    below = asked.get("below")
    n_features = asked["W"].shape[0] - 1 if asked.get("W") is not None else None
    if below is not None:
        n_features = below["weights"][-1].shape[1]
    told.only("labels", "moments", "form", "scaled", "factor", "gradient")
    told.flag("scaled")
    _check_form(told.table("form"))
    sums, labels = _sums_of(told), told.labels("labels")
    if n_features is None:
        n_features = len(sums.array("origin", (None,)))
    check_sums(sums, n_features, len(labels))
    moments = ClassMoments.from_arrays(sums.content)
    _check_kind(sums, moments, len(labels), asked)
    _check_scatter(sums, moments)
    if "gradient" in told.content:
        told.number("factor", low=0.0, high=_LARGEST)
        if asked.get("W") is None:
            raise told.wrong("gradient", "was not asked for")
        told.array("gradient", asked["W"].shape, high=LARGEST_SQUARE)
    elif "factor" in told.content:
        raise told.wrong("gradient", "is missing")


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
        and all(isinstance(name, str) and _can_be_told(name) for name in names)
    ):
        raise own.wrong("feature_names", "is not one text for each feature")
    if "center" in own.content or "scale" in own.content:
        # NaN where nothing is known of a feature.
        own.array("center", (n_features,), missing=True)
        scale = own.array("scale", (n_features,), missing=True)
        known = scale[~np.isnan(scale)]
        if np.isinf(own.get("center")).any():
            raise own.wrong("center", "has values that are not finite")
        if not ((known >= _SMALLEST) & np.isfinite(known)).all():
            raise own.wrong(
                "scale", f"has values that are below {_SMALLEST:g} or not finite"
            )


def _check_rows(rows: Fields) -> None:
    rows.only("labels", "judging", "moments", "training")
    labels = rows.labels("labels")
    for role in ("judging", "moments", "training"):
        counts = rows.array(role, (len(labels),), "i", low=0)
        if counts.sum(dtype=np.float64) > _MOST_ROWS:
            raise rows.wrong(role, f"are more than {_MOST_ROWS} rows")
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
    told.number("size", low=_SMALLEST, high=_LARGEST)


# ---- moments -------------------------------------------------------------------


def _check_moments(told: Fields, described: Mapping, asked: Mapping) -> None:
    told.only("labels", "moments", "form", "scaled", "factor", "gradient", "slope")
    told.flag("scaled")
    _check_form(told.table("form"))
    labels = told.labels("labels")
    rows, network = described["rows"], described["network"]
    sums = _sums_of(told)
    n_features = network["n_features"]
    exact = check_sums(sums, n_features, len(labels))
    moments = ClassMoments.from_arrays(sums.content)
    counts = moments.class_counts(len(labels))
    own = dict(zip(rows["labels"], rows["moments"].tolist(), strict=True))
    known = np.array([own.get(label, -1) for label in labels])
    # A class that a node has too few rows of is not told of; of several nodes not all
    # need have too few.
    alike = np.abs(counts - known) <= _ROUNDING * known
    if "slope" in told.content:
        alike = counts <= known * (1.0 + _ROUNDING)
    if not np.all((counts == 0) | alike):
        raise sums.wrong("counts", "are not those of describe.rows")
    # Of a few rows of small classes not even the scatter is told.
    n_told, slack = moments.group_counts.sum(), _ROUNDING * known.sum()
    if not counts.sum() - slack <= n_told <= known.sum() + slack:
        raise sums.wrong("group_counts", "are not those of describe.rows")
    _check_kind(sums, moments, len(labels), asked)
    _check_scatter(sums, moments)
    if counts.sum() == known.sum():
        _check_origin(sums, moments, exact)
    n_rows = moments.n_rows
    squares = _squares(moments) + moments.counts @ moments.means**2
    slack = _ROUNDING if exact else _FEW_DIGITS
    limit = (1.0 + slack) * np.sqrt(n_rows * np.append(squares, n_rows))
    if "slope" in told.content:
        # A gradient less another.
        shape = n_features + 1, len(labels)
        slope = told.array("slope", shape, high=LARGEST_SQUARE)
        if np.any(np.abs(slope) > 2.0 * limit[:, None]):
            raise told.wrong("slope", "is larger than these moments allow")
    if "gradient" in told.content:
        n_own = int(network["seen"].sum())
        told.number("factor", low=0.0, high=_LARGEST)
        shape = n_features + 1, n_own
        gradient = told.array("gradient", shape, high=LARGEST_SQUARE)
        if np.any(np.abs(gradient) > limit[:, None]):
            raise told.wrong("gradient", "is larger than these moments allow")
        # What a row adds to one output it takes from others.
        if np.any(np.abs(gradient.sum(axis=1)) > limit * slack):
            raise told.wrong("gradient", "does not sum to 0 over the outputs")
    elif "factor" in told.content:
        raise told.wrong("gradient", "is missing")


def _sums_of(told: Fields) -> Fields:
    sums = told.table("moments")
    # Known by the task, whose other fields have other names.
    sums.where = told.where
    return sums


def check_sums(sums: Fields, n_features: int, n_labels: int) -> bool:
    """Shapes and values of moments, and whether they are told with all digits."""
    fields = ("origin", "columns", "counts", "means", "groups", "group_counts")
    shapes = ("scatter", "triangles", "unit", "deviations", "correlations", "factors")
    sums.only(*fields, *shapes, "squares", "spreads")
    sums.array("origin", (n_features,))
    counts = sums.array("counts", (None,), high=_MOST_ROWS)
    n_parts = len(counts)
    if not n_parts or counts.min() < 1.0 - _ROUNDING:
        raise sums.wrong("counts", "are not all of a row at least")
    columns = sums.array("columns", (n_parts,), "i", low=0)
    if columns.max() >= n_labels or (np.diff(columns.astype(np.int64)) < 0).any():
        raise sums.wrong("columns", "are no classes, or not in their order")
    few_digits = "deviations" in sums.content
    least = 2 if few_digits else 8
    # In units of the deviations, where these are told.
    sums.array("means", (n_parts, n_features), least_bytes=least)
    groups = sums.array("groups", (None,), "i", low=-1)
    sums.array("group_counts", groups.shape, low=0.0, high=_MOST_ROWS)
    if (
        not len(groups)
        or groups.max() >= n_labels
        or len(set(groups.tolist())) < len(groups)
    ):
        raise sums.wrong("groups", "are no classes, or one stands there twice")
    if not set(columns.tolist()) <= set(groups.tolist()) and -1 not in groups:
        raise sums.wrong("groups", "are without a class that has a mean")
    by_class = len(np.unique(columns)), n_features
    name, high = "squares", LARGEST_SQUARE
    if few_digits:
        name, high = "spreads", _LARGEST_FLOAT32
    if name in sums.content:
        sums.array(name, by_class, low=0.0, high=high, least_bytes=least)
    elif {"squares", "spreads"} & set(sums.content):
        raise sums.wrong(name, "is missing")
    pairs = n_features * (n_features - 1) // 2
    if not few_digits:
        if "triangles" in sums.content:
            shape = len(groups), pairs + n_features
            sums.array("triangles", shape, high=LARGEST_SQUARE)
        else:
            shape = len(groups), n_features
            sums.array("scatter", shape, low=0.0, high=LARGEST_SQUARE)
        return True
    sums.array("unit", (n_features,), low=_SMALLEST, least_bytes=4)
    deviations = len(groups), n_features
    sums.array("deviations", deviations, low=0.0, high=_LARGEST_FLOAT32, least_bytes=2)
    if "correlations" in sums.content or "factors" in sums.content:
        if len(groups) * n_features**2 > _MOST_NUMBERS:
            raise sums.wrong(
                "deviations",
                f"are of {len(groups)} matrices of {n_features} features, which take "
                "more memory than is given to them",
            )
    # Of a correlation, whose diagonal is 1.
    narrow = {"high": 1.0 + _FEW_DIGITS, "least_bytes": 2}
    if "correlations" in sums.content:
        sums.array("correlations", (len(groups), pairs), **narrow)
    elif "factors" in sums.content:
        sums.array("factors", (*deviations, None), **narrow)
    return False


def _check_kind(
    sums: Fields, moments: ClassMoments, n_labels: int, asked: Mapping
) -> None:
    """Moments are of the kind that was asked for."""
    kinds = "auto", "class", "shared", "diagonal"
    if asked.get("kind") not in kinds:
        return
    kind = moments_kind(asked["kind"], moments.n_features, n_labels)
    if moments.is_diagonal != (kind == "diagonal"):
        name = "scatter" if moments.is_diagonal else "triangles"
        raise sums.wrong(name, f"is there, but {kind!r} was asked for")
    if kind == "shared" and moments.groups.tolist() != [-1]:
        raise sums.wrong("groups", "are of classes, but 'shared' was asked for")
    if kind == "shared" and moments.squares is None:
        raise sums.wrong("squares", "is missing, but 'shared' was asked for")


def _squares(moments: ClassMoments) -> np.ndarray:
    """Sum of squares of each feature within parts."""
    total = moments.scatter.sum(axis=0)
    return total if moments.is_diagonal else total.diagonal()


def _check_scatter(sums: Fields, moments: ClassMoments) -> None:
    if moments.squares is not None:
        if moments.is_diagonal:
            raise sums.wrong("squares", "are there, though scatter has them")
        total = _squares(moments) * (1.0 + _FEW_DIGITS)
        if np.any(moments.squares.sum(axis=0) > total):
            raise sums.wrong("squares", "are more than those of all classes")
    if moments.is_diagonal:
        return
    for group, scatter in zip(moments.groups.tolist(), moments.scatter, strict=True):
        _check_definite(sums, f"triangles of group {group}", scatter)


def _check_definite(own: Fields, name: str, matrix: np.ndarray) -> None:
    """Raise ValueError unless a symmetric matrix has no negative eigenvalue."""
    squares = matrix.diagonal()
    if (squares < 0).any():
        raise own.wrong(name, "has negative squares on its diagonal")
    size = np.sqrt(squares)
    inverse = np.divide(1.0, size, out=np.zeros_like(size), where=size > 0)
    scaled = matrix * inverse[:, None] * inverse
    # Where a feature has no spread it has no product with another.
    if matrix[size == 0].any():
        raise own.wrong(name, "has products of a feature without squares")
    slack = _DEFINITE + _DEFINITE_A_FEATURE * len(scaled)
    np.fill_diagonal(scaled, 1.0 + slack)
    try:
        np.linalg.cholesky(scaled)
    except np.linalg.LinAlgError as exc:
        raise own.wrong(name, "has a negative eigenvalue") from exc


def _check_origin(sums: Fields, moments: ClassMoments, exact: bool) -> None:
    """The origin is among the rows: no further from their mean than these allow."""
    mean = moments.mean()
    if not moments.origin.any():
        return  # as of sparse rows
    squares = _squares(moments) + moments.counts @ (moments.means - mean) ** 2
    slack = _ROUNDING if exact else _FEW_DIGITS
    noise = 1e-12 * moments.n_rows * np.square(moments.origin)
    if np.any(np.square(mean) > squares * (1.0 + slack) + noise):
        raise sums.wrong("means", "are further from the origin than counts allow")


def _check_form(form: Fields) -> None:
    if "reason" in form.content:
        form.only("reason")
        form.text("reason")
        return
    kind = form.text("kind", among=_FORMS)
    given = set(_FORMS[kind])
    if kind == "lda":
        given -= {"shrinkage"} if form.get("solver") == "svd" else {"tol"}
    form.only("kind", *given)
    for name in sorted(given):
        _FORMS[kind][name](form, name)


def _number_of(low: float, high: float = _LARGEST) -> Callable:
    return lambda form, name: form.number(name, low=low, high=high)


def or_none(check: Callable) -> Callable:
    return lambda form, name: form.get(name) is None or check(form, name)


def _pairs_or(*words: str) -> Callable:
    """A weight for each label, or one of some words."""

    def check(form, name):
        value = form.get(name)
        if isinstance(value, str):
            form.text(name, among=words)
        elif not isinstance(value, list) or not all(
            isinstance(pair, list)
            and len(pair) == 2
            and type(pair[0]) in LABELS
            and type(pair[1]) in (int, float)
            and 0 <= pair[1] <= _LARGEST
            for pair in value
        ):
            raise form.wrong(name, "is no list of labels and weights")

    return check


_FORMS: Mapping[str, Mapping[str, Callable]] = {
    "ridge": {
        "alpha": _number_of(0.0),
        "fit_intercept": Fields.flag,
        "class_weight": or_none(_pairs_or("balanced")),
    },
    "lda": {
        "solver": lambda form, name: form.text(name, among=("svd", "lsqr")),
        "shrinkage": or_none(_number_of(0.0, 1.0)),
        "priors": or_none(_pairs_or()),
        "tol": _number_of(0.0),
    },
    "nearest_centroid": {
        "shrink_threshold": or_none(_number_of(0.0)),
        "priors": _pairs_or("uniform", "empirical"),
    },
}


# ---- spaces --------------------------------------------------------------------


def _check_space(told: Fields, described: Mapping, asked: Mapping) -> None:
    network = described["network"]
    n_params, n_own = network["n_features"] + 1, int(network["seen"].sum())
    _check_space_of(told, n_params, n_own, asked)
    _check_radii_of(told, int(described["rows"]["judging"].sum()))
    if len(network["coefs"]) == 1:
        own = Network.from_content(network)
        _check_center(told, own.aligned(np.unique(own.classes[own.seen])).last)


def _check_space_of(told: Fields, n_params: int, n_own: int, asked: Mapping) -> None:
    """A space around a model of so many parameters and classes of its own."""
    center = told.array("center", (n_params, None))
    n_outputs = center.shape[1]
    others = asked.get("n_others", 1)
    # One stands for all others, unless nothing is said of them.
    if n_outputs not in (n_own, n_own + min(1, others if type(others) is int else 1)):
        raise told.wrong("center", f"has {n_outputs} outputs for {n_own} classes")
    told.number("scale", low=_SMALLEST, high=_LARGEST)
    if "outputs" in told.content:
        outputs = told.array("outputs", (n_outputs,), "b")
        if not outputs[:n_own].all():
            raise told.wrong("outputs", "are without a class that the model knows")
    family = told.text("family", among=("gram", "diagonal"))
    geometry = asked.get("geometry")
    name = str(geometry.get("name")) if isinstance(geometry, Mapping) else ""
    expected = _FAMILIES.get(name.rpartition(".")[2])
    if expected not in (None, family):
        raise told.wrong("family", f"is {family!r}, but {expected!r} was asked for")
    fields = {"center", "scale", "outputs", "family"}
    if family == "gram":
        fields |= {"metric_scatter", "metric_mean", "metric_size"}
        fields |= {"metric_output_weights"}
        shape = n_params - 1, n_params - 1
        scatter = told.array("metric_scatter", shape, high=LARGEST_SQUARE)
        told.array("metric_mean", (n_params - 1,))
        told.number("metric_size", low=_SMALLEST_SQUARE, high=LARGEST_SQUARE)
        if "metric_output_weights" in told.content:
            weights = told.array("metric_output_weights", (n_outputs,), low=_SMALLEST)
            if not weights.any():
                raise told.wrong("metric_output_weights", "are all 0")
        if not np.array_equal(scatter, scatter.T):
            raise told.wrong("metric_scatter", "is not symmetric")
        _check_definite(told, "metric_scatter", scatter)
    else:
        fields |= {"metric_precision"}
        shape, limit = (n_params, n_outputs), LARGEST_SQUARE
        precision = told.array("metric_precision", shape, low=0.0, high=limit)
        if ((precision > 0) & (precision < _SMALLEST_SQUARE)).any():
            raise told.wrong("metric_precision", "has values that are all but 0")
    by_loss = "radii_knots" in told.content
    criterion = asked.get("criterion")
    name = str(criterion.get("name")) if isinstance(criterion, Mapping) else ""
    if _BY_LOSS.get(name.rpartition(".")[2], by_loss) != by_loss:
        part = "radii_knots" if by_loss else "radii_radii"
        raise told.wrong(part, f"is there, but {name.rpartition('.')[2]} was asked for")
    fields |= {"radii_n_rows", "radii_score"}
    if by_loss:
        fields |= {"radii_knots", "radii_losses"}
        fields |= {"radii_slope", "radii_gradient", "radii_curvature"}
    else:
        fields |= {"radii_radii", "radii_may_lose"}
    told.only(*fields)


def _check_center(told: Fields, W: np.ndarray) -> None:
    """The centre is the model itself, but for its scale and what outputs share."""
    center = told.get("center")[:, : W.shape[1]]
    center = told.number("scale") * (center - center.mean(axis=1, keepdims=True))
    own = W.astype(np.float64)
    away = center - (own - own.mean(axis=1, keepdims=True))
    # Rounding of float32, where that is what the model has.
    if np.abs(away).max() > _ROUNDING * max(np.abs(own).max(), np.abs(center).max()):
        raise told.wrong("center", "is not the model itself")


def _check_radii_of(told: Fields, most_rows: int) -> None:
    """What is told of radii; the model was tried on so many rows at most."""
    n_rows = told.count("radii_n_rows", low=1)
    if n_rows > most_rows:
        raise told.wrong("radii_n_rows", "is more than describe.rows has")
    if "radii_knots" in told.content:
        _check_losses(told)
    else:
        _check_radii(told, n_rows)


def _check_radii(told: Fields, n_rows: int) -> None:
    score = told.number("radii_score", low=0.0, high=1.0)
    # Rows that no change loses have an infinite radius; max_radius bounds it.
    radii = told.array("radii_radii", (None,), low=0.0, unbounded=True)
    if (radii[1:] < radii[:-1]).any():
        raise told.wrong("radii_radii", "are not in their order")
    lost = told.array("radii_may_lose", (len(radii) + 1,), "i", low=0)
    right = int(lost[-1])
    if lost[0] != 0 or (lost[1:] < lost[:-1]).any():
        raise told.wrong("radii_may_lose", "does not rise from 0")
    if right > n_rows or abs(score - right / n_rows) > _ROUNDING:
        raise told.wrong("radii_score", f"is {score:g} of {n_rows} rows, not {right}")


def _check_losses(told: Fields) -> None:
    score = told.number("radii_score", low=0.0, high=_LARGEST)
    knots = told.array("radii_knots", (None,), low=0.0)
    if not len(knots) or knots[0] != 0 or (np.diff(knots) < _SMALLEST).any():
        raise told.wrong("radii_knots", "do not rise from 0")
    losses = told.array("radii_losses", knots.shape, low=0.0)
    if abs(losses[0] - score) > _ROUNDING * score:
        raise told.wrong("radii_losses", "do not begin with the score")
    told.number("radii_slope", unbounded=True, low=-_LARGEST, high=_LARGEST)
    for name in ("radii_gradient", "radii_curvature"):
        told.number(name, low=0.0, high=LARGEST_SQUARE, unbounded=True)


# What metrics of geometries are, and whether radii of criteria are those of losses; of
# others than ours nothing is known.
_FAMILIES = {"Gram": "gram", "Ellipsoid": "diagonal", "Ball": "diagonal"}
_BY_LOSS = {"Accuracy": False, "LogLoss": True}
_CHECKS: Mapping[str, Callable] = {
    "moments": _check_moments,
    "size": _check_size,
    "space": _check_space,
}
_REPLIES: Mapping[str, Callable] = {
    "evaluate": _check_evaluated,
    "moments": _check_late_moments,
    "neurons": _check_neurons,
    "retrain": _check_retrained,
    "score": _check_scored,
    "size": _check_late_size,
    "space": _check_late_space,
    "train": _check_trained,
}
