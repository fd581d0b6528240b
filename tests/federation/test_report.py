# SPDX-License-Identifier: BSD-3-Clause
"""What a fitted aggregator tells of nodes, classes and messages."""

import pickle
import warnings
from html import escape

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, RidgeClassifier
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
from skgems.datasets import load_penguins
from skgems.federation import ClassesLeftOutWarning, Nodes, reply_to

X, Y, ISLANDS = load_penguins()
NAMES = ["Biscoe", "Dream", "Torgersen"]
TEST = np.arange(len(Y)) % 4 == 0


def local(model, name):
    is_learning = ~TEST & (name == ISLANDS)
    model = model if len(set(Y[is_learning])) > 1 else DummyClassifier()
    return name, make_pipeline(StandardScaler(), model).fit(
        X[is_learning], Y[is_learning]
    )


MEMBERS = [local(LogisticRegression(), name) for name in NAMES]
X_LEARN = X[~TEST]
Y_LEARN = Y[~TEST]
ISLANDS_LEARN = ISLANDS[~TEST]


@pytest.fixture(scope="module")
def networks():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [
            local(MLPClassifier((6,), max_iter=300, random_state=0), name)
            for name in NAMES
        ]


def test_a_report_on_rows_scores_the_models_on_these_rows():
    agg = GEMSLogisticAggregator(MEMBERS, random_state=0).fit(
        X_LEARN, Y_LEARN, nodes=ISLANDS_LEARN
    )
    report = agg.report(X[TEST], Y[TEST], ISLANDS[TEST])
    assert report.method == "GEMSLogisticAggregator"
    for k, (name, model) in enumerate(MEMBERS):
        rows = TEST & (name == ISLANDS)
        table = {column: cells[k] for column, cells in report.nodes.items()}
        own_accuracy = model.score(X[rows], Y[rows])
        accuracy = agg.score(X[rows], Y[rows])
        assert table["node"] == name and table["rows"] == rows.sum()
        assert table["own"] == own_accuracy
        assert table["aggregate"] == accuracy
        assert table["gain"] == accuracy - own_accuracy
    assert report.nodes["classes"][1] == "Adelie, Chinstrap"
    everywhere = agg.report(X[TEST], Y[TEST])
    assert everywhere.nodes["aggregate"] == [agg.score(X[TEST], Y[TEST])] * 3
    by_number = np.searchsorted(NAMES, ISLANDS[TEST])
    assert agg.report(X[TEST], Y[TEST], by_number).nodes == report.nodes
    assert report.classes == {
        "class": ["Adelie", "Chinstrap", "Gentoo"],
        "known_by": ["Biscoe, Dream, Torgersen", "Dream", "Biscoe"],
    }
    assert len(report.messages) == len(agg.history_)


def test_a_report_without_rows_has_the_scores_of_the_fit():
    agg = GEMSLogisticAggregator(MEMBERS, epsilon=0.9, random_state=0)
    agg.fit(X_LEARN, Y_LEARN, nodes=ISLANDS_LEARN)
    nodes = agg.report().nodes
    scores = agg.node_scores_
    assert nodes["rows"] == scores["n_rows"] and nodes["loss"] == scores["loss"]
    assert nodes["own"] == scores["local"]
    assert nodes["aggregate"] == scores["aggregate"]
    assert agg.intersection_.found and nodes["in_space"] == [True] * 3
    plain = GEMSLogisticAggregator(MEMBERS, random_state=0)
    plain.fit(X_LEARN, Y_LEARN, nodes=ISLANDS_LEARN)
    assert "in_space" not in plain.report().nodes
    by_loss = agg.set_params(criterion="log_loss", epsilon=0.5, on_empty="ignore")
    by_loss.fit(X_LEARN, Y_LEARN, nodes=ISLANDS_LEARN)
    assert "own" not in by_loss.report().nodes  # no accuracies


