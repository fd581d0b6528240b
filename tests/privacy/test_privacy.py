# SPDX-License-Identifier: BSD-3-Clause
"""What the page on privacy says of summaries is so, for better and for worse."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from skgems import GEMSLogisticAggregator, answer
from skgems.federation import ClassesLeftOutWarning, Message
from skgems.local import TooFewRowsError
from skgems.moments import ClassMoments, class_moments
from skgems.spaces import Accuracy, SpaceProfile, accuracy_profile
from skgems.spaces._margins import Margins

pytestmark = pytest.mark.filterwarnings("ignore::skgems.federation.RowsExposedWarning")


def rows_of(sizes, seed=0):
    X, y = load_digits(return_X_y=True)
    rng = np.random.RandomState(seed)
    rows = [
        rng.choice(np.flatnonzero(y == label), size, replace=False)
        for label, size in sizes.items()
    ]
    rows = np.concatenate(rows)
    return X[rows], y[rows]


def summarized(sizes, *, params=None, **options):
    X, y = rows_of(sizes)
    clf = LogisticRegression(max_iter=2000).fit(X / 16, y)
    aggregator = GEMSLogisticAggregator(random_state=0, **(params or {}))
    return X / 16, y, aggregator.summarize(clf, X / 16, y, name="lyon", **options)


def told(summary, task="moments"):
    answers = summary.message.content["answers"].values()
    return next(answer["reply"] for answer in answers if answer["task"] == task)


def moments_of(summary):
    return ClassMoments.from_arrays(told(summary)["moments"])


def test_two_rows_of_a_class_are_told_as_they_are():
    X, y, summary = summarized({3: 2, 8: 30}, min_rows=1)
    moments = moments_of(summary)
    mean = (moments.origin + moments.means)[moments.columns == 0].ravel()
    values, vectors = np.linalg.eigh(moments.scatter[0])
    half = np.sqrt(values[-1] / 2) * vectors[:, -1]
    found = np.sort([mean - half, mean + half], axis=0)
    np.testing.assert_allclose(found, np.sort(X[y == 3], axis=0), atol=1e-12)


@pytest.mark.parametrize("dtype, slack", [("float64", 1e-9), ("float16", 0.1)])
def test_scatter_of_fewer_rows_than_features_tells_its_rows_from_others(dtype, slack):
    X, y, summary = summarized(
        {3: 10, 8: 30}, params={"n_components": 1}, dtype=dtype, space=False
    )
    moments = moments_of(summary)
    mean = (moments.origin + moments.means)[0]
    away = np.linalg.eigh(moments.scatter[0])[1][:, : 64 - 9]
    data, labels = load_digits(return_X_y=True)
    distances = np.linalg.norm((data[labels == 3] / 16 - mean) @ away, axis=1)
    own = (data[labels == 3, None] / 16 == X[y == 3]).all(axis=2).any(axis=1)
    assert own.sum() == 10
    assert distances[own].max() < slack < 0.5 < distances[~own].min()


def test_radii_of_certified_spaces_say_whether_a_row_was_there():
    X, y, summary = summarized(
        {3: 40, 8: 40},
        params={"construction": "certified"},
        classes=[3, 8],
        space=True,
    )
    profile = SpaceProfile.from_arrays(told(summary, "space"), Accuracy(), "certified")
    data, labels = load_digits(return_X_y=True)
    others = data[labels == 3] / 16
    others = others[~(others[:, None] == X).all(axis=2).any(axis=1)][:40]

    def found(row, label):
        own = accuracy_profile(
            row[None],
            np.array([label]),
            profile.center,
            profile.metric,
            construction="certified",
        ).radii
        return bool(len(own)) and np.abs(profile.radii.radii / own - 1).min() < 1e-9

    assert all(found(row, 0) for row in X[y == 3])
    assert not any(found(row, 0) for row in others)


def test_rays_that_are_told_by_their_seed_find_most_rows_in_sampled_radii():
    X, y, summary = summarized({3: 40, 5: 40, 8: 40}, classes=[3, 5, 8], space=True)
    profile = SpaceProfile.from_arrays(told(summary, "space"), Accuracy(), "sampled")
    answers = summary.message.content["answers"].values()
    seed = next(a["asked"]["seed"] for a in answers if a["task"] == "space")
    data, labels = load_digits(return_X_y=True)
    others = data[labels == 3] / 16
    others = others[~(others[:, None] == X).all(axis=2).any(axis=1)][:40]

    def found(row, label):
        own = row[None], np.array([label])
        node = Margins(*own, profile.center, profile.metric)
        if not node.right[0]:
            return False
        inverse = np.zeros_like(node.margins)
        np.divide(1.0, node.margins, out=inverse, where=node.margins > 0)
        inverse[label] = 0.0
        rates = []
        for _, scale, parts in node.rays(500, seed).chunks():
            for rows, changes in parts:
                node.against_label(changes, rows)
                fastest = (changes * inverse[:, rows]).max(axis=1)
            rates.append(fastest[:, 0] * scale)
        rates = np.concatenate(rates)
        radii = profile.radii.radii[np.isfinite(profile.radii.radii)]
        return np.abs(np.outer(radii, rates) - 1).min() < 1e-9

    codes = np.searchsorted([3, 5, 8], y)
    assert np.mean([found(*pair) for pair in zip(X, codes, strict=True)]) > 0.5
    assert not any(found(row, 0) for row in others)


LEFT_OUT = "Node 'lyon' leaves the classes {} out"


@pytest.mark.parametrize(
    "params",
    [
        {"moments": "class", "epsilon": 0.5},
        {"moments": "shared", "geometry": "ellipsoid", "epsilon": 0.5},
        {"moments": "diagonal", "intersection": "consensus"},
    ],
    ids=str,
)
def test_nothing_of_a_class_of_few_rows_is_told(params):
    X, y = rows_of({1: 1, 2: 9, 3: 12, 8: 60})
    clf = LogisticRegression(max_iter=2000).fit(X / 16, y)
    agg = GEMSLogisticAggregator(random_state=0, **params)

    def bytes_of(X, y):
        with pytest.warns(
            ClassesLeftOutWarning, match=LEFT_OUT.format(r"\{1: 1, 2: \d\}")
        ):
            summary = agg.summarize(clf, X, y, name="lyon")
        return summary.message.to_bytes()

    # Neither what is summed nor a difference of sums depends on them.
    first, few = bytes_of(X / 16, y), y < 3
    assert bytes_of(np.where(few[:, None], 100.0 - X, X / 16), y) == first
    fewer = ~few | (np.arange(len(y)) % 3 == 0)
    assert bytes_of(X[fewer] / 16, y[fewer]) == first


TASKS = {
    "describe": {},
    "counts": {},
    "moments": {
        "kind": "class",
        "n_components": 200,
        "min_cluster_size": 1,
    },
    "size": {"W": np.eye(65, 3, -20)},
    "score": {
        "W": np.eye(65, 3, -20),
        "labels": [1, 3, 8],
        "columns": np.arange(3),
        "criterion": Accuracy().as_settings(),
    },
    "evaluate": {
        "W": np.eye(65, 3, -20),
        "labels": [1, 3, 8],
        "columns": np.arange(3),
        "factors": np.ones(1),
        "gradient": True,
        "of": "learning",
    },
}


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.filterwarnings("ignore::skgems.federation.ClassesLeftOutWarning")
def test_nothing_of_it_is_told_to_any_request(task, tmp_path):
    X, y = rows_of({1: 3, 3: 12, 8: 60})
    clf = LogisticRegression(max_iter=2000).fit(X / 16, y)
    request = tmp_path / "request.safetensors"
    request.write_bytes(Message.of(task, **TASKS[task]).to_bytes())

    def told(*rows, **options):
        to = tmp_path / "reply.safetensors"
        return answer(request, clf, *rows, name="lyon", to=to, **options).read_bytes()

    # One row less, and the others are other rows.
    other = np.where(y[:, None] == 1, 100.0 - X, X / 16)[1:], y[1:]
    assert told(X / 16, y) == told(*other)
    assert told(X / 16, y, min_rows=1) != told(*other, min_rows=1)


def test_a_node_that_has_no_class_of_enough_rows_refuses():
    with pytest.raises(TooFewRowsError, match=r"min_rows=10 rows of.*\{3: 9, 8: 4\}"):
        summarized({3: 9, 8: 4})


def test_rows_that_only_score_do_not_make_up_for_rows_that_are_told():
    X, y = rows_of({3: 12, 8: 30})
    clf = LogisticRegression(max_iter=2000).fit(X / 16, y)
    agg, held_out = GEMSLogisticAggregator(random_state=0), np.zeros(42, dtype=bool)
    held_out[2:15] = True
    with pytest.warns(ClassesLeftOutWarning, match=LEFT_OUT.format(r"\{3: 2\}")):
        few = agg.summarize(clf, X / 16, y, name="lyon", held_out=held_out)
    assert few.message.content["describe"]["rows"]["judging"].tolist() == [3]
    # Nothing would be left to score by.
    held_out[12:] = False
    with pytest.raises(TooFewRowsError, match=r"\{3: 2\}, and no others .* judging"):
        agg.summarize(clf, X / 16, y, name="lyon", held_out=held_out)


@pytest.mark.parametrize("kind", ["class", "shared", "diagonal"])
def test_no_count_is_told_below_min_rows(kind):
    _, _, summary = summarized(
        {1: 3, 2: 5, 3: 12, 8: 60},
        params={"moments": kind, "min_cluster_size": 10},
        min_rows=1,
    )
    moments = moments_of(summary)
    assert moments.counts.min() >= 10
    assert moments.group_counts.min() >= 10
    assert set(moments.columns) == {2, 3}


def test_small_classes_of_enough_rows_together_share_a_scatter():
    _, _, summary = summarized(
        {1: 6, 2: 7, 3: 12, 8: 60}, params={"min_cluster_size": 10}, min_rows=1
    )
    moments = moments_of(summary)
    assert moments.groups.tolist() == [2, 3, -1]
    assert moments.group_counts.tolist() == [12, 60, 13]


@pytest.mark.parametrize("geometry", ["gram", "ellipsoid"])
def test_a_space_and_moments_do_not_tell_a_small_class_by_their_difference(geometry):
    X, y, summary = summarized(
        {1: 1, 3: 12, 8: 60},
        params={
            "min_cluster_size": 10,
            "geometry": geometry,
            "intersection": "consensus",
        },
        min_rows=1,
        space=True,
    )
    profile = told(summary, "space")
    assert profile["radii_n_rows"] == 72
    if geometry == "gram":
        # Else the sum of all rows less those of told classes would be the row.
        np.testing.assert_allclose(profile["metric_mean"], X[y > 1].mean(axis=0))


def test_a_fit_on_such_summaries_is_that_on_rows():
    sizes = {1: 4, 3: 20, 8: 40}
    X, y, summary = summarized(
        sizes,
        params={"min_cluster_size": 10},
        min_rows=1,
        classes=[1, 3, 8],
        space=True,
    )
    clf = LogisticRegression(max_iter=2000).fit(X, y)
    params = {
        "min_cluster_size": 10,
        "random_state": 0,
        "epsilon": 0.9,
        "on_empty": "ignore",
    }
    with pytest.warns(UserWarning, match="Nothing is known of the classes"):
        by_rows = GEMSLogisticAggregator([("lyon", clf)], **params).fit(X, y)
        by_summary = GEMSLogisticAggregator([summary], **params).fit()
    np.testing.assert_array_equal(by_rows.coef_, by_summary.coef_)


def test_the_origin_is_no_row_where_few_are_not_to_be_told():
    X = np.random.RandomState(0).standard_normal((6, 4))
    y = np.array([0, 0, 0, 0, 0, 1])
    moments = class_moments(X, y, min_cluster_size=3)
    assert not (moments.origin == X).all(axis=1).any()
    # Nor does it depend on a class of too few.
    again = class_moments(np.vstack([X[:5], X[5:] + 100]), y, min_cluster_size=3)
    np.testing.assert_array_equal(moments.origin, again.origin)


def test_rounding_of_float32_rows_is_not_taken_for_a_false_summary():
    rng = np.random.RandomState(0)
    X = np.hstack([3 * rng.standard_normal((200, 8))] * 60)
    X = (X + 0.01 * rng.standard_normal(X.shape) + 5).astype(np.float32)
    y = np.repeat([0, 1], 100)
    clf = LogisticRegression(C=1e-6).fit(X, y)
    agg = GEMSLogisticAggregator(n_components=1, random_state=0)
    assert agg.summarize(clf, X, y, name="lyon", space=False).n_rows == 200
