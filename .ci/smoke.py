# SPDX-License-Identifier: BSD-3-Clause
"""Every method once, on an installed skgems without extras; fails loudly.

It prints where skgems came from and a line for each method.
"""

from __future__ import annotations

import pickle
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import accuracy_score
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

import skgems
from skgems import (
    DistillationAggregator,
    EnsembleAggregator,
    GEMSLogisticAggregator,
    GEMSMLPAggregator,
    ModelAveragingAggregator,
    PFNMAggregator,
)
from skgems.datasets import partition_by_label
from skgems.gems import Spaces
from skgems.spaces import Sampled

X, y = load_digits(n_class=6, return_X_y=True)
X, X_TEST, Y, Y_TEST = train_test_split(
    X / 16, y, train_size=600, stratify=y, random_state=0
)
NODES = partition_by_label(Y, 3, random_state=0)  # two digits each
ROWS = [np.flatnonzero(NODES == k) for k in range(3)]
LINEAR = [LogisticRegression().fit(X[rows], Y[rows]) for rows in ROWS]
# Networks of nodes that see all digits, from one start.
ALIKE = [np.arange(k, len(Y), 3) for k in range(3)]
NETWORK = MLPClassifier(16, solver="lbfgs", alpha=0.1, max_iter=30, random_state=0)
TRAINED = MLPClassifier(16, batch_size=32, max_iter=20, random_state=0)
# A tenth of the rows are public.
WITH_PUBLIC = np.where(np.arange(len(Y)) % 10 == 0, -1, NODES)


def networks(unfitted, rows=ALIKE):
    return [clone(unfitted).fit(X[own], Y[own]) for own in rows]


def owners(rows):
    nodes = np.empty(len(Y), dtype=int)
    for k, own in enumerate(rows):
        nodes[own] = k
    return nodes


def linear(spaces=None, **parameters):
    spaces = spaces or Spaces(construction=Sampled(50))
    return GEMSLogisticAggregator(LINEAR, spaces=spaces, **parameters), NODES


def by_geometry(geometry):
    spaces = Spaces(geometry=geometry, construction=Sampled(50))
    return linear(spaces, intersection="consensus")


def merged(kind, unfitted=NETWORK, **parameters):
    return kind(networks(unfitted), **parameters), owners(ALIKE)


# What is fitted on (X, Y), and the accuracy that it has at the least. A node alone
# knows two digits of six, 0.33 of the test rows.
METHODS = {
    "likelihood": (lambda: linear(), 0.9),
    "shared moments": (lambda: linear(moments="shared"), 0.9),
    "diagonal moments": (lambda: linear(moments="diagonal"), 0.8),
    "five messages": (lambda: linear(n_rounds=5), 0.9),
    "public rows": (lambda: (linear()[0], WITH_PUBLIC), 0.9),
    "consensus": (lambda: linear(intersection="consensus"), 0.7),
    "deepest point": (lambda: linear(intersection="deepest"), 0.7),
    "hinge": (lambda: linear(intersection="hinge"), 0.6),
    "certified, log-loss": (
        lambda: linear(
            Spaces(construction="certified", criterion="log_loss"),
            intersection="consensus",
        ),
        0.7,
    ),
    "ellipsoids": (lambda: by_geometry("ellipsoid"), 0.6),
    "balls": (lambda: by_geometry("ball"), 0.6),
    "merged networks": (lambda: merged(GEMSMLPAggregator), 0.85),
    "merged networks, two rounds": (
        lambda: merged(GEMSMLPAggregator, TRAINED, n_rounds=2),
        0.85,
    ),
    "PFNM": (lambda: merged(PFNMAggregator), 0.8),
    "PFNM, two rounds": (lambda: merged(PFNMAggregator, TRAINED, n_rounds=2), 0.7),
    "PFNM, last layer of moments": (
        lambda: merged(PFNMAggregator, last_layer=GEMSLogisticAggregator()),
        0.85,
    ),
    "averaged weights": (lambda: merged(ModelAveragingAggregator, TRAINED), 0.5),
    "co-learning": (
        lambda: merged(ModelAveragingAggregator, TRAINED, n_rounds=2),
        0.7,
    ),
    "vote": (lambda: merged(EnsembleAggregator, voting="hard"), 0.9),
    "mean probability": (lambda: merged(EnsembleAggregator), 0.9),
    "distilled": (
        lambda: merged(
            DistillationAggregator, student=LogisticRegression(max_iter=500)
        ),
        0.85,
    ),
}


