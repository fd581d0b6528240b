"""The method of PooledAggregator: all of a fit but scikit-learn's protocol."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from sklearn.base import ClassifierMixin

from ..asking import (
    Run,
    reason_of_trust,
    trust_table,
    warn_of_contradictions,
    warn_of_many_rows,
    warn_of_trust,
)
from ..base import Allows, BaseAggregator, warn_user
from ..local import Member
from ..messages import Reply
from ..moments import (
    PooledForm,
    Trust,
    check_most_liars,
    contradicting_nodes,
    trusted_nodes,
)
from ..parties import (
    Federation,
    PublicRows,
    reply_of,
    warn_of_columns_of_some,
)
from ._chosen_classifier import (
    checked_classifier,
    classifier_named,
    classifiers_of_nodes,
    common_classifier,
)
from ._classifiers import check_scatters, fit_to_sums
from ._disagreement import claims_of_sums
from ._method import MethodOfSums
from ._sums import PooledSums, sums_of_reply
from ._terms import PooledTerms
from ._trees_fit import trees_method
from ._trees_method import TreesMethod
from ._trees_terms import TREES

# Name of the node that has the public rows: the server.
_SERVER = "public"


@dataclass(frozen=True, eq=False, kw_only=True)
class PooledMethod(MethodOfSums):
    """The classifier that the parameters of a PooledAggregator stand for, and its fit.

    See PooledAggregator for what each parameter means.
    """

    allows: ClassVar[Allows] = Allows()
    takes_weights: ClassVar[bool] = True  # whether rows may have weights

    classifier: ClassifierMixin  # what is made of the sums, not fitted
    robust: int = 0  # how many nodes may lie

    @classmethod
    def from_aggregator(cls, aggregator: BaseAggregator) -> "Self | TreesMethod":
        """Read `pooled`, or the nodes' classifiers where it is None.

        Raises ValueError if nodes do not agree, or the classifier cannot be made of
        sums.
        """
        if isinstance(aggregator.pooled, str):
            classifier = classifier_named(aggregator.pooled)
        elif aggregator.pooled is None:
            classifier = common_classifier(classifiers_of_nodes(aggregator))
        else:
            classifier = checked_classifier(aggregator.pooled, place="pooled")
        robust = getattr(aggregator, "robust", 0)  # which earlier pickles lack
        if type(classifier) in TREES.values():
            if robust:
                raise ValueError(
                    f"robust={robust} judges nodes by their class sums, "
                    f"which {type(classifier).__name__} does not ask for. Set "
                    "robust=0, or set pooled= to a classifier that is a function of "
                    "sums."
                )
            return trees_method(classifier, aggregator.random_state)
        return cls(classifier=classifier, robust=robust)

    @property
    def terms(self) -> PooledTerms:
        """Return what nodes and server agree on, without a front."""
        return PooledTerms(classifier=self.classifier)

    def sums_plan(
        self,
        federation: Federation,
        further_replies: Sequence[Reply] = (),
        *,
        used: np.ndarray | None = None,
    ) -> Generator:
        """Plan of the PooledSums; ``further_replies`` are here already.

        ``used`` are the features that are summed, (n_features,), bool; None: all.
        """
        request = self.terms.request(federation.classes)
        replies = yield request
        replies = [reply for _, reply in replies]
        names = federation.names
        factors = [1.0] * len(replies)
        trust = None
        if self.robust:
            trust = self._trust(replies, federation, used=used)
            kept = np.flatnonzero(trust.is_kept).tolist()
            replies = [replies[k] for k in kept]
            names = [names[k] for k in kept]
            factors = trust.factors[kept].tolist()
        pooled_sums = PooledSums.from_replies(
            [*replies, *further_replies],
            names=[*names, _SERVER],
            classes=federation.classes,
            used=used,
            factors=[*factors, *[1.0] * len(further_replies)],
        )
        return replace(pooled_sums, trust=trust)

    def _trust(
        self,
        replies: Sequence[Reply],
        federation: Federation,
        *,
        used: np.ndarray | None,
    ) -> Trust:
        """Judge the nodes by what they replied, as some may lie."""
        claims, variances = claims_of_sums(
            [sums_of_reply(reply, federation.classes, used=used) for reply in replies],
            [node.rows_by_class(federation.classes) for node in federation.nodes],
            federation.classes,
        )
        return trusted_nodes(claims, self.robust, covariance=variances)

    def attributes(self, federation: Federation, run: Run) -> dict[str, object]:
        """Ask for sums, make the classifier of them; return the attributes."""
        check_most_liars(self.robust, len(federation.names))
        public = federation.public
        public_replies = self._replies_of_public_rows(public, federation)
        used = _features_of_all(federation)
        pooled_sums = run(self.sums_plan(federation, public_replies, used=used))
        trust = pooled_sums.trust
        warn_of_trust(federation, trust)
        if trust is None and not federation.rows_are_shared:
            _warn_of_contradicting_nodes(pooled_sums, federation, public)
            warn_of_many_rows(federation.names, federation.rows_in_moments)
        check_scatters(self.classifier, federation.classes, pooled_sums.sharing_nodes)
        sums, columns = pooled_sums.drop_empty_classes(federation.classes)
        if len(columns) < len(federation.classes):
            missing = np.delete(federation.classes, columns).tolist()
            warn_user(
                f"No node has rows of the classes {missing} in its sums, so these "
                "classes are never predicted. Pass rows of them to fit, or have nodes "
                "summarize with a Disclosure of a smaller min_rows."
            )
        classes = federation.classes[columns]
        fitted, rounding_reason = fit_to_sums(self.classifier, sums, classes)
        reason = reason_of_trust(federation.names, trust)
        form = PooledForm(
            kind=type(fitted).__name__,
            parameters=fitted.get_params(),
            reason=reason or pooled_sums.reason or rounding_reason,
        )
        attributes = {
            "classes_": classes,
            "exact_": form.is_exact,
            "pooled_form_": form,
            "trust_": trust_table(federation.names, trust),
            "_fitted": fitted,
            "_used": used,
        }
        return attributes if used is None else {**attributes, "_columns_used": used}

    def _replies_of_public_rows(
        self, public: PublicRows, federation: Federation
    ) -> list[Reply]:
        """Return a node's reply for public rows, in a list; empty without rows."""
        if not len(public.y):
            return []
        request = self.terms.request(federation.classes)
        server = Member.from_estimator(
            _SERVER, None, public.X, public.y, weights=public.weights
        )
        return [reply_of(request, server)]


