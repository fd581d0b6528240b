"""The channel over Flower, and the apps of both its sides."""

from ._client import client_app
from ._server import FlowerNodes, server_app

__all__ = ["FlowerNodes", "client_app", "server_app"]
