# SPDX-License-Identifier: BSD-3-Clause
"""What `combine` tries, with a tenth of the random features, which is fast."""

from __future__ import annotations

from sklearn.kernel_approximation import RBFSampler

from skgems.steps import RandomFeatures


def use_few_features(monkeypatch):
    """Candidates of 1000 random features have 100 of them, under the same name."""

    def random_features(n_components, **settings):
        return RandomFeatures(n_components // 10, **settings)

    def kernel(*, n_components, **settings):
        return RBFSampler(n_components=n_components // 10, **settings)

    module = "skgems.candidates._candidates"
    monkeypatch.setattr(f"{module}.RandomFeatures", random_features)
    monkeypatch.setattr(f"{module}.RBFSampler", kernel)
