# SPDX-License-Identifier: BSD-3-Clause
"""Rows in chunks: the same summary as of all rows at once, in the memory of one."""

from __future__ import annotations

import tracemalloc
import warnings
from functools import cache

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.neural_network import MLPClassifier

from skgems import GEMSLogisticAggregator, ModelAveragingAggregator, PFNMAggregator
from skgems.federation import (
    ClassesLeftOutWarning,
    HeavyTailsWarning,
    RowsExposedWarning,
    Summary,
    VariancesOnlyWarning,
)
from skgems.local import Member, TooFewRowsError, heavy_tails
from skgems.moments import ClassMoments

N_ROWS = 9000
LABELS = np.array(["a", "b", "c", "d"])


@cache
def rows(n_rows=N_ROWS, n_features=7, seed=0):
    """Four classes, one of them rare; one feature is constant, one far from zero."""
    rng = np.random.default_rng(seed)
    y = rng.choice(4, size=n_rows, p=[0.5, 0.3, 0.17, 0.03])
    X = rng.normal(size=(n_rows, n_features)) * np.linspace(0.5, 2, n_features)
    X[:, :3] += rng.normal(size=(4, 3))[y]
    X[:, 1] += 0.8 * X[:, 0]
    X[:, 4] = 2.7
    X[:, 5] += 300.0
    return X, LABELS[y]


@cache
def classifier(class_weight=None):
    X, y = rows()
    return LogisticRegression(class_weight=class_weight, max_iter=300).fit(
        (X - [0, 0, 0, 0, 0, 300, 0]), y
    )


