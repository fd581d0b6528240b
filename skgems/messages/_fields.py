"""Fields of messages: what each may hold, by which it is checked."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import isfinite
from numbers import Real
from typing import Any, Protocol, Self

import numpy as np
from scipy.linalg.lapack import dpotrf

from ..moments import LARGEST, LARGEST_FLOAT32
from ..networks import ACTIVATIONS
from ..steps import front_of_content
from ._limits import MOST_CHARACTERS

# What rounding may leave of a sum, relative to it.
ROUNDING = 1e-6
DEFINITE_A_FEATURE = np.finfo(np.float32).eps
LABELS = (str, int, float, bool)
_PAIRS = [[label, weight] for label in LABELS for weight in (int, float)]

# A field whose default is REQUIRED must be there; one of default ABSENT may be missing.
REQUIRED = object()
ABSENT = object()
# The triangle of a symmetric matrix, with its diagonal.
_TRIANGLE = "d(d+1)/2"


@dataclass(frozen=True)
class Place:
    """The path of a value in a message, with what is needed to check the value.

    These are the lengths for which letters in shapes stand, the request, and the node's
    description of itself.
    """

    path: str
    lengths: dict = field(default_factory=dict)
    asked: Any = None  # the request
    described: Mapping | None = None

    def at(self, name: object) -> "Place":
        """Return the place of a part with this name."""
        # Not `replace`, which takes twice as long: there is one of each field.
        path = f"{self.path}.{str(name)[:80]}"
        return Place(path, self.lengths, self.asked, self.described)

    def wrong(self, predicate: str) -> ValueError:
        """Return the error for the value; its text is the path with this predicate."""
        return ValueError(f"{self.path} {predicate}.")

    def deny(self, is_wrong: bool, *name_and_predicate: str) -> None:
        """Raise `wrong` if a condition holds: of a part, by its name, or of this value.

        Called as ``deny(condition, "name", "is missing")`` or ``deny(condition, "is no
        number")``.
        """
        if not is_wrong:
            return
        *names, predicate = name_and_predicate
        place = self.at(names[0]) if names else self
        raise place.wrong(predicate)


@dataclass(frozen=True, kw_only=True)
class Field:
    """What one field of a message may contain; the base class of all fields."""

    says: str = ""  # about rows
    detail: Callable[[Mapping, Mapping], str] | None = None  # of the table, the reply
    default: object = REQUIRED  # what stands for it where it is not
    when: Callable[[Any], bool] | None = None  # whether a request asks for it

    def check(self, value: Any, place: Place) -> None:
        """Raise ValueError, which names the place, for a value that is not allowed."""
        raise NotImplementedError

    @property
    def is_opened(self) -> bool:
        """Report whether requests and replies have an object in place of the value."""
        return False

    def opened(self, value: Any) -> Any:
        """Return the object that requests and replies have in place of a value."""
        return value

    def closed(self, value: Any) -> Any:
        """Return the value that a message has, of what `opened` returns."""
        return value

    def figures(self, value: Any, table: Mapping, reply: Mapping) -> str:
        """Return what the value is in figures, as a sentence; empty without any."""
        return "" if self.detail is None else self.detail(table, reply)


class AsContent(Protocol):
    """A class whose objects messages have as tables of fields."""

    @classmethod
    def from_content(cls, content: Mapping) -> Self:
        """Return the object that a table describes."""

    def as_content(self) -> Mapping:
        """Return the table, of which `from_content` makes an equal object."""


def check_fields(content: Any, fields: Mapping[str, Field], place: Place) -> None:
    """Raise ValueError unless a table has all fields that it needs, and no others."""
    place.deny(not isinstance(content, Mapping), "is not a table of fields")
    for name in sorted(map(str, set(content) - set(fields))):
        raise place.at(name).wrong("is an unknown field")
    for name, field_of_name in fields.items():
        place_of_field = place.at(name)
        if field_of_name.when is not None and not field_of_name.when(place.asked):
            place_of_field.deny(name in content, "was not asked for")
        elif name not in content:
            place_of_field.deny(field_of_name.default is REQUIRED, "is missing")
        elif not (content[name] is None and field_of_name.default is None):
            field_of_name.check(content[name], place_of_field)


@dataclass(frozen=True, kw_only=True)
class AnyTable(Field):
    """A table; requests and replies have an object of the class ``of`` in its place."""

    of: type[AsContent] | None = None  # None: they have the table as it is

    @property
    def is_opened(self) -> bool:
        return self.of is not None

    def opened(self, value: Mapping) -> Any:
        return value if self.of is None else self.of.from_content(value)

    def closed(self, value: Any) -> Any:
        return value if self.of is None else value.as_content()


@dataclass(frozen=True)
class Table(AnyTable):
    """A table of fields with a rule for all of them together.

    The fields of an ``inline`` table stand in the message itself.
    """

    fields: Mapping[str, Field]
    rule: Callable[[Mapping, Place], None] | None = None
    inline: bool = False

    def check(self, value: Any, place: Place) -> None:
        if self.inline:
            place = replace(place, path=place.path.rpartition(".")[0])
        check_fields(value, self.fields, place)
        if self.rule is not None:
            self.rule(value, place)


@dataclass(frozen=True, kw_only=True)
class Number(Field):
    """A finite number; an array without dimensions counts as one."""

    low: float = 0.0
    high: float = LARGEST**2
    whole: bool = False
    infinite: bool = False
    nan: bool = False

    def check(self, value: Any, place: Place) -> None:
        if isinstance(value, np.ndarray) and value.ndim == 0:
            value = value.item()
        place.deny(not _is_number(value), "is not a number")
        if (self.infinite and value == np.inf) or (self.nan and value != value):
            return
        if self.whole and not isinstance(value, int):
            raise place.wrong(f"is {value!s:.20}, not a whole number")
        if not self.low <= value <= self.high:
            raise place.wrong(
                f"is {value!s:.20}, not between {self.low:g} and {self.high:g}"
            )

    def figures(self, value: Any, table: Mapping, reply: Mapping) -> str:
        if self.whole and self.detail is None:
            return f"Here it is {value}."
        return super().figures(value, table, reply)


@dataclass(frozen=True)
class Flag(Field):
    """True or false, or one of some words that stand for a choice between them."""

    words: tuple[str, ...] = ()

    def check(self, value: Any, place: Place) -> None:
        is_word = isinstance(value, str) and value in self.words
        is_flag = isinstance(value, bool)
        place.deny(not (is_word or is_flag), "is neither true nor false")


@dataclass(frozen=True)
class Text(Field):
    """A text; one of the given texts if there are any."""

    among: tuple[str, ...] = ()
    most: int = MOST_CHARACTERS

    def check(self, value: Any, place: Place) -> None:
        place.deny(not isinstance(value, str), "is not a text")
        check_text(value, place)
        if self.among and value not in self.among:
            raise place.wrong(f"is {value[:40]!r}, not one of {sorted(self.among)}")
        place.deny(len(value) > self.most, f"is longer than {self.most}")


class Activations(Field):
    """A list with the name of an activation for each hidden layer."""

    def check(self, value: Any, place: Place) -> None:
        names = value if isinstance(value, list) else [None]
        if not all(isinstance(name, str) and name in ACTIVATIONS for name in names):
            raise place.wrong(f"has names that are not among {ACTIVATIONS}")


class Json(AnyTable):
    """A table of anything that JSON has; it is checked elsewhere."""

    def check(self, value: Any, place: Place) -> None:
        place.deny(not isinstance(value, Mapping), "is not a table of fields")


class FrontField(Json):
    """Transformers that all nodes share, as far as they are fitted."""

    def check(self, value: Any, place: Place) -> None:
        super().check(value, place)
        try:
            front_of_content(value)
        except ValueError as exc:
            raise place.wrong(f"{exc!s:.300}") from None


@dataclass(frozen=True)
class Told(Json):
    """The statistics of steps, by the path of the step.

    Each is a table whose fields depend on its "statistic". The field "each" of such a
    table stands for any number of fields that are named by numbers.
    """

    tables: Mapping[str, Mapping[str, Field]]

    def check(self, value: Any, place: Place) -> None:
        super().check(value, place)
        for path, part in value.items():
            place_of_part = replace(place.at(path), lengths={})
            super().check(part, place_of_part)
            name = part.get("statistic")
            Text(among=tuple(self.tables)).check(name, place_of_part.at("statistic"))
            fields = dict(self.tables[name])
            field_of_number = fields.pop("each", None)
            content = {key: inner for key, inner in part.items() if key != "statistic"}
            if field_of_number is not None:
                numbers = [key for key in content if key.isdecimal()]
                fields |= dict.fromkeys(numbers, field_of_number)
            check_fields(content, fields, place_of_part)


@dataclass(frozen=True)
class Each(Json):
    """Tables with the same fields, numbered from 0; objects are those of each table.

    With ``some`` it is a table of some of these numbers.
    """

    fields: Mapping[str, Field]
    some: bool = False

    def opened(self, value: Mapping) -> Any:
        if self.of is None:
            return value
        return {name: self.of.from_content(table) for name, table in value.items()}

    def closed(self, value: Any) -> Any:
        if self.of is None:
            return value
        return {name: part.as_content() for name, part in value.items()}

    def check(self, value: Any, place: Place) -> None:
        super().check(value, place)
        is_numbered = list(value) == [str(k) for k in range(len(value))]
        if self.some:
            is_numbered = all(name.isdecimal() for name in value)
        if not is_numbered:
            raise place.wrong("are not numbered from 0")
        for number, table in value.items():
            check_fields(table, self.fields, replace(place.at(number), lengths={}))


class Named(Field):
    """A geometry or a criterion: its registered name with its parameters."""

    def check(self, value: Any, place: Place) -> None:
        if not isinstance(value, Mapping) or "name" not in value:
            raise place.wrong("is not a table with a name")
        Text().check(value["name"], place.at("name"))
        for key, setting in value.items():
            if not isinstance(setting, int | float | str | bool | None):
                raise place.at(key).wrong("is neither a number nor a text")


@dataclass(frozen=True)
class Weights(Field):
    """A list of pairs of a label and its number, or one of some words."""

    words: tuple[str, ...] = ()

    def check(self, value: Any, place: Place) -> None:
        if isinstance(value, str) and value in self.words:
            return
        pairs = value if isinstance(value, list) else [None]
        are_pairs = all(
            isinstance(pair, list) and list(map(type, pair)) in _PAIRS for pair in pairs
        )
        if not are_pairs or not all(0 <= weight <= LARGEST for _, weight in pairs):
            raise place.wrong("is not a list of labels and weights")


@dataclass(frozen=True)
class Labels(Field):
    """Labels of one type; sorted and without repetition if they name classes."""

    length: str = ""
    ordered: bool = False
    most: int | None = None

    def check(self, value: Any, place: Place) -> None:
        if not isinstance(value, list) or (self.ordered and not value):
            raise place.wrong("is not a list of labels")
        n_labels = len(value)
        if self.most is not None and n_labels > self.most:
            raise place.wrong(f"are {n_labels}, more than {self.most}")
        _check_are_of_one_kind(value, place)
        pairs = zip(value, value[1:], strict=False)
        if self.ordered and any(label >= following for label, following in pairs):
            raise place.wrong("is not in order, or has a label twice")
        if self.length:
            n_wanted = place.lengths.setdefault(self.length, n_labels)
            place.deny(n_wanted != n_labels, f"are {n_labels}, not {n_wanted}")


def _fit_in_64_bits(labels: list[int]) -> bool:
    """Report whether an array of numpy, with a sign or without, holds whole numbers."""
    least = min(labels)
    limit = 2**64 if least >= 0 else 2**63
    return least >= -(2**63) and max(labels) < limit


def _check_are_of_one_kind(labels: list, place: Place) -> None:
    """Raise ValueError unless labels are all texts, or numbers, which can be sent."""
    kinds = {type(label) for label in labels}
    if labels and (len(kinds) != 1 or not kinds <= set(LABELS)):
        raise place.wrong("has labels that are not all texts, or all numbers")
    if kinds == {int} and not _fit_in_64_bits(labels):
        raise place.wrong("has numbers of more than 64 bits")
    if kinds == {float} and not all(map(isfinite, labels)):
        raise place.wrong("has numbers that are not finite")
    if kinds == {str}:
        for label in labels:
            check_text(label, place)
        n_characters = len(labels) * max(map(len, labels))  # as an array has them
        place.deny(n_characters > MOST_CHARACTERS, "has texts that are too long")


@dataclass(frozen=True)
class Array(Field):
    """An array of numbers; equal letters in shapes stand for equal lengths."""

    shape: str  # a letter a dimension; "*", "...": any; "m?": in all or none; "|": or
    kinds: str = "f"
    low: float | None = None
    high: float = LARGEST
    least_bytes: int = 8
    infinite: bool = False
    nan: bool = False
    empty: bool = True

    def check(self, value: Any, place: Place) -> None:
        # Of one model a sum is a number.
        if self.shape == "m?" and place.lengths.get("m?") == () and _is_number(value):
            value = np.array(value, dtype=np.float64)
        place.deny(not isinstance(value, np.ndarray), "is not an array")
        self._check_dtype(value, place)
        self._check_shape(value, place)
        place.deny(not (value.size or self.empty), f"has the shape {value.shape}")
        if value.dtype.kind == "f":
            self._check_floats(value, place)
        if self.low is not None and (value < self.low).any():
            raise place.wrong(f"has values below {self.low:g}")

    def _check_dtype(self, array: np.ndarray, place: Place) -> None:
        # Whole numbers have four bytes on machines of 32 bits.
        least_bytes = {"f": self.least_bytes, "i": 4}.get(array.dtype.kind, 0)
        is_small = array.dtype.itemsize < least_bytes
        if array.dtype.kind not in self.kinds or is_small:
            raise place.wrong(f"has the dtype {array.dtype}")

    def _check_shape(self, array: np.ndarray, place: Place) -> None:
        alternatives = [tuple(part.split()) for part in self.shape.split("|")]
        if any(_fits(tokens, array.shape, place.lengths) for tokens in alternatives):
            return
        shapes = [_in_words(tokens, place.lengths) for tokens in alternatives]
        raise place.wrong(f"has the shape {array.shape}, not {' or '.join(shapes)}")

    def _check_floats(self, array: np.ndarray, place: Place) -> None:
        """Raise ValueError for numbers that are too large, or none."""
        high = min(self.high, LARGEST_FLOAT32 if array.itemsize == 4 else np.inf)
        # In nearly all arrays all numbers are right. Of NaN this is false.
        largest = max(float(array.max()), -float(array.min())) if array.size else 0.0
        if largest <= high:
            return
        is_allowed = (np.isinf(array) & self.infinite) | (np.isnan(array) & self.nan)
        is_odd = ~np.isfinite(array) & ~is_allowed
        place.deny(is_odd.any(), f"has {is_odd.sum()} values that are not finite")
        is_large = (np.abs(array) > np.float64(high)) & ~is_allowed
        place.deny(is_large.any(), f"has {is_large.sum()} values above {high:g}")


@dataclass(frozen=True)
class Arrays(Field):
    """A list of arrays, with shapes and dtypes of the request's list ``like``."""

    each: Array
    like: str = ""

    def check(self, value: Any, place: Place) -> None:
        place.deny(not isinstance(value, list), "is not a list of arrays")
        arrays_of_request = getattr(place.asked, self.like) if self.like else None
        if arrays_of_request is None:
            fields = [self.each] * len(value)
        elif len(value) != len(arrays_of_request):
            raise place.wrong(f"are not {len(arrays_of_request)} arrays")
        else:
            fields = [self._field_like(array) for array in arrays_of_request]
        for i, (field_of_array, array) in enumerate(zip(fields, value, strict=True)):
            # Letters are of each array alone.
            place_of_array = replace(place, path=f"{place.path}[{i}]", lengths={})
            field_of_array.check(array, place_of_array)

    def _field_like(self, array: np.ndarray) -> Array:
        """The field of an array of the shape and kind of one in the request."""
        kinds = "f" if array.dtype.kind == "f" else "iub"
        return replace(self.each, shape=" ".join(map(str, array.shape)), kinds=kinds)


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _fits(tokens: tuple[str, ...], shape: tuple[int, ...], lengths: dict) -> bool:
    """Report whether a shape fits letters, to which it gives lengths."""
    if tokens == ("...",):
        return True
    if tokens[:1] == ("m?",):
        # Leading dimensions that all arrays have, or none: at most one.
        n_leading = max(len(shape) - len(tokens) + 1, 0)
        leading = shape[:n_leading]
        if n_leading > 1 or lengths.setdefault("m?", leading) != leading:
            return False
        shape = shape[n_leading:]
        tokens = tokens[1:]
    if len(tokens) != len(shape):
        return False
    new_lengths = dict(lengths)
    for token, length in zip(tokens, shape, strict=True):
        expected = _length_of(token, new_lengths)
        if expected is None and token != "*":
            letter, _, addend = token.partition("+")
            new_lengths[letter] = length - int(addend or 0)
        elif expected not in (None, length):
            return False
    lengths.update(new_lengths)
    return True


def _length_of(token: str, lengths: Mapping) -> int | None:
    """The length that a letter of a shape stands for, if there is one already."""
    if token == _TRIANGLE:
        return lengths["d"] * (lengths["d"] + 1) // 2
    if token.isdecimal():
        return int(token)
    letter, _, addend = token.partition("+")
    if letter not in lengths or letter == "m?":
        return None
    return lengths[letter] + int(addend or 0)


def _in_words(tokens: tuple[str, ...], lengths: Mapping) -> str:
    numbers = [_length_of(token, lengths) for token in tokens]
    return f"({', '.join('any' if n is None else str(n) for n in numbers)})"


def check_text(value: str, place: Place) -> None:
    """Raise ValueError for a text that files or arrays could not return unchanged."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:  # half a character
        raise place.wrong("has characters that cannot be sent") from None
    # Which arrays drop.
    place.deny(value.endswith("\0"), "ends in a character of no width")


def check_definite(matrix: np.ndarray, place: Place) -> None:
    """Raise ValueError for a symmetric matrix that no rows have as products."""
    squares = matrix.diagonal()
    place.deny((squares < 0).any(), "has negative squares on its diagonal")
    size = np.sqrt(squares)
    inverse = np.divide(1.0, size, out=np.zeros_like(size), where=size > 0)
    if not size.all():  # where a feature has no spread it has no product with another
        place.deny(matrix[size == 0].any(), "has products of a feature without squares")
    scaled = matrix * inverse[:, None]
    scaled *= inverse
    np.fill_diagonal(scaled, 1.0 + (ROUNDING + DEFINITE_A_FEATURE * len(scaled)))
    # In place, which takes half the time of NumPy's: it is transposed as LAPACK has it.
    _, info = dpotrf(scaled.T, overwrite_a=True, clean=False)
    place.deny(info != 0, "has a negative eigenvalue")
