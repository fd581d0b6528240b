# SPDX-License-Identifier: BSD-3-Clause
"""Rules of models and of numbers of rows: each refuses what it is there to refuse.

Bounds are written out as numbers, on both sides: what is just within is taken, and what
is just beyond is refused.
"""

from __future__ import annotations

import numpy as np
import pytest
from helpers.rules import BEYOND, ROLES, WITHIN, described, refuse, take

from skgems.messages import _rules as rules

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
