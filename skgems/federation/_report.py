"""What became of a fit, node by node and class by class, in words and as tables."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from textwrap import fill

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..base import check_no_label_missing, versions
from ..compat import safe_indexing
from ..local import indices_of, local_model
from ..spaces import as_criterion
from ._labels import shown_labels
from ._nodes import rows_of_nodes
from ._summary import Summary

# Points of accuracy that a node loses before it is told of.
_LOSES = 0.02
_ROUNDED = 1.0 + 1e-6  # a point may be on the surface
_LAYOUT: Mapping = {"width": 88, "subsequent_indent": "    "}
# Of the table of nodes, in their order.
_COLUMNS = ("node", "rows", "classes", "own", "aggregate", "gain", "loss", "in_space")
_COLUMNS += ("min_rows", "bytes")


@dataclass(frozen=True)
class Report:
    """What became of a fit; it prints as tables, and shows as such in a notebook.

    Attributes
    ----------
    method : str
        Name of the aggregator.
    nodes : dict of lists
        For each "node" its "rows", "classes", the accuracy of its "own" model and of
        the "aggregate" on the same rows, the "gain", the log-"loss" on its moments,
        whether the aggregate is "in_space", the bound "min_rows" that it answered
        under, and the "bytes" of its file; columns of which nothing is known are left
        out, and ``legend`` says what the others are.
    classes : dict of lists
        For each "class" the nodes that know it ("known_by").
    messages : list of dict
        Those of ``history_``.
    doubts : tuple of str
        Reasons not to trust it; all that the fit has warned of is among them.
    proof : str
        What is proved, if anything is.
    legend : dict of str to str
        For columns of the table of nodes what they are, and of which rows.
    """

    method: str
    nodes: Mapping
    classes: Mapping
    messages: tuple
    doubts: tuple
    proof: str = ""
    legend: Mapping = field(default_factory=dict)

    def to_frame(self):
        """The table of nodes as a DataFrame."""
        import pandas as pd

        return pd.DataFrame(dict(self.nodes)).set_index("node")

    @property
    def sent(self) -> str:
        """How much left the nodes, in words."""
        n_bytes, what = [own["bytes_received"] for own in self.messages], "message"
        if not n_bytes and "bytes" in self.nodes:
            n_bytes, what = [own for own in self.nodes["bytes"] if own], "file"
        several = "s" * (len(n_bytes) != 1)
        return f"{len(n_bytes)} {what}{several}, {sum(n_bytes):,} bytes from the nodes."

    def __str__(self):
        lines = [self.method, *_lines(self.nodes), "", *_lines(self.classes), ""]
        for name, words in self.legend.items():
            lines.append(fill(f"{_title(name)}: {words}.", **_LAYOUT))
        lines += [""] if self.legend else []
        more = [self.proof] if self.proof else []
        more += [f"Doubt: {printable(own)}" for own in self.doubts]
        return "\n".join([*lines, self.sent, *more])

    def _repr_html_(self) -> str:
        doubts = "".join(f"<li>{escape(own)}</li>" for own in self.doubts)
        legend = "".join(
            f"<dt>{escape(_title(name))}</dt><dd>{escape(words)}</dd>"
            for name, words in self.legend.items()
        )
        tables = (
            f"<h3>{escape(self.method)}</h3>{_html(self.nodes)}<dl>{legend}</dl>"
            f"{_html(self.classes)}"
        )
        words = f"<p>{escape(self.sent)} {escape(self.proof)}</p>"
        return f"{tables}{words}" + f"<p>To doubt:</p><ul>{doubts}</ul>" * bool(doubts)

    def to_markdown(self) -> str:
        """The same in Markdown."""
        doubts = [f"- {own}" for own in self.doubts] or ["- Nothing was noticed."]
        legend = [f"- {_title(name)}: {words}" for name, words in self.legend.items()]
        parts = [_markdown(self.nodes), "\n".join(legend), _markdown(self.classes)]
        parts += [f"{self.sent} {self.proof}", "Doubts:", "\n".join(doubts)]
        return "\n\n".join(part for part in parts if part)


def printable(text: str) -> str:
    """A line that cannot steer the terminal, whoever chose the names in it."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


