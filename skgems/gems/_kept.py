# SPDX-License-Identifier: BSD-3-Clause
"""What nodes replied, kept so that others can come and go without asking them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from ..federation import Federation, Record
from ..messages import Message


@dataclass(frozen=True, eq=False)
class Kept:
    """All that a later fit needs of nodes that it does not ask."""

    seed: int | None  # of the requests
    records: dict[str, Record] = field(repr=False)  # by name of the node
    public: tuple = field(repr=False)  # public rows, and their labels

    def without(self, names: Iterable[str]) -> Kept:
        """The same without some nodes."""
        names = set(names)
        left = {name: own for name, own in self.records.items() if name not in names}
        return replace(self, records=left)


def records_of(federation: Federation) -> dict[str, Record]:
    """Records of the nodes that begin with how they would describe themselves."""
    records: dict[str, Record] = {}
    for node in federation.nodes:
        if node.record is None:
            described = Message.of(
                "describe", network=node.network.as_content(), rows=node.row_counts
            )
            records[node.name] = Record()
            records[node.name].keep(Message.of("describe"), described)
    return records


def with_records(federation: Federation, records: Mapping[str, Record]) -> Federation:
    """The same where nodes are known by their records, not by their rows."""
    nodes = []
    for node in federation.nodes:
        record = records.get(node.name)
        if record is not None and node.record is None:
            described = record.get(Message.of("describe")).content
            node = replace(node, record=record, row_counts=described["rows"])
        nodes.append(node)
    return replace(federation, nodes=nodes)
