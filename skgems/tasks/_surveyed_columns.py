"""What a node tells of one column of its table: fields and rules."""

from collections.abc import Mapping

import numpy as np

from ..messages import ABSENT, Array, Labels, Number, Place, Text
from ..moments import LARGEST
from ..steps import (
    KINDS_OF_COLUMNS,
    MOST_CATEGORIES,
    MOST_CHARACTERS_OF_CATEGORY,
    MOST_GROUPS,
    NUMBER_COLUMN,
)
from ._shared import come_together, number_of_rows, whole_numbers


def column_is_of_enough_rows(
    told: Mapping, place: Place, *, n_rows: int, min_rows: int
) -> None:
    """Nothing that is told of a column is about a few rows, nor is what remains."""
    n_known = told["known"]
    check_sizes([n_known, n_rows - n_known], place.at("known"), min_rows=min_rows)
    place.deny(n_known > n_rows, "known", f"is {n_known}, but there are {n_rows} rows")
    come_together(told, "means", "mean", place)
    come_together(told, "means", "variance", place)
    come_together(told, "labels", "counts", place)
    come_together(told, "labels", "n_values", place)
    if "means" in told:
        place.deny("labels" in told, "labels", "stand beside means")
        place.deny(told["kind"] != NUMBER_COLUMN, "means", "are not of numbers")
        _check_means(told["means"], place.at("means"), most=n_known // min_rows)
    if "labels" in told:
        _check_categories(told, place, n_known=n_known, min_rows=min_rows)


def check_sizes(sizes: list, place: Place, *, min_rows: int) -> None:
    """Raise ValueError for a number of rows between nothing and the bound."""
    for size in sizes:
        if 0 < size < min_rows:
            raise place.wrong(
                f"tells of {size} rows, fewer than min_rows={min_rows} of the node"
            )


def _check_means(means: np.ndarray, place: Place, *, most: int) -> None:
    most = min(most, MOST_GROUPS)
    if not 1 <= len(means) <= most:
        raise place.wrong(f"are those of {len(means)} groups, not of 1 to {most}")
    place.deny(bool((np.diff(means) < 0).any()), "are not in order")


def _check_categories(
    told: Mapping, place: Place, *, n_known: int, min_rows: int
) -> None:
    labels = told["labels"]
    place.deny(len(set(labels)) < len(labels), "labels", "has a label twice")
    are_texts = all(isinstance(label, str) for label in labels)
    # The categories of time spans are texts, and those of numbers alone are numbers.
    if labels and are_texts == (told["kind"] == NUMBER_COLUMN):
        raise place.at("labels").wrong("are not such as the column has")
    if not are_texts and max(map(abs, labels)) > LARGEST:
        raise place.at("labels").wrong(f"has numbers beyond {LARGEST:g}")
    if are_texts and max(map(len, labels), default=0) > MOST_CHARACTERS_OF_CATEGORY:
        raise place.at("labels").wrong("has texts that are too long")
    counts = told["counts"].tolist()
    n_others = n_known - sum(counts)
    place.deny(n_others < 0, "counts", f"are of more than {n_known} rows")
    check_sizes([*counts, n_others], place.at("counts"), min_rows=min_rows)


OF_COLUMNS = (
    "For each column what it holds and the number of values that are known. Of numbers "
    "the mean, the variance, and means of groups of at least min_rows rows that are "
    "neighbors in this column; under a rule rows have weights of 0.7 to 1 in these. "
    "Else categories that at least min_rows rows have, and their counts. Nothing about "
    "the values of columns that identify rows."
)


_CATEGORIES = Labels("l", default=ABSENT, most=MOST_CATEGORIES, says=OF_COLUMNS)


FIELDS_OF_COLUMN = {
    "kind": Text(among=KINDS_OF_COLUMNS, says=OF_COLUMNS),
    "known": number_of_rows(says=OF_COLUMNS),
    "means": Array("n", default=ABSENT, says=OF_COLUMNS),
    "mean": Number(low=-LARGEST, high=LARGEST, default=ABSENT, says=OF_COLUMNS),
    "variance": Number(default=ABSENT, says=OF_COLUMNS),
    "labels": _CATEGORIES,
    "counts": whole_numbers("l", default=ABSENT, says=OF_COLUMNS),
    "n_values": number_of_rows(default=ABSENT, says=OF_COLUMNS),
}
