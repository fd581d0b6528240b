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


def array(values):
    """An array as a fingerprint, or as it is if it is small."""
    values = np.asarray(values)
    if values.dtype.kind not in "fiub" or values.size <= WHOLE:
        return plain(values.tolist())
    shape = "x".join(map(str, values.shape))
    if values.dtype != np.float64:
        shape += f" {values.dtype}"
    flat = values.ravel().astype(np.float64)
    numbers = [np.abs(flat).mean(), *(_directions(flat.size) @ flat)]
    return [shape, *map(_number, numbers)]


def indices(values):
    """Whole numbers or labels as a string, which is short."""
    return " ".join(map(str, np.asarray(values).ravel().tolist()))


def plain(value):
    """Numbers, texts, arrays, and lists and dicts of these, ready for JSON.

    Bytes become their SHA-256.
    """
    if isinstance(value, bytes):
        return hashlib.sha256(value).hexdigest()
    if value is None or isinstance(value, (str, bool, np.bool_)):
        return bool(value) if isinstance(value, np.bool_) else value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return _number(value)
    if isinstance(value, np.ndarray):
        return array(value)
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    return [plain(item) for item in value]


# ---- what aggregators say -----------------------------------------------------


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


def _of_intersection(found):
    return {
        "found": bool(found.found),
        "max_distance": _number(found.max_distance),
        "lower_bound": _number(found.lower_bound),
        "weights": array(found.weights),
        "distances": array(found.normalized_squared_distances),
        "conflicts": [indices(pair) for pair in found.conflicts],
        "point": array(found.point),
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
    found = {
        "strength": _number(tuned.strength),
        "losses": plain(np.ravel(tuned.losses).tolist()),
    }
    if hasattr(tuned, "factor"):
        found["factor"] = _number(tuned.factor)
    return found


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
    numbers = ("accuracy", "log_loss", "factor", "standard_error", "looks_at_members")
    return {
        "name": choice.name,
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
    """What ``fit`` of an estimator of scikit-learn has set, and that of its parts."""
    found = {"kind": type(estimator).__name__}
    for name, part in _parts_of(estimator):
        if not isinstance(part, str):  # as "drop" and "passthrough"
            found[f"part {name}"] = fitted_attributes(part)
    for name, value in sorted(vars(estimator).items()):
        if not name.endswith("_") or name.startswith("_") or name in ANYBODYS:
            continue
        if name == "history_":
            found[name] = [_of_message(entry) for entry in value]
        elif hasattr(value, "get_params"):
            found[name] = fitted_attributes(value)
        elif name not in ("transformers_", "transformer_list_"):
            with suppress(TypeError):  # no number, text or array, nor several of them
                found[name] = plain(value)
    return found


def _each(describe):
    return lambda values: [describe(value) for value in values]


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
    """Run a case and say what came out.

    A case is a function that returns a fitted aggregator and rows to test it on, and
    perhaps more to record: a dict. It may return that alone. Bytes in its entry "kept"
    are for the next commit to read, and no result.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = case()
        if isinstance(result, dict):
            found, more = {}, [result]
        else:
            aggregate, X_test, *more = result
            found = _of_aggregate(aggregate, X_test)
        for extra in more:
            found |= plain({k: v for k, v in extra.items() if k != "kept"})
    warned = _warned(caught)
    return {**found, "warned": warned} if warned else found


def _of_aggregate(aggregate, X_test):
    found = {
        name: describe(getattr(aggregate, name))
        for name, describe in REPORTS.items()
        if getattr(aggregate, name, None) is not None
    }
    found |= predictions(aggregate, X_test)
    return found


def predictions(aggregate, X_test) -> dict:
    """What a fitted aggregator, or transformer, makes of rows."""
    if not hasattr(aggregate, "predict"):
        transformed = aggregate.transform(X_test)
        dense = transformed.toarray() if issparse(transformed) else transformed
        return {"transformed": array(np.asarray(dense))}
    found = {"labels": indices(aggregate.predict(X_test))}
    if hasattr(aggregate, "predict_proba"):
        found["proba"] = array(aggregate.predict_proba(X_test))
    if len(aggregate.classes_) == 2 and hasattr(aggregate, "decision_function"):
        found["decision"] = array(aggregate.decision_function(X_test))
    return found


def _warned(caught) -> list[str]:
    """Kinds of the library's own warnings, whose words may change; others go on."""
    said = set()
    for warning in caught:
        is_ours = warning.category.__module__.startswith("skgems")
        if is_ours or warning.category is UserWarning:
            said.add(warning.category.__name__)
        elif not issubclass(warning.category, ConvergenceWarning):
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )
    return sorted(said)


# ---- comparing ----------------------------------------------------------------


@dataclass(frozen=True, order=True)
class Difference:
    """By how much of its size a number differs, infinite for all else, and where."""

    size: float
    words: str

    @property
    def matters(self) -> bool:
        return self.size > TOLERANCE


def differences(now, before, path="") -> list[Difference]:
    """Where two records differ. What only the newer one has is no difference."""
    if isinstance(now, dict) and isinstance(before, dict):
        found = [
            Difference(math.inf, f"{path}/{key}: only before")
            for key in sorted(before.keys() - now.keys() - WORDS)
        ]
        for key in sorted((now.keys() & before.keys()) - WORDS):
            found += differences(now[key], before[key], f"{path}/{key}")
        return found
    if isinstance(now, list) and isinstance(before, list):
        if len(now) != len(before):
            lengths = f"{len(now)} entries, before {len(before)}"
            return [Difference(math.inf, f"{path}: {lengths}")]
        size, found = _size_of(before), []
        for i, (one, other) in enumerate(zip(now, before, strict=True)):
            at = f"{path}[{i}]"
            if _is_number(one) and _is_number(other):
                found += _difference(one, other, size, at)
            else:
                found += differences(one, other, at)
        return found
    if _is_number(now) and _is_number(before):
        return _difference(now, before, 0.0, path)
    if type(now) is not type(before) or now != before:
        return [Difference(math.inf, f"{path}: {now!r:.80}, before {before!r:.80}")]
    return []


def only_now(now, before, path="") -> list[str]:
    """Paths of what a record has that the one before has not."""
    if isinstance(now, dict) and isinstance(before, dict):
        found = [f"{path}/{key}" for key in sorted(now.keys() - before.keys())]
        for key in sorted(now.keys() & before.keys()):
            found += only_now(now[key], before[key], f"{path}/{key}")
        return found
    if isinstance(now, list) and isinstance(before, list):
        pairs = enumerate(zip(now, before, strict=False))
        return [p for i, (a, b) in pairs for p in only_now(a, b, f"{path}[{i}]")]
    return []


def _is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _size_of(values):
    """Of the entries of a fingerprint, or of the smaller numbers in a list."""
    numbers = [abs(value) for value in values if _is_number(value)]
    if values and isinstance(values[0], str) and re.match(r"\d+(x|$| )", values[0]):
        return max(numbers, default=0.0)
    return 1e-3 * max(numbers, default=0.0)


def _difference(one, other, size, path) -> list[Difference]:
    if one == other:
        return []
    if isinstance(one, int) and isinstance(other, int):
        return [Difference(math.inf, f"{path}: {one}, before {other}")]
    off = abs(one - other) / max(abs(one), abs(other), size, NOISE / TOLERANCE)
    return [Difference(off, f"{path}: {one!r}, before {other!r}, {off:.1e} off")]
