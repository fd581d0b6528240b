"""Name the nodes whose sums contradict those of the others, before they are added."""

from collections.abc import Sequence

import numpy as np

from ..base import MOST_LISTED, warn_user
from ..federation import NodesDisagreeWarning
from ..moments import ClassMoments, ClassSums, NodeClaim, NodeMeans

# Divisor of sums over no rows, which are 0.
_TINY = np.finfo(np.float64).tiny


def means_of_moments(merged: ClassMoments, starts: np.ndarray) -> NodeMeans:
    """Class means of nodes, from merged moments that still have each node's own."""
    return NodeMeans(
        columns=merged.columns,
        counts=merged.counts,
        means=merged.means,
        starts=starts,
        covariance=merged.covariance_within_parts(),
    )


def means_of_sums(parts: Sequence[ClassSums], total: ClassSums) -> NodeMeans:
    """Estimate the nodes' means, with variances, from sums of values or categories.

    Sums do not say how far rows are from their means. For counts of categories, or of
    rows above a threshold, which are fewer than rows, it follows from their share. Sums
    of values are taken for counts of events, as the classifiers take them that are made
    of such: their variance is their mean. Where they are no counts, nodes differ by
    more or less than that, and the variance is what half of the nodes stay below.
    """
    widened_sums = [total.widened(part) for part in parts]
    counts = np.concatenate([part.counts for part in parts])
    divisors = np.maximum(counts, _TINY)[:, None]
    columns = np.concatenate(
        [np.searchsorted(total.labels, part.labels) for part in parts]
    )
    average = total.sums.sum(axis=0) / total.counts.sum()
    nodes = NodeMeans(
        columns=columns,
        counts=counts,
        means=np.vstack(widened_sums) / divisors,
        starts=np.cumsum([0, *(len(part.counts) for part in parts)]),
        covariance=_variances(average, are_categories=total.sizes is not None),
    )
    return nodes.with_spread_of_nodes()


def claims_of_class_sums(
    parts: Sequence[ClassSums], rows_by_class: Sequence[np.ndarray]
) -> tuple[list[NodeClaim], np.ndarray]:
    """Return what nodes claim in sums of values or categories, and their variances.

    ``rows_by_class`` has the rows of each node by class, whatever these weigh,
    (n_classes,) each. Variances are (n_features,), but for a factor. All nodes say as
    much of them, however many rows they claim.
    """
    total = ClassSums.merged(parts)
    claims = [
        NodeClaim(
            columns=np.searchsorted(total.labels, part.labels),
            counts=part.counts,
            # A class without rows has sums of 0, and so a mean of 0.
            means=total.widened(part) / np.maximum(part.counts, _TINY)[:, None],
        ).of_rows(n_rows)
        for part, n_rows in zip(parts, rows_by_class, strict=True)
    ]
    averages = [claim.counts @ claim.means / claim.n_rows for claim in claims]
    average = np.mean(averages, axis=0)
    return claims, _variances(average, are_categories=total.sizes is not None)


def _variances(average: np.ndarray, *, are_categories: bool) -> np.ndarray:
    """Return variances of shares p, p (1 - p), or of counts of events: their means."""
    if are_categories and (average <= 1.0).all():
        return average * (1.0 - average)
    return average


def warn_of_disagreement(names: Sequence[str], nodes: NodeMeans) -> None:
    """Warn of nodes whose classes differ in other directions, or that lie far away."""
    agreement = nodes.judged()
    of_another_rule = agreement.nodes_of_another_rule()
    far_away = np.setdiff1d(agreement.far_away(), of_another_rule)
    if len(of_another_rule):
        shares = _with_numbers(
            names, of_another_rule, numbers=agreement.shown, template="{:.2f}"
        )
        warn_user(
            "At these nodes the classes differ in other directions than at the other "
            f"nodes: {shares}. The number says how far their differences between class "
            "means agree with those of the other nodes: 1 means that they agree, 0 is "
            "expected for random labels, and -1 for features with the opposite sign. "
            f"Its median over nodes is {np.nanmedian(agreement.shown):.2f}. Check that "
            "labels have the same codes there as elsewhere, and that features have the "
            "same order and sign; or leave these nodes out.",
            NodesDisagreeWarning,
        )
    if len(far_away):
        distances = _with_numbers(
            names,
            far_away,
            numbers=agreement.distances,
            template="{:.0f} standard deviations",
        )
        warn_user(
            "The rows of these nodes are far from those of the same classes at the "
            f"other nodes: {distances} on average over the features. The median over "
            f"nodes is {np.nanmedian(agreement.distances):.2g}. Check that features "
            "have the same units and the same zero there; or leave these nodes out.",
            NodesDisagreeWarning,
        )


def _with_numbers(
    names: Sequence[str],
    nodes: np.ndarray,  # indices of those to name
    *,
    numbers: np.ndarray,  # (n_nodes,)
    template: str,
) -> str:
    """``"'a' (3), 'b' (4) and 2 more"``."""
    named = [
        f"{names[k]!r} ({template.format(numbers[k])})" for k in nodes[:MOST_LISTED]
    ]
    n_others = len(nodes) - MOST_LISTED
    if n_others <= 0:
        return ", ".join(named)
    return f"{', '.join(named)} and {n_others} more"
