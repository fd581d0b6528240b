# SPDX-License-Identifier: BSD-3-Clause
"""
Rounds of training between averages
===================================

This example compares four schedules of co-learning with a single average. A single
average of networks is poor if they started from different weights, or if the nodes have
different rows. In co-learning the nodes train again from the average, in several
rounds. The learning rate starts again in every round, and the rounds get longer once
the shared model has settled.
"""

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

from skgems import EnsembleAggregator, ModelAveragingAggregator
from skgems.averaging import Schedule

# %%
# Five nodes with a fifth of the rows each
# ----------------------------------------

X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X / 16, y, stratify=y, random_state=0)
nodes = np.random.RandomState(0).permutation(np.arange(len(y)) % 5)
net = MLPClassifier((32,), solver="sgd", batch_size=32, max_iter=200, tol=0)

# %%
# The four variants of the paper's ablation, round by round
# ---------------------------------------------------------

ROUNDS = [1, 3, 6]
curves = {}
for schedule in ("cyclical", "exponential"):
    for epochs in ("increasing", "fixed"):
        scores = []
        for n_rounds in ROUNDS:
            aggregate = ModelAveragingAggregator(
                net,
                n_rounds=n_rounds,
                local_epochs=1,
                learning_rate=0.05,
                schedule=Schedule(schedule, epochs=epochs, tol=0.1),
                random_state=0,
            ).fit(X, y, nodes=nodes)
            scores.append(aggregate.score(X_test, y_test))
        name = f"{schedule}, {epochs}"
        curves[name] = scores
        # This `aggregate` has the most rounds; `history_` has one entry per message.
        n_bytes = sum(
            message["bytes_sent"] + message["bytes_received"]
            for message in aggregate.history_
        )
        n_epochs = sum(message["epochs"] for message in aggregate.history_)
        megabytes = n_bytes / 1e6
        print(f"{name:24} {scores[-1]:.3f}  {n_epochs:3} epochs, {megabytes:.1f} MB")

# %%
# Models to compare it with
# -------------------------
# A single average of networks that started from different weights raises a warning.
# This example ignores it. The first line of the table shows how poor that average is.

import warnings  # noqa: E402

from sklearn.exceptions import ConvergenceWarning  # noqa: E402

from skgems.averaging import StartedApartWarning  # noqa: E402


def train_at_node(k, seed):
    local_net = clone(net).set_params(random_state=seed)
    return local_net.fit(X[nodes == k], y[nodes == k])


with warnings.catch_warnings():
    warnings.simplefilter("ignore", ConvergenceWarning)
    net.set_params(max_iter=16, learning_rate_init=0.02)
    different_starts = [train_at_node(k, seed=k) for k in range(5)]
    equal_starts = [train_at_node(k, seed=0) for k in range(5)]
    pooled = clone(net).set_params(random_state=0).fit(X, y)
    warnings.simplefilter("ignore", StartedApartWarning)
    models = {
        "one average, apart": ModelAveragingAggregator(different_starts).fit(),
        "one average": ModelAveragingAggregator(equal_starts).fit(),
        "ensemble": EnsembleAggregator(different_starts).fit(),
        "pooled rows": pooled,
    }
score_of = {name: model.score(X_test, y_test) for name, model in models.items()}
for name, score in score_of.items():
    print(f"{name:24} {score:.3f}")

# %%
# One picture
# -----------

import matplotlib.pyplot as plt  # noqa: E402

figure, ax = plt.subplots(layout="constrained")
for name, scores in curves.items():
    ax.plot(ROUNDS, scores, marker="o", label=name)
for name, color in (("ensemble", "0.6"), ("pooled rows", "0.2")):
    ax.axhline(score_of[name], color=color, linestyle=":", label=name)
ax.set(xlabel="rounds", ylabel="test accuracy", xscale="log")
ax.set_xticks(ROUNDS, [str(n) for n in ROUNDS])
ax.xaxis.set_minor_locator(plt.NullLocator())
ax.legend()
plt.show()
