# SPDX-License-Identifier: BSD-3-Clause
"""The aggregate is penalized as the nodes' classifiers are, or as its C says."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import (
    LogisticRegression,
    Perceptron,
    RidgeClassifier,
    SGDClassifier,
)
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from skgems import GEMSLogisticAggregator
from skgems.asking import InterceptWarning, Message, PenaltyWarning
from skgems.gems import Moments, Rounds
from skgems.gems._penalties import DEFAULT_C, NodePenalty, agreed_penalty
from skgems.guard import inspect
from skgems.messages import check_reply, pairs_in
from skgems.moments import log_losses

NAMES = ["lyon", "paris", "bern"]
LEVEL = LogisticRegression(fit_intercept=False, tol=1e-8, max_iter=1000)
# One cluster a class, which is quick.
ONE_CLUSTER = Moments(n_components=1)


@cache
def rows():
    """Rows of three classes at three nodes of different sizes."""
    rng = np.random.default_rng(0)
    y = rng.choice(3, 600, p=[0.5, 0.3, 0.2])
    X = rng.standard_normal((3, 5))[y] + rng.standard_normal((len(y), 5)) + 1.0
    return X, y, np.array(NAMES)[rng.choice(3, len(y), p=[0.6, 0.25, 0.15])]


def members(*classifiers, X=None):
    """One fitted classifier a node, of one kind or of three."""
    everywhere, y, nodes = rows()
    X = everywhere if X is None else X
    classifiers = classifiers * (1 if len(classifiers) > 1 else len(NAMES))
    return [
        (name, clone(classifier).fit(X[nodes == name], y[nodes == name]))
        for name, classifier in zip(NAMES, classifiers, strict=True)
    ]


def fit(*classifiers, X=None, **parameters):
    """The aggregate; what it is not to warn of is an error in these tests."""
    everywhere, y, nodes = rows()
    settings = {"random_state": 0, "moments": ONE_CLUSTER} | parameters
    agg = GEMSLogisticAggregator(members(*classifiers, X=X), **settings)
    return agg.fit(everywhere if X is None else X, y, nodes=nodes)


def assert_equal_models(one, other):
    np.testing.assert_array_equal(one.coef_, other.coef_)
    np.testing.assert_array_equal(one.intercept_, other.intercept_)


def slope_of_all(agg, C, *, fit_intercept=True):
    """Size of the gradient that LogisticRegression(C) on all rows has at a model."""
    X, y, _ = rows()
    W = np.vstack([agg.coef_.T, agg.intercept_])
    residuals = log_losses(X @ W[:-1] + W[-1], y)[1]
    gradient = np.vstack([X.T @ residuals, residuals.sum(axis=0) * fit_intercept])
    gradient[:-1] += W[:-1] / C
    return np.linalg.norm(gradient)


# ---- one strength at all nodes -------------------------------------------------


@pytest.mark.parametrize("C", [0.01, 30.0])
def test_the_C_of_all_members_is_that_of_the_aggregate(C):
    agg = fit(LogisticRegression(C=C))
    assert agg.C_ == C == agg.to_estimator().C
    assert_equal_models(agg, fit(LogisticRegression(C=C), C=C))


def test_another_C_makes_another_model():
    weak, strong = (fit(LogisticRegression(C=C)) for C in (10.0, 0.001))
    assert np.abs(strong.coef_).max() < np.abs(weak.coef_).max() / 3


@pytest.mark.parametrize("C", [0.02, pytest.param(20.0, marks=pytest.mark.slow)])
def test_messages_lead_to_the_pooled_model_of_the_same_C(C):
    of_other_C, one, many = (
        fit(
            LogisticRegression(C=C, tol=1e-8),
            C=other_C,
            n_rounds=n_rounds,
            moments="auto",
        )
        for other_C, n_rounds in ((1.0, 25), ("members", 1), ("members", 25))
    )
    slopes = [slope_of_all(agg, C) for agg in (of_other_C, one, many)]
    assert slopes[2] < slopes[0] / 20 and slopes[2] < slopes[1]


def test_members_without_a_penalty_make_an_aggregate_without_one():
    agg = fit(LogisticRegression(C=np.inf))
    assert agg.C_ == np.inf
    assert_equal_models(agg, fit(LogisticRegression(C=np.inf), C=np.inf))
    penalized = fit(LogisticRegression(C=np.inf), C=0.01)
    assert np.abs(agg.coef_).max() > np.abs(penalized.coef_).max() * 1.5


def test_alpha_is_of_a_mean_so_C_goes_by_the_rows_of_all_nodes():
    agg = fit(SGDClassifier(loss="log_loss", alpha=1e-3, random_state=0))
    assert agg.C_ == pytest.approx(1.0 / (1e-3 * len(rows()[1])))


@pytest.mark.parametrize(
    ("classifier", "C"),
    [
        (LinearSVC(C=0.01, random_state=0), 0.08),
        (LinearSVC(C=0.01, loss="hinge", random_state=0), 0.04),
        (make_pipeline(StandardScaler(), RidgeClassifier(alpha=40)), 0.1),
        (SGDClassifier(alpha=0.05, random_state=0), 4.0 / (0.05 * 600)),
        # As strong as it is taken over of other losses than the log-loss.
        (make_pipeline(StandardScaler(), RidgeClassifier(alpha=0)), 1e3),
    ],
    ids=str,
)
def test_strengths_of_other_losses_are_those_of_a_log_loss_that_shrinks_alike(
    classifier, C
):
    assert fit(classifier).C_ == pytest.approx(C)


@pytest.mark.parametrize(
    "classifier",
    [
        make_pipeline(StandardScaler(), RidgeClassifier(alpha=3e4)),
        SGDClassifier(loss="log_loss", alpha=5.0, random_state=0),
    ],
    ids=["ridge", "sgd"],
)
def test_labels_are_nearer_to_those_of_the_pooled_model_of_the_kind(classifier):
    X, y, _ = rows()
    labels = clone(classifier).fit(X, y).predict(X)
    agreement, agreement_of_default = (
        np.mean(fit(classifier, C=C).predict(X) == labels) for C in ("members", 1.0)
    )
    assert agreement > agreement_of_default + 0.1


@pytest.mark.parametrize("classifier", [Perceptron(), LinearDiscriminantAnalysis()])
def test_where_no_node_says_a_strength_it_is_the_default(classifier):
    agg = fit(classifier, moments=Moments(n_components=3))
    assert agg.exact_ or agg.C_ == DEFAULT_C


def test_of_rows_alone_it_is_the_default():
    X, y, nodes = rows()
    agg = GEMSLogisticAggregator(
        [(name, None) for name in NAMES], moments=ONE_CLUSTER, random_state=0
    )
    assert agg.fit(X, y, nodes=nodes).C_ == DEFAULT_C == 1.0


def test_functions_of_sums_have_no_such_penalty():
    agg = fit(RidgeClassifier(alpha=3.0))
    assert agg.exact_ and agg.C_ is None


@pytest.mark.parametrize("intersection", ["consensus", "hinge"])
def test_other_intersections_have_none_and_warn_of_none(intersection):
    classifiers = [LogisticRegression(C=C) for C in (0.1, 1.0, 10.0)]
    assert fit(*classifiers, intersection=intersection).C_ is None


def test_files_whose_intersection_has_no_penalty_warn_of_none():
    """Their moments make a likelihood, which fits a factor on logits and no more."""
    agg = GEMSLogisticAggregator(intersection="consensus", random_state=0)
    classifiers = [LogisticRegression(C=C) for C in (0.1, 1.0, 10.0)]
    sent = summaries(agg, *classifiers, space=True)
    assert clone(agg).set_params(estimators=sent).fit().C_ is None


# ---- nodes that differ ---------------------------------------------------------


def test_nodes_that_differ_are_named_and_the_median_over_rows_is_taken():
    classifiers = [LogisticRegression(C=C) for C in (10.0, 0.1, 0.1)]
    words = r"C=0.1 at nodes 'paris', 'bern'; C=10 at node 'lyon'. .* uses C=10"
    with pytest.warns(PenaltyWarning, match=words):
        agg = fit(*classifiers)
    # Lyon has more than half of the rows. With a C that is given nobody is asked.
    assert_equal_models(agg, fit(*classifiers, C=10))


def test_another_alpha_is_named_as_it_was_given():
    classifiers = [
        SGDClassifier(loss="log_loss", alpha=alpha, random_state=0)
        for alpha in (0.1, 0.1, 0.01)
    ]
    words = r"\(log loss with alpha=0.1\) at nodes 'lyon', 'paris'; .* alpha=0.01\)"
    with pytest.warns(PenaltyWarning, match=words):
        fit(*classifiers)
    ridges = [
        make_pipeline(StandardScaler(), RidgeClassifier(alpha=alpha))
        for alpha in (1.0, 1.0, 20.0)
    ]
    words = r"squares with alpha=20\) at node 'bern'; .* alpha=1\) at nodes 'lyon'"
    with pytest.warns(PenaltyWarning, match=words):
        fit(*ridges)


def test_one_node_without_a_penalty_does_not_decide():
    classifiers = [LogisticRegression(), *[LogisticRegression(C=np.inf)] * 2]
    with pytest.warns(PenaltyWarning, match="C=inf at nodes 'paris', 'bern'"):
        agg = fit(*classifiers)
    assert agg.C_ == 1.0


def test_kinds_at_their_defaults_are_no_disagreement():
    agg = fit(
        LogisticRegression(),
        LinearSVC(random_state=0),
        make_pipeline(StandardScaler(), RidgeClassifier()),
    )
    assert agg.C_ == 1.0  # of the node with most rows
    with pytest.warns(PenaltyWarning, match="squared hinge with C=1000"):
        fit(
            LogisticRegression(C=0.1),
            LinearSVC(C=1000, random_state=0),
            LinearSVC(C=0.1, random_state=0),
        )


def test_nodes_that_say_nothing_do_not_count():
    X, y, nodes = rows()
    y = np.where(nodes == "bern", 0, y)
    of_paris = nodes == "paris"
    models = [
        ("lyon", None),
        ("paris", LogisticRegression(C=5.0).fit(X[of_paris], y[of_paris])),
        ("bern", DummyClassifier().fit(X[nodes == "bern"], y[nodes == "bern"])),
    ]
    agg = GEMSLogisticAggregator(models, moments=ONE_CLUSTER, random_state=0).fit(
        X, y, nodes=nodes
    )
    assert agg.C_ == 5.0


def node_penalty(name, n_rows, **strength):
    return NodePenalty(
        name=name,
        n_rows=n_rows,
        loss=strength.get("loss", "log_loss"),
        C=strength.get("C"),
        alpha=strength.get("alpha"),
        fit_intercept=None,
        center=None,
    )


def agreed_C(*nodes):
    """C on rows of all nodes; rows of one node dealt over three change nothing."""
    strengths = set()
    for several in (
        nodes,
        nodes[::-1],
        [part for node in nodes for part in dealt(node)],
    ):
        agreed = agreed_penalty(
            several,
            C="members",
            fit_intercept="members",
            n_rows=sum(node.n_rows for node in several),
            n_features=2,
            warns=False,
        )
        strengths.add(agreed.C)
    assert len(strengths) == 1
    return strengths.pop()


def dealt(node):
    shares = (0.2, 0.3, 0.5)
    return [
        node_penalty(
            f"{node.name} {share}",
            share * node.n_rows,
            loss=node.loss,
            C=node.C,
            alpha=node.alpha,
        )
        for share in shares
    ]


def test_the_median_over_rows():
    one, ten, thousand = (
        node_penalty(str(C), n_rows, C=C)
        for C, n_rows in ((1, 30), (10, 20), (1000, 9))
    )
    assert agreed_C(one, ten) == 1.0
    assert agreed_C(one, ten, thousand) == 1.0
    assert agreed_C(ten, thousand, node_penalty("more", 8, C=1000)) == 10.0
    # Between two halves it is their mean in logarithms.
    assert agreed_C(one, node_penalty("other", 30, C=100)) == pytest.approx(10.0)
    half = node_penalty("other", 30, alpha=0.0)
    assert agreed_C(one, half) == np.inf
    assert agreed_C(one, node_penalty("silent", 1000)) == 1.0
    assert agreed_C(node_penalty("silent", 1000)) == DEFAULT_C


# ---- nodes with one class, in simulation ---------------------------------------


@pytest.mark.parametrize("scales", [False, True])
def test_clones_of_nodes_with_one_class_are_penalised_as_the_classifier_says(scales):
    X, y, _ = rows()
    classifier = LogisticRegression(C=0.05, class_weight="balanced")
    if scales:
        classifier = make_pipeline(StandardScaler(), classifier)
    agg = GEMSLogisticAggregator(
        classifier, moments=ONE_CLUSTER, random_state=0, validation_fraction=0.0
    )
    agg.fit(X, y, nodes=y)
    assert all(isinstance(clf, DummyClassifier) for clf in agg.estimators_)
    assert agg.C_ == 0.05 and agg.likelihood_.scaled == scales
    sizes = np.bincount(y)
    np.testing.assert_allclose(
        agg.likelihood_.loss.class_weight, len(y) / (3 * sizes), rtol=1e-12
    )


def test_clones_of_nodes_with_one_class_and_no_intercept_pass_zero_at_the_mean():
    """Scalers were not fitted there, so none says what it takes to zero."""
    X, y, _ = rows()
    classifier = make_pipeline(StandardScaler(), LEVEL)
    agg = GEMSLogisticAggregator(
        classifier, moments=ONE_CLUSTER, random_state=0, validation_fraction=0.0
    )
    agg.fit(X, y, nodes=y)
    at_mean = agg.coef_ @ X.mean(axis=0) + agg.intercept_
    np.testing.assert_allclose(at_mean, 0.0, atol=1e-9)


# ---- a C that is given ---------------------------------------------------------


def test_C_is_searched_beside_that_of_members():
    X, y, nodes = rows()
    agg = GEMSLogisticAggregator(
        members(LogisticRegression(C=1e-5)), moments=ONE_CLUSTER, random_state=0
    )
    search = GridSearchCV(agg, {"C": ["members", 1.0, np.inf]}, cv=2)
    search.fit(X, y, nodes=nodes)
    scores = search.cv_results_["mean_test_score"]
    assert scores[0] < scores[1] and search.best_params_["C"] != "members"


def test_the_C_of_clones_is_searched():
    X, y, nodes = rows()
    agg = GEMSLogisticAggregator(
        LogisticRegression(), moments=ONE_CLUSTER, random_state=0
    )
    search = GridSearchCV(agg, {"estimators__C": [1e-5, 1.0]}, cv=2)
    search.fit(X, y, nodes=nodes)
    assert search.best_estimator_.C_ == 1.0


@pytest.mark.parametrize("wrong", [0, -1.0, "member", None, np.nan])
def test_a_C_that_is_none_is_refused(wrong):
    with pytest.raises(ValueError, match="The 'C' parameter"):
        fit(LogisticRegression(), C=wrong)


# ---- without an intercept ------------------------------------------------------


def test_members_without_an_intercept_make_an_aggregate_without_one():
    one, many = (fit(LEVEL, n_rounds=n_rounds) for n_rounds in (1, 25))
    for agg in (one, many):
        np.testing.assert_allclose(agg.intercept_, 0.0, atol=1e-9)
    slopes = [slope_of_all(agg, 1.0, fit_intercept=False) for agg in (one, many)]
    assert slopes[1] < slopes[0] / 10
    assert_equal_models(one, fit(LEVEL, fit_intercept=False))
    free = fit(LEVEL, fit_intercept=True)
    assert np.abs(free.intercept_).max() > 0.1


@pytest.mark.parametrize("moments", ["class", "shared", "diagonal"])
def test_a_column_of_ones_is_an_intercept(moments):
    """It would be left out as a constant, and classes of any size be as likely."""
    X, y, _ = rows()
    ones = np.column_stack([X, np.ones(len(X))])
    agg = fit(LEVEL, X=ones, moments=moments)
    pooled = clone(LEVEL).fit(ones, y)
    assert np.mean(agg.predict(ones) == pooled.predict(ones)) > 0.97
    assert np.abs(agg.coef_[:, -1]).max() > 0.5
    if moments == "class":
        # Without one another model is made.
        assert np.mean(fit(LEVEL).predict(X) == pooled.predict(ones)) < 0.95


def test_nodes_that_scale_pass_zero_at_the_mean_of_all_rows():
    X, y, _ = rows()
    scaled = make_pipeline(StandardScaler(), LEVEL)
    agg = fit(scaled)
    mean = X.mean(axis=0)
    at_mean = agg.coef_ @ mean + agg.intercept_
    np.testing.assert_allclose(at_mean, 0.0, atol=1e-9)
    pooled = clone(scaled).fit(X, y)
    assert np.mean(agg.predict(X) == pooled.predict(X)) > 0.97


def test_rows_fewer_than_features_without_an_intercept():
    _, y, nodes = rows()
    rng = np.random.default_rng(1)
    wide = (rng.random((len(y), 800)) < 0.01).astype(float)
    wide[np.arange(len(y)), 3 * y] += 1.0
    is_kept = np.arange(len(y)) % 4 == 0
    X = csr_matrix(wide)
    models = [
        (name, clone(LEVEL).fit(X[of_node], y[of_node]))
        for name in NAMES
        for of_node in [np.flatnonzero(is_kept & (nodes == name))]
    ]
    agg = GEMSLogisticAggregator(models, random_state=0, n_rounds=25)
    agg.fit(X[is_kept], y[is_kept], nodes=nodes[is_kept])
    assert agg.likelihood_.span is not None
    np.testing.assert_allclose(agg.intercept_, 0.0, atol=1e-9)
    pooled = clone(LEVEL).fit(X[is_kept], y[is_kept])
    np.testing.assert_allclose(
        agg.predict_proba(X[is_kept]), pooled.predict_proba(X[is_kept]), atol=0.02
    )


def test_candidates_have_no_intercept_either():
    rounds = Rounds(2, candidates=["lda", "average", "consensus", "share 1"])
    agg = fit(LEVEL, n_rounds=rounds)
    np.testing.assert_allclose(agg.intercept_, 0.0, atol=1e-9)
    # A discriminant analysis has one, and would be the best on these rows.
    free = fit(LEVEL, n_rounds=rounds, fit_intercept=True)
    losses = np.array(agg.candidates_.losses)
    free_losses = np.array(free.candidates_.losses)
    assert free_losses[0] < losses[0]
    assert (free_losses[1:] <= losses[1:] + 1e-9).all()


def test_nodes_with_and_without_an_intercept_are_named():
    classifiers = [LEVEL, LogisticRegression(), LEVEL]
    words = "False at nodes 'lyon', 'bern'; fit_intercept=True at node 'paris'"
    with pytest.warns(InterceptWarning, match=words):
        agg = fit(*classifiers)
    assert_equal_models(agg, fit(*classifiers, fit_intercept=True))
    level = fit(*classifiers, fit_intercept=False)
    np.testing.assert_allclose(level.intercept_, 0.0, atol=1e-9)


def test_an_exact_ridge_classifier_has_its_own_choice():
    X, y, _ = rows()
    agg = fit(RidgeClassifier(fit_intercept=False))
    assert agg.exact_
    pooled = RidgeClassifier(fit_intercept=False).fit(X, y)
    np.testing.assert_allclose(agg.coef_, pooled.coef_, rtol=1e-7, atol=1e-9)


# ---- files, channels, regions --------------------------------------------------


def summaries(agg, *classifiers, **options):
    X, y, nodes = rows()
    return [
        agg.summarize(
            classifier, X[nodes == name], y[nodes == name], name=name, **options
        )
        for name, classifier in members(*classifiers)
    ]


@pytest.mark.parametrize("classifier", [LogisticRegression(C=0.03), LEVEL])
def test_files_have_the_bits_of_rows(classifier, tmp_path):
    agg = GEMSLogisticAggregator(moments=ONE_CLUSTER, random_state=0)
    paths = []
    for summary in summaries(agg, classifier, disclosure=None):
        paths.append(str(tmp_path / f"{summary.name}.safetensors"))
        summary.save(paths[-1])
    files = clone(agg).set_params(estimators=paths)
    assert_equal_models(files.fit(), fit(classifier))
    if classifier is LEVEL:
        return
    # It is decided at the server, so that nobody has to summarize again.
    assert_equal_models(clone(files).set_params(C=5.0).fit(), fit(classifier, C=5.0))


@pytest.mark.parametrize("n_features", [5, 400])
def test_chunks_say_it_too(n_features):
    X, y, nodes = rows()
    # Of rows fewer than features all are held.
    X = np.hstack([X, np.random.default_rng(0).normal(size=(len(X), n_features - 5))])
    lyon = nodes == "lyon"
    classifier = LogisticRegression(C=0.03).fit(X[lyon], y[lyon])
    agg = GEMSLogisticAggregator(moments=ONE_CLUSTER, random_state=0)
    summary = agg.summarize(
        classifier, chunks=lambda: [(X[lyon], y[lyon])], name="lyon"
    )
    assert clone(agg).set_params(estimators=[summary]).fit().C_ == 0.03


@pytest.mark.parametrize(
    ("classifier", "penalty"),
    [
        (LogisticRegression(C=0.03), {"loss": "log_loss", "C": 0.03}),
        # Of a mean, so that C is known when all rows are counted.
        (
            SGDClassifier(loss="log_loss", alpha=0.02, random_state=0),
            {"loss": "log_loss", "alpha": 0.02},
        ),
        (LinearSVC(C=0.5, random_state=0), {"loss": "squared_hinge", "C": 0.5}),
        (Perceptron(), {"loss": "other"}),
    ],
    ids=["logistic", "sgd", "svc", "perceptron"],
)
def test_a_region_says_what_its_nodes_say(classifier, penalty):
    agg = GEMSLogisticAggregator(moments=ONE_CLUSTER, random_state=0)
    sent = summaries(agg, classifier)
    region = agg.merge_summaries(sent[:2], name="north")
    content = region.message.content["answers"]["0"]["reply"]
    assert content["penalty"] == {**penalty, "fit_intercept": True}
    of_nodes, with_region = (
        clone(agg).set_params(estimators=estimators).fit()
        for estimators in (sent, [region, sent[2]])
    )
    assert with_region.C_ == pytest.approx(of_nodes.C_)


def test_a_region_warns_of_its_nodes_and_hands_on_their_median():
    agg = GEMSLogisticAggregator(moments=ONE_CLUSTER, random_state=0)
    sent = summaries(agg, *[LogisticRegression(C=C) for C in (10.0, 0.1, 10.0)])
    with pytest.warns(PenaltyWarning, match="'paris'; C=10 at node 'lyon'"):
        region = agg.merge_summaries(sent[:2], name="north")
    assert clone(agg).set_params(estimators=[region, sent[2]]).fit().C_ == 10.0
    # Where the server will have its own, the region's members still speak.
    south = clone(agg).set_params(C=2.0).merge_summaries(sent[1:], name="south")
    content = south.message.content["answers"]["0"]["reply"]
    assert content["penalty"]["C"] in (0.1, 10.0)


@pytest.mark.parametrize("scales", [False, True])
def test_a_region_without_an_intercept(scales):
    classifier = make_pipeline(StandardScaler(), LEVEL) if scales else LEVEL
    agg = GEMSLogisticAggregator(random_state=0, moments=Moments(n_components=1))
    sent = summaries(agg, classifier, disclosure=None)
    region = agg.merge_summaries(sent[:2], name="north")
    agg_of_region = clone(agg).set_params(estimators=[region, sent[2]]).fit()
    X = rows()[0]
    zero = X.mean(axis=0) if scales else np.zeros(X.shape[1])
    np.testing.assert_allclose(
        agg_of_region.coef_ @ zero + agg_of_region.intercept_, 0.0, atol=1e-8
    )


def test_forgetting_a_node_forgets_its_penalty():
    X, y, nodes = rows()
    agg = GEMSLogisticAggregator(
        members(*[LogisticRegression(C=C) for C in (0.1, 0.1, 5.0)]),
        keep_replies=True,
        moments=ONE_CLUSTER,
        random_state=0,
    )
    with pytest.warns(PenaltyWarning):
        agg.fit(X, y, nodes=nodes)
    with warnings.catch_warnings():
        warnings.simplefilter("error", PenaltyWarning)
        assert agg.forget("bern").C_ == 0.1


# ---- what a node may say -------------------------------------------------------


@cache
def summary_of_lyon():
    """What one node sends; it is not altered."""
    return summaries(
        GEMSLogisticAggregator(moments=ONE_CLUSTER, random_state=0),
        LogisticRegression(),
    )[0]


def reply_with_penalty(**changes):
    """Request, reply and description of a node, with something else in its penalty."""
    content = summary_of_lyon().message.content
    request, reply = next(
        pair for pair in pairs_in(content) if pair[0].task == "moments"
    )
    penalty = {**reply.content["penalty"], **changes}
    penalty = {name: value for name, value in penalty.items() if value is not None}
    reply = Message.of("moments", **{**reply.content, "penalty": penalty})
    return request, reply, content["describe"]


@pytest.mark.parametrize("C", [1e-25, 1e25])
def test_extreme_strengths_are_taken(C):
    check_reply(*reply_with_penalty(C=C))
    agg = fit(LogisticRegression(), C=C)
    assert np.isfinite(agg.coef_).all() and np.isfinite(agg.intercept_).all()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"C": 0.0}, "penalty.C is 0"),
        ({"C": -1.0}, "penalty.C is -1"),
        ({"C": np.inf}, "penalty.C"),
        ({"C": np.nan}, "penalty.C"),
        ({"C": 1e26}, "penalty.C is 1e"),
        ({"C": None, "alpha": -1.0}, "penalty.alpha is -1"),
        ({"alpha": 1.0}, "penalty.alpha is there, though C is"),
        ({"loss": "other"}, "penalty.C is not allowed where the loss is 'other'"),
        ({"loss": "x"}, "penalty.loss is 'x'"),
        ({"fit_intercept": 1}, "penalty.fit_intercept is neither"),
        ({"more": 1}, "penalty.more is an unknown field"),
    ],
    ids=str,
)
def test_penalties_that_are_none_are_refused(changes, words):
    with pytest.raises((ValueError, TypeError), match=words):
        check_reply(*reply_with_penalty(**changes))


def test_a_penalty_that_nobody_asked_for_or_can_have_is_refused():
    request, reply, described = reply_with_penalty()
    silent = {**request.content, "penalty": False}
    with pytest.raises(ValueError, match="penalty was not asked for"):
        check_reply(Message.of("moments", **silent), reply, described)
    network = {**described["network"], "output": "none"}
    with pytest.raises(ValueError, match="penalty is there, but the node has no"):
        check_reply(request, reply, {**described, "network": network})


def test_inspecting_a_summary_tells_the_penalty(tmp_path):
    agg = GEMSLogisticAggregator(moments=ONE_CLUSTER, random_state=0)
    summary = summaries(agg, LogisticRegression(C=0.25))[0]
    summary.save(tmp_path / "lyon.safetensors")
    says = inspect(tmp_path / "lyon.safetensors").says["answers.0.penalty"]
    assert says.endswith("Here: loss 'log_loss', C=0.25, fit_intercept=True.")
