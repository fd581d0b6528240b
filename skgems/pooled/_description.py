"""What the columns of nodes hold, by node and over all, from one message of each."""

import os
from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_consistent_length, column_or_1d

from ..asking import Context, InProcess, Run, as_channel, check_reply_of
from ..base import Page, Paragraph, Points, ResultMixin, Table, is_channel, printable
from ..compat import safe_indexing
from ..disclosure import disclosure_of
from ..local import Member
from ..messages import Agreement, Message, listed, reply_in
from ..parties import (
    check_no_label_missing_at,
    is_path,
    load_message,
    owners_of,
    reply_as_message,
    ruled_column_member,
    warn_of_written_numbers,
)
from ..steps import (
    IDENTIFIERS,
    NUMBER_COLUMN,
    as_rows,
    distribution_told,
    has_all_numbers,
    moments_told,
    quantile_bounds,
    quantiles,
)
from ..tasks import SurveyReply
from ._table_one import ColumnOfNode, TableOne, table_one_rows
from ._terms import DescriptionTerms

# The column of labels in tables of a description.
CLASSES = "(classes)"
# Quantiles of a description, by their names in its tables.
_QUARTILES = {"25 %": 0.25, "median": 0.5, "75 %": 0.75}


@dataclass(frozen=True, kw_only=True, repr=False)
class Description(ResultMixin):
    """What the columns of all nodes hold; it prints as tables.

    :func:`~skgems.describe` makes it. ``pandas.DataFrame(description.by_node)`` makes a
    frame of a table.

    Attributes
    ----------
    by_node : dict of lists
        One entry per column and node in each list:

        - "column", "node": their names. The labels are the column "(classes)".
        - "kind": "numbers", "texts", "dates", "time spans", "identifiers" (each value
          belongs to one row, so nothing about the values is told) or "other values".
        - "rows": the number of rows.
        - "gaps": the largest number of rows that may have no value. It is exact if it
          is 0. Fewer than ``min_rows`` gaps of a node count as ``min_rows``, and fewer
          known values count as gaps.
        - "mean", "std": mean and standard deviation of the known numbers; the divisor
          is their number, as in :class:`~sklearn.preprocessing.StandardScaler`. None
          if there are few different numbers, and some are too rare to be told.
        - "25 %", "median", "75 %": quartiles; None for fewer than four times
          ``min_rows`` numbers.
        - "values": for columns that are no numbers, how many different values there
          are, rounded up to 1, 2, 5, 10, 20, 50 and so on where not all are told.
    total : dict of lists
        The same for all nodes together, with the number of "nodes" that have the
        column in place of "node", and without "values". Means, deviations and quartiles
        are over the nodes that have a mean.
    categories : dict of lists
        For each "column", "node" and "category" the number of "rows". The node is None
        for all nodes together. The category is None for rows of all other values, which
        are too rare to be told; at each node they count as ``min_rows`` rows at least.
    quartiles : dict of lists
        For each "column", "node" and "quartile" the numbers between which it lies:
        "lower" and "upper", or None where nothing bounds it. The node is None for all
        nodes together.
    notes : tuple of str
        What should be looked at before a model is made: columns that some nodes lack,
        that hold texts at some nodes and numbers at others, or that identify rows.
    min_rows : dict of str to int
        The bound under which each node answered.
    """

    by_node: Mapping[str, list]
    total: Mapping[str, list]
    categories: Mapping[str, list]
    quartiles: Mapping[str, list]
    notes: tuple[str, ...]
    min_rows: Mapping[str, int]

    def table_one(self) -> TableOne:
        """Return the first table of a study, with a column for each node.

        Numbers have mean, standard deviation and quartiles, which are known to lie
        between two numbers. Categories have counts and shares. The largest standardized
        difference between two nodes stands beside each column.

        Returns
        -------
        table : TableOne
            It prints as a table, and has ``to_csv`` and ``to_frame``.
        """
        names = dict.fromkeys(self.total["column"])
        in_order = [name for name in (CLASSES, *names) if name in names]
        nodes = list(self.min_rows)
        columns = {
            name: _columns_of_nodes(self, name) for name in dict.fromkeys(in_order)
        }
        return TableOne(
            nodes=nodes,
            rows=table_one_rows(columns, nodes),
            notes=(*_notes_of_table(self), *self.notes),
        )

    def __str__(self) -> str:
        bounds = sorted(set(self.min_rows.values()))
        lines = [
            f"Nodes: {listed(map(repr, self.min_rows))}.",
            "Every number is about at least "
            f"{' or '.join(map(str, bounds))} rows of a node (min_rows).",
            "If fewer rows have gaps or rare values, they are shown as that many.",
            "",
            *_lines_of_table(_printed_rows(self.by_node, self.total)),
        ]
        categories = _printed_categories(self.categories)
        if len(categories) > 1:
            lines += ["", *_lines_of_table(categories)]
        if self.notes:
            lines += ["", *(f"Note: {note}" for note in self.notes)]
        return "\n".join(map(printable, lines))

    def _page(self) -> Page:
        bounds = sorted(set(self.min_rows.values()))
        paragraph = (
            f"Nodes: {listed(map(repr, self.min_rows))}. Every number is about at "
            f"least {' or '.join(map(str, bounds))} rows of a node (min_rows). If "
            "fewer rows have gaps or rare values, they are shown as that many."
        )
        parts: list[Paragraph | Table | Points] = [Paragraph(text=paragraph)]
        for rows in (
            _printed_rows(self.by_node, self.total),
            _printed_categories(self.categories),
        ):
            if len(rows) > 1:
                parts.append(Table(heads=rows[0], rows=rows[1:]))
        if self.notes:
            parts.append(Points(heading="Notes", sentences=self.notes))
        return Page(title="", parts=parts)


