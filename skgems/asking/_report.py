"""What became of a fit, node by node and class by class, in words and as tables."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ..base import (
    Definitions,
    Page,
    Paragraph,
    Points,
    ResultMixin,
    filled,
)
from ..compat import safe_indexing
from ..disclosure import min_rows_of
from ..evaluation import Evaluation
from ..local import indices_of, local_model
from ..messages import ROUNDING, TASKS
from ..parties import Summary, rows_of_nodes, shown_labels
from ..private import noise_told
from ._card import card_of
from ._evaluating import EvaluateMixin
from ._judged_models import labels_of_rows, named_members
from ._report_doubts import doubts_about
from ._report_tables import (
    HEADS,
    lines_of_table,
    table_of_columns,
    title_of_column,
)
from ._withheld import withheld_in_words

if TYPE_CHECKING:  # pandas is an extra
    import pandas


@dataclass(frozen=True, kw_only=True, repr=False)
class Report(ResultMixin):
    """The outcome of a fit; it prints as tables, also in a notebook.

    Attributes
    ----------
    method : str
        Name of the aggregator.
    nodes : dict of lists
        One entry per node in each column. A column without any value is left out. The
        columns are:

        - "node": name of the node.
        - "rows": number of rows that score models, or of those in the node's reply.
        - "classes": classes that the node's classifier knows.
        - "local_accuracy": accuracy of the local classifier on these rows.
        - "aggregate_accuracy": accuracy of the aggregate on the same rows.
        - "largest_class": share of the largest class among these rows. It is the
          accuracy of a classifier that always predicts this class.
        - "gain": accuracy of the aggregate minus that of the local classifier.
        - "log_loss": mean log-loss per row, in nats, of the model that fits the
          statistics of all nodes best, computed from the statistics of the node's rows.
        - "in_good_enough_space": whether the aggregate is in the node's good-enough
          space.
        - "min_rows": the bound under which the node answered.
        - "bytes": size of the arrays and settings in the node's file, or in its first
          reply. The file itself is larger.
        - "counted", "spread", "far", "shown", "left_out_by": the table ``trust_`` of a
          fit with ``robust``.
    classes : dict of lists
        For each "class", the nodes that know it ("known_by").
    messages : list of dict
        The messages of ``history_``.
    doubts : tuple of str
        Reasons not to trust the model. All warnings of the fit are among them.
    proof : str
        What is proved about the model, if anything is.
    columns : str
        Which columns the model uses, and which it does not, if there are any.
    withheld : str
        Which nodes would tell less under the default rule of disclosure if they were
        apart, as far as numbers of rows say it. It is of a fit in one process without a
        rule.
    noise : str
        What the noise on the sums of nodes promises, if `privacy` is set.
    legend : dict of str to str
        Meaning of columns in the table of nodes, and the rows that they refer to.
    evaluation : Evaluation or None
        How good the aggregate is at each node: areas under ROC curves, predictive
        values, calibration. It is there if rows were passed, or if the nodes were asked
        by ``evaluate``.
    bytes_of_bins : int or None
        For trees that were grown at the nodes: about how many bytes the rows of all
        nodes take in the bins of the trees. If the nodes sent more about trees, the
        server may have learned all rows.
    """

    method: str
    nodes: Mapping
    classes: Mapping
    messages: tuple
    doubts: tuple
    proof: str = ""
    columns: str = ""
    withheld: str = ""
    noise: str = ""
    legend: Mapping = field(default_factory=dict)
    evaluation: Evaluation | None = None
    bytes_of_bins: int | None = None

    def to_frame(self) -> "pandas.DataFrame":
        """Return the table of nodes as a pandas DataFrame."""
        import pandas as pd

        return pd.DataFrame(dict(self.nodes)).set_index("node")

    @property
    def sent(self) -> str:
        """Say how many bytes nodes sent, in how many messages or files.

        For trees it also says how many bytes the rows themselves have.
        """
        if not self.messages and "bytes" in self.nodes:
            sizes = [n_bytes for n_bytes in self.nodes["bytes"] if n_bytes]
            unit = "file" if len(sizes) == 1 else "files"
        else:
            sizes = [message["bytes_received"] for message in self.messages]
            unit = "message" if len(sizes) == 1 else "messages"
        sentence = f"The nodes sent {sum(sizes):,} bytes in {len(sizes)} {unit}."
        if self.bytes_of_bins is None:
            return sentence
        n_about_trees = _n_bytes_about_trees(self.messages)
        sentence += (
            f" {n_about_trees:,} of these bytes are about trees; all rows in bins "
            f"have about {self.bytes_of_bins:,}."
        )
        if n_about_trees > self.bytes_of_bins:
            sentence += " More was sent than the rows have, so it may reveal them."
        return sentence

    @property
    def meanings(self) -> dict[str, str]:
        """Return the legend by the heads that are shown."""
        return {title_of_column(name): text for name, text in self.legend.items()}

    @property
    def _sentences(self) -> list[str]:
        """List what is said of all nodes together, beside doubts."""
        sentences = [self.sent, self.columns, self.proof, self.withheld, self.noise]
        return [sentence for sentence in sentences if sentence]

    @property
    def in_one_paragraph(self) -> str:
        """Return what is said of all nodes together, beside doubts."""
        return " ".join(self._sentences)

    def __str__(self) -> str:
        lines = [
            self.method,
            *lines_of_table(self.nodes),
            "",
            *lines_of_table(self.classes),
            "",
        ]
        for title, meaning in self.meanings.items():
            lines.append(filled(f"{title}: {meaning}"))
        if self.legend:
            lines.append("")
        if self.evaluation is not None:
            lines += [Page(title="", parts=self.evaluation.parts).text, ""]
        sentences = [*self._sentences, *(f"Doubt: {doubt}" for doubt in self.doubts)]
        lines += [filled(sentence) for sentence in sentences]
        return "\n".join(lines)

    def _page(self) -> Page:
        definitions = Definitions(
            heading="What the columns mean", meanings=self.meanings
        )
        parts = [
            table_of_columns(self.nodes),
            *([definitions] if self.legend else []),
            table_of_columns(self.classes),
            *(self.evaluation.parts if self.evaluation is not None else ()),
            Paragraph(text=self.in_one_paragraph),
        ]
        if self.doubts:
            parts.append(Points(heading="Reasons for doubt", sentences=self.doubts))
        return Page(title=self.method, parts=parts)

    def to_markdown(self) -> str:
        """Return the report in Markdown."""
        legend = [f"- {title}: {meaning}" for title, meaning in self.meanings.items()]
        doubts = [f"- {doubt}" for doubt in self.doubts] or ["- Nothing was noticed."]
        paragraphs = [
            table_of_columns(self.nodes).markdown(),
            "\n".join(legend),
            table_of_columns(self.classes).markdown(),
            "" if self.evaluation is None else self.evaluation.to_markdown(),
            self.in_one_paragraph,
            "Reasons for doubt:",
            "\n".join(doubts),
        ]
        return "\n\n".join(paragraph for paragraph in paragraphs if paragraph)


def _n_bytes_about_trees(messages: Iterable[Mapping]) -> int:
    """Return how many bytes all nodes sent about trees that grow at them."""
    return sum(
        message["bytes_received"]
        for message in messages
        if TASKS[message["task"]].limits_bytes
    )


class ReportMixin(EvaluateMixin):
    """Mixin of aggregators that can report the outcome of a fit."""

    def report(self, X=None, y=None, nodes=None) -> Report:
        """Report the outcome of the fit for each node, class and message.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
            Rows that score the local classifiers and the aggregate. Give rows that no
            node has used for its fit. If None, the report has the scores that the fit
            itself measured, if any.
        y : array-like of shape (n_samples,), default=None
            Labels of the rows.
        nodes : array-like of shape (n_samples,), default=None
            Name or index of the node of each row. If None, all rows score every node.

        Returns
        -------
        report : Report
            The report; print it to read it.

        Examples
        --------
        >>> from skgems import GEMSLogisticAggregator
        >>> from skgems.datasets import load_penguins
        >>> X, y, islands = load_penguins()
        >>> agg = GEMSLogisticAggregator([(name, None) for name in sorted({*islands})])
        >>> report = agg.fit(X, y, nodes=islands).report(X, y, islands)
        >>> report.classes["known_by"]
        ['Biscoe, Dream, Torgersen', 'Dream', 'Biscoe']
        """
        check_is_fitted(self)
        summaries = [
            member if isinstance(member, Summary) else None
            for member in self.estimators_
        ]
        seen_classes = _seen_classes(self)
        columns = _measured_columns(self)
        columns |= _columns_of_nodes(
            self, seen_classes=seen_classes, summaries=summaries
        )
        columns |= _columns_of_trust(self)
        evaluation = self._evaluation(X, y, nodes)
        legend = _legend_of_fit(self, are_sent=any(summaries))
        if X is not None:
            columns |= self._scored(X, y, nodes)
            rows = "All rows" if nodes is None else "The rows of the node among those"
            legend |= _legend_of_rows(f"{rows} that were passed to report().")
        elif evaluation is not None:
            columns |= _columns_of_evaluation(evaluation, columns=columns)
        columns["gain"] = _gains(columns)
        columns_with_values = {
            name: columns[name]
            for name in HEADS
            if any(value is not None for value in columns.get(name, ()))
        }
        classes = _classes_by_node(self, seen_classes)
        return Report(
            method=type(self).__name__,
            nodes=columns_with_values,
            classes=classes,
            messages=tuple(self.history_),
            doubts=tuple(
                doubts_about(
                    self,
                    nodes=columns_with_values,
                    classes=classes,
                    evaluation=evaluation,
                )
            ),
            proof=_proof(self),
            columns=_columns_in_words(self),
            withheld=withheld_in_words(self),
            noise=noise_told(self),
            legend={
                name: legend[name] for name in columns_with_values if name in legend
            },
            evaluation=evaluation,
            bytes_of_bins=self._bytes_of_bins
            if _n_bytes_about_trees(self.history_)
            else None,
        )

    def _evaluation(self, X, y, nodes) -> Evaluation | None:
        """Evaluate by rows, or return what nodes have told; None if nothing is."""
        if X is None:
            return getattr(self, "evaluation_", None)
        if len(self.classes_) < 2:
            return None
        return self.evaluate(X, y, nodes)

    def _scored(self, X, y, nodes) -> dict[str, list]:
        """Columns of how good models are on rows of each node; None without rows."""
        y = labels_of_rows(X, y, nodes, classes=self.classes_.tolist())
        Z = self._rows_of_local_models(X)
        predicted = self.predict(X)
        rows_of_each = rows_of_nodes(nodes, list(self.node_names_), len(y))
        columns: dict[str, list] = {
            "rows": [],
            "local_accuracy": [],
            "aggregate_accuracy": [],
            "largest_class": [],
        }
        for (name, member), rows in zip(named_members(self), rows_of_each, strict=True):
            local_accuracy = None
            accuracy = None
            share = None
            if len(rows):
                accuracy = float(np.mean(predicted[rows] == y[rows]))
                _, counts = np.unique(y[rows], return_counts=True)
                share = float(counts.max() / len(rows))
            if len(rows) and getattr(member, "has_classifier", True):
                model = local_model(member, name=name)
                votes = model.votes(safe_indexing(Z, rows), self.classes_)
                is_right = votes == indices_of(y[rows], self.classes_)
                local_accuracy = float(np.mean(is_right))
            columns["rows"].append(len(rows))
            columns["local_accuracy"].append(local_accuracy)
            columns["aggregate_accuracy"].append(accuracy)
            columns["largest_class"].append(share)
        return columns

    def model_card(self, path, **rows) -> None:
        """Write a model card, with all that is known of the model, to a Markdown file.

        Its headings are those of the cards of skops. It has the population of each
        node, metrics and calibration, doubts, and what was told under which rule. Parts
        that only the owner of the model can write begin with "To fill in".

        Parameters
        ----------
        path : str or os.PathLike
            Path of the file, for example ``"MODEL.md"``. An existing file is replaced.
        **rows : dict
            ``X``, ``y`` and ``nodes``, passed to :meth:`report` and :meth:`evaluate`.
            Without rows, the card has what :meth:`evaluate` has asked the nodes before.
        """
        report = self.report(**rows)
        card = card_of(self, report)
        Path(path).write_text(card, encoding="utf-8")


def _seen_classes(aggregator: BaseEstimator) -> list[list]:
    """The classes that each node's classifier has seen."""
    seen_classes = []
    for name, member in named_members(aggregator):
        description = local_model(member, name=name).description
        seen_classes.append(description.classes[description.seen].tolist())
    return seen_classes


