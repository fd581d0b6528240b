"""One fitted aggregator of what the nodes have, chosen by rows that did not make it."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import PowerTransformer
from sklearn.utils import check_random_state

from ..asking import RowsAlone, as_channel, warn_of_identifiers, warn_of_lost_decisions
from ..base import (
    BaseAggregator,
    NodePairs,
    as_own_warnings,
    check_no_label_missing,
    is_channel,
    is_named,
    named_members,
    noted_warnings,
)
from ..choice import (
    CLASS_SHARES,
    Candidate,
    Choice,
    check_scoring,
    choose,
    choose_over,
    fit_rows,
    n_bytes_received,
)
from ..compat import showing
from ..disclosure import Disclosure, disclosure_of, disclosure_of_both
from ..gems import GEMSLogisticAggregator
from ..networks import dropped_in_table, final_step, is_fitted, takes_documents
from ..parties import (
    Summary,
    as_groups,
    check_labels,
    is_path,
    owners_of,
    seen_classes_of,
    warn_of_columns_of_some,
    warn_of_repeated_identifiers,
)
from ..steps import (
    LEFT_OUT,
    NOT_USED,
    Columns,
    are_documents,
    as_documents,
    as_rows,
    auto_front,
    check_numbers_or_texts,
    repeated_identifiers,
)
from ._candidates import (
    FAST,
    SMALL,
    THOROUGH,
    Preparations,
    candidates,
    candidates_of_rows,
    class_shares_of,
    preparations_of_front,
    roles_over_nodes,
    trees_over_channel,
)
from ._ensemble import EnsembleAggregator

_NO_FOREST = (
    "No forest was tried, since nodes answer under a rule of disclosure, and counts "
    "at the leaves of trees are not bounded by it. Pass disclosure=None to combine and "
    "to the channel if single rows may be known."
)


def combine(
    estimators=None,
    X=None,
    y=None,
    nodes=None,
    *,
    groups=None,
    front=None,
    budget="fast",
    scoring="auto",
    disclosure="auto",
    verbose=0,
    random_state=None,
) -> BaseAggregator:
    """Choose the best of several aggregators for the rows of the nodes, and fit it.

    The candidates are linear models, also on random features that are the same at all
    nodes, quadratic discriminant analysis, forests and boosted trees. If estimators are
    given, their votes, stacks and merged networks are candidates, too. The rows of each
    node are split into two halves. Each candidate is fitted to one half and judged on
    the other, and the other way round. Among the candidates whose score is within
    one standard error of the best score, the one with the smallest log-loss is fitted
    to all rows. The score is the accuracy, unless one class has most of the rows (see
    `scoring`). A candidate whose log-loss is larger than that of the class shares is
    not chosen; if all are worse, the aggregate predicts the class shares for every row.

    Parameters
    ----------
    estimators : list of classifiers or of (name, classifier) tuples, or None
        What the nodes have: one fitted classifier of any kind per node, summaries or
        their paths, or a channel to the nodes. One unfitted classifier, in place of the
        list, is trained at each node. Leave it None if the nodes have rows but no
        classifiers.
    X : {array-like, DataFrame, sparse matrix} of shape (n_samples, n_features), \
