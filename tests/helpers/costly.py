# SPDX-License-Identifier: BSD-3-Clause
"""Requests that ask for as much as a node's limits allow, and what they take."""

from __future__ import annotations

import json
import os
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from sklearn.decomposition import PCA
from sklearn.kernel_approximation import PolynomialCountSketch
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import PowerTransformer, SplineTransformer, StandardScaler

from skgems import GEMSLogisticAggregator, PooledTransformer
from skgems.asking import Message
from skgems.guard import Limits, reply_to
from skgems.spaces import Gram
from skgems.steps import RandomFeatures

LIMITS = Limits()
# Memory beside the rows that a request within the limits may take.
MOST_MEGABYTES = 1024.0
# Processor time that any such request may take, in seconds.
LEAST_SECONDS = 10.0
# The same as a multiple of a default fit of MLPClassifier, where that is longer.
TIMES_A_FIT = 10.0
# Epochs of that fit: the default max_iter.
EPOCHS = 200
# Epochs that are timed, to know what all of them take.
TIMED_EPOCHS = 4


@dataclass(frozen=True, kw_only=True, eq=False)
class Costly:
    """A request at a limit, and the node that it goes to."""

    limit: str
    request: Message = field(repr=False)
    estimator: object = field(repr=False)
    X: np.ndarray = field(repr=False)
    y: np.ndarray = field(repr=False)

    def reply(self, limits: Limits = LIMITS) -> Message:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return reply_to(
                self.request,
                self.estimator,
                self.X,
                self.y,
                name="lyon",
                limits=limits,
                radii=True,
            )


def separated_rows(n_rows: int, n_columns: int, n_classes: int = 2, *, rng) -> tuple:
    """Rows of classes that are apart, each class with as many rows as others."""
    y = np.arange(n_rows) % n_classes
    X = rng.standard_normal((n_rows, n_columns))
    X[:, 0] += y
    return X, y


def linear(n_columns: int, n_classes: int) -> LogisticRegression:
    """A fitted classifier without the time that it takes to fit one."""
    n_outputs = 1 if n_classes == 2 else n_classes
    classifier = LogisticRegression()
    classifier.classes_ = np.arange(n_classes)
    classifier.coef_ = np.zeros((n_outputs, n_columns))
    classifier.coef_[:, 0] = np.arange(1.0, n_outputs + 1.0)
    classifier.intercept_ = np.zeros(n_outputs)
    classifier.n_features_in_ = n_columns
    classifier.n_iter_ = np.array([1])
    return classifier


