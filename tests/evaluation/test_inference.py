# SPDX-License-Identifier: BSD-3-Clause
"""The table of coefficients in words, as HTML and as a frame."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from skgems.evaluation import Inference

TABLE = Inference(
    names=["age", "intercept"] * 2,
    classes=["ill", "ill", "dead", "dead"],
    reference="well",
    params=np.array([0.5, -1.0, 2.0, 0.0]),
    covariance=np.diag([0.04, 0.25, 1.0, 1.0]),
    level=0.9,
    cov_type="nonrobust",
    is_approximate=False,
    has_tests=True,
    n_rows=100,
    notes=("Errors take rows for independent.",),
)


def test_rows_of_the_frame_are_classes_and_columns():
    pytest.importorskip("pandas")
    frame = TABLE.to_frame()
    assert frame.loc[("dead", "age"), "coef"] == 2.0
    assert list(frame.index.names) == ["class", "column"]
    assert {"std err", "z", "P>|z|", "[0.05", "0.95]", "odds ratio"} <= {*frame.columns}
    assert "P>|z|" not in replace(TABLE, has_tests=False).to_frame()


def test_each_class_has_a_block_of_the_text():
    text = str(TABLE)
    assert text.index("ill against well") < text.index("dead against well, 100 rows")
    assert "Errors take rows for independent." in text
    assert "P>|z|" in text
    assert "P>|z|" not in str(replace(TABLE, has_tests=False))


def test_names_cannot_steer_a_page_or_a_terminal():
    names = ["<b>", "\x1b[31m"] * 2
    table = replace(TABLE, names=names, notes=("<script>",))
    page = table._repr_html_()
    assert "&lt;b&gt;" in page
    assert "<script>" not in page
    assert "\x1b" not in page + str(table)


def test_a_level_is_between_0_and_1():
    for level in (95, 0.0, 1.0, -0.5):
        with pytest.raises(
            ValueError, match="The level of confidence is between 0 and 1"
        ):
            TABLE.conf_int(level)


def test_many_rows_have_all_their_digits():
    assert "1234567 rows" in str(replace(TABLE, n_rows=1_234_567.0))
    assert "1234567.2 rows" in replace(TABLE, n_rows=1_234_567.25)._repr_html_()


def test_odds_ratios_of_any_size():
    table = replace(TABLE, params=np.array([1e3, -1e3, 0.0, 0.0]))
    assert table.odds_ratios[0] == np.inf
    assert "inf" in str(table)
