"""Draw which local units form which unit of a merged network."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..networks import read_network
from ._fits import Display, new_axes, plain_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class MatchingDisplay(Display):
    """Hidden units of the local networks that form each unit of a merged network.

    Parameters
    ----------
    assignments : list of ndarray of shape (n_units_of_node,)
        For each node, the merged unit of each of its units; -1 for a dropped unit.
    node_names : list of str
        Names of the nodes.
    weights : ndarray of shape (n_in, n_units)
        Incoming weights of the merged units.
    local_weights : list of ndarray of shape (n_in, n_units_of_node)
        Incoming weights of the units of each node.

    Attributes
    ----------
    popularity_ : ndarray of shape (n_units,)
        Number of nodes that have a unit in each merged unit.
    order_ : ndarray of shape (n_units,)
        Merged units in the order in which they are drawn, the most popular first.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.plotting import MatchingDisplay
    >>> display = MatchingDisplay(
    ...     [np.array([0, 1]), np.array([1, 2])], ["north", "south"],
    ...     np.eye(3), [np.eye(3)[:, :2], np.eye(3)[:, 1:]],
    ... )
    >>> display.plot().popularity_.tolist()
    [1, 2, 1]
    """

    def __init__(self, assignments, node_names, weights, local_weights):
        self.assignments = assignments
        self.node_names = node_names
        self.weights = weights
        self.local_weights = local_weights
        n_units = weights.shape[1]
        uses = [np.isin(np.arange(n_units), units) for units in assignments]
        self.popularity_ = np.sum(uses, axis=0)
        self.order_ = np.argsort(-self.popularity_, kind="stable")

    @classmethod
    def from_estimator(cls, aggregator, *, ax=None) -> "MatchingDisplay":
        """Draw the first hidden layer of a fitted aggregator of networks.

        Parameters
        ----------
        aggregator : fitted PFNMAggregator or GEMSMLPAggregator
            The aggregator, with fitted local networks. Their weights are drawn as they
            were before any rounds of training.
        ax : matplotlib Axes, default=None
            Axes to draw on. If None, a new figure is made.

        Returns
        -------
        display : MatchingDisplay
        """
        check_is_fitted(aggregator)
        networks = [read_network(local) for local in aggregator.estimators_]
        # Nodes of one class may have a constant or linear model, without units.
        with_units = [k for k, net in enumerate(networks) if not net.is_linear]
        names = [aggregator.node_names_[k] for k in with_units]
        local_weights = [networks[k].coefs[0] for k in with_units]
        if hasattr(aggregator, "assignments_"):
            assignments = [aggregator.assignments_[0][k] for k in with_units]
            n_matched_units = aggregator.coefs_[0].shape[1]
        else:
            units = aggregator.layer_report_[0]["members"]
            widths = dict(zip(names, (W.shape[1] for W in local_weights), strict=True))
            assignments = _assignments_of_members(units, widths)
            n_matched_units = len(units)
        # Common units come last. They have no neurons of nodes.
        weights = aggregator.coefs_[0][:, :n_matched_units]
        display = cls(assignments, names, weights, local_weights)
        return display.plot(ax=ax)

    def _draw(self, ax: "Axes") -> None:
        table = np.zeros((len(self.assignments), len(self.order_)))
        for row, assignment in zip(table, self.assignments, strict=True):
            units = assignment[assignment >= 0]
            row[units] = self.popularity_[units]
        image = ax.imshow(
            np.ma.masked_equal(table[:, self.order_], 0),
            vmin=1,
            vmax=max(2, len(self.assignments)),
            aspect="auto",
            interpolation="nearest",
        )
        ax.figure.colorbar(image, ax=ax, label="nodes that share the unit")
        ax.set(xlabel="units of the merged network", ylabel="node")
        names = list(map(plain_text, self.node_names))
        ax.set_yticks(range(len(names)), names)

    def plot_units(self, image_shape, *, n_units=10, units=None) -> "MatchingDisplay":
        """Draw incoming weights as pictures: merged units, and the local units in them.

        Parameters
        ----------
        image_shape : tuple (height, width)
            Shape of a row as a picture, in pixels.
        n_units : int, default=10
            Number of merged units to draw, the most popular ones.
        units : sequence of int, default=None
            Indices of the merged units to draw. If given, it replaces ``n_units``.

        Returns
        -------
        display : MatchingDisplay
            The object itself, with the new figure as ``figure_``.
        """
        if units is None:
            units = self.order_[:n_units]
        n_rows = 1 + len(self.assignments)
        n_columns = len(units)
        axes = new_axes(
            n_rows,
            n_columns,
            figsize=(0.8 * n_columns + 1, 0.8 * n_rows),
            squeeze=False,
        )
        for column, unit in zip(axes.T, units, strict=True):
            for ax, weights in zip(column, self._weights_of(unit), strict=True):
                ax.set(xticks=[], yticks=[])
                if weights is None:
                    ax.set_frame_on(False)
                    continue
                largest = np.abs(weights).max()
                picture = weights.reshape(image_shape)
                ax.imshow(picture, cmap="RdBu", vmin=-largest, vmax=largest)
        for ax, name in zip(axes[:, 0], ["merged", *self.node_names], strict=True):
            ax.set_ylabel(name, rotation=0, ha="right", va="center")
        self.figure_ = axes[0, 0].figure
        return self

    def _weights_of(self, unit: int) -> list[np.ndarray | None]:
        """Incoming weights of a merged unit, and of each node's unit in it, if any."""
        weights = [self.weights[:, unit]]
        for assignment, local_weights in zip(
            self.assignments, self.local_weights, strict=True
        ):
            places = np.flatnonzero(assignment == unit)
            weights.append(local_weights[:, places[0]] if len(places) else None)
        return weights


def _assignments_of_members(
    units: Sequence[Sequence[tuple[str, int]]], widths: Mapping[str, int]
) -> list[np.ndarray]:
    """Return the merged unit of each local unit, or -1, for each node of ``widths``.

    ``units`` has the names of nodes, and their local units, for each merged unit.
    """
    assignments = {name: np.full(width, -1) for name, width in widths.items()}
    for unit, members in enumerate(units):
        for name, local_unit in members:
            assignments[name][local_unit] = unit
    return list(assignments.values())
