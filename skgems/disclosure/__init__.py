"""The rule of disclosure: what of a node's rows may leave, and how it is told.

A rule is a `Disclosure`, or None where single rows may be known. Where two parties have
a rule, the stricter one holds.

>>> from skgems.disclosure import Disclosure
>>> Disclosure(min_rows=20).stricter(Disclosure(cell=5))
Disclosure(rows=3, cell=5, unknowns=0.5, min_rows=20)

Whether a given row took part can be guessed under any rule, here from the means and
products of four columns of 50 rows:

>>> from skgems.disclosure import guess_advantage
>>> round(guess_advantage(4 * 7 / 2, 50), 2)
0.21
"""

from ._cells import clamped
from ._group_sums import indicator
from ._guess import guess_advantage, told_share
from ._leverages import ALONE, BELOW, CONCERNED, numbered
from ._one_pass import KeptPasses
from ._rule import (
    Disclosure,
    disclosure_of,
    disclosure_of_both,
    disclosure_of_min_rows,
    disclosure_within,
    is_as_strict,
    laxest_disclosure,
    min_rows_of,
    stricter_disclosure,
)
from ._sums import GroupLeverages, GroupSums, KeptRows, lowered_squares
from ._tables import Span, weights_of_tables
from ._told import (
    LEAST_FACTOR,
    Rows,
    Told,
    gradient_holds,
    has_room_for_products,
    products_hold,
    told_of,
)

# `Disclosure` is public as a name of the package itself.
__all__ = ["guess_advantage", "told_share"]
