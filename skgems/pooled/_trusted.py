"""Sums of nodes of which some may lie: who is kept, and how much each counts."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..federation import Federation
from ..moments import (
    ClassMoments,
    ClassSums,
    Trust,
    claims_of_moments,
    trusted_nodes,
)
from ._disagreement import claims_of_class_sums


def trust_of_sums(
    sums_by_node: Sequence[ClassMoments] | Sequence[ClassSums],
    federation: Federation,
    *,
    most_liars: int,
) -> Trust:
    """Judge the nodes of a federation by their sums, of which at most so many lie."""
    nodes = federation.nodes
    if isinstance(sums_by_node[0], ClassSums):
        labels = np.array(ClassSums.merged(sums_by_node).labels)
        rows_by_class = [node.rows_by_class(labels) for node in nodes]
        claims, variances = claims_of_class_sums(sums_by_node, rows_by_class)
        return trusted_nodes(claims, most_liars, covariance=variances)
    rows_by_class = [node.rows_by_class(federation.classes) for node in nodes]
    return trusted_nodes(claims_of_moments(sums_by_node, rows_by_class), most_liars)


def weighted_sums(
    sums: ClassMoments | ClassSums, factor: float
) -> ClassMoments | ClassSums:
    """Return the sums of ``factor`` times the rows; the same sums if it is 1."""
    if factor == 1.0:
        return sums
    if isinstance(sums, ClassMoments):
        return sums.weighted(factor)
    return replace(sums, counts=factor * sums.counts, sums=factor * sums.sums)
