# SPDX-License-Identifier: BSD-3-Clause
"""What a fitted aggregator tells of nodes, classes and messages."""

import pickle
import warnings
from copy import deepcopy
from html import escape

import numpy as np
import pytest
from helpers.disclosures import rule_of
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgems import (
    DistillationAggregator,
    EnsembleAggregator,
    GEMSLogisticAggregator,
    GEMSMLPAggregator,
    ModelAveragingAggregator,
    PFNMAggregator,
    PooledAggregator,
    combine,
)
from skgems.asking import Nodes
from skgems.base import as_markdown
from skgems.datasets import load_penguins
from skgems.gems import Spaces
from skgems.guard import reply_to
from skgems.parties import ClassesLeftOutWarning
from skgems.pfnm import Matching

X, Y, ISLANDS = load_penguins()
NAMES = ["Biscoe", "Dream", "Torgersen"]
TEST = np.arange(len(Y)) % 4 == 0


def named_pipeline_of_island(model, name):
    """The island's name, and a pipeline fitted on its rows that are not for tests."""
    is_learning = ~TEST & (name == ISLANDS)
    # The rows of Torgersen are of one species, which no logistic regression fits.
    model = model if len(set(Y[is_learning])) > 1 else DummyClassifier()
    pipeline = make_pipeline(StandardScaler(), model)
    return name, pipeline.fit(X[is_learning], Y[is_learning])


MEMBERS = [named_pipeline_of_island(LogisticRegression(), name) for name in NAMES]
X_LEARN = X[~TEST]
Y_LEARN = Y[~TEST]
ISLANDS_LEARN = ISLANDS[~TEST]


def doubts_about(words, report):
    """The doubts of a report that have these words."""
    return [doubt for doubt in report.doubts if words in doubt]


@pytest.fixture(scope="module")
def networks():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [
            named_pipeline_of_island(
                MLPClassifier((6,), max_iter=300, random_state=0), name
            )
            for name in NAMES
        ]


@pytest.fixture(scope="module")
def linear_aggregator():
    """An aggregator of the islands' linear models, fitted without spaces."""
    agg = GEMSLogisticAggregator(MEMBERS, random_state=0)
    return agg.fit(X_LEARN, Y_LEARN, nodes=ISLANDS_LEARN)


@pytest.fixture(scope="module")
def report_on_test_rows(linear_aggregator):
    """The report of the linear aggregator on the rows for tests."""
    return linear_aggregator.report(X[TEST], Y[TEST], ISLANDS[TEST])


def test_a_report_on_rows_scores_the_models_on_these_rows(
    linear_aggregator, report_on_test_rows
):
    for k, (name, model) in enumerate(MEMBERS):
        rows = TEST & (name == ISLANDS)
        cells = {
            column: cells[k] for column, cells in report_on_test_rows.nodes.items()
        }
        local_accuracy = model.score(X[rows], Y[rows])
        accuracy = linear_aggregator.score(X[rows], Y[rows])
        assert cells["node"] == name
        assert cells["rows"] == rows.sum()
        assert cells["local_accuracy"] == local_accuracy
        assert cells["aggregate_accuracy"] == accuracy
        assert cells["gain"] == accuracy - local_accuracy
        _, counts = np.unique(Y[rows], return_counts=True)
        assert cells["largest_class"] == counts.max() / rows.sum()


def rare_positives():
    """Rows of three nodes of which 5 in 100 are positive, with a weak feature."""
    rng = np.random.default_rng(0)
    y = np.tile(np.arange(100) < 5, 9)
    X = rng.normal(size=(900, 2)) + 0.2 * y[:, None]
    return X, np.where(y, "ill", "well"), np.repeat(["a", "b", "c"], 300)


