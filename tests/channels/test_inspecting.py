# SPDX-License-Identifier: BSD-3-Clause
"""Words about files: what they say is what is in them."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skgems
from skgems.channels import Exchange, answer, inspect
from skgems.federation import Message, load_message
from skgems.messages import write_bytes

RNG = np.random.default_rng(0)
SIZES = {"ill": 30, "rare": 11, "well": 40}  # of classes
y = np.repeat(list(SIZES), list(SIZES.values()))
X = RNG.normal(size=(81, 4)) + 2.0 * np.eye(3, 4)[np.searchsorted(list(SIZES), y)]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "lyon.safetensors"


def seen(path, clf=None, told=None, **params):
    agg = skgems.GEMSLogisticAggregator(random_state=0, **params)
    clf = (LogisticRegression() if clf is None else clf).fit(X, y)
    summary = agg.summarize(clf, X, y, name="lyon", **(told or {}))
    summary.save(path)
    return summary, inspect(path)


def test_a_summary_by_class(path):
    summary, found = seen(path, told={"space": True})
    assert (found.kind, found.task, found.node) == ("summary", "join", "lyon")
    assert found.method == "GEMSLogisticAggregator" and found.checked
    assert found.settings == summary.settings
    assert found.n_bytes == path.stat().st_size
    arrays = summary.message.arrays
    assert [array["path"] for array in found.arrays] == sorted(arrays)
    for array in found.arrays:
        own = arrays[array["path"]]
        assert array["shape"] == list(own.shape) and array["bytes"] == own.nbytes
        assert array["dtype"] == str(own.dtype)
    says = found.says
    model = says["describe.network.coefs"]
    assert model.endswith("15 numbers in 1 layer, of 4 features.")
    seen_labels = says["describe.network.labels"]
    assert seen_labels.endswith("It has seen 'ill', 'rare', 'well'.")
    assert says["describe.rows.labels"] == (
        "How many rows of which class judge, make moments and train. 'ill' 30, 'rare' "
        "11, 'well' 40. The smallest class is 'rare', of 11 rows."
    )
    assert says["counts.labels"].endswith("train on. 'ill' 30, 'rare' 11, 'well' 40.")
    counts = arrays["answers.0.reply.moments.counts"]
    least = ["ill", "rare", "well"][
        arrays["answers.0.reply.moments.columns"][np.argmin(counts)]
    ]
    assert says["answers.0.means"].endswith(
        f"4 features, {len(counts)} means in 3 classes. The smallest cluster, of class "
        f"'{least}', has {counts.min():g} rows."
    )
    assert "variances and covariances" in says["answers.0.triangles"]
    assert says["answers.0.triangles"].endswith(
        "For each of 3 classes; the fewest rows are those of 'rare': 11 rows."
    )
    assert "sum of rows" in says["answers.0.gradient"]
    assert "mean and covariance of the features" in says["answers.1.metric_scatter"]
    radii = arrays["answers.1.reply.radii_radii"]
    assert says["answers.1.radii_radii"].endswith(f"of which. {len(radii)} distances.")
    assert "of 25 rows at most" in says["answers.0.origin"]
    assert "8 rows or fewer" not in says["answers.0.origin"]
    # Every array has a sentence.
    for name in arrays:
        part = name.replace(".reply.moments", "").replace(".reply", "")
        part = re.sub(r"(coefs|intercepts)[.]0$", r"\1", part)
        assert part in says, name


@pytest.mark.parametrize(
    "moments, field, words",
    [
        ("shared", "triangles", "Of all classes together, 81 rows."),
        ("diagonal", "scatter", "For each of 3 classes; the fewest rows are those of"),
    ],
)
def test_kinds_of_moments(path, moments, field, words):
    _, found = seen(path, moments=moments, n_components=1)
    says = found.says
    assert words in says[f"answers.0.{field}"]
    assert ("nothing of how features" in says[f"answers.0.{field}"]) == (
        field == "scatter"
    )
    assert says["answers.0.means"].endswith(
        "4 features, 3 means in 3 classes. The smallest class, of class 'rare', has 11 "
        "rows."
    )
    words = "Variances of single features about these means, for each class."
    assert says.get("answers.0.squares") == (words if moments == "shared" else None)
    few = seen(path, moments=moments, told={"dtype": "float16"})[1].says
    assert few.get("answers.0.spreads") == (words if moments == "shared" else None)


def test_few_digits_and_a_low_rank(path):
    says = seen(path, told={"dtype": "float16"})[1].says
    assert says["answers.0.correlations"].endswith("With the digits of float16.")
    assert "variances and covariances" in says["answers.0.deviations"]
    says = seen(path, told={"dtype": "float32", "rank": 1})[1].says
    assert says["answers.0.factors"].endswith(
        "With the digits of float32, and a rank of 1 instead of 4."
    )
    assert "answers.0.deviations" not in seen(path)[1].says


def test_a_row_that_is_told_as_it_is(path):
    agg = skgems.GEMSLogisticAggregator(random_state=0)
    few, labels = np.array([[1.0], [2.0], [5.0]]), ["no", "no", "yes"]
    clf = LogisticRegression().fit(few, labels)
    agg.summarize(clf, few, labels, name="lyon", min_rows=1).save(path)
    says = inspect(path).says
    assert "1 mean is of one row alone: the row as it is." in says["answers.0.means"]
    assert "Of two rows or fewer" in says["answers.0.triangles"]
    assert "Of 8 rows or fewer it may be one of them." in says["answers.0.origin"]
    assert "'yes', of 1 row." in says["describe.rows.labels"]


def test_geometries_criteria_and_forms(path):
    says = seen(path, geometry="ball", epsilon=0.5)[1].says
    assert "round with 'ball'" in says["answers.2.metric_precision"]
    says = seen(path, geometry="ellipsoid", epsilon=0.5)[1].says
    assert "one number" in says["answers.1.size"]
    told = {"classes": list(SIZES), "space": True}
    says = seen(path, criterion="log_loss", told=told)[1].says
    assert "nothing of single rows" in says["answers.1.radii_knots"]
    says = seen(path, RidgeClassifier())[1].says
    assert says["answers.0.form"].endswith("It is 'ridge'.")
    says = seen(path, make_pipeline(StandardScaler(), LogisticRegression()))[1].says
    assert "mean and deviation of the rows" in says["describe.network.center"]


def all_of_networks(agg, folder):
    """What inspect says of each request and reply, by task."""
    rows = {"lyon": slice(0, None, 2), "nice": slice(1, None, 2)}
    exchange = Exchange(folder, agg, nodes=list(rows), report=True, min_rows=1)
    found = {}
    while exchange.step() is None:
        for name, request in exchange.waiting_for.items():
            own = X[rows[name]], y[rows[name]]
            net = MLPClassifier((5,), solver="lbfgs", max_iter=5000, random_state=0)
            reply = answer(
                request, net.fit(*own), *own, name=name, min_rows=1, radii=True
            )
            asked, told = inspect(request), inspect(reply)
            assert asked.kind == "request" and asked.node == told.node == name
            assert told.checked
            assert told == inspect(reply, request=request)
            found.setdefault(asked.task, (asked, told))
    return found


def test_every_request_and_reply_of_networks(tmp_path):
    last = skgems.GEMSLogisticAggregator(intersection="consensus", on_empty="ignore")
    agg = skgems.GEMSMLPAggregator(last_layer=last, random_state=0)
    found = all_of_networks(agg, tmp_path)
    assert set(found) == {"join", "neurons", "retrain", "space", "evaluate", "score"}
    join, summary = found["join"]
    assert join.method == "GEMSMLPAggregator" and "requests.0" not in join.says
    asked, told = found["neurons"]
    assert "Brings 25 numbers of models" in asked.says["arrays"]
    assert "of the numbers that enter the layer" in told.says["neurons.precision"]
    assert told.says["neurons.sizes"].endswith("on average. 5 units.")
    _, told = found["retrain"]
    size = sum(np.prod(array["shape"]) for array in told.arrays)
    assert told.says["retrain.coefs"].endswith(f"{size} numbers.")
    _, told = found["evaluate"]
    n_rows = told.settings["count"]
    assert told.says["evaluate.count"].endswith(f"{n_rows:g} rows, 1 model.")
    _, told = found["score"]
    assert f" Of {told.settings['n_rows']} rows: " in told.says["score.score"]


def test_rounds_of_a_merged_network_bring_clusters_of_others(tmp_path):
    agg = skgems.GEMSMLPAggregator(n_rounds=2, retrain_epochs=1, random_state=0)
    found = all_of_networks(agg, tmp_path)
    assert set(found) == {"join", "neurons", "moments", "retrain", "evaluate", "score"}
    asked, told = found["retrain"]
    assert "clusters of other nodes' rows" in asked.says["others"]
    loss = float(next(iter(told.settings[n] for n in ("loss",))))
    assert told.says["retrain.loss"].endswith(f"before. It is {loss:.4g}.")


def test_replies_of_averages_and_further_messages(tmp_path):
    clf = LogisticRegression().fit(X, y)
    for agg, task in (
        (skgems.ModelAveragingAggregator(n_rounds=2, random_state=0), "train"),
        (skgems.GEMSLogisticAggregator(n_rounds=2, random_state=0), "evaluate"),
    ):
        folder = tmp_path / task
        exchange = Exchange(folder, agg, nodes=["lyon"])
        exchange.step()
        if task == "evaluate":
            first = inspect(exchange.waiting_for["lyon"])
            asked = "kind='auto', n_components=16, min_cluster_size=1"
            assert asked in first.says["requests.0"]
            assert "requests.1" not in first.says
        answer(exchange.waiting_for["lyon"], clf, X, y, name="lyon")
        exchange.step()
        held_out = np.arange(81) % 4 == 0
        request = exchange.waiting_for["lyon"]
        given = {} if task == "train" else {"held_out": held_out, "min_rows": 8}
        reply = answer(request, clf, X, y, name="lyon", radii=True, **given)
        says = inspect(reply).says
        if task == "train":
            loss = load_message(reply).settings["loss"]
            assert says["train.loss"].endswith(f"on the rows. It is {loss:.4g}.")
            assert says["train.parameters"].endswith("15 numbers.")
        else:
            assert "Of a single row it is that row" in says["evaluate.gradient"]
            assert says["evaluate.held_out"].endswith("that are held out. 21 rows.")
            assert "less that of the first" in says["evaluate.squared_gains"]


# ---- what is wrong -------------------------------------------------------------


@pytest.fixture
def mail(tmp_path):
    """A request for a score, and the reply."""
    agg = skgems.GEMSLogisticAggregator(random_state=0)
    clf = LogisticRegression().fit(X, y)
    exchange = Exchange(tmp_path, agg, nodes=["lyon"], report=True)
    while exchange.step() is None:
        request = exchange.waiting_for["lyon"]
        reply = answer(request, clf, X, y, name="lyon", radii=True)
        if load_message(request).task == "score":
            return request, reply
    raise AssertionError


def rewrite(path, **changes):
    write_bytes(path, replace(load_message(path), **changes).to_bytes())


def test_replies_are_checked_by_their_requests(mail, tmp_path):
    request, reply = mail
    away = tmp_path / "away" / "mine.safetensors"
    away.parent.mkdir()
    away.write_bytes(reply.read_bytes())
    found = inspect(away)
    assert not found.checked
    assert "Not checked in full: its request is not here." in str(found)
    assert inspect(away, request=request).checked
    assert "Not checked" not in str(inspect(reply))
    beside = away.with_name("reply-002.safetensors")
    beside.write_bytes(reply.read_bytes())
    beside.with_name("002.safetensors").write_bytes(request.read_bytes())
    assert inspect(beside).checked
    with pytest.raises(ValueError, match="mine.safetensors: it is no reply to .*001-"):
        inspect(away, request=request.with_name("001-lyon.safetensors"))
    rewrite(reply, arrays={"score": np.array(-1.0)})
    with pytest.raises(ValueError, match="replies.*score.score is -1.0, not between"):
        inspect(reply)


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"task": "steal"}, "'steal'"),
        ({"task": "train"}, "train[.](W|beside) is no field of it"),
        (
            {"settings": {"beside": {}}},
            "score[.](labels|n_rows|min_rows|beside[.]W) is missing",
        ),
    ],
)
def test_files_that_are_wrong(mail, tmp_path, changes, words):
    for path in mail:
        away = tmp_path / path.parent.name.upper()
        away.write_bytes(path.read_bytes())
        rewrite(away, **changes)
        with pytest.raises(ValueError, match=words) as raised:
            inspect(away)
        assert str(away) in str(raised.value)


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"method": 3}, "join.method is no text"),
        ({"requests": {"1": {}}}, "join.requests are not numbered from 0"),
        ({"requests": {"0": {"task": "size"}}}, "join.requests.0.asked is missing"),
        ({"rows": True}, "join.rows is no field of it"),
        ({"settings": [1]}, "join.settings is no table"),
    ],
)
def test_first_requests_that_are_wrong(tmp_path, changes, words):
    agg = skgems.GEMSLogisticAggregator(epsilon=0.5, random_state=0)
    exchange = Exchange(tmp_path, agg, nodes=["lyon"])
    exchange.step()
    path = exchange.waiting_for["lyon"]
    says = inspect(path).says["requests.1"]
    assert "geometry='gram', criterion='accuracy'" in says
    rewrite(path, settings={**load_message(path).settings, **changes})
    with pytest.raises(ValueError, match=words):
        inspect(path)


def test_a_summary_that_is_wrong(path):
    summary, _ = seen(path)
    arrays = dict(summary.message.arrays)
    arrays["counts.counts"] = arrays["counts.counts"] + 1
    rewrite(path, arrays=arrays)
    with pytest.raises(ValueError, match="lyon.safetensors: counts.counts are not"):
        inspect(path)


def test_names_do_not_steer_a_terminal(path):
    clf = LogisticRegression().fit(X, y)
    agg = skgems.GEMSLogisticAggregator(random_state=0)
    message = agg.summarize(clf, X, y, name="ly\x1b[2Jon").message
    settings = dict(message.settings, method="GEMS\x1b[2J")
    write_bytes(path, replace(message, settings=settings).to_bytes())
    text = str(inspect(path))
    assert "\x1b" not in text and r"ly\x1b[2Jon" in text and r"GEMS\x1b" in text


@pytest.mark.parametrize("settings", [{}, {"epsilon": 0.5}, {"intersection": "hinge"}])
def test_a_first_request_asks_for_spaces_where_they_are_needed(settings, tmp_path):
    agg = skgems.GEMSLogisticAggregator(random_state=0, **settings)
    exchange = Exchange(tmp_path, agg, nodes=["lyon"])
    exchange.step()
    request = exchange.waiting_for["lyon"]
    asked = " ".join(inspect(request).says.values())
    assert ("how far a linear model may change" in asked) == bool(settings)
    clf = LogisticRegression().fit(X, y)
    says = inspect(answer(request, clf, X, y, name="lyon", radii=True)).says
    assert any(part.endswith(".family") for part in says) == bool(settings)


def test_the_page_and_json(path):
    _, found = seen(path, told={"space": True})
    page = str(found)
    assert page.startswith(found.words)
    assert (
        f"{found.n_bytes:,} bytes: a header and {len(found.arrays)} arrays"
        in found.words
    )
    # The same sentence about two spaces is one.
    assert page.count("Shape of the space") == 1
    lines = page.splitlines()
    line = next(n for n in lines if n.startswith("  describe.network.coefs.0"))
    assert line.split() == [
        *("describe.network.coefs.0", "4", "x", "3", "float64", "96", "bytes")
    ]
    assert "  n_components = 16" in lines
    assert json.loads(json.dumps(asdict(found)))["says"] == found.says


def test_a_message_of_nothing_is_no_request(path):
    write_bytes(path, Message("score").to_bytes())
    with pytest.raises(ValueError, match="score.W is missing"):
        inspect(path)
