# SPDX-License-Identifier: BSD-3-Clause
"""Warnings of what nodes sent that one model cannot, or should not, be made of."""

from __future__ import annotations

__all__ = ["NodesDisagreeWarning", "SameRowsWarning"]


class NodesDisagreeWarning(UserWarning):
    """The aggregate fits the rows of some nodes badly, as if they had another rule.

    Labels may be coded in another way there, or features be in another order, of
    another sign or in other units. The message names the nodes; ``node_scores_`` has
    the loss of each. What is compared is on the guide's page on moments.

    Examples
    --------
    >>> import warnings
    >>> from skgems.federation import NodesDisagreeWarning
    >>> warnings.simplefilter("error", NodesDisagreeWarning)
    >>> warnings.resetwarnings()
    """


class SameRowsWarning(UserWarning):
    """Two nodes sent equal moments: the same rows count twice.

    Examples
    --------
    >>> import warnings
    >>> from skgems.federation import SameRowsWarning
    >>> warnings.simplefilter("error", SameRowsWarning)
    >>> warnings.resetwarnings()
    """
