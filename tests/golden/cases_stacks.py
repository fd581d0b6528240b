# SPDX-License-Identifier: BSD-3-Clause
"""Golden cases of stacks, of ensembles that choose, and of merged forests."""

from __future__ import annotations

import numpy as np
from golden.cases_ensemble import machines, neighbours, of_all_kinds, trees
from golden.data import NAMES, digits, letters, linears, mlps, penguins
from golden.nodes import rows_of, summary_record
from golden.records import fitted_attributes, predictions
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder, StandardScaler

from skgems import DistillationAggregator, EnsembleAggregator, merge_forests
from skgems.steps import RandomFeatures

OVERLAPPING, HOMOGENEOUS = digits("overlapping"), digits("homogeneous")
BINARY, STRINGS = digits("binary"), digits("overlapping", strings=True)
CONVERGED = LogisticRegression(solver="newton-cg", tol=1e-10, max_iter=100)

# ---- members ------------------------------------------------------------------


def bayes(rows):
    return [GaussianNB(var_smoothing=3.0).fit(X, y) for X, y in rows.local]


def named_bayes(rows):
    return list(zip(NAMES, bayes(rows), strict=True))


def forests_of(kind, **parameters):
    def forests(rows):
        return [
            kind(n_estimators=5, max_depth=4, random_state=seed, **parameters).fit(X, y)
            for seed, (X, y) in enumerate(rows.local)
        ]

    return forests


FORESTS = forests_of(RandomForestClassifier)
EXTRA_TREES = forests_of(ExtraTreesClassifier)


def pipelines_of_tables(rows):
    """Boosted trees of columns that hold texts and gaps."""
    encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    pipeline = make_pipeline(
        ColumnTransformer([("sex", encoder, ["sex"])], remainder="passthrough"),
        HistGradientBoostingClassifier(max_iter=3, random_state=0),
    )
    return [clone(pipeline).fit(X, y) for X, y in rows.local[:2]]


def pipelines_of_letters(rows):
    return [
        make_pipeline(TfidfVectorizer(), GaussianNBOfSparse()).fit(list(X), y)
        for X, y in rows.local
    ]


class GaussianNBOfSparse(GaussianNB):
    """Naive Bayes that takes what a vectorizer gives."""

    def fit(self, X, y):
        return super().fit(X.toarray(), y)

    def predict_proba(self, X):
        return super().predict_proba(X.toarray())

    def predict(self, X):
        return super().predict(X.toarray())


# ---- what is done with them ---------------------------------------------------


def fit(rows=OVERLAPPING, members=bayes, nodes=None, **parameters):
    """A stack of the members that a function makes, where it is not said otherwise."""
    parameters = {"combine": "stack", "random_state": 0, **parameters}
    aggregate = EnsembleAggregator(members(rows), **parameters)
    aggregate.fit(rows.X, rows.y, nodes=rows.nodes if nodes is None else nodes)
    return aggregate, rows.X_test


def exported(rows=OVERLAPPING, members=bayes, **parameters):
    """With the plain pipeline of log-odds and classifier."""
    aggregate, X_test = fit(rows, members, **parameters)
    plain = aggregate.to_estimator()
    return aggregate, X_test, {"plain": fitted_attributes(plain[-1])}


def fit_tables(**parameters):
    """The third island, which has one species, belongs to the second."""
    rows = penguins()
    nodes = np.minimum(rows.nodes, 1)
    return fit(rows, pipelines_of_tables, nodes, **parameters)


def fit_letters(**parameters):
    rows = letters()
    members = pipelines_of_letters(rows)
    aggregate = EnsembleAggregator(members, random_state=0, **parameters)
    return aggregate.fit(list(rows.X), rows.y, nodes=rows.nodes), rows.X_test


def distil_letters():
    rows = letters()
    student = make_pipeline(TfidfVectorizer(), CONVERGED)
    aggregate = DistillationAggregator(
        pipelines_of_letters(rows), student=student, random_state=0
    )
    return aggregate.fit(list(rows.X)), rows.X_test


def fit_apart(rows=OVERLAPPING, members=bayes, **parameters):
    """Of what each node makes of its rows, by all members."""
    named = list(zip(NAMES, members(rows), strict=True))
    stack = EnsembleAggregator(named, combine="stack", random_state=0, **parameters)
    sent = [
        stack.summarize_odds(*rows_of(rows, k), name=name, disclosure=None)
        for k, name in enumerate(NAMES)
    ]
    stack.set_params(summaries=sent).fit()
    # The bytes are not kept: the next commit could not fit the stack to them, since
    # they summarise odds, and not the stack itself.
    summaries = summary_record(sent)["summaries"]
    return stack, rows.X_test, {"summaries": summaries}


def held_out(rows=OVERLAPPING):
    aggregate = EnsembleAggregator(bayes(rows), combine="stack", random_state=0)
    aggregate.fit(
        rows.X, rows.y, nodes=rows.nodes, held_out=np.arange(len(rows.y)) % 3 == 0
    )
    return aggregate, rows.X_test


def merged(rows=OVERLAPPING, members=FORESTS):
    """One plain forest of those of the nodes."""
    forest = merge_forests(members(rows))
    return {
        "n_trees": len(forest.estimators_),
        "classes_": forest.classes_.tolist(),
        "importances": forest.feature_importances_,
        **predictions(forest, rows.X_test),
    }


# ---- the table ----------------------------------------------------------------

MEMBERS = {
    "bayes": bayes,
    "linear": linears,
    "mlp": mlps,
    "trees": trees,
    "support vectors": machines,
    "neighbours": neighbours,
    "all kinds": of_all_kinds,
}

CASES = {
    **{name: lambda m=members: fit(members=m) for name, members in MEMBERS.items()},
    "binary": lambda: fit(BINARY),
    "homogeneous": lambda: fit(HOMOGENEOUS),
    "string labels by name": lambda: fit(STRINGS, named_bayes, STRINGS.named_nodes),
    "public rows": lambda: fit(OVERLAPPING.with_public()),
    "held out": lambda: held_out(),
    "exported": lambda: exported(),
    "front": lambda: fit(members=linears, front=StandardScaler(with_std=False)),
    "beside": lambda: fit(
        beside=make_pipeline(StandardScaler(), RandomFeatures(20, random_state=0))
    ),
    "auto": lambda: fit(combine="auto"),
    "auto trees": lambda: fit(members=trees, combine="auto"),
    "auto binary": lambda: fit(BINARY, combine="auto"),
    "simulation": lambda: fit(HOMOGENEOUS, lambda rows: GaussianNB(var_smoothing=3.0)),
    "apart": lambda: fit_apart(),
    "apart trees": lambda: fit_apart(members=trees),
    "tables": lambda: fit_tables(),
    "vote of tables": lambda: fit_tables(combine="vote", node_weight="class_counts"),
    "letters": lambda: fit_letters(combine="stack"),
    "vote of letters": lambda: fit_letters(voting="hard"),
    "student of letters": lambda: distil_letters(),
    "forests": lambda: merged(),
    "forests extra": lambda: merged(members=EXTRA_TREES),
    "forests string labels": lambda: merged(STRINGS),
    "forests binary": lambda: merged(BINARY),
}
