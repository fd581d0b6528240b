"""One fitted aggregator of what the nodes have, chosen by rows that did not make it."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import PowerTransformer
from sklearn.utils import check_random_state

from ..base import (
    BaseAggregator,
    as_own_warnings,
    check_no_label_missing,
    is_channel,
    named_members,
    noted_warnings,
)
from ..choice import Choice, choose, choose_over
from ..ensembles import EnsembleAggregator
from ..federation import (
    Summary,
    check_labels,
    is_path,
    owners_of,
    seen_classes_of,
    warn_of_identifiers,
)
from ..gems import GEMSLogisticAggregator
from ..networks import final_step, takes_documents
from ..progress import showing
from ..steps import (
    IDENTIFIES,
    Columns,
    are_documents,
    as_documents,
    as_rows,
    auto_front,
    check_numbers_or_texts,
)
from ._candidates import candidates, of_rows, roles_over_nodes


def combine(
    estimators=None,
    X=None,
    y=None,
    nodes=None,
    *,
    front=None,
    budget="fast",
    verbose=0,
    random_state=None,
) -> BaseAggregator:
    """Make one model of what the nodes have: the best of several, by their rows.

    Each candidate is made of one half of every node's rows, and clones of estimators,
    and judged by the other, and the other way round; the smallest within a standard
    error of the best is made again of all rows. They are linear models, also behind
    features that all have in common, votes and stacks of the estimators, and networks.

    Parameters
    ----------
    estimators : list of classifiers or of (name, classifier) tuples, or None
        Fitted classifiers of any kind, one per node; summaries, their paths or a
        channel. None: nodes have rows alone.
    X : {array-like, DataFrame, sparse matrix} of shape (n_samples, n_features), \
