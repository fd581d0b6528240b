"""Ensembles of fitted classifiers whose classes differ, and their probabilities."""

import sys
from copy import copy

import numpy as np
from scipy.sparse import csr_matrix, issparse
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.pipeline import make_pipeline
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from ..base import BaseAggregator, keeps_warnings, named_members
from ..choice import Candidate, Choice, choose
from ..compat import HasMethods, StrOptions, fit_context, safe_indexing
from ..federation import (
    MIN_ROWS,
    Federation,
    Message,
    ReportMixin,
    Simulation,
    Summary,
    ask_shares,
    check_no_label_missing_at,
    read_federation,
    shown_labels,
)
from ..gems import GEMSLogisticAggregator
from ..local import LocalModel, fit_local, local_model, to_logits
from ..networks import union_of_classes
from ..pooled import PooledAggregator, PooledTransformer, shrunk_lda
from ..progress import shown
from ._given_rows import GivenRowsMixin, row_digests, rows_as_given
from ._odds import MemberOdds

# Of one vote: enough to break ties, too little to count.
_TIE = 1e-6
# Probabilities below are left out: a row is repeated for the classes that matter.
_NEGLIGIBLE = 1e-3
# Without sample weights: copies of a row, dealt to the classes.
_COPIES = 10


def row_noise(X, n_columns: int, seed: int) -> np.ndarray:
    """Uniform numbers that depend on a row's values and the seed, on nothing else."""
    # Multilinear hashing of bits modulo 2^64, scrambled by the finalizer of splitmix64.
    rng = np.random.default_rng(seed)
    if hasattr(X, "columns"):
        hashed = sys.modules["pandas"].util.hash_pandas_object(X, index=False)
        X = np.asarray(hashed, dtype=np.uint64)[:, None]
    elif rows_as_given(X) is not None:
        X = row_digests(X)
    elif not issparse(X):
        X = np.reshape(X, (len(X), -1))
    factors = rng.integers(2**64, size=(X.shape[1], 1), dtype=np.uint64)
    offsets = rng.integers(2**64, size=n_columns, dtype=np.uint64)
    if issparse(X):
        bits = csr_matrix((_bits(X.data), X.indices, X.indptr), shape=X.shape)
    else:
        bits = _bits(np.ascontiguousarray(X))
    mixed = np.asarray(bits @ factors).reshape(-1, 1) + offsets
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    return (mixed >> np.uint64(11)) * 2.0**-53


def _bits(values):
    if values.dtype == np.uint64:
        return values
    # Adding zero turns -0.0, which is no stored entry of a sparse row, into 0.0.
    return (values.astype(np.float64) + 0.0).view(np.uint64)


