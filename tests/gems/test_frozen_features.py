# SPDX-License-Identifier: BSD-3-Clause
"""Heads on frozen features: a pipeline in front is all that is needed."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.fitted import call_once
from helpers.labels import assert_same_labels
from sklearn import config_context
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import get_scorer
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from skgems import GEMSLogisticAggregator
from skgems.gems import Moments

X, Y = load_digits(n_class=6, return_X_y=True)
X, Y = (X[:480] / 16).astype(np.float32), np.array(list("abcdef"))[Y[:480]]
NODES = np.array(["lyon", "paris", "rome"])[np.searchsorted(["b", "d"], Y)]
NODES[(Y == "c") & (np.arange(len(Y)) % 4 == 0)] = "lyon"
NAMES = ["lyon", "paris", "rome"]
# Few clusters a class, which is quick.
TWO_CLUSTERS = Moments(n_components=2)


class RandomRelu(TransformerMixin, BaseEstimator):
    """As a user writes it: a seed is all that it holds."""

    def __init__(self, n_units=40, seed=0):
        self.n_units, self.seed = n_units, seed

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        W = np.random.default_rng(self.seed).standard_normal((X.shape[1], self.n_units))
        return np.maximum(X @ W.astype(X.dtype) / 8, 0)


def network():
    """A skorch net that knows half of the classes."""
    torch = pytest.importorskip("torch")
    skorch = pytest.importorskip("skorch")
    layers = [torch.nn.Unflatten(1, (1, 8, 8)), torch.nn.Conv2d(1, 8, 3, stride=2)]
    layers += [torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(72, 3)]
    is_known = np.isin(Y, ["a", "b", "c"])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return skorch.NeuralNetClassifier(
            torch.nn.Sequential(*layers),
            criterion=torch.nn.CrossEntropyLoss,
            max_epochs=3,
            train_split=None,
            verbose=0,
        ).fit(X[is_known], np.searchsorted(["a", "b", "c"], Y[is_known]))


def convolutional():
    """Its layers below the last, which take float32 alone."""
    net = network()
    torch = pytest.importorskip("torch")

    def features(X):
        with torch.inference_mode():
            return net.module_[:-1](torch.as_tensor(X)).numpy()

    return FunctionTransformer(features)


FEATURES = {
    "own transformer": RandomRelu,
    "backbone": convolutional,
}


@call_once
def heads(Z, model=None):
    model = LogisticRegression(max_iter=2000) if model is None else model
    return [
        (name, clone(model).fit(Z[NODES == name], Y[NODES == name])) for name in NAMES
    ]


SCALED = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))


@pytest.mark.parametrize(
    ("kind", "model"),
    [("own transformer", SCALED), ("backbone", None)],
    ids=["own transformer", "backbone"],
)
def test_a_pipeline_in_front_is_what_summaries_of_features_make(kind, model, tmp_path):
    features = FEATURES[kind]().fit(X)
    Z = features.transform(X)
    agg = GEMSLogisticAggregator(heads(Z, model), moments=TWO_CLUSTERS, random_state=0)
    study = make_pipeline(features, agg)
    study.fit(X, Y, gemslogisticaggregator__nodes=NODES)
    apart = GEMSLogisticAggregator(moments=TWO_CLUSTERS, random_state=0)
    for name, clf in heads(Z, model):
        summary = apart.summarize(
            clf, Z[NODES == name], Y[NODES == name], name=name, disclosure=None
        )
        summary.save(tmp_path / name)
    apart.set_params(estimators=[str(tmp_path / name) for name in NAMES]).fit()
    assert np.array_equal(apart.coef_, study[-1].coef_)
    assert np.array_equal(apart.intercept_, study[-1].intercept_)
    # And is put behind the features as an estimator of scikit-learn.
    plain = make_pipeline(features, apart.to_estimator())
    assert_same_labels(plain, study, X)
    np.testing.assert_allclose(
        plain.predict_proba(X), study.predict_proba(X), atol=1e-6
    )
    # A head of all six classes: no node knows more than three.
    assert study.score(X, Y) > 0.9


def test_a_search_over_a_pipeline_with_nodes_routed():
    features = RandomRelu(20).fit(X)
    fitted = heads(features.transform(X))
    folds = list(StratifiedKFold(2).split(X, Y))
    routed = {"nodes": NODES, "held_out": np.arange(len(X)) % 2 == 1}

    scorer = get_scorer("neg_log_loss")

    def by_hand(C, routed):
        scores = []
        for train, test in folds:
            agg = GEMSLogisticAggregator(
                fitted, C=C, moments=TWO_CLUSTERS, random_state=0
            )
            routed_to_train = {key: value[train] for key, value in routed.items()}
            agg.fit(features.transform(X[train]), Y[train], **routed_to_train)
            scores.append(scorer(agg, features.transform(X[test]), Y[test]))
        return np.mean(scores)

    with config_context(enable_metadata_routing=True):
        agg = GEMSLogisticAggregator(fitted, moments=TWO_CLUSTERS, random_state=0)
        agg.set_fit_request(nodes=True, held_out=True)
        search = GridSearchCV(
            make_pipeline(features, agg),
            {"gemslogisticaggregator__C": [0.1, 1.0]},
            cv=folds,
            scoring="neg_log_loss",
        ).fit(X, Y, **routed)
    scores_of_search = search.cv_results_["mean_test_score"].tolist()
    assert scores_of_search[0] == by_hand(0.1, routed) != scores_of_search[1]
    # Neither is lost on the way.
    with pytest.warns(UserWarning, match="nodes"):
        assert scores_of_search[0] != by_hand(0.1, {"held_out": routed["held_out"]})
    assert scores_of_search[0] != by_hand(0.1, {"nodes": NODES})
    assert search.best_estimator_[-1].node_names_ == NAMES


def test_features_themselves_are_searched_where_heads_are_simulated():
    agg = GEMSLogisticAggregator(moments=TWO_CLUSTERS, random_state=0)
    pipe = make_pipeline(RandomRelu(), agg)
    grid = {"randomrelu__n_units": [2, 40]}
    search = GridSearchCV(pipe, grid, cv=2).fit(
        X, Y, gemslogisticaggregator__nodes=NODES
    )
    score_of_few, score_of_many = search.cv_results_["mean_test_score"]
    assert score_of_few < 0.5 and score_of_many > 0.8
    assert search.best_estimator_[-1].coef_.shape == (6, 40)


def test_units_that_never_fire_at_a_node_or_anywhere():
    Z = RandomRelu(60).transform(X)
    nowhere = np.zeros((len(Z), 3), dtype=Z.dtype)
    at_one_node = np.where((NODES == "rome")[:, None], Z[:, :2], 0)
    without_silent = np.hstack([Z, at_one_node])
    with_silent = np.hstack([nowhere, Z, at_one_node, nowhere])
    plain = fitted_to_summaries_of(without_silent)
    agg = fitted_to_summaries_of(with_silent)
    np.testing.assert_array_equal(agg.coef_[:, :3], 0)
    np.testing.assert_array_equal(agg.coef_[:, -3:], 0)
    np.testing.assert_allclose(
        agg.predict_proba(with_silent), plain.predict_proba(without_silent), atol=0.01
    )
    assert agg.score(with_silent, Y) > 0.95


def fitted_to_summaries_of(Z):
    """An aggregate of the summaries of all nodes, of features with one mean a class."""
    agg = GEMSLogisticAggregator(moments=Moments(n_components=1), random_state=0)
    summaries = [
        agg.summarize(
            clf, Z[NODES == name], Y[NODES == name], name=name, disclosure=None
        )
        for name, clf in heads(Z)
    ]
    return agg.set_params(estimators=summaries).fit()


def test_rows_in_place_of_features_are_refused():
    features = RandomRelu().fit(X)
    (name, clf), *_ = heads(features.transform(X))
    of_node = NODES == name
    with pytest.raises(ValueError, match="64 features, but.*'lyon'.*fitted on 40"):
        GEMSLogisticAggregator().summarize(clf, X[of_node], Y[of_node], name=name)


def test_a_network_whose_layers_belong_in_front():
    of_node = NODES == "lyon"
    with pytest.raises(TypeError, match="'lyon': Unflatten .* give front=Backbone"):
        GEMSLogisticAggregator().summarize(
            network(), X[of_node], Y[of_node], name="lyon"
        )


def test_the_scaler_of_a_node_does_not_count():
    Z = RandomRelu(40).transform(X)
    units = np.geomspace(0.01, 100, 40).astype(np.float32)
    models = []
    for rows in (Z, Z * units):
        scaled = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
        agg = GEMSLogisticAggregator(
            heads(rows, scaled), moments=TWO_CLUSTERS, random_state=0
        )
        models.append(agg.fit(rows, Y, nodes=NODES))
    np.testing.assert_allclose(
        models[1].predict_proba(Z * units), models[0].predict_proba(Z), atol=1e-3
    )
