# SPDX-License-Identifier: BSD-3-Clause
"""Documents of two sites, of which one has no row of a class, and fitted pipelines."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

SITES = ["lyon", "rome"]
TOPICS = {"bill": range(0, 20), "fault": range(20, 40), "praise": range(40, 60)}


@dataclass(frozen=True)
class Documents:
    X: np.ndarray  # (n_rows,), texts as objects
    y: np.ndarray  # (n_rows,)
    sites: np.ndarray  # (n_rows,)

    def of(self, site: str) -> tuple[np.ndarray, np.ndarray]:
        """Documents of a site, and their labels."""
        is_at_site = self.sites == site
        return self.X[is_at_site], self.y[is_at_site]

    def pipelines(self, vectorizer=TfidfVectorizer, classifier=LogisticRegression):
        """A pipeline of each site, fitted to its own documents."""
        pipelines = []
        for site in SITES:
            X, y = self.of(site)
            pipeline = make_pipeline(vectorizer(), classifier())
            pipelines.append((site, pipeline.fit(X, y)))
        return pipelines


def documents(n_rows: int = 160, seed: int = 0) -> Documents:
    """Documents of ten words: four of the topic's own, and six of any topic's."""
    rng = np.random.default_rng(seed)
    words = np.array([f"word{k}" for k in range(80)])
    y = rng.choice(list(TOPICS), n_rows)
    texts = [
        " ".join([*rng.choice(words[list(TOPICS[label])], 4), *rng.choice(words, 6)])
        for label in y
    ]
    sites = np.array(SITES)[rng.integers(0, 2, n_rows)]
    # Lyon has no praise.
    is_held = (sites == "rome") | (y != "praise")
    X = np.array(texts, dtype=object)
    return Documents(X=X[is_held], y=y[is_held], sites=sites[is_held])
