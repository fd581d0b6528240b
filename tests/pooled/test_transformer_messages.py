# SPDX-License-Identifier: BSD-3-Clause
"""What nodes tell a PooledTransformer, and what it refuses."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
from helpers.tables import FULL, asked, dense, limits, numbers, owners, parts, table
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
    StandardScaler,
)

from skgems import PooledTransformer
from skgems.federation import Message, NotAgreedError, RowsExposedWarning, reply_to
from skgems.local import TooFewRowsError
from skgems.messages import check_reply
from skgems.steps import Front, NotPooledError, RandomFeatures, front_of_text

# ---- what is told ----------------------------------------------------------------


def test_rare_categories_are_not_told():
    frame = table()
    frame.loc[frame.index[:4], "word"] = "secret"
    tables = {k: own[["word"]] for k, own in parts(frame).items()}
    with pytest.raises(ValueError, match=r"\['word'\] have 20 values of categories"):
        asked(tables, OneHotEncoder()).fit()
    known = asked(tables, OneHotEncoder(handle_unknown="ignore")).fit()
    (labels,) = known.transformer_.categories_
    assert set(labels[:3]) == {"red", "green", "blue"} and len(labels) == 4
    assert dense(known.transform(frame[["word"]]))[:4].sum() == 0
    rare = OneHotEncoder(min_frequency=100, handle_unknown="infrequent_if_exist")
    rare = asked(tables, rare).fit()
    assert set(rare.transformer_.infrequent_categories_[0][:2]) == {"blue", "green"}
    assert dense(rare.transform(frame[["word"]]))[:4].tolist() == [[0, 1]] * 4
    reply = PooledTransformer(OneHotEncoder()).summarize(frame[["word"]], name="lyon")
    assert b"secret" not in reply.to_bytes()
    assert reply.content["parts"]["0"]["0"]["withheld"] == 4.0
    frame["word"] = ["red"] * 291 + [None] * 9
    with pytest.raises(ValueError, match=r"\['word'\] have 9 values of categories"):
        asked({"lyon": frame[["word"]]}, OneHotEncoder()).fit()
    lonely = {"lyon": frame[["code"]]}
    with pytest.raises(ValueError, match="all categories of a column are infrequent"):
        asked(lonely, OneHotEncoder(max_categories=1)).fit()


def test_counts_on_a_grid_are_multiples_of_min_rows():
    own = PooledTransformer(RobustScaler(), bounds=(-5e3, 5e3))
    told = own.summarize(numbers(), name="lyon").content["parts"]["0"]
    assert (told["cumulative"] % 10 == 0).all() and told["cumulative"].max() == 300
    exact = own.summarize(numbers(), name="lyon", min_rows=1).content["parts"]["0"]
    assert (exact["cumulative"] % 10 != 0).any()


def test_errors_tell_no_value_of_a_row():
    frame = table()[["word"]]
    tables = {"lyon": frame, "paris": frame.replace("red", "secret")}
    listed = OneHotEncoder(categories=[["red", "green", "blue", np.nan]])
    own = make_pipeline(listed, StandardScaler(with_mean=False))
    with pytest.raises(ValueError, match="'paris'.*cannot take values") as refused:
        asked(tables, own, min_rows=1).fit()
    assert "secret" not in str(refused.value)
    with pytest.raises(ValueError, match="'lyon'.*hold texts") as refused:
        asked(tables, StandardScaler(), min_rows=1).fit()
    assert "red" not in str(refused.value)
    fitted = PooledTransformer(listed).fit(frame)
    request = Message.of("counts", front=fitted.as_front().as_content())
    with pytest.raises(ValueError, match="cannot take values") as refused:
        labels = np.arange(len(frame)) % 2
        reply_to(request, None, tables["paris"], labels, name="paris")
    assert "secret" not in str(refused.value)


def test_few_rows_tell_nothing():
    for own in (StandardScaler(), PCA(1), OneHotEncoder(), PowerTransformer()):
        with pytest.raises(TooFewRowsError, match="'lyon' has 9 rows"):
            PooledTransformer(own).summarize(numbers()[:9], name="lyon")
    # A column of which few rows have a value.
    X = numbers()
    X[9:, 1] = np.nan
    for own in (StandardScaler(), PowerTransformer()):
        told = PooledTransformer(own).summarize(X, name="lyon").content["parts"]["0"]
        assert told["counts"].tolist() == [300, 0, 300, 300]
        assert (np.atleast_2d(told["means"])[:, 1] == 0).all()


def test_covariances_of_few_rows_are_warned_of():
    X = np.random.default_rng(0).normal(size=(12, 12))
    with pytest.warns(RowsExposedWarning, match="'lyon' sends covariances of 12 rows"):
        PooledTransformer(PCA(2)).summarize(X, name="lyon")
    with pytest.warns(RowsExposedWarning, match="'lyon' sends covariances of 12 rows"):
        asked({"lyon": X}, PCA(2)).fit()


def test_values_of_rows_are_told_by_consent_only():
    tables = {"lyon": numbers()}
    known = asked(tables, MinMaxScaler()).set_params(bounds="tell")
    with pytest.raises(ValueError, match="'lyon'.*extremes of columns"):
        known.fit()
    told = asked(tables, MinMaxScaler(), radii=True).set_params(bounds="tell").fit()
    assert told.transformer_.data_max_.tolist() == numbers().max(axis=0).tolist()


def test_another_front_than_agreed_is_refused(tmp_path):
    state = {}
    asked({"lyon": numbers()}, StandardScaler(), state=state).fit()
    front = Front(PCA(2)).as_content()
    exchange = json.loads(state["log.jsonl"].splitlines()[0])["exchange"]
    request = Message.of("front", front=front).with_envelope(exchange=exchange)
    with pytest.raises(NotAgreedError, match="is not agreed"):
        reply_to(request, None, numbers(), None, name="lyon", state=state)


# ---- files -----------------------------------------------------------------------


def test_files_give_what_rows_give(tmp_path):
    X, nodes = numbers(), owners(numbers())
    front = PooledTransformer(PCA(2, **FULL))
    paths = []
    for k in range(3):
        paths.append(tmp_path / f"{k}.safetensors")
        front.summarize(X[nodes == k], name=str(k), min_rows=1).save(paths[-1])
    made = clone(front).set_params(summaries=paths).fit()
    assert made._front.digest == front.fit(X, nodes=nodes)._front.digest
    made.save(tmp_path / "front.safetensors")
    again = PooledTransformer.load(tmp_path / "front.safetensors")
    assert again._front.digest == made._front.digest
    np.testing.assert_array_equal(again.transform(X), made.transform(X))
    copy = pickle.loads(pickle.dumps(made))
    np.testing.assert_array_equal(copy.transform(X), made.transform(X))

    with pytest.raises(ValueError, match="two summaries of node '0'"):
        made.set_params(summaries=[paths[0], paths[0]]).fit()
    with pytest.raises(ValueError, match="another transformer"):
        made.set_params(summaries=paths, transformer=PCA(3, **FULL)).fit()
    with pytest.raises(ValueError, match="no rows and no summaries"):
        PooledTransformer(StandardScaler()).fit()
    two = PooledTransformer(make_pipeline(StandardScaler(), PCA(2)))
    sent = [two.summarize(X, name="lyon")]
    with pytest.raises(ValueError, match="more than one message"):
        two.set_params(summaries=sent).fit()
    (tmp_path / "odd.safetensors").write_bytes(Message.of("counts").to_bytes())
    with pytest.raises(ValueError, match=r"odd\.safetensors: it is no front"):
        PooledTransformer.load(tmp_path / "odd.safetensors")
    with pytest.raises(TypeError, match=r"summaries\[0\]"):
        two.set_params(summaries=[tmp_path / "odd.safetensors"]).fit()


# ---- what cannot be ---------------------------------------------------------------


@pytest.mark.parametrize(
    "transformer, match",
    [
        (Nystroem(), "In place of Nystroem take RandomFeatures"),
        (make_pipeline(StandardScaler(), Nystroem()), "Nystroem is no function of"),
        (RBFSampler(), "random_state=None: give it a number"),
        (RandomFeatures(random_state=np.random.RandomState(0)), "give it a number"),
        (PCA(2, svd_solver="arpack"), "covariance_eigh"),
        (PCA("mle"), "mle"),
        (OneHotEncoder(categories=[[1, 2]], min_frequency=3), "leave out one"),
        (KBinsDiscretizer(strategy="kmeans"), "kmeans"),
        (SimpleImputer(strategy=np.mean), "no function of sums"),
        (ColumnTransformer([("x", StandardScaler(), "a")]), "must be a list of names"),
        (
            FeatureUnion([("x", StandardScaler())], transformer_weights={"x": 2}),
            "cannot have weights",
        ),
    ],
    ids=lambda own: own if isinstance(own, str) else type(own).__name__,
)
def test_what_is_no_function_of_sums_is_refused(transformer, match):
    with pytest.raises(NotPooledError, match=match):
        PooledTransformer(transformer).fit(numbers())


@pytest.mark.parametrize("own", [MinMaxScaler(), RobustScaler()], ids=str)
def test_bounds_are_asked_for(own):
    with pytest.raises(NotPooledError, match="give bounds"):
        PooledTransformer(own).fit(numbers())
    some = {0: (-5, 5)}
    with pytest.raises(NotPooledError, match="give bounds"):
        PooledTransformer(own, bounds=some).fit(numbers())
    turned = make_pipeline(PCA(2), own)
    with pytest.raises(NotPooledError, match="give bounds"):
        PooledTransformer(turned, bounds=limits(numbers())).fit(numbers())


def test_a_failed_fit_leaves_it_as_it_was():
    front = PooledTransformer(StandardScaler()).fit(numbers())
    before = front._front.digest
    with pytest.raises(NotPooledError):
        front.set_params(transformer=Nystroem()).fit(numbers())
    assert front._front.digest == before


# ---- what arrives is untrusted ----------------------------------------------------


def told(**more):
    front = {"tree": {"kind": "StandardScaler", "params": {}}, "states": {}}
    return Message.of("front", front=front | more)


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
        reply_to(told(**front), None, numbers(), None, name="lyon")


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
    request = told(columns=columns, states={"0": state})
    with pytest.raises((ValueError, TypeError)):
        reply_to(request, None, numbers(), None, name="lyon")


KINDS = {
    "columns": StandardScaler(),
    "scatter": PCA(2),
    "categories": OneHotEncoder(),
    "histogram": RobustScaler(),
    "powers": PowerTransformer(),
    "box_powers": PowerTransformer(method="box-cox"),
    "extremes": MinMaxScaler(),
}


@pytest.mark.parametrize("name", KINDS)
def test_odd_replies_are_refused(name):
    bounds = "tell" if name == "extremes" else (-5e3, 5e3)
    own = PooledTransformer(KINDS[name], bounds=bounds)
    X = np.round(numbers() / [1, 10, 0.1, 1e3]) if name == "categories" else numbers()
    X = np.exp(X / 1e4) if name == "box_powers" else X
    reply = own.summarize(X, name="lyon", min_rows=1)
    request = Message.of("front", front=own.as_front().as_content())
    check_reply(request, reply)
    part = reply.content["parts"]["0"]
    assert part["statistic"] == name
    odd = [{**part, "more": 1.0}, {**part, "statistic": "rows"}, 3]
    odd.append({key: value for key, value in part.items() if key != "statistic"})
    for key, value in part.items():
        if key == "statistic":
            continue
        if key not in "0123":
            odd.append({k: v for k, v in part.items() if k != key})
        if isinstance(value, np.ndarray):
            odd += (
                [{**part, key: value[..., :-1]}] if key not in ("cumulative",) else []
            )
            odd += [{**part, key: value + np.nan}, {**part, key: [1]}]
        else:
            odd += [{**part, key: -1.0}, {**part, key: "x"}]
    for broken in odd:
        content = {**reply.content, "parts": {"0": broken}}
        with pytest.raises(ValueError, match=r"front\.parts"):
            check_reply(request, Message.of("front", **content))
    # Of other columns than there are.
    fewer = own.summarize(X[:, :3], name="paris", min_rows=1)
    message = Message.of(
        "front", **{**fewer.content, "columns": reply.content["columns"]}
    )
    message = message.with_envelope(node="paris", to=request.digest)
    with pytest.raises(ValueError, match="'paris' told of"):
        own.set_params(summaries=[reply, message]).fit()


def test_large_numbers_are_no_harm():
    X = np.repeat([[75001], [69001], [13001]], 20, axis=0)
    listed = OneHotEncoder(categories=[[13001, 69001, 75001]])
    assert PooledTransformer(listed).fit(X).transform(X).shape == (60, 3)
    seeded = RandomFeatures(3, random_state=2**31 - 1)
    np.testing.assert_array_equal(
        PooledTransformer(seeded).fit(X).transform(X), clone(seeded).fit_transform(X)
    )


def test_a_front_is_typed():
    made = front_of_text("StandardScaler | RandomFeatures(50, random_state=0)")
    own = make_pipeline(StandardScaler(), RandomFeatures(50, random_state=0))
    assert repr(made) == repr(own)
    for text in (
        "exit()",
        "StandardScaler(",
        "PCA(open('x'))",
        "PCA(1)(2)",
        "",
        "PCA.x",
    ):
        with pytest.raises(ValueError, match="is no transformer of a front"):
            front_of_text(text)
