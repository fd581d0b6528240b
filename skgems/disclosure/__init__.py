"""The rule of disclosure: what of a node's rows may leave, and how it is told.

A rule is a `Disclosure`, or None where single rows may be known. Where two parties have
a rule, the stricter one holds.

>>> from skgems.disclosure import Disclosure
>>> Disclosure(min_rows=20).stricter(Disclosure(cell=5))
Disclosure(rows=3, cell=5, unknowns=0.5, min_rows=20)
"""

from ._cells import clamped
from ._leverages import ALONE
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
from ._sums import GroupSums, KeptRows, lowered_squares
from ._told import LEAST_FACTOR, Rows, Told, gradient_holds, told_of

__all__ = ["Disclosure"]
