# SPDX-License-Identifier: BSD-3-Clause
"""Files and fields that hostile nodes may send: each is refused in bounds."""

from __future__ import annotations

import json
import os
import socket
import struct
import tracemalloc
from collections import Counter
from dataclasses import replace
from time import perf_counter

import numpy as np
import pytest
from helpers import hostile, mutations
from helpers.broken import MISSING
from helpers.broken import put as put_at
from scipy import sparse
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

import skgems
from skgems import GEMSLogisticAggregator, ModelAveragingAggregator, PFNMAggregator
from skgems.federation import Message, Summary
from skgems.messages import check_start, read_bytes
from skgems.spaces import Sampled

pytestmark = pytest.mark.filterwarnings("ignore::skgems.federation.RowsExposedWarning")

FEW = {"construction": Sampled(8), "random_state": 0}


@pytest.fixture(scope="module")
def kinds():
    return {kind.name: kind for kind in hostile.kinds()}


@pytest.fixture(scope="module")
def talks():
    return hostile.talks()


def aggregator(**params):
    return GEMSLogisticAggregator(**{**FEW, **params})


def refusals(path):
    """What `load` and a fit on the path, which reads as it goes, say of a file."""
    found = []
    agg = aggregator(estimators=[path], epsilon=0.4, on_empty="ignore")
    for attempt in (lambda: Summary.load(path), agg.fit):
        with pytest.raises(ValueError) as caught:
            attempt()
        assert not isinstance(caught.value, np.linalg.LinAlgError)
        found.append(str(caught.value))
    return found


def changed(message, *, arrays=None, settings=None):
    """A message with other arrays, by how their names end, and other settings."""
    told, plain = dict(message.arrays), json.loads(json.dumps(message.settings))
    for end, change in (arrays or {}).items():
        names = [name for name in told if name.endswith(end)]
        assert names, end
        for name in names:
            new = change(np.array(told.pop(name)))
            if new is not None:
                told[name] = np.asarray(new, order="C")
    if settings is not None:
        settings(plain)
    return mutations.packed(
        {"version": message.version, "task": message.task, "settings": plain}, told
    )


# ---- files that are none ---------------------------------------------------


def header_of(text) -> bytes:
    text = text if isinstance(text, bytes) else text.encode("utf-8")
    return struct.pack("<Q", len(text)) + text


def metadata(about) -> str:
    return json.dumps({"__metadata__": {"skgems": about}})


def entry(shape, offsets, dtype="F64", about="{}"):
    header = json.loads(metadata(about))
    header["a"] = {"dtype": dtype, "shape": shape, "data_offsets": offsets}
    return header_of(json.dumps(header))


def same(told):
    """A file of an empty array, which others are said to equal."""
    about = {"__metadata__": {"skgems": json.dumps({"same": told})}}
    array = {"dtype": "F64", "shape": [0], "data_offsets": [0, 0]}
    return header_of(json.dumps(about | {"a": array}))


