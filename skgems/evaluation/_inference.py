"""A table of coefficients with standard errors, tests and intervals."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import norm

from ..base import Page, Points, ResultMixin, Table
from ._heterogeneity import Heterogeneity

if TYPE_CHECKING:  # pandas is an extra
    import pandas


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Inference(ResultMixin):
    """Coefficients of a logistic regression with standard errors.

    It is returned by ``GEMSLogisticAggregator.inference``, and prints as a table, also
    in a notebook. Words are those of statsmodels. All arrays have one entry for each
    coefficient, in the order of `names`.

    Attributes
    ----------
    names : list of str
        The columns of the nodes' rows, then the intercept or the intercepts.
    classes : list
        The class of each coefficient, which is compared with the `reference`.
    reference : label
        The class that all others are compared with.
    params : ndarray of shape (n_params,)
        Coefficients: log odds ratios for one unit of the column.
    bse : ndarray of shape (n_params,)
        Standard errors; NaN where there are none.
    zvalues : ndarray of shape (n_params,)
        Coefficients divided by their standard errors.
    pvalues : ndarray of shape (n_params,)
        Two-sided p values of the hypothesis that a coefficient is 0. They are NaN if
        the table is approximate, or the model has a penalty.
    odds_ratios : ndarray of shape (n_params,)
        The exponentials of the coefficients.
    covariance : ndarray of shape (n_params, n_params)
        The covariance of the coefficients.
    level : float
        The share of intervals that contain the true coefficient.
    cov_type : {"nonrobust", "robust", "site"}
        Which standard errors they are.
    is_approximate : bool
        Whether some node was not asked, or did not tell all that is needed.
    n_rows : float
        Number of rows, or the sum of their weights.
    nodes : list of str
        Names of the nodes.
    heterogeneity : Heterogeneity or None
        Estimates by node (``estimates``, ``errors``) and, for each coefficient of a
        column, Cochran's ``Q`` with ``df`` and ``pvalues``, and ``I2``. It is None if
        the nodes did not tell their information.
    change : ndarray of shape (n_params,)
        By how much the last message moved each coefficient.
    notes : list of str
        What the table rests on, in sentences.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.evaluation import Inference
    >>> table = Inference(
    ...     names=["age", "intercept"],
    ...     classes=["ill", "ill"],
    ...     reference="well",
    ...     params=np.array([0.5, -1.0]),
    ...     covariance=np.diag([0.04, 0.25]),
    ...     level=0.95,
    ...     cov_type="nonrobust",
    ...     is_approximate=False,
    ...     has_tests=True,
    ...     n_rows=100,
    ... )
    >>> table.bse.tolist(), table.conf_int().round(2)[0].tolist()
    ([0.2, 0.5], [0.11, 0.89])
    >>> print(table)
    ill against well, 100 rows
               coef  std err      z  P>|z|  [0.025    0.975]  odds ratio  [0.025  0.975]
    age         0.5      0.2   2.50  0.012   0.108     0.892       1.649   1.114    2.44
    intercept    -1      0.5  -2.00  0.046   -1.98  -0.02002      0.3679  0.1381  0.9802
    """

    names: list[str]
    classes: list
    reference: object
    params: np.ndarray
    covariance: np.ndarray
    level: float
    cov_type: str
    is_approximate: bool
    has_tests: bool  # whether there are p values
    n_rows: float
    nodes: list[str] | None = None
    heterogeneity: Heterogeneity | None = None
    change: np.ndarray | None = None
    notes: tuple[str, ...] = ()

    @property
    def bse(self) -> np.ndarray:
        """Return standard errors of the coefficients."""
        return np.sqrt(np.diag(self.covariance))

    @property
    def zvalues(self) -> np.ndarray:
        """Return the coefficients divided by their standard errors."""
        return self.params / self.bse

    @property
    def pvalues(self) -> np.ndarray:
        """Return two-sided p values, NaN where there are none."""
        if not self.has_tests:
            return np.full(len(self.params), np.nan)
        return 2.0 * norm.sf(np.abs(self.zvalues))

    @property
    def odds_ratios(self) -> np.ndarray:
        """Return the exponentials of the coefficients."""
        with np.errstate(over="ignore"):
            return np.exp(self.params)

    def conf_int(self, level=None) -> np.ndarray:
        """Return intervals that contain the true coefficients.

        Parameters
        ----------
        level : float, default=None
            Their level of confidence, such as 0.95: that of statsmodels is one minus
            this. If None, it is that of the table.

        Returns
        -------
        intervals : ndarray of shape (n_params, 2)
            Lower and upper ends.

        Raises
        ------
        ValueError
            If the level is not between 0 and 1.
        """
        level = self.level if level is None else level
        if not 0.0 < level < 1.0:
            raise ValueError(
                "The level of confidence is between 0 and 1, such as 0.95, but "
                f"{level!r} was given."
            )
        half = norm.ppf(0.5 + level / 2.0) * self.bse
        return np.column_stack([self.params - half, self.params + half])

    @property
    def _columns(self) -> dict[str, np.ndarray]:
        """Return the columns of the table, by the names that statsmodels has."""
        lower, upper = f"[{0.5 - self.level / 2:.4g}", f"{0.5 + self.level / 2:.4g}]"
        intervals = self.conf_int()
        with np.errstate(over="ignore"):
            ratios = np.exp(intervals)
        columns = {
            "coef": self.params,
            "std err": self.bse,
            "z": self.zvalues,
            "P>|z|": self.pvalues,
            lower: intervals[:, 0],
            upper: intervals[:, 1],
            "odds ratio": self.odds_ratios,
            f"odds ratio {lower}": ratios[:, 0],
            f"odds ratio {upper}": ratios[:, 1],
        }
        if not self.has_tests:
            del columns["P>|z|"]
        if self.heterogeneity is not None and len(self.nodes) > 1:
            columns["I2"] = self.heterogeneity.I2
        return columns

    def to_frame(self) -> "pandas.DataFrame":
        """Return the table as a pandas DataFrame.

        Rows are named by class and column.
        """
        import pandas as pd

        index = pd.MultiIndex.from_arrays(
            [self.classes, self.names], names=["class", "column"]
        )
        return pd.DataFrame(self._columns, index=index)

    def _blocks(self) -> list[tuple[str, np.ndarray]]:
        """Return a title and the indices of the coefficients of each class."""
        titles = []
        for label in dict.fromkeys(self.classes):
            indices = [i for i, other in enumerate(self.classes) if other == label]
            title = f"{label} against {self.reference}, {self._n_rows_in_words} rows"
            titles.append((title, np.array(indices)))
        return titles

    @property
    def _n_rows_in_words(self) -> str:
        """Return the number of rows with all its digits, or a sum of weights."""
        if float(self.n_rows).is_integer():
            return f"{self.n_rows:.0f}"
        return f"{self.n_rows:.1f}"

    def _cells(self, name: str) -> list[str]:
        """Return the numbers of a column as texts."""
        digits = {"z": ".2f", "P>|z|": ".3f", "I2": ".0%"}.get(name, ".4g")
        return [
            "" if np.isnan(value) else format(value, digits)
            for value in self._columns[name]
        ]

    def _page(self) -> Page:
        cells = {name: self._cells(name) for name in self._columns}
        parts: list[Table | Points] = [
            Table(
                heads=["", *map(_short, cells)],
                rows=[
                    [self.names[i], *(column[i] for column in cells.values())]
                    for i in indices.tolist()
                ],
                caption=title,
            )
            for title, indices in self._blocks()
        ]
        if self.notes:
            parts.append(Points(heading="Notes", sentences=self.notes))
        return Page(title="", parts=parts)


def _short(name: str) -> str:
    """Return the head of a column: the ends of intervals follow what they are of."""
    return name.removeprefix("odds ratio ") if "[" in name or "]" in name else name
