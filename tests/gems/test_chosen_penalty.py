# SPDX-License-Identifier: BSD-3-Clause
"""A penalty that the nodes' sums choose: C="auto", and last layers of networks."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgems import GEMSLogisticAggregator, GEMSMLPAggregator
from skgems.asking import PenaltyWarning
from skgems.gems._penalties import DEFAULT_C
from skgems.local import clear_cache
from skgems.moments import class_moments, cross_validated_C

N_NODES = 3


def rows():
    """Rows of three classes at three nodes."""
    rng = np.random.default_rng(0)
    y = rng.choice(3, 300, p=[0.5, 0.3, 0.2])
    X = rng.standard_normal((3, 5))[y] + rng.standard_normal((len(y), 5)) + 1.0
    return X, y, np.arange(len(y)) % N_NODES


def members(*classifiers):
    """One fitted classifier a node, of one kind or of three."""
    X, y, nodes = rows()
    classifiers = classifiers * (1 if len(classifiers) > 1 else N_NODES)
    return [
        clone(classifier).fit(X[nodes == k], y[nodes == k])
        for k, classifier in enumerate(classifiers)
    ]


def fit(*classifiers, **parameters):
    X, y, nodes = rows()
    agg = GEMSLogisticAggregator(members(*classifiers), random_state=0, **parameters)
    return agg.fit(X, y, nodes=nodes)


@pytest.mark.parametrize("scales", [True, False])
def test_auto_is_chosen_by_the_sums_of_all_nodes(scales):
    classifier = LogisticRegression(C=0.01)
    if scales:
        classifier = make_pipeline(StandardScaler(), classifier)
    agg = fit(classifier, C="auto")
    X, y, _ = rows()
    moments = class_moments(X, y, kind="class")
    expected = cross_validated_C(moments, 3, scaled=scales)
    assert agg.C_ == pytest.approx(expected, rel=0.8) == agg.to_estimator().C
    assert agg.C_ != pytest.approx(fit(classifier).C_, rel=0.1)


def test_auto_is_as_members_where_nodes_send_variances_alone():
    agg = fit(LogisticRegression(C=0.01), C="auto", moments="diagonal")
    assert agg.C_ == 0.01


def test_auto_warns_of_no_strengths():
    mixed = [LogisticRegression(C=C) for C in (0.01, 1.0, 100.0)]
    with pytest.warns(PenaltyWarning):
        fit(*mixed)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(*mixed, C="auto")


def fit_networks(C="members", **parameters):
    X, y, nodes = rows()
    networks = members(MLPClassifier((4,), alpha=7.0, max_iter=3, random_state=0))
    last_layer = GEMSLogisticAggregator(C=C, **parameters)
    agg = GEMSMLPAggregator(networks, last_layer=last_layer, random_state=0)
    return agg.fit(X, y, nodes=nodes).last_layer_


# Where training ends says nothing here, and differs between processors.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_strength_of_a_network_is_not_that_of_its_last_layer(monkeypatch):
    chosen = fit_networks("auto").C_
    monkeypatch.setattr(
        "skgems.local._moments.penalty_of", lambda _: {"loss": "log_loss", "C": 1e-6}
    )
    clear_cache()
    assert fit_networks().C_ == chosen > 1e-3
    clear_cache()


# Where training ends says nothing here, and differs between processors.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_network_of_which_variances_alone_are_known_has_the_usual_penalty():
    assert fit_networks(moments="diagonal").C_ == DEFAULT_C
