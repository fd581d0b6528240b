# SPDX-License-Identifier: BSD-3-Clause
"""Affine steps of a pipeline are folded, all others are refused by name."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.feature_selection import SelectKBest, VarianceThreshold
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline, make_union
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    SplineTransformer,
    StandardScaler,
)
from sklearn.random_projection import SparseRandomProjection

from skgems.networks import Coordinates, is_fitted, read_network


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(n_class=4, return_X_y=True)
    X = X[:300, 2:22] + np.random.RandomState(0).uniform(0, 1, (300, 20))
    return X, y[:300]


def fit(*steps, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make_pipeline(*steps, LogisticRegression(max_iter=20)).fit(X, y)


def centred(logits):
    return logits - logits.mean(axis=1, keepdims=True)


AFFINE = {
    "standard": [StandardScaler()],
    "no mean": [StandardScaler(with_mean=False)],
    "min max": [MinMaxScaler((-1, 3))],
    "max abs": [MaxAbsScaler()],
    "robust": [RobustScaler()],
    "pca": [PCA(5, whiten=True)],
    "svd": [TruncatedSVD(4, random_state=0)],
    "select": [SelectKBest(k=6)],
    "variance": [VarianceThreshold()],
    "imputer": [SimpleImputer()],
    "projection": [SparseRandomProjection(6, random_state=0)],
    "projection sparse": [SparseRandomProjection(6, dense_output=False)],
    "degree one": [PolynomialFeatures(1)],
    "idf": [TfidfTransformer(norm=None)],
    "function": [FunctionTransformer(lambda X: 2 * X[:, ::-1] - 1)],
    "float32": [FunctionTransformer(lambda X: X.astype(np.float32)), StandardScaler()],
    "union": [make_union(PCA(3), StandardScaler())],
    "several": [StandardScaler(), "passthrough", PCA(8), None, MinMaxScaler()],
    "nested": [make_pipeline(StandardScaler(), make_pipeline(PCA(7))), MaxAbsScaler()],
    "columns": [ColumnTransformer([("a", PCA(2), [0, 1, 2])], remainder="drop")],
}


@pytest.mark.parametrize("kind", AFFINE)
def test_affine_steps_are_folded(kind, digits):
    X, y = digits
    pipeline = fit(*AFFINE[kind], X=X, y=y)
    if "function" not in kind and kind != "float32":  # a lambda cannot be pickled
        before = pickle.dumps(pipeline)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        network = read_network(pipeline)
    if "function" not in kind and kind != "float32":
        assert pickle.dumps(pipeline) == before
    assert network.n_features_in == 20
    assert network.coefs[0].shape == (20, 4)
    np.testing.assert_allclose(
        centred(network.decision_function(X)),
        centred(pipeline.decision_function(X)),
        rtol=1e-9 if kind != "float32" else 1e-4,
        atol=1e-9 if kind != "float32" else 1e-4,
    )


@pytest.mark.parametrize("hidden", [(5,), (6, 3)])
def test_steps_before_a_network(hidden, digits):
    X, y = digits
    pipeline = make_pipeline(StandardScaler(), MLPClassifier(hidden, max_iter=3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pipeline.fit(X, y)
    network = read_network(pipeline)
    assert network.coefs[0].shape == (20, hidden[0])
    np.testing.assert_allclose(
        centred(network.decision_function(X)),
        centred(np.log(pipeline.predict_proba(X))),
        rtol=1e-8,
        atol=1e-8,
    )


def test_steps_before_a_constant_model(digits):
    X, y = digits
    network = read_network(make_pipeline(PCA(2), DummyClassifier()).fit(X, y))
    np.testing.assert_array_equal(network.coefs[0], np.zeros((20, 4)))


@pytest.mark.parametrize("offset", [1e3, 1e6, 1e9])
def test_a_large_offset_costs_no_accuracy(offset, digits):
    X, y = digits
    pipeline = fit(StandardScaler(), X=X + offset, y=y)
    np.testing.assert_allclose(
        centred(read_network(pipeline).decision_function(X + offset)),
        centred(pipeline.decision_function(X + offset)),
        atol=offset * 1e-13,
        rtol=1e-6,
    )


def test_dtype_of_the_network_is_kept(digits):
    X, y = digits
    X = X.astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = MLPClassifier((3,), max_iter=3)
        pipeline = make_pipeline(StandardScaler(), clf).fit(X, y)
    network = read_network(pipeline)
    arrays = (*network.coefs, *network.intercepts, network.decision_function(X))
    assert {array.dtype for array in arrays} == {np.dtype(np.float32)}


NOT_AFFINE = [
    MinMaxScaler(clip=True),
    Normalizer(),
    Binarizer(threshold=9.0),
    KBinsDiscretizer(3, quantile_method="averaged_inverted_cdf")
    if "quantile_method" in KBinsDiscretizer().get_params()
    else KBinsDiscretizer(3),
    PolynomialFeatures(2),
    PowerTransformer(),
    QuantileTransformer(n_quantiles=20),
    SplineTransformer(extrapolation="linear"),
    OneHotEncoder(handle_unknown="ignore"),
    TfidfTransformer(),
    SimpleImputer(missing_values=0),
    FunctionTransformer(np.log1p),
    FunctionTransformer(np.sqrt),
    FunctionTransformer(np.abs),
    FunctionTransformer(np.round),
    FunctionTransformer(np.sin),
    FunctionTransformer(lambda X: X - X.mean(axis=1, keepdims=True) ** 2),
    FunctionTransformer(lambda X: np.clip(X, 0, 5e4)),
    make_union(StandardScaler(), KBinsDiscretizer(2, subsample=None)),
    ColumnTransformer([("a", "passthrough", [0]), ("b", Normalizer(), [1, 2])]),
]


@pytest.mark.parametrize("step", NOT_AFFINE, ids=lambda step: type(step).__name__)
def test_a_step_that_is_not_affine_is_named(step, digits):
    X, y = digits
    if isinstance(step, OneHotEncoder):
        X = np.round(X)
    pipeline = Pipeline(
        [
            ("select", VarianceThreshold()),
            ("culprit", step),
            ("scale", StandardScaler(with_mean=False)),
            ("clf", LogisticRegression(max_iter=5)),
        ]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pipeline.fit(X, y)
    kind = type(step).__name__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match=rf"Node 'ward': step 'culprit' \({kind}"):
            read_network(pipeline, name="ward")


@pytest.mark.parametrize("step", [RBFSampler(gamma=0.01), Nystroem(gamma=0.01)])
def test_where_a_step_that_is_not_affine_belongs(step, digits):
    X, y = digits
    with pytest.raises(ValueError, match="in front of the aggregator") as error:
        read_network(fit(StandardScaler(), step, X=X, y=y))
    kind = type(step).__name__
    assert f"step '{kind.lower()}' ({kind})" in str(error.value)
    assert f"make_pipeline({kind}(...), aggregator)" in str(error.value)


def test_clipping_far_from_zero_is_found(digits):
    X, y = digits
    pipeline = fit(MinMaxScaler(clip=True), X=X + 1e8, y=y)
    with pytest.raises(ValueError, match="'minmaxscaler'"):
        read_network(pipeline)


@pytest.mark.parametrize("categories", [[1990, 2010], [5, 7, 40000]])
def test_rare_categories_are_found(categories):
    rng = np.random.RandomState(0)
    X = rng.choice(categories, size=(60, 2)).astype(float)
    y = np.arange(60) % 2
    pipeline = fit(OneHotEncoder(handle_unknown="ignore"), X=X, y=y)
    with pytest.raises(ValueError, match="'onehotencoder'"):
        read_network(pipeline)


def test_the_step_of_a_nested_pipeline_is_named(digits):
    X, y = digits
    inner = Pipeline([("scale", StandardScaler()), ("norm", Normalizer())])
    pipeline = Pipeline([("prep", inner), ("clf", LogisticRegression(max_iter=5))])
    with pytest.raises(ValueError, match=r"step 'prep__norm' \(Normalizer\)"):
        read_network(fit_quietly(pipeline, X, y))


def fit_quietly(estimator, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return estimator.fit(X, y)


def refuse(X):
    raise RuntimeError("only for Mondays")


def test_a_step_that_raises_is_named_and_chained(digits):
    X, y = digits
    pipeline = fit(FunctionTransformer(), X=X, y=y)
    pipeline[0].func = refuse
    with pytest.raises(
        ValueError, match="'functiontransformer'.*raises RuntimeError"
    ) as e:
        read_network(pipeline)
    assert str(e.value.__cause__) == "only for Mondays"


def test_a_step_that_drops_rows_is_named(digits):
    X, y = digits
    pipeline = fit(FunctionTransformer(), X=X, y=y)
    pipeline[0].func = lambda X: X[:-1]
    with pytest.raises(ValueError, match="'functiontransformer'.*array of shape"):
        read_network(pipeline)


def test_a_step_that_depends_on_the_other_rows(digits):
    X, y = digits
    pipeline = fit(FunctionTransformer(lambda X: X - X.mean(axis=0)), X=X, y=y)
    with pytest.raises(
        ValueError, match="Node 'ward': .*'functiontransformer'.*affine"
    ):
        read_network(pipeline, name="ward")


def test_unfitted_step(digits):
    X, y = digits
    clf = LogisticRegression(max_iter=200).fit(StandardScaler().fit_transform(X), y)
    pipeline = make_pipeline(StandardScaler(), FrozenEstimator(clf))
    with pytest.raises(NotFittedError, match="Node 'ward'.*'standardscaler'"):
        read_network(pipeline, name="ward")


class Halve(TransformerMixin, BaseEstimator):
    """A user's transformer that keeps nothing, not even n_features_in_."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return X / 2


