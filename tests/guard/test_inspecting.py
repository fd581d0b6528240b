# SPDX-License-Identifier: BSD-3-Clause
"""Words about files: what they say is what is in them."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace

import numpy as np
import pytest
from helpers.disclosures import rule_of
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skgems
from skgems.asking import Message
from skgems.channels import Exchange
from skgems.gems import Moments, Spaces
from skgems.guard import answer, inspect
from skgems.messages import write_bytes
from skgems.parties import load_message

pytestmark = pytest.mark.usefixtures("accepting_nodes")

RNG = np.random.default_rng(0)
# The rows of each class: the rare one has only one more than a class has to have.
SIZES = {"ill": 30, "rare": 11, "well": 40}
y = np.repeat(list(SIZES), list(SIZES.values()))
X = RNG.normal(size=(81, 4)) + 2.0 * np.eye(3, 4)[np.searchsorted(list(SIZES), y)]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "lyon.safetensors"


def summarize(path, agg=None, classifier=None, **options):
    """Save a summary of lyon's rows; ``options`` are those of `summarize`."""
    agg = skgems.GEMSLogisticAggregator(random_state=0) if agg is None else agg
    classifier = LogisticRegression() if classifier is None else classifier
    summary = agg.summarize(classifier.fit(X, y), X, y, name="lyon", **options)
    summary.save(path)
    return summary


def sentences_of_summary(path, agg=None, classifier=None, **options):
    """What inspect says of each field of a summary of lyon's rows."""
    summarize(path, agg, classifier, **options)
    return inspect(path).says


def test_an_inspection_says_what_a_summary_is_and_of_which_node(path):
    summary = summarize(path, space=True)
    inspection = inspect(path)
    assert inspection.kind == "summary"
    assert inspection.task == "join"
    assert inspection.node == "lyon"
    assert inspection.method == "GEMSLogisticAggregator"
    assert inspection.checked
    assert inspection.settings == summary.settings
    assert inspection.n_bytes == path.stat().st_size


def test_an_inspection_describes_every_array_of_a_summary(path):
    arrays = summarize(path, space=True).message.arrays
    inspection = inspect(path)
    assert [described["path"] for described in inspection.arrays] == sorted(arrays)
    for described in inspection.arrays:
        array = arrays[described["path"]]
        assert described["shape"] == list(array.shape)
        assert described["bytes"] == array.nbytes
        assert described["dtype"] == str(array.dtype)


def test_every_array_of_a_summary_has_a_sentence(path):
    summary = summarize(path, space=True)
    says = inspect(path).says
    for name in summary.message.arrays:
        field = name.replace(".reply.moments", "").replace(".reply", "")
        field = re.sub(r"(coefs|intercepts)[.]0$", r"\1", field)
        assert field in says, name


def test_sentences_about_the_model_and_the_rows(path):
    says = sentences_of_summary(path, space=True)
    model = says["describe.network.coefs"]
    assert model.endswith("15 numbers in 1 layer, for 4 features.")
    labels = says["describe.network.labels"]
    assert labels.endswith("was trained on 'ill', 'rare', 'well'.")
    assert says["describe.rows.labels"] == (
        "Number of rows of each class that judge models, that enter moments, and that "
        "may be trained on. 'ill': 30, 'rare': 11, 'well': 40. The smallest class is "
        "'rare', with 11 rows."
    )
    assert says["counts.labels"].endswith(
        "train on. 'ill': 30, 'rare': 11, 'well': 40."
    )


def test_sentences_about_moments(path):
    arrays = summarize(path, space=True, disclosure=None).message.arrays
    says = inspect(path).says
    counts = arrays["answers.0.reply.moments.counts"]
    columns = arrays["answers.0.reply.moments.columns"]
    label_of_smallest = list(SIZES)[columns[np.argmin(counts)]]
    assert says["answers.0.means"].endswith(
        f"4 features, {len(counts)} means in 3 classes. The smallest cluster, of class "
        f"'{label_of_smallest}', has {counts.min():g} rows."
    )
    assert "variances and covariances" in says["answers.0.triangles"]
    assert says["answers.0.triangles"].endswith(
        "for each of 3 classes. The fewest rows are those of 'rare': 11 rows."
    )
    assert "sum over rows" in says["answers.0.gradient"]
    assert "of at most 25 rows" in says["answers.0.origin"]
    assert "8 rows or fewer" not in says["answers.0.origin"]


