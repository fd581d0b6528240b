# SPDX-License-Identifier: BSD-3-Clause
"""Warnings of other packages, drawn as ours, are about the user's line."""

from __future__ import annotations

import warnings

import pytest

from skgems.base import as_own_warnings


def test_a_warning_of_another_package_is_drawn_at_the_users_line():
    with pytest.warns(FutureWarning, match="old") as caught, as_own_warnings():
        warnings.warn("old", FutureWarning, stacklevel=1)
    assert [warning.filename for warning in caught] == [__file__]
