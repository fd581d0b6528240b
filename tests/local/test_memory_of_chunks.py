# SPDX-License-Identifier: BSD-3-Clause
"""The peak of memory of a node whose rows come in chunks."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from skgems import GEMSLogisticAggregator
from skgems.gems import Moments


@pytest.mark.parametrize("n_components", [1, 4])
def test_the_peak_of_memory_grows_with_a_chunk_and_not_with_their_number(n_components):
    n_features = 20
    rng = np.random.default_rng(0)
    means = rng.normal(size=(2, n_features))
    X = rng.normal(size=(400, n_features))
    y = np.arange(400) % 2
    clf = LogisticRegression().fit(X + means[y], y)

    rows_of_chunks = rng.random(size=(60_000, n_features))

    def peak(n_chunks, size):
        def chunks():
            for _ in range(n_chunks):
                y = np.arange(size) % 2
                yield rows_of_chunks[:size] + means[y], y

        agg = GEMSLogisticAggregator(
            moments=Moments(n_components=n_components), random_state=0
        )
        tracemalloc.start()
        agg.summarize(clf, name="a", chunks=chunks)
        peak_bytes = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak_bytes

    peak(2, 1000)
    peak_of_four = peak(4, 20_000)
    chunk_bytes = 20_000 * n_features * 8
    assert peak(8, 20_000) < 1.1 * peak_of_four
    # The rows while they are made, which here takes two, and a copy in blocks.
    assert peak_of_four < 3.2 * chunk_bytes
    assert peak(2, 60_000) < 3.5 * peak_of_four
