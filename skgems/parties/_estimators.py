"""The estimators of all parties: the parameter, and what classifiers have in common.

Members are classifiers, summaries or the files of summaries. A summary stands for a
node that is not here. It was made for one method with certain settings, which have to
be those of the aggregator that is to be fitted on it.

Each classifier is read to a `Network`, or, where weights are not needed, to a
`Description` of its classes and features. All have to be of the same features; classes
may differ, and those of the federation are all that some node has seen.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ..base import (
    BaseAggregator,
    Features,
    NodePairs,
    Takes,
    check_are_no_parameters,
    is_named,
    named_members,
    warn_user,
)
from ..compat import tracked
from ..local import Description, LocalModel, local_model, net_of_state
from ..networks import ModuleState, Network, final_step, is_fitted, union_of_classes
from ..steps import Front, front_of_content
from ._fronts import fitted_without_learning, raise_front_not_fitted
from ._nodes import check_feature_names, raise_without_classifier
from ._summary import Summary, is_path

# What stands for a node that is not here: its summary, or the path of the file.
_SUMMARIES = (Summary, str, os.PathLike)


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
    if not _has_summaries(estimators):
        names, classifiers = named_members(estimators, aggregator._get_param_names())
        return Members(
            names=names, classifiers=classifiers, summaries=[None] * len(names)
        )
    _check_is_no_tuple_of_paths(estimators)
    pairs = _pairs_in(estimators)
    if not isinstance(estimators, NodePairs):
        check_are_no_parameters(
            [name for name, _ in pairs if name is not None],
            parameter_names=aggregator._get_param_names(),
        )
    names, members = named_members(
        _with_summaries_opened(aggregator, pairs, come_over_channel=come_over_channel)
    )
    _check_kinds_of_labels(names, members)
    names, members, classifiers = with_modules(names, members)
    return Members(
        names=names,
        classifiers=classifiers,
        summaries=[
            member if isinstance(member, Summary) else None for member in members
        ],
    )


def _has_summaries(estimators: object) -> bool:
    """Report whether a member is a summary or a path, with a name or without one."""
    members = estimators if isinstance(estimators, list | tuple) else [estimators]
    return any(
        isinstance(member[-1] if is_named([member]) else member, _SUMMARIES)
        for member in members
    )


def members_here(estimators: object) -> dict[str, object]:
    """Return the entries that are neither summaries nor paths, by name or place.

    No file is read. So this may be asked before an aggregator knows its own settings,
    with which those of summaries are compared.
    """
    return {
        str(place) if name is None else name: member
        for place, (name, member) in enumerate(_pairs_in(estimators))
        if not isinstance(member, _SUMMARIES)
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


# ---- modules that summaries have only the numbers of ---------------------------------


def with_modules(
    names: list[str], members: list[object]
) -> tuple[list[str], list[object], list[object]]:
    """Return names, members and classifiers, in which numbers of modules are nets.

    An unfitted net beside summaries is no node: it is the module that they are of, and
    is left out.
    """
    pairs = list(zip(names, members, strict=True))
    of_modules = [name for name, member in pairs if _is_of_module(member)]
    template = None
    if of_modules:
        template = _template(members, name=of_modules[0])
        if not _is_fitted(template):
            pairs = [(name, member) for name, member in pairs if member is not template]
    classifiers = [_classifier(member, template, name=name) for name, member in pairs]
    return [name for name, _ in pairs], [member for _, member in pairs], classifiers


def _is_of_module(member: object) -> bool:
    return isinstance(member, Summary) and isinstance(member.network, ModuleState)


def _classifier(member: object, template: object, *, name: str) -> object:
    """Return the classifier of a node; ``template`` is a net if any needs one."""
    if _is_of_module(member):
        return net_of_state(template, member.network, name=name)
    return member.network if isinstance(member, Summary) else member


def _template(members: list[object], *, name: str) -> object:
    """Return the net whose module is that of summaries; ``name`` is a node of these."""
    nets = [
        member
        for member in members
        if not isinstance(member, Summary) and local_model(member).has_module
    ]
    unfitted = [net for net in nets if not _is_fitted(net)]
    if not nets or len(unfitted) > 1:
        raise ValueError(
            f"The summary of node {name!r} has the numbers of a module, but no code, "
            f"and estimators has {len(unfitted)} unfitted nets of such a module. Give "
            "one beside the summaries, as the list [net, *summaries]."
        )
    return (unfitted or nets)[0]


def _is_fitted(net: object) -> bool:
    return is_fitted(final_step(net))


# ---- classifiers, read ---------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class Models:
    """The classifiers of all nodes, as they were read, and what they have in common."""

    local_models: list[LocalModel]
    networks: list[Network | Description]  # weights, or only classes and features
    classes: np.ndarray  # (n_classes,), sorted labels that some node has seen
    seen: np.ndarray  # (n_nodes, n_classes), bool: which node has seen which class
    features: Features


def read_models(
    aggregator: BaseAggregator,
    members: Members,
    *,
    takes: Takes,
    has_front: bool,
    features_of_rows: Features | None,
    labels: np.ndarray | None,
) -> Models:
    """Read all classifiers; ValueError or TypeError where one cannot be used.

    Each is read as plain arrays, or only its classes, which any classifier has.
    ``labels`` are those of the rows, (n_rows,); it and the features are None where
    there are no rows.
    """
    local_models = [
        local_model(classifier, name=name)
        for name, classifier in zip(members.names, members.classifiers, strict=True)
    ]
    networks = [
        model.network if takes.networks else model.description for model in local_models
    ]
    _check_can_be_used(aggregator, local_models, takes=takes)
    networks, features = _with_common_features(
        members.names,
        networks,
        features_of_rows,
        are_left_aside=has_front and not takes.learnt,
    )
    classes = union_of_classes(networks, names=members.names)
    seen = [_has_seen(network, classes) for network in networks]
    if labels is not None and labels.dtype != classes.dtype:
        classes = _as_wide_as(labels, classes)
    return Models(
        local_models=local_models,
        networks=networks,
        classes=classes,
        seen=np.stack(seen),
        features=features,
    )


def _check_can_be_used(
    aggregator: BaseAggregator, models: list[LocalModel], *, takes: Takes
) -> None:
    """Raise TypeError for nodes of rows alone, and warn of what nets cannot pass on."""
    for model in models:
        is_network = isinstance(model.estimator, Network)
        if is_network and not takes.rows_alone and not model.estimator.has_classifier:
            raise_without_classifier(type(aggregator).__name__, model.name)
    nets = [model for model in models if model.may_lose_settings]
    if nets:
        _warn_of_lost_settings(nets, voting=getattr(aggregator, "voting", None))


def _warn_of_lost_settings(nets: list[LocalModel], *, voting: str | None) -> None:
    """Warn of what users have set at nets and an aggregate does not have.

    ``voting`` is "soft" or "hard" of a vote, and None of all else.
    """
    if voting == "hard":  # labels are counted as classifiers predict them
        return
    for net in nets:
        lost = net.lost_setting(merged=voting is None)
        if lost is not None:
            warn_user(f"Node {net.name!r}: {lost}")


def _has_seen(network: Network | Description, classes: np.ndarray) -> np.ndarray:
    """Return which classes a node has seen, (n_classes,).

    Labels are compared as Python has them: of whole numbers with and without a sign
    numpy would make floats, which have fewer digits.
    """
    seen_labels = set(network.classes[network.seen].tolist())
    return np.array([label in seen_labels for label in classes.tolist()])


def _as_wide_as(labels: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """The classes in a dtype that holds the labels of the rows, too.

    As np.unique(y) has it: an MLPClassifier cuts objects to texts of its own width.
    """
    if labels.dtype.kind in ("O", classes.dtype.kind):
        return classes.astype(np.result_type(classes, labels))
    return classes


def _with_features_of_rows(
    networks: list[Network | Description], features_of_rows: Features | None
) -> list[Network | Description]:
    """Descriptions whose features are those behind the front, not those before it.

    Nodes' classifiers are left aside then, and may be of rows before the front. A
    Network was made of rows behind it.
    """
    if features_of_rows is None:
        return networks
    n_features = features_of_rows.n_features_in
    return [
        network
        if isinstance(network, Network)
        else replace(
            network, n_features_in=n_features, feature_names_in=None, dropped=None
        )
        for network in networks
    ]


def _with_common_features(
    names: Sequence[str],
    networks: list[Network | Description],
    features_of_rows: Features | None,
    *,
    are_left_aside: bool,
) -> tuple[list[Network | Description], Features]:
    """Return networks of the same features, and these; ValueError if they differ.

    Classifiers ``are_left_aside`` behind a front that nodes agree on.
    """
    if features_of_rows is not None and features_of_rows.n_features_in is None:
        _check_take_documents(networks, names)
    if any(network.n_features_in is None for network in networks):
        networks = _with_numbers_of_features(networks)
    if are_left_aside:
        networks = _with_features_of_rows(networks, features_of_rows)
    return networks, _common_features(names, networks, features_of_rows)


def _check_take_documents(
    networks: list[Network | Description], names: Sequence[str]
) -> None:
    """Raise ValueError for a classifier of columns where rows are documents."""
    for name, network in zip(names, networks, strict=True):
        if network.n_features_in is not None:
            raise ValueError(
                "X holds documents, one text or dict a row, but the classifier of node "
                f"{name!r} was fitted on rows of {network.n_features_in} features. "
                "Give all nodes pipelines that begin with a vectorizer, or pass X as "
                "these features."
            )


def _with_numbers_of_features(
    networks: list[Network | Description],
) -> list[Network | Description]:
    """Return networks in which those without a number of features have the others'."""
    numbers = [
        network.n_features_in
        for network in networks
        if network.n_features_in is not None
    ]
    if not numbers:
        return networks
    return [
        replace(network, n_features_in=numbers[0])
        if network.n_features_in is None
        else network
        for network in networks
    ]


def _common_features(
    names: Sequence[str],
    networks: list[Network | Description],
    features_of_rows: Features | None,
) -> Features:
    """The features of all nodes and of the rows; ValueError if these differ."""
    numbers = [network.n_features_in for network in networks]
    if len(set(numbers)) > 1:
        raise ValueError(
            "The local estimators were fitted on different numbers of features: "
            f"{dict(zip(names, numbers, strict=True))}. Nodes must describe their "
            "rows by the same features."
        )
    names_of_nodes = [network.feature_names_in for network in networks]
    if features_of_rows is None:
        check_feature_names(names, networks, None)
        features = Features(n_features_in=numbers[0]).with_names_of_nodes(
            names_of_nodes
        )
        return replace(features, named_by_nodes=False)  # no rows lacked these names
    if numbers[0] not in (None, features_of_rows.n_features_in):
        raise ValueError(
            f"X has {features_of_rows.n_features_in} features, but the local "
            f"estimators were fitted on {numbers[0]} features. Give X the features "
            "that they were fitted on."
        )
    if all(feature_names is None for feature_names in names_of_nodes):
        return features_of_rows
    check_feature_names(names, networks, features_of_rows.feature_names_in)
    return features_of_rows.with_names_of_nodes(names_of_nodes)
