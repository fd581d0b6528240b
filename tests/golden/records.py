# SPDX-License-Identifier: BSD-3-Clause
"""What is recorded of a result, and how two records compare.

Of an array a record has its fingerprint, ``["6x64", size, p1, p2, p3]``: shape (and
dtype where it is not float64), mean of the absolute values, and the scalar products
with three fixed random vectors over the root of the number of entries. All are of the
order of ``size``, by which they are compared. Arrays of a few numbers are given whole.
"""

from __future__ import annotations

import hashlib
import math
import re
import warnings
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from numbers import Integral, Real
from types import NoneType

import numpy as np
from scipy.sparse import issparse
from sklearn.exceptions import ConvergenceWarning

# Arrays of at most so many numbers are given whole.
WHOLE = 6
# Numbers that are the same when both are rounded to 8 digits differ by no more of their
# size. (Records of older commits are rounded so.)
TOLERANCE = 5.1e-8
# Where a number is 0 but for rounding, as the distance of a space from its own centre.
NOISE = 1e-9
# Axes whose signs, and whose directions where variances are equal, rounding decides.
ANYBODYS = {"rotations_", "scalings_"}
# Keys of texts for people, which may change. Records of older commits have the first
# words of warnings.
WORDS = {"warnings", "reason"}


# ---- numbers ------------------------------------------------------------------


@lru_cache
def _directions(n):
    return np.random.RandomState(n % 2**31).standard_normal((3, n)) / np.sqrt(n)


def _number(value):
    """A number to all its digits: two runs of one commit are equal to the bit."""
    value = float(value)
    return value if math.isfinite(value) else repr(value)


def array(array_like):
    """An array as a fingerprint, or as it is if it is small."""
    dense = np.asarray(array_like)
    if dense.dtype.kind not in "fiub" or dense.size <= WHOLE:
        return plain(dense.tolist())
    shape = "x".join(map(str, dense.shape))
    if dense.dtype != np.float64:
        shape += f" {dense.dtype}"
    flat = dense.ravel().astype(np.float64)
    mean_size = np.abs(flat).mean()
    products = _directions(flat.size) @ flat
    return [shape, _number(mean_size), *map(_number, products)]


def indices(labels):
    """Whole numbers or labels as a string, which is short."""
    return " ".join(map(str, np.asarray(labels).ravel().tolist()))


def plain(value):
    """Numbers, texts, arrays, and lists and dicts of these, ready for JSON.

    Bytes become their SHA-256.
    """
    if isinstance(value, bytes):
        return hashlib.sha256(value).hexdigest()
    if isinstance(value, (NoneType, str, bool)):
        return value
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return _number(value)
    if isinstance(value, np.ndarray):
        return array(value)
    if isinstance(value, dict):
        return {str(key): plain(element) for key, element in value.items()}
    return [plain(element) for element in value]


# ---- attributes of aggregators -----------------------------------------------------


def _of_message(entry) -> dict:
    # How long it took and what it weighed are no results.
    left_out = {"seconds", "bytes_sent", "bytes_received"}
    return plain({key: value for key, value in entry.items() if key not in left_out})


def _of_space(space):
    # Its radius is among the node_scores_.
    center = space.center
    other = np.random.RandomState(0).standard_normal(center.shape)
    return {
        "center": array(center),
        "outputs": None if space.outputs is None else indices(space.outputs * 1),
        # The metric: distances of zero and of a random model.
        "to": [_number(space.distance(0 * center)), _number(space.distance(other))],
    }


def _of_intersection(intersection):
    return {
        "found": bool(intersection.found),
        "max_distance": _number(intersection.max_distance),
        "lower_bound": _number(intersection.lower_bound),
        "weights": array(intersection.weights),
        "distances": array(intersection.normalized_squared_distances),
        "conflicts": [indices(pair) for pair in intersection.conflicts],
        "point": array(intersection.point),
    }


def _of_likelihood(likelihood):
    moments = likelihood.loss.moments
    return {
        "n_rows": _number(likelihood.n_rows),
        "counts": array(moments.counts),
        "means": array(moments.means),
        "scatter": array(moments.scatter),
        "slope": array(likelihood.slope),
        "scales": array(likelihood.scales),
    }


def _of_form(form):
    return {"kind": form.kind, "is_exact": not form.reason}


def _of_fine_tuning(tuned):
    fields = {
        "strength": _number(tuned.strength),
        "losses": plain(np.ravel(tuned.losses).tolist()),
    }
    if hasattr(tuned, "factor"):
        fields["factor"] = _number(tuned.factor)
    return fields


