"""How many common units stand beside the merged ones, by what nodes tell beforehand."""

import numpy as np

from ..federation import Federation
from ..spaces import Gram
from ._parameters import HiddenLayers

# With "auto": common units for each unit of the widest local layer, and how many there
# are at most. On MNIST, nodes of two digits gain a point from 300 to 600 units, and
# half a point from 600 to 1,000, at three times the time and the size of the moments.
_FOR_EACH_UNIT = 8
_MOST = 400


def number_of_common_units(
    n_common_units: int | str,
    *,
    hidden_layers: HiddenLayers,
    activation: tuple[str, ...],
    retrains_last: bool,
    federation: Federation,
) -> int:
    """The number that a parameter stands for; ValueError where they cannot be made.

    Parameters
    ----------
    n_common_units : int or "auto"
    hidden_layers : HiddenLayers
        Whose parts are objects.
    activation : tuple of str
        Of each hidden layer.
    retrains_last : bool
        Whether the last layer is merged from those of the nodes. Common units have no
        weights there.
    federation : Federation
    """
    if not activation:
        return 0
    is_gram = isinstance(hidden_layers.geometry, Gram)
    if n_common_units != "auto":
        if n_common_units > 0:
            _check_can_be_made(is_gram=is_gram, retrains_last=retrains_last)
        return int(n_common_units)
    # With a number for max_units the user has said how large the network shall be.
    is_small_on_purpose = hidden_layers.max_units not in ("auto", None)
    is_linear = activation[0] == "identity"
    is_single = len(federation.nodes) == 1
    if not is_gram or retrains_last or is_small_on_purpose or is_linear or is_single:
        return 0
    widest = max(max(node.network.widths, default=0) for node in federation.nodes)
    n_wanted = min(_FOR_EACH_UNIT * widest, _MOST)
    n_merged = sum(max(node.network.widths, default=0) for node in federation.nodes)
    if hidden_layers.max_units == "auto":
        n_merged = min(n_merged, 2 * widest)
    return max(min(n_wanted, _most_units(federation) - n_merged), 0)


def _most_units(federation: Federation) -> int:
    """As many units as have no more moments than the rows of all nodes have numbers.

    Nodes tell no more than that of hidden layers (`numbers_about_layers`): of m units
    and C classes C m^2 / 2 numbers, out of n_rows n_features.
    """
    n_numbers = federation.rows_in_moments.sum() * federation.features.n_features_in
    n_matrices = sum(
        np.count_nonzero(node.row_counts["moments"]) for node in federation.nodes
    )
    return int(np.sqrt(2.0 * n_numbers / max(n_matrices, 1)))


def _check_can_be_made(*, is_gram: bool, retrains_last: bool) -> None:
    if not is_gram:
        raise ValueError(
            "Common units are drawn by the covariance of the features, which nodes "
            "send with geometry='gram' of hidden_layers only. Use this geometry, or "
            "set n_common_units=0."
        )
    if retrains_last:
        raise ValueError(
            "Common units need a last layer that is made of moments alone, as with "
            "intersection='likelihood' and epsilon='auto' of last_layer. Set these, or "
            "n_common_units=0."
        )
