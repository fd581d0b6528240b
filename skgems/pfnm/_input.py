# SPDX-License-Identifier: BSD-3-Clause
"""Networks of nodes as layers that can be matched."""

from collections.abc import Sequence

import numpy as np

from ..networks import Network


def common_activation(
    names: Sequence[str], networks: Sequence[Network]
) -> tuple[str, ...] | None:
    """Activations of the hidden layers, or an error; None if all are constant."""
    reference = None
    for name, network in zip(names, networks, strict=True):
        if network.is_constant:
            continue
        if network.is_linear:
            raise TypeError(
                f"node {name!r} is a linear model; PFNMAggregator matches hidden "
                "units. Use GEMSLogisticAggregator, or give networks."
            )
        reference = reference or (name, network.activation)
        if network.activation != reference[1]:
            raise ValueError(
                f"node {name!r} has hidden layers with activations "
                f"{network.activation}, node {reference[0]!r} has {reference[1]}. "
                "Only units of the same kind can be matched."
            )
    return reference and reference[1]


def as_layers(
    networks: Sequence[Network],
    classes: np.ndarray,
    *,
    depth: int,
    start: np.ndarray | None,
    centre: bool = True,
    dtype: str | None = None,
) -> list[Network]:
    """Networks of one dtype with outputs of ``classes`` and ``depth`` hidden layers.

    A softmax says nothing of what is common to classes: outgoing weights, or their
    change since ``start`` (n_in + 1, n_classes), are centred over the classes seen.
    """
    found = []
    for network in networks:
        own = network.with_empty_layers(depth).aligned(classes)
        if centre:
            last, known = own.last, own.seen
            # Of a constant model there is nothing to compare with the start.
            moved = (
                last - start if start is not None and len(last) == len(start) else last
            )
            last[:, known] -= moved[:, known].mean(axis=1, keepdims=True)
            own = own.with_last(last)
        found.append(own)
    dtype = dtype or np.result_type(*(W.dtype for own in found for W in own.coefs))
    return [own.astype(dtype) for own in found]


def class_shares(
    counts: np.ndarray | None, seen: np.ndarray, earlier: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Shares (n_nodes, n_classes), share of earlier steps (n_classes,), rows so far.

    By rows of all steps. They are NaN for classes of which a step did not count them:
    shares are then of this step alone, by rows or else equal for nodes that know it.
    """
    known = seen.any(axis=0)
    own = np.zeros(seen.shape) if counts is None else counts
    rows = earlier + np.where(known & (counts is None), np.nan, own.sum(axis=0))
    by_rows = rows > 0  # not where NaN
    weights = np.where(by_rows | (own.sum(axis=0) > 0), own, seen)
    total = np.where(by_rows, rows, weights.sum(axis=0))
    shares = weights / np.where(total > 0, total, 1.0)
    earlier_share = np.full(len(rows), np.nan)
    np.divide(earlier, rows, out=earlier_share, where=by_rows)
    return shares, earlier_share, rows


def checked_counts(counts, shape: tuple[int, int]) -> np.ndarray:
    """Counts of rows as a float array; a ValueError unless of ``shape`` and counts."""
    counts = np.asarray(counts, dtype=np.float64)
    if counts.shape != shape or not np.all((counts >= 0) & (counts < np.inf)):
        raise ValueError(
            "n_class_samples must hold one count, finite and not negative, for each "
            f"of {shape[0]} nodes and {shape[1]} classes; got an array of shape "
            f"{counts.shape}."
        )
    return counts