def _columns_of_nodes(
    description: Description, name: str
) -> dict[str | None, ColumnOfNode]:
    """Return what is known of a column at each node; None stands for all nodes."""
    columns: dict[str | None, ColumnOfNode] = {}
    for table, nodes in (
        (description.by_node, description.by_node["node"]),
        (description.total, [None] * len(description.total["column"])),
    ):
        for k, node in enumerate(nodes):
            if table["column"][k] == name:
                columns[node] = ColumnOfNode(
                    n_rows=table["rows"][k],
                    gaps=table["gaps"][k],
                    mean=table["mean"][k],
                    std=table["std"][k],
                    quartiles=_bounds_of(description, name, node),
                    counts=_counts_of(description, name, node),
                    kind=table["kind"][k],
                )
    return columns


def _bounds_of(
    description: Description, name: str, node: str | None
) -> list[tuple[float | None, float | None]] | None:
    rows = zip(*description.quartiles.values(), strict=True)
    bounds = [
        (lower, upper)
        for column, of_node, _, lower, upper in rows
        if (column, of_node) == (name, node)
    ]
    return bounds or None


def _counts_of(description: Description, name: str, node: str | None) -> dict:
    rows = zip(*description.categories.values(), strict=True)
    return {
        category: n
        for column, of_node, category, n in rows
        if (column, of_node) == (name, node)
    }


def _notes_of_table(description: Description) -> list[str]:
    """Say what numbers of the table are."""
    least = " or ".join(map(str, sorted(set(description.min_rows.values()))))
    notes = [
        "n (%): number of rows, and percent of the rows whose value is known.",
        "median, quartiles: numbers between which they lie, which are means of rows.",
        "SMD: largest standardized difference between two nodes. It is inf where they "
        "share no category, or have each one number only, which is another.",
    ]
    if least != "1":
        notes.append(
            f"Every number is about at least {least} rows of a node (min_rows). Fewer "
            "gaps or rare values are shown as that many."
        )
    return notes


