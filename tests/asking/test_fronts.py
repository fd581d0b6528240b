# SPDX-License-Identifier: BSD-3-Clause
"""Aggregators with a front: rows of any kind come in, and go through it everywhere."""

from __future__ import annotations

import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
from helpers.fitted import call_once
from helpers.labels import assert_same_labels
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
from skgems.asking import Message, Nodes
from skgems.datasets import load_penguins
from skgems.guard import Agreement, reply_to
from skgems.pfnm import Matching
from skgems.steps import RandomFeatures, front_of_text

pytestmark = pytest.mark.usefixtures("accepting_nodes")


def table_with_gaps(n_rows=400):
    """Four columns of numbers, one of words, with gaps; and labels of three classes."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, n_rows)
    frame = pd.DataFrame(rng.normal(size=(n_rows, 4)), columns=list("abcd"))
    frame["a"] += 2.0 * (y == 1)
    frame["b"] = 1e3 * (frame["b"] + 2.0 * (y == 2))
    frame = frame.mask(rng.random(frame.shape) < 0.05)
    frame["word"] = np.where(rng.random(n_rows) < 0.7, y, rng.integers(0, 3, n_rows))
    frame["word"] = frame["word"].map({0: "red", 1: "green", 2: "blue"})
    return frame, np.array(["none", "mild", "severe"])[y]


X, Y = table_with_gaps()
# The node of each row: lyon has no row of "mild", and paris none of "none".
NODES = np.array(["lyon", "paris"])[
    np.where(Y == "none", 0, np.where(Y == "mild", 1, np.arange(len(Y)) % 2))
]
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
    """The rows and labels of a node."""
    return X[NODES == name], Y[NODES == name]


def channel_to(clfs):
    """A channel to nodes that have these classifiers, by name."""

    def ask(requests):
        replies = {}
        for name, request in requests.items():
            X_of_node, y_of_node = rows_of(name)
            reply = reply_to(
                request.to_bytes(),
                clfs[name],
                X_of_node,
                y_of_node,
                name=name,
                disclosure=None,
            )
            replies[name] = Message.from_bytes(reply)
        return replies

    return Nodes(ask, ["lyon", "paris"], disclosure=None)


def summary_of(agg, name, clf):
    """The summary of a node for an aggregator."""
    X_of_node, y_of_node = rows_of(name)
    return agg.summarize(clf, X_of_node, y_of_node, name=name, disclosure=None)


@call_once
def fitted_linear():
    """The aggregate of the rows of all nodes, behind the front that they fit."""
    return clone(LINEAR).fit(X, Y, nodes=NODES)


@call_once
def fitted_front():
    """The front, fitted to the rows of all nodes."""
    return PooledTransformer(FRONT).fit(X, nodes=NODES)


def test_the_front_and_score_are_about_those_of_a_pipeline_of_all_rows():
    agg = fitted_linear()
    pooled = make_pipeline(clone(FRONT), clone(LOGISTIC)).fit(X, Y)
    np.testing.assert_allclose(
        agg.front_.transform(X), pooled[0].transform(X), atol=1e-9
    )
    assert agg.score(X, Y) >= pooled.score(X, Y) - 0.02
    assert [entry["task"] for entry in agg.history_[:2]] == ["front", "front"]
    assert agg.n_features_in_ == 5
    assert agg.feature_names_in_.tolist() == X.columns.tolist()


def test_the_aggregate_can_be_made_a_scikit_learn_pipeline():
    agg = fitted_linear()
    pipeline = agg.to_estimator()
    np.testing.assert_array_equal(pipeline.predict_proba(X), agg.predict_proba(X))
    assert "skgems" not in pickle.dumps(pipeline).decode("latin1")
    assert pipeline.feature_names_in_.tolist() == X.columns.tolist()


def test_an_aggregate_with_a_front_can_be_pickled():
    agg = fitted_linear()
    copy = pickle.loads(pickle.dumps(agg))
    np.testing.assert_array_equal(copy.predict_proba(X), agg.predict_proba(X))


def test_a_channel_has_the_bits_and_scores_of_a_fit_in_one_process():
    in_process = fitted_linear()
    # Nodes fit the agreed classifier themselves.
    channel = channel_to({"lyon": LOGISTIC, "paris": LOGISTIC})
    agg = clone(LINEAR).set_params(estimators=channel).fit()
    assert [entry["task"] for entry in agg.history_] == ["front", "front", "join"]
    np.testing.assert_array_equal(agg.coef_, in_process.coef_)
    agg.ask_scores()
    assert agg.node_scores_["n_rows"] == in_process.node_scores_["n_rows"]
    assert agg.node_scores_["aggregate"] == in_process.node_scores_["aggregate"]


def test_files_of_a_front_and_of_summaries_have_the_bits_of_a_fit_in_one_process(
    tmp_path,
):
    in_process = fitted_linear()
    front = PooledTransformer(FRONT).fit(X, nodes=NODES)
    front.save(tmp_path / "front.safetensors")
    front = PooledTransformer.load(tmp_path / "front.safetensors")
    agg = clone(LINEAR).set_params(front=front)
    paths = []
    for name in ("lyon", "paris"):
        paths.append(tmp_path / name)
        summary_of(agg, name, classifier_behind(front, name)).save(paths[-1])
    agg.set_params(estimators=paths).fit()
    np.testing.assert_array_equal(agg.coef_, in_process.coef_)
    np.testing.assert_array_equal(agg.predict_proba(X), in_process.predict_proba(X))


def classifier_behind(front, name):
    """A classifier of the features that a fitted front makes of a node's rows."""
    X_of_node, y_of_node = rows_of(name)
    return clone(LOGISTIC).fit(front.transform(X_of_node), y_of_node)


