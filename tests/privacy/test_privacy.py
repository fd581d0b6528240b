# SPDX-License-Identifier: BSD-3-Clause
"""What the guide's page on privacy says that summaries reveal, and do not, is true."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.disclosures import rule_of
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from skgems import GEMSLogisticAggregator, answer
from skgems.asking import Message
from skgems.gems import Moments, Spaces
from skgems.local import TooFewRowsError
from skgems.moments import ClassMoments, class_moments
from skgems.parties import ClassesLeftOutWarning
from skgems.spaces import Accuracy, SpaceProfile, accuracy_profile
from skgems.spaces._margins import Margins

pytestmark = pytest.mark.usefixtures("accepting_nodes")


def digits_of(sizes):
    """Digits in gray values 0 to 16; `sizes` has the number of rows of each label."""
    X, y = load_digits(return_X_y=True)
    rng = np.random.RandomState(0)
    rows_by_label = [
        rng.choice(np.flatnonzero(y == label), size, replace=False)
        for label, size in sizes.items()
    ]
    rows = np.concatenate(rows_by_label)
    return X[rows], y[rows]


def summary_of_digits(sizes, *, params=None, **options):
    """Rows, divided by 16, their labels and their summary with these options."""
    X, y = digits_of(sizes)
    clf = LogisticRegression(max_iter=2000).fit(X / 16, y)
    aggregator = GEMSLogisticAggregator(random_state=0, **(params or {}))
    return X / 16, y, aggregator.summarize(clf, X / 16, y, name="lyon", **options)


def answer_to(summary, task):
    """The answer to a task that is in a summary: what was asked, and the reply."""
    answers = summary.message.content["answers"].values()
    return next(answer for answer in answers if answer["task"] == task)


def moments_of(summary):
    """The class moments of a summary."""
    return ClassMoments.from_content(answer_to(summary, "moments")["reply"]["moments"])


def forty_other_threes(X):
    """Rows of the digit 3 that are not among the rows X."""
    digits, labels = load_digits(return_X_y=True)
    threes = digits[labels == 3] / 16
    is_in_X = (threes[:, None] == X).all(axis=2).any(axis=1)
    return threes[~is_in_X][:40]


def test_a_summary_reveals_the_two_rows_of_a_class():
    X, y, summary = summary_of_digits({3: 2, 8: 30}, disclosure=None)
    moments = moments_of(summary)
    mean = (moments.origin + moments.means)[moments.columns == 0].ravel()
    # Two rows vary in one direction only: that of the difference between them.
    variances, directions = np.linalg.eigh(moments.scatter[0])
    half = np.sqrt(variances[-1] / 2) * directions[:, -1]
    guesses = np.sort([mean - half, mean + half], axis=0)
    np.testing.assert_allclose(guesses, np.sort(X[y == 3], axis=0), atol=1e-12)


def test_the_scatter_of_fewer_rows_than_features_tells_its_rows_from_others():
    X, y, summary = summary_of_digits(
        {3: 10, 8: 30},
        params={"moments": Moments(n_components=1)},
        disclosure=None,
        space=False,
    )
    moments = moments_of(summary)
    mean = (moments.origin + moments.means)[0]
    # Ten rows vary in nine directions about their mean: 0 in all others of the 64.
    without_variance = np.linalg.eigh(moments.scatter[0])[1][:, : 64 - 9]
    digits, labels = load_digits(return_X_y=True)
    threes = digits[labels == 3] / 16
    distances = np.linalg.norm((threes - mean) @ without_variance, axis=1)
    is_in_node = (threes[:, None] == X[y == 3]).all(axis=2).any(axis=1)
    assert is_in_node.sum() == 10
    assert distances[is_in_node].max() < 1e-9 < 0.5 < distances[~is_in_node].min()


def test_radii_of_certified_spaces_reveal_whether_a_node_has_a_row():
    X, y, summary = summary_of_digits(
        {3: 40, 8: 40},
        params={"spaces": Spaces(construction="certified")},
        disclosure=None,
        classes=[3, 8],
        space=True,
    )
    arrays = answer_to(summary, "space")["reply"]
    profile = SpaceProfile.from_arrays(arrays, Accuracy(), "certified")

    def has_radius_of(row, label):
        """Whether the space has the radius at which this row is lost."""
        radii_of_row = accuracy_profile(
            row[None],
            np.array([label]),
            profile.center,
            profile.metric,
            construction="certified",
        ).radii
        if not len(radii_of_row):
            return False
        return np.abs(profile.radii.radii / radii_of_row - 1).min() < 1e-9

    assert all(has_radius_of(row, 0) for row in X[y == 3])
    assert not any(has_radius_of(row, 0) for row in forty_other_threes(X))


def test_sampled_radii_reveal_most_rows_to_who_knows_the_seed_of_the_rays():
    X, y, summary = summary_of_digits(
        {3: 40, 5: 40, 8: 40}, disclosure=None, classes=[3, 5, 8], space=True
    )
    answer_about_space = answer_to(summary, "space")
    seed = answer_about_space["asked"]["seed"]
    arrays = answer_about_space["reply"]
    profile = SpaceProfile.from_arrays(arrays, Accuracy(), "sampled")

    def has_radius_of(row, label):
        """Whether the space has a radius at which this row is lost along a ray."""
        node = Margins(row[None], np.array([label]), profile.center, profile.metric)
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
    is_revealed = [has_radius_of(row, code) for row, code in zip(X, codes, strict=True)]
    assert np.mean(is_revealed) > 0.5
    assert not any(has_radius_of(row, 0) for row in forty_other_threes(X))


@pytest.mark.parametrize(
    "params",
    [
        {"moments": "class", "epsilon": 0.5},
        {"moments": "shared", "spaces": "ellipsoid", "epsilon": 0.5},
        {"moments": "diagonal", "intersection": "consensus"},
    ],
    ids=str,
)
def test_a_summary_does_not_depend_on_classes_of_few_rows(params):
    X, y = digits_of({1: 1, 2: 9, 3: 12, 8: 60})
    clf = LogisticRegression(max_iter=2000).fit(X / 16, y)
    agg = GEMSLogisticAggregator(random_state=0, **params)

    def bytes_of(X, y):
        warning = r"Node 'lyon' leaves the classes \{1: 1, 2: \d\} out"
        with pytest.warns(ClassesLeftOutWarning, match=warning):
            summary = agg.summarize(clf, X, y, name="lyon")
        return summary.message.to_bytes()

    is_of_small_class = y < 3
    with_other_values = np.where(is_of_small_class[:, None], 100.0 - X, X / 16)
    assert bytes_of(with_other_values, y) == bytes_of(X / 16, y)
    is_taken = ~is_of_small_class | (np.arange(len(y)) % 3 == 0)
    assert bytes_of(X[is_taken] / 16, y[is_taken]) == bytes_of(X / 16, y)


# Requests about the classes 1, 3 and 8 of digits, by task.
REQUESTS = {
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


@pytest.mark.parametrize("task", REQUESTS)
@pytest.mark.filterwarnings("ignore::skgems.parties.ClassesLeftOutWarning")
def test_no_reply_depends_on_a_class_of_few_rows(task, tmp_path):
    X, y = digits_of({1: 3, 3: 12, 8: 60})
    clf = LogisticRegression(max_iter=2000).fit(X / 16, y)
    request = tmp_path / "request.safetensors"
    request.write_bytes(Message.of(task, **REQUESTS[task]).to_bytes())

    def reply_of(X, y, min_rows=10):
        path = tmp_path / "reply.safetensors"
        reply = answer(
            request, clf, X, y, name="lyon", to=path, disclosure=rule_of(min_rows)
        )
        return reply.read_bytes()

    # One row of the class less, and the others have other values.
    X_other = np.where(y[:, None] == 1, 100.0 - X, X / 16)[1:]
    y_other = y[1:]
    assert reply_of(X / 16, y) == reply_of(X_other, y_other)
    # Which the reply would depend on if single rows might be sent.
    assert reply_of(X / 16, y, min_rows=1) != reply_of(X_other, y_other, min_rows=1)


def test_a_node_without_a_class_of_min_rows_sends_no_summary():
    with pytest.raises(TooFewRowsError, match=r"min_rows=10 rows of.*\[3, 8\]"):
        summary_of_digits({3: 9, 8: 4})


def test_rows_that_only_score_do_not_count_for_min_rows():
    X, y = digits_of({3: 12, 8: 30})
    clf = LogisticRegression(max_iter=2000).fit(X / 16, y)
    agg = GEMSLogisticAggregator(random_state=0)
    # Of class 3, two of twelve rows are summed; three rows of class 8 only score.
    held_out = np.zeros(42, dtype=bool)
    held_out[2:15] = True
    with pytest.warns(
        ClassesLeftOutWarning, match=r"Node 'lyon' leaves the classes \{3: 2\} out"
    ):
        summary = agg.summarize(clf, X / 16, y, name="lyon", held_out=held_out)
    assert summary.message.content["describe"]["rows"]["judging"].tolist() == [3]
    # Without these three no rows are left to score by.
    held_out[12:] = False
    with pytest.raises(
        TooFewRowsError, match=r"\[3\], and no other rows for .*judging"
    ):
        agg.summarize(clf, X / 16, y, name="lyon", held_out=held_out)


@pytest.mark.filterwarnings("ignore::skgems.parties.ClassesLeftOutWarning")
@pytest.mark.parametrize("kind", ["class", "shared", "diagonal"])
def test_no_count_is_sent_below_min_rows(kind):
    _, _, summary = summary_of_digits(
        {1: 3, 2: 5, 3: 12, 8: 60},
        params={"moments": kind},
        disclosure=rule_of(10),
    )
    rows_told = summary.message.content["describe"]["rows"]
    assert rows_told["moments"].tolist() == [12, 60]
    moments = moments_of(summary)
    assert set(moments.columns) == {2, 3}
    # The class of twelve rows is no two clusters; its rows weigh 1 at most.
    assert np.sum(moments.columns == 2) == 1
    np.testing.assert_allclose(moments.by_class().counts, rows_told["weights"])
    assert (rows_told["weights"] <= rows_told["moments"]).all()


def with_common_values(X, y):
    """Rows in which values that one or two rows of a class have are replaced."""
    X = X.copy()
    for label in np.unique(y):
        for column in range(X.shape[1]):
            values, counts = np.unique(X[y == label, column], return_counts=True)
            if counts.sum() - counts.max() < 3:
                X[y == label, column] = values[counts.argmax()]
    return X


@pytest.mark.filterwarnings("ignore::skgems.parties.ClassesLeftOutWarning")
@pytest.mark.parametrize("geometry", ["gram", "ellipsoid"])
def test_a_space_less_the_moments_does_not_reveal_a_small_class(geometry):
    X, y, summary = summary_of_digits(
        {1: 1, 3: 12, 8: 60},
        params={"spaces": Spaces(geometry), "intersection": "consensus"},
        disclosure=rule_of(10),
        space=True,
    )
    space = answer_to(summary, "space")["reply"]
    assert space["radii_n_rows"] == 72
    if geometry == "gram":
        # The sum of all rows, less the sums of classes 3 and 8, would be the one row.
        of_others = with_common_values(X, y)[y > 1]
        assert not (of_others == X[y > 1]).all()
        np.testing.assert_allclose(space["metric_mean"], of_others.mean(axis=0))


@pytest.mark.filterwarnings("ignore::skgems.parties.ClassesLeftOutWarning")
def test_a_fit_on_a_summary_without_small_classes_is_that_on_rows():
    X, y, summary = summary_of_digits(
        {1: 4, 3: 20, 8: 40},
        disclosure=rule_of(10),
        classes=[1, 3, 8],
        space=True,
    )
    clf = LogisticRegression(max_iter=2000).fit(X, y)
    params = {
        "disclosure": rule_of(10),
        "random_state": 0,
        "epsilon": 0.9,
        "spaces": Spaces(on_empty="ignore"),
    }
    with pytest.warns(UserWarning, match="Nothing is known of the classes"):
        by_rows = GEMSLogisticAggregator([("lyon", clf)], **params).fit(X, y)
        by_summary = GEMSLogisticAggregator([summary], **params).fit()
    np.testing.assert_array_equal(by_rows.coef_, by_summary.coef_)


def test_the_origin_is_no_row_where_single_rows_may_not_be_sent():
    X = np.random.RandomState(0).standard_normal((6, 4))
    y = np.array([0, 0, 0, 0, 0, 1])
    moments = class_moments(X, y, min_cluster_size=3)
    assert not (moments.origin == X).all(axis=1).any()


def test_the_origin_does_not_depend_on_a_class_of_few_rows():
    X = np.random.RandomState(0).standard_normal((6, 4))
    y = np.array([0, 0, 0, 0, 0, 1])
    moments = class_moments(X, y, min_cluster_size=3)
    X_other = np.vstack([X[:5], X[5:] + 100])
    other_moments = class_moments(X_other, y, min_cluster_size=3)
    np.testing.assert_array_equal(moments.origin, other_moments.origin)


def test_summaries_of_float32_rows_are_not_refused_for_their_rounding():
    # Sixty copies of eight features: sums whose rounding adds up.
    rng = np.random.RandomState(0)
    X = np.hstack([3 * rng.standard_normal((200, 8))] * 60)
    X = (X + 0.01 * rng.standard_normal(X.shape) + 5).astype(np.float32)
    y = np.repeat([0, 1], 100)
    clf = LogisticRegression(C=1e-6).fit(X, y)
    agg = GEMSLogisticAggregator(moments=Moments(n_components=1), random_state=0)
    assert agg.summarize(clf, X, y, name="lyon", space=False).n_rows == 200
