"""Forests of several parties put together into one plain forest of scikit-learn."""

from copy import copy

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from ..base import named_members, warn_user
from ..networks import unwrap
from ._ensemble import EnsembleAggregator


def merge_forests(forests) -> RandomForestClassifier | ExtraTreesClassifier:
    """Merge fitted forests into one forest that knows the classes of all.

    The probability of each class is the mean over the forests, as in the soft vote of
    :class:`EnsembleAggregator`. A forest that does not know a class gives it the
    probability 0. All forests count the same, however many trees they have. No rows
    are needed, and the given forests are not changed.

    Parameters
    ----------
    forests : list of forests, or list of (name, forest) tuples
        Fitted `RandomForestClassifier` or `ExtraTreesClassifier`, one per node, or
        fitted searches of these. They may know different classes, but must have the
        same features.

    Returns
    -------
    forest : RandomForestClassifier or ExtraTreesClassifier
        A forest with the trees of all forests, of the kind and with the parameters of
        the first one. It can be pickled.

    Raises
    ------
    TypeError
        If one of the models is not such a forest. Boosted trees cannot be merged,
        because each tree corrects the trees before it.
    ValueError
        If the features differ, or if a forest has several outputs. The message names
        the node.

    Warns
    -----
    UserWarning
        If a forest knows a single class, because its trees vote for this class in
        every row.

    See Also
    --------
    EnsembleAggregator : The vote of classifiers of any kind.
    PooledAggregator : Grows one forest over the rows of all nodes.

    Notes
    -----
    The leaf values of trees are scaled to give all forests the same weight. Those of
    trees from smaller forests are above 1.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from skgems import merge_forests
    >>> X = np.array([[0.0], [1.0], [2.0]])
    >>> forests = [
    ...     RandomForestClassifier(20, random_state=0).fit(X[:2], ["cat", "cow"]),
    ...     RandomForestClassifier(10, random_state=0).fit(X[1:], ["cow", "dog"]),
    ... ]
    >>> merged = merge_forests(forests)
    >>> len(merged.estimators_), merged.classes_
    (30, array(['cat', 'cow', 'dog'], dtype='<U3'))
    """
    names, members = named_members(forests)
    members = [unwrap(member) for member in members]
    for name, member in zip(names, members, strict=True):
        _check_forest(name, member)
    # The vote has the classes and features of all, and raises where features differ.
    vote = EnsembleAggregator(list(zip(names, members, strict=True))).fit()
    n_classes = len(vote.classes_)
    mean_size = sum(len(forest.estimators_) for forest in members) / len(members)
    trees = []
    for forest in members:
        columns = np.searchsorted(vote.classes_, forest.classes_)
        factor = mean_size / len(forest.estimators_)
        for tree in forest.estimators_:
            trees.append(
                _with_classes(tree, n_classes=n_classes, columns=columns, factor=factor)
            )
    merged = clone(members[0]).set_params(
        n_estimators=len(trees), warm_start=False, oob_score=False
    )
    merged.estimators_ = trees
    merged.estimator_ = members[0].estimator_
    merged.classes_ = vote.classes_
    merged.n_classes_ = n_classes
    merged.n_outputs_ = 1
    merged.n_features_in_ = vote.n_features_in_
    if hasattr(vote, "feature_names_in_"):
        merged.feature_names_in_ = vote.feature_names_in_
    return merged


def _check_forest(name: str, member: BaseEstimator) -> None:
    """Raise TypeError or ValueError for what cannot be merged; warn of one class."""
    kind = type(member).__name__
    if "Boosting" in kind:
        raise TypeError(
            f"Node {name!r} is {kind}: each tree of boosting corrects the ones before "
            "it, so trees of several models cannot be put into one forest. "
            "EnsembleAggregator takes classifiers of any kind."
        )
    if not isinstance(member, (RandomForestClassifier, ExtraTreesClassifier)):
        raise TypeError(
            f"Node {name!r} is {kind}: give RandomForestClassifier or "
            "ExtraTreesClassifier. EnsembleAggregator takes classifiers of any kind."
        )
    if not hasattr(member, "estimators_"):
        raise ValueError(f"Node {name!r} is not fitted. Fit it first.")
    if member.n_outputs_ != 1:
        raise ValueError(
            f"Node {name!r} has {member.n_outputs_} outputs, but only forests with one "
            "output can be merged. Fit one forest for each output."
        )
    if len(member.classes_) == 1:
        warn_user(
            f"Node {name!r} knows a single class, which its trees predict for every "
            "row. Leave this forest out; otherwise this class is predicted too often."
        )


def _with_classes(
    tree: DecisionTreeClassifier,
    *,
    n_classes: int,
    columns: np.ndarray,
    factor: float,
) -> DecisionTreeClassifier:
    """A copy of a tree whose leaves have values for more classes, times a factor.

    ``columns`` are the places of the tree's classes among all.
    """
    structure = tree.tree_  # the nodes of the tree, as arrays
    state = structure.__getstate__()
    values = np.zeros((structure.node_count, 1, n_classes))
    values[:, :, columns] = state["values"] * factor
    widened = copy(tree)
    widened.tree_ = type(structure)(
        structure.n_features, np.array([n_classes], dtype=np.intp), 1
    )
    widened.tree_.__setstate__({**state, "values": values})
    widened.classes_ = np.arange(n_classes, dtype=float)
    widened.n_classes_ = n_classes
    return widened
