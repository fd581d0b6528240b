# SPDX-License-Identifier: BSD-3-Clause
"""Affine steps of a pipeline are folded, all others are refused by name."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn import config_context
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


def fit_quietly(estimator, X, y):
    """The estimator, fitted without warnings, as of few iterations."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return estimator.fit(X, y)


def fit(*steps, X, y):
    """A fitted pipeline of steps and a logistic regression."""
    return fit_quietly(make_pipeline(*steps, LogisticRegression(max_iter=20)), X, y)


def centered(logits):
    """Logits without what all of a row have in common, which says nothing."""
    return logits - logits.mean(axis=1, keepdims=True)


def assert_same_logits(estimator, X, *, rows=None, rtol=1e-7, atol=0.0):
    """A network that was read of a pipeline says of rows what the pipeline says.

    ``rows`` are those of the pipeline, where it takes them in another form.
    """
    rows = X if rows is None else rows
    np.testing.assert_allclose(
        centered(read_network(estimator).decision_function(X)),
        centered(estimator.decision_function(rows)),
        rtol=rtol,
        atol=atol,
    )


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
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        network = read_network(pipeline)
    assert network.n_features_in == 20
    assert network.coefs[0].shape == (20, 4)
    tolerance = 1e-4 if kind == "float32" else 1e-9
    assert_same_logits(pipeline, X, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    "kind",
    # A lambda cannot be pickled.
    [kind for kind in AFFINE if kind not in ("function", "float32")],
)
def test_pipelines_of_affine_steps_are_left_as_they_were(kind, digits):
    X, y = digits
    pipeline = fit(*AFFINE[kind], X=X, y=y)
    before = pickle.dumps(pipeline)
    read_network(pipeline)
    assert pickle.dumps(pipeline) == before


@pytest.mark.parametrize("hidden", [(5,), (6, 3)])
def test_steps_before_a_network_are_folded_into_its_first_layer(hidden, digits):
    X, y = digits
    pipeline = make_pipeline(StandardScaler(), MLPClassifier(hidden, max_iter=3))
    fit_quietly(pipeline, X, y)
    network = read_network(pipeline)
    assert network.coefs[0].shape == (20, hidden[0])
    np.testing.assert_allclose(
        centered(network.decision_function(X)),
        centered(np.log(pipeline.predict_proba(X))),
        rtol=1e-8,
        atol=1e-8,
    )


def test_steps_before_a_constant_model_leave_it_constant(digits):
    X, y = digits
    network = read_network(make_pipeline(PCA(2), DummyClassifier()).fit(X, y))
    np.testing.assert_array_equal(network.coefs[0], np.zeros((20, 4)))


@pytest.mark.parametrize("offset", [1e3, 1e6, 1e9])
def test_a_large_offset_costs_no_accuracy(offset, digits):
    X, y = digits
    pipeline = fit(StandardScaler(), X=X + offset, y=y)
    # Rounding of the rows themselves is some 1e-16 of the offset.
    assert_same_logits(pipeline, X + offset, atol=offset * 1e-13, rtol=1e-6)


class OwnScaler(StandardScaler):
    """May do whatever its author likes."""


def test_a_scaler_is_not_probed_and_what_is_derived_from_it_is(digits, monkeypatch):
    X, y = digits
    weights = []
    n_rows = []
    transform = StandardScaler.transform

    def counting(self, X, copy=None):
        n_rows.append(len(X))
        return transform(self, X, copy=copy)

    for scaler in (StandardScaler(), OwnScaler()):
        pipeline = fit(scaler, X=X, y=y)
        with monkeypatch.context() as patch:
            patch.setattr(StandardScaler, "transform", counting)
            weights.append(read_network(pipeline).coefs[0])
            n_rows.append(None)
    np.testing.assert_array_equal(*weights)
    assert n_rows[0] is None  # arrays do not even pass the plain one
    assert max(n_rows[1:-1]) > X.shape[1]


@pytest.mark.parametrize(("name", "number"), [("mean_", np.inf), ("scale_", 1e-308)])
def test_a_scaler_whose_numbers_overflow_is_refused(name, number, digits):
    X, y = digits
    pipeline = fit(StandardScaler(), X=X, y=y)
    getattr(pipeline[0], name)[0] = number
    with pytest.raises(ValueError, match="values that are not finite|not affine"):
        read_network(pipeline)


def test_dtype_of_the_network_is_kept(digits):
    X, y = digits
    X = X.astype(np.float32)
    pipeline = make_pipeline(StandardScaler(), MLPClassifier((3,), max_iter=3))
    network = read_network(fit_quietly(pipeline, X, y))
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
    fit_quietly(pipeline, X, y)
    kind = type(step).__name__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match=rf"Node 'ward': step 'culprit' \({kind}"):
            read_network(pipeline, name="ward")


