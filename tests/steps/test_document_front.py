# SPDX-License-Identifier: BSD-3-Clause
"""A vectorizer that learns nothing from rows is a front of documents."""

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
from skgems.federation import Message, Nodes, reply_to
from skgems.steps import DocumentFront, NotPooledError, front_of_content

pytestmark = pytest.mark.filterwarnings(
    "ignore::skgems.federation.RowsExposedWarning",
    "ignore::skgems.federation.NodesDisagreeWarning",
)


def hashing():
    return HashingVectorizer(n_features=128)


def linear(members=None, front=None):
    front = hashing() if front is None else front
    return GEMSLogisticAggregator(members, front=front, random_state=0)


def fitted_to_numbers(corpus):
    """The aggregate of the same classifiers and of the rows after the vectorizer."""
    heads = [(site, member[-1]) for site, member in corpus.pipelines(hashing)]
    aggregate = GEMSLogisticAggregator(heads, random_state=0)
    return aggregate.fit(hashing().transform(corpus.X), corpus.y, nodes=corpus.sites)


@pytest.mark.parametrize("form", ["list", "array", "Series"])
def test_fitted_pipelines_behind_an_equal_vectorizer_are_merged(form):
    corpus = documents()
    X = {"list": corpus.X.tolist(), "array": corpus.X}.get(form)
    if form == "Series":
        X = pytest.importorskip("pandas").Series(corpus.X)
    aggregate = linear(corpus.pipelines(hashing)).fit(X, corpus.y, nodes=corpus.sites)
    expected = fitted_to_numbers(corpus)
    np.testing.assert_array_equal(aggregate.coef_, expected.coef_)
    assert not hasattr(aggregate, "n_features_in_")
    np.testing.assert_array_equal(
        aggregate.predict_proba(X),
        expected.predict_proba(hashing().transform(corpus.X)),
    )
    plain = aggregate.to_estimator()
    assert type(plain[0]) is HashingVectorizer
    np.testing.assert_array_equal(
        plain.predict(corpus.X.tolist()), aggregate.predict(X)
    )


def test_a_pipeline_behind_another_vectorizer_is_an_error_that_says_what_to_do():
    corpus = documents()
    other = HashingVectorizer(n_features=128, norm="l1")
    with pytest.raises(ValueError, match="Node 'lyon'.*HashingVectorizer.*front="):
        linear(corpus.pipelines(hashing), other).fit(
            corpus.X, corpus.y, nodes=corpus.sites
        )


@pytest.mark.parametrize("frozen", ["pipeline", "vectorizer"])
def test_frozen_pipelines_are_merged_too(frozen):
    corpus = documents()
    members = corpus.pipelines(hashing)
    if frozen == "pipeline":
        members = [(site, FrozenEstimator(member)) for site, member in members]
    else:
        members = [
            (site, make_pipeline(FrozenEstimator(member[0]), member[-1]))
            for site, member in members
        ]
    aggregate = linear(members).fit(corpus.X, corpus.y, nodes=corpus.sites)
    np.testing.assert_array_equal(aggregate.coef_, fitted_to_numbers(corpus).coef_)


@pytest.mark.parametrize("members", ["none", "unfitted"])
def test_nodes_without_fitted_classifiers(members):
    corpus = documents()
    estimators = None if members == "none" else LogisticRegression()
    aggregate = linear(estimators).fit(corpus.X, corpus.y, nodes=corpus.sites)
    assert aggregate.score(corpus.X.tolist(), corpus.y) > 0.9


def test_nodes_that_are_apart_need_no_more_messages():
    corpus = documents()
    pipelines = dict(corpus.pipelines(hashing))
    expected = linear(list(pipelines.items())).fit(
        corpus.X, corpus.y, nodes=corpus.sites
    )

    def ask(requests):
        return {
            name: reply_to(request, pipelines[name], *corpus.of(name), name=name)
            for name, request in requests.items()
        }

    over_channel = linear(Nodes(ask, SITES)).fit()
    np.testing.assert_array_equal(over_channel.coef_, expected.coef_)
    assert [entry["task"] for entry in over_channel.history_] == ["join"]
    agreed = linear()
    summaries = [agreed.summarize(pipelines[s], *corpus.of(s), name=s) for s in SITES]
    of_files = clone(agreed).set_params(estimators=summaries).fit()
    np.testing.assert_array_equal(of_files.coef_, expected.coef_)
    with pytest.raises(ValueError, match="summarized with front=HashingVectorizer"):
        linear(summaries, HashingVectorizer(n_features=64)).fit()


def test_files_of_pairs_of_words(tmp_path):
    corpus = documents()
    pairs = HashingVectorizer(n_features=64, ngram_range=(1, 2))
    paths = [tmp_path / site for site in SITES]
    for site, path in zip(SITES, paths, strict=True):
        linear(front=pairs).summarize(None, *corpus.of(site), name=site).save(path)
    of_files = linear(paths, pairs).fit()
    members = [(site, None) for site in SITES]
    expected = linear(members, pairs).fit(corpus.X, corpus.y, nodes=corpus.sites)
    np.testing.assert_array_equal(of_files.coef_, expected.coef_)


