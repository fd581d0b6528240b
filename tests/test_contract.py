# SPDX-License-Identifier: BSD-3-Clause
"""What the result of an aggregator does not depend on: the contract, on all of them.

The files `test_common*.py` test what holds with default settings; here all come with
rounds, public rows and the settings that leave most to chance or to rounding.
"""

from __future__ import annotations

from copy import deepcopy
from functools import cache

import joblib
import numpy as np
import pytest
from helpers.contract_cases import (
    CASES,
    FEW_UNITS,
    NODES,
    STUDENT,
    X_TEST,
    Y_TEST,
    X,
    Y,
    assert_close,
    cases_where,
    fitted_members,
    in_rounds_or_tuned,
    is_any_of,
    is_basic,
)
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skgems
from skgems import (
    DistillationAggregator,
    EnsembleAggregator,
    GEMSLogisticAggregator,
    GEMSMLPAggregator,
    ModelAveragingAggregator,
)
from skgems.base import BaseAggregator

pytestmark = pytest.mark.filterwarnings(
    # Few units and few rows: spaces need not meet, solvers need not end.
    "ignore:The good-enough spaces do not intersect",
    "ignore::sklearn.exceptions.ConvergenceWarning",
    # Nothing is left of the common start, and the average of networks is worse for it.
    "ignore::skgems.averaging.StartedApartWarning",
)

# ---- order and names ------------------------------------------------------------

# Sums over nodes are rounded in another order; training amplifies it a little.


# Names of the three nodes, and behind them, at index -1, of public rows.
NAMES = np.array(["zeta", "alpha", "mu", "public"])
OTHER_ORDER = [2, 0, 1]


# Of networks, tests/spaces/test_neuron_merging.py shows it of clusters and samples, and
# tests/gems/test_mlp_rounds.py of rounds; tuning comes after.
@cases_where(
    lambda case: True,
    slow=[
        *("gems tuned", "gems within spaces", "gems consensus loss", "gems mlp deep"),
        *("gems mlp clusters", "gems mlp in rounds"),
        *("pfnm rounds of own units",),
    ],
)
def test_order_and_names_of_nodes_do_not_matter(case):
    members = case.members()
    reordered = [(NAMES[k], members[k]) for k in OTHER_ORDER]
    aggregate = case.fit(reordered, nodes=NAMES[case.nodes()])
    assert aggregate.node_names_ == NAMES[OTHER_ORDER].tolist()
    assert_close(aggregate.predict_proba(X_TEST), case.probabilities(), case.rounding)


# Nodes are simulated before the first round, and before anything is tuned.
SIMULATED = ["gems", "gems mlp", "pfnm", "average", "average aligned", "rounds"]
SIMULATED += ["ensemble", "distillation"]


@cases_where(
    lambda case: is_any_of(case, SIMULATED), slow=["gems", "gems mlp", "distillation"]
)
def test_simulated_nodes_are_the_same_in_any_order_and_by_any_name(case):
    if case.of_networks:
        local = clone(case.local).set_params(random_state=None, max_iter=5)
    else:
        local = clone(case.local)
    by_number = case.fit([local] * 3)
    reordered = [(NAMES[k], clone(local)) for k in OTHER_ORDER]
    for estimators in (reordered, clone(local)):
        by_name = case.fit(estimators, nodes=NAMES[case.nodes()])
        assert_close(
            by_name.predict_proba(X_TEST),
            by_number.predict_proba(X_TEST),
            case.rounding,
        )
    if case.of_networks and not case.in_rounds:
        # Simulated networks start from different weights, as those of real nodes do,
        # save where they are averaged, which takes a common start.
        seeds = {member.random_state for member in by_number.estimators_}
        assert len(seeds) == (1 if case.kind is ModelAveragingAggregator else 3)


