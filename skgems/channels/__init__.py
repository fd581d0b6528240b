"""Channels to nodes on other machines: files in a folder, and Flower.

A channel takes requests and returns replies, by the name of the node. `Exchange` runs
a whole fit over a `Folder`, step by step. `answer` is the node's side of it, and
`inspect` says in words what a file contains. `FlowerNodes` is the channel over Flower,
with the apps of both sides, `server_app` and `client_app`.

>>> import tempfile
>>> from skgems import GEMSLogisticAggregator
>>> from skgems.channels import Exchange, inspect
>>> folder = tempfile.TemporaryDirectory()
>>> aggregator = GEMSLogisticAggregator(random_state=0)
>>> exchange = Exchange(folder.name, aggregator, nodes=["lyon", "paris"])
>>> exchange.step()  # None: replies are not there yet
>>> sorted(exchange.waiting_for)
['lyon', 'paris']
>>> inspect(exchange.waiting_for["lyon"]).task
'join'
>>> folder.cleanup()
"""

from ._exchange import Exchange
from ._flower_client import client_app
from ._flower_server import FlowerNodes, server_app
from ._folder import AGREEMENT, Folder, answer, reply_place
from ._inspecting import Inspected, inspect
from ._methods import METHODS, aggregator_of_settings

__all__ = ["FlowerNodes", "Folder", "Inspected", "client_app", "inspect", "server_app"]
