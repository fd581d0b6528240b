# SPDX-License-Identifier: BSD-3-Clause
"""How much of anything a message may hold or ask for, as numbers.

The numbers stand here a second time: what is as large as that is taken, and one more is
refused, so that a limit that is moved fails here and has to be moved in both places.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from helpers.broken import LEAVES

from skgems.asking import Message
from skgems.guard import Agreement, Limits
from skgems.messages import TASKS, Place, signed
from skgems.messages import _fields as fields
from skgems.messages import _packing as packing

# Rows are counted in floats, which have all whole numbers up to this one.
ROWS = 2**53
SEEDS = 2**32 - 1
# What a node computes of it is limited by the node.
COUNTED = 2**31 - 1
# Smallest and largest value of each whole number in requests and replies.
WHOLE_NUMBERS = {
    "describe reply network.n_features": (0, 2**31),
    "survey reply n_rows": (0, ROWS),
    "survey reply classes.known": (0, ROWS),
    "survey reply classes.n_values": (0, ROWS),
    "judge reply n_rows": (0, ROWS),
    "inference reply n_rows": (0, ROWS),
    "moments request n_components": (1, COUNTED),
    "moments request min_cluster_size": (0, ROWS),
    "moments reply kurtosis": (1, ROWS),
    "space request n_others": (0, COUNTED),
    "space request min_cluster_size": (0, ROWS),
    "space request seed": (0, SEEDS),
    "space request n_directions": (1, COUNTED),
    "space reply radii_n_rows": (1, ROWS),
    "neurons reply n_rows": (0, ROWS),
    "neurons request random_state": (0, SEEDS),
    "neurons request n_directions": (1, COUNTED),
    "score reply n_rows": (0, ROWS),
    "grow request n_trees": (1, 10_000),
    "grow_halves request first.n_trees": (1, 10_000),
    "grow_halves request second.n_trees": (1, 10_000),
    "leaf_counts request n_trees": (1, 10_000),
    "metrics request model.n_trees": (1, 10_000),
    "leaf_counts request max_depth": (1, 16),
    "leaf_counts request random_state": (0, SEEDS),
    "boost request n_trees": (1, 10_000),
    "boost request n_features": (1, ROWS),
    "boost request n_finished": (0, ROWS),
    "train request epochs": (0, COUNTED),
    "train request seed": (0, SEEDS),
    "train request n_rows": (1, ROWS),
    "retrain request epochs": (0, COUNTED),
    "retrain request seed": (0, SEEDS),
    **{
        f"{name} reply {field}": (low, ROWS)
        for name, task in TASKS.items()
        if "rule" in task.reply.fields  # sums with noise have none
        for field, low in (("min_rows", 1), ("rule.rows", 2), ("rule.cell", 1))
    },
}


def fields_of_kind(kind: type) -> dict:
    """The fields of all messages that are of a kind, by their paths."""
    return {str(leaf): leaf.field for leaf in LEAVES if isinstance(leaf.field, kind)}


def assert_taken(field, value) -> None:
    field.check(value, Place("told"))


def assert_refused(field, value, match: str) -> None:
    with pytest.raises(ValueError, match=f"^told {match}"):
        assert_taken(field, value)


def test_every_whole_number_has_its_bounds_here():
    numbers = fields_of_kind(fields.Number)
    whole_numbers = {name for name, field in numbers.items() if field.whole}
    assert whole_numbers == set(WHOLE_NUMBERS)


@pytest.mark.parametrize("name", WHOLE_NUMBERS)
def test_whole_numbers_are_within_their_bounds(name):
    field = fields_of_kind(fields.Number)[name]
    low, high = WHOLE_NUMBERS[name]
    assert_taken(field, low)
    assert_taken(field, high)
    for beyond in (low - 1, high + 1):
        match = re.escape(f"is {beyond}, not between {low:g} and {high:g}")
        assert_refused(field, beyond, match)


# Characters of names and words, where less is allowed than of any text.
SHORT_TEXTS = {"join reply name": 2000}


def test_texts_are_no_longer_than_allowed():
    texts = fields_of_kind(fields.Text)
    shorter = {name for name, field in texts.items() if field.most != 2**26}
    assert shorter == set(SHORT_TEXTS)
    for name, most in SHORT_TEXTS.items():
        assert_taken(texts[name], "x" * most)
        assert_refused(texts[name], "x" * (most + 1), f"is longer than {most}")
    assert_taken(fields.Text(), "x" * 2**26)
    assert_refused(fields.Text(), "x" * (2**26 + 1), f"is longer than {2**26}")


def test_labels_are_not_too_many():
    labels = fields_of_kind(fields.Labels)
    counted = {name: field.most for name, field in labels.items() if field.most}
    assert counted.pop("survey reply classes.labels") == 100
    assert_taken(labels["survey reply classes.labels"], list(range(100)))
    match = "are 101, more than 100"
    assert_refused(labels["survey reply classes.labels"], list(range(101)), match)
    assert counted == {
        "moments reply labels": 1000,
        "class_sums reply labels": 1000,
        "leaf_counts reply labels": 1000,
        "grow request classes": 1000,
        "grow_halves request first.classes": 1000,
        "grow_halves request second.classes": 1000,
        "boost request classes": 1000,
    }
    for name in counted:
        assert_taken(labels[name], list(range(1000)))
        assert_refused(labels[name], list(range(1001)), "are 1001, more than 1000")


def test_labels_that_are_texts_are_not_too_long():
    # Arrays of texts take as much room as if all were as long as the longest.
    assert_taken(fields.Labels(), ["x" * 2**25, "y"])
    too_long = ["x" * (2**25 + 1), "y"]
    assert_refused(fields.Labels(), too_long, "has texts that are too long")


# ---- files ---------------------------------------------------------------------


def file_with_header(n_bytes: int) -> bytes:
    """A file without arrays whose header has so many bytes: blanks count."""
    header = json.dumps({"__metadata__": {"skgems": "{}"}})
    return n_bytes.to_bytes(8, "little") + header.ljust(n_bytes).encode()


def test_headers_have_four_megabytes_at_most():
    # Eight bytes before the header say how long it is.
    settings, _, _ = packing.check_start(file_with_header(2**22), 2**22 + 8)
    assert settings == {}
    with pytest.raises(ValueError, match=f"headers have at most {2**22}"):
        packing.check_start(file_with_header(2**22 + 1), 2**22 + 9)


def nested_tables(depth: int) -> str:
    """JSON of an empty table in tables; with the outermost they are so many."""
    table: dict = {}
    for _ in range(depth - 1):
        table = {"a": table}
    return json.dumps(table)


def nested_lists(depth: int) -> str:
    """JSON of an empty list in lists, so many of them, in a table."""
    return json.dumps({"a": json.loads("[" * depth + "]" * depth)})


@pytest.mark.parametrize(
    ("nested", "most"),
    # The table around all lists counts too.
    [(nested_tables, 33), (nested_lists, 32)],
)
def test_tables_are_thirty_two_deep_at_most(nested, most):
    packing._table_in_json(nested(most), "header")
    with pytest.raises(ValueError, match="tables in tables, 33 deep"):
        packing._table_in_json(nested(most + 1), "header")


def test_names_of_arrays_are_thirty_two_tables_deep_at_most():
    packing._check_name("a" + ".a" * 32)
    with pytest.raises(ValueError, match="in tables that are too deep"):
        packing._check_name("a" + ".a" * 33)


def test_arrays_have_four_dimensions_at_most():
    four = packing.pack({}, {"a": np.ones((1, 2, 1, 2))})
    _, arrays = packing.unpack(four)
    assert arrays["a"].shape == (1, 2, 1, 2)
    five = packing.pack({}, {"a": np.ones((1, 2, 1, 2, 1))})
    with pytest.raises(ValueError, match=r"has the shape \[1, 2, 1, 2, 1\]"):
        packing.unpack(five)


def test_arrays_that_equal_others_have_a_gigabyte_at_most(monkeypatch):
    assert packing.MOST_REPEATED == 2**30
    # The first is stored, and each of the others has 80 bytes.
    repeated = packing.pack({}, {f"a{k}": np.ones(10) for k in range(4)})
    assert len(repeated) < 4 * 80 + 200
    monkeypatch.setattr(packing, "MOST_REPEATED", 240)
    assert len(packing.unpack(repeated)[1]) == 4
    monkeypatch.setattr(packing, "MOST_REPEATED", 239)
    with pytest.raises(ValueError, match="equal others would have 240 bytes, more"):
        packing.unpack(repeated)


def test_shapes_are_counts_of_four_gigabytes_at_most():
    assert packing._are_counts([0, 2**32])
    for wrong in ([2**32 + 1], [-1], [1.0], [True], (1, 2), "1"):
        assert not packing._are_counts(wrong)


def test_files_have_four_gigabytes_at_most(tmp_path):
    class LookedAtError(Exception):
        pass

    def look(start, n_bytes):
        # The largest header, and the eight bytes before it.
        assert len(start) == 2**22 + 8
        assert n_bytes == 2**32
        raise LookedAtError

    path = tmp_path / "large"
    with open(path, "wb") as file:
        file.truncate(2**32)
    # It is looked at, which no larger one is; none of them is read whole.
    with pytest.raises(LookedAtError):
        packing.read_bytes(path, look=look)
    with open(path, "wb") as file:
        file.truncate(2**32 + 1)
    with pytest.raises(
        ValueError, match=f"it has {2**32 + 1} bytes, more than {2**32}"
    ):
        packing.read_bytes(path, look=look)


def test_keys_have_four_megabytes_at_most(tmp_path):
    pytest.importorskip("cryptography")
    path = tmp_path / "server.key"
    for n_bytes, match in (
        (2**22, "is no secret key"),
        (2**22 + 1, "more than 4194304"),
    ):
        path.write_bytes(b" " * n_bytes)
        with pytest.raises(ValueError, match=match):
            signed(Message.of("describe"), path)


def agreement(**n_times_by_task: int) -> Agreement:
    """An agreement on "moments", once, and on other tasks so many times."""
    return Agreement(
        exchange="0" * 32,
        method="GEMSLogisticAggregator",
        settings={},
        tasks={"moments": 1} | n_times_by_task,
    )


def test_a_task_is_agreed_on_as_often_as_machines_count():
    agreement(moments=2**31 - 1, space=0)
    for wrong in (2**31, -1, 1.0, True):
        with pytest.raises(
            ValueError, match="tasks is not a table of how often to ask"
        ):
            agreement(moments=wrong)


def test_agreements_have_four_megabytes_at_most(tmp_path):
    path = tmp_path / "agreement.json"
    expected = agreement()
    path.write_text(expected.to_json().ljust(2**22))
    assert Agreement.load(path) == expected
    path.write_text(expected.to_json().ljust(2**22 + 1))
    with pytest.raises(
        ValueError, match=f"it has {2**22 + 1} bytes, more than {2**22}"
    ):
        Agreement.load(path)


# ---- what a request may cost a node ------------------------------------------------

COSTS = {
    "methods": 16,
    "classes": 1_000,
    "parameters": 25_000_000,
    "losses": 250_000,
    "row_outputs": 15_000_000,
    "epochs": 2_000,
    "epoch_units": 200_000,
    "hidden_numbers": 60_000_000,
    "clusters": 256,
    "cluster_numbers": 70_000_000,
    "moment_numbers": 30_000_000,
    "directions": 5_000,
    "ray_outputs": 50_000,
    "ray_units": 500_000,
    "step_size": 10_000,
    "front_columns": 50_000,
    "power_columns": 5_000,
    "tree_bytes": 20_000_000,
    "front_numbers": 100_000_000,
}


def test_limits_of_a_node_are_those_that_stand_here():
    assert asdict(Limits()) == COSTS | {"most_epsilon": 1.0}


def test_limits_are_said_in_their_docstring_and_in_the_guide():
    guide = Path(__file__).parents[2] / "docs" / "user_guide" / "separated.rst"
    table = guide.read_text(encoding="utf-8")
    for name, most in COSTS.items():
        assert re.search(rf"\n    {name} : int, default={most:_}\n", Limits.__doc__)
        assert f"   * - ``{name}``\n     - {most:,}\n" in table
        assert Limits.__dataclass_fields__[name].metadata["unit"]


@pytest.mark.parametrize("wrong", [0, -1, 1.0, True, None, "9"], ids=repr)
def test_limits_are_whole_numbers(wrong):
    with pytest.raises(ValueError, match="limit epochs must be a whole number of 1"):
        Limits(epochs=wrong)