def test_a_transformer_without_attributes(digits):
    X, y = digits
    for steps in ([Halve()], [Halve(), StandardScaler()], [Halve(), Halve()]):
        pipeline = fit(*steps, X=X, y=y)
        assert is_fitted(pipeline)
        np.testing.assert_allclose(
            centred(read_network(pipeline).decision_function(X)),
            centred(pipeline.decision_function(X)),
        )


def test_wrappers_around_and_within(digits):
    X, y = digits
    scaler = FrozenEstimator(StandardScaler().fit(X))
    pipeline = make_pipeline(scaler, LogisticRegression())
    search = GridSearchCV(pipeline, {"logisticregression__C": [0.1]}, cv=2)
    fit_quietly(search, X, y)
    for estimator in (search, FrozenEstimator(search)):
        np.testing.assert_allclose(
            centred(read_network(estimator).decision_function(X)),
            centred(search.decision_function(X)),
        )


def test_the_probe_is_the_same_every_time(digits):
    X, y = digits
    pipeline = fit(StandardScaler(), PCA(5), X=X, y=y)
    np.random.seed(1)
    state = np.random.get_state()[1].copy()
    first, second = read_network(pipeline), read_network(pipeline)
    np.testing.assert_array_equal(first.coefs[0], second.coefs[0])
    np.testing.assert_array_equal(np.random.get_state()[1], state)


