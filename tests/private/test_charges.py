# SPDX-License-Identifier: BSD-3-Clause
"""Requests, files, reports, cards and agreements say what noise promises."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from skgems import Exchange, GEMSLogisticAggregator, PooledAggregator, Privacy
from skgems.guard import Agreement, inspect
from skgems.private import charges_of, noise_of, noise_told

RNG = np.random.default_rng(0)
Y = RNG.choice(["ill", "well"], 200)
X = RNG.normal(size=(200, 2)) + (Y == "ill")[:, None]
NODES = np.arange(200) % 2
PRIVACY = Privacy(classes=["ill", "well"], low=[-3] * 2, high=[4] * 2, epsilon=1.0)
PROMISE = "epsilon 1.00 at delta 1e-5, for adding or removing one row"


def aggregator_with_noise(kind=GEMSLogisticAggregator):
    return kind(privacy=PRIVACY, random_state=0)


def test_a_first_request_spends_what_its_vector_does():
    request = aggregator_with_noise()._agreed_terms.first_message()
    (charge,) = charges_of(request)
    assert charge.delta == 1e-5
    assert round(charge.sigma, 2) == 3.73
    assert PROMISE in noise_of([request])
    plain = GEMSLogisticAggregator()._agreed_terms.first_message()
    assert charges_of(plain) == []
    assert noise_of([plain]) == ""


@pytest.mark.parametrize("kind", [GEMSLogisticAggregator, PooledAggregator])
def test_reports_and_cards_say_what_noise_promises(kind, tmp_path):
    fitted = aggregator_with_noise(kind).fit(X, Y, nodes=NODES)
    report = fitted.report()
    assert report.noise == noise_told(fitted)
    assert PROMISE in " ".join(str(report).split())
    assert PROMISE in report._repr_html_()
    # No number of rows is known, nor which classes were seen.
    assert list(report.nodes) == ["node", "bytes"]
    fitted.model_card(tmp_path / "card.md")
    card = (tmp_path / "card.md").read_text()
    assert PROMISE in card
    assert "made with noise, SHA-256" in card
    assert "Numbers of rows are not known here." in card
    assert "single rows may be known" not in card
    plain = GEMSLogisticAggregator().fit(X, Y, nodes=NODES)
    assert plain.report().noise == ""


def test_agreements_say_that_noise_takes_the_place_of_the_rule(tmp_path):
    agreement = Agreement.of(aggregator_with_noise())
    agreement.save(tmp_path / "agreement.json")
    sentences = inspect(tmp_path / "agreement.json").says
    assert sentences == agreement.says
    assert PROMISE in sentences["noise"]
    assert "single rows may be known" not in " ".join(sentences.values())
    assert sentences["tasks.join"].endswith("one vector of sums of rows, with noise.")
    assert "noise" not in Agreement.of(GEMSLogisticAggregator()).says
    # What strangers write is shown as it is.
    wrong = replace(agreement, settings={"privacy": {"epsilon": -1}})
    assert "noise" not in wrong.says


def test_files_say_what_noise_promises_and_nothing_of_rows(tmp_path):
    pytest.importorskip("opendp")
    summary = aggregator_with_noise().summarize(None, X, Y, name="lyon")
    summary.save(tmp_path / "lyon.safetensors")
    inspected = inspect(tmp_path / "lyon.safetensors")
    assert PROMISE in inspected.overview["noise"]
    assert inspected.overview["holds"] == "one vector of sums of rows, with noise."
    assert "same whatever the rows are" in inspected.overview["other fields"]
    assert not [name for name in inspected.overview if name.startswith("rows.")]
    names = [name.rpartition(".")[2] for name in inspected.says]
    assert names == ["vector", "other fields"]
    exchange = Exchange(tmp_path / "study", aggregator_with_noise(), nodes=["lyon"])
    exchange.step()
    (request,) = (tmp_path / "study" / "requests").iterdir()
    assert PROMISE in inspect(request).overview["noise"]
