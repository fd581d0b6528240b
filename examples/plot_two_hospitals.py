# SPDX-License-Identifier: BSD-3-Clause
"""
Hospitals that may not pool their patients
==========================================

Each party has fitted a model on its own rows, which may not leave. Some of them have
never seen classes that others know. Each makes one small file of its model and sums
over its rows, and :class:`~skgems.GEMSLogisticAggregator` makes one model of the files.
This example compares it with what else could be done: keep the local models, average
their weights, let them vote, make a linear discriminant analysis of sums, or pool the
rows after all.

Two data sets that come with scikit-learn: handwritten digits over five nodes, two
digits each, and breast cancer over two hospitals, one of which sees mostly small
tumours and the other mostly large ones.
"""

import sys
import tempfile
from copy import deepcopy
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgems import EnsembleAggregator, GEMSLogisticAggregator, ModelAveragingAggregator
from skgems.datasets import partition_by_label
from skgems.moments import class_moments, merge_moments
from skgems.pooled import PooledForm

# %%
# One file a node
# ---------------
# The settings are an aggregator that all have agreed on. At a node, ``summarize`` makes
# all that is sent, of its fitted model and its rows; at the server, a list of files
# stands where fitted models would, and ``fit`` needs no rows. Covariances of fewer rows
# than features would say what these rows are, so classes of 30 rows or fewer are told
# of by their counts and in the model alone (``min_cluster_size``).


def sent(aggregate, models, X, y, nodes, held_out, folder):
    """What the nodes do, each with its own rows only; the paths of their files."""
    paths = []
    for k, model in enumerate(models):
        own = nodes == k
        summary = aggregate.summarize(
            model, X[own], y[own], name=f"hospital {k}", held_out=held_out[own]
        )
        paths.append(Path(folder) / f"hospital_{k}.safetensors")
        summary.save(paths[-1])
    return paths


def made_of_files(aggregate, models, X, y, nodes, held_out):
    """What nodes and server do, one after the other; the model and bytes a node."""
    with tempfile.TemporaryDirectory() as folder:
        paths = sent(aggregate, models, X, y, nodes, held_out, folder)
        size = np.mean([path.stat().st_size for path in paths])
        return aggregate.set_params(estimators=paths).fit(), size


# %%
# The two federations
# -------------------
# Every node splits its rows into those it trains on and those it judges models by. The
# first are what its moments are made of, too.


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


def score_of_sums(X, y, nodes, X_test, y_test):
    """Linear discriminant analysis of counts, means and scatter, which add up."""
    told = [class_moments(X[nodes == k], y[nodes == k]) for k in np.unique(nodes)]
    classes = np.unique(y)
    W, _ = PooledForm("lda").fit(merge_moments(told), classes)
    found = classes[np.argmax(X_test @ W[:-1] + W[-1], axis=1)]
    return np.mean(found == y_test)


def compare(X, y, nodes, seed=0):
    """Accuracy on test rows of every way to get one model."""
    X, X_test, y, y_test, nodes, _ = train_test_split(
        X, y, nodes, test_size=0.3, stratify=y, random_state=seed
    )
    train, val = train_test_split(
        np.arange(len(y)), test_size=0.3, stratify=y, random_state=seed
    )
    models = [
        local_model().fit(X[train][nodes[train] == k], y[train][nodes[train] == k])
        for k in np.unique(nodes)
    ]
    held_out = np.isin(np.arange(len(y)), val)

    consensus = GEMSLogisticAggregator(
        models, intersection="consensus", random_state=0
    ).fit(X, y, nodes=nodes, held_out=held_out)
    average = ModelAveragingAggregator(models).fit()
    vote = EnsembleAggregator(models, voting="hard", random_state=0).fit()
    scores = {
        "local model (mean)": np.mean([m.score(X_test, y_test) for m in models]),
        "averaged weights": average.score(X_test, y_test),
        "majority vote": vote.score(X_test, y_test),
        "LDA from sums": score_of_sums(
            X[train], y[train], nodes[train], X_test, y_test
        ),
        "GEMS, consensus": consensus.score(X_test, y_test),
    }
    aggregate, size = made_of_files(
        GEMSLogisticAggregator(min_cluster_size=31, random_state=0),
        models,
        X,
        y,
        nodes,
        held_out,
    )
    scores["GEMS, likelihood"] = aggregate.score(X_test, y_test)
    public = np.random.RandomState(seed).permutation(val)
    for n_public in (20, 100):
        rows = public[:n_public]
        tuned = deepcopy(aggregate).fine_tune(X[rows], y[rows])
        scores[f"the same, {n_public} public rows"] = tuned.score(X_test, y_test)
    pooled = local_model().fit(X[train], y[train])
    scores["pooled rows"] = pooled.score(X_test, y_test)
    scores["kilobytes a node"] = size / 1000
    return scores


# %%
# One table
# ---------
# The mean of several splits, since the data sets are small.

N_SPLITS = 3


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
kilobytes = [tables[name].pop("kilobytes a node") for name in names]
for row in tables[names[0]]:
    print(f"{row:<30}" + "".join(f"{tables[name][row]:>25.3f}" for name in names))
print(
    f"{'kilobytes that a node sends':<30}" + "".join(f"{n:>25.0f}" for n in kilobytes)
)

# %%
# One picture
# -----------

import matplotlib.pyplot as plt  # noqa: E402

figure, axes = plt.subplots(1, 2, figsize=(11, 4), sharey=True, layout="constrained")
for ax, name in zip(axes, names, strict=True):
    labels, values = zip(*tables[name].items(), strict=True)
    ours = ("GEMS", "the same")
    colours = ["tab:orange" if label.startswith(ours) else "0.6" for label in labels]
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
