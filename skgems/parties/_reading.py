"""Read what a user gave to ``fit`` into a Federation.

Three things are read, one after the other. First the *members*: classifiers, summaries,
or a channel to nodes. Then the *rows*: validated, behind the front, with the node that
owns each; members that are not fitted are trained on them, as a simulation. Last the
*roles*: which rows of each node judge models, make its moments and train it.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.multiclass import check_classification_targets

from ..base import (
    MOST_LISTED,
    BaseAggregator,
    Features,
    Takes,
    encode_labels,
    validated_for_fit,
    warn_user,
)
from ..compat import safe_indexing, say
from ..datasets import as_groups
from ..disclosure import Disclosure, disclosure_within
from ..local import LocalModel, Member
from ..networks import Network
from ..steps import DocumentFront, Front, as_rows
from . import _nodes
from ._estimators import Members, Models, read_models
from ._federation import Federation, Node
from ._fronts import transform_by_front
from ._labels import bare_label, check_labels, shown_labels, told_apart
from ._nodes import Roles, Rows, RowsLike, WeightedRows
from ._rows import check_is_behind_front, warn_of_another_front
from ._simulation import Simulation, simulate
from ._small_classes import of_large_classes_alone
from ._summary import Summary

# Code of a row whose node, behind a channel, takes no part: no index of a node, and not
# the code of public rows.
_LEFT_OUT = -2
# Letters of the dtypes of classes that are no texts, and are not written in two ways.
_NUMERIC_LABELS = "biuf"
_no_rows = partial(np.empty, 0, dtype=np.intp)


def read_parties(
    aggregator: BaseAggregator,
    user_rows: WeightedRows,
    *,
    takes: Takes,
    members: Members,
    reached: Sequence[str],
    simulation: Simulation | None,
    joined: Any,
    front: Front | None,
    front_history: list[dict],
) -> Federation:
    """Return the nodes and their rows, of what a user gave.

    ``user_rows`` are as the front takes them, and their nodes are among those that are
    ``reached``. ``simulation`` says how members are trained if they are not fitted.
    ``joined``, which is kept for later requests, is the run over their channel or None.
    """
    members, rows = _read_members_and_rows(
        aggregator,
        user_rows,
        members=members,
        simulation=simulation,
        reached=reached,
        front=front,
        drops_front=takes.learnt,
    )
    summaries = members.summaries
    models = read_models(
        aggregator,
        members,
        takes=takes,
        has_front=front is not None,
        features_of_rows=None if rows is None else rows.features,
        labels=None if rows is None else rows.y,
    )
    codes = _encoded_labels(
        models, rows, summaries=summaries, is_simulated=simulation is not None
    )
    assignment = _assign_rows(models, rows, codes, summaries=summaries)
    if any(summary is not None for summary in summaries):
        _check_labels_of_summaries(summaries, models.classes)
    disclosure = disclosure_within(aggregator.disclosure)
    federation = Federation(
        nodes=_read_nodes(
            models,
            rows,
            codes,
            assignment=assignment,
            summaries=summaries,
            disclosure=disclosure,
        ),
        classes=models.classes,
        features=models.features,
        public_rows=assignment.public_rows,
        rows_are_shared=assignment.rows_are_shared,
        spare_rows=assignment.spare_rows,
        joined=joined,
        front=front,
        front_history=front_history,
        disclosure=disclosure,
    )
    if rows is not None:
        federation = replace(
            federation, X=rows.X, y=codes, groups=rows.groups, weights=rows.weights
        )
    if front is not None and takes.learnt and simulation is None:
        _warn_of_members_of_another_front(federation)
    if models.classes.dtype.kind not in _NUMERIC_LABELS:
        _warn_of_alike_labels(federation)
    return federation


# ---- rows ----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class GivenRows:
    """The rows that were given to ``fit``: validated, and behind the front."""

    X: Rows
    y: np.ndarray  # (n_rows,), labels
    features: Features
    # The rows as they were given, if their columns have names: classifiers that choose
    # columns by these are trained on them. None where there are no names, or a front.
    table: RowsLike | None
    held_out: np.ndarray | None  # (n_rows,), bool: rows that only score; None: none
    # (n_rows,), int: group of each row, whose rows stay together; None: nobody said.
    groups: np.ndarray | None = None
    weights: np.ndarray | None = None  # (n_rows,), how much each counts; None: once
    # (n_rows,), int: index of the node that owns each row, -1 for public rows. None:
    # nobody said, and a row is of each node whose classifier has seen its label.
    owners: np.ndarray | None = None
    # (n_rows,), bool: rows that their simulated node did not train on. None: nodes are
    # not simulated.
    not_trained_on: np.ndarray | None = None

    def __getitem__(self, chosen: np.ndarray) -> "GivenRows":
        """Some of the rows, by a mask of shape (n_rows,)."""
        return replace(
            self,
            X=self.X[chosen],
            y=self.y[chosen],
            table=(
                None
                if self.table is None
                else safe_indexing(self.table, np.flatnonzero(chosen))
            ),
            held_out=None if self.held_out is None else self.held_out[chosen],
            groups=None if self.groups is None else self.groups[chosen],
            weights=None if self.weights is None else self.weights[chosen],
            owners=None if self.owners is None else self.owners[chosen],
        )


def read_rows(aggregator: BaseAggregator, user_rows: WeightedRows) -> GivenRows | None:
    """Rows without a front, validated, whose owners are not read yet."""
    X = user_rows.X
    if X is None:
        _check_describe_nothing(user_rows)
        return None
    table = X if hasattr(X, "columns") else None
    (X, y), features = validated_for_fit(aggregator, X, user_rows.y)
    check_classification_targets(y)
    held_out = user_rows.held_out
    groups = user_rows.groups
    return GivenRows(
        X=X,
        y=y,
        features=features,
        table=table,
        held_out=None if held_out is None else _nodes.as_mask(held_out, X),
        groups=None if groups is None else as_groups(groups, X),
        weights=user_rows.weights,
    )


def _check_describe_nothing(user_rows: WeightedRows) -> None:
    """Raise ValueError where something is said of rows that are missing."""
    descriptions = (user_rows.y, user_rows.nodes, user_rows.held_out, user_rows.groups)
    if any(description is not None for description in descriptions):
        raise ValueError(
            "y, nodes, held_out and groups describe the rows of X, which is "
            "missing. Give fit X as well, or none of them."
        )


def as_front_takes_them(front: Front, user_rows: WeightedRows) -> WeightedRows:
    """Return rows as the front takes them: as a table, an array or documents."""
    if user_rows.X is None:
        return user_rows
    takes_documents = isinstance(front, DocumentFront)
    X = front.rows(user_rows.X) if takes_documents else as_rows(user_rows.X)
    return replace(user_rows, X=X)


def rows_behind_front(
    aggregator: BaseAggregator, user_rows: WeightedRows, front: Front
) -> GivenRows | None:
    """Return rows behind a front that is fitted, whose owners are not read yet."""
    if user_rows.X is None:
        return read_rows(aggregator, user_rows)
    X = transform_by_front(
        front,
        user_rows.X,
        user_rows.nodes,
        y=user_rows.y,
        held_out=_nodes.as_mask(user_rows.held_out, user_rows.X),
        groups=as_groups(user_rows.groups, user_rows.X),
        disclosure=disclosure_within(aggregator.disclosure),
    )
    rows = read_rows(aggregator, replace(user_rows, X=X))
    return replace(rows, table=None)


def with_owners(
    rows: GivenRows, nodes: ArrayLike, *, names: Sequence[str], reached: Sequence[str]
) -> GivenRows:
    """The rows of the nodes that take part, and public rows, with the owner of each.

    ``names`` are those of the nodes that take part, of which owners become indices. The
    entries of ``nodes`` speak of all nodes that were ``reached`` over a channel, some
    of which may have been lost since.
    """
    index_of = {name: k for k, name in enumerate(names)}
    indices = [index_of.get(name, _LEFT_OUT) for name in reached]
    # The last is that of public rows, which have the code -1.
    indices.append(_nodes.PUBLIC)
    owners = np.array(indices)[_nodes.node_codes(nodes, reached, rows.X.shape[0])]
    rows = replace(rows, owners=owners)
    takes_part = owners != _LEFT_OUT
    return rows if takes_part.all() else rows[takes_part]


# ---- members and rows ----------------------------------------------------------------


def _read_members_and_rows(
    aggregator: BaseAggregator,
    user_rows: WeightedRows,
    *,
    members: Members,
    simulation: Simulation | None,
    reached: Sequence[str],
    front: Front | None,
    drops_front: bool,
) -> tuple[Members, GivenRows | None]:
    """Return members with a classifier or a Network each, and rows with their owners.

    ``reached`` are all nodes that entries of ``nodes`` may name. ``drops_front`` says
    that classifiers are of rows behind the front, with which their pipelines may begin.
    """
    if front is None:
        rows = read_rows(aggregator, user_rows)
    else:
        rows = rows_behind_front(aggregator, user_rows, front)
    if simulation is not None:
        members, rows = _simulated(members, rows, user_rows.nodes, simulation)
    elif user_rows.nodes is not None:
        rows = with_owners(rows, user_rows.nodes, names=members.names, reached=reached)
    if front is not None and drops_front:
        members = _drop_front(members, front, rows)
    if any(classifier is None for classifier in members.classifiers):
        members = _with_networks_of_rows_alone(members, rows)
    return members, rows


def _simulated(
    members: Members,
    rows: GivenRows | None,
    nodes: ArrayLike | None,
    simulation: Simulation,
) -> tuple[Members, GivenRows]:
    """The members after each was trained on its rows, and rows with their owners."""
    if rows is None:
        raise ValueError(
            "The local estimators are not fitted. Fit them, or give fit X and y, so "
            "that each is trained on the rows of its node."
        )
    simulated = simulate(
        rows.X,
        rows.y,
        table=rows.table,
        names=members.names,
        classifiers=members.classifiers,
        nodes=nodes,
        held_out=rows.held_out,
        groups=rows.groups,
        weights=rows.weights,
        simulation=simulation,
    )
    members = Members(
        names=simulated.names,
        classifiers=simulated.classifiers,
        summaries=[None] * len(simulated.names),
    )
    rows = replace(
        rows, owners=simulated.owners, not_trained_on=simulated.not_trained_on
    )
    return members, rows


def _drop_front(members: Members, front: Front, rows: GivenRows | None) -> Members:
    """Return the members without the front, which pipelines may begin with."""
    classifiers = [
        front.rest_of(classifier, name=name)
        for name, classifier in zip(members.names, members.classifiers, strict=True)
    ]
    if rows is not None:
        for name, classifier in zip(members.names, classifiers, strict=True):
            if not isinstance(classifier, Network):
                check_is_behind_front(name, classifier, rows.X)
    return members._replace(classifiers=classifiers)


def _with_networks_of_rows_alone(members: Members, rows: GivenRows | None) -> Members:
    """The members, with a Network of the node's rows where there is no classifier."""
    classifiers = []
    for k, (name, classifier) in enumerate(
        zip(members.names, members.classifiers, strict=True)
    ):
        if classifier is None:
            is_only_node = len(members.names) == 1
            classifier = _network_of_rows(rows, k, name=name, is_only_node=is_only_node)
        classifiers.append(classifier)
    return members._replace(classifiers=classifiers)


