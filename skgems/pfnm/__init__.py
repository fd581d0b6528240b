# SPDX-License-Identifier: BSD-3-Clause
"""PFNM: one network of matched hidden units."""

from ._pfnm import PFNMAggregator
