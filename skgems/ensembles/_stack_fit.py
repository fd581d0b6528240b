"""The fit of a stack: one linear classifier above the log-odds of all members.

Every row goes through all members, and the classifier is made of the moments of their
log-odds at the nodes: of rows that `fit` has, or of summaries that nodes sent.
"""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

import numpy as np
from sklearn.base import BaseEstimator, clone

from ..asking import HeavyTailsWarning, Message
from ..base import BaseAggregator, NodePairs, named_members, validated_for_fit
from ..disclosure import Disclosure
from ..gems import GEMSLogisticAggregator
from ..local import local_model
from ..networks import union_of_classes
from ..parties import Federation, Summary, check_no_label_missing_at, shown_labels
from ..pooled import PooledAggregator, PooledTransformer, shrunk_lda
from ._given_rows import Rows
from ._kept_thresholds import common_threshold
from ._odds import MemberOdds


@dataclass(frozen=True, eq=False, kw_only=True)
class StackFit:
    """The parameters of EnsembleAggregator that decide how a stack is made.

    See EnsembleAggregator for what each parameter means.
    """

    beside: BaseEstimator | None
    summaries: list | None
    disclosure: Disclosure | str | None
    n_jobs: int | None
    random_state: object

    @classmethod
    def from_aggregator(cls, aggregator: BaseAggregator) -> Self:
        """Read the parameters of an EnsembleAggregator that stacks."""
        return cls(
            beside=aggregator.beside,
            summaries=aggregator.summaries,
            disclosure=aggregator.disclosure,
            n_jobs=aggregator.n_jobs,
            random_state=aggregator.random_state,
        )

    def linear_aggregator(self, estimators: list) -> GEMSLogisticAggregator:
        """The linear aggregator of nodes' log-odds, not fitted."""
        return GEMSLogisticAggregator(
            estimators,
            validation_fraction=0.0,
            disclosure=self.disclosure,
            n_jobs=self.n_jobs,
            random_state=self.random_state,
        )

    def attributes(self, federation: Federation) -> dict[str, object]:
        """Fit a model to log-odds of all members; return the attributes."""
        odds = MemberOdds(
            list(zip(federation.names, federation.estimators, strict=True))
        )
        if self.summaries is None:
            stack = self._stack_of_rows(odds, federation)
        else:
            stack = self._stack_of_summaries(odds, federation.classes)
        return {
            **federation.attributes(),
            "classes_": stack.classes_,  # others are in no row
            "odds_": odds,
            "stack_": stack,
            "history_": stack.history_,
            "threshold_": common_threshold(federation),
        }

    def _stack_of_rows(
        self, odds: MemberOdds, federation: Federation
    ) -> BaseAggregator:
        """The model above, fitted with each row at one of its nodes.

        Where there are columns beside the log-odds, they become part of ``odds``.
        """
        X, y, owners, _ = owned_rows(federation)
        if not any(node.seen.sum() > 1 for node in federation.nodes):
            raise ValueError(
                "Every local estimator knows a single class only, so their outputs say "
                "nothing about rows. GEMSLogisticAggregator and PooledAggregator make "
                "one model of the nodes' rows alone."
            )
        alone = NodePairs((name, None) for name in np.unique(owners))
        stack = self.linear_aggregator(alone)
        if self.beside is not None:
            beside = PooledTransformer(clone(self.beside), disclosure=self.disclosure)
            odds.beside = beside.fit(X, nodes=owners)
            stack = PooledAggregator(
                alone, pooled=shrunk_lda(len(y)), disclosure=self.disclosure
            )
        with _ignore_heavy_tails():
            return stack.fit(odds.transform(X), y, nodes=owners)

    def _stack_of_summaries(
        self, odds: MemberOdds, classes: np.ndarray
    ) -> GEMSLogisticAggregator:
        """The model above, fitted to the summaries that nodes sent."""
        with _ignore_heavy_tails():
            stack = self.linear_aggregator(self.summaries).fit()
        columns = odds.get_feature_names_out().tolist()
        sent_columns = getattr(stack, "feature_names_in_", np.array([])).tolist()
        if sent_columns != columns:
            raise ValueError(
                f"The summaries were made from the outputs {sent_columns[:3]}..., but "
                f"the estimators here have the outputs {columns[:3]}.... Give all "
                "nodes the same estimators, in the same order."
            )
        del stack.feature_names_in_
        for name, summary in zip(stack.node_names_, stack.estimators_, strict=True):
            _check_classes_of_stack(
                name=name,
                row_classes=summary.row_counts["labels"],
                member_classes=classes.tolist(),
            )
        return stack


@contextmanager
def _ignore_heavy_tails() -> Iterator[None]:
    """Ignore HeavyTailsWarning: its advice is for features, not for log-odds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HeavyTailsWarning)
        yield


def owned_rows(
    federation: Federation,
) -> tuple[Rows, np.ndarray, np.ndarray, np.ndarray | None]:
    """Rows that are not held out, labels, the name of one owner of each, and groups.

    Labels, names and groups have the shape (n_rows,).
    """
    if federation.X is None:
        raise ValueError(
            "combine='stack' needs rows. Pass X, y and nodes to fit, or summaries, or "
            "set combine='vote'."
        )
    owners = np.full(len(federation.y), "", dtype=object)
    for node in federation.nodes:
        owners[node.moment_rows] = node.name
    owned = np.flatnonzero(owners != "")
    X, y = federation.labeled(owned)
    groups = None if federation.groups is None else federation.groups[owned]
    return X, y, owners[owned], groups


def odds_summary(
    aggregator: BaseAggregator,
    X: Rows,
    y: np.ndarray,
    *,
    name: str,
    held_out: np.ndarray | None,
    disclosure: Disclosure | str | None,
) -> Summary:
    """Summarize the log-odds of all members at one node, for a stack."""
    names, members = named_members(aggregator.estimators)
    odds = MemberOdds(list(zip(names, members, strict=True)))
    check_no_label_missing_at(name, y)
    (X, y), _ = validated_for_fit(aggregator, X, y)
    stack = StackFit.from_aggregator(aggregator).linear_aggregator([])
    summary = stack.summarize(
        None,
        odds.transform(X),
        y,
        name=name,
        held_out=held_out,
        disclosure=disclosure,
    )
    _check_classes_of_stack(
        name=name,
        row_classes=summary.row_counts["labels"],
        member_classes=_classes_of(names, members),
    )
    content = summary.message.content
    column_names = odds.get_feature_names_out().tolist()
    content["describe"]["network"]["feature_names"] = column_names
    return Summary(Message.of("join", **content))


def _classes_of(names: Sequence[str], members: Sequence[BaseEstimator]) -> list:
    """Classes that some of the members have seen."""
    descriptions = [
        local_model(member, name=name).description
        for name, member in zip(names, members, strict=True)
    ]
    return union_of_classes(descriptions, names=names).tolist()


def _check_classes_of_stack(
    *, name: str, row_classes: list, member_classes: list
) -> None:
    """Raise ValueError if rows of a summary have classes that no member has seen."""
    unseen = [label for label in row_classes if label not in set(member_classes)]
    if unseen:
        raise ValueError(
            f"Node {name!r} has rows of the classes {shown_labels(unseen)}, which no "
            "estimator of the stack has seen; the estimators were fitted on the "
            f"classes {shown_labels(member_classes)}. Give the rows the labels that "
            "the estimators were fitted on, or leave these rows out."
        )
