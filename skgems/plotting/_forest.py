"""Draw estimates of all nodes and the common one, as a forest plot does."""

from typing import TYPE_CHECKING, Self

import numpy as np
from scipy.stats import norm

from ._fits import Display, plain_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Size of the mark of the node with the smallest error, in points squared; others have
# areas by their weight in the common estimate, as in meta-analyses.
_LARGEST_MARK = 120.0
# Within such a ratio an axis has few numbers as 1, 2 and 5, and equal steps are better.
_FEW_POWERS = 8.0


class ForestDisplay(Display):
    """Odds ratio of one column at each node, and in the common model.

    Marks are the larger the more a node's rows say, and lines are intervals. A dashed
    line marks the common odds ratio, and a solid one the odds ratio 1.

    Parameters
    ----------
    names : list of str
        Names of the nodes.
    estimates : ndarray of shape (n_nodes,)
        Log odds ratio at each node, NaN if its rows do not decide it.
    errors : ndarray of shape (n_nodes,)
        Standard errors of these.
    common : tuple of (float, float)
        Log odds ratio of the common model, and its standard error.
    title : str, default=""
        Title of the picture.
    level : float, default=0.95
        Level of confidence of the intervals.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.plotting import ForestDisplay
    >>> estimates, errors = np.array([0.2, 0.6]), np.array([0.2, 0.3])
    >>> display = ForestDisplay(["lyon", "nice"], estimates, errors, (0.3, 0.17)).plot()
    >>> display.ax_.get_xlabel()
    'odds ratio'
    """

    def __init__(self, names, estimates, errors, common, *, title="", level=0.95):
        self.names = names
        self.estimates = estimates
        self.errors = errors
        self.common = common
        self.title = title
        self.level = level

    @classmethod
    def from_inference(cls, inference, column, *, label=None, ax=None) -> Self:
        """Draw one coefficient of a table of odds ratios.

        Parameters
        ----------
        inference : Inference
            The table, of nodes that told their information.
        column : str or int
            Name of the column, or its place.
        label : label, default=None
            The class that is compared with the reference. If None, it is the first one.
        ax : matplotlib Axes, default=None
            Axes to draw on. If None, a new figure is made.

        Returns
        -------
        display : ForestDisplay

        Raises
        ------
        ValueError
            If there are no estimates by node, or no such coefficient.
        """
        by_node = inference.heterogeneity
        if by_node is None:
            raise ValueError(
                "The table has no estimates by node: nodes were not asked, or did not "
                "tell their information. Call inference(X, y, nodes)."
            )
        label = inference.classes[0] if label is None else label
        if isinstance(column, int):
            column = inference.names[column]
        coefficients = list(zip(inference.classes, inference.names, strict=True))
        if (label, column) not in coefficients:
            raise ValueError(
                f"There is no coefficient of the column {column!r} for the class "
                f"{label!r}. Columns are {sorted(set(inference.names))}."
            )
        place = coefficients.index((label, column))
        if np.isnan(by_node.errors[:, place]).all():
            raise ValueError(
                f"No node has an estimate of {column!r}: intercepts differ between "
                "nodes anyway, and rows of a single node may not decide a coefficient. "
                "Draw another column."
            )
        return cls(
            list(inference.nodes),
            by_node.estimates[:, place],
            by_node.errors[:, place],
            (float(inference.params[place]), float(inference.bse[place])),
            title=f"{column}: I2 {by_node.I2[place]:.0%}",
            level=inference.level,
        ).plot(ax=ax)

    @classmethod
    def from_estimator(cls, aggregator, X, y, nodes, *, column, ax=None) -> Self:
        """Ask the nodes of a fitted aggregator, and draw one coefficient.

        Parameters
        ----------
        aggregator : GEMSLogisticAggregator
            A fitted aggregator.
        X, y, nodes : array-like
            Rows of the nodes, as for its ``fit``.
        column : str or int
            Name of the column, or its place.
        ax : matplotlib Axes, default=None
            Axes to draw on. If None, a new figure is made.

        Returns
        -------
        display : ForestDisplay
        """
        return cls.from_inference(aggregator.inference(X, y, nodes), column, ax=ax)

    def _draw(self, ax: "Axes") -> None:
        half = norm.ppf(0.5 + self.level / 2.0)
        places = np.arange(len(self.names), 0, -1)
        shares = np.nanmin(self.errors) ** 2 / self.errors**2
        for place, estimate, error, share in zip(
            places, self.estimates, self.errors, shares, strict=True
        ):
            if np.isnan(error):
                continue
            ends = np.exp([estimate - half * error, estimate + half * error])
            ax.plot(ends, [place, place], color="black", linewidth=1)
            ax.scatter(
                np.exp(estimate),
                place,
                s=_LARGEST_MARK * share,
                marker="s",
                color="black",
            )
        common, error = self.common
        ends = np.exp([common - half * error, common + half * error])
        middle = np.exp(common)
        corners = [ends[0], middle, ends[1], middle]
        ax.fill(corners, [0.0, 0.2, 0.0, -0.2], color="black")
        ax.axvline(middle, color="black", linestyle="--", linewidth=1)
        ax.axvline(1.0, color="black", linewidth=1)
        ax.set_yticks([*places, 0], [*map(plain_text, self.names), "common model"])
        ax.set(xlabel="odds ratio", title=plain_text(self.title))
        make_axis_of_ratios(ax)


def make_axis_of_ratios(ax: "Axes") -> None:
    """Make a horizontal axis logarithmic, with ticks whose numbers do not overlap."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

    ax.set_xscale("log")
    low, high = ax.get_xlim()
    if high / low < _FEW_POWERS:
        ax.xaxis.set_major_locator(MaxNLocator(5))
    else:
        ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter("{x:g}")
