"""The model card: a page in Markdown for people who get the model.

The headings are those of the template of ``skops.card``, with one for the population
and one for disclosure. The page needs no package to be written, and people who know one
card know the other. What only the owner of the model can know is to be filled in.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from math import isnan
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from ..base import Definitions, Points, Table, as_markdown, versions
from ..disclosure import min_rows_of
from ..evaluation import Evaluation
from ..messages import disclosure_in_words
from ..parties import Summary
from ._report_tables import table_of_columns

# How parts begin that only the owner of the model can write.
TO_FILL_IN = "**To fill in**:"
# Columns and classes that are listed by name; more would hide the other parts.
_MOST_COLUMNS = 60
_MOST_CLASSES = 10
# Standard errors at each side of an interval of 95 %.
_QUANTILE = 1.96
# How predictions are got, and whom to ask.
_USE_AND_CONTACT = (
    "# How to Get Started with the Model",
    "`to_estimator()` of the aggregate returns a plain model of scikit-learn. Once it "
    "is stored with skops, it is read without skgems:",
    "```python\n"
    "import skops.io\n\n"
    'types = skops.io.get_untrusted_types(file="model.skops")  # read this list\n'
    'model = skops.io.load("model.skops", trusted=types)\n'
    "model.predict_proba(table)  # columns are in the order of model.classes_\n"
    "```",
    f"{TO_FILL_IN} where the file of the model lies, and its digest.",
    "# Model Card Authors",
    f"{TO_FILL_IN} who has written these parts, and when.",
    "# Model Card Contact",
    f"{TO_FILL_IN} whom to ask, and whom to tell of a wrong prediction.",
    "# Citation",
    f"{TO_FILL_IN} the paper or the report about this model, if there is one.",
)


def card_of(aggregator: BaseEstimator, report: Any) -> str:
    """Return the model card of a fitted aggregator, with its `Report`."""
    evaluation = report.evaluation
    summaries = [
        member for member in aggregator.estimators_ if isinstance(member, Summary)
    ]
    sections = [
        *_description(aggregator, evaluation),
        *_intended_uses(report.doubts),
        *_population(aggregator, summaries, evaluation, report=report),
        *_training(aggregator, summaries, report),
        *_evaluation_results(report, evaluation),
        *_disclosure(aggregator, summaries, report),
        *_USE_AND_CONTACT,
    ]
    n_to_fill_in = sum(section.count(TO_FILL_IN) for section in sections)
    preface = (
        f"{n_to_fill_in} parts of this card begin with {TO_FILL_IN} only the owner of "
        f"the model can write them. skgems wrote all others on {date.today()}. A "
        "*node* is a site that took part, such as a hospital. A *row* is what a node "
        "knows of one case, such as a patient."
    )
    return "\n\n".join([sections[0], preface, *sections[1:]]) + "\n"


def _description(aggregator: BaseEstimator, evaluation: Evaluation | None) -> list[str]:
    """Return what the model is, how good it is, and which columns it takes."""
    names = list(aggregator.node_names_)
    labels = aggregator.classes_.tolist()
    section = [
        "# Model description",
        f"This model tells {len(labels)} classes apart: {_shown(map(repr, labels))}. "
        f"`{type(aggregator).__name__}` of skgems made it from what {len(names)} nodes "
        f"told of their rows: {_shown(names)}.",
        f"{TO_FILL_IN} what the model predicts, of whom, at which moment and for which "
        "time ahead; what each class means.",
    ]
    if evaluation is not None:
        section.append(_at_a_glance(evaluation))
    n_columns = aggregator.n_features_in_
    columns = f"A row has {n_columns} columns"
    names_of_columns = getattr(aggregator, "feature_names_in_", None)
    if names_of_columns is not None:
        columns += f": {_shown(names_of_columns, most=_MOST_COLUMNS)}"
    return [
        *section,
        f"{columns}. The answer is a probability for each class.",
        f"{TO_FILL_IN} what each column means, its unit, how it is measured, and what "
        "to do if its value is missing.",
    ]


def _at_a_glance(evaluation: Evaluation) -> str:
    """Return the areas under ROC curves over all nodes, at the worst and the best."""
    areas = {name: site.auc for name, site in evaluation.sites.items()}
    known = {name: area for name, area in areas.items() if not isnan(area)}
    if not known:
        return "No node has told how well the model sorts its rows."
    sentence = (
        f"How well it sorts the {evaluation.total.n_rows:,.0f} rows that judged it "
        "(AUC: 0.5 is chance, 1 is perfect): "
        f"{evaluation.total.auc:.2f} over all nodes"
    )
    if len(known) > 1:
        worst = min(known, key=known.get)
        best = max(known, key=known.get)
        sentence += (
            f", {known[worst]:.2f} at {as_markdown(worst)}, the worst, and "
            f"{known[best]:.2f} at {as_markdown(best)}, the best"
        )
    unknown = [name for name in areas if name not in known]
    if unknown:
        sentence += f". It is not known for {_shown(unknown)}"
    return f"{sentence}."


def _intended_uses(doubts: Sequence[str]) -> list[str]:
    """Return what the model is for, and reasons for doubt."""
    doubts = doubts or ["Nothing was noticed."]
    return [
        "## Intended uses & limitations",
        f"{TO_FILL_IN} the decision that the model supports; who uses it, and what "
        "they do with its answer; from which probability on something is done.",
        f"{TO_FILL_IN} for whom the model is not meant, such as children, other wards, "
        "or sites that took no part; who has approved its use, and until when.",
        "### Reasons for doubt",
        "\n".join(f"- {as_markdown(doubt)}" for doubt in doubts),
    ]


def _population(
    aggregator: BaseEstimator,
    summaries: Sequence[Summary],
    evaluation: Evaluation | None,
    *,
    report: Any,
) -> list[str]:
    """Return the rows of each node by class, as far as nodes have told them."""
    section = ["## Population by node"]
    labels = aggregator.classes_.tolist()[:_MOST_CLASSES]
    if summaries and not report.noise:
        counts_by_node = {
            summary.name: _counts_of(summary.row_counts, "training")
            for summary in summaries
        }
        section.append(
            _counts_table(counts_by_node, labels, caption="Rows that made the model")
        )
    if evaluation is not None:
        counts_by_node = {
            name: {label: int(n) for label, n in site.support.items()}
            for name, site in evaluation.sites.items()
        }
        section.append(
            _counts_table(counts_by_node, labels, caption="Rows that judged the model")
        )
    if len(section) == 1:
        section.append("Numbers of rows are not known here.")
    else:
        section.append(
            "A dash stands for a class of which a node told no rows: it has none, or "
            "fewer than it tells of."
        )
    section.append(
        f"{TO_FILL_IN} who the rows of each node are: place, years, how they were "
        "chosen and who was left out, age and sex, how labels were found, and what is "
        "missing. `skgems.describe` makes such a table without any row leaving a node."
    )
    return section


def _counts_of(row_counts: Mapping, use: str) -> dict[object, int]:
    """Return the number of rows of each class that a summary has for a use."""
    return dict(zip(row_counts["labels"], row_counts[use].tolist(), strict=True))


def _counts_table(
    counts_by_node: Mapping[str, Mapping], labels: Sequence, *, caption: str
) -> str:
    """Return rows by node and class, with shares of the classes of all nodes."""
    rows = []
    for name, counts in counts_by_node.items():
        n_rows = sum(counts.values())
        cells = [_with_share(counts.get(label, 0), n_rows) for label in labels]
        rows.append([name, n_rows, *cells])
    totals = [
        sum(counts.get(label, 0) for counts in counts_by_node.values())
        for label in labels
    ]
    n_all = sum(row[1] for row in rows)
    rows.append(["all", n_all, *(_with_share(n, n_all) for n in totals)])
    heads = ["node", "rows", *(f"class {label!r}" for label in labels)]
    return Table(heads=heads, rows=rows, caption=caption).markdown()


def _with_share(n_of_class: int, n_rows: int) -> str:
    """Return a number of rows and its share, or a dash for none."""
    return f"{n_of_class:,} ({n_of_class / n_rows:.0%})" if n_of_class else "-"


def _training(
    aggregator: BaseEstimator, summaries: Sequence[Summary], report: Any
) -> list[str]:
    """Return how the model was made: what was sent, settings, versions."""
    classes = [
        f"- {as_markdown(repr(label))}: {as_markdown(known_by) or 'no node'}"
        for label, known_by in zip(
            report.classes["class"], report.classes["known_by"], strict=True
        )
    ]
    settings = {
        name: " ".join(repr(value).split())
        for name, value in aggregator.get_params(deep=False).items()
        if name not in {*aggregator.node_names_, "estimators"}
    }
    table_of_settings = Table(heads=["setting", "value"], rows=list(settings.items()))
    table_of_versions = Table(heads=["package", "version"], rows=[*versions().items()])
    way = "The model was made where all rows were, as in a simulation."
    if summaries:
        way = "The rows stayed at the nodes."
    return [
        "## Training Procedure",
        f"{way} {as_markdown(report.in_one_paragraph)}",
        "Nodes that know each class:",
        "\n".join(classes),
        *_coefficients(aggregator),
        "### Hyperparameters",
        _to_be_opened(table_of_settings.markdown()),
        "### What the nodes sent",
        "\n".join(_lines_of_messages(summaries, report)) or "- Nothing was sent.",
        "### Versions",
        _to_be_opened(table_of_versions.markdown()),
    ]


def _to_be_opened(text: str) -> str:
    """Return a part of the page that is shown once its reader opens it."""
    summary = "<summary>Click to expand</summary>"
    return f"<details>\n{summary}\n\n{text}\n\n</details>"


def _coefficients(aggregator: BaseEstimator) -> list[str]:
    """Return the weights of a linear model of two classes, if they are few."""
    weights = getattr(aggregator, "coef_", None)
    if weights is None or len(weights) != 1 or weights.shape[1] > _MOST_COLUMNS:
        return []
    front = getattr(aggregator, "front_", None)
    names = getattr(aggregator, "feature_names_in_", None)
    of_what = "a column"
    if front is not None:
        names = front.get_feature_names_out()
        of_what = "a column that comes out of the front, the agreed transformers"
    elif names is None:
        names = [f"column {k}" for k in range(weights.shape[1])]
    largest_first = np.argsort(-np.abs(weights[0]), kind="stable")
    rows = [[str(names[k]), float(weights[0, k])] for k in largest_first]
    rows.append(["intercept", float(aggregator.intercept_[0])])
    label = as_markdown(repr(aggregator.classes_.tolist()[1]))
    return [
        "### Coefficients",
        f"The log odds of {label} grow by so much with one unit of {of_what}. "
        "Coefficients of columns that go together say little one by one.",
        Table(heads=["column", "coefficient"], rows=rows).markdown(),
    ]


def _lines_of_messages(summaries: Sequence[Summary], report: Any) -> list[str]:
    """A line for each message, and for each file: what came, and under which bound."""
    lines = []
    for message in report.messages:
        bounds = message.get("min_rows", {}).values()
        if bounds and summaries:
            lines.append(
                f"- Message {message['task']!r}: the nodes sent "
                f"{message['bytes_received']:,} bytes, made with "
                f"min_rows={min(bounds)}, and received {message['bytes_sent']:,} bytes."
            )
        else:  # in one process all rows are here, and no bound holds
            lines.append(
                f"- Message {message['task']!r}: the nodes sent "
                f"{message['bytes_received']:,} bytes and received "
                f"{message['bytes_sent']:,} bytes."
            )
    lines += [
        f"- File of node {summary.name!r}: {summary.n_bytes:,} bytes, made with "
        f"{_protection_of(summary)}, SHA-256 digest {summary.message.digest}."
        for summary in summaries
    ]
    return lines


def _protection_of(summary: Summary) -> str:
    """Return what protects the rows of a file, in words."""
    if "privacy" in summary.settings:
        return "noise"
    return f"min_rows={min_rows_of(summary.disclosure)}"


def _evaluation_results(report: Any, evaluation: Evaluation | None) -> list[str]:
    """Return metrics by node, and what they mean; calibration if it is known."""
    section = ["## Evaluation Results"]
    if evaluation is not None:
        section += [part.markdown() for part in evaluation.parts]
        if evaluation.positive is not None:
            section += ["### How certain the AUC is", *_certainty(evaluation)]
        section += ["### Calibration", *_calibration(evaluation)]
    section += ["### What the fit measured", table_of_columns(report.nodes).markdown()]
    if evaluation is not None:
        section.append(
            "Accuracies of this table are not rounded, and may differ a little from "
            "those above."
        )
    if report.legend:
        columns = Definitions(heading="Columns", meanings=report.meanings)
        section.append(columns.markdown())
    section.append(
        f"{TO_FILL_IN} whether the rows that judged are later than those that made the "
        "model, or of other sites; what was found when people used it."
    )
    return section


def _certainty(evaluation: Evaluation) -> list[str]:
    """Return intervals of the area under the ROC curve, which few rows make wide.

    The standard error is that of Hanley and McNeil (1982), of scores whose odds follow
    an exponential distribution in each class.
    """
    rows = []
    for name, site in [*evaluation.sites.items(), ("all", evaluation.total)]:
        (metrics,) = site.by_class.values()
        counts = [round(metrics.n_positive), round(metrics.n_negative)]
        if isnan(metrics.auc) or not min(counts):
            rows.append([name, *counts, None, None])
            continue
        error = _error_of_area(metrics.auc, *counts)
        low = max(metrics.auc - _QUANTILE * error, 0.0)
        high = min(metrics.auc + _QUANTILE * error, 1.0)
        rows.append([name, *counts, f"{metrics.auc:.2f}", f"{low:.2f} to {high:.2f}"])
    heads = ["node", "positive rows", "other rows", "AUC", "95 % interval"]
    return [
        "The fewer rows judge, the less their AUC says. Two nodes whose intervals "
        "overlap may be equally well served.",
        Table(heads=heads, rows=rows).markdown(),
    ]


def _error_of_area(area: float, n_positive: int, n_negative: int) -> float:
    """Return the standard error of an area under a ROC curve."""
    of_two_positive = area / (2.0 - area)
    of_two_negative = 2.0 * area**2 / (1.0 + area)
    variance = (
        area * (1.0 - area)
        + (n_positive - 1) * (of_two_positive - area**2)
        + (n_negative - 1) * (of_two_negative - area**2)
    ) / (n_positive * n_negative)
    return float(np.sqrt(max(variance, 0.0)))


def _calibration(evaluation: Evaluation) -> list[str]:
    """Return the table of probabilities beside shares of rows, over all nodes."""
    n_points = evaluation.n_points()
    if n_points < 2:
        return ["Too few rows have judged for a table of probabilities."]
    tables = []
    for label, metrics in list(evaluation.total.by_class.items())[:_MOST_CLASSES]:
        if metrics.bins is None:
            continue
        shares, probabilities, n_rows = metrics.bins.calibration_curve(n_points)
        rows = [
            [f"{probability:.0%}", f"{share:.0%}", round(n)]
            for probability, share, n in zip(probabilities, shares, n_rows, strict=True)
        ]
        heads = ["mean probability", f"share that is {label!r}", "rows"]
        caption = f"Probability of {label!r}, all nodes together"
        tables.append(Table(heads=heads, rows=rows, caption=caption).markdown())
    if not tables:
        return ["No node has told counts of probabilities."]
    return [
        "Rows are put together by the probability that the model gave them. If the "
        "probabilities are right, both shares of a line are equal but for chance.",
        *tables,
    ]


def _disclosure(
    aggregator: BaseEstimator, summaries: Sequence[Summary], report: Any
) -> list[str]:
    """Return under which rule nodes told of their rows, and what can be guessed."""
    section = ["## Disclosure and privacy"]
    agreement = getattr(aggregator.estimators, "agreement", None)
    if report.noise:
        section.append(as_markdown(report.noise))
    else:
        section += _rules(summaries, is_alone=agreement is None)
    section.append(
        f"{TO_FILL_IN} on which ground the rows may be used (consent, law, ethics "
        "committee), and who answers for them at each node."
    )
    if agreement is not None:
        sentences = [f"- {as_markdown(text)}" for text in agreement.says.values()]
        section += ["### Agreement", "\n".join(sentences)]
    return section


def _rules(summaries: Sequence[Summary], *, is_alone: bool) -> list[str]:
    """Return the rules under which nodes told of rows without noise, and guesses."""
    section = []
    if summaries:
        rules = {disclosure_in_words(summary.disclosure) for summary in summaries}
        section += map(as_markdown, sorted(rules))
        guesses = [f"Node {summary.name!r}: {summary.guess}" for summary in summaries]
        points = Points(heading="What can be guessed about a row", sentences=guesses)
        section.append(points.markdown())
    elif is_alone:
        section.append("The rows were in one place, where no rule of disclosure held.")
    section.append(
        "No noise was added to what nodes told. So no bound of differential privacy is "
        "claimed."
    )
    return section


def _shown(labels: Iterable, *, most: int = _MOST_CLASSES) -> str:
    """Return labels or names in a row, and how many more there are."""
    labels = [as_markdown(str(label)) for label in labels]
    listed = ", ".join(labels[:most])
    n_more = len(labels) - most
    return f"{listed} and {n_more} more" if n_more > 0 else listed
