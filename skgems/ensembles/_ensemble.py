"""Ensembles of fitted classifiers whose classes differ: a vote, or a stack."""

from copy import copy

import numpy as np
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..base import BaseAggregator
from ..compat import HasMethods, StrOptions
from ..federation import (
    MIN_ROWS,
    ReportMixin,
    Summary,
    federated_fit,
    read_federation,
)
from ..local import to_logits
from ._ensemble_fit import EnsembleFit
from ._given_rows import GivenRowsMixin
from ._stack_fit import odds_summary
from ._votes import Vote


class EnsembleAggregator(GivenRowsMixin, ReportMixin, BaseAggregator):
    """Vote, or stack, of classifiers of any kind, whichever classes each of them knows.

    What a node has never seen it gives no vote and no probability. In a stack every
    node takes its rows through all members, and one linear classifier over their
    log-odds is made of the moments of these. Every local estimator is kept: the
    ensemble is as large as all of them together.

    Parameters
    ----------
    estimators : list of classifiers, list of (name, classifier) tuples, or None
        Fitted classifiers of any kind, one per node; they may know different classes.
        Unfitted classifiers, or a single one, are cloned and trained on each node's
        rows (simulation). None stands for ``LogisticRegression()``. All see rows as
        they are given: pipelines may take DataFrames with texts and missing values.
    combine : {"vote", "stack", "auto"}, default="vote"
        A vote needs no rows. A stack is the more accurate the fewer classes nodes have;
        its members go to all nodes, which tell moments of their log-odds on rows that
        are not held out. "auto" makes votes and a stack of one half of each node's
        rows, with clones of members that are fitted to it, and takes what is right
        about most of the other half.
    voting : {"soft", "hard"}, default="soft"
        Average of probabilities, or majority vote of predictions, with ties broken at
        random. In a soft vote a classifier without ``predict_proba`` counts by the
        softmax of its scores, one without scores as it predicts.
    node_weight : {"equal", "n_samples", "class_counts"} or array-like, default="equal"
        Weight of each node in a vote: all equal, its number of rows, for each class its
        share of all rows of that class, or one given number per node.
    beside : transformer, default=None
        Of a stack: its columns of rows, fitted as `front` is, are beside the log-odds,
        and a discriminant analysis is above them in place of the likeliest model.
    summaries : list of Summary or of their paths, default=None
        Of a stack whose rows are apart: what :meth:`summarize_odds` made at each node.
        None: `fit` has the rows.
    front : transformer, default=None
    n_jobs : int, default=None
    verbose : bool or int, default=0
        As of :class:`GEMSLogisticAggregator`.
    random_state : int, RandomState instance or None, default=None
        Source of the dealing of rows, of clones' seeds and of the breaking of ties,
        where the same row always gets the same label.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted union of the classes the nodes know.
    estimators_ : list of classifiers
    node_names_ : list of str
        The fitted local estimators, and the names of the nodes.
    weights_ : ndarray of shape (n_nodes, n_classes)
        What each node counts for each class in a vote; zero for classes it does not
        know. With "class_counts" the weights of a class add up to one.
    stack_ : GEMSLogisticAggregator or PooledAggregator
        Of a stack, the classifier over the members' log-odds.
    odds_ : transformer
        Of a stack, what makes these of rows.
    choice_ : Choice
        Of "auto", what was tried and taken.
    history_ : list of dict
        As of :class:`PooledAggregator`; nodes are asked where weights count rows.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Number of features, where known; names, if X or the local estimators have them.

    See Also
    --------
    DistillationAggregator : One small model that says what the ensemble says.
    sklearn.ensemble.VotingClassifier : For classifiers that know the same classes.

    References
    ----------
    Yurochkin et al.: Bayesian Nonparametric Federated Learning of Neural Networks,
    2019 (the uniform and the class-weighted ensemble).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from skgems import EnsembleAggregator
    >>> X = np.array([[0.0], [1.0], [2.0]])
    >>> a = DecisionTreeClassifier().fit(X[:2], ["ant", "bee"])
    >>> b = DecisionTreeClassifier().fit(X[1:], ["bee", "cat"])
    >>> agg = EnsembleAggregator([a, b]).fit()
    >>> agg.predict(X[1:2])
    array(['bee'], dtype='<U3')
    >>> agg.predict_proba(X[:1]).round(3)
    array([[0.5, 0.5, 0. ]])
    """

    _parameter_constraints: dict = {
        **BaseAggregator._parameter_constraints,
        "combine": [StrOptions({"vote", "stack", "auto"})],
        "voting": [StrOptions({"soft", "hard"})],
        "node_weight": [
            StrOptions({"equal", "n_samples", "class_counts"}),
            "array-like",
        ],
        "beside": [HasMethods(["fit", "transform"]), None],
        "summaries": "no_validation",
    }

    def __init__(
        self,
        estimators=None,
        *,
        combine="vote",
        voting="soft",
        node_weight="equal",
        beside=None,
        summaries=None,
        front=None,
        n_jobs=None,
        verbose=0,
        random_state=None,
    ):
        self.estimators = estimators
        self.combine = combine
        self.voting = voting
        self.node_weight = node_weight
        self.beside = beside
        self.summaries = summaries
        self.front = front
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    @federated_fit
    def fit(self, X=None, y=None, nodes=None, held_out=None) -> "EnsembleAggregator":
        """Put the local models together.

        Parameters
        ----------
        X, y, nodes, held_out : array-like, default=None
            As of :meth:`ModelAveragingAggregator.fit`. A vote of fitted models needs no
            rows, unless weights count them. Documents (a list, an array or a Series
            with one text or dict a row) and tables with texts go to the members as they
            are given.

        Returns
        -------
        self : EnsembleAggregator

        Raises
        ------
        TypeError
            If a local estimator is no classifier.
        ValueError
            If the input is not usable; the message names the node.
        """
        federation = read_federation(self, X, y, nodes, held_out)
        attributes = EnsembleFit.of(self).attributes(federation, EnsembleAggregator)
        self._publish(**attributes)
        return self

    def summarize_odds(
        self, X, y, *, name, held_out=None, min_rows=MIN_ROWS
    ) -> Summary:
        """Make what a node sends for a stack: moments of log-odds of all members.

        Parameters
        ----------
        X, y, name, held_out, min_rows
            The node's own, as for :func:`~skgems.federation.reply_to`. All nodes, and
            the server, have the same `estimators`, in the same order.

        Returns
        -------
        summary : Summary
            To be saved and sent; the server gives all of them for `summaries`.

        Raises
        ------
        ValueError
            As by ``summarize`` of :class:`GEMSLogisticAggregator`.
        """
        self._validate_params()
        return odds_summary(self, X, y, name=name, held_out=held_out, min_rows=min_rows)

    @available_if(lambda self: self.combine == "stack" or hasattr(self, "stack_"))
    def to_estimator(self) -> Pipeline:
        """Of a stack, a pipeline of the members' log-odds and LogisticRegression.

        Returns
        -------
        estimator : Pipeline
        """
        check_is_fitted(self)
        return make_pipeline(
            self._exported(copy(self.odds_)), self.stack_.to_estimator()
        )

    @property
    def _can_temper(self) -> bool:
        return self.combine == "stack" and self.beside is not None

    def _temper(self, factor: float) -> None:
        self.stack_._temper(factor)

    def _logits(self, X) -> np.ndarray:
        if hasattr(self, "stack_"):
            return self.stack_._logits(self.odds_.transform(X))
        return to_logits(Vote.of_fitted(self).probabilities(X))
