"""The protocol of a front's step: what nodes are asked for it, and how it is fitted.

A front is fitted without rows at one place. For each of its steps all nodes tell a
*statistic* of their columns; these add up; the *state* is what is computed of the sum,
and all that is needed to fit the step. States travel: nodes receive them from the
server, so that everything about them is declared here and checked before it is used.

To add a step, subclass `Kind` in ``_kinds.py`` and list it in `KINDS` there.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from sklearn.base import BaseEstimator, clone

from ._bins import Bins
from ._columns import Table
from ._contradictions import NodeRows

# The smallest and the largest value of each column: no statistic, since these are the
# values of single rows. Agreed bounds stand for them.
EXTREMES = "extremes"
# Letters of the types of arrays that hold real numbers.
_REAL_NUMBERS = "fiu"


class NotPooledError(ValueError):
    """A transformer can be fitted neither from sums nor by a seed.

    It would need the rows of all nodes in one place; see :ref:`fronts` for what can be
    used instead.
    """


@dataclass(frozen=True, kw_only=True)
class StateField:
    """One field of a state: what it is, and of which shape."""

    says: str  # in one sentence
    # Names of its axes; () is one number. An axis has one length in a whole state.
    shape: tuple[str, ...] = ("column",)
    # A list may hold texts, truth values and None.
    form: Literal["numbers", "list", "truth value"] = "numbers"

    def problem(self, value: object, lengths: dict[str, int]) -> str:
        """Describe the fault of a value; return "" for a value without fault.

        ``lengths`` are those of the axes of the fields before, and are added to.
        """
        if self.form == "truth value":
            return "" if isinstance(value, bool) else "must be a truth value"
        if self.form == "list":
            if not isinstance(value, list):
                return "must be a list"
            sizes: tuple[int, ...] = (len(value),)
        else:
            try:
                array = np.asarray(value)
            except ValueError:  # lists of different lengths
                return "must be an array of numbers"
            if array.dtype.kind not in _REAL_NUMBERS:
                return "must hold numbers"
            sizes = array.shape
        if len(sizes) != len(self.shape):
            return f"must have {len(self.shape)} axes, not {len(sizes)}"
        for axis, size in zip(self.shape, sizes, strict=True):
            expected = lengths.setdefault(axis, size)
            if size != expected:
                return f"has {size} of the axis {axis!r}, other fields {expected}"
        return ""


class Kind:
    """How one kind of transformer is fitted without rows at one place.

    The defaults are those of a transformer that is a function of its parameters and
    of the columns alone, as a `Normalizer` is. ``step`` is, in all methods, the
    unfitted transformer with its parameters; a method changes nothing in it.
    """

    # ---- what is declared ------------------------------------------------------------

    #: Whether each column comes out by itself, so that bounds of it are still bounds.
    by_column: bool = False

    #: Whether it lays edges into columns, so that rows are in bins; see :meth:`bins`.
    lays_edges: bool = False

    #: Name in `STATISTICS` of what nodes tell of their columns; `EXTREMES`: nothing,
    #: since bounds are agreed; None: nothing.
    statistic: str | None = None

    #: The fields of the state, by name.
    fields: Mapping[str, StateField] = {}

    def statistic_for(self, step: BaseEstimator) -> str | None:
        """Return the statistic that is needed under the parameters of a step."""
        return self.statistic

    def fields_for(self, step: BaseEstimator) -> Mapping[str, StateField]:
        """Return the fields of the state under the parameters of a step."""
        return {} if self.statistic_for(step) is None else self.fields

    def takes_texts(self, step: BaseEstimator) -> bool:
        """Return whether columns of texts may enter the step."""
        return False

    # ---- how it is fitted ------------------------------------------------------------

    def state(self, step: BaseEstimator, pooled: Mapping) -> dict:
        """Return the state, given the statistic of all rows."""
        return dict(pooled)

    def fit(self, step: BaseEstimator, example: Table, state: Mapping) -> BaseEstimator:
        """Return the step fitted to a state; ``example`` is a row that may enter it."""
        return clone(step).fit(example)

    def error(self, step: BaseEstimator, state: Mapping) -> float:
        """Return how far a fitted parameter may be off, in units of the column."""
        # The width of a bin, or how far the likeliest power may be.
        return float(np.max(state.get("width", 0.0), initial=0.0))

    def doubt(self, step: BaseEstimator, state: Mapping, labels: list) -> str:
        """Return why a fitted step may be far from that of all rows, "" if it is not.

        ``labels`` are the names, or places, of the columns that enter.
        """
        return ""

    def empty_columns(self, step: BaseEstimator, state: Mapping) -> list[int]:
        """Return the places of columns that the fitted step leaves out.

        An encoder leaves out those of which nodes told no category.
        """
        return []

    def identifiers(self, replies: Iterable[Mapping], labels: list) -> list:
        """Return those labels of columns that identify rows, and should not enter."""
        return []

    def bins(self, fitted: BaseEstimator) -> Bins:
        """Return the bins that a fitted step lays into columns, if it lays edges."""
        raise NotImplementedError

    # ---- what is refused -------------------------------------------------------------

    def check(self, step: BaseEstimator) -> None:
        """Raise NotPooledError for parameters under which it needs rows itself."""

    def check_pooled(
        self, step: BaseEstimator, pooled: Mapping, columns: Sequence
    ) -> None:
        """Raise ValueError, naming columns, if no step can be fitted to a statistic."""

    def check_state(self, step: BaseEstimator, state: Mapping) -> None:
        """Raise ValueError for a state that has not the fields that are declared."""
        check_fields(type(step).__name__, expected=self.fields_for(step), state=state)

    def contradiction(
        self, fitted: BaseEstimator, state: Mapping, rows: NodeRows
    ) -> str:
        """Return why a state cannot be of a node's rows among others, "" if it can."""
        return ""

    # ---- how large it is, which is asked before a step is made or run ----------------

    def n_columns_out(self, step: BaseEstimator, n_columns: int, state: Mapping) -> int:
        """Return how many columns come out where ``n_columns`` enter."""
        return n_columns

    def n_weights(self, step: BaseEstimator, n_columns: int) -> int:
        """Return how many numbers are drawn, and multiplied with each row."""
        return 0

    def n_numbers(self, step: BaseEstimator, n_columns: int) -> int:
        """Return how many numbers the step holds, however many rows there are."""
        return self.n_weights(step, n_columns)

    def n_working_numbers(self, step: BaseEstimator, n_columns: int) -> int:
        """Return how many numbers a row takes meanwhile, beside what comes out."""
        return 0

    def is_sparse(self, step: BaseEstimator) -> bool:
        """Return whether what comes out is sparse: one number for each column in."""
        return False


def check_fields(
    name: str, *, expected: Mapping[str, StateField], state: Mapping
) -> None:
    """Raise ValueError unless a state has the expected fields, and no others.

    ``name`` says in the error whose state it is.
    """
    unknown = [field for field in state if field not in expected]
    if unknown:
        raise ValueError(
            f"the state of {name} has the field {unknown[0]!r:.40}, which such a step "
            f"does not have; its fields are {sorted(expected)}"
        )
    missing = [field for field in expected if field not in state]
    if missing:
        raise ValueError(f"the state of {name} lacks the field {missing[0]!r}")
    lengths: dict[str, int] = {}
    for field, declared in expected.items():
        problem = declared.problem(state[field], lengths)
        if problem:
            raise ValueError(f"the field {field!r} of the state of {name} {problem}")
