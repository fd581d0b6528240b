"""GEMS for linear classifiers: one model in the intersection of good-enough spaces."""

from numbers import Integral, Real

import numpy as np
from scipy.sparse import sparray, spmatrix
from sklearn.utils.validation import check_is_fitted

from ..base import (
    BaseAggregator,
    LinearExportMixin,
    tuning_step,
)
from ..compat import Interval, StrOptions
from ..federation import (
    KeepRepliesMixin,
    ReportMixin,
    federated_fit,
    read_federation,
)
from ._further import Rounds
from ._linear_fit import LinearFit
from ._node_scores import ask_scores
from ._parameters import (
    Moments,
    Spaces,
)
from ._summarizing import LinearMethodMixin

_FROM_0 = Interval(Real, 0, None, closed="left")
_FROM_1 = Interval(Integral, 1, None, closed="left")
# Nodes that an error lists, of a federation that may have hundreds.
_MOST_LISTED = 5
Rows = np.ndarray | sparray | spmatrix  # (n_rows, n_features)


class GEMSLogisticAggregator(
    LinearMethodMixin,
    KeepRepliesMixin,
    ReportMixin,
    LinearExportMixin,
    BaseAggregator,
):
    """One linear classifier that is good enough for every node.

    Every node sends its model and sums of its rows by class: counts, means, second
    moments. The aggregate is the likeliest model for all these rows, nearly the one
    fitted on them at one place. Models around a node's own that still reach ``epsilon``
    on its rows are its *good-enough space*. With ``epsilon`` given the aggregate is the
    likeliest in the intersection of all spaces, or, with a proof that there is none,
    the point that misses it least. No local estimator is refitted or altered.

    Parameters
    ----------
    estimators : list of classifiers, list of (name, classifier) tuples, or None
        Fitted linear classifiers (any with ``coef_`` and ``intercept_``, skorch nets of
        one Linear layer; in pipelines of affine steps, FrozenEstimator or searches),
        one per node, whose classes may differ. Unfitted ones, or one, are trained on
        each node's rows (simulation). None: ``LogisticRegression()``. An entry may be
        None for a node that has rows but no fitted classifier; good-enough spaces
        cannot be built then.
    epsilon : "auto", float or array-like of shape (n_nodes,), default="auto"
        Level on a node's rows. "auto": half its own accuracy, or twice its log-loss.
    intersection : {"likelihood", "consensus", "deepest", "hinge"}, \
default="likelihood"
        Which point: the likeliest for the nodes' moments, the one that moves all nodes
        least, the deepest inside all spaces, or the first met from the average (GEMS
        2019, Eq. 2). With "likelihood" and ``epsilon="auto"`` no spaces are built.
    C : "members" or float, default="members"
        Inverse strength of the likeliest model's penalty, as of LogisticRegression: on
        features as they are, or of unit variance where nodes scale theirs in pipelines.
        "members": that of the nodes' classifiers, the median over all rows where they
        differ, 1.0 where none says (:ref:`member_penalties`). ``np.inf``: no penalty.
    class_weight : {"members", "balanced"}, dict or None, default="members"
        Weights of rows by class, as of ``LogisticRegression(class_weight)`` on the rows
        of all nodes; "members": those of the nodes' classifiers, where they agree.
        Probabilities are of weighted rows. For ``intersection="likelihood"``.
    n_rounds : int or Rounds, default=1
        Messages that the likeliest model is made of. 1: the moments alone. In each
        further one nodes send losses and gradients of four models, of which the best is
        kept: the loss on all rows, with the penalty, never rises, and its end is
        ``LogisticRegression(C)`` on all rows. :class:`~skgems.gems.Rounds` says more.
    spaces : Spaces or {"gram", "ellipsoid", "ball"}, default="gram"
        The spaces: a word for their shape, or more by :class:`~skgems.gems.Spaces`,
        with the criterion of what is good enough. Searched as ``spaces__on_empty``.
    moments : Moments or {"auto", "class", "shared", "diagonal"}, default="auto"
        What nodes send with ``intersection="likelihood"``: a word for the matrices, or
        more by :class:`~skgems.gems.Moments`. Searched as ``moments__n_components``.
    fit_intercept : "members" or bool, default="members"
        Whether the likeliest model has an intercept. "members": unless all nodes'
        classifiers that say have none.
    node_weight : {"auto", "equal", "n_samples"} or array-like of shape (n_nodes,), \
default="auto"
        Weight of each node. "auto": by its rows in the likelihood, else equal.
    fine_tuning : {"penalized", "plain"}, default="penalized"
        How public rows are used: as one more node of cross-validated weight (without
        likelihood: with such a penalty towards what nodes know); or 5 epochs of Adam.
    validation_fraction : float, default=0.2
        In simulation, share of each node's rows for its space, not for training.
    keep_replies : bool, default=False
        Whether :meth:`update` and :meth:`forget` can add and remove nodes, others not
        asked again: with ``intersection="likelihood"``, in the memory of messages.
    memory : str or object with the joblib.Memory interface, default=None
        Where to keep what does not depend on epsilon. None: in the process, within a
        quarter of ``working_memory``; a folder is shared, and keeps trained clones too.
    front : transformer, default=None
        Transformers before all, which all agree on: unfitted, they are fitted to what
        the nodes tell (:class:`~skgems.PooledTransformer`, which may be given, too; a
        fitted one stays as it is). Members are of what comes out of them. Where rows
        are documents, one text or dict each: a HashingVectorizer or FeatureHasher.
    n_jobs : int, default=None
        Nodes treated in parallel. Results do not depend on it.
    verbose : bool or int, default=0
        Whether to print progress.
    random_state : int, RandomState instance or None, default=None
        Source of the directions of spaces, of the dealing of rows in simulation and of
        clones' seeds. Clusters do not depend on it: the node's rows decide them.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted union of the classes the nodes know.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Weights of the aggregate; two classes have one output.
    estimators_ : list of classifiers
        The fitted local estimators.
    node_names_ : list of str
        Where there are more than 256 paths of summaries, groups of 256 become one node
        each, as by :meth:`merge_summaries`; not with `epsilon`, weights of nodes, or
        rows by `nodes`.
    geometry_ : Geometry
        What the geometry of `spaces` stands for.
    spaces_ : list of GoodEnoughSpace or None
        As of :meth:`good_enough_spaces`. None where they bound nothing.
    intersection_ : Intersection or None
        The point, whether it is in all spaces, and proof. None without spaces.
    likelihood_ : Likelihood or None
        With ``intersection="likelihood"``: what nodes sent, as a loss.
    C_ : float or None
        Inverse strength of the penalty that the aggregate has: what `C` stands for.
        None where it has none of that kind: as a function of sums (``pooled_form_``),
        or with another `intersection`.
    front_ : transformer
        The fitted `front`, plain scikit-learn; :meth:`to_estimator` begins with it.
    exact_ : bool
        Whether the aggregate is, but for rounding, scikit-learn's fit on all rows:
        where all members are one RidgeClassifier, LinearDiscriminantAnalysis or
        euclidean NearestCentroid of equal parameters. Labels are equal, and decision
        values to 1e-8 of their size on float64 rows, less what all classes share; for
        iterative solvers of ridge, the values that they converge to.
    pooled_form_ : PooledForm or None
        What it is as such; or the ``reason`` why not, naming parameter and nodes. With
        a ``kind``, too, it is made of sums, but scikit-learn's need not decide alike:
        scatters are ill-conditioned, or moments have fewer digits.
    history_ : list of dict
        One for each message to the nodes: its "task", the "bytes_sent" to all and
        "bytes_received" from them, "seconds", nodes "left_out" (that failed), "loss"
        (not used here), the bound "min_rows" under which each node replied, and of
        further messages, else None, of the model kept after it: the "objective",
        log-loss and penalty in nats a row of all nodes, and the "accuracy" on held-out
        rows (on all, if none are held out).
    candidates_ : Candidates or None
        With candidates of `Rounds`: the loss of each, and which was chosen.
    node_scores_ : dict of lists
        For each node: its epsilon, the criterion's score of its own model ("local";
        with the log-loss and ``spaces="gram"`` it counts classes never seen, too) and
        of the aggregate on its rows of classes that it knows ("n_rows" of them),
        radius, and the aggregate's distance. "on_own_scale" is the score that epsilon
        bounds: of the point of the intersection with the node's own factor on logits,
        among the classes of its space. "loss": log-loss of the likeliest model of one
        message on the node's moments, in nats a row. NaN where there is none.
    fine_tuning_ : FineTuned or None
        How public rows were used by the last fine-tuning with a penalty.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Number of features; their names, if X or the local estimators have them.

    See Also
    --------
    skgems.spaces.build_space : Build one space alone.
    skgems.spaces.intersect : Intersect spaces.
    PooledAggregator : The classifier that is a function of sums, whatever nodes have.

    Notes
    -----
    One node's rows dealt over several nodes, with the same classifier, change functions
    of sums (``exact_``) by rounding alone, but the likeliest model, of clusters drawn
    at each node (probabilities by 0.01 on average, at most 0.2), and points of spaces.

    References
    ----------
    N. Guha, V. Smith: Model Aggregation via Good-Enough Model Spaces, 2019.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.utils import shuffle
    >>> from skgems import GEMSLogisticAggregator
    >>> from skgems.datasets import partition_by_label
    >>> X, y = shuffle(*load_digits(return_X_y=True), random_state=0)
    >>> X = X / 16
    >>> train, val, test = slice(0, 1000), slice(1000, 1400), slice(1400, None)
    >>> nodes = partition_by_label(y[train], 5)
    >>> locals_ = [
    ...     LogisticRegression().fit(X[train][nodes == k], y[train][nodes == k])
    ...     for k in range(5)
    ... ]
    >>> agg = GEMSLogisticAggregator(locals_, random_state=0)
    >>> agg.fit(X[val], y[val]).score(X[test], y[test]) > 0.85
    True
    """

    _of_nodes = ("epsilon", "node_weight")
    _parts = {"n_rounds": Rounds, "spaces": Spaces, "moments": Moments}
    _parameter_constraints: dict = {
        **BaseAggregator._parameter_constraints,
        "epsilon": [StrOptions({"auto"}), "array-like", _FROM_0],
        "intersection": [StrOptions({"likelihood", "consensus", "deepest", "hinge"})],
        "C": [StrOptions({"members"}), Interval(Real, 0, None, closed="right")],
        "class_weight": [StrOptions({"members", "balanced"}), dict, None],
        "fit_intercept": [StrOptions({"members"}), "boolean"],
        "node_weight": [StrOptions({"auto", "equal", "n_samples"}), "array-like"],
        "fine_tuning": [StrOptions({"penalized", "plain"})],
    }

    def __init__(
        self,
        estimators=None,
        *,
        epsilon="auto",
        intersection="likelihood",
        C="members",
        class_weight="members",
        n_rounds=1,
        spaces="gram",
        moments="auto",
        fit_intercept="members",
        node_weight="auto",
        fine_tuning="penalized",
        validation_fraction=0.2,
        keep_replies=False,
        memory=None,
        front=None,
        n_jobs=None,
        verbose=0,
        random_state=None,
    ):
        self.estimators = estimators
        self.epsilon = epsilon
        self.intersection = intersection
        self.C = C
        self.class_weight = class_weight
        self.n_rounds = n_rounds
        self.spaces = spaces
        self.moments = moments
        self.fit_intercept = fit_intercept
        self.node_weight = node_weight
        self.fine_tuning = fine_tuning
        self.validation_fraction = validation_fraction
        self.keep_replies = keep_replies
        self.memory = memory
        self.front = front
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    @federated_fit
    def fit(
        self, X=None, y=None, nodes=None, held_out=None
    ) -> "GEMSLogisticAggregator":
        """Merge the nodes' models, by the statistics of their rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
            Rows that judge models, best such as nodes did not fit on; in simulation
            also those that they fit on. Summaries need none.
        y : array-like of shape (n_samples,), default=None
            Labels.
        nodes : array-like of shape (n_samples,), default=None
            Index or name of the node that owns each row; -1 or "public" for public
            rows, which fine-tune the aggregate. Rows given for a node that is
            represented by a summary are used only to score the aggregate. None: each
            row belongs to every node that has seen its label and is no summary; rows
            that belong to no node calibrate probabilities, unless moments do.
        held_out : array-like of shape (n_samples,), dtype bool, default=None
            Rows that only judge and calibrate; others make moments. None: all do both.

        Returns
        -------
        self : GEMSLogisticAggregator

        Raises
        ------
        ValueError
            If a local model misses its epsilon, a node has no rows, no node knows a
            label, or input is not usable; the message names the node.

        Warns
        -----
        ClassWeightWarning, HeavyTailsWarning, VariancesOnlyWarning
            Where sums do not hold what the pooled model would be made of.
        PenaltyWarning, InterceptWarning
            If the nodes' classifiers differ in what the aggregate takes over of them.
        NodesDisagreeWarning
            If moments of some nodes show another rule than those of the rest.
        ManyRowsWarning
            If a node has nearly all rows.
        SameRowsWarning
            If two nodes sent equal moments.
        EmptyIntersectionWarning
            If epsilon is given and no model is good enough for all nodes.
        """
        federation = read_federation(self._in_groups(nodes), X, y, nodes, held_out)
        LinearFit.of(self).check(federation)
        return self._fit_read(federation)

    def good_enough_spaces(self, X=None, y=None, nodes=None, held_out=None) -> list:
        """Build the nodes' spaces, also where they bound nothing; nothing is changed.

        Parameters
        ----------
        X, y, nodes, held_out : array-like, default=None
            As of :meth:`fit`. Summaries that were made with ``space=True`` need none.

        Returns
        -------
        spaces : list of GoodEnoughSpace
            One per node of ``node_names_``, of the level `epsilon`, outputs as
            ``classes_``; with ``intersection="likelihood"`` scaled as the aggregate.

        Raises
        ------
        NotFittedError
            If `fit` was not called.
        ValueError
            If a node has no rows and sent no space, or misses `epsilon`; it is named.
        """
        check_is_fitted(self)
        members = list(zip(self.node_names_, self.estimators_, strict=True))
        federation = read_federation(self._with_members(members), X, y, nodes, held_out)
        linear_fit = LinearFit.of(self)
        linear_fit.check_has_spaces(federation)
        problem = linear_fit.problem(federation, self.classes_)
        stage = linear_fit.stage(problem, federation=federation)
        plan = stage.spaces_around_plan(self._factor * self._weights(), problem)
        return self._run(federation)(plan)

    def ask_scores(self) -> "GEMSLogisticAggregator":
        """Ask nodes behind a channel, once more, how good the aggregate is there.

        Returns
        -------
        self : GEMSLogisticAggregator
            With ``node_scores_`` as of a fit on rows; NaN and a warning for nodes that
            do not reply. One more entry of ``history_``.

        Raises
        ------
        NotFittedError
            If `fit` was not called.
        ValueError
            If it was not fitted over a channel, or was tuned since.
        """
        check_is_fitted(self)
        ask_scores(self, self.estimators)
        return self

    @tuning_step
    def fine_tune(self, X, y) -> "GEMSLogisticAggregator":
        """Fine-tune the fitted aggregate on public rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Public rows.
        y : array-like of shape (n_samples,)
            Their labels, all of ``classes_``.

        Returns
        -------
        self : GEMSLogisticAggregator
            With new ``coef_`` and ``intercept_``; ``node_scores_`` stay those of `fit`.
        """
        vars(self).update(LinearFit.of(self).tuned_attributes(self, X, y))
        return self
