# SPDX-License-Identifier: BSD-3-Clause
"""Codes that are numbers at one node and texts at another, and texts of numbers."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.preprocessing import OneHotEncoder

from skgems import GEMSLogisticAggregator, PooledTransformer, combine, describe, survey
from skgems.asking import Message, Nodes
from skgems.guard import reply_to
from skgems.steps import auto_front

pandas = pytest.importorskip("pandas")

NODES = ("lyon", "oslo", "rome")
N_ROWS = 90  # of each node


def tables(*, as_texts=False):
    """Tables and labels of nodes; lyon has no "3+" among its codes, and a gap."""
    rng = np.random.default_rng(0)
    by_node = {}
    for node in NODES:
        codes = rng.integers(0, 3 if node == "lyon" else 4, N_ROWS)
        y = np.where(codes + rng.normal(size=N_ROWS) > 1.2, "yes", "no")
        children = np.array(["0", "1", "2", "3+"], dtype=object)[codes]
        children[4] = np.nan
        if node == "lyon" and not as_texts:  # as pandas reads them
            children = children.astype(float)
        frame = pandas.DataFrame({"children": children})
        frame["age"] = rng.normal(30, 5, N_ROWS)
        by_node[node] = frame, y
    return by_node


def joined(by_node):
    """Rows, labels and nodes of all tables together."""
    frames = [frame for frame, _ in by_node.values()]
    y = np.concatenate([labels for _, labels in by_node.values()])
    return pandas.concat(frames, ignore_index=True), y, np.repeat(NODES, N_ROWS)


def over_channel(by_node):
    """The aggregate behind the front of any table, of nodes that are elsewhere."""

    ledgers = {name: {} for name in by_node}

    def ask(requests):
        replies = {}
        for name, request in requests.items():
            X, y = by_node[name]
            try:
                reply = reply_to(
                    request.to_bytes(), None, X, y, name=name, state=ledgers[name]
                )
                replies[name] = Message.from_bytes(reply)
            except ValueError as error:
                replies[name] = error
        return replies

    agg = GEMSLogisticAggregator(
        Nodes(ask, list(by_node)), front=auto_front(), random_state=0
    )
    return agg.fit()


@pytest.fixture(scope="module")
def of_texts():
    return over_channel(tables(as_texts=True))


def test_codes_at_one_node_become_the_texts_of_the_others(of_texts):
    mixed = tables()
    fitted = over_channel(mixed)
    np.testing.assert_array_equal(fitted.coef_, of_texts.coef_)
    for as_texts in (False, True):
        for name, (X, _) in tables(as_texts=as_texts).items():
            np.testing.assert_array_equal(
                fitted.predict(X), of_texts.predict(tables(as_texts=True)[name][0])
            )


def test_codes_become_texts_where_all_rows_are_here(of_texts):
    X, y, nodes = joined(tables())
    front = PooledTransformer(auto_front()).fit(X, nodes=nodes)
    assert front.get_feature_names_out().tolist() == [
        "numbers__age",
        *[f"texts__children_{code}" for code in ("0", "1", "2", "3+", "nan")],
    ]
    fitted = combine(X=X, y=y, nodes=nodes, budget="small", random_state=0)
    X_texts, _, _ = joined(tables(as_texts=True))
    np.testing.assert_array_equal(fitted.predict(X), fitted.predict(X_texts))


def test_codes_become_texts_in_arrays():
    arrays = [
        joined(tables(as_texts=as_texts))[0].to_numpy(dtype=object)
        for as_texts in (False, True)
    ]
    nodes = np.repeat(NODES, N_ROWS)
    fronts = [PooledTransformer(auto_front()).fit(X, nodes=nodes) for X in arrays]
    outputs = [
        front.transform(X) for front, X in zip(fronts, arrays[::-1], strict=True)
    ]
    np.testing.assert_array_equal(*outputs)
    assert arrays[0][0, 0] == tables()["lyon"][0]["children"][0]  # users keep theirs


def test_codes_become_texts_in_chunks():
    X, _, nodes = joined(tables())
    front = PooledTransformer(auto_front()).fit(X, nodes=nodes)
    agg = GEMSLogisticAggregator(front=front, random_state=0)
    coefs = []
    for as_texts in (False, True):
        by_node = tables(as_texts=as_texts)
        summary = agg.summarize(
            None, name="all", chunks=lambda by_node=by_node: iter(by_node.values())
        )
        coefs.append(agg.set_params(estimators=[summary]).fit().coef_)
    np.testing.assert_array_equal(*coefs)


@pytest.mark.parametrize("numbers", [np.arange(90), np.arange(90) % 4 + 0.5])
def test_other_numbers_are_an_error_that_says_what_to_do(numbers):
    mixed = tables()
    mixed["lyon"] = mixed["lyon"][0].assign(children=numbers), mixed["lyon"][1]
    words = "'lyon'.*'children' holds numbers here and texts at other.*--as-text"
    with pytest.raises(ValueError, match=words):
        over_channel(mixed)


def test_truth_values_become_texts_as_pandas_writes_them():
    words = pandas.DataFrame({"smokes": ["True", "False", "unknown"] * 30})
    truths = pandas.DataFrame({"smokes": [True, False, False] * 30})
    both = pandas.concat([words, truths], ignore_index=True)
    front = PooledTransformer(OneHotEncoder(sparse_output=False))
    front.fit(both, nodes=np.repeat(["a", "b"], 90))
    np.testing.assert_array_equal(front.transform(truths), front.transform(both)[90:])
    assert front.get_feature_names_out()[-1] == "smokes_unknown"


# ---- texts that are numbers ----------------------------------------------------------


def calls():
    """Minutes and calls as texts, as some files of parquet have them; and codes."""
    rng = np.random.default_rng(1)
    minutes = rng.normal(180, 50, 200)
    return pandas.DataFrame(
        {
            "minutes": [f"{10 * round(number / 10) + 0.5}" for number in minutes],
            "calls": [str(number) for number in rng.integers(60, 140, 200)],
            "area": [f"{number:03d}" for number in rng.integers(1, 60, 200)],
            "plan": [str(number) for number in rng.integers(0, 4, 200)],
            "state": rng.choice(["NY", "CA"], 200),
        }
    ), np.where(minutes + rng.normal(0, 20, 200) > 180, "leaves", "stays")


WORDS = r"columns \['minutes', 'calls'\] hold texts that are all numbers"


def test_texts_that_are_all_numbers_are_said_where_rows_are_given():
    X, y = calls()
    two_columns = X[["calls", "state"]]
    with pytest.warns(
        UserWarning, match=r"\['calls'\] hold texts that are all numbers"
    ):
        fitted = combine(X=two_columns, y=y, budget="small", random_state=0)
    assert any("all numbers" in doubt for doubt in fitted.choice_.doubts)
    with pytest.warns(UserWarning, match=WORDS):
        PooledTransformer(auto_front()).fit(X)
    with pytest.warns(UserWarning, match=WORDS):
        describe(X)


def test_texts_that_are_all_numbers_are_said_at_the_node():
    X, y = calls()
    front = PooledTransformer(auto_front())
    request = Message.of("front", front=front.as_front().as_content())
    with pytest.warns(UserWarning, match=WORDS):
        reply_to(request, None, X, y, name="lyon")
    with pytest.warns(UserWarning, match=WORDS):
        front.summarize(X, name="lyon")
    with pytest.warns(UserWarning, match=WORDS):
        survey(X, name="lyon")
