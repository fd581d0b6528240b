# SPDX-License-Identifier: BSD-3-Clause
"""Golden cases of PooledAggregator: a name and what fits it."""

from __future__ import annotations

import numpy as np
from golden.data import NAMES, digits, iris, linears
from golden.nodes import (
    Wire,
    in_chunks,
    rows_of,
    summaries_of,
    summary_record,
)
from golden.records import fitted_attributes
from scipy.sparse import csr_matrix
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import (
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
)
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import (
    BernoulliNB,
    CategoricalNB,
    ComplementNB,
    GaussianNB,
    MultinomialNB,
)
from sklearn.neighbors import NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from skgems import PooledAggregator, Privacy

DISJOINT, OVERLAPPING = digits("disjoint"), digits("overlapping")
BINARY, ONE_CLASS = digits("binary"), digits("one class")
HOMOGENEOUS = digits("homogeneous")
STRINGS, PUBLIC = digits("overlapping", strings=True), OVERLAPPING.with_public()
IRIS = iris()


def exported(aggregate, X_test):
    """The aggregate, rows to test it on, and what the classifier itself has."""
    return (
        aggregate,
        X_test,
        {"estimator": fitted_attributes(aggregate.to_estimator())},
    )


def fit(pooled, rows=OVERLAPPING, nodes=None, **parameters):
    """Fit to the rows of nodes without classifiers."""
    aggregate = PooledAggregator(pooled=pooled, **parameters)
    aggregate.fit(rows.X, rows.y, nodes=rows.nodes if nodes is None else nodes)
    return exported(aggregate, rows.X_test)


def fit_beside_a_liar(pooled, rows=HOMOGENEOUS):
    """The last of three nodes has labels of the next class."""
    aggregate = PooledAggregator(pooled=pooled, robust=1)
    labels = np.where(rows.nodes == 2, (rows.y + 1) % 4, rows.y)
    aggregate.fit(rows.X, labels, nodes=rows.nodes)
    fitted, X_test, attributes = exported(aggregate, rows.X_test)
    return fitted, X_test, {**attributes, "trust": aggregate.trust_}


def fit_with_noise(pooled, rows=OVERLAPPING):
    """Noise of a seed, on sums of rows within bounds."""
    n_columns = rows.X.shape[1]
    privacy = Privacy(
        classes=np.unique(rows.y).tolist(),
        low=[0.0] * n_columns,
        high=[1.0] * n_columns,
        epsilon=8.0,
    )
    aggregate = PooledAggregator(pooled=pooled, privacy=privacy, random_state=0)
    return aggregate.fit(rows.X, rows.y, nodes=rows.nodes), rows.X_test


def fit_sparse(pooled, rows=OVERLAPPING):
    aggregate = PooledAggregator(pooled=pooled)
    aggregate.fit(csr_matrix(rows.X), rows.y, nodes=rows.nodes)
    return exported(aggregate, csr_matrix(rows.X_test))


def fit_levels(pooled, rows=OVERLAPPING):
    """Of whole numbers, as categories are."""
    aggregate = PooledAggregator(pooled=pooled)
    aggregate.fit(np.rint(4 * rows.X), rows.y, nodes=rows.nodes)
    return exported(aggregate, np.rint(4 * rows.X_test))


def fit_held_out(pooled, rows=OVERLAPPING):
    held_out = np.arange(len(rows.y)) % 3 == 0
    aggregate = PooledAggregator(pooled=pooled)
    aggregate.fit(rows.X, rows.y, nodes=rows.nodes, held_out=held_out)
    return exported(aggregate, rows.X_test)


def fit_members(estimator, rows=OVERLAPPING, **parameters):
    """What is made is what the nodes' own classifiers are."""
    aggregate = PooledAggregator(linears(rows, estimator), **parameters)
    aggregate.fit(rows.X, rows.y, nodes=rows.nodes)
    return exported(aggregate, rows.X_test)


def fit_summaries(pooled, rows=OVERLAPPING):
    agreed = PooledAggregator(pooled=pooled)
    sent = summaries_of(agreed, rows)
    agreed.set_params(estimators=sent).fit()
    return *exported(agreed, rows.X_test), summary_record(sent)


