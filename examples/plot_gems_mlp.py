# SPDX-License-Identifier: BSD-3-Clause
"""
Networks become one: which neurons merged
=========================================

Two parties have each trained a small network on half of the ten digits. Nobody's rows
leave. :class:`~skgems.GEMSMLPAggregator` merges the hidden layers neuron by neuron:
neurons that do the same on both parties' rows become one, the others are kept.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

from skgems import GEMSMLPAggregator
from skgems.datasets import partition_by_label

# %%
# Two parties, five digits each
# -----------------------------
X, y = load_digits(return_X_y=True)
X = X / 16.0
X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)
nodes = partition_by_label(y_train, 2)
networks = [
    MLPClassifier(25, solver="lbfgs", alpha=0.3, max_iter=2000, random_state=k).fit(
        X_train[nodes == k], y_train[nodes == k]
    )
    for k in range(2)
]
for k, network in enumerate(networks):
    print(f"node {k} alone: {network.score(X_test, y_test):.3f}")

# %%
# One network
# -----------
aggregate = GEMSMLPAggregator(networks, epsilon_hidden=0.3, random_state=0)
aggregate.fit(X_train, y_train, nodes=nodes)
report = aggregate.layer_report_[0]
print(f"aggregate:    {aggregate.score(X_test, y_test):.3f}")
print({name: report[name] for name in ("n_in", "kept", "merged", "dropped", "n_units")})

# %%
# Which neurons merged
# --------------------
# Every row of the picture is a unit of the aggregate, with the weights of the neurons
# that went into it as images of 8 x 8 pixels: node 0 in the left half, node 1 in the
# right. The unit itself is in the middle.
units = sorted(
    (unit for unit, members in enumerate(report["members"]) if len(members) > 1),
    key=lambda unit: -len(report["members"][unit]),
)[:6]


def show(ax, weights, title):
    limit = np.abs(weights).max()
    ax.imshow(weights.reshape(8, 8), cmap="RdBu", vmin=-limit, vmax=limit)
    ax.set_title(title, fontsize=7)


fig, axes = plt.subplots(len(units), 7, figsize=(7, 1.2 * len(units)), squeeze=False)
for ax in axes.flat:
    ax.axis("off")
for row, unit in zip(axes, units, strict=True):
    show(row[3], aggregate.coefs_[0][:, unit], "merged")
    for node, places in (("0", (2, 1, 0)), ("1", (4, 5, 6))):
        own = [i for name, i in report["members"][unit] if name == node]
        for place, neuron in zip(places, own, strict=False):
            weights = networks[int(node)].coefs_[0][:, neuron]
            show(row[place], weights, f"node {node}, {neuron}")
fig.suptitle("Neurons that became one")
fig.tight_layout()

# %%
# How small may it be?
# --------------------
# ``max_units`` goes on merging, cheapest first.
sizes = [5, 10, 15, 20, 30, 40, 50]
scores = []
for size in sizes:
    bounded = GEMSMLPAggregator(
        networks, epsilon_hidden=1e-3, max_units=size, random_state=0
    )
    scores.append(bounded.fit(X_train, y_train, nodes=nodes).score(X_test, y_test))

fig, ax = plt.subplots(figsize=(5, 3))
ax.plot(sizes, scores, "o-")
ax.set(xlabel="largest number of hidden units", ylabel="test accuracy")
fig.tight_layout()
plt.show()
