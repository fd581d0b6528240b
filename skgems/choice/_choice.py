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
_NAME_WIDTH = 42  # characters of the column of names: the longest name has 42
_HEAD = (
    f"{'':2}{'candidate':{_NAME_WIDTH}}{'accuracy':>9}{'log-loss (nats)':>16}"
    f"{'sent (MB)':>10}{'time (s)':>9}"
)
_LEGEND = (
    "* marks the candidate that was chosen: the smallest model whose accuracy is "
    "within one standard error of the best accuracy.",
    "accuracy, log-loss: each half of the rows was judged by the model that was "
    "fitted to the other half.",
    "sent: what all nodes together sent to the server for this candidate (1 MB = 1e6 "
    "bytes).",
    "time: how long it took to fit and judge this candidate.",
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
    """Table of the candidates that were tried, and which of them was taken.

    It is the attribute ``choice_`` of what :func:`~skgems.combine` returns, and of an
    :class:`~skgems.EnsembleAggregator` with ``combine="auto"``. ``print(choice)`` shows
    the table, the candidate that was taken and the doubts.

    Attributes
    ----------
    name : str
        Name of the candidate that was taken.
    table : tuple of dict
        One entry for each candidate, the smallest model first, with these keys:

        ==================  ============================================================
        "name"              Name of the candidate.
        "looks_at_members"  Whether it uses the fitted local estimators.
        "accuracy"          Accuracy on rows that did not make it, or None if it was
                            not tried.
        "log_loss"          Log-loss on these rows, or None if it was not tried.
        "factor"            Factor on its logits that gives the least log-loss.
        "standard_error"    Standard error of the difference between its accuracy and
                            that of the best candidate.
        "bytes"             Number of bytes that all nodes sent for it.
        "seconds"           Time that it took in seconds, or None if it was not
                            measured.
        "error"             Why it could not be made; empty if it was made.
        ==================  ============================================================
    n_rows : int
        Number of rows that judged the candidates. It is 0 if none did.
    doubts : tuple of str
        Reasons not to trust the choice, for example that few rows judged, that
        candidates could not be made, that columns were left out, or warnings of the
        fit.
    """

    name: str
    table: tuple
    n_rows: int
    doubts: tuple = ()

    @property
    def looks_at_members(self) -> bool:
        """Whether the candidate that was taken uses the fitted local estimators."""
        return self._entry["looks_at_members"]

    @property
    def factor(self) -> float:
        """Factor on the logits of the taken candidate that gives the least log-loss."""
        return self._entry["factor"] or 1.0

    @property
    def _entry(self) -> dict:
        """The entry of the candidate that was taken."""
        return next(entry for entry in self.table if entry["name"] == self.name)

    def to_frame(self) -> "DataFrame":
        """Return the table as a DataFrame with one row per candidate."""
        import pandas as pd

        return pd.DataFrame(list(self.table)).set_index("name")

    def __str__(self) -> str:
        lines = [_HEAD]
        for entry in self.table:
            lines.append(_line_of(entry, is_taken=entry["name"] == self.name))
        doubts = [f"Doubt: {doubt}" for doubt in self.doubts]
        for paragraph in [*_LEGEND, *doubts]:
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
            say(f"candidate {entry['name']!r} could not be fitted: {failure}")
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
        say(
            f"candidate {entry['name']!r}: accuracy {entry['accuracy']:.3f}, log-loss "
            f"{entry['log_loss']:.3f} nats, {entry['bytes'] / 1e6:.3f} MB sent"
        )

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
            raise ValueError(f"No candidate could be fitted. {' '.join(reasons)}")
        n_rows = sum(n_judging.values())
        log_losses = [entry["log_loss"] for entry in entries]
        place, errors = smallest_of_the_best(n_both_right, n_rows, log_losses)
        for entry, error in zip(entries, errors, strict=True):
            entry["standard_error"] = float(error)
        best = entries[place]
        doubts = []
        if n_rows < _FEW_ROWS:
            doubts.append(
                f"Only {n_rows} rows judged the candidates, so the accuracies are "
                "uncertain."
            )
        surest = min(entries, key=itemgetter("log_loss"))
        if best["log_loss"] > 2 * surest["log_loss"]:
            doubts.append(
                "The probabilities of the chosen candidate are worse than those of "
                f"{surest['name']!r}: its log-loss is {best['log_loss']:.2f} nats "
                f"instead of {surest['log_loss']:.2f}."
            )
        for reason, names in failures.items():
            doubts.append(f"These candidates could not be fitted: {names}. {reason}")
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
        f"Node {names[k]!r} has {n_rows[k]:.0f} of the {n_rows.sum():.0f} rows that "
        "judged the candidates, so it decides nearly alone which candidate is chosen."
        for k in nodes_of_many_rows(n_rows)
    ]


def n_bytes_received(fitted: BaseEstimator) -> int:
    """Bytes that nodes sent for a fit."""
    return sum(message["bytes_received"] for message in fitted.history_)


def _line_of(entry: dict, *, is_taken: bool = False) -> str:
    """A candidate's line of the table; more where the reason of a failure is long."""
    start = f"{'*' if is_taken else '':2}{entry['name']:{_NAME_WIDTH}}"
    if entry["error"]:
        reason = f"{start}could not be fitted: {entry['error']}"
        return "\n".join(_wrapped(reason, indent=4))
    if entry["accuracy"] is None:
        return f"{start}not judged"
    return (
        f"{start}{entry['accuracy']:9.3f}{entry['log_loss']:16.3f}"
        f"{entry['bytes'] / 1e6:10.3f}{entry['seconds']:9.1f}"
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
