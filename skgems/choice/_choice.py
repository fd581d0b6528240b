"""What was tried, what was taken, and what to doubt."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from operator import itemgetter
from textwrap import wrap
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import make_pipeline

from ..asking import RepliesMissingError, nodes_of_many_rows
from ..base import WIDTH, BaseAggregator, Page, Points, ResultMixin, Table, silenced
from ..compat import say
from ..disclosure import Disclosure
from ..moments import INDEX_OF_FACTOR_ONE, LOGIT_FACTORS, ROUNDING_OF_SUMS, told_losses
from ._scoring import (
    ACCURACY,
    LOG_LOSS,
    ROC_AUC,
    SHARE_OF_LOSS,
    ClassShares,
    Comparison,
)

if TYPE_CHECKING:
    from pandas import DataFrame

# With fewer rows than these, an accuracy of 0.9 has a standard error above 2 points,
# which is more than most candidates differ by.
FEW_ROWS = 200
# See `Choice.factor`. On test rows of eleven data sets the expected calibration error
# of what was chosen is 0.029 on average and 0.079 at most with it, 0.038 and 0.094 with
# the factor of half of the rows, and 0.048 and 0.105 without any.
_POWER_FOR_TWICE_THE_ROWS = 0.75
# Name of what is taken where every candidate is worse than the shares of the classes.
CLASS_SHARES = "class shares"
_CONSTANT = "(always the largest class)"  # its line in the table
_NAME_WIDTH = 42  # characters of the column of names: the longest name has 42
_JUDGED_BY_HALVES = (
    "each half of the rows was judged by the model that was fitted to the other half."
)
_LEFT_BEHIND = (
    "- marks candidates that were far behind after half of the rows, and were not "
    "fitted again: their numbers are of this half."
)
_BELOW_SHARES = (
    "! marks candidates whose log-loss is larger than that of the class shares, the "
    "same probabilities for every row: they were not chosen."
)
_COSTS = (
    "sent: what all nodes together sent to the server for this candidate (1 MB = 1e6 "
    "bytes).",
    "time: how long it took to fit and judge this candidate.",
)
# How the score that decides is called in a sentence, where it is not a scorer's name.
_SCORE_IN_WORDS = {
    ACCURACY: "accuracy",
    LOG_LOSS: "log-loss",
    ROC_AUC: "area under the ROC curve",
}


@dataclass(frozen=True, eq=False)
class Candidate:
    """An unfitted aggregator, and the transformers that stand before it."""

    name: str
    aggregator: BaseAggregator
    steps: tuple[BaseEstimator, ...] = ()
    of_members: bool = False  # whether it needs the fitted estimators
    # How many rows there have to be for each column; with fewer it is not fitted.
    rows_per_column: float = 0.0
    # Whether no step centers columns, which would make sparse rows dense.
    takes_sparse_rows: bool = False

    def check_has_rows(self, *, n_rows: int, n_columns: int) -> None:
        """Raise ValueError for more columns than so many rows allow."""
        if n_rows < self.rows_per_column * n_columns:
            raise ValueError(
                f"this model is tried only if there are at least "
                f"{self.rows_per_column:g} rows for each column, but there are "
                f"{n_rows} rows of {n_columns} columns"
            )

    @property
    def is_tempered(self) -> bool:
        """Report whether its logits can be multiplied by a factor after the fit."""
        return getattr(self.aggregator, "_can_temper", False)

    @property
    def whole(self) -> BaseAggregator:
        """A clone of the aggregator that has the transformers as its front."""
        aggregator = clone(self.aggregator)
        if not self.steps:
            return aggregator
        front = self.steps[0] if len(self.steps) == 1 else make_pipeline(*self.steps)
        return aggregator.set_params(front=clone(front))

    def under(self, disclosure: Disclosure | str | None) -> "Candidate":
        """Return the candidate whose aggregator has a rule of disclosure."""
        aggregator = clone(self.aggregator).set_params(disclosure=disclosure)
        return replace(self, aggregator=aggregator)

    def new_entry(self) -> dict:
        """Its entry in the table of a choice, before it is judged."""
        return {
            "name": self.name,
            "looks_at_members": self.of_members,
            "accuracy": None,
            "log_loss": None,
            "factor": None,
            "score": None,
            "standard_error": None,
            "is_behind": False,
            "is_below_shares": False,
            "bytes": 0,
            "seconds": 0.0,
            "error": "",
        }


@dataclass(repr=False, frozen=True, kw_only=True)
class Choice(ResultMixin):
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
        "factor"            Factor on its logits that gives the least log-loss on these
                            rows. Models of all rows are less sure than those of half of
                            them, so the aggregate has this factor to the power of 3/4.
        "score"             The score that decided, which ``scoring`` names. The
                            log-loss is better where it is smaller; every other score
                            is better where it is larger.
        "standard_error"    Standard error of the difference between its score and that
                            of the best candidate. It is None for the log-loss over a
                            channel, because nodes send sums of losses only.
        "is_behind"         Whether it was so far behind the best after half of the
                            rows that it was not fitted again. Its accuracy and log-loss
                            are then of this half.
        "is_below_shares"   Whether its log-loss is larger than that of the class
                            shares, so that it was not chosen. This is not asked if
                            another score than accuracy or log-loss decides.
        "bytes"             Number of bytes that all nodes sent for it.
        "seconds"           Time that it took in seconds, or None if it was not
                            measured.
        "error"             Why it could not be made; empty if it was made.
        ==================  ============================================================
    n_rows : int
        Number of rows that judged the candidates. It is 0 if none did.
    largest_class : float or None
        Share of the largest class among these rows. It is the accuracy of always
        predicting this class, and stands in the table for comparison. None if no rows
        judged.
    scoring : str or None
        Name of the score that decided: "accuracy", "log_loss", "roc_auc" or the name of
        a scorer of scikit-learn. None if no rows judged.
    doubts : tuple of str
        Reasons not to trust the choice, for example that few rows judged, that
        candidates could not be made, that columns were left out, or warnings of the
        fit.
    """

    name: str
    table: tuple
    n_rows: int
    doubts: tuple = ()
    scoring: str | None = ACCURACY
    largest_class: float | None = None

    @property
    def looks_at_members(self) -> bool:
        """Report whether the candidate that was taken uses the local estimators."""
        return self._entry["looks_at_members"]

    @property
    def factor(self) -> float:
        """Factor by which the logits of the aggregate are multiplied.

        The factor in the table is that of models which are fitted to half of the rows.
        They are too sure for two reasons. Their parameters have errors; this part of
        the logarithm of the factor halves with twice the rows. And rows are not as
        discriminant analysis assumes; this part stays. Between a half and the whole of
        the logarithm three quarters are taken.
        """
        return (self._entry["factor"] or 1.0) ** _POWER_FOR_TWICE_THE_ROWS

    @property
    def _entry(self) -> dict:
        """The entry of the candidate that was taken."""
        return next(entry for entry in self.table if entry["name"] == self.name)

    def to_frame(self) -> "DataFrame":
        """Return the table as a DataFrame with one row per candidate."""
        import pandas as pd

        return pd.DataFrame(list(self.table)).set_index("name")

    @property
    def _has_score_column(self) -> bool:
        """Report whether another score than accuracy or log-loss decided."""
        return self.scoring not in (None, ACCURACY, LOG_LOSS)

    def _page(self) -> Page:
        rows = [
            _cells_of(entry, mark=self._mark(entry), scoring=self.scoring)
            for entry in self.table
        ]
        if self.largest_class is not None:
            constant = {"candidate": _CONSTANT, "accuracy": f"{self.largest_class:.3f}"}
            rows = [{"mark": "", **constant}, *rows]
        title = f"Chosen: {self.name}"
        if self.n_rows:
            title += f", judged by {self.n_rows:,} rows"
        parts: list[Table | Points] = [
            Table.from_records(rows),
            Points(heading="What the columns mean", sentences=self._legend()),
        ]
        if self.doubts:
            parts.append(Points(heading="Reasons for doubt", sentences=self.doubts))
        return Page(title=title, parts=parts)

    def _mark(self, entry: Mapping) -> str:
        """Return the sign before a candidate, which the legend explains."""
        if entry["name"] == self.name:
            return "*"
        if entry.get("is_below_shares"):
            return "!"
        return "-" if entry.get("is_behind") else ""

    def __str__(self) -> str:
        lines = [_head(has_score=self._has_score_column)]
        if self.largest_class is not None:
            lines.append(f"{'':2}{_CONSTANT:{_NAME_WIDTH}}{self.largest_class:9.3f}")
        for entry in self.table:
            mark = self._mark(entry)
            lines.append(_line_of(entry, mark=mark, has_score=self._has_score_column))
        doubts = [f"Doubt: {doubt}" for doubt in self.doubts]
        for paragraph in [*self._legend(), *doubts]:
            lines += _wrapped(paragraph, indent=2)
        return "\n".join(lines)

    def _legend(self) -> list[str]:
        """Explain the mark and the columns, in one sentence each."""
        if self.scoring is None:
            return list(_COSTS)
        score = _SCORE_IN_WORDS.get(self.scoring, self.scoring)
        rule = (
            f"the one with the smallest log-loss of those whose {score} is within one "
            f"standard error of the best {score}."
        )
        if self.name == CLASS_SHARES:
            rule = (
                "the shares of the classes, because no candidate has a smaller "
                "log-loss."
            )
        elif self.scoring == LOG_LOSS:
            rule = (
                "the smallest model whose log-loss is within "
                f"{100 * SHARE_OF_LOSS:.0f} % of the smallest log-loss."
            )
        legend = [f"* marks the candidate that was chosen: {rule}"]
        if any(entry.get("is_behind") for entry in self.table):
            legend.append(_LEFT_BEHIND)
        if any(entry.get("is_below_shares") for entry in self.table):
            legend.append(_BELOW_SHARES)
        judged = "accuracy, log-loss"
        if self._has_score_column:
            judged = f"accuracy, log-loss (nats), score ({self.scoring})"
        return [*legend, f"{judged}: {_JUDGED_BY_HALVES}", *_COSTS]