def with_units_permuted(network, seed):
    """A network that is the same function, with its hidden units in another order."""
    rng = np.random.default_rng(seed)
    network = deepcopy(network)
    coefs, intercepts = network.coefs_, network.intercepts_
    for layer in range(len(coefs) - 1):
        order = rng.permutation(len(intercepts[layer]))
        coefs[layer] = coefs[layer][:, order]
        intercepts[layer] = intercepts[layer][order]
        coefs[layer + 1] = coefs[layer + 1][order]
    return network


def counts_units_by_place(case):
    """Whether it averages weights as they stand, which is what `align` is for."""
    return case.kind is ModelAveragingAggregator and "align" not in case.settings


# tests/gems/test_mlp.py has further settings of GEMSMLPAggregator.
@cases_where(
    lambda case: case.of_networks and not counts_units_by_place(case),
    slow=["gems mlp", "gems mlp clusters", "gems mlp in rounds"],
)
def test_order_of_hidden_units_does_not_matter(case):
    members = [
        with_units_permuted(member, seed=k) for k, member in enumerate(case.members())
    ]
    # Networks that are trained further see the same batches.
    aggregate = case.fit(members)
    assert_close(aggregate.predict_proba(X_TEST), case.probabilities(), case.rounding)


# ---- n_jobs -----------------------------------------------------------------------


# The others compute in one process whatever it is; test_common_searches.py has the
# defaults, and tests/gems/test_mlp_rounds.py rounds of networks with common units.
@cases_where(
    lambda case: (
        in_rounds_or_tuned(case) and case.in_rounds or case.settings == FEW_UNITS
    ),
    slow=["gems mlp in rounds"],
)
@pytest.mark.filterwarnings("ignore:.*worker stopped while some jobs:UserWarning")
def test_jobs_do_not_change_a_bit(case):
    aggregate = case.fit(n_jobs=2)
    np.testing.assert_array_equal(aggregate.predict_proba(X_TEST), case.probabilities())


# ---- units and zero of the features -------------------------------------------------


@cache
def units_and_zeros():
    """A factor and a term for each feature: other units, other zeros.

    Units differ by up to 10^5, and zeros lie up to a hundred deviations away.
    """
    rng = np.random.default_rng(0)
    deviations = X.std(axis=0)
    deviations[deviations == 0] = deviations[deviations > 0].mean()
    factors = 10.0 ** rng.uniform(-2, 3, X.shape[1])
    return factors, factors * 100 * deviations * rng.uniform(-1, 1, X.shape[1])


# What is done to units does not see the pipelines that these come out of, and students
# see probabilities alone: another case of each method has all that does.
BEHIND_PIPELINES = ["gems consensus loss", "gems mlp", "gems mlp clusters"]
BEHIND_PIPELINES += ["pfnm deep", "pfnm few units", "pfnm rounds of own units"]
BEHIND_PIPELINES += ["distillation of networks"]


def trains_itself_in_rounds(case):
    """Averaging in rounds takes no pipelines; its rows are scaled by one around it."""
    return case.kind is ModelAveragingAggregator and case.in_rounds


def test_some_features_are_constant_or_absent_at_some_nodes_only():
    """Without such features the next test would show less."""
    spreads = np.array([X[NODES == k].std(axis=0) for k in range(3)])
    absent = np.array([~X[NODES == k].any(axis=0) for k in range(3)])
    assert np.any((spreads.min(axis=0) == 0) & (spreads.max(axis=0) > 0))
    assert np.any(absent.any(axis=0) & ~absent.all(axis=0))


def comparable_features(case):
    """A mask of the features whose units and zeros can be expected not to matter.

    All, but where members predict by themselves and are networks. A network keeps the
    weights that it started with where a feature does not vary at its node; elsewhere
    the feature varies, in whatever unit it has.
    """
    if case.of_networks and case.kind in (EnsembleAggregator, DistillationAggregator):
        return np.all([X[NODES == k].std(axis=0) > 0 for k in range(3)], axis=0)
    return np.ones(X.shape[1], dtype=bool)


