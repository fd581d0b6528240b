# SPDX-License-Identifier: BSD-3-Clause
"""Aggregators with a front: rows of any kind come in, and go through it everywhere."""

from __future__ import annotations

import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, StandardScaler

import skgems
from skgems import (
    EnsembleAggregator,
    Exchange,
    GEMSLogisticAggregator,
    GEMSMLPAggregator,
    ModelAveragingAggregator,
    PFNMAggregator,
    PooledAggregator,
    PooledTransformer,
)
from skgems._cli import main
from skgems.datasets import load_penguins
from skgems.federation import Agreement, Message, Nodes, reply_to
from skgems.steps import RandomFeatures, front_of_text


def table(n_rows=400):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, n_rows)
    frame = pd.DataFrame(rng.normal(size=(n_rows, 4)), columns=list("abcd"))
    frame["a"] += 2.0 * (y == 1)
    frame["b"] = 1e3 * (frame["b"] + 2.0 * (y == 2))
    frame = frame.mask(rng.random(frame.shape) < 0.05)
    frame["word"] = np.where(rng.random(n_rows) < 0.7, y, rng.integers(0, 3, n_rows))
    frame["word"] = frame["word"].map({0: "red", 1: "green", 2: "blue"})
    return frame, np.array(["none", "mild", "severe"])[y]


X, Y = table()
# Of two classes each, so that no node has all.
NODES = np.where(Y == "none", 0, np.where(Y == "mild", 1, np.arange(len(Y)) % 2))
NAMED = np.array(["lyon", "paris"])[NODES]
FRONT = ColumnTransformer(
    [
        ("x", make_pipeline(SimpleImputer(), StandardScaler()), list("abcd")),
        ("word", OneHotEncoder(handle_unknown="ignore"), ["word"]),
    ],
    sparse_threshold=0.0,
)
LOGISTIC = LogisticRegression(max_iter=1000)
LINEAR = GEMSLogisticAggregator(
    LOGISTIC, front=FRONT, validation_fraction=0.0, random_state=0
)


def rows_of(name):
    return X[NAMED == name], Y[NAMED == name]


def channel_to_nodes():
    """A channel to nodes that fit the agreed classifier themselves."""

    def ask(requests):
        replies = {}
        for name, request in requests.items():
            X_of_node, y_of_node = rows_of(name)
            reply = reply_to(
                request.to_bytes(),
                LOGISTIC,
                X_of_node,
                y_of_node,
                name=name,
                min_rows=1,
            )
            replies[name] = Message.from_bytes(reply)
        return replies

    return Nodes(ask, ["lyon", "paris"], min_rows=1)


def test_of_all_rows_it_is_nearly_the_pooled_pipeline():
    agg = clone(LINEAR).fit(X, Y, nodes=NAMED)
    pooled = make_pipeline(clone(FRONT), clone(LOGISTIC)).fit(X, Y)
    np.testing.assert_allclose(
        agg.front_.transform(X), pooled[0].transform(X), atol=1e-9
    )
    assert agg.score(X, Y) >= pooled.score(X, Y) - 0.02
    assert [entry["task"] for entry in agg.history_[:2]] == ["front", "front"]
    assert agg.n_features_in_ == 5
    assert agg.feature_names_in_.tolist() == X.columns.tolist()


def test_what_comes_out_is_a_plain_pipeline():
    agg = clone(LINEAR).fit(X, Y, nodes=NAMED)
    plain = agg.to_estimator()
    np.testing.assert_array_equal(plain.predict_proba(X), agg.predict_proba(X))
    assert "skgems" not in pickle.dumps(plain).decode("latin1")
    assert plain.feature_names_in_.tolist() == X.columns.tolist()
    copy = pickle.loads(pickle.dumps(agg))
    np.testing.assert_array_equal(copy.predict_proba(X), agg.predict_proba(X))