def test_sentences_about_spaces(path):
    arrays = summarize(path, space=True).message.arrays
    says = inspect(path).says
    assert "mean and covariance of the features" in says["answers.1.metric_scatter"]
    n_radii = len(arrays["answers.1.reply.radii_radii"])
    assert says["answers.1.radii_radii"].endswith(f"There are {n_radii} distances.")


def without_clusters(moments):
    return skgems.GEMSLogisticAggregator(
        moments=Moments(moments, n_components=1), random_state=0
    )


SENTENCE_ON_MEANS = (
    "4 features, 3 means in 3 classes. The smallest class, 'rare', has 11 rows."
)
SENTENCE_ON_VARIANCES = "Variances of the features about these means, for each class."


def test_moments_of_all_classes_together_are_said_to_be_so(path):
    agg = without_clusters("shared")
    says = sentences_of_summary(path, agg, disclosure=None)
    assert "Over all classes together: 81 rows." in says["answers.0.triangles"]
    assert "how features vary together" not in says["answers.0.triangles"]
    assert says["answers.0.means"].endswith(SENTENCE_ON_MEANS)
    assert says["answers.0.squares"] == SENTENCE_ON_VARIANCES


def test_moments_under_a_rule_are_said_to_be_of_rows_that_count_for_less(path):
    says = sentences_of_summary(path)
    assert "under the rule" in says["answers.0.counts"]
    assert "under the rule" in says["answers.0.n_rows"]
    assert "under the rule it is a mean" in says["answers.0.origin"]


def test_rows_of_a_matrix_of_several_classes_are_said_to_be_those_of_small_ones(path):
    sizes = {"ill": 300, "rare": 11, "well": 400}
    labels = np.repeat(list(sizes), list(sizes.values()))
    rows = np.random.default_rng(0).normal(size=(len(labels), 4))
    agg = skgems.GEMSLogisticAggregator(random_state=0)
    clf = LogisticRegression().fit(rows, labels)
    agg.summarize(clf, rows, labels, name="lyon").save(path)
    words = "The fewest rows are those of all classes with too few rows: 11 rows."
    assert words in inspect(path).says["answers.0.triangles"]


def test_variances_are_said_to_tell_nothing_of_features_together(path):
    agg = without_clusters("diagonal")
    says = sentences_of_summary(path, agg, disclosure=None)
    words = "for each of 3 classes. The fewest rows are those of"
    assert words in says["answers.0.scatter"]
    assert "how features vary together" in says["answers.0.scatter"]
    assert says["answers.0.means"].endswith(SENTENCE_ON_MEANS)
    assert "answers.0.squares" not in says


def test_a_row_that_is_sent_as_it_is_is_named(path):
    rows = np.array([[1.0], [2.0], [5.0]])
    labels = ["no", "no", "yes"]
    agg = skgems.GEMSLogisticAggregator(random_state=0)
    clf = LogisticRegression().fit(rows, labels)
    agg.summarize(clf, rows, labels, name="lyon", disclosure=None).save(path)
    says = inspect(path).says
    assert (
        "1 mean is that of a single row: the row itself is sent."
        in says["answers.0.means"]
    )
    assert "they reveal one or two rows exactly" in says["answers.0.triangles"]
    assert "'yes', with 1 row." in says["describe.rows.labels"]


def test_sentences_say_what_a_geometry_sends(path):
    agg = skgems.GEMSLogisticAggregator(spaces="ball", epsilon=0.5, random_state=0)
    says = sentences_of_summary(path, agg, space=True)
    assert "For 'ball' the space is round" in says["answers.2.metric_precision"]
    agg.set_params(spaces__geometry="ellipsoid")
    says = sentences_of_summary(path, agg, space=True)
    assert "one number" in says["answers.1.size"]


def test_radii_of_a_loss_say_nothing_of_single_rows(path):
    agg = skgems.GEMSLogisticAggregator(
        spaces=Spaces(criterion="log_loss"), random_state=0
    )
    says = sentences_of_summary(path, agg, classes=list(SIZES), space=True)
    assert "nothing about single rows" in says["answers.1.radii_knots"]


def test_sentences_name_the_form_of_a_linear_model(path):
    says = sentences_of_summary(path, classifier=RidgeClassifier(), disclosure=None)
    assert says["answers.0.form"].endswith("Its kind is 'ridge'.")


