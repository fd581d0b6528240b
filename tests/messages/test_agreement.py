# SPDX-License-Identifier: BSD-3-Clause
"""The file of an agreement: a person reads it, and what is none is refused."""

from __future__ import annotations

import json

import pytest
from helpers.agreements import agreement_on_rounds

from skgems.channels import inspect
from skgems.federation import Agreement

pytestmark = pytest.mark.filterwarnings(
    "ignore::skgems.federation.ClassesLeftOutWarning",
    "ignore::sklearn.exceptions.ConvergenceWarning",
)


def test_a_person_reads_it(tmp_path):
    path = tmp_path / "agreement.json"
    server = agreement_on_rounds(nodes=["lyon", "paris"], classes=["ill", "well"])
    server.save(path)
    assert Agreement.load(path) == server
    words = " ".join(str(inspect(path)).split())
    assert "an agreement" in words and "GEMSLogisticAggregator" in words
    assert "may ask 2 times for sums over the node's rows that say how good" in words
    assert "'ill', 'well'" in words and "n_components" not in words
    assert "n_components" in str(inspect(path, verbose=True))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"exchange": "lyon"}, "agreement.exchange is not 32 hexadecimal"),
        ({"tasks": {"rows": 1}}, "agreement.tasks is not a table of how"),
        ({"tasks": {"score": -1}}, "agreement.tasks is not a table of how"),
        ({"tasks": {"score": True}}, "agreement.tasks is not a table of how"),
        ({"min_rows": 0}, "agreement.min_rows is 0"),
        ({"nodes": ["a", 1]}, "agreement.nodes has labels that are not all"),
        ({"public_key": 3}, "agreement.public_key is not a text"),
        ({"more": 3}, "agreement.more is an unknown field"),
        ({"skgems": "rows"}, "it is not an agreement of skgems"),
    ],
)
def test_what_is_no_agreement(change, words, tmp_path):
    path = tmp_path / "agreement.json"
    content = {**json.loads(agreement_on_rounds().to_json()), **change}
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=f"agreement.json: {words}"):
        Agreement.load(path)
    for text in ("", "[", "[" * 10**5, "3", "\x00"):
        path.write_text(text)
        with pytest.raises(ValueError, match="agreement.json: it is not an agreement"):
            Agreement.load(path)
