"""The list of local estimators as a constructor parameter: names, clones, nesting."""

import copy
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Self

import numpy as np
from sklearn.base import BaseEstimator, clone

from ..compat import BaseComposition, clone_parametrized
from ..datasets import PUBLIC_NAME
from ..networks import is_fitted
from ._short_forms import ShortFormsMixin

# Seeds are below the largest signed int of 32 bits, up to which RandomState.randint
# draws on every system.
SEEDS_BELOW = np.iinfo(np.int32).max


class _HandedOver:
    """A fitted member or a channel, which clone() hands over as it is."""

    def __init__(self, member: object) -> None:
        self.member = member

    def __sklearn_clone__(self) -> object:
        return self.member


class NodePairs(list):
    """(name, classifier) tuples of nodes that may have any name.

    Names that a user writes in ``estimators`` are names of parameters, too, as those of
    all lists of scikit-learn are. Names that come from files, channels or ``nodes`` are
    not, and here no parameter is found by them.
    """

    # To scikit-learn's clone, a subclass of list is an object that it copies.
    def __sklearn_clone__(self) -> "NodePairs":
        return NodePairs((name, clone(member, safe=False)) for name, member in self)


def _is_pair(member: object) -> bool:
    """Report whether a member is a (name, classifier) tuple."""
    return isinstance(member, tuple) and len(member) == 2 and isinstance(member[0], str)


def is_named(estimators: object) -> bool:
    """Report whether this is a list of (name, classifier) tuples, of at least one."""
    is_list = isinstance(estimators, (list, tuple)) and len(estimators) > 0
    return is_list and all(map(_is_pair, estimators))


def _names_parameters(estimators: object) -> bool:
    """Report whether the names in this list are names of parameters."""
    return is_named(estimators) and not isinstance(estimators, NodePairs)


def is_channel(estimators: object) -> bool:
    """Report whether this is a channel to nodes, in place of their classifiers."""
    return hasattr(estimators, "ask") and hasattr(estimators, "names")


def _members(estimators: object) -> list:
    """The classifiers without their names; none behind a channel or None."""
    if estimators is None or is_channel(estimators):
        return []
    if not isinstance(estimators, (list, tuple)):
        return [estimators]
    return [member[1] if _is_pair(member) else member for member in estimators]


def _members_of_key(key: str, *, estimators: object, params: Mapping) -> list:
    """The members of which a key of ``set_params`` sets a parameter."""
    name, separator, _ = key.partition("__")
    if not separator:
        return []
    if name == "estimators":
        if estimators is None:
            raise ValueError(
                f"Cannot set {key!r}: estimators is None, so it has no parameters to "
                "set. Pass the unfitted classifier that None stands for."
            )
        return _members(estimators)
    members = dict(estimators) if _names_parameters(estimators) else {}
    if name not in members:
        return []
    # The same call may replace the member, and sets parameters of the new one then.
    return [params.get(name, members[name])]


def _check_not_fitted(key: str, *, estimators: object, params: Mapping) -> None:
    """Raise ValueError where a key is of a parameter of fitted members, or of none."""
    for member in _members_of_key(key, estimators=estimators, params=params):
        if is_fitted(member):
            raise ValueError(
                f"Cannot set {key!r}: the local estimator {type(member).__name__} is "
                "fitted, and a fitted local estimator is never altered. Give unfitted "
                "ones."
            )


def _hand_over_if_fitted(member: object) -> object:
    if _is_pair(member):
        return member[0], _hand_over_if_fitted(member[1])
    try:
        stays_as_it_is = is_channel(member) or is_fitted(member)
    except TypeError:  # no classifier at all: fit() says so, clone() does not judge
        stays_as_it_is = False
    return _HandedOver(member) if stays_as_it_is else member


class MemberParametersMixin(ShortFormsMixin, BaseComposition):
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
        if _names_parameters(self.estimators):
            return self._get_params("estimators", deep=deep)
        return super().get_params(deep=deep)

    def set_params(self, **params) -> Self:
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
        # All keys are checked before any is set: a call is done as a whole or not.
        for key in params:
            _check_not_fitted(key, estimators=estimators, params=params)
        params_of_all_members = {}
        if isinstance(estimators, (list, tuple)):
            # scikit-learn sets parameters of one estimator, not of a list.
            for key in [key for key in params if key.startswith("estimators__")]:
                name = key.removeprefix("estimators__")
                params_of_all_members[name] = params.pop(key)
        if _names_parameters(estimators):
            self._set_params("estimators", **params)
        else:
            super().set_params(**params)
        if params_of_all_members:
            for member in _members(self.estimators):
                member.set_params(**params_of_all_members)
        return self

    def __sklearn_clone__(self):
        shell = copy.copy(self)
        if isinstance(self.estimators, (list, tuple)):
            sequence_type = type(self.estimators)
            shell.estimators = sequence_type(
                [_hand_over_if_fitted(member) for member in self.estimators]
            )
        elif self.estimators is not None:
            shell.estimators = _hand_over_if_fitted(self.estimators)
        return clone_parametrized(shell)


