"""Draw what many fits came to: over levels, messages, public rows, and sizes."""

import warnings
from collections.abc import Mapping, Sequence
from copy import deepcopy
from itertools import product
from typing import TYPE_CHECKING, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.linear_model import LogisticRegression
from sklearn.utils.validation import check_is_fitted

from ..networks import final_step, read_network
from ..spaces import Intersection, NoSpaceError
from ._fits import LINES, MARKS, Display, plain_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes


Lines = Mapping[str, tuple[Sequence[float], Sequence[float]]]  # x and y by name


def _draw_lines(ax: "Axes", lines: Lines) -> None:
    for k, (name, (x, y)) in enumerate(lines.items()):
        ax.plot(
            x,
            y,
            marker=MARKS[k % len(MARKS)],
            linestyle=LINES[k % len(LINES)],
            label=plain_text(name),
            color="black",
            markerfacecolor="white",
        )
    ax.legend(loc="best")


class EpsilonDisplay(Display):
    """Outcome and accuracy at each level `epsilon` that models have to reach.

    Parameters
    ----------
    epsilons : ndarray of shape (n_levels,)
        The levels.
    scores : ndarray of shape (n_levels,) or (n_levels, n_levels)
        Accuracy of the aggregate at each level, NaN if there is none. If each of two
        nodes has its own level, rows are levels of the first node and columns of the
        second.
    found : ndarray of str, of the same shape
        The outcome at each level:

        - "found": the model is in all spaces.
        - "empty": it is proved that no model is in all spaces.
        - "unknown": neither of the two.
        - "no space": the local classifier of a node does not reach its level.
    names : list of str, default=("first node", "second node")
        Names of the two nodes, if each has its own level.

    References
    ----------
    N. Guha, V. Smith: Model Aggregation via Good-Enough Model Spaces, 2019 (Figure 6).

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.plotting import EpsilonDisplay
    >>> found = np.array(["found", "empty"])
    >>> display = EpsilonDisplay(np.array([0.7, 0.9]), np.array([0.8, 0.85]), found)
    >>> display.plot().ax_.get_xlabel()
    'epsilon'
    """

    # The mark, its color and what the legend says, for each outcome.
    _MARKS = {
        "found": ("o", "black", "in all spaces"),
        "empty": ("X", "white", "proved that none is"),
        "unknown": ("s", "0.6", "not decided"),
        "no space": ("_", "black", "a node has no space"),
    }

    def __init__(self, epsilons, scores, found, names=("first node", "second node")):
        self.epsilons = epsilons
        self.scores = scores
        self.found = found
        self.names = names

    @classmethod
    def from_estimator(
        cls,
        aggregator,
        X,
        y,
        nodes=None,
        *,
        epsilons,
        by_node=False,
        test=None,
        ax=None,
    ) -> Self:
        """Fit an aggregator at each level, and draw the outcomes.

        Parameters
        ----------
        aggregator : GEMSLogisticAggregator or GEMSMLPAggregator
            The aggregator, with fitted local classifiers; it is cloned.
        X, y, nodes : array-like
            Rows, labels and nodes, as for its ``fit``.
        epsilons : array-like of shape (n_levels,)
            The levels.
        by_node : bool, default=False
            Whether each of two nodes has its own level. The aggregator is then fitted
            at all pairs of levels.
        test : tuple (X, y), default=None
            Rows and labels that score the aggregate. If None, those of the fit are
            used.
        ax : matplotlib Axes, default=None
            Axes to draw on. If None, a new figure is made.

        Returns
        -------
        display : EpsilonDisplay
        """
        aggregator = _ignoring_empty(aggregator)
        epsilons = np.asarray(epsilons, dtype=float)
        shape = (len(epsilons),) * (2 if by_node else 1)
        scores = np.full(shape, np.nan)
        outcomes = np.full(shape, "no space")
        names = None
        for place in product(range(len(epsilons)), repeat=len(shape)):
            level = epsilons[list(place)] if by_node else epsilons[place[0]]
            aggregate = clone(aggregator).set_params(epsilon=level)
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    aggregate.fit(X, y, nodes=nodes)
            except NoSpaceError:
                continue
            if _misses_level(aggregate, level):
                continue
            names = aggregate.node_names_
            outcomes[place] = _outcome(aggregate.intersection_)
            scores[place] = aggregate.score(*(test or (X, y)))
        if names is None or not by_node:
            return cls(epsilons, scores, outcomes).plot(ax=ax)
        return cls(epsilons, scores, outcomes, names).plot(ax=ax)

    def _draw(self, ax: "Axes") -> None:
        if self.scores.ndim == 1:
            self._draw_line(ax)
        else:
            self._draw_table(ax)

    def _draw_line(self, ax: "Axes") -> None:
        """Return the accuracy over the level that all nodes have in common."""
        is_known = np.isfinite(self.scores)
        lowest = self.scores[is_known].min(initial=1.0)
        scores = np.where(is_known, self.scores, lowest)
        ax.plot(self.epsilons, self.scores, color="0.6", zorder=1)
        for outcome, (mark, color, label) in self._MARKS.items():
            marked = self.found == outcome
            if marked.any():
                ax.scatter(
                    self.epsilons[marked],
                    scores[marked],
                    marker=mark,
                    label=label,
                    s=60,
                    color=color,
                    edgecolor=None if mark == "_" else "black",
                )
        ax.set(xlabel="epsilon", ylabel="accuracy of the aggregate")
        ax.legend(loc="best")

    def _draw_table(self, ax: "Axes") -> None:
        """A mark for each pair of levels of two nodes, as bright as it is accurate."""
        is_known = np.isfinite(self.scores)
        lowest = self.scores[is_known].min(initial=1.0)
        scores = np.where(is_known, self.scores, lowest)
        x, y = np.meshgrid(self.epsilons, self.epsilons, indexing="ij")
        for outcome, (mark, color, label) in self._MARKS.items():
            marked = self.found == outcome
            if not marked.any():
                continue
            if outcome not in ("found", "unknown"):
                ax.scatter(
                    x[marked],
                    y[marked],
                    marker=mark,
                    label=label,
                    s=60,
                    color=color,
                    edgecolor=None if mark == "_" else "black",
                )
                continue
            points = ax.scatter(
                x[marked],
                y[marked],
                marker=mark,
                label=label,
                s=60,
                c=scores[marked],
                cmap="gray",
                vmin=lowest,
                vmax=scores.max(),
                edgecolor="black",
            )
            if outcome == "found":
                ax.figure.colorbar(points, ax=ax, label="accuracy of the aggregate")
        first_name, second_name = map(plain_text, self.names)
        ax.set(xlabel=f"epsilon of {first_name}", ylabel=f"epsilon of {second_name}")
        ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2)