def test_small_blocks_give_the_same(digits):
    from sklearn import config_context

    X, y = digits
    pipeline = fit(StandardScaler(), PCA(5), X=X, y=y)
    one_block = read_network(pipeline)
    with config_context(working_memory=0):
        blocks = read_network(pipeline)
    np.testing.assert_allclose(blocks.coefs[0], one_block.coefs[0], rtol=1e-12)


@pytest.mark.parametrize("accepts", ["sparse", "both"])
def test_wide_sparse_rows_are_never_dense(accepts):
    n_features = 50_000
    rng = np.random.RandomState(0)
    X = sparse.random(50, n_features, 1e-3, format="csr", random_state=rng)
    y = np.arange(50) % 3
    sizes = []

    def record(X):
        sizes.append(1 if sparse.issparse(X) else X.size)
        if accepts == "sparse" and not sparse.issparse(X):
            raise TypeError("dense")
        return X

    steps = [FunctionTransformer(record, accept_sparse=True), MaxAbsScaler()]
    pipeline = make_pipeline(*steps, SGDClassifier(max_iter=2, tol=None)).fit(X, y)
    sizes.clear()
    network = read_network(pipeline)
    assert max(sizes) <= n_features  # one row may be tried
    np.testing.assert_allclose(
        network.decision_function(X), pipeline.decision_function(X), rtol=1e-9
    )


