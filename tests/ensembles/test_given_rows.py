# SPDX-License-Identifier: BSD-3-Clause
"""Documents and tables go to members as they are given."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from helpers.documents import SITES, documents
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_wine
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction import DictVectorizer
from sklearn.feature_extraction.text import (
    CountVectorizer,
    HashingVectorizer,
    TfidfVectorizer,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler, scale

from skgems import DistillationAggregator, EnsembleAggregator

LABELS = ["bill", "fault", "praise"]


def mean_probabilities(members, X):
    """The probabilities of a soft vote: the members' mean for each class."""
    total = np.zeros((len(X), len(LABELS)))
    for _, member in members:
        columns = [LABELS.index(label) for label in member.classes_]
        total[:, columns] += member.predict_proba(X)
    return total / total.sum(axis=1, keepdims=True)


def as_series(X):
    """The documents as a Series of pandas."""
    return pytest.importorskip("pandas").Series(X)


def small_hashing_vectorizer():
    """A vectorizer without a vocabulary, of few columns to be quick."""
    return HashingVectorizer(n_features=256)


FORMS = {
    "list": lambda X: X.tolist(),
    "array of objects": lambda X: X,
    "array of texts": lambda X: X.astype(str),
    "Series": as_series,
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "vectorizer", [TfidfVectorizer, CountVectorizer, small_hashing_vectorizer]
)
def test_pipelines_that_begin_with_a_vectorizer_vote(vectorizer, form):
    corpus = documents()
    members = corpus.pipelines(vectorizer)
    aggregate = EnsembleAggregator(members).fit()
    np.testing.assert_allclose(
        aggregate.predict_proba(FORMS[form](corpus.X)),
        mean_probabilities(members, corpus.X),
    )
    assert not hasattr(aggregate, "n_features_in_")


def test_dicts_vote():
    corpus = documents()
    rows = np.array([dict.fromkeys(text.split(), 1) for text in corpus.X])
    members = [
        (
            site,
            make_pipeline(DictVectorizer(), LogisticRegression()).fit(
                rows[corpus.sites == site], corpus.y[corpus.sites == site]
            ),
        )
        for site in SITES
    ]
    aggregate = EnsembleAggregator(members).fit()
    for X in (rows, rows.tolist()):
        np.testing.assert_allclose(
            aggregate.predict_proba(X), mean_probabilities(members, rows)
        )


def words_of(document):
    """The words of a document that is a list of words already."""
    return document


def test_lists_of_words_vote():
    corpus = documents()
    rows = [text.split()[: 4 + k % 3] for k, text in enumerate(corpus.X)]
    members = []
    for site in SITES:
        rows_of_site = [rows[k] for k in np.flatnonzero(corpus.sites == site)]
        _, labels = corpus.of(site)
        pipeline = make_pipeline(CountVectorizer(analyzer=words_of), MultinomialNB())
        members.append((site, pipeline.fit(rows_of_site, labels)))
    aggregate = EnsembleAggregator(members).fit(rows, corpus.y, nodes=corpus.sites)
    np.testing.assert_allclose(
        aggregate.predict_proba(rows), mean_probabilities(members, rows)
    )


@pytest.mark.parametrize("form", FORMS)
def test_ties_are_broken_by_the_text_of_a_document(form):
    corpus = documents()
    members = corpus.pipelines()
    aggregate = EnsembleAggregator(members, voting="hard", random_state=0).fit()
    predicted = aggregate.predict(corpus.X)
    votes = np.array([member.predict(corpus.X) for _, member in members])
    assert (votes[0] != votes[1]).any()
    assert ((predicted == votes[0]) | (predicted == votes[1])).all()
    np.testing.assert_array_equal(aggregate.predict(FORMS[form](corpus.X)), predicted)
    order = np.random.default_rng(1).permutation(len(corpus.X))
    np.testing.assert_array_equal(aggregate.predict(corpus.X[order]), predicted[order])


def test_ties_are_broken_for_either_class_about_as_often():
    corpus = documents()
    constant_members = [
        (label, DummyClassifier().fit(corpus.X, np.full(len(corpus.X), label)))
        for label in ("bill", "fault")
    ]
    aggregate = EnsembleAggregator(
        constant_members, voting="hard", random_state=0
    ).fit()
    texts_and_bytes = [*corpus.X, *map(bytes, map(str.encode, corpus.X))]
    # The share of 139 fair coins has a standard deviation of 0.04: the bounds are
    # nearly five of them from a half.
    assert 0.3 < np.mean(aggregate.predict(texts_and_bytes) == "bill") < 0.7
    dicts = [{"word": k, "other": text} for k, text in enumerate(corpus.X)]
    reversed_dicts = [dict(reversed(row.items())) for row in dicts]
    assert 0.3 < np.mean(aggregate.predict(dicts) == "bill") < 0.7
    np.testing.assert_array_equal(
        aggregate.predict(reversed_dicts), aggregate.predict(dicts)
    )


