"""Nodes made one region, taken in later, or forgotten: sums add up."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils.validation import check_is_fitted

from ..base import is_channel, is_named, split_by_state
from ..federation import (
    Federation,
    Node,
    Record,
    Summary,
    check_feature_names,
    is_path,
    load_message,
    read_federation,
    read_members,
)
from ..local import Description, indices_of
from ..messages import Message
from ..moments import fewer_parts
from ..networks import Network
from ._likelihood import warn_of_same_rows

# Nodes that are taken in at once, or bytes of their files; of more, groups become one.
GROUP, _GROUP_BYTES = 256, 2**27
# Means that a region sends at most.
PARTS = 512


def merged_summary(aggregator, summaries: Sequence, name: str) -> Summary:
    """One summary of all nodes' rows; its model is their discriminant analysis."""
    region = copy(aggregator).set_params(
        estimators=list(summaries), epsilon="auto", n_rounds=1, pooled=None
    )
    federation = read_federation(region)
    nodes = [region._linear_node(node, federation.classes) for node in federation.nodes]
    stage = region._stage(nodes, federation.classes)
    plan = stage.likelihood_plan(nodes, federation.classes)
    likelihood, found = region._run(federation)(plan)
    warn_of_same_rows(likelihood, federation.names)
    sums = likelihood.loss.moments
    W = likelihood.to_rows(likelihood.discriminant_analysis())
    W -= W.mean(axis=1, keepdims=True)
    labels, form = federation.classes.tolist(), found.form
    rows = _summed_rows(federation.nodes, labels)
    network = Network(
        coefs=(W[:-1],),
        intercepts=(W[-1],),
        activation=(),
        output="softmax",
        classes=federation.classes,
        seen=np.ones(len(labels), dtype=bool),
        n_features_in=len(W) - 1,
        feature_names_in=federation.features.feature_names_in,
    )
    sums = fewer_parts(sums, PARTS)
    # In the order of classes, not of nodes.
    sums = sums.some_parts(np.argsort(sums.columns, kind="stable"))
    content = {
        "labels": labels,
        "moments": sums.as_arrays(),
        "form": {"kind": form.kind, **form.parameters}
        if form.is_exact
        else {"reason": form.reason.rstrip(".")},
        "scaled": found.scaled,
    }
    if any(loss.is_by_class for loss in found.losses):
        content["slopes"] = likelihood.slopes(found.losses)
    else:
        content["slope"] = likelihood.slope
    if region.class_weight == "members" and found.agreed is not None:
        content["class_weight"] = found.agreed
    asked = region._moments_request(stage.seed).content
    there = rows["training"] > 0
    return Summary(
        Message.of(
            "join",
            name=name,
            method=type(aggregator).__name__,
            settings=aggregator._node_settings(),
            describe={"network": network.as_content(), "rows": rows},
            counts={
                "labels": federation.classes[there].tolist(),
                "counts": rows["training"][there],
            },
            answers={"0": {"task": "moments", "asked": asked, "reply": content}},
        )
    )


def in_groups(aggregator, paths: Sequence) -> list[Summary]:
    """Summaries of groups of nodes, cut by what they sent, not by names or order."""
    found = {}
    for path in paths:
        message = load_message(path)  # checked when its group is taken in
        name = str(message.settings.get("name"))
        if name in found:
            raise ValueError(f"estimators has two nodes of the same name: {[name]!r}.")
        found[name] = _key(message), path
    ordered = [path for _, path in sorted(found.values(), key=lambda pair: pair[0])]
    groups, done = [], 0
    for own in _cut(ordered):
        summaries = [Summary.load(path) for path in own]
        groups.append(merged_summary(aggregator, summaries, f"group {len(groups)}"))
        done += len(own)
        aggregator._log(f"{done} of {len(ordered)} summaries are taken in")
    return groups


def _cut(paths: Sequence) -> Iterator[list]:
    """Consecutive files of so many bytes at most, but one at least."""
    group, size = [], 0
    for path in paths:
        own = os.path.getsize(path)
        if group and (len(group) == GROUP or size + own > _GROUP_BYTES):
            yield group
            group, size = [], 0
        group.append(path)
        size += own
    if group:
        yield group


def many_paths(aggregator, nodes) -> bool:
    """Whether summaries on disk are so many that groups become one node each."""
    estimators = aggregator.estimators
    return (
        isinstance(estimators, list)
        and len(estimators) > GROUP
        and all(map(is_path, estimators))
        and nodes is None
        and aggregator.intersection == "likelihood"
        and aggregator._rounds.n == 1
        and not aggregator.keep_replies
        and isinstance(aggregator.epsilon, str)
        and aggregator.node_weight in ("auto", "n_samples")
    )


