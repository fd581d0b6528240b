"""The node's command: a model and a table of rows, and the reply they make."""

import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import joblib
import numpy as np

from ..exchange import answer, inspect, reply_place
from ..federation import Message, ReplyDeclinedError, load_message
from ..messages import listed
from ._server import needed

_TRUTHS = dict.fromkeys(("true", "1", "yes"), True)
_TRUTHS |= dict.fromkeys(("false", "0", "no", ""), False)


def answer_command(args) -> int:
    place = reply_place(args.request, args.to)
    if args.quiet and not args.yes and sys.stdin.isatty():
        raise ValueError("--quiet: nobody sees what would leave; it needs --yes.")
    if place.exists() and not args.yes and not sys.stdin.isatty():
        raise ValueError(f"{place}: it is there already; --yes replaces it.")
    model = None if args.model is None else _model(args.model, args.trust)
    table = rows_of(args.rows, args.label, args.drop, args.held_out, model)
    X, y, held_out = _as_fitted(table[0], model, args), *table[1:]
    try:
        answer(
            args.request,
            model,
            X,
            y,
            name=args.name,
            to=place,
            held_out=held_out,
            min_rows=args.min_rows,
            agreement=args.agreement,
            radii=args.radii,
            state=args.state,
            again=args.again,
            confirm=partial(_confirm, args=args, place=place),
            private_key=args.key,
        )
    except ReplyDeclinedError:
        print("Nothing was written.")
        return 1
    print(f"Written to {place}. Nothing has been sent: that is yours to do.")
    return 0


def _confirm(reply: Message, *, args, place: Path) -> bool:
    """Say in words what is about to be written, and ask whether it may be."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "reply.safetensors"
        reply.save(path)
        inspected = inspect(path, request=args.request)
    print(replace(inspected, path=str(place)).words)
    if args.yes or not sys.stdin.isatty():
        return True
    verb = "Replace" if place.exists() else "Write"
    return input(f"{verb} {place}? [y/N] ").strip().lower() in ("y", "yes")


def _model(path: str, trusted: list[str]):
    kind = Path(path).suffix.lower()
    if not Path(path).is_file():
        raise FileNotFoundError(f"{path}: there is no such file.")
    if kind == ".skops":
        io = needed("skops.io")
        unknown = sorted(set(io.get_untrusted_types(file=path)) - set(trusted))
        if unknown:
            what = "it has types that skops does not know. If you trust them"
            raise ValueError(f"{path}: {what}: --trust {' '.join(unknown)}")
        load = partial(io.load, trusted=trusted)
    elif kind in (".joblib", ".pkl", ".pickle"):
        load = joblib.load
    else:
        raise ValueError(f"{path}: models are in files .joblib, .pkl or .skops.")
    try:
        return load(path)
    except Exception as exc:  # whatever is in a pickle may raise anything
        what = f"{type(exc).__name__}: {exc}"
        raise ValueError(f"{path}: the model cannot be read: {what}") from exc


def rows_of(path: str, label: str, drop, held_out=None, model=None) -> tuple:
    """The other columns of a table, labels, and which rows are held out."""
    roles = [label, *([held_out] if held_out else [])]
    frame = _frame(path, roles)
    for column in [*roles, *drop]:
        if column not in frame.columns:
            known = _listed(frame.columns)
            what = f"there is no column {column!r}; columns are {known}"
            raise ValueError(f"{path}: {what}.")
    y = _labels(_texts(frame[label]), model, path, label)
    marks = _marks(_texts(frame[held_out]), path, held_out) if held_out else None
    return frame.drop(columns=[*roles, *drop]), y, marks


def _as_fitted(features, model, args):
    """Rows in the model's order, or as they are."""
    if "front" in load_message(args.request).content:
        print(f"Columns, which go through transformers: {_listed(features.columns)}.")
        return features
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        print(f"Features, in this order: {_listed(features.columns)}.")
        return _numbers(features, args.rows).to_numpy()
    missing = _listed(name for name in names if name not in features.columns)
    if missing:
        what = "the model has features that are no columns"
        raise ValueError(f"{args.rows}: {what}: {missing}.")
    more = [name for name in features.columns if name not in set(names)]
    if more:
        print(f"Columns that the model does not know, not used: {_listed(more)}.")
    return _numbers(features[list(names)], args.rows)


