# SPDX-License-Identifier: BSD-3-Clause
"""Rows in chunks: the same summary as of all rows at once, in the memory of one."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import pytest
from helpers.disclosures import rule_of
from helpers.parts import in_parts
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.neural_network import MLPClassifier

from skgems import GEMSLogisticAggregator, ModelAveragingAggregator, PFNMAggregator
from skgems.asking import HeavyTailsWarning, VariancesOnlyWarning
from skgems.gems import Moments
from skgems.local import TooFewRowsError
from skgems.moments import ClassMoments
from skgems.parties import ClassesLeftOutWarning, Summary

# More than the 4000 that the factor is fitted to, and enough for four classes.
N_ROWS = 5000
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


def chunked(X, y, held_out=None, *, size=1000):
    """A function that gives rows in chunks of one size, or of a list of sizes."""
    sizes = [size] * (1 + len(y) // size) if isinstance(size, int) else size
    stops = np.append(np.minimum(np.cumsum(sizes), len(y)), len(y))
    starts = [0, *stops[:-1]]

    def chunks():
        for start, stop in zip(starts, stops, strict=True):
            if held_out is None:
                yield X[start:stop], y[start:stop]
            else:
                yield X[start:stop], y[start:stop], held_out[start:stop]

    return chunks


def moments_reply(summary):
    """Arrays of the reply about moments by their names, about the origin 0."""
    reply = dict(summary.message.content["answers"]["0"]["reply"])
    sums = ClassMoments.from_content(reply.pop("moments"))
    for name in {"gradient", "gradients"} & set(reply):
        gradient = reply[name].copy()
        gradient[..., :-1, :] += sums.origin[:, None] * gradient[..., -1:, :]
        reply[name] = gradient
    return reply | vars(sums.with_origin(np.zeros(sums.n_features)))


def assert_same_summary(summary, expected, tol=1e-8):
    content = summary.message.content
    expected_content = expected.message.content
    for field in ("name", "method", "settings"):
        assert content[field] == expected_content[field]
    assert_same_arrays(content["counts"], expected_content["counts"])
    assert_same_arrays(
        content["describe"]["rows"], expected_content["describe"]["rows"]
    )
    assert_close_replies(moments_reply(summary), moments_reply(expected), tol=tol)


def assert_same_arrays(arrays, expected):
    assert list(arrays) == list(expected)
    for name, array in expected.items():
        assert np.array_equal(arrays[name], array), name


def assert_close_replies(reply, expected, tol):
    """Arrays are close by the largest number of each, numbers by their size."""
    assert set(reply) == set(expected)
    for name, field in expected.items():
        if isinstance(field, np.ndarray):
            assert reply[name].shape == field.shape, name
            largest = np.abs(field).max(initial=0.0)
            difference = np.abs(reply[name] - field).max(initial=0.0)
            assert difference <= tol * largest, name
        elif isinstance(field, float):
            assert reply[name] == pytest.approx(field, rel=tol), name
        else:
            assert reply[name] == field, name


def summaries(
    X, y, held_out=None, *, size=1000, clf=None, disclosure="auto", **settings
):
    """The summary of chunks and that of all rows, by one component a class."""
    quick = {"random_state": 0, "on_empty": "ignore", "n_components": 1}
    agg = GEMSLogisticAggregator(**in_parts(quick | settings))
    clf = classifier() if clf is None else clf
    options = {"name": "lyon", "disclosure": disclosure}
    of_rows = agg.summarize(clf, X, y, held_out=held_out, **options)
    chunks = chunked(X, y, held_out, size=size)
    return agg.summarize(clf, chunks=chunks, **options), of_rows


def assert_chunks_give_the_same(X, y, *, tol=1e-8, **options):
    of_chunks, of_rows = summaries(X, y, **options)
    assert_same_summary(of_chunks, of_rows, tol=tol)


@pytest.mark.parametrize("kind", ["class", "shared", "diagonal", "auto"])
def test_a_summary_of_chunks_is_that_of_all_rows(kind):
    X, y = rows()
    uneven_and_empty = (0, 1, 2, 0, 0, 3000, 7, 0, 1500, 0)
    assert_chunks_give_the_same(X, y, size=uneven_and_empty, moments=kind)


@pytest.mark.parametrize("size", [1000, 4999, N_ROWS], ids=["even", "two", "one"])
def test_a_summary_of_chunks_of_any_size_is_that_of_all_rows(size):
    X, y = rows()
    assert_chunks_give_the_same(X, y, size=size)


@cache
def few_rows():
    """So few rows, twenty of each class, that each can be a chunk."""
    X, y = rows()
    chosen = [np.flatnonzero(y == label)[:20] for label in LABELS]
    chosen = np.sort(np.concatenate(chosen))
    return X[chosen], y[chosen]


def test_chunks_may_be_of_one_row():
    X, y = few_rows()
    assert_chunks_give_the_same(X, y, size=1)


@pytest.mark.parametrize("dtype", [float, int])
def test_chunks_may_be_of_whole_numbers(dtype):
    X, y = few_rows()
    assert_chunks_give_the_same(np.round(100 * X).astype(dtype), y, size=1)


@cache
def reply_without_weights():
    return moments_reply(summaries(*rows())[0])


@pytest.mark.parametrize(
    ("class_weight", "weight_of_model"),
    [
        ("members", None),
        ("members", "balanced"),
        ("balanced", None),
        ({"a": 2.0, "d": 0.5}, "balanced"),
    ],
)
def test_class_weights_count_in_chunks_as_in_all_rows(class_weight, weight_of_model):
    X, y = rows()
    of_chunks, of_rows = summaries(
        X, y, class_weight=class_weight, clf=classifier(weight_of_model)
    )
    assert_same_summary(of_chunks, of_rows)
    weighted = moments_reply(of_chunks)
    plain = reply_without_weights()
    has_other_gradient = "gradients" in weighted or not np.allclose(
        weighted["gradient"], plain["gradient"]
    )
    # Members without weights of their own are not weighed.
    is_weighted = class_weight != "members" or weight_of_model is not None
    assert has_other_gradient == is_weighted


def some_held_out(y):
    """A mask of a fifth of the rows, and of all of class "d", which only judges."""
    held_out = np.random.default_rng(1).random(len(y)) < 0.2
    held_out[y == "d"] = True
    return held_out


def test_rows_that_are_held_out_only_judge():
    X, y = rows()
    held_out = some_held_out(y)
    of_chunks, of_rows = summaries(X, y, held_out)
    assert_same_summary(of_chunks, of_rows)
    assert moments_reply(of_chunks)["labels"] == ["a", "b", "c"]
    row_counts = of_chunks.message.content["describe"]["rows"]
    assert row_counts["labels"] == ["a", "b", "c", "d"]
    assert row_counts["judging"].tolist() == [
        int(held_out[y == label].sum()) for label in LABELS
    ]


def test_a_chunk_without_a_mask_has_no_rows_held_out():
    X, y = rows()
    held_out = some_held_out(y)
    held_out[:4000] = False
    chunks = [(X[:4000], y[:4000]), (X[4000:], y[4000:], held_out[4000:])]
    agg = GEMSLogisticAggregator(moments=Moments(n_components=1), random_state=0)
    of_chunks = agg.summarize(classifier(), name="lyon", chunks=lambda: chunks)
    assert_same_summary(
        of_chunks, agg.summarize(classifier(), X, y, name="lyon", held_out=held_out)
    )


@pytest.mark.parametrize("n_components", [1, 16])
def test_nothing_that_is_sent_depends_on_rows_of_classes_that_are_left_out(
    n_components,
):
    X, y = rows()
    rare = np.flatnonzero(y == "d")
    chosen = np.sort(np.concatenate([np.flatnonzero(y != "d"), rare[:9]]))
    X = X[chosen]  # a copy, which is changed below
    y = y[chosen]
    agg = GEMSLogisticAggregator(
        moments=Moments(n_components=n_components), random_state=0
    )

    def summarized(X, y):
        with pytest.warns(ClassesLeftOutWarning, match=r"\{'d': 9\}"):
            return agg.summarize(classifier(), name="lyon", chunks=chunked(X, y))

    first = summarized(X, y)
    X[y == "d"] = 77.0
    order = np.concatenate([np.flatnonzero(y == "d"), np.flatnonzero(y != "d")])
    for with_other_rows in (summarized(X, y), summarized(X[order], y[order])):
        assert_same_summary(with_other_rows, first, tol=1e-13)
    with pytest.warns(ClassesLeftOutWarning):
        of_rows = agg.summarize(classifier(), X, y, name="lyon")
    if n_components == 1:
        assert_same_summary(first, of_rows)
    assert moments_reply(first)["labels"] == list(LABELS)
    assert first.row_counts["labels"] == ["a", "b", "c"]


@pytest.mark.parametrize("n_components", [1, 16])
def test_sparse_rows_give_the_summary_of_dense_ones(n_components):
    X, y = rows()
    y = y[:5000]
    X = np.where(np.abs(X[:5000]) < 1.0, 0.0, X[:5000])
    X[:, 5] = 0.0
    of_chunks, of_rows = summaries(
        csr_matrix(X), y, n_components=n_components, size=999
    )
    if n_components == 1:
        assert_same_summary(of_chunks, of_rows)
    of_dense_chunks, _ = summaries(X, y, n_components=n_components, size=999)
    assert_same_summary(of_chunks, of_dense_chunks, tol=1e-6)


def test_float32_rows_are_summed_in_their_digits():
    X, y = rows()
    X = X.astype(np.float32)
    assert_chunks_give_the_same(X, y, tol=1e-5)


@pytest.mark.parametrize("clf", [RidgeClassifier(), LinearDiscriminantAnalysis()])
def test_functions_of_sums_stay_exact(clf):
    X, y = rows()
    # Without the constant and the feature far from zero, whose sums lose digits in
    # scikit-learn's own fit.
    X = X[:, [0, 1, 2, 3, 6]]
    nodes = [np.arange(0, N_ROWS, 2), np.arange(1, N_ROWS, 2)]
    agg = GEMSLogisticAggregator(moments=Moments(n_components=1), random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        agg.set_params(
            estimators=[
                agg.summarize(
                    clf.fit(X[rows_of_node], y[rows_of_node]),
                    name=name,
                    chunks=chunked(X[rows_of_node], y[rows_of_node]),
                    disclosure=None,
                )
                for name, rows_of_node in zip("ab", nodes, strict=True)
            ]
        )
        pooled = clf.fit(X, y).decision_function(X)
    agg.fit()
    ours = agg.decision_function(X)
    assert agg.pooled_form_ is not None
    np.testing.assert_allclose(ours, pooled, atol=1e-7 * np.abs(pooled).max())


def test_fewer_rows_than_features_send_roots():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 270))
    y = np.repeat([0, 1], 75)
    clf = LogisticRegression().fit(X, y)
    of_chunks, of_rows = summaries(X, y, clf=clf, size=40, disclosure=None)
    assert moments_reply(of_chunks)["roots"] is not None
    assert_same_summary(of_chunks, of_rows)


@pytest.mark.filterwarnings("ignore::skgems.parties.UnseenClassesWarning")
def test_chunks_may_have_a_class_that_the_model_does_not_know():
    X, y = rows()
    is_known = y != "c"
    clf = LogisticRegression(max_iter=300).fit(
        X[is_known] - X.mean(axis=0), y[is_known]
    )
    assert_chunks_give_the_same(X, y, clf=clf)


@pytest.mark.filterwarnings("ignore::skgems.parties.UnseenClassesWarning")
def test_a_model_of_one_class_has_no_factor():
    X, y = rows()
    constant = DummyClassifier(strategy="most_frequent").fit(X[y == "a"], y[y == "a"])
    of_chunks, of_rows = summaries(X, y, clf=constant)
    assert_same_summary(of_chunks, of_rows)
    assert "factor" not in moments_reply(of_chunks)


@pytest.mark.filterwarnings("ignore::skgems.asking.ClassWeightWarning")
@pytest.mark.parametrize("n_components", [1, 16])
def test_a_fit_on_summaries_of_chunks_is_that_on_summaries_of_rows(n_components):
    X, y = rows()
    nodes = np.arange(N_ROWS) % 3
    agg = GEMSLogisticAggregator(
        moments=Moments(n_components=n_components), random_state=0
    )
    summaries_of_rows = []
    summaries_of_chunks = []
    for k in range(3):
        X_node = X[nodes == k]
        y_node = y[nodes == k]
        clf = LogisticRegression(max_iter=300)
        clf.fit(X_node - X_node.mean(axis=0), y_node)
        summaries_of_rows.append(agg.summarize(clf, X_node, y_node, name=str(k)))
        chunks = chunked(X_node, y_node, size=700)
        summaries_of_chunks.append(agg.summarize(clf, name=str(k), chunks=chunks))
    of_rows = clone(agg).set_params(estimators=summaries_of_rows).fit()
    of_chunks = clone(agg).set_params(estimators=summaries_of_chunks).fit()
    if n_components == 1:
        atol = 1e-8 * np.abs(of_rows.coef_).max()
        np.testing.assert_allclose(of_chunks.coef_, of_rows.coef_, atol=atol)
    assert abs(of_chunks.score(X, y) - of_rows.score(X, y)) < 0.005


@pytest.mark.parametrize("kind", ["class", "shared", "diagonal"])
def test_clusters_of_chunks_have_the_sums_of_all_rows(kind):
    X, y = rows()
    sums_of_chunks, sums_of_rows = (
        ClassMoments.from_content(
            summary.message.content["answers"]["0"]["reply"]["moments"]
        )
        for summary in summaries(X, y, n_components=16, moments=kind, disclosure=None)
    )
    # As many as of all rows, and no cluster is smaller than it may be.
    assert len(sums_of_chunks.counts) > 0.7 * len(sums_of_rows.counts) > 30
    assert sums_of_chunks.counts.min() >= 10
    assert sums_of_chunks.part_squares.min() >= 0.0
    # Rows are nearly as near to the means of their clusters.
    within_clusters = sums_of_chunks.part_squares.sum()
    assert within_clusters < 1.1 * sums_of_rows.part_squares.sum()
    by_class = sums_of_chunks.by_class().with_origin(np.zeros(7))
    expected_by_class = sums_of_rows.by_class().with_origin(np.zeros(7))
    for name in ("counts", "means", "scatter", "squares", "part_squares"):
        array = getattr(by_class, name)
        expected = getattr(expected_by_class, name)
        assert (array is None) == (expected is None)
        if expected is not None:
            atol = 1e-9 * np.abs(expected).max()
            np.testing.assert_allclose(array, expected, atol=atol)


def test_clusters_do_not_depend_on_how_rows_are_cut():
    X, y = rows()
    agg = GEMSLogisticAggregator(random_state=0)
    of_many, of_one = (
        agg.summarize(classifier(), name="a", chunks=chunked(X, y, size=size))
        for size in (700, N_ROWS)
    )
    assert_same_summary(of_many, of_one, tol=1e-9)


def test_clusters_of_few_rows_go_to_the_nearest():
    rng = np.random.default_rng(0)
    four_at_30 = rng.normal(size=(4, 2)) * 0.1 + [30.0, 0.0]
    thirty_at_45 = rng.normal(size=(30, 2)) * 0.1 + [45.0, 0.0]
    fifty_at_0 = rng.normal(size=(50, 2)) * 0.1
    second_class = rng.normal(size=(20, 2)) * 0.1
    X = np.concatenate([fifty_at_0, thirty_at_45, four_at_30, second_class])[:, :1]
    y = np.repeat([0, 1], [84, 20])
    clf = LogisticRegression().fit(X, y)
    agg = GEMSLogisticAggregator(moments=Moments(n_components=3), random_state=0)
    reply = moments_reply(
        agg.summarize(clf, name="a", chunks=chunked(X, y, size=100), disclosure=None)
    )
    is_first_class = reply["columns"] == 0
    counts = reply["counts"][is_first_class]
    assert counts.min() >= 10 and counts.sum() == 84
    # Four are less than the ten of a cluster, and nearer to the thirty than to the
    # fifty.
    assert 34 in counts


def test_factor_and_tails_are_those_of_the_same_rows_as_of_all():
    rng = np.random.default_rng(0)
    n_rows = 20_000
    y = np.where(rng.random(n_rows) < 0.9, "a", "b")
    X = rng.standard_t(1.5, size=(n_rows, 3)) + (y == "b")[:, None]
    clf = LogisticRegression().fit(X, y)
    with pytest.warns(HeavyTailsWarning) as warned:
        of_chunks, of_rows = summaries(X, y, clf=clf, size=1234)
    assert_one_text(warned)
    assert moments_reply(of_chunks)["factor"] == moments_reply(of_rows)["factor"]
    assert moments_reply(of_chunks)["kurtosis"] == moments_reply(of_rows)["kurtosis"]


def test_rows_that_are_left_out_do_not_choose_those_of_the_factor():
    X, y = rows()
    chosen = np.flatnonzero(y != "d")[:4000]  # as many as it is fitted to
    chosen = np.sort(np.append(chosen, np.flatnonzero(y == "d")[:9]))
    with pytest.warns(ClassesLeftOutWarning):
        of_chunks, of_rows = summaries(X[chosen], y[chosen])
    assert moments_reply(of_chunks)["factor"] == moments_reply(of_rows)["factor"]


def assert_one_text(warned):
    """Several warnings, of chunks and of all rows, have the same text."""
    assert len({str(warning.message) for warning in warned}) == 1 < len(warned)


def test_a_warning_about_variances_is_that_of_all_rows():
    # So many features that only variances are sent.
    n_features = 4100
    X = csr_matrix((4200, n_features))
    y = np.arange(4200) % 2
    model = LogisticRegression()
    model.classes_ = np.array([0, 1])
    model.coef_ = np.zeros((1, n_features))
    model.intercept_ = np.zeros(1)
    model.n_features_in_ = n_features
    with pytest.warns(VariancesOnlyWarning) as warned:
        summaries(X, y, clf=model, size=2000, disclosure=None)
    assert_one_text(warned)


def test_networks_and_averages_take_chunks(tmp_path):
    X, y = rows()
    X = (X - X.mean(axis=0))[:1500]
    y = y[:1500]
    net = MLPClassifier((5,), max_iter=5, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        net.fit(X, y)
    for agg in (PFNMAggregator(), ModelAveragingAggregator()):
        of_rows = agg.summarize(net, X, y, name="a")
        of_chunks = agg.summarize(net, name="a", chunks=chunked(X, y, size=400))
        assert isinstance(of_chunks, Summary)
        assert of_chunks.message.to_bytes() == of_rows.message.to_bytes()


# ---- refusals -------------------------------------------------------------------


def summarize(chunks, clf=None, *, settings=None, **options):
    """A node's summary of chunks, by an aggregator with such settings."""
    agg = GEMSLogisticAggregator(random_state=0)
    agg.set_params(**(settings or {}))
    clf = classifier() if clf is None else clf
    return agg.summarize(clf, name="lyon", chunks=chunks, **options)


