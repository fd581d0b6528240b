# SPDX-License-Identifier: BSD-3-Clause
"""
A federation as it grew
=======================

Four hospitals have examined patients for heart disease. Nobody dealt these patients to
the hospitals at random. At one hospital 36 % are ill and at another one 93 %, and three
hospitals have hardly measured what the first one has always measured.

The example begins with four CSV files, and goes from the first table of the study to
its model card. Each hospital looks at its gaps, all agree on how to fill them, each
sends sums over its rows, and a server makes one classifier. Then each hospital judges
it on rows that did not make it. The page :ref:`as_it_grew` of the guide explains the
steps and has more measurements.

The tables are by A. Janosi, W. Steinbrunn, M. Pfisterer and R. Detrano (Heart Disease,
UCI Machine Learning Repository, 1988, https://doi.org/10.24432/C52P4X, CC BY 4.0).
"""

import sys
import tempfile
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skgems import (
    EnsembleAggregator,
    Exchange,
    GEMSLogisticAggregator,
    answer,
    describe,
    survey,
)
from skgems.parties import ClassesLeftOutWarning
from skgems.plotting import CalibrationBySiteDisplay, RocBySiteDisplay

# %%
# Four tables
# -----------
# The last column of each table, ``disease``, is what is to be predicted.

folder_of_tables = Path(sys.argv[0]).resolve().parent / "data" / "heart_disease"
paths = sorted(folder_of_tables.glob("*.csv"))
as_they_came = {path.stem: pd.read_csv(path) for path in paths}
print(f"{'hospital':14}{'patients':>9}{'ill':>7}")
for name, table in as_they_came.items():
    print(f"{name:14}{len(table):9}{np.mean(table['disease'] == 'yes'):7.0%}")

# %%
# Each hospital looks at its gaps
# -------------------------------
# Some gaps are written as numbers. No patient has a cholesterol or a blood pressure of
# 0, and ``ca`` counts vessels from 0 to 3. Each hospital reads such cells as gaps.

for name, table in as_they_came.items():
    print(f"{name:14}{np.sum(table['chol'] == 0):4} patients without cholesterol")


def read_table(path):
    """Features and labels of a hospital, whose name becomes a feature."""
    numbers_for_gaps = {"chol": [0], "trestbps": [0], "ca": [9]}
    table = pd.read_csv(path, na_values=numbers_for_gaps)
    return table.drop(columns="disease").assign(hospital=path.stem), table["disease"]


tables = {path.stem: read_table(path) for path in paths}
gaps = pd.DataFrame({name: X.isna().mean() for name, (X, y) in tables.items()})
gaps = gaps.drop(index="hospital")

plt.rcParams["font.size"] = 12
figure, ax = plt.subplots(figsize=(7.6, 3.4), layout="constrained")
ax.imshow(gaps.T, cmap="Oranges", vmin=0, vmax=1, aspect="auto")
ax.set_xticks(range(len(gaps)), gaps.index, rotation=45, ha="right")
ax.set_yticks(range(len(tables)), tables)
for (column, hospital), share in np.ndenumerate(gaps):
    if share >= 0.005:
        color = "white" if share > 0.6 else "black"
        ax.text(
            column,
            hospital,
            f"{100 * share:.0f}",
            color=color,
            ha="center",
            va="center",
        )
ax.set_title("Missing values (%)")
plt.show()

# %%
# The first table of the study
# ----------------------------
# Each hospital sends a survey: numbers of patients, means and quartiles, each about at
# least ten patients. The table that a paper begins with is made of the surveys. *SMD*
# is the largest standardized difference between two hospitals.

surveys = [
    survey(X.drop(columns="hospital"), y, name=name) for name, (X, y) in tables.items()
]
print(describe(summaries=surveys).table_one())

# %%
# All agree on a front
# --------------------
# A *front* is made of the steps before the classifier. Columns are scaled by the mean
# and the variance of all hospitals. Gaps then become 0, which is that mean, so a gap
# means the same everywhere. Codes become columns of 0 and 1. The agreed list of codes
# is part of the front, so nobody has to send any. The name of the hospital is a feature
# too: it moves the intercept, since the share of ill patients differs.

codes = {
    "cp": [1, 2, 3, 4],
    "restecg": [0, 1, 2],
    "slope": [1, 2, 3],
    "thal": [3, 6, 7],
    "hospital": list(tables),
}
numbers = [name for name in gaps.index if name not in codes]
encoder = OneHotEncoder(
    categories=list(codes.values()), handle_unknown="ignore", sparse_output=False
)
fill = SimpleImputer(strategy="constant", fill_value=0, keep_empty_features=True)
front = make_column_transformer(
    (make_pipeline(StandardScaler(), fill), numbers), (encoder, list(codes))
)

# %%
# Each hospital answers
# ---------------------
# The server writes requests into a folder, and each hospital answers with a file: one
# for the front, one for the model, and two that judge the model. A fifth of the rows of
# each hospital only judge.
#
# Only 8 patients in Switzerland are not ill. A hospital keeps back what it knows about
# classes of fewer than ten rows, so the server learns nothing about them. A warning at
# the hospital says so.

folder = Path(tempfile.mkdtemp())
aggregator = GEMSLogisticAggregator(front=front, random_state=0)
exchange = Exchange(folder / "study", aggregator, nodes=list(tables), report=True)
agreement = folder / "study" / "agreement.json"
warnings.simplefilter("ignore", ClassesLeftOutWarning)  # explained above
while (model := exchange.step()) is None:
    for name, request in exchange.waiting_for.items():  # at each hospital
        X, y = tables[name]
        only_judge = np.arange(len(y)) % 5 == 0
        answer(
            request,
            None,
            X,
            y,
            name=name,
            held_out=only_judge,
            agreement=agreement,
            state=folder / f"ledger of {name}",
        )

