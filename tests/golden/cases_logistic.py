# SPDX-License-Identifier: BSD-3-Clause
"""Golden cases of GEMSLogisticAggregator: a name and what fits it."""

from __future__ import annotations

from itertools import product

import numpy as np
from golden.data import NAMES, digits, iris, linear, linear_nets, linears
from helpers.parts import in_parts
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.dummy import DummyClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from skgems import Disclosure, GEMSLogisticAggregator, Privacy
from skgems.spaces import Ellipsoid, Gram

DISJOINT, OVERLAPPING = digits("disjoint"), digits("overlapping")
HOMOGENEOUS, BINARY = digits("homogeneous"), digits("binary")
ONE_CLASS, STRINGS = digits("one class"), digits("overlapping", strings=True)
FLOAT32, PUBLIC = digits("overlapping", dtype=np.float32), OVERLAPPING.with_public()


def gems(members, **parameters):
    """The aggregator with settings that make it quick and silent, unless overridden."""
    quick = {
        "intersection": "consensus",
        "n_directions": 50,
        "on_empty": "ignore",
        "random_state": 0,
    }
    return GEMSLogisticAggregator(members, **in_parts({**quick, **parameters}))


def fit(rows=OVERLAPPING, members=linears, nodes=True, **parameters):
    """Aggregate the members that a function makes for rows; return it and test rows."""
    aggregate = gems(members(rows), **parameters)
    aggregate.fit(rows.X, rows.y, nodes=rows.nodes if nodes else None)
    return aggregate, rows.X_test


def fit_likeliest(rows=OVERLAPPING, members=linears, **parameters):
    return fit(rows, members, **{"intersection": "likelihood", **parameters})


def fit_weighted(rows=OVERLAPPING, **parameters):
    """Each third row counts twice, each fifth not at all."""
    places = np.arange(len(rows.y))
    weights = np.where(places % 3 == 0, 2.0, 1.0) * (places % 5 > 0)
    aggregate = gems(linears(rows), intersection="likelihood", **parameters)
    aggregate.fit(rows.X, rows.y, nodes=rows.nodes, sample_weight=weights)
    return aggregate, rows.X_test


def fit_with_noise(rows=OVERLAPPING):
    """Noise of a seed, on sums of rows within bounds."""
    n_columns = rows.X.shape[1]
    privacy = Privacy(
        classes=np.unique(rows.y).tolist(),
        low=[0.0] * n_columns,
        high=[1.0] * n_columns,
        epsilon=8.0,
    )
    aggregate = GEMSLogisticAggregator(privacy=privacy, random_state=0)
    return aggregate.fit(rows.X, rows.y, nodes=rows.nodes), rows.X_test


def fit_beside_a_liar(rows=HOMOGENEOUS, **parameters):
    """The last of three nodes has labels of the next class."""
    aggregate = gems(linears(rows), intersection="likelihood", robust=1, **parameters)
    labels = np.where(rows.nodes == 2, (rows.y + 1) % 4, rows.y)
    aggregate.fit(rows.X, labels, nodes=rows.nodes)
    return aggregate, rows.X_test


