"""Draw how good a model is at each site, and its coefficients."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.stats import norm

from ._fits import LINES, Display, plain_text
from ._forest import make_axis_of_ratios

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Sites that have lines which can be told apart, and names in the legend.
_MOST_NAMED = 8
# Rows of the smaller class for a ROC curve, in units of what counts are rounded to.
_FEWEST_STEPS = 5
# Area of the mark of a point with a tenth of the rows, in points squared.
_AREA_OF_TENTH = 30.0


class _BySiteDisplay(Display):
    """Base class of displays with a curve for each site, and one for all together."""

    def __init__(self, evaluation, *, label=None):
        self.evaluation = evaluation
        self.label = label

    @classmethod
    def from_evaluation(cls, evaluation, *, label=None, ax=None) -> Self:
        """Draw what nodes have told of the scores of their rows.

        Parameters
        ----------
        evaluation : Evaluation
            The return value of the method ``evaluate`` of an aggregator.
        label : label, default=None
            The class whose probabilities are judged, against all others. If None, it is
            the positive class of two.
        ax : matplotlib Axes, default=None
            Axes to draw on. If None, a new figure is made.

        Returns
        -------
        display : Display

        Raises
        ------
        ValueError
            If there is no such class, or if there are several and none is named.
        """
        return cls(evaluation, label=label).plot(ax=ax)

    @classmethod
    def from_estimator(
        cls, aggregator, X=None, y=None, nodes=None, *, label=None, ax=None
    ) -> Self:
        """Ask the nodes of a fitted aggregator, and draw what they tell.

        Parameters
        ----------
        aggregator : fitted aggregator
            The aggregator to judge.
        X, y, nodes : array-like, default=None
            Rows to score, their labels and their nodes, as for ``evaluate``.
        label : label, default=None
            The class whose probabilities are judged. If None, it is the positive class
            of two.
        ax : matplotlib Axes, default=None
            Axes to draw on. If None, a new figure is made.

        Returns
        -------
        display : Display
        """
        evaluation = aggregator.evaluate(X, y, nodes)
        return cls.from_evaluation(evaluation, label=label, ax=ax)

    @property
    def _judged_label(self) -> object:
        """Return the class that is judged; ValueError where it has to be named."""
        judged = list(self.evaluation.total.by_class)
        if self.label is None and len(judged) == 1:
            return judged[0]
        if self.label not in judged:
            raise ValueError(
                f"The class {self.label!r} was not judged against all others. Give one "
                f"of {judged} as label."
            )
        return self.label

    @property
    def _metrics_of_sites(self) -> Mapping[str, Any]:
        """Return the metrics of the class at each site that told counts of it."""
        label = self._judged_label
        metrics_of_sites = {
            name: site.by_class[label]
            for name, site in self.evaluation.sites.items()
            if label in site.by_class
        }
        return {
            name: metrics
            for name, metrics in metrics_of_sites.items()
            if metrics.bins is not None
        }


class RocBySiteDisplay(_BySiteDisplay):
    """ROC curve of a model at each site, and over all.

    Sites tell numbers of rows by bins of probability, and no row's own. A curve has a
    point for each edge of a bin. Under a rule of disclosure the numbers are multiples
    of ``min_rows``. A site whose smaller class has fewer than five times as many rows
    has no curve. With more than eight sites, their lines are gray and have no names.

    Parameters
    ----------
    evaluation : Evaluation
        The return value of the method ``evaluate`` of an aggregator.
    label : label, default=None
        The class whose probabilities are judged, against all others. If None, it is the
        positive class of two.

    See Also
    --------
    CalibrationBySiteDisplay : Draws whether probabilities are those of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems import GEMSLogisticAggregator
    >>> from skgems.plotting import RocBySiteDisplay
    >>> rng = np.random.default_rng(0)
    >>> X, sites = rng.normal(size=(400, 2)), np.repeat(["lyon", "nice"], 200)
    >>> y = np.where(X[:, 0] + rng.normal(size=400) > 0, "ill", "healthy")
    >>> agg = GEMSLogisticAggregator([("lyon", None), ("nice", None)])
    >>> agg.fit(X, y, nodes=sites)
    GEMSLogisticAggregator(estimators=[('lyon', None), ('nice', None)])
    >>> display = RocBySiteDisplay.from_estimator(agg, X, y, sites)
    >>> display.ax_.get_xlabel()
    'false positive rate (1 - specificity)'
    """

    def _draw(self, ax: "Axes") -> None:
        curves = self._metrics_of_sites
        is_named = len(curves) <= _MOST_NAMED
        for k, (name, metrics) in enumerate(curves.items()):
            fpr, tpr, _ = metrics.bins.roc_curve()
            label = f"{plain_text(name)} ({_auc_in_words(metrics.auc)})"
            step = self.evaluation.min_rows.get(name, 1)
            if min(metrics.n_positive, metrics.n_negative) < _FEWEST_STEPS * step:
                fpr, tpr = [], []
                label += ", too few rows"
            if not is_named:
                label = "a site" if k == 0 else None
            ax.plot(fpr, tpr, label=label, **_style_of_site(k, is_named=is_named))
        total = self.evaluation.total.by_class[self._judged_label]
        if total.bins is not None:
            fpr, tpr, _ = total.bins.roc_curve()
            label = f"all {len(curves)} sites ({_auc_in_words(total.auc)})"
            ax.plot(fpr, tpr, color="black", linewidth=2.5, label=label)
        ax.plot([0, 1], [0, 1], color="0.8", linewidth=1, zorder=0)
        ax.set(
            xlabel="false positive rate (1 - specificity)",
            ylabel="true positive rate (sensitivity)",
            title=f"{plain_text(self._judged_label)} against others",
            aspect="equal",
        )
        _add_legend(ax, loc="lower right")


class CalibrationBySiteDisplay(_BySiteDisplay):
    """Share of a class among rows that got about the same probability, by site.

    On the diagonal, probabilities are right. Bins of probability are put together until
    each point has a tenth of the rows of its line. Under a rule of disclosure a point
    has at least five times ``min_rows`` rows, and a site without two points has no
    curve. The marks of all sites together are the larger, the more rows a point has.

    Parameters
    ----------
    evaluation : Evaluation
        The return value of the method ``evaluate`` of an aggregator.
    label : label, default=None
        The class whose probabilities are judged, against all others. If None, it is the
        positive class of two.

    See Also
    --------
    RocBySiteDisplay : Draws how well the probabilities tell the class from others.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems import GEMSLogisticAggregator
    >>> from skgems.plotting import CalibrationBySiteDisplay
    >>> rng = np.random.default_rng(0)
    >>> X, sites = rng.normal(size=(400, 2)), np.repeat(["lyon", "nice"], 200)
    >>> y = np.where(X[:, 0] + rng.normal(size=400) > 0, "ill", "healthy")
    >>> agg = GEMSLogisticAggregator([("lyon", None), ("nice", None)])
    >>> evaluation = agg.fit(X, y, nodes=sites).evaluate(X, y, sites)
    >>> display = CalibrationBySiteDisplay.from_evaluation(evaluation)
    >>> display.ax_.get_ylabel()
    'share of rows that are ill'
    """

    def _draw(self, ax: "Axes") -> None:
        curves = self._metrics_of_sites
        is_named = len(curves) <= _MOST_NAMED
        for k, (name, metrics) in enumerate(curves.items()):
            n_points = self.evaluation.n_points(name)
            observed, predicted, _ = metrics.bins.calibration_curve(max(n_points, 1))
            label = plain_text(name)
            if n_points < 2:
                observed, predicted = [], []
                label += ", too few rows"
            if not is_named:
                label = "a site" if k == 0 else None
            style = _style_of_site(k, is_named=is_named)
            ax.plot(predicted, observed, label=label, **style)
        total = self.evaluation.total.by_class[self._judged_label]
        if total.bins is not None:
            n_points = max(self.evaluation.n_points(), 1)
            observed, predicted, n_rows = total.bins.calibration_curve(n_points)
            label = f"all {len(curves)} sites"
            ax.plot(predicted, observed, color="black", linewidth=2.5, label=label)
            areas = 10.0 * _AREA_OF_TENTH * n_rows / n_rows.sum()
            ax.scatter(predicted, observed, s=areas, color="black", zorder=3)
        ax.plot([0, 1], [0, 1], color="0.8", linewidth=1, zorder=0)
        label_of_class = plain_text(self._judged_label)
        ax.set(
            xlabel=f"probability of {label_of_class}",
            ylabel=f"share of rows that are {label_of_class}",
            aspect="equal",
        )
        _add_legend(ax, loc="upper left")


class CoefficientsDisplay(Display):
    """Odds ratios of all columns in the common model, with intervals.

    Parameters
    ----------
    names : list of str
        Names of the columns.
    estimates : ndarray of shape (n_columns,)
        Log odds ratio for one unit of each column.
    errors : ndarray of shape (n_columns,)
        Standard errors of these; NaN where there are none.
    title : str, default=""
        Title of the picture.
    level : float, default=0.95
        Level of confidence of the intervals.

    See Also
    --------
    ForestDisplay : Draws one odds ratio at each node.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.plotting import CoefficientsDisplay
    >>> estimates, errors = np.array([0.2, -0.6]), np.array([0.1, 0.3])
    >>> display = CoefficientsDisplay(["age", "dose"], estimates, errors).plot()
    >>> [tick.get_text() for tick in display.ax_.get_yticklabels()]
    ['age', 'dose']
    """

    def __init__(self, names, estimates, errors, *, title="", level=0.95):
        self.names = names
        self.estimates = estimates
        self.errors = errors
        self.title = title
        self.level = level

    @classmethod
    def from_inference(cls, inference, *, label=None, ax=None) -> Self:
        """Draw the columns of a table of odds ratios, without the intercepts.

        Parameters
        ----------
        inference : Inference
            The table.
        label : label, default=None
            The class that is compared with the reference. If None, it is the first one.
        ax : matplotlib Axes, default=None
            Axes to draw on. If None, a new figure is made.

        Returns
        -------
        display : CoefficientsDisplay

        Raises
        ------
        ValueError
            If the table has no such class.
        """
        label = inference.classes[0] if label is None else label
        places = [
            i
            for i, (of_class, name) in enumerate(
                zip(inference.classes, inference.names, strict=True)
            )
            if of_class == label and not _is_intercept(name)
        ]
        if not places:
            raise ValueError(
                f"The table has no columns of the class {label!r}. Give one of "
                f"{list(dict.fromkeys(inference.classes))} as label."
            )
        return cls(
            [inference.names[i] for i in places],
            inference.params[places],
            inference.bse[places],
            title=f"{label} against {inference.reference}",
            level=inference.level,
        ).plot(ax=ax)

    @classmethod
    def from_estimator(
        cls, aggregator, X=None, y=None, nodes=None, *, label=None, ax=None
    ) -> Self:
        """Ask the nodes of a fitted aggregator, and draw its coefficients.

        Parameters
        ----------
        aggregator : GEMSLogisticAggregator
            A fitted aggregator.
        X, y, nodes : array-like, default=None
            Rows of the nodes, as for ``inference``.
        label : label, default=None
            The class that is compared with the reference. If None, it is the first one.
        ax : matplotlib Axes, default=None
            Axes to draw on. If None, a new figure is made.

        Returns
        -------
        display : CoefficientsDisplay
        """
        inference = aggregator.inference(X, y, nodes)
        return cls.from_inference(inference, label=label, ax=ax)

    def _draw(self, ax: "Axes") -> None:
        half = norm.ppf(0.5 + self.level / 2.0) * np.asarray(self.errors)
        places = np.arange(len(self.names))
        lower = np.exp(self.estimates - half)
        upper = np.exp(self.estimates + half)
        ax.hlines(places, lower, upper, color="black", linewidth=1.5)
        ax.scatter(np.exp(self.estimates), places, s=40, color="black", zorder=3)
        ax.axvline(1.0, color="0.6", linewidth=1, zorder=0)
        ax.set_yticks(places, list(map(plain_text, self.names)))
        ax.invert_yaxis()
        ax.set(
            xlabel=f"odds ratio for one unit, {self.level:.0%} interval",
            title=plain_text(self.title),
        )
        make_axis_of_ratios(ax)


def _add_legend(ax: "Axes", *, loc: str) -> None:
    """Add a legend, or say that no site has told enough for a curve."""
    if ax.get_legend_handles_labels()[1]:
        ax.legend(loc=loc, fontsize="small")
    else:
        ax.text(0.5, 0.5, "too few rows at all sites", ha="center", va="center")


def _is_intercept(name: str) -> bool:
    """Report whether a coefficient is an intercept, of all nodes or of one."""
    return name == "intercept" or name.startswith("intercept of ")


def _style_of_site(k: int, *, is_named: bool) -> dict[str, Any]:
    """Return how the line of a site is drawn: dashed in grays, or pale where many."""
    if not is_named:
        return {"color": "0.7", "linewidth": 0.8, "zorder": 1}
    return {
        "color": f"{0.3 + 0.3 * (k // len(LINES)):.1f}",
        "linestyle": LINES[k % len(LINES)],
        "linewidth": 1.5,
    }


def _auc_in_words(auc: float) -> str:
    return "AUC unknown" if np.isnan(auc) else f"AUC {auc:.3f}"