default=None
        Rows of the nodes. A DataFrame may contain texts and missing values. X may also
        be a list, an array or a Series of documents, with one text or dict per row.
        Documents need estimators that begin with a vectorizer, or a vectorizer as
        `front`. Without X no candidate can be judged: estimators vote, and summaries
        become a linear model. Over a channel X is not needed, because the nodes judge
        the candidates on their own rows.
    y : array-like of shape (n_samples,), default=None
        Labels of the rows.
    nodes : array-like of shape (n_samples,), default=None
        Index or name of the node that owns each row. Use -1 or "public" for public
        rows, which belong to no node and judge no candidate. None means that all rows
        belong to one node.
    groups : array-like of shape (n_samples,), default=None
        Group of each row, for example the patient. Give it if several rows are of one
        patient: all of them are then in the same half, so that no candidate is judged
        by a patient whom it knows. None means that each row stands alone. Over a
        channel, each node gives its own groups to :func:`~skgems.guard.reply_to`.
    front : transformer, default=None
        Transformers that stand before all candidates which are fitted to rows. None
        scales the columns; it also imputes missing values and encodes texts where
        there are any, and leaves out columns that identify rows
        (:ref:`identifiers`). Give a front if you know better how to prepare the
        columns. The estimators see the rows as they are given.
    budget : {"small", "fast", "thorough"}, default="fast"
        How many candidates are tried. Choose "thorough" to try larger models too,
        which takes longer, above all with many columns and classes. Choose "small" to
        leave out the random features and trees: where a node has fewer rows than there
        are features, the sums that it sends reveal rows. Over a channel a forest is
        tried with "thorough" only, because the nodes have to trust the server
        (:ref:`trees_privacy`). It takes up to 12 more messages, 24 if it is chosen.
        Boosted trees are never tried over a channel, since they would take hundreds of
        messages.
    scoring : str or callable, default="auto"
        How the candidates are compared. "auto" compares their accuracy. Where one class
        has more than 80 % of the rows, it compares their log-loss instead, because
        accuracies hardly differ there. Choose "accuracy" or "log_loss" yourself if you
        know which of the two matters. Choose "roc_auc", the area under the ROC curve,
        if rows are to be ranked and their probabilities do not matter. For more than
        two classes it is the mean of the areas of each class against the rest. A scorer
        of scikit-learn, or its name (:func:`sklearn.metrics.get_scorer_names`), is
        possible too. By log-loss, the smallest candidate within 1 % of the smallest
        log-loss is chosen. Over a channel only "auto", "accuracy" and "log_loss" are
        possible, because nodes send counts of right rows and sums of losses.
    disclosure : Disclosure, "auto" or None, default="auto"
        The rule for what nodes tell of their rows, as for
        :class:`GEMSLogisticAggregator`. If a channel has a rule, too, the stricter one
        is agreed on.
    verbose : bool or int, default=0
        Whether to print the score of each candidate when it is known.
    random_state : int, RandomState instance or None, default=None
        Source of the random numbers that the candidates draw. Pass an int for
        reproducible results. The halves do not depend on it.

    Returns
    -------
    aggregator : BaseAggregator
        The fitted aggregator. Its attribute ``choice_`` is a :class:`Choice`: it has
        the scores of all candidates and reasons to doubt the result.

    Raises
    ------
    ValueError
        If rows or estimators cannot be used, for example because a column contains
        dates, or if no candidate can be made. Also if `scoring` is not known, or not
        possible over a channel. The message names nodes and columns.

    Warns
    -----
    IdentifierWarning
        If columns are left out because they identify rows, as the number of a patient
        does. Also if a column seems to say which rows belong together, as the number
        of a patient with several visits does, and `groups` is None.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from skgems import combine
    >>> X, y = load_wine(return_X_y=True)
    >>> agg = combine(X=X, y=y, nodes=y // 2, random_state=0)
    >>> agg.score(X, y) > 0.95, agg.choice_.looks_at_members
    (True, False)
    """
    if budget not in (SMALL, FAST, THOROUGH):
        raise ValueError(
            f"budget must be 'small', 'fast' or 'thorough', got {budget!r}."
        )
    check_scoring(scoring, over_channel=X is None and is_channel(estimators))
    if groups is not None and X is None:
        raise ValueError(
            "groups describes the rows of X, which is missing. Over a channel, each "
            "node gives the groups of its own rows to reply_to."
        )
    disclosure_of(disclosure)  # raises for other values
    with showing(verbose), noted_warnings() as warning_texts:
        if X is None and not is_channel(estimators):
            aggregator = _combine_without_rows(
                estimators, front, disclosure=disclosure, random_state=random_state
            )
        else:
            seed = check_random_state(random_state).randint(2**31 - 1)
            if X is not None:
                aggregator = _combine_rows(
                    X,
                    y,
                    nodes,
                    estimators,
                    groups=groups,
                    front=front,
                    budget=budget,
                    scoring=scoring,
                    disclosure=disclosure,
                    seed=seed,
                )
            elif takes_documents(front):
                aggregator = _combine_documents_over_channel(
                    estimators, front, disclosure=disclosure, seed=seed
                )
            else:
                aggregator = _combine_over_channel(
                    estimators,
                    front,
                    budget=budget,
                    scoring=scoring,
                    disclosure=disclosure,
                    seed=seed,
                )
    choice = aggregator.choice_
    doubts = tuple(dict.fromkeys([*choice.doubts, *warning_texts]))
    aggregator.choice_ = replace(choice, doubts=doubts)
    return aggregator


def _combine_rows(
    X,
    y,
    nodes,
    estimators,
    *,
    groups,
    front: BaseEstimator | None,
    budget: str,
    scoring: str | Callable,
    disclosure: Disclosure | str | None,
    seed: int,
) -> BaseAggregator:
    """The best of all candidates, judged by rows that are in this process."""
    check_no_label_missing(y, nodes)
    X = as_documents(X) if are_documents(X) else as_rows(X)
    y = np.asarray(y)
    groups = as_groups(groups, X)
    if nodes is None:
        nodes = np.zeros(len(y), dtype=int)
    owners = owners_of(nodes, X)
    members = None if estimators is None else _members_of(estimators, owners, y)
    columns = None
    if not are_documents(X):
        if groups is None:
            _warn_of_repeated_identifiers(X, owners)
        columns = _columns_to_prepare(X, owners, front, members=members)
    tried = candidates(
        X,
        names=list(owners),
        members=members,
        front=front,
        columns=columns,
        n_classes=len(np.unique(y)),
        budget=budget,
        random_state=seed,
    )
    tried = [candidate.under(disclosure) for candidate in tried]
    of_rows = [candidate for candidate in tried if not candidate.of_members]
    choice = choose(
        tried,
        X,
        y,
        owners,
        groups=groups,
        members=members,
        scoring=scoring,
        can_take_shares=len(of_rows) > 0,
    )
    if choice.name == CLASS_SHARES:
        best = class_shares_of(of_rows[0])  # the first is linear
    else:
        best = next(candidate for candidate in tried if candidate.name == choice.name)
    aggregator = best.whole
    fit = partial(fit_rows, aggregator, X, y, nodes=nodes, groups=groups)
    fitted = _fitted(aggregator, choice, fit)
    if not best.of_members:
        warn_of_lost_decisions(members or [], X, y, owners, chosen=choice.name)
    return fitted


def _warn_of_repeated_identifiers(X, owners: Mapping[str, np.ndarray]) -> None:
    """Warn of columns that seem to say which rows belong together."""
    nodes = np.full(X.shape[0], -1)
    for k, rows in enumerate(owners.values()):
        nodes[rows] = k
    labels = Columns.from_table(X).labels
    repeated = repeated_identifiers(X, nodes)
    warn_of_repeated_identifiers([labels[place] for place in repeated])


def _columns_to_prepare(
    X,
    owners: Mapping[str, np.ndarray],
    front: BaseEstimator | None,
    *,
    members: list[tuple[str, BaseEstimator]] | None,
) -> Columns | None:
    """Columns without those that identify rows, or that members drop by name.

    It warns of those that identify rows, and of those that some members drop. None is
    returned with a front, which says itself which columns it uses.
    """
    if front is not None:
        return None
    check_numbers_or_texts(X)
    columns = Columns.from_table(X)
    roles = np.array(roles_over_nodes(X, owners), dtype=object)
    dropped_by_node = {}
    for name, member in members or ():
        dropped = dropped_in_table(member, X)
        if dropped is None:
            dropped = np.zeros(columns.n, dtype=bool)
        dropped_by_node[name] = dropped
        roles[dropped] = NOT_USED
    if set(roles) <= set(LEFT_OUT):
        raise ValueError(
            f"All columns, {columns.labels[:5]}, identify rows, as the number of a "
            "patient does, or are dropped by name by an estimator, so no column is "
            "left to learn from. If these columns describe rows, pass a front that "
            "uses them."
        )
    warn_of_identifiers(columns.labels, roles)
    if dropped_by_node:
        warn_of_columns_of_some(dropped_by_node, columns.labels)
    return columns.leave_out_identifiers(roles)


def _fitted(
    aggregator: BaseAggregator, choice: Choice, fit: Callable[[], object]
) -> BaseAggregator:
    """The aggregator after its fit; warnings of other packages are doubts, too."""
    with as_own_warnings():
        warnings.filterwarnings("ignore", "PowerTransformer finds no likeliest power")
        fit()
        if choice.factor != 1.0:
            aggregator._temper(choice.factor)
    aggregator.choice_ = choice
    return aggregator


def _combine_over_channel(
    channel,
    front: BaseEstimator | None,
    *,
    budget: str,
    scoring: str,
    disclosure: Disclosure | str | None,
    seed: int,
) -> BaseAggregator:
    """The best of all candidates that look at rows, which nodes judge."""
    rule = disclosure_of_both(disclosure, as_channel(channel).disclosure)
    if front is not None:
        before = preparations_of_front(front)
    else:  # for columns that nobody has seen; nodes tell of them in one message
        scaled = auto_front()
        before = Preparations(
            unscaled=(auto_front(SimpleImputer()),),
            scaled=scaled,
            power_transformed=(scaled, PowerTransformer()),
        )

    def tried(n_rows: int) -> list[Candidate]:
        # Over a channel the nodes' names stand for this one, which is never asked.
        tried = candidates_of_rows(
            ["all"],
            before,
            n_rows,
            budget=budget,
            random_state=seed,
            has_rule=rule is not None,
        )
        # Whoever grows trees can ask for rules that single rows meet, and counts at
        # their nodes are not checked beside the sums of halves.
        if budget == THOROUGH and rule is None:
            tried += trees_over_channel(before, random_state=seed)
        return [candidate.under(disclosure) for candidate in tried]

    aggregator, choice, history = choose_over(
        channel,
        tried,
        shares=class_shares_of(tried(0)[0]),
        drop_identifiers=front is None,
        scoring=scoring,
        disclosure=disclosure,
    )
    if budget == THOROUGH and rule is not None:
        choice = replace(choice, doubts=(*choice.doubts, _NO_FOREST))
    fitted = _fitted(aggregator, choice, aggregator.fit)
    fitted.history_ = history + fitted.history_
    # A model that is stored has no summaries of halves in it.
    fitted.set_params(estimators=RowsAlone(channel))
    fitted.estimators_ = [None] * len(fitted.node_names_)
    return fitted


def _combine_documents_over_channel(
    channel,
    front: BaseEstimator,
    *,
    disclosure: Disclosure | str | None,
    seed: int,
) -> BaseAggregator:
    """The linear model of documents, which is the only candidate, over a channel."""
    linear = GEMSLogisticAggregator(
        channel, disclosure=disclosure, front=front, random_state=seed
    ).fit()
    return _with_only_choice(
        linear,
        name="linear",
        doubts=("The model was not judged: for documents it is the only candidate.",),
        looks_at_members=False,
    )


def _combine_without_rows(
    estimators,
    front: BaseEstimator | None,
    *,
    disclosure: Disclosure | str | None,
    random_state,
) -> BaseAggregator:
    """The vote of fitted estimators, or the linear model of what nodes sent."""
    if estimators is None:
        raise ValueError(
            "There is nothing to combine. Pass estimators, or X, y and nodes."
        )
    pairs = _node_pairs(estimators)
    if any(_is_sent(member) for _, member in pairs):
        # Its fit refuses fitted classifiers beside summaries.
        linear = GEMSLogisticAggregator(
            _any_names(estimators),
            disclosure=disclosure,
            front=front,
            random_state=random_state,
        )
        return _with_only_choice(
            linear.fit(),
            name="linear",
            doubts=("The model was not judged: summaries bring no rows.",),
            looks_at_members=True,
        )
    return _vote(pairs, random_state=random_state)


def _vote(pairs: NodePairs, *, random_state) -> BaseAggregator:
    """The vote of those fitted estimators that know several classes."""
    voters = NodePairs(
        (name, member) for name, member in pairs if len(final_step(member).classes_) > 1
    )
    if not voters:
        raise ValueError(
            "Every estimator knows a single class only, so their vote says nothing. "
            "Pass rows as X, y and nodes."
        )
    doubts = ["The model was not judged: no rows were passed."]
    voter_names = {name for name, _ in voters}
    of_one_class = [name for name, _ in pairs if name not in voter_names]
    if of_one_class:
        doubts.append(
            "Nodes whose estimator knows a single class do not vote: "
            f"{of_one_class[:10]}."
        )
    vote = EnsembleAggregator(voters, random_state=random_state)
    return _with_only_choice(
        vote.fit(), name="vote", doubts=tuple(doubts), looks_at_members=True
    )


def _any_names(estimators: object) -> object:
    """Return estimators whose tuples may have any names, as no parameter has them."""
    return NodePairs(estimators) if is_named(estimators) else estimators


def _node_pairs(estimators: object) -> NodePairs:
    """Pairs of a name, which is the place where there is none, and a member."""
    return NodePairs(zip(*named_members(_any_names(estimators)), strict=True))


def _is_sent(member) -> bool:
    """Report whether this is a summary or the path of one, no fitted estimator."""
    return isinstance(member, Summary) or is_path(member)


def _members_of(
    estimators, owners: Mapping[str, np.ndarray], y: np.ndarray
) -> NodePairs:
    """Names and classifiers of nodes that have rows; ValueError for others."""
    members = _node_pairs(estimators)
    is_one = not isinstance(estimators, list | tuple)
    if is_one and not _is_sent(estimators) and not is_fitted(estimators):
        # One unfitted classifier stands for all nodes, as in the aggregators.
        members = NodePairs((name, clone(estimators)) for name in owners)
    for name, member in members:
        if _is_sent(member):
            raise ValueError(
                f"Node {name!r} is given as a summary, or as the path of one, but rows "
                "were passed too. Pass the rows of all nodes without summaries, or the "
                "summaries without rows."
            )
    unmatched = sorted({name for name, _ in members} ^ set(owners))
    if unmatched:
        raise ValueError(
            f"Estimators and nodes do not match: {unmatched[:10]} are names of one, "
            "but not of the other. Give one estimator for each name in nodes, as "
            "pairs (name, estimator)."
        )
    for name, member in members:
        if hasattr(member, "classes_"):
            seen_classes = seen_classes_of(member, name)
            check_labels(name, np.unique(y[owners[name]]).tolist(), seen_classes)
    return members


def _with_only_choice(
    aggregator: BaseAggregator,
    *,
    name: str,
    doubts: tuple[str, ...],
    looks_at_members: bool,
) -> BaseAggregator:
    """A fitted aggregator with a choice of one candidate, which nobody has judged."""
    entry = Candidate(name, aggregator, of_members=looks_at_members).new_entry()
    entry["bytes"] = n_bytes_received(aggregator)
    entry["seconds"] = None
    aggregator.choice_ = Choice(
        name=name, table=(entry,), n_rows=0, doubts=doubts, scoring=None
    )
    return aggregator
