# SPDX-License-Identifier: BSD-3-Clause
"""Columns that tell rows apart: noticed at the node, left out, and never sent."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn import datasets
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, RobustScaler, StandardScaler

from skgems import GEMSLogisticAggregator, PooledTransformer
from skgems.asking import Message, Nodes
from skgems.datasets import load_penguins
from skgems.guard import Agreement, NotAgreedError, reply_to
from skgems.messages import check_reply, check_request, says
from skgems.parties import IdentifierWarning
from skgems.steps import (
    DESCRIBES,
    IDENTIFIES,
    IN_ORDER,
    UNCLEAR,
    ColumnsOf,
    NotPooledError,
    agreed_roles,
    column_roles,
    repeated_identifiers,
)

RNG = np.random.default_rng(0)
WORDS = np.array(["red", "green", "blue"], dtype=object)


def role(column):
    return column_roles(pd.DataFrame({"column": column}))[0]


def codes(numbers):
    return np.array([f"P{number:05d}" for number in numbers], dtype=object)


@pytest.mark.parametrize(
    "column, expected",
    [
        # Numbers of rows, as they come, of some rows, shuffled, with gaps.
        (np.arange(7), IDENTIFIES),
        (1000.0 + np.arange(100), IDENTIFIES),
        (np.arange(300)[::-1], IDENTIFIES),
        (np.arange(0, 240, 12), IDENTIFIES),
        (np.sort(RNG.choice(2000, 400, replace=False)), IDENTIFIES),
        (RNG.permutation(400), IDENTIFIES),
        (np.where(np.arange(300) % 9 == 0, np.nan, np.arange(300)), IDENTIFIES),
        (pd.array([*range(100), None], dtype="Int64"), IDENTIFIES),
        # Of large range, in order: of patients, or prices by which rows are sorted.
        (np.sort(RNG.choice(10**6, 400, replace=False)), IN_ORDER),
        (RNG.choice(10**6, 400, replace=False), DESCRIBES),
        # Measurements, sorted ones too.
        (RNG.normal(size=300), DESCRIBES),
        (np.sort(RNG.normal(size=300)), DESCRIBES),
        (np.sort(RNG.integers(18, 95, 300)), DESCRIBES),
        (np.arange(300) / 2, DESCRIBES),
        (np.full(300, 7), DESCRIBES),
        (RNG.random(300) < 0.5, DESCRIBES),
        # Texts: names of patients; the same twice; categories, many, and of which most
        # rows have one of a few.
        (codes(range(400)), IDENTIFIES),
        (codes(np.arange(400) // 2), DESCRIBES),
        (codes([*range(380), *range(20)]), IDENTIFIES),
        (pd.array([*codes(range(99)), None], dtype="string"), IDENTIFIES),
        (codes(RNG.integers(0, 400, 400)), DESCRIBES),
        (np.where(RNG.random(400) < 0.3, "none", codes(range(400))), DESCRIBES),
        (RNG.choice(WORDS, 400), DESCRIBES),
        # Too few rows to say it.
        (np.arange(6), UNCLEAR),
        (RNG.permutation(19), UNCLEAR),
        (codes(range(19)), UNCLEAR),
        (np.full(30, None), UNCLEAR),
    ],
)
def test_what_rows_say_of_a_column(column, expected):
    assert role(column) == expected


def measured_tables():
    """Tables of measurements, which have no identifiers, by name."""
    tables_by_name = {"penguins": load_penguins(as_frame=True)[0]}
    for name in ("iris", "wine", "breast_cancer", "digits", "linnerud"):
        bunch = getattr(datasets, f"load_{name}")(as_frame=True)
        tables_by_name[name] = bunch.data
    tables_by_name["diabetes"] = datasets.load_diabetes(
        as_frame=True, scaled=False
    ).data
    return tables_by_name


def test_no_measurement_is_taken_for_an_identifier():
    """Neither of rows that are dealt to five nodes, nor of thirds in sorted order."""
    rng = np.random.default_rng(0)
    for name, table in measured_tables().items():
        nodes = rng.integers(0, 5, len(table))
        parts = [table[nodes == k] for k in range(5)]
        assert set(column_roles(table)) == {DESCRIBES}, name
        roles = agreed_roles([column_roles(part) for part in parts])
        assert not {IDENTIFIES, IN_ORDER} & {*roles}, name
        for column in table:
            sorted_by = table.sort_values(column)[[column]]
            thirds = np.array_split(np.arange(len(table)), 3)
            roles = [column_roles(sorted_by.iloc[third]) for third in thirds]
            assert agreed_roles(roles) == (DESCRIBES,), (name, column)


def test_nodes_of_too_few_rows_do_not_vote():
    def agreed(*roles):
        """The common role of a column that has these roles at the nodes."""
        (common_role,) = agreed_roles([(role,) for role in roles])
        return common_role

    assert agreed(IDENTIFIES, UNCLEAR, UNCLEAR) == IDENTIFIES
    assert agreed(IDENTIFIES, DESCRIBES) == DESCRIBES
    assert agreed(IDENTIFIES, IDENTIFIES, DESCRIBES) == IDENTIFIES
    assert agreed(IN_ORDER, UNCLEAR) == IN_ORDER
    assert agreed(IN_ORDER, IDENTIFIES, DESCRIBES) == IN_ORDER
    assert agreed(UNCLEAR) == UNCLEAR


# ---- fronts that leave out identifiers -------------------------------------------


def identified_rows(n=300):
    """A table with a number of the row and a name, and the nodes of its rows."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.normal(size=(n, 3)), columns=list("abc"))
    frame.insert(1, "number", np.arange(n))
    frame["name"] = codes(range(n))
    return frame, np.array(["lyon", "oslo"])[np.arange(n) % 2]