class Trials:
    """Candidates that are tried, the smallest first, and the table of what came."""

    def __init__(self, candidates: list[Candidate]) -> None:
        self.candidates = candidates
        self.table = [candidate.new_entry() for candidate in candidates]

    @property
    def able(self) -> list[int]:
        """Indices of the candidates that could be made, and were not left out."""
        return [
            k
            for k, entry in enumerate(self.table)
            if not entry["error"]
            and not entry.get("is_behind")
            and not entry.get("is_below_shares")
        ]

    @contextmanager
    def making(self, k: int) -> Iterator[dict]:
        """Time what is done for a candidate, and note why it cannot be done, if so."""
        entry = self.table[k]
        start = perf_counter()
        try:
            with silenced():
                yield entry
        except RepliesMissingError:  # that no one is there yet to answer
            raise
        # Fits run code of many packages and of users, whose errors are of any type: a
        # front may raise KeyError, a solver FloatingPointError, a wide fit MemoryError.
        # None of them is a reason to lose the candidates that can be made.
        except Exception as failure:
            entry["error"] = _reason_of(failure)
            say(f"candidate {entry['name']!r} could not be fitted: {entry['error']}")
        finally:
            entry["seconds"] += perf_counter() - start

    @contextmanager
    def making_of_members(self) -> Iterator[None]:
        """Note why the fitted estimators cannot be used, if so, for what needs them."""
        try:
            yield
        except Exception as failure:
            for candidate, entry in zip(self.candidates, self.table, strict=True):
                if candidate.of_members and not entry["error"]:
                    entry["error"] = (
                        "the estimators cannot be fitted to half of their rows, to be "
                        f"judged by the others: {_reason_of(failure)}"
                    )

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

    def leave_behind(
        self, k: int, *, n_right: float, losses: np.ndarray, n_rows: int
    ) -> None:
        """Enter what the first half says of a candidate that is not fitted again."""
        self.enter(k, n_right=n_right, losses=losses, n_rows=n_rows)
        self.table[k]["is_behind"] = True

    def leave_out_below(self, shares: ClassShares, *, may_be_all: bool) -> None:
        """Leave out candidates whose log-loss is larger than that of the class shares.

        All are left out only if that ``may_be_all``. A log-loss that no node has told
        is infinite, and may be small.
        """
        able = self.able
        below = [
            k
            for k in able
            if shares.log_loss < self.table[k]["log_loss"]
            and np.isfinite(self.table[k]["log_loss"])
        ]
        if may_be_all or len(below) < len(able):
            for k in below:
                self.table[k]["is_below_shares"] = True

    def log_losses(self) -> list[float]:
        """Log-losses of the candidates that could be made, when all are entered."""
        return [self.table[k]["log_loss"] for k in self.able]

    def check_able(self) -> None:
        """Raise ValueError, with all reasons, where no candidate could be made."""
        if not self.able:
            reasons = [
                f"{names}: {reason}" for reason, names in self._failures().items()
            ]
            raise ValueError(f"No candidate could be fitted. {' '.join(reasons)}")

    def choice_of_shares(
        self, shares: ClassShares, *, scoring: str, n_judging: Mapping[str, int]
    ) -> Choice:
        """The choice of the class shares, where all candidates are left out."""
        entry = {
            "name": CLASS_SHARES,
            "looks_at_members": False,
            "accuracy": shares.accuracy,
            "log_loss": shares.log_loss,
            "factor": None,
            "score": shares.log_loss if scoring == LOG_LOSS else shares.accuracy,
            "standard_error": None,
            "is_behind": False,
            "is_below_shares": False,
            "bytes": 0,
            "seconds": 0.0,
            "error": "",
        }
        doubt = (
            "Every candidate has a larger log-loss on rows that did not make it than "
            f"the class shares, which have {shares.log_loss:.3f} nats. So the shares "
            "of the classes were chosen, and every row gets the same probabilities. "
            "The columns say nothing about the labels that the candidates could learn "
            "from so few rows."
        )
        return Choice(
            name=CLASS_SHARES,
            table=(entry, *self.table),
            n_rows=sum(n_judging.values()),
            doubts=(
                doubt,
                *self._doubts_about_failures(),
                *_doubts_about_nodes(n_judging),
            ),
            scoring=scoring,
            largest_class=shares.accuracy,
        )

    def choice(
        self,
        comparison: Comparison,
        *,
        n_judging: Mapping[str, int],
        shares: ClassShares,
    ) -> Choice:
        """The choice among the candidates that could be made, when all are entered.

        ``n_judging`` has how many rows of each node judged, by its name.
        """
        entries = [self.table[k] for k in self.able]
        for place, entry in enumerate(entries):
            entry["score"] = float(comparison.scores[place])
            if comparison.errors is not None:
                entry["standard_error"] = float(comparison.errors[place])
        n_rows = sum(n_judging.values())
        best = entries[comparison.place]
        doubts = []
        if n_rows < FEW_ROWS:
            doubts.append(
                f"Only {n_rows} rows judged the candidates, so the accuracies are "
                "uncertain."
            )
        if best["accuracy"] <= shares.accuracy + ROUNDING_OF_SUMS:
            doubts.append(
                "The chosen candidate is no more accurate than always predicting the "
                f"largest class: its accuracy is {best['accuracy']:.3f}, and the share "
                f"of this class is {shares.accuracy:.3f}."
            )
        if shares.log_loss < best["log_loss"] < np.inf:
            doubts.append(
                "The probabilities of the chosen candidate are worse than the class "
                f"shares, the same for every row: its log-loss is "
                f"{best['log_loss']:.2f} nats instead of {shares.log_loss:.2f}."
            )
        surest = min(entries, key=itemgetter("log_loss"))
        if best["log_loss"] > 2 * surest["log_loss"]:
            doubts.append(
                "The probabilities of the chosen candidate are worse than those of "
                f"{surest['name']!r}: its log-loss is {best['log_loss']:.2f} nats "
                f"instead of {surest['log_loss']:.2f}."
            )
        return Choice(
            name=best["name"],
            table=tuple(self.table),
            n_rows=n_rows,
            doubts=(
                *doubts,
                *self._doubts_about_failures(),
                *_doubts_about_nodes(n_judging),
            ),
            scoring=comparison.scoring,
            largest_class=shares.accuracy,
        )

    def _doubts_about_failures(self) -> list[str]:
        """Candidates that could not be made, one sentence for each reason."""
        return [
            f"These candidates could not be fitted: {names}. {reason}"
            for reason, names in self._failures().items()
        ]

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