@pytest.mark.parametrize("step", [RBFSampler(gamma=0.01), Nystroem(gamma=0.01)])
def test_the_error_about_a_step_that_is_not_affine_says_where_it_belongs(step, digits):
    X, y = digits
    with pytest.raises(ValueError, match="in front of the aggregator") as error:
        read_network(fit(StandardScaler(), step, X=X, y=y))
    kind = type(step).__name__
    assert f"step '{kind.lower()}' ({kind})" in str(error.value)
    assert f"make_pipeline({kind}(...), aggregator)" in str(error.value)


def test_clipping_far_from_zero_is_seen(digits):
    X, y = digits
    pipeline = fit(MinMaxScaler(clip=True), X=X + 1e8, y=y)
    with pytest.raises(ValueError, match="'minmaxscaler'"):
        read_network(pipeline)


@pytest.mark.parametrize("categories", [[1990, 2010], [5, 7, 40000]])
def test_an_encoder_of_categories_far_apart_is_seen_not_to_be_affine(categories):
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


def refuse(X):
    """A transformation that fails."""
    raise RuntimeError("only for Mondays")


def test_a_step_that_raises_is_named_and_chained(digits):
    X, y = digits
    pipeline = fit(FunctionTransformer(), X=X, y=y)
    pipeline[0].func = refuse
    message = "'functiontransformer'.*raises RuntimeError"
    with pytest.raises(ValueError, match=message) as raised:
        read_network(pipeline)
    assert str(raised.value.__cause__) == "only for Mondays"


def test_a_step_that_drops_rows_is_named(digits):
    X, y = digits
    pipeline = fit(FunctionTransformer(), X=X, y=y)
    pipeline[0].func = lambda X: X[:-1]
    with pytest.raises(ValueError, match="'functiontransformer'.*array of shape"):
        read_network(pipeline)


def test_a_step_that_depends_on_the_other_rows_is_not_affine(digits):
    X, y = digits
    pipeline = fit(FunctionTransformer(lambda X: X - X.mean(axis=0)), X=X, y=y)
    with pytest.raises(
        ValueError, match="Node 'ward': .*'functiontransformer'.*affine"
    ):
        read_network(pipeline, name="ward")


def test_a_step_that_is_not_fitted_is_named(digits):
    X, y = digits
    clf = LogisticRegression(max_iter=200).fit(StandardScaler().fit_transform(X), y)
    pipeline = make_pipeline(StandardScaler(), FrozenEstimator(clf))
    with pytest.raises(NotFittedError, match="Node 'ward'.*'standardscaler'"):
        read_network(pipeline, name="ward")


