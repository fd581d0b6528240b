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

    An output that no network was fitted on is not a class.

    Parameters
    ----------
    networks : sequence of Network
        One per node.
    names : sequence of str, default=None
        Names of the nodes, for the message; None numbers them.

    Returns
    -------
    classes : ndarray of shape (n_classes,)
        Sorted labels.

    Raises
    ------
    ValueError
        If two nodes have labels that cannot be sorted together, as text and
        numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skgems.networks import read_network, union_of_classes
    >>> X = np.array([[0.0], [1.0]])
    >>> a = read_network(LogisticRegression().fit(X, ["cat", "dog"]))
    >>> b = read_network(LogisticRegression().fit(X, ["dog", "bird"]))
    >>> union_of_classes([a, b]).tolist()
    ['bird', 'cat', 'dog']
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
    """The dtype of what is made of several networks.

    Parameters
    ----------
    networks : sequence of Network
        One per node. A constant model, which has no weights of its own, has no say
        beside others.

    Returns
    -------
    dtype : dtype
        float32 if all have that, else float64.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.neural_network import MLPClassifier
    >>> from skgems.networks import common_dtype, read_network
    >>> X, y = np.array([[0.0], [1.0]], dtype=np.float32), [0, 1]
    >>> net = MLPClassifier((2,), tol=1.0, n_iter_no_change=2).fit(X, y)
    >>> common_dtype([read_network(net)])
    dtype('float32')
    """
    having = [network for network in networks if not network.is_constant]
    return np.result_type(*(network.dtype for network in having or networks))


def _comparable(a, b):
    try:
        a < b  # noqa: B015
    except TypeError:
        return False
    return True