# %%
# The report
# ----------
# The report says how good the classifier is at each hospital, and gives reasons to
# doubt it. Switzerland left its small class out, so the classifier is judged there on
# ill patients alone. Nothing can be said there of how well it tells ill from other
# patients.

print(model.report())

# %%
# Pictures of the same numbers
# ----------------------------
# The hospitals have told numbers of patients by bins of probability. The curves are
# drawn from these, so no patient's own probability is known. The numbers are multiples
# of ten. Too few patients judged at each hospital for a curve of its own.

figure, axes = plt.subplots(1, 2, figsize=(10, 5), layout="constrained")
RocBySiteDisplay.from_evaluation(model.evaluation_, ax=axes[0])
CalibrationBySiteDisplay.from_evaluation(model.evaluation_, ax=axes[1])
plt.show()

# %%
# The model card
# --------------
# The card is for people who get the model later, and for those who decide about it.
# Only the hospitals know what the model is for, and who answers for it. These parts
# begin with *To fill in*.

model.model_card(folder / "MODEL.md")
card = (folder / "MODEL.md").read_text(encoding="utf-8")
for line in card.splitlines():
    if line.startswith(("#", "**To fill in**")):
        print(line)

# %%
# Each hospital gets a plain pipeline of scikit-learn, which fills gaps by itself.

pipeline = model.to_estimator()
X, y = tables["hungary"]
print(
    f"the first patient in Hungary: ill with {pipeline.predict_proba(X[:1])[0, 1]:.0%}"
)

# %%
# Was it worth it?
# ----------------
# Five folds compare four ways. "Own model" is the model that a hospital fits to its own
# rows, for its own patients. The area under the ROC curve (AUC) says how well a model
# sorts ill from other patients. It is computed at each hospital alone.

X = pd.concat([X for X, y in tables.values()], ignore_index=True)
y = np.concatenate([y for X, y in tables.values()])
hospitals = X["hospital"].to_numpy(str)
unfitted = make_pipeline(front, LogisticRegression(max_iter=2000))


def fit_own_models(X, y, hospitals):
    """Each hospital's model, behind an imputer and a scaler of its own."""
    return [
        (name, clone(unfitted).fit(X[hospitals == name], y[hospitals == name]))
        for name in tables
    ]


def probabilities_of_four_ways(X, y, hospitals, X_test):
    """The probability of disease of each test row, by way."""
    own_models = fit_own_models(X, y, hospitals)
    own = np.empty(len(X_test))
    for name, own_model in own_models:
        rows = (X_test["hospital"] == name).to_numpy()
        own[rows] = own_model.predict_proba(X_test[rows])[:, 1]
    vote = EnsembleAggregator(own_models).fit()
    one_message = GEMSLogisticAggregator(
        [(name, None) for name in tables], front=front, random_state=0
    ).fit(X, y, nodes=hospitals)
    pooled = clone(unfitted).fit(X, y)
    return {
        "own model": own,
        "vote of all": vote.predict_proba(X_test)[:, 1],
        "one message": one_message.predict_proba(X_test)[:, 1],
        "all rows at one place": pooled.predict_proba(X_test)[:, 1],
    }


# Switzerland's own scaler finds no cholesterol at all to scale.
warnings.filterwarnings("ignore", message="invalid value", category=RuntimeWarning)
probabilities = {}
folds = StratifiedKFold(5, shuffle=True, random_state=0)
for train, test in folds.split(X, np.char.add(hospitals, y)):
    of_fold = probabilities_of_four_ways(
        X.iloc[train], y[train], hospitals[train], X_test=X.iloc[test]
    )
    for way, of_rows in of_fold.items():
        probabilities.setdefault(way, np.empty(len(y)))[test] = of_rows

print(f"{'accuracy (%)':24}" + "".join(f"{name:>13}" for name in [*tables, "all"]))
for way, of_rows in probabilities.items():
    is_right = (of_rows > 0.5) == (y == "yes")
    cells = [np.mean(is_right[hospitals == name]) for name in tables]
    cells.append(np.mean(is_right))
    print(f"{way:24}" + "".join(f"{100 * cell:13.1f}" for cell in cells))

# %%
# The picture shows the AUC at each hospital. Cleveland and Hungary have many patients
# and gain nothing. Long Beach gains most: it has fewer patients and the most gaps. In
# Switzerland only 8 patients are not ill, so its AUC is uncertain.

figure, ax = plt.subplots(figsize=(7.6, 3.8), layout="constrained")
styles = {
    "own model": ("o", "0.4"),
    "vote of all": ("s", "tab:blue"),
    "one message": ("D", "tab:orange"),
    "all rows at one place": ("|", "black"),
}
places = np.arange(len(tables))
for way, (marker, color) in styles.items():
    areas = [
        roc_auc_score(
            y[hospitals == name] == "yes", probabilities[way][hospitals == name]
        )
        for name in tables
    ]
    ax.plot(areas, places, marker, color=color, markersize=11, label=way)
    print(f"{way:24}" + "".join(f"{area:13.3f}" for area in areas))
ax.set_yticks(places, tables)
ax.invert_yaxis()
ax.grid(axis="x", alpha=0.3)
ax.set_xlabel("area under the ROC curve at this hospital")
ax.legend(loc="upper left", bbox_to_anchor=(1, 1))
plt.show()

# %%
# What to try next
# ----------------
# ``skgems inspect`` prints in words what each file of ``study/replies`` says about
# patients. The page :ref:`privacy` says what to do if that is too much.
