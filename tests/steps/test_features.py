# SPDX-License-Identifier: BSD-3-Clause
"""Random features: shapes, seeds, and the rules of scikit-learn."""

from __future__ import annotations

import warnings

from helpers.tables import assert_pools_like_fit, table_of_numbers
from sklearn.kernel_approximation import SkewedChi2Sampler

from skgems.steps import RandomFeatures


def test_shapes_of_random_features_are_those_of_a_seed():
    X = table_of_numbers() / [1, 10, 0.1, 1e3]
    sampler = SkewedChi2Sampler(skewedness=1e4, random_state=0)
    assert_pools_like_fit(sampler, X)
    relu = RandomFeatures(20, kind="relu", passthrough=False, random_state=0)
    assert assert_pools_like_fit(relu, X).transform(X).min() == 0.0


def test_random_features_keep_the_rules_of_scikit_learn():
    from sklearn.utils.estimator_checks import check_estimator

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_estimator(RandomFeatures(n_components=5, random_state=0))
