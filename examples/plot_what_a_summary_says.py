# SPDX-License-Identifier: BSD-3-Clause
"""
What a summary says about the rows
==================================

A summary holds no rows, but sums over rows. How much do these say? Here an attacker
reads summaries, nothing else, and tries two things: to *reconstruct* rows, and to find
out whether a row that he has in hand was *among* them. Of few rows both succeed
completely, with the defaults. What each choice helps is measured. See :ref:`privacy`
for what to choose.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from scipy.linalg import qr
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from skgems import GEMSLogisticAggregator
from skgems.federation import RowsExposedWarning
from skgems.moments import ClassMoments
from skgems.spaces import Accuracy, SpaceProfile, accuracy_profile

PIXELS, LABELS = load_digits(return_X_y=True)
DIGITS = [3, 5, 8]


def node(n, seed=0):
    """Rows of a node with so many of each of three digits; and all others."""
    rng = np.random.RandomState(seed)
    drawn = [rng.permutation(np.flatnonzero(LABELS == digit)) for digit in DIGITS]
    own = np.concatenate([rows[:n] for rows in drawn])
    return PIXELS[own] / 16, LABELS[own], [rows[n:] for rows in drawn]


def summarize(X, y, params=None, **options):
    """What a node sends, where min_rows lets it."""
    classifier = LogisticRegression(max_iter=1000).fit(X, y)
    aggregator = GEMSLogisticAggregator(random_state=0, **(params or {}))
    options = {"min_rows": 1, "space": False} | options
    with warnings.catch_warnings():  # it says that rows can be found; here they shall
        warnings.simplefilter("ignore", RowsExposedWarning)
        return aggregator.summarize(classifier, X, y, name="node", **options)


def told(summary, task="moments"):
    """One answer out of the summary."""
    answers = summary.message.content["answers"].values()
    return next(answer["reply"] for answer in answers if answer["task"] == task)


# %%
# Rows from moments
# -----------------
# The scatter of n rows about their mean has n - 1 directions, those between the rows.
# So rows are known but for a rotation within these; of two rows there is only a sign,
# and both are known. That pixels are whole numbers does the rest. Whole-numbered
# vectors along the scatter's directions are a *lattice*, in which, measured by the
# inverse of the scatter, all rows are equally far apart: the squared distance is 2, and
# no shorter vector is likely. Reduction of the lattice (LLL) finds these differences,
# and the mean of a class, or cluster, the rows.


def reduced(U, embed):
    """A basis of short vectors; U are whole numbers, embed gives their places."""
    R, k, swaps = np.linalg.qr(embed(U).T, mode="r"), 1, 0
    while k < len(U) and swaps < 12000:
        for j in range(k - 1, -1, -1):
            times = np.rint(R[j, k] / R[j, j])
            U[k] -= times * U[j]
            R[:, k] -= times * R[:, j]
        if R[k, k] ** 2 + R[k - 1, k] ** 2 >= 0.99 * R[k - 1, k - 1] ** 2:
            k += 1
            continue
        U[[k - 1, k]], R[:, [k - 1, k]] = U[[k, k - 1]], R[:, [k, k - 1]]
        turn = R[[k - 1, k], k - 1] / np.hypot(*R[[k - 1, k], k - 1])
        turn = np.array([turn, [-turn[1], turn[0]]])
        R[[k - 1, k]] = turn @ R[[k - 1, k]]
        swaps, k = swaps + 1, max(k - 1, 1)
        if swaps % 200 == 0:  # of rounding
            R = np.linalg.qr(embed(U).T, mode="r")
    return U


def differences(scatter, rank, sharpness):
    """Whole vectors of squared length 2 by the inverse of a scatter of low rank."""
    values, vectors = np.linalg.eigh(scatter)
    if values[-rank] < 1e-9 * values[-1]:  # rows that are not independent
        return np.zeros((0, len(scatter))), vectors
    V, unit = vectors[:, -rank:], vectors[:, -rank:] / np.sqrt(values[-rank:])
    order = qr(V.T, pivoting=True)[2]
    pivots, tests = order[:rank], order[rank : rank + int(0.6 * rank) + 4]
    T = V @ np.linalg.inv(V[pivots])  # from whole numbers at pivots to all pixels

    def embed(U):
        Z = U[:, :rank]
        missed = Z @ T[tests].T - U[:, rank:]
        return np.hstack([Z @ (T.T @ unit), sharpness * missed])

    U = np.eye(rank + len(tests))
    U[:rank, rank:] = np.rint(T[tests].T)
    Z = np.rint(reduced(U, embed)[:, :rank] @ T.T)
    lengths = np.einsum("ij,ij->i", Z @ unit, Z @ unit)
    known = {tuple(s * z) for z in Z[np.abs(lengths - 2) < 0.1] for s in (1, -1)}
    new = list(known)
    while new and len(known) <= rank * (
        rank + 1
    ):  # sums of two that are as short again
        one, other = np.array(new), np.array(list(known))
        i, j = np.nonzero(np.abs(one @ unit @ (other @ unit).T + 1) < 0.05)
        new = list({tuple(z) for z in one[i] + other[j]} - known)
        known |= set(new)
    return np.array(sorted(known)).reshape(-1, len(scatter)), unit


def found_rows(moments, c, sharpness=1e6):
    """Rows of a class as whole numbers of 0 to 16, as far as they can be found."""
    own = moments.columns == c
    if len(moments.groups) == 1:  # the scatter of all classes: rows of all
        own[:] = True
    counts, means = moments.counts[own], 16 * (moments.origin + moments.means)[own]
    rank = int(counts.sum()) - len(counts)
    if moments.is_diagonal or not 0 < rank < moments.n_features:
        return np.zeros((0, moments.n_features))
    scatter = 256 * moments.scatter[min(c, len(moments.groups) - 1)]
    Z, unit = differences(scatter, rank, sharpness)
    products, found = np.rint((Z @ unit) @ (Z @ unit).T), []
    left = np.ones(len(Z), dtype=bool)
    while left.any():
        # Those of one cluster hang together; those from one row have products 1.
        part = np.arange(len(Z)) == np.argmax(left)
        while (more := (products[part] != 0).any(axis=0) | part).sum() > part.sum():
            part = more
        left &= ~part
        star = [np.argmax(part)]
        beside = np.flatnonzero(part & (products[star[0]] == 1))
        if len(beside):
            third = beside[0]
            star += [third, *beside[products[third, beside] == 1]]
        away, n = Z[star], len(star) + 1
        for mean in means[counts == n]:
            for side in (away, -away):
                first = mean + side.sum(axis=0) / n
                rows = np.vstack([first, first - side])
                whole = np.abs(rows - rows.round()).max() < 0.2
                if whole and rows.min() > -0.5 and rows.max() < 16.5:
                    found.append(rows.round())
    return np.vstack(found) if found else np.zeros((0, moments.n_features))


# %%
# The same for digits of which 2, 5, 10 and 20 were summed: above what the node has,
# below what the attacker found.

figure, axes = plt.subplots(8, 10, figsize=(7, 6), layout="constrained")
for pair, n in zip(axes.reshape(4, 2, 10), [2, 5, 10, 20], strict=True):
    X, y, _ = node(n)
    moments = ClassMoments.from_arrays(told(summarize(X, y))["moments"])
    found = found_rows(moments, 0)
    true = 16 * X[y == DIGITS[0]]
    for i, column in enumerate(pair.T):
        shown = [true[i : i + 1], np.zeros((0, 64))]
        if i < n and len(found):
            shown[1] = found[[np.argmin(np.abs(found - true[i]).sum(axis=1))]]
        for axis, rows in zip(column, shown, strict=True):
            axis.set(xticks=[], yticks=[], frame_on=False)
            if len(rows):
                axis.imshow(rows.reshape(8, 8), cmap="gray_r", vmin=0, vmax=16)
    pair[0, 0].set_ylabel(f"{n} rows", fontsize=8)
    pair[1, 0].set_ylabel("found", fontsize=8)

# %%
# How many of the n rows of a digit are found exactly, by what is sent.

CHOICES = {
    "default": ({}, {}),
    "n_components=1": ({"n_components": 1}, {}),
    'dtype="float32"': ({}, {"dtype": "float32"}),
    'dtype="float16"': ({}, {"dtype": "float16"}),
    "rank=5": ({}, {"rank": 5}),
    'moments="shared"': ({"moments": "shared"}, {}),
    'moments="diagonal"': ({"moments": "diagonal"}, {}),
}
ROWS = [2, 5, 10, 20, 40]
print(f"{'rows found of':20s}", *(f"{n:4d}" for n in ROWS))
for choice, (params, options) in CHOICES.items():
    hits = []
    for n in ROWS:
        X, y, _ = node(n)
        moments = told(summarize(X, y, params, **options))["moments"]
        moments, own = ClassMoments.from_arrays(moments), 16 * X[y == DIGITS[0]]
        sharpness = {"float32": 1e3, "float16": 20.0}.get(options.get("dtype"), 1e6)
        found = found_rows(moments, 0, sharpness)
        hits.append(int((own[:, None] == found).all(axis=2).any(axis=1).sum()))
    print(f"{choice:20s}", *(f"{hit:4d}" for hit in hits))

# %%
# Was this row among them?
# ------------------------
# The attacker has 40 other rows of each digit, and says of others whether they are the
# node's, by
#
# - how confident the node's classifier is, which it shows whatever else it sends;
# - how much closer they are to the mean that was sent, or a mean of clusters,
#   than to that of the rows that the attacker has;
# - how much they agree with the gradient of the classifier's loss;
# - how far they are from the directions of the scatter.
#
# Areas under the ROC curve: 0.5 is a guess, 1 is knowledge.


def areas(n, params, options, n_draws=3):
    """By classifier, means, gradient and scatter."""
    found = []
    for seed in range(n_draws):
        X, y, others = node(n, seed)
        summary = summarize(X, y, params, **options)
        moments = ClassMoments.from_arrays(told(summary)["moments"])
        gradient = told(summary)["gradient"]
        W, b = summary.network.coefs[-1], summary.network.intercepts[-1]
        for c, digit in enumerate(DIGITS):
            known, fresh = np.split(PIXELS[others[c][:80]] / 16, 2)
            tried = np.vstack([X[y == digit], fresh])
            is_own = np.arange(len(tried)) < n
            logits = tried @ W + b
            confidence = logits[:, c] - np.delete(logits, c, axis=1).max(axis=1)
            base = known.mean(axis=0)
            precision = np.linalg.inv(np.cov(known.T) + 0.01 * np.eye(64))
            own = moments.columns == c
            means = (moments.origin + moments.means)[own]
            closer = [
                (tried - (mean + base) / 2) @ precision @ (mean - base)
                for mean in means
            ]
            slope = (moments.origin - tried) @ precision @ gradient[:-1, c]
            result = [confidence, np.max(closer, axis=0), slope]
            if not moments.is_diagonal:
                g = min(c, len(moments.groups) - 1)
                parts = own.sum() if len(moments.groups) > 1 else len(moments.counts)
                rank = int(moments.group_counts[g]) - parts
                if rank < 64:
                    away = np.linalg.eigh(moments.scatter[g])[1][:, : 64 - rank]
                    far = [np.linalg.norm((tried - m) @ away, axis=1) for m in means]
                    result.append(-np.min(far, axis=0))
            scores = [roc_auc_score(is_own, score) for score in result]
            found.append(scores + [np.nan] * (4 - len(scores)))
    return np.mean(found, axis=0)


SIZES = [5, 10, 20, 40, 80]
WAYS = ["classifier", "means", "gradient", "scatter"]
table = {
    choice: np.array([areas(n, *given) for n in SIZES])
    for choice, given in CHOICES.items()
    if choice != 'dtype="float32"'
}
print(f"\n{'AUC, rows a class':31s}", *(f"{n:5d}" for n in SIZES))
for choice, values in table.items():
    for way, row in zip(WAYS, values.T, strict=True):
        if not np.isnan(row).all():
            print(f"{choice:20s}{way:11s}", *(f"{value:5.2f}" for value in row))
figure, axis = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
LINES = [
    ("default", 3, "scatter", "#c1272d", "-"),
    ("rank=5", 3, "scatter, rank=5", "#c1272d", "--"),
    ('moments="shared"', 3, 'scatter, moments="shared"', "#c1272d", ":"),
    ("default", 1, "means of clusters", "#2a78d6", "-"),
    ("n_components=1", 1, "means, n_components=1", "#2a78d6", "--"),
    ("default", 0, "the classifier alone", "#777777", "-"),
]
for choice, way, label, color, style in LINES:
    values = table[choice][:, way]
    axis.plot(SIZES, values, color=color, linestyle=style, label=label)
axis.set(xlabel="rows of the class", ylabel="AUC of membership", ylim=(0.45, 1.02))
axis.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))

# %%
# Radii
# -----
# With the accuracy as criterion a space says how far the model may move before it
# loses rows. Certified radii are functions of single rows, sent to the last digit:
# whoever has a row computes its radius and looks for it.

X, y, others = node(40)
summary = summarize(X, y, {"construction": "certified"}, space=True, classes=DIGITS)
profile = SpaceProfile.from_arrays(told(summary, "space"), Accuracy(), "certified")


def has_radius(row, c):
    """Whether a row's own radius is among those told."""
    place = profile.center, profile.metric
    own = accuracy_profile(row[None], np.array([c]), *place, construction="certified")
    return any(
        np.abs(profile.radii.radii / own.radii - 1).min() < 1e-9 for _ in own.radii
    )


own = np.mean(
    [has_radius(*pair) for pair in zip(X, np.searchsorted(DIGITS, y), strict=True)]
)
fresh = PIXELS[others[0][:40]] / 16
no_own = np.mean([has_radius(row, 0) for row in fresh])
print(f"\nradius is told of {own:.0%} of the node's rows, {no_own:.0%} of others")
plt.show()
