"""Averages of parameters: of fitted models at once, or after rounds of training."""

from numbers import Integral, Real
from typing import TYPE_CHECKING

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ..asking import ReportMixin, federated_fit, fit_method
from ..base import Allows, BaseAggregator
from ..compat import Interval, StrOptions
from ..guard import SummarizingMixin
from ._averaged_model import AveragedModel
from ._averaging_fit import AveragingMethod
from ._downpour import Downpour
from ._schedule import Schedule

if TYPE_CHECKING:
    import torch


class ModelAveragingAggregator(SummarizingMixin, ReportMixin, BaseAggregator):
    """Average the parameters of the nodes' models, at once or after rounds of training.

    With ``n_rounds=0`` the fitted models of the nodes, which must have equal shapes,
    are averaged as they are. This needs no rows: ``fit()`` is enough. With more rounds
    it is co-learning. In each round, every node trains the shared model on its own
    rows. The average of the trained models becomes the next shared model. By default
    the learning rate starts anew in each round, and the number of epochs is doubled
    after a round in which the shared model changed little.

    Parameters
    ----------
    estimators : list of classifiers, list of (name, classifier) tuples, or None
        Fitted classifiers, one per node, of equal shape: linear classifiers,
        MLPClassifier or skorch nets; without rounds also pipelines of affine steps.
        They may know different classes. Unfitted classifiers, or a single one, are
        cloned and trained on the rows of each node (simulation). None stands for
        ``LogisticRegression()``.
    node_weight : {"equal", "n_samples", "class_counts"} or array-like, default="equal"
        Weight of each node in the average. With "equal" all nodes count the same, and
        with "n_samples" by their number of rows. With "class_counts" a node counts by
        its rows of a class for the parameters of that class, and by its number of rows
        for all others. An array has one weight per node. Change it if the nodes have
        very different numbers of rows.
    align : {None, "permutation"}, default=None
        Whether to put the hidden units of each node into a common order before the
        average. With "permutation" this is the order of the most similar units in the
        network with the largest output weights. Set it for networks that did not start
        from the same weights; it is not enough for very different networks.
    n_rounds : int, default=0
        Number of rounds of local training. Rounds need rows, and MLPClassifier,
        SGDClassifier, LogisticRegression or skorch nets. Increase it if the plain
        average is not accurate enough.
    local_epochs : int, default=5
        Number of epochs that each node trains in the first round, T_0.
    learning_rate : float or None, default=0.01
        Learning rate at the start of each round. None leaves the rates to the nodes'
        estimators. LogisticRegression has no learning rate; its epoch is one iteration
        of its solver.
    schedule : Schedule or {"cyclical", "exponential", "constant"}, default="cyclical"
        How the learning rate decays: anew in each round, once over all rounds, or not
        at all. Give a :class:`~skgems.averaging.Schedule` to choose also how far it
        decays and when epochs are doubled. A search can vary its parameters, for
        example ``schedule__decay``.
    server : Downpour, "median" or None, default=None
        How the server makes one model of those of the nodes. None takes the average.
        "median" takes the median of each parameter over the nodes that `node_weight`
        does not leave out; choose it if a few nodes may lie (:ref:`liars`). With a
        :class:`~skgems.averaging.Downpour` the nodes train for one epoch, or on fewer
        rows, in each round, and the server takes a step; `schedule` and `local_epochs`
        are then not used.
    common_init : bool, default=True
        Whether all nodes start from the same random weights in a simulation. The clones
        get the same ``random_state`` if theirs is not set. With False averages of
        networks are of little use.
    disclosure : Disclosure, "auto" or None, default="auto"
        The rule for what nodes tell of their rows, as for
        :class:`~skgems.GEMSLogisticAggregator`.
    front : transformer, default=None
        Transformers that all nodes apply first, as in :class:`GEMSLogisticAggregator`.
    n_jobs : int, default=None
        Number of nodes that are treated in parallel. Results do not depend on it, but
        for rounding in torch.
    verbose : bool or int, default=0
        Whether to print progress.
    random_state : int, RandomState instance or None, default=None
        Source of the random numbers that deal rows to simulated nodes, draw the first
        weights and order the rows. Pass an int for reproducible results.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted union of the classes that the nodes know.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Weights, if the average is linear. Two classes have one output.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Intercepts, if the average is linear.
    coefs_ : list of ndarray, layer i of shape (n_in_i, n_out_i)
        Weights of all layers, if the average has hidden layers.
    intercepts_ : list of ndarray, layer i of shape (n_out_i,)
        Biases of all layers, if the average has hidden layers.
    network_ : Network or None
        The average as plain arrays. It is None if it is not a chain of dense layers.
    net_ : skorch net or None
        The average as a skorch net, if all nodes have nets with equal modules and
        their units were not aligned.
    history_ : list of dict
        One dict for each message to the nodes, with the same keys as the ``history_``
        of :class:`PooledAggregator`. "loss" is the mean log-loss of each node on the
        rows that it trained on. With rounds there are also the "epochs" (T_i) and
        "learning_rates" of the round, and the relative "change" of the shared model;
        these are None for messages without training.
    estimators_ : list of classifiers
        The local estimators. In a simulation with rounds they are as they were before
        the rounds.
    node_names_ : list of str
        Names of the nodes.
    n_features_in_ : int
        Number of features, if it is known.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if X or the local estimators have them.
    features_used_ : list or None
        Names of the features that the aggregate uses, or their places if they have no
        names. They are all features but those that the nodes' classifiers drop by name.
        None if nobody knows their number.

    See Also
    --------
    EnsembleAggregator : Average the predictions of models of any kind.

    Notes
    -----
    The parameters of a class are averaged over the nodes that know the class. In rounds
    they are averaged over all nodes, unless `node_weight` is "class_counts".

    Skorch nets of any torch module are averaged parameter by parameter, buffers
    included. With equal weights the modules must give equal outputs, which is checked
    on made-up rows, or on rows of the fit if these do not fit. Buffers of integers,
    which are counters, are taken from the node with the most rows. Summaries of modules
    that are no chain of dense layers have parameters, but no code. Give an unfitted
    skorch net of the module beside them: ``estimators=[net, *summaries]``.

    References
    ----------
    Xu et al.: Collaborative Deep Learning Across Multiple Data Centers, 2018. The
    rounds follow Eq. 2-4 and Algorithm 1.

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

    _method_class = AveragingMethod
    # Images for convolutions, and dicts of inputs for modules that have several.
    _allows = Allows(more_dimensions=True, named_inputs=True)
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
        "server": [Downpour, StrOptions({"median"}), None],
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
        disclosure="auto",
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
        self.disclosure = disclosure
        self.front = front
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    @federated_fit
    def fit(
        self,
        X=None,
        y=None,
        nodes=None,
        held_out=None,
        *,
        groups=None,
    ) -> "ModelAveragingAggregator":
        """Average the local models, after rounds of training if there are any.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
            Rows of the nodes. They may have more dimensions, as images do, if the
            modules take these, or be a dict of arrays, one per input. Fitted models
            without rounds need no rows, unless the weights of the nodes count rows.
        y : array-like of shape (n_samples,), default=None
            Labels of the rows.
        nodes : array-like of shape (n_samples,), default=None
            Index or name of the node that owns each row. Rows of -1 or "public" are not
            used. None means that each row belongs to every node that has seen its
            label.
        held_out : array-like of shape (n_samples,), dtype bool, default=None
            Rows that are neither counted nor trained on. None means that all rows are.
        groups : array-like of shape (n_samples,), default=None
            Group of each row, for example the patient. Rows of one group go to the same
            node if rows are dealt to simulated nodes. None means that each row stands
            alone.

        Returns
        -------
        self : ModelAveragingAggregator
            The fitted aggregator.

        Raises
        ------
        TypeError
            If a local model cannot be averaged, or cannot train in rounds.
        ValueError
            If models have different shapes, or if the input is not usable.
        TooFewNodesError
            If all nodes fail in the same round. The attribute ``parameters`` of the
            error is the shared model before that round.

        Warns
        -----
        StartedApartWarning
            Without `align` and rounds, if networks of dense layers did not start from
            the same weights, or were trained until nothing is left of a common start.
            Networks with fewer than about ten hidden units do not always show this.
        NodesDisagreeWarning
            If the parameters of some nodes are far larger than those of the median
            node, in any round. This needs at least three nodes.
        ManyRowsWarning
            If the weights count rows and one node has nearly all of them.
        """
        return fit_method(self, X, y, nodes, held_out, groups=groups)

    def _logits(self, X: np.ndarray) -> np.ndarray:
        return AveragedModel.from_aggregator(self).logits(X)

    def to_estimator(self) -> BaseEstimator:
        """Return the average as a plain fitted classifier.

        Returns
        -------
        estimator : LogisticRegression, MLPClassifier or skorch net
            Predicts the same labels and probabilities. It is a skorch net if the module
            is not a chain of dense layers; the ``predict`` of such a net returns
            indices of columns. With a `front`, a LogisticRegression or MLPClassifier is
            the last step of a pipeline that begins with the fitted front.

        Raises
        ------
        ValueError
            If hidden layers have different activations, or if there is only one class.
        """
        check_is_fitted(self)
        averaged = AveragedModel.from_aggregator(self)
        if averaged.network is None:
            return averaged.copy_of_net()
        return self._exported(averaged.as_classifier())

    def to_module(self) -> "torch.nn.Module":
        """Return the average as a torch module.

        Returns
        -------
        module : torch.nn.Module
            The module of ``net_``, if there is one, in evaluation mode. Otherwise
            Linear layers and activations with one logit per class, in the dtype of the
            nodes' models.

        Raises
        ------
        ImportError
            If torch is not installed.
        ValueError
            If the aggregate has a `front`, which a torch module cannot contain.
        """
        check_is_fitted(self)
        self._check_no_front()
        return AveragedModel.from_aggregator(self).as_module()
