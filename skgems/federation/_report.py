"""What became of a fit, node by node and class by class, in words and as tables."""

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..base import versions
from ..compat import safe_indexing
from ..local import indices_of, local_model
from ..spaces import as_criterion
from ._nodes import rows_of_nodes
from ._summary import Summary

# Points of accuracy that a node loses before it is told of.
_LOSES = 0.02
_ROUNDED = 1.0 + 1e-6  # a point may be on the surface


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
        whether the aggregate is "in_space", and the "bytes" of its file; columns of
        which nothing is known are left out.
    classes : dict of lists
        For each "class" the nodes that know it ("known_by").
    messages : list of dict
        Those of ``history_``.
    doubts : tuple of str
        Reasons not to trust it.
    proof : str
        What is proved, if anything is.
    """

    method: str
    nodes: Mapping
    classes: Mapping
    messages: tuple
    doubts: tuple
    proof: str = ""

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
        more = [self.proof] if self.proof else []
        more += [f"Doubt: {printable(own)}" for own in self.doubts]
        return "\n".join([*lines, self.sent, *more])

    def _repr_html_(self) -> str:
        doubts = "".join(f"<li>{escape(own)}</li>" for own in self.doubts)
        tables = (
            f"<h3>{escape(self.method)}</h3>{_html(self.nodes)}{_html(self.classes)}"
        )
        words = f"<p>{escape(self.sent)} {escape(self.proof)}</p>"
        return f"{tables}{words}" + f"<p>To doubt:</p><ul>{doubts}</ul>" * bool(doubts)

    def to_markdown(self) -> str:
        """The same in Markdown."""
        doubts = [f"- {own}" for own in self.doubts] or ["- Nothing was noticed."]
        words = f"{self.sent} {self.proof}"
        parts = [_markdown(self.nodes), _markdown(self.classes), words, "Doubts:"]
        return "\n\n".join([*parts, "\n".join(doubts)])


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
        told = [local_model(own, name=name).description for name, own in _pairs(self)]
        seen = [own.classes[own.seen].tolist() for own in told]
        sent = [own if isinstance(own, Summary) else None for own in self.estimators_]
        columns = _measured(self) | {
            "node": list(self.node_names_),
            "classes": [", ".join(map(str, own)) for own in seen],
            "bytes": [own and own.n_bytes for own in sent],
        }
        if any(sent):
            columns["rows"] = [own and _n_rows(own) for own in sent]
        if X is not None:
            columns |= self._scored(X, y, nodes)
        pairs = zip(columns.get("aggregate", ()), columns.get("own", ()), strict=True)
        columns["gain"] = [None if None in own else own[0] - own[1] for own in pairs]
        order = "node rows classes own aggregate gain loss in_space bytes".split()
        known = {name for name, own in columns.items() if set(own) - {None}}
        nodes = {name: columns[name] for name in order if name in known}
        pairs = list(zip(self.node_names_, seen, strict=True))
        labels = self.classes_.tolist()
        knowing = [[name for name, own in pairs if label in own] for label in labels]
        classes = {"class": labels, "known_by": [", ".join(own) for own in knowing]}
        given = type(self).__name__, nodes, classes, tuple(self.history_)
        return Report(*given, tuple(_doubts(self, nodes, classes)), _proof(self))

    def _scored(self, X, y, nodes) -> dict:
        y, names = np.asarray(y), list(self.node_names_)
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
        params = {k: v for k, v in self.get_params(deep=False).items() if k[0] != "_"}
        given = {*self.node_names_, "estimators"}
        settings = [f"- {k}: `{v!r}`" for k, v in params.items() if k not in given]
        lines = [f"# Model: {type(self).__name__}", "## What it is", ""]
        lines += [f"- {len(self.node_names_)} nodes, {len(self.classes_)} classes"]
        lines += [f"- {name} {number}" for name, number in versions().items()]
        lines += ["", "## Settings", "", *settings, "", "## Nodes", ""]
        lines += [report.to_markdown(), "", "## What left the nodes", ""]
        for own in report.messages:
            came, went = (f"{own[f'bytes_{how}']:,}" for how in ("received", "sent"))
            lines += [f"- {own['task']}: {came} bytes from the nodes, {went} to them"]
        for own in self.estimators_:
            if isinstance(own, Summary):
                size = f"{own.n_bytes:,} bytes, digest {own.message.digest}"
                lines.append(f"- file of {own.name}: {size}")
        agreement = getattr(self.estimators, "agreement", None)
        if agreement is not None:
            lines += ["", "## Agreement", ""]
            lines += [f"- {own}" for own in agreement.says.values()]
        Path(path).write_text("\n".join([*lines, ""]), encoding="utf-8")


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


def _doubts(aggregator, nodes, classes) -> list[str]:
    found = list(getattr(getattr(aggregator, "choice_", None), "doubts", ()))
    for name, gain in zip(nodes["node"], nodes.get("gain", ()), strict=False):
        if gain is not None and gain < -_LOSES:
            found.append(
                f"node {name!r} loses: its own model is {-gain:.3f} better on its rows"
            )
    pairs = zip(*classes.values(), strict=True)
    alone = [f"{label!r} ({who})" for label, who in pairs if ", " not in who]
    if alone and len(nodes["node"]) > 1:
        found.append(f"classes that one node alone knows: {', '.join(alone[:10])}")
    left = sorted({name for own in aggregator.history_ for name in own["left_out"]})
    if left:
        found.append(f"nodes were left out of messages: {left[:10]}")
    proof = getattr(aggregator, "intersection_", None)
    if proof is not None and not proof.found:
        found.append("it is not in the good-enough spaces of all nodes")
    outside = zip(nodes["node"], nodes.get("in_space", ()), strict=False)
    if outside := [name for name, inside in outside if inside is False]:
        found.append(f"it is outside the good-enough spaces of nodes {outside[:10]}")
    return found


def _cells(columns: Mapping) -> list[list[str]]:
    def text(value) -> str:
        if value is None:
            return "-"
        if isinstance(value, bool):
            return "yes" if value else "no"
        return f"{value:.3f}" if isinstance(value, float) else printable(f"{value}")

    titles = [name.replace("_", " ") for name in columns]
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
