# SPDX-License-Identifier: BSD-3-Clause
"""Moments are of the rows described, and of what was asked for."""

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
from skgems.tasks._moments import form_is_known, moments_fit


def test_a_form_has_the_parameters_of_its_kind():
    forms = [
        {"reason": "it is a tree"},
        {"kind": "ridge", "alpha": 1.0, "fit_intercept": True, "class_weight": None},
        {"kind": "lda", "solver": "svd", "priors": None, "tol": 1e-4},
        {"kind": "lda", "solver": "lsqr", "priors": None, "shrinkage": None},
        {"kind": "nearest_centroid", "shrink_threshold": None, "priors": "uniform"},
    ]
    for form in forms:
        assert_taken(form_is_known, form)
    ridge, svd, lsqr = forms[1:4]
    for form, match in (
        ({"reason": "", "kind": "ridge"}, "reason is no field of it beside the reason"),
        ({"alpha": 1.0}, "kind is missing"),
        (ridge | {"tol": 1e-4}, "tol is missing, or no parameter of 'ridge'"),
        (
            {"kind": "ridge", "alpha": 1.0, "class_weight": None},
            "fit_intercept is missi",
        ),
        (svd | {"shrinkage": None}, "shrinkage is missing, or no parameter of 'lda'"),
        (lsqr | {"tol": 1e-4}, "tol is missing, or no parameter of 'lda'"),
        (svd | {"priors": "uniform"}, "priors is no list of labels and weights"),
    ):
        assert_refused(form_is_known, form, match)


def sums(kind="class", *, dtype="float64", rank=None, **more) -> dict:
    X, y = rows()
    moments = class_moments(X, y, kind=kind)
    return moments.as_arrays(dtype=dtype, rank=rank) | more


def moments_told(kind="class", *, dtype="float64", **more) -> dict:
    """A reply to "moments", of a model that is wrong in nothing."""
    content = {"labels": ["a", "b"], "moments": sums(kind, dtype=dtype), "min_rows": 1}
    return content | more


def asked_for(kind="class", **more) -> dict:
    return {"kind": kind, "class_weight": "members", "model": "own"} | more


def gradient(size=0.0, n_outputs=2) -> np.ndarray:
    """What is added to one output is taken from another."""
    found = np.zeros((4, n_outputs))
    found[-1, :2] = size, -size
    return found


def check_moments(told, asked=None, match=None, n_rows=(30, 10)) -> None:
    asked = asked_for() if asked is None else asked
    there = {"asked": asked, "described": described(moments=np.array(n_rows))}
    assert_outcome(moments_fit, told, match, **there)


@pytest.mark.parametrize("kind", ["class", "shared", "diagonal"])
@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_honest_moments_are_taken(kind, dtype):
    told = moments_told(kind, dtype=dtype)
    check_moments(told, asked_for(kind))
    check_moments(told | {"factor": 1.0, "gradient": gradient()}, asked_for(kind))
    # Of rows alone there is no model to correct.
    check_moments(told, asked_for(kind, model=None))


@pytest.mark.parametrize("kind", ["class", "shared", "diagonal"])
def test_moments_are_of_the_kind_that_was_asked_for(kind):
    for other in {"class", "shared", "diagonal"} - {kind}:
        name = "scatter" if kind == "diagonal" else "triangles"
        if {kind, other} == {"class", "shared"}:
            if kind == "shared":  # which is a class's, where its rows are few
                continue
            name = "groups"
        check_moments(moments_told(kind), asked_for(other), name)
    if kind == "shared":
        told = moments_told(kind)
        told["moments"] = without(told["moments"], "squares")
        match = "squares is missing, but 'shared' was asked for"
        check_moments(told, asked_for(kind), match)


def test_roots_are_told_where_rows_are_few_and_all_kinds_will_do():
    X = np.random.default_rng(0).normal(size=(40, 2000))
    told = moments_told()
    told["moments"] = class_moments(X, rows()[1], kind="roots").as_arrays()
    check_moments(told, asked_for("auto"))
    check_moments(told, asked_for("class"), "roots were not asked for")
    check_moments(moments_told("roots"), asked_for("auto"), "roots were not asked for")


