# SPDX-License-Identifier: BSD-3-Clause
"""Rows that count by their class: as members weigh them, or as the aggregator says."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import pytest
from helpers.tasks import ask
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import recall_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgems import Exchange, GEMSLogisticAggregator, answer
from skgems.asking import ClassWeightWarning, Message, Nodes
from skgems.gems import Moments
from skgems.guard import reply_to
from skgems.local import Member, class_weight_of, moments
from skgems.moments import log_losses
from skgems.parties import Summary

pytestmark = pytest.mark.usefixtures("accepting_nodes")

BALANCED = LogisticRegression(class_weight="balanced")
LABELS = np.array(["ache", "burn", "cold", "flu"])
GIVEN = {"ache": 1.0, "burn": 9.0, "cold": 0.5, "flu": 1.0}
# One cluster a class, which is quick.
ONE_CLUSTER = Moments(n_components=1)


@cache
def rows(n_nodes=3):
    """Rows of which some classes are rare; no node has all of the classes."""
    rng = np.random.default_rng(0)
    y = rng.choice(4, 1500, p=[0.45, 0.05, 0.45, 0.05])
    X = rng.standard_normal((4, 10))[y] + 1.2 * rng.standard_normal((len(y), 10))
    nodes = rng.integers(n_nodes, size=len(y))
    is_kept = nodes != y % n_nodes
    return X[is_kept], LABELS[y[is_kept]], nodes[is_kept]


def members(model):
    X, y, nodes = rows()
    return [clone(model).fit(X[nodes == k], y[nodes == k]) for k in range(3)]


def fit(model, **parameters):
    X, y, nodes = rows()
    settings = {"random_state": 0, "moments": ONE_CLUSTER} | parameters
    agg = GEMSLogisticAggregator(members(model), **settings)
    return agg.fit(X, y, nodes=nodes)


def balanced_weights(y):
    labels, counts = np.unique(y, return_counts=True)
    return dict(zip(labels.tolist(), len(y) / (len(labels) * counts), strict=True))


def slope_of_all(agg, class_weight):
    """Gradient of the loss of all rows at a model, as LogisticRegression has it."""
    X, y, _ = rows()
    W = np.vstack([agg.coef_.T, agg.intercept_])
    weights = np.array([class_weight.get(label, 1.0) for label in y.tolist()])
    codes = np.searchsorted(agg.classes_, y)
    residuals = log_losses(X @ W[:-1] + W[-1], codes)[1] * weights[:, None]
    gradient = np.vstack([X.T @ residuals, residuals.sum(axis=0)])
    gradient[:-1] += W[:-1] / agg.C_
    return np.linalg.norm(gradient)


@pytest.mark.parametrize(
    "model, class_weight", [(BALANCED, "members"), (LogisticRegression(), GIVEN)]
)
def test_messages_lead_to_the_pooled_weighted_model(model, class_weight):
    y = rows()[1]
    weights = balanced_weights(y) if model is BALANCED else GIVEN
    one, many = (
        fit(model, class_weight=class_weight, n_rounds=n_rounds) for n_rounds in (1, 25)
    )
    plain = fit(model, class_weight=None)
    # The first message is nearer than a model without weights, the last all but there.
    slopes = [slope_of_all(agg, weights) for agg in (plain, one, many)]
    assert slopes[1] < slopes[0] / 2
    assert slopes[2] < slopes[0] / 100
    # Messages go by the weighted loss, which never rises.
    objectives = [entry["objective"] for entry in many.history_ if entry["objective"]]
    assert (np.diff(objectives) <= 0).all()


def test_rare_classes_are_found():
    X, y, _ = rows()
    weighed, plain = fit(BALANCED), fit(BALANCED, class_weight=None)
    pooled = BALANCED.fit(X, y)
    rare = [
        recall_score(y, agg.predict(X), labels=["burn"], average="macro")
        for agg in (plain, weighed, pooled)
    ]
    assert rare[0] < rare[1] and rare[1] > rare[2] - 0.05


def test_what_members_agree_on_is_what_the_aggregator_may_say():
    X, y, _ = rows()
    of_members = fit(BALANCED)
    balanced = fit(BALANCED, class_weight="balanced")
    np.testing.assert_array_equal(of_members.coef_, balanced.coef_)
    with_numbers = fit(BALANCED, class_weight=balanced_weights(y))
    np.testing.assert_allclose(with_numbers.coef_, balanced.coef_, rtol=1e-6, atol=1e-9)
    assert (
        np.abs(with_numbers.coef_ - fit(BALANCED, class_weight=None).coef_).max() > 0.1
    )
    # Without weights it is as if there were none.
    np.testing.assert_array_equal(
        fit(LogisticRegression()).coef_,
        fit(LogisticRegression(), class_weight=None).coef_,
    )


@pytest.mark.parametrize(
    "models",
    [
        [LogisticRegression(class_weight=GIVEN)] * 2
        + [LogisticRegression(class_weight={**GIVEN, "flu": 2.0})],
        [OneVsRestClassifier(BALANCED)] * 2
        + [make_pipeline(StandardScaler(), LogisticRegression())],
    ],
)
def test_members_that_differ_are_named_and_rows_count_alike(models):
    X, y, nodes = rows()
    named = [
        (name, clone(model).fit(X[nodes == k], y[nodes == k]))
        for k, (name, model) in enumerate(zip(("a", "b", "c"), models, strict=True))
    ]
    agg = GEMSLogisticAggregator(named, moments=ONE_CLUSTER, random_state=0)
    with pytest.warns(ClassWeightWarning, match="at node 'a'.*at node 'c'"):
        agg.fit(X, y, nodes=nodes)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ClassWeightWarning)
        plain = clone(agg).set_params(class_weight=None).fit(X, y, nodes=nodes)
    np.testing.assert_allclose(agg.coef_, plain.coef_, rtol=1e-6, atol=1e-9)


def test_weights_of_classes_that_a_node_does_not_know_are_no_disagreement():
    X, y, nodes = rows()
    models = []
    for k in range(3):
        of_node = nodes == k
        known_weights = {c: w for c, w in GIVEN.items() if c in y[of_node]}
        models.append(
            LogisticRegression(class_weight=known_weights).fit(X[of_node], y[of_node])
        )
    agg = GEMSLogisticAggregator(models, moments=ONE_CLUSTER, random_state=0)
    agg.fit(X, y, nodes=nodes)
    other = clone(agg).set_params(class_weight=GIVEN).fit(X, y, nodes=nodes)
    np.testing.assert_allclose(agg.coef_, other.coef_, rtol=1e-6, atol=1e-9)


CASES = {
    "members": (BALANCED, "members"),
    "given": (LogisticRegression(), GIVEN),
}


def summaries_of(agg, model, **options):
    X, y, nodes = rows()
    return [
        agg.summarize(classifier, X[nodes == k], y[nodes == k], name=str(k), **options)
        for k, classifier in enumerate(members(model))
    ]


@pytest.mark.parametrize("case", CASES)
def test_files_have_the_bits_of_rows(case, tmp_path):
    model, class_weight = CASES[case]
    agg = GEMSLogisticAggregator(
        class_weight=class_weight, moments=ONE_CLUSTER, random_state=0
    )
    paths = []
    for summary in summaries_of(agg, model, disclosure=None):
        paths.append(str(tmp_path / f"{summary.name}.safetensors"))
        summary.save(paths[-1])
    files = clone(agg).set_params(estimators=paths).fit()
    rows_ = fit(model, class_weight=class_weight)
    np.testing.assert_array_equal(files.coef_, rows_.coef_)
    reply = Summary.load(paths[0]).message.content["answers"]["0"]["reply"]
    # What all agreed on beforehand is summed at the node.
    assert ("gradients" in reply) == (case != "given")
    with pytest.raises(ValueError, match="was summarized with class_weight="):
        clone(agg).set_params(estimators=paths, class_weight=None).fit()


def test_channels_and_exchanges_have_the_bits_of_rows(tmp_path):
    X, y, nodes = rows()
    parameters = {"class_weight": GIVEN, "n_rounds": 3, "random_state": 0}
    parameters["moments"] = ONE_CLUSTER
    model = LogisticRegression(C=0.03)
    near = fit(model, class_weight=GIVEN, n_rounds=3)
    models = members(model)

    def ask(requests):
        return {
            name: Message.from_bytes(
                reply_to(
                    request.to_bytes(),
                    models[int(name)],
                    *(X[nodes == int(name)], y[nodes == int(name)]),
                    name=name,
                    disclosure=None,
                )
            )
            for name, request in requests.items()
        }

    agg = GEMSLogisticAggregator(
        Nodes(ask, ["0", "1", "2"], disclosure=None), **parameters
    )
    np.testing.assert_array_equal(agg.fit().coef_, near.coef_)
    agg = GEMSLogisticAggregator(**parameters)
    exchange = Exchange(tmp_path, agg, nodes=["0", "1", "2"], disclosure=None)
    while (fitted := exchange.step()) is None:
        for name, request in exchange.waiting_for.items():
            of_node = nodes == int(name)
            answer(
                request,
                models[int(name)],
                X[of_node],
                y[of_node],
                name=name,
                disclosure=None,
            )
    np.testing.assert_array_equal(fitted.coef_, near.coef_)
    assert fitted.C_ == near.C_ == 0.03


def test_a_region_hands_on_what_weights_need():
    agg = GEMSLogisticAggregator(random_state=0, moments=ONE_CLUSTER)
    summaries = summaries_of(agg, BALANCED, disclosure=None)
    region = agg.merge_summaries(summaries[:2], name="north")
    content = region.message.content["answers"]["0"]["reply"]
    assert content["class_weight"] == "balanced" and "slope" not in content
    weighed = clone(agg).set_params(estimators=[region, summaries[2]]).fit()
    direct = clone(agg).set_params(estimators=summaries).fit()
    plain = clone(agg).set_params(
        estimators=summaries_of(
            clone(agg).set_params(class_weight=None), BALANCED, disclosure=None
        ),
        class_weight=None,
    )
    # It corrects about its own moments, so it is near, and not equal.
    X = rows()[0]
    error_weighed, error_plain = (
        np.abs(agg.predict_proba(X) - direct.predict_proba(X)).mean()
        for agg in (weighed, plain.fit())
    )
    assert error_weighed < error_plain / 5


def test_forgetting_a_node_is_never_having_had_it():
    X, y, nodes = rows()
    agg = GEMSLogisticAggregator(
        [(str(k), classifier) for k, classifier in enumerate(members(BALANCED))],
        keep_replies=True,
        moments=ONE_CLUSTER,
        random_state=0,
    )
    agg.fit(X, y, nodes=nodes).forget("1")
    remaining = nodes != 1
    other = GEMSLogisticAggregator(
        [
            (str(k), classifier)
            for k, classifier in enumerate(members(BALANCED))
            if k != 1
        ],
        moments=ONE_CLUSTER,
        random_state=0,
    )
    other.fit(X[remaining], y[remaining], nodes=nodes[remaining].astype(str))
    # Which changes what is rare.
    np.testing.assert_array_equal(agg.coef_, other.coef_)


@pytest.mark.parametrize("weighs", [None, "balanced", {"burn": 2.0}])
def test_the_pooled_ridge_classifier_is_weighed_as_the_aggregator_says(weighs):
    X, y, _ = rows()
    agg = fit(RidgeClassifier(), class_weight=weighs)
    pooled = RidgeClassifier(class_weight=weighs).fit(X, y)
    assert agg.exact_
    np.testing.assert_allclose(agg.coef_, pooled.coef_, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(
    "wrong", [{"burn": -1.0}, {"burn": np.nan}, {"burn": 0}, {"burn": "x"}]
)
def test_weights_that_are_none_are_refused_at_server_and_node(wrong):
    X, y, nodes = rows()
    words = "class_weight must hold finite numbers above 0, got {'burn': "
    with pytest.raises(ValueError, match=words):
        fit(LogisticRegression(), class_weight=wrong)
    agg = GEMSLogisticAggregator(class_weight=wrong)
    of_node = nodes == 0
    clf = LogisticRegression().fit(X[of_node], y[of_node])
    with pytest.raises(ValueError, match=words):
        agg.summarize(clf, X[of_node], y[of_node], name="lyon")


def test_classes_that_nobody_has_seen_are_named():
    with pytest.warns(
        UserWarning, match=r"names the classes \['rash'\], which no node"
    ):
        agg = fit(LogisticRegression(), class_weight={**GIVEN, "rash": 2.0})
    other = fit(LogisticRegression(), class_weight=GIVEN)
    np.testing.assert_array_equal(agg.coef_, other.coef_)


def test_members_that_weigh_a_class_by_nothing_are_named():
    with pytest.warns(ClassWeightWarning, match="or with 0: .*'burn', 0.0"):
        agg = fit(LogisticRegression(class_weight={**GIVEN, "burn": 0.0}))
    assert np.isfinite(agg.coef_).all()


# ---- nodes with one class each -------------------------------------------------

NOBODY_SAYS = "No node has a classifier of two or more classes"


def one_class_a_node(times):
    """Rows of as many classes as nodes, of which the first has so many times more."""
    sizes = [40 * times, 40, 60]
    y = np.repeat(LABELS[:3], sizes)
    X = np.random.default_rng(0).standard_normal((len(y), 4))
    return X + np.eye(3, 4)[np.repeat(np.arange(3), sizes)], y


def constants(X, y):
    return [
        (label, DummyClassifier().fit(X[y == label], y[y == label]))
        for label in np.unique(y).tolist()
    ]


def test_no_node_can_say_whether_rare_classes_count_for_more():
    X, y = one_class_a_node(times=8)
    agg = GEMSLogisticAggregator(constants(X, y), moments=ONE_CLUSTER, random_state=0)
    words = f"{NOBODY_SAYS}.*'ache' has 320 rows and class 'burn' 40.*'balanced'"
    with pytest.warns(ClassWeightWarning, match=words):
        agg.fit(X, y, nodes=y)
    recalls = [recall_score(y, agg.predict(X), labels=["burn"], average="macro")]
    with warnings.catch_warnings():
        warnings.simplefilter("error", ClassWeightWarning)
        for class_weight in (None, "balanced"):
            agg.set_params(class_weight=class_weight).fit(X, y, nodes=y)
            recall = recall_score(y, agg.predict(X), labels=["burn"], average="macro")
            recalls.append(recall)
    # What the warning is about: the class is not found without weights.
    assert recalls[0] == recalls[1] < recalls[2] - 0.2


@pytest.mark.parametrize("times", [1, 2])
def test_classes_of_like_sizes_need_no_weights(times):
    X, y = one_class_a_node(times)
    agg = GEMSLogisticAggregator(constants(X, y), moments=ONE_CLUSTER, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ClassWeightWarning)
        agg.fit(X, y, nodes=y)


def test_who_gives_rows_alone_has_no_weights_to_lose():
    X, y = one_class_a_node(times=8)
    alone = [(label, None) for label in np.unique(y).tolist()]
    with warnings.catch_warnings():
        warnings.simplefilter("error", ClassWeightWarning)
        GEMSLogisticAggregator(alone, moments=ONE_CLUSTER, random_state=0).fit(
            X, y, nodes=y
        )


def test_one_node_that_says_is_enough():
    X, y = one_class_a_node(times=8)
    model = clone(BALANCED).fit(X, y)
    agg = GEMSLogisticAggregator(
        [*constants(X, y), ("all", model)], moments=ONE_CLUSTER, random_state=0
    )
    nodes = y.astype(object)
    nodes[::3] = "all"
    with warnings.catch_warnings():
        warnings.simplefilter("error", ClassWeightWarning)
        agg.fit(X, y, nodes=nodes)
    counts = np.unique(y, return_counts=True)[1]
    weights = len(y) / (3 * counts)
    np.testing.assert_allclose(agg.likelihood_.loss.class_weight, weights)


@pytest.mark.parametrize("class_weight", [None, "balanced", {"ache": 0.25}])
def test_clones_of_nodes_with_one_class_have_the_weights_of_the_classifier(
    class_weight,
):
    X, y = one_class_a_node(times=8)
    classifier = LogisticRegression(class_weight=class_weight)
    agg = GEMSLogisticAggregator(
        classifier, moments=ONE_CLUSTER, validation_fraction=0.0, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", ClassWeightWarning)
        agg.fit(X, y, nodes=y)
        with_weights = (
            clone(agg).set_params(class_weight=class_weight).fit(X, y, nodes=y)
        )
    np.testing.assert_allclose(agg.coef_, with_weights.coef_, rtol=1e-9, atol=1e-12)


def test_a_region_of_nodes_with_one_class_each_says_nothing_of_weights():
    X, y = one_class_a_node(times=8)
    agg = GEMSLogisticAggregator(random_state=0, moments=Moments(n_components=1))
    summaries = [
        agg.summarize(model, X[y == label], y[y == label], name=label)
        for label, model in constants(X, y)
    ]
    # Of like sizes within the region, but not beside the third class.
    region = agg.merge_summaries(summaries[1:], name="south")
    assert "penalty" not in region.message.content["answers"]["0"]["reply"]
    server = clone(agg).set_params(estimators=[summaries[0], region])
    with pytest.warns(ClassWeightWarning, match=NOBODY_SAYS):
        server.fit()
    with pytest.warns(ClassWeightWarning, match=NOBODY_SAYS):
        agg.merge_summaries(summaries[:2], name="north")


# ---- at a node -----------------------------------------------------------------


def member(model=BALANCED):
    X, y, nodes = rows()
    of_node = nodes == 0
    return Member.from_estimator(
        "lyon", clone(model).fit(X[of_node], y[of_node]), X[of_node], y[of_node]
    )


ASKED = {"kind": "class", "n_components": 1, "min_cluster_size": 1}


def test_gradients_by_class_are_those_of_its_rows():
    node = member()
    reply = moments(node, **ASKED, model="own", class_weight="members")
    assert reply["class_weight"] == "balanced" and "gradient" not in reply
    W, _ = node.own_linear()
    labels = reply["labels"]
    for label, gradient in zip(labels, reply["gradients"], strict=True):
        X = node.X[node.y == label] - reply["moments"].origin
        logits = reply["factor"] * (node.X[node.y == label] @ W[:-1] + W[-1])
        codes = np.full(len(X), labels.index(label))
        residuals = log_losses(logits, codes)[1]
        np.testing.assert_allclose(gradient[:-1], X.T @ residuals, atol=1e-9)
        np.testing.assert_allclose(gradient[-1], residuals.sum(axis=0), atol=1e-9)
    # With weights that are known their weighted sum is sent, and no more.
    class_weight = [["burn", 3.0], ["unknown", 7.0]]
    summed = moments(node, **ASKED, model="own", class_weight=class_weight)
    weights = [3.0 if label == "burn" else 1.0 for label in labels]
    expected = np.tensordot(weights, reply["gradients"], 1)
    np.testing.assert_allclose(summed["gradient"], expected, atol=1e-9)
    assert "gradients" not in summed and "class_weight" not in summed


def test_nothing_by_class_is_sent_where_nobody_weighs():
    reply = moments(
        member(LogisticRegression()), **ASKED, model="own", class_weight="members"
    )
    assert "gradients" not in reply and "class_weight" not in reply


def test_a_class_of_too_few_rows_is_in_no_gradient():
    node = member()
    sizes = node.class_sizes()
    rare = min(sizes, key=sizes.get)
    settings = {**ASKED, "min_cluster_size": sizes[rare] + 1}
    reply = moments(node, **settings, model="own", class_weight="balanced")
    place = reply["labels"].index(rare)
    assert not reply["gradients"][place].any()
    assert reply["gradients"].any(axis=(1, 2)).sum() == len(sizes) - 1


def test_evaluate_weighs_every_sum():
    node = member()
    labels = np.unique(node.y).tolist()
    W = np.random.default_rng(0).normal(size=(11, len(labels)))
    request = {
        "W": W,
        "columns": np.arange(len(labels)),
        "factors": np.array([0.5, 1.0]),
        "gradient": True,
    }
    weights = np.array([2.0, 0.5, 3.0])[: len(labels)]
    weighed = ask("evaluate", node, **request, labels=labels, class_weights=weights)
    for name in ("count", "right", "losses", "squares", "gradient"):
        by_class = [
            ask(
                "evaluate",
                Member.from_estimator(
                    "a", BALANCED, node.X[node.y == label], node.y[node.y == label]
                ),
                **request,
                labels=labels,
            )[name]
            for label in labels
        ]
        expected = np.tensordot(weights, by_class, 1)
        np.testing.assert_allclose(weighed[name], expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "model, expected",
    [
        (LogisticRegression(), None),
        (LogisticRegression(class_weight={}), None),
        (LogisticRegression(class_weight={"burn": 1, "cold": 1.0}), None),
        (BALANCED, "balanced"),
        (make_pipeline(StandardScaler(), BALANCED), "balanced"),
        (OneVsRestClassifier(BALANCED), "balanced"),
        (LogisticRegression(class_weight={"b": 9, "a": 0.5}), [["a", 0.5], ["b", 9.0]]),
    ],
)
def test_weights_of_a_classifier_are_read(model, expected):
    assert class_weight_of(model) == expected