def describe(
    X=None, y=None, nodes=None, *, summaries=None, disclosure="auto"
) -> Description:
    """Describe what the columns of all nodes hold, by node and over all.

    It is what to look at before any model. It takes one message, in which nodes send
    numbers of rows and sums over at least as many rows as `disclosure`
    asks for (its ``min_rows``).

    Parameters
    ----------
    X : {array-like, DataFrame, sparse matrix} of shape (n_samples, n_features), \
default=None
        Rows of all nodes, in a simulation. Columns may hold anything. With summaries or
        a channel there are none.
    y : array-like of shape (n_samples,), default=None
        Labels of the rows. If given, the rows of each class are counted.
    nodes : array-like of shape (n_samples,), default=None
        Index or name of the node that owns each row. Rows of -1 or "public" are left
        out. None means that all rows belong to one node.
    summaries : list, or channel to nodes, default=None
        What the nodes made with :func:`survey`, or paths of the files, or a channel to
        the nodes such as :class:`~skgems.asking.Nodes`.
    disclosure : Disclosure, "auto" or None, default="auto"
        The rule for what is told of the rows, for `X`: any number is about at least its
        ``min_rows`` rows. Nodes that are elsewhere have rules of their own.

    Returns
    -------
    description : Description
        The description; print it to read it.

    Raises
    ------
    ValueError
        If there are neither rows nor summaries, or a summary is not as it should be;
        the text names the node.

    See Also
    --------
    survey : The node's side, for files.

    Notes
    -----
    Means and standard deviations are those of all rows at one place, to rounding, if no
    node has gaps that are too few to be told. Where the rule lowers a weight or
    replaces a value, all rows of the node have weights of 0.7 to 1. Rows of classes
    with too few rows are in no mean. A quartile lies within the means of two
    neighboring groups of rows. Smallest and largest values are values of single rows,
    and are not told.

    Examples
    --------
    >>> from skgems import describe
    >>> from skgems.datasets import load_penguins
    >>> birds, species, islands = load_penguins(as_frame=True)
    >>> description = describe(birds, species, islands)
    >>> description.total["column"]
    ['bill_length_mm', 'bill_depth_mm', 'flipper_length_mm', 'body_mass_g', 'sex', \
'(classes)']
    >>> [f"{mean:.0f}" for mean in description.total["mean"][:4]]
    ['44', '17', '201', '4199']
    """
    if X is not None:
        replies = _replies_of_rows(X, y, nodes, disclosure=disclosure)
    elif is_channel(summaries):
        replies = _replies_of_channel(summaries)
    else:
        replies = _replies_of_summaries(summaries or ())
    if not replies:
        raise ValueError(
            "There are no rows and no summaries. Pass X, or summaries that nodes made "
            "with survey."
        )
    return _description(replies)


def survey(X, y=None, *, name, disclosure="auto") -> Message:
    """Make all that a node sends for a description. It is called at the node.

    Parameters
    ----------
    X : {array-like, DataFrame, sparse matrix} of shape (n_samples, n_features)
        Rows of the node. They do not leave it. Leave out columns whose frequent values
        nobody may know.
    y : array-like of shape (n_samples,), default=None
        Labels of the rows. If given, the rows of each class are counted.
    name : str
        Name of the node.
    disclosure : Disclosure, "auto" or None, default="auto"
        The rule for what is told of the rows: any number is about at least its
        ``min_rows`` rows. Increase these for stricter privacy.

    Returns
    -------
    summary : Message
        The summary to send. Save it to a file with ``summary.save(path)``.

    Raises
    ------
    TooFewRowsError
        If the node has fewer rows than `disclosure` asks for. This is a ValueError.

    See Also
    --------
    describe : Describes what all nodes hold together.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems import describe, survey
    >>> ages = np.arange(60.0, 100.0) // 2
    >>> sent = [survey(ages.reshape(-1, 1) + 4 * k, name=f"clinic {k}") for k in (0, 1)]
    >>> description = describe(summaries=sent)
    >>> description.by_node["mean"], description.total["mean"]
    ([39.5, 43.5], [41.5])
    """
    request = Message.of("survey")
    warn_of_written_numbers(X)
    reply = reply_as_message(request, _member(name, X, y, disclosure=disclosure))
    return reply.with_envelope(node=name, to=request.digest)


# ---- replies -------------------------------------------------------------------------


def _member(name: str, X: Any, y: ArrayLike | None, *, disclosure: object) -> Member:
    """A node's table, and its labels if there are any."""
    if y is not None:
        y = column_or_1d(y)
        check_consistent_length(X, y)
        check_no_label_missing_at(name, y)
    member = ruled_column_member(name, X, y, disclosure=disclosure_of(disclosure))
    return replace(member, y=y)


def _survey_plan() -> Generator[Message, Any, dict[str, SurveyReply]]:
    """Plan whose result is what each node replied, by its name."""
    replies = yield Message.of("survey")
    return dict(replies)


def _replies_of_rows(
    X: Any, y: ArrayLike | None, nodes: ArrayLike | None, *, disclosure: object
) -> dict[str, SurveyReply]:
    X = as_rows(X)
    warn_of_written_numbers(X)
    y = None if y is None else column_or_1d(y)
    members = [
        _member(
            name,
            safe_indexing(X, rows),
            None if y is None else y[rows],
            disclosure=disclosure,
        )
        for name, rows in owners_of(nodes, X).items()
    ]
    return Run(InProcess(members))(_survey_plan())


def _replies_of_channel(channel: object) -> dict[str, SurveyReply]:
    channel = as_channel(channel)
    agreement = channel.agreement or Agreement.of_terms(
        DescriptionTerms(), disclosure=channel.disclosure
    )
    context = Context.from_channel(channel, agreement=agreement)
    return Run(channel, context=context)(_survey_plan())


