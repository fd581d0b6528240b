"""What can be made of what the nodes have, from small models to large ones."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, clone
from sklearn.compose import ColumnTransformer
from sklearn.discriminant_analysis import (
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
)
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import RBFSampler
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import PowerTransformer, StandardScaler

from ..base import NodePairs
from ..choice import CLASS_SHARES, Candidate
from ..compat import safe_indexing
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
from ._ensemble import EnsembleAggregator

# What `combine` may try: see its parameter ``budget``.
SMALL = "small"
FAST = "fast"
THOROUGH = "thorough"
# A forest has 100 trees of up to ten classes, and fewer of more: its histograms have a
# number for each class, and took more time than all other candidates together.
_TREES_TIMES_CLASSES = 1000
_MOST_TREES = RandomForestClassifier().n_estimators
# Numbers of random features that are tried under a rule, each the first of the next:
# with two or three other candidates as many as nodes let be judged (`MOST_JUDGED`).
# Five nodes of 1,120 rows of penbased tell some 60 of them, two of 2,800 some 120.
_FEATURES_UNDER_RULE = (10, 20, 30, 40, 50, 60, 80, 100, 120, 150, 200, 280, 400)
# Rows are more than twice as many as columns under a rule, so that their covariances
# need little shrinkage: 1e-3 costs banana two points, and phoneme one.
_SHRINKAGE_UNDER_RULE = 1e-5
# So many are drawn by one seed, whatever comes after them.
_FEATURES_OF_A_SEED = 10
# Over a channel the trees of both halves are in one message, and how many there are is
# agreed before anybody knows the classes.
_TREES_OVER_CHANNEL = 50
# Every round of boosting grows a tree for each class, from histograms of all columns.
# With more columns times classes it takes longer than all other candidates together.
_MOST_COLUMNS_TIMES_CLASSES = 150
# A covariance matrix of each class takes time with the cube of the columns: of 2,000
# columns it took 72 of 79 seconds. With more columns than half of the rows it is little
# but shrinkage.
_QUADRATIC_ROWS_PER_COLUMN = 2.0
# A penalty so strong that weights of scaled columns are below 1e-6 for up to a million
# rows, and only intercepts are left.
_C_WITHOUT_WEIGHTS = 1e-12
# Hessian that is added to that of each leaf. Without it rows of rare classes, whose
# hessians are small, get the largest values: on five sets with classes of 1 to 6 % the
# log-loss on held-out rows is 0.96 without, 0.75 with 1 and 0.70 with 3, and the
# accuracies differ by less than half a point.
_L2_OF_LEAVES = 3.0
# The squared distance of two rows of n scaled columns is 2 n on average. A column of
# texts, encoded, adds at most 2 to it. "Random" features have a kernel that is exp(-1)
# at this distance, and "narrow" ones have exp(-4), for boundaries with finer details.
_NARROW_GAMMA_TIMES_COLUMNS = 2.0


@dataclass(frozen=True, kw_only=True)
class Preparations:
    """Transformers that stand before the candidates which look at rows.

    Attributes
    ----------
    unscaled : tuple of transformers, or None
        Stand before columns that are used without scaling; the tuple may be empty.
        None where columns have to be encoded or imputed first.
    scaled : transformer or None
        Scales the columns, and encodes or imputes them where that is needed. None
        where rows are sparse: they are used as they are.
    power_transformed : tuple of transformers, or None
        Scale the columns and bring their distributions near to normal ones with a
        power transform. None where ``scaled`` is None.
    n_columns : int or None
        Number of columns before they are encoded. None where it is not known.
    n_encoded : int or None
        Number of columns after they are encoded. None where it is not known.
    """

    unscaled: tuple | None
    scaled: BaseEstimator | None
    power_transformed: tuple | None
    n_columns: int | None = None
    n_encoded: int | None = None


def roles_over_nodes(X, owners: Mapping[str, np.ndarray]) -> tuple[str, ...]:
    """The role of each column: by nodes, or by all rows where nodes have too few."""
    roles_by_nodes = agreed_roles(
        [column_roles(safe_indexing(X, rows)) for rows in owners.values() if len(rows)]
    )
    rows = np.sort(np.concatenate(list(owners.values())))
    roles_by_all_rows = column_roles(safe_indexing(X, rows))
    roles = []
    for by_nodes, by_all_rows in zip(roles_by_nodes, roles_by_all_rows, strict=True):
        all_rows_say_more = by_nodes == IN_ORDER and by_all_rows == IDENTIFIES
        is_by_all_rows = by_nodes == UNCLEAR or all_rows_say_more
        roles.append(by_all_rows if is_by_all_rows else by_nodes)
    return tuple(roles)


def preparations(X, *, columns: Columns) -> Preparations:
    """Transformers for a table of which nobody has said how to prepare it."""
    scaled = _scaled_front(X, columns)
    unscaled = _steps_of_unscaled_columns(scaled)
    if scaled is None:
        if any(columns.left_out):
            unscaled = (_only(columns),)
        return Preparations(unscaled=unscaled, scaled=None, power_transformed=None)
    if unscaled is None or not _are_positive(X, columns):
        return Preparations(
            unscaled=unscaled,
            scaled=scaled,
            power_transformed=(scaled, PowerTransformer()),
            n_columns=len(columns.kept_places),
            n_encoded=_n_encoded(X, columns),
        )
    # Powers of positive columns are the same in all units; in units of their standard
    # deviations float32 has digits for them.
    unit = StandardScaler(with_mean=False)
    box_cox = PowerTransformer(method="box-cox")
    return Preparations(
        unscaled=unscaled,
        scaled=scaled,
        power_transformed=(*unscaled, unit, box_cox),
        n_columns=len(columns.kept_places),
        n_encoded=len(columns.kept_places),
    )


def preparations_of_front(front: BaseEstimator) -> Preparations:
    """The front that a user has given, alone and with a power transform behind it."""
    return Preparations(
        unscaled=None, scaled=front, power_transformed=(front, PowerTransformer())
    )


def _scaled_front(X, columns: Columns) -> BaseEstimator | None:
    """Make a front that scales the columns of a table, imputes and encodes if needed.

    None for sparse rows: centered, they would be dense.
    """
    if issparse(X):
        return None
    text_labels = []
    numeric_labels = []
    for place in columns.kept_places:
        labels = text_labels if columns.text[place] else numeric_labels
        labels.append(columns.labels[place])
    imputed = make_pipeline(SimpleImputer(), StandardScaler())
    if text_labels:
        texts = ("texts", encoded_texts(), text_labels)
        if not numeric_labels:
            return ColumnTransformer([texts])
        return ColumnTransformer([("numbers", imputed, numeric_labels), texts])
    table = safe_indexing(X, columns.kept_places, axis=1)
    step = imputed if np.isnan(numbers(table)).any() else StandardScaler()
    if any(columns.left_out):
        return ColumnTransformer([("numbers", step, numeric_labels)])
    return step


def _steps_of_unscaled_columns(scaled_front: BaseEstimator | None) -> tuple | None:
    """Steps before unscaled columns, which may be none, given the scaled front.

    None where columns have to be encoded or imputed before anything else.
    """
    if scaled_front is None or isinstance(scaled_front, StandardScaler):
        return ()
    if not isinstance(scaled_front, ColumnTransformer):
        return None
    _, step, labels = scaled_front.transformers[0]
    has_texts = len(scaled_front.transformers) > 1
    if has_texts or not isinstance(step, StandardScaler):
        return None
    return (ColumnTransformer([("numbers", "passthrough", labels)]),)


def _only(columns: Columns) -> ColumnTransformer:
    """Make a transformer of sparse rows that only leaves columns out."""
    labels = [columns.labels[place] for place in columns.kept_places]
    return ColumnTransformer([("numbers", "passthrough", labels)])


def _n_encoded(X, columns: Columns) -> int:
    """Count the columns after each text of a column of texts has one of its own."""
    n_encoded = 0
    for place in columns.kept_places:
        if columns.text[place]:
            texts = np.asarray(safe_indexing(X, [place], axis=1), dtype=object)
            n_encoded += len(set(texts.ravel().tolist()))
        else:
            n_encoded += 1
    return n_encoded


def _are_positive(X, columns: Columns) -> bool:
    table = safe_indexing(X, columns.kept_places, axis=1)
    return bool(np.min(np.asarray(table)) > 0)


def candidates(
    X,
    *,
    names: list[str],
    members: NodePairs | None,
    front: BaseEstimator | None,
    columns: Columns | None,
    n_classes: int,
    budget: str,
    random_state: int,
) -> list[Candidate]:
    """Make the candidates to try, larger models later.

    ``columns`` are given for a table without a front.
    """
    if are_documents(X):
        linear = _linear_of_documents(names, front, random_state=random_state)
        if not linear and members is None:
            raise ValueError(
                "X holds documents, one text or dict a row, and no estimators were "
                "passed that take documents. Pass "
                "front=HashingVectorizer(n_features=4096), or "
                "front=FeatureHasher(n_features=4096) of dicts; or fitted pipelines "
                "that begin with a vectorizer."
            )
        if members is None:
            return linear
        return linear + _votes_of_members(members, random_state=random_state)
    if columns is None:
        before = preparations_of_front(front)
    else:
        before = preparations(X, columns=columns)
    of_rows = candidates_of_rows(
        names,
        before,
        X.shape[0],
        budget=budget,
        random_state=random_state,
    )
    if before.power_transformed is not None and budget != SMALL:
        of_rows += _trees(
            before.power_transformed,
            n_encoded=before.n_encoded,
            n_classes=n_classes,
            budget=budget,
            random_state=random_state,
        )
    if members is None:
        return of_rows
    return of_rows + _candidates_of_members(
        members, before.scaled, budget=budget, random_state=random_state
    )


def _candidates_of_members(
    members: NodePairs,
    scaled_front: BaseEstimator | None,
    *,
    budget: str,
    random_state: int,
) -> list[Candidate]:
    """Candidates that are made of the nodes' fitted classifiers."""
    of_members = []
    if {type(final_step(member)) for _, member in members} == {MLPClassifier}:
        merged = GEMSMLPAggregator(members, random_state=random_state)
        of_members.append(Candidate("merged networks", merged, of_members=True))
        if budget == THOROUGH:
            matched = PFNMAggregator(members, random_state=random_state)
            of_members.append(Candidate("matched networks", matched, of_members=True))
    of_members += _votes_of_members(members, random_state=random_state)
    if scaled_front is not None and budget != SMALL:
        stack = EnsembleAggregator(
            members,
            combine="stack",
            beside=make_pipeline(scaled_front, _random_features(), StandardScaler()),
            random_state=random_state,
        )
        name = "stack and 1000 random features"
        of_members.append(Candidate(name, stack, of_members=True))
    return of_members


