"""The node's command: a model and a table of rows, and the reply they make."""

import argparse
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import joblib
import numpy as np
from sklearn.base import BaseEstimator

from ..base import warn_user
from ..guard import ReplyDeclinedError, answer, inspect, reply_place
from ..messages import TASKS, Limits, Message, listed
from ..parties import load_message
from ..private import Privacy, privacy_asked
from ..steps import (
    Columns,
    ColumnsError,
    Front,
    are_codes,
    code_as_text,
    public_front,
)
from ._dialects import dialect_of
from ._files import UntrustedTypesError, composed, load_skops, needed
from ._tables import Table, is_text, read_table, warn_of_texts

if TYPE_CHECKING:
    from pandas import DataFrame

# How a table may say whether a row is held out.
_TRUTHS = {
    "true": True,
    "1": True,
    "yes": True,
    "false": False,
    "0": False,
    "no": False,
    "": False,
}


def answer_command(args: argparse.Namespace) -> int:
    """Answer a request from a table of rows, and write the reply."""
    place = reply_place(args.request, args.to)
    check_consent(place, args)
    model = None if args.model is None else _model(args.model, args.trust)
    request = load_message(args.request)
    rows = _rows(request, model, args)
    try:
        answer(
            args.request,
            model,
            rows.X,
            rows.y,
            name=args.name,
            to=place,
            held_out=rows.held_out,
            groups=rows.groups,
            sample_weight=rows.weights,
            disclosure=args.disclosure,
            agreement=args.agreement,
            radii=args.radii,
            state=args.state,
            again=args.again,
            limits=limits_of(args.limits),
            confirm=partial(confirm, args=args, place=place),
            private_key=args.key,
        )
    except ReplyDeclinedError:
        print("Nothing was written.")
        return 1
    except ColumnsError as exc:
        raise ValueError(f"{args.rows}: node {args.name!r}: {exc}") from None
    if TASKS[request.task].fits_front:
        _warn_of_front(request, rows.X, args)
    if place.resolve().parent.name == "replies":
        print(
            f"Written to {place}. If the server shares this folder, it reads the file "
            "there. Otherwise send the file to the server yourself."
        )
    else:
        say_written(place)
    return 0


def limits_of(words: Sequence[str]) -> Limits:
    """The limits of NAME=NUMBER, as they were typed; ValueError for others."""
    limits = {}
    for word in words:
        name, _, text = word.partition("=")
        limit = Limits.__dataclass_fields__.get(name)
        try:
            limits[name] = limit.type(text)
        except (AttributeError, ValueError):
            raise ValueError(
                f"--limit {word!r}: write NAME=NUMBER, such as epochs=5000. The limits "
                f"are {', '.join(Limits.__dataclass_fields__)}."
            ) from None
    return Limits(**limits)


def check_consent(place: Path, args: argparse.Namespace) -> None:
    """ValueError where nobody could be asked who has to be."""
    if args.quiet and not args.yes and sys.stdin.isatty():
        raise ValueError(
            "--quiet hides what would be sent, so that nobody could agree to it. Add "
            "--yes."
        )
    if place.exists() and not args.yes and not sys.stdin.isatty():
        raise ValueError(f"{place}: this file exists already. Add --yes to replace it.")


def say_written(place: Path) -> None:
    """Say where a file is, and that its owner has to send it."""
    print(
        f"Written to {place}. Nothing has been sent: send this file to the server "
        "yourself."
    )