def test_a_model_that_is_no_better_than_a_constant_is_a_doubt(tmp_path):
    X, y, nodes = rare_positives()
    estimators = [(name, LogisticRegression(C=0.01)) for name in "abc"]
    agg = GEMSLogisticAggregator(estimators, random_state=0, validation_fraction=0.0)
    agg.fit(X, y, nodes=nodes)
    assert set(agg.predict(X)) == {"well"}
    for report in (agg.report(X, y, nodes), agg.report()):
        assert report.nodes["largest_class"] == [0.95] * 3
        assert report.nodes["aggregate_accuracy"] == [0.95] * 3
        (doubt,) = (doubt for doubt in report.doubts if "no more accurate" in doubt)
        assert "'a' (0.950, 0.950), 'b' (0.950, 0.950), 'c'" in doubt
        assert max(map(len, str(report).splitlines())) <= 88
        assert "share of largest class" in str(report)
    agg.model_card(tmp_path / "MODEL.md", X=X, y=y, nodes=nodes)
    card = (tmp_path / "MODEL.md").read_text(encoding="utf-8")
    assert "| share of largest class |" in card and "no more accurate than" in card


def test_accuracies_on_one_class_are_a_doubt(linear_aggregator):
    rows = (ISLANDS != "Torgersen") | (Y == "Adelie")
    report = linear_aggregator.report(X[rows], Y[rows], ISLANDS[rows])
    (doubt,) = (doubt for doubt in report.doubts if "one class only" in doubt)
    assert "at these nodes: 'Torgersen'. The accuracies there" in doubt
    assert not any("no more accurate" in doubt for doubt in report.doubts)


def test_one_vs_rest_members_are_a_doubt():
    scaled = StandardScaler().fit_transform(X)
    half = np.array(["a", "b"])[np.arange(len(Y)) % 2]
    members = [
        ("a", OneVsRestClassifier(LogisticRegression())),
        ("b", LogisticRegression()),
    ]
    for name, classifier in members:
        classifier.fit(scaled[half == name], Y[half == name])
    agg = GEMSLogisticAggregator(members, random_state=0).fit(scaled, Y, nodes=half)
    (doubt,) = (doubt for doubt in agg.report().doubts if "one-vs-rest" in doubt)
    assert "one-vs-rest: 'a'. The aggregate is a softmax" in doubt


def test_a_report_says_which_columns_are_used():
    keeps_two = make_column_transformer((StandardScaler(), [0, 2]))
    members = [
        (
            name,
            make_pipeline(keeps_two, LogisticRegression()).fit(
                X[name == ISLANDS], Y[name == ISLANDS]
            ),
        )
        for name in NAMES[:2]
    ]
    rows = np.isin(ISLANDS, NAMES[:2])
    agg = GEMSLogisticAggregator(members, random_state=0)
    report = agg.fit(X[rows], Y[rows], nodes=ISLANDS[rows]).report()
    assert report.columns == "The model uses the columns 0, 2, and not 1, 3."
    for text in (str(report), report._repr_html_(), report.to_markdown()):
        assert report.columns in text


def test_a_report_names_the_method_the_classes_and_the_messages(
    linear_aggregator, report_on_test_rows
):
    assert report_on_test_rows.method == "GEMSLogisticAggregator"
    assert report_on_test_rows.nodes["classes"][1] == "Adelie, Chinstrap"
    assert report_on_test_rows.classes == {
        "class": ["Adelie", "Chinstrap", "Gentoo"],
        "known_by": ["Biscoe, Dream, Torgersen", "Dream", "Biscoe"],
    }
    assert len(report_on_test_rows.messages) == len(linear_aggregator.history_)


def test_rows_of_no_named_node_score_the_models_of_all_nodes(linear_aggregator):
    report = linear_aggregator.report(X[TEST], Y[TEST])
    accuracy = linear_aggregator.score(X[TEST], Y[TEST])
    assert report.nodes["aggregate_accuracy"] == [accuracy] * 3


def test_nodes_of_rows_are_named_or_numbered(linear_aggregator, report_on_test_rows):
    numbers = np.searchsorted(NAMES, ISLANDS[TEST])
    report = linear_aggregator.report(X[TEST], Y[TEST], numbers)
    assert report.nodes == report_on_test_rows.nodes


