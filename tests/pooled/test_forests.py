# SPDX-License-Identifier: BSD-3-Clause
"""Trees and forests of all rows are grown, and are plain ones of scikit-learn."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from helpers.forests import KINDS, NAMES, forest, grown, nodes_of, rows
from helpers.labels import assert_same_labels
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PowerTransformer, StandardScaler
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier, export_text
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import estimator_checks_generator

from skgems import PooledAggregator, PooledTransformer
from skgems.asking import ManyRowsWarning
from skgems.datasets import partition_by_label
from skgems.steps import ColumnsError

X, Y = rows()
KIND = pytest.mark.parametrize("kind", KINDS)


def trees_of(aggregate) -> list:
    """All trees of an aggregate, as arrays of scikit-learn."""
    classifier = aggregate.to_estimator()[-1]
    return [tree.tree_ for tree in getattr(classifier, "estimators_", [classifier])]


def assert_same_trees(first, second) -> None:
    """Both aggregates have the same trees, to the bit."""
    for tree, other in zip(trees_of(first), trees_of(second), strict=True):
        state = tree.__getstate__()
        other_state = other.__getstate__()
        np.testing.assert_array_equal(state["nodes"], other_state["nodes"])
        np.testing.assert_array_equal(state["values"], other_state["values"])


def fitted_front():
    """A front that all partitions of the rows share, so that bins are the same."""
    return PooledTransformer(PowerTransformer()).fit(X)


# ---- scikit-learn's own checks -----------------------------------------------------


def sklearn_checks():
    """A parameter of pytest for each check of an aggregator of a forest."""
    for aggregator, check in estimator_checks_generator(
        PooledAggregator(pooled=forest())
    ):
        # A front says in other words how many columns it takes.
        if check.func.__name__ != "check_n_features_in_after_fitting":
            options = "-".join(map(str, check.keywords.values()))
            yield pytest.param(aggregator, check, id=f"{check.func.__name__}{options}")


@pytest.mark.parametrize(("aggregator", "check"), list(sklearn_checks()))
def test_all_checks_of_scikit_learn_pass(aggregator, check):
    check(aggregator)


@pytest.mark.parametrize("pooled", [forest(max_depth=None), LogisticRegression()])
def test_what_cannot_be_fitted_is_shown_in_a_notebook_all_the_same(pooled):
    aggregator = PooledAggregator(pooled=pooled)
    assert get_tags(aggregator).input_tags.sparse
    assert type(pooled).__name__ in aggregator._repr_html_()
    with pytest.raises(ValueError, match=type(pooled).__name__):
        aggregator.fit(X, Y)


def test_tags_say_that_values_may_be_missing_and_rows_may_not_be_sparse():
    tags = get_tags(PooledAggregator(pooled=forest()))
    assert tags.input_tags.allow_nan and not tags.input_tags.sparse
    tags = get_tags(PooledAggregator(pooled="GaussianNB"))
    assert tags.input_tags.sparse and not tags.input_tags.allow_nan


def test_rows_of_other_numbers_of_columns_are_refused():
    with pytest.raises(ColumnsError, match="X has 3 columns, but the front takes 4"):
        grown().predict(X[:, :3])


# ---- the same trees, however rows are split ----------------------------------------


@KIND
@pytest.mark.parametrize("partition", ["one node", "by class", "five nodes"])
def test_trees_do_not_depend_on_how_rows_are_split_over_nodes(kind, partition):
    nodes = {
        "one node": np.zeros(len(Y), dtype=int),
        "by class": partition_by_label(Y, 3),
        "five nodes": np.random.RandomState(0).randint(5, size=len(Y)),
    }[partition]
    front = fitted_front()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ManyRowsWarning)
        aggregate = grown(KINDS[kind], nodes=nodes, front=front)
    expected = grown(KINDS[kind], front=front)
    assert len(trees_of(aggregate)[0].feature) > 3
    assert_same_trees(aggregate, expected)


@pytest.mark.parametrize("kind", ["forest of entropies", "extra trees"])
def test_trees_do_not_depend_on_how_many_nodes_are_treated_at_once(kind):
    assert_same_trees(grown(KINDS[kind], n_jobs=2), grown(KINDS[kind]))


def test_trees_do_not_depend_on_the_order_of_rows_or_nodes_or_on_names_of_classes():
    """Draws with replacement do: they are a function of the rows as they stand."""
    pooled = forest(bootstrap=False)
    expected = grown(pooled)
    order = np.random.RandomState(0).permutation(len(Y))
    nodes = np.array(["zeta", "alpha", "mu"])[np.arange(len(Y)) % 3]
    renamed = np.char.add("c", Y)
    # Sums of the front are rounded in another order.
    for other in (
        grown(pooled, (X[order], Y[order]), nodes=nodes[order]),
        grown(pooled, (X, renamed), nodes=nodes),
        grown(pooled, (X.astype(np.float32), Y), nodes=nodes),
    ):
        np.testing.assert_allclose(
            other.predict_proba(X), expected.predict_proba(X), rtol=1e-9, atol=1e-9
        )


def test_public_rows_count_as_those_of_one_more_node():
    nodes = nodes_of(len(Y))
    public = np.where(nodes == "rome", "public", nodes)
    front = fitted_front()
    pooled = forest(bootstrap=False)
    aggregate = grown(pooled, nodes=public, front=front)
    assert aggregate.node_names_ == NAMES[:2]
    assert_same_trees(aggregate, grown(pooled, front=front))
    roots = [tree.n_node_samples[0] for tree in trees_of(aggregate)]
    assert roots == [len(Y)] * 5


def test_rows_that_are_held_out_are_not_counted():
    held_out = np.arange(len(Y)) % 4 == 0
    front = fitted_front()
    pooled = forest(bootstrap=False)
    aggregate = PooledAggregator(pooled=pooled, front=front).fit(
        X, Y, nodes=nodes_of(len(Y)), held_out=held_out
    )
    expected = PooledAggregator(pooled=pooled, front=front).fit(
        X[~held_out], Y[~held_out]
    )
    assert_same_trees(aggregate, expected)


def test_a_seed_of_either_kind_repeats_a_forest_and_others_draw_other_ones():
    first = grown(forest(random_state=1))
    assert_same_trees(first, grown(forest(random_state=1)))
    unseeded = forest(random_state=None)
    seeded = grown(unseeded, random_state=1)
    assert_same_trees(seeded, grown(unseeded, random_state=1))
    for other in (grown(unseeded), grown(forest(random_state=2))):
        with pytest.raises(AssertionError):
            assert_same_trees(first, other)
    # A generator goes on: a second fit draws other features.
    aggregate = grown(unseeded, random_state=np.random.RandomState(0))
    before = aggregate.predict_proba(X)
    after = aggregate.fit(X, Y, nodes=nodes_of(len(Y))).predict_proba(X)
    assert (before != after).any()


# ---- what scikit-learn's trees are -------------------------------------------------


@pytest.mark.parametrize("n_levels", [1, 2, 4])
@pytest.mark.parametrize("criterion", ["gini", "entropy"])
def test_a_tree_is_that_of_scikit_learn_on_the_same_bins(n_levels, criterion):
    # Rows in the middle of bins: what scikit-learn may split by are the bins, too.
    powers = fitted_front().transform(X)
    middles = np.round(powers, 1)
    whole = DecisionTreeClassifier(
        max_depth=n_levels, criterion=criterion, random_state=0
    ).fit(middles, Y)
    aggregate = grown(
        DecisionTreeClassifier(max_depth=n_levels, criterion=criterion),
        (X, Y),
        front=fitted_front(),
    )
    tree = aggregate.to_estimator()[-1]
    assert tree.get_depth() == n_levels == whole.get_depth()
    gap = tree.tree_.impurity[0] - whole.tree_.impurity[0]
    assert abs(gap) < 1e-12
    assert abs(aggregate.score(X, Y) - whole.score(middles, Y)) < 0.03


@pytest.mark.parametrize("kind", [*KINDS, "bootstrap"])
def test_the_exported_forest_predicts_the_same_and_is_a_plain_one(kind):
    pooled = KINDS.get(kind, forest())
    aggregate = grown(pooled)
    exported = pickle.loads(pickle.dumps(aggregate.to_estimator()))
    assert_same_labels(aggregate, exported, X)
    probabilities = exported.predict_proba(X)
    np.testing.assert_array_equal(aggregate.predict_proba(X), probabilities)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-12)
    powers = exported[:-1].transform(X)
    classifier = exported[-1]
    assert type(classifier) is type(pooled)
    assert classifier.get_params() == pooled.get_params()
    assert clone(classifier).get_params() == pooled.get_params()
    assert classifier.classes_.tolist() == ["mild", "none", "severe"]
    assert classifier.n_classes_ == 3 and classifier.n_features_in_ == 4
    importances = classifier.feature_importances_
    assert (importances >= 0).all() and abs(importances.sum() - 1.0) < 1e-12
    leaves = classifier.apply(powers)
    assert len(leaves) == len(X) and (leaves > 0).all()
    paths = classifier.decision_path(powers)
    paths = paths[0] if isinstance(paths, tuple) else paths
    assert paths.shape[0] == len(X) and (paths.sum(axis=1) >= 2).all()
    # What scikit-learn fits has no attribute that this one lacks.
    whole = clone(pooled).fit(powers, Y)
    assert {name for name in vars(whole) if name[-1] == "_"} <= set(vars(classifier))


def test_each_tree_within_a_forest_is_a_plain_one():
    classifier = grown(forest()).to_estimator()[-1]
    powers = fitted_front().transform(X)
    votes = np.mean([tree.predict_proba(powers) for tree in classifier], axis=0)
    np.testing.assert_allclose(classifier.predict_proba(powers), votes, rtol=1e-12)
    for tree in classifier:
        assert type(tree) is DecisionTreeClassifier
        assert "class" in export_text(tree)
        assert tree.get_n_leaves() == (tree.tree_.children_left == -1).sum()
    extra = grown(KINDS["extra trees"]).to_estimator()[-1]
    assert {type(tree) for tree in extra} == {ExtraTreeClassifier}


def depth_of(tree) -> int:
    """The longest way from the root of a tree, by its children."""
    depths = np.zeros(tree.node_count, dtype=int)
    for vertex in np.flatnonzero(tree.children_left >= 0):
        for children in (tree.children_left, tree.children_right):
            assert children[vertex] > vertex
            depths[children[vertex]] = depths[vertex] + 1
    return depths.max()


def test_each_tree_says_its_own_depth_and_counts():
    # Trees of few rows: some of them are done sooner than others.
    aggregate = grown(
        forest(n_estimators=12, max_depth=6, min_samples_leaf=9), (X[::2], Y[::2])
    )
    trees = trees_of(aggregate)
    assert len({tree.max_depth for tree in trees}) > 1
    for tree in trees:
        assert tree.max_depth == depth_of(tree)
        split = tree.children_left >= 0
        for counts in (tree.n_node_samples, tree.weighted_n_node_samples):
            children = counts[tree.children_left] + counts[tree.children_right]
            np.testing.assert_array_equal(counts[split], children[split])
        assert (tree.n_node_samples >= 9).all()


def test_counts_of_vertices_are_those_of_rows_that_reach_them():
    classifier = grown(KINDS["forest"]).to_estimator()
    reached, ends = classifier[-1].decision_path(classifier[:-1].transform(X))
    n_reached = np.asarray(reached.sum(axis=0)).ravel()
    for tree, first in zip(classifier[-1], ends, strict=False):
        n_of_tree = n_reached[first : first + tree.tree_.node_count]
        np.testing.assert_array_equal(tree.tree_.n_node_samples, n_of_tree)


def test_the_impurity_is_that_of_the_classes():
    for criterion, expected in (("gini", 2 / 3), ("entropy", np.log2(3))):
        classifier = grown(forest(bootstrap=False, criterion=criterion))
        for tree in trees_of(classifier):
            assert abs(tree.impurity[0] - expected) < 1e-12
            pure = tree.value.max(axis=(1, 2)) == 1.0
            assert pure.any() and (np.abs(tree.impurity[pure]) < 1e-12).all()


# ---- rows of every sort ------------------------------------------------------------


def test_nodes_may_have_one_class_each():
    aggregate = grown(nodes=partition_by_label(Y, 3))
    assert aggregate.classes_.tolist() == ["mild", "none", "severe"]
    assert aggregate.score(X, Y) > 0.93


def test_one_class_in_all_is_predicted_surely():
    aggregate = grown(data=(X, np.full(len(X), "mild")))
    assert (aggregate.predict(X) == "mild").all()
    assert (aggregate.predict_proba(X) == 1.0).all()
    assert [entry["task"] for entry in aggregate.history_].count("grow") == 1


@pytest.mark.parametrize(
    ("columns", "least"),
    [("one column", 0.6), ("a constant column", 0.93), ("constant columns", 0.33)],
)
def test_columns_that_tell_little_are_no_error(columns, least):
    one_constant = np.where(np.arange(4) == 1, 7.0, X)
    few = {
        "one column": X[:, :1],
        "a constant column": one_constant,
        "constant columns": np.ones_like(X),
    }[columns]
    aggregate = grown(data=(few, Y))
    assert aggregate.score(few, Y) > least
    if columns == "a constant column":
        assert aggregate.to_estimator()[-1].feature_importances_[1] == 0.0


def test_deep_trees_of_few_rows_end_where_rows_do():
    aggregate = grown(forest(max_depth=16, bootstrap=False), (X[::10], Y[::10]))
    assert aggregate.score(X[::10], Y[::10]) == 1.0
    n_messages = sum(entry["task"] == "grow" for entry in aggregate.history_)
    assert n_messages < 10


@pytest.mark.parametrize("kind", ["tree", "forest", "extra trees"])
def test_missing_values_go_to_a_side_of_their_own(kind):
    X_missing, _ = rows(missing=True)
    # The class is whether a value is missing, which no other column says.
    labels = np.isnan(X_missing[:, 2]).astype(int)
    pooled = clone(KINDS[kind]).set_params(max_depth=8)
    aggregate = grown(pooled, (X_missing, labels))
    exported = aggregate.to_estimator()
    np.testing.assert_array_equal(
        aggregate.predict_proba(X_missing), exported.predict_proba(X_missing)
    )
    assert aggregate.score(X_missing, labels) > 0.95
    n_nodes = grown(pooled, (X_missing, labels), nodes=np.arange(len(Y)) % 2)
    assert n_nodes.score(X_missing, labels) > 0.95


def test_a_column_that_one_node_lacks_is_no_error():
    X_missing = X.copy()
    X_missing[nodes_of(len(Y)) == "lyon", 2] = np.nan
    assert grown(data=(X_missing, Y)).score(X_missing, Y) > 0.9


@KIND
def test_values_that_are_missing_only_later_go_to_the_side_of_more_rows(kind):
    """As scikit-learn's own trees send them."""
    aggregate = grown(KINDS[kind])
    for tree in trees_of(aggregate):
        split = np.flatnonzero(tree.children_left >= 0)
        n_left = tree.n_node_samples[tree.children_left[split]]
        n_right = tree.n_node_samples[tree.children_right[split]]
        goes_left = tree.missing_go_to_left[split] == 1
        np.testing.assert_array_equal(goes_left, n_left > n_right)
    whole = DecisionTreeClassifier(max_depth=3, random_state=0).fit(X, Y).tree_
    split = np.flatnonzero(whole.children_left >= 0)
    n_left = whole.n_node_samples[whole.children_left[split]]
    n_right = whole.n_node_samples[whole.children_right[split]]
    np.testing.assert_array_equal(
        whole.missing_go_to_left[split] == 1, n_left > n_right
    )
    missing = np.where(np.arange(4) == 2, np.nan, X)
    exported = aggregate.to_estimator()
    np.testing.assert_array_equal(
        aggregate.predict_proba(missing), exported.predict_proba(missing)
    )