def odds_ratios(rule=None, **options):
    """The table of odds ratios of three classes, whose labels are drawn by chance."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(360, 2))
    y = np.argmax(rng.gumbel(size=(360, 3)) + X @ rng.normal(size=(2, 3)), axis=1)
    nodes = np.array(NAMES)[np.arange(360) % len(NAMES)]
    agg = gems(
        [(name, None) for name in NAMES],
        C=np.inf,
        disclosure=rule,
        intersection="likelihood",
    ).fit(X, y, nodes=nodes)
    table = agg.inference(X, y, nodes, **options)
    return {
        "params": table.params,
        "covariance": table.covariance,
        "approximate": agg.inference().covariance,
    }


def fit_sparse(rows=OVERLAPPING, **parameters):
    aggregate = gems(linears(rows), **parameters)
    aggregate.fit(csr_matrix(rows.X), rows.y, nodes=rows.nodes)
    return aggregate, csr_matrix(rows.X_test)


def fit_named(rows, **parameters):
    members = list(zip(NAMES, linears(rows), strict=True))
    aggregate = gems(members, **parameters)
    return aggregate.fit(rows.X, rows.y, nodes=rows.named_nodes), rows.X_test


def fit_alone(rows=OVERLAPPING, **parameters):
    """The first node without others."""
    first = rows.nodes == 0
    aggregate = gems(linears(rows)[:1], **parameters)
    return aggregate.fit(rows.X[first], rows.y[first], rows.nodes[first]), rows.X_test


def tuned(fine_tuning="penalized", **parameters):
    """Fit without the public rows, then fine-tune on them."""
    private = PUBLIC.nodes >= 0
    aggregate = gems(linears(PUBLIC), fine_tuning=fine_tuning, **parameters)
    aggregate.fit(PUBLIC.X[private], PUBLIC.y[private], PUBLIC.nodes[private])
    return aggregate.fine_tune(*PUBLIC.public), PUBLIC.X_test


# ---- members ------------------------------------------------------------------


def of(estimator):
    """The second member is of another kind."""
    return lambda rows: [
        linear(X, y, estimator if seed == 1 else None, seed)
        for seed, (X, y) in enumerate(rows.local)
    ]


def frozen(rows):
    return [FrozenEstimator(member) for member in linears(rows)]


def scaled(rows):
    """Logits of very different size."""
    return linears(rows, scales=(0.2, 1.0, 7.0))


def dropping(rows):
    """Pipelines that drop the first columns by name."""
    keep = make_column_transformer((StandardScaler(), slice(5, None)))
    return [
        make_pipeline(clone(keep), clone(CONVERGED)).fit(
            rows.X[rows.nodes == k], rows.y[rows.nodes == k]
        )
        for k in range(3)
    ]


def one_dropping(rows):
    return [dropping(rows)[0], *linears(rows)[1:]]


def guess(**strategy):
    """The last member knows the shares of its classes, or less."""
    return lambda rows: [
        *linears(rows)[:2],
        DummyClassifier(**strategy).fit(*rows.local[2]),
    ]


def of_aggregates(rows):
    """The first member is an aggregate of two."""
    first = rows.nodes < 2
    one, two, three = linears(rows)
    aggregate = gems([one, two]).fit(rows.X[first], rows.y[first], rows.nodes[first])
    return [aggregate, two, three]


def mixed_nets(rows):
    return [linear_nets(rows)[0], *linears(rows)[1:]]


def ridges(rows):
    """Of one kind with equal parameters: their pooled classifier is known."""
    return linears(rows, RidgeClassifier(alpha=0.5))


LOGISTIC = LogisticRegression(max_iter=1)
KINDS = {
    "logistic": LOGISTIC,
    "sgd": SGDClassifier(max_iter=1, random_state=0),
    "linear svc": LinearSVC(max_iter=1),
    "ridge": RidgeClassifier(),
    "pipeline": make_pipeline(StandardScaler(), LOGISTIC),
    "search": GridSearchCV(LOGISTIC, {"C": [0.1, 1.0]}, cv=2),
    "search over a pipeline": GridSearchCV(
        make_pipeline(StandardScaler(), RidgeClassifier()),
        {"ridgeclassifier__alpha": [0.1, 1.0]},
        cv=2,
    ),
}
CONVERGED = LogisticRegression(solver="newton-cg", tol=1e-10, max_iter=100)


def simulate(estimators=CONVERGED, rows=BINARY, nodes=True, **parameters):
    """Train the clones of unfitted estimators."""
    return fit(rows, lambda rows: estimators, nodes, **parameters)


# ---- the table ----------------------------------------------------------------

GEOMETRIES = ["gram", "ellipsoid", "ball"]
CONSTRUCTIONS = ["sampled", "certified"]
CRITERIA = ["accuracy", "log_loss"]
INTERSECTIONS = ["consensus", "deepest", "hinge"]
# Epsilons that the nodes reach with next to no room: spaces that do not meet.
TIGHT = {"accuracy": [0.93, 0.96, 0.98], "log_loss": [0.17, 0.145, 0.075]}
# With some room: they meet where some of them bind.
CLOSE = {"accuracy": [0.87, 0.9, 0.91], "log_loss": [0.26, 0.23, 0.12]}
# A little more, where the hinge gets there in a few steps. Close to an empty
# intersection its path depends on rounding.
NEAR = {"accuracy": [0.84, 0.87, 0.885], "log_loss": [0.26, 0.23, 0.12]}
# With so much that also certified spaces meet.
WIDE = {"accuracy": 0.1, "log_loss": 8.0}


def grid():
    """Every geometry, construction, criterion and intersection, by auto epsilon."""
    for names in product(GEOMETRIES, CONSTRUCTIONS, CRITERIA, INTERSECTIONS):
        geometry, construction, criterion, intersection = names
        yield (
            " ".join(names),
            {
                "geometry": geometry,
                "construction": construction,
                "criterion": criterion,
                "intersection": intersection,
            },
        )


def bound(epsilons, intersections=INTERSECTIONS):
    """Every geometry, criterion and intersection by a given epsilon."""
    for names in product(GEOMETRIES, CRITERIA, intersections):
        geometry, criterion, intersection = names
        yield (
            " ".join(names),
            {
                "geometry": geometry,
                "criterion": criterion,
                "intersection": intersection,
                "epsilon": epsilons[criterion],
            },
        )


CASES = {
    "default": lambda: fit(n_directions=500, on_empty="warn"),
    "noise": fit_with_noise,
    "warns of an empty intersection": lambda: fit(
        epsilon=TIGHT["accuracy"], on_empty="warn"
    ),
    **{name: lambda p=p: fit(**p) for name, p in grid()},
    **{f"tight {name}": lambda p=p: fit(**p) for name, p in bound(TIGHT)},
    **{
        f"close {name}": lambda p=p: fit(**p)
        for name, p in bound(CLOSE, ["consensus", "deepest"])
    },
    **{f"near {name}": lambda p=p: fit(**p) for name, p in bound(NEAR, ["hinge"])},
    **{
        f"wide certified {name}": lambda p=p: fit(BINARY, construction="certified", **p)
        for name, p in bound(WIDE)
    },
    # Kinds of members.
    **{f"kind {name}": lambda k=k: fit(members=of(k)) for name, k in KINDS.items()},
    **{
        f"kind {name} binary": lambda k=k: fit(BINARY, of(k))
        for name, k in KINDS.items()
    },
    "kind frozen": lambda: fit(members=frozen),
    "kind prior": lambda: fit(members=guess(strategy="prior")),
    "kind uniform": lambda: fit(
        members=guess(strategy="uniform"), criterion="log_loss"
    ),
    "kind constant": lambda: fit(members=guess(strategy="constant", constant=4)),
    "kind aggregate": lambda: fit(members=of_aggregates),
    "kind skorch": lambda: fit(members=linear_nets),
    "kind skorch among others": lambda: fit(DISJOINT, mixed_nets),
    "kind skorch binary": lambda: fit(BINARY, linear_nets),
    "one-class node": lambda: fit(ONE_CLASS),
    "one-class node ellipsoid": lambda: fit(ONE_CLASS, geometry="ellipsoid"),
    "one-class node ball": lambda: fit(ONE_CLASS, geometry="ball"),
    "one-class node certified": lambda: fit(ONE_CLASS, construction="certified"),
    "one-class node log_loss": lambda: fit(ONE_CLASS, criterion="log_loss"),
    # Rows.
    "disjoint": lambda: fit(DISJOINT),
    "disjoint ellipsoid": lambda: fit(DISJOINT, geometry="ellipsoid"),
    "disjoint ball": lambda: fit(DISJOINT, geometry="ball"),
    "homogeneous": lambda: fit(HOMOGENEOUS),
    "homogeneous deepest": lambda: fit(HOMOGENEOUS, intersection="deepest"),
    "string labels": lambda: fit(STRINGS),
    "float32 rows": lambda: fit(FLOAT32),
    "float32 rows ellipsoid": lambda: fit(FLOAT32, geometry="ellipsoid"),
    "sparse rows": lambda: fit_sparse(),
    "sparse rows ellipsoid": lambda: fit_sparse(geometry="ellipsoid"),
    "sparse rows ball certified": lambda: fit_sparse(
        geometry="ball", construction="certified"
    ),
    "sparse rows log_loss": lambda: fit_sparse(criterion="log_loss"),
    "iris": lambda: fit(iris()),
    "iris deepest certified": lambda: fit(
        iris(), construction="certified", intersection="deepest"
    ),
    "nodes by name": lambda: fit_named(STRINGS),
    "public rows by name": lambda: fit_named(STRINGS.with_public()),
    "no nodes disjoint": lambda: fit(DISJOINT, nodes=False),
    "no nodes overlapping": lambda: fit(nodes=False),
    "no nodes overlapping ball": lambda: fit(nodes=False, geometry="ball"),
    "one node alone": lambda: fit_alone(),
    "one node alone ellipsoid": lambda: fit_alone(geometry="ellipsoid"),
    # Parameters.
    "epsilon number": lambda: fit(epsilon=0.7),
    "epsilon array": lambda: fit(epsilon=[0.3, 0.6, 0.8]),
    "epsilon array log_loss": lambda: fit(criterion="log_loss", epsilon=[1, 2, 3]),
    "node_weight n_samples": lambda: fit(ONE_CLASS, node_weight="n_samples"),
    "node_weight array": lambda: fit(node_weight=[1, 2, 5]),
    "node_weight array wide": lambda: fit(
        BINARY, node_weight=[1, 2, 5], geometry="ball", epsilon=0.5
    ),
    **{
        f"scale_logits {scale} {geometry}": lambda s=scale, g=geometry: fit(
            members=scaled, scale_logits=s, geometry=g
        )
        for scale, geometry in product(["auto", True, False], GEOMETRIES)
    },
    "ridge": lambda: fit(geometry=Gram(ridge=0.01)),
    "ridge certified": lambda: fit(geometry=Gram(ridge=1.0), construction="certified"),
    "ridge zero": lambda: fit(iris(), geometry=Gram(ridge=0.0)),
    "unseen_margin": lambda: fit(DISJOINT, geometry=Gram(unseen_margin=0.5)),
    "unseen_weight": lambda: fit(DISJOINT, geometry=Gram(unseen_weight=0.7)),
    "unseen log_loss": lambda: fit(
        DISJOINT,
        geometry=Gram(unseen_margin=2.0, unseen_weight=0.5),
        criterion="log_loss",
    ),
    "fisher_floor": lambda: fit(geometry=Ellipsoid(floor=0.3)),
    "fisher_damping": lambda: fit(geometry=Ellipsoid(damping=0.1)),
    "fisher log_loss": lambda: fit(
        geometry=Ellipsoid(floor=0.02, damping=0.0),
        criterion="log_loss",
        construction="certified",
    ),
    "max_radius": lambda: fit(max_radius=0.5),
    "random_state": lambda: fit(random_state=3),
    "n_jobs": lambda: fit(n_jobs=2),
    # Public rows.
    "public rows": lambda: fit(PUBLIC),
    "public rows deepest": lambda: fit(PUBLIC, intersection="deepest"),
    "public rows ellipsoid": lambda: fit(PUBLIC, geometry="ellipsoid"),
    "public rows ball tight": lambda: fit(PUBLIC, geometry="ball", epsilon=0.9),
    "public rows plain": lambda: fit(PUBLIC, fine_tuning="plain"),
    "public rows binary": lambda: fit(BINARY.with_public(30)),
    "public rows sparse": lambda: fit_sparse(PUBLIC),
    "public row": lambda: fit(OVERLAPPING.with_public(1)),
    "public rows few": lambda: fit(OVERLAPPING.with_public(6)),
    "fine_tune": lambda: tuned(),
    "fine_tune hinge": lambda: tuned(intersection="hinge"),
    "fine_tune plain": lambda: tuned("plain"),
    # Simulation.
    "simulation": lambda: simulate(nodes=True),
    "simulation of several": lambda: simulate([CONVERGED] * 3),
    "simulation of several dealt": lambda: simulate([CONVERGED] * 3, nodes=False),
    "simulation of kinds": lambda: simulate(
        [RidgeClassifier(), make_pipeline(StandardScaler(), CONVERGED), CONVERGED],
        OVERLAPPING,
    ),
    "simulation one class": lambda: simulate(RidgeClassifier(), ONE_CLASS),
    "simulation fraction": lambda: simulate(
        RidgeClassifier(), OVERLAPPING, validation_fraction=0.5
    ),
    "simulation of none held out": lambda: simulate(
        RidgeClassifier(), OVERLAPPING, validation_fraction=0.0
    ),
    "simulation seeded": lambda: simulate(
        MLPClassifier((), batch_size=32, max_iter=3), random_state=1
    ),
    "simulation of None": lambda: simulate(None, iris()),
    "simulation with public rows": lambda: simulate(RidgeClassifier(), PUBLIC),
    # The likeliest model.
    **{
        f"likelihood of {kind} moments": lambda k=kind: fit_likeliest(moments=k)
        for kind in ("auto", "class", "shared", "diagonal")
    },
    "likelihood disjoint": lambda: fit_likeliest(DISJOINT),
    "likelihood homogeneous": lambda: fit_likeliest(HOMOGENEOUS),
    "likelihood binary": lambda: fit_likeliest(BINARY),
    "likelihood string labels": lambda: fit_likeliest(STRINGS),
    "likelihood one-class node": lambda: fit_likeliest(ONE_CLASS),
    "likelihood dropped columns": lambda: fit_likeliest(members=dropping),
    "likelihood columns that one node drops": lambda: fit_likeliest(
        members=one_dropping
    ),
    "likelihood without nodes": lambda: fit_likeliest(nodes=False),
    "likelihood of weights": fit_weighted,
    "likelihood beside a liar": fit_beside_a_liar,
    "likelihood float32 rows": lambda: fit_likeliest(FLOAT32),
    "odds ratios": odds_ratios,
    "odds ratios robust": lambda: odds_ratios(cov_type="robust"),
    "odds ratios by site": lambda: odds_ratios(site_intercepts=True),
    "odds ratios under a rule": lambda: odds_ratios(Disclosure()),
    "likelihood sparse rows": lambda: fit_sparse(intersection="likelihood"),
    "likelihood kind skorch": lambda: fit_likeliest(members=linear_nets),
    "likelihood C": lambda: fit_likeliest(C=0.01),
    "likelihood n_components": lambda: fit_likeliest(n_components=1),
    "likelihood under a rule": lambda: fit_likeliest(
        ONE_CLASS, disclosure=Disclosure(min_rows=25)
    ),
    "likelihood node_weight": lambda: fit_likeliest(ONE_CLASS, node_weight="equal"),
    "likelihood exact ridge": lambda: fit_likeliest(members=ridges),
    "likelihood exact ridge iris": lambda: fit_likeliest(iris(), ridges),
    "likelihood epsilon": lambda: fit_likeliest(epsilon=0.9),
    "likelihood epsilon close": lambda: fit_likeliest(epsilon=CLOSE["accuracy"]),
    "likelihood epsilon tight": lambda: fit_likeliest(epsilon=TIGHT["accuracy"]),
    "likelihood epsilon log_loss": lambda: fit_likeliest(
        criterion="log_loss", epsilon=CLOSE["log_loss"]
    ),
    "likelihood epsilon certified": lambda: fit_likeliest(
        BINARY, construction="certified", epsilon=WIDE["accuracy"]
    ),
    "likelihood public rows": lambda: fit_likeliest(PUBLIC),
    "likelihood public rows few": lambda: fit_likeliest(OVERLAPPING.with_public(6)),
    "likelihood public rows plain": lambda: fit_likeliest(PUBLIC, fine_tuning="plain"),
    "likelihood fine_tune": lambda: tuned(intersection="likelihood"),
    "likelihood simulation": lambda: simulate(
        RidgeClassifier(), OVERLAPPING, intersection="likelihood"
    ),
}