@pytest.fixture(scope="module")
def aggregator_with_spaces():
    """An aggregator of the islands' linear models, fitted within spaces."""
    agg = GEMSLogisticAggregator(MEMBERS, epsilon=0.9, random_state=0)
    return agg.fit(X_LEARN, Y_LEARN, nodes=ISLANDS_LEARN)


def test_a_report_without_rows_has_the_scores_of_the_fit(aggregator_with_spaces):
    nodes = aggregator_with_spaces.report().nodes
    scores = aggregator_with_spaces.node_scores_
    assert nodes["rows"] == scores["n_rows"]
    assert nodes["log_loss"] == scores["loss"]
    assert nodes["local_accuracy"] == scores["local"]
    assert nodes["aggregate_accuracy"] == scores["aggregate"]
    assert aggregator_with_spaces.intersection_.found
    assert nodes["in_good_enough_space"] == [True] * 3


def test_a_report_without_spaces_says_nothing_about_them(linear_aggregator):
    assert "in_good_enough_space" not in linear_aggregator.report().nodes


def test_a_report_of_a_fit_by_loss_has_no_accuracies():
    agg = GEMSLogisticAggregator(
        MEMBERS,
        spaces=Spaces(criterion="log_loss", on_empty="ignore"),
        epsilon=0.5,
        random_state=0,
    )
    agg.fit(X_LEARN, Y_LEARN, nodes=ISLANDS_LEARN)
    assert "local_accuracy" not in agg.report().nodes


def test_nodes_that_lose_and_classes_of_one_node_are_doubts():
    vote = EnsembleAggregator(MEMBERS).fit()
    report = vote.report(X[TEST], Y[TEST], ISLANDS[TEST])
    assert "Node 'Biscoe' loses" in report.doubts[0]
    assert any("'Chinstrap' (Dream), 'Gentoo' (Biscoe)" in d for d in report.doubts)
    assert f"Doubt: {report.doubts[0]}" in " ".join(str(report).split())


def test_classes_whose_rows_a_node_keeps_back_are_doubts():
    agg = GEMSLogisticAggregator(random_state=0)
    rows = {"lyon": np.flatnonzero(ISLANDS == "Dream"), "rome": np.arange(len(Y))}
    rows["lyon"] = rows["lyon"][np.cumsum(Y[rows["lyon"]] == "Chinstrap") < 9]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ClassesLeftOutWarning)
        files = [
            agg.summarize(None, X[at_node], Y[at_node], name=name)
            for name, at_node in rows.items()
        ]
    report = agg.set_params(estimators=files).fit().report()
    (doubt,) = doubts_about("has sent nothing about rows", report)
    assert "Node 'lyon'" in doubt
    assert "'Chinstrap'" in doubt
    assert "fewer than 10" in doubt
    assert not doubts_about("'rome'", report)


def test_doubts_about_the_choice_are_doubts_of_the_report():
    chosen = combine(X=X, y=Y, nodes=ISLANDS, budget="small", random_state=0)
    assert {*chosen.choice_.doubts} <= {*chosen.report().doubts}


def test_a_model_outside_of_good_enough_spaces_is_doubted():
    agg = GEMSLogisticAggregator(
        MEMBERS,
        epsilon=0.95,
        intersection="consensus",
        spaces=Spaces(on_empty="ignore"),
    )
    report = agg.fit(X_LEARN, Y_LEARN, nodes=ISLANDS_LEARN).report()
    pairs = zip(NAMES, report.nodes["in_good_enough_space"], strict=True)
    outside = [name for name, is_inside in pairs if not is_inside]
    doubts = doubts_about("outside the good-enough spaces", report)
    assert bool(outside) == bool(doubts)
    assert all(name in doubts[0] for name in outside)


def test_a_report_is_shown_as_html_markdown_and_a_frame():
    pytest.importorskip("pandas")
    named_like_html = [("<b>&lyon", MEMBERS[0][1]), ("paris", MEMBERS[1][1])]
    report = EnsembleAggregator(named_like_html).fit().report(X, Y)
    html = report._repr_html_()
    assert "&lt;b&gt;&amp;lyon" in html and "<b>&" not in html
    assert html.count("<table>") == 5 == html.count("</table>")
    rows = [row for row in report.to_markdown().splitlines() if row.startswith("|")]
    assert len({row.count("|") for row in rows[:4]}) == 1
    frame = report.to_frame()
    assert frame.loc["paris", "rows"] == len(Y)
    assert "node" in str(report).splitlines()[2]


