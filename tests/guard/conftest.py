# SPDX-License-Identifier: BSD-3-Clause
"""A node of tests, and where it keeps its ledger."""

from __future__ import annotations

import os

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler


@pytest.fixture(autouse=True)
def without_waiting_for_files(monkeypatch):
    """No file has to outlive a failure of power, but where tests of ledgers say so."""
    monkeypatch.setattr(os, "fsync", lambda number: None)


@pytest.fixture(scope="module")
def node():
    """A node's classifier and rows: 96 benign, 104 malignant."""
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)[:200]
    y = np.where(y[:200] == 1, "benign", "malignant")
    return LogisticRegression().fit(X, y), X, y


@pytest.fixture
def without_waiting_for_the_disk(monkeypatch):
    """Kills of a process, unlike those of power, lose nothing that was written."""
    from skgems.guard import _ledger_store

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
