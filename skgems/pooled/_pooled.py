"""The classifier that scikit-learn would fit on all rows, from sums over them."""

from copy import deepcopy
from numbers import Integral

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ..asking import KeepRepliesMixin, ReportMixin, federated_fit, fit_method
from ..base import Allows, BaseAggregator
from ..compat import HasMethods, Interval, StrOptions
from ..private import Privacy
from ..steps import Columns, Front
from ._chosen_classifier import NAMES, classifier_named
from ._decisions import PooledDecisionsMixin
from ._noisy_classifiers import NoisyPooledMethod
from ._pooled_fit import PooledMethod
from ._sent_models import content_of_classifier, of_all_columns
from ._summarizing import PooledSummariesMixin
from ._weights import weights_if


def _only_used(used: np.ndarray, names: np.ndarray | None) -> ColumnTransformer:
    """Return a fitted step that passes on the features that are used."""
    n_features = len(used)
    columns = Columns(
        n=n_features,
        names=None if names is None else tuple(names),
        text=(False,) * n_features,
        dtype="float64",
    )
    labels = [columns.labels[j] for j in np.flatnonzero(used)]
    only_used = ColumnTransformer([("used", "passthrough", labels)])
    return only_used.fit(columns.example())


class PooledAggregator(
    PooledDecisionsMixin,
    PooledSummariesMixin,
    KeepRepliesMixin,
    ReportMixin,
    BaseAggregator,
):
    """Fit the classifier that scikit-learn would fit to the rows of all nodes.

    Some classifiers depend on the rows only through sums by class, such as counts,
    means and covariances. Each node sends these sums in one message. The aggregate is
    made of their totals and predicts as the classifier fitted to all rows at one place.
    Labels are the same. Decision values or joint log-likelihoods are equal to 1e-8 of
    their size. The nodes need no classifiers of their own.

    Decision trees and forests are grown from histograms that the nodes send, with one
    message for each level of the trees. Totally random trees, which draw all splits
    from an agreed seed, need one message. Both are about as accurate as trees fitted to
    all rows at one place, but not equal to these.

    Parameters
    ----------
    estimators : list of classifiers, list of (name, classifier) tuples, or None
        What the nodes have. Each entry is None, a fitted classifier, or a summary or
        its path; or give a channel in place of the list. Classifiers only decide what
        `pooled=None` stands for, so that unfitted ones are not trained. One unfitted
        classifier stands for all nodes. With None in place of the list no node has a
        classifier, and `nodes` names the nodes.
    pooled : classifier or str, default=None
        The classifier to make, unfitted, or the name of its class: RidgeClassifier,
        LinearDiscriminantAnalysis, NearestCentroid (euclidean),
        QuadraticDiscriminantAnalysis, GaussianNB, MultinomialNB, ComplementNB,
        BernoulliNB or CategoricalNB. An unfitted DecisionTreeClassifier,
        RandomForestClassifier or ExtraTreesClassifier is grown from histograms; its
        `max_depth` must be from 1 to 16. An ExtraTreesClassifier with
        ``max_features=1`` and ``bootstrap=False`` is totally random. A
        HistGradientBoostingClassifier is grown too; its `max_depth` must be from 1 to
        6, with ``max_leaf_nodes=None`` and ``early_stopping=False``. If trees are
        named, set `max_depth` by ``set_params(pooled__max_depth=8)``. None makes the
        classifier that the nodes have, if theirs agree, and LinearDiscriminantAnalysis
        if the nodes have none. Set it if the classifiers of the nodes differ, or are
        not functions of sums.
    robust : int, default=0
        How many nodes may lie: at most so many are left out, those whose class sums
        contradict the others' most, as for :class:`~skgems.GEMSLogisticAggregator`. It
        needs more than twice as many nodes, and a classifier that is a function of
        sums. Choose 1 or more if the nodes do not know each other. With 0 all nodes are
        trusted.
    keep_replies : bool, default=False
        Whether to keep the replies of the nodes. Set it to True if nodes are to be
        added later by :meth:`update` or removed by :meth:`forget`. It cannot be True
        for trees that ask all nodes several times, which totally random trees do not.
    memory : str or object with the joblib.Memory interface, default=None
        Where to keep the sums. A search over smoothing parameters, which change no
        sum, then does not ask for them again. None keeps them in the process. Give a
        folder to use them in later processes too.
    disclosure : Disclosure, "auto" or None, default="auto"
        The rule for what nodes tell of their rows, as for
        :class:`~skgems.GEMSLogisticAggregator`.
    privacy : Privacy, default=None
        Noise on the sums of each node, as for :class:`GEMSLogisticAggregator`. `pooled`
        is then LinearDiscriminantAnalysis or RidgeClassifier, and None stands for the
        first.
    front : transformer, default=None
        Transformers that all nodes apply before the sums, as in
        :class:`GEMSLogisticAggregator`. The sums are of the transformed rows. For trees
        a PowerTransformer is added at the end, or is the front if this is None.
    n_jobs : int, default=None
        Number of nodes that are treated in parallel. Results do not depend on it.
    verbose : bool or int, default=0
        Whether to print progress.
    random_state : int, RandomState instance or None, default=None
        Source of the random numbers that deal rows to simulated nodes. It is also the
        source of the features and bins that trees draw, if the `random_state` of
        `pooled` is None. It is not used otherwise. For totally random trees the seed
        must be a whole number, since all nodes need it; None then stands for 0.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted classes of the rows of all nodes.
    estimators_ : list
        What the nodes have.
    node_names_ : list of str
        Names of the nodes.
    exact_ : bool
        Whether the labels are those of scikit-learn's own fit on all rows, and the
        decision values equal to 1e-8 of their size, for float64 rows. It is False if
        rounding may change these by more, or if a node has few rows of some classes
        and left these out. It is False for trees and forests.
    pooled_form_ : PooledForm
        What was made: its ``kind``, which is a name, its ``parameters``, and the
        ``reason`` if it is not exact.
    trust_ : dict of lists or None
        What was found of the nodes if `robust` is not 0, a table as in
        :class:`GEMSLogisticAggregator`.
    history_ : list of dict
        One dict for each message to the nodes. It has the "task", the "bytes_sent" to
        all nodes, the "bytes_received" from them and the "seconds" that it took.
        "left_out" has the nodes that failed twice, and "min_rows" the bound that each
        node replied under. "loss" is not used here, as nodes do not send it.
    front_ : transformer
        The fitted `front`, in plain scikit-learn. The result of :meth:`to_estimator`
        begins with it.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if X or the local estimators have them.
    features_used_ : list or None
        Names of the features that the aggregate uses, or their places if they have no
        names. They are all features but those that the nodes' classifiers, or the
        front, drop by name. None if nobody knows their number.

    See Also
    --------
    GEMSLogisticAggregator : The most likely linear model, close to that of all rows.
    merge_forests : One forest from forests that the nodes have fitted.

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

    A forest, grown from histograms of both nodes:

    >>> from sklearn.ensemble import RandomForestClassifier
    >>> forest = RandomForestClassifier(20, max_depth=3, random_state=0)
    >>> agg = PooledAggregator(pooled=forest).fit(X, y, nodes=nodes)
    >>> agg.score(X, y) > 0.9, agg.exact_
    (True, False)
    """

    _method_class = PooledMethod
    _noisy_method_class = NoisyPooledMethod
    _parts = {"privacy": Privacy}
    _parameter_constraints: dict = {
        **BaseAggregator._parameter_constraints,
        "pooled": [HasMethods(["fit", "predict"]), StrOptions(set(NAMES)), None],
        "robust": [Interval(Integral, 0, None, closed="left")],
    }

    def __init__(
        self,
        estimators=None,
        *,
        pooled=None,
        robust=0,
        keep_replies=False,
        memory=None,
        disclosure="auto",
        privacy=None,
        front=None,
        n_jobs=None,
        verbose=0,
        random_state=None,
    ):
        self.estimators = estimators
        self.pooled = pooled
        self.robust = robust
        self.keep_replies = keep_replies
        self.memory = memory
        self.disclosure = disclosure
        self.privacy = privacy
        self.front = front
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    @weights_if(lambda aggregator: aggregator._takes_weights)
    @federated_fit
    def fit(
        self,
        X=None,
        y=None,
        nodes=None,
        held_out=None,
        sample_weight=None,
        *,
        groups=None,
    ) -> "PooledAggregator":
        """Add up the sums that the nodes send, and make the classifier from them.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
            Rows of the nodes. Summaries and channels need none.
        y : array-like of shape (n_samples,), default=None
            Labels of the rows.
        nodes : array-like of shape (n_samples,), default=None
            Index or name of the node that owns each row. Rows of -1 or "public" are
            public rows, and count as the rows of one more node, the server. None means
            one node if the nodes have no classifiers; otherwise each row belongs to
            every node that has seen its label.
        held_out : array-like of shape (n_samples,), dtype bool, default=None
            Rows that are in no sum. None means that all rows are in the sums.
        sample_weight : array-like of shape (n_samples,), default=None
            How much each row counts in the sums: a row of weight 2 counts as two equal
            rows, and one of weight 0 as none (:ref:`weights`). With None each row
            counts once. Trees are grown from counts of rows, and take no weights.
        groups : array-like of shape (n_samples,), default=None
            Group of each row, for example the patient. With `privacy` a node keeps at
            most `rows_of_one` rows of each group. Rows of one group stay together if
            rows are dealt to simulated nodes. None means that each row stands alone.

        Returns
        -------
        self : PooledAggregator
            The fitted aggregator.

        Raises
        ------
        ValueError
            If the classifiers of the nodes differ and `pooled` is None, or if a
            classifier is neither a function of sums nor a tree or forest. Also if a
            tree has no `max_depth`, or a parameter without a meaning for trees that
            grow from histograms. Also if a node has no rows, or rows that the
            classifier does not take, or if the classifier cannot be made from all
            rows. The message names the node, the class or the parameter.

        Warns
        -----
        ClassesLeftOutWarning
            If a summary is made at a node that has only few rows of a class.
        NodesDisagreeWarning
            If the class means of a node contradict those of the others. This needs at
            least three nodes that share classes.
        ManyRowsWarning
            If one node has nearly all rows.
        """
        # What cannot be made is an error before anything is done.
        return fit_method(
            self, X, y, nodes, held_out, groups=groups, sample_weight=sample_weight
        )

    def to_estimator(self) -> ClassifierMixin:
        """Return the classifier itself, which needs only scikit-learn.

        Returns
        -------
        estimator : classifier
            A fitted classifier of the class of `pooled`, with all its fitted
            attributes. With a `front`, and for trees always, it is a pipeline of the
            fitted front and this classifier.
        """
        check_is_fitted(self)
        classifier = deepcopy(self._fitted)
        if getattr(self, "_used", None) is None:
            return self._exported(classifier)
        names = getattr(self, "feature_names_in_", None)
        return Pipeline(
            [("used", _only_used(self._used, names)), ("classifier", classifier)]
        )

    def _model_for_nodes(self) -> dict:
        content = content_of_classifier(self._fitted)
        if content is None:
            fields = super()._model_for_nodes()
        else:
            fields = {"model": {"labels": self.classes_.tolist(), **content}}
        if getattr(self, "_used", None) is not None:
            fields["model"] = of_all_columns(fields["model"], self._used)
        return fields

    def _default_estimator(self) -> None:
        return None

    def _long_form(self, name: str, value: object) -> object | None:
        if name == "pooled" and isinstance(value, str) and value in NAMES:
            return classifier_named(value)
        return super()._long_form(name, value)

    @property
    def _agreed_front(self) -> Front | None:
        return self._method().front_with_bins(super()._agreed_front)

    @property
    def _takes_weights(self) -> bool:
        try:
            return self._method().takes_weights
        except ValueError:  # asked for before fit says what is wrong
            return PooledMethod.takes_weights

    @property
    def _allows(self) -> Allows:
        try:
            return self._method().allows
        except ValueError:  # tags are asked for before fit says what is wrong
            return PooledMethod.allows
