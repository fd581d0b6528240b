"""How many numbers a node tells about hidden layers, which a server may have made up.

Units of a made-up layer are distances of rows from any planes that a server likes.
Moments of m units hold

    m (m + 1) / 2

products a class, and no rule about single units bounds what these say together:
directions can be rotated, thresholds moved. What does bound it is counting. As long as
a node tells fewer numbers about layers than its rows hold,

    n_rows * n_features,

the rows are not determined by them.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..messages import Message, task_named
from ..moments import moments_kind

# Fields that hold what the server sent.
_SENT_BEFORE = ("centers", "center")
# Fields that may hold a symmetric matrix, of which one half says all.
_SYMMETRIC = ("precision", "metric_scatter")


@dataclass(frozen=True, kw_only=True)
class LayerMoments:
    """What a reply about moments holds of the outputs of hidden layers."""

    kind: str  # of the scatter, as in `moments_kind`
    # Whether there are means and variances of clusters, or only means of classes.
    has_clusters: bool

    def n_numbers(
        self, *, n_units: int, class_sizes: np.ndarray, n_clusters: int
    ) -> int:
        """Return how many numbers a reply with moments of layers holds.

        ``class_sizes`` (n_classes,) may hold zeros; ``n_clusters`` are those of all
        classes together.
        """
        n_classes = np.count_nonzero(class_sizes)
        n_products = {
            "class": n_classes * n_units * (n_units + 1) // 2,
            "shared": n_units * (n_units + 1) // 2 + n_classes * n_units,
            "diagonal": n_classes * n_units,
        }[self.kind]
        # A mean and variances for each cluster, or only a mean for each class.
        n_vectors = 2 * n_clusters if self.has_clusters else n_classes
        # And the point that means are counted from.
        return n_products + (n_vectors + 1) * n_units


def layer_moments(
    *,
    kind: str,
    n_units: int,
    class_sizes: np.ndarray,
    n_clusters: int,
    most_numbers: float,
) -> LayerMoments:
    """The most that may be sent of hidden layers.

    Where not even variances are few enough these are returned; the node then refuses
    the request, by `numbers_about_layers`.

    Parameters
    ----------
    kind : str
        As a request has it. Only for "auto" less may be sent; other kinds are what a
        person chose.
    n_units : int
        Outputs of the last hidden layer.
    class_sizes : ndarray of shape (n_classes,)
        Number of rows per class.
    n_clusters : int
        The most clusters that all classes together can have.
    most_numbers : float
        How many numbers may be told.
    """
    if kind != "auto":
        return LayerMoments(kind=kind, has_clusters=True)
    # Matrices that are too large for other reasons are not sent either.
    largest = moments_kind("auto", n_features=n_units, n_classes=len(class_sizes))
    for candidate in _most_first(largest):
        n_numbers = candidate.n_numbers(
            n_units=n_units, class_sizes=class_sizes, n_clusters=n_clusters
        )
        if n_numbers <= most_numbers:
            return candidate
    return candidate


def _most_first(largest: str) -> Iterator[LayerMoments]:
    """Yield what can be sent, in the order of what likely models lose least by."""
    kinds = ("class", "shared", "diagonal")
    for kind in kinds[kinds.index(largest) :]:
        yield LayerMoments(kind=kind, has_clusters=True)
        yield LayerMoments(kind=kind, has_clusters=False)


def numbers_about_layers(request: Message, reply: Message) -> int:
    """Count the numbers that a reply tells about hidden layers of its request.

    Replies that judge models (evaluate, score, size) are few numbers, and bounded by
    themselves. Those of training (retrain) are no statistic, and bounded by nothing.
    """
    if request.content.get("hidden") is None:
        return 0
    if not task_named(request.task).tells_of_layers:
        return 0
    n_numbers = 0
    for path, array in reply.arrays.items():
        field = path.rpartition(".")[2]
        if array.dtype.kind != "f" or field in _SENT_BEFORE:
            continue
        if field in _SYMMETRIC and array.ndim == 2:
            n_numbers += (array.size + len(array)) // 2
        else:
            n_numbers += array.size
    return n_numbers
