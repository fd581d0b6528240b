"""Fitted classifiers as nodes take them, to judge: linear, quadratic, or trees."""

from collections import deque

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from ..trees import Forest, upper_edges

_TREES = (DecisionTreeClassifier, ExtraTreesClassifier, RandomForestClassifier)


def content_of_classifier(classifier: ClassifierMixin) -> dict | None:
    """Return the fields that hold a quadratic model or trees; None of any other."""
    if hasattr(classifier, "rotations_"):
        return quadratic_content(classifier)
    if isinstance(classifier, GaussianNB):
        return normal_content(classifier)
    if isinstance(classifier, _TREES):
        return forest_content(classifier)
    return None


def of_all_columns(content: dict, used: np.ndarray) -> dict:
    """Return the fields of a model that uses some columns, as one of all columns.

    ``used`` (n_columns,) says which it uses.
    """
    columns = np.flatnonzero(used)
    wider = dict(content)
    if "feature" in content:
        feature = content["feature"]
        wider["feature"] = np.where(feature >= 0, columns[feature], -1).astype(np.int32)
        return wider
    if "W" in content:
        W = np.zeros((len(used) + 1, content["W"].shape[1]))
        W[np.append(columns, len(used))] = content["W"]
        return {**content, "W": W}
    n_classes, _, n_factors = content["factors"].shape
    wider["means"] = np.zeros((n_classes, len(used)))
    wider["means"][:, columns] = content["means"]
    wider["factors"] = np.zeros((n_classes, len(used), n_factors))
    wider["factors"][:, columns] = content["factors"]
    return wider


def quadratic_content(classifier: ClassifierMixin) -> dict[str, np.ndarray]:
    """Return discriminants with the logits offset - |(x - mean) @ factor|^2 / 2."""
    factors = []
    log_determinants = []
    for rotation, scaling in zip(
        classifier.rotations_, classifier.scalings_, strict=True
    ):
        factors.append(rotation / np.sqrt(scaling))
        log_determinants.append(np.sum(np.log(scaling)))
    return {
        "means": np.asarray(classifier.means_),
        "factors": np.stack(factors),
        "offsets": np.log(classifier.priors_) - 0.5 * np.array(log_determinants),
    }


def normal_content(classifier: ClassifierMixin) -> dict[str, np.ndarray]:
    """Return a naive Bayes classifier of normal columns as quadratic discriminants."""
    variances = classifier.var_
    log_determinants = np.log(variances).sum(axis=1)
    return {
        "means": np.asarray(classifier.theta_),
        "factors": np.stack([np.diag(row**-0.5) for row in variances]),
        "offsets": np.log(classifier.class_prior_) - 0.5 * log_determinants,
    }


def forest_content(classifier: ClassifierMixin) -> dict[str, object]:
    """Return a tree or forest of scikit-learn whose thresholds are edges of bins."""
    members = getattr(classifier, "estimators_", [classifier])
    trees = [member.tree_ for member in members]
    edges = upper_edges()
    # Vertices in the order of a message: roots first, and children beside each other.
    vertices = [(tree, 0) for tree in trees]
    left = []
    waiting = deque(vertices)
    while waiting:
        tree, k = waiting.popleft()
        if tree.children_left[k] < 0:
            left.append(-1)
            continue
        left.append(len(vertices))
        children = [(tree, tree.children_left[k]), (tree, tree.children_right[k])]
        vertices += children
        waiting += children
    feature = np.array([tree.feature[k] for tree, k in vertices])
    threshold = np.array([tree.threshold[k] for tree, k in vertices])
    is_split = np.array(left) >= 0
    forest = Forest(
        n_trees=len(trees),
        feature=np.where(is_split, feature, -1).astype(np.int32),
        bin=np.where(is_split, np.searchsorted(edges, threshold), 0).astype(np.int32),
        missing_left=np.array(
            [bool(tree.missing_go_to_left[k]) for tree, k in vertices]
        ),
        left=np.array(left, dtype=np.int32),
    )
    return {
        **forest.as_content(),
        "values": np.array([tree.value[k, 0] for tree, k in vertices]),
    }
