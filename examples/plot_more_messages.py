# SPDX-License-Identifier: BSD-3-Clause
"""
A few more messages, and a node that leaves
===========================================

One message of moments comes near the model that is fitted on all rows at one place. Who
may ask the hospitals a few times more gets that model itself, in far fewer messages
than averaging takes. And a hospital that leaves is forgotten: what the others sent is
summed anew, without asking them.
"""

from copy import deepcopy

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from skgems import GEMSLogisticAggregator, ModelAveragingAggregator
from skgems.datasets import partition_by_label

X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, test_size=0.4, random_state=0)
scaler = StandardScaler().fit(X)
X, X_test = scaler.transform(X), scaler.transform(X_test)
NAMES = ["north", "east", "south", "west", "coast"]
nodes = np.array(NAMES)[partition_by_label(y, 5, random_state=0)]
members = [
    (name, LogisticRegression(max_iter=1000).fit(X[nodes == name], y[nodes == name]))
    for name in NAMES
]
pooled = LogisticRegression(max_iter=5000, tol=1e-8).fit(X, y)

# %%
# Messages
# --------
# Each hospital has two digits. The test loss after so many messages, above that of the
# model that is fitted on all rows.

MESSAGES = [1, 3, 5, 8]


def excess(model):
    loss = log_loss(y_test, model.predict_proba(X_test))
    return loss - log_loss(y_test, pooled.predict_proba(X_test))


descended = [
    excess(
        GEMSLogisticAggregator(members, n_rounds=n, random_state=0).fit(
            X, y, nodes=nodes
        )
    )
    for n in MESSAGES
]
sgd = SGDClassifier(loss="log_loss", random_state=0)
averaged = [
    excess(
        ModelAveragingAggregator(
            [(name, sgd) for name in NAMES], n_rounds=n, random_state=0
        ).fit(X, y, nodes=nodes)
    )
    for n in MESSAGES
]
figure, axis = plt.subplots(figsize=(6, 3.5), layout="constrained")
axis.plot(MESSAGES, averaged, "o-", color="#eda100", label="averaging in rounds")
axis.plot(MESSAGES, descended, "o-", color="#2a78d6", label="likelihood, n_rounds")
axis.axhline(0, color="black", linewidth=1)
axis.set(xlabel="messages", ylabel="log-loss above pooled (nats)")
axis.legend(frameon=False)
for n, ours, theirs in zip(MESSAGES, descended, averaged, strict=True):
    print(f"{n} messages: {ours:6.3f} nats above pooled, averaging {theirs:6.3f}")

# %%
# Leaving
# -------
# How far probabilities move on each hospital's rows when one of them is forgotten. The
# model that forgot is the one that never knew it, to the bit.

aggregate = GEMSLogisticAggregator(members, random_state=0, keep_replies=True)
aggregate.fit(X, y, nodes=nodes)


def probabilities(model):
    """Of all ten digits, those that nobody knows being 0."""
    found = np.zeros((len(X), 10))
    found[:, model.classes_] = model.predict_proba(X)
    return found


before = probabilities(aggregate)
moved, apart = np.zeros((5, 5)), np.zeros(5)
for i, leaving in enumerate(NAMES):
    after = probabilities(deepcopy(aggregate).forget(leaving))
    others = [(name, clf) for name, clf in members if name != leaving]
    stay = nodes != leaving
    never = GEMSLogisticAggregator(others, random_state=0)
    never.fit(X[stay], y[stay], nodes=nodes[stay])
    apart[i] = np.abs(after - probabilities(never)).max()
    change = np.abs(after - before).sum(axis=1) / 2
    moved[i] = [change[nodes == name].mean() for name in NAMES]
assert not apart.any()  # to the bit
figure, axis = plt.subplots(figsize=(6, 4), layout="constrained")
image = axis.imshow(moved, cmap="Blues", vmin=0, vmax=1)
for i, row in enumerate(moved):
    for j, value in enumerate(row):
        color = "white" if value > 0.5 else "black"
        axis.text(j, i, f"{value:.2f}", ha="center", va="center", color=color)
axis.set_xticks(range(5), NAMES)
axis.set_yticks(range(5), NAMES)
axis.set(xlabel="on the rows of", ylabel="when this one is forgotten")
figure.colorbar(image, label="probability that moves")
plt.show()
