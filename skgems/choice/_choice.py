"""What was tried, what was taken, and what to doubt."""

from dataclasses import dataclass
from textwrap import wrap
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from pandas import DataFrame

_WIDTH = 88  # characters of a printed line
_NAME_WIDTH = 26  # characters of the column of names: the longest name has 26
_LEGEND = (
    "* is the candidate that was taken: the smallest within a standard error of the "
    "best. Accuracy and log-loss are of rows that did not make the model. MB are "
    "megabytes (1e6 bytes) that all nodes together sent for the candidate, s seconds "
    "that it took."
)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What was tried, what was taken, and what to doubt.

    Attributes
    ----------
    name : str
        Name of the candidate that was taken.
    table : tuple of dict
        One entry for each candidate, the smallest model first. "accuracy" and
        "log_loss" are of rows that did not make the candidate (None: it was not
        tried), "factor" is the factor on its logits that gives the least log-loss,
        and "standard_error" belongs to the difference between its accuracy and the
        best one. Further keys are "name", "looks_at_members", "bytes" (that nodes
        sent), "seconds" and "error" (empty where the candidate could be made).
    n_rows : int
        Number of rows that judged the candidates.
    doubts : tuple of str
        Reasons not to trust the choice: few rows that judged, candidates that could
        not be made, columns that were left out, warnings of the fit.
    """

    name: str
    table: tuple
    n_rows: int
    doubts: tuple = ()

    @property
    def looks_at_members(self) -> bool:
        """Whether the fitted local estimators are part of what was taken."""
        return self._entry["looks_at_members"]

    @property
    def factor(self) -> float:
        """The factor on the logits of the candidate taken that gives least log-loss."""
        return self._entry.get("factor") or 1.0

    @property
    def _entry(self) -> dict:
        """The entry of the candidate that was taken."""
        return next(entry for entry in self.table if entry["name"] == self.name)

    def to_frame(self) -> "DataFrame":
        """The table as a DataFrame, with a row for each candidate."""
        import pandas as pd

        return pd.DataFrame(list(self.table)).set_index("name")

    def __str__(self) -> str:
        name = f"{'candidate':{_NAME_WIDTH}}"
        lines = [f"{'':2}{name}{'accuracy':>9}{'log-loss':>9}{'MB':>7}{'s':>6}"]
        for entry in self.table:
            lines.append(line_of(entry, is_taken=entry["name"] == self.name))
        doubts = [f"Doubt: {doubt}" for doubt in self.doubts]
        for paragraph in [_LEGEND, *doubts]:
            lines += _wrapped(paragraph, indent=2)
        return "\n".join(lines)


def line_of(entry: dict, *, is_taken: bool = False) -> str:
    """A candidate's line of the table; more where the reason of a failure is long."""
    start = f"{'*' if is_taken else '':2}{entry['name']:{_NAME_WIDTH}}"
    if entry["error"]:
        reason = f"{start} not made: {entry['error']}"
        return "\n".join(_wrapped(reason, indent=4))
    if entry["accuracy"] is None:
        return start.rstrip()
    return (
        f"{start}{entry['accuracy']:9.3f}{entry['log_loss']:9.3f}"
        f"{entry['bytes'] / 1e6:7.1f}{entry['seconds']:6.1f}"
    )


def _wrapped(paragraph: str, *, indent: int) -> list[str]:
    """Lines of a paragraph, in which no word or name of a column is cut."""
    return wrap(
        paragraph,
        _WIDTH,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def smallest_of_the_best(
    n_both_right: np.ndarray, n_rows: int, losses
) -> tuple[int, np.ndarray]:
    """The first candidate within a standard error of the best one.

    Parameters
    ----------
    n_both_right : ndarray of shape (n_candidates, n_candidates)
        How many rows two candidates both label right; the diagonal has those of one.
    n_rows : int
        How many rows judged.
    losses : array-like of shape (n_candidates,)
        Log-losses, which decide between candidates that label as many rows right.

    Returns
    -------
    index : int
        Index of the first candidate that is near enough.
    errors : ndarray of shape (n_candidates,)
        Standard errors of the differences in accuracy to the best candidate.
    """
    n_right = np.diag(n_both_right)
    best = np.lexsort((losses, -n_right))[0]
    # On a row the best candidate is right and another is wrong (+1), or the other way
    # round (-1), or both are alike (0): mean and mean square of these numbers.
    mean = (n_right[best] - n_right) / n_rows
    mean_square = (n_right[best] + n_right - 2 * n_both_right[best]) / n_rows
    errors = np.sqrt(np.maximum(mean_square - mean**2, 0.0) / n_rows)
    return int(np.argmax(mean <= errors)), errors
