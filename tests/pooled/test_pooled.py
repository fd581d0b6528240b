# SPDX-License-Identifier: BSD-3-Clause
"""The classifier of all rows at one place is made of what nodes send."""

from __future__ import annotations

import copy
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from helpers.labels import assert_same_labels
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.discriminant_analysis import (
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
)
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV
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

import skgems
from skgems import PooledAggregator
from skgems.asking import Message, Nodes
from skgems.channels._methods import as_json, from_json
from skgems.datasets import partition_by_label, partition_dirichlet
from skgems.guard import inspect, reply_to
from skgems.networks import SUMMED
from skgems.parties import ClassesLeftOutWarning, Summary
from skgems.pooled import CLASSIFIERS

SHARES = [0.2, 0.3, 0.5]
DISCRIMINANT = LinearDiscriminantAnalysis
# A parameter or two of each that is not its default.
KINDS = {
    "ridge": RidgeClassifier(),
    "ridge weighted": RidgeClassifier(alpha=0.3, class_weight={"b": 3.0}),
    "ridge through zero": RidgeClassifier(fit_intercept=False),
    "lda": DISCRIMINANT(store_covariance=True),
    "lda of priors": DISCRIMINANT(solver="lsqr", shrinkage=0.2, priors=SHARES),
    "lda eigen": DISCRIMINANT(solver="eigen", shrinkage=0.1, n_components=1),
    "centroid": NearestCentroid(),
    "centroid shrunk": NearestCentroid(shrink_threshold=0.3, priors="empirical"),
    "qda": QuadraticDiscriminantAnalysis(),
    "qda regular": QuadraticDiscriminantAnalysis(
        reg_param=0.2, priors=SHARES, store_covariance=True
    ),
    "gaussian": GaussianNB(),
    "gaussian smooth": GaussianNB(var_smoothing=1e-2, priors=SHARES),
    "multinomial": MultinomialNB(alpha=0.5, class_prior=SHARES),
    "complement": ComplementNB(norm=True),
    "bernoulli": BernoulliNB(binarize=1.5, fit_prior=False),
    "bernoulli of bits": BernoulliNB(binarize=None, alpha=0.1),
    "categorical": CategoricalNB(min_categories=6, alpha=0.7),
}
# One of each classifier, and those of them that are there with other parameters too.
ONE_OF_EACH = [
    "ridge",
    "lda",
    "centroid",
    "qda",
    "gaussian",
    "multinomial",
    "complement",
    "bernoulli",
    "categorical",
]
OTHER_OF_EACH = {
    "ridge": "ridge weighted",
    "lda": "lda eigen",
    "centroid": "centroid shrunk",
    "qda": "qda regular",
    "gaussian": "gaussian smooth",
    "bernoulli": "bernoulli of bits",
}
LABELS = np.array(["b", "a", "c"])


def rows(kind="gaussian"):
    """Few features, expected numbers where the classifier counts; texts for labels."""
    X, y = load_wine(return_X_y=True)
    X = X[:, [0, 1, 3, 6, 9]]
    if kind in ("multinomial", "complement", "bernoulli", "categorical"):
        X = np.stack([np.digitize(x, np.quantile(x, [0.3, 0.6, 0.8])) for x in X.T], 1)
        X = X.astype(float)
    if kind == "bernoulli of bits":
        X = (np.median(X, axis=0) < X).astype(float)
    return X, LABELS[y]


def dealt(y, partition):
    """The node of each row."""
    if partition == "by class":
        return partition_by_label(y, 3)
    if partition == "dirichlet":
        return partition_dirichlet(y, 4, alpha=0.3, random_state=0)
    return np.random.RandomState(0).randint(5, size=len(y))


def scores(clf, X):
    """Joint log-likelihoods of naive Bayes, decision values of others."""
    if hasattr(clf, "predict_joint_log_proba"):
        return clf.predict_joint_log_proba(X)
    return clf.decision_function(X)


