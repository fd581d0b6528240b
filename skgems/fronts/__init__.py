"""Transformers that all parties agree on, fitted to what nodes tell of columns."""

from ..steps import Backbone, ColumnsOf, NotPooledError, RandomFeatures
from ._transformer import PooledTransformer

__all__ = ["Backbone", "ColumnsOf", "NotPooledError", "RandomFeatures"]