def test_scalers_of_a_pipeline_are_said_to_be_sent(path):
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    says = sentences_of_summary(path, classifier=pipeline, disclosure=None)
    assert (
        "mean and the standard deviation of the rows" in says["describe.network.center"]
    )
    assert "describe.network.center" not in sentences_of_summary(path, None, pipeline)


# ---- requests and replies ----------------------------------------------------------


def inspect_exchange_of_networks(agg, folder):
    """What inspect returns for a request and a reply of each task, by the task."""
    rows = {"lyon": slice(0, None, 2), "nice": slice(1, None, 2)}
    exchange = Exchange(folder, agg, nodes=list(rows), report=True, disclosure=None)
    inspections = {}
    while exchange.step() is None:
        for name, path_of_request in exchange.waiting_for.items():
            X_node = X[rows[name]]
            y_node = y[rows[name]]
            net = MLPClassifier((5,), solver="lbfgs", max_iter=5000, random_state=0)
            path_of_reply = answer(
                path_of_request,
                net.fit(X_node, y_node),
                X_node,
                y_node,
                name=name,
                disclosure=None,
                radii=True,
            )
            request = inspect(path_of_request)
            reply = inspect(path_of_reply)
            assert request.kind == "request"
            assert request.node == reply.node == name
            assert reply.checked
            assert reply == inspect(path_of_reply, request=path_of_request)
            inspections.setdefault(request.task, (request, reply))
    return inspections


@pytest.fixture(scope="module")
def inspections_of_networks(accepting_nodes, tmp_path_factory):
    """Inspections of an exchange that merges networks, by the task."""
    last_layer = skgems.GEMSLogisticAggregator(
        intersection="consensus", spaces=Spaces(on_empty="ignore")
    )
    agg = skgems.GEMSMLPAggregator(last_layer=last_layer, random_state=0)
    return inspect_exchange_of_networks(agg, tmp_path_factory.mktemp("exchange"))


def test_every_task_of_networks_can_be_inspected(inspections_of_networks):
    assert set(inspections_of_networks) == {
        "join",
        "neurons",
        "retrain",
        "space",
        "evaluate",
        "score",
        "metrics",
    }


def test_the_first_request_to_networks_names_the_method(inspections_of_networks):
    request, _ = inspections_of_networks["join"]
    assert request.method == "GEMSMLPAggregator"
    assert "requests.0" not in request.says


def test_sentences_about_the_units_of_a_layer(inspections_of_networks):
    request, reply = inspections_of_networks["neurons"]
    # Four weights and a bias for each of five units.
    assert "holds 25 numbers of models" in request.says["arrays"]
    assert "of the inputs of the layer" in reply.says["neurons.precision"]
    assert reply.says["neurons.sizes"].endswith("on average. 5 units.")


def test_sentences_about_a_retrained_network(inspections_of_networks):
    _, reply = inspections_of_networks["retrain"]
    n_numbers = sum(np.prod(array["shape"]) for array in reply.arrays)
    assert reply.says["retrain.coefs"].endswith(f"{n_numbers} numbers.")


def test_sentences_about_judged_and_scored_models(inspections_of_networks):
    _, reply = inspections_of_networks["evaluate"]
    n_rows = reply.settings["count"]
    assert reply.says["evaluate.count"].endswith(f"{n_rows:g} rows, 1 model.")
    _, reply = inspections_of_networks["score"]
    assert f" On {reply.settings['n_rows']} rows: " in reply.says["score.score"]


def test_rounds_of_a_merged_network_bring_clusters_of_others(tmp_path):
    agg = skgems.GEMSMLPAggregator(n_rounds=2, local_epochs=1, random_state=0)
    inspections = inspect_exchange_of_networks(agg, tmp_path)
    assert set(inspections) == {
        "join",
        "neurons",
        "moments",
        "retrain",
        "evaluate",
        "score",
        "metrics",
    }
    request, reply = inspections["retrain"]
    assert "clusters of other nodes' rows" in request.says["others"]
    loss = float(reply.settings["loss"])
    assert reply.says["retrain.loss"].endswith(f"before training. It is {loss:.4g}.")


def begin_exchange_of_lyon(agg, folder):
    exchange = Exchange(folder, agg, nodes=["lyon"])
    exchange.step()
    return exchange


@pytest.fixture
def fitted_classifier():
    return LogisticRegression().fit(X, y)


