# SPDX-License-Identifier: BSD-3-Clause
"""The penguins: parties of which none knows all classes."""

import numpy as np
import pytest

from skgems.datasets import load_penguins


def test_no_island_knows_all_species():
    X, y, islands = load_penguins()
    assert X.shape == (342, 4) and X.dtype == np.float64 and np.isfinite(X).all()
    species = {name: set(y[islands == name].tolist()) for name in np.unique(islands)}
    assert species == {
        "Biscoe": {"Adelie", "Gentoo"},
        "Dream": {"Adelie", "Chinstrap"},
        "Torgersen": {"Adelie"},
    }
    assert X[0].tolist() == [39.1, 18.7, 181.0, 3750.0]


def test_a_table_keeps_gaps_and_texts():
    pytest.importorskip("pandas")
    frame, y, islands = load_penguins(as_frame=True)
    assert frame.shape == (344, 5) and len(y) == len(islands) == 344
    assert frame.isna().any(axis=1).sum() == 11
    assert set(frame["sex"].dropna()) == {"female", "male"}
    has_all_numbers = frame.iloc[:, :4].notna().all(axis=1).to_numpy()
    X, labels, _ = load_penguins()
    np.testing.assert_array_equal(frame.iloc[:, :4][has_all_numbers], X)
    np.testing.assert_array_equal(y[has_all_numbers], labels)
