# SPDX-License-Identifier: BSD-3-Clause
"""Federations as they grew: heart disease at four hospitals, penguins of three islands.

Nobody dealt these rows to nodes. Hospitals differ in what they measured (gaps), in
their patients (shift) and in how many are ill (36 to 93 %); no island has all species.

Accuracy, balanced accuracy and area under the ROC curve (AUC) on all test rows, means
of repeated stratified folds: of the model of each site alone, of each site's own model
on its own rows ("at home"), of votes, stacks and averages, of one message behind a
front, of files of nodes with ``min_rows=10``, of `combine`, of a forest from
histograms, and of two models of all rows at one place. "Within" is the AUC among the
test rows of one site, the mean over sites that have both classes. The last column is
how many more test rows are right than by one message, with its standard error over
rows. A second table has each hospital as a newcomer: models are made by the other
three. The tables of the guide's page "A federation as it grew" are made by it.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from _quick import note_figure, parse_with_quick
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, roc_auc_score
from sklearn.model_selection import RepeatedStratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skgems import (
    EnsembleAggregator,
    GEMSLogisticAggregator,
    ModelAveragingAggregator,
    PooledAggregator,
    PooledTransformer,
    combine,
)
from skgems.datasets import load_penguins

HEART = Path(__file__).parents[1] / "examples" / "data" / "heart_disease"
# Numbers that stand for gaps: nobody has no cholesterol, and vessels are 0 to 3.
GAPS_WRITTEN_AS_NUMBERS = {"trestbps": [0], "chol": [0], "ca": [9]}
CODES = {
    "cp": [1, 2, 3, 4],
    "restecg": [0, 1, 2],
    "slope": [1, 2, 3],
    "thal": [3, 6, 7],
}
SITE = "site"  # the column that says whose row it is
# Names of ways that more than one function knows.
ALONE = " alone"
AT_HOME = "each at home"
ONE_MESSAGE = "one message"
ONE_OTHER = "one other, mean"
LOGISTIC = LogisticRegression(max_iter=2000)
DEPTH = 8


@dataclass(frozen=True, kw_only=True)
class Federation:
    """A table of all sites, and what they agreed on about its columns."""

    X: pd.DataFrame  # (n_rows, n_columns), one of them the site
    y: np.ndarray  # (n_rows,)
    codes: dict[str, list]  # the columns of categories, and the categories
    # Whether a row's site may be a feature: not where a site has one class alone.
    names_sites: bool

    @property
    def site_of_row(self) -> np.ndarray:
        """The site of each row, of shape (n_rows,)."""
        return self.X[SITE].to_numpy(str)

    @property
    def sites(self) -> list[str]:
        """Names of the sites."""
        return np.unique(self.site_of_row).tolist()

    def take(self, rows: np.ndarray) -> Federation:
        """The federation of some rows."""
        return Federation(
            X=self.X.iloc[rows].reset_index(drop=True),
            y=self.y[rows],
            codes=self.codes,
            names_sites=self.names_sites,
        )

    def front(self, *, names_sites: bool, marks_gaps: bool = False) -> BaseEstimator:
        """What all sites put before a linear model, unfitted."""
        numbers = [name for name in self.X if name not in (*self.codes, SITE)]
        # In scaled columns 0 is the mean of all sites, so filling needs no message.
        scaled = make_pipeline(
            StandardScaler(),
            SimpleImputer(
                strategy="constant",
                fill_value=0.0,
                add_indicator=marks_gaps,
                keep_empty_features=True,
            ),
        )
        encoded = [*self.codes, SITE] if names_sites else list(self.codes)
        return ColumnTransformer(
            [("numbers", scaled, numbers), ("codes", self._encoder(encoded), encoded)]
        )

    def front_of_trees(self) -> BaseEstimator:
        """Texts become numbers; trees split numbers with gaps as they are."""
        texts = [name for name in self.codes if self.X[name].dtype.kind not in "fi"]
        if self.names_sites:
            texts.append(SITE)
        numbers = [name for name in self.X if name not in (*texts, SITE)]
        return ColumnTransformer(
            [
                ("numbers", "passthrough", numbers),
                ("texts", self._encoder(texts), texts),
            ]
        )

    def _encoder(self, columns: list[str]) -> OneHotEncoder:
        """An encoder that lists all categories, so that nobody has to send any."""
        categories = self.codes | {SITE: self.sites}
        return OneHotEncoder(
            categories=[categories[name] for name in columns],
            handle_unknown="ignore",
            sparse_output=False,
        )


def load_heart() -> Federation:
    """Patients of four hospitals; gaps that are written as numbers become gaps."""
    tables = [
        pd.read_csv(path, na_values=GAPS_WRITTEN_AS_NUMBERS).assign(**{SITE: path.stem})
        for path in sorted(HEART.glob("*.csv"))
    ]
    X = pd.concat(tables, ignore_index=True)
    y = X.pop("disease").to_numpy(str)
    return Federation(X=X, y=y, codes=CODES, names_sites=True)


def load_islands() -> Federation:
    """All 344 penguins of three islands, with gaps and their sex."""
    X, y, islands = load_penguins(as_frame=True)
    return Federation(
        X=X.assign(**{SITE: islands}),
        y=y,
        codes={"sex": ["female", "male"]},
        names_sites=False,
    )


FEDERATIONS = {"heart": load_heart, "penguins": load_islands}


# Models ------------------------------------------------------------------------------


class AtHome(ClassifierMixin, BaseEstimator):
    """Each site's own classifier, for its own rows."""

    def __init__(self, classifier_of_site: dict[str, ClassifierMixin]):
        self.classifier_of_site = classifier_of_site

    @property
    def classes_(self) -> np.ndarray:
        """The classes that any site knows."""
        known = [clf.classes_ for clf in self.classifier_of_site.values()]
        return np.unique(np.concatenate(known))

    def predict_proba(self, X: pd.DataFrame) -> np.ndarray:
        """Probabilities of the classifier of each row's site."""
        P = np.zeros((len(X), len(self.classes_)))
        for site, classifier in self.classifier_of_site.items():
            rows = (X[SITE] == site).to_numpy()
            if rows.any():
                P[rows] = probabilities(classifier, X[rows], self.classes_)
        return P


