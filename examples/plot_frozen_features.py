# SPDX-License-Identifier: BSD-3-Clause
"""
Heads on frozen features
========================

Most rows that matter today, images, sound and text, go through a network that somebody
else has trained, and what is learnt anew is a linear *head* on its features. Where all
parties have the same network, the head can be made in one message: each fits its own,
sends sums over its features, and :class:`~skgems.GEMSLogisticAggregator` makes one head
of them. Nothing is new about that but a pipeline in front.

Here the network is a small convolutional one that was trained on the digits 0 to 4
only. Five nodes know two digits each; between them all ten. Then the same with
features that nobody trained, of which a seed is all that nodes have to share. See
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
# It was trained on rows that no node has: here a third of all, of which it sees the
# digits 0 to 4. :class:`~skgems.steps.Backbone` leaves out its last layer; 64 features
# are left. Parties compare its digest.

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
seen = y_public < 5
backbone.fit(X_public[seen], y_public[seen])

convolutional = Backbone(backbone).fit(X_public)

# %%
# Five nodes, two digits each
# ---------------------------
# Each fits its own head on the features of its own rows. It may scale them by these:
# a scaler is folded into the head, and the aggregate's penalty goes by the variance of
# the rows of all nodes.

nodes = partition_by_label(y, 5, random_state=0)


def head():
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))


def fit_heads(Z):
    return [head().fit(Z[nodes == k], y[nodes == k]) for k in range(5)]


heads = fit_heads(convolutional.transform(X))

# %%
# One message
# -----------
# At a node, ``summarize`` is given the features in place of the rows; at the server
# nothing is different. The head that comes back is an estimator of scikit-learn, which
# every node puts behind the backbone that it has.

agg = GEMSLogisticAggregator(random_state=0)
with tempfile.TemporaryDirectory() as folder:
    for k, clf in enumerate(heads):
        own = nodes == k
        Z = convolutional.transform(X[own])
        agg.summarize(clf, Z, y[own], name=f"node {k}").save(f"{folder}/{k}")
    agg.set_params(estimators=sorted(Path(folder).iterdir())).fit()
one_head = make_pipeline(convolutional, agg.to_estimator())
print(f"{one_head.score(X_test, y_test):.3f} of the test rows, all ten digits")

# %%
# Where all rows are in one process, as in a study, a pipeline does the same. Whose row
# is which goes to its last step.

study = make_pipeline(convolutional, GEMSLogisticAggregator(heads, random_state=0))
study.fit(X, y, gemslogisticaggregator__nodes=nodes)
apart = study[-1].decision_function(convolutional.transform(X_test))
together = agg.decision_function(convolutional.transform(X_test))
print(f"logits are the same, but for {np.abs(apart - together).max():.0e}")

# %%
# Features that nobody trained
# ----------------------------
# :class:`~sklearn.kernel_approximation.RBFSampler` draws random cosines. It looks at no
# row but for its length, so equal seeds give equal features everywhere; only ``gamma``
# has to be a number that all agree on, since "scale" would be made of each node's rows.
# :class:`~sklearn.kernel_approximation.Nystroem` must *not* be used so: its landmarks
# are rows of whoever fits it.

cosines = RBFSampler(gamma=0.05, n_components=200, random_state=0).fit(X_test[:1])

# %%
# Random relu units are as easily made: no class is needed for them.


def relu_units(X, n_units=200, seed=0):
    W = np.random.default_rng(seed).standard_normal((X.shape[1], n_units))
    return np.maximum(X @ (W / np.sqrt(X.shape[1])).astype(X.dtype), 0)


# %%
# One table
# ---------
# The simplest things beside it: heads that are averaged or vote (which comes to the
# same where nodes have two classes each, and none in common), and a linear discriminant
# analysis, which is a function of sums. "likelihood, variances" sends no covariances,
# as is done of itself above 2,000 features.


def lda_from_sums(Z):
    told = [class_moments(Z[nodes == k], y[nodes == k]) for k in range(5)]
    W, _ = PooledForm("lda").fit(merge_moments(told), range(10))
    return lambda Z: np.argmax(Z @ W[:-1] + W[-1], axis=1)


def likelihood(Z, heads, **params):
    agg = GEMSLogisticAggregator(heads, random_state=0, **params)
    return agg.fit(Z, y, nodes=nodes).predict


def compare(features):
    Z, Z_test = features.transform(X), features.transform(X_test)
    heads = fit_heads(Z)
    predict = {
        "averaged heads": ModelAveragingAggregator(heads).fit().predict,
        "soft vote": EnsembleAggregator(heads).fit().predict,
        "LDA from sums": lda_from_sums(Z),
        "likelihood, variances": likelihood(Z, heads, moments="diagonal"),
        "likelihood": likelihood(Z, heads),
        "all rows at one place": head().fit(Z, y).predict,
    }
    scores = {"local heads (mean)": np.mean([h.score(Z_test, y_test) for h in heads])}
    right = {name: predicted(Z_test) == y_test for name, predicted in predict.items()}
    scores |= {name: hits.mean() for name, hits in right.items()}
    return scores, right["likelihood"]


kinds = {
    "pixels": FunctionTransformer(),
    "backbone": convolutional,
    "random cosines": cosines,
    "random relu units": FunctionTransformer(relu_units),
}
tables, hits = {}, {}
for name, features in kinds.items():
    tables[name], hits[name] = compare(features)
print(f"{'test accuracy':<24}" + "".join(f"{name:>{len(name) + 2}}" for name in kinds))
for row in tables["pixels"]:
    columns = (f"{tables[name][row]:>{len(name) + 2}.3f}" for name in kinds)
    print(f"{row:<24}" + "".join(columns))

# %%
# One picture
# -----------
# Left, the share of test rows that are predicted wrongly, on a scale of factors. Right,
# the likelihood on the digits that the backbone has seen, and those that it was never
# shown: its features are strokes, which both have.

import matplotlib.pyplot as plt  # noqa: E402

figure, (left, right) = plt.subplots(
    1, 2, figsize=(7.6, 4.6), width_ratios=[1.6, 1], layout="constrained"
)
colours = ["0.6", "tab:orange", "tab:blue", "tab:green"]
rows = list(tables["pixels"])
for j, (name, colour) in enumerate(zip(kinds, colours, strict=True)):
    errors = 1 - np.array([tables[name][row] for row in rows])
    left.plot(errors, range(len(rows)), "o", color=colour, label=name, alpha=0.8)
    parts = [1 - hits[name][y_test < 5].mean(), 1 - hits[name][y_test >= 5].mean()]
    right.bar(np.arange(2) + (j - 1.5) * 0.2, parts, 0.2, color=colour)
left.set_yticks(range(len(rows)), rows)
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
