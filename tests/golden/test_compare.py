# SPDX-License-Identifier: BSD-3-Clause
"""The tool that compares two commits: it sees what differs, and how much."""

from __future__ import annotations

import numpy as np
import pytest
from golden.cases import AGGREGATORS
from golden.compare import report
from golden.records import array, differences, record


def test_one_entry_of_an_array_is_seen():
    values = np.random.RandomState(0).standard_normal((20, 30))
    other = values.copy()
    other[3, 4] += 1e-3
    assert differences(array(values), array(values)) == []
    assert max(differences(array(other), array(values)))[0] > 1e-6
    assert differences(array(values), array(values.T))[0][0] == np.inf
    assert differences(array(values), array(values.astype(np.float32)))[0][0] == np.inf


@pytest.mark.parametrize(
    "now, before, off",
    [
        ({"labels": "0 1 1"}, {"labels": "0 1 1"}, None),
        ({"labels": "0 1 1"}, {"labels": "0 1 2"}, np.inf),
        ({"losses": [1.0, 1e-12]}, {"losses": [1.0, 0.0]}, None),
        ({"losses": [1.01, 2.0]}, {"losses": [1.0, 2.0]}, 0.01 / 1.01),
        ({"losses": [1.0, 2.0, 3.0]}, {"losses": [1.0, 2.0]}, np.inf),
        ({"n": 3}, {"n": 4}, np.inf),
        ({"found": True}, {"found": False}, np.inf),
        ({"a": 1.0}, {"b": 1.0}, np.inf),
    ],
)
def test_differences(now, before, off):
    found = differences(now, before)
    assert [size for size, _ in found[:1]] == pytest.approx(
        [] if off is None else [off]
    )


def test_cases_without_a_pair_are_listed_and_those_that_differ_come_first():
    now = {"same": {"x": 1.0}, "near": {"x": 1.0}, "far": {"x": 2.0}, "new": {}}
    before = {"same": {"x": 1.0}, "near": {"x": 1 + 1e-7}, "far": {"x": 1.0}}
    *lines, total = report(now, {**before, "old": {}})
    assert lines[:2] == ["new: only now", "old: only before"]
    assert lines[2].startswith("far: 1 differences, of 5.0e-01")
    assert not any("near" in line for line in lines)
    words = "4 cases: 1 equal to 8 digits, 1 to 1e-06, 1 differ, 2 without a pair"
    assert total == words


def test_a_record_has_what_users_see():
    found = record(AGGREGATORS["pfnm"]["rows"])
    assert {"coefs_", "labels", "proba", "assignments_"} <= set(found)
    assert differences(found, record(AGGREGATORS["pfnm"]["rows"])) == []