class Halve(TransformerMixin, BaseEstimator):
    """A user's transformer without attributes, not even n_features_in_."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return X / 2


@pytest.mark.parametrize(
    "steps", [[Halve()], [Halve(), StandardScaler()], [Halve(), Halve()]]
)
def test_a_transformer_without_attributes_is_folded(steps, digits):
    X, y = digits
    pipeline = fit(*steps, X=X, y=y)
    assert is_fitted(pipeline)
    assert_same_logits(pipeline, X)


def test_wrappers_around_pipelines_and_within_are_opened(digits):
    X, y = digits
    scaler = FrozenEstimator(StandardScaler().fit(X))
    pipeline = make_pipeline(scaler, LogisticRegression())
    search = GridSearchCV(pipeline, {"logisticregression__C": [0.1]}, cv=2)
    fit_quietly(search, X, y)
    for estimator in (search, FrozenEstimator(search)):
        assert_same_logits(estimator, X)


def test_reading_is_repeatable_and_draws_no_global_numbers(digits):
    X, y = digits
    pipeline = fit(StandardScaler(), PCA(5), X=X, y=y)
    np.random.seed(1)
    state = np.random.get_state()[1].copy()
    first = read_network(pipeline)
    second = read_network(pipeline)
    np.testing.assert_array_equal(first.coefs[0], second.coefs[0])
    np.testing.assert_array_equal(np.random.get_state()[1], state)


def test_blocks_of_rows_as_small_as_memory_asks_for_give_the_same(digits):
    X, y = digits
    pipeline = fit(StandardScaler(), PCA(5), X=X, y=y)
    one_block = read_network(pipeline)
    with config_context(working_memory=0):
        small_blocks = read_network(pipeline)
    np.testing.assert_allclose(small_blocks.coefs[0], one_block.coefs[0], rtol=1e-12)


@pytest.mark.parametrize("accepts", ["sparse", "both"])
def test_wide_sparse_rows_are_never_dense(accepts):
    n_features = 50_000
    rng = np.random.RandomState(0)
    X = sparse.random(50, n_features, 1e-3, format="csr", random_state=rng)
    y = np.arange(50) % 3
    dense_sizes = []

    def record(X):
        """Note the size of dense rows; sparse ones may be as many as they like."""
        if not sparse.issparse(X):
            dense_sizes.append(X.size)
        if accepts == "sparse" and not sparse.issparse(X):
            raise TypeError("dense")
        return X

    steps = [FunctionTransformer(record, accept_sparse=True), MaxAbsScaler()]
    pipeline = make_pipeline(*steps, SGDClassifier(max_iter=2, tol=None)).fit(X, y)
    dense_sizes.clear()
    network = read_network(pipeline)
    assert max(dense_sizes, default=0) <= n_features  # one row may be tried
    np.testing.assert_allclose(
        network.decision_function(X), pipeline.decision_function(X), rtol=1e-9
    )


def test_steps_that_take_only_sparse_rows_are_folded(digits):
    X, y = digits
    step = FunctionTransformer(lambda X: X.tocsr() * 2, accept_sparse=True)
    sparse_rows = sparse.csr_matrix(X)
    pipeline = fit(step, X=sparse_rows, y=y)
    assert_same_logits(pipeline, X, rows=sparse_rows)


def test_sparse_steps_that_are_not_affine_are_named():
    n_features = 10_000
    X = sparse.random(50, n_features, 1e-3, format="csr", random_state=0)
    pipeline = fit(MaxAbsScaler(), Normalizer(), X=X, y=np.arange(50) % 3)
    with pytest.raises(ValueError, match="'normalizer'"):
        read_network(pipeline)


def frame_of(X):
    """A data frame with the columns x0, x1, ..."""
    pd = pytest.importorskip("pandas")
    return pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])])


@pytest.mark.parametrize("output", ["default", "pandas"])
def test_transformers_of_columns_by_name_are_folded(output, digits):
    X, y = digits
    frame = frame_of(X)
    columns = ColumnTransformer(
        [("a", StandardScaler(), ["x3", "x1"]), ("b", PCA(2), ["x7", "x9", "x11"])],
        remainder="passthrough",
    )
    columns.set_output(transform=output)
    pipeline = fit(columns, MinMaxScaler(), X=frame, y=y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        network = read_network(pipeline)
    assert network.feature_names_in.tolist() == frame.columns.tolist()
    assert_same_logits(pipeline, frame, rtol=1e-9, atol=1e-9)


def test_transformers_of_columns_by_name_that_are_not_affine_are_named(digits):
    X, y = digits
    union = FeatureUnion([("a", StandardScaler()), ("b", Normalizer())])
    columns = ColumnTransformer([("a", union, ["x3", "x1"])], remainder="passthrough")
    pipeline = fit(columns, X=frame_of(X), y=y)
    with pytest.raises(ValueError, match=r"'columntransformer' \(ColumnTransformer\)"):
        read_network(pipeline)


def test_the_step_that_reads_columns_of_text_is_named(digits):
    X, y = digits
    frame = frame_of(X)
    frame["town"] = np.where(X[:, 0] > 5, "Ely", "Bath")
    columns = ColumnTransformer(
        [("t", OneHotEncoder(), ["town"])], remainder="passthrough"
    )
    pipeline = fit(columns, X=frame, y=y)
    with pytest.raises(ValueError, match="step 'columntransformer'.*raises") as raised:
        read_network(pipeline)
    assert raised.value.__cause__ is not None


def test_classes_come_from_the_last_step(digits):
    X, y = digits
    labels = np.array(["d", "c", "b", "a"])[y]
    network = read_network(fit(StandardScaler(), X=X, y=labels))
    assert network.classes.tolist() == ["a", "b", "c", "d"]
    assert network.seen.all()


# ---- the coordinates in which a pipeline's classifier works ---------------------


def rows_of_other_scales():
    """Rows of five features of very different sizes, the last of them constant."""
    rng = np.random.RandomState(0)
    X = rng.normal(size=(60, 5)) * [1, 10, 0.1, 3, 1] + [100, -5, 0, 7, 2]
    X[:, 4] = 2.0
    return X, np.arange(60) % 2


def read_coordinates(*steps):
    """A fitted pipeline of steps and a classifier, and the coordinates read of it."""
    X, y = rows_of_other_scales()
    pipeline = make_pipeline(*steps, LogisticRegression()).fit(X, y)
    return pipeline, read_network(pipeline).coordinates


def test_centre_and_scale_are_those_of_a_standard_scaler():
    (scaler, _), coordinates = read_coordinates(StandardScaler())
    np.testing.assert_allclose(coordinates.center, scaler.mean_, atol=1e-12)
    np.testing.assert_allclose(coordinates.scale[:4], scaler.scale_[:4])
    assert np.isnan(coordinates.scale[4])


def test_centre_and_scale_are_those_of_a_scaler_to_a_range():
    (scaler, _), coordinates = read_coordinates(MinMaxScaler())
    np.testing.assert_allclose(coordinates.center, scaler.data_min_, atol=1e-9)
    np.testing.assert_allclose(coordinates.scale[:4], scaler.data_range_[:4])
    assert np.isnan(coordinates.scale[4])


def test_a_scaler_by_the_largest_size_has_its_centre_at_zero():
    (scaler, _), coordinates = read_coordinates(MaxAbsScaler())
    np.testing.assert_allclose(coordinates.center, 0)
    np.testing.assert_allclose(coordinates.scale, scaler.max_abs_)


def test_columns_that_are_dropped_have_no_coordinates():
    columns = ColumnTransformer(
        [("scaled", StandardScaler(), [2, 0]), ("as is", "passthrough", [3])]
    )
    _, coordinates = read_coordinates(columns)
    mean = rows_of_other_scales()[0].mean(axis=0)
    np.testing.assert_allclose(
        coordinates.center[[0, 2, 3]], [mean[0], mean[2], 0], atol=1e-9
    )
    assert coordinates.scale[3] == 1
    assert np.isnan(coordinates.center[[1, 4]]).all()
    assert np.isnan(coordinates.scale[[1, 4]]).all()


@pytest.mark.filterwarnings("ignore:Features .* are constant", "ignore:invalid value")
@pytest.mark.parametrize("is_scaled_first", [True, False])
def test_features_that_are_not_selected_have_no_coordinates(is_scaled_first):
    steps = [StandardScaler(), SelectKBest(k=2)]
    pipeline, coordinates = read_coordinates(
        *(steps if is_scaled_first else steps[::-1])
    )
    mean = rows_of_other_scales()[0].mean(axis=0)
    selected = pipeline["selectkbest"].get_support()
    np.testing.assert_allclose(coordinates.center[selected], mean[selected], atol=1e-9)
    assert np.isnan(coordinates.center[~selected]).all()


def test_steps_that_mix_features_say_no_more_than_the_centre():
    X, _ = rows_of_other_scales()
    for steps in ([PCA(3)], [StandardScaler(), PCA(3)], [PCA(3), StandardScaler()]):
        _, coordinates = read_coordinates(*steps)
        np.testing.assert_allclose(coordinates.center, X.mean(axis=0), atol=1e-9)
        # Save where each feature is scaled before they are mixed.
        is_scaled_before = isinstance(steps[0], StandardScaler)
        expected = X.std(axis=0) if is_scaled_before else np.ones(5)
        np.testing.assert_allclose(coordinates.scale[:4], expected[:4])


def test_coordinates_of_sparse_rows_are_not_centred():
    # One entry a row, 80 columns apart.
    entries = (np.ones(60), (np.arange(60), np.arange(60) * 80))
    X = sparse.csr_matrix(entries, (60, 5000))
    pipeline = make_pipeline(MaxAbsScaler(), LogisticRegression())
    pipeline.fit(X, np.arange(60) % 2)
    coordinates = read_network(pipeline).coordinates
    np.testing.assert_array_equal(coordinates.center[:80], 0)
    assert coordinates.scale[0] == 1 and np.isnan(coordinates.scale[1])


def test_a_classifier_without_steps_has_no_coordinates():
    X, y = rows_of_other_scales()
    assert read_network(LogisticRegression().fit(X, y)).coordinates is None


def test_layers_go_into_coordinates_and_come_back():
    X, _ = rows_of_other_scales()
    pipeline, coordinates = read_coordinates(StandardScaler())
    classifier = pipeline[-1]
    network = read_network(pipeline)
    logits = network.decision_function(X)
    # A node without coordinates, as of a bare classifier, has no say.
    common = Coordinates.common([coordinates, None, coordinates])
    inside = common.take_in(network)
    np.testing.assert_allclose(inside.decision_function(common.rows(X)), logits)
    np.testing.assert_allclose(common.give_back(inside).decision_function(X), logits)
    # Sparse rows are scaled, but not centered.
    scaled = common.rows(sparse.csr_matrix(X))
    of_scaled = common.left_out().give_back(inside)
    np.testing.assert_allclose(of_scaled.decision_function(scaled), logits)
    # In its coordinates the network has the weights of the classifier of the pipeline.
    np.testing.assert_allclose(np.diff(inside.coefs[0])[:4, 0], classifier.coef_[0, :4])
    np.testing.assert_allclose(np.diff(inside.intercepts[0]), classifier.intercept_)


def test_nodes_without_coordinates_have_none_in_common():
    assert Coordinates.common([None, None]) is None
