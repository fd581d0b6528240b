"""Exchanges with nodes on other machines: files in a folder, and Flower.

A channel takes requests and returns replies, by the name of the node. `Exchange` runs
a whole fit over a `Folder`, step by step. `FlowerNodes` is the channel over Flower, and
`server_app` the app of the server. The node's side of both is in `guard`.

>>> import tempfile
>>> from skgems import GEMSLogisticAggregator
>>> from skgems.channels import Exchange
>>> folder = tempfile.TemporaryDirectory()
>>> aggregator = GEMSLogisticAggregator(random_state=0)
>>> exchange = Exchange(folder.name, aggregator, nodes=["lyon", "paris"])
>>> exchange.step()  # None: replies are not there yet
>>> sorted(exchange.waiting_for)
['lyon', 'paris']
>>> folder.cleanup()
"""

from ._exchange import Exchange
from ._flower_server import FlowerNodes, server_app
from ._folder import Folder
from ._methods import METHODS, aggregator_of_settings

__all__ = ["FlowerNodes", "Folder", "server_app"]
