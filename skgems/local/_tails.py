"""Rows far outside of their class, which Gaussians of their moments do not represent.

They are found by kurtosis within classes, which is 3 for Gaussian rows: of the logits
of the node's own linear model, or where it has none of two classes, of random
combinations of the features. With the deviations s_j of features within classes, the
latter are

    u_m = sum_j g_jm (x_j - mean of the row's class) / s_j,    g_jm ~ N(0, 1).

A logit is such a combination, so that one heavy feature among many does little harm in
both. Features of two values, such as those of categories, are left out: a rare value is
no outlier.
"""

from collections.abc import Sequence

import numpy as np
from scipy import sparse
from sklearn.utils.extmath import safe_sparse_dot

from ..disclosure import indicator
from ..moments import ROUNDING_OF_SUMS, block_bytes, ratio, row_blocks
from ..networks import linear_logits
from ..spaces import MOST_ROWS
from ._classifiers import Rows
from ._member import Member
from ._samples import spread

# Kurtosis within classes of the logits of a node's own model, 3 of Gaussians: nodes of
# eight sets and five partitions have up to 21, of log-normal rows (sigma 1.5) over 50.
_HEAVY_LOGITS = 30.0
# The same of combinations of features, for nodes without such a model. Eight sets and
# three partitions have up to 7, but for spambase with 18, words and categories up to
# 10, and log-normal rows of sigma 0.8, 1.0, 1.2 up to 10, 14 and 20. In one message
# these are 2, 5 and 8 points below the pooled model.
_HEAVY_COMBINATIONS = 12.0
# Combinations, whose median kurtosis counts: of a single one, one feature may decide.
# Their weights take as much memory as so many rows, which may be of 2**20 features.
N_COMBINATIONS = 8
# Fewest rows whose logits have a kurtosis: of fewer it is mostly chance.
_FEWEST_ROWS = 50
# The same of combinations, whose threshold is lower.
_FEWEST_ROWS_OF_COMBINATIONS = 200
# Features that each node names, those that add most to the kurtosis: with five, one
# that is not skewed is named beside four that are.
_N_NAMED = 3


class CombinationTails:
    """Powers of random combinations of features, summed over rows that are added.

    Parameters
    ----------
    sample : sequence of (index of a class, rows of it)
        Some rows of each class, which the units of features and the points that rows
        are counted from are taken from.
    n_classes : int
    """

    def __init__(self, sample: Sequence[tuple[int, Rows]], n_classes: int) -> None:
        n_features = sample[0][1].shape[1]
        means = np.zeros((n_classes, n_features))
        for c, rows in sample:
            means[c] = np.asarray(rows.mean(axis=0)).ravel()
        deviations = _deviations(sample, means)
        rng = np.random.RandomState(0)  # the same at all nodes
        weights = rng.standard_normal((n_features, N_COMBINATIONS))
        self._weights = weights * ratio(1.0, deviations)[:, None]
        self._centers = means @ self._weights  # (n_classes, n_combinations)
        self._counts = np.zeros(n_classes)
        # Sums of the first four powers by class.
        self._powers = np.zeros((4, n_classes, N_COMBINATIONS))

    @np.errstate(over="ignore", invalid="ignore")
    def add(self, X: Rows, codes: np.ndarray) -> None:
        """Add rows, given the indices of their classes."""
        n_classes = len(self._counts)
        self._counts += np.bincount(codes, minlength=n_classes)
        for rows in row_blocks(X, 8 * 4 * N_COMBINATIONS, limit=block_bytes()):
            values = safe_sparse_dot(X[rows], self._weights, dense_output=True)
            values = values - self._centers[codes[rows]]
            by_class = indicator(codes[rows], n_classes)
            for k, sums in enumerate(self._powers):
                sums += by_class @ values ** (k + 1)

    @np.errstate(over="ignore", invalid="ignore")
    def kurtosis(self) -> float | None:
        """Return the median kurtosis within classes; None if it is not a heavy one."""
        n_rows = self._counts.sum()
        if n_rows < _FEWEST_ROWS_OF_COMBINATIONS:
            return None
        mean, second, third, fourth = ratio(self._powers, self._counts[:, None])
        squares = second - mean**2
        fourth_powers = fourth - 4 * mean * third + 6 * mean**2 * second - 3 * mean**4
        shares = self._counts / n_rows
        values = ratio(shares @ fourth_powers, (shares @ squares) ** 2)
        kurtosis = float(np.median(values))
        # What is not finite is an error elsewhere.
        return kurtosis if _HEAVY_COMBINATIONS <= kurtosis < np.inf else None


