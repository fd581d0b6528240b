# SPDX-License-Identifier: BSD-3-Clause
"""Golden cases of fronts: by themselves, and as ``front=`` of every aggregator."""

from __future__ import annotations

import numpy as np
from golden.data import (
    NAMES,
    convolutional_nets,
    digits,
    letters,
    linear,
    mlp,
    penguins,
)
from golden.nodes import Wire, rows_of, summaries_of, summary_record
from golden.records import fitted_attributes
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import (
    PolynomialCountSketch,
    RBFSampler,
    SkewedChi2Sampler,
)
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    SplineTransformer,
    StandardScaler,
)

from skgems import (
    Disclosure,
    EnsembleAggregator,
    GEMSLogisticAggregator,
    GEMSMLPAggregator,
    ModelAveragingAggregator,
    PFNMAggregator,
    PooledAggregator,
    PooledTransformer,
)
from skgems.gems import Spaces
from skgems.steps import Backbone, ColumnsOf, RandomFeatures

OVERLAPPING, HOMOGENEOUS = digits("overlapping"), digits("homogeneous")
BINARY = digits("binary")

# ---- what is done with them ---------------------------------------------------


def fit(transformer, rows=OVERLAPPING, **parameters):
    """Fit transformers to the rows of all nodes."""
    front = PooledTransformer(transformer, **parameters)
    return front.fit(rows.X, nodes=rows.nodes), rows.X_test


def fit_sparse(transformer, rows=OVERLAPPING):
    front = PooledTransformer(transformer)
    return front.fit(csr_matrix(rows.X), nodes=rows.nodes), csr_matrix(rows.X_test)


def fit_held_out(transformer, rows=OVERLAPPING):
    held_out = np.arange(len(rows.y)) % 3 == 0
    front = PooledTransformer(transformer)
    return front.fit(rows.X, nodes=rows.nodes, held_out=held_out), rows.X_test


def fit_numbers(transformer, **parameters):
    """Of the columns of numbers of a table, with gaps."""
    rows = penguins()
    front = PooledTransformer(transformer, **parameters)
    front.fit(rows.X.drop(columns="sex"), nodes=rows.nodes)
    return front, rows.X_test.drop(columns="sex")


def fit_texts(transformer):
    """Of a column of texts, with gaps."""
    rows = penguins()
    front = PooledTransformer(transformer).fit(rows.X[["sex"]], nodes=rows.nodes)
    return front, rows.X_test[["sex"]]


def fit_numbered_rows():
    """A table with a column that identifies rows."""
    rows = penguins()
    X = rows.X.assign(bird=np.arange(len(rows.y)))
    front = PooledTransformer(mixed_columns(), drop_identifiers=True)
    front.fit(X, nodes=rows.nodes)
    return front, rows.X_test.assign(bird=0)


def fit_summaries(transformer, rows=OVERLAPPING):
    """By a file of each node; the front goes through a file, too."""
    front = PooledTransformer(transformer)
    sent = [
        front.summarize(rows_of(rows, k)[0], name=name, disclosure=None)
        for k, name in enumerate(NAMES)
    ]
    front.set_params(summaries=sent).fit()
    files = {f"front {name}": m.to_bytes() for name, m in zip(NAMES, sent, strict=True)}
    return front, rows.X_test, {"kept": files}


def fit_over_a_wire(transformer, rows=OVERLAPPING):
    wire = Wire(rows)
    front = PooledTransformer(transformer, summaries=wire.channel()).fit()
    return front, rows.X_test, wire.record()


def of(aggregate, rows=HOMOGENEOUS):
    """An aggregator that has a front."""
    aggregate.set_params(random_state=0)
    return aggregate.fit(rows.X, rows.y, nodes=rows.nodes), rows.X_test


def over_a_wire(aggregate, rows=OVERLAPPING):
    wire = Wire(rows)
    aggregate.set_params(estimators=wire.channel(), random_state=0).fit()
    return aggregate, rows.X_test, wire.record()


