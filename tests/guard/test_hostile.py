# SPDX-License-Identifier: BSD-3-Clause
"""Hostile files and fields are refused, in little time and memory."""

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
from helpers.broken import with_value_at as put_at
from sklearn.linear_model import LogisticRegression

import skgems
from skgems import GEMSLogisticAggregator
from skgems.asking import Message
from skgems.gems import Spaces
from skgems.messages import check_start, read_bytes
from skgems.parties import Summary
from skgems.spaces import Sampled

pytestmark = pytest.mark.usefixtures("accepting_nodes")


@pytest.fixture(scope="module")
def kinds():
    """Summaries to change, by the kind of moments and spaces that they have."""
    return {kind.name: kind for kind in hostile.kinds()}


@pytest.fixture(scope="module")
def talks():
    """Requests and replies to change."""
    return hostile.methods_of_rounds()


def aggregator(construction=None, **parameters):
    """An aggregator whose spaces are made in little time, of eight samples."""
    if construction is None:
        construction = Sampled(8)
    spaces = Spaces(construction=construction, on_empty="ignore")
    return GEMSLogisticAggregator(spaces=spaces, random_state=0, **parameters)


def refusals(path):
    """The errors of `Summary.load` and of a fit, which reads the file part by part."""
    errors = []
    agg = aggregator(estimators=[path], epsilon=0.4)
    for attempt in (lambda: Summary.load(path), agg.fit):
        with pytest.raises(ValueError) as caught:
            attempt()
        assert not isinstance(caught.value, np.linalg.LinAlgError)
        errors.append(str(caught.value))
    return errors


def bytes_of_changed(message, *, arrays=None, settings=None):
    """The bytes of a message after changes.

    `arrays` has the end of a name and a function of each array whose name ends so; it
    returns None to leave the array out. `settings` is a function that changes these.
    """
    new_arrays = dict(message.arrays)
    for end, change in (arrays or {}).items():
        names = [name for name in new_arrays if name.endswith(end)]
        assert names, end
        for name in names:
            array = change(np.array(new_arrays.pop(name)))
            if array is not None:
                new_arrays[name] = np.asarray(array, order="C")
    new_settings = json.loads(json.dumps(message.settings))
    if settings is not None:
        settings(new_settings)
    header = {"version": message.version, "task": message.task}
    return mutations.pack_file(header | {"settings": new_settings}, new_arrays)


# ---- files that are no messages ---------------------------------------------------


def file_of_header(text) -> bytes:
    """A file that has a header of this text, and no arrays."""
    text = text if isinstance(text, bytes) else text.encode("utf-8")
    return struct.pack("<Q", len(text)) + text


def header_with_metadata(metadata) -> str:
    """The text of a header without arrays."""
    return json.dumps({"__metadata__": {"skgems": metadata}})


def file_of_array(shape, offsets, dtype="F64"):
    """A file whose header has an array "a", whose bytes do not follow."""
    header = json.loads(header_with_metadata("{}"))
    header["a"] = {"dtype": dtype, "shape": shape, "data_offsets": offsets}
    return file_of_header(json.dumps(header))


def file_of_equal_arrays(original_of_copy):
    """A file of an empty array "a", and of others that are said to equal an array."""
    header = json.loads(header_with_metadata(json.dumps({"same": original_of_copy})))
    header["a"] = {"dtype": "F64", "shape": [0], "data_offsets": [0, 0]}
    return file_of_header(json.dumps(header))


