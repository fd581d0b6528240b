"""Averages of parameters: of fitted models at once, or after rounds of training."""

from numbers import Integral, Real
from typing import TYPE_CHECKING

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ..base import Allows, BaseAggregator, Takes
from ..compat import Interval, StrOptions
from ..federation import ReportMixin, SummarizingMixin, federated_fit, read_federation
from ._averaged_model import AveragedModel
from ._averaging_fit import AveragingFit
from ._downpour import Downpour
from ._schedule import Schedule
from ._terms import AveragingTerms

if TYPE_CHECKING:
    import torch


class ModelAveragingAggregator(SummarizingMixin, ReportMixin, BaseAggregator):
    """The average of the nodes' parameters, at once or after rounds of training.

    With ``n_rounds=0`` fitted models of equal shape are averaged as they are: no rows
    are needed, and ``fit()`` does. Else it is co-learning: in each round every node
    trains the shared model on its rows, with a learning rate that starts anew, and the
    average becomes the shared model; once it has settled, nodes train twice as long.

    Parameters
    ----------
    estimators : list of classifiers, list of (name, classifier) tuples, or None
        Fitted classifiers, one per node, of equal shape: linear ones, MLPClassifier,
        skorch nets; without rounds pipelines of affine steps too. They may know
        different classes. Skorch nets of any torch module are averaged parameter by
        parameter, buffers included; those of integers, which count, are of the node
        with most rows. Unfitted classifiers, or a single one, are cloned for each node
        (simulation), and trained there. None stands for ``LogisticRegression()``.
    node_weight : {"equal", "n_samples", "class_counts"} or array-like, default="equal"
        Weight of each node: all equal, its number of rows, for what belongs to a class
        its rows of that class and for the rest its number of rows, or one given number
        per node. What belongs to a class is averaged over the nodes that know it; in
        rounds over all, unless ``node_weight`` is "class_counts".
    align : {None, "permutation"}, default=None
        Whether to put the hidden units of each node in the order of those that they
        are like in the network with the largest output weights. Needed for networks
        that did not start from the same weights, and never enough for very different
        ones. Without, and without rounds, such networks draw a warning.
    n_rounds : int, default=0
        Rounds of local training, which need rows, of MLPClassifier, SGDClassifier,
        LogisticRegression and skorch nets.
    local_epochs : int, default=5
        Epochs of each node in the first round, T_0.
    learning_rate : float or None, default=0.01
        Rate at the start of each round. None leaves rates to the nodes' estimators.
        LogisticRegression has none; an epoch is an iteration of its solver.
    schedule : Schedule or {"cyclical", "exponential", "constant"}, default="cyclical"
        Whether the rate decays anew in each round, once over all rounds, or stays. A
        :class:`~skgems.averaging.Schedule` also says how far it decays, and when
        epochs are doubled. Searched as ``schedule__decay``.
    server : Downpour or None, default=None
        None: the average is the next shared model. Else what a
        :class:`~skgems.averaging.Downpour` makes of what nodes push in each round, of
        one epoch or fewer rows; then there is no schedule.
    common_init : bool, default=True
        In simulation, whether all nodes start from the same random weights: clones get
        the same ``random_state``, where it is not set. Else averages are of little use.
    front : transformer, default=None
        Before all, as of :class:`GEMSLogisticAggregator`.
    n_jobs : int, default=None
        Nodes treated in parallel; results do not depend on it.
    verbose : bool or int, default=0
        As of :class:`GEMSLogisticAggregator`; but `n_jobs` changes rounding in torch.
    random_state : int, RandomState instance or None, default=None
        Source of the dealing of rows, of first weights and of the order of rows.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted union of the classes the nodes know.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Weights, if the average is linear; two classes have one output.
    coefs_ : list of ndarray, layer i of shape (n_in_i, n_out_i)
    intercepts_ : list of ndarray, layer i of shape (n_out_i,)
        Weights and biases, if the average has hidden layers.
    network_ : Network or None
        The average as plain arrays; None if it is no chain of dense layers.
    net_ : skorch net or None
        The average as a net, if all were of equal modules and units not aligned.
    history_ : list of dict
        As of :class:`PooledAggregator`, and the "loss" of each node (mean log-loss on
        the rows it trained on). With rounds also "epochs" (T_i), "learning_rates", and
        the relative "change" of the shared model, which are None where nobody trained.
    estimators_ : list of classifiers
        The local estimators; in a simulation with rounds as they were before them.
    node_names_ : list of str
        Names of the nodes.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Number of features, where known; names, if X or the local estimators have them.

    See Also
    --------
    EnsembleAggregator : Average what models say, whatever they are.

    References
    ----------
    Xu et al.: Collaborative Deep Learning Across Multiple Data Centers, 2018.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.neural_network import MLPClassifier
    >>> from skgems import ModelAveragingAggregator
    >>> X, y = load_digits(return_X_y=True)
    >>> X, train, test = X / 16, slice(0, 1300), slice(1300, None)
    >>> net = MLPClassifier((32,), batch_size=32, solver="sgd")
    >>> agg = ModelAveragingAggregator(
    ...     [net] * 5, n_rounds=4, learning_rate=0.1, random_state=0
    ... )
    >>> agg.fit(X[train], y[train]).score(X[test], y[test]) > 0.85
    True
    """

    _takes = Takes(networks=False)
    _allows = Allows(more_dimensions=True)  # images for convolutions
    _parts = {"schedule": Schedule}
    _parameter_constraints: dict = {
        **BaseAggregator._parameter_constraints,
        "node_weight": [
            StrOptions({"equal", "n_samples", "class_counts"}),
            "array-like",
        ],
        "align": [StrOptions({"permutation"}), None],
        "n_rounds": [Interval(Integral, 0, None, closed="left")],
        "local_epochs": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither"), None],
        "server": [Downpour, None],
        "common_init": ["boolean"],
    }

    def __init__(
        self,
        estimators=None,
        *,
        node_weight="equal",
        align=None,
        n_rounds=0,
        local_epochs=5,
        learning_rate=0.01,
        schedule="cyclical",
        server=None,
        common_init=True,
        front=None,
        n_jobs=None,
        verbose=0,
        random_state=None,
    ):
        self.estimators = estimators
        self.node_weight = node_weight
        self.align = align
        self.n_rounds = n_rounds
        self.local_epochs = local_epochs
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.server = server
        self.common_init = common_init
        self.front = front
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    @federated_fit
    def fit(
        self, X=None, y=None, nodes=None, held_out=None
    ) -> "ModelAveragingAggregator":
        """Average the local models, after rounds of training if there are any.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
            Rows of the nodes; of more dimensions where modules take it, as images. Not
            needed for fitted models without rounds, unless weights count rows.
        y : array-like of shape (n_samples,), default=None
            Labels.
        nodes : array-like of shape (n_samples,), default=None
            Index or name of the node that owns each row; rows of -1 or "public" are
            not used. With None a row belongs to every node that has seen its label.
        held_out : array-like of shape (n_samples,), dtype bool, default=None
            Rows that are neither counted nor trained on. None: all are.

        Returns
        -------
        self : ModelAveragingAggregator

        Raises
        ------
        TypeError
            If a local model cannot be averaged, or cannot train in rounds.
        ValueError
            If models have different shapes, or the input is not usable.
        TooFewNodesError
            If in one round every node fails; ``parameters`` is the model before it.

        Warns
        -----
        StartedApartWarning
            Without ``align`` and rounds, if networks of dense layers did not start from
            the same weights, or have nothing left of them. Networks of fewer than some
            ten hidden units do not always show it.
        NodesDisagreeWarning
            If parameters of some nodes, of three or more, are far larger than those of
            all others, in any of the rounds too.
        ManyRowsWarning
            If weights count rows, and a node has nearly all of them.
        """
        averaging_fit = AveragingFit.of(self)
        simulation = averaging_fit.simulation(self)
        federation = read_federation(self, X, y, nodes, held_out, simulation=simulation)
        self._publish(**averaging_fit.attributes(federation))
        return self

    def _terms(self) -> AveragingTerms:
        return AveragingTerms(n_rounds=self.n_rounds)

    def _check_one_message(self) -> None:
        if self.n_rounds:
            raise ValueError(
                f"n_rounds={self.n_rounds} asks nodes more than once, a summary holds "
                "all at once: set n_rounds=0, or use skgems.Exchange."
            )

    def _logits(self, X: np.ndarray) -> np.ndarray:
        return AveragedModel.of(self).logits(X)

    def to_estimator(self) -> BaseEstimator:
        """The average as a plain fitted classifier.

        Returns
        -------
        estimator : LogisticRegression, MLPClassifier or skorch net
            Predicts the same labels and probabilities. A skorch net, whose ``predict``
            gives numbers of columns, if the module is no chain of dense layers.

        Raises
        ------
        ValueError
            If hidden layers have different activations, or there is only one class.
        """
        check_is_fitted(self)
        averaged = AveragedModel.of(self)
        if averaged.network is None:
            return averaged.copy_of_net()
        return self._exported(averaged.as_classifier())

    def to_module(self) -> "torch.nn.Module":
        """The average as a torch module.

        Returns
        -------
        module : torch.nn.Module
            That of ``net_``, if there is one, in evaluation mode. Else Linear layers
            and activations, to one logit per class, in the dtype of nodes' models.

        Raises
        ------
        ImportError
            If torch is not installed.
        """
        check_is_fitted(self)
        self._check_no_front()
        return AveragedModel.of(self).as_module()
