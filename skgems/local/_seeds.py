"""The seed of what a node draws among its rows, which no server may choose.

A server that may send seeds can ask for the same statistics again and again, each time
of clusters or halves that were drawn anew. The differences between such replies are
sums of a few rows, and soon the rows themselves. So a request for clusters or halves
has no seed: the node takes one that its rows decide, and whoever asks again is told
the same numbers again.
"""

import hashlib

import numpy as np
from numpy.typing import ArrayLike


def seed_of_rows(class_sizes: ArrayLike) -> int:
    """A seed below 2**32 that depends on the number of rows per class alone.

    It is the same for the same rows in any order, in any units, dense or sparse, and
    whatever the classes are called. So none of these changes the clusters.

    Parameters
    ----------
    class_sizes : array-like of shape (n_classes,)
        Number of rows per class, in any order.
    """
    sizes = np.sort(np.asarray(class_sizes, dtype=np.int64))
    digest = hashlib.sha256(sizes[sizes > 0].astype("<i8").tobytes()).digest()
    return int.from_bytes(digest[:4], "little")
