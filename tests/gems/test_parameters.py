# SPDX-License-Identifier: BSD-3-Clause
"""Parameters that are objects: what is checked, short forms, and what is searched."""

from __future__ import annotations

import json

import numpy as np
import pytest
from helpers.exchanges import write_state
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier

import skgems
from skgems import GEMSLogisticAggregator, GEMSMLPAggregator
from skgems.channels._methods import from_json
from skgems.gems import HiddenLayers, Moments, Spaces, with_objects_of_settings
from skgems.guard import Agreement
from skgems.spaces import Accuracy, Ball, Certified, Gram, LogLoss


def rows():
    """Rows, labels and nodes: two of them, which have seen all labels."""
    X = np.random.RandomState(0).normal(size=(120, 2))
    return X, (X[:, 0] > 0).astype(int), np.arange(120) % 2


def classifiers():
    X, y, nodes = rows()
    return [LogisticRegression().fit(X[nodes == k], y[nodes == k]) for k in range(2)]


def networks():
    X, y, nodes = rows()
    network = MLPClassifier(3, solver="lbfgs", max_iter=50, random_state=0)
    return [clone(network).fit(X[nodes == k], y[nodes == k]) for k in range(2)]


# ---- objects -----------------------------------------------------------------------


def test_objects_show_what_is_not_the_default():
    assert repr(Spaces()) == "Spaces()"
    assert repr(Spaces("ball", on_empty="raise")) == (
        "Spaces(geometry='ball', on_empty='raise')"
    )
    assert repr(Moments("shared", n_components=2)) == (
        "Moments(kind='shared', n_components=2)"
    )
    assert repr(HiddenLayers(epsilon=0.1)) == "HiddenLayers(epsilon=0.1)"


def test_spaces_are_checked_and_their_words_become_objects():
    given = Spaces("ball", construction="certified", criterion="log_loss")
    checked = Spaces.from_value(given)
    assert isinstance(checked.geometry, Ball)
    assert isinstance(checked.construction, Certified)
    assert checked.criterion == LogLoss()
    # What users gave stays as it is.
    assert (given.geometry, given.criterion) == ("ball", "log_loss")
    of_word = Spaces.from_value("gram")
    assert repr(of_word.geometry) == "Gram()"
    assert of_word.criterion == Accuracy()
    assert repr(of_word.construction) == "Sampled()"
    assert (of_word.scale_logits, of_word.on_empty) == ("auto", "warn")


def test_moments_of_a_word_are_of_that_kind():
    assert Moments.from_value("diagonal").get_params() == {
        "kind": "diagonal",
        "n_components": 16,
    }
    given = Moments(n_components=3)
    assert Moments.from_value(given) is not given
    assert Moments.from_value(given).n_components == 3


def test_hidden_layers_have_a_gram_of_their_own():
    assert HiddenLayers.from_value("gram").geometry.ridge == 0.3
    checked = HiddenLayers.from_value(HiddenLayers(Gram(ridge=2.0), n_directions=7))
    assert checked.geometry.ridge == 2.0
    assert checked.n_directions == 7


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"spaces": "cube"}, "'spaces' parameter of GEMSLogisticAggregator"),
        ({"spaces": None}, "'spaces' parameter of GEMSLogisticAggregator"),
        ({"spaces": Spaces("cube")}, "'geometry' parameter of Spaces"),
        ({"spaces": Spaces(criterion="f1")}, "'criterion' parameter of Spaces"),
        ({"spaces": Spaces(scale_logits=3)}, "'scale_logits' parameter of Spaces"),
        ({"spaces": Spaces(on_empty="stop")}, "'on_empty' parameter of Spaces"),
        ({"spaces": Spaces(Gram(ridge=-1.0))}, "'ridge' parameter of Gram"),
        ({"moments": "full"}, "'moments' parameter of GEMSLogisticAggregator"),
        ({"moments": Moments("full")}, "'kind' parameter of Moments"),
        ({"moments": Moments(n_components=0)}, "'n_components' parameter of Moments"),
    ],
    ids=str,
)
def test_wrong_objects_of_a_linear_aggregator_are_errors(parameters, message):
    X, y, nodes = rows()
    agg = GEMSLogisticAggregator(classifiers(), **parameters)
    with pytest.raises(ValueError, match=message):
        agg.fit(X, y, nodes=nodes)


