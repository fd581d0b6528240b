# SPDX-License-Identifier: BSD-3-Clause
"""
Heads on frozen features
========================

Images, sound and text mostly go through a network that somebody else has trained, and
only a linear *head* on its features is learnt anew. Where all parties have the same
network, the head can be made in one message: each party fits its own head and sends
sums over its features, and :class:`~skgems.GEMSLogisticAggregator` makes one head of
them. The only new thing about that is a pipeline in front.

Here the network is a small convolutional one that was trained on the digits 0 to 4
only. Five nodes have two digits each, and together all ten. Then the same is done with
features that nobody trained, where the nodes have to share nothing but a seed. See
:ref:`frozen_features` for what has to be agreed on, and what leaves a node.
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
from skgems.moments import class_moments, merge_moments
from skgems.pooled import PooledForm
from skgems.steps import Backbone

# %%
# A backbone that knows half of the digits
# ----------------------------------------
# The backbone is trained on rows that no node has: here on the digits 0 to 4 of 40 % of
# the training rows. :class:`~skgems.steps.Backbone` leaves out its last layer, so that
# it has 64 features. Parties compare its digest.

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
# Each node fits its own head on the features Z of its own rows. It may scale the
# features by its own rows: a scaler is folded into the head, and the penalty of the
# aggregate is measured by the variance of the rows of all nodes.

nodes = partition_by_label(y, 5, random_state=0)


def make_head():
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))


def fit_heads(Z):
    return [make_head().fit(Z[nodes == k], y[nodes == k]) for k in range(5)]


heads = fit_heads(convolutional.transform(X))

# %%
# One message
# -----------
# At a node, ``summarize`` takes the features in place of the rows. At the server
# nothing is different. The head that comes back is an estimator of scikit-learn, which
# every node puts behind the backbone that it has.

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
# Where all rows are in one process, as in a study, a pipeline does the same. Its last
# step is told which row belongs to which node.

study = make_pipeline(convolutional, GEMSLogisticAggregator(heads, random_state=0))
study.fit(X, y, gemslogisticaggregator__nodes=nodes)
logits_of_study = study[-1].decision_function(convolutional.transform(X_test))
logits_of_files = agg.decision_function(convolutional.transform(X_test))
difference = np.abs(logits_of_study - logits_of_files).max()
print(f"logits are the same, but for {difference:.0e}")

# %%
# Features that nobody trained
# ----------------------------
# :class:`~sklearn.kernel_approximation.RBFSampler` draws random cosines. It only uses
# the number of columns of the rows, so equal seeds give equal features everywhere.
# ``gamma`` has to be a number that all agree on, since "scale" would depend on each
# node's rows. :class:`~sklearn.kernel_approximation.Nystroem` must *not* be used like
# this: its landmarks are rows of the party that fits it.

cosines = RBFSampler(gamma=0.05, n_components=200, random_state=0).fit(X_test[:1])

# %%
# Random relu units need no class at all, but a function.


def relu_units(X, n_units=200, seed=0):
    n_features = X.shape[1]
    W = np.random.default_rng(seed).standard_normal((n_features, n_units))
    return np.maximum(X @ (W / np.sqrt(n_features)).astype(X.dtype), 0)


# %%
# One table
# ---------
# The likelihood is compared with the simplest alternatives: heads that are averaged or
# vote (which makes no difference where nodes have two classes each, and none in
# common), and a linear discriminant analysis, which is a function of sums. "likelihood,
# variances" sends no covariances, which is the default above 2,000 features.


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
        "averaged heads": ModelAveragingAggregator(heads).fit().predict,
        "soft vote": EnsembleAggregator(heads).fit().predict,
        "LDA from sums": fit_lda_from_sums(Z),
        "likelihood, variances": fit_likelihood(Z, heads, moments="diagonal"),
        "likelihood": fit_likelihood(Z, heads),
        "all rows at one place": make_head().fit(Z, y).predict,
    }
    accuracies_of_heads = [head.score(Z_test, y_test) for head in heads]
    accuracies = {"local heads (mean)": np.mean(accuracies_of_heads)}
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
# The left panel shows the share of test rows that are predicted wrongly, on a
# logarithmic scale. The right one shows the same for the likelihood, on the digits that
# the backbone was trained on and on those that it was not: its features are strokes,
# which both have.

import matplotlib.pyplot as plt  # noqa: E402

figure, (left, right) = plt.subplots(
    1, 2, figsize=(7.6, 4.6), width_ratios=[1.6, 1], layout="constrained"
)
colours = ["0.6", "tab:orange", "tab:blue", "tab:green"]
bar_width = 0.2
for j, (features, colour) in enumerate(zip(transformers, colours, strict=True)):
    errors = [1 - accuracies[features][method] for method in methods]
    left.plot(errors, range(len(methods)), "o", color=colour, label=features, alpha=0.8)
    errors_of_halves = [
        1 - is_right[features][y_test < 5].mean(),
        1 - is_right[features][y_test >= 5].mean(),
    ]
    places = np.arange(2) + (j - 1.5) * bar_width
    right.bar(places, errors_of_halves, bar_width, color=colour)
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