def test_summaries_are_refused_behind_another_front():
    front = fitted_front()
    agg = clone(LINEAR).set_params(front=front)
    clf = classifier_behind(front, "lyon")
    agg.set_params(estimators=[summary_of(agg, "lyon", clf)])
    other = PooledTransformer(FRONT).fit(X[:-20], nodes=NODES[:-20])
    with pytest.raises(ValueError, match="summarized with front="):
        agg.set_params(front=other).fit()
    with pytest.raises(ValueError, match="summarized with front="):
        agg.set_params(front=None).fit()
    with pytest.raises(ValueError, match="The front is not fitted"):
        agg.set_params(front=FRONT).fit()
    with pytest.raises(ValueError, match="'lyon': the front is not fitted"):
        summary_of(agg, "lyon", clf)


def test_an_exchange_fits_the_front_within_its_agreement(tmp_path):
    agg = clone(LINEAR).set_params(estimators=None, n_rounds=2)
    exchange = Exchange(tmp_path / "exchange", agg, nodes=["lyon", "paris"])
    tree = exchange.channel.agreement.settings["front"]["tree"]
    assert tree["kind"] == "ColumnTransformer"
    while (fitted := exchange.step()) is None:
        exchange = Exchange(tmp_path / "exchange")  # as a server that is started anew
        exchange.step()
        for name, request in exchange.waiting_for.items():
            X_of_node, y_of_node = rows_of(name)
            skgems.answer(
                request,
                LOGISTIC,
                X_of_node,
                y_of_node,
                name=name,
                disclosure=None,
                state=tmp_path / f"state of {name}",
            )
    tasks = [entry["task"] for entry in fitted.history_]
    assert tasks == ["front", "front", "join", "evaluate"]
    in_process = fitted_linear()
    assert fitted.score(X, Y) >= in_process.score(X, Y) - 0.02


def test_an_exchange_needs_an_unfitted_front(tmp_path):
    agg = clone(LINEAR).set_params(estimators=None, n_rounds=2)
    with pytest.raises(ValueError, match="Pass an unfitted one"):
        Exchange(
            tmp_path / "exchange", agg.set_params(front=fitted_front()), nodes=["lyon"]
        )


def test_an_agreement_counts_the_messages_of_a_front():
    front = PooledTransformer(MinMaxScaler(), bounds=(0.0, 16.0))
    assert Agreement.of(GEMSLogisticAggregator(front=front)).tasks["front"] == 2
    assert Agreement.of(LINEAR, fits=3).tasks["front"] == 9
    of_seed = GEMSLogisticAggregator(front=RandomFeatures(random_state=0))
    assert Agreement.of(of_seed).tasks["front"] == 2


def test_parameters_of_the_front_can_be_searched_over():
    digits, labels = load_digits(return_X_y=True)
    digits = digits[:300]
    labels = labels[:300]
    nodes = labels % 2
    front = make_pipeline(StandardScaler(), PCA(5, svd_solver="full"))
    search = GridSearchCV(
        GEMSLogisticAggregator(LOGISTIC, front=front, random_state=0),
        {"front__pca__n_components": [2, 20], "C": [1.0]},
        cv=2,
    )
    search.fit(digits, labels, nodes=nodes)
    assert search.best_params_["front__pca__n_components"] == 20
    assert search.best_estimator_.front_[-1].n_components_ == 20


