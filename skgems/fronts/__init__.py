"""Transformers that all parties agree on, fitted to what nodes tell of columns."""

from ..steps import NotPooledError, RandomFeatures
from ._transformer import PooledTransformer

__all__ = ["NotPooledError", "RandomFeatures"]
