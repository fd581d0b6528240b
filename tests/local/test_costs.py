# SPDX-License-Identifier: BSD-3-Clause
"""What a request may cost a node: limits, checked before anything is computed."""

from __future__ import annotations

import re
import sys
import tracemalloc
import warnings
from dataclasses import asdict, fields, replace

import numpy as np
import pytest
from helpers import costly
from scipy.sparse import csr_matrix
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.kernel_approximation import PolynomialCountSketch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    KBinsDiscretizer,
    OneHotEncoder,
    PowerTransformer,
    RobustScaler,
    SplineTransformer,
    StandardScaler,
)

import skgems
from skgems import GEMSLogisticAggregator, GEMSMLPAggregator, PooledTransformer
from skgems._cli._node import limits_of
from skgems.asking import Message
from skgems.gems import Moments
from skgems.guard import Agreement, LimitError, Limits, NotAgreedError, answer, reply_to
from skgems.local import NodeShape, check_cost, opened_front
from skgems.messages import sealed
from skgems.moments import class_moments
from skgems.spaces import Ellipsoid
from skgems.steps import Columns, DocumentFront, RandomFeatures, front_size
from skgems.steps._statistics import STATISTICS

pytestmark = pytest.mark.usefixtures("accepting_nodes")

N_ROWS, N_COLUMNS, N_CLASSES = 90, 4, 3
X, Y = costly.separated_rows(N_ROWS, N_COLUMNS, N_CLASSES, rng=np.random.default_rng(0))
NET = costly.network(X, Y, n_units=5)
HIDDEN = costly.layers(N_COLUMNS, 6, 7)


def bins(n_bins: int) -> Message:
    step = KBinsDiscretizer(n_bins=n_bins, encode="onehot-dense", strategy="uniform")
    return costly.front(step, bounds=(-9.0, 9.0))


def splines(n_knots: int, degree: int) -> Message:
    step = SplineTransformer(n_knots=n_knots, degree=degree, knots="uniform")
    return costly.front(step, bounds=(-9.0, 9.0))


def beside_others() -> Message:
    sums = class_moments(X, Y, kind="diagonal").as_content()
    content = costly.retrain([4, 6, 3], 3).content
    return Message.of("retrain", **content, columns=np.arange(3), others=sums)


