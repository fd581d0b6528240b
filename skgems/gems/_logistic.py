"""GEMS for linear classifiers: one model in the intersection of good-enough spaces."""

from collections.abc import Generator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse, sparray, spmatrix
from sklearn.linear_model import LogisticRegression
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ..base import BaseAggregator, is_channel, linear_attributes, warn_user
from ..compat import HasMethods, Interval, StrOptions, fit_context
from ..federation import (
    Federation,
    KeepRepliesMixin,
    KeptReplies,
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
from ..moments import about_origin, fit_inverse_temperature
from ..networks import Layers, as_two_logits, linear_logits, to_logistic_regression
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
    train_plainly,
    tune_likelihood,
)
from ._further import OF_MODELS, Rounds, as_rounds, with_objectives
from ._likelihood import LikelihoodStage, node_losses, warn_of_same_rows
from ._problem import LinearNode, LinearProblem
from ._regions import in_groups, many_paths
from ._stage import LinearMerge, LinearStage
from ._summarizing import LinearSummariesMixin

_FROM_0 = Interval(Real, 0, None, closed="left")
_FROM_1 = Interval(Integral, 1, None, closed="left")
# Nodes that an error lists, of a federation that may have hundreds.
_MOST_LISTED = 5
Rows = np.ndarray | sparray | spmatrix  # (n_rows, n_features)


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
        each node's rows (simulation). None: ``LogisticRegression()``. An entry may be
        None for a node that has rows but no fitted classifier; good-enough spaces
        cannot be built then.
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
        Where there are more than 256 paths of summaries, groups of 256 become one node
        each, as by :meth:`merge_summaries`; not with `epsilon`, weights of nodes, or
        rows by `nodes`.
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
        aggregator = self
        if many_paths(self, nodes):
            groups = in_groups(self, self.estimators)
            aggregator = copy(self).set_params(estimators=groups)
        federation = read_federation(
            aggregator, X, y, nodes, held_out, simulation=Simulation.of(self)
        )
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
        problem = self._problem(federation, self.classes_)
        stage = self._stage(problem, federation=federation)
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
        self._ask_scores(self.estimators)
        return self

    def _ask_scores(self, channel: Any) -> dict[str, list]:
        """Ask all nodes for their lines in ``node_scores_``, and set these."""
        requests = self._score_requests
        if requests is None or not is_channel(channel):
            raise ValueError(
                "Nodes are asked for scores only after a fit over a channel, and "
                "before fine-tuning. A fit on rows has the scores in node_scores_."
            )
        front = None if self._front is None else self._front.as_content()
        run = Run(channel, reports=True, front=front)
        reports = [reply.content for _, reply in run.ask(requests)]
        has_model = [
            not isinstance(estimator, Summary) or estimator.network.has_classifier
            for estimator in self.estimators_
        ]
        # The model beside the aggregate is the node's own, or the one that epsilon
        # bounds.
        compared = "local" if self.spaces_ is None else "on_own_scale"
        self.node_scores_ = {
            **self.node_scores_,
            "n_rows": [report["n_rows"] for report in reports],
            "aggregate": [float(report["score"]) for report in reports],
            compared: _compared_scores(reports, has_model),
        }
        self.history_ = [*self.history_, *with_objectives(run.history, None)]
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
        W, self.fine_tuning_ = self._tuned(start, merge=self._merge, X=X, y=y)
        vars(self).update(
            linear_attributes(W), _factor=1.0, exact_=False, _score_requests=None
        )
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
        classifier = to_logistic_regression(
            (self._factor * self.coef_).astype(self._dtype),
            (self._factor * self.intercept_).astype(self._dtype),
            self.classes_,
        )
        if self.C_ is not None:
            classifier.set_params(C=self.C_)
        return self._exported(classifier)

    def _check_has_spaces(self, federation: Federation) -> None:
        """Raise for nodes that have no classifier, or sent no space."""
        for node in federation.nodes:
            if not node.network.has_classifier:
                raise_without_classifier(self, node.name)
        without_space = [
            node.name
            for node in federation.nodes
            if isinstance(node.record, Summary)
            and "space" not in {request.task for request in node.record.requests}
        ]
        if without_space and federation.joined is None:
            raise ValueError(
                f"The summaries of nodes {without_space[:_MOST_LISTED]} have no "
                "good-enough spaces, which are asked for by "
                f"epsilon={self.epsilon!r}, intersection={self.intersection!r}. "
                "Summarize again there with space=True."
            )

    @property
    def _rounds(self) -> Rounds:
        return as_rounds(self.n_rounds)

    @property
    def _needs_spaces(self) -> bool:
        return self.intersection != "likelihood" or not isinstance(self.epsilon, str)

    @property
    def _takes_rows_alone(self) -> bool:
        return not (self._needs_spaces or OF_MODELS & {*self._rounds.candidates})

    def _fit_federation(
        self,
        federation: Federation,
        run: Run,
        public: tuple,
        kept: KeptReplies | None,
        *,
        features: Mapping | None = None,
    ) -> None:
        """The fit as the server sees it: ask, merge, score, publish.

        ``public`` are public rows and their labels; ``features`` replace what the
        federation says of the features of rows.
        """
        problem = self._problem(federation, federation.classes)
        stage = self._stage(problem, kept, federation)
        merge = run(stage.plan(problem))
        is_of_sums = merge.form is not None and merge.form.is_exact
        if merge.form is not None and len(problem.classes) > 1 and not is_of_sums:
            warn_of_tails(run.members, n_messages=self._rounds.n)
        X, y = public
        _, attributes = self._outcome(
            stage=stage,
            merge=merge,
            problem=problem,
            run=run,
            public=(X, np.searchsorted(problem.classes, y)),
        )
        if merge.likelihood is not None and not federation.rows_are_shared:
            warn_of_same_rows(merge.likelihood, federation.names)
        self._warn_of_many_rows(federation)
        self._publish(
            **{**federation.attributes(), **(features or {}), **attributes},
            history_=with_objectives(run.history, merge.refinement),
            _kept=kept,
        )

    def _long_form(self, name: str, value: object) -> object:
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

    def _epsilons(self, n_nodes: int) -> list:
        """Epsilon of each node, or "auto"."""
        if isinstance(self.epsilon, str):
            return ["auto"] * n_nodes
        epsilons = _as_numbers(self.epsilon, name="epsilon")
        if epsilons.shape not in ((), (n_nodes,)):
            raise ValueError(
                f"epsilon has shape {epsilons.shape}, but there are {n_nodes} nodes; "
                "give one number, or one per node."
            )
        largest = as_criterion(self.criterion).largest
        if not np.all((epsilons >= 0) & (epsilons <= largest)):
            raise ValueError(
                f"epsilon must be between 0 and {largest:g} with "
                f"criterion={self.criterion!r}, got {self.epsilon!r}."
            )
        return np.broadcast_to(epsilons, n_nodes).tolist()

    def _warn_of_many_rows(self, federation: Federation) -> None:
        """Warn of a node with nearly all rows, where nodes weigh by their rows."""
        if federation.rows_are_shared:
            return
        if self._resolved_node_weight == "n_samples":
            warn_of_many_rows(federation.names, federation.rows_in_moments)

    @property
    def _resolved_node_weight(self) -> str | None:
        """The word that `node_weight` stands for; None where it has numbers."""
        if not isinstance(self.node_weight, str):
            return None
        if self.node_weight == "auto":
            return "n_samples" if self.intersection == "likelihood" else "equal"
        return self.node_weight

    def _node_weights(self, nodes: Sequence[LinearNode]) -> np.ndarray | None:
        """Weights of nodes, of mean 1, (n_nodes,); None: as the method has them.

        That is by rows in the likelihood, and equal weights in spaces.
        """
        word = self._resolved_node_weight
        if word is None:
            weights = self.node_weight
        elif word == ("n_samples" if self.intersection == "likelihood" else "equal"):
            return None
        else:
            weights = [1 if word == "equal" else node.n_rows for node in nodes]
        weights = _as_numbers(weights, name="node_weight")
        is_usable = np.isfinite(weights) & (weights > 0)
        if weights.shape != (len(nodes),) or not is_usable.all():
            raise ValueError(
                "node_weight must hold one finite positive number per node "
                f"({len(nodes)}), got {self.node_weight!r}."
            )
        return weights / weights.mean()

    def _problem(self, federation: Federation, classes: np.ndarray) -> LinearProblem:
        """The linear models of the nodes; TypeError for networks with hidden layers."""
        for node in federation.nodes:
            if not node.network.is_linear:
                raise TypeError(
                    f"node {node.name!r} is a network with "
                    f"{node.network.n_hidden_layers} hidden layers; "
                    "GEMSLogisticAggregator merges linear models only. Use "
                    "GEMSMLPAggregator for networks."
                )
        return LinearProblem.from_federation(federation, classes)

    def _seed(self) -> int | None:
        """One for all nodes, whose order must not matter; None: any will do."""
        if self.random_state is None:
            return None
        return check_random_state(self.random_state).randint(2**31 - 1)

    def _stage(
        self,
        problem: LinearProblem,
        kept: KeptReplies | None = None,
        federation: Federation | None = None,
    ) -> LinearStage:
        """How these models are merged; ``kept`` has the seed of an earlier fit.

        Where no node has rows, and there is a federation, the factor on logits is
        fitted to its spare rows, or to moments.
        """
        seed = self._seed() if kept is None else kept.seed
        moments_settings = self._moments_settings()
        if self.intersection == "likelihood":
            return self._likelihood_stage(
                problem,
                moments_settings=moments_settings,
                seed=seed,
                weighs_nodes=True,
            )
        if self._rounds.n > 1:
            raise ValueError(
                f"n_rounds={self.n_rounds!r} is for intersection='likelihood': spaces "
                f"are met in one message, but intersection={self.intersection!r}."
            )
        calibrate = None
        is_one_summary = False
        if federation is not None:
            # Whatever nodes weigh in the intersection, all rows calibrate alike.
            reader = self._likelihood_stage(
                problem,
                moments_settings=moments_settings,
                seed=seed,
                weighs_nodes=False,
            )
            calibrate = partial(_calibration_plan, federation, reader)
            is_summary = federation.nodes[0].record is not None
            is_one_summary = len(problem.nodes) == 1 and is_summary
        return LinearStage(
            geometry=as_geometry(self.geometry),
            criterion=as_criterion(self.criterion),
            construction=as_construction(self.construction),
            space_settings=self._space_settings(seed),
            epsilons=self._epsilons(len(problem.nodes)),
            intersection=self.intersection,
            node_weight=self._node_weights(problem.nodes),
            scale_logits=self.scale_logits,
            calibrate=calibrate,
            is_one_summary=is_one_summary,
        )

    def _likelihood_stage(
        self,
        problem: LinearProblem,
        *,
        moments_settings: Mapping,
        seed: int | None,
        weighs_nodes: bool,
    ) -> LikelihoodStage:
        return LikelihoodStage(
            rounds=self._rounds,
            seed=seed,
            C=self.C,
            fit_intercept=self.fit_intercept,
            moments_settings=moments_settings,
            geometry=as_geometry(self.geometry),
            criterion=as_criterion(self.criterion),
            construction=as_construction(self.construction),
            space_settings=self._space_settings(seed),
            epsilons=self._epsilons(len(problem.nodes)),
            intersection=self.intersection,
            node_weight=self._node_weights(problem.nodes) if weighs_nodes else None,
            scale_logits=self.scale_logits,
        )

    def _outcome(
        self,
        *,
        stage: LinearStage,
        merge: LinearMerge,
        problem: LinearProblem,
        run: Run,
        public: tuple | None = None,
    ) -> tuple[np.ndarray, dict]:
        """Tune by public rows, and score: calibrated weights, and attributes.

        ``public`` are public rows and the indices of their classes.
        """
        self._report_intersection(stage, merge, problem=problem)
        W = merge.W
        factor = merge.factor
        fine_tuning = None
        if public is not None and len(public[1]):
            X, y = public
            W, fine_tuning = self._tuned(factor * W, merge=merge, X=X, y=y)
            factor = 1.0
        requests = stage.score_requests(factor * W, merge, problem)
        reports = [reply.content for _, reply in run.ask(requests)]
        losses = None
        if merge.likelihood is not None:
            judged_W = merge.W_of_one_message if fine_tuning is None else factor * W
            losses = node_losses(merge.likelihood, judged_W, problem=problem)
        form = merge.form
        refinement = merge.refinement
        attributes = {
            **linear_attributes(W),
            "_factor": factor,
            "_merge": merge,
            "geometry_": stage.geometry,
            "spaces_": merge.spaces,
            "intersection_": merge.intersection,
            "likelihood_": merge.likelihood,
            "C_": merge.C,
            "exact_": form is not None and form.is_exact and fine_tuning is None,
            "pooled_form_": form,
            "candidates_": None if refinement is None else refinement.candidates,
            "fine_tuning_": fine_tuning,
            "node_scores_": _node_scores(
                reports, merge, problem=problem, losses=losses
            ),
            # A fit over a channel does not ask for scores: `ask_scores` can, later.
            "_score_requests": None if run.reports else requests,
        }
        return factor * W, attributes

    def _report_intersection(
        self, stage: LinearStage, merge: LinearMerge, *, problem: LinearProblem
    ) -> None:
        """Log that a model in all spaces was found, or say why there is none."""
        intersection = merge.intersection
        if intersection is None:
            return
        if intersection.found:
            self._report_found(merge, problem)
            return
        if self.on_empty == "ignore":
            return
        explanation = stage.explain_empty(merge, problem.names)
        if self.on_empty == "raise":
            raise EmptyIntersectionError(explanation)
        warn_user(
            f"{explanation} The model that misses the spaces least is used.",
            EmptyIntersectionWarning,
        )

    def _report_found(self, merge: LinearMerge, problem: LinearProblem) -> None:
        """Log that a model was found, where nodes have seen different classes."""
        if all(node.known_classes.all() for node in problem.nodes):
            return
        if merge.profiles[0].outputs is None:
            say("a model in all spaces was found")
            return
        say(
            f"a model in all spaces was found; geometry={self.geometry!r} says nothing "
            "of unseen classes, so among nodes of different classes that means little"
        )

    def _weights(self) -> np.ndarray:
        """One column per class, the intercepts in the last row."""
        W = np.vstack([self.coef_.T, self.intercept_])
        return as_two_logits(W) if len(self.classes_) == 2 else W

    def _logits(self, X: Rows) -> np.ndarray:
        return linear_logits(X, self._weights())

    def _tuned(
        self, W: np.ndarray, *, merge: LinearMerge, X: Rows, y: np.ndarray
    ) -> tuple[np.ndarray, FineTuned | None]:
        """Weights after fine-tuning on public rows; changes nothing here."""
        rng = check_random_state(self.random_state)
        if self.fine_tuning == "plain":
            return train_plainly(X, y, Layers.of([W]), rng).layers.last, None
        if merge.likelihood is not None:
            fine_tuned = tune_likelihood(merge.likelihood, X, y, W, random_state=rng)
        else:
            fine_tuned = self._tuned_in_spaces(W, merge=merge, X=X, y=y, rng=rng)
        return fine_tuned.W, fine_tuned

    def _tuned_in_spaces(
        self,
        W: np.ndarray,
        *,
        merge: LinearMerge,
        X: Rows,
        y: np.ndarray,
        rng: np.random.RandomState,
    ) -> FineTuned:
        """Weights held to W as strongly as the metrics of the spaces say together."""
        combined = combine_metrics(
            [space.metric for space in merge.spaces], self._metric_weights(merge)
        )
        # About the nodes' mean, so that zeros do not matter; sparse rows stay.
        if combined.family == "gram" and not issparse(X):
            mean, diagonal = combined.centred()
        else:
            mean = np.zeros(X.shape[1])
            diagonal = combined.diagonal()
        precision = diagonal.mean(axis=1)  # (n_features + 1,)
        # Something for features that no node shows: their variance on the public rows.
        is_unknown = np.flatnonzero(precision <= 0)
        columns = X[:, is_unknown]
        if issparse(X):
            columns = columns.toarray()
        variances = np.var(columns, axis=0, dtype=np.float64)
        precision[is_unknown] = np.where(variances > 0, variances, 1.0)
        rows = X - mean.astype(X.dtype) if mean.any() else X
        fine_tuned = fine_tune_linear(
            rows, y, about_origin(W, mean), precision, random_state=rng
        )
        say(f"fine-tuning: strength {fine_tuned.strength:.3g}")
        return replace(fine_tuned, W=about_origin(fine_tuned.W, -mean))

    def _metric_weights(self, merge: LinearMerge) -> np.ndarray:
        """The weights of the spaces' metrics with which the point was found."""
        weights = merge.intersection.weights
        if self.intersection == "consensus" and merge.intersection.found:
            return weights
        # These weigh squared distances that are divided by the radius.
        weights = weights / np.array([space.radius for space in merge.spaces]) ** 2
        return weights / weights.sum()