def _of_layer(report):
    units = [[f"{node}.{i}" for node, i in unit] for unit in report["members"]]
    return {
        **{key: report[key] for key in ("n_in", "n_units")},
        **{key: report[key] for key in ("kept", "merged", "forced", "dropped")},
        "members": " ".join("+".join(unit) for unit in units),
        "dropped_neurons": " ".join(f"{n}.{i}" for n, i in report["dropped_neurons"]),
        "radii": [array(radii) for radii in report["radii"]],
    }


def _of_atoms(atoms):
    return {"mean": array(atoms.mean), "precision": array(atoms.precision)}


def _of_net(net):
    state = net.module_.state_dict()
    return {name: array(value.cpu().numpy()) for name, value in state.items()}


def _of_choice(choice):
    numbers = (
        "accuracy",
        "log_loss",
        "factor",
        "score",
        "standard_error",
        "looks_at_members",
    )
    return {
        "name": choice.name,
        "scoring": getattr(choice, "scoring", None),
        "n_rows": choice.n_rows,
        "n_doubts": len(choice.doubts),
        "table": {
            entry["name"]: {
                **{name: plain(entry.get(name)) for name in numbers},
                "was_made": not entry["error"],
            }
            for entry in choice.table
        },
    }


def _parts_of(estimator) -> list:
    """Pairs of name and fitted part of a pipeline, a union or a column transformer."""
    if hasattr(estimator, "transformers_"):
        return [(name, part) for name, part, _ in estimator.transformers_]
    return list(
        getattr(estimator, "steps", None)
        or getattr(estimator, "transformer_list", None)
        or []
    )


def fitted_attributes(estimator) -> dict:
    """The attributes that ``fit`` of a scikit-learn estimator and of its parts set."""
    attributes = {"kind": type(estimator).__name__}
    for name, part in _parts_of(estimator):
        if not isinstance(part, str):  # as "drop" and "passthrough"
            attributes[f"part {name}"] = fitted_attributes(part)
    for name, value in sorted(vars(estimator).items()):
        if not _is_recorded(name):
            continue
        if name == "history_":
            attributes[name] = [_of_message(entry) for entry in value]
        elif hasattr(value, "get_params"):
            attributes[name] = fitted_attributes(value)
        else:
            with suppress(TypeError):  # no number, text or array, nor several of them
                attributes[name] = plain(value)
    return attributes


def _is_recorded(name: str) -> bool:
    """Whether an attribute is public, set by ``fit``, and the same on any machine."""
    is_fitted = name.endswith("_") and not name.startswith("_")
    # The transformers of these two are recorded as parts.
    are_parts = name in ("transformers_", "transformer_list_")
    return is_fitted and not are_parts and name not in ANYBODYS


def _each(describe):
    """A function that describes each element of a list."""
    return lambda elements: [describe(element) for element in elements]


# Attributes that are recorded where an aggregator has them and they are not None.
REPORTS = {
    "classes_": lambda values: np.asarray(values).tolist(),
    "node_names_": " ".join,
    "activation_": plain,
    "coef_": array,
    "intercept_": array,
    "coefs_": _each(array),
    "intercepts_": _each(array),
    "net_": _of_net,
    # GEMS
    "spaces_": _each(_of_space),
    "intersection_": _of_intersection,
    "likelihood_": _of_likelihood,
    "pooled_form_": _of_form,
    "node_scores_": plain,
    "fine_tuning_": _of_fine_tuning,
    "layer_report_": _each(_of_layer),
    # PFNM
    "n_units_": plain,
    "assignments_": _each(_each(indices)),
    "popularity_": _each(array),
    "posterior_": _each(_of_atoms),
    "sigma_": plain,
    "sigma0_": plain,
    "gamma0_": plain,
    "objective_": _each(lambda values: plain(list(values))),
    "n_iter_": plain,
    "n_steps_": plain,
    # averages, ensembles, distillation
    "history_": _each(_of_message),
    "weights_": array,
    "agreement_": plain,
    "student_": lambda student: type(student).__name__,
    # classifiers that are functions of sums
    "exact_": bool,
    # transformers
    "transformer_": fitted_attributes,
    "errors_": plain,
    # stacks, and choices among candidates
    "stack_": fitted_attributes,
    "choice_": _of_choice,
}


