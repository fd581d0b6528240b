# SPDX-License-Identifier: BSD-3-Clause
"""Objects that messages to nodes tell by the name of their class and its parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar


class ToldByName:
    """Mixin of the base of such objects: its subclasses are known by their names.

    All that an object keeps must be its parameters, and something that JSON has.
    """

    _known: ClassVar[dict[str, type]]
    # How often a name has come to mean another class in this process, as in a notebook:
    # what was computed by the old one is not what the new one gives.
    redefinitions: ClassVar[int] = 0

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        if ToldByName in cls.__bases__:
            cls._known = {}
        else:
            ToldByName.redefinitions += _full_name(cls) in cls._known
            cls._known[_full_name(cls)] = cls

    def as_settings(self) -> dict:
        """Its name and parameters, as a message to a node tells them.

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
        {'name': 'skgems.spaces._criterion.Accuracy'}
        """
        name = _full_name(type(self))
        if self._known[name] is not type(self):
            raise ValueError(
                f"{name} has been defined anew: make another object of it."
            )
        return {"name": name, **vars(self)}

    @classmethod
    def from_settings(cls, settings: Mapping):
        """The object that :meth:`as_settings` told.

        Parameters
        ----------
        settings : mapping

        Returns
        -------
        told : object of a subclass

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
        params = {**settings}
        name = params.pop("name")
        if name not in cls._known:
            raise ValueError(
                f"{name!r} is not known here, only {sorted(cls._known)}: import the "
                "module that defines it."
            )
        return cls._known[name](**params)


def _full_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