def tolerance_to_units(case):
    """How far probabilities may move with units and zeros.

    A hundred deviations from zero cost some digits of each row. Retraining costs more,
    as its steps end at a tolerance, and so does what breaks ties of votes.
    """
    if case.kind is GEMSMLPAggregator or "voting" in case.settings:
        return 1e-3
    if "epsilon" in case.settings:  # bounds are kept to 1e-6 of a radius
        return 1e-5
    return 1e-6


# tests/gems/test_units_and_zero.py, tests/gems/test_mlp_rounds.py and
# tests/pfnm/test_pfnm_coordinates.py show more of these.
UNITS_ELSEWHERE = ["gems tuned", "gems", "gems consensus", "gems mlp deep"]
UNITS_ELSEWHERE += ["gems mlp in rounds", "pfnm", "pfnm top down", "pfnm rounds"]


# A student sees what an ensemble says.
@cases_where(
    lambda case: (
        not trains_itself_in_rounds(case) and not is_any_of(case, BEHIND_PIPELINES)
    ),
    slow=[*UNITS_ELSEWHERE, "distillation"],
)
def test_units_and_zero_of_features_do_not_matter(case):
    features = comparable_features(case)
    settings = {}
    if case.kind is DistillationAggregator:
        settings["student"] = make_pipeline(StandardScaler(), clone(STUDENT))

    def probabilities(factors, terms):
        """Of the aggregate of pipelines that scale, on rows in other units."""
        rows = X[:, features] * factors + terms
        test_rows = X_TEST[:, features] * factors + terms
        members = fitted_members(case.local, rows, scaled=True)
        aggregate = case.make(members, **settings)
        aggregate.fit(rows, Y, nodes=case.nodes())
        return aggregate.predict_proba(test_rows)

    factors, terms = units_and_zeros()
    assert_close(
        probabilities(factors[features], terms[features]),
        probabilities(1.0, 0.0),
        tolerance_to_units(case),
    )


# ---- a node that sends its model more than once ---------------------------------

# For each case by how much probabilities may move on average, where a node's rows are
# dealt to three nodes that have its model; and settings that count rows, if there are
# such. An average weighted by rows moves by rounding alone. For the others the bound is
# three times what was measured on these rows, or more.
BY_ROWS = {"node_weight": "n_samples"}
BOUNDS_WHEN_DEALT = {
    "gems": (0.002, {}),
    "gems consensus": (0.002, {"node_weight": "n_samples"}),
    "gems consensus loss": (0.01, {"node_weight": "n_samples"}),
    "gems mlp": (0.03, {}),
    "pfnm rounds": (0.02, {}),
    "pfnm": (0.2, {}),
    "average": (1e-12, BY_ROWS),
    "average of classes": (1e-12, {}),
    "average aligned": (1e-12, BY_ROWS),
    "rounds": (0.002, BY_ROWS),
    "ensemble": (1e-12, BY_ROWS),
    "ensemble of votes": (1e-12, BY_ROWS),
    "distillation": (1e-8, BY_ROWS),
}


# Of moments tests/gems/test_likelihood_exact.py shows it, as of any other dealing.
DEALT_ELSEWHERE = ["gems", "gems consensus loss", "pfnm rounds"]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name in DEALT_ELSEWHERE else [])
        for name in BOUNDS_WHEN_DEALT
    ],
)
def test_rows_of_a_node_dealt_over_several_change_little(name):
    case = CASES[name]
    bound, settings = BOUNDS_WHEN_DEALT[name]
    members = case.members()
    rows_of_last = np.flatnonzero(NODES == 2)
    nodes = NODES.copy()
    nodes[rows_of_last] += np.arange(len(rows_of_last)) % 3
    of_three = case.fit(members, nodes=NODES, **settings)
    of_five = case.fit([*members, members[2], members[2]], nodes=nodes, **settings)
    differences = of_three.predict_proba(X_TEST) - of_five.predict_proba(X_TEST)
    assert np.abs(differences).mean() < bound


# ---- fits that fail ---------------------------------------------------------------

