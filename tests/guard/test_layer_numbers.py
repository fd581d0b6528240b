# SPDX-License-Identifier: BSD-3-Clause
"""What is told of hidden layers by consent alone is fewer numbers than the rows are."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.neural_network import MLPClassifier

from skgems import Disclosure, GEMSMLPAggregator
from skgems.asking import Message
from skgems.guard import Agreement, NotAgreedError, reply_to
from skgems.messages import sealed

pytestmark = [
    pytest.mark.usefixtures("accepting_nodes"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]
D = 30


@pytest.fixture(scope="module")
def node():
    X = np.random.default_rng(0).standard_normal((200, D))
    y = np.arange(200) % 2
    return MLPClassifier(8, max_iter=2, random_state=0).fit(X, y), X, y


def ask_about_units(node, state, *, n_inputs, seed=0, disclosure="auto"):
    """Ask about one unit behind a made-up layer of so many units."""
    W = np.random.default_rng(seed).standard_normal((D + 1, n_inputs))
    request = Message.of(
        "neurons",
        weights=np.zeros((n_inputs + 1, 1)),
        activation="relu",
        epsilon=0.1,
        geometry={"name": "gram"},
        n_directions=1,
        hidden={"weights": [W], "activation": ["relu"]},
    )
    agreement = Agreement.of(GEMSMLPAggregator(), disclosure=disclosure)
    return reply_to(
        sealed(request, agreement),
        *node,
        name="lyon",
        disclosure=disclosure,
        state=state,
        agreement=agreement,
    )


def test_all_messages_about_layers_together_are_bounded(node):
    """A matrix of 55 columns has 1540 numbers, and two more are of the unit."""
    state = {}
    reply = ask_about_units(node, state, n_inputs=54)
    assert reply.content["precision"].shape == (55, 55)
    # The same request again is not counted again.
    assert ask_about_units(node, state, n_inputs=54).digest == reply.digest
    with pytest.raises(
        NotAgreedError, match="1542 numbers .* after 1542 before.* at most 3000 are"
    ):
        ask_about_units(node, state, n_inputs=54, seed=1)
    ask_about_units(node, state, n_inputs=52, seed=2)  # 1431 and 2


@pytest.mark.parametrize("unknowns", [0.25, 0.5])
def test_the_rule_says_how_many_numbers_there_are(node, unknowns):
    rule = Disclosure(unknowns=unknowns)
    with pytest.raises(NotAgreedError, match=f"at most {6000 * unknowns:.0f} are sent"):
        ask_about_units(node, {}, n_inputs=80, disclosure=rule)


def test_without_a_rule_nothing_is_counted(node):
    reply = ask_about_units(node, {}, n_inputs=120, disclosure=None)
    assert reply.content["precision"].shape == (121, 121)


def test_a_unit_that_lets_one_row_through_is_not_told(node):
    """Its mean would be a number of that row."""
    fitted, X, y = node
    W = np.zeros((D + 1, 1))
    W[0, 0] = 1.0
    W[-1] = -np.sort(X[:, 0])[-2]  # the largest value alone is above the threshold
    request = Message.of(
        "neurons",
        weights=np.zeros((2, 1)),
        activation="relu",
        epsilon=0.1,
        geometry={"name": "gram"},
        n_directions=1,
        hidden={"weights": [W], "activation": ["relu"]},
    )
    means = {}
    for disclosure in ("auto", None):
        agreement = Agreement.of(GEMSMLPAggregator(), disclosure=disclosure)
        reply = reply_to(
            sealed(request, agreement),
            fitted,
            X,
            y,
            name="lyon",
            disclosure=disclosure,
            state={},
            agreement=agreement,
        )
        precision = reply.content["precision"]
        means[disclosure] = precision[0, 1] / precision[1, 1]
    gap = np.diff(np.sort(X[:, 0])[-2:])[0]
    np.testing.assert_allclose(200 * means[None], gap, rtol=1e-6)
    assert abs(means["auto"]) < 1e-12
