# SPDX-License-Identifier: BSD-3-Clause
"""A Grid of Flower in this process, in which letters may be lost and nodes may die."""

from __future__ import annotations

import pytest
from sklearn.base import clone

import skgems.channels._flower_server as server_module
from helpers.disclosures import rule_of
from helpers.flower import NAMES, node_fields
from skgems.channels import FlowerNodes
from skgems.guard import client_app

pytest.importorskip("flwr", exc_type=ImportError)
from flwr.app import ConfigRecord, Context, Error, RecordDict  # noqa: E402
from flwr.app import Message as Letter  # noqa: E402
from flwr.serverapp import Grid  # noqa: E402
from flwr.supercore.inflatable.inflatable_object import (  # noqa: E402
    get_all_nested_objects,
)
from flwr.supercore.inflatable.inflatable_utils import (  # noqa: E402
    inflate_object_from_contents,
)

IDS = {"lyon": 13, "paris": 11, "rome": 12}
# Seconds that a reply is waited for; they pass on a clock that only sleep moves.
TIMEOUT = 40.0


class Clock:
    """Time that passes only while something sleeps."""

    def __init__(self):
        self.now = 0.0

    def sleep(self, seconds):
        self.now += seconds


def send_through_bytes(letter, *, message_id=None):
    """The letter after its way through Flower's bytes, with the id it gets there."""
    objects = get_all_nested_objects(letter)
    contents = {key: nested.deflate() for key, nested in objects.items()}
    received = inflate_object_from_contents(letter.object_id, contents)
    received.metadata.__dict__["_message_id"] = message_id or letter.object_id
    return received


def never(node, n):
    return False


class LocalGrid(Grid):
    """Client apps by the id of their node.

    ``is_lost(node, n)`` says whether letter n to a node, counted from 1, gets lost;
    ``is_gone(node, n)`` whether the node is not connected, after n letters.
    """

    def __init__(self, apps, *, is_lost=never, is_gone=never):
        self.apps = apps
        self.is_lost = is_lost
        self.is_gone = is_gone
        self.configs = {}  # of nodes that have one
        self.n_letters = dict.fromkeys(apps, 0)  # that each node was sent
        self.replies = {}
        self.open = {}  # letters without a reply, and when they expire

    def set_run(self, run): ...

    run = property(lambda self: None)

    def create_message(self, *args, **kwargs):
        raise NotImplementedError

    send_and_receive = create_message

    def get_node_ids(self):
        return [
            node for node in self.apps if not self.is_gone(node, self.n_letters[node])
        ]

    def push_messages(self, messages):
        return [self.push(letter) for letter in messages]

    def push(self, letter):
        node = letter.metadata.dst_node_id
        self.n_letters[node] += 1
        n = self.n_letters[node]
        message_id = f"{letter.object_id}-{node}-{n}"
        received = send_through_bytes(letter, message_id=message_id)
        expires = server_module.monotonic() + received.metadata.ttl
        self.open[message_id] = (received, expires)
        if self.is_lost(node, n) or self.is_gone(node, n):
            return message_id
        context = Context(1, node, self.configs.get(node, {}), RecordDict(), {})
        try:
            self.replies[message_id] = self.apps[node](received, context)
        except Exception as error:
            self.replies[message_id] = Letter(Error(2, str(error)), reply_to=received)
        return message_id

    def pull_messages(self, message_ids):
        assert message_ids
        for message_id, (letter, expires) in self.open.items():
            if message_id not in self.replies and server_module.monotonic() > expires:
                expired = Letter(Error(3, "expired"), reply_to=letter)
                expired.metadata.__dict__["_src_node_id"] = 1
                self.replies[message_id] = expired
        return [
            send_through_bytes(self.replies.pop(message_id))
            for message_id in message_ids
            if message_id in self.replies
        ]


def app_of(name, kind="linear", *, min_rows=1, **fields):
    """The client app of a node; ``fields`` are further ones that ``load`` returns."""
    options = {"radii": True, "disclosure": rule_of(min_rows)}
    loaded = node_fields(name, kind) | options | fields
    return client_app(lambda context: loaded)


def grid_of(kind="linear", names=NAMES, *, is_lost=never, is_gone=never):
    """A grid of nodes that have classifiers of one kind."""
    apps = {IDS[name]: app_of(name, kind) for name in names}
    return LocalGrid(apps, is_lost=is_lost, is_gone=is_gone)


def fit_over(grid, aggregator, *, min_rows=1, **options):
    """A clone of the aggregator, fitted over a grid with these options."""
    nodes = FlowerNodes(grid, timeout=TIMEOUT, disclosure=rule_of(min_rows), **options)
    return clone(aggregator).set_params(estimators=nodes).fit()


def falsify_replies(app, change):
    """The app, whose answers to requests are changed in place."""

    def falsified(letter, context):
        reply = app(letter, context)
        if letter.metadata.message_type == "query":
            change(reply)
        return reply

    return falsified


def fail_at_requests(app, error):
    """The app, which tells its name, and then raises."""

    def failing(letter, context):
        if letter.metadata.message_type == "query":
            raise error
        return app(letter, context)

    return failing


def set_fields(**fields):
    """A function that replaces all that a letter says by these fields."""
    return set_records(skgems=ConfigRecord(fields))


def set_records(**records):
    """A function that replaces all records of a letter by these."""

    def change(letter):
        letter.content = RecordDict(records)

    return change
