"""The classifier that scikit-learn would fit on all rows, of sums over them."""

from copy import deepcopy

from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from ..base import BaseAggregator
from ..compat import HasMethods, StrOptions
from ..federation import (
    Federation,
    KeepRepliesMixin,
    KeptReplies,
    ReportMixin,
    Run,
    federated_fit,
    read_federation,
)
from ._classifiers import CLASSIFIERS
from ._decisions import PooledDecisionsMixin
from ._pooled_fit import PooledFit
from ._summarizing import PooledSummariesMixin
from ._terms import PooledTerms


class PooledAggregator(
    PooledDecisionsMixin,
    PooledSummariesMixin,
    KeepRepliesMixin,
    ReportMixin,
    BaseAggregator,
):
    """The classifier that scikit-learn would fit on the rows of all nodes.

    Some classifiers are functions of sums over rows. Every node sends these sums, by
    class, in one message, and the aggregate predicts as the classifier fitted on all
    rows at one place: the same labels, and the same decision values or joint
    log-likelihoods to 1e-8 of their size. Nodes need no classifier of their own.

    Parameters
    ----------
    estimators : list of classifiers, list of (name, classifier) tuples, or None
        What nodes have: None, or fitted classifiers, which are not used but for
        `pooled`; summaries, paths of such, or a channel. None in place of the list:
        nodes without classifiers, by the names in `nodes`. Unfitted ones are trained
        (simulation).
    pooled : classifier or str, default=None
        What to make, unfitted, or the name of its class: RidgeClassifier,
        LinearDiscriminantAnalysis, NearestCentroid (euclidean),
        QuadraticDiscriminantAnalysis, GaussianNB, MultinomialNB, ComplementNB,
        BernoulliNB or CategoricalNB. None: that of the nodes' classifiers, where these
        agree; LinearDiscriminantAnalysis, where nodes have none.
    keep_replies : bool, default=False
        Whether nodes can come by :meth:`update` and go by :meth:`forget`.
    memory : str or object with the joblib.Memory interface, default=None
        Where to keep sums, which smoothing does not change. None: in the process.
    front : transformer, default=None
    n_jobs : int, default=None
    verbose : bool or int, default=0
        As of :class:`GEMSLogisticAggregator`; what comes out of `front` is summed.
    random_state : int, RandomState instance or None, default=None
        Deals rows to simulated nodes; not used otherwise.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted classes of the rows of all nodes.
    estimators_ : list
        What nodes have.
    node_names_ : list of str
        Names of the nodes.
    exact_ : bool
        Whether labels are those of scikit-learn's own fit on all rows, and decision
        values to 1e-8 of their size, on float64 rows. False where rounding may move
        these by more, or a node left classes of few rows out.
    pooled_form_ : PooledForm
        Its ``kind``, a name, its ``parameters``, and the ``reason`` where it is not
        exact.
    history_ : list of dict
        One for each message to the nodes: its "task", the "bytes_sent" to all and
        "bytes_received" from them, "seconds", nodes "left_out" because they failed
        twice, "loss", which nodes do not send here, and the bound "min_rows" under
        which each node replied.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Number of features; their names, if X or the local estimators have them.

    See Also
    --------
    GEMSLogisticAggregator : The likeliest linear model, nearly that of all rows.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from skgems import PooledAggregator
    >>> X, y = load_iris(return_X_y=True)
    >>> nodes = ["lyon" if label < 2 else "paris" for label in y]
    >>> agg = PooledAggregator(pooled=GaussianNB()).fit(X, y, nodes=nodes)
    >>> whole = GaussianNB().fit(X, y)
    >>> bool((agg.predict(X) == whole.predict(X)).all()), agg.exact_
    (True, True)
    >>> agg.to_estimator()
    GaussianNB()
    """

    _takes = PooledFit.takes
    _parameter_constraints: dict = {
        **BaseAggregator._parameter_constraints,
        "pooled": [HasMethods(["fit", "predict"]), StrOptions(set(CLASSIFIERS)), None],
        "keep_replies": ["boolean"],
        "memory": [None, str, HasMethods(["cache"])],
    }

    def __init__(
        self,
        estimators=None,
        *,
        pooled=None,
        keep_replies=False,
        memory=None,
        front=None,
        n_jobs=None,
        verbose=0,
        random_state=None,
    ):
        self.estimators = estimators
        self.pooled = pooled
        self.keep_replies = keep_replies
        self.memory = memory
        self.front = front
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    @federated_fit
    def fit(self, X=None, y=None, nodes=None, held_out=None) -> "PooledAggregator":
        """Sum what the nodes send, and make the classifier of it.

        Parameters
        ----------
        X, y, nodes, held_out : array-like, default=None
            As of :meth:`GEMSLogisticAggregator.fit`, but public rows are those of one
            more node, the server, and rows held out are in no sum. Without `nodes`,
            there is one of nodes without classifiers; else a row belongs to every node
            that has seen its label.

        Returns
        -------
        self : PooledAggregator

        Raises
        ------
        ValueError
            If nodes' classifiers differ and none is given, one is no function of sums,
            a node has no rows or such as the classifier does not take, or it cannot be
            made of all rows; the message names node, class or parameter.

        Warns
        -----
        ClassesLeftOutWarning
            By summaries of nodes that have few rows of a class.
        NodesDisagreeWarning
            If the class means of a node contradict those of the others, of three nodes
            or more that share classes.
        ManyRowsWarning
            If a node has nearly all rows.
        """
        PooledFit.of(self)  # what cannot be made is an error before anything is done
        federation = read_federation(self, X, y, nodes, held_out)
        return self._fit_read(federation)

    def to_estimator(self) -> ClassifierMixin:
        """The classifier itself, of scikit-learn alone.

        Returns
        -------
        estimator : classifier
            Of the class of `pooled`, with all its fitted attributes.
        """
        check_is_fitted(self)
        return self._exported(deepcopy(self._fitted))

    def _default_estimator(self) -> None:
        return None

    def _long_form(self, name: str, value: object) -> object | None:
        if name == "pooled" and value in list(CLASSIFIERS):
            return CLASSIFIERS[value]()
        return super()._long_form(name, value)

    def _terms(self) -> PooledTerms:
        return PooledFit.of(self).terms

    def _attributes(
        self,
        federation: Federation,
        run: Run,
        *,
        public: tuple,
        kept: KeptReplies | None,
    ) -> dict[str, object]:
        return PooledFit.of(self).attributes(federation, run, public=public)