def fit_to_probabilities(student, X, proba, classes, seed: int | None = None):
    """Fit and return a classifier of soft targets; of one class, a DummyClassifier."""
    weighted = has_fit_parameter(student, "sample_weight")
    if weighted:  # by which its loss is the cross-entropy
        kept = proba >= min(_NEGLIGIBLE, proba.max(axis=1).min())
        weights = np.where(kept, proba, 0.0)
        weights /= weights.sum(axis=1, keepdims=True)
    else:  # rounded down, and what is missing dealt to the largest remainders
        exact = proba * _COPIES
        weights = np.floor(exact).astype(np.int64)
        missing = _COPIES - weights.sum(axis=1, keepdims=True)
        order = np.argsort(weights - exact, axis=1, kind="stable")
        weights += np.argsort(order, axis=1) < missing
    rows, columns = np.nonzero(weights)
    amounts = weights[rows, columns]
    if len(np.unique(columns)) == 1:
        return DummyClassifier(strategy="most_frequent").fit(X, classes[columns])
    if weighted:
        X = safe_indexing(X, rows)
        return student.fit(X, classes[columns], sample_weight=amounts)
    rows, columns = np.repeat(rows, amounts), np.repeat(columns, amounts)
    # Copies of a row would otherwise share a batch, or a fold.
    order = np.random.RandomState(0).permutation(len(rows))
    X = safe_indexing(X, rows[order])
    return fit_local(student, X, classes[columns[order]], classes, seed)


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
    weights : {"equal", "n_samples", "class_counts"} or array-like, default="equal"
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

    _allow_nd = True  # images for convolutions
    _parameter_constraints: dict = {
        **BaseAggregator._parameter_constraints,
        "combine": [StrOptions({"vote", "stack", "auto"})],
        "voting": [StrOptions({"soft", "hard"})],
        "weights": [StrOptions({"equal", "n_samples", "class_counts"}), "array-like"],
        "beside": [HasMethods(["fit", "transform"]), None],
        "summaries": "no_validation",
    }

    def __init__(
        self,
        estimators=None,
        *,
        combine="vote",
        voting="soft",
        weights="equal",
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
        self.weights = weights
        self.beside = beside
        self.summaries = summaries
        self.front = front
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=False)
    @keeps_warnings
    @shown
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
        given, how = (self, X, y, nodes, held_out), Simulation.of(self)
        federation = read_federation(*given, simulation=how, weights=False)
        found = federation.attributes()
        how = {"combine": self.combine, "weights": self.weights}
        if self.combine == "auto":
            choice, how = self._chosen(federation)
            found["choice_"] = choice
        if how["combine"] == "stack":
            odds, stack = self._stacked(federation)
            found |= {"classes_": stack.classes_}  # others are in no row
            found |= {"odds_": odds, "stack_": stack}
            self._publish(**found, history_=stack.history_)
            return self
        weights, history = ensemble_weights(federation, how["weights"], self.n_jobs)
        tie_seed = check_random_state(self.random_state).randint(2**31 - 1)
        self._publish(**found, weights_=weights, history_=history, _tie_seed=tie_seed)
        return self

    def _chosen(self, federation: Federation) -> tuple[Choice, dict]:
        members = list(zip(federation.names, federation.estimators, strict=True))
        ways = {
            "vote": {"combine": "vote", "weights": self.weights},
            "vote by classes": {"combine": "vote", "weights": "class_counts"},
            "stack": {"combine": "stack", "weights": "equal"},
        }
        own = {"voting": self.voting, "random_state": self.random_state}
        tried = [
            Candidate(name, EnsembleAggregator(members, **how, **own), of_members=True)
            for name, how in ways.items()
        ]
        X, y, owners = self._owned_rows(federation)
        owned = {name: np.flatnonzero(owners == name) for name in federation.names}
        choice = choose(tried, X, y, owned, members=members)
        return choice, ways[choice.name]

    def _owned_rows(self, federation: Federation) -> tuple:
        """Rows that are not held out, labels, and the name of one owner of each."""
        if federation.X is None:
            more = "give fit X, y and nodes, or summaries, or set combine"
            raise ValueError(f'A stack is made of rows: {more}="vote".')
        owners = np.full(len(federation.y), "", dtype=object)
        for node in federation.nodes:
            owners[node.moment_rows] = node.name
        used = np.flatnonzero(owners != "")
        return *federation.labelled(used), owners[used]

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
        odds = _odds_of(*named_members(self.estimators))
        check_no_label_missing_at(name, y)
        (X, y), _ = self._validated_for_fit(X, y)
        own = {"name": name, "held_out": held_out, "min_rows": min_rows}
        sent = self._stack([]).summarize(None, odds.transform(X), y, **own)
        _check_classes_of_stack(
            name=name,
            row_classes=sent.row_counts["labels"],
            member_classes=_classes_of(*named_members(self.estimators)),
        )
        content = sent.message.content
        names = odds.get_feature_names_out().tolist()
        content["describe"]["network"]["feature_names"] = names
        return Summary(Message.of("join", **content))

    def _stack(self, nodes) -> GEMSLogisticAggregator:
        own = {"n_jobs": self.n_jobs, "random_state": self.random_state}
        return GEMSLogisticAggregator(nodes, validation_fraction=0.0, **own)

    def _stacked(self, federation: Federation) -> tuple[MemberOdds, BaseAggregator]:
        """Log-odds of all members, and what is above, each row at one of its nodes."""
        odds = _odds_of(federation.names, federation.estimators)
        if self.summaries is not None:
            stack = self._stack(self.summaries).fit()
            names = odds.get_feature_names_out().tolist()
            there = getattr(stack, "feature_names_in_", np.array([])).tolist()
            if there != names:
                raise ValueError(
                    f"Summaries are of log-odds {there[:3]}..., but members here have "
                    f"{names[:3]}...: give all nodes the same estimators, in one order."
                )
            del stack.feature_names_in_
            for name, summary in zip(stack.node_names_, stack.estimators_, strict=True):
                _check_classes_of_stack(
                    name=name,
                    row_classes=summary.row_counts["labels"],
                    member_classes=federation.classes.tolist(),
                )
            return odds, stack
        X, y, owners = self._owned_rows(federation)
        if not any(node.seen.sum() > 1 for node in federation.nodes):
            why = "Every local estimator knows a single class, and says of no row which"
            what = "GEMSLogisticAggregator and PooledAggregator make one model"
            raise ValueError(f"{why} it is. {what} of the nodes' rows alone.")
        alone = [(name, None) for name in np.unique(owners)]
        stack = self._stack(alone)
        if self.beside is not None:
            odds.beside = PooledTransformer(clone(self.beside)).fit(X, nodes=owners)
            stack = PooledAggregator(alone, pooled=shrunk_lda(len(y)))
        return odds, stack.fit(odds.transform(X), y, nodes=owners)

    @property
    def _can_temper(self) -> bool:
        return self.combine == "stack" and self.beside is not None

    def _temper(self, factor: float) -> None:
        self.stack_._temper(factor)

    @available_if(lambda self: self.combine == "stack" or hasattr(self, "stack_"))
    def to_estimator(self):
        """Of a stack, a pipeline of the members' log-odds and LogisticRegression.

        Returns
        -------
        estimator : Pipeline
        """
        check_is_fitted(self)
        return make_pipeline(
            self._exported(copy(self.odds_)), self.stack_.to_estimator()
        )

    def _logits(self, X) -> np.ndarray:
        if hasattr(self, "stack_"):
            return self.stack_._logits(self.odds_.transform(X))
        members = zip(self.estimators_, self.node_names_, strict=True)
        models = [local_model(member, name=name) for member, name in members]
        own = {"weights": self.weights_, "tie_seed": self._tie_seed}
        given = models, X, self.classes_
        return to_logits(ensemble_probabilities(*given, voting=self.voting, **own))


