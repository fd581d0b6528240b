"""A node's own side of a plan: its classifier and its rows."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NoReturn

import numpy as np

from ..disclosure import Disclosure, min_rows_of
from ._cache import digest
from ._classifiers import Rows
from ._lookup import local_model
from ._model import LocalModel

# What rows may be used for: to judge models, to be summed, to train on.
ROLES = ("judging", "moments", "training")

_all_rows = partial(slice, None)


def class_sizes(
    codes: np.ndarray, groups: np.ndarray | None, n_classes: int
) -> np.ndarray:
    """Return how many rows, or groups of rows, each class has, (n_classes,)."""
    if groups is None:
        return np.bincount(codes, minlength=n_classes)
    pairs = np.unique(np.column_stack([codes, groups]), axis=0)
    return np.bincount(pairs[:, 0], minlength=n_classes)


class TooFewRowsError(ValueError):
    """A node has so few rows of a class that its reply would reveal them."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Member:
    """What a node answers from, and nobody else sees: its classifier and its rows."""

    name: str
    model: LocalModel = field(repr=False)
    X: Rows = field(repr=False)
    y: np.ndarray = field(repr=False)  # (n_rows,), labels
    # For each role the indices of rows that have it, sorted; a slice: all rows.
    judging: np.ndarray | slice = field(default_factory=_all_rows, repr=False)
    moments: np.ndarray | slice = field(default_factory=_all_rows, repr=False)
    training: np.ndarray | slice = field(default_factory=_all_rows, repr=False)
    # (n_rows,), how much each row counts in sums: the weights that a user gave, and
    # less where nodes share rows. None: once.
    weights: np.ndarray | None = field(default=None, repr=False)
    # (n_rows,), a number for the group of each row, such as the patient, whose rows are
    # not divided when rows are. None: each row is alone. No message tells of groups.
    groups: np.ndarray | None = field(default=None, repr=False)
    # Labels of classes that were too small to be told of, whose rows are not in X.
    left_out: np.ndarray | None = field(default=None, repr=False)
    # The rule for what is told of the rows; None: single rows may be known.
    disclosure: Disclosure | None = field(default=None, repr=False)
    # Whether the rule found weights that were there before it lowered some.
    weights_are_given: bool = field(default=False, repr=False)
    # Whether the rows and their weights have passed the rule, by `ruled`.
    is_ruled: bool = field(default=False, repr=False)
    # Whether the rule has changed a value or a weight.
    is_changed: bool = field(default=False, repr=False)
    # Whether classes may have scatters of their own. Not where the same rows are summed
    # behind another front, too: the columns of all would be too many for a class.
    may_tell_classes: bool = field(default=True, repr=False)
    # Whether products of all its columns were found to hold beside those of the same
    # rows behind other fronts, with these weights, and without clusters.
    is_beside_others: bool = field(default=False, repr=False)
    # How many numbers a row was before it came behind a front or layers, which its
    # values there follow from; None: as many as X has columns.
    n_raw_columns: int | None = field(default=None, repr=False)
    # Columns of X that a classifier which is left aside drops by name, (n_columns,).
    dropped: np.ndarray | None = field(default=None, repr=False)
    # The rows that are told of with noise, see `PrivateRows`. X and y are then made of
    # what is agreed, so that nothing but the noise can depend on a row.
    private_rows: Any = field(default=None, repr=False)
    # What a front that is being fitted has computed of the rows, for its next steps.
    memo: dict = field(default_factory=dict, repr=False)

    @classmethod
    def from_estimator(
        cls,
        name: str,
        estimator: object,
        X: Rows | None,
        y: np.ndarray | None,
        **attributes: object,
    ) -> "Member":
        """Make a member of any classifier; ``attributes`` are further fields."""
        model = local_model(estimator, name=name)
        return cls(name=name, model=model, X=X, y=y, **attributes)

    def digest(self, classifier: bool) -> str | None:
        """A hash of the rows, and if asked for of how the classifier trains.

        It is None where there is none: pickling a user's own class may raise anything.
        """
        try:
            if not classifier:
                return self._rows_digest
            return digest(self._rows_digest, self.model.trainer)
        except Exception:
            return None

    @cached_property
    def _rows_digest(self) -> str:
        # Without weights, groups or rule the digest has no place for them: what is
        # drawn by it, as for trees, is then the same as ever.
        given = {
            "weights": self.weights,
            "groups": self.groups,
            "disclosure": self.disclosure,
        }
        given = [(name, part) for name, part in given.items() if part is not None]
        return digest(
            self.X,
            self.y,
            self.judging,
            self.moments,
            self.training,
            self.left_out,
            self.min_rows,
            None,  # so that what was drawn by earlier digests is drawn again
            *given,
        )

    @property
    def min_rows(self) -> int:
        """The fewest rows that a statistic may be of; 1: single rows may be known."""
        return min_rows_of(self.disclosure)

    @property
    def learning(self) -> np.ndarray | slice:
        """Indices of rows that may be summed or trained on; a slice: all rows."""
        if isinstance(self.moments, slice) or isinstance(self.training, slice):
            return _all_rows()
        return np.union1d(self.moments, self.training)

    @property
    def has_all_rows(self) -> bool:
        """Report whether X has all rows, not a few that were drawn of chunks."""
        return True

    @property
    def has_classifier(self) -> bool:
        """Report whether it has more than rows, as `Network.from_rows` has not."""
        return getattr(self.model.estimator, "has_classifier", True)

    def own_linear(self) -> tuple[np.ndarray, list]:
        """The weights of its model's last layer, and the classes it was fitted on.

        Returns
        -------
        W : ndarray of shape (n_inputs + 1, n_classes)
            The intercepts are the last row.
        labels : list
            Sorted, the label of each column.
        """
        network = self.model.network
        classes = np.unique(network.classes[network.seen])
        return network.aligned(classes).last, classes.tolist()

    def logit_size(self, X: Rows) -> float:
        """Root mean square of its own model's logits of some rows, less their mean."""
        if not X.shape[0]:
            return 0.0
        logits = self.model.network.logits(X)
        logits = logits - logits.mean(axis=1, keepdims=True)
        return float(np.sqrt(np.mean(logits**2)))

    def class_sizes(self) -> dict:
        """The number of rows of each class that models learn from.

        For a class of which no row is learnt from it is the number of all its rows.
        Rows of one group, such as a patient, count as one.
        """
        labels, codes = np.unique(self.y, return_inverse=True)
        # Rows that only score are in no sum by class, so the others must be enough.
        n_learning = self._sizes(codes, self.learning)
        n_all = self._sizes(codes, slice(None))
        sizes = np.where(n_learning > 0, n_learning, n_all)
        return dict(zip(labels.tolist(), sizes.tolist(), strict=True))

    def drop_small_classes(self, min_rows: int | None = None) -> "Member":
        """Return the member without the rows of smaller classes.

        ``min_rows`` is that of its rule if it is None. It raises TooFewRowsError where
        a role has no rows left.
        """
        min_rows = self.min_rows if min_rows is None else min_rows
        small_classes = self._small_classes(min_rows)
        if not small_classes:
            return self
        labels, codes = np.unique(self.y, return_inverse=True)
        is_small = np.array([label in small_classes for label in labels.tolist()])
        is_kept = ~is_small[codes]
        new_index = np.cumsum(is_kept) - 1  # of rows that are kept
        rows_by_role = {}
        for role in ROLES:
            rows = getattr(self, role)
            has_rows = is_kept.any()
            if not isinstance(rows, slice):
                rows = new_index[rows[is_kept[rows]]]
                has_rows = has_rows and len(rows) > 0
            if not has_rows:
                self._raise_too_few(small_classes, min_rows=min_rows, role=role)
            rows_by_role[role] = rows
        return replace(
            self,
            X=self.X[is_kept],
            y=self.y[is_kept],
            judging=rows_by_role["judging"],
            moments=rows_by_role["moments"],
            training=rows_by_role["training"],
            weights=None if self.weights is None else self.weights[is_kept],
            groups=None if self.groups is None else self.groups[is_kept],
            left_out=labels[is_small],
        )

    def _small_classes(self, min_rows: int) -> dict:
        """The number of rows of each class that has fewer than so many."""
        return {c: size for c, size in self.class_sizes().items() if size < min_rows}

    def _sizes(self, codes: np.ndarray, rows: np.ndarray | slice) -> np.ndarray:
        """Return how many of some rows, or of their groups, each class has."""
        groups = None if self.groups is None else self.groups[rows]
        return class_sizes(codes[rows], groups, codes.max(initial=-1) + 1)

    def _raise_too_few(
        self, small_classes: Mapping, *, min_rows: int, role: str
    ) -> NoReturn:
        # Channels tell the server this text, so that it has no sizes of small classes.
        raise TooFewRowsError(
            f"Node {self.name!r} has fewer than min_rows={min_rows} rows of each of "
            f"the classes {list(small_classes)[:10]}, and no other rows for {role}. "
            "Pass a Disclosure with a smaller min_rows if these rows may be known."
        )

    def row_counts(self) -> tuple[list, dict[str, np.ndarray]]:
        """Labels of its rows, sorted, and for each role the number of rows of each."""
        labels, codes = np.unique(self.y, return_inverse=True)
        counts_by_role = {
            role: np.bincount(codes[getattr(self, role)], minlength=len(labels))
            for role in ROLES
        }
        return labels.tolist(), counts_by_role

    def units(self, role: str) -> np.ndarray:
        """Return what counts as one row, such as a patient, of each row of a role."""
        indices = getattr(self, role)
        if self.groups is None:
            return np.arange(len(self.y))[indices]
        return self.groups[indices]

    def row_weights(self, role: str) -> np.ndarray | None:
        """Return weights of the rows of a role, or of "learning" ones; None: 1 each."""
        return None if self.weights is None else self.weights[getattr(self, role)]

    def counted_weights(self, role: str) -> np.ndarray:
        """Return the same with 1 for rows that count once, (n_rows_of_role,)."""
        row_weights = self.row_weights(role)
        if row_weights is None:
            return np.ones(len(self.y))[getattr(self, role)]
        return row_weights

    def weights_by_label(self) -> np.ndarray | None:
        """The weight of the rows that are summed, of each label in `row_counts`."""
        if self.weights is None:
            return None
        labels, codes = np.unique(self.y, return_inverse=True)
        rows = self.moments
        return np.bincount(codes[rows], self.weights[rows], minlength=len(labels))

    def n_rows_if_weighted(self, labels: list) -> np.ndarray | None:
        """The number of rows of each label that sums are of; None without weights."""
        if self.weights_by_label() is None:
            return None
        labels_of_rows, counts_by_role = self.row_counts()
        counts = counts_by_role["moments"].tolist()
        n_rows = dict(zip(labels_of_rows, counts, strict=True))
        return np.array([n_rows.get(label, 0) for label in labels])

    def drop_rows(self) -> "Member":
        """Return the member with its classifier, but no row to judge models."""
        return replace(
            self,
            X=self.X[:0],
            y=self.y[:0],
            judging=_all_rows(),
            weights=None,
            groups=None,
        )

    def sampled_rows(self, *, of_model: bool) -> tuple[Rows, np.ndarray]:
        """Return rows that learn, or some of them, and their labels.

        With ``of_model`` they are of classes that its own model knows.
        """
        return self.rows("learning")

    def rows(self, role: str) -> tuple[Rows, np.ndarray]:
        """Rows that have a role of `ROLES`, or are "learning", and their labels."""
        indices = getattr(self, role)
        if isinstance(indices, slice):  # not even a view of them is made
            return self.X, self.y
        return self.X[indices], self.y[indices]