def chunked(X, y, *held_out, size=1000):
    """A function that gives rows in chunks of a size, or of the sizes."""
    sizes = [size] * (1 + len(y) // size) if isinstance(size, int) else size
    ends = np.minimum(np.cumsum(sizes), len(y))
    ends = np.append(ends, len(y))
    arrays = X, y, *held_out

    def chunks():
        for start, stop in zip([0, *ends[:-1]], ends, strict=True):
            yield tuple(own[start:stop] for own in arrays)

    return chunks


def reply(summary):
    """The reply about moments, about one origin, as arrays by name."""
    told = summary.message.content["answers"]["0"]["reply"]
    sums = ClassMoments.from_arrays(told["moments"])
    zero = np.zeros(sums.n_features)
    told = {k: v for k, v in told.items() if k != "moments"}
    for name in {"gradient", "gradients"} & set(told):
        own = told[name].copy()
        own[..., :-1, :] += sums.origin[:, None] * own[..., -1:, :]
        told[name] = own
    return told | vars(sums.about(zero))


def assert_equal(chunked, whole, tol=1e-8):
    ours, theirs = chunked.message.content, whole.message.content
    for key in ("name", "method", "settings"):
        assert ours[key] == theirs[key]
    for table in (ours["describe"]["rows"], ours["counts"]):
        other = theirs["describe"]["rows"] if "judging" in table else theirs["counts"]
        assert list(table) == list(other)
        for key, own in table.items():
            assert np.array_equal(own, other[key]), key
    ours, theirs = reply(chunked), reply(whole)
    assert set(ours) == set(theirs)
    for key, own in theirs.items():
        if isinstance(own, np.ndarray):
            assert ours[key].shape == own.shape, key
            size = np.abs(own).max(initial=0.0)
            assert np.abs(ours[key] - own).max(initial=0.0) <= tol * size, key
        elif isinstance(own, float):
            assert ours[key] == pytest.approx(own, rel=tol), key
        else:
            assert ours[key] == own, key


def both(X, y, *held_out, size=1000, clf=None, options=None, **settings):
    """The summary of chunks and of all rows, by one component a class."""
    agg = GEMSLogisticAggregator(
        random_state=0, **{"n_components": 1, "on_empty": "ignore", **settings}
    )
    clf, options = classifier() if clf is None else clf, options or {}
    mask = dict(zip(["held_out"], held_out, strict=False))
    whole = agg.summarize(clf, X, y, name="lyon", **mask, **options)
    chunks = chunked(X, y, *held_out, size=size)
    return agg.summarize(clf, name="lyon", chunks=chunks, **options), whole


@pytest.mark.parametrize(
    "size",
    [(0, 1, 2, 0, 0, 3000, 7, 0, 5000, 0), 1000, 4999, N_ROWS],
    ids=["uneven and empty", "even", "two", "one"],
)
@pytest.mark.parametrize("kind", ["class", "shared", "diagonal", "auto"])
def test_a_summary_of_chunks_is_that_of_all_rows(kind, size):
    X, y = rows()
    assert_equal(*both(X, y, size=size, moments=kind))


def test_chunks_of_one_row():
    X, y = rows()
    X, y = X[:700], y[:700]
    assert_equal(*both(X, y, size=1))
    # Of integers, which are the same in any number of digits.
    whole = np.round(100 * X)
    assert_equal(*both(whole, y, size=1))
    assert_equal(*both(whole.astype(int), y, size=1))


@pytest.mark.parametrize("class_weight", ["members", "balanced", {"a": 2.0, "d": 0.5}])
@pytest.mark.parametrize("model", [None, "balanced"])
def test_class_weights(class_weight, model):
    X, y = rows()
    pair = both(X, y, class_weight=class_weight, clf=classifier(model))
    assert_equal(*pair)
    plain = both(X, y)[0]
    changes = class_weight != "members" or model is not None
    keys = {"gradients", "gradient"} & set(reply(pair[0]))
    assert changes == (
        "gradients" in keys
        or not np.allclose(reply(pair[0])["gradient"], reply(plain)["gradient"])
    )


def test_rows_that_are_held_out():
    X, y = rows()
    held_out = np.random.default_rng(1).random(len(y)) < 0.2
    held_out[y == "d"] = True  # a class that only judges
    pair = both(X, y, held_out)
    assert_equal(*pair)
    assert reply(pair[0])["labels"] == ["a", "b", "c"]
    told = pair[0].message.content["describe"]["rows"]
    assert told["labels"] == ["a", "b", "c", "d"]
    assert told["judging"].tolist() == [
        int(held_out[y == label].sum()) for label in LABELS
    ]
    # A mask may be missing where nothing is held out.
    parts = [(X[:4000], y[:4000]), (X[4000:], y[4000:], held_out[4000:])]
    held_out[:4000] = False
    agg = GEMSLogisticAggregator(n_components=1, random_state=0)
    ours = agg.summarize(classifier(), name="lyon", chunks=lambda: parts)
    assert_equal(
        ours, agg.summarize(classifier(), X, y, name="lyon", held_out=held_out)
    )


@pytest.mark.parametrize("kind", ["class", "shared"])
def test_classes_that_are_too_small_for_a_mean(kind):
    X, y = rows()
    X, y = X[:3000], y[:3000]
    n_rare = int((y == "d").sum())
    settings = {"moments": kind, "min_cluster_size": n_rare + 1}
    assert_equal(*both(X, y, **settings))
    # Two of them share a matrix, if together they are enough.
    y = np.where((y == "c") & (np.arange(3000) % 8 > 0), "a", y)
    settings["min_cluster_size"] = max(n_rare, int((y == "c").sum())) + 1
    pair = both(X, y, **settings)
    assert_equal(*pair)
    if kind == "class":
        assert reply(pair[0])["groups"].tolist() == [0, 1, -1]


@pytest.mark.parametrize("n_components", [1, 16])
def test_nothing_that_is_sent_depends_on_rows_of_classes_that_are_left_out(
    n_components,
):
    X, y = rows()
    few = np.flatnonzero(y == "d")
    some = np.sort(np.concatenate([np.flatnonzero(y != "d"), few[:9]]))
    X, y = X[some].copy(), y[some]
    agg = GEMSLogisticAggregator(n_components=n_components, random_state=0)

    def told(X, y):
        with pytest.warns(ClassesLeftOutWarning, match=r"\{'d': 9\}"):
            return agg.summarize(classifier(), name="lyon", chunks=chunked(X, y))

    first = told(X, y)
    X[y == "d"] = 77.0
    order = np.concatenate([np.flatnonzero(y == "d"), np.flatnonzero(y != "d")])
    for other in (told(X, y), told(X[order], y[order])):
        assert_equal(other, first, tol=1e-13)
    with pytest.warns(ClassesLeftOutWarning):
        whole = agg.summarize(classifier(), X, y, name="lyon")
    if n_components == 1:
        assert_equal(first, whole)
    assert reply(first)["labels"] == list(LABELS)
    assert first.row_counts["labels"] == ["a", "b", "c"]


@pytest.mark.parametrize("n_components", [1, 16])
def test_sparse_rows(n_components):
    X, y = rows()
    X = np.where(np.abs(X) < 1.0, 0.0, X)
    X[:, 5] = 0.0
    ours, whole = both(csr_matrix(X), y, n_components=n_components, size=999)
    if n_components == 1:
        assert_equal(ours, whole)
    dense, _ = both(X, y, n_components=n_components, size=999)
    assert_equal(ours, dense, tol=1e-6)


def test_float32_rows_are_summed_in_their_digits():
    X, y = rows()
    X = X.astype(np.float32)
    assert_equal(*both(X, y), tol=1e-5)


@pytest.mark.parametrize("clf", [RidgeClassifier(), LinearDiscriminantAnalysis()])
def test_functions_of_sums_stay_exact(clf):
    X, y = rows()
    X = X[:, [0, 1, 2, 3, 6]]  # of constants scikit-learn's own sums lose digits
    parts = [np.arange(0, N_ROWS, 2), np.arange(1, N_ROWS, 2)]
    agg = GEMSLogisticAggregator(n_components=1, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        agg.set_params(
            estimators=[
                agg.summarize(
                    clf.fit(X[own], y[own]), name=name, chunks=chunked(X[own], y[own])
                )
                for name, own in zip("ab", parts, strict=True)
            ]
        )
        pooled = clf.fit(X, y).decision_function(X)
    agg.fit()
    ours = agg.decision_function(X)
    assert agg.pooled_form_ is not None
    np.testing.assert_allclose(ours, pooled, atol=1e-7 * np.abs(pooled).max())


def test_fewer_digits_and_ranks():
    X, y = rows()
    for options in ({"dtype": "float32"}, {"rank": 2}):
        assert_equal(*both(X, y, options=options), tol=1e-5)


@pytest.mark.filterwarnings("ignore::skgems.federation.RowsExposedWarning")
def test_fewer_rows_than_features_send_roots():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(150, 220)), np.repeat([0, 1], 75)
    clf = LogisticRegression().fit(X, y)
    pair = both(X, y, clf=clf, size=40)
    assert reply(pair[0])["roots"] is not None
    assert_equal(*pair)


@pytest.mark.filterwarnings("ignore::skgems.federation.UnseenClassesWarning")
def test_models_of_one_class_or_of_other_ones():
    X, y = rows()
    some = y != "c"
    clf = LogisticRegression(max_iter=300).fit(X[some] - X.mean(axis=0), y[some])
    assert_equal(*both(X, y, clf=clf))
    constant = DummyClassifier(strategy="most_frequent").fit(X[y == "a"], y[y == "a"])
    pair = both(X, y, clf=constant)
    assert_equal(*pair)
    assert "factor" not in reply(pair[0])


@pytest.mark.parametrize("n_components", [1, 16])
def test_a_fit_on_summaries_of_chunks(n_components):
    X, y = rows()
    own = np.arange(N_ROWS) % 3
    told = {"whole": [], "chunks": []}
    agg = GEMSLogisticAggregator(n_components=n_components, random_state=0)
    for k in range(3):
        A, b = X[own == k], y[own == k]
        clf = LogisticRegression(max_iter=300).fit(A - A.mean(axis=0), b)
        told["whole"].append(agg.summarize(clf, A, b, name=str(k)))
        told["chunks"].append(
            agg.summarize(clf, name=str(k), chunks=chunked(A, b, size=700))
        )
    weights, scores = {}, {}
    for key, summaries in told.items():
        found = GEMSLogisticAggregator(
            summaries, n_components=n_components, random_state=0
        ).fit()
        weights[key], scores[key] = found.coef_, found.score(X, y)
    if n_components == 1:
        size = np.abs(weights["whole"]).max()
        np.testing.assert_allclose(
            weights["chunks"], weights["whole"], atol=1e-8 * size
        )
    assert abs(scores["chunks"] - scores["whole"]) < 0.005


@pytest.mark.parametrize("kind", ["class", "shared", "diagonal"])
def test_clusters_sum_to_what_all_rows_do(kind):
    X, y = rows()
    ours, whole = both(X, y, n_components=16, moments=kind)
    sums = [
        ClassMoments.from_arrays(
            own.message.content["answers"]["0"]["reply"]["moments"]
        )
        for own in (ours, whole)
    ]
    # As many as of all rows, and no cluster is smaller than it may be.
    assert len(sums[0].counts) > 0.7 * len(sums[1].counts) > 30
    assert sums[0].counts.min() >= 10
    assert sums[0].part_squares.min() >= 0.0
    # A cluster is nearer to its mean than a class.
    within = [own.part_squares.sum() for own in sums]
    assert within[0] < 1.1 * within[1]
    of_classes = [own.by_class().about(np.zeros(7)) for own in sums]
    for name in ("counts", "means", "scatter", "squares", "part_squares"):
        own, other = (getattr(moments, name) for moments in of_classes)
        assert (own is None) == (other is None)
        if own is not None:
            np.testing.assert_allclose(own, other, atol=1e-9 * np.abs(other).max())


def test_clusters_do_not_depend_on_how_rows_are_cut():
    X, y = rows()
    agg = GEMSLogisticAggregator(random_state=0)
    told = [
        agg.summarize(classifier(), name="a", chunks=chunked(X, y, size=size))
        for size in (700, N_ROWS)
    ]
    assert_equal(*told, tol=1e-9)


def test_clusters_of_few_rows_go_to_the_nearest():
    rng = np.random.default_rng(0)
    far = rng.normal(size=(4, 2)) * 0.1 + [30.0, 0.0]
    farther = rng.normal(size=(30, 2)) * 0.1 + [45.0, 0.0]
    X = np.concatenate([rng.normal(size=(50, 2)) * 0.1, farther, far])
    y = np.concatenate([np.zeros(len(X), dtype=int), [1] * 20])
    X = np.concatenate([X, rng.normal(size=(20, 2)) * 0.1])[:, :1]
    clf = LogisticRegression().fit(X, y)
    agg = GEMSLogisticAggregator(n_components=3, random_state=0)
    told = reply(agg.summarize(clf, name="a", chunks=chunked(X, y, size=100)))
    own = told["columns"] == 0
    assert told["counts"][own].min() >= 10 and told["counts"][own].sum() == 84
    # The four are with the thirty, which are nearer than the others.
    assert 34 in told["counts"][own]


def test_factor_and_tails_are_those_of_the_same_rows_as_of_all():
    rng = np.random.default_rng(0)
    n_rows = 20_000
    y = np.where(rng.random(n_rows) < 0.9, "a", "b")
    X = rng.standard_t(1.5, size=(n_rows, 3)) + (y == "b")[:, None]
    clf = LogisticRegression().fit(X, y)
    with pytest.warns(HeavyTailsWarning) as caught:
        pair = both(X, y, clf=clf, size=1234)
    assert len({str(warning.message) for warning in caught}) == 1 < len(caught)
    assert reply(pair[0])["factor"] == reply(pair[1])["factor"]
    assert heavy_tails(Member.of("lyon", clf, X, y)) is not None


def test_rows_that_are_left_out_do_not_choose_those_of_the_factor():
    X, y = rows()
    some = np.flatnonzero(y != "d")[:4000]  # as many as it is fitted to
    some = np.sort(np.append(some, np.flatnonzero(y == "d")[:9]))
    with pytest.warns(ClassesLeftOutWarning):
        pair = both(X[some], y[some])
    assert reply(pair[0])["factor"] == reply(pair[1])["factor"]


def test_warnings_are_those_of_all_rows():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 50)), np.repeat([0, 1], 20)
    with pytest.warns(RowsExposedWarning) as caught:
        both(X, y, clf=LogisticRegression().fit(X, y), size=9)
    assert len({str(warning.message) for warning in caught}) == 1 < len(caught)
    X, y = csr_matrix((4200, 4100)), np.arange(4200) % 2
    model = LogisticRegression()
    model.classes_, model.coef_ = np.array([0, 1]), np.zeros((1, 4100))
    model.intercept_, model.n_features_in_ = np.zeros(1), 4100
    with pytest.warns(VariancesOnlyWarning) as caught:
        both(X, y, clf=model, size=2000)
    assert len({str(warning.message) for warning in caught}) == 1 < len(caught)


