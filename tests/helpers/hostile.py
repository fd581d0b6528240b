# SPDX-License-Identifier: BSD-3-Clause
"""Mutations of what nodes send, and what may come of them."""

from __future__ import annotations

import copy
import json
import re
import signal
import struct
import threading
import warnings
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from time import perf_counter

import numpy as np
from sklearn.discriminant_analysis import (
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
)
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDClassifier
from sklearn.neighbors import NearestCentroid
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, SplineTransformer, StandardScaler

from helpers.broken import LEAVES, Pair, at, broken, put, told_in
from skgems import (
    GEMSLogisticAggregator,
    GEMSMLPAggregator,
    ModelAveragingAggregator,
    PFNMAggregator,
    PooledAggregator,
    PooledTransformer,
)
from skgems.averaging import Downpour
from skgems.channels import answer as answer_file
from skgems.choice import Candidate, choose_over
from skgems.federation import (
    Message,
    Nodes,
    RowsExposedWarning,
    Summary,
    answer,
    first_request,
    member_of,
    reply_to,
)
from skgems.gems import Rounds
from skgems.local import clear_cache
from skgems.messages import pairs_in
from skgems.spaces import Sampled

# Made of sums of each sort.
POOLED = ["QuadraticDiscriminantAnalysis", "GaussianNB", "ComplementNB", "BernoulliNB"]
POOLED += ["CategoricalNB"]
# Of one mutation: far more than any takes that does not hang.
SECONDS = 10.0
# An error of ours says of what: a field of a summary or reply, an array, a node.
_NAMES = re.compile(
    r"\b(summary|describe|counts|moments|class_sums|space|size|evaluate|train|retrain|neurons"
    r"|score|held_out|halves|judge)([.\[]| is no table)|\btask is|[Nn]ode|array|header"
    r"|metadata|message|These bytes|\bclass\b"
)
_OWN_WARNINGS = (
    "Labels of nodes differ only",
    "Nothing is known of the classes",
    "The good-enough spaces do not intersect",
    "It cannot be decided whether",
    "did not start from the same weights",
    "is left out of",
    "failed twice",
    "All nodes",
    "The aggregate fits the rows of some nodes badly",
    "Classifiers are penalised with different strengths",
    "Some classifiers have no intercept",
    "Nodes sent equal moments",
)


@dataclass(frozen=True, eq=False)
class Kind:
    """A kind of summary: of a hostile node, and of an honest one beside it."""

    name: str
    aggregator: object
    summary: Summary
    honest: Summary
    rows: np.ndarray = field(repr=False)

    def fit(self, summary):
        given = [summary, self.honest]
        return copy.copy(self.aggregator).set_params(estimators=given).fit()


