"""Draw what came of fits: nodes, levels, messages, and spaces."""

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..networks import linear_logits
from ..parties import rows_of_nodes
from ..spaces import GoodEnoughSpace

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Lines and marks that can be told apart in gray.
LINES = ("-", "--", ":", "-.")
MARKS = "osD^vPX*<>"
# Models along each axis of a picture of spaces, each of which all rows are judged by.
_GRID = 61
# Axes reach so many times as far as the centers of spaces.
_MARGIN = 1.4


def new_axes(*shape: int, **options) -> Any:
    """Return axes of a new figure; an ImportError says what to install.

    ``options`` are those of ``matplotlib.pyplot.subplots``.
    """
    try:
        import matplotlib.pyplot as plt
    except ImportError as exc:
        raise ImportError("matplotlib is missing: pip install skgems[plot].") from exc
    _, axes = plt.subplots(*shape, layout="constrained", **options)
    return axes


def plain_text(name: object) -> str:
    """Return the name of a node, column or class as matplotlib is to show it.

    It is no formula, and a legend does not leave it out for an underscore.
    """
    text = str(name).replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


class Display:
    """Base class of displays, which work like those of scikit-learn."""

    def plot(self, *, ax=None) -> Self:
        """Draw the display and return it.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on. If None, a new figure is made. They are stored as ``ax_``,
            and their figure as ``figure_``.

        Returns
        -------
        display : Display
            The object itself.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        self.ax_ = new_axes() if ax is None else ax
        self.figure_ = self.ax_.figure
        self._draw(self.ax_)
        return self


class NodeReportDisplay(Display):
    """Accuracy of the local classifier and of the aggregate at each node.

    A vertical line marks the share of the largest class among the node's rows, which is
    the accuracy of always predicting this class.

    Parameters
    ----------
    report : Report
        The return value of the method ``report`` of an aggregator.

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
            The aggregator to report on.
        X, y, nodes : array-like, default=None
            Rows to score, their labels and their nodes, as for ``report``.
        ax : matplotlib Axes, default=None
            Axes to draw on. If None, a new figure is made.

        Returns
        -------
        display : NodeReportDisplay
        """
        return cls(aggregator.report(X, y, nodes)).plot(ax=ax)

    def _draw(self, ax: "Axes") -> None:
        nodes = self.report.nodes
        names = nodes["node"]
        places = -np.arange(len(names))
        unknown = [None] * len(names)
        local_scores = np.array(nodes.get("local_accuracy", unknown), dtype=float)
        scores = np.array(nodes.get("aggregate_accuracy", unknown), dtype=float)
        ax.hlines(places, local_scores, scores, color="0.6", linewidth=2, zorder=1)
        ax.scatter(
            local_scores,
            places,
            s=50,
            color="white",
            edgecolor="black",
            label="local model",
        )
        ax.scatter(scores, places, s=50, color="black", label="aggregate")
        shares = np.array(nodes.get("largest_class", unknown), dtype=float)
        label = "always the largest class"
        ax.scatter(shares, places, s=120, color="0.4", marker="|", label=label)
        ax.set_yticks(places, list(map(plain_text, names)))
        ax.set(xlabel="accuracy", ylabel="node")
        ax.legend(loc="best")


class SpacesDisplay(Display):
    """Good-enough spaces in a plane through the model that was found.

    The plane goes through the point of the intersection, along the two directions in
    which the centers of the spaces are farthest from it.

    Parameters
    ----------
    spaces : list of GoodEnoughSpace
        The space of each node.
    point : ndarray of shape (n_features + 1, n_outputs)
        The point of the intersection: the weights of the model.
    names : list of str
        Names of the nodes.
    rows : list of tuple (X, codes), default=None
        Rows of each node, with labels as column numbers of the model. If given, the
        models whose accuracy on these rows reaches the level of the node's space are
        shaded.

    References
    ----------
    N. Guha, V. Smith: Model Aggregation via Good-Enough Model Spaces, 2019 (Figure 1).

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.plotting import SpacesDisplay
    >>> from skgems.spaces import GoodEnoughSpace, ball_metric, intersect
    >>> metric = ball_metric(2, [True, True])
    >>> spaces = [
    ...     GoodEnoughSpace(center=center, metric=metric, radius=1.0, epsilon=0.9)
    ...     for center in (np.zeros((2, 2)), np.eye(2))
    ... ]
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
        """Draw the good-enough spaces of a fitted GEMSLogisticAggregator.

        Parameters
        ----------
        aggregator : fitted GEMSLogisticAggregator
            The aggregator, with a level `epsilon`; otherwise there are no spaces.
        X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
            Rows, as for ``predict``. If given, the models that reach the level of a
            node's space on the rows of the node are shaded.
        y : array-like of shape (n_samples,), default=None
            Labels of the rows.
        nodes : array-like of shape (n_samples,), default=None
            Name or index of the node that owns each row. If None, every node owns all
            rows.
        ax : matplotlib Axes, default=None
            Axes to draw on. If None, a new figure is made.

        Returns
        -------
        display : SpacesDisplay

        Raises
        ------
        ValueError
            If the aggregator has no spaces, or rows belong to nodes that it does not
            have.
        """
        check_is_fitted(aggregator)
        intersection = aggregator.intersection_
        if intersection is None:
            raise ValueError(
                "There are no good-enough spaces to draw. Set epsilon to a level, such "
                "as 0.9."
            )
        names = aggregator.node_names_
        rows = None
        if X is not None:
            # Spaces are of what comes out of the front.
            X = aggregator._validate(X, reset=False)
            code_of = {c: k for k, c in enumerate(aggregator.classes_.tolist())}
            codes = np.array([code_of.get(c, -1) for c in np.asarray(y).tolist()])
            rows = [
                (X[places], codes[places])
                for places in rows_of_nodes(nodes, names, len(codes))
            ]
        return cls(aggregator.spaces_, intersection.point, names, rows).plot(ax=ax)

    def _draw(self, ax: "Axes") -> None:
        from matplotlib.lines import Line2D

        away = np.stack([(space.center - self.point).ravel() for space in self.spaces])
        directions = _two_directions(away)
        centers = away @ directions.T
        reach = _MARGIN * np.abs(centers).max() or 1.0
        line = np.linspace(-reach, reach, _GRID)
        steps = np.stack(np.meshgrid(line, line), axis=-1) @ directions
        models = self.point + steps.reshape(_GRID, _GRID, *self.point.shape)
        handles = []
        for k, (space, name) in enumerate(zip(self.spaces, self.names, strict=True)):
            line_style = LINES[k % len(LINES)]
            mark = MARKS[k % len(MARKS)]
            distances = space.normalized_squared_distance(models)
            ax.contour(
                line,
                line,
                distances,
                levels=[1.0],
                linestyles=line_style,
                colors="black",
            )
            if self.rows is not None:
                X, codes = self.rows[k]
                if len(codes):
                    is_good = _accuracies(models, space, X, codes) >= space.epsilon
                    ax.contourf(
                        line,
                        line,
                        is_good,
                        levels=[0.5, 1.5],
                        colors=["0.3"],
                        alpha=0.25,
                    )
            ax.plot(*centers[k], mark, color="white", markeredgecolor="black")
            handles.append(
                Line2D(
                    [],
                    [],
                    linestyle=line_style,
                    marker=mark,
                    label=plain_text(name),
                    color="black",
                    markerfacecolor="white",
                )
            )
        ax.plot(0, 0, "*", color="black", markersize=14)
        handles.append(
            Line2D(
                [],
                [],
                linestyle="",
                marker="*",
                markersize=14,
                label="the model",
                color="black",
            )
        )
        ax.legend(handles=handles, loc="best")
        ax.set(xlabel="first direction", ylabel="second direction", aspect="equal")


def _two_directions(away: np.ndarray) -> np.ndarray:
    """Unit vectors, (2, n_weights), along which points lie farthest from zero."""
    directions = np.linalg.svd(away, full_matrices=False)[2][:2]
    if len(directions) == 2:
        return directions
    # One point has one direction; the second is any other.
    return np.vstack([directions, np.roll(directions, 1, axis=1)])


def _accuracies(
    models: np.ndarray, space: GoodEnoughSpace, X, codes: np.ndarray
) -> np.ndarray:
    """Return the accuracy of each model of a grid on rows, of the shape of the grid.

    ``models`` has the shape (n_grid, n_grid, n_features + 1, n_outputs).
    """
    outputs = np.arange(models.shape[-1])
    if space.outputs is not None:
        outputs = np.flatnonzero(space.outputs)
    W_of_models = models[..., outputs].reshape(-1, models.shape[-2], len(outputs))
    accuracies = [
        np.mean(outputs[linear_logits(X, W).argmax(axis=1)] == codes)
        for W in W_of_models
    ]
    return np.reshape(accuracies, models.shape[:2])