WORDS = np.array(["ant", "bee", "cat", "dog", "elk"])


def test_the_table_has_every_public_aggregator():
    assert {case.kind for case in CASES.values()} == {
        getattr(skgems, name) for name in skgems.__all__ if name.endswith("Aggregator")
    }


def raise_at_the_end(self, **attributes):
    """Stands for the last step of a fit, which stores its results."""
    raise RuntimeError("at the very last")


# Tuning comes after a fit as one-shot fits do it; all networks train on in one way.
@cases_where(in_rounds_or_tuned, slow=["gems tuned", "rounds of networks"])
def test_a_failed_fit_leaves_estimator_and_members_as_they_were(case, monkeypatch):
    # test_common_searches.py fails one-shot fits in more ways.
    members = [deepcopy(member) for member in case.members()]
    before = joblib.hash(members)
    fitted = case.fit(members)
    fresh = case.make(members)
    assert joblib.hash(members) == before
    renamed = [
        clone(member).fit(X[NODES == k], WORDS[Y][NODES == k])
        for k, member in enumerate(members)
    ]
    with monkeypatch.context() as patch:
        patch.setattr(BaseAggregator, "_publish", raise_at_the_end)
        with pytest.raises(RuntimeError, match="at the very last"):
            fresh.fit(X, Y, nodes=case.nodes())
        with pytest.raises(NotFittedError):
            fresh.predict(X_TEST)
        fitted.set_params(estimators=renamed)
        with pytest.raises(RuntimeError, match="at the very last"):
            fitted.fit(X, WORDS[Y], nodes=case.nodes())
    assert joblib.hash(members) == before
    np.testing.assert_array_equal(fitted.predict_proba(X_TEST), case.probabilities())
    assert set(fitted.predict(X_TEST)) <= set(Y)
    # The next fit works, and a clone has the members that were set last.
    fitted.fit(X, WORDS[Y], nodes=case.nodes())
    assert set(fitted.predict(X_TEST)) <= set(WORDS)
    for estimator, member in zip(clone(fitted).estimators, renamed, strict=True):
        assert estimator is member


# ---- classes ------------------------------------------------------------------------

# Sorted, but with a capital and a blank, which are a part of a label.
ODD_WORDS = np.array(["Dog", "ant", "bee", "cat ", "zebra"])


@cases_where(
    lambda case: in_rounds_or_tuned(case) or case.settings == FEW_UNITS,
    slow=["gems tuned", "gems mlp in rounds", "rounds of networks"],
)
def test_words_are_labels_like_numbers(case):
    # In the order of the numbers; test_common_invariances.py has other orders.
    members = [
        clone(member).fit(X[NODES == k], ODD_WORDS[Y][NODES == k])
        for k, member in enumerate(case.members())
    ]
    aggregate = case.make(members).fit(X, ODD_WORDS[Y], nodes=case.nodes())
    np.testing.assert_array_equal(aggregate.classes_, ODD_WORDS)
    assert_close(aggregate.predict_proba(X_TEST), case.probabilities(), case.rounding)


@cases_where(is_basic)
@pytest.mark.parametrize("n_classes", [1, 2])
def test_classes_are_what_the_nodes_have_seen_together(case, n_classes):
    # Node 0, whose digits are below 3, has seen one class of two, and has no output
    # for the other.
    if n_classes == 2:
        labels = np.array(["no", "no", "no", "yes", "yes"])
    else:
        labels = np.array(["no"] * 5)
    y = labels[Y]
    local = clone(case.local)
    assert len(np.unique(y[NODES == 0])) == 1
    if case.of_networks:
        local.set_params(max_iter=5)
    aggregate = case.make([local] * 3).fit(X, y, nodes=case.nodes())
    np.testing.assert_array_equal(aggregate.classes_, np.unique(labels))
    proba = aggregate.predict_proba(X_TEST)
    assert_close(proba.sum(axis=1), 1.0, 1e-12)
    if n_classes == 2:
        # Rows of "yes" have a larger probability of it than rows of "no".
        proba_of_yes = proba[:, 1]
        is_yes = labels[Y_TEST] == "yes"
        assert proba_of_yes[is_yes].mean() > proba_of_yes[~is_yes].mean() + 0.01