def test_channels_and_files_give_equal_bits(tmp_path):
    in_process = clone(LINEAR).fit(X, Y, nodes=NAMED)
    over = clone(LINEAR).set_params(estimators=channel_to_nodes()).fit()
    assert [entry["task"] for entry in over.history_] == ["front", "front", "join"]
    np.testing.assert_array_equal(over.coef_, in_process.coef_)
    over.ask_scores()
    assert over.node_scores_["n_rows"] == in_process.node_scores_["n_rows"]
    assert over.node_scores_["aggregate"] == in_process.node_scores_["aggregate"]

    front = PooledTransformer(FRONT).fit(X, nodes=NAMED)
    front.save(tmp_path / "front.safetensors")
    front = PooledTransformer.load(tmp_path / "front.safetensors")
    agg = clone(LINEAR).set_params(front=front)
    sent = []
    for name in ("lyon", "paris"):
        X_of_node, y_of_node = rows_of(name)
        clf = clone(LOGISTIC).fit(front.transform(X_of_node), y_of_node)
        sent.append(tmp_path / name)
        agg.summarize(clf, X_of_node, y_of_node, name=name, min_rows=1).save(sent[-1])
    agg.set_params(estimators=sent).fit()
    np.testing.assert_array_equal(agg.coef_, in_process.coef_)
    np.testing.assert_array_equal(agg.predict_proba(X), in_process.predict_proba(X))

    other = PooledTransformer(FRONT).fit(X[:-20], nodes=NAMED[:-20])
    with pytest.raises(ValueError, match="summarized with front="):
        agg.set_params(front=other).fit()
    with pytest.raises(ValueError, match="summarized with front="):
        agg.set_params(front=None).fit()
    with pytest.raises(ValueError, match="The front is not fitted"):
        agg.set_params(front=FRONT).fit()
    with pytest.raises(ValueError, match="'lyon': the front is not fitted"):
        agg.summarize(clf, X_of_node, y_of_node, name="lyon")


def test_an_exchange_fits_it_within_its_agreement(tmp_path):
    agg = clone(LINEAR).set_params(estimators=None, n_rounds=2)
    exchange = Exchange(tmp_path / "exchange", agg, nodes=["lyon", "paris"])
    assert exchange.channel.agreement.settings["front"]["tree"]["kind"] == (
        "ColumnTransformer"
    )
    while (fitted := exchange.step()) is None:
        exchange = Exchange(tmp_path / "exchange")  # as after a new start
        exchange.step()
        for name, request in exchange.waiting_for.items():
            X_of_node, y_of_node = rows_of(name)
            skgems.answer(
                request,
                LOGISTIC,
                X_of_node,
                y_of_node,
                name=name,
                min_rows=1,
                state=tmp_path / f"state of {name}",
            )
    tasks = [entry["task"] for entry in fitted.history_]
    assert tasks == ["front", "front", "join", "evaluate"]
    in_process = clone(LINEAR).fit(X, Y, nodes=NAMED)
    assert fitted.score(X, Y) >= in_process.score(X, Y) - 0.02
    with pytest.raises(ValueError, match="give it unfitted"):
        Exchange(tmp_path / "b", agg.set_params(front=_fitted()), nodes=["lyon"])


def _fitted():
    return PooledTransformer(FRONT).fit(X, nodes=NAMED)


def test_bounds_that_are_told_need_an_agreement_that_says_so():
    front = PooledTransformer(MinMaxScaler(), bounds="tell")
    agg = GEMSLogisticAggregator(front=front)
    assert Agreement.of(agg).radii and not Agreement.of(LINEAR).radii
    assert Agreement.of(agg).tasks["front"] == 2
    assert Agreement.of(LINEAR, fits=3).tasks["front"] == 9
    of_seed = GEMSLogisticAggregator(front=RandomFeatures(random_state=0))
    assert Agreement.of(of_seed).tasks["front"] == 2


def test_searches_go_over_its_parameters():
    digits, labels = load_digits(return_X_y=True)
    digits, labels = digits[:600], labels[:600]
    nodes = labels % 2
    front = make_pipeline(StandardScaler(), PCA(5, svd_solver="full"))
    search = GridSearchCV(
        GEMSLogisticAggregator(LOGISTIC, front=front, random_state=0),
        {"front__pca__n_components": [2, 20], "C": [1.0]},
        cv=3,
    )
    search.fit(digits, labels, nodes=nodes)
    assert search.best_params_["front__pca__n_components"] == 20
    assert search.best_estimator_.front_[-1].n_components_ == 20


