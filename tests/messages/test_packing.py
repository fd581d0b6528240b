# SPDX-License-Identifier: BSD-3-Clause
"""Bytes of messages: what is none is refused, and equal messages have equal bytes."""

from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors.numpy import save

from skgems.federation import Message


def test_bytes_that_are_no_message():
    good = Message.of("task", it=np.zeros(3)).to_bytes()
    told = {"version": 99, "task": "task", "settings": {}}
    later = save({}, metadata={"skgems": json.dumps(told)})
    with pytest.raises(ValueError, match="has version 99, this side speaks version 3"):
        Message.from_bytes(later)
    for data in (b"", b"junk", good[:-1], good[:20], save({"it": np.zeros(1)})):
        with pytest.raises(ValueError, match="no message of skgems"):
            Message.from_bytes(data)


def test_bytes_of_a_message():
    message = Message.of("task", it=np.zeros((3, 2)), words="abc")
    assert message.n_bytes == 6 * 8 + len('{"words": "abc"}')


def test_equal_messages_have_equal_bytes():
    rng = np.random.default_rng(0)
    content = {f"array {i}": rng.standard_normal(i) for i in range(9)}
    content |= {f"again {i}": content[f"array {i}"] for i in range(9)}
    one, other = (Message.of("train", epochs=1, **content) for _ in range(2))
    assert len({m.to_bytes() for m in (one, other) for _ in range(20)}) == 1
    assert one.digest == other.digest
    assert one.digest != Message.of("train", epochs=2, **content).digest
    there = Message.from_bytes(one.to_bytes())
    assert there.digest == one.digest