def channel_to(parts, exchanged=None, disclosure="auto"):
    """A channel to nodes that have these tables; requests and replies are noted."""

    def ask(requests):
        replies = {}
        for name, request in requests.items():
            reply = reply_to(
                request.to_bytes(),
                None,
                parts[name],
                None,
                name=name,
                disclosure=disclosure,
            )
            replies[name] = Message.from_bytes(reply)
            if exchanged is not None:
                exchanged.append((request, replies[name]))
        return replies

    return Nodes(ask, sorted(parts), disclosure=disclosure)


def tables_of_nodes(frame, nodes):
    """The rows of each node, by name."""
    return {name: frame[nodes == name] for name in np.unique(nodes)}


SCALED = make_pipeline(SimpleImputer(), StandardScaler())


@pytest.mark.parametrize("as_array", [False, True])
def test_a_front_leaves_out_the_columns_that_identify_rows(as_array):
    frame, nodes = identified_rows()
    if as_array:
        X = frame.drop(columns="name").to_numpy()
        left_out = r"\[1\]"
        names = ["x0", "x2", "x3"]
    else:
        X = frame
        left_out = r"\['number', 'name'\]"
        names = ["a", "b", "c"]
    front = PooledTransformer(SCALED, drop_identifiers=True)
    with pytest.warns(IdentifierWarning, match=f"{left_out} are left out"):
        front.fit(X, nodes=nodes)
    expected = clone(SCALED).fit_transform(frame[["a", "b", "c"]])
    np.testing.assert_allclose(front.transform(X), expected, atol=1e-12)
    estimator = front.to_estimator()
    np.testing.assert_array_equal(estimator.transform(X), front.transform(X))
    assert front.n_features_in_ == X.shape[1]
    assert estimator.get_feature_names_out().tolist() == names
    with pytest.warns(IdentifierWarning):
        fitted_clone = clone(front).fit(X, nodes=nodes)
    assert fitted_clone._front.digest == front._front.digest


def test_nothing_is_left_out_where_nothing_identifies_rows():
    X = load_penguins()[0]
    front = PooledTransformer(SCALED, drop_identifiers=True).fit(X)
    of_all_columns = PooledTransformer(SCALED).fit(X)
    np.testing.assert_array_equal(front.transform(X), of_all_columns.transform(X))
    assert type(front.to_estimator()) is type(of_all_columns.to_estimator())