def data(n=60, d=5, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 4
    X = rng.normal(size=(n, d)) + 1.6 * np.eye(4, d)[y]
    return X, y


def kinds() -> list[Kind]:
    """Honest summaries of every kind."""
    X, y = data()
    few = {"construction": Sampled(16), "random_state": 0}
    log_loss = {"criterion": "log_loss", "construction": "certified"}
    gems, everything = GEMSLogisticAggregator, {"classes": [0, 1, 2, 3]}
    net = MLPClassifier((4,), max_iter=20, random_state=0)
    scaled = make_pipeline(StandardScaler(), net)
    logistic = LogisticRegression(C=0.5)
    shrunk = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1)
    bounded = {"epsilon": 0.4, "on_empty": "ignore"}
    wanted = [
        ("class, gram", gems(moments="class", **few), logistic, {}),
        (
            "shared, ellipsoid, log-loss",
            gems(moments="shared", geometry="ellipsoid", **few | log_loss),
            logistic,
            {**everything, "space": True},
        ),
        (
            "diagonal, ball",
            gems(moments="diagonal", geometry="ball", **bounded, **few),
            logistic,
            {"space": True},
        ),
        (
            "gram, log-loss, deepest",
            gems(
                intersection="deepest",
                epsilon=2.0,
                on_empty="ignore",
                **few | log_loss,
            ),
            logistic,
            everything,
        ),
        ("gram, hinge", gems(intersection="hinge", **bounded, **few), logistic, {}),
        ("gram, within", gems(**bounded, **few), logistic, {}),
        (
            *("float16", gems(moments="shared", **few)),
            *(logistic, {"dtype": "float16"}),
        ),
        ("rank", gems(**few), logistic, {"dtype": "float32", "rank": 1}),
        ("clusters", gems(n_components=3, min_cluster_size=3, **few), logistic, {}),
        ("balanced", gems(**few), LogisticRegression(class_weight="balanced"), {}),
        ("wide", gems(**few), logistic, {}),
        ("weighed", gems(class_weight={1: 2.0}, **few), logistic, {}),
        ("ridge", gems(**few), RidgeClassifier(class_weight={1: 2.0}), {}),
        ("sgd", gems(**few), SGDClassifier(loss="log_loss", random_state=0), {}),
        ("lda", gems(**few), LinearDiscriminantAnalysis(), {}),
        ("lda, shrunk", gems(**few), shrunk, {}),
        ("centroid", gems(**few), NearestCentroid(shrink_threshold=0.1), {}),
        ("constant", gems(**few), DummyClassifier(), {}),
        ("no classifier", gems(**few), None, {}),
        *((kind, PooledAggregator(pooled=kind), None, {}) for kind in POOLED),
        ("pfnm", PFNMAggregator(random_state=0, max_iter=5), net, {}),
        ("pfnm, scaled", PFNMAggregator(random_state=0, max_iter=5), scaled, {}),
        ("averaging", ModelAveragingAggregator(weights="class_counts"), logistic, {}),
        ("averaging, nets", ModelAveragingAggregator(align="permutation"), net, {}),
    ]
    found, narrow = [], X
    for k, (name, aggregator, estimator, how) in enumerate(wanted):
        own, X = [y != 3, y != 0], narrow
        if name == "wide":
            more = np.random.default_rng(1).standard_normal((len(y), 205))
            X = np.hstack([narrow, more])
        if name == "constant":
            own[0] = y == 1
        if name in POOLED:
            X = np.digitize(narrow, [-1.0, 0.5, 1.5]).astype(float)
        sent = []
        for i, rows in enumerate(own):
            member = copy.deepcopy(estimator) if name != "constant" or not i else None
            member = member or LogisticRegression()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # nets do not converge, and need not
                member.fit(X[rows], y[rows])
            member = None if estimator is None else member
            held_out = None if k % 3 else np.arange(rows.sum()) % 4 == 0
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RowsExposedWarning)
                summary = aggregator.summarize(
                    *(member, X[rows], y[rows]),
                    name=("lyon", "paris")[i],
                    held_out=held_out,
                    min_rows=1,
                    **how,
                )
            sent.append(summary)
        found.append(Kind(name, aggregator, *sent, X))
    return found


# ---- mutations -------------------------------------------------------------

_NUMBERS = (
    *(0, 1, -1, 2, 3, 0.5, -0.5, 1e-320, 1e-30, 1e30, 1e150, 1e300, -1e300),
    *(2**31, 2**53, 2**63, 2**64, 10**400, -(2**63)),
)
_ODD = (
    *(None, True, False, "", "x", "gram", "diagonal", "softmax", "logistic", "relu"),
    *("__x", "public", "estimators", "\ud800", "\x00", "a" * 10_000),
    *([], {}, [[]], [{}], [None], [1, "a"], [1, True], [1.0, 1], {"a": []}),
    *({"reason": ""}, {"kind": "ridge"}, {"": {}}, [[1, 2]], [["a", -1]]),
)


def _pick(rng, values):
    return values[int(rng.integers(len(values)))]


