"""A node's own side of a plan: its classifier and its rows."""

from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from ._cache import digest
from ._classifiers import Picklable
from ._lookup import local_model
from ._model import LocalModel

ROLES = ("judging", "moments", "training")
_all = partial(slice, None)


class TooFewRowsError(ValueError):
    """A node has so few rows of a class that its reply would reveal them."""


@dataclass(frozen=True, eq=False)
class Member:
    """What a node answers from, and nobody else sees."""

    name: str
    picklable: Picklable = field(repr=False)
    X: Any = field(repr=False)
    y: np.ndarray = field(repr=False)
    judging: np.ndarray | slice = field(default_factory=_all, repr=False)
    moments: np.ndarray | slice = field(default_factory=_all, repr=False)
    training: np.ndarray | slice = field(default_factory=_all, repr=False)
    weights: np.ndarray | None = field(default=None, repr=False)
    left_out: np.ndarray | None = field(default=None, repr=False)
    min_rows: int = field(default=1, repr=False)
    # How many numbers may still be told about hidden layers; None: nobody counts them.
    layer_numbers_left: int | None = field(default=None, repr=False)
    memo: dict = field(default_factory=dict, repr=False)  # of a front that is fitted

    @classmethod
    def of(cls, name: str, estimator, X, y, **roles) -> "Member":
        return cls(name, Picklable(estimator), X, y, **roles)

    @property
    def model(self) -> LocalModel:
        return local_model(self.picklable.estimator, name=self.name)

    def digest(self, classifier: bool) -> str | None:
        """A hash of the rows, and of how the classifier trains; None if none."""
        try:
            rows = self._rows_digest
            return digest(rows, self.model.trainer) if classifier else rows
        except Exception:  # pickling a user's own class may raise anything
            return None

    @cached_property
    def _rows_digest(self) -> str:
        roles = self.judging, self.moments, self.training
        bounds = self.min_rows, self.layer_numbers_left
        return digest(self.X, self.y, *roles, self.left_out, *bounds)

    @property
    def learning(self) -> np.ndarray | slice:
        parts = self.moments, self.training
        whole = any(isinstance(part, slice) for part in parts)
        return _all() if whole else np.union1d(*parts)

    @property
    def has_classifier(self) -> bool:
        return getattr(self.picklable.estimator, "has_classifier", True)

    def own_linear(self) -> tuple[np.ndarray, list]:
        network = self.model.network()
        own = np.unique(network.classes[network.seen])
        return network.aligned(own).last, own.tolist()

    def logit_size(self, X) -> float:
        """Root mean square of its own model's logits of some rows, less their mean."""
        if not X.shape[0]:
            return 0.0
        logits = self.model.network().logits(X)
        logits = logits - logits.mean(axis=1, keepdims=True)
        return float(np.sqrt(np.mean(logits**2)))

    def class_sizes(self) -> dict:
        """How many rows of each class models are made of; or judged by, if of none."""
        labels, codes = np.unique(self.y, return_inverse=True)
        # Rows that only score are in no sum by class, so the others must be enough.
        learning = np.bincount(codes[self.learning], minlength=len(labels))
        sizes = np.where(learning > 0, learning, np.bincount(codes))
        return dict(zip(labels.tolist(), sizes.tolist(), strict=True))

    def of_large_classes(self, min_rows: int) -> "Member":
        """Without rows of smaller classes; TooFewRowsError where a role has no more."""
        few = self._few(min_rows)
        if not few:
            return self
        labels, codes = np.unique(self.y, return_inverse=True)
        small = np.array([label in few for label in labels.tolist()])
        kept, left_out = ~small[codes], labels[small]
        place, roles = np.cumsum(kept) - 1, {}
        for role in ROLES:
            rows = getattr(self, role)
            if not isinstance(rows, slice):
                rows = roles[role] = place[rows[kept[rows]]]
            if not kept.any() or (not isinstance(rows, slice) and not len(rows)):
                self._raise_too_few(few, min_rows, role)
        roles["weights"] = None if self.weights is None else self.weights[kept]
        return replace(self, X=self.X[kept], y=self.y[kept], left_out=left_out, **roles)

    def _few(self, min_rows: int) -> dict:
        return {c: n for c, n in self.class_sizes().items() if n < min_rows}

    def _raise_too_few(self, few: dict, min_rows: int, role: str) -> None:
        raise TooFewRowsError(
            f"Node {self.name!r} has fewer than min_rows={min_rows} rows of the "
            f"classes {few}, and no others that are for {role}. Set a smaller min_rows "
            "if they may be known."
        )

    def row_counts(self) -> tuple[list, dict[str, np.ndarray]]:
        labels, codes = np.unique(self.y, return_inverse=True)
        return labels.tolist(), {
            role: np.bincount(codes[getattr(self, role)], minlength=len(labels))
            for role in ROLES
        }

    def without_rows(self) -> "Member":
        return replace(self, X=self.X[:0], y=self.y[:0], judging=_all(), weights=None)

    def rows(self, role: str) -> tuple:
        chosen = getattr(self, role)
        if isinstance(chosen, slice):  # not even a view of them is made
            return self.X, self.y
        return self.X[chosen], self.y[chosen]
