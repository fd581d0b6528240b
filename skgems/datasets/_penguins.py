"""The penguins of three islands: parties of which none knows all classes."""

import csv
from importlib import resources

import numpy as np

_NUMBERS = ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g"]


def load_penguins(*, as_frame=False) -> tuple:
    """Load measures of penguins, their species, and the islands where they live.

    Each island is a party. None has all three species; Torgersen has a single one.

    Parameters
    ----------
    as_frame : bool, default=False
        Whether rows are a DataFrame with the column ``sex``, a text, and with values
        that are missing. Else numbers, of the penguins that have all four.

    Returns
    -------
    X : ndarray of shape (342, 4) or DataFrame of shape (344, 5)
        Bill length, bill depth and flipper length in mm, body mass in g; and the sex.
    y : ndarray of shape (n_samples,), dtype str
        The species: Adelie, Chinstrap or Gentoo.
    islands : ndarray of shape (n_samples,), dtype str
        Biscoe, Dream or Torgersen: `nodes` of `fit`.

    References
    ----------
    Horst, Hill, Gorman: palmerpenguins, 2020 (CC0).

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.datasets import load_penguins
    >>> X, y, islands = load_penguins()
    >>> X.shape, np.unique(y[islands == "Dream"]).tolist()
    ((342, 4), ['Adelie', 'Chinstrap'])
    """
    path = resources.files(__package__) / "penguins.csv"
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    texts = np.array([[row[name] or "nan" for name in _NUMBERS] for row in rows])
    X = texts.astype(np.float64)
    sexes = [row["sex"] or None for row in rows]
    y = np.array([row["species"] for row in rows])
    islands = np.array([row["island"] for row in rows])
    if as_frame:
        import pandas as pd

        return pd.DataFrame(X, columns=_NUMBERS).assign(sex=sexes), y, islands
    whole = ~np.isnan(X).any(axis=1)
    return X[whole], y[whole], islands[whole]
