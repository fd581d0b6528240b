# SPDX-License-Identifier: BSD-3-Clause
"""GEMSMLPAggregator with common units beside the merged ones."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgems import GEMSLogisticAggregator, GEMSMLPAggregator
from skgems.asking import Nodes
from skgems.datasets import partition_by_label
from skgems.gems import HiddenLayers, Moments
from skgems.gems._common_units import number_of_common_units
from skgems.gems._terms import MergedLayersTerms
from skgems.guard import Agreement, reply_to
from skgems.plotting import MatchingDisplay
from skgems.spaces import draw_common_units

pytestmark = pytest.mark.usefixtures("accepting_nodes")

# A last layer of few clusters, which is quick.
QUICK = GEMSLogisticAggregator(moments=Moments(n_components=2))


@cache
def digits():
    """Rows, labels, the node of each row, of five nodes; callers must not alter it."""
    X, y = load_digits(return_X_y=True)
    return X / 16, y, partition_by_label(y, 5)


@cache
def networks(hidden=(6,), activation="relu"):
    """A small network of each node."""
    X, y, nodes = digits()
    return [
        MLPClassifier(
            hidden, activation=activation, solver="lbfgs", max_iter=50, random_state=k
        ).fit(X[nodes == k][:120], y[nodes == k][:120])
        for k in range(5)
    ]


def fit(members=None, **parameters):
    X, y, nodes = digits()
    parameters = {"last_layer": QUICK, "random_state": 0, **parameters}
    agg = GEMSMLPAggregator(members or networks(), **parameters)
    return agg.fit(X, y, nodes=nodes)


# ---- what comes out --------------------------------------------------------------


def test_few_units_of_nodes_are_not_enough_and_common_ones_are():
    X, y, _ = digits()
    without = fit(n_common_units=0)
    agg = fit(n_common_units=150)
    assert agg.score(X, y) > without.score(X, y) + 0.03
    assert agg.coefs_[0].shape == (64, 12 + 150)
    np.testing.assert_array_equal(agg.coefs_[0][:, :12], without.coefs_[0])
    report = agg.layer_report_[0]
    assert (report["n_units"], report["common"]) == (12, 150)
    assert len(report["members"]) == 12


def test_common_units_are_drawn_by_the_moments_of_all_rows():
    X, y, nodes = digits()
    is_used = (nodes > 1) | (np.arange(len(y)) % 4 == 0)
    agg = GEMSMLPAggregator(
        networks(), n_common_units=20, last_layer=QUICK, random_state=0
    )
    agg.fit(X[is_used], y[is_used], nodes=nodes[is_used])
    rows = X[is_used]
    W = draw_common_units(
        rows.mean(axis=0),
        np.cov(rows.T, bias=True),
        20,
        random_state=agg._method().seed,
    )
    np.testing.assert_allclose(agg.coefs_[0][:, 12:], W[:-1], atol=1e-6)
    np.testing.assert_allclose(agg.intercepts_[0][12:], W[-1], atol=1e-6)


def test_a_plain_network_of_scikit_learn_comes_out():
    X, *_ = digits()
    agg = fit(n_common_units=10)
    network = agg.to_estimator()
    assert type(network) is MLPClassifier
    assert network.coefs_[0].shape == (64, 12 + 10)
    np.testing.assert_allclose(network.predict_proba(X), agg.predict_proba(X))


@pytest.mark.parametrize("activation", ["tanh", "logistic"])
def test_common_units_have_the_activation_of_the_nodes(activation):
    X, y, _ = digits()
    members = networks(activation=activation)
    agg = fit(members, n_common_units=100)
    assert agg.activation_ == (activation,)
    assert agg.score(X, y) > fit(members, n_common_units=0).score(X, y)


def test_two_hidden_layers_merge_as_without_common_units():
    X, y, _ = digits()
    members = networks(hidden=(6, 5))
    without = fit(members, n_common_units=0, local_epochs=1)
    agg = fit(members, n_common_units=100, local_epochs=1)
    assert [W.shape for W in agg.coefs_] == [(64, 112), (112, 110), (110, 10)]
    for W, W_without in zip(agg.coefs_[:2], without.coefs_[:2], strict=True):
        n_in, n_out = W_without.shape
        np.testing.assert_array_equal(W[:n_in, :n_out], W_without)
    assert [report["common"] for report in agg.layer_report_] == [100, 100]
    assert agg.score(X, y) > without.score(X, y) + 0.03


def test_rounds_train_common_units_too():
    merged = fit(n_common_units=20)
    trained = fit(n_common_units=20, n_rounds=2)
    change = np.abs(trained.coefs_[0] - merged.coefs_[0]).max(axis=0)
    assert change.shape == (32,)
    assert np.all(change[12:] > 0)


def test_the_order_of_nodes_does_not_matter():
    X, y, nodes = digits()
    names = np.array(list("abcde"))
    members = list(zip(names, networks(), strict=True))
    fitted = [
        GEMSMLPAggregator(
            some_members, n_common_units=30, last_layer=QUICK, random_state=0
        ).fit(X, y, nodes=names[nodes])
        for some_members in (members, members[::-1])
    ]
    expected = fitted[0].predict_proba(X)
    np.testing.assert_allclose(fitted[1].predict_proba(X), expected, atol=1e-3)


def test_units_and_zero_of_features_do_not_matter_where_nodes_scale():
    X, y, nodes = digits()
    factor = np.geomspace(0.01, 100, 64)
    probabilities = []
    for rows in (X, factor * X + 3.0):
        members = [
            make_pipeline(
                StandardScaler(),
                MLPClassifier(4, solver="lbfgs", max_iter=20, random_state=k),
            ).fit(rows[nodes == k], y[nodes == k])
            for k in range(5)
        ]
        agg = GEMSMLPAggregator(
            members, n_common_units=30, last_layer=QUICK, random_state=0
        )
        probabilities.append(agg.fit(rows, y, nodes=nodes).predict_proba(rows))
    assert np.mean(np.abs(probabilities[1] - probabilities[0])) < 0.01


def test_nodes_of_one_class_tell_of_their_features_too():
    X, y, _ = digits()
    nodes = np.where(y == 9, 5, y // 2)
    members = [*networks()[:4], networks()[4], DummyClassifier().fit(X[:2], [9, 9])]
    agg = GEMSMLPAggregator(
        members, n_common_units=100, last_layer=QUICK, random_state=0
    )
    agg.fit(X, y, nodes=nodes)
    assert agg.coefs_[0].shape[1] == 12 + 100
    assert agg.score(X, y) > 0.9


def test_common_units_are_no_part_of_the_picture_of_matched_ones():
    pytest.importorskip("matplotlib")
    display = MatchingDisplay.from_estimator(fit(n_common_units=10))
    assert display.weights.shape == (64, 12)
    assert display.popularity_.min() >= 1


# ---- over a channel --------------------------------------------------------------


def test_a_channel_gives_the_same_network():
    X, y, nodes = digits()
    names = list("abcde")
    members = dict(zip(names, networks(), strict=True))

    def ask(requests):
        return {
            name: reply_to(
                request,
                members[name],
                X[nodes == names.index(name)],
                y[nodes == names.index(name)],
                name=name,
                disclosure=None,
                state=states[name],
            )
            for name, request in requests.items()
        }

    states = {name: {} for name in names}
    parameters = {"n_common_units": 25, "last_layer": QUICK, "random_state": 0}
    channel = Nodes(ask, names, disclosure=None)
    by_channel = GEMSMLPAggregator(channel, **parameters).fit()
    here = GEMSMLPAggregator(list(members.items()), **parameters)
    here.fit(X, y, nodes=np.array(names)[nodes])
    for W, expected in zip(by_channel.coefs_, here.coefs_, strict=True):
        np.testing.assert_array_equal(W, expected)


def test_what_is_agreed_names_the_common_units():
    agreement = Agreement.of(GEMSMLPAggregator(n_common_units=25))
    assert agreement.further_settings["n_common_units"] == 25
    terms = MergedLayersTerms.from_settings({}, agreement.further_settings)
    assert terms.n_common_units == 25
    # Agreements of servers without common units have no such setting.
    older = dict(agreement.further_settings)
    del older["n_common_units"]
    assert MergedLayersTerms.from_settings({}, older).n_common_units == 0


@pytest.mark.parametrize("value", [-1, 2.5, "many", None])
def test_terms_take_no_other_number_of_common_units(value):
    agreed = dict(Agreement.of(GEMSMLPAggregator()).further_settings)
    agreed["n_common_units"] = value
    with pytest.raises(ValueError, match="n_common_units must be 'auto' or a number"):
        MergedLayersTerms.from_settings({}, agreed)


# ---- how many --------------------------------------------------------------------


def auto_for(n_rows_a_node, width):
    """The number for three nodes of ten classes and 100 features."""
    counts = np.full(10, n_rows_a_node // 10)
    node = SimpleNamespace(
        network=SimpleNamespace(widths=(width, 5)), row_counts={"moments": counts}
    )
    federation = SimpleNamespace(
        nodes=[node] * 3,
        rows_in_moments=np.full(3, counts.sum()),
        features=SimpleNamespace(n_features_in=100),
    )
    return number_of_common_units(
        "auto",
        hidden_layers=HiddenLayers.from_value("gram"),
        activation=("relu", "relu"),
        retrains_last=False,
        federation=federation,
    )


@pytest.mark.parametrize(
    "n_rows_a_node, width, expected",
    [
        (10**6, 10, 80),
        (10**6, 60, 400),  # no more, however wide networks are
        (150, 30, 150 * 100 // (16 * 10) - 60),
        (60, 30, 0),
    ],
)
def test_auto_goes_by_widths_and_rows(n_rows_a_node, width, expected):
    assert auto_for(n_rows_a_node, width) == expected


def n_common(members=None, **parameters):
    return fit(members, **parameters).layer_report_[0]["common"]


def test_auto_is_eight_for_each_unit_of_the_widest_network():
    assert n_common() == 8 * 6


def test_auto_is_fewer_where_one_node_is_small():
    """It could not tell of so many units, and the fit would need its reply."""
    X, y, nodes = digits()
    few = np.flatnonzero((nodes != 0) | (np.cumsum(nodes == 0) <= 15))
    agg = GEMSMLPAggregator(networks(), last_layer=QUICK, random_state=0)
    agg.fit(X[few], y[few], nodes=nodes[few])
    assert agg.coefs_[0].shape[1] == 64 * 15 // (4 * 5) < 12 + 48


@pytest.mark.parametrize(
    "parameters",
    [
        {"hidden_layers": HiddenLayers(max_units=12)},
        {"hidden_layers": "ball"},
        {"last_layer": GEMSLogisticAggregator(epsilon=0.1)},
        {"members": networks(activation="identity")},
    ],
)
def test_auto_is_none_where_common_units_are_of_no_use(parameters):
    assert n_common(**parameters) == 0


def test_auto_is_none_for_one_node():
    X, y, nodes = digits()
    alone = nodes == 0
    agg = GEMSMLPAggregator(networks()[:1], last_layer=QUICK, random_state=0)
    agg.fit(X[alone], y[alone], nodes=nodes[alone])
    assert agg.coefs_[0].shape[1] == 6


@pytest.mark.parametrize("n_common_units", ["auto", 5])
def test_networks_without_hidden_layers_have_no_common_units(n_common_units):
    X, y, nodes = digits()
    members = [
        LogisticRegression(max_iter=500).fit(X[nodes == k], y[nodes == k])
        for k in range(5)
    ]
    agg = fit(members, n_common_units=n_common_units)
    assert [W.shape for W in agg.coefs_] == [(64, 10)]


@pytest.mark.parametrize(
    "parameters, words",
    [
        ({"hidden_layers": "ellipsoid"}, "geometry='gram' of hidden_layers"),
        ({"last_layer": GEMSLogisticAggregator(epsilon=0.1)}, "of moments alone"),
    ],
)
def test_common_units_that_cannot_be_made_are_refused(parameters, words):
    with pytest.raises(ValueError, match=words):
        fit(n_common_units=5, **parameters)