@pytest.fixture(scope="module")
def summaries():
    """A summary of each island's rows that are not for tests."""
    agg = GEMSLogisticAggregator(random_state=0)
    summaries = []
    for name, model in MEMBERS:
        rows = ~TEST & (name == ISLANDS)
        summaries.append(agg.summarize(model, X[rows], Y[rows], name=name))
    return summaries


@pytest.fixture(scope="module")
def aggregator_of_summaries(summaries):
    """An aggregator that is fitted on the islands' summaries."""
    return GEMSLogisticAggregator(summaries, random_state=0).fit()


def test_a_report_of_summaries_counts_their_rows_and_bytes(
    summaries, aggregator_of_summaries
):
    report = aggregator_of_summaries.report()
    assert report.nodes["rows"] == [summary.n_rows for summary in summaries]
    assert report.nodes["bytes"] == [summary.n_bytes for summary in summaries]
    n_bytes = sum(report.nodes["bytes"])
    assert report.sent == f"The nodes sent {n_bytes:,} bytes in 3 files."


def test_a_report_of_summaries_scores_their_classifiers_on_rows(
    aggregator_of_summaries,
):
    report = aggregator_of_summaries.report(X[TEST], Y[TEST], ISLANDS[TEST])
    local_accuracies = [
        model.score(X[TEST & (name == ISLANDS)], Y[TEST & (name == ISLANDS)])
        for name, model in MEMBERS
    ]
    assert report.nodes["local_accuracy"] == local_accuracies


def test_a_model_card_has_the_report_parameters_and_digests(
    summaries, aggregator_of_summaries, tmp_path
):
    report = aggregator_of_summaries.report(X[TEST], Y[TEST], ISLANDS[TEST])
    path = tmp_path / "MODEL.md"
    aggregator_of_summaries.model_card(path, X=X[TEST], y=Y[TEST], nodes=ISLANDS[TEST])
    card = path.read_text(encoding="utf-8")
    assert report.to_markdown().partition("\n\n")[0] in card
    assert report.doubts and all(f"- {doubt}" in card for doubt in report.doubts)
    assert "| random_state | 0 |" in card
    assert all(summary.message.digest in card for summary in summaries)
    assert "| estimators |" not in card


@pytest.mark.filterwarnings("ignore")
def test_every_aggregator_has_a_report(networks):
    fitted = [
        GEMSMLPAggregator(networks, random_state=0).fit(X, Y, nodes=ISLANDS),
        PFNMAggregator(networks, random_state=0, matching=Matching(max_iter=3)).fit(
            X, Y, nodes=ISLANDS
        ),
        ModelAveragingAggregator(MEMBERS).fit(),
        DistillationAggregator(MEMBERS, random_state=0).fit(X),
        PooledAggregator(front=StandardScaler()).fit(X, Y, nodes=ISLANDS),
    ]
    for agg in fitted:
        report = agg.report(X, Y, ISLANDS)
        accuracies = [
            np.mean(agg.predict(X[ISLANDS == n]) == Y[ISLANDS == n]) for n in NAMES
        ]
        assert report.nodes["aggregate_accuracy"] == pytest.approx(accuracies)
        assert ("local_accuracy" in report.nodes) == (
            not isinstance(agg, PooledAggregator)
        )
        assert agg.report().nodes["node"] == NAMES


# ---- warnings of the fit as doubts -----------------------------------------------

ILL = np.array(["ill", "Ill"])


def labels_that_differ_in_case():
    """Two nodes whose labels differ in case, and their rows."""
    rng = np.random.default_rng(0)
    codes = np.arange(80) % 2
    A = rng.normal(size=(80, 2)) + 3.0 * codes[:, None]
    nodes = np.arange(80) // 40
    b = np.where(codes == 1, "well", ILL[nodes])
    return A, b, nodes