def confirm(reply: Message, *, args: argparse.Namespace, place: Path) -> bool:
    """Say in words what is about to be written, and ask whether it may be."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "reply.safetensors"
        reply.save(path)
        inspected = inspect(path, request=args.request)
    overview = dict(inspected.overview)
    if args.key:
        overview["signature"] = f"the file will be signed with the key {args.key}."
    print(replace(inspected, path=str(place), overview=overview).words)
    if args.yes or not sys.stdin.isatty():
        return True
    verb = "Replace" if place.exists() else "Write"
    return input(f"{verb} {place}? [y/N] ").strip().lower() in ("y", "yes")


def _model(path: str, trusted: list[str]) -> BaseEstimator:
    """The fitted classifier in a file; ValueError, with the file, if it is none."""
    kind = Path(path).suffix.lower()
    if not Path(path).is_file():
        raise FileNotFoundError(f"{path}: there is no such file.")
    if kind == ".skops":
        needed("skops.io")
        load = partial(load_skops, trusted=trusted)
    elif kind in (".joblib", ".pkl", ".pickle"):
        load = joblib.load
    else:
        raise ValueError(f"{path}: models are in files .joblib, .pkl or .skops.")
    try:
        return load(path)
    except UntrustedTypesError as exc:
        raise ValueError(
            f"{path}: it has types that skops does not trust. If you trust them, add "
            f"--trust {' '.join(exc.types)}"
        ) from exc
    except Exception as exc:  # whatever is in a pickle may raise anything
        raise ValueError(
            f"{path}: the model cannot be read: {type(exc).__name__}: {exc}"
        ) from exc


# ---- rows ------------------------------------------------------------------------


class _Rows(NamedTuple):
    """What a node's table says of each row."""

    X: "DataFrame | np.ndarray"  # as the request needs them
    y: np.ndarray
    held_out: np.ndarray | None  # (n_rows,), bool
    groups: np.ndarray | None  # (n_rows,)
    weights: np.ndarray | None  # (n_rows,)


def _rows(
    request: Message, model: BaseEstimator | None, args: argparse.Namespace
) -> _Rows:
    """Return the rows of the table: features, and the columns that options name."""
    privacy = privacy_asked(request)
    if privacy is not None:
        content = request.content.get("front")
        front = None if content is None else public_front(Front.from_content(content))
        return rows_under(privacy, args, front=front)
    names = None
    if not _takes_tables(request):
        names = getattr(model, "feature_names_in_", None)
    roles = (args.label, args.held_out, args.group, args.weights)
    table = read_table(
        args.rows,
        dialect_of(args, args.name),
        as_written=list(filter(None, roles)),
        as_text=args.as_text,
        drop=args.drop,
        only=None if names is None else [composed(name.strip()) for name in names],
    )
    return _Rows(
        y=labels_of([table], args.label, getattr(model, "classes_", None))[0],
        held_out=_marks(table, args.held_out) if args.held_out else None,
        groups=groups_of(table, args.group) if args.group else None,
        weights=_weights(table, args.weights) if args.weights else None,
        X=_features_for(request, model, table),
    )


def rows_under(
    privacy: Privacy, args: argparse.Namespace, *, front: Front | None = None
) -> _Rows:
    """Return the rows of the table that are told of with noise.

    Its columns are those that bounds are agreed of, or that enter the front; cells may
    be empty.
    """
    names = privacy.column_names()
    texts: list[str] = []
    if front is not None:
        columns = front.columns
        names = None if columns.names is None else list(columns.names)
        if names is not None:
            texts = [name for name in names if columns.has_text([name])]
    table = read_table(
        args.rows,
        dialect_of(args, args.name),
        as_written=list(filter(None, (args.label, args.held_out, args.group))),
        as_text=texts,
        drop=args.drop,
        only=names,
    )
    if args.weights:
        raise ValueError(
            "--weights does not go with privacy, under which each row counts once. "
            "Leave it out."
        )
    features = table.frame if names is None else _as_agreed(table, names)
    if front is None:
        _check_no_texts(table)
        features = features.astype(np.float64)
    return _Rows(
        X=features,
        y=labels_of([table], args.label, privacy.sorted_classes())[0],
        held_out=_marks(table, args.held_out) if args.held_out else None,
        groups=groups_of(table, args.group) if args.group else None,
        weights=None,
    )


def _as_agreed(table: Table, names: list[str]) -> "DataFrame":
    """Return the columns that bounds are agreed of, in this order."""
    missing = [name for name in names if name not in table.frame.columns]
    if missing:
        raise ValueError(
            f"{table.path}: columns that are agreed are missing: "
            f"{listed(map(repr, missing))}. Name the columns as they are agreed."
        )
    return table.frame[names]


def _takes_tables(request: Message) -> bool:
    """Report whether a request is about columns as they are, texts and gaps too."""
    return "front" in request.content or TASKS[request.task].is_of_tables