def behind_agreed_files(transformer, rows=OVERLAPPING):
    """A fitted front goes out, summaries come in."""
    front = PooledTransformer(transformer).fit(rows.X, nodes=rows.nodes)
    aggregate = GEMSLogisticAggregator(front=front, random_state=0)
    sent = summaries_of(aggregate, rows)
    aggregate.set_params(estimators=sent).fit()
    return aggregate, rows.X_test, summary_record(sent)


def exported(transformer, rows=OVERLAPPING):
    """The plain pipeline of front and classifier."""
    aggregate = GEMSLogisticAggregator(
        [None] * 3, front=transformer, random_state=0
    ).fit(rows.X, rows.y, nodes=rows.nodes)
    return aggregate, rows.X_test, {
        "estimator": fitted_attributes(aggregate.to_estimator())
    }  # fmt: skip


def of_letters(vectorizer, members=None):
    rows = letters()
    aggregate = GEMSLogisticAggregator(
        members or [None] * 3, front=vectorizer, random_state=0
    )
    aggregate.fit(list(rows.X), rows.y, nodes=rows.nodes)
    return aggregate, rows.X_test


def of_counted_words():
    """Dicts, which a hasher takes."""
    rows = letters()
    counted = [
        [{word: text.split().count(word) for word in text.split()} for text in texts]
        for texts in (rows.X, rows.X_test)
    ]
    aggregate = GEMSLogisticAggregator(
        [None] * 3, front=FeatureHasher(n_features=32), random_state=0
    )
    return aggregate.fit(counted[0], rows.y, nodes=rows.nodes), counted[1]


# ---- members and fronts -------------------------------------------------------


def scaled(rows):
    """The rows, scaled as a front does, on which members are fitted."""
    return StandardScaler().fit(rows.X)


def linears_behind(rows, scaler):
    return [
        linear(scaler.transform(X), y, None, seed)
        for seed, (X, y) in enumerate(rows.local)
    ]


def mlps_behind(rows, scaler):
    return [
        mlp(scaler.transform(X), y, (8,), seed)
        for seed, (X, y) in enumerate(rows.local)
    ]


def mixed_columns():
    """Numbers and texts of a table, each with steps of their own."""
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    texts = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    return ColumnTransformer(
        [
            ("numbers", numbers, ColumnsOf("numbers")),
            ("texts", texts, ColumnsOf("texts")),
        ]
    )


def listed_columns():
    """The same where the table's columns are known."""
    scaling = make_pipeline(SimpleImputer(), StandardScaler())
    bending = make_pipeline(SimpleImputer(), PowerTransformer())
    texts = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    return ColumnTransformer(
        [
            ("bill", scaling, ["bill_length_mm", "bill_depth_mm"]),
            ("mass", bending, ["body_mass_g"]),
            ("sex", texts, ["sex"]),
        ]
    )


def quantile_bins():
    bins = KBinsDiscretizer(3, encode="ordinal")
    if "quantile_method" in bins.get_params():  # scikit-learn 1.7 and later
        bins.set_params(quantile_method="averaged_inverted_cdf")
    return bins


def backbone(rows=HOMOGENEOUS):
    """Layers of a net, of seeded weights, and nets that have them."""
    nets = convolutional_nets(rows, 4)
    layers = nets[0].module_.state_dict()
    for k, net in enumerate(nets):
        heads = {
            name: value
            for name, value in net.module_.state_dict().items()
            if "output" in name
        }
        net.module_.load_state_dict({**layers, **(heads if k else {})})
        net.module_.eval()
    return Backbone(nets[0]), nets


def images(rows=HOMOGENEOUS):
    """Rows of float32, as nets take them."""
    return type(rows)(
        rows.local,
        rows.X.astype(np.float32),
        rows.y,
        rows.nodes,
        rows.X_test.astype(np.float32),
    )


def linears_of_layers(front, rows=HOMOGENEOUS):
    """Linear members that were fitted to what comes out of a backbone."""
    layers = clone(front).fit(images(rows).X)
    return [
        linear(layers.transform(X.astype(np.float32)), y, None, seed)
        for seed, (X, y) in enumerate(rows.local)
    ]


def of_a_backbone(make):
    front, nets = backbone()
    return of(make(nets, front), images())