def _odds_of(names, estimators) -> MemberOdds:
    return MemberOdds(list(zip(names, estimators, strict=True)))


def _classes_of(names: list[str], members: list) -> list:
    """Classes that some of the members have seen."""
    descriptions = [
        local_model(member, name=name).description
        for name, member in zip(names, members, strict=True)
    ]
    return union_of_classes(descriptions, names=names).tolist()


def _check_classes_of_stack(name: str, row_classes: list, member_classes: list) -> None:
    """Raise ValueError if rows of a summary have classes that no member has seen."""
    unseen = [label for label in row_classes if label not in set(member_classes)]
    if unseen:
        raise ValueError(
            f"Node {name!r} has rows of the classes {shown_labels(unseen)}, which no "
            f"member of the stack has seen; the members were fitted on the classes "
            f"{shown_labels(member_classes)}. Give the rows the labels that the "
            "members were fitted on, or leave these rows out."
        )


def ensemble_weights(
    federation: Federation, weights, n_jobs: int | None = None
) -> tuple[np.ndarray, list[dict]]:
    """Weights (n_nodes, n_classes), of shares of a node's own rows; the history."""
    for node in federation.nodes:
        node.local.check_finite()
    run = federation.run(n_jobs=n_jobs)
    outputs = run(ask_shares(federation, weights)).outputs
    if isinstance(weights, str) and weights == "class_counts":
        outputs = outputs / outputs.sum(axis=0)
    return outputs, run.history


def ensemble_probabilities(
    models: list[LocalModel], X, classes, *, weights, voting: str, tie_seed: int
) -> np.ndarray:
    """Class probabilities by weights (n_nodes, n_classes); the seed breaks ties."""
    pairs = zip(models, weights, strict=True)
    if voting == "soft":
        total = sum(weight * own.probabilities(X, classes) for own, weight in pairs)
        size = total.sum(axis=1, keepdims=True)
        silent = ~(size > 0)  # of these rows nobody says anything
        return np.where(silent, 1 / len(classes), total / np.where(silent, 1.0, size))
    ties = row_noise(X, len(classes), tie_seed)
    counts, rows = np.zeros(ties.shape), np.arange(len(ties))
    for own, weight in pairs:
        vote = own.votes(X, classes)
        counts[rows, vote] += weight[vote]
    # Rounding, so that sums of unequal weights that should tie do.
    total = np.maximum(counts.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    shares = np.round(counts / total, 9) + _TIE * ties
    return shares / shares.sum(axis=1, keepdims=True)