def _features_for(
    request: Message, model: BaseEstimator | None, table: Table
) -> "DataFrame | np.ndarray":
    """Return the features as the request needs them; prints which they are."""
    if _takes_tables(request):
        behind_front = "front" in request.content
        features = _columns_as_written(table, behind_front=behind_front)
        if behind_front:
            _check_codes(table, request)
        return features
    if hasattr(model, "feature_names_in_"):
        return _as_fitted(table, list(model.feature_names_in_))
    return _features(table, has_model=model is not None)


def _columns_as_written(table: Table, *, behind_front: bool) -> "DataFrame":
    """Columns for a front, or to be described; says which they are."""
    columns = listed(map(repr, table.frame.columns))
    purpose = "go through the front" if behind_front else "are described"
    print(f"Columns that {purpose}: {columns}.")
    warn_of_texts([table])
    return table.frame


def _features(table: Table, *, has_model: bool) -> "DataFrame | np.ndarray":
    """Columns of numbers; says which they are."""
    columns = listed(map(repr, table.frame.columns))
    print(f"Features, in this order: {columns}.")
    features = _numbers(table)
    # Without a model the server sees by names whether all nodes have the same columns.
    return features.to_numpy() if has_model else features


def _check_codes(table: Table, request: Message) -> None:
    """ValueError for codes such as 007, which are read as 7 but are texts elsewhere."""
    columns = request.content["front"].get("columns")
    if columns is None:
        return
    agreed = Columns.from_content(columns)
    for name, column in table.frame.items():
        holds_texts = agreed.names is not None and agreed.has_text([name])
        if not holds_texts or is_text(column) or not are_codes(column):
            continue
        cells = table.texts_of([name])[name]
        for row, (cell, number) in enumerate(zip(cells, column, strict=True)):
            if isinstance(cell, str) and cell != code_as_text(number):
                raise ValueError(
                    f"{table.path}: column {name!r} has {cell!r} in "
                    f"{table.place(row)}, which is read as the number "
                    f"{code_as_text(number)}, but other nodes have texts there. Read "
                    f"it as texts with --as-text {name!r} in all answers. If the first "
                    "request was answered without it, the server may have to start a "
                    "new exchange."
                )


def _warn_of_front(
    request: Message, features: "DataFrame", args: argparse.Namespace
) -> None:
    """Warn of texts that the front of a first request, now answered, cannot take."""
    front = Front.from_content(request.content["front"])
    if front.columns is not None:
        return
    columns = Columns.from_table(features)
    try:
        replace(front, columns=columns).check_texts({args.name: columns})
    except ColumnsError as exc:
        warn_user(
            f"{args.rows}: {exc} If other nodes have these columns too, the server "
            "cannot go on and has to start a new exchange."
        )
    except ValueError:  # columns by their places, which stand elsewhere at this node
        return


def _as_fitted(table: Table, names: list[str]) -> "DataFrame":
    """Columns that the model knows, in its order and under its names."""
    stripped = [composed(name.strip()) for name in names]
    missing = [name for name in stripped if name not in table.frame.columns]
    if missing:
        hints = [
            f"{name!r} (there is {column!r})"
            for name in missing
            for column in table.unused
            if column.casefold() == name.casefold()
        ]
        raise ValueError(
            f"{table.path}: features of the model are missing among the columns: "
            f"{listed(hints or map(repr, missing))}. Name the columns as they were "
            "when the model was fitted."
        )
    if table.unused:
        unused = listed(map(repr, table.unused))
        print(f"Columns that the model does not know are not used: {unused}.")
    numbers = _numbers(table)[stripped]
    return numbers.set_axis(names, axis="columns")


def _numbers(table: Table) -> "DataFrame":
    """The frame, all as floats; ValueError names a column that holds anything else."""
    frame = table.frame
    _check_no_texts(table)
    empty = [name for name, column in frame.items() if column.isna().any()]
    if empty:
        row = int(np.flatnonzero(frame[empty[0]].isna())[0])
        raise ValueError(
            f"{table.path}: cells are empty in the columns {listed(map(repr, empty))}, "
            f"the first in {table.place(row)}. Fill them as for the training of the "
            "model, leave these rows out, or leave out columns that are not features "
            "with --drop. Or have all nodes fill them in the same way, with skgems "
            "start --front auto."
        )
    return frame.astype(np.float64)