def test_networks_and_averages_take_chunks(tmp_path):
    X, y = rows()
    A = (X - X.mean(axis=0))[:1500]
    net = MLPClassifier((5,), max_iter=5, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        net.fit(A, y[:1500])
    for agg in (PFNMAggregator(), ModelAveragingAggregator()):
        whole = agg.summarize(net, A, y[:1500], name="a")
        chunks = chunked(A, y[:1500], size=400)
        ours = agg.summarize(net, name="a", chunks=chunks)
        assert isinstance(ours, Summary)
        assert ours.message.to_bytes() == whole.message.to_bytes()


# ---- refusals -------------------------------------------------------------------


def summarize(chunks, clf=None, **options):
    agg = GEMSLogisticAggregator(random_state=0, **options.pop("settings", {}))
    clf = classifier() if clf is None else clf
    return agg.summarize(clf, name="lyon", chunks=chunks, **options)


def changed(index, value):
    """Chunks of which one is another."""
    X, y = rows()
    parts = [(X[k : k + 1000], y[k : k + 1000]) for k in range(0, 5000, 1000)]
    parts[index] = value(*parts[index])
    return lambda: iter(parts)


def _with_nan(X, y):
    X = X.copy()
    X[3, 2] = np.nan
    return X, y


@pytest.mark.parametrize(
    "value, kind, words",
    [
        (_with_nan, ValueError, "contains NaN"),
        (lambda X, y: (X[:, :5], y), ValueError, "5 features.*fitted on 7"),
        (lambda X, y: (X, y[:-1]), ValueError, "inconsistent numbers of samples"),
        (lambda X, y: (X, np.arange(1000)), TypeError, r"types \['int', 'str'\]"),
        (lambda X, y: (X, X[:, 0]), ValueError, "continuous"),
        (lambda X, y: (X, y.astype(object) == "a"), TypeError, r"\['bool', 'str'\]"),
        (lambda X, y: X, TypeError, r"pair \(X, y\), or \(X, y, held_out\).*ndarray"),
        (lambda X, y: (X, y, y == "a", y), TypeError, "got tuple"),
        (lambda X, y: (X, y, np.ones(3)), ValueError, "inconsistent numbers"),
        (lambda X, y: (X, y, np.full(1000, 2)), ValueError, "held_out must be a mask"),
        (lambda X, y: (X.astype(np.float32), y), ValueError, "one dtype"),
        (lambda X, y: (csr_matrix(X), y), ValueError, "sparse or not"),
        (lambda X, y: (X, y[:, None] == [["a", "b"]]), ValueError, "1d|shape"),
        (
            lambda X, y: (np.where(X > 9, "x", "z"), y),
            ValueError,
            "X has columns of text, .*front=",
        ),
    ],
)
@pytest.mark.parametrize("index", [1, 4])
def test_errors_name_node_and_chunk(value, kind, words, index):
    with pytest.raises(kind, match=f"(?s)^Node 'lyon', chunk {index}: .*{words}"):
        summarize(changed(index, value))


def test_what_a_reader_raises_is_told_with_node_and_chunk():
    X, y = rows()

    def chunks():
        yield X, y
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone") as failure:
        summarize(chunks)
    assert failure.value.__notes__ == ["Node 'lyon': chunk 1 could not be read."]


def test_chunks_must_be_the_same_each_time():
    X, y = rows()
    words = r"^Node 'lyon': chunks\(\) gave other rows the second time, \{.*\} of each"
    once = iter([(X, y)])
    with pytest.raises(ValueError, match=words):
        summarize(lambda: once)
    for second in (
        (X[:-1], y[:-1]),
        (np.vstack([X, X[:1]]), np.append(y, "e")),
        (X, np.where(np.arange(len(y)) == 0, "z", y)),
        (X, y, np.arange(len(y)) < 10),
        (X, y[::-1][:-1].tolist() + ["b" if y[0] != "b" else "c"]),
    ):
        passes = iter([[(X, y)], [second]])
        with pytest.raises(ValueError, match=words):
            summarize(lambda passes=passes: next(passes))


def test_chunks_stand_alone():
    X, y = rows()
    for given in ({"X": X}, {"y": y}, {"held_out": y == "a"}, {"X": X, "y": y}):
        with pytest.raises(ValueError, match=r"'lyon': chunks\(\) gives.*got \["):
            summarize(chunked(X, y), **given)
    for given in ({}, {"X": X}, {"y": y}):
        with pytest.raises(ValueError, match="'lyon': give X and y, or chunks="):
            summarize(None, **given)
    for wrong in ([(X, y)], iter([(X, y)]), 3):
        with pytest.raises(TypeError, match="chunks must be a function.*got "):
            summarize(wrong)
    with pytest.raises(ValueError, match="not fitted"):
        summarize(chunked(X, y), clf=LogisticRegression())


def test_spaces_need_all_rows_and_nothing_is_read_first():
    def never():
        raise AssertionError

    words = r"'lyon': good-enough spaces \(.*space.*\) need all rows at once"
    for given in (
        {"space": True},
        {"settings": {"epsilon": 0.9}},
        {"settings": {"intersection": "deepest"}},
    ):
        with pytest.raises(ValueError, match=words):
            summarize(never, **given)
    X, y = rows()
    assert summarize(chunked(X, y), space=False, settings={"epsilon": 0.9})


def test_there_must_be_rows_to_learn_from():
    X, y = rows()
    for empty in ([], [(X[:0], y[:0])], [([], [])]):
        with pytest.raises(ValueError, match=r"'lyon': chunks\(\) gave no rows"):
            summarize(lambda empty=empty: empty)
    with pytest.raises(ValueError, match="node 'lyon' has only rows that are held out"):
        summarize(chunked(X, y, np.ones(len(y), dtype=bool)))
    with pytest.raises(TooFewRowsError, match="fewer than min_rows=5000.*for judging"):
        summarize(chunked(X, y), min_rows=5000)
    held_out = y == "d"
    with pytest.raises(TooFewRowsError, match="for judging"):
        summarize(chunked(X, y, held_out), min_rows=1000)
    with pytest.raises(ValueError, match="no class has min_cluster_size=8000"):
        summarize(chunked(X, y), settings={"min_cluster_size": 8000})
    X = X.copy()
    X[5, 3] = 1e30
    with pytest.raises(ValueError, match="'lyon': its rows.*feature 3 is too large"):
        summarize(chunked(X, y))


# ---- memory ---------------------------------------------------------------------


@pytest.mark.parametrize("n_components", [1, 4])
def test_the_peak_of_memory_grows_with_a_chunk_and_not_with_their_number(n_components):
    n_features = 20
    rng = np.random.default_rng(0)
    means = rng.normal(size=(2, n_features))
    X, y = rng.normal(size=(400, n_features)), np.arange(400) % 2
    clf = LogisticRegression().fit(X + means[y], y)

    def peak(n_chunks, size):
        def chunks():
            rng = np.random.default_rng(1)
            for _ in range(n_chunks):
                y = np.arange(size) % 2
                yield rng.normal(size=(size, n_features)) + means[y], y

        agg = GEMSLogisticAggregator(n_components=n_components, random_state=0)
        tracemalloc.start()
        agg.summarize(clf, name="a", chunks=chunks)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    peak(2, 1000)
    few, many = peak(4, 20_000), peak(24, 20_000)
    chunk = 20_000 * n_features * 8
    assert many < 1.1 * few
    # The rows while they are made, which here takes two, and a copy in blocks.
    assert few < 3.2 * chunk
    assert peak(4, 60_000) < 3.5 * few
