# SPDX-License-Identifier: BSD-3-Clause
"""One call: what it tries, what it takes, and what it says of it."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
import pytest
from helpers.digit_halves import NAMES, NODES, X, Y
from helpers.few_features import use_few_features, use_no_powers
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import skgems.ensembles._candidates
from skgems import EnsembleAggregator, GEMSLogisticAggregator, combine
from skgems.asking import NodesDisagreeWarning
from skgems.ensembles._candidates import (
    Preparations,
    _trees,
    candidates_of_rows,
    preparations,
)
from skgems.parties import IdentifierWarning
from skgems.steps import Columns

# A quarter of the lines, where it does not matter how well they tell classes apart.
FEW_COLUMNS = X[:, 8:16]


@pytest.fixture
def few_features(monkeypatch):
    use_few_features(monkeypatch)


@pytest.fixture
def no_powers(monkeypatch):
    use_no_powers(monkeypatch)


def rings(n=400):
    """Two circles around each other, which no linear model tells apart."""
    rng = np.random.default_rng(0)
    angle = rng.uniform(0, 2 * np.pi, n)
    y = np.arange(n) % 2
    rows = np.c_[np.cos(angle), np.sin(angle)] * (1.0 + y)[:, None]
    nodes = (rows[:, 0] > 0).astype(int)
    return rows + 0.1 * rng.normal(size=rows.shape), y, nodes


def fit_members(classifier, X=X):
    """Pairs of a node's name and a clone, fitted to its rows."""
    return [
        (name, clone(classifier).fit(X[NODES == name], Y[NODES == name]))
        for name in NAMES
    ]


def fit_forests(X=X):
    return fit_members(RandomForestClassifier(10, random_state=0), X)


def combine_small(estimators=None, *, X, y, nodes, front=None):
    """Combine with few candidates."""
    return combine(estimators, X, y, nodes, front=front, budget="small", random_state=0)


# ---- rows without classifiers ------------------------------------------------------


@pytest.mark.usefixtures("few_features")
def test_rows_without_classifiers_give_a_model_and_a_table_of_candidates():
    agg = combine(X=X, y=Y, nodes=NODES, random_state=0)
    choice = agg.choice_
    assert agg.score(X, Y) > 0.98
    assert agg.node_names_ == NAMES
    assert not choice.looks_at_members
    assert choice.n_rows == len(Y)
    names = [entry["name"] for entry in choice.table]
    assert names[:2] == ["linear, unscaled", "linear"]
    assert "LDA, 1000 random features" in names
    assert "vote" not in names
    table = choice.to_frame()
    chosen = table.loc[choice.name]
    assert chosen.accuracy >= table.accuracy.max() - chosen.standard_error
    text = str(choice)
    assert f"* {choice.name} " in text
    assert len(text.splitlines()) > len(names)


@pytest.mark.usefixtures("few_features", "no_powers")
def test_equal_seeds_give_equal_models():
    rows = FEW_COLUMNS
    first = combine(X=rows, y=Y, nodes=NODES, random_state=0)
    second = combine(X=rows, y=Y, nodes=NODES, random_state=0)
    np.testing.assert_array_equal(second.predict_proba(rows), first.predict_proba(rows))
    # Whichever of them is taken.
    losses_of_candidates = first.choice_.to_frame().log_loss
    np.testing.assert_array_equal(
        second.choice_.to_frame().log_loss, losses_of_candidates
    )


@pytest.mark.usefixtures("few_features", "no_powers")
def test_features_win_where_no_linear_model_can():
    rows, y, nodes = rings()
    choice = combine(X=rows, y=y, nodes=nodes, random_state=0).choice_
    table = choice.to_frame()
    assert table.loc["linear"].accuracy < 0.7
    assert table.loc[choice.name].accuracy > 0.9
    assert choice.name != "linear"


def test_a_small_budget_tries_no_features():
    rows, y, nodes = rings(120)
    choice = combine_small(X=rows, y=y, nodes=nodes).choice_
    assert not any("features" in entry["name"] for entry in choice.table)


