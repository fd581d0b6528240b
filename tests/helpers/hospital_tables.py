# SPDX-License-Identifier: BSD-3-Clause
"""Tables as hospitals have them, in many dialects."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pandas = pytest.importorskip("pandas")


N_ROWS = 60


def hospital_table():
    """A data frame of patients, with an umlaut in a name and a comma in a cell."""
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame({"alter": rng.integers(20, 90, N_ROWS)})
    frame["größe"] = np.round(rng.normal(1.7, 0.1, N_ROWS), 2)
    frame["crp"] = np.round(rng.gamma(2, 3, N_ROWS), 1)
    frame["station"] = rng.choice(["Innere, Ost", "Chirurgie"], N_ROWS)
    frame["diagnose"] = np.where(frame.crp > 6, "ja", "nein")
    return frame


def write_csv(text, encoding="utf-8"):
    """Write a text to the file rows.csv of the working folder."""
    Path("rows.csv").write_bytes(text.encode(encoding))


def as_csv(frame=None, **options):
    """The text of a CSV file of a data frame, by default that of the hospital."""
    return (hospital_table() if frame is None else frame).to_csv(index=False, **options)