def assert_close(actual, desired, *, rtol, rtol_of_largest):
    np.testing.assert_allclose(
        actual, desired, rtol=rtol, atol=rtol_of_largest * np.abs(desired).max()
    )


def assert_same_fit(agg, expected, X, *, rtol=1e-8, same_params=True):
    """Labels, scores and fitted attributes are those of a fit on all rows."""
    exported = agg.to_estimator()
    assert type(exported) is type(expected)
    assert not same_params or exported.get_params() == expected.get_params()
    np.testing.assert_array_equal(agg.classes_, expected.classes_)
    assert_same_labels(agg, expected, X)
    assert_same_labels(exported, expected, X)
    assert_close(
        scores(exported, X), scores(expected, X), rtol=rtol, rtol_of_largest=rtol
    )
    fitted_names = {name for name in vars(expected) if name[-1] == "_"}
    assert fitted_names <= set(vars(exported))
    for name in ("coef_", "means_", "theta_", "var_", "covariance_", "class_prior_"):
        if hasattr(expected, name):
            actual = getattr(exported, name)
            desired = getattr(expected, name)
            assert np.shape(actual) == np.shape(desired), name
            assert_close(actual, desired, rtol=rtol, rtol_of_largest=rtol)


@pytest.mark.parametrize(
    ("kind", "partition"),
    [(kind, "by class") for kind in KINDS]
    + [(kind, "dirichlet") for kind in ONE_OF_EACH]
    + [(kind, "alike") for kind in ("ridge through zero", "lda of priors")],
)
def test_it_is_the_fit_on_all_rows_whatever_nodes_have(kind, partition):
    X, y = rows(kind)
    nodes = dealt(y, partition)
    agg = PooledAggregator(pooled=KINDS[kind]).fit(X, y, nodes=nodes)
    expected = clone(KINDS[kind]).fit(X, y)
    assert_same_fit(agg, expected, X)
    assert agg.exact_ and agg.pooled_form_.reason == ""
    assert agg.score(X, y) == expected.score(X, y)
    for method in ("predict_proba", "decision_function"):
        assert hasattr(agg, method) == hasattr(expected, method)
        if hasattr(expected, method):
            assert_close(
                getattr(agg, method)(X),
                getattr(expected, method)(X),
                rtol=1e-7,
                rtol_of_largest=1e-8,
            )
    is_of_two_classes = y != "c"
    if getattr(KINDS[kind], "priors", None) is None and "multi" not in kind:
        X_of_two = X[is_of_two_classes]
        y_of_two = y[is_of_two_classes]
        agg.fit(X_of_two, y_of_two, nodes=nodes[is_of_two_classes])
        assert_same_fit(agg, clone(KINDS[kind]).fit(X_of_two, y_of_two), X)


# Classifiers that take numbers of any size.
OF_UNITS = [
    "ridge",
    "lda",
    "lda of priors",
    "lda eigen",
    "centroid",
    "centroid shrunk",
    "gaussian",
    "gaussian smooth",
    "multinomial",
    "complement",
]


@pytest.mark.parametrize(
    ("kind", "size"),
    [(kind, size) for kind in OF_UNITS for size in (1e-140, 1e20)]
    + [("lda", 1e-100), ("gaussian", 1e-30)],
)
def test_units_may_be_as_large_or_small_as_scikit_learn_takes_them(kind, size):
    X, y = rows(kind)
    X = (X - X.min(axis=0)) * size
    agg = PooledAggregator(pooled=KINDS[kind]).fit(X, y, nodes=dealt(y, "alike"))
    expected = clone(KINDS[kind]).fit(X, y)
    assert_same_fit(agg, expected, X)
    if hasattr(expected, "predict_proba"):
        assert np.isfinite(agg.predict_proba(X)).all()


