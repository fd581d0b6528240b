"""How good a model is, by node, by class and over all."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ._bins import ScoreBins


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
    def n_rows(self) -> float:
        """Return the number of rows that judge."""
        return float(sum(self.support.values()))

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


@dataclass(frozen=True, eq=False, kw_only=True)
class Evaluation:
    """How good a model is, site by site and over all; it prints as a table.

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
    doubts : tuple of str
        What is worse than its baseline, in sentences.
    """

    classes: list
    positive: object
    threshold: float | None
    sites: Mapping[str, SiteMetrics]
    total: SiteMetrics
    min_rows: Mapping[str, int] = field(default_factory=dict)
    doubts: tuple[str, ...] = ()


def _share(part: float, whole: float) -> float:
    return float(part / whole) if whole > 0 else np.nan