@pytest.mark.usefixtures("no_powers")
def test_logits_of_features_are_multiplied_where_they_are_too_sure(monkeypatch):
    # A forest is better on rings.
    monkeypatch.setattr(skgems.ensembles._candidates, "_trees", lambda *_, **__: [])
    rows, y, nodes = rings(120)
    noise = np.random.default_rng(0).normal(size=(len(y), 8))
    rows = np.hstack([rows, noise])
    agg = combine(X=rows, y=y, nodes=nodes, random_state=0)
    choice = agg.choice_
    assert choice.name.startswith("LDA")
    assert choice.factor < 1.0
    plain = clone(agg).fit(rows, y, nodes=nodes)
    np.testing.assert_allclose(
        agg.decision_function(rows),
        choice.factor * plain.decision_function(rows),
        rtol=1e-9,
    )
    exported = agg.to_estimator().predict_proba(rows)
    np.testing.assert_allclose(exported, agg.predict_proba(rows), rtol=1e-9)
    assert not agg.exact_
    assert "multiplied" in agg.pooled_form_.reason
    # Other logits are not multiplied.
    table = choice.to_frame()
    names = table.index.str
    may_be_too_sure = names.startswith("LDA") | names.startswith("QDA")
    assert (table.factor[~may_be_too_sure] == 1.0).all()


@pytest.mark.usefixtures("few_features", "no_powers")
def test_warnings_of_the_fit_are_doubts():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(600, 2))
    nodes = np.arange(600) % 3
    y = (rows[:, 0] > 0) ^ (nodes == 2)  # one node has the opposite rule
    with pytest.warns(NodesDisagreeWarning) as records:
        choice = combine(X=rows, y=y, nodes=nodes, random_state=0).choice_
    assert {str(record.message) for record in records} <= {*choice.doubts}


def test_an_unknown_budget_is_an_error():
    with pytest.raises(ValueError, match="'small', 'fast' or 'thorough'"):
        combine(X=X, y=Y, budget="huge")


@pytest.mark.usefixtures("no_powers")
def test_few_rows_that_judge_are_a_doubt():
    rows = FEW_COLUMNS[:80]
    choice = combine_small(X=rows, y=Y[:80], nodes=NODES[:80]).choice_
    assert (
        choice.doubts[0]
        == "Only 80 rows judged the candidates, so the accuracies are uncertain."
    )
    assert choice.looks_at_members is False


# ---- classifiers -------------------------------------------------------------------


@pytest.mark.usefixtures("few_features", "no_powers")
def test_forests_are_combined_in_four_ways():
    rows = X[:, ::2]
    agg = combine(fit_forests(rows), rows, Y, NODES, random_state=0)
    table = agg.choice_.to_frame()
    assert table.looks_at_members.sum() == 4
    assert (table.accuracy[table.looks_at_members] > 0.5).all()


@pytest.mark.usefixtures("no_powers")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_small_budget_merges_networks_but_does_not_match_them():
    networks = fit_members(MLPClassifier((4,), max_iter=9, random_state=0), FEW_COLUMNS)
    agg = combine_small(networks, X=FEW_COLUMNS, y=Y, nodes=NODES)
    names = agg.choice_.to_frame().index
    assert "merged networks" in names
    assert "matched networks" not in names


def test_members_go_by_their_names_and_not_by_their_places():
    rows = csr_matrix(FEW_COLUMNS)  # for which there are few candidates

    def accuracy_of_vote(forests):
        agg = combine_small(forests, X=rows, y=Y, nodes=NODES)
        return agg.choice_.to_frame().loc["vote"].accuracy

    # Here sorted names of nodes stand in the order of the estimators.
    in_order = fit_forests(rows)
    assert accuracy_of_vote(in_order[::-1]) == accuracy_of_vote(in_order)


def test_names_of_members_must_be_those_of_nodes():
    *others, (_, last) = fit_forests()
    with pytest.raises(ValueError, match=r"do not match: \['cork', 'rome'\]"):
        combine([*others, ("cork", last)], X, Y, NODES)


def test_summaries_do_not_go_with_rows():
    with pytest.raises(ValueError, match="Node '0' is given as a summary"):
        combine(["a.safetensors"], X, Y, NODES)


def test_forests_vote_where_no_rows_judge():
    constant = DummyClassifier().fit(X[:3], ["ant"] * 3)
    agg = combine([*fit_forests(), ("cork", constant)])
    assert isinstance(agg, EnsembleAggregator)
    assert agg.node_names_ == NAMES
    assert "The model was not judged" in agg.choice_.doubts[0]
    assert "['cork']" in agg.choice_.doubts[1]
    vote = EnsembleAggregator(fit_forests()).fit()
    np.testing.assert_array_equal(agg.predict_proba(X), vote.predict_proba(X))