@pytest.mark.parametrize(
    "varies, smoothing", [("too little", 1e-9), ("not", 1e-9), ("not in a class", 0.0)]
)
@pytest.mark.filterwarnings("ignore:Node .*have no effect")
def test_naive_bayes_without_variances_is_an_error(varies, smoothing):
    X, y = rows()
    if varies == "not in a class":
        X[y == "c", 2] = 3.0
    else:
        X = X * 1e-160 if varies == "too little" else np.ones_like(X)
    agg = PooledAggregator(pooled=GaussianNB(var_smoothing=smoothing))
    place = "feature 0 does not vary in class 'a'"
    if varies == "not in a class":
        place = "feature 2 does not vary in class 'c'"
    with pytest.raises(ValueError, match=f"{place}, and var_smoothing="):
        agg.fit(X, y, nodes=dealt(y, "alike"))


@pytest.mark.parametrize("kind", ONE_OF_EACH)
def test_files_are_rows_to_the_bit_and_regions_and_nodes_come_and_go(kind, tmp_path):
    X, y = rows(kind)
    nodes = np.array(["lyon", "paris", "nice"])[dealt(y, "alike") % 3]
    agg = PooledAggregator(pooled=KINDS[kind], keep_replies=True)
    paths = []
    for name in ("lyon", "nice", "paris"):
        at_node = nodes == name
        paths.append(tmp_path / f"{name}.safetensors")
        summary = agg.summarize(
            None, X[at_node], y[at_node], name=name, disclosure=None
        )
        summary.save(paths[-1])
        assert "no model" in " ".join(inspect(paths[-1]).words.split())
    by_rows = clone(agg).fit(X, y, nodes=nodes)
    by_files = clone(agg).set_params(estimators=paths).fit()
    np.testing.assert_array_equal(
        scores(by_files.to_estimator(), X), scores(by_rows.to_estimator(), X)
    )
    north = agg.merge_summaries(paths[:2], name="north")
    north.save(tmp_path / "north")
    region_and_node = [Summary.load(tmp_path / "north"), paths[2]]
    of_all_rows = clone(KINDS[kind]).fit(X, y)
    by_region = clone(agg).set_params(estimators=region_and_node).fit()
    assert_same_fit(by_region, of_all_rows, X)
    in_north = nodes != "paris"
    of_north = clone(KINDS[kind]).fit(X[in_north], y[in_north])
    by_two_files = clone(agg).set_params(estimators=paths[:2]).fit()
    assert_same_fit(by_two_files, of_north, X)
    unpickled = pickle.loads(pickle.dumps(by_two_files))
    assert_same_fit(unpickled.update([paths[2]]), of_all_rows, X)
    by_rows = clone(agg).fit(X[in_north], y[in_north], nodes=nodes[in_north])
    by_rows.update([("paris", None)], X[~in_north], y[~in_north])
    assert_same_fit(by_rows, of_all_rows, X)
    assert_same_fit(by_rows.forget("paris"), of_north, X)
    assert by_rows.node_names_ == ["lyon", "nice"]


@pytest.mark.parametrize("kind", [OTHER_OF_EACH.get(k, k) for k in ONE_OF_EACH])
def test_rows_may_come_in_chunks_and_over_a_channel(kind):
    X, y = rows(kind)
    nodes = dealt(y, "alike") % 2
    agg = PooledAggregator(pooled=KINDS[kind])
    rows_by_node = {str(k): (X[nodes == k], y[nodes == k]) for k in range(2)}

    def chunks(X, y):
        return lambda: iter(
            [(X[k : k + 20], y[k : k + 20]) for k in range(0, len(X), 20)]
        )

    summaries = [
        agg.summarize(None, name=name, chunks=chunks(X_node, y_node), disclosure=None)
        for name, (X_node, y_node) in rows_by_node.items()
    ]
    order = np.argsort(nodes, kind="stable")  # one node after the other
    expected = clone(KINDS[kind]).fit(X[order], y[order])
    by_summaries = clone(agg).set_params(estimators=summaries).fit()
    assert_same_fit(by_summaries, expected, X)

    def ask(requests):
        for name, request in requests.items():
            X_node, y_node = rows_by_node[name]
            yield (
                name,
                reply_to(request, None, X_node, y_node, name=name, disclosure=None),
            )

    channel = Nodes(ask, ["0", "1"], disclosure=None)
    over_channel = clone(agg).set_params(estimators=channel).fit()
    assert_same_fit(over_channel, expected, X)
    with pytest.raises(ValueError, match="chunk"):
        agg.summarize(None, X, y, name="a", chunks=chunks(X, y))


