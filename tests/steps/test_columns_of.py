# SPDX-License-Identifier: BSD-3-Clause
"""Columns that a front takes by what they hold, once nodes have told theirs."""

import copy
import json
import pickle

import numpy as np
import pandas as pd
import pytest
from helpers.disclosures import rule_of
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

from skgems import PooledTransformer
from skgems.asking import Message, Nodes
from skgems.guard import reply_to
from skgems.steps import ColumnsOf, Front, NotPooledError, auto_front

NODES = np.array(["lyon", "oslo", "rome"])


def table_with_gaps(n_rows=150):
    """Two columns of numbers and two of texts."""
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


def tables_of_nodes(frame):
    """The rows of each node, by name."""
    return {name: frame[nodes_of(frame) == name] for name in NODES}


def fit_over_channel(front, tables, min_rows=10):
    """A front fitted over a channel, and the names and requests that were sent."""
    requests_sent = []

    def ask(requests):
        replies = {}
        for name, request in requests.items():
            requests_sent.append((name, request))
            try:
                reply = reply_to(
                    request.to_bytes(),
                    None,
                    tables[name],
                    None,
                    name=name,
                    disclosure=rule_of(min_rows),
                )
                replies[name] = Message.from_bytes(reply)
            except ValueError as error:
                replies[name] = error
        return replies

    nodes = Nodes(ask, list(tables), disclosure=rule_of(min_rows))
    return PooledTransformer(front, summaries=nodes).fit(), requests_sent


def listed_front():
    """The same front with the names of columns, which are not known before."""
    numbers = make_pipeline(
        StandardScaler(), SimpleImputer(strategy="constant", fill_value=0.0)
    )
    texts = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    branches = [("numbers", numbers, ["age", "crp"]), ("texts", texts, ["job", "town"])]
    return ColumnTransformer(branches)


def test_the_front_of_any_table_is_that_of_its_columns():
    frame = table_with_gaps()
    reference = listed_front().fit(frame)
    in_process = PooledTransformer(auto_front()).fit(frame, nodes=nodes_of(frame))
    over_channel, requests = fit_over_channel(
        auto_front(), tables_of_nodes(frame), min_rows=1
    )
    for front in (in_process, over_channel):
        np.testing.assert_allclose(
            front.transform(frame), reference.transform(frame), atol=1e-9
        )
        estimator = front.to_estimator()
        columns = [columns for _, _, columns in estimator.transformers]
        assert columns == [["age", "crp"], ["job", "town"]]
        names = estimator.get_feature_names_out().tolist()
        assert names == reference.get_feature_names_out().tolist()
        np.testing.assert_array_equal(
            estimator.transform(frame), front.transform(frame)
        )
    # Each node got one message.
    assert [name for name, _ in requests] == NODES.tolist()


def test_scikit_learn_can_fit_a_front_whose_columns_are_chosen_by_kind():
    frame = table_with_gaps()
    fitted = auto_front().fit(frame)
    np.testing.assert_allclose(
        fitted.transform(frame), listed_front().fit_transform(frame), atol=1e-9
    )


def test_columns_of_a_kind_are_chosen_from_a_table_and_can_be_compared():
    frame = table_with_gaps()
    chosen = ColumnsOf("texts", without=["town"])
    assert chosen(frame) == ["job"] and ColumnsOf("numbers")(np.eye(2)) == [0, 1]
    for same in (copy.deepcopy(chosen), pickle.loads(pickle.dumps(chosen))):
        assert same == chosen and hash(same) == hash(chosen)
    assert chosen != ColumnsOf("texts") and chosen != "texts"
    assert repr(chosen) == "ColumnsOf('texts', without=['town'])"
    cloned = clone(ColumnTransformer([("x", "drop", chosen)])).transformers[0][2]
    assert cloned == chosen


