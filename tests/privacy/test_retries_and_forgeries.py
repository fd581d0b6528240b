# SPDX-License-Identifier: BSD-3-Clause
"""No second set of sums by requests after a failure, or by forged signatures.

Two honest sums of the same rows that are made differently may have a row between them.
A server, or who writes into its channel, tries to get them by requests that fail, that
are said to have been lost, that are altered after they were signed, or are another's.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
from helpers.attacked_tables import Table, attacked_table
from sklearn.preprocessing import StandardScaler

from skgems import Disclosure, GEMSLogisticAggregator
from skgems.asking import Message, Nodes
from skgems.gems import Moments
from skgems.guard import Agreement, NotAgreedError, reply_to, signing_keys
from skgems.messages import public_key_of, sealed
from skgems.steps import Front

RULE = Disclosure()
TABLES = ["iris", "wine", "breast cancer", "penguins", "digits"]
KINDS = ["auto", "class", "shared", "diagonal"]


@dataclass(kw_only=True, eq=False)
class AttackedNode:
    """A node with a ledger, and the different sums that it has sent."""

    table: Table
    state: dict = field(default_factory=dict)
    sums: set[str] = field(default_factory=set)  # hashes of their content
    refusals: list[Exception] = field(default_factory=list)

    def ask(self, request: Message, **options: object) -> None:
        """Send a request, and note what comes back."""
        settings = {"name": "lyon", "state": self.state, "disclosure": RULE}
        settings |= options
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                reply = reply_to(request, None, self.table.X, self.table.y, **settings)
        except Exception as refusal:
            self.refusals.append(refusal)
            return
        self.sums.add(reply.digest)


def aggregator_of(kind: str = "auto", **parameters: object) -> GEMSLogisticAggregator:
    return GEMSLogisticAggregator(
        moments=Moments(kind), random_state=0, disclosure=RULE, **parameters
    )


def join_of(kind: str = "auto", **parameters: object) -> Message:
    return aggregator_of(kind, **parameters)._agreed_terms.first_message()


def other_joins() -> Iterator[Message]:
    """Yield first messages that ask for other sums of the same rows."""
    yield from map(join_of, KINDS[1:])
    yield join_of(class_weight="balanced")
    yield join_of(n_rounds=2)
    content = dict(join_of().content)
    scaled = Front(StandardScaler()).as_content()
    yield Message.of("join", **content | {"front": scaled})
    yield Message.of("join", **content | {"requests": twice(content["requests"])})
    yield Message.of("join", **content | {"requests": {}})


def twice(requests: dict) -> dict:
    """Return numbered requests, each of them twice."""
    both = [*requests.values(), *requests.values()]
    return {str(k): request for k, request in enumerate(both)}


@pytest.mark.parametrize("name", TABLES)
def test_a_server_that_says_a_reply_was_lost_gets_the_same_one(name):
    node = AttackedNode(table=attacked_table(name).first_of_each_class(40))
    agreement = Agreement.of(aggregator_of(), disclosure=RULE)
    node.ask(sealed(join_of(), agreement), agreement=agreement)
    assert len(node.sums) == 1
    for join in (join_of(), *other_joins(), join_of()):
        node.ask(sealed(join, agreement))
        # An exchange that begins anew, with the same terms and with wider ones.
        for terms in (aggregator_of(), aggregator_of(n_rounds=5)):
            again = Agreement.of(terms, disclosure=RULE)
            node.ask(sealed(join, again))
    assert len(node.sums) == 1
    assert node.refusals


@pytest.mark.parametrize("name", TABLES)
def test_a_request_that_fails_leaves_room_for_itself_alone(name):
    node = AttackedNode(table=attacked_table(name).first_of_each_class(40))
    agreement = Agreement.of(aggregator_of(), disclosure=RULE)
    too_strict = replace(RULE, min_rows=1000)
    for _ in range(3):
        request = sealed(join_of(), agreement)
        node.ask(request, agreement=agreement, disclosure=too_strict)
    assert not node.sums
    for join in (*other_joins(), join_of(), *other_joins()):
        node.ask(sealed(join, agreement))
    assert len(node.sums) == 1


def test_failures_that_depend_on_rows_are_as_few_as_answers():
    node = AttackedNode(table=attacked_table("iris"))
    agreement = Agreement.of(aggregator_of(n_rounds=2), disclosure=RULE)
    node.ask(sealed(join_of(n_rounds=2), agreement), agreement=agreement)
    for far in range(20):  # each would say whether some row is beyond a plane
        W = np.zeros((5, 3))
        W[far % 5] = 10.0**49 * (1.0 + far / 20)
        content = {"W": W, "labels": ["c0", "c1", "c2"], "columns": np.arange(3)}
        request = Message.of("evaluate", **content, factors=np.ones(1))
        node.ask(sealed(request, agreement))
    are_refused = [isinstance(error, NotAgreedError) for error in node.refusals]
    n_answered = len(node.sums) - 1  # but for the first message
    assert n_answered + are_refused.count(False) <= agreement.tasks["evaluate"]


@pytest.mark.parametrize("front", [None, StandardScaler()], ids=["rows", "front"])
def test_texts_of_failures_have_no_sizes_of_small_classes(front):
    sizes = {"flu": 7, "measles": 6, "well": 8}
    y = np.repeat(list(sizes), list(sizes.values()))[: 21 if front is None else 9]
    X = np.random.default_rng(0).standard_normal((len(y), 3))
    node = AttackedNode(table=Table(name="few", X=X, y=y))
    aggregator = aggregator_of(front=front)

    def ask(requests: dict[str, Message]) -> dict[str, Message]:
        for request in requests.values():
            node.ask(request)
        return {}

    with pytest.raises(Exception, match="Every node failed"):
        aggregator.set_params(estimators=Nodes(ask, ["lyon"])).fit()
    assert "fewer than min_rows=10" in str(node.refusals[0])
    words = re.findall(r"\d+", str(node.refusals[0]))
    assert set(words) <= {"10"}


# Signatures ---------------------------------------------------------------------------


@dataclass(kw_only=True, eq=False)
class Keys:
    """Paths of private keys, and the agreement of the server that has one."""

    server: Path
    other: Path
    agreement: Agreement

    @classmethod
    def made_in(cls, folder: Path) -> Keys:
        for name in ("server", "other"):
            signing_keys(folder / name)
        public_key = public_key_of(folder / "server").decode()
        agreement = Agreement.of(
            aggregator_of(), disclosure=RULE, public_key=public_key
        )
        return cls(
            server=folder / "server", other=folder / "other", agreement=agreement
        )


def forged(keys: Keys) -> Iterator[Message]:
    """Yield requests that the server of an agreement has not signed, each altered."""
    agreement = keys.agreement
    true = sealed(join_of("shared"), agreement, keys.server)
    yield sealed(join_of("shared"), agreement)
    yield sealed(join_of("shared"), agreement, keys.other)
    # A signature of the server's, of what it asked at another time or of another node.
    signature = true.envelope["signature"]
    for join in (join_of(), *other_joins()):
        if join.content != join_of("shared").content:
            yield sealed(join, agreement).with_envelope(signature=signature)
    for field_of_envelope in ("exchange", "to", "node", "agreement"):
        yield true.with_envelope(**{field_of_envelope: "another"})
    yield true.with_envelope(signature=signature.upper())
    yield true.with_envelope(signature=signature[::-1])
    yield true.with_envelope(signature="00" * 64)
    # Another's key in an agreement that is otherwise the server's, and none.
    for public_key in (public_key_of(keys.other).decode(), ""):
        changed = replace(agreement, public_key=public_key)
        yield sealed(join_of("shared"), changed, keys.other)
        anew = replace(changed, exchange=agreement.exchange[::-1])
        yield sealed(join_of("shared"), anew, keys.other)


@pytest.mark.parametrize("is_answered_before", [False, True])
def test_nobody_gets_sums_by_a_signature_that_is_not_the_servers(
    is_answered_before, tmp_path
):
    pytest.importorskip("cryptography")
    keys = Keys.made_in(tmp_path)
    node = AttackedNode(table=attacked_table("wine"))
    if is_answered_before:
        request = sealed(join_of(), keys.agreement, keys.server)
        node.ask(request, agreement=keys.agreement)
    options = {} if is_answered_before else {"agreement": keys.agreement}
    n_forged = 0
    for request in forged(keys):
        node.ask(request, **options)
        n_forged += 1
    assert len(node.sums) == is_answered_before
    assert len(node.refusals) == n_forged
    request = sealed(join_of(), keys.agreement, keys.server)
    node.ask(request, agreement=keys.agreement)
    assert len(node.sums) == 1
