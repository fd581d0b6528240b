"""What a fit of linear models warns of: classes, matrices, tails, and equal nodes."""

from collections.abc import Mapping, Sequence

import numpy as np

from ..asking import (
    SameRowsWarning,
    warn_of_many_classes,
    warn_of_neglected_columns,
    warn_of_other_shares,
    warn_of_shared_matrices,
    warn_of_tails,
    warn_of_trust,
    warn_of_variances,
)
from ..base import warn_user
from ..local import Member, OtherShare, as_class_weight, closed_form
from ..moments import Likelihood, moments_kind
from ..tasks import JoinReply
from ._class_weights import first_of
from ._linear_parameters import LinearParameters
from ._stage import LinearMerge, LinearStage
from ._sums import Sums


def warn_of_fit(
    merge: LinearMerge, stage: LinearStage, members: Sequence[Member]
) -> None:
    """Warn of what a merge has found of nodes, of which ``members`` are here."""
    federation = stage.federation
    if merge.form and len(stage.classes) > 1 and not merge.is_exact:
        n_messages = stage.method.n_rounds.n
        warn_of_tails(merge.kurtosis_of_nodes, members=members, n_messages=n_messages)
    if merge.neglected and not merge.is_exact:
        warn_of_neglected_columns(merge.neglected, federation.labels_of_features)
    if merge.likelihood is not None and not federation.rows_are_shared:
        warn_of_same_rows(merge.likelihood, merge.names_among(federation.names))
    warn_of_trust(federation, merge.trust)


def warn_of_summary(
    parameters: LinearParameters, member: Member, reply: JoinReply
) -> None:
    """Warn at a node of rows far outside, and of products that are not sent."""
    estimator = member.model.estimator
    if parameters.intersection != "likelihood" or "kind" in closed_form(estimator):
        return
    for answer in reply.answers.values():
        kurtosis = getattr(answer.reply, "kurtosis", None)
        if kurtosis is not None:
            warn_of_tails({member.name: kurtosis}, members=[member])
    if parameters.moments.kind == "auto":
        n_features = member.X.shape[1]
        n_rows = member.row_counts()[1]["moments"].sum()
        # Whether it is "diagonal" does not depend on the number of classes.
        if moments_kind("auto", n_features, 1, n_rows) == "diagonal":
            warn_of_variances(n_features)
            return
        n_classes = len(member.class_sizes())
        if moments_kind("auto", n_features, n_classes, n_rows) == "shared":
            warn_of_shared_matrices(n_features, n_classes)


def warn_of_kinds(stage: LinearStage, sums: Sums, likelihood: Likelihood) -> None:
    """Warn of sums that say less than products of each class by itself."""
    if stage.method.moments.kind == "auto":
        if sums.merged.is_diagonal:
            warn_of_variances(sums.merged.n_features)
        else:
            _warn_of_shared_matrices(sums)
    if likelihood.loss.shares_one_covariance:
        n_messages = stage.method.n_rounds.n
        warn_of_many_classes(len(stage.classes), n_messages=n_messages)


def _warn_of_shared_matrices(sums: Sums) -> None:
    """Warn of nodes whose classes have too many numbers for matrices of their own."""
    n_features = sums.merged.n_features
    n_classes_of_nodes = [
        len(np.unique(loss.moments.columns))
        for loss in sums.losses
        if loss.moments.n_rows >= n_features  # others send roots
    ]
    n_classes = max(n_classes_of_nodes, default=1)
    if moments_kind("auto", n_features, n_classes) == "shared":
        warn_of_shared_matrices(n_features, n_classes)


def warn_of_classes(stage: LinearStage, seen: np.ndarray, *, is_average: bool) -> None:
    """Warn of weights of unknown classes, and of known ones without any rows.

    ``seen`` says of each class whether the sums have rows of it, (n_classes,).
    """
    class_weight = as_class_weight(stage.method.class_weight)
    classes = stage.classes
    labels = classes.tolist()
    weighted = class_weight if isinstance(class_weight, list) else []
    unknown = [label for label, _ in weighted if label not in labels]
    if unknown:
        warn_user(
            f"class_weight names the classes {unknown}, which no node has seen, so "
            f"these weights have no effect. The nodes have seen {labels}."
        )
    if is_average:
        warn_user(
            "The aggregate is the mean of the nodes' models: of the classes "
            f"{classes[~seen].tolist()} no node has as many rows as min_rows of "
            "its rule of disclosure asks for, so that there are sums of one class "
            "alone. Pass rows of these classes to fit, or a Disclosure with a "
            "smaller min_rows, or have fewer nodes with more rows."
        )
    elif not seen.all():
        warn_user(
            f"Nothing is known of the classes {classes[~seen].tolist()}, so they "
            "are never predicted: no node has as many rows of them as min_rows "
            "of its rule of disclosure asks for. Pass rows of these classes to "
            "fit, or a Disclosure with a smaller min_rows."
        )


def warn_of_shares_of_classes(other_shares: Mapping[str, OtherShare]) -> None:
    """Warn of nodes whose models expect other shares of classes than their rows."""
    warn_of_other_shares(
        other_shares,
        "Set class_weight='balanced' if all classes should weigh the same. Set "
        "class_weight=None if rows should, or have these nodes calibrate their "
        "classifiers.",
    )


def warn_of_same_rows(likelihood: Likelihood, names: Sequence[str]) -> None:
    pairs = likelihood.equal_nodes()
    if pairs:
        equal_nodes = [f"{names[i]!r} and {names[j]!r}" for i, j in pairs]
        warn_user(
            f"Nodes sent equal moments: {first_of(equal_nodes)}. If they have the same "
            "rows, these count twice: leave one of the nodes out.",
            SameRowsWarning,
        )
