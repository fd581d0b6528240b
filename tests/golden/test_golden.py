# SPDX-License-Identifier: BSD-3-Clause
"""Results are what they were: every case against what was recorded of it.

The tables of cases are in ``cases_*.py``, what is recorded and how closely it is
compared in ``records.py``. Where a commit changes a result on purpose::

    OMP_NUM_THREADS=1 python tests/golden/record.py "logistic/some case"

which leaves all records alone that still hold; the commit says what changed and why.
"""

from __future__ import annotations

import pytest
from golden.cases import AGGREGATORS, needs_torch, rtol_of
from golden.records import differences, read, record

KEYS = [f"{kind}/{name}" for kind, cases in AGGREGATORS.items() for name in cases]


@pytest.mark.parametrize("key", KEYS)
def test_result_is_as_recorded(key):
    aggregator, name = key.split("/")
    if needs_torch(name):
        pytest.importorskip("torch")
        pytest.importorskip("skorch")
    found = record(AGGREGATORS[aggregator][name])
    lines = differences(found, read(aggregator)[name], rtol_of(key))
    assert not lines, "\n".join([f"{key} is not as recorded:", *lines])


@pytest.mark.parametrize("aggregator", AGGREGATORS)
def test_records_are_those_of_the_cases(aggregator):
    assert sorted(read(aggregator)) == sorted(AGGREGATORS[aggregator])