@pytest.mark.parametrize("lacking", ["numbers", "texts"])
def test_a_branch_without_columns_is_left_out(lacking):
    frame = table_with_gaps()[
        ["job", "town"] if lacking == "numbers" else ["age", "crp"]
    ]
    front = PooledTransformer(auto_front()).fit(frame, nodes=nodes_of(frame))
    assert len(front.to_estimator().transformers_) == 1
    np.testing.assert_allclose(
        front.transform(frame), auto_front().fit_transform(frame), atol=1e-9
    )
    of_lacking = ColumnTransformer([("x", StandardScaler(), ColumnsOf(lacking))])
    with pytest.raises(ValueError, match="no column is left"):
        PooledTransformer(of_lacking).fit(frame)


def test_columns_without_names_are_chosen_by_place():
    frame = table_with_gaps()
    rows = frame.to_numpy(dtype=object)
    front = PooledTransformer(auto_front()).fit(rows, nodes=nodes_of(frame))
    np.testing.assert_allclose(
        front.transform(rows), listed_front().fit_transform(frame), atol=1e-9
    )
    assert front.to_estimator().transformers[1][2] == [1, 3]


def test_columns_are_chosen_by_kind_only_before_all_other_steps():
    frame = table_with_gaps()
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
    with pytest.raises(ValueError, match="StandardScaler cannot transform the values"):
        PooledTransformer(make_pipeline(dropped, StandardScaler())).fit(X)


def test_a_column_transformer_without_branches_is_refused():
    with pytest.raises(NotPooledError, match="has no transformers"):
        PooledTransformer(ColumnTransformer([])).fit(table_with_gaps())


def test_columns_of_is_advised_for_a_selector_of_scikit_learn():
    chosen = make_column_selector(dtype_include="number")
    front = ColumnTransformer([("x", StandardScaler(), chosen)])
    with pytest.raises(NotPooledError, match=r"ColumnsOf\('numbers'\)"):
        PooledTransformer(front).fit(table_with_gaps())


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
def test_wrong_columns_in_a_message_are_refused(columns):
    content = json.loads(json.dumps(Front(auto_front()).as_content()))
    assert Front.from_content(content).agreed == Front(auto_front()).agreed
    content["tree"]["steps"][1][2] = columns
    with pytest.raises(ValueError, match="is not a front"):
        Front.from_content(content)


# ---- nodes that differ -----------------------------------------------------------


def test_a_column_that_is_empty_at_a_node_has_the_kind_it_has_at_the_others():
    frame = table_with_gaps()
    frame.loc[nodes_of(frame) == "oslo", "job"] = np.nan
    frame["job"] = frame["job"].astype(object)
    tables = tables_of_nodes(frame)
    tables["oslo"] = tables["oslo"].astype({"job": float})  # as pandas reads it
    front, requests = fit_over_channel(auto_front(), tables, min_rows=1)
    np.testing.assert_allclose(
        front.transform(frame), listed_front().fit_transform(frame), atol=1e-9
    )
    assert [name for name, _ in requests] == [*NODES, "oslo"]


def test_texts_at_one_node_in_a_column_of_numbers_are_an_error_that_names_it():
    tables = tables_of_nodes(table_with_gaps())
    tables["rome"] = tables["rome"].astype({"age": object})
    tables["rome"].iloc[3, 0] = "<20"
    with (
        pytest.warns(
            UserWarning, match=r"'age' holds texts only at the nodes \['rome'\]"
        ),
        pytest.raises(ValueError, match="'lyon'.*'age' holds numbers here and texts"),
    ):
        fit_over_channel(auto_front(), tables)


def test_numbers_at_one_node_in_a_column_of_texts_are_an_error_that_names_it():
    tables = {
        name: rows.to_numpy(dtype=object)
        for name, rows in tables_of_nodes(table_with_gaps()).items()
    }
    tables["rome"][:, 3] = np.arange(50.0)
    with pytest.raises(ValueError, match="'rome'.*the column 3 holds numbers here"):
        fit_over_channel(auto_front(), tables)