def _replies_of_summaries(summaries: Iterable) -> dict[str, SurveyReply]:
    """Read and check surveys in memory or files; return their replies by node."""
    request = Message.of("survey")
    replies: dict[str, SurveyReply] = {}
    for k, summary in enumerate(summaries):
        message = load_message(summary) if is_path(summary) else summary
        where = os.fspath(summary) if is_path(summary) else f"summaries[{k}]"
        if not isinstance(message, Message) or message.task != "survey":
            raise TypeError(
                f"{where} is no survey. Give the return value of survey(), or the path "
                "of its file."
            )
        name = str(message.envelope.get("node", k))
        if name in replies:
            raise ValueError(
                f"There are two surveys of node {name!r}, the second is {where}. Give "
                "one for each node."
            )
        try:
            check_reply_of(name, request, message)
        except ValueError as error:
            raise ValueError(
                f"{where}, the survey of node {name!r}, is wrong: {error} Have the "
                "node make it again."
            ) from None
        replies[name] = reply_in(message)
    return replies


# ---- tables --------------------------------------------------------------------------


def _description(replies: Mapping[str, SurveyReply]) -> Description:
    """Return the tables of replies of nodes, by name of the node."""
    by_column = _told_by_column(replies)
    n_rows = {node: reply.n_rows for node, reply in replies.items()}
    quartiles: list[tuple] = []
    rows_by_node = []
    rows_of_total = []
    categories: list[tuple] = []
    for column, told_by_node in by_column.items():
        for node, told in told_by_node.items():
            figures = _figures({node: told}, n_rows)
            rows_by_node.append({"column": column, "node": node, **figures})
            rows_by_node[-1]["values"] = told.get("n_values")
            quartiles += _quartile_rows(column, node, [told])
        total = {"column": column, "nodes": len(told_by_node)}
        rows_of_total.append(total | _figures(told_by_node, n_rows))
        quartiles += _quartile_rows(column, None, list(told_by_node.values()))
        categories += _category_rows(column, told_by_node)
    names = ("column", "node", "category", "rows")
    return Description(
        by_node=_table(rows_by_node),
        total=_table(rows_of_total),
        categories={
            name: [row[k] for row in categories] for k, name in enumerate(names)
        },
        quartiles={
            name: [row[k] for row in quartiles]
            for k, name in enumerate(("column", "node", "quartile", "lower", "upper"))
        },
        notes=tuple(_notes(by_column, list(replies))),
        min_rows={node: reply.min_rows for node, reply in replies.items()},
    )


def _told_by_column(
    replies: Mapping[str, SurveyReply],
) -> dict[str, dict[str, Mapping]]:
    """Group the nodes' surveys by the name of the column, then of the node."""
    by_column: dict[str, dict[str, Mapping]] = {}
    for node, reply in replies.items():
        told = reply.columns.values()
        for column, told_of_column in zip(reply.names, told, strict=True):
            by_column.setdefault(column, {})[node] = told_of_column
    for node, reply in replies.items():
        if reply.classes is not None:
            by_column.setdefault(CLASSES, {})[node] = reply.classes
    return by_column


def _table(rows: Sequence[Mapping]) -> dict[str, list]:
    return {name: [row[name] for row in rows] for name in rows[0]} if rows else {}


def _figures(told_by_node: Mapping[str, Mapping], n_rows: Mapping[str, int]) -> dict:
    """Kind, rows, gaps, and the figures of numbers, of the nodes together."""
    kinds = _kinds(told_by_node)
    n_all = sum(n_rows[node] for node in told_by_node)
    n_known = sum(told["known"] for told in told_by_node.values())
    figures = {
        "kind": " or ".join(kinds),
        "rows": n_all,
        "gaps": n_all - n_known,
        **dict.fromkeys(("mean", "std", *_QUARTILES)),
    }
    told_numbers = [told for told in told_by_node.values() if has_all_numbers(told)]
    if told_numbers:
        figures |= _figures_of_numbers(told_numbers)
    return figures


def _kinds(told_by_node: Mapping[str, Mapping]) -> list[str]:
    """The kinds that a column has at nodes that know values; the commonest first."""
    kinds = Counter(told["kind"] for told in told_by_node.values() if told["known"])
    # Where nobody knows a value, the column is of numbers as an empty column is.
    return [kind for kind, _ in kinds.most_common()] or [NUMBER_COLUMN]


