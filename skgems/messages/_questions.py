"""What a request and a reply of a task hold, as classes whose annotations are fields.

A subclass of `Request` or `Reply` is a frozen dataclass. The annotation of each
attribute has the kind of field that messages are checked by, which also says what the
field tells of rows:

    size: Annotated[float, Number(low=0.0, says="Size of the model's logits.")]

An attribute whose field has a default has this default, too. It is None where a field
may be missing, or is there for some requests only.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar, Self, dataclass_transform, get_type_hints

import numpy as np

from ._fields import ABSENT, REQUIRED, Field, Place, Table
from ._message import Message, n_bytes_of


@dataclass_transform(kw_only_default=True, frozen_default=True, eq_default=False)
class _Content:
    """The content of a message of one task, with a name for each of its fields."""

    fields: ClassVar[Mapping[str, Field]] = MappingProxyType({})
    # Those whose values are objects, which messages have as tables.
    _opened_fields: ClassVar[Mapping[str, Field]] = MappingProxyType({})

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.fields = MappingProxyType(_annotated_fields(cls))
        cls._opened_fields = MappingProxyType(
            {name: field for name, field in cls.fields.items() if field.is_opened}
        )
        for name, field in cls.fields.items():
            if field.default is REQUIRED and field.when is None:
                continue
            is_none = field.default is ABSENT or field.default is REQUIRED
            setattr(cls, name, None if is_none else field.default)
        dataclass(frozen=True, kw_only=True, eq=False)(cls)

    @classmethod
    def from_content(cls, content: Mapping) -> Self:
        """Make it from the content of a message, of which other fields are left out."""
        return cls.opened(
            {name: content[name] for name in cls.fields if name in content}
        )

    @classmethod
    def opened(cls, content: Mapping) -> Self:
        """Make it from the content of a message; TypeError for fields of others."""
        tables = {
            name: field.opened(content[name])
            for name, field in cls._opened_fields.items()
            if content.get(name) is not None
        }
        return cls(**{**content, **tables})

    def as_content(self) -> dict:
        """Return the fields that are there, as a message has them."""
        values = {name: getattr(self, name) for name in self.fields}
        content = {name: value for name, value in values.items() if value is not None}
        for name, field in self._opened_fields.items():
            if name in content:
                content[name] = field.closed(content[name])
        return content

    def as_message(self, task: str) -> Message:
        """Return the message of a task that has these fields."""
        return Message.of(task, **self.as_content())

    @cached_property
    def n_bytes(self) -> int:
        """Return how many bytes arrays and settings would be as a message."""
        return n_bytes_of(self.as_content())

    def arrays(self) -> Iterator[np.ndarray]:
        """Yield all arrays, also those within tables and lists."""
        parts = [getattr(self, name) for name in self.fields]
        while parts:
            part = parts.pop()
            if isinstance(part, np.ndarray):
                yield part
            elif isinstance(part, list | tuple):
                yield from (each for each in part if isinstance(each, np.ndarray))
            elif isinstance(part, Mapping):
                parts.extend(part.values())
            elif is_dataclass(part):
                parts.extend(vars(part).values())


def _annotated_fields(cls: type) -> dict[str, Field]:
    """Return the field of each attribute that is annotated with one, in order."""
    return {
        name: part
        for name, hint in get_type_hints(cls, include_extras=True).items()
        for part in getattr(hint, "__metadata__", ())
        if isinstance(part, Field)
    }


class Part(_Content):
    """A table within a request or a reply, with a name for each of its fields."""

    @classmethod
    def table(cls, **options: Any) -> Table:
        """Return the field for a table that is opened as this part."""
        return Table(cls.fields, rule=cls._check_content, of=cls, **options)

    @classmethod
    def _check_content(cls, content: Mapping, place: Place) -> None:
        cls.from_content(content).check(place)

    def check(self, place: Place) -> None:
        """Raise ValueError where fields that are right each do not fit each other."""


class Request(_Content):
    """What a server asks a node; a subclass for each task.

    Examples
    --------
    >>> from typing import Annotated
    >>> from skgems.messages import Number, Request
    >>> class RowsAbove(Request):
    ...     threshold: Annotated[float, Number(low=-1e9, high=1e9)]
    ...     feature: Annotated[int, Number(whole=True, default=0)]
    >>> RowsAbove(threshold=0.5)
    RowsAbove(threshold=0.5, feature=0)
    """

    def check(self, place: Place) -> None:
        """Raise ValueError where fields that are right each do not fit each other."""


class Reply(_Content):
    """What a node answers; a subclass for each task."""

    def check(self, request: Request, place: Place) -> None:
        """Raise ValueError where fields do not fit each other, or the request.

        ``place.described`` is what the node has told of itself, where that is known.
        """
