# SPDX-License-Identifier: BSD-3-Clause
"""
Networks merged neuron by neuron
================================

This example merges the networks of two nodes into one network, and shows which neurons
became one unit. Each node has trained a small network on handwritten digits, and their
shares of the ten digits are very unequal. No rows leave the nodes.

:class:`~skgems.GEMSMLPAggregator` merges the hidden layers neuron by neuron. Neurons
that do nearly the same become one unit, from one node or from both. Neurons that never
fire are dropped. All others are kept.
"""

from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

from skgems import GEMSMLPAggregator
from skgems.datasets import partition_dirichlet
from skgems.gems import HiddenLayers

# %%
# Two nodes with unequal shares of every digit
# --------------------------------------------
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
aggregate = GEMSMLPAggregator(
    networks, hidden_layers=HiddenLayers(epsilon=0.3), random_state=0
)
aggregate.fit(X_train, y_train, nodes=nodes)
report = aggregate.layer_report_[0]
print(f"aggregate:    {aggregate.score(X_test, y_test):.3f}")
print({name: report[name] for name in ("n_in", "kept", "merged", "dropped", "n_units")})

# %%
# Which neurons merged
# --------------------
# The picture shows the six units with the fewest neurons among those that have neurons
# of both nodes. The neurons of node 0 are above, and those of node 1 are below. Lines
# lead from them to the unit that they became.
#
# A square shows how each of the 8 x 8 pixels acts on a neuron. The value is the weight
# times the standard deviation of the pixel. Blue means that ink makes the neuron fire,
# and red means that ink keeps it silent. The weights alone would show the borders,
# where there is never ink and every weight is possible.
#
# Some pairs have learned nearly the same stroke, although the nodes trained
# independently and from different first weights. Their unit is between the two. The
# more neurons a unit has, the less they have in common.
colors = {"0": "tab:orange", "1": "tab:green"}  # by the name of the node


@dataclass(kw_only=True)
class SharedUnit:
    """A unit of the aggregate that has neurons of both nodes."""

    unit: int
    neurons: dict[str, list[int]]  # by the name of the node

    @property
    def n_neurons(self):
        return sum(len(neurons) for neurons in self.neurons.values())

    @property
    def width(self):
        """In squares, of the wider of the two lines of neurons."""
        return max(len(neurons) for neurons in self.neurons.values())


shared_units = []
for unit, members in enumerate(report["members"]):
    neurons = {node: [i for name, i in members if name == node] for node in colors}
    if all(neurons.values()):
        shared_units.append(SharedUnit(unit=unit, neurons=neurons))
print(f"{len(shared_units)} of {report['n_units']} units have neurons of both nodes")
drawn_units = sorted(shared_units, key=lambda shared: shared.n_neurons)[:6]


def draw_square(ax, weights, x, y, color):
    effect = weights * X_train.std(axis=0)
    square = ax.inset_axes([x - 0.45, y - 0.45, 0.9, 0.9], transform=ax.transData)
    limit = np.abs(effect).max()
    square.imshow(effect.reshape(8, 8), cmap="RdBu", vmin=-limit, vmax=limit)
    square.set(xticks=[], yticks=[])
    square.spines[:].set(color=color, linewidth=2.5)


gap = 0.5  # between units, in squares
total_width = sum(shared.width for shared in drawn_units) + gap * (len(drawn_units) - 1)
fig, ax = plt.subplots(figsize=(0.75 * total_width + 1.2, 3.9), layout="constrained")
ax.set(xlim=(-0.5, total_width - 0.5), ylim=(-0.5, 3.5), aspect="equal")
ax.spines[:].set_visible(False)
ax.set_xticks([])
ax.set_yticks([3, 1.5, 0], ["node 0", "merged", "node 1"])
ax.tick_params(length=0)
left = 0.0
for shared in drawn_units:
    center = left + (shared.width - 1) / 2
    for node, height in (("0", 3.0), ("1", 0.0)):
        neurons = shared.neurons[node]
        incoming_weights = networks[int(node)].coefs_[0]
        for position, neuron in enumerate(neurons):
            x = center + position - (len(neurons) - 1) / 2
            ax.plot([x, center], [height, 1.5], color=colors[node], linewidth=2)
            draw_square(ax, incoming_weights[:, neuron], x, height, colors[node])
    draw_square(ax, aggregate.coefs_[0][:, shared.unit], center, 1.5, "black")
    left += shared.width + gap
ax.set_title("Neurons of two nodes that became one unit")

# %%
# How small may the network be?
# -----------------------------
# With ``max_units``, units are merged until no more than this number is left. The pairs
# that change the network least are merged first.
sizes = [5, 10, 15, 20, 30, 40, 50]
scores = []
for size in sizes:
    bounded = GEMSMLPAggregator(
        networks,
        hidden_layers=HiddenLayers(epsilon=1e-3, max_units=size),
        random_state=0,
    )
    scores.append(bounded.fit(X_train, y_train, nodes=nodes).score(X_test, y_test))

fig, ax = plt.subplots(figsize=(5, 3))
ax.plot(sizes, scores, "o-")
ax.set(xlabel="largest number of hidden units", ylabel="test accuracy")
fig.tight_layout()
plt.show()
