"""Reasons to doubt a fitted aggregator, by what nodes know and how good it is."""

from collections.abc import Mapping

from sklearn.base import BaseEstimator

from ..base import MOST_LISTED, shortened
from ..disclosure import min_rows_of
from ..evaluation import Evaluation, doubts_about_accuracies, doubts_about_gains
from ..parties import Summary, shown_labels


def doubts_about(
    aggregator: BaseEstimator,
    *,
    nodes: Mapping,
    classes: Mapping,
    evaluation: Evaluation | None = None,
) -> list[str]:
    """Reasons not to trust a fitted aggregator, each once."""
    doubts = list(getattr(getattr(aggregator, "choice_", None), "doubts", ()))
    doubts += getattr(aggregator, "_fit_warnings", ())
    names = nodes["node"]
    doubts += doubts_about_gains(names, nodes.get("gain", ()))
    if len(nodes["node"]) > 1 and getattr(aggregator, "privacy", None) is None:
        doubts += _doubts_about_classes(classes)
    doubts += _doubts_about_small_classes(aggregator)
    doubts += doubts_about_accuracies(
        names, nodes.get("aggregate_accuracy", ()), nodes.get("largest_class", ())
    )
    if evaluation is not None:
        doubts += evaluation.doubts_about_scores
    one_vs_rest = getattr(aggregator, "_one_vs_rest", ())
    if one_vs_rest:
        doubts.append(
            "The classifiers of these nodes are one-vs-rest: "
            f"{shortened(list(map(repr, one_vs_rest)))}. The aggregate is a softmax, "
            "so its probabilities may differ from theirs by more than labels do."
        )
    left_out = {name for entry in aggregator.history_ for name in entry["left_out"]}
    if left_out:
        names = ", ".join(map(repr, sorted(left_out)[:MOST_LISTED]))
        doubts.append(f"These nodes were left out of messages: {names}.")
    doubts += _doubts_about_spaces(aggregator, nodes)
    return list(dict.fromkeys(doubts))


def _doubts_about_classes(classes: Mapping) -> list[str]:
    classes_of_one_node = [
        f"{label!r} ({names})"
        for label, names in zip(classes["class"], classes["known_by"], strict=True)
        if ", " not in names
    ]
    if not classes_of_one_node:
        return []
    listed = ", ".join(classes_of_one_node[:MOST_LISTED])
    return [f"Only one node knows each of these classes: {listed}."]


def _doubts_about_small_classes(aggregator: BaseEstimator) -> list[str]:
    """Classes that a node knows without having sent anything about their rows.

    A fit warns of those that no node has sent anything about, so they are left out.
    """
    summaries = [
        member for member in aggregator.estimators_ if isinstance(member, Summary)
    ]
    labels_sent = {
        label for summary in summaries for label in summary.row_counts["labels"]
    }
    doubts = []
    for summary in summaries:
        known = summary.network.classes[summary.network.seen].tolist()
        kept_back = [
            label
            for label in known
            if label in labels_sent and label not in summary.row_counts["labels"]
        ]
        if kept_back:
            least = min_rows_of(summary.disclosure)
            doubts.append(
                f"Node {summary.name!r} has sent nothing about rows of the classes "
                f"{shown_labels(kept_back)}: it has fewer than {least} of "
                "each, or none. Its scores are of its other classes."
            )
    return doubts[:MOST_LISTED]


def _doubts_about_spaces(aggregator: BaseEstimator, nodes: Mapping) -> list[str]:
    doubts = []
    intersection = getattr(aggregator, "intersection_", None)
    if intersection is not None and not intersection.found:
        doubts.append("The aggregate is not in the good-enough spaces of all nodes.")
    are_inside = zip(nodes["node"], nodes.get("in_good_enough_space", ()), strict=False)
    outside = [name for name, is_inside in are_inside if is_inside is False]
    if outside:
        doubts.append(
            "The aggregate is outside the good-enough spaces of the nodes "
            f"{outside[:MOST_LISTED]}."
        )
    return doubts