def _reason_of(failure: Exception) -> str:
    """Why a candidate failed: the text, and the type where that alone says what."""
    if isinstance(failure, ValueError | TypeError):
        return str(failure)
    return f"{type(failure).__name__}: {failure}".rstrip(": ")


def _head(*, has_score: bool) -> str:
    """Names of the columns; the unit of the log-loss makes room for a score."""
    log_loss = (
        f"{'log-loss':>9}{'score':>7}" if has_score else f"{'log-loss (nats)':>16}"
    )
    return (
        f"{'':2}{'candidate':{_NAME_WIDTH}}{'accuracy':>9}{log_loss}"
        f"{'sent (MB)':>10}{'time (s)':>9}"
    )


def _cells_of(entry: Mapping, *, mark: str, scoring: str | None) -> dict[str, str]:
    """Return what the table of a notebook shows of a candidate, by its head."""
    cells = {"mark": mark, "candidate": entry["name"]}
    if entry["error"]:
        return cells | {"could not be fitted": entry["error"]}
    if entry["accuracy"] is None:
        return cells
    cells["accuracy"] = f"{entry['accuracy']:.3f}"
    cells["log-loss (nats)"] = f"{entry['log_loss']:.3f}"
    if scoring not in (None, ACCURACY, LOG_LOSS):
        cells[scoring] = _in_six_characters(entry["score"])
    cells["sent (MB)"] = f"{entry['bytes'] / 1e6:.3f}"
    cells["time (s)"] = f"{entry['seconds']:.1f}"
    return cells


def _line_of(entry: dict, *, mark: str = "", has_score: bool = False) -> str:
    """A candidate's line of the table; more where the reason of a failure is long."""
    start = f"{mark:2}{entry['name']:{_NAME_WIDTH}}"
    if entry["error"]:
        reason = f"{start}could not be fitted: {entry['error']}"
        return "\n".join(_wrapped(reason, indent=4))
    if entry["accuracy"] is None:
        return f"{start}not judged"
    log_loss = f"{entry['log_loss']:16.3f}"
    if has_score:
        log_loss = f"{entry['log_loss']:9.3f}{_in_six_characters(entry['score']):>7}"
    return (
        f"{start}{entry['accuracy']:9.3f}{log_loss}"
        f"{entry['bytes'] / 1e6:10.3f}{entry['seconds']:9.1f}"
    )


def _in_six_characters(score: float) -> str:
    """A score with three decimals, or fewer digits where it is large."""
    return f"{score:.3f}" if abs(score) < 10 else f"{score:.2g}"


def _wrapped(paragraph: str, *, indent: int) -> list[str]:
    """Lines of a paragraph, in which no word or name of a column is cut."""
    return wrap(
        paragraph,
        WIDTH,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