@pytest.mark.parametrize("kind", ["ridge", "centroid", "multinomial", "bernoulli"])
def test_sparse_rows(kind):
    X, y = rows("multinomial")
    nodes = dealt(y, "alike")
    classifier = clone(KINDS[kind])
    if kind == "ridge":
        classifier.set_params(solver="sparse_cg", tol=1e-12)
    agg = PooledAggregator(pooled=classifier).fit(csr_matrix(X), y, nodes=nodes)
    expected = clone(KINDS[kind]).fit(X, y)
    np.testing.assert_array_equal(agg.predict(csr_matrix(X)), expected.predict(X))
    np.testing.assert_allclose(scores(agg.to_estimator(), X), scores(expected, X))


def test_sparse_rows_of_a_classifier_that_takes_dense_ones():
    X, y = rows("multinomial")
    agg = PooledAggregator(pooled=GaussianNB()).fit(csr_matrix(X), y)
    expected = GaussianNB().fit(X, y)
    np.testing.assert_array_equal(agg.predict(csr_matrix(X)), expected.predict(X))
    with pytest.raises(TypeError, match="'0'.*categories are numbers of dense"):
        PooledAggregator(pooled=CategoricalNB()).fit(csr_matrix(X), y)


@pytest.mark.parametrize("kind", ["lda", "qda", "gaussian", "complement"])
def test_rows_of_few_digits_and_frames(kind):
    X, y = rows(kind)
    nodes = dealt(y, "alike")
    agg = PooledAggregator(pooled=KINDS[kind])
    small = X.astype(np.float32)
    expected = clone(KINDS[kind]).fit(small.astype(float), y)
    agg.fit(small, y, nodes=nodes)
    np.testing.assert_allclose(
        scores(agg.to_estimator(), X), scores(expected, X), rtol=1e-4
    )
    frame = pd.DataFrame(X, columns=list("vwxyz"))
    agg.fit(frame, y, nodes=nodes)
    expected = clone(KINDS[kind]).fit(frame, y)
    assert_same_fit(agg, expected, frame)
    assert agg.to_estimator().feature_names_in_.tolist() == list("vwxyz")


def test_far_from_zero_digits_are_kept_or_it_says_so():
    X, y = rows()
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    for kind in ("qda", "gaussian", "lda", "ridge"):
        for shift, is_exact in ((1e4, True), (1e12, False)):
            agg = PooledAggregator(pooled=KINDS[kind])
            agg.fit(X + shift, y, nodes=dealt(y, "dirichlet"))
            assert agg.exact_ == is_exact
            if is_exact:
                expected = clone(KINDS[kind]).fit(X + shift, y)
                assert_same_fit(agg, expected, X + shift, rtol=1e-7)
            else:
                assert "rounding may change" in agg.pooled_form_.reason


@pytest.fixture(scope="module")
def two_nodes():
    """Rows, labels, the node of each row, and rows and labels of the second node."""
    X, y = rows()
    nodes = dealt(y, "alike") % 2
    return X, y, nodes, X[nodes == 1], y[nodes == 1]


def fitted_at_two_nodes(clf, X, y, nodes):
    return [clone(clf).fit(X[nodes == k], y[nodes == k]) for k in range(2)]


@pytest.fixture(scope="module")
def smooth_at_both(two_nodes):
    """The same classifier at each of two nodes, with a parameter of its own."""
    X, y, nodes, _, _ = two_nodes
    return fitted_at_two_nodes(GaussianNB(var_smoothing=1e-3), X, y, nodes)