def _votes_of_members(members: NodePairs, *, random_state: int) -> list[Candidate]:
    """Votes and a stack of the nodes' fitted classifiers."""
    vote = EnsembleAggregator(members, random_state=random_state)
    vote_by_classes = EnsembleAggregator(
        members, node_weight="class_counts", random_state=random_state
    )
    stack = EnsembleAggregator(members, combine="stack", random_state=random_state)
    return [
        Candidate("vote", vote, of_members=True),
        Candidate("vote by classes", vote_by_classes, of_members=True),
        Candidate("stack", stack, of_members=True),
    ]


def class_shares_of(linear: Candidate) -> Candidate:
    """The linear model of a candidate without weights: it predicts the class shares.

    It asks nodes for the same sums as the candidate, so the same agreement holds.
    """
    aggregator = clone(linear.aggregator)
    aggregator.set_params(C=_C_WITHOUT_WEIGHTS, fit_intercept=True)
    return replace(linear, name=CLASS_SHARES, aggregator=aggregator)


def _linear_of_documents(
    names: list[str], front: BaseEstimator | None, *, random_state: int
) -> list[Candidate]:
    """A linear model of documents, where a front makes rows of numbers of them."""
    if front is None:
        return []
    linear = GEMSLogisticAggregator(
        NodePairs((name, None) for name in names),
        front=front,
        validation_fraction=0.0,
        random_state=random_state,
    )
    return [Candidate("linear", linear)]