def _columns_of_nodes(
    aggregator: BaseEstimator,
    *,
    seen_classes: list[list],
    summaries: list[Summary | None],
) -> dict[str, list]:
    """Columns of what nodes are, and of what they sent; None where nothing is known."""
    if aggregator.privacy is not None:  # what else is there is public, of no rows
        return {
            "node": list(aggregator.node_names_),
            "bytes": [summary and summary.n_bytes for summary in summaries],
        }
    columns = {
        "node": list(aggregator.node_names_),
        "classes": [", ".join(map(str, labels)) for labels in seen_classes],
        "bytes": [summary and summary.n_bytes for summary in summaries],
        "min_rows": _bounds(aggregator),
    }
    if any(summaries):
        columns["rows"] = [summary and _n_rows(summary) for summary in summaries]
    return columns


def _columns_of_trust(aggregator: BaseEstimator) -> dict[str, list]:
    """Columns of what was found of the nodes, if some of them may lie."""
    trust = getattr(aggregator, "trust_", None)
    if trust is None:
        return {}
    columns = {name: _none_for_nan(trust[name]) for name in ("spread", "far", "shown")}
    return {
        **columns,
        "counted": [
            int(n_rows) if n_rows.is_integer() else n_rows
            for n_rows in trust["counted"]
        ],
        "left_out_by": [reason or None for reason in trust["left_out_by"]],
    }


