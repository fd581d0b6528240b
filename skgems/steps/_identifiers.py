"""Which columns tell rows apart, as the number of a patient does.

Such a column says nothing of a new row, and its values are what a node must not send.
A node judges its columns by its own rows and tells no more than a word for each:

- Texts identify rows if most of them occur once. By Good and Turing, the share of rows
  whose value occurs once estimates the share of new rows whose value nobody has seen.
- Whole numbers identify rows if no two are equal, although rows drawn at random would
  have ties: of n draws from R numbers none are equal with a chance of at most
  exp(-n (n - 1) / (2 R)). If they rise from row to row, as after sorting, or fall, a
  weaker proof will do, or equal steps. A measurement that a table is sorted by has
  ties, or a range so large that none are expected: of that a doubt is all there is.
- Other numbers are measurements.

Where several rows are of one patient, the number of a patient does not tell rows apart,
but says which of them belong together (`repeated_identifiers`).
"""

from collections import Counter
from collections.abc import Sequence
from numbers import Number
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import issparse, spmatrix

if TYPE_CHECKING:  # pandas is an extra
    import pandas

# What a node says of a column.
IDENTIFIES = "identifies rows"
IN_ORDER = "in order"  # whole numbers without ties that may also be a measurement
UNCLEAR = "too few rows"
DESCRIBES = "describes rows"
NOT_USED = "not used"  # the node's classifier drops it by name, so it does not leave
ROLES = (IDENTIFIES, IN_ORDER, UNCLEAR, DESCRIBES, NOT_USED)
LEFT_OUT = (IDENTIFIES, NOT_USED)

# Share of rows with a text that no other row has, from which on texts identify rows.
# It needs some four and a half times as many equally frequent categories as rows; with
# as many categories as rows it is 0.37, with twice as many 0.61.
_SHARE_OF_SINGLE_TEXTS = 0.8
# Rows with a text, from which on this share is not reached by chance: by twice as many
# categories as rows in 13 of 100 columns of 20 rows, in 2 of 50, in none of 200. Rows
# from which on numbers without ties are no chance, if rows are numbered without a gap:
# n rows have n possible numbers, and exp(-(n - 1) / 2) is small enough. And values of a
# column that says which rows belong together: with fewer it is rather a category.
_FEWEST = 20
# Chance at which something of a column is no chance: that no two of some random whole
# numbers are equal, whose order may be any, so that they identify rows; and that rows
# with the same value agree in another column, as patients in their sex.
_CHANCE = 1e-6
# The first where numbers rise, or fall, from each row to the next, as they do if a
# table was sorted by them.
_CHANCE_IN_ORDER = 0.05  # a weaker proof will do, since the order is another
# On average a value of such a column has between so many rows.
_ROWS_OF_REPEATED = (1.2, 50.0)
# The numbers of rows that values have vary so little, as the variance over the mean,
# where each patient has as many visits. Of values that occur by chance, two times on
# average, it is 0.6, and more of others. Values that mostly occur once are as even.
_EVEN = 0.1
_ROWS_OF_EVEN = 2.0  # on average, at least
# Columns that are compared with all others: a table has few of identifiers, but an
# image has hundreds of whole numbers with as many values.
_MOST_COMPARED = 10


def column_roles(X: "pandas.DataFrame | np.ndarray | spmatrix") -> tuple[str, ...]:
    """Return the role of each column, one of `ROLES`, by the rows of one node."""
    if issparse(X):  # a column of identifiers has no zeros to leave out
        return (DESCRIBES,) * X.shape[1]
    if hasattr(X, "columns"):
        return tuple(_role(column.to_numpy()) for _, column in X.items())
    return tuple(map(_role, X.T))