def _key(message: Message) -> str:
    """A hash of a node's model, whatever its name."""
    found = hashlib.sha256()
    for name, array in sorted(message.arrays.items()):
        if name.startswith("describe."):
            found.update(np.ascontiguousarray(array).data)
    return found.hexdigest()


def _summed_rows(nodes: Sequence[Node], labels: list) -> dict:
    roles = ("judging", "moments", "training")
    rows = {role: np.zeros(len(labels), dtype=np.int64) for role in roles}
    for node in nodes:
        columns = indices_of(node.row_counts["labels"], labels)
        known = columns >= 0
        for role in roles:
            np.add.at(rows[role], columns[known], node.row_counts[role][known])
    return {"labels": labels, **rows}


@dataclass(frozen=True, eq=False)
class Kept:
    """All that a later fit needs of nodes that it does not ask."""

    seed: int | None  # of the requests
    records: dict[str, Record] = field(repr=False)  # by name of the node
    public: tuple = field(repr=False)  # public rows, and their labels

    def without(self, names: Iterable[str]) -> Kept:
        """The same without some nodes."""
        names = set(names)
        left = {name: own for name, own in self.records.items() if name not in names}
        return replace(self, records=left)


def records_of(federation: Federation) -> dict[str, Record]:
    """Records of the nodes that begin with how they would describe themselves."""
    records = {node.name: Record() for node in federation.nodes if node.record is None}
    for node in federation.nodes:
        if node.name in records:
            own = {"network": node.network.as_content(), "rows": node.row_counts}
            described = Message.of("describe", **own)
            records[node.name].keep(Message.of("describe"), described)
    return records


def with_records(federation: Federation, records: Mapping[str, Record]) -> Federation:
    """The same where nodes are known by their records, not by their rows."""
    nodes = []
    for node in federation.nodes:
        record = records.get(node.name)
        if record is not None and node.record is None:
            described = record.get(Message.of("describe")).content
            node = replace(node, record=record, row_counts=described["rows"])
        nodes.append(node)
    return replace(federation, nodes=nodes)


