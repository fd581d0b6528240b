# SPDX-License-Identifier: BSD-3-Clause
"""The tool that compares two commits: it sees what differs, and how much."""

from __future__ import annotations

import json

import numpy as np
import pytest
from golden import run
from golden.cases import AGGREGATORS
from golden.compare import (
    Change,
    Records,
    compared,
    new_changes,
    patterns,
    reason_not_read,
)
from golden.records import array, differences, only_now, record


def test_one_entry_of_an_array_is_seen():
    matrix = np.random.RandomState(0).standard_normal((20, 30))
    other = matrix.copy()
    other[3, 4] += 1e-3
    assert differences(array(matrix), array(matrix)) == []
    # Far more than the 5e-8 from which a difference matters.
    assert max(differences(array(other), array(matrix))).size > 1e-6


def test_another_shape_or_dtype_of_an_array_is_seen():
    matrix = np.random.RandomState(0).standard_normal((20, 30))
    assert differences(array(matrix), array(matrix.T))[0].size == np.inf
    single = array(matrix.astype(np.float32))
    assert differences(array(matrix), single)[0].size == np.inf


@pytest.mark.parametrize(
    "now, before, off",
    [
        ({"labels": "0 1 1"}, {"labels": "0 1 1"}, None),
        ({"labels": "0 1 1"}, {"labels": "0 1 2"}, np.inf),
        ({"losses": [1.01, 2.0]}, {"losses": [1.0, 2.0]}, 0.01 / 1.01),
        ({"losses": [1.0, 2.0, 3.0]}, {"losses": [1.0, 2.0]}, np.inf),
        ({"n": 3}, {"n": 4}, np.inf),
        ({"found": True}, {"found": False}, np.inf),
        ({"a": 1.0}, {"a": 1.0, "b": 1.0}, np.inf),
        ({"a": 1.0, "b": 1.0}, {"a": 1.0}, None),
        ({"reason": "new words"}, {"reason": "words"}, None),
        ({}, {"warnings": ["words of an older commit"]}, None),
    ],
)
def test_numbers_differ_by_a_share_and_all_else_infinitely(now, before, off):
    sizes = [difference.size for difference in differences(now, before)[:1]]
    assert sizes == pytest.approx([] if off is None else [off])


@pytest.mark.parametrize(
    "now, before, matters",
    [
        (0.3, 0.1 + 0.2, False),
        (1.0 + 4e-8, 1.0, False),
        (1.0 + 1e-7, 1.0, True),
        # Zero but for rounding.
        (1e-12, 0.0, False),
        (1e-7, 0.0, True),
        (1e9 + 10, 1e9, False),
        (1e9 + 100, 1e9, True),
    ],
)
def test_numbers_are_compared_to_eight_digits(now, before, matters):
    (difference,) = differences({"number": now}, {"number": before})
    assert difference.size > 0 and difference.matters == matters


def test_what_is_new_in_a_record_is_found_at_any_depth():
    now = {"a": {"b": 1, "c": 2}, "d": [{"e": 1}, {"e": 1, "f": 2}]}
    before = {"a": {"b": 1}, "d": [{"e": 1}, {"e": 1}]}
    assert only_now(now, before) == ["/a/c", "/d[1]/f"]
    assert only_now(before, now) == []


# ---- what is an error ----------------------------------------------------------

NOW = {"same": {"x": 1.0}, "near": {"x": 1.0}, "far": {"x": 2.0}, "new": {"x": 0.0}}
BEFORE = {
    "same": {"x": 1.0},
    "near": {"x": 1.0 + 1e-10},
    "far": {"x": 1.0},
    "old": {"x": 0.0},
}


def test_cases_that_differ_or_are_gone_are_errors_and_new_ones_are_not():
    report = compared(Records(now=NOW, before=BEFORE, read={}), [])
    assert report.errors == ["far", "old"]
    first, detail, *_, total, _read = report.lines
    assert first == "far: 1 differences, of 5.0e-01 at most"
    assert detail == "    /x: 2.0, before 1.0, 5.0e-01 off"
    assert "old: only before" in report.lines and "new: only now" in report.lines
    assert not any("near" in line for line in report.lines)
    assert total.startswith("4 cases: 2 equal to 8 digits, of which 1 to the bit; 1 d")


def test_what_is_named_as_intended_is_listed_and_no_error():
    intended = [Change(("fa*", "old"), "Twice as much."), Change(("never*",), "No.")]
    report = compared(Records(now=NOW, before=BEFORE, read={}), intended)
    assert report.errors == []
    assert report.lines[0].endswith("at most (intended: Twice as much.)")
    assert report.lines[-1] == "Named as intended, but nothing differs: never*"


def test_a_call_names_patterns_with_commas():
    (change,) = patterns("linear/a b, pooled/*,")
    assert change.names("linear/a b") and change.names("pooled/lda")
    assert not change.names("linear/a") and not change.names("read pooled/lda")
    assert patterns(" ") == []