def _ignoring_empty(aggregator: BaseEstimator) -> BaseEstimator:
    """Return a clone that goes on without a word where spaces do not intersect."""
    ignoring = clone(aggregator)
    if "last_layer" in ignoring.get_params(deep=False):  # of networks
        return ignoring.set_params(last_layer__spaces__on_empty="ignore")
    return ignoring.set_params(spaces__on_empty="ignore")


def _misses_level(aggregate: BaseEstimator, level: float | np.ndarray) -> bool:
    """Report whether a node's space is of another epsilon than was asked for."""
    reached = [space.epsilon for space in aggregate.spaces_]
    return not np.array_equal(reached, np.broadcast_to(level, len(reached)))


def _outcome(intersection: Intersection) -> str:
    if intersection.found:
        return "found"
    return "empty" if intersection.empty else "unknown"


class RoundsDisplay(Display):
    """How a model improves with each message.

    Parameters
    ----------
    histories : dict of str to list of dict
        The attribute ``history_`` of each fit, by a name for its line.
    value : str, default="accuracy"
        Key of the number in each entry that is drawn. Entries without it are left out.

    Examples
    --------
    >>> from skgems.plotting import RoundsDisplay
    >>> history = [
    ...     {"bytes_received": 10**6, "accuracy": 0.8},
    ...     {"bytes_received": 10**6, "accuracy": 0.9},
    ... ]
    >>> RoundsDisplay({"ours": history}).plot().ax_.get_xlabel()
    'MB from all nodes'
    """

    def __init__(self, histories, value="accuracy"):
        self.histories = histories
        self.value = value

    @classmethod
    def from_estimator(cls, aggregators, *, value="accuracy", ax=None) -> Self:
        """Draw the messages of fitted aggregators.

        Parameters
        ----------
        aggregators : dict of str to fitted aggregator, or one
            The aggregators, by a name for each line.
        value : str, default="accuracy"
            Key of the number in ``history_`` that is drawn.
        ax : matplotlib Axes, default=None
            Axes to draw on. If None, a new figure is made.

        Returns
        -------
        display : RoundsDisplay
        """
        histories = {
            name: aggregator.history_
            for name, aggregator in _named(aggregators).items()
        }
        return cls(histories, value).plot(ax=ax)

    def _draw(self, ax: "Axes") -> None:
        lines = {}
        for name, history in self.histories.items():
            megabytes = np.cumsum([entry["bytes_received"] for entry in history]) / 1e6
            points = [
                (x, entry[self.value])
                for x, entry in zip(megabytes, history, strict=True)
                if entry.get(self.value) is not None
            ]
            if points:
                lines[name] = tuple(zip(*points, strict=True))
        ax.set(xlabel="MB from all nodes", ylabel=self.value)
        _draw_lines(ax, lines)