def test_one_correction_is_sent_and_only_if_it_was_asked_for():
    corrections = {
        "gradient": gradient(),
        "gradients": np.zeros((2, 4, 2)),
        "slope": np.zeros((4, 2)),
        "slopes": np.zeros((2, 4, 2)),
    }
    by_class = asked_for(class_weight="balanced")
    factor = {"factor": 1.0}
    for name, values in corrections.items():
        more = factor if name.startswith("gradient") else {}
        told = moments_told(**{name: values}, **more)
        check_moments(told, by_class)
        nothing = asked_for(class_weight="balanced", model=None)
        check_moments(told, nothing, f"{name} was not asked for")
        # Of each class by itself only where classes are weighed.
        for weights in (None, [["a", 1.0]]):
            match = f"{name} was not asked for" if name.endswith("s") else None
            check_moments(told, asked_for(class_weight=weights), match)
        other = "slope" if name != "slope" else "gradient"
        both = moments_told(**{name: values, other: corrections[other]}, **factor)
        check_moments(both, by_class, "(gradient|slope)s? is no field of it beside")
    match = "gradient is missing, or factor is"
    check_moments(moments_told(**factor), by_class, match)
    for name in ("gradient", "gradients"):
        check_moments(moments_told(**{name: corrections[name]}), by_class, match)
    for name in ("slope", "slopes"):
        told = moments_told(**{name: corrections[name]}, **factor)
        check_moments(told, by_class, match)


def test_class_weights_are_told_where_members_have_them():
    told = moments_told(class_weight="balanced")
    check_moments(told, asked_for(class_weight="members"))
    for weights in (None, "balanced", [["a", 1.0]]):
        asked = asked_for(class_weight=weights)
        check_moments(told, asked, "class_weight was not asked for")


def test_moments_are_of_the_rows_described():
    told = moments_told()
    # Before a node has described itself there is nothing to compare.
    assert_taken(moments_fit, told, asked=asked_for())
    match = "counts are not those of describe.rows"
    check_moments(told, n_rows=(30, 11), match=match)
    check_moments(told, n_rows=(29, 10), match=match)
    for factor, wrong in ((WITHIN, None), (BEYOND, match)):
        moments = told["moments"]
        counts = {name: moments[name] * factor for name in ("counts", "group_counts")}
        check_moments(told | {"moments": moments | counts}, match=wrong)


def moments_of_some(n_rows_of_b: int) -> dict:
    """As of a node that has too few rows of a class for a mean of its own."""
    X, y = rows()
    moments = class_moments(X[: 30 + n_rows_of_b], y[: 30 + n_rows_of_b], kind="shared")
    arrays = moments.as_arrays()
    kept = arrays["columns"] == 0
    part = {name: arrays[name][kept] for name in ("columns", "counts", "means")}
    part |= {"squares": arrays["squares"][:1], "groups": np.array([-1])}
    return moments_told(moments=without(arrays | part, "part_squares"))


def test_rows_of_small_classes_are_in_the_scatter_or_nowhere():
    told, asked = moments_of_some(4), asked_for("shared")
    check_moments(told, asked, n_rows=(30, 4))
    # There may be rows without even that, but no more rows than described.
    check_moments(told, asked, n_rows=(30, 9))
    match = "group_counts are not those of describe.rows"
    check_moments(told, asked, n_rows=(30, 3), match=match)
    # Of a class that is not described there is not even one.
    there = {"asked": asked, "described": described()}
    there["described"]["rows"] |= {"labels": ["a"], "moments": np.array([30])}
    assert_refused(moments_fit, moments_of_some(1), match, **there)
    few = told["moments"] | {"group_counts": np.array([29.0])}
    check_moments(told | {"moments": few}, asked, n_rows=(30, 4), match=match)


def test_slopes_may_be_of_fewer_rows_and_of_no_more():
    told = moments_told(slope=np.zeros((4, 2)))
    check_moments(told, n_rows=(31, 10))
    match = "counts are not those of describe.rows"
    check_moments(told, n_rows=(29, 11), match=match)


def test_a_gradient_is_no_larger_than_its_moments_allow():
    arrays = sums()
    moments = ClassMoments.from_arrays(arrays)
    # Of the intercept: so many rows, each of which adds one at most.
    most = moments.n_rows
    for size, match in (
        (0.999 * most, None),
        (-0.999 * most, None),
        (1.001 * most, "gradient is larger than these moments allow"),
        (-1.001 * most, "gradient is larger than these moments allow"),
    ):
        told = moments_told(factor=1.0, gradient=gradient(size))
        check_moments(told, match=match)
    # A slope is a gradient less another.
    for size, match in ((1.999, None), (2.001, "slope is larger than these moments")):
        check_moments(moments_told(slope=gradient(size * most)), match=match)
    # Weights make rows count more, and never less than one.
    for weight, factor in ((3.0, 3.0), (0.1, 1.0)):
        asked = asked_for(class_weight=[["a", weight]])
        for size, match in ((0.999, None), (1.001, "gradient is larger than these")):
            told = moments_told(factor=1.0, gradient=gradient(size * factor * most))
            check_moments(told, asked, match)


