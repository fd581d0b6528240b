# SPDX-License-Identifier: BSD-3-Clause
"""Each kind of field takes what it is for, up to its bounds, and nothing beside it."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from skgems.messages import (
    ABSENT,
    Activations,
    Array,
    Arrays,
    Each,
    Flag,
    Json,
    Labels,
    Named,
    Number,
    Place,
    Table,
    Text,
    Told,
    Weights,
)
from skgems.messages import _fields as fields


def take(
    field, value, *, lengths: dict | None = None, request: dict | None = None
) -> Place:
    """Check a value, where lengths and a request are known; gives its place."""
    place = Place("told", lengths=lengths or {}, asked=request or {})
    field.check(value, place)
    return place


def refuse(
    field,
    value,
    match: str,
    *,
    lengths: dict | None = None,
    request: dict | None = None,
) -> None:
    """Check that a value is refused, in these words behind its name."""
    with pytest.raises(ValueError, match=rf"^told{match}"):
        take(field, value, lengths=lengths, request=request)


# ---- tables --------------------------------------------------------------------


def test_tables_have_the_fields_that_were_asked_for():
    table = Table(
        {
            "needed": Number(),
            "none": Number(default=None),
            "some": Number(default=ABSENT),
            "asked": Number(when=lambda request: request.get("more")),
        }
    )
    content = {"needed": 1.0, "none": None, "some": 2.0}
    take(table, content)
    # Fields that have a default may be missing.
    take(table, {"needed": 1.0})
    take(table, content | {"asked": 3.0}, request={"more": True})
    for wrong, match in (
        ([], " is not a table of fields"),
        ({}, ".needed is missing"),
        (content | {"more": 1.0}, ".more is an unknown field"),
        (content | {"needed": None}, ".needed is not a number"),
        (content | {"some": None}, ".some is not a number"),
        (content | {"none": "x"}, ".none is not a number"),
        (content | {"asked": 3.0}, ".asked was not asked for"),
    ):
        refuse(table, wrong, match)
    refuse(table, content, ".asked is missing", request={"more": True})


def test_names_that_a_sender_chose_are_cut_short():
    table = Table({"needed": Number()})
    content = {"needed": 1.0}
    refuse(table, content | {"x" * 100: 0}, rf"\.{'x' * 80} is an unknown field")


def test_a_rule_is_of_the_whole_table():
    def rule(content, place):
        place.deny(content["a"] > content["b"], "a", "is more than b")

    table = Table({"a": Number(), "b": Number()}, rule)
    take(table, {"a": 1.0, "b": 1.0})
    refuse(table, {"a": 2.0, "b": 1.0}, r"\.a is more than b")


def test_fields_of_an_inline_table_are_named_as_those_of_the_message():
    def rule(content, place):
        place.deny(content["a"] > content["b"], "a", "is more than b")

    inline = Table({"a": Number(), "b": Number()}, rule, inline=True)
    with pytest.raises(ValueError, match=r"^told\.a is more than b"):
        inline.check({"a": 2.0, "b": 1.0}, Place("told.table"))


def test_tables_by_number_are_numbered_from_0():
    each = Each({"labels": Labels("l")})
    one_label = {"labels": ["a"]}
    two_labels = {"labels": ["a", "b"]}
    # Letters are of each table alone: each may have labels of another number.
    take(each, {"0": one_label, "1": two_labels})
    take(each, {})
    for wrong in (
        {"1": one_label},
        {"1": one_label, "0": two_labels},
        {"0": one_label, "2": two_labels},
        {"a": one_label},
    ):
        refuse(each, wrong, " are not numbered from 0")
    refuse(each, [], " is not a table of fields")
    refuse(each, {"0": {}}, ".0.labels is missing")


def test_statistics_sent_to_steps_have_the_fields_of_their_kind():
    statistics = Told({"sum": {"n_rows": Number()}, "many": {"each": Labels("l")}})
    take(statistics, {"0/1": {"statistic": "sum", "n_rows": 1.0}})
    for wrong, match in (
        ([], " is not a table of fields"),
        ({"0": 1}, ".0 is not a table of fields"),
        ({"0": {"n_rows": 1.0}}, r"\.0\.statistic is not a text"),
        ({"0": {"statistic": "mean"}}, r"\.0\.statistic is 'mean', not one of"),
        ({"0": {"statistic": "sum"}}, r"\.0\.n_rows is missing"),
        (
            {"0": {"statistic": "sum", "n_rows": 1.0, "1": 2.0}},
            r"\.0\.1 is an unknown field",
        ),
    ):
        refuse(statistics, wrong, match)


def test_statistics_of_columns_stand_under_their_numbers():
    statistics = Told({"sum": {"n_rows": Number()}, "many": {"each": Labels("l")}})
    columns = {"statistic": "many", "0": ["a"], "12": ["b"]}
    # Lengths are of each step alone: those of step 1 have two labels.
    take(statistics, {"0": columns, "1": {"statistic": "many", "0": ["a", "b"]}})
    for wrong, match in (
        ({"0": columns | {"each": ["a"]}}, r"\.0\.each is an unknown field"),
        ({"0": columns | {"1": ["a", "b"]}}, r"\.0\.1 are 2, not 1"),
    ):
        refuse(statistics, wrong, match)


# ---- numbers and words ---------------------------------------------------------


def test_numbers_are_finite_and_within_their_bounds():
    number = Number(low=-1.0, high=2.0)
    for value in (-1.0, 2.0, 0, np.float32(0.5), np.int64(1), np.array(2.0)):
        take(number, value)
    between = r" is \S+, not between -1 and 2"
    for value in (-1.001, 2.001, 3, np.array(-2.0), np.inf, -np.inf, np.nan):
        refuse(number, value, between)
    for value in (True, np.bool_(True), "1", None, [1.0], np.array([1.0]), 1j):
        refuse(number, value, " is not a number")
    # Numbers that a sender chose are cut short.
    refuse(number, 10**40, rf" is 1{'0' * 19}, not between")
    refuse(Number(), -1e-300, " is -1e-300, not between 0 and")


def test_whole_numbers_are_no_floats():
    number = Number(low=1.0, high=3.0, whole=True)
    for value in (1, 3, np.array(2)):
        take(number, value)
    for value in (2.0, np.array(2.0), 2.5):
        refuse(number, value, r" is 2\.\d, not a whole number")
    refuse(number, 0, " is 0, not between 1 and 3")
    refuse(number, 4, " is 4, not between 1 and 3")


def test_infinite_numbers_and_gaps_are_taken_where_they_mean_something():
    take(Number(infinite=True), np.inf)
    take(Number(nan=True), np.nan)
    refuse(Number(infinite=True), -np.inf, " is -inf")
    refuse(Number(infinite=True), np.nan, " is nan")
    refuse(Number(nan=True), np.inf, " is inf")


def test_flags_are_true_or_false_or_a_word_that_is_allowed():
    for value in (True, False):
        take(Flag(), value)
    take(Flag(("auto",)), "auto")
    for field, value in ((Flag(), "auto"), (Flag(("auto",)), "no"), (Flag(), 1)):
        refuse(field, value, " is neither true nor false")


def test_texts_are_those_that_files_store_without_loss():
    take(Text(), "Zürich\0.")
    take(Text(("a", "b")), "b")
    for value, match in (
        (b"a", " is not a text"),
        ("\ud800", " has characters that cannot be sent"),
        ("a\0", " ends in a character of no width"),
    ):
        refuse(Text(), value, match)
    refuse(Text(("a", "b")), "c" * 99, rf" is '{'c' * 40}', not one of \['a', 'b'\]")
    take(Text(most=3), "abc")
    refuse(Text(most=3), "abcd", " is longer than 3")


def test_activations_are_those_of_networks():
    take(Activations(), [])
    take(Activations(), ["relu", "tanh"])
    for value in ("relu", ["relu", "step"], [1], None):
        refuse(Activations(), value, " has names that are not among")


def test_json_is_a_table():
    take(Json(), {"a": [{}]})
    for value in ([], "a", None):
        refuse(Json(), value, " is not a table of fields")


def test_parts_have_a_name_and_plain_parameters():
    take(Named(), {"name": "gram", "ridge": 0.1, "n": 1, "on": True, "other": None})
    for value in ("gram", {}, {"ridge": 0.1}, None):
        refuse(Named(), value, " is not a table with a name")
    refuse(Named(), {"name": 1}, ".name is not a text")
    for odd in ([], {}, np.ones(1)):
        match = ".ridge is neither a number nor a text"
        refuse(Named(), {"name": "gram", "ridge": odd}, match)


def test_weights_are_pairs_or_words():
    weights = Weights(("balanced",))
    take(weights, "balanced")
    take(weights, [])
    take(weights, [["a", 0], ["b", 1e25], [1, 0.5], [1.5, 2], [True, 1]])
    for value in (
        "even",
        [["a", -1e-300]],
        [["a", 1.1e25]],
        [["a", np.inf]],
        [["a", np.nan]],
        [["a", True]],
        [["a", "b"]],
        [["a"]],
        [["a", 1, 2]],
        [("a", 1)],
        [[None, 1]],
        {"a": 1},
    ):
        refuse(weights, value, " is not a list of labels and weights")
    refuse(Weights(), "balanced", " is not a list of labels and weights")


def test_labels_are_of_one_kind():
    for value in (["b", "a", "a"], [2, 1], [0.5, 0.5], [True, False], []):
        take(Labels(), value)
    for value, match in (
        (("a",), " is not a list of labels"),
        ([1, 1.0], " has labels that are not all texts, or all numbers"),
        ([1, True], " has labels that are not all texts, or all numbers"),
        ([None], " has labels that are not all texts, or all numbers"),
        ([2**64], " has numbers of more than 64 bits"),
        ([-1, 2**63], " has numbers of more than 64 bits"),
        ([-(2**63) - 1], " has numbers of more than 64 bits"),
        ([np.inf], " has numbers that are not finite"),
        ([np.nan], " has numbers that are not finite"),
        (["a", "\ud800"], " has characters that cannot be sent"),
        (["a\0", "b"], " ends in a character of no width"),
    ):
        refuse(Labels(), value, match)
    take(Labels(), [2**63 - 1, -(2**63)])
    take(Labels(), [0, 2**64 - 1])


def test_labels_that_name_classes_are_in_order_and_each_once():
    ordered = Labels("l", ordered=True)
    assert take(ordered, ["a", "b"]).lengths == {"l": 2}
    take(ordered, ["a"], lengths={"l": 1})
    for value in (["b", "a"], ["a", "a"]):
        refuse(ordered, value, " is not in order, or has a label twice")
    refuse(ordered, [], " is not a list of labels")
    refuse(ordered, ["a"], " are 1, not 2", lengths={"l": 2})
    take(Labels(most=2), ["a", "b"])
    refuse(Labels(most=2), ["a", "b", "c"], " are 3, more than 2")


# ---- arrays --------------------------------------------------------------------


def test_letters_of_a_shape_stand_for_lengths():
    assert take(Array("d k"), np.ones((3, 2))).lengths == {"d": 3, "k": 2}
    assert take(Array("d+1 k"), np.ones((4, 2))).lengths == {"d": 3, "k": 2}


@pytest.mark.parametrize(
    ("shape", "lengths_of_axes"),
    [
        ("d", (3,)),
        ("d+1", (4,)),
        ("d d", (3, 3)),
        ("d(d+1)/2", (6,)),
        ("d *", (3, 7)),
        ("4 d", (4, 3)),
    ],
)
def test_a_letter_stands_for_one_length(shape, lengths_of_axes):
    array = np.ones(lengths_of_axes)
    take(Array(shape), array, lengths={"d": 3})
    match = r" has the shape \(.*\), not \("
    longer = np.ones([length + 1 for length in lengths_of_axes])
    refuse(Array(shape), longer, match, lengths={"d": 3})
    refuse(Array(shape), array[None], match, lengths={"d": 3})


def test_a_letter_that_is_known_is_named_with_its_length():
    match = r" has the shape \(2, 2\), not \(3, any\)"
    refuse(Array("d k"), np.ones((2, 2)), match, lengths={"d": 3})


def test_shapes_may_be_one_of_two_or_any():
    take(Array("..."), np.ones((2, 1, 2)), lengths={"d": 3})
    take(Array("q | q q"), np.ones(5), lengths={"d": 3})
    take(Array("q | q q"), np.ones((5, 5)), lengths={"d": 3})
    match = r" has the shape \(2, 3\), not \(any\) or \(any, any\)"
    refuse(Array("q | q q"), np.ones((2, 3)), match)


def test_a_shape_that_does_not_fit_leaves_no_length_behind():
    place = Place("told")
    with pytest.raises(ValueError):
        Array("d d").check(np.ones((2, 3)), place)
    assert place.lengths == {}


def test_sums_of_one_model_or_of_each_of_several():
    sums, matrices = Array("m?"), Array("m? p c")
    assert take(matrices, np.ones((4, 2))).lengths == {"m?": (), "p": 4, "c": 2}
    assert take(matrices, np.ones((5, 4, 2))).lengths == {"m?": (5,), "p": 4, "c": 2}
    refuse(matrices, np.ones((1, 5, 4, 2)), r" has the shape")
    # The sum of one model is a number.
    take(sums, 3.5, lengths={"m?": ()})
    take(sums, np.array(3.5), lengths={"m?": ()})
    take(sums, np.ones(5), lengths={"m?": (5,)})
    refuse(sums, 3.5, " is not an array", lengths={"m?": (5,)})
    refuse(sums, 3.5, " is not an array")
    refuse(sums, True, " is not an array", lengths={"m?": ()})
    refuse(sums, np.ones(4), r" has the shape \(4,\)", lengths={"m?": (5,)})
    refuse(sums, np.ones(1), r" has the shape \(1,\)", lengths={"m?": ()})


@pytest.mark.parametrize(
    ("field", "taken_dtypes"),
    [
        (Array("d"), {"f8"}),
        (Array("d", least_bytes=4), {"f8", "f4"}),
        (Array("d", least_bytes=2), {"f8", "f4", "f2"}),
        # Whole numbers have four bytes on machines of 32 bits.
        (Array("d", kinds="i"), {"i8", "i4"}),
        (Array("d", kinds="iu"), {"i8", "i4", "u8"}),
        (Array("d", kinds="b"), {"b1"}),
    ],
)
@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "i8", "i4", "u8", "b1"])
def test_arrays_are_of_their_kinds_and_have_digits_enough(field, taken_dtypes, dtype):
    array = np.ones(2, dtype)
    if dtype in taken_dtypes:
        take(field, array)
    else:
        refuse(field, array, " has the dtype")


def test_whole_numbers_of_two_bytes_are_refused():
    refuse(Array("d", kinds="i"), np.ones(2, "i2"), " has the dtype int16")


def test_what_is_no_array_is_refused():
    for value in ([1.0], 1.0, None, "a"):
        refuse(Array("d"), value, " is not an array")


def test_values_of_arrays_are_finite_and_within_their_bounds():
    array = Array("d", low=-1.0, high=2.0)
    take(array, np.array([-1.0, 2.0]))
    refuse(array, np.array([0.0, -1.001]), " has values below -1")
    refuse(array, np.array([2.001, 0.0]), " has 1 values above 2")
    # Where only an upper bound is set, it is one of absolute values.
    both_sides = Array("d", high=2.0)
    take(both_sides, np.array([-2.0, 2.0]))
    refuse(both_sides, np.array([-2.001, 2.001]), " has 2 values above 2")
    for value in (np.inf, -np.inf, np.nan):
        refuse(array, np.array([0.0, value]), " has 1 values that are not finite")
    refuse(Array("d", kinds="i", low=0), np.array([0, -1]), " has values below 0")


def test_infinite_values_and_gaps_are_taken_where_they_mean_something():
    take(Array("d", infinite=True), np.array([np.inf, 1.0]))
    take(Array("d", nan=True), np.array([np.nan, 1.0]))
    match = " has 1 values that are not finite"
    refuse(Array("d", infinite=True), np.array([np.nan]), match)
    refuse(Array("d", nan=True), np.array([np.inf]), match)
    refuse(
        Array("d", infinite=True, low=0.0), np.array([-np.inf]), " has values below 0"
    )


def test_single_precision_numbers_can_be_squared():
    most = fields.LARGEST_FLOAT32
    array = Array("d", least_bytes=4)
    take(array, np.array([most], "f4"))
    refuse(array, np.array([2.0 * most], "f4"), " has 1 values above")
    take(array, np.array([2.0 * most]))
    # A smaller bound is as it is.
    low = Array("d", least_bytes=4, high=2.0)
    refuse(low, np.array([3.0], "f4"), " has 1 values above 2")


def test_arrays_may_have_to_have_values():
    take(Array("d k"), np.ones((0, 3)))
    refuse(Array("d k", empty=False), np.ones((0, 3)), r" has the shape \(0, 3\)")


def test_lists_of_arrays_have_one_shape_each():
    matrices = Arrays(Array("d d"))
    take(matrices, [np.ones((2, 2)), np.ones((3, 3))])
    refuse(matrices, [np.ones((2, 2)), np.ones((2, 3))], r"\[1\] has the sh")
    refuse(Arrays(Array("d")), np.ones((1, 2)), " is not a list of arrays")


def test_lists_of_arrays_are_like_those_of_the_request():
    like = Arrays(Array("...", kinds="fiub"), "weights")
    request = SimpleNamespace(weights=[np.ones((2, 3)), np.ones(4, "i8")])
    take(like, [np.ones((2, 3)), np.ones(4, "i4")], request=request)
    take(like, [np.ones(7)], request=SimpleNamespace(weights=None))
    for value, match in (
        ([np.ones((2, 3))], " are not 2 arrays"),
        ([np.ones((3, 2)), np.ones(4, "i8")], r"\[0\] has the shape"),
        ([np.ones((2, 3)), np.ones(4)], r"\[1\] has the dtype float64"),
        ([np.ones((2, 3), "i8"), np.ones(4, "i8")], r"\[0\] has the dtype int64"),
    ):
        refuse(like, value, match, request=request)


# ---- matrices ------------------------------------------------------------------


def check_matrix(matrix, match: str | None = None) -> None:
    """A matrix of sums of squares is taken, or refused in these words."""
    place = Place("told")
    if match is None:
        fields.check_definite(np.array(matrix), place)
        return
    with pytest.raises(ValueError, match=f"^told {match}"):
        fields.check_definite(np.array(matrix), place)


NEGATIVE_EIGENVALUE = "has a negative eigenvalue"


def test_matrices_without_a_negative_eigenvalue_are_taken():
    check_matrix(np.eye(3))
    check_matrix(np.zeros((2, 2)))
    check_matrix([[1.0, 1.0], [1.0, 1.0]])


@pytest.mark.parametrize(
    ("error", "match"),
    # Relative to the squares: a millionth, and what float32 rows lose.
    [(0.9e-6, None), (1.4e-6, NEGATIVE_EIGENVALUE)],
)
@pytest.mark.parametrize("squares", [(1.0, 1.0), (1e-8, 1e8)])
def test_an_eigenvalue_is_negative_by_rounding_alone(error, match, squares):
    matrix = np.diag(squares)
    matrix[0, 1] = matrix[1, 0] = 1.0 + error
    check_matrix(matrix, match)


@pytest.mark.parametrize(
    ("error", "match"), [(5e-6, None), (6.5e-6, NEGATIVE_EIGENVALUE)]
)
def test_matrices_of_more_features_have_more_rounding(error, match):
    matrix = np.eye(40)
    matrix[0, 1] = matrix[1, 0] = 1.0 + error
    check_matrix(matrix, match)


def test_a_feature_without_squares_has_no_products():
    check_matrix([[0.0, 0.0], [0.0, 1.0]])
    products = "has products of a feature without squares"
    check_matrix([[0.0, 1e-9], [1e-9, 1.0]], products)


def test_squares_are_not_negative():
    negative = [[-1e-9, 0.0], [0.0, 1.0]]
    check_matrix(negative, "has negative squares on its diagonal")