class ReportMixin:
    """Mixin of aggregators that tell what became of a fit."""

    def report(self, X=None, y=None, nodes=None) -> Report:
        """Tell of each node, class and message what came of the fit.

        Parameters
        ----------
        X, y, nodes : array-like, default=None
            Rows that score the nodes' own models and the aggregate, best such as none
            of them has seen, labels, and whose rows they are, by name or index; None:
            every node's. Without rows: scores that the fit has measured, if any.

        Returns
        -------
        report : Report

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
        seen = _seen_classes(self)
        columns = _measured(self) | _columns_of_nodes(self, seen, summaries)
        words = _words_for_columns(self, are_sent=any(summaries))
        if X is not None:
            columns |= self._scored(X, y, nodes)
            whose = "all rows" if nodes is None else "the node's rows among those"
            words |= _words_for_rows(f"{whose} that were given to the report")
        columns["gain"] = _gains(columns)
        shown = {
            name: columns[name]
            for name in _COLUMNS
            if any(value is not None for value in columns.get(name, ()))
        }
        classes = _classes_by_node(self, seen)
        return Report(
            method=type(self).__name__,
            nodes=shown,
            classes=classes,
            messages=tuple(self.history_),
            doubts=tuple(_doubts(self, shown, classes)),
            proof=_proof(self),
            legend={name: words[name] for name in shown if name in words},
        )

    def _scored(self, X, y, nodes) -> dict:
        check_no_label_missing(y, nodes)
        y, names = np.asarray(y), list(self.node_names_)
        _check_labels_of_rows(y, self.classes_.tolist())
        Z, found = self._validate(X, reset=False), self.predict(X)
        rows_by_name = dict(
            zip(names, rows_of_nodes(nodes, names, len(y)), strict=True)
        )
        columns = {"rows": [], "own": [], "aggregate": []}
        for name, member in _pairs(self):
            rows, own, there = rows_by_name[name], None, None
            if len(rows):
                there = float(np.mean(found[rows] == y[rows]))
            if len(rows) and getattr(member, "has_classifier", True):
                model = local_model(member, name=name)
                votes = model.votes(safe_indexing(Z, rows), self.classes_)
                own = float(np.mean(votes == indices_of(y[rows], self.classes_)))
            for column, value in zip(columns, (len(rows), own, there), strict=True):
                columns[column].append(value)
        return columns

    def model_card(self, path, **rows) -> None:
        """Write what is known of the model to a file in Markdown.

        Parameters
        ----------
        path : str or os.PathLike
            ``"MODEL.md"``, say; what is there is replaced.
        **rows : dict
            ``X``, ``y`` and ``nodes`` of :meth:`report`.
        """
        report = self.report(**rows)
        parameters = self.get_params(deep=False)
        lines = [f"# Model: {type(self).__name__}", "## What it is", ""]
        lines += [f"- {len(self.node_names_)} nodes, {len(self.classes_)} classes"]
        lines += [f"- {name} {number}" for name, number in versions().items()]
        lines += ["", "## Settings", ""]
        lines += [
            f"- {name}: `{value!r}`"
            for name, value in parameters.items()
            if name not in {*self.node_names_, "estimators"}
        ]
        lines += ["", "## Nodes", "", report.to_markdown()]
        lines += ["", "## What left the nodes", "", *_lines_of_messages(self, report)]
        agreement = getattr(self.estimators, "agreement", None)
        if agreement is not None:
            lines += ["", "## Agreement", ""]
            lines += [f"- {sentence}" for sentence in agreement.says.values()]
        Path(path).write_text("\n".join([*lines, ""]), encoding="utf-8")


def _lines_of_messages(aggregator, report: Report) -> list[str]:
    """A line for each message, and for each file: what came, and under which bound."""
    summaries = [own for own in aggregator.estimators_ if isinstance(own, Summary)]
    lines = []
    for entry in report.messages:
        # In one process all rows are here, and no bound holds.
        bounds = entry.get("min_rows", {}).values() if summaries else ()
        made = f", made with min_rows={min(bounds)}" if bounds else ""
        lines.append(
            f"- {entry['task']}: {entry['bytes_received']:,} bytes from the nodes"
            f"{made}, {entry['bytes_sent']:,} to them"
        )
    lines += [
        f"- file of {summary.name}: {summary.n_bytes:,} bytes, made with "
        f"min_rows={summary.min_rows}, digest {summary.message.digest}"
        for summary in summaries
    ]
    return lines


def _seen_classes(aggregator) -> list[list]:
    """The classes that each node's classifier has seen."""
    descriptions = [
        local_model(member, name=name).description
        for name, member in _pairs(aggregator)
    ]
    return [own.classes[own.seen].tolist() for own in descriptions]


