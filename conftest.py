# SPDX-License-Identifier: BSD-3-Clause
"""Examples that need a package of an extra are skipped, and their pictures closed."""

from __future__ import annotations

import doctest
import os
import sys
from pathlib import Path

import pytest
from _pytest.doctest import DoctestModule

# Pictures of examples are drawn where there is no screen.
os.environ.setdefault("MPLBACKEND", "agg")
TESTS = Path(__file__).parent / "tests"


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path):
    found = yield
    if not file_path.is_relative_to(TESTS):
        return found
    # Import errors of examples are skipped, and would hide those of tests beside them.
    return [own for own in found if not isinstance(own, DoctestModule)]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    try:
        return (yield)
    except doctest.UnexpectedException as failure:
        error = failure.exc_info[1]
        while isinstance(error, ImportError):
            if isinstance(error, ModuleNotFoundError) and "skgems" not in error.name:
                pytest.skip(f"could not import {error.name}")
            error = error.__cause__
        raise


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown():
    """Close pictures that an example leaves open: matplotlib warns of more than 20."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close("all")
    return (yield)