default=None
        Rows of the nodes; a DataFrame may have texts and missing values. A list, an
        array or a Series of documents, one text or dict a row, needs estimators that
        begin with a vectorizer, or one for `front`. Without rows nobody judges:
        estimators vote, summaries become a linear model. Over a channel nodes judge by
        theirs.
    y : array-like of shape (n_samples,), default=None
        Labels.
    nodes : array-like of shape (n_samples,), default=None
        Index or name of the node that owns each row; -1 or "public" for rows of none.
        None: all rows are of one node.
    front : transformer, default=None
        Transformers before all candidates of rows. None: scaled columns; imputers and
        encoders too, where values are missing or texts, without columns that identify
        rows (:ref:`identifiers`). Estimators see rows as given.
    budget : {"small", "fast", "thorough"}, default="fast"
        "thorough" tries larger models too, in some three times the time; "small" no
        features beside the columns, sums of which over fewer rows show these.
    verbose : bool or int, default=0
        Whether to print each candidate's score as it is known.
    random_state : int, RandomState instance or None, default=None
        Source of the halves, and of what candidates draw.

    Returns
    -------
    aggregator : BaseAggregator
        Fitted; its ``choice_`` is the :class:`Choice`.

    Raises
    ------
    ValueError
        If rows or estimators are not usable, such as columns of dates, or no candidate
        can be made; the message names nodes and columns.

    Warns
    -----
    IdentifierWarning
        If columns that identify rows, as the number of a patient, are left out.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from skgems import combine
    >>> X, y = load_wine(return_X_y=True)
    >>> agg = combine(X=X, y=y, nodes=y // 2, random_state=0)
    >>> agg.score(X, y) > 0.95, agg.choice_.looks_at_members
    (True, False)
    """
    if budget not in ("small", "fast", "thorough"):
        raise ValueError(f"budget is {budget!r}: 'small', 'fast' or 'thorough'?")
    with showing(verbose), noted_warnings() as drawn:
        if X is None and is_channel(estimators) and takes_documents(front):
            aggregator = _linear_over(estimators, front, random_state)
        elif X is None and is_channel(estimators):
            aggregator = _over(estimators, front, budget, random_state)
        elif X is None:
            aggregator = _without_rows(estimators, front, random_state)
        else:
            aggregator = _of_rows(X, y, nodes, estimators, front, budget, random_state)
    choice = aggregator.choice_
    doubts = tuple(dict.fromkeys([*choice.doubts, *drawn]))
    aggregator.choice_ = replace(choice, doubts=doubts)
    return aggregator


def _of_rows(X, y, nodes, estimators, front, budget, random_state) -> BaseAggregator:
    check_no_label_missing(y, nodes)
    X, y = as_documents(X) if are_documents(X) else as_rows(X), np.asarray(y)
    if nodes is None:
        nodes = np.zeros(len(y), dtype=int)
    owners = owners_of(nodes, X)
    members = None if estimators is None else _members_of(estimators, owners, y)
    seed = check_random_state(random_state).randint(2**31 - 1)
    columns = None
    if front is None and not are_documents(X):
        check_numbers_or_texts(X)
        columns = _columns_without_identifiers(X, owners)
    tried = candidates(
        X,
        names=list(owners),
        members=members,
        front=front,
        columns=columns,
        budget=budget,
        random_state=seed,
    )
    choice = choose(tried, X, y, owners, members=members)
    taken = next(own for own in tried if own.name == choice.name)
    return _fitted(taken.whole, choice, X, y, nodes)


def _columns_without_identifiers(X, owners: Mapping) -> Columns:
    """Columns of rows, without those that identify rows, of which it warns."""
    columns = Columns.of(X)
    roles = roles_over_nodes(X, owners)
    if set(roles) == {IDENTIFIES}:
        raise ValueError(
            f"All columns, {columns.labels[:5]}, identify rows, as the number of a "
            "patient does, so that none is left to learn from. If they describe rows, "
            "give a front that has them."
        )
    warn_of_identifiers(columns.labels, roles)
    return columns.without_identifiers(roles)


def _fitted(aggregator, choice: Choice, *rows) -> BaseAggregator:
    """The aggregator after its fit; warnings of other packages are doubts, too."""
    with as_own_warnings():
        aggregator.fit(*rows)
        if choice.factor != 1.0:
            aggregator._temper(choice.factor)
    aggregator.choice_ = choice
    return aggregator


def _over(channel, front, budget, random_state) -> BaseAggregator:
    seed = check_random_state(random_state).randint(2**31 - 1)
    own = {"budget": budget, "random_state": seed}
    plain = None
    drop_identifiers = front is None
    if front is None:  # of columns that nobody has seen, in one message
        plain = (auto_front(SimpleImputer()),)
        front = auto_front()
    bent = front, PowerTransformer()
    tried = partial(of_rows, ["all"], front, bent, plain, **own)
    aggregator, choice, history = choose_over(
        channel, tried, drop_identifiers=drop_identifiers
    )
    fitted = _fitted(aggregator, choice)
    fitted.history_ = [*history, *fitted.history_]
    return fitted


def _linear_over(channel, front, random_state) -> BaseAggregator:
    """The linear model of documents, which is the only candidate, over a channel."""
    seed = check_random_state(random_state).randint(2**31 - 1)
    linear = GEMSLogisticAggregator(channel, front=front, random_state=seed).fit()
    doubts = ("nobody judged it: of documents it is the only candidate",)
    return _chosen_by_nobody(linear, "linear", doubts, looks_at_members=False)


def _is_sent(own) -> bool:
    return isinstance(own, Summary) or is_path(own)


def _members_of(
    estimators, owners: Mapping[str, np.ndarray], y: np.ndarray
) -> list[tuple]:
    """Names and classifiers of nodes that have rows; ValueError of others."""
    members = list(zip(*named_members(estimators), strict=True))
    for name in (name for name, own in members if _is_sent(own)):
        why = f"Node {name!r} is a file, which cannot be taken to rows"
        raise ValueError(f"{why}: give rows alone, or files alone.")
    differ = sorted({name for name, _ in members} ^ set(owners))
    if differ:
        why = f"Estimators and nodes do not match: {differ[:10]}"
        what = "Give one estimator for each name in nodes, as pairs (name, estimator)"
        raise ValueError(f"{why}. {what}.")
    for name, member in members:
        if hasattr(member, "classes_"):
            seen_classes = seen_classes_of(member, name)
            check_labels(name, np.unique(y[owners[name]]).tolist(), seen_classes)
    return members


def _without_rows(estimators, front, random_state) -> BaseAggregator:
    """The vote of fitted estimators, or the linear model of what nodes sent."""
    if estimators is None:
        raise ValueError(
            "There is nothing to combine: give estimators, or X, y, nodes."
        )
    pairs = list(zip(*named_members(estimators), strict=True))
    if any(_is_sent(own) for _, own in pairs):
        name, doubts = "linear", ["nobody judged it: files bring no rows"]
        aggregator = GEMSLogisticAggregator(
            estimators, front=front, random_state=random_state
        )
    else:
        several = [(k, own) for k, own in pairs if len(final_step(own).classes_) > 1]
        if not several:
            why = "Every estimator knows a single class, so a vote says nothing"
            raise ValueError(f"{why}: give rows.")
        name, doubts = "vote", ["nobody judged it: there are no rows"]
        if left_out := [k for k, _ in pairs if k not in dict(several)]:
            doubts.append(f"nodes of one class do not vote: {left_out[:10]}")
        aggregator = EnsembleAggregator(several, random_state=random_state)
    return _chosen_by_nobody(aggregator.fit(), name, tuple(doubts))


def _chosen_by_nobody(
    aggregator: BaseAggregator,
    name: str,
    doubts: tuple[str, ...],
    *,
    looks_at_members: bool = True,
) -> BaseAggregator:
    """A fitted aggregator with a choice of one candidate."""
    entry = {"name": name, "looks_at_members": looks_at_members, "error": ""}
    entry |= dict.fromkeys(("accuracy", "log_loss", "standard_error", "seconds"))
    entry["bytes"] = sum(message["bytes_received"] for message in aggregator.history_)
    aggregator.choice_ = Choice(name, (entry,), 0, doubts)
    return aggregator
