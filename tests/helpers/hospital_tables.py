# SPDX-License-Identifier: BSD-3-Clause
"""Tables as hospitals have them, in many dialects."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pandas = pytest.importorskip("pandas")


N_ROWS = 60  # patients


def hospital_table():
    """Measures, a ward and a diagnosis of sixty patients, as a DataFrame."""
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame({"alter": rng.integers(20, 90, N_ROWS)})
    frame["größe"] = np.round(rng.normal(1.7, 0.1, N_ROWS), 2)
    frame["crp"] = np.round(rng.gamma(2, 3, N_ROWS), 1)
    frame["station"] = rng.choice(["Innere, Ost", "Chirurgie"], N_ROWS)
    frame["diagnose"] = np.where(frame.crp > 6, "ja", "nein")
    return frame


def write_rows(text, encoding="utf-8"):
    """Write a text to rows.csv, in the folder in which commands are typed."""
    Path("rows.csv").write_bytes(text.encode(encoding))


def csv_text(frame=None, **options):
    """A table as CSV; ``options`` are those of `DataFrame.to_csv`."""
    frame = hospital_table() if frame is None else frame
    return frame.to_csv(index=False, **options)