def network(X, y, n_units: int = 100) -> MLPClassifier:
    fitted = MLPClassifier((n_units,), max_iter=1, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fitted.fit(X[:200], y[:200])


def node_of(
    *,
    limit: str,
    request: Message,
    rows: tuple[np.ndarray, np.ndarray],
    estimator: object = None,
) -> Costly:
    """A request to a node that has rows and, unless told otherwise, a linear model."""
    X, y = rows
    if estimator is None:
        estimator = linear(X.shape[1], len(np.unique(y)))
    return Costly(limit=limit, request=request, estimator=estimator, X=X, y=y)


def layers(*widths: int) -> dict:
    """Hidden layers of some widths, the first that of the rows."""
    rng = np.random.default_rng(0)
    weights = [
        rng.standard_normal((n_in + 1, n_out)) / np.sqrt(n_in)
        for n_in, n_out in zip(widths, widths[1:], strict=False)
    ]
    return {"weights": weights, "activation": ["relu"] * len(weights)}


def moments(**fields) -> Message:
    """A request for moments with the fields of a default method, unless overridden."""
    defaults = {"kind": "auto", "n_components": 16, "min_cluster_size": 1}
    return Message.of("moments", **{**defaults, **fields})


def space(**fields) -> Message:
    """A request for a space with the fields of a default method, unless overridden."""
    defaults = {
        "model": "own",
        "geometry": Gram().as_settings(),
        "criterion": {"name": "log_loss"},
        "construction": "sampled",
        "n_directions": 500,
        "n_others": 0,
        "scale_logits": True,
        "seed": 0,
        "min_cluster_size": 1,
    }
    return Message.of("space", **{**defaults, **fields})


def grow(n_trees: int, n_features: int, n_classes: int = 3) -> Message:
    """A request for histograms of some features at the roots of trees."""
    roots = np.zeros(n_trees, dtype=np.int32)
    features = np.arange(n_features, dtype=np.int32)
    return Message.of(
        "grow",
        classes=list(range(n_classes)),
        n_trees=n_trees,
        feature=roots - 1,
        bin=roots,
        missing_left=roots > 0,
        left=roots - 1,
        leaves=np.arange(n_trees, dtype=np.int32),
        features=np.tile(features, (n_trees, 1)),
        bootstrap=True,
    )


def leaf_counts(n_trees: int, max_depth: int) -> Message:
    """A request for the leaves of trees that a seed draws."""
    return Message.of(
        "leaf_counts", n_trees=n_trees, max_depth=max_depth, random_state=0
    )


def evaluate(n_models: int, n_columns: int, n_classes: int, n_factors: int) -> Message:
    return Message.of(
        "evaluate",
        W=np.full((n_models, n_columns + 1, n_classes), 1e-3),
        labels=list(range(n_classes)),
        columns=np.arange(n_classes),
        factors=np.linspace(0.5, 2.0, n_factors),
        gradient=True,
        of="learning",
    )


def score(n_columns: int, n_classes: int) -> Message:
    return Message.of(
        "score",
        W=np.full((n_columns + 1, n_classes), 1e-3),
        labels=list(range(n_classes)),
        columns=np.arange(n_classes),
        criterion={"name": "log_loss"},
    )


def train(classifier: MLPClassifier, epochs: int) -> Message:
    return Message.of(
        "train",
        parameters=[*classifier.coefs_, *classifier.intercepts_],
        classes=classifier.classes_.tolist(),
        epochs=epochs,
        rates=None,
        seed=0,
    )


def retrain(widths: list[int], epochs: int) -> Message:
    pairs = list(zip(widths, widths[1:], strict=False))
    rng = np.random.default_rng(0)
    return Message.of(
        "retrain",
        coefs=[rng.standard_normal(pair) / np.sqrt(pair[0]) for pair in pairs],
        intercepts=[np.zeros(n_out) for _, n_out in pairs],
        activation=["relu"] * (len(pairs) - 1),
        labels=list(range(widths[-1])),
        epochs=epochs,
        seed=0,
    )


def neurons(n_inputs: int, n_units: int, n_directions: int) -> Message:
    return Message.of(
        "neurons",
        weights=np.random.default_rng(0).standard_normal((n_inputs + 1, n_units)),
        activation="relu",
        geometry=Gram(ridge=0.3).as_settings(),
        epsilon=0.5,
        random_state=0,
        n_directions=n_directions,
    )


def front(step, **settings) -> Message:
    """The first request for a front, before any node has replied."""
    content = PooledTransformer(step, **settings).as_front().as_content()
    return Message.of("front", front=content)


def features(n_components: int, *, passthrough: bool = True) -> RandomFeatures:
    return RandomFeatures(n_components, random_state=0, passthrough=passthrough)


def halves(n_methods: int) -> Message:
    aggregator = GEMSLogisticAggregator(random_state=0)
    content = dict(aggregator._agreed_terms.first_message().content)
    return Message.of("halves", asked={str(k): content for k in range(n_methods)})


def judge(n_models: int, n_columns: int, n_classes: int) -> Message:
    model = {
        "labels": list(range(n_classes)),
        "W": np.full((n_columns + 1, n_classes), 1e-3),
    }
    models = {str(k): {"first": model, "second": model} for k in range(n_models)}
    return Message.of("judge", models=models)


# ---- as large as the limits allow -------------------------------------------------

# By the limit that they are at, some requests of default size but for that.
Draw = Callable[[np.random.Generator], Costly]


def _methods(rng) -> Costly:
    return node_of(
        limit="methods",
        request=halves(LIMITS.methods),
        rows=separated_rows(4000, 30, 3, rng=rng),
    )


def _classes(rng) -> Costly:
    n_rays = LIMITS.ray_outputs // LIMITS.classes
    request = space(n_others=LIMITS.classes - 2, n_directions=n_rays)
    return node_of(
        limit="classes",
        request=request,
        rows=separated_rows(5000, 30, rng=rng),
    )


def _parameters(rng) -> Costly:
    n_columns = LIMITS.parameters // (7 * 1000) - 1
    return node_of(
        limit="parameters",
        request=evaluate(7, n_columns, 1000, 32),
        rows=separated_rows(300, n_columns, rng=rng),
    )


def _parameters_of_a_front(rng) -> Costly:
    n_columns = LIMITS.parameters // LIMITS.step_size
    step = features(LIMITS.step_size, passthrough=False)
    return node_of(
        limit="parameters",
        request=front(step),
        rows=separated_rows(300, n_columns, rng=rng),
    )


def _losses(rng) -> Costly:
    n_rows = int(rng.choice([1000, LIMITS.row_outputs // 1000]))
    return node_of(
        limit="losses",
        request=evaluate(7, 20, 1000, 32),
        rows=separated_rows(n_rows, 20, rng=rng),
    )


def _losses_of_halves(rng) -> Costly:
    n_models = LIMITS.losses // (15 * 1000)
    return node_of(
        limit="losses",
        request=judge(n_models, 20, 1000),
        rows=separated_rows(10_000, 20, rng=rng),
    )


def _row_outputs(rng) -> Costly:
    n_rows = LIMITS.row_outputs // 1000
    return node_of(
        limit="row_outputs",
        request=score(20, 1000),
        rows=separated_rows(n_rows, 20, rng=rng),
    )


def _row_outputs_of_a_space(rng) -> Costly:
    n_classes = 200
    request = space(
        n_others=n_classes - 2, n_directions=LIMITS.ray_outputs // n_classes
    )
    X, y = separated_rows(LIMITS.row_outputs // n_classes, 20, rng=rng)
    return node_of(
        limit="row_outputs",
        request=request,
        rows=(X, y),
    )


def _epochs(rng) -> Costly:
    X, y = separated_rows(int(rng.choice([60, 2000])), 20, rng=rng)
    classifier = network(X, y)
    return node_of(
        limit="epochs",
        request=train(classifier, LIMITS.epochs),
        rows=(X, y),
        estimator=classifier,
    )


def _epoch_units(rng) -> Costly:
    epochs = int(rng.choice([5, 200, LIMITS.epochs]))
    n_columns = int(rng.choice([4, 50]))
    X, y = separated_rows(1000, n_columns, rng=rng)
    n_units = LIMITS.epoch_units // epochs - 1
    request = retrain([n_columns, n_units, 2], epochs)
    return node_of(
        limit="epoch_units",
        request=request,
        rows=(X, y),
        estimator=network(X, y),
    )


def _hidden_numbers(rng) -> Costly:
    n_rows, n_columns = [(60_000, 200), (3000, 50), (20, 4)][rng.integers(3)]
    n_units = min(LIMITS.hidden_numbers // n_rows, LIMITS.moment_numbers // 60)
    hidden = layers(n_columns, n_units)
    request = moments(hidden=hidden, model=None, n_components=1)
    return node_of(
        limit="hidden_numbers",
        request=request,
        rows=separated_rows(n_rows, n_columns, rng=rng),
    )


def _clusters(rng) -> Costly:
    X, y = separated_rows(int(rng.choice([5000, 40_000])), 50, rng=rng)
    return node_of(
        limit="clusters",
        request=moments(n_components=LIMITS.clusters),
        rows=(X, y),
    )


def _cluster_numbers(rng) -> Costly:
    n_clusters = int(rng.choice([16, LIMITS.clusters]))
    X, y = separated_rows(LIMITS.cluster_numbers // n_clusters, 4, 1, rng=rng)
    # All of one class but for a few rows.
    y[:20] = 1
    return node_of(
        limit="cluster_numbers",
        request=moments(n_components=n_clusters),
        rows=(X, y),
    )


def _moment_numbers(rng) -> Costly:
    kind, n_classes = [("class", 10), ("shared", 2)][rng.integers(2)]
    n_matrices = n_classes if kind == "class" else 1
    n_columns = int(np.sqrt(LIMITS.moment_numbers / n_matrices)) - 40
    request = moments(kind=kind, n_components=1)
    return node_of(
        limit="moment_numbers",
        request=request,
        rows=separated_rows(600, n_columns, n_classes, rng=rng),
    )


def _moment_numbers_of_a_space(rng) -> Costly:
    n_columns = int(np.sqrt(LIMITS.moment_numbers)) - 10
    return node_of(
        limit="moment_numbers",
        request=space(),
        rows=separated_rows(400, n_columns, rng=rng),
    )


def _directions(rng) -> Costly:
    criterion = str(rng.choice(["accuracy", "log_loss"]))
    request = space(n_directions=LIMITS.directions, criterion={"name": criterion})
    return node_of(
        limit="directions",
        request=request,
        rows=separated_rows(6000, 50, 10, rng=rng),
    )


def _ray_units(rng) -> Costly:
    n_rays = int(rng.choice([500, LIMITS.directions]))
    X, y = separated_rows(2000, 50, rng=rng)
    n_units = LIMITS.ray_units // n_rays
    request = neurons(50, n_units, n_rays)
    # A node is asked about no more units than its own network has.
    return node_of(
        limit="ray_units",
        request=request,
        rows=(X, y),
        estimator=network(X, y, n_units),
    )


def _step_size(rng) -> Costly:
    step = features(LIMITS.step_size)
    return node_of(
        limit="step_size",
        request=front(step),
        rows=separated_rows(9900, 20, rng=rng),
    )


def _step_size_of_a_sketch(rng) -> Costly:
    step = PolynomialCountSketch(degree=LIMITS.step_size, n_components=50)
    step.set_params(random_state=0)
    return node_of(
        limit="step_size",
        request=front(step),
        rows=separated_rows(60, 20, rng=rng),
    )


def _front_columns(rng) -> Costly:
    n_steps = LIMITS.front_columns // LIMITS.step_size
    union = FeatureUnion(
        [
            (str(k), features(LIMITS.step_size, passthrough=False))
            for k in range(n_steps)
        ]
    )
    return node_of(
        limit="front_columns",
        request=front(union),
        rows=separated_rows(980, 20, rng=rng),
    )


def _power_columns(rng) -> Costly:
    n_columns = LIMITS.power_columns
    steps = make_pipeline(features(n_columns, passthrough=False), PowerTransformer())
    return node_of(
        limit="power_columns",
        request=front(steps),
        rows=separated_rows(2000, 20, rng=rng),
    )


def _front_numbers(rng) -> Costly:
    n_rows = int(rng.choice([60_000, 15_000]))
    n_columns = LIMITS.front_numbers // n_rows - 40
    return node_of(
        limit="front_numbers",
        request=front(features(n_columns)),
        rows=separated_rows(n_rows, 20, rng=rng),
    )


def _front_numbers_of_scaling(rng) -> Costly:
    # What waits looks at what came before.
    n_rows = 60_000
    n_columns = LIMITS.front_numbers // n_rows - 20
    steps = make_pipeline(features(n_columns), StandardScaler())
    return node_of(
        limit="front_numbers",
        request=front(steps),
        rows=separated_rows(n_rows, 20, rng=rng),
    )


def _front_numbers_of_a_pca(rng) -> Costly:
    n_columns = int(np.sqrt(LIMITS.front_numbers / 3)) - 200
    steps = make_pipeline(features(n_columns, passthrough=False), PCA())
    return node_of(
        limit="front_numbers",
        request=front(steps),
        rows=separated_rows(300, 20, rng=rng),
    )


def _front_numbers_of_splines(rng) -> Costly:
    n_knots = 1200
    step = SplineTransformer(n_knots=n_knots, knots="uniform")
    n_rows = LIMITS.front_numbers // (n_knots * 21) - 90
    X, y = separated_rows(n_rows, 20, rng=rng)
    return node_of(
        limit="front_numbers",
        request=front(step, bounds=(-9.0, 9.0)),
        rows=(X, y),
    )


DRAWS: list[Draw] = [
    _methods,
    _classes,
    _parameters,
    _parameters_of_a_front,
    _losses,
    _losses_of_halves,
    _row_outputs,
    _row_outputs_of_a_space,
    _epochs,
    _epoch_units,
    _hidden_numbers,
    _clusters,
    _cluster_numbers,
    _moment_numbers,
    _moment_numbers_of_a_space,
    _directions,
    _ray_units,
    _step_size,
    _step_size_of_a_sketch,
    _front_columns,
    _power_columns,
    _front_numbers,
    _front_numbers_of_scaling,
    _front_numbers_of_a_pca,
    _front_numbers_of_splines,
]


# ---- memory and time -----------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What a request took in a process of its own."""

    megabytes: float  # beside the rows and the request
    seconds: float  # of the processor
    outcome: str


def measure_cost(costly: Costly, *, most_gigabytes: int = 6) -> Cost:
    """Peak memory and processor time of a reply, in a forked process."""
    import resource  # not on Windows

    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # Python warns that a child lacks the threads of its parent. It needs none.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        os.close(reading)
        most = most_gigabytes << 30
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        peak_before = _peak(resource)
        start = time.process_time()
        try:
            outcome = f"answered, {costly.reply().n_bytes / 1e6:.1f} MB"
        except BaseException as failure:
            outcome = "".join(traceback.format_exception_only(failure))
        megabytes = _peak(resource) - peak_before
        seconds = time.process_time() - start
        cost = [megabytes, seconds, outcome[:200]]
        os.write(writing, json.dumps(cost).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        cost_as_json = pipe.read()
    os.waitpid(child, 0)
    # A child that the system kills writes nothing.
    megabytes, seconds, outcome = json.loads(cost_as_json or b'[0, 0, "killed"]')
    return Cost(megabytes=megabytes, seconds=seconds, outcome=outcome)


def _peak(resource) -> float:
    """The most megabytes that this process has had; the system counts kilobytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0


def seconds_allowed(costly: Costly) -> float:
    """Ten times a default fit on the rows, as its first epochs take."""
    start = time.process_time()
    fit = MLPClassifier(max_iter=TIMED_EPOCHS, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit.fit(costly.X, costly.y)
    a_fit = (time.process_time() - start) * EPOCHS / TIMED_EPOCHS
    return max(LEAST_SECONDS, TIMES_A_FIT * a_fit)