def test_a_fitted_front_stays_as_it_is():
    front = _fitted()
    agg = GEMSLogisticAggregator(LOGISTIC, front=FrozenEstimator(front), random_state=0)
    agg = clone(agg).fit(X[:200], Y[:200], nodes=NAMED[:200])
    assert agg._front is front._front
    members = []
    for name in ("lyon", "paris"):
        X_of_node, y_of_node = rows_of(name)
        members.append(
            (name, clone(LOGISTIC).fit(front.transform(X_of_node), y_of_node))
        )
    fitted = GEMSLogisticAggregator(members, front=front, random_state=0)
    fitted.fit(X, Y, nodes=NAMED)
    in_process = clone(LINEAR).fit(X, Y, nodes=NAMED)
    np.testing.assert_array_equal(fitted.coef_, in_process.coef_)


@pytest.mark.parametrize("way", ["rows", "files", "channel"])
def test_members_may_begin_with_it(way):
    front = _fitted()
    members = {}
    plain = {}  # the same classifiers without the front
    for name in ("lyon", "paris"):
        X_of_node, y_of_node = rows_of(name)
        members[name] = make_pipeline(FrozenEstimator(front), clone(LOGISTIC))
        members[name].fit(X_of_node, y_of_node)
        plain[name] = clone(LOGISTIC).fit(front.transform(X_of_node), y_of_node)
    agg = GEMSLogisticAggregator(front=front, random_state=0)
    expected = clone(agg).set_params(estimators=list(plain.items()), front=front)
    expected.fit(X, Y, nodes=NAMED)
    if way == "rows":
        agg.set_params(estimators=list(members.items())).fit(X, Y, nodes=NAMED)
    if way == "files":
        sent = [
            agg.summarize(clf, *rows_of(name), name=name, min_rows=1)
            for name, clf in members.items()
        ]
        agg.set_params(estimators=sent).fit()
    if way == "channel":

        def ask(requests):
            return {
                name: reply_to(
                    request, members[name], *rows_of(name), name=name, min_rows=1
                )
                for name, request in requests.items()
            }

        agg.set_params(estimators=Nodes(ask, list(members), min_rows=1)).fit()
    np.testing.assert_array_equal(agg.coef_, expected.coef_)
    # Behind another front they are not taken apart, and an encoder is no affine step.
    other = PooledTransformer(FRONT).fit(X[:-20], nodes=NAMED[:-20])
    with pytest.raises((TypeError, ValueError)):
        GEMSLogisticAggregator(list(members.items()), front=other).fit(X, Y, NAMED)


def test_rows_of_the_server_go_through_it():
    agg = clone(LINEAR).fit(X, Y, nodes=NAMED)
    agg.fine_tune(X[:100], Y[:100])
    assert agg.fine_tuning_ is not None and agg.score(X, Y) > 0.8
    public = NAMED.astype(object)
    public[:100] = "public"
    tuned = clone(LINEAR).fit(X, Y, nodes=public)
    assert tuned.fine_tuning_ is not None and tuned.score(X, Y) > 0.8
    # They fit nothing of it.
    front = PooledTransformer(FRONT).fit(X[100:], nodes=NAMED[100:])
    assert tuned._front.digest == front._front.digest


def test_spaces_are_those_of_its_features():
    agg = clone(LINEAR).set_params(epsilon=0.5).fit(X, Y, nodes=NAMED)
    assert agg.spaces_[0].center.shape[0] == agg.front_.transform(X[:1]).shape[1] + 1
    plain = clone(LINEAR).fit(X, Y, nodes=NAMED)
    spaces = plain.good_enough_spaces(X, Y, NAMED)
    assert spaces[0].center.shape == agg.spaces_[0].center.shape


