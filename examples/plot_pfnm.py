# SPDX-License-Identifier: BSD-3-Clause
"""
Networks whose hidden units are matched
=======================================

This example merges five networks and needs no rows to do it. Five nodes have each
trained a network with one hidden layer, from different random weights. The weights
cannot be averaged: unit 3 of one network has nothing to do with unit 3 of another.
:class:`~skgems.PFNMAggregator` finds out which units do the same work, and makes one
network from them.
"""

import sys
import warnings

import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import accuracy_score
from sklearn.neural_network import MLPClassifier

from skgems import PFNMAggregator
from skgems.datasets import partition_dirichlet
from skgems.pfnm import PoorMatchWarning
from skgems.plotting import MatchingDisplay

# %%
# Five nodes
# ----------
# The nodes have different digits, and different numbers of them. The shares of each
# class are drawn from a Dirichlet distribution.

X, y = load_digits(return_X_y=True)
X = X / 16
X_train, X_test = np.split(X, [1300])
y_train, y_test = np.split(y, [1300])
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
# The aggregator needs no rows, only the number of rows per class and node. If a node
# had more rows of a class, its outgoing weights to that class count more. With the rows
# of the nodes, one more message makes a last layer for the matched units. A large sigma
# matches units that have little in common, which a warning says.

aggregate = PFNMAggregator(networks, random_state=0).fit(n_class_samples=counts)


def predict_by_averaged_weights():
    """Predict by the plain mean of the weights, unit by unit."""
    coefs = np.mean([network.coefs_[0] for network in networks], axis=0)
    intercepts = np.mean([network.intercepts_[0] for network in networks], axis=0)
    Z = np.maximum(X_test @ coefs + intercepts, 0)
    logits = np.zeros((len(X_test), 10))
    for network in networks:
        labels = network.classes_
        logits[:, labels] += Z @ network.coefs_[1] + network.intercepts_[1]
    return logits.argmax(axis=1)


def predict_by_ensemble():
    """Predict by the mean of the nodes' probabilities."""
    probabilities = np.zeros((len(X_test), 10))
    for network in networks:
        probabilities[:, network.classes_] += network.predict_proba(X_test)
    return probabilities.argmax(axis=1)


def print_line(name, accuracy, n_units):
    print(f"{name:<24}{accuracy:>14.3f}{n_units:>14}")


print(f"{'':<24}{'test accuracy':>14}{'hidden units':>14}")
mean_accuracy = np.mean([network.score(X_test, y_test) for network in networks])
print_line("local network (mean)", mean_accuracy, 40)
accuracy = accuracy_score(y_test, predict_by_averaged_weights())
print_line("averaged weights", accuracy, 40)
accuracy = accuracy_score(y_test, predict_by_ensemble())
print_line("ensemble", accuracy, 5 * 40)
print_line("PFNM", aggregate.score(X_test, y_test), aggregate.n_units_[0])
with_rows = PFNMAggregator(networks, random_state=0)
with_rows.fit(X_train, y_train, nodes=nodes)
print_line("PFNM with rows", with_rows.score(X_test, y_test), with_rows.n_units_[0])
warnings.simplefilter("ignore", PoorMatchWarning)
for sigma in (0.5, 2.0):
    variant = PFNMAggregator(networks, sigma=sigma, random_state=0)
    variant.fit(n_class_samples=counts)
    accuracy = variant.score(X_test, y_test)
    print_line(f"PFNM, sigma={sigma}", accuracy, variant.n_units_[0])

# %%
# Which units were matched
# ------------------------
# Each column is a unit of the merged network. Units that most nodes share are first.

import matplotlib.pyplot as plt  # noqa: E402

display = MatchingDisplay.from_estimator(aggregate)

# %%
# This picture shows the incoming weights of the units that most nodes share, and of the
# local units that were matched to them.

display.plot_units((8, 8), n_units=10)

if len(sys.argv) > 1:
    display.figure_.savefig(sys.argv[1], dpi=120)
    print(f"picture saved as {sys.argv[1]}")
else:
    plt.show()
