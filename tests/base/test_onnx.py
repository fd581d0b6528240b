# SPDX-License-Identifier: BSD-3-Clause
"""What skl2onnx converts predicts the same under onnxruntime, as the guide says.

The tables of docs/user_guide/export.rst are read: each row of them is a test here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from helpers.estimators import fit_once
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import (
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
)
from sklearn.ensemble import (
    ExtraTreesClassifier,
    RandomForestClassifier,
)
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import (
    PolynomialCountSketch,
    RBFSampler,
    SkewedChi2Sampler,
)
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import (
    BernoulliNB,
    CategoricalNB,
    ComplementNB,
    GaussianNB,
    MultinomialNB,
)
from sklearn.neighbors import NearestCentroid
from sklearn.neural_network import MLPClassifier
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

skl2onnx = pytest.importorskip("skl2onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from helpers.onnx_files import (  # noqa: E402
    ALL,
    GROWN,
    N_FIT,
    N_ROWS,
    NEW,
    NODES,
    Predictions,
    assert_converts,
    converted,
    fit,
    name_of,
    of_this_version,
    rows,
)

import skgems  # noqa: E402
from skgems import (  # noqa: E402
    EnsembleAggregator,
    GEMSLogisticAggregator,
    PooledAggregator,
    PooledTransformer,
    merge_forests,
)
from skgems.ensembles._candidates import candidates  # noqa: E402
from skgems.pooled._classifiers import KINDS as POOLED  # noqa: E402
from skgems.steps import (  # noqa: E402
    KINDS,  # noqa: E402
    Backbone,
    Columns,
    RandomFeatures,
    as_rows,
)

PAGE = Path(__file__).parents[2] / "docs" / "user_guide" / "export.rst"


def written(heading):
    """Verdicts of a table of the page: what stands in its first column, and second."""
    text = PAGE.read_text(encoding="utf-8")
    table = text.split(f":name: {heading}\n", 1)[1].split("\n\n\n")[0]
    verdicts = {}
    for row in re.split(r"^   \* - ", table, flags=re.MULTILINE)[2:]:
        first, verdict, _ = re.split(r"^     - ?", row, flags=re.MULTILINE)
        names = re.findall(r"``([^`]+)``|:class:`~?([^`]+)`", first)
        verdicts |= dict.fromkeys(
            ("".join(name).removeprefix("skgems.steps.") for name in names),
            verdict.strip(),
        )
    return verdicts


@dataclass(frozen=True)
class Step:
    """A step of a front, what it is fitted to, and what the page says of its file."""

    transformer: object
    kind: str = "numbers"  # of rows
    verdict: str = "yes"
    words: str = ""  # of the error
    bounds: object = None


WIDE = (-100.0, 100.0)


def without_converter(transformer, kind="numbers", bounds=None) -> Step:
    return Step(
        transformer,
        kind=kind,
        verdict="no",
        words="Unable to find a shape calculator",
        bounds=bounds,
    )


STEPS = {
    "StandardScaler": Step(StandardScaler()),
    "MinMaxScaler": Step(MinMaxScaler(), bounds=WIDE),
    "MaxAbsScaler": Step(MaxAbsScaler(), bounds=WIDE),
    "RobustScaler": Step(RobustScaler(), bounds=WIDE),
    "PowerTransformer": Step(PowerTransformer()),
    'PowerTransformer(method="box-cox")': Step(
        make_pipeline(
            StandardScaler(with_mean=False), PowerTransformer(method="box-cox")
        ),
        kind="large",
    ),
    "QuantileTransformer": Step(QuantileTransformer(n_quantiles=10), bounds=WIDE),
    'QuantileTransformer(output_distribution="normal")': Step(
        QuantileTransformer(n_quantiles=10, output_distribution="normal"),
        verdict="no",
        words="output_distribution='normal' is not supported",
        bounds=WIDE,
    ),
    "KBinsDiscretizer": Step(
        KBinsDiscretizer(4, strategy="uniform"),
        verdict="no",
        words="does not support sparse tensors",
        bounds=WIDE,
    ),
    'KBinsDiscretizer(encode="onehot-dense")': Step(
        KBinsDiscretizer(4, encode="onehot-dense", strategy="uniform"), bounds=WIDE
    ),
    'KBinsDiscretizer(encode="ordinal")': Step(
        KBinsDiscretizer(4, encode="ordinal", strategy="uniform"), bounds=WIDE
    ),
    "SplineTransformer": without_converter(SplineTransformer(), bounds=WIDE),
    "OneHotEncoder": Step(OneHotEncoder(handle_unknown="ignore"), kind="words"),
    "OneHotEncoder(min_frequency=...)": Step(
        OneHotEncoder(min_frequency=0.2, handle_unknown="infrequent_if_exist"),
        kind="counts",
        verdict="no",
        words="Infrequent categories are not implemented",
    ),
    "OrdinalEncoder": Step(
        OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
        kind="words",
    ),
    "OrdinalEncoder(min_frequency=...)": Step(
        OrdinalEncoder(min_frequency=0.2), kind="counts", verdict="wrong"
    ),
    "Normalizer": Step(Normalizer()),
    'Normalizer(norm="max")': Step(Normalizer("max"), verdict="wrong"),
    "SimpleImputer": Step(SimpleImputer(), kind="missing"),
    "SimpleImputer(add_indicator=True)": Step(
        SimpleImputer(add_indicator=True), kind="missing", verdict="wrong"
    ),
    "PCA": Step(PCA(2)),
    "RBFSampler": without_converter(RBFSampler(random_state=0)),
    "PolynomialCountSketch": without_converter(PolynomialCountSketch(random_state=0)),
    "SkewedChi2Sampler": without_converter(
        SkewedChi2Sampler(random_state=0), kind="positive"
    ),
    "RandomFeatures": without_converter(RandomFeatures(20, random_state=0)),
    "Backbone": without_converter(None),
    "ColumnTransformer": Step(
        ColumnTransformer(
            [
                (
                    "numbers",
                    make_pipeline(SimpleImputer(), StandardScaler()),
                    list("abcd"),
                ),
                ("words", OneHotEncoder(sparse_output=False), ["word"]),
            ]
        ),
        kind="table",
    ),
    "FeatureUnion": Step(
        FeatureUnion([("scaled", StandardScaler()), ("axes", PCA(2))])
    ),
}


def backbone():
    torch = pytest.importorskip("torch")
    skorch = pytest.importorskip("skorch")
    X, y = rows()
    net = skorch.NeuralNetClassifier(
        torch.nn.Sequential(
            torch.nn.Linear(4, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3)
        ),
        criterion=torch.nn.CrossEntropyLoss,
        max_epochs=1,
        train_split=None,
        verbose=0,
    )
    return Backbone(net.fit(X[ALL], np.unique(y[ALL], return_inverse=True)[1]))


def fitted_step(step: Step):
    # Layers of a net are made where they are needed: torch may be missing.
    transformer = backbone() if step.transformer is None else step.transformer
    front = PooledTransformer(transformer, bounds=step.bounds)
    X, _ = rows(step.kind)
    return front.fit(X[ALL], nodes=NODES).to_estimator(), X[NEW]


def transformed(fitted, X):
    Z = fitted.transform(X)
    return Z.toarray() if hasattr(Z, "toarray") else np.asarray(Z)


def test_the_page_has_every_step():
    assert written("steps-as-onnx") == {
        name: step.verdict for name, step in STEPS.items()
    }
    kinds = {name.partition("(")[0] for name in STEPS}
    assert {kind.__name__ for kind in KINDS} <= kinds


@pytest.mark.parametrize("name", [n for n in STEPS if STEPS[n].verdict == "yes"])
def test_steps_convert(name):
    fitted, X = fitted_step(STEPS[name])
    if STEPS[name].kind == "words":
        X = X.copy()
        X[:5, 0] = "violet"  # which no node has
    expected = transformed(fitted, X)
    (Z,) = converted(fitted, X)
    assert Z.shape == expected.shape and len(Z) == N_ROWS
    np.testing.assert_allclose(Z, expected, rtol=1e-4, atol=1e-3)


@of_this_version
@pytest.mark.parametrize("name", [n for n in STEPS if STEPS[n].verdict == "no"])
def test_steps_without_a_converter_are_errors(name):
    fitted, X = fitted_step(STEPS[name])
    with pytest.raises(Exception, match=STEPS[name].words):
        converted(fitted, X)


@of_this_version
@pytest.mark.parametrize("name", [n for n in STEPS if STEPS[n].verdict == "wrong"])
def test_steps_that_convert_to_something_else(name):
    fitted, X = fitted_step(STEPS[name])
    expected = transformed(fitted, X)
    try:
        (Z,) = converted(fitted, X)
    except onnxruntime.capi.onnxruntime_pybind11_state.Fail:
        return  # the file is refused, as that of some categories is
    assert Z.shape != expected.shape or np.abs(Z - expected).max() > 0.1


# Steps whose files take rows of float32 alone.
OF_FLOAT32 = {
    "PowerTransformer",
    'PowerTransformer(method="box-cox")',
    "SimpleImputer",
    'KBinsDiscretizer(encode="onehot-dense")',
    'KBinsDiscretizer(encode="ordinal")',
}
OF_NUMBERS = [
    name
    for name, step in STEPS.items()
    if step.verdict == "yes" and step.kind not in ("words", "table")
]


@of_this_version
@pytest.mark.parametrize("name", OF_NUMBERS)
def test_steps_of_float64_rows(name):
    fitted, X = fitted_step(STEPS[name])
    X = X.astype(np.float64)
    if name in OF_FLOAT32:
        with pytest.raises(
            Exception, match=r"DoubleTensorType|tensor\(double\)|Imputer"
        ):
            converted(fitted, X)
    else:
        np.testing.assert_allclose(converted(fitted, X)[0], fitted.transform(X), 1e-5)


@pytest.mark.parametrize("strategy", ["median", "most_frequent", "constant"])
def test_imputers_of_other_strategies_convert(strategy):
    step = Step(SimpleImputer(strategy=strategy), kind="missing", bounds=WIDE)
    fitted, X = fitted_step(step)
    np.testing.assert_array_equal(converted(fitted, X)[0], fitted.transform(X))


@of_this_version
def test_imputers_of_texts_do_not_convert():
    X, _ = rows("words")
    X = X.copy()
    X[::9, 0] = np.nan
    front = PooledTransformer(SimpleImputer(strategy="most_frequent"))
    fitted = front.fit(X[ALL], nodes=NODES).to_estimator()
    with pytest.raises(NotImplementedError, match="missing values are string"):
        converted(fitted, X[NEW])


@pytest.mark.filterwarnings("ignore:PowerTransformer finds no likeliest power")
@pytest.mark.parametrize(
    ("kind", "n_classes"),
    [("numbers", 2), ("missing", 3), ("large", 3), ("positive", 2)],
)
@pytest.mark.parametrize("method", ["box-cox", "yeo-johnson"])
def test_power_fronts_predict_the_same(method, kind, n_classes):
    X, y = rows(kind, n_classes)
    if method == "box-cox" and kind in ("numbers", "missing"):
        X = np.abs(X) + np.float32(0.01)
    power = PowerTransformer(method=method)
    front = make_pipeline(SimpleImputer(), power) if kind == "missing" else power
    agg = GEMSLogisticAggregator(LogisticRegression(), front=front, random_state=0)
    agg.fit(X[ALL], y[ALL], nodes=NODES)
    assert_converts(agg.to_estimator(), X[NEW], atol=5e-3)


# Lognormal columns, whose likeliest powers are next to 0: labels were those of a third
# of rows before powers were held off it.
@pytest.mark.parametrize("method", ["box-cox", "yeo-johnson"])
def test_columns_whose_likeliest_power_is_0_predict_the_same(method):
    X, y = rows()
    X = np.exp(np.sort(X[ALL], axis=0) - X[ALL].mean(axis=0))
    X = np.vstack([X, 1.0 / X[::-1]]).astype(np.float32)  # symmetric about 1
    y = np.arange(len(X)) % 2
    front = PowerTransformer(method=method)
    agg = PooledAggregator(pooled=GaussianNB(), front=front)
    agg.fit(X, y, nodes=np.arange(len(X)) % 3)
    plain = agg.to_estimator()
    if method == "box-cox":
        powers = plain[0].lambdas_
        assert (np.abs(powers) < 0.01).all() and (powers != 0).all()
    assert_converts(plain, X[::3])


def members(classifier, n_classes):
    X, y = rows("numbers", n_classes)
    return [
        (str(k), fit_once(classifier, X[ALL][NODES == k], y[ALL][NODES == k]))
        for k in range(2)
    ]


def linear(n_classes):
    return members(LogisticRegression(), n_classes)


def networks(n_classes, activation="relu"):
    net = MLPClassifier(
        8,
        activation=activation,
        solver="lbfgs",
        alpha=0.1,
        max_iter=200,
        random_state=0,
    )
    return members(net, n_classes)


def forests(n_classes, sizes=(20, 20), kind=RandomForestClassifier):
    X, y = rows("numbers", n_classes)
    return [
        kind(size, random_state=0, max_depth=4).fit(
            X[ALL][NODES == k], y[ALL][NODES == k]
        )
        for k, size in enumerate(sizes)
    ]


def aggregated(aggregator, n_classes):
    """Plain estimators of aggregates of linear models or of networks."""
    name, _, activation = aggregator.partition(", ")
    local = networks(n_classes, activation) if activation else linear(n_classes)
    return fit(getattr(skgems, name)(local).set_params(random_state=0), n_classes)


ACTIVATIONS = ("relu", "tanh", "logistic", "identity")
# Aggregators of linear models, and, with an activation, of networks.
AGGREGATORS = [
    "GEMSLogisticAggregator",
    "ModelAveragingAggregator",
    "DistillationAggregator",
    *(f"GEMSMLPAggregator, {activation}" for activation in ACTIVATIONS),
    *(f"PFNMAggregator, {activation}" for activation in ACTIVATIONS),
    "ModelAveragingAggregator, relu",
]
OF_COUNTS = {MultinomialNB, ComplementNB, BernoulliNB, CategoricalNB}
CLASSIFIERS = {
    "RidgeClassifier": RidgeClassifier(),
    "LinearDiscriminantAnalysis": LinearDiscriminantAnalysis(),
    "QuadraticDiscriminantAnalysis": QuadraticDiscriminantAnalysis(reg_param=0.01),
    "GaussianNB": GaussianNB(),
    "MultinomialNB": MultinomialNB(),
    "ComplementNB": ComplementNB(),
    "BernoulliNB": BernoulliNB(binarize=2.5),
    "CategoricalNB": CategoricalNB(min_categories=10),
    "NearestCentroid": NearestCentroid(),
}


def pooled(name, n_classes):
    classifier = CLASSIFIERS[name]
    kind = "counts" if type(classifier) in OF_COUNTS else "numbers"
    plain = fit(PooledAggregator(pooled=classifier), n_classes, kind)
    return plain, rows(kind, n_classes)[0][NEW]


def test_the_page_has_every_classifier():
    verdicts = {
        **dict.fromkeys(["LogisticRegression", "MLPClassifier"], "yes"),
        **dict.fromkeys(CLASSIFIERS, "yes"),
        "LinearDiscriminantAnalysis": "of three classes and more",
        "NearestCentroid": "no",
        **dict.fromkeys(map(name_of, GROWN), "yes"),
        'EnsembleAggregator(combine="stack")': "no",
    }
    assert written("classifiers-as-onnx") == verdicts
    assert {kind.__name__ for kind in POOLED} == set(CLASSIFIERS)
    # All that are public and make one.
    exporting = {
        name
        for name in skgems.__all__
        if hasattr(getattr(skgems, name), "to_estimator")
    }
    tested = {name.partition(",")[0] for name in AGGREGATORS}
    assert exporting - tested == {
        "EnsembleAggregator",
        "PooledAggregator",
        "PooledTransformer",
    }


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("aggregator", "n_classes"),
    [
        *((aggregator, 3) for aggregator in AGGREGATORS),
        # Models of two classes have one output, whatever method made a network.
        ("GEMSLogisticAggregator", 2),
        ("ModelAveragingAggregator", 2),
        ("DistillationAggregator", 2),
        *((f"PFNMAggregator, {activation}", 2) for activation in ACTIVATIONS),
    ],
)
def test_aggregates_convert(aggregator, n_classes):
    plain = aggregated(aggregator, n_classes)
    assert type(plain).__name__ in ("LogisticRegression", "MLPClassifier")
    assert_converts(plain, rows("numbers", n_classes)[0][NEW])


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", [n for n in CLASSIFIERS if n != "NearestCentroid"])
def test_classifiers_of_sums_convert(name, n_classes):
    plain, X = pooled(name, n_classes)
    if (name, n_classes) != ("LinearDiscriminantAnalysis", 2):
        assert_converts(plain, X)


@of_this_version
def test_a_discriminant_of_two_classes_is_too_sure():
    plain, X = pooled("LinearDiscriminantAnalysis", 2)
    expected, converted = Predictions.of_both(plain, X)
    np.testing.assert_array_equal(converted.labels, expected.labels)
    assert np.abs(converted.scores - expected.scores).max() > 0.05
    # Of decision values one makes probabilities oneself, as the page says.
    model = skl2onnx.to_onnx(
        plain, X[:1], options={"zipmap": False, "raw_scores": True}
    )
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    _, scores = session.run(None, {session.get_inputs()[0].name: X})
    second = 1 / (1 + np.exp(-scores[:, 1]))
    np.testing.assert_allclose(second, expected.scores[:, 1], atol=1e-5)


@of_this_version
def test_centroids_and_stacks_have_no_converter():
    X, _ = rows()
    stack = fit(EnsembleAggregator(linear(3), combine="stack", random_state=0), 3)
    for plain in (pooled("NearestCentroid", 3)[0], stack):
        with pytest.raises(Exception, match="Unable to find a shape calculator"):
            converted(plain, X[NEW])


@pytest.mark.parametrize("kind", [RandomForestClassifier, ExtraTreesClassifier])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_forests_of_equally_many_trees_convert(n_classes, kind):
    X, _ = rows("numbers", n_classes)
    forest = merge_forests(forests(n_classes, kind=kind))
    expected, converted = Predictions.of_both(forest, X[NEW])
    np.testing.assert_allclose(converted.scores, expected.scores, atol=1e-5)
    # Two classes may be equally likely but for rounding.
    first, second = np.sort(expected.scores, axis=1)[:, [-1, -2]].T
    sure = first - second > 1e-4
    assert sure.mean() > 0.9
    np.testing.assert_array_equal(converted.labels[sure], expected.labels[sure])


def test_forests_of_unequal_numbers_of_trees_are_others():
    forest = merge_forests(forests(3, sizes=(5, 40)))
    expected, converted = Predictions.of_both(forest, rows()[0][NEW])
    assert np.abs(converted.scores - expected.scores).max() > 0.02


# onnx gives protobuf the booleans that scikit-learn's boosting holds.
@pytest.mark.filterwarnings("ignore:.*Expected an int, got a boolean")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:PowerTransformer finds no likeliest power")
@pytest.mark.parametrize(
    ("kind", "n_classes"),
    [("numbers", 3), ("positive", 2), ("missing", 3), ("table", 2)],
)
def test_candidates_of_combine_convert(kind, n_classes):
    X, y = rows(kind, n_classes)
    locals_of = {"numbers": linear, "positive": networks}
    local = locals_of[kind](n_classes) if kind in locals_of else None
    names = set()
    for candidate in candidates(
        X[ALL],
        names=["0", "1"],
        members=local,
        front=None,
        columns=Columns.from_table(as_rows(X[ALL])),
        budget="fast",
        n_classes=len(np.unique(y)),
        random_state=0,
    ):
        if any(word in candidate.name for word in ("features", "vote", "stack")):
            continue  # the page says that these do not
        aggregate = candidate.whole.fit(X[ALL], y[ALL], NODES.astype(str))
        assert_converts(aggregate.to_estimator(), X[NEW])
        names.add(candidate.name)
    assert names >= {"linear", "linear, power transform", "QDA, power transform"}
    assert ("merged networks" in names) == (kind == "positive")


def test_large_numbers_that_combine_bends_keep_their_digits():
    # Times of so many milliseconds, whose powers are far below 0.
    rng = np.random.default_rng(0)
    y = np.arange(N_FIT) % 2
    X = 1e6 * (5.0 + 0.5 * (rng.normal(size=(N_FIT, 3)) + y[:, None])) ** (-2 / 3)
    transformed = [
        candidate
        for candidate in candidates(
            X,
            names=["0", "1"],
            members=None,
            front=None,
            columns=Columns.from_table(X),
            budget="small",
            n_classes=len(np.unique(y)),
            random_state=0,
        )
        if "power transform" in candidate.name
    ]
    assert [candidate.name for candidate in transformed] == [
        "linear, power transform",
        "QDA, power transform",
    ]
    for candidate in transformed:
        plain = candidate.whole.fit(X, y, NODES.astype(str)).to_estimator()
        assert (plain[0][-1].lambdas_ < -1.0).all()
        assert_converts(plain, X[:N_ROWS].astype(np.float32))


@pytest.mark.parametrize("labels", [[0, 1], [-3, 7], [False, True], [2.0, 5.0]])
def test_labels_come_along_as_whole_numbers(labels):
    X, y = rows("numbers", 2)
    y = np.array(labels)[np.unique(y, return_inverse=True)[1]]
    agg = GEMSLogisticAggregator(LogisticRegression(), random_state=0)
    plain = agg.fit(X[ALL], y[ALL], nodes=NODES).to_estimator()
    predicted = converted(plain, X[NEW])[0]
    assert predicted.dtype == np.int64
    np.testing.assert_array_equal(predicted, plain.predict(X[NEW]))


def test_a_front_of_a_frame_takes_columns_by_their_names():
    X, y = rows()
    frame = pd.DataFrame(X, columns=list("abcd"))
    agg = GEMSLogisticAggregator(front=StandardScaler(), random_state=0)
    plain = agg.fit(frame[ALL], y[ALL], nodes=NODES).to_estimator()
    assert_converts(plain, frame[NEW])
