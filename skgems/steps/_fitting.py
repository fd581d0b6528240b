"""Fitting the steps of a front at the server, where there are no rows.

A step is fitted to its state, and the state is made of what nodes told. The server has
no row that could enter the next step, so it takes an *example* through the steps: one
row of the right form, and the bounds of its columns that are agreed. A step whose state
nobody knows yet is pending, and so is all that comes behind it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, Pipeline

from ._branches import assembled_columns, assembled_union, branches_of, side_by_side
from ._columns import Table, labels_of, polars_to_pandas
from ._kind import EXTREMES, Kind
from ._kinds import KINDS
from ._statistics import (
    STATISTICS,
    TOLD_UNDER_RULE,
    categories_told,
    check_kinds_of_categories,
)
from ._trees import Step, is_passthrough


@dataclass(frozen=True, eq=False, kw_only=True)
class Example:
    """What the server knows of the rows that enter a step."""

    row: Table  # (1, n_columns), of any values that such a row may have
    # Agreed bounds of the columns, the lower ones first, (2, n_columns); NaN: none.
    limits: np.ndarray

    @property
    def is_bounded(self) -> bool:
        """Report whether all columns have finite bounds, the lower below the upper."""
        low, high = self.limits
        return bool(np.isfinite(self.limits).all() and (low < high).all())


@dataclass(frozen=True, eq=False, kw_only=True)
class Fitted:
    """A fitted step, and the example that comes out of it."""

    step: Step
    example: Example


@dataclass(frozen=True, eq=False, kw_only=True)
class Pending:
    """A step that waits for a statistic of nodes."""

    step: BaseEstimator
    statistic: str  # its name in STATISTICS, or EXTREMES
    bounds: np.ndarray  # agreed bounds of its columns, (2, n_columns), NaN: none
    labels: list  # names of its columns, or places

    @property
    def can_tell(self) -> bool:
        """Report whether nodes can tell the statistic.

        The smallest and the largest value are values of rows, so bounds are agreed, and
        counts on a grid need bounds that the grid is laid between.
        """
        if self.statistic == EXTREMES:
            return False
        return self.statistic != "histogram" or bool(np.isfinite(self.bounds).all())


class FittingVisitor:
    """Fits the steps of a front one after the other, as far as their states are known.

    Parameters
    ----------
    states : mapping
        By path of a step, what it is fitted to.
    parts : mapping
        By path of a step that has no state yet, and by name of the node, what nodes
        told; states are made of it.
    """

    def __init__(
        self, *, states: Mapping[str, Mapping], parts: Mapping[str, Mapping]
    ) -> None:
        self.states = dict(states)  # and those that are made of the parts
        self.parts = parts
        # All by path of the step:
        self.pending: dict[str, Pending] = {}
        self.leaves: dict[str, BaseEstimator] = {}  # steps that are fitted
        self.bounds: dict[str, np.ndarray] = {}  # of their columns, (2, n_columns)
        # Names of kinds, and how far what was fitted may be off.
        self.errors: dict[str, tuple[str, float]] = {}
        # Types of steps, and why these may be far from those of all rows.
        self.doubts: list[tuple[type, str]] = []
        # Names of kinds, and labels of columns that identify rows.
        self.identifiers: dict[str, tuple[str, list]] = {}
        # By path of what stands side by side, whether sparse rows come out of it.
        self.is_sparse: dict[str, bool | None] = {}
        self.empty: list = []  # labels of columns that steps leave out

    def visit(self, step: Step, example: Example, *, path: str = "0") -> Fitted | None:
        """Fit a step and all within it; None if one of them is pending."""
        if is_passthrough(step):
            return Fitted(step="passthrough", example=example)
        if isinstance(step, Pipeline):
            return self._visit_pipeline(step, example, path=path)
        if isinstance(step, ColumnTransformer | FeatureUnion):
            return self._visit_branches(step, example, path=path)
        return self._visit_leaf(step, example, path=path)

    def _visit_pipeline(
        self, pipeline: Pipeline, example: Example, *, path: str
    ) -> Fitted | None:
        steps = []
        for k, (name, step) in enumerate(pipeline.steps):
            fitted = self.visit(step, example, path=f"{path}/{k}")
            if fitted is None:
                return None
            steps.append((name, fitted.step))
            example = fitted.example
        return Fitted(step=Pipeline(steps), example=example)

    def _visit_branches(
        self,
        transformer: ColumnTransformer | FeatureUnion,
        example: Example,
        *,
        path: str,
    ) -> Fitted | None:
        branches: dict[str, Fitted | None] = {}
        for k, branch in enumerate(branches_of(transformer, example.row)):
            if branch.is_dropped:
                continue
            entering = Example(
                row=branch.columns_of(example.row),
                limits=branch.columns_of(example.limits),
            )
            branches[branch.name] = self.visit(
                branch.transformer, entering, path=f"{path}/{k}"
            )
        if any(fitted is None for fitted in branches.values()):
            return None
        assembled = assemble(transformer, branches=branches, example_row=example.row)
        # A FeatureUnion has no such attribute: what comes out of it is sparse where
        # one of its branches is.
        is_sparse = getattr(assembled, "sparse_output_", None)
        self.is_sparse[path] = is_sparse
        examples = [fitted.example for fitted in branches.values()]
        return Fitted(
            step=assembled, example=_examples_side_by_side(examples, is_sparse)
        )

    def _visit_leaf(
        self, step: BaseEstimator, example: Example, *, path: str
    ) -> Fitted | None:
        kind = KINDS[type(step)]
        statistic = kind.statistic_for(step)
        if statistic == EXTREMES:
            # Agreed bounds are the extremes, whatever a server says that they are.
            self.states.pop(path, None)
            if example.is_bounded:
                low, high = example.limits
                self.states[path] = kind.state(step, {"low": low, "high": high})
        if statistic is not None and path not in self.states:
            if path not in self.parts:
                self.pending[path] = Pending(
                    step=step,
                    statistic=statistic,
                    bounds=example.limits,
                    labels=labels_of(example.row),
                )
                return None
            self.states[path] = self._state_of_parts(
                step, example, path=path, statistic=statistic
            )
        state = self.states.get(path, {})
        fitted = kind.fit(step, example.row, state)
        self.leaves[path] = fitted
        self.bounds[path] = example.limits
        labels = labels_of(example.row)
        self.empty.extend(labels[j] for j in kind.empty_columns(step, state))
        error = kind.error(step, state)
        if error:
            self.errors[path] = (type(step).__name__, error)
        doubt = kind.doubt(step, state, labels)
        if doubt:
            self.doubts.append((type(step), doubt))
        return Fitted(
            step=fitted, example=_example_behind(fitted, kind=kind, example=example)
        )

    def _state_of_parts(
        self, step: BaseEstimator, example: Example, *, path: str, statistic: str
    ) -> dict:
        """The state of a step, of what nodes told of its columns."""
        kind = KINDS[type(step)]
        labels = labels_of(example.row)
        pooled = _pooled_statistic(
            statistic, told_by_node=self.parts[path], labels=labels
        )
        kind.check_pooled(step, pooled, labels)
        identifiers = kind.identifiers(self.parts[path].values(), labels)
        if identifiers:
            self.identifiers[path] = (type(step).__name__, identifiers)
        # What nodes need not tell, since server and nodes have agreed on it.
        if statistic == "histogram":
            low, high = example.limits
            pooled = {**pooled, "low": low, "high": high}
        elif statistic in ("powers", "box_powers"):
            pooled = {**pooled, "precision": _precision(example.row)}
        return kind.state(step, pooled)


def assemble(
    transformer: ColumnTransformer | FeatureUnion,
    *,
    branches: Mapping[str, Fitted],
    example_row: Table,
) -> ColumnTransformer | FeatureUnion:
    """The fitted whole of branches that are fitted, by name."""
    steps = {name: fitted.step for name, fitted in branches.items()}
    if isinstance(transformer, FeatureUnion):
        return assembled_union(transformer, fitted=steps, example=example_row)
    return assembled_columns(
        transformer,
        fitted=steps,
        rows_out={name: fitted.example.row for name, fitted in branches.items()},
        example=example_row,
    )


def _examples_side_by_side(
    examples: Sequence[Example], is_sparse: bool | None
) -> Example:
    if not examples:  # all branches are dropped
        return Example(row=np.empty((1, 0)), limits=np.empty((2, 0)))
    return Example(
        row=side_by_side([example.row for example in examples], is_sparse=is_sparse),
        limits=side_by_side(
            [example.limits for example in examples], is_sparse=is_sparse
        ),
    )


def _pooled_statistic(
    statistic: str, *, told_by_node: Mapping[str, Mapping], labels: list
) -> dict:
    """A statistic of the rows of all nodes, of columns with these labels."""
    for node, reply in told_by_node.items():
        if reply["statistic"] not in (statistic, TOLD_UNDER_RULE.get(statistic)):
            raise ValueError(
                f"Node {node!r} told {reply['statistic']!r}, not {statistic!r}."
            )
        widths = _numbers_of_columns(statistic, reply)
        if widths != {len(labels)}:
            raise ValueError(
                f"Node {node!r} told of {sorted(widths)} columns, not of {len(labels)}."
            )
    if statistic == "categories":
        check_kinds_of_categories(told_by_node, labels)
    replies = [
        {name: value for name, value in reply.items() if name != "statistic"}
        for reply in told_by_node.values()
    ]
    return STATISTICS[statistic].pool(replies)


def _numbers_of_columns(statistic: str, reply: Mapping) -> set[int]:
    """Return the numbers of columns in a reply's fields; one if it is sound."""
    if statistic == "categories":
        return {len(categories_told(reply))}
    if statistic == "histogram":
        return {len(reply["cumulative"])}
    return {
        reply[name].shape[-1] for name in ("counts", "mean", "low") if name in reply
    }


