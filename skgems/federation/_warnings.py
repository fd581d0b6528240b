"""Warnings of what nodes sent that one model cannot, or should not, be made of."""

from collections.abc import Iterable, Sequence

import numpy as np

from ..base import warn_user
from ..local import Member, heavy_tails
from ..messages import Message
from ..steps import IDENTIFIES, IN_ORDER, Front

# Messages that mend heavy tails. Accuracy below the pooled model in one message and in
# five, means of ten seeds (benchmarks/bench_hard_rows.py), is 1.5 to 6.3 and 0.5 to 1.1
# points for log-normal rows, 0.6 to 2.0 and 0.2 at most for t(1.5), 0.7 to 2.8 and 0.2
# at most for outliers.
_MENDS_TAILS = 5
# Features and nodes that a warning names.
_N_NAMED, _MAX_NODES = 3, 5
# A node of three or more is named for its rows if it has more than half of all, and so
# many times as many as the median over nodes. Of 664 partitions by Dirichlet(0.5) over
# classes of nine data sets (3 to 20 nodes) none has such a node, of 539 by
# Dirichlet(0.1) five have, of 720 whose sizes follow Zipf's law none, and of 720 whose
# sizes are drawn by Dirichlet(0.5) 36, which are named for what they are.
# benchmarks/bench_disagreement.py counts them in its last column.
_TIMES_MEDIAN = 20
# One is named whatever part of all rows it has if it has so many times that median:
# several nodes may have far too many, and of two nodes one always has half.
_MOST_TIMES_MEDIAN = 1000


class NodesDisagreeWarning(UserWarning):
    """Some nodes contradict the others: in their rows, sums or parameters.

    Labels may be coded in another way there, or features be in another order, of
    another sign or in other units. Aggregators of likelihood have the loss of each node
    in ``node_scores_``, pooled classifiers compare class means, and averages name nodes
    whose parameters are far larger than those of all others. See :ref:`poisoning`.
    """


class SameRowsWarning(UserWarning):
    """Two nodes sent equal moments: the same rows count twice."""


class ManyRowsWarning(UserWarning):
    """A node says that it has nearly all rows, so that the aggregate follows it alone.

    This may be so. It may also be an error of counting, rows that were copied, or a
    node that means harm: what a node says of its rows cannot be checked by others.
    """


class ClassWeightWarning(UserWarning):
    """Local classifiers weigh classes differently: the aggregate counts rows alike.

    See :ref:`member_losses` for what is honoured, and what to do.
    """


class PenaltyWarning(UserWarning):
    """Local classifiers are penalised with different strengths.

    See :ref:`member_losses` for the strength that the aggregate takes, and what to do.
    """


class InterceptWarning(UserWarning):
    """Some local classifiers have an intercept and others have none."""


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


class IdentifierWarning(UserWarning):
    """A column identifies rows, as the number of a patient does.

    It says nothing of a new row, and its values are what a node must not send. See
    :ref:`identifiers` for how columns are judged, and for what to do.
    """


class ClassesLeftOutWarning(UserWarning):
    """A node leaves classes out of all that it sends, since it has few rows of them."""


class RowsAskedAgainWarning(UserWarning):
    """A node answers about rows that it was asked about before, by ``again=True``.

    Sums of the same rows can be subtracted from each other, so that replies under two
    agreements together may say more of single rows than either agreement does.
    """


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


def warn_of_many_rows(names: Sequence[str], n_rows: Sequence[float]) -> None:
    """Warn of nodes that outweigh all others, where nodes weigh by their rows."""
    sizes = np.asarray(n_rows, dtype=np.float64)
    large = nodes_of_many_rows(sizes)
    if not len(large):
        return
    shown = ", ".join(
        f"{names[k]!r} ({sizes[k]:.0f} of {sizes.sum():.0f} rows)" for k in large
    )
    warn_user(
        f"Nodes that have nearly all rows: {shown}; the other nodes have "
        f"{np.median(np.delete(sizes, large)):.0f} in the median. The aggregate weighs "
        "nodes by their rows, so it follows these nearly alone. Ask them whether they "
        "have so many, each counted once, and none copied or made up. If they should "
        "not decide alone, leave them out, or weigh all nodes alike where the "
        "aggregator has a parameter for it (node_weight='equal', weights='equal').",
        ManyRowsWarning,
    )


def nodes_of_many_rows(n_rows: np.ndarray) -> np.ndarray:
    """Indices of the nodes that have far more rows than the others."""
    n_nodes = len(n_rows)
    if n_nodes < 2:
        return np.empty(0, dtype=np.intp)
    usual = n_rows.min() if n_nodes == 2 else np.median(n_rows)
    times = n_rows / max(usual, 1.0)
    has_most = (n_rows > n_rows.sum() / 2) & (n_nodes > 2)
    return np.flatnonzero(
        (times > _MOST_TIMES_MEDIAN) | (has_most & (times > _TIMES_MEDIAN))
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


def warn_of_identifiers(labels: Sequence, roles: Sequence[str]) -> None:
    """Warn of columns that are left out, or may have to be, by what nodes say."""
    for sentence in sentences_on_identifiers(labels, roles):
        warn_user(sentence, IdentifierWarning)


def sentences_on_identifiers(labels: Sequence, roles: Sequence[str]) -> list[str]:
    by_role: dict[str, list] = {}
    for label, role in zip(labels, roles, strict=True):
        by_role.setdefault(role, []).append(label)
    sentences = []
    if IDENTIFIES in by_role:
        sentences.append(
            f"The columns {by_role[IDENTIFIES][:5]} are left out: they identify rows, "
            "as the number of a patient does, since nearly every row has a value of "
            "its own there. If they describe rows, give a front that has them."
        )
    if IN_ORDER in by_role:
        sentences.append(
            f"The columns {by_role[IN_ORDER][:5]} hold whole numbers that rise, or "
            "fall, from each row to the next. If they number the rows, as the number "
            "of a patient does, leave them out."
        )
    return sentences


def warn_of_encoded_identifiers(kind: str, labels: Sequence) -> None:
    warn_user(
        f"{kind} encodes the columns {labels[:5]}, which identify rows, as the number "
        "of a patient does: nearly every row has a value of its own there, which a new "
        "row does not have. Leave the columns out.",
        IdentifierWarning,
    )


def warn_of_exposed_columns(name: str, reply: Message, front: Front) -> None:
    labels = front.exposed_columns(reply.content)
    if labels:
        warn_user(
            f"Node {name!r} sends the values of the columns {labels[:5]}, nearly all "
            "of which are values of a single row each. If that must not be, do not "
            "send this: leave the columns out, or set a larger min_rows.",
            RowsExposedWarning,
        )
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
