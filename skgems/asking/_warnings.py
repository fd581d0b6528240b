"""Warnings of what nodes sent that one model cannot, or should not, be made of."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ..base import MOST_LISTED, warn_user
from ..local import Member, OtherShare, heaviest_features
from ..parties import IdentifierWarning, columns_by_node, sentences_on_identifiers

# Messages that mend heavy tails. Accuracy below the pooled model in one message and in
# five, means of ten seeds (benchmarks/bench_hard_rows.py), is 1.5 to 6.3 and 0.5 to 1.1
# points for log-normal rows, 0.6 to 2.0 and 0.2 at most for t(1.5), 0.7 to 2.8 and 0.2
# at most for outliers.
MENDS_TAILS = 5
# Messages that mend a few rows of a thousand times the usual size, which nodes say by a
# kurtosis from _FAR_OUT on: with 3 of 3,000 rows the accuracy is 19 to 44 points below
# the pooled model in one message, 5 to 17 in five, and 0.3 at most in twelve
# (benchmarks/bench_hard_rows.py --kinds "far rows").
_MENDS_OUTLIERS = 12
# A kurtosis: of one Gaussian row in 1,000 that is 1,000 times too large it is some 500.
_FAR_OUT = 256
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
    """Some nodes contradict the others in their sums or parameters.

    The cause may be labels with another coding, or features in another order, with
    another sign or in other units. Aggregators that sum rows compare the class means of
    nodes. Averages name nodes whose parameters are far larger than those of the median
    node. With ``robust`` the nodes are left out. See :ref:`disagreeing_nodes` and
    :ref:`liars`.
    """


class SameRowsWarning(UserWarning):
    """Two nodes sent equal moments, so the same rows count twice.

    Leave one of the two nodes out.
    """


class ManyRowsWarning(UserWarning):
    """One node has nearly all rows, so the aggregate follows this node almost alone.

    This may be correct. It may also be an error of counting, copied rows, or a node
    that intends harm, since no other party can check the numbers of a node. Ask the
    node, leave it out, or give all nodes the same weight if the aggregator has a
    parameter for that.
    """


class ClassWeightWarning(UserWarning):
    """The aggregate uses no class weights: those of the nodes differ or are unknown.

    Rare classes may then hardly ever be predicted. Let all nodes fit with the same
    ``class_weight``, or set ``class_weight`` of the aggregator. See
    :ref:`member_losses` for the class weights that are taken over.
    """


class PenaltyWarning(UserWarning):
    """Local classifiers are penalized with different strengths.

    Let all nodes fit with the same strength, or set ``C`` of the aggregator. See
    :ref:`member_losses` for the strength that the aggregate uses otherwise.
    """


class InterceptWarning(UserWarning):
    """Some local classifiers have an intercept and others have none.

    Let all nodes fit alike, or set ``fit_intercept`` of the aggregator.
    """


class HeavyTailsWarning(UserWarning):
    """Some rows are outliers, so that Gaussians do not represent the rows well.

    A few rows then decide the covariances, and the aggregate may be less accurate than
    the pooled model. Nodes find this from their rows, with or without a classifier.
    ``n_rounds=5`` corrects most of it, since gradients of the rows do not depend on
    Gaussians; a few rows that are a thousand times larger need ``n_rounds=12``. Skewed
    features, such as amounts of money or counts, should be given as logarithms.
    """


class VariancesOnlyWarning(UserWarning):
    """Features are treated as independent, since they are too many for covariances.

    If they are correlated, the aggregate may be far from the pooled model. Reduce the
    features at all nodes alike, or set ``moments="shared"``.
    """


class SharedCovarianceWarning(UserWarning):
    """Classes share one covariance, since they or the features are too many.

    Where classes differ in how their features vary together, the log-loss may be higher
    than with covariances of their own. With very many classes ``n_rounds=5`` corrects
    most of this. With many features set ``moments="class"`` if messages may be large,
    or ``moments="shared"`` if one covariance is what you want.
    """


def warn_of_tails(
    kurtosis_of_nodes: Mapping[str, int],
    *,
    members: Iterable[Member],
    n_messages: int = 1,
) -> None:
    """Warn of rows far outside of their class, unless so many messages mend it.

    ``kurtosis_of_nodes`` has the nodes that say so, and ``members`` are nodes whose
    rows are here, from which features are named.
    """
    if not kurtosis_of_nodes:
        return
    is_far_out = max(kurtosis_of_nodes.values()) >= _FAR_OUT
    mends = _MENDS_OUTLIERS if is_far_out else MENDS_TAILS
    if n_messages >= mends:
        return
    features: list[int] = []  # of all nodes, those that lie farthest first at each
    for member in members:
        if member.name in kurtosis_of_nodes and member.X is not None:
            features += heaviest_features(member)
    largest_features = sorted(set(features), key=lambda j: (-features.count(j), j))
    named = "skewed features"
    if largest_features:
        shown_features = largest_features[:MOST_LISTED]
        named = f"the features {shown_features}, which contribute most"
    warn_user(
        "Some rows lie far outside of their class. At these nodes combinations of the "
        "features have a large kurtosis (it is 3 for Gaussian rows): "
        f"{_first_listed(kurtosis_of_nodes)}. A few rows then decide the covariances, "
        "and the aggregate may be several points of accuracy below the pooled model. "
        f"Set n_rounds={mends}: so many messages usually leave about one point. This "
        "needs the rows or a channel, such as skgems.Exchange, since files hold one "
        "message. It also helps if all nodes take logarithms or ranks of "
        f"{named}, or leave out rows that are errors.",
        HeavyTailsWarning,
    )


def _first_listed(values_of_nodes: dict[str, int]) -> str:
    """The first nodes with their values, and how many others there are."""
    listed = dict(list(values_of_nodes.items())[:MOST_LISTED])
    n_others = len(values_of_nodes) - MOST_LISTED
    return f"{listed} and {n_others} others" if n_others > 0 else f"{listed}"


def warn_of_many_rows(names: Sequence[str], n_rows: Sequence[float]) -> None:
    """Warn of nodes that outweigh all others, where nodes weigh by their rows."""
    sizes = np.asarray(n_rows, dtype=np.float64)
    large_nodes = nodes_of_many_rows(sizes)
    if not len(large_nodes):
        return
    listed = ", ".join(
        f"{names[k]!r} ({sizes[k]:.0f} of {sizes.sum():.0f} rows)" for k in large_nodes
    )
    warn_user(
        f"These nodes have nearly all rows: {listed}. The median of the other nodes is "
        f"{np.median(np.delete(sizes, large_nodes)):.0f} rows. The aggregate weights "
        "nodes by their rows, so it follows these nodes almost alone. Ask them whether "
        "the numbers are right, with no rows copied or invented. If they should not "
        "decide alone, leave them out, or give all nodes the same weight if the "
        "aggregator has a parameter for it (node_weight='equal').",
        ManyRowsWarning,
    )


def nodes_of_many_rows(n_rows: np.ndarray) -> np.ndarray:
    """Indices of the nodes that have far more rows than the others.

    ``n_rows`` are those of each node, (n_nodes,).
    """
    n_nodes = len(n_rows)
    if n_nodes < 2:
        return np.empty(0, dtype=np.intp)
    # The median of two is their mean, which the large one decides.
    usual_n_rows = n_rows.min() if n_nodes == 2 else np.median(n_rows)
    times_usual = n_rows / max(usual_n_rows, 1.0)
    has_most = (n_rows > n_rows.sum() / 2) & (n_nodes > 2)
    return np.flatnonzero(
        (times_usual > _MOST_TIMES_MEDIAN) | (has_most & (times_usual > _TIMES_MEDIAN))
    )


def _megabytes_of_covariance(n_features: int) -> float:
    """Return the size of a covariance of float64, of which one triangle is sent."""
    return 8 * n_features * (n_features + 1) / 2 / 10**6


def warn_of_variances(n_features: int) -> None:
    """Warn that nodes of so many features send no covariances."""
    n_megabytes = _megabytes_of_covariance(n_features)
    warn_user(
        f"A covariance of {n_features} features has too many numbers for "
        "moments='auto', so nodes send variances only, and features are treated as "
        "independent. If they are correlated, the aggregate may be far from the pooled "
        "model. Have all nodes reduce their features in the same way, or set "
        f"moments='shared' ({n_megabytes:.0f} MB per node), or moments='diagonal' if "
        "variances are what you want.",
        VariancesOnlyWarning,
    )


def warn_of_shared_matrices(n_features: int, n_classes: int) -> None:
    """Warn that nodes of so many features send one covariance for all classes."""
    n_megabytes = _megabytes_of_covariance(n_features)
    warn_user(
        f"Covariances of {n_classes} classes of a node in {n_features} features have "
        "too many numbers for moments='auto', so the classes of a node share one "
        "covariance, scaled to the variances of each class. Where classes differ in "
        "how their features vary together, the log-loss may be higher. Have all nodes "
        "reduce their features in the same way, or set moments='class' "
        f"({n_classes * n_megabytes:.0f} MB per node), or moments='shared' if one "
        "covariance is what you want.",
        SharedCovarianceWarning,
    )


def warn_of_many_classes(n_classes: int, *, n_messages: int) -> None:
    """Warn that so many classes share one covariance, unless messages mend it."""
    if n_messages >= MENDS_TAILS:
        return
    warn_user(
        f"With {n_classes} classes, covariances of their own would take too long, so "
        "all classes share one covariance. The log-loss may be far higher than with "
        f"some classes fewer. Set n_rounds={MENDS_TAILS}: gradients of the rows "
        "correct most of it. This needs the rows or a channel, such as "
        "skgems.Exchange, since files hold one message.",
        SharedCovarianceWarning,
    )


def warn_of_identifiers(labels: Sequence, roles: Sequence[str]) -> None:
    """Warn of columns that are left out, or may have to be, by what nodes say."""
    for sentence in sentences_on_identifiers(labels, roles):
        warn_user(sentence, IdentifierWarning)


def warn_of_neglected_columns(
    neglected_by_node: Mapping[str, np.ndarray], labels: Sequence
) -> None:
    """Warn of columns that classifiers give no weight, without dropping them by name.

    ``neglected_by_node`` has them of each node, (n_columns,), bool.
    """
    everywhere = np.ones(len(labels), dtype=bool)
    warn_user(
        "The classifiers of some nodes give no weight to columns that vary in the rows "
        "of the node, since a step such as SelectKBest, or a penalty, has left them "
        "out: "
        f"{columns_by_node(neglected_by_node, labels, is_told=everywhere)}. Such a "
        "choice depends on the rows of one node, so the nodes send sums of these "
        "columns, and the aggregate may give them weight. If no model is to use them, "
        "have all nodes drop them by name, as ColumnTransformer does."
    )


def warn_of_other_shares(shares: Mapping[str, OtherShare], advice: str) -> None:
    """Warn of classifiers that expect other shares of classes than the rows have.

    ``shares`` has those that do by name of the node, and ``advice`` what to do.
    """
    if not shares:
        return
    nodes = [
        f"node {name!r} expects {share.in_words}"
        for name, share in list(shares.items())[:MOST_LISTED]
    ]
    if len(shares) > MOST_LISTED:
        nodes.append(f"and {len(shares) - MOST_LISTED} more nodes")
    warn_user(
        "The classifiers of some nodes predict other shares of classes than their rows "
        f"have, and no class weight was read from them: {'; '.join(nodes)}. They may "
        "have been fitted to rows that were resampled or weighted, as by SMOTE. The "
        "aggregate follows the shares of the rows, and may rarely predict rare "
        f"classes. {advice}",
        ClassWeightWarning,
    )


def warn_of_encoded_identifiers(kind: str, labels: Sequence) -> None:
    """Warn of columns that an encoder of this class encodes; they identify rows."""
    warn_user(
        f"{kind} encodes the columns {labels[:MOST_LISTED]}, which identify rows, as "
        "the number of a patient does: nearly every row has a value of its own there, "
        "which a new row does not have. Leave the columns out.",
        IdentifierWarning,
    )