@pytest.fixture(scope="module")
def forest(two_nodes):
    """A classifier of the second node that cannot be pooled."""
    _, _, _, X_second, y_second = two_nodes
    return RandomForestClassifier(3, random_state=0).fit(X_second, y_second)


def test_the_classifier_is_that_of_the_nodes_where_they_agree(
    two_nodes, smooth_at_both
):
    X, y, nodes, _, _ = two_nodes
    agg = PooledAggregator(smooth_at_both).fit(X, y, nodes=nodes)
    assert_same_fit(agg, GaussianNB(var_smoothing=1e-3).fit(X, y), X)
    assert agg.estimators_ == smooth_at_both
    assert agg.pooled_form_.kind == "GaussianNB"


@pytest.mark.parametrize(
    ("other", "match"),
    [
        (GaussianNB(), "var_smoothing is 0.001 at node '0' and 1e-09 at node '1'"),
        (RidgeClassifier(), "kind of classifier is 'GaussianNB' at node '0'"),
        (LogisticRegression(max_iter=9999), "node '1': LogisticRegression is not"),
        (make_pipeline(StandardScaler(), GaussianNB()), "after steps of a pipeline"),
    ],
    ids=["another parameter", "another kind", "not of sums", "pipeline"],
)
def test_nodes_that_do_not_agree_are_refused(two_nodes, smooth_at_both, other, match):
    X, y, nodes, X_second, y_second = two_nodes
    first = smooth_at_both[0]
    agg = PooledAggregator([first, clone(other).fit(X_second, y_second)])
    with pytest.raises(ValueError, match=match):
        agg.fit(X, y, nodes=nodes)


def test_nodes_agree_on_priors_that_are_arrays(two_nodes):
    X, y, nodes, _, _ = two_nodes
    with_priors = GaussianNB(priors=np.array(SHARES))
    agg = PooledAggregator(fitted_at_two_nodes(with_priors, X, y, nodes))
    agg.fit(X, y, nodes=nodes)
    assert_same_fit(agg, GaussianNB(priors=SHARES).fit(X, y), X, same_params=False)


def test_nodes_may_have_any_classifier_where_it_is_said_what_to_make(
    two_nodes, smooth_at_both, forest
):
    X, y, nodes, _, _ = two_nodes
    agg = PooledAggregator([smooth_at_both[0], forest], pooled="NearestCentroid")
    expected = NearestCentroid().fit(X, y)
    assert_same_fit(agg.fit(X, y, nodes=nodes), expected, X)
    # Without nodes a row that two know counts half in each.
    assert_same_fit(agg.fit(X, y), expected, X)
    agg.set_params(pooled="MultinomialNB")
    assert_same_fit(agg.fit(X, y), MultinomialNB().fit(X, y), X)
    assert agg.to_estimator().class_count_.sum() == len(y)


def test_a_summary_has_no_classifier_that_cannot_be_pooled(two_nodes, forest):
    _, _, _, X_second, y_second = two_nodes
    with pytest.raises(ValueError, match="which nodes elsewhere do not know"):
        PooledAggregator().summarize(forest, X_second, y_second, name="a")
    agg = PooledAggregator(pooled="MultinomialNB")
    summary = agg.summarize(forest, X_second, y_second, name="a", disclosure=None)
    assert not summary.network.has_classifier
    assert not summary.network.coefs[0].any()


def test_without_nodes_and_classifiers_it_is_discriminant_analysis_of_one_node():
    X, y = rows()
    agg = PooledAggregator().fit(X, y)
    assert_same_fit(agg, LinearDiscriminantAnalysis().fit(X, y), X)
    assert agg.node_names_ == ["0"]
    # Public rows are those of one more node.
    nodes = np.where(np.arange(len(y)) % 3, "lyon", "public")
    assert_same_fit(
        agg.fit(X, y, nodes=nodes), LinearDiscriminantAnalysis().fit(X, y), X
    )
    held_out = np.arange(len(y)) % 4 == 0
    agg.fit(X, y, nodes=nodes, held_out=held_out)
    expected = LinearDiscriminantAnalysis().fit(X[~held_out], y[~held_out])
    assert_same_fit(agg, expected, X)


