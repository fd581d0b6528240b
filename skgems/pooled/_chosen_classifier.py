"""Which classifier is made of sums: by its name, an object, or those of the nodes."""

from collections.abc import Mapping

from sklearn.base import ClassifierMixin, clone, is_classifier
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import HistGradientBoostingClassifier

from ..asking import common_form
from ..base import BaseAggregator
from ..local import has_steps
from ..networks import final_step
from ..parties import members_here
from ._classifiers import CLASSIFIERS, KINDS
from ._terms import as_list
from ._trees_terms import TREES

# Names that `pooled` may be.
NAMES = frozenset({*CLASSIFIERS, *TREES})


def classifier_named(name: str) -> ClassifierMixin:
    """The unfitted classifier that a name stands for.

    Boosted trees have the parameters that they need to be grown at nodes. Raises
    ValueError for other names, since tags are asked for before they are validated.
    """
    if name not in NAMES:
        raise ValueError(
            f"pooled={name!r:.40} is not the name of a classifier that can be made of "
            f"sums or histograms; these are {sorted(NAMES)}."
        )
    if name in CLASSIFIERS:
        return CLASSIFIERS[name]()
    if TREES[name] is HistGradientBoostingClassifier:
        return HistGradientBoostingClassifier(max_leaf_nodes=None, early_stopping=False)
    return TREES[name]()


def classifiers_of_nodes(aggregator: BaseAggregator) -> dict[str, ClassifierMixin]:
    """Return classifiers by node; none where nodes are elsewhere, or have none."""
    estimators = aggregator.estimators
    is_list = isinstance(estimators, list | tuple)
    # A path, a channel, a class, or what `read_members` will refuse.
    if not is_list and not _is_classifier(estimators):
        return {}
    return {
        name: checked_classifier(member, place=f"node {name!r}")
        for name, member in members_here(estimators).items()
        if member is not None
    }


def _is_classifier(estimator: object) -> bool:
    """Report whether this is a classifier; False for whatever has no tags."""
    has_tags = hasattr(estimator, "__sklearn_tags__")
    return has_tags and not isinstance(estimator, type) and is_classifier(estimator)


def common_classifier(
    classifier_by_node: Mapping[str, ClassifierMixin],
) -> ClassifierMixin:
    """Return the nodes' common classifier, not fitted; ValueError if theirs differ.

    It is a discriminant analysis where no node has a classifier.
    """
    if not classifier_by_node:
        return LinearDiscriminantAnalysis()
    forms = {
        name: _kind_and_parameters(classifier)
        for name, classifier in classifier_by_node.items()
    }
    if reason := common_form(forms).reason:
        raise ValueError(
            f"The classifiers of the nodes differ: {reason} Set pooled= to the "
            "classifier that is to be made."
        )
    return clone(next(iter(classifier_by_node.values())))


def checked_classifier(estimator: object, *, place: str) -> ClassifierMixin:
    """A classifier that is a function of sums, inside what wraps it; or ValueError."""
    classifier = final_step(estimator)
    kind = type(classifier).__name__
    if type(classifier) not in (*KINDS, *TREES.values()):
        raise ValueError(
            f"{place}: {kind} is not a function of sums over rows. Set pooled= to one "
            f"of {sorted(CLASSIFIERS)}, to trees of a max_depth "
            f"({', '.join(sorted(TREES))}), or let classifiers of any kind vote: "
            "EnsembleAggregator."
        )
    if has_steps(estimator):
        raise ValueError(
            f"{place}: {kind} after steps of a pipeline is not a function of sums over "
            f"rows. Give the steps to all nodes as front=, and pooled={kind}()."
        )
    return classifier


def _kind_and_parameters(classifier: ClassifierMixin) -> dict[str, object]:
    """A classifier as :func:`common_form` compares it with others."""
    params = classifier.get_params()
    return {
        "kind": type(classifier).__name__,
        **{name: as_list(value) for name, value in params.items()},
    }
