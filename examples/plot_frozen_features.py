# SPDX-License-Identifier: BSD-3-Clause
"""
One last layer on frozen features
=================================

Images, sound and text mostly go through a network that somebody else has trained. Only
a linear model of its features, the *last layer*, is learned anew. Where all nodes have
the same network, one message from each node is enough. Each node fits its own linear
model and sends sums over its features. :class:`~skgems.GEMSLogisticAggregator` makes
one linear model from them.

Here the network is a small convolutional one that was trained on the digits 0 to 4
only. Five nodes have two digits each, and together all ten. Then the example uses
features that nobody trained, for which the nodes share only a seed. The page
:ref:`frozen_features` says what nodes have to agree on, and what leaves a node.
"""

import tempfile
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from skorch import NeuralNetClassifier
from torch import nn

from skgems import EnsembleAggregator, GEMSLogisticAggregator, ModelAveragingAggregator
from skgems.datasets import partition_by_label
from skgems.moments import PooledForm, class_moments, merge_moments
from skgems.steps import Backbone

# %%
# A backbone that knows half of the digits
# ----------------------------------------
# The backbone is the network below its last layer. It is trained on rows that no node
# has: the digits 0 to 4 among 40 % of the training rows.
# :class:`~skgems.steps.Backbone` leaves out the last layer and returns 64 features.
# Nodes can compare its digest.

X, y = load_digits(return_X_y=True)
X = (X / 16).astype(np.float32)
X, X_test, y, y_test = train_test_split(X, y, test_size=0.3, stratify=y, random_state=0)
X_public, X, y_public, y = train_test_split(
    X, y, train_size=0.4, stratify=y, random_state=0
)

torch.manual_seed(0)
backbone = NeuralNetClassifier(
    nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)),
        nn.Conv2d(1, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64, 5),
    ),
    criterion=nn.CrossEntropyLoss,
    optimizer=torch.optim.Adam,
    lr=0.003,
    batch_size=16,
    max_epochs=12,
    train_split=None,
    verbose=0,
)
is_0_to_4 = y_public < 5
backbone.fit(X_public[is_0_to_4], y_public[is_0_to_4])

convolutional = Backbone(backbone).fit(X_public)

# %%
# Five nodes, two digits each
# ---------------------------
# Each node fits its own linear model to the features Z of its own rows. It may scale
# the features by its own rows, because a scaler is folded into the linear model. The
# penalty of the aggregate uses the variance over the rows of all nodes.

nodes = partition_by_label(y, 5, random_state=0)


def make_head():
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))


def fit_heads(Z):
    return [make_head().fit(Z[nodes == k], y[nodes == k]) for k in range(5)]


heads = fit_heads(convolutional.transform(X))

# %%
# One message
# -----------
# At a node, ``summarize`` takes the features in place of the rows. Nothing is different
# at the server. It returns an estimator of scikit-learn, which every node puts behind
# its backbone.

agg = GEMSLogisticAggregator(random_state=0)
with tempfile.TemporaryDirectory() as folder:
    for k, head in enumerate(heads):
        Z = convolutional.transform(X[nodes == k])
        summary = agg.summarize(head, Z, y[nodes == k], name=f"node {k}")
        summary.save(f"{folder}/{k}")
    agg.set_params(estimators=sorted(Path(folder).iterdir())).fit()
one_head = make_pipeline(convolutional, agg.to_estimator())
print(f"{one_head.score(X_test, y_test):.3f} of the test rows, all ten digits")

# %%
# In a study, all rows are in one process. Then a pipeline does the same. Its last step
# is told which node owns each row.

study = make_pipeline(convolutional, GEMSLogisticAggregator(heads, random_state=0))
study.fit(X, y, gemslogisticaggregator__nodes=nodes)
logits_of_study = study[-1].decision_function(convolutional.transform(X_test))
logits_of_files = agg.decision_function(convolutional.transform(X_test))
difference = np.abs(logits_of_study - logits_of_files).max()
print(f"logits are the same, but for {difference:.0e}")

# %%
# Features that nobody trained
# ----------------------------
# :class:`~sklearn.kernel_approximation.RBFSampler` draws random cosines. It uses only
# the number of columns, so equal seeds give equal features everywhere. ``gamma`` has to
# be a number that all nodes agree on, because "scale" would depend on each node's rows.
# Do *not* use :class:`~sklearn.kernel_approximation.Nystroem` like this: its landmarks
# are rows of the node that fits it.

cosines = RBFSampler(gamma=0.05, n_components=200, random_state=0).fit(X_test[:1])

# %%
# Random relu units need only a function.