def _places(tree, path=()):
    """Paths of everything in settings, tables and lists included."""
    found = [path] if path else []
    if isinstance(tree, dict):
        for key, value in tree.items():
            found += _places(value, (*path, key))
    elif isinstance(tree, list):
        for i, value in enumerate(tree):
            found += _places(value, (*path, i))
    return found


def _at(tree, path):
    for part in path:
        tree = tree[part]
    return tree


def _put(tree, path, value):
    _at(tree, path[:-1])[path[-1]] = value


def _values(array, rng):
    """Other values of the same shape and dtype."""
    array = np.array(array)
    if not array.size:
        return array
    if array.dtype.kind == "b":
        return ~array if rng.random() < 0.5 else np.full_like(array, rng.random() < 0.5)
    some = np.zeros(array.size, dtype=bool)
    some[rng.integers(array.size, size=1 + int(rng.integers(3)))] = True
    some = some.reshape(array.shape) | (rng.random() < 0.4)
    if array.dtype.kind in "iu":
        limits = np.iinfo(array.dtype)
        value = _pick(rng, (0, 1, 2, 7, 1000, limits.min, limits.max, limits.max - 1))
        array[some] = value
        return array
    how = int(rng.integers(8))
    with np.errstate(over="ignore", invalid="ignore"):
        if how == 0:
            array[some] = np.nan
        elif how == 1:
            array[some] = _pick(rng, (np.inf, -np.inf))
        elif how == 2:
            array[some] *= -1
        elif how == 3:
            array[some] *= 10.0 ** int(rng.integers(-320, 309))
        elif how == 4:
            array[some] = 0.0
        elif how == 5:
            wide = _pick(rng, [float(n) for n in _NUMBERS if abs(n) < 10**300])
            array[some] = wide
        elif how == 6:
            array = rng.permutation(array.ravel()).reshape(array.shape)
        else:
            array[some] += rng.normal() * 10.0 ** int(rng.integers(-3, 4))
    return array


def _shape(array, rng):
    how = int(rng.integers(8))
    if how == 0:
        return array.ravel()
    if how == 1:
        return array.T.copy()
    if how == 2:
        return array[None]
    if how == 3:
        return array[:0] if array.ndim else np.zeros(0, array.dtype)
    if how == 4:
        return array[:-1] if array.ndim else np.stack([array, array])
    if how == 5:
        return np.concatenate([array, array[:1]]) if array.ndim else array[None, None]
    if how == 6:
        return array[..., :-1].copy() if array.ndim else array[None]
    return array.ravel()[:1].reshape(()) if array.size else array


def _dtype(array, rng):
    names = "bool int8 uint8 int32 int64 uint64 float16 float32 float64".split()
    with np.errstate(over="ignore", invalid="ignore"):
        return np.nan_to_num(array).astype(_pick(rng, names))


def mutate_message(message: Message, other: Message, rng) -> tuple[str, bytes]:
    """Change something of a message, and write it again."""
    settings = copy.deepcopy(dict(message.settings))
    arrays = dict(message.arrays)
    whats = "values values values shape dtype drop rename duplicate swap".split()
    if not arrays:
        whats = []
    whats += "setting setting missing more swap_setting labels extreme".split()
    what = _pick(rng, whats)
    names, places = sorted(arrays), _places(settings)
    name = _pick(rng, names) if names else None
    if not places:
        settings, places = {"more": 0}, [("more",)]
    place = _pick(rng, places)
    if what == "values":
        arrays[name] = _values(arrays[name], rng)
    elif what == "shape":
        arrays[name] = np.ascontiguousarray(_shape(arrays[name], rng))
    elif what == "dtype":
        arrays[name] = _dtype(arrays[name], rng)
    elif what == "drop":
        del arrays[name]
    elif what == "rename":
        told = arrays.pop(name)
        new = name.rpartition(".")[0] + "." + _pick(rng, ("0", "1", "7", "x", "", "²"))
        arrays[_pick(rng, (_pick(rng, names), new, name + ".0", "." + name, ""))] = told
    elif what == "duplicate":
        arrays[_pick(rng, names)] = arrays[name]
    elif what == "swap":
        arrays[name] = other.arrays.get(name, _pick(rng, list(other.arrays.values())))
    elif what == "setting":
        odd = _pick(rng, _ODD if rng.random() < 0.6 else _NUMBERS)
        _put(settings, place, copy.deepcopy(odd))
    elif what == "missing":
        del _at(settings, place[:-1])[place[-1]]
    elif what == "more":
        at = _at(settings, place)
        if isinstance(at, dict):
            at[_pick(rng, ("more", "0", "", "told", "gradient"))] = _pick(rng, _ODD)
        elif isinstance(at, list):
            at.append(_pick(rng, (*at, *_ODD)))
        else:
            _put(settings, place, [at])
    elif what == "swap_setting":
        try:
            _put(settings, place, copy.deepcopy(_at(other.settings, place)))
        except (KeyError, IndexError, TypeError):
            _put(settings, place, copy.deepcopy(_at(settings, _pick(rng, places))))
    elif what == "labels":
        _relabel(settings, rng)
    else:
        _to_extremes(arrays, rng)
    return what, _encoded(message, settings, arrays)


