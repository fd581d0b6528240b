"""How many common units stand beside the merged ones, by what nodes tell beforehand."""

import numpy as np

from ..parties import Federation
from ..spaces import Gram
from ._parameters import HiddenLayers

# With "auto": common units for each unit of the widest local layer. On MNIST with two
# digits a node, 300 more than 300 gain 0.3 points of accuracy, and another 300 as much
# again, at four times the time in all.
_FOR_EACH_UNIT = 8
_MOST = 400  # common units with "auto"
# Numbers that rows hold for each unit and class, so that a node under a rule of
# disclosure can tell of its classes by enough factors. On digits over ten nodes, 100
# common units cost 0.5 points at 4 numbers; over five nodes, 300 gain 1 point at 20
# numbers.
_NUMBERS_A_UNIT = 16


def number_of_common_units(
    n_common_units: int | str,
    *,
    hidden_layers: HiddenLayers,
    activation: tuple[str, ...],
    retrains_last: bool,
    federation: Federation,
) -> int:
    """Return the number of common units; ValueError where they cannot be made.

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
    if not isinstance(n_common_units, str):
        if n_common_units > 0:
            _check_can_be_made(is_gram=is_gram, retrains_last=retrains_last)
        return int(n_common_units)
    is_linear = activation[0] == "identity"
    if not is_gram or retrains_last or is_linear or len(federation.nodes) == 1:
        return 0
    return _number_by_rows(hidden_layers, federation)


def _number_by_rows(hidden_layers: HiddenLayers, federation: Federation) -> int:
    """Return how many units the nodes' rows suffice for, beside the merged ones."""
    # With a number for max_units the user has said how large the network shall be.
    if hidden_layers.max_units not in ("auto", None):
        return 0
    widths = [max(node.network.widths, default=0) for node in federation.nodes]
    n_merged = sum(widths)
    if hidden_layers.max_units == "auto":
        n_merged = min(n_merged, 2 * max(widths))
    n_wanted = min(_FOR_EACH_UNIT * max(widths), _MOST)
    return max(min(n_wanted, _most_units(federation) - n_merged), 0)


def _most_units(federation: Federation) -> int:
    """Return how many units nodes can tell of, by the numbers that their rows hold.

    Under a rule of disclosure a node tells fewer numbers of hidden layers than half of
    its rows times features. With C classes there has to be room for C times 16 numbers
    a unit, summed over the nodes: factors of covariances, and means of clusters. Every
    single node has to have room for a mean and variances of each class, which may be a
    quarter of rows times features, as further rounds ask twice.
    """
    n_numbers = federation.rows_in_moments * federation.features.n_features_in
    n_classes = np.array(
        [np.count_nonzero(node.row_counts["moments"]) for node in federation.nodes]
    )
    most_of_all = n_numbers.sum() / (_NUMBERS_A_UNIT * max(n_classes.sum(), 1))
    most_of_each = n_numbers / (4.0 * (2.0 * n_classes + 1.0))
    return int(min(most_of_all, most_of_each.min()))


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
