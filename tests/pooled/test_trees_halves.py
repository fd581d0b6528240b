# SPDX-License-Identifier: BSD-3-Clause
"""Forests that grow on either half of nodes' rows are those of these rows alone."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.forests import NAMES, channel_of, forest, nodes_of, rows
from sklearn.preprocessing import PowerTransformer
from sklearn.tree import DecisionTreeClassifier

from skgems import PooledAggregator, PooledTransformer
from skgems.asking import Run, fit_front
from skgems.messages import Message
from skgems.parties import halves_of
from skgems.pooled import forests_of_halves
from skgems.steps import Front
from skgems.trees import Forest, bin_codes, mean_values

pytestmark = pytest.mark.usefixtures("accepting_nodes")

X, Y = rows()
CLASSES = np.unique(Y)
NODES = nodes_of(len(Y))
FRONT = fit_front(Front.from_transformer(PowerTransformer()), X, NODES)[0].front
OWNERS = {name: np.flatnonzero(NODES == name) for name in NAMES}
# Each node deals its own rows, so that their indices do not matter.
HALF = np.full(len(Y), -1)
for _rows in OWNERS.values():
    HALF[_rows] = halves_of({"own": np.arange(len(_rows))}, Y[_rows])
HALVES = ("first", "second")


def grown_over(pooled, *, names=NAMES, **options):
    """Both forests, as nodes judge them, and the history of the messages."""
    channel = channel_of((X, Y), **options)
    run = Run(channel)
    plan = forests_of_halves(
        PooledAggregator(pooled=pooled),
        n_features=X.shape[1],
        classes=CLASSES,
        names=names,
        front=FRONT.as_content(),
    )
    return run(plan), run.history


def proba_of(content, X):
    codes = bin_codes(FRONT.transform(X))
    return mean_values(codes, Forest.from_content(content), content["values"])


@pytest.mark.parametrize(
    "pooled",
    [
        forest(bootstrap=False),
        forest(bootstrap=False, max_features=None, class_weight="balanced"),
        DecisionTreeClassifier(max_depth=3, random_state=0),
    ],
    ids=["forest", "forest of all features", "tree"],
)
def test_the_forest_of_a_half_is_that_of_its_rows_alone(pooled):
    contents, history = grown_over(pooled)
    for k, half in enumerate(HALVES):
        alone = PooledAggregator(
            pooled=pooled, front=PooledTransformer.from_front(FRONT)
        )
        alone.fit(X, Y, nodes=NODES, held_out=HALF != k)
        assert contents[half]["labels"] == CLASSES.tolist()
        np.testing.assert_allclose(
            proba_of(contents[half], X), alone.predict_proba(X), rtol=1e-12
        )
    assert {entry["task"] for entry in history} == {"grow_halves"}
    assert len(history) <= 5  # for both: three levels, and two more at most
    assert (
        contents["first"]["feature"].tolist() != contents["second"]["feature"].tolist()
    )


def test_forests_whose_nodes_draw_rows_are_the_same_again():
    first, _ = grown_over(forest())
    second, _ = grown_over(forest())
    for half in HALVES:
        np.testing.assert_array_equal(
            proba_of(first[half], X), proba_of(second[half], X)
        )
    assert np.mean(CLASSES[proba_of(first["first"], X).argmax(axis=1)] == Y) > 0.9


def test_forests_grow_where_nodes_hide_rows():
    contents, history = grown_over(forest(max_features=None), min_rows=5)
    assert history[0]["min_rows"] == dict.fromkeys(NAMES, 5)
    for half in HALVES:
        assert np.mean(CLASSES[proba_of(contents[half], X).argmax(axis=1)] == Y) > 0.8


def test_only_nodes_that_are_named_are_asked():
    asked = set()

    def fails(name, request):
        asked.add(name)
        return False

    grown_over(forest(), names=NAMES[:2], fails=fails)
    assert asked == set(NAMES[:2])


@pytest.mark.filterwarnings("ignore:Node 'paris' failed twice")
def test_a_node_that_is_not_reached_is_an_error_with_its_name():
    def fails(name, request):
        return name == "paris"

    with pytest.raises(ValueError, match=r"Nodes \['paris'\] sent no counts"):
        grown_over(forest(), fails=fails)


# ---- what is agreed ----------------------------------------------------------------


def requests_of(pooled):
    """The requests for histograms of both halves."""
    requests = []

    def keep(name, request):
        if name == NAMES[0]:
            requests.append(request)
        return False

    grown_over(pooled, fails=keep)
    return requests


def test_terms_of_a_forest_take_its_own_requests_for_halves():
    pooled = forest()
    terms = PooledAggregator(pooled=pooled)._agreed_terms
    requests = requests_of(pooled)
    assert len(requests) <= terms.most_requests(0)["grow"]
    for request in requests:
        terms.check_request(request)


@pytest.mark.parametrize(
    ("agreed", "match"),
    [
        (forest(n_estimators=4), "about 5 trees, agreed are 4"),
        (forest(bootstrap=False), "bootstrap=True, agreed is bootstrap=False"),
        (forest(max_depth=2), "trees of 3 levels, agreed is max_depth=2"),
    ],
)
@pytest.mark.parametrize("half", HALVES)
def test_terms_refuse_trees_of_one_half_that_are_not_agreed(half, agreed, match):
    last = [r for r in requests_of(forest()) if r.content.get(half)][-1]
    request = Message.of("grow_halves", **{half: last.content[half]})
    terms = PooledAggregator(pooled=agreed)._agreed_terms
    with pytest.raises(ValueError, match=match):
        terms.check_request(request)
