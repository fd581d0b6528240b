# SPDX-License-Identifier: BSD-3-Clause
"""About hidden layers a node tells fewer numbers than its rows hold."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

from skgems import GEMSMLPAggregator
from skgems.federation import Agreement, Message, Nodes, NotAgreedError, reply_to
from skgems.gems import GEMSLogisticAggregator
from skgems.local import TooFewRowsError
from skgems.local._layer_numbers import layer_moments, numbers_about_layers
from skgems.messages import sealed
from skgems.moments import class_moments, merge_moments

pytestmark = [
    pytest.mark.usefixtures("accepting_nodes"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]
D = 30


@pytest.fixture(scope="module")
def node():
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)[:200]
    y = np.where(y[:200] == 1, "benign", "malignant")
    return MLPClassifier(8, max_iter=5, random_state=0).fit(X, y), X, y


def request_about(n_units, n_rounds=1, moments="auto", seed=0):
    """Moments of a made-up layer, under an agreement on networks."""
    last_layer = GEMSLogisticAggregator(moments=moments)
    aggregator = GEMSMLPAggregator(last_layer=last_layer, n_rounds=n_rounds)
    content = dict(aggregator._terms().later_requests()[0].content)
    W = np.random.default_rng(seed).standard_normal((D + 1, n_units))
    hidden = {"weights": [W], "activation": ["relu"]}
    message = Message.of("moments", **content | {"hidden": hidden, "model": None})
    return message, Agreement.of(aggregator)


@pytest.mark.parametrize("n_units", [5, 40, 60, 100, 140, 700, 800])
def test_the_reply_has_fewer_numbers_than_the_rows(node, n_units):
    request, agreement = request_about(n_units)
    reply = reply_to(
        sealed(request, agreement), *node, name="lyon", state={}, agreement=agreement
    )
    assert 0 < numbers_about_layers(request, reply) <= 200 * D
    # Of more units covariances would be more numbers than that, variances are fewer.
    name = "triangles" if n_units <= 100 else "scatter"
    assert name in reply.content["moments"]


def test_what_means_alone_exceed_is_refused_by_the_rule(node):
    # Means of 1500 units of two classes are half of the 6000 numbers of the rows.
    request, agreement = request_about(1501)
    with pytest.raises(TooFewRowsError, match="means of 1501 columns.* 1500 columns"):
        reply_to(
            sealed(request, agreement),
            *node,
            name="lyon",
            state={},
            agreement=agreement,
        )


def test_all_messages_about_layers_together_are_bounded(node):
    state = {}
    n_numbers = 0
    for seed in range(4):
        request, agreement = request_about(700, n_rounds=4, seed=seed)
        if seed == 0:
            first = agreement
        try:
            reply = reply_to(
                sealed(request, first),
                *node,
                name="lyon",
                state=state,
                agreement=first,
            )
        except NotAgreedError as error:
            assert "about hidden layers" in str(error) and seed > 0
            break
        n_numbers += numbers_about_layers(request, reply)
        # The same request again is not counted again.
        reply_to(
            sealed(request, first), *node, name="lyon", state=state, agreement=first
        )
    else:
        pytest.fail("All were answered.")
    assert 0 < n_numbers <= 200 * D


def test_a_later_reply_takes_what_is_left(node):
    """Though its share, by what the request says, would be more."""
    state = {}
    n_numbers = []
    _, agreement = request_about(60, n_rounds=4)
    for seed in range(2):
        request = request_about(60, seed=seed)[0].with_fields(share=0.9)
        reply = reply_to(
            sealed(request, agreement),
            *node,
            name="lyon",
            state=state,
            agreement=agreement,
        )
        n_numbers.append(numbers_about_layers(request, reply))
    assert 0.3 * 200 * D < n_numbers[0] <= 0.9 * 200 * D
    assert 0 < n_numbers[1] <= 200 * D - n_numbers[0]


def test_a_kind_that_a_person_agreed_on_is_not_made_another(node):
    request, agreement = request_about(150, moments="class")
    with pytest.raises(NotAgreedError, match="about hidden layers would be sent"):
        reply_to(
            sealed(request, agreement),
            *node,
            name="lyon",
            state={},
            disclosure=None,
            agreement=agreement,
        )
    one = Agreement.of(
        GEMSMLPAggregator(last_layer=GEMSLogisticAggregator(moments="class")),
        disclosure=None,
    )
    reply = reply_to(
        sealed(request, one),
        *node,
        name="lyon",
        state={},
        disclosure=None,
        agreement=one,
    )
    assert numbers_about_layers(request, reply) > 200 * D


def test_nodes_that_tell_less_are_merged_with_those_that_tell_all():
    """One node of few rows among others, over a channel and in one process."""
    rng = np.random.default_rng(0)
    y = np.arange(700) % 3
    X = rng.standard_normal((700, 4)) + 2.0 * np.eye(3, 4)[y]
    nodes = np.where(
        np.arange(700) < 36, "few", np.where(np.arange(700) < 400, "a", "b")
    )
    nets = {
        name: MLPClassifier(6, solver="lbfgs", max_iter=60, random_state=0).fit(
            X[nodes == name], y[nodes == name]
        )
        for name in ("a", "b", "few")
    }
    kinds = {}

    def ask(requests):
        replies = {}
        for name, request in requests.items():
            is_own = nodes == name
            reply = reply_to(request, nets[name], X[is_own], y[is_own], name=name)
            if request.task == "moments":
                kinds[name] = sorted(
                    {"triangles", "scatter"} & reply.content["moments"].keys()
                )
            replies[name] = reply
        return replies

    apart = GEMSMLPAggregator(Nodes(ask, sorted(nets)), random_state=0).fit()
    assert kinds == {"a": ["triangles"], "b": ["triangles"], "few": ["scatter"]}
    together = GEMSMLPAggregator(sorted(nets.items()), random_state=0)
    together.fit(X, y, nodes=nodes)
    assert apart.score(X, y) > together.score(X, y) - 0.03


@pytest.mark.parametrize(
    ("n_units", "share", "kind", "has_clusters"),
    [
        (3, 1.0, "class", True),
        (20, 1.0, "class", True),  # 2 * 20 * 21 / 2 + 21 * 20 = 840
        (20, 0.5, "class", False),  # 480
        (20, 0.4, "shared", False),  # 310
        (40, 0.95, "diagonal", True),  # 920
        (50, 1.0, "diagonal", False),  # 250
        (300, 1.0, "diagonal", False),  # 1500, which is refused
    ],
)
def test_as_much_is_sent_as_the_share_allows(n_units, share, kind, has_clusters):
    """Of at most 1000 numbers; the least is sent by a node that then refuses."""
    class_sizes = np.array([60, 40])
    most_numbers = share * 100 * 10
    layer = {"n_units": n_units, "class_sizes": class_sizes, "n_clusters": 10}
    sent = layer_moments(kind="auto", most_numbers=most_numbers, **layer)
    assert (sent.kind, sent.has_clusters) == (kind, has_clusters)
    assert (sent.n_numbers(**layer) <= most_numbers) == (n_units < 300)


def test_classes_that_are_not_divided_are_merged_with_those_that_are():
    """A class of one part has the squares of its scatter, which are not sent twice."""
    X = np.random.default_rng(0).standard_normal((90, 3))
    y = np.arange(90) % 2
    parts = np.arange(90) % 6  # three of each class
    half = np.arange(90) < 40
    divided = class_moments(X[half], y[half], kind="class", parts=parts[half])
    plain = class_moments(X[~half], y[~half], kind="class")
    as_parts = class_moments(X[~half], y[~half], kind="class", parts=y[~half])
    assert plain.part_squares is None
    merged = merge_moments([divided, plain])
    expected = merge_moments([divided, as_parts])
    np.testing.assert_allclose(merged.part_squares, expected.part_squares, rtol=1e-12)
    shared = class_moments(X[~half], y[~half], kind="shared")
    assert merge_moments([divided, shared]).part_squares is None
    assert merge_moments([plain, plain]).part_squares is None
