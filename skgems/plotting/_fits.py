"""Draw what came of fits: nodes, levels, messages, and spaces."""

from typing import Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..compat import safe_indexing
from ..federation import rows_of_nodes
from ..local import indices_of
from ..networks import linear_logits

# Told apart in grey.
LINES = ("-", "--", ":", "-.")
MARKS = "osD^vPX*<>"
# Models along each axis of a picture of spaces; axes reach so far beyond what is there.
_GRID, _ROOM = 61, 1.4


def new_axes(*shape, **how):
    """Axes of a new figure; an ImportError says what to install."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as exc:
        raise ImportError("matplotlib is missing: pip install skgems[plot].") from exc
    return plt.subplots(*shape, layout="constrained", **how)[1]


class Display:
    """What is drawn by ``_draw``, as scikit-learn's displays are."""

    def plot(self, *, ax=None) -> Self:
        """Draw on Axes, `ax_` then, by default of a new `figure_`; return itself."""
        ax = new_axes() if ax is None else ax
        self.ax_, self.figure_ = ax, ax.figure
        self._draw(ax)
        return self


class NodeReportDisplay(Display):
    """For each node the accuracy of its own model and of the aggregate.

    Parameters
    ----------
    report : Report
        Of ``report`` of an aggregator.

    Examples
    --------
    >>> from skgems import PooledAggregator
    >>> from skgems.datasets import load_penguins
    >>> from skgems.plotting import NodeReportDisplay
    >>> X, y, islands = load_penguins()
    >>> agg = PooledAggregator().fit(X, y, nodes=islands)
    >>> display = NodeReportDisplay.from_estimator(agg, X, y, islands)
    >>> display.ax_.get_xlabel()
    'accuracy'
    """

    def __init__(self, report):
        self.report = report

    @classmethod
    def from_estimator(cls, aggregator, X=None, y=None, nodes=None, *, ax=None) -> Self:
        """Draw the report of a fitted aggregator.

        Parameters
        ----------
        aggregator : fitted aggregator
        X, y, nodes : array-like, default=None
            Rows that score, as for ``report``.
        ax : matplotlib Axes, default=None
        """
        return cls(aggregator.report(X, y, nodes)).plot(ax=ax)

    def _draw(self, ax) -> None:
        nodes = self.report.nodes
        names, places = nodes["node"], -np.arange(len(nodes["node"]))
        found = nodes.get("aggregate", [None] * len(names))
        own = nodes.get("own", [None] * len(names))
        own, found = (np.array(part, dtype=float) for part in (own, found))
        ax.hlines(places, own, found, color="0.6", linewidth=2, zorder=1)
        marks = {"color": "white", "edgecolor": "black", "label": "own model"}
        ax.scatter(own, places, s=50, **marks)
        ax.scatter(found, places, s=50, color="black", label="aggregate")
        ax.set_yticks(places, names)
        ax.set(xlabel="accuracy", ylabel="node")
        ax.legend(loc="best")