@pytest.mark.parametrize(
    ("hidden_layers", "message"),
    [
        ("cube", "'hidden_layers' parameter of GEMSMLPAggregator"),
        (HiddenLayers("cube"), "'geometry' parameter of HiddenLayers"),
        (HiddenLayers(epsilon=0.0), "'epsilon' parameter of HiddenLayers"),
        (HiddenLayers(n_directions=0), "'n_directions' parameter of HiddenLayers"),
        (HiddenLayers(n_clusters=0), "'n_clusters' parameter of HiddenLayers"),
        (HiddenLayers(max_units=0), "'max_units' parameter of HiddenLayers"),
        (HiddenLayers(epsilon=[0.1, 0.2]), "epsilon of hidden_layers"),
    ],
    ids=str,
)
def test_wrong_hidden_layers_are_errors(hidden_layers, message):
    X, y, nodes = rows()
    agg = GEMSMLPAggregator(networks(), hidden_layers=hidden_layers)
    with pytest.raises(ValueError, match=message):
        agg.fit(X, y, nodes=nodes)


def test_a_geometry_in_place_of_the_object_says_what_to_write():
    X, y, nodes = rows()
    with pytest.raises(TypeError, match=r"Write spaces=Spaces\(geometry=Ball\(\)\)"):
        GEMSLogisticAggregator(classifiers(), spaces=Ball()).fit(X, y, nodes=nodes)
    with pytest.raises(TypeError, match=r"hidden_layers=HiddenLayers\(geometry=Gram"):
        GEMSMLPAggregator(networks(), hidden_layers=Gram()).fit(X, y, nodes=nodes)
    last_layer = GEMSLogisticAggregator(spaces=Ball())
    with pytest.raises(TypeError, match=r"Write spaces=Spaces\(geometry=Ball\(\)\)"):
        GEMSMLPAggregator(last_layer=last_layer).set_params(last_layer__C=2.0)


# ---- short forms -------------------------------------------------------------------


def test_a_word_and_the_object_are_the_same():
    X, y, nodes = rows()

    def coefficients(**parameters):
        agg = GEMSLogisticAggregator(classifiers(), random_state=0, **parameters)
        return agg.fit(X, y, nodes=nodes).coef_

    consensus = {"intersection": "consensus"}
    np.testing.assert_array_equal(
        coefficients(spaces="ellipsoid", **consensus),
        coefficients(spaces=Spaces("ellipsoid"), **consensus),
    )
    np.testing.assert_array_equal(
        coefficients(moments="diagonal"), coefficients(moments=Moments("diagonal"))
    )


def test_parameters_within_words_can_be_set():
    agg = GEMSLogisticAggregator(spaces="ball", moments="shared")
    agg.set_params(spaces__on_empty="raise", moments__n_components=3)
    assert repr(agg.spaces) == "Spaces(geometry='ball', on_empty='raise')"
    assert repr(agg.moments) == "Moments(kind='shared', n_components=3)"
    agg.set_params(spaces__construction__n_directions=7)
    assert repr(agg.spaces.construction) == "Sampled(n_directions=7)"
    agg.set_params(spaces__geometry="gram", spaces__geometry__ridge=0.5)
    assert repr(agg.spaces.geometry) == "Gram(ridge=0.5)"
    nets = GEMSMLPAggregator().set_params(hidden_layers__geometry__unseen_margin=1.0)
    assert nets.hidden_layers.geometry.ridge == 0.3


def test_the_last_layer_is_reached_also_where_it_is_none():
    agg = GEMSMLPAggregator().set_params(last_layer__spaces__geometry="ball")
    assert agg.last_layer.spaces.geometry == "ball"
    agg.set_params(last_layer__moments__n_components=2)
    assert agg.last_layer.moments.n_components == 2
    # "gram" of a last layer has other settings than elsewhere.
    agg = GEMSMLPAggregator().set_params(last_layer__spaces__geometry__ridge=0.5)
    assert repr(agg.last_layer.spaces.geometry) == "Gram(ridge=0.5, unseen_weight=0.15)"


def test_an_object_that_users_gave_is_not_shared_with_a_clone():
    spaces = Spaces("ball")
    agg = GEMSLogisticAggregator(spaces=spaces)
    clone(agg).set_params(spaces__on_empty="raise")
    assert spaces.on_empty == "warn"
    nets = GEMSMLPAggregator(last_layer=agg)
    nets.set_params(last_layer__spaces__on_empty="ignore")
    assert spaces.on_empty == "warn"