def _figures_of_numbers(told: Sequence[Mapping]) -> dict:
    moments = np.array([moments_told(part) for part in told])  # (n_nodes, 3)
    counts, means, variances = moments.T
    mean = float(np.average(means, weights=counts))
    variance = np.average(variances + (means - mean) ** 2, weights=counts)
    figures = {"mean": mean, "std": float(np.sqrt(variance))}
    if _have_quartiles(told):
        quartiles = quantiles(
            [distribution_told(part) for part in told], list(_QUARTILES.values())
        )
        figures |= dict(zip(_QUARTILES, quartiles.tolist(), strict=True))
    return figures


def _quartile_rows(
    column: str, node: str | None, told: Sequence[Mapping]
) -> list[tuple]:
    """Rows of the table of quartiles: those that `_figures_of_numbers` has, too."""
    told_numbers = [part for part in told if has_all_numbers(part)]
    if not _have_quartiles(told_numbers):
        return []
    bounds = quantile_bounds(told_numbers, list(_QUARTILES.values()))
    return [
        (column, node, name, _finite(lower), _finite(upper))
        for name, (lower, upper) in zip(_QUARTILES, bounds, strict=True)
    ]


def _finite(bound: float) -> float | None:
    return bound if np.isfinite(bound) else None


def _have_quartiles(told: Sequence[Mapping]) -> bool:
    """Report whether there are enough groups of numbers for quartiles."""
    n_groups = sum(len(part.get("means", ())) for part in told)
    is_counted = any("means" not in part for part in told)
    return is_counted or n_groups > len(_QUARTILES)


def _category_rows(column: str, told_by_node: Mapping[str, Mapping]) -> list[tuple]:
    """Rows of the table of categories: those of all nodes, then those of each."""
    if not any(told.get("labels") for told in told_by_node.values()):
        return []
    total: Counter = Counter()
    rows = []
    for node, told in told_by_node.items():
        if "labels" not in told:
            continue
        counts = dict(zip(told["labels"], told["counts"].tolist(), strict=True))
        n_others = told["known"] - sum(counts.values())
        if n_others:
            counts[None] = n_others
        total.update(counts)
        rows += [(column, node, label, n) for label, n in counts.items()]
    # The most frequent first, and others last.
    in_order = sorted(total.items(), key=lambda pair: (pair[0] is None, -pair[1]))
    return [(column, None, label, n) for label, n in in_order] + rows


def _notes(
    by_column: Mapping[str, Mapping[str, Mapping]], nodes: Sequence[str]
) -> list[str]:
    """List what people should look at before they make a model."""
    notes = []
    for column, told_by_node in by_column.items():
        lacking = [node for node in nodes if node not in told_by_node]
        if lacking:
            notes.append(
                f"Column {column!r} is missing at the nodes "
                f"{listed(map(repr, lacking))}."
            )
        kinds = _kinds(told_by_node)
        if len(kinds) > 1:
            notes.append(
                f"Column {column!r} holds {' or '.join(kinds)}, depending on the node. "
                "Have all nodes write it alike."
            )
        if IDENTIFIERS in kinds:
            notes.append(
                f"Column {column!r} identifies rows, as the number of a patient does. "
                "Leave it out of all tables before you fit a model."
            )
    return notes


# ---- what is printed -----------------------------------------------------------------


def _printed_rows(by_node: Mapping[str, list], total: Mapping[str, list]) -> list[list]:
    """A head and cells: for each column all nodes together, then each node."""
    figures = ("kind", "rows", "gaps", "mean", "std", *_QUARTILES, "values")
    lines_by_column: dict[str, list[list]] = {}
    for k, column in enumerate(total["column"]):
        cells = [_cell(total[name][k]) for name in figures[:-1]]
        lines_by_column[column] = [[column, "all", *cells, ""]]
    for k, column in enumerate(by_node["column"]):
        cells = [_cell(by_node[name][k]) for name in figures]
        lines_by_column[column].append(["", by_node["node"][k], *cells])
    return [["column", "node", *figures], *chain(*lines_by_column.values())]


def _printed_categories(categories: Mapping[str, list]) -> list[list]:
    """A head and cells: the counts of a column at a node are one cell."""
    counts: dict[tuple, list[str]] = {}
    for column, node, category, n in zip(*categories.values(), strict=True):
        label = "other values" if category is None else repr(category)
        counts.setdefault((column, node), []).append(f"{label}: {n}")
    lines: list[list] = [["column", "node", "rows of each category"]]
    for (column, node), parts in counts.items():
        is_total = node is None
        lines.append(
            [
                column if is_total else "",
                "all" if is_total else node,
                listed(parts),
            ]
        )
    return lines


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _lines_of_table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in rows
    ]