def test_an_exchange_of_documents(tmp_path):
    corpus = documents()
    pipelines = dict(corpus.pipelines(hashing))
    ranged = HashingVectorizer(n_features=64, ngram_range=(1, 2), norm=None)
    Exchange(tmp_path, linear(front=ranged), nodes=SITES).step()
    exchange = Exchange(tmp_path)  # a server started anew
    while (fitted := exchange.step()) is None:
        for name, request in exchange.waiting_for.items():
            answer(request, None, *corpus.of(name), name=name)
    members = [(site, None) for site in SITES]
    expected = linear(members, ranged).fit(corpus.X, corpus.y, nodes=corpus.sites)
    np.testing.assert_array_equal(fitted.coef_, expected.coef_)
    assert pipelines.keys() == set(SITES)


def test_dicts_go_through_a_hasher():
    corpus = documents()
    rows = [dict.fromkeys(text.split(), 1) for text in corpus.X]
    hasher = FeatureHasher(n_features=128)
    members = [(site, None) for site in SITES]
    aggregate = linear(members, hasher).fit(rows, corpus.y, nodes=corpus.sites)
    expected = GEMSLogisticAggregator(members, random_state=0).fit(
        hasher.transform(rows), corpus.y, nodes=corpus.sites
    )
    np.testing.assert_array_equal(aggregate.coef_, expected.coef_)


def test_naive_bayes_of_all_documents():
    corpus = documents()
    counts = HashingVectorizer(n_features=128, alternate_sign=False, norm=None)
    aggregate = PooledAggregator(pooled=MultinomialNB(), front=counts)
    aggregate.fit(corpus.X, corpus.y, nodes=corpus.sites)
    expected = make_pipeline(counts, MultinomialNB()).fit(corpus.X, corpus.y)
    np.testing.assert_allclose(
        aggregate.predict_proba(corpus.X), expected.predict_proba(corpus.X)
    )


def test_averages_and_votes_of_documents():
    corpus = documents()
    members = corpus.pipelines(hashing)
    heads = [(site, member[-1]) for site, member in members]
    numbers = hashing().transform(corpus.X)
    for kind in (ModelAveragingAggregator, EnsembleAggregator):
        aggregate = kind(members, front=hashing())
        aggregate.fit(corpus.X, corpus.y, nodes=corpus.sites)
        expected = kind(heads).fit(numbers, corpus.y, nodes=corpus.sites)
        np.testing.assert_array_equal(
            aggregate.predict_proba(corpus.X), expected.predict_proba(numbers)
        )


def test_combine_makes_a_linear_model_behind_the_front():
    corpus = documents()
    members = corpus.pipelines()
    settings = {"nodes": corpus.sites, "front": hashing(), "random_state": 0}
    of_rows = combine(X=corpus.X.tolist(), y=corpus.y, **settings)
    assert [entry["name"] for entry in of_rows.choice_.table] == ["linear"]
    assert of_rows.score(corpus.X, corpus.y) > 0.8
    of_members = combine(members, corpus.X.tolist(), corpus.y, **settings)
    assert [entry["name"] for entry in of_members.choice_.table] == [
        *("linear", "vote", "vote by classes", "stack")
    ]
    assert not any(entry["error"] for entry in of_members.choice_.table)


def test_combine_of_documents_that_are_apart():
    corpus = documents()

    def ask(requests):
        return {
            name: reply_to(request, None, *corpus.of(name), name=name)
            for name, request in requests.items()
        }

    over_channel = combine(Nodes(ask, SITES), front=hashing(), random_state=0)
    assert (
        over_channel.choice_.name == "linear"
        and not over_channel.choice_.looks_at_members
    )
    assert "nobody judged it" in over_channel.choice_.doubts[0]
    summaries = [
        linear().summarize(None, *corpus.of(site), name=site) for site in SITES
    ]
    of_files = combine(summaries, front=hashing(), random_state=0)
    np.testing.assert_array_equal(of_files.coef_, linear(summaries).fit().coef_)
    assert (
        min(of_files.score(corpus.X, corpus.y), over_channel.score(corpus.X, corpus.y))
        > 0.9
    )
    with pytest.raises(ValueError, match="X holds documents.*HashingVectorizer"):
        combine(Nodes(ask, SITES), random_state=0)


def test_combine_lets_pipelines_vote():
    corpus = documents()
    members = corpus.pipelines()
    settings = {"nodes": corpus.sites, "random_state": 0}
    for X in (corpus.X.tolist(), corpus.X):
        aggregate = combine(members, X, corpus.y, **settings)
        assert [entry["name"] for entry in aggregate.choice_.table] == [
            *("vote", "vote by classes", "stack")
        ]
        assert not any(entry["error"] for entry in aggregate.choice_.table)
        assert aggregate.score(X, corpus.y) > 0.8
    assert combine(members).predict(corpus.X[:2]).shape == (2,)
    with pytest.raises(ValueError, match="documents.*front=HashingVectorizer"):
        combine(X=corpus.X, y=corpus.y, **settings)