def agreed_roles(roles_by_node: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Return the role of each column by a vote of nodes, one role a node and column.

    More nodes have to say so than say that the column describes rows; nodes of too few
    rows do not vote. One node is enough for a column that is not used, since it would
    send nothing about it.
    """
    agreed = []
    for roles in zip(*roles_by_node, strict=True):  # of one column
        if NOT_USED in roles:
            agreed.append(NOT_USED)
            continue
        n_identify = roles.count(IDENTIFIES)
        n_in_order = roles.count(IN_ORDER)
        n_describe = roles.count(DESCRIBES)
        if n_identify > n_describe:
            agreed.append(IDENTIFIES)
        elif n_identify + n_in_order > n_describe:
            agreed.append(IN_ORDER)
        elif n_describe:
            agreed.append(DESCRIBES)
        else:
            agreed.append(UNCLEAR)
    return tuple(agreed)


def role_of_categories(counts: np.ndarray) -> str:
    """Return the role of a column of categories, by how many rows have each value."""
    n_rows = float(np.sum(counts))
    n_single = float(np.sum(np.asarray(counts) == 1))
    if n_rows < _FEWEST:
        return UNCLEAR
    return IDENTIFIES if n_single >= _SHARE_OF_SINGLE_TEXTS * n_rows else DESCRIBES


def _role(column: np.ndarray) -> str:
    """Return the role of a column, (n_rows,), by its values."""
    if column.dtype.kind == "O":
        texts = [value for value in column if isinstance(value, str)]
        if texts:
            return role_of_categories(np.array(list(Counter(texts).values())))
        column = _as_floats(column)
    if column.dtype.kind not in "iuf":
        return DESCRIBES
    if column.dtype.kind == "f":
        column = column[np.isfinite(column)]
    return _role_of_numbers(column)


def _as_floats(objects: np.ndarray) -> np.ndarray:
    """Numbers among objects, such as those of a column with pandas.NA."""
    numbers = [
        value
        for value in objects
        if isinstance(value, int | float | np.number) and not isinstance(value, bool)
    ]
    return np.array(numbers, dtype=np.float64)


def _role_of_numbers(column: np.ndarray) -> str:
    """Return the role of finite numbers; the module's head derives the chances."""
    # Among a few rows most measurements have ties or fractions.
    if _has_ties_or_fractions(column[:_FEWEST]):
        return DESCRIBES
    if _has_ties_or_fractions(column):
        return DESCRIBES
    n = len(column)
    # From fewer rows this chance is not reached, numbered without a gap: see _FEWEST.
    if n < 1.0 - 2.0 * np.log(_CHANCE_IN_ORDER):
        return UNCLEAR
    rising = np.sort(column)
    n_possible = float(rising[-1]) - float(rising[0]) + 1.0
    chance_of_no_ties = np.exp(-n * (n - 1) / (2.0 * n_possible))
    if chance_of_no_ties < _CHANCE:
        return IDENTIFIES
    if np.array_equal(column, rising) or np.array_equal(column[::-1], rising):
        has_equal_steps = len(np.unique(np.diff(rising))) == 1
        if has_equal_steps or chance_of_no_ties < _CHANCE_IN_ORDER:
            return IDENTIFIES
        return IN_ORDER
    return UNCLEAR if n < _FEWEST else DESCRIBES


def _has_ties_or_fractions(column: np.ndarray) -> bool:
    return len(np.unique(column)) < len(column) or bool(np.any(column % 1 != 0))


def repeated_identifiers(
    X: "pandas.DataFrame | np.ndarray | spmatrix", nodes: np.ndarray | None = None
) -> list[int]:
    """Places of columns that say which rows belong together, as visits of a patient.

    These hold texts or whole numbers, of which each value has several rows. Either all
    values have about as many rows, or rows with the same value agree in some other
    column, as the visits of a patient do in the sex. ``nodes``, (n_rows,), has the node
    of each row: two nodes may number their patients alike.
    """
    is_table = len(X.shape) == 2 and not issparse(X)
    if not is_table or X.shape[0] < _FEWEST:
        return []
    codes = _codes_of_columns(X)
    group_by_place = _groups_by_place(codes, nodes)
    most_groups_first = sorted(group_by_place, key=lambda k: -group_by_place[k].max())
    return sorted(
        place
        for place in most_groups_first[:_MOST_COMPARED]
        if _are_even(group_by_place[place])
        or _agrees_with_another(group_by_place[place], place=place, codes=codes)
    )


def _codes_of_columns(X: "pandas.DataFrame | np.ndarray") -> list[np.ndarray | None]:
    """A number for each value of each column; None for measurements."""
    columns = X.T
    if hasattr(X, "iloc"):
        columns = [X.iloc[:, place] for place in range(X.shape[1])]
    return [_codes_of_values(np.asarray(column)) for column in columns]


def _groups_by_place(
    codes: Sequence[np.ndarray | None], nodes: np.ndarray | None
) -> dict[int, np.ndarray]:
    """The group of each row by the columns at some places, if they may be of groups."""
    node_codes = 0
    if nodes is not None:
        node_codes = np.unique(nodes, return_inverse=True)[1]
    group_by_place = {}
    for place, values in enumerate(codes):
        if values is None:
            continue
        pairs = values + (values.max() + 1) * node_codes
        group = np.unique(pairs, return_inverse=True)[1]
        if _may_repeat(group):
            group_by_place[place] = group
    return group_by_place


def _codes_of_values(column: np.ndarray) -> np.ndarray | None:
    """Return a number for each value of texts and whole numbers; None of others.

    The numbers are in the order of these values.
    """
    if column.dtype.kind in "Mm":
        return None
    if column.dtype.kind == "O" and not all(map(_is_code, column.tolist())):
        return None
    if column.dtype.kind in "iuf":
        if not np.all(np.isfinite(column)) or np.any(column % 1 != 0):
            return None
        return np.unique(column, return_inverse=True)[1]
    return np.unique(column.astype(str), return_inverse=True)[1]


def _is_code(value: object) -> bool:
    """Report whether a value may number something, or is missing; no date is one."""
    is_missing = value is None or type(value).__name__ == "NAType"  # that of pandas
    return is_missing or isinstance(value, str | Number)


def _may_repeat(group: np.ndarray) -> bool:
    """Report whether there are enough groups, with several rows in each."""
    n_groups = int(group.max()) + 1
    least, most = _ROWS_OF_REPEATED
    return n_groups >= _FEWEST and least <= len(group) / n_groups <= most


def _are_even(group: np.ndarray) -> bool:
    """Report whether groups have similar numbers of rows, more so than by chance."""
    sizes = np.bincount(group)
    mean = float(sizes.mean())
    return mean >= _ROWS_OF_EVEN and float(sizes.var()) < _EVEN * mean


def _agrees_with_another(
    group: np.ndarray, *, place: int, codes: Sequence[np.ndarray | None]
) -> bool:
    """Report whether another column is constant within each group, and not by chance.

    Its values must not rise, or fall, with those of the groups, as age groups do with
    the age.
    """
    order = np.argsort(group, kind="stable")
    is_same_group = np.diff(group[order]) == 0
    for other_place, values in enumerate(codes):
        if other_place == place or values is None:
            continue
        steps = np.diff(values[order])
        if np.any(steps[is_same_group]) or np.all(steps >= 0) or np.all(steps <= 0):
            continue
        shares = np.bincount(values) / len(values)
        chance = np.sum(shares**2) ** np.count_nonzero(is_same_group)
        if chance < _CHANCE:
            return True
    return False
