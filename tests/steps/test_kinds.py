# SPDX-License-Identifier: BSD-3-Clause
"""Every kind of step declares the fields of its state, and takes no others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import issparse
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import RBFSampler
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    SplineTransformer,
    StandardScaler,
)

from skgems import PooledTransformer
from skgems.asking import Message, fit_front
from skgems.guard import reply_to
from skgems.steps import KINDS, Front, Kind
from skgems.steps._kind import EXTREMES
from skgems.steps._statistics import STATISTICS

# By name steps with all parameters that change what they are fitted to.
STEPS = {
    "StandardScaler": StandardScaler(),
    "neither mean nor scale": StandardScaler(with_mean=False, with_std=False),
    "MinMaxScaler": MinMaxScaler(),
    "MaxAbsScaler": MaxAbsScaler(),
    "RobustScaler": RobustScaler(),
    "QuantileTransformer": QuantileTransformer(n_quantiles=9),
    "yeo-johnson": PowerTransformer(),
    "box-cox": PowerTransformer(method="box-cox"),
    "uniform bins": KBinsDiscretizer(3, strategy="uniform"),
    "quantile bins": KBinsDiscretizer(3, quantile_method="averaged_inverted_cdf"),
    "uniform knots": SplineTransformer(3),
    "quantile knots": SplineTransformer(3, knots="quantile"),
    "PCA": PCA(2),
    "means": SimpleImputer(),
    "medians": SimpleImputer(strategy="median"),
    "most frequent": SimpleImputer(strategy="most_frequent"),
    "a constant": SimpleImputer(strategy="constant"),
    "an indicator": SimpleImputer(strategy="constant", add_indicator=True),
    "OneHotEncoder": OneHotEncoder(handle_unknown="ignore"),
    "rare ones": OneHotEncoder(min_frequency=2, handle_unknown="ignore"),
    "OrdinalEncoder": OrdinalEncoder(),
    "RBFSampler": RBFSampler(gamma="scale", random_state=0),
    "gamma": RBFSampler(gamma=1.0, random_state=0),
    "Normalizer": Normalizer(),
}
if "quantile_method" not in KBinsDiscretizer().get_params():  # scikit-learn < 1.7
    STEPS["quantile bins"] = KBinsDiscretizer(3)
BY_COLUMN = ("OneHotEncoder", "rare ones", "OrdinalEncoder")


def numbers(n_columns: int = 3) -> np.ndarray:
    """Whole numbers from 1 to 4, which are categories too."""
    X = np.random.default_rng(0).integers(1, 5, size=(60, n_columns))
    return X.astype(float)


def fitted_front(step, X=None) -> Front:
    """The front of a step, fitted on rows of two nodes between given bounds."""
    X = numbers() if X is None else X
    front = replace(Front.from_transformer(step), bounds=(0.5, 9.0))
    return fit_front(front, X, np.arange(len(X)) % 2)[0].front


def over_the_wire(front: Front) -> Front:
    """The front as another party reads it, from the bytes of a message."""
    message = Message.of("front", front=front.as_content())
    return Front.from_content(Message.from_bytes(message.to_bytes()).content["front"])


def with_state(front: Front, state: dict, path: str = "0") -> dict:
    return replace(front, states={**front.states, path: state}).as_content()


@pytest.mark.parametrize("transformer", KINDS, ids=lambda kind: kind.__name__)
def test_every_kind_declares_its_statistic(transformer):
    kind = KINDS[transformer]
    assert isinstance(kind, Kind)
    assert kind.statistic in (None, EXTREMES, *STATISTICS)


@pytest.mark.parametrize("transformer", KINDS, ids=lambda kind: kind.__name__)
def test_every_field_of_a_kind_has_a_sentence_and_a_form(transformer):
    for name, field in KINDS[transformer].fields.items():
        assert isinstance(name, str)
        assert field.says[0].isupper()
        assert field.says.endswith(".")
        assert field.form in ("numbers", "list", "truth value")


def public_members(cls):
    """The names in the body of a class, without those that begin with _."""
    return {name for name in vars(cls) if not name.startswith("_")}


@pytest.mark.parametrize("transformer", KINDS, ids=lambda kind: kind.__name__)
def test_a_kind_has_no_public_members_but_those_of_the_base(transformer):
    assert public_members(type(KINDS[transformer])) <= public_members(Kind)


def test_every_member_of_a_kind_says_what_it_is():
    for name, member in vars(Kind).items():
        if callable(member) and not name.startswith("__"):
            first_line = member.__doc__.strip().partition("\n")[0]
            assert first_line.endswith("."), name
            assert "return" in member.__annotations__, name


@pytest.mark.parametrize("name", STEPS)
def test_states_have_exactly_the_fields_that_are_declared(name):
    step = STEPS[name]
    kind = KINDS[type(step)]
    front = fitted_front(step)
    fields = kind.fields_for(step)
    assert bool(fields) == (kind.statistic_for(step) is not None)
    assert ("0" in front.states) == bool(fields)
    state = front.states.get("0", {})
    if name in BY_COLUMN:
        assert set(state) == {"0", "1", "2"}
        assert all(set(column) == set(fields) for column in state.values())
    else:
        assert set(state) == set(fields)
    X = numbers()
    np.testing.assert_array_equal(
        dense(over_the_wire(front).transform(X)), dense(front.transform(X))
    )


def dense(X) -> np.ndarray:
    return X.toarray() if issparse(X) else X


def test_steps_of_many_columns_are_read_from_messages():
    """Whatever order a table of columns has in the bytes."""
    front = fitted_front(OneHotEncoder(), numbers(12))
    assert set(over_the_wire(front).states["0"]) == {str(j) for j in range(12)}
    turned = dict(reversed(front.states["0"].items()))
    Front.from_content(with_state(front, turned))


FITTED = [name for name, step in STEPS.items() if KINDS[type(step)].statistic_for(step)]


@pytest.mark.parametrize("name", FITTED)
def test_states_with_another_field_or_one_less_are_refused(name):
    step = STEPS[name]
    front = fitted_front(step)
    state = front.states["0"]
    kind = type(step).__name__
    with pytest.raises(ValueError, match=f"state of {kind} has the field 'more'"):
        Front.from_content(with_state(front, {**state, "more": 1.0}))
    if name in BY_COLUMN:
        column = state["1"]
        for field in column:
            less = {key: value for key, value in column.items() if key != field}
            with pytest.raises(ValueError, match=f"column 1 lacks the field '{field}'"):
                Front.from_content(with_state(front, {**state, "1": less}))
        for place in ("more", "7", "01"):  # there are three columns
            with pytest.raises(ValueError, match=f"has the field '{place}'; its"):
                Front.from_content(with_state(front, {**state, place: column}))
        with pytest.raises(ValueError, match="column 1 has the field 'more'"):
            Front.from_content(with_state(front, {**state, "1": {**column, "more": 1}}))
        return
    for field in state:
        less = {key: value for key, value in state.items() if key != field}
        with pytest.raises(ValueError, match=f"state of {kind} lacks the field"):
            Front.from_content(with_state(front, less))


@pytest.mark.parametrize("name", FITTED)
def test_fields_of_other_shapes_and_types_are_refused(name):
    step = STEPS[name]
    front = fitted_front(step)
    state = dict(front.states["0"])
    place = "0" if name in BY_COLUMN else None
    fields = dict(state[place]) if place else state
    for field, value in fields.items():
        odd = ["text", {}, None, np.zeros((2, 2, 2))]
        if np.ndim(value) == 1 and "column" in step_shape(step, field):
            odd.append(value[:-1])
        for other in odd:
            changed = {**fields, field: other}
            content = with_state(front, {**state, place: changed} if place else changed)
            with pytest.raises(ValueError, match="is not a front: the field"):
                Front.from_content(content)


def step_shape(step, field) -> tuple:
    return KINDS[type(step)].fields_for(step)[field].shape


def test_steps_that_are_fitted_to_nothing_have_no_state():
    front = fitted_front(Normalizer())
    with pytest.raises(ValueError, match="state of Normalizer has the field 'means'"):
        Front.from_content(with_state(front, {"means": np.zeros(3)}))
    encoder = OneHotEncoder(categories=[[1.0, 2.0, 3.0, 4.0]] * 3)
    with pytest.raises(ValueError, match="state of OneHotEncoder has the field '0'"):
        Front.from_content(with_state(fitted_front(encoder), {"0": {}}))


def test_states_are_of_steps_that_the_front_has():
    """What is dropped or passed on has a place in paths, too."""
    steps = ColumnTransformer(
        [
            ("none", "drop", [0]),
            ("same", "passthrough", [1]),
            ("two", make_pipeline("passthrough", StandardScaler(), PCA(1)), [2, 3]),
        ],
        remainder=FeatureUnion([("a", MinMaxScaler()), ("b", StandardScaler())]),
    )
    front = fitted_front(steps, numbers(6))
    assert set(front.states) == {"0/2/1", "0/2/2", "0/3/0", "0/3/1"}
    assert set(over_the_wire(front).states) == set(front.states)
    state = front.states["0/2/1"]
    for path in ("0/0", "0/1", "0/2", "0/2/0", "0/4", "", "elsewhere"):
        with pytest.raises(
            ValueError, match=f"a state at '{path}', where there is no step"
        ):
            Front.from_content(with_state(front, state, path))


def test_a_node_names_the_step_and_the_field_of_a_request():
    front = fitted_front(StandardScaler())
    state = {**front.states["0"], "center": np.zeros(3)}
    request = Message.of("front", front=with_state(front, state))
    message = "front.front is not a front: the state of StandardScaler has .*'center'"
    with pytest.raises(ValueError, match=message):
        reply_to(request, None, numbers(), None, name="lyon")


def content_of_a_front():
    """The content of a fitted front, as JSON has it, of two columns with bounds."""
    front = PooledTransformer(
        ColumnTransformer([("a", make_pipeline(StandardScaler()), ["a"])]),
        bounds={"a": (0.0, 9.0)},
    )
    pandas = pytest.importorskip("pandas")
    front.fit(pandas.DataFrame({"a": np.arange(9.0), "b": np.arange(9.0) % 2}))
    return front.as_front().as_content()


@pytest.mark.parametrize("place", ["states", "columns", "bounds", "tree", "steps"])
@pytest.mark.parametrize("junk", [5, [1], [None], [[1]], ["a", "b", "c"], {"a": 1}])
def test_what_is_no_front_is_said_in_our_words(place, junk):
    content = content_of_a_front()
    if place == "steps":
        content["tree"]["steps"] = junk
    else:
        content[place] = junk
    words = "(?!.*(object|unpack|element #|indices|iterable))is not a front: .*"
    with pytest.raises(ValueError, match=f"^{words}(state|column|bound|step)"):
        Front.from_content(content)


def test_a_state_of_lists_of_different_lengths_is_named():
    content = content_of_a_front()
    content["states"]["0/0/0"]["means"] = [[1, 2], [3]]
    words = "the field 'means' of the state of StandardScaler must be an array"
    with pytest.raises(ValueError, match=words):
        Front.from_content(content)