def _network_of_rows(
    rows: GivenRows | None, k: int, *, name: str, is_only_node: bool
) -> Network:
    """Return the network of a node ``k`` that has no classifier, but rows."""
    if rows is None or (rows.owners is None and not is_only_node):
        raise ValueError(
            f"Node {name!r} has no classifier, so fit needs the rows of the node. "
            "Give them, and the node of each row: fit(X, y, nodes=nodes)."
        )
    labels = rows.y if rows.owners is None else rows.y[rows.owners == k]
    if not len(labels):
        _nodes.raise_without_rows(name)
    return Network.from_rows(labels, rows.X, rows.features.feature_names_in)


# ---- labels --------------------------------------------------------------------------


def _encoded_labels(
    models: Models,
    rows: GivenRows | None,
    *,
    summaries: list[Summary | None],
    is_simulated: bool,
) -> np.ndarray:
    """Index of each row's class, shape (n_rows,); empty where there are no rows."""
    if rows is None:
        return _no_rows()
    if rows.owners is not None and not is_simulated:
        _check_labels_of_nodes(models, rows, summaries=summaries)
    # What to do where the classes of a net are numbers of its outputs.
    advice_on_nets = [
        f" Node {model.name!r}: {model.advice_on_labels}"
        for model in models.local_models
        if model.advice_on_labels
    ]
    return encode_labels(
        rows.y, models.classes, advice_on_nets="".join(advice_on_nets[:1])
    )


