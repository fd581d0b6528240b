# SPDX-License-Identifier: BSD-3-Clause
"""A stack whose members travel by skops, and whose rows stay where they are."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.svm import SVC

from skgems import EnsembleAggregator

X, Y = load_digits(n_class=6, return_X_y=True)
X = X[::2, 16:48]  # every other digit, and the lines in the middle
Y = np.array(["ant", "bee", "cat", "dog", "elk", "fox"])[Y[::2]]
# Each node has rows of four of the six digits.
NODE_OF_ROW = (np.unique(Y, return_inverse=True)[1] + np.arange(len(Y)) % 2) % 3
NODES = np.array(["bern", "oslo", "rome"])[NODE_OF_ROW]
CLASSIFIERS = {
    "bern": RandomForestClassifier(10, random_state=0),
    "oslo": SVC(),
    "rome": HistGradientBoostingClassifier(max_iter=5, random_state=0),
}


@pytest.fixture(scope="module")
def members(tmp_path_factory):
    """Members as they come out of files in which nothing is executed."""
    skops_io = pytest.importorskip("skops.io")
    folder = tmp_path_factory.mktemp("members")
    members = []
    for name, classifier in CLASSIFIERS.items():
        path = folder / f"{name}.skops"
        skops_io.dump(classifier.fit(X[NODES == name], Y[NODES == name]), path)
        types = skops_io.get_untrusted_types(file=path)
        # What a person would trust, who looks at the types.
        assert all(kind.startswith(("sklearn.", "_loss.")) for kind in types)
        members.append((name, skops_io.load(path, trusted=types)))
    return members


def stack_of(members, summaries=None):
    return EnsembleAggregator(
        members, combine="stack", summaries=summaries, random_state=0
    )


def save_summaries(members, folder):
    """The paths of one summary a node, of the log-odds of these members."""
    stack = stack_of(members)
    paths = []
    for name in CLASSIFIERS:
        rows = NODES == name
        summary = stack.summarize_odds(X[rows], Y[rows], name=name, disclosure=None)
        path = folder / f"{name}.safetensors"
        summary.save(path)
        paths.append(path)
    return paths


def test_files_give_the_stack_of_rows(members, tmp_path):
    of_files = stack_of(members, save_summaries(members, tmp_path)).fit()
    of_rows = stack_of(members).fit(X, Y, nodes=NODES)
    np.testing.assert_array_equal(of_files.predict_proba(X), of_rows.predict_proba(X))
    assert of_files.score(X, Y) > 0.95
    exported = of_files.to_estimator()
    np.testing.assert_allclose(exported.predict_proba(X), of_files.predict_proba(X))


def test_summaries_of_members_in_another_order_are_an_error(members, tmp_path):
    paths = save_summaries(members[::-1], tmp_path)
    with pytest.raises(
        ValueError, match="'rome: .*but the estimators here have .*'bern: "
    ):
        stack_of(members, paths).fit()


def test_summaries_of_different_orders_of_members_are_an_error(members, tmp_path):
    in_order = tmp_path / "in order"
    reversed_order = tmp_path / "reversed"
    in_order.mkdir()
    reversed_order.mkdir()
    first, *_ = save_summaries(members[::-1], reversed_order)
    _, *others = save_summaries(members, in_order)
    with pytest.raises(ValueError, match="was fitted on features"):
        stack_of(members, [first, *others]).fit()


def test_a_stack_needs_rows_or_summaries(members):
    with pytest.raises(ValueError, match="Pass X, y and nodes to fit, or summaries"):
        stack_of(members).fit()


def test_held_out_rows_are_in_no_sum(members):
    rows = X[NODES == "oslo"]
    y = Y[NODES == "oslo"]
    held_out = np.arange(len(y)) % 3 == 0
    changed_rows = np.where(held_out[:, None], 16.0 - rows, rows)
    digests = [
        stack_of(members)
        .summarize_odds(rows_of_node, y, name="oslo", held_out=held_out)
        .message.digest
        for rows_of_node in (rows, changed_rows)
    ]
    assert digests[0] == digests[1]


def test_classes_of_few_rows_are_in_no_sum(members):
    rows = X[NODES == "oslo"]
    y = Y[NODES == "oslo"]
    is_first = y == y[0]
    places = np.append(np.flatnonzero(is_first)[:30], np.flatnonzero(~is_first)[:6])
    with pytest.warns(UserWarning, match="leaves the classes"):
        summary = stack_of(members).summarize_odds(rows[places], y[places], name="oslo")
    assert summary.row_counts["labels"] == [y[0]]
