"""What was tried, what was taken, and what to doubt."""

from dataclasses import dataclass

import numpy as np


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
        Reasons not to trust it.
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
        head = f"{'':2}{'candidate':26}{'accuracy':>9}{'log-loss':>9}"
        lines = [f"{head}{'MB':>7}{'s':>6}"]
        for own in self.table:
            chosen = "*" if own["name"] == self.name else ""
            line = f"{chosen:2}{own['name']:26}"
            if own["error"]:
                line += f" {own['error'][:60]}"
            elif own["accuracy"] is not None:
                line += f"{own['accuracy']:9.3f}{own['log_loss']:9.3f}"
                line += f"{own['bytes'] / 1e6:7.1f}{own['seconds']:6.1f}"
            lines.append(line)
        return "\n".join([*lines, *(f"Doubt: {own}" for own in self.doubts)])


def smallest_of_the_best(both, n_rows: int, losses) -> tuple[int, np.ndarray]:
    """The first within a standard error of the best; errors of what that has more."""
    right = np.diag(both)  # of `both`, numbers of rows that two models label right
    best = np.lexsort((losses, -right))[0]
    more = (right[best] - right) / n_rows
    squares = (right[best] + right - 2 * both[best]) / n_rows
    errors = np.sqrt(np.maximum(squares - more**2, 0.0) / n_rows)
    return int(np.argmax(more <= errors)), errors
