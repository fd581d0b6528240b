# SPDX-License-Identifier: BSD-3-Clause
"""What is said of averages of networks that did not start from the same weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..federation import Node
from ..rounds import started_apart
from ._averages import with_outputs

__all__ = ["StartedApartWarning"]

_MAX_NAMES = 5


class StartedApartWarning(UserWarning):
    """Networks are averaged whose hidden units have nothing to do with each other.

    Examples
    --------
    >>> import warnings
    >>> from skgems.averaging import StartedApartWarning
    >>> warnings.simplefilter("ignore", StartedApartWarning)
    >>> warnings.resetwarnings()
    """


def apart_from_first(nodes: Sequence[Node], classes: np.ndarray) -> list[str]:
    """Names of the first node with a network, and of all that started apart from it.

    Empty if none is known to. Other models than chains of dense layers are passed over.
    """
    chains = [node for node in nodes if node.local.is_chain]
    if len(chains) < 2:
        return []
    first, *rest = chains
    reference = with_outputs(first.local.network(copy=False), classes)
    apart = [
        node.name
        for node in rest
        if started_apart(
            with_outputs(node.local.network(copy=False), classes), reference
        )
    ]
    return [first.name, *apart] if apart else []


def what_is_apart(names: Sequence[str]) -> str:
    """The text of the warning."""
    first, *others = names
    listed = ", ".join(map(repr, others[:_MAX_NAMES]))
    if len(others) > _MAX_NAMES:
        listed += f" and {len(others) - _MAX_NAMES} more"
    return (
        f"Hidden units of node {first!r} are like those of {listed} by chance only,\n"
        "as of networks that started from different weights: their average is of\n"
        "little use. Set align='permutation', or use PFNMAggregator."
    )
