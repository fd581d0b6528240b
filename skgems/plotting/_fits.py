"""Draw what came of fits: nodes, levels, messages, and spaces."""

import warnings

import numpy as np
from sklearn.base import clone
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from ..federation import owners_of
from ..local import indices_of
from ..networks import linear_logits
from ..spaces import NoSpaceError

# Told apart in grey.
_LINES = ("-", "--", ":", "-.")
_MARKS = "osD^vPX*<>"
# Models along each axis of a picture of spaces; axes reach so far beyond what is there.
_GRID, _ROOM = 61, 1.4


def _axes(ax):
    """Axes to draw on, and their figure."""
    if ax is None:
        try:
            import matplotlib.pyplot as plt
        except ImportError as exc:
            what = "Pictures need matplotlib: pip install skgems[plot]."
            raise ImportError(what) from exc
        _, ax = plt.subplots(layout="constrained")
    return ax, ax.figure


class _Display:
    def plot(self, *, ax=None):
        """Draw it on matplotlib Axes, or on those of a new figure; return itself."""
        self.ax_, self.figure_ = _axes(ax)
        self._draw(self.ax_)
        return self


class NodeReportDisplay(_Display):
    """For each node the accuracy of its own model and of the aggregate.

    Parameters
    ----------
    report : Report
        Of ``report`` of an aggregator.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
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
    def from_estimator(cls, aggregator, X=None, y=None, nodes=None, *, ax=None):
        """Draw the report of a fitted aggregator.

        Parameters
        ----------
        aggregator : fitted aggregator
        X, y, nodes : array-like, default=None
            Rows that score, as for ``report``.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.

        Returns
        -------
        display : NodeReportDisplay
        """
        return cls(aggregator.report(X, y, nodes)).plot(ax=ax)

    def _draw(self, ax) -> None:
        """Draw a line a node, from its own model to the aggregate."""
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


class EpsilonDisplay(_Display):
    """What is found at each level that models have to reach, and how good it is.

    Parameters
    ----------
    epsilons : ndarray of shape (n_levels,)
    scores : ndarray of shape (n_levels,)
        Accuracy of the aggregate at each level, NaN where there is none.
    found : list of {"found", "empty", "unknown", "no space"}
        Whether a model is in all spaces, provably none is, or neither is known; "no
        space" where a node's own model is below the level.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    References
    ----------
    N. Guha, V. Smith: Model Aggregation via Good-Enough Model Spaces, 2019 (Figure 6).

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> import numpy as np
    >>> from skgems.plotting import EpsilonDisplay
    >>> levels, scores = np.array([0.7, 0.9]), np.array([0.8, 0.85])
    >>> display = EpsilonDisplay(levels, scores, ["found", "empty"]).plot()
    >>> display.ax_.get_xlabel()
    'epsilon'
    """

    _LOOKS = {
        "found": ("o", "black", "in all spaces"),
        "empty": ("X", "white", "proved that none is"),
        "unknown": ("s", "0.6", "not decided"),
        "no space": ("|", "black", "a node has no space"),
    }

    def __init__(self, epsilons, scores, found):
        self.epsilons = epsilons
        self.scores = scores
        self.found = found

    @classmethod
    def from_estimator(
        cls, aggregator, X, y, nodes=None, *, epsilons, test=None, ax=None
    ):
        """Fit an aggregator at each level, and draw what comes out.

        Parameters
        ----------
        aggregator : GEMSLogisticAggregator or GEMSMLPAggregator
            Of fitted local estimators; it is cloned.
        X, y, nodes : array-like
            Rows as for its ``fit``.
        epsilons : sequence of float
            Levels.
        test : tuple (X, y), default=None
            Rows that score. None: those of the fit.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.

        Returns
        -------
        display : EpsilonDisplay
        """
        scores, found = np.full(len(epsilons), np.nan), []
        for k, epsilon in enumerate(epsilons):
            own = clone(aggregator).set_params(epsilon=epsilon, on_empty="ignore")
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    own.fit(X, y, nodes=nodes)
            except NoSpaceError:
                found.append("no space")
                continue
            proof = own.intersection_
            words = "empty" if proof.empty else "unknown"
            found.append("found" if proof.found else words)
            scores[k] = own.score(*(test or (X, y)))
        return cls(np.asarray(epsilons, dtype=float), scores, found).plot(ax=ax)

    def _draw(self, ax) -> None:
        """Draw accuracy over levels; marks say what was found."""
        ax.plot(self.epsilons, self.scores, color="0.6", zorder=1)
        known = self.scores[np.isfinite(self.scores)]
        scores = np.where(np.isfinite(self.scores), self.scores, min(known, default=0))
        for kind, (mark, color, label) in self._LOOKS.items():
            own = np.array([word == kind for word in self.found])
            if own.any():
                edge = {} if mark == "|" else {"edgecolor": "black"}
                looks = {"marker": mark, "color": color, "label": label, **edge}
                ax.scatter(self.epsilons[own], scores[own], s=50, **looks)
        ax.set(xlabel="epsilon", ylabel="accuracy of the aggregate")
        ax.legend(loc="best")


class RoundsDisplay(_Display):
    """How a model gets better with each message.

    Parameters
    ----------
    histories : dict of str to list of dict
        ``history_`` of fits, by a name for each.
    value : str, default="accuracy"
        Which number of each entry is drawn; entries without it are left out.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> from skgems.plotting import RoundsDisplay
    >>> told = [{"bytes_received": 10**6, "accuracy": own} for own in (0.8, 0.9)]
    >>> RoundsDisplay({"ours": told}).plot().ax_.get_xlabel()
    'MB from all nodes'
    """

    def __init__(self, histories, value="accuracy"):
        self.histories = histories
        self.value = value

    @classmethod
    def from_estimator(cls, aggregator, *, name=None, value="accuracy", ax=None):
        """Draw the messages of a fitted aggregator.

        Parameters
        ----------
        aggregator : fitted aggregator
        name : str, default=None
            What the line is called. None: the name of its class.
        value : str, default="accuracy"
            As of the class.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.

        Returns
        -------
        display : RoundsDisplay
        """
        check_is_fitted(aggregator)
        name = type(aggregator).__name__ if name is None else name
        return cls({name: aggregator.history_}, value).plot(ax=ax)

    def _draw(self, ax) -> None:
        """Draw a line a fit over what its nodes had sent by then."""
        for k, (name, history) in enumerate(self.histories.items()):
            sent = np.cumsum([entry["bytes_received"] for entry in history]) / 1e6
            values = [entry.get(self.value) for entry in history]
            there = [j for j, own in enumerate(values) if own is not None]
            drawn = sent[there], [values[j] for j in there]
            looks = {"linestyle": _LINES[k % 4], "marker": _MARKS[k % 10]}
            ax.plot(*drawn, color="black", label=name, **looks)
        ax.set(xlabel="MB from all nodes", ylabel=self.value)
        ax.legend(loc="best")


class SpacesDisplay(_Display):
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

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    References
    ----------
    N. Guha, V. Smith: Model Aggregation via Good-Enough Model Spaces, 2019 (Figure 1).

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
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
    def from_estimator(cls, aggregator, X=None, y=None, nodes=None, *, ax=None):
        """Draw the spaces of a fitted GEMSLogisticAggregator.

        Parameters
        ----------
        aggregator : fitted GEMSLogisticAggregator
            With an `epsilon`, so that there are spaces.
        X, y, nodes : array-like, default=None
            Rows of the nodes, whose good models are shaded.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.

        Returns
        -------
        display : SpacesDisplay

        Raises
        ------
        ValueError
            If the aggregator has no spaces.
        """
        check_is_fitted(aggregator)
        found, names = aggregator.intersection_, aggregator.node_names_
        if found is None:
            raise ValueError("There are no spaces: set epsilon to a level, 0.9 say.")
        rows = None
        if X is not None:
            codes = indices_of(y, aggregator.classes_)
            owned = owners_of(nodes, X).values()
            rows = [(_safe_indexing(X, own), codes[own]) for own in owned]
        return cls(aggregator.spaces_, found.point, names, rows).plot(ax=ax)

    def _draw(self, ax) -> None:
        """Draw each space's outline, the centres, the point, and shaded regions."""
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
            looks = {"linestyles": _LINES[k % 4], "colors": "black"}
            ax.contour(line, line, outside, levels=[1.0], **looks)
            if self.rows is not None:
                good = _accuracies(models, space, *self.rows[k]) >= space.epsilon
                shade = {"colors": ["0.3"], "alpha": 0.25}
                ax.contourf(line, line, good, levels=[0.5, 1.5], **shade)
            mark = _MARKS[k % 10]
            ax.plot(*centers[k], mark, color="white", markeredgecolor="black")
            looks = {"linestyle": _LINES[k % 4], "marker": mark, "label": name}
            looks |= {"color": "black", "markerfacecolor": "white"}
            handles.append(Line2D([], [], **looks))
        ax.plot(0, 0, "*", color="black", markersize=14)
        own = {"linestyle": "", "marker": "*", "markersize": 14, "label": "the model"}
        ax.legend(handles=[*handles, Line2D([], [], color="black", **own)], loc="best")
        ax.set(xlabel="first direction", ylabel="second direction", aspect="equal")


def _accuracies(models, space, X, codes) -> np.ndarray:
    """Accuracy of each model of a grid, among the outputs that the space compares."""
    outputs = np.arange(models.shape[-1])
    if space.outputs is not None:
        outputs = np.flatnonzero(space.outputs)
    found = np.empty(models.shape[:2])
    for i, row in enumerate(models):
        for j, W in enumerate(row):
            best = outputs[linear_logits(X, W[:, outputs]).argmax(axis=1)]
            found[i, j] = np.mean(best == codes)
    return found
