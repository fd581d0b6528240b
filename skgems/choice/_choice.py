"""What was tried, what was taken, and what to doubt."""

from dataclasses import dataclass
from textwrap import wrap

import numpy as np

_WIDTH = 88  # characters of a printed line
_NAME_WIDTH = 26  # of the name of a candidate, of which the longest has 26
_LEGEND = (
    "* is the candidate that was taken: the smallest within a standard error of the "
    "best. Accuracy and log-loss are of rows that did not make the model. MB are "
    "megabytes (1e6 bytes) that all nodes together sent for the candidate, s seconds "
    "that it took."
)


@dataclass(frozen=True)
class Choice:
    """What was tried, what was taken, and what to doubt.

    Attributes
    ----------
    name : str
        Of the candidate that was taken.
    table : tuple of dict
        One for each candidate, the smallest model first: "name", "accuracy" and
        "log_loss" on rows that did not make it (None: not tried), the "factor" on its
        logits under which this is least, the "standard_error" of what the best has
        more, "looks_at_members", "bytes" that nodes sent, "seconds", and the "error".
    n_rows : int
        Rows that judged.
    doubts : tuple of str
        Reasons not to trust it: few rows that judged, candidates that could not be
        made, columns that were left out, warnings of the fit.
    """

    name: str
    table: tuple
    n_rows: int
    doubts: tuple = ()

    @property
    def looks_at_members(self) -> bool:
        """Whether the fitted local estimators are part of what was taken."""
        return self._own["looks_at_members"]

    @property
    def factor(self) -> float:
        """On the logits of what was taken: that under which the rows are likeliest."""
        return self._own.get("factor") or 1.0

    @property
    def _own(self) -> dict:
        return next(own for own in self.table if own["name"] == self.name)

    def to_frame(self):
        """The table as a DataFrame."""
        import pandas as pd

        return pd.DataFrame(list(self.table)).set_index("name")

    def __str__(self):
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


def smallest_of_the_best(both, n_rows: int, losses) -> tuple[int, np.ndarray]:
    """The first within a standard error of the best; errors of what that has more."""
    right = np.diag(both)  # of `both`, numbers of rows that two models label right
    best = np.lexsort((losses, -right))[0]
    more = (right[best] - right) / n_rows
    squares = (right[best] + right - 2 * both[best]) / n_rows
    errors = np.sqrt(np.maximum(squares - more**2, 0.0) / n_rows)
    return int(np.argmax(more <= errors)), errors
