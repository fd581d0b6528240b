# SPDX-License-Identifier: BSD-3-Clause
"""Transformers fitted without rows at one place are those fitted to all rows."""

from __future__ import annotations

import json
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix, issparse
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import (
    Nystroem,
    PolynomialCountSketch,
    RBFSampler,
    SkewedChi2Sampler,
)
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    SplineTransformer,
    StandardScaler,
)
from sklearn.utils import get_tags

from skgems import PooledTransformer
from skgems.federation import (
    Message,
    Nodes,
    NotAgreedError,
    RowsExposedWarning,
    reply_to,
)
from skgems.local import TooFewRowsError
from skgems.messages import check_reply
from skgems.steps import Front, NotPooledError, RandomFeatures, front_of_text


def numbers(n_rows=300, missing=False):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 4)) * [1, 10, 0.1, 1e3] + [0, 5, 1e2, -4]
    if missing:
        X[rng.random(X.shape) < 0.1] = np.nan
    return X


def table():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(numbers(missing=True), columns=list("abcd"))
    frame["word"] = rng.choice(["red", "green", "blue"], len(frame), p=[0.5, 0.3, 0.2])
    frame.loc[rng.random(len(frame)) < 0.1, "word"] = np.nan
    frame["code"] = rng.integers(0, 4, len(frame))
    return frame


# Uneven, and sorted by a column, so that nodes differ.
def owners(X):
    first = X.toarray()[:, 0] if issparse(X) else np.asarray(X)[:, 0].astype(float)
    return np.digitize(np.nan_to_num(first), [-0.5, 0.2])


def limits(X):
    columns = range(X.shape[1])
    return {j: (float(X[:, j].min()), float(X[:, j].max())) for j in columns}


def dense(Z):
    return Z.toarray() if issparse(Z) else np.asarray(Z, dtype=float)


def agree(transformer, X, *, rtol=1e-8, **options):
    """The pooled transformer, which does what scikit-learn's fit on all rows does."""
    pooled = PooledTransformer(transformer, **options).fit(X, nodes=owners(X))
    reference = clone(transformer).fit(X)
    ours, theirs = pooled.transform(X), reference.transform(X)
    ours, theirs = dense(ours), dense(theirs)
    np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=rtol)
    names = reference.get_feature_names_out()
    assert pooled.get_feature_names_out().tolist() == names.tolist()
    assert type(pooled.to_estimator()) is type(reference)
    np.testing.assert_array_equal(dense(pooled.transformer_.transform(X)), ours)
    return pooled


FULL = {"svd_solver": "full"}
UNION = FeatureUnion(
    [
        ("own", "passthrough"),
        ("sketch", PolynomialCountSketch(n_components=20, random_state=1)),
        ("axes", PCA(2, **FULL)),
    ]
)


@pytest.mark.parametrize(
    "transformer, messages",
    [
        (StandardScaler(), 1),
        (StandardScaler(with_mean=False), 1),
        (StandardScaler(with_std=False), 1),
        (Normalizer(), 1),
        (PCA(2, **FULL), 1),
        (PCA(0.95, **FULL), 1),
        (make_pipeline(StandardScaler(), PCA(3, whiten=True, **FULL)), 2),
        (make_pipeline(StandardScaler(), RBFSampler(random_state=0)), 1),
        (make_pipeline(StandardScaler(), RBFSampler(gamma="scale", random_state=0)), 2),
        (make_pipeline(StandardScaler(), RandomFeatures(30, random_state=0)), 1),
        (make_pipeline(StandardScaler(), UNION), 2),
    ],
    ids=str,
)
def test_of_numbers(transformer, messages):
    pooled = agree(transformer, numbers())
    assert len(pooled.history_) == messages and pooled.errors_ == {}


def test_shapes_of_random_features_are_those_of_a_seed():
    X = numbers() / [1, 10, 0.1, 1e3]
    sampler = SkewedChi2Sampler(skewedness=1e4, random_state=0)
    agree(sampler, X)
    relu = RandomFeatures(20, kind="relu", passthrough=False, random_state=0)
    assert agree(relu, X).transform(X).min() == 0.0


@pytest.mark.parametrize(
    "transformer",
    [
        StandardScaler(),
        SimpleImputer(),
        SimpleImputer(add_indicator=True),
        SimpleImputer(strategy="constant", fill_value=7.0, add_indicator=True),
        make_pipeline(SimpleImputer(), StandardScaler(), PCA(2, **FULL)),
    ],
    ids=str,
)
def test_of_missing_numbers(transformer):
    agree(transformer, numbers(missing=True))


