# SPDX-License-Identifier: BSD-3-Clause
"""
How near one message comes to the pooled model
==============================================

Each node fits a linear model on its own rows and sends one message. How accurate is the
one model that is made of these messages? The best that can be hoped for is the *pooled*
model, which is fitted on all rows at one place.

This example splits three data sets over nodes in five ways. For each it compares five
ways to make one model. The last of them, the likelihood of the nodes' moments, is the
default of :class:`~skgems.GEMSLogisticAggregator`. It is nearly as good as the pooled
model, however the rows are split. The guide explains why: :ref:`moments`.
"""

import numpy as np
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from skgems import EnsembleAggregator, GEMSLogisticAggregator, ModelAveragingAggregator
from skgems.datasets import (
    partition_by_label,
    partition_dirichlet,
    partition_homogeneous,
)
from skgems.moments import PooledForm, class_moments, merge_moments

# %%
# Five ways to split rows over nodes
# ----------------------------------
# - Disjoint: no class is at two nodes.
# - Dirichlet: all nodes may have all classes, in different shares. With 0.1 the shares
#   differ much more than with 0.5.
# - Homogeneous: all nodes have the same shares.
# - Eight nodes of few classes: eight nodes share the rows of a third of the classes.
#   Two more nodes have another third each. The eight must not outvote the two.


def eight_nodes_of_few_classes(y):
    few, *others = [third.tolist() for third in np.array_split(np.unique(y), 3)]
    return partition_by_label(y, [few] * 8 + others, random_state=0)


PARTITIONS = {
    "disjoint,\n3 nodes": lambda y: partition_by_label(y, 3, random_state=0),
    "Dirichlet(0.1),\n5 nodes": lambda y: partition_dirichlet(
        y, 5, alpha=0.1, min_size=3, max_tries=20_000, random_state=0
    ),
    "Dirichlet(0.5),\n5 nodes": lambda y: partition_dirichlet(
        y, 5, alpha=0.5, min_size=3, random_state=0
    ),
    "homogeneous,\n5 nodes": lambda y: partition_homogeneous(y, 5, random_state=0),
    "8 nodes of few\nclasses, 2 others": eight_nodes_of_few_classes,
}

# %%
# Five ways to make one model
# ---------------------------
# - Averaged weights: the mean of the local models, each class over the nodes that know
#   it.
# - Soft vote: the mean of the probabilities of all local models.
# - LDA from sums: linear discriminant analysis, from sums that nodes send.
# - Consensus: the model in all good-enough spaces that moves the nodes least
#   (:ref:`gems`).
# - Likelihood: the model that makes the labels of all rows most likely, as far as the
#   moments tell.
#
# A node with a single class has nothing to fit: its model always predicts that class.
# Each function below returns the function that predicts.


def fit_local_model(X, y):
    if len(np.unique(y)) == 1:
        return DummyClassifier().fit(X, y)
    return LogisticRegression(max_iter=1000).fit(X, y)


def average_weights(clfs, X, y, nodes):
    return ModelAveragingAggregator(clfs).fit().predict


def soft_vote(clfs, X, y, nodes):
    return EnsembleAggregator(clfs).fit().predict


def lda_from_sums(clfs, X, y, nodes):
    """Counts, means and scatter add up over nodes: the same LDA for any partition."""
    moments = [class_moments(X[nodes == k], y[nodes == k]) for k in range(len(clfs))]
    classes = np.unique(y)
    W, _ = PooledForm(kind="lda").fit(merge_moments(moments), classes)
    # The last row of W has the intercepts.
    return lambda rows: classes[np.argmax(rows @ W[:-1] + W[-1], axis=1)]


def consensus(clfs, X, y, nodes):
    aggregate = GEMSLogisticAggregator(clfs, intersection="consensus", random_state=0)
    return aggregate.fit(X, y, nodes=nodes).predict


def likelihood(clfs, X, y, nodes):
    return GEMSLogisticAggregator(clfs, random_state=0).fit(X, y, nodes=nodes).predict


METHODS = {
    "averaged weights": average_weights,
    "soft vote": soft_vote,
    "LDA from sums": lda_from_sums,
    "consensus": consensus,
    "likelihood": likelihood,
}

# %%
# Points below the pooled model
# -----------------------------
# The table shows by how many points the test accuracy is below that of the pooled
# model, in the mean over the three data sets.


def points_below_pooled(X, y):
    """An array of shape (n_partitions, n_methods) for one data set."""
    X, X_test, y, y_test = train_test_split(
        X, y, test_size=0.3, stratify=y, random_state=0
    )
    scaler = StandardScaler().fit(X)
    X, X_test = scaler.transform(X), scaler.transform(X_test)
    accuracy_of_pooled = fit_local_model(X, y).score(X_test, y_test)
    points = np.empty((len(PARTITIONS), len(METHODS)))
    for i, partition in enumerate(PARTITIONS.values()):
        nodes = partition(y)
        clfs = [
            fit_local_model(X[nodes == k], y[nodes == k])
            for k in range(nodes.max() + 1)
        ]
        for j, method in enumerate(METHODS.values()):
            predict = method(clfs, X, y, nodes)
            accuracy = np.mean(predict(X_test) == y_test)
            points[i, j] = 100 * (accuracy_of_pooled - accuracy)
    return points


points = np.stack(
    [
        points_below_pooled(*load(return_X_y=True))
        for load in (load_digits, load_wine, load_iris)
    ]
)
means = points.mean(axis=0)  # over data sets
print(f"{'points below pooled, mean':32}", *METHODS)
for partition, row in zip(PARTITIONS, means, strict=True):
    cells = [
        f"{mean:{len(method)}.1f}" for method, mean in zip(METHODS, row, strict=True)
    ]
    name = partition.replace("\n", " ")
    print(f"{name:32}", *cells)

# %%
# One picture
# -----------
# Bars are the means over the three data sets, and dots are the single data sets. A
# number below zero is better than the pooled model. This can happen: test rows are few,
# and the pooled logistic regression is not the best of all models.

import matplotlib.pyplot as plt  # noqa: E402

plt.rcParams["font.size"] = 11
figure, ax = plt.subplots(figsize=(7.2, 5), layout="constrained")
colors = ["0.75", "0.6", "tab:green", "tab:blue", "tab:orange"]
width = 0.16  # of a bar, so that five fill most of the distance of two groups
centers = np.arange(len(PARTITIONS))
for j, (name, color) in enumerate(zip(METHODS, colors, strict=True)):
    places = centers + (j - 2) * width
    ax.bar(places, means[:, j], width, color=color, label=name)
    for points_of_data_set in points:
        ax.plot(places, points_of_data_set[:, j], ".", color="0.2", markersize=4)
ax.axhline(0, color="0.2", linewidth=1)
ax.set_yscale("symlog", linthresh=5, linscale=1.5)
ticks = [0, 1, 2, 5, 10, 20, 50]
ax.set_yticks(ticks, [str(tick) for tick in ticks])
ax.set_xticks(centers, PARTITIONS)
ax.set(ylabel="points of accuracy below pooled", ylim=(-4, 80))
figure.legend(ncols=3, loc="outside upper center", frameon=False)
plt.show()
