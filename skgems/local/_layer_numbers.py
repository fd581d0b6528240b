"""How many numbers a node tells about hidden layers, which a server may have made up.

Units of a made-up layer are distances of rows from any planes that a server likes.
Moments of m units hold m (m + 1) / 2 products a class, and no rule about single units
bounds what these say together: directions can be rotated, thresholds moved. What does
bound it is counting. As long as a node tells fewer numbers about layers than its rows
hold (rows times features), the rows are not determined by them.
"""

from dataclasses import dataclass

import numpy as np

from ..messages import Message
from ..moments import moments_kind

# What is sent, the most first: a matrix a class, one matrix, or variances alone; each
# with means and variances of clusters of a class, or only of the class itself. Without
# clusters the likeliest model changes less than without covariances.
_KINDS = ("class", "shared", "diagonal")
# Tasks whose replies have statistics of what hidden layers make of rows.
_TELLING = ("moments", "neurons", "space")
# Fields that hold what the server sent.
_SENT_BEFORE = ("centers", "center")
# Fields that may hold a matrix of which one half says all.
_SYMMETRIC = ("precision", "metric_scatter")


@dataclass(frozen=True, kw_only=True)
class LayerMoments:
    """What is sent of the outputs of hidden layers."""

    kind: str
    has_clusters: bool

    def n_numbers(self, n_units: int, class_sizes: np.ndarray, n_parts: int) -> int:
        """Numbers told, of rows in so many classes and clusters of these."""
        n_classes = len(class_sizes)
        products = {
            "class": n_classes * n_units * (n_units + 1) // 2,
            "shared": n_units * (n_units + 1) // 2 + n_classes * n_units,
            "diagonal": n_classes * n_units,
        }
        # Means and variances of each cluster, or of each class as its only one; and the
        # point that means are counted from.
        n_sent = n_parts if self.has_clusters else n_classes
        return products[self.kind] + (2 * n_sent + 1) * n_units


def layer_moments(
    *,
    kind: str,
    n_units: int,
    n_inputs: int,
    class_sizes: np.ndarray,
    n_parts: int,
    share: float,
) -> LayerMoments:
    """The most that may be sent of hidden layers.

    Parameters
    ----------
    kind : str
        As a request has it. Only "auto" is made less; others are what a person chose.
    n_units, n_inputs : int
        Outputs of the last hidden layer, and features of the rows.
    class_sizes : ndarray of shape (n_classes,)
        Number of rows per class.
    n_parts : int
        Most clusters of all classes.
    share : float
        Part of rows times features that this message may use.
    """
    if kind != "auto":
        return LayerMoments(kind=kind, has_clusters=True)
    most = share * class_sizes.sum() * n_inputs
    # Matrices that are too large for other reasons are not sent either.
    largest = _KINDS.index(moments_kind("auto", n_units, len(class_sizes)))
    for name in _KINDS[largest:]:
        for has_clusters in (True, False):
            found = LayerMoments(kind=name, has_clusters=has_clusters)
            if found.n_numbers(n_units, class_sizes, n_parts) <= most:
                return found
    return found


def numbers_about_layers(request: Message, reply: Message) -> int:
    """How many numbers a reply tells about hidden layers that came with the request.

    Judgements of models (evaluate, score, size) are few numbers, and bounded by
    themselves; training (retrain) is not a statistic, and bounded by nothing.
    """
    if request.content.get("hidden") is None or request.task not in _TELLING:
        return 0
    n_numbers = 0
    for path, array in reply.arrays.items():
        field = path.rpartition(".")[2]
        if array.dtype.kind != "f" or field in _SENT_BEFORE:
            continue
        is_symmetric = field in _SYMMETRIC and array.ndim == 2
        n_numbers += (array.size + len(array)) // 2 if is_symmetric else array.size
    return n_numbers