def test_other_classifiers_do_not_take_missing_values():
    with pytest.raises(ValueError, match="contains NaN"):
        grown("GaussianNB", rows(missing=True))


def test_infinite_values_are_refused():
    infinite = np.where(np.isnan(rows(missing=True)[0]), np.inf, X)
    with pytest.raises(ValueError, match="infinity"):
        grown(data=(infinite, Y))


def test_sparse_rows_are_refused_with_what_to_do():
    with pytest.raises(ColumnsError, match=r"dense rows only.*Give X\.toarray"):
        grown(data=(csr_matrix(X), Y))


def test_names_of_features_are_kept():
    table = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    aggregate = grown(data=(table, Y))
    assert aggregate.feature_names_in_.tolist() == ["a", "b", "c", "d"]
    exported = aggregate.to_estimator()
    assert exported.feature_names_in_.tolist() == ["a", "b", "c", "d"]
    assert_same_labels(aggregate, exported, table)
    # The front takes columns by their names.
    other_order = table[["b", "a", "c", "d"]]
    np.testing.assert_array_equal(
        aggregate.predict(other_order), aggregate.predict(table)
    )


def test_a_front_of_the_user_stands_before_the_powers():
    aggregate = grown(front=make_pipeline(StandardScaler(), PCA(2, svd_solver="full")))
    front, classifier = aggregate.to_estimator()
    kinds = [type(step).__name__ for step in front[:1]] + [type(front[-1]).__name__]
    assert kinds[-1] == "PowerTransformer" and classifier.n_features_in_ == 2
    assert aggregate.score(X, Y) > 0.7  # rounding decides samples of trees
    powers = grown(front=PowerTransformer())
    assert_same_trees(powers, grown())
    # Without a standard deviation of 1, bins would be too wide or too narrow.
    not_scaled = grown(front=PowerTransformer(standardize=False))
    assert [type(step) for step in not_scaled.to_estimator()[0]] == [
        PowerTransformer,
        PowerTransformer,
    ]


