"""Read the parameter ``estimators``: classifiers, summaries and the files of summaries.

A summary stands for a node that is not here. It was made for one method with certain
settings, which have to be those of the aggregator that is to be fitted on it.
"""

import os
from dataclasses import replace
from typing import NamedTuple

from ..base import (
    BaseAggregator,
    NodePairs,
    check_are_no_parameters,
    is_named,
    named_members,
)
from ..compat import tracked
from ..steps import Front, front_of_content
from ._fronts import fitted_without_learning, raise_front_not_fitted
from ._summary import Summary, is_path
from ._templates import with_modules


class Members(NamedTuple):
    """The members of an aggregator; each list has one entry a node."""

    names: list[str]
    # Fitted or not; the Network of a summary; None for a node of rows alone.
    classifiers: list
    summaries: list[Summary | None]  # None where the classifier itself is here


def read_members(
    aggregator: BaseAggregator,
    estimators: object,
    *,
    come_over_channel: bool = False,
) -> Members:
    """Names, classifiers and summaries; these may be given as paths of their files.

    Settings of summaries that ``come_over_channel`` are not compared to those of the
    aggregator, which has sent them itself.
    """
    _check_is_no_tuple_of_paths(estimators)
    pairs = _pairs_in(estimators)
    if not isinstance(estimators, NodePairs):
        check_are_no_parameters(
            [name for name, _ in pairs if name is not None],
            parameter_names=aggregator._get_param_names(),
        )
    if any(isinstance(member, Summary) or is_path(member) for _, member in pairs):
        estimators = _with_summaries_opened(
            aggregator, pairs, come_over_channel=come_over_channel
        )
    names, members = named_members(estimators)
    _check_kinds_of_labels(names, members)
    names, members, classifiers = with_modules(names, members)
    return Members(
        names=names,
        classifiers=classifiers,
        summaries=[
            member if isinstance(member, Summary) else None for member in members
        ],
    )


def members_here(estimators: object) -> dict[str, object]:
    """Return the entries that are neither summaries nor paths, by name or place.

    No file is read. So this may be asked before an aggregator knows its own settings,
    with which those of summaries are compared.
    """
    return {
        str(place) if name is None else name: member
        for place, (name, member) in enumerate(_pairs_in(estimators))
        if not (isinstance(member, Summary) or is_path(member))
    }


def _check_is_no_tuple_of_paths(estimators: object) -> None:
    """Raise TypeError for ("lyon", "lyon.safetensors"), which may mean two things."""
    if isinstance(estimators, tuple) and estimators and all(map(is_path, estimators)):
        raise TypeError(
            f"estimators is a tuple of texts, {estimators[:3]!r}, which may be a name "
            "and a path, or paths. Give a list: [(name, path)], or [path, path]."
        )


def _pairs_in(estimators: object) -> list[tuple]:
    """Pairs of a name, None where there is none, and a member."""
    is_one = not isinstance(estimators, list | tuple) or is_named([estimators])
    members = [estimators] if is_one else estimators
    return [member if is_named([member]) else (None, member) for member in members]


def _with_summaries_opened(
    aggregator: BaseAggregator, pairs: list[tuple], *, come_over_channel: bool
) -> NodePairs:
    """Pairs of names and members, in which no member is a path, and all have names.

    A summary has the name of its node, all others their place in the list.
    """
    # Made once for all nodes, and only if there are summaries to compare with it.
    agreed: _Agreed | None = None
    opened = NodePairs()  # summaries have the names of their files
    for index, (name, member) in enumerate(tracked(pairs, "files")):
        name_or_place = str(index) if name is None else name
        if is_path(member):
            member = _open_summary(member, name=name_or_place)
        if not isinstance(member, Summary):
            opened.append((name_or_place, member))
            continue
        _check_has_name(member, name)
        if not come_over_channel:
            if agreed is None:
                agreed = _Agreed.from_aggregator(aggregator, name=member.name)
            agreed.check(member)
        opened.append((member.name, member))
    return opened


