# SPDX-License-Identifier: BSD-3-Clause
"""Columns that a front takes by what they hold, once nodes have told theirs."""

import copy
import json
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

from skgems import PooledTransformer
from skgems.federation import Message, Nodes, reply_to
from skgems.steps import ColumnsOf, Front, NotPooledError, auto_front

NODES = np.array(["lyon", "oslo", "rome"])


def table(n_rows=150):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.normal(50, 10, n_rows),
            "job": rng.choice(["cook", "nurse", "smith"], n_rows),
            "crp": rng.gamma(2, 3, n_rows),
            "town": rng.choice(["Bern", "Oslo"], n_rows),
        }
    )
    frame.loc[::7, "crp"] = np.nan
    frame.loc[::11, "job"] = np.nan
    return frame


def nodes_of(frame):
    """The node of each row: all three in turn."""
    return NODES[np.arange(len(frame)) % 3]


def by_node(frame):
    return {name: frame[nodes_of(frame) == name] for name in NODES}


def fitted_apart(front, tables, **options):
    """A front fitted over a channel, and the names and requests that were sent."""
    requests_sent = []

    def ask(requests):
        replies = {}
        for name, request in requests.items():
            requests_sent.append((name, request))
            try:
                reply = reply_to(
                    request.to_bytes(), None, tables[name], None, name=name, **options
                )
                replies[name] = Message.from_bytes(reply)
            except ValueError as error:
                replies[name] = error
        return replies

    nodes = Nodes(ask, list(tables), min_rows=options.get("min_rows", 10))
    return PooledTransformer(front, summaries=nodes).fit(), requests_sent


def listed_front():
    """The front that nobody could write before columns are known."""
    numbers = make_pipeline(
        StandardScaler(), SimpleImputer(strategy="constant", fill_value=0.0)
    )
    texts = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    branches = [("numbers", numbers, ["age", "crp"]), ("texts", texts, ["job", "town"])]
    return ColumnTransformer(branches)


def test_the_front_of_any_table_is_that_of_its_columns():
    frame = table()
    reference = listed_front().fit(frame)
    in_process = PooledTransformer(auto_front()).fit(frame, nodes=nodes_of(frame))
    apart, requests = fitted_apart(auto_front(), by_node(frame), min_rows=1)
    for front in (in_process, apart):
        np.testing.assert_allclose(
            front.transform(frame), reference.transform(frame), atol=1e-9
        )
        plain = front.to_estimator()
        assert [columns for _, _, columns in plain.transformers] == [
            *(["age", "crp"], ["job", "town"])
        ]
        assert (
            plain.get_feature_names_out().tolist()
            == reference.get_feature_names_out().tolist()
        )
        np.testing.assert_array_equal(plain.transform(frame), front.transform(frame))
    assert [name for name, _ in requests] == NODES.tolist()  # in one message


def test_scikit_learn_takes_it_for_a_selector_of_its_own():
    frame = table()
    plain = auto_front().fit(frame)
    np.testing.assert_allclose(
        plain.transform(frame), listed_front().fit_transform(frame), atol=1e-9
    )
    chosen = ColumnsOf("texts", without=["town"])
    assert chosen(frame) == ["job"] and ColumnsOf("numbers")(np.eye(2)) == [0, 1]
    for same in (copy.deepcopy(chosen), pickle.loads(pickle.dumps(chosen))):
        assert same == chosen and hash(same) == hash(chosen)
    assert chosen != ColumnsOf("texts") and chosen != "texts"
    assert repr(chosen) == "ColumnsOf('texts', without=['town'])"
    cloned = clone(ColumnTransformer([("x", "drop", chosen)])).transformers[0][2]
    assert cloned == chosen


@pytest.mark.parametrize("lacking", ["numbers", "texts"])
def test_tables_of_numbers_or_of_texts_alone(lacking):
    frame = table()[["job", "town"] if lacking == "numbers" else ["age", "crp"]]
    front = PooledTransformer(auto_front()).fit(frame, nodes=nodes_of(frame))
    assert len(front.to_estimator().transformers_) == 1
    np.testing.assert_allclose(
        front.transform(frame), auto_front().fit_transform(frame), atol=1e-9
    )
    only = ColumnTransformer([("x", StandardScaler(), ColumnsOf(lacking))])
    with pytest.raises(ValueError, match="no column is left"):
        PooledTransformer(only).fit(frame)