# Bytes that are no message, and a part of the error that says why.
NOT_MESSAGES = {
    "empty": (b"", "it has 0 bytes"),
    "seven bytes": (b"1234567", "it has 7 bytes"),
    "a longer header than there is": (struct.pack("<Q", 2**60) + b"{}", "its header"),
    "pickle": (b"\x80\x04\x95" + bytes(60), "its header"),
    "no json": (file_of_header("{"), "its header cannot be read"),
    "no utf-8": (file_of_header(b"\xff\xfe{\x00}\x00"), "its header cannot be read"),
    "no table": (file_of_header("[]"), "its header is not a table"),
    "no metadata": (file_of_header("{}"), "its header has no metadata"),
    "metadata of others": (
        file_of_header('{"__metadata__": {"x": "y"}}'),
        "no metadata",
    ),
    "metadata that is no text": (
        file_of_header(header_with_metadata({})),
        "its metadata is not a text",
    ),
    "NaN": (
        file_of_header(header_with_metadata('{"version": NaN}')),
        "NaN is not a number of JSON",
    ),
    "a key twice": (file_of_header('{"a": 1, "a": 2}'), "are there twice"),
    "4 MB of keys": (
        file_of_header("{" + ", ".join(['"a": 0'] * (2**22 // 8 - 8)) + "}"),
        "are there twice",
    ),
    "4 MB of lists": (file_of_header("[" * (2**22 - 1)), "its header cannot be read"),
    "lists in lists": (
        file_of_header(
            header_with_metadata('{"settings": ' + "[" * 300 + "]" * 300 + "}")
        ),
        "tables in tables",
    ),
    "digits": (
        file_of_header(header_with_metadata('{"version": 1' + "0" * 9999 + "}")),
        "metadata",
    ),
    "2**60 elements": (file_of_array([2**60], [0, 2**63]), "'a' has the shape"),
    "2**32 squared": (file_of_array([2**32, 2**32], [0, 0]), "'a' of shape"),
    "five dimensions": (file_of_array([1] * 5, [0, 8]), "'a' has the shape"),
    "a negative shape": (file_of_array([-1], [0, 8]), "'a' has the shape"),
    "a shape of floats": (file_of_array([1.0], [0, 8]), "'a' has the shape"),
    "offsets beyond": (
        file_of_array([1], [0, 8]),
        "its arrays take 8 bytes, 0 are there",
    ),
    "offsets backwards": (file_of_array([1], [8, 0]), "'a' of shape"),
    "a gap": (file_of_array([1], [8, 16]) + bytes(16), "overlap, or leave gaps"),
    "bytes behind": (file_of_array([1], [0, 8]) + bytes(9), "9 are there"),
    "another dtype": (
        file_of_array([1], [0, 2], "BF16") + bytes(2),
        "'a' has the dtype",
    ),
    "a deep name": (
        file_of_header('{"__metadata__": {"skgems": "{}"}, "' + "a." * 10**5 + '": 0}'),
        "tables that are too deep",
    ),
    "an array twice": (
        file_of_equal_arrays({"a": "a"}),
        "array 'a' is said to equal 'a'",
    ),
    "equal to none": (
        file_of_equal_arrays({"b": "c"}),
        "array 'b' is said to equal 'c'",
    ),
    "equal to a number": (
        file_of_equal_arrays({"b": 0}),
        "array 'b' is said to equal 0",
    ),
    "no version": (file_of_header(header_with_metadata("{}")), "version None"),
    "another version": (
        file_of_header(header_with_metadata('{"version": 1}')),
        "version 1",
    ),
    "a version of truth": (
        file_of_header(header_with_metadata('{"version": true}')),
        "version True",
    ),
    "a header of more": (
        file_of_header(
            header_with_metadata(
                '{"version": 3, "task": "a", "settings": {}, "more": 1}'
            )
        ),
        "its header has the unknown field 'more'",
    ),
    "no task": (
        file_of_header(header_with_metadata('{"version": 3}')),
        "names no task",
    ),
}


@pytest.mark.parametrize("name", NOT_MESSAGES)
def test_files_that_are_no_messages_are_refused_in_little_time_and_memory(
    tmp_path, name
):
    content, match = NOT_MESSAGES[name]
    path = tmp_path / "lyon.safetensors"
    path.write_bytes(content)
    start = perf_counter()
    if len(content) < 2**20:  # tracing many small objects is slow
        tracemalloc.start()
    try:
        errors = refusals(path)
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()
    assert perf_counter() - start < 20
    for text in errors:
        assert str(path) in text
        assert match in text
        # What is quoted of a file is cut.
        assert len(text) < 600 + len(str(path))


@pytest.mark.parametrize("kind", ["folder", "link", "pipe", "device", "socket"])
@pytest.mark.skipif(os.name != "posix", reason="other systems have no such paths")
def test_paths_that_are_no_files_are_refused(tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)  # as the path of a socket must be short
    path = tmp_path / "lyon.safetensors"
    if kind == "folder":
        path.mkdir()
    elif kind == "link":
        (tmp_path / "other").write_bytes(b"")
        path.symlink_to(tmp_path / "other")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
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
        file.truncate(2**31)  # a sparse file, which takes no room on a disk
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


def test_20_000_arrays_in_one_table_are_read_in_little_time():
    names = [f"a.x{i}" for i in range(20_000)]
    array = {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}
    header = dict.fromkeys(names, array)
    message = {"version": 3, "task": "join", "settings": {"a": {}}}
    header["__metadata__"] = {"skgems": json.dumps(message)}
    start = perf_counter()
    message = Message.from_bytes(file_of_header(json.dumps(header)))
    assert len(message.content["a"]) == len(names)
    assert perf_counter() - start < 5


# ---- fields that are wrong -------------------------------------------------


def tables_at(tables, part):
    """The tables that tables have at a key; or the answers to the task of this name."""
    tables_of_key = [table[part] for table in tables if part in table]
    if tables_of_key or part not in ("moments", "space"):
        return tables_of_key
    answers = [answer for table in tables for answer in table.values()]
    return [answer for answer in answers if answer.get("task") == part]


def put(place, value):
    """The change that puts a value at a place of the settings, as ``"a.b.c"``."""

    def change(settings):
        *path, last = place.split(".")
        tables = [settings]
        for part in path:
            tables = tables_at(tables, part)
        for table in tables:
            table[last] = value

    return {"settings": change}


def with_first_number(value):
    """The change that puts a number at the first place of an array."""

    def change(array):
        array.flat[0] = value
        return array

    return change


def with_large_products(triangles):
    """Products of features that are larger than their squares allow."""
    triangles[:, 1] = 10 * triangles.max()
    return triangles


def not_symmetric(array):
    array[0, 1] += 1.0
    return array


# Changes of a message, and a part of the error that says what is wrong with it.
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
    "scatters of more rows": (
        {"arrays": {"group_counts": lambda a: 2 * a}},
        "moments.group_counts are not those of describe.rows",
    ),
    "products without squares": (
        {"arrays": {".triangles": with_first_number(0.0)}},
        "moments.triangles of group 0 has products of a feature without squares",
    ),
    "large in few digits": (
        {
            "arrays": {
                "coefs.0": lambda a: with_first_number(1e16)(a.astype(np.float32))
            }
        },
        "describe.network.coefs[0] has 1 values above 1e+15",
    ),
    "radii out of order": (
        {"arrays": {"radii_radii": with_first_number(np.inf)}},
        "space.radii_radii are not in their order",
    ),
    "not symmetric": (
        {"arrays": {"metric_scatter": not_symmetric}},
        "space.metric_scatter is not symmetric",
    ),
    "not positive": (
        {"arrays": {".triangles": with_large_products}},
        "moments.triangles of group 0 has a negative eigenvalue",
    ),
    "negative squares": (
        {"arrays": {".triangles": with_first_number(-1.0)}},
        "moments.triangles of group 0 has negative squares",
    ),
    "fewer rows": (
        {"arrays": {"moments.counts": with_first_number(3.0)}},
        "moments.counts are not those of describe.rows",
    ),
    "part of a row": (
        {"arrays": {"moments.counts": with_first_number(1e-320)}},
        "moments.counts are not all of a row at least",
    ),
    "a huge gradient": (
        {"arrays": {"gradient": with_first_number(1e9)}},
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
        {"arrays": {"counts.counts": with_first_number(7)}},
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
    changes, match = FIELDS[name]
    path = tmp_path / "lyon.safetensors"
    path.write_bytes(bytes_of_changed(kinds["gram, within"].summary.message, **changes))
    with pytest.raises(ValueError) as caught:
        Summary.load(path)
    assert f"{path}: {match}" in str(caught.value)
    if "asked" in match:
        return  # the fit does not ask for the same
    with pytest.raises(ValueError) as caught:
        kinds["gram, within"].fit(path)
    if "asked again" not in str(caught.value):
        assert f"{path}: {match}" in str(caught.value)


@pytest.mark.parametrize(
    "field, change, match",
    [
        (".squares", lambda a: a[1:], "moments.squares has the shape"),
        (
            "radii_knots",
            with_first_number(1e-9),
            "space.radii_knots do not rise from 0",
        ),
    ],
)
def test_fields_that_only_other_kinds_have_are_checked(
    tmp_path, kinds, field, change, match
):
    path = tmp_path / "lyon.safetensors"
    message = kinds["shared, ellipsoid, log-loss"].summary.message
    path.write_bytes(bytes_of_changed(message, arrays={field: change}))
    with pytest.raises(ValueError) as caught:
        Summary.load(path)
    assert f"{path}: {match}" in str(caught.value)


def test_a_region_with_a_larger_slope_than_its_moments_allow_is_refused():
    X, y = hostile.data()
    agg = aggregator()
    clf = LogisticRegression().fit(X, y)
    summaries = [
        agg.summarize(clf, X[::2], y[::2], name="a", disclosure=None),
        agg.summarize(clf, X[1::2], y[1::2], name="b", disclosure=None),
    ]
    region = agg.merge_summaries(summaries, name="region")
    content = bytes_of_changed(region.message, arrays={"slope": lambda a: a + 1e4})
    with pytest.raises(ValueError, match="slope is larger than these moments allow"):
        Summary(Message.from_bytes(content))


@pytest.mark.parametrize("name", ["cut short", "flipped", "grown", "of another kind"])
def test_broken_replies_of_an_exchange_are_refused(tmp_path, name):
    X, y = hostile.data()
    exchange = skgems.Exchange(tmp_path, aggregator(n_rounds=2), nodes=["lyon"])
    clf = LogisticRegression().fit(X, y)
    tasks = set()
    while (fitted := exchange.step()) is None:
        reply = skgems.answer(exchange.waiting_for["lyon"], clf, X, y, name="lyon")
        content = reply.read_bytes()
        message = Message.from_bytes(content)
        tasks.add(message.task)
        if name == "cut short":
            broken = content[:-1]
        elif name == "grown":
            broken = content + b"\0"
        elif name == "flipped":
            broken = content[:8] + bytes([content[8] ^ 1]) + content[9:]
        else:
            broken = replace(message, task="train").to_bytes()
        reply.write_bytes(broken)
        with pytest.raises(ValueError, match=str(reply)):
            exchange.step()
        reply.write_bytes(content)
    assert tasks >= {"join", "evaluate"}
    assert np.isfinite(fitted.coef_).all()


def test_a_file_that_changes_while_it_is_used_is_refused(tmp_path, kinds):
    kind = kinds["gram, within"]
    path = tmp_path / "lyon.safetensors"
    kind.summary.save(path)
    file = Summary.at(path)
    kind.honest.save(path)
    with pytest.raises(ValueError, match=r"lyon\.safetensors: the file has changed"):
        kind.fit(file)


def test_truth_values_and_numbers_as_labels_of_two_nodes_are_refused():
    X, y = hostile.data()
    agg = aggregator()
    summaries = []
    for name, labels in (("lyon", y % 2 == 0), ("paris", y)):
        clf = LogisticRegression().fit(X, labels)
        summaries.append(agg.summarize(clf, X, labels, name=name))
    with pytest.raises(ValueError, match="Node 'lyon' has truth values as labels"):
        agg.set_params(estimators=summaries).fit()


def test_the_name_of_public_rows_cannot_be_that_of_a_node(kinds):
    kind = kinds["gram, within"]
    content = bytes_of_changed(kind.summary.message, **put("name", "public"))
    with pytest.raises(ValueError, match="'public' cannot be the name of a node"):
        kind.fit(Summary(Message.from_bytes(content)))


@pytest.mark.parametrize("value", [None, [], {}, "x", True, 10**300])
def test_settings_of_another_type_are_refused_with_the_name_of_the_node(kinds, value):
    kind = kinds["gram, within"]
    content = bytes_of_changed(kind.summary.message, **put("settings.geometry", value))
    with pytest.raises(ValueError, match="Node 'lyon' was summarized with geometry="):
        kind.fit(Summary(Message.from_bytes(content)))


# ---- mutations -------------------------------------------------------------


def test_mutated_summaries_are_refused_or_make_a_finite_model(kinds):
    outcomes = Counter()
    names = list(kinds)
    for i in range(150):
        rng = np.random.default_rng([1, i])
        kind = kinds[names[i % len(names)]]
        other = kinds[names[int(rng.integers(len(names)))]]
        _, content = mutations.mutate_at_random(
            kind.summary.message, other.honest.message, rng
        )
        outcomes[hostile.outcome_of_summary(kind, content)] += 1
    # Of 150: most mutations are wrong, and some change nothing that matters.
    assert outcomes["refused on load"] > 90
    assert outcomes["accepted"] > 6


def test_mutated_replies_are_refused_or_make_a_finite_model(talks):
    outcomes = Counter()
    for i in range(10):
        rng = np.random.default_rng([2, i])
        _, outcome = hostile.outcome_of_mutated_reply(talks[i % len(talks)], rng)
        outcomes[outcome] += 1
    assert outcomes["refused"] > 2


def test_mutated_requests_are_refused_or_answered(talks, tmp_path):
    outcomes = Counter()
    requests = hostile.requests(talks)
    assert {request.task for request, _ in requests} >= {"join", "evaluate", "train"}
    for i in range(40):
        rng = np.random.default_rng([3, i])
        request, member = requests[i % len(requests)]
        _, outcome = hostile.outcome_of_mutated_request(request, member, tmp_path, rng)
        outcomes[outcome] += 1
    assert outcomes["refused"] > 10


def test_a_network_without_names_of_features_is_taken(kinds):
    kind = kinds["gram, within"]
    place = ("describe", "network", "feature_names")
    content = put_at(kind.summary.message.content, place, MISSING)
    assert np.isfinite(kind.fit(Summary(Message.of("join", **content))).coef_).all()
