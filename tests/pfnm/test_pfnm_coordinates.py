# SPDX-License-Identifier: BSD-3-Clause
"""Units and zero of features do not matter to PFNMAggregator where nodes scale them."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.digit_networks import (
    TEST,
    TRAIN,
    TRANSFORMS,
    X,
    Y,
    scaled_nodes,
)

from skgems import PFNMAggregator


def pfnm(rows, nodes, hidden, way):
    members = scaled_nodes(rows, nodes, hidden)
    if way == "once":
        return PFNMAggregator(members, random_state=0).fit()
    if way == "stream":
        aggregate = PFNMAggregator(members[:2], random_state=0).fit()
        return aggregate.update(scaled_nodes(rows, nodes, hidden, 5)[1:])
    options = {"rows": {}, "rounds": {"n_rounds": 3, "local_epochs": 2}}
    options["own rounds"] = {**options["rounds"], "round_units": "own"}
    aggregate = PFNMAggregator(members, random_state=0, **options[way])
    return aggregate.fit(rows[TRAIN], Y[TRAIN], [f"n{k}" for k in nodes])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("way", ["once", "stream", "rows", "rounds", "own rounds"])
@pytest.mark.parametrize(
    "hidden", [(20,), pytest.param((16, 12), marks=pytest.mark.slow)]
)
def test_features_may_be_shifted_and_scaled_where_nodes_scale_them(nodes, hidden, way):
    # Among the features are some that are constant at all nodes or at one.
    spreads = [X[TRAIN][nodes == k].std(axis=0) for k in range(3)]
    assert np.any((np.min(spreads, axis=0) == 0) & (np.max(spreads, axis=0) > 0))
    plain = pfnm(X, nodes, hidden, way)
    labels = plain.predict(X[TEST])
    proba = plain.predict_proba(X[TEST])
    assert plain.score(X[TEST], Y[TEST]) > 0.8
    # The second kind is the first, and more.
    kinds = ["times, by a hundred"] + ["by a hundred"] * (way == "once")
    for kind in kinds:
        move = TRANSFORMS[kind]
        on_other_units = pfnm(move(X), nodes, hidden, way)
        X_test = move(X[TEST])
        assert on_other_units.n_units_ == plain.n_units_
        np.testing.assert_array_equal(on_other_units.predict(X_test), labels)
        np.testing.assert_allclose(
            on_other_units.predict_proba(X_test), proba, atol=1e-6
        )
        for atoms, expected in zip(
            on_other_units.posterior_, plain.posterior_, strict=True
        ):
            np.testing.assert_allclose(atoms.linear, expected.linear, atol=1e-5)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_coordinates_are_those_that_the_pipelines_work_in(nodes, local_networks):
    members = scaled_nodes(X, nodes, (12,))
    scalers = [pipeline[0] for _, pipeline in members]
    aggregate = PFNMAggregator(members, random_state=0).fit()
    coordinates = aggregate.input_coordinates_
    np.testing.assert_allclose(
        coordinates.center, np.mean([s.mean_ for s in scalers], axis=0), atol=1e-12
    )
    varying = np.min([s.var_ for s in scalers], axis=0) > 0
    scales = np.median([s.scale_ for s in scalers], axis=0)
    np.testing.assert_allclose(coordinates.scale[varying], scales[varying])
    # The atoms' prior is in them: a lone unit is shrunk towards the center.
    alone = PFNMAggregator(members[:1], sigma=1.0).fit().posterior_[0].mean
    net = members[0][1][1]
    order = PFNMAggregator(members[:1], sigma=1.0).fit().assignments_[0][0]
    np.testing.assert_allclose(alone[order, 64], net.intercepts_[0] / 2, atol=1e-9)
    # Bare networks have no say, nor have rows.
    assert PFNMAggregator(local_networks).fit().input_coordinates_ is None
    mixed = PFNMAggregator([*members, ("bare", local_networks[0])]).fit()
    np.testing.assert_array_equal(mixed.input_coordinates_.center, coordinates.center)
    with_rows = PFNMAggregator(members, random_state=0).fit(
        X[TRAIN],
        Y[TRAIN],
        [f"n{k}" for k in nodes],
        n_class_samples=np.ones((len(members), 10)),
    )
    np.testing.assert_array_equal(
        with_rows.posterior_[0].linear, aggregate.posterior_[0].linear
    )
