"""Draw what many fits came to: over levels, messages, public rows, and sizes."""

import warnings
from copy import deepcopy
from itertools import product
from typing import Self

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.utils.validation import check_is_fitted

from ..compat import safe_indexing
from ..networks import final_step, read_network
from ..spaces import NoSpaceError
from ._fits import LINES, MARKS, Display


def _draw_lines(ax, lines) -> None:
    looks = {"color": "black", "markerfacecolor": "white"}
    for k, (name, (x, y)) in enumerate(lines.items()):
        mark, line = MARKS[k % len(MARKS)], LINES[k % len(LINES)]
        ax.plot(x, y, marker=mark, linestyle=line, label=name, **looks)
    ax.legend(loc="best")


class EpsilonDisplay(Display):
    """What is found at each level that models have to reach, and how good it is.

    Parameters
    ----------
    epsilons : ndarray of shape (n_levels,)
    scores : ndarray of shape (n_levels,) or (n_levels, n_levels)
        Accuracy of the aggregate, NaN where there is none; rows are levels of the
        first node and columns of the second, if each has its own.
    found : ndarray of str, of the same shape
        "found": the model is in all spaces, "empty": provably none is, "unknown":
        neither, or "no space": a node's own model is below its level.
    names : list of str, default=("first node", "second node")
        Of the nodes.

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

    _LOOKS = {
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
        """Fit an aggregator at each level, and draw what comes out.

        Parameters
        ----------
        aggregator : GEMSLogisticAggregator or GEMSMLPAggregator
            Of fitted local estimators; it is cloned.
        X, y, nodes : array-like
            Rows as for its ``fit``.
        epsilons : array-like of shape (n_levels,)
        by_node : bool, default=False
            Whether each of two nodes has its own level, in all pairs of levels.
        test : tuple (X, y), default=None
            Rows that score. None: those of the fit.
        ax : matplotlib Axes, default=None
        """
        epsilons = np.asarray(epsilons, dtype=float)
        shape = (len(epsilons),) * (2 if by_node else 1)
        scores, found, names = np.full(shape, np.nan), np.full(shape, "no space"), ()
        for place in product(range(len(epsilons)), repeat=len(shape)):
            level = epsilons[list(place)] if by_node else epsilons[place[0]]
            own = clone(aggregator).set_params(epsilon=level, on_empty="ignore")
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    own.fit(X, y, nodes=nodes)
            except NoSpaceError:
                continue
            proof, names = own.intersection_, own.node_names_
            undecided = "empty" if proof.empty else "unknown"
            found[place] = "found" if proof.found else undecided
            scores[place] = own.score(*(test or (X, y)))
        more = [names] if names and by_node else []
        return cls(epsilons, scores, found, *more).plot(ax=ax)

    def _draw(self, ax) -> None:
        n_axes, known = self.scores.ndim, np.isfinite(self.scores)
        lowest = self.scores[known].min(initial=1.0)
        scores, place = np.where(known, self.scores, lowest), {"loc": "best"}
        x, y = self.epsilons, scores
        if n_axes == 1:
            ax.plot(x, self.scores, color="0.6", zorder=1)
            ax.set(xlabel="epsilon", ylabel="accuracy of the aggregate")
        else:
            place = {"loc": "lower left", "bbox_to_anchor": (0, 1), "ncols": 2}
            x, y = np.meshgrid(x, x, indexing="ij")
            labels = [f"epsilon of {name}" for name in self.names]
            ax.set(xlabel=labels[0], ylabel=labels[1])
        for kind, (mark, color, label) in self._LOOKS.items():
            own = self.found == kind
            looks = {"marker": mark, "label": label, "s": 60, "color": color}
            if mark != "_":
                looks["edgecolor"] = "black"
            if n_axes == 2 and kind in ("found", "unknown"):
                looks |= {"color": None, "c": scores[own], "cmap": "gray"}
                looks |= {"vmin": lowest, "vmax": scores.max()}
            if own.any():
                drawn = ax.scatter(x[own], y[own], **looks)
                if n_axes == 2 and kind == "found":
                    ax.figure.colorbar(drawn, ax=ax, label="accuracy of the aggregate")
        ax.legend(**place)


class RoundsDisplay(Display):
    """How a model gets better with each message.

    Parameters
    ----------
    histories : dict of str to list of dict
        ``history_`` of fits, by a name for each.
    value : str, default="accuracy"
        Which number of each entry is drawn; entries without it are left out.

    Examples
    --------
    >>> from skgems.plotting import RoundsDisplay
    >>> told = [{"bytes_received": 10**6, "accuracy": own} for own in (0.8, 0.9)]
    >>> RoundsDisplay({"ours": told}).plot().ax_.get_xlabel()
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
        value : str, default="accuracy"
            As of the class.
        ax : matplotlib Axes, default=None
        """
        histories = {name: own.history_ for name, own in _named(aggregators).items()}
        return cls(histories, value).plot(ax=ax)

    def _draw(self, ax) -> None:
        lines = {}
        for name, history in self.histories.items():
            sent = np.cumsum([entry["bytes_received"] for entry in history]) / 1e6
            values = [entry.get(self.value) for entry in history]
            there = [k for k, own in enumerate(values) if own is not None]
            if there:
                lines[name] = sent[there], [values[k] for k in there]
        ax.set(xlabel="MB from all nodes", ylabel=self.value)
        _draw_lines(ax, lines)


class FineTuningDisplay(Display):
    """Accuracy over the number of public rows, beside what these rows give alone.

    Parameters
    ----------
    sizes : ndarray of shape (n_sizes,)
        Numbers of public rows.
    scores : dict of str to ndarray of shape (n_sizes,)
        Accuracy with so many, by a name for each line.

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
        """Tune copies of fitted aggregators on more and more public rows.

        Parameters
        ----------
        aggregators : dict of str to fitted aggregator, or one
            Those without a ``fine_tune`` stay as they are.
        X, y : array-like
            Public rows, of which the first so many are taken.
        sizes : sequence of int
            Numbers of rows; 0 leaves models as they are.
        test : tuple (X, y)
            Rows that score.
        alone : classifier, default=None
            What is fitted on public rows alone. None: ``LogisticRegression()``.
        ax : matplotlib Axes, default=None
        """
        alone = LogisticRegression(max_iter=1000) if alone is None else alone
        scores = {name: [] for name in (*_named(aggregators), "public rows alone")}
        for size in sizes:
            rows = safe_indexing(X, slice(size)), safe_indexing(y, slice(size))
            for name, own in _named(aggregators).items():
                if size and hasattr(own, "fine_tune"):
                    own = deepcopy(own).fine_tune(*rows)
                scores[name].append(own.score(*test))
            fits = len(np.unique(rows[1])) > 1
            found = clone(alone).fit(*rows).score(*test) if fits else np.nan
            scores["public rows alone"].append(found)
        scores = {name: np.array(own) for name, own in scores.items()}
        return cls(np.asarray(sizes), scores).plot(ax=ax)

    def _draw(self, ax) -> None:
        ax.set(xlabel="public rows", ylabel="accuracy")
        _draw_lines(ax, {name: (self.sizes, own) for name, own in self.scores.items()})


