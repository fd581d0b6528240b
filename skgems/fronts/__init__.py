"""Transformers that all parties agree on, fitted to what nodes tell of columns."""

from ..steps import Backbone, NotPooledError, RandomFeatures
from ._transformer import PooledTransformer

__all__ = ["Backbone", "NotPooledError", "RandomFeatures"]