# Labels are read in two ways, of students and of all others.
ONE_OF_EACH = {case.kind: case for case in reversed(CASES.values())}
READ_AS_OTHERS = (GEMSLogisticAggregator, GEMSMLPAggregator)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            case,
            id=kind.__name__,
            marks=[pytest.mark.slow] if kind in READ_AS_OTHERS else [],
        )
        for kind, case in ONE_OF_EACH.items()
    ],
)
def test_labels_that_differ_in_case_or_blanks_draw_a_warning(case):
    # Node 0 writes "Ant " where node 2, which has this class too, writes "ant".
    y = np.where((NODES == 0) & (Y == 0), "Ant ", WORDS[Y])
    members = [clone(case.local).fit(X[NODES == k], y[NODES == k]) for k in range(3)]
    match = r"'Ant ' \(node '0'\) and 'ant' \(node '2'\)"
    with pytest.warns(UserWarning, match=match):
        aggregate = case.make(members).fit(X, y, nodes=NODES)
    assert {"Ant ", "ant"} <= set(aggregate.classes_)


# ---- nodes and rows that only score ---------------------------------------------


@cases_where(is_basic, slow=["gems mlp", "pfnm rounds", "rounds of networks"])
def test_nodes_are_indices_or_names_and_public_rows_belong_to_nobody(case):
    named = list(zip(NAMES[:3].tolist(), case.members(), strict=True))
    by_name = NAMES[case.nodes()].tolist()
    for nodes in (case.nodes(), by_name):
        aggregate = case.fit(named, nodes=nodes)
        np.testing.assert_array_equal(
            aggregate.predict_proba(X_TEST), case.probabilities()
        )


# Rounds of any kind, and tuning, are given the rows that a search slices.
@cases_where(
    lambda case: in_rounds_or_tuned(case) and case.kind is not GEMSMLPAggregator,
    slow=["gems tuned", "pfnm rounds", "rounds of networks"],
)
def test_held_out_rows_are_sliced_and_routed_with_nodes(case):
    # test_common_searches.py does so for one-shot fits.
    nodes = case.nodes()
    held_out = np.arange(300) % 4 == 1
    # Folds in which every node has rows of each of its labels.
    folds = list(StratifiedKFold(2).split(X, 10 * NODES + Y))
    members = case.members()
    scores_by_hand = []
    for train, test in folds:
        aggregate = case.make(members).fit(
            X[train], Y[train], nodes=nodes[train], held_out=held_out[train]
        )
        scores_by_hand.append(aggregate.score(X[test], Y[test]))
    with config_context(enable_metadata_routing=True):
        aggregate = case.make(members).set_fit_request(nodes=True, held_out=True)
        search = GridSearchCV(aggregate, {"random_state": [0]}, cv=folds, refit=False)
        search.fit(X, Y, nodes=nodes, held_out=held_out)
        # A scaler that changes nothing, so that scores are those without it.
        pipe = make_pipeline(StandardScaler(with_mean=False, with_std=False), aggregate)
        scores = cross_val_score(
            pipe, X, Y, cv=folds, params={"nodes": nodes, "held_out": held_out}
        )
    (mean_score,) = search.cv_results_["mean_test_score"]
    assert mean_score == pytest.approx(np.mean(scores_by_hand))
    np.testing.assert_allclose(scores, scores_by_hand)


@cases_where(in_rounds_or_tuned)
def test_rows_held_out_make_a_difference(case):
    held_out = np.arange(300) % 4 == 1
    aggregate = case.make(case.members())
    aggregate.fit(X, Y, nodes=case.nodes(), held_out=held_out)
    assert not np.allclose(
        aggregate.predict_proba(X_TEST), case.probabilities(), atol=1e-6
    )
