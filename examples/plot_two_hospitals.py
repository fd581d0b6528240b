# SPDX-License-Identifier: BSD-3-Clause
"""
One classifier of parties that keep their rows
==============================================

Three islands have measured penguins, and each has fitted a classifier of its own. No
island has all three species, so no classifier can be right everywhere. The rows stay on
the islands. Each sends one small file, and :class:`~skgems.GEMSLogisticAggregator`
makes one classifier of the files.

It is compared with what else could be done: keep the classifiers of the islands, let
them vote, average their weights, make a linear discriminant analysis of sums, or bring
the rows to one place after all. Then the same with handwritten digits: five parties,
two digits each.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import RepeatedStratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgems import (
    EnsembleAggregator,
    GEMSLogisticAggregator,
    ModelAveragingAggregator,
    PooledAggregator,
)
from skgems.datasets import load_penguins, partition_by_label

# %%
# Three islands
# -------------
# Bill, flippers and mass tell the species. Who lives where:

X, y, islands = load_penguins()
species = np.unique(y)
print(f"{'':10}" + "".join(f"{name:>10}" for name in species))
for island in np.unique(islands):
    counts = [np.sum(y[islands == island] == name) for name in species]
    print(f"{island:10}" + "".join(f"{n:>10}" for n in counts))

# %%
# What a party does
# -----------------
# It fits a classifier on its own rows, as it always did. Torgersen has one species, and
# says that one.


def fitted(X, y):
    if len(np.unique(y)) == 1:
        return DummyClassifier().fit(X, y)
    return make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)


# %%
# Then ``summarize`` makes the file of the classifier and of sums over the rows. This
# file is all that leaves. What it says about the rows, and what to choose where it says
# too much, is shown in :ref:`sphx_glr_auto_examples_plot_what_a_summary_says.py`.


def sent(agg, clf, X, y, name, folder):
    """Write the file of one party; return its path."""
    path = Path(folder) / f"{name}.safetensors"
    agg.summarize(clf, X, y, name=str(name)).save(path)
    return path


# %%
# What can be made of that
# ------------------------
# At the server a list of files stands where fitted classifiers would, and ``fit`` needs
# no rows.


def compare(X, y, nodes, X_test, y_test):
    """Accuracy on test rows of every way to get one classifier, and bytes sent."""
    names = np.unique(nodes)
    clfs = [fitted(X[nodes == name], y[nodes == name]) for name in names]
    agg = GEMSLogisticAggregator(random_state=0)
    with tempfile.TemporaryDirectory() as folder:
        paths = [
            sent(agg, clf, X[nodes == name], y[nodes == name], name, folder)
            for name, clf in zip(names, clfs, strict=True)
        ]
        size = np.mean([path.stat().st_size for path in paths])
        agg.set_params(estimators=paths).fit()
    made = {
        **{f"{name} alone": clf for name, clf in zip(names, clfs, strict=True)},
        "vote": EnsembleAggregator(clfs).fit(),
        "averaged weights": ModelAveragingAggregator(clfs).fit(),
        "LDA from sums": PooledAggregator(pooled=LinearDiscriminantAnalysis()).fit(
            X, y, nodes=nodes
        ),
        "skgems, one file each": agg,
        "all rows at one place": fitted(X, y),
    }
    scores = {name: model.score(X_test, y_test) for name, model in made.items()}
    return scores | {"kilobytes a party": size / 1000}


def mean_of_folds(X, y, nodes, n_splits, n_repeats):
    """Every row is a test row once in every repeat."""
    folds = RepeatedStratifiedKFold(
        n_splits=n_splits, n_repeats=n_repeats, random_state=0
    )
    runs = [
        compare(X[train], y[train], nodes[train], X[test], y[test])
        for train, test in folds.split(X, y)
    ]
    return {name: np.mean([run[name] for run in runs]) for name in runs[0]}


def show(title, table):
    """Print a table, and take the size of the files out of it."""
    kilobytes = table.pop("kilobytes a party")
    print(f"\n{title}, test accuracy")
    for name, score in table.items():
        print(f"  {name:<24}{score:.3f}")
    print(f"  a file has {kilobytes:.0f} kB")


# %%
# Penguins
# --------
# The means of five times five folds. A vote knows no better than one island. The
# classifier of the files is as good as one of all rows.

tables = {"penguins": mean_of_folds(X, y, islands, 5, 5)}
show("penguins", tables["penguins"])

# %%
# Digits
# ------
# Five parties know two digits each. Here an average of weights is spoiled as well.

X, y = load_digits(return_X_y=True)
digits = np.array([f"party {k}" for k in partition_by_label(y, 5, random_state=0)])
tables["digits"] = mean_of_folds(X / 16, y, digits, 3, 1)
show("digits", tables["digits"])

# %%
# One picture
# -----------

import matplotlib.pyplot as plt  # noqa: E402

plt.rcParams["font.size"] = 14
figure, ax = plt.subplots(figsize=(6.4, 4.4), layout="constrained")
labels, values = zip(*tables["penguins"].items(), strict=True)
colours = ["tab:orange" if label.startswith("skgems") else "0.7" for label in labels]
bars = ax.barh(labels, values, color=colours)
ax.bar_label(bars, fmt="%.3f", padding=3)
ax.set_title("penguins: test accuracy", x=0.3)
ax.set(xlim=(0, 1.2), xticks=[])
ax.spines[["top", "right", "bottom"]].set_visible(False)
ax.invert_yaxis()

if len(sys.argv) > 1:
    Path(sys.argv[1]).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(sys.argv[1], dpi=120)
    print(f"\npicture saved as {sys.argv[1]}")
else:
    plt.show()

# %%
# What to try next
# ----------------
# Your own tables: ``skgems.combine`` tries several ways and says which is best.

print("""
What to try next
  skgems.combine(clfs, X, y, nodes=party)   several ways, the best kept
  examples/plot_what_a_summary_says.py      what a file says about the rows in it
  docs/user_guide/command_line.rst          the same from a shell, for tables and files
  make docs                                 the guide, the examples and the API""")