def fit_region(pooled, rows=OVERLAPPING):
    """Two nodes by the summary of their region, one by its own."""
    agreed = PooledAggregator(pooled=pooled)
    north, east, south = summaries_of(agreed, rows)
    region = agreed.merge_summaries([north, east], name="region")
    agreed.set_params(estimators=[region, south]).fit()
    return *exported(agreed, rows.X_test), summary_record([region])


def fit_chunks(pooled, rows=OVERLAPPING):
    agreed = PooledAggregator(pooled=pooled)
    sent = [
        agreed.summarize(None, chunks=in_chunks(*rows_of(rows, k)), name=name)
        for k, name in enumerate(NAMES)
    ]
    agreed.set_params(estimators=sent).fit()
    return exported(agreed, rows.X_test)


def update_and_forget(pooled, rows=OVERLAPPING):
    """A third node comes, then the first one goes."""
    agreed = PooledAggregator(pooled=pooled, keep_replies=True)
    *first, last = summaries_of(agreed, rows)
    agreed.set_params(estimators=first).fit().update([last])
    agreed.forget(NAMES[0])
    return exported(agreed, rows.X_test)


def grown(pooled, rows=OVERLAPPING, **parameters):
    """Trees, as arrays: of each its splits and its leaves."""
    aggregate = PooledAggregator(pooled=pooled, random_state=0, **parameters)
    aggregate.fit(rows.X, rows.y, nodes=rows.nodes)
    return _with_trees(aggregate, rows.X_test)


def _with_trees(aggregate, X_test):
    classifier = aggregate.to_estimator()[-1]
    trees = [tree.tree_ for tree in getattr(classifier, "estimators_", [classifier])]
    names = ["feature", "threshold", "n_node_samples", "impurity", "value"]
    arrays = {
        name: np.concatenate([np.ravel(getattr(tree, name)) for tree in trees])
        for name in names
    }
    return aggregate, X_test, {"trees": arrays}


def grown_over_a_wire(pooled, rows=OVERLAPPING):
    wire = Wire(rows)
    aggregate = PooledAggregator(wire.channel(), pooled=pooled).fit()
    return *_with_trees(aggregate, rows.X_test), wire.record()


def over_a_wire(pooled, rows=OVERLAPPING, **parameters):
    wire = Wire(rows)
    aggregate = PooledAggregator(wire.channel(), pooled=pooled, **parameters).fit()
    return *exported(aggregate, rows.X_test), wire.record()


# ---- the table ----------------------------------------------------------------

LDA, QDA = LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
PCA_OF_FEW = PCA(5, svd_solver="full")
# Classifiers of moments, and what each of their parameters changes.
OF_MOMENTS = {
    "ridge": RidgeClassifier(),
    "ridge alpha": RidgeClassifier(alpha=0.1),
    "ridge balanced": RidgeClassifier(class_weight="balanced"),
    "ridge class weights": RidgeClassifier(class_weight={0: 2.0, 3: 0.5}),
    "ridge without intercept": RidgeClassifier(fit_intercept=False),
    "lda": LDA(),
    "lda covariance": LDA(store_covariance=True),
    "lda lsqr": LDA(solver="lsqr", shrinkage=0.2),
    "lda eigen": LDA(solver="eigen", shrinkage=0.2),
    "lda components": LDA(n_components=2),
    "lda priors": LDA(priors=[0.3, 0.1, 0.1, 0.1, 0.2, 0.2]),
    "centroid": NearestCentroid(),
    "centroid shrunk": NearestCentroid(shrink_threshold=0.5),
    "bayes": GaussianNB(),
    "bayes smoothed": GaussianNB(var_smoothing=1e-3),
    "bayes priors": GaussianNB(priors=[0.3, 0.1, 0.1, 0.1, 0.2, 0.2]),
}
OF_SUMS = {
    "multinomial": MultinomialNB(),
    "multinomial alpha": MultinomialNB(alpha=0.1, fit_prior=False),
    "complement": ComplementNB(),
    "complement norm": ComplementNB(norm=True),
    "bernoulli": BernoulliNB(binarize=0.3),
}
FOREST = RandomForestClassifier(5, max_depth=3, random_state=0)
OF_TREES = {
    "tree": DecisionTreeClassifier(max_depth=3, criterion="entropy"),
    "forest": FOREST,
    "forest balanced": RandomForestClassifier(
        5, max_depth=3, class_weight="balanced", bootstrap=False, max_features=None
    ),
    "extra trees": ExtraTreesClassifier(5, max_depth=4, min_samples_leaf=3),
}