# ---- weights of classes ------------------------------------------------------------


def test_weights_of_classes_are_those_of_scikit_learn():
    rare = np.r_[np.arange(50), np.arange(50, 150, 4)]
    data = (X[rare], Y[rare])
    for weight in ({"none": 3.0}, "balanced"):
        pooled = DecisionTreeClassifier(max_depth=2, class_weight=weight)
        tree = trees_of(grown(pooled, data))[0]
        whole = clone(pooled).fit(*data)
        np.testing.assert_allclose(tree.value[0], whole.tree_.value[0], rtol=1e-12)
        np.testing.assert_allclose(
            tree.weighted_n_node_samples[0], whole.tree_.weighted_n_node_samples[0]
        )
        assert tree.n_node_samples[0] == len(rare)
    heavy = grown(forest(class_weight={"none": 50.0}), data).predict(X)
    plain = grown(forest(), data).predict(X)
    assert (heavy == "none").sum() > (plain == "none").sum()


def test_weights_of_classes_that_are_not_there_are_refused():
    with pytest.raises(ValueError, match="not in class_weight"):
        grown(forest(class_weight={"nobody": 2.0}))


# ---- parameters --------------------------------------------------------------------


NO_MEANING = {
    "max_leaf_nodes": 4,
    "min_weight_fraction_leaf": 0.1,
    "ccp_alpha": 0.1,
    "monotonic_cst": [1, 0, 0, 0],
    "max_samples": 20,
    "oob_score": True,
    "warm_start": True,
}
NEEDED = {
    "min_weight_fraction_leaf": "0.0",
    "ccp_alpha": "0.0",
    "oob_score": "False",
    "warm_start": "False",
}