class FineTuningDisplay(Display):
    """Accuracy after fine-tuning, by the number of public rows.

    Parameters
    ----------
    sizes : ndarray of shape (n_sizes,)
        Numbers of public rows.
    scores : dict of str to ndarray of shape (n_sizes,)
        Accuracy with each number of public rows, by a name for each line.

    References
    ----------
    N. Guha, V. Smith: Model Aggregation via Good-Enough Model Spaces, 2019 (Figures 3
    and 4).

    Examples
    --------
    >>> from skgems.plotting import FineTuningDisplay
    >>> display = FineTuningDisplay([0, 100], {"ours": [0.8, 0.9]}).plot()
    >>> display.ax_.get_xlabel()
    'public rows'
    """

    def __init__(self, sizes, scores):
        self.sizes = sizes
        self.scores = scores

    @classmethod
    def from_estimator(
        cls, aggregators, X, y, *, sizes, test, alone=None, ax=None
    ) -> Self:
        """Fine-tune copies of fitted aggregators on more and more public rows.

        One more line shows a classifier that is fitted on the public rows alone.

        Parameters
        ----------
        aggregators : dict of str to fitted aggregator, or one
            The aggregators, by a name for each line. Aggregators without the method
            ``fine_tune`` are not changed.
        X, y : array-like
            Public rows and labels. Each size takes as many rows from the beginning.
        sizes : sequence of int
            Numbers of public rows. With 0 the aggregators are not changed.
        test : tuple (X, y)
            Rows and labels that score the models.
        alone : classifier, default=None
            Classifier that is fitted on the public rows alone. If None,
            ``LogisticRegression(max_iter=1000)``.
        ax : matplotlib Axes, default=None
            Axes to draw on. If None, a new figure is made.

        Returns
        -------
        display : FineTuningDisplay
        """
        alone = LogisticRegression(max_iter=1000) if alone is None else alone
        scores = {name: [] for name in (*_named(aggregators), "public rows alone")}
        for size in sizes:
            public_X = X.iloc[:size] if hasattr(X, "iloc") else X[:size]
            public_y = np.asarray(y)[:size]
            for name, aggregate in _named(aggregators).items():
                tuned = aggregate
                if size and hasattr(aggregate, "fine_tune"):
                    tuned = deepcopy(aggregate).fine_tune(public_X, public_y)
                scores[name].append(tuned.score(*test))
            score_alone = np.nan
            if len(np.unique(public_y)) > 1:
                score_alone = clone(alone).fit(public_X, public_y).score(*test)
            scores["public rows alone"].append(score_alone)
        arrays = {name: np.array(of_name) for name, of_name in scores.items()}
        return cls(np.asarray(sizes), arrays).plot(ax=ax)

    def _draw(self, ax: "Axes") -> None:
        ax.set(xlabel="public rows", ylabel="accuracy")
        lines = {name: (self.sizes, scores) for name, scores in self.scores.items()}
        _draw_lines(ax, lines)


class SizeAccuracyDisplay(Display):
    """Accuracy of models by their number of weights.

    Parameters
    ----------
    sizes : dict of str to int
        Number of weights and biases of each model, by its name.
    scores : dict of str to float
        Accuracy of each model, by its name.

    Examples
    --------
    >>> from skgems.plotting import SizeAccuracyDisplay
    >>> display = SizeAccuracyDisplay({"ours": 1000}, {"ours": 0.9}).plot()
    >>> display.ax_.get_xlabel()
    'weights'
    """

    def __init__(self, sizes, scores):
        self.sizes = sizes
        self.scores = scores

    @classmethod
    def from_estimator(cls, models, X, y, *, ax=None) -> Self:
        """Score fitted models, and draw their accuracy by their number of weights.

        Parameters
        ----------
        models : dict of str to fitted aggregator or classifier, or one
            Linear models and networks by their names, without a pipeline or a front
            before them. An ensemble counts the weights of all members and of its stack.
        X, y : array-like
            Rows and labels that score the models.
        ax : matplotlib Axes, default=None
            Axes to draw on. If None, a new figure is made.

        Returns
        -------
        display : SizeAccuracyDisplay
        """
        models = _named(models)
        sizes = {name: _n_weights(model) for name, model in models.items()}
        scores = {name: model.score(X, y) for name, model in models.items()}
        return cls(sizes, scores).plot(ax=ax)

    def _draw(self, ax: "Axes") -> None:
        for k, (name, size) in enumerate(self.sizes.items()):
            ax.scatter(
                size,
                self.scores[name],
                label=name,
                marker=MARKS[k % len(MARKS)],
                color="black" if k < len(MARKS) else "white",
                edgecolor="black",
                s=60,
            )
        ax.set(xlabel="weights", ylabel="accuracy", xscale="log")
        ax.legend(loc="best")


