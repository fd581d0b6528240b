# SPDX-License-Identifier: BSD-3-Clause
"""Rules of disclosure that differ in the smallest number of rows alone."""

from skgems import Disclosure


def rule_of(min_rows: int) -> Disclosure | None:
    """Return a rule with this bound on rows; None, no rule at all, for one row."""
    if min_rows == 1:
        return None
    return Disclosure(rows=min(3, min_rows), min_rows=min_rows)