def members_fitted(model, A, b, nodes):
    """Clones of the model that are fitted on the rows of node 0 and of node 1."""
    return [(f"n{k}", clone(model).fit(A[nodes == k], b[nodes == k])) for k in (0, 1)]


def members_of(model):
    """Clones of the model whose nodes have labels that differ in case."""
    return members_fitted(model, *labels_that_differ_in_case())


NET = MLPClassifier((3,), solver="lbfgs", random_state=0, max_iter=2000)
FITS = {
    "linear": lambda: GEMSLogisticAggregator(members_of(LogisticRegression())),
    "networks": lambda: GEMSMLPAggregator(members_of(NET), random_state=0),
    "matching": lambda: PFNMAggregator(
        members_of(NET), random_state=0, matching=Matching(max_iter=3)
    ),
    "averaging": lambda: ModelAveragingAggregator(members_of(LogisticRegression())),
    "pooled": lambda: PooledAggregator(members_of(RidgeClassifier())),
    "vote": lambda: EnsembleAggregator(members_of(LogisticRegression())),
    "stack": lambda: EnsembleAggregator(
        members_of(LogisticRegression()), combine="stack"
    ),
    "distillation": lambda: DistillationAggregator(
        members_of(LogisticRegression()), student=LogisticRegression()
    ),
}


ABOUT_CASE = "differ only in case"


def fit_aggregator(name, agg, A, b, nodes):
    """Fit an aggregator of ``FITS``: distillation on rows without labels."""
    return agg.fit(A) if name == "distillation" else agg.fit(A, b, nodes)


def check_doubt_about_case(agg, path):
    """The doubt is in the report, in both its forms, and on the card."""
    report = agg.report()
    (doubt_about_case,) = doubts_about(ABOUT_CASE, report)
    assert f"Doubt: {doubt_about_case}" in " ".join(str(report).split())
    assert escape(doubt_about_case) in report._repr_html_()
    agg.model_card(path)
    assert f"- {doubt_about_case}" in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", FITS)
def test_warnings_that_a_fit_shows_are_doubts(name, tmp_path):
    agg = FITS[name]()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit_aggregator(name, agg, *labels_that_differ_in_case())
        report = agg.report()
        texts_shown = [" ".join(str(w.message).split()) for w in caught]
    assert any(ABOUT_CASE in text for text in texts_shown)
    assert {*texts_shown} <= {*report.doubts}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_doubt_about_case(agg, tmp_path / "card.md")


@pytest.fixture(scope="module", params=FITS)
def name_and_silent_fit(request):
    """The name of each aggregator, and the aggregator fitted with warnings off."""
    agg = FITS[request.param]()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        fit_aggregator(request.param, agg, *labels_that_differ_in_case())
    assert not caught
    return request.param, agg


def test_warnings_that_a_fit_does_not_show_are_doubts(name_and_silent_fit, tmp_path):
    _, agg = name_and_silent_fit
    check_doubt_about_case(agg, tmp_path / "card.md")


def test_doubts_of_a_fit_are_pickled(name_and_silent_fit):
    _, agg = name_and_silent_fit
    assert pickle.loads(pickle.dumps(agg)).report().doubts == agg.report().doubts


def test_a_fit_that_warns_of_nothing_leaves_no_doubt_of_an_earlier_one(
    name_and_silent_fit,
):
    name, silent_fit = name_and_silent_fit
    agg = deepcopy(silent_fit)
    A, b, nodes = labels_that_differ_in_case()
    same_case = np.where(b == "well", "well", "ill")
    model = {"networks": NET, "matching": NET, "pooled": RidgeClassifier()}.get(
        name, LogisticRegression()
    )
    agg.set_params(estimators=members_fitted(model, A, same_case, nodes))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit_aggregator(name, agg, A, same_case, nodes)
    assert not doubts_about(ABOUT_CASE, agg.report())