def test_over_a_channel_it_is_discriminant_analysis_unless_something_else_is_said():
    X, y = rows()

    def ask(requests):
        for name, request in requests.items():
            yield name, reply_to(request, None, X, y, name=name)

    agg = PooledAggregator(Nodes(ask, ["lyon"])).fit()
    assert_same_fit(agg, LinearDiscriminantAnalysis().fit(X, y), X)


def test_a_search_asks_nodes_once_and_chooses_as_on_all_rows():
    X, y = rows("multinomial")
    nodes = dealt(y, "by class")
    alphas = [1e-2, 1e3]
    search = GridSearchCV(
        PooledAggregator(pooled="MultinomialNB"), {"pooled__alpha": alphas}, cv=3
    ).fit(X, y, nodes=nodes)
    of_all_rows = GridSearchCV(MultinomialNB(), {"alpha": alphas}, cv=3).fit(X, y)
    for name in ("mean_test_score", "rank_test_score"):
        np.testing.assert_allclose(
            search.cv_results_[name], of_all_rows.cv_results_[name]
        )
    # Smoothing is the server's to choose; what is counted is decided at the nodes.
    agg = PooledAggregator(pooled=BernoulliNB(binarize=1.0))
    summary = agg.summarize(None, X, y, name="lyon")
    smoothed = PooledAggregator([summary], pooled=BernoulliNB(binarize=1.0, alpha=9.0))
    assert_same_fit(smoothed.fit(), BernoulliNB(binarize=1.0, alpha=9.0).fit(X, y), X)
    for of_other_sums in (BernoulliNB(), MultinomialNB()):
        with pytest.raises(ValueError, match="'lyon' was summarized with pooled="):
            smoothed.set_params(pooled=of_other_sums).fit()


# What a model is of each class.
CENTERS = {"gaussian": "theta_", "multinomial": "feature_log_prob_", "lda": "means_"}


@pytest.mark.parametrize("kind", CENTERS)
def test_classes_of_few_rows_are_left_out_and_that_is_not_exact(kind):
    X, y = rows(kind)
    nodes = np.arange(len(y)) % 2
    agg = PooledAggregator(pooled=type(KINDS[kind]).__name__)
    # Node 0 gets two or three rows of the class "c" only.
    most_of_c = np.flatnonzero(y == "c")[:45]
    is_dealt = np.ones(len(y), dtype=bool)
    is_dealt[most_of_c] = nodes[most_of_c] == 1
    summaries = []
    # It leaves such classes out. What it tells of other classes is of rows with weights
    # of its own, so that nobody subtracts it from what is known of all rows.
    rule = skgems.Disclosure(rows=2, cell=1, unknowns=1.0, min_rows=10)
    for k in range(2):
        at_node = is_dealt & (nodes == k)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ClassesLeftOutWarning)
            summary = agg.summarize(
                None, X[at_node], y[at_node], name=str(k), disclosure=rule
            )
        assert len(caught) == (k == 0)
        summaries.append(summary)
    is_summed = is_dealt & ((nodes == 1) | (y != "c"))
    expected = type(KINDS[kind])().fit(X[is_summed], y[is_summed])
    of_summaries = clone(agg).set_params(estimators=summaries).fit()
    region = agg.merge_summaries(summaries, name="all")
    of_region = clone(agg).set_params(estimators=[region]).fit()
    assert_same_fit(of_region, of_summaries.to_estimator(), X)
    for aggregate in (of_summaries, of_region):
        # All rows of "c" are the other node's, which leaves nothing out.
        centers, expected_centers = (
            getattr(model, CENTERS[kind])
            for model in (aggregate.to_estimator(), expected)
        )
        np.testing.assert_allclose(centers[2], expected_centers[2], rtol=1e-9)
        assert not np.allclose(centers[0], expected_centers[0], rtol=1e-9)
        assert np.mean(aggregate.predict(X) == expected.predict(X)) > 0.9
        assert not aggregate.exact_
        reason = aggregate.pooled_form_.reason
        assert "min_rows" in reason or "withholds something" in reason
    without_c = clone(agg).set_params(estimators=summaries[:1])
    with pytest.warns(UserWarning, match=r"No node has rows of the classes \['c'\]"):
        assert without_c.fit().classes_.tolist() == ["a", "b"]


