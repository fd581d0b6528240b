# SPDX-License-Identifier: BSD-3-Clause
"""The factor on logits that the rows of all nodes together make most likely."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from skgems import GEMSLogisticAggregator
from skgems.gems import Spaces
from skgems.moments import fit_inverse_temperature
from skgems.networks import linear_logits


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.filterwarnings("ignore:nodes is not given")
def test_the_temperature_is_that_of_all_rows_together(shared):
    rng = np.random.RandomState(0)
    y = rng.randint(3, size=300)
    X = rng.normal(size=(300, 3)) + 0.8 * np.eye(3)[y]
    owner = rng.randint(2, size=300)
    members = [LogisticRegression().fit(X[owner == k], y[owner == k]) for k in range(2)]
    agg = GEMSLogisticAggregator(
        members,
        intersection="consensus",
        spaces=Spaces(on_empty="ignore"),
        random_state=0,
    )
    agg.fit(X, y, nodes=None if shared else owner)
    point = agg.intersection_.point
    factor = fit_inverse_temperature(linear_logits(X, point), y)
    np.testing.assert_allclose(agg.coef_, factor * point[:-1].T, rtol=1e-9)