def test_a_student_that_has_not_converged_is_doubted():
    A, _, _ = labels_that_differ_in_case()
    teachers = [("all", LogisticRegression().fit(A, A[:, 0] > 1.0))]
    student = LogisticRegression(max_iter=1)
    agg = DistillationAggregator(teachers, student=student, random_state=0)
    with pytest.warns(ConvergenceWarning):
        agg.fit(A)
    assert any("converge" in doubt for doubt in agg.report().doubts)
    agg.set_params(student=None).fit(A)  # whose epochs are few on purpose
    assert not agg.report().doubts


def aggregator_of_a_rare_class(min_rows):
    """An aggregator of two summaries that have a few rows of a third class."""
    rng = np.random.default_rng(1)
    agg = GEMSLogisticAggregator(random_state=0)
    summaries = []
    for name, n_few in (("lyon", 4), ("paris", 3)):
        b = np.array(["a"] * 30 + ["b"] * 30 + ["rare"] * n_few)
        A = rng.normal(size=(len(b), 2)) + 3.0 * (b[:, None] == ["a", "b"])
        clf = LogisticRegression().fit(A, b)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ClassesLeftOutWarning)
            summaries.append(
                agg.summarize(clf, A, b, name=name, disclosure=rule_of(min_rows))
            )
    return agg.set_params(estimators=summaries)


def test_classes_that_are_never_predicted_are_doubts(tmp_path):
    agg = aggregator_of_a_rare_class(min_rows=10)
    with pytest.warns(UserWarning, match=r"Nothing is known of the classes \['rare'\]"):
        agg.fit()
    (doubt_about_class,) = doubts_about("never predicted", agg.report())
    assert "'rare'" in doubt_about_class and "min_rows" in doubt_about_class
    assert escape(doubt_about_class) in agg.report()._repr_html_()
    agg.model_card(tmp_path / "card.md")
    card = (tmp_path / "card.md").read_text(encoding="utf-8")
    assert as_markdown(doubt_about_class) in card


def test_classes_of_as_many_rows_as_min_rows_are_no_doubts():
    agg = aggregator_of_a_rare_class(min_rows=3).fit()
    assert not doubts_about("never predicted", agg.report())


def test_classes_without_sums_are_doubts():
    agg = PooledAggregator(pooled=GaussianNB())
    summaries = []
    for summary in aggregator_of_a_rare_class(min_rows=10).estimators:
        rng = np.random.default_rng(len(summaries))
        b = np.array(["a"] * 30 + ["b"] * 30 + ["rare"] * 4)
        A = rng.normal(size=(len(b), 2))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ClassesLeftOutWarning)
            summaries.append(agg.summarize(None, A, b, name=summary.name))
    with pytest.warns(UserWarning, match="No node has rows of the classes"):
        agg.set_params(estimators=summaries).fit()
    assert agg.classes_.tolist() == ["a", "b"]
    assert any("'rare'" in doubt for doubt in agg.report().doubts)


def test_doubts_are_those_of_the_last_fit_update_or_forget():
    A, b, nodes = labels_that_differ_in_case()
    members = members_of(LogisticRegression())
    agg = GEMSLogisticAggregator(members[:1], keep_replies=True, random_state=0)
    agg.fit(A[nodes == 0], b[nodes == 0])
    assert not agg.report().doubts
    with pytest.warns(UserWarning, match="differ only in case"):
        agg.update(members[1:], A[nodes == 1], b[nodes == 1])
    assert any("differ only in case" in doubt for doubt in agg.report().doubts)
    agg.forget("n1")
    assert not agg.report().doubts


def test_a_node_s_own_warnings_are_no_doubts_of_the_server():
    """Else a report would depend on whether nodes are in this process."""
    A, b, nodes = labels_that_differ_in_case()
    b = np.where(b == "well", "well", "ill")
    # Without row 1 and the last five.
    is_at_node = (np.arange(80) != 1) & (np.arange(80) < 75)
    b[40:44] = "rare"
    clf = LogisticRegression().fit(A, b)

    def ask(requests):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return {
                name: reply_to(request, clf, A[is_at_node], b[is_at_node], name=name)
                for name, request in requests.items()
            }

    with pytest.warns(UserWarning, match="Nothing is known of the classes"):
        agg = GEMSLogisticAggregator(Nodes(ask, ["lyon"]), random_state=0).fit()
    assert len(agg.report().doubts) == 1  # of the server


