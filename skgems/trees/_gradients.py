"""The log-loss of boosted trees, and its gradients and hessians as whole numbers.

A row has a raw prediction f for two classes, and one f_k for each of more classes:

    two classes:   p = 1 / (1 + exp(-f)),               gradient p - y
    more classes:  p_k = exp(f_k) / sum_j exp(f_j),     gradient p_k - y_k

with hessian p (1 - p), as in scikit-learn's HistGradientBoostingClassifier. Sums of
floating-point numbers depend on their order, and so on how rows are split over nodes.
Those of whole numbers do not: gradients and hessians are rounded to multiples of 2^-30,
which is finer than the float32 that scikit-learn stores them in.
"""

import numpy as np

from ._forest import Forest, leaves_of

# What gradients and hessians are multiplied by before they are rounded. Sums over 2^33
# rows still fit into int64.
SCALE = 2**30
# Whole numbers in each bin of a histogram: the sums of the scaled gradients and of the
# scaled hessians of its rows, and the number of its rows.
N_SUMS = 3
# How far from 0 and 1 the probabilities of a baseline are at least, as in scikit-learn.
_LEAST_OF_TWO_CLASSES = 10 * np.finfo(np.float64).eps
_LEAST_OF_MORE_CLASSES = np.finfo(np.float64).eps


def n_outputs(n_classes: int) -> int:
    """Return the number of raw predictions of a row, and of trees an iteration."""
    return 1 if n_classes == 2 else n_classes


def baseline_of_counts(class_counts: np.ndarray) -> np.ndarray:
    """The raw predictions before the first tree: those of the classes' frequencies.

    Parameters
    ----------
    class_counts : ndarray of int of shape (n_classes,)
        Rows of each class, over all nodes.

    Returns
    -------
    baseline : ndarray of shape (n_outputs,)
        The log-odds of the second of two classes; of more classes the logarithms of the
        frequencies less their mean.
    """
    frequencies = class_counts / class_counts.sum()
    if len(class_counts) == 2:
        least = _LEAST_OF_TWO_CLASSES
        frequency = np.clip(frequencies[1:], least, 1 - least)
        return np.log(frequency / (1 - frequency))
    least = _LEAST_OF_MORE_CLASSES
    logarithms = np.log(np.clip(frequencies, least, 1 - least))
    return logarithms - logarithms.mean()


def raw_predictions(
    codes: np.ndarray, forest: Forest, values: np.ndarray, baseline: np.ndarray
) -> np.ndarray:
    """The baseline and the values of the leaves that rows reach: (n_outputs, n_rows).

    Parameters
    ----------
    codes : ndarray of shape (n_rows, n_features)
        Bins, see `bin_codes`.
    forest : Forest
        Tree t adds to output t % n_outputs.
    values : ndarray of shape (n_vertices,)
        Values of the leaves.
    baseline : ndarray of shape (n_outputs,)
    """
    raw = np.repeat(baseline[:, None], len(codes), axis=1)
    for first_tree in range(0, forest.n_trees, len(baseline)):
        start = roots_of_iteration(first_tree, n_rows=len(codes), n_trees=len(baseline))
        add_values(raw, leaves_of(codes, forest, start=start), values)
    return raw


def roots_of_iteration(first_tree: int, *, n_rows: int, n_trees: int) -> np.ndarray:
    """Return the roots of an iteration's trees, for each row: (n_rows, n_trees)."""
    roots = np.arange(first_tree, first_tree + n_trees, dtype=np.int32)
    return np.broadcast_to(roots, (n_rows, n_trees))


def add_values(raw: np.ndarray, leaves: np.ndarray, values: np.ndarray) -> None:
    """Add the values of the leaves of an iteration to raw predictions, in place.

    Each row's numbers are added one after the other, tree by tree, so that they do not
    depend on which rows stand beside it.

    Parameters
    ----------
    raw : ndarray of shape (n_outputs, n_rows)
    leaves : ndarray of shape (n_rows, n_outputs)
    values : ndarray of shape (n_vertices,)
    """
    for output in range(len(raw)):
        raw[output] += values[leaves[:, output]]


def scaled_gradients(
    raw: np.ndarray, labels: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Gradients and hessians times `SCALE`, rounded; of float64, for `np.bincount`.

    Parameters
    ----------
    raw : ndarray of shape (n_outputs, n_rows)
        Raw predictions.
    labels : ndarray of int of shape (n_rows,)
        Index of each row's class.

    Returns
    -------
    gradients, hessians : ndarray of shape (n_outputs, n_rows)
    """
    if len(raw) == 1:
        is_class = labels[None] == 1
    else:
        is_class = labels == np.arange(len(raw))[:, None]
    probabilities = probabilities_of(raw)
    gradients = np.rint((probabilities - is_class) * SCALE)
    hessians = np.rint(probabilities * (1.0 - probabilities) * SCALE)
    return gradients, hessians


def probabilities_of(raw: np.ndarray) -> np.ndarray:
    """Return probabilities of the second of two classes, or of each of more.

    They have the shape (n_outputs, n_rows). A row has the same ones, to the bit,
    whichever rows stand beside it.
    """
    if len(raw) == 1:
        small = np.exp(-np.abs(raw))  # which does not overflow
        return np.where(raw >= 0, 1.0, small) / (1.0 + small)
    probabilities = np.exp(raw - raw.max(axis=0))
    total = np.zeros(raw.shape[1])
    for exponential in probabilities:  # numpy sums those of one row in another order
        total += exponential
    return probabilities / total