def candidates_of_rows(
    names: list[str],
    before: Preparations,
    n_rows: int,
    *,
    budget: str,
    random_state: int,
    has_rule: bool = False,
) -> list[Candidate]:
    """Candidates that are functions of sums over rows, larger models later.

    ``n_rows``, the number of all rows, is 0 where it is not known yet. With
    ``has_rule`` nodes tell no more columns than their rows allow.
    """
    linear = GEMSLogisticAggregator(
        NodePairs((name, None) for name in names),
        validation_fraction=0.0,
        random_state=random_state,
    )
    unscaled = before.unscaled
    scaled = before.scaled
    power_transformed = before.power_transformed
    if has_rule and scaled is not None:
        return _candidates_under_rule(before, linear, budget=budget)
    tried = []
    if unscaled is not None:
        tried.append(_unscaled(linear, unscaled))
    if scaled is None:
        return tried
    tried.append(Candidate("linear", linear, (scaled,)))
    tried.append(Candidate("linear, power transform", linear, power_transformed))
    tried += _quadratic_candidates(before)
    if budget == SMALL:
        return tried
    few_features = RandomFeatures(300, random_state=0)
    tried.append(
        Candidate("linear, 300 random features", linear, (scaled, few_features))
    )
    lda = PooledAggregator(pooled=shrunk_lda(n_rows))
    features = _random_features()
    name = "LDA, 1000 random features"
    if unscaled is not None:
        kernel = RBFSampler(gamma="scale", n_components=1000, random_state=0)
        tried.append(Candidate(f"{name}, unscaled", lda, (*unscaled, kernel)))
    tried.append(Candidate(name, lda, (scaled, features)))
    tried.append(
        Candidate(f"{name}, power transform", lda, (*power_transformed, features))
    )
    if before.n_columns is not None:
        narrow = RandomFeatures(
            1000,
            gamma=_NARROW_GAMMA_TIMES_COLUMNS / before.n_columns,
            random_state=0,
        )
        name = "LDA, 1000 narrow features"
        tried.append(Candidate(name, lda, (scaled, narrow)))
        tried.append(
            Candidate(f"{name}, power transform", lda, (*power_transformed, narrow))
        )
    if budget == THOROUGH:
        kernel = RBFSampler(gamma="scale", n_components=2000, random_state=0)
        name = "LDA, 2000 random features, power transform"
        tried.append(Candidate(name, lda, (*power_transformed, kernel)))
    return tried