def chunks_with_a_wrong_one(index, make_wrong):
    """A function that gives five chunks, one of which has been made wrong."""
    X, y = rows()
    chunks = [(X[k : k + 1000], y[k : k + 1000]) for k in range(0, 5000, 1000)]
    X_right, y_right = chunks[index]
    chunks[index] = make_wrong(X_right, y_right)
    return lambda: iter(chunks)


def with_nan(X, y):
    X = X.copy()
    X[3, 2] = np.nan
    return X, y


@pytest.mark.parametrize(
    "make_wrong, error_type, words",
    [
        (with_nan, ValueError, "contains NaN"),
        (lambda X, y: (X[:, :5], y), ValueError, "5 features.*fitted on 7"),
        (lambda X, y: (X, y[:-1]), ValueError, "inconsistent numbers of samples"),
        (lambda X, y: (X, np.arange(1000)), TypeError, r"types \['int', 'str'\]"),
        (lambda X, y: (X, X[:, 0]), ValueError, "continuous"),
        (lambda X, y: (X, y.astype(object) == "a"), TypeError, r"\['bool', 'str'\]"),
        (lambda X, y: X, TypeError, r"pair \(X, y\), or \(X, y, held_out\).*ndarray"),
        (lambda X, y: (X, y, None, None, y), TypeError, "got tuple"),
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
def test_errors_name_node_and_chunk(make_wrong, error_type, words, index):
    match = f"(?s)^Node 'lyon', chunk {index}: .*{words}"
    with pytest.raises(error_type, match=match):
        summarize(chunks_with_a_wrong_one(index, make_wrong))


def test_an_error_of_the_reader_has_a_note_of_node_and_chunk():
    X, y = rows()

    def chunks():
        yield X, y
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone") as failure:
        summarize(chunks)
    assert failure.value.__notes__ == ["Node 'lyon': chunk 1 could not be read."]


def test_chunks_must_be_the_same_each_time():
    X, y = rows()
    words = r"^Node 'lyon': chunks\(\) gave other rows in the second pass: .* \{.*\}"
    once = iter([(X, y)])
    with pytest.raises(ValueError, match=words):
        summarize(lambda: once)
    for second_pass in (
        (X[:-1], y[:-1]),
        (np.vstack([X, X[:1]]), np.append(y, "e")),
        (X, np.where(np.arange(len(y)) == 0, "z", y)),
        (X, y, np.arange(len(y)) < 10),
        (X, y[::-1][:-1].tolist() + ["b" if y[0] != "b" else "c"]),
    ):
        passes = iter([[(X, y)], [second_pass]])
        with pytest.raises(ValueError, match=words):
            summarize(lambda passes=passes: next(passes))


def test_rows_far_from_those_of_the_first_pass_are_said_to_be_others():
    X, y = rows()
    passes = iter([[(X, y)], [(X + 1e3, y)]])
    with pytest.raises(ValueError, match=r"chunks\(\) gave other rows in the second"):
        summarize(lambda: next(passes))


def test_chunks_are_refused_beside_rows():
    X, y = rows()
    for beside_chunks in ({"X": X}, {"y": y}, {"held_out": y == "a"}, {"X": X, "y": y}):
        with pytest.raises(ValueError, match=r"'lyon': with chunks=.*but \["):
            summarize(chunked(X, y), **beside_chunks)


def test_rows_and_labels_come_together_or_as_chunks():
    X, y = rows()
    for without_chunks in ({}, {"X": X}, {"y": y}):
        with pytest.raises(ValueError, match="'lyon': pass X and y, or chunks="):
            summarize(None, **without_chunks)


def test_chunks_are_a_function():
    X, y = rows()
    for no_function in ([(X, y)], iter([(X, y)]), 3):
        with pytest.raises(TypeError, match="chunks must be a function.*got "):
            summarize(no_function)


def test_the_classifier_of_chunks_is_fitted():
    with pytest.raises(ValueError, match="not fitted"):
        summarize(chunked(*rows()), clf=LogisticRegression())


def test_spaces_need_all_rows_and_nothing_is_read_first():
    def fail_if_read():
        raise AssertionError

    words = r"'lyon': good-enough spaces \(.*space.*\) need all rows at once"
    for options in (
        {"space": True},
        {"settings": {"epsilon": 0.9}},
        {"settings": {"intersection": "deepest"}},
    ):
        with pytest.raises(ValueError, match=words):
            summarize(fail_if_read, disclosure=None, **options)


def test_without_a_space_an_epsilon_is_no_reason_to_refuse_chunks():
    assert summarize(chunked(*rows()), space=False, settings={"epsilon": 0.9})


def test_there_must_be_rows_to_learn_from():
    X, y = rows()
    for empty in ([], [(X[:0], y[:0])], [([], [])]):
        with pytest.raises(ValueError, match=r"'lyon': chunks\(\) gave no rows"):
            summarize(lambda empty=empty: empty)


def test_there_must_be_rows_that_are_not_held_out():
    X, y = rows()
    with pytest.raises(ValueError, match="node 'lyon' has only rows that are held out"):
        summarize(chunked(X, y, np.ones(len(y), dtype=bool)))


def test_there_must_be_min_rows_that_judge():
    X, y = rows()
    with pytest.raises(TooFewRowsError, match="fewer than min_rows=5000.*for judging"):
        summarize(chunked(X, y), disclosure=rule_of(5000))
    held_out = y == "d"
    with pytest.raises(TooFewRowsError, match="for judging"):
        summarize(chunked(X, y, held_out), disclosure=rule_of(1000))


def test_features_that_are_too_large_are_named():
    X, y = rows()
    X = X.copy()
    X[5, 3] = 1e30
    with pytest.raises(ValueError, match="'lyon': its rows.*feature 3 is too large"):
        summarize(chunked(X, y), disclosure=None)
