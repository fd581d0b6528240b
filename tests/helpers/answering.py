# SPDX-License-Identifier: BSD-3-Clause
"""Nodes of this process that answer otherwise, or are listened to."""

from __future__ import annotations

from collections.abc import Callable

import pytest


def let_nodes_answer(monkeypatch: pytest.MonkeyPatch, answer: Callable | None) -> None:
    """Have ``answer(request, member)`` in place of `reply_of` in this process."""
    monkeypatch.setattr("skgems.asking._channel.reply_of", answer)
