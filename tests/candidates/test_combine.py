# SPDX-License-Identifier: BSD-3-Clause
"""One call: what it tries, what it takes, and what it says of it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from helpers.digit_halves import NAMES, NODES, X, Y
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from skgems import EnsembleAggregator, GEMSLogisticAggregator, combine
from skgems.federation import IdentifierWarning, NodesDisagreeWarning


def rings(n=400):
    """Which no linear model tells apart."""
    rng = np.random.default_rng(0)
    angle, y = rng.uniform(0, 2 * np.pi, n), np.arange(n) % 2
    rows = np.c_[np.cos(angle), np.sin(angle)] * (1.0 + y)[:, None]
    return rows + 0.1 * rng.normal(size=rows.shape), y, (rows[:, 0] > 0).astype(int)


def forests():
    return [
        (name, RandomForestClassifier(10, random_state=0).fit(X[own], Y[own]))
        for name in NAMES
        for own in [NODES == name]
    ]


def test_of_rows_alone():
    agg = combine(X=X, y=Y, nodes=NODES, random_state=0)
    choice = agg.choice_
    assert agg.score(X, Y) > 0.98 and agg.node_names_ == NAMES
    assert not choice.looks_at_members and choice.n_rows == len(Y)
    names = [own["name"] for own in choice.table]
    assert (
        names[:2] == ["linear, as it comes", "linear"]
        and "1000 features" in names
        and "vote" not in names
    )
    chosen = choice.to_frame().loc[choice.name]
    best = choice.to_frame().accuracy.max()
    assert chosen.accuracy >= best - chosen.standard_error
    text = str(choice)
    assert f"* {choice.name} " in text and len(text.splitlines()) > len(names)
    again = combine(X=X, y=Y, nodes=NODES, random_state=0)
    np.testing.assert_array_equal(again.predict_proba(X), agg.predict_proba(X))


def test_features_win_where_no_linear_model_can():
    rows, y, nodes = rings()
    choice = combine(X=rows, y=y, nodes=nodes, random_state=0).choice_
    table = choice.to_frame()
    assert table.loc["linear"].accuracy < 0.7 < 0.9 < table.loc[choice.name].accuracy
    assert choice.name != "linear"


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_of_members_of_all_kinds():
    agg = combine(forests(), X, Y, NODES, random_state=0)
    table = agg.choice_.to_frame()
    assert table.looks_at_members.sum() == 4
    assert (table.accuracy[table.looks_at_members] > 0.5).all()
    nets = [
        (name, MLPClassifier((8,), max_iter=200, random_state=0).fit(X[own], Y[own]))
        for name in NAMES
        for own in [NODES == name]
    ]
    small = combine(nets, X, Y, NODES, budget="small", random_state=0)
    table = small.choice_.to_frame()
    assert "merged networks" in table.index and "matched networks" not in table.index


def test_members_go_by_their_names_and_not_by_their_places():
    # Sorted names of nodes stand in another order than the estimators.
    members, small = forests()[::-1], {"budget": "small", "random_state": 0}
    table = combine(members, X, Y, NODES, **small).choice_.to_frame()
    same = combine(forests(), X, Y, NODES, **small).choice_.to_frame()
    assert table.loc["vote"].accuracy == same.loc["vote"].accuracy
    with pytest.raises(ValueError, match=r"do not match: \['cork', 'rome'\]"):
        combine([*forests()[:2], ("cork", forests()[2][1])], X, Y, NODES)
    with pytest.raises(ValueError, match="Node '0' is a summary"):
        combine(["a.safetensors"], X, Y, NODES)


def test_warnings_of_the_fit_are_doubts():
    rng = np.random.default_rng(0)
    rows, nodes = rng.normal(size=(600, 2)), np.arange(600) % 3
    y = (rows[:, 0] > 0) ^ (nodes == 2)  # one node has the opposite rule
    with pytest.warns(NodesDisagreeWarning) as caught:
        choice = combine(X=rows, y=y, nodes=nodes, random_state=0).choice_
    assert {str(own.message) for own in caught} <= {*choice.doubts}


def test_without_rows_forests_vote():
    members = [*forests(), ("cork", DummyClassifier().fit(X[:3], ["ant"] * 3))]
    agg = combine(members)
    assert isinstance(agg, EnsembleAggregator) and agg.node_names_ == NAMES
    assert "nobody judged it" in agg.choice_.doubts[0]
    assert "['cork']" in agg.choice_.doubts[1]
    whole = EnsembleAggregator(forests()).fit()
    np.testing.assert_array_equal(agg.predict_proba(X), whole.predict_proba(X))
    with pytest.raises(ValueError, match="knows a single class"):
        combine(members[-1:])
    with pytest.raises(ValueError, match="nothing to combine"):
        combine()


@pytest.mark.filterwarnings("ignore:.*fewer rows than features")
def test_of_files_it_is_the_linear_model(tmp_path):
    own = GEMSLogisticAggregator(random_state=0)
    for name in NAMES:
        rows = NODES == name
        local = LogisticRegression(max_iter=500).fit(X[rows], Y[rows])
        sent = own.summarize(local, X[rows], Y[rows], name=name, min_rows=1)
        sent.save(tmp_path / name)
    files = [tmp_path / name for name in NAMES]
    agg = combine(files, random_state=0)
    assert agg.choice_.name == "linear" and "nobody judged it" in agg.choice_.doubts[0]
    theirs = own.set_params(estimators=files).fit()
    np.testing.assert_array_equal(agg.coef_, theirs.coef_)


def test_tables_with_texts_and_missing_values():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(300, 2)), columns=["size", "age"])
    frame["word"] = rng.choice(["red", "green", "blue"], 300)
    y = np.where((frame["word"] == "red") ^ (frame["size"] > 1.5), "yes", "no")
    frame.loc[::9, "age"] = np.nan
    agg = combine(X=frame, y=y, nodes=np.arange(300) % 3, random_state=0)
    assert agg.score(frame, y) > 0.9
    assert isinstance(agg.to_estimator(), Pipeline)


def test_a_small_budget_and_probabilities_that_are_not_too_sure():
    rows, y, nodes = rings(120)
    small = combine(X=rows, y=y, nodes=nodes, budget="small", random_state=0).choice_
    assert not any("features" in own["name"] for own in small.table)
    rng = np.random.default_rng(0)
    rows = np.hstack([rows, rng.normal(size=(len(y), 8))])
    agg = combine(X=rows, y=y, nodes=nodes, random_state=0)
    table = agg.choice_.to_frame()
    assert agg.choice_.name.startswith("1000") and agg.choice_.factor < 1.0
    kernel = table.index.str.startswith("1000")
    too_sure = kernel | table.index.str.startswith("quadratic")
    assert (table.factor[~too_sure] == 1.0).all()
    plain = clone(agg).fit(rows, y, nodes=nodes)
    ours, theirs = agg.decision_function(rows), plain.decision_function(rows)
    np.testing.assert_allclose(ours, agg.choice_.factor * theirs, rtol=1e-9)
    exported = agg.to_estimator().predict_proba(rows)
    np.testing.assert_allclose(exported, agg.predict_proba(rows), rtol=1e-9)
    assert not agg.exact_ and "multiplied" in agg.pooled_form_.reason


def test_what_it_cannot_use_is_said():
    with pytest.raises(ValueError, match="'small', 'fast' or 'thorough'"):
        combine(X=X, y=Y, budget="huge")
    few = combine(X=X[:80], y=Y[:80], nodes=NODES[:80], random_state=0)
    assert few.choice_.doubts[0] == "only 80 rows judged"
    assert few.choice_.looks_at_members is False


def words(n=300):
    """A table of texts of which two tell the label together."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({f"c{k}": rng.choice([*"abc"], n) for k in range(4)})
    return frame, ((frame.c0 == "a") ^ (frame.c1 == "b")).astype(int).to_numpy()


