# SPDX-License-Identifier: BSD-3-Clause
"""What nodes and server agree on about spaces, moments and merged layers."""

from __future__ import annotations

import json

import pytest

from skgems import GEMSLogisticAggregator, GEMSMLPAggregator
from skgems.gems import LinearTerms, Moments, Rounds, Spaces
from skgems.gems._terms import MergedLayersTerms
from skgems.messages import key_of
from skgems.moments import MOST_GRIDS

# By these names settings are in agreements and summaries of every version.
WIRE_NAMES = {
    "geometry",
    "criterion",
    "construction",
    "scale_logits",
    "moments",
    "random_state",
    "n_components",
    "min_cluster_size",
    "class_weight",
}


def sent_and_read(terms):
    settings = json.loads(json.dumps(terms.settings))
    further_settings = json.loads(json.dumps(terms.further_settings))
    return type(terms).from_settings(settings, further_settings)


def linear_terms(**parameters):
    return GEMSLogisticAggregator(random_state=3, **parameters)._method().terms


def test_settings_travel_by_flat_names():
    assert linear_terms().settings.keys() == WIRE_NAMES


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"moments": Moments("shared", n_components=2)},
        {"epsilon": 0.9, "spaces": Spaces("ellipsoid", scale_logits=False)},
        {"epsilon": 0.9, "n_rounds": 3},
        {"n_rounds": Rounds(2, candidates="consensus")},
        {"intersection": "deepest", "spaces": Spaces(construction="certified")},
        {"class_weight": "balanced"},
        {"class_weight": {0: 1.5, 1: 2.0}},
        {"class_weight": None},
    ],
)
def test_a_node_makes_of_settings_the_requests_of_the_server(parameters):
    at_server = linear_terms(**parameters)
    at_node = sent_and_read(at_server)
    for requests in ("first_requests", "later_requests"):
        of_server = [key_of(request) for request in getattr(at_server, requests)()]
        of_node = [key_of(request) for request in getattr(at_node, requests)()]
        assert of_node == of_server


@pytest.mark.parametrize(
    "parameters, tasks",
    [
        ({}, {"evaluate": 0, "score": 1}),
        ({"n_rounds": 4}, {"evaluate": 3, "score": 1}),
        ({"epsilon": 0.9}, {"evaluate": 0, "score": 1, "size": 1, "space": 1}),
        (
            {"intersection": "hinge"},
            {"evaluate": MOST_GRIDS, "score": 1, "size": 1, "space": 1},
        ),
    ],
)
def test_how_often_nodes_are_asked(parameters, tasks):
    assert linear_terms(**parameters).most_requests(0) == tasks


@pytest.mark.parametrize(
    "change, error, words",
    [
        ({"n_rounds": 5}, ValueError, "n_rounds.* are not settings of GEMSLogistic"),
        ({"class_weight": "heavy"}, ValueError, "'heavy' is no weight of classes"),
        ({"class_weight": [[0, -1.0]]}, ValueError, "finite numbers above 0"),
        ({"n_components": 0}, ValueError, "n_components"),
        ({"moments": "third"}, ValueError, "kind"),
    ],
)
def test_settings_that_no_server_has_are_refused(change, error, words):
    settings = {**linear_terms().settings, **change}
    with pytest.raises(error, match=words):
        LinearTerms.from_settings(settings, {}).first_requests()


@pytest.mark.parametrize("name", ["geometry", "criterion", "class_weight"])
def test_settings_that_lack_a_name_are_refused(name):
    settings = linear_terms().settings
    del settings[name]
    with pytest.raises(KeyError, match=name):
        LinearTerms.from_settings(settings, {})


@pytest.mark.parametrize("n_rounds", [1, 3])
def test_terms_of_networks_hold_those_of_the_last_layer(n_rounds):
    last_layer = GEMSLogisticAggregator(epsilon=0.8, random_state=0)
    terms = GEMSMLPAggregator(last_layer=last_layer, n_rounds=n_rounds)._method().terms
    later = [key_of(request) for request in sent_and_read(terms).later_requests()]
    assert later == [key_of(request) for request in terms.later_requests()]
    assert len(later) == (4 if n_rounds > 1 else 3)  # with clusters to train on


@pytest.mark.parametrize("n_rounds", [0, "3", None])
def test_terms_of_networks_take_no_other_number_of_rounds(n_rounds):
    last_layer = linear_terms().as_last_layer()
    with pytest.raises(ValueError, match="n_rounds must be a number of at least 1"):
        MergedLayersTerms.from_settings(
            {}, {"last_layer": last_layer, "n_rounds": n_rounds}
        )