FEATURES = costly.features(20)
# Limits of what depends on how many rows there are.
OF_ROWS = {
    "row_outputs",
    "hidden_numbers",
    "cluster_numbers",
    "moment_numbers",
    "front_numbers",
}
# By a name: the limit, a request, and how much of what is limited it asks for.
ASKED = {
    "methods": ("methods", costly.halves(2), 2),
    "classes of a space": ("classes", costly.space(n_others=4), 7),
    "classes of models": ("classes", costly.evaluate(2, 4, 5, 1), 5),
    "classes to judge": ("classes", costly.judge(2, 4, 6), 6),
    "classes to score": ("classes", costly.score(4, 5), 5),
    "classes to train": ("classes", costly.train(NET, 1), 3),
    "classes to retrain": ("classes", costly.retrain([4, 6, 5], 1), 5),
    "parameters of models": ("parameters", costly.evaluate(2, 4, 3, 1), 2 * 5 * 3 + 1),
    "parameters of layers": (
        "parameters",
        costly.moments(hidden=HIDDEN),
        5 * 6 + 7 * 7,
    ),
    "parameters of features": ("parameters", costly.front(FEATURES), 20 * 4),
    "losses": ("losses", costly.evaluate(2, 4, 3, 6), 2 * 3 * 6),
    "losses of halves": ("losses", costly.judge(2, 4, 3), 2 * 3 * 15),
    "row_outputs": ("row_outputs", costly.score(4, 5), 90 * 5),
    "row_outputs of a space": ("row_outputs", costly.space(n_others=4), 90 * 7),
    "epochs to train": ("epochs", costly.train(NET, 3), 3),
    "epochs to retrain": ("epochs", costly.retrain([4, 6, 3], 3), 3),
    # 4 x 6 + 6 + 6 x 3 + 3 parameters, of which a unit has 4 + 3 + 1.
    "epoch_units": ("epoch_units", costly.retrain([4, 6, 3], 3), 3 * 6),
    # With four rows drawn for each of the node's own.
    "epoch_units beside others": ("epoch_units", beside_others(), 5 * 3 * 6),
    "hidden layers": ("hidden_numbers", costly.moments(hidden=HIDDEN), 90 * 13),
    "units": ("hidden_numbers", costly.neurons(4, 5, 10), 90 * 5),
    "units to retrain": ("hidden_numbers", costly.retrain([4, 6, 3], 1), 90 * 6),
    "trees": ("hidden_numbers", costly.grow(3, 2), 90 * 3),
    # Of each feature there is a bin for missing values.
    "histograms": ("cluster_numbers", costly.grow(3, 2), 3 * 2 * 65 * 3),
    "drawn trees": ("hidden_numbers", costly.leaf_counts(3, 2), 90 * 3),
    "leaves": ("cluster_numbers", costly.leaf_counts(3, 8), 3 * 2**8 * 3),
    "clusters": ("clusters", costly.moments(n_components=3), 3),
    # No more clusters than the 30 rows of a class have, and one.
    "cluster_numbers": ("cluster_numbers", costly.moments(n_components=9), 30 * 4),
    "moments of classes": (
        "moment_numbers",
        costly.moments(kind="class", n_components=1),
        3 * 4**2 + 2 * 3 * 4 + 3 * 5 + 2 * 25 * 4,
    ),
    "moments and tails of a model": (
        "moment_numbers",
        costly.moments(kind="class", n_components=1, model="own"),
        3 * 4**2 + 2 * 3 * 4 + 3 * 5 + 2 * 25 * 4 + 8 * 4,
    ),
    "moments of layers": (
        "moment_numbers",
        costly.moments(kind="shared", n_components=1, hidden=HIDDEN),
        7**2 + 3 * 7 + 2 * 3 * 7 + 3 * 8 + 2 * 25 * 7,
    ),
    "gradients of classes": (
        "moment_numbers",
        costly.moments(kind="diagonal", n_components=2, class_weight="balanced"),
        3 * 4 + 2 * 6 * 4 + 3 * 3 * 5 + 2 * 25 * 4,
    ),
    "matrix of a space": ("moment_numbers", costly.space(), 4**2 + 3 * 5 * 3),
    "no matrix of a space": (
        "moment_numbers",
        costly.space(geometry=Ellipsoid().as_settings()),
        3 * 5 * 3,
    ),
    "matrix of units": ("moment_numbers", costly.neurons(4, 5, 10), 5**2),
    "directions": ("directions", costly.space(n_directions=30), 30),
    "directions of units": ("directions", costly.neurons(4, 5, 30), 30),
    "ray_outputs": ("ray_outputs", costly.space(n_directions=30, n_others=2), 30 * 5),
    "ray_units": ("ray_units", costly.neurons(4, 5, 30), 30 * 5),
    "components": ("step_size", costly.front(FEATURES), 20),
    "bins": ("step_size", bins(12), 12),
    "knots": ("step_size", splines(12, 3), 12),
    "degree": ("step_size", splines(3, 6), 6),
    "front_columns": (
        "front_columns",
        costly.front(make_pipeline(FEATURES, costly.features(5, passthrough=False))),
        24 + 5,
    ),
    "columns of bins": ("front_columns", bins(12), 4 * 12),
    "columns of splines": ("front_columns", splines(12, 3), 4 * 15),
    "columns beside": (
        "front_columns",
        costly.front(FeatureUnion([("a", FEATURES), ("b", costly.features(7))])),
        24 + 11,
    ),
    "columns of branches": (
        "front_columns",
        costly.front(
            ColumnTransformer(
                [("a", FEATURES, [0, 1]), ("b", "drop", [2])], remainder="passthrough"
            )
        ),
        22,
    ),
    "power_columns": (
        "power_columns",
        costly.front(make_pipeline(FEATURES, PowerTransformer())),
        24,
    ),
    "front_numbers": ("front_numbers", costly.front(FEATURES), 90 * 24 + 4 * 20),
    "numbers beside": (
        "front_numbers",
        costly.front(FeatureUnion([("a", FEATURES), ("b", costly.features(7))])),
        # Columns of both, and once more side by side.
        90 * 2 * (24 + 11) + 4 * 27,
    ),
    "numbers of a PCA": (
        "front_numbers",
        costly.front(make_pipeline(FEATURES, PCA(2))),
        90 * 2 * 24 + 4 * 20 + 3 * 24**2,
    ),
    "numbers of splines": (
        "front_numbers",
        splines(12, 3),
        # With those of one column more, and a matrix.
        90 * (4 * 15 + 15) + 15**2,
    ),
    "numbers of a sketch": (
        "front_numbers",
        costly.front(PolynomialCountSketch(degree=5, n_components=8, random_state=0)),
        90 * (8 + 3 * 5 * 8) + 4 * 8,
    ),
    "numbers of a grid": (
        "front_numbers",
        costly.front(RobustScaler(), bounds=(-9.0, 9.0)),
        2 * 1000 * 4,
    ),
}
# More products than the rule lets so few rows tell.
WITHHELD = {"numbers of a PCA"}