def test_columns_without_names_are_chosen_by_place():
    frame = table()
    rows = frame.to_numpy(dtype=object)
    front = PooledTransformer(auto_front()).fit(rows, nodes=nodes_of(frame))
    np.testing.assert_allclose(
        front.transform(rows), listed_front().fit_transform(frame), atol=1e-9
    )
    assert front.to_estimator().transformers[1][2] == [1, 3]


def test_it_stands_wherever_columns_of_rows_do():
    frame = table()
    inner = ColumnTransformer(
        [
            ("x", SimpleImputer(), ColumnsOf("numbers")),
            ("y", "drop", ColumnsOf("texts")),
        ]
    )
    nested = ColumnTransformer([("some", inner, ["crp", "job"])])
    for front in (
        make_pipeline(inner, StandardScaler()),
        FeatureUnion([("a", inner), ("b", auto_front())]),
        nested,
    ):
        pooled = PooledTransformer(front).fit(frame, nodes=nodes_of(frame))
        np.testing.assert_allclose(
            pooled.transform(frame), clone(front).fit_transform(frame), atol=1e-9
        )
    behind = make_pipeline(SimpleImputer(strategy="most_frequent"), inner)
    with pytest.raises(NotPooledError, match="another step comes before"):
        PooledTransformer(behind).fit(frame)
    in_remainder = ColumnTransformer([("x", "drop", ["age"])], remainder=inner)
    with pytest.raises(NotPooledError, match="another step comes before"):
        PooledTransformer(in_remainder).fit(frame)


def test_branches_that_are_all_dropped_leave_no_column():
    X = np.arange(60.0).reshape(30, 2)
    dropped = ColumnTransformer([("x", "drop", [0])])
    assert PooledTransformer(dropped).fit(X).transform(X).shape == (30, 0)
    with pytest.raises(ValueError, match="StandardScaler cannot take values"):
        PooledTransformer(make_pipeline(dropped, StandardScaler())).fit(X)


def test_a_column_transformer_without_branches_is_refused():
    with pytest.raises(NotPooledError, match="has no transformers"):
        PooledTransformer(ColumnTransformer([])).fit(table())


def test_a_selector_of_one_table_is_refused_and_the_other_named():
    chosen = make_column_selector(dtype_include="number")
    front = ColumnTransformer([("x", StandardScaler(), chosen)])
    with pytest.raises(NotPooledError, match=r"ColumnsOf\('numbers'\)"):
        PooledTransformer(front).fit(table())


@pytest.mark.parametrize(
    "columns",
    [
        {"kind": "dates", "without": []},
        {"kind": "texts"},
        {"kind": "texts", "without": "job"},
        {"kind": "texts", "without": [None]},
        {"kind": "texts", "without": [], "more": 1},
        {"kind": [], "without": []},
    ],
    ids=str,
)
def test_what_a_message_says_of_columns_is_checked(columns):
    content = json.loads(json.dumps(Front(auto_front()).as_content()))
    assert Front.from_content(content).agreed == Front(auto_front()).agreed
    content["tree"]["steps"][1][2] = columns
    with pytest.raises(ValueError, match="is no front"):
        Front.from_content(content)


# ---- nodes that differ -----------------------------------------------------------


def test_a_column_that_is_empty_at_a_node_is_that_of_the_others():
    frame = table()
    frame.loc[nodes_of(frame) == "oslo", "job"] = np.nan
    frame["job"] = frame["job"].astype(object)
    tables = by_node(frame)
    tables["oslo"] = tables["oslo"].astype({"job": float})  # as pandas reads it
    front, requests = fitted_apart(auto_front(), tables, min_rows=1)
    np.testing.assert_allclose(
        front.transform(frame), listed_front().fit_transform(frame), atol=1e-9
    )
    assert [name for name, _ in requests] == [*NODES, "oslo"]


def test_numbers_where_others_have_texts_are_named_with_the_node():
    tables = by_node(table())
    tables["rome"] = tables["rome"].astype({"age": object})
    tables["rome"].iloc[3, 0] = "<20"
    with (
        pytest.warns(UserWarning, match=r"'age' holds texts at the nodes \['rome'\]"),
        pytest.raises(ValueError, match="'lyon'.*'age' holds numbers here and texts"),
    ):
        fitted_apart(auto_front(), tables)


