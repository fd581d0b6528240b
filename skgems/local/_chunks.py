# SPDX-License-Identifier: BSD-3-Clause
"""A node whose rows come in chunks, read twice: counts and a few rows, then sums."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from ..moments import ClassMoments, RowSums, log_losses, median_of_rows, moments_kind
from ..networks import linear_logits
from ._closed_forms import weights_of
from ._descriptions import indices_of
from ._effective import EffectiveRows
from ._fitting import at_node
from ._member import Member
from ._moments import (
    CLUSTER_ROWS,
    TEMPERATURE_ROWS,
    Centres,
    factor_of,
    gradient_about,
    inverse_deviations,
    moments,
    reply_of,
    weighs_of,
    without_rounding,
)
from ._spreading import ranks, stride


@dataclass(frozen=True, eq=False)
class ChunkedMember(Member):
    """A member whose rows are read; ``X`` and ``y`` are some that are spread over all.

    ``read()`` gives validated X, y and a mask of held-out rows, or None, chunk by
    chunk. ``drawn`` are rows spread over each class, by label.
    """

    read: Callable[[], Iterator[tuple]] = field(default=None, repr=False)
    tally: dict = field(default_factory=dict)  # label: [rows that learn, held out]
    drawn: dict[Any, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def read_once(
        cls, name: str, estimator, read, *, n_drawn=0, least=1
    ) -> ChunkedMember:
        """One after the first pass; classes of fewer rows than ``least`` are not sent.

        Of each class so many rows are drawn, at most; without any no rows are kept.
        """
        model = cls.of(name, estimator, None, None, read=read)
        if not n_drawn:
            return replace(model, tally=_tally(chunk[1:] for chunk in read()))
        tally, drawn = {}, {}
        seen = set() if estimator is None else set(model.own_linear()[1])
        some = _Spread(seen, least, TEMPERATURE_ROWS)
        for X, y, held in read():
            _count(tally, y, held)
            if held is not None:
                X, y = X[~held], y[~held]
            labels, codes = np.unique(y, return_inverse=True)
            some.add(X, y, labels.tolist(), codes)
            for c, label in enumerate(labels.tolist()):
                # Rows of one class change nothing that is drawn of another.
                own = drawn.setdefault(label, _Spread({label}, 1, n_drawn))
                rows = np.flatnonzero(codes == c)
                own.add(X[rows], y[rows], [label], np.zeros(len(rows), dtype=int))
            del X, y, held  # before the next one comes
        drawn = {label: own.rows()[0] for label, own in drawn.items()}
        X, y = some.rows(next(iter(drawn.values()), None))
        return replace(model, X=X, y=y, tally=tally, drawn=drawn)

    def _kept(self) -> list:
        """Labels of classes that are not left out, in order."""
        left_out = () if self.left_out is None else self.left_out.tolist()
        return sorted(set(self.tally) - set(left_out))

    def class_sizes(self) -> dict:
        """As of all members."""
        return {c: int(self.tally[c][0] or self.tally[c][1]) for c in self._kept()}

    def of_large_classes(self, min_rows: int) -> ChunkedMember:
        """As of all members."""
        few = self._few(min_rows)
        if not few:
            return self
        large = replace(self, left_out=np.array(sorted(few)))
        for role, counts in large.row_counts()[1].items():
            if not counts.sum():
                self._raise_too_few(few, min_rows, role)
        return large

    def row_counts(self) -> tuple[list, dict[str, np.ndarray]]:
        """As of all members."""
        labels = self._kept()
        learning, held = np.array([self.tally[c] for c in labels]).reshape(-1, 2).T
        held_out = any(n for _, n in self.tally.values())
        judging = held if held_out else learning
        return labels, {"judging": judging, "moments": learning, "training": learning}

    def learning_rows(self) -> Iterator[tuple]:
        """Rows that learn and labels, chunk by chunk; ValueError if they changed."""
        kept, tally = self._kept(), {}
        for X, y, held in self.read():
            _count(tally, y, held)
            new = set(tally) - set(self.tally)
            if new:
                break
            wanted = np.isin(y, kept) if self.left_out is not None else None
            if held is not None:
                wanted = ~held if wanted is None else wanted & ~held
            if wanted is not None and not wanted.all():
                X, y = X[wanted], y[wanted]
            if len(y):
                yield X, y
            del X, y, held, wanted
        if tally != self.tally:
            raise ValueError(
                f"Node {self.name!r}: chunks() gave other rows the second time, "
                f"{_in_words(tally)} of each class and not {_in_words(self.tally)}. It "
                "is called once a pass, and must start anew and give the same rows."
            )


def _tally(chunks) -> dict:
    tally = {}
    for y, held in chunks:
        _count(tally, y, held)
    return tally


def _count(tally: dict, y, held) -> None:
    """Add rows to numbers of those that learn and are held out, by label."""
    labels, codes = np.unique(y, return_inverse=True)
    held = np.zeros(len(y), dtype=bool) if held is None else held
    counts = [np.bincount(codes[own], minlength=len(labels)) for own in (~held, held)]
    for label, *more in zip(labels.tolist(), *counts, strict=True):
        known = tally.get(label, (0, 0))
        tally[label] = tuple(int(a + b) for a, b in zip(known, more, strict=True))


def _in_words(tally: dict) -> dict:
    return {label: sum(counts) for label, counts in sorted(tally.items())}


class _Spread:
    """Rows that :func:`~skgems.local._spreading.spread` may choose, of some labels.

    No row depends on how many there are of a class that is not sent.
    """

    def __init__(self, labels: set, least: int, n_rows: int) -> None:
        self.labels, self.least, self.n_rows, self.step = labels, least, n_rows, 1
        self.sizes: dict = {}
        self.parts: list[tuple] = []  # rows, labels and ranks

    def add(self, X, y, labels: list, codes) -> None:
        before = np.array([self.sizes.get(label, 0) for label in labels], dtype=int)
        known = np.array([label in self.labels for label in labels], dtype=bool)
        rank = before[codes] + ranks(codes)
        chosen = np.flatnonzero(known[codes] & (rank % self.step == 0))
        if len(chosen):
            self.parts.append((X[chosen], y[chosen], rank[chosen]))
        sizes = before + np.bincount(codes, minlength=len(labels))
        own = zip(labels, sizes.tolist(), known, strict=True)
        self.sizes |= {label: n for label, n, is_known in own if is_known}
        large = [n for n in self.sizes.values() if n >= self.least]
        step = stride(np.array(large, dtype=int), self.n_rows)
        if step > self.step:
            self.step, parts = step, self.parts
            chosen = (np.flatnonzero(rank % step == 0) for _, _, rank in parts)
            self.parts = [
                tuple(own[index] for own in part)
                for part, index in zip(parts, chosen, strict=True)
                if len(index)
            ]

    def rows(self, like=None) -> tuple:
        if not self.parts:
            return like if like is None else like[:0], np.zeros(0)
        X, y, _ = zip(*self.parts, strict=True)
        return _stacked(X), np.concatenate(y)


def _stacked(rows):
    rows = list(rows)
    if len(rows) == 1:
        return rows[0]
    return sparse.vstack(rows, "csr") if sparse.issparse(rows[0]) else np.vstack(rows)


def moments_of_chunks(
    member: ChunkedMember,
    *,
    kind,
    n_components,
    min_cluster_size,
    seed,
    model=None,
    class_weight=None,
) -> dict:
    """What :func:`moments` replies, by a second pass over the rows.

    Clusters are those of rows drawn, so that they are others than of all rows.
    """
    labels, counts = member.row_counts()
    sizes = dict(zip(labels, counts["moments"].tolist(), strict=True))
    own = np.array([label for label in labels if sizes[label]])
    if member.left_out is not None:
        own = np.union1d(own, member.left_out)
    sizes = np.array([sizes.get(label, 0) for label in own.tolist()])
    some = next(iter(member.drawn.values()))
    kind = moments_kind(kind, some.shape[1], len(own), sizes.sum())
    if kind == "roots":  # of rows that are fewer than features, so that all are held
        X, y = zip(*member.learning_rows(), strict=True)
        held = Member.of(member.name, None, _stacked(X), np.concatenate(y))
        held = replace(
            held,
            picklable=member.picklable,
            left_out=member.left_out,
            min_rows=member.min_rows,
        )
        asked = {"min_cluster_size": min_cluster_size, "seed": seed, "model": model}
        asked |= {"n_components": n_components, "class_weight": class_weight}
        return moments(held, kind="auto", **asked)
    least = max(min_cluster_size, CLUSTER_ROWS, member.min_rows)
    drawn = {c: member.drawn[own[c].item()] for c in np.flatnonzero(sizes)}
    n_clusters = np.clip(sizes // least, 1, n_components)
    parts = _Parts.of(drawn, n_clusters, seed)
    with at_node(member.name, "its rows cannot be summed"):
        rows = RowSums(
            kind=kind,
            classes=parts.classes,
            sizes=sizes[parts.classes],
            columns=np.searchsorted(parts.classes, parts.columns),
            shifts=parts.shifts,
            divided=n_components > 1,
            min_cluster_size=min_cluster_size,
        )
    large = np.zeros(len(own), dtype=bool)
    large[parts.classes[rows.large]] = True
    chosen = _stacked([drawn[c] for c in np.flatnonzero(large)])
    every = np.arange(chosen.shape[0])
    origin = median_of_rows(chosen, every, whole=min_cluster_size > 1)
    highest = np.full(some.shape[1], -np.inf) if sparse.issparse(some) else 0.0
    weights, weighs, by_class = None, *weighs_of(member, class_weight)
    if isinstance(class_weight, list):
        weights = weights_of(class_weight, own)
    gradient = _Gradient(member, own, large, origin, model, by_class, weights)
    with at_node(member.name, "its rows cannot be summed"):
        for X, y in member.learning_rows():
            codes = indices_of(y, own)
            rows.add(X, parts.places(X, codes))
            gradient.add(X, codes)
            if sparse.issparse(X):
                highest = np.maximum(highest, X.max(axis=0).toarray().ravel())
            del X, y, codes
        form = _form(some, int(sizes.sum()))
        sums = parts.dissolved(rows.moments(origin, form, highest), least)
    return reply_of(member, own, sums) | weighs | gradient.reply(sums)


def _form(rows, n_rows: int):
    """What stands for so many rows where only form and dtype count."""
    shape = n_rows, rows.shape[1]
    if sparse.issparse(rows):
        return sparse.csc_matrix(shape, dtype=rows.dtype)
    return np.broadcast_to(np.zeros((), dtype=rows.dtype), shape)


@dataclass(frozen=True, eq=False)
class _Parts:
    """Classes, and their clusters, that rows are dealt to."""

    classes: np.ndarray  # (n_present,)
    columns: np.ndarray  # (n_parts,), class of each part, in order
    shifts: np.ndarray  # (n_parts, n_features)
    centres: dict[int, Centres]  # by class, of those that are divided

    @classmethod
    def of(cls, drawn: dict, n_clusters: np.ndarray, seed) -> _Parts:
        classes, centres, shifts = np.array(sorted(drawn)), {}, {}
        if n_clusters[classes].max() > 1:
            n_drawn = [drawn[c].shape[0] for c in classes]
            every = _stacked([drawn[c] for c in classes])
            inverse = inverse_deviations(every, np.repeat(classes, n_drawn))
            seed = check_random_state(seed).randint(2**31 - 1)
        for c in classes.tolist():
            found = np.zeros(drawn[c].shape[0], dtype=int)
            if n_clusters[c] > 1:
                centres[c] = Centres.of(drawn[c], n_clusters[c], inverse, seed)
                found = centres[c].found
            shifts[c] = [
                median_of_rows(drawn[c], np.flatnonzero(found == k))
                for k in range(found.max() + 1)
            ]
        columns = np.repeat(classes, [len(shifts[c]) for c in classes.tolist()])
        return cls(classes, columns, np.concatenate(list(shifts.values())), centres)

    def places(self, X, codes: np.ndarray) -> np.ndarray:
        """The part of each row."""
        places = np.searchsorted(self.columns, codes)
        for c in set(np.unique(codes).tolist()) & set(self.centres):
            own = np.flatnonzero(codes == c)
            places[own] += np.argmin(self.centres[c].distances(X, own), axis=1)
        return places

    def dissolved(self, sums: ClassMoments, least: int) -> ClassMoments:
        """Sums in which clusters of fewer rows are with the nearest of the others."""
        labels = np.arange(len(sums.columns))
        for c, centres in self.centres.items():
            parts = np.flatnonzero(sums.columns == c)
            if not len(parts):
                continue
            sizes, alive = sums.counts[parts].copy(), np.ones(len(parts), dtype=bool)
            while alive.sum() > 1:
                few = int(np.argmin(np.where(alive, sizes, np.inf)))
                if sizes[few] >= least:
                    break
                alive[few] = False
                away = ((centres.centres - centres.centres[few]) ** 2).sum(axis=1)
                near = int(np.argmin(np.where(alive, away, np.inf)))
                sizes[near] += sizes[few]
                labels[parts[labels[parts] == parts[few]]] = parts[near]
        return sums.merged_parts(labels)


class _Gradient:
    """The gradient of the log-loss of the node's own model, by class if need be."""

    def __init__(
        self, member: ChunkedMember, own, large, origin, model, by_class, weights
    ) -> None:
        self.origin, self.weights, self.gradients = origin, weights, None
        self.effective = EffectiveRows.of(1)
        self.group_of = np.arange(len(own)) if by_class else np.zeros(len(own), int)
        self.by_class = by_class
        own_model = model == "own" and member.has_classifier
        self.W, labels = member.own_linear() if own_model else (None, ())
        self.columns = indices_of(own, labels)
        # Rows of a class that is too small for a mean are in no other sum by class.
        self.known = (self.columns >= 0) & large
        if len(labels) < 2 or not self.known.any():
            return
        codes = indices_of(member.y, own)
        some = np.flatnonzero((codes >= 0) & self.known[codes])
        logits = linear_logits(member.X[some], self.W).astype(np.float64)
        self.factor = factor_of(logits, self.columns[codes[some]])
        n_groups = self.group_of.max() + 1
        self.gradients = np.zeros((n_groups, len(origin) + 1, len(labels)))

    def add(self, X, codes: np.ndarray) -> None:
        """Add rows, given the class of each."""
        if self.gradients is None:
            return
        groups = np.where(self.known[codes], self.group_of[codes], -1)
        for g in set(np.unique(groups).tolist()) - {-1}:
            rows = np.flatnonzero(groups == g)
            some = X if len(rows) == len(codes) else X[rows]
            logits = linear_logits(some, self.W).astype(np.float64)
            own = codes[rows]
            residuals = log_losses(self.factor * logits, self.columns[own])[1]
            self.effective.add([residuals], 1.0)
            if self.weights is not None:
                residuals *= self.weights[own][:, None]
            self.gradients[g] += gradient_about(self.origin, some, residuals)

    def reply(self, sums: ClassMoments) -> dict:
        """Factor and gradient as they are sent."""
        if self.gradients is None:
            return {}
        found = without_rounding(self.gradients, sums)
        sent = {"gradients": found} if self.by_class else {"gradient": found[0]}
        effective = float(self.effective.least()[0])
        return {"factor": self.factor, "effective_rows": effective, **sent}