def side_by_side():
    """The layers of two nets, and the columns' cosines."""
    nets = convolutional_nets(HOMOGENEOUS, 4)
    front = FeatureUnion([(str(k), Backbone(net)) for k, net in enumerate(nets[:2])])
    return of(
        PooledAggregator(pooled=LinearDiscriminantAnalysis(), front=front), images()
    )


# ---- the table ----------------------------------------------------------------

# Digits over 16 lie there.
UNIT = (0.0, 1.0)
BOUNDS = {
    "bill_length_mm": (30.0, 60.0),
    "bill_depth_mm": (10.0, 25.0),
    "flipper_length_mm": (150.0, 250.0),
    "body_mass_g": (2000.0, 7000.0),
}
FEW = PCA(5, svd_solver="full")

ALONE = {
    "scaler": StandardScaler(),
    "scaler without mean": StandardScaler(with_mean=False),
    "pca": FEW,
    "pca whitened": PCA(5, svd_solver="covariance_eigh", whiten=True),
    "normalizer": Normalizer(),
    "powers": PowerTransformer(),
    "powers not standardized": PowerTransformer(standardize=False),
    "cosines": RandomFeatures(20, random_state=0),
    "units": RandomFeatures(20, kind="relu", passthrough=False, random_state=1),
    "rbf": RBFSampler(gamma=0.1, n_components=20, random_state=0),
    "rbf scale": RBFSampler(gamma="scale", n_components=20, random_state=0),
    "polynomials": PolynomialCountSketch(n_components=20, random_state=0),
    "chi2": SkewedChi2Sampler(n_components=20, random_state=0),
    "pipeline": make_pipeline(StandardScaler(), FEW, RandomFeatures(9, random_state=0)),
    "union": FeatureUnion([("few", FEW), ("scaled", StandardScaler())]),
}
# Over agreed bounds.
BOUNDED = {
    "minmax": MinMaxScaler(),
    "maxabs": MaxAbsScaler(),
    "robust": RobustScaler(),
    "quantiles": QuantileTransformer(n_quantiles=20),
    "quantiles normal": QuantileTransformer(
        n_quantiles=20, output_distribution="normal"
    ),
    "bins": KBinsDiscretizer(3, strategy="uniform", encode="onehot-dense"),
    "bins of quantiles": quantile_bins(),
    "splines": SplineTransformer(3, degree=2),
    "splines of quantiles": SplineTransformer(3, degree=2, knots="quantile"),
}
ENCODER = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
TEXTS = {
    "onehot": ENCODER,
    "onehot listed": OneHotEncoder(
        categories=[["female", "male"]], handle_unknown="ignore", sparse_output=False
    ),
    "onehot infrequent": OneHotEncoder(
        min_frequency=70, handle_unknown="infrequent_if_exist", sparse_output=False
    ),
    "ordinal": OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
    "most frequent": make_pipeline(SimpleImputer(strategy="most_frequent"), ENCODER),
    "constant": make_pipeline(
        SimpleImputer(strategy="constant", fill_value="unknown"), ENCODER
    ),
}