@pytest.mark.parametrize("name", NO_MEANING)
def test_a_parameter_without_a_meaning_is_named_with_the_value_to_set(name):
    value = NO_MEANING[name]
    needed = NEEDED.get(name, "None")
    with pytest.raises(ValueError, match=f"{name}=.* no meaning .*Set {name}={needed}"):
        grown(forest(**{name: value}))


def test_an_array_of_constraints_is_refused_like_a_list():
    with pytest.raises(ValueError, match="Set monotonic_cst=None"):
        grown(forest(monotonic_cst=np.array([1, 0, 0, 0])))


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"max_depth": None}, "max_depth is None.*from 1 to 16. Set max_depth=10"),
        ({"max_depth": 17}, "max_depth is 17.*from 1 to 16"),
        ({"min_samples_leaf": 0.1}, "min_samples_leaf=0.1 is a share.*number of rows"),
        ({"min_samples_split": 0.5}, "min_samples_split=0.5 is a share"),
        (
            {"class_weight": "balanced_subsample"},
            "'balanced_subsample' would need.*Set class_weight='balanced'",
        ),
        ({"class_weight": [{"none": 1.0}]}, "class_weight is a list.*one dict"),
        # What scikit-learn does not take either.
        ({"max_depth": 0}, "'max_depth' parameter of RandomForest"),
        ({"max_depth": 2.5}, "'max_depth' parameter of RandomForest"),
        ({"n_estimators": 0}, "'n_estimators' parameter of RandomForest"),
        ({"max_features": 0}, "'max_features' parameter of RandomForest"),
        ({"max_features": "all"}, "'max_features' parameter of RandomForest"),
        ({"criterion": "mse"}, "'criterion' parameter of RandomForest"),
        ({"min_samples_leaf": 0}, "'min_samples_leaf' parameter of RandomForest"),
        ({"class_weight": "even"}, "'class_weight' parameter of RandomForest"),
        ({"bootstrap": "yes"}, "'bootstrap' parameter of RandomForest"),
    ],
)
def test_values_that_cannot_be_are_refused_before_anything_is_done(parameters, match):
    aggregate = PooledAggregator(pooled=forest(**parameters))
    with pytest.raises(ValueError, match=match):
        aggregate.fit(None, None)