def test_sentences_of_a_round_of_averaging(tmp_path, fitted_classifier):
    agg = skgems.ModelAveragingAggregator(n_rounds=2, random_state=0)
    exchange = begin_exchange_of_lyon(agg, tmp_path)
    answer(exchange.waiting_for["lyon"], fitted_classifier, X, y, name="lyon")
    exchange.step()
    request = exchange.waiting_for["lyon"]
    reply = answer(request, fitted_classifier, X, y, name="lyon", radii=True)
    says = inspect(reply).says
    loss = load_message(reply).settings["loss"]
    assert says["train.loss"].endswith(f"on the rows. It is {loss:.4g}.")
    assert says["train.parameters"].endswith("15 numbers.")


def test_sentences_of_a_further_message_of_moments(tmp_path, fitted_classifier):
    agg = skgems.GEMSLogisticAggregator(n_rounds=2, random_state=0)
    exchange = begin_exchange_of_lyon(agg, tmp_path)
    first_request = exchange.waiting_for["lyon"]
    says = inspect(first_request).says
    words = "kind='auto', n_components=16, min_cluster_size=1"
    assert words in says["requests.0"]
    assert "requests.1" not in says
    answer(first_request, fitted_classifier, X, y, name="lyon")
    exchange.step()
    reply = answer(
        exchange.waiting_for["lyon"],
        fitted_classifier,
        X,
        y,
        name="lyon",
        held_out=np.arange(81) % 4 == 0,
        disclosure=rule_of(8),
        radii=True,
    )
    says = inspect(reply).says
    assert "over a single row reveals that row" in says["evaluate.gradient"]
    assert says["evaluate.held_out"].endswith("that are held out. 21 rows.")
    assert "its loss under the first model" in says["evaluate.squared_gains"]


# ---- files that are wrong ----------------------------------------------------------


@pytest.fixture
def request_and_reply(tmp_path, fitted_classifier):
    """Files of a request for a score, and of the reply."""
    agg = skgems.GEMSLogisticAggregator(random_state=0)
    exchange = Exchange(tmp_path, agg, nodes=["lyon"], report=True)
    while exchange.step() is None:
        request = exchange.waiting_for["lyon"]
        reply = answer(request, fitted_classifier, X, y, name="lyon", radii=True)
        if load_message(request).task == "score":
            return request, reply
    raise AssertionError("No score was asked for.")


def rewrite_message(path, **changes):
    """Change attributes of the message in a file."""
    write_bytes(path, replace(load_message(path), **changes).to_bytes())


def test_a_reply_away_from_its_request_is_not_checked_in_full(
    request_and_reply, tmp_path
):
    request, reply = request_and_reply
    copied_reply = tmp_path / "away" / "mine.safetensors"
    copied_reply.parent.mkdir()
    copied_reply.write_bytes(reply.read_bytes())
    inspection = inspect(copied_reply)
    assert not inspection.checked
    assert "Not checked in full: its request is not here." in str(inspection)
    assert inspect(copied_reply, request=request).checked
    with pytest.raises(
        ValueError, match="mine.safetensors: it is not a reply to .*001-"
    ):
        inspect(copied_reply, request=request.with_name("001-lyon.safetensors"))


def test_the_request_of_a_reply_is_looked_for_beside_it(request_and_reply, tmp_path):
    request, reply = request_and_reply
    assert "Not checked" not in str(inspect(reply))
    copied_reply = tmp_path / "reply-002.safetensors"
    copied_reply.write_bytes(reply.read_bytes())
    (tmp_path / "002.safetensors").write_bytes(request.read_bytes())
    assert inspect(copied_reply).checked


def test_a_field_out_of_its_bounds_is_named(request_and_reply):
    _, reply = request_and_reply
    rewrite_message(reply, arrays={"score": np.array(-1.0)})
    with pytest.raises(ValueError, match="replies.*score.score is -1.0, not between"):
        inspect(reply)


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"task": "steal"}, "'steal'"),
        ({"task": "train"}, "train[.](W|beside) is an unknown field"),
        (
            {"settings": {"beside": {}}},
            "score[.](labels|n_rows|min_rows|beside[.]W) is missing",
        ),
    ],
)
def test_errors_of_requests_and_replies_name_file_and_field(
    request_and_reply, tmp_path, changes, words
):
    for path in request_and_reply:
        copied_file = tmp_path / path.parent.name.upper()
        copied_file.write_bytes(path.read_bytes())
        rewrite_message(copied_file, **changes)
        with pytest.raises(ValueError, match=words) as error:
            inspect(copied_file)
        assert str(copied_file) in str(error.value)


