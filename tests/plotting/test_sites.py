# SPDX-License-Identifier: BSD-3-Clause
"""Curves of sites from counts alone, and the coefficients of the common model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

pytest.importorskip("matplotlib")

import matplotlib.pyplot as plt  # noqa: E402

from skgems.evaluation import (  # noqa: E402
    EDGES,
    ClassMetrics,
    Evaluation,
    Inference,  # noqa: E402
    ScoreBins,
    SiteMetrics,
)
from skgems.plotting import (  # noqa: E402
    CalibrationBySiteDisplay,
    CoefficientsDisplay,
    RocBySiteDisplay,
)


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


def scored_rows(seed, n_rows=4000):
    """Log-odds of rows, and whether they are ill; the log-odds are twice too large."""
    rng = np.random.default_rng(seed)
    log_odds = rng.normal(0.0, 1.5, n_rows)
    is_ill = rng.random(n_rows) < 1.0 / (1.0 + np.exp(-log_odds))
    return 2.0 * log_odds, is_ill


def metrics_of(name, log_odds, is_ill, *, label="ill"):
    bins = np.searchsorted(EDGES, log_odds, side="right")
    counts = [
        np.bincount(bins[rows], minlength=len(EDGES) + 1).astype(float)
        for rows in (is_ill, ~is_ill)
    ]
    metrics = ClassMetrics(
        label=label,
        n_positive=float(is_ill.sum()),
        n_negative=float((~is_ill).sum()),
        auc=roc_auc_score(is_ill, log_odds),
        true_positives=0.0,
        false_positives=0.0,
        bins=ScoreBins(positives=counts[0], negatives=counts[1]),
    )
    support = {"ill": metrics.n_positive, "well": metrics.n_negative}
    return SiteMetrics(
        node=name, support=support, accuracy=0.8, by_class={label: metrics}
    )


def evaluation_of(names):
    rows = [scored_rows(seed) for seed in range(len(names))]
    together = [np.concatenate(parts) for parts in zip(*rows, strict=True)]
    return Evaluation(
        classes=["well", "ill"],
        positive="ill",
        threshold=None,
        sites={
            name: metrics_of(name, *of_name)
            for name, of_name in zip(names, rows, strict=True)
        },
        total=metrics_of(None, *together),
    )


def line_named(ax, name):
    return next(line for line in ax.get_lines() if line.get_label().startswith(name))


def test_roc_curves_are_those_of_the_rows_at_each_edge_of_a_bin():
    display = RocBySiteDisplay.from_evaluation(evaluation_of(["lyon", "nice"]))
    log_odds, is_ill = scored_rows(1)
    x, y = line_named(display.ax_, "nice").get_data()
    for line, rows in ((x, ~is_ill), (y, is_ill)):
        rates = [np.mean(log_odds[rows] >= edge) for edge in EDGES[::-1]]
        np.testing.assert_allclose(line, [0.0, *rates, 1.0], atol=1e-12)
    texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert texts[1] == f"nice (AUC {roc_auc_score(is_ill, log_odds):.3f})"
    assert texts[2].startswith("all 2 sites (AUC 0.")


def test_calibration_points_have_a_tenth_of_the_rows_and_show_what_is_too_sure():
    display = CalibrationBySiteDisplay.from_evaluation(evaluation_of(["lyon", "nice"]))
    predicted, observed = line_named(display.ax_, "lyon").get_data()
    assert 5 <= len(predicted) <= 10
    assert (np.diff(predicted) > 0).all()
    log_odds, is_ill = scored_rows(0)
    probabilities = 1.0 / (1.0 + np.exp(-log_odds))
    assert observed[0] == pytest.approx(
        is_ill[probabilities < np.quantile(probabilities, 0.1)].mean(), abs=0.03
    )
    # Log-odds that are twice too large: the curve is flatter than the diagonal.
    assert observed[0] > predicted[0] + 0.03
    assert observed[-1] < predicted[-1] - 0.03
    assert display.ax_.get_ylabel() == "share of rows that are ill"


def test_many_sites_have_pale_lines_without_names():
    names = [f"site {k}" for k in range(20)]
    for display in (RocBySiteDisplay, CalibrationBySiteDisplay):
        ax = display.from_evaluation(evaluation_of(names)).ax_
        texts = [text.get_text() for text in ax.get_legend().get_texts()]
        assert texts[0] == "a site"
        assert texts[1].startswith("all 20 sites")
        assert len(texts) == 2
        assert len(ax.get_lines()) == 22


def test_a_display_draws_again_on_other_axes():
    display = RocBySiteDisplay.from_evaluation(evaluation_of(["lyon"]))
    _, ax = plt.subplots()
    assert display.plot(ax=ax) is display
    assert display.ax_ is ax
    assert len(ax.get_lines()) == 3


def test_a_class_that_was_not_judged_is_refused():
    evaluation = evaluation_of(["lyon"])
    with pytest.raises(ValueError, match=r"class 'cold' was .* Give one of \['ill'\]"):
        RocBySiteDisplay.from_evaluation(evaluation, label="cold")
    for display in (RocBySiteDisplay, CalibrationBySiteDisplay):
        both = Evaluation(
            classes=[0, 1, 2],
            positive=None,
            threshold=None,
            sites={},
            total=SiteMetrics(
                node=None, support={}, accuracy=0.5, by_class={0: None, 1: None}
            ),
        )
        with pytest.raises(ValueError, match=r"Give one of \[0, 1\]"):
            display.from_evaluation(both)


def test_coefficients_of_one_class_without_intercepts():
    table = Inference(
        names=["age", "intercept of lyon"] * 2,
        classes=["ill", "ill", "cold", "cold"],
        reference="well",
        params=np.log([2.0, 3.0, 0.5, 4.0]),
        covariance=np.diag([0.04, 1.0, 0.09, 1.0]),
        level=0.9,
        cov_type="nonrobust",
        is_approximate=False,
        has_tests=True,
        n_rows=100,
    )
    display = CoefficientsDisplay.from_inference(table, label="cold")
    assert display.names == ["age"]
    assert display.ax_.get_title() == "cold against well"
    assert display.ax_.get_xlabel() == "odds ratio for one unit, 90% interval"
    (ends,) = display.ax_.collections[0].get_segments()
    expected = np.exp(table.conf_int()[2])
    np.testing.assert_allclose(ends[:, 0], expected)
    with pytest.raises(ValueError, match=r"class 'warm'. Give one of \['ill', 'cold'"):
        CoefficientsDisplay.from_inference(table, label="warm")


def test_curves_that_would_be_rounding_are_not_drawn():
    evaluation = evaluation_of(["lyon", "nice"])
    n_rows = min(evaluation.sites["nice"].support.values())
    rough = replace(evaluation, min_rows={"lyon": 10, "nice": int(n_rows // 5) + 1})
    ax = RocBySiteDisplay.from_evaluation(rough).ax_
    assert len(line_named(ax, "lyon").get_xdata()) > 10
    assert len(line_named(ax, "nice").get_xdata()) == 0
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts[1].endswith("), too few rows")
    # 4,000 rows: a point has 5 * 300 rows, and the node of 900 has none.
    rough = replace(evaluation, min_rows={"lyon": 300, "nice": 900})
    ax = CalibrationBySiteDisplay.from_evaluation(rough).ax_
    assert len(line_named(ax, "lyon").get_xdata()) == 2
    assert len(line_named(ax, "nice, too few rows").get_xdata()) == 0


@pytest.mark.parametrize("display", [RocBySiteDisplay, CalibrationBySiteDisplay])
def test_names_of_sites_are_no_formulas_and_are_in_the_legend(display):
    ax = display.from_evaluation(evaluation_of(["_lyon", r"$\no$"])).ax_
    ax.figure.canvas.draw()  # raises where a name is read as a formula
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert len(texts) == 3 and texts[0].startswith(" _lyon")


def test_names_of_columns_are_no_formulas():
    names = ["$x$", r"$\no$"]
    display = CoefficientsDisplay(names, np.zeros(2), np.ones(2), title=r"$\no$")
    display.plot().figure_.canvas.draw()


@pytest.mark.parametrize("display", [RocBySiteDisplay, CalibrationBySiteDisplay])
def test_a_picture_without_curves_says_so(display):
    evaluation = evaluation_of(["lyon"])
    without = {
        name: replace(site, by_class={"ill": replace(site.by_class["ill"], bins=None)})
        for name, site in [*evaluation.sites.items(), ("all", evaluation.total)]
    }
    total = without.pop("all")
    ax = display.from_evaluation(replace(evaluation, sites=without, total=total)).ax_
    assert ax.get_legend() is None
    assert [text.get_text() for text in ax.texts] == ["too few rows at all sites"]
