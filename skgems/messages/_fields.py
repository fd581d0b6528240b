"""Fields of messages: what each may hold, by which it is checked."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import isfinite
from numbers import Real

import numpy as np

from ..moments import LARGEST, LARGEST_FLOAT32, LARGEST_SQUARE
from ..networks import ACTIVATIONS
from ..steps import front_of_content
from ._limits import MOST_CHARACTERS

# What rounding may leave: relative to a sum, and in a matrix with ones on its diagonal
# besides, for each feature, that of float32 rows.
ROUNDING, DEFINITE, DEFINITE_A_FEATURE = 1e-6, 1e-6, np.finfo(np.float32).eps
LABELS = (str, int, float, bool)
_PAIRS = [[label, weight] for label in LABELS for weight in (int, float)]

# A field without a default must be there; one whose default is ABSENT may be missing.
REQUIRED, ABSENT = object(), object()
# Triangles of a matrix, with and without its diagonal.
_DERIVED = {
    "d(d+1)/2": lambda d: d * (d + 1) // 2,
    "d(d-1)/2": lambda d: d * (d - 1) // 2,
}


@dataclass(frozen=True)
class Place:
    """Path of a value, lengths of letters in shapes, what was asked and described."""

    path: str
    lengths: dict = field(default_factory=dict)
    asked: Mapping = field(default_factory=dict)
    described: Mapping | None = None

    def at(self, name) -> "Place":
        return replace(self, path=f"{self.path}.{str(name)[:80]}")

    def wrong(self, what: str) -> ValueError:
        return ValueError(f"{self.path} {what}.")

    def deny(self, is_so, *said: str) -> None:
        """Raise ValueError if something is so: of a field within, or of this value."""
        *names, what = said
        if is_so:
            raise (self.at(*names) if names else self).wrong(what)


@dataclass(frozen=True, kw_only=True)
class Field:
    """What one field of a message may hold."""

    says: str = ""  # about rows
    detail: Callable[[Mapping, Mapping], str] | None = None  # of the table, the reply
    default: object = REQUIRED  # what stands for it where it is not
    when: Callable[[Mapping], bool] | None = None  # whether it is there, as asked

    def check(self, value, place: Place) -> None:
        raise NotImplementedError


def check_fields(content, fields: Mapping[str, Field], place: Place) -> None:
    """Raise ValueError unless a table has the fields that it must have, and no more."""
    place.deny(not isinstance(content, Mapping), "is no table of fields")
    for name in sorted(map(str, set(content) - set(fields))):
        raise place.at(name).wrong("is no field of it")
    for name, own in fields.items():
        here = place.at(name)
        if own.when is not None and not own.when(place.asked):
            here.deny(name in content, "was not asked for")
        elif name not in content:
            here.deny(own.default is REQUIRED, "is missing")
        elif not (content[name] is None and own.default is None):
            own.check(content[name], here)


@dataclass(frozen=True)
class Table(Field):
    """A table of fields, and a rule; if ``inline``, as if they were the message's."""

    fields: Mapping[str, Field]
    rule: Callable[[Mapping, Place], None] | None = None
    inline: bool = False

    def check(self, value, place):
        if self.inline:
            place = replace(place, path=place.path.rpartition(".")[0])
        check_fields(value, self.fields, place)
        if self.rule is not None:
            self.rule(value, place)


@dataclass(frozen=True, kw_only=True)
class Number(Field):
    """A finite number, an array of no dimension among them."""

    low: float = 0.0
    high: float = LARGEST_SQUARE
    whole: bool = False
    infinite: bool = False
    nan: bool = False

    def check(self, value, place):
        if isinstance(value, np.ndarray) and value.ndim == 0:
            value = value.item()
        place.deny(not _is_number(value), "is no number")
        if (self.infinite and value == np.inf) or (self.nan and value != value):
            return
        if self.whole and not isinstance(value, int):
            raise place.wrong(f"is {value!s:.20}, no whole number")
        if not self.low <= value <= self.high:
            between = f"between {self.low:g} and {self.high:g}"
            raise place.wrong(f"is {value!s:.20}, not {between}")


@dataclass(frozen=True)
class Flag(Field):
    """True or false, or one of some words that stand for a choice between them."""

    words: tuple[str, ...] = ()

    def check(self, value, place):
        known = isinstance(value, str) and value in self.words
        place.deny(not (known or isinstance(value, bool)), "is neither true nor false")


@dataclass(frozen=True)
class Text(Field):
    """A text, one of some if these are given."""

    among: tuple[str, ...] = ()
    most: int = MOST_CHARACTERS

    def check(self, value, place):
        place.deny(not isinstance(value, str), "is no text")
        check_text(value, place)
        if self.among and value not in self.among:
            raise place.wrong(f"is {value[:40]!r}, none of {sorted(self.among)}")
        place.deny(len(value) > self.most, f"is longer than {self.most}")