def _columns_of_nodes(aggregator, seen: list[list], summaries: list) -> dict:
    """Columns of what nodes are, and of what they sent; None where nothing is known."""
    columns = {
        "node": list(aggregator.node_names_),
        "classes": [", ".join(map(str, labels)) for labels in seen],
        "bytes": [summary and summary.n_bytes for summary in summaries],
        "min_rows": _bounds(aggregator),
    }
    if any(summaries):
        columns["rows"] = [summary and _n_rows(summary) for summary in summaries]
    return columns


def _gains(columns: Mapping) -> list[float | None]:
    """By how much the aggregate is more accurate than each node's own model."""
    pairs = zip(columns.get("aggregate", ()), columns.get("own", ()), strict=True)
    return [None if None in pair else pair[0] - pair[1] for pair in pairs]


def _classes_by_node(aggregator, seen: list[list]) -> dict[str, list]:
    """The table of classes, with the names of the nodes that have seen each."""
    labels = aggregator.classes_.tolist()
    nodes = list(zip(aggregator.node_names_, seen, strict=True))
    known_by = [
        ", ".join(name for name, classes in nodes if label in classes)
        for label in labels
    ]
    return {"class": labels, "known_by": known_by}


def _check_labels_of_rows(y: np.ndarray, classes: list) -> None:
    """Raise ValueError where all rows would count as wrong, whatever the models say."""
    labels = np.unique(y).tolist()
    if labels and set(labels).isdisjoint(classes):
        raise ValueError(
            "None of the labels in y is a class of the aggregate, so nothing can be "
            f"scored. y holds {shown_labels(labels)}; the classes are "
            f"{shown_labels(classes)}. Give labels as the nodes have them."
        )


def _pairs(aggregator) -> list[tuple]:
    members = aggregator.estimators_
    members = [own.network if isinstance(own, Summary) else own for own in members]
    return list(zip(aggregator.node_names_, members, strict=True))


def _measured(aggregator) -> dict:
    scores = getattr(aggregator, "node_scores_", None)
    if scores is None:
        return {}
    known = {k: [None if v != v else v for v in own] for k, own in scores.items()}
    found = {"loss": known["loss"]}
    if any(known["n_rows"]):
        found["rows"] = [int(n or 0) for n in known["n_rows"]]
    pairs = zip(known["distance"], known["radius"], strict=True)
    found["in_space"] = [
        None if None in own else bool(own[0] <= own[1] * _ROUNDED) for own in pairs
    ]
    layer = getattr(aggregator, "last_layer_", aggregator)
    if as_criterion(layer.criterion).name == "accuracy":
        found |= {"own": known["local"], "aggregate": known["aggregate"]}
    return found


def _n_rows(summary: Summary) -> int:
    """Rows that judge too, where others make the moments."""
    judging, training = (summary.row_counts[role] for role in ("judging", "training"))
    held_out = not np.array_equal(judging, training)
    return int(training.sum() + (judging.sum() if held_out else 0))


def _bounds(aggregator) -> list[int | None]:
    """The smallest bound that each node answered under; None of one that is here."""
    bounds: list[int | None] = []
    for name, member in zip(
        aggregator.node_names_, aggregator.estimators_, strict=True
    ):
        if not isinstance(member, Summary):
            bounds.append(None)
            continue
        told = (entry.get("min_rows", {}) for entry in aggregator.history_)
        later = [by_name[name] for by_name in told if name in by_name]
        bounds.append(min([member.min_rows, *later]))
    return bounds


def _words_for_rows(rows: str, own_model: str = "own model") -> dict[str, str]:
    """What columns are of which the rows are counted beside them."""
    return {
        "rows": rows,
        "own": f"accuracy of the node's {own_model} on these rows",
        "aggregate": "accuracy of the aggregate on these rows",
    }


def _words_for_columns(aggregator, *, are_sent: bool) -> dict[str, str]:
    """What columns of the table of nodes are, as the fit has measured them."""
    own_model = "own model"
    if getattr(aggregator, "last_layer_", None) is not None:
        own_model = "own last layer over the merged hidden layers"
    scored = (
        "the rows that score models at the node (those held out, if there are any), "
        "of classes that its own model has seen"
    )
    words = _words_for_rows(scored, own_model)
    if are_sent:  # rows are those of a reply, which has other rows than scores
        words = {
            "rows": "the rows that the node's reply is made of",
            "own": f"accuracy of the node's {own_model}, on {scored}",
            "aggregate": f"accuracy of the aggregate, on {scored}",
        }
    return words | {
        "gain": "by how much the aggregate is more accurate than the node's own",
        "loss": "log-loss in nats a row, on the statistics of the node's rows, of the "
        "model that is likeliest by those of all nodes",
        "in_space": "whether the aggregate is in the node's good-enough space, of "
        "models that reach the level epsilon on its rows",
        "min_rows": "the bound that the node answered under: it left out the rows of "
        "classes that it has fewer of",
        "bytes": "size of the node's file, or of its first reply",
    }