def test_doubts_are_about_nodes_that_lose_and_models_outside_of_spaces():
    vote = EnsembleAggregator(MEMBERS).fit()
    report = vote.report(X[TEST], Y[TEST], ISLANDS[TEST])
    assert "node 'Biscoe' loses" in report.doubts[0]
    assert "'Chinstrap' (Dream), 'Gentoo' (Biscoe)" in report.doubts[-1]
    assert f"Doubt: {report.doubts[0]}" in str(report).splitlines()
    chosen = combine(X=X, y=Y, nodes=ISLANDS, budget="small", random_state=0)
    assert {*chosen.choice_.doubts} <= {*chosen.report().doubts}
    agg = GEMSLogisticAggregator(
        MEMBERS, epsilon=0.95, intersection="consensus", on_empty="ignore"
    )
    report = agg.fit(X_LEARN, Y_LEARN, nodes=ISLANDS_LEARN).report()
    pairs = zip(NAMES, report.nodes["in_space"], strict=True)
    outside = [name for name, is_inside in pairs if not is_inside]
    doubts = [
        doubt for doubt in report.doubts if "outside the good-enough spaces" in doubt
    ]
    assert bool(outside) == bool(doubts)
    assert all(name in doubts[0] for name in outside)


def test_a_report_is_shown_as_html_markdown_and_a_frame():
    pytest.importorskip("pandas")
    odd = [("<b>&lyon", MEMBERS[0][1]), ("paris", MEMBERS[1][1])]
    report = EnsembleAggregator(odd).fit().report(X, Y)
    html = report._repr_html_()
    assert "&lt;b&gt;&amp;lyon" in html and "<b>" not in html
    assert html.count("<table>") == 2 == html.count("</table>")
    rows = [row for row in report.to_markdown().splitlines() if row.startswith("|")]
    assert len({row.count("|") for row in rows[:4]}) == 1
    frame = report.to_frame()
    assert frame.loc["paris", "rows"] == len(Y)
    assert "node" in str(report).splitlines()[1]


def test_files_and_a_card(tmp_path):
    unfitted = GEMSLogisticAggregator(random_state=0)
    sent = []
    for name, model in MEMBERS:
        rows = ~TEST & (name == ISLANDS)
        sent.append(unfitted.summarize(model, X[rows], Y[rows], name=name))
    agg = unfitted.set_params(estimators=sent).fit()
    report = agg.report()
    assert report.nodes["rows"] == [summary.n_rows for summary in sent]
    assert report.nodes["bytes"] == [summary.n_bytes for summary in sent]
    total = sum(report.nodes["bytes"])
    assert report.sent == f"3 files, {total:,} bytes from the nodes."
    scored = agg.report(X[TEST], Y[TEST], ISLANDS[TEST])
    theirs = [
        model.score(X[TEST & (name == ISLANDS)], Y[TEST & (name == ISLANDS)])
        for name, model in MEMBERS
    ]
    assert scored.nodes["own"] == theirs
    path = tmp_path / "MODEL.md"
    agg.model_card(path, X=X[TEST], y=Y[TEST], nodes=ISLANDS[TEST])
    card = path.read_text(encoding="utf-8")
    assert scored.to_markdown() in card and "- random_state: `0`" in card
    assert all(summary.message.digest in card for summary in sent)
    assert "- estimators" not in card


@pytest.mark.filterwarnings("ignore")
def test_every_aggregator_has_a_report(networks):
    fitted = [
        GEMSMLPAggregator(networks, random_state=0).fit(X, Y, nodes=ISLANDS),
        PFNMAggregator(networks, random_state=0, max_iter=3).fit(X, Y, nodes=ISLANDS),
        ModelAveragingAggregator(MEMBERS).fit(),
        DistillationAggregator(MEMBERS, random_state=0).fit(X),
        PooledAggregator(front=StandardScaler()).fit(X, Y, nodes=ISLANDS),
    ]
    for agg in fitted:
        report = agg.report(X, Y, ISLANDS)
        accuracies = [
            np.mean(agg.predict(X[ISLANDS == n]) == Y[ISLANDS == n]) for n in NAMES
        ]
        assert report.nodes["aggregate"] == pytest.approx(accuracies)
        assert ("own" in report.nodes) == (not isinstance(agg, PooledAggregator))
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