@pytest.mark.parametrize(
    "fields, words",
    [
        ({"method": 3}, "join.method is not a text"),
        ({"requests": {"1": {}}}, "join.requests are not numbered from 0"),
        ({"requests": {"0": {"task": "size"}}}, "join.requests.0.asked is missing"),
        ({"rows": True}, "join.rows is an unknown field"),
        ({"settings": [1]}, "join.settings is not a table"),
    ],
)
def test_errors_of_first_requests_name_the_field(tmp_path, fields, words):
    agg = skgems.GEMSLogisticAggregator(epsilon=0.5, random_state=0)
    path = begin_exchange_of_lyon(agg, tmp_path).waiting_for["lyon"]
    settings = load_message(path).settings
    rewrite_message(path, settings={**settings, **fields})
    with pytest.raises(ValueError, match=words):
        inspect(path)


def test_a_first_request_says_which_spaces_it_asks_for(tmp_path):
    agg = skgems.GEMSLogisticAggregator(epsilon=0.5, random_state=0)
    path = begin_exchange_of_lyon(agg, tmp_path).waiting_for["lyon"]
    says = inspect(path).says
    assert "geometry='gram', criterion='accuracy'" in says["requests.1"]


def test_errors_of_summaries_name_file_and_field(path):
    arrays = dict(summarize(path).message.arrays)
    arrays["counts.counts"] = arrays["counts.counts"] + 1
    rewrite_message(path, arrays=arrays)
    with pytest.raises(ValueError, match="lyon.safetensors: counts.counts are not"):
        inspect(path)


# ---- what is printed ---------------------------------------------------------------


def test_names_do_not_steer_a_terminal(path, fitted_classifier):
    agg = skgems.GEMSLogisticAggregator(random_state=0)
    message = agg.summarize(fitted_classifier, X, y, name="ly\x1b[2Jon").message
    settings = dict(message.settings, method="GEMS\x1b[2J")
    write_bytes(path, replace(message, settings=settings).to_bytes())
    text = str(inspect(path))
    assert "\x1b" not in text
    assert r"ly\x1b[2Jon" in text
    assert r"GEMS\x1b" in text


@pytest.mark.parametrize(
    ("agg", "needs_spaces"),
    [
        (skgems.GEMSLogisticAggregator(random_state=0), False),
        (skgems.GEMSLogisticAggregator(epsilon=0.5, random_state=0), True),
        (skgems.GEMSLogisticAggregator(intersection="hinge", random_state=0), True),
    ],
)
def test_a_first_request_asks_for_spaces_where_they_are_needed(
    agg, needs_spaces, tmp_path, fitted_classifier
):
    request = begin_exchange_of_lyon(agg, tmp_path).waiting_for["lyon"]
    sentences = " ".join(inspect(request).says.values())
    assert ("good-enough space of a linear model" in sentences) == needs_spaces
    reply = answer(request, fitted_classifier, X, y, name="lyon", radii=True)
    says = inspect(reply).says
    assert any(field.endswith(".family") for field in says) == needs_spaces


def test_the_printed_page_has_all_parts(path):
    summarize(path, space=True)
    inspection = inspect(path)
    assert str(inspection).startswith(inspection.words)
    assert f"({inspection.n_bytes:,} bytes)" in inspection.words
    assert inspection.details not in str(inspection)
    page = str(inspect(path, verbose=True))
    assert page == f"{inspection.words}\n{inspection.details}"
    # The same sentence about two spaces is one.
    assert page.count("Shape of the space") == 1
    lines = page.splitlines()
    (line,) = [line for line in lines if line.startswith("  describe.network.coefs.0")]
    assert line.split() == "describe.network.coefs.0 4 x 3 float64 96 bytes".split()
    assert "  n_components = 16" in lines


def test_an_inspection_can_be_written_as_json(path):
    summarize(path, space=True)
    inspection = inspect(path)
    assert json.loads(json.dumps(asdict(inspection)))["says"] == inspection.says


def test_a_message_of_nothing_is_no_request(path):
    write_bytes(path, Message("score").to_bytes())
    with pytest.raises(ValueError, match="score.W is missing"):
        inspect(path)