@pytest.mark.parametrize(
    "parameters",
    [
        {"n_estimators": np.int64(5)},
        {"max_depth": np.int32(3)},
        {"max_features": np.int64(2)},
        {"max_features": np.float64(0.5)},
        {"bootstrap": np.bool_(True)},
    ],
)
def test_numbers_of_numpy_are_as_good_as_those_of_python(parameters):
    plain = {name: value.item() for name, value in parameters.items()}
    assert_same_trees(grown(forest(**parameters)), grown(forest(**plain)))
    terms = PooledAggregator(pooled=forest(**parameters))._agreed_terms
    settings = terms.settings["pooled"]["params"]
    assert type(settings[next(iter(plain))]) is type(next(iter(plain.values())))


@pytest.mark.parametrize(
    ("max_features", "n_drawn"),
    [(None, 4), ("sqrt", 2), ("log2", 2), (0.5, 2), (0.1, 1), (3, 3), (9, 4)],
)
def test_numbers_of_features_are_counted_as_scikit_learn_does(max_features, n_drawn):
    tree = DecisionTreeClassifier(max_depth=2, max_features=max_features)
    classifier = grown(tree).to_estimator()[-1]
    assert classifier.max_features_ == n_drawn
    assert n_drawn == min(clone(tree).fit(X, Y).max_features_, 4)