class UpdateForgetMixin:
    """Mixin of GEMSLogisticAggregator: update and forget, from the kept replies."""

    @_fit_context(prefer_skip_nested_validation=False)
    def update(self, estimators, X=None, y=None, nodes=None, held_out=None):
        """Take in new nodes; those that are there are not asked again.

        The model is that of a fit on all nodes, the new ones last, to the bit, since
        replies are summed. A node of a name that is there replaces it.

        Parameters
        ----------
        estimators : list of (name, classifier) tuples
            Fitted local classifiers; or summaries, or paths of such, which have names.
        X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
            Rows of the new nodes. Summaries need none.
        y : array-like of shape (n_samples,), default=None
            Their labels; there may be new ones.
        nodes : array-like of shape (n_samples,), default=None
            Index or name of the new node that owns each row. None: there is one, or no
            two of them know the same class.
        held_out : array-like of shape (n_samples,), dtype bool, default=None
            Rows that only score.

        Returns
        -------
        self : GEMSLogisticAggregator
            ``node_scores_`` of the others are NaN; ``history_`` is that of the messages
            to the new nodes.

        Raises
        ------
        ValueError
            If nothing was kept (see `keep_replies`), classifiers have no names or are
            not fitted, or do not fit the nodes that are there.
        """
        kept = self._replies()
        names, members, summaries = read_members(self, estimators)
        listed = estimators if isinstance(estimators, list | tuple) else [estimators]
        pairs = zip(listed, summaries, strict=True)
        if not all(summary is not None or is_named([own]) for own, summary in pairs):
            raise ValueError(
                "update takes (name, classifier) tuples: a node is known by its name. "
                f"The nodes so far are {self.node_names_}."
            )
        if not split_by_state(names, members):
            raise ValueError("update takes fitted classifiers; these are not fitted.")
        self._check_one_for_all("update")
        given = zip(names, summaries, members, strict=True)
        new = {name: summary or member for name, summary, member in given}
        federation = read_federation(
            copy(self).set_params(estimators=list(new.items())), X, y, nodes, held_out
        )
        self._check_can_keep(federation)
        if federation.has_public_rows:
            raise ValueError(
                "update takes rows of the new nodes only; public rows are those of fit."
            )
        known = dict(zip(self.node_names_, self.estimators_, strict=True))
        self._check_has_spaces(federation, spaces=self._needs_spaces)
        self._refit(known | new, kept.without(new), federation)
        return self

    def forget(self, name: str):
        """Forget a node: the model is that of a fit without it, to the bit.

        The replies of the others are summed anew; nothing is subtracted. Neither this
        object nor its pickle holds anything of the node: it leaves the parameter
        `estimators` too, so that a refit does not bring it back. Nodes left that had no
        name keep their number as name. A classifier that was *trained* with the node's
        help is not undone elsewhere, nor are copies and files.

        Parameters
        ----------
        name : str
            Of the node.

        Returns
        -------
        self : GEMSLogisticAggregator
            With a new list of `estimators`; ``node_scores_`` of the model are NaN.

        Raises
        ------
        ValueError
            If nothing was kept (see `keep_replies`), there is no such node, it is the
            only one, or another would have to be asked again: for a space, where the
            log-loss counts classes that it never saw.
        """
        kept = self._replies()
        if name not in self.node_names_:
            raise ValueError(
                f"There is no node {name!r}; nodes are {self.node_names_}."
            )
        if len(self.node_names_) == 1:
            raise ValueError(f"Node {name!r} is the only one; nothing would be left.")
        self._check_one_for_all("forget")
        left = dict(zip(self.node_names_, self.estimators_, strict=True))
        del left[name]
        estimators = self._estimators_without(name, left)
        self._refit(left, kept.without([name]))
        self.estimators = estimators
        return self

    def _estimators_without(self, name: str, left: dict) -> list:
        """The parameter without a node; the nodes left, where that leaves none."""
        if is_channel(self.estimators):  # which leads to the node
            return list(left.values())
        given = self.estimators
        given = list(given) if isinstance(given, list | tuple) else [given]
        names, _, summaries = read_members(self, self.estimators)
        kept = [
            own if summary is not None or is_named([own]) else (k, own)
            for k, own, summary in zip(names, given, summaries, strict=True)
            if k != name
        ]
        return kept or list(left.items())

    def _check_can_keep(self, federation: Federation) -> None:
        if self.intersection != "likelihood":
            wrong = f"intersection={self.intersection!r} asks nodes about the aggregate"
        elif self._rounds.n > 1:
            wrong = f"n_rounds={self.n_rounds!r} asks nodes about the aggregate"
        elif federation.rows_are_shared:
            wrong = "nodes share rows, since nobody said whose they are (nodes=)"
        else:
            return
        raise ValueError(f"keep_replies keeps what nodes say of themselves: {wrong}.")

    def _check_one_for_all(self, method: str) -> None:
        for parameter in ("epsilon", "node_weight"):
            value = getattr(self, parameter)
            if not isinstance(value, str) and np.ndim(value):
                raise ValueError(
                    f"{method} needs one {parameter} for all nodes, got {value!r}: "
                    "nodes come and go."
                )

    def _replies(self) -> Kept:
        check_is_fitted(self)
        if self._kept is None:
            raise ValueError(
                "What nodes replied was not kept. Set keep_replies=True before fit."
            )
        return self._kept

    def _refit(
        self, members: dict, kept: Kept, coming: Federation | None = None
    ) -> None:
        """Fit again with these nodes; those that are coming can be asked."""
        given = copy(self).set_params(estimators=list(members.items()))
        federation = with_records(read_federation(given), kept.records)
        known = Description.of(self, self.classes_, np.ones_like(self.classes_, bool))
        networks = [node.network for node in federation.nodes]
        names = ["of earlier nodes", *federation.names]
        check_feature_names(names, [known, *networks], None)
        if coming is not None:
            counts = {node.name: node.row_counts for node in coming.nodes}
            nodes = [
                replace(node, row_counts=counts.get(node.name, node.row_counts))
                for node in federation.nodes
            ]
            federation = replace(federation, nodes=nodes)
            kept = replace(kept, records=records_of(coming) | kept.records)
        run = self._run(federation, kept.records)
        if coming is not None:
            run = run.with_nodes_of(self._run(coming))
        X, y = kept.public
        known = np.isin(y, federation.classes)
        features = {
            name: getattr(self, name)
            for name in ("n_features_in_", "feature_names_in_", "_named_by_nodes")
            if hasattr(self, name)
        }
        public = X[known], y[known]
        self._fit_federation(federation, run, public, kept, features=features)