def test_a_gradient_of_weights_is_bounded_by_the_squares_of_the_features():
    X, _ = rows()
    moments = ClassMoments.from_arrays(sums())
    # Squares about the origin: no sum of 40 numbers is larger than by these.
    squares = np.sum((X - moments.origin) ** 2, axis=0)
    most = np.sqrt(len(X) * squares)
    for factor, match in ((0.999, None), (1.001, "gradient is larger than these mom")):
        values = gradient()
        values[0, :2] = factor * most[0], -factor * most[0]
        check_moments(moments_told(factor=1.0, gradient=values), match=match)


def test_a_gradient_adds_to_outputs_what_it_takes_from_others():
    for left, match in (
        (0.9e-6, None),
        (1.1e-6, "gradient does not sum to 0 over the"),
    ):
        values = gradient(1.0)
        values[-1, 0] += 40.0 * left
        check_moments(moments_told(factor=1.0, gradient=values), match=match)
    # A slope need not, and few digits are no more exact than 5 in 100.
    check_moments(moments_told(slope=np.ones((4, 2))))
    for left, match in ((0.045, None), (0.06, "gradient does not sum to 0 over the")):
        values = gradient(1.0)
        values[-1, 0] += 40.0 * left
        told = moments_told(dtype="float16", factor=1.0, gradient=values)
        check_moments(told, match=match)


def test_the_origin_is_among_the_rows():
    arrays = sums()
    away = arrays["means"] + 100.0
    told = moments_told(moments=arrays | {"means": away})
    check_moments(told, match="means are further from the origin than counts allow")
    # Of sparse rows it is 0, and no row need be there.
    zero = arrays | {"means": away, "origin": np.zeros(3)}
    check_moments(moments_told(moments=zero))
    # The farthest that a row can be from the mean of 40: then its square is all.
    X, y = np.zeros((40, 3)), rows()[1]
    X[0] = 1.0
    moments = class_moments(X + 1e3, y).as_arrays()
    shift = 1e3 + 1.0 - moments["origin"]
    at_row = moments | {"origin": np.full(3, 1e3 + 1.0)}
    at_row["means"] = moments["means"] - shift
    check_moments(moments_told(moments=at_row))
    beyond = at_row | {"means": at_row["means"] * 1.1}
    match = "means are further from the origin than counts allow"
    check_moments(moments_told(moments=beyond), match=match)
    # Where classes have no scatter, what is between them allows for it.
    between = class_moments(np.repeat(y, 3).reshape(40, 3) * 1.0 + 1.0, y).as_arrays()
    away = between["origin"] - 2.0
    at_row = between | {"origin": np.full(3, 2.0), "means": between["means"] + away}
    check_moments(moments_told(moments=at_row))


def test_squares_are_those_of_all_classes_and_matrices_definite():
    diagonal = sums("diagonal")
    more = diagonal | {"squares": np.ones((2, 3))}
    told = moments_told(moments=more)
    check_moments(told, asked_for("diagonal"), "squares are there, though scatter has")
    triangles = sums()["triangles"].copy()
    triangles[1, 1] = 1.1 * np.sqrt(triangles[1, 0] * triangles[1, 3])
    told = moments_told(moments=sums(triangles=triangles))
    match = "triangles of group 1 has a negative eigenvalue"
    check_moments(told, match=match)
    # Few digits may lose 5 in 100.
    for name, kind in (("squares", "shared"), ("part_squares", "diagonal")):
        arrays = sums(kind)
        total = ClassMoments.from_arrays(arrays).scatter.sum(axis=0)
        total = total if kind == "diagonal" else total.diagonal()
        for factor, wrong in (
            (1.04, None),
            (1.06, f"{name} are more than those of all"),
        ):
            told = moments_told(
                moments=arrays | {name: factor * total / 2 * [[1], [1]]}
            )
            check_moments(told, asked_for(kind), wrong)