class Activations(Field):
    def check(self, value, place):
        names = value if isinstance(value, list) else [None]
        if not all(isinstance(name, str) and name in ACTIVATIONS for name in names):
            raise place.wrong(f"has names that are none of {ACTIVATIONS}")


class Json(Field):
    """A table of whatever JSON has, which others look at."""

    def check(self, value, place):
        place.deny(not isinstance(value, Mapping), "is no table of fields")


class FrontField(Json):
    """Transformers that all agree on, as far as they are fitted."""

    def check(self, value, place):
        super().check(value, place)
        try:
            front_of_content(value)
        except ValueError as exc:
            raise place.wrong(f"{exc!s:.300}") from None


@dataclass(frozen=True)
class Told(Json):
    """By the path of each step ("each": numbers), of the table of its "statistic"."""

    tables: Mapping[str, Mapping[str, Field]]

    def check(self, value, place):
        super().check(value, place)
        for path, own in value.items():
            here = replace(place.at(path), lengths={})
            super().check(own, here)
            name = own.get("statistic")
            Text(among=tuple(self.tables)).check(name, here.at("statistic"))
            fields = dict(self.tables[name])
            each, own = fields.pop("each", None), dict(own)
            del own["statistic"]
            if each is not None:
                fields |= {key: each for key in own if key.isdecimal()}
            check_fields(own, fields, here)


@dataclass(frozen=True)
class Each(Json):
    """Tables by number from 0, all of the same fields."""

    fields: Mapping[str, Field]

    def check(self, value, place):
        super().check(value, place)
        if list(value) != [str(k) for k in range(len(value))]:
            raise place.wrong("are not numbered from 0")
        for number, own in value.items():
            check_fields(own, self.fields, replace(place.at(number), lengths={}))


class Named(Field):
    """A geometry or criterion: its registered name and its parameters."""

    def check(self, value, place):
        if not isinstance(value, Mapping) or "name" not in value:
            raise place.wrong("is no table with a name")
        Text().check(value["name"], place.at("name"))
        for key, own in value.items():
            if not isinstance(own, int | float | str | bool | None):
                raise place.at(key).wrong("is neither a number nor a text")


@dataclass(frozen=True)
class Weights(Field):
    """A number for each of some labels, as a list of pairs; or one of some words."""

    words: tuple[str, ...] = ()

    def check(self, value, place):
        if isinstance(value, str) and value in self.words:
            return
        pairs = value if isinstance(value, list) else [None]
        good = all(
            isinstance(own, list) and list(map(type, own)) in _PAIRS for own in pairs
        )
        if not good or not all(0 <= weight <= LARGEST for _, weight in pairs):
            raise place.wrong("is no list of labels and weights")


@dataclass(frozen=True)
class Labels(Field):
    """Labels of one kind; in their order and each once where they name classes."""

    length: str = ""
    ordered: bool = False
    most: int | None = None

    def check(self, value, place):
        if not isinstance(value, list) or (self.ordered and not value):
            raise place.wrong("is no list of labels")
        if self.most is not None and len(value) > self.most:
            raise place.wrong(f"are {len(value)}, more than {self.most}")
        kinds = {type(label) for label in value}
        if value and (len(kinds) != 1 or not kinds <= set(LABELS)):
            raise place.wrong("has labels that are not all texts, or all numbers")
        if kinds == {int} and any(not -(2**63) <= label < 2**63 for label in value):
            raise place.wrong("has numbers of more than 64 bits")
        if kinds == {float} and not all(map(isfinite, value)):
            raise place.wrong("has numbers that are not finite")
        if kinds == {str}:
            for label in value:
                check_text(label, place)
            n = len(value) * max(map(len, value))
            place.deny(n > MOST_CHARACTERS, "has texts that are too long")
        pairs = zip(value, value[1:], strict=False)
        if self.ordered and any(one >= other for one, other in pairs):
            raise place.wrong("is not in order, or has a label twice")
        n = place.lengths.setdefault(self.length, len(value)) if self.length else None
        place.deny(n not in (None, len(value)), f"are {len(value)}, not {n}")


