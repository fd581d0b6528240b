# SPDX-License-Identifier: BSD-3-Clause
"""Vectorizers that learn nothing from rows, as fronts for documents."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.documents import SITES, documents
from sklearn.base import clone
from sklearn.feature_extraction import DictVectorizer, FeatureHasher
from sklearn.feature_extraction.text import (
    CountVectorizer,
    HashingVectorizer,
    TfidfVectorizer,
)
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgems import (
    EnsembleAggregator,
    Exchange,
    GEMSLogisticAggregator,
    GEMSMLPAggregator,
    ModelAveragingAggregator,
    PFNMAggregator,
    PooledAggregator,
    PooledTransformer,
    answer,
    combine,
)
from skgems.asking import Message, Nodes
from skgems.guard import reply_to
from skgems.steps import DocumentFront, NotPooledError, front_of_content

pytestmark = pytest.mark.filterwarnings("ignore::skgems.asking.NodesDisagreeWarning")


def hashing_vectorizer():
    """A vectorizer that learns nothing."""
    return HashingVectorizer(n_features=128)


def linear_aggregator(members=None, front=None):
    """A linear aggregator behind a vectorizer."""
    front = hashing_vectorizer() if front is None else front
    return GEMSLogisticAggregator(members, front=front, random_state=0)


def channel_of(corpus, pipelines=None):
    """A channel to nodes that have documents, and pipelines if there are some."""

    def ask(requests):
        replies = {}
        for site, request in requests.items():
            X, y = corpus.of(site)
            clf = None if pipelines is None else pipelines[site]
            replies[site] = reply_to(request, clf, X, y, name=site, disclosure=None)
        return replies

    return Nodes(ask, SITES, disclosure=None)


def summary_of(corpus, site, clf=None, front=None):
    """The summary of a site for a linear aggregator."""
    X, y = corpus.of(site)
    return linear_aggregator(front=front).summarize(
        clf, X, y, name=site, disclosure=None
    )


MEMBERS_WITHOUT_CLASSIFIERS = [(site, None) for site in SITES]


def fit_after_vectorizer(corpus):
    """The aggregate of the same classifiers, on the numbers that a vectorizer makes."""
    classifiers = [
        (site, member[-1]) for site, member in corpus.pipelines(hashing_vectorizer)
    ]
    aggregate = GEMSLogisticAggregator(classifiers, random_state=0)
    return aggregate.fit(
        hashing_vectorizer().transform(corpus.X), corpus.y, nodes=corpus.sites
    )


@pytest.mark.parametrize("form", ["list", "array", "Series"])
def test_fitted_pipelines_behind_an_equal_vectorizer_are_merged(form):
    corpus = documents(n_rows=80)
    X = corpus.X
    if form == "list":
        X = corpus.X.tolist()
    if form == "Series":
        X = pytest.importorskip("pandas").Series(corpus.X)
    aggregate = linear_aggregator(corpus.pipelines(hashing_vectorizer)).fit(
        X, corpus.y, nodes=corpus.sites
    )
    expected = fit_after_vectorizer(corpus)
    np.testing.assert_array_equal(aggregate.coef_, expected.coef_)
    assert not hasattr(aggregate, "n_features_in_")
    np.testing.assert_array_equal(
        aggregate.predict_proba(X),
        expected.predict_proba(hashing_vectorizer().transform(corpus.X)),
    )
    pipeline = aggregate.to_estimator()
    assert type(pipeline[0]) is HashingVectorizer
    np.testing.assert_array_equal(
        pipeline.predict(corpus.X.tolist()), aggregate.predict(X)
    )


def test_a_pipeline_behind_another_vectorizer_is_an_error_that_says_what_to_do():
    corpus = documents()
    other = HashingVectorizer(n_features=128, norm="l1")
    with pytest.raises(ValueError, match="Node 'lyon'.*HashingVectorizer.*front="):
        linear_aggregator(corpus.pipelines(hashing_vectorizer), other).fit(
            corpus.X, corpus.y, nodes=corpus.sites
        )


@pytest.mark.parametrize("frozen", ["pipeline", "vectorizer"])
def test_frozen_pipelines_are_merged_too(frozen):
    corpus = documents()
    members = corpus.pipelines(hashing_vectorizer)
    if frozen == "pipeline":
        members = [(site, FrozenEstimator(member)) for site, member in members]
    else:
        members = [
            (site, make_pipeline(FrozenEstimator(member[0]), member[-1]))
            for site, member in members
        ]
    aggregate = linear_aggregator(members).fit(corpus.X, corpus.y, nodes=corpus.sites)
    np.testing.assert_array_equal(aggregate.coef_, fit_after_vectorizer(corpus).coef_)


@pytest.mark.parametrize("estimators", [None, LogisticRegression()])
def test_nodes_need_no_fitted_classifiers(estimators):
    corpus = documents()
    aggregate = linear_aggregator(estimators).fit(
        corpus.X, corpus.y, nodes=corpus.sites
    )
    assert aggregate.score(corpus.X.tolist(), corpus.y) > 0.9


def test_a_channel_to_pipelines_takes_one_message_and_has_the_same_bits():
    corpus = documents()
    pipelines = dict(corpus.pipelines(hashing_vectorizer))
    expected = linear_aggregator(list(pipelines.items())).fit(
        corpus.X, corpus.y, nodes=corpus.sites
    )
    over_channel = linear_aggregator(channel_of(corpus, pipelines)).fit()
    np.testing.assert_array_equal(over_channel.coef_, expected.coef_)
    assert [entry["task"] for entry in over_channel.history_] == ["join"]


def test_summaries_of_pipelines_have_the_same_bits_and_their_vectorizer():
    corpus = documents()
    pipelines = dict(corpus.pipelines(hashing_vectorizer))
    expected = linear_aggregator(list(pipelines.items())).fit(
        corpus.X, corpus.y, nodes=corpus.sites
    )
    summaries = [summary_of(corpus, site, pipelines[site]) for site in SITES]
    of_summaries = linear_aggregator(summaries).fit()
    np.testing.assert_array_equal(of_summaries.coef_, expected.coef_)
    with pytest.raises(ValueError, match="summarized with front=HashingVectorizer"):
        linear_aggregator(summaries, HashingVectorizer(n_features=64)).fit()


def test_files_of_documents_in_pairs_of_words_have_the_same_bits(tmp_path):
    corpus = documents()
    pairs = HashingVectorizer(n_features=64, ngram_range=(1, 2))
    paths = [tmp_path / site for site in SITES]
    for site, path in zip(SITES, paths, strict=True):
        summary_of(corpus, site, front=pairs).save(path)
    of_files = linear_aggregator(paths, pairs).fit()
    expected = linear_aggregator(MEMBERS_WITHOUT_CLASSIFIERS, pairs)
    expected.fit(corpus.X, corpus.y, nodes=corpus.sites)
    np.testing.assert_array_equal(of_files.coef_, expected.coef_)


def test_an_exchange_of_documents_has_the_same_bits(tmp_path):
    corpus = documents()
    pairs = HashingVectorizer(n_features=64, ngram_range=(1, 2), norm=None)
    Exchange(
        tmp_path, linear_aggregator(front=pairs), nodes=SITES, disclosure=None
    ).step()
    exchange = Exchange(tmp_path)  # a server that is started anew
    while (fitted := exchange.step()) is None:
        for name, request in exchange.waiting_for.items():
            X, y = corpus.of(name)
            answer(request, None, X, y, name=name, disclosure=None)
    expected = linear_aggregator(MEMBERS_WITHOUT_CLASSIFIERS, pairs)
    expected.fit(corpus.X, corpus.y, nodes=corpus.sites)
    np.testing.assert_array_equal(fitted.coef_, expected.coef_)


def test_a_hasher_is_a_front_for_dicts():
    corpus = documents()
    rows = [dict.fromkeys(text.split(), 1) for text in corpus.X]
    hasher = FeatureHasher(n_features=128)
    aggregate = linear_aggregator(MEMBERS_WITHOUT_CLASSIFIERS, hasher)
    aggregate.fit(rows, corpus.y, nodes=corpus.sites)
    expected = GEMSLogisticAggregator(MEMBERS_WITHOUT_CLASSIFIERS, random_state=0)
    expected.fit(hasher.transform(rows), corpus.y, nodes=corpus.sites)
    np.testing.assert_array_equal(aggregate.coef_, expected.coef_)


def test_a_pooled_naive_bayes_is_that_of_all_documents():
    corpus = documents()
    counts = HashingVectorizer(n_features=128, alternate_sign=False, norm=None)
    aggregate = PooledAggregator(pooled=MultinomialNB(), front=counts)
    aggregate.fit(corpus.X, corpus.y, nodes=corpus.sites)
    expected = make_pipeline(counts, MultinomialNB()).fit(corpus.X, corpus.y)
    np.testing.assert_allclose(
        aggregate.predict_proba(corpus.X), expected.predict_proba(corpus.X)
    )


@pytest.mark.parametrize("kind", [ModelAveragingAggregator, EnsembleAggregator])
def test_averages_and_votes_of_pipelines_are_those_after_the_vectorizer(kind):
    corpus = documents()
    members = corpus.pipelines(hashing_vectorizer)
    classifiers = [(site, member[-1]) for site, member in members]
    numbers = hashing_vectorizer().transform(corpus.X)
    aggregate = kind(members, front=hashing_vectorizer())
    aggregate.fit(corpus.X, corpus.y, nodes=corpus.sites)
    expected = kind(classifiers).fit(numbers, corpus.y, nodes=corpus.sites)
    np.testing.assert_array_equal(
        aggregate.predict_proba(corpus.X), expected.predict_proba(numbers)
    )


def test_combine_makes_a_linear_model_behind_the_front():
    corpus = documents()
    of_rows = combine(
        X=corpus.X.tolist(),
        y=corpus.y,
        nodes=corpus.sites,
        front=hashing_vectorizer(),
        random_state=0,
    )
    assert [entry["name"] for entry in of_rows.choice_.table] == ["linear"]
    assert of_rows.score(corpus.X, corpus.y) > 0.8


def test_combine_tries_a_linear_model_and_votes_of_pipelines_with_a_front():
    corpus = documents()
    of_members = combine(
        corpus.pipelines(),
        corpus.X.tolist(),
        corpus.y,
        nodes=corpus.sites,
        front=hashing_vectorizer(),
        random_state=0,
    )
    candidates = [entry["name"] for entry in of_members.choice_.table]
    assert candidates == ["linear", "vote", "vote by classes", "stack"]
    assert not any(entry["error"] for entry in of_members.choice_.table)


def test_combine_makes_a_linear_model_of_documents_behind_a_channel():
    corpus = documents()
    aggregate = combine(channel_of(corpus), front=hashing_vectorizer(), random_state=0)
    assert aggregate.choice_.name == "linear"
    assert not aggregate.choice_.looks_at_members
    assert "The model was not judged" in aggregate.choice_.doubts[0]
    assert aggregate.score(corpus.X, corpus.y) > 0.9


def test_combine_makes_a_linear_model_of_summaries_of_documents():
    corpus = documents()
    summaries = [summary_of(corpus, site) for site in SITES]
    aggregate = combine(summaries, front=hashing_vectorizer(), random_state=0)
    np.testing.assert_array_equal(
        aggregate.coef_, linear_aggregator(summaries).fit().coef_
    )
    assert aggregate.score(corpus.X, corpus.y) > 0.9


def test_combine_advises_a_front_for_documents_behind_a_channel():
    with pytest.raises(ValueError, match="X holds documents.*HashingVectorizer"):
        combine(channel_of(documents()), random_state=0)


@pytest.mark.parametrize("form", ["list", "array"])
def test_combine_lets_pipelines_vote_without_a_front(form):
    corpus = documents()
    X = corpus.X.tolist() if form == "list" else corpus.X
    aggregate = combine(
        corpus.pipelines(), X, corpus.y, nodes=corpus.sites, random_state=0
    )
    candidates = [entry["name"] for entry in aggregate.choice_.table]
    assert candidates == ["vote", "vote by classes", "stack"]
    assert not any(entry["error"] for entry in aggregate.choice_.table)
    assert aggregate.score(X, corpus.y) > 0.8


def test_combine_lets_pipelines_vote_without_rows():
    corpus = documents()
    assert combine(corpus.pipelines()).predict(corpus.X[:2]).shape == (2,)


def test_combine_advises_a_front_for_documents_without_pipelines():
    corpus = documents()
    with pytest.raises(ValueError, match="documents.*front=HashingVectorizer"):
        combine(X=corpus.X, y=corpus.y, nodes=corpus.sites, random_state=0)


# ---- what cannot be a front -------------------------------------------------------


@pytest.mark.parametrize("kind", [TfidfVectorizer, CountVectorizer, DictVectorizer])
def test_a_vectorizer_that_learns_is_no_front(kind):
    corpus = documents()
    message = f"{kind.__name__} learns from rows.*EnsembleAggregator"
    with pytest.raises(NotPooledError, match=message):
        linear_aggregator(front=kind()).fit(corpus.X, corpus.y, nodes=corpus.sites)


@pytest.mark.parametrize(
    "params",
    [
        {"tokenizer": str.split},
        {"analyzer": str.split},
        {"token_pattern": "(a+)+$"},
        {"input": "filename"},
        {"n_features": 2**21},
        {"ngram_range": (1, 10**6)},
        {"ngram_range": (2, 1)},
        {"stop_words": ["a"]},
        {"dtype": np.float32},
    ],
)
def test_vectorizers_with_parameters_that_cannot_be_sent_are_no_fronts(params):
    corpus = documents()
    (name,) = params
    with pytest.raises(NotPooledError, match=rf"\({name}=.*cannot be sent") as raised:
        linear_aggregator(front=HashingVectorizer(**params)).fit(corpus.X, corpus.y)
    assert "n_features, ngram_range" in str(raised.value)


# Contents of messages that are no front.
WRONG = [
    {"tree": {"kind": "HashingVectorizer", "params": {"input": "filename"}}},
    {"tree": {"kind": "HashingVectorizer", "params": {"token_pattern": "(a+)+$"}}},
    {"tree": {"kind": "HashingVectorizer", "params": {"n_features": 10**12}}},
    {"tree": {"kind": "HashingVectorizer", "params": {"n_features": [1, 2]}}},
    {"tree": {"kind": "HashingVectorizer", "params": {"ngram_range": [1, 10**9]}}},
    {"tree": {"kind": "HashingVectorizer", "params": {"ngram_range": "ab"}}},
    {"tree": {"kind": "HashingVectorizer", "params": {"norm": {"l": 2}}}},
    {"tree": {"kind": "HashingVectorizer", "params": {"lowercase": 1}}},
    {"tree": {"kind": "HashingVectorizer", "params": ["n_features"]}},
    {"tree": {"kind": "HashingVectorizer", "steps": []}},
    {"tree": {"kind": "HashingVectorizer", "params": {}}, "bounds": "tell"},
    {"tree": {"kind": "HashingVectorizer", "params": {}}, "states": {"0": {}}},
    {"tree": {"kind": "HashingVectorizer", "params": {}}, "more": 1},
    {"tree": {"kind": "FeatureHasher", "params": {"dtype": "object"}}},
    {"tree": {"kind": "TfidfVectorizer", "params": {}}},
    {"tree": {"kind": ["HashingVectorizer"], "params": {}}},
    {"tree": "HashingVectorizer"},
    {},
    [],
]


@pytest.mark.parametrize("content", WRONG, ids=repr)
def test_a_wrong_front_in_a_message_is_refused(content):
    with pytest.raises(
        ValueError, match="is not a front|cannot be sent|is not a table"
    ):
        front_of_content(content)
    request = Message.of("front", front=content)
    with pytest.raises(ValueError, match="front"):
        X, y = documents().of("lyon")
        reply_to(request, None, X, y, name="lyon")


def test_a_front_comes_back_from_a_message():
    front = HashingVectorizer(n_features=64, ngram_range=(1, 2), stop_words="english")
    content = DocumentFront.from_vectorizer(front).as_content()
    from_message = front_of_content(content)
    assert from_message.transformer.get_params() == front.get_params()
    assert from_message.digest == DocumentFront.from_vectorizer(clone(front)).digest
    assert (
        from_message.digest
        != DocumentFront.from_vectorizer(hashing_vectorizer()).digest
    )


# ---- errors -----------------------------------------------------------------------


def test_the_error_about_a_missing_document_does_not_quote_the_others():
    corpus = documents()
    X, y = corpus.of("lyon")
    X = [*X[:-1], None]
    with pytest.raises(ValueError, match="Node 'lyon': some documents") as raised:
        linear_aggregator().summarize(None, X, y, name="lyon")
    assert "word" not in str(raised.value)
    assert raised.value.__cause__ is None and raised.value.__suppress_context__
    aggregate = linear_aggregator().fit(corpus.X, corpus.y, nodes=corpus.sites)
    with pytest.raises(
        ValueError, match="some documents are None, NaN or numbers"
    ) as raised:
        aggregate.predict(X)
    assert raised.value.__cause__ is None and raised.value.__suppress_context__


@pytest.mark.parametrize(
    "table", [np.array([["a", "b"]], dtype=object), np.zeros((3, 2))]
)
def test_a_front_of_documents_takes_no_tables(table):
    corpus = documents()
    aggregate = linear_aggregator().fit(corpus.X, corpus.y, nodes=corpus.sites)
    with pytest.raises(ValueError, match="takes one document per row.*column of doc"):
        aggregate.predict(table)


@pytest.mark.parametrize(
    "kind",
    [
        GEMSLogisticAggregator,
        GEMSMLPAggregator,
        PFNMAggregator,
        ModelAveragingAggregator,
    ],
)
def test_for_pipelines_without_a_front_a_front_or_votes_are_advised(kind):
    corpus = documents()
    for vectorizer in (hashing_vectorizer, TfidfVectorizer):
        members = corpus.pipelines(vectorizer)
        with pytest.raises(ValueError, match="front=.*EnsembleAggregator") as raised:
            kind(members).fit(corpus.X, corpus.y, nodes=corpus.sites)
        assert "word" not in str(raised.value)
        message = "Node 'lyon'.*begins with .*Vectorizer.*front=.*EnsembleAggregator"
        with pytest.raises(ValueError, match=message):
            kind(members).fit()


def test_a_front_is_advised_for_a_summary_of_documents_and_helps():
    corpus = documents()
    pipeline = dict(corpus.pipelines(hashing_vectorizer))["lyon"]
    X, y = corpus.of("lyon")
    aggregate = GEMSLogisticAggregator(random_state=0)
    message = "Node 'lyon': X holds documents.*front="
    with pytest.raises(ValueError, match=message) as raised:
        aggregate.summarize(pipeline, X, y, name="lyon")
    assert "word" not in str(raised.value)
    aggregate.set_params(front=hashing_vectorizer())
    assert aggregate.summarize(pipeline, X, y, name="lyon").name == "lyon"


@pytest.mark.parametrize("front", [StandardScaler(), make_pipeline(StandardScaler())])
def test_fronts_of_columns_take_no_documents(front):
    corpus = documents()
    message = "takes columns.*HashingVectorizer"
    with pytest.raises(ValueError, match=message) as raised:
        linear_aggregator(front=front).fit(corpus.X, corpus.y, nodes=corpus.sites)
    assert "word1" not in str(raised.value)


def test_a_pooled_transformer_of_columns_takes_no_documents():
    corpus = documents()
    with pytest.raises(ValueError, match="takes columns.*HashingVectorizer"):
        PooledTransformer(StandardScaler()).fit(corpus.X)
