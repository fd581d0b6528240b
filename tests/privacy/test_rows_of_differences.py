# SPDX-License-Identifier: BSD-3-Clause
"""No row is the difference between two sums that leave a node under the rule.

The sums are of nearly the same rows: of two exchanges, of halves and the whole, of a
message and of what the classifier in it was fitted to.
"""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from helpers.attacked_exchanges import (
    DEFAULT_RULE,
    GroupSums,
    LoggedNodes,
    group_of_rows,
    sums_in_message,
    told_in_summary,
)
from helpers.attacked_tables import Table, attacked_table, judge_claims
from helpers.attacks_by_differences import (
    are_in_rest,
    gap_of_logistic,
    gap_of_ridge,
    row_of_gap,
    row_of_scaler,
    rows_of_classifier,
    rows_of_difference,
    rows_of_group_differences,
    rows_of_lda,
    rows_of_scaling_front,
)
from helpers.attacks_on_summaries import (
    ALPHA,
    CLASSIFIERS,
    claims_of_classifier,
    cluster_differences,
    told_behind_scaler,
    with_lone_class,
)
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.preprocessing import StandardScaler

from skgems import GEMSLogisticAggregator, PooledAggregator, combine
from skgems.asking import Message
from skgems.gems import Moments
from skgems.guard import Agreement, RowsAskedAgainError, reply_to
from skgems.messages import NotAgreedError, sealed
from skgems.parties import ClassesLeftOutWarning


def iris_rows() -> np.ndarray:
    return attacked_table("iris").X[:50]


# Two sums of bare arrays --------------------------------------------------------------


@pytest.mark.parametrize("weight", [0.0, 0.3, 0.95])
def test_a_row_that_counts_for_less_in_one_sum_is_the_difference(weight):
    X = iris_rows()
    weights = np.where(np.arange(50) == 7, weight, 1.0)
    first, second = group_of_rows(X), group_of_rows(X, weights)
    claims = rows_of_difference(first.with_one, second.with_one)
    np.testing.assert_allclose(claims, X[7:8], atol=1e-5)


def test_a_row_that_was_replaced_and_the_new_one_follow_from_two_sums():
    X = iris_rows()
    changed = X.copy()
    changed[7, 2] += 0.25
    claims = rows_of_difference(
        group_of_rows(X).with_one, group_of_rows(changed).with_one
    )
    np.testing.assert_allclose(claims, [changed[7], X[7]], atol=1e-5)


def test_rows_do_not_follow_where_all_rows_count_for_a_little_less():
    X = iris_rows()
    weights = np.random.default_rng(0).uniform(0.7, 1.0, 50)
    weights[7] = 0.3
    first, second = group_of_rows(X), group_of_rows(X, weights)
    assert not len(rows_of_difference(first.with_one, second.with_one))


# A classifier and sums in which one row counts for less -------------------------------


def lowered_groups(weight: float) -> tuple[Table, int, list[GroupSums]]:
    """Rows of two classes, one of them, and sums in which it counts for less."""
    table = attacked_table("iris").some_rows(slice(0, 100))
    lowered = 7
    weights = np.where(np.arange(100) == lowered, weight, 1.0)
    groups = []
    for label in ("c0", "c1"):
        of_class = table.y == label
        product = group_of_rows(table.X[of_class], weights[of_class]).product
        groups.append(GroupSums(label=label, product=product, n_parts=1))
    return table, lowered, groups


def test_a_ridge_and_lowered_sums_have_the_row_between_them():
    table, lowered, groups = lowered_groups(0.6)
    clf = RidgeClassifier(alpha=2.0).fit(table.X, table.y)
    gap = gap_of_ridge(
        [(groups[0], np.array([-1.0])), (groups[1], np.array([1.0]))],
        clf.coef_.reshape(-1, 1),
        np.ravel(clf.intercept_),
        alpha=2.0,
    )
    np.testing.assert_allclose(row_of_gap(gap)[0], table.X[lowered], atol=1e-6)


