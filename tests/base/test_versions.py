# SPDX-License-Identifier: BSD-3-Clause
"""Versions of what is installed."""

import numpy as np
import sklearn

import skgems
from skgems.base import versions


def test_versions_are_those_that_are_imported(capsys):
    installed = versions()
    assert installed["numpy"] == np.__version__
    assert installed["scikit-learn"] == sklearn.__version__
    assert "matplotlib" not in installed
    skgems.show_versions()
    lines = capsys.readouterr().out.splitlines()
    assert f"numpy: {np.__version__}" in lines and lines[0].startswith("Python: ")