def _relabel(settings, rng) -> None:
    """Other labels, everywhere the same, so that a summary agrees with itself."""
    change = _pick(
        rng,
        (
            lambda v: bool(v),
            lambda v: float(v),
            lambda v: str(v),
            lambda v: v + 2**62,
            lambda v: v * 1e308,
            lambda v: -v,
            lambda v: v + 0.5,
            lambda v: ["", "\x00", "a", "a\x00"][v % 4],
            lambda v: v + 10**17,
            lambda v: None,
            lambda v: [v],
        ),
    )
    for place in _places(settings):
        if place[-1] == "labels":
            at = _at(settings, place)
            if isinstance(at, list) and all(type(v) is int for v in at):
                _put(settings, place, [change(v) for v in at])


def _to_extremes(arrays, rng) -> None:
    """Values that agree with each other, and are far from what anybody has."""
    how = int(rng.integers(4))
    factor = np.float64(10.0) ** int(rng.integers(-300, 300))
    if how == 3:
        factor = np.float64(10.0) ** int(rng.integers(-25, 25))
    for name, array in arrays.items():
        last, change = name.rpartition(".")[2], None
        if array.dtype.kind != "f":
            continue
        if how in (0, 3):  # other units of the features
            if last in ("origin", "means", "unit", "metric_mean"):
                change = factor
            elif last in ("triangles", "scatter", "metric_scatter"):
                change = factor
            elif ".coefs." in name:
                change = 1.0 / factor
        elif how == 1:  # all weights
            if ".coefs." in name or ".intercepts." in name or last == "center":
                change = factor
        elif last in ("radii_radii", "radii_knots", "radii_losses", "scale"):
            change = factor
        if change is None:
            continue
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            wide = array * change
            if last in ("triangles", "scatter", "metric_scatter"):
                wide = wide * change
            arrays[name] = wide.astype(array.dtype)


def _encoded(message, settings, arrays) -> bytes:
    """As ``to_bytes``, of what JSON has only in part."""
    told = {"version": message.version, "task": message.task, "settings": settings}
    if message.envelope:
        told["envelope"] = dict(message.envelope)
    return packed(told, arrays)


_CODES = {"b": "BOOL", "i": "I", "u": "U", "f": "F"}


def packed(told, arrays, *, change=None) -> bytes:
    """A file of safetensors, whatever is in it; `change` sees the header."""
    header, body = {"__metadata__": {"skgems": json.dumps(told)}}, b""
    for name, array in arrays.items():
        kind = _CODES[array.dtype.kind]
        code = kind if kind == "BOOL" else f"{kind}{8 * array.dtype.itemsize}"
        end = len(body) + array.nbytes
        header[name] = {
            "dtype": code,
            "shape": list(array.shape),
            "data_offsets": [len(body), end],
        }
        body += array.tobytes()
    if change is not None:
        change(header)
    text = json.dumps(header).encode("utf-8")
    return struct.pack("<Q", len(text)) + text + body


