# SPDX-License-Identifier: BSD-3-Clause
"""Objects that messages name: a registered word, and parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar


def resolve(given, words: Mapping[str, Registered], base: type[Registered]):
    """The object of a word, or as given; a ValueError or TypeError for others."""
    if isinstance(given, base):
        return given
    if isinstance(given, str) and given in words:
        return words[given]
    kind = ValueError if isinstance(given, str) else TypeError
    raise kind(
        f"{base.__name__.lower()} must be one of {list(words)} or a {base.__name__}, "
        f"got {given!r}."
    )


class Registered:
    """Mixin of the base of such objects: subclasses are registered by a word.

    The word is ``name=`` of the class statement, or the class's name in snake case. All
    that an object keeps are its parameters, of types that JSON has.
    """

    registry: ClassVar[dict[str, type]]
    wire_name: ClassVar[str]
    # How often a name came to mean another class, as in a notebook: results of the old
    # one are not those of the new one.
    redefinitions: ClassVar[int] = 0

    def __init_subclass__(cls, name: str | None = None, **kwargs):
        super().__init_subclass__(**kwargs)
        if Registered in cls.__bases__:
            cls.registry = {}
            return
        word = name or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", cls.__name__).lower()
        if word in cls.registry:
            known = cls.registry[word]
            # Names of the library's own classes mean these, whoever defines another.
            if known.__module__.partition(".")[0] == __name__.partition(".")[0]:
                raise ValueError(
                    f"{word!r} names skgems' own {known.__name__} in messages: define "
                    f"class {cls.__name__} with another name, name='...'."
                )
            Registered.redefinitions += 1
        cls.wire_name = word
        cls.registry[word] = cls

    def as_settings(self) -> dict:
        """Its name and parameters, as a message has them.

        Returns
        -------
        settings : dict

        Raises
        ------
        ValueError
            If its class has been defined anew since.

        Examples
        --------
        >>> from skgems.spaces import Accuracy
        >>> Accuracy().as_settings()
        {'name': 'accuracy'}
        """
        if self.registry[self.wire_name] is not type(self):
            raise ValueError(
                f"{self.wire_name!r} has been defined anew: make another object of it."
            )
        return {"name": self.wire_name, **vars(self)}

    @classmethod
    def from_settings(cls, settings: Mapping):
        """The object of :meth:`as_settings`.

        Parameters
        ----------
        settings : mapping

        Returns
        -------
        found : object of a subclass

        Raises
        ------
        ValueError
            If no class of that name is known here.

        Examples
        --------
        >>> from skgems.spaces import Geometry, Gram
        >>> Geometry.from_settings(Gram(ridge=0.1).as_settings())
        Gram(ridge=0.1)
        """
        params = dict(settings)
        name = params.pop("name")
        if name not in cls.registry:
            raise ValueError(
                f"{name!r} is not known here, only {sorted(cls.registry)}: import the "
                "module that defines it."
            )
        return cls.registry[name](**params)
