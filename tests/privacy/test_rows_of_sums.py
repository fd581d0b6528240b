# SPDX-License-Identifier: BSD-3-Clause
"""No row follows from the sums of one honest summary under the rule of disclosure.

Each attack finds rows where no rule holds, without a false claim, and none under the
default rule. `benchmarks/bench_attacks.py` plays them on larger tables.
"""

from __future__ import annotations

import numpy as np
import pytest
from helpers.attacked_exchanges import (
    DEFAULT_RULE,
    group_of_moments,
    group_of_rows,
    replies_with_moments,
    sums_in_message,
    told_in_summary,
)
from helpers.attacked_tables import (
    TABLES,
    Table,
    attacked_table,
    judge_claims,
    table_of_outliers,
)
from helpers.attacks_by_columns import rows_of_columns, rows_of_short_combinations
from helpers.attacks_by_differences import (
    row_of_origin,
    rows_of_dominated_sums,
    rows_of_gradients,
)
from helpers.attacks_on_summaries import (
    claims_of_groups,
    claims_of_lattices,
    rare_combinations_proven,
)
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from skgems import GEMSLogisticAggregator, PooledAggregator

AGGREGATORS = {
    "by class": GEMSLogisticAggregator(random_state=0),
    "of all classes": PooledAggregator(),
}


def table_with_columns(kind: str) -> Table:
    """Forty rows of five measures, and columns that show the first row."""
    rng = np.random.default_rng(0)
    n_rows = 40
    is_first = np.arange(n_rows) == 0
    some = (np.arange(n_rows) % 3 == 0).astype(float)  # the first row, too
    columns = {
        "one row": [is_first],
        "all but one row": [~is_first],
        "nested": [some, some - is_first],
        "disjoint": [some - is_first, 1.0 - some],
        "paired": [some, 1.0 - some + is_first],
    }[kind]
    if kind == "corrected":
        measure = rng.standard_normal(n_rows)
        columns = [measure, measure + is_first]
    measures = rng.standard_normal((n_rows, 5))
    X = np.column_stack([measures, *columns]).astype(float)
    return Table(name=kind, X=X, y=np.full(n_rows, "ill"))


KINDS = ["one row", "all but one row", "nested", "disjoint", "paired"]


def corrected_table() -> Table:
    """Forty rows with a measure that was corrected in the first row alone."""
    table = table_with_columns("one row")
    measure = np.random.default_rng(1).standard_normal(40)
    X = np.column_stack([table.X[:, :5], measure, measure])
    X[0, -1] += 0.5
    return Table(name="corrected", X=X, y=table.y)


# Columns ------------------------------------------------------------------------------


@pytest.mark.parametrize("table", [*map(table_with_columns, KINDS), corrected_table()])
def test_columns_that_one_row_has_give_that_row_without_a_rule(table):
    verdict = judge_claims(table.X, rows_of_columns(group_of_rows(table.X)))
    assert verdict.n_found == 1
    assert verdict.n_false == 0


@pytest.mark.parametrize("name, most", [("digits", 5), ("documents", 20)])
def test_a_summary_without_a_rule_has_rows_in_its_columns(name, most):
    table = attacked_table(name)
    message = told_in_summary(AGGREGATORS["by class"], table, disclosure=None)
    verdict = judge_claims(
        table.X, claims_of_groups(rows_of_columns, message, table.n_features)
    )
    assert verdict.n_found >= most
    assert verdict.n_false == 0


def test_combinations_of_many_codes_have_rows_without_a_rule():
    table = attacked_table("clinics").first_of_each_class(20)
    message = told_in_summary(AGGREGATORS["by class"], table, disclosure=None)
    claims = claims_of_groups(rows_of_short_combinations, message, table.n_features)
    verdict = judge_claims(table.X, claims)
    assert verdict.n_found >= 3
    assert verdict.n_false == 0


@pytest.mark.parametrize("aggregator", AGGREGATORS)
@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("n_rows", [20, 400])  # of each class, at most
def test_no_row_follows_from_columns_under_the_rule(name, n_rows, aggregator):
    table = attacked_table(name).first_of_each_class(n_rows)
    message = told_in_summary(AGGREGATORS[aggregator], table, disclosure=DEFAULT_RULE)
    claims = claims_of_groups(rows_of_columns, message, table.n_features)
    assert judge_claims(table.X, claims).n_found == 0


@pytest.mark.parametrize("table", [*map(table_with_columns, KINDS), corrected_table()])
def test_no_row_follows_from_columns_that_one_row_has_under_the_rule(table):
    half = np.arange(table.n_rows) % 2
    # Two classes, of which the first row is in one.
    X = np.concatenate([table.X, table.X[half == 1]])
    y = np.append(table.y, np.full(20, "well"))
    message = told_in_summary(
        AGGREGATORS["by class"],
        Table(name=table.name, X=X, y=y),
        disclosure=DEFAULT_RULE,
    )
    claims = claims_of_groups(rows_of_columns, message, table.n_features)
    # A rare cell takes the commonest value: the row is known by its measures.
    assert judge_claims(X[:, :5], claims[:, :5]).n_found == 0


