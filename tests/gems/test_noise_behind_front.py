# SPDX-License-Identifier: BSD-3-Clause
"""Sums with noise of rows behind a front that learns nothing of them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.preprocessing import (
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    StandardScaler,
)

import skgems
from skgems import (
    Exchange,
    GEMSLogisticAggregator,
    PooledAggregator,
    PooledTransformer,
    Privacy,
)
from skgems._cli import main
from skgems.channels import aggregator_of_settings
from skgems.guard import Agreement, reply_to
from skgems.messages import sealed
from skgems.parties import Summary
from skgems.steps import RandomFeatures

pd = pytest.importorskip("pandas")
warns_the_node = pytest.mark.filterwarnings("ignore:Node 'lyon' tells of its rows")

NAMES = ["sex__sex_f", "sex__sex_m", "age__age"]


def front_of():
    columns = ColumnTransformer(
        [
            ("sex", OneHotEncoder(categories=[["f", "m"]]), ["sex"]),
            ("age", MinMaxScaler(), ["age"]),
        ]
    )
    return PooledTransformer(columns, bounds={"age": (20, 90)})


def privacy_of(low=0.0, high=1.0, names=NAMES, **options):
    return Privacy(
        classes=["ill", "well"],
        low=dict.fromkeys(names, low),
        high=dict.fromkeys(names, high),
        **{"epsilon": 1e4, "norm": 1.0, **options},
    )


def some_rows(n_rows=900):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "number": np.arange(n_rows),
            "age": rng.uniform(20, 90, n_rows),
            "sex": rng.choice(["f", "m"], n_rows),
        }
    )
    risk = X["age"] / 70 - 0.8 * (X["sex"] == "f") + rng.normal(0, 0.1, n_rows)
    return X, np.where(risk > 0.4, "ill", "well"), rng.integers(0, 3, n_rows)


def aggregator_of(**options):
    options = {"privacy": privacy_of(), "front": front_of(), **options}
    return GEMSLogisticAggregator(**options)


@pytest.mark.parametrize("kind", [GEMSLogisticAggregator, PooledAggregator])
def test_a_model_behind_a_front_is_that_of_the_columns_that_come_out(kind):
    X, y, nodes = some_rows()
    fitted = kind(privacy=privacy_of(), front=front_of(), random_state=0)
    fitted.fit(X, y, nodes=nodes)
    assert fitted.score(X, y) > 0.85
    assert fitted.feature_names_in_.tolist() == ["sex", "age"]
    Z = front_of().fit(X).transform(X)
    Z = pd.DataFrame(Z, columns=NAMES)
    by_hand = kind(privacy=privacy_of(), random_state=0).fit(Z, y, nodes=nodes)
    np.testing.assert_allclose(fitted.predict_proba(X), by_hand.predict_proba(Z))
    exported = fitted.to_estimator()
    np.testing.assert_allclose(exported.predict_proba(X), fitted.predict_proba(X))
    # Rows beyond the agreed bounds are put within them, as those of nodes were.
    beyond = X.assign(age=500.0)
    np.testing.assert_allclose(
        fitted.predict_proba(beyond), fitted.predict_proba(X.assign(age=90.0))
    )


def odd_rows():
    """Rows that the front cannot take, and one that it can."""
    return {
        "as the others": (1, 40.0, "f"),
        "an unknown category": (1, 40.0, "x"),
        "a category that is a gap": (1, 40.0, None),
        "a category that is a number": (1, 40.0, 7),
        "a text for a number": (1, "old", "f"),
        "a gap": (1, np.nan, "f"),
        "a number that is infinite": (1, np.inf, "f"),
        "a number that is complex": (1, 1j, "f"),
    }


def tables():
    X, y, _ = some_rows(40)
    for words, row in odd_rows().items():
        more = pd.concat([X.astype(object), pd.DataFrame([row], columns=X.columns)])
        yield pytest.param(more, np.append(y, "ill"), id=words)


def told(message):
    """All that a message says: its vector, and everything else as one text."""
    arrays = dict(message.arrays)
    (name,) = [name for name in arrays if name.endswith("vector")]
    vector = arrays.pop(name)
    rest = {key: array.tolist() for key, array in arrays.items()}
    return vector, json.dumps([message.settings, rest], sort_keys=True, default=str)


@warns_the_node
@pytest.mark.parametrize("more, labels", [*tables()])
def test_messages_of_neighbors_differ_in_the_vector_alone(more, labels):
    pytest.importorskip("opendp")
    X, y, _ = some_rows(40)
    aggregator = aggregator_of(privacy=privacy_of(epsilon=0.9))
    request = sealed(
        aggregator._agreed_terms.first_message().with_fields(
            front=aggregator._agreed_front.as_content()
        ),
        Agreement.of(aggregator),
    )
    for told_by in (
        lambda X, y: aggregator.summarize(None, X, y, name="lyon").message,
        lambda X, y: reply_to(request, None, X, y, name="lyon", state={}),
    ):
        (vector, others), (vector_of_more, others_of_more) = (
            told(told_by(*table)) for table in ((X, y), (more, labels))
        )
        assert others == others_of_more
        assert vector.shape == vector_of_more.shape


def attributes_of_sums(X, y, **options):
    """What is made of sums whose noise is too small to matter."""
    privacy = privacy_of(epsilon=1e6, **options)
    fitted = aggregator_of(privacy=privacy, random_state=0).fit(X, y)
    return np.append(fitted.coef_.ravel(), fitted.intercept_)


@pytest.mark.parametrize("words", ["an unknown category", "a text for a number"])
def test_a_row_that_a_front_cannot_take_is_the_middle_or_a_gap(words):
    """It changes no other row, and it counts in the class that it is of."""
    X, y, _ = some_rows(60)
    row = pd.DataFrame([odd_rows()[words]], columns=X.columns)
    more = pd.concat([X.astype(object), row], ignore_index=True)
    with pytest.warns(UserWarning, match="Only the node is told this"):
        sums = attributes_of_sums(more, np.append(y, "ill"))
    Z = front_of().fit(X).transform(X)
    last = [[1.0, 0.0, 0.5]] if words == "a text for a number" else [[0.5, 0.5, 0.5]]
    privacy = privacy_of(epsilon=1e6)
    by_hand = GEMSLogisticAggregator(privacy=privacy, random_state=0)
    by_hand.fit(np.vstack([Z, last]), np.append(y, "ill"))
    expected = np.append(by_hand.coef_.ravel(), by_hand.intercept_)
    np.testing.assert_allclose(sums, expected)


@warns_the_node
def test_files_are_fitted_and_predict_for_rows_as_they_are(tmp_path):
    pytest.importorskip("opendp")
    X, y, nodes = some_rows()
    paths = []
    for k in range(3):
        of_node = nodes == k
        paths.append(str(tmp_path / f"{k}.safetensors"))
        # The ledger of a node answers as it answers a server.
        state = {} if k else None
        privacy = privacy_of(epsilon=0.9)
        aggregator = aggregator_of(privacy=privacy)
        aggregator.summarize(
            None, X[of_node], y[of_node], name=str(k), state=state
        ).save(paths[-1])
    for kind in (GEMSLogisticAggregator, PooledAggregator):
        fitted = kind(paths, privacy=privacy, front=front_of()).fit()
        assert fitted.score(X, y) > 0.8
        assert fitted.to_estimator().score(X, y) > 0.8
    assert Summary.load(paths[0]).settings["front"]["columns"]["names"] == [
        "sex",
        "age",
    ]
    other = PooledTransformer(front_of().transformer, bounds={"age": (0, 90)})
    with pytest.raises(ValueError, match="was summarized with front="):
        GEMSLogisticAggregator(paths, privacy=privacy, front=other).fit()
    with pytest.raises(ValueError, match="was summarized with front="):
        GEMSLogisticAggregator(paths, privacy=privacy).fit()


@warns_the_node
def test_an_exchange_asks_for_the_vector_alone(tmp_path):
    pytest.importorskip("opendp")
    X, y, nodes = some_rows()
    folder = tmp_path / "exchange"
    aggregator = aggregator_of(privacy=privacy_of(epsilon=0.9))
    exchange = Exchange(folder, aggregator, nodes=["lyon", "oslo"])
    assert exchange.step() is None
    for k, name in enumerate(["lyon", "oslo"]):
        request = folder / "requests" / f"001-{name}.safetensors"
        state = str(tmp_path / name)
        skgems.answer(request, None, X[k::2], y[k::2], name=name, state=state)
    fitted = exchange.step()
    assert [entry["task"] for entry in fitted.history_] == ["join"]
    assert fitted.score(X, y) > 0.8
    agreement = Agreement.load(folder / "agreement.json")
    assert agreement.tasks == {"join": 1}  # nobody asks for columns
    assert "OneHotEncoder" in str(agreement)


def test_columns_without_names_are_those_of_agreed_categories():
    X = np.array([["a", 1], ["b", 2], ["b", 1], ["a", 2]] * 20, dtype=object)
    y = np.where(X[:, 0] == "a", "ill", "well")
    encoder = OrdinalEncoder(categories=[["a", "b"], [1, 2]])
    privacy = Privacy(classes=["ill", "well"], low=[0, 0], high=[1, 1], epsilon=1e4)
    fitted = aggregator_of(front=encoder, privacy=privacy, random_state=0).fit(X, y)
    assert fitted.score(X, y) == 1.0


@pytest.mark.parametrize(
    "front, match",
    [
        (StandardScaler(), "StandardScaler learns from rows"),
        (OneHotEncoder(), "OneHotEncoder learns from rows.*categories=...."),
        (MinMaxScaler(), "MinMaxScaler learns from rows.*bounds="),
        (
            PooledTransformer(StandardScaler()).fit(np.eye(3)),
            "StandardScaler learns from rows",
        ),
        (
            PooledTransformer(
                ColumnTransformer([("scaled", MinMaxScaler(), ["age", "bmi"])]),
                bounds={"age": (0, 1)},
            ),
            "MinMaxScaler learns from rows",
        ),
        (
            RandomFeatures(3, random_state=0),
            "Fit it to one made-up row",
        ),
        (
            PooledTransformer(MinMaxScaler(), bounds=(0, 1), drop_identifiers=True),
            "drop_identifiers=True of the front does not go with privacy",
        ),
        (
            OneHotEncoder(categories=[["a", "b"]]),
            "2 columns come out of front, but .* have 3 bounds",
        ),
        (
            OneHotEncoder(categories=[["a", "b", "c"]]),
            "Name these, in this order",
        ),
    ],
)
def test_fronts_that_learn_or_do_not_match_are_refused_by_name(front, match):
    X, y, nodes = some_rows(60)
    aggregator = aggregator_of(front=front)
    for refused in (
        lambda: aggregator.fit(X, y, nodes=nodes),
        lambda: Agreement.of(aggregator),
        lambda: aggregator.summarize(None, X, y, name="lyon"),
    ):
        with pytest.raises(ValueError, match=match):
            refused()


@warns_the_node
def test_a_node_answers_in_the_shell_with_texts_as_they_stand(tmp_path, monkeypatch):
    pytest.importorskip("opendp")
    monkeypatch.chdir(tmp_path)
    X, y, _ = some_rows()
    X.assign(diagnosis=y).to_csv("rows.csv", index=False)
    aggregator = aggregator_of(privacy=privacy_of(epsilon=0.9))
    exchange = Exchange(tmp_path / "study", aggregator, nodes=["lyon"])
    assert exchange.step() is None
    arguments = ["answer", "study/requests/001-lyon.safetensors", "--name", "lyon"]
    arguments += ["--rows", "rows.csv", "--label", "diagnosis", "--state", "ledger"]
    assert main([*arguments, "--yes"]) == 0
    assert exchange.step().score(X, y) > 0.8


@warns_the_node
def test_files_alone_say_how_they_are_fitted(tmp_path):
    pytest.importorskip("opendp")
    X, y, _ = some_rows()
    path = tmp_path / "lyon.safetensors"
    aggregator = aggregator_of(privacy=privacy_of(epsilon=0.9))
    aggregator.summarize(None, X, y, name="lyon").save(path)
    settings = Summary.load(path).settings
    again = aggregator_of_settings("NoisySums", settings)
    fitted = again.set_params(estimators=[str(path)]).fit()
    of_front = aggregator.set_params(estimators=[str(path)]).fit()
    np.testing.assert_array_equal(fitted.predict_proba(X), of_front.predict_proba(X))
