# SPDX-License-Identifier: BSD-3-Clause
"""Objects as parameters of the GEMS aggregators: short forms, searches, precedence."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.estimators import federated
from helpers.parts import in_parts, with_hidden_layers
from sklearn.base import clone
from sklearn.covariance import ledoit_wolf_shrinkage
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier

from skgems import GEMSLogisticAggregator, GEMSMLPAggregator
from skgems.gems import Spaces
from skgems.spaces import Ball, Ellipsoid, Geometry, Gram, GramMetric, LogLoss

LOCAL = LogisticRegression(C=10.0, max_iter=1000)
NET = MLPClassifier(6, solver="lbfgs", alpha=0.1, max_iter=2000, random_state=0)


def linear(dataset, **parameters):
    options = {
        "intersection": "consensus",
        "random_state": 0,
        "n_directions": 50,
        "on_empty": "ignore",
    }
    return GEMSLogisticAggregator(
        dataset.fitted(LOCAL), **in_parts({**options, **parameters})
    )


def networks(dataset, **parameters):
    options = {"random_state": 0, "local_epochs": 0}
    parameters = with_hidden_layers({**options, **parameters})
    return GEMSMLPAggregator(dataset.fitted(NET), **parameters)


def fitted(aggregate, dataset):
    return aggregate.fit(dataset.X, dataset.y, nodes=dataset.nodes)


def assert_same(one, other, dataset):
    np.testing.assert_array_equal(
        one.predict_proba(dataset.X_test), other.predict_proba(dataset.X_test)
    )


# ---- geometry and criterion of linear models ------------------------------------


@pytest.mark.parametrize(
    ("word", "long"), [("gram", Gram()), ("ellipsoid", Ellipsoid()), ("ball", Ball())]
)
def test_a_word_is_its_object(word, long):
    dataset = federated("overlapping")
    of_word, of_object = (
        fitted(linear(dataset, geometry=g), dataset) for g in (word, long)
    )
    assert_same(of_word, of_object, dataset)
    assert repr(of_word.geometry_) == repr(of_object.geometry_) == repr(long)
    # Stored untouched.
    assert of_word.spaces.geometry == word and of_object.spaces.geometry is long
    assert of_object.geometry_ is not long


def test_a_criterion_object_is_its_word():
    dataset = federated("overlapping")
    assert_same(
        fitted(linear(dataset, criterion=LogLoss()), dataset),
        fitted(linear(dataset, criterion="log_loss"), dataset),
        dataset,
    )


def test_parameters_within_a_word_can_be_set():
    aggregate = GEMSLogisticAggregator()
    aggregate.set_params(spaces__geometry__ridge=0.7)
    geometry = aggregate.spaces.geometry
    assert (geometry.ridge, geometry.unseen_weight) == (0.7, 0.2)
    aggregate.set_params(
        spaces__geometry="ellipsoid",
        spaces__geometry__floor=0.3,
    )
    assert isinstance(aggregate.spaces.geometry, Ellipsoid)
    assert aggregate.get_params()["spaces__geometry__floor"] == 0.3
    with pytest.raises(ValueError, match="Invalid parameter 'ridge'"):
        aggregate.set_params(spaces__geometry__ridge=1.0)
    # Nothing is shared between aggregators.
    other = GEMSLogisticAggregator().set_params(spaces__geometry__ridge=0.9)
    assert (
        GEMSLogisticAggregator()
        .set_params(spaces__geometry__unseen_margin=1)
        .spaces.geometry.ridge
    )
    assert other.spaces.geometry.ridge == 0.9
    fresh = GEMSLogisticAggregator().set_params(spaces__geometry__ridge=0.1)
    assert fresh.spaces.geometry.ridge == 0.1


def test_a_search_over_a_parameter_of_the_geometry():
    dataset = federated("homogeneous")
    grid = {"spaces__geometry__ridge": [0.01, 3.0], "epsilon": [0.2]}
    search = GridSearchCV(linear(dataset), grid, cv=2, error_score="raise")
    search.fit(dataset.X, dataset.y, nodes=dataset.nodes)
    for ridge in (0.01, 3.0):
        chosen = linear(dataset, geometry=Gram(ridge=ridge), epsilon=0.2)
        searched = clone(search.estimator).set_params(
            spaces__geometry__ridge=ridge, epsilon=0.2
        )
        assert_same(fitted(chosen, dataset), fitted(searched, dataset), dataset)
    assert len(search.cv_results_["params"]) == 2


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"geometry": Gram(ridge=-1.0)}, ValueError, "'ridge' parameter of Gram"),
        ({"geometry": "cube"}, ValueError, "'geometry' parameter of"),
        ({"criterion": "f1"}, ValueError, "'criterion' parameter of"),
        ({"criterion": LogLoss(), "epsilon": -1.0}, ValueError, "epsilon"),
        ({"criterion": "accuracy", "epsilon": 1.5}, ValueError, "between 0 and 1"),
    ],
)
def test_bad_objects(change, error, message):
    dataset = federated()
    with pytest.raises(error, match=message):
        fitted(linear(dataset, **change), dataset)


# ---- a geometry of a user's own -------------------------------------------------


class LedoitWolf(Geometry, name="ledoit_wolf_of_parameters"):
    """The covariance, shrunk by as much as Ledoit and Wolf say."""

    needs_moments = True
    needs_rows = True
    in_logits = True

    def metric(self, moments, center, known, scale, rows=None):
        share = ledoit_wolf_shrinkage(rows)
        covariance = moments.covariance
        size = np.trace(covariance) / len(covariance)
        shrunk = (1 - share) * covariance + share * size * np.eye(len(covariance))
        return GramMetric(scatter=shrunk, mean=moments.mean)

    def neuron_metric(self, moments, centers, slopes, rows=None):
        return self.metric(moments, centers, None, 1.0, rows)


@pytest.mark.parametrize("construction", ["sampled", "certified"])
def test_a_geometry_of_ones_own_works_in_every_place(construction):
    dataset = federated("overlapping")
    epsilon = 0.6
    agg = fitted(
        linear(
            dataset, geometry=LedoitWolf(), construction=construction, epsilon=epsilon
        ),
        dataset,
    )
    assert isinstance(agg.geometry_, LedoitWolf)
    assert agg.score(dataset.X_test, dataset.y_test) > 0.8
    if construction == "certified" and agg.intersection_.found:
        assert min(agg.node_scores_["aggregate"]) >= epsilon
    nets = fitted(
        networks(
            dataset,
            last_layer=GEMSLogisticAggregator(spaces=Spaces(LedoitWolf())),
            geometry_hidden=LedoitWolf(),
            epsilon_hidden=0.3,
        ),
        dataset,
    )
    assert isinstance(nets.hidden_geometry_, LedoitWolf)
    assert nets.score(dataset.X_test, dataset.y_test) > 0.7


# ---- the last layer of networks -------------------------------------------------


def test_the_default_last_layer_and_its_words():
    dataset = federated("homogeneous")
    expected = Gram(ridge=0.001, unseen_weight=0.15)
    plain = fitted(networks(dataset), dataset)
    assert plain.last_layer_.geometry_.get_params() == expected.get_params()
    for same in (
        {"last_layer": GEMSLogisticAggregator(spaces=Spaces(expected))},
        {"last_layer": GEMSLogisticAggregator()},
        {
            "last_layer": GEMSLogisticAggregator(spaces=Spaces(expected)),
            "epsilon": "auto",
        },
    ):
        assert_same(plain, fitted(networks(dataset, **same), dataset), dataset)
    assert plain.last_layer is None and plain.hidden_layers == "gram"
    assert plain.hidden_geometry_.get_params() == Gram(ridge=0.3).get_params()


def test_what_is_given_here_replaces_what_the_last_layer_says():
    dataset = federated("overlapping")
    last = GEMSLogisticAggregator(epsilon=0.2, spaces="ball", intersection="deepest")
    theirs = fitted(networks(dataset, last_layer=last), dataset)
    assert theirs.node_scores_["epsilon"] == [0.2] * 3
    assert isinstance(theirs.last_layer_.geometry_, Ball)
    assert theirs.intersection_.method == "deepest"
    ours = fitted(
        networks(dataset, last_layer=last, epsilon=0.4).set_params(
            last_layer__spaces__geometry=Ellipsoid()
        ),
        dataset,
    )
    assert ours.node_scores_["epsilon"] == [0.4] * 3
    assert isinstance(ours.last_layer_.geometry_, Ellipsoid)
    assert ours.intersection_.method == "deepest"
    # What the user gave is not written to.
    assert (last.epsilon, last.spaces, last.random_state) == (0.2, "ball", None)
    assert not hasattr(last, "coef_")


def test_searches_reach_the_last_layer_and_here_wins():
    dataset = federated("homogeneous")
    agg = networks(dataset)
    inner = clone(agg).set_params(last_layer__spaces__geometry__ridge=0.5).last_layer
    # The words mean what they mean in this place.
    assert inner.spaces.geometry.get_params() == {
        **Gram(unseen_weight=0.15).get_params(),
        "ridge": 0.5,
    }
    assert inner.intersection == "likelihood"
    of_deepest = networks(
        dataset, last_layer=GEMSLogisticAggregator(intersection="deepest")
    )
    of_deepest.set_params(
        last_layer__spaces__geometry__ridge=0.5,
        hidden_layers__geometry__ridge=2.0,
    )
    assert of_deepest.last_layer.intersection == "deepest"
    assert of_deepest.last_layer.spaces.geometry.unseen_weight == 0.15
    assert of_deepest.hidden_layers.geometry.ridge == 2.0
    grid = [
        {
            "last_layer__spaces__geometry__ridge": [ridge],
            "epsilon": [epsilon],
            "last_layer__epsilon": [0.9],
        }
        for ridge, epsilon in ((0.001, 0.2), (1.0, 0.4))
    ]
    search = GridSearchCV(agg, grid, cv=2, error_score="raise")
    search.fit(dataset.X, dataset.y, nodes=dataset.nodes)
    best = search.best_estimator_
    assert set(best.node_scores_["epsilon"]) == {search.best_params_["epsilon"]}
    assert (
        best.last_layer_.geometry_.ridge
        == (search.best_params_["last_layer__spaces__geometry__ridge"])
    )


def test_the_last_layer_takes_what_it_does_not_set_from_outside(tmp_path, capsys):
    dataset = federated("homogeneous")
    agg = fitted(networks(dataset, memory=str(tmp_path), n_jobs=2, verbose=1), dataset)
    last = agg.last_layer_
    assert (last.memory, last.n_jobs, last.verbose) == (str(tmp_path), 2, 1)
    assert "likelihood of" in capsys.readouterr().err
    assert last.random_state is not None
    last_layer = GEMSLogisticAggregator(n_jobs=1, random_state=7)
    last = fitted(
        networks(dataset, last_layer=last_layer, n_jobs=2), dataset
    ).last_layer_
    assert (last.n_jobs, last.random_state) == (1, 7)


def test_the_last_layer_is_a_classifier_of_what_enters_it():
    dataset = federated("homogeneous")
    agg = fitted(networks(dataset), dataset)
    Z = np.maximum(dataset.X_test @ agg.coefs_[0] + agg.intercepts_[0], 0)
    np.testing.assert_allclose(
        agg.last_layer_.predict_proba(Z), agg.predict_proba(dataset.X_test), atol=1e-12
    )
    tuned = agg.fine_tune(dataset.X[:60], dataset.y[:60])
    np.testing.assert_allclose(
        tuned.last_layer_.predict_proba(Z),
        tuned.predict_proba(dataset.X_test),
        atol=1e-12,
    )


def test_a_last_layer_with_estimators_of_its_own_is_an_error():
    dataset = federated("overlapping")
    last = GEMSLogisticAggregator(dataset.fitted(LOCAL))
    with pytest.raises(ValueError, match="last_layer has estimators of its own"):
        fitted(networks(dataset, last_layer=last), dataset)
    with pytest.raises(ValueError, match="'construction' parameter of"):
        fitted(
            networks(
                dataset,
                last_layer=GEMSLogisticAggregator(spaces=Spaces(construction="x")),
            ),
            dataset,
        )
    with pytest.raises(ValueError, match="'last_layer' parameter of"):
        fitted(networks(dataset, last_layer=LOCAL), dataset)
