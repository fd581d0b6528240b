# SPDX-License-Identifier: BSD-3-Clause
"""The classes of several networks together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ._network import Network


def union_of_classes(
    networks: Sequence[Network], *, names: Sequence[str] | None = None
) -> np.ndarray:
    """Sorted labels of the classes that at least one network has seen.

    ``names`` of the nodes are for the message; None numbers them. ValueError if labels
    cannot be sorted together, as text and numbers.
    """
    if names is None:
        names = [f"estimator {i}" for i in range(len(networks))]
    labels = [network.classes[network.seen] for network in networks]
    owner = {}
    for name, values in zip(names, labels, strict=True):
        for label in values.tolist():
            owner.setdefault(label, name)
    # Compared as Python objects: numpy would turn 1 into "1" and sort that.
    try:
        sorted(owner)
    except TypeError as exc:
        first, *others = owner
        other = next((b for b in others if not _comparable(first, b)), others[-1])
        raise ValueError(
            f"The classes of the nodes cannot be sorted together: node "
            f"{owner[first]!r} has the label {first!r} ({type(first).__name__}), node "
            f"{owner[other]!r} has {other!r} ({type(other).__name__}). Give all nodes "
            "labels of one type."
        ) from exc
    return np.unique(np.concatenate(labels))


def common_dtype(networks: Sequence[Network]) -> np.dtype:
    """The dtype of what is made of several networks: float32 if all have that.

    A constant model, which has no weights of its own, does not count beside others.
    """
    having = [network for network in networks if not network.is_constant]
    return np.result_type(*(network.dtype for network in having or networks))


def _comparable(a, b):
    try:
        a < b  # noqa: B015
    except TypeError:
        return False
    return True
