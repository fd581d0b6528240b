# SPDX-License-Identifier: BSD-3-Clause
"""The first lines on a file say what its reader has to know."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.disclosures import rule_of
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import MultinomialNB
from sklearn.preprocessing import StandardScaler

import skgems
from skgems.channels import Exchange
from skgems.guard import answer, inspect, sign, signing_keys

RNG = np.random.default_rng(0)
SIZES = {"ill": 30, "rare": 11, "well": 40}
y = np.repeat(list(SIZES), list(SIZES.values()))
X = RNG.normal(size=(81, 4)) + 2.0 * np.eye(3, 4)[np.searchsorted(list(SIZES), y)]


def overview_of_summary(folder, *, X=X, y=y, classifier=True, **options):
    agg = skgems.GEMSLogisticAggregator(random_state=0)
    fitted = LogisticRegression().fit(X, y) if classifier else None
    path = folder / "lyon.safetensors"
    agg.summarize(fitted, X, y, name="lyon", **options).save(path)
    return inspect(path).overview


def begin_exchange(folder, **options):
    """The exchange of one node, and its first request."""
    agg = skgems.GEMSLogisticAggregator(random_state=0)
    exchange = Exchange(folder, agg, nodes=["lyon"], report=True, **options)
    exchange.step()
    return exchange, exchange.waiting_for["lyon"]


def answer_at_lyon(request):
    return answer(request, LogisticRegression().fit(X, y), X, y, name="lyon")


def test_a_summary_says_what_it_holds_over_how_many_rows(tmp_path):
    overview = overview_of_summary(tmp_path)
    assert overview["from"] == "node 'lyon'"
    assert overview["method"] == "GEMSLogisticAggregator"
    assert "second moments of the features" in overview["holds"]
    assert overview["network.coefs"].startswith("15 numbers")
    assert overview["means"].startswith("4 features")
    assert overview["rows.labels"] == (
        "'ill': 30, 'rare': 11, 'well': 40. The smallest class is 'rare', with 11 rows."
    )
    assert "not signed" in overview["signature"]


def test_every_figure_of_a_reply_is_in_its_first_lines(tmp_path):
    overview = overview_of_summary(tmp_path, space=True)
    inspected = inspect(tmp_path / "lyon.safetensors")
    figures = " ".join(overview.values())
    for word in ("numbers", "features,", "rows is 0.", "distances.", "C=1"):
        assert word in " ".join(inspected.says.values())
        assert word in figures
    # Several spaces say their numbers in one line.
    assert overview["center"].count("the score on") > 1
    assert overview["radii_radii"].count("distances") == 1


def test_sums_by_class_say_how_many_rows_they_are_of(tmp_path):
    path = tmp_path / "lyon.safetensors"
    agg = skgems.PooledAggregator(pooled=MultinomialNB())
    agg.summarize(None, np.abs(X), y, name="lyon").save(path)
    overview = inspect(path).overview
    assert overview["counts"] == "'ill': 30, 'rare': 11, 'well': 40."


def test_classes_that_are_left_out_are_named(tmp_path):
    with pytest.warns(skgems.parties.ClassesLeftOutWarning):
        overview = overview_of_summary(tmp_path, disclosure=rule_of(20))
    assert overview["summary.min_rows"] == "Here min_rows=20."
    assert overview["rows.labels"].startswith("'ill': 30, 'well': 40.")
    assert overview["means"].endswith("Classes with too few rows have no mean: 'rare'.")


@pytest.mark.parametrize(("n_columns", "is_named"), [(10, False), (11, True)])
def test_without_a_rule_classes_that_tell_their_rows_come_first(
    n_columns, is_named, tmp_path
):
    # One more column is constant; the covariance of 11 rows has rank 10.
    rows = np.c_[RNG.normal(size=(81, n_columns)), np.ones(81)]
    overview = overview_of_summary(tmp_path, X=rows, disclosure=None)
    n_features = n_columns + 1
    words = f"Classes with fewer rows than features ({n_features}): 'rare': 11."
    assert overview["reveals"].startswith(words) == is_named
    # Under the rule the class tells no products of its own.
    assert words not in overview_of_summary(tmp_path, X=rows)["reveals"]


def test_a_node_without_a_classifier_reveals_no_model(tmp_path):
    overview = overview_of_summary(tmp_path, classifier=False)
    assert overview["holds"].startswith("no model")
    assert "no classifier" in overview["network.coefs"]
    assert "any model that is trained" not in overview["reveals"]


def test_a_request_says_what_it_asks_for_and_what_is_agreed(tmp_path):
    exchange, request = begin_exchange(tmp_path)
    overview = inspect(request).overview
    assert overview["for"] == "node 'lyon'"
    assert "second moments of the features" in overview["statistics"]
    assert "may ask for this once" in overview["agreement"]
    assert "anyone could have written" in overview["signature"]
    answer_at_lyon(request)
    exchange.step()
    later = inspect(exchange.waiting_for["lyon"]).overview
    assert str(tmp_path / "agreement.json") in later["agreement"]
    assert later["exchange"] == overview["exchange"]


def test_a_reply_is_held_to_the_agreement_beside_it(tmp_path):
    _, request = begin_exchange(tmp_path / "study")
    reply = answer_at_lyon(request)
    assert "may ask for this once" in inspect(reply).overview["agreement"]
    away = tmp_path / "away" / reply.name
    away.parent.mkdir()
    away.write_bytes(reply.read_bytes())
    assert "none was found" in inspect(away).overview["agreement"]
    begin_exchange(tmp_path / "away")
    assert "another exchange" in inspect(away).overview["agreement"]


def test_a_bound_below_the_agreed_one_is_named(tmp_path):
    exchange, request = begin_exchange(tmp_path, disclosure=rule_of(30))
    with pytest.warns(UserWarning, match="server offers .*min_rows=30"):
        reply = answer_at_lyon(request)
    words = f"disclosure={rule_of(10)} is laxer than the disclosure={rule_of(30)}"
    assert words in inspect(reply).overview["agreement"]


def test_signatures_are_checked_where_the_key_is_known(tmp_path):
    pytest.importorskip("cryptography")
    signing_keys(tmp_path / "server")
    _, request = begin_exchange(tmp_path / "study", private_key=tmp_path / "server")
    overview = inspect(request).overview
    assert overview["signature"] == "signed by the server of the agreement."
    signing_keys(tmp_path / "other")
    sign(request, tmp_path / "other")
    assert inspect(request).overview["signature"].startswith("wrong")


def test_statistics_of_columns_are_of_all_rows(tmp_path):
    front = skgems.PooledTransformer(StandardScaler())
    path = tmp_path / "front.safetensors"
    front.summarize(X, name="lyon", disclosure=rule_of(3)).save(path)
    overview = inspect(path).overview
    assert overview["front.parts"].startswith("Here: columns")
    assert overview["front.min_rows"] == "Here min_rows=3."


def test_columns_that_the_classifier_drops_are_named(tmp_path):
    from sklearn.compose import make_column_transformer
    from sklearn.pipeline import make_pipeline

    keeps_two = make_column_transformer((StandardScaler(), [0, 2]))
    fitted = make_pipeline(keeps_two, LogisticRegression()).fit(X, y)
    agg = skgems.GEMSLogisticAggregator(random_state=0)
    path = tmp_path / "lyon.safetensors"
    agg.summarize(fitted, X, y, name="lyon").save(path)
    overview = inspect(path).overview
    assert overview["network.dropped"] == "Here: 1, 3."
    said = inspect(path).says["describe.network.dropped"]
    assert "nothing is said about them. Here: 1, 3." in said
    assert "network.dropped" not in overview_of_summary(tmp_path)