def test_a_logistic_model_and_its_lowered_gradient_have_the_row_between_them():
    table, lowered, _ = lowered_groups(0.6)
    clf = LogisticRegression(C=3.0, solver="newton-cholesky", tol=1e-10)
    clf.fit(table.X, table.y)
    errors = clf.predict_proba(table.X)[:, 1] - (table.y == "c1")
    errors[lowered] *= 0.6
    gradient = np.append(errors @ table.X, errors.sum())[:, None]
    gap = gap_of_logistic(gradient, clf.coef_.T, C=3.0)
    np.testing.assert_allclose(row_of_gap(gap)[0], table.X[lowered], atol=1e-3)


def test_a_linear_discriminant_and_lowered_sums_have_the_row_between_them():
    table, lowered, groups = lowered_groups(0.6)
    clf = LinearDiscriminantAnalysis(solver="lsqr").fit(table.X, table.y)
    coefs = np.column_stack([np.zeros(4), clf.coef_[0]])
    claims = rows_of_lda(coefs, groups, class_of_row=0, n_rows=100)
    assert np.abs(claims - table.X[lowered]).max(axis=1).min() < 1e-6


def test_a_scaler_and_lowered_sums_have_the_row_between_them():
    table, lowered, groups = lowered_groups(0.6)
    scaler = StandardScaler().fit(table.X)
    claims = row_of_scaler(scaler.mean_, scaler.scale_, n_rows=100, groups=groups)
    np.testing.assert_allclose(claims[0], table.X[lowered], atol=1e-6)


# Summaries of fitted classifiers ------------------------------------------------------


@pytest.mark.parametrize("kind", CLASSIFIERS)
@pytest.mark.parametrize("name", ["iris", "wine", "penguins"])
def test_a_classifier_does_not_give_the_row_of_a_class_that_is_left_out(name, kind):
    table = with_lone_class(attacked_table(name))
    claims = claims_of_classifier(table, kind, DEFAULT_RULE)
    assert judge_claims(table.X, claims).n_found == 0


@pytest.mark.parametrize("kind", CLASSIFIERS)
@pytest.mark.parametrize("name", ["iris", "wine", "penguins"])
def test_the_row_of_a_class_is_known_where_sums_are_of_all_others(name, kind):
    table = with_lone_class(attacked_table(name))
    # Sums as they leave a node that only has a bound on rows.
    classifier = CLASSIFIERS[kind].fit(table.X, table.y)
    message = told_in_summary(
        GEMSLogisticAggregator(random_state=0),
        table.some_rows(slice(0, -1)),
        disclosure=None,
        classifier=classifier,
    )
    claims = rows_of_classifier(message, kind=kind, alpha=ALPHA)
    deviations = table.X.std(axis=0)
    errors = np.abs(claims - table.X[-1]).max(axis=1) / deviations.max()
    assert errors.min() < 1e-6


def outlying_tables() -> list[Table]:
    """Tables in which one row is far out, so that the rule lowers its weight."""
    tables = []
    for name in ("iris", "wine", "breast cancer", "penguins"):
        table = attacked_table(name).scaled().some_columns(slice(0, 4))
        X = table.X.copy()
        X[3, 1] += 12.0
        tables.append(Table(name=name, X=X, y=table.y))
    return tables


@pytest.mark.parametrize("kind", ["lda", "ridge", "scaler"])
@pytest.mark.parametrize("table", outlying_tables(), ids=lambda table: table.name)
def test_a_classifier_does_not_give_the_row_that_the_rule_lowers(table, kind):
    claims = claims_of_classifier(table, kind, DEFAULT_RULE)
    assert judge_claims(table.X, claims).n_found == 0


def table_with_rare_cell(name: str) -> Table:
    """Four measures, and a column that is 0 in all rows but one."""
    table = attacked_table(name).scaled().some_columns(slice(0, 4))
    X = np.column_stack([table.X, np.arange(table.n_rows) == 7])
    return Table(name=name, X=X, y=table.y)


@pytest.mark.parametrize("kind", ["ridge", "lda"])
@pytest.mark.parametrize("name", ["iris", "wine", "breast cancer", "penguins"])
def test_a_classifier_does_not_give_the_row_whose_rare_cell_is_replaced(name, kind):
    table = table_with_rare_cell(name)
    claims = claims_of_classifier(table, kind, DEFAULT_RULE)
    # The row stands in the classifier with its cell, and in the sums without it.
    assert judge_claims(table.X[:, :4], claims[:, :4]).n_found == 0


