# SPDX-License-Identifier: BSD-3-Clause
"""Which output column of a network stands for which class."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ._network import Network


def expand_binary(coef, intercept, n_classes):
    """Give a last layer with one column for two classes, or one, a column per class.

    Parameters
    ----------
    coef : ndarray of shape (n_in, 1)
    intercept : ndarray of shape (1,)
    n_classes : {1, 2}

    Returns
    -------
    coef : ndarray of shape (n_in, n_classes)
        ``(-w / 2, w / 2)``, so that the difference of the logits is the old logit.
        With a single class there is nothing to decide: zeros.
    intercept : ndarray of shape (n_classes,)
    """
    if n_classes == 1:
        return np.zeros_like(coef), np.zeros_like(intercept)
    signs = np.array([-0.5, 0.5], dtype=coef.dtype)
    return coef * signs, intercept * signs


def contract_binary(coef, intercept):
    """The inverse: one column, the difference of two.

    Parameters
    ----------
    coef : ndarray of shape (n_in, 2)
    intercept : ndarray of shape (2,)

    Returns
    -------
    coef : ndarray of shape (n_in, 1)
    intercept : ndarray of shape (1,)
    """
    return np.diff(coef), np.diff(intercept)


def rows_with_output(network: Network, classes, codes) -> tuple[np.ndarray, np.ndarray]:
    """Which rows have a label that the network has an output for, and the column.

    Parameters
    ----------
    network : Network
    classes : ndarray of shape (n_classes,)
        Labels that the codes count in.
    codes : ndarray of shape (n_samples,), int
        Labels of the rows, as indices of ``classes``.

    Returns
    -------
    known : ndarray of shape (n_samples,), dtype bool
    columns : ndarray of shape (n_known,), int
        For the rows that are known.
    """
    column = {label: c for c, label in enumerate(network.classes.tolist())}
    own = np.array([column.get(label, -1) for label in classes.tolist()])
    columns = own[codes]
    return columns >= 0, columns[columns >= 0]


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


def _comparable(a, b):
    try:
        a < b  # noqa: B015
    except TypeError:
        return False
    return True


def align_outputs(
    network: Network, classes: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Last layer of a network with its columns in the order of ``classes``.

    Parameters
    ----------
    network : Network
        The network of one node.
    classes : ndarray of shape (n_classes,)
        Labels, for instance from :func:`union_of_classes`. Outputs of the network
        that are not among them are left out.

    Returns
    -------
    coef : ndarray of shape (n_in, n_classes)
        Weights of the last layer; zeros where the network has no output.
    intercept : ndarray of shape (n_classes,)
        Intercepts of the last layer; zeros where the network has no output.
    has_output : ndarray of shape (n_classes,), dtype bool
        Whether the network has an output for the class.
    seen : ndarray of shape (n_classes,), dtype bool
        Whether the network was fitted on the class.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skgems.networks import align_outputs, read_network
    >>> clf = LogisticRegression().fit([[0.0], [1.0]], ["cat", "dog"])
    >>> labels = np.array(["bird", "cat", "dog"])
    >>> coef, intercept, has_output, seen = align_outputs(read_network(clf), labels)
    >>> has_output.tolist()
    [False, True, True]
    """
    column = {label: c for c, label in enumerate(np.asarray(classes).tolist())}
    target = np.array([column.get(label, -1) for label in network.classes.tolist()])
    kept = target >= 0
    target = target[kept]

    last, bias = network.coefs[-1], network.intercepts[-1]
    coef = np.zeros((last.shape[0], len(column)), dtype=last.dtype)
    intercept = np.zeros(len(column), dtype=bias.dtype)
    has_output = np.zeros(len(column), dtype=bool)
    seen = np.zeros(len(column), dtype=bool)
    coef[:, target] = last[:, kept]
    intercept[target] = bias[kept]
    has_output[target] = True
    seen[target] = network.seen[kept]
    return coef, intercept, has_output, seen