def fit_at_site(unfitted: ClassifierMixin, X: object, y: np.ndarray) -> ClassifierMixin:
    """What a site fits: a constant where it has one class."""
    if len(np.unique(y)) == 1:
        return DummyClassifier().fit(X, y)
    return clone(unfitted).fit(X, y)


def fit_local_models(train: Federation) -> dict[str, ClassifierMixin]:
    """The classifier of each site, behind an imputer and a scaler of its own."""
    unfitted = make_pipeline(train.front(names_sites=False), LOGISTIC)
    return {
        site: fit_at_site(
            unfitted,
            train.X[train.site_of_row == site],
            train.y[train.site_of_row == site],
        )
        for site in train.sites
    }


def fit_average(train: Federation) -> ClassifierMixin:
    """The mean of the weights of classifiers behind one front of all sites.

    The site as a feature is left out: it is constant at each site, where it says what
    the intercept says.
    """
    front = PooledTransformer(train.front(names_sites=False))
    front.fit(train.X, nodes=train.site_of_row)
    Z = front.transform(train.X)
    members = []
    for site in train.sites:
        rows = train.site_of_row == site
        members.append((site, fit_at_site(LOGISTIC, Z[rows], train.y[rows])))
    average = ModelAveragingAggregator(members)
    average.fit(Z, train.y, nodes=train.site_of_row)
    return make_pipeline(FrozenEstimator(front), average)


def fit_one_message(train: Federation, **front_options: bool) -> ClassifierMixin:
    """The likeliest linear model of the sums of all sites, all rows in one process."""
    aggregator = GEMSLogisticAggregator(
        [(site, None) for site in train.sites],
        front=train.front(**front_options),
        random_state=0,
    )
    return aggregator.fit(train.X, train.y, nodes=train.site_of_row)