def test_over_a_channel_nodes_say_which_columns_identify_rows_and_send_no_values():
    frame, nodes = identified_rows()
    parts = tables_of_nodes(frame, nodes)
    exchanged = []
    parts["oslo"] = parts["oslo"].iloc[:, ::-1]  # columns in another order
    front = PooledTransformer(SCALED, drop_identifiers=True)
    front.set_params(summaries=channel_to(parts, exchanged))
    with pytest.warns(IdentifierWarning, match=r"\['number', 'name'\]"):
        front.fit()
    with pytest.warns(IdentifierWarning):
        in_process = PooledTransformer(SCALED, drop_identifiers=True).fit(
            frame, nodes=nodes
        )
    np.testing.assert_allclose(
        front.transform(frame), in_process.transform(frame), atol=1e-12
    )
    for request, reply in exchanged:
        check_request(request)
        check_reply(request, reply)
        assert b"P00" not in reply.to_bytes()
    roles = exchanged[0][1].content["columns"]["roles"]
    assert roles == [DESCRIBES, IDENTIFIES, DESCRIBES, DESCRIBES, IDENTIFIES]
    assert (
        "These columns do: 'number', 'name'."
        in says(exchanged[0][1])["front.columns.roles"]
    )


def test_nodes_do_not_say_which_columns_identify_rows_if_they_are_not_asked():
    exchanged = []
    parts = {"lyon": pd.DataFrame({"word": RNG.choice(WORDS, 90)})}
    encoder = OneHotEncoder(handle_unknown="ignore")
    PooledTransformer(encoder, summaries=channel_to(parts, exchanged)).fit()
    _, reply = exchanged[0]
    assert "roles" not in reply.content["columns"]


def test_a_node_that_has_found_other_identifiers_is_asked_again():
    frame, nodes = identified_rows(90)
    nodes[80:] = "rome"  # has too few rows to find identifiers
    # In bern the number of the row is a constant, so it does not identify rows.
    nodes[60:80] = "bern"
    frame.loc[nodes == "bern", "number"] = 7
    parts = tables_of_nodes(frame[["a", "number", "b"]], nodes)
    exchanged = []
    front = PooledTransformer(StandardScaler(), drop_identifiers=True)
    front.set_params(summaries=channel_to(parts, exchanged, disclosure=None))
    with pytest.warns(IdentifierWarning, match=r"\['number'\]"):
        front.fit()
    names = [reply.envelope["node"] for _, reply in exchanged]
    assert names == ["bern", "lyon", "oslo", "rome", "bern"]
    expected = StandardScaler().fit(frame[["a", "b"]])
    np.testing.assert_allclose(
        front.transform(frame), expected.transform(frame[["a", "b"]])
    )


def test_a_front_of_files_leaves_out_identifiers_and_can_be_saved(tmp_path):
    frame, nodes = identified_rows()
    front = PooledTransformer(StandardScaler(), drop_identifiers=True)
    frame = frame.drop(columns="name")
    for name, part in tables_of_nodes(frame, nodes).items():
        front.summarize(part, name=name).save(tmp_path / name)
    with pytest.warns(IdentifierWarning, match=r"\['number'\]"):
        front.set_params(summaries=[tmp_path / "lyon", tmp_path / "oslo"]).fit()
    front.save(tmp_path / "front")
    loaded = PooledTransformer.load(tmp_path / "front")
    assert loaded.drop_identifiers and loaded._front.digest == front._front.digest
    np.testing.assert_array_equal(loaded.transform(frame), front.transform(frame))
    with pytest.raises(ValueError, match="another transformer"):
        front.set_params(drop_identifiers=False).fit()


def test_bounds_of_columns_stay_with_them_when_others_are_left_out():
    frame, nodes = identified_rows()
    X = frame[["number", "a", "b"]].to_numpy()
    spread = PooledTransformer(
        make_pipeline(StandardScaler()), bounds={1: (-9, 9)}, drop_identifiers=True
    )
    with pytest.warns(IdentifierWarning):
        spread.fit(X, nodes=nodes)
    limits = spread._front.limits(spread._front.columns)
    assert limits[:, 1].tolist() == [-9, 9] and np.isnan(limits[:, [0, 2]]).all()
    bounded = PooledTransformer(
        RobustScaler(), bounds={1: (-9, 9), 2: (-5, 5)}, drop_identifiers=True
    )
    with pytest.warns(IdentifierWarning):
        bounded.fit(X, nodes=nodes)
    medians = bounded.to_estimator().transformers_[0][1].center_
    np.testing.assert_allclose(medians, np.median(X[:, 1:], axis=0), atol=0.02)


