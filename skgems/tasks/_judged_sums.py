"""Sums over rows that judge models: fields, words and rules."""

from collections.abc import Mapping
from typing import Annotated

import numpy as np

from ..messages import (
    MOST_ROWS,
    ROUNDING,
    Array,
    Number,
    Part,
    Place,
    counting,
    rows_in_words,
)
from ..moments import LARGEST
from ._shared import sums


def _sums_in_words(content: Mapping, reply: Mapping) -> str:
    models = counting(np.size(content["right"]), "model")
    return f"{rows_in_words(content['count'])}, {models}."


def held_out_in_words(content: Mapping, reply: Mapping) -> str:
    return f"{rows_in_words(content['count'])}."


def check_right(right: np.ndarray, count: float, place: Place) -> None:
    """Raise ValueError for more rows that are right than there are."""
    if np.max(right, initial=0.0) > count * (1.0 + ROUNDING):
        raise place.at("right").wrong(f"are more than the {count:g} rows")


_OF_ONE_ROW = "A sum over a single row is the value of that row."


_RIGHT = f"Number of rows that are predicted correctly. {_OF_ONE_ROW}"


_LOSSES = f"Sum of the losses. {_OF_ONE_ROW}"


SUMS_OF_JUDGING = {
    "count": Number(high=MOST_ROWS, says="Number of rows.", detail=_sums_in_words),
    "squares": Array(
        "m?",
        says=f"Sum of the squared logits. {_OF_ONE_ROW}",
        low=0.0,
        # Logits of NearestCentroid are squares of features themselves.
        high=LARGEST**4,
    ),
    "right": sums("m?", says=_RIGHT, low=0.0),
    "losses": sums("m? f", says=_LOSSES, low=0.0, nan=True),
    "squared_gains": sums(
        "m?",
        says="Sum of the squared differences between the loss of a row and its loss "
        f"under the first model. {_OF_ONE_ROW}",
        low=0.0,
        nan=True,
        when=lambda request: request.of == "learning",
    ),
}


class JudgedSums(Part):
    """Sums over rows that judge models."""

    count: Annotated[float, SUMS_OF_JUDGING["count"]]
    squares: Annotated[np.ndarray, SUMS_OF_JUDGING["squares"]]
    right: Annotated[np.ndarray, SUMS_OF_JUDGING["right"]]
    losses: Annotated[np.ndarray, SUMS_OF_JUDGING["losses"]]
    squared_gains: Annotated[np.ndarray | None, SUMS_OF_JUDGING["squared_gains"]]

    def check(self, place: Place) -> None:
        check_right(self.right, self.count, place)