def mutate_header(message: Message, rng) -> tuple[str, bytes]:
    """Change something of the header of a file."""

    def change(header):
        names = [name for name in header if name != "__metadata__"]
        if not names or rng.random() < 0.3:
            odd = _pick(rng, (*_ODD, *_NUMBERS))
            told = json.loads(header["__metadata__"]["skgems"])
            told[_pick(rng, ("version", "task", "settings", "envelope", "x"))] = odd
            header["__metadata__"]["skgems"] = json.dumps(told)
            if rng.random() < 0.3:
                header["__metadata__"] = _pick(rng, _ODD)
            elif rng.random() < 0.3:
                same = {_pick(rng, ("a", "b", *names)): _pick(rng, ("a", 1, *names))}
                about = json.loads(header["__metadata__"]["skgems"])
                about = json.dumps({**about, "same": same})
                header["__metadata__"]["skgems"] = about
            return
        entry = header[_pick(rng, names)]
        part = _pick(rng, ("dtype", "shape", "data_offsets"))
        odd = (*_ODD, *_NUMBERS, "F64", "F32", "I64", "BF16", [0, 8], [8, 0], [2**60])
        if part != "dtype" and rng.random() < 0.5:
            entry[part] = list(entry[part])
            if entry[part]:
                i = int(rng.integers(len(entry[part])))
                entry[part][i] = _pick(rng, (*_NUMBERS, entry[part][i] + 1, "1", None))
        else:
            entry[part] = _pick(rng, odd)

    settings, arrays = dict(message.settings), dict(message.arrays)
    told = {"version": message.version, "task": message.task, "settings": settings}
    return "header", packed(told, arrays, change=change)


def mutate_bytes(whole: bytes, other: bytes, rng) -> tuple[str, bytes]:
    """Flip, cut, add or exchange some bytes."""
    changed = bytearray(whole)
    how = int(rng.integers(6))
    place = int(rng.integers(len(whole)))
    if how == 0:
        changed[place] ^= 1 << int(rng.integers(8))
    elif how == 1:
        for i in rng.integers(len(whole), size=8):
            changed[i] = int(rng.integers(256))
    elif how == 2:
        del changed[place:]
    elif how == 3:
        changed[place:place] = rng.bytes(1 + int(rng.integers(16)))
    elif how == 4:
        n = int(rng.integers(1, 64))
        changed[place : place + n] = bytes(n)
    else:
        changed[place:] = other[place:]
    return "bytes", bytes(changed)


def mutate_field(message: Message, side: str, rng) -> tuple[str, bytes]:
    """Something that the table of tasks says is wrong, in a summary anywhere."""
    content, tables = message.content, [((), message.task)]
    if (message.task, side) == ("join", "reply"):
        tables += [((name,), name) for name in ("describe", "counts")]
        for number, told in content["answers"].items():
            tables.append((("answers", number, "reply"), told["task"]))
    path, task = _pick(rng, tables)
    part = Message.of(task, **at(content, path))
    pair = Pair(part, part)
    found = [leaf for leaf in LEAVES if leaf.side == side and told_in([pair], leaf)]
    if not found:
        return mutate_message(message, message, rng)
    _, new, _ = _pick(rng, list(broken(_pick(rng, found), pair)))
    new = put(content, path, new) if path else new
    whole = Message.of(message.task, **new)
    return "field", replace(whole, envelope=message.envelope).to_bytes()