def _check_labels_of_nodes(
    models: Models, rows: GivenRows, *, summaries: list[Summary | None]
) -> None:
    """Raise ValueError where a node's classifier has seen no label of its rows."""
    for k, (model, network) in enumerate(
        zip(models.local_models, models.networks, strict=True)
    ):
        labels = np.unique(rows.y[rows.owners == k]).tolist()
        # Rows of a node that is not here itself only score the aggregate.
        if not labels or summaries[k] is not None:
            continue
        # That it has seen some is enough: classes are those of all nodes.
        seen_classes = network.classes[network.seen].tolist()
        check_labels(model.name, labels, seen_classes, about_net=model.advice_on_labels)


def _check_labels_of_summaries(
    summaries: list[Summary | None], classes: np.ndarray
) -> None:
    """Raise ValueError where rows of a summary have a label that no node has seen."""
    all_classes = set(classes.tolist())
    for summary in summaries:
        labels = [] if summary is None else summary.row_counts["labels"]
        unseen = [label for label in labels if label not in all_classes]
        if unseen:
            raise ValueError(
                f"node {summary.name!r} has rows of the classes "
                f"{shown_labels(unseen)}, which no node's classifier has seen; these "
                f"have seen {shown_labels(classes.tolist())}. Have the node leave "
                "these rows out, or write their labels as the classifiers were fitted "
                "on them; or add a node whose classifier has seen these classes."
            )


