# SPDX-License-Identifier: BSD-3-Clause
"""Networks that nodes fitted to digits; tests do not alter them."""

from __future__ import annotations

import pytest
from helpers.digit_networks import deal_to_nodes, fitted_networks


@pytest.fixture(scope="session")
def nodes():
    """The node of each training row."""
    return deal_to_nodes()


@pytest.fixture(scope="session")
def local_networks(nodes):
    """A fitted network of one hidden layer for each node."""
    return fitted_networks(nodes)


@pytest.fixture(scope="session")
def deep(nodes):
    """A fitted network of two hidden layers for each node, of several widths."""
    return fitted_networks(nodes, [(16, 12), (14, 10), (12, 12)])