def _frame(path: str, texts: list[str]):
    pandas = needed("pandas")
    kind = Path(path).suffix.lower()
    if kind == ".csv":
        try:
            frame = _csv(pandas, path, texts)
        except (pandas.errors.ParserError, pandas.errors.EmptyDataError) as exc:
            raise ValueError(f"{path}: it is no table: {exc}") from None
    elif kind == ".parquet":
        try:
            frame = pandas.read_parquet(path)
        except ImportError as exc:
            what = ".parquet needs the package pyarrow: pip install pyarrow"
            raise ImportError(f"{path}: {what}; or give a .csv.") from exc
    else:
        raise ValueError(f"{path}: rows are in files .csv or .parquet.")
    if not len(frame):
        raise ValueError(f"{path}: there are no rows.")
    return frame


def _csv(pandas, path: str, texts: list[str]):
    # Before pandas 3, where this argument is deprecated, the default is not exact.
    exact = {} if pandas.__version__ >= "3" else {"float_precision": "round_trip"}
    frame = pandas.read_csv(path, **exact)
    if len(frame.columns) == 1 and {";", "\t"} & set(frame.columns[0]):
        raise ValueError(f"{path}: its columns are not separated by commas.")
    if not isinstance(frame.index, pandas.RangeIndex):
        # Pandas would take the first column for names of rows, and shift the others.
        raise ValueError(f"{path}: lines have more cells than the first has names.")
    texts = [column for column in texts if column in frame.columns]
    # Labels are texts as they stand there: "NA" and "007" too.
    as_texts = pandas.read_csv(path, usecols=texts, dtype=str, na_filter=False)
    for column in texts:
        frame[column] = as_texts[column]
    return frame


def _texts(column) -> list[str]:
    missing = column.isna()
    return ["" if no else str(value) for value, no in zip(column, missing, strict=True)]


def _labels(texts: list[str], model, path: str, label: str) -> np.ndarray:
    """Labels of the type that the model's have: all are texts in a table."""
    if "" in texts:
        raise ValueError(
            f"{path}: column {label!r} is empty in {texts.count('')} of {len(texts)} "
            f"rows, the first in line {_line(texts.index(''))}. Fill in these labels, "
            "or leave the rows out."
        )
    known = getattr(model, "classes_", None)
    if known is None:  # a net that learns nothing of labels
        numbers = all(text.lstrip("+-").isdecimal() for text in texts)
        read = _whole if numbers else str
    else:
        read = _KINDS.get(type(np.asarray(known).ravel().tolist()[0]), str)
    found = []
    for i, text in enumerate(texts):
        try:
            found.append(read(text))
        except (ValueError, KeyError):
            classes = _listed(np.asarray(known).tolist())
            where = f"{path}: column {label!r} has {text!r} in line {_line(i)}"
            why = f"{where}, but classes of the model are {classes}."
            raise ValueError(why) from None
    return np.array(found)


def _whole(text: str) -> int:
    number = float(text)
    if number != int(number):
        raise ValueError(text)
    return int(number)


def _truth(text: str) -> bool:
    return _TRUTHS[text.strip().lower()]


_KINDS: Mapping[type, Callable] = {int: _whole, float: float, bool: _truth}


def _marks(texts: list[str], path: str, column: str) -> np.ndarray:
    try:
        return np.array([_truth(text) for text in texts])
    except KeyError as exc:
        where = f"{path}: column {column!r} has {exc.args[0]!r}"
        raise ValueError(f"{where}, which is neither true nor false.") from None


def _numbers(features, path: str):
    pandas = needed("pandas")
    numbers = features.apply(pandas.to_numeric, errors="coerce").astype(np.float64)
    missing = numbers.isna()
    wrong = [name for name in numbers.columns if missing[name].any()]
    if wrong:
        first = int(np.flatnonzero(missing[wrong[0]])[0])
        raise ValueError(
            f"{path}: cells are empty or no numbers in the columns {_listed(wrong)}, "
            f"the first in line {_line(first)}. Fill them as the model was trained, "
            "leave these rows out, or --drop columns that are no features."
        )
    return numbers


def _line(row: int) -> int:
    return row + 2  # names are in the first


def _listed(names) -> str:
    return listed(map(repr, names))
