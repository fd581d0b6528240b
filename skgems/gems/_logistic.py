# SPDX-License-Identifier: BSD-3-Clause
"""GEMS for linear classifiers: one model in the intersection of good-enough spaces."""

from __future__ import annotations

import warnings
from copy import copy
from dataclasses import dataclass, replace
from numbers import Integral, Real

import numpy as np
from scipy.sparse import issparse
from scipy.special import softmax
from sklearn.base import _fit_context
from sklearn.linear_model import LogisticRegression
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from ..base import (
    BaseAggregator,
    is_named,
    linear_attributes,
    named_members,
    split_by_state,
)
from ..federation import (
    MIN_ROWS,
    AskAgainError,
    DescribedNode,
    Federation,
    InProcess,
    Simulation,
    SummarizingMixin,
    Summary,
    check_feature_names,
    describe_nodes,
    read_federation,
    run,
)
from ..local import Below, Description, moments_kind
from ..networks import Layers, linear_logits, to_logistic_regression
from ..spaces import (
    GEOMETRIES,
    Criterion,
    EmptyIntersectionError,
    EmptyIntersectionWarning,
    Geometry,
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
from ._further import FurtherMessages, with_further
from ._ledger import KeepingChannel, Ledger
from ._likelihood import CANDIDATES, LikelihoodStage
from ._stage import LinearMerge, LinearNode, LinearStage, linear_node, space_rows

_DTYPES = ("float64", "float32", "float16")


class GEMSLogisticAggregator(SummarizingMixin, BaseAggregator):
    """One linear classifier that is good enough for every node.

    Every node tells its model and what its rows come to in sums by class: counts,
    means, second moments. The aggregate is the likeliest model for all these rows
    together, nearly the one fitted on them at one place. Every node's model also has a
    *good-enough space*: the models around it that still reach ``epsilon`` on the
    node's rows. Where ``epsilon`` is given the aggregate is the likeliest in the
    intersection of all spaces, or, with a proof that there is none, the point that
    misses it least. No node's rows are needed by another, and no local estimator is
    ever refitted or altered.

    Parameters
    ----------
    estimators : list of classifiers, list of (name, classifier) tuples, or None
        Fitted linear classifiers (any with ``coef_`` and ``intercept_``, skorch
        nets of one Linear layer, pipelines of affine steps around them,
        FrozenEstimator, fitted searches), one per node; they may know different
        classes. Unfitted classifiers, or a single one, are cloned and trained on
        each node's rows (simulation). None stands for ``LogisticRegression()``.

    geometry : Geometry or {"gram", "ellipsoid", "ball"}, default="gram"
        Shape of the spaces: by how much a change moves the node's logits
        (:class:`~skgems.spaces.Gram`: second moments of its rows, n_features^2
        numbers), by the diagonal Fisher information
        (:class:`~skgems.spaces.Ellipsoid`), or round
        (:class:`~skgems.spaces.Ball`). The words stand for these objects without
        arguments; parameters of the object are set and searched as
        ``geometry__ridge``, of a word too.

    construction : {"sampled", "certified"}, default="sampled"
        Whether the models of a space reached epsilon in a sample of directions
        (GEMS 2019, Algorithm 2), or provably all do. Certified spaces are small.

    criterion : Criterion or {"accuracy", "log_loss"}, default="accuracy"
        What "good enough" means: accuracy of at least epsilon, or mean log-loss of
        at most epsilon.

    epsilon : "auto", float or array-like of shape (n_nodes,), default="auto"
        Level that a model must reach on a node's rows. "auto" takes half of the
        local model's own accuracy, or twice its own log-loss.

    intersection : {"likelihood", "consensus", "deepest", "hinge"}, \
default="likelihood"
        Which point: the likeliest for the moments that nodes tell, the one that moves
        all nodes least, the one deepest inside all spaces, or the first one met from
        the average (GEMS 2019, Eq. 2). With "likelihood" and ``epsilon="auto"`` spaces
        bound nothing; they are looked at where that takes a moment only.

    moments : {"auto", "class", "shared", "diagonal"}, default="auto"
        What nodes tell with ``intersection="likelihood"``: a matrix of second moments
        by class (C d^2 / 2 numbers of C classes and d features), one for all classes
        (d^2 / 2), or variances of each feature by class (C d). "auto" is "diagonal"
        above 2000 features, else "class" up to 4 million numbers a node, else
        "shared".

    n_components : int, default=16
        Clusters as which a node tells the mean of a class, at most (d numbers each);
        each of at least 4 rows.

    min_rows : int, default=1
        Rows of a node that a count or mean is told of, at least. Those of a smaller
        class only add to the second moments of all classes, or of all such classes.

    C : float, default=1.0
        Inverse strength of the penalty on the weights of the likeliest model, that of
        ``LogisticRegression(C)``: on features as they are or, where nodes scale theirs
        in pipelines, on features of unit variance, so that units do not matter.

    n_rounds : int, default=1
        Messages that the likeliest model is made of. 1: the moments alone. Each further
        one tells the nodes' true losses and gradients, at `candidates` in the second
        and at four lengths of one step in later ones, of which the best is kept: the
        loss on all rows, with the penalty, never rises, and its end is
        ``LogisticRegression(C)`` on all rows. Costs each node four models to read and
        four gradients to send.

    tol : float, default=1e-6
        No further messages are sent where the gradient promises to lower the loss by
        less, in nats a row.

    candidates : str or sequence of str, default=()
        Models that are put to the nodes in message 2 beside the likeliest, which is
        left for one whose loss is lower by more than two standard errors of paired
        rows: of "share 0", "share 1/2", "share 1" (how much of what moments miss of the
        nodes' gradients is corrected), "lda", "consensus" and "average".

    participation : float in (0, 1], default=1.0
        Share of the nodes that each further message asks, at random. What the others
        told last stands in for them.

    node_weight : {"auto", "equal", "n_samples"} or array-like of shape (n_nodes,), \
default="auto"
        Weight of each node in the likelihood or the consensus. "auto": by its rows in
        the likelihood, equal in the consensus.

    on_empty : {"warn", "raise", "ignore"}, default="warn"
        What to do if the spaces do not intersect.

    scale_logits : "auto" or bool, default="auto"
        Whether to centre each node's logits over classes and divide them by their
        root mean square on its rows, so that no node wins by regularising less.
        "auto" does so with ``geometry="gram"``, whose distances are those of logits,
        and with the others where the nodes' logits differ in size more than
        threefold: below that their size says more about how well a node's classes
        separate than about its trainer.

    n_directions : int, default=500
        Directions drawn per node by the sampled construction.

    max_radius : float, default=1e4
        Bound on every radius, in units of the geometry.

    fine_tuning : {"penalized", "plain"}, default="penalized"
        How public rows are used: as one more node, whose weight is cross-validated on
        them where there are enough (without likelihood: held to the nodes' knowledge
        by a penalty whose strength is); or 5 epochs of Adam as in the papers.

    validation_fraction : float, default=0.2
        In simulation, the share of each node's rows that its clone is not trained
        on and that make its space.

    keep_told : bool, default=False
        Whether to keep what each node told, so that nodes can come by :meth:`update`
        and be forgotten by :meth:`forget` while the others need not be asked again.
        Takes the memory of their messages; needs ``intersection="likelihood"``.

    memory : str or object with the joblib.Memory interface, default=None
        Where to keep what does not depend on epsilon. None keeps it in the process,
        within a quarter of ``working_memory``; give a folder to share it between
        processes and to keep the clones trained in simulation too.

    n_jobs : int, default=None
        Nodes treated in parallel. Results do not depend on it.

    verbose : bool or int, default=0
        Whether to print progress.

    random_state : int, RandomState instance or None, default=None
        Source of the directions, of the dealing of rows and of clones' seeds.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted union of the classes the nodes know.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Weights of the aggregate.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Intercepts of the aggregate.
    estimators_ : list of classifiers
        The fitted local estimators.
    node_names_ : list of str
        Names of the nodes.
    geometry_ : Geometry
        What `geometry` stands for.
    spaces_ : list of GoodEnoughSpace or None
        One per node, outputs in the order of ``classes_``; with likelihood, on the
        scale of the aggregate's logits. None where they were not built.
    intersection_ : Intersection or None
        The point, whether it is in all spaces, and the bounds that prove it.
    likelihood_ : Likelihood or None
        With ``intersection="likelihood"``: what was told, as a loss.
    exact_ : bool
        Whether the aggregate is, but for rounding, the classifier fitted on all rows at
        one place: of RidgeClassifier, LinearDiscriminantAnalysis and euclidean
        NearestCentroid members with equal parameters it is, since these are functions
        of sums.
    pooled_form_ : PooledForm or None
        What it is as such; or its ``reason`` why not, naming parameter and nodes.
    history_ : list of dict
        One for each message to the nodes: its "task", the "bytes_sent" to all and the
        "bytes_received" from them, "seconds", nodes "left_out" (none, unless they fail
        in further messages), "loss", of which nodes tell nothing here, and of further
        messages the "objective" that the model kept after it has, log-loss and penalty
        in nats a row of all nodes, and its "accuracy" on held-out rows; on all rows,
        if none are held out. None for other messages.
    candidates_ : Candidates or None
        With `candidates`: the loss of each, and which was chosen.
    node_scores_ : dict of lists
        For each node: its epsilon, the criterion's score of its own model ("local")
        and of the aggregate on its rows of classes that it knows ("n_rows" of them),
        radius, and the aggregate's distance. "on_own_scale" is the score that epsilon
        is a level of: that of the point of the intersection with the node's own factor
        on the logits (where they were brought to one scale), among the classes that
        its space speaks of. A ``pandas.DataFrame`` can be made of it. Where no spaces
        were built radius, distance and "on_own_scale" are NaN. With the
        log-loss, the score of its own model under ``geometry="gram"`` counts the
        classes it never saw, too.
    fine_tuning_ : FineTuned or None
        How public rows were used by the last fine-tuning with a penalty.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if X or the local estimators have them.

    See Also
    --------
    skgems.spaces.build_space : Build one space alone.
    skgems.spaces.intersect : Intersect spaces.

    Notes
    -----
    A search over ``epsilon`` computes what does not depend on it (second moments or
    Fisher information, random directions and the margins of all rows along them)
    once per fold and process; see ``memory``.

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

    _parameter_constraints: dict = {
        **BaseAggregator._parameter_constraints,
        "geometry": [StrOptions(set(GEOMETRIES)), Geometry],
        "construction": [StrOptions({"sampled", "certified"})],
        "criterion": [StrOptions({"accuracy", "log_loss"}), Criterion],
        "epsilon": [
            StrOptions({"auto"}),
            "array-like",
            Interval(Real, 0, None, closed="left"),
        ],
        "intersection": [StrOptions({"likelihood", "consensus", "deepest", "hinge"})],
        "moments": [StrOptions({"auto", "class", "shared", "diagonal"})],
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "min_rows": [Interval(Integral, 1, None, closed="left")],
        "C": [Interval(Real, 0, None, closed="neither")],
        "n_rounds": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "candidates": [StrOptions(set(CANDIDATES)), "array-like"],
        "participation": [Interval(Real, 0, 1, closed="right")],
        "node_weight": [StrOptions({"auto", "equal", "n_samples"}), "array-like"],
        "on_empty": [StrOptions({"warn", "raise", "ignore"})],
        "scale_logits": [StrOptions({"auto"}), "boolean"],
        "n_directions": [Interval(Integral, 1, None, closed="left")],
        "max_radius": [Interval(Real, 0, None, closed="neither")],
        "fine_tuning": [StrOptions({"penalized", "plain"})],
        "validation_fraction": [Interval(Real, 0, 1, closed="left")],
        "keep_told": ["boolean"],
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
        min_rows=1,
        C=1.0,
        n_rounds=1,
        tol=1e-6,
        candidates=(),
        participation=1.0,
        node_weight="auto",
        on_empty="warn",
        scale_logits="auto",
        n_directions=500,
        max_radius=1e4,
        fine_tuning="penalized",
        validation_fraction=0.2,
        keep_told=False,
        memory=None,
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
        self.min_rows = min_rows
        self.C = C
        self.n_rounds = n_rounds
        self.tol = tol
        self.candidates = candidates
        self.participation = participation
        self.node_weight = node_weight
        self.on_empty = on_empty
        self.scale_logits = scale_logits
        self.n_directions = n_directions
        self.max_radius = max_radius
        self.fine_tuning = fine_tuning
        self.validation_fraction = validation_fraction
        self.keep_told = keep_told
        self.memory = memory
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X=None, y=None, nodes=None, held_out=None) -> GEMSLogisticAggregator:
        """Merge the nodes' models, by what their rows come to.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
            Rows on which models are judged, best rows the local estimators were not
            fitted on; in simulation also the rows they are fitted on. Summaries need
            none.
        y : array-like of shape (n_samples,), default=None
            Labels.
        nodes : array-like of shape (n_samples,), default=None
            Index or name of the node that owns each row; -1 or "public" for public
            rows, which fine-tune the aggregate. Rows of a node that sent a summary
            only score it. With None a row belongs to every node that has seen its
            label and is no summary; rows that are left over calibrate probabilities,
            unless moments do.
        held_out : array-like of shape (n_samples,), dtype bool, default=None
            Rows that only score: they judge models and calibrate, the others make
            the moments. None: all rows do both.

        Returns
        -------
        self : GEMSLogisticAggregator

        Raises
        ------
        ValueError
            If a local model does not reach its epsilon, a node has no rows, a label
            is known to no node, or the input is otherwise not usable; the message
            names the node.
        """
        simulation = Simulation(
            random_state=self.random_state,
            validation_fraction=self.validation_fraction,
            memory=self.memory,
            n_jobs=self.n_jobs,
        )
        federation = read_federation(self, X, y, nodes, held_out, simulation=simulation)
        self._warn_of_shared_rows(federation)
        self._check_told(federation)
        public = _labelled(federation, federation.public_rows)
        channel, ledger = self._channel(federation), None
        if self.keep_told:
            self._check_can_keep(federation)
            ledger = Ledger(self._seed(), {}, public)
            channel = KeepingChannel(federation.names, ledger, channel)
        # Spaces that bound nothing are not worth more messages.
        look = federation.all_tell("space")
        self._fit_federation(federation, channel, public, ledger, look=look)
        return self

    def summarize(
        self,
        estimator,
        X,
        y,
        *,
        name,
        held_out=None,
        min_rows=MIN_ROWS,
        classes=None,
        space="auto",
        dtype="float64",
        rank=None,
    ) -> Summary:
        """Make all that a node sends, at the node.

        The aggregator needs no ``estimators`` for this, only the parameters that all
        nodes and the server have agreed on; it is not changed. Fitted on summaries it
        is what it would be with all rows at one place, to the bit. What is decided at
        the nodes are `geometry`, `construction`, `criterion`, `scale_logits`,
        `n_directions`, `moments`, `n_components`, `min_rows` of the constructor and
        `random_state`; all else is the server's to choose, and to search over.

        Parameters
        ----------
        estimator : linear classifier
            The node's own, fitted. Not altered.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The node's rows, which stay here.
        y : array-like of shape (n_samples,)
            Their labels.
        name : str
            Of the node.
        held_out : array-like of shape (n_samples,), dtype bool, default=None
            Rows that only score. None: all rows do both.
        min_rows : int, default=10
            A node that has fewer rows of a class refuses to tell anything, since that
            would say what these rows are.
        classes : array-like, default=None
            Classes of all nodes, where they are known: less is told then. Needed for
            ``criterion="log_loss"``, which counts them.
        space : "auto" or bool, default="auto"
            Whether to tell the good-enough space, which takes n_features^2 numbers
            with ``geometry="gram"``. Without, `epsilon` cannot bound the model. "auto"
            does not where moments are diagonal, since that would be most of the bytes,
            nor with a `rank`, unless `epsilon` or `intersection` ask for it.
        dtype : {"float64", "float32", "float16"}, default="float64"
            Of moments as told: fewer digits are fewer bytes.
        rank : int, default=None
            Of scatter matrices as told: so many numbers a feature in place of
            n_features / 2. None, or no fewer: they are told whole.

        Returns
        -------
        summary : Summary
            To be saved and sent.

        Raises
        ------
        TooFewRowsError
            A ValueError, if there are too few rows of a class.
        ValueError
            If the classifier is not fitted, or rows are not as it knows them, or the
            method asks more of the nodes than one message.

        See Also
        --------
        skgems.federation.Summary : What is made, saved and loaded.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.linear_model import LogisticRegression
        >>> from skgems import GEMSLogisticAggregator
        >>> X, y = load_iris(return_X_y=True)
        >>> agg = GEMSLogisticAggregator(random_state=0)
        >>> sent = []
        >>> for name, own in ("lyon", y < 2), ("paris", y > 0):
        ...     clf = LogisticRegression().fit(X[own], y[own])
        ...     sent.append(agg.summarize(clf, X[own], y[own], name=name))
        >>> agg.set_params(estimators=sent).fit().score(X, y) > 0.95
        True
        """
        if dtype not in _DTYPES:
            raise ValueError(f"dtype must be one of {_DTYPES}, got {dtype!r}.")
        if rank is not None and not (isinstance(rank, Integral) and rank > 0):
            raise ValueError(f"rank must be a number of at least 1, got {rank!r}.")
        told = {"dtype": dtype, "rank": None if rank is None else int(rank)}
        return self._summarize(
            *(estimator, X, y, name, held_out, min_rows),
            told=told,
            classes=classes,
            space=space,
            rank=rank,
        )

    @_fit_context(prefer_skip_nested_validation=False)
    def update(self, estimators, X, y, nodes=None, held_out=None):
        """Take in new nodes; those that are there are not asked again.

        The model is that of a fit on all nodes, the new ones last, to the bit: what
        nodes told is summed. A node of a name that is there replaces it.

        Parameters
        ----------
        estimators : list of (name, classifier) tuples
            Fitted local classifiers.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows of the new nodes.
        y : array-like of shape (n_samples,)
            Their labels; there may be new ones.
        nodes : array-like of shape (n_samples,), default=None
            Index or name of the new node that owns each row. None: there is one, or
            no two of them know the same class.
        held_out : array-like of shape (n_samples,), dtype bool, default=None
            Rows that only score.

        Returns
        -------
        self : GEMSLogisticAggregator
            ``node_scores_`` of the others are NaN, since their rows are not there;
            ``history_`` is that of the messages to the new nodes.

        Raises
        ------
        ValueError
            If nothing was kept (see `keep_told`), classifiers have no names or are not
            fitted, or do not fit the nodes that are there.
        """
        ledger = self._kept_ledger()
        if not is_named(estimators):
            raise ValueError(
                "update takes (name, classifier) tuples: a node is known by its name. "
                f"The nodes so far are {self.node_names_}."
            )
        names, members = named_members(
            estimators, parameter_names=self._get_param_names()
        )
        if not split_by_state(names, members):
            raise ValueError("update takes fitted classifiers; these are not fitted.")
        self._check_one_for_all("update")
        new = dict(zip(names, members, strict=True))
        federation = read_federation(
            copy(self).set_params(estimators=list(new.items())), X, y, nodes, held_out
        )
        self._check_can_keep(federation)
        if federation.has_public_rows:
            raise ValueError(
                "update takes rows of the new nodes only; public rows are those of fit."
            )
        known = dict(zip(self.node_names_, self.estimators_, strict=True))
        self._refit(known | new, ledger.without(new), self._channel(federation))
        return self

    def forget(self, name: str) -> GEMSLogisticAggregator:
        """Forget a node: the model is that of a fit without it, to the bit.

        What the others told is summed anew; nothing is subtracted. The model then
        depends on the node in no way, but a classifier that was *trained* with its
        help, or fine-tuned by :meth:`fine_tune`, is not undone elsewhere.

        Parameters
        ----------
        name : str
            Of the node.

        Returns
        -------
        self : GEMSLogisticAggregator
            ``node_scores_`` of its model are NaN, since nobody's rows are there.

        Raises
        ------
        ValueError
            If nothing was kept (see `keep_told`), there is no such node, it is the only
            one, or another would have to be asked again: for a space that bounds the
            model, where the log-loss counts classes that it never saw.
        """
        ledger = self._kept_ledger()
        if name not in self.node_names_:
            raise ValueError(
                f"There is no node {name!r}; nodes are {self.node_names_}."
            )
        if len(self.node_names_) == 1:
            raise ValueError(f"Node {name!r} is the only one; nothing would be left.")
        self._check_one_for_all("forget")
        left = dict(zip(self.node_names_, self.estimators_, strict=True))
        del left[name]
        self._refit(left, ledger.without([name]), None)
        return self

    @_fit_context(prefer_skip_nested_validation=False)
    def fine_tune(self, X, y) -> GEMSLogisticAggregator:
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
            With new ``coef_`` and ``intercept_``. ``node_scores_`` remains what
            ``fit`` measured, since the nodes' rows are not kept.
        """
        X, y = self._validated_public_rows(X, y)
        W, self.fine_tuning_ = self._tuned(
            self._factor * self._weights(), self._merge, X, y
        )
        vars(self).update(linear_attributes(W), _factor=1.0, exact_=False)
        return self

    def to_estimator(self) -> LogisticRegression:
        """The aggregate as a plain fitted ``LogisticRegression``.

        Returns
        -------
        estimator : LogisticRegression
            Predicts the same labels and probabilities; knows nothing of this
            library. Of the dtype of the nodes' models.
        """
        check_is_fitted(self)
        return to_logistic_regression(
            (self._factor * self.coef_).astype(self._dtype),
            (self._factor * self.intercept_).astype(self._dtype),
            self.classes_,
            n_features_in=self.n_features_in_,
            feature_names_in=getattr(self, "feature_names_in_", None),
        )

    # ---- summaries --------------------------------------------------------

    def _node_settings(self) -> dict:
        seed = self.random_state
        if seed is not None and not isinstance(seed, Integral):
            raise ValueError(
                "random_state must be a number or None where nodes summarize, so that "
                f"all draw the same; got {seed!r}."
            )
        return {
            "geometry": as_geometry(self.geometry).as_settings(),
            "criterion": as_criterion(self.criterion).as_settings(),
            "construction": self.construction,
            "scale_logits": self.scale_logits,
            "n_directions": int(self.n_directions),
            "moments": self.moments,
            "n_components": int(self.n_components),
            "min_rows": int(self.min_rows),
            "random_state": None if seed is None else int(seed),
        }

    def _first_tasks(self) -> list[str] | None:
        return None if self.n_rounds == 1 else ["moments"]

    def _check_one_message(self) -> None:
        if self.n_rounds > 1:
            raise ValueError(
                f"n_rounds={self.n_rounds} asks nodes more than once, a summary tells "
                "all at once: set n_rounds=1, or use skgems.Exchange."
            )

    def _questions(
        self, network, *, classes=None, space="auto", rank=None
    ) -> list[dict]:
        seed = self._seed()
        questions = [{"task": "moments", "asked": self._asked_of_moments(seed)}]
        geometry, criterion = as_geometry(self.geometry), as_criterion(self.criterion)
        if space == "auto":
            asked_for = self.intersection != "likelihood" or not isinstance(
                self.epsilon, str
            )
            kind = moments_kind(self.moments, network.n_features_in, 1)
            small = rank is None and kind != "diagonal"
            space = asked_for or small or not geometry.needs_moments
        if not space:
            return questions
        scalings = [self.scale_logits]
        if self.scale_logits == "auto":
            scalings = [True] if geometry.in_logits else [True, False]
            questions += [] if geometry.in_logits else [{"task": "size", "asked": {}}]
        if classes is not None:
            known = network.classes[network.seen].tolist()
            others = [len(set(np.asarray(classes).tolist()) - set(known))]
        elif criterion.counts_classes:
            raise ValueError(
                f"criterion={self.criterion!r} counts the classes of all nodes: give "
                "summarize all of them, classes=[...]."
            )
        else:
            others = [0, 1]
        if not criterion.counts_classes:
            others = [min(n, 1) for n in others]
        for scaled in scalings:
            for n_others in others:
                asked = {
                    "n_others": n_others,
                    "geometry": geometry.as_settings(),
                    "criterion": criterion.as_settings(),
                    "construction": self.construction,
                    "scale_logits": bool(scaled),
                    "n_directions": int(self.n_directions),
                    "seed": seed,
                    **space_rows(self.min_rows),
                }
                questions.append({"task": "space", "asked": asked})
        return questions

    def _asked_of_moments(self, seed) -> dict:
        return {
            "kind": self.moments,
            "n_components": int(self.n_components),
            "min_rows": int(self.min_rows),
            "seed": seed,
        }

    def _check_told(self, federation: Federation) -> None:
        """Raise ValueError if nodes that are here have no rows."""
        if federation.can_reply:
            return
        without = [node.name for node in federation.nodes if not node.can_reply]
        raise ValueError(
            f"Nodes {without[:5]} are fitted classifiers, but there are no rows of "
            "theirs: give fit X, y and nodes, or what the nodes' summarize made of "
            "them."
        )

    # ---- nodes that come and go --------------------------------------------

    def _check_can_keep(self, federation: Federation) -> None:
        wrong = None
        if self.intersection != "likelihood":
            wrong = f"intersection={self.intersection!r} asks nodes about the aggregate"
        elif self.n_rounds > 1:
            wrong = f"n_rounds={self.n_rounds} asks nodes about the aggregate"
        elif federation.rows_are_shared:
            wrong = "nodes share rows, since nobody said whose they are (nodes=)"
        if wrong:
            raise ValueError(f"keep_told keeps what nodes tell of themselves: {wrong}.")

    def _check_one_for_all(self, method: str) -> None:
        for parameter in ("epsilon", "node_weight"):
            value = getattr(self, parameter)
            if not isinstance(value, str) and np.ndim(value):
                raise ValueError(
                    f"{method} needs one {parameter} for all nodes, got {value!r}: "
                    "nodes come and go."
                )

    def _kept_ledger(self) -> Ledger:
        check_is_fitted(self)
        ledger = getattr(self, "_ledger", None)
        if ledger is None:
            raise ValueError(
                "What nodes told was not kept. Set keep_told=True before fit."
            )
        return ledger

    def _refit(self, members: dict, ledger: Ledger, channel: InProcess | None) -> None:
        """Fit again with these nodes, of which those that a channel reaches are new."""
        given = copy(self).set_params(estimators=list(members.items()))
        federation = read_federation(given)
        expected = Description(
            self.classes_,
            np.ones(len(self.classes_), dtype=bool),
            self.n_features_in_,
            getattr(self, "feature_names_in_", None),
        )
        networks = [node.network for node in federation.nodes]
        check_feature_names(
            ["of earlier nodes", *federation.names], [expected, *networks], None
        )
        X, y = ledger.public
        known = np.isin(y, federation.classes)
        features = {
            name: getattr(self, name)
            for name in ("n_features_in_", "feature_names_in_", "_named_by_nodes")
            if hasattr(self, name)
        }
        kept = KeepingChannel(federation.names, ledger, channel)
        given = federation, kept, (X[known], y[known]), ledger
        look = self.spaces_ is not None
        try:
            self._fit_federation(*given, look=look, features=features)
        except AskAgainError:
            if not (look and isinstance(self.epsilon, str)):
                raise
            # Spaces that bound nothing are not worth asking for.
            self._fit_federation(*given, look=False, features=features)

    # ---- steps of fit -----------------------------------------------------

    def _fit_federation(
        self, federation, channel, public, ledger, *, look=True, features=None
    ) -> None:
        """Ask the nodes, merge what they tell, become fitted."""
        described = run(describe_nodes(), channel)
        nodes = [self._linear_node(node, federation.classes) for node in described]
        stage = self._stage(nodes, ledger, look, federation)
        X, y = public
        public = X, np.searchsorted(federation.classes, y)
        outcome = self._fit_nodes(
            stage, nodes, federation.classes, channel, public, stacklevel=6
        )
        self._publish(
            **(federation.attributes() | (features or {})),
            **outcome.attributes(),
            history_=with_further(channel.history, outcome.merge.further),
            _ledger=ledger,
        )

    def _long_form(self, name, value):
        if name == "geometry" and isinstance(value, str) and value in GEOMETRIES:
            return as_geometry(value)
        return super()._long_form(name, value)

    def _check_epsilon(self, n_nodes: int) -> list:
        if isinstance(self.epsilon, str):
            return ["auto"] * n_nodes
        epsilons = _as_numbers(self.epsilon, "epsilon")
        if epsilons.ndim == 0:
            epsilons = np.full(n_nodes, epsilons)
        if epsilons.shape != (n_nodes,):
            raise ValueError(
                f"epsilon has shape {epsilons.shape}, but there are {n_nodes} nodes; "
                "give one number, or one per node."
            )
        upper = as_criterion(self.criterion).largest
        if not np.all((epsilons >= 0) & (epsilons <= upper)):
            raise ValueError(
                f"epsilon must be between 0 and {upper:g} with criterion="
                f"{self.criterion!r}, got {self.epsilon!r}."
            )
        return epsilons.tolist()

    def _check_node_weight(self, nodes: list[LinearNode]):
        by_rows = self.intersection == "likelihood"
        if isinstance(self.node_weight, str):
            if self.node_weight == "auto":
                return None
            if self.node_weight == "equal":
                return np.ones(len(nodes)) if by_rows else None
            if by_rows:
                return None
            weights = [node.n_rows for node in nodes]
        else:
            weights = self.node_weight
        weights = _as_numbers(weights, "node_weight")
        n_nodes = len(nodes)
        if weights.shape != (n_nodes,) or not (
            np.isfinite(weights).all() and (weights > 0).all()
        ):
            raise ValueError(
                "node_weight must hold one finite positive number per node "
                f"({n_nodes}), got {self.node_weight!r}."
            )
        return weights / weights.mean()

    def _check_candidates(self) -> tuple[str, ...]:
        names = self.candidates
        names = (names,) if isinstance(names, str) else tuple(names)
        unknown = [name for name in names if name not in CANDIDATES]
        if unknown:
            raise ValueError(
                f"candidates must be of {list(CANDIDATES)}, got {unknown}."
            )
        if names and self.n_rounds == 1:
            raise ValueError(
                "candidates are put to the nodes in message 2: set n_rounds to 2 at "
                "least, or leave candidates empty."
            )
        return tuple(dict.fromkeys(names))

    def _warn_of_shared_rows(self, federation: Federation) -> None:
        if federation.rows_are_shared and as_geometry(self.geometry).needs_moments:
            warnings.warn(
                "nodes is not given and nodes share classes, so they share rows: "
                f"geometry={self.geometry!r} cannot tell their rows apart and comes "
                "close to the plain mean. Give fit the node of each row, fit(X, y, "
                "nodes=nodes).",
                UserWarning,
                stacklevel=4,
            )

    def _linear_node(self, node: DescribedNode, classes: np.ndarray) -> LinearNode:
        """The node's weights in the order of the classes, and its rows."""
        network = node.network
        if not network.is_linear:
            raise TypeError(
                f"node {node.name!r} is a network with "
                f"{network.n_hidden_layers} hidden layers; "
                "GEMSLogisticAggregator merges linear models only."
            )
        return linear_node(node, network, classes)

    def _seed(self) -> int | None:
        """One for all nodes: their order must not matter.

        Without one any draw is as good as another, so an earlier one will do.
        """
        if self.random_state is None:
            return None
        return check_random_state(self.random_state).randint(2**31 - 1)

    def _stage(
        self,
        nodes: list[LinearNode],
        ledger: Ledger | None = None,
        look: bool = True,
        federation: Federation | None = None,
    ) -> LinearStage:
        """The parameters, checked, as what merges linear models on arrays."""
        seed = self._seed() if ledger is None else ledger.seed
        by_likelihood = {
            "moments": self.moments,
            "n_components": self.n_components,
            "C": self.C,
            "look": look,
            "candidates": self._check_candidates(),
            "further": FurtherMessages(
                self.n_rounds, self.tol, self.participation, seed, self._log
            ),
        }
        if self.n_rounds > 1 and self.intersection != "likelihood":
            raise ValueError(
                f"n_rounds={self.n_rounds} is for intersection='likelihood': spaces "
                f"are met in one message, but intersection={self.intersection!r}."
            )
        common = {
            "geometry": as_geometry(self.geometry),
            "criterion": as_criterion(self.criterion),
            "construction": self.construction,
            "epsilons": self._check_epsilon(len(nodes)),
            "intersection": self.intersection,
            "node_weight": self._check_node_weight(nodes),
            "scale_logits": self.scale_logits,
            "n_directions": self.n_directions,
            "max_radius": self.max_radius,
            "seed": seed,
            "log": self._log,
            "min_rows": self.min_rows,
            "calibrate": None,
            "one_summary": False,
        }
        if self.intersection == "likelihood":
            return LikelihoodStage(**common, **by_likelihood)
        if federation is not None:
            common["one_summary"] = (
                len(nodes) == 1 and federation.nodes[0].summary is not None
            )
            weights = {"node_weight": None}
            reader = LikelihoodStage(**(common | weights), **by_likelihood)
            common["calibrate"] = _calibration(federation, reader)
        return LinearStage(**common)

    def _channel(self, federation: Federation) -> InProcess:
        """How the nodes are asked; a search over epsilon asks for the same again."""
        return InProcess(
            [federation.member(node) for node in federation.nodes],
            n_jobs=self.n_jobs,
            recalls=True,
            memory=self.memory,
        )

    def _fit_nodes(
        self,
        stage: LinearStage,
        nodes: list[LinearNode],
        classes: np.ndarray,
        channel: InProcess,
        public: tuple,
        below: Below | None = None,
        *,
        stacklevel: int = 5,
    ) -> _Outcome:
        """Merge models and tune the result; changes nothing here.

        ``public`` are public rows, as they come out of the layers ``below``, and the
        places of their labels among the classes.
        """
        below = Below() if below is None else below
        merge = run(stage.plan(nodes, classes, below), channel)
        names = [node.name for node in nodes]
        self._report_empty(stage, merge, names, stacklevel=stacklevel)
        self._log_found(merge, nodes)
        W, tuned, factor = merge.W, None, merge.factor
        if len(public[1]):
            W, tuned = self._tuned(factor * W, merge, *public)
            factor = 1.0
        n_rows, aggregate, own = run(
            stage.scores_plan(factor * W, merge, nodes, classes, below), channel
        )
        unknown = [np.nan] * len(nodes)
        spaces = merge.spaces or []
        point = merge.intersection.point if spaces else None
        scores = {
            "node": names,
            "n_rows": n_rows,
            "epsilon": [space.epsilon for space in spaces] or unknown,
            "local": [p.score for p in merge.profiles] if spaces else own,
            "aggregate": aggregate,
            "on_own_scale": own if spaces else unknown,
            "radius": [space.radius for space in spaces] or unknown,
            "distance": [float(space.distance(point)) for space in spaces] or unknown,
        }
        return _Outcome(W, factor, merge, stage.geometry, tuned, scores)

    def _log_found(self, merge: LinearMerge, nodes: list[LinearNode]) -> None:
        if merge.intersection is None or not merge.intersection.found:
            return
        if all(node.known.all() for node in nodes):
            return
        free = merge.profiles[0].outputs is not None
        self._log(
            "a model in all spaces was found"
            + (
                f"; geometry={self.geometry!r} says nothing of classes that a node "
                "never saw, so among nodes of different classes that means little"
                if free
                else ""
            )
        )

    def _report_empty(self, stage: LinearStage, merge, names, stacklevel) -> None:
        found = merge.intersection
        if found is None or found.found or self.on_empty == "ignore":
            return
        if found.method == "likelihood" and found.lower_bound == 0:
            return  # nothing was to be kept
        words = stage.words_of_empty(merge, names)
        if self.on_empty == "raise":
            raise EmptyIntersectionError(words)
        warnings.warn(
            f"{words} The model that misses the spaces least is used.",
            EmptyIntersectionWarning,
            stacklevel=stacklevel,
        )

    # ---- weights ----------------------------------------------------------

    def _weights(self) -> np.ndarray:
        """Weights of shape (n_features + 1, n_classes), one column per class."""
        W = np.vstack([self.coef_.T, self.intercept_])
        return W * [-0.5, 0.5] if len(self.classes_) == 2 else W

    def _logits(self, X) -> np.ndarray:
        return linear_logits(X, self._weights())

    def predict_proba(self, X) -> np.ndarray:
        """Class probabilities.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
            In the order of ``classes_``. The softmax of the decision values; of those
            of a pooled RidgeClassifier or NearestCentroid, which are no logits, times
            the factor under which the nodes' rows are likeliest.
        """
        logits = self._validated_logits(X)
        return softmax(self._factor * logits, axis=1)

    def _tuned(
        self, W: np.ndarray, merge: LinearMerge, X, y
    ) -> tuple[np.ndarray, FineTuned | None]:
        """Weights after fine-tuning on public rows; changes nothing here."""
        rng = check_random_state(self.random_state)
        if self.fine_tuning == "plain":
            return train_plainly(X, y, Layers.linear(W), rng).layers.last, None
        if merge.likelihood is not None:
            result = tune_likelihood(
                merge.likelihood, X, y, W, random_state=rng, log=self._log
            )
            return result.W, result
        spaces, intersection = merge.spaces, merge.intersection
        weights = intersection.weights
        if not (self.intersection == "consensus" and intersection.found):
            # These weigh squared distances that are divided by the radius.
            weights = weights / np.array([space.radius for space in spaces]) ** 2
            weights = weights / weights.sum()
        combined = combine_metrics([space.metric for space in spaces], weights)
        # About the nodes' mean, so that the zero of a feature does not matter. Sparse
        # rows stay as they are.
        mean, diagonal = np.zeros(X.shape[1]), combined.diagonal()
        if combined.family == "gram" and not issparse(X):
            mean, diagonal = combined.centred()
        precision = _never_free(diagonal.mean(axis=1), X)
        result = fine_tune_linear(
            X - mean.astype(X.dtype) if mean.any() else X,
            y,
            _about(W, mean),
            precision,
            random_state=rng,
            log=self._log,
        )
        self._log(f"fine-tuning: strength {result.strength:.3g}")
        result = replace(result, W=_about(result.W, -mean))
        return result.W, result


def _about(W: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Weights of the same logits where rows have another zero."""
    if not mean.any():
        return W
    return np.vstack([W[:-1], W[-1] + mean @ W[:-1]])


def _never_free(precision: np.ndarray, X) -> np.ndarray:
    """Something for features that no node shows: their variance on the public rows."""
    free = np.flatnonzero(precision <= 0)
    if len(free):
        precision = precision.copy()
        own = X[:, free]
        own = own.toarray() if issparse(own) else own
        variances = np.var(own, axis=0, dtype=np.float64)
        precision[free] = np.where(variances > 0, variances, 1.0)
    return precision


def _labelled(federation: Federation, rows) -> tuple:
    """Some rows with their labels; lists of none where there are no rows at all."""
    if federation.X is None:
        return [], []
    return federation.X[rows], federation.classes[federation.y[rows]]


def _calibration(federation: Federation, reader: LikelihoodStage):
    """How to find a factor on logits where no node has rows to judge them by."""

    def plan(W, nodes, classes):
        X, y = _labelled(federation, federation.spare_rows)
        if len(y):
            logits = linear_logits(X, W).astype(np.float64)
            return fit_inverse_temperature(logits, np.searchsorted(classes, y))
        return (yield from reader.temperature_plan(W, nodes, classes))

    return plan


@dataclass(frozen=True, eq=False)
class _Outcome:
    """All that ``fit`` comes to, before it is published."""

    W: np.ndarray
    factor: float
    merge: LinearMerge
    geometry: Geometry
    tuned: FineTuned | None
    scores: dict

    def attributes(self) -> dict:
        form, further = self.merge.form, self.merge.further
        return {
            **linear_attributes(self.W),
            "_factor": self.factor,
            "_merge": self.merge,
            "geometry_": self.geometry,
            "spaces_": self.merge.spaces,
            "intersection_": self.merge.intersection,
            "likelihood_": self.merge.likelihood,
            "exact_": bool(form is not None and form.is_exact and not self.tuned),
            "pooled_form_": form,
            "candidates_": further.candidates if further is not None else None,
            "fine_tuning_": self.tuned,
            "node_scores_": self.scores,
        }


def _as_numbers(values, name: str) -> np.ndarray:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"{name} must hold a number, or one per node, got {values!r}."
        ) from None