def test_votes_weighted_by_classes_count_documents():
    corpus = documents()
    members = corpus.pipelines()
    aggregate = EnsembleAggregator(members, node_weight="class_counts")
    aggregate.fit(corpus.X.tolist(), corpus.y, nodes=corpus.sites)
    counts = [[np.sum(corpus.of(s)[1] == label) for label in LABELS] for s in SITES]
    np.testing.assert_allclose(aggregate.weights_, np.array(counts) / np.sum(counts, 0))
    assert aggregate.score(corpus.X.tolist(), corpus.y) > 0.8


@pytest.mark.parametrize("form", ["list", "Series"])
def test_pipelines_are_trained_at_simulated_nodes(form):
    corpus = documents()
    y = np.where(corpus.sites == "lyon", "bill", corpus.y)  # a node of one class
    X = FORMS[form](corpus.X)
    local = make_pipeline(TfidfVectorizer(), LogisticRegression())
    aggregate = EnsembleAggregator(local, random_state=0).fit(X, y, nodes=corpus.sites)
    rome = corpus.sites == "rome"
    expected = clone(local).fit(corpus.X[rome], y[rome])
    np.testing.assert_array_equal(
        aggregate.estimators_[1].predict_proba(corpus.X),
        expected.predict_proba(corpus.X),
    )


@pytest.mark.parametrize("form", FORMS)
def test_pipelines_that_begin_with_a_vectorizer_are_stacked(form):
    corpus = documents()
    X = FORMS[form](corpus.X)
    stack = EnsembleAggregator(corpus.pipelines(), combine="stack", random_state=0)
    stack.fit(X, corpus.y, nodes=corpus.sites)
    assert stack.score(X, corpus.y) > 0.9
    np.testing.assert_array_equal(
        stack.to_estimator().predict(corpus.X.tolist()), stack.predict(X)
    )


def test_a_stack_of_summary_files_equals_the_stack_of_the_rows():
    corpus = documents()
    stack = EnsembleAggregator(corpus.pipelines(), combine="stack", random_state=0)
    summaries = [
        stack.summarize_odds(
            corpus.of(site)[0].tolist(),
            corpus.of(site)[1],
            name=site,
            disclosure=None,
        )
        for site in SITES
    ]
    from_rows = clone(stack).fit(corpus.X, corpus.y, nodes=corpus.sites)
    from_summaries = clone(stack).set_params(summaries=summaries).fit()
    np.testing.assert_array_equal(
        from_summaries.predict_proba(corpus.X), from_rows.predict_proba(corpus.X)
    )


def test_the_best_of_votes_and_stack_is_chosen_for_documents():
    corpus = documents()
    aggregate = EnsembleAggregator(corpus.pipelines(), combine="auto", random_state=0)
    aggregate.fit(corpus.X.tolist(), corpus.y, nodes=corpus.sites)
    assert [entry["error"] for entry in aggregate.choice_.table] == ["", "", ""]
    assert aggregate.score(corpus.X.tolist(), corpus.y) > 0.8


def test_ensembles_of_documents_are_searched_cross_validated_and_pickled():
    corpus = documents()
    aggregate = EnsembleAggregator(corpus.pipelines(), node_weight="class_counts")
    search = GridSearchCV(aggregate, {"voting": ["soft", "hard"]}, cv=2)
    search.fit(corpus.X.tolist(), corpus.y, nodes=corpus.sites)
    assert search.best_score_ > 0.7
    scores = cross_val_score(
        aggregate, corpus.X, corpus.y, cv=2, params={"nodes": corpus.sites}
    )
    assert scores.min() > 0.6
    unpickled = pickle.loads(pickle.dumps(clone(aggregate).fit(corpus.X, corpus.y)))
    assert unpickled.predict(corpus.X.tolist()).shape == corpus.y.shape


