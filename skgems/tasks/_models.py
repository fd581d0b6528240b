"""Outputs of models that a server sends, and the labels that these stand for."""

from collections.abc import Mapping

import numpy as np

from ..messages import Place


def columns_are_outputs(request: Mapping, place: Place) -> None:
    """Each label stands for an output that the model has."""
    check_columns(request.get("columns"), request["W"].shape[-1], place)


def check_columns(columns: np.ndarray | None, n_outputs: int, place: Place) -> None:
    """Raise ValueError for columns, if there are any, that are no outputs."""
    if columns is not None and (columns >= n_outputs).any():
        raise place.at("columns").wrong(f"are more than the {n_outputs} outputs")