NOT_FILES = {
    "empty": (b"", "it has 0 bytes"),
    "seven bytes": (b"1234567", "it has 7 bytes"),
    "a longer header than there is": (struct.pack("<Q", 2**60) + b"{}", "its header"),
    "pickle": (b"\x80\x04\x95" + bytes(60), "its header"),
    "no json": (header_of("{"), "its header cannot be read"),
    "no utf-8": (header_of(b"\xff\xfe{\x00}\x00"), "its header cannot be read"),
    "no table": (header_of("[]"), "its header is no table"),
    "no metadata": (header_of("{}"), "its header has no metadata"),
    "metadata of others": (header_of('{"__metadata__": {"x": "y"}}'), "no metadata"),
    "metadata that is no text": (header_of(metadata({})), "its metadata is no text"),
    "NaN": (header_of(metadata('{"version": NaN}')), "NaN is no number of JSON"),
    "a key twice": (header_of('{"a": 1, "a": 2}'), "stand there twice"),
    "4 MB of keys": (
        header_of("{" + ", ".join(['"a": 0'] * (2**22 // 8 - 8)) + "}"),
        "stand there twice",
    ),
    "4 MB of lists": (header_of("[" * (2**22 - 1)), "its header cannot be read"),
    "lists in lists": (
        header_of(metadata('{"settings": ' + "[" * 300 + "]" * 300 + "}")),
        "tables in tables",
    ),
    "digits": (header_of(metadata('{"version": 1' + "0" * 9999 + "}")), "metadata"),
    "2**60 elements": (entry([2**60], [0, 2**63]), "'a' has the shape"),
    "2**32 squared": (entry([2**32, 2**32], [0, 0]), "'a' of shape"),
    "five dimensions": (entry([1] * 5, [0, 8]), "'a' has the shape"),
    "a negative shape": (entry([-1], [0, 8]), "'a' has the shape"),
    "a shape of floats": (entry([1.0], [0, 8]), "'a' has the shape"),
    "offsets beyond": (entry([1], [0, 8]), "its arrays take 8 bytes, 0 are there"),
    "offsets backwards": (entry([1], [8, 0]), "'a' of shape"),
    "a gap": (entry([1], [8, 16]) + bytes(16), "overlap, or leave gaps"),
    "bytes behind": (entry([1], [0, 8]) + bytes(9), "9 are there"),
    "another dtype": (entry([1], [0, 2], "BF16") + bytes(2), "'a' has the dtype"),
    "a deep name": (
        header_of('{"__metadata__": {"skgems": "{}"}, "' + "a." * 10**5 + '": 0}'),
        "tables that are too deep",
    ),
    "an array twice": (same({"a": "a"}), "array 'a' is said to equal 'a'"),
    "equal to none": (same({"b": "c"}), "array 'b' is said to equal 'c'"),
    "equal to a number": (same({"b": 0}), "array 'b' is said to equal 0"),
    "no version": (header_of(metadata("{}")), "version None"),
    "another version": (header_of(metadata('{"version": 1}')), "version 1"),
    "a version of truth": (header_of(metadata('{"version": true}')), "version True"),
    "a header of more": (
        header_of(metadata('{"version": 3, "task": "a", "settings": {}, "more": 1}')),
        "its header has 'more'",
    ),
    "no task": (header_of(metadata('{"version": 3}')), "names no task"),
}


@pytest.mark.parametrize("name", NOT_FILES)
def test_what_is_no_message_is_refused_in_bounds(tmp_path, name):
    data, match = NOT_FILES[name]
    path = tmp_path / "lyon.safetensors"
    path.write_bytes(data)
    start = perf_counter()
    if len(data) < 2**20:  # it is slow
        tracemalloc.start()
    try:
        told = refusals(path)
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()
    assert perf_counter() - start < 20
    for text in told:
        assert str(path) in text
        assert match in text
        assert len(text) < 600 + len(str(path))


@pytest.mark.parametrize("what", ["folder", "link", "pipe", "device", "socket"])
@pytest.mark.skipif(os.name != "posix", reason="what there is on posix")
def test_what_is_no_file_is_refused(tmp_path, monkeypatch, what):
    monkeypatch.chdir(tmp_path)  # addresses of sockets are short
    path = tmp_path / "lyon.safetensors"
    if what == "folder":
        path.mkdir()
    elif what == "link":
        (tmp_path / "other").write_bytes(b"")
        path.symlink_to(tmp_path / "other")
    elif what == "pipe":
        os.mkfifo(path)
    elif what == "device":
        path = os.devnull
    else:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path.name)
    for text in refusals(path):
        assert str(path) in text
        assert "no file" in text or "not a file" in text


def test_a_large_file_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "lyon.safetensors"
    with open(path, "wb") as file:
        file.truncate(2**31)  # takes no room
    tracemalloc.start()
    try:
        assert all("its header" in text for text in refusals(path))
        assert tracemalloc.get_traced_memory()[1] < 2**25
    finally:
        tracemalloc.stop()
    with open(path, "wb") as file:
        file.truncate(2**32 + 1)
    assert all("more than 4294967296" in text for text in refusals(path))
    with pytest.raises(ValueError, match="more than 10"):
        read_bytes(path, most=10, look=check_start)


def test_a_name_of_an_array_for_each_setting_takes_no_time():
    header, names = {}, [f"a.x{i}" for i in range(20_000)]
    for name in names:
        header[name] = {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}
    told = {"version": 3, "task": "join", "settings": {"a": {}}}
    header["__metadata__"] = {"skgems": json.dumps(told)}
    start = perf_counter()
    message = Message.from_bytes(header_of(json.dumps(header)))
    assert len(message.content["a"]) == len(names)
    assert perf_counter() - start < 5


# ---- fields that are wrong -------------------------------------------------


def put(where, value):
    """Put a value at ``"a.b.0"`` of the settings."""

    def change(settings):
        *path, last = where.split(".")
        tables = [settings]
        for part in path:
            found = [table[part] for table in tables if part in table]
            if part in ("moments", "space"):  # all answers to a task
                own = [t for table in tables for t in table.values()]
                found = found or [t for t in own if t.get("task") == part]
            tables = found
        for table in tables:
            table[last] = value

    return {"settings": change}


def one(value):
    def change(array):
        array.flat[0] = value
        return array

    return change


def wide(array):
    """Not positive: products larger than the squares allow."""
    array[:, 1] = 10 * array.max()
    return array


def skewed(array):
    array[0, 1] += 1.0
    return array


FIELDS = {
    "missing table": (
        put("answers.moments.reply.form", {}),
        "moments.form.kind is missing",
    ),
    "no name": (put("name", ""), "summary.name is empty"),
    "no rows": (
        {"arrays": {"rows.judging": np.zeros_like}},
        "describe.rows.judging are no rows at all",
    ),
    "parts out of order": (
        {"arrays": {"moments.columns": lambda a: a[::-1].copy()}},
        "moments.columns are no classes, or not in their order",
    ),
    "a scatter twice": (
        {"arrays": {"moments.groups": np.zeros_like}},
        "moments.groups are no classes, or one stands there twice",
    ),
    "a gradient of no model": (
        {"arrays": {"gradient": lambda a: a + np.eye(*a.shape)}},
        "moments.gradient does not sum to 0 over the outputs",
    ),
    "radii of more rows": (
        {"arrays": {"radii_n_rows": lambda a: 2 * a}},
        "space.radii_n_rows is more than describe.rows has",
    ),
    "rows that are lost and found": (
        {"arrays": {"radii_may_lose": lambda a: a[::-1].copy()}},
        "space.radii_may_lose does not rise from 0",
    ),
    "a score of other rows": (
        {"arrays": {"radii_score": lambda a: 0.5 * a}},
        "space.radii_score is 0.",
    ),
    "scatters of more rows": (
        {"arrays": {"group_counts": lambda a: 2 * a}},
        "moments.group_counts are not those of describe.rows",
    ),
    "products without squares": (
        {"arrays": {".triangles": one(0.0)}},
        "moments.triangles of group 0 has products of a feature without squares",
    ),
    "large in few digits": (
        {"arrays": {"coefs.0": lambda a: one(1e16)(a.astype(np.float32))}},
        "describe.network.coefs[0] has 1 values above 1e+15",
    ),
    "radii out of order": (
        {"arrays": {"radii_radii": one(np.inf)}},
        "space.radii_radii are not in their order",
    ),
    "not symmetric": (
        {"arrays": {"metric_scatter": skewed}},
        "space.metric_scatter is not symmetric",
    ),
    "not positive": (
        {"arrays": {".triangles": wide}},
        "moments.triangles of group 0 has a negative eigenvalue",
    ),
    "negative squares": (
        {"arrays": {".triangles": one(-1.0)}},
        "moments.triangles of group 0 has negative squares",
    ),
    "means beyond counts": (
        {"arrays": {".means": lambda a: a + 1e3}},
        "moments.means are further from the origin than counts allow",
    ),
    "fewer rows": (
        {"arrays": {"moments.counts": one(3.0)}},
        "moments.counts are not those of describe.rows",
    ),
    "part of a row": (
        {"arrays": {"moments.counts": one(1e-320)}},
        "moments.counts are not all of a row at least",
    ),
    "a huge gradient": (
        {"arrays": {"gradient": one(1e9)}},
        "moments.gradient is larger than these moments allow",
    ),
    "labels that take much memory": (
        put("describe.rows.labels", [*map(str, range(10, 50)), "z" * 2**21]),
        "describe.rows.labels has texts that are too long",
    ),
    "no class": (
        {"arrays": {"network.seen": lambda a: np.zeros_like(a)}},
        "describe.network.seen is true of no class",
    ),
    "another model's space": (
        {"arrays": {"reply.center": lambda a: 2 * a}},
        "space.center is not the model itself",
    ),
    "another family": (
        put("answers.space.reply.family", "diagonal"),
        "space.family is",
    ),
    "a space of another criterion": (
        put("answers.space.asked.criterion", {"name": "log_loss"}),
        "space.radii_radii is there",
    ),
    "another kind": (
        put("answers.moments.asked.kind", "diagonal"),
        "moments.triangles is there, but 'diagonal' was asked for",
    ),
    "counts that differ": (
        {"arrays": {"counts.counts": one(7)}},
        "counts.counts are not those of describe.rows",
    ),
    "another task": (put("answers.moments.task", "train"), "summary.answers.0.task is"),
    "one class less that was seen": (
        {"arrays": {"network.seen": lambda a: a[1:]}},
        "describe.network.seen has the shape (2,), not (3)",
    ),
    "weights of one output less": (
        {"arrays": {"metric_output_weights": lambda a: a[1:]}},
        "space.metric_output_weights has the shape",
    ),
    "names of one feature": (
        put("describe.network.feature_names", ["a"]),
        "describe.network.feature_names are not one for each feature",
    ),
}


@pytest.mark.parametrize("name", FIELDS)
def test_every_field_is_checked_on_load_and_on_use(tmp_path, kinds, name):
    how, match = FIELDS[name]
    path = tmp_path / "lyon.safetensors"
    path.write_bytes(changed(kinds["gram, within"].summary.message, **how))
    with pytest.raises(ValueError) as caught:
        Summary.load(path)
    assert f"{path}: {match}" in str(caught.value)
    if ".asked." in str(how.get("settings")) or "asked" in match:
        return  # the fit asks something else
    with pytest.raises(ValueError) as caught:
        kinds["gram, within"].fit(path)
    if "asked again" not in str(caught.value):
        assert f"{path}: {match}" in str(caught.value)


@pytest.mark.parametrize(
    "field, change, match",
    [
        (".squares", lambda a: None, "moments.squares is missing, but 'shared' was"),
        (".squares", lambda a: 2 * a, "moments.squares are more than those of all"),
        (".squares", lambda a: a[1:], "moments.squares has the shape"),
        ("radii_knots", one(1e-9), "space.radii_knots do not rise from 0"),
        ("radii_losses", one(99.0), "space.radii_losses do not begin with the score"),
    ],
)
def test_fields_of_other_kinds_are_checked(tmp_path, kinds, field, change, match):
    path = tmp_path / "lyon.safetensors"
    message = kinds["shared, ellipsoid, log-loss"].summary.message
    path.write_bytes(changed(message, arrays={field: change}))
    with pytest.raises(ValueError) as caught:
        Summary.load(path)
    assert f"{path}: {match}" in str(caught.value)


def test_a_region_says_no_more_than_its_moments_allow():
    X, y = hostile.data()
    agg = aggregator()
    clf = LogisticRegression().fit(X, y)
    rows = {"a": slice(0, None, 2), "b": slice(1, None, 2)}
    nodes = [
        agg.summarize(clf, X[own], y[own], name=name, min_rows=1)
        for name, own in rows.items()
    ]
    region = agg.merge_summaries(nodes, name="region")
    whole = changed(region.message, arrays={"slope": lambda a: a + 1e4})
    with pytest.raises(ValueError, match="slope is larger than these moments allow"):
        Summary(Message.from_bytes(whole))


@pytest.mark.parametrize("name", ["cut short", "flipped", "grown", "of another kind"])
def test_broken_replies_of_an_exchange_are_refused(tmp_path, name):
    X, y = hostile.data()
    exchange = skgems.Exchange(tmp_path, aggregator(n_rounds=3), nodes=["lyon"])
    clf = LogisticRegression().fit(X, y)
    asked_for = set()
    while (fitted := exchange.step()) is None:
        reply = skgems.answer(exchange.waiting_for["lyon"], clf, X, y, name="lyon")
        whole = reply.read_bytes()
        message = Message.from_bytes(whole)
        asked_for.add(message.task)
        if name == "cut short":
            broken = whole[:-1]
        elif name == "grown":
            broken = whole + b"\0"
        elif name == "flipped":
            broken = whole[:8] + bytes([whole[8] ^ 1]) + whole[9:]
        else:
            broken = replace(message, task="train").to_bytes()
        reply.write_bytes(broken)
        with pytest.raises(ValueError, match=str(reply)):
            exchange.step()
        reply.write_bytes(whole)
    assert asked_for >= {"join", "evaluate"}
    assert np.isfinite(fitted.coef_).all()


def test_a_file_that_changes_while_it_is_used_is_refused(tmp_path, kinds):
    kind, path = kinds["gram, within"], tmp_path / "lyon.safetensors"
    kind.summary.save(path)
    file = Summary.at(path)
    kind.honest.save(path)
    with pytest.raises(ValueError, match=r"lyon\.safetensors: the file has changed"):
        kind.fit(file)


def test_nodes_whose_labels_would_be_taken_for_each_other_are_refused():
    X, y = hostile.data()
    agg = aggregator()
    sent = []
    for name, labels in (("lyon", y % 2 == 0), ("paris", y)):
        clf = LogisticRegression().fit(X, labels)
        sent.append(agg.summarize(clf, X, labels, name=name))
    with pytest.raises(ValueError, match="Node 'lyon' has truth values for labels"):
        agg.set_params(estimators=sent).fit()


@pytest.mark.parametrize("name", ["a__x", "public", "estimators", "epsilon"])
def test_names_that_nodes_must_not_have(kinds, name):
    kind = kinds["gram, within"]
    whole = changed(kind.summary.message, **put("name", name))
    with pytest.raises(ValueError, match=f"{name!r} cannot be the name of a node"):
        kind.fit(Summary(Message.from_bytes(whole)))


@pytest.mark.parametrize("value", [None, [], {}, "x", True, 10**300])
def test_settings_of_other_kinds_name_the_node(kinds, value):
    kind = kinds["gram, within"]
    whole = changed(kind.summary.message, **put("settings.geometry", value))
    with pytest.raises(ValueError, match="Node 'lyon' was summarized with geometry="):
        kind.fit(Summary(Message.from_bytes(whole)))


# ---- mutations -------------------------------------------------------------


def test_mutated_summaries_are_refused_or_make_a_finite_model(kinds):
    told, names = Counter(), list(kinds)
    for i in range(300):
        rng = np.random.default_rng([1, i])
        kind = kinds[names[i % len(names)]]
        other = kinds[names[int(rng.integers(len(names)))]]
        _, whole = mutations.mutated(kind.summary.message, other.honest.message, rng)
        told[hostile.tried(kind, whole)] += 1
    assert told["refused on load"] > 180
    assert told["accepted"] > 12


def test_mutated_replies_are_refused_or_make_a_finite_model(talks):
    told = Counter()
    for i in range(20):
        rng = np.random.default_rng([2, i])
        told[hostile.tried_reply(talks[i % len(talks)], rng)[1]] += 1
    assert told["refused"] > 4


def test_mutated_requests_are_refused_or_answered(talks, tmp_path):
    told, asked = Counter(), hostile.requests(talks)
    assert {request.task for request, _ in asked} >= {"join", "evaluate", "train"}
    for i in range(80):
        rng, (request, member) = np.random.default_rng([3, i]), asked[i % len(asked)]
        told[hostile.tried_request(request, member, tmp_path, rng)[1]] += 1
    assert told["refused"] > 20


# ---- honest nodes ----------------------------------------------------------


def rows_of(kind):
    X, y = hostile.data()
    rng = np.random.default_rng(0)
    if kind == "sparse":
        X = sparse.csr_matrix(np.where(np.abs(X) > 1.5, X, 0.0))
    elif kind == "sparse, float32":
        X = sparse.csr_matrix(np.where(np.abs(X) > 1.5, X, 0.0).astype(np.float32))
    elif kind == "constant features":
        X[:, [0, 3]] = [7.0, 0.0]
    elif kind == "features that are equal":
        X[:, 1] = X[:, 0]
    elif kind == "more features than rows":
        X = rng.normal(size=(24, 40))
        y = np.arange(24) % 4
    elif kind == "float32":
        X = X.astype(np.float32)
    elif kind == "far from 0":
        X = 1e6 + X
    elif kind == "units":
        X = X * 10.0 ** np.array([-12, -3, 0, 6, 12])
    elif kind == "rows that are equal":
        X = X[:4].repeat(15, axis=0)
        y = y[:4].repeat(15)
    elif kind == "texts":
        y = np.array(["é", "b c", "", "Z"])[y]
    elif kind == "truth":
        y = y > 1
    elif kind == "floats":
        y = y * 2.0 - 1.0
    elif kind == "negative":
        y = y - 2**62
    elif kind == "uneven":
        kept = (y > 0) | (np.arange(60) < 9)
        X, y = X[kept], y[kept]
    return X, y


ROWS = [
    *("plain", "sparse", "sparse, float32", "constant features"),
    *("features that are equal", "more features than rows", "float32", "far from 0"),
    *("units", "rows that are equal", "texts", "truth", "floats", "negative"),
    "uneven",
]
HOW = {
    "plain": ({}, {}),
    "held out": ({}, {"held_out": True}),
    "ball": ({"geometry": "ball", "moments": "shared"}, {"space": True}),
    "ellipsoid": ({"geometry": "ellipsoid", "moments": "diagonal"}, {"space": True}),
    "log-loss": (
        {"criterion": "log_loss", "construction": "certified"},
        {"classes": True},
    ),
    "log-loss, sampled": ({"criterion": "log_loss"}, {"classes": True}),
    "few rows of a class": ({"min_cluster_size": 5, "n_components": 3}, {}),
    "float16": ({}, {"dtype": "float16", "space": True}),
    "rank": ({}, {"rank": 1}),
    "clusters": ({"n_components": 4, "scale_logits": False}, {}),
}


# Each kind of rows as it comes, and each way to summarize with three kinds.
HONEST = [(kind, "plain") for kind in ROWS]
for number, how in enumerate(HOW):
    HONEST += [(ROWS[(4 * number + more) % len(ROWS)], how) for more in (1, 6)]
    HONEST += [("plain", how)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("kind", "how"), sorted(set(HONEST)))
def test_honest_summaries_are_taken(kind, how):
    X, y = rows_of(kind)
    params, given = HOW[how]
    given = dict(given, min_rows=1)
    if "classes" in given:
        given["classes"] = np.unique(y)
    if "held_out" in given:
        given["held_out"] = np.arange(len(y)) % 3 == 0
    agg = aggregator(**params)
    clf = LogisticRegression(max_iter=1000).fit(X, y)
    if how == "ball" and kind == "plain":
        clf = DummyClassifier().fit(X, y)
    summary = agg.summarize(clf, X, y, name="lyon", **given)
    again = Summary(Message.from_bytes(summary.message.to_bytes()))
    assert again.n_rows == summary.n_rows


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["plain", "float32", "texts", "truth", "sparse"])
@pytest.mark.parametrize("agg", [PFNMAggregator(), ModelAveragingAggregator()])
def test_honest_networks_are_taken(kind, agg):
    X, y = rows_of(kind)
    net = MLPClassifier((3,), max_iter=10, random_state=0).fit(X, y)
    for clf in (net, DummyClassifier().fit(X, y)):
        summary = agg.summarize(clf, X, y, name="lyon")
        Summary(Message.from_bytes(summary.message.to_bytes()))


def test_a_network_without_names_of_features_is_taken(kinds):
    kind, where = kinds["gram, within"], ("describe", "network", "feature_names")
    content = put_at(kind.summary.message.content, where, MISSING)
    assert np.isfinite(kind.fit(Summary(Message.of("join", **content))).coef_).all()


def test_one_class_is_taken():
    X, y = hostile.data()
    agg = aggregator()
    ones = np.ones(len(y), dtype=int)
    clf = DummyClassifier().fit(X, ones)
    sent = [agg.summarize(clf, X, ones, name="lyon")]
    sent.append(agg.summarize(LogisticRegression().fit(X, y), X, y, name="paris"))
    fitted = agg.set_params(estimators=sent).fit()
    assert fitted.classes_.tolist() == [0, 1, 2, 3]