def named_members(
    estimators: object, parameter_names: Iterable[str] = ()
) -> tuple[list[str], list]:
    """Split ``estimators`` into names (indices, if there are none) and classifiers.

    Names in tuples must not be those of the aggregator's parameters,
    ``parameter_names``, as ``set_params`` could not tell them apart. In `NodePairs`
    they may be any.
    """
    members = _listed_members(estimators)
    # A numpy.str_ would show as such.
    names = [str(member[0]) for member in members if _is_pair(member)]
    if not names:
        return [str(index) for index in range(len(members))], members
    if not isinstance(estimators, NodePairs):
        check_are_no_parameters(names, parameter_names=parameter_names)
    if len(names) < len(members):
        raise TypeError(
            "estimators mixes (name, classifier) tuples with bare classifiers; name "
            "all of them or none."
        )
    _check_names(names)
    return names, [classifier for _, classifier in members]


def _listed_members(estimators: object) -> list:
    """Return ``estimators`` as a list, of one if it is no list; not an empty one."""
    # These have no order that a second reading is sure to repeat, or none at all; and
    # an array may have made one of its tuples.
    if isinstance(estimators, (Mapping, Set, Iterator, np.ndarray)):
        raise TypeError(
            "estimators must be a list of classifiers or of (name, classifier) tuples, "
            f"or one classifier, got {type(estimators).__name__}; make a list of it."
        )
    is_list = isinstance(estimators, (list, tuple)) and not _is_pair(estimators)
    members = list(estimators) if is_list else [estimators]
    if not members:
        raise ValueError(
            "estimators is an empty list; give at least one classifier, or None for "
            "the default one."
        )
    return members


def _check_names(names: Sequence[str]) -> None:
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise ValueError(
            f"estimators has two nodes of the same name: {repeated!r}. Give each node "
            "a name of its own."
        )
    if PUBLIC_NAME in names:
        raise ValueError(
            f"{PUBLIC_NAME!r} cannot be the name of a node, since it marks public "
            "rows. Give the node another name."
        )


def check_are_no_parameters(
    names: Iterable[str], *, parameter_names: Iterable[str]
) -> None:
    """Raise ValueError for a name in a tuple that names a parameter, too."""
    for name in names:
        if "__" in name or name in parameter_names:
            raise ValueError(
                f"{name!r} cannot be the name of a node in a (name, classifier) tuple: "
                "it must neither contain a double underscore nor be a parameter of the "
                "aggregator, as set_params finds both by their names. Give the node "
                "another name."
            )


def split_by_state(names: Sequence[str], members: Sequence) -> bool:
    """Report whether members are fitted, None too; ValueError if only some are."""
    ready = []
    unfitted = []
    for name, member in zip(names, members, strict=True):
        if member is None or is_fitted(member, name=name):
            ready.append(name)
        else:
            unfitted.append(name)
    if not unfitted:
        return True
    if not ready:
        return False
    # Not `None in members`: a classifier may compare equal to whatever it likes.
    if any(member is None for member in members):
        raise ValueError(
            f"estimators mixes fitted and unfitted classifiers: nodes {ready!r} are "
            f"fitted or have none, nodes {unfitted!r} are not. Fit them all, or give "
            "only unfitted ones to have each trained on its node's rows."
        )
    raise ValueError(
        f"estimators mixes fitted and unfitted classifiers: nodes {ready!r} are "
        f"fitted, nodes {unfitted!r} are not. Fit them all, or give only unfitted ones "
        "to have each trained on its node's rows."
    )


def seeded_clone(
    estimator: BaseEstimator, random_state: np.random.RandomState
) -> BaseEstimator:
    """An unfitted copy, in which each ``random_state`` that was None is a seed."""
    unfitted = clone(estimator)
    # Sorted, so that the same parameter always draws the same seed.
    params = sorted(unfitted.get_params(deep=True).items())
    seeds = {
        key: random_state.randint(SEEDS_BELOW)
        for key, value in params
        if value is None and (key == "random_state" or key.endswith("__random_state"))
    }
    return unfitted.set_params(**seeds) if seeds else unfitted
