"""Parameters that are objects, each of which a word or a number may be short for."""

from typing import ClassVar, Self

from sklearn.base import BaseEstimator, clone

from ._short_forms import ShortFormsMixin


class Part(ShortFormsMixin, BaseEstimator):
    """A part of an aggregator's parameters: what belongs together, in one object.

    An aggregator lists its parts in ``_parts``, by the name of the parameter. What is
    short for a part is the first parameter of the part.
    """

    _parameter_constraints: dict = {}
    # What may stand for the object, as scikit-learn's constraints say it.
    short_forms: ClassVar[list] = []
    # All parts by name, as the folder of an exchange knows them.
    kinds: "ClassVar[dict[str, type[Part]]]" = {}

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        if not cls.__name__.startswith("_"):  # else it is a base of parts
            Part.kinds[cls.__name__] = cls

    @classmethod
    def from_value(cls, value: object) -> Self:
        """Return a checked copy of a parameter's value, with objects for its words."""
        part = clone(value) if isinstance(value, cls) else cls.from_short_form(value)
        part._validate_params()
        return part._with_objects()

    @classmethod
    def from_short_form(cls, value: object) -> Self:
        """The part that a word or a number stands for; None is the default one."""
        return cls() if value is None else cls(value)

    @classmethod
    def check_is_no_part_of_it(cls, value: object, *, parameter: str) -> None:
        """Raise TypeError for an object that belongs into this one."""

    def _with_objects(self) -> Self:
        """Return this part, checked, with objects for the words in it."""
        return self
