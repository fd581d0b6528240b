"""Ensembles of fitted classifiers whose classes differ: a vote, or a stack."""

from copy import copy

import numpy as np
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..asking import ReportMixin, federated_fit, read_federation
from ..base import BaseAggregator
from ..compat import HasMethods, StrOptions
from ..local import to_logits
from ..parties import Summary
from ._ensemble_fit import EnsembleFit
from ._given_rows import GivenRowsMethod, GivenRowsMixin
from ._stack_fit import odds_summary
from ._votes import Vote


class EnsembleAggregator(GivenRowsMixin, ReportMixin, BaseAggregator):
    """Vote or stack of classifiers of any kind, which may know different classes.

    In a vote each local classifier gives no vote and no probability to classes that
    it has never seen. In a stack each node passes its rows through all local
    classifiers, and one linear classifier is fitted to the moments of their log-odds.
    All local estimators are kept, so the ensemble is as large as all of them together.

    Parameters
    ----------
    estimators : list of classifiers, list of (name, classifier) tuples, or None
        Fitted classifiers of any kind, one per node, which may know different classes.
        Unfitted classifiers, or a single one, are cloned and trained on the rows of
        each node (simulation). None stands for ``LogisticRegression()``. All
        classifiers see the rows as they are given; pipelines may take DataFrames with
        texts and missing values.
    combine : {"vote", "stack", "auto"}, default="vote"
        How the classifiers are combined. A vote needs no rows. A stack is better the
        fewer classes each node has. All classifiers are sent to all nodes. These send
        back moments of the log-odds on their rows, without held-out rows. Choose "auto"
        if you have rows and do not know which is better. Then clones of the classifiers
        are fitted to one half of the rows of each node. Votes and a stack of them are
        judged on the other half; then the halves change places. If
        their accuracies differ by less than one standard error, the one with the
        smallest log-loss is taken.
    voting : {"soft", "hard"}, default="soft"
        Whether a vote averages probabilities or counts predictions. Ties between
        predictions are broken at random. In a soft vote a classifier without
        ``predict_proba`` counts by the softmax of its scores, and one without scores
        by its predictions.
    node_weight : {"equal", "n_samples", "class_counts"} or array-like, default="equal"
        Weight of each node in a vote. With "equal" all nodes count the same, with
        "n_samples" by their number of rows, and with "class_counts" for each class by
        their share of all rows of the class. An array has one weight per node. Change
        it if the nodes have very different numbers of rows.
    beside : transformer, default=None
        Transformer whose columns are put next to the log-odds in a stack. It is fitted
        as a `front` is. A discriminant analysis then takes the place of the most
        likely linear model. Set it if the columns say more than the log-odds do.
    summaries : list of Summary or of their paths, default=None
        For a stack whose rows stay at the nodes: what :meth:`summarize_odds` made at
        each node. With None `fit` needs the rows for a stack.
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
        Source of the random numbers that deal rows to simulated nodes, seed the clones
        and break ties. Within one fitted ensemble, the same row always gets the same
        label.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted union of the classes that the nodes know.
    estimators_ : list of classifiers
        The fitted local estimators.
    node_names_ : list of str
        Names of the nodes.
    weights_ : ndarray of shape (n_nodes, n_classes)
        Weight of each node for each class in a vote. It is zero for classes that the
        node does not know. With "class_counts" the weights of each class sum to one.
    stack_ : GEMSLogisticAggregator or PooledAggregator
        In a stack, the classifier that is fitted to the log-odds.
    odds_ : transformer
        In a stack, the transformer that turns rows into log-odds.
    choice_ : Choice
        With "auto", what was tried and what was taken.
    threshold_ : float or None
        Threshold on the probability of ``classes_[1]``. It is the mean of the decision
        thresholds of the local classifiers, as logits, where those have one and there
        are two classes. None if the most probable class is predicted, and in a hard
        vote, where each classifier votes by its own threshold.
    history_ : list of dict
        One dict for each message to the nodes, with the same keys as the ``history_``
        of :class:`PooledAggregator`. Nodes are asked for a vote only if the weights
        count rows.
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
    DistillationAggregator : One small model that predicts what the ensemble predicts.
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
        disclosure="auto",
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
    ) -> "EnsembleAggregator":
        """Read the local estimators, and fit what stands above them.

        Parameters
        ----------
        X : {array-like, DataFrame, sparse matrix} of shape (n_samples, n_features), \