def test_tables_of_texts_alone():
    frame, y = words()
    nodes = np.arange(len(y)) % 3
    agg = combine(X=frame, y=y, nodes=nodes, budget="small", random_state=0)
    assert agg.score(frame, y) > 0.9 and not agg.choice_.doubts
    array = combine(
        X=frame.to_numpy(object), y=y, nodes=nodes, budget="small", random_state=0
    )
    np.testing.assert_allclose(
        array.predict_proba(frame.to_numpy(object)), agg.predict_proba(frame)
    )
    plain = agg.to_estimator()
    np.testing.assert_allclose(plain.predict_proba(frame), agg.predict_proba(frame))


def encoded_trees(frame, y, nodes):
    return [
        make_pipeline(
            OneHotEncoder(handle_unknown="ignore"), DecisionTreeClassifier()
        ).fit(frame[nodes == k], y[nodes == k])
        for k in np.unique(nodes)
    ]


def test_candidates_that_fail_beside_members_are_doubts():
    frame, y = words()
    nodes = np.arange(len(y)) % 3
    front = ColumnTransformer([("x", StandardScaler(), ["c0", "c2"])])
    members = encoded_trees(frame, y, nodes)
    given = {"nodes": nodes, "front": front, "budget": "small", "random_state": 0}
    choice = combine(members, frame, y, **given).choice_
    assert choice.looks_at_members
    (doubt,) = choice.doubts
    assert "['linear', 'linear, bent'" in doubt
    assert "Nodes ['0', '1', '2']: StandardScaler takes numbers, but the" in doubt
    with pytest.raises(ValueError, match=r"'2'\]: StandardScaler .*\['c0', 'c2'\]"):
        combine(X=frame, y=y, **given)


