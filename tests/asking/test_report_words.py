# SPDX-License-Identifier: BSD-3-Clause
"""The words and tables of a report: cells, doubts at their bounds, and proofs."""

from __future__ import annotations

import re
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from skgems import EnsembleAggregator
from skgems.asking import Report, _report_doubts
from skgems.asking import _report as words
from skgems.base import printable
from skgems.gems import Spaces

NODES = {
    "node": ["lyon", "a|b\n"],
    "rows": [12, None],
    "local_accuracy": [0.12345, None],
    "in_good_enough_space": [True, False],
}
CLASSES = {"class": ["ill", True], "known_by": ["lyon", ""]}


def report_of(messages=(), doubts=(), nodes=NODES, proof="") -> Report:
    """A report with these tables, messages and doubts."""
    return Report(
        method="Method",
        nodes=nodes,
        classes=CLASSES,
        messages=tuple(messages),
        doubts=tuple(doubts),
        proof=proof,
    )


def test_cells_are_short_words_and_numbers():
    assert str(report_of()).split("\n") == [
        "Method",
        "             accuracy of  in good-",
        "node   rows  local model  enough space",
        "lyon   12    0.123        yes",
        r"a|b\n  -     -            no",
        "",
        "class  nodes that know it",
        "ill    lyon",
        "yes",
        "",
        "The nodes sent 0 bytes in 0 messages.",
    ]


def doubted_report():
    """A report with a doubt and a proof, both of which have signs of HTML."""
    return report_of(doubts=["node 'a' <lost>"], proof="Proof: a < b.")


def test_a_card_has_the_cells_the_proof_and_the_doubts():
    card = doubted_report().to_markdown()
    assert "| lyon | 12 | 0.123 | yes |" in card
    assert r"| a\|b\\n | - | - | no |" in card
    assert card.splitlines()[1] == "| --- | --: | --: | --- |"
    assert "in 0 messages. Proof: a < b." in card
    assert card.endswith("Reasons for doubt:\n\n- node 'a' <lost>")


def test_a_page_has_the_cells_the_proof_and_the_doubts_escaped():
    page = doubted_report()._repr_html_()
    cells = re.sub(' class="number"', "", page)
    assert "<td>lyon</td><td>12</td><td>0.123</td><td>yes</td>" in cells
    assert "<th>in good-enough space</th>" in cells
    doubts = page.partition("Reasons for doubt</p>")[2]
    assert doubts.startswith("<ul><li>node &#x27;a&#x27; &lt;lost&gt;</li></ul>")
    assert "Proof: a &lt; b." in page


def test_the_printed_report_ends_with_the_proof_and_the_doubts():
    lines = str(doubted_report()).splitlines()
    assert lines[-2:] == ["Proof: a < b.", "Doubt: node 'a' <lost>"]


def test_only_a_card_says_that_there_are_no_doubts():
    assert (
        report_of()
        .to_markdown()
        .endswith("Reasons for doubt:\n\n- Nothing was noticed.")
    )
    assert "Reasons for doubt" not in report_of()._repr_html_()


def test_a_report_counts_the_bytes_of_messages_or_else_of_files():
    messages = [{"bytes_received": 1000}, {"bytes_received": 234}]
    assert report_of(messages).sent == "The nodes sent 1,234 bytes in 2 messages."
    assert report_of(messages[:1]).sent == "The nodes sent 1,000 bytes in 1 message."
    files = {"node": ["a", "b", "c"], "bytes": [1000, None, 5]}
    assert report_of(nodes=files).sent == "The nodes sent 1,005 bytes in 2 files."
    files_of_one = {"node": ["a"], "bytes": [7]}
    assert report_of(nodes=files_of_one).sent == "The nodes sent 7 bytes in 1 file."
    # Files are not counted where there were messages.
    assert report_of(messages, nodes=files).sent.endswith("2 messages.")


def doubts_about(nodes, classes=None, *, left_out=(), intersection=None) -> list[str]:
    """The doubts about an aggregate with these tables."""
    classes = {"class": [], "known_by": []} if classes is None else classes
    fitted = SimpleNamespace(estimators_=[], history_=[{"left_out": list(left_out)}])
    if intersection is not None:
        fitted.intersection_ = SimpleNamespace(found=intersection)
    return _report_doubts.doubts_about(fitted, nodes=nodes, classes=classes)


def test_a_node_that_loses_two_points_of_accuracy_is_a_doubt():
    nodes = {"node": ["a", "b", "c", "d"], "gain": [-0.0201, -0.0199, None, 0.5]}
    assert doubts_about(nodes) == [
        "Node 'a' loses: the accuracy of its local model is 0.020 higher than that of "
        "the aggregate."
    ]
    assert doubts_about({"node": ["a"]}) == []


def test_classes_that_only_one_of_several_nodes_knows_are_a_doubt():
    classes = {"class": ["x", "y"], "known_by": ["a, b", "b"]}
    expected = "Only one node knows each of these classes: 'y' (b)."
    assert doubts_about({"node": ["a", "b"]}, classes) == [expected]
    # With a single node that is no doubt.
    assert doubts_about({"node": ["b"]}, classes) == []
    many = {"class": list(range(11)), "known_by": ["b"] * 11}
    (text,) = doubts_about({"node": ["a", "b"]}, many)
    assert text.count("(b)") == 5 and text.endswith("4 (b).")