# ---- roles ---------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class _Assignment:
    """Which rows are used for which node; each array has indices of rows, int."""

    rows_of_nodes: list[np.ndarray]  # one array a node
    public_rows: np.ndarray  # of nobody, to tune a model
    spare_rows: np.ndarray  # used by no node that is here, to calibrate
    rows_are_shared: bool  # whether some rows are used for several nodes


def _assign_rows(
    models: Models,
    rows: GivenRows | None,
    codes: np.ndarray,
    *,
    summaries: list[Summary | None],
) -> _Assignment:
    """Use each row for the node that owns it, or for all that have seen its class.

    ``codes`` are the classes of the rows.
    """
    if rows is None:
        return _Assignment(
            rows_of_nodes=[_no_rows() for _ in summaries],
            public_rows=_no_rows(),
            spare_rows=_no_rows(),
            rows_are_shared=False,
        )
    if rows.owners is None:
        # Nodes that are not here have sent their statistics; these are rows of others.
        is_here = np.array([summary is None for summary in summaries])
        return _assign_by_class(codes, models.seen & is_here[:, None])
    is_public = rows.owners == _nodes.PUBLIC
    if rows.held_out is not None:
        is_public &= ~rows.held_out  # what only scores tunes nothing
    return _Assignment(
        rows_of_nodes=[np.flatnonzero(rows.owners == k) for k in range(len(summaries))],
        public_rows=np.flatnonzero(is_public),
        spare_rows=_no_rows(),
        rows_are_shared=False,
    )