def test_pca_keeps_what_scikit_learn_would():
    X = numbers() / [1, 10, 0.1, 1e3]
    ours = agree(PCA(2, **FULL), X).transformer_
    theirs = PCA(2, **FULL).fit(X)
    for name in (
        *("mean_", "components_", "explained_variance_", "singular_values_"),
        *("explained_variance_ratio_", "noise_variance_", "n_samples_"),
    ):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), 1e-8)
    np.testing.assert_allclose(
        ours.inverse_transform(ours.transform(X)),
        theirs.inverse_transform(theirs.transform(X)),
    )


def test_pca_of_equal_variances_warns():
    X = np.vstack([np.eye(4), -np.eye(4)] * 5)
    with pytest.warns(UserWarning, match="equal variance"):
        pooled = PooledTransformer(PCA(2)).fit(X, nodes=np.arange(len(X)) % 2)
    assert list(pooled.errors_.values()) == [np.inf]


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_a_column_constant_but_for_rounding_is_left_as_scikit_learn_leaves_it(offset):
    X = numbers()
    X[:, 1] = 0.1 + offset
    agree(StandardScaler(), X)
    agree(StandardScaler(), X.astype(np.float32), rtol=1e-4)


@pytest.mark.parametrize(
    "transformer",
    [
        MinMaxScaler(),
        MaxAbsScaler(),
        KBinsDiscretizer(4, strategy="uniform"),
        SplineTransformer(),
        make_pipeline(SimpleImputer(), MinMaxScaler((-1, 1)), SplineTransformer()),
    ],
    ids=str,
)
@pytest.mark.parametrize("told", [False, True])
def test_over_agreed_bounds(transformer, told):
    X = numbers()
    bounds = "tell" if told else limits(X)
    agree(transformer, X, bounds=bounds)


def test_bounds_of_one_pair_are_those_of_all_columns():
    X = numbers()
    scaler = PooledTransformer(MinMaxScaler(), bounds=(-1e4, 1e4)).fit(X)
    np.testing.assert_allclose(scaler.transform(X), (X + 1e4) / 2e4)


def test_bounds_follow_a_column_through_scalers_and_selections():
    frame = table()
    inner = make_pipeline(SimpleImputer(), StandardScaler(), MinMaxScaler())
    columns = ColumnTransformer([("x", inner, ["d", "b"])])
    bounds = {name: (frame[name].min(), frame[name].max()) for name in "bd"}
    agree(columns, frame, bounds=bounds)


def test_quantiles_are_as_near_as_is_said():
    X = numbers(3000)
    wide = max(high - low for low, high in limits(X).values()) / 1000
    known = {"bounds": limits(X)}
    robust = PooledTransformer(RobustScaler(), **known).fit(X, nodes=owners(X))
    (error,) = robust.errors_.values()
    assert error == pytest.approx(wide)
    widths = np.array([high - low for low, high in limits(X).values()]) / 1000
    away = np.abs(robust.transformer_.center_ - np.median(X, axis=0))
    assert (away <= 1.01 * widths).all()
    fitted = PooledTransformer(QuantileTransformer(n_quantiles=20), **known).fit(X)
    ours, theirs = fitted.transformer_, QuantileTransformer(n_quantiles=20).fit(X)
    # Inside, where rows are dense; numpy interpolates between two of them.
    away = np.abs(ours.quantiles_ - theirs.quantiles_)[1:-1]
    assert (away <= 2 * widths).all()
    missing = numbers(3000, missing=True)
    known = {"bounds": (-6e3, 6e3)}
    median = PooledTransformer(SimpleImputer(strategy="median"), **known).fit(missing)
    away = median.transformer_.statistics_ - np.nanmedian(missing, axis=0)
    assert np.abs(away).max() <= 12.0 and list(median.errors_.values()) == [12.0]
    for own in (
        KBinsDiscretizer(4, strategy="quantile", quantile_method="linear")
        if "quantile_method" in KBinsDiscretizer().get_params()
        else KBinsDiscretizer(4, strategy="quantile"),
        SplineTransformer(knots="quantile"),
    ):
        made = PooledTransformer(own, bounds=limits(X)).fit(X, nodes=owners(X))
        assert made.transform(X).shape == clone(own).fit(X).transform(X).shape
        assert list(made.errors_.values()) == [pytest.approx(wide)]


def test_ties_are_no_slope():
    X = np.repeat([[0.0], [1.0], [5.0]], 20, axis=0)
    made = PooledTransformer(RobustScaler(), bounds=(0, 5)).fit(
        X, nodes=X[:, 0].astype(int)
    )
    assert abs(made.transformer_.center_[0] - 1.0) <= 0.005


