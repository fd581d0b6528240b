"""Warnings of what nodes sent that one model cannot, or should not, be made of."""

from collections.abc import Iterable

from ..base import warn_user
from ..local import Member, heavy_tails


class NodesDisagreeWarning(UserWarning):
    """The aggregate fits the rows of some nodes badly, as if they had another rule.

    Labels may be coded in another way there, or features be in another order, of
    another sign or in other units. The message names the nodes; ``node_scores_`` has
    the loss of each. What is compared is on the guide's page on moments.
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
    Skewed features, such as money or counts, are best given as logarithms.
    """


class VariancesOnlyWarning(UserWarning):
    """Matrices would be too large, so features are taken for independent."""


class RowsExposedWarning(UserWarning):
    """What a node is about to send says of single rows what these are.

    Of fewer rows than features a covariance matrix leaves only directions in which rows
    lie, so that whoever has it can recognise rows of the node, and find rows
    of whole numbers without knowing any; see the guide's page on privacy.
    """


class ClassesLeftOutWarning(UserWarning):
    """A node leaves classes out of all that it sends, since it has few rows of them."""


def warn_of_tails(members: Iterable[Member]) -> None:
    tails, features = {}, []
    for member in members:
        found = heavy_tails(member)
        if found is not None:
            tails[member.name] = round(found[0])
            features += found[1]
    if tails:
        named = sorted(set(features), key=lambda j: (-features.count(j), j))[:3]
        some = dict(list(tails.items())[:5])
        more = f" and {len(tails) - 5} others" if len(tails) > 5 else ""
        warn_user(
            "Some rows lie far outside of their class. The logits of the node's own "
            f"model have a kurtosis (3 of Gaussians) at nodes of {some}{more}. "
            "A few rows then decide covariances, and the aggregate may be far from the "
            f"pooled model. Features {named} have the largest part in it: have all "
            "nodes take logarithms or ranks of such features.",
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