class SpacesDisplay(Display):
    """A plane through the point of an intersection: spaces, and where models are good.

    Parameters
    ----------
    spaces : list of GoodEnoughSpace
    point : ndarray of shape (n_features + 1, n_outputs)
        Of the intersection; the plane goes through it, along the two directions in
        which the centres of spaces are farthest from it.
    names : list of str
        Of the nodes.
    rows : list of tuple (X, codes), default=None
        Of each node, labels as columns of the model: regions where these reach the
        level of the space are shaded.

    References
    ----------
    N. Guha, V. Smith: Model Aggregation via Good-Enough Model Spaces, 2019 (Figure 1).

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.plotting import SpacesDisplay
    >>> from skgems.spaces import GoodEnoughSpace, ball_metric, intersect
    >>> metric, centers = ball_metric(2, [True, True]), (np.zeros((2, 2)), np.eye(2))
    >>> spaces = [GoodEnoughSpace(own, metric, 1.0, epsilon=0.9) for own in centers]
    >>> point = intersect(spaces).point
    >>> len(SpacesDisplay(spaces, point, ["a", "b"]).plot().ax_.get_legend().texts)
    3
    """

    def __init__(self, spaces, point, names, rows=None):
        self.spaces = spaces
        self.point = point
        self.names = names
        self.rows = rows

    @classmethod
    def from_estimator(cls, aggregator, X=None, y=None, nodes=None, *, ax=None) -> Self:
        """Draw the spaces of a fitted GEMSLogisticAggregator.

        Parameters
        ----------
        aggregator : fitted GEMSLogisticAggregator
            With an `epsilon`, so that there are spaces.
        X : {array-like, DataFrame, sparse matrix} of shape (n_samples, n_features), \
default=None
            Rows, as for ``predict``. For each node the models are shaded that reach the
            level of its space on its rows.
        y : array-like of shape (n_samples,), default=None
            Labels.
        nodes : array-like of shape (n_samples,), default=None
            Name or index of the node that owns each row. None: all rows are of every
            node.
        ax : matplotlib Axes, default=None

        Raises
        ------
        ValueError
            If the aggregator has no spaces, or rows are of nodes that it does not have.
        """
        check_is_fitted(aggregator)
        intersection, names = aggregator.intersection_, aggregator.node_names_
        if intersection is None:
            raise ValueError("There are no spaces: set epsilon to a level, 0.9 say.")
        rows = None
        if X is not None:
            # Spaces are of what comes out of the front.
            X = aggregator._validate(X, reset=False)
            codes = indices_of(y, aggregator.classes_)
            rows = [
                (safe_indexing(X, places), codes[places])
                for places in rows_of_nodes(nodes, names, len(codes))
            ]
        return cls(aggregator.spaces_, intersection.point, names, rows).plot(ax=ax)

    def _draw(self, ax) -> None:
        from matplotlib.lines import Line2D

        away = np.stack([(own.center - self.point).ravel() for own in self.spaces])
        directions = np.linalg.svd(away, full_matrices=False)[2][:2]
        if len(directions) < 2:
            directions = np.vstack([directions, np.roll(directions, 1, axis=1)])
        centers = away @ directions.T
        reach = _ROOM * np.abs(centers).max() or 1.0
        line = np.linspace(-reach, reach, _GRID)
        steps = np.stack(np.meshgrid(line, line), axis=-1) @ directions
        models = self.point + steps.reshape(_GRID, _GRID, *self.point.shape)
        handles = []
        for k, (space, name) in enumerate(zip(self.spaces, self.names, strict=True)):
            outside = space.normalized_squared_distance(models)
            looks = {"linestyles": LINES[k % 4], "colors": "black"}
            ax.contour(line, line, outside, levels=[1.0], **looks)
            if self.rows is not None and len(self.rows[k][1]):
                good = _accuracies(models, space, *self.rows[k]) >= space.epsilon
                shade = {"colors": ["0.3"], "alpha": 0.25}
                ax.contourf(line, line, good, levels=[0.5, 1.5], **shade)
            mark = MARKS[k % 10]
            ax.plot(*centers[k], mark, color="white", markeredgecolor="black")
            looks = {"linestyle": LINES[k % 4], "marker": mark, "label": name}
            looks |= {"color": "black", "markerfacecolor": "white"}
            handles.append(Line2D([], [], **looks))
        ax.plot(0, 0, "*", color="black", markersize=14)
        own = {"linestyle": "", "marker": "*", "markersize": 14, "label": "the model"}
        ax.legend(handles=[*handles, Line2D([], [], color="black", **own)], loc="best")
        ax.set(xlabel="first direction", ylabel="second direction", aspect="equal")


def _accuracies(models, space, X, codes) -> np.ndarray:
    outputs = np.arange(models.shape[-1])
    if space.outputs is not None:
        outputs = np.flatnonzero(space.outputs)
    every = models[..., outputs].reshape(-1, models.shape[-2], len(outputs))
    best = (outputs[linear_logits(X, W).argmax(axis=1)] for W in every)
    return np.reshape([np.mean(own == codes) for own in best], models.shape[:2])