def test_a_member_of_one_class_is_not_enough():
    constant = DummyClassifier().fit(X[:3], ["ant"] * 3)
    with pytest.raises(ValueError, match="knows a single class"):
        combine([("cork", constant)])


def test_nothing_to_combine_is_an_error():
    with pytest.raises(ValueError, match="nothing to combine"):
        combine()


def test_files_of_linear_models_become_the_linear_model(tmp_path):
    linear = GEMSLogisticAggregator(random_state=0)
    paths = [tmp_path / name for name in NAMES]
    for (name, classifier), path in zip(
        fit_members(LogisticRegression(max_iter=500)), paths, strict=True
    ):
        rows = NODES == name
        summary = linear.summarize(
            classifier, X[rows], Y[rows], name=name, disclosure=None
        )
        summary.save(path)
    agg = combine(paths, random_state=0)
    assert agg.choice_.name == "linear"
    assert "The model was not judged" in agg.choice_.doubts[0]
    expected = linear.set_params(estimators=paths).fit()
    np.testing.assert_array_equal(agg.coef_, expected.coef_)


# ---- tables ------------------------------------------------------------------------


@pytest.mark.usefixtures("few_features", "no_powers")
def test_tables_with_texts_and_missing_values_become_a_pipeline():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(300, 2)), columns=["size", "age"])
    frame["word"] = rng.choice(["red", "green", "blue"], 300)
    y = np.where((frame["word"] == "red") ^ (frame["size"] > 1.5), "yes", "no")
    frame.loc[::9, "age"] = np.nan
    agg = combine(X=frame, y=y, nodes=np.arange(300) % 3, random_state=0)
    assert agg.score(frame, y) > 0.9
    assert isinstance(agg.to_estimator(), Pipeline)


