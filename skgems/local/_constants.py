"""Features that vary, but whose sums cannot hold how: a warning names them.

Sums take a feature for a constant if its values differ by rounding alone: by a few
units in the last place of numbers that are far from 0, or by numbers whose squares are
0. Rounding leaves a few different values. Features of many values vary.
"""

import numpy as np
from scipy import sparse

from ..base import MOST_LISTED, warn_user
from ..moments import ULPS, ClassMoments
from ..spaces import MOST_ROWS
from ._member import Member


def warn_of_lost_features(member: Member, sums: ClassMoments) -> None:
    """Warn of features that vary in a node's rows, and are constants in their sums."""
    constant = np.flatnonzero(sums.variances() == 0)
    if not len(constant):
        return
    X, _ = member.sampled_rows(of_model=False)
    X = X[:MOST_ROWS]
    if sparse.issparse(X):  # other columns have no value but 0
        constant = np.intersect1d(constant, X.indices)
    columns = X[:, constant]
    columns = columns.toarray() if sparse.issparse(X) else columns
    is_next_value = np.diff(np.sort(columns, axis=0), axis=0) != 0
    n_values = 1 + is_next_value.sum(axis=0)
    # Sums in another order leave a few units in the last place around one value; a
    # feature at 1e15 of unit deviation has some 50 values.
    lost = constant[n_values > ULPS].tolist()
    if lost:
        warn_user(
            f"Node {member.name!r}: these features have no effect ({len(lost)} in "
            f"all): {lost[:MOST_LISTED]}. They vary, but sums take them for constants, "
            "as their values are about 1e15 times farther from 0 than from each other, "
            "or differ by less than 1e-145. Have all nodes subtract one agreed number "
            "from such a feature, or multiply it by one, before anything else."
        )