@pytest.mark.parametrize(
    "pooled, change, match",
    [
        (QuadraticDiscriminantAnalysis(), "one row", "only 1 sample in class c"),
        (QuadraticDiscriminantAnalysis(), "repeated", "covariance matrix of class a"),
        (QuadraticDiscriminantAnalysis(reg_param=0.5), "few", "has 4 rows and 5 feat"),
        (MultinomialNB(), "negative", "'lyon'.*Negative values"),
        (CategoricalNB(), "negative", "'lyon'.*Negative values"),
        (BernoulliNB(binarize=None), "negative", "'lyon'.*Negative values"),
        (CategoricalNB(), "huge", "'lyon'.*categories, more than"),
        (CategoricalNB(min_categories=[2, 2]), "", "could not be broadcast"),
        (GaussianNB(priors=[0.5, 0.5]), "", "Number of priors must match"),
        (GaussianNB(priors=[0.5, 0.5, 0.5]), "", "sum of the priors should be 1"),
        (GaussianNB(priors=[-0.5, 0.5, 1.0]), "", "Priors must be non-negative"),
        (GaussianNB(var_smoothing=-1.0), "", "'var_smoothing' parameter"),
        (MultinomialNB(class_prior=[1.0]), "", "Number of priors must match"),
        (MultinomialNB(alpha=[1.0, 2.0]), "", "n_features"),
        (LinearDiscriminantAnalysis(priors=[0.5, 0.5]), "", "there are 3 classes"),
        (LinearDiscriminantAnalysis(n_components=3), "", "n_components cannot be"),
        (LinearDiscriminantAnalysis(), "one class", "classes has to be greater"),
        (
            QuadraticDiscriminantAnalysis(priors=[1.0]),
            "",
            "There are 1 priors, but the classes",
        ),
        (NearestCentroid(), "constant", "zero variance"),
        (NearestCentroid(metric="manhattan"), "", "metric='manhattan'"),
        (RidgeClassifier(positive=True), "", "positive=True"),
        (
            LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto"),
            "",
            "shrinkage='auto'",
        ),
        (LogisticRegression(), "", "LogisticRegression is not a function of sums"),
        ("LogisticRegression", "", "The 'pooled' parameter"),
    ],
)
def test_what_cannot_be_made_says_why(pooled, change, match):
    X, y = rows("multinomial")
    if change == "one row":
        rows_to_fit = np.append(np.flatnonzero(y != "c"), np.flatnonzero(y == "c")[0])
        X, y = X[rows_to_fit], y[rows_to_fit]
    elif change == "few":
        rows_to_fit = np.append(np.flatnonzero(y != "c"), np.flatnonzero(y == "c")[:4])
        X, y = X[rows_to_fit], y[rows_to_fit]
    elif change == "repeated":
        X = np.column_stack([X, X[:, 0]])
    elif change in ("negative", "huge"):
        X[0, 0] = -1.0 if change == "negative" else 1e17
    elif change == "one class":
        y = np.full(len(y), "a")
    elif change == "constant":
        X = np.ones_like(X)
    with pytest.raises(ValueError, match=match):
        PooledAggregator(pooled=pooled).fit(X, y, nodes=["lyon"] * len(y))


