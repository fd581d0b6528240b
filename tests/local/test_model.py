# SPDX-License-Identifier: BSD-3-Clause
"""Going on training from given parameters, for every kind that can."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.fitted import call_once
from helpers.labels import assert_same_labels
from scipy.special import softmax
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.dummy import DummyClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import (
    LogisticRegression,
    LogisticRegressionCV,
    RidgeClassifier,
    SGDClassifier,
)
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgems.local import local_model

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def get_parameters(model):
    return local_model(model).parameters()


def with_parameters(model, parameters):
    return local_model(model).with_parameters(parameters).classifier


def class_axes(model):
    return local_model(model).class_axes()


def train(model, X, y, **options):
    return local_model(model).train(X, y, **options).classifier


def widen(model, classes):
    return local_model(model).widened(classes).classifier


def initialize(model, X, y, **options):
    return local_model(model).start(X, y, **options)


X, y = make_blobs(120, n_features=64, centers=3, cluster_std=4.0, random_state=0)
X = X.astype(np.float32) / 10


def mlp(**options):
    """An unfitted network of five hidden units, with these parameters set."""
    model = MLPClassifier((5,), solver="sgd", max_iter=3, alpha=0.0, random_state=0)
    return model.set_params(**options)


def dense_net(**options):
    from helpers.nets import make_net

    return make_net(**options)


def convolutional_net():
    from helpers.nets import Convolutional, make_net

    return make_net(Convolutional)


KINDS = {
    "mlp": mlp,
    "adam": lambda: mlp(solver="adam"),
    "sgd": lambda: SGDClassifier(loss="log_loss", random_state=0, max_iter=3),
    "averaged": lambda: SGDClassifier(
        loss="log_loss", average=True, random_state=0, max_iter=3
    ),
    "logistic": lambda: LogisticRegression(max_iter=3),
    "no intercept": lambda: LogisticRegression(max_iter=3, fit_intercept=False),
    "dense": dense_net,
    "convolutional": convolutional_net,
}
NETS = ("dense", "convolutional")


def kinds_but(*left_out):
    return pytest.mark.parametrize("kind", [k for k in KINDS if k not in left_out])


every_kind = kinds_but()


@call_once
def fitted(kind, n_classes=3):
    if kind in NETS:
        torch = pytest.importorskip("torch")
        torch.manual_seed(0)
    rows = y < n_classes
    return KINDS[kind]().fit(X[rows], y[rows])


def assert_equal_arrays(arrays, expected, **tolerance):
    for array, expected_array in zip(arrays, expected, strict=True):
        np.testing.assert_allclose(array, expected_array, **tolerance)


# ---- parameters ---------------------------------------------------------------


@every_kind
@pytest.mark.parametrize("n_classes", [2, 3])
def test_parameters_round_trip(kind, n_classes):
    model = fitted(kind, n_classes)
    parameters = get_parameters(model)
    before = [array.copy() for array in parameters]
    copy = with_parameters(model, parameters)
    assert copy is not model and type(copy) is type(model)
    assert_same_labels(copy, model, X)
    # Nothing is shared.
    for array in parameters:
        array[...] = 7
    assert_equal_arrays(get_parameters(copy), before)
    assert_equal_arrays(get_parameters(model), before)
    assert_equal_arrays(get_parameters(with_parameters(model, parameters)), parameters)


@every_kind
def test_parameters_that_do_not_fit_are_refused(kind):
    model = fitted(kind)
    parameters = get_parameters(model)
    with pytest.raises(ValueError, match="has parameters of shapes"):
        with_parameters(model, parameters[:-1])
    parameters[0] = parameters[0][..., :-1]
    with pytest.raises(ValueError, match="has parameters of shapes"):
        with_parameters(model, parameters)


@every_kind
@pytest.mark.parametrize("n_classes", [2, 3])
def test_axes_of_classes_are_those_of_the_outputs(kind, n_classes):
    model = fitted(kind, n_classes)
    parameters = get_parameters(model)
    axes = class_axes(model)
    # Nets have all outputs, scikit-learn has one for two classes.
    n_outputs = 1 if n_classes == 2 and kind not in NETS else 3
    assert [parameters[i].shape[axis] for i, axis in axes.items()] == [n_outputs] * 2
    # To add to them is to add to the logits.
    bias = min(axes, key=lambda i: parameters[i].ndim)
    parameters[bias][-1] += 1e6
    with_larger_bias = with_parameters(model, parameters)
    assert set(with_larger_bias.predict(X)) == {
        model.classes_[-1] if n_outputs < 3 else 2
    }


@every_kind
def test_wrappers_are_taken_off(kind):
    model = fitted(kind)
    frozen = FrozenEstimator(model)
    assert_equal_arrays(get_parameters(frozen), get_parameters(model))
    assert type(with_parameters(frozen, get_parameters(model))) is type(model)
    assert type(train(frozen, X, y, epochs=1, random_state=0)) is type(model)


def test_the_best_of_a_search_is_taken():
    search = GridSearchCV(mlp(), {"alpha": [0.0, 1.0]}, cv=2).fit(X, y)
    assert_equal_arrays(get_parameters(search), get_parameters(search.best_estimator_))


# ---- training -----------------------------------------------------------------


@every_kind
def test_training_alters_a_copy_and_repeats(kind):
    model = fitted(kind)
    before = get_parameters(model)
    once, again = (train(model, X, y, epochs=2, random_state=5) for _ in range(2))
    assert_equal_arrays(get_parameters(once), get_parameters(again), rtol=0)
    assert_equal_arrays(get_parameters(model), before, rtol=0)
    changes = [
        np.abs(a - b).max()
        for a, b in zip(get_parameters(once), before, strict=True)
        if a.dtype.kind == "f"
    ]
    assert max(changes) > 1e-4
    # The settings that training needs are not those of the result.
    settings = once.get_params(deep=False)
    for name, value in model.get_params(deep=False).items():
        if isinstance(value, (str, float, int, type(None))):
            assert settings[name] == value, name
    still = train(model, X, y, epochs=0)
    assert_equal_arrays(get_parameters(still), before, rtol=0)


@kinds_but("logistic", "no intercept")  # whose solver takes all rows at once
def test_the_seed_is_for_the_order_of_rows(kind):
    model = fitted(kind)
    one, other = (
        train(model, X, y, epochs=1, learning_rate=0.05, random_state=seed)
        for seed in (0, 1)
    )
    change = np.abs(get_parameters(one)[0] - get_parameters(other)[0]).max()
    assert 0 < change


@every_kind
def test_training_starts_at_the_given_parameters(kind):
    model = fitted(kind)
    start = [
        np.full_like(a, 0.25) if a.dtype.kind == "f" else a
        for a in get_parameters(model)
    ]
    model_at_start = with_parameters(model, start)
    expected = train(model_at_start, X, y, epochs=1, random_state=0)
    trained = train(model, X, y, epochs=1, parameters=start, random_state=0)
    assert_equal_arrays(get_parameters(trained), get_parameters(expected), rtol=1e-6)
    # By a rate of nearly nothing they stay; a solver without a rate moves.
    if kind in ("mlp", "dense", "sgd"):
        still = train(
            model, X, y, epochs=2, parameters=start, learning_rate=1e-9, random_state=0
        )
        assert_equal_arrays(get_parameters(still), start, atol=1e-6)


def full_batch(kind):
    """A classifier whose epoch is one step down the gradient of all rows."""
    if kind == "dense":
        pytest.importorskip("skorch")
        return dense_net(batch_size=-1, iterator_train__shuffle=False)
    return mlp(batch_size=len(X), momentum=0.0, shuffle=False)


@pytest.mark.parametrize("kind", ["mlp", "dense"])
def test_a_step_is_the_rate_times_the_gradient(kind):
    model = full_batch(kind).fit(X, y)
    start = get_parameters(model)

    def step(rate):
        trained = train(model, X, y, epochs=1, learning_rate=rate)
        return [a - b for a, b in zip(get_parameters(trained), start, strict=True)]

    for small, large in zip(step(0.01), step(0.04), strict=True):
        np.testing.assert_allclose(large, 4 * small, rtol=2e-3, atol=1e-6)
        assert np.abs(large).max() > 1e-5


@pytest.mark.parametrize("kind", ["mlp", "dense", "linear"])
def test_each_epoch_has_its_rate(kind):
    if kind == "linear":
        # Rates so small that there is still much to learn.
        rates = {"learning_rate": "constant", "eta0": 1e-4, "shuffle": False}
        model = SGDClassifier(loss="log_loss", max_iter=2, **rates).fit(X, y)
    else:
        model = full_batch(kind).fit(X, y)
    rates = [0.5, 0.002]
    at_once = train(model, X, y, epochs=2, learning_rate=rates)
    in_turn = model
    for rate in rates:
        in_turn = train(in_turn, X, y, epochs=1, learning_rate=rate)
    assert_equal_arrays(get_parameters(at_once), get_parameters(in_turn), atol=1e-6)
    swapped = train(model, X, y, epochs=2, learning_rate=rates[::-1])
    gaps = zip(get_parameters(swapped), get_parameters(at_once), strict=True)
    assert max(np.abs(a - b).max() for a, b in gaps) > 1e-5


def test_an_epoch_of_logistic_regression_is_an_iteration():
    model = LogisticRegression(max_iter=1).fit(X, y)
    trained = train(model, X, y, epochs=400)
    reference = LogisticRegression(max_iter=400).fit(X, y)
    np.testing.assert_allclose(
        trained.predict_proba(X), reference.predict_proba(X), atol=1e-2
    )
    assert trained.max_iter == 1
    nearer = [
        np.abs(m.coef_ - reference.coef_).max()
        for m in (train(model, X, y, epochs=n) for n in (1, 4, 16))
    ]
    assert nearer[0] > nearer[1] > nearer[2]


@pytest.mark.parametrize("classes_with_rows", [[0], [0, 2], [0, 1, 2]])
def test_logistic_regression_keeps_outputs_of_classes_without_rows(classes_with_rows):
    X4, y4 = make_blobs(200, n_features=6, centers=4, random_state=0)
    model = LogisticRegression(max_iter=500).fit(X4, y4)
    rows = np.isin(y4, classes_with_rows)
    trained = train(model, X4[rows], y4[rows], epochs=5)
    other_classes = np.setdiff1d(np.arange(4), classes_with_rows)
    np.testing.assert_array_equal(
        trained.coef_[other_classes], model.coef_[other_classes]
    )
    np.testing.assert_array_equal(trained.classes_, model.classes_)
    proba = softmax(X4 @ trained.coef_.T + trained.intercept_, axis=1)
    np.testing.assert_allclose(trained.predict_proba(X4), proba, atol=1e-12)
    assert trained.score(X4[rows], y4[rows]) > 0.9


def test_training_goes_on_where_partial_fit_would_not():
    model = SGDClassifier(
        loss="log_loss", early_stopping=True, class_weight="balanced", random_state=0
    )
    # A class of fewer rows than the others.
    rows = (y > 0) | (np.arange(len(y)) % 5 == 0)
    X0, y0 = X[rows], y[rows]
    model.fit(X0, y0)
    trained = train(model, X0, y0, epochs=2, learning_rate=0.1, random_state=0)
    counts = np.bincount(y0)
    by_hand = clone(model).set_params(
        early_stopping=False,
        class_weight=dict(enumerate(len(y0) / (3 * counts))),
    )
    by_hand.fit(X0, y0)
    by_hand = with_parameters(by_hand, get_parameters(model))
    expected = train(by_hand, X0, y0, epochs=2, learning_rate=0.1, random_state=0)
    assert_equal_arrays(get_parameters(trained), get_parameters(expected))
    assert trained.early_stopping and trained.class_weight == "balanced"
    # Fewer rows than early stopping, or a batch, can do with.
    early = mlp(early_stopping=True, batch_size=90).fit(X, y)
    assert train(early, X[:4], y[:4], epochs=2, random_state=0).early_stopping


def test_sparse_rows_and_other_dtypes_train_alike():
    from scipy import sparse

    for kind in ("mlp", "sgd", "logistic", "dense"):
        model = fitted(kind)
        dense = train(model, X, y, epochs=1, random_state=0)
        for rows in (sparse.csr_matrix(X), X.astype(np.float64)):
            other = train(model, rows, y, epochs=1, random_state=0)
            assert_equal_arrays(
                get_parameters(other), get_parameters(dense), atol=1e-4, rtol=1e-3
            )


# ---- starting, and more classes -----------------------------------------------


every_start = pytest.mark.parametrize(
    "labels", [[0, 1, 2], ["ant", "bee", "cat"], [5, 9]]
)


def unfitted_model(kind, n_classes):
    model = KINDS[kind]()
    if kind in NETS:
        model.set_params(module__n_outputs=n_classes)
    return model


def start_model(kind, labels, *, seed=0, rows=slice(None)):
    """A model before its first step, told of rows of the first two labels."""
    labels = np.array(labels)
    return initialize(
        unfitted_model(kind, len(labels)),
        X[rows],
        labels[y % 2][rows],
        classes=labels,
        random_state=seed,
    )


@every_kind
@every_start
def test_training_starts_with_all_classes_in_a_copy(kind, labels):
    unfitted = unfitted_model(kind, len(labels))
    labels = np.array(labels)
    model = initialize(unfitted, X, labels[y % 2], classes=labels, random_state=0)
    np.testing.assert_array_equal(model.classes_, labels)
    assert not hasattr(unfitted, "coefs_")
    assert not hasattr(unfitted, "module_")


@every_kind
@every_start
def test_where_training_starts_depends_on_the_features_of_rows_only(kind, labels):
    parameters = get_parameters(start_model(kind, labels))
    of_other_rows = get_parameters(start_model(kind, labels, rows=slice(50, None)))
    assert_equal_arrays(parameters, of_other_rows, rtol=0)


@every_kind
@every_start
def test_where_training_starts_depends_on_the_seed_of_networks_only(kind, labels):
    parameters = get_parameters(start_model(kind, labels))
    of_other_seed = get_parameters(start_model(kind, labels, seed=1))
    if kind in ("mlp", "adam", *NETS):
        pairs = zip(parameters, of_other_seed, strict=True)
        assert any(not np.array_equal(a, b) for a, b in pairs)
    else:
        # Linear models start at zero.
        for array in (*parameters, *of_other_seed):
            assert not array.any()


@every_kind
@pytest.mark.parametrize("labels", [["ant", "bee", "cat"], [5, 9]])
def test_training_goes_on_from_its_start(kind, labels):
    model = start_model(kind, labels)
    targets = np.arange(len(labels)) if kind in NETS else np.array(labels)
    trained = train(model, X, targets[y % 2], epochs=20, random_state=0)
    # Labels of two classes are right by chance in half the rows.
    assert np.mean(trained.predict(X) == targets[y % 2]) > 0.55


@kinds_but(*NETS)  # a module has the outputs that it has
@pytest.mark.parametrize("n_classes", [2, 3])
def test_wider_models_say_the_same_of_what_they_knew(kind, n_classes):
    model = fitted(kind, n_classes)
    wide = widen(model, np.array([-1, 0, 1, 2, 7]))
    np.testing.assert_array_equal(wide.classes_, [-1, 0, 1, 2, 7])
    np.testing.assert_array_equal(model.classes_, np.arange(n_classes))
    arrays = get_parameters(wide)
    axes = class_axes(wide)
    for i, axis in axes.items():
        assert not np.take(arrays[i], [0, 4], axis=axis).any()
    bias = min(axes, key=lambda i: arrays[i].ndim)
    arrays[bias][[0, 4] if n_classes == 3 else [0, 3, 4]] = -1e6
    of_known_classes = with_parameters(wide, arrays)
    assert_same_labels(of_known_classes, model, X)
    target = np.array([-1, 1, 7])[y]
    further = train(wide, X, target, epochs=60, learning_rate=0.05, random_state=0)
    assert further.score(X, target) > model.score(X, target) + 0.2


def test_wider_to_the_same_classes_is_a_copy():
    for kind in ("mlp", "sgd", *NETS):
        model = fitted(kind)
        wide = widen(model, np.arange(3))
        assert wide is not model
        assert_equal_arrays(get_parameters(wide), get_parameters(model))


# ---- what cannot ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            RidgeClassifier(),
            "'b': RidgeClassifier cannot continue.*These can: MLP.*skorch",
        ),
        (mlp(solver="lbfgs"), "MLPClassifier.solver='lbfgs'. cannot"),
        (LogisticRegression(solver="liblinear"), "solver='liblinear'. cannot"),
        (LogisticRegressionCV(), "LogisticRegressionCV cannot"),
        (DummyClassifier(), "DummyClassifier cannot"),
        (make_pipeline(StandardScaler(), mlp()), "before the aggregator instead"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_model_that_cannot_go_on_training_is_refused(model, message):
    with pytest.raises(TypeError, match=message):
        local_model(model, name="b").check_trainable()


def test_a_wrapped_network_can_go_on_training():
    local_model(FrozenEstimator(mlp()), name="b").check_trainable()


# ---- other layers in a net's trainer ------------------------------------------


ENDS = {
    "softmax": ("Softmax", "CrossEntropyLoss"),
    "log softmax": ("LogSoftmax", "CrossEntropyLoss"),
    "softmax and its log": ("Softmax", "NLLLoss"),
    "none": (None, "CrossEntropyLoss"),
}


def net_that_ends(end, widths=(64, 8, 3), seed=0):
    """A net whose module ends with a link, trained from the seed's weights."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("skorch")
    from helpers.nets import make_net

    nn = torch.nn
    link, criterion = ENDS[end]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        parts = []
        for shape in zip(widths[:-1], widths[1:], strict=True):
            parts += [nn.Linear(*shape), nn.ReLU()]
        parts = parts[:-1] + ([getattr(nn, link)(dim=-1)] if link else [])
        return make_net(
            nn.Sequential(*parts),
            criterion=getattr(nn, criterion),
            batch_size=16,
            classes=range(widths[-1]),
        ).initialize()


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("carried", ["all", "wider", "upper"])
def test_other_layers_are_trained_as_the_nets_own_would_be(end, carried):
    from skgems.networks import read_network

    net = net_that_ends(end)
    # The same trainer around a module of the layers' own shapes.
    widths = {"all": (64, 8, 3), "wider": (64, 11, 3), "upper": (8, 3)}[carried]
    rows = X[:, : widths[0]]
    other_net = net_that_ends(end, widths, seed=1)
    layers = read_network(other_net)
    expected = train(other_net, rows, y, epochs=3, random_state=5)
    trained = local_model(net).carrying(layers).train(rows, y, epochs=3, random_state=5)
    for array, expected_array in zip(
        [*trained.layers().coefs, *trained.layers().intercepts],
        [*read_network(expected).coefs, *read_network(expected).intercepts],
        strict=True,
    ):
        np.testing.assert_array_equal(array, expected_array)
    assert not np.allclose(trained.layers().coefs[-1], layers.coefs[-1])