def _candidates_under_rule(
    before: Preparations, linear: GEMSLogisticAggregator, *, budget: str
) -> list[Candidate]:
    """Return candidates whose sums nodes may tell beside each other under a rule.

    Each has the columns of those before it and more, so that a node tells them once, as
    many as its rows allow. All are behind a power transform: skewed columns gain 22
    points by it, and phoneme, which is not skewed, lost 2 of them. Columns without it
    are told in addition, if there is room, and are the only ones of sparse rows.
    """
    power_transformed = before.power_transformed
    tried = [
        Candidate("linear, power transform", linear, power_transformed),
        _quadratic_candidates(before)[-1],
    ]
    lda = PooledAggregator(
        pooled=LinearDiscriminantAnalysis(
            solver="lsqr", shrinkage=_SHRINKAGE_UNDER_RULE
        )
    )
    for n_features in _FEATURES_UNDER_RULE if budget != SMALL else ():
        name = f"LDA, {n_features} random features, power transform"
        steps = (*power_transformed, _first_features(n_features))
        tried.append(Candidate(name, lda, steps))
    if before.unscaled is not None:
        tried.append(_unscaled(linear, before.unscaled))
    else:
        tried.append(Candidate("linear", linear, (before.scaled,)))
    return tried


def _unscaled(linear: GEMSLogisticAggregator, steps: tuple) -> Candidate:
    """Return the linear model of columns that are not centered."""
    return Candidate("linear, unscaled", linear, steps, takes_sparse_rows=True)