CASES = {
    **{
        name: lambda p=pooled: fit(p)
        for name, pooled in {**OF_MOMENTS, **OF_SUMS}.items()
    },
    # Test rows have levels that no row of the nodes has.
    "categorical": lambda: fit_levels(CategoricalNB(min_categories=6)),
    "categorical alpha": lambda: fit_levels(CategoricalNB(alpha=0.1, min_categories=6)),
    "bernoulli of bits": lambda: fit_levels(BernoulliNB(binarize=None)),
    "qda": lambda: fit(QDA(), IRIS),
    "qda reg_param": lambda: fit(QDA(reg_param=0.1), BINARY),
    "qda front": lambda: fit(QDA(), front=PCA_OF_FEW),
    "qda priors": lambda: fit(QDA(reg_param=0.1, priors=[0.3, 0.7]), BINARY),
    # Rows.
    **{
        f"{name} sparse": lambda p=pooled: fit_sparse(p)
        for name, pooled in {
            "ridge": RidgeClassifier(),
            "centroid": NearestCentroid(),
            **OF_SUMS,
        }.items()
    },
    "lda iris": lambda: fit(LDA(), IRIS),
    "ridge binary": lambda: fit(RidgeClassifier(), BINARY),
    "lda binary": lambda: fit(LDA(), BINARY),
    "bayes binary": lambda: fit(GaussianNB(), BINARY),
    "ridge disjoint": lambda: fit(RidgeClassifier(), DISJOINT),
    "bayes one-class node": lambda: fit(GaussianNB(), ONE_CLASS),
    "lda string labels by name": lambda: fit(LDA(), STRINGS, STRINGS.named_nodes),
    "lda public rows": lambda: fit(LDA(), PUBLIC),
    "multinomial public rows": lambda: fit(MultinomialNB(), PUBLIC),
    "lda beside a liar": lambda: fit_beside_a_liar(LDA()),
    "multinomial beside a liar": lambda: fit_beside_a_liar(MultinomialNB()),
    "lda held out": lambda: fit_held_out(LDA()),
    "multinomial held out": lambda: fit_held_out(MultinomialNB()),
    "by name of the class": lambda: fit("GaussianNB"),
    "default": lambda: fit(None),
    "of the nodes' ridges": lambda: fit_members(RidgeClassifier(alpha=0.5)),
    "of the nodes' discriminant analyses": lambda: fit_members(LDA()),
    "aside of the nodes' classifiers": lambda: fit_members(
        LogisticRegression(max_iter=1), pooled=GaussianNB()
    ),
    "noise lda": lambda: fit_with_noise(LDA()),
    "noise ridge": lambda: fit_with_noise(RidgeClassifier()),
    # Behind a front.
    "front scaler": lambda: fit(LDA(), front=StandardScaler()),
    "front pipeline": lambda: fit(
        RidgeClassifier(),
        front=make_pipeline(StandardScaler(), PCA_OF_FEW),
    ),
    # Grown.
    **{name: lambda p=pooled: grown(p) for name, pooled in OF_TREES.items()},
    "forest public rows": lambda: grown(FOREST, PUBLIC),
    "wire forest": lambda: grown_over_a_wire(FOREST),
    # Apart.
    **{
        f"summaries {name}": lambda p=pooled: fit_summaries(p)
        for name, pooled in {
            "ridge": RidgeClassifier(),
            "lda": LDA(),
            "multinomial": MultinomialNB(),
            "bernoulli": BernoulliNB(binarize=0.3),
        }.items()
    },
    "summaries qda": lambda: fit_summaries(QDA(), IRIS),
    "region ridge": lambda: fit_region(RidgeClassifier()),
    "region multinomial": lambda: fit_region(MultinomialNB()),
    "chunks lda": lambda: fit_chunks(LDA()),
    "chunks bernoulli": lambda: fit_chunks(BernoulliNB(binarize=0.3)),
    "update and forget ridge": lambda: update_and_forget(RidgeClassifier()),
    "update and forget multinomial": lambda: update_and_forget(MultinomialNB()),
    "wire lda": lambda: over_a_wire(LDA()),
    "wire multinomial": lambda: over_a_wire(MultinomialNB()),
    "wire front": lambda: over_a_wire(LDA(), front=StandardScaler()),
}
