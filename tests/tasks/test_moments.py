# SPDX-License-Identifier: BSD-3-Clause
"""Replies to "moments" fit the rows that their node described, and the request."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.rules import (
    BEYOND,
    WITHIN,
    assert_outcome,
    assert_refused,
    assert_taken,
    described,
    rows,
    without,
)

from skgems.moments import ClassMoments, class_moments
from skgems.tasks import MomentsReply
from skgems.tasks._classifier_fields import form_is_known

# ---- forms of classifiers ----------------------------------------------------------

RIDGE = {"kind": "ridge", "alpha": 1.0, "fit_intercept": True, "class_weight": None}
LDA_BY_SVD = {"kind": "lda", "solver": "svd", "priors": None, "tol": 1e-4}
LDA_BY_LSQR = {"kind": "lda", "solver": "lsqr", "priors": None, "shrinkage": None}
NEAREST_CENTROID = {
    "kind": "nearest_centroid",
    "shrink_threshold": None,
    "priors": "uniform",
}


@pytest.mark.parametrize(
    "form",
    [
        {"reason": "it is a tree"},
        RIDGE,
        LDA_BY_SVD,
        LDA_BY_LSQR,
        NEAREST_CENTROID,
    ],
)
def test_a_form_with_the_parameters_of_its_kind_is_taken(form):
    assert_taken(form_is_known, form)


@pytest.mark.parametrize(
    ("form", "match"),
    [
        ({"reason": "", "kind": "ridge"}, "reason is not allowed beside the reason"),
        ({"alpha": 1.0}, "kind is missing"),
        (RIDGE | {"tol": 1e-4}, "tol is missing, or no parameter of 'ridge'"),
        (without(RIDGE, "fit_intercept"), "fit_intercept is missi"),
        (
            LDA_BY_SVD | {"shrinkage": None},
            "shrinkage is missing, or no parameter of 'lda'",
        ),
        (LDA_BY_LSQR | {"tol": 1e-4}, "tol is missing, or no parameter of 'lda'"),
        (
            LDA_BY_SVD | {"priors": "uniform"},
            "priors is not a list of labels and weights",
        ),
    ],
)
def test_a_form_with_other_parameters_is_refused(form, match):
    assert_refused(form_is_known, form, match)


# ---- honest replies, and how they are checked --------------------------------------


def moment_arrays(kind: str = "class") -> dict:
    """The moments of the example's rows, as arrays of a message."""
    X, y = rows()
    return class_moments(X, y, kind=kind).as_content()


def moments_reply(kind: str = "class", **fields) -> dict:
    """An honest reply to "moments", with fields added or replaced."""
    moments = moment_arrays(kind)
    reply = {"labels": ["a", "b"], "moments": moments, "min_rows": 1}
    return reply | fields


def moments_request(
    kind: str = "class",
    *,
    class_weight: str | list | None = "members",
    model: str | None = "own",
) -> dict:
    return {"kind": kind, "class_weight": class_weight, "model": model}


def gradient_of_intercepts(size: float = 0.0) -> np.ndarray:
    """A gradient that adds to the first output's intercept what the second loses."""
    gradient = np.zeros((4, 2))  # three features and the intercept, two outputs
    gradient[-1] = size, -size
    return gradient


def check_moments(
    reply: dict,
    request: dict | None = None,
    match: str | None = None,
    n_rows: tuple[int, int] = (30, 10),
) -> None:
    """With so many rows described, the reply is taken, or refused in these words."""
    assert_outcome(
        MomentsReply,
        reply,
        match,
        asked=moments_request() if request is None else request,
        described=described(moments=np.array(n_rows)),
    )


@pytest.mark.parametrize("kind", ["class", "shared", "diagonal"])
def test_honest_moments_are_taken(kind):
    reply = moments_reply(kind)
    check_moments(reply, moments_request(kind))
    with_gradient = reply | {"factor": 1.0, "gradient": gradient_of_intercepts()}
    check_moments(with_gradient, moments_request(kind))
    # Moments of rows alone: there is no model to correct.
    check_moments(reply, moments_request(kind, model=None))


@pytest.mark.parametrize(
    ("kurtosis", "match"),
    [
        (8, None),
        (64, None),
        (33, "kurtosis is not a power of two"),
    ],
)
def test_the_kurtosis_is_a_power_of_two_that_so_many_rows_can_have(kurtosis, match):
    check_moments(moments_reply("class") | {"kurtosis": kurtosis}, match=match)


# ---- the kind of matrices ----------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "requested_kind", "field"),
    [
        ("class", "shared", "groups"),
        ("class", "diagonal", "triangles"),
        # "shared" for "class" is taken: a class with few rows has no matrix of its own.
        ("shared", "diagonal", "triangles"),
        ("diagonal", "class", "scatter"),
        ("diagonal", "shared", "scatter"),
    ],
)
def test_moments_of_another_kind_than_requested_are_refused(
    kind, requested_kind, field
):
    check_moments(moments_reply(kind), moments_request(requested_kind), field)


