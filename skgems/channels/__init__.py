"""Channels to nodes on other machines: files in a folder, and Flower."""

from ._exchange import Exchange
from ._flower_client import client_app
from ._flower_server import FlowerNodes, server_app
from ._folder import AGREEMENT, Folder, answer, reply_place
from ._inspecting import Inspected, inspect
from ._methods import METHODS, of_settings

__all__ = ["FlowerNodes", "Folder", "Inspected", "client_app", "inspect", "server_app"]