def check(make, least):
    aggregate, nodes = make()
    aggregate.set_params(random_state=0).fit(X, Y, nodes=nodes)
    predicted = aggregate.predict(X_TEST)
    accuracy = accuracy_score(Y_TEST, predicted)
    assert accuracy >= least, f"accuracy {accuracy:.3f}, not {least}"
    if hasattr(aggregate, "predict_proba"):
        total = aggregate.predict_proba(X_TEST).sum(axis=1)
        np.testing.assert_allclose(total, 1.0, rtol=1e-6)
    again = pickle.loads(pickle.dumps(aggregate))
    np.testing.assert_array_equal(again.predict(X_TEST), predicted)
    if hasattr(aggregate, "to_estimator"):
        plain = aggregate.to_estimator().predict(X_TEST)
        np.testing.assert_array_equal(plain, predicted)
    return accuracy


def exact():
    """Ridge and discriminant analysis of sums are those of all rows."""
    shrunk = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1)
    for pooled in (RidgeClassifier(), shrunk):
        aggregate = skgems.PooledAggregator(pooled=pooled).fit(X, Y, nodes=NODES)
        own = clone(pooled).fit(X, Y)
        np.testing.assert_array_equal(aggregate.predict(X_TEST), own.predict(X_TEST))
    return aggregate.score(X_TEST, Y_TEST)


def forest():
    """Trees that are grown on sums are plain ones, and nearly those of all rows."""
    pooled = RandomForestClassifier(20, max_depth=8, random_state=0)
    accuracy = check(lambda: (skgems.PooledAggregator(pooled=pooled), NODES), 0.9)
    whole = clone(pooled).fit(X, Y).score(X_TEST, Y_TEST)
    assert accuracy > whole - 0.03, f"accuracy {accuracy:.3f}, of all rows {whole:.3f}"
    return accuracy


def files(folder):
    """Files give the bits that rows give, and a node leaves without a trace."""
    aggregate = GEMSLogisticAggregator(keep_replies=True, random_state=0)
    paths = []
    for k, rows in enumerate(ROWS):
        paths.append(folder / f"{k}.safetensors")
        summary = aggregate.summarize(LINEAR[k], X[rows], Y[rows], name=str(k))
        summary.save(paths[-1])
    aggregate.set_params(estimators=paths).fit()
    loaded = [skgems.parties.Summary.load(path) for path in paths]
    again = clone(aggregate).set_params(estimators=loaded).fit()
    np.testing.assert_array_equal(again.coef_, aggregate.coef_)
    np.testing.assert_array_equal(
        clone(aggregate).set_params(estimators=paths[:2]).fit().update(paths[2:]).coef_,
        aggregate.coef_,
    )
    two = clone(aggregate).set_params(estimators=paths[:2]).fit()
    np.testing.assert_array_equal(again.forget("2").coef_, two.coef_)
    return aggregate.score(X_TEST, Y_TEST)


def exchange(folder):
    """Requests and replies in a folder give the bits of one process."""
    aggregate = GEMSLogisticAggregator(n_rounds=3, random_state=0)
    work = skgems.Exchange(
        folder / "work", aggregate, nodes=["0", "1", "2"], disclosure=None
    )
    while (fitted := work.step()) is None:
        for name, request in work.waiting_for.items():
            rows = ROWS[int(name)]
            at_node = {"name": name, "state": folder / f"ledger of {name}"}
            at_node["disclosure"] = None  # the bits are those of all rows as they are
            skgems.answer(request, LINEAR[int(name)], X[rows], Y[rows], **at_node)
    here = clone(aggregate).set_params(estimators=LINEAR).fit(X, Y, nodes=NODES)
    np.testing.assert_array_equal(fitted.coef_, here.coef_)
    return fitted.score(X_TEST, Y_TEST)


def main():
    warnings.simplefilter("ignore")  # nodes of two digits train for a moment only
    package = Path(skgems.__file__).parent
    print(f"skgems {skgems.__version__} of {package}")
    assert (package / "py.typed").is_file(), "type checkers read no signatures"
    with tempfile.TemporaryDirectory() as folder:
        rows = {name: lambda case=case: check(*case) for name, case in METHODS.items()}
        rows["pooled, exactly"] = exact
        rows["pooled forest"] = forest
        rows["files"] = lambda: files(Path(folder))
        rows["exchange"] = lambda: exchange(Path(folder))
        for name, run in rows.items():
            start = time.perf_counter()
            try:
                accuracy = run()
            except Exception as exc:
                raise SystemExit(f"{name}: {type(exc).__name__}: {exc}") from exc
            print(f"{name:30} {accuracy:.3f} {time.perf_counter() - start:6.1f} s")


if __name__ == "__main__":
    main()