def fit_from_files(train: Federation, *, moments: str = "auto") -> ClassifierMixin:
    """The same from files of sites that leave out classes of fewer than ten rows."""
    front = PooledTransformer(train.front(names_sites=train.names_sites))
    front.fit(train.X, nodes=train.site_of_row)
    aggregator = GEMSLogisticAggregator(front=front, moments=moments, random_state=0)
    files = []
    for site in train.sites:
        rows = train.site_of_row == site
        files.append(
            aggregator.summarize(None, train.X[rows], train.y[rows], name=site)
        )
    return aggregator.set_params(estimators=files).fit()


def fit_forest(train: Federation) -> ClassifierMixin:
    """A forest that grows from histograms of all sites."""
    forest = RandomForestClassifier(100, max_depth=DEPTH, random_state=0)
    aggregator = PooledAggregator(pooled=forest, front=train.front_of_trees())
    return aggregator.fit(train.X, train.y, nodes=train.site_of_row)


def ways_to_a_model(train: Federation) -> dict[str, Callable[[], ClassifierMixin]]:
    """Ways to a model, by name; each returns a fitted model."""
    local_models = fit_local_models(train)
    members = list(local_models.items())
    named = train.names_sites
    ways = {f"{site}{ALONE}": partial(local_models.get, site) for site in train.sites}
    ways |= {
        AT_HOME: lambda: AtHome(local_models),
        "vote": lambda: EnsembleAggregator(members).fit(),
        "stack": lambda: EnsembleAggregator(
            members, combine="stack", random_state=0
        ).fit(train.X, train.y, nodes=train.site_of_row),
        "averaged models": lambda: fit_average(train),
    }
    if named:
        ways["one message, no site"] = lambda: fit_one_message(train, names_sites=False)
        ways["one message, gaps"] = lambda: fit_one_message(
            train, names_sites=True, marks_gaps=True
        )
    ways |= {
        ONE_MESSAGE: lambda: fit_one_message(train, names_sites=named),
        "files": lambda: fit_from_files(train),
        "files, diagonal": lambda: fit_from_files(train, moments="diagonal"),
        "combine": lambda: combine(
            X=train.X,
            y=train.y,
            nodes=train.site_of_row,
            front=train.front(names_sites=named),
            random_state=0,
        ),
        "forest": lambda: fit_forest(train),
        "all rows, logistic": lambda: make_pipeline(
            train.front(names_sites=named), LOGISTIC
        ).fit(train.X, train.y),
        "all rows, boosting": lambda: make_pipeline(
            train.front_of_trees(), HistGradientBoostingClassifier(random_state=0)
        ).fit(train.X, train.y),
    }
    return ways


# Scores ------------------------------------------------------------------------------


def probabilities(model: ClassifierMixin, X: object, classes: np.ndarray) -> np.ndarray:
    """Probabilities of all classes; a class that the model does not know has none."""
    P = np.zeros((len(X), len(classes)))
    P[:, np.searchsorted(classes, model.classes_)] = model.predict_proba(X)
    return P


def area(y: np.ndarray, P: np.ndarray, classes: np.ndarray) -> float:
    """Area under the ROC curve; of several classes the mean of one against the rest."""
    areas = [roc_auc_score(y == label, P[:, k]) for k, label in enumerate(classes)]
    return float(np.mean(areas))


def area_within_sites(
    y: np.ndarray, P: np.ndarray, classes: np.ndarray, sites: np.ndarray
) -> float:
    """The mean area among rows of one site, over the sites that have all classes."""
    areas = []
    for site in np.unique(sites):
        rows = sites == site
        if len(np.unique(y[rows])) == len(classes):
            areas.append(area(y[rows], P[rows], classes))
    return float(np.mean(areas)) if areas else np.nan


def scores_on(model: ClassifierMixin, test: Federation, classes: np.ndarray) -> dict:
    """Accuracy, balanced accuracy, both areas, and which rows are right."""
    P = probabilities(model, test.X, classes)
    predicted = classes[P.argmax(axis=1)]
    return {
        "accuracy": float(np.mean(predicted == test.y)),
        "balanced": balanced_accuracy_score(test.y, predicted),
        "AUC": area(test.y, P, classes),
        "within": area_within_sites(test.y, P, classes, test.site_of_row),
        "is right": predicted == test.y,
    }


