"""Simulated nodes: clones of unfitted classifiers, trained on rows dealt to them.

Where ``estimators`` are not fitted, `simulate` plays all nodes in this process. Rows go
to the nodes that ``nodes`` names, or are dealt at random, and each node trains a clone.
Rows that it holds out, those of the user or some drawn at random, judge models later.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from joblib import Memory
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.parallel import Parallel, delayed

from ..base import BaseAggregator, Method, Takes, seeded_clone
from ..compat import safe_indexing
from ..local import cached, fit_local, local_model, naming_node, net_seed
from ..networks import chooses_columns
from . import _nodes
from ._nodes import Rows, RowsLike
from ._pickling import Trained, told_if_not_pickled


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """How nodes are simulated."""

    random_state: int | np.random.RandomState | None = None
    # Of each node's rows: they judge models, and train none.
    validation_fraction: float = 0.0
    common_seed: int | None = None  # with which all clones begin; None: each its own
    fit: Callable = fit_local  # or another that is called as this one
    trains: bool = True  # False: nodes need no classifiers, and have rows alone
    memory: Memory | str | None = None  # where fits are cached
    n_jobs: int | None = None

    @classmethod
    def from_method(cls, method: Method, aggregator: BaseAggregator) -> "Simulation":
        """Return how a method trains clones, or else what the parameters say."""
        simulation = method.simulation(aggregator)
        if simulation is None:
            return cls.from_aggregator(aggregator, method.takes)
        return simulation

    @classmethod
    def from_aggregator(cls, aggregator: BaseAggregator, takes: Takes) -> "Simulation":
        """Read the parameters of an aggregator; those it lacks have defaults."""
        # Not getattr: an aggregator without one of the parameters may have a method or
        # a class attribute of that name.
        parameters = vars(aggregator)
        return cls(
            random_state=parameters.get("random_state"),
            validation_fraction=parameters.get("validation_fraction", 0.0),
            memory=parameters.get("memory"),
            trains=takes.learnt,
            n_jobs=parameters.get("n_jobs"),
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class SimulatedNodes:
    """Nodes that a simulation has trained, and the rows they were trained on."""

    names: list[str]
    classifiers: list[BaseEstimator | None]  # trained clones; None: rows alone
    owners: np.ndarray  # (n_rows,), int: index of each row's node, -1 of public rows
    not_trained_on: np.ndarray  # (n_rows,), bool: rows that their node held out


@dataclass(frozen=True, eq=False, kw_only=True)
class _Training:
    """A clone that is still to be trained at a node."""

    classifier: BaseEstimator
    rows: np.ndarray  # indices of the rows to train on
    seed: int | None  # of a skorch net


def simulate(
    X: Rows,
    y: np.ndarray,
    *,
    table: RowsLike | None,
    names: list[str],
    classifiers: list[BaseEstimator],
    nodes: ArrayLike | None,
    held_out: np.ndarray | None,
    groups: np.ndarray | None,
    weights: np.ndarray | None,
    simulation: Simulation,
) -> SimulatedNodes:
    """Train a clone at each node, on rows that are there or dealt to it.

    One classifier alone is that of all nodes that ``nodes`` names. ``table`` has the
    same rows with the names of their columns, if these have some. ``held_out`` is a
    mask of rows, (n_rows,), or None: then a fraction of each node's rows is drawn. Rows
    of one of the ``groups``, (n_rows,), stay together. ``weights`` of rows, (n_rows,),
    are handed to the ``fit`` of the clones.
    """
    rng = check_random_state(simulation.random_state)
    if nodes is None:
        owners = _nodes.deal_rows(y, len(classifiers), rng, groups=groups)
    else:
        if len(classifiers) == 1:
            names = _nodes.node_names_of(nodes, X.shape[0])
            classifiers = classifiers * len(names)
        owners = _nodes.node_codes(nodes, names, X.shape[0])
    n_rows_of_nodes = np.bincount(owners[owners >= 0], minlength=len(names))
    if not n_rows_of_nodes.all():
        _nodes.raise_without_rows(names[np.argmin(n_rows_of_nodes)])
    if not simulation.trains:
        return SimulatedNodes(
            names=names,
            classifiers=[None] * len(names),
            owners=owners,
            not_trained_on=np.zeros(X.shape[0], dtype=bool),
        )
    not_trained_on = np.zeros(X.shape[0], dtype=bool)
    trainings: dict[int, _Training] = {}  # by index of the node
    # What is drawn is drawn in the order of the nodes' first rows, which is the same
    # whatever order and names the nodes have.
    for index in dict.fromkeys(owners[owners >= 0].tolist()):
        rows = np.flatnonzero(owners == index)
        if held_out is None:
            mask = _nodes.hold_out(
                y[rows],
                simulation.validation_fraction,
                rng,
                groups=None if groups is None else groups[rows],
            )
        else:
            mask = held_out[rows]
            if mask.all():
                _nodes.raise_all_held_out(names[index])
        not_trained_on[rows[mask]] = True
        # With a common seed each clone draws from a generator of its own, which begins
        # as that of all others does.
        common_seed = simulation.common_seed
        clone_rng = rng if common_seed is None else np.random.RandomState(common_seed)
        unfitted = seeded_clone(classifiers[index], clone_rng)
        trainings[index] = _Training(
            classifier=unfitted, rows=rows[~mask], seed=net_seed(unfitted, clone_rng)
        )
    return SimulatedNodes(
        names=names,
        classifiers=_train(
            trainings,
            X,
            y,
            table=table,
            weights=weights,
            names=names,
            simulation=simulation,
        ),
        owners=owners,
        not_trained_on=not_trained_on,
    )


def _train(
    trainings: dict[int, _Training],
    X: Rows,
    y: np.ndarray,
    *,
    table: RowsLike | None,
    weights: np.ndarray | None,
    names: Sequence[str],
    simulation: Simulation,
) -> list[BaseEstimator]:
    """The trained clones in the order of the nodes, by workers if there are any."""
    classes = np.unique(y)
    fit = cached(simulation.fit, simulation.memory)
    train_at_node = delayed(_train_at_node)
    classifiers = {names[k]: trainings[k].classifier for k in sorted(trainings)}
    with told_if_not_pickled(simulation.n_jobs, classifiers):
        trained = Parallel(n_jobs=simulation.n_jobs)(
            train_at_node(
                trainings[k].classifier,
                safe_indexing(
                    _rows_for(trainings[k].classifier, X, table), trainings[k].rows
                ),
                y[trainings[k].rows],
                weights=None if weights is None else weights[trainings[k].rows],
                name=names[k],
                fit=fit,
                classes=classes,
                seed=trainings[k].seed,
            )
            for k in sorted(trainings)
        )
    return [trained_at_node.model.estimator for trained_at_node in trained]


def _rows_for(classifier: BaseEstimator, X: Rows, table: RowsLike | None) -> RowsLike:
    """The rows as a classifier takes them: with names, if it has columns by name."""
    return table if table is not None and chooses_columns(classifier) else X


def _train_at_node(
    classifier: BaseEstimator,
    X: Rows,
    y: np.ndarray,
    *,
    weights: np.ndarray | None,
    name: str,
    fit: Callable,
    classes: np.ndarray,
    seed: int | None,
) -> Trained:
    """A clone that was trained on a node's rows, as a worker can send it back."""
    with naming_node(name, f"{type(classifier).__name__} cannot be fitted to its rows"):
        # Without weights the call is that which caches in folders know.
        options = {} if weights is None else {"weights": weights}
        trained = fit(classifier, X, y, classes=classes, seed=seed, **options)
        return Trained(local_model(trained, name=name))
