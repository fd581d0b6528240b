# SPDX-License-Identifier: BSD-3-Clause
"""
A few more messages, and a node that leaves
===========================================

One message of moments gives nearly the pooled model, which is fitted on all rows at one
place. A server that may ask the hospitals a few times more gets the pooled model
itself. Averaging needs far more messages for that.

A hospital may also leave and want to be forgotten. The server adds up the sums of the
other hospitals again, and asks nobody. The guide has the recipes: :ref:`more_messages`
and :ref:`update_and_forget`.
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
# Each hospital has two digits. The picture shows how far the test loss is above that of
# the pooled model, after one to eight messages.

MESSAGES = [1, 3, 5, 8]


def excess_loss(model):
    loss = log_loss(y_test, model.predict_proba(X_test))
    return loss - log_loss(y_test, pooled.predict_proba(X_test))


# Averaging trains one unfitted classifier per node in rounds.
unfitted = [(name, SGDClassifier(loss="log_loss", random_state=0)) for name in NAMES]
losses_of_likelihood = []
losses_of_averaging = []
for n in MESSAGES:
    likelihood = GEMSLogisticAggregator(members, n_rounds=n, random_state=0)
    losses_of_likelihood.append(excess_loss(likelihood.fit(X, y, nodes=nodes)))
    averaging = ModelAveragingAggregator(unfitted, n_rounds=n, random_state=0)
    losses_of_averaging.append(excess_loss(averaging.fit(X, y, nodes=nodes)))
figure, axis = plt.subplots(figsize=(6, 3.5), layout="constrained")
axis.plot(
    MESSAGES, losses_of_averaging, "o-", color="#eda100", label="averaging in rounds"
)
axis.plot(
    MESSAGES, losses_of_likelihood, "o-", color="#2a78d6", label="likelihood, n_rounds"
)
axis.axhline(0, color="black", linewidth=1)
axis.set(xlabel="messages", ylabel="log-loss above pooled (nats)")
axis.legend(frameon=False)
for n, loss, loss_of_averaging in zip(
    MESSAGES, losses_of_likelihood, losses_of_averaging, strict=True
):
    print(
        f"{n} messages: {loss:6.3f} nats above pooled, "
        f"averaging {loss_of_averaging:6.3f}"
    )

# %%
# Leaving
# -------
# One hospital is forgotten. The second picture shows how much of the probability then
# moves on the rows of each hospital. A hospital that leaves takes its two digits with
# it, so probabilities on its own rows change completely. On other rows they hardly
# change. The model after forgetting equals a fit without the hospital, to the bit.

aggregate = GEMSLogisticAggregator(members, random_state=0, keep_replies=True)
aggregate.fit(X, y, nodes=nodes)


def probabilities_of_digits(model):
    """An array of one column a digit; a digit that the model does not know has 0."""
    probabilities = np.zeros((len(X), 10))
    probabilities[:, model.classes_] = model.predict_proba(X)
    return probabilities


before = probabilities_of_digits(aggregate)
changes = np.zeros((5, 5))  # by the hospital that left, and that of the rows
for i, leaving in enumerate(NAMES):
    after = probabilities_of_digits(deepcopy(aggregate).forget(leaving))
    remaining = [(name, clf) for name, clf in members if name != leaving]
    stays = nodes != leaving
    fitted_without = GEMSLogisticAggregator(remaining, random_state=0)
    fitted_without.fit(X[stays], y[stays], nodes=nodes[stays])
    # Equal to the bit, therefore no tolerance.
    assert np.array_equal(after, probabilities_of_digits(fitted_without))
    # Half the sum of absolute changes: the share of probability that moves.
    change = np.abs(after - before).sum(axis=1) / 2
    changes[i] = [change[nodes == name].mean() for name in NAMES]
figure, axis = plt.subplots(figsize=(6, 4), layout="constrained")
image = axis.imshow(changes, cmap="Blues", vmin=0, vmax=1)
for i, row in enumerate(changes):
    for j, value in enumerate(row):
        color = "white" if value > 0.5 else "black"
        axis.text(j, i, f"{value:.2f}", ha="center", va="center", color=color)
axis.set_xticks(range(5), NAMES)
axis.set_yticks(range(5), NAMES)
axis.set(xlabel="on the rows of", ylabel="when this one is forgotten")
figure.colorbar(image, label="probability that moves")
plt.show()