def test_one_matrix_of_all_classes_may_come_without_the_squares_of_each():
    # Under a rule of disclosure squares of a class may be too many numbers to tell.
    reply = moments_reply("shared")
    reply["moments"] = without(reply["moments"], "squares")
    check_moments(reply, moments_request("shared"))


def test_roots_are_taken_where_rows_are_few_and_any_kind_was_requested():
    X = np.random.default_rng(0).normal(size=(40, 2000))
    _, y = rows()
    reply = moments_reply(moments=class_moments(X, y, kind="roots").as_content())
    match = "roots were not asked for"
    check_moments(reply, moments_request("auto"))
    check_moments(reply, moments_request("class"), match)
    # Of three features a matrix is smaller than its roots.
    check_moments(moments_reply("roots"), moments_request("auto"), match)


# ---- corrections: gradients and slopes ---------------------------------------------

CORRECTIONS = {
    "gradient": gradient_of_intercepts(),
    "gradients": np.zeros((2, 4, 2)),  # one a class
    "slope": np.zeros((4, 2)),
    "slopes": np.zeros((2, 4, 2)),
}


def reply_with_correction(name: str) -> dict:
    """An honest reply with a correction: a gradient has a factor, a slope has none."""
    reply = moments_reply(**{name: CORRECTIONS[name]})
    return reply | {"factor": 1.0} if name.startswith("gradient") else reply


@pytest.mark.parametrize("name", CORRECTIONS)
def test_a_correction_is_taken_only_where_a_model_is_corrected(name):
    reply = reply_with_correction(name)
    check_moments(reply, moments_request(class_weight="balanced"))
    rows_alone = moments_request(class_weight="balanced", model=None)
    check_moments(reply, rows_alone, f"{name} was not asked for")


@pytest.mark.parametrize("name", CORRECTIONS)
@pytest.mark.parametrize("weights", [None, [["a", 1.0]]])
def test_corrections_by_class_are_taken_only_where_classes_are_balanced(name, weights):
    match = f"{name} was not asked for" if name.endswith("s") else None
    request = moments_request(class_weight=weights)
    check_moments(reply_with_correction(name), request, match)


@pytest.mark.parametrize("name", CORRECTIONS)
def test_two_corrections_in_one_reply_are_refused(name):
    second = "gradient" if name == "slope" else "slope"
    reply = reply_with_correction(name) | {second: CORRECTIONS[second], "factor": 1.0}
    match = "(gradient|slope)s? is not allowed beside"
    check_moments(reply, moments_request(class_weight="balanced"), match)


@pytest.mark.parametrize(
    "fields",
    [
        {"factor": 1.0},
        {"gradient": CORRECTIONS["gradient"]},
        {"gradients": CORRECTIONS["gradients"]},
        {"slope": CORRECTIONS["slope"], "factor": 1.0},
        {"slopes": CORRECTIONS["slopes"], "factor": 1.0},
    ],
    ids=lambda fields: " and ".join(fields),
)
def test_a_factor_comes_with_a_gradient_and_with_nothing_else(fields):
    request = moments_request(class_weight="balanced")
    match = "gradient is missing, or factor is"
    check_moments(moments_reply() | fields, request, match)


def test_class_weights_are_sent_only_where_members_were_asked_for_theirs():
    reply = moments_reply(class_weight="balanced")
    check_moments(reply, moments_request(class_weight="members"))
    for weights in (None, "balanced", [["a", 1.0]]):
        request = moments_request(class_weight=weights)
        check_moments(reply, request, "class_weight was not asked for")


# ---- counts of rows ----------------------------------------------------------------

OTHER_COUNTS = "counts are not those of describe.rows"


def test_moments_are_of_the_rows_described():
    reply = moments_reply()
    # Before a node has described itself there is nothing to compare.
    assert_taken(MomentsReply, reply, asked=moments_request())
    check_moments(reply, n_rows=(30, 11), match=OTHER_COUNTS)
    check_moments(reply, n_rows=(29, 10), match=OTHER_COUNTS)


@pytest.mark.parametrize(("factor", "match"), [(WITHIN, None), (BEYOND, OTHER_COUNTS)])
def test_counts_of_rows_may_be_rounded(factor, match):
    moments = moment_arrays()
    for name in ("counts", "group_counts"):
        moments[name] = moments[name] * factor
    check_moments(moments_reply(moments=moments), match=match)


def reply_with_few_rows_of_b(n_rows: int) -> dict:
    """A reply whose class "b" has too few rows for a mean: they are in the scatter."""
    X, y = rows()
    n_rows_of_a = 30
    first_rows = slice(n_rows_of_a + n_rows)
    moments = class_moments(X[first_rows], y[first_rows], kind="shared").as_content()
    is_of_a = moments["columns"] == 0
    for name in ("columns", "counts", "means"):
        moments[name] = moments[name][is_of_a]
    moments["squares"] = moments["squares"][:1]
    moments["groups"] = np.array([-1])  # one matrix of all classes
    return moments_reply(moments=without(moments, "part_squares"))


