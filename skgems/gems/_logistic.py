"""GEMS for linear classifiers: one model in the intersection of good-enough spaces."""

from numbers import Integral, Real

import numpy as np
from scipy.sparse import sparray, spmatrix
from sklearn.utils.validation import check_is_fitted

from ..asking import (
    KeepRepliesMixin,
    ReportMixin,
    federated_fit,
    fit_method,
    read_federation,
    run_of,
)
from ..base import Allows, BaseAggregator, LinearExportMixin, tuning_step
from ..compat import Interval, StrOptions, shown
from ..disclosure import disclosure_of
from ..guard import SummarizingMixin, summary_in_ledger
from ..parties import Summary
from ..private import Privacy, raise_needs_more
from ._further import Rounds
from ._inference import InferenceMixin, kept_for_inference
from ._linear_method import LinearMethod
from ._node_scores import ask_scores
from ._noise import NoisyLinearMethod
from ._parameters import Moments, Spaces
from ._problem import check_are_linear

_FROM_0 = Interval(Real, 0, None, closed="left")
_FROM_0_WHOLE = Interval(Integral, 0, None, closed="left")
_FROM_1 = Interval(Integral, 1, None, closed="left")
Rows = np.ndarray | sparray | spmatrix  # (n_rows, n_features)


class GEMSLogisticAggregator(
    SummarizingMixin,
    InferenceMixin,
    KeepRepliesMixin,
    ReportMixin,
    LinearExportMixin,
    BaseAggregator,
):
    """One linear classifier that is good enough for every node.

    Each node has rows and a fitted linear classifier. It sends its classifier and sums
    of its rows by class: counts, means and second moments. The aggregate is the linear
    model under which the rows of all nodes are likeliest. It is nearly the model that
    would be fitted on all rows at one place.

    If `epsilon` is given, the aggregate must also be good enough for every node. The
    models around a node's own that still reach `epsilon` on its rows are its
    *good-enough space*. The aggregate is then the likeliest model in the intersection
    of all spaces. If they have no common point, this is proved, and the aggregate is
    the point that misses them least. No local estimator is refitted or altered.

    Parameters
    ----------
    estimators : list of classifiers, list of (name, classifier) tuples, or None
        The local estimators, one per node. They are fitted linear classifiers, and
        their classes may differ. Any classifier with ``coef_`` and ``intercept_`` will
        do, and skorch nets of one Linear layer. They may be in pipelines of affine
        steps, in FrozenEstimator or in searches. An entry may be None for a node that
        has rows but no fitted classifier; good-enough spaces cannot be built then.
        Unfitted classifiers, or a single one, are trained on the rows of each node
        (simulation). None stands for ``LogisticRegression()``.
    epsilon : "auto", float or array-like of shape (n_nodes,), default="auto"
        The level that the aggregate has to reach on each node's rows: the least
        accuracy, or the largest log-loss if that is the criterion of `spaces`. "auto"
        is half of the accuracy of the node's own model, or twice its log-loss. Give a
        number if a model that fails at some node is of no use.
    intersection : {"likelihood", "consensus", "deepest", "hinge"}, \
default="likelihood"
        Which model of the intersection the aggregate is. With "likelihood" and
        ``epsilon="auto"`` no spaces are built. Choose another to repeat the methods of
        the papers.

        - "likelihood": the model that is likeliest for the moments of all nodes.
        - "consensus": the model that moves all nodes' models least.
        - "deepest": the model that is deepest inside all spaces.
        - "hinge": the first model met on the way from the average (GEMS 2019, Eq. 2).
    C : {"members", "auto"} or float, default="members"
        Inverse strength of the penalty of the likeliest model, as in
        LogisticRegression. The penalty is on features as they are, or on features of
        unit variance where nodes scale theirs in pipelines. "members" takes over the
        strength of the nodes' classifiers: the median over all rows where they differ,
        and 1.0 where none tells its strength (:ref:`member_penalties`). "auto" chooses
        a strength by generalized cross-validation of the nodes' sums
        (:ref:`chosen_penalty`); it is as "members" if nodes send variances alone.
        ``np.inf`` stands for no penalty. Choose "auto" if features are random, or many
        for the number of rows, and give a number to search for the best strength.
    class_weight : {"members", "balanced"}, dict or None, default="members"
        Weights of the rows by class, as ``LogisticRegression(class_weight)`` would have
        them on the rows of all nodes. "members" takes over the weights of the nodes'
        classifiers if they agree. Probabilities are those of weighted rows. It is used
        with ``intersection="likelihood"``. Choose "balanced" if rare classes are
        missed.
    n_rounds : int or Rounds, default=1
        Number of messages that the likeliest model is made of. With 1 there are the
        moments alone. In message 2 nodes send the loss and gradient of the likeliest
        model, in later ones those of four models, and the best model is kept. The loss
        on all rows, with the penalty, never rises if all nodes reply, and approaches
        that of ``LogisticRegression(C)`` on all rows. Take 5 or more if nodes can be
        asked several times and their rows are far from Gaussian.
        :class:`~skgems.gems.Rounds` has more options.
    spaces : Spaces or {"gram", "ellipsoid", "ball"}, default="gram"
        How good-enough spaces are built. A word stands for their shape;
        :class:`~skgems.gems.Spaces` has more options, among them the criterion of what
        is good enough. Its parameters can be searched as ``spaces__on_empty``.
    moments : Moments or {"auto", "class", "shared", "diagonal"}, default="auto"
        Which sums nodes send with ``intersection="likelihood"``. A word stands for the
        kind of matrices; :class:`~skgems.gems.Moments` has more options. Its parameters
        can be searched as ``moments__n_components``. Choose "shared" or "diagonal" if
        nodes should send less.
    fit_intercept : "members" or bool, default="members"
        Whether the likeliest model has an intercept. With "members" it has one unless
        there is none in any of the nodes' classifiers that tell.
    node_weight : {"auto", "equal", "n_samples"} or array-like of shape (n_nodes,), \
default="auto"
        Weight of each node in the likelihood, or in the sum that "consensus" minimizes.
        "auto" weighs nodes by their rows in the likelihood, and equally otherwise.
        Choose "equal" if a large node should not decide for small ones.
    fine_tuning : {"penalized", "plain"}, default="penalized"
        How public rows are used. With "penalized" they are one more node of the
        likelihood, with a cross-validated weight. Without the likelihood a penalty,
        whose strength is cross-validated, holds the aggregate to what nodes know.
        "plain" stands for 5 epochs of Adam, as in the papers.
    robust : int, default=0
        How many nodes may lie: at most so many are left out of the aggregate, those
        whose class sums contradict the others' most (:ref:`liars`). A node then counts
        at most twice the rows of the largest others. It needs more than twice as many
        nodes, ``intersection="likelihood"``, ``epsilon="auto"`` and one message, since
        neither models nor gradients can be checked. Choose 1 or more if the nodes do
        not know each other. With 0 all nodes are trusted.
    validation_fraction : float, default=0.2
        In simulation, the share of each node's rows that its classifier is not trained
        on. These rows judge models, and decide the size of the node's space; sums are
        of all rows. It is not used if ``fit`` has `held_out`.
    keep_replies : bool, default=False
        Whether to keep what the nodes sent, so that :meth:`update` can add nodes and
        :meth:`forget` can remove them without asking the others again. It needs
        ``intersection="likelihood"`` and one message, and takes as much memory as the
        messages. A pickle holds what the nodes sent only if this is True.
    memory : str or object with the joblib.Memory interface, default=None
        Where to keep results that do not depend on `epsilon`, for searches over it.
        With None they are kept in the process, within a quarter of scikit-learn's
        ``working_memory``. Give a folder if several processes should share them; it
        also keeps the clones that simulation trains.
    disclosure : Disclosure, "auto" or None, default="auto"
        The rule for what nodes tell of their rows, see :class:`~skgems.Disclosure`.
        With "auto" it is ``Disclosure()`` for all that leaves a process, and there is
        no rule within ``fit(X, y)``, where nothing leaves. Pass a Disclosure to
        simulate an exchange under it. None is for parties that are one organization.
    privacy : Privacy, default=None
        Noise on the sums of each node, see :class:`~skgems.Privacy`. Each node then
        sends one vector of sums, and nothing else that depends on its rows. The local
        classifiers are set aside. One covariance is of all classes, unless `moments` is
        "class": name that if rows are many and columns few. Rows are put within the
        agreed bounds, also in predictions. Choose it if nobody may find out whether a
        person is among the rows. None tells sums as `disclosure` lets them.
    front : transformer, default=None
        Transformers that all nodes apply before the model. An unfitted front is fitted
        to statistics that the nodes send, by :class:`~skgems.PooledTransformer`, which
        may also be given itself. A fitted front stays as it is. The local estimators
        take what comes out of the front. If rows are documents, one text or dict each,
        it is a HashingVectorizer or FeatureHasher.
    n_jobs : int, default=None
        Number of nodes that are treated in parallel. Results do not depend on it.
    verbose : bool or int, default=0
        Whether to print progress.
    random_state : int, RandomState instance or None, default=None
        Source of the directions in which spaces are measured. In simulation it also
        deals rows to nodes and seeds the clones. It draws the nodes that further
        messages ask, and the folds of fine-tuning. Clusters of rows do not depend on
        it: the node's rows decide them. Give an int for the same results in each call.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted union of the classes that the nodes know.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Weights of the aggregate. With two classes there is one output.
    estimators_ : list of classifiers
        The fitted local estimators.
    node_names_ : list of str
        Names of the nodes.
    geometry_ : Geometry
        The object that the geometry of `spaces` stands for.
    spaces_ : list of GoodEnoughSpace or None
        Good-enough spaces of the nodes, as from :meth:`good_enough_spaces`. None if
        spaces do not bound the aggregate.
    intersection_ : Intersection or None
        The point in the intersection, whether it is in all spaces, and the proof if
        there is none. None without spaces.
    likelihood_ : Likelihood or None
        What the nodes sent, as a loss. None unless ``intersection="likelihood"``, and
        None after unpickling unless `keep_replies`; so is `spaces_`.
    C_ : float or None
        Inverse strength of the penalty of the aggregate, which `C` stands for. None if
        it has no such penalty: if it is a function of sums (``pooled_form_``), or with
        another `intersection`.
    front_ : transformer
        The fitted `front`, in plain scikit-learn. The result of :meth:`to_estimator`
        begins with it.
    exact_ : bool
        Whether the aggregate is scikit-learn's fit on all rows, but for rounding. This
        is so if the classifiers of all nodes are RidgeClassifier,
        LinearDiscriminantAnalysis or euclidean NearestCentroid, of one kind and with
        equal parameters. Labels are then equal. Decision values are equal to 1e-8 of
        their size on float64 rows, apart from what all classes share. For iterative
        ridge solvers, they are the values that the solver converges to.
    pooled_form_ : PooledForm or None
        Which function of sums the aggregate is, by its ``kind``, or the ``reason`` why
        it is none, with the parameter and the nodes. If there are both, it is made of
        sums, but scikit-learn's fit may decide otherwise, since scatter matrices are
        ill-conditioned. None unless ``intersection="likelihood"``.
    history_ : list of dict
        One entry for each message to the nodes:

        - "task": what the nodes were asked;
        - "bytes_sent" to all nodes and "bytes_received" from them;
        - "seconds": how long it took;
        - "left_out": names of the nodes that failed;
        - "loss": not used here;
        - "min_rows": by node, the bound under which it replied;
        - "objective": the log-loss with the penalty, in nats a row of all nodes, of the
          model that was kept after a further message; None for other messages;
        - "accuracy": that of the same model on held-out rows, or on all rows if none
          are held out; None for other messages.
    candidates_ : Candidates or None
        The loss of each candidate of `n_rounds`, and which one was chosen. None without
        candidates.
    node_scores_ : dict of lists
        A table with one entry per node in each list, NaN where there is none:

        - "node": its name;
        - "n_rows": number of its rows, of classes that it knows, which judge models;
        - "epsilon": its level;
        - "local": score of its own model by the criterion of `spaces`. With the
          log-loss and ``spaces="gram"`` it also counts classes that the node never saw;
        - "aggregate": score of the aggregate on these rows;
        - "on_own_scale": the score that `epsilon` bounds. It is that of the point of
          the intersection, with the node's own factor on logits, among the classes of
          its space;
        - "radius": that of its space;
        - "distance": that of the point of the intersection from the center of its
          space;
        - "loss": log-loss of the likeliest model of one message on the node's moments,
          in nats a row.
    trust_ : dict of lists or None
        What was found of the nodes if `robust` is not 0: a table with one entry per
        node in each list, NaN where nothing can be known:

        - "node": its name;
        - "rows": rows, or their weight, that it claims in its sums;
        - "counted": those that count in the aggregate; 0 if it is left out;
        - "spread": the factor by which its rows vary more or less within classes than
          those of the median node, at the largest tenth of the features;
        - "far": how many standard deviations its rows are away from those of the same
          classes at the others, in root mean squares over features;
        - "shown": which part of the others' differences between class means its own
          show. 1 is all, 0 is expected for random labels, and -1 for features of the
          opposite sign;
        - "left_out_by": "spread", "far" or "shown" if it is left out, else "".
    fine_tuning_ : FineTuned or None
        How public rows were used in the last fine-tuning with a penalty, if there was
        one.
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
    skgems.spaces.build_space : Build the space of one node alone.
    skgems.spaces.intersect : Intersect spaces.
    PooledAggregator : The classifier that is a function of sums, whatever nodes have.

    Notes
    -----
    If the rows of one node are dealt over several nodes with the same classifier,
    functions of sums (``exact_``) change by rounding alone. The likeliest model
    changes, since each node has its own clusters: probabilities move by 0.01 on average
    and by 0.2 at most. Points of spaces change, too.

    References
    ----------
    N. Guha, V. Smith: Model Aggregation via Good-Enough Model Spaces, 2019.

    Examples
    --------
    Five nodes know two digits each, so no local classifier is right more often than for
    a quarter of all digits. The aggregate knows all ten:

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
    >>> max(clf.score(X[test], y[test]) for clf in locals_) < 0.25
    True
    >>> agg = GEMSLogisticAggregator(locals_, random_state=0)
    >>> agg.fit(X[val], y[val]).score(X[test], y[test]) > 0.85
    True
    """

    _method_class = LinearMethod
    _noisy_method_class = NoisyLinearMethod
    _parts = {
        "n_rounds": Rounds,
        "spaces": Spaces,
        "moments": Moments,
        "privacy": Privacy,
    }
    _parameter_constraints: dict = {
        **BaseAggregator._parameter_constraints,
        "epsilon": [StrOptions({"auto"}), "array-like", _FROM_0],
        "intersection": [StrOptions({"likelihood", "consensus", "deepest", "hinge"})],
        "C": [StrOptions({"members", "auto"}), Interval(Real, 0, None, closed="right")],
        "class_weight": [StrOptions({"members", "balanced"}), dict, None],
        "fit_intercept": [StrOptions({"members"}), "boolean"],
        "node_weight": [StrOptions({"auto", "equal", "n_samples"}), "array-like"],
        "fine_tuning": [StrOptions({"penalized", "plain"})],
        "robust": [_FROM_0_WHOLE],
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
        robust=0,
        validation_fraction=0.2,
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
        self.robust = robust
        self.validation_fraction = validation_fraction
        self.keep_replies = keep_replies
        self.memory = memory
        self.disclosure = disclosure
        self.privacy = privacy
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
        sample_weight=None,
    ) -> "GEMSLogisticAggregator":
        """Merge the nodes' models by the statistics of their rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
            Rows of the nodes. With ``intersection="likelihood"`` they make the moments,
            so give all rows of a node, those that its classifier was fitted on
            included. With other intersections they only judge models, best if no
            classifier was fitted on them. In simulation, local estimators are trained
            on them. Summaries need no rows.
        y : array-like of shape (n_samples,), default=None
            Labels of the rows.
        nodes : array-like of shape (n_samples,), default=None
            Index or name of the node that owns each row. Rows of -1 or "public" are
            public and fine-tune the aggregate. Rows given for a node that is
            represented by a summary are used only to score the aggregate. With None
            each row belongs to every node that has seen its label and is no summary.
            Rows that then belong to no node calibrate probabilities, unless moments do.
        held_out : array-like of shape (n_samples,), dtype bool, default=None
            True for rows that only judge and calibrate; the other rows make the
            moments. With None all rows do both. Give it to get scores that are not
            optimistic.
        groups : array-like of shape (n_samples,), default=None
            Group of each row, for example the patient. Rows of one group stay together
            if rows are dealt to simulated nodes, held out by `validation_fraction`, or
            dealt to folds of public rows. A cluster of rows has rows of at least ten
            groups. None means that each row stands alone.
        sample_weight : array-like of shape (n_samples,), default=None
            How much each row counts in the sums: a row of weight 2 counts as two equal
            rows, and one of weight 0 as none (:ref:`weights`). With None each row
            counts once. Good-enough spaces are no sums: weights need
            ``epsilon="auto"`` and ``intersection="likelihood"``. Simulated classifiers
            are trained with the weights.

        Returns
        -------
        self : GEMSLogisticAggregator
            The fitted aggregate.

        Raises
        ------
        ValueError
            If a node has no rows, no node knows a label, or the input cannot be used.
            The message names the node.
        EmptyIntersectionError, NoSpaceError
            ValueErrors, if the spaces have no common point, or a local model does not
            reach its epsilon, and `spaces` have ``on_empty="raise"``.
        TypeError
            If a node's classifier is a network with hidden layers.

        Warns
        -----
        ClassWeightWarning
            If the nodes' classifiers have different weights of classes.
        HeavyTailsWarning
            If rows lie so far out that moments do not describe them.
        VariancesOnlyWarning
            If matrices would be too large and only variances are sent.
        SharedCovarianceWarning
            If classes share one covariance, since they or the features are too many.
        PenaltyWarning, InterceptWarning
            If the nodes' classifiers differ in the penalty or the intercept that the
            aggregate takes over.
        NodesDisagreeWarning
            If the moments of some nodes show another rule than those of the others.
        ManyRowsWarning
            If a node has nearly all rows.
        SameRowsWarning
            If two nodes sent equal moments.
        EmptyIntersectionWarning
            If `epsilon` is given and no model was found that is good enough for all
            nodes, or a local model does not reach its epsilon.
        """
        return fit_method(
            self,
            X,
            y,
            nodes,
            held_out,
            groups=groups,
            sample_weight=sample_weight,
        )

    @shown
    def summarize(
        self,
        estimator,
        X=None,
        y=None,
        *,
        name,
        chunks=None,
        held_out=None,
        groups=None,
        sample_weight=None,
        disclosure="auto",
        classes=None,
        space="auto",
        state=None,
        limits=None,
    ) -> Summary:
        """Make the summary that a node sends.

        This runs at the node, with an aggregator that has the agreed parameters. It
        needs no ``estimators`` and is not changed. A fit on summaries gives the same
        aggregate, to the bit, as ``fit(X, y, nodes)`` with the rows of all nodes. Nodes
        and server must agree on `moments`, `class_weight`, `random_state` and `spaces`,
        except for ``on_empty``.

        Parameters
        ----------
        estimator, X, y, name, held_out, groups, sample_weight, disclosure
            The node's classifier, its rows and labels, its name, which rows only score,
            and how much each row counts in sums. `disclosure` is the rule for what the
            summary tells of the rows. All are as for
            :func:`~skgems.guard.reply_to`.
        chunks : callable, default=None
            Gives the rows in parts, in place of X, y, ``held_out`` and
            ``sample_weight``. Use it if the rows do not fit into memory
            (:ref:`many_rows`). It is called twice, and returns an iterator over the
            same ``(X, y)``, ``(X, y, held_out)`` or ``(X, y, held_out, sample_weight)``
            each time.
        classes : array-like, default=None
            The classes of all nodes. Give them if they are known, since less is sent
            then. They are needed for ``spaces=Spaces(criterion="log_loss")``, which
            counts classes.
        space : "auto" or bool, default="auto"
            Whether to send the good-enough space, which takes n_features^2 numbers with
            ``spaces="gram"`` and tells how far single rows are. With "auto" it is sent
            if `epsilon` or `intersection` need it and ``disclosure`` is None. Set it to
            True to send it under a rule as well, or if the server may need it later.
        state : str, os.PathLike or mutable mapping of str to bytes, default=None
            The node's ledger, as for :func:`~skgems.guard.reply_to`, in which a
            summary with noise (`privacy`) is counted and kept. The same rows get the
            same summary again. If None, nobody counts what is drawn.
        limits : Limits, default=None
            With `state`, the most that may be spent (``most_epsilon``), and the most
            memory and time. If None, the defaults of
            :class:`~skgems.guard.Limits` are used.

        Returns
        -------
        summary : Summary
            The summary, which the node saves and sends.

        Raises
        ------
        TooFewRowsError
            A ValueError, if there are too few rows of every class.
        ValueError
            If the classifier is not fitted, rows are not as it knows them, the method
            asks more than one message, or the chunks differ the second time. It is also
            raised if a space is asked for with chunks. The message gives the number of
            a chunk, counted from 0.

        Warns
        -----
        ClassesLeftOutWarning
            If classes are left out since they have few rows. The message names them.
        HeavyTailsWarning
            If rows lie so far out that moments do not describe them.
        VariancesOnlyWarning
            If matrices would be too large and only variances are sent.
        SharedCovarianceWarning
            If the classes of the node share one covariance for the same reason.

        Examples
        --------
        Two hospitals send summaries, and the server fits the aggregate to them:

        >>> from sklearn.datasets import load_iris
        >>> from skgems import GEMSLogisticAggregator
        >>> X, y = load_iris(return_X_y=True)
        >>> agg = GEMSLogisticAggregator(random_state=0)
        >>> rows = {"lyon": y < 2, "paris": y > 0}
        >>> sent = [agg.summarize(None, X[o], y[o], name=k) for k, o in rows.items()]
        >>> agg.set_params(estimators=sent).fit().score(X, y) > 0.9
        True
        """
        rows = {
            "X": X,
            "y": y,
            "chunks": chunks,
            "held_out": held_out,
            "groups": groups,
            "sample_weight": sample_weight,
        }
        if state is not None or limits is not None:
            return summary_in_ledger(self, rows, name=name, state=state, limits=limits)
        if space == "auto" and disclosure_of(disclosure) is not None:
            space = False
        return self._summarize(
            estimator,
            rows=rows,
            name=name,
            disclosure=disclosure,
            classes=classes,
            space=space,
        )

    def good_enough_spaces(self, X=None, y=None, nodes=None, held_out=None) -> list:
        """Build the nodes' spaces, also if they do not bound the aggregate.

        The aggregate itself is not changed.

        Parameters
        ----------
        X, y, nodes, held_out : array-like, default=None
            Rows of the nodes, as for :meth:`fit`. Summaries that were made with
            ``space=True`` need none.

        Returns
        -------
        spaces : list of GoodEnoughSpace
            One space per node of ``node_names_``, for the level `epsilon`, with the
            outputs in the order of ``classes_``. With ``intersection="likelihood"``
            they are on the scale of the aggregate's logits.

        Raises
        ------
        NotFittedError
            If `fit` was not called.
        ValueError
            If a node has no rows and sent no space, or if its own model does not reach
            `epsilon`. The message names the node.
        """
        check_is_fitted(self)
        members = zip(self.node_names_, self.estimators_, strict=True)
        federation = read_federation(self._with_members(members), X, y, nodes, held_out)
        method = self._method()
        method = method.with_seed(method.terms.seed())
        method.check_has_spaces(federation)
        check_are_linear(federation)
        stage = method.stage(federation, self.classes_)
        plan = stage.spaces_around_plan(self._factor * self._weights())
        return run_of(self, federation)(plan)

    def ask_scores(self) -> "GEMSLogisticAggregator":
        """Ask the nodes behind a channel how good the aggregate is for them.

        A fit over a channel does not ask for scores. This sends one more message to all
        nodes.

        Returns
        -------
        self : GEMSLogisticAggregator
            Its ``node_scores_`` are then those of a fit on rows. They are NaN, with a
            warning, for nodes that do not reply. ``history_`` has one more entry.

        Raises
        ------
        NotFittedError
            If `fit` was not called.
        ValueError
            If the aggregator was not fitted over a channel, or was fine-tuned since.
        """
        check_is_fitted(self)
        if self.privacy is not None:
            raise_needs_more("ask_scores")
        ask_scores(self, self.estimators)
        return self

    @property
    def _allows(self) -> Allows:
        return Allows() if self.privacy is None else NoisyLinearMethod.allows

    def _drop_sums(self, state: dict) -> dict:
        """Return a state in which no attribute holds what nodes sent."""
        if "_merge" not in state:  # not fitted
            return state
        intersection = state["intersection_"]
        if intersection is not None and intersection.spaces:
            intersection = intersection.drop_spaces()
        has_none = state["likelihood_"] is None and state["spaces_"] is None
        return state | {
            "_merge": None,
            "_kept_sums": kept_for_inference(state, self._factor * self._weights()),
            # A last layer loses its likelihood where hidden layers are tuned.
            "_has_sums": has_none and state.get("_has_sums", True),
            "likelihood_": None,
            "spaces_": None,
            "intersection_": intersection,
        }

    @tuning_step
    def fine_tune(self, X, y, *, groups=None) -> "GEMSLogisticAggregator":
        """Fine-tune the fitted aggregate on public rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Public rows.
        y : array-like of shape (n_samples,)
            Their labels, all of which must be in ``classes_``.
        groups : array-like of shape (n_samples,), default=None
            Group of each row, for example the patient. Rows of one group are in the
            same fold of the cross-validation. None means that each row stands alone.

        Returns
        -------
        self : GEMSLogisticAggregator
            With new ``coef_`` and ``intercept_``. Its ``node_scores_`` are still those
            of `fit`.
        """
        vars(self).update(self._method().tuned_attributes(self, X, y, groups=groups))
        vars(self).pop("evaluation_", None)  # it was of the model before
        return self