def relu_units(X, n_units=200, seed=0):
    n_features = X.shape[1]
    W = np.random.default_rng(seed).standard_normal((n_features, n_units))
    return np.maximum(X @ (W / np.sqrt(n_features)).astype(X.dtype), 0)


# %%
# One table
# ---------
# "Likelihood" is the default of :class:`~skgems.GEMSLogisticAggregator`. The table
# compares it with simple alternatives: an average and a vote of the linear models, and
# a linear discriminant analysis from sums. The average and the vote are equal here,
# because no two nodes have a class in common. "likelihood, variances" sends no
# covariances, which is the default above 4,000 features.


def fit_lda_from_sums(Z):
    """Return the function that predicts."""
    moments = [class_moments(Z[nodes == k], y[nodes == k]) for k in range(5)]
    W, _ = PooledForm(kind="lda").fit(merge_moments(moments), range(10))
    # The last row of W has the intercepts.
    return lambda Z: np.argmax(Z @ W[:-1] + W[-1], axis=1)


def fit_likelihood(Z, heads, **params):
    """Return the function that predicts."""
    agg = GEMSLogisticAggregator(heads, random_state=0, **params)
    return agg.fit(Z, y, nodes=nodes).predict


def compare(features):
    """The test accuracy of each method, and where the likelihood predicts rightly."""
    Z = features.transform(X)
    Z_test = features.transform(X_test)
    heads = fit_heads(Z)
    predict_functions = {
        "averaged models": ModelAveragingAggregator(heads).fit().predict,
        "soft vote": EnsembleAggregator(heads).fit().predict,
        "LDA from sums": fit_lda_from_sums(Z),
        "likelihood, variances": fit_likelihood(Z, heads, moments="diagonal"),
        "likelihood": fit_likelihood(Z, heads),
        "all rows at one place": make_head().fit(Z, y).predict,
    }
    accuracies_of_heads = [head.score(Z_test, y_test) for head in heads]
    accuracies = {"local models (mean)": np.mean(accuracies_of_heads)}
    for method, predict in predict_functions.items():
        accuracies[method] = np.mean(predict(Z_test) == y_test)
    return accuracies, predict_functions["likelihood"](Z_test) == y_test


transformers = {
    "pixels": FunctionTransformer(),
    "backbone": convolutional,
    "random cosines": cosines,
    "random relu units": FunctionTransformer(relu_units),
}
accuracies = {}
is_right = {}
for features, transformer in transformers.items():
    accuracies[features], is_right[features] = compare(transformer)
methods = list(accuracies["pixels"])
# Each column is as wide as its name, and two blanks.
widths = {features: len(features) + 2 for features in transformers}
names = [f"{features:>{width}}" for features, width in widths.items()]
print(f"{'test accuracy':<24}" + "".join(names))
for method in methods:
    cells = [
        f"{accuracies[features][method]:>{width}.3f}"
        for features, width in widths.items()
    ]
    print(f"{method:<24}" + "".join(cells))

# %%
# One picture
# -----------
# The left panel shows the test error, the share of test rows that are labeled wrongly,
# on a logarithmic scale. The right panel shows the test error of the likelihood for the
# digits that the backbone was trained on, and for the other digits. Its features are
# strokes, which all digits have.

import matplotlib.pyplot as plt  # noqa: E402

figure, (left, right) = plt.subplots(
    1, 2, figsize=(7.6, 4.6), width_ratios=[1.6, 1], layout="constrained"
)
colors = ["0.6", "tab:orange", "tab:blue", "tab:green"]
bar_width = 0.2
for j, (features, color) in enumerate(zip(transformers, colors, strict=True)):
    errors = [1 - accuracies[features][method] for method in methods]
    left.plot(errors, range(len(methods)), "o", color=color, label=features, alpha=0.8)
    errors_of_halves = [
        1 - is_right[features][y_test < 5].mean(),
        1 - is_right[features][y_test >= 5].mean(),
    ]
    places = np.arange(2) + (j - 1.5) * bar_width
    right.bar(places, errors_of_halves, bar_width, color=color)
left.set_yticks(range(len(methods)), methods)
left.invert_yaxis()
left.set(xlabel="test error", xscale="log")
ticks = [0.02, 0.05, 0.1, 0.2, 0.5, 0.8]
left.set_xticks(ticks, [str(tick) for tick in ticks])
left.xaxis.set_minor_locator(plt.NullLocator())
left.grid(alpha=0.4)
figure.legend(ncols=4, loc="outside upper center", frameon=False)
right.set_xticks(
    [0, 1], ["digits 0 to 4,\nseen by the\nbackbone", "5 to 9,\nnever seen"]
)
right.set(ylabel="test error of the likelihood")
plt.show()
