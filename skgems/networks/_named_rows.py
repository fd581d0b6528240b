"""Rows whose parts enter a module by name: a dict of arrays, as skorch takes it."""

from collections.abc import Mapping

import numpy as np


class NamedRows:
    """A dict of arrays with one entry for each row, which is indexed like an array.

    ``shape`` is that of all arrays side by side, which NumPy sees.
    """

    ndim = 2

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.arrays = dict(arrays)

    @classmethod
    def from_mapping(cls, X: Mapping) -> "NamedRows":
        """Check arrays by name; ValueError if not finite numbers of one length.

        Integers stay what they are, as ids of tokens.
        """
        arrays = {name: np.asarray(array) for name, array in X.items()}
        if not arrays:
            raise ValueError("X is a dict without arrays. Give one for each input.")
        n_rows = {
            name: len(array) if array.ndim else 0 for name, array in arrays.items()
        }
        if len(set(n_rows.values())) > 1 or not min(n_rows.values()):
            raise ValueError(
                f"X is a dict of arrays with different numbers of rows, {n_rows}. Give "
                "each the same rows, at least one."
            )
        for name, array in arrays.items():
            if array.dtype.kind not in "fiub" or not np.isfinite(array).all():
                raise ValueError(
                    f"X is a dict of arrays, and its array {name!r} has values that "
                    "are no finite numbers. Give numbers alone."
                )
        return cls(arrays)

    @property
    def shape(self) -> tuple[int, int]:
        widths = [array[:1].size for array in self.arrays.values()]
        return len(self), sum(widths)

    def __len__(self) -> int:
        return len(next(iter(self.arrays.values())))

    def __getitem__(self, rows: object) -> "NamedRows":
        rows = rows[0] if isinstance(rows, tuple) else rows
        return NamedRows({name: array[rows] for name, array in self.arrays.items()})

    def __array__(self, dtype: object = None, copy: bool | None = None) -> np.ndarray:
        flat = [array.reshape(len(self), -1) for array in self.arrays.values()]
        return np.hstack(flat).astype(dtype or np.float64)