def test_the_one_call_tells_of_candidates_no_warnings_that_are_hidden():
    A, b, nodes = labels_that_differ_in_case()
    b = np.where(b == "well", "well", "ill")
    # Four nodes, of which two have the rows of the two others.
    X_twice = np.vstack([A, A])
    y_twice = np.append(b, b)
    nodes_twice = np.append(nodes, nodes + 2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        agg = combine(
            None, X_twice, y_twice, nodes_twice, budget="small", random_state=0
        )
    texts_shown = {" ".join(str(w.message).split()) for w in caught}
    doubts = {" ".join(doubt.split()) for doubt in agg.choice_.doubts}
    assert texts_shown and texts_shown <= doubts
    doubts_about_copies = {doubt for doubt in doubts if "Nodes sent equal" in doubt}
    assert (
        doubts_about_copies <= texts_shown
    )  # candidates warned of it, too, where nobody saw it


# ---- what columns are --------------------------------------------------------------


def test_a_legend_says_what_each_column_is(aggregator_with_spaces):
    report = aggregator_with_spaces.report()
    assert [*report.legend] == [n for n in report.nodes if n not in ("node", "classes")]
    words = "Accuracy of the node's local model on these rows."
    assert report.legend["local_accuracy"] == words


def test_a_legend_says_which_rows_score_the_models(aggregator_with_spaces):
    legend = aggregator_with_spaces.report().legend
    assert "The node's judging rows" in legend["rows"]
    legend = aggregator_with_spaces.report(X[TEST], Y[TEST]).legend
    assert legend["rows"] == "All rows that were passed to report()."
    legend = aggregator_with_spaces.report(X[TEST], Y[TEST], ISLANDS[TEST]).legend
    assert legend["rows"].startswith("The rows of the node among those")


def test_a_legend_is_in_every_form_of_a_report(aggregator_with_spaces, tmp_path):
    report = aggregator_with_spaces.report(X[TEST], Y[TEST], ISLANDS[TEST])
    text = " ".join(str(report).split())
    for sentence in report.legend.values():
        assert f": {sentence}" in text
        assert f"</strong>: {escape(sentence)}</li>" in report._repr_html_()
        assert f": {sentence}" in report.to_markdown()
    aggregator_with_spaces.model_card(tmp_path / "card.md")
    card = (tmp_path / "card.md").read_text(encoding="utf-8")
    assert "- **in good-enough space**: Whether" in card


def test_a_legend_of_files_tells_rows_of_the_file_from_rows_that_score():
    agg = GEMSLogisticAggregator(epsilon=0.5, random_state=0)
    rows = {"lyon": slice(0, 40), "paris": slice(40, 80)}
    A, b, _ = labels_that_differ_in_case()
    b = np.where(b == "well", "well", "ill")
    summaries = [
        agg.summarize(
            LogisticRegression().fit(A[rows_of_node], b[rows_of_node]),
            A[rows_of_node],
            b[rows_of_node],
            name=name,
            disclosure=None,  # which would send no space
        )
        for name, rows_of_node in rows.items()
    ]
    legend = agg.set_params(estimators=summaries).fit().report().legend
    assert legend["rows"] == "The rows that the node's reply was made from."
    assert "on the node's judging rows" in legend["local_accuracy"]


def test_a_legend_of_networks_compares_last_layers(networks):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        agg = GEMSMLPAggregator(networks, random_state=0).fit(X, Y, nodes=ISLANDS)
    assert "own last layer over the merged" in agg.report().legend["local_accuracy"]
    assert "local model" in agg.report(X, Y).legend["local_accuracy"]


def test_labels_of_none_of_the_classes_are_an_error():
    agg = EnsembleAggregator(MEMBERS).fit()
    codes = np.unique(Y, return_inverse=True)[1]
    with pytest.raises(ValueError, match="y holds 0, 1, 2; the classes are 'Adelie', "):
        agg.report(X, codes)
