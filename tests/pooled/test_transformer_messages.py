# SPDX-License-Identifier: BSD-3-Clause
"""What nodes tell a PooledTransformer, and what it refuses."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from helpers.tables import (
    FULL_SVD,
    as_dense,
    column_limits,
    mixed_table,
    node_of_each_row,
    pooled_over_channel,
    table_of_each_node,
    table_of_numbers,
)
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    KBinsDiscretizer,
    MinMaxScaler,
    OneHotEncoder,
    PowerTransformer,
    RobustScaler,
    SplineTransformer,
    StandardScaler,
)

from skgems import Disclosure, PooledTransformer
from skgems.asking import Message
from skgems.guard import NotAgreedError, read_entries, reply_to
from skgems.local import TooFewRowsError
from skgems.messages import check_reply
from skgems.steps import Front, NotPooledError, RandomFeatures, front_of_text

# A rule that replaces no values.
AS_ROWS_ARE = Disclosure(cell=1)

# ---- what is told ----------------------------------------------------------------


def test_rare_categories_are_not_told():
    frame = mixed_table()
    frame.loc[frame.index[:4], "word"] = "secret"
    tables = {name: part[["word"]] for name, part in table_of_each_node(frame).items()}
    with pytest.raises(ValueError, match=r"\['word'\] have \d+ values of categories"):
        pooled_over_channel(tables, OneHotEncoder()).fit()
    ignoring = pooled_over_channel(tables, OneHotEncoder(handle_unknown="ignore")).fit()
    (labels,) = ignoring.transformer_.categories_
    assert set(labels[:3]) == {"red", "green", "blue"} and len(labels) == 4
    assert as_dense(ignoring.transform(frame[["word"]]))[:4].sum() == 0
    encoder = OneHotEncoder(min_frequency=100, handle_unknown="infrequent_if_exist")
    grouping = pooled_over_channel(tables, encoder).fit()
    infrequent = grouping.transformer_.infrequent_categories_[0]
    assert set(infrequent[:2]) == {"blue", "green"}
    assert as_dense(grouping.transform(frame[["word"]]))[:4].tolist() == [[0, 1]] * 4
    reply = PooledTransformer(OneHotEncoder()).summarize(frame[["word"]], name="lyon")
    assert b"secret" not in reply.to_bytes()
    # Rows that few others are like weigh less.
    assert 0 < reply.content["parts"]["0"]["0"]["withheld"] <= 4.0
    frame["word"] = ["red"] * 291 + [None] * 9
    with pytest.raises(ValueError, match=r"\['word'\] have \d+ values of categories"):
        pooled_over_channel({"lyon": frame[["word"]]}, OneHotEncoder()).fit()
    lonely = {"lyon": frame[["code"]]}
    with pytest.raises(ValueError, match="all categories of a column are infrequent"):
        pooled_over_channel(lonely, OneHotEncoder(max_categories=1)).fit()


def test_counts_on_a_grid_are_multiples_of_min_rows():
    front = PooledTransformer(RobustScaler(), bounds=(-5e3, 5e3))
    summary = front.summarize(table_of_numbers(), name="lyon")
    cumulative = summary.content["parts"]["0"]["cumulative"]
    assert (cumulative % 10 == 0).all() and cumulative.max() == 300
    of_single_rows = front.summarize(table_of_numbers(), name="lyon", disclosure=None)
    assert (of_single_rows.content["parts"]["0"]["cumulative"] % 10 != 0).any()


def test_errors_tell_no_value_of_a_row():
    frame = mixed_table()[["word"]]
    tables = {"lyon": frame, "paris": frame.replace("red", "secret")}
    listed = OneHotEncoder(categories=[["red", "green", "blue", np.nan]])
    encoded = make_pipeline(listed, StandardScaler(with_mean=False))
    with pytest.raises(
        ValueError, match="'paris'.*cannot transform the values"
    ) as refused:
        pooled_over_channel(tables, encoded, disclosure=None).fit()
    assert "secret" not in str(refused.value)
    with pytest.raises(ValueError, match="'lyon'.*hold texts") as refused:
        pooled_over_channel(tables, StandardScaler(), disclosure=None).fit()
    assert "red" not in str(refused.value)
    fitted = PooledTransformer(listed).fit(frame)
    request = Message.of("counts", front=fitted.as_front().as_content())
    with pytest.raises(ValueError, match="cannot transform the values") as refused:
        labels = np.arange(len(frame)) % 2
        reply_to(request, None, tables["paris"], labels, name="paris")
    assert "secret" not in str(refused.value)


def test_few_rows_tell_nothing():
    for transformer in (StandardScaler(), PCA(1), OneHotEncoder(), PowerTransformer()):
        with pytest.raises(
            TooFewRowsError, match="'lyon' has fewer than min_rows=10 rows"
        ):
            PooledTransformer(transformer).summarize(
                table_of_numbers()[:9], name="lyon"
            )
    # A column of which few rows have a value.
    X = table_of_numbers()
    X[9:, 1] = np.nan
    for transformer in (StandardScaler(), PowerTransformer()):
        summary = PooledTransformer(transformer).summarize(X, name="lyon")
        statistics = summary.content["parts"]["0"]
        assert statistics["counts"][1] == 0
        assert (statistics["counts"][[0, 2, 3]] > 200).all()
        means = statistics["means" if "means" in statistics else "logarithms"]
        assert (np.atleast_2d(means)[:, 1] == 0).all()


@pytest.mark.parametrize("n_columns", [12, 7])
def test_covariances_of_few_rows_are_not_sent_under_a_rule(n_columns):
    # Leverages of 14 rows in 7 columns and a constant sum to 8: one is above 1/2.
    X = np.random.default_rng(0).normal(size=(14, n_columns))
    match = f"'lyon' has 14 rows, too few to send products of {n_columns} columns"
    with pytest.raises(TooFewRowsError, match=match):
        PooledTransformer(PCA(2)).summarize(X, name="lyon")
    with pytest.raises(ValueError, match=match):
        pooled_over_channel({"lyon": X}, PCA(2)).fit()


def test_covariances_are_not_sent_where_some_rows_are_alone():
    # Ten of 40 rows have a column for themselves: too many to count for little.
    X = np.zeros((40, 11))
    X[:, 10] = np.random.default_rng(0).normal(size=40)
    X[np.arange(10), np.arange(10)] = 50.0
    with pytest.raises(TooFewRowsError, match="too few to send products of 11 columns"):
        PooledTransformer(PCA(2)).summarize(X, name="lyon", disclosure=AS_ROWS_ARE)


@pytest.mark.parametrize("transformer", [MinMaxScaler(), SplineTransformer()])
def test_nodes_do_not_tell_the_values_of_rows(transformer):
    tables = {"lyon": table_of_numbers()}
    pooled = pooled_over_channel(tables, transformer)
    with pytest.raises(NotPooledError, match="needs bounds of the columns that enter"):
        pooled.fit()
    with pytest.raises(ValueError, match="'bounds' parameter"):
        pooled.set_params(bounds="tell").fit()
    front = {**Front(transformer).as_content(), "bounds": "tell"}
    with pytest.raises(ValueError, match="its bounds are 'tell', not two numbers"):
        reply_to(
            Message.of("front", front=front), None, tables["lyon"], None, name="lyon"
        )


def test_another_front_than_agreed_is_refused(tmp_path):
    state = {}
    pooled_over_channel(
        {"lyon": table_of_numbers()}, StandardScaler(), state=state
    ).fit()
    front = Front(PCA(2)).as_content()
    exchange = read_entries(state)[0]["exchange"]
    request = Message.of("front", front=front).with_envelope(exchange=exchange)
    with pytest.raises(NotAgreedError, match="is not agreed"):
        reply_to(request, None, table_of_numbers(), None, name="lyon", state=state)


# ---- files -----------------------------------------------------------------------


def test_files_give_what_rows_give(tmp_path):
    X = table_of_numbers()
    nodes = node_of_each_row(X)
    front = PooledTransformer(PCA(2, **FULL_SVD))
    paths = []
    for k in range(3):
        paths.append(tmp_path / f"{k}.safetensors")
        front.summarize(X[nodes == k], name=str(k), disclosure=None).save(paths[-1])
    by_files = clone(front).set_params(summaries=paths).fit()
    assert by_files._front.digest == front.fit(X, nodes=nodes)._front.digest
    by_files.save(tmp_path / "front.safetensors")
    loaded = PooledTransformer.load(tmp_path / "front.safetensors")
    assert loaded._front.digest == by_files._front.digest
    np.testing.assert_array_equal(loaded.transform(X), by_files.transform(X))
    unpickled = pickle.loads(pickle.dumps(by_files))
    np.testing.assert_array_equal(unpickled.transform(X), by_files.transform(X))

    with pytest.raises(ValueError, match="two summaries of node '0'"):
        by_files.set_params(summaries=[paths[0], paths[0]]).fit()
    with pytest.raises(ValueError, match="another transformer"):
        by_files.set_params(summaries=paths, transformer=PCA(3, **FULL_SVD)).fit()
    with pytest.raises(ValueError, match="no rows and no summaries"):
        PooledTransformer(StandardScaler()).fit()


def test_files_that_cannot_be_taken_say_why(tmp_path):
    of_two_messages = PooledTransformer(make_pipeline(StandardScaler(), PCA(2)))
    summary = of_two_messages.summarize(table_of_numbers(), name="lyon")
    with pytest.raises(ValueError, match="more than one message"):
        of_two_messages.set_params(summaries=[summary]).fit()
    path = tmp_path / "odd.safetensors"
    path.write_bytes(Message.of("counts").to_bytes())
    with pytest.raises(ValueError, match=r"odd\.safetensors: it is not a front"):
        PooledTransformer.load(path)
    with pytest.raises(TypeError, match=r"summaries\[0\]"):
        of_two_messages.set_params(summaries=[path]).fit()


# ---- what cannot be ---------------------------------------------------------------


@pytest.mark.parametrize(
    "transformer, match",
    [
        (Nystroem(), "Instead of Nystroem use RandomFeatures"),
        (make_pipeline(StandardScaler(), Nystroem()), "Nystroem is not a function of"),
        (RBFSampler(), "random_state=None. Set it to a number"),
        (RandomFeatures(random_state=np.random.RandomState(0)), "Set it to a number"),
        (PCA(2, svd_solver="arpack"), "covariance_eigh"),
        (PCA("mle"), "mle"),
        (OneHotEncoder(categories=[[1, 2]], min_frequency=3), "leave out one"),
        (KBinsDiscretizer(strategy="kmeans"), "kmeans"),
        (SimpleImputer(strategy=np.mean), "not a function of sums"),
        (ColumnTransformer([("x", StandardScaler(), "a")]), "must be a list of names"),
        (
            FeatureUnion([("x", StandardScaler())], transformer_weights={"x": 2}),
            "cannot have weights",
        ),
    ],
    ids=lambda case: case if isinstance(case, str) else type(case).__name__,
)
def test_what_is_no_function_of_sums_is_refused(transformer, match):
    with pytest.raises(NotPooledError, match=match):
        PooledTransformer(transformer).fit(table_of_numbers())


@pytest.mark.parametrize("scaler", [MinMaxScaler(), RobustScaler()], ids=str)
def test_bounds_are_asked_for(scaler):
    with pytest.raises(NotPooledError, match="Set bounds"):
        PooledTransformer(scaler).fit(table_of_numbers())
    of_one_column = {0: (-5, 5)}
    with pytest.raises(NotPooledError, match="Set bounds"):
        PooledTransformer(scaler, bounds=of_one_column).fit(table_of_numbers())
    after_rotation = make_pipeline(PCA(2), scaler)
    with pytest.raises(NotPooledError, match="Set bounds"):
        PooledTransformer(after_rotation, bounds=column_limits(table_of_numbers())).fit(
            table_of_numbers()
        )


def test_a_failed_fit_leaves_it_as_it_was():
    front = PooledTransformer(StandardScaler()).fit(table_of_numbers())
    before = front._front.digest
    with pytest.raises(NotPooledError):
        front.set_params(transformer=Nystroem()).fit(table_of_numbers())
    assert front._front.digest == before


# ---- what arrives is untrusted ----------------------------------------------------


def request_of_front(**fields):
    front = {"tree": {"kind": "StandardScaler", "params": {}}, "states": {}}
    return Message.of("front", front=front | fields)


DEEP = {"kind": "StandardScaler", "params": {}}
for _ in range(20):
    DEEP = {"kind": "Pipeline", "steps": [["x", DEEP]]}


@pytest.mark.parametrize(
    "front",
    [
        {"tree": {"kind": "FunctionTransformer", "params": {}}},
        {"tree": {"kind": "StandardScaler", "params": {"n": 1}}},
        {"tree": {"kind": "StandardScaler"}},
        {"tree": {"kind": "RBFSampler", "params": {"random_state": None}}},
        {"tree": {"kind": "StandardScaler", "params": {"with_mean": "no"}}},
        {"tree": []},
        {"tree": 3},
        {"tree": DEEP},
        {"states": 3},
        {"states": {"0": 3}},
        {"columns": {"text": [False]}},
        {"columns": {"text": 3, "dtype": "float64"}},
        {"columns": {"text": [False], "dtype": "object"}},
        {"columns": {"names": ["a", "b"], "text": [False], "dtype": "float64"}},
        {"bounds": "ask"},
        {"bounds": [[0, 1]]},
        {"bounds": ["a", "b"]},
        {"bounds": [1, 2, 3]},
        {"more": 1},
    ],
    ids=str,
)
def test_odd_requests_are_refused(front):
    with pytest.raises(ValueError, match=r"front\.front"):
        reply_to(request_of_front(**front), None, table_of_numbers(), None, name="lyon")


@pytest.mark.parametrize(
    "state",
    [
        {"counts": np.ones(3)},
        {"n_rows": 3.0, "counts": np.ones(2), "means": np.ones(2), "squares": None},
        {"counts": "x", "means": "y", "squares": "z"},
    ],
    ids=str,
)
def test_odd_states_are_errors_of_the_request(state):
    columns = {"text": [False] * 4, "dtype": "float64"}
    request = request_of_front(columns=columns, states={"0": state})
    with pytest.raises((ValueError, TypeError)):
        reply_to(request, None, table_of_numbers(), None, name="lyon")


KINDS = {
    "columns": StandardScaler(),
    "scatter": PCA(2),
    "categories": OneHotEncoder(),
    "histogram": RobustScaler(),
    "powers": PowerTransformer(),
    "box_powers": PowerTransformer(method="box-cox"),
    "parts": PowerTransformer(),
    "box_parts": PowerTransformer(method="box-cox"),
}


def without(part, key):
    return {k: v for k, v in part.items() if k != key}


def broken_parts(part):
    """What a hostile node may send in place of the statistics of a step."""
    yield {**part, "more": 1.0}
    yield {**part, "statistic": "rows"}
    yield 3
    yield without(part, "statistic")
    for key, value in without(part, "statistic").items():
        if key not in "0123":  # numbers of columns, which may have no categories
            yield without(part, key)
        if not isinstance(value, np.ndarray):
            yield {**part, key: -1.0}
            yield {**part, key: "x"}
            continue
        if key != "cumulative":  # of which there may be fewer
            yield {**part, key: value[..., :-1]}
        yield {**part, key: value + np.nan}
        yield {**part, key: [1]}


@pytest.mark.parametrize("name", KINDS)
def test_odd_replies_are_refused(name):
    front = PooledTransformer(KINDS[name], bounds=(-5e3, 5e3))
    X = table_of_numbers()
    if name == "categories":
        X = np.round(X / [1, 10, 0.1, 1e3])
    elif name in ("box_powers", "box_parts"):
        X = np.exp(X / 1e4)
    rule = "auto" if name.endswith("parts") else None  # which powers are not told under
    reply = front.summarize(X, name="lyon", disclosure=rule)
    request = Message.of("front", front=front.as_front().as_content())
    check_reply(request, reply)
    part = reply.content["parts"]["0"]
    assert part["statistic"] == name
    for broken_part in broken_parts(part):
        content = {**reply.content, "parts": {"0": broken_part}}
        with pytest.raises(ValueError, match=r"front\.parts"):
            check_reply(request, Message.of("front", **content))
    # Of other columns than there are.
    of_three_columns = front.summarize(X[:, :3], name="paris", disclosure=rule)
    content = {**of_three_columns.content, "columns": reply.content["columns"]}
    message = Message.of("front", **content)
    message = message.with_envelope(node="paris", to=request.digest)
    with pytest.raises(ValueError, match="'paris' told of"):
        front.set_params(summaries=[reply, message]).fit()


def test_large_numbers_are_no_harm():
    X = np.repeat([[75001], [69001], [13001]], 20, axis=0)
    listed = OneHotEncoder(categories=[[13001, 69001, 75001]])
    assert PooledTransformer(listed).fit(X).transform(X).shape == (60, 3)
    seeded = RandomFeatures(3, random_state=2**31 - 1)
    np.testing.assert_array_equal(
        PooledTransformer(seeded).fit(X).transform(X), clone(seeded).fit_transform(X)
    )


def test_a_front_is_typed():
    typed = front_of_text("StandardScaler | RandomFeatures(50, random_state=0)")
    expected = make_pipeline(StandardScaler(), RandomFeatures(50, random_state=0))
    assert repr(typed) == repr(expected)
    for text in (
        "exit()",
        "StandardScaler(",
        "PCA(open('x'))",
        "PCA(1)(2)",
        "",
        "PCA.x",
    ):
        with pytest.raises(ValueError, match="is not a transformer of a front"):
            front_of_text(text)