def test_chunks_go_through_it():
    front = _fitted()
    name = "lyon"
    agg = clone(LINEAR).set_params(front=front, n_components=1)
    X_of_node, y_of_node = rows_of(name)
    clf = clone(LOGISTIC).fit(front.transform(X_of_node), y_of_node)
    at_once = agg.summarize(clf, X_of_node, y_of_node, name=name)

    def chunks():
        return (
            (X_of_node[i : i + 60], y_of_node[i : i + 60])
            for i in range(0, len(X_of_node), 60)
        )

    in_chunks = agg.summarize(clf, name=name, chunks=chunks)
    ours = agg.set_params(estimators=[in_chunks]).fit().coef_
    theirs = agg.set_params(estimators=[at_once]).fit().coef_
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    "aggregator",
    [
        GEMSMLPAggregator(MLPClassifier((8,), max_iter=300), random_state=0),
        PFNMAggregator(MLPClassifier((8,), max_iter=300), random_state=0),
        ModelAveragingAggregator(LOGISTIC, random_state=0),
        EnsembleAggregator(LOGISTIC, weights="class_counts", random_state=0),
    ],
    ids=lambda aggregator: type(aggregator).__name__,
)
@pytest.mark.filterwarnings("ignore")
def test_of_every_aggregator(aggregator):
    agg = clone(aggregator).set_params(front=FRONT).fit(X, Y, nodes=NAMED)
    Z = agg.front_.transform(X)
    inner = clone(aggregator).fit(Z, Y, nodes=NAMED)
    np.testing.assert_array_equal(agg.predict_proba(X), inner.predict_proba(Z))
    assert agg.n_features_in_ == 5 and inner.n_features_in_ == 7
    if hasattr(agg, "to_estimator"):
        plain = agg.to_estimator()
        np.testing.assert_allclose(plain.predict_proba(X), agg.predict_proba(X))


def test_a_kernel_machine_of_one_message():
    # Two rings, which no linear model tells apart.
    rng = np.random.default_rng(0)
    angle = rng.uniform(0, 2 * np.pi, 600)
    y = np.arange(600) % 2
    rows = np.c_[np.cos(angle), np.sin(angle)] * (1.0 + y)[:, None]
    rows += 0.1 * rng.normal(size=rows.shape)
    nodes = (rows[:, 0] > 0).astype(int)
    front = make_pipeline(StandardScaler(), RandomFeatures(100, random_state=0))
    agg = GEMSLogisticAggregator(LOGISTIC, front=front, random_state=0)
    assert agg.fit(rows, y, nodes=nodes).score(rows, y) > 0.97
    assert clone(agg).set_params(front=None).fit(rows, y, nodes).score(rows, y) < 0.7


def test_a_front_that_is_none_is_refused():
    with pytest.raises(ValueError, match="'front' parameter of"):
        GEMSLogisticAggregator(LOGISTIC, front="scale").fit(X, Y, nodes=NAMED)
    with pytest.raises(ValueError, match="no function of sums"):
        agg = GEMSLogisticAggregator(LOGISTIC, front=_UnknownTransformer())
        agg.fit(X, Y, nodes=NAMED)


class _UnknownTransformer:
    def fit(self, X):
        return self

    def transform(self, X):
        return X


def test_on_the_command_line(tmp_path, monkeypatch, capsys):
    pytest.importorskip("skops")
    monkeypatch.chdir(tmp_path)
    front = "SimpleImputer | StandardScaler | RandomFeatures(20, random_state=0)"
    tables = {name: rows_of(name) for name in ("lyon", "paris")}
    for name, (table_of_node, labels) in tables.items():
        numbers = table_of_node.drop(columns="word").assign(label=labels)
        numbers.to_csv(f"{name}.csv", index=False)
    joblib.dump(LOGISTIC, "clf.joblib")  # which is not fitted
    start = ["start", "work", "--method", "linear", "--nodes", *tables]
    start += ["--min-rows", "1"]
    assert main([*start, "--front", front, "--set", "random_state=0"]) == 0
    common = ["--label", "label", "--model", "clf.joblib", "--yes", "--min-rows", "1"]
    code = 3  # replies are missing
    n_messages = 0
    while code == 3:
        n_messages += 1
        for name in tables:
            request = f"work/requests/{n_messages:03d}-{name}.safetensors"
            rows_and_name = ["--rows", f"{name}.csv", "--name", name]
            assert main(["answer", request, *rows_and_name, *common]) == 0
        code = main(["combine", "work", "--out", "model.skops"])
    assert code == 0 and n_messages == 3
    printed = capsys.readouterr().out
    assert "Columns, which go through transformers" in printed
    assert "columns (step 0/0)" in printed
    import skops.io

    trusted = skops.io.get_untrusted_types(file="model.skops")
    model = skops.io.load("model.skops", trusted=trusted)
    numbers = X.drop(columns="word")
    in_process = clone(LINEAR).set_params(front=front_of_text(front))
    in_process.fit(numbers, Y, nodes=NAMED)
    np.testing.assert_allclose(
        model.predict_proba(numbers), in_process.predict_proba(numbers), atol=1e-9
    )
    assert main([*start, "--front", "exit()"]) == 1


