# SPDX-License-Identifier: BSD-3-Clause
"""Messages, and their way through bytes."""

from __future__ import annotations

import json

import numpy as np
import pytest

from skgems.federation import Message

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


@pytest.mark.parametrize("kind", ARRAYS)
def test_arrays_come_back_bit_by_bit(kind):
    array = ARRAYS[kind]
    back = Message.from_bytes(Message.of("task", it=array).to_bytes()).content["it"]
    assert back.dtype == array.dtype and back.shape == array.shape
    assert back.tobytes() == array.tobytes()
    assert back.flags.c_contiguous


def test_arrays_of_the_same_bytes_come_back_as_they_were():
    # Equal arrays are told once; these are none.
    zeros = [np.zeros(4), np.zeros((2, 2)), np.zeros((4, 1)), np.zeros(4, dtype=int)]
    zeros += [np.zeros(8, dtype=np.float32), np.zeros((0, 4)), np.zeros((4, 0))]
    zeros += [array.copy() for array in zeros]
    back = Message.from_bytes(Message.of("task", it=zeros).to_bytes()).content["it"]
    for one, other in zip(back, zeros, strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape
        assert not one.any()


def test_settings_and_lists_come_back():
    content = {
        "labels": ["a b", "ä", ""],
        "numbers": [0, True, 1e-300, 0.1, None],
        "nested": {"x": [1, {"y": "z"}]},
        "parameters": [np.full((2, k), float(k)) for k in range(12)],
    }
    message = Message.of("task", **content, drawn=np.int64(3), rate=np.float64(0.5))
    back = Message.from_bytes(message.to_bytes())
    assert back.task == "task" and back.version == message.version
    assert back.settings == message.settings
    assert back.content["drawn"] == 3 and back.content["rate"] == 0.5
    for name in ("labels", "numbers", "nested"):
        assert back.content[name] == content[name]
    # In their order, of which there are more than ten.
    assert [part.shape[1] for part in back.content["parameters"]] == list(range(12))


def test_arrays_within_dicts_come_back():
    content = {
        "hidden": {"weights": [np.zeros((2, 3)), np.ones((4, 1))], "names": ["a", "b"]},
        "deep": {"er": {"array": np.arange(3)}, "only": {"settings": 1}},
    }
    message = Message.of("task", **content)
    assert sorted(message.arrays) == [
        "deep.er.array",
        "hidden.weights.0",
        "hidden.weights.1",
    ]
    for sent in (message, Message.from_bytes(message.to_bytes())):
        told = json.dumps(sent.settings)
        back = sent.content
        assert back["hidden"]["names"] == ["a", "b"]
        for one, two in zip(
            back["hidden"]["weights"], content["hidden"]["weights"], strict=True
        ):
            np.testing.assert_array_equal(one, two)
        assert back["deep"]["er"]["array"].tolist() == [0, 1, 2]
        assert back["deep"]["only"] == {"settings": 1}
        assert json.dumps(sent.settings) == told  # which content must not write to
    with pytest.raises(TypeError, match="'it.inside' of a message 'task' is an array"):
        Message.of("task", it={"inside": np.array(["a"])})


def test_settings_are_the_same_whichever_way_they_take():
    # JSON knows no tuples, and keys are texts.
    message = Message.of("task", pair=(1, 2), table={1: "x"})
    assert message.settings == {"pair": [1, 2], "table": {"1": "x"}}


def test_arrays_are_read_only_and_the_users_are_not():
    own = np.zeros(3)
    message = Message.of("task", own=own)
    for sent in (message, Message.from_bytes(message.to_bytes())):
        with pytest.raises(ValueError, match="read-only"):
            sent.content["own"][0] = 1.0
    own[0] = 1.0


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (np.array(["a"]), "'it' of a message 'task' is an array of dtype <U1"),
        (np.array([None]), "dtype object"),
        ([np.zeros(1), np.array(["a"])], "'it' of a message"),
        (object(), "'it' cannot be sent in a message 'task': object is nothing"),
        (float("nan"), "'it' cannot be sent"),
    ],
)
def test_what_cannot_be_sent(value, problem):
    with pytest.raises(TypeError, match=problem):
        Message.of("task", it=value)