CASES = {
    **{name: lambda t=step: fit(t) for name, step in ALONE.items()},
    **{
        f"{name} between bounds": lambda t=step: fit_numbers(
            make_pipeline(SimpleImputer(), t), bounds=BOUNDS
        )
        for name, step in BOUNDED.items()
    },
    "robust of one bound": lambda: fit(RobustScaler(), bounds=UNIT),
    "imputer mean": lambda: fit_numbers(SimpleImputer()),
    "imputer indicator": lambda: fit_numbers(SimpleImputer(add_indicator=True)),
    "imputer median": lambda: fit_numbers(
        SimpleImputer(strategy="median"), bounds=BOUNDS
    ),
    "powers of numbers": lambda: fit_numbers(PowerTransformer()),
    **{name: lambda t=step: fit_texts(t) for name, step in TEXTS.items()},
    "columns by what they hold": lambda: fit(mixed_columns(), penguins()),
    "columns by name": lambda: fit(listed_columns(), penguins()),
    "identifiers": lambda: fit_numbered_rows(),
    "sparse scaler": lambda: fit_sparse(StandardScaler(with_mean=False)),
    "held out": lambda: fit_held_out(make_pipeline(StandardScaler(), FEW)),
    "summaries": lambda: fit_summaries(StandardScaler()),
    "summaries pca": lambda: fit_summaries(FEW),
    "wire": lambda: fit_over_a_wire(make_pipeline(StandardScaler(), FEW)),
    "wire of a table": lambda: fit_over_a_wire(mixed_columns(), penguins()),
    # Before an aggregator.
    "linear": lambda: of(
        GEMSLogisticAggregator(
            linears_behind(HOMOGENEOUS, scaled(HOMOGENEOUS)), front=StandardScaler()
        )
    ),
    "linear consensus": lambda: of(
        GEMSLogisticAggregator(
            linears_behind(HOMOGENEOUS, scaled(HOMOGENEOUS)),
            front=StandardScaler(),
            intersection="consensus",
            spaces=Spaces(on_empty="ignore"),
        )
    ),
    "linear of rows alone": lambda: of(
        GEMSLogisticAggregator([None] * 3, front=ALONE["pipeline"])
    ),
    "linear of a table": lambda: of(
        GEMSLogisticAggregator([None] * 3, front=mixed_columns()), penguins()
    ),
    "linear simulation": lambda: of(
        GEMSLogisticAggregator(
            LogisticRegression(solver="newton-cg", tol=1e-10), front=FEW
        )
    ),
    "linear in three messages": lambda: over_a_wire(
        GEMSLogisticAggregator(front=StandardScaler(), n_rounds=3)
    ),
    "bins that join": lambda: of(
        PooledAggregator(
            pooled=LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1),
            front=PooledTransformer(
                KBinsDiscretizer(8, strategy="uniform", encode="ordinal"), bounds=UNIT
            ),
            disclosure=Disclosure(),
        )
    ),
    "linear exported": lambda: exported(make_pipeline(StandardScaler(), FEW)),
    "linear behind files": lambda: behind_agreed_files(StandardScaler()),
    "mlp": lambda: of(
        GEMSMLPAggregator(
            mlps_behind(HOMOGENEOUS, scaled(HOMOGENEOUS)),
            front=StandardScaler(),
            local_epochs=0,
        )
    ),
    "pfnm": lambda: of(
        PFNMAggregator(
            mlps_behind(HOMOGENEOUS, scaled(HOMOGENEOUS)), front=StandardScaler()
        )
    ),
    "averaging": lambda: of(
        ModelAveragingAggregator(
            linears_behind(HOMOGENEOUS, scaled(HOMOGENEOUS)), front=StandardScaler()
        )
    ),
    "averaging rounds": lambda: of(
        ModelAveragingAggregator(
            mlps_behind(HOMOGENEOUS, scaled(HOMOGENEOUS)),
            front=StandardScaler(),
            n_rounds=2,
            local_epochs=1,
        )
    ),
    "averaging simulation": lambda: of(
        ModelAveragingAggregator(
            MLPClassifier((6,), batch_size=16, max_iter=3), front=FEW
        )
    ),
    "pooled": lambda: of(PooledAggregator(pooled=GaussianNB(), front=FEW)),
    "pooled of a table": lambda: of(
        PooledAggregator(pooled=LinearDiscriminantAnalysis(), front=listed_columns()),
        penguins(),
    ),
    "ensemble": lambda: of(
        EnsembleAggregator(
            linears_behind(HOMOGENEOUS, scaled(HOMOGENEOUS)), front=StandardScaler()
        )
    ),
    "hashed letters": lambda: of_letters(HashingVectorizer(n_features=32)),
    "hashed words": lambda: of_counted_words(),
    # Layers of nets.
    "backbone linear": lambda: of_a_backbone(
        lambda nets, front: GEMSLogisticAggregator(nets, front=front)
    ),
    "backbone pooled": lambda: of_a_backbone(
        lambda nets, front: PooledAggregator(
            pooled=LinearDiscriminantAnalysis(), front=front
        )
    ),
    "backbone averaging": lambda: of_a_backbone(
        lambda nets, front: ModelAveragingAggregator(nets, front=front)
    ),
    "backbone ensemble": lambda: of_a_backbone(
        lambda nets, front: EnsembleAggregator(linears_of_layers(front), front=front)
    ),
    "backbones side by side": lambda: side_by_side(),
}