def _proof(aggregator) -> str:
    if getattr(aggregator, "exact_", False):
        return "Proof: it is the classifier fitted on all rows at one place."
    proof = getattr(aggregator, "intersection_", None)
    if proof is None:
        return ""
    inside = "" if hasattr(aggregator, "coef_") else " (of its last layer)"
    spaces = f"good-enough space of every node{inside}"
    if proof.found:
        far = f"{proof.max_distance**0.5:.3g} radii from the centre of one at most"
        return f"Proof: it is in the {spaces}, {far}."
    if proof.empty:
        least = f"{proof.lower_bound**0.5:.3g}"
        return f"Proof: no model is in the {spaces}; any is {least} radii from one."
    return f"No model was found in the {spaces}, nor was it proved that none is."


def _doubts(aggregator, nodes: Mapping, classes: Mapping) -> list[str]:
    """Reasons not to trust a fitted aggregator, each once."""
    doubts = list(getattr(getattr(aggregator, "choice_", None), "doubts", ()))
    doubts += getattr(aggregator, "_fit_warnings", ())
    doubts += _doubts_about_gains(nodes)
    if len(nodes["node"]) > 1:
        doubts += _doubts_about_classes(classes)
    left_out = {name for entry in aggregator.history_ for name in entry["left_out"]}
    if left_out:
        doubts.append(f"nodes were left out of messages: {sorted(left_out)[:10]}")
    doubts += _doubts_about_spaces(aggregator, nodes)
    return list(dict.fromkeys(doubts))


def _doubts_about_gains(nodes: Mapping) -> list[str]:
    gains = zip(nodes["node"], nodes.get("gain", ()), strict=False)
    return [
        f"node {name!r} loses: its own model is {-gain:.3f} better on its rows"
        for name, gain in gains
        if gain is not None and gain < -_LOSES
    ]


def _doubts_about_classes(classes: Mapping) -> list[str]:
    alone = [
        f"{label!r} ({names})"
        for label, names in zip(classes["class"], classes["known_by"], strict=True)
        if ", " not in names
    ]
    if not alone:
        return []
    return [f"classes that one node alone knows: {', '.join(alone[:10])}"]


def _doubts_about_spaces(aggregator, nodes: Mapping) -> list[str]:
    doubts, proof = [], getattr(aggregator, "intersection_", None)
    if proof is not None and not proof.found:
        doubts.append("it is not in the good-enough spaces of all nodes")
    inside = zip(nodes["node"], nodes.get("in_space", ()), strict=False)
    outside = [name for name, is_inside in inside if is_inside is False]
    if outside:
        doubts.append(f"it is outside the good-enough spaces of nodes {outside[:10]}")
    return doubts


def _title(name: str) -> str:
    return name.replace("_", " ")


def _cells(columns: Mapping) -> list[list[str]]:
    def text(value) -> str:
        if value is None:
            return "-"
        if isinstance(value, bool):
            return "yes" if value else "no"
        return f"{value:.3f}" if isinstance(value, float) else printable(f"{value}")

    titles = list(map(_title, columns))
    return [titles, *zip(*([*map(text, own)] for own in columns.values()), strict=True)]


def _lines(columns: Mapping) -> list[str]:
    rows = _cells(columns)
    widths = [max(map(len, own)) for own in zip(*rows, strict=True)]
    padded = ([f"{c:{w}}" for c, w in zip(r, widths, strict=True)] for r in rows)
    return ["  ".join(own).rstrip() for own in padded]


def _html(columns: Mapping) -> str:
    titles, *rows = _cells(columns)
    head = "".join(f"<th>{escape(own)}</th>" for own in titles)
    lines = ("".join(f"<td>{escape(own)}</td>" for own in row) for row in rows)
    body = "".join(f"<tr>{own}</tr>" for own in lines)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _markdown(columns: Mapping) -> str:
    rows = [[own.replace("|", "\\|") for own in row] for row in _cells(columns)]
    rows.insert(1, ["---"] * len(columns))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