def table_of_words(n=300):
    """Four columns of letters, of which two tell the label together; three nodes."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({f"c{k}": rng.choice([*"abc"], n) for k in range(4)})
    y = ((frame.c0 == "a") ^ (frame.c1 == "b")).astype(int).to_numpy()
    return frame, y, np.arange(n) % 3


@cache
def combine_words():
    """The aggregate of a table of words, which tests do not alter."""
    frame, y, nodes = table_of_words()
    return combine_small(X=frame, y=y, nodes=nodes)


@pytest.mark.usefixtures("no_powers")
def test_tables_of_texts_only_are_encoded():
    frame, y, _ = table_of_words()
    agg = combine_words()
    assert agg.score(frame, y) > 0.9
    assert not agg.choice_.doubts
    exported = agg.to_estimator()
    np.testing.assert_allclose(exported.predict_proba(frame), agg.predict_proba(frame))


@pytest.mark.usefixtures("no_powers")
def test_arrays_of_texts_are_encoded_as_tables_are():
    frame, y, nodes = table_of_words()
    array = frame.to_numpy(object)
    of_array = combine_small(X=array, y=y, nodes=nodes)
    np.testing.assert_allclose(
        of_array.predict_proba(array), combine_words().predict_proba(frame)
    )


def fit_trees_behind_encoders(frame, y, nodes):
    return [
        make_pipeline(
            OneHotEncoder(handle_unknown="ignore"), DecisionTreeClassifier()
        ).fit(frame[nodes == k], y[nodes == k])
        for k in np.unique(nodes)
    ]


def front_of_numbers():
    """A front that cannot take the letters of the table."""
    return ColumnTransformer([("x", StandardScaler(), ["c0", "c2"])])


def test_candidates_that_fail_beside_members_are_doubts():
    frame, y, nodes = table_of_words()
    members = fit_trees_behind_encoders(frame, y, nodes)
    agg = combine_small(members, X=frame, y=y, nodes=nodes, front=front_of_numbers())
    choice = agg.choice_
    assert choice.looks_at_members
    (doubt,) = choice.doubts
    assert "['linear', 'linear, power transform'" in doubt
    assert "Nodes ['0', '1', '2']: StandardScaler takes numbers, but the" in doubt


def test_candidates_that_all_fail_are_an_error():
    frame, y, nodes = table_of_words()
    with pytest.raises(ValueError, match=r"'2'\]: StandardScaler .*\['c0', 'c2'\]"):
        combine_small(X=frame, y=y, nodes=nodes, front=front_of_numbers())


# ---- columns that identify rows ----------------------------------------------------


def patients(n=210):
    """Ages, whether the patients came back, and their hospitals."""
    rng = np.random.default_rng(0)
    y = rng.choice(["back", "no"], n)
    frame = pd.DataFrame({"age": rng.normal(60, 9, n) + 9 * (y == "back")})
    nodes = np.array(["lyon", "oslo"])[rng.integers(0, 2, n)]
    return frame, y, nodes


# Functions of the number of rows.
IDS = {
    "text": lambda n: [f"P{k:05d}" for k in range(n)],
    "in order": lambda n: 5000 + np.arange(n),
    "shuffled": lambda n: np.random.default_rng(0).permutation(n),
}


def patients_with_wards():
    frame, y, nodes = patients()
    frame["ward"] = np.random.default_rng(1).choice(["er", "icu"], len(y))
    return frame, y, nodes


@cache
def combine_patients(*, with_text):
    """The aggregate of patients without identifiers, which tests do not alter."""
    frame, y, nodes = patients_with_wards() if with_text else patients()
    return combine_small(X=frame, y=y, nodes=nodes)


@pytest.mark.parametrize(
    ("kind", "with_text"),
    [
        ("text", False),
        pytest.param("text", True, marks=pytest.mark.slow),
        ("in order", False),
        ("shuffled", True),
    ],
)
def test_a_number_of_the_patient_is_left_out(kind, with_text):
    plain_frame, y, nodes = patients_with_wards() if with_text else patients()
    frame = plain_frame.copy()
    frame.insert(0, "id", IDS[kind](len(y)))
    with pytest.warns(IdentifierWarning, match=r"\['id'\] are left out") as records:
        # Not by `combine_small`: the warning names the line that calls combine.
        agg = combine(X=frame, y=y, nodes=nodes, budget="small", random_state=0)
    (record,) = records
    assert record.filename == __file__
    plain = combine_patients(with_text=with_text)
    (doubt,) = set(agg.choice_.doubts) - set(plain.choice_.doubts)
    assert "['id'] are left out" in doubt
    names = [entry["name"] for entry in agg.choice_.table]
    assert names == [entry["name"] for entry in plain.choice_.table]
    assert agg.choice_.name == plain.choice_.name
    np.testing.assert_allclose(
        agg.predict_proba(frame), plain.predict_proba(plain_frame)
    )
    exported = agg.to_estimator()
    with_other_ids = frame.assign(id=np.roll(frame["id"], 9))
    np.testing.assert_array_equal(exported.predict(with_other_ids), agg.predict(frame))
    assert agg.n_features_in_ == frame.shape[1]


@pytest.mark.usefixtures("no_powers")
def test_an_identifier_is_known_from_all_rows_where_nodes_have_few():
    frame, y, _ = patients(60)
    frame["id"] = IDS["text"](60)
    with pytest.warns(IdentifierWarning, match=r"\['id'\]"):
        combine_small(X=frame, y=y, nodes=np.arange(60) % 6)


@pytest.mark.usefixtures("no_powers")
def test_identifiers_that_each_node_has_once_are_known():
    """Though all nodes have the same: that is what nodes could send."""
    frame, y, _ = patients(120)
    frame["id"] = np.array(IDS["text"](40))[np.arange(120) // 3]
    with pytest.warns(IdentifierWarning, match=r"\['id'\]"):
        combine_small(X=frame, y=y, nodes=np.arange(120) % 3)


def test_columns_that_all_identify_rows_are_an_error():
    frame, y, nodes = patients()
    frame["id"] = IDS["text"](len(y))
    with pytest.raises(ValueError, match=r"All columns, \['id'\], identify rows"):
        combine_small(X=frame[["id"]], y=y, nodes=nodes)


@pytest.mark.usefixtures("no_powers")
def test_a_front_of_the_users_keeps_numbers_in_order():
    frame, y, nodes = patients()
    frame["id"] = IDS["in order"](len(y))
    agg = combine_small(X=frame, y=y, nodes=nodes, front=StandardScaler())
    assert agg.front_.n_features_in_ == 2
    assert not agg.choice_.doubts


@pytest.mark.usefixtures("no_powers")
def test_a_front_of_the_users_that_encodes_identifiers_is_a_doubt():
    frame, y, nodes = patients(60)
    frame["id"] = IDS["text"](len(y))
    front = make_column_transformer(
        (StandardScaler(), ["age"]),
        (OneHotEncoder(handle_unknown="ignore", sparse_output=False), ["id"]),
    )
    with pytest.warns(IdentifierWarning, match=r"encodes the columns \['id'\]"):
        agg = combine_small(X=frame, y=y, nodes=nodes, front=front)
    assert any("['id'], which identify rows" in doubt for doubt in agg.choice_.doubts)


def sorted_patients():
    """Patients by age, with whole numbers of years that rise, too."""
    frame, y, nodes = patients()
    frame = frame.sort_values("age")
    frame["years"] = np.sort(np.random.default_rng(0).integers(18, 95, len(y)))
    return frame, y, nodes


def leaves_out_columns(agg):
    return isinstance(getattr(agg, "front_", None), ColumnTransformer)


@pytest.mark.usefixtures("no_powers")
def test_measurements_in_order_are_kept():
    frame, y, nodes = sorted_patients()
    assert not leaves_out_columns(combine_small(X=frame, y=y, nodes=nodes))


@pytest.mark.usefixtures("no_powers")
def test_whole_numbers_of_which_none_is_there_twice_are_kept_with_a_warning():
    frame, y, nodes = sorted_patients()
    rng = np.random.default_rng(0)
    frame["price"] = np.sort(rng.choice(10**7, len(y), replace=False))
    with pytest.warns(IdentifierWarning, match=r"\['price'\] hold whole numbers that"):
        agg = combine_small(X=frame, y=y, nodes=nodes)
    assert "leave them out" in agg.choice_.doubts[-1]
    assert not leaves_out_columns(agg)


def test_a_forest_is_tried_where_classes_have_sharp_boundaries():
    rows, y, nodes = rings(120)
    noise = np.random.default_rng(0).normal(size=(len(y), 8))
    agg = combine(X=np.hstack([rows, noise]), y=y, nodes=nodes, random_state=0)
    assert agg.choice_.name == "forest"
    assert isinstance(agg.to_estimator()[-1], RandomForestClassifier)


@pytest.mark.parametrize(
    ("budget", "n_encoded", "n_classes", "n_rounds"),
    [
        ("fast", 150, 2, 50),
        ("fast", 151, 2, None),
        ("fast", 50, 3, 50),
        ("fast", 51, 3, None),
        ("fast", None, 2, None),
        ("thorough", 151, 3, 100),
        ("thorough", None, 2, 100),
    ],
)
def test_boosted_trees_are_tried_where_there_is_time(
    budget, n_encoded, n_classes, n_rounds
):
    forest, *boosted = _trees(
        (StandardScaler(),),
        n_encoded=n_encoded,
        n_classes=n_classes,
        budget=budget,
        random_state=0,
    )
    assert forest.name == "forest"
    assert [c.name for c in boosted] == (["boosted trees"] if n_rounds else [])
    for candidate in boosted:
        assert candidate.aggregator.pooled.max_iter == n_rounds
        # Without it the log-loss diverges on several classes with rare ones.
        assert candidate.aggregator.pooled.l2_regularization >= 1.0


def test_encoded_columns_of_a_table_are_counted():
    table = pd.DataFrame({"age": [1.0, 2.0, 3.0], "ward": ["a", "b", "a"]})
    before = preparations(table, columns=Columns.from_table(table))
    assert before.n_columns == 2
    assert before.n_encoded == 3


def test_narrow_features_are_tried_where_the_number_of_columns_is_known():
    def gammas(n_columns):
        before = Preparations(
            unscaled=None,
            scaled=StandardScaler(),
            power_transformed=(StandardScaler(),),
            n_columns=n_columns,
        )
        tried = candidates_of_rows(["a"], before, 100, budget="fast", random_state=0)
        return [
            candidate.steps[-1].gamma
            for candidate in tried
            if "narrow" in candidate.name
        ]

    assert gammas(None) == []
    # Four times the default, 1 / (2 n), of n scaled columns.
    assert gammas(8) == [0.25, 0.25]
