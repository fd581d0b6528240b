"""GEMS for linear classifiers: one model in the intersection of good-enough spaces."""

from copy import copy
from dataclasses import replace
from functools import partial
from numbers import Integral, Real

import numpy as np
from scipy.sparse import issparse
from sklearn.linear_model import LogisticRegression
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ..base import BaseAggregator, is_channel, linear_attributes, warn_user
from ..compat import HasMethods, Interval, StrOptions, fit_context
from ..federation import (
    Federation,
    KeepRepliesMixin,
    Kept,
    ReportMixin,
    Run,
    Simulation,
    Summary,
    begins_again,
    raise_without_classifier,
    read_federation,
    warn_of_many_rows,
    warn_of_tails,
)
from ..moments import about_origin
from ..networks import Layers, linear_logits, to_logistic_regression
from ..progress import say, shown
from ..spaces import (
    CONSTRUCTIONS,
    GEOMETRIES,
    Construction,
    Criterion,
    EmptyIntersectionError,
    EmptyIntersectionWarning,
    Geometry,
    as_construction,
    as_criterion,
    as_geometry,
    combine_metrics,
)
from ..tuning import (
    FineTuned,
    fine_tune_linear,
    fit_inverse_temperature,
    train_plainly,
    tune_likelihood,
)
from ._further import OF_MODELS, Rounds, as_rounds, with_further
from ._likelihood import LikelihoodStage, node_losses, warn_of_same_rows
from ._regions import in_groups, many_paths
from ._stage import Asked, LinearMerge, LinearNode, LinearStage
from ._summarizing import LinearSummariesMixin

_FROM_0 = Interval(Real, 0, None, closed="left")
_FROM_1 = Interval(Integral, 1, None, closed="left")