def patients(n=210):
    rng = np.random.default_rng(0)
    y = rng.choice(["back", "no"], n)
    frame = pd.DataFrame({"age": rng.normal(60, 9, n) + 9 * (y == "back")})
    nodes = np.array(["lyon", "oslo"])[rng.integers(0, 2, n)]
    return frame, y, nodes


IDS = {
    "text": lambda n: [f"P{k:05d}" for k in range(n)],
    "in order": lambda n: 5000 + np.arange(n),
    "shuffled": lambda n: np.random.default_rng(0).permutation(n),
}


@pytest.mark.parametrize("kind", IDS)
@pytest.mark.parametrize("with_text", [False, True])
def test_a_number_of_the_patient_is_left_out(kind, with_text):
    frame, y, nodes = patients()
    if with_text:
        frame["ward"] = np.random.default_rng(1).choice(["er", "icu"], len(y))
    frame.insert(0, "id", IDS[kind](len(y)))
    small = {"budget": "small", "random_state": 0}
    with pytest.warns(IdentifierWarning, match=r"\['id'\] are left out") as caught:
        agg = combine(X=frame, y=y, nodes=nodes, **small)
    without = frame.drop(columns="id")
    plain = combine(X=without, y=y, nodes=nodes, **small)
    (warning,) = caught
    assert warning.filename == __file__
    (doubt,) = set(agg.choice_.doubts) - set(plain.choice_.doubts)
    assert "['id'] are left out" in doubt
    names = [own["name"] for own in agg.choice_.table]
    assert names == [own["name"] for own in plain.choice_.table]
    assert agg.choice_.name == plain.choice_.name
    np.testing.assert_allclose(agg.predict_proba(frame), plain.predict_proba(without))
    exported = agg.to_estimator()
    other = frame.assign(id=np.roll(frame["id"], 9))
    np.testing.assert_array_equal(exported.predict(other), agg.predict(frame))
    assert agg.n_features_in_ == frame.shape[1]


def test_an_identifier_is_known_from_all_rows_where_nodes_have_few():
    frame, y, _ = patients(120)
    frame["id"] = IDS["text"](120)
    with pytest.warns(IdentifierWarning, match=r"\['id'\]"):
        combine(X=frame, y=y, nodes=np.arange(120) % 12, budget="small", random_state=0)
    # Which each node has once, but all have: that is what nodes could send.
    frame["id"] = np.array(IDS["text"](40))[np.arange(120) // 3]
    with pytest.warns(IdentifierWarning, match=r"\['id'\]"):
        combine(X=frame, y=y, nodes=np.arange(120) % 3, budget="small", random_state=0)


def test_a_front_of_the_users_decides_by_itself():
    frame, y, nodes = patients()
    frame["id"] = IDS["in order"](len(y))
    given = {"nodes": nodes, "budget": "small", "random_state": 0}
    agg = combine(X=frame, y=y, front=StandardScaler(), **given)
    assert agg.front_.n_features_in_ == 2 and not agg.choice_.doubts
    frame["id"] = IDS["text"](len(y))
    front = make_column_transformer(
        (StandardScaler(), ["age"]),
        (OneHotEncoder(handle_unknown="ignore", sparse_output=False), ["id"]),
    )
    with pytest.warns(IdentifierWarning, match=r"encodes the columns \['id'\]"):
        agg = combine(X=frame, y=y, front=front, **given)
    assert any("['id'], which identify rows" in own for own in agg.choice_.doubts)
    with pytest.raises(ValueError, match=r"All columns, \['id'\], identify rows"):
        combine(X=frame[["id"]], y=y, **given)


def test_measurements_in_order_are_kept():
    frame, y, nodes = patients()
    frame = frame.sort_values("age")
    frame["years"] = np.sort(np.random.default_rng(0).integers(18, 95, len(y)))
    given = {"nodes": nodes, "budget": "small", "random_state": 0}
    agg = combine(X=frame, y=y, **given)
    assert not isinstance(getattr(agg, "front_", None), ColumnTransformer)
    prices = np.sort(np.random.default_rng(0).choice(10**7, len(y), replace=False))
    with pytest.warns(IdentifierWarning, match=r"\['price'\] hold whole numbers that"):
        agg = combine(X=frame.assign(price=prices), y=y, **given)
    assert "leave them out" in agg.choice_.doubts[-1]
    assert not isinstance(getattr(agg, "front_", None), ColumnTransformer)