def mutated(message, other, rng, side="reply") -> tuple[str, bytes]:
    """One mutation of a message, and what it was."""
    draw = rng.random()
    if draw < 0.15:
        return mutate_bytes(message.to_bytes(), other.to_bytes(), rng)
    if draw < 0.25:
        return mutate_header(message, rng)
    if draw < 0.4:
        return mutate_field(message, side, rng)
    what, found = mutate_message(message, other, rng)
    if draw > 0.9:  # another one on top
        try:
            again = Message.from_bytes(found)
        except ValueError:
            return what, found
        more, found = mutate_message(again, other, rng)
        what = f"{what}+{more}" if what == more else "two"
    return what, found


# ---- what may come of them -------------------------------------------------


class Violation(AssertionError):
    """A mutation came to what it must not."""


@contextmanager
def _bounded():
    """No longer than some seconds, where the system can say so."""
    able = hasattr(signal, "setitimer")
    able = able and threading.current_thread() is threading.main_thread()

    def stop(number, frame):
        raise Violation(f"takes longer than {SECONDS} s")

    before = signal.signal(signal.SIGALRM, stop) if able else None
    if able:
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        if able:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            signal.signal(signal.SIGALRM, before)


def _check_refusal(failure: BaseException, names=_NAMES.search) -> None:
    own = isinstance(failure, ValueError | TypeError)
    if isinstance(failure, np.linalg.LinAlgError | UnicodeError | json.JSONDecodeError):
        own = "covariance matrix of class" in str(failure)  # as scikit-learn
    if not own:
        raise Violation(f"raises {type(failure).__name__}: {failure}") from failure
    if not names(str(failure)):
        raise Violation(f"names nothing: {failure!r}") from failure


def _check_model(fitted, X) -> None:
    told = [getattr(fitted, name, None) for name in ("coef_", "intercept_")]
    told += [*getattr(fitted, "coefs_", []), *getattr(fitted, "intercepts_", [])]
    for array in told:
        if array is not None and not np.isfinite(array).all():
            raise Violation("makes a model that is not finite")
    if not np.isfinite(fitted.predict_proba(X[:5])).all():
        raise Violation("makes probabilities that are not finite")


def outcome_of(attempt, X) -> str:
    """What comes of ``attempt()``, which makes a fitted aggregator of something odd.

    Returns
    -------
    outcome : {"refused", "accepted"}

    Raises
    ------
    Violation
        If it is another kind of error, or names nothing, or a model is not finite, or
        it takes too long.
    """
    clear_cache()
    start = perf_counter()
    with _bounded(), warnings.catch_warnings():
        warnings.simplefilter("error")
        for text in _OWN_WARNINGS:
            warnings.filterwarnings("ignore", message=f"(?s).*{text}")
        try:
            fitted = attempt()
            found = "accepted"
        except Violation:
            raise
        except Exception as failure:
            _check_refusal(failure)
            found = "refused"
        if found == "accepted":
            try:
                _check_model(fitted, X)
            except (RuntimeWarning, ArithmeticError) as failure:
                raise Violation(f"predicts with {failure!r}") from failure
    if perf_counter() - start > SECONDS:
        raise Violation("takes too long")
    return found


def tried(kind: Kind, whole: bytes) -> str:
    """What comes of the bytes of a summary: "refused on load" or "in fit"."""
    where = "on load"

    def attempt():
        nonlocal where
        summary = Summary(Message.from_bytes(whole))
        where = "in fit"
        return kind.fit(summary)

    found = outcome_of(attempt, kind.rows)
    return found if found == "accepted" else f"{found} {where}"


# ---- replies that come later -----------------------------------------------


@dataclass(frozen=True, eq=False)
class Talk:
    """A method that asks more than once, and its nodes."""

    name: str
    aggregator: object
    members: list
    rows: np.ndarray = field(repr=False)

    def fit(self, change=None, hear=None):
        """By bytes; later replies of the first node are changed on the way."""
        members = {member.name: member for member in self.members}

        def reply(name, request):
            kind = f"{request.task} {sorted(request.content)}"
            _requests.setdefault(kind, (request, name))
            told = answer(request, members[name])
            if hear is not None:
                hear(name, request, told)
            whole = told.to_bytes()
            changes = name == self.members[0].name and request.task != "join"
            if change is not None and changes:
                whole = change(told, whole)
            try:
                return Message.from_bytes(whole)
            except ValueError as failure:
                return failure

        def ask(requests):
            return {name: reply(name, request) for name, request in requests.items()}

        channel = Nodes(ask, list(members), min_rows=1)
        channel.reports = True
        return copy.copy(self.aggregator).set_params(estimators=channel).fit()


