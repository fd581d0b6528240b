"""Probabilistic federated neural matching: one network of matched hidden units."""

from dataclasses import replace
from numbers import Integral, Real

import numpy as np
from sklearn.neural_network import MLPClassifier
from sklearn.utils.validation import check_is_fitted

from ..asking import ReportMixin, federated_fit, fit_method, read_federation
from ..base import BaseAggregator, TunedNetworkMixin
from ..compat import Interval, StrOptions
from ..gems import GEMSLogisticAggregator, long_last_layer, tuned_network
from ..guard import SummarizingMixin
from ._earlier_steps import EarlierSteps
from ._matching_fit import MatchingMethod
from ._parameters import Matching

_AUTO = StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")


class PFNMAggregator(SummarizingMixin, TunedNetworkMixin, ReportMixin, BaseAggregator):
    """Merge networks by matching their hidden units (PFNM).

    The order of the hidden units does not change what a network computes, so the
    weights of networks that were trained apart cannot be averaged as they are. Here the
    units of the nodes are noisy copies of common units, the *atoms*, and each node uses
    some of these. A Beta-Bernoulli process decides which unit is a copy of which atom,
    and how many atoms there are. The merged network has one hidden unit for each atom.
    Fitted networks need no rows: ``fit()`` is enough. With rows, a last layer is made
    for the merged units, which is far more accurate if nodes know different classes.

    Parameters
    ----------
    estimators : list of classifiers, list of (name, classifier) tuples, or None
        Fitted networks, one per node: MLPClassifier, skorch nets of Linear layers, or
        pipelines of affine steps that end with one of these. Their activations must be
        equal; widths and classes may differ. Unfitted networks, or a single one, are
        cloned and trained on the rows of each node (simulation). None stands for
        ``MLPClassifier((32,))`` with a learning rate of 0.01.
    sigma : "auto", float or sequence of floats, default="auto"
        Standard deviation of a node's weights about those of their atom, per hidden
        layer. "auto" is a tenth of the median norm of the units. Increase it to match
        more units.
    sigma0 : "auto", float or sequence of floats, default="auto"
        Standard deviation of the weights of atoms about zero. "auto" is `sigma`, and
        three times `sigma` if there are several hidden layers.
    gamma0 : "auto", float or sequence of floats, default="auto"
        Mass of the beta process. Increase it to open new atoms more readily. If it is
        too large for `sigma`, no units are matched, as ``n_units_`` shows. "auto"
        depends on the weights and on the shares of classes. It starts small and grows
        as long as matched units have too little in common.
    max_units : int, None or sequence of these, default=None
        Largest number of units in a hidden layer. It must be at least as large as that
        of any node. None sets no limit. Set it to limit the size of the merged network.
    n_rounds : int, default=1
        How often the networks are matched. Before each time but the first, every node
        trains the merged network on its rows. More than one round needs rows.
    local_epochs : int, default=5
        Number of epochs that each node trains in a round, at a tenth of the learning
        rate of its estimator.
    last_layer : "auto", GEMSLogisticAggregator or None, default="auto"
        Aggregator that makes a new last layer over the matched units. In one more
        message each node sends the moments of the outputs of these units on its rows.
        "auto" stands for ``GEMSLogisticAggregator()`` if all nodes have rows in this
        process or can be asked over a channel. They need rows of all classes, and at
        least two rows for each merged unit. Otherwise, and with summaries or a single
        node, "auto" is as None, which keeps the matched weights. Its ``estimators``
        must be None. A search can vary its parameters, for example ``last_layer__C``.
    matching : Matching or None, default=None
        Details of the search: number of sweeps, costs of new atoms, order of the layers
        and dtype, as a :class:`~skgems.pfnm.Matching`. None uses its defaults. A search
        can vary its parameters, for example ``matching__tol``.
    round_units : {"all", "own"}, default="all"
        Which units of the merged network a node gets before it trains in a round: all
        units, or only those that its own units became part of. With "own" less is sent,
        but the result is much worse if the nodes share few units.
    validation_fraction : float, default=0.1
        In a simulation, the share of the rows of each node that its clone is not
        trained on. These rows calibrate the probabilities.
    disclosure : Disclosure, "auto" or None, default="auto"
        The rule for what nodes tell of their rows, as for
        :class:`~skgems.GEMSLogisticAggregator`.
    front : transformer, default=None
        Transformers that all nodes apply first, as in :class:`GEMSLogisticAggregator`.
    n_jobs : int, default=None
        Number of nodes that are treated in parallel. Results do not depend on it.
    verbose : bool or int, default=0
        Whether to print progress.
    random_state : int, RandomState instance or None, default=None
        Source of the random numbers that order the nodes in a sweep, deal rows to
        simulated nodes and give all seeds. Pass an int for reproducible results.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted union of the classes that the nodes know.
    coefs_ : list of ndarray, layer i of shape (n_in_i, n_out_i)
        Weights of all layers, as in MLPClassifier.
    intercepts_ : list of ndarray, layer i of shape (n_out_i,)
        Biases of all layers, as in MLPClassifier.
    activation_ : tuple of str
        Activation of each hidden layer.
    n_units_ : tuple of int
        Number of units of each hidden layer.
    assignments_ : list of lists of ndarray of shape (n_units_of_node,)
        For each hidden layer and node, the index of the merged unit that each unit of
        the node became part of. After several rounds these are the units that the node
        had in the last round; a node that was left out of that round has none.
    popularity_ : list of ndarray of shape (n_nodes, n_units)
        For each hidden layer, how often each node has used each unit: 0 or 1 time per
        step.
    posterior_ : list of Atoms
        For each hidden layer, mean and precision of the numbers of the units, by the
        paper's Equation 5. These are incoming weights and bias, and in the last hidden
        layer outgoing weights too. In the first layer they belong to features in
        ``input_coordinates_``. The merged network takes other means of incoming weights
        unless ``Matching(model="paper")`` is set.
    input_coordinates_ : Coordinates or None
        Center and scale of the features in which units of the first layer are compared.
        They are the mean center and the median scale of the affine steps in the
        pipelines of the nodes, in the first batch that knows a feature. None means that
        features are compared as they are, because no node of the first batch has such
        steps.
    sigma_ : list of float
        The value of `sigma` that was used for each hidden layer.
    sigma0_ : list of float
        The value of `sigma0` that was used for each hidden layer.
    gamma0_ : list of float
        The value of `gamma0` that was used for each hidden layer.
    objective_ : list of ndarray of shape (n_sweeps + 1,)
        For each hidden layer, the log-posterior, up to a constant, before the first
        sweep and after each sweep.
    n_iter_ : int
        Largest number of sweeps of any layer.
    n_steps_ : int
        Number of batches that `fit` and `update` have taken in.
    history_ : list of dict
        One dict for each message to the nodes, with the same keys as the ``history_``
        of :class:`PooledAggregator`.
    estimators_ : list of classifiers
        The fitted local estimators of the last batch.
    node_names_ : list of str
        Names of all nodes so far.
    last_layer_ : GEMSLogisticAggregator or None
        The fitted aggregator of the last layer, on the outputs of the layers below. It
        is None if the matched weights were kept, and after `update`.
    fine_tuning_ : FineTunedNetwork or None
        How public rows were used. Its ``strength`` is infinite if no penalty let them
        change a layer. Its ``last_layer`` tells how they tuned the last layer beside
        its moments; it is None without `last_layer`.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if the nodes' estimators or X have them.
    features_used_ : list or None
        Names of the features that the aggregate uses, or their places if they have no
        names. They are all features but those that the nodes' classifiers drop by name.
        None if nobody knows their number.

    See Also
    --------
    skgems.plotting.MatchingDisplay : Draw which units of the nodes form which atoms.

    Notes
    -----
    A node that fails in a round is left out of the match of that round. If it alone
    knows a class, it is matched with the network that it was to train.

    The merged network changes if the rows of one node are split over several nodes with
    the same classifier. On digits, the probabilities of single rows then differ by up
    to 1, and by 0.04 on average.

    References
    ----------
    M. Yurochkin et al.: Probabilistic Federated Neural Matching, 2018, section 3.2 and
    Algorithm 1.

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

    _method_class = MatchingMethod
    _parts = {"matching": Matching}
    _parameter_constraints: dict = {
        **BaseAggregator._parameter_constraints,
        "sigma": [*_AUTO, "array-like"],
        "sigma0": [*_AUTO, "array-like"],
        "gamma0": [*_AUTO, "array-like"],
        "max_units": [None, Interval(Integral, 1, None, closed="left"), "array-like"],
        "n_rounds": [Interval(Integral, 1, None, closed="left")],
        "local_epochs": [Interval(Integral, 1, None, closed="left")],
        "last_layer": [None, StrOptions({"auto"}), GEMSLogisticAggregator],
        "round_units": [StrOptions({"all", "own"})],
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
        last_layer="auto",
        matching=None,
        round_units="all",
        validation_fraction=0.1,
        disclosure="auto",
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
        self.disclosure = disclosure
        self.front = front
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    def _default_estimator(self) -> MLPClassifier:
        return MLPClassifier((32,), learning_rate_init=0.01, tol=1e-3, max_iter=1000)

    @federated_fit
    def fit(
        self,
        X=None,
        y=None,
        nodes=None,
        held_out=None,
        *,
        groups=None,
        n_class_samples=None,
    ) -> "PFNMAggregator":
        """Match the networks of the nodes, and merge them.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
            Rows of the nodes. They give the shares of classes, make the last layer and
            are trained on in rounds. In a simulation the networks are trained on them.
            Fitted networks need none, but without rows the aggregate can be much less
            accurate.
        y : array-like of shape (n_samples,), default=None
            Labels of the rows.
        nodes : array-like of shape (n_samples,), default=None
            Index or name of the node that owns each row. Use -1 or "public" for public
            rows, which fine-tune the aggregate. None means that each row belongs to
            every node that has seen its label.
        held_out : array-like of shape (n_samples,), dtype bool, default=None
            Rows that calibrate the probabilities, and are neither counted nor trained
            on. None means that all rows do both.
        groups : array-like of shape (n_samples,), default=None
            Group of each row, for example the patient. Rows of one group stay together
            if rows are dealt to simulated nodes, held out by `validation_fraction`, or
            dealt to folds of public rows. None means that each row stands alone.
        n_class_samples : array-like of shape (n_nodes, n_classes), default=None
            Number of rows of each class that each node was fitted on, with columns in
            the order of ``classes_``. None counts the rows of X. Without X, all nodes
            that have seen a class count the same for it.

        Returns
        -------
        self : PFNMAggregator
            The fitted aggregator.

        Raises
        ------
        ValueError
            If the activations of nodes differ, or if the input is not usable. The
            message names the node.
        TypeError
            If the estimator of a node is not a network.

        Warns
        -----
        PoorMatchWarning
            If the matched weights are kept, and the matched units have little in common
            with the units of the nodes.
        """
        method = replace(self._method(), n_class_samples=n_class_samples)
        return fit_method(self, X, y, nodes, held_out, groups=groups, method=method)

    @federated_fit
    def update(self, estimators, *, n_class_samples=None) -> "PFNMAggregator":
        """Match the next batch of fitted networks of a stream to all earlier ones.

        What is known so far is the prior of the match. A `sigma` or `gamma0` of "auto"
        keeps the values of the earlier steps. Changes of the weights by
        :meth:`fine_tune`, and by calibration on rows, are not kept.

        Parameters
        ----------
        estimators : list of (name, classifier) tuples
            Fitted networks. A node is recognized by its name; after a `fit` without
            names the nodes are called "0", "1" and so on. New nodes and new classes may
            come.
        n_class_samples : array-like of shape (n_nodes, n_classes), default=None
            Number of rows of each class behind each of these networks, with columns in
            the order that ``classes_`` will have. A network then counts for a class by
            its share of the rows of all steps, if these were counted in all steps. With
            None all networks that have seen a class count the same for it, and this
            step counts as much as any earlier step.

        Returns
        -------
        self : PFNMAggregator
            The aggregator, after this step.

        Raises
        ------
        ValueError
            If the networks have no names, or do not fit those of earlier steps.
        """
        check_is_fitted(self)
        earlier_steps = EarlierSteps.from_aggregator(self)
        earlier_steps.check_names(estimators)
        federation = read_federation(PFNMAggregator(estimators))
        earlier_steps.check(federation)
        method = replace(self._method(), n_class_samples=n_class_samples)
        self._publish(**method.attributes_after(earlier_steps, federation))
        return self

    def node_init(self, node, n_units=None, *, n_fresh=None) -> MLPClassifier:
        """Return weights from which a node can start its next step of a stream.

        These are the merged network, or `n_units` of its units, and fresh units with
        small random weights. Units are drawn by how often the node has used them.

        Parameters
        ----------
        node : int or str
            Index of the node in ``node_names_``, or its name.
        n_units : int or sequence of int, default=None
            Number of units of each hidden layer, fresh units included. None takes all
            units, and adds the fresh ones. Set it if the node should train a smaller
            network.
        n_fresh : int, default=None
            Number of fresh units in each layer. None means a tenth of `n_units`, or
            none if `n_units` is None.

        Returns
        -------
        estimator : MLPClassifier
            A fitted classifier with these weights, from which ``partial_fit`` goes on.
            Lower its ``learning_rate_init`` to a tenth of the usual value to keep what
            was merged.
        """
        check_is_fitted(self)
        return EarlierSteps.from_aggregator(self).node_init(
            node, n_units=n_units, n_fresh=n_fresh, random_state=self.random_state
        )

    def _long_form(self, name: str, value: object) -> object:
        if name == "last_layer" and value == "auto":
            return long_last_layer(None)
        return super()._long_form(name, value)

    def _tuned(self, X: np.ndarray, y: np.ndarray, **network: object) -> object:
        return tuned_network(X, y, random_state=self.random_state, **network)

    def _logits(self, X: np.ndarray) -> np.ndarray:
        return self._layers.logits(X)
