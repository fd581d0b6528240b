"""A node whose rows come in chunks, read twice: counts and a few rows, then sums."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from ..moments import (
    CLUSTER_ROWS,
    SHARED,
    Centres,
    ClassMoments,
    class_moments,
    inverse_deviations,
    large_classes,
    median_of_rows,
    merge_moments,
    moments_kind,
)
from . import _moments
from ._classifiers import at_node, indices_of
from ._member import Member
from ._seeds import seed_of_rows


@dataclass(frozen=True, eq=False)
class ChunkedMember(Member):
    """A member whose rows ``read()`` gives chunk by chunk; ``X``, ``y`` are some."""

    read: Callable[[], Iterator[tuple]] = field(default=None, repr=False)
    tally: dict = field(default_factory=dict)  # label: [rows that learn, held out]
    drawn: dict[Any, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def read_once(cls, name, estimator, read, *, n_drawn=0, least=1) -> "ChunkedMember":
        """After the first pass; classes of fewer rows than ``least`` are not sent."""
        model, tally, drawn = cls.of(name, estimator, None, None, read=read), {}, {}
        if not n_drawn:
            for _, y, held in read():
                _count(tally, y, held)
            return replace(model, tally=tally)
        seen = set() if estimator is None else set(model.own_linear()[1])
        some = _Spread(seen, least, _moments.TEMPERATURE_ROWS)
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
        left_out = () if self.left_out is None else self.left_out.tolist()
        return sorted(set(self.tally) - set(left_out))

    def class_sizes(self) -> dict:
        return {c: int(self.tally[c][0] or self.tally[c][1]) for c in self._kept()}

    def of_large_classes(self, min_rows: int) -> "ChunkedMember":
        few = self._few(min_rows)
        if not few:
            return self
        large = replace(self, left_out=np.array(sorted(few)))
        for role, counts in large.row_counts()[1].items():
            if not counts.sum():
                self._raise_too_few(few, min_rows, role)
        return large

    def row_counts(self) -> tuple[list, dict[str, np.ndarray]]:
        labels = self._kept()
        learning, held = np.array([self.tally[c] for c in labels]).reshape(-1, 2).T
        judging = held if any(n for _, n in self.tally.values()) else learning
        return labels, {"judging": judging, "moments": learning, "training": learning}

    def learning_rows(self) -> Iterator[tuple]:
        """Rows that learn and labels, chunk by chunk; ValueError if they changed."""
        kept, tally = self._kept(), {}
        for X, y, held in self.read():
            _count(tally, y, held)
            if set(tally) - set(self.tally):
                break
            wanted = np.full(len(y), True) if held is None else ~held
            if self.left_out is not None:
                wanted &= np.isin(y, kept)
            if not wanted.all():
                X, y = X[wanted], y[wanted]
            if len(y):
                yield X, y
            del X, y, held, wanted
        if tally != self.tally:
            now, before = (
                {label: sum(counts) for label, counts in sorted(own.items())}
                for own in (tally, self.tally)
            )
            raise ValueError(
                f"Node {self.name!r}: chunks() gave other rows the second time, {now} "
                f"of each class and not {before}. It must give the same rows each pass."
            )


def _count(tally: dict, y, held) -> None:
    labels, codes = np.unique(y, return_inverse=True)
    held = np.zeros(len(y), dtype=bool) if held is None else held
    counts = [np.bincount(codes[own], minlength=len(labels)) for own in (~held, held)]
    for label, *more in zip(labels.tolist(), *counts, strict=True):
        known = tally.get(label, (0, 0))
        tally[label] = tuple(int(a + b) for a, b in zip(known, more, strict=True))


class _Spread:
    """Rows that `_moments.spread` may choose, whatever there is of classes not sent."""

    def __init__(self, labels: set, least: int, n_rows: int) -> None:
        self.labels, self.least, self.n_rows, self.step = labels, least, n_rows, 1
        self.sizes: dict = {}
        self.parts: list[tuple] = []  # rows, labels and ranks

    def add(self, X, y, labels: list, codes) -> None:
        before = np.array([self.sizes.get(label, 0) for label in labels], dtype=int)
        known = np.array([label in self.labels for label in labels], dtype=bool)
        rank = before[codes] + _moments.ranks(codes)
        chosen = np.flatnonzero(known[codes] & (rank % self.step == 0))
        self.parts.append((X[chosen], y[chosen], rank[chosen]))
        sizes = before + np.bincount(codes, minlength=len(labels))
        own = zip(labels, sizes.tolist(), known, strict=True)
        self.sizes |= {label: n for label, n, is_known in own if is_known}
        large = [n for n in self.sizes.values() if n >= self.least]
        step = _moments.stride(np.array(large, dtype=int), self.n_rows)
        if step > self.step:
            self.step = step
            chosen = [part[2] % step == 0 for part in self.parts]
            pairs = zip(self.parts, chosen, strict=True)
            self.parts = [tuple(own[rows] for own in part) for part, rows in pairs]
        self.parts = [part for part in self.parts if len(part[1])]

    def rows(self, like=None) -> tuple:
        if not self.parts:
            return like if like is None else like[:0], np.zeros(0)
        X, y, _ = zip(*self.parts, strict=True)
        return stacked(X), np.concatenate(y)


def stacked(rows):
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
    penalty=False,
    **asked,
) -> dict:
    """What `moments` replies, by a second pass; clusters are those of rows drawn."""
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
        held = Member(member.name, member.picklable, stacked(X), np.concatenate(y))
        held = replace(held, left_out=member.left_out, min_rows=member.min_rows)
        return _moments.moments(
            held,
            kind="auto",
            n_components=n_components,
            min_cluster_size=min_cluster_size,
            penalty=penalty,
            **asked,
        )
    with at_node(member.name, "its rows cannot be summed"):
        large = large_classes(sizes, min_cluster_size)
    least = max(min_cluster_size, CLUSTER_ROWS, member.min_rows)
    n_clusters = np.clip(sizes // least, 1, n_components)
    drawn = {c: member.drawn[own[c].item()] for c in np.flatnonzero(sizes).tolist()}
    centres = _centres(drawn, n_clusters, seed_of_rows(sizes))
    chosen = stacked([drawn[c] for c in np.flatnonzero(large).tolist()])
    origin = median_of_rows(chosen, np.arange(chosen.shape[0]), min_cluster_size > 1)
    gradient = _moments.OwnGradient(member, own, large, origin, **asked)
    gradient.fit_factor(member.X, member.y, own)
    # Rows of classes that are too small are of one more class, with a part each.
    extra, divided = len(own), n_components > 1 or not large.all()
    number = np.where(large, 0, extra) + np.arange(extra)
    sums, labels = None, np.zeros(0, dtype=np.intp)
    with at_node(member.name, "its rows cannot be summed"):
        for X, y in member.learning_rows():
            codes = indices_of(y, own)
            parts = n_components * number[codes]
            for c in set(np.unique(codes).tolist()) & set(centres):
                rows = np.flatnonzero(codes == c)
                parts[rows] += np.argmin(centres[c].distances(X, rows), axis=1)
            how = {"kind": kind, "parts": parts if divided else None}
            found = class_moments(X, np.minimum(number[codes], extra), **how)
            sums = found if sums is None else merge_moments([sums, found])
            labels = np.append(labels, np.unique(parts))
            order = np.argsort(labels)
            sums = sums.some_parts(order).merged_parts(labels[order])
            labels = np.unique(labels)
            gradient.add(X, codes)
            del X, y, codes, parts, found
        labels = labels % n_components
        sums = sums.merged_parts(_large_clusters(labels, sums, centres, least))
    # The scatter of a few rows of small classes would say what these are.
    sent = (sums.groups < extra) | (sizes[~large].sum() >= min_cluster_size)
    sums = replace(
        sums.some_parts(np.flatnonzero(sums.columns < extra)).about(origin),
        groups=np.where(sums.groups < extra, sums.groups, SHARED)[sent],
        group_counts=sums.group_counts[sent],
        scatter=sums.scatter[sent],
        squares=None if sums.squares is None else sums.squares[: large.sum()],
    )
    if n_components == 1:
        sums = replace(sums, part_squares=None)
    reply = _moments.reply_of(member, own, sums, penalty=penalty)
    return reply | gradient.reply(sums)


def _centres(drawn: dict, n_clusters: np.ndarray, seed: int) -> dict[int, Centres]:
    if n_clusters[list(drawn)].max() == 1:
        return {}
    every = stacked(drawn.values())
    classes = np.repeat(list(drawn), [rows.shape[0] for rows in drawn.values()])
    inverse = inverse_deviations(every, classes)
    seed = check_random_state(seed).randint(2**31 - 1)
    return {
        c: Centres(rows, n_clusters[c], inverse, seed)
        for c, rows in drawn.items()
        if n_clusters[c] > 1
    }


def _large_clusters(clusters, sums: ClassMoments, centres: dict, least) -> np.ndarray:
    """A label for each part, by which small clusters are with the nearest others."""
    found = np.arange(len(clusters))
    for c, own in centres.items():
        parts = np.flatnonzero(sums.columns == c)
        if not len(parts):
            continue
        sizes, places = sums.counts[parts], own.centres[clusters[parts]]
        while np.isfinite(sizes).sum() > 1:
            few = int(np.argmin(sizes))
            if sizes[few] >= least:
                break
            away = ((places - places[few]) ** 2).sum(axis=1)
            n_rows, sizes[few] = sizes[few], np.inf
            near = int(np.argmin(np.where(np.isfinite(sizes), away, np.inf)))
            sizes[near] += n_rows
            found[found == parts[few]] = parts[near]
    return found