def _gains(columns: Mapping) -> list[float | None]:
    """Return how much more accurate the aggregate is than each node's own model."""
    return [
        None
        if accuracy is None or local_accuracy is None
        else accuracy - local_accuracy
        for accuracy, local_accuracy in zip(
            columns.get("aggregate_accuracy", ()),
            columns.get("local_accuracy", ()),
            strict=True,
        )
    ]


def _classes_by_node(
    aggregator: BaseEstimator, seen_classes: list[list]
) -> dict[str, list]:
    """The table of classes, with the names of the nodes that have seen each."""
    labels = aggregator.classes_.tolist()
    if aggregator.privacy is not None:  # all agreed classes are in each message
        return {"class": labels, "known_by": ["not told (noise)"] * len(labels)}
    classes_of_names = list(zip(aggregator.node_names_, seen_classes, strict=True))
    known_by = [
        ", ".join(name for name, classes in classes_of_names if label in classes)
        for label in labels
    ]
    return {"class": labels, "known_by": known_by}


def _measured_columns(aggregator: BaseEstimator) -> dict[str, list]:
    """Columns of what the fit has measured at the nodes, if it has."""
    if getattr(aggregator, "node_scores_", None) is None:
        return {}
    scores = {
        name: _none_for_nan(column) for name, column in aggregator.node_scores_.items()
    }
    columns = {"log_loss": scores["loss"]}
    if any(scores["n_rows"]):
        columns["rows"] = [int(n_rows or 0) for n_rows in scores["n_rows"]]
    columns["in_good_enough_space"] = [
        None
        if distance is None or radius is None
        else bool(distance <= radius * (1.0 + ROUNDING))
        for distance, radius in zip(scores["distance"], scores["radius"], strict=True)
    ]
    last_layer = getattr(aggregator, "last_layer_", aggregator)
    # Other criteria score nodes by their losses, which are no accuracies.
    if last_layer._method().spaces.criterion.name == "accuracy":
        columns["local_accuracy"] = scores["local"]
        columns["aggregate_accuracy"] = scores["aggregate"]
        columns["largest_class"] = _shares_beside(
            scores["aggregate"], scores["local"], shares=last_layer._largest_shares
        )
    return columns