def test_a_search_reaches_what_is_in_objects():
    X, y, nodes = rows()
    agg = GEMSLogisticAggregator(classifiers(), random_state=0)
    grid = [
        {
            "spaces__geometry": [geometry],
            "spaces__on_empty": ["ignore"],
            "moments__kind": [kind],
            "epsilon": [0.7],
        }
        for geometry, kind in ((Gram(ridge=0.1), "class"), ("ball", "shared"))
    ]
    search = GridSearchCV(agg, grid, cv=2, error_score="raise")
    search.fit(X, y, nodes=nodes)
    assert len(search.cv_results_["params"]) == 2
    assert search.best_estimator_.spaces.on_empty == "ignore"
    nets = GEMSMLPAggregator(networks(), random_state=0, local_epochs=0)
    grid = {
        "hidden_layers__epsilon": [0.05, 0.5],
        "last_layer__spaces__geometry": ["ball"],
    }
    search = GridSearchCV(nets, grid, cv=2, error_score="raise")
    search.fit(X, y, nodes=nodes)
    assert isinstance(search.best_estimator_.last_layer_.geometry_, Ball)
    chosen = search.best_params_["hidden_layers__epsilon"]
    assert search.best_estimator_.hidden_layers.epsilon == chosen


# ---- what travels ------------------------------------------------------------------


def test_settings_at_nodes_have_flat_names():
    agg = GEMSLogisticAggregator(
        spaces=Spaces("ball", construction="certified", scale_logits=False),
        moments=Moments("shared", n_components=4),
        random_state=0,
    )
    assert Agreement.of(agg).settings == {
        "geometry": {"name": "ball"},
        "criterion": {"name": "accuracy"},
        "construction": {"name": "certified"},
        "scale_logits": False,
        "moments": "shared",
        "random_state": 0,
        "n_components": 4,
        "min_cluster_size": 1,
        "class_weight": "members",
    }


def test_flat_settings_become_objects():
    agg = GEMSLogisticAggregator(
        spaces=Spaces(Gram(ridge=0.5), criterion="log_loss"),
        moments=Moments("shared", n_components=2),
        class_weight={0: 2.0, 1: 1.0},
    )
    settings = json.loads(json.dumps(agg._method().terms.settings))
    parameters = with_objects_of_settings(settings)
    assert parameters.keys() == {"spaces", "moments", "class_weight", "random_state"}
    again = GEMSLogisticAggregator(**parameters)
    assert again._method().terms.settings == agg._method().terms.settings
    # A method whose settings are others gets no objects.
    assert with_objects_of_settings({"front": None}) == {"front": None}


AGGREGATORS = {
    "linear": GEMSLogisticAggregator(
        spaces=Spaces(Gram(ridge=0.4), criterion="log_loss", on_empty="raise"),
        moments=Moments("shared", n_components=2),
        n_rounds=3,
        random_state=0,
    ),
    "linear by words": GEMSLogisticAggregator(
        spaces="ball", moments="diagonal", random_state=0
    ),
    "networks": GEMSMLPAggregator(
        hidden_layers=HiddenLayers("ball", epsilon=[0.1], n_directions=9),
        last_layer=GEMSLogisticAggregator(spaces=Spaces(on_empty="ignore")),
        random_state=0,
    ),
}


@pytest.mark.parametrize("name", AGGREGATORS)
def test_the_folder_of_an_exchange_keeps_objects(name, tmp_path):
    skgems.Exchange(tmp_path, clone(AGGREGATORS[name]), nodes=["lyon", "paris"])
    reopened = skgems.Exchange(tmp_path)
    assert repr(reopened.aggregator) == repr(AGGREGATORS[name])
    # The same aggregator goes on.
    skgems.Exchange(tmp_path, clone(AGGREGATORS[name]), nodes=["lyon", "paris"])


@pytest.mark.parametrize(
    ("name", "old_parameters"),
    [
        ("linear", {"geometry": "gram", "n_components": 16}),
        ("networks", {"geometry_hidden": "gram", "retrain_epochs": 5}),
    ],
)
@pytest.mark.parametrize("gives_aggregator", [False, True])
def test_a_folder_of_an_older_version_is_refused(
    name, old_parameters, gives_aggregator, tmp_path
):
    agg = clone(AGGREGATORS[name])
    skgems.Exchange(tmp_path, agg, nodes=["lyon", "paris"])
    place = tmp_path / "exchange.json"
    state = json.loads(place.read_text())
    state["aggregator"]["params"].update(old_parameters)
    write_state(place, state)
    given = (agg,) if gives_aggregator else ()
    words = rf"no parameters \['{min(old_parameters)}.* older version .* new exchange"
    with pytest.raises(ValueError, match=words):
        skgems.Exchange(tmp_path, *given, nodes=["lyon", "paris"])


def test_a_part_of_an_older_version_is_refused():
    part = {"part": "Moments", "params": {"kind": "auto", "n_means": 3}}
    state = {"method": "GEMSLogisticAggregator", "params": {"moments": part}}
    with pytest.raises(ValueError, match=r"Moments has no parameters \['n_means'\]"):
        from_json(state)