def members_of(model):
    A, b, nodes = labels_that_differ_in_case()
    return [(f"n{k}", clone(model).fit(A[nodes == k], b[nodes == k])) for k in (0, 1)]


NET = MLPClassifier((3,), solver="lbfgs", random_state=0, max_iter=2000)
FITS = {
    "linear": lambda: GEMSLogisticAggregator(members_of(LogisticRegression())),
    "networks": lambda: GEMSMLPAggregator(members_of(NET), random_state=0),
    "matching": lambda: PFNMAggregator(members_of(NET), random_state=0, max_iter=3),
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


@pytest.mark.parametrize("name", FITS)
def test_warnings_of_the_fit_of_every_aggregator_are_doubts(name, tmp_path):
    A, b, nodes = labels_that_differ_in_case()
    agg = FITS[name]()
    rows_of_fit = (A,) if name == "distillation" else (A, b, nodes)
    for action in ("always", "ignore"):  # whatever is shown of them
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter(action)
            agg.fit(*rows_of_fit)
            report = agg.report()
        ours = [" ".join(str(w.message).split()) for w in caught]
        assert any("differ only in case" in text for text in ours) == (
            action == "always"
        )
        assert {*ours} <= {*report.doubts}
        (doubt_about_case,) = [
            doubt for doubt in report.doubts if "differ only in case" in doubt
        ]
        assert (
            f"Doubt: {doubt_about_case}" in str(report)
            and escape(doubt_about_case) in report._repr_html_()
        )
        agg.model_card(tmp_path / "card.md")
        assert f"- {doubt_about_case}" in (tmp_path / "card.md").read_text(
            encoding="utf-8"
        )
    assert pickle.loads(pickle.dumps(agg)).report().doubts == report.doubts
    # A fit that warns of nothing leaves nothing of an earlier one.
    same = np.where(b == "well", "well", "ill")
    other = clone(members_of(RidgeClassifier() if name == "pooled" else NET)[0][1])
    if name in ("linear", "averaging", "vote", "stack", "distillation"):
        other = LogisticRegression()
    members = [
        (f"n{k}", clone(other).fit(A[nodes == k], same[nodes == k])) for k in (0, 1)
    ]
    rows_of_fit = (A,) if name == "distillation" else (A, same, nodes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        agg.set_params(estimators=members).fit(*rows_of_fit)
    assert not [
        doubt for doubt in agg.report().doubts if "differ only in case" in doubt
    ]


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


def few_of_a_class(min_rows):
    """Summaries of two nodes that have a few rows of a third class."""
    rng = np.random.default_rng(1)
    agg = GEMSLogisticAggregator(random_state=0)
    summaries = []
    for name, n_few in (("lyon", 4), ("paris", 3)):
        b = np.array(["a"] * 30 + ["b"] * 30 + ["rare"] * n_few)
        A = rng.normal(size=(len(b), 2)) + 3.0 * (b[:, None] == ["a", "b"])
        clf = LogisticRegression().fit(A, b)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ClassesLeftOutWarning)
            summaries.append(agg.summarize(clf, A, b, name=name, min_rows=min_rows))
    return agg.set_params(estimators=summaries)


def test_classes_that_are_never_predicted_are_doubts(tmp_path):
    agg = few_of_a_class(min_rows=10)
    with pytest.warns(UserWarning, match=r"Nothing is known of the classes \['rare'\]"):
        agg.fit()
    (doubt_about_class,) = [
        doubt for doubt in agg.report().doubts if "never predicted" in doubt
    ]
    assert "'rare'" in doubt_about_class and "min_rows" in doubt_about_class
    assert escape(doubt_about_class) in agg.report()._repr_html_()
    agg.model_card(tmp_path / "card.md")
    assert doubt_about_class in (tmp_path / "card.md").read_text(encoding="utf-8")
    agg = few_of_a_class(min_rows=3).fit()
    assert not [doubt for doubt in agg.report().doubts if "never predicted" in doubt]


def test_classes_without_sums_are_doubts():
    agg = PooledAggregator(pooled=GaussianNB())
    summaries = []
    for summary in few_of_a_class(min_rows=10).estimators:
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
    well = members_of(LogisticRegression())
    agg = GEMSLogisticAggregator(well[:1], keep_replies=True, random_state=0)
    agg.fit(A[nodes == 0], b[nodes == 0])
    assert not agg.report().doubts
    with pytest.warns(UserWarning, match="differ only in case"):
        agg.update(well[1:], A[nodes == 1], b[nodes == 1])
    assert any("differ only in case" in doubt for doubt in agg.report().doubts)
    agg.forget("n1")
    assert not agg.report().doubts


def test_a_node_s_own_warnings_are_no_doubts_of_the_server():
    """Else a report would depend on whether nodes are in this process."""
    A, b, nodes = labels_that_differ_in_case()
    b = np.where(b == "well", "well", "ill")
    with_few_rare = np.r_[0:40, 40:75][np.r_[0:40, 40:75] != 1]
    b[40:44] = "rare"
    clf = LogisticRegression().fit(A, b)

    def ask(requests):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return {
                name: reply_to(
                    request, clf, A[with_few_rare], b[with_few_rare], name=name
                )
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
    ours = {doubt for doubt in doubts if "Nodes sent equal" in doubt}
    assert ours <= texts_shown  # candidates warned of it, too, where nobody saw it


# ---- what columns are --------------------------------------------------------------


def test_a_legend_says_what_columns_are_and_of_which_rows(tmp_path):
    agg = GEMSLogisticAggregator(MEMBERS, epsilon=0.9, random_state=0)
    agg.fit(X_LEARN, Y_LEARN, nodes=ISLANDS_LEARN)
    report = agg.report()
    assert [*report.legend] == [n for n in report.nodes if n not in ("node", "classes")]
    assert "the rows that score models at the node" in report.legend["rows"]
    assert report.legend["own"] == "accuracy of the node's own model on these rows"
    everywhere = agg.report(X[TEST], Y[TEST]).legend
    assert everywhere["rows"] == "all rows that were given to the report"
    report_of_rows = agg.report(X[TEST], Y[TEST], ISLANDS[TEST])
    assert report_of_rows.legend["rows"].startswith("the node's rows among those")
    words = " ".join(str(report_of_rows).split())
    for name, text in report_of_rows.legend.items():
        assert f"{name.replace('_', ' ')}: {text}." in words
        assert f"<dt>{name.replace('_', ' ')}</dt>" in report_of_rows._repr_html_()
        assert f"- {name.replace('_', ' ')}: {text}" in report_of_rows.to_markdown()
    agg.model_card(tmp_path / "card.md")
    assert "- in space: whether" in (tmp_path / "card.md").read_text(encoding="utf-8")


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
        )
        for name, rows_of_node in rows.items()
    ]
    legend = agg.set_params(estimators=summaries).fit().report().legend
    assert legend["rows"] == "the rows that the node's reply is made of"
    assert "on the rows that score models at the node" in legend["own"]


def test_of_networks_own_is_the_last_layer(networks):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        agg = GEMSMLPAggregator(networks, random_state=0).fit(X, Y, nodes=ISLANDS)
    assert "own last layer over the merged" in agg.report().legend["own"]
    assert "own model" in agg.report(X, Y).legend["own"]


def test_labels_of_none_of_the_classes_are_not_scored():
    agg = EnsembleAggregator(MEMBERS).fit()
    codes = np.unique(Y, return_inverse=True)[1]
    with pytest.raises(ValueError, match="y holds 0, 1, 2; the classes are 'Adelie', "):
        agg.report(X, codes)
