# SPDX-License-Identifier: BSD-3-Clause
"""Less of what `combine` tries, which is fast."""

from __future__ import annotations

from sklearn.kernel_approximation import RBFSampler
from sklearn.preprocessing import PowerTransformer

from skgems.ensembles import _candidates
from skgems.steps import RandomFeatures


def use_few_features(monkeypatch):
    """Candidates of 1000 random features have 100 of them, under the same name."""

    def random_features(n_components, **settings):
        return RandomFeatures(n_components // 10, **settings)

    def kernel(*, n_components, **settings):
        return RBFSampler(n_components=n_components // 10, **settings)

    module = "skgems.ensembles._candidates"
    monkeypatch.setattr(f"{module}.RandomFeatures", random_features)
    monkeypatch.setattr(f"{module}.RBFSampler", kernel)


def use_no_powers(monkeypatch):
    """Candidates behind powers, which take long to find, are not tried."""
    of_rows = _candidates.candidates_of_rows

    def without_powers(*args, **kwargs):
        return [
            candidate
            for candidate in of_rows(*args, **kwargs)
            if not any(isinstance(step, PowerTransformer) for step in candidate.steps)
        ]

    for module in ("_candidates", "_combine"):
        monkeypatch.setattr(
            f"skgems.ensembles.{module}.candidates_of_rows", without_powers
        )
