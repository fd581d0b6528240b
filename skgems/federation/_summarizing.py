# SPDX-License-Identifier: BSD-3-Clause
"""What a node does with an aggregator that all agreed on: summarize, and send that."""

from __future__ import annotations

import warnings
from copy import copy

import numpy as np
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from ..base import PUBLIC_NAME, named_members, split_by_state
from ..local import Member, local_model
from ..messages import Message
from ._plan import answer
from ._reading import as_mask, check_feature_names, roles_of
from ._summary import Summary

__all__ = ["ClassesLeftOutWarning", "SummarizingMixin", "member_of"]

# What is told of so few rows of a class is nearly the rows.
MIN_ROWS = 10


class RowsExposedWarning(UserWarning):
    """What a node is about to send says of single rows what these are.

    Of fewer rows than features a covariance matrix leaves only directions in which rows
    lie, so that whoever has it can tell a row of the node from another, and find rows
    of whole numbers without knowing any; see the guide's page on privacy.

    Examples
    --------
    >>> from skgems.federation import RowsExposedWarning
    >>> issubclass(RowsExposedWarning, UserWarning)
    True
    """


class ClassesLeftOutWarning(UserWarning):
    """A node leaves classes out of all that it tells, since it has few rows of them.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skgems import GEMSLogisticAggregator
    >>> X, y = np.arange(30.0).reshape(-1, 1), np.repeat([0, 1, 2], [14, 14, 2])
    >>> clf = LogisticRegression().fit(X, y)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     summary = GEMSLogisticAggregator().summarize(clf, X, y, name="lyon")
    >>> print(str(caught[0].message)[:60])
    Node 'lyon' leaves the classes {2: 2} out (rows of each): th
    """


class SummarizingMixin:
    """Mixin of aggregators to which a node needs to tell only one thing."""

    def _questions(self, network, **options) -> list[dict]:
        """What is asked of a node before others are known, but its model and counts."""
        return []

    def _warn_of(self, member: Member, stacklevel: int) -> None:
        """Warn of what sums would not say of the node's rows or classifier."""

    def _check_one_message(self) -> None:
        """Raise ValueError if the method asks nodes more than once."""

    def summarize(
        self, estimator, X, y, *, name, held_out=None, min_rows=MIN_ROWS
    ) -> Summary:
        """Make all that a node sends, at the node.

        The aggregator needs no ``estimators`` for this, only the parameters that all
        nodes and the server have agreed on; it is not changed.

        Parameters
        ----------
        estimator : classifier
            The node's own, fitted. Not altered.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The node's rows, which stay here.
        y : array-like of shape (n_samples,)
            Their labels.
        name : str
            Of the node.
        held_out : array-like of shape (n_samples,), dtype bool, default=None
            Rows that only score. None: all rows do both.
        min_rows : int, default=10
            Classes of which the node has fewer rows are left out of all that is told
            but the classifier, since that would say what these rows are.

        Returns
        -------
        summary : Summary
            To be saved and sent.

        Raises
        ------
        TooFewRowsError
            A ValueError, if there are too few rows of every class.
        ValueError
            If the classifier is not fitted, or rows are not as it knows them, or the
            method asks nodes more than once.

        Warns
        -----
        ClassesLeftOutWarning
            If classes are left out; it names them.
        """
        return self._summarize(estimator, X, y, name, held_out, min_rows)

    def _summarize(
        self, estimator, X, y, name, held_out, min_rows, *, told=None, **options
    ) -> Summary:
        self._validate_params()
        self._check_one_message()
        member = member_of(self, estimator, X, y, name=name, held_out=held_out)
        self._warn_of(member, 4)
        questions = self._questions(member.model.network(), **options)
        return summary_of(self, member, questions, min_rows=min_rows, **(told or {}))


def summary_of(
    aggregator, member: Member, questions: list[dict], *, min_rows: int, **told
) -> Summary:
    """A node's Summary for an aggregator, without classes of too few rows.

    ``questions``, and ``dtype`` and ``rank`` in ``told``, are those of `summarize`.
    """
    member = without_small_classes(member, min_rows, stacklevel=5)
    request = Message.of(
        "summarize",
        method=type(aggregator).__name__,
        settings=aggregator._node_settings() or {},
        questions=questions,
        **told,
    )
    summary = Summary(answer(request, member))
    _warn_of_exposed(summary)
    return summary