def _assign_by_class(codes: np.ndarray, seen: np.ndarray) -> _Assignment:
    """Use each row for all nodes that have seen its class.

    ``codes`` are the classes of the rows, (n_rows,), and ``seen`` says which node has
    seen which class, (n_nodes, n_classes).
    """
    n_nodes_of_class = seen.sum(axis=0)
    return _Assignment(
        rows_of_nodes=[np.flatnonzero(seen_by_node[codes]) for seen_by_node in seen],
        public_rows=_no_rows(),
        spare_rows=np.flatnonzero(n_nodes_of_class[codes] == 0),
        rows_are_shared=bool(np.any(n_nodes_of_class > 1)),
    )


def _read_nodes(
    models: Models,
    rows: GivenRows | None,
    codes: np.ndarray,
    *,
    assignment: _Assignment,
    summaries: list[Summary | None],
    disclosure: Disclosure | None,
) -> list[Node]:
    """The nodes, with what each of their rows is for under a rule of disclosure."""
    nodes = []
    for k, summary in enumerate(summaries):
        rows_of_node = assignment.rows_of_nodes[k]
        left_out = None
        if summary is not None:
            # Rows of a node that has sent its statistics only score the aggregate.
            roles = Roles(judging=rows_of_node, moments=_no_rows(), training=_no_rows())
            row_counts = summary.row_counts
        else:
            roles = _roles_of_member(models, rows, rows_of_node, k=k)
            if rows is not None and disclosure is not None:
                roles, left_out = _roles_in_large_classes(
                    models.local_models[k],
                    models.classes[codes],
                    roles,
                    groups=rows.groups,
                    disclosure=disclosure,
                )
            weights = None if rows is None else rows.weights
            row_counts = _row_counts(
                codes, roles, classes=models.classes, weights=weights
            )
        node = Node(
            name=models.local_models[k].name,
            model=models.local_models[k],
            network=models.networks[k],
            seen=models.seen[k],
            judging_rows=roles.judging,
            moment_rows=roles.moments,
            training_rows=roles.training,
            record=summary,
            row_counts=row_counts,
            left_out=left_out,
        )
        nodes.append(node)
        kind = type(node.model.estimator if summary is None else summary)
        n_rows = len(roles.training) if summary is None else summary.n_rows
        say(
            f"node {node.name}: {kind.__name__}, {node.seen.sum()} classes, "
            f"{'noise' if n_rows is None else f'{n_rows} rows'}"
        )
    return nodes


def _roles_of_member(
    models: Models, rows: GivenRows | None, rows_of_node: np.ndarray, *, k: int
) -> Roles:
    """The roles of the rows of node ``k``, whose classifier is here."""
    if rows is None:
        return Roles(judging=_no_rows(), moments=_no_rows(), training=_no_rows())
    name = models.local_models[k].name
    if not len(rows_of_node) and rows.owners is None:
        seen_classes = models.classes[models.seen[k]].tolist()
        _nodes.raise_without_rows_of_classes(name, seen_classes)
    if not len(rows_of_node):
        _nodes.raise_without_rows(name)
    return _nodes.roles_of(
        name,
        rows_of_node,
        held_out=rows.held_out,
        not_trained_on=rows.not_trained_on,
    )