def test_a_column_that_only_one_node_has_is_warned_of_and_not_used():
    tables = tables_of_nodes(table_with_gaps())
    tables["rome"] = tables["rome"].assign(more=1.0)
    with pytest.warns(UserWarning, match=r"'more' of the nodes \['rome'\] is not used"):
        front, _ = fit_over_channel(auto_front(), tables)
    assert front.feature_names_in_.tolist() == table_with_gaps().columns.tolist()


def test_texts_before_a_step_that_takes_numbers_are_an_error_that_names_the_nodes():
    front = make_pipeline(SimpleImputer(), StandardScaler())
    message = r"\['lyon', 'oslo', 'rome'\]: SimpleImputer.*\['job', 'town'\] hold texts"
    with pytest.raises(ValueError, match=message):
        fit_over_channel(front, tables_of_nodes(table_with_gaps()))
    filled = make_pipeline(SimpleImputer(strategy="most_frequent"), PCA(2))
    with pytest.raises(ValueError, match=r"PCA takes numbers.*\['job', 'town'\]"):
        fit_over_channel(filled, tables_of_nodes(table_with_gaps()), min_rows=1)


def test_kinds_of_categories_are_compared_at_the_server_too():
    """As a node may run other code, which does not compare them."""
    frame = table_with_gaps()[["town"]]
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


# ---- columns of which nodes send no values -----------------------------------------


def test_a_column_of_texts_that_identify_rows_is_left_out_with_a_warning():
    frame = table_with_gaps()
    tables = tables_of_nodes(frame.assign(patient=[f"p{k}" for k in range(len(frame))]))
    with pytest.warns(UserWarning, match=r"leaves out the columns \['patient'\]"):
        front, _ = fit_over_channel(auto_front(), tables)
    names = front.get_feature_names_out().tolist()
    assert "texts__town_Oslo" in names
    assert not [name for name in names if "patient" in name]
    rows = pd.concat(tables.values()).sort_index()
    Z = front.transform(rows)
    assert Z.shape[1] == len(names)
    np.testing.assert_array_equal(front.to_estimator().transform(rows), Z)
    # The front that the server sends does the same at a node.
    content = front.as_front().as_content()
    at_node = Front.from_content(content).transform(tables["rome"])
    np.testing.assert_array_equal(at_node, Z[nodes_of(frame) == "rome"])


def test_gaps_are_a_category_though_no_value_is_sent():
    rows = pd.DataFrame({"code": [*map("p{}".format, range(30)), *[np.nan] * 30]})
    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    front, _ = fit_over_channel(encoder, {"lyon": rows})
    np.testing.assert_array_equal(front.transform(rows)[:, 0], np.arange(60) >= 30)


@pytest.mark.parametrize("of_places", [False, True])
def test_an_encoder_leaves_out_a_column_of_which_no_value_is_sent(of_places):
    rows = pd.DataFrame({"code": np.arange(60), "kind": np.arange(60) % 2})
    encoder = OneHotEncoder(handle_unknown="ignore")
    X = rows.to_numpy() if of_places else rows
    tables = {"lyon": X, "oslo": X}
    with pytest.warns(UserWarning, match="leaves out the columns"):
        front, _ = fit_over_channel(encoder, tables)
    assert front.transform(X).shape == (60, 2)
    with pytest.warns(UserWarning, match="leaves out the columns"):
        code_alone = X[:, :1] if of_places else X[["code"]]
        front_of_none, _ = fit_over_channel(encoder, {"lyon": code_alone})
    assert front_of_none.transform(code_alone).shape == (60, 0)
    for strict in (OneHotEncoder(), OrdinalEncoder()):
        name = 0 if of_places else "'code'"
        with pytest.raises(ValueError, match=rf"\[{name}\] have 120 values"):
            fit_over_channel(strict, tables)
