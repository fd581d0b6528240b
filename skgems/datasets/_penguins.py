"""The penguins of three islands: parties of which none knows all classes."""

import csv
from importlib import resources

import numpy as np

_NUMBERS = ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g"]


def load_penguins(*, as_frame=False) -> tuple:
    """Load the Palmer penguins: body measures, species and island of each bird.

    Use each island as one node. No island has all three species, and Torgersen has only
    one.

    Parameters
    ----------
    as_frame : bool, default=False
        Whether to return the rows as a DataFrame of all 344 penguins. It has missing
        values and one more column, the text ``sex``. Otherwise the rows are an array of
        the 342 penguins with all four measures.

    Returns
    -------
    X : ndarray of shape (342, 4) or DataFrame of shape (344, 5)
        Bill length, bill depth and flipper length in mm, body mass in g; in the
        DataFrame also the sex.
    y : ndarray of shape (n_samples,), dtype str
        The species: Adelie, Chinstrap or Gentoo.
    islands : ndarray of shape (n_samples,), dtype str
        The island: Biscoe, Dream or Torgersen. Pass it to ``fit`` as `nodes`.

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