class SizeAccuracyDisplay(Display):
    """Accuracy of models over the number of their weights.

    Parameters
    ----------
    sizes : dict of str to int
        Weights and biases of each model, by its name.
    scores : dict of str to float
        Its accuracy.

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
        """Draw fitted models.

        Parameters
        ----------
        models : dict of str to fitted aggregator or classifier, or one
            Linear models and networks, without steps of a pipeline or a front before
            them; ensembles have the weights of all members, and of a stack.
        X, y : array-like
            Rows that score.
        ax : matplotlib Axes, default=None
        """
        models = _named(models)
        sizes = {name: _n_weights(own) for name, own in models.items()}
        scores = {name: own.score(X, y) for name, own in models.items()}
        return cls(sizes, scores).plot(ax=ax)

    def _draw(self, ax) -> None:
        for k, (name, size) in enumerate(self.sizes.items()):
            looks = {"color": "black" if k < len(MARKS) else "white", "s": 60}
            looks |= {"edgecolor": "black", "marker": MARKS[k % len(MARKS)]}
            ax.scatter(size, self.scores[name], label=name, **looks)
        ax.set(xlabel="weights", ylabel="accuracy", xscale="log")
        ax.legend(loc="best")


class GapDisplay(Display):
    """How far methods are below the pooled model, by how rows lie at nodes.

    Parameters
    ----------
    gaps : dict of str to dict of str to array-like
        By method and partition: percentage points of accuracy below the pooled model,
        of each data set or seed.

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
            Unfitted, of estimators that are trained at each node.
        X, y : array-like
            Rows of all nodes.
        pooled : classifier
            What is fitted on all rows at one place.
        partitions : dict of str to array-like of shape (n_samples,)
            The node of each row.
        test : tuple (X, y)
            Rows that score.
        ax : matplotlib Axes, default=None
        """
        mark, gaps = clone(pooled).fit(X, y).score(*test), {}
        for name, own in _named(aggregators).items():
            fits = ((p, clone(own).fit(X, y, nodes=n)) for p, n in partitions.items())
            gaps[name] = {p: [100 * (mark - fit.score(*test))] for p, fit in fits}
        return cls(gaps).plot(ax=ax)

    def _draw(self, ax) -> None:
        names = list(dict.fromkeys(name for own in self.gaps.values() for name in own))
        for k, (method, own) in enumerate(self.gaps.items()):
            places = -np.array([names.index(name) for name in own]) - k / 10
            mean = [np.mean(gaps) for gaps in own.values()]
            worst = [np.max(gaps) for gaps in own.values()]
            ax.hlines(places, mean, worst, color="0.6", zorder=1)
            looks = {"marker": MARKS[k % len(MARKS)], "color": str(0.8 * (k % 2))}
            ax.scatter(mean, places, edgecolor="black", label=method, **looks)
        ax.axvline(0, color="black", linewidth=0.8)
        ax.set_yticks(-np.arange(len(names)), names)
        ax.set(xlabel="points below the pooled model (mean, and worst)")
        ax.legend(loc="best")


def _named(models) -> dict:
    return models if isinstance(models, dict) else {type(models).__name__: models}


def _n_weights(model) -> int:
    check_is_fitted(model)
    if hasattr(model, "stack_"):
        return sum(map(_n_weights, [*model.estimators_, model.stack_]))
    model = model.to_estimator() if hasattr(model, "to_estimator") else model
    if members := getattr(model, "estimators_", None):
        return sum(map(_n_weights, members))
    # Steps before it, as those of a front, need be no part of a network.
    network = read_network(final_step(model))
    return sum(weights.size for weights in (*network.coefs, *network.intercepts))