def test_steps_that_take_only_sparse_rows(digits):
    X, y = digits
    step = FunctionTransformer(lambda X: X.tocsr() * 2, accept_sparse=True)
    pipeline = fit(step, X=sparse.csr_matrix(X), y=y)
    np.testing.assert_allclose(
        centred(read_network(pipeline).decision_function(X)),
        centred(pipeline.decision_function(sparse.csr_matrix(X))),
    )


def test_sparse_steps_that_bend_are_named():
    n_features = 10_000
    X = sparse.random(50, n_features, 1e-3, format="csr", random_state=0)
    pipeline = fit(MaxAbsScaler(), Normalizer(), X=X, y=np.arange(50) % 3)
    with pytest.raises(ValueError, match="'normalizer'"):
        read_network(pipeline)


def frame_of(X):
    pd = pytest.importorskip("pandas")
    return pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])])


def test_columns_by_name(digits):
    X, y = digits
    frame = frame_of(X)
    columns = ColumnTransformer(
        [("a", StandardScaler(), ["x3", "x1"]), ("b", PCA(2), ["x7", "x9", "x11"])],
        remainder="passthrough",
    )
    for output in ("default", "pandas"):
        columns.set_output(transform=output)
        pipeline = fit(columns, MinMaxScaler(), X=frame, y=y)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            network = read_network(pipeline)
        assert network.feature_names_in.tolist() == frame.columns.tolist()
        np.testing.assert_allclose(
            centred(network.decision_function(frame)),
            centred(pipeline.decision_function(frame)),
            rtol=1e-9,
            atol=1e-9,
        )


def test_columns_by_name_that_bend(digits):
    X, y = digits
    union = FeatureUnion([("a", StandardScaler()), ("b", Normalizer())])
    columns = ColumnTransformer([("a", union, ["x3", "x1"])], remainder="passthrough")
    pipeline = fit(columns, X=frame_of(X), y=y)
    with pytest.raises(ValueError, match=r"'columntransformer' \(ColumnTransformer\)"):
        read_network(pipeline)


def test_text_columns_are_named(digits):
    X, y = digits
    frame = frame_of(X)
    frame["town"] = np.where(X[:, 0] > 5, "Ely", "Bath")
    columns = ColumnTransformer(
        [("t", OneHotEncoder(), ["town"])], remainder="passthrough"
    )
    with pytest.raises(ValueError, match="step 'columntransformer'.*raises") as e:
        read_network(fit(columns, X=frame, y=y))
    assert e.value.__cause__ is not None


def test_classes_come_from_the_last_step(digits):
    X, y = digits
    labels = np.array(["d", "c", "b", "a"])[y]
    network = read_network(fit(StandardScaler(), X=X, y=labels))
    assert network.classes.tolist() == ["a", "b", "c", "d"]
    assert network.seen.all()


# ---- the coordinates in which a pipeline's classifier works ---------------------


def spread_rows(seed=0):
    rng = np.random.RandomState(seed)
    rows = rng.normal(size=(60, 5)) * [1, 10, 0.1, 3, 1] + [100, -5, 0, 7, 2]
    rows[:, 4] = 2.0  # constant
    return rows, np.arange(60) % 2


def coordinates_of(*steps):
    rows, y = spread_rows()
    pipeline = make_pipeline(*steps, LogisticRegression()).fit(rows, y)
    return pipeline, read_network(pipeline).coordinates