@np.errstate(over="ignore", invalid="ignore")
def _deviations(sample: Sequence[tuple[int, Rows]], means: np.ndarray) -> np.ndarray:
    """Return deviations of features within classes, 0 for those of two values."""
    n_features = means.shape[1]
    low = np.min([_dense_row(rows.min(axis=0)) for _, rows in sample], axis=0)
    high = np.max([_dense_row(rows.max(axis=0)) for _, rows in sample], axis=0)
    squares = np.zeros(n_features)
    has_others = np.zeros(n_features, dtype=bool)
    for c, rows in sample:
        if sparse.issparse(rows):
            squares += _dense_row(rows.multiply(rows).sum(axis=0))
            squares -= rows.shape[0] * means[c] ** 2
            is_other = (rows.data != low[rows.indices]) & (
                rows.data != high[rows.indices]
            )
            has_others[rows.indices[is_other]] = True
            continue
        for block in row_blocks(rows, 8 * n_features, limit=block_bytes()):
            squares += np.square(rows[block] - means[c]).sum(axis=0)
            has_others |= ((rows[block] != low) & (rows[block] != high)).any(axis=0)
    n_rows = sum(rows.shape[0] for _, rows in sample)
    deviations = np.sqrt(np.maximum(squares / n_rows, 0.0))
    size = np.maximum(np.abs(low), np.abs(high))
    return np.where(
        has_others & (deviations > ROUNDING_OF_SUMS * size), deviations, 0.0
    )


def _dense_row(row: Rows) -> np.ndarray:
    return row.toarray().ravel() if sparse.issparse(row) else np.ravel(row)


def rounded_kurtosis(member: Member, tails: CombinationTails) -> int | None:
    """Return the kurtosis that a node sends, a power of two; None if none is heavy."""
    if _classes_of_linear_model(member) is None:
        kurtosis = tails.kurtosis()
    else:  # its logits say more: they weigh features as the aggregate will
        kurtosis = kurtosis_of_logits(member)
    return None if kurtosis is None else 2 ** round(np.log2(kurtosis))


@np.errstate(over="ignore", invalid="ignore")
def kurtosis_of_logits(member: Member) -> float | None:
    """Return the kurtosis within classes of the own model's logits, if a heavy one.

    None also if the model is not linear, or there are too few rows.
    """
    classes = _classes_of_linear_model(member)
    if classes is None:
        return None
    X, y = _some_rows(member, classes)
    if len(y) < _FEWEST_ROWS:
        return None
    logits = linear_logits(X, _centered_weights(member, classes))
    squares, fourth_powers = _central_powers(logits, y)
    kurtosis = ratio(fourth_powers, squares**2).mean()
    # What is not finite is an error elsewhere.
    return float(kurtosis) if _HEAVY_LOGITS <= kurtosis < np.inf else None


@np.errstate(over="ignore", invalid="ignore")
def heaviest_features(member: Member) -> list[int]:
    """Return the features that add most to the kurtosis of a node's rows."""
    classes = _classes_of_linear_model(member)
    weights = None if classes is None else _centered_weights(member, classes)
    X, y = _some_rows(member, classes)
    X = X.toarray() if sparse.issparse(X) else X
    squares, fourth_powers = _central_powers(X, y)
    if weights is None:
        contributions = ratio(fourth_powers, squares**2)
        contributions[_has_two_values(X)] = 0.0
    else:
        contributions = fourth_powers * (weights[:-1] ** 4).sum(axis=1)
    features = np.argsort(-contributions, kind="stable")[:_N_NAMED]
    return features.tolist()


def _has_two_values(X: np.ndarray) -> np.ndarray:
    return ((X == X.min(axis=0)) | (X == X.max(axis=0))).all(axis=0)


def _classes_of_linear_model(member: Member) -> np.ndarray | None:
    """Return the classes that a linear model of two or more of them has seen."""
    network = member.model.network
    if not network.is_linear or not network.has_classifier:
        return None
    classes = network.classes[network.seen]
    return classes if len(classes) > 1 else None


def _centered_weights(member: Member, classes: np.ndarray) -> np.ndarray:
    """Return the weights of the own model, less what all logits have in common."""
    W = member.model.network.aligned(classes).last.astype(np.float64)
    return W - W.mean(axis=1, keepdims=True)


def _some_rows(member: Member, classes: np.ndarray | None) -> tuple[Rows, np.ndarray]:
    """Return at most so many rows of these classes (None: of all) and their labels."""
    X, y = member.sampled_rows(of_model=classes is not None)
    rows = np.arange(len(y))
    if classes is not None:
        rows = np.flatnonzero(np.isin(y, classes))
    _, codes = np.unique(y[rows], return_inverse=True)
    rows = rows[spread(codes, MOST_ROWS)]
    return X[rows], y[rows]


def _central_powers(
    columns: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return mean squares and fourth powers of columns, less means of rows' classes."""
    squares = np.empty(columns.shape)
    for label in np.unique(y):
        of_class = columns[y == label]
        deviations = of_class - of_class.mean(axis=0, dtype=np.float64)
        squares[y == label] = deviations**2
    return squares.mean(axis=0), np.square(squares).mean(axis=0)