# ---- what cannot be a front -------------------------------------------------------


@pytest.mark.parametrize("kind", [TfidfVectorizer, CountVectorizer, DictVectorizer])
def test_a_vectorizer_that_learns_is_no_front(kind):
    corpus = documents()
    message = f"{kind.__name__} learns from rows.*EnsembleAggregator"
    with pytest.raises(NotPooledError, match=message):
        linear(front=kind()).fit(corpus.X, corpus.y, nodes=corpus.sites)


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
def test_parameters_that_cannot_be_sent(params):
    corpus = documents()
    (name,) = params
    with pytest.raises(NotPooledError, match=rf"\({name}=.*cannot be sent") as raised:
        linear(front=HashingVectorizer(**params)).fit(corpus.X, corpus.y)
    assert "n_features, ngram_range" in str(raised.value)


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
def test_a_front_in_a_message_is_not_trusted(content):
    with pytest.raises(ValueError, match="is no front|cannot be sent|is no table"):
        front_of_content(content)
    request = Message.of("front", front=content)
    with pytest.raises(ValueError, match="front"):
        reply_to(request, None, *documents().of("lyon"), name="lyon")


def test_a_front_comes_back_from_a_message():
    front = HashingVectorizer(n_features=64, ngram_range=(1, 2), stop_words="english")
    content = DocumentFront.of(front).as_content()
    again = front_of_content(content)
    assert again.transformer.get_params() == front.get_params()
    assert again.digest == DocumentFront.of(clone(front)).digest
    assert again.digest != DocumentFront.of(hashing()).digest


# ---- errors -----------------------------------------------------------------------


def test_gaps_among_documents_are_an_error_without_the_text_of_others():
    corpus = documents()
    X, y = corpus.of("lyon")
    X = [*X[:-1], None]
    with pytest.raises(ValueError, match="Node 'lyon': some documents") as raised:
        linear().summarize(None, X, y, name="lyon")
    assert "word" not in str(raised.value)
    assert raised.value.__cause__ is None and raised.value.__suppress_context__
    aggregate = linear().fit(corpus.X, corpus.y, nodes=corpus.sites)
    with pytest.raises(ValueError, match="some documents are not such") as raised:
        aggregate.predict(X)
    assert raised.value.__cause__ is None and raised.value.__suppress_context__


@pytest.mark.parametrize("X", ["table", "numbers"])
def test_a_front_of_documents_takes_no_tables(X):
    corpus = documents()
    aggregate = linear().fit(corpus.X, corpus.y, nodes=corpus.sites)
    rows = np.zeros((3, 2)) if X == "numbers" else np.array([["a", "b"]], dtype=object)
    with pytest.raises(ValueError, match="takes documents, one a row.*column of doc"):
        aggregate.predict(rows)


@pytest.mark.parametrize(
    "kind",
    [
        GEMSLogisticAggregator,
        GEMSMLPAggregator,
        PFNMAggregator,
        ModelAveragingAggregator,
    ],
)
def test_pipelines_that_cannot_be_read_are_told_of_front_and_votes(kind):
    corpus = documents()
    for vectorizer in (hashing, TfidfVectorizer):
        members = corpus.pipelines(vectorizer)
        with pytest.raises(ValueError, match="front=.*EnsembleAggregator") as raised:
            kind(members).fit(corpus.X, corpus.y, nodes=corpus.sites)
        assert "word" not in str(raised.value)
        message = "Node 'lyon'.*begins with .*Vectorizer.*front=.*EnsembleAggregator"
        with pytest.raises(ValueError, match=message):
            kind(members).fit()


def test_a_node_that_summarizes_documents_is_told_so():
    corpus = documents()
    member = dict(corpus.pipelines(hashing))["lyon"]
    aggregate = GEMSLogisticAggregator(random_state=0)
    with pytest.raises(ValueError, match="Node 'lyon': X holds documents.*front=") as e:
        aggregate.summarize(member, *corpus.of("lyon"), name="lyon")
    assert "word" not in str(e.value)
    # What it says works.
    aggregate.set_params(front=hashing())
    assert aggregate.summarize(member, *corpus.of("lyon"), name="lyon").name == "lyon"


def test_other_fronts_take_no_documents():
    corpus = documents()
    for front in (StandardScaler(), make_pipeline(StandardScaler())):
        with pytest.raises(ValueError, match="takes columns.*HashingVectorizer") as e:
            linear(front=front).fit(corpus.X, corpus.y, nodes=corpus.sites)
        assert "word1" not in str(e.value)
    with pytest.raises(ValueError, match="takes columns.*HashingVectorizer"):
        PooledTransformer(StandardScaler()).fit(corpus.X)