def test_whole_numbers_in_order_that_may_be_a_measurement_are_kept_with_a_warning():
    frame, nodes = identified_rows()
    frame["price"] = np.sort(np.random.default_rng(0).choice(10**6, 300, replace=False))
    front = PooledTransformer(StandardScaler(), drop_identifiers=True)
    with pytest.warns(IdentifierWarning, match=r"\['price'\] hold whole numbers that"):
        front.fit(frame[["a", "price"]], nodes=nodes)
    assert front.transform(frame[["a", "price"]]).shape == (300, 2)


def test_a_table_of_identifiers_alone_is_an_error():
    frame, nodes = identified_rows()
    front = PooledTransformer(StandardScaler(), drop_identifiers=True)
    with pytest.raises(ValueError, match=r"All columns, \['number', 'name'\], ident"):
        front.fit(frame[["number", "name"]], nodes=nodes)


LISTED_COLUMNS = ColumnTransformer([("x", StandardScaler(), ["a"])])
# The first column is another one once identifiers are left out.
COLUMNS_BY_PLACE = ColumnTransformer(
    [("x", StandardScaler(), ColumnsOf("numbers", without=[0]))]
)


@pytest.mark.parametrize(
    "steps", [LISTED_COLUMNS, make_pipeline(LISTED_COLUMNS, PCA(1)), COLUMNS_BY_PLACE]
)
def test_identifiers_are_not_dropped_before_a_column_transformer(steps):
    frame, _ = identified_rows()
    front = PooledTransformer(steps, drop_identifiers=True)
    with pytest.raises(NotPooledError, match="ColumnTransformer needs the columns"):
        front.fit(frame)


def test_requests_with_wrong_columns_to_leave_out_are_refused():
    content = PooledTransformer(StandardScaler()).as_front().as_content()
    listed = PooledTransformer(LISTED_COLUMNS).as_front().as_content()
    columns = {"text": [False, False], "dtype": "float64"}
    wrong_fronts = [
        content | {"drop_identifiers": 1},
        listed | {"drop_identifiers": True},
        content | {"columns": columns | {"left_out": [True, True]}},
        content | {"columns": columns | {"left_out": [True]}},
    ]
    for front in wrong_fronts:
        with pytest.raises(ValueError, match=r"front\.front"):
            check_request(Message.of("front", front=front))


def test_replies_with_unknown_roles_of_columns_are_refused():
    front = PooledTransformer(StandardScaler(), drop_identifiers=True)
    X = load_penguins()[0]
    reply = front.summarize(X, name="lyon")
    request = Message.of("front", front=front.as_front().as_content())
    check_reply(request, reply)
    columns = reply.content["columns"]
    for roles in (["red"] * X.shape[1], [DESCRIBES], [1] * X.shape[1]):
        content = reply.content | {"columns": columns | {"roles": roles}}
        with pytest.raises(ValueError, match=r"front\.columns\.roles"):
            check_reply(request, Message.of("front", **content))
    del columns["roles"]
    content = reply.content | {"columns": columns}
    with pytest.raises(ValueError, match=r"front\.columns\.roles is missing"):
        check_reply(request, Message.of("front", **content))


def test_dropping_identifiers_is_agreed_and_nothing_else_is_answered():
    front = PooledTransformer(StandardScaler())
    dropping = PooledTransformer(StandardScaler(), drop_identifiers=True)
    X, y, _ = load_penguins()
    is_whole = ~np.isnan(X).any(axis=1)
    X = X[is_whole]
    y = y[is_whole]
    for accepted, requested in ((front, dropping), (dropping, front)):
        agreement = Agreement.of(GEMSLogisticAggregator(front=accepted))
        request = Message.of("front", front=requested.as_front().as_content())
        request = request.with_envelope(
            exchange=agreement.exchange, agreement=agreement.to_json()
        )
        with pytest.raises(NotAgreedError, match="the front .* is not agreed"):
            reply_to(request, None, X, y, name="lyon", state={}, agreement=agreement)


