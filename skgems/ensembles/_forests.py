"""Forests of several parties put together into one plain forest of scikit-learn."""

from copy import copy

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

from ..base import named_members, warn_user
from ..networks import unwrap
from ._ensemble import EnsembleAggregator


def merge_forests(forests) -> RandomForestClassifier | ExtraTreesClassifier:
    """Merge fitted forests into one, over the union of their classes.

    The probability of each class is the mean of the forests', as in the soft vote of
    :class:`EnsembleAggregator`: a forest that does not know a class gives it none, and
    all forests count alike, however many trees they have. No rows are needed, and the
    forests stay as they are.

    Parameters
    ----------
    forests : list of forests, or list of (name, forest) tuples
        Fitted `RandomForestClassifier` or `ExtraTreesClassifier`, one per node, which
        may know different classes; or fitted searches of these. All see the same
        features.

    Returns
    -------
    forest : RandomForestClassifier or ExtraTreesClassifier
        With all trees, of the kind and with the parameters of the first one. It
        pickles, and leaf values of trees from smaller forests are above 1, so that all
        forests count alike.

    Raises
    ------
    TypeError
        If one is no such forest, as of boosting, whose trees cannot stand side by side.
    ValueError
        If the features differ, or a forest has several outputs; the node is named.

    See Also
    --------
    EnsembleAggregator : The vote of classifiers of any kind.

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
    for name, own in zip(names, members, strict=True):
        if not isinstance(own, (RandomForestClassifier, ExtraTreesClassifier)):
            why = "give RandomForestClassifier or ExtraTreesClassifier"
            if "Boosting" in type(own).__name__:
                why = "each tree of boosting corrects the ones before it, so that "
                why += "those of several models cannot stand side by side"
            where = f"Node {name!r} is {type(own).__name__}"
            more = "EnsembleAggregator takes classifiers of any kind"
            raise TypeError(f"{where}: {why}. {more}.")
        if not hasattr(own, "estimators_"):
            raise ValueError(f"Node {name!r} is not fitted. Fit it first.")
        if own.n_outputs_ != 1:
            what = "and one is what can be merged: fit a forest for each"
            raise ValueError(f"Node {name!r} has {own.n_outputs_} outputs, {what}.")
        if len(own.classes_) == 1:
            warn_user(
                f"Node {name!r} knows a single class, and its trees say that of every "
                "row: leave this forest out, or the class wins where it should not."
            )
    vote = EnsembleAggregator(list(zip(names, members, strict=True))).fit()
    trees = []
    for own in members:
        share = sum(len(m.estimators_) for m in members) / len(members)
        columns = np.searchsorted(vote.classes_, own.classes_)
        to = len(vote.classes_), columns, share / len(own.estimators_)
        trees += [_with_classes(tree, *to) for tree in own.estimators_]
    more = {"warm_start": False, "oob_score": False}
    merged = clone(members[0]).set_params(n_estimators=len(trees), **more)
    merged.estimators_, merged.estimator_ = trees, members[0].estimator_
    merged.classes_, merged.n_classes_ = vote.classes_, len(vote.classes_)
    merged.n_outputs_, merged.n_features_in_ = 1, vote.n_features_in_
    if hasattr(vote, "feature_names_in_"):
        merged.feature_names_in_ = vote.feature_names_in_
    return merged


def _with_classes(tree, n_classes: int, columns: np.ndarray, factor: float):
    old, tree = tree.tree_, copy(tree)
    state = old.__getstate__()
    values = np.zeros((old.node_count, 1, n_classes))
    values[:, :, columns] = state["values"] * factor
    tree.tree_ = type(old)(old.n_features, np.array([n_classes], dtype=np.intp), 1)
    tree.tree_.__setstate__({**state, "values": values})
    tree.classes_, tree.n_classes_ = np.arange(n_classes, dtype=float), n_classes
    return tree