def _check_no_texts(table: Table) -> None:
    """Raise ValueError, which names it, for a feature that holds texts."""
    texts = [name for name, column in table.frame.items() if is_text(column)]
    if texts:
        first_odd_cell = table.odd_cells.get(texts[0])
        if first_odd_cell is None:
            first_odd_cell = f"{table.first_text(texts[0])} is not a number"
        raise ValueError(
            f"{table.path}: the columns {listed(map(repr, texts))} hold texts, but the "
            f"model takes numbers: {first_odd_cell}. If such a cell has no value, name "
            "its text with --na. Leave columns that are not features out with --drop. "
            "Or have all nodes encode texts in the same way, with skgems start --front "
            "auto."
        )


# ---- labels and marks ------------------------------------------------------------


def labels_of(tables: Sequence[Table], label: str, classes=None) -> list[np.ndarray]:
    """Labels of each table, of the type of a model's classes, or of one that suits all.

    Without classes they are numbers if those of all tables are whole numbers.
    """
    label = label.strip()
    for table in tables:
        _check_no_gap(table, label)
    if classes is not None:
        listed_classes = np.asarray(classes).ravel().tolist()
        return [_as_classes(table, label, listed_classes) for table in tables]
    labels = [table.as_written[label] for table in tables]
    if all(text.lstrip("+-").isdecimal() for texts in labels for text in texts):
        return [np.array(list(map(int, texts))) for texts in labels]
    return list(map(np.array, labels))


def groups_of(table: Table, column: str) -> np.ndarray:
    """The group of each row, as a text; ValueError where a cell is empty."""
    column = column.strip()
    texts = table.as_written[column]
    gaps = [row for row, text in enumerate(texts) if text in table.missing]
    if gaps:
        raise ValueError(
            f"{table.path}: column {column!r}, which says what rows belong together "
            f"(--group), is empty in {len(gaps)} of {len(texts)} rows, the first in "
            f"{table.place(gaps[0])}. Fill in these groups, or leave the rows out."
        )
    return np.array(texts)


def _check_no_gap(table: Table, label: str) -> None:
    texts = table.as_written[label]
    gaps = [row for row, text in enumerate(texts) if text in table.missing]
    if gaps:
        place = table.place(gaps[0])
        if texts[gaps[0]]:
            place += f", where it has {texts[gaps[0]]!r}"
        raise ValueError(
            f"{table.path}: column {label!r} is empty in {len(gaps)} of {len(texts)} "
            f"rows, the first in {place}. Fill in these labels, or leave the rows out."
        )


def _as_classes(table: Table, label: str, classes: list) -> np.ndarray:
    """The labels of a table as the classes of a model have them."""
    read = _KINDS.get(type(classes[0]))
    by_text = {composed(str(label).strip()): label for label in classes}
    labels = []
    for row, text in enumerate(table.as_written[label]):
        if read is None:  # texts, of which some may be classes that it does not know
            labels.append(by_text.get(text, text))
            continue
        try:
            labels.append(read(text.replace(table.decimal, ".")))
        except (ValueError, KeyError, OverflowError):
            raise ValueError(
                f"{table.path}: column {label!r} has {text!r} in {table.place(row)}, "
                f"but the classes of the model are {listed(map(repr, classes))}. Write "
                "the labels as the model knows them."
            ) from None
    return np.array(labels)


def _whole(text: str) -> int:
    number = float(text)
    if number != int(number):
        raise ValueError(text)
    return int(number)


def _truth(text: str) -> bool:
    return _TRUTHS[text.lower()]


_KINDS: Mapping[type, Callable] = {int: _whole, float: float, bool: _truth}


def _weights(table: Table, column: str) -> np.ndarray:
    """The weights of rows, as the table writes numbers."""
    weights = []
    for row, text in enumerate(table.as_written[column.strip()]):
        try:
            weights.append(float(text.replace(table.decimal, ".")))
        except ValueError:
            raise ValueError(
                f"{table.path}: column {column!r} has {text!r} in {table.place(row)}, "
                "which is no weight. Give each row a number; 0 leaves a row out."
            ) from None
    return np.array(weights)


def _marks(table: Table, column: str) -> np.ndarray:
    texts = table.as_written[column.strip()]
    try:
        return np.array([_truth(text) for text in texts])
    except KeyError as exc:
        raise ValueError(
            f"{table.path}: column {column!r} has {exc.args[0]!r}, which is neither "
            "true nor false."
        ) from None
