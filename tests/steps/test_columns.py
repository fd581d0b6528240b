# SPDX-License-Identifier: BSD-3-Clause
"""Columns that are neither numbers nor texts are named, and gaps are gaps."""

from __future__ import annotations

import datetime
import uuid
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from helpers.few_features import use_no_powers
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

from skgems import GEMSLogisticAggregator, PooledTransformer, combine
from skgems.asking import Message, Nodes
from skgems.guard import reply_to

pytestmark = pytest.mark.usefixtures("accepting_nodes")

N_ROWS = 120  # 60 at each node, which is more than min_rows
NODES = np.array(["lyon", "oslo"])[np.arange(N_ROWS) % 2]
NUMBERS = [
    ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), ["age", "truth"])
]
FRONT = ColumnTransformer(
    [*NUMBERS, ("ward", OneHotEncoder(handle_unknown="ignore"), ["ward"])],
    sparse_threshold=0.0,
)


def table():
    """Ages and wards with gaps, truth values, and whether patients came back."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 95, N_ROWS).astype(float),
            "truth": rng.random(N_ROWS) < 0.4,
            "ward": rng.choice(["er", "icu", "gyn"], N_ROWS).astype(object),
        }
    )
    frame.loc[::7, "age"] = np.nan
    frame.loc[::5, "ward"] = np.nan
    y = np.where((frame["ward"] == "icu") ^ (rng.random(N_ROWS) < 0.1), "back", "no")
    return frame, y


def dense(Z):
    """Columns behind a front as an array of float."""
    return np.asarray(Z, dtype=float)


FORMS = {
    "nullable": lambda frame: frame.convert_dtypes(),
    "category": lambda frame: frame.astype({"ward": "category"}),
    "string": lambda frame: frame.astype({"ward": "string"}),
    "objects": lambda frame: frame.astype(object),
    "NA among objects": lambda frame: frame.astype(object).where(
        frame.notna(), other=pd.NA
    ),
    "nullable numbers": lambda frame: frame.astype(
        {"age": "Float64", "truth": "boolean"}
    ),
}


@pytest.fixture(scope="module")
def columns_behind_front():
    """Columns of the table as it is behind the front."""
    frame, _ = table()
    columns = dense(PooledTransformer(FRONT).fit_transform(frame, nodes=NODES))
    columns.flags.writeable = False
    return columns


@pytest.mark.parametrize("form", FORMS)
def test_gaps_of_pandas_are_gaps_in_texts_and_numbers(form, columns_behind_front):
    frame, _ = table()
    frame_of_form = FORMS[form](frame)
    fitted = PooledTransformer(FRONT).fit(frame_of_form, nodes=NODES)
    np.testing.assert_allclose(
        dense(fitted.transform(frame_of_form)), columns_behind_front, atol=1e-12
    )
    # Three wards and the gap.
    encoder = fitted.transformer_.named_transformers_["ward"]
    assert [len(categories) for categories in encoder.categories_] == [4]


def combined(frame, y, **parameters):
    """The best of few candidates, made of all columns of a table."""
    return combine(
        X=frame, y=y, nodes=NODES, budget="small", random_state=0, **parameters
    )


@pytest.fixture(scope="module", autouse=True)
def no_powers():
    """No test is about what combine tries."""
    with pytest.MonkeyPatch.context() as patch:
        use_no_powers(patch)
        yield


@pytest.fixture(scope="module")
def combined_of_plain_table():
    """What is combined of the table as it is: its choice, and its probabilities."""
    frame, y = table()
    plain = combined(frame, y)
    probabilities = plain.predict_proba(frame)
    probabilities.flags.writeable = False
    return plain.choice_.name, probabilities


# What combine does to columns of each type it shares with PooledTransformer, above.
@pytest.mark.parametrize("form", ["nullable", "NA among objects"])
def test_combine_takes_gaps_of_pandas_as_gaps(form, combined_of_plain_table):
    frame, y = table()
    frame_of_form = FORMS[form](frame)
    name, probabilities = combined_of_plain_table
    agg = combined(frame_of_form, y)
    assert agg.choice_.name == name
    np.testing.assert_allclose(agg.predict_proba(frame_of_form), probabilities)


def test_gaps_of_pandas_are_gaps_in_arrays():
    frame, _ = table()
    words = frame["ward"].astype(object).where(frame["ward"].notna(), pd.NA)
    array = words.to_numpy(dtype=object)[:, None]
    fitted = PooledTransformer(OneHotEncoder()).fit(array, nodes=NODES)
    assert fitted.transform(array).shape == (N_ROWS, 4)


def test_gaps_of_pandas_are_gaps_over_a_channel(columns_behind_front):
    frame, _ = table()
    frames = {name: frame[NODES == name].convert_dtypes() for name in ("lyon", "oslo")}

    def ask(requests):
        return {
            name: reply_to(
                request, None, frames[name], None, name=name, disclosure=None
            )
            for name, request in requests.items()
        }

    over_channel = PooledTransformer(
        FRONT, summaries=Nodes(ask, sorted(frames), disclosure=None)
    ).fit()
    np.testing.assert_allclose(
        dense(over_channel.transform(frame)), columns_behind_front, atol=1e-12
    )


DAY = pd.Timestamp("2024-05-01")
SPANS = pd.to_timedelta(np.arange(N_ROWS), unit="h")
TIMES = {
    "datetime64": (DAY + SPANS, "dates"),
    "time zone": (DAY.tz_localize("Europe/Paris") + SPANS, "dates"),
    "with a gap": ([None, *(DAY + SPANS)[1:]], "dates"),
    "objects": ([datetime.date(2024, 1, 1 + k % 28) for k in range(N_ROWS)], "dates"),
    "time of day": ([datetime.time(k % 24) for k in range(N_ROWS)], "dates"),
    "category": (pd.Categorical(DAY + SPANS), "dates"),
    "timedelta64": (SPANS, "time spans"),
    "timedelta": (pd.Series([*SPANS.to_pytimedelta()], dtype=object), "time spans"),
}
REMEDY = {"dates": "days since an agreed day", "time spans": r"total_seconds\(\)"}


@pytest.mark.parametrize("kind", TIMES)
def test_dates_and_time_spans_are_named_with_what_to_do(kind):
    frame, y = table()
    column, holds = TIMES[kind]
    frame["seen"] = column
    words = rf"olumns? \[?'seen'\]? holds? {holds}.*{REMEDY[holds]}"
    with pytest.raises(ValueError, match=words):
        combined(frame, y)
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    for step in (numbers, StandardScaler(), OneHotEncoder(), OrdinalEncoder()):
        front = make_column_transformer((step, ["seen"]), remainder="drop")
        with pytest.raises(ValueError, match=f"'lyon'.*{words}"):
            PooledTransformer(front).fit(frame, nodes=NODES)
    with pytest.raises(ValueError, match=words):
        GEMSLogisticAggregator(LogisticRegression(), random_state=0).fit(
            frame[["truth", "seen"]], y, nodes=NODES
        )


def test_columns_of_dates_that_no_step_is_given_do_no_harm():
    frame, y = table()
    seen = {f"seen {kind}": column for kind, (column, _) in TIMES.items()}
    frame = frame.assign(**seen)
    PooledTransformer(FRONT).fit(frame, nodes=NODES).transform(frame)
    agg = combined(frame, y, front=FRONT)
    assert agg.score(frame, y) > 0.7


def test_dates_in_arrays_are_named_by_place():
    times = np.array([DAY.to_datetime64()] * N_ROWS)
    objects = np.array([[1.0, stamp] for stamp in times.tolist()], dtype=object)
    objects[:, 1] = [DAY] * N_ROWS
    with pytest.raises(ValueError, match=r"Columns \[1\] hold dates"):
        PooledTransformer(StandardScaler()).fit(objects)
    with pytest.raises(ValueError, match=r"Columns \[0\] hold dates"):
        PooledTransformer(StandardScaler()).fit(times[:, None])


@pytest.mark.parametrize(
    "column, holds",
    [
        ([uuid.uuid4() for _ in range(N_ROWS)], r"values of the types \['UUID'\]"),
        ([(1, 2)] * N_ROWS, r"values of the types \['tuple'\]"),
        ([np.inf, *range(1, N_ROWS)], "infinite numbers"),
        (pd.period_range("2024-01", periods=N_ROWS, freq="D"), "values of .*'Period'"),
    ],
    ids=["uuid", "tuple", "inf", "period"],
)
def test_columns_of_other_types_and_infinite_numbers_are_named(column, holds):
    frame, y = table()
    frame["odd"] = column
    words = rf"olumns \['odd'\] hold {holds}"
    with pytest.raises(ValueError, match=words):
        combined(frame, y)
    front = ColumnTransformer([("odd", SimpleImputer(), ["odd"])])
    with pytest.raises(ValueError, match=f"'lyon': SimpleImputer takes .*{words}"):
        PooledTransformer(front).fit(frame, nodes=NODES)


def test_names_of_columns_that_are_texts_and_numbers_are_refused():
    frame, y = table()
    frame.columns = ["age", "truth", 3]
    with pytest.raises(
        ValueError, match=r"texts, but \[3\] are not.*X\.columns\.astype"
    ):
        combine(X=frame, y=y, nodes=NODES, random_state=0)
    with pytest.raises(ValueError, match="Make all of them texts"):
        PooledTransformer(StandardScaler()).fit(frame[["age", 3]])


def test_texts_where_the_front_was_fitted_to_numbers_are_named():
    frame, y = table()
    front = PooledTransformer(FRONT).fit(frame, nodes=NODES)
    texts = frame.assign(age=frame["age"].map("{} years".format))
    with pytest.raises(ValueError, match=r"\['age'\] hold texts, but .* numbers"):
        front.transform(texts)
    request = Message.of("counts", front=front.as_front().as_content())
    with pytest.raises(ValueError, match=r"\['age'\] hold texts, but") as refused:
        reply_to(request, None, texts, y, name="lyon")
    assert "years" not in str(refused.value)


def test_texts_at_one_node_are_named_with_the_nodes():
    frame, y = table()
    mixed = frame.assign(age=frame["age"].astype(object))
    mixed.loc[NODES == "lyon", "age"] = mixed.loc[NODES == "lyon", "age"].map(str)
    words = "Node 'oslo': the column 'age' holds numbers here and texts at other nodes"
    with pytest.raises(ValueError, match=words):
        combined(mixed, y)
    with pytest.raises(
        ValueError, match=r"\['lyon'\]: SimpleImputer takes .*\['age'\]"
    ):
        PooledTransformer(FRONT).fit(mixed, nodes=NODES)


def test_numbers_of_other_types_are_numbers(combined_of_plain_table):
    frame, y = table()
    odd = frame.assign(
        age=[Decimal(k) if k == k else None for k in frame["age"]],
        truth=frame["truth"].astype(int).astype("category"),
    )
    _, probabilities = combined_of_plain_table
    np.testing.assert_allclose(combined(odd, y).predict_proba(odd), probabilities)


@pytest.mark.parametrize("sparse_threshold", [0.0, 0.3, 1.0])
def test_steps_after_columns_get_these_as_scikit_learn_gives_them(sparse_threshold):
    frame, _ = table()
    columns = ColumnTransformer(
        [*NUMBERS, ("ward", OneHotEncoder(), ["ward"])],
        sparse_threshold=sparse_threshold,
    )
    scaler = StandardScaler(with_mean=sparse_threshold < 1.0)
    steps = make_pipeline(columns, scaler)
    ours = PooledTransformer(steps).fit(frame, nodes=NODES).transform(frame)
    theirs = clone(steps).fit_transform(frame)
    assert issparse(ours) == issparse(theirs) == (sparse_threshold == 1.0)
    if issparse(ours):
        ours = ours.toarray()
        theirs = theirs.toarray()
    np.testing.assert_allclose(ours, theirs, atol=1e-12)
