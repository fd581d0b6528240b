"""Nodes taken in later, or forgotten, while the others are not asked again."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..base import is_channel, is_named, keeps_warnings, split_by_state
from ..compat import fit_context
from ..local import Description
from ..messages import Message
from ..networks import Network
from ..progress import shown
from ._federation import Federation
from ._nodes import check_feature_names
from ._reading import read_federation, read_members
from ._record import Record


@dataclass(frozen=True, eq=False)
class Kept:
    """All that a later fit needs of nodes that it does not ask."""

    seed: int | None  # of the requests
    records: dict[str, Record] = field(repr=False)  # by name of the node
    public: tuple = field(repr=False)  # public rows, and their labels

    def without(self, names: Iterable[str]) -> "Kept":
        left = {k: own for k, own in self.records.items() if k not in names}
        return replace(self, records=left)


def records_of(federation: Federation) -> dict[str, Record]:
    """Records of the nodes that begin with how they would describe themselves."""
    records = {}
    for node in federation.nodes:
        if node.record is None:
            own = node.network
            if isinstance(own, Description):  # whose weights nobody needs
                n, names = own.n_features_in, own.feature_names_in
                own = Network.of_rows(own.classes[own.seen], np.zeros((0, n)), names)
            content = {"network": own.as_content(), "rows": node.row_counts}
            record = records[node.name] = Record()
            record.keep(Message.of("describe"), Message.of("describe", **content))
    return records


def _entries(given, summaries: list) -> list[tuple]:
    listed = given if isinstance(given, list | tuple) else [given]
    pairs = zip(listed, summaries, strict=True)
    return [(own, summary is not None or is_named([own])) for own, summary in pairs]


class UpdateForgetMixin:
    """Mixin of aggregators of sums: update and forget, from the kept replies."""

    _reads_weights = True  # whether the nodes' models are read
    _of_nodes: ClassVar[tuple] = ()  # parameters that may have a value for each node

    def _asks_again(self, federation: Federation) -> str:
        """What asks nodes for more than can be kept, in words; or nothing."""
        return ""

    @fit_context(prefer_skip_nested_validation=False)
    @keeps_warnings
    @shown
    def update(self, estimators, X=None, y=None, nodes=None, held_out=None):
        """Take in new nodes, or others of the same names; no one else is asked again.

        The model is that of a fit on all nodes, the new ones last, to the bit.

        Parameters
        ----------
        estimators : list of (name, classifier) tuples
            Fitted local classifiers, or None; or summaries, or paths of such, which
            have names.
        X, y, nodes, held_out : array-like, default=None
            Rows of the new nodes, as for ``fit``; summaries need none. Without
            ``nodes`` there is one, or no two of them know the same class.

        Returns
        -------
        self : object
            ``node_scores_`` of the others, if any, are NaN; ``history_`` is that of the
            messages to the new nodes.

        Raises
        ------
        ValueError
            If nothing was kept (see `keep_replies`), or nodes have no names, are not
            fitted or do not fit those that are there.
        """
        kept = self._replies("update")
        names, members, summaries = read_members(self, estimators)
        self._check_bounds(summaries)
        if not all(named for _, named in _entries(estimators, summaries)):
            raise ValueError(
                "update takes (name, classifier) tuples: a node is known by its name. "
                f"The nodes so far are {self.node_names_}."
            )
        if not split_by_state(names, members):
            raise ValueError("update takes fitted classifiers; these are not fitted.")
        given = zip(names, summaries, members, strict=True)
        new = {name: summary or member for name, summary, member in given}
        given, how = self._with_members(list(new.items())), self._reads_weights
        federation = read_federation(given, X, y, nodes, held_out, weights=how)
        new = dict(zip(federation.names, federation.estimators, strict=True))
        self._check_can_keep(federation)
        if federation.has_public_rows:
            raise ValueError(
                "update takes rows of the new nodes only; public rows are those of fit."
            )
        known = dict(zip(self.node_names_, self.estimators_, strict=True))
        self._refit(known | new, kept.without(new), federation)
        return self

    @keeps_warnings
    def forget(self, name: str):
        """Forget a node: the model is that of a fit without it, to the bit.

        Neither this object, nor its parameter `estimators`, nor its pickle holds
        anything of the node then. Nodes left that had no name keep their number as
        name. What was *trained* with the node's help is not undone elsewhere.

        Parameters
        ----------
        name : str

        Returns
        -------
        self : object
            With a new list of `estimators`; ``node_scores_`` of the model are NaN.

        Raises
        ------
        ValueError
            If nothing was kept (see `keep_replies`), there is no such node, it is the
            only one, or another would have to be asked again: for a space, where the
            log-loss counts classes that it never saw.
        """
        kept, names = self._replies("forget"), self.node_names_
        if name not in names:
            raise ValueError(f"There is no node {name!r}; nodes are {names}.")
        if len(names) == 1:
            raise ValueError(f"Node {name!r} is the only one; nothing would be left.")
        front = self._agreed_front
        if self._front is not None and front.columns is None and front.asks:
            raise ValueError(
                f"The front was fitted to what node {name!r} told, too: fit again "
                "without it, or give `front` a fitted PooledTransformer that all keep."
            )
        left = dict(zip(names, self.estimators_, strict=True))
        del left[name]
        if is_channel(self.estimators):  # which leads to the node
            estimators = list(left.values())
        else:
            listed, _, summaries = read_members(self, self.estimators)
            own = zip(listed, _entries(self.estimators, summaries), strict=True)
            estimators = [e if named else (k, e) for k, (e, named) in own if k != name]
        self._refit(left, kept.without([name]))
        self.estimators = estimators or list(left.items())
        return self

    def _check_bounds(self, summaries: list) -> None:
        """Raise ValueError if a summary was made with less than was agreed on."""
        agreement = getattr(self.estimators, "agreement", None)
        for summary in summaries:
            if summary is not None and agreement is not None:
                agreement.check_bound(summary.message, summary.name)

    def _check_can_keep(self, federation: Federation) -> None:
        why = self._asks_again(federation)
        if not why and federation.rows_are_shared:
            why = "nodes share rows, since nobody said whose they are (nodes=)"
        if why:
            raise ValueError(f"keep_replies keeps what nodes say of themselves: {why}.")

    def _replies(self, method: str) -> Kept:
        check_is_fitted(self)
        if self._kept is None:
            raise ValueError("No replies were kept. Set keep_replies=True before fit.")
        for parameter in self._of_nodes:
            value = getattr(self, parameter)
            if not isinstance(value, str) and np.ndim(value):
                raise ValueError(
                    f"{method} needs one {parameter} for all nodes, got {value!r}: "
                    "nodes come and go."
                )
        return self._kept

    def _refit(self, members: dict, kept: Kept, coming: Federation | None = None):
        """Fit again with these nodes; those that are coming can be asked."""
        given = self._with_members(list(members.items()))
        federation = read_federation(given, weights=self._reads_weights)
        known = {node.name: node.row_counts for node in coming.nodes} if coming else {}
        for k, node in enumerate(federation.nodes):
            record, own = node.record, known.get(node.name, node.row_counts)
            if record is None and node.name in kept.records:
                record = kept.records[node.name]
                own = record.get(Message.of("describe")).content["rows"]
            federation.nodes[k] = replace(node, record=record, row_counts=own)
        earlier = Description.of(self, self.classes_)
        networks = [earlier, *(node.network for node in federation.nodes)]
        check_feature_names(["of earlier nodes", *federation.names], networks, None)
        if coming is not None:
            kept = replace(kept, records=records_of(coming) | kept.records)
        run = self._run(federation, kept.records)
        if coming is not None:
            run = run.with_nodes_of(self._run(coming))
        X, y = kept.public
        known = np.isin(y, federation.classes)
        names = {"n_features_in_", "feature_names_in_", "_named_by_nodes"}
        features = {name: getattr(self, name) for name in names & set(vars(self))}
        given = federation, run, (X[known], y[known]), kept
        self._fit_federation(*given, features=features)
