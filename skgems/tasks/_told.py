"""How many numbers sums are, and of how many rows each is a sum."""

from collections.abc import Iterator, Mapping

import numpy as np

from ..messages import ToldNumbers
from ..moments import ClassMoments

# What `Task.told` yields for a reply.
ToldParts = Iterator[ToldNumbers]


def summed(sizes: Mapping[object, float], n_numbers: float) -> ToldNumbers:
    """Return numbers that are sums over all rows of some classes."""
    return ToldNumbers(
        rows={(label, None): size for label, size in sizes.items()},
        n_numbers=n_numbers,
        of_a_row=n_numbers / sum(sizes.values()),
    )


def each_of_one_row(n_numbers: int, n_rows: float) -> ToldNumbers:
    """Return numbers of which each is of a single one of some rows."""
    return ToldNumbers(
        rows={(None, None): n_rows}, n_numbers=n_numbers, of_a_row=np.inf
    )


def n_in_gradient(gradient: np.ndarray) -> float:
    """Return how many numbers a gradient is: it sums to 0 over the outputs."""
    return len(gradient) * (gradient.shape[1] - 1)


def told_of_means(
    moments: ClassMoments, c: int, *, label: object, n_rows: float
) -> ToldNumbers:
    """Return the means of a class, or of its clusters, and the squares about these.

    Squares that are the diagonal of a scatter are counted there.
    """
    counts = moments.counts[moments.columns == c]
    has_own = c in moments.groups
    has_squares = len(counts) > 1 and moments.part_squares is not None
    n_of_part = moments.n_features * (1 + has_squares)
    n_of_class = 0
    if has_squares:  # their sum over the clusters is the diagonal
        n_of_class = -moments.n_features if has_own else 0
    elif moments.squares is not None and not has_own:
        squares = moments.class_squares()[c]
        n_of_class = int((squares > 0).sum())
    smallest = n_rows * counts.min() / counts.sum()
    return ToldNumbers(
        rows={(label, None): n_rows},
        n_numbers=n_of_part * len(counts) + n_of_class,
        of_a_row=n_of_part / smallest + n_of_class / n_rows,
    )


def n_products(moments: ClassMoments, g: int) -> float:
    """Return how many products, and squares, a scatter has that are not 0."""
    diagonal = moments.scatter[g]
    if not moments.is_diagonal:
        diagonal = diagonal.diagonal()
    varies = diagonal > 0
    n_squares = int(varies.sum())
    is_shared = moments.groups[g] < 0
    if moments.roots is not None:
        rank = int((moments.root_groups == g).sum())
        return min(
            rank * n_squares - rank * (rank - 1) / 2, n_squares * (n_squares + 1) / 2
        )
    if moments.is_diagonal:
        return n_squares
    is_told = varies
    if is_shared and moments.block is not None:
        is_told = varies & moments.block
    n_told = int(is_told.sum())
    if is_shared and moments.squares is not None:  # the diagonal is their sum
        n_squares = 0
    return n_squares + n_told * (n_told - 1) / 2
