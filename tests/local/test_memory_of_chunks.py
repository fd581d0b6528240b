# SPDX-License-Identifier: BSD-3-Clause
"""The peak of memory of a node whose rows come in chunks."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from sklearn import config_context
from sklearn.linear_model import LogisticRegression

from skgems import Disclosure, GEMSLogisticAggregator
from skgems.gems import Moments


@pytest.mark.parametrize("n_components", [1, 4])
@pytest.mark.parametrize(
    ("disclosure", "most_copies"),
    [
        # The rows while they are made, which here takes two, and a copy in blocks.
        (None, 3.2),
        # Leverages are of rows without their means, in the basis of their products.
        (Disclosure(), 6.0),
    ],
)
def test_the_peak_of_memory_grows_with_a_chunk_and_not_with_their_number(
    n_components, disclosure, most_copies
):
    n_features = 20
    rng = np.random.default_rng(0)
    means = rng.normal(size=(2, n_features))
    X = rng.normal(size=(400, n_features))
    y = np.arange(400) % 2
    clf = LogisticRegression().fit(X + means[y], y)

    rows_of_chunks = rng.random(size=(36_000, n_features))

    def peak(n_chunks, size):
        def chunks():
            for _ in range(n_chunks):
                y = np.arange(size) % 2
                yield rows_of_chunks[:size] + means[y], y

        agg = GEMSLogisticAggregator(
            moments=Moments(n_components=n_components), random_state=0
        )
        tracemalloc.start()
        # Under a rule rows that are few beside this are kept, all of them.
        with config_context(working_memory=100):  # MiB
            agg.summarize(clf, name="a", chunks=chunks, disclosure=disclosure)
        peak_bytes = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak_bytes

    peak(2, 1000)
    peak_of_four = peak(4, 12_000)
    chunk_bytes = 12_000 * n_features * 8
    assert peak(8, 12_000) < 1.1 * peak_of_four
    assert peak_of_four < most_copies * chunk_bytes
    assert peak(2, 36_000) < 3.5 * peak_of_four
