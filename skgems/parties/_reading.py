"""Read what a user gave to ``fit`` into a Federation.

Three things are read, one after the other. First the *members*: classifiers, summaries,
or a channel to nodes. Then the *rows*: validated, behind the front, with the node that
owns each; members that are not fitted are trained on them, as a simulation. Last the
*roles*: which rows of each node judge models, make its moments and train it.
"""

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..base import MOST_LISTED, BaseAggregator, encode_labels, warn_user
from ..compat import say
from ..disclosure import Disclosure, disclosure_within
from ..local import LocalModel, Member
from ..networks import Network
from ..steps import Front
from . import _nodes
from ._federation import Federation, Node
from ._given_rows import GivenRows, read_rows, with_owners
from ._labels import bare_label, check_labels, shown_labels, told_apart
from ._members import Members
from ._models import Models, read_models
from ._nodes import Roles
from ._rows import check_is_behind_front, warn_of_another_front
from ._simulation import Simulation, simulate
from ._small_classes import of_large_classes_alone
from ._summary import Summary
from ._weights import WeightedRows


def read_parties(
    aggregator: BaseAggregator,
    given: WeightedRows,
    *,
    members: Members,
    is_simulated: bool,
    simulation: Simulation | None,
    joined: Any,
    front: Front | None,
    front_history: list[dict],
) -> Federation:
    """Return the nodes and their rows, of what was given for them.

    ``given`` has the rows as the front takes them. ``joined`` is the run over the
    channel that the members come from, or None; it is kept for later requests.
    """
    rows = read_rows(
        aggregator,
        given.X,
        given.y,
        nodes=given.nodes,
        held_out=given.held_out,
        groups=given.groups,
        weights=given.weights,
        front=front,
    )
    if is_simulated:
        members, rows = _simulated(
            members,
            rows,
            nodes=given.nodes,
            simulation=simulation or Simulation.from_aggregator(aggregator),
        )
    elif given.nodes is not None:
        rows = with_owners(
            rows,
            given.nodes,
            names=members.names,
            reached=members.names if joined is None else joined.nodes.reached,
        )
    is_front_of_members = front is not None and aggregator._method().takes.learnt
    if is_front_of_members:
        members = _drop_front(members, front, rows)
    members = _with_networks_of_rows_alone(members, rows)
    models = read_models(aggregator, members, rows, has_front=front is not None)
    codes = _encoded_labels(
        models, rows, summaries=members.summaries, is_simulated=is_simulated
    )
    assignment = _assign_rows(models, rows, codes, summaries=members.summaries)
    _check_labels_of_summaries(members.summaries, models.classes)
    disclosure = disclosure_within(aggregator.disclosure)
    federation = Federation(
        nodes=_read_nodes(
            models,
            rows,
            codes,
            assignment=assignment,
            summaries=members.summaries,
            disclosure=disclosure,
        ),
        classes=models.classes,
        features=models.features,
        X=None if rows is None else rows.X,
        y=None if rows is None else codes,
        groups=None if rows is None else rows.groups,
        weights=None if rows is None else rows.weights,
        public_rows=assignment.public_rows,
        rows_are_shared=assignment.rows_are_shared,
        spare_rows=assignment.spare_rows,
        joined=joined,
        front=front,
        front_history=front_history,
        disclosure=disclosure,
    )
    if is_front_of_members and not is_simulated:
        _warn_of_members_of_another_front(federation)
    _warn_of_alike_labels(federation)
    return federation


# ---- members -----------------------------------------------------------------------


def _simulated(
    members: Members,
    rows: GivenRows | None,
    *,
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
        return np.empty(0, dtype=np.intp)
    if rows.owners is not None and not is_simulated:
        _check_labels_of_nodes(models, rows, summaries=summaries)
    return encode_labels(
        rows.y, models.classes, advice_on_nets=_advice_on_nets(models.local_models)
    )


def _advice_on_nets(models: list[LocalModel]) -> str:
    """Say what to do where the classes of a net are numbers of its outputs."""
    for model in models:
        if model.advice_on_labels:
            return f" Node {model.name!r}: {model.advice_on_labels}"
    return ""


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


def _no_rows() -> np.ndarray:
    return np.empty(0, dtype=np.intp)


def _assign_rows(
    models: Models,
    rows: GivenRows | None,
    codes: np.ndarray,
    *,
    summaries: list[Summary | None],
) -> _Assignment:
    """Assign rows to nodes; ``codes`` are the classes of the rows."""
    if rows is None:
        return _Assignment(
            rows_of_nodes=[_no_rows() for _ in summaries],
            public_rows=_no_rows(),
            spare_rows=_no_rows(),
            rows_are_shared=False,
        )
    if rows.owners is not None:
        return _assign_by_owner(rows, len(summaries))
    # Nodes that are not here have sent their statistics; these are rows of others.
    is_here = np.array([summary is None for summary in summaries])
    return _assign_by_class(codes, models.seen & is_here[:, None])


def _assign_by_owner(rows: GivenRows, n_nodes: int) -> _Assignment:
    """Use each row for the node that owns it."""
    is_public = rows.owners == _nodes.PUBLIC
    if rows.held_out is not None:
        is_public &= ~rows.held_out  # what only scores tunes nothing
    return _Assignment(
        rows_of_nodes=[np.flatnonzero(rows.owners == k) for k in range(n_nodes)],
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
        if summary is None:
            roles = _roles_of_member(models, rows, rows_of_node, k=k)
            left_out = None
            if rows is not None and disclosure is not None:
                roles, left_out = _roles_in_large_classes(
                    models.local_models[k],
                    models.classes[codes],
                    roles,
                    groups=rows.groups,
                    disclosure=disclosure,
                )
            row_counts = _row_counts(
                codes,
                roles,
                classes=models.classes,
                weights=None if rows is None else rows.weights,
            )
            node = models.node(k, roles, row_counts=row_counts)
            node = replace(node, left_out=left_out)
            n_rows = len(roles.training)
        else:
            # Rows of a node that has sent its statistics only score the aggregate.
            roles = Roles(judging=rows_of_node, moments=_no_rows(), training=_no_rows())
            node = models.node(k, roles, row_counts=summary.row_counts, summary=summary)
            n_rows = summary.n_rows
        nodes.append(node)
        kind = type(node.model.estimator if summary is None else summary)
        say(
            f"node {node.name}: {kind.__name__}, {node.seen.sum()} classes, "
            f"{n_rows} rows"
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
