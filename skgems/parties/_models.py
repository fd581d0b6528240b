"""The classifiers of all nodes, read, and what they have in common.

Each is read to a `Network`, or, where weights are not needed, to a `Description` of its
classes and features. All have to be of the same features; classes may differ, and those
of the federation are all that some node has seen.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..base import BaseAggregator, Features, warn_user
from ..local import Description, LocalModel, local_model
from ..networks import Network, union_of_classes
from ._federation import Node
from ._given_rows import GivenRows
from ._members import Members
from ._nodes import Roles, check_feature_names, raise_without_classifier
from ._summary import Summary


@dataclass(frozen=True, eq=False, kw_only=True)
class Models:
    """The classifiers of all nodes, as they were read, and what they have in common."""

    local_models: list[LocalModel]
    networks: list[Network | Description]  # weights, or only classes and features
    classes: np.ndarray  # (n_classes,), sorted labels that some node has seen
    seen: np.ndarray  # (n_nodes, n_classes), bool: which node has seen which class
    features: Features

    def node(
        self,
        k: int,
        roles: Roles,
        *,
        row_counts: Mapping,
        summary: Summary | None = None,
    ) -> Node:
        """Node ``k`` with the roles of its rows; ``summary``: if it sent one."""
        return Node(
            name=self.local_models[k].name,
            model=self.local_models[k],
            network=self.networks[k],
            seen=self.seen[k],
            judging_rows=roles.judging,
            moment_rows=roles.moments,
            training_rows=roles.training,
            record=summary,
            row_counts=row_counts,
        )


def read_models(
    aggregator: BaseAggregator,
    members: Members,
    rows: GivenRows | None,
    *,
    has_front: bool,
) -> Models:
    """Read all classifiers; ValueError or TypeError where one cannot be used."""
    local_models = [
        local_model(classifier, name=name)
        for name, classifier in zip(members.names, members.classifiers, strict=True)
    ]
    takes = aggregator._method().takes
    networks = [_read(model, as_network=takes.networks) for model in local_models]
    _warn_of_lost_settings(local_models, voting=getattr(aggregator, "voting", None))
    needed_by = "" if takes.rows_alone else type(aggregator).__name__
    _check_networks(networks, members.names, rows, needed_by=needed_by)
    networks = _with_numbers_of_features(networks)
    if has_front and not takes.learnt:
        networks = _with_features_of_rows(networks, rows)
    features = _common_features(
        members.names, networks, None if rows is None else rows.features
    )
    classes = union_of_classes(networks, names=members.names)
    seen = [_has_seen(network, classes) for network in networks]
    if rows is not None:
        classes = _as_wide_as(rows.y, classes)
    return Models(
        local_models=local_models,
        networks=networks,
        classes=classes,
        seen=np.stack(seen),
        features=features,
    )


def _check_networks(
    networks: list[Network | Description],
    names: list[str],
    rows: GivenRows | None,
    *,
    needed_by: str,
) -> None:
    """Raise where a node's classifier is needed and lacks, or takes no documents.

    ``needed_by`` is the type of the aggregator; "" where rows alone will do.
    """
    for name, network in zip(names, networks, strict=True):
        if needed_by and _is_of_rows_alone(network):
            raise_without_classifier(needed_by, name)
        if rows is not None:
            _check_takes_documents(network, rows.features, name=name)


def _warn_of_lost_settings(models: list[LocalModel], *, voting: str | None) -> None:
    """Warn of what users have set at classifiers and an aggregate does not have.

    ``voting`` is "soft" or "hard" of a vote, and None of all else.
    """
    if voting == "hard":  # labels are counted as classifiers predict them
        return
    for model in models:
        lost = model.lost_setting(merged=voting is None)
        if lost is not None:
            warn_user(f"Node {model.name!r}: {lost}")


def _read(model: LocalModel, *, as_network: bool) -> Network | Description:
    """A classifier as plain arrays, or only its classes, which any classifier has."""
    return model.network if as_network else model.description


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


def _is_of_rows_alone(network: Network | Description) -> bool:
    return isinstance(network, Network) and not network.has_classifier


def _check_takes_documents(
    network: Network | Description, features_of_rows: Features, *, name: str
) -> None:
    """Raise ValueError for a classifier of columns where rows are documents."""
    rows_are_documents = features_of_rows.n_features_in is None
    if rows_are_documents and network.n_features_in is not None:
        raise ValueError(
            "X holds documents, one text or dict a row, but the classifier of node "
            f"{name!r} was fitted on rows of {network.n_features_in} features. Give "
            "all nodes pipelines that begin with a vectorizer, or pass X as these "
            "features."
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


def _with_features_of_rows(
    networks: list[Network | Description], rows: GivenRows | None
) -> list[Network | Description]:
    """Descriptions whose features are those behind the front, not those before it.

    Nodes' classifiers are left aside then, and may be of rows before the front. A
    Network was made of rows behind it.
    """
    if rows is None:
        return networks
    n_features = rows.features.n_features_in
    return [
        network
        if isinstance(network, Network)
        else replace(
            network, n_features_in=n_features, feature_names_in=None, dropped=None
        )
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
    check_feature_names(names, networks, features_of_rows.feature_names_in)
    return features_of_rows.with_names_of_nodes(names_of_nodes)