default=None
            Rows of the nodes. They may have more dimensions, as images do, if the
            classifiers take these, or be a dict of arrays, one per input of the modules
            of skorch nets. A vote of fitted classifiers needs no rows, unless the
            weights count rows. Documents (a list, an array or a Series with one text or
            dict per row) and tables with texts go to the classifiers as they are given.
        y : array-like of shape (n_samples,), default=None
            Labels of the rows.
        nodes : array-like of shape (n_samples,), default=None
            Index or name of the node that owns each row. Rows of -1 or "public" are not
            used. None means that each row belongs to every node that has seen its
            label.
        held_out : array-like of shape (n_samples,), dtype bool, default=None
            Rows that are neither counted nor fitted to. None means that all rows are.
        groups : array-like of shape (n_samples,), default=None
            Group of each row, for example the patient. Rows of one group stay together
            if rows are dealt to simulated nodes, or to the halves of
            ``combine="auto"``. None means that each row stands alone.

        Returns
        -------
        self : EnsembleAggregator
            The fitted aggregator.

        Raises
        ------
        TypeError
            If a local estimator is not a classifier.
        ValueError
            If the input is not usable. The message names the node.
        """
        federation = read_federation(
            self,
            X,
            y,
            nodes,
            held_out,
            groups=groups,
            method=GivenRowsMethod(),
        )
        attributes = EnsembleFit.from_aggregator(self).attributes(
            federation, EnsembleAggregator
        )
        self._publish(**attributes)
        return self

    def summarize_odds(
        self, X, y, *, name, held_out=None, disclosure="auto"
    ) -> Summary:
        """Make what a node sends for a stack: moments of all classifiers' log-odds.

        It is called at the node.

        Parameters
        ----------
        X, y, name, held_out, disclosure
            The rows and labels of the node, its name, a mask of the rows that are held
            out, and the rule for what the summary tells of the rows. They are as in
            :func:`~skgems.guard.reply_to`. All nodes, and the server, need the
            same `estimators` in the same order.

        Returns
        -------
        summary : Summary
            The summary to save and send. The server gives the summaries of all nodes as
            `summaries`.

        Raises
        ------
        ValueError
            In the same cases as ``summarize`` of :class:`GEMSLogisticAggregator`.
        """
        self._validate_params()
        return odds_summary(
            self, X, y, name=name, held_out=held_out, disclosure=disclosure
        )

    @available_if(lambda self: self.combine == "stack" or hasattr(self, "stack_"))
    def to_estimator(self) -> Pipeline:
        """Return a stack as a pipeline of log-odds and a plain classifier.

        A vote does not have this method.

        Returns
        -------
        estimator : Pipeline
            Turns rows into the log-odds of all local classifiers, and classifies these
            by LogisticRegression. With `beside` it classifies by
            LinearDiscriminantAnalysis. If there is a ``threshold_``, the classifier is
            in a FixedThresholdClassifier.
        """
        check_is_fitted(self)
        return make_pipeline(
            self._exported(copy(self.odds_)),
            self._with_threshold(self.stack_.to_estimator()),
        )

    @property
    def _can_temper(self) -> bool:
        return self.combine == "stack" and self.beside is not None

    def _temper(self, factor: float) -> None:
        self.stack_._temper(factor)

    def _logits(self, X) -> np.ndarray:
        if hasattr(self, "stack_"):
            return self.stack_._logits(self.odds_.transform(X))
        return to_logits(Vote.from_aggregator(self).probabilities(X))
