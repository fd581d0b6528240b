"""The parameter `privacy` of aggregators: noise on what nodes tell, by numbers."""

from collections.abc import Mapping, Set
from numbers import Integral, Real
from typing import ClassVar, NoReturn, Self

import numpy as np

from ..base import Part
from ..compat import Interval


class Privacy(Part):
    """Noise on the sums of each node, of a size that epsilon and delta prescribe.

    Each node tells one vector of sums over its rows, with noise, and nothing else that
    depends on its rows. Whatever anybody does with it, the odds that one person is
    among the rows change by a factor of at most ``exp(epsilon)``, but for a chance of
    `delta`. The unit is one person, whose rows are added or removed.

    Parameters
    ----------
    classes : sequence of labels
        All classes, which everybody may know. Rows with other labels are left out, and
        only the node is told how many.
    low, high : sequence of float of shape (n_features,), or dict
        Bounds of each column, from a book and never from the rows. Values beyond them
        are moved to the nearer bound, and missing or infinite values to the middle. In
        a dict the keys are names of columns, in the order of the table. With `front` of
        an aggregator they are bounds of the columns that come out of it, and names are
        those of its ``get_feature_names_out``.
    epsilon : float or None, default=None
        How much the odds may change. Smaller is safer, and needs more rows. None stands
        for sums without noise, which only helpers of sealed sums may add up.
    delta : float, default=1e-5
        The chance that the promise fails. It should be well below one in the number of
        people of all nodes.
    rows_of_one : int, default=1
        Largest number of rows that one person has, over all nodes. With `groups` a node
        keeps at most so many rows of each group.
    norm : float, default=0.4
        Largest length of a row. It is the root mean square over columns, in halves of
        their ranges. Longer rows are shortened. A smaller number means less noise, and
        rows that are shortened more.

    Notes
    -----
    A `front` of the aggregator must learn nothing from rows: encoders of agreed
    categories, scalers with agreed bounds, and features of a seed. A row that it cannot
    take, as one of an unknown category, becomes the middle of all bounds, and only the
    node is told.

    Examples
    --------
    >>> from skgems import GEMSLogisticAggregator, Privacy
    >>> privacy = Privacy(
    ...     classes=["ill", "well"],
    ...     low={"age": 20, "weight": 40},
    ...     high={"age": 90, "weight": 160},
    ...     epsilon=1.0,
    ... )
    >>> privacy.bounds()[1].tolist()
    [90.0, 160.0]
    """

    short_forms: ClassVar = [None]
    _parameter_constraints: dict = {
        "classes": ["array-like"],
        "low": ["array-like", dict],
        "high": ["array-like", dict],
        # Within these sigma can be computed, and says something of a person.
        "epsilon": [Interval(Real, 1e-6, 1e6, closed="both"), None],
        "delta": [Interval(Real, 1e-15, 1, closed="left")],
        "rows_of_one": [Interval(Integral, 1, 1_000_000, closed="both")],
        "norm": [Interval(Real, 0, 1, closed="right")],
    }

    def __init__(
        self,
        classes=(),
        low=(),
        high=(),
        *,
        epsilon=None,
        delta=1e-5,
        rows_of_one=1,
        norm=0.4,
    ):
        self.classes = classes
        self.low = low
        self.high = high
        self.epsilon = epsilon
        self.delta = delta
        self.rows_of_one = rows_of_one
        self.norm = norm

    @classmethod
    def from_value(cls, value: object) -> Self | None:
        """Return a checked copy of a parameter's value; None stands for no noise."""
        return None if value is None else super().from_value(value)

    @classmethod
    def from_short_form(cls, value: object) -> None:
        """Return None for None, the only short form: nodes tell sums as they are."""
        if value is not None:
            raise ValueError(f"privacy={value!r} is no Privacy. Pass one, or None.")

    def _with_objects(self) -> Self:
        _check_classes(self.classes)
        _check_bounds(self.low, self.high)
        return self

    def sorted_classes(self) -> np.ndarray:
        """Return all classes, sorted as an aggregator has them.

        Returns
        -------
        classes : ndarray of shape (n_classes,)
        """
        return np.unique(np.asarray(self.classes))

    def column_names(self) -> list[str] | None:
        """Return the names of the columns; None if bounds are given by place.

        Returns
        -------
        names : list of str or None
        """
        return list(self.low) if isinstance(self.low, Mapping) else None

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the bounds of each column.

        Returns
        -------
        low, high : ndarray of shape (n_features,)
        """
        if isinstance(self.low, Mapping):
            names = list(self.low)
            pairs = [
                [self.low[name] for name in names],
                [self.high[name] for name in names],
            ]
        else:
            pairs = [self.low, self.high]
        low, high = (np.asarray(values, dtype=np.float64) for values in pairs)
        return low, high

    def as_settings(self) -> dict:
        """Return the parameters for JSON, as messages and agreements have them."""
        low, high = self.bounds()
        names = self.column_names()
        return {
            "classes": self.sorted_classes().tolist(),
            "names": None if names is None else [str(name) for name in names],
            "low": low.tolist(),
            "high": high.tolist(),
            "epsilon": None if self.epsilon is None else float(self.epsilon),
            "delta": float(self.delta),
            "rows_of_one": int(self.rows_of_one),
            "norm": float(self.norm),
        }

    @classmethod
    def from_settings(cls, settings: Mapping) -> Self:
        """Return the checked inverse of `as_settings`, of another party's settings.

        Raises
        ------
        ValueError
            If the settings are not what this version writes, or a value is wrong.
        """
        settings = dict(settings)
        expected = {"names", *cls._get_param_names()}
        if settings.keys() != expected:
            raise ValueError(
                f"settings of privacy have the names {sorted(settings)}, not "
                f"{sorted(expected)}. Use one version of skgems at all parties."
            )
        names = settings.pop("names")
        if names is not None:
            for bound in ("low", "high"):
                settings[bound] = dict(zip(names, settings[bound], strict=True))
        return cls.from_value(cls(**settings))


def _check_classes(classes: object) -> None:
    """Raise ValueError unless there are several classes, each named once."""
    if isinstance(classes, Mapping | Set):
        raise ValueError(
            f"classes={classes!r} of Privacy are no sequence. Pass a list of labels."
        )
    for label in classes:
        is_number = isinstance(label, Real | np.bool_) and np.isfinite(label)
        if not (isinstance(label, str) or is_number):
            raise ValueError(
                f"classes={classes!r} of Privacy hold {label!r}, which is no text and "
                "no finite number. Pass labels as the rows have them."
            )
    labels = np.asarray(classes)
    if len({isinstance(label, str) for label in classes}) > 1:
        raise ValueError(
            f"classes={classes!r} of Privacy are texts and numbers. Pass labels of one "
            "kind, as the rows have them."
        )
    if len(labels) < 2:
        raise ValueError(
            f"classes={classes!r} of Privacy must name at least two classes. Nodes "
            "tell sums of all agreed classes, whatever labels their rows have: pass "
            'classes=["ill", "well"], for example.'
        )
    if len(np.unique(labels)) < len(labels):
        raise ValueError(
            f"classes={classes!r} of Privacy name a class twice. Name each once."
        )


def _check_bounds(low: object, high: object) -> None:
    """Raise ValueError unless each column has a finite range."""
    if any(hasattr(bounds, "to_dict") for bounds in (low, high)):
        raise ValueError(
            "low and high of Privacy are no Series of pandas, whose names could be "
            "meant or not. Pass low.to_dict() for bounds by column name, or "
            "low.tolist() for bounds in the order of the columns."
        )
    is_named = [isinstance(bounds, Mapping) for bounds in (low, high)]
    if is_named[0] != is_named[1]:
        raise ValueError(
            "low and high of Privacy must both be dicts by column name, or both be "
            "sequences in the order of the columns."
        )
    if is_named[0] and set(low) != set(high):
        raise ValueError(
            "low and high of Privacy must name the same columns, but "
            f"{sorted(set(low) ^ set(high), key=str)} are in one of them only."
        )
    if len(low) == 0 or len(low) != len(high):
        raise ValueError(
            f"low and high of Privacy have {len(low)} and {len(high)} bounds. Pass one "
            "of each per column, from a book and never from the rows."
        )
    try:
        limits = np.array(Privacy(low=low, high=high).bounds()).reshape(2, len(low))
    except (TypeError, ValueError):
        raise ValueError(
            f"low={low!r} and high={high!r} of Privacy must hold one number per column."
        ) from None
    columns = list(low) if is_named[0] else list(range(len(low)))
    has_range = np.isfinite(limits).all(0) & (limits[0] < limits[1])
    # The range itself overflows where bounds are near the largest number.
    has_range &= np.isfinite(limits[1] / 2 - limits[0] / 2)
    if not has_range.all():
        at = int(np.flatnonzero(~has_range)[0])
        raise ValueError(
            f"low and high of Privacy are {limits[0, at]:g} and {limits[1, at]:g} for "
            f"column {columns[at]!r}. Pass two finite numbers, of which low is the "
            "smaller one."
        )


def raise_needs_more(name: str) -> NoReturn:
    """Raise ValueError for what nodes would have to tell without noise."""
    raise ValueError(
        f"{name} does not go with privacy: it needs more of the nodes' rows than one "
        "vector of sums with noise. Leave it out, or set privacy=None."
    )