def _node_scores(
    reports: Sequence[Mapping],
    merge: LinearMerge,
    *,
    problem: LinearProblem,
    losses: list[float] | None,
) -> dict[str, list]:
    """The columns of the table ``node_scores_``; NaN where nothing is known."""
    unknown = [np.nan] * len(reports)
    compared = _compared_scores(reports, [node.has_model for node in problem.nodes])
    scores = {
        "node": problem.names,
        "n_rows": [report["n_rows"] for report in reports],
        "epsilon": unknown,
        "local": compared,
        "aggregate": [float(report["score"]) for report in reports],
        "loss": unknown if losses is None else losses,
        "on_own_scale": unknown,
        "radius": unknown,
        "distance": unknown,
    }
    if merge.spaces:
        point = merge.intersection.point
        scores["epsilon"] = [space.epsilon for space in merge.spaces]
        scores["local"] = [profile.score for profile in merge.profiles]
        scores["on_own_scale"] = compared
        scores["radius"] = [space.radius for space in merge.spaces]
        scores["distance"] = [float(space.distance(point)) for space in merge.spaces]
    return scores


def _compared_scores(
    reports: Sequence[Mapping], has_model: Sequence[bool]
) -> list[float]:
    """Scores of the models that were sent beside the aggregate; NaN without a model."""
    return [
        float(report["beside"]) if node_has_model else np.nan
        for report, node_has_model in zip(reports, has_model, strict=True)
    ]


def _calibration_plan(
    federation: Federation,
    reader: LikelihoodStage,
    W: np.ndarray,
    problem: LinearProblem,
) -> Generator:
    """Plan of a factor on logits where no node has rows to judge them by.

    Spare rows of summaries' nodes calibrate; without any, moments do.
    """
    X, y = federation.labelled(federation.spare_rows)
    if len(y):
        logits = linear_logits(X, W).astype(np.float64)
        return fit_inverse_temperature(logits, np.searchsorted(problem.classes, y))
    likelihood, _ = yield from reader.likelihood_plan(problem)
    return likelihood.inverse_temperature(likelihood.from_rows(W))


def _as_numbers(parameter: ArrayLike, *, name: str) -> np.ndarray:
    """A parameter as float64; ``name`` is for the error."""
    try:
        return np.asarray(parameter, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"{name} must hold a number, or one per node, got {parameter!r}."
        ) from None
