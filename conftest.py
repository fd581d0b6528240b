# SPDX-License-Identifier: BSD-3-Clause
"""Examples in docstrings and guide that need a package of an extra are skipped."""

from __future__ import annotations

import doctest

import pytest


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