@dataclass(frozen=True)
class Array(Field):
    shape: str  # a letter a dimension; "*", "...": any; "m?": in all or none; "|": or
    kinds: str = "f"
    low: float | None = None
    high: float = LARGEST
    least_bytes: int = 8
    infinite: bool = False
    nan: bool = False
    empty: bool = True

    def check(self, value, place):
        # Of one model a sum is a number.
        if self.shape == "m?" and place.lengths.get("m?") == () and _is_number(value):
            value = np.array(value, dtype=np.float64)
        place.deny(not isinstance(value, np.ndarray), "is no array")
        # Whole numbers have four bytes on machines of 32 bits.
        n_bytes = {"f": self.least_bytes, "i": 4}.get(value.dtype.kind, 0)
        if value.dtype.kind not in self.kinds or value.dtype.itemsize < n_bytes:
            raise place.wrong(f"has the dtype {value.dtype}")
        wanted = [tuple(part.split()) for part in self.shape.split("|")]
        if not any(_fits(tokens, value.shape, place.lengths) for tokens in wanted):
            known = [_in_words(tokens, place.lengths) for tokens in wanted]
            raise place.wrong(f"has the shape {value.shape}, not {' or '.join(known)}")
        place.deny(not (value.size or self.empty), f"has the shape {value.shape}")
        if value.dtype.kind == "f":
            allowed = (np.isinf(value) & self.infinite) | (np.isnan(value) & self.nan)
            odd = ~np.isfinite(value) & ~allowed
            place.deny(odd.any(), f"has {odd.sum()} values that are not finite")
            high = min(self.high, LARGEST_FLOAT32 if value.itemsize == 4 else np.inf)
            large = (np.abs(value) > np.float64(high)) & ~allowed
            place.deny(large.any(), f"has {large.sum()} values above {high:g}")
        if self.low is not None and (value < self.low).any():
            raise place.wrong(f"has values below {self.low:g}")


@dataclass(frozen=True)
class Arrays(Field):
    """A list of arrays; of the shapes and kinds of the request's list ``like``."""

    each: Array
    like: str = ""

    def check(self, value, place):
        place.deny(not isinstance(value, list), "is no list of arrays")
        given = place.asked.get(self.like) if self.like else None
        if given is not None and len(value) != len(given):
            raise place.wrong(f"are not {len(given)} arrays")
        for i, array in enumerate(value):
            # Letters are of each array alone.
            here = replace(place, path=f"{place.path}[{i}]", lengths={})
            each = self.each
            if given is not None:
                kinds = "f" if given[i].dtype.kind == "f" else "iub"
                shape = " ".join(map(str, given[i].shape))
                each = replace(each, shape=shape, kinds=kinds)
            each.check(array, here)


def _is_number(value) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _fits(tokens, shape, lengths: dict) -> bool:
    """Whether a shape is that of some letters, to which lengths are given here."""
    if tokens == ("...",):
        return True
    if tokens[:1] == ("m?",):
        n = max(len(shape) - len(tokens) + 1, 0)
        leading, shape, tokens = shape[:n], shape[n:], tokens[1:]
        if n > 1 or lengths.setdefault("m?", leading) != leading:
            return False
    if len(tokens) != len(shape):
        return False
    found = dict(lengths)
    for token, length in zip(tokens, shape, strict=True):
        wanted = _known(token, found)
        if wanted is None and token != "*":
            letter, _, more = token.partition("+")
            found[letter] = length - int(more or 0)
        elif wanted not in (None, length):
            return False
    lengths.update(found)
    return True


def _known(token: str, lengths: Mapping) -> int | None:
    """The length that a letter of a shape stands for, if there is one already."""
    if token in _DERIVED:
        return _DERIVED[token](lengths["d"])
    if token.isdecimal():
        return int(token)
    letter, _, more = token.partition("+")
    if letter not in lengths or letter == "m?":
        return None
    return lengths[letter] + int(more or 0)


def _in_words(tokens, lengths: Mapping) -> str:
    known = [_known(token, lengths) for token in tokens]
    return f"({', '.join('any' if n is None else str(n) for n in known)})"


def check_text(value: str, place: Place) -> None:
    """Raise ValueError for what files or arrays would not give back."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:  # half a character
        raise place.wrong("has characters that cannot be sent") from None
    # Which arrays drop.
    place.deny(value.endswith("\0"), "ends in a character of no width")


def check_definite(matrix: np.ndarray, place: Place) -> None:
    squares = matrix.diagonal()
    place.deny((squares < 0).any(), "has negative squares on its diagonal")
    size = np.sqrt(squares)
    inverse = np.divide(1.0, size, out=np.zeros_like(size), where=size > 0)
    scaled = matrix * inverse[:, None] * inverse
    # Where a feature has no spread it has no product with another.
    place.deny(matrix[size == 0].any(), "has products of a feature without squares")
    np.fill_diagonal(scaled, 1.0 + (DEFINITE + DEFINITE_A_FEATURE * len(scaled)))
    try:
        np.linalg.cholesky(scaled)
    except np.linalg.LinAlgError:
        raise place.wrong("has a negative eigenvalue") from None
