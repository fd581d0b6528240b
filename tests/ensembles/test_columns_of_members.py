# SPDX-License-Identifier: BSD-3-Clause
"""`combine` leaves out the columns that classifiers of the nodes drop by name."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgems import combine
from skgems.asking import Nodes
from skgems.guard import reply_to

NAMES = ["lyon", "oslo"]
RNG = np.random.default_rng(1)
NODES = np.array(NAMES)[np.arange(300) % 2]
USEFUL = RNG.normal(size=(300, 2))
Y = np.where(USEFUL.sum(axis=1) + RNG.normal(0, 0.5, 300) > 0, "ill", "well")
# A column that gives the label away, as what is known only later does.
LATE = (Y == "ill") * 5.0 + RNG.normal(0, 0.1, 300)
X = np.column_stack([USEFUL[:, 0], LATE, USEFUL[:, 1]])
LATE_IS_UNKNOWN = X * [1.0, 0.0, 1.0]


def members(*columns_of_nodes, X=X, with_mean=True):
    scaler = StandardScaler(with_mean=with_mean)
    return [
        (
            name,
            make_pipeline(
                make_column_transformer((scaler, columns)), LogisticRegression()
            ).fit(X[NODES == name], Y[NODES == name]),
        )
        for name, columns in zip(NAMES, columns_of_nodes, strict=True)
    ]


@pytest.mark.parametrize("as_rows", [np.asarray, csr_matrix])
def test_no_candidate_uses_what_all_members_drop(as_rows):
    rows = as_rows(X)
    estimators = members([0, 2], [0, 2], X=rows, with_mean=as_rows is np.asarray)
    agg = combine(estimators, rows, Y, NODES, budget="small", random_state=0)
    accuracies = [
        entry["accuracy"] for entry in agg.choice_.table if not entry["error"]
    ]
    assert max(accuracies) < 0.97  # the late column alone gives 1
    assert agg.features_used_ == [0, 2]
    np.testing.assert_array_equal(
        agg.predict(rows), agg.predict(as_rows(LATE_IS_UNKNOWN))
    )


def test_one_member_is_enough_and_is_named():
    with pytest.warns(UserWarning, match=r"left out: node 'lyon' \[1\]\. To use"):
        agg = combine(
            members([0, 2], [0, 1, 2])[:2],
            X,
            Y,
            NODES,
            budget="small",
            random_state=0,
        )
    assert any("node 'lyon' [1]" in doubt for doubt in agg.choice_.doubts)


def replies_and_aggregate(rows, estimators):
    replies = []
    ledgers = {name: {} for name in NAMES}

    def ask(requests):
        answers = {}
        for name, request in requests.items():
            of_node = NODES == name
            answers[name] = reply_to(
                request,
                estimators.get(name),
                rows[of_node],
                Y[of_node],
                name=name,
                state=ledgers[name],
            )
        replies.extend(answers.values())
        return answers

    agg = combine(Nodes(ask, NAMES), budget="small", random_state=0)
    return [reply.content for reply in replies], agg


def test_nothing_of_a_dropped_column_leaves_over_a_channel():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["age", "late", "lab"])
    estimators = dict(members(["age", "lab"], ["age", "lab"], X=frame))
    replies, agg = replies_and_aggregate(frame, estimators)
    assert agg.features_used_ == ["age", "lab"]
    assert agg.score(frame, Y) < 0.97
    changed = frame.assign(late=RNG.permutation(LATE) * 3.0)
    others, _ = replies_and_aggregate(changed, estimators)
    for reply, other in zip(replies, others, strict=True):
        np.testing.assert_equal(reply, other)


def test_a_column_that_one_node_drops_is_left_out_over_a_channel():
    estimators = {"lyon": dict(members([0, 2], [0, 2]))["lyon"]}
    with pytest.warns(UserWarning, match=r"left out: node 'lyon' \[1\]\. To use"):
        _, agg = replies_and_aggregate(X, estimators)
    assert agg.features_used_ == [0, 2]
