# SPDX-License-Identifier: BSD-3-Clause
"""Trees are boosted over nodes, and make a plain classifier of scikit-learn."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from helpers.disclosures import rule_of
from helpers.labels import assert_same_labels
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris, make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PowerTransformer, StandardScaler

from skgems import PooledAggregator, PooledTransformer
from skgems.asking import ManyRowsWarning, Message, Nodes
from skgems.datasets import partition_by_label
from skgems.guard import Agreement, NotAgreedError, reply_to
from skgems.messages import TERMS, sealed

pytestmark = pytest.mark.usefixtures("accepting_nodes")

NAMES = ["lyon", "paris", "rome"]


def boosting(**parameters) -> HistGradientBoostingClassifier:
    """Four iterations of two levels, unless the parameters say otherwise."""
    defaults = {
        "max_iter": 4,
        "max_depth": 2,
        "min_samples_leaf": 5,
        "max_leaf_nodes": None,
        "early_stopping": False,
    }
    return HistGradientBoostingClassifier(**{**defaults, **parameters})


def rows(n_classes: int = 3, *, missing: bool = False):
    """Rows of four columns whose classes have names; some values may be missing."""
    X, y = load_iris(return_X_y=True)
    if missing:
        X = X.copy()
        X[::7, 2] = np.nan
        X[3::11, 0] = np.nan
    labels = np.array(["mild", "none", "severe"])[y]
    return X[y >= 3 - n_classes], labels[y >= 3 - n_classes]


def nodes_of(n_rows: int) -> np.ndarray:
    """The node of each row: equally many of each."""
    return np.array(NAMES)[np.arange(n_rows) % len(NAMES)]


def boosted(pooled=None, data=None, *, nodes=None, **parameters) -> PooledAggregator:
    """The aggregate of rows in this process."""
    X, y = rows() if data is None else data
    nodes = nodes_of(len(y)) if nodes is None else nodes
    pooled = boosting() if pooled is None else pooled
    return PooledAggregator(pooled=pooled, **parameters).fit(X, y, nodes=nodes)


def ask_nodes(data, *, min_rows: int = 1, **options):
    """Ask the three nodes by bytes; a node remembers nothing between two messages."""
    X, y = data
    nodes = nodes_of(len(y))

    def ask(requests):
        return {
            name: reply_to(
                Message.from_bytes(request.to_bytes()),
                None,
                X[nodes == name],
                y[nodes == name],
                name=name,
                disclosure=rule_of(min_rows),
                **options,
            )
            for name, request in requests.items()
        }

    return ask


def boosted_over_a_channel(pooled=None, data=None, *, min_rows=1) -> PooledAggregator:
    """The aggregate of nodes that are asked over a channel."""
    data = rows() if data is None else data
    channel = Nodes(
        ask_nodes(data, min_rows=min_rows), NAMES, disclosure=rule_of(min_rows)
    )
    pooled = boosting() if pooled is None else pooled
    return PooledAggregator(channel, pooled=pooled).fit()


def classifier_of(aggregate) -> HistGradientBoostingClassifier:
    return aggregate.to_estimator()[-1]


def assert_same_trees(first, second) -> None:
    """Both aggregates have the same trees, to the bit."""
    predictors, others = (classifier_of(a)._predictors for a in (first, second))
    assert len(predictors) == len(others) > 0
    for iteration, other_iteration in zip(predictors, others, strict=True):
        for tree, other in zip(iteration, other_iteration, strict=True):
            np.testing.assert_array_equal(tree.nodes, other.nodes)
    np.testing.assert_array_equal(
        classifier_of(first)._baseline_prediction,
        classifier_of(second)._baseline_prediction,
    )


def fitted_front(data=None):
    """A front that all partitions of the rows share, so that bins are the same."""
    X, _ = rows() if data is None else data
    return PooledTransformer(PowerTransformer()).fit(X)


# ---- the same trees, however rows are split ----------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("partition", ["one node", "by class", "five nodes"])
def test_trees_do_not_depend_on_how_rows_are_split_over_nodes(
    n_classes, missing, partition
):
    data = rows(n_classes, missing=missing)
    n_rows = len(data[1])
    nodes = {
        "one node": np.zeros(n_rows, dtype=int),
        "by class": partition_by_label(data[1], n_classes),
        "five nodes": np.random.RandomState(0).randint(5, size=n_rows),
    }[partition]
    front = fitted_front(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ManyRowsWarning)
        aggregate = boosted(data=data, nodes=nodes, front=front)
    expected = boosted(data=data, front=front)
    assert_same_trees(aggregate, expected)
    assert len(classifier_of(expected)._predictors) == 4


def test_trees_do_not_depend_on_how_many_nodes_are_treated_at_once():
    assert_same_trees(boosted(n_jobs=2), boosted())


@pytest.mark.parametrize("missing", [False, True])
def test_nodes_over_a_channel_make_the_same_trees(missing):
    """There they remember nothing; rows in this process are remembered."""
    data = rows(missing=missing)
    assert_same_trees(boosted_over_a_channel(data=data), boosted(data=data))


def test_public_rows_count_as_those_of_one_more_node():
    X, y = rows()
    public = np.where(nodes_of(len(y)) == "rome", "public", nodes_of(len(y)))
    front = fitted_front()
    aggregate = boosted(nodes=public, front=front)
    assert aggregate.node_names_ == NAMES[:2]
    assert_same_trees(aggregate, boosted(front=front))


def test_rows_that_are_held_out_are_in_no_sum():
    X, y = rows()
    held_out = np.arange(len(y)) % 4 == 0
    front = fitted_front()
    aggregate = PooledAggregator(pooled=boosting(), front=front).fit(
        X, y, nodes=nodes_of(len(y)), held_out=held_out
    )
    expected = PooledAggregator(pooled=boosting(), front=front).fit(
        X[~held_out], y[~held_out], nodes=nodes_of(len(y))[~held_out]
    )
    assert_same_trees(aggregate, expected)


def test_rows_that_nodes_share_would_be_counted_twice():
    X, y = rows()
    members = [boosting(max_leaf_nodes=7).fit(X, y)] * 2
    with pytest.raises(ValueError, match="same rows.*Set nodes="):
        PooledAggregator(members, pooled=boosting()).fit(X, y)


# ---- the classifier -----------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("missing", [False, True])
def test_the_exported_classifier_predicts_the_same_and_is_a_plain_one(
    n_classes, missing
):
    X, y = rows(n_classes, missing=missing)
    pooled = boosting(l2_regularization=0.5, learning_rate=0.3)
    aggregate = boosted(pooled, (X, y))
    exported = pickle.loads(pickle.dumps(aggregate.to_estimator()))
    assert_same_labels(aggregate, exported, X)
    probabilities = exported.predict_proba(X)
    np.testing.assert_array_equal(aggregate.predict_proba(X), probabilities)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(
        aggregate.decision_function(X), exported.decision_function(X)
    )
    classifier = exported[-1]
    assert type(classifier) is HistGradientBoostingClassifier
    assert classifier.get_params() == pooled.get_params()
    assert clone(classifier).get_params() == pooled.get_params()
    assert classifier.classes_.tolist() == np.unique(y).tolist()
    assert classifier.n_features_in_ == 4
    # As a classifier that was fitted: it says all that such a one does.
    powers = exported[:-1].transform(X)
    whole = clone(pooled).fit(powers, y)
    assert {name for name in vars(whole) if name[-1] == "_"} <= set(vars(classifier))
    assert classifier.n_iter_ == whole.n_iter_ == 4
    assert classifier.n_trees_per_iteration_ == whole.n_trees_per_iteration_
    assert aggregate.score(X, y) > 0.9
    assert clone(aggregate).get_params()["pooled"].get_params() == pooled.get_params()


def test_predictions_of_all_stages_are_there():
    X, y = rows()
    aggregate = boosted()
    exported = aggregate.to_estimator()
    classifier = exported[-1]
    stages = list(classifier.staged_predict_proba(exported[:-1].transform(X)))
    assert len(stages) == 4
    np.testing.assert_array_equal(stages[-1], aggregate.predict_proba(X))
    losses = [
        -np.log(p[np.arange(len(y)), np.unique(y, return_inverse=True)[1]]).mean()
        for p in stages
    ]
    assert (np.diff(losses) < 0).all()


@pytest.mark.parametrize("n_classes", [2, 3])
def test_counts_of_vertices_are_those_of_all_rows(n_classes):
    data = rows(n_classes)
    for (*iteration,) in classifier_of(boosted(data=data))._predictors:
        for tree in iteration:
            nodes = tree.nodes
            split = nodes[nodes["is_leaf"] == 0]
            assert nodes["count"][0] == len(data[1])
            np.testing.assert_array_equal(
                nodes["count"][split["left"]] + nodes["count"][split["right"]],
                split["count"],
            )
            assert (nodes["count"] >= 5).all()
            assert tree.get_max_depth() == nodes["depth"].max() <= 2


def test_trees_that_end_early_are_fewer():
    X, y = rows()
    aggregate = boosted(boosting(min_samples_leaf=100, max_iter=7))
    classifier = classifier_of(aggregate)
    assert classifier.n_iter_ == 1
    assert classifier.max_iter == 7
    shares = np.full((len(X), 3), 1 / 3)
    np.testing.assert_allclose(aggregate.predict_proba(X), shares)
    assert sum(entry["task"] == "boost" for entry in aggregate.history_) == 1


@pytest.mark.parametrize("labels", [[0, 1], [7, -3], [False, True], ["no", "yes"]])
def test_labels_may_be_of_any_kind(labels):
    X, y = rows(2)
    y = np.array(labels)[(y == "severe").astype(int)]
    aggregate = boosted(data=(X, y))
    assert aggregate.classes_.tolist() == sorted(labels)
    assert aggregate.score(X, y) > 0.9


def test_one_class_in_all_is_an_error_in_words():
    X, _ = rows()
    with pytest.raises(ValueError, match="All rows have the class 'none'.*another"):
        boosted(data=(X, np.full(len(X), "none")))


def test_a_value_that_is_missing_says_as_much_as_others():
    """Where missing goes with a class, no value is needed."""
    X, _ = rows()
    rng = np.random.RandomState(0)
    y = rng.randint(2, size=len(X))
    X = rng.normal(size=X.shape)
    X[y == 1, 2] = np.nan
    assert boosted(data=(X, y)).score(X, y) == 1.0


# ---- parameters -----------------------------------------------


NO_MEANING = {
    "early_stopping": ("auto", "False"),
    "max_leaf_nodes": (31, "None"),
    "max_features": (0.5, "1.0"),
    "max_bins": (64, "255"),
    "categorical_features": ([0], "None"),
    "monotonic_cst": ([1, 0, 0, 0], "None"),
    "interaction_cst": ("pairwise", "None"),
    "class_weight": ("balanced", "None"),
    "warm_start": (True, "False"),
}


@pytest.mark.parametrize("name", NO_MEANING)
def test_a_parameter_without_a_meaning_is_named_with_the_value_to_set(name):
    value, needed = NO_MEANING[name]
    match = f"{name}=.* no meaning for trees .*Set {name}={needed}"
    with pytest.raises(ValueError, match=match):
        boosted(boosting(**{name: value}))
    if isinstance(value, list):
        with pytest.raises(ValueError, match=match):
            boosted(boosting(**{name: np.array(value)}))


@pytest.mark.parametrize(
    "classifier, parameters",
    [
        (
            HistGradientBoostingClassifier(),
            ("max_depth", "early_stopping", "max_leaf_nodes"),
        ),
        (
            RandomForestClassifier(oob_score=True, ccp_alpha=0.1, min_samples_leaf=0.1),
            ("max_depth", "oob_score", "ccp_alpha", "min_samples_leaf"),
        ),
    ],
    ids=["boosting", "forest"],
)
def test_all_parameters_without_a_meaning_are_named_at_once(classifier, parameters):
    X, y = rows(3)
    with pytest.raises(ValueError) as raised:
        PooledAggregator(classifier).fit(X, y, nodes=np.arange(len(y)) % 2)
    for name in parameters:
        assert f"{name}=" in str(raised.value) or f"{name} is" in str(raised.value)


def test_no_booster_is_trained_at_a_node(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("A node trains a classifier that nothing uses.")

    monkeypatch.setattr("skgems.parties._simulation._train", refuse)
    X, y = rows(3)
    nodes = np.arange(len(y)) % 2
    given = PooledAggregator(boosting(max_iter=2)).fit(X, y, nodes=nodes)
    named = PooledAggregator(pooled=boosting(max_iter=2)).fit(X, y, nodes=nodes)
    np.testing.assert_array_equal(given.predict_proba(X), named.predict_proba(X))


@pytest.mark.parametrize("max_depth", [None, 7])
def test_a_depth_that_cannot_be_is_named_with_one_to_set(max_depth):
    match = f"max_depth is {max_depth},.*from 1 to 6. Set max_depth=4"
    with pytest.raises(ValueError, match=match):
        boosted(boosting(max_depth=max_depth))


@pytest.mark.parametrize(
    "parameters",
    [
        {"learning_rate": 0.0},
        {"l2_regularization": -1.0},
        {"max_iter": 0},
        {"min_samples_leaf": 0},
        {"max_depth": 0},
        {"max_depth": 2.5},
        {"warm_start": "yes"},
    ],
)
def test_values_that_scikit_learn_does_not_take_are_refused(parameters):
    name = next(iter(parameters))
    with pytest.raises(ValueError, match=f"'{name}' parameter of HistGradient"):
        PooledAggregator(pooled=boosting(**parameters)).fit(None, None)


@pytest.mark.parametrize(
    "parameters",
    [
        {"max_iter": np.int64(4)},
        {"max_depth": np.int32(2)},
        {"learning_rate": np.float64(0.1)},
        {"early_stopping": np.bool_(False)},
        {"max_features": np.float64(1.0)},
    ],
)
def test_numbers_of_numpy_are_as_good_as_those_of_python(parameters):
    assert_same_trees(boosted(boosting(**parameters)), boosted())
    settings = PooledAggregator(pooled=boosting(**parameters))._agreed_terms.settings
    values = settings["pooled"]["params"].values()
    assert {type(value) for value in values} == {int}


def test_the_classifiers_of_the_nodes_say_what_is_boosted():
    X, y = rows()
    nodes = nodes_of(len(y))
    members = [
        (name, boosting().fit(X[nodes == name], y[nodes == name])) for name in NAMES
    ]
    aggregate = PooledAggregator(members).fit(X, y, nodes=nodes)
    assert_same_trees(aggregate, boosted())
    members[0][1].set_params(max_depth=4)
    with pytest.raises(ValueError, match="differ.*Set pooled="):
        PooledAggregator(members).fit(X, y, nodes=nodes)


# ---- agreements -----------------------------------------------


def agreement_on(pooled=None) -> Agreement:
    pooled = boosting() if pooled is None else pooled
    return Agreement.of(PooledAggregator(pooled=pooled), disclosure=None)


def test_an_agreement_says_what_is_boosted_and_how_often_nodes_are_asked():
    agreement = agreement_on(boosting(max_iter=5, max_depth=3))
    assert agreement.settings["pooled"] == {
        "part": "HistGradientBoostingClassifier",
        "params": {"max_iter": 5, "max_depth": 3},
    }
    assert agreement.tasks["boost"] == 15
    assert agreement.tasks["counts"] == 1
    assert Agreement.from_json(agreement.to_json()).settings == agreement.settings


def requests_of(pooled) -> list[Message]:
    """The requests that a node gets while trees are boosted."""
    requests = []
    ask = ask_nodes(rows())

    def noting_ask(requests_by_name):
        requests.append(requests_by_name["lyon"])
        return ask(requests_by_name)

    channel = Nodes(noting_ask, NAMES, disclosure=None)
    PooledAggregator(channel, pooled=pooled).fit()
    return requests


def ask_under(agreement: Agreement, requests: list[Message]) -> list[Message]:
    """The replies of a node that keeps to an agreement."""
    X, y = rows()
    state: dict = {}
    return [
        reply_to(
            sealed(Message.of(request.task, **request.content), agreement),
            None,
            X[nodes_of(len(y)) == "lyon"],
            y[nodes_of(len(y)) == "lyon"],
            name="lyon",
            disclosure=None,
            agreement=agreement,
            state=state,
        )
        for request in requests
    ]


AGREED = boosting(max_iter=2)
BEYOND = {
    "more trees": (boosting(max_iter=3), "is about 9 trees, agreed are 6"),
    "fewer trees": (boosting(max_iter=1), "is about 3 trees, agreed are 6"),
    "deeper trees": (
        boosting(max_iter=2, max_depth=3),
        "trees of 3 levels, agreed is max_depth=2",
    ),
}


def test_an_honest_server_gets_its_replies_under_an_agreement():
    requests = requests_of(AGREED)
    replies = ask_under(agreement_on(AGREED), requests)
    assert [reply.task for reply in replies].count("boost") == 4


@pytest.mark.parametrize("name", BEYOND)
def test_more_than_agreed_is_refused(name):
    pooled, match = BEYOND[name]
    with pytest.raises(NotAgreedError, match=match):
        # The messages before them say what is agreed on.
        before = [r for r in requests_of(AGREED) if r.task != "boost"]
        about_trees = [r for r in requests_of(pooled) if r.task == "boost"]
        ask_under(agreement_on(AGREED), before + about_trees)


def test_nodes_are_asked_as_often_as_agreed_only():
    requests = requests_of(AGREED)
    # Another leaf value makes another request, of the same trees.
    *_, last = requests
    again = [
        Message.of(
            "boost", **{**last.content, "baseline": last.content["baseline"] + k}
        )
        for k in (1, 2)
    ]
    with pytest.raises(NotAgreedError):
        ask_under(agreement_on(AGREED), [*requests, *again])


def test_forests_are_not_asked_for_under_an_agreement_on_boosting():
    terms = PooledAggregator(pooled=AGREED)._agreed_terms
    with pytest.raises(ValueError, match="boosting does not ask for 'grow'"):
        terms.check_request(Message("grow", {}, {}))


def test_terms_are_made_again_of_their_settings():
    terms = PooledAggregator(pooled=AGREED)._agreed_terms
    again = TERMS[terms.method].from_settings(terms.settings, terms.further_settings)
    assert again.settings == terms.settings
    assert type(again) is type(terms)
    deep = {
        "pooled": {
            "part": "HistGradientBoostingClassifier",
            "params": {"max_iter": 5, "max_depth": 9},
        }
    }
    with pytest.raises(ValueError, match="from 1 to 6"):
        TERMS[terms.method].from_settings(deep, {})
    other = {
        "pooled": {
            "part": "HistGradientBoostingClassifier",
            "params": {"max_iter": 5, "max_depth": 2, "max_bins": 8},
        }
    }
    with pytest.raises(ValueError, match="max_bins"):
        TERMS[terms.method].from_settings(other, {})


# ---- nodes that hide rows -----------------------------------------------


def test_nodes_that_hide_few_rows_give_nearly_the_same_classifier():
    X, y = make_classification(
        1500, 6, n_informative=4, n_redundant=0, flip_y=0.02, random_state=1
    )
    train, test = slice(0, 900), slice(900, None)
    pooled = boosting(max_iter=15, max_depth=3, learning_rate=0.3)
    data = X[train], y[train]
    hiding = boosted_over_a_channel(pooled, data, min_rows=10)
    assert {bound for entry in hiding.history_ for bound in _bounds(entry)} == {10}
    exact = boosted(pooled, data)
    accuracy = exact.score(X[test], y[test])
    assert accuracy > 0.85
    assert hiding.score(X[test], y[test]) > accuracy - 0.04


def _bounds(entry) -> list:
    """The bounds on rows that nodes answered under, as an entry of history has them."""
    bounds = entry["min_rows"]
    return list(bounds.values()) if isinstance(bounds, dict) else [bounds]


# ---- the rest of the aggregator -----------------------------------------------


def test_no_file_holds_what_nodes_say_of_trees():
    X, y = rows()
    with pytest.raises(TypeError, match="HistGradientBoostingClassifier is"):
        PooledAggregator(pooled=boosting()).summarize(None, X, y, name="lyon")
    with pytest.raises(ValueError, match="each of their levels.*keep_replies=False"):
        boosted(keep_replies=True)


def test_what_was_made_says_that_bins_are_why_it_is_not_exact():
    aggregate = boosted()
    assert aggregate.exact_ is False
    form = aggregate.pooled_form_
    assert form.kind == "HistGradientBoostingClassifier"
    assert form.parameters["max_iter"] == 4
    assert form.reason == "trees are grown over 64 bins of each feature"


def test_messages_are_one_for_each_level_of_each_iteration():
    tasks = [entry["task"] for entry in boosted().history_]
    assert tasks == ["front", "counts"] + ["boost"] * 8


def test_a_front_of_the_user_stands_before_the_powers():
    aggregate = boosted(front=StandardScaler())
    front, classifier = aggregate.to_estimator()
    assert type(front[-1]) is PowerTransformer
    both = PooledTransformer(make_pipeline(StandardScaler(), PowerTransformer()))
    X, _ = rows()
    assert_same_trees(boosted(front=both.fit(X)), boosted(front=both))
    scaled = PooledTransformer(StandardScaler()).fit(X)
    with pytest.raises(ValueError, match="does not end with a PowerTransformer"):
        boosted(front=scaled)


@pytest.mark.parametrize("name", ["breast cancer", "made up"])
def test_boosting_is_as_accurate_as_that_of_scikit_learn(name):
    X, y = {
        "breast cancer": lambda: load_breast_cancer(return_X_y=True),
        "made up": lambda: make_classification(
            2400, 8, n_informative=5, n_classes=3, flip_y=0.02, random_state=0
        ),
    }[name]()
    X_fit, X_test, y_fit, y_test = train_test_split(
        X, y, test_size=0.5, random_state=0, stratify=y
    )
    pooled = boosting(max_iter=25, max_depth=4, learning_rate=0.2, min_samples_leaf=20)
    accuracy = boosted(pooled, (X_fit, y_fit)).score(X_test, y_test)
    whole = pooled.fit(X_fit, y_fit).score(X_test, y_test)
    assert abs(accuracy - whole) < 0.02
    assert whole > 0.8
