# SPDX-License-Identifier: BSD-3-Clause
"""
One classifier for sites that keep their rows
=============================================

Three islands have measured penguins, and each has fitted its own classifier. No island
has all three species, so no local classifier can be right everywhere. The rows stay on
the islands. Each island sends one small file, and
:class:`~skgems.GEMSLogisticAggregator` makes one classifier from the files.

The example compares it with the local classifiers, with their vote, and with the
average of their weights. It also compares it with a linear discriminant analysis from
sums, and with the classifier fitted on all rows at one place. Noise on the sums then
hides single penguins. At the end are handwritten digits, for five sites with two digits
each.
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
    Disclosure,
    EnsembleAggregator,
    GEMSLogisticAggregator,
    ModelAveragingAggregator,
    PooledAggregator,
    Privacy,
)
from skgems.datasets import load_penguins, partition_by_label
from skgems.guard import inspect

# %%
# Three islands
# -------------
# Each row is a penguin with four measurements: bill length and depth, flipper length,
# and mass. The table shows how many penguins of each species live on each island.

X, y, islands = load_penguins()
species = np.unique(y)
print(f"{'':10}" + "".join(f"{name:>10}" for name in species))
for island in np.unique(islands):
    counts = [np.sum(y[islands == island] == name) for name in species]
    print(f"{island:10}" + "".join(f"{n:>10}" for n in counts))

# %%
# What a site does
# ----------------
# Each site fits a classifier on its own rows, as always. Torgersen has only one
# species, so its classifier always predicts this one.


def fit_classifier(X, y):
    if len(np.unique(y)) == 1:
        return DummyClassifier().fit(X, y)
    return make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)


# %%
# Then ``summarize`` writes the classifier and sums over the rows to a file. Nothing
# else leaves the site. Another example shows what the file reveals about the rows, and
# how to reveal less: :ref:`sphx_glr_auto_examples_plot_what_a_summary_says.py`.


def write_file(aggregator, clf, X, y, *, name, path):
    aggregator.summarize(clf, X, y, name=str(name)).save(path)


# %%
# What leaves a site
# ------------------
# Sums are not anonymous. Whoever knows a penguin can guess from a file whether it was
# measured, and :func:`~skgems.guard.inspect` says how well before the file is sent.
# The same text says in ``reveals`` and in a line for each field what else it tells.


def print_what_leaves(X, y, nodes):
    aggregator = GEMSLogisticAggregator(random_state=0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file.safetensors"
        for name in np.unique(nodes):
            rows = nodes == name
            clf = fit_classifier(X[rows], y[rows])
            write_file(aggregator, clf, X[rows], y[rows], name=name, path=path)
            lines = inspect(path).overview
            print(f"\n{name} sends {lines['holds']}")
            print(f"{lines['guess']}")


print_what_leaves(X, y, islands)

# %%
# What the server does
# --------------------
# At the server, a list of files replaces the fitted classifiers, and ``fit`` needs no
# rows.


def fit_from_files(aggregator, paths):
    aggregator.set_params(estimators=paths).fit()


# %%
# What to compare it with
# -----------------------
# The function below returns the test accuracies of these classifiers:
#
# - each local classifier, their vote, and their averaged weights;
# - a linear discriminant analysis from sums;
# - the classifier from the files;
# - the classifier fitted on all rows at one place.


def compare(X, y, nodes, X_test, y_test):
    """Test accuracies of all classifiers by name, and the mean size of a file in kB."""
    names = np.unique(nodes)
    clfs = [fit_classifier(X[nodes == name], y[nodes == name]) for name in names]
    aggregator = GEMSLogisticAggregator(random_state=0)
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{name}.safetensors" for name in names]
        for name, clf, path in zip(names, clfs, paths, strict=True):
            rows = nodes == name
            write_file(aggregator, clf, X[rows], y[rows], name=name, path=path)
        kilobytes = np.mean([path.stat().st_size for path in paths]) / 1000
        fit_from_files(aggregator, paths)
    lda = PooledAggregator(pooled=LinearDiscriminantAnalysis(), disclosure=Disclosure())
    models = {f"{name} alone": clf for name, clf in zip(names, clfs, strict=True)}
    models |= {
        "vote": EnsembleAggregator(clfs).fit(),
        "averaged weights": ModelAveragingAggregator(clfs).fit(),
        "LDA from sums": lda.fit(X, y, nodes=nodes),
        "skgems, one file each": aggregator,
        "all rows at one place": fit_classifier(X, y),
    }
    accuracies = {name: model.score(X_test, y_test) for name, model in models.items()}
    return accuracies, kilobytes


def cross_validate(X, y, nodes, *, n_splits, n_repeats):
    """The means of all that `compare` returns; each row is tested once a repeat."""
    folds = RepeatedStratifiedKFold(
        n_splits=n_splits, n_repeats=n_repeats, random_state=0
    )
    accuracies_of_folds = []
    kilobytes_of_folds = []
    for train, test in folds.split(X, y):
        accuracies, kilobytes = compare(
            X[train], y[train], nodes[train], X_test=X[test], y_test=y[test]
        )
        accuracies_of_folds.append(accuracies)
        kilobytes_of_folds.append(kilobytes)
    mean_accuracies = {
        name: np.mean([accuracies[name] for accuracies in accuracies_of_folds])
        for name in accuracies_of_folds[0]
    }
    return mean_accuracies, np.mean(kilobytes_of_folds)


def print_table(title, accuracies, kilobytes):
    print(f"\n{title}, test accuracy")
    for name, accuracy in accuracies.items():
        print(f"  {name:<24}{accuracy:.3f}")
    print(f"  a file has {kilobytes:.0f} kB")


# %%
# Penguins
# --------
# The table shows means over 25 test folds. A vote is no better than the classifier of a
# single island. The classifier from the files is half a point below the one fitted on
# all rows. Files are under the default rule of disclosure, and so are the sums of LDA.

tables = {}  # accuracies by classifier, for each data set
tables["penguins"], kilobytes = cross_validate(X, y, islands, n_splits=5, n_repeats=5)
print_table("penguins", tables["penguins"], kilobytes)

# %%
# Penguins with noise
# -------------------
# Whether a penguin was measured can be guessed from the files. With a
# :class:`~skgems.Privacy` each island adds noise to its sums, so that the odds change
# by a factor of at most exp(1) = 2.7. What is public comes from a book on penguins. An
# island of 47 birds adds as much noise as one of 163.

noise = Privacy(
    classes=["Adelie", "Chinstrap", "Gentoo"],
    low=[30, 12, 170, 2500],  # bill length and depth in mm, flipper in mm, mass in g
    high=[60, 22, 235, 6500],
    epsilon=1.0,
)


def cross_validate_with_noise(X, y, nodes):
    """Mean test accuracy of models whose sums have noise, drawn anew in each fold."""
    folds = RepeatedStratifiedKFold(n_splits=5, n_repeats=5, random_state=0)
    accuracies = []
    for seed, (train, test) in enumerate(folds.split(X, y)):
        aggregator = GEMSLogisticAggregator(privacy=noise, random_state=seed)
        aggregator.fit(X[train], y[train], nodes=nodes[train])
        accuracies.append(aggregator.score(X[test], y[test]))
    return np.mean(accuracies)


accuracy_with_noise = cross_validate_with_noise(X, y, islands)
print(f"  with noise, epsilon 1   {accuracy_with_noise:.3f}")

# %%
# Digits
# ------
# Five sites have two digits each. Here averaged weights are poor, too.

X, y = load_digits(return_X_y=True)
sites = np.array([f"site {k}" for k in partition_by_label(y, 5, random_state=0)])
tables["digits"], kilobytes = cross_validate(X / 16, y, sites, n_splits=3, n_repeats=1)
print_table("digits", tables["digits"], kilobytes)

# %%
# One picture
# -----------

import matplotlib.pyplot as plt  # noqa: E402

plt.rcParams["font.size"] = 14
figure, ax = plt.subplots(figsize=(6.4, 4.4), layout="constrained")
labels = list(tables["penguins"])
colors = ["tab:orange" if label.startswith("skgems") else "0.7" for label in labels]
bars = ax.barh(labels, list(tables["penguins"].values()), color=colors)
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
# Try your own tables: ``skgems.combine`` compares several methods and returns the best.

print("""
What to try next
  skgems.combine(clfs, X, y, nodes=sites)   several ways, the best kept
  examples/plot_what_a_summary_says.py      what a file says about the rows in it
  examples/plot_hospitals.py                a study, to its model card
  docs/user_guide/command_line.rst          the same from a shell, for tables and files
  make docs                                 the guide, the examples and the API
""")

# %%
# The report
# ----------
# Look at the report before you use a model. It says how good the model is on each
# island, and gives reasons to doubt it. Every third penguin judges here, and the others
# made the files. A number that is no better than its baseline is a doubt.

X, y, islands = load_penguins()
judges = np.arange(len(y)) % 3 == 0
aggregator = GEMSLogisticAggregator(random_state=0)
with tempfile.TemporaryDirectory() as folder:
    paths = []
    for name in np.unique(islands):
        rows = (islands == name) & ~judges
        paths.append(Path(folder) / f"{name}.safetensors")
        clf = fit_classifier(X[rows], y[rows])
        write_file(aggregator, clf, X[rows], y[rows], name=name, path=paths[-1])
    fit_from_files(aggregator, paths)
    report = aggregator.report(X[judges], y[judges], islands[judges])

print(report)
