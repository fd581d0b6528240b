"""How many rows sums in messages are made of, also where rows have weights.

Counts of moments are then sums of weights, and the numbers of rows come beside them.
Regions, whose sums are those of several nodes, tell weights alone.
"""

from collections.abc import Mapping

import numpy as np


def rows_of_groups(content: Mapping) -> np.ndarray:
    """Return the rows of each scatter in a reply with moments, (n_groups,).

    The scatter that is of no class is of all rows whose class has none of its own.
    """
    sums = content["moments"]
    if "n_rows" not in content:
        return sums["group_counts"]
    n_rows = np.asarray(content["n_rows"], dtype=np.float64)
    groups = sums["groups"]
    has_scatter = np.isin(np.arange(len(n_rows)), groups)
    return np.where(groups < 0, n_rows[~has_scatter].sum(), n_rows[groups])
