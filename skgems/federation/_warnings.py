# SPDX-License-Identifier: BSD-3-Clause
"""Warnings of what nodes sent that one model cannot, or should not, be made of."""

from __future__ import annotations

__all__ = [
    "ClassWeightWarning",
    "HeavyTailsWarning",
    "NodesDisagreeWarning",
    "SameRowsWarning",
    "VariancesOnlyWarning",
]


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


class ClassWeightWarning(UserWarning):
    """Local classifiers weigh classes, and the aggregate counts all rows alike.

    See :ref:`member_losses` for what is honoured, and what to do.

    Examples
    --------
    >>> import warnings
    >>> from skgems.federation import ClassWeightWarning
    >>> warnings.simplefilter("ignore", ClassWeightWarning)
    >>> warnings.resetwarnings()
    """


class HeavyTailsWarning(UserWarning):
    """Rows lie so far out that Gaussians do not stand for them.

    A few rows then decide covariances, and with them what is known of all others.
    Skewed features, such as money or counts, are best given as logarithms.

    Examples
    --------
    >>> import warnings
    >>> from skgems.federation import HeavyTailsWarning
    >>> warnings.simplefilter("ignore", HeavyTailsWarning)
    >>> warnings.resetwarnings()
    """


class VariancesOnlyWarning(UserWarning):
    """Matrices would be too large, so features are taken for independent.

    Examples
    --------
    >>> import warnings
    >>> from skgems.federation import VariancesOnlyWarning
    >>> warnings.simplefilter("ignore", VariancesOnlyWarning)
    >>> warnings.resetwarnings()
    """
