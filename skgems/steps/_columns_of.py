"""Columns that a ColumnTransformer of a front takes by what they hold."""

import copy
from collections.abc import Iterator, Mapping, Sequence

from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, Pipeline

from ..compat import get_column_indices
from ._columns import Columns, ColumnsError, Table

_KINDS = ("numbers", "texts")


class ColumnsOf:
    """Select all columns of numbers, or all columns of texts, in a front.

    Use it where a :class:`~sklearn.compose.ColumnTransformer` takes a list of columns.
    Scikit-learn's ``make_column_selector`` looks at the rows of one table only, so two
    nodes could select different columns. These columns are selected after all nodes
    have sent the kinds of their columns. A column that contains a text at any node is a
    column of texts.

    Parameters
    ----------
    kind : {"numbers", "texts"}
        What the selected columns contain.
    without : sequence of str or int, default=()
        Names or indices of columns that are not selected. List columns here that
        another branch takes, or that should not enter the model.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn.compose import ColumnTransformer
    >>> from sklearn.preprocessing import OneHotEncoder, StandardScaler
    >>> from skgems import PooledTransformer
    >>> from skgems.steps import ColumnsOf
    >>> rows = pd.DataFrame({"age": [30, 50, 70], "job": ["cook", "cook", "nurse"]})
    >>> steps = [("numbers", StandardScaler(), ColumnsOf("numbers")),
    ...          ("texts", OneHotEncoder(), ColumnsOf("texts"))]
    >>> front = PooledTransformer(ColumnTransformer(steps)).fit(rows)
    >>> front.get_feature_names_out().tolist()
    ['numbers__age', 'texts__job_cook', 'texts__job_nurse']
    """

    def __init__(self, kind: str, without: Sequence = ()) -> None:
        if kind not in _KINDS:
            raise ValueError(f"kind must be 'numbers' or 'texts', got {kind!r:.40}.")
        is_list = isinstance(without, list | tuple)
        if not is_list or not all(isinstance(column, str | int) for column in without):
            raise ValueError(
                "without must be a list of names or places of columns, got "
                f"{without!r:.80}."
            )
        self.kind = kind
        self.without = tuple(without)

    def __call__(self, X: Table) -> list:
        return self._chosen(Columns.from_table(X))

    def _chosen(self, columns: Columns) -> list:
        """The names of the columns, or their places where they have no names."""
        labels = columns.names or tuple(range(columns.n))
        wants_texts = self.kind == "texts"
        return [
            label
            for label, holds_texts in zip(labels, columns.text, strict=True)
            if holds_texts == wants_texts and label not in self.without
        ]

    def _as_content(self) -> dict:
        return {"kind": self.kind, "without": list(self.without)}

    @classmethod
    def _from_content(cls, content: Mapping) -> "ColumnsOf":
        """Inverse of `_as_content`; ValueError or TypeError for all else."""
        if set(content) != {"kind", "without"}:
            raise ValueError(
                f"columns are chosen by {sorted(content)!r:.80}, not by 'kind' and "
                "'without'"
            )
        return cls(content["kind"], content["without"])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ColumnsOf) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self.kind, self.without))

    def __repr__(self) -> str:
        without = f", without={list(self.without)}" if self.without else ""
        return f"ColumnsOf({self.kind!r}{without})"


def has_columns_of(transformer: BaseEstimator | str | None) -> bool:
    """Report whether a transformer chooses some of its columns by their content."""
    if isinstance(transformer, Pipeline):
        return any(has_columns_of(step) for _, step in transformer.steps)
    if isinstance(transformer, FeatureUnion):
        return any(has_columns_of(step) for _, step in transformer.transformer_list)
    if isinstance(transformer, ColumnTransformer):
        return any(
            isinstance(columns, ColumnsOf) or has_columns_of(step)
            for _, step, columns in transformer.transformers
        )
    return False


def with_columns_listed(
    transformer: BaseEstimator | str | None, columns: Columns
) -> BaseEstimator | str | None:
    """The transformer with lists of columns in place of each `ColumnsOf`.

    A branch that gets no column is dropped. Only what sees the columns of the rows
    can have a `ColumnsOf`, which `check_tree` makes sure of.
    """
    if not has_columns_of(transformer):
        return transformer
    listed = copy.copy(transformer)
    if isinstance(transformer, Pipeline):
        (name, first_step), *later_steps = transformer.steps
        listed.steps = [
            (name, with_columns_listed(first_step, columns)),
            *later_steps,
        ]
    elif isinstance(transformer, FeatureUnion):
        listed.transformer_list = [
            (name, with_columns_listed(step, columns))
            for name, step in transformer.transformer_list
        ]
    else:
        listed.transformers = list(_listed_branches(transformer, columns))
        is_empty = all(step == "drop" for _, step, _ in listed.transformers)
        if is_empty and transformer.remainder == "drop":
            raise ColumnsError("no column is left for the transformers of the front.")
    return listed


def _listed_branches(
    transformer: ColumnTransformer, columns: Columns
) -> Iterator[tuple]:
    """Name, step and list of columns of each branch; without columns it is dropped.

    Branches keep their places, by which nodes and server find the steps within them.
    """
    for name, step, chosen in transformer.transformers:
        listed = chosen
        if isinstance(chosen, ColumnsOf):
            listed = chosen._chosen(columns)
            if not listed:
                step = "drop"
        if has_columns_of(step):
            places = get_column_indices(columns.example(), listed)
            step = with_columns_listed(step, columns.part(places))
        yield name, step, listed