# Messages of one exchange -------------------------------------------------------------


@pytest.mark.parametrize("name", ["iris", "wine", "penguins"])
def test_a_front_does_not_give_the_row_of_a_class_that_is_left_out(name):
    table = with_lone_class(attacked_table(name))
    claims = rows_of_scaling_front(told_behind_scaler(table, DEFAULT_RULE))
    assert judge_claims(table.X, claims).n_found == 0


@pytest.mark.parametrize("table", outlying_tables(), ids=lambda table: table.name)
def test_a_front_does_not_give_the_row_that_the_rule_lowers(table):
    claims = rows_of_scaling_front(told_behind_scaler(table, DEFAULT_RULE))
    assert judge_claims(table.X, claims).n_found == 0


def test_a_front_has_the_row_that_later_sums_leave_out():
    table = with_lone_class(attacked_table("iris"))
    front_told = told_behind_scaler(table, None)
    join_told = told_behind_scaler(table.some_rows(slice(0, -1)), None)
    # The scales of the two fits differ: the server knows those of each.
    claims = rows_of_scaling_front([front_told[0], join_told[1]])
    np.testing.assert_allclose(claims[0], table.X[-1], atol=1e-6)


def answer_quietly(*args, **options):
    """A reply of a node that leaves small classes out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ClassesLeftOutWarning)
        return reply_to(*args, **options)


def gap_of_judged_model(table: Table, judged: Table, rule: object) -> np.ndarray:
    """A claim by the gradient of a node's own model, which a later message asks for.

    The model is fitted to a table of three classes, and the node answers with another
    one.
    """
    clf = LogisticRegression(C=3.0, tol=1e-10, max_iter=10000).fit(table.X, table.y)
    aggregator = GEMSLogisticAggregator(n_rounds=3, random_state=0)
    agreement = Agreement.of(aggregator, disclosure=rule)
    ask_gradient = Message.of(
        "evaluate",
        W=np.vstack([clf.coef_.T, clf.intercept_]),
        labels=list(clf.classes_),
        columns=np.arange(len(clf.classes_)),
        factors=np.ones(1),
        gradient=True,
    )
    state: dict = {}
    replies = [
        answer_quietly(
            sealed(message, agreement),
            clf,
            judged.X,
            judged.y,
            name="lyon",
            state=state,
            agreement=agreement,
            disclosure=rule,
        )
        for message in (aggregator._agreed_terms.first_message(), ask_gradient)
    ]
    gradient = replies[-1].content.get("gradient")
    if gradient is None:
        return np.zeros((0, table.n_features))
    gradient = np.reshape(gradient, (table.n_features + 1, -1))
    return row_of_gap(gap_of_logistic(gradient, clf.coef_.T, C=3.0))


def test_the_gradient_of_a_fitted_model_has_the_row_that_sums_leave_out():
    table = with_lone_class(attacked_table("iris"))
    claims = gap_of_judged_model(table, table.some_rows(slice(0, -1)), None)
    np.testing.assert_allclose(claims[0], table.X[-1], atol=1e-3)


def test_the_gradient_of_a_fitted_model_does_not_give_the_row_of_a_left_out_class():
    table = with_lone_class(attacked_table("iris"))
    claims = gap_of_judged_model(table, table, DEFAULT_RULE)
    assert judge_claims(table.X, claims).n_found == 0


@pytest.mark.parametrize(
    "table",
    [table for table in outlying_tables() if len(np.unique(table.y)) == 3],
    ids=lambda table: table.name,
)
def test_the_gradient_of_a_fitted_model_does_not_give_a_lowered_row(table):
    claims = gap_of_judged_model(table, table, DEFAULT_RULE)
    assert judge_claims(table.X, claims).n_found == 0


@pytest.mark.parametrize("rule_of_server", [DEFAULT_RULE, None])
def test_no_sums_of_all_rows_are_told_beside_those_of_halves(rule_of_server):
    X = np.random.default_rng(0).standard_normal((600, 4))
    table = Table(name="normal", X=X, y=np.where(X[:, 0] > 0, "ill", "well"))
    nodes = LoggedNodes.dealt(table, 2, disclosure=DEFAULT_RULE)
    channel = nodes.channel
    channel.disclosure = rule_of_server
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        combine(channel, budget="small", random_state=0)
    halves = next(pair for pair in nodes.told if pair.request.task == "halves")
    tasks = [pair.request.task for pair in nodes.told]
    assert tasks[-2:] == ["halves", "judge"]
    join = Message.of("join", **halves.request.content["asked"]["1"])
    with pytest.raises(NotAgreedError):
        nodes.ask({"node 0": sealed(join, channel.agreement)})


# Two exchanges ------------------------------------------------------------------------


def answered(table: Table, aggregator, state: dict, *, rule: object, X=None, y=None):
    """The moments that a node with a ledger tells in a new exchange."""
    agreement = Agreement.of(aggregator, disclosure=rule)
    reply = reply_to(
        sealed(aggregator._agreed_terms.first_message(), agreement),
        None,
        table.X if X is None else X,
        table.y if y is None else y,
        name="lyon",
        state=state,
        agreement=agreement,
        disclosure=rule,
    )
    return reply.content


def changed_tables() -> dict[str, tuple]:
    """Rows of iris as a later exchange may have them, and the row that differs."""
    table = attacked_table("iris").some_rows(slice(0, 100))
    X, y = table.X, table.y
    corrected = y.copy()
    corrected[0] = "c1"
    moved = X.copy()
    moved[0, 0] += 1e-3
    return {
        "one row withdrawn": (X[1:], y[1:]),
        "one row added": (np.vstack([X, X[:1] + 0.25]), np.append(y, "c0")),
        "one label corrected": (X, corrected),
        "one value changed": (moved, y),
        "withdrawn from a data frame": (pd.DataFrame(X[1:]), y[1:]),
        "withdrawn, in another order": (X[:0:-1], y[:0:-1]),
        "withdrawn, with few digits": (X[1:].astype(np.float32), y[1:]),
    }


@pytest.mark.parametrize("change", changed_tables())
def test_two_exchanges_about_nearly_the_same_rows_are_refused(change):
    table = attacked_table("iris").some_rows(slice(0, 100))
    later_X, later_y = changed_tables()[change]
    state: dict = {}
    aggregator = GEMSLogisticAggregator(random_state=0)
    answered(table, aggregator, state, rule=DEFAULT_RULE)
    with pytest.raises(RowsAskedAgainError):
        answered(table, aggregator, state, rule=DEFAULT_RULE, X=later_X, y=later_y)


@pytest.mark.parametrize(
    "change", ["one row withdrawn", "one row added", "one label corrected"]
)
def test_two_exchanges_without_a_common_ledger_have_the_row_between_them(change):
    table = attacked_table("iris").some_rows(slice(0, 100))
    later_X, later_y = changed_tables()[change]
    aggregator = GEMSLogisticAggregator(random_state=0)
    first = answered(table, aggregator, {}, rule=None)
    later = answered(table, aggregator, {}, rule=None, X=later_X, y=later_y)
    claims = rows_of_group_differences(sums_in_message(first), sums_in_message(later))
    all_rows = np.vstack([table.X, later_X])
    assert judge_claims(all_rows, claims).n_found >= 1
    assert judge_claims(all_rows, claims).n_false == 0


def normal_table() -> Table:
    """400 rows of two classes, of which the rule changes no sum."""
    X = np.random.default_rng(0).standard_normal((400, 4))
    return Table(name="normal", X=X, y=np.array(["c0", "c1"])[np.arange(400) % 2])


def coarse_table() -> Table:
    """Rows of iris, whose columns have few values, in any order."""
    table = attacked_table("iris").some_rows(slice(0, 100))
    order = np.random.default_rng(0).permutation(100)
    return Table(name="iris", X=table.X[order], y=table.y[order])


def summed_tables(table: Table, name: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """Tables of which sums can be subtracted to the last row of a table."""
    X, y = table.X, table.y
    if name == "two parts without the row":
        n = len(y)
        parts = [slice(0, n), slice(0, n // 2), slice(n // 2, n - 1)]
        return [(X[part], y[part]) for part in parts]
    later = X[:-1]
    if name == "a column more":
        later = np.column_stack([later, np.arange(len(later))])
    elif name == "a column less":
        later = later[:, :3]
    elif name == "a column in other units":
        later = later * [1.0, 1.0, 1.0, 10.0]
    return [(X, y), (later, y[:-1])]


SUMMED = [
    "two parts without the row",
    "a column more",
    "a column less",
    "a column in other units",
]


@pytest.mark.parametrize(
    "table", [normal_table(), coarse_table()], ids=lambda table: table.name
)
@pytest.mark.parametrize("name", SUMMED)
def test_sums_of_several_tables_that_have_a_row_are_refused(table, name):
    state: dict = {}
    aggregator = GEMSLogisticAggregator(random_state=0)
    *first, (last_X, last_y) = summed_tables(table, name)
    for X, y in first:
        answered(table, aggregator, state, rule=DEFAULT_RULE, X=X, y=y)
    with pytest.raises(RowsAskedAgainError):
        answered(table, aggregator, state, rule=DEFAULT_RULE, X=last_X, y=last_y)


@pytest.mark.parametrize("name", SUMMED)
def test_sums_of_several_tables_without_a_common_ledger_have_the_row(name):
    table = normal_table()
    aggregator = GEMSLogisticAggregator(random_state=0)
    sums = []
    for X, y in summed_tables(table, name):
        content = answered(table, aggregator, {}, rule=DEFAULT_RULE, X=X, y=y)
        groups = [g for g in sums_in_message(content) if g.label == table.y[-1]]
        sums.append(sum(group.sums[:3] for group in groups))
    claim = sums[0] - sum(sums[1:])
    np.testing.assert_allclose(claim, table.X[-1, :3], atol=1e-6)


def test_tables_of_other_rows_are_answered():
    table = normal_table()
    state: dict = {}
    aggregator = GEMSLogisticAggregator(random_state=0)
    for part in (slice(0, 200), slice(100, 300), slice(200, 400), slice(0, 400)):
        X, y = table.X[part], table.y[part]
        answered(table, aggregator, state, rule=DEFAULT_RULE, X=X, y=y)


# Clusters -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["iris", "penguins"])
def test_the_clusters_of_several_summaries_differ_by_rows(name):
    table = attacked_table(name).scaled()
    verdict = judge_claims(table.X, cluster_differences(table, range(2, 9), None))
    assert verdict.n_found > 0
    assert verdict.n_false == 0


def test_a_node_with_a_ledger_does_not_tell_other_clusters_of_the_same_rows():
    table = attacked_table("iris")
    state: dict = {}
    for_few, for_many = (
        GEMSLogisticAggregator(moments=Moments(n_components=n), random_state=0)
        for n in (2, 8)
    )
    answered(table, for_few, state, rule=DEFAULT_RULE)
    with pytest.raises(RowsAskedAgainError):
        answered(table, for_many, state, rule=DEFAULT_RULE)


# Two methods --------------------------------------------------------------------------


def recognized_by_two_methods(rule: object) -> tuple[int, int]:
    """Rows of a small class, and others, that two summaries together recognize."""
    X, codes = load_digits(return_X_y=True)
    small, others = np.split(np.flatnonzero(codes == 3)[:60], [12])
    rows = np.concatenate([np.flatnonzero(codes <= 1), small])
    table = Table(name="digits", X=X[rows], y=np.array([f"c{c}" for c in codes[rows]]))
    by_class, of_all = (
        sums_in_message(told_in_summary(agg, table, disclosure=rule).content)
        for agg in (GEMSLogisticAggregator(random_state=0), PooledAggregator())
    )
    large = [group for group in by_class if group.label in ("c0", "c1")]
    if len(large) < 2:
        return 0, 0
    return tuple(int(are_in_rest(X[r], of_all, large).sum()) for r in (small, others))


def test_two_methods_without_a_rule_recognize_the_rows_of_a_small_class():
    assert recognized_by_two_methods(None) == (12, 0)


def test_two_methods_do_not_recognize_the_rows_of_a_small_class_under_the_rule():
    assert recognized_by_two_methods(DEFAULT_RULE)[0] == 0
