"""What can still be guessed from sums: whether a row that somebody knows took part.

Of n rows the sums of k numbers are known. Numbers that have mean 0, variance 1 and no
correlations among all people have sums of variance n, and a row z that took part moves
their means by z. So the logarithm of the likelihood ratio is about normal, of mean
plus or minus k / (2 n) and variance k / n. A guess by its sign is right for a share of
rows that took part, and a share of others, that together exceed 1 by the *advantage*

    2 Phi(sqrt(k / n) / 2) - 1.

Sums of different rows add up what they say: k / n becomes the sum of their k / n.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr


def guess_advantage(n_numbers: ArrayLike, n_rows: ArrayLike) -> float:
    """Return how much better than chance it can be guessed whether a row took part.

    Parameters
    ----------
    n_numbers : int or array-like of shape (n_sums,)
        How many numbers are told; ``d (d + 3) / 2`` are the means and products of d
        columns.
    n_rows : float or array-like of shape (n_sums,)
        Of how many rows these numbers are sums.

    Returns
    -------
    advantage : float
        0: no better than chance; 1: each guess is right.

    Examples
    --------
    >>> from skgems.disclosure import guess_advantage
    >>> round(guess_advantage(10 * 13 / 2, 30), 2)  # ten columns of 30 rows
    0.54
    """
    k_over_n = np.sum(np.asarray(n_numbers) / np.asarray(n_rows, dtype=np.float64))
    return float(2.0 * ndtr(np.sqrt(k_over_n) / 2.0) - 1.0)


def told_share(n_numbers: float, n_rows: float, n_columns: int) -> float:
    """Return the numbers told of rows over the numbers that these rows are.

    Parameters
    ----------
    n_numbers : float
    n_rows : float
    n_columns : int
        Columns of the table, before any front.

    Returns
    -------
    share : float
        Below 1 there are fewer equations than unknowns.

    Examples
    --------
    >>> from skgems.disclosure import told_share
    >>> told_share(10 * 13 / 2, 30, 10)
    0.21666666666666667
    """
    return float(n_numbers / (n_rows * n_columns))