def test_rows_of_small_classes_are_in_the_scatter_or_nowhere():
    reply = reply_with_few_rows_of_b(4)
    request = moments_request("shared")
    check_moments(reply, request, n_rows=(30, 4))
    # Rows may be missing even from the scatter, but it has no more than described.
    check_moments(reply, request, n_rows=(30, 9))
    match = "group_counts are not those of describe.rows"
    check_moments(reply, request, n_rows=(30, 3), match=match)
    fewer_than_class_a = reply["moments"] | {"group_counts": np.array([29.0])}
    wrong = reply | {"moments": fewer_than_class_a}
    check_moments(wrong, request, n_rows=(30, 4), match=match)


def test_a_class_that_is_not_described_has_not_one_row_in_the_scatter():
    assert_refused(
        MomentsReply,
        reply_with_few_rows_of_b(1),
        "group_counts are not those of describe.rows",
        asked=moments_request("shared"),
        described=described(labels=["a"], moments=np.array([30])),
    )


def test_slopes_may_be_of_fewer_rows_and_of_no_more():
    reply = moments_reply(slope=np.zeros((4, 2)))
    check_moments(reply, n_rows=(31, 10))
    check_moments(reply, n_rows=(29, 11), match=OTHER_COUNTS)


# ---- sizes of gradients ------------------------------------------------------------

# Each of the 40 rows adds at most 1 to the gradient of an intercept.
LARGEST_GRADIENT = 40.0
GRADIENT_TOO_LARGE = "gradient is larger than these moments allow"


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_gradient_of_an_intercept_is_no_larger_than_the_number_of_rows(sign):
    assert ClassMoments.from_content(moment_arrays()).n_rows == LARGEST_GRADIENT
    for factor, match in ((0.999, None), (1.001, GRADIENT_TOO_LARGE)):
        gradient = gradient_of_intercepts(sign * factor * LARGEST_GRADIENT)
        check_moments(moments_reply(factor=1.0, gradient=gradient), match=match)


def test_a_slope_is_at_most_twice_as_large_as_a_gradient():
    # It is the difference of two gradients.
    for factor, match in (
        (1.999, None),
        (2.001, "slope is larger than these moments"),
    ):
        slope = gradient_of_intercepts(factor * LARGEST_GRADIENT)
        check_moments(moments_reply(slope=slope), match=match)


@pytest.mark.parametrize(
    ("weight", "most_of_a_row"),
    [
        (3.0, 3.0),
        (0.1, 1.0),  # the other class has the weight 1
    ],
)
def test_class_weights_make_a_gradient_larger_and_never_smaller(weight, most_of_a_row):
    request = moments_request(class_weight=[["a", weight]])
    for factor, match in ((0.999, None), (1.001, GRADIENT_TOO_LARGE)):
        gradient = gradient_of_intercepts(factor * most_of_a_row * LARGEST_GRADIENT)
        check_moments(moments_reply(factor=1.0, gradient=gradient), request, match)


def test_a_gradient_of_weights_is_bounded_by_the_squares_of_the_features():
    X, _ = rows()
    moments = ClassMoments.from_content(moment_arrays())
    # |sum_i r_i x_i| <= sqrt(n sum_i x_i^2), as no residual r_i is larger than 1;
    # x_i are counted from the origin of the moments.
    squares = np.sum((X - moments.origin) ** 2, axis=0)
    largest = np.sqrt(len(X) * squares)
    for factor, match in ((0.999, None), (1.001, GRADIENT_TOO_LARGE)):
        gradient = gradient_of_intercepts()
        gradient[0] = factor * largest[0], -factor * largest[0]
        check_moments(moments_reply(factor=1.0, gradient=gradient), match=match)


@pytest.mark.parametrize(
    ("rest_of_a_row", "match"),
    [
        # A millionth is rounding.
        (0.9e-6, None),
        (1.1e-6, "gradient does not sum to 0 over the"),
    ],
)
def test_a_gradient_adds_to_outputs_what_it_takes_from_others(rest_of_a_row, match):
    gradient = gradient_of_intercepts(1.0)
    gradient[-1, 0] += 40.0 * rest_of_a_row  # there are 40 rows
    check_moments(moments_reply(factor=1.0, gradient=gradient), match=match)


def test_a_slope_need_not_sum_to_zero_over_the_outputs():
    check_moments(moments_reply(slope=np.ones((4, 2))))


# ---- squares and matrices ----------------------------------------------------------


def test_squares_are_refused_where_the_scatter_has_them_already():
    moments = moment_arrays("diagonal") | {"squares": np.ones((2, 3))}
    match = "squares are there, though scatter has"
    check_moments(moments_reply(moments=moments), moments_request("diagonal"), match)


def test_matrices_are_definite():
    moments = moment_arrays()
    triangles = moments["triangles"].copy()
    # Elements 0, 1 and 3 of a triangle are (0, 0), (0, 1) and (1, 1) of its matrix: a
    # product above the root of both squares is a negative determinant.
    triangles[1, 1] = 1.1 * np.sqrt(triangles[1, 0] * triangles[1, 3])
    reply = moments_reply(moments=moments | {"triangles": triangles})
    check_moments(reply, match="triangles of group 1 has a negative eigenvalue")
