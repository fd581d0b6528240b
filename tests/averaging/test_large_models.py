# SPDX-License-Identifier: BSD-3-Clause
"""A node whose parameters decide an average alone is named."""

import re
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

from skgems import ModelAveragingAggregator
from skgems.asking import Message, Nodes, NodesDisagreeWarning
from skgems.averaging import Downpour
from skgems.guard import reply_to

X, Y = load_digits(return_X_y=True)
X, Y = X[:500] / 16, Y[:500]
NAMES = ["bern", "lyon", "nice", "oslo"]
ROWS = {name: np.arange(500) % 4 == k for k, name in enumerate(NAMES)}
pytestmark = [
    pytest.mark.usefixtures("accepting_nodes"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::skgems.averaging.StartedApartWarning"),
]


def said(fit) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit()
    return [str(w.message) for w in caught if w.category is NodesDisagreeWarning]


def named(messages: list[str]) -> list[str]:
    assert len(messages) <= 1  # one warning a fit
    return re.findall(r"'(\w+)' \(", "".join(messages))


def local(name: str, **options) -> LogisticRegression:
    rows = ROWS[name]
    return LogisticRegression(max_iter=50, **options).fit(X[rows], Y[rows])


def times(classifier, factor: float):
    for array in ("coef_", "intercept_"):
        setattr(classifier, array, factor * getattr(classifier, array))
    return classifier


def average(members, **options) -> list[str]:
    return named(said(ModelAveragingAggregator(members, **options).fit))


@pytest.mark.parametrize("factor", [-10.0, 1e20])
@pytest.mark.parametrize("align", [None, "permutation"])
def test_a_model_that_is_far_larger_is_named(factor, align):
    members = [(name, local(name)) for name in NAMES]
    assert average(members, align=align) == []
    times(members[2][1], factor)
    assert average(members, align=align) == ["nice"]


def test_models_of_other_penalties_are_not_named():
    strengths = zip(NAMES, (0.1, 1.0, 1.0, 10.0), strict=True)
    assert average([(name, local(name, C=C)) for name, C in strengths]) == []


def test_neither_of_two_nodes_is_named():
    members = [("bern", local("bern")), ("lyon", times(local("lyon"), 1e3))]
    assert average(members) == []


def test_a_large_layer_of_a_network_names_its_node():
    members = []
    for name in NAMES:
        net = MLPClassifier((8,), max_iter=20, random_state=0)
        members.append((name, net.fit(X[ROWS[name]], Y[ROWS[name]])))
    assert average(members) == []
    members[1][1].intercepts_[0] += 1e3
    assert average(members) == ["lyon"]


def test_modules_are_compared_array_by_array():
    pytest.importorskip("torch")
    pytest.importorskip("skorch")
    import torch
    from skorch import NeuralNetClassifier

    def net(seed: int):
        torch.manual_seed(0)
        module = torch.nn.Sequential(torch.nn.Linear(64, 10), torch.nn.Softmax(-1))
        classifier = NeuralNetClassifier(
            module, max_epochs=1, train_split=None, verbose=0, classes=list(range(10))
        )
        return classifier.fit(X[seed::4].astype(np.float32), Y[seed::4])

    members = [(name, net(k)) for k, name in enumerate(NAMES)]
    assert average(members) == []
    with torch.no_grad():
        members[3][1].module_[0].bias *= 1e4
    assert average(members) == ["oslo"]


def channel(lie) -> Nodes:
    """Nodes, of which Nice alters its replies."""

    def ask(requests):
        replies = {}
        for name, request in requests.items():
            rows = ROWS[name]
            member = LogisticRegression(max_iter=5).fit(X[rows], Y[rows])
            reply = reply_to(
                request, member, X[rows], Y[rows], name=name, disclosure=None
            )
            replies[name] = lie(reply) if name == "nice" else reply
        return replies

    return Nodes(ask, NAMES, disclosure=None)


def larger(task: str, first: str):
    """A lie: parameters of some messages are a hundred times as large."""

    def lie(reply: Message) -> Message:
        if reply.task != task:
            return reply
        arrays = {
            path: -100.0 * array if first in path and array.dtype.kind == "f" else array
            for path, array in reply.arrays.items()
        }
        return Message(reply.task, reply.settings, arrays, envelope=reply.envelope)

    return lie


def test_each_round_is_compared_by_itself():
    """Who lies in the first of two rounds is named as well."""
    lie = larger("train", "parameters")
    is_of_training = []

    def lie_once(reply: Message) -> Message:
        is_of_training.append(reply.task == "train")
        return lie(reply) if sum(is_of_training) == 1 else reply

    agg = ModelAveragingAggregator(
        channel(lie_once), n_rounds=2, local_epochs=1, random_state=0
    )
    assert named(said(agg.fit)) == ["nice"]


@pytest.mark.parametrize("server", [None, Downpour()], ids=["means", "downpour"])
@pytest.mark.parametrize(
    ("lie", "expected"),
    [
        (lambda reply: reply, []),
        (larger("train", "parameters"), ["nice"]),
        (larger("join", "describe.network"), ["nice"]),
    ],
    ids=["honest", "in rounds", "at the start"],
)
def test_rounds_are_watched_over_a_channel(server, lie, expected):
    agg = ModelAveragingAggregator(
        channel(lie), n_rounds=2, local_epochs=1, server=server, random_state=0
    )
    assert named(said(agg.fit)) == expected
    doubts = " ".join(agg.report().doubts)
    assert ("far larger" in doubts) == bool(expected)


# ---- the median in place of the average ---------------------------------------------


def member_of_ten(k: int) -> LogisticRegression:
    """A classifier of every tenth row."""
    return LogisticRegression(max_iter=50).fit(X[k::10], Y[k::10])


def test_one_of_ten_with_the_opposite_of_ten_times_its_model_is_named():
    """It decides the average, and is less than 7.5 times as large as the largest."""
    members = [(f"n{k}", member_of_ten(k)) for k in range(10)]
    times(members[4][1], -10.0)
    assert average(members) == ["n4"]


def test_the_median_is_about_as_good_as_the_average_without_the_liar():
    members = [(f"n{k}", member_of_ten(k)) for k in range(10)]
    honest = ModelAveragingAggregator(members).fit().score(X, Y)
    times(members[4][1], -10.0)
    with pytest.warns(NodesDisagreeWarning, match="'n4'"):
        mean = ModelAveragingAggregator(members).fit()
    with pytest.warns(NodesDisagreeWarning, match="'n4'"):
        median = ModelAveragingAggregator(members, server="median").fit()
    assert mean.score(X, Y) < 0.3
    assert median.score(X, Y) > honest - 0.05


def test_rounds_take_medians_too():
    lie = larger("train", "parameters")
    common = {"n_rounds": 3, "local_epochs": 2}
    with pytest.warns(NodesDisagreeWarning, match="'nice'"):
        mean = ModelAveragingAggregator(channel(lie), **common).fit()
    with pytest.warns(NodesDisagreeWarning, match="'nice'"):
        median = ModelAveragingAggregator(channel(lie), server="median", **common).fit()
    assert np.abs(median.coef_).max() < np.abs(mean.coef_).max() / 5
