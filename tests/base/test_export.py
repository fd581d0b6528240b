# SPDX-License-Identifier: BSD-3-Clause
"""Aggregates come back in the dtype of the nodes' models, all arrays alike."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.fitted import call_once
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.neural_network import MLPClassifier

from skgems import (
    GEMSLogisticAggregator,
    GEMSMLPAggregator,
    ModelAveragingAggregator,
    PFNMAggregator,
)
from skgems.gems import Spaces
from skgems.pfnm import Matching

RNG = np.random.RandomState(0)
Y = np.arange(120) % 3
X = RNG.normal(size=(120, 4)) + 3 * np.eye(3, 4)[Y]
NODES = np.arange(120) // 60
# Dtypes of the rows that two nodes fit to, and that of what is made of their models.
DTYPES = {
    "single": ([np.float32, np.float32], np.float32),
    "double": ([np.float64, np.float64], np.float64),
    "mixed": ([np.float32, np.float64], np.float64),
    "mixed the other way": ([np.float64, np.float32], np.float64),
}
LENIENT = GEMSLogisticAggregator(
    intersection="consensus", spaces=Spaces(on_empty="ignore")
)
FITS = {
    "gems": lambda members: GEMSMLPAggregator(
        members, last_layer=LENIENT, random_state=0
    ).fit(X, Y, nodes=NODES),
    "gems tuned": lambda members: (
        GEMSMLPAggregator(members, last_layer=LENIENT, random_state=0)
        .fit(X, Y, nodes=NODES)
        .fine_tune(X[::3], Y[::3], layers="all")
    ),
    "pfnm": lambda members: PFNMAggregator(members, random_state=0).fit(),
    "pfnm with rows": lambda members: PFNMAggregator(members, random_state=0).fit(
        X, Y, nodes=NODES
    ),
    "pfnm tuned": lambda members: (
        PFNMAggregator(members, random_state=0).fit().fine_tune(X, Y)
    ),
    "pfnm stream": lambda members: (
        PFNMAggregator(members[:1], random_state=0)
        .fit()
        .update([("new", member) for member in members[1:]])
        .fine_tune(X, Y)
    ),
    "average": lambda members: ModelAveragingAggregator(members).fit(),
    "average of rounds": lambda members: ModelAveragingAggregator(
        members, n_rounds=1, local_epochs=1, random_state=0
    ).fit(X, Y, nodes=NODES),
}


@call_once
def mlps(dtypes):
    return [
        MLPClassifier((5,), max_iter=20, tol=1.0, random_state=0).fit(
            X[NODES == k].astype(dtype), Y[NODES == k]
        )
        for k, dtype in enumerate(dtypes)
    ]


@call_once
def nets(dtypes):
    torch = pytest.importorskip("torch")
    skorch = pytest.importorskip("skorch")
    fitted = []
    with torch.random.fork_rng(devices=[]):
        for k, dtype in enumerate(dtypes):
            torch.manual_seed(k)
            module = torch.nn.Sequential(
                torch.nn.Linear(4, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3)
            )
            if dtype == np.float64:
                module = module.double()
            net = skorch.NeuralNetClassifier(
                module,
                criterion=torch.nn.CrossEntropyLoss,
                lr=0.1,
                max_epochs=5,
                batch_size=16,
                train_split=None,
                verbose=0,
            )
            fitted.append(net.fit(X[NODES == k].astype(dtype), Y[NODES == k]))
    return fitted


def dtypes_of(estimator):
    return {array.dtype for array in (*estimator.coefs_, *estimator.intercepts_)}


def check_exports(aggregate, dtype):
    expected = aggregate.predict_proba(X)
    plain = aggregate.to_estimator()
    assert dtypes_of(plain) == {np.dtype(dtype)}
    atol = 1e-5 if np.dtype(dtype) == np.float32 else 1e-10
    np.testing.assert_allclose(plain.predict_proba(X), expected, atol=atol)
    torch = pytest.importorskip("torch")
    module = aggregate.to_module()
    assert {p.detach().numpy().dtype for p in module.parameters()} == {np.dtype(dtype)}
    with torch.no_grad():
        logits = module(torch.tensor(X.astype(dtype)))
    np.testing.assert_allclose(logits.softmax(dim=1).numpy(), expected, atol=atol)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("method", "make_members", "dtypes"),
    [
        *((method, nets, "single") for method in FITS),
        *((method, mlps, "mixed") for method in FITS),
        # The dtype of both comes before anything is made of them.
        ("pfnm", mlps, "single"),
        ("pfnm", nets, "mixed"),
        ("pfnm", nets, "mixed the other way"),
        ("average", mlps, "single"),
        ("average", nets, "mixed"),
        ("average", nets, "mixed the other way"),
    ],
)
def test_exports_have_the_dtype_of_the_nodes(method, make_members, dtypes):
    dtypes_of_nodes, expected = DTYPES[dtypes]
    check_exports(FITS[method](make_members(dtypes_of_nodes)), expected)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "dtypes",
    [
        "mixed",
        *(pytest.param(d, marks=pytest.mark.slow) for d in DTYPES if d != "mixed"),
    ],
)
def test_exports_have_the_dtype_in_which_neurons_are_matched(dtypes, dtype):
    aggregate = PFNMAggregator(
        mlps(DTYPES[dtypes][0]), matching=Matching(dtype=dtype), random_state=0
    )
    check_exports(aggregate.fit().fine_tune(X, Y), dtype)
    new_members = [("new", mlps([np.float64])[0])]
    check_exports(aggregate.update(new_members).fine_tune(X, Y), dtype)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_constant_models_have_no_say_in_the_dtype():
    constant = DummyClassifier().fit(X[:1], Y[:1])
    members = [constant, *mlps([np.float32, np.float32])]
    aggregate = PFNMAggregator(members, random_state=0).fit()
    assert dtypes_of(aggregate.to_estimator()) == {np.dtype(np.float32)}
    aggregate.update([("constant", constant)])
    assert dtypes_of(aggregate.to_estimator()) == {np.dtype(np.float32)}
    average = ModelAveragingAggregator(members).fit()
    assert dtypes_of(average.to_estimator()) == {np.dtype(np.float32)}


@pytest.mark.parametrize("dtypes", DTYPES)
@pytest.mark.parametrize("kind", [LogisticRegression, SGDClassifier])
def test_linear_exports_have_the_dtype_of_the_nodes(kind, dtypes):
    dtypes_of_nodes, _ = DTYPES[dtypes]
    members = [
        kind().fit(X[NODES == k].astype(dtype), Y[NODES == k])
        for k, dtype in enumerate(dtypes_of_nodes)
    ]
    # Before scikit-learn 1.9 some are float64 of float32 rows.
    expected = np.result_type(*(member.coef_ for member in members))
    for aggregate in (
        GEMSLogisticAggregator(
            members, spaces=Spaces(on_empty="ignore"), random_state=0
        ),
        ModelAveragingAggregator(members),
    ):
        aggregate.fit(X, Y, nodes=NODES)
        plain = aggregate.to_estimator()
        assert {plain.coef_.dtype, plain.intercept_.dtype} == {np.dtype(expected)}
        np.testing.assert_allclose(
            plain.predict_proba(X), aggregate.predict_proba(X), atol=1e-5
        )


def test_two_classes_have_one_output_as_those_of_scikit_learn():
    binary = MLPClassifier((5,), max_iter=20, tol=1.0, random_state=0)
    binary.fit(X, Y == 0)
    average = ModelAveragingAggregator([binary]).fit()
    for average_array, binary_array in zip(
        average.coefs_ + average.intercepts_,
        binary.coefs_ + binary.intercepts_,
        strict=True,
    ):
        np.testing.assert_allclose(average_array, binary_array)
