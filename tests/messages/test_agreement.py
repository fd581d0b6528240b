# SPDX-License-Identifier: BSD-3-Clause
"""The file of an agreement: a person reads it, and what is none is refused."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from helpers.agreements import agreement_on_rounds
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgems import GEMSLogisticAggregator, GEMSMLPAggregator, ModelAveragingAggregator
from skgems.gems import Moments
from skgems.guard import Agreement, inspect
from skgems.steps import RandomFeatures

pytestmark = pytest.mark.filterwarnings(
    "ignore::skgems.parties.ClassesLeftOutWarning",
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
    assert "'ill', 'well'" in words
    assert "n_components=16, min_cluster_size=1" in words


def test_a_person_reads_which_columns_clusters_and_training_are_agreed():
    plain = GEMSLogisticAggregator(random_state=0)
    wide = GEMSLogisticAggregator(
        front=make_pipeline(StandardScaler(), RandomFeatures(2000, random_state=0)),
        moments=Moments(n_components=256),
        random_state=0,
    )
    trained = ModelAveragingAggregator(n_rounds=200)
    says = [Agreement.of(aggregator).says for aggregator in (plain, wide, trained)]
    assert "front" not in says[0] and "trust" not in says[0]
    assert says[1]["front"].startswith(
        "Rows pass first through StandardScaler, RandomFeatures (n_components=2000, "
    )
    assert "n_components=256" in says[1]["settings"] and "trust" not in says[1]
    assert "single rows given away by train" in says[2]["trust"]
    assert "hidden layers" in Agreement.of(GEMSMLPAggregator()).says["trust"]


@pytest.mark.parametrize(
    "front",
    [[1, {}], {"tree": [[{"params": {"a": [{}]}}]]}, {"kind": 3, "params": {}}, "x"],
)
def test_fronts_of_any_form_are_read_in_words(front):
    agreement = replace(agreement_on_rounds(), settings={"front": front})
    assert all(isinstance(sentence, str) for sentence in agreement.says.values())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"exchange": "lyon"}, "agreement.exchange is not 32 hexadecimal"),
        ({"tasks": {"rows": 1}}, "agreement.tasks is not a table of how"),
        ({"tasks": {"score": -1}}, "agreement.tasks is not a table of how"),
        ({"tasks": {"score": True}}, "agreement.tasks is not a table of how"),
        ({"disclosure": 3}, "agreement.disclosure is not a table"),
        (
            {"disclosure": {"rows": 3, "cell": 3, "unknowns": 0.5, "min_rows": 0}},
            "agreement.disclosure.min_rows is 0",
        ),
        (
            {"disclosure": {"rows": 3, "cell": 3, "unknowns": 0.5, "min_rows": 2}},
            "agreement.disclosure: min_rows=2 of Disclosure is below rows=3",
        ),
        ({"disclosure": {"rows": 3}}, "agreement.disclosure.cell is missing"),
        ({"min_rows": 10}, "agreement.min_rows is in disclosure"),
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
