# SPDX-License-Identifier: BSD-3-Clause
"""What fields must be to each other: each rule refuses what it is there to refuse.

Bounds are written out as numbers, on both sides: what is just within is taken, and what
is just beyond is refused, so that a bound that is moved fails here.
"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from skgems.federation import Message, answer
from skgems.local import Member
from skgems.messages import _rules as rules
from skgems.messages._fields import Place
from skgems.moments import SMALLEST, SMALLEST_SQUARE, ClassMoments, class_moments
from skgems.spaces import as_criterion, as_geometry

# Sums may be off by so much, relative to themselves.
WITHIN, BEYOND = 1.0 + 0.9e-6, 1.0 + 1.1e-6


def take(rule, content, **place) -> Place:
    there = Place("told", **place)
    rule(content, there)
    return there


def refuse(rule, content, match, **place) -> None:
    with pytest.raises(ValueError, match=rf"^told\.?{match}"):
        take(rule, content, **place)


def check(rule, content, match: str | None, **place) -> None:
    """A content is taken, or refused in these words."""
    if match is None:
        take(rule, content, **place)
    else:
        refuse(rule, content, match, **place)


# ---- models --------------------------------------------------------------------


def hidden_layers() -> dict:
    """Two layers, of three and of two units, on four features."""
    return {"weights": [np.ones((5, 3)), np.ones((4, 2))], "activation": ["relu"] * 2}


def test_hidden_layers_fit_each_other_and_the_model_behind_them():
    layers = hidden_layers()
    # What enters the model is what the last layer gives.
    assert take(rules.layers_fit, layers).lengths == {"d": 2}
    take(rules.layers_fit, layers, lengths={"d": 2})
    refuse(rules.layers_fit, layers, "weights do not fit the model", lengths={"d": 3})
    for activation in (["relu"], ["relu"] * 3):
        refuse(
            rules.layers_fit,
            layers | {"activation": activation},
            "activation is not one for each layer",
        )
    nothing = {"weights": [], "activation": []}
    refuse(rules.layers_fit, nothing, "activation is not one for each layer")
    for n_rows in (3, 5):
        weights = [np.ones((5, 3)), np.ones((n_rows, 2))]
        refuse(
            rules.layers_fit, layers | {"weights": weights}, "weights do not fit each"
        )


def test_a_rule_that_stands_apart_leaves_lengths_as_they_are():
    place = take(rules.apart(rules.layers_fit), hidden_layers(), lengths={"d": 7})
    assert place.lengths == {"d": 7}


def network() -> dict:
    return {
        "coefs": [np.ones((4, 3)), np.ones((3, 2))],
        "intercepts": [np.ones(3), np.ones(2)],
        "activation": ["relu"],
        "labels": ["b", "a"],
        "seen": np.array([False, True]),
        "n_features": 4,
        "feature_names": list("wxyz"),
        "center": np.zeros(4),
        "scale": np.ones(4),
    }


def test_a_network_fits_itself():
    take(rules.network_fits, network())
    without = network() | dict.fromkeys(("feature_names", "center", "scale"))
    take(rules.network_fits, without)
    single = network()
    for name in ("coefs", "intercepts"):
        single[name] = [array.astype(np.float32) for array in single[name]]
    take(rules.network_fits, single)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"coefs": [np.ones((4, 3))]}, "coefs are not one for each layer"),
        ({"intercepts": [np.ones(3)]}, "coefs are not one for each layer"),
        ({"activation": []}, "coefs are not one for each layer"),
        (
            {"intercepts": [np.ones(2), np.ones(2)]},
            r"coefs\[0\] does not fit the layer",
        ),
        (
            {"intercepts": [np.ones(3), np.ones(3)]},
            r"coefs\[1\] does not fit the layer",
        ),
        ({"coefs": [np.ones((4, 3)), np.ones((4, 2))]}, r"coefs\[1\] does not fit the"),
        (
            {"coefs": [np.ones((4, 3), "f2"), np.ones((3, 2))]},
            r"coefs\[0\] has the dty",
        ),
        (
            {"coefs": [np.ones((4, 3), "f4"), np.ones((3, 2))]},
            r"coefs\[0\] has the dty",
        ),
        ({"intercepts": [np.ones(3), np.ones(2, "f4")]}, r"coefs\[1\] has the dtype"),
        ({"labels": ["a", "a"]}, "labels is not in order, or has a label twice"),
        ({"labels": ["a"]}, "labels are not one for each output"),
        ({"labels": ["a", "b", "c"]}, "labels are not one for each output"),
        ({"labels": []}, "labels is no list of labels"),
        ({"seen": np.zeros(2, dtype=bool)}, "seen is true of no class"),
        ({"n_features": 3}, "n_features is not that of the first layer"),
        ({"n_features": 5}, "n_features is not that of the first layer"),
        ({"feature_names": list("xyz")}, "feature_names are not one for each feature"),
        ({"center": np.zeros(3)}, "center are not one for each feature"),
        ({"scale": np.ones(5)}, "scale are not one for each feature"),
        ({"center": None}, "scale is missing, or center is"),
        ({"scale": None}, "scale is missing, or center is"),
    ],
)
def test_a_network_that_does_not_fit_itself_is_refused(change, match):
    refuse(rules.network_fits, network() | change, match)


def test_there_is_one_model_and_not_two():
    W = np.ones((3, 2))
    take(rules.one_model, {"model": "own"})
    take(rules.one_model, {"W": W, "model": None})
    for asked in ({"model": "own", "W": W}, {}, {"model": None, "W": None}):
        refuse(rules.one_model, asked, "W is missing, or comes beside model='own'")


def model(**more) -> dict:
    return {"W": np.ones((4, 3)), "columns": np.array([2, 0])} | more


def layers(**more) -> dict:
    """Layers that train: two hidden units, two outputs."""
    return {
        "coefs": [np.ones((4, 2)), np.ones((2, 2))],
        "intercepts": [np.ones(2), np.ones(2)],
        "activation": ["relu"],
        "columns": np.array([1, 0]),
    } | more


def others(**more) -> dict:
    """Sums of other nodes, for layers that train."""
    return {
        "origin": np.zeros(4),
        "columns": np.array([0, 1]),
        "groups": np.array([0, 1]),
        "scatter": np.ones((2, 4)),
    } | more


def test_columns_are_among_the_outputs():
    take(rules.columns_are_outputs, model())
    take(rules.columns_are_outputs, model(W=np.ones((5, 4, 3))))
    take(rules.columns_are_outputs, {"W": np.ones((4, 3))})
    wrong = model(columns=np.array([3, 0]))
    refuse(rules.columns_are_outputs, wrong, "columns are more than the 3 outputs")
    take(rules.columns_are_outputs, layers())
    wrong = layers(columns=np.array([2, 0]))
    refuse(rules.columns_are_outputs, wrong, "columns are more than the 2 outputs")


def test_layers_that_train_fit_each_other_and_what_is_before_them():
    coordinates = {"center": np.zeros(4), "scale": np.ones(4)}
    take(rules.columns_are_outputs, layers(**coordinates, others=others()))
    # Hidden layers stand before those that train: features enter them.
    before = {"weights": [np.ones((7, 4))], "activation": ["relu"]}
    coordinates = {"center": np.zeros(6), "scale": np.ones(6), "hidden": before}
    take(rules.columns_are_outputs, layers(**coordinates))
    for wrong, match in (
        (
            layers(coefs=[], intercepts=[], activation=[]),
            "coefs are not the weights of",
        ),
        (layers(activation=[]), "coefs are not one for each layer"),
        (layers(center=np.zeros(4)), "scale is missing, or center is"),
        (layers(scale=np.zeros(4)), "scale is missing, or center is"),
        (
            layers(center=np.zeros(3), scale=np.ones(3)),
            "center are not one for each fe",
        ),
    ):
        refuse(rules.columns_are_outputs, wrong, match)
    wrong = layers(**coordinates) | {"center": np.zeros(4)}
    refuse(rules.columns_are_outputs, wrong, "center are not one for each feature")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"triangles": np.ones((2, 10))}, "has more than variances of single features"),
        (
            {"correlations": np.ones((2, 6))},
            "has more than variances of single features",
        ),
        ({"factors": np.ones((2, 4, 1))}, "has more than variances of single features"),
        ({"origin": np.zeros(3)}, "does not fit the network"),
        ({"columns": np.array([0, 2])}, "does not fit the network"),
        ({"groups": np.array([0, 2])}, "does not fit the network"),
    ],
)
def test_sums_of_others_that_do_not_fit_the_layers_are_refused(change, match):
    wrong = layers(others=others(**change))
    refuse(rules.columns_are_outputs, wrong, f"others {match}")


def test_seven_models_and_thirty_two_factors_are_the_most():
    def asked(n_models, n_factors):
        return model(W=np.ones((n_models, 4, 3)), factors=np.ones(n_factors))

    take(rules.models_are_few, asked(7, 32))
    # One model of many features is one.
    take(rules.models_are_few, model(W=np.ones((8, 3)), factors=np.ones(1)))
    refuse(rules.models_are_few, asked(8, 1), "W are 8 models, more than 7")
    refuse(rules.models_are_few, asked(1, 33), "factors are more than 32")
    wrong = asked(7, 32) | {"columns": np.array([3])}
    refuse(rules.models_are_few, wrong, "columns are more than the 3 outputs")


def test_a_judged_model_is_of_one_form():
    squares = {
        "means": np.ones((2, 3)),
        "factors": np.ones((2, 3, 3)),
        "offsets": np.ones(2),
    }
    for one in ({"W": np.ones((4, 2))}, squares, squares | {"W": None}):
        # The next model has its own classes.
        assert take(rules.is_one_model, one, lengths={"l": 2, "p": 4}).lengths == {
            "p": 4
        }
    for name in squares:
        several = {"W": np.ones((4, 2)), name: squares[name]}
        refuse(rules.is_one_model, several, " is not one model", lengths={"l": 2})
        less = {key: value for key, value in squares.items() if key != name}
        refuse(rules.is_one_model, less, " is not one model", lengths={"l": 2})
    refuse(rules.is_one_model, {}, " is not one model", lengths={"l": 2})


def test_a_form_has_the_parameters_of_its_kind():
    forms = [
        {"reason": "it is a tree"},
        {"kind": "ridge", "alpha": 1.0, "fit_intercept": True, "class_weight": None},
        {"kind": "lda", "solver": "svd", "priors": None, "tol": 1e-4},
        {"kind": "lda", "solver": "lsqr", "priors": None, "shrinkage": None},
        {"kind": "nearest_centroid", "shrink_threshold": None, "priors": "uniform"},
    ]
    for form in forms:
        take(rules.form_is_known, form)
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
        refuse(rules.form_is_known, form, match)


# ---- rows ----------------------------------------------------------------------

ROLES = ("judging", "moments", "training")


def described(**more) -> dict:
    counts = np.array([30, 10])
    rows = {"labels": ["a", "b"], **dict.fromkeys(ROLES, counts)}
    return {"rows": rows | more}


@pytest.mark.parametrize("role", ROLES)
def test_there_are_rows_and_no_more_than_floats_count(role):
    most = np.array([2**53 - 1, 1])
    take(rules.rows_are_some, described(**{role: most})["rows"])
    for wrong, match in (
        (most + [0, 2], f"{role} are more than {2**53} rows"),
        (np.array([2**62, 2**62]), f"{role} are more than {2**53} rows"),
        (np.array([0, 0]), f"{role} are no rows at all"),
    ):
        refuse(rules.rows_are_some, described(**{role: wrong})["rows"], match)


def test_counts_to_train_on_are_those_described():
    counts = {"labels": ["b", "a"], "counts": np.array([10, 30])}
    take(rules.counts_are_described, counts)
    take(rules.counts_are_described, counts, described=described())
    some = {"labels": ["a"], "counts": np.array([30])}
    take(rules.counts_are_described, some, described=described())
    for wrong in (
        counts | {"counts": np.array([10, 31])},
        {"labels": ["c"], "counts": np.array([0])},
        # What is not described has no number of rows.
        {"labels": ["a", "c"], "counts": np.array([30, 0])},
    ):
        refuse(
            rules.counts_are_described,
            wrong,
            "counts are not those of describe.rows",
            described=described(training=np.array([30, 10]), moments=np.array([1, 1])),
        )


def test_rows_that_are_right_are_among_those_counted():
    rule = rules.right_are_rows
    for right in (40.0 * WITHIN, np.array([0.0, 40.0 * WITHIN]), np.array([])):
        take(rule, {"count": 40.0, "right": right})
    for right in (40.0 * BEYOND, np.array([0.0, 40.0 * BEYOND])):
        refuse(rule, {"count": 40.0, "right": right}, "right are more than the 40 rows")


@pytest.mark.parametrize("name", ["score", "beside"])
def test_a_score_is_of_rows(name):
    scores = {"score": 0.5, "beside": 0.5}
    take(rules.score_is_of_rows, scores | {"n_rows": 1})
    take(rules.score_is_of_rows, {"score": 0.5, "n_rows": 1})
    take(rules.score_is_of_rows, dict.fromkeys(scores, np.nan) | {"n_rows": 0})
    match = f"{name} is there without rows, or missing with rows"
    wrong = dict.fromkeys(scores, np.nan) | {name: 0.5, "n_rows": 0}
    refuse(rules.score_is_of_rows, wrong, match)
    refuse(rules.score_is_of_rows, scores | {name: np.nan, "n_rows": 1}, match)


def test_what_is_judged_is_of_the_models_and_the_rows():
    asked = {"models": {"0": {}, "1": {}}}
    told = {"n_rows": 5, "right": np.array([[5, 3], [3, 4]]), "losses": np.ones((2, 9))}
    told["min_rows"] = 1
    take(rules.judged_are_rows, told, asked=asked)
    nothing = {"n_rows": 0, "right": np.zeros((0, 0), int), "losses": np.ones((0, 9))}
    nothing["min_rows"] = 10
    take(rules.judged_are_rows, nothing, asked={"models": {}})
    wrong = told | {"right": np.array([[6, 3], [3, 4]])}
    refuse(rules.judged_are_rows, wrong, "right are more than the 5 rows", asked=asked)
    for wrong in (
        told | {"right": np.ones((1, 1), int)},
        told | {"right": np.ones((2, 3), int)},
        told | {"losses": np.ones((3, 9))},
    ):
        refuse(rules.judged_are_rows, wrong, "right is not of 2 models", asked=asked)


def test_a_precision_is_definite():
    rule = rules.precision_is_definite
    for precision in (np.array([1.0, 0.0]), np.eye(2), np.ones((2, 2))):
        take(rule, {"precision": precision})
    # Halves of a product may differ by rounding.
    take(rule, {"precision": np.array([[2.0, 1.0], [1.0 + 0.9e-9, 2.0]])})
    for precision, match in (
        (np.array([1.0, -1e-9]), "has values below 0"),
        (np.array([[2.0, 1.0], [1.0 + 1.1e-9, 2.0]]), "is not symmetric"),
        (np.array([[1.0, 2.0], [2.0, 1.0]]), "has a negative eigenvalue"),
        (np.array([[-1.0, 0.0], [0.0, 1.0]]), "has negative squares on its diagonal"),
    ):
        refuse(rule, {"precision": precision}, f"precision {match}")


# ---- sums ----------------------------------------------------------------------


def rows() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], [30, 10])
    return rng.normal(size=(40, 3)) + y[:, None], y


def sums(kind="class", *, dtype="float64", rank=None, **more) -> dict:
    X, y = rows()
    moments = class_moments(X, y, kind=kind)
    return moments.as_arrays(dtype=dtype, rank=rank) | more


def without(content: dict, *names: str) -> dict:
    return {name: value for name, value in content.items() if name not in names}


@pytest.mark.parametrize("kind", ["class", "shared", "diagonal", "roots"])
@pytest.mark.parametrize("digits", ["float64", "float16", "rank"])
def test_honest_sums_are_taken(kind, digits):
    told = sums(kind)
    if digits == "float16":
        told = sums(kind, dtype="float16")
    elif digits == "rank":
        told = sums(kind, dtype="float32", rank=1)
    take(rules.sums_fit, told, lengths={"l": 2})


@pytest.mark.parametrize(
    ("kind", "change", "match"),
    [
        ("class", {"counts": np.array([30.0, 0.99])}, "counts are not all of a row at"),
        (
            "class",
            {"counts": np.array([30.0, 1 - 1.1e-6])},
            "counts are not all of a r",
        ),
        ("class", {"counts": np.array([])}, "counts are not all of a row at least"),
        ("class", {"columns": np.array([0, 2])}, "columns are no classes, or not in"),
        ("class", {"columns": np.array([1, 0])}, "columns are no classes, or not in"),
        ("class", {"groups": np.array([0, 2])}, "groups are no classes, or one stands"),
        ("class", {"groups": np.array([0, 0])}, "groups are no classes, or one stands"),
        ("class", {"groups": np.array([], int)}, "groups are no classes, or one stan"),
        ("class", {"groups": np.array([0])}, "groups are without a class that has a m"),
        ("class", {"means": np.ones((2, 3), "f4")}, "means has the dtype float32"),
        ("class", {"unit": np.ones(3)}, "unit is no field of it with so many digits"),
        ("class", {"spreads": np.ones((2, 3))}, "spreads is no field of it with so ma"),
        ("class", {"scatter": np.ones((2, 3))}, "triangles is missing, or there is mo"),
        ("shared", {"squares": np.ones((1, 3))}, r"squares has the shape \(1, 3\)"),
        ("shared", {"squares": np.ones((3, 3))}, r"squares has the shape \(3, 3\)"),
        ("roots", {"root_groups": None}, "roots is missing, or root_groups is"),
        ("roots", {"squares": np.ones((2, 3))}, "squares are there, though roots hav"),
    ],
)
def test_sums_that_do_not_fit_are_refused(kind, change, match):
    refuse(rules.sums_fit, sums(kind) | change, match, lengths={"l": 2})


def test_sums_at_the_bounds_are_taken():
    # Weights and rounding make less than a row of one row.
    counts = np.array([30.0, 1 - 0.9e-6])
    take(rules.sums_fit, sums() | {"counts": counts}, lengths={"l": 2})
    # One matrix of all classes stands for those without their own.
    some = sums(groups=np.array([-1, 0]))
    take(rules.sums_fit, some, lengths={"l": 2})
    # Classes in parts: several means are of one.
    parts = sums(columns=np.array([1, 1]), groups=np.array([0, 1]))
    take(rules.sums_fit, parts, lengths={"l": 2})


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (
            {"triangles": np.ones((2, 6))},
            "triangles is no field of it with so many dig",
        ),
        (
            {"part_squares": np.ones((2, 3))},
            "part_squares is no field of it with so ma",
        ),
        ({"unit": None}, "unit is missing"),
    ],
)
def test_sums_of_few_digits_have_other_fields(change, match):
    told = sums(dtype="float16")
    assert {"deviations", "unit", "correlations"} <= set(told)
    wrong = without(told | change, *(name for name in change if change[name] is None))
    refuse(rules.sums_fit, wrong, match, lengths={"l": 2})


def test_without_matrices_there_are_no_sums():
    for name in ("triangles", "scatter", "roots"):
        kind = {"triangles": "class", "scatter": "diagonal"}.get(name, name)
        told = without(sums(kind), name, "root_groups")
        match = "triangles is missing, or there is more beside it"
        refuse(rules.sums_fit, told, match, lengths={"l": 2})


def test_matrices_that_are_made_of_few_numbers_take_256_megabytes_at_most():
    def told(n_groups, n_features):
        n = np.arange(n_groups)
        columns = {"columns": n, "groups": n, "counts": np.ones(n_groups)}
        numbers = np.ones((n_groups, n_features), "f4")
        means = {"means": numbers, "deviations": numbers, "unit": np.ones(n_features)}
        origin = np.zeros(n_features)
        factors = np.ones((n_groups, n_features, 1), "f4")
        return {"origin": origin, "factors": factors, **columns, **means}

    # 32 Mi numbers of eight bytes.
    take(rules.sums_fit, told(2, 2**12), lengths={"l": 9})
    match = "deviations are of 3 matrices of 4096 features, which take too much memory"
    refuse(rules.sums_fit, told(3, 2**12), match, lengths={"l": 9})
    # Variances alone are as they are.
    wide = without(told(3, 2**12), "factors")
    take(rules.sums_fit, wide, lengths={"l": 9})


def test_roots_are_of_their_matrices_and_no_more_than_the_rows():
    told = sums("roots")
    groups = told["root_groups"].copy()
    n_groups = len(told["groups"])
    groups[-1] = n_groups
    wrong = told | {"root_groups": groups}
    refuse(rules.sums_fit, wrong, "root_groups are of no matrix", lengths={"l": 2})
    n_roots = np.bincount(told["root_groups"], minlength=n_groups)
    for factor, match in (
        (WITHIN, None),
        (BEYOND, "root_groups are more than the rows"),
    ):
        few = told | {"group_counts": n_roots / factor}
        check(rules.sums_fit, few, match, lengths={"l": 2})
    nothing = told | {"roots": np.ones((0, 3)), "root_groups": np.array([], int)}
    take(rules.sums_fit, nothing, lengths={"l": 2})


# ---- moments -------------------------------------------------------------------


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
    check(rules.moments_fit, told, match, **there)


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
    take(rules.moments_fit, told, asked=asked_for())
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
    refuse(rules.moments_fit, moments_of_some(1), match, **there)
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


# ---- sums of classes -----------------------------------------------------------


def class_sums(kind="values", **more) -> dict:
    told = {"labels": ["a", "b"], "counts": np.array([30.0, 10.0])}
    told["sums"] = np.array([[30.0, 0.0, 12.0], [10.0, 5.0, 0.0]])
    if kind == "categories":  # two features, of two categories and of one
        told["sums"] = np.array([[30.0, 0.0, 30.0], [4.0, 6.0, 10.0]])
        told["sizes"] = np.array([2, 1])
    return told | {"min_rows": 1} | more


def check_class_sums(told, kind="values", match=None, n_columns=None) -> None:
    there = {"asked": {"of": kind}, "described": described()}
    there["lengths"] = {} if n_columns is None else {"d": n_columns}
    check(rules.class_sums_fit, told, match, **there)


@pytest.mark.parametrize("kind", ["values", "above", "categories"])
def test_honest_class_sums_are_taken(kind):
    check_class_sums(class_sums(kind), kind)
    take(rules.class_sums_fit, class_sums(kind), asked={"of": kind})
    if kind != "categories":
        check_class_sums(class_sums(kind), kind, n_columns=3)
        match = "sums are 3 of a class, not 4"
        check_class_sums(class_sums(kind), kind, match, n_columns=4)


def test_sizes_are_told_of_categories_alone():
    match = "sizes is missing, or 'values' was asked for"
    check_class_sums(class_sums("categories"), "values", match)
    match = "sizes is missing, or 'categories' was asked for"
    check_class_sums(class_sums(), "categories", match)


def test_categories_are_a_million_at_most():
    sizes = np.array([2**20 - 1, 1])
    match = r"sums are 3 of a class, not 1\.?0*"
    check_class_sums(class_sums("categories", sizes=sizes), "categories", match)
    for sizes in (np.array([2**20, 1]), np.array([2**62, 2**62])):
        told = class_sums("categories", sizes=sizes)
        check_class_sums(told, "categories", f"sizes are more than {2**20}")


def test_counts_of_rows_are_no_more_than_the_rows():
    for kind in ("above", "categories"):
        for factor, match in ((WITHIN, None), (BEYOND, "sums are more than the rows")):
            told = class_sums(kind)
            told["sums"] = told["sums"].copy()
            told["sums"][0, 0] *= factor
            check_class_sums(told, kind, match)
    # Values are whatever they are.
    check_class_sums(class_sums(sums=np.full((2, 3), 1e9)))


def test_each_row_has_one_category_of_each_feature():
    for left, match in ((0.9e-6, None), (1.1e-6, "sums are not one category a row")):
        told = class_sums("categories")
        told["sums"] = np.array([[30.0, 0.0, 30.0], [4.0, 6.0 - 10.0 * left, 10.0]])
        check_class_sums(told, "categories", match)
    told = class_sums("categories", sizes=np.array([3, 0]))
    check_class_sums(told, "categories", "sums are not one category a row")


def test_class_sums_are_of_the_rows_described():
    match = "counts are not those of describe.rows"
    for factor, wrong in ((WITHIN, None), (BEYOND, match), (2.0 - BEYOND, match)):
        counts = np.array([30.0 * factor, 10.0])
        check_class_sums(class_sums(counts=counts), match=wrong)
    told = class_sums(labels=["a", "c"])
    check_class_sums(told, match=match)


# ---- spaces --------------------------------------------------------------------


def space_of(criterion="accuracy", geometry="gram", **more) -> tuple[dict, dict]:
    """What an honest node tells of its space, and what there is besides."""
    X, y = rows()
    classifier = LogisticRegression().fit(X, np.array(["a", "b"])[y])
    asked = {
        "model": "own",
        "geometry": as_geometry(geometry).as_settings(),
        "criterion": as_criterion(criterion).as_settings(),
        "construction": "sampled",
        "n_directions": 8,
        "seed": 0,
        "min_cluster_size": 1,
        "n_others": 1,
        "scale_logits": False,
    } | more
    member = Member.of("lyon", classifier, X, np.array(["a", "b"])[y])
    told = {
        task: answer(Message.of(task, **content), member).content
        for task, content in (("describe", {}), ("space", asked))
    }
    place = {"asked": asked, "described": told["describe"], "lengths": {"k": 2, "d": 3}}
    return told["space"], place


@pytest.mark.parametrize("criterion", ["accuracy", "log_loss"])
@pytest.mark.parametrize("geometry", ["gram", "ellipsoid", "ball"])
def test_honest_spaces_are_taken(criterion, geometry):
    told, place = space_of(criterion, geometry)
    take(rules.space_fits, told, **place)
    take(rules.space_fits, told, **place | {"described": None})
    take(rules.space_fits, told, **place | {"described": None, "lengths": {}})


def test_a_space_is_of_the_outputs_that_were_asked_for():
    told, place = space_of()
    wide = told | {"center": np.hstack([told["center"]] * 2)}
    match = "center has 6 outputs for 2 classes"
    assert told["center"].shape == (4, 3)
    refuse(rules.space_fits, wide, match, **place)
    nobody = place | {"asked": place["asked"] | {"n_others": 0}}
    match = "center has 3 outputs for 2 classes"
    refuse(rules.space_fits, told, match, **nobody)
    few = told | {"center": told["center"][:, :1]}
    refuse(rules.space_fits, few, "center has 1 outputs for 2 classes", **place)
    # One stands for all others, however many these are.
    many = place | {"asked": place["asked"] | {"n_others": 5}}
    take(rules.space_fits, told, **many)
    outputs = np.array([True, False, True])
    match = "outputs are without a class that the model knows"
    refuse(rules.space_fits, told | {"outputs": outputs}, match, **place)
    take(rules.space_fits, told | {"outputs": np.array([True, True, False])}, **place)


def test_a_space_has_the_metric_of_its_geometry():
    gram, of_gram = space_of()
    ball, of_ball = space_of(geometry="ball")
    match = "family is 'diagonal', but 'gram' was asked for"
    refuse(rules.space_fits, ball, match, **of_gram)
    match = "family is 'gram', but 'diagonal' was asked for"
    refuse(rules.space_fits, gram, match, **of_ball)
    for told, place, others in ((gram, of_gram, ball), (ball, of_ball, gram)):
        for name in {*gram, *ball} - {"family"}:
            if name.startswith("metric_") and name in told and name in others:
                continue
            if name in told and name.startswith("metric_"):
                if name != "metric_output_weights":
                    less = without(told, name)
                    refuse(rules.space_fits, less, f"{name} is missing", **place)
            elif name.startswith("metric_"):
                more = told | {name: others[name]}
                refuse(rules.space_fits, more, f"{name} is no field of it", **place)
    # What was defined elsewhere may be of any family.
    own = of_gram | {"asked": of_gram["asked"] | {"geometry": {"name": "mine"}}}
    for told in (gram, ball):
        take(rules.space_fits, told, **own)


def test_metrics_are_symmetric_definite_and_no_smaller_than_floats():
    told, place = space_of()
    scatter = told["metric_scatter"].copy()
    scatter[0, 1] += 1e-9
    match = "metric_scatter is not symmetric"
    refuse(rules.space_fits, told | {"metric_scatter": scatter}, match, **place)
    match = "metric_scatter has negative squares on its diagonal"
    wrong = told | {"metric_scatter": -told["metric_scatter"]}
    refuse(rules.space_fits, wrong, match, **place)
    told, place = space_of(geometry="ball")
    precision = told["metric_precision"].copy()
    wrong = "metric_precision has values that are all but 0"
    for value, match in ((0.0, None), (SMALLEST_SQUARE, None), (1e-300, wrong)):
        precision[0, 0] = value
        check(rules.space_fits, told | {"metric_precision": precision}, match, **place)


def test_radii_are_those_of_the_criterion():
    accuracy, of_accuracy = space_of()
    loss, of_loss = space_of("log_loss")
    match = "radii_knots is there, but accuracy was asked for"
    refuse(rules.space_fits, loss, match, **of_accuracy)
    match = "radii_radii is there, but log_loss was asked for"
    refuse(rules.space_fits, accuracy, match, **of_loss)
    for told, place, more in (
        (accuracy, of_accuracy, {"radii_slope": 1.0}),
        (loss, of_loss, {"radii_may_lose": np.array([0, 1])}),
    ):
        (name,) = more
        refuse(rules.space_fits, told | more, f"{name} is no field of it", **place)
    for name in ("radii_radii", "radii_may_lose"):
        less = without(accuracy, name)
        refuse(rules.space_fits, less, f"{name} is missing", **of_accuracy)
    for name in ("losses", "slope", "gradient", "curvature"):
        less = without(loss, f"radii_{name}")
        refuse(rules.space_fits, less, f"radii_{name} is missing", **of_loss)
    # A criterion that was defined elsewhere may have either.
    for told, place in ((accuracy, of_accuracy), (loss, of_loss)):
        own = {"asked": place["asked"] | {"criterion": {"name": "mine"}}}
        take(rules.space_fits, told, **place | own)


def accuracy_of(n_right: int, n_rows: int, *, score: float | None = None) -> dict:
    told, _ = space_of()
    return told | {
        "radii_n_rows": np.array(n_rows),
        "radii_score": np.array(n_right / n_rows if score is None else score),
        "radii_radii": np.arange(1.0, n_right + 1),
        "radii_may_lose": np.arange(n_right + 1),
    }


def test_a_score_is_the_share_of_rows_that_are_right():
    _, place = space_of()
    take(rules.space_fits, accuracy_of(40, 40), **place)
    take(rules.space_fits, accuracy_of(3, 40), **place)
    match = "radii_n_rows is more than describe.rows has"
    refuse(rules.space_fits, accuracy_of(40, 41), match, **place)
    # Other checks would take more than all rows for right.
    for score in (1.0 + 1e-7, 1.5):
        wrong = accuracy_of(40, 40, score=score)
        match = r"radii_score is [\d.]+, not between 0 and 1"
        refuse(rules.space_fits, wrong, match, **place)
    wrong = r"radii_score is [\d.e-]+ of 40 rows, not 3"
    for left, match in ((0.9e-6, None), (1.1e-6, wrong), (-1.1e-6, wrong)):
        told = accuracy_of(3, 40, score=3 / 40 + left)
        check(rules.space_fits, told, match, **place)
    match = "radii_score is 1 of 3 rows, not 4"
    wrong = accuracy_of(4, 3, score=1.0)
    refuse(rules.space_fits, wrong, match, **place)


def test_radii_and_what_they_lose_rise():
    _, place = space_of()
    told = accuracy_of(3, 40)
    for name, values, match in (
        ("radii_radii", [1.0, 3.0, 2.0], "are not in their order"),
        ("radii_may_lose", [1, 1, 2, 3], "does not rise from 0"),
        ("radii_may_lose", [0, 2, 1, 3], "does not rise from 0"),
    ):
        wrong = told | {name: np.array(values)}
        refuse(rules.space_fits, wrong, f"{name} {match}", **place)
    equal = {
        "radii_radii": np.array([1.0, 2, 2]),
        "radii_may_lose": np.array([0, 1, 1, 3]),
    }
    take(rules.space_fits, told | equal, **place)


def test_knots_rise_from_nothing_and_losses_from_the_score():
    told, place = space_of("log_loss")
    n = len(told["radii_knots"])
    assert n > 2
    wrong = "radii_knots do not rise from 0"
    for knots, match in (
        (np.arange(n) * 1.001 * SMALLEST, None),
        (np.arange(n) * 0.999 * SMALLEST, wrong),
        (np.arange(n) + 1e-30, wrong),
        (np.zeros(n), wrong),
    ):
        check(rules.space_fits, told | {"radii_knots": knots}, match, **place)
    nothing = told | {"radii_knots": np.array([]), "radii_losses": np.array([])}
    refuse(rules.space_fits, nothing, "radii_knots do not rise from 0", **place)
    wrong = "radii_losses do not begin with the score"
    for factor, match in ((WITHIN, None), (BEYOND, wrong), (2.0 - BEYOND, wrong)):
        losses = told["radii_losses"].copy()
        losses[0] = float(told["radii_score"]) * factor
        check(rules.space_fits, told | {"radii_losses": losses}, match, **place)


def test_the_centre_of_a_space_is_the_model_itself():
    told, place = space_of()
    center, scale = told["center"], float(told["scale"])
    largest = np.abs(center[:, :2] - center[:, :2].mean(axis=1, keepdims=True)).max()
    wrong = "center is not the model itself"
    for away, match in ((0.9e-6, None), (1.2e-6, wrong)):
        moved = center.copy()
        # As much is taken from one output as is added to the other.
        moved[0, :2] += np.array([1.0, -1.0]) * away * largest
        check(rules.space_fits, told | {"center": moved}, match, **place)
    # What outputs share says nothing, and the scale is that of the model.
    shared = center.copy()
    shared[:, :2] += 5.0
    take(rules.space_fits, told | {"center": shared}, **place)
    scaled = told | {"center": center / 2.0, "scale": np.array(2.0 * scale)}
    take(rules.space_fits, scaled, **place)
    larger = told | {"scale": np.array(2.0 * scale)}
    refuse(rules.space_fits, larger, wrong, **place)
    # Of a model that came along, that one.
    W = center[:, :2] * scale
    asked = place["asked"] | {"model": None, "W": W}
    brought = {"asked": asked, "described": None, "lengths": {"k": 2}}
    take(rules.space_fits, told, **brought)
    brought["asked"] = asked | {"W": W[:, ::-1]}
    refuse(rules.space_fits, told, wrong, **brought)