def reply(request, *, estimator=None, **options):
    is_of_net = request.task in ("train", "retrain", "neurons")
    model = NET if is_of_net else costly.linear(N_COLUMNS, N_CLASSES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return reply_to(request, model, X, Y, name="lyon", radii=True, **options)


def reply_to_asked(name, **limits):
    """What a node with these limits replies to one of `ASKED`."""
    disclosure = None if name in WITHHELD else "auto"
    return reply(ASKED[name][1], limits=Limits(**limits), disclosure=disclosure)


def test_every_limit_is_tried():
    limits_of_requests = {limit for limit, _, _ in ASKED.values()}
    # That of replies is tried where trees are grown, and that of noise with the ledger.
    tried_elsewhere = {"tree_bytes", "most_epsilon"}
    assert limits_of_requests == set(asdict(Limits())) - tried_elsewhere


@pytest.mark.parametrize("name", ASKED)
def test_what_is_at_a_limit_is_answered_and_one_more_is_refused(name):
    limit, request, amount = ASKED[name]
    assert reply_to_asked(name, **{limit: amount}).task == request.task
    with pytest.raises(LimitError) as failure:
        reply_to_asked(name, **{limit: amount - 1})
    text = str(failure.value)
    assert text.startswith("Node 'lyon': the ")
    assert f"request {request.task!r}" in text
    rounded_amount = amount
    if limit in OF_ROWS:  # two digits, which do not tell the number of rows
        unit = 10 ** max(len(str(amount)) - 2, 0)
        rounded_amount = -(-amount // unit) * unit
    words = Limits.__dataclass_fields__[limit].metadata["unit"]
    assert f"asks for {rounded_amount:,} {words}, more than the limit " in text
    assert f" {limit}={amount - 1:,} of this node" in text
    assert f"limits=Limits({limit}={rounded_amount})" in text
    assert f"--limit {limit}={rounded_amount}" in text


@pytest.mark.parametrize("name", [name for name in ASKED if ASKED[name][0] in OF_ROWS])
def test_what_an_error_advises_is_enough(name):
    limit, request, amount = ASKED[name]
    with pytest.raises(LimitError) as failure:
        reply_to_asked(name, **{limit: amount - 1})
    advised = int(re.search(rf"Limits\({limit}=(\d+)\)", str(failure.value))[1])
    assert advised >= amount
    assert reply_to_asked(name, **{limit: advised}).task == request.task


# ---- bombs, of which nothing is computed -------------------------------------------

BOMBS = {
    "rays times others": costly.space(n_directions=10**5, n_others=10**5),
    "epochs": costly.train(NET, 10**5),
    "epochs of layers": costly.retrain([4, 5, 3], 10**5),
    "wide union": costly.front(
        FeatureUnion([(str(k), costly.features(10**4)) for k in range(200)])
    ),
    "wide PCA": costly.front(
        make_pipeline(SplineTransformer(n_knots=10**4, knots="uniform"), PCA()),
        bounds=(-1.0, 1.0),
    ),
    "many components": costly.front(costly.features(10**9)),
    "many bins": costly.front(
        KBinsDiscretizer(n_bins=10**8, encode="ordinal", strategy="uniform"),
        bounds=(-1.0, 1.0),
    ),
    "high degree": costly.front(
        PolynomialCountSketch(degree=10**7, n_components=100, random_state=0)
    ),
    "clusters": costly.moments(n_components=10**6),
    "wide layer": costly.moments(
        hidden={
            "weights": [np.zeros((5, 12_000), dtype=np.float32)],
            "activation": ["relu"],
        },
        kind="class",
    ),
    "a layer many times": costly.moments(
        hidden={
            "weights": [np.zeros((5, 500)), *[np.zeros((501, 500))] * 120],
            "activation": ["relu"] * 121,
        }
    ),
    "methods": costly.halves(1000),
    "a summary of many clusters": GEMSLogisticAggregator(
        moments=Moments(n_components=10**6), random_state=0
    )
    ._method()
    .terms.first_message(),
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_are_refused_before_anything_is_allocated(name):
    request = BOMBS[name]
    # What is imported by the way, once, is no memory of the request's.
    reply_to(Message.of("counts"), NET, X, Y, name="lyon")
    tracemalloc.start()
    try:
        with pytest.raises(LimitError, match="^Node 'lyon': the "):
            reply(request)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    bytes_of_request = sum(array.nbytes for array in request.arrays.values())
    assert peak < 16e6 + bytes_of_request


def test_a_request_that_is_refused_is_not_counted():
    aggregator = GEMSLogisticAggregator(
        random_state=0, moments=Moments(n_components=300)
    )
    agreement = Agreement.of(aggregator, nodes=["lyon"])
    first_message = aggregator._agreed_terms.first_message()
    request = sealed(first_message, agreement)
    state = {}  # how often each task was answered
    with pytest.raises(LimitError, match="300 clusters of a class"):
        reply(request, agreement=agreement, state=state)
    assert not state
    joined = reply(
        request, limits=Limits(clusters=300), agreement=agreement, state=state
    )
    assert joined.task == "join"
    assert state


def test_what_is_not_agreed_is_refused_before_its_cost():
    agreement = Agreement.of(GEMSLogisticAggregator(random_state=0), nodes=["lyon"])
    request = sealed(costly.moments(n_components=10**6), agreement)
    with pytest.raises(NotAgreedError, match="the task 'moments' is not agreed"):
        reply(request, agreement=agreement, state={})


def test_a_limit_error_is_one_of_what_is_not_agreed():
    assert issubclass(LimitError, NotAgreedError)


# ---- doors ---------------------------------------------------------------------------


def test_limits_hold_for_files(tmp_path):
    path = tmp_path / "request.safetensors"
    costly.moments(n_components=7).save(path)
    model = costly.linear(N_COLUMNS, N_CLASSES)
    options = {"name": "lyon", "to": tmp_path / "reply.safetensors"}
    with pytest.raises(
        ValueError, match=r"request\.safetensors: Node 'lyon': .*clusters=5"
    ):
        answer(path, model, X, Y, limits=Limits(clusters=5), **options)
    answer(path, model, X, Y, limits=Limits(clusters=7), **options)


def test_limits_of_the_command_line():
    assert limits_of([]) == Limits()
    words = ["epochs=5000", "clusters=7"]
    assert limits_of(words) == Limits(epochs=5000, clusters=7)
    for wrong in (
        "epoch=5",
        "epochs",
        "epochs=",
        "epochs=1e3",
        "epochs=٣x",
    ):
        with pytest.raises(ValueError, match="write NAME=NUMBER.*The limits are m"):
            limits_of([wrong])
    for wrong in ("epochs=0", "epochs=-1"):
        with pytest.raises(ValueError, match="epochs must be a whole number of 1 or"):
            limits_of([wrong])


def test_there_are_no_limits_in_one_process():
    front = PooledTransformer(RandomFeatures(10_001, random_state=0)).fit(X[:, :1])
    assert front.transform(X[:1, :1]).shape == (1, 10_002)


# ---- honest requests ---------------------------------------------------------------


def shape_of(n_rows: int, n_columns: int, n_classes: int = 10) -> NodeShape:
    """The shape of rows that need not be there."""
    return NodeShape(
        name="lyon",
        estimator=None,
        X=np.broadcast_to(0.0, (n_rows, n_columns)),
        is_sparse=False,
        n_rows=n_rows,
        n_columns=n_columns,
        n_classes=n_classes,
        n_rows_of_largest_class=-(-n_rows // n_classes),
        limits=Limits(),
    )


def first_of(aggregator, **more) -> Message:
    return aggregator._agreed_terms.first_message(**more)


def with_front(request: Message, step, n_columns: int) -> Message:
    content = PooledTransformer(step).as_front().as_content()
    columns = {"text": [False] * n_columns, "dtype": "float64"}
    return request.with_fields(front=content | {"columns": columns})


IMAGES = shape_of(60_000, 784)
HONEST = {
    "sums of 60,000 images": (IMAGES, first_of(GEMSLogisticAggregator(random_state=0))),
    "spaces of 60,000 images": (
        IMAGES,
        first_of(GEMSLogisticAggregator(epsilon=0.8, random_state=0), space=True),
    ),
    "ten million rows": (
        shape_of(10**7, 20, 3),
        first_of(GEMSLogisticAggregator(random_state=0)),
    ),
    "a thousand classes": (
        shape_of(15_000, 50, 1000),
        first_of(GEMSLogisticAggregator(random_state=0)),
    ),
    "units of 60,000 images": (IMAGES, costly.neurons(784, 1000, 500)),
    "layer of 60,000 images": (
        IMAGES,
        costly.moments(hidden=costly.layers(784, 1000)),
    ),
    "training of 60,000 images": (IMAGES, costly.retrain([784, 1000, 10], 200)),
    "training of deep layers": (IMAGES, costly.retrain([784, 500, 500, 10], 100)),
    "models of 60,000 images": (IMAGES, costly.evaluate(7, 784, 10, 17)),
    "scaling of 60,000 images": (IMAGES, costly.front(StandardScaler())),
    "components of 60,000 images": (
        IMAGES,
        costly.front(make_pipeline(StandardScaler(), PCA(50))),
    ),
    "powers of 60,000 images": (IMAGES, costly.front(PowerTransformer())),
    "10,000 random features": (
        shape_of(9000, 100),
        costly.front(costly.features(10_000)),
    ),
    "sums of 10,000 random features": (
        shape_of(9000, 100),
        with_front(
            first_of(GEMSLogisticAggregator(random_state=0)),
            costly.features(10_000),
            100,
        ),
    ),
    "categories": (shape_of(10**6, 30), costly.front(OneHotEncoder())),
}


def test_gradients_are_counted_by_class_where_classes_have_weights():
    request = costly.moments(kind="diagonal", n_components=1, class_weight="members")
    # Variances, means and their variances, medians; and the gradients.
    n_of_moments = 3 * 4 + 2 * 3 * 4 + 2 * 25 * 4
    n_of_gradient = 3 * 5
    for weight, n_gradients in ((None, 1), ({0: 2.0}, 3)):
        classifier = LogisticRegression(class_weight=weight).fit(X, Y)
        n_numbers = n_of_moments + n_gradients * n_of_gradient
        for most, is_refused in ((n_numbers, False), (n_numbers - 1, True)):
            limits = Limits(moment_numbers=most)
            shape = NodeShape.from_rows(classifier, X, Y, name="lyon", limits=limits)
            if is_refused:
                with pytest.raises(LimitError, match="numbers in sums"):
                    check_cost(request, shape)
            else:
                check_cost(request, shape)


def test_sums_of_sparse_rows_and_documents_take_no_medians():
    request = costly.moments(kind="diagonal", n_components=1)
    n_numbers = 3 * 4 + 2 * 3 * 4 + 3 * 5
    limits = Limits(moment_numbers=n_numbers)
    shape = NodeShape.from_rows(None, csr_matrix(X), Y, name="lyon", limits=limits)
    check_cost(request, shape)
    with pytest.raises(LimitError, match="numbers in sums"):
        check_cost(request, NodeShape.from_rows(None, X, Y, name="lyon", limits=limits))
    vectorizer = HashingVectorizer(n_features=4)
    front = {
        "tree": DocumentFront.from_vectorizer(vectorizer).agreed["tree"],
        "bounds": None,
    }
    texts = np.array(["fever"] * N_ROWS, dtype=object)
    join = first_of(
        GEMSLogisticAggregator(
            moments=Moments("diagonal", n_components=1),
        )
    )
    join = join.with_fields(front=front)
    n_numbers += 8 * 4  # to find tails by
    for most, is_refused in ((n_numbers, False), (n_numbers - 1, True)):
        limits = Limits(moment_numbers=most)
        shape = NodeShape.from_rows(None, texts, Y, name="lyon", limits=limits)
        if is_refused:
            with pytest.raises(LimitError, match="numbers in sums"):
                check_cost(join, shape)
        else:
            check_cost(join, shape)


@pytest.mark.parametrize("box", [False, True])
@pytest.mark.parametrize("order", ["C", "F"])
def test_sums_of_some_columns_at_a_time_are_those_of_all(box, order, monkeypatch):
    rng = np.random.default_rng(0)
    table = np.array(rng.exponential(size=(50, 11)) + 1e-3, order=order)
    if not box:
        table[rng.random(table.shape) < 0.1] = np.nan
    names = ["columns", "box_powers" if box else "powers"]
    of_all_columns = [STATISTICS[name].tell(table, 5) for name in names]
    monkeypatch.setattr("skgems.steps._statistics._NUMBERS_AT_ONCE", 1)
    for name, expected in zip(names, of_all_columns, strict=True):
        statistics = STATISTICS[name].tell(table, 5)
        assert set(statistics) == set(expected)
        for field, array in expected.items():
            np.testing.assert_array_equal(statistics[field], array, field)


@pytest.mark.parametrize("name", HONEST)
def test_honest_requests_are_within_the_limits(name):
    shape, request = HONEST[name]
    check_cost(request, shape)


@pytest.mark.parametrize(
    "aggregator",
    [
        GEMSLogisticAggregator(n_rounds=3, epsilon=0.3, random_state=0),
        GEMSMLPAggregator(n_rounds=2, random_state=0),
        skgems.ModelAveragingAggregator(n_rounds=2, random_state=0),
        skgems.PFNMAggregator(n_rounds=2, random_state=0),
    ],
    ids=lambda aggregator: type(aggregator).__name__,
)
def test_whole_exchanges_are_within_the_limits(aggregator, tmp_path):
    is_linear = isinstance(aggregator, GEMSLogisticAggregator)
    classifier = LogisticRegression().fit(X, Y) if is_linear else NET
    owners = np.arange(N_ROWS) // N_CLASSES % 2
    exchange = skgems.Exchange(tmp_path, aggregator, nodes=["0", "1"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        while (fitted := exchange.step()) is None:
            for name, request in exchange.waiting_for.items():
                rows = owners == int(name)
                skgems.answer(
                    request, classifier, X[rows], Y[rows], name=name, radii=True
                )
    assert fitted.predict(X).shape == (N_ROWS,)


# ---- sizes of fronts ---------------------------------------------------------------


@pytest.mark.parametrize(
    "step",
    [
        StandardScaler(),
        costly.features(9),
        costly.features(9, passthrough=False),
        PCA(3),
        make_pipeline(StandardScaler(), PCA(2), costly.features(6)),
        OneHotEncoder(),
        OneHotEncoder(sparse_output=False),
        KBinsDiscretizer(4, encode="onehot", strategy="uniform"),
        SplineTransformer(5, degree=2, knots="uniform"),
        FeatureUnion([("a", StandardScaler()), ("b", PCA(2))]),
        ColumnTransformer(
            [
                ("a", make_pipeline(StandardScaler(), PCA(1)), [0, 2]),
                ("b", "drop", [1]),
            ],
            remainder="passthrough",
        ),
    ],
    ids=lambda step: type(step).__name__,
)
def test_no_front_makes_more_columns_than_its_tree_says(step):
    table = np.round(X[:40])
    transformer = PooledTransformer(step, bounds=(-9.0, 9.0)).fit(table)
    front = transformer.as_front()
    opened = opened_front(front.as_content())
    size = front_size(opened, Columns.from_table(table))
    n_columns = transformer.transform(table).shape[1]
    assert n_columns <= size.n_columns_out
    # Splines of the ends of a column may be left out.
    assert size.n_columns_out <= n_columns + N_COLUMNS
    # What a step of an unfitted front waits for is not counted.
    size_of_unfitted = front_size(replace(opened, states={}), Columns.from_table(table))
    assert size_of_unfitted.n_columns <= size.n_columns


def test_every_limit_is_drawn_by_the_fuzzer():
    limits_drawn = {
        draw.__name__.strip("_").partition("_of_")[0] for draw in costly.DRAWS
    }
    not_drawn = {limit.name for limit in fields(Limits)} - limits_drawn
    # That a space has at most so many rays and classes together is at both limits. That
    # on bytes about trees is of replies, which others bound, and that on noise too.
    assert not_drawn <= {"ray_outputs", "tree_bytes", "most_epsilon"}


@pytest.mark.skipif(sys.platform != "linux", reason="memory is counted otherwise")
@pytest.mark.parametrize("name", ["_methods", "_clusters", "_ray_units"])
def test_requests_at_the_limits_take_a_gigabyte_at_most(name):
    request_at_limit = getattr(costly, name)(np.random.default_rng(1))
    cost = costly.measure_cost(request_at_limit)
    assert cost.outcome.startswith("answered")
    assert 0 <= cost.megabytes < costly.MOST_MEGABYTES
