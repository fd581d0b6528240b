"""What can be made of what the nodes have, from small models to large ones."""

from collections.abc import Mapping
from functools import partial

import numpy as np
from scipy.sparse import issparse
from sklearn.compose import ColumnTransformer
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import RBFSampler
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PowerTransformer, StandardScaler

from ..choice import Candidate
from ..compat import safe_indexing
from ..ensembles import EnsembleAggregator
from ..gems import GEMSLogisticAggregator, GEMSMLPAggregator
from ..networks import final_step
from ..pfnm import PFNMAggregator
from ..pooled import PooledAggregator, shrunk_lda
from ..steps import (
    IDENTIFIES,
    IN_ORDER,
    UNCLEAR,
    Columns,
    RandomFeatures,
    agreed_roles,
    are_documents,
    column_roles,
    encoded_texts,
    numbers,
)

# Aggregators that let the members of the nodes vote, and their parameters, by name.
_VOTES = {
    "vote": (EnsembleAggregator, {}),
    "vote by classes": (EnsembleAggregator, {"weights": "class_counts"}),
    "stack": (EnsembleAggregator, {"combine": "stack"}),
}


def roles_over_nodes(X, owners: Mapping[str, np.ndarray]) -> tuple[str, ...]:
    """What nodes say of each column; all rows where nodes have too few to say it."""
    of_nodes = agreed_roles(
        [column_roles(safe_indexing(X, rows)) for rows in owners.values() if len(rows)]
    )
    rows = np.sort(np.concatenate(list(owners.values())))
    of_all = column_roles(safe_indexing(X, rows))
    roles = []
    for role, role_of_all in zip(of_nodes, of_all, strict=True):
        all_rows_say_more = role == IN_ORDER and role_of_all == IDENTIFIES
        takes_all_rows = role == UNCLEAR or all_rows_say_more
        roles.append(role_of_all if takes_all_rows else role)
    return tuple(roles)


def scaled_front(X, columns: Columns):
    """What makes numbers of one scale of a table, as far as it needs that."""
    if issparse(X):
        return None
    texts, numeric = [], []
    for place in columns.kept_places:
        labels = texts if columns.text[place] else numeric
        labels.append(columns.labels[place])
    scaled = make_pipeline(SimpleImputer(), StandardScaler())
    if texts:
        parts = [("numbers", scaled, numeric)] if numeric else []
        return ColumnTransformer([*parts, ("texts", encoded_texts(), texts)])
    table = safe_indexing(X, columns.kept_places, axis=1)
    step = scaled if np.isnan(numbers(table)).any() else StandardScaler()
    if any(columns.left_out):
        return ColumnTransformer([("numbers", step, numeric)])
    return step


def _steps_of_plain_columns(front) -> tuple | None:
    """Steps before columns as they come, which may be none, given the scaled front.

    None where columns have to be encoded or imputed before anything else.
    """
    if front is None or isinstance(front, StandardScaler):
        return ()
    if not isinstance(front, ColumnTransformer):
        return None
    _, step, labels = front.transformers[0]
    if len(front.transformers) > 1 or not isinstance(step, StandardScaler):
        return None
    return (ColumnTransformer([("numbers", "passthrough", labels)]),)


def _are_positive(X, columns: Columns) -> bool:
    table = safe_indexing(X, columns.kept_places, axis=1)
    return bool(np.min(np.asarray(table)) > 0)


def candidates(
    X,
    *,
    names: list[str],
    members: list[tuple] | None,
    front,
    columns: Columns | None,
    budget: str,
    random_state: int,
) -> list[Candidate]:
    """What is tried, larger models later.

    ``columns`` are given for a table without a front.
    """
    if are_documents(X):
        of_texts = of_documents(names, front, random_state=random_state)
        if not of_texts and members is None:
            raise ValueError(
                "X holds documents, one text or dict a row, and there are no "
                "estimators that take them. Give front=HashingVectorizer("
                "n_features=4096), or front=FeatureHasher(n_features=4096) of dicts; "
                "or fitted pipelines that begin with a vectorizer."
            )
        return of_texts + of_votes(members, random_state=random_state)
    plain = bent = None
    if columns is not None:
        front = scaled_front(X, columns)
        plain = _steps_of_plain_columns(front)
    if front is not None:
        bent = (front, PowerTransformer())
        if plain is not None and _are_positive(X, columns):
            # Powers are the same in all units; in these float32 has digits for them.
            unit = StandardScaler(with_mean=False)
            bent = (*plain, unit, PowerTransformer(method="box-cox"))
    found = of_rows(
        names,
        front,
        bent,
        plain,
        X.shape[0],
        budget=budget,
        random_state=random_state,
    )
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
