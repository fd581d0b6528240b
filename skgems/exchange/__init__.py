"""Requests and replies as files in a folder: nodes of other machines, asked by mail."""

from ._exchange import Exchange
from ._folder import AGREEMENT, Folder, answer, reply_place
from ._inspecting import Inspected, inspect
from ._methods import METHODS, of_settings

__all__ = ["Folder", "Inspected", "inspect"]
