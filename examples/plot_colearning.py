# SPDX-License-Identifier: BSD-3-Clause
"""
Rounds of training between averages
===================================

One average of networks is poor where they started apart, and where nodes saw other
rows. In co-learning nodes train again from the average: the learning rate starts anew
in every round, and the rounds get longer once the shared model has settled.
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

from skgems import EnsembleAggregator, ModelAveragingAggregator

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
                schedule=schedule,
                epochs=epochs,
                epsilon=0.1,
                random_state=0,
            ).fit(X, y, nodes=nodes)
            scores.append(aggregate.score(X_test, y_test))
        name = f"{schedule}, {epochs}"
        curves[name] = scores
        sent = sum(
            entry["bytes_sent"] + entry["bytes_received"]
            for entry in aggregate.history_
        )
        total = sum(entry["epochs"] for entry in aggregate.history_)
        print(f"{name:24} {scores[-1]:.3f}  {total:3} epochs, {sent / 1e6:.1f} MB")

# %%
# What it is compared with
# ------------------------
# Networks that started from different weights draw a warning, which is what the first
# line of the table is there to show.

import warnings  # noqa: E402

from sklearn.exceptions import ConvergenceWarning  # noqa: E402

from skgems.averaging import StartedApartWarning  # noqa: E402


def train(k, seed):
    local = MLPClassifier(**{**net.get_params(), "random_state": seed})
    return local.fit(X[nodes == k], y[nodes == k])


with warnings.catch_warnings():
    warnings.simplefilter("ignore", ConvergenceWarning)
    net.set_params(max_iter=16, learning_rate_init=0.02)
    apart = [train(k, seed=k) for k in range(5)]
    alike = [train(k, seed=0) for k in range(5)]
    pooled = MLPClassifier(**net.get_params()).fit(X, y)
    warnings.simplefilter("ignore", StartedApartWarning)
    average_apart = ModelAveragingAggregator(apart).fit()
others = {
    "one average, apart": average_apart.score(X_test, y_test),
    "one average": ModelAveragingAggregator(alike).fit().score(X_test, y_test),
    "ensemble": EnsembleAggregator(apart).fit().score(X_test, y_test),
    "pooled rows": pooled.score(X_test, y_test),
}
for name, score in others.items():
    print(f"{name:24} {score:.3f}")

# %%
# One picture
# -----------

import matplotlib.pyplot as plt  # noqa: E402

figure, ax = plt.subplots(layout="constrained")
for name, scores in curves.items():
    ax.plot(ROUNDS, scores, marker="o", label=name)
for name, colour in (("ensemble", "0.6"), ("pooled rows", "0.2")):
    ax.axhline(others[name], color=colour, linestyle=":", label=name)
ax.set(xlabel="rounds", ylabel="test accuracy", xscale="log")
ax.set_xticks(ROUNDS, [str(n) for n in ROUNDS])
ax.xaxis.set_minor_locator(plt.NullLocator())
ax.legend()
plt.show()
