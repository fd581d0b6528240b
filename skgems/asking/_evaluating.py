"""How good a fitted aggregate is at each node, by rows here or by asking nodes."""

from dataclasses import dataclass
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from ..base import BaseAggregator
from ..compat import Interval, safe_indexing, validate_params
from ..disclosure import Disclosure, disclosure_within, min_rows_of
from ..evaluation import (
    Evaluation,
    Steps,
    ToldOfNode,
    evaluation_of,
    told_of_model,
)
from ..local import digest, indices_of, local_model, to_logits
from ..parties import rows_of_nodes
from ..private import raise_needs_more
from ._asked_metrics import asked_over_channel, content_of_layers
from ._judged_models import labels_of_rows, named_members


class EvaluateMixin:
    """Mixin of aggregators whose nodes say how good the aggregate is for them."""

    @validate_params(
        {"threshold": [None, Interval(Real, 0, 1, closed="both")]},
        prefer_skip_nested_validation=True,
    )
    def evaluate(self, X=None, y=None, nodes=None, *, threshold=None) -> Evaluation:
        """Return how good the aggregate is, site by site and over all.

        With rows, these judge the aggregate and the nodes' own models. Without, the
        nodes behind a channel are asked in one more message, and answer by the rows
        that judge models there: those held out, or else all. Numbers of rows are
        rounded under a rule of disclosure, and single rows are not told. Outputs of
        hidden layers that few rows of a class have are replaced there. The AUC of a
        network may then be too high at a small site.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
            Rows that judge. Give rows that no node has used for its fit. Over a channel
            it stays None.
        y : array-like of shape (n_samples,), default=None
            Labels of the rows.
        nodes : array-like of shape (n_samples,), default=None
            Name or index of the node of each row. If None, all rows judge every node's
            model.
        threshold : float, default=None
            For two classes, the probability of the positive class (the second of
            ``classes_``) from which on a row counts as positive. If None, a row counts
            for its most probable class.

        Returns
        -------
        evaluation : Evaluation
            The metrics; print it to read it. Over a channel :meth:`report` has it, too.

        Raises
        ------
        NotFittedError
            If `fit` was not called.
        ValueError
            If there are neither rows nor a channel, if the aggregate knows one class
            only, or if the agreement with the nodes does not name the task "metrics".
        TypeError
            If the aggregate cannot be sent to nodes, as a vote cannot. Pass rows then.

        Examples
        --------
        >>> from sklearn.datasets import load_breast_cancer
        >>> from skgems import GEMSLogisticAggregator
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> sites = (X[:, 1] > 19).astype(int)
        >>> agg = GEMSLogisticAggregator([("lyon", None), ("nice", None)])
        >>> evaluation = agg.fit(X[::2], y[::2], sites[::2]).evaluate(
        ...     X[1::2], y[1::2], sites[1::2]
        ... )
        >>> bool(evaluation.sites["lyon"].auc > 0.9), evaluation.total.support
        (True, {0: 110, 1: 174})
        """
        check_is_fitted(self)
        labels = self.classes_.tolist()
        if len(labels) < 2:
            raise ValueError(
                f"The aggregate knows the class {labels[0]!r} only, which is told from "
                "no other. Fit to rows of two classes at least."
            )
        if threshold is not None and len(labels) > 2:
            raise ValueError(
                f"threshold={threshold!r} is for two classes, but there are "
                f"{len(labels)}: a row counts for its most probable class. Leave "
                "threshold out."
            )
        if X is not None:
            return _evaluated_here(self, X, y, nodes, threshold=threshold)
        if self.privacy is not None:
            raise_needs_more("evaluate without rows")
        evaluation, history = asked_over_channel(
            self, threshold=threshold, has_own=not self._has_front_of_its_own
        )
        self.history_ = self.history_ + history
        self.evaluation_ = evaluation
        return evaluation

    def _model_for_nodes(self) -> dict:
        """Return the model as a message to nodes has it, behind the front."""
        return content_of_layers(self)


# ---- rows in this process ------------------------------------------------------------


