"""The front that --front names: the word auto, a file, or steps as they are typed."""

import tomllib
from collections.abc import Mapping
from pathlib import Path

from sklearn.base import TransformerMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline

from ..messages import naming
from ..pooled import PooledTransformer
from ..steps import (
    ColumnsOf,
    auto_front,
    check_tree,
    encoded_texts,
    front_of_text,
    scaled_numbers,
)
from ._files import composed, load_skops

# What a file may say of columns in a word, beside steps such as "SimpleImputer".
_WORDS = {
    "scaled": scaled_numbers,
    "encoded": encoded_texts,
    "keep": lambda: "passthrough",
    "drop": lambda: "drop",
}
_TABLES = ("columns", "other", "together", "bounds")
_FILES = (".toml", ".skops", ".safetensors")
# Types in files of skops that run nothing when they are read: ours, and the selector of
# scikit-learn, which is then refused by a sentence that names what to take instead.
_TRUSTED = (
    "sklearn.compose._column_transformer.make_column_selector",
    "skgems.pooled._transformer.PooledTransformer",
    "skgems.steps._columns_of.ColumnsOf",
    "skgems.steps._features.RandomFeatures",
)


def read_front(typed: str) -> TransformerMixin:
    """The transformer that was typed; ValueError says what is wrong with it, or where.

    Nothing in a file is run.
    """
    if typed == "auto":
        return auto_front()
    kind = Path(typed).suffix.lower()
    if kind not in _FILES:
        return _typed_front(typed)
    if not Path(typed).is_file():
        raise FileNotFoundError(f"--front {typed}: there is no such file.")
    if kind == ".safetensors":
        return PooledTransformer.load(typed)
    with naming(typed):
        if kind == ".toml":
            return front_of_table(
                tomllib.loads(composed(Path(typed).read_text("utf-8")))
            )
        front = clone(load_skops(typed, trusted=_TRUSTED))
        check_tree(getattr(front, "transformer", front))
        return front


def _typed_front(typed: str) -> TransformerMixin:
    try:
        return front_of_text(typed)
    except ValueError as exc:
        raise ValueError(
            f"--front: {exc} You can also give the word auto, which suits any table, "
            "or a file with steps for each column, front.toml or front.skops."
        ) from None


def front_of_table(table: Mapping) -> TransformerMixin:
    """The transformer that a file front.toml describes.

    ``table`` has "columns" (steps by the name of a column), "other" (steps of the other
    columns of "numbers" and of "texts"), and maybe "together" and "bounds".
    """
    for name in table:
        if name not in _TABLES:
            raise ValueError(
                f"the table {name!r} is unknown. A front has the tables "
                f"{', '.join(_TABLES)}."
            )
    named = _table(table, "columns")
    columns_by_steps: dict[str, list[str]] = {}
    for column, steps in named.items():
        if not isinstance(steps, str):
            raise ValueError(
                f"columns: the steps of {column!r} must be a text, such as 'scaled'. "
                "Write names of columns that have dots or blanks in quotation marks."
            )
        columns_by_steps.setdefault(steps, []).append(column)
    branches = [
        (f"columns {k}", _steps(steps, f"columns: {columns[0]!r}"), columns)
        for k, (steps, columns) in enumerate(columns_by_steps.items(), 1)
    ]
    front = ColumnTransformer([*branches, *_other_branches(table, tuple(named))])
    together = _table(table, "together")
    if set(together) - {"steps"}:
        raise ValueError("together must hold steps = '...' and nothing else.")
    if together:
        front = make_pipeline(front, _steps(together["steps"], "together"))
    check_tree(front)
    bounds = _bounds(table.get("bounds"))
    return front if bounds is None else PooledTransformer(front, bounds=bounds)


def _table(table: Mapping, name: str) -> Mapping:
    part = table.get(name, {})
    if not isinstance(part, Mapping):
        raise ValueError(
            f"{name} must be a table: a line [{name}], and the lines below it."
        )
    return part


def _other_branches(table: Mapping, named: tuple[str, ...]) -> list[tuple]:
    """Branches of the columns that the file does not name, which it has to speak of."""
    other = _table(table, "other")
    if set(other) != {"numbers", "texts"}:
        raise ValueError(
            "other must say what is done to all other columns, in two lines such as "
            "numbers = 'scaled' and texts = 'encoded'. Write 'drop' to leave them out."
        )
    if other["texts"] == "keep":
        raise ValueError(
            "other: texts cannot be kept as they are, since the classifier takes "
            "numbers. Write texts = 'encoded' or texts = 'drop'."
        )
    return [
        (kind, _steps(other[kind], f"other: {kind}"), ColumnsOf(kind, without=named))
        for kind in ("numbers", "texts")
    ]


def _steps(text: object, where: str) -> TransformerMixin:
    """The transformer of a word, or of steps with bars between them."""
    if text in _WORDS:
        return _WORDS[text]()
    try:
        return front_of_text(text)
    except (ValueError, AttributeError) as exc:
        raise ValueError(
            f"{where}: {text!r} is neither a word ({', '.join(_WORDS)}) nor steps such "
            f"as 'SimpleImputer | StandardScaler' ({exc})"
        ) from None


def _bounds(bounds: object) -> dict | None:
    """The bounds of a front as it takes them; ValueError for what it does not take."""
    if bounds is None:
        return bounds
    if not isinstance(bounds, Mapping):
        raise ValueError("bounds must be a table of columns, such as age = [0, 120].")
    for column, pair in bounds.items():
        numbers = isinstance(pair, list) and [type(v) in (int, float) for v in pair]
        if numbers != [True, True] or pair[0] >= pair[1]:
            raise ValueError(
                f"bounds: the bounds of {column!r} must be two numbers, the lower one "
                f"first, such as [0, 120]; got {pair!r}."
            )
    return {column: tuple(pair) for column, pair in bounds.items()}
