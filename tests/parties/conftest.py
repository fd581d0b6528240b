# SPDX-License-Identifier: BSD-3-Clause
"""Ledgers and files that outlive no failure of power."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def without_waiting_for_the_disk(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda number: None)
