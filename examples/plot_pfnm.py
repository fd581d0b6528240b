# SPDX-License-Identifier: BSD-3-Clause
"""
Networks whose hidden units are matched
=======================================

Five parties have each trained a network with one hidden layer, from different random
starts. The weights cannot be averaged: unit 3 of one network has nothing to do with
unit 3 of another. :class:`~skgems.PFNMAggregator` finds out which units stand for the
same thing, and builds one network of them.
"""

import sys

import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import accuracy_score
from sklearn.neural_network import MLPClassifier

from skgems import PFNMAggregator
from skgems.datasets import partition_dirichlet
from skgems.plotting import MatchingDisplay

# %%
# Five parties
# ------------
# Their digits differ, in number and in kind: Dirichlet shares of each class.

X, y = load_digits(return_X_y=True)
X = X / 16
X_train, y_train, X_test, y_test = X[:1300], y[:1300], X[1300:], y[1300:]
nodes = partition_dirichlet(y_train, 5, alpha=0.5, min_size=100, random_state=0)


def local_network(seed):
    return MLPClassifier(
        (40,), learning_rate_init=0.01, alpha=0.1, tol=1e-3, random_state=seed
    )


networks = [
    local_network(k).fit(X_train[nodes == k], y_train[nodes == k]) for k in range(5)
]
counts = np.array([np.bincount(y_train[nodes == k], minlength=10) for k in range(5)])

# %%
# One network of matched units
# ----------------------------
# No rows are needed. What is known of a class goes by how many rows of it a node had.

aggregate = PFNMAggregator(networks, random_state=0).fit(n_class_samples=counts)


def averaged():
    """The plain mean of the weights, unit by unit."""
    hidden = np.mean([n.coefs_[0] for n in networks], axis=0)
    bias = np.mean([n.intercepts_[0] for n in networks], axis=0)
    Z = np.maximum(X_test @ hidden + bias, 0)
    logits = np.zeros((len(X_test), 10))
    for network in networks:
        labels = network.classes_
        logits[:, labels] += Z @ network.coefs_[1] + network.intercepts_[1]
    return logits.argmax(axis=1)


def ensemble():
    """The mean of the nodes' probabilities."""
    total = np.zeros((len(X_test), 10))
    for network in networks:
        total[:, network.classes_] += network.predict_proba(X_test)
    return total.argmax(axis=1)


n_local = sum(network.coefs_[0].shape[1] for network in networks)
table = {
    "local network (mean)": (np.mean([n.score(X_test, y_test) for n in networks]), 40),
    "averaged weights": (accuracy_score(y_test, averaged()), 40),
    "ensemble": (accuracy_score(y_test, ensemble()), n_local),
    "PFNM": (aggregate.score(X_test, y_test), aggregate.n_units_[0]),
}
for sigma in (0.5, 2.0):
    other = PFNMAggregator(networks, sigma=sigma, random_state=0)
    other.fit(n_class_samples=counts)
    table[f"PFNM, sigma={sigma}"] = other.score(X_test, y_test), other.n_units_[0]
print(f"{'':<24}{'test accuracy':>14}{'hidden units':>14}")
for name, (score, units) in table.items():
    print(f"{name:<24}{score:>14.3f}{units:>14}")

# %%
# Which units form which
# ----------------------
# Each column is a unit of the merged network, the most shared ones first.

import matplotlib.pyplot as plt  # noqa: E402

display = MatchingDisplay.from_estimator(aggregate)

# %%
# The incoming weights of the most shared units, and the local units they are made of.

display.plot_units((8, 8), n_units=10)

if len(sys.argv) > 1:
    display.figure_.savefig(sys.argv[1], dpi=120)
    print(f"picture saved as {sys.argv[1]}")
else:
    plt.show()