def _columns_of_evaluation(
    evaluation: Evaluation, *, columns: Mapping[str, list]
) -> dict[str, list]:
    """Columns of accuracies that nodes have told, where the fit has measured none."""
    if any(value is not None for value in columns.get("aggregate_accuracy", ())):
        return {}
    told = evaluation.columns
    place_of = {name: place for place, name in enumerate(told["node"][:-1])}
    places = [place_of.get(name) for name in columns["node"]]
    names = {
        "aggregate_accuracy": "accuracy",
        "local_accuracy": "local_accuracy",
        "largest_class": "largest_class",
    }
    return {
        name: [None if place is None else told[column][place] for place in places]
        for name, column in names.items()
    }


def _shares_beside(
    accuracies: list, local_accuracies: list, *, shares: list
) -> list[float | None]:
    """The share of the largest class at each node that has an accuracy."""
    return [
        None if accuracy is None and local_accuracy is None else share
        for accuracy, local_accuracy, share in zip(
            accuracies, local_accuracies, _none_for_nan(shares), strict=True
        )
    ]


def _none_for_nan(column: Iterable) -> list:
    """A column of numbers or names, with None for each NaN."""
    # NaN alone differs from itself, and names are none.
    return [None if value != value else value for value in column]


def _n_rows(summary: Summary) -> int:
    """Rows that a summary is made of; those that only judge count too."""
    judging = summary.row_counts["judging"]
    training = summary.row_counts["training"]
    n_rows = int(training.sum())
    if not np.array_equal(judging, training):  # some rows were held out
        n_rows += int(judging.sum())
    return n_rows


