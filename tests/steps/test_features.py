# SPDX-License-Identifier: BSD-3-Clause
"""Random features: shapes, seeds, and the rules of scikit-learn."""

from __future__ import annotations

import warnings

from helpers.tables import assert_pools_like_fit, table_of_numbers
from sklearn.kernel_approximation import SkewedChi2Sampler

from skgems.steps import RandomFeatures


def features_of_different_scales():
    """Numbers whose columns have scales from 0.001 to 10 of those of the table."""
    return table_of_numbers() / [1, 10, 0.1, 1e3]


def test_samplers_of_scikit_learn_depend_on_the_seed_and_the_number_of_features_only():
    # Skewedness has to be larger than minus any value.
    sampler = SkewedChi2Sampler(skewedness=1e4, random_state=0)
    assert_pools_like_fit(sampler, features_of_different_scales())


def test_random_relu_features_are_never_negative():
    X = features_of_different_scales()
    relu = RandomFeatures(20, kind="relu", passthrough=False, random_state=0)
    assert assert_pools_like_fit(relu, X).transform(X).min() == 0.0


def test_random_features_keep_the_rules_of_scikit_learn():
    from sklearn.utils.estimator_checks import check_estimator

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_estimator(RandomFeatures(n_components=5, random_state=0))
