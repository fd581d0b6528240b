"""Which nodes a fit with ``robust`` keeps: the table ``trust_``, and its warnings."""

from collections.abc import Sequence

import numpy as np

from ..base import shortened, warn_user
from ..moments import Contradictions, Trust
from ..parties import Federation, shown_labels
from ._warnings import ManyRowsWarning, NodesDisagreeWarning


def check_merges_all(most_liars: int) -> None:
    """Raise ValueError where nodes that may lie are to be merged into a region."""
    if most_liars:
        raise ValueError(
            f"robust={most_liars} judges nodes one by one, and a merged summary has "
            "the sums of its nodes together. Set robust=0 to merge summaries, or give "
            "the summaries of all nodes to fit."
        )


def trust_table(names: Sequence[str], trust: Trust | None) -> dict[str, list] | None:
    """Return the columns of the table ``trust_``, with one entry per node in each.

    None: all nodes are trusted.
    """
    if trust is None:
        return None
    return {
        "node": list(names),
        "rows": trust.n_rows.tolist(),
        "counted": trust.n_counted.tolist(),
        "spread": trust.spread.tolist(),
        "far": trust.far.tolist(),
        "shown": trust.shown.tolist(),
        "left_out_by": list(trust.left_out_by),
    }


def reason_of_trust(names: Sequence[str], trust: Trust | None) -> str:
    """Say why sums are not of all rows, with the first such node; "" if they are."""
    if trust is None:
        return ""
    for name, reason, factor in zip(
        names, trust.left_out_by, trust.factors, strict=True
    ):
        if reason:
            return f"node {name!r} is left out (robust)."
        if factor < 1.0:
            return f"node {name!r} counts with a part of its rows (robust)."
    return ""


def warn_of_trust(federation: Federation, trust: Trust | None) -> None:
    """Warn of nodes that were left out or count less, and of classes left unchecked.

    None: all nodes are trusted.
    """
    if trust is None:
        return
    names = federation.names
    classes = federation.classes
    _warn_of_nodes_left_out(names, trust)
    if not trust.is_kept.all() and federation.front_history:
        _warn_of_front(names, trust)
    _warn_of_capped_nodes(names, trust)
    if len(trust.unchecked_classes):
        labels = classes[trust.unchecked_classes].tolist()
        warn_user(
            f"What nodes say of the classes {shown_labels(labels)} cannot be checked, "
            "since too few nodes have rows of them: honest nodes need not be the "
            "majority there. These classes are used as they are told. Add nodes with "
            "rows of these classes, or lower robust."
        )


def _warn_of_nodes_left_out(names: Sequence[str], trust: Trust) -> None:
    left_out = [
        f"{name!r} ({reason}: {getattr(trust, reason)[k]:.2g})"
        for k, (name, reason) in enumerate(zip(names, trust.left_out_by, strict=True))
        if reason
    ]
    if left_out:
        warn_user(
            "These nodes are left out, since their class sums contradict those of the "
            f'others: {shortened(left_out)}. "spread" is by which factor rows vary '
            'more or less within classes than at the median node, "far" how many '
            'standard deviations they lie away from those of the others, and "shown" '
            "which part of the others' differences between classes the node shows. "
            "Check that labels, features and units are the same there as elsewhere. "
            "The table trust_ has these numbers of all nodes.",
            NodesDisagreeWarning,
        )


def _warn_of_front(names: Sequence[str], trust: Trust) -> None:
    """Warn that a front was fitted before nodes were judged."""
    left_out = [
        repr(name)
        for name, is_kept in zip(names, trust.is_kept, strict=True)
        if not is_kept
    ]
    warn_user(
        "The front was fitted before nodes were judged, so that sums of the nodes "
        f"{shortened(left_out)} are in it: features may have wrong units or "
        "directions, and the aggregate may be poor. Fit again without these nodes.",
        NodesDisagreeWarning,
    )


def _warn_of_capped_nodes(names: Sequence[str], trust: Trust) -> None:
    capped = [
        f"{name!r} ({n_counted:.0f} of {n_rows:.0f})"
        for name, n_rows, n_counted in zip(
            names, trust.n_rows, trust.n_counted, strict=True
        )
        if 0 < n_counted < n_rows
    ]
    if capped:
        warn_user(
            "These nodes claim far more rows than others, and only a part of the rows "
            f"counts: {shortened(capped)}. Set robust=0 if the numbers are right.",
            ManyRowsWarning,
        )


def warn_of_contradictions(
    names: Sequence[str], contradictions: Contradictions | None
) -> None:
    """Warn of nodes whose classes differ in other directions, or that lie far away.

    None: nobody was compared.
    """
    if contradictions is None:
        return
    reasons = contradictions.reasons
    shown = contradictions.shown
    of_another_rule = [
        f"{names[k]!r} ({shown[k]:.2f})"
        for k in sorted(reasons)
        if reasons[k] == "shown"
    ]
    if of_another_rule:
        warn_user(
            "At these nodes the classes differ in other directions than at the other "
            f"nodes: {shortened(of_another_rule)}. The number says how far their "
            "differences between class means agree with those of the other nodes: 1 "
            "means that they agree, 0 is expected for random labels, and -1 for "
            "features with the opposite sign. Its median over nodes is "
            f"{np.nanmedian(shown):.2f}. Check that labels have the same codes there "
            "as elsewhere, and that features have the same order and sign; or leave "
            "these nodes out.",
            NodesDisagreeWarning,
        )
    far = contradictions.far
    far_away = [
        f"{names[k]!r} ({far[k]:.0f} standard deviations)"
        for k in sorted(reasons)
        if reasons[k] == "far"
    ]
    if far_away:
        warn_user(
            "The rows of these nodes are far from those of the same classes at the "
            f"other nodes: {shortened(far_away)} on average over the features. The "
            f"median over nodes is {np.nanmedian(far):.2g}. Check that features have "
            "the same units and the same zero there; or leave these nodes out.",
            NodesDisagreeWarning,
        )
