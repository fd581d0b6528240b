# SPDX-License-Identifier: BSD-3-Clause
"""Nodes that answer without a ledger what needs one, or a person, to accept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch


@contextmanager
def nodes_that_accept_everything() -> Iterator[None]:
    """Meanwhile no node asks for a ledger or for an agreement."""
    with patch("skgems.guard._replying.check_accepted"):
        yield