def cross_validate(
    federation: Federation, *, n_repeats: int
) -> dict[str, dict[str, list]]:
    """Scores of all folds by way; "is right" has how often each row was right."""
    classes = np.unique(federation.y)
    # Each fold has the same share of each class of each site.
    strata = np.char.add(federation.site_of_row, federation.y)
    folds = RepeatedStratifiedKFold(n_splits=5, n_repeats=n_repeats, random_state=0)
    scores_of_way: dict[str, dict[str, list]] = {}
    for k, (train, test) in enumerate(folds.split(federation.X, strata)):
        print(f"fold {k + 1}", end="\r", flush=True)
        for way, make in ways_to_a_model(federation.take(train)).items():
            scores = scores_on(make(), federation.take(test), classes)
            kept = scores_of_way.setdefault(
                way, {"is right": np.zeros(len(federation.y))}
            )
            kept["is right"][test] += scores.pop("is right") / n_repeats
            for name, score in scores.items():
                kept.setdefault(name, []).append(score)
    return scores_of_way


def print_scores(data_set: str, scores_of_way: dict[str, dict[str, list]]) -> None:
    """A line for each way."""
    heads = ("accuracy", "balanced", "AUC", "within")
    print(f"{'':24}" + "".join(f"{head:>10}" for head in heads) + "   more right")
    reference = scores_of_way[ONE_MESSAGE]["is right"]
    for way, scores in scores_of_way.items():
        means = [100 * np.mean(scores[head]) for head in heads]
        note_figure(f"{data_set}, {way}, accuracy", means[0])
        more_right = 100 * (scores["is right"] - reference)
        error = more_right.std() / np.sqrt(len(reference))
        print(
            f"{way:24}"
            + "".join(f"{mean:10.1f}" for mean in means)
            + f"{more_right.mean():8.1f} +- {error:.1f}"
        )


def measure_newcomers(federation: Federation) -> dict[str, list[np.ndarray]]:
    """Accuracy and AUC at each site of what the other sites made, by way."""
    classes = np.unique(federation.y)
    pairs_of_way: dict[str, list[np.ndarray]] = {ONE_OTHER: []}
    for newcomer in federation.sites:
        is_new = federation.site_of_row == newcomer
        pairs_of_others = []
        for way, make in ways_to_a_model(federation.take(~is_new)).items():
            if way == AT_HOME:  # the newcomer has no model
                continue
            scores = scores_on(make(), federation.take(is_new), classes)
            pair = 100 * np.array([scores["accuracy"], scores["AUC"]])
            if way.endswith(ALONE):
                pairs_of_others.append(pair)
            else:
                pairs_of_way.setdefault(way, []).append(pair)
        pairs_of_way[ONE_OTHER].append(np.mean(pairs_of_others, axis=0))
    return pairs_of_way


def print_newcomers(federation: Federation) -> None:
    """A line for each way: accuracy and AUC at each newcomer, and their means."""
    heads = "".join(f"{site:>14}" for site in [*federation.sites, "mean"])
    print(f"{'newcomer: accuracy, AUC':24}" + heads)
    for way, pairs in measure_newcomers(federation).items():
        cells = [*pairs, np.mean(pairs, axis=0)]
        print(
            f"{way:24}" + "".join(f"{right:8.1f} {area:5.1f}" for right, area in cells)
        )


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--sets", nargs="+", default=list(FEDERATIONS), choices=list(FEDERATIONS)
    )
    parser.add_argument("--repeats", type=int, default=5, help="of five folds")
    options = parse_with_quick(parser, quick={"repeats": 1})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in options.sets:
            federation = FEDERATIONS[name]()
            print(f"{name}: {len(federation.y)} rows of {len(federation.sites)} sites")
            print_scores(name, cross_validate(federation, n_repeats=options.repeats))
            if name == "heart" and not options.quick:
                print_newcomers(federation)


if __name__ == "__main__":
    main()