def test_a_scaler_says_where_features_are():
    pipeline, coordinates = coordinates_of(StandardScaler())
    np.testing.assert_allclose(coordinates.center, pipeline[0].mean_, atol=1e-12)
    np.testing.assert_allclose(coordinates.scale[:4], pipeline[0].scale_[:4])
    assert np.isnan(coordinates.scale[4])
    pipeline, coordinates = coordinates_of(MinMaxScaler())
    np.testing.assert_allclose(coordinates.center, pipeline[0].data_min_, atol=1e-9)
    np.testing.assert_allclose(coordinates.scale[:4], pipeline[0].data_range_[:4])
    assert np.isnan(coordinates.scale[4])
    pipeline, coordinates = coordinates_of(MaxAbsScaler())
    np.testing.assert_allclose(coordinates.center, 0)
    np.testing.assert_allclose(coordinates.scale, pipeline[0].max_abs_)


@pytest.mark.filterwarnings("ignore:Features .* are constant", "ignore:invalid value")
def test_features_that_are_left_out_have_no_coordinates():
    columns = ColumnTransformer(
        [("scaled", StandardScaler(), [2, 0]), ("as is", "passthrough", [3])]
    )
    pipeline, coordinates = coordinates_of(columns)
    mean = spread_rows()[0].mean(axis=0)
    np.testing.assert_allclose(
        coordinates.center[[0, 2, 3]], [mean[0], mean[2], 0], atol=1e-9
    )
    assert (
        np.isnan(coordinates.center[[1, 4]]).all()
        and np.isnan(coordinates.scale[[1, 4]]).all()
    )
    assert coordinates.scale[3] == 1
    select = SelectKBest(k=2)
    for steps in ([StandardScaler(), select], [select, StandardScaler()]):
        pipeline, coordinates = coordinates_of(*steps)
        selected = pipeline["selectkbest"].get_support()
        np.testing.assert_allclose(
            coordinates.center[selected], mean[selected], atol=1e-9
        )
        assert np.isnan(coordinates.center[~selected]).all()


def test_steps_that_mix_features_say_no_more_than_the_centre():
    rows = spread_rows()[0]
    for steps in ([PCA(3)], [StandardScaler(), PCA(3)], [PCA(3), StandardScaler()]):
        _, coordinates = coordinates_of(*steps)
        np.testing.assert_allclose(coordinates.center, rows.mean(axis=0), atol=1e-9)
        scaled = isinstance(steps[0], StandardScaler)
        expected = rows.std(axis=0) if scaled else np.ones(5)
        np.testing.assert_allclose(coordinates.scale[:4], expected[:4])


def test_sparse_steps_are_not_centred():
    rows, y = spread_rows()
    wide = sparse.csr_matrix(
        (np.ones(60), (np.arange(60), np.arange(60) * 80)), (60, 5000)
    )
    pipeline = make_pipeline(MaxAbsScaler(), LogisticRegression()).fit(wide, y)
    coordinates = read_network(pipeline).coordinates
    np.testing.assert_array_equal(coordinates.center[:80], 0)
    assert coordinates.scale[0] == 1 and np.isnan(coordinates.scale[1])
    assert read_network(pipeline[-1]).coordinates is None


def test_layers_go_into_coordinates_and_come_back():
    rows, _ = spread_rows()
    pipeline, coordinates = coordinates_of(StandardScaler())
    network = read_network(pipeline)
    common = Coordinates.common([coordinates, None, coordinates])
    assert Coordinates.common([None, None]) is None
    inside = common.take_in(network)
    logits = network.decision_function(rows)
    np.testing.assert_allclose(inside.decision_function(common.rows(rows)), logits)
    np.testing.assert_allclose(common.give_back(inside).decision_function(rows), logits)
    scaled = common.rows(sparse.csr_matrix(rows))
    of_scaled = common.left_out().give_back(inside)
    np.testing.assert_allclose(of_scaled.decision_function(scaled), logits)
    # What the classifier itself works on: its own weights.
    np.testing.assert_allclose(
        np.diff(inside.coefs[0])[:4, 0], pipeline[-1].coef_[0, :4]
    )
    np.testing.assert_allclose(np.diff(inside.intercepts[0]), pipeline[-1].intercept_)