WRAPPED = {
    "fitted": lambda: forest().fit(X, Y),
    "frozen": lambda: FrozenEstimator(forest().fit(X, Y)),
    "frozen, not fitted": lambda: FrozenEstimator(forest()),
}


@pytest.mark.parametrize("name", WRAPPED)
def test_a_classifier_that_is_fitted_or_wrapped_says_what_is_grown(name):
    assert_same_trees(grown(WRAPPED[name]()), grown(forest()))


def test_the_classifiers_of_the_nodes_say_what_is_grown():
    nodes = nodes_of(len(Y))
    members = [
        (name, forest().fit(X[nodes == name], Y[nodes == name])) for name in NAMES
    ]
    aggregate = PooledAggregator(members).fit(X, Y, nodes=nodes)
    assert_same_trees(aggregate, grown(forest()))
    members[0][1].set_params(max_depth=4)
    with pytest.raises(ValueError, match="differ.*Set pooled="):
        PooledAggregator(members).fit(X, Y, nodes=nodes)
    members = [(name, clone(forest(max_depth=None)).fit(X, Y)) for name in NAMES]
    with pytest.raises(ValueError, match="max_depth is None"):
        PooledAggregator(members).fit(X, Y, nodes=nodes)


def test_rows_that_nodes_share_would_be_counted_twice():
    members = [forest().fit(X, Y)] * 2
    with pytest.raises(ValueError, match="same rows.*Set nodes="):
        PooledAggregator(members, pooled=forest()).fit(X, Y)


@pytest.mark.parametrize(
    "other", [GradientBoostingClassifier(), ExtraTreeClassifier(max_depth=2)]
)
def test_trees_that_cannot_be_grown_are_told_which_can(other):
    with pytest.raises(ValueError, match="not a function of sums.*RandomForest"):
        grown(other)


def test_a_pipeline_is_told_of_the_front():
    with pytest.raises(ValueError, match="Give the steps to all nodes as front="):
        grown(make_pipeline(StandardScaler(), forest()))


def test_a_fitted_front_has_to_end_with_powers():
    scaled = PooledTransformer(StandardScaler()).fit(X)
    with pytest.raises(ValueError, match="does not end with a PowerTransformer"):
        grown(front=scaled)
    both = PooledTransformer(make_pipeline(StandardScaler(), PowerTransformer()))
    assert grown(front=both.fit(X)).score(X, Y) > 0.93


def test_documents_are_refused_with_what_to_set():
    texts = np.array(["well and fine", "ill"] * 20, dtype=object)
    aggregate = PooledAggregator(
        pooled=forest(), front=HashingVectorizer(n_features=2**6)
    )
    with pytest.raises(ValueError, match="Documents.*linear or naive Bayes"):
        aggregate.fit(texts, np.arange(40) % 2)