def test_numbers_where_others_have_texts_in_rows_without_names():
    tables = {
        name: rows.to_numpy(dtype=object) for name, rows in by_node(table()).items()
    }
    tables["rome"][:, 3] = 1.0
    with pytest.raises(ValueError, match="'rome'.*the column 3 holds numbers here"):
        fitted_apart(auto_front(), tables)


def test_a_column_that_others_lack_is_warned_of():
    tables = by_node(table())
    tables["rome"] = tables["rome"].assign(more=1.0)
    with pytest.warns(UserWarning, match=r"'more' of the nodes \['rome'\] is not used"):
        front, _ = fitted_apart(auto_front(), tables)
    assert front.feature_names_in_.tolist() == table().columns.tolist()


@pytest.mark.filterwarnings("ignore::skgems.federation.RowsExposedWarning")
def test_texts_before_a_step_of_numbers_are_named_with_nodes():
    front = make_pipeline(SimpleImputer(), StandardScaler())
    message = r"\['lyon', 'oslo', 'rome'\]: SimpleImputer.*\['job', 'town'\] hold texts"
    with pytest.raises(ValueError, match=message):
        fitted_apart(front, by_node(table()))
    filled = make_pipeline(SimpleImputer(strategy="most_frequent"), PCA(2))
    with pytest.raises(ValueError, match=r"PCA takes numbers.*\['job', 'town'\]"):
        fitted_apart(filled, by_node(table()), min_rows=1)


def test_kinds_of_categories_are_compared_at_the_server_too():
    """Of nodes that do not look at their rows as ours do."""
    frame = table()[["town"]]
    request = Message.of("front", front=Front(OneHotEncoder()).as_content())
    replies = {}
    for name, rows in (("lyon", frame), ("oslo", frame.assign(town=1.0))):
        replies[name] = reply_to(request, None, rows, None, name=name).content
    parts = {"0": {name: content["parts"]["0"] for name, content in replies.items()}}
    front = Front.from_content(
        Front(OneHotEncoder()).as_content() | {"columns": replies["lyon"]["columns"]}
    )
    with pytest.raises(ValueError, match=r"'town' holds texts at the nodes \['lyon'\]"):
        front.advanced(parts)


# ---- columns of which nodes tell nothing -----------------------------------------


def test_a_column_that_tells_rows_apart_is_left_out_with_a_word():
    frame = table()
    tables = by_node(frame.assign(patient=[f"p{k}" for k in range(len(frame))]))
    with pytest.warns(UserWarning, match=r"leaves out the columns \['patient'\]"):
        front, _ = fitted_apart(auto_front(), tables)
    names = front.get_feature_names_out().tolist()
    assert "texts__town_Oslo" in names
    assert not [name for name in names if "patient" in name]
    rows = pd.concat(tables.values()).sort_index()
    Z = front.transform(rows)
    assert Z.shape[1] == len(names)
    np.testing.assert_array_equal(front.to_estimator().transform(rows), Z)
    # And the node takes the same rows through what the server sends.
    content = front.as_front().as_content()
    at_node = Front.from_content(content).transform(tables["rome"])
    np.testing.assert_array_equal(at_node, Z[nodes_of(frame) == "rome"])


def test_gaps_are_told_though_no_value_is():
    rows = pd.DataFrame({"code": [*map(str, range(30)), *[np.nan] * 30]})
    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    front, _ = fitted_apart(encoder, {"lyon": rows})
    np.testing.assert_array_equal(front.transform(rows)[:, 0], np.arange(60) >= 30)


@pytest.mark.parametrize("of_places", [False, True])
def test_columns_of_codes_of_which_none_is_told(of_places):
    rows = pd.DataFrame({"code": np.arange(60), "kind": np.arange(60) % 2})
    encoder = OneHotEncoder(handle_unknown="ignore")
    X = rows.to_numpy() if of_places else rows
    tables = {"lyon": X, "oslo": X}
    with pytest.warns(UserWarning, match="leaves out the columns"):
        front, _ = fitted_apart(encoder, tables)
    assert front.transform(X).shape == (60, 2)
    with pytest.warns(UserWarning, match="leaves out the columns"):
        code_alone = X[:, :1] if of_places else X[["code"]]
        front_of_none, _ = fitted_apart(encoder, {"lyon": code_alone})
    assert front_of_none.transform(code_alone).shape == (60, 0)
    for strict in (OneHotEncoder(), OrdinalEncoder()):
        name = 0 if of_places else "'code'"
        with pytest.raises(ValueError, match=rf"\[{name}\] have 120 values"):
            fitted_apart(strict, tables)