class GapDisplay(Display):
    """Gap of methods to the pooled model, by the partition of the rows.

    Parameters
    ----------
    gaps : dict of str to dict of str to array-like
        For each method and partition, by name, the percentage points of accuracy below
        the pooled model, one number per data set or seed.

    Examples
    --------
    >>> from skgems.plotting import GapDisplay
    >>> display = GapDisplay({"ours": {"alike": [0.1, 0.3]}}).plot()
    >>> [label.get_text() for label in display.ax_.get_yticklabels()]
    ['alike']
    """

    def __init__(self, gaps):
        self.gaps = gaps

    @classmethod
    def from_estimator(
        cls, aggregators, X, y, *, pooled, partitions, test, ax=None
    ) -> Self:
        """Fit clones of aggregators under each partition, and the pooled model once.

        Parameters
        ----------
        aggregators : dict of str to aggregator, or one
            Unfitted aggregators by their names, with estimators that are trained at
            each node.
        X, y : array-like
            Rows and labels of all nodes.
        pooled : classifier
            Classifier that is fitted on all rows in one place.
        partitions : dict of str to array-like of shape (n_samples,)
            The node of each row, by the name of the partition.
        test : tuple (X, y)
            Rows and labels that score the models.
        ax : matplotlib Axes, default=None
            Axes to draw on. If None, a new figure is made.

        Returns
        -------
        display : GapDisplay
        """
        pooled_score = clone(pooled).fit(X, y).score(*test)
        gaps = {}
        for method, aggregator in _named(aggregators).items():
            gaps[method] = {}
            for partition, nodes in partitions.items():
                score = clone(aggregator).fit(X, y, nodes=nodes).score(*test)
                gaps[method][partition] = [100 * (pooled_score - score)]
        return cls(gaps).plot(ax=ax)

    def _draw(self, ax: "Axes") -> None:
        partitions = list(
            dict.fromkeys(
                partition
                for gaps_of_method in self.gaps.values()
                for partition in gaps_of_method
            )
        )
        for k, (method, gaps_of_method) in enumerate(self.gaps.items()):
            # Methods stand one below the other within the line of a partition.
            places = [-partitions.index(name) - k / 10 for name in gaps_of_method]
            means = [np.mean(gaps) for gaps in gaps_of_method.values()]
            worst = [np.max(gaps) for gaps in gaps_of_method.values()]
            ax.hlines(places, means, worst, color="0.6", zorder=1)
            ax.scatter(
                means,
                places,
                marker=MARKS[k % len(MARKS)],
                color=str(0.8 * (k % 2)),  # black and light gray in turn
                edgecolor="black",
                label=method,
            )
        ax.axvline(0, color="black", linewidth=0.8)
        ax.set_yticks(-np.arange(len(partitions)), partitions)
        ax.set(xlabel="points below the pooled model (mean, and worst)")
        ax.legend(loc="best")


def _named(models) -> dict[str, BaseEstimator]:
    """Return models by name; one alone has the name of its class."""
    return models if isinstance(models, dict) else {type(models).__name__: models}


def _n_weights(model: BaseEstimator) -> int:
    """Return weights and biases of a model, or of all members of an ensemble."""
    check_is_fitted(model)
    if hasattr(model, "stack_"):
        return sum(map(_n_weights, [*model.estimators_, model.stack_]))
    model = model.to_estimator() if hasattr(model, "to_estimator") else model
    if members := getattr(model, "estimators_", None):
        return sum(map(_n_weights, members))
    # Steps before it, as those of a front, need be no part of a network.
    network = read_network(final_step(model))
    return sum(weights.size for weights in (*network.coefs, *network.intercepts))
