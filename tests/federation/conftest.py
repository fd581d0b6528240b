# SPDX-License-Identifier: BSD-3-Clause
"""Where nodes of tests keep their ledgers."""

from __future__ import annotations

import os

import pytest


@pytest.fixture
def without_waiting_for_the_disk(monkeypatch):
    """Kills of a process, unlike those of power, lose nothing that was written."""
    from skgems.federation import _ledger_store

    monkeypatch.setattr(os, "fsync", lambda number: None)
    monkeypatch.setattr(_ledger_store, "SYNCHRONOUS", "OFF")


@pytest.fixture
def folder(tmp_path):
    """A folder for a ledger, which is not there yet."""
    return tmp_path / "kept"


@pytest.fixture(params=["folder", "mapping"])
def state(request, folder):
    """What a node keeps its ledger in: a folder that is not there yet, or a dict."""
    return folder if request.param == "folder" else {}