def record(case) -> dict:
    """Run a case and return its record.

    A case is a function that returns a fitted aggregator and rows to test it on, and
    perhaps a dict of further numbers to record. It may return that dict alone. Bytes
    in its entry "kept" are for the next commit to read, and are not recorded.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        returned = case()
        if isinstance(returned, dict):
            fields = {}
            further_dicts = [returned]
        else:
            aggregate, X_test, *further_dicts = returned
            fields = _of_aggregate(aggregate, X_test)
        for further in further_dicts:
            fields |= plain({k: v for k, v in further.items() if k != "kept"})
    warned = _warned(caught)
    return {**fields, "warned": warned} if warned else fields


def _of_aggregate(aggregate, X_test):
    fields = {
        name: describe(getattr(aggregate, name))
        for name, describe in REPORTS.items()
        if getattr(aggregate, name, None) is not None
    }
    fields |= predictions(aggregate, X_test)
    return fields


def predictions(aggregate, X_test) -> dict:
    """Predictions of a fitted aggregator for rows, or the rows transformed."""
    if not hasattr(aggregate, "predict"):
        transformed = aggregate.transform(X_test)
        dense = transformed.toarray() if issparse(transformed) else transformed
        return {"transformed": array(np.asarray(dense))}
    outputs = {"labels": indices(aggregate.predict(X_test))}
    if hasattr(aggregate, "predict_proba"):
        outputs["proba"] = array(aggregate.predict_proba(X_test))
    if len(aggregate.classes_) == 2 and hasattr(aggregate, "decision_function"):
        outputs["decision"] = array(aggregate.decision_function(X_test))
    return outputs


def _warned(caught) -> list[str]:
    """Kinds of the library's own warnings, whose words may change; others go on."""
    categories = set()
    for warning in caught:
        is_ours = warning.category.__module__.startswith("skgems")
        if is_ours or warning.category is UserWarning:
            categories.add(warning.category.__name__)
        elif not issubclass(warning.category, ConvergenceWarning):
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )
    return sorted(categories)


# ---- comparing ----------------------------------------------------------------


@dataclass(frozen=True, order=True)
class Difference:
    """A relative difference of two numbers; anything else differs infinitely."""

    size: float
    words: str  # where it is, and what stands there in both records

    @property
    def matters(self) -> bool:
        return self.size > TOLERANCE


def differences(now, before, path="") -> list[Difference]:
    """Where two records differ. Fields that only the newer one has do not count."""
    if isinstance(now, dict) and isinstance(before, dict):
        return _differences_of_dicts(now, before, path)
    if isinstance(now, list) and isinstance(before, list):
        return _differences_of_lists(now, before, path)
    if _is_number(now) and _is_number(before):
        return _differences_of_numbers(now, before, size=0.0, path=path)
    if type(now) is not type(before) or now != before:
        return [Difference(math.inf, f"{path}: {now!r:.80}, before {before!r:.80}")]
    return []


def _differences_of_dicts(now: dict, before: dict, path: str) -> list[Difference]:
    differing = [
        Difference(math.inf, f"{path}/{key}: only before")
        for key in sorted(before.keys() - now.keys() - WORDS)
    ]
    for key in sorted((now.keys() & before.keys()) - WORDS):
        differing += differences(now[key], before[key], f"{path}/{key}")
    return differing


def _differences_of_lists(now: list, before: list, path: str) -> list[Difference]:
    if len(now) != len(before):
        lengths = f"{len(now)} entries, before {len(before)}"
        return [Difference(math.inf, f"{path}: {lengths}")]
    size = _size_of(before)
    differing = []
    for i, (new, old) in enumerate(zip(now, before, strict=True)):
        place = f"{path}[{i}]"
        if _is_number(new) and _is_number(old):
            differing += _differences_of_numbers(new, old, size=size, path=place)
        else:
            differing += differences(new, old, place)
    return differing


def only_now(now, before, path="") -> list[str]:
    """Paths of the fields of a record that the record before does not have."""
    if isinstance(now, dict) and isinstance(before, dict):
        paths = [f"{path}/{key}" for key in sorted(now.keys() - before.keys())]
        for key in sorted(now.keys() & before.keys()):
            paths += only_now(now[key], before[key], f"{path}/{key}")
        return paths
    if isinstance(now, list) and isinstance(before, list):
        pairs = enumerate(zip(now, before, strict=False))
        return [p for i, (a, b) in pairs for p in only_now(a, b, f"{path}[{i}]")]
    return []


def _is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _size_of(elements: list) -> float:
    """The size by which differences of the numbers of a list are divided.

    In a fingerprint all numbers are of the order of the largest. In any other list a
    number may be up to 1,000 times smaller than the largest before it is compared to
    that share of the largest, and not to itself.
    """
    numbers = [abs(element) for element in elements if _is_number(element)]
    largest = max(numbers, default=0.0)
    is_fingerprint = (
        elements
        and isinstance(elements[0], str)
        and re.match(r"\d+(x|$| )", elements[0])
    )
    return largest if is_fingerprint else 1e-3 * largest


def _differences_of_numbers(now, before, *, size, path) -> list[Difference]:
    """No difference or one: that of two numbers, relative to the larger or to size."""
    if now == before:
        return []
    if isinstance(now, int) and isinstance(before, int):
        return [Difference(math.inf, f"{path}: {now}, before {before}")]
    off = abs(now - before) / max(abs(now), abs(before), size, NOISE / TOLERANCE)
    return [Difference(off, f"{path}: {now!r}, before {before!r}, {off:.1e} off")]