def test_a_report_counts_documents_and_scores_members_on_their_own():
    corpus = documents()
    aggregate = EnsembleAggregator(corpus.pipelines()).fit()
    report = aggregate.report(corpus.X.tolist(), corpus.y, corpus.sites)
    assert report.nodes["rows"] == [np.sum(corpus.sites == site) for site in SITES]
    np.testing.assert_allclose(
        report.nodes["local_accuracy"],
        [
            member.score(corpus.X[corpus.sites == site], corpus.y[corpus.sites == site])
            for site, member in aggregate.estimators
        ],
    )


# ---- distillation ---------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("classifier", [LogisticRegression, MultinomialNB])
def test_a_student_learns_from_documents(classifier, form):
    corpus = documents()
    X = FORMS[form](corpus.X)
    student = make_pipeline(CountVectorizer(), classifier())
    distilled = DistillationAggregator(corpus.pipelines(), student=student)
    held_out = np.arange(len(corpus.y)) % 4 == 0
    distilled.fit(X, held_out=held_out)
    assert distilled.agreement_ > 0.8
    labels_of_student = distilled.student_.predict(corpus.X)
    np.testing.assert_array_equal(distilled.predict(X), labels_of_student)
    assert distilled.to_estimator().predict(X).tolist() == labels_of_student.tolist()


def test_documents_need_a_student_of_their_own():
    corpus = documents()
    with pytest.raises(ValueError, match="student=None.*HashingVectorizer") as raised:
        DistillationAggregator(corpus.pipelines()).fit(corpus.X)
    assert "word" not in str(raised.value)
    student = make_pipeline(small_hashing_vectorizer(), LogisticRegression())
    DistillationAggregator(corpus.pipelines(), student=student).fit(corpus.X)


# ---- tables ---------------------------------------------------------------------


def table_with_texts():
    """A table with a column of texts that has gaps, its labels, and two members."""
    pandas = pytest.importorskip("pandas")
    X, y = load_wine(return_X_y=True)
    colors = np.array(["red", "white", None], dtype=object)[np.arange(len(y)) % 3]
    frame = pandas.DataFrame({"alcohol": X[:, 0], "hue": X[:, 10], "color": colors})
    steps = make_column_transformer(
        (StandardScaler(), ["alcohol", "hue"]),
        (OneHotEncoder(handle_unknown="ignore"), ["color"]),
    )
    members = [
        make_pipeline(clone(steps), LogisticRegression()).fit(frame[k::2], y[k::2])
        for k in range(2)
    ]
    return frame, y, members


def test_a_row_whose_text_is_missing_is_a_row_of_the_table():
    frame, y, members = table_with_texts()
    aggregate = EnsembleAggregator(members).fit(frame, y, nodes=np.arange(len(y)) % 2)
    assert aggregate.n_features_in_ == 3
    expected = np.mean([m.predict_proba(frame) for m in members], axis=0)
    np.testing.assert_allclose(aggregate.predict_proba(frame), expected)
    assert frame["color"].iloc[2:3].isna().all()  # no text in it says what it holds
    np.testing.assert_allclose(
        aggregate.predict_proba(frame.iloc[2:3]), expected[2:3], atol=1e-12
    )


def test_tables_with_texts_are_distilled_into_a_student_that_encodes_them():
    frame, _, members = table_with_texts()
    student = clone(members[0])
    distilled = DistillationAggregator(members, student=student).fit(frame)
    assert distilled.agreement_ > 0.9
    with pytest.raises(ValueError, match="X holds texts.*pass a student"):
        DistillationAggregator(members).fit(frame)


def test_arrays_of_texts_reach_the_members_unchanged():
    frame, y, _ = table_with_texts()
    rows = frame[["color"]].fillna("rose").to_numpy(dtype=object)
    members = [
        make_pipeline(OneHotEncoder(), LogisticRegression()).fit(rows[k::2], y[k::2])
        for k in range(2)
    ]
    expected = np.mean([m.predict_proba(rows) for m in members], axis=0)
    for voting in ("soft", "hard"):
        aggregate = EnsembleAggregator(members, voting=voting, random_state=0).fit()
        for X in (rows, rows.tolist()):
            assert aggregate.predict(X).shape == y.shape
    aggregate.set_params(voting="soft").fit()
    np.testing.assert_allclose(aggregate.predict_proba(rows.tolist()), expected)
    with pytest.raises(ValueError, match="2 features"):
        aggregate.fit(rows, y).predict(np.hstack([rows, rows]))