@pytest.mark.parametrize("name", ["clinics", "iris", "penguins"])
def test_no_row_follows_from_combinations_of_codes_under_the_rule(name):
    table = attacked_table(name).first_of_each_class(40)
    message = told_in_summary(AGGREGATORS["by class"], table, disclosure=DEFAULT_RULE)
    claims = claims_of_groups(rows_of_short_combinations, message, table.n_features)
    assert judge_claims(table.X, claims).n_found == 0


# Whole numbers of fewer rows than features --------------------------------------------


@pytest.mark.parametrize(
    "rule, finds",
    [(None, True), (DEFAULT_RULE, False)],
)
def test_lattices_find_rows_of_small_classes_unless_the_rule_holds(rule, finds):
    table = attacked_table("digits").first_of_each_class(10)
    table = table.some_rows(np.isin(table.y, ["c1", "c2"]))
    message = told_in_summary(AGGREGATORS["by class"], table, disclosure=rule)
    verdict = judge_claims(table.X, claims_of_lattices(message, table.n_features))
    assert (verdict.n_found >= 10) == finds
    assert finds or verdict.n_found == 0


def table_of_small_classes(seed: int) -> Table:
    """Ten classes of two clusters, 16 rows each, of 16 columns of whole numbers."""
    rng = np.random.default_rng(seed)
    clusters = np.repeat(np.arange(20), 16)
    centers = rng.integers(0, 100, (20, 16))
    X = np.clip(centers[clusters] + rng.normal(0, 10, (320, 16)).round(), 0, 100)
    return Table(
        name="small classes", X=X, y=np.array([f"c{c // 2}" for c in clusters])
    )


@pytest.mark.parametrize("seed", range(3))
def test_clusters_of_classes_that_share_a_scatter_have_no_row(seed):
    table = table_of_small_classes(seed)
    message = told_in_summary(AGGREGATORS["by class"], table, disclosure=DEFAULT_RULE)
    (group,) = sums_in_message(message.content)
    assert group.label is None
    assert group.n_parts > 10  # more than one of some class
    for attack in (rows_of_columns, rows_of_short_combinations):
        claims = claims_of_groups(attack, message, table.n_features)
        assert judge_claims(table.X, claims).n_found == 0
    claims = claims_of_lattices(message, table.n_features)
    assert judge_claims(table.X, claims).n_found == 0


# Combinations of codes ----------------------------------------------------------------


def small_clinic() -> Table:
    """Patients of a small clinic, in twelve columns of codes."""
    columns = np.r_[0:6, 10:16]
    return attacked_table("clinics").first_of_each_class(30).some_columns(columns)


def test_programs_prove_rare_combinations_without_a_rule():
    n_proven, wrong = rare_combinations_proven(small_clinic(), None)
    assert n_proven >= 3
    assert wrong == 0


def test_programs_prove_no_rare_combination_under_the_rule():
    n_proven, _ = rare_combinations_proven(small_clinic(), DEFAULT_RULE)
    assert n_proven == 0


# What else is in a message ------------------------------------------------------------


@pytest.mark.parametrize(
    "rule, finds",
    [(None, True), (DEFAULT_RULE, False)],
)
def test_sums_that_one_row_dominates_give_it_unless_the_rule_holds(rule, finds):
    table = table_of_outliers()
    message = told_in_summary(AGGREGATORS["by class"], table, disclosure=rule)
    claims = claims_of_groups(rows_of_dominated_sums, message, table.n_features)
    ill = table.X[table.y == "ill"]  # beside whose values those of the others are 0
    verdict = judge_claims(ill, claims)
    assert (verdict.n_found >= 15) == finds
    assert finds or verdict.n_found == 0


@pytest.mark.parametrize("rule, is_told", [(None, True), (DEFAULT_RULE, False)])
def test_one_row_of_a_class_does_not_outweigh_it_where_others_do_in_another(
    rule, is_told
):
    """Where classes share a scatter, large values of others spread it."""
    rng = np.random.default_rng(0)
    y = np.repeat(["ill", "well"], 50)
    X = rng.standard_normal((100, 30))
    X[:, :3] *= 1e-3
    X[0, :3] = 1000.0 + 200.0 * rng.standard_normal(3)
    X[50:62, :3] = 1000.0 + 200.0 * rng.standard_normal((12, 3))
    message = told_in_summary(
        GEMSLogisticAggregator(moments="shared", random_state=0),
        Table(name="outweighed", X=X, y=y),
        disclosure=rule,
    )
    for _, moments in replies_with_moments(message.content):
        by_class = moments.by_class()
        means = (by_class.means + by_class.origin)[0, :3]
        # All other rows of the class are 0 there, or nearly.
        parts = by_class.counts[0] * means / X[0, :3]
        assert (np.abs(parts) > 0.1).all() == is_told


