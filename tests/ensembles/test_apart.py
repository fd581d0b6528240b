# SPDX-License-Identifier: BSD-3-Clause
"""A stack whose members travel by skops, and whose rows stay where they are."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.svm import SVC

from skgems import EnsembleAggregator

X, Y = load_digits(n_class=6, return_X_y=True)
Y = np.array(["ant", "bee", "cat", "dog", "elk", "fox"])[Y]
CODES = (np.unique(Y, return_inverse=True)[1] + np.arange(len(Y)) % 2) % 3
NODES = np.array(["bern", "oslo", "rome"])[CODES]
KINDS = {
    "bern": RandomForestClassifier(10, random_state=0),
    "oslo": SVC(),
    "rome": HistGradientBoostingClassifier(max_iter=5, random_state=0),
}


@pytest.fixture(scope="module")
def members(tmp_path_factory):
    """Members as they come out of files in which nothing is executed."""
    io = pytest.importorskip("skops.io")
    folder, found = tmp_path_factory.mktemp("members"), []
    for name, kind in KINDS.items():
        own = NODES == name
        path = folder / f"{name}.skops"
        io.dump(kind.fit(X[own], Y[own]), path)
        types = io.get_untrusted_types(file=path)
        known = ("sklearn.", "_loss.")  # a person looks
        assert all(own.startswith(known) for own in types)
        found.append((name, io.load(path, trusted=types)))
    return found


def summaries(members, folder, **options):
    stack = EnsembleAggregator(members, combine="stack", random_state=0)
    paths = []
    for name in KINDS:
        own = NODES == name
        sent = stack.summarize_odds(X[own], Y[own], name=name, **options)
        paths.append(folder / f"{name}.safetensors")
        sent.save(paths[-1])
    return paths


@pytest.mark.filterwarnings("ignore::skgems.federation.RowsExposedWarning")
def test_files_give_the_stack_of_rows(members, tmp_path):
    paths = summaries(members, tmp_path, min_rows=1)
    own = {"combine": "stack", "random_state": 0}
    apart = EnsembleAggregator(members, summaries=paths, **own).fit()
    there = EnsembleAggregator(members, **own).fit(X, Y, nodes=NODES)
    np.testing.assert_array_equal(apart.predict_proba(X), there.predict_proba(X))
    assert apart.score(X, Y) > 0.95
    exported = apart.to_estimator()
    np.testing.assert_allclose(exported.predict_proba(X), apart.predict_proba(X))


@pytest.mark.filterwarnings("ignore::skgems.federation.RowsExposedWarning")
def test_members_in_another_order_are_an_error(members, tmp_path):
    paths = summaries(members[::-1], tmp_path, min_rows=1)
    own = EnsembleAggregator(members, combine="stack", random_state=0)
    with pytest.raises(ValueError, match="'rome: .*but members here have .*'bern: "):
        own.set_params(summaries=paths).fit()
    other = tmp_path / "other"
    other.mkdir()
    mixed = [paths[0], *summaries(members, other, min_rows=1)[1:]]
    with pytest.raises(ValueError, match="was fitted on features"):
        own.set_params(summaries=mixed).fit()
    with pytest.raises(ValueError, match="give fit X, y and nodes, or summaries"):
        EnsembleAggregator(members, combine="stack").fit()


@pytest.mark.filterwarnings("ignore::skgems.federation.RowsExposedWarning")
def test_held_out_rows_and_small_classes_are_in_no_sum(members):
    stack = EnsembleAggregator(members, combine="stack", random_state=0)
    own = NODES == "oslo"
    rows, y = X[own], Y[own]
    held_out = np.arange(len(y)) % 3 == 0
    moved = np.where(held_out[:, None], 16.0 - rows, rows)
    sent = [
        stack.summarize_odds(some, y, name="oslo", held_out=held_out).message.digest
        for some in (rows, moved)
    ]
    assert sent[0] == sent[1]
    first = y == y[0]
    few = np.concatenate([np.flatnonzero(first)[:30], np.flatnonzero(~first)[:6]])
    with pytest.warns(UserWarning, match="leaves the classes"):
        small = stack.summarize_odds(rows[few], y[few], name="oslo")
    assert small.row_counts["labels"] == [y[0]]