@pytest.mark.parametrize("as_frame", [False, True])
def test_pipelines_that_fill_missing_values_vote(as_frame):
    X, y = load_wine(return_X_y=True)
    X[::5, 0] = np.nan
    steps = make_column_transformer((SimpleImputer(), [0, 1]), remainder="passthrough")
    pipelines = [
        make_pipeline(SimpleImputer(), StandardScaler(), LogisticRegression()),
        make_pipeline(steps, StandardScaler(), LogisticRegression()),
        HistGradientBoostingClassifier(max_iter=5),
    ]
    if as_frame:
        X = pytest.importorskip("pandas").DataFrame(X, columns=list("abcdefghijklm"))
    members = [pipeline.fit(X, y) for pipeline in pipelines]
    expected = np.mean([member.predict_proba(X) for member in members], axis=0)
    aggregate = EnsembleAggregator(members).fit()
    np.testing.assert_allclose(aggregate.predict_proba(X), expected)
    student = HistGradientBoostingClassifier(max_iter=5)
    distilled = DistillationAggregator(members, student=student).fit(X)
    assert distilled.agreement_ > 0.8


def test_pipelines_that_fill_no_missing_values_say_so():
    X, y = load_wine(return_X_y=True)
    plain = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
    filling = make_pipeline(SimpleImputer(), plain[0], LogisticRegression())
    members = [("lyon", plain), ("rome", filling.fit(X, y))]
    X[0, 0] = np.nan
    with pytest.raises(ValueError, match="^Input X contains NaN"):
        EnsembleAggregator(members).fit().predict(X)
    assert EnsembleAggregator(members[1:]).fit().predict(X).shape == y.shape


class Table:
    """A table of another library, as polars has them."""

    def __init__(self, frame):
        self.frame = frame
        self.columns = list(frame.columns)

    def to_pandas(self):
        return self.frame


def test_tables_of_other_libraries_become_those_of_pandas():
    frame, _, members = table_with_texts()
    aggregate = EnsembleAggregator(members).fit()
    np.testing.assert_array_equal(
        aggregate.predict_proba(Table(frame)), aggregate.predict_proba(frame)
    )


# ---- errors ---------------------------------------------------------------------


def test_members_of_documents_and_of_numbers_do_not_go_together():
    corpus = documents()
    X, y = load_wine(return_X_y=True)
    classifier_of_numbers = LogisticRegression().fit(scale(X), np.array(LABELS)[y])
    members = [*corpus.pipelines()[:1], ("oslo", classifier_of_numbers)]
    with pytest.raises(ValueError, match="documents.*node 'oslo'.*13 features"):
        EnsembleAggregator(members).fit(corpus.X, corpus.y)
    with pytest.raises(ValueError, match="X has no features.*13 features"):
        DistillationAggregator(members[1:]).fit(corpus.X)


def test_documents_for_members_of_numbers_are_an_error():
    X, y = load_wine(return_X_y=True)
    aggregate = EnsembleAggregator([LogisticRegression().fit(scale(X), y)]).fit()
    with pytest.raises(ValueError, match="X holds documents.*13 features"):
        aggregate.predict(["some text", "some other text"])
    # A fit to documents forgets the columns of the one before.
    corpus = documents()
    aggregate.set_params(estimators=corpus.pipelines()).fit(corpus.X, corpus.y)
    assert aggregate.predict(corpus.X[:3]).shape == (3,)


@pytest.mark.filterwarnings("ignore:X has feature names")
def test_a_table_where_documents_were_is_an_error_that_names_the_node():
    pandas = pytest.importorskip("pandas")
    corpus = documents()
    aggregate = EnsembleAggregator(corpus.pipelines()).fit()
    frame = pandas.DataFrame({"text": corpus.X})
    message = f"Node 'lyon': .*for 1 rows, but {len(frame)} rows were given"
    for voting in ("soft", "hard"):
        aggregate.set_params(voting=voting).fit()
        with pytest.raises(ValueError, match=message):
            aggregate.predict(frame)


def test_documents_and_labels_of_different_numbers_are_an_error():
    corpus = documents()
    aggregate = EnsembleAggregator(corpus.pipelines(TfidfVectorizer)).fit()
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        aggregate._validate_with_labels(corpus.X, corpus.y[:-1])


def test_a_table_without_rows_is_an_error():
    frame, _, members = table_with_texts()
    aggregate = EnsembleAggregator(members).fit()
    with pytest.raises(ValueError, match="X has no rows"):
        aggregate.predict(frame[:0])
