# SPDX-License-Identifier: BSD-3-Clause
"""Fields of what was told: each is asked for by what it must be, or refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from numbers import Real

import numpy as np

from ..moments import LARGEST, LARGEST_FLOAT32, LARGEST_SQUARE

# Of a matrix that is scaled to ones on its diagonal: what rounding may leave, and
# what rounding of float32 rows may for each feature.
_DEFINITE, _DEFINITE_A_FEATURE = 1e-6, np.finfo(np.float32).eps
ROUNDING = 1e-6
LABELS = (str, int, float, bool)
MOST_ROWS = 2**53
# Characters of labels that are made as long as the longest.
_MOST_CHARACTERS = 2**26


class Fields:
    """A table that was told, whose fields are asked for by what they must be."""

    def __init__(self, content: Mapping, where: str) -> None:
        if not isinstance(content, Mapping):
            raise ValueError(f"{where} is no table of fields.")
        self.content, self.where = content, where

    def wrong(self, name: str, what: str) -> ValueError:
        return ValueError(f"{self.where}.{name} {what}.")

    def only(self, *names: str) -> None:
        """Raise ValueError unless there are no other fields."""
        more = sorted(set(self.content) - set(names))
        if more:
            raise self.wrong(str(more[0])[:80], "is no field of it")

    def get(self, name: str):
        if name not in self.content:
            raise self.wrong(name, "is missing")
        return self.content[name]

    def table(self, name: str) -> Fields:
        return Fields(self.get(name), f"{self.where}.{name}")

    def text(self, name: str, among=None) -> str:
        value = self.get(name)
        if not isinstance(value, str):
            raise self.wrong(name, "is no text")
        self._check_text(name, value)
        if among is not None and value not in among:
            raise self.wrong(name, f"is {value[:40]!r}, none of {sorted(among)}")
        return value

    def flag(self, name: str) -> bool:
        value = self.get(name)
        if not isinstance(value, bool):
            raise self.wrong(name, "is neither true nor false")
        return value

    def number(self, name: str, *, low=-np.inf, high=np.inf, unbounded=False) -> float:
        """A finite number; an array of no dimension counts as one."""
        value = self.get(name)
        if isinstance(value, np.ndarray) and value.ndim == 0:
            value = value.item()
        if isinstance(value, bool) or not isinstance(value, Real):
            raise self.wrong(name, "is no number")
        if unbounded and value == np.inf:
            return value
        # Whole numbers of JSON may have thousands of digits.
        low, high = max(low, -LARGEST_SQUARE), min(high, LARGEST_SQUARE)
        if not low <= value <= high:
            raise self.wrong(
                name, f"is {value!s:.20}, not between {low:g} and {high:g}"
            )
        return value

    def _check_text(self, name: str, value: str) -> None:
        if not can_be_told(value):
            raise self.wrong(name, "has characters that cannot be told")
        if value.endswith("\0"):  # which arrays drop
            raise self.wrong(name, "ends in a character of no width")

    def count(self, name: str, low: int = 0) -> int:
        value = self.number(name, low=low, high=2**53)
        if value != int(value):
            raise self.wrong(name, f"is {value}, no whole number")
        return int(value)

    def array(self, name: str, shape: tuple, kinds: str = "f", **limits) -> np.ndarray:
        """An array of a shape, in which None stands for any length."""
        return self.checked(name, self.get(name), shape, kinds, **limits)

    def checked(
        self,
        name,
        value,
        shape,
        kinds,
        *,
        low=None,
        high=LARGEST,
        unbounded=False,
        missing=False,
        least_bytes=8,
    ):
        """A value that was told, an array as :meth:`array` asks for."""
        if not isinstance(value, np.ndarray):
            raise self.wrong(name, "is no array")
        # Integers have four bytes on machines of 32 bits.
        n_bytes = {"f": least_bytes, "i": 4}.get(value.dtype.kind, 0)
        if value.dtype.kind not in kinds or value.dtype.itemsize < n_bytes:
            raise self.wrong(name, f"has the dtype {value.dtype}")
        fits = len(shape) == value.ndim and all(
            want in (None, have) for want, have in zip(shape, value.shape, strict=True)
        )
        if not fits:
            wanted = tuple("any" if n is None else n for n in shape)
            raise self.wrong(name, f"has the shape {value.shape}, not {wanted}")
        if value.dtype.kind == "f" and not missing:
            odd = np.isnan(value) if unbounded else ~np.isfinite(value)
            if odd.any():
                raise self.wrong(name, f"has {odd.sum()} values that are not finite")
        if value.dtype.kind == "f":
            if value.dtype == np.float32:
                high = min(high, LARGEST_FLOAT32)
            large = np.abs(value) > np.float64(high)
            if unbounded or missing:
                large &= np.isfinite(value)
            if large.any():
                raise self.wrong(name, f"has {large.sum()} values above {high:g}")
        if low is not None and value.size and value.min() < low:
            raise self.wrong(name, f"has values below {low}")
        return value

    def arrays(self, name: str, n_dimensions: int, kinds: str = "f") -> list:
        """A list of arrays, of float32 or float64."""
        values = self.get(name)
        if not isinstance(values, list):
            raise self.wrong(name, "is no list of arrays")
        shape = (None,) * n_dimensions
        return [
            self.checked(f"{name}[{i}]", value, shape, kinds, least_bytes=4)
            for i, value in enumerate(values)
        ]

    def kinds_of_labels(self, name: str) -> None:
        """Raise ValueError unless labels are of one kind, and arrays can hold them."""
        values = self.get(name)
        kinds = {type(value) for value in values}
        if len(kinds) != 1 or not kinds <= set(LABELS):
            raise self.wrong(name, "has labels that are not all texts, or all numbers")
        if kinds == {int} and any(not -(2**63) <= v < 2**63 for v in values):
            raise self.wrong(name, "has numbers of more than 64 bits")
        if kinds == {float} and not all(map(isfinite, values)):
            raise self.wrong(name, "has numbers that are not finite")
        if kinds == {str}:
            for value in values:
                self._check_text(name, value)
            if len(values) * max(map(len, values)) > _MOST_CHARACTERS:
                raise self.wrong(name, "has texts that are too long")

    def labels(self, name: str) -> list:
        """Labels of classes, of one kind, each once and in their order."""
        values = self.get(name)
        if not isinstance(values, list) or not values:
            raise self.wrong(name, "is no list of labels")
        self.kinds_of_labels(name)
        if any(one >= other for one, other in zip(values, values[1:], strict=False)):
            raise self.wrong(name, "is not in order, or has a label twice")
        return values


def can_be_told(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:  # half a character
        return False
    return True


def check_definite(own: Fields, name: str, matrix: np.ndarray) -> None:
    """Raise ValueError unless a symmetric matrix has no negative eigenvalue."""
    squares = matrix.diagonal()
    if (squares < 0).any():
        raise own.wrong(name, "has negative squares on its diagonal")
    size = np.sqrt(squares)
    inverse = np.divide(1.0, size, out=np.zeros_like(size), where=size > 0)
    scaled = matrix * inverse[:, None] * inverse
    # Where a feature has no spread it has no product with another.
    if matrix[size == 0].any():
        raise own.wrong(name, "has products of a feature without squares")
    slack = _DEFINITE + _DEFINITE_A_FEATURE * len(scaled)
    np.fill_diagonal(scaled, 1.0 + slack)
    try:
        np.linalg.cholesky(scaled)
    except np.linalg.LinAlgError as exc:
        raise own.wrong(name, "has a negative eigenvalue") from exc


def or_none(check: Callable) -> Callable:
    return lambda form, name: form.get(name) is None or check(form, name)
