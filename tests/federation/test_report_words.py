# SPDX-License-Identifier: BSD-3-Clause
"""The words and tables of a report: cells, doubts at their bounds, and proofs."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from skgems import EnsembleAggregator
from skgems.federation import Report
from skgems.federation import _report as words

NODES = {
    "node": ["lyon", "a|b\n"],
    "rows": [12, None],
    "own": [0.12345, None],
    "in_space": [True, False],
}
CLASSES = {"class": ["ill", True], "known_by": ["lyon", ""]}


def report(messages=(), doubts=(), **more) -> Report:
    content = {"method": "Method", "nodes": NODES, "classes": CLASSES} | more
    return Report(messages=tuple(messages), doubts=tuple(doubts), **content)


def test_cells_are_short_words_and_numbers():
    assert str(report()).split("\n") == [
        "Method",
        "node   rows  own    in space",
        "lyon   12    0.123  yes",
        r"a|b\n  -     -      no",
        "",
        "class  known by",
        "ill    lyon",
        "yes",
        "",
        "0 messages, 0 bytes from the nodes.",
    ]


def test_tables_of_a_page_and_of_a_card_have_the_same_cells():
    doubts = ["node 'a' <lost>"]
    with_a_doubt = report(doubts=doubts, proof="Proof: a < b.")
    assert "| lyon | 12 | 0.123 | yes |" in with_a_doubt.to_markdown()
    assert r"| a\|b\n | - | - | no |" in with_a_doubt.to_markdown()
    lines = with_a_doubt.to_markdown().splitlines()
    assert lines[1] == "| --- | --- | --- | --- |"
    assert with_a_doubt.to_markdown().endswith("Doubts:\n\n- node 'a' <lost>")
    assert "from the nodes. Proof: a < b." in with_a_doubt.to_markdown()
    assert report().to_markdown().endswith("Doubts:\n\n- Nothing was noticed.")
    page = with_a_doubt._repr_html_()
    assert "<td>lyon</td><td>12</td><td>0.123</td><td>yes</td>" in page
    assert "<th>in space</th>" in page
    assert "<p>To doubt:</p><ul><li>node &#x27;a&#x27; &lt;lost&gt;</li></ul>" in page
    assert "Proof: a &lt; b." in page
    assert "To doubt" not in report()._repr_html_()
    lines = str(with_a_doubt).splitlines()
    assert lines[-2:] == ["Proof: a < b.", "Doubt: node 'a' <lost>"]


def test_what_was_sent_is_of_messages_or_of_files():
    messages = [{"bytes_received": 1000}, {"bytes_received": 234}]
    assert report(messages).sent == "2 messages, 1,234 bytes from the nodes."
    assert report(messages[:1]).sent == "1 message, 1,000 bytes from the nodes."
    files = {"node": ["a", "b", "c"], "bytes": [1000, None, 5]}
    assert report(nodes=files).sent == "2 files, 1,005 bytes from the nodes."
    files_of_one = {"node": ["a"], "bytes": [7]}
    assert report(nodes=files_of_one).sent == "1 file, 7 bytes from the nodes."
    # Of those that were asked messages count, whatever files there are.
    assert report(messages, nodes=files).sent.startswith("2 messages")


def doubts(nodes, classes=None, *, left_out=(), intersection=None) -> list[str]:
    classes = {"class": [], "known_by": []} if classes is None else classes
    fitted = SimpleNamespace(history_=[{"left_out": list(left_out)}])
    if intersection is not None:
        fitted.intersection_ = SimpleNamespace(found=intersection)
    return words._doubts(fitted, nodes=nodes, classes=classes)


def test_a_node_that_loses_two_points_is_told_of():
    nodes = {"node": ["a", "b", "c", "d"], "gain": [-0.0201, -0.0199, None, 0.5]}
    expected = "node 'a' loses: its own model is 0.020 better on its rows"
    assert doubts(nodes) == [expected]
    assert doubts({"node": ["a"]}) == []


def test_classes_that_one_node_alone_knows_are_told_of():
    classes = {"class": ["x", "y"], "known_by": ["a, b", "b"]}
    expected = "classes that one node alone knows: 'y' (b)"
    assert doubts({"node": ["a", "b"]}, classes) == [expected]
    # One node is not alone.
    assert doubts({"node": ["b"]}, classes) == []
    many = {"class": list(range(11)), "known_by": ["b"] * 11}
    (text,) = doubts({"node": ["a", "b"]}, many)
    assert text.count("(b)") == 10 and text.endswith("9 (b)")


def test_nodes_that_were_left_out_or_are_outside_are_told_of():
    names = [f"n{k:02}" for k in range(11)]
    assert doubts({"node": names}, left_out=names[::-1]) == [
        f"nodes were left out of messages: {names[:10]}"
    ]
    nodes = {"node": names, "in_space": [False] * 11}
    assert doubts(nodes) == [
        f"it is outside the good-enough spaces of nodes {names[:10]}"
    ]
    assert doubts({"node": ["a", "b"], "in_space": [True, None]}) == []


def test_a_model_that_is_not_in_all_spaces_is_doubted():
    expected = "it is not in the good-enough spaces of all nodes"
    assert doubts({"node": ["a"]}, intersection=False) == [expected]
    assert doubts({"node": ["a"]}, intersection=True) == []


def proof(**attributes) -> str:
    nothing_proved = {
        "found": False,
        "empty": False,
        "max_distance": 0.25,
        "lower_bound": 4.0,
    }
    intersection = SimpleNamespace(**nothing_proved | attributes)
    return words._proof(SimpleNamespace(intersection_=intersection, coef_=None))


def test_what_is_proved_is_said_in_radii():
    spaces = "good-enough space of every node"
    distance = "0.5 radii from the centre of one at most"
    assert proof(found=True) == f"Proof: it is in the {spaces}, {distance}."
    assert proof(empty=True) == (
        f"Proof: no model is in the {spaces}; any is 2 radii from one."
    )
    nothing = f"No model was found in the {spaces}, nor was it proved that none is."
    assert proof() == nothing
    exact = SimpleNamespace(exact_=True)
    expected = "Proof: it is the classifier fitted on all rows at one place."
    assert words._proof(exact) == expected
    assert words._proof(SimpleNamespace(exact_=False)) == ""
    # Of networks only the last layer has spaces.
    inside = SimpleNamespace(found=True, empty=False, max_distance=0.25)
    of_network = words._proof(SimpleNamespace(intersection_=inside))
    assert (
        of_network == f"Proof: it is in the {spaces} (of its last layer), {distance}."
    )


def measured(**scores) -> dict:
    default_scores = {
        "loss": [0.5, np.nan],
        "n_rows": [10.0, np.nan],
        "distance": [1.0, 1.0],
        "radius": [1.0, np.nan],
        "local": [0.75, np.nan],
        "aggregate": [0.5, 0.25],
    }
    return words._measured_columns(
        SimpleNamespace(node_scores_=default_scores | scores, criterion="accuracy")
    )


def test_what_was_measured_is_known_or_missing():
    assert measured() == {
        "loss": [0.5, None],
        "rows": [10, 0],
        "in_space": [True, None],
        "own": [0.75, None],
        "aggregate": [0.5, 0.25],
    }
    assert words._measured_columns(SimpleNamespace()) == {}
    assert "rows" not in measured(n_rows=[np.nan, np.nan])
    # A point may be on the surface, but for rounding.
    on_surface = [1.0 + 0.9e-6, 1.0 + 1.1e-6]
    columns = measured(distance=on_surface, radius=[1.0, 1.0])
    assert columns["in_space"] == [True, False]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"Zürich\ '3'", r"Zürich\ '3'"),
        ("a\x1b[2J", r"a\x1b[2J"),
        ("\u202eb", r"\u202eb"),
    ],
)
def test_names_cannot_steer_a_terminal(text, expected):
    assert words.printable(text) == expected


def test_rows_of_files_are_those_that_train_and_those_held_out():
    def n_rows(judging, training):
        counts = {"judging": np.array(judging), "training": np.array(training)}
        return words._n_rows(SimpleNamespace(row_counts=counts))

    assert n_rows([5, 6], [5, 6]) == 11
    assert n_rows([1, 2], [5, 6]) == 14


def test_a_card_names_settings_without_those_of_nodes(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    y = np.arange(40) % 2
    members = [("lyon", LogisticRegression().fit(X, y))]
    path = tmp_path / "MODEL.md"
    EnsembleAggregator(members, random_state=0).fit().model_card(path)
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "# Model: EnsembleAggregator"
    assert "- 1 nodes, 2 classes" in lines
    settings = [line for line in lines if line.startswith("- random_state")]
    assert settings == ["- random_state: `0`"]
    assert not [line for line in lines if line.startswith(("- lyon", "- estimators"))]