def test_a_frozen_front_is_not_fitted_again():
    front = fitted_front()
    agg = GEMSLogisticAggregator(LOGISTIC, front=FrozenEstimator(front), random_state=0)
    agg = clone(agg).fit(X[:200], Y[:200], nodes=NODES[:200])
    assert agg._front is front._front


def test_classifiers_behind_a_fitted_front_are_aggregated_as_in_one_process():
    front = fitted_front()
    members = [(name, classifier_behind(front, name)) for name in ("lyon", "paris")]
    fitted = GEMSLogisticAggregator(members, front=front, random_state=0)
    fitted.fit(X, Y, nodes=NODES)
    in_process = fitted_linear()
    np.testing.assert_array_equal(fitted.coef_, in_process.coef_)


@pytest.mark.parametrize("way", ["rows", "files", "channel"])
def test_pipelines_that_begin_with_the_front_are_taken_behind_it(way):
    front = fitted_front()
    pipelines = pipelines_of(front)
    agg = GEMSLogisticAggregator(front=front, random_state=0)
    members = [(name, classifier_behind(front, name)) for name in pipelines]
    expected = clone(agg).set_params(estimators=members, front=front)
    expected.fit(X, Y, nodes=NODES)
    if way == "rows":
        agg.set_params(estimators=list(pipelines.items())).fit(X, Y, nodes=NODES)
    if way == "files":
        summaries = [summary_of(agg, name, clf) for name, clf in pipelines.items()]
        agg.set_params(estimators=summaries).fit()
    if way == "channel":
        agg.set_params(estimators=channel_to(pipelines)).fit()
    np.testing.assert_array_equal(agg.coef_, expected.coef_)


def pipelines_of(front):
    """A pipeline of each node, by name, that begins with a fitted front."""
    pipelines = {}
    for name in ("lyon", "paris"):
        X_of_node, y_of_node = rows_of(name)
        pipeline = make_pipeline(FrozenEstimator(front), clone(LOGISTIC))
        pipelines[name] = pipeline.fit(X_of_node, y_of_node)
    return pipelines


def test_pipelines_that_begin_with_another_front_are_refused():
    """An encoder is no affine step that could be merged into the classifier."""
    members = pipelines_of(fitted_front())
    other = PooledTransformer(FRONT).fit(X[:-20], nodes=NODES[:-20])
    with pytest.raises((TypeError, ValueError)):
        GEMSLogisticAggregator(list(members.items()), front=other).fit(X, Y, NODES)


def test_rows_for_fine_tuning_go_through_the_front():
    agg = fitted_linear()
    agg.fine_tune(X[:100], Y[:100])
    assert agg.fine_tuning_ is not None and agg.score(X, Y) > 0.8


def test_public_rows_go_through_the_front_but_do_not_fit_it():
    public = NODES.astype(object)
    public[:100] = "public"
    tuned = clone(LINEAR).fit(X, Y, nodes=public)
    assert tuned.fine_tuning_ is not None and tuned.score(X, Y) > 0.8
    front = PooledTransformer(FRONT).fit(X[100:], nodes=NODES[100:])
    assert tuned._front.digest == front._front.digest


def test_spaces_are_of_the_features_that_the_front_makes():
    agg = clone(LINEAR).set_params(epsilon=0.5).fit(X, Y, nodes=NODES)
    assert agg.spaces_[0].center.shape[0] == agg.front_.transform(X[:1]).shape[1] + 1
    without_spaces = fitted_linear()
    spaces = without_spaces.good_enough_spaces(X, Y, NODES)
    assert spaces[0].center.shape == agg.spaces_[0].center.shape