def without_small_classes(
    member: Member, min_rows: int, *, stacklevel: int = 2
) -> Member:
    """The member without the rows of classes that it has fewer of, with a warning."""
    large = member.of_large_classes(min_rows)
    if large is member:
        return member
    sizes = member.class_sizes()
    named = {label: sizes[label] for label in large.left_out.tolist()}
    warnings.warn(
        f"Node {member.name!r} leaves the classes {named} out (rows of each): they "
        f"have fewer than min_rows={min_rows}, and what is told of so few says what "
        "they are. What its classifier knows of them is told. Set a smaller min_rows "
        "if these rows may be known.",
        ClassesLeftOutWarning,
        stacklevel=stacklevel,
    )
    return large


def _warn_of_exposed(summary: Summary) -> None:
    """Warn of covariances of fewer rows than features."""
    for own in summary.message.content["answers"].values():
        sums = own["reply"].get("moments")
        if sums is None or "scatter" in sums:
            continue  # none, or variances alone
        n_features = len(sums["origin"])
        if "triangles" in sums:
            starts = np.cumsum([0, *range(n_features, 1, -1)])
            spread = sums["triangles"][:, starts] > 0
        elif {"correlations", "factors"} & set(sums):
            spread = sums["deviations"] > 0
        else:
            continue
        few = sums["group_counts"] <= spread.sum(axis=1)
        if few.any():
            labels = [*own["reply"]["labels"], "all"]  # of the group -1
            named = [labels[group] for group in sums["groups"][few]]
            counts = sums["group_counts"][few].astype(int).tolist()
            warnings.warn(
                f"Node {summary.name!r} tells covariances of fewer rows than features: "
                f"{dict(zip(named, counts, strict=True))} rows of classes, "
                f"{n_features} features. From these rows can be recognised, and found "
                "if they are whole numbers. If that must not be, do not send this: set "
                "moments='diagonal' (or 'shared', if all rows together are more than "
                "features), or a larger min_rows of the aggregator.",
                RowsExposedWarning,
                stacklevel=5,  # who called summarize
            )


def member_of(aggregator, estimator, X, y, *, name: str, held_out=None) -> Member:
    """A node's fitted classifier and rows, validated; ``held_out`` rows only score.

    Raises ValueError if the classifier is not fitted or has other features or no
    ``name``, TypeError if it cannot be read, or for labels neither texts nor numbers.
    """
    if not isinstance(name, str) or not name or name == PUBLIC_NAME:
        raise ValueError(f"name must be a text that names the node, got {name!r}.")
    shell = copy(aggregator)
    shell.estimators = [(name, estimator)]
    names, members = named_members(
        shell.estimators, parameter_names=aggregator._get_param_names()
    )
    if not split_by_state(names, members):
        raise ValueError(f"Node {name!r}: the classifier is not fitted; fit it first.")
    (X, y), features = shell._validated_for_fit(X, y)
    y = column_or_1d(y)
    check_classification_targets(y)
    _check_labels(y, name)
    model = local_model(estimator, name=name)
    description = model.network()
    if description.n_features_in not in (None, features.n_features_in):
        raise ValueError(
            f"X has {features.n_features_in} features, but the classifier of node "
            f"{name!r} was fitted on {description.n_features_in}."
        )
    check_feature_names([name], [description], features.feature_names_in)
    mask = None if held_out is None else as_mask(held_out, X)
    roles = roles_of(name, np.arange(X.shape[0]), mask, None)
    named = dict(zip(("judging", "moments", "training"), roles, strict=True))
    own = {role: rows for role, rows in named.items() if len(rows) < X.shape[0]}
    return Member.of(name, estimator, X, y, **own)


def _check_labels(y: np.ndarray, name: str) -> None:
    kinds = {type(label) for label in np.unique(y).tolist()}
    if len(kinds) != 1 or not kinds <= {str, int, float, bool}:
        raise TypeError(
            f"Node {name!r}: labels are of the types "
            f"{sorted(kind.__name__ for kind in kinds)}; a summary can tell texts, "
            "integers, floats or truth values, all of one type."
        )
