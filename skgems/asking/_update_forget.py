"""Nodes taken in later, or forgotten, while the others are not asked again."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..base import (
    Method,
    NodePairs,
    is_channel,
    is_named,
    keeps_warnings,
    split_by_state,
)
from ..compat import fit_context, shown
from ..local import Description
from ..messages import Message
from ..networks import Network
from ..parties import (
    Federation,
    PublicRows,
    Record,
    Summary,
    check_feature_names,
    read_members,
)
from ..private import raise_needs_more
from ._fitting import run_of, set_attributes
from ._reading import read_federation
from ._withheld import row_numbers


@dataclass(frozen=True, eq=False, kw_only=True)
class KeptReplies:
    """All that a later fit needs of nodes that it does not ask."""

    seed: int | None  # of the requests
    records: dict[str, Record] = field(repr=False)  # by name of the node
    public: PublicRows = field(repr=False)

    def drop(self, names: Iterable[str]) -> "KeptReplies":
        """Return the replies without the records of some nodes."""
        records = {
            name: record for name, record in self.records.items() if name not in names
        }
        return replace(self, records=records)


def records_of(federation: Federation) -> dict[str, Record]:
    """Records of the nodes that begin with how they would describe themselves."""
    records = {}
    for node in federation.nodes:
        if node.record is None:
            record = Record()
            record.keep(
                Message.of("describe"),
                Message.of(
                    "describe",
                    network=_described_network(node.network).as_content(),
                    rows=node.row_counts,
                ),
            )
            records[node.name] = record
    return records


def _described_network(network: Network | Description) -> Network:
    """A Network to describe a node by; without weights where these were not read."""
    if isinstance(network, Network):
        return network
    return Network.from_rows(
        network.classes[network.seen],
        np.zeros((0, network.n_features_in)),
        network.feature_names_in,
    )


@dataclass(frozen=True, kw_only=True)
class _Listed:
    """An entry of ``estimators`` as a user wrote it."""

    entry: object  # a classifier, a (name, classifier) tuple, a summary or its path
    has_name: bool  # whether the entry itself says what the node is called


def _listed(estimators: object, summaries: list[Summary | None]) -> list[_Listed]:
    """The entries of ``estimators``, of which ``summaries`` has those that are some."""
    entries = estimators if isinstance(estimators, list | tuple) else [estimators]
    return [
        _Listed(entry=entry, has_name=summary is not None or is_named([entry]))
        for entry, summary in zip(entries, summaries, strict=True)
    ]


class UpdateForgetMixin:
    """Mixin of aggregators of sums, which can add and forget nodes after a fit.

    Both use the replies that the fit kept, so the other nodes are not asked again.
    """

    @fit_context(prefer_skip_nested_validation=False)
    @keeps_warnings
    @shown
    def update(
        self,
        estimators,
        X=None,
        y=None,
        nodes=None,
        held_out=None,
        *,
        sample_weight=None,
    ) -> Self:
        """Add nodes, or replace nodes of the same name, without asking any other node.

        The model is the same, to the bit, as that of a fit on all nodes with the new
        ones last.

        Parameters
        ----------
        estimators : list of (name, classifier) tuples
            The new nodes: fitted local classifiers, or None for nodes without one. An
            entry may also be a summary or the path of its file, which has a name
            already.
        X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
            Rows of the new nodes, as for ``fit``. Summaries need none.
        y : array-like of shape (n_samples,), default=None
            Labels of the rows.
        nodes : array-like of shape (n_samples,), default=None
            Name of the node of each row. It may be omitted if there is only one new
            node, or if no two of them know the same class.
        held_out : array-like of shape (n_samples,), dtype bool, default=None
            True for held-out rows, as for ``fit``.
        sample_weight : array-like of shape (n_samples,), default=None
            How much each row counts in sums, as for ``fit``.

        Returns
        -------
        self : object
            The fitted aggregator. ``node_scores_`` of the other nodes, if any, are NaN.
            ``history_`` lists the messages to the new nodes only.

        Raises
        ------
        ValueError
            If no replies were kept (see `keep_replies`), public rows are given, or the
            new nodes have no names, are not fitted or do not fit the present nodes.
        """
        kept = self._replies("update")
        new_members = self._read_new_members(estimators)
        federation = read_federation(
            self._with_members(new_members.items()),
            X,
            y,
            nodes,
            held_out,
            sample_weight=sample_weight,
        )
        self._check_can_keep(self._method(), federation)
        if federation.has_public_rows:
            raise ValueError(
                "update takes rows of the new nodes only; public rows are those of "
                "fit. Leave these rows out, or fit again with them."
            )
        members = dict(zip(self.node_names_, self.estimators_, strict=True))
        members |= dict(zip(federation.names, federation.estimators, strict=True))
        self._refit(members, kept.drop(federation.names), federation)
        return self

    def _read_new_members(self, estimators: object) -> dict[str, object]:
        """Fitted classifiers and summaries by the names that a user gave them."""
        names, classifiers, summaries = read_members(self, estimators)
        self._check_bounds(summaries)
        if not all(listed.has_name for listed in _listed(estimators, summaries)):
            raise ValueError(
                "update takes (name, classifier) tuples: a node is known by its name. "
                f"The nodes so far are {self.node_names_}."
            )
        if not split_by_state(names, classifiers):
            raise ValueError(
                "update takes fitted classifiers; these are not fitted. Fit each to "
                "the rows of its node first."
            )
        return {
            name: classifier if summary is None else summary
            for name, classifier, summary in zip(
                names, classifiers, summaries, strict=True
            )
        }

    @keeps_warnings
    def forget(self, name: str) -> Self:
        """Forget a node: the model becomes that of a fit without it, to the bit.

        Neither this object nor its parameter `estimators` nor a pickle of it contains
        anything of the node afterwards. The remaining nodes that had no name keep their
        number as name.

        Parameters
        ----------
        name : str
            Name of the node.

        Returns
        -------
        self : object
            The fitted aggregator with a new list of `estimators`. ``node_scores_`` of
            the model are NaN.

        Raises
        ------
        ValueError
            If no replies were kept (see `keep_replies`), there is no such node, or it
            is the only one. Also if another node would have to be asked again: this
            happens with good-enough spaces by log-loss, where that node counts classes
            which it has never seen.

        Notes
        -----
        Other models that were *trained* with the help of the node are not changed.
        """
        kept = self._replies("forget")
        self._check_can_forget(name)
        members = dict(zip(self.node_names_, self.estimators_, strict=True))
        del members[name]
        estimators = self._estimators_without(name, members)
        self._refit(members, kept.drop([name]))
        # Last, so that a fit that fails leaves the parameter as it was.
        self.estimators = estimators
        return self

    def _check_can_forget(self, name: str) -> None:
        if name not in self.node_names_:
            raise ValueError(
                f"There is no node {name!r}; the nodes are {self.node_names_}."
            )
        if len(self.node_names_) == 1:
            raise ValueError(f"Node {name!r} is the only one; nothing would be left.")
        front = self._agreed_front
        if self._front is not None and front.columns is None and front.asks_nodes:
            raise ValueError(
                f"The front was fitted to statistics of node {name!r} too. Fit again "
                "without the node, or set front to a fitted PooledTransformer that all "
                "nodes keep."
            )

    def _estimators_without(self, name: str, members: dict[str, object]) -> list:
        """The parameter `estimators` without a node; ``members`` are those left.

        Entries that had no name get the one that the node had by its place, which
        would be another after the node is gone.
        """
        if is_channel(self.estimators):  # which leads to the node
            return list(members.values())
        names, _, summaries = read_members(self, self.estimators)
        estimators = [
            listed.entry if listed.has_name else (name_of_entry, listed.entry)
            for name_of_entry, listed in zip(
                names, _listed(self.estimators, summaries), strict=True
            )
            if name_of_entry != name
        ]
        # Empty where one classifier stood for all nodes, and its place is this name.
        return estimators or NodePairs(members.items())

    def _check_bounds(self, summaries: list[Summary | None]) -> None:
        """Raise ValueError if a summary was made with less than was agreed on."""
        agreement = getattr(self.estimators, "agreement", None)
        for summary in summaries:
            if summary is not None and agreement is not None:
                agreement.check_bound(summary.message, summary.name)

    def _check_can_keep(self, method: Method, federation: Federation) -> None:
        """Raise ValueError where nodes would have to be asked again in a later fit."""
        asks_again = method.asks_again(federation)
        if asks_again:
            raise ValueError(
                "keep_replies=True keeps what each node says about itself alone, but "
                f"{asks_again}. Set keep_replies=False."
            )
        if federation.rows_are_shared:
            raise ValueError(
                "keep_replies=True keeps what each node says about itself alone, but "
                "nodes share rows here, since the node of each row was not given. Give "
                "fit the node of each row: fit(X, y, nodes=nodes)."
            )

    def _replies(self, method: str) -> KeptReplies:
        """Return all nodes' kept replies, for a method that asks them nothing."""
        check_is_fitted(self)
        if self.privacy is not None:
            raise_needs_more(method)
        if self._kept is None:
            raise ValueError("No replies were kept. Set keep_replies=True before fit.")
        for parameter in self._method_class.parameters_of_nodes:
            value = getattr(self, parameter)
            if not isinstance(value, str) and np.ndim(value):
                raise ValueError(
                    f"{method} needs one {parameter} for all nodes, since nodes may be "
                    f"added and removed; got {value!r}."
                )
        return self._kept

    def _refit(
        self,
        members: dict[str, object],
        kept: KeptReplies,
        coming: Federation | None = None,
    ) -> None:
        """Fit again with these members; those that are ``coming`` can be asked."""
        federation = read_federation(self._with_members(members.items()))
        _fill_from_records(federation, kept.records)
        if coming is not None:
            _fill_row_counts(federation, coming)
            kept = replace(kept, records=records_of(coming) | kept.records)
        # Names of features at this aggregator are those of nodes that it has forgotten,
        # or rows of fit, too.
        check_feature_names(
            ["of earlier nodes", *federation.names],
            [
                Description.from_classifier(self, self.classes_),
                *(node.network for node in federation.nodes),
            ],
            None,
        )
        run = run_of(self, federation, kept.records)
        if coming is not None:
            run = run.with_nodes_of(run_of(self, coming))
        # Other rows may be of classes of a forgotten node.
        public = kept.public.select_labels(federation.classes)
        set_attributes(
            self,
            self._method().with_seed(kept.seed),
            replace(federation, kept_public=public),
            run,
            **self._features_of_fit(),
            _row_numbers=row_numbers(federation),
            _kept=kept,
        )

    def _features_of_fit(self) -> dict[str, object]:
        """The attributes of features that the first fit set, which stay."""
        names = ("n_features_in_", "feature_names_in_", "_named_by_nodes")
        attributes = vars(self)
        return {name: attributes[name] for name in names if name in attributes}


def _fill_from_records(federation: Federation, records: Mapping[str, Record]) -> None:
    """Give nodes that have no summary their kept records, and the counts in these."""
    for k, node in enumerate(federation.nodes):
        if node.record is None and node.name in records:
            record = records[node.name]
            row_counts = record.get(Message.of("describe")).content["rows"]
            federation.nodes[k] = replace(node, record=record, row_counts=row_counts)


def _fill_row_counts(federation: Federation, coming: Federation) -> None:
    """Give nodes the row counts that they had in the federation that is coming."""
    row_counts = {node.name: node.row_counts for node in coming.nodes}
    for k, node in enumerate(federation.nodes):
        if node.name in row_counts:
            federation.nodes[k] = replace(node, row_counts=row_counts[node.name])
