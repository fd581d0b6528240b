# SPDX-License-Identifier: BSD-3-Clause
"""Averages of parameters: of fitted models at once, or after rounds of training."""

from __future__ import annotations

import warnings
from functools import partial
from numbers import Integral, Real

import numpy as np
from sklearn.base import _fit_context
from sklearn.linear_model import LogisticRegression
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from ._averages import (
    average_nets,
    average_networks,
    is_any_module,
    local_training,
    node_weights,
    read_shares,
)
from ._descriptions import LightAggregator, describe, probabilities, to_logits
from ._members import seeded_clone
from ._training import (
    check_trainable,
    get_parameters,
    initialise,
    is_skorch,
    parameters_of,
    unwrap,
    widen,
    with_parameters,
)
from .base import Federation, _fit_local
from .networks import (
    read_network,
    to_logistic_regression,
    to_mlp_classifier,
    to_module,
)
from .rounds import run_rounds


class ModelAveragingAggregator(LightAggregator):
    """The average of the nodes' parameters, at once or after rounds of training.

    With ``n_rounds=0`` fitted models of equal shape are averaged as they are: no rows
    are needed, and ``fit()`` does. With ``n_rounds > 0`` it is co-learning: in each
    round every node trains on its rows from the shared model, with a learning rate
    that starts anew, and the average becomes the shared model; once it has settled,
    nodes train twice as long between averages.

    Parameters
    ----------
    estimators : list of classifiers, list of (name, classifier) tuples, or None
        Fitted classifiers, one per node, of equal shape: linear ones, MLPClassifier,
        skorch nets; they may know different classes. Without rounds pipelines of
        affine steps too. Skorch nets of any torch module are averaged parameter by
        parameter, convolutions and buffers included. Unfitted classifiers, or a single
        one, are cloned for each node (simulation), and without rounds trained there.
        None stands for ``LogisticRegression()``.

    weights : {"equal", "n_samples", "class_counts"} or array-like, default="equal"
        Weight of each node: all equal, its number of rows, or for what belongs to a
        class its rows of that class and for the rest its number of rows, or one
        given number per node. What belongs to a class is averaged over the nodes that
        know it; in rounds over all, since all train all outputs, unless the weights
        are "class_counts".

    align : {None, "permutation"}, default=None
        Whether to put the hidden units of each node in the order of the first node's
        that they are like before averaging. Needed for networks that did not start
        from the same weights, and never enough for very different ones.

    n_rounds : int, default=0
        Rounds of local training, which need rows. What can train in rounds is
        MLPClassifier, SGDClassifier, LogisticRegression and skorch nets.

    local_epochs : int, default=5
        Epochs of each node in the first round, T_0.

    learning_rate : float or None, default=0.01
        Rate at the start of each round. None leaves rates to the nodes' estimators.
        LogisticRegression has none, and an epoch is an iteration of its solver.

    schedule : {"cyclical", "exponential", "constant"}, default="cyclical"
        Whether the rate decays anew in each round, decays once over all rounds, or
        stays.

    decay : float, default=0.25
        Factor that the rate has fallen by at the end of its decay, r.

    epochs : {"increasing", "fixed"}, default="increasing"
        Whether epochs are doubled once the shared model has settled.

    epsilon : float, default=0.01
        Relative change of the shared model in a round up to which it has settled.

    common_init : bool, default=True
        In simulation, whether all nodes start from the same random weights. Averages
        of networks that do not are of little use.

    n_jobs : int, default=None
        Nodes that train at the same time. Results do not depend on it.

    verbose : bool or int, default=0
        Whether to print progress.

    random_state : int, RandomState instance or None, default=None
        Source of the dealing of rows, of first weights and of the order of rows in
        training.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted union of the classes the nodes know.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Weights, if the average is linear.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Intercepts, if the average is linear.
    coefs_ : list of ndarray, layer i of shape (n_in_i, n_out_i)
        Weights, if the average has hidden layers; two classes have one output.
    intercepts_ : list of ndarray, layer i of shape (n_out_i,)
        Biases, if the average has hidden layers.
    network_ : Network or None
        The average as plain arrays; None if it is no chain of dense layers.
    net_ : skorch net or None
        The average as a net, if it was made of nets parameter by parameter.
    history_ : list of dict
        One for each round: "round", "epochs" (T_i), "learning_rates", the relative
        "change" of the shared model, the "loss" of each node (mean log-loss on the
        rows it trained on), nodes "left_out" because they failed twice, and
        "bytes_sent", by all nodes and to them. A ``pandas.DataFrame`` can be made of
        it.
    estimators_ : list of classifiers
        The local estimators; in a simulation with rounds as they were before them.
    node_names_ : list of str
        Names of the nodes.
    n_features_in_ : int
        Number of features, where it is known.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if X or the local estimators have them.

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

    _parameter_constraints: dict = {
        **LightAggregator._parameter_constraints,
        "weights": [StrOptions({"equal", "n_samples", "class_counts"}), "array-like"],
        "align": [StrOptions({"permutation"}), None],
        "n_rounds": [Interval(Integral, 0, None, closed="left")],
        "local_epochs": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither"), None],
        "schedule": [StrOptions({"cyclical", "exponential", "constant"})],
        "decay": [Interval(Real, 0, 1, closed="right")],
        "epochs": [StrOptions({"increasing", "fixed"})],
        "epsilon": [Interval(Real, 0, None, closed="left")],
        "common_init": ["boolean"],
    }

    def __init__(
        self,
        estimators=None,
        *,
        weights="equal",
        align=None,
        n_rounds=0,
        local_epochs=5,
        learning_rate=0.01,
        schedule="cyclical",
        decay=0.25,
        epochs="increasing",
        epsilon=0.01,
        common_init=True,
        n_jobs=None,
        verbose=0,
        random_state=None,
    ):
        self.estimators = estimators
        self.weights = weights
        self.align = align
        self.n_rounds = n_rounds
        self.local_epochs = local_epochs
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.decay = decay
        self.epochs = epochs
        self.epsilon = epsilon
        self.common_init = common_init
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    def _default_estimator(self):
        return LogisticRegression()

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X=None, y=None, nodes=None) -> ModelAveragingAggregator:
        """Average the local models, after rounds of training if there are any.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
            Rows of the nodes. Not needed for fitted models without rounds, unless
            weights count rows.
        y : array-like of shape (n_samples,), default=None
            Labels.
        nodes : array-like of shape (n_samples,), default=None
            Index or name of the node that owns each row; rows of -1 or "public" are
            not used. With None a row belongs to every node that has seen its label.

        Returns
        -------
        self : ModelAveragingAggregator

        Raises
        ------
        TypeError
            If a local model cannot be averaged, or cannot train in rounds.
        ValueError
            If models have different shapes, or the input is otherwise not usable;
            the message names the node.
        AllNodesFailed
            A RuntimeError, if in one round every node fails.
        """
        if X is None and self.n_rounds:
            raise ValueError(
                f"n_rounds={self.n_rounds}, but there are no rows to train on: give "
                "fit X and y, or set n_rounds=0."
            )
        rng = check_random_state(self.random_state)
        self._init_seed = rng.randint(2**31 - 1)
        federation = self._read(X, y, nodes)
        self._warn_of_shared_rows(federation)
        shares = read_shares(federation, self.weights, len(self.classes_))
        self.network_ = self.net_ = None
        self.history_ = []
        # One class leaves nothing to train.
        if self.n_rounds and len(self.classes_) > 1:
            self._run_rounds(federation, shares, rng)
        else:
            self._average(federation, shares)
        self._publish_weights()
        return self

    # ---- simulation -------------------------------------------------------

    def _clone_member(self, member, rng):
        if self.common_init:
            rng = np.random.RandomState(self._init_seed)
        return seeded_clone(member, rng)

    def _local_fit(self, y):
        seed = self._init_seed if self.common_init else None
        classes = np.unique(y)
        if self.n_rounds and len(classes) > 1:
            return partial(_start_local, classes=classes, seed=seed)
        return partial(_fit_seeded, seed=seed)

    # ---- steps of fit -----------------------------------------------------

    def _warn_of_shared_rows(self, federation: Federation) -> None:
        if federation.rows_are_shared and self.n_rounds:
            warnings.warn(
                "nodes is not given and nodes share classes, so they share rows: every "
                "node trains on pooled rows. Give fit the node of each row, "
                "fit(X, y, nodes=nodes).",
                UserWarning,
                stacklevel=4,
            )

    def _average(self, federation: Federation, shares) -> None:
        nodes = federation.nodes
        if is_any_module(nodes[0]):
            if self.align:
                raise ValueError(
                    f"align={self.align!r} matches the units of chains of dense "
                    f"layers; the module of node {nodes[0].name!r} is none."
                )
            self.net_ = average_nets(nodes, self.classes_, shares)
        else:
            self.network_ = average_networks(
                nodes, self.classes_, shares, align=bool(self.align)
            )

    def _run_rounds(self, federation: Federation, shares, rng) -> None:
        nodes = federation.nodes
        for node in nodes:
            check_trainable(node.estimator, name=node.name)
        kinds = {node.name: is_skorch(unwrap(node.estimator)) for node in nodes}
        if len(set(kinds.values())) > 1:
            raise TypeError(
                "Rounds average the parameters of one library, but nodes "
                f"{[name for name, skorch in kinds.items() if skorch]} are skorch nets "
                "and the others are not."
            )
        if any(kinds.values()) and self.align:
            raise ValueError(
                f"align={self.align!r} cannot be had with rounds of skorch nets; set "
                "align=None."
            )
        if any(kinds.values()):
            template = average_nets(nodes, self.classes_, shares)
            start = get_parameters(template)
        else:
            template = widen(nodes[0].estimator, self.classes_)
            average = average_networks(
                nodes, self.classes_, shares, align=bool(self.align)
            )
            start = parameters_of(average, template)
        # From here on every node has all outputs, and trains them.
        shares_in_rounds = (
            shares
            if isinstance(self.weights, str) and self.weights == "class_counts"
            else shares.for_all_outputs()
        )
        result = run_rounds(
            start,
            [local_training(node, federation, self.classes_) for node in nodes],
            n_rounds=self.n_rounds,
            local_epochs=self.local_epochs,
            learning_rate=self.learning_rate,
            decay=self.decay,
            schedule=self.schedule,
            epochs=self.epochs,
            epsilon=self.epsilon,
            weights=node_weights(template, nodes, self.classes_, shares_in_rounds),
            names=self.node_names_,
            n_jobs=self.n_jobs,
            random_state=rng,
            log=self._log,
        )
        self.history_ = result.history
        final = with_parameters(template, result.parameters)
        if any(kinds.values()):
            self.net_ = final
        else:
            self.network_ = read_network(final)

    def _publish_weights(self) -> None:
        for name in ("coef_", "intercept_", "coefs_", "intercepts_"):
            vars(self).pop(name, None)
        network = self.network_
        if network is None:
            return
        coefs, intercepts = list(network.coefs), list(network.intercepts)
        if len(self.classes_) == 2:
            coefs[-1], intercepts[-1] = np.diff(coefs[-1]), np.diff(intercepts[-1])
        if network.is_linear:
            self.coef_ = np.ascontiguousarray(coefs[0].T)
            self.intercept_ = intercepts[0]
        else:
            self.coefs_, self.intercepts_ = coefs, intercepts

    # ---- prediction and export --------------------------------------------

    def _logits(self, X) -> np.ndarray:
        if self.network_ is not None:
            return self.network_.decision_function(X)
        description = describe(self.net_)
        proba = probabilities(self.net_, X, description, self.classes_)
        return to_logits(proba)

    def to_estimator(self):
        """The average as a plain fitted classifier.

        Returns
        -------
        estimator : LogisticRegression, MLPClassifier or skorch net
            Predicts the same labels and probabilities; knows nothing of this
            library. A skorch net if the average was made of nets parameter by
            parameter; its ``predict`` gives the numbers of output columns.
        """
        check_is_fitted(self)
        if self.network_ is None:
            return with_parameters(self.net_, get_parameters(self.net_))
        names = getattr(self, "feature_names_in_", None)
        network = self.network_
        if network.is_linear:
            return to_logistic_regression(
                network.coefs[0].T,
                network.intercepts[0],
                self.classes_,
                feature_names_in=names,
            )
        return to_mlp_classifier(
            network.coefs,
            network.intercepts,
            network.activation,
            self.classes_,
            feature_names_in=names,
        )

    def to_module(self):
        """The average as a torch module.

        Returns
        -------
        module : torch.nn.Module
            Gives logits, one per class; if the average was made of nets parameter by
            parameter, a module of their kind.
        """
        check_is_fitted(self)
        if self.network_ is None:
            return with_parameters(self.net_, get_parameters(self.net_)).module_
        network = self.network_
        return to_module(network.coefs, network.intercepts, network.activation)


def _start_local(estimator, X, y, *, classes, seed):
    return initialise(estimator, X, y, classes=classes, random_state=seed)


def _fit_seeded(estimator, X, y, *, seed):
    """Fit, torch's first weights from the seed too."""
    if seed is None or not is_skorch(estimator) or len(np.unique(y)) == 1:
        return _fit_local(estimator, X, y)
    from ._training_skorch import as_input, seeded

    with seeded(np.random.RandomState(seed), estimator):
        estimator.initialize()
        return estimator.fit(*as_input(estimator, X, y))