# ---- torch's own generator ----------------------------------------------------


def test_asking_and_training_leave_the_generator_of_torch():
    torch = pytest.importorskip("torch")
    pytest.importorskip("skorch")
    from helpers.nets import make_net

    class Dropping(torch.nn.Sequential):
        def __init__(self, broken=False):
            layers = [torch.nn.Linear(64, 8), torch.nn.ReLU(), torch.nn.Dropout(0.5)]
            super().__init__(*layers, torch.nn.Linear(8, 3))
            self.broken = broken

        def forward(self, X):
            hidden = super().forward(X)
            if self.broken and not hidden.isnan().any():
                raise RuntimeError("a node fails")
            return hidden

    with torch.random.fork_rng(devices=[]):
        model = local_model(make_net(Dropping).fit(X, y))
        broken = local_model(make_net(Dropping, module__broken=True).initialize())
    layers = model.layers()
    steps = {
        "probabilities": lambda: model.probabilities(X, [0, 1, 2]),
        "train": lambda: model.train(X, y, epochs=1, random_state=0),
        "carry": lambda: model.carrying(layers).train(X, y, epochs=1, random_state=0),
        "upper": lambda: model.carrying(layers.above(1)).train(
            X[:, :8], y, epochs=1, random_state=0
        ),
        "start": lambda: local_model(make_net(Dropping)).start(
            X, y, classes=np.arange(3)
        ),
        "network": lambda: model.network,
        "failing": lambda: broken.train(X, y, epochs=1, random_state=0),
        "failing answer": lambda: broken.probabilities(X, [0, 1, 2]),
    }
    for name, step in steps.items():
        before = torch.random.get_rng_state()
        if name.startswith("failing"):
            with pytest.raises(RuntimeError, match="a node fails"):
                step()
        else:
            step()
        assert torch.equal(torch.random.get_rng_state(), before), name
