# SPDX-License-Identifier: BSD-3-Clause
"""
Networks become one: which neurons merged
=========================================

Two parties have each trained a small network on digits, of which they have very unequal
shares. Nobody's rows leave. :class:`~skgems.GEMSMLPAggregator` merges the hidden layers
neuron by neuron: neurons that do nearly the same become one, be they of one party or of
both; those that never fire are dropped, the others kept.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

from skgems import GEMSMLPAggregator
from skgems.datasets import partition_dirichlet

# %%
# Two parties, other shares of every digit
# ----------------------------------------
X, y = load_digits(return_X_y=True)
X = X / 16.0
X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)
nodes = partition_dirichlet(y_train, 2, alpha=0.5, random_state=1)
networks = [
    MLPClassifier(25, solver="lbfgs", alpha=1.0, max_iter=2000, random_state=k).fit(
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
# The units that have neurons of both parties, those of fewest neurons first. Lines lead
# from the neurons of node 0, above, and of node 1, below, to the unit that they became.
# A picture shows what each of the 8 x 8 pixels does to a neuron, its weight times the
# pixel's standard deviation: blue where ink makes it fire, red where ink keeps it
# silent. Weights alone would show borders, where there is never ink and any weight will
# do.
#
# Some pairs have found much the same stroke, though each party trained on its own from
# first weights of its own, and the unit is between the two. The more neurons a unit
# has, the less they have in common.
colors = {"0": "tab:orange", "1": "tab:green"}
shared = [
    (unit, {node: [i for name, i in members if name == node] for node in colors})
    for unit, members in enumerate(report["members"])
    if {name for name, _ in members} == set(colors)
]
print(f"{len(shared)} of {report['n_units']} units have neurons of both nodes")
shared = sorted(shared, key=lambda pair: sum(map(len, pair[1].values())))[:6]


def draw(ax, weights, x, y, color):
    effect = weights * X_train.std(axis=0)
    picture = ax.inset_axes([x - 0.45, y - 0.45, 0.9, 0.9], transform=ax.transData)
    limit = np.abs(effect).max()
    picture.imshow(effect.reshape(8, 8), cmap="RdBu", vmin=-limit, vmax=limit)
    picture.set(xticks=[], yticks=[])
    picture.spines[:].set(color=color, linewidth=2.5)


widths = [max(map(len, own.values())) for _, own in shared]
total = sum(widths) + 0.5 * (len(widths) - 1)
fig, ax = plt.subplots(figsize=(0.75 * total + 1.2, 3.9), layout="constrained")
ax.set(xlim=(-0.5, total - 0.5), ylim=(-0.5, 3.5), aspect="equal")
ax.spines[:].set_visible(False)
ax.set_xticks([])
ax.set_yticks([3, 1.5, 0], ["node 0", "merged", "node 1"])
ax.tick_params(length=0)
left = 0.0
for (unit, own), width in zip(shared, widths, strict=True):
    center = left + (width - 1) / 2
    for node, height in (("0", 3.0), ("1", 0.0)):
        for place, neuron in enumerate(own[node]):
            x = center + place - (len(own[node]) - 1) / 2
            ax.plot([x, center], [height, 1.5], color=colors[node], linewidth=2)
            draw(ax, networks[int(node)].coefs_[0][:, neuron], x, height, colors[node])
    draw(ax, aggregate.coefs_[0][:, unit], center, 1.5, "black")
    left += width + 0.5
ax.set_title("Neurons of two nodes that became one unit")

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
