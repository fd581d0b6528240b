"""Decision thresholds of members, which soft votes, stacks and distillation keep."""

import numpy as np

from ..base import MOST_LISTED, warn_user
from ..local import average_threshold, decision_threshold, has_threshold
from ..parties import Federation


def common_threshold(
    federation: Federation, weights: np.ndarray | None = None
) -> float | None:
    """Return the threshold on the probability of ``classes_[1]``; None: there is none.

    It is the mean of those of the nodes, as logits. ``weights`` are those of a vote,
    (n_nodes, n_classes); None: all nodes count the same. It warns where nodes have
    thresholds that cannot be kept.
    """
    owners = [
        node.name for node in federation.nodes if has_threshold(node.model.estimator)
    ]
    if not owners:
        return None
    if len(federation.classes) != 2:
        _warn_of_lost(
            owners, f"the nodes know {len(federation.classes)} classes together"
        )
        return None
    knows_both = federation.seen.all(axis=1)
    thresholds = {
        node.name: decision_threshold(node.model.estimator)
        for node, knows in zip(federation.nodes, knows_both, strict=True)
        if knows
    }
    on_scores = [name for name, threshold in thresholds.items() if threshold is None]
    if on_scores:
        _warn_of_lost(
            owners,
            f"those of {on_scores[:MOST_LISTED]} are on decision values; tune them on "
            "probabilities",
        )
        return None
    node_weights = np.ones(len(thresholds))
    if weights is not None:
        node_weights = weights.mean(axis=1)[knows_both]
    return average_threshold(list(thresholds.values()), node_weights)


def _warn_of_lost(owners: list[str], reason: str) -> None:
    warn_user(
        f"The decision thresholds of the nodes {owners[:MOST_LISTED]} are not kept, "
        f"because {reason}. The aggregate predicts the most probable class. With "
        "voting='hard' each classifier votes by its own threshold."
    )
