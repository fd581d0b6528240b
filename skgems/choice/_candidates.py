"""What can be made of what the nodes have, from small models to large ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.compose import ColumnTransformer
from sklearn.discriminant_analysis import (
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
)
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import RBFSampler
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, PowerTransformer, StandardScaler

from ..base import BaseAggregator
from ..ensembles import EnsembleAggregator
from ..fronts import RandomFeatures
from ..gems import GEMSLogisticAggregator, GEMSMLPAggregator
from ..networks import final_step
from ..pfnm import PFNMAggregator
from ..pooled import PooledAggregator
from ..steps import Columns, numbers


@dataclass(frozen=True, eq=False)
class Candidate:
    """An aggregator that is not fitted, by name, and whether it needs the members."""

    name: str
    aggregator: BaseAggregator
    of_members: bool = False


def scaled_front(X, columns: Columns):
    """What makes numbers of one scale of a table, as far as it needs that."""
    if issparse(X):
        return None
    scaled = make_pipeline(SimpleImputer(), StandardScaler())
    if not any(columns.text):
        return scaled if np.isnan(numbers(X)).any() else StandardScaler()
    places = np.array(columns.names or np.arange(columns.n), dtype=object)
    texts = np.array(columns.text)
    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    return ColumnTransformer(
        [
            ("numbers", scaled, list(places[~texts])),
            ("texts", encoder, list(places[texts])),
        ]
    )


def candidates(X, names, members, front=None, *, budget, random_state) -> list:
    """Each Candidate, of which later ones are larger; ``members`` may be None."""
    as_it_comes = front is None
    if as_it_comes:
        front = scaled_front(X, Columns.of(X))
        as_it_comes = front is None or isinstance(front, StandardScaler)
    seed, alone = random_state, [(name, None) for name in names]
    found = []
    if as_it_comes:
        found.append(Candidate("linear, as it comes", _linear(alone, None, seed)))
    if front is not None:
        bent = [front, PowerTransformer()]
        if as_it_comes and np.min(np.asarray(X)) > 0:
            bent = [PowerTransformer(method="box-cox")]
        found.append(Candidate("linear", _linear(alone, front, seed)))
        linear = _linear(alone, make_pipeline(*bent), seed)
        found.append(Candidate("linear, bent", linear))
        quadratic = QuadraticDiscriminantAnalysis(reg_param=0.01)
        found.append(_of_sums("quadratic, bent", quadratic, bent))
        lda, features = _lda(X.shape[0]), RandomFeatures(1000, random_state=0)
        over = {"1000 features, as it comes": [_kernel(1000)]} if as_it_comes else {}
        over["1000 features"] = [front, features]
        over["1000 features, bent"] = [*bent, features]
        if budget == "thorough":
            over["2000 features, bent"] = [*bent, _kernel(2000)]
        found += [_of_sums(name, lda, steps) for name, steps in over.items()]
    if members is None:
        return found
    kinds = {type(final_step(own)) for _, own in members}
    if kinds == {MLPClassifier}:
        merged = GEMSMLPAggregator(members, random_state=seed)
        found.append(Candidate("merged networks", merged, True))
        if budget == "thorough":
            matched = PFNMAggregator(members, random_state=seed)
            found.append(Candidate("matched networks", matched, True))
    for name, options in {
        "vote": {},
        "vote by classes": {"weights": "class_counts"},
        "stack": {"combine": "stack"},
    }.items():
        vote = EnsembleAggregator(members, random_state=seed, **options)
        found.append(Candidate(name, vote, True))
    return found


def _linear(alone, front, seed) -> GEMSLogisticAggregator:
    return GEMSLogisticAggregator(
        alone, front=front, validation_fraction=0.0, random_state=seed
    )


def _kernel(n: int) -> RBFSampler:
    return RBFSampler(gamma="scale", n_components=n, random_state=0)


def _lda(n_rows: int) -> LinearDiscriminantAnalysis:
    # A small penalty overfits where there are about as many rows as features.
    shrinkage = 1e-2 if n_rows < 2000 else 1e-3
    return LinearDiscriminantAnalysis(solver="lsqr", shrinkage=shrinkage)


def _of_sums(name: str, head: Any, steps: list) -> Candidate:
    front = make_pipeline(*steps)
    return Candidate(name, PooledAggregator(pooled=head, front=front))
