"""What fitted classifiers have decided, and a model that is made of rows does not know.

These are decision thresholds, and shares of classes that were changed by resampling.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from sklearn.base import BaseEstimator

from ..base import MOST_LISTED, warn_user
from ..compat import safe_indexing
from ..local import has_threshold, local_model, other_share
from ..networks import is_constant, is_fitted
from ..parties import RowsLike
from ..steps import are_documents
from ._warnings import warn_of_other_shares


def warn_of_lost_decisions(
    members: Sequence[tuple[str, BaseEstimator]],
    X: RowsLike,
    y: np.ndarray,
    owners: Mapping[str, np.ndarray],
    *,
    chosen: str,
) -> None:
    """Warn of what members have decided, where the chosen candidate knows only rows.

    ``owners`` has the indices of each node's rows, and ``chosen`` is the name of the
    candidate.
    """
    with_thresholds = [name for name, member in members if has_threshold(member)]
    if with_thresholds:
        warn_user(
            f"The decision thresholds of the nodes {with_thresholds[:MOST_LISTED]} "
            f"are not kept: the chosen candidate {chosen!r} is made of rows alone, and "
            "predicts the most probable class. EnsembleAggregator keeps thresholds."
        )
    if are_documents(X):
        return
    shares = {}
    for name, member in members:
        if not is_constant(member) and is_fitted(member, name=name):
            rows = owners[name]
            model = local_model(member, name=name)
            share = other_share(model, safe_indexing(X, rows), y[rows])
            if share is not None:
                shares[name] = share
    warn_of_other_shares(
        shares,
        "Fit the classifiers to the rows as they are, or calibrate them. Or choose by "
        "the balanced accuracy, which says how well rare classes are found.",
    )
