"""What was tried, what was taken, and what to doubt."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from operator import itemgetter
from textwrap import wrap
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import make_pipeline

from ..base import BaseAggregator, silenced
from ..federation import nodes_of_many_rows
from ..moments import INDEX_OF_FACTOR_ONE, LOGIT_FACTORS, told_losses
from ..progress import say

if TYPE_CHECKING:
    from pandas import DataFrame

# With fewer rows than these, an accuracy of 0.9 has a standard error above 2 points,
# which is more than most candidates differ by.
_FEW_ROWS = 200
_WIDTH = 88  # characters of a printed line
_NAME_WIDTH = 26  # characters of the column of names: the longest name has 26
_LEGEND = (
    "* is the candidate that was taken: the smallest within a standard error of the "
    "best. Accuracy and log-loss are of rows that did not make the model. MB are "
    "megabytes (1e6 bytes) that all nodes together sent for the candidate, s seconds "
    "that it took."
)


@dataclass(frozen=True, eq=False)
class Candidate:
    """An unfitted aggregator, and the transformers that stand before it."""

    name: str
    aggregator: BaseAggregator
    steps: tuple[BaseEstimator, ...] = ()
    of_members: bool = False  # whether it needs the fitted estimators

    @property
    def is_tempered(self) -> bool:
        """Whether its logits can be multiplied by a factor after the fit."""
        return getattr(self.aggregator, "_can_temper", False)

    @property
    def whole(self) -> BaseAggregator:
        """A clone of the aggregator that has the transformers as its front."""
        aggregator = clone(self.aggregator)
        if not self.steps:
            return aggregator
        front = self.steps[0] if len(self.steps) == 1 else make_pipeline(*self.steps)
        return aggregator.set_params(front=clone(front))

    def new_entry(self) -> dict:
        """Its entry in the table of a choice, before it is judged."""
        return {
            "name": self.name,
            "looks_at_members": self.of_members,
            "accuracy": None,
            "log_loss": None,
            "factor": None,
            "standard_error": None,
            "bytes": 0,
            "seconds": 0.0,
            "error": "",
        }


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
        return self._entry["factor"] or 1.0

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
            lines.append(_line_of(entry, is_taken=entry["name"] == self.name))
        doubts = [f"Doubt: {doubt}" for doubt in self.doubts]
        for paragraph in [_LEGEND, *doubts]:
            lines += _wrapped(paragraph, indent=2)
        return "\n".join(lines)


class Trials:
    """Candidates that are tried, the smallest first, and the table of what came."""

    def __init__(self, candidates: list[Candidate]) -> None:
        self.candidates = candidates
        self.table = [candidate.new_entry() for candidate in candidates]

    @property
    def able(self) -> list[int]:
        """Indices of the candidates that could be made."""
        return [k for k, entry in enumerate(self.table) if not entry["error"]]

    @contextmanager
    def making(self, k: int) -> Iterator[dict]:
        """Time what is done for a candidate, and note why it cannot be done, if so."""
        entry = self.table[k]
        start = perf_counter()
        try:
            with silenced():
                yield entry
        except (ValueError, TypeError) as failure:
            entry["error"] = str(failure)
            say(_line_of(entry))
        finally:
            entry["seconds"] += perf_counter() - start

    def enter(self, k: int, *, n_right: float, losses: np.ndarray, n_rows: int) -> None:
        """Enter what the rows say of a candidate that was made; print its line.

        ``losses`` are its log-losses under each of `LOGIT_FACTORS`, summed over rows.
        """
        entry = self.table[k]
        # Nodes do not tell losses under factors that make a model too steep.
        mean_losses = told_losses(losses / n_rows)
        best = INDEX_OF_FACTOR_ONE
        if self.candidates[k].is_tempered:
            best = int(np.argmin(mean_losses))
        entry["accuracy"] = n_right / n_rows
        entry["log_loss"] = float(mean_losses[best])
        entry["factor"] = float(LOGIT_FACTORS[best])
        say(_line_of(entry))

    def choice(
        self, *, n_both_right: np.ndarray, n_judging: Mapping[str, int]
    ) -> Choice:
        """The choice among the candidates that could be made, when all are entered.

        ``n_both_right``, (n_able, n_able), has how many rows two of these both label
        right, and ``n_judging`` how many rows of each node judged, by its name.
        """
        failures = self._failures()
        entries = [self.table[k] for k in self.able]
        if not entries:
            reasons = [f"{names}: {reason}" for reason, names in failures.items()]
            raise ValueError(f"No candidate can be made. {' '.join(reasons)}")
        n_rows = sum(n_judging.values())
        log_losses = [entry["log_loss"] for entry in entries]
        place, errors = smallest_of_the_best(n_both_right, n_rows, log_losses)
        for entry, error in zip(entries, errors, strict=True):
            entry["standard_error"] = float(error)
        best = entries[place]
        doubts = []
        if n_rows < _FEW_ROWS:
            doubts.append(f"only {n_rows} rows judged")
        surest = min(entries, key=itemgetter("log_loss"))
        if best["log_loss"] > 2 * surest["log_loss"]:
            doubts.append(
                f"its probabilities are worse than those of {surest['name']!r}: "
                f"log-loss {best['log_loss']:.2f} to {surest['log_loss']:.2f}"
            )
        for reason, names in failures.items():
            doubts.append(f"these candidates could not be made: {names}. {reason}")
        return Choice(
            name=best["name"],
            table=tuple(self.table),
            n_rows=n_rows,
            doubts=(*doubts, *_doubts_about_nodes(n_judging)),
        )

    def _failures(self) -> dict[str, list[str]]:
        """Names of candidates that could not be made, by the reason, as a sentence."""
        failures: dict[str, list[str]] = {}
        for entry in self.table:
            if entry["error"]:
                reason = entry["error"].rstrip(".")
                reason = f"{reason[:1].upper()}{reason[1:]}."
                failures.setdefault(reason, []).append(entry["name"])
        return failures


def _doubts_about_nodes(n_judging: Mapping[str, int]) -> list[str]:
    """Nodes that decide alone which candidate is taken."""
    names = list(n_judging)
    n_rows = np.array(list(n_judging.values()), dtype=np.float64)
    return [
        f"node {names[k]!r} has {n_rows[k]:.0f} of the {n_rows.sum():.0f} rows that "
        "judged, so that it decides nearly alone which candidate is taken"
        for k in nodes_of_many_rows(n_rows)
    ]


def n_bytes_received(fitted: BaseEstimator) -> int:
    """Bytes that nodes sent for a fit."""
    return sum(message["bytes_received"] for message in fitted.history_)


def _line_of(entry: dict, *, is_taken: bool = False) -> str:
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