def talks() -> list[Talk]:
    """One of each method that asks more than once."""
    X, y = data()
    net = MLPClassifier((4,), max_iter=20, random_state=0)
    deep = MLPClassifier((4, 3), max_iter=20, random_state=0)
    scaled = make_pipeline(StandardScaler(), net)
    few = {"construction": Sampled(16), "random_state": 0}
    wanted = [
        (
            GEMSLogisticAggregator(
                n_rounds=Rounds(3, tol=0.0), class_weight={1: 2.0}, **few
            ),
            LogisticRegression(C=0.5),
        ),
        (
            GEMSMLPAggregator(
                last_layer=GEMSLogisticAggregator(
                    geometry="ellipsoid", intersection="consensus", on_empty="ignore"
                ),
                random_state=0,
            ),
            net,
        ),
        (GEMSMLPAggregator(n_rounds=2, retrain_epochs=1, random_state=0), deep),
        (ModelAveragingAggregator(n_rounds=2, local_epochs=1, random_state=0), net),
        (
            ModelAveragingAggregator(n_rounds=2, server=Downpour(10), random_state=0),
            net,
        ),
        (PFNMAggregator(n_rounds=2, n_epochs=1, max_iter=5, random_state=0), scaled),
    ]
    found = []
    for aggregator, estimator in wanted:
        members = []
        for name, rows in (("lyon", y != 3), ("paris", y != 0)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                own = copy.deepcopy(estimator).fit(X[rows], y[rows])
            held_out = np.arange(rows.sum()) % 4 == 0 if not found else None
            given = own, X[rows], y[rows]
            member = member_of(aggregator, *given, name=name, held_out=held_out)
            if not found:  # as a node that says of few rows no more than it must
                member = replace(member, min_rows=2)
            members.append(member)
        name = f"{type(aggregator).__name__} {len(found)}"
        found.append(Talk(name, aggregator, members, X))
    return found


def tried_reply(talk: Talk, rng) -> tuple[str, str]:
    """A mutation of one of the replies of a node, and what comes of it."""
    if talk.name not in _n_replies:
        _n_replies[talk.name] = 0

        def count(told, whole):
            _n_replies[talk.name] += 1
            return whole

        outcome_of(lambda: talk.fit(count), talk.rows)
    left, what = int(rng.integers(_n_replies[talk.name])), "none"

    def change(told, whole):
        nonlocal left, what
        left -= 1
        if left != -1:
            return whole
        what, changed = mutated(told, told, rng)
        return changed

    found = outcome_of(lambda: talk.fit(change), talk.rows)
    return what, found


_n_replies: dict[str, int] = {}


def honest_pairs() -> list[Pair]:
    """What fits of every kind have said to their nodes, and heard."""
    found, several = [], kinds()
    told = [kind.summary for kind in several]
    for kind in several:
        if kind.name in ("class, gram", "balanced"):
            both = [kind.summary, kind.honest]
            told.append(kind.aggregator.merge_summaries(both, name="region"))
    for summary in told:
        content = summary.message.content
        found += [Pair(*pair, content["describe"]) for pair in pairs_in(content)]
    named = ("network", "feature_names"), list("abcde")
    described = Message.of("describe", **put(found[0].reply.content, *named))
    found.append(Pair(found[0].request, described))
    for own, drop in ((StandardScaler(), True), (OneHotEncoder(), False)):
        front = PooledTransformer(own, drop_identifiers=drop)
        reply = front.summarize(data()[0].round(), name="lyon", min_rows=1)
        names = [f"x{j}" for j in range(len(reply.content["columns"]["text"]))]
        content = put(reply.content, ("columns", "names"), names) | {"again": False}
        request = Message.of("front", front=front.as_front().as_content())
        found.append(Pair(request, Message.of("front", **content)))
    found += choice_pairs()
    for talk in talks():
        described = {}

        def hear(name, request, reply, described=described):
            if request.task == "join":
                described[name] = reply.content["describe"]
            found.append(Pair(request, reply, described[name]))

        talk.fit(hear=hear)
    return found


def choice_pairs() -> list[Pair]:
    """What nodes hear and say where one of several models is chosen by their halves."""
    found, (X, y) = [], data(120)

    def ask(requests):
        told = {}
        for k, (name, request) in enumerate(requests.items()):
            own = np.arange(len(y)) % 2 == k
            told[name] = reply_to(request, None, X[own], y[own], name=name, min_rows=2)
            found.append(Pair(request, told[name]))
        return told

    quadratic = PooledAggregator(pooled=QuadraticDiscriminantAnalysis(reg_param=0.1))
    tried = [
        Candidate("linear", GEMSLogisticAggregator([("all", None)], random_state=0)),
        Candidate("quadratic", quadratic, (StandardScaler(),)),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RowsExposedWarning)
        nodes = Nodes(ask, ["lyon", "paris"], min_rows=2)
        choose_over(nodes, lambda n_rows: tried)
    return found


# ---- requests, which nodes read --------------------------------------------

# One of each task and its fields, and a node that it went to, as fits have asked it.
_requests: dict[str, tuple[Message, str]] = {}


def requests(talks: list[Talk]) -> list[tuple[Message, object, np.ndarray, object]]:
    """Requests of every task, each with a node's classifier and its rows."""
    members = {}
    _requests.clear()
    for talk in talks:
        before = set(_requests)
        outcome_of(lambda talk=talk: talk.fit(None), talk.rows)
        for task in set(_requests) - before:
            name = _requests[task][1]
            members[task] = next(m for m in talk.members if m.name == name)
    agg = GEMSLogisticAggregator(epsilon=0.5, construction=Sampled(16), random_state=0)
    joined = first_request(agg, agg._first_requests())
    member = talks[0].members[0]
    found = [(joined, member)]
    for own in (SplineTransformer(), make_pipeline(StandardScaler(), OneHotEncoder())):
        front = PooledTransformer(own, bounds={0: (-9.0, 9.0)}).as_front()
        found.append((Message.of("front", front=front.as_content()), member))
    fitted = PooledTransformer(StandardScaler()).fit(member.X).as_front()
    found.append((joined.with_fields(front=fitted.as_content()), member))
    left_out = replace(
        fitted.columns, left_out=(True, *[False] * (member.X.shape[1] - 1))
    )
    dropping = replace(fitted, columns=left_out, states={}, drop_identifiers=True)
    found.append((Message.of("front", front=dropping.as_content()), member))
    own = {pair.request.task: (pair.request, member) for pair in choice_pairs()}
    found += [own["halves"], own["judge"]]
    return found + [(_requests[task][0], members[task]) for task in sorted(members)]


def tried_request(request: Message, member, folder, rng) -> tuple[str, str]:
    """A mutation of a request, and what comes of it at a node."""
    what, whole = mutated(request, request, rng, side="request")
    path = folder / "request.safetensors"
    path.write_bytes(whole)
    clear_cache()
    with _bounded(), warnings.catch_warnings():
        # What a model says that is out of all bounds harms who sent it.
        warnings.simplefilter("ignore")
        try:
            answer_file(
                path,
                member.picklable.estimator,
                member.X,
                member.y,
                name=member.name,
                to=folder / "reply.safetensors",
                min_rows=1,
            )
        except Exception as failure:
            _check_refusal(failure, names=lambda text: path.name in text)
            return what, "refused"
    return what, "accepted"