def _warn_of_contradicting_nodes(
    pooled_sums: PooledSums, federation: Federation, public: PublicRows
) -> None:
    """Warn of nodes whose class means contradict those of the others."""
    classes = federation.classes
    rows_by_class = [node.rows_by_class(classes) for node in federation.nodes]
    names = federation.names
    if len(public.y):  # the server is one more node
        codes = np.searchsorted(classes, public.y)
        rows_by_class.append(np.bincount(codes, minlength=len(classes)))
        names = [*names, _SERVER]
    claims, variances = claims_of_sums(pooled_sums.sums_by_node, rows_by_class, classes)
    covariance = pooled_sums.covariance if variances is None else variances
    warn_of_contradictions(names, contradicting_nodes(claims, covariance=covariance))


def _features_of_all(federation: Federation) -> np.ndarray | None:
    """Return which features no node drops by name; None: all.

    A node sends no sums of features that its classifier drops, so that sums of all rows
    are of the others.
    """
    dropped_by_node = federation.dropped_by_node
    if not dropped_by_node:
        return None
    warn_of_columns_of_some(
        {
            name: dropped_by_node.get(name, np.zeros_like(federation.dropped_by_any))
            for name in federation.names
        },
        federation.labels_of_features,
    )
    if federation.dropped_by_any.all():
        raise ValueError(
            "The classifiers of the nodes drop different features by name, so that "
            "none is left that all nodes use. Fit them on the same features."
        )
    return ~federation.dropped_by_any