COLUMNS = ColumnTransformer(
    [
        (
            "x",
            make_pipeline(SimpleImputer(), StandardScaler(), PCA(2, **FULL)),
            ["a", "c", "d"],
        ),
        (
            "word",
            make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder()),
            ["word"],
        ),
        ("code", OneHotEncoder(drop="first", sparse_output=False), ["code"]),
    ],
    remainder=SimpleImputer(),
)


def test_of_tables():
    pooled = agree(COLUMNS, table())
    assert len(pooled.history_) == 3
    assert pooled.feature_names_in_.tolist() == table().columns.tolist()


@pytest.mark.parametrize(
    "transformer",
    [
        OneHotEncoder(),
        OneHotEncoder(handle_unknown="ignore", drop="if_binary"),
        OneHotEncoder(categories=[["blue", "green", "red", np.nan], [0, 1, 2, 3, 9]]),
        OrdinalEncoder(),
        OrdinalEncoder(encoded_missing_value=-1),
        OneHotEncoder(min_frequency=70),
        OneHotEncoder(min_frequency=0.25, max_categories=3, drop="first"),
        OneHotEncoder(max_categories=2, handle_unknown="infrequent_if_exist"),
        OneHotEncoder(min_frequency=1, max_categories=50),
        OrdinalEncoder(min_frequency=70),
        OrdinalEncoder(max_categories=2, encoded_missing_value=-1),
    ],
    ids=str,
)
def test_of_categories(transformer):
    frame = table()[["a", "word", "code"]]
    own = ColumnTransformer([("x", transformer, ["word", "code"])])
    agree(own, frame)
    # And of arrays of objects.
    rows = frame.to_numpy(dtype=object)
    agree(ColumnTransformer([("x", transformer, [1, 2])]), rows)


def test_of_tables_of_every_kind():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "kind": pd.Categorical(rng.choice(["a", "b"], 90)),
            "whole": pd.array(rng.integers(0, 3, 90), dtype="Int64"),
            "truth": rng.random(90) < 0.5,
            "few": rng.normal(size=90).astype("float32"),
        }
    )
    frame.loc[3, "whole"] = pd.NA
    nodes = np.arange(90) % 3
    for own, columns in (
        (StandardScaler(), ["whole", "truth", "few"]),
        (SimpleImputer(), ["whole", "few"]),
        (OneHotEncoder(), ["kind", "whole", "truth"]),
    ):
        X = frame[columns]
        ours = PooledTransformer(own).fit(X, nodes=nodes)
        theirs = clone(own).fit(X)
        names = theirs.get_feature_names_out().tolist()
        assert ours.get_feature_names_out().tolist() == names
        np.testing.assert_allclose(
            dense(ours.transform(X)), dense(theirs.transform(X)), rtol=1e-6, atol=1e-6
        )
    # Whole numbers stay such, in lists too, and numbers are no names of columns.
    X = rng.integers(0, 5, size=(90, 3))
    for rows in (X, X.tolist(), pd.DataFrame(X)):
        ours = PooledTransformer(OneHotEncoder()).fit(rows, nodes=nodes)
        names = OneHotEncoder().fit(X).get_feature_names_out().tolist()
        assert ours.get_feature_names_out().tolist() == names
        assert ours.transform(rows).shape == (90, len(names))
    with pytest.raises(ValueError, match="the same name"):
        PooledTransformer(StandardScaler()).fit(pd.DataFrame(X, columns=list("aab")))


def test_of_few_digits_and_of_sparse_rows():
    X = numbers().astype(np.float32)
    for own in (StandardScaler(), PCA(2, **FULL), RandomFeatures(9, random_state=0)):
        pooled = PooledTransformer(own).fit(X, nodes=owners(X))
        reference = clone(own).fit(X)
        assert pooled.transform(X).dtype == reference.transform(X).dtype
        away = np.abs(pooled.transform(X) - reference.transform(X)).max(axis=0)
        assert (away <= 1e-3 * np.abs(reference.transform(X)).max(axis=0)).all()
    sparse = csr_matrix(np.where(numbers() > 1, numbers(), 0.0))
    if not get_tags(MaxAbsScaler()).input_tags.sparse:  # before scikit-learn 1.7
        with pytest.raises(TypeError, match="Sparse data was passed"):
            PooledTransformer(MaxAbsScaler(), bounds="tell").fit(sparse)
        return
    made = agree(StandardScaler(with_mean=False), sparse)
    assert issparse(made.transform(sparse))
    agree(MaxAbsScaler(), sparse, bounds="tell")


# ---- nodes that differ -----------------------------------------------------------