def test_rows_in_chunks_go_through_the_front():
    front = fitted_front()
    agg = clone(LINEAR).set_params(front=front, moments__n_components=1)
    X_of_node, y_of_node = rows_of("lyon")
    clf = classifier_behind(front, "lyon")
    # Rows of a table pass the rule before the front, and chunks behind it.
    of_node = {"name": "lyon", "disclosure": None}
    at_once = agg.summarize(clf, X_of_node, y_of_node, **of_node)

    def chunks():
        return (
            (X_of_node[i : i + 60], y_of_node[i : i + 60])
            for i in range(0, len(X_of_node), 60)
        )

    in_chunks = agg.summarize(clf, chunks=chunks, **of_node)
    coef_of_chunks = agg.set_params(estimators=[in_chunks]).fit().coef_
    coef = agg.set_params(estimators=[at_once]).fit().coef_
    np.testing.assert_allclose(coef_of_chunks, coef, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    "aggregator",
    [
        GEMSMLPAggregator(MLPClassifier((8,), max_iter=30), random_state=0),
        PFNMAggregator(MLPClassifier((8,), max_iter=30), random_state=0),
        ModelAveragingAggregator(LOGISTIC, random_state=0),
        EnsembleAggregator(LOGISTIC, node_weight="class_counts", random_state=0),
    ],
    ids=lambda aggregator: type(aggregator).__name__,
)
@pytest.mark.filterwarnings("ignore")
def test_every_aggregator_takes_a_front_as_if_rows_had_its_features(aggregator):
    agg = clone(aggregator).set_params(front=FRONT).fit(X, Y, nodes=NODES)
    Z = agg.front_.transform(X)
    of_features = clone(aggregator).fit(Z, Y, nodes=NODES)
    np.testing.assert_array_equal(agg.predict_proba(X), of_features.predict_proba(Z))
    assert agg.n_features_in_ == 5 and of_features.n_features_in_ == 7
    if hasattr(agg, "to_estimator"):
        pipeline = agg.to_estimator()
        np.testing.assert_allclose(pipeline.predict_proba(X), agg.predict_proba(X))


def test_random_features_as_a_front_make_a_kernel_machine():
    # Two rings, which no linear model separates.
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


def test_fronts_that_are_no_known_transformers_are_refused():
    with pytest.raises(ValueError, match="'front' parameter of"):
        GEMSLogisticAggregator(LOGISTIC, front="scale").fit(X, Y, nodes=NODES)
    with pytest.raises(ValueError, match="not a function of sums"):
        agg = GEMSLogisticAggregator(LOGISTIC, front=UnknownTransformer())
        agg.fit(X, Y, nodes=NODES)


class UnknownTransformer:
    def fit(self, X):
        return self

    def transform(self, X):
        return X


FRONT_IN_WORDS = "SimpleImputer | StandardScaler | RandomFeatures(20, random_state=0)"


@pytest.fixture
def start_command(tmp_path, monkeypatch):
    """A command that starts an exchange of two nodes, but for the front.

    Tables of numbers of both nodes and an unfitted classifier, which the nodes fit,
    are in the working directory.
    """
    monkeypatch.chdir(tmp_path)
    for name in ("lyon", "paris"):
        table_of_node, labels = rows_of(name)
        numbers = table_of_node.drop(columns="word").assign(label=labels)
        numbers.to_csv(f"{name}.csv", index=False)
    joblib.dump(LOGISTIC, "clf.joblib")
    start = ["start", "work", "--method", "linear", "--nodes", "lyon", "paris"]
    return [*start, "--disclosure", "none", "--set", "random_state=0", "--front"]


def answer_by_command(name, number):
    """Have a node answer the message of this number."""
    request = f"work/requests/{number:03d}-{name}.safetensors"
    rows_and_name = ["--rows", f"{name}.csv", "--name", name]
    options = [
        "--label",
        "label",
        "--model",
        "clf.joblib",
        "--yes",
        "--disclosure",
        "none",
    ]
    assert main(["answer", request, *rows_and_name, *options]) == 0


def complete_exchange_by_commands():
    """Answer and combine until there is a model; the number of messages."""
    replies_missing = 3  # the exit code
    code = replies_missing
    n_messages = 0
    while code == replies_missing:
        n_messages += 1
        for name in ("lyon", "paris"):
            answer_by_command(name, n_messages)
        code = main(["combine", "work", "--out", "model.skops"])
    assert code == 0
    return n_messages


def test_the_command_line_takes_a_front(start_command, capsys):
    skops_io = pytest.importorskip("skops.io")
    assert main([*start_command, FRONT_IN_WORDS]) == 0
    # Sums of the scaler, those of the features behind it, and the models.
    assert complete_exchange_by_commands() == 3
    printed = capsys.readouterr().out
    assert "Columns that go through the front" in printed
    assert "columns (step 0/0)" in printed
    trusted = skops_io.get_untrusted_types(file="model.skops")
    model = skops_io.load("model.skops", trusted=trusted)
    numbers = X.drop(columns="word")
    in_process = clone(LINEAR).set_params(front=front_of_text(FRONT_IN_WORDS))
    in_process.fit(numbers, Y, nodes=NODES)
    np.testing.assert_allclose(
        model.predict_proba(numbers), in_process.predict_proba(numbers), atol=1e-9
    )


def test_the_command_line_takes_no_front_that_is_code(start_command):
    assert main([*start_command, "exit()"]) == 1


