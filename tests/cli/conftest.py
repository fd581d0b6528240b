# SPDX-License-Identifier: BSD-3-Clause
"""Folders in which commands are typed."""

from __future__ import annotations

import io
import os
import sys

import joblib
import pytest


@pytest.fixture(autouse=True)
def without_waiting_for_the_disk(monkeypatch):
    """No file that a command writes has to outlive a failure of power."""
    monkeypatch.setattr(os, "fsync", lambda number: None)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Tables and models of all nodes."""
    # Imported here, as it skips the tests of a file where pandas is missing.
    from helpers.command_line import (
        NODES,
        classifier_of_named_features,
        rows_of,
        write_rows,
    )

    folder = tmp_path_factory.mktemp("home")
    for node in NODES:
        write_rows(folder / f"{node}.csv", *rows_of(node))
        joblib.dump(classifier_of_named_features(node), folder / f"{node}.joblib")
    return folder


@pytest.fixture
def work(home, tmp_path, monkeypatch):
    """A folder of one's own, with what nodes have, in which commands are typed."""
    for path in home.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    monkeypatch.chdir(tmp_path)
    # Nobody sits there who could be asked.
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    return tmp_path
