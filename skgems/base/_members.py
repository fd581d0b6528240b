"""The list of local estimators as a constructor parameter: names, clones, nesting."""

import copy
from collections import Counter
from collections.abc import Iterator, Mapping, Set

import numpy as np
from sklearn.base import clone

from ..compat import BaseComposition, clone_parametrized
from ..datasets import PUBLIC_NAME
from ..networks import is_fitted


class _Carried:
    """What clone() should hand over as it is."""

    def __init__(self, value):
        self.value = value

    def __sklearn_clone__(self):
        return self.value


def _is_pair(member) -> bool:
    return isinstance(member, tuple) and len(member) == 2 and isinstance(member[0], str)


def _check_not_fitted(key: str, estimators, params) -> None:
    """Raise ValueError where a key is of a parameter of fitted members, or of none."""
    name, nested, _ = key.partition("__")
    if not nested:
        return
    named = dict(estimators) if is_named(estimators) else {}
    targets = [params.get(name, named[name])] if name in named else []
    if name == "estimators":
        if estimators is None:
            why = "estimators is None, so it has no parameters to set"
            raise ValueError(f"{why}. Give the unfitted classifier that it stands for.")
        targets = _members(estimators)
    for target in filter(is_fitted, targets):
        why = f"the local estimator {type(target).__name__} is fitted"
        what = "a fitted local estimator is never altered. Give unfitted ones"
        raise ValueError(f"Cannot set {key!r}: {why}, and {what}.")


def is_named(estimators) -> bool:
    listed = isinstance(estimators, (list, tuple)) and len(estimators) > 0
    return listed and all(map(_is_pair, estimators))


def is_channel(estimators) -> bool:
    return hasattr(estimators, "ask") and hasattr(estimators, "names")


def _carry_if_fitted(member):
    if _is_pair(member):
        return member[0], _carry_if_fitted(member[1])
    try:
        kept = is_channel(member) or is_fitted(member)
    except TypeError:  # no classifier at all: fit() says so, clone() does not judge
        kept = False
    return _Carried(member) if kept else member


class MemberParametersMixin(BaseComposition):
    """Parameter handling of an estimator whose ``estimators`` may be fitted.

    ``clone`` hands fitted members over as they are; ``set_params`` never alters them.
    """

    def get_params(self, deep: bool = True) -> dict:
        """Get the parameters of this estimator.

        Parameters
        ----------
        deep : bool, default=True
            Whether to include members, ``<name>``, and ``<name>__<parameter>``.

        Returns
        -------
        params : dict
        """
        if is_named(self.estimators):
            return self._get_params("estimators", deep=deep)
        return super().get_params(deep=deep)

    def set_params(self, **params):
        """Set the parameters of this estimator.

        Parameters
        ----------
        **params : dict
            ``<name>`` replaces a named member, ``<name>__<parameter>`` sets a parameter
            of an unfitted one, ``estimators__<parameter>`` of all; not of fitted ones.

        Returns
        -------
        self : object
        """
        params = self._open_short_forms(params)
        estimators = params.get("estimators", self.estimators)
        for key in params:
            _check_not_fitted(key, estimators, params)
        broadcast = {}
        if isinstance(estimators, (list, tuple)):
            nested = [key for key in params if key.startswith("estimators__")]
            broadcast = {key.partition("__")[2]: params.pop(key) for key in nested}
        if is_named(estimators):
            self._set_params("estimators", **params)
        else:
            super().set_params(**params)
        for member in _members(self.estimators) if broadcast else ():
            member.set_params(**broadcast)
        return self

    def _long_form(self, name: str, value):
        """The object that a parameter's word stands for; None: it is no such word."""
        return None

    def _open_short_forms(self, params: dict) -> dict:
        """The same, with an object wherever a parameter within a short form is set."""
        opened = dict(params)
        for key in params:
            name, nested, _ = key.partition("__")
            if nested and hasattr(self, name):
                value = opened.get(name, getattr(self, name))
                long = self._long_form(name, value)
                if long is not None:
                    opened[name] = long
        # Objects go first: parameters within them are set after.
        return dict(sorted(opened.items(), key=lambda item: "__" in item[0]))

    def __sklearn_clone__(self):
        shell = copy.copy(self)
        if isinstance(self.estimators, (list, tuple)):
            kind = type(self.estimators)
            shell.estimators = kind([_carry_if_fitted(m) for m in self.estimators])
        elif self.estimators is not None:
            shell.estimators = _carry_if_fitted(self.estimators)
        return clone_parametrized(shell)


def _members(estimators) -> list:
    if estimators is None or is_channel(estimators):
        return []
    if not isinstance(estimators, (list, tuple)):
        return [estimators]
    return [member[1] if _is_pair(member) else member for member in estimators]


def named_members(estimators, parameter_names=()) -> tuple[list[str], list]:
    """Split ``estimators`` into names (indices, if there are none) and classifiers."""
    if isinstance(estimators, (Mapping, Set, Iterator, np.ndarray)):
        what = "a list of classifiers or of (name, classifier) tuples, or one"
        got = f"got {type(estimators).__name__}; make a list of it"
        raise TypeError(f"estimators must be {what} classifier, {got}.")
    listed = isinstance(estimators, (list, tuple)) and not _is_pair(estimators)
    members = list(estimators) if listed else [estimators]
    if not members:
        what = "give at least one classifier, or None for the default one"
        raise ValueError(f"estimators is an empty list; {what}.")
    n_named = sum(_is_pair(member) for member in members)
    if n_named not in (0, len(members)):
        what = "estimators mixes (name, classifier) tuples with bare classifiers"
        raise TypeError(f"{what}; name all of them or none.")
    if not n_named:
        return [str(index) for index in range(len(members))], members
    names = [str(name) for name, _ in members]  # numpy's texts show as such
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise ValueError(f"estimators has two nodes of the same name: {repeated!r}.")
    for name in names:
        if name == PUBLIC_NAME or "__" in name or name in set(parameter_names):
            what = f"it must not be {PUBLIC_NAME!r}, hold a double underscore"
            what += ", or be a parameter"
            raise ValueError(f"{name!r} cannot be the name of a node: {what}.")
    return names, [member for _, member in members]


def split_by_state(names, members) -> bool:
    """Whether members, None too, are fitted; ValueError if some are, others are not."""
    pairs = zip(names, members, strict=True)
    fitted = [own is None or is_fitted(own, name=name) for name, own in pairs]
    if len(set(fitted)) == 1:
        return fitted[0]
    have = [name for name, yes in zip(names, fitted, strict=True) if yes]
    lack = [name for name in names if name not in have]
    none = " or have none" * any(member is None for member in members)
    which = f"nodes {have!r} are fitted{none}, nodes {lack!r} are not"
    what = f"estimators mixes fitted and unfitted classifiers: {which}"
    more = "give only unfitted ones to have each trained on its node's rows"
    raise ValueError(f"{what}. Fit them all, or {more}.")


def seeded_clone(estimator, random_state):
    fresh = clone(estimator)
    seeds = {
        key: random_state.randint(2**31 - 1)
        for key, value in sorted(fresh.get_params(deep=True).items())
        if value is None and (key == "random_state" or key.endswith("__random_state"))
    }
    return fresh.set_params(**seeds) if seeds else fresh
