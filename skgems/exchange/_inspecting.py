# SPDX-License-Identifier: BSD-3-Clause
"""What is in a file of an exchange, in words, for whoever is to send it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from inspect import signature
from pathlib import Path

import numpy as np

from ..federation import Message, Summary, check_reply, check_request, load_message
from ..local import TASKS
from ..moments import SHARED
from ._answering import JOIN
from ._methods import method_of, of_settings

# As many labels, or names, are listed.
_MOST_LISTED = 8

_Sentences = Iterator[tuple[str, str]]


@dataclass(frozen=True)
class Inspected:
    """What is in a file; ``str`` of it is a page for people.

    Attributes
    ----------
    path : str
    kind : {"request", "reply", "summary"}
        A summary is the reply to the first request, or what ``summarize`` saved.
    task : str
        What is asked for, or was answered.
    node : str or None
        Name of the node that it is for, or comes from, if the file says so.
    method : str or None
        Aggregator that it is made for, if the file says so.
    settings : dict
        Of the method, if it says so; else of the task. No arrays.
    says : dict of str to str
        For each part of it a sentence: what it says about the rows, or asks for.
    arrays : tuple of dict
        Each with "path", "shape", "dtype" and "bytes".
    n_bytes : int
        Of the whole file.
    checked : bool
        Whether every field was checked. A reply can be only where its request is.

    Examples
    --------
    >>> from skgems.exchange import Inspected
    >>> seen = Inspected("r.safetensors", "request", "score", says={"request": "All."})
    >>> print(seen.words)
    r.safetensors: a request, task 'score'
    0 bytes: a header and 0 arrays
      request
        All.
    """

    path: str
    kind: str
    task: str
    node: str | None = None
    method: str | None = None
    settings: dict = field(default_factory=dict)
    says: dict = field(default_factory=dict)
    arrays: tuple = ()
    n_bytes: int = 0
    checked: bool = True

    @property
    def words(self) -> str:
        """All but settings and arrays."""
        who = ""
        if self.node is not None:
            who = f" {'for' if self.kind == 'request' else 'of'} node {self.node!r}"
        method = "" if self.method is None else f", for {_shown(self.method)}"
        lines = [
            f"{_shown(self.path)}: a {self.kind}{who}{method}, task {self.task!r}",
            f"{self.n_bytes:,} bytes: a header and "
            f"{_counting(len(self.arrays), 'array')}",
        ]
        if not self.checked:
            lines.append("Not checked in full: its request is not here.")
        parts: dict[str, list[str]] = {}
        for part, sentence in self.says.items():
            # Spaces of several scales say the same.
            parts.setdefault(sentence, []).append(part)
        for sentence, named in parts.items():
            lines += [f"  {', '.join(named)}", *_wrapped(sentence)]
        return "\n".join(lines)

    def __str__(self) -> str:
        lines = [self.words]
        if self.settings:
            lines.append("Settings:")
            lines += [f"  {_shown(k)} = {v!r}" for k, v in self.settings.items()]
        if self.arrays:
            lines.append("Arrays:")
        paths = [_shown(array["path"]) for array in self.arrays]
        width = max(map(len, paths), default=0)
        for path, array in zip(paths, self.arrays, strict=True):
            shape = " x ".join(map(str, array["shape"])) or "number"
            lines.append(
                f"  {path:{width}}  {shape:>12}  {array['dtype']:>7}"
                f"  {array['bytes']:>10,} bytes"
            )
        return "\n".join(lines)


def inspect(path, *, request=None) -> Inspected:
    """Say what is in a request, a reply or a summary, before it is sent or answered.

    Parameters
    ----------
    path : str or os.PathLike
        Nobody need trust it.
    request : str or os.PathLike, default=None
        What a reply replies to, by which it is checked. None: looked for where
        :class:`Exchange` and :func:`answer` have it.

    Returns
    -------
    inspected : Inspected

    Raises
    ------
    ValueError
        If it is no file of an exchange, or a field is not what it may be; the message
        names file and field.
    OSError
        If it cannot be read.

    See Also
    --------
    answer : Makes what is to be inspected.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skgems import GEMSLogisticAggregator
    >>> from skgems.exchange import inspect
    >>> X = np.linspace(-1, 1, 40).reshape(-1, 1)
    >>> y = np.where(X[:, 0] > 0.1, "ill", "well")
    >>> agg = GEMSLogisticAggregator(moments="shared", n_components=1, random_state=0)
    >>> summary = agg.summarize(LogisticRegression().fit(X, y), X, y, name="lyon")
    >>> path = Path(tempfile.mkdtemp()) / "lyon.safetensors"
    >>> summary.save(path)
    >>> seen = inspect(path)
    >>> seen.kind, seen.node, seen.method
    ('summary', 'lyon', 'GEMSLogisticAggregator')
    >>> print(seen.says["describe.rows"])
    How many rows of which class there are: 'ill' 18, 'well' 22. The smallest class is
    'ill', of 18 rows.
    """
    message = load_message(path)
    text = os.fspath(path)
    try:
        kind, said, checked = _kind_of(message, Path(path), request)
        found = dict(said(message.content))
    except (KeyError, IndexError, TypeError, AttributeError) as exc:
        raise ValueError(
            f"{text}: its fields are not those of the task {message.task!r:.40}: "
            f"{exc!r}"
        ) from exc
    except ValueError as exc:
        begins = str(exc).startswith(text)
        raise exc if begins else ValueError(f"{text}: {exc}") from exc
    told = message.content
    if kind == "summary":
        node, settings = told["name"], told["settings"]
    else:
        node = message.envelope.get("node")
        own = told.get("settings") if message.task == JOIN else None
        settings = message.settings if own is None else own
    named = kind == "summary" or message.task == JOIN
    return Inspected(
        text,
        kind,
        message.task,
        node,
        told["method"] if named else None,
        dict(settings),
        found,
        tuple(
            {
                "path": name,
                "shape": list(array.shape),
                "dtype": str(array.dtype),
                "bytes": array.nbytes,
            }
            for name, array in sorted(message.arrays.items())
        ),
        Path(path).stat().st_size,
        checked,
    )


def _kind_of(message: Message, path: Path, request) -> tuple:
    """Kind, how to put it in words, and whether it is checked; raises if wrong."""
    if message.task == "summarize":
        Summary(message)
        return "summary", _of_summary, True
    if "to" not in message.envelope:
        _check_request(message)
        return "request", lambda told: _of_request(message.task, told), True
    if message.task not in _SAYS:
        raise ValueError(f"{message.task!r:.40} is no task of an exchange.")
    asked = _request_of(message, path, request)
    if asked is not None:
        check_reply(asked, message)
    says = _SAYS[message.task]
    return "reply", lambda told: says(told, message.task), asked is not None


def _request_of(reply: Message, path: Path, request) -> Message | None:
    """The request that a reply names."""
    places = [
        path.resolve().parent.parent / "requests" / path.name,
        path.with_name(path.name.removeprefix("reply-")),
    ]
    for place in [request] if request is not None else places:
        if Path(place).is_file() and Path(place) != path:
            asked = load_message(place)
            if asked.digest == reply.envelope["to"]:
                return asked
    if request is not None:
        raise ValueError(f"it is no reply to {os.fspath(request)}.")
    return None


def _check_request(message: Message) -> None:
    told = message.content
    if message.task == JOIN:
        if set(told) != {"method", "settings", "tasks"}:
            raise ValueError(f"a first request has no fields {sorted(told)}.")
        method_of(told["method"])
        of_settings(told["method"], told["settings"])
        tasks = told["tasks"]
        if tasks is not None and not set(tasks) <= {"moments", "size", "space"}:
            raise ValueError(f"a first request does not ask for {tasks}.")
    elif message.task not in _SAYS:
        raise ValueError(f"{message.task!r:.40} is no task of an exchange.")
    else:
        signature(TASKS[message.task].function).bind(None, **told)
    # Names are those of the task; what they hold is looked at as answer does.
    check_request(message)


# ---- what a request asks for ---------------------------------------------------

_ASKS = {
    "evaluate": "how good models are on the node's rows, in sums over these",
    "moments": "counts, means and products of features, in sums over the node's rows",
    "neurons": "how far each unit of a layer may change, which takes sums of products "
    "of what enters the layer on the node's rows",
    "retrain": "the layers after training on the node's rows",
    "score": "how good one model is on the node's rows, as one number",
    "size": "how large the logits of the node's own model are, as one number",
    "space": "how far the node's own model may change before it gets worse on the "
    "node's rows, which takes sums of products of features",
    "train": "a shared model after training on the node's rows, and its loss there",
}


def _of_request(task: str, told: Mapping) -> _Sentences:
    if task != JOIN:
        yield "request", f"Asks for {_ASKS[task]}. Run inspect on the reply."
        brought = sum(
            value.size for value in _arrays_in(told) if value.dtype.kind == "f"
        )
        yield "arrays", f"Brings {brought:,} numbers of models, and nothing to run."
        if told.get("others") is not None:
            yield (
                "others",
                f"Among them counts, means and variances of "
                f"{_counting(len(told['others']['counts']), 'cluster')} of other "
                "nodes' rows, from which rows are drawn to train on.",
            )
        return
    yield (
        "request",
        f"Asks for a summary for {told['method']}: the node's model, and how many rows "
        "of which class there are.",
    )
    tasks, settings = told["tasks"], told["settings"]
    # Only methods that tell how moments are made ask for them.
    if tasks != [] and "moments" in settings:
        yield (
            "moments",
            f"Asks for counts, means and products of features by class: kind "
            f"{settings['moments']!r}, {settings['n_components']} clusters a class at "
            f"most, of {settings['min_rows']} rows at least.",
        )
        if tasks is None or "space" in tasks:
            yield (
                "space",
                "May ask for how far the model may change before it gets worse, with "
                f"the geometry {_last(settings['geometry']['name'])} and the "
                f"criterion {_last(settings['criterion']['name'])}.",
            )


def _arrays_in(told) -> Iterator[np.ndarray]:
    if isinstance(told, np.ndarray):
        yield told
    elif isinstance(told, Mapping):
        for value in told.values():
            yield from _arrays_in(value)
    elif isinstance(told, list):
        for value in told:
            yield from _arrays_in(value)


# ---- what a reply says ---------------------------------------------------------


def _of_summary(told: Mapping) -> _Sentences:
    network, rows = told["describe"]["network"], told["describe"]["rows"]
    yield from _of_network(network)
    counts = rows["moments"]
    least = int(np.argmin(counts))
    sentence = (
        "How many rows of which class there are: "
        f"{_listed(_counted(rows['labels'], counts))}. The smallest class is "
        f"{rows['labels'][least]!r}, of {_rows(counts[least])}."
    )
    if not np.array_equal(rows["judging"], rows["training"]):
        judging, training = rows["judging"].sum(), rows["training"].sum()
        sentence += f" {_rows(judging)} judge models, {training} train."
    yield "describe.rows", sentence
    counted = told["counts"]
    yield (
        "counts",
        "How many rows of each class the node may train on: "
        f"{_listed(_counted(counted['labels'], counted['counts']))}.",
    )
    for number, answer in told["answers"].items():
        given = {"geometry": answer["asked"].get("geometry")}
        given = given if answer["task"] == "space" else {}
        where = f"answers.{number}"
        yield from _SAYS[answer["task"]](answer["told"], where, **given)


def _of_network(network: Mapping) -> _Sentences:
    layers = network["coefs"]
    size = sum(a.size for a in [*layers, *network["intercepts"]])
    seen = [
        label
        for label, known in zip(network["labels"], network["seen"], strict=True)
        if known
    ]
    yield (
        "describe.network",
        f"The model: {size:,} numbers in {_counting(len(layers), 'layer')}, of "
        f"{network['n_features']} features, for the classes "
        f"{_listed(map(repr, seen))}. It says as much about the rows as any model that "
        "is trained on them.",
    )
    if network["feature_names"] is not None:
        names = _listed(map(repr, network["feature_names"]))
        yield "describe.network.feature_names", f"Names of the features: {names}."
    if "center" in network:
        yield (
            "describe.network.center",
            "Centre and scale of each feature, as steps before the model have them: "
            "of a StandardScaler mean and deviation of the rows it was fitted on.",
        )


def _of_moments(told: Mapping, where: str) -> _Sentences:
    sums, labels = told["moments"], told["labels"]
    where += ".moments" if where.startswith("answers") else ""
    counts, columns = sums["counts"], sums["columns"]
    n_features, n_parts = len(sums["origin"]), len(counts)
    least = int(np.argmin(counts))
    smallest = f"class {labels[columns[least]]!r}, has {_rows(counts[least])}"
    n_told = len(np.unique(columns))
    if n_parts > n_told:
        sentence = (
            f"Means of {n_features} features in {n_parts} clusters of rows, in "
            f"{_counting(n_told, 'class', 'classes')}. The smallest cluster, of "
            f"{smallest}."
        )
    else:
        sentence = (
            f"Means of {n_features} features in each of "
            f"{_counting(n_told, 'class', 'classes')}. The smallest, {smallest}."
        )
    single = int(np.sum(counts <= 1))
    if single:
        sentence += (
            f" {_counting(single, 'mean')} {'is' if single == 1 else 'are'} of one row "
            "alone, and so tells that row as it is."
        )
    else:
        sentence += " The fewer rows a mean is of, the nearer it is to each of them."
    few = [repr(label) for i, label in enumerate(labels) if i not in columns]
    if few:
        sentence += (
            f" None is told of classes of too few rows, by name: {_listed(few)}."
        )
    yield f"{where}.means", sentence
    yield _of_scatter(sums, labels, where)
    for name in sorted({"squares", "spreads"} & set(sums)):
        yield (
            f"{where}.{name}",
            "Variances of single features about these means, for each class.",
        )
    yield from _of_digits(sums, where)
    if sums["origin"].any():
        n_rows = sums["group_counts"].sum()
        yield (
            f"{where}.origin",
            "The place that means are told from: of each feature the median of 25 rows "
            "at most, so next to a value that a row has, or exactly that"
            + ("; of 8 rows or fewer it may be one of them." if n_rows <= 8 else "."),
        )
    if "gradient" in told:
        yield (
            f"{where.removesuffix('.moments')}.gradient",
            "The gradient of the model's loss: a sum of rows, each weighted by what "
            "the model has wrong there. Of a single row it is that row.",
        )
    form = told["form"]
    if "kind" in form:
        yield (
            f"{where.removesuffix('.moments')}.form",
            f"Kind and parameters of the classifier ({form['kind']}); nothing of rows.",
        )


def _of_scatter(sums: Mapping, labels: list, where: str) -> tuple[str, str]:
    groups, sizes = sums["groups"], sums["group_counts"]
    named = ["all classes" if g == SHARED else repr(labels[g]) for g in groups]
    least = int(np.argmin(sizes))
    of_classes = groups != SHARED
    diagonal = not {"triangles", "correlations", "factors"} & set(sums)
    what = (
        "Variances of single features, and nothing of how features go together,"
        if diagonal
        else "Variances of features, and covariances of all pairs of them,"
    )
    if not of_classes.any():
        return (
            f"{where}.scatter",
            f"{what} about these means, of all classes together ("
            f"{'diagonal' if diagonal else 'shared'} moments), of "
            f"{_rows(sizes.sum())}.",
        )
    sentence = (
        f"{what} about these means, for each of "
        f"{_counting(int(of_classes.sum()), 'class', 'classes')} "
        f"({'diagonal' if diagonal else 'class'} moments). The fewest rows are those "
        f"of {named[least]}: {_rows(sizes[least])}."
    )
    if not of_classes.all():
        sentence += " Classes of too few rows are in one more for all of them."
    if sizes[least] <= 2:
        sentence += " Of two rows or fewer these and the means tell the rows."
    return f"{where}.scatter", sentence


def _of_digits(sums: Mapping, where: str) -> _Sentences:
    if "deviations" not in sums:
        return
    sentence = f"Means and products are told with the digits of {sums['means'].dtype}"
    if "factors" in sums:
        _, n_features, rank = sums["factors"].shape
        sentence += f", matrices with a rank of {rank} instead of {n_features}"
    yield f"{where}.deviations", f"{sentence}: the same, less exactly."


def _of_size(told: Mapping, where: str) -> _Sentences:
    yield where, "How large the model's logits are, one number: nearly nothing of rows."


def _of_space(told: Mapping, where: str, geometry=None) -> _Sentences:
    n_rows, score = int(told["radii_n_rows"]), float(told["radii_score"])
    n_params, n_outputs = told["center"].shape
    yield (
        f"{where}.center",
        f"The model once more: {n_params} x {n_outputs} numbers, and how good it is on "
        f"{_rows(n_rows)} (score {score:.3g}).",
    )
    if told["family"] == "gram":
        yield (
            f"{where}.metric",
            "Shape of the space (gram): mean and covariance of the "
            f"{n_params - 1} features, of all rows together, not by class.",
        )
    elif np.all(told["metric_precision"] == told["metric_precision"].flat[0]):
        yield f"{where}.metric", "Shape of the space: round, which tells no rows."
    else:
        name = "" if geometry is None else f" ({_last(geometry['name'])})"
        yield (
            f"{where}.metric",
            f"Shape of the space{name}: of each weight how much it matters, a mean "
            "over all rows of squares of its feature where the model is unsure.",
        )
    if "radii_radii" in told:
        yield (
            f"{where}.radii",
            f"How far the model may change before it loses a row: "
            f"{len(told['radii_radii'])} distances, each of one row, but not of which.",
        )
    else:
        yield (
            f"{where}.radii",
            f"How the mean log-loss grows with the change, at "
            f"{len(told['radii_knots'])} distances: nothing of single rows.",
        )


def _of_neurons(told: Mapping, where: str) -> _Sentences:
    n_params, n_units = told["centers"].shape
    if told["precision"].ndim == 2:
        sentence = f"Mean and covariance of the {n_params - 1} numbers that enter"
    else:
        sentence = f"How much matters each of the {n_params - 1} numbers that enter"
    yield (
        f"{where}.precision",
        f"{sentence} the layer, not by class; in the first layer these are the "
        "features themselves.",
    )
    yield (
        f"{where}.sizes",
        f"How strongly each of {_counting(n_units, 'unit')} answers on average, and "
        "how far it may change.",
    )
    yield f"{where}.centers", "The weights of the units, which the model has told."


def _of_retrained(told: Mapping, where: str) -> _Sentences:
    size = sum(a.size for a in [*told["coefs"], *told["intercepts"]])
    yield where, f"The layers after training: {size:,} numbers. {_AS_A_MODEL}"
    if "loss" in told:
        loss = float(told["loss"])
        yield f"{where}.loss", f"Mean log-loss on the rows before: {loss:.4g}."


def _of_trained(told: Mapping, where: str) -> _Sentences:
    size = sum(a.size for a in told["parameters"])
    yield (
        f"{where}.parameters",
        f"The model after training on the rows: {size:,} numbers. {_AS_A_MODEL}",
    )
    yield f"{where}.loss", f"Its mean log-loss on the rows: {float(told['loss']):.4g}."


_AS_A_MODEL = (
    "They say as much about the rows as any model that is trained on them; with as "
    "many numbers as there are rows perhaps single rows."
)


def _of_evaluated(told: Mapping, where: str) -> _Sentences:
    n_models = np.size(told["right"])
    yield (
        f"{where}.sums",
        f"Sums over {_rows(told['count'])} for {_counting(n_models, 'model')}: how "
        "many are right, their losses, the squares of their logits. Of a single row "
        "they are its own.",
    )
    if "gradient" in told:
        yield (
            f"{where}.gradient",
            f"The gradient of the loss of {_counting(n_models, 'model')}: a sum of "
            "rows, each weighted by what the model has wrong there. Of a single row "
            "it is that row.",
        )
    if "held_out" in told:
        yield (
            f"{where}.held_out",
            f"The same sums over {_rows(told['held_out']['count'])} that are held out.",
        )


def _of_scored(told: Mapping, where: str) -> _Sentences:
    n_rows = int(told["n_rows"])
    score = f": {float(told['score']):.4g}" if n_rows else ""
    yield where, f"An accuracy or a mean loss, of {_rows(n_rows)}{score}."


_SAYS = {
    "evaluate": _of_evaluated,
    "moments": _of_moments,
    "neurons": _of_neurons,
    "retrain": _of_retrained,
    "score": _of_scored,
    "size": _of_size,
    "space": _of_space,
    "train": _of_trained,
}


# ---- words ---------------------------------------------------------------------


def _rows(n) -> str:
    return _counting(f"{float(n):g}" if n < 1e6 else f"{int(n)}", "row")


def _counting(n, one: str, many: str | None = None) -> str:
    return f"{n} {one if str(n) == '1' else many or one + 's'}"


def _counted(labels, counts) -> list[str]:
    return [f"{label!r} {int(n)}" for label, n in zip(labels, counts, strict=True)]


def _listed(words) -> str:
    words = list(words)
    more = len(words) - _MOST_LISTED
    shown = ", ".join(words[:_MOST_LISTED])
    return f"{shown} and {more} more" if more > 0 else shown


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _shown(text: str) -> str:
    # A file of anybody must not steer the terminal.
    return text if text.isprintable() else repr(text)


def _wrapped(text: str) -> list[str]:
    from textwrap import wrap

    lines = wrap(text, 80, break_long_words=False, break_on_hyphens=False)
    return [f"    {line}" for line in lines]