def _first_features(n_features: int) -> FeatureUnion:
    """Return the columns with random features that are the first of any number more."""
    seeds = range(n_features // _FEATURES_OF_A_SEED)
    features = [
        (
            f"features {seed}",
            RandomFeatures(_FEATURES_OF_A_SEED, passthrough=False, random_state=seed),
        )
        for seed in seeds
    ]
    return FeatureUnion([("columns", "passthrough"), *features])


def _trees(
    power_transformed: tuple,
    *,
    n_encoded: int | None,
    n_classes: int,
    budget: str,
    random_state: int,
) -> list[Candidate]:
    """A forest, and boosted trees where there is time for these.

    Thresholds lie on a fixed grid, which is fine where columns are nearly normal.
    """
    n_trees = min(_MOST_TREES, _TREES_TIMES_CLASSES // n_classes + 1)
    tried = [_forest(power_transformed, n_trees=n_trees, random_state=random_state)]
    n_trees_a_round = 1 if n_classes == 2 else n_classes
    is_fast = (
        n_encoded is not None
        and n_encoded * n_trees_a_round <= _MOST_COLUMNS_TIMES_CLASSES
    )
    if budget == THOROUGH or is_fast:
        boosting = HistGradientBoostingClassifier(
            max_depth=6,
            max_leaf_nodes=None,
            early_stopping=False,
            l2_regularization=_L2_OF_LEAVES,
        )
        # Half of the rounds, with steps of twice the length, take half of the time.
        if budget == THOROUGH:
            boosting.set_params(max_iter=100, learning_rate=0.1)
        else:
            boosting.set_params(max_iter=50, learning_rate=0.2)
        aggregator = PooledAggregator(pooled=boosting)
        tried.append(Candidate("boosted trees", aggregator, power_transformed))
    return tried


def trees_over_channel(before: Preparations, *, random_state: int) -> list[Candidate]:
    """A forest that grows over a channel, by messages for each level of its trees.

    There are no boosted trees: each level of each iteration would take a message.
    """
    # The front ends with the power transform that the bins of trees are made for, so
    # that the nodes fit it with the fronts of all candidates.
    return [
        _forest(
            before.power_transformed,
            n_trees=_TREES_OVER_CHANNEL,
            random_state=random_state,
        )
    ]


def _forest(steps: tuple, *, n_trees: int, random_state: int) -> Candidate:
    forest = RandomForestClassifier(n_trees, max_depth=10, random_state=random_state)
    return Candidate("forest", PooledAggregator(pooled=forest), steps)


def _quadratic_candidates(before: Preparations) -> list[Candidate]:
    tried = []
    # Before scikit-learn 1.8 quadratic discriminants have no shrinkage, with which few
    # rows of a class suffice.
    if hasattr(QuadraticDiscriminantAnalysis(), "shrinkage"):
        shrunk = QuadraticDiscriminantAnalysis(solver="eigen", shrinkage=0.05)
        aggregator = PooledAggregator(pooled=shrunk)
        tried.append(
            Candidate(
                "QDA",
                aggregator,
                (before.scaled,),
                rows_per_column=_QUADRATIC_ROWS_PER_COLUMN,
            )
        )
    quadratic = QuadraticDiscriminantAnalysis(reg_param=0.01)
    aggregator = PooledAggregator(pooled=quadratic)
    tried.append(
        Candidate(
            "QDA, power transform",
            aggregator,
            before.power_transformed,
            rows_per_column=_QUADRATIC_ROWS_PER_COLUMN,
        )
    )
    return tried


def _random_features() -> RandomFeatures:
    """Make random features that the seed makes equal at all nodes, in all fits."""
    return RandomFeatures(1000, random_state=0)
