# SPDX-License-Identifier: BSD-3-Clause
"""
Hospitals that may not pool their patients
==========================================

Each party has fitted a model on its own rows. Some of them have never seen classes
that others know. :class:`~skgems.GEMSLogisticAggregator` turns the list of fitted
models into one, and this example compares it with what else could be done: keep the
local models, average their weights, let them vote, or pool the rows after all.

Two data sets that come with scikit-learn: handwritten digits over five nodes, two
digits each, and breast cancer over two hospitals, one of which sees mostly small
tumours and the other mostly large ones.
"""

import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgems import GEMSLogisticAggregator
from skgems.datasets import partition_by_label
from skgems.networks import read_network

# %%
# The two federations
# -------------------
# Every node splits its rows into those it trains on and those it judges models by.


def digits():
    X, y = load_digits(return_X_y=True)
    X = X / 16.0
    return X, y, partition_by_label(y, 5, random_state=0)


def breast_cancer():
    X, y = load_breast_cancer(return_X_y=True)
    radius = X[:, 0]
    # Skewed covariates: the chance of being seen by hospital 1 grows with the size.
    rank = radius.argsort().argsort() / len(radius)
    chance = np.clip(4 * rank - 1.5, 0.02, 0.98)
    nodes = np.random.RandomState(0).uniform(size=len(rank)) < chance
    return X, y, nodes.astype(int)


def local_model():
    return make_pipeline(StandardScaler(), LogisticRegression(C=0.1))


# %%
# What can be done with the fitted models
# ---------------------------------------


def average(models, classes, X):
    """Plain mean of the weights, each class over the nodes that know it."""
    total, count = 0, 0
    for model in models:
        network = read_network(model).aligned(classes)
        total = total + network.last
        count = count + network.seen
    weights = total / count
    return classes[np.argmax(X @ weights[:-1] + weights[-1], axis=1)]


def majority_vote(models, X, seed=0):
    """Most frequent prediction, ties broken at random."""
    votes = np.stack([model.predict(X) for model in models])
    classes = np.unique(votes)
    counts = (votes[:, :, None] == classes).sum(axis=0)
    noise = np.random.RandomState(seed).uniform(0, 0.5, size=counts.shape)
    return classes[np.argmax(counts + noise, axis=1)]


def compare(X, y, nodes, seed=0):
    """Accuracy on held-out rows of every way to get one model."""
    X_train, X_test, y_train, y_test, own, _ = train_test_split(
        X, y, nodes, test_size=0.3, stratify=y, random_state=seed
    )
    X_train, X_val, y_train, y_val, own, own_val = train_test_split(
        X_train, y_train, own, test_size=0.3, stratify=y_train, random_state=seed
    )
    models = [
        local_model().fit(X_train[own == k], y_train[own == k])
        for k in range(own.max() + 1)
    ]
    classes = np.unique(y)
    scores = {
        "local model (mean)": np.mean([m.score(X_test, y_test) for m in models]),
        "averaged weights": accuracy_score(y_test, average(models, classes, X_test)),
        "majority vote": accuracy_score(y_test, majority_vote(models, X_test)),
    }
    aggregate = GEMSLogisticAggregator(models, random_state=0)
    aggregate.fit(X_val, y_val, nodes=own_val)
    scores["GEMS"] = aggregate.score(X_test, y_test)
    # Of the good-enough spaces alone, as in the papers.
    for geometry in ("ball", "ellipsoid", "gram"):
        aggregate = GEMSLogisticAggregator(
            models,
            intersection="consensus",
            geometry=geometry,
            on_empty="ignore",
            random_state=0,
        )
        aggregate.fit(X_val, y_val, nodes=own_val)
        scores[f"GEMS, {geometry}"] = aggregate.score(X_test, y_test)
    public = np.random.RandomState(seed).permutation(len(y_val))
    for n_public in (20, 50, 100):
        rows = public[:n_public]
        aggregate.fit(X_val, y_val, nodes=own_val)
        aggregate.fine_tune(X_val[rows], y_val[rows])
        scores[f"GEMS, gram, {n_public} public rows"] = aggregate.score(X_test, y_test)
    pooled = local_model().fit(X_train, y_train)
    scores["global model (pooled rows)"] = pooled.score(X_test, y_test)
    return scores


# %%
# One table
# ---------
# The mean of several splits, since the data sets are small.

N_SPLITS = 5


def mean_of_splits(X, y, nodes):
    runs = [compare(X, y, nodes, seed=seed) for seed in range(N_SPLITS)]
    return {name: np.mean([run[name] for run in runs]) for name in runs[0]}


tables = {
    "digits, 5 nodes": mean_of_splits(*digits()),
    "breast cancer, 2 nodes": mean_of_splits(*breast_cancer()),
}
names = list(tables)
print(
    f"{f'test accuracy, {N_SPLITS} splits':<30}"
    + "".join(f"{name:>25}" for name in names)
)
for row in tables[names[0]]:
    print(f"{row:<30}" + "".join(f"{tables[name][row]:>25.3f}" for name in names))

# %%
# One picture
# -----------

import matplotlib.pyplot as plt  # noqa: E402

figure, axes = plt.subplots(1, 2, figsize=(11, 4), sharey=True, layout="constrained")
for ax, name in zip(axes, names, strict=True):
    labels, values = zip(*tables[name].items(), strict=True)
    colours = ["tab:orange" if label.startswith("GEMS") else "0.6" for label in labels]
    bars = ax.barh(labels, values, color=colours)
    ax.bar_label(bars, fmt="%.3f", padding=2, fontsize=8)
    ax.set(title=name, xlabel="test accuracy", xlim=(0, 1.1))
axes[0].invert_yaxis()

if len(sys.argv) > 1:
    Path(sys.argv[1]).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(sys.argv[1], dpi=120)
    print(f"picture saved as {sys.argv[1]}")
else:
    plt.show()