# ---- encoders of columns that identify rows --------------------------------------


ENCODER = OneHotEncoder(handle_unknown="ignore")


def test_an_encoder_of_identifiers_is_warned_of():
    frame, nodes = identified_rows()
    front = PooledTransformer(ColumnTransformer([("x", ENCODER, ["name"])]))
    with pytest.warns(IdentifierWarning, match=r"OneHotEncoder encodes .*\['name'\]"):
        front.fit(frame, nodes=nodes)
    assert front.transform(frame).shape == (300, 300)


def test_an_encoder_of_words_is_not_warned_of():
    frame, nodes = identified_rows()
    frame["word"] = RNG.choice(WORDS, 300)
    words = ColumnTransformer([("x", ENCODER, ["word"])])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PooledTransformer(words).fit(frame, nodes=nodes)


def test_a_node_sends_no_values_that_fewer_than_min_rows_rows_have():
    frame, _ = identified_rows()
    front = PooledTransformer(ColumnTransformer([("x", ENCODER, ["name"])]))
    summary = front.summarize(frame, name="lyon")
    assert b"P00" not in summary.to_bytes()
    with pytest.warns(
        UserWarning, match=r"leaves out the columns \['name'\]: no value"
    ):
        clone(front).set_params(summaries=[summary]).fit()


def test_without_a_rule_a_node_sends_values_of_single_rows():
    frame, _ = identified_rows()
    front = PooledTransformer(ColumnTransformer([("x", ENCODER, ["name"])]))
    summary = front.summarize(frame, name="lyon", disclosure=None)
    assert b"P00001" in summary.to_bytes()
    request = Message.of("front", front=front.as_front().as_content())
    reply = reply_to(request, None, frame, None, name="lyon", disclosure=None)
    assert b"P00001" in reply.to_bytes()


# ---- repeated identifiers ------------------------------------------------------------


def visits(n_patients=40, n_visits=4, *, seed=0):
    """Patients with a number, a sex that stays and a dose that does not."""
    rng = np.random.default_rng(seed)
    patient = np.repeat(np.arange(n_patients), n_visits)
    sex = rng.integers(0, 2, n_patients)[patient]
    order = rng.permutation(len(patient))
    dose = rng.normal(size=len(patient))
    return pd.DataFrame({"patient": patient, "sex": sex, "dose": dose}).iloc[order]


def test_as_many_visits_of_each_patient_are_seen():
    table = visits()
    assert repeated_identifiers(table) == [0]
    assert repeated_identifiers(table[["dose", "patient"]]) == [1]
    assert repeated_identifiers(table[["patient", "dose"]].to_numpy()) == [0]
    assert repeated_identifiers(table[["sex", "dose"]]) == []


def test_what_stays_within_a_patient_shows_the_visits():
    """However many visits each patient has, and whatever the patients are called."""
    rng = np.random.default_rng(1)
    table = visits(60, 9)[rng.random(540) < 0.4]
    assert repeated_identifiers(table) == [0]
    named = table.assign(patient=table.patient.map("patient {}".format))
    assert repeated_identifiers(named) == [0]
    assert repeated_identifiers(named[["patient", "dose"]]) == []


def test_two_hospitals_may_number_their_patients_alike():
    table = pd.concat([visits(seed=k) for k in range(2)])
    came = np.random.default_rng(2).random(len(table)) < 0.7
    nodes = np.repeat(["bern", "oslo"], 160)[came]
    table = table[came]
    assert repeated_identifiers(table, nodes) == [0]
    assert repeated_identifiers(table) == []


def test_measurements_and_categories_repeat_without_being_identifiers():
    rng = np.random.default_rng(3)
    age = rng.integers(18, 80, 300)
    table = pd.DataFrame(
        {
            "age": age,
            "group": age // 20,  # which says nothing but the age
            "ward": rng.choice(list("abcdef"), 300),
            "weight": rng.integers(400, 1200, 300),
            "dose": rng.normal(size=300),
        }
    )
    assert repeated_identifiers(table) == []
    assert repeated_identifiers(datasets.load_wine().data) == []
    assert repeated_identifiers(csr_matrix(visits()[["patient", "sex"]])) == []