def _roles_in_large_classes(
    model: LocalModel,
    labels: np.ndarray,
    roles: Roles,
    *,
    groups: np.ndarray | None,
    disclosure: Disclosure,
) -> tuple[Roles, np.ndarray | None]:
    """Return the roles without rows of small classes, and the labels of these.

    ``labels`` and ``groups`` are those of all rows, (n_samples,).
    """
    rows = np.unique(np.concatenate([roles.judging, roles.moments, roles.training]))
    member = Member(
        name=model.name,
        model=model,
        X=rows[:, None],  # in place of features, so that indices of rows come back
        y=labels[rows],
        groups=None if groups is None else groups[rows],
        judging=np.searchsorted(rows, roles.judging),
        moments=np.searchsorted(rows, roles.moments),
        training=np.searchsorted(rows, roles.training),
    )
    member = of_large_classes_alone(member, disclosure)
    roles = Roles(
        judging=member.X[member.judging, 0],
        moments=member.X[member.moments, 0],
        training=member.X[member.training, 0],
    )
    return roles, member.left_out


def _row_counts(
    codes: np.ndarray,
    roles: Roles,
    *,
    classes: np.ndarray,
    weights: np.ndarray | None,
) -> dict:
    """The labels of a node's rows, and the number of rows with each, by role.

    Where rows have weights, there are those of the rows in moments, too.
    """
    codes_of_roles = {
        "judging": codes[roles.judging],
        "moments": codes[roles.moments],
        "training": codes[roles.training],
    }
    present = np.unique(np.concatenate(list(codes_of_roles.values())))
    counts = {
        role: np.bincount(
            np.searchsorted(present, codes_of_role), minlength=len(present)
        )
        for role, codes_of_role in codes_of_roles.items()
    }
    if weights is not None:
        counts["weights"] = np.bincount(
            np.searchsorted(present, codes_of_roles["moments"]),
            weights[roles.moments],
            minlength=len(present),
        )
    return {"labels": classes[present].tolist(), **counts}


# ---- doubts --------------------------------------------------------------------------


def _warn_of_members_of_another_front(federation: Federation) -> None:
    """Warn of classifiers that were here, and seem to be of rows before the front."""
    for node in federation.nodes:
        if node.record is None and len(node.training_rows):
            rows = np.union1d(node.judging_rows, node.moment_rows)
            X, y = federation.labeled(rows)
            warn_of_another_front(node.model, X, y)


def _warn_of_alike_labels(federation: Federation) -> None:
    """Warn of texts that differ in case, blanks or codes, unless a node knows both."""
    groups = [
        " and ".join(
            f"{told_apart(label, set(group) - {label})} (node {name!r})"
            for label, name in group.items()
        )
        for group in _groups_of_alike_labels(federation)
    ]
    if groups:
        warn_user(
            "Labels of nodes differ only in case, in blanks, or in how letters that "
            "look alike are coded, and are taken for different classes: "
            f"{_first_of(groups)}. If they mean the same, fit the local estimators on "
            "labels written alike. The function unicodedata.normalize('NFC', label) "
            "gives letters with accents one code."
        )


def _groups_of_alike_labels(federation: Federation) -> list[dict[str, str]]:
    """Labels that may mean the same, each with the first node that has seen it."""
    groups: dict[str, dict[str, str]] = {}  # by the bare form of the labels
    told_apart = set()  # bare forms of which one node has seen several labels
    for node in federation.nodes:
        labels = federation.classes[node.seen].tolist()
        texts = [label for label in labels if isinstance(label, str)]
        for label in texts:
            groups.setdefault(bare_label(label), {}).setdefault(label, node.name)
        counts = Counter(bare_label(label) for label in texts)
        told_apart |= {bare for bare, count in counts.items() if count > 1}
    return [
        group
        for bare, group in groups.items()
        if len(group) > 1 and bare not in told_apart
    ]


def _first_of(groups: list[str]) -> str:
    """The first groups in words, and how many others there are."""
    n_others = len(groups) - MOST_LISTED
    if n_others <= 0:
        return "; ".join(groups)
    return f"{'; '.join(groups[:MOST_LISTED])}, and {n_others} others"