class GEMSLogisticAggregator(
    LinearSummariesMixin, KeepRepliesMixin, ReportMixin, BaseAggregator
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
        each node's rows (simulation). None: ``LogisticRegression()``. None in the list:
        a node of rows alone, where no spaces are needed.
    geometry : Geometry or {"gram", "ellipsoid", "ball"}, default="gram"
        Shape of the spaces: second moments of a node's rows (`Gram`), diagonal Fisher
        information (`Ellipsoid`), or round (`Ball`). Searched as ``geometry__ridge``.
    construction : Construction or {"sampled", "certified"}, default="sampled"
        Whether models of a space reached epsilon in a sample of directions (GEMS 2019,
        Algorithm 2), or provably all do (these spaces are small).
    criterion : Criterion or {"accuracy", "log_loss"}, default="accuracy"
        "Good enough" is accuracy of at least epsilon, or mean log-loss of at most.
    epsilon : "auto", float or array-like of shape (n_nodes,), default="auto"
        Level on a node's rows. "auto": half its own accuracy, or twice its log-loss.
    intersection : {"likelihood", "consensus", "deepest", "hinge"}, \
default="likelihood"
        Which point: the likeliest for the nodes' moments, the one that moves all nodes
        least, the deepest inside all spaces, or the first met from the average (GEMS
        2019, Eq. 2). With "likelihood" and ``epsilon="auto"`` no spaces are built.
    moments : {"auto", "class", "shared", "diagonal"}, default="auto"
        What nodes send with ``intersection="likelihood"``: a matrix of second moments
        by class (C d^2 / 2 numbers of C classes and d features), one for all classes
        and variances by class (d^2 / 2 + C d), or these alone (C d). "auto": the first
        of at most 8 million numbers a node; n < d rows send what they are products of.
    n_components : int, default=16
        Most clusters, each of 10 rows or more, whose means stand for a class.
    min_cluster_size : int, default=1
        Fewest rows of a cluster or class whose count and mean are sent. Those of a
        smaller class only add to the second moments of all classes, or of all such
        classes. See `min_rows` of :meth:`summarize`, too.
    C : "members" or float, default="members"
        Inverse strength of the likeliest model's penalty, as of LogisticRegression: on
        features as they are, or of unit variance where nodes scale theirs in pipelines.
        "members": that of the nodes' classifiers, the median over all rows where they
        differ, 1.0 where none says (:ref:`member_penalties`). ``np.inf``: no penalty.
    fit_intercept : "members" or bool, default="members"
        Whether the likeliest model has an intercept. "members": unless all nodes'
        classifiers that say have none.
    class_weight : {"members", "balanced"}, dict or None, default="members"
        Weights of rows by class, as of ``LogisticRegression(class_weight)`` on the rows
        of all nodes; "members": those of the nodes' classifiers, where they agree.
        Probabilities are of weighted rows. For ``intersection="likelihood"``.
    n_rounds : int or Rounds, default=1
        Messages that the likeliest model is made of. 1: the moments alone. In each
        further one nodes send losses and gradients of four models, of which the best is
        kept: the loss on all rows, with the penalty, never rises, and its end is
        ``LogisticRegression(C)`` on all rows. :class:`~skgems.gems.Rounds` says more.
    node_weight : {"auto", "equal", "n_samples"} or array-like of shape (n_nodes,), \
default="auto"
        Weight of each node. "auto": by its rows in the likelihood, else equal.
    on_empty : {"warn", "raise", "ignore"}, default="warn"
        What to do if the spaces do not intersect.
    scale_logits : "auto" or bool, default="auto"
        Whether each node's logits are centred over classes and divided by their root
        mean square on its rows, so that no node wins by regularising less. "auto": with
        ``geometry="gram"``, and where sizes of nodes' logits differ over threefold.
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
        Of more than 256 paths of summaries groups of 256 become one node each, as by
        :meth:`merge_summaries`, but with `epsilon`, weights of nodes, rows by `nodes`.
    geometry_ : Geometry
        What `geometry` stands for.
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
        values to 1e-8 of their size on float64 rows, less what all classes share; of
        iterative solvers of ridge those that they go towards.
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
        with the log-loss and ``geometry="gram"`` it counts classes never seen, too) and
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

    _asks_nodes = True
    _of_nodes = ("epsilon", "node_weight")
    _parameter_constraints: dict = {
        **BaseAggregator._parameter_constraints,
        "geometry": [StrOptions(set(GEOMETRIES)), Geometry],
        "construction": [StrOptions(set(CONSTRUCTIONS)), Construction],
        "criterion": [StrOptions({"accuracy", "log_loss"}), Criterion],
        "epsilon": [StrOptions({"auto"}), "array-like", _FROM_0],
        "intersection": [StrOptions({"likelihood", "consensus", "deepest", "hinge"})],
        "moments": [StrOptions({"auto", "class", "shared", "diagonal"})],
        **dict.fromkeys(("n_components", "min_cluster_size"), [_FROM_1]),
        "C": [StrOptions({"members"}), Interval(Real, 0, None, closed="right")],
        "fit_intercept": [StrOptions({"members"}), "boolean"],
        "class_weight": [StrOptions({"members", "balanced"}), dict, None],
        "n_rounds": [_FROM_1, Rounds],
        "node_weight": [StrOptions({"auto", "equal", "n_samples"}), "array-like"],
        "on_empty": [StrOptions({"warn", "raise", "ignore"})],
        "scale_logits": [StrOptions({"auto"}), "boolean"],
        "fine_tuning": [StrOptions({"penalized", "plain"})],
        "validation_fraction": [Interval(Real, 0, 1, closed="left")],
        "keep_replies": ["boolean"],
        "memory": [None, str, HasMethods(["cache"])],
    }

    def __init__(
        self,
        estimators=None,
        *,
        geometry="gram",
        construction="sampled",
        criterion="accuracy",
        epsilon="auto",
        intersection="likelihood",
        moments="auto",
        n_components=16,
        min_cluster_size=1,
        C="members",
        fit_intercept="members",
        class_weight="members",
        n_rounds=1,
        node_weight="auto",
        on_empty="warn",
        scale_logits="auto",
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
        self.geometry = geometry
        self.construction = construction
        self.criterion = criterion
        self.epsilon = epsilon
        self.intersection = intersection
        self.moments = moments
        self.n_components = n_components
        self.min_cluster_size = min_cluster_size
        self.C = C
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.n_rounds = n_rounds
        self.node_weight = node_weight
        self.on_empty = on_empty
        self.scale_logits = scale_logits
        self.fine_tuning = fine_tuning
        self.validation_fraction = validation_fraction
        self.keep_replies = keep_replies
        self.memory = memory
        self.front = front
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=False)
    @begins_again
    def fit(
        self, X=None, y=None, nodes=None, held_out=None
    ) -> "GEMSLogisticAggregator":
        """Merge the nodes' models, by what their rows come to.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
            Rows that judge models, best such as nodes did not fit on; in simulation
            also those that they fit on. Summaries need none.
        y : array-like of shape (n_samples,), default=None
            Labels.
        nodes : array-like of shape (n_samples,), default=None
            Index or name of the node that owns each row; -1 or "public" for public
            rows, which fine-tune the aggregate. Rows of a summary's node only score it.
            None: each is of all nodes, but summaries, that have seen its label; rows
            left over calibrate probabilities, unless moments do.
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
        simulated, given = Simulation.of(self), self
        if many_paths(self, nodes):
            given = copy(self).set_params(estimators=in_groups(self, self.estimators))
        federation = read_federation(given, X, y, nodes, held_out, simulation=simulated)
        if federation.rows_are_shared and as_geometry(self.geometry).needs_moments:
            warn_user(
                "nodes is not given and nodes share classes, so they share rows: "
                f"geometry={self.geometry!r} cannot tell their rows apart and comes "
                "close to the mean. Give fit the node of each row: fit(X, y, "
                "nodes=nodes)."
            )
        if self._needs_spaces:
            self._check_has_spaces(federation)
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
        self._check_has_spaces(federation)
        asked = self._asked(federation, self.classes_)
        stage = self._stage(asked, federation=federation)
        plan = stage.spaces_around_plan(self._factor * self._weights(), asked)
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
        self._ask_scores(self.estimators)
        return self

    def _ask_scores(self, channel) -> dict:
        requests = self._score_requests
        if requests is None or not is_channel(channel):
            what = "Scores are asked of nodes behind a channel of the fit, once"
            raise ValueError(f"{what}; a fit on rows has them in node_scores_.")
        front = None if self._front is None else self._front.as_content()
        run = Run(channel, reports=True, front=front)
        reports = [reply.content for _, reply in run.ask(requests)]
        beside = "local" if self.spaces_ is None else "on_own_scale"
        has_model = [
            not isinstance(sent, Summary) or sent.network.has_classifier
            for sent in self.estimators_
        ]
        self.node_scores_ = {
            **self.node_scores_,
            "n_rows": [report["n_rows"] for report in reports],
            "aggregate": [float(report["score"]) for report in reports],
            beside: [
                float(report["beside"]) if has_own else np.nan
                for report, has_own in zip(reports, has_model, strict=True)
            ],
        }
        self.history_ = [*self.history_, *with_further(run.history, None)]
        return self.node_scores_

    @fit_context(prefer_skip_nested_validation=False)
    @shown
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
        X, y = self._validated_public_rows(X, y)
        start = self._factor * self._weights()
        W, self.fine_tuning_ = self._tuned(start, self._merge, X, y)
        new = {"_factor": 1.0, "exact_": False, "_score_requests": None}
        vars(self).update(linear_attributes(W), **new)
        return self

    def to_estimator(self) -> LogisticRegression:
        """The aggregate as a plain fitted ``LogisticRegression``.

        Returns
        -------
        estimator : LogisticRegression
            Predicts the same labels and probabilities, in the dtype of nodes' models.
            Its ``C`` is ``C_``, where the aggregate has such a penalty.
        """
        check_is_fitted(self)
        both = self.coef_, self.intercept_
        parts = [(self._factor * own).astype(self._dtype) for own in both]
        classifier = to_logistic_regression(*parts, self.classes_)
        if self.C_ is not None:
            classifier.set_params(C=self.C_)
        return self._exported(classifier)

    def _check_has_spaces(self, federation: Federation) -> None:
        for node in federation.nodes:
            if not node.network.has_classifier:
                raise_without_classifier(self, node.name)
        silent = [
            node.name
            for node in federation.nodes
            if isinstance(node.record, Summary)
            and "space" not in {request.task for request in node.record.requests}
        ]
        if silent and federation.joined is None:
            why = f"epsilon={self.epsilon!r}, intersection={self.intersection!r}"
            what = "no good-enough spaces, which are asked for"
            more = f"({why}). Summarize again there with space=True"
            raise ValueError(f"The summaries of nodes {silent[:5]} have {what} {more}.")

    @property
    def _rounds(self) -> Rounds:
        return as_rounds(self.n_rounds)

    @property
    def _needs_spaces(self) -> bool:
        return self.intersection != "likelihood" or not isinstance(self.epsilon, str)

    @property
    def _takes_rows_alone(self) -> bool:
        return not (self._needs_spaces or OF_MODELS & {*self._rounds.candidates})

    def _fit_federation(self, federation, run, public, kept, *, features=None) -> None:
        asked = self._asked(federation, federation.classes)
        stage = self._stage(asked, kept, federation)
        merge = run(stage.plan(asked))
        form, likelihood = merge.form, merge.likelihood
        if form is not None and len(asked.classes) > 1 and not form.is_exact:
            warn_of_tails(run.members, n_messages=self._rounds.n)
        X, y = public
        public = X, np.searchsorted(asked.classes, y)
        _, outcome = self._outcome(stage, merge, asked, run, public)
        if likelihood is not None and not federation.rows_are_shared:
            warn_of_same_rows(likelihood, federation.names)
        self._warn_of_many_rows(federation)
        attributes = federation.attributes() | (features or {}) | outcome
        history = with_further(run.history, merge.further)
        self._publish(**attributes, history_=history, _kept=kept)

    def _long_form(self, name, value):
        if name == "geometry" and isinstance(value, str) and value in GEOMETRIES:
            return as_geometry(value)
        if name == "construction" and value in list(CONSTRUCTIONS):
            return as_construction(value)
        if name == "n_rounds" and isinstance(value, Integral):
            return Rounds(value)
        return super()._long_form(name, value)

    def _asks_again(self, federation: Federation) -> str:
        if self._needs_spaces:
            self._check_has_spaces(federation)
        if self.intersection != "likelihood":
            return f"intersection={self.intersection!r} asks nodes about the aggregate"
        if self._rounds.n > 1:
            return f"n_rounds={self.n_rounds!r} asks nodes about the aggregate"
        return ""

    def _check_epsilon(self, n_nodes: int) -> list:
        if isinstance(self.epsilon, str):
            return ["auto"] * n_nodes
        epsilons = _as_numbers(self.epsilon, "epsilon")
        if epsilons.shape not in ((), (n_nodes,)):
            what = f"epsilon has shape {epsilons.shape}, but there are {n_nodes} nodes"
            raise ValueError(f"{what}; give one number, or one per node.")
        upper = as_criterion(self.criterion).largest
        if not np.all((epsilons >= 0) & (epsilons <= upper)):
            most = f"{upper:g} with criterion={self.criterion!r}"
            given = self.epsilon
            raise ValueError(f"epsilon must be between 0 and {most}, got {given!r}.")
        return np.broadcast_to(epsilons, n_nodes).tolist()

    def _warn_of_many_rows(self, federation: Federation) -> None:
        if not isinstance(self.node_weight, str) or federation.rows_are_shared:
            return
        likely = self.intersection == "likelihood"
        if self.node_weight == "n_samples" or (self.node_weight == "auto" and likely):
            warn_of_many_rows(federation.names, federation.rows_in_moments)

    def _check_node_weight(self, nodes: list[LinearNode]):
        weights, n_nodes = self.node_weight, len(nodes)
        if isinstance(weights, str):
            own = "n_samples" if self.intersection == "likelihood" else "equal"
            if weights in ("auto", own):
                return None
            weights = [1 if weights == "equal" else node.n_rows for node in nodes]
        weights = _as_numbers(weights, "node_weight")
        usable = np.isfinite(weights) & (weights > 0)
        if weights.shape != (n_nodes,) or not usable.all():
            what = f"one finite positive number per node ({n_nodes})"
            raise ValueError(f"node_weight must hold {what}, got {self.node_weight!r}.")
        return weights / weights.mean()

    def _asked(self, federation: Federation, classes: np.ndarray) -> Asked:
        for node in federation.nodes:
            if not node.network.is_linear:
                own = f"a network with {node.network.n_hidden_layers} hidden layers"
                what = "GEMSLogisticAggregator merges linear models only"
                raise TypeError(f"node {node.name!r} is {own}; {what}.")
        return Asked.of(federation, classes)

    def _seed(self) -> int | None:
        """One for all nodes, whose order must not matter; None: any will do."""
        given = self.random_state
        return None if given is None else check_random_state(given).randint(2**31 - 1)

    def _stage(self, asked: Asked, kept: Kept | None = None, federation=None):
        seed = self._seed() if kept is None else kept.seed
        likely, nodes = self.intersection == "likelihood", asked.nodes
        by_likelihood = {"rounds": self._rounds, "seed": seed}
        by_likelihood |= {"C": self.C, "fit_intercept": self.fit_intercept}
        by_likelihood["asked_moments"] = self._asked_moments()
        if self._rounds.n > 1 and not likely:
            raise ValueError(
                f"n_rounds={self.n_rounds!r} is for intersection='likelihood': spaces "
                f"are met in one message, but intersection={self.intersection!r}."
            )
        common = {
            "geometry": as_geometry(self.geometry),
            "criterion": as_criterion(self.criterion),
            "construction": as_construction(self.construction),
            "asked_space": self._asked_space(seed),
            "epsilons": self._check_epsilon(len(nodes)),
            "intersection": self.intersection,
            "node_weight": self._check_node_weight(nodes),
            "scale_logits": self.scale_logits,
        }
        if likely:
            return LikelihoodStage(**common, **by_likelihood)
        if federation is not None:
            first = federation.nodes[0]
            common["one_summary"] = len(nodes) == 1 and first.record is not None
            reader = LikelihoodStage(**common | {"node_weight": None}, **by_likelihood)
            common["calibrate"] = partial(_calibration_plan, federation, reader)
        return LinearStage(**common)

    def _outcome(self, stage, merge, asked, run, public=()) -> tuple[np.ndarray, dict]:
        """Tune by public rows, and score: calibrated weights, and attributes."""
        self._report_found(stage, merge, asked)
        W, tuned, factor = merge.W, None, merge.factor
        if public and len(public[1]):
            W, tuned = self._tuned(factor * W, merge, *public)
            factor = 1.0
        requests = stage.score_requests(factor * W, merge, asked)
        reports = [reply.content for _, reply in run.ask(requests)]
        own = [
            float(report["beside"]) if node.has_model else np.nan
            for node, report in zip(asked.nodes, reports, strict=True)
        ]
        losses = unknown = [np.nan] * len(reports)
        if merge.likelihood is not None:
            judged = merge.judged if tuned is None else factor * W
            losses = node_losses(merge.likelihood, judged, asked)
        spaces = merge.spaces or []
        point = merge.intersection.point if spaces else None
        scores = {
            "node": asked.names,
            "n_rows": [report["n_rows"] for report in reports],
            "epsilon": [space.epsilon for space in spaces] or unknown,
            "local": [p.score for p in merge.profiles] if spaces else own,
            "aggregate": [float(report["score"]) for report in reports],
            "loss": losses,
            "on_own_scale": own if spaces else unknown,
            "radius": [space.radius for space in spaces] or unknown,
            "distance": [float(space.distance(point)) for space in spaces] or unknown,
        }
        form, further = merge.form, merge.further
        return factor * W, {
            **linear_attributes(W),
            "_factor": factor,
            "_merge": merge,
            "geometry_": stage.geometry,
            "spaces_": merge.spaces,
            "intersection_": merge.intersection,
            "likelihood_": merge.likelihood,
            "C_": merge.C,
            "exact_": bool(form is not None and form.is_exact and not tuned),
            "pooled_form_": form,
            "candidates_": further.candidates if further is not None else None,
            "fine_tuning_": tuned,
            "node_scores_": scores,
            # Of nodes that were not asked, what they can be asked later.
            "_score_requests": None if run.reports else requests,
        }

    def _report_found(self, stage: LinearStage, merge: LinearMerge, asked) -> None:
        """Log that a model in all spaces was found, or say why there is none."""
        found = merge.intersection
        if found is not None and found.found:
            if not all(node.known.all() for node in asked.nodes):
                little = f"; geometry={self.geometry!r} says nothing of unseen classes"
                little += ", so among nodes of different classes that means little"
                silent = merge.profiles[0].outputs is not None
                say("a model in all spaces was found" + little * silent)
            return
        if found is None or self.on_empty == "ignore":
            return
        words = stage.words_of_empty(merge, asked.names)
        if self.on_empty == "raise":
            raise EmptyIntersectionError(words)
        words += " The model that misses the spaces least is used."
        warn_user(words, EmptyIntersectionWarning)

    def _weights(self) -> np.ndarray:
        """One column per class, the intercepts in the last row."""
        W = np.vstack([self.coef_.T, self.intercept_])
        return W * [-0.5, 0.5] if len(self.classes_) == 2 else W

    def _logits(self, X) -> np.ndarray:
        return linear_logits(X, self._weights())

    def _tuned(self, W, merge, X, y) -> tuple[np.ndarray, FineTuned | None]:
        """Weights after fine-tuning on public rows; changes nothing here."""
        rng = check_random_state(self.random_state)
        if self.fine_tuning == "plain":
            return train_plainly(X, y, Layers.of([W]), rng).layers.last, None
        options = {"random_state": rng}
        if merge.likelihood is not None:
            result = tune_likelihood(merge.likelihood, X, y, W, **options)
            return result.W, result
        weights = merge.intersection.weights
        if not (self.intersection == "consensus" and merge.intersection.found):
            # These weigh squared distances that are divided by the radius.
            weights = weights / np.array([space.radius for space in merge.spaces]) ** 2
            weights = weights / weights.sum()
        combined = combine_metrics([space.metric for space in merge.spaces], weights)
        # About the nodes' mean, so that zeros do not matter; sparse rows stay.
        mean, diagonal = np.zeros(X.shape[1]), combined.diagonal()
        if combined.family == "gram" and not issparse(X):
            mean, diagonal = combined.centred()
        precision = diagonal.mean(axis=1)
        # Something for features that no node shows: their variance on the public rows.
        free = np.flatnonzero(precision <= 0)
        own = X[:, free].toarray() if issparse(X) else X[:, free]
        variances = np.var(own, axis=0, dtype=np.float64)
        precision[free] = np.where(variances > 0, variances, 1.0)
        rows = X - mean.astype(X.dtype) if mean.any() else X
        result = fine_tune_linear(rows, y, about_origin(W, mean), precision, **options)
        say(f"fine-tuning: strength {result.strength:.3g}")
        result = replace(result, W=about_origin(result.W, -mean))
        return result.W, result


def _calibration_plan(federation: Federation, reader: LikelihoodStage, W, asked):
    """A factor on logits where no node has rows to judge them by."""
    X, y = federation.labelled(federation.spare_rows)
    if len(y):
        logits = linear_logits(X, W).astype(np.float64)
        return fit_inverse_temperature(logits, np.searchsorted(asked.classes, y))
    likelihood, _ = yield from reader.likelihood_plan(asked)
    return likelihood.inverse_temperature(likelihood.from_rows(W))


def _as_numbers(values, name: str) -> np.ndarray:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        what = f"{name} must hold a number, or one per node"
        raise ValueError(f"{what}, got {values!r}.") from None
