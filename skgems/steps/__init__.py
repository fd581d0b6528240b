"""Transformers that are fitted without rows in one place, from sums or by a seed.

A `Front` is a transformer that all nodes share. It is fitted step by step: nodes
``tell`` the statistics of their rows that the next steps need, and ``advanced`` fits
these steps at the server. Once all steps are fitted, ``transform`` takes rows. `Kind`
describes what one kind of step needs, and `KINDS` lists all kinds. Besides
scikit-learn's steps there are three more: `Backbone`, `RandomFeatures`, and
`ColumnsOf`, which selects columns by their content. `survey_of_table` says what columns
hold, before anything is fitted.

>>> import numpy as np
>>> from sklearn.preprocessing import StandardScaler
>>> from skgems.steps import Columns, Front
>>> X = np.array([[0.0], [1.0], [4.0], [7.0]])
>>> front = Front.from_transformer(StandardScaler())
>>> replies = {name: front.tell(X[k::2], min_rows=1) for k, name in enumerate("ab")}
>>> front = Front(StandardScaler(), columns=Columns.from_table(X))
>>> parts = {"0": {name: reply["parts"]["0"] for name, reply in replies.items()}}
>>> front.advanced(parts).fitted.mean_
array([3.])
"""

from ._at_nodes import TAKES_DENSE_ROWS
from ._auto import auto_front, encoded_texts, scaled_numbers
from ._backbone import Backbone, holding
from ._bins import Cells, JoinedBins
from ._columns import NUMBERS as NUMBER_COLUMN
from ._columns import (
    Columns,
    ColumnsError,
    are_codes,
    as_rows,
    check_no_times,
    check_numbers_or_texts,
    code_as_text,
    is_gap,
    labels_of_written_numbers,
    names_alike,
    numbers,
    polars_to_pandas,
)
from ._columns_of import ColumnsOf
from ._document_front import DocumentFront, front_of_content
from ._documents import NUMBERS, are_documents, as_documents
from ._features import RandomFeatures
from ._front import Advanced, Front
from ._identifiers import (
    DESCRIBES,
    IDENTIFIES,
    IN_ORDER,
    LEFT_OUT,
    NOT_USED,
    ROLES,
    UNCLEAR,
    agreed_roles,
    column_roles,
    repeated_identifiers,
)
from ._kind import Kind, NotPooledError, StateField
from ._kinds import KINDS
from ._public import public_front, rows_by_themselves, width_and_names
from ._raw_units import RawColumn, raw_columns
from ._sizes import FrontSize, front_size
from ._survey import (
    IDENTIFIERS,
    KINDS_OF_COLUMNS,
    MOST_CATEGORIES,
    MOST_CHARACTERS_OF_CATEGORY,
    MOST_GROUPS,
    distribution_told,
    has_all_numbers,
    moments_told,
    names_of_columns,
    quantile_bounds,
    quantiles,
    survey_of_column,
    survey_of_table,
)
from ._trees import check_takes_any_columns, check_tree, front_of_text

__all__ = ["Backbone", "ColumnsOf", "NotPooledError", "RandomFeatures"]
