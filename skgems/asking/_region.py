"""One summary of several nodes, as a regional server sends it on."""

from collections.abc import Mapping

import numpy as np

from ..base import BaseAggregator
from ..disclosure import laxest_disclosure
from ..local import ROLES, indices_of
from ..messages import Message, fields_of_disclosure
from ..networks import Network
from ..parties import Federation, Summary


def region_summary(
    aggregator: BaseAggregator,
    federation: Federation,
    *,
    network: Network,
    request: Message,
    reply: Mapping,
    name: str,
) -> Summary:
    """Make one summary, that of a region, for all nodes of a federation.

    ``network`` is the model of all of them, and ``reply`` the content of what a node
    with all their rows would reply to the request.
    """
    labels = federation.classes.tolist()
    counts = {role: np.zeros(len(labels), np.int64) for role in ROLES}
    weights = np.zeros(len(labels))
    for node in federation.nodes:
        columns = indices_of(node.row_counts["labels"], labels)
        # Nodes may have rows of classes that no classifier has seen.
        is_class = columns >= 0
        for role in ROLES:
            np.add.at(counts[role], columns[is_class], node.row_counts[role][is_class])
        # Rows that a node gave no weights count once.
        weights_of_node = node.row_counts.get("weights", node.row_counts["moments"])
        np.add.at(weights, columns[is_class], weights_of_node[is_class])
    if any("weights" in node.row_counts for node in federation.nodes):
        counts["weights"] = weights
    has_training_rows = counts["training"] > 0
    # Sums of all nodes are of no fewer rows than those of each. All rows of nodes that
    # are here count.
    disclosure = laxest_disclosure(
        getattr(node.record, "disclosure", None) for node in federation.nodes
    )
    terms = aggregator._agreed_terms
    message = Message.of(
        "join",
        name=name,
        method=terms.method,
        settings=terms.settings_at_nodes,
        **fields_of_disclosure(disclosure),
        describe={
            "network": network.as_content(),
            "rows": {"labels": labels, **counts},
        },
        counts={
            "labels": federation.classes[has_training_rows].tolist(),
            "counts": counts["training"][has_training_rows],
        },
        answers={"0": {"task": request.task, "asked": request.content, "reply": reply}},
    )
    return Summary(message)
