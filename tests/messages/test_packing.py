# SPDX-License-Identifier: BSD-3-Clause
"""Bytes of messages: what is none is refused, and equal messages have equal bytes."""

from __future__ import annotations

import errno
import json
import os

import numpy as np
import pytest
from safetensors.numpy import save

from skgems.asking import Message
from skgems.messages import _packing as packing
from skgems.messages import write_bytes


def test_messages_of_a_later_version_are_refused():
    message = {"version": 99, "task": "task", "settings": {}}
    later = save({}, metadata={"skgems": json.dumps(message)})
    with pytest.raises(
        ValueError, match="has format version 99, but this skgems reads version 3"
    ):
        Message.from_bytes(later)


WHOLE = Message.of("task", it=np.zeros(3)).to_bytes()


@pytest.mark.parametrize(
    "content",
    [b"", b"junk", WHOLE[:-1], WHOLE[:20], save({"it": np.zeros(1)})],
    ids=["empty", "junk", "without last byte", "without arrays", "of others"],
)
def test_bytes_that_are_no_message_are_refused(content):
    with pytest.raises(ValueError, match="not a message of skgems"):
        Message.from_bytes(content)


def test_the_bytes_of_a_message_are_those_of_its_arrays_and_settings():
    message = Message.of("task", it=np.zeros((3, 2)), words="abc")
    assert message.n_bytes == 6 * 8 + len('{"words": "abc"}')


@pytest.fixture
def content():
    """Nine arrays, each of them twice."""
    rng = np.random.default_rng(0)
    arrays = {f"array {i}": rng.standard_normal(i) for i in range(9)}
    return arrays | {f"again {i}": arrays[f"array {i}"] for i in range(9)}


def test_equal_messages_have_equal_bytes(content):
    messages = [Message.of("train", epochs=1, **content) for _ in range(2)]
    # Twenty times, as the order of a set or dict may vary.
    assert len({message.to_bytes() for message in messages for _ in range(20)}) == 1


def test_equal_messages_have_equal_digests(content):
    message = Message.of("train", epochs=1, **content)
    assert message.digest == Message.of("train", epochs=1, **content).digest
    assert message.digest == Message.from_bytes(message.to_bytes()).digest
    assert message.digest != Message.of("train", epochs=2, **content).digest


def test_a_full_disk_is_an_error_that_names_the_file(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    path = tmp_path / "lyon.safetensors"
    with pytest.raises(OSError, match=r"No space left on device: '.*lyon") as failure:
        write_bytes(path, b"sums")
    assert failure.value.errno == errno.ENOSPC
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_longer_than_its_start_is_read_whole(tmp_path):
    path = tmp_path / "long"
    content = bytes(range(256)) * 2**14 + b"after the largest start"
    path.write_bytes(content)
    assert packing.read_bytes(path) == content
