# SPDX-License-Identifier: BSD-3-Clause
"""Messages, and their way through bytes."""

from __future__ import annotations

import json

import numpy as np
import pytest

from skgems.asking import Message

ARRAYS = {
    "float64": np.array([[0.1, -np.pi], [np.inf, np.nan]]),
    "float32": np.array([1 / 3], dtype=np.float32),
    "float16": np.array([0.1], dtype=np.float16),
    "int64": np.arange(3),
    "bool": np.array([True, False]),
    "number": np.array(7.5),
    "empty": np.empty((0, 4)),
    "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "sliced": np.arange(24.0).reshape(4, 6)[::2, 1::2],
    "transposed": np.arange(6).reshape(2, 3).T,
}


def through_bytes(message: Message) -> Message:
    return Message.from_bytes(message.to_bytes())


@pytest.mark.parametrize("kind", ARRAYS)
def test_arrays_come_back_bit_by_bit(kind):
    array = ARRAYS[kind]
    back = through_bytes(Message.of("task", it=array)).content["it"]
    assert back.dtype == array.dtype and back.shape == array.shape
    assert back.tobytes() == array.tobytes()
    assert back.flags.c_contiguous


def test_arrays_of_the_same_bytes_come_back_as_they_were():
    # Equal arrays are stored once; these differ in shape or dtype, but not in bytes.
    zeros = [np.zeros(4), np.zeros((2, 2)), np.zeros((4, 1)), np.zeros(4, dtype=int)]
    zeros += [np.zeros(8, dtype=np.float32), np.zeros((0, 4)), np.zeros((4, 0))]
    zeros += [array.copy() for array in zeros]
    back = through_bytes(Message.of("task", it=zeros)).content["it"]
    for array, sent in zip(back, zeros, strict=True):
        assert array.dtype == sent.dtype and array.shape == sent.shape
        assert not array.any()


@pytest.mark.parametrize(
    "setting",
    [["a b", "ä", ""], [0, True, 1e-300, 0.1, None], {"x": [1, {"y": "z"}]}],
    ids=["texts", "numbers", "nested"],
)
def test_settings_come_back(setting):
    message = Message.of("task", it=setting)
    back = through_bytes(message)
    assert back.task == "task"
    assert back.version == message.version
    assert back.settings == message.settings
    assert back.content["it"] == setting


def test_numbers_of_numpy_come_back():
    back = through_bytes(Message.of("task", drawn=np.int64(3), rate=np.float64(0.5)))
    assert back.content["drawn"] == 3
    assert back.content["rate"] == 0.5


def test_lists_of_arrays_come_back_in_their_order():
    # More than ten, as "10" is before "2" among texts.
    arrays = [np.full((2, k), float(k)) for k in range(12)]
    back = through_bytes(Message.of("task", it=arrays)).content["it"]
    assert [array.shape[1] for array in back] == list(range(12))


def test_a_list_without_its_first_array_is_refused_in_words():
    message = Message.of("task", it={"1": np.zeros(2), "2": {}})
    with pytest.raises(ValueError, match="its list 'it' has not all of its arrays"):
        _ = message.content


@pytest.fixture
def message_with_dicts():
    """A message whose arrays stand in dicts, and one of them in a dict of a dict."""
    return Message.of(
        "task",
        hidden={
            "weights": [np.zeros((2, 3)), np.ones((4, 1))],
            "names": ["a", "b"],
        },
        deep={"er": {"array": np.arange(3)}, "only": {"settings": 1}},
    )


def test_arrays_within_dicts_have_their_paths_for_names(message_with_dicts):
    assert sorted(message_with_dicts.arrays) == [
        "deep.er.array",
        "hidden.weights.0",
        "hidden.weights.1",
    ]


@pytest.mark.parametrize("is_read", [False, True], ids=["made", "read"])
def test_arrays_within_dicts_come_back(message_with_dicts, is_read):
    message = through_bytes(message_with_dicts) if is_read else message_with_dicts
    settings = json.dumps(message.settings)
    content = message.content
    first, second = content["hidden"]["weights"]
    np.testing.assert_array_equal(first, np.zeros((2, 3)))
    np.testing.assert_array_equal(second, np.ones((4, 1)))
    assert content["hidden"]["names"] == ["a", "b"]
    assert content["deep"]["er"]["array"].tolist() == [0, 1, 2]
    assert content["deep"]["only"] == {"settings": 1}
    # Arrays are put into a copy of the settings.
    assert json.dumps(message.settings) == settings


def test_arrays_within_dicts_that_cannot_be_sent_are_named_by_their_path():
    with pytest.raises(TypeError, match="'it.inside' of a message 'task' is an array"):
        Message.of("task", it={"inside": np.array(["a"])})


def test_settings_are_those_of_json_before_they_are_sent():
    # JSON knows no tuples, and keys are texts.
    message = Message.of("task", pair=(1, 2), table={1: "x"})
    assert message.settings == {"pair": [1, 2], "table": {"1": "x"}}


def test_arrays_are_read_only_and_the_users_are_not():
    array = np.zeros(3)
    message = Message.of("task", it=array)
    for sent in (message, through_bytes(message)):
        with pytest.raises(ValueError, match="read-only"):
            sent.content["it"][0] = 1.0
    array[0] = 1.0


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (np.array(["a"]), "'it' of a message 'task' is an array of dtype <U1"),
        (np.array([None]), "dtype object"),
        ([np.zeros(1), np.array(["a"])], "'it' of a message"),
        (object(), "'it' cannot be sent in a message 'task': it has a value of"),
        (float("nan"), "'it' cannot be sent"),
    ],
)
def test_values_that_cannot_be_sent_are_refused_by_name(value, problem):
    with pytest.raises(TypeError, match=problem):
        Message.of("task", it=value)
