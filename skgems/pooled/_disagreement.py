"""Name the nodes whose sums contradict those of the others, before they are added."""

from collections.abc import Sequence

import numpy as np

from ..base import warn_user
from ..federation import NodesDisagreeWarning
from ..moments import ClassMoments, ClassSums, NodeMeans

# Nodes that a warning names.
_MOST_NAMED = 5


def means_of_moments(merged: ClassMoments, starts: np.ndarray) -> NodeMeans:
    """Class means of nodes, from merged moments that still have each node's own."""
    return NodeMeans(
        columns=merged.columns,
        counts=merged.counts,
        means=merged.means,
        starts=starts,
        covariance=merged.within(),
    )


def means_of_sums(parts: Sequence[ClassSums], total: ClassSums) -> NodeMeans:
    """The same from sums of values or categories, and those of all nodes.

    Sums do not say how far rows are from their means. For counts of categories, or of
    rows above a threshold, which are fewer than rows, it follows from their share. Sums
    of values are taken for counts of events, as the classifiers take them that are made
    of such: their variance is their mean. Where they are no counts, nodes differ by
    more or less than that, and the variance is what half of the nodes stay below.
    """
    widened = [total.places_of(own) for own in parts]
    counts = np.concatenate([own.counts for own in parts])
    rows = np.maximum(counts, np.finfo(float).tiny)[:, None]
    means = np.vstack(widened) / rows
    columns = np.concatenate(
        [np.searchsorted(total.labels, own.labels) for own in parts]
    )
    average = total.sums.sum(axis=0) / total.counts.sum()
    is_share = bool((average <= 1.0).all()) and total.sizes is not None
    nodes = NodeMeans(
        columns=columns,
        counts=counts,
        means=means,
        starts=np.cumsum([0, *(len(own.counts) for own in parts)]),
        covariance=average * (1.0 - average) if is_share else average,
    )
    return nodes.with_spread_of_nodes()


def warn_of_disagreement(names: Sequence[str], nodes: NodeMeans) -> None:
    """Warn of nodes whose classes differ in other directions, or that are elsewhere."""
    agreement = nodes.judged()
    other_rule = agreement.of_another_rule()
    far = np.setdiff1d(agreement.far_away(), other_rule)
    if len(other_rule):
        shown = _shown(names, other_rule, agreement.shown, "{:.2f}")
        warn_user(
            "The classes of these nodes do not differ by what they differ by at the "
            f"other nodes: {shown}. The number is how much of the others' differences "
            "between class means they show: 1 for rows of the same rule, 0 for labels "
            "at random, -1 for features of the other sign; in the median over nodes it "
            f"is {np.nanmedian(agreement.shown):.2f}. See whether labels are coded "
            "there as elsewhere, and features are in the same order and of the same "
            "sign; or leave these nodes out.",
            NodesDisagreeWarning,
        )
    if len(far):
        shown = _shown(names, far, agreement.distances, "{:.0f} deviations")
        warn_user(
            "The rows of these nodes are far from those of the same classes at the "
            f"other nodes: {shown} of a feature, in the mean over features, where half "
            f"of the nodes are within {np.nanmedian(agreement.distances):.2g}. See "
            "whether features have the same units and the same zero there; or leave "
            "these nodes out.",
            NodesDisagreeWarning,
        )


def _shown(
    names: Sequence[str], nodes: np.ndarray, values: np.ndarray, form: str
) -> str:
    shown = [f"{names[k]!r} ({form.format(values[k])})" for k in nodes[:_MOST_NAMED]]
    n_others = len(nodes) - _MOST_NAMED
    return ", ".join(shown) + (f" and {n_others} more" if n_others > 0 else "")
