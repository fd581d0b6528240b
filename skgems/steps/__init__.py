"""Transformers that are functions of sums or of a seed: told, added up, fitted."""

from ._auto import auto_front, encoded_texts, scaled_numbers
from ._backbone import Backbone, holding
from ._columns import (
    Columns,
    ColumnsError,
    as_rows,
    check_no_times,
    check_numbers_or_texts,
    numbers,
)
from ._columns_of import ColumnsOf
from ._document_front import DocumentFront, front_of_content
from ._documents import NUMBERS, are_documents, as_documents
from ._features import RandomFeatures
from ._front import Advanced, Front, check_takes_any_columns, check_tree, front_of_text
from ._identifiers import (
    DESCRIBES,
    IDENTIFIES,
    IN_ORDER,
    ROLES,
    UNCLEAR,
    agreed_roles,
    column_roles,
)
from ._kind import Kind, NotPooledError, StateField
from ._kinds import KINDS
from ._sizes import FrontSize, front_size

__all__ = ["Backbone", "ColumnsOf", "NotPooledError", "RandomFeatures"]