def test_one_class_is_enough_for_what_scikit_learn_fits_to_one():
    X, y = rows("multinomial")
    y = np.full(len(y), "a")
    for classifier in (GaussianNB(), MultinomialNB(), CategoricalNB()):
        agg = PooledAggregator(pooled=classifier).fit(X, y)
        np.testing.assert_allclose(
            scores(agg.to_estimator(), X), scores(clone(classifier).fit(X, y), X)
        )


def test_categories_that_one_node_lacks_are_counted():
    X = np.array([[0, 1], [2, 0], [1, 3], [0, 0], [5, 1], [0, 2]], dtype=float)
    y = np.array([0, 1, 0, 1, 1, 0])
    nodes = [0, 0, 0, 1, 1, 1]
    agg = PooledAggregator(pooled=CategoricalNB()).fit(X, y, nodes=nodes)
    expected = CategoricalNB().fit(X, y)
    assert_same_fit(agg, expected, X)
    for counts, expected_counts in zip(
        agg.to_estimator().category_count_, expected.category_count_, strict=True
    ):
        np.testing.assert_array_equal(counts, expected_counts)


def test_unevenly_shared_amounts_of_complements_are_not_called_exact():
    rng = np.random.default_rng(0)
    X = rng.random((60, 3)) + 0.1
    y = np.arange(60) % 2
    X[y == 0, 0] *= 1e12
    classifier = ComplementNB(alpha=0.0)
    agg = PooledAggregator(pooled=classifier).fit(X, y, nodes=y)
    assert not agg.exact_ and "rounding" in agg.pooled_form_.reason
    assert PooledAggregator(pooled=classifier).fit(np.round(X), y, nodes=y).exact_


def test_it_is_kept_in_folders(tmp_path):
    X, y = rows()
    weights = {"a": 2.0, "b": 0.5}
    agg = PooledAggregator(pooled=RidgeClassifier(class_weight=weights, alpha=2.0))
    again = from_json(as_json(agg))
    assert again.pooled.get_params() == agg.pooled.get_params()
    exchange = skgems.Exchange(tmp_path / "work", agg, nodes=["lyon"])
    while (fitted := exchange.step()) is None:
        for name, request in exchange.waiting_for.items():
            skgems.answer(request, None, X, y, name=name)
    assert_same_fit(fitted, clone(agg.pooled).fit(X, y), X)


@pytest.mark.parametrize(
    "pooled, field, change, match",
    [
        (
            "BernoulliNB",
            "sums",
            lambda sums: sums + 99.0,
            "sums are more than the rows",
        ),
        (
            "CategoricalNB",
            "sums",
            lambda sums: sums * 0.5,
            "are not one category for each row",
        ),
        (
            "CategoricalNB",
            "sizes",
            lambda sizes: sizes + 1,
            "sums are .* of a class, not",
        ),
        ("CategoricalNB", "sizes", lambda sizes: sizes + 10**7, "sizes are more than"),
        (
            "MultinomialNB",
            "counts",
            lambda counts: counts + 1.0,
            "are not those of describe",
        ),
        ("MultinomialNB", "sums", lambda sums: -sums, "values below 0"),
        ("MultinomialNB", "sums", lambda sums: sums[:, 1:], "of a class, not 5"),
    ],
)
def test_sums_that_cannot_be_are_refused(pooled, field, change, match):
    X, y = rows("categorical")
    summary = PooledAggregator(pooled=pooled).summarize(None, X, y, name="lyon")
    content = copy.deepcopy(dict(summary.message.content))
    reply = content["answers"]["0"]["reply"]
    reply[field] = change(np.array(reply[field]))
    with pytest.raises(ValueError, match=match):
        Summary(Message.of("join", **content))


def test_classifiers_that_are_told_of_pooling_are_those_without_weights():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, size=(60, 3))
    y = np.arange(60) % 2
    without_weights = {
        name
        for name, kind in CLASSIFIERS.items()
        if kind is not NearestCentroid and not hasattr(kind().fit(X, y), "coef_")
    }
    assert set(SUMMED) == without_weights