def test_nodes_without_classifiers_need_none():
    agg = clone(LINEAR).set_params(estimators=[("lyon", None), ("paris", None)])
    agg.fit(X, Y, nodes=NAMED)
    assert agg.score(X, Y) >= clone(LINEAR).fit(X, Y, nodes=NAMED).score(X, Y) - 0.03
    of_sums = PooledAggregator(pooled=LinearDiscriminantAnalysis(), front=FRONT)
    of_sums.fit(X, Y, nodes=NAMED)
    pooled = make_pipeline(clone(FRONT), LinearDiscriminantAnalysis()).fit(X, Y)
    assert (of_sums.predict(X) == pooled.predict(X)).all()
    assert (of_sums.to_estimator().predict(X) == pooled.predict(X)).all()
    front = _fitted()
    agg = PooledAggregator(pooled=GaussianNB(), front=front)
    sent = [
        agg.summarize(None, *rows_of(name), name=name, min_rows=1)
        for name in ("lyon", "paris")
    ]
    agg.set_params(estimators=sent).fit()
    pooled_bayes = GaussianNB().fit(pooled[0].transform(X), Y)
    assert (agg.predict(X) == pooled_bayes.predict(front.transform(X))).all()


def test_nodes_come_and_go():
    front = _fitted()

    def aggregate_of(estimators=None):
        return PooledAggregator(
            estimators, pooled=GaussianNB(), front=front, keep_replies=True
        )

    agg = aggregate_of()
    sent = {
        name: agg.summarize(None, *rows_of(name), name=name, min_rows=1)
        for name in ("lyon", "paris")
    }
    agg.set_params(estimators=[sent["lyon"]]).fit().update([sent["paris"]])
    at_once = aggregate_of(list(sent.values())).fit()
    np.testing.assert_array_equal(agg.predict_proba(X), at_once.predict_proba(X))
    assert agg.n_features_in_ == 5 and agg.to_estimator().predict(X).shape == Y.shape
    alone = aggregate_of([sent["lyon"]]).fit()
    np.testing.assert_array_equal(
        agg.forget("paris").predict_proba(X), alone.predict_proba(X)
    )
    # What a node told of its columns stays in a front that was fitted here.
    fitted_here = PooledAggregator(pooled=GaussianNB(), front=FRONT, keep_replies=True)
    fitted_here.fit(X, Y, nodes=NAMED)
    with pytest.raises(ValueError, match="fitted to what node 'lyon' told"):
        fitted_here.forget("lyon")


def test_members_of_rows_before_the_front_draw_a_warning():
    X, y, islands = load_penguins()
    is_used = islands != "Torgersen"
    X, y, islands = X[is_used], y[is_used], islands[is_used]
    raw = [
        (name, LinearDiscriminantAnalysis().fit(X[is_of_node], y[is_of_node]))
        for name in ("Biscoe", "Dream")
        for is_of_node in [islands == name]
    ]
    agg = GEMSLogisticAggregator(raw, front=StandardScaler(), random_state=0)
    with pytest.warns(UserWarning, match="before the front") as caught:
        agg.fit(X, y, nodes=islands)
    assert "after the front its classifier labels" in str(caught[0].message)
    front = PooledTransformer(StandardScaler()).fit(X, nodes=islands)
    Z = front.transform(X)
    behind = [
        (name, LogisticRegression().fit(Z[is_of_node], y[is_of_node]))
        for name in ("Biscoe", "Dream")
        for is_of_node in [islands == name]
    ]
    GEMSLogisticAggregator(behind, front=front).fit(X, y, nodes=islands)  # no warning


def test_a_module_does_not_lose_the_front():
    pytest.importorskip("torch")
    X, y, islands = load_penguins()
    nets = MLPClassifier((4,), solver="lbfgs", max_iter=500, random_state=0)
    agg = PFNMAggregator(nets, front=StandardScaler(), random_state=0, max_iter=2)
    agg.fit(X, y, nodes=islands)
    with pytest.raises(ValueError, match="would lack the front"):
        agg.to_module()
