"""What can be made of what the nodes have, from small models to large ones."""

from functools import partial

import numpy as np
from scipy.sparse import issparse
from sklearn.compose import ColumnTransformer
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import RBFSampler
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, PowerTransformer, StandardScaler

from ..choice import Candidate
from ..ensembles import EnsembleAggregator
from ..fronts import RandomFeatures
from ..gems import GEMSLogisticAggregator, GEMSMLPAggregator
from ..networks import final_step
from ..pfnm import PFNMAggregator
from ..pooled import PooledAggregator, shrunk_lda
from ..steps import Columns, are_documents, numbers

# Aggregators that let the members of the nodes vote, and their parameters, by name.
_VOTES = {
    "vote": (EnsembleAggregator, {}),
    "vote by classes": (EnsembleAggregator, {"weights": "class_counts"}),
    "stack": (EnsembleAggregator, {"combine": "stack"}),
}


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
    of_numbers = "numbers", scaled, list(places[~texts])
    return ColumnTransformer([of_numbers, ("texts", encoder, list(places[texts]))])


def candidates(X, names, members, front=None, *, budget, random_state) -> list:
    """Each Candidate, of which later ones are larger; ``members`` may be None."""
    if are_documents(X):
        found = of_documents(names, front, random_state=random_state)
        if not found and members is None:
            raise ValueError(
                "X holds documents, one text or dict a row, and there are no "
                "estimators that take them. Give front=HashingVectorizer("
                "n_features=4096), or front=FeatureHasher(n_features=4096) of dicts; "
                "or fitted pipelines that begin with a vectorizer."
            )
        return found + of_votes(members, random_state=random_state)
    as_it_comes = front is None
    if as_it_comes:
        front = scaled_front(X, Columns.of(X))
        as_it_comes = front is None or isinstance(front, StandardScaler)
    bent = None if front is None else (front, PowerTransformer())
    if as_it_comes and bent and np.min(np.asarray(X)) > 0:
        # Powers are the same in all units; in these they have digits in float32 too.
        bent = (StandardScaler(with_mean=False), PowerTransformer(method="box-cox"))
    own = {"budget": budget, "random_state": random_state}
    plain = () if as_it_comes else None
    found = of_rows(names, front, bent, plain, X.shape[0], **own)
    if members is None:
        return found
    ways = dict(_VOTES)
    if {type(final_step(own)) for _, own in members} == {MLPClassifier}:
        networks = {"merged networks": (GEMSMLPAggregator, {})}
        if budget == "thorough":
            networks["matched networks"] = PFNMAggregator, {}
        ways = networks | ways
    if front is not None and budget != "small":
        drawn = RandomFeatures(1000, random_state=0)
        beside = make_pipeline(front, drawn, StandardScaler())
        options = {"combine": "stack", "beside": beside}
        ways["stack and 1000 features"] = EnsembleAggregator, options
    for name, (kind, options) in ways.items():
        aggregator = kind(members, random_state=random_state, **options)
        found.append(Candidate(name, aggregator, of_members=True))
    return found


def of_votes(members: list | None, *, random_state: int) -> list[Candidate]:
    """Votes and a stack of the nodes' members, none where they have no members."""
    return [
        Candidate(name, kind(members, random_state=random_state, **options), (), True)
        for name, (kind, options) in _VOTES.items()
        if members is not None
    ]


def of_documents(names: list[str], front, *, random_state: int) -> list[Candidate]:
    """A linear model of documents, where a front makes rows of numbers of them."""
    if front is None:
        return []
    linear = GEMSLogisticAggregator(
        [(name, None) for name in names],
        front=front,
        validation_fraction=0.0,
        random_state=random_state,
    )
    return [Candidate("linear", linear)]


def of_rows(names, front, bent, plain, n_rows: int, *, budget, random_state) -> list:
    """Candidates that look at no member: of rows behind a front, behind one that bends.

    ``plain``: steps before those of rows as they come, None for none of these.
    """
    alone = [(name, None) for name in names]
    how = {"validation_fraction": 0.0, "random_state": random_state}
    linear = GEMSLogisticAggregator(alone, **how)
    found = []
    if plain is not None:
        found.append(Candidate("linear, as it comes", linear, plain))
    if front is None:
        return found
    lda = PooledAggregator(pooled=shrunk_lda(n_rows))
    quadratic = PooledAggregator(pooled=QuadraticDiscriminantAnalysis(reg_param=0.01))
    features = RandomFeatures(1000, random_state=0)
    found.append(Candidate("linear", linear, (front,)))
    found.append(Candidate("linear, bent", linear, bent))
    if hasattr(quadratic.pooled, "shrinkage"):  # with which few rows of a class will do
        shrunk = QuadraticDiscriminantAnalysis(solver="eigen", shrinkage=0.05)
        found.append(Candidate("quadratic", PooledAggregator(pooled=shrunk), (front,)))
    found.append(Candidate("quadratic, bent", quadratic, bent))
    if budget == "small":
        return found
    kernel = partial(RBFSampler, gamma="scale", random_state=0)
    if plain is not None:
        steps = *plain, kernel(n_components=1000)
        found.append(Candidate("1000 features, as it comes", lda, steps))
    found.append(Candidate("1000 features", lda, (front, features)))
    found.append(Candidate("1000 features, bent", lda, (*bent, features)))
    if budget == "thorough":
        steps = *bent, kernel(n_components=2000)
        found.append(Candidate("2000 features, bent", lda, steps))
    return found
