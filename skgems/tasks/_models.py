"""Outputs of models that a server sends, and the labels that these stand for."""

import numpy as np

from ..messages import Place


def check_columns(columns: np.ndarray | None, n_outputs: int, place: Place) -> None:
    """Raise ValueError for columns, if there are any, that are no outputs."""
    if columns is not None and (columns >= n_outputs).any():
        raise place.at("columns").wrong(f"are more than the {n_outputs} outputs")