def test_nodes_that_were_left_out_and_spaces_without_the_model_are_doubts():
    names = [f"n{k:02}" for k in range(11)]
    listed = ", ".join(map(repr, names[:5]))
    assert doubts_about({"node": names}, left_out=names[::-1]) == [
        f"These nodes were left out of messages: {listed}."
    ]
    nodes = {"node": names, "in_good_enough_space": [False] * 11}
    assert doubts_about(nodes) == [
        f"The aggregate is outside the good-enough spaces of the nodes {names[:5]}."
    ]
    assert (
        doubts_about({"node": ["a", "b"], "in_good_enough_space": [True, None]}) == []
    )


def test_a_model_that_is_not_in_the_spaces_of_all_nodes_is_a_doubt():
    expected = "The aggregate is not in the good-enough spaces of all nodes."
    assert doubts_about({"node": ["a"]}, intersection=False) == [expected]
    assert doubts_about({"node": ["a"]}, intersection=True) == []


def proof_of(**attributes) -> str:
    """The proof about an intersection of spaces with these attributes."""
    nothing_proved = {
        "found": False,
        "empty": False,
        "max_distance": 0.25,
        "lower_bound": 4.0,
    }
    intersection = SimpleNamespace(**nothing_proved | attributes)
    return words._proof(SimpleNamespace(intersection_=intersection, coef_=None))


def test_a_proof_says_in_radii_how_far_the_model_is_from_the_centre_of_spaces():
    spaces = "good-enough space of every node"
    distance = (
        "It is within the allowed distance of every node's model: at most 0.5 times "
        "that distance."
    )
    assert proof_of(found=True) == f"Proven: the model is in the {spaces}. {distance}"
    assert proof_of(empty=True) == (
        f"Proven: no model is in the {spaces}. Every model is at least 2 times the "
        "allowed distance away from some node's model."
    )
    nothing = (
        f"No model was found in the {spaces}; it is not proven that there is none."
    )
    assert proof_of() == nothing


def test_a_proof_says_that_an_exact_aggregate_is_the_pooled_classifier():
    exact = SimpleNamespace(exact_=True)
    expected = "Proven: the model equals the pooled model, fitted on all rows at once."
    assert words._proof(exact) == expected
    assert words._proof(SimpleNamespace(exact_=False)) == ""


def test_a_proof_about_a_network_is_about_its_last_layer():
    spaces = "good-enough space of every node (of its last layer)"
    distance = (
        "It is within the allowed distance of every node's model: at most 0.5 times "
        "that distance."
    )
    inside = SimpleNamespace(found=True, empty=False, max_distance=0.25)
    of_network = words._proof(SimpleNamespace(intersection_=inside))
    assert of_network == f"Proven: the model is in the {spaces}. {distance}"


def measured_columns(**scores) -> dict:
    """The columns of scores of two nodes, of which one is mostly unknown."""
    default_scores = {
        "loss": [0.5, np.nan],
        "n_rows": [10.0, np.nan],
        "distance": [1.0, 1.0],
        "radius": [1.0, np.nan],
        "local": [0.75, np.nan],
        "aggregate": [0.5, 0.25],
    }
    return words._measured_columns(
        SimpleNamespace(
            node_scores_=default_scores | scores,
            _largest_shares=[0.5, 0.25],
            _method=lambda: SimpleNamespace(spaces=Spaces.from_value("gram")),
        )
    )


def test_scores_that_are_not_known_are_none_or_have_no_column():
    assert measured_columns() == {
        "log_loss": [0.5, None],
        "rows": [10, 0],
        "in_good_enough_space": [True, None],
        "local_accuracy": [0.75, None],
        "aggregate_accuracy": [0.5, 0.25],
        "largest_class": [0.5, 0.25],
    }
    assert words._measured_columns(SimpleNamespace()) == {}
    assert "rows" not in measured_columns(n_rows=[np.nan, np.nan])


def test_a_model_on_the_surface_of_a_space_is_in_it_but_for_rounding():
    on_surface = [1.0 + 0.9e-6, 1.0 + 1.1e-6]
    columns = measured_columns(distance=on_surface, radius=[1.0, 1.0])
    assert columns["in_good_enough_space"] == [True, False]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"Zürich\ '3'", r"Zürich\ '3'"),
        ("a\x1b[2J", r"a\x1b[2J"),
        ("\u202eb", r"\u202eb"),
    ],
)
def test_names_cannot_steer_a_terminal(text, expected):
    assert printable(text) == expected


def test_rows_of_a_file_are_those_that_train_and_those_that_are_held_out():
    def n_rows(judging, training):
        counts = {"judging": np.array(judging), "training": np.array(training)}
        return words._n_rows(SimpleNamespace(row_counts=counts))

    assert n_rows([5, 6], [5, 6]) == 11
    assert n_rows([1, 2], [5, 6]) == 14


def test_a_card_lists_parameters_of_the_aggregator_but_no_members(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    y = np.arange(40) % 2
    members = [("lyon", LogisticRegression().fit(X, y))]
    path = tmp_path / "MODEL.md"
    EnsembleAggregator(members, random_state=0).fit().model_card(path)
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "# Model description"
    assert any("`EnsembleAggregator` of skgems" in line for line in lines)
    settings = [line for line in lines if line.startswith("| random_state")]
    assert settings == ["| random_state | 0 |"]
    assert not [line for line in lines if line.startswith("| estimators")]
