# SPDX-License-Identifier: BSD-3-Clause
"""Requests and replies as files in a folder: nodes of other machines, asked by mail."""

from ._answering import answer
from ._exchange import Exchange

__all__ = ["Exchange", "answer"]
