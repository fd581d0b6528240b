"""Weights of classes, as pairs of a label and a weight say them."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike


def weights_of(pairs: Sequence, classes: ArrayLike) -> np.ndarray:
    """The weight of each class, by pairs of label and weight; 1 where it has none."""
    weight_of_label = dict(pairs)
    return np.array([weight_of_label.get(c, 1.0) for c in np.asarray(classes).tolist()])