def _evaluated_here(
    aggregator: BaseAggregator,
    X: object,
    y: ArrayLike,
    nodes: ArrayLike | None,
    *,
    threshold: float | None,
) -> Evaluation:
    """Return the evaluation by rows that are here."""
    classes = aggregator.classes_
    y = labels_of_rows(X, y, nodes, classes=classes.tolist())
    judging = RowsHere(
        Z=aggregator._rows_of_local_models(X),
        codes=indices_of(y, classes),
        logits=_logits(aggregator, X),
        predicted=indices_of(aggregator.predict(X), classes),
        classes=classes,
        threshold=threshold,
        rule=disclosure_within(aggregator.disclosure),
    )
    rows_of_each = rows_of_nodes(nodes, list(aggregator.node_names_), len(y))
    is_of_node = np.zeros(len(y), dtype=bool)
    is_of_node[np.hstack(rows_of_each)] = True
    rows_of_each = [judging.large_classes(rows) for rows in rows_of_each]
    told = [
        judging.told_of_node(name, member, rows)
        for (name, member), rows in zip(
            named_members(aggregator), rows_of_each, strict=True
        )
    ]
    total = None
    if judging.rule is None:  # else nobody knows the rows of all nodes
        total = judging.told_of_node("all", None, np.unique(np.hstack(rows_of_each)))
    return evaluation_of(
        told,
        classes=classes.tolist(),
        threshold=threshold,
        total=total,
        unknown_labels=judging.unknown_labels(y, is_of_node),
    )


def _logits(aggregator: BaseAggregator, X: object) -> np.ndarray:
    """Return logits (n_rows, n_classes): scores where there are no probabilities."""
    if hasattr(aggregator, "predict_proba"):
        return to_logits(aggregator.predict_proba(X))
    return aggregator._logits(aggregator._validate(X, reset=False))


@dataclass(frozen=True, eq=False, kw_only=True)
class RowsHere:
    """Rows that judge, and what an aggregate says of them."""

    Z: object  # (n_rows, n_features), as local models take them
    codes: np.ndarray  # (n_rows,), the index of each row's class; -1 of no class
    logits: np.ndarray  # (n_rows, n_classes)
    predicted: np.ndarray  # (n_rows,), indices of classes
    classes: np.ndarray
    threshold: float | None
    rule: Disclosure | None

    def large_classes(self, rows: np.ndarray) -> np.ndarray:
        """Return the rows of a node that judge: of classes that it tells of."""
        rows = rows[self.codes[rows] >= 0]
        sizes = np.bincount(self.codes[rows], minlength=len(self.classes))
        return rows[sizes[self.codes[rows]] >= min_rows_of(self.rule)]

    def unknown_labels(self, y: np.ndarray, is_of_node: np.ndarray) -> tuple:
        """Return labels of rows of nodes that are no class of the aggregate."""
        labels, sizes = np.unique(y[(self.codes < 0) & is_of_node], return_counts=True)
        return tuple(labels[sizes >= min_rows_of(self.rule)].tolist())

    def told_of_node(
        self, name: str, member: object | None, rows: np.ndarray
    ) -> ToldOfNode:
        """Return what a node tells; ``member`` is its own model, if it has one."""
        steps = None
        if self.rule is not None:
            steps = Steps.from_rule(
                rows=self.rule.rows,
                min_rows=self.rule.min_rows,
                leverage=self.rule.leverage,
                seed=digest(name, self.codes[rows], self.logits[rows], self.threshold),
            )
        own = None
        if len(rows) and getattr(member, "has_classifier", member is not None):
            model = local_model(member, name=name)
            rows_of_node = safe_indexing(self.Z, rows)
            own = told_of_model(
                to_logits(model.probabilities(rows_of_node, self.classes)),
                model.votes(rows_of_node, self.classes),
                self.codes[rows],
                threshold=self.threshold,
                steps=steps,
            )
        counts = np.bincount(self.codes[rows], minlength=len(self.classes))
        return ToldOfNode(
            name=name,
            n_rows=counts.astype(float).tolist(),
            classes=told_of_model(
                self.logits[rows],
                self.predicted[rows],
                self.codes[rows],
                threshold=self.threshold,
                steps=steps,
            ),
            own=own,
            min_rows=min_rows_of(self.rule),
        )
