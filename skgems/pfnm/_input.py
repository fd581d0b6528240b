# SPDX-License-Identifier: BSD-3-Clause
"""Networks of nodes as layers that can be matched."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real

import numpy as np

from ..networks import Network


def activation_of(networks: Sequence[Network]) -> tuple[str, ...] | None:
    """Activations of the networks that have hidden layers, None where none has."""
    return next((n.activation for n in networks if not n.is_linear), None)


def common_depth(names: Sequence[str], networks: Sequence[Network]) -> int:
    """Number of hidden layers, the same at every node that is not constant.

    Raises
    ------
    TypeError
        If a node has a linear model.
    ValueError
        If activations differ.
    """
    reference = None
    for name, network in zip(names, networks, strict=True):
        if network.is_constant:
            continue
        if network.is_linear:
            raise TypeError(
                f"node {name!r} is a linear model; PFNMAggregator matches hidden "
                "units. Use GEMSLogisticAggregator, or give networks."
            )
        if reference is None:
            reference = name, network.activation
        elif network.activation != reference[1]:
            raise ValueError(
                f"node {name!r} has hidden layers with activations "
                f"{network.activation}, node {reference[0]!r} has {reference[1]}. "
                "Only units of the same kind can be matched."
            )
    return 0 if reference is None else len(reference[1])


def as_layers(
    networks: Sequence[Network],
    classes: np.ndarray,
    *,
    depth: int,
    start: np.ndarray | None,
    centre: bool = True,
    dtype: str | None = None,
) -> list[Network]:
    """Weights and biases with one output per class, on a common scale.

    A softmax says nothing of what is common to its classes. So each unit's outgoing
    weights, or their change since a common start, are centred over the classes that
    the node has seen.

    Parameters
    ----------
    networks : sequence of Network
    classes : ndarray of shape (n_classes,)
    depth : int
        Number of hidden layers; a constant model gets as many, without units.
    start : ndarray of shape (n_in + 1, n_classes) or None
        Output layer of the network that all were trained from, biases below.
    centre : bool, default=True
        Whether to centre at all.
    dtype : str or None, default=None
        Type of the arrays; None keeps the networks' own.

    Returns
    -------
    networks : list of Network
        With the outputs of ``classes``, of one dtype.
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
    """Each node's share of each class, by its rows over those of all steps so far.

    Where earlier steps did not count rows of a class, or this one does not, shares are
    of this step alone, which counts as much as any before: by its rows, or equal for
    those that have seen the class where there are none.

    Parameters
    ----------
    counts : ndarray of shape (n_nodes, n_classes) or None
        Rows of each class at each node, zero where it has not seen the class.
    seen : ndarray of shape (n_nodes, n_classes), dtype bool
        Which classes each node's network knows.
    earlier : ndarray of shape (n_classes,)
        Rows of each class in earlier steps; NaN where they were not counted, zero
        where no step had the class.

    Returns
    -------
    shares : ndarray of shape (n_nodes, n_classes)
    earlier_share : ndarray of shape (n_classes,)
        What is left to earlier steps; NaN where these are not counted in rows.
    rows : ndarray of shape (n_classes,)
        Rows of each class so far, as `earlier`.
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
    """Counts of rows that a user gave, as an array.

    Raises
    ------
    ValueError
        If there is not one for each of (n_nodes, n_classes), or not a count.
    """
    counts = np.asarray(counts, dtype=np.float64)
    if counts.shape != shape or not np.all((counts >= 0) & (counts < np.inf)):
        raise ValueError(
            "n_class_samples must hold one count, finite and not negative, for each "
            f"of {shape[0]} nodes and {shape[1]} classes; got an array of shape "
            f"{counts.shape}."
        )
    return counts


def one_per_layer(name: str, value, depth: int, *words) -> list:
    """A parameter's value for each hidden layer.

    Parameters
    ----------
    name : str
        Of the parameter, for the message.
    value : number, one of the words, or a sequence of these
    depth : int
        Number of hidden layers.
    *words : str or None
        What it may be but a positive number.

    Returns
    -------
    values : list of length depth

    Raises
    ------
    ValueError
        If there are not as many, or one is neither a positive number nor a word.
    """
    if value is None or isinstance(value, str | Real):
        values = [value] * depth
    else:
        values = [v.item() if isinstance(v, np.generic) else v for v in value]
    fits = [v in words or (isinstance(v, Real) and 0 < v < np.inf) for v in values]
    if len(values) != depth or not all(fits):
        allowed = " or ".join(["positive", *map(repr, words)])
        raise ValueError(
            f"{name} must be one value, or one per hidden layer ({depth}), each "
            f"{allowed}; got {value!r}."
        )
    return values
