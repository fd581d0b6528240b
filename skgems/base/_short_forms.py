"""Words that are short for an object, in which parameters can be set all the same."""

from collections.abc import Mapping
from functools import cache
from typing import Self


class NamesOnceMixin:
    """Mixin of estimators whose signature is read once, and not forty times a fit."""

    @classmethod
    @cache
    def _get_param_names(cls) -> list[str]:
        """Return the names of the parameters, which scikit-learn asks for by this."""
        return super()._get_param_names()


class ShortFormsMixin(NamesOnceMixin):
    """Mixin of estimators with parameters that a word or a number may stand for.

    ``set_params(spaces__on_empty="raise")`` puts the object in place of the word first.
    """

    def set_params(self, **params) -> Self:
        """Set the parameters of this estimator.

        Parameters
        ----------
        **params : dict
            ``<name>``, or ``<name>__<parameter>`` of an object, also where a word
            stands for the object.

        Returns
        -------
        self : object
        """
        return super().set_params(**self._open_short_forms(params))

    def _long_form(self, name: str, value: object) -> object | None:
        """The object that a parameter's word stands for; None: it is no such word."""
        return None

    def _open_short_forms(self, params: Mapping) -> dict:
        """Return ``params`` with objects where parameters of short forms are set."""
        opened = dict(params)
        for key in params:
            name, separator, _ = key.partition("__")
            if separator and hasattr(self, name):
                long_form = self._long_form(name, opened.get(name, getattr(self, name)))
                if long_form is not None:
                    opened[name] = long_form
        return opened  # scikit-learn sets objects before parameters within them