def mistyped_table() -> tuple[Table, LogisticRegression]:
    """Rows that a model labels right with certainty but for one, and the model.

    It is certain of the ill, and less so of the well. One label "ill" is mistyped.
    """
    rng = np.random.default_rng(0)
    y = np.repeat(["ill", "well"], 50)
    X = rng.standard_normal((100, 4))
    X[:, 0] = np.where(y == "ill", -10.0, 1.0) + 0.1 * X[:, 0]
    X[0, 0] = 5.0
    clf = LogisticRegression().fit(X, y)
    clf.coef_ = np.array([[1.0, 0.0, 0.0, 0.0]])
    clf.intercept_ = np.zeros(1)
    return Table(name="mistyped", X=X, y=y), clf


@pytest.mark.parametrize(
    "rule, finds",
    [(None, True), (DEFAULT_RULE, False)],
)
def test_the_gradient_of_a_mistyped_row_is_that_row_unless_the_rule_holds(rule, finds):
    table, clf = mistyped_table()
    aggregator = GEMSLogisticAggregator(class_weight="balanced", random_state=0)
    message = told_in_summary(aggregator, table, disclosure=rule, classifier=clf)
    (answer,) = message.content["answers"].values()
    claims = rows_of_gradients(
        answer["reply"].get("gradients", []), answer["reply"]["moments"]["origin"]
    )
    assert (judge_claims(table.X, claims).n_found > 0) == finds


@pytest.mark.parametrize("name", TABLES)
def test_the_point_that_means_are_counted_from_is_no_row(name):
    table = attacked_table(name).first_of_each_class(10)
    message = told_in_summary(AGGREGATORS["by class"], table, disclosure=DEFAULT_RULE)
    for _, moments in replies_with_moments(message.content):
        origin = row_of_origin(moments)
        assert judge_claims(table.X, origin).n_found == 0


# Sparse rows --------------------------------------------------------------------------


@pytest.mark.parametrize("value", [0.0, 7.5])
def test_sparse_rows_do_not_tell_the_one_value_that_differs_from_all_others(value):
    rng = np.random.default_rng(0)
    X = (rng.random((60, 8)) < 0.4).astype(float)
    X[:, 0] = 1.0
    X[3, 0] = value
    y = np.repeat(["ill", "well"], 30)
    message = told_in_summary(
        AGGREGATORS["by class"],
        Table(name="sparse", X=sparse.csr_array(X), y=y),
        disclosure=DEFAULT_RULE,
    )
    for _, moments in replies_with_moments(message.content):
        means = (moments.means + moments.origin)[:, 0]
        np.testing.assert_allclose(means, 1.0, atol=1e-9)


# Spaces -------------------------------------------------------------------------------


def claims_of_space(message, n_features):
    """The rows that the columns show of the mean and covariance of a space."""
    claims = [np.zeros((0, n_features))]
    ridge = message.content["settings"]["geometry"]["ridge"]
    for answer in message.content["answers"].values():
        if "metric_scatter" in answer["reply"]:
            mean = answer["reply"]["metric_mean"]
            n_rows = float(answer["reply"]["radii_n_rows"])
            covariance = answer["reply"]["metric_scatter"].copy()
            covariance[np.diag_indices_from(covariance)] /= 1.0 + ridge
            group = group_of_moments(n_rows, mean, covariance)
            claims.append(rows_of_columns(group))
    return np.concatenate(claims)


@pytest.mark.parametrize(
    "rule, space, finds",
    [(None, True, True), (DEFAULT_RULE, True, True), (DEFAULT_RULE, "auto", False)],
)
def test_the_shape_of_a_space_has_rows_and_is_told_by_consent(rule, space, finds):
    """The rule does not cover spaces: under it, only ``space=True`` sends one."""
    X = table_with_columns("nested").X
    y = np.where(X[:, 0] > 0, "ill", "well")
    message = told_in_summary(
        GEMSLogisticAggregator(epsilon=0.5, random_state=0),
        Table(name="space", X=X, y=y),
        disclosure=rule,
        classifier=LogisticRegression().fit(X, y),
        space=space,
    )
    tasks = {answer["task"] for answer in message.content["answers"].values()}
    assert ("space" in tasks) == finds
    claims = claims_of_space(message, X.shape[1])
    assert (judge_claims(X, claims).n_found > 0) == finds