# ---- the rest of the aggregator ----------------------------------------------------


def test_no_file_holds_what_nodes_say_of_trees():
    with pytest.raises(TypeError, match="RandomForestClassifier is grown level by"):
        PooledAggregator(pooled=forest()).summarize(None, X, Y, name="lyon")
    with pytest.raises(ValueError, match="each of their levels.*keep_replies=False"):
        grown(keep_replies=True)


def test_a_search_finds_the_depth():
    aggregate = PooledAggregator(pooled=forest(bootstrap=False))
    search = GridSearchCV(aggregate, {"pooled__max_depth": [1, 3]}, cv=2).fit(X, Y)
    assert search.best_params_ == {"pooled__max_depth": 3}
    assert search.best_estimator_.to_estimator()[-1].max_depth == 3


@pytest.mark.parametrize(
    "kind", ["RandomForestClassifier", "HistGradientBoostingClassifier"]
)
def test_trees_may_be_named_if_their_depth_is_set(kind):
    named = PooledAggregator(pooled=kind)
    with pytest.raises(ValueError, match="max_depth"):
        named.fit(X, Y)
    named.set_params(pooled__max_depth=2, pooled__random_state=0)
    assert type(named.pooled).__name__ == kind
    assert named.fit(X, Y).to_estimator()[-1].max_depth == 2


def test_decisions_are_those_that_trees_have():
    aggregate = PooledAggregator(pooled=forest())
    assert hasattr(aggregate, "predict_proba")
    assert not hasattr(aggregate, "decision_function")
    with pytest.raises(NotFittedError):
        aggregate.predict(X)
    aggregate.fit(X, Y)
    assert not hasattr(aggregate, "decision_function")
    logits = aggregate._logits(aggregate._validate(X, reset=False))
    assert np.isfinite(logits).all()
    np.testing.assert_allclose(np.exp(logits), aggregate.predict_proba(X), atol=1e-300)


def test_what_was_made_says_that_bins_are_why_it_is_not_exact():
    aggregate = grown()
    assert aggregate.exact_ is False
    form = aggregate.pooled_form_
    assert form.kind == "RandomForestClassifier"
    assert form.parameters["max_depth"] == 3
    assert form.reason == "trees are grown over 64 bins of each feature"


def test_reports_and_cards_count_the_messages(tmp_path):
    aggregate = grown()
    tasks = [entry["task"] for entry in aggregate.history_]
    assert tasks == ["front", "grow", "grow", "grow"]
    report = aggregate.report(X, Y, nodes=nodes_of(len(Y)))
    assert "4 messages" in str(report)
    path = tmp_path / "card.md"
    aggregate.model_card(path, X=X, y=Y, nodes=nodes_of(len(Y)))
    card = path.read_text()
    n_bytes = [e["bytes_received"] for e in aggregate.history_ if e["task"] == "grow"]
    assert all(f"{n:,} bytes" in card for n in n_bytes)
    assert "RandomForestClassifier(max_depth=3" in card


def test_progress_has_a_line_for_each_level(capfd):
    grown(verbose=1)
    lines = capfd.readouterr().err.splitlines()
    assert [line for line in lines if "(grow): node lyon" in line] == [
        f"[skgems] message {k} (grow): node lyon" for k in (2, 3, 4)
    ]


def test_an_aggregate_is_pickled_and_cloned():
    aggregate = grown()
    again = pickle.loads(pickle.dumps(aggregate))
    assert_same_trees(again, aggregate)
    assert_same_trees(clone(aggregate).fit(X, Y, nodes=nodes_of(len(Y))), aggregate)


@pytest.mark.parametrize("load", [load_breast_cancer, load_digits])
@pytest.mark.parametrize("kind", [RandomForestClassifier, ExtraTreesClassifier])
def test_a_forest_is_as_accurate_as_that_of_scikit_learn(load, kind):
    X_all, y_all = load(return_X_y=True)
    X_fit, X_test, y_fit, y_test = train_test_split(
        X_all, y_all, test_size=0.4, random_state=0, stratify=y_all
    )
    pooled = kind(15, max_depth=8, random_state=0)
    aggregate = grown(pooled, (X_fit, y_fit))
    accuracy = aggregate.score(X_test, y_test)
    # Forests of other seeds differ by a point or two.
    assert accuracy > pooled.fit(X_fit, y_fit).score(X_test, y_test) - 0.03
    assert accuracy > 0.92