def asked(tables, transformer, **options):
    """A pooled transformer of nodes that are elsewhere."""

    def ask(requests):
        replies = {}
        for name, own in requests.items():
            rows = tables[name], None
            try:
                told = reply_to(own.to_bytes(), None, *rows, name=name, **options)
                replies[name] = Message.from_bytes(told)
            except ValueError as refused:
                replies[name] = refused
        return replies

    channel = Nodes(ask, list(tables), min_rows=options.get("min_rows", 10))
    return PooledTransformer(transformer, summaries=channel)


def parts(frame):
    codes = owners(frame)
    return {f"node {k}": frame[codes == k] for k in range(3)}


def test_a_channel_gives_equal_bits():
    frame = table()
    here = PooledTransformer(COLUMNS).fit(frame, nodes=owners(frame))
    there = asked(parts(frame), COLUMNS, min_rows=1).fit()
    for name, own in here._front.states.items():
        for key, value in own.items():
            np.testing.assert_equal(there._front.states[name][key], value)
    assert [own["task"] for own in there.history_] == ["front"] * 3
    parallel = PooledTransformer(COLUMNS, n_jobs=2).fit(frame, nodes=owners(frame))
    assert parallel._front.digest == here._front.digest


def test_another_order_of_columns_is_set_right():
    frame = table()
    tables = parts(frame)
    tables["node 1"] = tables["node 1"].iloc[:, ::-1].assign(more=1.0)
    scaled = make_pipeline(SimpleImputer(), StandardScaler())
    for own in (COLUMNS, ColumnTransformer([("x", scaled, [0, 1, 2, 3])])):
        there = asked(tables, own, min_rows=1).fit()
        np.testing.assert_allclose(
            dense(there.transform(frame)),
            dense(clone(own).fit(frame).transform(frame)),
            atol=1e-8,
        )
        reverse = frame.iloc[:, ::-1]
        np.testing.assert_array_equal(
            dense(there.transform(reverse)), dense(there.transform(frame))
        )
    assert there.feature_names_in_.tolist() == frame.columns.tolist()


@pytest.mark.filterwarnings("ignore:.*values of a single row each")
def test_missing_columns_are_named_with_the_node():
    tables = parts(table())
    tables["node 2"] = tables["node 2"].drop(columns=["c", "code"])
    for own in (COLUMNS, SimpleImputer(strategy="most_frequent")):
        with pytest.raises(ValueError, match=r"ode 'node 2'.*'c'"):
            asked(tables, own, min_rows=1).fit()
    fitted = asked(parts(table()), COLUMNS, min_rows=1).fit()
    with pytest.raises(ValueError, match=r"lacks the columns \['c'\]"):
        fitted.transform(table().drop(columns="c"))
    arrays = {"a": numbers(), "b": numbers()[:, :3]}
    with pytest.raises(ValueError, match="same columns"):
        asked(arrays, StandardScaler(), min_rows=1).fit()


def test_texts_at_one_node_and_numbers_at_another_are_said():
    tables = parts(table())
    tables = {name: own[["code"]] for name, own in tables.items()}
    tables["node 0"] = tables["node 0"].astype(str)
    with pytest.raises(
        ValueError, match=r"'node 1'.*'code' holds numbers here and texts at other"
    ):
        asked(tables, OneHotEncoder(), min_rows=1).fit()
    # A node without a value of the column is on neither side.
    tables["node 1"] = tables["node 1"].astype(object).assign(code=None)
    with pytest.raises(ValueError, match=r"'node 2'.*'code' holds numbers here"):
        asked(tables, OneHotEncoder(), min_rows=1).fit()


def test_the_order_of_the_nodes_does_not_matter():
    X = numbers()
    own = make_pipeline(StandardScaler(), PCA(3, **FULL))
    first = PooledTransformer(own).fit(X, nodes=owners(X))
    other = PooledTransformer(own).fit(X, nodes=2 - owners(X))
    np.testing.assert_allclose(first.transform(X), other.transform(X), atol=1e-10)


def test_rows_that_are_held_out_or_public_fit_nothing():
    X, mask = numbers(), np.arange(300) % 3 == 0
    nodes = owners(X)
    first = PooledTransformer(StandardScaler()).fit(X, nodes=nodes, held_out=mask)
    np.testing.assert_allclose(first.transformer_.mean_, X[~mask].mean(axis=0))
    public = PooledTransformer(StandardScaler()).fit(X, nodes=np.where(mask, -1, nodes))
    assert public._front.digest == first._front.digest


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


def test_random_features_keep_the_rules_of_scikit_learn():
    from sklearn.utils.estimator_checks import check_estimator

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_estimator(RandomFeatures(n_components=5, random_state=0))
