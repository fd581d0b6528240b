# SPDX-License-Identifier: BSD-3-Clause
"""Versions of what is installed."""

import numpy as np
import sklearn

import skgems
from skgems.base import versions


def test_versions_are_those_that_are_imported(capsys):
    found = versions()
    assert found["numpy"] == np.__version__
    assert found["scikit-learn"] == sklearn.__version__
    assert "matplotlib" not in found
    skgems.show_versions()
    lines = capsys.readouterr().out.splitlines()
    assert f"numpy: {np.__version__}" in lines and lines[0].startswith("Python: ")