def test_a_case_that_fails_is_an_error_even_if_it_is_intended():
    now = {"same": {"error": "ValueError('no')"}}
    report = compared(
        Records(now=now, before={"same": {"x": 1.0}}, read={}), patterns("same")
    )
    assert report.errors == ["same"]
    assert "same fails: ValueError('no')" in report.lines


LABELS = {"labels": "0 0"}
OTHERS = {"labels": "0 1"}


@pytest.mark.parametrize(
    "part, read",
    [
        ("pickle", {"error": "ModuleNotFoundError('no module')"}),
        ("pickle", OTHERS),
        ("files", OTHERS),
        ("messages", {"n_messages": 2, "other_digests": ["request"]}),
        ("messages", {"error": "ValueError('another version')"}),
    ],
)
def test_what_is_not_read_as_it_was_is_an_error(part, read):
    now = {"a": LABELS, "b": LABELS}
    records = Records(now=now, before=now, read={"a": {part: read}, "b": {part: read}})
    assert compared(records, []).errors == [f"read {part} a", f"read {part} b"]
    assert compared(records, patterns("a, b")).errors == [
        f"read {part} a",
        f"read {part} b",
    ]
    assert compared(records, patterns(f"read {part} a")).errors == [f"read {part} b"]
    named = compared(records, patterns(f"read {part} *"))
    assert named.errors == []
    (line,) = [line for line in named.lines if line.startswith("Not read")]
    assert line.endswith("(2 cases, all intended)")


def test_what_is_read_as_it_was_is_counted():
    now = {"a": {**LABELS, "proba": 0.5}}
    messages = {"n_messages": 3, "other_digests": []}
    read = {"pickle": LABELS, "files": now["a"], "messages": messages}
    report = compared(Records(now=now, before=now, read={"a": read}), [])
    assert report.errors == []
    assert report.lines[-1] == (
        "Read of the other commit: 1 pickles, 3 messages; 1 fits to its files"
    )


def test_an_entry_counts_until_it_has_landed():
    entry = '[[change]]\ncases = ["pooled/*"]\nreason = "{}"\n'
    before = entry.format("First.")
    now = before + entry.format("Then.")
    assert new_changes(before, "") == [Change(("pooled/*",), "First.")]
    assert new_changes(before, before) == []
    assert new_changes(now, before) == [Change(("pooled/*",), "Then.")]


def test_an_entry_without_a_reason_is_an_error():
    with pytest.raises(ValueError, match="needs cases, a list of patterns, and a rea"):
        new_changes('[[change]]\ncases = ["pooled/*"]\n', "")


# ---- cases ---------------------------------------------------------------------


def test_a_record_has_what_users_see():
    fields = record(AGGREGATORS["pfnm"]["rows"])
    assert {"coefs_", "labels", "proba", "assignments_"} <= set(fields)
    assert differences(fields, record(AGGREGATORS["pfnm"]["rows"])) == []


@pytest.mark.parametrize(
    "kind, name",
    [
        ("pooled", "summaries ridge"),
        ("fronts", "summaries"),
        ("channels", "region linear"),
        ("channels", "wire linear"),
    ],
)
def test_what_a_case_keeps_is_read(kind, name, tmp_path):
    case = AGGREGATORS[kind][name]
    records = json.loads(json.dumps({name: record(case)}))
    entry = run.keep(case(), tmp_path / "0")
    (tmp_path / "index.json").write_text(json.dumps({name: entry}))
    read = run.read_all(tmp_path, tmp_path)
    parts = {"pickle", "messages", "files"}
    assert read[name].keys() == parts - ({"files"} if name == "wire linear" else set())
    assert compared(Records(now=records, before=records, read=read), []).errors == []
    # One other bit of a message is noticed, and that no pickle is there.
    message = next(iter(entry["messages"]))
    content = (tmp_path / "0" / message).read_bytes()
    (tmp_path / "0" / message).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    (tmp_path / "0" / run.PICKLE).write_bytes(b"none")
    read = run.read_all(tmp_path, tmp_path)
    errors = compared(Records(now=records, before=records, read=read), []).errors
    assert {f"read pickle {name}", f"read messages {name}"} <= set(errors)


def test_a_result_without_a_pickle_is_kept_without_it(tmp_path):
    entry = run.keep((lambda: 0, []), tmp_path / "0")
    assert not entry["has_pickle"] and entry["messages"] == {}


@pytest.mark.parametrize(("off", "is_said"), [(1e-6, False), (1e-5, True)])
def test_what_is_read_predicts_the_same_but_for_the_rounding_of_float32(off, is_said):
    before = {"proba": [0.25, 0.75]}
    read = {"proba": [0.25, 0.75 * (1 + off)]}
    assert bool(reason_not_read("pickle", read, before)) == is_said
