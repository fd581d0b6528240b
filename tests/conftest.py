# SPDX-License-Identifier: BSD-3-Clause
"""Set up what must be there before scipy is imported, and what tests share."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

import pytest

# Without it scikit-learn skips its check of array API input.
os.environ["SCIPY_ARRAY_API"] = "1"
# Test files share what is in helpers: "from helpers.estimators import federated".
sys.path.insert(0, str(Path(__file__).parent))


def pytest_collection():
    gc.disable()


def pytest_collection_finish():
    # What has been imported and collected stays: the garbage collector need not look at
    # it again and again.
    gc.enable()
    gc.freeze()


@pytest.fixture(scope="module")
def accepting_nodes():
    """Nodes that answer without a ledger what needs one, or a person, to accept."""
    from helpers.accepting import nodes_that_accept_everything

    with nodes_that_accept_everything():
        yield


@pytest.fixture(autouse=True)
def _no_results_of_other_tests():
    from skgems.local import clear_cache

    clear_cache()
    yield
    clear_cache()