def _bounds(aggregator: BaseEstimator) -> list[int | None]:
    """The smallest bound that each node answered under; None of one that is here."""
    bounds: list[int | None] = []
    for name, member in zip(
        aggregator.node_names_, aggregator.estimators_, strict=True
    ):
        if not isinstance(member, Summary):
            bounds.append(None)
            continue
        later_bounds = [
            message["min_rows"][name]
            for message in aggregator.history_
            if name in message.get("min_rows", {})
        ]
        bounds.append(min([min_rows_of(member.disclosure), *later_bounds]))
    return bounds


def _legend_of_rows(rows: str, *, local_model: str = "local model") -> dict[str, str]:
    """The legend of columns that are of the rows which are counted beside them."""
    return {
        "rows": rows,
        "local_accuracy": f"Accuracy of the node's {local_model} on these rows.",
        "aggregate_accuracy": "Accuracy of the aggregate on the same rows.",
        "largest_class": "Share of the largest class among these rows. It is the "
        "accuracy of always predicting this class.",
    }


def _legend_of_fit(aggregator: BaseEstimator, *, are_sent: bool) -> dict[str, str]:
    """Explain the columns of the table of nodes, as the fit has measured them."""
    local_model = "local model"
    if getattr(aggregator, "last_layer_", None) is not None:
        local_model = "own last layer over the merged hidden layers"
    judging_rows = (
        "the node's judging rows: its held-out rows if there are any, else all its "
        "rows, of the classes that its local model has seen"
    )
    if are_sent:  # rows are those of a reply, which has other rows than scores
        legend = {
            "rows": "The rows that the node's reply was made from.",
            "local_accuracy": f"Accuracy of the node's {local_model} on "
            f"{judging_rows}.",
            "aggregate_accuracy": "Accuracy of the aggregate on the same judging rows.",
            "largest_class": "Share of the largest class among these judging rows. It "
            "is the accuracy of always predicting this class.",
        }
    else:
        legend = _legend_of_rows(
            f"{judging_rows[0].upper()}{judging_rows[1:]}.", local_model=local_model
        )
    return legend | {
        "gain": "Accuracy of the aggregate minus accuracy of the local model.",
        "log_loss": "Mean log-loss per row of the likeliest model, before epsilon. It "
        "is computed from the statistics of the node's rows.",
        "in_good_enough_space": "Whether the aggregate is in the node's good-enough "
        "space, the models that reach the level epsilon on the node's rows.",
        "min_rows": "The bound of the node: it left out classes with fewer rows.",
        "bytes": "Size of the arrays and settings in the node's file, or in its first "
        "reply. The file itself is larger.",
        "counted": "Rows in the node's sums, or their weight, that count in the "
        "aggregate.",
        "spread": "The factor by which rows vary more or less within classes than at "
        "the median node.",
        "far": "How many standard deviations the node's rows are away from those of "
        "the same classes at other nodes.",
        "shown": "Which part of the other nodes' differences between classes the node "
        "shows: 1 is all, and 0 is expected for random labels.",
        "left_out_by": "The number by which the node was left out.",
    }


def _proof(aggregator: BaseEstimator) -> str:
    """A sentence on what is proved of a fitted aggregator, or nothing.

    Distances of an intersection are squared, in units of the radius of each space.
    """
    if getattr(aggregator, "exact_", False):
        return "Proven: the model equals the pooled model, fitted on all rows at once."
    intersection = getattr(aggregator, "intersection_", None)
    if intersection is None:
        return ""
    if hasattr(aggregator, "coef_"):
        spaces = "good-enough space of every node"
    else:
        spaces = "good-enough space of every node (of its last layer)"
    if intersection.found:
        n_radii = intersection.max_distance**0.5
        return (
            f"Proven: the model is in the {spaces}. It is within the allowed distance "
            f"of every node's model: at most {n_radii:.3g} times that distance."
        )
    if intersection.empty:
        n_radii = intersection.lower_bound**0.5
        return (
            f"Proven: no model is in the {spaces}. Every model is at least "
            f"{n_radii:.3g} times the allowed distance away from some node's model."
        )
    return f"No model was found in the {spaces}; it is not proven that there is none."


def _columns_in_words(aggregator: BaseEstimator) -> str:
    """A sentence on the columns that a fitted aggregator uses, or "" if it is all."""
    if getattr(aggregator, "_columns_used", None) is None:
        return ""
    used = aggregator.features_used_
    if len(used) == aggregator.n_features_in_:
        return ""
    labels = getattr(
        aggregator, "feature_names_in_", np.arange(aggregator.n_features_in_)
    )
    unused = [label for label in labels.tolist() if label not in set(used)]
    return (
        f"The model uses the columns {shown_labels(used)}, and not "
        f"{shown_labels(unused)}."
    )