def _precision(row: Table) -> float:
    """The precision, next to 1, of the numbers in rows of this form."""
    dtypes = row.dtypes if hasattr(row, "columns") else [row.dtype]
    is_single = all(dtype == np.float32 for dtype in dtypes)
    return float(np.finfo(np.float32 if is_single else np.float64).eps)


def _example_behind(fitted: BaseEstimator, *, kind: Kind, example: Example) -> Example:
    """The example that comes out of a fitted step."""
    if hasattr(fitted, "categories_"):
        # An encoder refuses values that are none of its categories.
        first_categories = [categories[0] for categories in fitted.categories_]
        example = Example(
            row=_with_values(example.row, first_categories), limits=example.limits
        )
    row = polars_to_pandas(fitted.transform(example.row))
    limits = _limits_behind(
        fitted, kind=kind, example=example, n_columns_out=row.shape[1]
    )
    return Example(row=row, limits=limits)


def _with_values(row: Table, values: list) -> Table:
    """A row of the same form with other values."""
    if not hasattr(row, "columns"):
        return np.array([values], dtype=row.dtype)
    row = row.astype(object)
    row.iloc[0] = values
    return row


def _limits_behind(
    fitted: BaseEstimator, *, kind: Kind, example: Example, n_columns_out: int
) -> np.ndarray:
    """Bounds of the columns that come out, (2, n_columns_out), NaN where unknown.

    Where each column comes out by itself, the bounds go through the step as rows do.
    """
    limits = example.limits
    unknown = np.full((2, n_columns_out), np.nan)
    if not kind.by_column or unknown.shape != limits.shape or np.isnan(limits).all():
        return unknown
    rows = limits
    if hasattr(example.row, "columns"):
        rows = example.row.iloc[[0, 0]].reset_index(drop=True)
        for j in np.flatnonzero(~np.isnan(limits).any(axis=0)):
            rows[rows.columns[j]] = limits[:, j]
    # Objects, since columns of texts may be among those that come out.
    limits_out = np.asarray(fitted.transform(rows), dtype=object)
    return np.where(np.isnan(limits), np.nan, limits_out).astype(float)
