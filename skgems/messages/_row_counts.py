"""How many rows sums in messages are made of, also where rows have weights.

Counts of moments are then sums of weights, and the numbers of rows come beside them.
Regions, whose sums are those of several nodes, tell weights alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True, kw_only=True)
class ExposedGroups:
    """Groups of rows whose covariances show single rows: there are too few of them."""

    n_columns: int = 0  # that covariances are of
    # By label; "all" stands for classes that have one covariance together.
    n_rows: Mapping[object, int] = field(default_factory=dict)


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


def exposed_classes(content: Mapping) -> dict:
    """Return the number of rows of classes with fewer rows than features.

    Covariances of these show single rows. "all" stands for classes that have one
    covariance together. ``content`` is that of a reply to a request for moments.
    """
    sums = content["moments"]
    varies = _features_that_vary(sums)
    if varies is None:
        return {}
    if sums.get("block") is not None:
        # Of the other features the scatter of several classes has variances alone.
        varies[sums["groups"] < 0] &= sums["block"]
    n_rows = rows_of_groups(content)
    # A group of n rows about their mean spans n - 1 directions at most.
    is_exposed = n_rows <= varies.sum(axis=1)
    labels = [*content["labels"], "all"]
    labels_of_groups = [labels[group] for group in sums["groups"][is_exposed]]
    counts = n_rows[is_exposed].astype(int).tolist()
    return dict(zip(labels_of_groups, counts, strict=True))


def _features_that_vary(sums: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """Which features vary in each group of moments, (n_groups, n_features), bool.

    None where there are variances alone. The variances of a group are the diagonal of
    its covariance, which comes as an upper triangle row by row, or as a root R of fewer
    rows with the covariance R^T R.
    """
    n_features = len(sums["origin"])
    if "triangles" in sums:
        # Row i of the triangle has n_features - i numbers, of which the first is on
        # the diagonal.
        diagonal = np.cumsum([0, *range(n_features, 1, -1)])
        return sums["triangles"][:, diagonal] > 0
    if "roots" in sums:
        groups = np.arange(len(sums["groups"]))
        is_of_group = groups[:, None] == sums["root_groups"]  # (n_groups, n_root_rows)
        return is_of_group.astype(float) @ sums["roots"] ** 2 > 0
    return None
