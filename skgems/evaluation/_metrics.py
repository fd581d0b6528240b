"""How good a model is, by node, by class and over all."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ..base import Definitions, Page, Paragraph, Points, ResultMixin, Table
from ._bins import ScoreBins
from ._doubts import (
    doubts_about_accuracies,
    doubts_about_areas,
    doubts_about_calibration,
    doubts_about_gains,
    doubts_about_labels,
    doubts_about_predictions,
)

if TYPE_CHECKING:  # pandas is an extra
    import pandas

# Metrics of scores, of labels, and of probabilities.
_OF_SCORES = ("auc",)
_OF_LABELS = ("sensitivity", "specificity", "ppv", "npv")
_OF_CALIBRATION = ("calibration_slope", "calibration_intercept")
# Heads of the tables, by the names of columns.
_HEADS = {
    "node": "node",
    "rows": "rows",
    "positive": "positive",
    "auc": "AUC",
    "local_auc": "own AUC",
    "sensitivity": "sensitivity",
    "specificity": "specificity",
    "ppv": "PPV",
    "npv": "NPV",
    "accuracy": "accuracy",
    "largest_class": "largest class",
    "local_accuracy": "own accuracy",
    "calibration_slope": "slope",
    "calibration_intercept": "intercept",
}
_MEANINGS = {
    "auc": "Area under the ROC curve. It is 0.5 by chance.",
    "local_auc": "AUC of the node's own model on the same rows, some of which it may "
    "have been fitted to.",
    "sensitivity": "Share of the positive rows that are predicted to be (recall).",
    "specificity": "Share of the negative rows that are predicted to be.",
    "ppv": "Share of the rows predicted to be positive that are (precision).",
    "npv": "Share of the rows predicted to be negative that are.",
    "largest_class": "Its share of the rows: the accuracy of always predicting it.",
    "local_accuracy": "Accuracy of the node's own model.",
    "calibration_slope": "Calibration slope. It is 1 for a calibrated model, and below "
    "1 where probabilities are too close to 0 and 1.",
    "calibration_intercept": "Calibration in the large. It is 0 for a calibrated model "
    "and above 0 where too few positive rows are expected.",
}
# Points of a calibration curve: deciles, as is usual.
_MOST_POINTS = 10
# Rows of a point, in units of what counts are rounded to: a share of two or three such
# units is mostly rounding.
_STEPS_OF_POINT = 5


@dataclass(frozen=True, eq=False, kw_only=True)
class ClassMetrics:
    """How well a model tells one class from all others, at one node or over all.

    What is not known is NaN, such as an AUC where all rows are of one class.

    Attributes
    ----------
    label : label
        The class, whose rows are called positive.
    n_positive, n_negative : float
        Rows of the class (its support), and of all other classes.
    auc : float
        Area under the ROC curve.
    true_positives, false_positives : float
        Rows of the class, and of all others, that the model takes for positive.
    calibration_slope : float
        Slope of a logistic regression of the class on the log-odds that the model
        gives. It is 1 for a calibrated model, and below 1 where probabilities are too
        close to 0 and 1.
    calibration_intercept : float
        Intercept of that regression where the slope is fixed at 1 (calibration in the
        large). It is above 0 where the model expects too few positive rows.
    bins : ScoreBins or None
        Numbers of rows by bins of probability, which draw curves.
    """

    label: object
    n_positive: float
    n_negative: float
    auc: float
    true_positives: float
    false_positives: float
    calibration_slope: float = np.nan
    calibration_intercept: float = np.nan
    bins: ScoreBins | None = None

    @property
    def sensitivity(self) -> float:
        """Return the share of positive rows that are taken for positive (recall)."""
        return _share(self.true_positives, self.n_positive)

    @property
    def specificity(self) -> float:
        """Return the share of negative rows that are not taken for positive."""
        return 1.0 - _share(self.false_positives, self.n_negative)

    @property
    def ppv(self) -> float:
        """Return the share of rows taken for positive that are (precision)."""
        return _share(self.true_positives, self.true_positives + self.false_positives)

    @property
    def npv(self) -> float:
        """Return the share of rows not taken for positive that are negative."""
        true_negatives = self.n_negative - self.false_positives
        false_negatives = self.n_positive - self.true_positives
        return _share(true_negatives, true_negatives + false_negatives)


@dataclass(frozen=True, eq=False, kw_only=True)
class SiteMetrics:
    """How good a model is on the rows of one node, or on those of all nodes.

    For two classes `auc`, `sensitivity`, `specificity`, `ppv`, `npv`,
    `calibration_slope` and `calibration_intercept` are those of the positive class. For
    more classes they are means over the classes, each against all others, for which
    they are known.

    Attributes
    ----------
    node : str or None
        Name of the node; None stands for all nodes together.
    support : dict
        Number of rows of each class, by its label.
    accuracy : float
        Share of rows whose most probable class is right.
    by_class : dict of ClassMetrics
        The metrics of each class that is judged, by its label: for two classes of the
        positive one alone.
    local : SiteMetrics or None
        The same of the node's own model, on the same rows and without bins. It is None
        if the node has none, and for all nodes together.
    """

    node: str | None
    support: Mapping
    accuracy: float
    by_class: Mapping[object, ClassMetrics]
    local: "SiteMetrics | None" = None

    @property
    def n_rows(self) -> int:
        """Return the number of rows that judge."""
        return sum(self.support.values())

    @property
    def baseline(self) -> float:
        """Return the share of the largest class: the accuracy of always naming it."""
        return _share(max(self.support.values(), default=0.0), self.n_rows)

    @property
    def bins(self) -> ScoreBins | None:
        """Return the bins of the positive class; None where more classes are judged."""
        if len(self.by_class) != 1:
            return None
        (metrics,) = self.by_class.values()
        return metrics.bins

    @property
    def auc(self) -> float:
        """Return the area under the ROC curve."""
        return self._mean("auc")

    @property
    def sensitivity(self) -> float:
        """Return the share of positive rows that are taken for positive."""
        return self._mean("sensitivity")

    @property
    def specificity(self) -> float:
        """Return the share of negative rows that are not taken for positive."""
        return self._mean("specificity")

    @property
    def ppv(self) -> float:
        """Return the share of rows taken for positive that are."""
        return self._mean("ppv")

    @property
    def npv(self) -> float:
        """Return the share of rows not taken for positive that are negative."""
        return self._mean("npv")

    @property
    def calibration_slope(self) -> float:
        """Return the calibration slope, which is 1 for a calibrated model."""
        return self._mean("calibration_slope")

    @property
    def calibration_intercept(self) -> float:
        """Return the calibration in the large, which is 0 for a calibrated model."""
        return self._mean("calibration_intercept")

    def _mean(self, name: str) -> float:
        values = np.array([getattr(each, name) for each in self.by_class.values()])
        is_known = ~np.isnan(values)
        return float(values[is_known].mean()) if is_known.any() else np.nan


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Evaluation(ResultMixin):
    """How good a model is, site by site and over all; it prints as tables.

    ``evaluate`` of an aggregator makes it, from counts that the nodes tell or from rows
    in this process.

    Attributes
    ----------
    classes : list
        Labels of the classes that the model knows.
    positive : label or None
        The positive class of two; None where each of more classes is judged against
        all others.
    threshold : float or None
        A row counts as positive if its probability is this or more. None: if the class
        is the most probable one.
    sites : dict of SiteMetrics
        The metrics of each node, by its name.
    total : SiteMetrics
        Those of the rows of all nodes together.
    min_rows : dict of int
        The bound under which each node answered, by its name; 1 stands for exact
        counts.
    unknown_labels : tuple
        Labels that no class of the model has. Their rows are in no number, though the
        model is wrong about each of them. Nodes behind a channel do not tell them.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems import GEMSLogisticAggregator
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(600, 2))
    >>> y = np.where(X[:, 0] + rng.logistic(size=600) > 0, "ill", "healthy")
    >>> sites = np.array(["lyon", "nice"])[np.arange(600) % 2]
    >>> agg = GEMSLogisticAggregator([("lyon", None), ("nice", None)])
    >>> evaluation = agg.fit(X, y, sites).evaluate(X, y, sites)
    >>> evaluation.positive, [f"{site.auc:.2f}" for site in evaluation.sites.values()]
    ('ill', ['0.68', '0.73'])
    """

    classes: list
    positive: object
    threshold: float | None
    sites: Mapping[str, SiteMetrics]
    total: SiteMetrics
    min_rows: Mapping[str, int] = field(default_factory=dict)
    unknown_labels: tuple = ()

    @property
    def columns(self) -> dict[str, list]:
        """Return the table of nodes: columns of one entry each, the last over all.

        Entries are None where nothing is known. For more than two classes they are
        means over these.
        """
        sites = [*self.sites.values(), self.total]
        columns = {
            "node": [*self.sites, "all"],
            "rows": [site.n_rows for site in sites],
        }
        if self.positive is not None:
            columns["positive"] = [site.support[self.positive] for site in sites]
        for name in (*_OF_SCORES, *_OF_LABELS, "accuracy", *_OF_CALIBRATION):
            columns[name] = [_known(getattr(site, name)) for site in sites]
        columns["largest_class"] = [_known(site.baseline) for site in sites]
        for name in ("auc", "accuracy"):
            columns[f"local_{name}"] = [
                None if site.local is None else _known(getattr(site.local, name))
                for site in sites
            ]
        return columns

    @property
    def doubts(self) -> tuple[str, ...]:
        """Return what is worse than its baseline, in sentences."""
        columns = self._columns_of_sites
        names = columns["node"]
        accuracies = columns["accuracy"]
        gains = [
            None if accuracy is None or own is None else accuracy - own
            for accuracy, own in zip(accuracies, columns["local_accuracy"], strict=True)
        ]
        return (
            *self.doubts_about_scores,
            *doubts_about_gains(names, gains),
            *doubts_about_accuracies(names, accuracies, columns["largest_class"]),
        )

    @property
    def doubts_about_scores(self) -> tuple[str, ...]:
        """Return the doubts that are about no accuracy."""
        columns = self._columns_of_sites
        names = columns["node"]
        return (
            *doubts_about_labels(self.unknown_labels),
            *doubts_about_areas(names, columns["auc"], columns["local_auc"]),
            *doubts_about_predictions(
                names, columns["sensitivity"], columns["specificity"]
            ),
            *doubts_about_calibration(names, columns["calibration_slope"]),
        )

    def n_points(self, node=None) -> int:
        """Return how many points a calibration curve may have, ten at most.

        Under a rule, numbers of rows are multiples of ``min_rows``, so that a share of
        few rows is rounding. A point has at least five times as many rows.

        Parameters
        ----------
        node : str, default=None
            Name of the node; None stands for all nodes together.

        Returns
        -------
        n_points : int
            It is 0 or 1 where there are too few rows for a curve.
        """
        site = self.total if node is None else self.sites[node]
        bounds = self.min_rows if node is None else {node: self.min_rows.get(node, 1)}
        step = max(bounds.values(), default=1)
        if step == 1:
            return _MOST_POINTS
        return min(_MOST_POINTS, int(site.n_rows // (_STEPS_OF_POINT * step)))

    @property
    def _columns_of_sites(self) -> dict[str, list]:
        return {name: column[:-1] for name, column in self.columns.items()}

    def to_frame(self) -> "pandas.DataFrame":
        """Return a row for each node and class that is judged as a pandas DataFrame.

        The node "all" has the rows of all nodes together.
        """
        import pandas as pd

        records = []
        for name, site in [*self.sites.items(), ("all", self.total)]:
            for label, metrics in site.by_class.items():
                record = {"node": name, "class": label}
                record |= {"rows": site.n_rows, "positive": metrics.n_positive}
                for column in (*_OF_SCORES, *_OF_LABELS, *_OF_CALIBRATION):
                    record[column] = getattr(metrics, column)
                local = None if site.local is None else site.local.by_class[label]
                record["local_auc"] = np.nan if local is None else local.auc
                records.append(record)
        return pd.DataFrame(records).set_index(["node", "class"])

    def to_markdown(self) -> str:
        """Return the tables and what their heads mean in Markdown."""
        return Page(title="", parts=self.parts).markdown

    def _page(self) -> Page:
        parts = list(self.parts)
        if self.doubts:
            doubts = [f"Doubt: {doubt}" for doubt in self.doubts]
            parts.append(Points(heading="Reasons for doubt", sentences=doubts))
        return Page(title="Evaluation by site", parts=parts)

    @property
    def parts(self) -> list:
        """Return tables by node and by class and what heads mean, without doubts."""
        parts: list = [
            Paragraph(text=self._in_words),
            self._table_of(("rows", "positive", *_OF_SCORES, "local_auc", *_OF_LABELS)),
        ]
        further = ("accuracy", "largest_class", "local_accuracy", *_OF_CALIBRATION)
        if any(map(self._has, further)):
            parts.append(self._table_of(further))
        if self.positive is None:
            parts.append(self._table_of_classes())
        shown = [name for name in _MEANINGS if self._has(name)]
        meanings = {_HEADS[name]: _MEANINGS[name] for name in shown}
        if meanings:
            parts.append(Definitions(heading="Columns", meanings=meanings))
        return parts

    @property
    def _in_words(self) -> str:
        """Return what is judged, and how numbers were rounded."""
        if self.positive is None:
            judged = "Each class is judged against all others; numbers are means."
        else:
            judged = f"The positive class is {self.positive!r}"
            if self.threshold is None:
                judged += ", where it is the most probable one."
            else:
                judged += f", from a probability of {self.threshold:g} on."
        bounds = sorted(set(self.min_rows.values()) - {1})
        if not bounds:
            return judged
        least = " or ".join(map(str, bounds))
        return (
            f"{judged} Numbers of rows are rounded by chance. Classes of fewer than "
            f"{least} rows (min_rows) of a node are left out there."
        )

    def _has(self, name: str) -> bool:
        return any(value is not None for value in self.columns.get(name, ()))

    def _table_of(self, names: Iterable[str]) -> Table:
        columns = self.columns
        return Table.from_columns(
            {
                _HEADS[name]: list(map(_rounded, columns[name]))
                for name in ("node", *names)
                if self._has(name)
            }
        )

    def _table_of_classes(self) -> Table:
        """Return the metrics of each class, over the rows of all nodes."""
        by_class = self.total.by_class
        columns = {"class": list(by_class)}
        columns["rows"] = [self.total.support[label] for label in by_class]
        for name in (*_OF_SCORES, *_OF_LABELS, *_OF_CALIBRATION):
            values = [_known(getattr(each, name)) for each in by_class.values()]
            columns[_HEADS[name]] = list(map(_rounded, values))
        return Table.from_columns(columns, caption="Classes, over all nodes")


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _rounded(value: object) -> object:
    """Return a number of a table as text of three decimals, and others as they are."""
    return f"{value:.3f}" if isinstance(value, float) else value


def _share(part: float, whole: float) -> float:
    return float(part / whole) if whole > 0 else np.nan