def test_a_linear_aggregate_behind_a_front_needs_no_classifiers():
    agg = clone(LINEAR).set_params(estimators=[("lyon", None), ("paris", None)])
    agg.fit(X, Y, nodes=NODES)
    assert agg.score(X, Y) >= clone(LINEAR).fit(X, Y, nodes=NODES).score(X, Y) - 0.03


def test_a_pooled_classifier_behind_a_front_is_the_pipeline_of_all_rows():
    of_sums = PooledAggregator(pooled=LinearDiscriminantAnalysis(), front=FRONT)
    of_sums.fit(X, Y, nodes=NODES)
    pooled = make_pipeline(clone(FRONT), LinearDiscriminantAnalysis()).fit(X, Y)
    assert_same_labels(of_sums, pooled, X)
    assert_same_labels(of_sums.to_estimator(), pooled, X)


def test_a_pooled_classifier_of_summaries_behind_a_front_is_that_of_all_rows():
    front = fitted_front()
    agg = PooledAggregator(pooled=GaussianNB(), front=front)
    summaries = [summary_of(agg, name, None) for name in ("lyon", "paris")]
    agg.set_params(estimators=summaries).fit()
    pooled_bayes = GaussianNB().fit(clone(FRONT).fit_transform(X), Y)
    assert (agg.predict(X) == pooled_bayes.predict(front.transform(X))).all()


def test_behind_a_fitted_front_nodes_can_be_added_and_forgotten():
    front = fitted_front()

    def aggregate_of(estimators=None):
        return PooledAggregator(
            estimators, pooled=GaussianNB(), front=front, keep_replies=True
        )

    agg = aggregate_of()
    lyon = summary_of(agg, "lyon", None)
    paris = summary_of(agg, "paris", None)
    agg.set_params(estimators=[lyon]).fit().update([paris])
    at_once = aggregate_of([lyon, paris]).fit()
    np.testing.assert_array_equal(agg.predict_proba(X), at_once.predict_proba(X))
    assert agg.n_features_in_ == 5 and agg.to_estimator().predict(X).shape == Y.shape
    of_lyon = aggregate_of([lyon]).fit()
    np.testing.assert_array_equal(
        agg.forget("paris").predict_proba(X), of_lyon.predict_proba(X)
    )


def test_a_node_that_the_front_was_fitted_to_cannot_be_forgotten():
    """The statistics of its columns would stay in the front."""
    agg = PooledAggregator(pooled=GaussianNB(), front=FRONT, keep_replies=True)
    agg.fit(X, Y, nodes=NODES)
    with pytest.raises(ValueError, match="fitted to statistics of node 'lyon'"):
        agg.forget("lyon")


def penguins_of_two_islands():
    """Measurements, species and islands of penguins, of which two are the nodes."""
    X, y, islands = load_penguins()
    is_used = islands != "Torgersen"
    return X[is_used], y[is_used], islands[is_used]


def classifiers_of_islands(kind, X, y, islands):
    """Pairs of an island and a classifier of its rows."""
    return [
        (name, kind().fit(X[islands == name], y[islands == name]))
        for name in ("Biscoe", "Dream")
    ]


def test_classifiers_of_rows_before_the_front_are_warned_of():
    X, y, islands = penguins_of_two_islands()
    members = classifiers_of_islands(LinearDiscriminantAnalysis, X, y, islands)
    agg = GEMSLogisticAggregator(members, front=StandardScaler(), random_state=0)
    with pytest.warns(UserWarning, match="before the front") as caught:
        agg.fit(X, y, nodes=islands)
    assert "after the front its classifier labels" in str(caught[0].message)


def test_classifiers_of_rows_after_the_front_are_not_warned_of():
    X, y, islands = penguins_of_two_islands()
    front = PooledTransformer(StandardScaler()).fit(X, nodes=islands)
    Z = front.transform(X)
    members = classifiers_of_islands(LogisticRegression, Z, y, islands)
    GEMSLogisticAggregator(members, front=front).fit(X, y, nodes=islands)


def test_a_network_with_a_front_cannot_be_made_a_module():
    pytest.importorskip("torch")
    X, y, islands = load_penguins()
    nets = MLPClassifier((4,), solver="lbfgs", max_iter=500, random_state=0)
    agg = PFNMAggregator(
        nets, front=StandardScaler(), random_state=0, matching=Matching(max_iter=2)
    )
    agg.fit(X, y, nodes=islands)
    with pytest.raises(ValueError, match="cannot contain the front"):
        agg.to_module()
