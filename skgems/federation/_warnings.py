"""Warnings of what nodes sent that one model cannot, or should not, be made of."""

from collections.abc import Iterable

import numpy as np

from ..base import warn_user
from ..local import Member, heavy_tails
from ..messages import Message

# Messages that mend heavy tails. Accuracy below the pooled model in one message and in
# five, means of ten seeds (benchmarks/bench_hard_rows.py), is 1.5 to 6.3 and 0.5 to 1.1
# points for log-normal rows, 0.6 to 2.0 and 0.2 at most for t(1.5), 0.7 to 2.8 and 0.2
# at most for outliers.
_MENDS_TAILS = 5
# Features and nodes that a warning names.
_N_NAMED, _MAX_NODES = 3, 5


class NodesDisagreeWarning(UserWarning):
    """The aggregate fits the rows of some nodes badly, as if they had another rule.

    Labels may be coded in another way there, or features be in another order, of
    another sign or in other units. ``node_scores_`` has the loss of each node.
    """


class SameRowsWarning(UserWarning):
    """Two nodes sent equal moments: the same rows count twice."""


class ClassWeightWarning(UserWarning):
    """Local classifiers weigh classes differently: the aggregate counts rows alike.

    See :ref:`member_losses` for what is honoured, and what to do.
    """


class HeavyTailsWarning(UserWarning):
    """Rows lie so far out that Gaussians do not stand for them.

    A few rows then decide covariances, and with them what is known of all others.
    ``n_rounds=5`` mends most of it: gradients of the rows know of no Gaussian. Skewed
    features, such as money or counts, are best given as logarithms.
    """


class VariancesOnlyWarning(UserWarning):
    """Matrices would be too large, so features are taken for independent."""


class RowsExposedWarning(UserWarning):
    """What a node is about to send says of single rows what these are.

    A covariance of fewer rows than features has only the directions in which rows lie:
    these can be recognised, and found if they are whole numbers (see :ref:`privacy`).
    """


class ClassesLeftOutWarning(UserWarning):
    """A node leaves classes out of all that it sends, since it has few rows of them."""


def warn_of_tails(members: Iterable[Member], *, n_messages: int = 1) -> None:
    """Warn of rows far outside of their class, unless so many messages mend it."""
    if n_messages >= _MENDS_TAILS:
        return
    kurtosis: dict[str, int] = {}
    features: list[int] = []
    for member in members:
        tails = heavy_tails(member)
        if tails is not None:
            kurtosis[member.name] = round(tails[0])
            features += tails[1]
    if not kurtosis:
        return
    largest = sorted(set(features), key=lambda j: (-features.count(j), j))[:_N_NAMED]
    shown = dict(list(kurtosis.items())[:_MAX_NODES])
    n_others = len(kurtosis) - _MAX_NODES
    more = f" and {n_others} others" if n_others > 0 else ""
    warn_user(
        "Some rows lie far outside of their class. The logits of the node's own model "
        f"have a kurtosis (3 for Gaussians) at nodes of {shown}{more}. A few rows then "
        "decide the covariances, and the aggregate may be several points of accuracy "
        f"below the pooled model. Set n_rounds={_MENDS_TAILS}: five messages bring it "
        "within about one point. They need the rows or a channel, such as "
        "skgems.Exchange, since files hold one message. "
        f"Features {largest} have the largest part in it: logarithms or ranks of such "
        "features, taken by all nodes, help as well.",
        HeavyTailsWarning,
    )


def warn_of_variances(n_features: int) -> None:
    warn_user(
        f"A covariance of {n_features} features has too many numbers for moments="
        "'auto', so nodes send variances only, which take features for independent. "
        "Where they are correlated, the aggregate may be far from the pooled model. "
        "Have all nodes reduce their features alike, or set moments='shared' "
        f"({4e-6 * n_features**2:.0f} MB a node), or 'diagonal' if that is meant.",
        VariancesOnlyWarning,
    )


def warn_of_exposed_columns(name: str, reply: Message) -> None:
    for part in reply.content["parts"].values():
        n, d = part.get("n_rows"), len(part.get("mean", ()))
        if "triangle" in part and n <= d:
            warn_user(
                f"Node {name!r} sends covariances of {n:.0f} rows of {d} columns: from "
                "these rows can be recognised. If that must not be, do not send this.",
                RowsExposedWarning,
            )


def warn_of_exposed(name: str, reply: Message) -> None:
    """Warn of covariances of fewer rows than features in a first reply."""
    for own in reply.content["answers"].values():
        sums = own["reply"].get("moments")
        if sums is None:
            continue
        n_features = len(sums["origin"])
        if "triangles" in sums:
            starts = np.cumsum([0, *range(n_features, 1, -1)])
            spread = sums["triangles"][:, starts] > 0
        elif "roots" in sums:
            groups = np.arange(len(sums["groups"]))[:, None] == sums["root_groups"]
            spread = groups.astype(float) @ sums["roots"] ** 2 > 0
        elif {"correlations", "factors"} & set(sums):
            spread = sums["deviations"] > 0
        else:  # variances alone
            continue
        few = sums["group_counts"] <= spread.sum(axis=1)
        if few.any():
            labels = [*own["reply"]["labels"], "all"]  # of the group -1
            named = [labels[group] for group in sums["groups"][few]]
            counts = sums["group_counts"][few].astype(int).tolist()
            warn_user(
                f"Node {name!r} sends covariances of fewer rows than features: "
                f"{dict(zip(named, counts, strict=True))} rows of classes, "
                f"{n_features} features. From these rows can be recognised, and found "
                "if they are whole numbers. If that must not be, do not send this: set "
                "moments='diagonal' (or 'shared', if all rows together are more than "
                "features), or a larger min_cluster_size.",
                RowsExposedWarning,
            )