def _open_summary(path: str | os.PathLike, *, name: str) -> Summary:
    try:
        return Summary.at(path)
    except FileNotFoundError:
        raise FileNotFoundError(
            f"Node {name!r}: {os.fspath(path)!r} is read as the path of a summary, but "
            "there is no such file. Pass the path of a file that the node sent."
        ) from None


def _check_has_name(summary: Summary, name: str | None) -> None:
    """Raise ValueError where a summary was listed under the name of another node."""
    if name not in (None, summary.name):
        raise ValueError(
            f"Node {name!r} has a summary whose name is {summary.name!r}; leave the "
            "name out, or give the node's own."
        )


def _check_kinds_of_labels(names: list[str], members: list) -> None:
    """Raise ValueError where truth values and numbers would be taken for each other."""
    first_name = {}  # by whether its labels are truth values
    for name, member in zip(names, members, strict=True):
        if isinstance(member, Summary):
            are_truth_values = member.network.classes.dtype.kind == "b"
            first_name.setdefault(are_truth_values, name)
    if len(first_name) > 1:
        raise ValueError(
            f"Node {first_name[True]!r} has truth values as labels, but node "
            f"{first_name[False]!r} has labels of another type, in which 0 and 1 would "
            "be taken for truth values. Give all nodes labels of one type."
        )


class _Agreed(NamedTuple):
    """What all summaries must have been made for."""

    method: str
    settings: dict
    front: Front | None

    @classmethod
    def from_aggregator(cls, aggregator: BaseAggregator, *, name: str) -> "_Agreed":
        """Read an aggregator's agreed terms; TypeError if it takes no summaries.

        ``name`` is that of a node with a summary.
        """
        fitted = fitted_without_learning(aggregator._agreed_front)
        terms = aggregator._agreed_terms
        if terms is not None and fitted is not None:
            terms = replace(terms, front=fitted)
        if terms is None or not terms.takes_files:
            raise TypeError(
                f"Node {name!r} is a summary, but {type(aggregator).__name__} needs "
                "the classifiers themselves: give it the fitted estimators."
            )
        # Settings may be invalid for all nodes.
        return cls(
            method=terms.method,
            settings=terms.settings_at_nodes,
            front=terms.front,
        )

    def check(self, summary: Summary) -> None:
        """Raise where a summary was made for another method, or other settings."""
        if summary.method != self.method:
            raise ValueError(
                f"Node {summary.name!r} was summarized for {summary.method}, not for "
                f"{self.method}. Have the node summarize again, with the method that "
                "is fitted here."
            )
        for name in sorted(set(self.settings) | set(summary.settings)):
            if self.settings.get(name) != summary.settings.get(name):
                _raise_of_setting(
                    name, settings=self.settings, summary=summary, front=self.front
                )


def _raise_of_setting(
    name: str, *, settings: dict, summary: Summary, front: Front | None
) -> None:
    """Raise for a setting that differs between an aggregator and a summary."""
    setting = settings.get(name)
    if name == "front" and setting is not None and "fitted" not in setting:
        raise_front_not_fitted(front)
    raise ValueError(
        f"Node {summary.name!r} was summarized with "
        f"{name}={_setting_in_words(summary.settings.get(name))}, but the aggregator "
        f"has {name}={_setting_in_words(setting)}. This parameter has an effect at the "
        "nodes, so it cannot be changed or searched over here. Give the aggregator the "
        "value of the nodes, or have the nodes summarize again."
    )


def _setting_in_words(setting: object) -> str:
    """A setting as users would write it; fronts and parts are dicts in messages."""
    if isinstance(setting, dict) and "tree" in setting:
        return f"{front_of_content(setting).transformer} fitted to {setting['fitted']}"
    if isinstance(setting, dict) and "name" in setting:
        parameters = [
            f"{name}={value!r}" for name, value in setting.items() if name != "name"
        ]
        return f"{setting['name']}({', '.join(parameters)})"
    return repr(setting)
