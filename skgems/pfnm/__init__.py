"""PFNM: one network of matched hidden units."""

from ._pfnm import PFNMAggregator
