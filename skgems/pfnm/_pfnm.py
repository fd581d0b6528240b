"""Probabilistic federated neural matching: one network of matched hidden units."""

from collections.abc import Callable
from numbers import Integral, Real

import numpy as np
from sklearn.neural_network import MLPClassifier
from sklearn.utils.validation import check_is_fitted

from ..base import BaseAggregator, TunedNetworkMixin
from ..compat import Interval, StrOptions
from ..federation import (
    ReportMixin,
    SummarizingMixin,
    federated_fit,
    read_federation,
)
from ..gems import GEMSLogisticAggregator
from ._earlier_steps import EarlierSteps
from ._matching_fit import MatchingFit
from ._parameters import Matching
from ._terms import MatchingTerms

_AUTO = StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")


class PFNMAggregator(SummarizingMixin, TunedNetworkMixin, ReportMixin, BaseAggregator):
    """One network whose hidden units are matched units of the nodes' networks.

    Hidden units may be permuted without changing what a network computes, so weights
    cannot be averaged as they are. Here nodes' units are noisy copies of common
    *atoms*, of which every node uses some; which unit is a copy of which atom, and how
    many there are, is inferred under a Beta-Bernoulli process. ``fit()`` needs no rows.

    Parameters
    ----------
    estimators : list of classifiers, list of (name, classifier) tuples, or None
        Fitted networks, one per node: MLPClassifier, skorch nets of Linear layers,
        pipelines of affine steps around them, with equal activations; widths and
        classes may differ. Unfitted ones, or a single one, are cloned and trained on
        each node's rows (simulation). None: ``MLPClassifier((32,))``, rate 0.01.
    sigma : "auto", float or sequence of floats, default="auto"
        Standard deviation of a node's weights about their atom's, per hidden layer: the
        larger, the more is matched. "auto" is a tenth of the median norm of units.
    sigma0 : "auto", float or sequence of floats, default="auto"
        Standard deviation of atoms about zero. "auto" is sigma.
    gamma0 : "auto", float or sequence of floats, default="auto"
        Mass of the beta process: the larger, the more readily new atoms are opened.
        "auto" goes by the weights alone: small, and up to 1 while matched units have
        less than two thirds of their squared norm in common. With a mass too large
        for `sigma` nothing is matched, as `n_units_` shows.
    max_units : int, None or sequence of these, default=None
        Most units of a hidden layer, at least as many as any node has.
    n_rounds : int, default=1
    local_epochs : int, default=5
        How often to match. Before each time but the first, every node trains the merged
        network so many epochs on its rows, at a tenth of its estimator's learning rate.
    last_layer : GEMSLogisticAggregator or None, default=None
        Merges the last layers anew, over the matched units: each node answers with the
        moments of what comes out of these on its rows, in one more message. It sees
        what each class needs where nodes know different ones, and its probabilities
        are calibrated. Its ``estimators`` must be None; its parameters are searched as
        ``last_layer__C``. None keeps the matched weights.
    matching : Matching or None, default=None
        Details of the search: sweeps, costs of new atoms, the order of layers and the
        type of numbers, as :class:`~skgems.pfnm.Matching` says. None: its defaults.
        Searched as ``matching__tol``.
    round_units : {"all", "own"}, default="all"
        Which units of the merged network a node gets before it trains in a round: all,
        or those that its own became part of, which is less to send, and much worse
        where nodes share few.
    validation_fraction : float, default=0.1
        In simulation, the share of each node's rows that its clone is not trained on,
        but that calibrate the probabilities.
    front : transformer, default=None
    n_jobs : int, default=None
    verbose : bool or int, default=0
        As of :class:`GEMSLogisticAggregator`.
    random_state : int, RandomState instance or None, default=None
        Source of the order of nodes in a sweep, the dealing of rows and all seeds.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted union of the classes the nodes know.
    coefs_ : list of ndarray, layer i of shape (n_in_i, n_out_i)
    intercepts_ : list of ndarray, layer i of shape (n_out_i,)
        Weights and biases, laid out as in MLPClassifier.
    activation_ : tuple of str
    n_units_ : tuple of int
        Activation and units of each hidden layer.
    assignments_ : list of lists of ndarray of shape (n_units_of_node,)
        For each hidden layer and node, the merged unit that each of the node's units
        became part of; after rounds, of its units of the last, if it was there.
    popularity_ : list of ndarray of shape (n_nodes, n_units)
        For each hidden layer, how often each node has used each unit: 0 or 1 per step.
    posterior_ : list of Atoms
        For each hidden layer, mean and precision of the units' numbers: incoming
        weights, bias, and in the last layer outgoing weights. Those of the first layer
        are of features in ``input_coordinates_``.
    input_coordinates_ : Coordinates or None
        Centre and scale of the features in which units of the first layer are
        compared: mean and median of those after the affine steps of the nodes'
        pipelines, of the first batch that knows a feature. None: the features as they
        are, where no node of the first has such steps.
    sigma_ : list of float
    sigma0_ : list of float
    gamma0_ : list of float
        What was taken for each hidden layer.
    objective_ : list of ndarray of shape (n_sweeps + 1,)
        For each hidden layer, log-posterior, up to a constant, before and after sweeps.
    n_iter_ : int
    n_steps_ : int
        Most sweeps of any layer; batches taken in, by ``fit`` and ``update``.
    history_ : list of dict
        As of :class:`PooledAggregator`. A node left out of a round is not matched in
        it; one that alone knows a class stays as it was.
    estimators_ : list of classifiers
    node_names_ : list of str
        The fitted local estimators, of the last batch; names of all nodes so far.
    last_layer_ : GEMSLogisticAggregator or None
        Fitted clone of `last_layer`, on what comes out below. None after `update`.
    fine_tuning_ : FineTunedNetwork or None
        How public rows were used; ``strength`` is infinite where they changed nothing.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Number of features; their names, if the nodes' estimators or X have them.

    See Also
    --------
    skgems.plotting.MatchingDisplay : Draw which units form which.

    Notes
    -----
    One node's rows dealt over several nodes with the same classifier give another
    model: probabilities of single rows differ by up to 1, by 0.04 on average (digits).

    References
    ----------
    M. Yurochkin et al.: Probabilistic Federated Neural Matching, 2018.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.neural_network import MLPClassifier
    >>> from skgems import PFNMAggregator
    >>> X, y = load_digits(return_X_y=True)
    >>> net = MLPClassifier((40,), learning_rate_init=0.01, tol=1e-2)
    >>> agg = PFNMAggregator([net] * 3, random_state=0).fit(X[:1200] / 16, y[:1200])
    >>> agg.n_units_[0] < 120, agg.score(X[1200:] / 16, y[1200:]) > 0.85  # of 3 * 40
    (True, True)
    """

    _parts = {"matching": Matching}
    _parameter_constraints: dict = {
        **BaseAggregator._parameter_constraints,
        "sigma": [*_AUTO, "array-like"],
        "sigma0": [*_AUTO, "array-like"],
        "gamma0": [*_AUTO, "array-like"],
        "max_units": [None, Interval(Integral, 1, None, closed="left"), "array-like"],
        "n_rounds": [Interval(Integral, 1, None, closed="left")],
        "local_epochs": [Interval(Integral, 1, None, closed="left")],
        "last_layer": [None, GEMSLogisticAggregator],
        "round_units": [StrOptions({"all", "own"})],
        "validation_fraction": [Interval(Real, 0, 1, closed="left")],
    }

    def __init__(
        self,
        estimators=None,
        *,
        sigma="auto",
        sigma0="auto",
        gamma0="auto",
        max_units=None,
        n_rounds=1,
        local_epochs=5,
        last_layer=None,
        matching=None,
        round_units="all",
        validation_fraction=0.1,
        front=None,
        n_jobs=None,
        verbose=0,
        random_state=None,
    ):
        self.estimators = estimators
        self.sigma = sigma
        self.sigma0 = sigma0
        self.gamma0 = gamma0
        self.max_units = max_units
        self.n_rounds = n_rounds
        self.local_epochs = local_epochs
        self.last_layer = last_layer
        self.matching = matching
        self.round_units = round_units
        self.validation_fraction = validation_fraction
        self.front = front
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    def _default_estimator(self) -> MLPClassifier:
        return MLPClassifier((32,), learning_rate_init=0.01, tol=1e-3, max_iter=1000)

    @federated_fit
    def fit(
        self, X=None, y=None, nodes=None, held_out=None, *, n_class_samples=None
    ) -> "PFNMAggregator":
        """Match the nodes' networks.

        Parameters
        ----------
        X, y, nodes, held_out : array-like, default=None
            As of :meth:`GEMSLogisticAggregator.fit`: rows for the shares of classes,
            the confidence of probabilities and rounds; in simulation networks are
            trained on them. Fitted networks need none. Those held out calibrate the
            probabilities, and are neither counted nor trained on.
        n_class_samples : array-like of shape (n_nodes, n_classes), default=None
            Rows of each class that each node was fitted on, columns as ``classes_``.
            None counts those of X; without, nodes that have seen a class count alike.

        Returns
        -------
        self : PFNMAggregator

        Raises
        ------
        ValueError
            If activations differ, or the input is not usable; it names the node.
        TypeError
            If a node's estimator is not a network.
        """
        federation = read_federation(self, X, y, nodes, held_out)
        matching_fit = MatchingFit.of(self)
        self._publish(
            **matching_fit.attributes(federation, n_class_samples=n_class_samples)
        )
        return self

    @federated_fit
    def update(self, estimators, *, n_class_samples=None) -> "PFNMAggregator":
        """Take in the next batch of fitted networks of a stream.

        What is known so far is the prior of the match. What :meth:`fine_tune` or the
        confidence fitted on rows did to weights is not kept.

        Parameters
        ----------
        estimators : list of (name, classifier) tuples
            Fitted networks, known again by their names; those of a ``fit`` without
            names are "0", "1" and so on. New nodes and new classes may come.
        n_class_samples : array-like of shape (n_nodes, n_classes), default=None
            Rows of each class behind each of these networks, columns as ``classes_``
            will be. A network then counts for a class by its rows over those of all
            steps, if all were counted. None: those that have seen a class count the
            same, and this step as much as any before.

        Returns
        -------
        self : PFNMAggregator

        Raises
        ------
        ValueError
            If networks have no names, or do not fit those of earlier steps.
        """
        check_is_fitted(self)
        earlier_steps = EarlierSteps.of(self)
        earlier_steps.check_names(estimators)
        federation = read_federation(PFNMAggregator(estimators))
        earlier_steps.check(federation)
        matching_fit = MatchingFit.of(self)
        self._publish(
            **matching_fit.attributes_after(
                earlier_steps, federation, n_class_samples=n_class_samples
            )
        )
        return self

    def node_init(self, node, n_units=None, *, n_fresh=None) -> MLPClassifier:
        """Weights for a node to start its next step of a stream from.

        They are the merged network, or as many of its units as ``n_units`` says, drawn
        by how often the node has used them, and fresh units of small random weights.

        Parameters
        ----------
        node : int or str
            Index in ``node_names_``, or name.
        n_units : int or sequence of int, default=None
            Units of each hidden layer, fresh ones included. None: all, and the fresh.
        n_fresh : int, default=None
            How many of a layer's units are fresh. None: a tenth of `n_units`, if given.

        Returns
        -------
        estimator : MLPClassifier
            Fitted with these weights; ``partial_fit`` goes on from them. A tenth of
            the usual ``learning_rate_init`` keeps what was merged.
        """
        check_is_fitted(self)
        return EarlierSteps.of(self).node_init(
            node, n_units=n_units, n_fresh=n_fresh, random_state=self.random_state
        )

    def _terms(self) -> MatchingTerms:
        return MatchingTerms.of(self)

    def _check_one_message(self) -> None:
        if self.n_rounds > 1:
            raise ValueError(
                f"n_rounds={self.n_rounds} asks nodes more than once, but a summary "
                "holds all at once: set n_rounds=1, or use skgems.Exchange."
            )
        if self.last_layer is not None:
            raise ValueError(
                "last_layer asks nodes once more, when units are matched, but a "
                "summary holds all at once: set last_layer=None, or use "
                "skgems.Exchange."
            )

    @property
    def _tuned(self) -> Callable:
        """Tunes layers on public rows, for `fine_tune`."""
        return MatchingFit.of(self).tuned

    def _logits(self, X: np.ndarray) -> np.ndarray:
        return self._layers.logits(X)
